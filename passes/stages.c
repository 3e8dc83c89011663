/* SPDX-License-Identifier: MIT
 * stages: a sum over many rows, as that of a channel over all images, is made in two stages - of each row, then of the
 * rows - where another reduction has such rows of what the sum reads. The kernel of these rows then makes the first
 * stage as it goes, and memory is not read again for the sum. */
#include "ir/build.h"
#include "ir/support/alloc.h"
#include "passes/group.h"
#include "passes/pass.h"

enum {
    SHORTEST = 16,    /* elements of a row; sums of shorter ones would be as much memory as what they spare */
    MOST_WALKED = 64, /* nodes between a reduction and what it reads */
};

typedef struct stages {
    unsigned char *rows; /* by node: bit k: some reduction has rows of it, of the dims from k on */
    int *seen, stamp;    /* by node */
    const tcc_node *walk[MOST_WALKED];
    int n;
} stages;

static bool is_work(const tcc_node *n) { return tcc_op_get_info(n->op)->fusion == TCC_FUSION_POINT; }

/* In s->walk: the operand of a reduction and what it is computed from, element by element; of its dims. */
static void walk(stages *s, const tcc_node *operand) {
    const tcc_type *like = &operand->type;
    s->stamp++;
    s->n = 0;
    s->walk[s->n++] = operand;
    s->seen[operand->id] = s->stamp;
    for (int i = 0; i < s->n; i++)
        for (int k = 0; is_work(s->walk[i]) && k < s->walk[i]->n_operands && s->n < MOST_WALKED; k++) {
            const tcc_node *x = s->walk[i]->operands[k];
            if (s->seen[x->id] == s->stamp || !tcc_type_same_dims(&x->type, like)) continue;
            s->seen[x->id] = s->stamp;
            s->walk[s->n++] = x;
        }
}

/* What the walk ends at is in memory, unless it is made of less. */
static bool is_read(const tcc_node *x) {
    return !is_work(x) && x->op != TCC_OP_CONSTANT && x->op != TCC_OP_BROADCAST && x->op != TCC_OP_IOTA;
}

/* The first dim of the rows that a reduction adds up, if they are its last dims; 0: they are not, or all dims. */
static int rows_of(const tcc_node *n) {
    const tcc_dims axes = tcc_reduction_axes(n);
    const int rank = n->operands[0]->type.rank, first = rank - axes.count;
    for (int d = first; d < rank; d++)
        if (!tcc_dims_has(&axes, d)) return 0;
    return first;
}

static void mark_rows(stages *s, const tcc_node *n) {
    const int first = rows_of(n);
    if (!first) return;
    walk(s, n->operands[0]);
    for (int i = 0; i < s->n; i++)
        if (is_read(s->walk[i])) s->rows[s->walk[i]->id] |= (unsigned char)(1U << first);
}

/* The first dim of rows that the sum should add up first; 0: there are none. */
static int first_stage(stages *s, const tcc_node *n) {
    const tcc_type *type = &n->operands[0]->type;
    if (n->op != TCC_OP_REDUCE_SUM || tcc_dtype_is_narrow(n->type.dtype)) return 0;
    const tcc_dims axes = tcc_reduction_axes(n);
    unsigned rows = 0;
    walk(s, n->operands[0]);
    for (int i = 0; i < s->n; i++)
        if (is_read(s->walk[i])) rows |= s->rows[s->walk[i]->id];
    int64_t length = 1, others = 1;
    int first = type->rank, found = 0;
    for (int i = 0; i < axes.count; i++) others *= type->dims[axes.v[i]];
    while (first > 1 && tcc_dims_has(&axes, first - 1)) {
        length *= type->dims[--first];
        if (rows >> first & 1 && length >= SHORTEST && others > length) found = first;
    }
    return found;
}

static tcc_node *in_stages(tcc_rewrite *rw, const tcc_node *n, int first) {
    const tcc_dims axes = tcc_reduction_axes(n);
    tcc_dims inner = {0}, outer = {0};
    for (int i = 0; i < axes.count; i++) {
        tcc_dims *side = axes.v[i] < first ? &outer : &inner;
        side->v[side->count++] = axes.v[i];
    }
    tcc_ir_set_origin(rw->to, n);
    tcc_node *rows = tcc_ir_reduce(rw->to, n->op, rw->map[n->operands[0]->id], &inner);
    return tcc_ir_reduce(rw->to, n->op, rows, &outer);
}

tcc_status tcc_pass_stages(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    (void)cx;
    tcc_rewrite rw;
    const size_t count = (size_t)in->nodes.count + 1;
    stages s = {.rows = tcc__calloc(count, sizeof *s.rows), .seen = tcc__calloc(count, sizeof *s.seen)};
    tcc_status status = s.rows && s.seen ? tcc_rewrite_begin(&rw, in) : tcc_enomem(in->diag);
    for (int id = 0; status == TCC_OK && id < in->nodes.count; id++) {
        const tcc_node *n = in->nodes.data[id];
        if (rw.live[id] && tcc_op_get_info(n->op)->fusion == TCC_FUSION_REDUCE) mark_rows(&s, n);
    }
    for (int id = 0; status == TCC_OK && id < in->nodes.count; id++) {
        const tcc_node *n = in->nodes.data[id];
        if (!rw.live[id]) continue;
        const int first = n->op == TCC_OP_REDUCE_SUM ? first_stage(&s, n) : 0;
        if (first) rw.map[id] = in_stages(&rw, n, first);
        else tcc_rewrite_copy(&rw, n);
    }
    if (status == TCC_OK) status = tcc_rewrite_end(&rw, out);
    tcc__free(s.rows);
    tcc__free(s.seen);
    return status;
}
