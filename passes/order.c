/* SPDX-License-Identifier: MIT
 * order: the order in which groups run, for a low peak of live memory and few launches. Temporaries and workspaces
 * count where they are needed.
 *
 * List scheduling in three ways, of which the one with the lowest peak is taken: the order of the program; the same,
 * but a group that frees more than it allocates runs as soon as it can; and always the group that allocates least. Near
 * ties go to the order of the program, which was written to be read and keeps values in the cache.
 *
 * Small work on many tensors waits, so that it runs together: groups that only write new states (optimizer updates),
 * and reductions to a few bytes (gradient norms). Codegen makes one launch of neighbours with equal kernels. Such
 * groups run when nothing else can, or when they keep so much memory alive that waiting would cost more than a
 * launch.
 *
 * A group that computes values again stands in the program right in front of the first group that needs one of them,
 * and runs when that group waits for nothing else.
 *
 * What there is to schedule is in order_tasks.c. During a run each list is kept up to date by what changes, so that a
 * step costs no more in a large graph: which groups are ready is a tree that knows the best of them. */
#include "ir/support/alloc.h"
#include "passes/group.h"
#include "passes/launches.h"
#include "passes/order_tasks.h"
#include "passes/pass.h"
#include "passes/plan.h"

#include <stdlib.h>
#include <string.h>

/* Half of a usual last-level cache: gradients are still there when their updates run. */
#define MOST_WAITING_BYTES (INT64_C(16) << 20)

typedef enum way { WAY_PROGRAM, WAY_FREE_EARLY, WAY_TAKE_LEAST, WAY_COUNT } way;

/* BLOCKED waits for others. EARLY waits for none, but computes values again before they can be used. READY may run, and
 * WAITING too, but would rather run with its like. */
typedef enum state { BLOCKED, EARLY, READY, WAITING, DONE } state;

/* A group that waits for its like. */
typedef struct waiting {
    uint64_t shape;
    int place, group;
} waiting;

/* One run over all groups. */
typedef struct run {
    const tcc_tasks *s;
    way way;
    state *states;      /* by group */
    int *missing;       /* by group: groups that it still waits for */
    int *missing_again; /* of those, the ones that compute values again */
    int *left;          /* by node: users to come */
    int *first_early;   /* by group: the first of those that were EARLY and are needed at it, -1: none; and */
    int *next_early;    /* the next one */
    int64_t *key;       /* by place in the program: of a READY group, the less the better; else NOT_READY */
    int *tree;  /* at 1 the place with the least key, the first of equals; at 2 i and 2 i + 1 the same of both halves */
    int leaves; /* a power of 2: tree[leaves + place] is the place itself */
    tcc_vec(waiting) waiting;
    int64_t waiting_bytes;
    int64_t live, peak;
    bool failed;
} run;

#define NOT_READY INT64_MAX

/* -- The tree of what is ready -- */

static void set_key(run *r, int place, int64_t key) {
    r->key[place] = key;
    for (int at = (r->leaves + place) / 2; at > 0; at /= 2) {
        const int left = r->tree[2 * at], right = r->tree[2 * at + 1];
        r->tree[at] = r->key[left] <= r->key[right] ? left : right;
    }
}

/* The group that is to run next, of those that do not wait; -1: there is none. */
static int best_ready(const run *r) {
    const int place = r->tree[1];
    return r->key[place] == NOT_READY ? -1 : r->s->program[place];
}

/* The task's only reader is a waiting group, which can run then. So what it stores will not live long: the gradient of
 * a weight. */
static bool feeds_an_update(const run *r, const tcc_task *task) {
    if (task->after.count != 1) return false;
    const int reader = task->after.data[0];
    return r->s->data[reader].waits && r->missing[reader] == 1;
}

