/* SPDX-License-Identifier: MIT
 * Emitting Winograd's convolutions; see winograd.h. Planning is in winograd_plan.c. */
#include "codegen/contract/epilogue.h"
#include "codegen/contract/winograd.h"

#include "codegen/contract/internal.h"

enum { POINTS = TCC_WINOGRAD_POINTS, SLACK = TCC_WINOGRAD_SLACK };

/* --- Small things */

static tcc_emit_value at(tcc_emitter *e, tcc_emit_value base, tcc_emit_value offset) {
    return tcc_emit_at(e, e->f32, base, offset);
}
static tcc_emit_value at_constant(tcc_emitter *e, tcc_emit_value base, int64_t offset) {
    return at(e, base, tcc_emit_i64(e, offset));
}
static tcc_emit_value times(tcc_emitter *e, tcc_emit_value a, int64_t b) {
    return tcc_emit_mul(e, a, tcc_emit_i64(e, b));
}
static tcc_emit_value load(tcc_emitter *e, tcc_emit_value address) { return tcc_emit_load(e, e->vf32, address, 4); }
static tcc_emit_value sum(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) { return tcc_emit_fadd(e, a, b); }
static tcc_emit_value difference(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) { return tcc_emit_fsub(e, a, b); }
static tcc_emit_value half(tcc_emitter *e, tcc_emit_value a) {
    return tcc_emit_fmul(e, a, tcc_emit_float(e, e->vf32, 0.5));
}

/* A linear map of one dimension, out of n values every `step` into m every `step`. */
typedef void (*map_fn)(tcc_emitter *e, tcc_emit_value *const *in, tcc_emit_value **out);

/* B': 4 to 4. */
static void map_image(tcc_emitter *e, tcc_emit_value *const *in, tcc_emit_value **out) {
    *out[0] = difference(e, *in[0], *in[2]);
    *out[1] = sum(e, *in[1], *in[2]);
    *out[2] = difference(e, *in[2], *in[1]);
    *out[3] = difference(e, *in[1], *in[3]);
}

/* A': 4 to 2. */
static void map_result(tcc_emitter *e, tcc_emit_value *const *in, tcc_emit_value **out) {
    *out[0] = sum(e, sum(e, *in[0], *in[1]), *in[2]);
    *out[1] = difference(e, difference(e, *in[1], *in[2]), *in[3]);
}

/* A: 2 to 4. */
static void map_result_gradient(tcc_emitter *e, tcc_emit_value *const *in, tcc_emit_value **out) {
    *out[0] = *in[0];
    *out[1] = sum(e, *in[0], *in[1]);
    *out[2] = difference(e, *in[0], *in[1]);
    *out[3] = tcc_emit_fneg(e, *in[1]);
}

/* G: 3 to 4. */
static void map_filter(tcc_emitter *e, tcc_emit_value *const *in, tcc_emit_value **out) {
    tcc_emit_value outer = half(e, sum(e, *in[0], *in[2])), inner = half(e, *in[1]);
    *out[0] = *in[0];
    *out[1] = sum(e, outer, inner);
    *out[2] = difference(e, outer, inner);
    *out[3] = *in[2];
}

/* G': 4 to 3. */
static void map_filter_gradient(tcc_emitter *e, tcc_emit_value *const *in, tcc_emit_value **out) {
    tcc_emit_value even = half(e, sum(e, *in[1], *in[2]));
    *out[0] = sum(e, *in[0], even);
    *out[1] = half(e, difference(e, *in[1], *in[2]));
    *out[2] = sum(e, even, *in[3]);
}

/* The map along both dimensions: n x n values into m x m. */
static void map_both(tcc_emitter *e, map_fn map, int n, int m, tcc_emit_value *in, tcc_emit_value *out) {
    tcc_emit_value between[POINTS], *from[4], *to[4];
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < n; i++) from[i] = &in[i * n + j];
        for (int i = 0; i < m; i++) to[i] = &between[i * n + j];
        map(e, from, to);
    }
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) from[j] = &between[i * n + j];
        for (int j = 0; j < m; j++) to[j] = &out[i * m + j];
        map(e, from, to);
    }
}

typedef struct place {
    tcc_emit_value image, row, column; /* of a tile */
} place;

static place place_of_tile(tcc_emitter *e, const tcc_winograd *w, tcc_emit_value tile) {
    place p = {.column = tcc_emit_rem(e, tile, w->tile_columns)};
    tcc_emit_value rest = tcc_emit_div(e, tile, w->tile_columns);
    p.row = tcc_emit_rem(e, rest, w->tile_rows);
    p.image = tcc_emit_div(e, rest, w->tile_rows);
    return p;
}

