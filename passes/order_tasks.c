/* SPDX-License-Identifier: MIT
 * order: groups as tasks, and which of them wait for which. */
#include "passes/order_tasks.h"

#include "ir/support/alloc.h"
#include "passes/group.h"
#include "passes/launches.h"
#include "passes/plan.h"

#include <string.h>

enum { FEW_BYTES = 64 };

/* What only the making of tasks needs. */
typedef struct maker {
    tcc_tasks *s;
    int *producers;      /* by node */
    int *next_of;        /* by node: of an input, the output that is its next value; -1: none */
    bool *is_state;      /* by node: it is the next value of an input */
    int *seen, searches; /* by group: the last search that met it */
    int *stack;          /* of a search */
    int highest_back;    /* the highest group that a lower one waits for, -1: none does: see reaches */
    tcc_node **inputs;   /* room for those of any group */
} maker;

static uint64_t mix(uint64_t h, uint64_t v) { return (h ^ v) * UINT64_C(0x9E3779B97F4A7C15) + (h >> 29); }

static int last_read(const tcc_implementation *x, const tcc_node *n) {
    int moment = 0;
    for (int i = 0; i < x->n_launches; i++)
        if (tcc_launch_reads(&x->launches[i], n)) moment = tcc_launch_moment(x, i);
    return moment;
}

static int first_write(const tcc_implementation *x, const tcc_node *n) {
    for (int i = 0; i < x->n_launches; i++)
        if (tcc_launch_writes(&x->launches[i], n)) return tcc_launch_moment(x, i);
    return 0;
}

static bool list_overwrites(tcc_tasks *s, const tcc_group *group, tcc_task *task, tcc_node *const *inputs,
                            int n_inputs) {
    bool ok = true;
    for (int i = 0; i < n_inputs; i++)
        for (int k = 0; k < group->n_outputs && s->size_bytes[inputs[i]->id]; k++) {
            const tcc_node *old = inputs[i], *written = group->outputs[k];
            if (s->size_bytes[written->id] != s->size_bytes[old->id]) continue;
            const int moment = first_write(task->launches, written);
            if (last_read(task->launches, old) != moment) continue;
            if (!tcc_moment_overwrites(task->launches, moment, old, written)) continue;
            ok &= tcc_vec_push(&task->over, old->id) && tcc_vec_push(&task->over, written->id) &&
                  tcc_vec_push(&task->over, moment);
        }
    return ok;
}

static bool add_wait(tcc_tasks *s, int first, int then) {
    return tcc_vec_push(&s->data[first].after, then) && tcc_vec_push(&s->data[then].before, first);
}

static bool make_task(maker *m, int t) {
    tcc_tasks *s = m->s;
    const tcc_group *group = &s->g->groups.data[t];
    tcc_task *task = &s->data[t];
    tcc_node **inputs = m->inputs;
    int n_inputs = tcc_group_inputs(group, inputs);
    task->launches = tcc_group_launches(&s->arena, group);
    if (!task->launches) return false;
    task->moments = tcc_launch_moments(task->launches);
    bool ok = true;
    for (int i = 0; i < n_inputs; i++) {
        int id = inputs[i]->id, producer = m->producers[id];
        task->input_bytes += tcc_type_bytes(&inputs[i]->type);
        if (producer < 0) continue;
        s->users[id]++;
        if (s->size_bytes[id])
            ok &= tcc_vec_push(&task->loads, id) &&
                  tcc_vec_push(&task->load_moments, last_read(task->launches, inputs[i]));
        const tcc_ints *after = &s->data[producer].after;
        if (!after->count || after->data[after->count - 1] != t) ok &= add_wait(s, producer, t);
    }
    bool updates = group->kind == TCC_GROUP_POINTWISE;
    int64_t stored_bytes = 0;
    for (int i = 0; i < group->n_outputs; i++) {
        int id = group->outputs[i]->id;
        if (s->size_bytes[id])
            ok &= tcc_vec_push(&task->stores, id) &&
                  tcc_vec_push(&task->store_moments, first_write(task->launches, group->outputs[i]));
        stored_bytes += tcc_type_bytes(&group->outputs[i]->type);
        updates &= m->is_state[id];
    }
    ok &= list_overwrites(s, group, task, inputs, n_inputs);
    task->waits = updates || (group->kind == TCC_GROUP_REDUCE && stored_bytes <= FEW_BYTES);
    task->again = true;
    for (int i = 0; i < group->n_outputs; i++) task->again &= (group->outputs[i]->marks & TCC_MARK_REMAT) != 0;
    task->shape = (uint64_t)group->kind;
    for (int i = 0; i < group->n_nodes; i++) task->shape = mix(task->shape, (uint64_t)group->nodes[i]->op);
    task->shape = mix(task->shape, (uint64_t)n_inputs);
    return ok;
}

