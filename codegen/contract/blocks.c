/* SPDX-License-Identifier: MIT
 * The blocks of a contraction: of k, of rows and of panels of columns. Costs are in cycles of a core with one
 * full-width multiply-add a cycle; only their ratios matter. */
#include "codegen/contract/internal.h"
#include "ir/chain.h"
#include "ir/support/integers.h"

#include <math.h>
#include <stdlib.h>

enum {
    MOST_ITEMS = 48,              /* enough for balance on many threads; more would repeat packing */
    BLOCK_K = TCC_CHAIN_PRODUCTS, /* at most, in a block: the sums of a tile take in one block of k term by term */
    LEAST_SPLIT_K = 256,          /* of k in one part of a split sum */
    CACHE_WAYS = 8,
};

bool tcc_contract_reads_bf16(const tcc_contract_plan *p) { return p->multiply != TCC_CONTRACT_FMA; }

double tcc_contract_rate(const tcc_llvm_target *target, tcc_contract_multiply multiply) {
    return multiply == TCC_CONTRACT_TILES   ? target->hw.fma_bf16_tiles
           : multiply == TCC_CONTRACT_PAIRS ? target->hw.fma_bf16_pairs
                                            : target->hw.fma_f32;
}

int64_t tcc_contract_rows_kept(const tcc_contract_plan *p, const tcc_llvm_target *target) {
    int64_t apart = llabs(p->c.k.d[p->c.k.n - 1].b) * tcc_dtype_bytes(p->c.dtype);
    int64_t factor = apart ? apart & -apart : 1; /* the power of two */
    return target->hw.cache_bytes / tcc_min_i64(factor, target->hw.cache_bytes / CACHE_WAYS);
}

/* What is larger leaves a core's cache before it is used again. */
static int64_t cache_floats(const tcc_llvm_target *target) { return target->hw.cache_bytes / (int64_t)sizeof(float); }

int64_t tcc_contract_k_extent(const tcc_contract_plan *p, int dim) {
    const tcc_contract_dims *k = &p->c.k;
    const bool by_pairs = tcc_contract_reads_bf16(p) && k->n > 1 && dim == k->n - 1;
    return by_pairs ? tcc_round_up(k->d[dim].extent, 2) : k->d[dim].extent;
}

void tcc_contract_choose_k_blocks(tcc_contract_plan *p, int64_t most) {
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
    int64_t extent = k->d[p->k_split_dim].extent, step = tcc_min_i64(extent, tcc_max_i64(1, most / p->k_inner));
    step = tcc_ceil_div(extent, tcc_ceil_div(extent, step));
    if (step < extent && p->k_inner == 1)
        step = tcc_min_i64(extent, tcc_round_up(step, tcc_contract_reads_bf16(p) ? 32 : 8));
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
    double cycles = rows * vectors * all_k * target->hw.fma_f32 / tcc_contract_rate(target, p->multiply);
    /* Each block of rows packs, or at least streams, all of B. */
    const tcc_costs *costs = &target->costs;
    const tcc_product_cycles *price = tcc_contract_reads_bf16(p) ? &costs->bf16 : &costs->f32;
    double each_b = !p->pack_b ? price->b_in_place : p->c.n.d[0].b == 1 ? price->b_rows : price->b_columns;
    if (p->pack_b && p->block_k > tcc_contract_rows_kept(p, target)) each_b += costs->far_element_cycles;
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
        rows_fit = tcc_max_i64(p->rows, most / trial->block_k),
            least = tcc_ceil_div(p->tiles, tcc_max_i64(1, rows_fit / p->rows));
    for (int64_t row_blocks = least; row_blocks <= p->tiles && row_blocks < least + MOST_ITEMS; row_blocks++) {
        trial->tiles_per_block = tcc_ceil_div(p->tiles, row_blocks);
        trial->row_blocks = tcc_ceil_div(p->tiles, trial->tiles_per_block);
        const int64_t others = p->B * trial->k_splits * trial->row_blocks;
        int64_t blocks = tcc_min_i64(p->panels, tcc_max_i64(1, tcc_ceil_div(wanted, others)));
        try_panels(p, trial, target, blocks, wanted, best);
        /* Fewer items pack bf16 less often, which may be worth more than they are, if each processor has one. */
        const int64_t enough = tcc_min_i64(wanted, target->hw.processors);
        while (tcc_contract_reads_bf16(p) && (blocks /= 2) > 0 && others * blocks >= enough)
            try_panels(p, trial, target, blocks, wanted, best);
    }
}

/* Whether memory binds, from which few rows read B where it lies, in rows that begin in pages of their own. A panel of
 * all k would be a few lines of each page, which no hardware foresees. So a block has few k, and what is read goes on
 * from panel to panel. */
static bool streams_b(const tcc_contract_plan *p) {
    enum { PAGE = 4096, MOST_ROWS = 4 };
    const int64_t apart = llabs(p->c.k.d[p->c.k.n - 1].b) * tcc_dtype_bytes(p->c.dtype);
    return p->K && p->M <= MOST_ROWS && !p->pack_b && !tcc_contract_reads_bf16(p) && !p->c.n_windows && apart >= PAGE;
}

/* Elements of k in a block, at most. A lane along k is a chain of additions of its own. A tile adds up its 32 products
 * in two chains of 16 before they join the sum (Intel's manual, TDPBF16PS), so that chains are short at any rate; with
 * so much of k a panel of B is two thirds of the first-level cache. */
static int64_t longest_block(const tcc_contract_plan *p, const tcc_llvm_target *target) {
    enum { BLOCK_OF_TILES = 512 };
    if (streams_b(p)) return target->lanes;
    if (p->along_k) return (int64_t)BLOCK_K * target->lanes;
    return p->multiply == TCC_CONTRACT_TILES ? BLOCK_OF_TILES : BLOCK_K;
}

void tcc_contract_choose_blocks(tcc_contract_plan *p, const tcc_llvm_target *target) {
    /* Tiles leave less to share: packing and epilogues do not get faster by them. */
    double faster = fmax(1, tcc_contract_rate(target, p->multiply) / target->hw.fma_f32 / 4);
    int64_t wanted = (int64_t)fmin(fmax(p->flop / (target->costs.item_flop * faster), 1), MOST_ITEMS), before = 0;
    tcc_contract_plan trial = *p;
    double best = INFINITY;
    int64_t all_k = 1; /* as it is packed */
    for (int i = 0; i < p->c.k.n; i++) all_k *= tcc_contract_k_extent(p, i);
    const int64_t most_k = longest_block(p, target), least_k = tcc_min_i64(most_k, LEAST_SPLIT_K);
    for (int64_t splits = 1; splits <= MOST_ITEMS && (splits == 1 || p->K / splits >= LEAST_SPLIT_K);
         splits += (splits + 2) / 3)
        for (int64_t most = most_k; most >= least_k; most -= most / 3) {
            tcc_contract_choose_k_blocks(&trial, tcc_max_i64(1, tcc_min_i64(most, tcc_ceil_div(all_k, splits))));
            trial.k_blocks_per_split = tcc_ceil_div(trial.k_blocks, splits);
            trial.k_splits = tcc_ceil_div(trial.k_blocks, trial.k_blocks_per_split);
            int64_t same = trial.block_k * 64 + trial.k_splits;
            if (same != before) try_blocks(p, &trial, target, wanted, &best);
            before = same;
        }
}
