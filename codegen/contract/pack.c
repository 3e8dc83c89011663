/* SPDX-License-Identifier: MIT
 * Packing the operands of a contraction into scratch. Each routine goes over the k dimensions of a block outer to inner
 * with a callback for the innermost run, so that k is one linear index in packed memory. */
#include "codegen/contract/internal.h"

/* Rows ahead that are fetched while one is copied: rows lie too far apart for the hardware to foresee them. */
enum { AHEAD = 8 };

/* A run of the innermost k dimension: source offset in elements, place in the linear index, and length (constant or
 * not). */
typedef void (*run_fn)(tcc_emitter *e, void *user, tcc_emit_value offset, tcc_emit_value linear, tcc_emit_value length);

typedef struct k_runs {
    const tcc_contract_plan *p;
    int operand; /* A or B */
    tcc_emit_value count;
    run_fn run;
    void *user;
} k_runs;

static void run_level(tcc_emitter *e, const k_runs *w, int dim, int64_t inner, tcc_emit_value offset,
                      tcc_emit_value linear) {
    const tcc_contract_plan *p = w->p;
    const tcc_contract_dim *d = &p->c.k.d[dim];
    bool stepped = dim == p->k_split_dim && d->extent % p->k_step != 0;
    tcc_emit_value length = stepped ? w->count : tcc_emit_i64(e, dim == p->k_split_dim ? p->k_step : d->extent);
    if (dim == p->c.k.n - 1) {
        w->run(e, w->user, offset, linear, length);
        return;
    }
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), length, 1, NULL, 0);
    int64_t stride = w->operand == TCC_OPERAND_A ? d->a : d->b;
    tcc_emit_value at = tcc_emit_add(e, offset, tcc_emit_mul(e, loop.index, tcc_emit_i64(e, stride)));
    tcc_emit_value place = tcc_emit_add(e, linear, tcc_emit_mul(e, loop.index, tcc_emit_i64(e, inner)));
    run_level(e, w, dim + 1, inner / p->c.k.d[dim + 1].extent, at, place);
    tcc_emit_loop_end(e, &loop, NULL);
}

static void run_k(tcc_emitter *e, const k_runs *w, tcc_emit_value offset) {
    run_level(e, w, w->p->k_split_dim, w->p->k_inner, offset, tcc_emit_i64(e, 0));
}

/* A constant mask of the first n lanes; NULL: all. */
static tcc_emit_value first_lanes(tcc_emitter *e, int64_t n) {
    return n >= e->lanes ? NULL : tcc_emit_mask(e, e->lanes, tcc_emit_i64(e, n));
}

static void store_lanes(tcc_emitter *e, tcc_emit_value value, tcc_emit_value address, tcc_emit_value mask) {
    if (mask) tcc_emit_store_masked(e, value, address, mask);
    else tcc_emit_store(e, value, address, 0);
}

static tcc_emit_value at(tcc_emitter *e, tcc_emit_value base, tcc_emit_value offset) {
    return tcc_emit_at(e, e->f32, base, offset);
}

/* Among the elements of the operand that is packed. */
static tcc_emit_value source(tcc_emitter *e, const tcc_contract_plan *p, tcc_emit_value base, tcc_emit_value offset) {
    return tcc_contract_at(e, p->c.dtype, base, offset);
}

/* Calls body(x, mask) for x = 0, lanes, 2 lanes ... below length; mask NULL for whole vectors. */
typedef void (*chunk_fn)(tcc_emitter *e, void *user, tcc_emit_value x, tcc_emit_value mask);

static void for_vectors(tcc_emitter *e, tcc_emit_value length, chunk_fn body, void *user) {
    int64_t constant;
    tcc_emit_loop loop;
    if (tcc_emit_is_constant(length, &constant)) {
        int64_t whole = constant / e->lanes * e->lanes;
        if (whole > 0) {
            tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, whole), e->lanes, NULL, 0);
            body(e, user, loop.index, NULL);
            tcc_emit_loop_end(e, &loop, NULL);
        }
        if (constant > whole) body(e, user, tcc_emit_i64(e, whole), first_lanes(e, constant - whole));
    } else {
        tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), length, e->lanes, NULL, 0);
        body(e, user, loop.index, tcc_emit_mask(e, e->lanes, tcc_emit_sub(e, length, loop.index)));
        tcc_emit_loop_end(e, &loop, NULL);
    }
}

