/* SPDX-License-Identifier: MIT
 * Planning a contraction: its multiply, register tile, blocking, split of k.
 *
 * The plan depends on shapes and on the target's registers, never on the number of threads. Costs are in cycles of a
 * core with one full-width multiply-add a cycle; only their ratios matter. */
#include "codegen/contract/internal.h"
#include "ir/chain.h"
#include "ir/support/gcd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ITEMS = 48,              /* enough for balance on many threads; more would repeat packing */
    BLOCK_K = TCC_CHAIN_PRODUCTS, /* at most, in a block: the sums of a tile take in one block of k term by term */
    LEAST_SPLIT_K = 256,          /* of k in one part of a split sum */
    LEAST_ROWS = 7,
    CACHE_WAYS = 8,
    NEAR = 512, /* floats: rows closer than this are read in place about as fast as packed */
    /* With less of m, n or k packing bf16 by pairs costs more than its products save. */
    LEAST_BF16_ROWS = 8,
    LEAST_BF16_K = 16,
    TILE_ROWS = TCC_EMIT_TILE_ROWS,
};

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

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

static bool reads_bf16(const tcc_contract_plan *p) { return p->multiply != TCC_CONTRACT_FMA; }

bool tcc_contract_has_windows_on(const tcc_contract_plan *p, int operand) {
    return p->c.n_windows && p->c.window_b == (operand == TCC_OPERAND_B);
}

/* Multiply-adds a cycle. */
static double rate_of(const tcc_llvm_target *target, tcc_contract_multiply multiply) {
    return multiply == TCC_CONTRACT_TILES   ? target->hw.fma_bf16_tiles
           : multiply == TCC_CONTRACT_PAIRS ? target->hw.fma_bf16_pairs
                                            : target->hw.fma_f32;
}

static tcc_contract_multiply fastest(const tcc_llvm_target *target, const tcc_contract *c) {
    tcc_contract_multiply best = TCC_CONTRACT_FMA;
    if (c->dtype != TCC_BF16 || tcc_contract_extent(&c->k) < LEAST_BF16_K ||
        tcc_contract_extent(&c->m) < LEAST_BF16_ROWS || tcc_contract_extent(&c->n) < LEAST_BF16_ROWS)
        return best;
    static const tcc_contract_multiply others[] = {TCC_CONTRACT_PAIRS, TCC_CONTRACT_TILES};
    for (int i = 0; i < 2; i++)
        if (rate_of(target, others[i]) > rate_of(target, best)) best = others[i];
    return best;
}

/* The same as was decided, where the target can. */
static bool can_multiply(const tcc_llvm_target *target, const tcc_contract *c, int64_t k_at_once) {
    if (k_at_once == TCC_CONTRACT_FMA) return true;
    return (k_at_once == TCC_CONTRACT_PAIRS || k_at_once == TCC_CONTRACT_TILES) && c->dtype == TCC_BF16 &&
           tcc_contract_extent(&c->k) > 0 && rate_of(target, (tcc_contract_multiply)k_at_once) > 0;
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
    bool on_m = tcc_contract_have_windows(&c->m), windows = on_m && !reads_bf16(p);
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
    bool in_place = reads_bf16(p) ? is_ready(p) && (p->multiply != TCC_CONTRACT_TILES || last % TILE_ROWS == 0) : true;
    p->row_extent = windows || (c->m.n > 1 && !p->a_columns && last >= LEAST_ROWS && in_place) ? last : p->M;
    return TCC_OK;
}

/* Whether vectors run along k: both operands are contiguous there, and so few rows share a panel of B that to transpose
 * it would cost more than the products. That depends on no access of an epilogue. */
