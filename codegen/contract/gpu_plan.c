/* SPDX-License-Identifier: MIT
 * Planning a contraction for CUDA: normal form, how operands are read, tiles, split of k. */
#include "codegen/contract/gpu.h"

#include "codegen/contract/internal.h"
#include "codegen/emit/warp.h"
#include "ir/support/integers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    USUAL_REGISTERS = 128, /* of a thread whose tile is f32: so many threads keep a processor busy as have them */
    MOST_SPLITS = 512,
    LEAST_SPLIT_K = 128,
    COMBINE_THREADS = 128,
    CHUNK = 16,       /* bytes of the widest access */
    MATRIX_LINE = 64, /* bytes of k in a tile of tensor cores */
    MATRIX_STAGES = 3,
    HELD = 16,       /* most registers that reads in flight for it may take beside the usual ones */
    COMPUTING = 128, /* most threads of such a block: more would have too few registers each */
};

/* --- Normal form */

static bool has_contiguous(const tcc_contract_dims *l) {
    for (int i = 0; i < l->n; i++)
        if (l->d[i].c[0] == 1) return true;
    return false;
}

static tcc_status normalize(tcc_contract_gpu_plan *p, tcc_params *params) {
    tcc_contract *c = &p->c;
    tcc_contract_dims *lists[] = {&c->b, &c->m, &c->n, &c->k};
    for (int i = 0; i < 3; i++) tcc_contract_drop_ones(lists[i], false);
    if (has_contiguous(&c->m) && !has_contiguous(&c->n)) {
        p->swapped = true;
        tcc_contract_dims m = c->m;
        c->m = c->n;
        c->n = m;
        c->window_b = !c->window_b;
        for (int i = 0; i < 4; i++) tcc_contract_swap_operands(lists[i]);
    }
    for (int i = 0; i < 3; i++) tcc_contract_sort(lists[i], TCC_CONTRACT_BY_OUTPUT);
    return tcc_contract_settle_k(&c->k, 0, TCC_PARAM_SPLIT_K, params);
}

static void make_map(const tcc_contract_side *s, const tcc_contract_dims *l, int operand, tcc_contract_index_map *w) {
    *w = (tcc_contract_index_map){0};
    for (int i = 0; i < l->n; i++) {
        const tcc_contract_dim *d = &l->d[i];
        int64_t of_memory = operand == TCC_OPERAND_A ? d->a : d->b;
        const int64_t *strides = s->computed ? d->f[operand == TCC_OPERAND_B] : &of_memory;
        bool merged = w->n > 0;
        for (int f = 0; f < s->n_forms; f++) merged = merged && w->stride[w->n - 1][f] == strides[f] * d->extent;
        for (int v = 0; v < TCC_CONTRACT_MAX_WINDOWS; v++)
            merged = merged && (!s->windows || w->w[w->n - 1][v] == d->w[v] * d->extent);
        int at = merged ? w->n - 1 : w->n++;
        w->extent[at] = (merged ? w->extent[at] : 1) * d->extent;
        for (int f = 0; f < s->n_forms; f++) w->stride[at][f] = strides[f];
        for (int v = 0; v < TCC_CONTRACT_MAX_WINDOWS; v++) w->w[at][v] = s->windows ? d->w[v] : 0;
    }
}

/* Neighbours that are one loop for all accesses become one; operands have index maps of their own by now. */
static void merge_outputs(tcc_contract_dims *l, int n_accesses) {
    for (int i = l->n - 2; i >= 0; i--) {
        tcc_contract_dim *outer = &l->d[i], *inner = &l->d[i + 1];
        bool same = true;
        for (int x = 0; x < n_accesses; x++) same = same && outer->c[x] == inner->c[x] * inner->extent;
        if (!same) continue;
        inner->extent *= outer->extent;
        memmove(outer, inner, sizeof *outer * (size_t)(l->n - i - 1));
        l->n--;
    }
}

/* --- Operands */

/* What the plan knows of reads of an operand: one of form 0 in memory. */
typedef struct reads {
    const tcc_contract_computed *computed; /* NULL: in memory */
    bool aligned;                          /* in memory */
} reads;

/* Whether all strides of a form but that along the vectors are multiples of one. */
static bool apart_by(const tcc_contract_side *s, int form, bool along_k, int vector) {
    const tcc_contract_index_map *maps[] = {&s->b, &s->o, &s->k}, *inner = along_k ? &s->k : &s->o;
    for (int l = 0; l < 3; l++)
        for (int i = 0; i < maps[l]->n; i++)
            if (!(maps[l] == inner && i == inner->n - 1) && maps[l]->stride[i][form] % vector) return false;
    return true;
}

