/* SPDX-License-Identifier: MIT
 * Emitting a contraction's CUDA kernels. Planning is in gpu_plan.c.
 *
 * Threads and data of a tile. A piece is 16 bytes of the sums' type: 4 f32, 2 f64. A warp is 4 x 8 threads; a thread
 * has squares of C, a piece each way and 4 rows or 8 columns of them apart, so that the pieces which a warp reads from
 * shared memory are neighbours. Tiles of operands are [k][row] there, with 4 elements between rows of k: with that,
 * what a warp writes to columns falls into different banks as well. */
#include "codegen/contract/gpu_internal.h"

#include "codegen/contract/internal.h"
#include "codegen/emit/warp.h"

static LLVMValueRef i32(tcc_emitter *e, int64_t value) { return tcc_emit_i32(e, (int32_t)value); }
static LLVMValueRef narrow(tcc_emitter *e, LLVMValueRef x) { return LLVMBuildTrunc(e->builder, x, e->i32, ""); }
static LLVMValueRef wide(tcc_emitter *e, LLVMValueRef x) { return LLVMBuildSExt(e->builder, x, e->i64, ""); }
static LLVMValueRef both(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return a && b ? LLVMBuildAnd(e->builder, a, b, "") : a ? a : b;
}
static LLVMValueRef below(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildICmp(e->builder, LLVMIntSLT, a, b, "");
}
static LLVMValueRef at(tcc_emitter *e, const tcc_contract_gpu_plan *p, LLVMValueRef base, LLVMValueRef offset) {
    return tcc_emit_at(e, tcc_emit_dtype(e, p->sum), base, offset);
}
static LLVMTypeRef sums_type(tcc_emitter *e, const tcc_contract_gpu_plan *p, int n) {
    return tcc_emit_vector_type(tcc_emit_dtype(e, p->sum), n);
}
static int bytes_of(const tcc_contract_gpu_plan *p, int n) { return n * (int)tcc_dtype_bytes(p->sum); }

enum { PIECE_BYTES = 16 };

/* --- Walks: an index (i32) in all dimensions together, as an offset and as positions in windows */

typedef struct place {
    LLVMValueRef offset[TCC_CONTRACT_MAX_FORMS]; /* i32, or i64 where the side is wide */
    LLVMValueRef position[TCC_CONTRACT_MAX_WINDOWS];
} place;

static place place_of(tcc_emitter *e, const tcc_contract_side *s, const tcc_contract_walk *w, LLVMValueRef index) {
    place p;
    for (int f = 0; f < s->n_forms; f++) p.offset[f] = s->wide ? tcc_emit_i64(e, 0) : i32(e, 0);
    for (int v = 0; v < TCC_CONTRACT_MAX_WINDOWS; v++) p.position[v] = i32(e, 0);
    for (int i = w->n - 1; i >= 0; i--) {
        LLVMValueRef here = i == 0 ? index : tcc_emit_rem(e, index, w->extent[i]);
        if (i > 0) index = tcc_emit_div(e, index, w->extent[i]);
        for (int f = 0; f < s->n_forms; f++) {
            const int64_t stride = w->stride[i][f];
            if (!stride) continue;
            LLVMValueRef far = s->wide ? tcc_emit_mul(e, wide(e, here), tcc_emit_i64(e, stride))
                                       : tcc_emit_mul(e, here, i32(e, stride));
            p.offset[f] = tcc_emit_add(e, p.offset[f], far);
        }
        for (int v = 0; v < TCC_CONTRACT_MAX_WINDOWS; v++)
            if (w->w[i][v]) p.position[v] = tcc_emit_add(e, p.position[v], tcc_emit_mul(e, here, i32(e, w->w[i][v])));
    }
    return p;
}

/* --- Operands, from memory to shared memory */

static LLVMValueRef element(tcc_emitter *e, const tcc_contract_side *s, LLVMValueRef base, LLVMValueRef offset) {
    return tcc_emit_at(e, tcc_emit_dtype(e, s->dtype), base, s->wide ? offset : wide(e, offset));
}

