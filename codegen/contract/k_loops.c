/* SPDX-License-Identifier: MIT
 * The loops of k inside a block, as the register tile runs them, cut to the windows. */
#include "codegen/contract/internal.h"

/* The same in steps of several k: one loop where both are packed. */
static void make_steps(tcc_emitter *e, const tcc_contract_plan *p, tcc_emit_value count, tcc_contract_tile *t) {
    const tcc_contract_dims *k = &p->c.k;
    const int64_t unit = p->multiply, b_row = (int64_t)p->vectors * e->lanes; /* from k to k */
    const bool stepped = k->d[p->k_split_dim].extent % p->k_step != 0;
    int64_t linear = p->k_inner;
    if (p->pack_a) {
        const bool rows_of_pairs = p->a_columns && p->multiply == TCC_CONTRACT_PAIRS;
        tcc_tile_level all = {.count = (p->k_step * linear + unit - 1) / unit,
                              .a = rows_of_pairs ? p->a_row : unit,
                              .b = unit * b_row,
                              .multiple = 1};
        tcc_emit_value length = tcc_emit_add(e, tcc_emit_mul(e, count, tcc_emit_i64(e, linear)),
                                             tcc_emit_i64(e, unit - 1));
        if (stepped) all.runtime = tcc_emit_div(e, length, unit);
        t->levels[t->n_levels++] = all;
        return;
    }
    for (int i = p->k_split_dim; i < k->n; i++) {
        if (i > p->k_split_dim) linear /= k->d[i].extent;
        const bool innermost = i == k->n - 1, split = i == p->k_split_dim;
        const int64_t step = innermost ? unit : 1;
        tcc_tile_level l = {.count = (split ? p->k_step : k->d[i].extent) / step,
                            .a = k->d[i].a * step,
                            .b = linear * step * b_row,
                            .multiple = 1};
        if (split && stepped) l.runtime = tcc_emit_div(e, count, step);
        t->levels[t->n_levels++] = l;
    }
}

void tcc_contract_make_levels(tcc_emitter *e, const tcc_contract_plan *p, tcc_emit_value count,
                              const tcc_contract_part *parts, tcc_contract_tile *t, tcc_emit_value *a,
                              tcc_emit_value *b) {
    const tcc_contract_dims *k = &p->c.k;
    int64_t panel_row = (int64_t)p->vectors * e->lanes, linear = p->k_inner;
    if (p->multiply != TCC_CONTRACT_FMA) {
        make_steps(e, p, count, t);
        return;
    }
    for (int i = p->k_split_dim; i < k->n; i++) {
        if (i > p->k_split_dim) linear /= k->d[i].extent;
        tcc_tile_level l = {.count = k->d[i].extent, .a = k->d[i].a, .b = k->d[i].b, .multiple = 1};
        if (i == p->k_split_dim) {
            l.count = p->k_step;
            l.runtime = k->d[i].extent % p->k_step ? count : NULL;
        }
        if (p->pack_a) l.a = linear * (p->a_columns ? p->a_row : 1);
        if (p->pack_b) l.b = linear * panel_row;
        if (parts[i].count) {
            l.runtime = parts[i].count;
            *a = tcc_contract_at(e, t->a_type, *a, tcc_emit_mul(e, parts[i].from, tcc_emit_i64(e, l.a)));
            *b = tcc_contract_at(e, t->b_type, *b, tcc_emit_mul(e, parts[i].from, tcc_emit_i64(e, l.b)));
        }
        t->levels[t->n_levels++] = l;
    }
}

static tcc_emit_value max_of(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_SGT, a, b), a, b);
}

/* The indices j with 0 <= base + step j < extent: [*from, *to). */
static void window_range(tcc_emitter *e, tcc_emit_value base, int64_t step, int64_t extent, tcc_emit_value *from,
                         tcc_emit_value *to) {
    tcc_emit_value zero = tcc_emit_i64(e, 0);
    int64_t size = step < 0 ? -step : step;
    if (step < 0) base = tcc_emit_sub(e, tcc_emit_i64(e, extent - 1), base); /* seen from the other end */
    tcc_emit_value before = max_of(e, tcc_emit_sub(e, zero, base), zero);
    *from = tcc_emit_div(e, tcc_emit_add(e, before, tcc_emit_i64(e, size - 1)), size);
    tcc_emit_value left = max_of(e, tcc_emit_sub(e, tcc_emit_i64(e, extent), base), zero);
    *to = tcc_emit_div(e, tcc_emit_add(e, left, tcc_emit_i64(e, size - 1)), size);
}

void tcc_contract_find_parts(tcc_emitter *e, const tcc_contract_plan *p, const tcc_emit_value *batch,
                             const tcc_emit_value *row, const tcc_emit_value *block, tcc_emit_value count,
                             tcc_contract_part *parts) {
    const tcc_contract *c = &p->c;
    tcc_emit_value seen = NULL; /* the block's outer indices lie in their windows */
    for (int v = 0; v < c->n_windows; v++) {
        tcc_emit_value base = tcc_emit_i64(e, c->windows[v].start), from, to;
        for (int i = 0; i < c->b.n; i++)
            if (c->b.d[i].w[v])
                base = tcc_emit_add(e, base, tcc_emit_mul(e, batch[i], tcc_emit_i64(e, c->b.d[i].w[v])));
        for (int i = 0; i < c->m.n; i++)
            if (c->m.d[i].w[v]) base = tcc_emit_add(e, base, tcc_emit_mul(e, row[i], tcc_emit_i64(e, c->m.d[i].w[v])));
        for (int i = 0; i < c->k.n; i++) {
            if (!c->k.d[i].w[v]) continue;
            window_range(e, base, c->k.d[i].w[v], c->windows[v].extent, &from, &to);
            to = tcc_emit_min(e, to, tcc_emit_i64(e, c->k.d[i].extent));
            if (i < p->k_split_dim) {
                tcc_emit_value above = tcc_emit_icmp(e, TCC_ICMP_SGE, block[i], from);
                tcc_emit_value inside = tcc_emit_and(e, above, tcc_emit_icmp(e, TCC_ICMP_SLT, block[i], to));
                seen = seen ? tcc_emit_and(e, seen, inside) : inside;
                continue;
            }
            if (i == p->k_split_dim) {
                tcc_emit_value begun = tcc_emit_mul(e, block[i], tcc_emit_i64(e, p->k_step));
                from = max_of(e, tcc_emit_sub(e, from, begun), tcc_emit_i64(e, 0));
                to = tcc_emit_min(e, tcc_emit_sub(e, to, begun), count);
            }
            parts[i] = (tcc_contract_part){from, max_of(e, tcc_emit_sub(e, to, from), tcc_emit_i64(e, 0))};
        }
    }
    if (!seen) return;
    tcc_contract_part *first = &parts[p->k_split_dim];
    if (!first->count) *first = (tcc_contract_part){tcc_emit_i64(e, 0), count};
    first->count = tcc_emit_select(e, seen, first->count, tcc_emit_i64(e, 0));
}
