/* SPDX-License-Identifier: MIT
 * order: the order in which groups run, for a low peak of live memory and few launches. Temporaries and workspaces
 * count where they are needed.
 *
 * List scheduling in three ways; the order with the lowest peak is taken. The first is the order of the program. In the
 * second, a group that frees more than it allocates runs as soon as it can. The third always runs the group that
 * allocates least. Near ties go to the order of the program, which was written to be read and keeps values in the
 * cache.
 *
 * Small work on many tensors waits, so that it runs together: groups that only write new states (optimizer updates),
 * and reductions to a few bytes (gradient norms). Codegen makes one launch of neighbours with equal kernels. Such
 * groups run when nothing else can, or when they keep so much memory alive that waiting would cost more than a
 * launch.
 *
 * A collective runs, in a thread of its own, while the steps behind it do. So it begins as soon as it can, and what it
 * waits for runs before all else; what reads its result runs when nothing else can.
 *
 * A group that recomputes values stands in the program directly before the first group that needs one of them, and runs
 * when that group waits for nothing else. */
#include "ir/support/alloc.h"
#include "passes/group.h"
#include "passes/memory/launches.h"
#include "passes/pass.h"
#include "passes/memory/plan.h"

#include <stdlib.h>
#include <string.h>

/* Half of a usual last-level cache: gradients are still there when their updates run. */
#define MOST_WAITING_BYTES (INT64_C(16) << 20)
enum { FEW_BYTES = 64 };

typedef enum way { WAY_PROGRAM, WAY_FREE_EARLY, WAY_TAKE_LEAST, WAY_COUNT } way;

typedef tcc_vec(int) int_vec;

/* Groups by their places in the program, ascending. */
typedef struct place_list {
    int *places, count;
} place_list;

/* Groups that waited for their like and run now. */
typedef struct turn {
    uint64_t shape;
    int place, group;
} turn;
typedef tcc_vec(turn) turn_vec;

/* A group as the scheduler sees it. Values are numbered by node id. */
typedef struct task {
    const tcc_implementation *launches;
    int moments;
    int_vec loads, stores; /* values in the arena; of each, the moment of the last read and of the first write */
    int_vec load_moments, store_moments;
    int_vec over;        /* triples: a value that it loads, one that it may write over that, and the moment */
    int_vec after;       /* groups that read what this one stores */
    int waits_for;       /* groups */
    int64_t input_bytes; /* of all inputs, wherever they are */
    bool waits;          /* may wait for its like */
    bool again;          /* computes values again */
    bool soon;           /* it is a collective, or all that waits for it is soon */
    bool late;           /* it reads what a collective gives */
    int needed_at;       /* the group itself; of one that computes values again, the first other one that needs them */
    uint64_t shape;      /* equal for groups that are likely to be one kernel */
} task;

typedef struct scheduler {
    const tcc_graph *g;
    task *tasks;
    int *program;        /* groups in the order of the program */
    int *place;          /* by group: where it is in the program */
    int64_t *size_bytes; /* by node: in the arena */
    int *users;          /* by node: groups that load it; one more if it is copied to an output at the end */
    int *next_of;        /* by node: of an input, the output that is its next value; -1: none */
    bool *is_state;      /* by node: it is the next value of an input */
    /* During one run: groups that wait for no other and did not run. Those that wait for their like, and compute
     * nothing again, are in a list of their own, with the bytes of their inputs. */
    place_list ready, waiting;
    int64_t waiting_bytes;
    int *missing;        /* by group, during one run: groups that it still waits for */
    int *missing_again;  /* of those, the ones that compute values again */
    int *left;           /* by node, during one run: users to come */
    int *seen, searches; /* by group: the last search that met it */
    tcc_arena arena;     /* of launches that are not in the graph */
} scheduler;

/* -- What there is to schedule -- */

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

