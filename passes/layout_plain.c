/* SPDX-License-Identifier: MIT
 * Parts of a network that are better left with channels first.
 *
 * A part is what layout.c would move together: convolutions, pools and resizings with all that follows them, up to
 * values that come or go as they are. Moving it costs a pass over each of those. Most convolutions gain more: their
 * vectors run along channels, over which they sum. A depthwise one sums over no channels, so its vectors may run along
 * rows as well. A part with no other convolutions, pools or resizings gains nothing, and stays. */
#include "ir/support/alloc.h"
#include "passes/group.h"
#include "passes/layout.h"

bool tcc_layout_computes(const tcc_node *n) {
    const tcc_fusion_class fusion = tcc_op_get_info(n->op)->fusion;
    return (fusion == TCC_FUSION_CONTRACT && n->op != TCC_OP_DOT) || fusion == TCC_FUSION_WINDOW;
}

bool tcc_layout_follows(const tcc_node *n) {
    return n->type.rank >= 3 && (tcc_op_get_info(n->op)->fusion == TCC_FUSION_POINT || n->op == TCC_OP_SLICE ||
                                 n->op == TCC_OP_PAD || n->op == TCC_OP_CONCAT || n->op == TCC_OP_FLIP);
}

/* By id. Parts are sets of nodes, each under one of them. */
typedef struct parts {
    int *above;  /* another node of the part, or itself; -1: of no part */
    bool *moves; /* of the node at the top: the part is better moved */
} parts;

static int top_of(const parts *p, int id) {
    while (p->above[id] != id) id = p->above[id] = p->above[p->above[id]];
    return id;
}

static void join(parts *p, int a, int b) {
    a = top_of(p, a), b = top_of(p, b);
    p->above[a] = b;
    p->moves[b] |= p->moves[a];
}

static void move(parts *p, int id) { p->moves[top_of(p, id)] = true; }

static int64_t taps_of(const tcc_type *w) {
    int64_t taps = 1;
    for (int i = 2; i < w->rank; i++) taps *= w->dims[i];
    return taps;
}

/* A few rows are made at once if there is a multiple of a few; else each sum of many products waits for itself. */
static bool waits(const tcc_node *n) {
    enum { MANY = 16, MOST_ROWS = 7 };
    const int64_t rows = n->type.dims[n->type.rank - 2];
    for (int few = 2; few <= MOST_ROWS; few++)
        if (n->type.rank > 3 && rows % few == 0) return false;
    return taps_of(&n->operands[1]->type) >= MANY;
}

/* Whether vectors along the rows of a convolution are as good as along its channels: a kernel has all vectors of a row,
 * and all taps, one by one in its code. */
static bool has_rows(const tcc_node *n, int lanes) {
    enum { MOST_VECTORS = 16, MOST_TAPS = 16 };
    const int row = n->type.rank - 1;
    if (n->op != TCC_OP_CONV && n->op != TCC_OP_CONV_GRAD_INPUT) return false;
    const tcc_attrs_conv *conv = &n->attrs->conv;
    const tcc_type *x = &n->operands[0]->type;
    const bool depthwise = conv->groups > 1 && x->dims[1] == conv->groups && n->type.dims[1] == conv->groups;
    const bool fits = n->type.dims[row] >= lanes && n->type.dims[row] <= (int64_t)MOST_VECTORS * lanes &&
                      n->operands[1]->type.dims[row] <= MOST_TAPS && conv->stride.v[row - 2] == 1;
    const bool narrow = n->type.dtype == TCC_F32 || tcc_dtype_is_narrow(n->type.dtype);
    return !conv->channels_last && narrow && depthwise && fits && !waits(n);
}

/* Its results are in the order of its operands: what reads them belongs to its part. */
static bool hands_on(const parts *p, const tcc_node *n) {
    return p->above[n->id] >= 0 && n->op != TCC_OP_CONV_GRAD_WEIGHT && n->type.rank >= 3;
}

/* Tokens become an image by a transpose and a reshape. */
static const tcc_node *behind_reshapes(const tcc_node *x) {
    while (x->op == TCC_OP_RESHAPE) x = x->operands[0];
    return x;
}

static void visit(parts *p, const tcc_node *n, int lanes) {
    bool any = false;
    for (int i = 0; i < n->n_operands; i++) any |= hands_on(p, n->operands[i]);
    const bool norm = any && tcc_is_batch_norm(n->op);
    if (tcc_layout_computes(n) || norm || (any && tcc_layout_follows(n))) p->above[n->id] = n->id;
    if (tcc_layout_computes(n)) p->moves[n->id] = !has_rows(n, lanes);
    for (int i = 0; i < n->n_operands; i++) {
        const tcc_node *x = n->operands[i], *source = behind_reshapes(x);
        const bool inside = p->above[n->id] >= 0;
        if (inside && hands_on(p, x)) join(p, n->id, x->id);
        /* what is moved on its way in or out would be moved less */
        else if (inside && source->op == TCC_OP_TRANSPOSE) move(p, n->id);
        else if (n->op == TCC_OP_TRANSPOSE && hands_on(p, source)) move(p, source->id);
    }
}

tcc_status tcc_layout_find_plain(const tcc_graph *g, const bool *live, int lanes, bool *plain) {
    const size_t count = (size_t)g->nodes.count + 1;
    if (!lanes) return TCC_OK;
    parts p = {.above = tcc__calloc(count, sizeof *p.above), .moves = tcc__calloc(count, sizeof *p.moves)};
    if (p.above && p.moves) {
        for (int i = 0; i < g->nodes.count; i++) p.above[i] = -1;
        for (int i = 0; i < g->nodes.count; i++)
            if (live[i]) visit(&p, g->nodes.data[i], lanes);
        for (int i = 0; i < g->nodes.count; i++)
            plain[i] = p.above[i] >= 0 && tcc_layout_computes(g->nodes.data[i]) && !p.moves[top_of(&p, i)];
    }
    const bool ok = p.above && p.moves;
    tcc__free(p.above);
    tcc__free(p.moves);
    return ok ? TCC_OK : tcc_enomem(g->diag);
}
