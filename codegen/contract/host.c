/* SPDX-License-Identifier: MIT
 * The host's kernels of a contraction: items, blocks of k, tiles, epilogues. Planning is in plan.c, packing in pack.c,
 * the register tile in tile.c. */
#include "codegen/contract/internal.h"
#include "ir/support/integers.h"

#include <string.h>

/* Steps of a block of k: with fewer, what is fetched as the sums are begun arrives too late. Then it is that of a later
 * tile, as many steps away, which take some 250 ns; where there are several times as many. */
enum { LEAST_STEPS = 64, STEPS_AHEAD = 96, LEAST_TIMES = 4 };

/* How many tiles away the one is that is fetched for; 0: it is the one at hand, -1: none. */
static int64_t tiles_ahead(const tcc_contract_plan *p) {
    const int64_t steps = tcc_ceil_div(p->block_k, p->multiply), ahead = steps ? tcc_ceil_div(STEPS_AHEAD, steps) : 0;
    const bool later = steps < LEAST_STEPS && p->row_extent == p->M && p->tiles_per_block >= LEAST_TIMES * ahead;
    return later && steps ? ahead : p->block_k < LEAST_STEPS ? -1 : 0;
}

static void finish_vector(tcc_emitter *e, const tcc_contract_plan *p, tcc_emit_value sums,
                          const tcc_contract_place *place, const tcc_contract_epilogue *epilogue) {
    if (epilogue && epilogue->vector) sums = epilogue->vector(epilogue->user, e, sums, place);
    else if (p->c.accumulate) sums = tcc_emit_fadd(e, tcc_contract_load(e, place, 0), sums);
    if (sums) tcc_contract_store(e, place, 0, sums);
}

static void begin_kernel(tcc_emitter *e, const tcc_contract_epilogue *epilogue, int first_buffer) {
    if (epilogue && epilogue->begin) epilogue->begin(epilogue->user, e, first_buffer);
}

static void end_kernel(tcc_emitter *e, const tcc_contract_epilogue *epilogue) {
    if (epilogue && epilogue->end) epilogue->end(epilogue->user, e);
    tcc_emit_kernel_end(e);
}

static void begin_row(tcc_emitter *e, const tcc_contract_epilogue *epilogue, const tcc_contract_place *place) {
    if (epilogue && epilogue->row) epilogue->row(epilogue->user, e, place);
}

static void end_row(tcc_emitter *e, const tcc_contract_epilogue *epilogue) {
    if (epilogue && epilogue->row_end) epilogue->row_end(epilogue->user, e);
}

/* Lanes of the vector at n that exist, or NULL when every panel is full. */
static tcc_emit_value lanes_mask(tcc_emitter *e, const tcc_contract_plan *p, tcc_emit_value n) {
    if (p->N % ((int64_t)p->vectors * e->lanes) == 0) return NULL;
    return tcc_emit_mask(e, e->lanes, tcc_emit_sub(e, tcc_emit_i64(e, p->N), n));
}

/* Vectors of a row that are finished as one, in full panels. GELU of bf16 is a chain of some fifty instructions and a
 * hundred cycles, of which a Zen 5 queues some two hundred: 24 cycles a vector. Four side by side wait less in queues,
 * 19.5 cycles; more have no registers. What lies apart from lane to lane is gathered by as many instructions anyway. */
static int vectors_at_once(const tcc_emitter *e, const tcc_contract_plan *p, const tcc_contract_epilogue *epilogue) {
    enum { MOST = 4, REGISTERS = 8 /* for each */ };
    int n = e->target->registers / REGISTERS;
    for (int x = 0; x < p->c.n_accesses; x++)
        if (p->c.n.d[0].c[x] != 0 && p->c.n.d[0].c[x] != 1) return 1;
    if (!epilogue || !epilogue->wide || p->N % ((int64_t)p->vectors * e->lanes)) return 1;
    if (n > MOST) n = MOST;
    while (p->vectors % n) n /= 2;
    return n;
}

/* The kernel, and where it is: in the item, the block of k, the panel of columns and the tile at hand. Pointers are at
 * elements that A and B begin with there. */
typedef struct kernel {
    const tcc_contract_plan *p;
    const tcc_contract_work *work;
    const tcc_contract_epilogue *epilogue;
    int first_access;                                 /* buffer of C, or of the workspace */
    tcc_emit_value access[TCC_CONTRACT_MAX_ACCESSES]; /* params, where k is not split */
    tcc_emit_value a, b, packed_b, partials,
        stage; /* the latter in scratch: sums of other blocks of k; a finished tile */
    /* the item */
    tcc_emit_value rows_key; /* equal for items that share their rows of A */
    tcc_emit_value batch[TCC_CONTRACT_MAX_DIMS], item_a, item_b;
    tcc_emit_value offset[TCC_CONTRACT_MAX_ACCESSES]; /* of each access for the item's b */
    tcc_emit_value workspace;                         /* offset of (split, b) in the workspace */
    tcc_emit_value tile0, tile_end, panel0, panel_end, block0, block_end;
    /* the block of k */
    tcc_emit_value number, block[TCC_CONTRACT_MAX_DIMS], block_a, block_b;
    tcc_emit_value count; /* of the split dimension */
    tcc_emit_value
        positions[TCC_CONTRACT_MAX_WINDOWS]; /* in the windows, of its first elements; where packing needs them */
    /* the panel */
    tcc_emit_value panel, n0, panel_b;
    tcc_tile_ahead ahead; /* what the next panel is packed from; `first`: NULL */
    /* the tile */
    tcc_emit_value tile, row0, first_row;      /* rows before first_row belong to another tile */
    tcc_emit_value row[TCC_CONTRACT_MAX_DIMS]; /* of the tile's first row */
    tcc_emit_value sums[TCC_EMIT_MAX_CARRY];
} kernel;