/* Whether group `to` waits, however indirectly, for group `from`. Groups stand behind what they read. So a way that
 * leads beyond `to` comes back by one that waits for a higher one, and there is none from above `highest_back`. */
static bool reaches(maker *m, int from, int to) {
    const int highest = to > m->highest_back ? to : m->highest_back;
    int waiting = 0;
    if (from > highest) return false;
    m->searches++;
    m->stack[waiting++] = from;
    m->seen[from] = m->searches;
    while (waiting) {
        const int t = m->stack[--waiting];
        m->s->g->diag->steps += m->s->data[t].after.count;
        const tcc_ints *after = &m->s->data[t].after;
        if (t == to) return true;
        for (int i = 0; i < after->count; i++) {
            const int next = after->data[i];
            if (next > highest || m->seen[next] == m->searches) continue;
            m->seen[next] = m->searches;
            m->stack[waiting++] = next;
        }
    }
    return false;
}

/* The group that stores the next value of an input waits for all readers of the old one, so that the new one may be
 * written in place. It does not wait for readers that need the new value too. */
static bool let_readers_go_first(maker *m, int t) {
    const tcc_graph *g = m->s->g;
    const int n_inputs = tcc_group_inputs(&g->groups.data[t], m->inputs);
    for (int i = 0; i < n_inputs; i++) {
        const int next = m->next_of[m->inputs[i]->id];
        const int writer = next < 0 ? -1 : m->producers[g->outputs.data[next].node->id];
        if (writer < 0 || writer == t || reaches(m, writer, t)) continue;
        if (!add_wait(m->s, t, writer)) return false;
        if (writer < t && t > m->highest_back) m->highest_back = t;
    }
    return true;
}

/* A group that computes values again stands in front of the first that needs one of them. */
static bool sort_program(tcc_tasks *s) {
    const int count = s->g->groups.count;
    int *first = tcc__malloc(sizeof *first * ((size_t)count + 2)); /* by group: where those needed at it begin */
    if (!first) return false;
    for (int t = 0; t <= count + 1; t++) first[t] = 0;
    for (int t = count - 1; t >= 0; t--) {
        tcc_task *task = &s->data[t];
        task->needed_at = task->again ? count : t;
        for (int i = 0; i < task->after.count && task->again; i++)
            if (s->data[task->after.data[i]].needed_at < task->needed_at)
                task->needed_at = s->data[task->after.data[i]].needed_at;
        first[task->needed_at + 1]++;
    }
    for (int t = 0; t <= count; t++) first[t + 1] += first[t];
    for (int t = 0; t < count; t++)
        if (s->data[t].again) s->program[first[s->data[t].needed_at]++] = t;
    for (int t = 0; t < count; t++)
        if (!s->data[t].again) s->program[first[t]++] = t;
    for (int i = 0; i < count; i++) s->place[s->program[i]] = i;
    tcc__free(first);
    return true;
}

static bool list_readers(tcc_tasks *s) {
    const int count = s->g->nodes.count;
    int total = 0;
    for (int t = 0; t < s->g->groups.count; t++) {
        const tcc_ints *loads = &s->data[t].loads;
        for (int i = 0; i < loads->count; i++) s->first_reader[loads->data[i] + 2]++;
        total += loads->count;
    }
    s->readers = tcc__malloc(sizeof *s->readers * ((size_t)total + 1));
    if (!s->readers) return false;
    for (int id = 2; id < count + 2; id++) s->first_reader[id] += s->first_reader[id - 1];
    for (int t = 0; t < s->g->groups.count; t++)
        for (int i = 0; i < s->data[t].loads.count; i++)
            s->readers[s->first_reader[s->data[t].loads.data[i] + 1]++] = t;
    return true;
}