static tcc_emit_value inside(tcc_emitter *e, tcc_emit_value index, int64_t extent) {
    return tcc_emit_icmp(e, TCC_ICMP_ULT, index, tcc_emit_i64(e, extent));
}

/* --- Transforms into scratch */

/* What a transform reads: places of one tile, each at its first channel, as side x side values of a map. */
typedef struct source {
    tcc_emit_value address[POINTS];
    map_fn map;
    int side;
    tcc_computed_run *computed; /* NULL: it is in memory */
    tcc_emit_value channel;     /* computed: the first one, and which places there are */
    tcc_emit_value inside[POINTS];
} source;

/* Channels of an image from its first place on. */
typedef struct channels {
    tcc_emit_value at, zeros; /* what is outside of an image in memory */
    tcc_computed_run *computed;
    tcc_emit_value first; /* computed: channel */
} channels;

/* B' x B of a tile of the image. Outside the image, or where `exists` (NULL: true) is false, are zeros. */
static source source_of_image(tcc_emitter *e, const tcc_winograd *w, const channels *image, tcc_emit_value tile,
                              tcc_emit_value exists) {
    place p = place_of_tile(e, w, tile);
    tcc_emit_value base = times(e, p.image, w->rows * w->columns), y[4], x[4], in_y[4], in_x[4];
    source s = {.map = map_image, .side = 4, .computed = image->computed, .channel = image->first};
    /* What is computed is computed outside as well, from the image's first place. */
    tcc_emit_value outside = image->computed ? image->at : image->zeros;
    for (int i = 0; i < 4; i++) {
        y[i] = tcc_emit_add(e, times(e, p.row, 2), tcc_emit_i64(e, i - w->pad[0]));
        x[i] = tcc_emit_add(e, times(e, p.column, 2), tcc_emit_i64(e, i - w->pad[1]));
        in_y[i] = inside(e, y[i], w->rows), in_x[i] = inside(e, x[i], w->columns);
        if (exists) in_y[i] = tcc_emit_and(e, in_y[i], exists);
    }
    for (int i = 0; i < POINTS; i++) {
        tcc_emit_value pixel = tcc_emit_add(e, base, tcc_emit_add(e, times(e, y[i / 4], w->columns), x[i % 4]));
        s.inside[i] = tcc_emit_and(e, in_y[i / 4], in_x[i % 4]);
        tcc_emit_value there = tcc_contract_at(e, w->type, image->at, times(e, pixel, w->channels));
        s.address[i] = tcc_emit_anchor(e, tcc_emit_select(e, s.inside[i], there, outside));
    }
    return s;
}

/* A dy A' of a tile of dy, or zeros. */
static source source_of_gradient(tcc_emitter *e, const tcc_winograd *w, tcc_emit_value dy, tcc_emit_value zeros,
                                 tcc_emit_value tile, tcc_emit_value exists) {
    place p = place_of_tile(e, w, tile);
    tcc_emit_value y = tcc_emit_add(e, times(e, p.image, 2 * w->tile_rows), times(e, p.row, 2));
    tcc_emit_value pixel = tcc_emit_add(e, times(e, y, 2 * w->tile_columns), times(e, p.column, 2));
    tcc_emit_value from = tcc_contract_at(e, w->type, dy, times(e, pixel, w->out_channels));
    source s = {.map = map_result_gradient, .side = 2};
    for (int i = 0; i < 4; i++) {
        const int64_t offset = (i / 2 * 2 * w->tile_columns + i % 2) * w->out_channels;
        tcc_emit_value there = tcc_contract_at(e, w->type, from, tcc_emit_i64(e, offset));
        s.address[i] = exists ? tcc_emit_anchor(e, tcc_emit_select(e, exists, there, zeros)) : there;
    }
    return s;
}

/* All points of a vector of channels. */
static void transform(tcc_emitter *e, const tcc_winograd *w, const source *s, tcc_emit_value channel,
                      tcc_emit_value *out) {
    tcc_emit_value in[POINTS];
    if (s->computed) tcc_computed_columns(s->computed, tcc_emit_add(e, s->channel, channel), w->channels, NULL);
    for (int i = 0; i < s->side * s->side; i++) {
        tcc_emit_value from = tcc_contract_at(e, w->type, s->address[i], channel);
        in[i] = s->computed ? tcc_emit_select(e, s->inside[i], tcc_computed_vector(s->computed, from, NULL),
                                              tcc_emit_float(e, e->vf32, 0))
                            : tcc_contract_load_lanes(e, w->type, from, 0, NULL);
    }
    if (s->computed) tcc_computed_columns_end(s->computed);
    map_both(e, s->map, s->side, 4, in, out);
}

