/* SPDX-License-Identifier: MIT
 * Planning a contraction: normal form, register tile, blocking, split of k.
 *
 * The plan depends on shapes and on the target's registers, never on the number of threads. Costs are in cycles of a core with one
 * full-width multiply-add a cycle; only their ratios matter. */
#include "codegen/contract.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Flops that one work item should have at least: some 20 us on one core, against a microsecond to hand it over. */
static const double item_flop = 2e6;
enum {
    MOST_ITEMS = 48,              /* enough for balance on many threads; more would repeat packing */
    BLOCK_K = 1024,               /* at most, in a block: beyond this the panel of B crowds the second-level cache */
    A_BLOCK_FLOATS = 96 * 1024,   /* packed A stays in the second-level cache */
    LEAST_SPLIT_K = 256,          /* of k in one part of a split sum */
};

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t extent_of(const tcc_contract_dims *l) {
    int64_t product = 1;
    for (int i = 0; i < l->n; i++) product *= l->d[i].extent;
    return product;
}

static void drop_ones(tcc_contract_dims *l) {
    int kept = 0;
    for (int i = 0; i < l->n; i++)
        if (l->d[i].extent != 1) l->d[kept++] = l->d[i];
    l->n = kept;
}

static void swap_operands(tcc_contract_dims *l) {
    for (int i = 0; i < l->n; i++) {
        int64_t a = l->d[i].a;
        l->d[i].a = l->d[i].b;
        l->d[i].b = a;
    }
}

/* Outer to inner by output stride; k, which has none, by the operands' strides. Stable, so that equal strides keep the caller's
 * order. */
static int64_t weight_of(const tcc_contract_dim *d, bool is_k) {
    return is_k ? llabs(d->a) + llabs(d->b) : llabs(d->c[0]);
}

static void sort_dims(tcc_contract_dims *l, bool is_k) {
    for (int i = 1; i < l->n; i++)
        for (int j = i; j > 0 && weight_of(&l->d[j - 1], is_k) < weight_of(&l->d[j], is_k); j--) {
            tcc_contract_dim t = l->d[j];
            l->d[j] = l->d[j - 1];
            l->d[j - 1] = t;
        }
}

/* Two neighbours that every access walks as one become one. */
static void merge_dims(tcc_contract_dims *l, int n_accesses) {
    for (int i = l->n - 2; i >= 0; i--) {
        tcc_contract_dim *outer = &l->d[i], *inner = &l->d[i + 1];
        bool same = outer->a == inner->a * inner->extent && outer->b == inner->b * inner->extent;
        for (int x = 0; x < n_accesses; x++) same = same && outer->c[x] == inner->c[x] * inner->extent;
        if (!same) continue;
        inner->extent *= outer->extent;
        memmove(outer, inner, sizeof *outer * (size_t)(l->n - i - 1));
        l->n--;
    }
}

static tcc_status push(tcc_contract_dims *l, const tcc_contract_dim *d, tcc_diag *diag) {
    if (l->n == TCC_CONTRACT_MAX_DIMS)
        return tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "a contraction has more than %d batch dimensions",
                         TCC_CONTRACT_MAX_DIMS);
    l->d[l->n++] = *d;
    return TCC_OK;
}

/* The dimension that vectors run along: contiguous in C if there is one, else one of n, contiguous in B if possible. */
static int choose_lanes(tcc_contract *c, bool *swapped) {
    for (int side = 0; side < 2; side++) {
        tcc_contract_dims *l = side ? &c->m : &c->n;
        for (int i = 0; i < l->n; i++)
            if (l->d[i].c[0] == 1) {
                *swapped = side == 1;
                return i;
            }
    }
    *swapped = c->n.n == 0 && c->m.n > 0;
    tcc_contract_dims *l = *swapped ? &c->m : &c->n;
    int best = -1;
    for (int i = 0; i < l->n; i++) {
        if (best < 0) best = i;
        int64_t stride = *swapped ? l->d[i].a : l->d[i].b, stride_best = *swapped ? l->d[best].a : l->d[best].b;
        if ((stride == 1) != (stride_best == 1) ? stride == 1 : l->d[i].extent > l->d[best].extent) best = i;
    }
    return best;
}