/* Bytes that running the task adds to what is alive after it. */
static int64_t growth(const run *r, const tcc_task *task) {
    int64_t bytes = 0;
    for (int i = 0; i < task->stores.count && !feeds_an_update(r, task); i++)
        bytes += r->s->size_bytes[task->stores.data[i]];
    for (int i = 0; i < task->loads.count; i++)
        if (r->left[task->loads.data[i]] == 1) bytes -= r->s->size_bytes[task->loads.data[i]];
    return bytes;
}

/* Of equal ones the first in the program runs: by WAY_PROGRAM all are equal, by WAY_FREE_EARLY those that free
 * nothing. */
static int64_t key_of(const run *r, int t) {
    if (r->way == WAY_PROGRAM) return 0;
    const int64_t bytes = growth(r, &r->s->data[t]);
    return r->way == WAY_FREE_EARLY && bytes > 0 ? 0 : bytes;
}

/* What running the group would free has changed. */
static void rate(run *r, int t) {
    if (r->states[t] == READY && r->way != WAY_PROGRAM) set_key(r, r->s->place[t], key_of(r, t));
}

/* -- What may run -- */

static void add_waiting(run *r, int t) {
    const tcc_task *task = &r->s->data[t];
    r->waiting_bytes += task->input_bytes;
    r->failed |= !tcc_vec_push(&r->waiting, (waiting){task->shape, r->s->place[t], t});
}

/* Group t waits for no other. */
static void make_ready(run *r, int t) {
    if (r->s->data[t].waits) {
        r->states[t] = WAITING;
        add_waiting(r, t);
    } else {
        r->states[t] = READY;
        set_key(r, r->s->place[t], key_of(r, t));
    }
}

/* Whether groups that compute values again for group t would do so before they can be used. */
static bool is_too_early(const run *r, int t) { return r->missing[t] > r->missing_again[t]; }

static void add(run *r, int t) {
    const tcc_task *task = &r->s->data[t];
    if (!task->again || !is_too_early(r, task->needed_at)) {
        make_ready(r, t);
        return;
    }
    r->states[t] = EARLY;
    r->next_early[t] = r->first_early[task->needed_at];
    r->first_early[task->needed_at] = t;
}

/* Those that compute values again for group t may run. */
static void release_early(run *r, int t) {
    for (int early = r->first_early[t]; early >= 0; early = r->next_early[early])
        if (r->states[early] == EARLY) make_ready(r, early);
    r->first_early[t] = -1;
}

/* Where nothing may run, for the first reader of a value has to wait for another one, since it overwrites what that
 * reads: the best of those that are early, -1: none; and the waiting ones. */
static int best_early(run *r) {
    int best = -1;
    int64_t best_key = 0;
    for (int place = 0; place < r->s->g->groups.count; place++) {
        const int t = r->s->program[place];
        r->s->g->diag->steps++;
        if (r->states[t] != EARLY) continue;
        if (r->s->data[t].waits) {
            add_waiting(r, t);
            continue;
        }
        const int64_t key = key_of(r, t);
        if (best < 0 || key < best_key) best = t, best_key = key;
    }
    return best;
}

/* -- One group -- */

