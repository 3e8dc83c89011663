/* SPDX-License-Identifier: MIT
 * Packing bf16 operands for instructions that multiply bf16. In packed memory k is one linear index. Each run of the
 * innermost dimension begins at an even index (tcc_contract_k_extent), so that no pair spans two runs. */
#include "codegen/contract/internal.h"

enum { PAIR = 2, AHEAD = 8 /* rows, as in pack.c */ };

/* A run of the innermost k dimension: where it begins in memory, in elements, and in the linear index, how long it is,
 * and which positions its windows begin at. */
typedef struct run {
    tcc_emit_value offset, linear, length;
    tcc_emit_value positions[TCC_CONTRACT_MAX_WINDOWS];
} run;

typedef struct packer packer;
typedef void (*run_fn)(tcc_emitter *e, const packer *s, const run *r);

struct packer {
    const tcc_contract_plan *p;
    int operand;
    tcc_emit_value from, to;
    tcc_emit_value count;          /* of the split dimension */
    tcc_emit_value n_rows;         /* of the block of A, by columns */
    tcc_emit_value n0;             /* first column of the panel of B */
    const tcc_contract_work *work; /* B is computed; NULL: it is in memory */
    run_fn run;
};

static tcc_emit_value i64(tcc_emitter *e, int64_t value) { return tcc_emit_i64(e, value); }

/* An address among elements of bf16. */
static tcc_emit_value at(tcc_emitter *e, tcc_emit_value base, tcc_emit_value offset) {
    return tcc_emit_at(e, e->i16, base, offset);
}

static int64_t stride_of(const packer *s, int dim) {
    const tcc_contract_dim *d = &s->p->c.k.d[dim];
    return s->operand == TCC_OPERAND_A ? d->a : d->b;
}

static int64_t innermost_stride(const packer *s) { return stride_of(s, s->p->c.k.n - 1); }

static bool has_windows(const packer *s) { return tcc_contract_has_windows_on(s->p, s->operand); }

/* -- Loops over k -- */

static void run_level(tcc_emitter *e, const packer *s, int dim, int64_t inner, run r) {
    const tcc_contract_plan *p = s->p;
    const tcc_contract_dim *d = &p->c.k.d[dim];
    const bool stepped = dim == p->k_split_dim && d->extent % p->k_step != 0;
    tcc_emit_value length = stepped ? s->count : i64(e, dim == p->k_split_dim ? p->k_step : d->extent);
    if (dim == p->c.k.n - 1) {
        r.length = length;
        s->run(e, s, &r);
        return;
    }
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, i64(e, 0), length, 1, NULL, 0);
    r.offset = tcc_emit_add(e, r.offset, tcc_emit_mul(e, loop.index, i64(e, stride_of(s, dim))));
    r.linear = tcc_emit_add(e, r.linear, tcc_emit_mul(e, loop.index, i64(e, inner)));
    for (int v = 0; v < p->c.n_windows && has_windows(s); v++)
        r.positions[v] = tcc_emit_add(e, r.positions[v], tcc_emit_mul(e, loop.index, i64(e, d->w[v])));
    run_level(e, s, dim + 1, inner / tcc_contract_k_extent(p, dim + 1), r);
    tcc_emit_loop_end(e, &loop, NULL);
}

static void run_k(tcc_emitter *e, const packer *s, const tcc_emit_value *positions) {
    run r = {.offset = i64(e, 0), .linear = i64(e, 0)};
    for (int v = 0; v < s->p->c.n_windows; v++) r.positions[v] = positions[v];
    run_level(e, s, s->p->k_split_dim, s->p->k_inner, r);
}

/* Whether k elements into the run all windows are met: i1; NULL: there are none. */
static tcc_emit_value is_inside(tcc_emitter *e, const packer *s, const run *r, tcc_emit_value k) {
    const tcc_contract *c = &s->p->c;
    tcc_emit_value all = NULL;
    for (int v = 0; v < c->n_windows && has_windows(s); v++) {
        tcc_emit_value position = tcc_emit_add(e, r->positions[v], tcc_emit_mul(e, k, i64(e, c->k.d[c->k.n - 1].w[v])));
        tcc_emit_value inside = tcc_emit_icmp(e, TCC_ICMP_ULT, position, i64(e, c->windows[v].extent));
        all = all ? tcc_emit_and(e, all, inside) : inside;
    }
    return all;
}

