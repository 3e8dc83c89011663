/* SPDX-License-Identifier: MIT
 * The sweeps of a reduction: what each evaluates, and which values it keeps for the next ones. */
#include "codegen/schedule/reduce.h"

#include "ir/support/alloc.h"

#include <string.h>

/* Marks what expressions of the sweep can be reached from its roots. */
static void mark(const tcc_reduce *p, const bool *leaf, const tcc_expr *x, bool *in) {
    if (in[x->id]) return;
    in[x->id] = true;
    if (x->kind == TCC_EXPR_REDUCE || (leaf && leaf[x->id])) return;
    for (int i = 0; i < x->affine.n; i++) {
        const tcc_var *v = &p->body->vars.data[x->affine.terms[i].var];
        if (v->kind == TCC_VAR_VALUE) mark(p, leaf, v->value, in);
    }
    for (int i = 0; i < x->n_operands; i++) mark(p, leaf, x->operands[i], in);
}

int tcc_reduce_sweep_of_stores(const tcc_reduce *p) { return p->n_sweeps - 1; }

void tcc_reduce_mark_sweep(const tcc_reduce *p, int sweep, const bool *leaf, bool *in) {
    const tcc_body *b = p->body;
    for (int i = 0; i < b->exprs.count; i++)
        if (b->exprs.data[i]->kind == TCC_EXPR_REDUCE && p->level[b->exprs.data[i]->operands[0]->id] == sweep)
            mark(p, leaf, b->exprs.data[i]->operands[0], in);
    for (int i = 0; i < b->stores.count; i++)
        if (!b->stores.data[i].kept && sweep == tcc_reduce_sweep_of_stores(p))
            mark(p, leaf, b->stores.data[i].value, in);
}

enum { CACHE_COST = 9 }; /* values dearer than this are kept for the next sweep */

int64_t tcc_reduce_cache_of(const tcc_lowering *l) { return l->target->hw.cache_bytes * 3 / 8; }

void tcc_reduce_find_levels(tcc_reduce *p) {
    const tcc_body *b = p->body;
    p->n_sweeps = 0;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        int level = 0;
        for (int k = 0; k < x->n_operands; k++)
            if (p->level[x->operands[k]->id] > level) level = p->level[x->operands[k]->id];
        for (int k = 0; k < x->affine.n; k++) {
            const tcc_var *v = &b->vars.data[x->affine.terms[k].var];
            if (v->kind == TCC_VAR_VALUE && p->level[v->value->id] > level) level = p->level[v->value->id];
        }
        if (x->kind == TCC_EXPR_REDUCE) {
            if (level + 1 > p->n_sweeps) p->n_sweeps = level + 1;
            level++;
        }
        p->level[i] = level;
    }
    for (int i = 0; i < b->stores.count; i++)
        if (!b->stores.data[i].kept && p->level[b->stores.data[i].value->id] + 1 > p->n_sweeps)
            p->n_sweeps = p->level[b->stores.data[i].value->id] + 1;
    for (int i = 0; p->n_parts && i < b->exprs.count; i++) { /* a sweep of segments has no parts */
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind == TCC_EXPR_REDUCE && tcc_is_moment(x->op) && p->level[i] == p->n_sweeps) p->n_sweeps++;
    }
}

const tcc_expr *tcc_reduce_fold_of(const tcc_body *b, const tcc_expr *x) {
    for (int i = 0; tcc_is_moment(x->op) && i < x->id; i++) {
        const tcc_expr *y = b->exprs.data[i];
        if (y->kind == TCC_EXPR_REDUCE && tcc_is_moment(y->op) && y->operands[0] == x->operands[0]) return y;
    }
    return x;
}

/* A load whose lanes are no neighbours gathers them one by one. */
static int cost_of_lanes(const tcc_reduce *p, const tcc_expr *x) {
    const int64_t step = tcc_affine_coefficient(&x->affine, p->reduced[p->n_reduced - 1]);
    return x->kind == TCC_EXPR_LOAD && step != 0 && step != 1 ? p->lanes : 0;
}