static int64_t vector_bytes(const tcc_emitter *e) { return e->lanes * (int64_t)sizeof(float); }

/* Where the sum is over channels: `count` of a tile lie one after the other, at to + q * stride for point q. */
static void transform_line(tcc_emitter *e, const tcc_winograd *w, const source *s, int64_t count, tcc_emit_value to,
                           int64_t stride) {
    tcc_emit_value out[TCC_CONTRACT_PAIRS][POINTS];
    tcc_emit_loop c;
    tcc_emit_loop_begin(e, &c, tcc_emit_i64(e, 0), tcc_emit_i64(e, count), w->multiply * e->lanes, NULL, 0);
    for (int h = 0; h < (int)w->multiply; h++)
        transform(e, w, s, tcc_emit_add(e, c.index, tcc_emit_i64(e, h * e->lanes)), out[h]);
    tcc_emit_value place = at(e, to, tcc_emit_div(e, c.index, w->multiply));
    for (int i = 0; i < POINTS; i++) {
        tcc_emit_value value = w->multiply == TCC_CONTRACT_PAIRS ? tcc_emit_round_pairs(e, out[0][i], out[1][i])
                                                                 : out[0][i];
        tcc_emit_store(e, value, at_constant(e, place, i * stride), (int)vector_bytes(e));
    }
    tcc_emit_loop_end(e, &c, NULL);
}

/* Where the sum is over tiles: a line has `count` channels of one tile, or of a pair of them. */
static void transform_step(tcc_emitter *e, const tcc_winograd *w, const source *s, int64_t count, tcc_emit_value to,
                           int64_t stride) {
    tcc_emit_value out[TCC_CONTRACT_PAIRS][POINTS];
    tcc_emit_loop c;
    tcc_emit_loop_begin(e, &c, tcc_emit_i64(e, 0), tcc_emit_i64(e, count), e->lanes, NULL, 0);
    for (int h = 0; h < (int)w->multiply; h++) transform(e, w, &s[h], c.index, out[h]);
    tcc_emit_value place = at(e, to, c.index);
    for (int i = 0; i < POINTS; i++) {
        tcc_emit_value value = out[0][i];
        if (w->multiply == TCC_CONTRACT_PAIRS)
            value = tcc_contract_interleave(e, tcc_emit_round_pairs(e, value, out[1][i]));
        tcc_emit_store(e, value, at_constant(e, place, i * stride), (int)vector_bytes(e));
    }
    tcc_emit_loop_end(e, &c, NULL);
}

/* --- The filter: for each panel and point, steps of channels x width */

static void transform_filter(tcc_emitter *e, const tcc_winograd *w, tcc_emit_value *taps, tcc_emit_value *out) {
    tcc_emit_value turned[9];
    for (int i = 0; i < 9; i++) turned[i] = taps[w->turned ? 8 - i : i];
    map_both(e, map_filter, 3, 4, turned, out);
}

/* Of a step of channels, all of whose taps have been transformed. */
static void store_filter(tcc_emitter *e, const tcc_winograd *w, tcc_emit_value (*points)[POINTS], tcc_emit_value to) {
    for (int i = 0; i < POINTS; i++) {
        tcc_emit_value value = points[0][i];
        if (w->multiply == TCC_CONTRACT_PAIRS)
            value = tcc_contract_interleave(e, tcc_emit_round_pairs(e, value, points[1][i]));
        tcc_emit_store(e, value, at_constant(e, to, i * tcc_winograd_filter_point_words(w)), (int)vector_bytes(e));
    }
}

static int64_t tap_offset(const tcc_winograd *w, int tap) {
    return tap / 3 * w->filter_tap[0] + tap % 3 * w->filter_tap[1];
}

/* The filter has channels side by side: a square of lanes x lanes words at each tap is transposed. */
static void transpose_taps(tcc_emitter *e, const tcc_winograd *w, tcc_emit_value from, tcc_emit_value squares) {
    const int64_t lanes = e->lanes;
    for (int i = 0; i < 9; i++) {
        tcc_emit_value tap = tcc_contract_at(e, w->type, from, tcc_emit_i64(e, tap_offset(w, i)));
        tcc_emit_value to = at_constant(e, squares, i * lanes * lanes);
        if (w->multiply == TCC_CONTRACT_PAIRS)
            tcc_contract_transpose_by_pairs(e, tap, w->filter_out, tcc_emit_i64(e, lanes), tcc_emit_i64(e, 2 * lanes),
                                            to, lanes);
        else
            tcc_contract_transpose(e, w->type, tap, w->filter_out, tcc_emit_i64(e, lanes), tcc_emit_i64(e, lanes), to,
                                   lanes);
    }
}