/* Both of two conditions, of which either may be NULL for true. */
static tcc_emit_value both(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return !a ? b : !b ? a : tcc_emit_and(e, a, b);
}

static tcc_emit_value over_lanes(tcc_emitter *e, tcc_emit_value condition, int lanes) {
    return condition ? tcc_emit_splat(e, condition, lanes) : NULL;
}

/* The first `count` lanes; NULL: all, as far as is known. */
static tcc_emit_value first_lanes(tcc_emitter *e, tcc_emit_value count, int lanes) {
    int64_t constant;
    if (tcc_emit_is_constant(count, &constant) && constant >= lanes) return NULL;
    return tcc_emit_mask(e, lanes, count);
}

static tcc_emit_value load(tcc_emitter *e, tcc_emit_value address, int lanes, tcc_emit_value mask) {
    tcc_emit_type type = tcc_emit_vector_type(e->i16, lanes);
    return mask ? tcc_emit_load_masked(e, type, address, mask) : tcc_emit_load(e, type, address, 0);
}

static void store(tcc_emitter *e, tcc_emit_value value, tcc_emit_value address, tcc_emit_value mask) {
    if (mask) tcc_emit_store_masked(e, value, address, mask);
    else tcc_emit_store(e, value, address, 2);
}

tcc_emit_value tcc_contract_pairs_of(tcc_emitter *e, tcc_emit_value low, tcc_emit_value high) {
    tcc_emit_type wide = tcc_emit_type_like(e, e->i32, tcc_emit_type_of(low));
    low = tcc_emit_zext(e, low, wide);
    high = tcc_emit_shl(e, tcc_emit_zext(e, high, wide), tcc_emit_int(e, wide, 16));
    return tcc_emit_or(e, low, high);
}

tcc_emit_value tcc_contract_half_of_pairs(tcc_emitter *e, tcc_emit_value pairs, int half) {
    tcc_emit_type type = tcc_emit_type_like(e, e->i32, tcc_emit_type_of(pairs));
    pairs = tcc_emit_bitcast(e, pairs, type);
    pairs = half ? tcc_emit_and(e, pairs, tcc_emit_int(e, type, -0x10000))
                 : tcc_emit_shl(e, pairs, tcc_emit_int(e, type, 16));
    return tcc_emit_bitcast(e, pairs, tcc_emit_type_like(e, e->f32, type));
}

tcc_emit_value tcc_contract_interleave(tcc_emitter *e, tcc_emit_value halves) {
    int indices[64];
    for (int i = 0; i < 2 * e->lanes; i++) indices[i] = i / 2 + i % 2 * e->lanes;
    return tcc_emit_shuffle(e, halves, NULL, indices, 2 * e->lanes);
}

/* Elements of k in the block, and whether the last step of products may go beyond them. */
static tcc_emit_value block_length(tcc_emitter *e, const packer *s, bool *beyond) {
    const tcc_contract_plan *p = s->p;
    int64_t constant;
    tcc_emit_value length = tcc_emit_mul(e, s->count, i64(e, p->k_inner));
    *beyond = !tcc_emit_is_constant(length, &constant) || constant % p->multiply;
    return length;
}

/* Where the last step of k that is not whole begins. */
static tcc_emit_value last_step(tcc_emitter *e, const packer *s, tcc_emit_value length) {
    return tcc_emit_mul(e, tcc_emit_div(e, length, s->p->multiply), i64(e, s->p->multiply));
}

/* -- A -- */

