/* SPDX-License-Identifier: MIT
 * Planning a contraction: its multiply and its register tile; blocks.c has the blocks.
 *
 * The plan depends on shapes and on the target's registers, never on the number of threads. Costs are in cycles of a
 * core with one full-width multiply-add a cycle; only their ratios matter. */
#include "codegen/contract/internal.h"
#include "ir/chain.h"
#include "ir/support/integers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_ROWS = 7,
    NEAR = 512, /* floats: rows closer than this are read in place about as fast as packed */
    /* With less of m, n or k packing bf16 by pairs costs more than its products save. */
    LEAST_BF16_ROWS = 8,
    LEAST_BF16_K = 16,
    TILE_ROWS = TCC_EMIT_TILE_ROWS,
};

static tcc_status push(tcc_contract_dims *l, const tcc_contract_dim *d, tcc_diag *diag) {
    if (l->n == TCC_CONTRACT_MAX_DIMS)
        return tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "a contraction has more than %d batch dimensions",
                         TCC_CONTRACT_MAX_DIMS);
    l->d[l->n++] = *d;
    return TCC_OK;
}

/* The dimension that vectors run along: the one that fills them best, where C must be scattered if it is not contiguous
 * there and B gathered or transposed. Returns its index in n, or in m with `swapped`; -1 if both are empty. */
static int choose_lanes(const tcc_contract *c, const tcc_llvm_target *target, bool *swapped) {
    const tcc_costs *costs = &target->costs;
    const int lanes = target->lanes;
    double best = -1;
    int chosen = -1;
    int64_t K = tcc_contract_extent(&c->k);
    for (int side = 0; side < (c->lanes_along_n || c->n_windows ? 1 : 2); side++) {
        const tcc_contract_dims *l = side ? &c->m : &c->n;
        for (int i = 0; i < l->n; i++) {
            const tcc_contract_dim *d = &l->d[i];
            if ((c->lanes_along_n && d->c[0] != 1) || tcc_contract_has_window(d)) continue;
            double filled = (double)d->extent / (double)tcc_round_up(d->extent, lanes);
            int64_t stride = side ? d->a : d->b;
            double cost = 1 / filled * (d->c[0] == 1 ? 1 : 1 + costs->scattered_steps / (double)K) *
                          (stride == 1 ? 1 : costs->gathered);
            if (chosen >= 0 && 1 / cost <= best * 1.001) continue;
            best = 1 / cost;
            chosen = i;
            *swapped = side == 1;
        }
    }
    return chosen;
}

/* Rows of a tile see the same part of each window: they lie in the longest dimension of m that windows do not depend
 * on, which becomes the last. */
static void put_rows_last(tcc_contract_dims *m) {
    int rows = -1;
    for (int i = 0; i < m->n; i++)
        if (!tcc_contract_has_window(&m->d[i]) && (rows < 0 || m->d[i].extent > m->d[rows].extent)) rows = i;
    tcc_contract_dim last = {.extent = 1};
    if (rows >= 0) {
        last = m->d[rows];
        memmove(&m->d[rows], &m->d[rows + 1], sizeof last * (size_t)(m->n - rows - 1));
        m->n--;
    }
    if (m->n < TCC_CONTRACT_MAX_DIMS) m->d[m->n++] = last;
}

bool tcc_contract_has_windows_on(const tcc_contract_plan *p, int operand) {
    return p->c.n_windows && p->c.window_b == (operand == TCC_OPERAND_B);
}

static tcc_contract_multiply fastest(const tcc_llvm_target *target, const tcc_contract *c) {
    tcc_contract_multiply best = TCC_CONTRACT_FMA;
    if (c->dtype != TCC_BF16 || tcc_contract_extent(&c->k) < LEAST_BF16_K ||
        tcc_contract_extent(&c->m) < LEAST_BF16_ROWS || tcc_contract_extent(&c->n) < LEAST_BF16_ROWS)
        return best;
    static const tcc_contract_multiply others[] = {TCC_CONTRACT_PAIRS, TCC_CONTRACT_TILES};
    for (int i = 0; i < 2; i++)
        if (tcc_contract_rate(target, others[i]) > tcc_contract_rate(target, best)) best = others[i];
    return best;
}