/* What a sweep repeats that does not keep `x`; the results of reductions are known to all. */
static int cost_below(const tcc_reduce *p, const tcc_expr *x, bool *seen) {
    if (seen[x->id] || x->kind == TCC_EXPR_REDUCE) return 0;
    seen[x->id] = true;
    int cost = tcc_expr_cost(x) + cost_of_lanes(p, x);
    for (int i = 0; i < x->affine.n; i++) {
        const tcc_var *v = &p->body->vars.data[x->affine.terms[i].var];
        if (v->kind == TCC_VAR_VALUE) cost += 8 + cost_below(p, v->value, seen);
    }
    for (int i = 0; i < x->n_operands; i++) cost += cost_below(p, x->operands[i], seen);
    return cost;
}

/* A value that two sweeps want can be kept: in 4 bytes of scratch, or as it is on a GPU. */
static bool can_be_kept(const tcc_lowering *l, const tcc_expr *x) {
    if (l->target->lane_groups) return x->kind == TCC_EXPR_POINT || x->kind == TCC_EXPR_LOAD;
    return x->kind == TCC_EXPR_POINT && x->dtype != TCC_BOOL && tcc_dtype_bytes(x->dtype) <= 4;
}

/* Is that worth it? In scratch of the CPU's cache: if it is dear. A GPU reads nothing twice. */
static bool worth_keeping(const tcc_lowering *l, const tcc_reduce *p, const tcc_expr *x, bool *seen) {
    if (l->target->lane_groups) return true;
    memset(seen, 0, (size_t)p->body->exprs.count);
    return cost_below(p, x, seen) >= CACHE_COST && (p->n_slots + 1) * p->row * 4 <= tcc_reduce_cache_of(l);
}

/* The registers of kept values: a value takes them from the sweep that makes it to the last one that reads it. */
static void count_words(tcc_reduce *p, bool *known, bool *in) {
    const tcc_body *b = p->body;
    size_t n = (size_t)b->exprs.count;
    memset(known, 0, n);
    for (int s = 0; s + 1 < p->n_sweeps; s++) {
        memset(in, 0, n);
        tcc_reduce_mark_sweep(p, s, known, in);
        for (size_t i = 0; i < n; i++) known[i] |= in[i] && p->slot[i] >= 0;
        memset(in, 0, n);
        for (int t = s + 1; t < p->n_sweeps; t++) tcc_reduce_mark_sweep(p, t, known, in);
        int words = 0;
        for (size_t i = 0; i < n; i++) {
            if (!known[i] || !in[i]) continue;
            int bytes = tcc_dtype_bytes(b->exprs.data[i]->dtype);
            words += bytes > 4 ? 2 : 1;
            p->narrow = p->narrow && bytes <= 4 && b->exprs.data[i]->dtype != TCC_BOOL;
        }
        if (words > p->words) p->words = words;
    }
}

bool tcc_reduce_is_of_row(const tcc_reduce *p, const tcc_expr *x) {
    uint64_t kept = 0;
    for (int i = 0; i < p->n_kept; i++) kept |= UINT64_C(1) << p->kept[i];
    return x->kind == TCC_EXPR_LOAD && (x->loops & kept);
}

enum { MOST_KEPT = 62 /* bits */, BORDER = -1, LOADS = -2 };

/* A slot in scratch begins at a whole vector of any type. Shared memory has no room for more bytes than memory has. */
static void add_slot(const tcc_lowering *l, tcc_reduce *p, const tcc_expr *x) {
    enum { REGISTER = 4, VECTOR = 16 };
    const int bytes = l->target->lane_groups ? tcc_dtype_bytes(x->dtype) : REGISTER;
    p->slot[x->id] = p->slots_bytes;
    p->slots_bytes += (p->row * bytes + VECTOR - 1) / VECTOR * VECTOR;
    p->n_slots++;
}

/* Which values of one sweep the next ones find: of those at the border of what both evaluate, and of what both load, in
 * order, the ones that *kept has a bit for. BORDER: those at the border that are worth it; LOADS: what is loaded. Then
 * *kept becomes their bits. */