/* k lies as it is read. */
static void copy_run(tcc_emitter *e, const packer *s, const run *r) {
    const int lanes = PAIR * e->lanes;
    tcc_emit_value inside = over_lanes(e, is_inside(e, s, r, i64(e, 0)), lanes);
    tcc_emit_value from = at(e, s->from, r->offset), to = at(e, s->to, r->linear);
    const bool by_pairs = s->p->c.k.n > 1;
    tcc_emit_loop chunks;
    int64_t constant, whole = 0;
    if (tcc_emit_is_constant(r->length, &constant)) whole = constant / lanes * lanes;
    if (whole) {
        tcc_emit_loop_begin(e, &chunks, i64(e, 0), i64(e, whole), lanes, NULL, 0);
        store(e, load(e, at(e, from, chunks.index), lanes, inside), at(e, to, chunks.index), NULL);
        tcc_emit_loop_end(e, &chunks, NULL);
        if (constant == whole) return;
    }
    tcc_emit_loop_begin(e, &chunks, i64(e, whole), r->length, lanes, NULL, 0);
    tcc_emit_value left = tcc_emit_sub(e, r->length, chunks.index), stored = left;
    if (by_pairs) stored = tcc_emit_and(e, tcc_emit_add(e, left, i64(e, 1)), i64(e, -PAIR));
    tcc_emit_value value = load(e, at(e, from, chunks.index), lanes, both(e, inside, tcc_emit_mask(e, lanes, left)));
    store(e, value, at(e, to, chunks.index), tcc_emit_mask(e, lanes, stored));
    tcc_emit_loop_end(e, &chunks, NULL);
}

/* Element by element; one more, a zero, makes the run even. */
static void copy_elements(tcc_emitter *e, const packer *s, const run *r) {
    tcc_emit_value from = at(e, s->from, r->offset), to = at(e, s->to, r->linear), end = r->length;
    if (s->p->c.k.n > 1) end = tcc_emit_and(e, tcc_emit_add(e, end, i64(e, 1)), i64(e, -PAIR));
    tcc_emit_loop k;
    tcc_emit_loop_begin(e, &k, i64(e, 0), end, 1, NULL, 0);
    tcc_emit_value exists = tcc_emit_icmp(e, TCC_ICMP_SLT, k.index, r->length);
    tcc_emit_value address = at(e, from, tcc_emit_mul(e, k.index, i64(e, innermost_stride(s))));
    tcc_emit_store(e, tcc_emit_null(e->i16), at(e, to, k.index), 0);
    tcc_emit_if branch;
    tcc_emit_if_begin(e, &branch, both(e, exists, is_inside(e, s, r, k.index)));
    tcc_emit_store(e, tcc_emit_load(e, e->i16, address, 0), at(e, to, k.index), 0);
    tcc_emit_if_end(e, &branch);
    tcc_emit_loop_end(e, &k, NULL);
}

/* Row i of a square is the pairs of rows 2 i and 2 i + 1 of memory; both lie below `rows`, or are 0. */
static tcc_emit_value line_of_pairs(tcc_emitter *e, const tcc_emit_square *s, int i) {
    tcc_emit_value halves[PAIR];
    for (int h = 0; h < PAIR; h++) {
        const int row = PAIR * i + h;
        tcc_emit_value exists = tcc_emit_icmp(e, TCC_ICMP_SLT, i64(e, row), s->rows);
        tcc_emit_value mask = tcc_emit_and(e, s->mask, tcc_emit_splat(e, exists, e->lanes));
        halves[h] = load(e, at(e, s->from, tcc_emit_mul(e, i64(e, row), s->stride)), e->lanes, mask);
    }
    return tcc_emit_bitcast(e, tcc_contract_pairs_of(e, halves[0], halves[1]), e->vf32);
}

