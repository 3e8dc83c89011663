/* SPDX-License-Identifier: MIT
 * Dimensions of a contraction in a normal form: without those of one element, in the order of memory, with neighbours
 * merged. The loops of k give the order in which terms are added up. */
#include "codegen/contract/internal.h"
#include "ir/support/hash.h"

#include <stdlib.h>
#include <string.h>

int64_t tcc_contract_extent(const tcc_contract_dims *l) {
    int64_t product = 1;
    for (int i = 0; i < l->n; i++) product *= l->d[i].extent;
    return product;
}

bool tcc_contract_has_window(const tcc_contract_dim *d) {
    for (int v = 0; v < TCC_CONTRACT_MAX_WINDOWS; v++)
        if (d->w[v]) return true;
    return false;
}

bool tcc_contract_have_windows(const tcc_contract_dims *l) {
    for (int i = 0; i < l->n; i++)
        if (tcc_contract_has_window(&l->d[i])) return true;
    return false;
}

/* A k dimension of one element stays if that may lie outside a window. */
void tcc_contract_drop_ones(tcc_contract_dims *l, bool is_k) {
    int kept = 0;
    for (int i = 0; i < l->n; i++)
        if (l->d[i].extent != 1 || (is_k && tcc_contract_has_window(&l->d[i]))) l->d[kept++] = l->d[i];
    l->n = kept;
}

void tcc_contract_swap_operands(tcc_contract_dims *l) {
    for (int i = 0; i < l->n; i++) {
        int64_t a = l->d[i].a, forms[TCC_CONTRACT_MAX_FORMS];
        l->d[i].a = l->d[i].b;
        l->d[i].b = a;
        memcpy(forms, l->d[i].f[0], sizeof forms);
        memcpy(l->d[i].f[0], l->d[i].f[1], sizeof forms);
        memcpy(l->d[i].f[1], forms, sizeof forms);
    }
}

static int64_t weight_of(const tcc_contract_dim *d, tcc_contract_order by) {
    return llabs(by == TCC_CONTRACT_BY_OUTPUT ? d->c[0] : by == TCC_CONTRACT_BY_A ? d->a : d->b);
}

/* Outer to inner by stride. Stable, so that equal strides keep the caller's order. */
void tcc_contract_sort(tcc_contract_dims *l, tcc_contract_order by) {
    for (int i = 1; i < l->n; i++)
        for (int j = i; j > 0 && weight_of(&l->d[j - 1], by) < weight_of(&l->d[j], by); j--) {
            tcc_contract_dim t = l->d[j];
            l->d[j] = l->d[j - 1];
            l->d[j - 1] = t;
        }
}

static uint64_t hash_loop(uint64_t hash, const tcc_contract_dim *d) {
    return tcc_hash_add(tcc_hash_add(tcc_hash_add(hash, d->turned), (uint64_t)d->apart), (uint64_t)d->extent);
}

/* Two neighbours that are one loop for every access become one. */
void tcc_contract_merge(tcc_contract_dims *l, int n_accesses) {
    for (int i = l->n - 2; i >= 0; i--) {
        tcc_contract_dim *outer = &l->d[i], *inner = &l->d[i + 1];
        bool same = outer->a == inner->a * inner->extent && outer->b == inner->b * inner->extent;
        for (int x = 0; x < n_accesses; x++) same = same && outer->c[x] == inner->c[x] * inner->extent;
        for (int v = 0; v < TCC_CONTRACT_MAX_WINDOWS; v++) same = same && outer->w[v] == inner->w[v] * inner->extent;
        if (!same) continue;
        if (outer->apart != inner->apart * inner->extent || outer->turned) {
            inner->turned = hash_loop(hash_loop(0, inner), outer);
            inner->apart = 0;
        }
        inner->extent *= outer->extent;
        memmove(outer, inner, sizeof *outer * (size_t)(l->n - i - 1));
        l->n--;
    }
}

static void number_terms(tcc_contract_dims *k) {
    int64_t apart = 1;
    for (int i = k->n - 1; i >= 0; apart *= k->d[i--].extent) k->d[i].apart = apart, k->d[i].turned = 0;
}

/* The order in which the loops of k go through the terms; 0: as the op has them. Not `merged`: neighbours that do so
 * are one loop. */
static int64_t hash_of_loops(const tcc_contract_dims *k, bool merged) {
    tcc_contract_dim loop = {.extent = 1, .apart = 1};
    uint64_t hash = 0;
    for (int i = k->n - 1, n = 0; i >= 0; i--) {
        const tcc_contract_dim *d = &k->d[i];
        if (n && !merged && !d->turned && d->apart == loop.apart * loop.extent) {
            loop.extent *= d->extent;
            continue;
        }
        if (n++) hash = hash_loop(hash, &loop);
        loop = *d;
    }
    return !hash && loop.apart == 1 ? 0 : (int64_t)(hash_loop(hash, &loop) >> 2) | 1;
}

static int64_t arrange(tcc_contract_dims *k, tcc_contract_order by, int n_accesses) {
    tcc_contract_sort(k, by);
    if (n_accesses) tcc_contract_merge(k, n_accesses);
    return hash_of_loops(k, n_accesses > 0);
}

tcc_status tcc_contract_settle_k(tcc_contract_dims *k, int n_accesses, tcc_param ordering, tcc_params *params) {
    bool a = false, b = false;
    number_terms(k);
    tcc_contract_drop_ones(k, n_accesses > 0);
    for (int i = 0; i < k->n; i++) a = a || k->d[i].a == 1, b = b || k->d[i].b == 1;
    const tcc_contract_order by = b && !a ? TCC_CONTRACT_BY_B : TCC_CONTRACT_BY_A;
    tcc_contract_dims other = *k;
    int64_t loops = arrange(k, by, n_accesses);
    const tcc_param_range any = tcc_param_between(INT64_MIN, INT64_MAX); /* it is compared, and nothing else */
    const int64_t *chosen = params ? tcc_params_chosen(params, TCC_PARAM_LOOPS_OF_K, any) : NULL;
    const bool follows = chosen || (params && tcc_params_has(params, ordering));
    const int64_t wanted = chosen ? *chosen : 0;
    if (follows && loops != wanted &&
        arrange(&other, by == TCC_CONTRACT_BY_A ? TCC_CONTRACT_BY_B : TCC_CONTRACT_BY_A, n_accesses) == wanted) {
        *k = other;
        loops = wanted;
    }
    if (follows && loops != wanted)
        return tcc_params_refuse(params, TCC_PARAM_LOOPS_OF_K, wanted, "%lld", (long long)loops);
    return loops ? tcc_params_settle(params, TCC_PARAM_LOOPS_OF_K, tcc_param_between(loops, loops), &loops) : TCC_OK;
}