/* --- A */

typedef struct pack_a {
    const tcc_contract_plan *p;
    tcc_emit_value from, to;
    tcc_emit_value n_rows; /* of the block; columns */
    int64_t ahead;         /* elements to what is fetched while this is copied; 0: nothing */
} pack_a;

static void copy_chunk(tcc_emitter *e, void *user, tcc_emit_value x, tcc_emit_value mask) {
    const pack_a *s = user;
    if (s->ahead) tcc_emit_prefetch(e, source(e, s->p, s->from, tcc_emit_add(e, x, tcc_emit_i64(e, s->ahead))), 3);
    tcc_emit_value value = tcc_contract_load_lanes(e, s->p->c.dtype, source(e, s->p, s->from, x), 0, mask);
    store_lanes(e, value, at(e, s->to, x), mask);
}

static void row_run(tcc_emitter *e, void *user, tcc_emit_value offset, tcc_emit_value linear, tcc_emit_value length) {
    const pack_a *s = user;
    pack_a run = {.p = s->p, .from = source(e, s->p, s->from, offset), .to = at(e, s->to, linear)};
    int64_t stride = s->p->c.k.d[s->p->c.k.n - 1].a;
    if (stride == 1) {
        for_vectors(e, length, copy_chunk, &run);
        return;
    }
    tcc_emit_loop k;
    tcc_emit_loop_begin(e, &k, tcc_emit_i64(e, 0), length, 1, NULL, 0);
    tcc_emit_value element = source(e, s->p, run.from, tcc_emit_mul(e, k.index, tcc_emit_i64(e, stride)));
    tcc_emit_store(e, tcc_contract_load_element(e, s->p->c.dtype, element, 0), at(e, run.to, k.index), 0);
    tcc_emit_loop_end(e, &k, NULL);
}

/* All rows of the block at one k are contiguous. */
static void column_run(tcc_emitter *e, void *user, tcc_emit_value offset, tcc_emit_value linear,
                       tcc_emit_value length) {
    const pack_a *s = user;
    const tcc_contract_plan *p = s->p;
    int64_t stride = p->c.k.d[p->c.k.n - 1].a;
    tcc_emit_loop k;
    tcc_emit_loop_begin(e, &k, tcc_emit_i64(e, 0), length, 1, NULL, 0);
    tcc_emit_value at_k = tcc_emit_mul(e, tcc_emit_add(e, linear, k.index), tcc_emit_i64(e, p->a_row));
    tcc_emit_value from = source(e, p, source(e, p, s->from, offset),
                                 tcc_emit_mul(e, k.index, tcc_emit_i64(e, stride)));
    pack_a row = {.p = p, .from = from, .to = at(e, s->to, at_k), .ahead = AHEAD * stride};
    for_vectors(e, s->n_rows, copy_chunk, &row);
    tcc_emit_loop_end(e, &k, NULL);
}

tcc_emit_value tcc_contract_first_row(tcc_emitter *e, const tcc_contract_plan *p, tcc_emit_value tile0) {
    tcc_emit_value row = tcc_emit_mul(e, tile0, tcc_emit_i64(e, p->rows));
    return p->M % p->rows ? tcc_emit_min(e, row, tcc_emit_i64(e, p->M - p->rows)) : row;
}

