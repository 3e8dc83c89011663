/* SPDX-License-Identifier: MIT
 * Multiplying tiles with tensor cores. Tiles in shared memory keep the order of global memory, in chunks of 16 bytes,
 * which asynchronous copies need: along k as [row][64 bytes of k], else as [k][row]. Chunks are permuted within a line
 * by an exclusive or (swizzled), so that neither copies nor fragments have bank conflicts:
 *
 *     along k             chunk k of row o at k ^ (o / 2 mod 4)     ldmatrix reads 8 rows
 *     [k][row], 16 bits   chunk o of line k at o ^ (k mod 8)        ldmatrix reads 8 lines of k and transposes
 *     [k][row], tf32      chunk o of line k at o ^ 2 (k mod 4)      4 lines of k and 8 rows are read by element
 *
 * A tile is two steps of 32 bytes along k. A ring of tiles is filled ahead, with one barrier per tile. For a computed
 * operand (prologue.h), the inputs of the ring's next tile are read into registers before a tile is multiplied, and
 * evaluated and stored after that. */
#include "codegen/contract/gpu_internal.h"

#include "codegen/emit/warp.h"

#include <string.h>

enum { LINE = 64, STEP = 32, CHUNK = 16, MOST_FRAGMENTS = 4 }; /* bytes; 16 rows or 8 columns each */

typedef struct operand {
    const tcc_contract_reader *reader;
    bool is_b, tf32;
    int count;                                 /* fragments of a warp: of 16 rows of A, of 8 columns of B */
    int pitch;                                 /* bytes from line to line */
    tcc_emit_value to[TCC_CONTRACT_GPU_SLOTS]; /* where copies go, in bytes from the tile's start */
    tcc_emit_value from[2 * MOST_FRAGMENTS];   /* where fragments lie at the first step */
} operand;

static tcc_emit_value i32(tcc_emitter *e, int64_t value) { return tcc_emit_i32(e, (int32_t)value); }
static tcc_emit_value exclusive(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) { return tcc_emit_xor(e, a, b); }
static tcc_emit_value add(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) { return tcc_emit_add(e, a, b); }
static tcc_emit_value times(tcc_emitter *e, tcc_emit_value a, int64_t b) { return tcc_emit_mul(e, a, i32(e, b)); }
static tcc_emit_value over(tcc_emitter *e, tcc_emit_value a, int64_t b) { return tcc_emit_div(e, a, b); }
static tcc_emit_value rest(tcc_emitter *e, tcc_emit_value a, int64_t b) { return tcc_emit_rem(e, a, b); }
static tcc_emit_value shared(tcc_emitter *e, tcc_emit_value bytes) { return tcc_emit_at(e, e->i8, e->scratch, bytes); }

/* The byte of a tile where the chunk that begins at (o, k) lies. */
static tcc_emit_value chunk_at(tcc_emitter *e, const operand *x, tcc_emit_value o, tcc_emit_value k) {
    int vector = x->reader->p->vector;
    if (x->reader->p->along_k)
        return add(e, times(e, o, LINE), times(e, exclusive(e, over(e, k, vector), rest(e, over(e, o, 2), 4)), CHUNK));
    tcc_emit_value turn = x->tf32 ? times(e, rest(e, k, 4), 2) : rest(e, k, 8);
    return add(e, times(e, k, x->pitch), times(e, exclusive(e, over(e, o, vector), turn), CHUNK));
}

static void find_places(tcc_emitter *e, const tcc_contract_block *b, operand *x) {
    const tcc_contract_side *s = x->reader->p;
    tcc_emit_value lane = b->lane,
                   o0 = times(e, x->is_b ? b->warp_n : b->warp_m, x->is_b ? b->p->warp_n : b->p->warp_m);
    int vector = s->vector, two_chunks = 2 * vector;
    x->pitch = s->along_k ? LINE : s->rows * CHUNK / vector;
    for (int j = 0; j < s->slots; j++) x->to[j] = chunk_at(e, x, x->reader->slots[j].o, x->reader->slots[j].k);
    if (x->tf32 && !s->along_k) { /* elements (r, c) of fragments of 8 rows */
        tcc_emit_value r = over(e, lane, 4), c = rest(e, lane, 4);
        int n = x->is_b ? x->count : 2 * x->count;
        for (int i = 0; i < n; i++) {
            tcc_emit_value o = add(e, o0, add(e, r, i32(e, 8 * i)));
            tcc_emit_value chunk = times(e, over(e, o, 4), 4);
            x->from[i] = add(e, chunk_at(e, x, chunk, c), times(e, rest(e, o, 4), 4));
        }
        return;
    }
    /* Lane 8 i + r gives row r of matrix i of four: A: two of rows, then two of k; B: two of k, then two of columns. */
    tcc_emit_value low = rest(e, over(e, lane, 8), 2), high = over(e, lane, 16), r = rest(e, lane, 8);
    tcc_emit_value of_o = x->is_b ? high : low, of_k = x->is_b ? low : high;
    int n = x->is_b ? x->count / 2 : x->count;
    for (int i = 0; i < n; i++) {
        tcc_emit_value o = add(e, o0, add(e, times(e, of_o, 8), i32(e, 16 * i)));
        if (s->along_k) x->from[i] = chunk_at(e, x, add(e, o, r), times(e, of_k, vector));
        else x->from[i] = chunk_at(e, x, o, add(e, times(e, of_k, two_chunks / 2), r));
    }
}