/* The same as was decided, where the target can. */
static bool can_multiply(const tcc_llvm_target *target, const tcc_contract *c, int64_t k_at_once) {
    if (k_at_once == TCC_CONTRACT_FMA) return true;
    return (k_at_once == TCC_CONTRACT_PAIRS || k_at_once == TCC_CONTRACT_TILES) && c->dtype == TCC_BF16 &&
           tcc_contract_extent(&c->k) > 0 && tcc_contract_rate(target, (tcc_contract_multiply)k_at_once) > 0;
}

/* Whether rows of bf16 can be multiplied where they lie: whole instructions' worth of k, one after the other. */
static bool is_ready(const tcc_contract_plan *p) {
    const tcc_contract_dim *k = &p->c.k.d[p->c.k.n - 1];
    return k->a == 1 && k->extent % p->multiply == 0 && !tcc_contract_has_windows_on(p, TCC_OPERAND_A);
}

static tcc_status normalize(tcc_contract_plan *p, const tcc_llvm_target *target, tcc_params *params, tcc_diag *diag) {
    tcc_contract *c = &p->c;
    tcc_contract_dims *lists[] = {&c->b, &c->m, &c->n, &c->k};
    for (int i = 0; i < 3; i++) {
        tcc_contract_drop_ones(lists[i], false);
        tcc_contract_sort(lists[i], TCC_CONTRACT_BY_OUTPUT);
        tcc_contract_merge(lists[i], c->n_accesses);
    }
    int lane = choose_lanes(c, target, &p->swapped);
    if (p->swapped) {
        tcc_contract_dims m = c->m;
        c->m = c->n;
        c->n = m;
        for (int i = 0; i < 4; i++) tcc_contract_swap_operands(lists[i]);
    }
    TCC_TRY(tcc_contract_settle_k(&c->k, c->n_accesses, TCC_PARAM_BLOCK_K, params));
    tcc_contract_dim one = {.extent = 1}, lanes_dim = lane < 0 ? one : c->n.d[lane];
    for (int i = 0; i < c->n.n; i++)
        if (i != lane) TCC_TRY(push(&c->b, &c->n.d[i], diag));
    c->n.d[0] = lanes_dim;
    c->n.n = 1;
    if (!c->m.n) c->m.d[c->m.n++] = one;
    if (!c->k.n) c->k.d[c->k.n++] = one;
    bool on_m = tcc_contract_have_windows(&c->m), windows = on_m && !tcc_contract_reads_bf16(p);
    if (windows) put_rows_last(&c->m);

    /* A contiguous along m alone is packed by columns, for which rows must be one dimension. */
    const tcc_contract_dim *m = &c->m.d[c->m.n - 1], *k = &c->k.d[c->k.n - 1];
    p->a_columns = !on_m && k->a != 1 && m->a == 1 && (c->m.n == 1 || m->extent >= 6);
    if (p->a_columns) {
        for (int i = 0; i + 1 < c->m.n; i++) TCC_TRY(push(&c->b, &c->m.d[i], diag));
        c->m.d[0] = c->m.d[c->m.n - 1];
        c->m.n = 1;
    }
    tcc_contract_sort(&c->b, TCC_CONTRACT_BY_OUTPUT);
    tcc_contract_merge(&c->b, c->n_accesses);
    p->M = tcc_contract_extent(&c->m);
    p->N = tcc_contract_extent(&c->n);
    p->K = tcc_contract_extent(&c->k);
    if (!p->K) c->k = (tcc_contract_dims){.n = 1};
    p->B = tcc_contract_extent(&c->b);
    /* Rows that several dimensions make up are either gathered into scratch, or lie in the last dimension alone and are
     * read in place, where it is long enough to fill tiles. */
    int64_t last = c->m.d[c->m.n - 1].extent;
    bool in_place = tcc_contract_reads_bf16(p)
                        ? is_ready(p) && (p->multiply != TCC_CONTRACT_TILES || last % TILE_ROWS == 0)
                        : true;
    p->row_extent = windows || (c->m.n > 1 && !p->a_columns && last >= LEAST_ROWS && in_place) ? last : p->M;
    return TCC_OK;
}

/* Whether vectors run along k: both operands are contiguous there, and so few rows share a panel of B that to transpose
 * it would cost more than the products. That depends on no access of an epilogue. */
static bool runs_along_k(const tcc_contract_plan *p, const tcc_llvm_target *target) {
    enum { MOST_ROWS = 4, LEAST_VECTORS = 4 };
    const tcc_contract_dim *k = &p->c.k.d[0];
    return !tcc_contract_reads_bf16(p) && p->c.k.n == 1 && k->a == 1 && k->b == 1 && p->c.n.d[0].b != 1 &&
           p->M <= MOST_ROWS && p->K >= LEAST_VECTORS * target->lanes && !p->c.n_windows && !p->c.computes_b;
}

