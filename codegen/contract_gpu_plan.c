/* SPDX-License-Identifier: MIT
 * Planning a contraction for CUDA: normal form, how operands are read, tiles, split of k. */
#include "codegen/contract_gpu.h"

#include "codegen/contract_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROCESSORS = 132,     /* of the device that plans are made for; others run the same plan */
    RESIDENT = 512,       /* threads that keep a processor busy */
    MOST_SPLITS = 64,
    LEAST_SPLIT_K = 128,
    COMBINE_THREADS = 128,
};

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

static int64_t stride_of(const tcc_contract_dim *d, int operand) { return operand == TCC_OPERAND_A ? d->a : d->b; }

/* --- Normal form */

static bool has_contiguous(const tcc_contract_dims *l) {
    for (int i = 0; i < l->n; i++)
        if (l->d[i].c[0] == 1) return true;
    return false;
}

static void normalize(tcc_contract_gpu_plan *p) {
    tcc_contract *c = &p->c;
    tcc_contract_dims *lists[] = {&c->b, &c->m, &c->n, &c->k};
    for (int i = 0; i < 4; i++) tcc_contract_drop_ones(lists[i], false);
    if (has_contiguous(&c->m) && !has_contiguous(&c->n)) {
        p->swapped = true;
        tcc_contract_dims m = c->m;
        c->m = c->n;
        c->n = m;
        c->window_b = !c->window_b;
        for (int i = 0; i < 4; i++) tcc_contract_swap_operands(lists[i]);
    }
    for (int i = 0; i < 3; i++) tcc_contract_sort(lists[i], TCC_CONTRACT_BY_OUTPUT);
    tcc_contract_sort(&c->k, tcc_contract_order_of_k(&c->k));
}

static void make_walk(tcc_contract_walk *w, const tcc_contract_dims *l, int operand, bool windows) {
    *w = (tcc_contract_walk){0};
    for (int i = 0; i < l->n; i++) {
        int64_t stride = stride_of(&l->d[i], operand);
        bool merged = w->n > 0 && w->stride[w->n - 1] == stride * l->d[i].extent;
        for (int v = 0; v < TCC_CONTRACT_MAX_WINDOWS; v++)
            merged = merged && (!windows || w->w[w->n - 1][v] == l->d[i].w[v] * l->d[i].extent);
        int at = merged ? w->n - 1 : w->n++;
        w->extent[at] = (merged ? w->extent[at] : 1) * l->d[i].extent;
        w->stride[at] = stride;
        for (int v = 0; v < TCC_CONTRACT_MAX_WINDOWS; v++) w->w[at][v] = windows ? l->d[i].w[v] : 0;
    }
}

/* Neighbours that all accesses walk as one become one; operands have walks of their own by now. */
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

static bool whole_vectors(const tcc_contract_walk *w, bool inner) {
    int last = w->n - 1;
    for (int i = 0; i < w->n; i++)
        if (!(inner && i == last) && w->stride[i] % 4) return false;
    if (!inner) return true;
    for (int v = 0; v < TCC_CONTRACT_MAX_WINDOWS; v++)
        if (w->w[last][v]) return false;
    return last >= 0 && w->stride[last] == 1 && w->extent[last] % 4 == 0;
}

static int64_t reach(const tcc_contract_walk *w) {
    int64_t most = 0;
    for (int i = 0; i < w->n; i++) most += llabs(w->stride[i]) * (w->extent[i] - 1);
    return most;
}

static int64_t inner_stride(const tcc_contract_walk *w) { return w->n ? llabs(w->stride[w->n - 1]) : INT64_MAX; }

static void plan_side(tcc_contract_side *s, const tcc_contract *c, const tcc_contract_dims *outer, int operand, bool aligned) {
    s->windows = c->n_windows > 0 && c->window_b == (operand == TCC_OPERAND_B);
    make_walk(&s->b, &c->b, operand, s->windows);
    make_walk(&s->o, outer, operand, s->windows);
    make_walk(&s->k, &c->k, operand, s->windows);
    s->vector = 1;
    s->along_k = inner_stride(&s->k) < inner_stride(&s->o);
    for (int pass = 0; pass < 2 && aligned && s->vector == 1; pass++) {
        bool along_k = pass == 1;
        if (!whole_vectors(&s->b, false) || !whole_vectors(&s->o, !along_k) || !whole_vectors(&s->k, along_k)) continue;
        s->vector = 4;
        s->along_k = along_k;
    }
    s->wide = reach(&s->b) + reach(&s->o) + reach(&s->k) > INT32_MAX / 8;
}

