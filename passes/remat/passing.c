/* SPDX-License-Identifier: MIT */
#include "passes/remat/passing.h"

#include "ir/collective.h"
#include "ir/support/alloc.h"
#include "passes/fuse/fuse.h"
#include "passes/group.h"
#include "passes/select.h"

#include <limits.h>

enum {
    MOST_READS = 10,   /* tensors that a value is evaluated from */
    MOST_REPEATS = 32, /* of an operand that a contraction computes; fuse weighs it exactly */
};

/* Values that are smaller than this part of the peak stay: they would save nothing, and most are statistics of rows,
 * from which much else is computed. */
static const double small_part = 1.0 / 2000;

/* -- Which values are there -- */

bool tcc_remat_may_repeat(const tcc_remat_model *m, int value) {
    const tcc_plan_value *v = &m->plan.values.data[value];
    const tcc_remat_life *life = &m->lives[value];
    return v->node && !m->late[v->node->id] && !life->stays && life->early_end >= 0 && life->late_begin != INT_MAX &&
           (double)v->size_bytes > small_part * (double)m->plan.peak_bytes;
}

bool tcc_remat_available(const tcc_remat_model *m, const tcc_node *n) {
    if (tcc_is_leaf(n) || tcc_op_is_collective(n->op) || m->kept[n->id]) return true;
    if (m->made_by[n->id] >= 0 && m->again[m->made_by[n->id]]) return false;
    if (!m->stored[n->id] || m->again[n->id]) return false;
    const int v = m->value_of[n->id];
    if (v < 0 || m->lives[v].late_begin != INT_MAX) return true; /* in a binding, or kept for late work */
    return (double)m->plan.values.data[v].size_bytes <= small_part * (double)m->plan.peak_bytes;
}

bool tcc_remat_is_read_early(const tcc_remat_model *m, int value) {
    return m->lives[value].early_end > m->plan.values.data[value].first;
}

/* -- Which values may pass -- */

/* Whether late group t can evaluate operand k of its node `reader` instead of loading it. */
static bool evaluates(tcc_remat_model *m, const tcc_pass_target *target, int t, tcc_node *reader, int k) {
    const tcc_group *group = &m->g->groups.data[t];
    tcc_operand_work work = {0};
    if (group->kind == TCC_GROUP_POINTWISE || group->kind == TCC_GROUP_REDUCE)
        return tcc_fusion_of(reader) != TCC_FUSION_INDEX;
    if (group->kind != TCC_GROUP_CONTRACT) return false;
    if (reader != group->hero) return tcc_fusion_of(reader) == TCC_FUSION_POINT;
    if (reader->op == TCC_OP_DOT || reader->attrs->conv.groups > 1 || k > 1) return false;
    if (!target || !target->computes_operand) return false;
    if (!target->computes_operand(target->user, m->g, reader, k, &work) || work.repeats > MOST_REPEATS) return false;
    m->computes[t] = work;
    return true;
}

/* Early work that a late group reads. */
static bool is_read(const tcc_remat_model *m, const tcc_group *group, const tcc_node *x) {
    return !tcc_is_leaf(x) && !m->late[x->id] && !tcc_group_has(group, x);
}

static bool is_late_group(const tcc_remat_model *m, int t) { return m->plan.start[t] > m->plan.peak_moment; }

/* Tensors that the kernel of group t may access beyond those that it does. */
static int room_of(const tcc_remat_model *m, int t) {
    const tcc_group *group = &m->g->groups.data[t];
    const tcc_node *inputs[TCC_FUSE_MAX_INPUTS];
    const bool contract = group->kind == TCC_GROUP_CONTRACT;
    int count = 0;
    for (int i = 0; i < group->n_nodes; i++)
        for (int k = 0; k < group->nodes[i]->n_operands; k++) {
            const tcc_node *x = group->nodes[i]->operands[k];
            int at = 0;
            if (x->op == TCC_OP_CONSTANT || tcc_group_has(group, x)) continue;
            while (at < count && inputs[at] != x) at++;
            if (at == TCC_FUSE_MAX_INPUTS) return 0;
            if (at == count) inputs[count++] = x;
        }
    return contract ? TCC_GROUP_MAX_ACCESSES - count - group->n_outputs : TCC_FUSE_MAX_INPUTS - count;
}