/* The taps of channel `half` of step `k`: from the squares, or from where `from` is the first step's. */
static void load_taps(tcc_emitter *e, const tcc_winograd *w, tcc_emit_value squares, tcc_emit_value from,
                      tcc_emit_value k, int half, tcc_emit_value *taps) {
    for (int i = 0; i < 9; i++) {
        if (!squares) {
            tcc_emit_value channel = tcc_emit_add(e, times(e, k, w->multiply), tcc_emit_i64(e, half));
            tcc_emit_value offset = tcc_emit_add(e, times(e, channel, w->filter_in), tcc_emit_i64(e, tap_offset(w, i)));
            taps[i] = tcc_contract_load_lanes(e, w->type, tcc_contract_at(e, w->type, from, offset), 0, NULL);
            continue;
        }
        tcc_emit_value word = load(e, at_constant(e, at(e, squares, times(e, k, e->lanes)), i * e->lanes * e->lanes));
        taps[i] = w->multiply == TCC_CONTRACT_PAIRS ? tcc_contract_half_of_pairs(e, word, half) : word;
    }
}

tcc_status tcc_winograd_emit_filter(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_winograd *w = plan->data;
    const int64_t lanes = e->lanes, point = tcc_winograd_filter_point_words(w);
    const int64_t k_blocks = w->channels / (w->multiply * lanes);
    tcc_emit_kernel_begin(e, symbol);
    tcc_emit_value filter = tcc_emit_buffer(e, 0), result = tcc_emit_buffer(e, 1);
    tcc_emit_value squares = w->filter_in == 1 ? tcc_emit_local(e, e->f32, 9 * lanes * lanes) : NULL;
    tcc_emit_loop items, columns, k;
    tcc_emit_items_begin(e, &items);
    tcc_emit_value step0 = times(e, tcc_emit_rem(e, items.index, k_blocks), lanes),
                   panel = tcc_emit_div(e, items.index, k_blocks);
    tcc_emit_value to = at(e, result, tcc_emit_add(e, times(e, panel, POINTS * point), times(e, step0, w->width)));
    tcc_emit_value offset = tcc_emit_add(e, times(e, panel, w->width * w->filter_out),
                                         times(e, step0, w->multiply * w->filter_in));
    tcc_emit_value from = tcc_contract_at(e, w->type, filter, offset);
    tcc_emit_loop_begin(e, &columns, tcc_emit_i64(e, 0), tcc_emit_i64(e, w->width), lanes, NULL, 0);
    tcc_emit_value source = tcc_contract_at(e, w->type, from, times(e, columns.index, w->filter_out));
    if (squares) transpose_taps(e, w, source, squares);
    tcc_emit_loop_begin(e, &k, tcc_emit_i64(e, 0), tcc_emit_i64(e, lanes), 1, NULL, 0);
    tcc_emit_value taps[9], points[TCC_CONTRACT_PAIRS][POINTS];
    for (int h = 0; h < (int)w->multiply; h++) {
        load_taps(e, w, squares, source, k.index, h, taps);
        transform_filter(e, w, taps, points[h]);
    }
    store_filter(e, w, points, at(e, at(e, to, columns.index), times(e, k.index, w->width)));
    tcc_emit_loop_end(e, &k, NULL);
    tcc_emit_loop_end(e, &columns, NULL);
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
    return TCC_OK;
}

/* --- Products: sums[point][row][width] += a row * b, for all tiles of registers of one point */

typedef struct product {
    int64_t rows;               /* a multiple of the tile's */
    int64_t k, a_row, a_k, b_k; /* steps of the sum, and strides in words */
    tcc_emit_value runtime_k;   /* instead of k, if not NULL */
    tcc_emit_value a, b, sums;  /* of the point */
    tcc_emit_value again;       /* i1: there are sums already; NULL: never */
    int64_t sums_row;
} product;