/* Where access `j` of a thread lies in the tile. All counts are powers of two. */
static void find_slot(tcc_emitter *e, const tcc_contract_gpu_plan *p, const tcc_contract_side *s, LLVMValueRef thread,
                      int j, tcc_contract_slot *out) {
    int row = (s->along_k ? p->tile_k : s->rows) / s->vector; /* accesses in a row */
    if (s->along_k &&
        p->matrix == TCC_DTYPE_COUNT) { /* a warp reads rows of two pieces, and writes them to different banks */
        int warps = p->threads / 32, in_unit = 2 * p->piece, across = p->tile_k / in_unit, in_row = in_unit / s->vector;
        LLVMValueRef warp = tcc_emit_div(e, thread, 32), lane = tcc_emit_rem(e, thread, 32), unit_o, unit_k;
        if (warps % across == 0) {
            unit_k = tcc_emit_rem(e, warp, across);
            unit_o = tcc_emit_add(e, tcc_emit_div(e, warp, across), i32(e, j * (warps / across)));
        } else {
            int turns = across / warps; /* counts are powers of two */
            unit_k = tcc_emit_add(e, warp, i32(e, (int64_t)(j % turns) * warps));
            unit_o = i32(e, j / turns);
        }
        out->k = tcc_emit_add(e, tcc_emit_mul(e, unit_k, i32(e, in_unit)),
                              tcc_emit_mul(e, tcc_emit_rem(e, lane, in_row), i32(e, s->vector)));
        out->o = tcc_emit_add(e, tcc_emit_mul(e, unit_o, i32(e, 32 / in_row)), tcc_emit_div(e, lane, in_row));
        return;
    }
    LLVMValueRef column, line;
    if (p->threads % row == 0) {
        column = tcc_emit_rem(e, thread, row);
        line = tcc_emit_add(e, tcc_emit_div(e, thread, row), i32(e, j * (p->threads / row)));
    } else {
        column = tcc_emit_add(e, thread, i32(e, (int64_t)j * p->threads % row));
        line = i32(e, (int64_t)j * p->threads / row);
    }
    column = tcc_emit_mul(e, column, i32(e, s->vector));
    out->k = s->along_k ? column : line;
    out->o = s->along_k ? line : column;
}

/* What does not change along k. `o0`: the tile's first row; `extent`: how many rows there are. */
static void begin_side(tcc_emitter *e, const tcc_contract_gpu_plan *p, tcc_contract_reader *s, LLVMValueRef thread,
                       LLVMValueRef memory, LLVMValueRef batch, LLVMValueRef o0, int64_t extent) {
    place of_batch = place_of(e, s->p, &s->p->b, batch);
    for (int j = 0; j < s->p->slots; j++) {
        tcc_contract_slot *x = &s->slots[j];
        find_slot(e, p, s->p, thread, j, x);
        LLVMValueRef o = tcc_emit_add(e, o0, x->o);
        x->inside = extent % s->p->rows ? below(e, o, i32(e, extent)) : NULL;
        place of_row = place_of(e, s->p, &s->p->o, o);
        for (int f = 0; f < s->p->n_forms; f++) {
            x->row[f] = tcc_emit_add(e, of_batch.offset[f], of_row.offset[f]);
            if (s->prologue)
                x->row[f] = tcc_emit_add(e, x->row[f],
                                         s->p->wide ? tcc_emit_i64(e, s->p->begin[f]) : i32(e, s->p->begin[f]));
        }
        if (!s->prologue) x->base = element(e, s->p, memory, x->row[0]);
        for (int v = 0; s->p->windows && v < p->c.n_windows; v++)
            x->position[v] = tcc_emit_add(e, i32(e, p->c.windows[v].start),
                                          tcc_emit_add(e, of_batch.position[v], of_row.position[v]));
    }
}

/* Where access `slot` of the tile at k0 stands along k. *kept: k is below `end` and inside the windows, NULL where that
 * is surely so of all that is multiplied; *inside: that, and its row exists, and it is not of a tile behind the end. */