/* The epilogue's position at the first vector of a row. */
static tcc_contract_place place_of_row(tcc_emitter *e, const kernel *k, tcc_emit_value row) {
    const tcc_contract_plan *p = k->p;
    tcc_contract_place place = {.n_accesses = p->c.n_accesses, .first_buffer = k->first_access};
    tcc_emit_value index[TCC_CONTRACT_MAX_DIMS];
    tcc_contract_split_index(e, &p->c.m, row, index);
    for (int x = 0; x < p->c.n_accesses; x++) {
        int64_t stride = p->c.n.d[0].c[x];
        tcc_emit_value along_n = stride ? tcc_emit_mul(e, k->n0, tcc_emit_i64(e, stride)) : tcc_emit_i64(e, 0);
        place.offset[x] = tcc_emit_add(e, tcc_emit_add(e, k->offset[x], along_n),
                                       tcc_contract_offset(e, &p->c.m, index, x));
        place.lane_stride[x] = stride;
    }
    return place;
}

/* That of the vector that is `column` lanes into the panel. */
static tcc_contract_place place_in_row(tcc_emitter *e, const kernel *k, const tcc_contract_place *row,
                                       tcc_emit_value column) {
    tcc_contract_place place = *row;
    for (int x = 0; x < k->p->c.n_accesses; x++)
        if (place.lane_stride[x])
            place.offset[x] = tcc_emit_add(e, row->offset[x],
                                           tcc_emit_mul(e, column, tcc_emit_i64(e, place.lane_stride[x])));
    return place;
}

/* Finish that vector. */
static void finish_at(tcc_emitter *e, const kernel *k, const tcc_contract_place *row, tcc_emit_value column,
                      tcc_emit_value sums) {
    const tcc_contract_plan *p = k->p;
    tcc_contract_place place = place_in_row(e, k, row, column);
    place.mask = lanes_mask(e, p, tcc_emit_add(e, k->n0, column));
    finish_vector(e, p, sums, &place, k->epilogue);
}

static bool uses_tiles(const tcc_contract_plan *p) { return p->multiply == TCC_CONTRACT_TILES; }

/* Where row `row` lies in the workspace, at the panel's first column. */
static tcc_emit_value place_in_workspace(tcc_emitter *e, const kernel *k, tcc_emit_value row) {
    const tcc_contract_plan *p = k->p;
    const int64_t width = p->panels * p->vectors * e->lanes;
    tcc_emit_value at = tcc_emit_add(e, tcc_emit_add(e, k->workspace, tcc_emit_mul(e, row, tcc_emit_i64(e, width))),
                                     k->n0);
    return tcc_emit_at(e, e->f32, tcc_emit_buffer(e, k->first_access), at);
}

/* Row `row` of the tile, from registers: to the workspace, or through the epilogue to C. */
static void finish_row(tcc_emitter *e, const kernel *k, tcc_emit_value row, const tcc_emit_value *sums) {
    const tcc_contract_plan *p = k->p;
    if (p->k_splits > 1) {
        tcc_emit_value address = place_in_workspace(e, k, row);
        for (int v = 0; v < p->vectors; v++)
            tcc_emit_store(e, sums[v], tcc_emit_at(e, e->f32, address, tcc_emit_i64(e, v * e->lanes)), e->lanes * 4);
        return;
    }
    tcc_contract_place place = place_of_row(e, k, row);
    begin_row(e, k->epilogue, &place);
    for (int v = 0; v < p->vectors; v++) finish_at(e, k, &place, tcc_emit_i64(e, v * e->lanes), sums[v]);
    end_row(e, k->epilogue);
}