static void emit_product(tcc_emitter *e, const tcc_winograd *w, const product *p) {
    tcc_emit_loop columns, rows;
    const int64_t panel = (int64_t)w->vectors * e->lanes;
    tcc_emit_loop_begin(e, &columns, tcc_emit_i64(e, 0), tcc_emit_i64(e, w->width), panel, NULL, 0);
    tcc_emit_value b = at(e, p->b, columns.index);
    tcc_emit_loop_begin(e, &rows, tcc_emit_i64(e, 0), tcc_emit_i64(e, p->rows), w->tile_height, NULL, 0);
    tcc_emit_value a = at(e, p->a, times(e, rows.index, p->a_row)), sums[TCC_EMIT_MAX_CARRY];
    tcc_emit_value to = tcc_emit_anchor(e, at(e, at(e, p->sums, columns.index), times(e, rows.index, p->sums_row)));
    tcc_emit_value mask = p->again ? tcc_emit_splat(e, p->again, e->lanes) : NULL;
    for (int i = 0; i < w->tile_height * w->vectors; i++) {
        tcc_emit_value place = at_constant(e, to, i / w->vectors * p->sums_row + i % w->vectors * e->lanes);
        sums[i] = mask ? tcc_emit_load_masked(e, e->vf32, place, mask) : tcc_emit_float(e, e->vf32, 0);
    }
    const tcc_dtype type = w->multiply == TCC_CONTRACT_PAIRS ? TCC_BF16 : TCC_F32;
    const int64_t word = w->multiply; /* elements */
    tcc_contract_tile t = {.multiply = w->multiply,
                           .a_type = type,
                           .b_type = type,
                           .rows = w->tile_height,
                           .vectors = w->vectors,
                           .a_row = word * p->a_row,
                           .b_aligned = true,
                           .n_levels = 1};
    t.levels[0] =
        (tcc_tile_level){.count = p->k, .runtime = p->runtime_k, .multiple = 1, .a = word * p->a_k, .b = word * p->b_k};
    tcc_tile_emit(e, &t, a, b, sums);
    for (int i = 0; i < w->tile_height * w->vectors; i++)
        tcc_emit_store(e, sums[i], at_constant(e, to, i / w->vectors * p->sums_row + i % w->vectors * e->lanes),
                       e->lanes * 4);
    tcc_emit_loop_end(e, &rows, NULL);
    tcc_emit_loop_end(e, &columns, NULL);
}

/* --- Epilogues */

/* `count` finished values in scratch, along the last dim of the result; `index`: of the result's dims at the first of
 * them. */
static void finish_row(tcc_emitter *e, const tcc_winograd *w, tcc_body_run *run, tcc_emit_value source, int64_t count,
                       const tcc_emit_value *index, int n_dims) {
    const tcc_epilogue *epilogue = &w->epilogue;
    tcc_emit_value offset[TCC_EPILOGUE_MAX_FORMS], moved[TCC_EPILOGUE_MAX_FORMS];
    int64_t steps[TCC_EPILOGUE_MAX_FORMS];
    for (int f = 0; f < epilogue->n_forms; f++) {
        offset[f] = tcc_emit_i64(e, 0);
        for (int i = 0; i < n_dims; i++) {
            int64_t stride = tcc_affine_coefficient(&epilogue->forms[f], i);
            if (stride) offset[f] = tcc_emit_add(e, offset[f], times(e, index[i], stride));
        }
        steps[f] = tcc_affine_coefficient(&epilogue->forms[f], n_dims - 1);
    }
    tcc_epilogue_row(run, epilogue, offset, steps);
    tcc_emit_loop columns;
    tcc_emit_loop_begin(e, &columns, tcc_emit_i64(e, 0), tcc_emit_i64(e, count), e->lanes, NULL, 0);
    for (int f = 0; f < epilogue->n_forms; f++)
        moved[f] = steps[f] ? tcc_emit_add(e, offset[f], times(e, columns.index, steps[f])) : offset[f];
    tcc_epilogue_vector(run, epilogue, moved, steps, load(e, at(e, source, columns.index)), NULL);
    tcc_emit_loop_end(e, &columns, NULL);
    tcc_epilogue_row_end(run, epilogue);
}

static void zero(tcc_emitter *e, tcc_emit_value to, int64_t count) {
    tcc_emit_loop c;
    tcc_emit_loop_begin(e, &c, tcc_emit_i64(e, 0), tcc_emit_i64(e, count), e->lanes, NULL, 0);
    tcc_emit_store(e, tcc_emit_float(e, e->vf32, 0), at(e, to, c.index), e->lanes * 4);
    tcc_emit_loop_end(e, &c, NULL);
}

/* --- The convolution */