/* Send a tile on its way into the part of shared memory from `to` on, or, computed, into registers. */
static void send_tile(tcc_emitter *e, const tcc_contract_block *b, const operand *x, tcc_emit_value k0,
                      tcc_emit_value end, tcc_emit_value to, tcc_contract_pending *pending) {
    if (x->reader->prologue) {
        tcc_contract_read_tile(e, b->p, x->reader, k0, end, pending);
        return;
    }
    for (int j = 0; j < x->reader->p->slots; j++) {
        tcc_emit_value inside, address = tcc_contract_locate(e, b->p, x->reader, j, k0, end, &inside);
        tcc_emit_copy_async(e, shared(e, add(e, to, x->to[j])), address, CHUNK, inside);
    }
}

/* A computed tile from registers into shared memory, as send_tile does the others. */
static void store_tile(tcc_emitter *e, const operand *x, tcc_emit_value to, const tcc_contract_pending *pending) {
    const tcc_contract_side *s = x->reader->p;
    for (int j = 0; x->reader->prologue && j < s->slots; j++) {
        tcc_emit_value value = tcc_contract_arrived(e, x->reader, &pending[j]);
        if (!x->tf32) {
            tcc_emit_value halves = value;
            value = tcc_emit_poison(tcc_emit_vector_type(e->i32, 4));
            for (int i = 0; i < 4; i++) {
                tcc_emit_value low = tcc_emit_extract(e, halves, i32(e, 2 * i));
                tcc_emit_value high = tcc_emit_extract(e, halves, i32(e, 2 * i + 1));
                value = tcc_emit_insert(e, value, tcc_emit_pack(e, s->dtype, low, high), i32(e, i));
            }
        }
        tcc_emit_store(e, value, shared(e, add(e, to, x->to[j])), CHUNK);
    }
}

/* Fragments of step `step` of the tile at `tile`: 4 registers for 16 rows of A, 2 for 8 columns of B. */
static void load_fragments(tcc_emitter *e, const operand *x, tcc_emit_value tile, int step, tcc_emit_value *out) {
    const tcc_contract_side *s = x->reader->p;
    if (x->tf32 && !s->along_k) {
        int n = x->is_b ? x->count : 2 * x->count;
        for (int i = 0; i < n; i++)
            for (int half = 0; half < 2; half++) { /* of k */
                tcc_emit_value at = add(e, add(e, tile, x->from[i]), i32(e, (int64_t)(8 * step + 4 * half) * x->pitch));
                tcc_emit_value value = tcc_emit_load(e, e->i32, shared(e, at), 4);
                if (x->is_b) out[2 * i + half] = value;
                else out[4 * (i / 2) + 2 * half + i % 2] = value;
            }
    } else {
        int n = x->is_b ? x->count / 2 : x->count;
        for (int i = 0; i < n; i++) {
            tcc_emit_value at = x->from[i];
            if (s->along_k && step) at = exclusive(e, at, i32(e, STEP));
            else if (step) at = add(e, at, i32(e, (int64_t)step * 2 * s->vector * x->pitch));
            tcc_emit_load_matrix(e, 4, !s->along_k, shared(e, add(e, tile, at)), out + 4 * i);
        }
    }
    for (int i = 0; x->tf32 && i < (x->is_b ? 2 : 4) * x->count; i++)
        out[i] = tcc_emit_round_tf32(e, tcc_emit_bitcast(e, out[i], e->f32));
}