/* All rows of the block at one k are contiguous, and rows of k are wanted. */
static void transposed_columns_run(tcc_emitter *e, const packer *s, const run *r) {
    const tcc_contract_plan *p = s->p;
    const int64_t stride = innermost_stride(s);
    tcc_emit_value from = at(e, s->from, r->offset), to = at(e, s->to, r->linear);
    tcc_emit_loop k, rows;
    tcc_emit_loop_begin(e, &k, i64(e, 0), r->length, (int64_t)PAIR * e->lanes, NULL, 0);
    tcc_emit_loop_begin(e, &rows, i64(e, 0), s->n_rows, e->lanes, NULL, 0);
    tcc_emit_value source = at(e, from, tcc_emit_add(e, tcc_emit_mul(e, k.index, i64(e, stride)), rows.index));
    tcc_emit_value place = at(e, to, tcc_emit_add(e, tcc_emit_mul(e, rows.index, i64(e, p->a_row)), k.index));
    tcc_emit_transpose_lines(e, "tcc_transpose_pairs", line_of_pairs, source, stride,
                             tcc_emit_sub(e, r->length, k.index), tcc_emit_sub(e, s->n_rows, rows.index), place,
                             p->a_row / PAIR);
    tcc_emit_loop_end(e, &rows, NULL);
    tcc_emit_loop_end(e, &k, NULL);
}

/* The same where rows of pairs are wanted. */
static void columns_run(tcc_emitter *e, const packer *s, const run *r) {
    const int64_t stride = innermost_stride(s), a_row = s->p->a_row;
    tcc_emit_value from = at(e, s->from, r->offset);
    tcc_emit_value to = at(e, s->to, tcc_emit_mul(e, tcc_emit_div(e, r->linear, PAIR), i64(e, a_row)));
    tcc_emit_loop k, rows;
    tcc_emit_loop_begin(e, &k, i64(e, 0), r->length, PAIR, NULL, 0);
    tcc_emit_value row = at(e, from, tcc_emit_mul(e, k.index, i64(e, stride)));
    tcc_emit_value place = at(e, to, tcc_emit_mul(e, tcc_emit_div(e, k.index, PAIR), i64(e, a_row)));
    tcc_emit_value second = tcc_emit_icmp(e, TCC_ICMP_SLT, tcc_emit_add(e, k.index, i64(e, 1)), r->length);
    tcc_emit_loop_begin(e, &rows, i64(e, 0), s->n_rows, e->lanes, NULL, 0);
    tcc_emit_value mask = first_lanes(e, tcc_emit_sub(e, s->n_rows, rows.index), e->lanes);
    tcc_emit_value low = load(e, at(e, row, rows.index), e->lanes, mask);
    tcc_emit_value high = load(e, at(e, at(e, row, rows.index), i64(e, stride)), e->lanes,
                               both(e, mask, over_lanes(e, second, e->lanes)));
    tcc_emit_store(e, tcc_contract_pairs_of(e, low, high), tcc_emit_at(e, e->i32, place, rows.index), 4);
    tcc_emit_loop_end(e, &rows, NULL);
    tcc_emit_loop_end(e, &k, NULL);
}

/* Zeros for the step of each row that is not whole. */
static void clear_last_step(tcc_emitter *e, const packer *s, tcc_emit_value rows) {
    const tcc_contract_plan *p = s->p;
    bool beyond;
    tcc_emit_value length = block_length(e, s, &beyond);
    if (!beyond) return;
    tcc_emit_value place = at(e, s->to, last_step(e, s, length));
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, i64(e, 0), rows, 1, NULL, 0);
    tcc_emit_store(e, tcc_emit_null(tcc_emit_vector_type(e->i16, (int)p->multiply)),
                   at(e, place, tcc_emit_mul(e, loop.index, i64(e, p->a_row))), 2);
    tcc_emit_loop_end(e, &loop, NULL);
}

static void pack_columns(tcc_emitter *e, packer *s, tcc_emit_value tile0, tcc_emit_value tile_end,
                         const tcc_emit_value *positions) {
    const tcc_contract_plan *p = s->p;
    tcc_emit_value row0 = tcc_contract_first_row(e, p, tile0), end = tcc_emit_mul(e, tile_end, i64(e, p->rows));
    if (p->M % p->rows) end = tcc_emit_min(e, end, i64(e, p->M));
    s->n_rows = tcc_emit_sub(e, end, row0);
    if (p->tiles % p->tiles_per_block == 0 && p->M % p->rows == 0) s->n_rows = i64(e, p->tiles_per_block * p->rows);
    s->from = at(e, s->from, row0);
    s->run = p->multiply == TCC_CONTRACT_TILES ? transposed_columns_run : columns_run;
    if (p->multiply == TCC_CONTRACT_TILES) clear_last_step(e, s, s->n_rows);
    run_k(e, s, positions);
}