/* Whether accesses of `vector` elements can read the operand along k, else along o: each read has them together, or one
 * element for all. */
static bool vectors_along(const tcc_contract_side *s, const reads *r, int vector, bool along_k) {
    const tcc_contract_index_map *inner = along_k ? &s->k : &s->o;
    const int last = inner->n - 1, n = r->computed ? r->computed->n_loads : 1;
    bool any = false;
    if (last < 0 || inner->extent[last] % vector) return false;
    for (int v = 0; v < TCC_CONTRACT_MAX_WINDOWS; v++)
        if (inner->w[last][v]) return false;
    for (int i = 0; i < n; i++) {
        const tcc_contract_read *read = r->computed ? &r->computed->loads[i] : NULL;
        const int form = read ? read->form : 0;
        bool aligned = read ? (r->computed->begin[form] + read->constant) % vector == 0 : r->aligned;
        if (inner->stride[last][form] == 0 && read) continue;
        if (inner->stride[last][form] != 1 || !aligned || !apart_by(s, form, along_k, vector)) return false;
        any = true;
    }
    return any;
}

static bool find_vectors(const tcc_contract_side *s, const reads *r, int vector, bool *along_k) {
    for (int pass = 0; pass < 2; pass++) {
        *along_k = pass == 1;
        if (vectors_along(s, r, vector, *along_k)) return true;
    }
    return false;
}

static int64_t reach(const tcc_contract_index_map *w, int form) {
    int64_t most = 0;
    for (int i = 0; i < w->n; i++) most += llabs(w->stride[i][form]) * (w->extent[i] - 1);
    return most;
}

static int64_t inner_stride(const tcc_contract_index_map *w) {
    return w->n ? llabs(w->stride[w->n - 1][0]) : INT64_MAX;
}

static reads reads_of(const tcc_contract_gpu_operands *operands, int operand) {
    return (reads){operands->computed[operand], operands->aligned[operand]};
}

static void plan_side(tcc_contract_side *s, const tcc_contract_gpu_plan *p, const tcc_contract_dims *outer, int operand,
                      const tcc_contract_gpu_operands *operands, int named, int64_t most_narrow) {
    const tcc_contract *c = &p->c;
    const reads r = reads_of(operands, named);
    s->windows = c->n_windows > 0 && c->window_b == (operand == TCC_OPERAND_B);
    s->dtype = operands->dtype[named];
    s->computed = r.computed != NULL;
    s->n_forms = r.computed ? r.computed->n_forms : 1;
    if (r.computed) memcpy(s->begin, r.computed->begin, sizeof s->begin);
    make_map(s, &c->b, operand, &s->b);
    make_map(s, outer, operand, &s->o);
    make_map(s, &c->k, operand, &s->k);
    bool along_k;
    s->vector = find_vectors(s, &r, p->chunk, &along_k) ? p->chunk : 1;
    s->along_k = s->vector > 1 ? along_k : inner_stride(&s->k) < inner_stride(&s->o);
    for (int f = 0; f < s->n_forms; f++)
        s->wide = s->wide || reach(&s->b, f) + reach(&s->o, f) + reach(&s->k, f) > most_narrow / 8;
}

/* How forms move within an access, and what they are multiples of. */
static void plan_forms(tcc_contract_side *s) {
    const tcc_contract_index_map *maps[] = {&s->b, &s->o, &s->k}, *inner = s->along_k ? &s->k : &s->o;
    for (int f = 0; f < s->n_forms; f++) {
        int64_t bits = 16 | s->begin[f];
        for (int l = 0; l < 3; l++)
            for (int i = 0; i < maps[l]->n; i++) {
                bool along = s->vector > 1 && maps[l] == inner && i == inner->n - 1;
                if (along) s->step[f] = maps[l]->stride[i][f];
                bits |= maps[l]->stride[i][f] * (along ? s->vector : 1);
            }
        s->multiple[f] = bits & -bits;
    }
}