static place stand(tcc_emitter *e, const tcc_contract_gpu_plan *p, const tcc_contract_reader *s, int slot,
                   LLVMValueRef k0, LLVMValueRef end, LLVMValueRef *kept, LLVMValueRef *inside) {
    const tcc_contract_slot *x = &s->slots[slot];
    LLVMValueRef k = tcc_emit_add(e, k0, x->k), exists = below(e, k, end), windows = NULL;
    place of_k = place_of(e, s->p, &s->p->k, k);
    for (int v = 0; s->p->windows && v < p->c.n_windows; v++) {
        LLVMValueRef position = tcc_emit_add(e, x->position[v], of_k.position[v]);
        windows = both(e, windows, LLVMBuildICmp(e->builder, LLVMIntULT, position, i32(e, p->c.windows[v].extent), ""));
    }
    *kept = p->K % p->tile_k ? both(e, exists, windows) : windows;
    *inside = both(e, both(e, x->inside, exists), windows);
    return of_k;
}

LLVMValueRef tcc_contract_locate(tcc_emitter *e, const tcc_contract_gpu_plan *p, const tcc_contract_reader *s, int slot,
                                 LLVMValueRef k0, LLVMValueRef end, LLVMValueRef *inside) {
    LLVMValueRef kept;
    place of_k = stand(e, p, s, slot, k0, end, &kept, inside);
    return element(e, s->p, s->slots[slot].base, of_k.offset[0]);
}

void tcc_contract_read_tile(tcc_emitter *e, const tcc_contract_gpu_plan *p, const tcc_contract_reader *s,
                            LLVMValueRef k0, LLVMValueRef end, tcc_contract_pending *out) {
    for (int j = 0; j < s->p->slots; j++) {
        LLVMValueRef inside;
        out[j].exists = NULL;
        if (!s->prologue) {
            LLVMValueRef address = tcc_contract_locate(e, p, s, j, k0, end, &inside);
            out[j].raw[0] = tcc_emit_global_load(e, s->p->dtype, address, s->p->vector, inside);
            continue;
        }
        place of_k = stand(e, p, s, j, k0, end, &out[j].exists, &inside);
        for (int f = 0; f < s->p->n_forms; f++) {
            LLVMValueRef form = tcc_emit_add(e, s->slots[j].row[f], of_k.offset[f]);
            out[j].forms[f] = s->p->wide ? form : wide(e, form);
        }
        s->prologue->load(s->prologue->user, e, out[j].forms, inside, out[j].raw);
    }
}

LLVMValueRef tcc_contract_arrived(tcc_emitter *e, const tcc_contract_reader *s, const tcc_contract_pending *access) {
    if (!s->prologue) return tcc_emit_widen(e, s->p->dtype, access->raw[0]);
    LLVMValueRef value = s->prologue->value(s->prologue->user, e, access->forms, access->raw);
    return access->exists ? tcc_emit_select(e, access->exists, value, LLVMConstNull(LLVMTypeOf(value))) : value;
}

static void store_tile(tcc_emitter *e, const tcc_contract_gpu_plan *p, const tcc_contract_reader *s,
                       LLVMValueRef shared, const tcc_contract_pending *accesses) {
    for (int j = 0; j < s->p->slots; j++) {
        const tcc_contract_slot *x = &s->slots[j];
        LLVMValueRef address = at(e, p, shared, tcc_emit_add(e, tcc_emit_mul(e, x->k, i32(e, s->p->pitch)), x->o));
        LLVMValueRef value = tcc_contract_arrived(e, s, &accesses[j]);
        if (s->p->vector == 1 || !s->p->along_k) {
            tcc_emit_store(e, value, address, bytes_of(p, s->p->vector));
            continue;
        }
        for (int i = 0; i < p->piece; i++) {
            LLVMValueRef one = LLVMBuildExtractElement(e->builder, value, i32(e, i), "");
            tcc_emit_store(e, one, at(e, p, address, i32(e, (int64_t)i * s->p->pitch)), bytes_of(p, 1));
        }
    }
}

/* --- The register tile */

static void find_thread(tcc_emitter *e, tcc_contract_block *x) {
    x->thread = tcc_emit_thread(e);
    x->lane = tcc_emit_rem(e, x->thread, 32);
    LLVMValueRef warp = tcc_emit_div(e, x->thread, 32);
    x->warp_m = tcc_emit_div(e, warp, x->p->warps_n), x->warp_n = tcc_emit_rem(e, warp, x->p->warps_n);
    LLVMValueRef piece = i32(e, x->p->piece);
    x->lane_m = tcc_emit_mul(e, tcc_emit_div(e, x->lane, 8), piece),
    x->lane_n = tcc_emit_mul(e, tcc_emit_rem(e, x->lane, 8), piece);
}