tcc_status tcc_winograd_emit_forward(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_winograd *w = plan->data;
    const int64_t stride = tcc_winograd_point_words(w), k_blocks = w->channels / w->block_k,
                  products = w->block_tiles * w->width;
    tcc_emit_kernel_begin(e, symbol);
    tcc_emit_value image = tcc_emit_buffer(e, 0), filter = tcc_emit_buffer(e, 1);
    tcc_body_run run;
    TCC_TRY(tcc_body_run_begin(&run, e, w->epilogue.body, 2));
    tcc_epilogue_begin(&run, &w->epilogue, w->lane_loops);
    tcc_emit_value tiles_at = e->scratch, sums_at = at_constant(e, e->scratch, POINTS * stride);
    tcc_emit_value stage = at_constant(e, sums_at, POINTS * products), zeros = at_constant(e, stage, 4 * w->width);
    zero(e, zeros, w->block_k);
    tcc_emit_loop items, blocks, tiles, points;
    tcc_emit_items_begin(e, &items);
    tcc_emit_value panel = tcc_emit_rem(e, items.index, w->panels);
    tcc_emit_value tile0 = times(e, tcc_emit_div(e, items.index, w->panels), w->block_tiles);
    tcc_emit_value count = tcc_emit_min(e, tcc_emit_i64(e, w->block_tiles),
                                        tcc_emit_sub(e, tcc_emit_i64(e, w->tiles), tile0));
    if (w->tiles % w->block_tiles == 0) count = tcc_emit_i64(e, w->block_tiles);
    const int64_t point = tcc_winograd_filter_point_words(w);
    tcc_emit_value panel_filter = at(e, filter, times(e, panel, POINTS * point));
    tcc_emit_loop_begin(e, &blocks, tcc_emit_i64(e, 0), tcc_emit_i64(e, k_blocks), 1, NULL, 0);
    const channels block_image = {.at = tcc_contract_at(e, w->type, image, times(e, blocks.index, w->block_k)),
                                  .zeros = zeros};
    tcc_emit_loop_begin(e, &tiles, tcc_emit_i64(e, 0), count, 1, NULL, 0);
    const source s = source_of_image(e, w, &block_image, tcc_emit_add(e, tile0, tiles.index), NULL);
    transform_line(e, w, &s, w->block_k, at(e, tiles_at, times(e, tiles.index, w->row)), stride);
    tcc_emit_loop_end(e, &tiles, NULL);
    tcc_emit_loop_begin(e, &points, tcc_emit_i64(e, 0), tcc_emit_i64(e, POINTS), 1, NULL, 0);
    tcc_emit_value b = tcc_emit_add(e, times(e, points.index, point),
                                    times(e, blocks.index, w->block_k / w->multiply * w->width));
    /* Rows past the last tile are made of what scratch holds, and never read. */
    product p = {.rows = w->block_tiles,
                 .k = w->block_k / w->multiply,
                 .a_row = w->row,
                 .a_k = 1,
                 .b_k = w->width,
                 .sums_row = w->width,
                 .a = at(e, tiles_at, times(e, points.index, stride)),
                 .b = at(e, panel_filter, b),
                 .sums = at(e, sums_at, times(e, points.index, products)),
                 .again = k_blocks == 1 ? NULL : tcc_emit_icmp(e, TCC_ICMP_NE, blocks.index, tcc_emit_i64(e, 0))};
    emit_product(e, w, &p);
    tcc_emit_loop_end(e, &points, NULL);
    tcc_emit_loop_end(e, &blocks, NULL);

    tcc_emit_loop columns, rows;
    tcc_emit_loop_begin(e, &tiles, tcc_emit_i64(e, 0), count, 1, NULL, 0);
    tcc_emit_loop_begin(e, &columns, tcc_emit_i64(e, 0), tcc_emit_i64(e, w->width), e->lanes, NULL, 0);
    tcc_emit_value in[POINTS], out[4], from = at(e, at(e, sums_at, times(e, tiles.index, w->width)), columns.index);
    for (int i = 0; i < POINTS; i++) in[i] = load(e, at_constant(e, from, i * products));
    map_both(e, map_result, 4, 2, in, out);
    for (int i = 0; i < 4; i++)
        tcc_emit_store(e, out[i], at_constant(e, at(e, stage, columns.index), i * w->width), e->lanes * 4);
    tcc_emit_loop_end(e, &columns, NULL);
    place where = place_of_tile(e, w, tcc_emit_add(e, tile0, tiles.index));
    tcc_emit_loop_begin(e, &rows, tcc_emit_i64(e, 0), tcc_emit_i64(e, 4), 1, NULL, 0);
    tcc_emit_value index[] = {where.image,
                              where.row,
                              tcc_emit_div(e, rows.index, 2),
                              where.column,
                              tcc_emit_rem(e, rows.index, 2),
                              times(e, panel, w->width)};
    finish_row(e, w, &run, at(e, stage, times(e, rows.index, w->width)), w->width, index, 6);
    tcc_emit_loop_end(e, &rows, NULL);
    tcc_emit_loop_end(e, &tiles, NULL);
    tcc_emit_loop_end(e, &items, NULL);
    tcc_body_run_end(&run);
    tcc_emit_kernel_end(e);
    return TCC_OK;
}