void tcc_contract_pack_a_bf16(tcc_emitter *e, const tcc_contract_plan *p, tcc_emit_value a, tcc_emit_value to,
                              tcc_emit_value tile0, tcc_emit_value tile_end, tcc_emit_value count,
                              const tcc_emit_value *positions) {
    packer s = {.p = p, .operand = TCC_OPERAND_A, .from = a, .to = to, .count = count};
    if (p->a_columns) {
        pack_columns(e, &s, tile0, tile_end, positions);
        return;
    }
    bool in_window = false; /* of the innermost dimension itself */
    for (int v = 0; v < p->c.n_windows && has_windows(&s); v++)
        in_window = in_window || p->c.k.d[p->c.k.n - 1].w[v] != 0;
    s.run = innermost_stride(&s) == 1 && !in_window ? copy_run : copy_elements;
    tcc_emit_loop tiles, rows;
    tcc_emit_loop_begin(e, &tiles, tile0, tile_end, 1, NULL, 0);
    tcc_emit_value row0 = tcc_emit_mul(e, tiles.index, i64(e, p->rows)), index[TCC_CONTRACT_MAX_DIMS];
    if (p->M % p->rows) row0 = tcc_emit_min(e, row0, i64(e, p->M - p->rows));
    tcc_emit_value place = at(e, to, tcc_emit_mul(e, tcc_emit_sub(e, tiles.index, tile0), i64(e, p->rows * p->a_row)));
    tcc_emit_loop_begin(e, &rows, i64(e, 0), i64(e, p->rows), 1, NULL, 0);
    tcc_contract_split_index(e, &p->c.m, tcc_emit_add(e, row0, rows.index), index);
    s.from = at(e, a, tcc_contract_offset(e, &p->c.m, index, TCC_OPERAND_A));
    s.to = at(e, place, tcc_emit_mul(e, rows.index, i64(e, p->a_row)));
    tcc_emit_value of_row[TCC_CONTRACT_MAX_WINDOWS];
    for (int v = 0; v < p->c.n_windows; v++) {
        of_row[v] = positions[v];
        for (int i = 0; i < p->c.m.n; i++)
            of_row[v] = tcc_emit_add(e, of_row[v], tcc_emit_mul(e, index[i], i64(e, p->c.m.d[i].w[v])));
    }
    clear_last_step(e, &s, i64(e, 1));
    run_k(e, &s, of_row);
    tcc_emit_loop_end(e, &rows, NULL);
    tcc_emit_loop_end(e, &tiles, NULL);
}

/* -- B -- */

static int64_t panel_of(tcc_emitter *e, const tcc_contract_plan *p) { return (int64_t)p->vectors * e->lanes; }

/* The vector of a row of k that begins at `address`. */
static tcc_emit_value row_of_b(tcc_emitter *e, const packer *s, tcc_emit_value address, tcc_emit_value mask) {
    const int64_t along = s->p->c.n.d[0].b;
    if (along == 1) return load(e, address, e->lanes, mask);
    tcc_emit_value steps = tcc_emit_imul(e, tcc_emit_iota(e, e->i64, e->lanes),
                                         tcc_emit_splat(e, i64(e, along), e->lanes));
    tcc_emit_value addresses = tcc_emit_element(e, e->i16, address, steps);
    return tcc_emit_gather(e, tcc_emit_vector_type(e->i16, e->lanes), addresses,
                           mask ? mask : tcc_emit_int(e, e->vi1, -1));
}

