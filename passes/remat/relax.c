/* SPDX-License-Identifier: MIT */
#include "passes/remat/relax.h"

#include "ir/support/alloc.h"

#include <stdlib.h>

enum { MOST_TRIED = 128 }; /* each takes an evaluation of the model, which is linear in the graph */

typedef struct candidate {
    int value;
    double ns; /* to compute it again */
} candidate;

/* Keeps value v, or computes it again. */
static void keep(tcc_remat_model *m, int v, bool kept) {
    const int id = m->plan.values.data[v].node->id;
    if (m->lives[v].followers) m->kept[id] = kept;
    else m->again[id] = !kept;
}

/* Whether v is computed again. Of a group's extra value and what follows from it the first alone counts: to keep it
 * takes less. */
static bool is_candidate(const tcc_remat_model *m, int v) {
    const tcc_remat_life *life = &m->lives[v];
    if (!m->plan.values.data[v].node) return false;
    if (!life->followers) return life->extra < 0 && m->again[m->plan.values.data[v].node->id];
    bool again = false;
    for (int i = 0; i < life->followers; i++) {
        const int follower = m->followers.data[life->first_follower + i];
        again |= m->again[m->plan.values.data[follower].node->id];
    }
    return again && !m->kept[m->plan.values.data[v].node->id];
}

static int dearest_first(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? 1 : -1;
    return (x->value > y->value) - (x->value < y->value);
}

tcc_status tcc_remat_relax(tcc_remat_model *m, int64_t bytes, tcc_diag *diag, tcc_remat_kept *out) {
    candidate *candidates = tcc__malloc(sizeof *candidates * (size_t)(m->plan.values.count + 1));
    int count = 0;
    bool ok = candidates != NULL;
    out->count = 0;
    tcc_remat_evaluate(m);
    for (int v = 0; v < m->plan.values.count && ok; v++) {
        if (!is_candidate(m, v)) continue;
        const bool again = !m->lives[v].followers;
        if (again) keep(m, v, true); /* or else it costs nothing any more */
        candidates[count++] = (candidate){v, tcc_remat_cost(m, &v, 1)};
        if (again) keep(m, v, false);
    }
    if (count) qsort(candidates, (size_t)count, sizeof *candidates, dearest_first);
    for (int i = 0; i < count && i < MOST_TRIED && ok; i++) {
        const double before = m->added_ns;
        keep(m, candidates[i].value, true);
        tcc_remat_evaluate(m);
        if (m->peak <= bytes && m->added_ns < before) {
            ok = tcc_vec_push(out, candidates[i].value);
            continue;
        }
        keep(m, candidates[i].value, false);
        tcc_remat_evaluate(m);
    }
    tcc__free(candidates);
    return ok ? TCC_OK : tcc_enomem(diag);
}

void tcc_remat_keep(tcc_remat_model *m, const tcc_remat_kept *kept) {
    for (int i = 0; i < kept->count; i++) keep(m, kept->data[i], true);
    tcc_remat_evaluate(m);
}
