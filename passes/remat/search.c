/* SPDX-License-Identifier: MIT */
#include "passes/remat/search.h"

#include "ir/support/alloc.h"
#include "passes/fuse/fuse.h"
#include "passes/remat/passing.h"

#include <limits.h>
#include <string.h>

/* -- The user's segments -- */

/* By node: the segment that it belongs to. Autodiff's work on elements of the forward pass alone, as a factor of a
 * gradient that is computed beside its op, belongs to its operands' segment. `factor`: it is such, or forward. */
static void find_segments(const tcc_remat_model *m, int *segment, bool *factor) {
    for (int i = 0; i < m->g->nodes.count; i++) {
        const tcc_node *n = m->g->nodes.data[i];
        segment[i] = n->segment;
        factor[i] = !n->backward || tcc_is_leaf(n) || tcc_is_elementwise(n);
        for (int k = 0; k < n->n_operands; k++) factor[i] &= factor[n->operands[k]->id];
        for (int k = 0; k < n->n_operands && n->backward && factor[i] && !segment[i]; k++)
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
    bool *factor = tcc__calloc((size_t)m->g->nodes.count + 1, sizeof *factor);
    bool *result = tcc__calloc((size_t)m->g->nodes.count + 1, sizeof *result), ok = segment && factor && result;
    if (ok) {
        find_segments(m, segment, factor);
        find_results(m, segment, result);
    }
    for (int v = 0; v < m->plan.values.count && ok; v++) {
        const tcc_node *n = m->plan.values.data[v].node;
        if (!tcc_remat_may_repeat(m, v) || !segment[n->id] || result[n->id]) continue;
        m->again[n->id] = true;
        tcc_remat_evaluate(m);
        ok = tcc_vec_push(out, (tcc_remat_move){v, true, true, m->peak, m->added_ns});
    }
    tcc__free(segment);
    tcc__free(factor);
    tcc__free(result);
    return ok ? TCC_OK : tcc_enomem(diag);
}

/* -- The search -- */

typedef struct search {
    tcc_remat_model *m;
    double *gain; /* by value: bytes for a nanosecond, as last computed */
    double
        *other; /* by value: time that it costs beside its own, as others are no longer evaluated where they are read;
                      0: it was not tried */
    bool *out;  /* by value: taken, or it did not help */
    bool *returned; /* by value: it was computed again, and then it was tried to store it after all */
    tcc_remat_moves *moves;
} search;

/* NULL: of a temporary. */
static const tcc_node *node_of(const search *s, int v) { return s->m->plan.values.data[v].node; }

/* Whether it may be stored so that others are computed again from it. */
static bool is_offered(const search *s, int v) { return s->m->lives[v].followers && !s->m->kept[node_of(s, v)->id]; }

/* Whether the value lies idle in moment `t` and would not, were it computed again. */
static bool is_idle(const search *s, int v, int t) {
    return !s->m->again[node_of(s, v)->id] && s->m->lives[v].early_end < t && t < s->m->needed[v];
}

/* The followers of extra value v that are idle at the peak: their bytes beyond those of the extra value itself. */
static int64_t idle_followers(const search *s, int v) {
    const int *followers = s->m->followers.data + s->m->lives[v].first_follower;
    int64_t bytes = -s->m->plan.values.data[v].size_bytes;
    for (int i = 0; i < s->m->lives[v].followers; i++)
        if (is_idle(s, followers[i], s->m->peak_moment)) bytes += s->m->plan.values.data[followers[i]].size_bytes;
    return bytes;
}

static bool is_option(const search *s, int v) {
    if (s->out[v]) return false;
    return is_offered(s, v) ? idle_followers(s, v) > 0 : is_idle(s, v, s->m->peak_moment);
}

static double gain_of(search *s, int v) {
    tcc_remat_model *m = s->m;
    if (!is_offered(s, v))
        return (double)m->plan.values.data[v].size_bytes / (1 + s->other[v] + tcc_remat_cost(m, &v, 1));
    const int *followers = m->followers.data + m->lives[v].first_follower;
    m->kept[node_of(s, v)->id] = true;
    const double ns = 1 + tcc_remat_cost(m, followers, m->lives[v].followers);
    m->kept[node_of(s, v)->id] = false;
    return (double)idle_followers(s, v) / ns;
}

/* The best option at the peak; -1: none. Gains of before are good guesses, as they change little: the best by them is
 * computed anew, until it stays the best. */
static int best_option(search *s) {
    for (;;) {
        int best = -1;
        for (int v = 0; v < s->m->plan.values.count; v++)
            if (is_option(s, v) && (best < 0 || s->gain[v] > s->gain[best])) best = v;
        if (best < 0) return -1;
        const double before = s->gain[best];
        s->gain[best] = gain_of(s, best);
        if (s->gain[best] >= before * (1 - 1e-9)) return best;
    }
}

static void make_move(tcc_remat_model *m, const tcc_remat_move *move, bool undo) {
    const int id = m->plan.values.data[move->value].node->id;
    if (m->lives[move->value].followers) m->kept[id] = move->again == undo;
    else m->again[id] = move->again != undo;
}

void tcc_remat_make_moves(tcc_remat_model *m, const tcc_remat_moves *moves, int count) {
    memset(m->again, 0, sizeof *m->again * (size_t)m->g->nodes.count);
    memset(m->kept, 0, sizeof *m->kept * (size_t)m->g->nodes.count); /* tcc_remat_keep has moves of its own */
    for (int i = 0; i < count; i++) make_move(m, &moves->data[i], false);
    tcc_remat_evaluate(m);
}

static bool push_move(search *s, int v, bool again) {
    const tcc_remat_move move = {.value = v, .again = again};
    if (!tcc_vec_push(s->moves, move)) return false;
    make_move(s->m, &move, false);
    return true;
}

/* The moves of an option; false if memory is short. */
static bool push_option(search *s, int v) {
    const tcc_remat_life *life = &s->m->lives[v];
    const bool offered = is_offered(s, v);
    bool ok = push_move(s, v, !offered);
    for (int i = 0; i < life->followers && offered && ok; i++) {
        const int follower = s->m->followers.data[life->first_follower + i];
        if (!s->m->again[node_of(s, follower)->id]) ok = push_move(s, follower, true);
    }
    return ok;
}

/* Whether what was tried takes much longer than `ns`, which was thought; it is told once. */
static bool is_dearer(search *s, int v, double ns, double added) {
    if (!s->m->passing[node_of(s, v)->id] || s->other[v] > 0 || added < 1.5 * ns + 1) return false;
    s->other[v] = added - ns;
    return true;
}

/* Takes an option if that lowers what is alive at the peak, and nothing grows beyond it elsewhere. False: memory is
 * short. */
static bool try_option(search *s, int v) {
    tcc_remat_model *m = s->m;
    const int64_t peak = m->peak, alive = m->profile[m->peak_moment];
    const int moment = m->peak_moment, first = s->moves->count;
    const bool offered = is_offered(s, v);
    const double before = m->added_ns, ns = (double)m->plan.values.data[v].size_bytes / s->gain[v];
    if (!push_option(s, v)) return false;
    tcc_remat_save(m);
    tcc_remat_evaluate(m);
    s->out[v] = !is_dearer(s, v, ns, m->added_ns - before);
    if (s->out[v] && m->peak <= peak && m->profile[moment] < alive) {
        tcc_remat_move *last = &s->moves->data[s->moves->count - 1];
        last->whole = true, last->peak = m->peak, last->added_ns = m->added_ns;
        if (!offered) return true;
        s->out[v] = false; /* what is stored now may be computed again later */
        s->gain[v] = gain_of(s, v);
        return true;
    }
    while (s->moves->count > first) make_move(m, &s->moves->data[--s->moves->count], true);
    tcc_remat_restore(m);
    return true;
}

/* Takes options until none helps. False: memory is short. */
static bool take_options(search *s) {
    for (int v = 0; v < s->m->plan.values.count; v++) {
        const bool again = !s->m->lives[v].followers && node_of(s, v) && s->m->again[node_of(s, v)->id];
        s->out[v] = again || s->returned[v] || (!s->m->lives[v].followers && !tcc_remat_may_repeat(s->m, v));
        if (!s->out[v]) s->gain[v] = gain_of(s, v);
    }
    for (int v; (v = best_option(s)) >= 0;)
        if (!try_option(s, v)) return false;
    return true;
}

/* What follows from one another, as the outputs of residual blocks, is computed again at once and lies side by side.
 * Then it helps to store one of them after all, and to compute others again for that. */

/* Whether value v is computed again before the peak and is alive there. */
static bool is_back(const search *s, int v) {
    const tcc_remat_model *m = s->m;
    if (m->lives[v].followers || s->returned[v] || !node_of(s, v)) return false;
    const int id = node_of(s, v)->id;
    return m->again[id] && m->when[id] <= m->peak_moment && m->peak_moment <= m->last[v];
}

static int count_back(const search *s) {
    int count = 0;
    for (int v = 0; v < s->m->plan.values.count; v++) count += is_back(s, v);
    return count;
}

/* Of what is back at the peak, the value with the least peak if it is stored; -1: there is none. A trial looks at the
 * whole graph: where hundreds of values are back, as the states of an unrolled loop, a part of them is tried, which are
 * equally far apart. */
static int best_return(search *s) {
    enum { MOST_TRIALS = 64 };
    tcc_remat_model *m = s->m;
    const int apart = (count_back(s) + MOST_TRIALS - 1) / MOST_TRIALS;
    int64_t least = INT64_MAX;
    int best = -1, back = 0;
    tcc_remat_save(m);
    for (int v = 0; v < m->plan.values.count; v++) {
        if (!is_back(s, v) || back++ % apart) continue;
        const tcc_remat_move stored = {.value = v};
        make_move(m, &stored, false);
        tcc_remat_evaluate(m);
        if (m->peak < least) least = m->peak, best = v;
        make_move(m, &stored, true);
        tcc_remat_restore(m);
    }
    return best;
}

/* Stores value v, and takes what options there are then; unless that lowers the peak, all is as before. False: memory
 * is short. */
static bool try_return(search *s, int v, bool *lower) {
    tcc_remat_model *m = s->m;
    const int64_t peak = m->peak;
    const int first = s->moves->count;
    s->returned[v] = true;
    if (!push_move(s, v, false)) return false;
    tcc_remat_evaluate(m);
    if (!take_options(s)) return false;
    *lower = m->peak < peak;
    for (int i = first; i < s->moves->count && *lower; i++) s->moves->data[i].whole &= s->moves->data[i].peak < peak;
    while (s->moves->count > first && !*lower) make_move(m, &s->moves->data[--s->moves->count], true);
    tcc_remat_evaluate(m);
    return true;
}

static bool search_all(search *s) {
    enum { MOST_IN_VAIN = 8 };
    tcc_remat_evaluate(s->m);
    if (!take_options(s)) return false;
    for (int v, in_vain = 0; in_vain < MOST_IN_VAIN && (v = best_return(s)) >= 0;) {
        bool lower;
        if (!try_return(s, v, &lower)) return false;
        in_vain = lower ? 0 : in_vain + 1;
    }
    return true;
}

tcc_status tcc_remat_list_moves(tcc_remat_model *m, tcc_diag *diag, tcc_remat_moves *out) {
    const size_t count = (size_t)m->plan.values.count + 1;
    search s = {m,
                tcc__calloc(count, sizeof *s.gain),
                tcc__calloc(count, sizeof *s.other),
                tcc__calloc(count, sizeof *s.out),
                tcc__calloc(count, sizeof *s.returned),
                out};
    const bool ok = s.gain && s.other && s.out && s.returned && search_all(&s);
    tcc__free(s.gain);
    tcc__free(s.other);
    tcc__free(s.out);
    tcc__free(s.returned);
    return ok ? TCC_OK : tcc_enomem(diag);
}