/* Up to two by two tiles of registers; one takes as many cycles as it has rows, and a load half as many. */
static void choose_tiles(tcc_contract_plan *p, const tcc_llvm_target *target) {
    const int64_t vectors = tcc_ceil_div(p->N, target->lanes);
    double best = INFINITY;
    for (int v = 1; v <= 2 && v <= vectors; v++)
        for (int r = 1; r <= 2 * TILE_ROWS && r <= p->row_extent; r++) {
            double cycles = fmax(r * v, TILE_ROWS / 2 * (v + (double)tcc_ceil_div(r, TILE_ROWS))) + 0.1 * (v + r);
            double cost = cycles *
                          (double)(p->M / p->row_extent * tcc_ceil_div(p->row_extent, r) * tcc_ceil_div(vectors, v));
            if (cost < best * 0.999) best = cost, p->rows = r, p->vectors = v;
        }
}

/* A panel comes from the second-level cache again for each tile: few rows wait for it. A core broadcasts two elements
 * of A in the time of a multiply-add of 16 lanes, but one in that of 8, where it has two units of that width. Of 16
 * registers there are addresses for six rows: those of others come from memory. */
double tcc_tile_cycles(const tcc_llvm_target *target, int rows, int vectors) {
    enum { ROWS_OF_STREAM = 6 /* with these, two multiply-adds a cycle need 21 bytes of B */, ROWS_ADDRESSED = 6 };
    double work = rows * vectors, loads = vectors + 0.5 * rows;
    if (target->registers < 32) loads = vectors + rows + (rows > ROWS_ADDRESSED ? rows - ROWS_ADDRESSED : 0);
    return fmax(fmax(work, loads), 8) + 0.1 * (vectors + rows) +
           0.5 * (rows < ROWS_OF_STREAM ? ROWS_OF_STREAM - rows : 0);
}

/* Whether tiles of so many rows and vectors read B packed. It is read where it lies if it has whole panels and is near,
 * or few tiles of rows read it. */
static bool packs_b(const tcc_contract_plan *p, const tcc_llvm_target *target, int rows, int vectors) {
    enum { FEW_TILES = 2 };
    const tcc_contract_dim *k = &p->c.k.d[p->c.k.n - 1];
    if (p->c.n.d[0].b != 1 || p->N % ((int64_t)vectors * target->lanes)) return true;
    if (p->M / p->row_extent * tcc_ceil_div(p->row_extent, rows) <= FEW_TILES) return false;
    return p->c.dtype != TCC_F32 || llabs(k->b) > NEAR ||
           tcc_min_i64(p->K, TCC_CHAIN_PRODUCTS) > tcc_contract_rows_kept(p, target);
}

/* Cycles for a step of k that packing takes, which counts where few rows share it. */
static double packing(const tcc_contract_plan *p, const tcc_llvm_target *target, int rows, int vectors) {
    if (tcc_contract_reads_bf16(p) || p->c.n_windows || p->c.n.d[0].b != 1 || !p->K ||
        !packs_b(p, target, rows, vectors))
        return 0;
    return target->costs.packed_element_cycles * (double)tcc_round_up(p->N, (int64_t)vectors * target->lanes);
}

/* Whether sums of few products fill a matrix whose rows lie pages apart. Vectors that are shorter than a cache line are
 * better stored one behind the other then; those of AVX-512 are not. */
static bool writes_rows(const tcc_contract_plan *p, const tcc_llvm_target *target) {
    enum { FEW_PRODUCTS = 4, PAGE = 1024 /* floats */, LINE = 16 };
    return target->lanes < LINE && p->K <= FEW_PRODUCTS && llabs(p->c.m.d[p->c.m.n - 1].c[0]) >= PAGE;
}

/* The tile whose whole cover of M x N costs least: multiply-adds, or loads where these bind, and a little for each
 * operand; and what it packs. */