/* Pairs of two vectors of bf16 that were widened to f32. */
static tcc_emit_value pairs_of_widened(tcc_emitter *e, tcc_emit_value low, tcc_emit_value high) {
    low = tcc_emit_lshr(e, tcc_emit_bitcast(e, low, e->vi32), tcc_emit_int(e, e->vi32, 16));
    high = tcc_emit_and(e, tcc_emit_bitcast(e, high, e->vi32), tcc_emit_int(e, e->vi32, -0x10000));
    return tcc_emit_or(e, low, high);
}

/* The pairs of two rows, whose vectors lie at address + h * stride. `exist`: of the columns; `inside`: of each row;
 * NULL: all are. */
static tcc_emit_value pairs_at(tcc_emitter *e, const packer *s, tcc_emit_value address, int64_t stride,
                               tcc_emit_value column, tcc_emit_value exist, const tcc_emit_value *inside) {
    tcc_emit_value halves[PAIR];
    if (s->work) s->work->columns(s->work->user, column, exist);
    for (int h = 0; h < PAIR; h++) {
        tcc_emit_value mask = both(e, exist, over_lanes(e, inside[h], e->lanes)),
                       from = at(e, address, i64(e, h * stride));
        halves[h] = s->work ? s->work->vector(s->work->user, from, mask) : row_of_b(e, s, from, mask);
        if (s->work && mask) halves[h] = tcc_emit_select(e, mask, halves[h], tcc_emit_float(e, e->vf32, 0));
    }
    if (!s->work) return tcc_contract_pairs_of(e, halves[0], halves[1]);
    s->work->columns_end(s->work->user);
    return pairs_of_widened(e, halves[0], halves[1]);
}

/* One pair of rows after another. */
static void pairs_run(tcc_emitter *e, const packer *s, const run *r) {
    const tcc_contract_plan *p = s->p;
    const int64_t panel = panel_of(e, p), along = p->c.n.d[0].b, stride = innermost_stride(s);
    tcc_emit_value from = at(e, s->from, r->offset), to = at(e, s->to, tcc_emit_mul(e, r->linear, i64(e, panel)));
    tcc_emit_loop k;
    tcc_emit_loop_begin(e, &k, i64(e, 0), r->length, PAIR, NULL, 0);
    tcc_emit_value row = at(e, from, tcc_emit_mul(e, k.index, i64(e, stride)));
    tcc_emit_value place = at(e, to, tcc_emit_mul(e, k.index, i64(e, panel)));
    tcc_emit_value next = tcc_emit_add(e, k.index, i64(e, 1)), second = NULL;
    int64_t length;
    if (!tcc_emit_is_constant(r->length, &length) || length % PAIR)
        second = tcc_emit_icmp(e, TCC_ICMP_SLT, next, r->length);
    tcc_emit_value inside[PAIR] = {is_inside(e, s, r, k.index), both(e, second, is_inside(e, s, r, next))};
    for (int v = 0; v < p->vectors; v++) {
        tcc_emit_value address = at(e, row, i64(e, v * e->lanes * along)), exist = NULL;
        tcc_emit_value column = tcc_emit_add(e, s->n0, i64(e, v * e->lanes));
        if (p->N % panel) exist = tcc_emit_mask(e, e->lanes, tcc_emit_sub(e, i64(e, p->N), column));
        if (along == 1)
            for (int h = 0; h < PAIR; h++) tcc_emit_prefetch(e, at(e, address, i64(e, (AHEAD + h) * stride)), 3);
        tcc_emit_store(e, pairs_at(e, s, address, stride, column, exist, inside),
                       tcc_emit_at_bytes(e, place, (int64_t)v * e->lanes * 4), e->lanes * 4);
    }
    tcc_emit_loop_end(e, &k, NULL);
}

/* Row i of a square is pairs of successive elements of memory's row i, of which `columns` exist. */
static tcc_emit_value line_by_pairs(tcc_emitter *e, const tcc_emit_square *s, int i) {
    const int lanes = PAIR * e->lanes;
    tcc_emit_value last = tcc_emit_sub(e, s->rows, i64(e, 1));
    tcc_emit_value row = at(e, s->from, tcc_emit_mul(e, tcc_emit_min(e, i64(e, i), last), s->stride));
    return tcc_emit_bitcast(e, load(e, row, lanes, tcc_emit_mask(e, lanes, s->columns)), e->vf32);
}