/* sums[rows of squares * piece + row][columns of squares] += A B over the tile in shared memory. */
static void multiply(tcc_emitter *e, const tcc_contract_block *x, LLVMValueRef a, LLVMValueRef b, LLVMValueRef *sums) {
    const tcc_contract_gpu_plan *p = x->p;
    enum { MOST = 8 / 2 };
    const int piece = p->piece, high = p->thread_m / piece, across = p->thread_n / piece;
    LLVMTypeRef type = sums_type(e, p, piece);
    a = at(e, p, a, tcc_emit_add(e, tcc_emit_mul(e, x->warp_m, i32(e, p->warp_m)), x->lane_m));
    b = at(e, p, b, tcc_emit_add(e, tcc_emit_mul(e, x->warp_n, i32(e, p->warp_n)), x->lane_n));
    for (int k = 0; k < p->tile_k; k++) {
        LLVMValueRef rows[MOST], columns[MOST];
        for (int h = 0; h < high; h++)
            rows[h] = tcc_emit_load(e, type, at(e, p, a, i32(e, k * p->a.pitch + h * 4 * piece)), PIECE_BYTES);
        for (int c = 0; c < across; c++)
            columns[c] = tcc_emit_load(e, type, at(e, p, b, i32(e, k * p->b.pitch + c * 8 * piece)), PIECE_BYTES);
        for (int r = 0; r < p->thread_m; r++) {
            LLVMValueRef row =
                tcc_emit_splat(e, LLVMBuildExtractElement(e->builder, rows[r / piece], i32(e, r % piece), ""), piece);
            for (int c = 0; c < across; c++)
                sums[r * across + c] = tcc_emit_fma(e, row, columns[c], sums[r * across + c]);
        }
    }
}

/* The same over all tiles from `begin` to `end`: the next is on its way while one is multiplied. */
static void multiply_tiles(tcc_emitter *e, const tcc_contract_block *x, LLVMValueRef begin, LLVMValueRef end,
                           LLVMValueRef *sums) {
    const tcc_contract_gpu_plan *p = x->p;
    const int64_t buffer = (int64_t)p->tile_k * (p->a.pitch + p->b.pitch);
    const int n_sums = p->thread_m * p->thread_n / p->piece;
    LLVMValueRef shared_a = e->scratch, shared_b = at(e, p, shared_a, i32(e, (int64_t)p->tile_k * p->a.pitch));
    tcc_contract_pending now[TCC_CONTRACT_GPU_SLOTS], next_a[TCC_CONTRACT_GPU_SLOTS], next_b[TCC_CONTRACT_GPU_SLOTS];
    tcc_emit_loop tiles;
    tcc_contract_read_tile(e, p, &x->a, begin, end, now);
    store_tile(e, p, &x->a, shared_a, now);
    tcc_contract_read_tile(e, p, &x->b, begin, end, now);
    store_tile(e, p, &x->b, shared_b, now);
    tcc_emit_barrier(e);
    sums[n_sums] = i32(e, 0); /* the buffer at hand, in elements from the first */
    tcc_emit_loop_begin(e, &tiles, wide(e, begin), wide(e, end), p->tile_k, sums, n_sums + 1);
    LLVMValueRef here = tiles.carry[n_sums], other = LLVMBuildXor(e->builder, here, i32(e, buffer), "");
    LLVMValueRef next = tcc_emit_add(e, narrow(e, tiles.index), i32(e, p->tile_k));
    tcc_contract_read_tile(e, p, &x->a, next, end, next_a);
    tcc_contract_read_tile(e, p, &x->b, next, end, next_b);
    for (int i = 0; i < n_sums; i++) sums[i] = tiles.carry[i];
    multiply(e, x, at(e, p, shared_a, here), at(e, p, shared_b, here), sums);
    store_tile(e, p, &x->a, at(e, p, shared_a, other), next_a);
    store_tile(e, p, &x->b, at(e, p, shared_b, other), next_b);
    tcc_emit_barrier(e);
    sums[n_sums] = other;
    tcc_emit_loop_end(e, &tiles, sums);
    for (int i = 0; i < n_sums; i++) sums[i] = tiles.carry[i];
}