/* Whether tensor cores can multiply the operands: 16 bytes at once. Sets their vectors. */
static bool plan_matrix(tcc_contract_gpu_plan *p, const tcc_llvm_target *target,
                        const tcc_contract_gpu_operands *operands) {
    tcc_contract_side *sides[] = {&p->a, &p->b};
    bool along_k[2];
    p->matrix = TCC_DTYPE_COUNT;
    if (!tcc_llvm_has_matrix(target) || p->sum != TCC_F32) return false;
    if (p->a.dtype != p->b.dtype || (p->a.dtype == TCC_F32 && !operands->tf32)) return false;
    int vector = 16 / (int)tcc_dtype_bytes(p->a.dtype);
    for (int i = 0; i < 2; i++) {
        const reads r = reads_of(operands, p->swapped ? 1 - i : i);
        if (!find_vectors(sides[i], &r, vector, &along_k[i])) return false;
    }
    for (int i = 0; i < 2; i++) sides[i]->vector = vector, sides[i]->along_k = along_k[i];
    p->matrix = p->a.dtype;
    p->a.rounds = p->b.rounds = p->matrix != TCC_F32;
    return true;
}

/* --- Tiles */

typedef struct tile {
    int warp_m, warp_n, warps_m, warps_n, tile_k;
    double efficiency; /* of the multiply-adds, when the processor is full */
} tile;

/* Sides of tiles are powers of two, and at most as long as a block has threads: a turn of the block is whole rows. */
static const tile exact_tiles[] = {
    {32, 64, 4, 2, 8, 1.0},   /* 128 x 128 */
    {32, 64, 4, 1, 8, 0.97},  /* 128 x 64 */
    {32, 64, 2, 2, 8, 0.97},  /* 64 x 128 */
    {32, 32, 2, 2, 16, 0.85}, /* 64 x 64 */
    {16, 32, 2, 2, 16, 0.6},  /* 32 x 64 */
    {16, 32, 4, 1, 16, 0.6},  /* 64 x 32 */
    {16, 32, 2, 1, 16, 0.5},  /* 32 x 32 */
};
/* Lines of k are 64 bytes: tile_k is set from the type. */
static const tile matrix_tiles[] = {
    {64, 32, 2, 4, 0, 1.0},  /* 128 x 128 */
    {64, 32, 2, 2, 0, 0.9},  /* 128 x 64 */
    {64, 32, 1, 4, 0, 0.9},  /* 64 x 128 */
    {32, 32, 2, 2, 0, 0.75}, /* 64 x 64 */
};

/* Threads that keep a processor busy, and that it has registers for. */
static int resident(const tcc_hardware *hw, const tcc_contract_gpu_plan *p) {
    return tcc_hardware_threads(hw, p->sum == TCC_F64 ? 2 * USUAL_REGISTERS : USUAL_REGISTERS);
}

static void set_tile(const tcc_hardware *hw, tcc_contract_gpu_plan *p, const tile *t) {
    p->thread_m = t->warp_m / 4, p->thread_n = t->warp_n / 8;
    p->warp_m = t->warp_m, p->warp_n = t->warp_n;
    p->warps_m = t->warps_m, p->warps_n = t->warps_n;
    p->tile_m = t->warp_m * t->warps_m, p->tile_n = t->warp_n * t->warps_n;
    p->tile_k = t->tile_k ? t->tile_k : MATRIX_LINE / (int)tcc_dtype_bytes(p->matrix);
    p->threads = 32 * t->warps_m * t->warps_n;
    if (p->sum == TCC_F64) p->blocks = resident(hw, p) / p->threads;
    else p->blocks = p->threads >= 256 ? 2 : p->threads >= 128 ? 3 : 4;
    p->m_tiles = tcc_ceil_div(p->M, p->tile_m), p->n_tiles = tcc_ceil_div(p->N, p->tile_n);
}

/* Cycles, about: blocks dealt to processors, each with the multiply-adds that so many threads reach; the second launch.
 */