static tcc_status normalize(tcc_contract_plan *p, tcc_diag *diag) {
    tcc_contract *c = &p->c;
    tcc_contract_dims *lists[] = {&c->b, &c->m, &c->n, &c->k};
    for (int i = 0; i < 4; i++) {
        drop_ones(lists[i]);
        sort_dims(lists[i], i == 3);
        merge_dims(lists[i], c->n_accesses);
    }
    int lane = choose_lanes(c, &p->swapped);
    if (p->swapped) {
        tcc_contract_dims m = c->m;
        c->m = c->n;
        c->n = m;
        for (int i = 0; i < 4; i++) swap_operands(lists[i]);
    }
    tcc_contract_dim one = {.extent = 1};
    if (lane < 0) {
        c->n.d[0] = one;
        c->n.n = 1;
        lane = 0;
    }
    for (int i = 0; i < c->n.n; i++)
        if (i != lane) TCC_TRY(push(&c->b, &c->n.d[i], diag));
    c->n.d[0] = c->n.d[lane];
    c->n.n = 1;
    if (!c->m.n) c->m.d[c->m.n++] = one;
    if (!c->k.n) c->k.d[c->k.n++] = one;

    /* A contiguous along m alone is packed by columns, for which rows must be one dimension. */
    const tcc_contract_dim *m = &c->m.d[c->m.n - 1], *k = &c->k.d[c->k.n - 1];
    p->a_columns = k->a != 1 && m->a == 1 && (c->m.n == 1 || m->extent >= 6);
    if (p->a_columns) {
        for (int i = 0; i + 1 < c->m.n; i++) TCC_TRY(push(&c->b, &c->m.d[i], diag));
        c->m.d[0] = c->m.d[c->m.n - 1];
        c->m.n = 1;
    }
    sort_dims(&c->b, false);
    merge_dims(&c->b, c->n_accesses);
    p->M = extent_of(&c->m);
    p->N = extent_of(&c->n);
    p->K = extent_of(&c->k);
    p->B = extent_of(&c->b);
    return TCC_OK;
}

/* The tile whose whole cover of M x N costs least: multiply-adds, or loads where these bind, and a little for each operand. */
static void choose_tile(tcc_contract_plan *p, const tcc_llvm_target *target) {
    int64_t vectors = ceil_div(p->N, target->lanes);
    double best = INFINITY;
    for (int v = 1; v <= 6; v++)
        for (int r = 1; r * v + v + 1 < target->registers || (r == 1 && v == 1); r++) {
            if (r > p->M || (v > vectors && v > 1)) continue;
            double work = r * v, loads = v + 0.5 * r;
            double cycles = fmax(fmax(work, loads), 8) + 0.1 * (v + r);
            double cost = cycles * (double)(ceil_div(p->M, r) * ceil_div(vectors, v));
            if (cost < best * 0.999) best = cost, p->rows = r, p->vectors = v;
        }
}

static void choose_packing(tcc_contract_plan *p, const tcc_llvm_target *target) {
    const tcc_contract_dim *m = &p->c.m.d[0], *k = &p->c.k.d[p->c.k.n - 1];
    p->pack_b = p->c.n.d[0].b != 1 || p->N % (p->vectors * target->lanes) != 0 || p->tiles > 2;
    /* Rows a multiple of the page apart fall into the same cache sets. */
    bool hostile = p->c.m.n > 1 || (llabs(m->a) * 4) % 2048 == 0 || llabs(m->a) > 8192;
    p->pack_a = p->a_columns ? true : hostile || k->a != 1;
    if (p->panels == 1 && p->c.m.n == 1) p->pack_a = false; /* it would be read once */
}

/* Whole inner dimensions and a part of one: about `most` elements of k in a block. */
static void choose_k_blocks(tcc_contract_plan *p, int64_t most) {
    const tcc_contract_dims *k = &p->c.k;
    p->k_inner = 1;
    p->k_split_dim = k->n - 1;
    while (p->k_split_dim > 0 && p->k_inner * k->d[p->k_split_dim].extent <= most) p->k_inner *= k->d[p->k_split_dim--].extent;
    int64_t extent = k->d[p->k_split_dim].extent, step = min64(extent, max64(1, most / p->k_inner));
    step = ceil_div(extent, ceil_div(extent, step));
    if (step < extent && p->k_inner == 1) step = min64(extent, round_up(step, 8));
    p->k_step = step;
    p->k_blocks = ceil_div(extent, step);
    for (int i = 0; i < p->k_split_dim; i++) p->k_blocks *= k->d[i].extent;
    p->block_k = step * p->k_inner;
}