/* What of the stored values is in the arena, and which are new states. Outputs are written where they stay. */
static void measure(maker *m) {
    const tcc_graph *g = m->s->g;
    for (int t = 0; t < g->groups.count; t++)
        for (int i = 0; i < g->groups.data[t].n_outputs; i++)
            m->s->size_bytes[g->groups.data[t].outputs[i]->id] = tcc_plan_size(g->groups.data[t].outputs[i]);
    for (int i = 0; i < g->nodes.count; i++) m->next_of[i] = -1;
    for (int k = 0; k < g->outputs.count; k++) {
        const tcc_output *output = &g->outputs.data[k];
        m->s->size_bytes[output->node->id] = 0;
        if (output->alias < 0) continue;
        m->is_state[output->node->id] = true;
        m->next_of[g->inputs.data[output->alias]->id] = k;
    }
}

static int most_operands(const tcc_graph *g) {
    int most = 1;
    for (int t = 0; t < g->groups.count; t++) {
        int operands = 0;
        for (int i = 0; i < g->groups.data[t].n_nodes; i++) operands += g->groups.data[t].nodes[i]->n_operands;
        if (operands > most) most = operands;
    }
    return most;
}

static bool make_all(maker *m) {
    const tcc_graph *g = m->s->g;
    const size_t nodes = (size_t)g->nodes.count + 1, groups = (size_t)g->groups.count + 1;
    m->producers = tcc_group_producers(g);
    m->next_of = tcc__malloc(sizeof *m->next_of * nodes);
    m->is_state = tcc__calloc(nodes, sizeof *m->is_state);
    m->seen = tcc__calloc(groups, sizeof *m->seen);
    m->stack = tcc__malloc(sizeof *m->stack * groups);
    m->inputs = tcc__malloc(sizeof *m->inputs * (size_t)most_operands(g));
    if (!m->producers || !m->next_of || !m->is_state || !m->seen || !m->stack || !m->inputs) return false;
    bool ok = true;
    measure(m);
    for (int t = 0; ok && t < g->groups.count; t++) ok = make_task(m, t);
    for (int t = 0; ok && t < g->groups.count; t++) ok = let_readers_go_first(m, t);
    return ok && sort_program(m->s) && list_readers(m->s);
}

tcc_status tcc_tasks_create(tcc_tasks *out, const tcc_graph *g) {
    const size_t nodes = (size_t)g->nodes.count + 1, groups = (size_t)g->groups.count + 1;
    *out = (tcc_tasks){.g = g};
    out->data = tcc__calloc(groups, sizeof *out->data);
    out->program = tcc__malloc(sizeof *out->program * groups);
    out->place = tcc__malloc(sizeof *out->place * groups);
    out->size_bytes = tcc__calloc(nodes, sizeof *out->size_bytes);
    out->users = tcc__calloc(nodes, sizeof *out->users);
    out->first_reader = tcc__calloc(nodes + 1, sizeof *out->first_reader);
    maker m = {.s = out, .highest_back = -1};
    const bool ok = out->data && out->program && out->place && out->size_bytes && out->users && out->first_reader &&
                    make_all(&m);
    void *const arrays[] = {m.producers, m.next_of, m.is_state, m.seen, m.stack, m.inputs};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) tcc__free(arrays[i]);
    return ok ? TCC_OK : tcc_enomem(g->diag);
}

void tcc_tasks_free(tcc_tasks *s) {
    for (int t = 0; s->data && t < s->g->groups.count; t++) {
        tcc_task *task = &s->data[t];
        tcc_ints *const lists[] = {&task->loads, &task->stores, &task->load_moments, &task->store_moments,
                                   &task->over,  &task->before, &task->after};
        for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) tcc_vec_free(lists[i]);
    }
    tcc_arena_free(&s->arena);
    void *const arrays[] = {s->data, s->program, s->place, s->size_bytes, s->users, s->first_reader, s->readers};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) tcc__free(arrays[i]);
}
