/* SPDX-License-Identifier: MIT
 * chunk: runs the work around a wide product, such as a language model's head and its loss, in chunks of its rows. So
 * the product is never whole in memory.
 *
 * Let logits = x W^T be N x V, with x N x D. The loss takes each row of logits to a few values, and the gradient of a
 * row needs no other row. So a chunk of n rows passes through all of the work: its logits, their softmax, their
 * gradient, and its parts of dx, dW and a bias's gradient. The parts of dx are joined; those of dW and a bias's
 * gradient are added up in f32. Then the chunk's logits are dead. Nothing is computed twice. Nothing here knows a loss
 * by its name: the region is what chunk_region.c finds, and any of its operations that works row by row may be in it. A
 * value that another row's logits change (a norm over the batch), or logits that are read elsewhere, leave the product
 * whole.
 *
 * What it saves. In a training step the head runs when all values that backward needs are alive, so its logits add to
 * the peak. All but one chunk of them is saved: (1 - 1/k) N V elements for k = N / n chunks. That must be at least
 * LEAST_BYTES, and more than the memory of the sums. (A library's call writes new sums beside the old ones; ours grow
 * in place.)
 *
 * What it costs. Three products make 6 n D V flop a chunk, and each chunk but the first reads and writes dW once more:
 * 8 D V bytes. So the added time is b / (0.75 n) of the products' time on a machine that makes b flop in the time of a
 * byte. With n = 1024 and b = 20, which is usual for f32, that is 2.6 %. In 16 bits products are about four times as
 * fast, and n is 2048: 5 %. A head takes a quarter of the time of a small model and less of a large one. So a step
 * takes at most 1 % longer, and gains where logits would have left the cache. A region must be WIDE times as wide as
 * the values that enter and leave it by rows. A head is; the inner layer of an MLP is not, and saves no more rows than
 * its neighbours.
 *
 * Where rows lie in several dims, as in [B,T,V], the outermost that will do is cut, so that chunks are contiguous. If
 * its extents are large, their chunks are cut again.
 *
 * The order of the sums in dW depends on the chunks. These depend on the graph and on options.chunk_rows alone, never
 * on free memory. */
#include "passes/chunk.h"

#include "ir/support/alloc.h"
#include "passes/pass.h"

#include <stdlib.h>

enum {
    ROWS = 1024,     /* of a chunk, by cost */
    LOW_ROWS = 2048, /* where the product is in 16 bits */
    MOST = 32, /* chunks: with more rows, a chunk has more, since more chunks would save 3 % of the logits at most */
    WIDE = 8,
};
#define LEAST_BYTES (INT64_C(64) << 20)

/* How many rows the product has along the dims that an operand with rows gives it: all of that operand's but the
 * contracted ones. */
static int64_t count_rows(const tcc_node *dot, int row) {
    int64_t units = dot->type.dims[row], rows = 1;
    const int side = tcc_chunk_operand_row(dot, row, 0, &units) >= 0 ? 0 : 1;
    const tcc_dims *contract = side ? &dot->attrs->dot.contract_b : &dot->attrs->dot.contract_a;
    const tcc_type *type = &dot->operands[side]->type;
    for (int d = 0; d < type->rank; d++)
        if (!tcc_dims_has(contract, d)) rows *= type->dims[d];
    return rows;
}

/* Into how many chunks of at most `most` rows; where units have more, of a unit each. */
static int64_t count_chunks(const tcc_chunk_region *r, int row, int64_t most) {
    const int64_t unit_rows = count_rows(r->wide, row) / r->units;
    const int64_t units = unit_rows < most ? most / unit_rows : 1;
    return (r->units + units - 1) / units;
}

/* Whether the rule at the head of this file is for it. */
static bool pays(tcc_chunk_region *r, int64_t chunks) {
    const int64_t bytes = tcc_type_bytes(&r->wide->type), saved = bytes - bytes / chunks;
    int64_t narrow = 1, sums = 0;
    for (int id = 0; id < r->g->nodes.count; id++) {
        const tcc_type *type = &r->g->nodes.data[id]->type;
        const int64_t elements = tcc_type_numel(type);
        if (r->joined[id] && elements > narrow) narrow = elements;
        if (r->role[id] == TCC_CHUNK_SUM) sums += tcc_type_bytes(type);
    }
    r->reason = "it would save little";
    return saved >= LEAST_BYTES && saved > sums && tcc_type_numel(&r->wide->type) >= WIDE * narrow;
}