static void choose_tile(tcc_contract_plan *p, const tcc_llvm_target *target) {
    int64_t vectors = tcc_ceil_div(p->N, target->lanes);
    double best = INFINITY;
    /* Of a vector's product each row of the matrix is read once: the more of it in a row, the fewer pages are open. */
    const bool by_rows = writes_rows(p, target);
    const int most = p->M == 1 || by_rows ? (target->registers - 2) / 2 - 1 : 6;
    for (int v = 1; v <= most; v++)
        for (int r = 1; r * v + v + 1 < target->registers || (r == 1 && v == 1); r++) {
            if (r > (by_rows ? 1 : p->row_extent) || (v > vectors && v > 1)) continue;
            if (16 * r * v > 13 * target->registers) continue; /* LLVM spills sums where it schedules loads ahead */
            if (p->c.n_windows && !tcc_contract_reads_bf16(p) && p->row_extent < p->M && r > 6)
                continue; /* rows an image apart fall into one set of the cache */
            if (!tcc_contract_reads_bf16(p) && p->c.n_windows && p->c.window_b && vectors % v)
                continue; /* B is read in place */
            double tiles = (double)(p->M / p->row_extent * tcc_ceil_div(p->row_extent, r) * tcc_ceil_div(vectors, v));
            double cost = tcc_tile_cycles(target, r, v) * tiles + packing(p, target, r, v);
            if (cost < best * 0.999) best = cost, p->rows = r, p->vectors = v;
        }
}

static void choose_packing(tcc_contract_plan *p, const tcc_llvm_target *target) {
    if (!p->K) return; /* nothing to read */
    if (p->along_k) {
        p->pack_a = p->c.m.n > 1;
        return;
    }
    const tcc_contract_dim *m = &p->c.m.d[0], *k = &p->c.k.d[p->c.k.n - 1];
    bool windows = p->c.n_windows > 0;
    if (tcc_contract_reads_bf16(p)) {
        bool hostile = llabs(m->a) * 2 % 2048 == 0 || llabs(m->a) > 8192;
        p->pack_b = true;
        p->pack_a = p->a_columns || !is_ready(p) || (p->c.m.n > 1 && p->row_extent == p->M) ||
                    (hostile && p->panels > 1 && p->row_extent == p->M);
        return;
    }
    if (windows && p->c.window_b) {
        p->pack_a = k->a != 1 && llabs(k->a) > NEAR;
        return;
    }
    const int64_t bytes = tcc_dtype_bytes(p->c.dtype), widens = p->c.dtype != TCC_F32;
    p->pack_b = packs_b(p, target, p->rows, p->vectors);
    /* Rows a multiple of half a page apart fall into the same cache sets. */
    bool hostile = p->c.m.n > 1 || (llabs(m->a) * bytes) % 2048 == 0 || llabs(m->a) > 8192;
    p->pack_a = p->a_columns || hostile || k->a != 1 || widens;
    if ((p->panels == 1 && p->c.m.n == 1) || p->row_extent < p->M) p->pack_a = false; /* it would be read once */
}

/* How many tiles and panels there are. */
static void count_tiles(tcc_contract_plan *p, const tcc_llvm_target *target) {
    p->tiles = p->M / p->row_extent * tcc_ceil_div(p->row_extent, p->rows);
    p->panels = tcc_ceil_div(p->N, (int64_t)p->vectors * target->lanes);
    p->flop = 2.0 * (double)p->B * (double)p->M * (double)p->N * (double)p->K;
}

static void decide(tcc_contract_plan *p, const tcc_llvm_target *target) {
    if (p->along_k) p->rows = (int)p->M, p->vectors = 1;
    else if (p->multiply == TCC_CONTRACT_TILES) choose_tiles(p, target);
    else choose_tile(p, target);
    count_tiles(p, target);
    choose_packing(p, target);
    tcc_contract_choose_blocks(p, target);
}

/* There is a choice of instructions for bf16 alone. */
static tcc_status plan_multiply(tcc_contract_plan *p, const tcc_llvm_target *target, tcc_params *params) {
    int k_at_once = (int)fastest(target, &p->c);
    if (p->c.dtype == TCC_BF16) {
        const tcc_param_range range = tcc_param_powers(TCC_CONTRACT_FMA, TCC_CONTRACT_TILES);
        TCC_TRY(tcc_params_settle_int(params, TCC_PARAM_K_AT_ONCE, range, &k_at_once));
        if (!can_multiply(target, &p->c, k_at_once))
            return tcc_params_refuse(params, TCC_PARAM_K_AT_ONCE, k_at_once, "%d on this target",
                                     (int)fastest(target, &p->c));
    }
    p->multiply = (tcc_contract_multiply)k_at_once;
    return TCC_OK;
}

