/* SPDX-License-Identifier: MIT
 * stages: a sum over many rows, as that of a channel over all images, is made in two stages - of each row, then of the
 * rows - where another reduction has such rows of what the sum reads. The kernel of these rows then makes the first
 * stage as it goes, and memory is not read again for the sum.
 *
 * Where the rows of another reduction, as those of a norm's group of channels, are several times as long as the stretch
 * of memory that a sum has whole, as a channel of an image, that stretch is a part of such a row. The first stage is
 * then a sum of parts of rows (passes/group.h), of the sum's operand in the dims of the rows. */
#include "ir/build.h"
#include "ir/support/alloc.h"
#include "passes/group.h"
#include "passes/pass.h"
#include "passes/select.h"

enum {
    SHORTEST = 16,    /* elements of a row; sums of shorter ones would be as much memory as what they spare */
    MOST_WALKED = 64, /* nodes between a reduction and what it reads */
    MOST_OPERANDS = 4,
    MOST_MOVED = 16, /* nodes of them one behind the other that are moved to other dims */
};

typedef struct stages {
    unsigned char *rows; /* by node: bit k: some reduction has rows of it, of the dims from k on */
    int *seen, stamp;    /* by node */
    const tcc_node *walk[MOST_WALKED];
    int n;
    const tcc_node **whole; /* by node: a reduction that has rows of it, in whatever dims */
    tcc_node **moved;       /* by node, if `seen`: in the dims of such rows */
    int64_t longest_parts;  /* elements of a row that has parts */
} stages;

static bool is_work(const tcc_node *n) { return tcc_op_get_info(n->op)->fusion == TCC_FUSION_POINT; }

static bool goes_on(const tcc_node *n, bool flat) { return is_work(n) || (flat && n->op == TCC_OP_RESHAPE); }

/* In s->walk: the operand of a reduction and what it is computed from, element by element; of its dims, or `flat`, of
 * any dims in the same order. */