static void multiply(tcc_emitter *e, const tcc_contract_gpu_plan *p, const operand *a, const operand *b,
                     tcc_emit_value tile_a, tcc_emit_value tile_b, tcc_emit_value *sums) {
    for (int step = 0; step < LINE / STEP; step++) {
        tcc_emit_value rows[4 * MOST_FRAGMENTS], columns[4 * MOST_FRAGMENTS];
        load_fragments(e, a, tile_a, step, rows);
        load_fragments(e, b, tile_b, step, columns);
        for (int m = 0; m < a->count; m++)
            for (int n = 0; n < b->count; n++) {
                tcc_emit_value *sum = &sums[m * b->count + n], parts[4];
                for (int i = 0; i < 4; i++) parts[i] = tcc_emit_extract(e, *sum, i32(e, i));
                tcc_emit_matrix_product(e, p->matrix, rows + 4 * m, columns + 2 * n, parts);
                for (int i = 0; i < 4; i++) *sum = tcc_emit_insert(e, *sum, parts[i], i32(e, i));
            }
    }
}

/* The place of the next tile in the ring. */
static tcc_emit_value after(tcc_emitter *e, tcc_emit_value place, int64_t tile, int64_t ring) {
    tcc_emit_value next = add(e, place, i32(e, tile));
    return tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_EQ, next, i32(e, ring)), i32(e, 0), next);
}

void tcc_contract_mma(tcc_emitter *e, const tcc_contract_block *x, tcc_emit_value begin, tcc_emit_value end,
                      tcc_emit_value *sums) {
    const tcc_contract_gpu_plan *p = x->p;
    bool tf32 = p->matrix == TCC_F32;
    operand a = {.reader = &x->a, .tf32 = tf32, .count = p->warp_m / 16},
            b = {.reader = &x->b, .is_b = true, .tf32 = tf32, .count = p->warp_n / 8};
    const int64_t size_a = (int64_t)LINE * p->tile_m, tile = size_a + (int64_t)LINE * p->tile_n,
                  ring = tile * p->stages;
    const int n_sums = a.count * b.count, ahead = p->stages - 1;
    find_places(e, x, &a);
    find_places(e, x, &b);
    tcc_contract_pending next_a[TCC_CONTRACT_GPU_SLOTS], next_b[TCC_CONTRACT_GPU_SLOTS];
    for (int i = 0; i < ahead; i++) {
        tcc_emit_value k0 = add(e, begin, i32(e, (int64_t)i * p->tile_k)), to_a = i32(e, i * tile),
                       to_b = i32(e, i * tile + size_a);
        send_tile(e, x, &a, k0, end, to_a, next_a);
        send_tile(e, x, &b, k0, end, to_b, next_b);
        tcc_emit_copy_commit(e);
        store_tile(e, &a, to_a, next_a);
        store_tile(e, &b, to_b, next_b);
    }
    tcc_emit_loop tiles;
    sums[n_sums] = i32(e, 0);
    sums[n_sums + 1] = i32(e, ahead * tile);
    tcc_emit_value from = tcc_emit_sext(e, begin, e->i64), to = tcc_emit_sext(e, end, e->i64);
    tcc_emit_loop_begin(e, &tiles, from, to, p->tile_k, sums, n_sums + 2);
    memcpy(sums, tiles.carry, sizeof *sums * (size_t)(n_sums + 2));
    tcc_emit_value here = sums[n_sums], vacant = sums[n_sums + 1];
    tcc_emit_copy_wait(e, ahead - 1);
    tcc_emit_barrier(e); /* the tile has come for all, and all have done with the one before, whose place is free */
    tcc_emit_value k0 = add(e, tcc_emit_trunc(e, tiles.index, e->i32), i32(e, (int64_t)ahead * p->tile_k));
    tcc_emit_value vacant_b = add(e, vacant, i32(e, size_a));
    send_tile(e, x, &a, k0, end, vacant, next_a);
    send_tile(e, x, &b, k0, end, vacant_b, next_b);
    tcc_emit_copy_commit(e);
    multiply(e, p, &a, &b, here, add(e, here, i32(e, size_a)), sums);
    store_tile(e, &a, vacant, next_a);
    store_tile(e, &b, vacant_b, next_b);
    sums[n_sums] = after(e, here, tile, ring);
    sums[n_sums + 1] = after(e, vacant, tile, ring);
    tcc_emit_loop_end(e, &tiles, sums);
    memcpy(sums, tiles.carry, sizeof *sums * (size_t)n_sums);
    tcc_emit_copy_wait(e, 0); /* zeros behind the end are still written */
}