void tcc_contract_pack_a(tcc_emitter *e, const tcc_contract_plan *p, tcc_emit_value a, tcc_emit_value to,
                         tcc_emit_value tile0, tcc_emit_value tile_end, tcc_emit_value count) {
    pack_a s = {.p = p, .from = a, .to = to};
    k_runs w = {.p = p, .operand = TCC_OPERAND_A, .count = count, .user = &s};
    if (p->a_columns) {
        tcc_emit_value row0 = tcc_contract_first_row(e, p, tile0),
                       end = tcc_emit_mul(e, tile_end, tcc_emit_i64(e, p->rows));
        if (p->M % p->rows) end = tcc_emit_min(e, end, tcc_emit_i64(e, p->M));
        s.n_rows = tcc_emit_sub(e, end, row0);
        if (p->tiles % p->tiles_per_block == 0 && p->M % p->rows == 0)
            s.n_rows = tcc_emit_i64(e, p->tiles_per_block * p->rows);
        s.from = source(e, p, a, row0);
        w.run = column_run;
        run_k(e, &w, tcc_emit_i64(e, 0));
        return;
    }
    tcc_emit_loop tiles, rows;
    tcc_emit_loop_begin(e, &tiles, tile0, tile_end, 1, NULL, 0);
    tcc_emit_value row0 = tcc_emit_mul(e, tiles.index, tcc_emit_i64(e, p->rows)), index[TCC_CONTRACT_MAX_DIMS];
    if (p->M % p->rows) row0 = tcc_emit_min(e, row0, tcc_emit_i64(e, p->M - p->rows));
    tcc_emit_value place =
        at(e, to, tcc_emit_mul(e, tcc_emit_sub(e, tiles.index, tile0), tcc_emit_i64(e, p->rows * p->a_row)));
    tcc_emit_loop_begin(e, &rows, tcc_emit_i64(e, 0), tcc_emit_i64(e, p->rows), 1, NULL, 0);
    tcc_contract_split_index(e, &p->c.m, tcc_emit_add(e, row0, rows.index), index);
    s.from = source(e, p, a, tcc_contract_offset(e, &p->c.m, index, TCC_OPERAND_A));
    s.to = at(e, place, tcc_emit_mul(e, rows.index, tcc_emit_i64(e, p->a_row)));
    w.run = row_run;
    run_k(e, &w, tcc_emit_i64(e, 0));
    tcc_emit_loop_end(e, &rows, NULL);
    tcc_emit_loop_end(e, &tiles, NULL);
}

/* --- B */

typedef struct pack_b {
    const tcc_contract_plan *p;
    tcc_emit_value from, to;
    tcc_emit_value n0; /* first column of the panel */
} pack_b;

static bool panels_are_full(tcc_emitter *e, const tcc_contract_plan *p) {
    return p->N % ((int64_t)p->vectors * e->lanes) == 0;
}

/* Columns are contiguous (or gathered): one row of the panel after another. */
static void panel_rows_run(tcc_emitter *e, void *user, tcc_emit_value offset, tcc_emit_value linear,
                           tcc_emit_value length) {
    const pack_b *s = user;
    const tcc_contract_plan *p = s->p;
    int64_t panel = (int64_t)p->vectors * e->lanes, along = p->c.n.d[0].b;
    tcc_emit_value from = source(e, p, s->from, offset),
                   to = at(e, s->to, tcc_emit_mul(e, linear, tcc_emit_i64(e, panel)));
    tcc_emit_loop k;
    tcc_emit_loop_begin(e, &k, tcc_emit_i64(e, 0), length, 1, NULL, 0);
    tcc_emit_value row = source(e, p, from, tcc_emit_mul(e, k.index, tcc_emit_i64(e, p->c.k.d[p->c.k.n - 1].b)));
    tcc_emit_value place = at(e, to, tcc_emit_mul(e, k.index, tcc_emit_i64(e, panel)));
    for (int v = 0; v < p->vectors; v++) {
        tcc_emit_value x = tcc_emit_i64(e, v * e->lanes), mask = NULL, value;
        tcc_emit_value address = source(e, p, row, tcc_emit_i64(e, v * e->lanes * along));
        if (!panels_are_full(e, p))
            mask = tcc_emit_mask(e, e->lanes, tcc_emit_sub(e, tcc_emit_i64(e, p->N), tcc_emit_add(e, s->n0, x)));
        if (along == 1) {
            tcc_emit_prefetch(e, source(e, p, address, tcc_emit_i64(e, AHEAD * p->c.k.d[p->c.k.n - 1].b)), 3);
            value = tcc_contract_load_lanes(e, p->c.dtype, address, 0, mask);
        } else {
            value = tcc_contract_gather_lanes(e, p->c.dtype, address, along, mask);
        }
        tcc_emit_store(e, value, at(e, place, x), e->lanes * 4);
    }
    tcc_emit_loop_end(e, &k, NULL);
}

static tcc_emit_value line_of(tcc_emitter *e, const tcc_emit_square *s, int i, tcc_dtype dtype) {
    tcc_emit_value last = tcc_emit_sub(e, s->rows, tcc_emit_i64(e, 1));
    tcc_emit_value row = tcc_emit_mul(e, tcc_emit_min(e, tcc_emit_i64(e, i), last), s->stride);
    return tcc_contract_load_lanes(e, dtype, tcc_contract_at(e, dtype, s->from, row), 0, s->mask);
}

