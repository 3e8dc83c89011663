/* SPDX-License-Identifier: MIT
 * Planning Winograd's convolutions; see winograd.h. */
#include "codegen/contract/internal.h"
#include "codegen/contract/winograd.h"
#include "ir/support/integers.h"

#include <math.h>

enum {
    POINTS = TCC_WINOGRAD_POINTS,
    SLACK = TCC_WINOGRAD_SLACK,
    WIDTH = 64,          /* columns of an item, about: what is transformed again for each must not weigh */
    GRADIENT_LINES = 32, /* of a block in the filter's gradient */
    GRADIENT_ITEMS = 32,
    MOST_LINE = 256, /* words of the channels that are transformed at once */
    MOST_VECTORS = 6,
};

/* An odd number of cache lines, so that rows spread over the cache's sets. */
static int64_t odd_lines(int64_t words) {
    int64_t lines = tcc_ceil_div(words, SLACK);
    return (lines + (lines % 2 == 0)) * SLACK;
}

static bool tile_fits(const tcc_llvm_target *target, int rows, int vectors) {
    return rows * vectors + vectors + 1 < target->registers && 16 * rows * vectors <= 13 * target->registers;
}

/* There is a choice for bf16 alone. `whole`: channels fill two vectors, where they are neighbours in the sum. */
static tcc_status plan_multiply(const tcc_llvm_target *target, bool whole, tcc_params *params, tcc_winograd *w) {
    const bool can = w->type == TCC_BF16 && target->hw.fma_bf16_pairs > 0 && whole;
    int k_at_once = can && target->hw.fma_bf16_pairs > target->hw.fma_f32 ? TCC_CONTRACT_PAIRS : TCC_CONTRACT_FMA;
    if (w->type == TCC_BF16) {
        const tcc_param_range range = tcc_param_powers(TCC_CONTRACT_FMA, can ? TCC_CONTRACT_PAIRS : TCC_CONTRACT_FMA);
        TCC_TRY(tcc_params_settle_int(params, TCC_PARAM_K_AT_ONCE, range, &k_at_once));
    }
    w->multiply = (tcc_contract_multiply)k_at_once;
    return TCC_OK;
}

/* The largest number of vectors that divides `all` of them and is about `columns`. */
static int64_t vectors_of_item(const tcc_llvm_target *target, int64_t all, int64_t columns) {
    const int64_t most = columns / target->lanes;
    int64_t of_item = 1;
    for (int64_t v = 1; v <= most && v <= all; v++)
        if (all % v == 0) of_item = v;
    return of_item;
}

static tcc_status check_divides(const tcc_params *params, tcc_param which, int64_t value, int64_t all) {
    return all % value ? tcc_params_refuse(params, which, value, "a divisor of %lld", (long long)all) : TCC_OK;
}

/* The width of an item, about `wide`, out of a row of `columns`, which it divides, and the vectors of a tile, which
 * divide that. */
static tcc_status plan_width(const tcc_llvm_target *target, int64_t columns, int64_t wide, tcc_params *params,
                             tcc_winograd *w) {
    w->width = vectors_of_item(target, columns / target->lanes, wide) * target->lanes;
    const tcc_param_range widths = tcc_param_multiples(target->lanes, target->lanes, columns);
    TCC_TRY(tcc_params_settle(params, TCC_PARAM_WIDTH, widths, &w->width));
    TCC_TRY(check_divides(params, TCC_PARAM_WIDTH, w->width, columns));
    w->panels = columns / w->width;
    const int64_t of_item = w->width / target->lanes;
    w->vectors = 1;
    double best = INFINITY;
    for (int v = 1; v <= MOST_VECTORS; v++) {
        int rows = 1;
        while (tile_fits(target, rows + 1, v)) rows++;
        double cost = tcc_tile_cycles(target, rows, v) / (rows * v);
        if (of_item % v == 0 && cost < best * 0.999) best = cost, w->vectors = v;
    }
    int64_t most = 1;
    while (most < MOST_VECTORS && tile_fits(target, 1, (int)most + 1)) most++;
    TCC_TRY(tcc_params_settle_int(params, TCC_PARAM_VECTORS, tcc_param_between(1, most), &w->vectors));
    return check_divides(params, TCC_PARAM_VECTORS, w->vectors, of_item);
}

/* The rows of a tile. */
static tcc_status settle_rows(const tcc_llvm_target *target, tcc_params *params, tcc_winograd *w) {
    int64_t most = 1;
    while (tile_fits(target, (int)most + 1, w->vectors)) most++;
    return tcc_params_settle_int(params, TCC_PARAM_ROWS, tcc_param_between(1, most), &w->tile_height);
}

int64_t tcc_winograd_filter_point_words(const tcc_winograd *w) { return w->channels / w->multiply * w->width + SLACK; }
int64_t tcc_winograd_filter_words(const tcc_winograd *w) {
    return POINTS * w->panels * tcc_winograd_filter_point_words(w);
}

int64_t tcc_winograd_filter_items(const tcc_llvm_target *target, const tcc_winograd *w) {
    return w->panels * (w->channels / (w->multiply * target->lanes));
}

int64_t tcc_winograd_point_words(const tcc_winograd *w) { return w->lines * w->row + SLACK; }