static bool runs_along_k(const tcc_contract_plan *p, const tcc_llvm_target *target) {
    enum { MOST_ROWS = 4, LEAST_VECTORS = 4 };
    const tcc_contract_dim *k = &p->c.k.d[0];
    return !reads_bf16(p) && p->c.k.n == 1 && k->a == 1 && k->b == 1 && p->c.n.d[0].b != 1 && p->M <= MOST_ROWS &&
           p->K >= LEAST_VECTORS * target->lanes && !p->c.n_windows && !p->c.computes_b;
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

/* Rows of B that a core's cache keeps: those whose distance has a large power of two for a factor share a few sets. */
static int64_t rows_kept(const tcc_contract_plan *p, const tcc_llvm_target *target) {
    int64_t apart = llabs(p->c.k.d[p->c.k.n - 1].b) * tcc_dtype_bytes(p->c.dtype);
    int64_t factor = apart ? apart & -apart : 1; /* the power of two */
    return target->hw.cache_bytes / min64(factor, target->hw.cache_bytes / CACHE_WAYS);
}

/* Whether tiles of so many rows and vectors read B packed. It is read where it lies if it has whole panels and is near,
 * or few tiles of rows read it. */
static bool packs_b(const tcc_contract_plan *p, const tcc_llvm_target *target, int rows, int vectors) {
    enum { FEW_TILES = 2 };
    const tcc_contract_dim *k = &p->c.k.d[p->c.k.n - 1];
    if (p->c.n.d[0].b != 1 || p->N % ((int64_t)vectors * target->lanes)) return true;
    if (p->M / p->row_extent * tcc_ceil_div(p->row_extent, rows) <= FEW_TILES) return false;
    return p->c.dtype != TCC_F32 || llabs(k->b) > NEAR || min64(p->K, BLOCK_K) > rows_kept(p, target);
}

/* Cycles for a step of k that packing takes, which counts where few rows share it. */
static double packing(const tcc_contract_plan *p, const tcc_llvm_target *target, int rows, int vectors) {
    if (reads_bf16(p) || p->c.n_windows || p->c.n.d[0].b != 1 || !p->K || !packs_b(p, target, rows, vectors)) return 0;
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
            if (p->c.n_windows && !reads_bf16(p) && p->row_extent < p->M && r > 6)
                continue; /* rows an image apart fall into one set of the cache */
            if (!reads_bf16(p) && p->c.n_windows && p->c.window_b && vectors % v) continue; /* B is read in place */
            double tiles = (double)(p->M / p->row_extent * tcc_ceil_div(p->row_extent, r) * tcc_ceil_div(vectors, v));
            double cost = tcc_tile_cycles(target, r, v) * tiles + packing(p, target, r, v);
            if (cost < best * 0.999) best = cost, p->rows = r, p->vectors = v;
        }
}

/* What is larger leaves a core's cache before it is used again. */
static int64_t cache_floats(const tcc_llvm_target *target) { return target->hw.cache_bytes / (int64_t)sizeof(float); }