/* --- The filter's gradient: rows are channels of dy, columns those of the image */

/* The sums of all points back to the nine taps: [split][row][tap][column], from row `first` on. */
static void store_taps(tcc_emitter *e, const tcc_winograd *w, tcc_emit_value workspace, tcc_emit_value first,
                       tcc_emit_value panel, tcc_emit_value sums_at, int64_t sums) {
    tcc_emit_loop rows, columns;
    tcc_emit_loop_begin(e, &rows, tcc_emit_i64(e, 0), tcc_emit_i64(e, w->block_rows), 1, NULL, 0);
    tcc_emit_value row =
        at(e, workspace,
           tcc_emit_add(e, times(e, tcc_emit_add(e, first, rows.index), 9 * w->channels), times(e, panel, w->width)));
    tcc_emit_loop_begin(e, &columns, tcc_emit_i64(e, 0), tcc_emit_i64(e, w->width), e->lanes, NULL, 0);
    tcc_emit_value in[POINTS], out[9], from = at(e, at(e, sums_at, times(e, rows.index, w->width)), columns.index);
    for (int i = 0; i < POINTS; i++) in[i] = load(e, at_constant(e, from, i * sums));
    map_both(e, map_filter_gradient, 4, 3, in, out);
    for (int i = 0; i < 9; i++)
        tcc_emit_store(e, out[i], at_constant(e, at(e, row, columns.index), i * w->channels), 4);
    tcc_emit_loop_end(e, &columns, NULL);
    tcc_emit_loop_end(e, &rows, NULL);
}

tcc_status tcc_winograd_emit_gradient(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_winograd *w = plan->data;
    const int64_t stride = tcc_winograd_point_words(w), image_stride = w->lines * w->width + SLACK;
    const int64_t all_rows = (w->block_rows + w->tile_height - 1) / w->tile_height * w->tile_height,
                  sums = all_rows * w->width;
    tcc_emit_kernel_begin(e, symbol);
    const int dy_buffer = w->prologue ? tcc_prologue_buffers(w->prologue, NULL) : 1;
    tcc_computed_run computed;
    tcc_emit_value image = w->prologue ? tcc_computed_begin(&computed, e, w->prologue, 0) : tcc_emit_buffer(e, 0);
    tcc_emit_value dy = tcc_emit_buffer(e, dy_buffer), workspace = tcc_emit_buffer(e, dy_buffer + 1);
    tcc_emit_value dy_at = e->scratch, image_at = at_constant(e, dy_at, POINTS * stride);
    tcc_emit_value sums_at = at_constant(e, image_at, POINTS * image_stride),
                   zeros = at_constant(e, sums_at, POINTS * sums);
    zero(e, zeros, w->width > w->block_rows ? w->width : w->block_rows);
    tcc_emit_loop items, blocks, tiles, points;
    tcc_emit_items_begin(e, &items);
    tcc_emit_value panel = tcc_emit_rem(e, items.index, w->panels), rest = tcc_emit_div(e, items.index, w->panels);
    tcc_emit_value row_block = tcc_emit_rem(e, rest, w->row_blocks), split = tcc_emit_div(e, rest, w->row_blocks);
    tcc_emit_value channel = times(e, panel, w->width);
    const channels item_image = {tcc_contract_at(e, w->type, image, channel), zeros, w->prologue ? &computed : NULL,
                                 channel};
    tcc_emit_value item_dy = tcc_contract_at(e, w->type, dy, times(e, row_block, w->block_rows));
    tcc_emit_value block0 = times(e, split, w->blocks_per_split);
    tcc_emit_value block_end = tcc_emit_min(e, tcc_emit_add(e, block0, tcc_emit_i64(e, w->blocks_per_split)),
                                            tcc_emit_i64(e, w->blocks));
    tcc_emit_loop_begin(e, &blocks, block0, block_end, 1, NULL, 0);
    tcc_emit_value tile0 = times(e, blocks.index, w->block_tiles);
    tcc_emit_value count = tcc_emit_min(e, tcc_emit_i64(e, w->block_tiles),
                                        tcc_emit_sub(e, tcc_emit_i64(e, w->tiles), tile0));
    bool whole = w->tiles % w->block_tiles == 0;
    if (whole) count = tcc_emit_i64(e, w->block_tiles);
    tcc_emit_value steps = tcc_emit_div(e, tcc_emit_add(e, count, tcc_emit_i64(e, w->multiply - 1)), w->multiply);
    tcc_emit_loop_begin(e, &tiles, tcc_emit_i64(e, 0), steps, 1, NULL, 0);
    source sources[2][TCC_CONTRACT_PAIRS];
    for (int h = 0; h < (int)w->multiply; h++) {
        tcc_emit_value in_block = tcc_emit_add(e, times(e, tiles.index, w->multiply), tcc_emit_i64(e, h)),
                       exists = NULL;
        if (h && (!whole || w->block_tiles % 2)) exists = tcc_emit_icmp(e, TCC_ICMP_SLT, in_block, count);
        tcc_emit_value tile = tcc_emit_add(e, tile0, in_block);
        sources[0][h] = source_of_image(e, w, &item_image, tile, exists);
        sources[1][h] = source_of_gradient(e, w, item_dy, zeros, tile, exists);
    }
    transform_step(e, w, sources[0], w->width, at(e, image_at, times(e, tiles.index, w->width)), image_stride);
    transform_step(e, w, sources[1], w->block_rows, at(e, dy_at, times(e, tiles.index, w->row)), stride);
    tcc_emit_loop_end(e, &tiles, NULL);
    tcc_emit_loop_begin(e, &points, tcc_emit_i64(e, 0), tcc_emit_i64(e, POINTS), 1, NULL, 0);
    product p = {.rows = all_rows,
                 .k = w->lines,
                 .runtime_k = whole ? NULL : steps,
                 .a_row = 1,
                 .a_k = w->row,
                 .b_k = w->width,
                 .sums_row = w->width,
                 .a = at(e, dy_at, times(e, points.index, stride)),
                 .b = at(e, image_at, times(e, points.index, image_stride)),
                 .sums = at(e, sums_at, times(e, points.index, sums)),
                 .again = tcc_emit_icmp(e, TCC_ICMP_NE, blocks.index, block0)};
    emit_product(e, w, &p);
    tcc_emit_loop_end(e, &points, NULL);
    tcc_emit_loop_end(e, &blocks, NULL);
    tcc_emit_value first = tcc_emit_add(e, times(e, split, w->out_channels), times(e, row_block, w->block_rows));
    store_taps(e, w, workspace, first, panel, sums_at, sums);
    tcc_emit_loop_end(e, &items, NULL);
    if (w->prologue) tcc_computed_end(&computed);
    tcc_emit_kernel_end(e);
    return w->prologue ? computed.status : TCC_OK;
}