static bool list_overwrites(scheduler *s, const tcc_group *group, task *task, tcc_node *const *inputs, int n_inputs) {
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

static bool make_task(scheduler *s, int t, const int *producers, tcc_node **inputs) {
    const tcc_graph *g = s->g;
    const tcc_group *group = &g->groups.data[t];
    task *task = &s->tasks[t];
    int n_inputs = tcc_group_inputs(group, inputs);
    task->launches = tcc_group_launches(&s->arena, group);
    if (!task->launches) return false;
    task->moments = tcc_launch_moments(task->launches);
    bool ok = true;
    for (int i = 0; i < n_inputs; i++) {
        int id = inputs[i]->id, producer = producers[id];
        task->input_bytes += tcc_type_bytes(&inputs[i]->type);
        if (producer < 0) continue;
        s->users[id]++;
        if (s->size_bytes[id])
            ok &= tcc_vec_push(&task->loads, id) &&
                  tcc_vec_push(&task->load_moments, last_read(task->launches, inputs[i]));
        struct task *source = &s->tasks[producer];
        if (source->after.count && source->after.data[source->after.count - 1] == t) continue;
        ok &= tcc_vec_push(&source->after, t);
        task->waits_for++;
    }
    bool updates = group->kind == TCC_GROUP_POINTWISE;
    int64_t stored_bytes = 0;
    for (int i = 0; i < group->n_outputs; i++) {
        int id = group->outputs[i]->id;
        if (s->size_bytes[id])
            ok &= tcc_vec_push(&task->stores, id) &&
                  tcc_vec_push(&task->store_moments, first_write(task->launches, group->outputs[i]));
        stored_bytes += tcc_type_bytes(&group->outputs[i]->type);
        updates &= s->is_state[id];
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

/* Whether group `to` waits, however indirectly, for group `from`. Groups that are seen get the number `search`. */
static bool reaches(const scheduler *s, int from, int to, int search) {
    if (from == to) return true;
    s->seen[from] = search;
    const int_vec *after = &s->tasks[from].after;
    for (int i = 0; i < after->count; i++)
        if (s->seen[after->data[i]] != search && reaches(s, after->data[i], to, search)) return true;
    return false;
}

/* The group that stores the next value of an input waits for all readers of the old one, so that the new one may be
 * written in place. It does not wait for readers that need the new value too. */
static bool let_readers_go_first(scheduler *s, int t, const int *producers, tcc_node **inputs) {
    const tcc_graph *g = s->g;
    int n_inputs = tcc_group_inputs(&g->groups.data[t], inputs);
    for (int i = 0; i < n_inputs; i++) {
        const int next = s->next_of[inputs[i]->id], writer = next < 0 ? -1 : producers[g->outputs.data[next].node->id];
        if (writer < 0 || writer == t) continue;
        if (reaches(s, writer, t, ++s->searches)) continue;
        if (!tcc_vec_push(&s->tasks[t].after, writer)) return false;
        s->tasks[writer].waits_for++;
    }
    return true;
}

/* Sets task->soon and task->late, once all tasks are there. Neither waits for its like. */
static void find_collectives(scheduler *s) {
    const tcc_graph *g = s->g;
    for (int t = g->groups.count - 1; t >= 0; t--) {
        task *task = &s->tasks[t];
        const bool is_collective = g->groups.data[t].kind == TCC_GROUP_COLLECTIVE;
        bool only = task->after.count > 0;
        for (int i = 0; i < task->after.count; i++) {
            only &= s->tasks[task->after.data[i]].soon;
            s->tasks[task->after.data[i]].late |= is_collective;
        }
        task->soon = is_collective || only;
    }
    for (int t = 0; t < g->groups.count; t++) {
        s->tasks[t].late &= !s->tasks[t].soon;
        s->tasks[t].waits &= !s->tasks[t].late && !s->tasks[t].soon;
    }
}

/* Fills s->program. */
static bool sort_program(scheduler *s) {
    const int count = s->g->groups.count;
    int *first = tcc__malloc(sizeof *first * ((size_t)count + 2)); /* by group: where those needed at it begin */
    if (!first) return false;
    for (int t = 0; t <= count + 1; t++) first[t] = 0;
    for (int t = count - 1; t >= 0; t--) {
        task *task = &s->tasks[t];
        task->needed_at = task->again ? count : t;
        for (int i = 0; i < task->after.count && task->again; i++)
            if (s->tasks[task->after.data[i]].needed_at < task->needed_at)
                task->needed_at = s->tasks[task->after.data[i]].needed_at;
        first[task->needed_at + 1]++;
    }
    for (int t = 0; t <= count; t++) first[t + 1] += first[t];
    for (int t = 0; t < count; t++)
        if (s->tasks[t].again) s->program[first[s->tasks[t].needed_at]++] = t;
    for (int t = 0; t < count; t++)
        if (!s->tasks[t].again) s->program[first[t]++] = t;
    for (int i = 0; i < count; i++) s->place[s->program[i]] = i;
    tcc__free(first);
    return true;
}

/* What of the stored values is in the arena, and which are new states. Outputs are written where they stay. */
static void measure(scheduler *s) {
    const tcc_graph *g = s->g;
    for (int t = 0; t < g->groups.count; t++)
        for (int i = 0; i < g->groups.data[t].n_outputs; i++)
            s->size_bytes[g->groups.data[t].outputs[i]->id] = tcc_plan_size(g->groups.data[t].outputs[i]);
    for (int i = 0; i < g->nodes.count; i++) s->next_of[i] = -1;
    for (int k = 0; k < g->outputs.count; k++) {
        const tcc_output *output = &g->outputs.data[k];
        s->size_bytes[output->node->id] = 0;
        if (output->alias < 0) continue;
        s->is_state[output->node->id] = true;
        s->next_of[g->inputs.data[output->alias]->id] = k;
    }
}

static tcc_status create(scheduler *s, const tcc_graph *g) {
    size_t nodes = (size_t)g->nodes.count + 1, groups = (size_t)g->groups.count + 1;
    *s = (scheduler){.g = g};
    s->tasks = tcc__calloc(groups, sizeof *s->tasks);
    s->size_bytes = tcc__calloc(nodes, sizeof *s->size_bytes);
    s->users = tcc__calloc(nodes, sizeof *s->users);
    s->left = tcc__calloc(nodes, sizeof *s->left);
    s->missing = tcc__calloc(groups, sizeof *s->missing);
    s->missing_again = tcc__calloc(groups, sizeof *s->missing_again);
    s->seen = tcc__calloc(groups, sizeof *s->seen);
    s->program = tcc__malloc(sizeof *s->program * groups);
    s->place = tcc__malloc(sizeof *s->place * groups);
    s->ready.places = tcc__malloc(sizeof(int) * groups);
    s->waiting.places = tcc__malloc(sizeof(int) * groups);
    s->next_of = tcc__malloc(sizeof *s->next_of * nodes);
    s->is_state = tcc__calloc(nodes, sizeof *s->is_state);
    int *producers = tcc_group_producers(g);
    int most_inputs = 1;
    for (int t = 0; t < g->groups.count; t++) {
        int operands = 0;
        for (int i = 0; i < g->groups.data[t].n_nodes; i++) operands += g->groups.data[t].nodes[i]->n_operands;
        if (operands > most_inputs) most_inputs = operands;
    }
    tcc_node **inputs = tcc__malloc(sizeof *inputs * (size_t)most_inputs);
    bool ok = s->tasks && s->size_bytes && s->users && s->left && s->missing && s->missing_again && s->seen &&
              s->program && s->place && s->ready.places && s->waiting.places && s->next_of && s->is_state &&
              producers && inputs;
    if (ok) measure(s);
    for (int t = 0; ok && t < g->groups.count; t++) ok = make_task(s, t, producers, inputs);
    for (int t = 0; ok && t < g->groups.count; t++) ok = let_readers_go_first(s, t, producers, inputs);
    if (ok) find_collectives(s);
    ok = ok && sort_program(s);
    tcc__free(producers);
    tcc__free(inputs);
    return ok ? TCC_OK : tcc_enomem(g->diag);
}

static void destroy(scheduler *s) {
    for (int t = 0; s->tasks && t < s->g->groups.count; t++) {
        tcc_vec_free(&s->tasks[t].loads);
        tcc_vec_free(&s->tasks[t].stores);
        tcc_vec_free(&s->tasks[t].load_moments);
        tcc_vec_free(&s->tasks[t].store_moments);
        tcc_vec_free(&s->tasks[t].over);
        tcc_vec_free(&s->tasks[t].after);
    }
    tcc_arena_free(&s->arena);
    void *const arrays[] = {s->tasks,          s->size_bytes, s->users,   s->left,  s->missing,
                            s->missing_again,  s->seen,       s->program, s->place, s->ready.places,
                            s->waiting.places, s->next_of,    s->is_state};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) tcc__free(arrays[i]);
}

/* -- One run -- */

/* The task's only reader is a waiting group, which can run then. So what it stores will not live long: the gradient of
 * a weight. */
static bool feeds_an_update(const scheduler *s, const task *task) {
    if (task->after.count != 1) return false;
    int reader = task->after.data[0];
    return s->tasks[reader].waits && s->missing[reader] == 1;
}

/* Bytes that running the task adds to what is alive after it. */
static int64_t growth(const scheduler *s, const task *task) {
    int64_t bytes = 0;
    for (int i = 0; i < task->stores.count && !feeds_an_update(s, task); i++)
        bytes += s->size_bytes[task->stores.data[i]];
    for (int i = 0; i < task->loads.count; i++)
        if (s->left[task->loads.data[i]] == 1) bytes -= s->size_bytes[task->loads.data[i]];
    return bytes;
}

/* Whether a group that computes values again would do so before they can be used. */
static bool is_too_early(const scheduler *s, const task *task) {
    return task->again && s->missing[task->needed_at] > s->missing_again[task->needed_at];
}

static bool take_turn(const scheduler *s, int place, turn_vec *turns) {
    const int t = s->program[place];
    return tcc_vec_push(turns, (turn){s->tasks[t].shape, place, t});
}

/* Adds what reads collectives' results; `early`: also what would come too early. */
static void take_late(const scheduler *s, bool early, turn_vec *turns, bool *failed) {
    for (int i = 0; i < s->ready.count; i++) {
        const task *task = &s->tasks[s->program[s->ready.places[i]]];
        if (!task->late || (!early && is_too_early(s, task))) continue;
        if (!take_turn(s, s->ready.places[i], turns)) *failed = true;
    }
}

/* The next group that does not wait, or -1. `turns`: of those that do, the ones that compute values again, with the
 * bytes of their inputs; where there is none, those that read collectives' results, too. `early`: also groups that
 * compute values again too early. */
static int pick(const scheduler *s, way way, bool early, turn_vec *turns, int64_t *bytes_again, bool *failed) {
    int best = -1;
    int64_t best_growth = 0;
    turns->count = 0;
    *bytes_again = 0;
    for (int i = 0; i < s->ready.count; i++) {
        const int t = s->program[s->ready.places[i]];
        const task *task = &s->tasks[t];
        if (task->soon) return t;
        if (task->late || (!early && is_too_early(s, task))) continue;
        if (task->waits) {
            *bytes_again += task->input_bytes;
            if (!take_turn(s, s->ready.places[i], turns)) *failed = true;
            continue;
        }
        if (way == WAY_PROGRAM && best >= 0) continue;
        int64_t bytes = growth(s, task);
        bool better = way == WAY_TAKE_LEAST ? bytes < best_growth : bytes < 0 && bytes < best_growth;
        if (best >= 0 && !better) continue;
        best = t;
        best_growth = bytes;
    }
    if (best < 0) take_late(s, early, turns, failed);
    return best;
}

/* Bytes of the group's temporaries that are alive in a moment. */
static int64_t temporary_bytes(const task *task, int moment) {
    int64_t bytes = 0;
    for (int i = 0; i < task->launches->n_temporaries; i++) {
        const tcc_temporary *t = &task->launches->temporaries[i];
        if (tcc_launch_moment(task->launches, t->first) <= moment &&
            moment <= tcc_launch_moment(task->launches, t->last))
            bytes += tcc_plan_aligned(t->size_bytes);
    }
    return bytes;
}

/* Bytes that outputs share in a moment with values that die there; each takes part once. */
static int64_t shared_bytes(const scheduler *s, const task *task, int moment) {
    int64_t shared = 0;
    for (int i = 0; i < task->over.count; i += 3) {
        const int *pair = &task->over.data[i];
        bool used = s->left[pair[0]] != 1 || pair[2] != moment;
        for (int k = 0; k < i; k += 3) used |= task->over.data[k] == pair[0] || task->over.data[k + 1] == pair[1];
        if (!used) shared += s->size_bytes[pair[0]];
    }
    return shared;
}

/* The list in which group t is when it waits for no other. */
static place_list *list_of(scheduler *s, int t) {
    return s->tasks[t].waits && !s->tasks[t].again ? &s->waiting : &s->ready;
}

/* Where the place is in the list, or belongs. */
static int find_place(const place_list *list, int place) {
    int low = 0, high = list->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (list->places[middle] < place) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void add_ready(scheduler *s, int t) {
    place_list *list = list_of(s, t);
    int *at = list->places + find_place(list, s->place[t]);
    memmove(at + 1, at, sizeof *at * (size_t)(list->places + list->count++ - at));
    *at = s->place[t];
    if (list == &s->waiting) s->waiting_bytes += s->tasks[t].input_bytes;
}

static void drop_ready(scheduler *s, int t) {
    place_list *list = list_of(s, t);
    int *at = list->places + find_place(list, s->place[t]);
    memmove(at, at + 1, sizeof *at * (size_t)(list->places + --list->count - at));
    if (list == &s->waiting) s->waiting_bytes -= s->tasks[t].input_bytes;
}

/* Runs group t: what is alive then, and what it releases. */
static void run(scheduler *s, int t, int64_t *live, int64_t *peak) {
    const task *task = &s->tasks[t];
    for (int moment = 0; moment < task->moments; moment++) {
        int64_t alive = *live + temporary_bytes(task, moment) - shared_bytes(s, task, moment);
        for (int i = 0; i < task->stores.count; i++)
            if (task->store_moments.data[i] <= moment) alive += s->size_bytes[task->stores.data[i]];
        for (int i = 0; i < task->loads.count; i++)
            if (task->load_moments.data[i] < moment && s->left[task->loads.data[i]] == 1)
                alive -= s->size_bytes[task->loads.data[i]];
        if (alive > *peak) *peak = alive;
    }
    for (int i = 0; i < task->stores.count; i++) *live += s->size_bytes[task->stores.data[i]];
    for (int i = 0; i < task->loads.count; i++)
        if (--s->left[task->loads.data[i]] == 0) *live -= s->size_bytes[task->loads.data[i]];
    for (int i = 0; i < task->stores.count; i++)
        if (s->left[task->stores.data[i]] == 0) *live -= s->size_bytes[task->stores.data[i]];
    drop_ready(s, t);
    for (int i = 0; i < task->after.count; i++) {
        s->missing_again[task->after.data[i]] -= task->again;
        if (--s->missing[task->after.data[i]] == 0) add_ready(s, task->after.data[i]);
    }
}

/* Equal kernels are neighbours; the program's order among equals. */
static int by_shape(const void *a, const void *b) {
    const turn *x = a, *y = b;
    if (x->shape != y->shape) return x->shape > y->shape ? 1 : -1;
    return x->place - y->place;
}

/* Adds the groups that wait to those which compute values again, in the order in which all of them run. */
static bool take_turns(const scheduler *s, turn_vec *turns) {
    for (int i = 0; i < s->waiting.count; i++)
        if (!take_turn(s, s->waiting.places[i], turns)) return false;
    if (turns->count) qsort(turns->data, (size_t)turns->count, sizeof *turns->data, by_shape);
    return true;
}

/* Fills `order` and gives the peak. */
static tcc_status schedule(scheduler *s, way way, int *order, int64_t *peak) {
    int count = s->g->groups.count, at = 0;
    int64_t live = 0, bytes_again;
    turn_vec turns = {0};
    bool failed = false, stuck = false;
    *peak = 0;
    s->ready.count = s->waiting.count = 0;
    s->waiting_bytes = 0;
    for (int t = 0; t < count; t++) {
        s->missing[t] = s->tasks[t].waits_for;
        s->missing_again[t] = 0;
        if (!s->missing[t]) add_ready(s, t);
    }
    for (int t = 0; t < count; t++)
        for (int i = 0; i < s->tasks[t].after.count; i++)
            s->missing_again[s->tasks[t].after.data[i]] += s->tasks[t].again;
    memcpy(s->left, s->users, sizeof *s->left * (size_t)s->g->nodes.count);
    while (at < count && !failed && !stuck) {
        int t = pick(s, way, false, &turns, &bytes_again, &failed);
        /* The first reader of a value may have to wait for another one, where it overwrites what that reads. */
        if (t < 0 && turns.count + s->waiting.count == 0) t = pick(s, way, true, &turns, &bytes_again, &failed);
        if (t >= 0 && s->waiting_bytes + bytes_again <= MOST_WAITING_BYTES) {
            run(s, t, &live, peak);
            order[at++] = t;
            continue;
        }
        failed |= !take_turns(s, &turns);
        stuck = t < 0 && turns.count == 0;
        for (int i = 0; i < turns.count && !failed; i++) {
            run(s, turns.data[i].group, &live, peak);
            order[at++] = turns.data[i].group;
        }
    }
    tcc_vec_free(&turns);
    if (failed) return tcc_enomem(s->g->diag);
    return stuck ? TCC_BUG(s->g->diag, "groups wait for each other") : TCC_OK;
}

static tcc_status best_order(tcc_pass_cx *cx, const tcc_graph *g, int *best) {
    static const char *const names[WAY_COUNT] = {"program", "free early", "take least"};
    scheduler s;
    tcc_status status = create(&s, g);
    int *order = tcc__malloc(sizeof *order * (size_t)(g->groups.count + 1));
    if (status == TCC_OK && !order) status = tcc_enomem(g->diag);
    int64_t best_peak = -1;
    for (int way = 0; way < WAY_COUNT && status == TCC_OK; way++) {
        int64_t peak;
        status = schedule(&s, (enum way)way, order, &peak);
        if (status != TCC_OK) break;
        tcc_logf(cx->cx, TCC_LOG_MEMORY, "order '%s': at most %lld bytes alive", names[way], (long long)peak);
        if (best_peak >= 0 && peak > best_peak - best_peak / 50) continue;
        best_peak = peak;
        memcpy(best, order, sizeof *order * (size_t)g->groups.count);
    }
    tcc__free(order);
    destroy(&s);
    return status;
}

tcc_status tcc_pass_order(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    int *order = tcc__malloc(sizeof *order * (size_t)(in->groups.count + 1));
    if (!order) return tcc_enomem(in->diag);
    tcc_status status = best_order(cx, in, order);
    if (status == TCC_OK) status = tcc_group_copy_graph(in, order, out);
    tcc__free(order);
    return status;
}