static void choose_packing(tcc_contract_plan *p, const tcc_llvm_target *target) {
    if (!p->K) return; /* nothing to read */
    if (p->along_k) {
        p->pack_a = p->c.m.n > 1;
        return;
    }
    const tcc_contract_dim *m = &p->c.m.d[0], *k = &p->c.k.d[p->c.k.n - 1];
    bool windows = p->c.n_windows > 0;
    if (reads_bf16(p)) {
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

int64_t tcc_contract_k_extent(const tcc_contract_plan *p, int dim) {
    const tcc_contract_dims *k = &p->c.k;
    const bool by_pairs = reads_bf16(p) && k->n > 1 && dim == k->n - 1;
    return by_pairs ? tcc_round_up(k->d[dim].extent, 2) : k->d[dim].extent;
}

/* Whole inner dimensions and a part of one: about `most` elements of k in a block. */
static void choose_k_blocks(tcc_contract_plan *p, int64_t most) {
    if (!p->K) {
        p->k_inner = p->k_step = p->k_blocks = 1;
        p->k_split_dim = 0;
        p->block_k = 1;
        return;
    }
    const tcc_contract_dims *k = &p->c.k;
    p->k_inner = 1;
    p->k_split_dim = k->n - 1;
    while (p->k_split_dim > 0 && p->k_inner * tcc_contract_k_extent(p, p->k_split_dim) <= most)
        p->k_inner *= tcc_contract_k_extent(p, p->k_split_dim--);
    int64_t extent = k->d[p->k_split_dim].extent, step = min64(extent, max64(1, most / p->k_inner));
    step = tcc_ceil_div(extent, tcc_ceil_div(extent, step));
    if (step < extent && p->k_inner == 1) step = min64(extent, tcc_round_up(step, reads_bf16(p) ? 32 : 8));
    p->k_step = step;
    p->k_blocks = tcc_ceil_div(extent, step);
    for (int i = 0; i < p->k_split_dim; i++) p->k_blocks *= k->d[i].extent;
    p->block_k = step * p->k_inner;
}

/* Cycles of one core for a blocking: multiply-adds with uneven blocks, packing, partial sums; and a price for too few
 * items. */
static double cost_of(const tcc_contract_plan *p, const tcc_llvm_target *target, int64_t wanted) {
    const int lanes = target->lanes;
    double width = (double)p->vectors * lanes, all_k = (double)p->K * (double)p->B;
    double rows = (double)(p->row_blocks * p->tiles_per_block * p->rows);
    double vectors = (double)(p->panel_blocks * p->panels_per_block * p->vectors);
    double cycles = rows * vectors * all_k * target->hw.fma_f32 / rate_of(target, p->multiply);
    /* Each block of rows packs, or at least streams, all of B. */
    const tcc_costs *costs = &target->costs;
    const tcc_product_cycles *price = reads_bf16(p) ? &costs->bf16 : &costs->f32;
    double each_b = !p->pack_b ? price->b_in_place : p->c.n.d[0].b == 1 ? price->b_rows : price->b_columns;
    if (p->pack_b && p->block_k > rows_kept(p, target)) each_b += costs->far_element_cycles;
    /* All taps of a filter read a part of k one after the other: from near, if it is small. */
    bool far = (double)(p->M + p->N) * (double)p->K / (double)p->k_splits > (double)cache_floats(target);
    if (p->c.window_b && p->B > 1 && far) each_b = costs->far_element_cycles;
    cycles += each_b * (double)p->row_blocks * (double)p->panels * width * all_k;
    if (p->pack_a) {
        /* Neighbouring items share packed rows when the whole of k is one block; a thread has a few of these. */
        double times = p->k_blocks_per_split == 1 ? fmin((double)p->panel_blocks, 1.5) : (double)p->panel_blocks;
        double block_rows = (double)(p->tiles_per_block * p->rows);
        double waste = p->a_columns ? (double)tcc_round_up((int64_t)block_rows, lanes) / block_rows
                                    : 1; /* part of a vector */
        cycles += (p->a_columns ? price->a_columns : price->a_rows) * waste * times * (double)p->M * all_k;
    }
    double sums = (double)(p->B * p->M) * (double)p->panels * width / lanes;
    if (p->k_blocks_per_split > 1) cycles += price->kept * sums * (double)p->k_blocks;
    if (p->k_splits > 1) cycles += price->parts * sums * (double)p->k_splits;
    double missing = p->items < wanted ? (double)wanted / (double)p->items : 1;
    return cycles * (1 + costs->missing_item * (missing - 1)) + costs->item_cycles * (double)p->items;
}

/* `trial` with so many blocks of panels; keeps it in *p if it costs less than *best. */
static void try_panels(tcc_contract_plan *p, tcc_contract_plan *trial, const tcc_llvm_target *target, int64_t blocks,
                       int64_t wanted, double *best) {
    trial->panels_per_block = tcc_ceil_div(p->panels, blocks);
    trial->panel_blocks = tcc_ceil_div(p->panels, trial->panels_per_block);
    trial->items = p->B * trial->k_splits * trial->row_blocks * trial->panel_blocks;
    const double cost = cost_of(trial, target, wanted);
    if (cost < *best * 0.999) *best = cost, *p = *trial;
}

/* Blocks of rows and panels for the k blocks that `trial` has; keeps in *p what costs less than *best. */
static void try_blocks(tcc_contract_plan *p, tcc_contract_plan *trial, const tcc_llvm_target *target, int64_t wanted,
                       double *best) {
    int64_t most = cache_floats(target) / 2, /* of packed A, so that it stays in the cache */
        rows_fit = max64(p->rows, most / trial->block_k), least = tcc_ceil_div(p->tiles, max64(1, rows_fit / p->rows));
    for (int64_t row_blocks = least; row_blocks <= p->tiles && row_blocks < least + MOST_ITEMS; row_blocks++) {
        trial->tiles_per_block = tcc_ceil_div(p->tiles, row_blocks);
        trial->row_blocks = tcc_ceil_div(p->tiles, trial->tiles_per_block);
        const int64_t others = p->B * trial->k_splits * trial->row_blocks;
        int64_t blocks = min64(p->panels, max64(1, tcc_ceil_div(wanted, others)));
        try_panels(p, trial, target, blocks, wanted, best);
        /* Fewer items pack bf16 less often, which may be worth more than they are, if each processor has one. */
        const int64_t enough = min64(wanted, target->hw.processors);
        while (reads_bf16(p) && (blocks /= 2) > 0 && others * blocks >= enough)
            try_panels(p, trial, target, blocks, wanted, best);
    }
}

/* Whether memory binds, from which few rows read B where it lies, in rows that begin in pages of their own. A panel of
 * all k would be a few lines of each page, which no hardware foresees. So a block has few k, and what is read goes on
 * from panel to panel. */
static bool streams_b(const tcc_contract_plan *p) {
    enum { PAGE = 4096, MOST_ROWS = 4 };
    const int64_t apart = llabs(p->c.k.d[p->c.k.n - 1].b) * tcc_dtype_bytes(p->c.dtype);
    return p->K && p->M <= MOST_ROWS && !p->pack_b && !reads_bf16(p) && !p->c.n_windows && apart >= PAGE;
}

static void choose_blocks(tcc_contract_plan *p, const tcc_llvm_target *target) {
    /* Tiles leave less to share: packing and epilogues do not get faster by them. */
    double faster = fmax(1, rate_of(target, p->multiply) / target->hw.fma_f32 / 4);
    int64_t wanted = (int64_t)fmin(fmax(p->flop / (target->costs.item_flop * faster), 1), MOST_ITEMS), before = 0;
    tcc_contract_plan trial = *p;
    double best = INFINITY;
    int64_t all_k = 1; /* as it is packed */
    for (int i = 0; i < p->c.k.n; i++) all_k *= tcc_contract_k_extent(p, i);
    /* A lane is a chain of its own. */
    const int64_t chains = p->along_k ? target->lanes : 1;
    const int64_t most_k = streams_b(p) ? target->lanes : BLOCK_K * chains, least_k = min64(most_k, LEAST_SPLIT_K);
    for (int64_t splits = 1; splits <= MOST_ITEMS && (splits == 1 || p->K / splits >= LEAST_SPLIT_K);
         splits += (splits + 2) / 3)
        for (int64_t most = most_k; most >= least_k; most -= most / 3) {
            choose_k_blocks(&trial, max64(1, min64(most, tcc_ceil_div(all_k, splits))));
            trial.k_blocks_per_split = tcc_ceil_div(trial.k_blocks, splits);
            trial.k_splits = tcc_ceil_div(trial.k_blocks, trial.k_blocks_per_split);
            int64_t same = trial.block_k * 64 + trial.k_splits;
            if (same != before) try_blocks(p, &trial, target, wanted, &best);
            before = same;
        }
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
    choose_blocks(p, target);
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
    const int64_t rows = min64(p->row_extent, tiles ? 2 * TILE_ROWS : max64(1, most - 1));
    TCC_TRY(tcc_params_settle_int(params, TCC_PARAM_ROWS, tcc_param_between(p->along_k ? rows : 1, rows), &p->rows));
    const int64_t vectors = p->along_k ? 1 : tiles ? 2 : max64(1, most / (p->rows + 1));
    TCC_TRY(tcc_params_settle_int(params, TCC_PARAM_VECTORS, tcc_param_between(1, vectors), &p->vectors));
    const int64_t columns = tcc_ceil_div(p->N, target->lanes);
    if (!reads_bf16(p) && p->c.n_windows && p->c.window_b && columns % p->vectors)
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
    int64_t block_k = p->block_k, most_k = max64(reads_bf16(p) ? 2 * p->K : p->K, 1);
    TCC_TRY(tcc_params_settle(params, TCC_PARAM_BLOCK_K, tcc_param_between(1, most_k), &block_k));
    choose_k_blocks(p, block_k);
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
    if (reads_bf16(p)) {
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
        p->combine_rows = max64(1, min64(p->M, 16384 / (p->panels * panel)));
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