/* --- Finished tiles */

typedef struct finish {
    const tcc_contract_epilogue *epilogue;
    LLVMValueRef access[TCC_CONTRACT_MAX_ACCESSES]; /* params */
    LLVMValueRef batch_offset[TCC_CONTRACT_MAX_ACCESSES];
    int first_buffer;
} finish;

static LLVMValueRef output_offset(tcc_emitter *e, const tcc_contract_dims *l, LLVMValueRef index, int access) {
    LLVMValueRef indices[TCC_CONTRACT_MAX_DIMS];
    tcc_contract_split_index(e, l, index, indices);
    LLVMValueRef sum = tcc_emit_i64(e, 0);
    for (int i = 0; i < l->n; i++)
        if (l->d[i].c[access])
            sum = tcc_emit_add(e, sum, tcc_emit_mul(e, wide(e, indices[i]), tcc_emit_i64(e, l->d[i].c[access])));
    return sum;
}

static void enter_batch(tcc_emitter *e, const tcc_contract_gpu_plan *p, finish *f, LLVMValueRef batch) {
    for (int x = 0; x < p->c.n_accesses; x++)
        f->batch_offset[x] = tcc_emit_add(e, f->access[x], output_offset(e, &p->c.b, batch, x));
}

/* The epilogue of the vector at (m, n). */
static void finish_vector(tcc_emitter *e, const tcc_contract_gpu_plan *p, const finish *f, LLVMValueRef m,
                          LLVMValueRef n, LLVMValueRef sums) {
    tcc_contract_place place = {.n_accesses = p->c.n_accesses, .first_buffer = f->first_buffer};
    for (int x = 0; x < p->c.n_accesses; x++) {
        place.offset[x] = tcc_emit_add(e, f->batch_offset[x], output_offset(e, &p->c.m, m, x));
        place.offset[x] = tcc_emit_add(e, place.offset[x], output_offset(e, &p->c.n, n, x));
        place.lane_stride[x] = p->c.n.n ? p->c.n.d[p->c.n.n - 1].c[x] : 0;
    }
    const tcc_contract_epilogue *epilogue = f->epilogue;
    if (epilogue && epilogue->row) epilogue->row(epilogue->user, e, &place);
    if (epilogue && epilogue->vector) sums = epilogue->vector(epilogue->user, e, sums, &place);
    if (sums) {
        LLVMValueRef address = at(e, p, tcc_emit_buffer(e, f->first_buffer), place.offset[0]);
        for (int i = 0; i < p->vector; i++) {
            LLVMValueRef one = p->vector == 1 ? sums : LLVMBuildExtractElement(e->builder, sums, i32(e, i), "");
            tcc_emit_store(e, one, at(e, p, address, tcc_emit_i64(e, i * place.lane_stride[0])), bytes_of(p, 1));
        }
    }
    if (epilogue && epilogue->row_end) epilogue->row_end(epilogue->user, e);
}

/* Sums[part][i] of a strip of each warp, `part` known at run time alone. */
static LLVMValueRef sum_of(tcc_emitter *e, const LLVMValueRef *sums, int parts, int n, LLVMValueRef part, int i) {
    LLVMValueRef value = sums[i];
    for (int k = 1; k < parts; k++)
        value = tcc_emit_select(e, LLVMBuildICmp(e->builder, LLVMIntEQ, part, i32(e, k), ""), sums[k * n + i], value);
    return value;
}