static double cost_of(const tcc_llvm_target *target, const tcc_contract_gpu_plan *p, double efficiency) {
    const tcc_hardware *hw = &target->hw;
    const tcc_costs *costs = &target->costs;
    double rate = p->sum == TCC_F64              ? hw->fma_f64
                  : p->matrix == TCC_DTYPE_COUNT ? hw->fma_f32
                  : p->matrix == TCC_F32         ? hw->fma_tf32
                                                 : hw->fma_f16;
    double busiest = resident(hw, p), most = fmax(1, floor(busiest / p->threads));
    double blocks = (double)(p->m_tiles * p->n_tiles * p->B * p->k_splits);
    double work = (double)p->tile_m * p->tile_n * ((double)p->k_per_split + 3 * p->tile_k) / (rate * efficiency);
    work += (double)((p->a.computed ? p->tile_m : 0) + (p->b.computed ? p->tile_n : 0)) * (double)p->k_per_split *
            costs->operand_instructions / hw->fma_f32;
    double turns = ceil(blocks / hw->processors), together = fmin(most, turns),
           busy = costs->idle_rate + (1 - costs->idle_rate) * fmin(1, together * p->threads / busiest);
    double cycles = turns * work / busy + costs->block_cycles;
    if (p->k_splits > 1)
        cycles += costs->combine_cycles + 2.0 * (double)tcc_dtype_bytes(p->sum) * (double)(p->k_splits * p->B * p->M) *
                                              (double)p->n_padded /
                                              (costs->combine_reached * hw->bytes_per_s / hw->clock_hz);
    return cycles;
}

static const tile *tiles_of(const tcc_contract_gpu_plan *p, size_t *n) {
    const bool exact = p->matrix == TCC_DTYPE_COUNT;
    *n = exact ? sizeof exact_tiles / sizeof *exact_tiles : sizeof matrix_tiles / sizeof *matrix_tiles;
    return exact ? exact_tiles : matrix_tiles;
}

/* Too few registers for operands that are computed. */
static bool is_too_large(const tcc_contract_gpu_plan *p) {
    return (p->a.computed || p->b.computed) && p->threads > COMPUTING;
}

static int64_t sum_of(const tcc_contract_gpu_plan *p) { return p->K ? p->K : 1; }

static void decide(const tcc_llvm_target *target, tcc_contract_gpu_plan *p) {
    size_t n;
    const tile *tiles = tiles_of(p, &n);
    double best = INFINITY;
    tcc_contract_gpu_plan trial = *p;
    for (size_t i = 0; i < n; i++) {
        set_tile(&target->hw, &trial, &tiles[i]);
        if (is_too_large(&trial)) continue;
        for (int64_t splits = 1; splits <= MOST_SPLITS && (splits == 1 || p->K / splits >= LEAST_SPLIT_K);
             splits += (splits + 1) / 2) {
            trial.k_per_split = tcc_round_up(tcc_ceil_div(sum_of(p), splits), trial.tile_k);
            trial.k_splits = tcc_ceil_div(sum_of(p), trial.k_per_split);
            double cost = cost_of(target, &trial, tiles[i].efficiency);
            if (cost < best * 0.999) best = cost, *p = trial;
        }
    }
}

static tcc_status refuse_tile(const tcc_contract_gpu_plan *p, const tcc_params *params, int tile_m, int tile_n) {
    size_t n;
    const tile *tiles = tiles_of(p, &n);
    tcc_strbuf right = {0};
    for (size_t i = 0; i < n; i++)
        tcc_strbuf_printf(&right, "%s%d x %d", i ? ", " : "", tiles[i].warp_m * tiles[i].warps_m,
                          tiles[i].warp_n * tiles[i].warps_n);
    tcc_status status =
        right.failed
            ? tcc_enomem(params->diag)
            : tcc_params_refuse(
                  params, TCC_PARAM_TILE_M, tile_m, "with tile_n=%d there is none; tiles are %s%s", tile_n, right.text,
                  p->a.computed || p->b.computed ? ", of which computed operands have the smaller ones" : "");
    tcc_strbuf_free(&right);
    return status;
}

static tcc_status settle(const tcc_hardware *hw, tcc_contract_gpu_plan *p, tcc_params *params) {
    enum { MOST_TILE = 128 };
    const tcc_param_range sides = tcc_param_powers(1, MOST_TILE);
    size_t n, i = 0;
    const tile *tiles = tiles_of(p, &n);
    int tile_m = p->tile_m, tile_n = p->tile_n;
    TCC_TRY(tcc_params_settle_int(params, TCC_PARAM_TILE_M, sides, &tile_m));
    TCC_TRY(tcc_params_settle_int(params, TCC_PARAM_TILE_N, sides, &tile_n));
    while (i < n && (tiles[i].warp_m * tiles[i].warps_m != tile_m || tiles[i].warp_n * tiles[i].warps_n != tile_n)) i++;
    if (i < n) set_tile(hw, p, &tiles[i]);
    if (i == n || is_too_large(p)) return refuse_tile(p, params, tile_m, tile_n);
    const tcc_param_range splits = tcc_param_multiples(p->tile_k, p->tile_k, tcc_round_up(sum_of(p), p->tile_k));
    TCC_TRY(tcc_params_settle(params, TCC_PARAM_SPLIT_K, splits, &p->k_per_split));
    p->k_splits = tcc_ceil_div(sum_of(p), p->k_per_split);
    return TCC_OK;
}