/* Row `row` of the tile that was set down in scratch at `stage`. */
static void finish_staged_row(tcc_emitter *e, const kernel *k, tcc_emit_value row, tcc_emit_value stage) {
    const tcc_contract_plan *p = k->p;
    const int64_t row_width = (int64_t)p->vectors * e->lanes;
    if (p->k_splits > 1 || ((!k->epilogue || k->epilogue->plain) && p->N % row_width == 0)) {
        tcc_emit_value values[8];
        for (int v = 0; v < p->vectors; v++)
            values[v] = tcc_emit_load(e, e->vf32, tcc_emit_at(e, e->f32, stage, tcc_emit_i64(e, v * e->lanes)),
                                      e->lanes * 4);
        finish_row(e, k, row, values);
        return;
    }
    tcc_emit_loop columns;
    tcc_contract_place place = place_of_row(e, k, row);
    begin_row(e, k->epilogue, &place);
    tcc_emit_value end = tcc_emit_i64(e, row_width);
    if (p->N % row_width) end = tcc_emit_min(e, end, tcc_emit_sub(e, tcc_emit_i64(e, p->N), k->n0));
    const int lanes = vectors_at_once(e, p, k->epilogue) * e->lanes;
    tcc_emit_loop_begin(e, &columns, tcc_emit_i64(e, 0), end, lanes, NULL, 0);
    tcc_emit_value at = tcc_emit_at(e, e->f32, stage, columns.index);
    tcc_emit_value value = tcc_emit_load(e, tcc_emit_vector_type(e->f32, lanes), at, e->lanes * 4);
    finish_at(e, k, &place, columns.index, value);
    tcc_emit_loop_end(e, &columns, NULL);
    end_row(e, k->epilogue);
}

/* The sums of the tile go to the workspace, or to C. What follows the sums is emitted once, in a loop over the tile
 * that was set down in scratch, where tiles' sums are already; a plain store goes from registers. */
static void emit_tile_end(tcc_emitter *e, const kernel *k) {
    const tcc_contract_plan *p = k->p;
    bool overlap = p->row_extent % p->rows != 0;
    bool loops = uses_tiles(p) || (p->k_splits == 1 && k->epilogue && !k->epilogue->plain);
    int64_t row_width = (int64_t)p->vectors * e->lanes;
    for (int i = 0; i < p->rows && !loops; i++) {
        tcc_emit_value row = tcc_emit_add(e, k->row0, tcc_emit_i64(e, i));
        tcc_emit_if mine;
        if (overlap) tcc_emit_if_begin(e, &mine, tcc_emit_icmp(e, TCC_ICMP_SGE, row, k->first_row));
        finish_row(e, k, row, k->sums + i * p->vectors);
        if (overlap) tcc_emit_if_end(e, &mine);
    }
    if (!loops) return;
    for (int i = 0; i < p->rows * p->vectors && !uses_tiles(p); i++)
        tcc_emit_store(e, k->sums[i], tcc_emit_at(e, e->f32, k->stage, tcc_emit_i64(e, (int64_t)i * e->lanes)),
                       e->lanes * 4);
    /* Always taken. What LLVM moves out of the loop, the constants of GELU for example, stays behind this branch: among
     * the stores above it took registers from the sums, and all sums were spilled in the loop over k. */
    tcc_emit_if set_down;
    tcc_emit_value staged = tcc_emit_anchor(e, k->stage);
    tcc_emit_if_begin(e, &set_down, tcc_emit_is_not_null(e, staged));
    tcc_emit_loop rows;
    tcc_emit_loop_begin(e, &rows, tcc_emit_sub(e, k->first_row, k->row0), tcc_emit_i64(e, p->rows), 1, NULL, 0);
    tcc_emit_value stage = tcc_emit_at(e, e->f32, staged, tcc_emit_mul(e, rows.index, tcc_emit_i64(e, row_width)));
    finish_staged_row(e, k, tcc_emit_add(e, k->row0, rows.index), stage);
    tcc_emit_loop_end(e, &rows, NULL);
    tcc_emit_if_end(e, &set_down);
}

/* Memory that the tile's epilogue touches is on its way while the sums are made: its rows lie too far apart for the
 * hardware to foresee them, and stores would wait for it. */
static void prefetch_tile(tcc_emitter *e, const kernel *k) {
    const tcc_contract_plan *p = k->p;
    const int64_t ahead = tiles_ahead(p);
    if (!k->epilogue || !k->epilogue->prefetch || p->k_splits > 1 || ahead < 0) return;
    tcc_emit_if last;
    const bool blocks = p->k_blocks_per_split > 1;
    if (blocks) {
        tcc_emit_value next = tcc_emit_add(e, k->number, tcc_emit_i64(e, 1));
        tcc_emit_if_begin(e, &last, tcc_emit_icmp(e, TCC_ICMP_EQ, next, k->block_end));
    }
    tcc_emit_loop rows;
    tcc_emit_loop_begin(e, &rows, tcc_emit_i64(e, 0), tcc_emit_i64(e, p->rows), 1, NULL, 0);
    tcc_emit_value at = tcc_emit_add(e, k->row0, rows.index);
    if (ahead) at = tcc_emit_min(e, tcc_emit_add(e, at, tcc_emit_i64(e, ahead * p->rows)), tcc_emit_i64(e, p->M - 1));
    tcc_contract_place row = place_of_row(e, k, at);
    for (int v = 0; v < p->vectors; v++) {
        tcc_contract_place place = place_in_row(e, k, &row, tcc_emit_i64(e, (int64_t)v * e->lanes));
        k->epilogue->prefetch(k->epilogue->user, e, &place);
    }
    tcc_emit_loop_end(e, &rows, NULL);
    if (blocks) tcc_emit_if_end(e, &last);
}

