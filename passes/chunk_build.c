/* SPDX-License-Identifier: MIT
 * chunk: the graph with a region in chunks, one after the other. */
#include "ir/build.h"
#include "ir/support/alloc.h"
#include "passes/chunk.h"

typedef struct builder {
    const tcc_chunk_region *r;
    tcc_rewrite rw;
    int64_t begin, end; /* units of the chunk at hand */
    int count;          /* chunks */
    int chunk;          /* number of the one at hand */
    tcc_node **part;    /* by old id: what the chunk at hand makes of it */
    tcc_node ***parts;  /* by old id, of joined nodes: the same of each chunk */
} builder;

static tcc_node *slice_rows(builder *b, tcc_node *x, int row) {
    int64_t start[TCC_MAX_RANK], limit[TCC_MAX_RANK], stride[TCC_MAX_RANK];
    for (int d = 0; x && d < x->type.rank; d++) {
        const int64_t extent = x->type.dims[d];
        start[d] = d == row ? extent / b->r->units * b->begin : 0;
        limit[d] = d == row ? extent / b->r->units * b->end : extent;
        stride[d] = 1;
    }
    return tcc_ir_slice(b->rw.to, x, start, limit, stride);
}

static tcc_type type_of_part(const builder *b, const tcc_node *n, int row) {
    tcc_type type = n->type;
    type.dims[row] = type.dims[row] / b->r->units * (b->end - b->begin);
    return type;
}

/* A node like `n` on other operands. */
static tcc_node *build_like(builder *b, const tcc_node *n, tcc_node *const *operands, const tcc_attrs *attrs,
                            const tcc_type *type) {
    const bool typed = tcc_op_get_info(n->op)->flags & TCC_FLAG_TYPED;
    tcc_graph *g = b->rw.to;
    tcc_ir_set_marks(g, n->marks);
    tcc_node *result = tcc_ir_build(g, n->op, operands, n->n_operands, attrs, typed ? type : NULL, n->loc);
    tcc_ir_set_marks(g, 0);
    return result;
}

/* Rows of operand k of `n`, where `row` is its dim that they lie in. */
static tcc_node *operand_part(builder *b, const tcc_node *x, int row) {
    if (row == TCC_CHUNK_ALL) return b->rw.map[x->id];
    if (b->r->role[x->id] == TCC_CHUNK_INSIDE) return b->part[x->id];
    const bool one_value = x->op == TCC_OP_CONSTANT && x->attrs->constant.values.count == 1;
    if (one_value || (x->op == TCC_OP_IOTA && x->attrs->axis.axis != row)) {
        const tcc_type type = type_of_part(b, x, row);
        return build_like(b, x, NULL, x->attrs, &type);
    }
    return slice_rows(b, b->rw.map[x->id], row);
}

/* What the chunk at hand makes of `n`. */
static tcc_node *make_part(builder *b, const tcc_node *n) {
    const tcc_chunk_region *r = b->r;
    const bool inside = r->role[n->id] == TCC_CHUNK_INSIDE;
    const int row = r->row[n->id];
    tcc_node *few[3], **operands = few;
    const int room = (int)(sizeof few / sizeof few[0]);
    if (n->n_operands > room && !(operands = tcc__malloc(sizeof *operands * (size_t)n->n_operands))) {
        tcc_enomem(b->rw.to->diag);
        return NULL;
    }
    tcc_ir_set_origin(b->rw.to, n);
    for (int k = 0; k < n->n_operands; k++) {
        int64_t units = r->units;
        const int d = inside ? tcc_chunk_operand_row(n, row, k, &units) : tcc_chunk_summed_row(r, n, k);
        operands[k] = operand_part(b, n->operands[k], d);
    }
    tcc_ir_set_origin(b->rw.to, n);
    tcc_attrs attrs = *n->attrs;
    const tcc_type type = inside ? type_of_part(b, n, row) : n->type;
    if (n->op == TCC_OP_SLICE && inside) attrs.slice.limit.v[row] = type.dims[row];
    tcc_node *part = build_like(b, n, operands, &attrs, &type);
    if (operands != few) tcc__free(operands);
    return part;
}