/* Of a contraction, the times of the launch that writes its result and waits for arithmetic least: what it reads beside
 * its operands is free while it does wait. */
static tcc_remat_times times_of_contraction(const tcc_remat_model *m, const tcc_implementation *x) {
    tcc_remat_times least = {0};
    bool found = false;
    for (int i = 0; i < x->n_launches; i++) {
        const tcc_launch *launch = &x->launches[i];
        const double traffic = m->ns_per_byte * (double)launch->bytes, ns = (double)launch->ns;
        const tcc_remat_times times = {traffic < ns ? traffic : ns, ns};
        bool result = false;
        for (int k = 0; k < launch->n_writes; k++) result |= launch->writes[k].node != NULL;
        if (!result || (found && ns - times.traffic >= least.work - least.traffic)) continue;
        least = times;
        found = true;
    }
    return least;
}

static tcc_remat_times times_of(const tcc_remat_model *m, int t) {
    const tcc_group *group = &m->g->groups.data[t];
    const tcc_implementation *x = group->implementation;
    tcc_remat_times times = {0};
    if (x && group->kind == TCC_GROUP_CONTRACT) return times_of_contraction(m, x);
    for (int i = 0; x && i < x->n_launches; i++) times.traffic += m->ns_per_byte * (double)x->launches[i].bytes;
    for (int i = 0; i < group->n_nodes; i++)
        if (tcc_is_elementwise(group->nodes[i])) times.work += m->node_ns[group->nodes[i]->id];
    return times;
}

/* Lists what group t reads of early work and leaves, and the group among the readers of what may pass. False: memory is
 * short. */
static bool list_reader(tcc_remat_model *m, int t) {
    const tcc_group *group = &m->g->groups.data[t];
    bool ok = true;
    m->stamp++;
    for (int i = 0; i < group->n_nodes; i++)
        for (int k = 0; k < group->nodes[i]->n_operands; k++) {
            const tcc_node *x = group->nodes[i]->operands[k];
            if (m->mark[x->id] == m->stamp || (m->late[x->id] && !tcc_is_leaf(x))) continue;
            m->mark[x->id] = m->stamp;
            ok &= tcc_vec_push(&m->inputs, x);
            if (!m->passing[x->id] || !is_read(m, group, x)) continue;
            ok &= tcc_vec_push(&m->readers, ((tcc_remat_reader){t, m->last_reader[x->id], 0}));
            m->last_reader[x->id] = m->readers.count - 1;
        }
    return ok;
}

tcc_status tcc_remat_find_passing(tcc_remat_model *m, const tcc_pass_target *target, tcc_diag *diag) {
    const tcc_graph *g = m->g;
    bool ok = true;
    for (int i = 0; i < g->nodes.count; i++)
        m->passing[i] = m->stored[i] && !m->late[i] && !m->beside[i] &&
                        tcc_fusion_of(g->nodes.data[i]) == TCC_FUSION_POINT;
    for (int i = 0; i < g->outputs.count; i++) m->passing[g->outputs.data[i].node->id] = false;
    for (int t = 0; t < g->groups.count; t++) {
        const tcc_group *group = &g->groups.data[t];
        for (int i = 0; i < group->n_nodes && is_late_group(m, t); i++)
            for (int k = 0; k < group->nodes[i]->n_operands; k++) {
                const tcc_node *x = group->nodes[i]->operands[k];
                if (m->passing[x->id] && is_read(m, group, x))
                    m->passing[x->id] = evaluates(m, target, t, group->nodes[i], k);
            }
    }
    for (int t = 0; t < g->groups.count && ok; t++) {
        if (is_late_group(m, t)) ok = list_reader(m, t), m->room[t] = room_of(m, t), m->times[t] = times_of(m, t);
        m->first_input[t + 1] = m->inputs.count;
    }
    return ok ? TCC_OK : tcc_enomem(diag);
}