static void walk(stages *s, const tcc_node *operand, bool flat) {
    const tcc_type *like = &operand->type;
    s->stamp++;
    s->n = 0;
    s->walk[s->n++] = operand;
    s->seen[operand->id] = s->stamp;
    for (int i = 0; i < s->n; i++)
        for (int k = 0; goes_on(s->walk[i], flat) && k < s->walk[i]->n_operands && s->n < MOST_WALKED; k++) {
            const tcc_node *x = s->walk[i]->operands[k];
            if (s->seen[x->id] == s->stamp || !(flat || tcc_type_same_dims(&x->type, like))) continue;
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

/* Elements of the dims from `first` on. */
static int64_t length_from(const tcc_type *type, int first) {
    int64_t length = 1;
    for (int d = first; d < type->rank; d++) length *= type->dims[d];
    return length;
}

static void mark_rows(stages *s, const tcc_node *n) {
    const int first = rows_of(n);
    if (!first) return;
    walk(s, n->operands[0], false);
    for (int i = 0; i < s->n; i++)
        if (is_read(s->walk[i])) s->rows[s->walk[i]->id] |= (unsigned char)(1U << first);
    const int64_t length = length_from(&n->operands[0]->type, first);
    if (length > s->longest_parts || tcc_type_numel(&n->operands[0]->type) / length < TCC_PARTS_LEAST_ROWS) return;
    walk(s, n->operands[0], true);
    for (int i = 0; i < s->n; i++)
        if (is_read(s->walk[i]) && !s->whole[s->walk[i]->id]) s->whole[s->walk[i]->id] = n;
}

/* The first dim of rows that the sum should add up first; 0: there are none. */
static int first_stage(stages *s, const tcc_node *n) {
    const tcc_type *type = &n->operands[0]->type;
    if (n->op != TCC_OP_REDUCE_SUM || tcc_dtype_is_narrow(n->type.dtype)) return 0;
    const tcc_dims axes = tcc_reduction_axes(n);
    unsigned rows = 0;
    walk(s, n->operands[0], false);
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

/* -- Parts of rows -- */

/* The first of the last dims that a sum adds up; 0: all dims. */
static int first_of_stretch(const tcc_node *n, const tcc_dims *axes) {
    int first = n->operands[0]->type.rank;
    while (first > 0 && tcc_dims_has(axes, first - 1)) first--;
    return first;
}

/* The dim of the operand of `rows` from which on it has so many elements, where that is a part of its rows; 0: there is
 * none. */
static int first_of_part(const tcc_node *rows, int64_t length) {
    const tcc_type *type = &rows->operands[0]->type;
    for (int d = type->rank - 1; d > rows_of(rows); d--)
        if (length_from(type, d) == length) return length_from(type, rows_of(rows)) > length ? d : 0;
    return 0;
}

/* A reduction with rows, of what the sum reads, of which the stretches that the sum adds up are parts: those from dim
 * *part on; NULL: there is none. */
static const tcc_node *find_rows_of_parts(stages *s, const tcc_node *n, int *part) {
    if (n->op != TCC_OP_REDUCE_SUM || !tcc_dtype_is_float(n->type.dtype) || tcc_dtype_is_narrow(n->type.dtype))
        return NULL;
    const tcc_dims axes = tcc_reduction_axes(n);
    const int first = first_of_stretch(n, &axes);
    const int64_t length = length_from(&n->operands[0]->type, first);
    if (first == 0 || length < TCC_PARTS_SHORTEST) return NULL;
    walk(s, n->operands[0], true);
    for (int i = 0; i < s->n; i++) {
        const tcc_node *rows = is_read(s->walk[i]) ? s->whole[s->walk[i]->id] : NULL;
        *part = rows ? first_of_part(rows, length) : 0;
        if (*part) return rows;
    }
    return NULL;
}

/* Whether work says nothing of its dims: an index of a dim does, and so do random draws. */
static bool may_move(const tcc_node *n) {
    bool may = is_work(n) && !tcc_op_draws(n->op) && n->n_operands > 0 && n->n_operands <= MOST_OPERANDS;
    for (int k = 0; k < n->n_operands; k++) may = may && tcc_type_same_dims(&n->operands[k]->type, &n->type);
    return may;
}

/* x with the dims `like`, in the same order. Work on what has these dims is done in them, for a view of what a kernel
 * computes would end it. */
static tcc_node *move(stages *s, tcc_rewrite *rw, const tcc_node *x, const tcc_type *like, int depth) {
    if (s->seen[x->id] == s->stamp) return s->moved[x->id];
    const tcc_node *y = x;
    while (y->op == TCC_OP_RESHAPE && !tcc_type_same_dims(&y->type, like)) y = y->operands[0];
    tcc_node *made = NULL;
    if (tcc_type_same_dims(&y->type, like)) {
        made = rw->map[y->id];
    } else if (may_move(y) && depth < MOST_MOVED) {
        tcc_node *operands[MOST_OPERANDS] = {0};
        for (int k = 0; k < y->n_operands; k++) operands[k] = move(s, rw, y->operands[k], like, depth + 1);
        tcc_type type = *like;
        type.dtype = y->type.dtype;
        made = tcc_ir_build(rw->to, y->op, operands, y->n_operands, y->attrs, &type, y->loc);
    } else {
        made = tcc_ir_reshape(rw->to, rw->map[y->id], like->rank, like->dims);
    }
    s->seen[x->id] = s->stamp;
    return s->moved[x->id] = made;
}

static tcc_node *in_parts(stages *s, tcc_rewrite *rw, const tcc_node *n, const tcc_node *rows, int part) {
    const tcc_type *type = &n->operands[0]->type, *like = &rows->operands[0]->type;
    const tcc_dims axes = tcc_reduction_axes(n);
    const int first = first_of_stretch(n, &axes);
    tcc_dims inner = {0}, outer = {0};
    for (int d = part; d < like->rank; d++) inner.v[inner.count++] = d;
    for (int i = 0; i < axes.count; i++)
        if (axes.v[i] < first) outer.v[outer.count++] = axes.v[i];
    tcc_ir_set_origin(rw->to, n);
    s->stamp++;
    tcc_node *parts = tcc_ir_reduce(rw->to, n->op, move(s, rw, n->operands[0], like, 0), &inner);
    parts = tcc_ir_reshape(rw->to, parts, first, type->dims);
    return outer.count ? tcc_ir_reduce(rw->to, n->op, parts, &outer) : parts;
}

static tcc_node *rewrite(stages *s, tcc_rewrite *rw, const tcc_node *n) {
    int part;
    const int first = first_stage(s, n);
    if (first) return in_stages(rw, n, first);
    const tcc_node *rows = find_rows_of_parts(s, n, &part);
    return rows ? in_parts(s, rw, n, rows, part) : NULL;
}

tcc_status tcc_pass_stages(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    const tcc_pass_target *target = cx->options ? cx->options->target : NULL;
    tcc_rewrite rw;
    const size_t count = (size_t)in->nodes.count + 1;
    stages s = {.rows = tcc__calloc(count, sizeof *s.rows),
                .seen = tcc__calloc(count, sizeof *s.seen),
                .whole = tcc__calloc(count, sizeof *s.whole),
                .moved = tcc__calloc(count, sizeof *s.moved),
                .longest_parts = target ? target->longest_parts : INT64_MAX};
    tcc_status status = s.rows && s.seen && s.whole && s.moved ? tcc_rewrite_begin(&rw, in) : tcc_enomem(in->diag);
    for (int id = 0; status == TCC_OK && id < in->nodes.count; id++) {
        const tcc_node *n = in->nodes.data[id];
        if (rw.live[id] && tcc_op_get_info(n->op)->fusion == TCC_FUSION_REDUCE) mark_rows(&s, n);
    }
    for (int id = 0; status == TCC_OK && id < in->nodes.count; id++) {
        const tcc_node *n = in->nodes.data[id];
        if (!rw.live[id]) continue;
        tcc_node *made = n->op == TCC_OP_REDUCE_SUM ? rewrite(&s, &rw, n) : NULL;
        if (made) rw.map[id] = made;
        else tcc_rewrite_copy(&rw, n);
    }
    if (status == TCC_OK) status = tcc_rewrite_end(&rw, out);
    tcc__free(s.rows);
    tcc__free(s.seen);
    tcc__free(s.whole);
    tcc__free(s.moved);
    return status;
}