/* Bytes of the group's temporaries that are alive in a moment. */
static int64_t temporary_bytes(const tcc_task *task, int moment) {
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
static int64_t shared_bytes(const run *r, const tcc_task *task, int moment) {
    int64_t shared = 0;
    for (int i = 0; i < task->over.count; i += 3) {
        const int *pair = &task->over.data[i];
        bool used = r->left[pair[0]] != 1 || pair[2] != moment;
        for (int k = 0; k < i; k += 3) used |= task->over.data[k] == pair[0] || task->over.data[k + 1] == pair[1];
        if (!used) shared += r->s->size_bytes[pair[0]];
    }
    return shared;
}

/* What is alive while the task runs, and what it releases. */
static void count_bytes(run *r, const tcc_task *task) {
    const int64_t *size_bytes = r->s->size_bytes;
    r->s->g->diag->steps += task->loads.count + task->stores.count + task->after.count;
    for (int moment = 0; moment < task->moments; moment++) {
        int64_t alive = r->live + temporary_bytes(task, moment) - shared_bytes(r, task, moment);
        for (int i = 0; i < task->stores.count; i++)
            if (task->store_moments.data[i] <= moment) alive += size_bytes[task->stores.data[i]];
        for (int i = 0; i < task->loads.count; i++)
            if (task->load_moments.data[i] < moment && r->left[task->loads.data[i]] == 1)
                alive -= size_bytes[task->loads.data[i]];
        if (alive > r->peak) r->peak = alive;
    }
    for (int i = 0; i < task->stores.count; i++) r->live += size_bytes[task->stores.data[i]];
    for (int i = 0; i < task->loads.count; i++)
        if (--r->left[task->loads.data[i]] == 0) r->live -= size_bytes[task->loads.data[i]];
    for (int i = 0; i < task->stores.count; i++)
        if (r->left[task->stores.data[i]] == 0) r->live -= size_bytes[task->stores.data[i]];
}

/* The last reader of a value, and the last group that an update waits for, free more than they did. */
static void rate_last(run *r, const tcc_task *task) {
    for (int i = 0; i < task->loads.count; i++) {
        const int id = task->loads.data[i];
        for (int k = r->s->first_reader[id]; k < r->s->first_reader[id + 1] && r->left[id] == 1; k++) {
            r->s->g->diag->steps++;
            rate(r, r->s->readers[k]);
        }
    }
    for (int i = 0; i < task->after.count; i++) {
        const int reader = task->after.data[i];
        if (r->missing[reader] != 1 || !r->s->data[reader].waits) continue;
        const tcc_ints *before = &r->s->data[reader].before;
        r->s->g->diag->steps += before->count;
        for (int k = 0; k < before->count; k++) rate(r, before->data[k]);
    }
}

static void run_group(run *r, int t) {
    const tcc_task *task = &r->s->data[t];
    count_bytes(r, task);
    if (r->states[t] == READY) set_key(r, r->s->place[t], NOT_READY);
    r->states[t] = DONE;
    for (int i = 0; i < task->after.count; i++) {
        const int then = task->after.data[i];
        r->missing_again[then] -= task->again;
        r->missing[then]--;
        if (!is_too_early(r, then)) release_early(r, then);
        if (!r->missing[then]) add(r, then);
    }
    if (r->way != WAY_PROGRAM) rate_last(r, task);
}

static int by_shape(const void *a, const void *b) {
    const waiting *x = a, *y = b;
    return x->shape != y->shape ? (x->shape < y->shape ? -1 : 1) : x->place - y->place;
}

/* Runs those that wait now, equal kernels side by side; the program's order among equals. */
static void run_waiting(run *r, int *order, int *at) {
    const int count = r->waiting.count;
    qsort(r->waiting.data, (size_t)count, sizeof *r->waiting.data, by_shape);
    for (int i = 0; i < count && !r->failed; i++) {
        const int t = r->waiting.data[i].group;
        r->waiting_bytes -= r->s->data[t].input_bytes;
        run_group(r, t);
        order[(*at)++] = t;
    }
    r->waiting.count -= count; /* others may wait since */
    memmove(r->waiting.data, r->waiting.data + count, sizeof *r->waiting.data * (size_t)r->waiting.count);
}

/* -- One run -- */

static bool make_room(run *r) {
    const size_t groups = (size_t)r->s->g->groups.count + 1, nodes = (size_t)r->s->g->nodes.count + 1;
    for (r->leaves = 1; r->leaves < r->s->g->groups.count;) r->leaves *= 2;
    r->states = tcc__malloc(sizeof *r->states * groups);
    r->missing = tcc__malloc(sizeof *r->missing * groups);
    r->missing_again = tcc__malloc(sizeof *r->missing_again * groups);
    r->left = tcc__malloc(sizeof *r->left * nodes);
    r->first_early = tcc__malloc(sizeof *r->first_early * groups);
    r->next_early = tcc__malloc(sizeof *r->next_early * groups);
    r->key = tcc__malloc(sizeof *r->key * (size_t)r->leaves);
    r->tree = tcc__malloc(sizeof *r->tree * 2 * (size_t)r->leaves);
    return r->states && r->missing && r->missing_again && r->left && r->first_early && r->next_early && r->key &&
           r->tree;
}

static void free_room(run *r) {
    void *const arrays[] = {r->states,      r->missing,    r->missing_again, r->left,
                            r->first_early, r->next_early, r->key,           r->tree};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) tcc__free(arrays[i]);
    tcc_vec_free(&r->waiting);
}