static tcc_emit_value line_f16(tcc_emitter *e, const tcc_emit_square *s, int i) { return line_of(e, s, i, TCC_F16); }

static tcc_emit_value line_bf16(tcc_emitter *e, const tcc_emit_square *s, int i) { return line_of(e, s, i, TCC_BF16); }

void tcc_contract_transpose(tcc_emitter *e, tcc_dtype dtype, tcc_emit_value from, int64_t from_stride,
                            tcc_emit_value rows, tcc_emit_value columns, tcc_emit_value to, int64_t to_stride) {
    if (dtype == TCC_F32) tcc_emit_transpose(e, from, from_stride, rows, columns, to, to_stride);
    else if (dtype == TCC_F16)
        tcc_emit_transpose_lines(e, "tcc_transpose_f16", line_f16, from, from_stride, rows, columns, to, to_stride);
    else tcc_emit_transpose_lines(e, "tcc_transpose_bf16", line_bf16, from, from_stride, rows, columns, to, to_stride);
}

/* k is contiguous: tiles of lanes x lanes are transposed. Rows of the panel past the run's end are overwritten by the
 * next run, or lie in the slack behind the panel; columns past the last repeat it. */
static void transposed_run(tcc_emitter *e, void *user, tcc_emit_value offset, tcc_emit_value linear,
                           tcc_emit_value length) {
    const pack_b *s = user;
    const tcc_contract_plan *p = s->p;
    int64_t panel = (int64_t)p->vectors * e->lanes, along = p->c.n.d[0].b;
    tcc_emit_loop groups, k;
    tcc_emit_value end = tcc_emit_i64(e, panel);
    if (!panels_are_full(e, p)) end = tcc_emit_min(e, end, tcc_emit_sub(e, tcc_emit_i64(e, p->N), s->n0));
    tcc_emit_loop_begin(e, &groups, tcc_emit_i64(e, 0), end, e->lanes, NULL, 0);
    tcc_emit_value n = tcc_emit_add(e, s->n0, groups.index), columns = tcc_emit_i64(e, e->lanes);
    if (p->N % e->lanes) columns = tcc_emit_min(e, columns, tcc_emit_sub(e, tcc_emit_i64(e, p->N), n));
    tcc_emit_value from = source(e, p, source(e, p, s->from, offset), tcc_emit_mul(e, n, tcc_emit_i64(e, along)));
    tcc_emit_value to = at(e, at(e, s->to, tcc_emit_mul(e, linear, tcc_emit_i64(e, panel))), groups.index);
    tcc_emit_loop_begin(e, &k, tcc_emit_i64(e, 0), length, e->lanes, NULL, 0);
    tcc_emit_value place = at(e, to, tcc_emit_mul(e, k.index, tcc_emit_i64(e, panel)));
    tcc_emit_value first = source(e, p, from, k.index), left = tcc_emit_sub(e, length, k.index);
    tcc_contract_transpose(e, p->c.dtype, first, along, columns, left, place, panel);
    tcc_emit_loop_end(e, &k, NULL);
    tcc_emit_loop_end(e, &groups, NULL);
}

/* k is contiguous, and not too short. */
static bool is_transposed(const tcc_contract_plan *p) {
    const tcc_contract_dim *k = &p->c.k.d[p->c.k.n - 1];
    return p->c.n.d[0].b != 1 && k->b == 1 && k->extent >= 4;
}

bool tcc_contract_calls_transpose(const tcc_contract_plan *p) {
    return p->pack_b && p->multiply == TCC_CONTRACT_FMA && p->c.dtype == TCC_F32 && is_transposed(p);
}

void tcc_contract_pack_b(tcc_emitter *e, const tcc_contract_plan *p, tcc_emit_value b, tcc_emit_value to,
                         tcc_emit_value n0, tcc_emit_value count) {
    int64_t along = p->c.n.d[0].b;
    const bool transposed = is_transposed(p);
    pack_b s = {.p = p, .from = b, .to = to, .n0 = n0};
    if (!transposed) s.from = source(e, p, b, tcc_emit_mul(e, n0, tcc_emit_i64(e, along)));
    k_runs w = {.p = p,
                .operand = TCC_OPERAND_B,
                .count = count,
                .run = transposed ? transposed_run : panel_rows_run,
                .user = &s};
    run_k(e, &w, tcc_emit_i64(e, 0));
}