static void choose_forward(const tcc_llvm_target *target, tcc_winograd *w) {
    const int64_t most_words = target->hw.cache_bytes * 5 / 8 / (int64_t)sizeof(float); /* of tiles and products */
    const int64_t unit = w->multiply * target->lanes;
    double best = INFINITY;
    for (int64_t k = 1; k <= w->channels / unit; k++) {
        int64_t line = w->channels / k / w->multiply, row = odd_lines(line);
        if (w->channels % (k * unit) || line > MOST_LINE) continue;
        for (int r = 1; tile_fits(target, r, w->vectors); r++)
            for (int64_t tiles = tcc_round_up(w->tiles < 24 ? w->tiles : 24, r); tiles < w->tiles + r; tiles += r) {
                if (tiles > 24 + r && tiles * POINTS * (row + w->width) > most_words) break;
                int64_t blocks = tcc_ceil_div(w->tiles, tiles);
                double steps = (double)(blocks * (tiles / r)) * tcc_tile_cycles(target, r, w->vectors);
                /* Sums go to scratch and back, filters come from afar, and there should be some items. */
                double cost = steps * (1 + 3.0 / (double)line + 2.0 / (double)tiles) *
                              (blocks * w->panels < 8 ? 1.2 : 1);
                if (cost >= best * 0.999) continue;
                best = cost;
                w->block_k = line * w->multiply, w->tile_height = r, w->block_tiles = tiles;
            }
    }
}

tcc_status tcc_winograd_plan_forward(const tcc_llvm_target *target, tcc_params *params, tcc_winograd *w) {
    w->tiles = w->images * w->tile_rows * w->tile_columns;
    TCC_TRY(plan_multiply(target, w->channels % (TCC_CONTRACT_PAIRS * target->lanes) == 0, params, w));
    /* Transforms weigh more where products are faster. */
    TCC_TRY(plan_width(target, w->out_channels, WIDTH * w->multiply, params, w));
    if (tcc_params_decides(params)) choose_forward(target, w);
    const int64_t unit = w->multiply * target->lanes, most_k = w->multiply * MOST_LINE;
    const tcc_param_range block_k = tcc_param_multiples(unit, unit, w->channels < most_k ? w->channels : most_k);
    TCC_TRY(tcc_params_settle(params, TCC_PARAM_BLOCK_K, block_k, &w->block_k));
    TCC_TRY(check_divides(params, TCC_PARAM_BLOCK_K, w->block_k, w->channels));
    TCC_TRY(settle_rows(target, params, w));
    const int64_t r = w->tile_height;
    const tcc_param_range tiles = tcc_param_multiples(r, r, tcc_round_up(w->tiles, r));
    TCC_TRY(tcc_params_settle(params, TCC_PARAM_TILES, tiles, &w->block_tiles));
    w->row = odd_lines(w->block_k / w->multiply);
    w->lines = w->block_tiles;
    w->blocks = tcc_ceil_div(w->tiles, w->block_tiles);
    w->items = w->blocks * w->panels;
    w->scratch_bytes = 4 *
                       (POINTS * (tcc_winograd_point_words(w) + w->block_tiles * w->width) + w->block_k + 4 * w->width);
    return TCC_OK;
}

static void choose_rows(const tcc_llvm_target *target, tcc_winograd *w) {
    double best = INFINITY;
    for (int r = 1; tile_fits(target, r, w->vectors); r++) {
        double cost = tcc_tile_cycles(target, r, w->vectors) * (double)tcc_ceil_div(w->block_rows, r);
        if (cost < best * 0.999) best = cost, w->tile_height = r;
    }
}

tcc_status tcc_winograd_plan_filter(const tcc_llvm_target *target, tcc_params *params, tcc_winograd *w) {
    w->tiles = w->images * w->tile_rows * w->tile_columns;
    TCC_TRY(plan_multiply(target, true, params, w));
    TCC_TRY(plan_width(target, w->channels, WIDTH, params, w));
    w->block_k = w->width;
    w->block_rows = vectors_of_item(target, w->out_channels / target->lanes, WIDTH) * target->lanes;
    const tcc_param_range heights = tcc_param_multiples(target->lanes, target->lanes, w->out_channels);
    TCC_TRY(tcc_params_settle(params, TCC_PARAM_HEIGHT, heights, &w->block_rows));
    TCC_TRY(check_divides(params, TCC_PARAM_HEIGHT, w->block_rows, w->out_channels));
    w->row_blocks = w->out_channels / w->block_rows;
    choose_rows(target, w);
    TCC_TRY(settle_rows(target, params, w));
    const int64_t tiles = w->multiply * GRADIENT_LINES;
    w->block_tiles = w->tiles < tiles ? w->tiles : tiles;
    TCC_TRY(tcc_params_settle(params, TCC_PARAM_TILES, tcc_param_between(1, w->tiles), &w->block_tiles));
    w->blocks = tcc_ceil_div(w->tiles, w->block_tiles);
    w->row = odd_lines(tcc_round_up(w->block_rows, w->tile_height));
    w->lines = tcc_ceil_div(w->block_tiles, w->multiply);
    int64_t splits = tcc_ceil_div(GRADIENT_ITEMS, w->panels * w->row_blocks);
    w->blocks_per_split = tcc_ceil_div(w->blocks, splits < w->blocks ? splits : w->blocks);
    const tcc_param_range blocks = tcc_param_between(1, w->blocks);
    TCC_TRY(tcc_params_settle(params, TCC_PARAM_BLOCKS, blocks, &w->blocks_per_split));
    w->splits = tcc_ceil_div(w->blocks, w->blocks_per_split);
    w->items = w->splits * w->panels * w->row_blocks;
    int64_t sums = tcc_round_up(w->block_rows, w->tile_height) * w->width;
    w->scratch_bytes = 4 * (POINTS * (tcc_winograd_point_words(w) + w->lines * w->width + SLACK + sums) +
                            (w->width > w->block_rows ? w->width : w->block_rows));
    return TCC_OK;
}