/* A strip of each warp into shared memory, one below the other. */
static void put_rows(tcc_emitter *e, const tcc_contract_block *x, LLVMValueRef stage, LLVMValueRef part,
                     const LLVMValueRef *sums) {
    const tcc_contract_gpu_plan *p = x->p;
    int pitch = tcc_contract_gpu_pitch(p), strip = tcc_contract_gpu_strip(p), parts = p->warp_m / strip,
        n = p->warp_n / 8;
    bool exact = p->matrix == TCC_DTYPE_COUNT;
    LLVMValueRef row = exact ? x->lane_m : tcc_emit_div(e, x->lane, 4);
    LLVMValueRef column = exact ? x->lane_n : tcc_emit_mul(e, tcc_emit_rem(e, x->lane, 4), i32(e, 2));
    row = tcc_emit_add(e, tcc_emit_mul(e, x->warp_m, i32(e, strip)), row);
    column = tcc_emit_add(e, tcc_emit_mul(e, x->warp_n, i32(e, p->warp_n)), column);
    LLVMValueRef to = at(e, p, stage, tcc_emit_add(e, tcc_emit_mul(e, row, i32(e, pitch)), column));
    for (int i = 0; i < n; i++) {
        LLVMValueRef value = sum_of(e, sums, parts, n, part, i);
        if (exact) { /* sums[row][columns] */
            int across = p->thread_n / p->piece;
            tcc_emit_store(e, value, at(e, p, to, i32(e, i / across * pitch + i % across * 8 * p->piece)), PIECE_BYTES);
            continue;
        }
        for (int half = 0; half < 2; half++) {
            const int lanes[] = {2 * half, 2 * half + 1};
            tcc_emit_store(e, tcc_emit_shuffle(e, value, NULL, lanes, 2),
                           at(e, p, to, i32(e, 8 * half * pitch + 8 * i)), 8);
        }
    }
}

/* Sums pass through shared memory, a strip of each warp at a time, and leave it row by row. */
static void finish_tile(tcc_emitter *e, tcc_contract_block *x, const finish *f, LLVMValueRef workspace, LLVMValueRef m0,
                        LLVMValueRef n0, LLVMValueRef *sums) {
    const tcc_contract_gpu_plan *p = x->p;
    int pitch = tcc_contract_gpu_pitch(p), strip = tcc_contract_gpu_strip(p), rows = strip * p->warps_m;
    int vector = workspace ? p->piece : p->vector, row = p->tile_n / vector;
    LLVMValueRef stage = e->scratch;
    tcc_emit_loop squares, vectors;
    tcc_emit_barrier(e);
    find_thread(e, x);
    tcc_emit_loop_begin(e, &squares, tcc_emit_i64(e, 0), tcc_emit_i64(e, p->warp_m / strip), 1, NULL, 0);
    LLVMValueRef square = narrow(e, squares.index);
    put_rows(e, x, stage, square, sums);
    tcc_emit_barrier(e);
    tcc_emit_loop_begin(e, &vectors, wide(e, x->thread), tcc_emit_i64(e, (int64_t)rows * row), p->threads, NULL, 0);
    LLVMValueRef index = narrow(e, vectors.index), line = tcc_emit_div(e, index, row), column;
    if (p->threads % row == 0) column = tcc_emit_rem(e, x->thread, row); /* the same in every turn */
    else column = tcc_emit_rem(e, index, row);
    column = tcc_emit_mul(e, column, i32(e, vector));
    LLVMValueRef m = tcc_emit_mul(e, tcc_emit_div(e, line, strip), i32(e, p->warp_m));
    m = tcc_emit_add(e, tcc_emit_add(e, m, tcc_emit_rem(e, line, strip)), tcc_emit_mul(e, square, i32(e, strip)));
    m = tcc_emit_add(e, m0, m);
    LLVMValueRef n = tcc_emit_add(e, n0, column), inside = NULL;
    if (p->M % p->tile_m) inside = both(e, inside, below(e, m, i32(e, p->M)));
    if (p->N % p->tile_n) inside = both(e, inside, below(e, n, i32(e, p->N)));
    tcc_emit_if exists;
    if (inside) tcc_emit_if_begin(e, &exists, inside);
    LLVMValueRef from = at(e, p, stage, tcc_emit_add(e, tcc_emit_mul(e, line, i32(e, pitch)), column));
    LLVMValueRef value = tcc_emit_load(e, sums_type(e, p, vector), from, bytes_of(p, vector));
    if (workspace) {
        LLVMValueRef offset = tcc_emit_add(e, tcc_emit_mul(e, wide(e, m), tcc_emit_i64(e, p->n_padded)), wide(e, n));
        tcc_emit_store(e, value, at(e, p, workspace, offset), PIECE_BYTES);
    } else {
        finish_vector(e, p, f, m, n, value);
    }
    if (inside) tcc_emit_if_end(e, &exists);
    tcc_emit_loop_end(e, &vectors, NULL);
    tcc_emit_barrier(e);
    tcc_emit_loop_end(e, &squares, NULL);
}