static tcc_emit_value in_operand(tcc_emitter *e, const tcc_contract_plan *p, tcc_emit_value base,
                                 tcc_emit_value offset) {
    return tcc_contract_at(e, p->c.dtype, base, offset);
}

/* Sums of a tile over several blocks of k meet in scratch. */
static tcc_emit_value partial_address(tcc_emitter *e, tcc_emit_value partial, int i) {
    return tcc_emit_at(e, e->f32, partial, tcc_emit_i64(e, (int64_t)i * e->lanes));
}

static void begin(tcc_emitter *e, kernel *k, const char *symbol) {
    const tcc_contract_plan *p = k->p;
    const int n_sums = p->rows * p->vectors;
    tcc_emit_kernel_begin(e, symbol);
    int buffer_a = p->swapped ? 1 : 0;
    k->a = in_operand(e, p, tcc_emit_buffer(e, buffer_a), tcc_emit_param(e, buffer_a));
    k->first_access = 1 + (k->work ? k->work->n_buffers : 1);
    tcc_emit_value b = k->work ? k->work->begin(k->work->user, e, 1) : tcc_emit_buffer(e, 1 - buffer_a);
    k->b = in_operand(e, p, b, tcc_emit_param(e, 1 - buffer_a));
    if (p->k_splits == 1)
        for (int x = 0; x < p->c.n_accesses; x++) k->access[x] = tcc_emit_param(e, 2 + x);
    if (p->k_splits == 1) begin_kernel(e, k->epilogue, k->first_access);
    k->packed_b = tcc_emit_at(e, e->f32, e->scratch, tcc_emit_i64(e, p->a_floats));
    k->stage = tcc_emit_at(e, e->f32, e->scratch, tcc_emit_i64(e, p->scratch_bytes / 4 - (int64_t)n_sums * e->lanes));
    k->partials = tcc_emit_at(e, e->f32, e->scratch, tcc_emit_i64(e, p->a_floats + p->b_floats));
    if (uses_tiles(p)) {
        int rows[TCC_EMIT_TILES];
        tcc_tile_configure(p->rows, p->vectors, rows);
        tcc_emit_tiles_begin(e, rows);
    }
}

static void enter_item(tcc_emitter *e, kernel *k, tcc_emit_value item) {
    const tcc_contract_plan *p = k->p;
    const int64_t panel = (int64_t)p->vectors * e->lanes;
    tcc_emit_value rest = item, panel_block = tcc_emit_rem(e, rest, p->panel_blocks);
    k->rows_key = rest = tcc_emit_div(e, rest, p->panel_blocks);
    tcc_emit_value row_block = tcc_emit_rem(e, rest, p->row_blocks);
    rest = tcc_emit_div(e, rest, p->row_blocks);
    /* A part of k is finished for all of the batch before the next: filter gradients meet the same images at each tap.
     */
    tcc_emit_value batch = tcc_emit_rem(e, rest, p->B), split = tcc_emit_div(e, rest, p->B);
    tcc_contract_split_index(e, &p->c.b, batch, k->batch);
    k->item_a = in_operand(e, p, k->a, tcc_contract_offset(e, &p->c.b, k->batch, TCC_OPERAND_A));
    k->item_b = in_operand(e, p, k->b, tcc_contract_offset(e, &p->c.b, k->batch, TCC_OPERAND_B));
    if (p->k_splits == 1) {
        for (int x = 0; x < p->c.n_accesses; x++)
            k->offset[x] = tcc_emit_add(e, k->access[x], tcc_contract_offset(e, &p->c.b, k->batch, x));
    } else {
        tcc_emit_value part = tcc_emit_add(e, tcc_emit_mul(e, split, tcc_emit_i64(e, p->B)), batch);
        k->workspace = tcc_emit_mul(e, part, tcc_emit_i64(e, p->M * p->panels * panel));
    }
    k->tile0 = tcc_emit_mul(e, row_block, tcc_emit_i64(e, p->tiles_per_block));
    k->tile_end = tcc_emit_min(e, tcc_emit_add(e, k->tile0, tcc_emit_i64(e, p->tiles_per_block)),
                               tcc_emit_i64(e, p->tiles));
    k->panel0 = tcc_emit_mul(e, panel_block, tcc_emit_i64(e, p->panels_per_block));
    k->panel_end = tcc_emit_min(e, tcc_emit_add(e, k->panel0, tcc_emit_i64(e, p->panels_per_block)),
                                tcc_emit_i64(e, p->panels));
    k->block0 = tcc_emit_mul(e, split, tcc_emit_i64(e, p->k_blocks_per_split));
    k->block_end = tcc_emit_add(e, k->block0, tcc_emit_i64(e, p->k_blocks_per_split));
    if (p->k_blocks % p->k_blocks_per_split) k->block_end = tcc_emit_min(e, k->block_end, tcc_emit_i64(e, p->k_blocks));
}