/* -- What it takes -- */

/* Whether late work loads `n`, if it needs it. */
static bool is_loaded(const tcc_remat_model *m, const tcc_node *n) {
    if (tcc_remat_available(m, n)) return true;
    if (m->again[n->id]) return !m->passes[n->id] || m->read_again[n->id];
    return m->stored[n->id] && m->when[n->id] != INT_MAX;
}

/* Begins with what late group t loads anyway. Its stamp. */
static int enter_group(tcc_remat_model *m, int t) {
    const int stamp = ++m->stamp;
    for (int i = m->first_input[t]; i < m->first_input[t + 1]; i++) {
        const tcc_node *x = m->inputs.data[i];
        if (is_loaded(m, x)) m->mark[x->id] = stamp;
    }
    return stamp;
}

/* What a value is evaluated from, and takes. */
typedef struct evaluation {
    double work_ns, loaded, all; /* bytes: of what the group does not load anyway, and of all */
    int reads, more;             /* tensors: all, and what the group does not load anyway */
    bool elementwise;            /* no contraction, reduction or the like is done again */
    bool fits;                   /* a contraction that computes the value as an operand may do all of it */
    bool whole;                  /* it is no more than a kernel holds; else this is the part that was looked at */
} evaluation;

/* What a contraction of group t computes an operand by, if it may compute `x` as one; else NULL. */
static const tcc_operand_work *operand_work(const tcc_remat_model *m, int t, const tcc_node *x) {
    const tcc_group *group = &m->g->groups.data[t];
    const tcc_node *hero = group->hero;
    const bool computed = group->kind == TCC_GROUP_CONTRACT && (hero->operands[0] == x || hero->operands[1] == x);
    return computed ? &m->computes[t] : NULL;
}

/* Of `x`, by group t that was entered with `stamp`; t < 0: by any. Behind what no kernel holds may be the whole forward
 * pass. */
static evaluation evaluate(tcc_remat_model *m, int t, int stamp, const tcc_node *x) {
    const tcc_operand_work *work = t < 0 ? NULL : operand_work(m, t, x);
    const char *reason;
    const int walk = ++m->stamp;
    evaluation e = {.elementwise = true, .fits = true};
    int waiting = 0, nodes = 0;
    m->mark[x->id] = walk;
    m->stack[waiting++] = x;
    while (waiting && nodes++ < TCC_FUSE_MAX_NODES) {
        const tcc_node *n = m->stack[--waiting];
        e.elementwise &= tcc_is_elementwise(n);
        e.fits &= !work || tcc_is_operand_work(work, n, &reason);
        e.work_ns += m->node_ns[n->id];
        for (int k = 0; k < n->n_operands; k++) {
            const tcc_node *y = n->operands[k];
            const bool known = m->mark[y->id] >= stamp;
            if (m->mark[y->id] == walk || y->op == TCC_OP_CONSTANT) continue;
            m->mark[y->id] = walk;
            if (!is_loaded(m, y)) {
                if (!known) m->stack[waiting++] = y;
                continue;
            }
            e.reads++;
            e.all += (double)tcc_type_bytes(&y->type);
            e.more += !known;
            if (!known) e.loaded += (double)tcc_type_bytes(&y->type);
        }
    }
    e.whole = !waiting;
    return e;
}

/* Adds to *more what group t, entered with an evaluation of its operand `x`, has to do to evaluate that instead of
 * loading it. Of operands that contractions compute the time is returned: it was measured as a whole. */
static double add_evaluation(const tcc_remat_model *m, int t, const tcc_node *x, const evaluation *e,
                             tcc_remat_times *more) {
    const double own = (double)tcc_type_bytes(&x->type), loaded = e->loaded - own;
    const tcc_operand_work *work = operand_work(m, t, x);
    if (!work) {
        more->traffic += m->ns_per_byte * loaded;
        more->work += e->work_ns;
        return 0;
    }
    const double repeats = (double)work->repeats, cached = tcc_traffic_of(&m->costs, m->costs.cached_byte_ns);
    const double again = e->all > own ? cached * (repeats - 1) * (e->all - own) : 0;
    return tcc_costs_operand_part(&m->costs, x->type.dtype) *
           (repeats * e->work_ns + m->ns_per_byte * (loaded + again));
}