static void begin(run *r, way way) {
    const tcc_tasks *s = r->s;
    const int count = s->g->groups.count;
    r->way = way;
    r->live = r->peak = 0;
    r->waiting.count = 0;
    r->waiting_bytes = 0;
    for (int i = 0; i < r->leaves; i++) r->key[i] = NOT_READY, r->tree[r->leaves + i] = i;
    for (int i = r->leaves - 1; i > 0; i--) r->tree[i] = r->tree[2 * i];
    memcpy(r->left, s->users, sizeof *r->left * (size_t)s->g->nodes.count);
    for (int t = 0; t <= count; t++) {
        r->states[t] = BLOCKED;
        r->missing[t] = r->missing_again[t] = 0;
        r->first_early[t] = -1;
    }
    for (int t = 0; t < count; t++) {
        r->missing[t] = s->data[t].before.count;
        for (int i = 0; i < s->data[t].after.count; i++) r->missing_again[s->data[t].after.data[i]] += s->data[t].again;
    }
    for (int t = 0; t < count; t++)
        if (!r->missing[t]) add(r, t);
}

/* Fills `order`; the peak is r->peak then. */
static tcc_status schedule(run *r, way way, int *order) {
    const int count = r->s->g->groups.count;
    int at = 0;
    begin(r, way);
    while (at < count && !r->failed) {
        int t = best_ready(r);
        const bool early = t < 0 && !r->waiting.count;
        if (early) t = best_early(r);
        if (t < 0 || r->waiting_bytes > MOST_WAITING_BYTES) {
            if (!r->waiting.count) return TCC_BUG(r->s->g->diag, "groups wait for each other");
            run_waiting(r, order, &at);
            continue;
        }
        if (early) r->waiting.count = 0, r->waiting_bytes = 0; /* they are early too */
        run_group(r, t);
        order[at++] = t;
    }
    return r->failed ? tcc_enomem(r->s->g->diag) : TCC_OK;
}

static tcc_status best_order(tcc_pass_cx *cx, const tcc_graph *g, int *best) {
    static const char *const names[WAY_COUNT] = {"program", "free early", "take least"};
    tcc_tasks tasks;
    run r = {.s = &tasks};
    tcc_status status = tcc_tasks_create(&tasks, g);
    int *order = tcc__malloc(sizeof *order * (size_t)(g->groups.count + 1));
    if (status == TCC_OK && (!order || !make_room(&r))) status = tcc_enomem(g->diag);
    int64_t best_peak = -1;
    for (int way = 0; way < WAY_COUNT && status == TCC_OK; way++) {
        status = schedule(&r, (enum way)way, order);
        if (status != TCC_OK) break;
        tcc_logf(cx->cx, TCC_LOG_MEMORY, "order '%s': at most %lld bytes alive", names[way], (long long)r.peak);
        if (best_peak >= 0 && r.peak > best_peak - best_peak / 50) continue;
        best_peak = r.peak;
        memcpy(best, order, sizeof *order * (size_t)g->groups.count);
    }
    tcc__free(order);
    free_room(&r);
    tcc_tasks_free(&tasks);
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