void tcc_contract_transpose_by_pairs(tcc_emitter *e, tcc_emit_value from, int64_t from_stride, tcc_emit_value rows,
                                     tcc_emit_value columns, tcc_emit_value to, int64_t to_stride) {
    tcc_emit_transpose_lines(e, "tcc_transpose_by_pairs", line_by_pairs, from, from_stride, rows, columns, to,
                             to_stride);
}

/* k is contiguous: pairs lie as they are wanted, and squares of them are transposed. Rows of the panel past the run's
 * end are overwritten by the next run, or lie in the slack behind the panel. */
static void transposed_run(tcc_emitter *e, const packer *s, const run *r) {
    const tcc_contract_plan *p = s->p;
    const int64_t panel = panel_of(e, p), along = p->c.n.d[0].b;
    tcc_emit_loop groups, k;
    tcc_emit_value end = i64(e, panel);
    if (p->N % panel) end = tcc_emit_min(e, end, tcc_emit_sub(e, i64(e, p->N), s->n0));
    tcc_emit_loop_begin(e, &groups, i64(e, 0), end, e->lanes, NULL, 0);
    tcc_emit_value n = tcc_emit_add(e, s->n0, groups.index), columns = i64(e, e->lanes);
    if (p->N % e->lanes) columns = tcc_emit_min(e, columns, tcc_emit_sub(e, i64(e, p->N), n));
    tcc_emit_value from = at(e, at(e, s->from, r->offset), tcc_emit_mul(e, n, i64(e, along)));
    tcc_emit_value to = at(e, s->to, tcc_emit_mul(e, r->linear, i64(e, panel)));
    to = tcc_emit_at(e, e->i32, to, groups.index);
    tcc_emit_loop_begin(e, &k, i64(e, 0), r->length, (int64_t)PAIR * e->lanes, NULL, 0);
    tcc_contract_transpose_by_pairs(e, at(e, from, k.index), along, columns, tcc_emit_sub(e, r->length, k.index),
                                    at(e, to, tcc_emit_mul(e, k.index, i64(e, panel))), panel);
    tcc_emit_loop_end(e, &k, NULL);
    tcc_emit_loop_end(e, &groups, NULL);
}

/* Zeros for the rows of pairs of the step that is not whole. */
static void clear_last_rows(tcc_emitter *e, const packer *s) {
    const tcc_contract_plan *p = s->p;
    const int64_t panel = panel_of(e, p);
    bool beyond;
    tcc_emit_value length = block_length(e, s, &beyond);
    if (!beyond) return;
    tcc_emit_value place = at(e, s->to, tcc_emit_mul(e, last_step(e, s, length), i64(e, panel)));
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, i64(e, 0), i64(e, p->multiply / PAIR * panel), e->lanes, NULL, 0);
    tcc_emit_store(e, tcc_emit_null(e->vi32), tcc_emit_at(e, e->i32, place, loop.index), e->lanes * 4);
    tcc_emit_loop_end(e, &loop, NULL);
}

void tcc_contract_pack_b_bf16(tcc_emitter *e, const tcc_contract_plan *p, const tcc_contract_work *work,
                              tcc_emit_value b, tcc_emit_value to, tcc_emit_value n0, tcc_emit_value count,
                              const tcc_emit_value *positions) {
    const tcc_contract_dim *k = &p->c.k.d[p->c.k.n - 1];
    const int64_t along = p->c.n.d[0].b;
    packer s = {.p = p, .operand = TCC_OPERAND_B, .from = b, .to = to, .count = count, .n0 = n0, .work = work};
    const bool transposed = !work && along != 1 && k->b == 1 && k->extent >= 4 && !has_windows(&s);
    s.run = transposed ? transposed_run : pairs_run;
    if (!transposed) s.from = at(e, b, tcc_emit_mul(e, n0, i64(e, along)));
    clear_last_rows(e, &s);
    run_k(e, &s, positions);
}