/* In how many chunks to run what is around `dot`; 1: whole. */
static int64_t decide(const tcc_pass_cx *cx, tcc_chunk_region *r, const tcc_node *dot) {
    const int64_t given = cx->options ? cx->options->chunk_rows : 0;
    const bool low = tcc_dtype_is_narrow(dot->type.dtype);
    const int64_t least = given ? given : low ? LOW_ROWS : ROWS;
    if (!given && tcc_type_bytes(&dot->type) < LEAST_BYTES) return 1;
    r->reason = "few rows";
    for (int row = 0; row < dot->type.rank - 1; row++) { /* the last dim is what is in a row */
        const int64_t rows = count_rows(dot, row);
        if (rows < (given ? given + 1 : 2 * least) || !tcc_chunk_find(r, dot, row)) continue;
        const int64_t most = given || rows < MOST * least ? least : rows / MOST;
        const int64_t chunks = count_chunks(r, row, most);
        if (chunks > 1 && (given || pays(r, chunks))) return chunks;
    }
    tcc_logf(cx->cx, TCC_LOG_MEMORY, "chunk: whole, %s: %s", r->reason, tcc_node_text(dot));
    return 1;
}

static int larger_first(const void *a, const void *b) {
    const tcc_node *x = *(tcc_node *const *)a, *y = *(tcc_node *const *)b;
    const int64_t p = tcc_type_bytes(&x->type), q = tcc_type_bytes(&y->type);
    return p != q ? (p < q ? 1 : -1) : x->id - y->id;
}

/* The region of the largest product that is to be cut, and into how many chunks; 1: there is none. `dots` is room. */
static int64_t find(const tcc_pass_cx *cx, tcc_chunk_region *r, tcc_node **dots) {
    int count = 0;
    int64_t chunks = 1;
    for (int id = 0; id < r->g->nodes.count; id++)
        if (r->live[id] && r->g->nodes.data[id]->op == TCC_OP_DOT) dots[count++] = r->g->nodes.data[id];
    if (count) qsort(dots, (size_t)count, sizeof(tcc_node *), larger_first);
    for (int i = 0; i < count && chunks == 1; i++) chunks = decide(cx, r, dots[i]);
    return chunks;
}

static bool make_room(const tcc_graph *g, tcc_arena *arena, bool *live, tcc_chunk_region *out) {
    const int count = g->nodes.count + 1;
    *out = (tcc_chunk_region){.g = g, .live = live};
    out->row = TCC_ARENA_ARRAY(arena, int, count);
    out->depends = TCC_ARENA_ARRAY(arena, bool, count);
    out->made_of_wide = TCC_ARENA_ARRAY(arena, bool, count);
    out->joined = TCC_ARENA_ARRAY(arena, bool, count);
    out->role = TCC_ARENA_ARRAY(arena, tcc_chunk_role, count);
    return out->row && out->depends && out->made_of_wide && out->joined && out->role;
}

/* Cuts one region. *chunks is 1 where there was none; then *out is a copy without dead nodes. */
static tcc_status cut_one(const tcc_pass_cx *cx, const tcc_graph *g, tcc_arena *arena, int64_t *chunks,
                          tcc_graph **out) {
    tcc_rewrite rw;
    tcc_chunk_region r;
    TCC_TRY(tcc_rewrite_begin(&rw, g));
    tcc_node **dots = TCC_ARENA_ARRAY(arena, tcc_node *, g->nodes.count + 1);
    if (!make_room(g, arena, rw.live, &r) || !dots) {
        tcc_rewrite_abort(&rw);
        return tcc_enomem(g->diag);
    }
    *chunks = find(cx, &r, dots);
    if (*chunks == 1) {
        tcc_rewrite_abort(&rw);
        return tcc_graph_copy_live(g, out);
    }
    const int64_t bytes = tcc_type_bytes(&r.wide->type);
    tcc_logf(cx->cx, TCC_LOG_MEMORY, "chunk: %lld chunks, of %lld bytes instead of %lld: %s", (long long)*chunks,
             (long long)((r.units + *chunks - 1) / *chunks * (bytes / r.units)), (long long)bytes,
             tcc_node_text(r.wide));
    const tcc_status status = tcc_chunk_build(&r, (int)*chunks, out);
    tcc_rewrite_abort(&rw);
    return status;
}

tcc_status tcc_pass_chunk(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    tcc_graph *g = NULL;
    int64_t chunks;
    do {
        tcc_arena arena = {0};
        tcc_graph *next = NULL;
        const tcc_status status = cut_one(cx, g ? g : in, &arena, &chunks, &next);
        tcc_arena_free(&arena);
        tcc_graph_destroy(g);
        if (status != TCC_OK) return status;
        g = next;
    } while (chunks > 1);
    *out = g;
    return TCC_OK;
}