tcc_status tcc_contract_gpu_make_plan(const tcc_llvm_target *target, const tcc_contract *c,
                                      const tcc_contract_gpu_operands *operands, tcc_params *params, tcc_diag *diag,
                                      tcc_contract_gpu_plan *p) {
    const int bytes = (int)tcc_dtype_bytes(operands->sum);
    memset(p, 0, sizeof *p); /* a literal of its size would be a copy on the stack */
    p->c = *c, p->sum = operands->sum, p->chunk = CHUNK / bytes;
    TCC_TRY(normalize(p, params));
    p->M = tcc_contract_extent(&p->c.m), p->N = tcc_contract_extent(&p->c.n);
    p->K = tcc_contract_extent(&p->c.k), p->B = tcc_contract_extent(&p->c.b);
    const int64_t extents[] = {p->M, p->N, p->K, p->B};
    for (int i = 0; i < 4; i++)
        if (extents[i] > INT32_MAX / 2)
            return tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "a contraction of extent %lld; the most is 2^30",
                             (long long)extents[i]);
    int a = p->swapped, b = !p->swapped;
    plan_side(&p->a, p, &p->c.m, TCC_OPERAND_A, operands, a, target->most_narrow);
    plan_side(&p->b, p, &p->c.n, TCC_OPERAND_B, operands, b, target->most_narrow);
    const int buffers[] = {operands->computed[0] ? operands->n_buffers[0] : 1,
                           operands->computed[1] ? operands->n_buffers[1] : 1};
    p->a.first_buffer = a ? buffers[0] : 0, p->b.first_buffer = b ? buffers[0] : 0;
    p->first_access = buffers[0] + buffers[1];
    bool matrix = plan_matrix(p, target, operands);
    p->n_padded = tcc_round_up(p->N, p->chunk);
    if (tcc_params_decides(params)) decide(target, p);
    TCC_TRY(settle(&target->hw, p, params));
    p->a.rows = p->tile_m, p->b.rows = p->tile_n;
    tcc_contract_side *sides[] = {&p->a, &p->b};
    int held = 0; /* registers, about, while a tile is multiplied */
    for (int i = 0; i < 2; i++) {
        sides[i]->slots = sides[i]->rows * p->tile_k / sides[i]->vector / p->threads;
        sides[i]->pitch = sides[i]->rows + 4; /* so that neither rows nor columns meet in a bank */
        plan_forms(sides[i]);
        if (operands->computed[p->swapped ? 1 - i : i])
            held += sides[i]->slots *
                    (sides[i]->vector * operands->computed[p->swapped ? 1 - i : i]->n_loads + 2 * sides[i]->n_forms);
    }
    if (held > HELD) p->blocks = tcc_hardware_threads(&target->hw, target->hw.registers_per_thread + 1) / p->threads;
    /* The epilogue's vectors lie in the last n dimension. */
    merge_outputs(&p->c.n, p->c.n_accesses);
    p->vector = p->c.n.n && p->c.n.d[p->c.n.n - 1].extent % p->chunk == 0 && p->c.n.d[p->c.n.n - 1].c[0] == 1 ? p->chunk
                                                                                                              : 1;
    merge_outputs(&p->c.m, p->c.n_accesses);
    merge_outputs(&p->c.b, p->c.n_accesses);

    p->items = p->k_splits * p->B * p->m_tiles * p->n_tiles;
    int64_t tiles = 2 * bytes * p->tile_k * (int64_t)(p->a.pitch + p->b.pitch);
    int64_t stage = bytes * tcc_contract_gpu_strip(p) * p->warps_m * (int64_t)tcc_contract_gpu_pitch(p);
    if (matrix) {
        p->stages = MATRIX_STAGES;
        tiles = (int64_t)p->stages * MATRIX_LINE * (p->tile_m + p->tile_n);
    }
    p->scratch_bytes = tiles > stage ? tiles : stage;
    if (p->k_splits > 1) {
        p->workspace_bytes = bytes * p->k_splits * p->B * p->M * p->n_padded;
        p->combine_threads = COMBINE_THREADS;
        p->combine_items = tcc_ceil_div(p->B * p->M * tcc_ceil_div(p->N, p->vector), COMBINE_THREADS);
    }
    p->flop = 2.0 * (double)p->B * (double)p->M * (double)p->N * (double)p->K;
    double a_bytes = (double)tcc_dtype_bytes(p->a.dtype) * (double)p->M,
           b_bytes = (double)tcc_dtype_bytes(p->b.dtype) * (double)p->N;
    p->bytes = (double)p->B * ((a_bytes + b_bytes) * (double)p->K + bytes * (double)p->M * (double)p->N);
    return TCC_OK;
}