/* Where the block's first elements lie in the windows, but for what rows and columns add. */
static void find_positions(tcc_emitter *e, kernel *k) {
    const tcc_contract *c = &k->p->c;
    for (int v = 0; v < c->n_windows; v++) {
        tcc_emit_value at = tcc_emit_i64(e, c->windows[v].start);
        for (int i = 0; i < c->b.n; i++)
            at = tcc_emit_add(e, at, tcc_emit_mul(e, k->batch[i], tcc_emit_i64(e, c->b.d[i].w[v])));
        for (int i = 0; i <= k->p->k_split_dim; i++) {
            int64_t step = i == k->p->k_split_dim ? k->p->k_step : 1;
            at = tcc_emit_add(e, at, tcc_emit_mul(e, k->block[i], tcc_emit_i64(e, step * c->k.d[i].w[v])));
        }
        k->positions[v] = at;
    }
}

/* Where the block begins in k, and how much of the split dimension it has. */
static void enter_block(tcc_emitter *e, kernel *k, tcc_emit_value number) {
    const tcc_contract_plan *p = k->p;
    tcc_contract_dims outer = {.n = p->k_split_dim + 1};
    memcpy(outer.d, p->c.k.d, sizeof *outer.d * (size_t)outer.n);
    tcc_contract_dim *stepped = &outer.d[p->k_split_dim];
    int64_t extent = stepped->extent;
    stepped->extent = (extent + p->k_step - 1) / p->k_step;
    stepped->a *= p->k_step;
    stepped->b *= p->k_step;
    k->number = number;
    tcc_contract_split_index(e, &outer, number, k->block);
    k->block_a = in_operand(e, p, k->item_a, tcc_contract_offset(e, &outer, k->block, TCC_OPERAND_A));
    k->block_b = in_operand(e, p, k->item_b, tcc_contract_offset(e, &outer, k->block, TCC_OPERAND_B));
    find_positions(e, k);
    k->count = tcc_emit_i64(e, p->k_step);
    if (extent % p->k_step) {
        tcc_emit_value begun = tcc_emit_mul(e, k->block[p->k_split_dim], tcc_emit_i64(e, p->k_step));
        k->count = tcc_emit_min(e, k->count, tcc_emit_sub(e, tcc_emit_i64(e, extent), begun));
    }
}

/* What the next panel is packed from: that of the next columns, or else of the first ones in the next block of k. */
static void look_ahead(tcc_emitter *e, kernel *k) {
    const tcc_contract_plan *p = k->p;
    const tcc_contract_dim *n = &p->c.n.d[0], *last = &p->c.k.d[p->c.k.n - 1];
    const int64_t panel = (int64_t)p->vectors * e->lanes, line = 64 / tcc_dtype_bytes(p->c.dtype);
    const bool along_n = n->b == 1, along_k = last->b == 1;
    k->ahead = (tcc_tile_ahead){.type = p->c.dtype};
    if (!p->pack_b || p->k_split_dim != p->c.k.n - 1 || !(along_n || along_k)) return;
    tcc_emit_value next = tcc_emit_add(e, k->n0, tcc_emit_i64(e, panel));
    tcc_emit_value here = tcc_emit_icmp(e, TCC_ICMP_SLT, next, tcc_emit_i64(e, p->N));
    tcc_emit_value columns = tcc_emit_mul(e, next, tcc_emit_i64(e, n->b)), block = tcc_emit_i64(e, p->k_step * last->b);
    k->ahead.from = in_operand(e, p, k->block_b, tcc_emit_select(e, here, columns, block));
    k->ahead.width = ((along_n ? panel : p->k_step) + line - 1) / line;
    k->ahead.row = along_n ? last->b : n->b;
    const int64_t rows = along_n ? p->k_step : panel;
    k->ahead.count = (k->ahead.width * rows + p->tiles_per_block - 1) / p->tiles_per_block;
}

/* The panel of that number, packed where it has to be. */
static void enter_panel(tcc_emitter *e, kernel *k, tcc_emit_value panel) {
    const tcc_contract_plan *p = k->p;
    k->panel = panel;
    k->n0 = tcc_emit_mul(e, panel, tcc_emit_i64(e, (int64_t)p->vectors * e->lanes));
    if (p->multiply != TCC_CONTRACT_FMA)
        tcc_contract_pack_b_bf16(e, p, k->work, k->block_b, k->packed_b, k->n0, k->count, k->positions);
    else if (k->work)
        tcc_contract_pack_computed_b(e, p, k->work, k->block_b, k->packed_b, k->n0, k->count, k->positions);
    else if (p->pack_b) tcc_contract_pack_b(e, p, k->block_b, k->packed_b, k->n0, k->count);
    tcc_emit_value first = p->along_k ? tcc_emit_mul(e, k->n0, tcc_emit_i64(e, p->c.n.d[0].b)) : k->n0;
    k->panel_b = p->pack_b ? k->packed_b : in_operand(e, p, k->block_b, first);
    look_ahead(e, k);
}