/* --- Tiles */

typedef struct tile {
    int thread_m, thread_n, warps_m, warps_n, tile_k;
    double efficiency; /* of the multiply-adds, when the processor is full */
} tile;

static const tile tiles[] = {
    {8, 8, 4, 2, 8, 1.0},   /* 128 x 128 */
    {8, 8, 4, 1, 8, 0.97},  /* 128 x 64 */
    {8, 8, 2, 2, 8, 0.97},  /* 64 x 128 */
    {8, 4, 2, 2, 16, 0.85}, /* 64 x 64 */
    {4, 4, 2, 2, 16, 0.6},  /* 32 x 64 */
    {4, 4, 4, 1, 16, 0.6},  /* 64 x 32 */
    {4, 4, 2, 1, 16, 0.5},  /* 32 x 32 */
};

static void set_tile(tcc_contract_gpu_plan *p, const tile *t) {
    p->thread_m = t->thread_m, p->thread_n = t->thread_n;
    p->warps_m = t->warps_m, p->warps_n = t->warps_n;
    p->tile_m = t->thread_m * 4 * t->warps_m, p->tile_n = t->thread_n * 8 * t->warps_n, p->tile_k = t->tile_k;
    p->threads = 32 * t->warps_m * t->warps_n;
    p->blocks = p->threads >= 256 ? 2 : p->threads >= 128 ? 3 : 4;
    p->m_tiles = ceil_div(p->M, p->tile_m), p->n_tiles = ceil_div(p->N, p->tile_n);
}

/* Cycles, about: blocks dealt to processors, each with the multiply-adds that so many threads reach; the second launch. */
static double cost_of(const tcc_contract_gpu_plan *p, double efficiency) {
    double blocks = (double)(p->m_tiles * p->n_tiles * p->B * p->k_splits), most = fmax(1, RESIDENT / p->threads);
    double work = (double)p->tile_m * p->tile_n * ((double)p->k_per_split + 24) / (128 * efficiency);
    double together = fmin(most, ceil(blocks / PROCESSORS)), busy = 0.3 + 0.7 * fmin(1, together * p->threads / RESIDENT);
    double cycles = ceil(blocks / PROCESSORS) * work / busy + 1500;
    if (p->k_splits > 1) cycles += 4000 + 2.0 * 4.0 * (double)(p->k_splits * p->B * p->M) * (double)p->n_padded / 1500;
    return cycles;
}

static void choose(tcc_contract_gpu_plan *p) {
    double best = INFINITY;
    tcc_contract_gpu_plan trial = *p;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        set_tile(&trial, &tiles[i]);
        for (int64_t splits = 1; splits <= MOST_SPLITS && (splits == 1 || p->K / splits >= LEAST_SPLIT_K); splits += (splits + 1) / 2) {
            trial.k_per_split = round_up(ceil_div(p->K ? p->K : 1, splits), trial.tile_k);
            trial.k_splits = ceil_div(p->K ? p->K : 1, trial.k_per_split);
            double cost = cost_of(&trial, tiles[i].efficiency);
            if (cost < best * 0.999) best = cost, *p = trial;
        }
    }
}