/* --- The kernel */

/* Which tile an item is: a few rows of tiles together walk along n, so that what is read again is still in the cache.
 */
static void find_tile(tcc_emitter *e, const tcc_contract_gpu_plan *p, LLVMValueRef tile, LLVMValueRef *m,
                      LLVMValueRef *n) {
    enum { TOGETHER = 8 };
    if (p->m_tiles <= TOGETHER || p->n_tiles == 1) {
        *m = tcc_emit_rem(e, tile, p->m_tiles);
        *n = tcc_emit_div(e, tile, p->m_tiles);
        return;
    }
    int64_t width = TOGETHER * p->n_tiles;
    LLVMValueRef first = tcc_emit_mul(e, tcc_emit_div(e, tile, width), i32(e, TOGETHER)),
                 rest = tcc_emit_rem(e, tile, width);
    LLVMValueRef rows = tcc_emit_min(e, tcc_emit_sub(e, i32(e, p->m_tiles), first), i32(e, TOGETHER));
    *m = tcc_emit_add(e, first, LLVMBuildURem(e->builder, rest, rows, ""));
    *n = LLVMBuildUDiv(e->builder, rest, rows, "");
}

/* The start of an operand in memory, or NULL: it is computed, and its prologue has begun. `named`: 0 or 1, as the
 * caller named it. */
static LLVMValueRef begin_operand(tcc_emitter *e, tcc_contract_reader *s, int named) {
    if (!s->prologue)
        return tcc_emit_at(e, tcc_emit_dtype(e, s->p->dtype), tcc_emit_buffer(e, s->p->first_buffer),
                           tcc_emit_param(e, named));
    s->prologue->begin(s->prologue->user, e, s->p, s->p->first_buffer);
    return NULL;
}

void tcc_contract_gpu_emit(tcc_emitter *e, const char *symbol, const tcc_contract_gpu_plan *p,
                           const tcc_contract_prologue *const *prologues, const tcc_contract_epilogue *epilogue) {
    bool split = p->k_splits > 1;
    const int named_a = p->swapped, named_b = !p->swapped;
    tcc_contract_block x = {
        .p = p, .a = {.p = &p->a, .prologue = prologues[named_a]}, .b = {.p = &p->b, .prologue = prologues[named_b]}};
    finish f = {.epilogue = split ? NULL : epilogue, .first_buffer = p->first_access};
    tcc_emit_kernel_begin(e, symbol);
    LLVMValueRef a = begin_operand(e, &x.a, named_a);
    LLVMValueRef b = begin_operand(e, &x.b, named_b);
    for (int i = 0; i < p->c.n_accesses && !split; i++) f.access[i] = tcc_emit_param(e, 2 + i);
    if (f.epilogue && f.epilogue->begin) f.epilogue->begin(f.epilogue->user, e, f.first_buffer);

    tcc_emit_loop items;
    tcc_emit_items_begin(e, &items);
    LLVMValueRef item = narrow(e, items.index), m_tile, n_tile;
    LLVMValueRef tile = tcc_emit_rem(e, item, p->m_tiles * p->n_tiles),
                 rest = tcc_emit_div(e, item, p->m_tiles * p->n_tiles);
    LLVMValueRef batch = tcc_emit_rem(e, rest, p->B), part = tcc_emit_div(e, rest, p->B);
    find_tile(e, p, tile, &m_tile, &n_tile);
    find_thread(e, &x);
    LLVMValueRef m0 = tcc_emit_mul(e, m_tile, i32(e, p->tile_m)), n0 = tcc_emit_mul(e, n_tile, i32(e, p->tile_n));
    begin_side(e, p, &x.a, x.thread, a, batch, m0, p->M);
    begin_side(e, p, &x.b, x.thread, b, batch, n0, p->N);

    LLVMValueRef sums[TCC_CONTRACT_GPU_SUMS + 4];
    int n_sums = p->warp_m * p->warp_n / (32 * p->piece);
    for (int i = 0; i < n_sums; i++) sums[i] = LLVMConstNull(sums_type(e, p, p->piece));
    if (p->K) {
        LLVMValueRef begin = i32(e, 0), end = i32(e, p->K);
        if (split) {
            begin = tcc_emit_mul(e, part, i32(e, p->k_per_split));
            end = tcc_emit_min(e, tcc_emit_add(e, begin, i32(e, p->k_per_split)), end);
        }
        if (p->matrix == TCC_DTYPE_COUNT) multiply_tiles(e, &x, begin, end, sums);
        else tcc_contract_mma(e, &x, begin, end, sums);
    }
    LLVMValueRef workspace = NULL;
    if (split) {
        LLVMValueRef before = tcc_emit_add(e, tcc_emit_mul(e, wide(e, part), tcc_emit_i64(e, p->B)), wide(e, batch));
        workspace = at(e, p, tcc_emit_buffer(e, p->first_access),
                       tcc_emit_mul(e, before, tcc_emit_i64(e, p->M * p->n_padded)));
    } else {
        enter_batch(e, p, &f, batch);
    }
    finish_tile(e, &x, &f, workspace, m0, n0, sums);
    tcc_emit_loop_end(e, &items, NULL);
    const tcc_contract_reader *const readers[] = {&x.a, &x.b};
    for (int i = 0; i < 2; i++)
        if (readers[i]->prologue) readers[i]->prologue->end(readers[i]->prologue->user);
    if (f.epilogue && f.epilogue->end) f.epilogue->end(f.epilogue->user, e);
    tcc_emit_kernel_end(e);
}

