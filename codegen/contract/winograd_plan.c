/* SPDX-License-Identifier: MIT
 * Planning Winograd's convolutions; see winograd.h. */
#include "codegen/contract/internal.h"
#include "codegen/contract/winograd.h"

#include <math.h>

enum {
    POINTS = TCC_WINOGRAD_POINTS,
    SLACK = TCC_WINOGRAD_SLACK,
    WIDTH = 64,          /* columns of an item, about: what is transformed again for each must not weigh */
    GRADIENT_TILES = 32, /* of a block in the filter's gradient */
    GRADIENT_ITEMS = 32,
};

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/* An odd number of cache lines, so that rows spread over the cache's sets. */
static int64_t odd_lines(int64_t floats) {
    int64_t lines = ceil_div(floats, SLACK);
    return (lines + (lines % 2 == 0)) * SLACK;
}

static bool tile_fits(const tcc_llvm_target *target, int rows, int vectors) {
    return rows * vectors + vectors + 1 < target->registers && 16 * rows * vectors <= 13 * target->registers;
}

/* The vectors of a tile out of a row of `columns`, and the width of an item, which divides it. */
static void choose_width(const tcc_llvm_target *target, int64_t columns, tcc_winograd *w) {
    int64_t all = columns / target->lanes, most = WIDTH / target->lanes;
    int64_t of_item = 1;
    for (int64_t v = 1; v <= most && v <= all; v++)
        if (all % v == 0) of_item = v;
    w->vectors = 1;
    double best = INFINITY;
    for (int v = 1; v <= 6; v++) {
        int rows = 1;
        while (tile_fits(target, rows + 1, v)) rows++;
        double cost = tcc_tile_cycles(rows, v) / (rows * v);
        if (of_item % v == 0 && cost < best * 0.999) best = cost, w->vectors = v;
    }
    w->width = of_item * target->lanes;
    w->panels = columns / w->width;
}

int64_t tcc_winograd_filter_point_floats(const tcc_winograd *w) { return w->channels * w->width + SLACK; }
int64_t tcc_winograd_filter_floats(const tcc_winograd *w) {
    return POINTS * w->panels * tcc_winograd_filter_point_floats(w);
}

int64_t tcc_winograd_filter_items(const tcc_llvm_target *target, const tcc_winograd *w) {
    return w->panels * (w->channels / target->lanes);
}

int64_t tcc_winograd_point_floats(const tcc_winograd *w) { return w->block_tiles * w->row + SLACK; }

void tcc_winograd_plan_forward(const tcc_llvm_target *target, tcc_winograd *w) {
    w->tiles = w->images * w->tile_rows * w->tile_columns;
    choose_width(target, w->out_channels, w);
    const int64_t most_floats = target->hw.cache_bytes * 5 / 8 / (int64_t)sizeof(float); /* of tiles and products */
    double best = INFINITY;
    for (int64_t k = 1; k <= w->channels / target->lanes; k++) {
        int64_t block_k = w->channels / k, row = odd_lines(block_k);
        if (w->channels % (k * target->lanes) || block_k > 256) continue;
        for (int r = 1; tile_fits(target, r, w->vectors); r++)
            for (int64_t tiles = round_up(w->tiles < 24 ? w->tiles : 24, r); tiles < w->tiles + r; tiles += r) {
                if (tiles > 24 + r && tiles * POINTS * (row + w->width) > most_floats) break;
                int64_t blocks = ceil_div(w->tiles, tiles);
                double steps = (double)(blocks * (tiles / r)) * tcc_tile_cycles(r, w->vectors);
                /* Sums go to scratch and back, filters come from afar, and there should be some items. */
                double cost = steps * (1 + 3.0 / (double)block_k + 2.0 / (double)tiles) *
                              (blocks * w->panels < 8 ? 1.2 : 1);
                if (cost >= best * 0.999) continue;
                best = cost;
                w->block_k = block_k, w->row = row, w->tile_height = r, w->block_tiles = tiles, w->blocks = blocks;
            }
    }
    w->items = w->blocks * w->panels;
    w->scratch_bytes =
        4 * (POINTS * (tcc_winograd_point_floats(w) + w->block_tiles * w->width) + w->block_k + 4 * w->width);
}

void tcc_winograd_plan_filter(const tcc_llvm_target *target, tcc_winograd *w) {
    w->tiles = w->images * w->tile_rows * w->tile_columns;
    choose_width(target, w->channels, w);
    w->block_k = w->width;
    int64_t all = w->out_channels / target->lanes, most = WIDTH / target->lanes, of_item = 1;
    for (int64_t v = 1; v <= most && v <= all; v++)
        if (all % v == 0) of_item = v;
    w->block_rows = of_item * target->lanes;
    w->row_blocks = w->out_channels / w->block_rows;
    double best = INFINITY;
    for (int r = 1; tile_fits(target, r, w->vectors); r++) {
        double cost = tcc_tile_cycles(r, w->vectors) * (double)ceil_div(w->block_rows, r);
        if (cost < best * 0.999) best = cost, w->tile_height = r;
    }
    w->block_tiles = w->tiles < GRADIENT_TILES ? w->tiles : GRADIENT_TILES;
    w->blocks = ceil_div(w->tiles, w->block_tiles);
    w->row = odd_lines(round_up(w->block_rows, w->tile_height));
    int64_t splits = ceil_div(GRADIENT_ITEMS, w->panels * w->row_blocks);
    w->blocks_per_split = ceil_div(w->blocks, splits < w->blocks ? splits : w->blocks);
    w->splits = ceil_div(w->blocks, w->blocks_per_split);
    w->items = w->splits * w->panels * w->row_blocks;
    int64_t sums = round_up(w->block_rows, w->tile_height) * w->width;
    w->scratch_bytes = 4 *
                       (POINTS * (tcc_winograd_point_floats(w) + w->block_tiles * w->width + SLACK + sums) + w->width);
}