static void choose_blocks(tcc_contract_plan *p, const tcc_llvm_target *target) {
    p->flop = 2.0 * (double)p->B * (double)p->M * (double)p->N * (double)p->K;
    int64_t wanted = (int64_t)fmin(fmax(p->flop / item_flop, 1), MOST_ITEMS);
    int64_t most_items = p->B * p->tiles * p->panels;
    p->k_splits = 1;
    if (most_items * 2 <= wanted) p->k_splits = min64(ceil_div(wanted, most_items), max64(1, p->K / LEAST_SPLIT_K));
    choose_k_blocks(p, min64(BLOCK_K, ceil_div(p->K, p->k_splits)));
    p->k_blocks_per_split = ceil_div(p->k_blocks, p->k_splits);
    p->k_splits = ceil_div(p->k_blocks, p->k_blocks_per_split);

    /* Fewest blocks of rows (each packs all of B anew) and then of panels that give the items wanted. */
    double pack = p->pack_b ? (p->c.n.d[0].b == 1 ? 0.15 : 0.5) : 0, best = INFINITY;
    int64_t rows_fit = max64(p->rows, A_BLOCK_FLOATS / p->block_k), least = ceil_div(p->tiles, max64(1, rows_fit / p->rows));
    for (int64_t row_blocks = least; row_blocks <= p->tiles && row_blocks < least + 64; row_blocks++) {
        int64_t tiles = ceil_div(p->tiles, row_blocks);
        int64_t panel_blocks = min64(p->panels, max64(1, ceil_div(wanted, p->B * p->k_splits * row_blocks)));
        int64_t panels = ceil_div(p->panels, panel_blocks);
        panel_blocks = ceil_div(p->panels, panels);
        int64_t items = p->B * p->k_splits * row_blocks * panel_blocks;
        double work = (double)(row_blocks * tiles) * (double)(panel_blocks * panels) * p->rows * p->vectors;
        double packing = (double)row_blocks * (double)p->panels * p->vectors * target->lanes * pack;
        double missing = items < wanted ? (double)wanted / (double)items : 1; /* idle threads */
        double cost = (work + packing) * (1 + 0.1 * (missing - 1));
        if (cost < best * 0.999) {
            best = cost;
            p->tiles_per_block = tiles;
            p->row_blocks = ceil_div(p->tiles, tiles);
            p->panels_per_block = panels;
            p->panel_blocks = panel_blocks;
        }
        if (packing >= best) break;
    }
    p->items = p->B * p->k_splits * p->row_blocks * p->panel_blocks;
}

tcc_status tcc_contract_make_plan(const tcc_llvm_target *target, const tcc_contract *c, tcc_diag *diag, tcc_contract_plan *p) {
    *p = (tcc_contract_plan){.c = *c};
    if (c->n_accesses < 1 || c->n_accesses > TCC_CONTRACT_MAX_ACCESSES)
        return TCC_BUG(diag, "a contraction with %d accesses", c->n_accesses);
    TCC_TRY(normalize(p, diag));
    choose_tile(p, target);
    int64_t panel = (int64_t)p->vectors * target->lanes;
    p->tiles = ceil_div(p->M, p->rows);
    p->panels = ceil_div(p->N, panel);
    choose_packing(p, target);
    choose_blocks(p, target);

    /* An odd number of cache lines, so that rows spread over the sets. */
    p->a_row = round_up(p->block_k, 16);
    if (p->a_row / 16 % 2 == 0) p->a_row += 16;
    int64_t floats = p->pack_a ? p->tiles_per_block * p->rows * (p->a_columns ? p->block_k : p->a_row) : 0;
    floats = round_up(floats + 64, 16); /* vectors may be stored past the last row */
    if (p->pack_b) floats += panel * (round_up(p->block_k, 16) + 16);
    if (p->k_blocks_per_split > 1) floats += p->tiles_per_block * p->rows * p->panels_per_block * panel;
    p->scratch_bytes = floats * 4;
    if (p->k_splits > 1) {
        p->workspace_bytes = p->k_splits * p->B * p->M * p->panels * panel * 4;
        p->combine_rows = max64(1, min64(p->M, 16384 / (p->panels * panel)));
        p->combine_items = p->B * ceil_div(p->M, p->combine_rows);
    }
    p->bytes = 4.0 * (double)p->B * ((double)p->M * (double)p->K + (double)p->N * (double)p->K + (double)p->M * (double)p->N);
    return TCC_OK;
}

static void print_dims(tcc_strbuf *out, const char *name, const tcc_contract_dims *l, int n_accesses) {
    tcc_strbuf_printf(out, " %s", name);
    for (int i = 0; i < l->n; i++) {
        const tcc_contract_dim *d = &l->d[i];
        tcc_strbuf_printf(out, "(%lld:%lld,%lld", (long long)d->extent, (long long)d->a, (long long)d->b);
        for (int x = 0; x < n_accesses; x++) tcc_strbuf_printf(out, ",%lld", (long long)d->c[x]);
        tcc_strbuf_add(out, ")");
    }
}

void tcc_contract_key(const tcc_contract_plan *p, tcc_strbuf *out) {
    tcc_strbuf_printf(out, "contract%s%s", p->swapped ? " swapped" : "", p->c.accumulate ? " accumulate" : "");
    print_dims(out, "b", &p->c.b, p->c.n_accesses);
    print_dims(out, "m", &p->c.m, p->c.n_accesses);
    print_dims(out, "n", &p->c.n, p->c.n_accesses);
    print_dims(out, "k", &p->c.k, 0);
    tcc_strbuf_printf(out, " tile %dx%d", p->rows, p->vectors);
}
