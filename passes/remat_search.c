/* SPDX-License-Identifier: MIT */
#include "passes/remat_search.h"

#include "ir/support/alloc.h"

#include <limits.h>

/* -- The user's segments -- */

/* By node: the segment that it belongs to. What autodiff made of early nodes - a gradient's factor that is computed
 * beside its op - belongs to theirs. */
static void find_segments(const tcc_remat_model *m, int *segment) {
    for (int i = 0; i < m->g->nodes.count; i++) {
        const tcc_node *n = m->g->nodes.data[i];
        segment[i] = n->segment;
        for (int k = 0; k < n->n_operands && n->backward && !m->late[i] && !segment[i]; k++)
            segment[i] = segment[n->operands[k]->id];
    }
}

/* By node: early work of another segment reads it, or what is not stored and computed from it. */
static void find_results(const tcc_remat_model *m, const int *segment, bool *result) {
    for (int i = m->g->nodes.count - 1; i >= 0; i--) {
        const tcc_node *n = m->g->nodes.data[i];
        for (int k = 0; k < n->n_operands && !m->late[i]; k++) {
            const int x = n->operands[k]->id;
            result[x] |= segment[x] == segment[i] ? result[i] && !m->stored[i] : !n->backward;
        }
    }
}

tcc_status tcc_remat_list_segments(tcc_remat_model *m, tcc_diag *diag, tcc_remat_moves *out) {
    int *segment = tcc__malloc(sizeof *segment * (size_t)(m->g->nodes.count + 1));
    bool *result = tcc__calloc((size_t)m->g->nodes.count + 1, sizeof *result), ok = segment && result;
    if (ok) {
        find_segments(m, segment);
        find_results(m, segment, result);
    }
    for (int v = 0; v < m->plan.values.count && ok; v++) {
        const tcc_node *n = m->plan.values.data[v].node;
        if (!tcc_remat_may_repeat(m, v) || !segment[n->id] || result[n->id]) continue;
        m->again[n->id] = true;
        tcc_remat_evaluate(m);
        ok = tcc_vec_push(out, (tcc_remat_move){v, m->peak, m->added_ns});
    }
    tcc__free(segment);
    tcc__free(result);
    return ok ? TCC_OK : tcc_enomem(diag);
}

/* -- The search -- */

/* What the search remembers of each value. */
typedef struct option {
    double gain; /* bytes for a nanosecond, as last computed */
    bool out;    /* taken, or it did not help */
} option;

/* Whether the value lies idle in moment `t` and would not, were it computed again. */
static bool is_idle(const tcc_remat_model *m, int v, int t) { return m->lives[v].early_end < t && t < m->needed[v]; }

static double gain_of(tcc_remat_model *m, int v) {
    const tcc_plan_value *value = &m->plan.values.data[v];
    return (double)value->size_bytes / (1 + tcc_remat_cost(m, value->node));
}

/* The best value to compute again at the peak; -1: none. Gains of before are good guesses, as they change little: the
 * best by them is computed anew, until it stays the best. */
static int best_option(tcc_remat_model *m, option *options) {
    for (;;) {
        int best = -1;
        for (int v = 0; v < m->plan.values.count; v++) {
            if (options[v].out || !is_idle(m, v, m->peak_moment)) continue;
            if (best < 0 || options[v].gain > options[best].gain) best = v;
        }
        if (best < 0) return -1;
        const double before = options[best].gain;
        options[best].gain = gain_of(m, best);
        if (options[best].gain >= before * (1 - 1e-9)) return best;
    }
}

/* Adds a value to the set if that lowers what is alive at the peak, and nothing grows beyond it elsewhere. */
static bool try_option(tcc_remat_model *m, int v) {
    const int64_t peak = m->peak, alive = m->profile[m->peak_moment];
    const int moment = m->peak_moment;
    m->again[m->plan.values.data[v].node->id] = true;
    tcc_remat_evaluate(m);
    if (m->peak <= peak && m->profile[moment] < alive) return true;
    m->again[m->plan.values.data[v].node->id] = false;
    tcc_remat_evaluate(m);
    return false;
}

tcc_status tcc_remat_list_moves(tcc_remat_model *m, tcc_diag *diag, tcc_remat_moves *out) {
    option *options = tcc__calloc((size_t)m->plan.values.count + 1, sizeof *options);
    if (!options) return tcc_enomem(diag);
    tcc_remat_evaluate(m);
    for (int v = 0; v < m->plan.values.count; v++) {
        options[v].out = !tcc_remat_may_repeat(m, v) || m->again[m->plan.values.data[v].node->id];
        if (!options[v].out) options[v].gain = gain_of(m, v);
    }
    bool ok = true;
    for (int v; ok && (v = best_option(m, options)) >= 0;) {
        options[v].out = true;
        if (!try_option(m, v)) continue;
        ok = tcc_vec_push(out, (tcc_remat_move){v, m->peak, m->added_ns});
    }
    tcc__free(options);
    return ok ? TCC_OK : tcc_enomem(diag);
}