tcc_status tcc_contract_gpu_make_plan(const tcc_contract *c, unsigned aligned, tcc_diag *diag, tcc_contract_gpu_plan *p) {
    *p = (tcc_contract_gpu_plan){.c = *c};
    normalize(p);
    p->M = tcc_contract_extent(&p->c.m), p->N = tcc_contract_extent(&p->c.n);
    p->K = tcc_contract_extent(&p->c.k), p->B = tcc_contract_extent(&p->c.b);
    const int64_t extents[] = {p->M, p->N, p->K, p->B};
    for (int i = 0; i < 4; i++)
        if (extents[i] > INT32_MAX / 2)
            return tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "a contraction of extent %lld; the most is 2^30", (long long)extents[i]);
    if (p->swapped) aligned = (aligned & ~3u) | (aligned & 1) << 1 | (aligned >> 1 & 1);
    plan_side(&p->a, &p->c, &p->c.m, TCC_OPERAND_A, aligned & 1);
    plan_side(&p->b, &p->c, &p->c.n, TCC_OPERAND_B, aligned & 2);
    p->n_padded = round_up(p->N, 4);
    choose(p);
    p->a.rows = p->tile_m, p->b.rows = p->tile_n;
    tcc_contract_side *sides[] = {&p->a, &p->b};
    for (int i = 0; i < 2; i++) {
        sides[i]->slots = sides[i]->rows * p->tile_k / sides[i]->vector / p->threads;
        sides[i]->pitch = sides[i]->rows + 4; /* so that neither rows nor columns meet in a bank */
    }
    /* The epilogue's vectors lie in the last n dimension. */
    merge_outputs(&p->c.n, p->c.n_accesses);
    p->vector = p->c.n.n && p->c.n.d[p->c.n.n - 1].extent % 4 == 0 && p->c.n.d[p->c.n.n - 1].c[0] == 1 ? 4 : 1;
    merge_outputs(&p->c.m, p->c.n_accesses);
    merge_outputs(&p->c.b, p->c.n_accesses);

    p->items = p->k_splits * p->B * p->m_tiles * p->n_tiles;
    int64_t operands = 2 * p->tile_k * (int64_t)(p->a.pitch + p->b.pitch), stage = 16 * p->warps_m * (int64_t)(p->tile_n + 4);
    p->scratch_bytes = 4 * (operands > stage ? operands : stage);
    if (p->k_splits > 1) {
        p->workspace_bytes = 4 * p->k_splits * p->B * p->M * p->n_padded;
        p->combine_threads = COMBINE_THREADS;
        p->combine_items = ceil_div(p->B * p->M * ceil_div(p->N, p->vector), COMBINE_THREADS);
    }
    p->flop = 2.0 * (double)p->B * (double)p->M * (double)p->N * (double)p->K;
    p->bytes = 4.0 * (double)p->B * ((double)p->M * (double)p->K + (double)p->N * (double)p->K + (double)p->M * (double)p->N);
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

static void print_walk(tcc_strbuf *out, const char *name, const tcc_contract_walk *w) {
    tcc_strbuf_printf(out, " %s", name);
    for (int i = 0; i < w->n; i++) {
        tcc_strbuf_printf(out, "(%lld:%lld", (long long)w->extent[i], (long long)w->stride[i]);
        for (int v = 0; v < TCC_CONTRACT_MAX_WINDOWS; v++)
            if (w->w[i][v]) tcc_strbuf_printf(out, " w%d=%lld", v, (long long)w->w[i][v]);
        tcc_strbuf_add(out, ")");
    }
}

static void print_side(tcc_strbuf *out, const char *name, const tcc_contract_side *s) {
    tcc_strbuf_printf(out, " %s%s%s", name, s->vector > 1 ? " vectors" : "", s->along_k ? " along k" : "");
    print_walk(out, "b", &s->b);
    print_walk(out, "o", &s->o);
    print_walk(out, "k", &s->k);
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
    tcc_strbuf_printf(out, "contract gpu%s", p->swapped ? " swapped" : "");
    print_side(out, "A", &p->a);
    print_side(out, "B", &p->b);
    print_outputs(out, "b", &p->c.b, p->c.n_accesses);
    print_outputs(out, "m", &p->c.m, p->c.n_accesses);
    print_outputs(out, "n", &p->c.n, p->c.n_accesses);
    for (int v = 0; v < p->c.n_windows; v++)
        tcc_strbuf_printf(out, " window %lld+%lld", (long long)p->c.windows[v].start, (long long)p->c.windows[v].extent);
    tcc_strbuf_printf(out, " tile %dx%dx%d thread %dx%d split %lld", p->tile_m, p->tile_n, p->tile_k, p->thread_m, p->thread_n,
                      (long long)p->k_per_split);
}