tcc_status tcc_winograd_emit_sum(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_winograd *w = plan->data;
    const int64_t all = w->out_channels * 9 * w->channels;
    tcc_emit_kernel_begin(e, symbol);
    tcc_emit_value workspace = tcc_emit_buffer(e, 0);
    tcc_body_run run;
    TCC_TRY(tcc_body_run_begin(&run, e, w->epilogue.body, 1));
    tcc_epilogue_begin(&run, &w->epilogue, w->lane_loops);
    tcc_emit_loop items, taps, columns, splits;
    tcc_emit_items_begin(e, &items);
    tcc_emit_loop_begin(e, &taps, tcc_emit_i64(e, 0), tcc_emit_i64(e, 9), 1, NULL, 0);
    tcc_emit_value row = at(e, workspace, times(e, tcc_emit_add(e, times(e, items.index, 9), taps.index), w->channels));
    if (w->splits > 1) {
        tcc_emit_loop_begin(e, &columns, tcc_emit_i64(e, 0), tcc_emit_i64(e, w->channels), e->lanes, NULL, 0);
        tcc_emit_value from = at(e, row, columns.index), value = load(e, from);
        tcc_emit_loop_begin(e, &splits, tcc_emit_i64(e, 1), tcc_emit_i64(e, w->splits), 1, &value, 1);
        value = sum(e, splits.carry[0], load(e, at(e, from, times(e, splits.index, all))));
        tcc_emit_loop_end(e, &splits, &value);
        tcc_emit_store(e, splits.carry[0], at(e, e->scratch, columns.index), e->lanes * 4);
        tcc_emit_loop_end(e, &columns, NULL);
        row = e->scratch;
    }
    tcc_emit_value index[] = {items.index, tcc_emit_div(e, taps.index, 3), tcc_emit_rem(e, taps.index, 3),
                              tcc_emit_i64(e, 0)};
    finish_row(e, w, &run, row, w->channels, index, 4);
    tcc_emit_loop_end(e, &taps, NULL);
    tcc_emit_loop_end(e, &items, NULL);
    tcc_body_run_end(&run);
    tcc_emit_kernel_end(e);
    return TCC_OK;
}
