/* SPDX-License-Identifier: MIT
 * What order has to schedule. */
#include "passes/memory/tasks.h"

#include "ir/support/alloc.h"
#include "passes/group.h"
#include "passes/memory/launches.h"
#include "passes/memory/plan.h"

typedef struct maker {
    tcc_order_tasks *tasks;
    int *next_of;        /* by node: of an input, the output that is its next value; -1: none */
    bool *is_state;      /* by node: it is the next value of an input */
    int *seen, searches; /* by group: the last search that met it */
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

static bool list_overwrites(maker *s, const tcc_group *group, tcc_order_task *task, tcc_node *const *inputs,
                            int n_inputs) {
    bool ok = true;
    for (int i = 0; i < n_inputs; i++)
        for (int k = 0; k < group->n_outputs && s->tasks->size_bytes[inputs[i]->id]; k++) {
            const tcc_node *old = inputs[i], *written = group->outputs[k];
            if (s->tasks->size_bytes[written->id] != s->tasks->size_bytes[old->id]) continue;
            const int moment = first_write(task->launches, written);
            if (last_read(task->launches, old) != moment) continue;
            if (!tcc_moment_overwrites(task->launches, moment, old, written)) continue;
            ok &= tcc_vec_push(&task->over, old->id) && tcc_vec_push(&task->over, written->id) &&
                  tcc_vec_push(&task->over, moment);
        }
    return ok;
}

static bool make_task(maker *s, int t, const int *producers, tcc_node **inputs) {
    const tcc_graph *g = s->tasks->g;
    const tcc_group *group = &g->groups.data[t];
    tcc_order_task *task = &s->tasks->of[t];
    int n_inputs = tcc_group_inputs(group, inputs);
    task->launches = tcc_group_launches(&s->tasks->arena, group);
    if (!task->launches) return false;
    task->moments = tcc_launch_moments(task->launches);
    bool ok = true;
    for (int i = 0; i < n_inputs; i++) {
        int id = inputs[i]->id, producer = producers[id];
        task->input_bytes += tcc_type_bytes(&inputs[i]->type);
        if (producer < 0) continue;
        s->tasks->users[id]++;
        if (s->tasks->size_bytes[id])
            ok &= tcc_vec_push(&task->loads, id) &&
                  tcc_vec_push(&task->load_moments, last_read(task->launches, inputs[i]));
        tcc_order_task *source = &s->tasks->of[producer];
        if (source->after.count && source->after.data[source->after.count - 1] == t) continue;
        ok &= tcc_vec_push(&source->after, t);
        task->waits_for++;
    }
    bool updates = group->kind == TCC_GROUP_POINTWISE;
    for (int i = 0; i < group->n_outputs; i++) {
        int id = group->outputs[i]->id;
        if (s->tasks->size_bytes[id])
            ok &= tcc_vec_push(&task->stores, id) &&
                  tcc_vec_push(&task->store_moments, first_write(task->launches, group->outputs[i]));
        updates &= s->is_state[id];
    }
    ok &= list_overwrites(s, group, task, inputs, n_inputs);
    task->waits = updates || tcc_group_is_small_sum(group);
    task->again = true;
    for (int i = 0; i < group->n_outputs; i++) task->again &= (group->outputs[i]->marks & TCC_MARK_REMAT) != 0;
    task->shape = (uint64_t)group->kind;
    for (int i = 0; i < group->n_nodes; i++) task->shape = mix(task->shape, (uint64_t)group->nodes[i]->op);
    task->shape = mix(task->shape, (uint64_t)n_inputs);
    return ok;
}

/* Whether group `to` waits, however indirectly, for group `from`. Groups that are seen get the number `search`. */
static bool reaches(const maker *s, int from, int to, int search) {
    if (from == to) return true;
    s->seen[from] = search;
    const tcc_order_ids *after = &s->tasks->of[from].after;
    for (int i = 0; i < after->count; i++)
        if (s->seen[after->data[i]] != search && reaches(s, after->data[i], to, search)) return true;
    return false;
}

/* The group that stores the next value of an input waits for all readers of the old one, so that the new one may be
 * written in place. It does not wait for readers that need the new value too. */
static bool let_readers_go_first(maker *s, int t, const int *producers, tcc_node **inputs) {
    const tcc_graph *g = s->tasks->g;
    int n_inputs = tcc_group_inputs(&g->groups.data[t], inputs);
    for (int i = 0; i < n_inputs; i++) {
        const int next = s->next_of[inputs[i]->id], writer = next < 0 ? -1 : producers[g->outputs.data[next].node->id];
        if (writer < 0 || writer == t) continue;
        if (reaches(s, writer, t, ++s->searches)) continue;
        if (!tcc_vec_push(&s->tasks->of[t].after, writer)) return false;
        s->tasks->of[writer].waits_for++;
    }
    return true;
}

/* Sets task->soon and task->late, once all tasks are there. Neither waits for its like. */
static void find_collectives(maker *s) {
    const tcc_graph *g = s->tasks->g;
    for (int t = g->groups.count - 1; t >= 0; t--) {
        tcc_order_task *task = &s->tasks->of[t];
        const bool is_collective = g->groups.data[t].kind == TCC_GROUP_COLLECTIVE;
        bool only = task->after.count > 0;
        for (int i = 0; i < task->after.count; i++) {
            only &= s->tasks->of[task->after.data[i]].soon;
            s->tasks->of[task->after.data[i]].late |= is_collective;
        }
        task->soon = is_collective || only;
    }
    for (int t = 0; t < g->groups.count; t++) {
        s->tasks->of[t].late &= !s->tasks->of[t].soon;
        s->tasks->of[t].waits &= !s->tasks->of[t].late && !s->tasks->of[t].soon;
    }
}

/* Fills s->tasks->program. */
static bool sort_program(maker *s) {
    const int count = s->tasks->g->groups.count;
    int *first = tcc__malloc(sizeof *first * ((size_t)count + 2)); /* by group: where those needed at it begin */
    if (!first) return false;
    for (int t = 0; t <= count + 1; t++) first[t] = 0;
    for (int t = count - 1; t >= 0; t--) {
        tcc_order_task *task = &s->tasks->of[t];
        task->needed_at = task->again ? count : t;
        for (int i = 0; i < task->after.count && task->again; i++)
            if (s->tasks->of[task->after.data[i]].needed_at < task->needed_at)
                task->needed_at = s->tasks->of[task->after.data[i]].needed_at;
        first[task->needed_at + 1]++;
    }
    for (int t = 0; t <= count; t++) first[t + 1] += first[t];
    for (int t = 0; t < count; t++)
        if (s->tasks->of[t].again) s->tasks->program[first[s->tasks->of[t].needed_at]++] = t;
    for (int t = 0; t < count; t++)
        if (!s->tasks->of[t].again) s->tasks->program[first[t]++] = t;
    for (int i = 0; i < count; i++) s->tasks->place[s->tasks->program[i]] = i;
    tcc__free(first);
    return true;
}

/* What of the stored values is in the arena, and which are new states. Outputs are written where they stay. */
static void measure(maker *s) {
    const tcc_graph *g = s->tasks->g;
    for (int t = 0; t < g->groups.count; t++)
        for (int i = 0; i < g->groups.data[t].n_outputs; i++)
            s->tasks->size_bytes[g->groups.data[t].outputs[i]->id] = tcc_plan_size(g->groups.data[t].outputs[i]);
    for (int i = 0; i < g->nodes.count; i++) s->next_of[i] = -1;
    for (int k = 0; k < g->outputs.count; k++) {
        const tcc_output *output = &g->outputs.data[k];
        s->tasks->size_bytes[output->node->id] = 0;
        if (output->alias < 0) continue;
        s->is_state[output->node->id] = true;
        s->next_of[g->inputs.data[output->alias]->id] = k;
    }
}

static int most_inputs(const tcc_graph *g) {
    int most = 1;
    for (int t = 0; t < g->groups.count; t++) {
        int operands = 0;
        for (int i = 0; i < g->groups.data[t].n_nodes; i++) operands += g->groups.data[t].nodes[i]->n_operands;
        if (operands > most) most = operands;
    }
    return most;
}

tcc_status tcc_order_tasks_create(const tcc_graph *g, tcc_order_tasks *out) {
    const size_t nodes = (size_t)g->nodes.count + 1, groups = (size_t)g->groups.count + 1;
    *out = (tcc_order_tasks){.g = g};
    out->of = tcc__calloc(groups, sizeof *out->of);
    out->size_bytes = tcc__calloc(nodes, sizeof *out->size_bytes);
    out->users = tcc__calloc(nodes, sizeof *out->users);
    out->program = tcc__malloc(sizeof *out->program * groups);
    out->place = tcc__malloc(sizeof *out->place * groups);
    maker s = {.tasks = out};
    s.seen = tcc__calloc(groups, sizeof *s.seen);
    s.next_of = tcc__malloc(sizeof *s.next_of * nodes);
    s.is_state = tcc__calloc(nodes, sizeof *s.is_state);
    int *producers = tcc_group_producers(g);
    tcc_node **inputs = tcc__malloc(sizeof *inputs * (size_t)most_inputs(g));
    bool ok = out->of && out->size_bytes && out->users && out->program && out->place && s.seen && s.next_of &&
              s.is_state && producers && inputs;
    if (ok) measure(&s);
    for (int t = 0; ok && t < g->groups.count; t++) ok = make_task(&s, t, producers, inputs);
    for (int t = 0; ok && t < g->groups.count; t++) ok = let_readers_go_first(&s, t, producers, inputs);
    if (ok) find_collectives(&s);
    ok = ok && sort_program(&s);
    void *const arrays[] = {s.seen, s.next_of, s.is_state, producers, inputs};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) tcc__free(arrays[i]);
    return ok ? TCC_OK : tcc_enomem(g->diag);
}

void tcc_order_tasks_destroy(tcc_order_tasks *tasks) {
    for (int t = 0; tasks->of && t < tasks->g->groups.count; t++) {
        tcc_order_task *task = &tasks->of[t];
        tcc_order_ids *const ids[] = {&task->loads,         &task->stores, &task->load_moments,
                                      &task->store_moments, &task->over,   &task->after};
        for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) tcc_vec_free(ids[i]);
    }
    tcc_arena_free(&tasks->arena);
    void *const arrays[] = {tasks->of, tasks->size_bytes, tasks->users, tasks->program, tasks->place};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) tcc__free(arrays[i]);
}