/* Adds the part of a sum to what the chunks before gave, f16 and bf16 in f32. */
static tcc_node *add_part(builder *b, const tcc_node *n, tcc_node *sum, tcc_node *part) {
    const tcc_op op = n->op == TCC_OP_REDUCE_MAX ? TCC_OP_MAX : n->op == TCC_OP_REDUCE_MIN ? TCC_OP_MIN : TCC_OP_ADD;
    tcc_ir_set_origin(b->rw.to, n);
    if (op == TCC_OP_ADD) part = tcc_ir_widen(b->rw.to, part);
    return b->chunk ? tcc_ir_binary(b->rw.to, op, sum, part) : part;
}

static void make_chunk(builder *b) {
    const tcc_chunk_region *r = b->r;
    for (int id = 0; id < r->g->nodes.count; id++) {
        const tcc_node *n = r->g->nodes.data[id];
        if (r->role[id] == TCC_CHUNK_OUTSIDE) continue;
        tcc_node *part = make_part(b, n);
        if (!part) return; /* the graph knows */
        if (r->role[id] == TCC_CHUNK_SUM) b->rw.map[id] = add_part(b, n, b->rw.map[id], part);
        else b->part[id] = part;
        if (r->joined[id]) b->parts[id][b->chunk] = part;
    }
}

/* What the region is for the rest of the graph. */
static void finish(builder *b) {
    const tcc_chunk_region *r = b->r;
    tcc_graph *g = b->rw.to;
    for (int id = 0; id < r->g->nodes.count; id++) {
        const tcc_node *n = r->g->nodes.data[id];
        tcc_ir_set_origin(g, n);
        const tcc_attrs attrs = {.axis.axis = r->row[id]};
        if (r->role[id] == TCC_CHUNK_SUM) b->rw.map[id] = tcc_ir_cast(g, b->rw.map[id], n->type.dtype);
        else if (r->joined[id])
            b->rw.map[id] = tcc_ir_build(g, TCC_OP_CONCAT, b->parts[id], b->count, &attrs, NULL, n->loc);
    }
}

/* The last node that the region reads as it is. */
static int last_read(const tcc_chunk_region *r) {
    int last = 0;
    for (int id = 0; id < r->g->nodes.count; id++)
        for (int k = 0; k < r->g->nodes.data[id]->n_operands && r->role[id]; k++) {
            const int x = r->g->nodes.data[id]->operands[k]->id;
            if (r->role[x] == TCC_CHUNK_OUTSIDE && x > last) last = x;
        }
    return last;
}

/* Nodes in their old order; the chunks come as soon as all that they read is there. */
static void build(builder *b) {
    const tcc_chunk_region *r = b->r;
    const int last = last_read(r);
    for (int id = 0; id <= last; id++)
        if (r->live[id] && !r->role[id] && !r->depends[id]) tcc_rewrite_copy(&b->rw, r->g->nodes.data[id]);
    for (b->chunk = 0; b->chunk < b->count; b->chunk++) {
        b->begin = r->units * b->chunk / b->count;
        b->end = r->units * (b->chunk + 1) / b->count;
        make_chunk(b);
    }
    finish(b);
    for (int id = 0; id < r->g->nodes.count; id++)
        if (r->live[id] && !r->role[id]) tcc_rewrite_copy(&b->rw, r->g->nodes.data[id]);
}

static bool make_room(builder *b, tcc_arena *arena) {
    const int count = b->r->g->nodes.count;
    b->part = TCC_ARENA_ARRAY(arena, tcc_node *, count);
    b->parts = TCC_ARENA_ARRAY(arena, tcc_node **, count);
    bool ok = b->part && b->parts;
    for (int id = 0; id < count && ok; id++)
        if (b->r->joined[id]) ok = (b->parts[id] = TCC_ARENA_ARRAY(arena, tcc_node *, b->count));
    return ok;
}

tcc_status tcc_chunk_build(const tcc_chunk_region *r, int count, tcc_graph **out) {
    builder b = {.r = r, .count = count};
    tcc_arena arena = {0};
    TCC_TRY(tcc_rewrite_begin(&b.rw, r->g));
    tcc_status status = TCC_OK;
    if (!make_room(&b, &arena)) {
        tcc_rewrite_abort(&b.rw);
        status = tcc_enomem(r->g->diag);
    } else {
        build(&b);
        status = tcc_rewrite_end(&b.rw, out);
    }
    tcc_arena_free(&arena);
    return status;
}