static void pack_rows(tcc_emitter *e, const kernel *k) {
    const tcc_contract_plan *p = k->p;
    if (p->multiply == TCC_CONTRACT_FMA)
        tcc_contract_pack_a(e, p, k->block_a, e->scratch, k->tile0, k->tile_end, k->count);
    else tcc_contract_pack_a_bf16(e, p, k->block_a, e->scratch, k->tile0, k->tile_end, k->count, k->positions);
}

/* Sums of a tile over several blocks of k meet in scratch: where those of the tile at hand lie. */
static tcc_emit_value partial_of_tile(tcc_emitter *e, const kernel *k) {
    const tcc_contract_plan *p = k->p;
    tcc_emit_value slot = tcc_emit_add(
        e, tcc_emit_mul(e, tcc_emit_sub(e, k->panel, k->panel0), tcc_emit_i64(e, p->tiles_per_block)), k->tile);
    return tcc_emit_at(e, e->f32, k->partials,
                       tcc_emit_mul(e, slot, tcc_emit_i64(e, (int64_t)p->rows * p->vectors * e->lanes)));
}

/* The rows of the tile of that number, and its sums over the block of k. */
static void multiply_tile(tcc_emitter *e, kernel *k, tcc_emit_value number) {
    const tcc_contract_plan *p = k->p;
    /* Tiles take the outer dimensions of m, if rows lie in the last alone, before they go on to further rows. */
    tcc_contract_dims outer_m = p->c.m;
    outer_m.n--;
    int64_t positions = p->M / p->row_extent;
    tcc_emit_value position = tcc_emit_rem(e, number, positions);
    tcc_emit_value first_row = tcc_emit_mul(e, tcc_emit_div(e, number, positions), tcc_emit_i64(e, p->rows)),
                   row0 = first_row;
    if (p->row_extent % p->rows) row0 = tcc_emit_min(e, first_row, tcc_emit_i64(e, p->row_extent - p->rows));
    tcc_emit_value in_last = row0;
    if (positions > 1) {
        tcc_emit_value begun = tcc_emit_mul(e, position, tcc_emit_i64(e, p->row_extent));
        row0 = tcc_emit_add(e, begun, row0), first_row = tcc_emit_add(e, begun, first_row);
        tcc_contract_split_index(e, &outer_m, position, k->row);
    }
    const bool narrow = p->multiply != TCC_CONTRACT_FMA;
    tcc_contract_tile t = {.multiply = p->multiply,
                           .a_type = p->pack_a && !narrow ? TCC_F32 : p->c.dtype,
                           .b_type = p->pack_b && !narrow ? TCC_F32 : p->c.dtype,
                           .rows = p->rows,
                           .vectors = p->vectors,
                           .b_aligned = p->pack_b,
                           .ahead = k->ahead};
    tcc_emit_value tile_a;
    k->tile = tcc_emit_sub(e, number, k->tile0);
    t.ahead.first = tcc_emit_mul(e, k->tile, tcc_emit_i64(e, k->ahead.count));
    if (p->pack_a) {
        /* From row to row: of rows of k, of k's rows, and of rows of pairs. */
        t.a_row = !p->a_columns || uses_tiles(p) ? p->a_row : narrow ? 2 : 1;
        tcc_emit_value row = p->a_columns ? tcc_emit_sub(e, row0, tcc_contract_first_row(e, p, k->tile0))
                                          : tcc_emit_mul(e, k->tile, tcc_emit_i64(e, p->rows));
        tile_a = tcc_contract_at(e, t.a_type, e->scratch, tcc_emit_mul(e, row, tcc_emit_i64(e, t.a_row)));
    } else {
        t.a_row = p->c.m.d[p->c.m.n - 1].a;
        tile_a = in_operand(e, p, k->block_a, tcc_emit_mul(e, in_last, tcc_emit_i64(e, t.a_row)));
        if (positions > 1) tile_a = in_operand(e, p, tile_a, tcc_contract_offset(e, &outer_m, k->row, TCC_OPERAND_A));
    }
    k->row[p->c.m.n - 1] = in_last;
    k->row0 = row0, k->first_row = first_row;
    for (int i = 0; i < p->rows * p->vectors; i++) k->sums[i] = tcc_emit_float(e, e->vf32, 0);
    prefetch_tile(e, k);
    if (uses_tiles(p)) tcc_tile_begin(e, p->rows, p->vectors);
    if (!p->K) return;
    if (p->along_k) {
        tcc_contract_sum_along_k(e, p, &t, tile_a, k->panel_b, k->n0, k->count, k->sums);
        return;
    }
    tcc_contract_part parts[TCC_CONTRACT_MAX_DIMS] = {0};
    tcc_emit_value tile_b = k->panel_b;
    if (!narrow) tcc_contract_find_parts(e, p, k->batch, k->row, k->block, k->count, parts);
    tcc_contract_make_levels(e, p, k->count, parts, &t, &tile_a, &tile_b);
    tcc_tile_emit(e, &t, tile_a, tile_b, k->sums);
}

