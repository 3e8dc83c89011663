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
#include "passes/memory/plan.h"
#include "passes/memory/tasks.h"
#include "passes/pass.h"

#include <stdlib.h>
#include <string.h>

/* Half of a usual last-level cache: gradients are still there when their updates run. */
#define MOST_WAITING_BYTES (INT64_C(16) << 20)

typedef enum way { WAY_PROGRAM, WAY_FREE_EARLY, WAY_TAKE_LEAST, WAY_COUNT } way;

/* Groups by their places in the program, ascending. */
typedef struct place_list {
    int *places, count;
} place_list;

/* Groups that waited for their like and run now. */
typedef struct turn {
    uint64_t shape;
    int64_t input_bytes; /* of the group: sums of different lengths are different kernels */
    int place, group;
} turn;
typedef tcc_vec(turn) turn_vec;

typedef struct scheduler {
    tcc_order_tasks tasks;
    /* During one run: groups that wait for no other and did not run. Those that wait for their like, and compute
     * nothing again, are in a list of their own, with the bytes of their inputs. */
    place_list ready, waiting;
    int64_t waiting_bytes;
    int *missing;       /* by group: groups that it still waits for */
    int *missing_again; /* of those, the ones that compute values again */
    int *left;          /* by node: users to come */
} scheduler;

static tcc_status create(scheduler *s, const tcc_graph *g) {
    const size_t nodes = (size_t)g->nodes.count + 1, groups = (size_t)g->groups.count + 1;
    *s = (scheduler){.ready = {NULL, 0}};
    TCC_TRY(tcc_order_tasks_create(g, &s->tasks));
    s->left = tcc__calloc(nodes, sizeof *s->left);
    s->missing = tcc__calloc(groups, sizeof *s->missing);
    s->missing_again = tcc__calloc(groups, sizeof *s->missing_again);
    s->ready.places = tcc__malloc(sizeof(int) * groups);
    s->waiting.places = tcc__malloc(sizeof(int) * groups);
    const bool ok = s->left && s->missing && s->missing_again && s->ready.places && s->waiting.places;
    return ok ? TCC_OK : tcc_enomem(g->diag);
}

static void destroy(scheduler *s) {
    tcc_order_tasks_destroy(&s->tasks);
    void *const arrays[] = {s->left, s->missing, s->missing_again, s->ready.places, s->waiting.places};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) tcc__free(arrays[i]);
}

/* -- What runs next -- */

/* The task's only reader is a waiting group, which can run then. So what it stores will not live long: the gradient of
 * a weight. */
static bool feeds_an_update(const scheduler *s, const tcc_order_task *task) {
    if (task->after.count != 1) return false;
    int reader = task->after.data[0];
    return s->tasks.of[reader].waits && s->missing[reader] == 1;
}

/* Bytes that running the task adds to what is alive after it. */
static int64_t growth(const scheduler *s, const tcc_order_task *task) {
    int64_t bytes = 0;
    for (int i = 0; i < task->stores.count && !feeds_an_update(s, task); i++)
        bytes += s->tasks.size_bytes[task->stores.data[i]];
    for (int i = 0; i < task->loads.count; i++)
        if (s->left[task->loads.data[i]] == 1) bytes -= s->tasks.size_bytes[task->loads.data[i]];
    return bytes;
}

/* Whether a group that computes values again would do so before they can be used. */
static bool is_too_early(const scheduler *s, const tcc_order_task *task) {
    return task->again && s->missing[task->needed_at] > s->missing_again[task->needed_at];
}

static bool take_turn(const scheduler *s, int place, turn_vec *turns) {
    const int t = s->tasks.program[place];
    return tcc_vec_push(turns, (turn){s->tasks.of[t].shape, s->tasks.of[t].input_bytes, place, t});
}