static tcc_status find_slots(tcc_lowering *l, tcc_reduce *p, int64_t *kept) {
    const tcc_body *b = p->body;
    size_t n = (size_t)b->exprs.count;
    const int64_t wanted = *kept;
    for (size_t i = 0; i < n; i++) p->slot[i] = -1;
    if (wanted < 0) *kept = 0;
    p->row = 1;
    for (int i = 0; i < p->n_reduced; i++) {
        int64_t extent = b->vars.data[p->reduced[i]].high + 1;
        if (i == p->n_reduced - 1) extent = (extent + p->lanes - 1) / p->lanes * p->lanes;
        p->row *= extent;
    }
    p->n_slots = p->words = p->n_keepable = 0;
    p->slots_bytes = 0;
    p->narrow = true;
    if (p->columns || p->n_reduced == 0 || p->split_var >= 0) return TCC_OK;
    int inner = p->reduced[p->n_reduced - 1];
    bool *flags = tcc__calloc(5 * n + 1, sizeof *flags);
    if (!flags) return tcc_enomem(l->diag);
    bool *now = flags, *later = flags + n, *border = flags + 2 * n, *seen = flags + 3 * n;
    signed char *bit_of = (signed char *)(flags + 4 * n); /* -1: not met yet */
    memset(bit_of, -1, n);
    for (int s = 0; s < p->n_sweeps; s++) {
        memset(now, 0, n);
        tcc_reduce_mark_sweep(p, s, NULL, now);
        for (int t = s + 1; t < p->n_sweeps; t++) {
            memset(later, 0, n);
            memset(border, 0, n);
            tcc_reduce_mark_sweep(p, t, NULL, later);
            for (size_t i = 0; i < n; i++) {
                const tcc_expr *x = b->exprs.data[i];
                if (!later[i] || now[i]) continue;
                for (int k = 0; k < x->n_operands; k++) border[x->operands[k]->id] = true;
            }
            for (int i = 0; i < b->stores.count; i++)
                if (!b->stores.data[i].kept && t == tcc_reduce_sweep_of_stores(p))
                    border[b->stores.data[i].value->id] = true;
            for (size_t i = 0; i < n; i++)
                if (b->exprs.data[i]->kind == TCC_EXPR_REDUCE && p->level[b->exprs.data[i]->operands[0]->id] == t)
                    border[b->exprs.data[i]->operands[0]->id] = true;
            for (size_t i = 0; i < n; i++) {
                const tcc_expr *x = b->exprs.data[i];
                const bool loaded = l->target->lane_groups && tcc_reduce_is_of_row(p, x);
                if (!(border[i] || loaded) || !now[i] || !later[i] || !(x->loops >> inner & 1)) continue;
                if (!can_be_kept(l, x) || (bit_of[i] < 0 && p->n_keepable == MOST_KEPT)) continue;
                if (bit_of[i] < 0) bit_of[i] = (signed char)p->n_keepable++;
                const int64_t bit = INT64_C(1) << bit_of[i];
                if (wanted == LOADS ? loaded : wanted == BORDER && border[i] && worth_keeping(l, p, x, seen))
                    *kept |= bit;
                if (*kept & bit && p->slot[i] < 0) add_slot(l, p, x);
            }
        }
    }
    count_words(p, now, later);
    tcc__free(flags);
    return TCC_OK;
}

tcc_status tcc_reduce_choose_slots(tcc_lowering *l, tcc_reduce *p) {
    p->kept_bits = BORDER;
    return find_slots(l, p, &p->kept_bits);
}

bool tcc_reduce_has_room(const tcc_lowering *l, const tcc_reduce *p) {
    enum { RESERVED = 2048 };
    return p->narrow && p->slots_bytes + RESERVED <= l->target->hw.shared_optin_bytes;
}

tcc_status tcc_reduce_choose_shared_slots(tcc_lowering *l, tcc_reduce *p) {
    if (tcc_reduce_has_room(l, p)) return TCC_OK;
    p->kept_bits = LOADS;
    TCC_TRY(find_slots(l, p, &p->kept_bits));
    if (tcc_reduce_has_room(l, p)) return TCC_OK;
    p->kept_bits = 0;
    return find_slots(l, p, &p->kept_bits);
}

tcc_status tcc_reduce_settle_slots(tcc_lowering *l, tcc_reduce *p) {
    if (!p->n_keepable) return TCC_OK;
    const tcc_param_range range = tcc_param_between(0, (INT64_C(1) << p->n_keepable) - 1);
    TCC_TRY(tcc_params_settle(&l->params, TCC_PARAM_KEPT, range, &p->kept_bits));
    return find_slots(l, p, &p->kept_bits);
}