/* A tile that the registers hold. */
static tcc_status settle_tile(tcc_contract_plan *p, const tcc_llvm_target *target, tcc_params *params) {
    const bool tiles = p->multiply == TCC_CONTRACT_TILES;
    const int most = target->registers - 2; /* beside a vector of B and an element of A */
    const int64_t rows = tcc_min_i64(p->row_extent, tiles ? 2 * TILE_ROWS : tcc_max_i64(1, most - 1));
    TCC_TRY(tcc_params_settle_int(params, TCC_PARAM_ROWS, tcc_param_between(p->along_k ? rows : 1, rows), &p->rows));
    const int64_t vectors = p->along_k ? 1 : tiles ? 2 : tcc_max_i64(1, most / (p->rows + 1));
    TCC_TRY(tcc_params_settle_int(params, TCC_PARAM_VECTORS, tcc_param_between(1, vectors), &p->vectors));
    const int64_t columns = tcc_ceil_div(p->N, target->lanes);
    if (!tcc_contract_reads_bf16(p) && p->c.n_windows && p->c.window_b && columns % p->vectors)
        return tcc_params_refuse(params, TCC_PARAM_VECTORS, p->vectors, "a divisor of %lld, for B is read in place",
                                 (long long)columns);
    return TCC_OK;
}

/* Blocks of that tile. What was chosen for another tile is no proposal here. */
static tcc_status settle_blocks(tcc_contract_plan *p, const tcc_llvm_target *target, tcc_params *params) {
    count_tiles(p, target);
    choose_packing(p, target);
    TCC_TRY(tcc_params_settle(params, TCC_PARAM_TILES, tcc_param_between(1, p->tiles), &p->tiles_per_block));
    TCC_TRY(tcc_params_settle(params, TCC_PARAM_PANELS, tcc_param_between(1, p->panels), &p->panels_per_block));
    int64_t block_k = p->block_k, most_k = tcc_max_i64(tcc_contract_reads_bf16(p) ? 2 * p->K : p->K, 1);
    TCC_TRY(tcc_params_settle(params, TCC_PARAM_BLOCK_K, tcc_param_between(1, most_k), &block_k));
    tcc_contract_choose_k_blocks(p, block_k);
    if (p->block_k != block_k)
        return tcc_params_refuse(params, TCC_PARAM_BLOCK_K, block_k, "%lld, whole inner loops of the sum",
                                 (long long)p->block_k);
    TCC_TRY(
        tcc_params_settle(params, TCC_PARAM_BLOCKS_OF_K, tcc_param_between(1, p->k_blocks), &p->k_blocks_per_split));
    p->k_splits = tcc_ceil_div(p->k_blocks, p->k_blocks_per_split);
    p->row_blocks = tcc_ceil_div(p->tiles, p->tiles_per_block);
    p->panel_blocks = tcc_ceil_div(p->panels, p->panels_per_block);
    p->items = p->B * p->k_splits * p->row_blocks * p->panel_blocks;
    return TCC_OK;
}

/* Elements of a row that is an odd number of cache lines long. */
static int64_t odd_lines(int64_t elements, int64_t line) {
    int64_t lines = tcc_ceil_div(elements, line);
    return (lines + (lines % 2 == 0)) * line;
}

/* Packed bf16: A as rows of k, for pairs also as rows of pairs; B as rows of pairs. What is transposed goes on to whole
 * vectors. */
static void size_pairs(tcc_contract_plan *p, int64_t block_rows, int64_t panel) {
    enum { LINE = 32, VECTOR = 16 };
    const int64_t pairs = tcc_ceil_div(p->block_k, 2), high = tcc_round_up(block_rows, VECTOR);
    const bool rows_of_pairs = p->a_columns && p->multiply == TCC_CONTRACT_PAIRS;
    p->a_row = rows_of_pairs ? odd_lines(2 * high, LINE) : odd_lines(p->block_k + (p->a_columns ? LINE : 0), LINE);
    p->a_floats = p->pack_a ? p->a_row / 2 * (rows_of_pairs ? pairs : high) + 64 : 0;
    p->b_floats = panel * (tcc_round_up(pairs, VECTOR) + VECTOR);
}