static double longer(tcc_remat_times x) { return x.traffic > x.work ? x.traffic : x.work; }

/* By how much longer group t takes. */
static double added_to(const tcc_remat_model *m, int t, tcc_remat_times more) {
    const tcc_remat_times own = m->times[t], all = {own.traffic + more.traffic, own.work + more.work};
    return longer(all) - longer(own);
}

/* Whether the kernel of group t can do an evaluation in place of loading its value. */
static bool fits(const tcc_remat_model *m, int t, const evaluation *e) {
    return e->whole && e->fits && e->reads <= MOST_READS && e->more - 1 <= m->left[t];
}

void tcc_remat_pass(tcc_remat_model *m, const tcc_node *n) {
    bool passes = m->passing[n->id];
    for (int r = m->last_reader[n->id]; r >= 0 && passes; r = m->readers.data[r].next) {
        tcc_remat_reader *reader = &m->readers.data[r];
        const evaluation e = evaluate(m, reader->group, enter_group(m, reader->group), n);
        passes = e.elementwise && fits(m, reader->group, &e);
        reader->more = e.more - 1;
    }
    for (int r = m->last_reader[n->id]; r >= 0 && passes; r = m->readers.data[r].next)
        m->left[m->readers.data[r].group] -= m->readers.data[r].more;
    m->passes[n->id] = passes;
}

double tcc_remat_loading_ns(tcc_remat_model *m, const tcc_node *n) {
    const int stamp = ++m->stamp;
    return m->ns_per_byte * evaluate(m, -1, stamp, n).loaded;
}

/* What is saved early: to store a value that early work does not read. */
static double spared_ns(const tcc_remat_model *m, const tcc_node *n) {
    const int v = m->value_of[n->id];
    return v >= 0 && tcc_remat_is_read_early(m, v) ? 0 : m->ns_per_byte * (double)tcc_type_bytes(&n->type);
}

double tcc_remat_passing_ns(tcc_remat_model *m) {
    double ns = 0;
    for (int t = 0; t < m->g->groups.count; t++) {
        const tcc_group *group = &m->g->groups.data[t];
        tcc_remat_times more = {0};
        int stamp = 0;
        if (!is_late_group(m, t)) continue;
        for (int i = 0; i < group->n_nodes; i++)
            for (int k = 0; k < group->nodes[i]->n_operands; k++) {
                const tcc_node *x = group->nodes[i]->operands[k];
                if (!m->again[x->id] || !is_read(m, group, x) || is_loaded(m, x)) continue;
                if (!stamp) stamp = enter_group(m, t);
                if (m->mark[x->id] >= stamp) continue;
                const evaluation e = evaluate(m, t, stamp, x);
                ns += add_evaluation(m, t, x, &e, &more);
            }
        ns += added_to(m, t, more);
    }
    for (int i = 0; i < m->g->nodes.count; i++) {
        const tcc_node *n = m->g->nodes.data[i];
        if (m->again[i] && !is_loaded(m, n)) ns -= spared_ns(m, n);
    }
    return ns;
}

bool tcc_remat_passing_cost(tcc_remat_model *m, const tcc_node *n, double *ns) {
    double total = -spared_ns(m, n);
    const bool again = m->again[n->id];
    bool few = true;
    m->again[n->id] = true;
    for (int r = m->last_reader[n->id]; r >= 0 && few; r = m->readers.data[r].next) {
        const int t = m->readers.data[r].group;
        const evaluation e = evaluate(m, t, enter_group(m, t), n);
        tcc_remat_times more = {0};
        total += add_evaluation(m, t, n, &e, &more);
        total += added_to(m, t, more);
        few = fits(m, t, &e);
    }
    m->again[n->id] = again;
    *ns = total > 0 ? total : 0;
    return few;
}