void tcc_contract_gpu_emit_combine(tcc_emitter *e, const char *symbol, const tcc_contract_gpu_plan *p,
                                   const tcc_contract_epilogue *epilogue) {
    finish f = {.epilogue = epilogue, .first_buffer = 1};
    tcc_emit_kernel_begin(e, symbol);
    LLVMValueRef workspace = tcc_emit_buffer(e, 0);
    for (int i = 0; i < p->c.n_accesses; i++) f.access[i] = tcc_emit_param(e, i);
    if (epilogue && epilogue->begin) epilogue->begin(epilogue->user, e, 1);
    int64_t row = (p->N + p->vector - 1) / p->vector, vectors = p->B * p->M * row;
    tcc_emit_loop items, splits;
    tcc_emit_if exists;
    tcc_emit_items_begin(e, &items);
    LLVMValueRef index = tcc_emit_add(e, tcc_emit_mul(e, items.index, tcc_emit_i64(e, p->combine_threads)),
                                      wide(e, tcc_emit_thread(e)));
    tcc_emit_if_begin(e, &exists, below(e, index, tcc_emit_i64(e, vectors)));
    LLVMValueRef line = tcc_emit_div(e, index, row),
                 column = tcc_emit_mul(e, tcc_emit_rem(e, index, row), tcc_emit_i64(e, p->vector));
    LLVMValueRef from = at(e, p, workspace,
                           tcc_emit_add(e, tcc_emit_mul(e, line, tcc_emit_i64(e, p->n_padded)), column));
    LLVMTypeRef type = sums_type(e, p, p->vector);
    LLVMValueRef sum = tcc_emit_load(e, type, from, bytes_of(p, p->vector));
    tcc_emit_loop_begin(e, &splits, tcc_emit_i64(e, 1), tcc_emit_i64(e, p->k_splits), 1, &sum, 1);
    LLVMValueRef next = at(e, p, from, tcc_emit_mul(e, splits.index, tcc_emit_i64(e, p->B * p->M * p->n_padded)));
    sum = LLVMBuildFAdd(e->builder, splits.carry[0], tcc_emit_load(e, type, next, bytes_of(p, p->vector)), "");
    tcc_emit_loop_end(e, &splits, &sum);
    enter_batch(e, p, &f, narrow(e, tcc_emit_div(e, line, p->M)));
    finish_vector(e, p, &f, narrow(e, tcc_emit_rem(e, line, p->M)), narrow(e, column), splits.carry[0]);
    tcc_emit_if_end(e, &exists);
    tcc_emit_loop_end(e, &items, NULL);
    if (epilogue && epilogue->end) epilogue->end(epilogue->user, e);
    tcc_emit_kernel_end(e);
}