/* Adds what earlier blocks of k left in scratch; leaves the sum there, or finishes the tile with the last block. */
static void add_partial(tcc_emitter *e, kernel *k) {
    const tcc_contract_plan *p = k->p;
    const int n_sums = p->rows * p->vectors;
    tcc_emit_value partial = partial_of_tile(e, k);
    tcc_emit_value next = tcc_emit_add(e, k->number, tcc_emit_i64(e, 1));
    tcc_emit_value is_last = tcc_emit_icmp(e, TCC_ICMP_EQ, next, k->block_end);
    /* Scratch holds nothing before the first block: no lane is loaded then. */
    tcc_emit_value again = tcc_emit_splat(e, tcc_emit_icmp(e, TCC_ICMP_NE, k->number, k->block0), e->lanes);
    for (int i = 0; i < n_sums; i++)
        k->sums[i] = tcc_emit_fadd(e, tcc_emit_load_masked(e, e->vf32, partial_address(e, partial, i), again),
                                   k->sums[i]);
    tcc_emit_if finish;
    tcc_emit_if_begin(e, &finish, is_last);
    emit_tile_end(e, k);
    tcc_emit_if_else(e, &finish);
    for (int i = 0; i < n_sums; i++) tcc_emit_store(e, k->sums[i], partial_address(e, partial, i), e->lanes * 4);
    tcc_emit_if_end(e, &finish);
}

/* Tiles' sums are set down in scratch; those of earlier blocks of k are added, and left there or finished. */
static void end_tiles(tcc_emitter *e, kernel *k) {
    const tcc_contract_plan *p = k->p;
    tcc_tile_end(e, p->rows, p->vectors, k->stage, (int64_t)p->vectors * e->lanes * 4);
    if (p->k_blocks_per_split == 1) {
        emit_tile_end(e, k);
        return;
    }
    tcc_emit_value partial = partial_of_tile(e, k), next = tcc_emit_add(e, k->number, tcc_emit_i64(e, 1));
    tcc_emit_value is_last = tcc_emit_icmp(e, TCC_ICMP_EQ, next, k->block_end);
    tcc_emit_value again = tcc_emit_splat(e, tcc_emit_icmp(e, TCC_ICMP_NE, k->number, k->block0), e->lanes);
    tcc_emit_value to = tcc_emit_select(e, is_last, k->stage, partial);
    tcc_emit_loop sums;
    tcc_emit_loop_begin(e, &sums, tcc_emit_i64(e, 0), tcc_emit_i64(e, (int64_t)p->rows * p->vectors * e->lanes),
                        e->lanes, NULL, 0);
    tcc_emit_value before = tcc_emit_load_masked(e, e->vf32, tcc_emit_at(e, e->f32, partial, sums.index), again);
    tcc_emit_value value = tcc_emit_load(e, e->vf32, tcc_emit_at(e, e->f32, k->stage, sums.index), e->lanes * 4);
    tcc_emit_store(e, tcc_emit_fadd(e, before, value), tcc_emit_at(e, e->f32, to, sums.index), e->lanes * 4);
    tcc_emit_loop_end(e, &sums, NULL);
    tcc_emit_if finish;
    tcc_emit_if_begin(e, &finish, is_last);
    emit_tile_end(e, k);
    tcc_emit_if_end(e, &finish);
}

void tcc_contract_emit(tcc_emitter *e, const char *symbol, const tcc_contract_plan *p, const tcc_contract_work *work,
                       const tcc_contract_epilogue *epilogue) {
    kernel k = {.p = p, .work = work, .epilogue = epilogue};
    begin(e, &k, symbol);
    /* Successive items mostly share their rows; A is then packed once. */
    bool keep_a = p->pack_a && p->k_blocks_per_split == 1;
    tcc_emit_value none = tcc_emit_i64(e, -1);
    tcc_emit_loop items, blocks, panels, tiles;
    tcc_emit_loop_begin(e, &items, e->begin, e->end, 1, &none, keep_a ? 1 : 0);
    enter_item(e, &k, items.index);
    bool one_block = p->k_blocks_per_split == 1;
    if (one_block) blocks.index = k.block0;
    else tcc_emit_loop_begin(e, &blocks, k.block0, k.block_end, 1, NULL, 0);
    enter_block(e, &k, blocks.index);
    if (p->pack_a) {
        tcc_emit_if repack;
        if (keep_a) tcc_emit_if_begin(e, &repack, tcc_emit_icmp(e, TCC_ICMP_NE, k.rows_key, items.carry[0]));
        pack_rows(e, &k);
        if (keep_a) tcc_emit_if_end(e, &repack);
    }
    tcc_emit_loop_begin(e, &panels, k.panel0, k.panel_end, 1, NULL, 0);
    enter_panel(e, &k, panels.index);
    tcc_emit_loop_begin(e, &tiles, k.tile0, k.tile_end, 1, NULL, 0);
    multiply_tile(e, &k, tiles.index);
    if (uses_tiles(p)) end_tiles(e, &k);
    else if (one_block) emit_tile_end(e, &k);
    else add_partial(e, &k);
    tcc_emit_loop_end(e, &tiles, NULL);
    tcc_emit_loop_end(e, &panels, NULL);
    if (!one_block) tcc_emit_loop_end(e, &blocks, NULL);
    tcc_emit_loop_end(e, &items, &k.rows_key);
    if (uses_tiles(p)) tcc_emit_tiles_end(e);
    if (work) work->end(work->user);
    end_kernel(e, p->k_splits == 1 ? epilogue : NULL);
}