/* --- B, computed */

typedef struct computed_b {
    const tcc_contract_plan *p;
    const tcc_contract_work *work;
    tcc_emit_value from, to, n0, count;
} computed_b;

/* Whether a row of k lies inside the windows; NULL: there are none. */
static tcc_emit_value row_inside(tcc_emitter *e, const tcc_contract *c, const tcc_emit_value *positions) {
    tcc_emit_value all = NULL;
    for (int v = 0; v < c->n_windows; v++) {
        tcc_emit_value in = tcc_emit_icmp(e, TCC_ICMP_ULT, positions[v], tcc_emit_i64(e, c->windows[v].extent));
        all = all ? tcc_emit_and(e, all, in) : in;
    }
    return all;
}

/* The vectors of a row of k. */
static void compute_row(tcc_emitter *e, const computed_b *s, tcc_emit_value offset, tcc_emit_value linear,
                        const tcc_emit_value *positions) {
    const tcc_contract_plan *p = s->p;
    const int64_t panel = (int64_t)p->vectors * e->lanes;
    tcc_emit_value inside = row_inside(e, &p->c, positions);
    tcc_emit_if branch;
    if (inside) tcc_emit_if_begin(e, &branch, inside);
    tcc_emit_value row = source(e, p, s->from, offset),
                   to = at(e, s->to, tcc_emit_mul(e, linear, tcc_emit_i64(e, panel)));
    for (int v = 0; v < p->vectors; v++) {
        tcc_emit_value x = tcc_emit_i64(e, v * e->lanes), column = tcc_emit_add(e, s->n0, x), mask = NULL;
        if (!panels_are_full(e, p)) mask = tcc_emit_mask(e, e->lanes, tcc_emit_sub(e, tcc_emit_i64(e, p->N), column));
        tcc_emit_value address = source(e, p, row, x);
        tcc_emit_prefetch(e, source(e, p, address, tcc_emit_i64(e, AHEAD * p->c.k.d[p->c.k.n - 1].b)), 3);
        s->work->columns(s->work->user, column, mask);
        tcc_emit_store(e, s->work->vector(s->work->user, address, mask), at(e, to, x), e->lanes * 4);
        s->work->columns_end(s->work->user);
    }
    if (inside) tcc_emit_if_end(e, &branch);
}

static void compute_level(tcc_emitter *e, const computed_b *s, int dim, int64_t inner, tcc_emit_value offset,
                          tcc_emit_value linear, const tcc_emit_value *positions) {
    const tcc_contract_plan *p = s->p;
    if (dim == p->c.k.n) {
        compute_row(e, s, offset, linear, positions);
        return;
    }
    const tcc_contract_dim *d = &p->c.k.d[dim];
    const bool stepped = dim == p->k_split_dim && d->extent % p->k_step != 0;
    tcc_emit_value length = stepped ? s->count : tcc_emit_i64(e, dim == p->k_split_dim ? p->k_step : d->extent);
    tcc_emit_value moved[TCC_CONTRACT_MAX_WINDOWS];
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), length, 1, NULL, 0);
    for (int v = 0; v < p->c.n_windows; v++)
        moved[v] = tcc_emit_add(e, positions[v], tcc_emit_mul(e, loop.index, tcc_emit_i64(e, d->w[v])));
    compute_level(e, s, dim + 1, dim + 1 < p->c.k.n ? inner / p->c.k.d[dim + 1].extent : 1,
                  tcc_emit_add(e, offset, tcc_emit_mul(e, loop.index, tcc_emit_i64(e, d->b))),
                  tcc_emit_add(e, linear, tcc_emit_mul(e, loop.index, tcc_emit_i64(e, inner))), moved);
    tcc_emit_loop_end(e, &loop, NULL);
}

void tcc_contract_pack_computed_b(tcc_emitter *e, const tcc_contract_plan *p, const tcc_contract_work *work,
                                  tcc_emit_value b, tcc_emit_value to, tcc_emit_value n0, tcc_emit_value count,
                                  const tcc_emit_value *positions) {
    const computed_b s = {p, work, source(e, p, b, n0), to, n0, count};
    compute_level(e, &s, p->k_split_dim, p->k_inner, tcc_emit_i64(e, 0), tcc_emit_i64(e, 0), positions);
}