tcc_status tcc_contract_make_plan(const tcc_llvm_target *target, const tcc_contract *c, tcc_params *params,
                                  tcc_diag *diag, tcc_contract_plan *p) {
    memset(p, 0, sizeof *p); /* a literal of its size would be a copy on the stack */
    p->c = *c;
    if (c->n_accesses < 1 || c->n_accesses > TCC_CONTRACT_MAX_ACCESSES)
        return TCC_BUG(diag, "a contraction with %d accesses", c->n_accesses);
    if (c->dtype != TCC_F32 && c->dtype != TCC_F16 && c->dtype != TCC_BF16)
        return TCC_BUG(diag, "a contraction of %s on the host", tcc_dtype_text(c->dtype));
    TCC_TRY(plan_multiply(p, target, params));
    TCC_TRY(normalize(p, target, params, diag));
    p->along_k = runs_along_k(p, target);
    if (tcc_params_decides(params)) decide(p, target);
    TCC_TRY(settle_tile(p, target, params));
    TCC_TRY(settle_blocks(p, target, params));
    if (c->computes_b && p->swapped) return TCC_BUG(diag, "an operand cannot be computed in this order");
    p->pack_b = p->pack_b || c->computes_b; /* all else is as if it were in memory, and so are the bits of the sums */
    const int64_t panel = (int64_t)p->vectors * target->lanes;

    /* Rows of packed A are an odd number of cache lines apart, so that they spread over the cache's sets. Slack:
     * vectors may be stored past the last row of either. */
    int64_t block_rows = p->tiles_per_block * p->rows;
    if (tcc_contract_reads_bf16(p)) {
        size_pairs(p, block_rows, panel);
    } else {
        p->a_row = odd_lines(p->a_columns ? block_rows : p->block_k, 16);
        p->a_floats = p->pack_a ? p->a_row * (p->a_columns ? p->block_k : block_rows) + 64 : 0;
        p->b_floats = p->pack_b ? panel * (tcc_round_up(p->block_k, 16) + 16) : 0;
    }
    int64_t floats = p->a_floats + p->b_floats;
    if (p->k_blocks_per_split > 1) floats += p->tiles_per_block * p->rows * p->panels_per_block * panel;
    floats += p->rows * panel; /* a finished tile */
    p->scratch_bytes = floats * 4;
    if (p->k_splits > 1) {
        p->workspace_bytes = p->k_splits * p->B * p->M * p->panels * panel * 4;
        p->combine_rows = tcc_max_i64(1, tcc_min_i64(p->M, 16384 / (p->panels * panel)));
        p->combine_items = p->B * tcc_ceil_div(p->M, p->combine_rows);
    }
    p->bytes = (double)p->B * ((double)tcc_dtype_bytes(c->dtype) * (double)(p->M + p->N) * (double)p->K +
                               4.0 * (double)p->M * (double)p->N);
    return TCC_OK;
}

static void print_dims(tcc_strbuf *out, const char *name, const tcc_contract_dims *l, int n_accesses) {
    tcc_strbuf_printf(out, " %s", name);
    for (int i = 0; i < l->n; i++) {
        const tcc_contract_dim *d = &l->d[i];
        tcc_strbuf_printf(out, "(%lld:%lld,%lld", (long long)d->extent, (long long)d->a, (long long)d->b);
        for (int x = 0; x < n_accesses; x++) tcc_strbuf_printf(out, ",%lld", (long long)d->c[x]);
        for (int v = 0; v < TCC_CONTRACT_MAX_WINDOWS; v++)
            if (d->w[v]) tcc_strbuf_printf(out, " w%d=%lld", v, (long long)d->w[v]);
        tcc_strbuf_add(out, ")");
    }
}

void tcc_contract_key(const tcc_contract_plan *p, tcc_strbuf *out) {
    tcc_strbuf_printf(out, "contract %s by %d%s%s", tcc_dtype_text(p->c.dtype), (int)p->multiply,
                      p->swapped ? " swapped" : "", p->c.accumulate ? " accumulate" : "");
    if (p->c.computes_b) tcc_strbuf_add(out, " computes B");
    print_dims(out, "b", &p->c.b, p->c.n_accesses);
    print_dims(out, "m", &p->c.m, p->c.n_accesses);
    print_dims(out, "n", &p->c.n, p->c.n_accesses);
    print_dims(out, "k", &p->c.k, 0);
    for (int v = 0; v < p->c.n_windows; v++)
        tcc_strbuf_printf(out, " window %lld+%lld", (long long)p->c.windows[v].start,
                          (long long)p->c.windows[v].extent);
    tcc_strbuf_printf(out, " tile %dx%d block %lldx%lldx%lld split %lld", p->rows, p->vectors,
                      (long long)p->tiles_per_block, (long long)p->panels_per_block, (long long)p->block_k,
                      (long long)p->k_blocks_per_split);
}