void tcc_contract_emit_combine(tcc_emitter *e, const char *symbol, const tcc_contract_plan *p,
                               const tcc_contract_epilogue *epilogue) {
    const int64_t width = p->panels * p->vectors * e->lanes;
    const tcc_contract_dim *along = &p->c.n.d[0];
    tcc_emit_kernel_begin(e, symbol);
    tcc_emit_value workspace = tcc_emit_buffer(e, 0), access[TCC_CONTRACT_MAX_ACCESSES];
    for (int x = 0; x < p->c.n_accesses; x++) access[x] = tcc_emit_param(e, x);
    begin_kernel(e, epilogue, 1);
    int64_t chunks = (p->M + p->combine_rows - 1) / p->combine_rows;
    tcc_emit_loop items, rows, vectors, splits;
    tcc_emit_items_begin(e, &items);
    tcc_emit_value batch = tcc_emit_div(e, items.index, chunks), index[TCC_CONTRACT_MAX_DIMS];
    tcc_contract_split_index(e, &p->c.b, batch, index);
    tcc_emit_value item[TCC_CONTRACT_MAX_ACCESSES];
    for (int x = 0; x < p->c.n_accesses; x++)
        item[x] = tcc_emit_add(e, access[x], tcc_contract_offset(e, &p->c.b, index, x));
    tcc_emit_value from = tcc_emit_mul(e, tcc_emit_rem(e, items.index, chunks), tcc_emit_i64(e, p->combine_rows));
    tcc_emit_value to = tcc_emit_min(e, tcc_emit_add(e, from, tcc_emit_i64(e, p->combine_rows)), tcc_emit_i64(e, p->M));
    tcc_emit_loop_begin(e, &rows, from, to, 1, NULL, 0);
    tcc_contract_split_index(e, &p->c.m, rows.index, index);
    tcc_contract_place place = {.n_accesses = p->c.n_accesses, .first_buffer = 1};
    tcc_emit_value row[TCC_CONTRACT_MAX_ACCESSES];
    for (int x = 0; x < p->c.n_accesses; x++)
        row[x] = tcc_emit_add(e, item[x], tcc_contract_offset(e, &p->c.m, index, x));
    tcc_emit_value at = tcc_emit_add(e, tcc_emit_mul(e, batch, tcc_emit_i64(e, p->M)), rows.index);
    tcc_emit_value source = tcc_emit_at(e, e->f32, workspace, tcc_emit_mul(e, at, tcc_emit_i64(e, width)));
    for (int x = 0; x < p->c.n_accesses; x++) place.offset[x] = row[x], place.lane_stride[x] = along->c[x];
    begin_row(e, epilogue, &place);
    tcc_emit_loop_begin(e, &vectors, tcc_emit_i64(e, 0), tcc_emit_i64(e, p->N), e->lanes, NULL, 0);
    source = tcc_emit_at(e, e->f32, source, vectors.index);
    tcc_emit_value sum = tcc_emit_load(e, e->vf32, source, e->lanes * 4);
    tcc_emit_loop_begin(e, &splits, tcc_emit_i64(e, 1), tcc_emit_i64(e, p->k_splits), 1, &sum, 1);
    tcc_emit_value part = tcc_emit_at(e, e->f32, source,
                                      tcc_emit_mul(e, splits.index, tcc_emit_i64(e, p->B * p->M * width)));
    sum = tcc_emit_fadd(e, splits.carry[0], tcc_emit_load(e, e->vf32, part, e->lanes * 4));
    tcc_emit_loop_end(e, &splits, &sum);
    for (int x = 0; x < p->c.n_accesses; x++) {
        place.offset[x] = row[x];
        if (along->c[x])
            place.offset[x] = tcc_emit_add(e, row[x], tcc_emit_mul(e, vectors.index, tcc_emit_i64(e, along->c[x])));
    }
    place.mask = p->N % e->lanes ? tcc_emit_mask(e, e->lanes, tcc_emit_sub(e, tcc_emit_i64(e, p->N), vectors.index))
                                 : NULL;
    finish_vector(e, p, splits.carry[0], &place, epilogue);
    tcc_emit_loop_end(e, &vectors, NULL);
    end_row(e, epilogue);
    tcc_emit_loop_end(e, &rows, NULL);
    tcc_emit_loop_end(e, &items, NULL);
    end_kernel(e, epilogue);
}