/* Adds what reads collectives' results; `early`: also what would come too early. */
static void take_late(const scheduler *s, bool early, turn_vec *turns, bool *failed) {
    for (int i = 0; i < s->ready.count; i++) {
        const tcc_order_task *task = &s->tasks.of[s->tasks.program[s->ready.places[i]]];
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
        const int t = s->tasks.program[s->ready.places[i]];
        const tcc_order_task *task = &s->tasks.of[t];
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

/* -- Running a group -- */

/* Bytes of the group's temporaries that are alive in a moment. */
static int64_t temporary_bytes(const tcc_order_task *task, int moment) {
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
static int64_t shared_bytes(const scheduler *s, const tcc_order_task *task, int moment) {
    int64_t shared = 0;
    for (int i = 0; i < task->over.count; i += 3) {
        const int *pair = &task->over.data[i];
        bool used = s->left[pair[0]] != 1 || pair[2] != moment;
        for (int k = 0; k < i; k += 3) used |= task->over.data[k] == pair[0] || task->over.data[k + 1] == pair[1];
        if (!used) shared += s->tasks.size_bytes[pair[0]];
    }
    return shared;
}

/* The list in which group t is when it waits for no other. */
static place_list *list_of(scheduler *s, int t) {
    return s->tasks.of[t].waits && !s->tasks.of[t].again ? &s->waiting : &s->ready;
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
    int *at = list->places + find_place(list, s->tasks.place[t]);
    memmove(at + 1, at, sizeof *at * (size_t)(list->places + list->count++ - at));
    *at = s->tasks.place[t];
    if (list == &s->waiting) s->waiting_bytes += s->tasks.of[t].input_bytes;
}

static void drop_ready(scheduler *s, int t) {
    place_list *list = list_of(s, t);
    int *at = list->places + find_place(list, s->tasks.place[t]);
    memmove(at, at + 1, sizeof *at * (size_t)(list->places + --list->count - at));
    if (list == &s->waiting) s->waiting_bytes -= s->tasks.of[t].input_bytes;
}

/* Runs group t: what is alive then, and what it releases. */
static void run(scheduler *s, int t, int64_t *live, int64_t *peak) {
    const tcc_order_task *task = &s->tasks.of[t];
    for (int moment = 0; moment < task->moments; moment++) {
        int64_t alive = *live + temporary_bytes(task, moment) - shared_bytes(s, task, moment);
        for (int i = 0; i < task->stores.count; i++)
            if (task->store_moments.data[i] <= moment) alive += s->tasks.size_bytes[task->stores.data[i]];
        for (int i = 0; i < task->loads.count; i++)
            if (task->load_moments.data[i] < moment && s->left[task->loads.data[i]] == 1)
                alive -= s->tasks.size_bytes[task->loads.data[i]];
        if (alive > *peak) *peak = alive;
    }
    for (int i = 0; i < task->stores.count; i++) *live += s->tasks.size_bytes[task->stores.data[i]];
    for (int i = 0; i < task->loads.count; i++)
        if (--s->left[task->loads.data[i]] == 0) *live -= s->tasks.size_bytes[task->loads.data[i]];
    for (int i = 0; i < task->stores.count; i++)
        if (s->left[task->stores.data[i]] == 0) *live -= s->tasks.size_bytes[task->stores.data[i]];
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
    if (x->input_bytes != y->input_bytes) return x->input_bytes > y->input_bytes ? 1 : -1;
    return x->place - y->place;
}

/* Adds the groups that wait to those which compute values again, in the order in which all of them run. */
static bool take_turns(const scheduler *s, turn_vec *turns) {
    for (int i = 0; i < s->waiting.count; i++)
        if (!take_turn(s, s->waiting.places[i], turns)) return false;
    if (turns->count) qsort(turns->data, (size_t)turns->count, sizeof *turns->data, by_shape);
    return true;
}

/* -- One run -- */

/* Fills `order` and gives the peak. */
static tcc_status schedule(scheduler *s, way way, int *order, int64_t *peak) {
    int count = s->tasks.g->groups.count, at = 0;
    int64_t live = 0, bytes_again;
    turn_vec turns = {0};
    bool failed = false, stuck = false;
    *peak = 0;
    s->ready.count = s->waiting.count = 0;
    s->waiting_bytes = 0;
    for (int t = 0; t < count; t++) {
        s->missing[t] = s->tasks.of[t].waits_for;
        s->missing_again[t] = 0;
        if (!s->missing[t]) add_ready(s, t);
    }
    for (int t = 0; t < count; t++)
        for (int i = 0; i < s->tasks.of[t].after.count; i++)
            s->missing_again[s->tasks.of[t].after.data[i]] += s->tasks.of[t].again;
    memcpy(s->left, s->tasks.users, sizeof *s->left * (size_t)s->tasks.g->nodes.count);
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
    if (failed) return tcc_enomem(s->tasks.g->diag);
    return stuck ? TCC_BUG(s->tasks.g->diag, "groups wait for each other") : TCC_OK;
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