int64_t tcc_contract_gpu_multiple(const tcc_contract_gpu_plan *p, int access, int64_t begin) {
    const tcc_contract_dims *lists[] = {&p->c.b, &p->c.m, &p->c.n};
    int64_t bits = 16 | begin;
    for (int i = 0; i < 3; i++)
        for (int d = 0; d < lists[i]->n; d++)
            bits |= lists[i]->d[d].c[access] * (i == 2 && d == lists[i]->n - 1 ? p->vector : 1);
    return bits & -bits;
}

int tcc_contract_gpu_pitch(const tcc_contract_gpu_plan *p) {
    return p->tile_n + (p->matrix == TCC_DTYPE_COUNT ? 4 : 8);
}

int tcc_contract_gpu_strip(const tcc_contract_gpu_plan *p) { return p->matrix == TCC_DTYPE_COUNT ? 4 * p->chunk : 16; }

static void print_map(tcc_strbuf *out, const char *name, const tcc_contract_side *s, const tcc_contract_index_map *w) {
    tcc_strbuf_printf(out, " %s", name);
    for (int i = 0; i < w->n; i++) {
        tcc_strbuf_printf(out, "(%lld", (long long)w->extent[i]);
        for (int f = 0; f < s->n_forms; f++) tcc_strbuf_printf(out, ":%lld", (long long)w->stride[i][f]);
        for (int v = 0; v < TCC_CONTRACT_MAX_WINDOWS; v++)
            if (w->w[i][v]) tcc_strbuf_printf(out, " w%d=%lld", v, (long long)w->w[i][v]);
        tcc_strbuf_add(out, ")");
    }
}

static void print_side(tcc_strbuf *out, const char *name, const tcc_contract_side *s) {
    tcc_strbuf_printf(out, " %s %s%s%s", name, tcc_dtype_text(s->dtype), s->vector > 1 ? " vectors" : "",
                      s->along_k ? " along k" : "");
    print_map(out, "b", s, &s->b);
    print_map(out, "o", s, &s->o);
    print_map(out, "k", s, &s->k);
    for (int f = 0; s->computed && f < s->n_forms; f++)
        tcc_strbuf_printf(out, "%s%lld", f ? "," : " from ", (long long)s->begin[f]);
}

static void print_outputs(tcc_strbuf *out, const char *name, const tcc_contract_dims *l, int n_accesses) {
    tcc_strbuf_printf(out, " %s", name);
    for (int i = 0; i < l->n; i++) {
        tcc_strbuf_printf(out, "(%lld:", (long long)l->d[i].extent);
        for (int x = 0; x < n_accesses; x++) tcc_strbuf_printf(out, "%s%lld", x ? "," : "", (long long)l->d[i].c[x]);
        tcc_strbuf_add(out, ")");
    }
}

void tcc_contract_gpu_key(const tcc_contract_gpu_plan *p, tcc_strbuf *out) {
    tcc_strbuf_printf(out, "contract gpu %s%s", tcc_dtype_text(p->sum), p->swapped ? " swapped" : "");
    print_side(out, "A", &p->a);
    print_side(out, "B", &p->b);
    print_outputs(out, "b", &p->c.b, p->c.n_accesses);
    print_outputs(out, "m", &p->c.m, p->c.n_accesses);
    print_outputs(out, "n", &p->c.n, p->c.n_accesses);
    for (int v = 0; v < p->c.n_windows; v++)
        tcc_strbuf_printf(out, " window %lld+%lld", (long long)p->c.windows[v].start,
                          (long long)p->c.windows[v].extent);
    tcc_strbuf_printf(out, "%s tile %dx%dx%d warp %dx%d split %lld", p->matrix == TCC_DTYPE_COUNT ? "" : " matrix",
                      p->tile_m, p->tile_n, p->tile_k, p->warp_m, p->warp_n, (long long)p->k_per_split);
}
