/* SPDX-License-Identifier: MIT
 * plan-memory: gives everything that lives in the arena its offset: values that groups store, their temporaries and
 * workspaces, and states on their way to other states. A value may live in a binding instead.
 *
 * Time is counted in launches. A value lives from the launch that first writes it to the last one that reads it. An
 * output may take over the memory of an operand that dies in the launch that writes the output, if that launch reads
 * and writes in step. Such chains form one block. Blocks are placed one by one, each in the tightest gap that the
 * blocks alive at the same time leave (best fit). Several orders are tried; the smallest arena wins. */
#include "ir/support/alloc.h"
#include "passes/group.h"
#include "passes/pass.h"
#include "passes/memory/plan.h"

#include <stdlib.h>
#include <string.h>

/* -- Outputs written over the state that they replace -- */

/* By node: what it is to the outputs so far. */
enum { IS_OUTPUT = 1, IS_IN_PLACE = 2, HAS_HOME = 4 };

static bool may_overwrite(const tcc_graph *g, const tcc_plan *lives, const tcc_output *output, const char *marks) {
    if (output->node->op == TCC_OP_INPUT || output->node->op == TCC_OP_CONSTANT) return false;
    if (marks[g->inputs.data[output->alias]->id] & IS_OUTPUT || marks[output->node->id] & IS_IN_PLACE) return false;
    return tcc_plan_may_replace(g, lives, output);
}

/* One state becomes another. */
static bool is_moved(const tcc_graph *g, const tcc_output *output) {
    return output->alias >= 0 && output->node->op == TCC_OP_INPUT && g->inputs.data[output->alias] != output->node;
}

/* -- Blocks of memory -- */

/* Values that follow one another in the same memory. */
typedef struct block {
    int64_t size_bytes, offset_bytes;
    int first, last;
    bool scratch; /* no value but a temporary, or a state on its way */
} block;

typedef struct planner {
    const tcc_graph *g;
    tcc_plan plan;
    int *block_of; /* by value */
    tcc_vec(block) blocks;
} planner;

/* The block of an operand that dies where value `v` is born, if that launch reads and writes in step; -1: none.
 * `dying`: the first value that dies there, `next` the one after each. */
static int block_for(const planner *p, const tcc_plan_value *v, int dying, const int *next) {
    for (int u = dying; u >= 0; u = next[u]) {
        const tcc_plan_value *old = &p->plan.values.data[u];
        if (p->blocks.data[p->block_of[u]].last == old->last && old->size_bytes == v->size_bytes &&
            tcc_plan_overwrites(&p->plan, old, v))
            return p->block_of[u];
    }
    return -1;
}

/* Puts each value into a block. Values so far are listed by the moment in which they die, in their order. */
static tcc_status make_blocks(planner *p, tcc_diag *diag) {
    const int moments = p->plan.start[p->g->groups.count] + 2, count = p->plan.values.count;
    int *lists = tcc__malloc(sizeof *lists * (2 * (size_t)moments + (size_t)count + 1)); /* firsts, lasts; next ones */
    bool ok = lists != NULL;
    for (int t = 0; t < 2 * moments && ok; t++) lists[t] = -1;
    for (int v = 0; v < count && ok; v++) {
        const tcc_plan_value *value = &p->plan.values.data[v];
        int *next = lists + 2 * moments;
        const int found = value->first < 0 ? -1 : block_for(p, value, lists[value->first], next);
        const block fresh = {value->size_bytes, 0, value->first, value->last, !value->node};
        p->block_of[v] = found >= 0 ? found : p->blocks.count;
        if (found >= 0) p->blocks.data[found].last = value->last;
        else ok = tcc_vec_push(&p->blocks, fresh);
        next[v] = -1;
        if (value->last < 0) continue;
        int *first = &lists[value->last], *last = &lists[moments + value->last];
        *(*first < 0 ? first : &next[*last]) = v;
        *last = v;
    }
    tcc__free(lists);
    return ok ? TCC_OK : tcc_enomem(diag);
}

/* -- Placing -- */

typedef int (*compare_fn)(const void *, const void *);

static int by_size(const void *a, const void *b) {
    const block *x = *(block *const *)a, *y = *(block *const *)b;
    if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? 1 : -1;
    return x->first != y->first ? x->first - y->first : x < y ? -1 : x > y;
}

static int by_area(const void *a, const void *b) {
    const block *x = *(block *const *)a, *y = *(block *const *)b;
    double p = (double)x->size_bytes * (x->last - x->first + 1), q = (double)y->size_bytes * (y->last - y->first + 1);
    return p != q ? (p < q ? 1 : -1) : by_size(a, b);
}

static int by_life(const void *a, const void *b) {
    const block *x = *(block *const *)a, *y = *(block *const *)b;
    int p = x->last - x->first, q = y->last - y->first;
    return p != q ? q - p : by_size(a, b);
}

static int by_start(const void *a, const void *b) {
    const block *x = *(block *const *)a, *y = *(block *const *)b;
    return x->first != y->first ? x->first - y->first : by_size(a, b);
}

/* Moves scratch behind the values and keeps the order within both. So the arena that the values alone would need grows
 * only by the scratch that does not fit beside them. */
static void scratch_last(block **order, int count, block **room) {
    int n = 0, kept = 0;
    for (int i = 0; i < count; i++)
        if (order[i]->scratch) room[n++] = order[i];
        else order[kept++] = order[i];
    memcpy(order + kept, room, sizeof *order * (size_t)n);
}

/* Places the blocks in the order given and returns the arena's size, or what is at least `most` as soon as it is known
 * to be that. `placed` is kept sorted by offset. */
static int64_t place_blocks(block **order, int count, block **placed, int64_t most) {
    int64_t arena = 0;
    for (int i = 0; i < count && arena < most; i++) {
        block *b = order[i];
        int64_t end = 0, best = -1, best_gap = INT64_MAX;
        for (int k = 0; k < i; k++) {
            const block *other = placed[k];
            if (other->last < b->first || b->last < other->first) continue;
            int64_t gap = other->offset_bytes - end;
            if (gap >= b->size_bytes && gap < best_gap) {
                best = end;
                best_gap = gap;
            }
            if (other->offset_bytes + other->size_bytes > end) end = other->offset_bytes + other->size_bytes;
        }
        b->offset_bytes = best >= 0 ? best : end;
        if (b->offset_bytes + b->size_bytes > arena) arena = b->offset_bytes + b->size_bytes;
        int k = i;
        for (; k > 0 && placed[k - 1]->offset_bytes > b->offset_bytes; k--) placed[k] = placed[k - 1];
        placed[k] = b;
    }
    return arena;
}

/* To place so many blocks takes time by their square. By size, the first way, is within 1 % of the best one in all
 * models that were looked at; graphs of tens of thousands of values leave it at that. */
static tcc_status place_all(planner *p, int64_t *arena_bytes, tcc_diag *diag) {
    static const compare_fn orders[] = {by_size, by_area, by_life, by_start};
    static const int64_t most_steps = 200000000;
    const int count = p->blocks.count;
    int64_t steps = 0;
    block **order = tcc__malloc(sizeof *order * 2 * (size_t)(count + 1));
    int64_t *best = tcc__malloc(sizeof *best * (size_t)(count + 1));
    if (!order || !best) {
        tcc__free(order);
        tcc__free(best);
        return tcc_enomem(diag);
    }
    *arena_bytes = INT64_MAX;
    for (size_t way = 0; way < 2 * sizeof orders / sizeof orders[0] && steps < most_steps; way++) {
        steps += (int64_t)count * count;
        for (int i = 0; i < count; i++) order[i] = &p->blocks.data[i];
        qsort(order, (size_t)count, sizeof *order, orders[way / 2]);
        if (way % 2) scratch_last(order, count, order + count);
        int64_t arena = place_blocks(order, count, order + count, *arena_bytes);
        if (arena >= *arena_bytes) continue;
        *arena_bytes = arena;
        for (int i = 0; i < count; i++) best[i] = p->blocks.data[i].offset_bytes;
    }
    for (int i = 0; i < count; i++) p->blocks.data[i].offset_bytes = best[i];
    tcc__free(order);
    tcc__free(best);
    return TCC_OK;
}

/* -- The pass -- */

/* A place for each stored value without a home in a binding; offsets come later. */
static tcc_status list_places(tcc_graph *g, char *marks) {
    g->places.count = 0;
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *output = &g->outputs.data[i];
        if (output->in_place || output->alias < 0) marks[output->node->id] |= HAS_HOME;
    }
    for (int t = 0; t < g->groups.count; t++)
        for (int i = 0; i < g->groups.data[t].n_outputs; i++) {
            tcc_node *n = g->groups.data[t].outputs[i];
            if (marks[n->id] & HAS_HOME) continue;
            if (!tcc_vec_push(&g->places, (tcc_place){n, 0})) return tcc_enomem(g->diag);
        }
    return TCC_OK;
}

static void log_plan(tcc_pass_cx *cx, const planner *p) {
    if (!tcc_log_on(cx->cx, TCC_LOG_MEMORY)) return;
    tcc_strbuf b = {0};
    tcc_plan_print(&b, p->g, &p->plan);
    if (!b.failed) tcc_logf(cx->cx, TCC_LOG_MEMORY, "%s", b.text);
    tcc_strbuf_free(&b);
}

/* What is written in place, and what goes by way of the arena. */
static tcc_status plan_outputs(tcc_graph *g, bool apart, char *marks, tcc_diag *diag) {
    tcc_plan lives;
    g->places.count = 0; /* the lives of bindings alone */
    for (int i = 0; i < g->outputs.count; i++) {
        g->outputs.data[i].in_place = g->outputs.data[i].staged = false;
        marks[g->outputs.data[i].node->id] |= IS_OUTPUT;
    }
    TCC_TRY(tcc_plan_read(g, &lives, diag));
    for (int i = 0; i < g->outputs.count; i++) {
        tcc_output *output = &g->outputs.data[i];
        if (output->alias >= 0 && !apart) output->in_place = may_overwrite(g, &lives, output, marks);
        if (output->in_place) marks[output->node->id] |= IS_IN_PLACE;
        output->staged = is_moved(g, output);
    }
    tcc_plan_free(&lives);
    return TCC_OK;
}

static void set_offset(tcc_graph *g, const tcc_plan *plan, int at, int64_t offset_bytes) {
    const tcc_plan_value *v = &plan->values.data[at];
    if (v->node) {
        g->places.data[at].offset_bytes = offset_bytes;
    } else if (v->group < 0) {
        g->outputs.data[v->temporary].stage_bytes = offset_bytes;
    } else {
        tcc_temporary *t = &g->groups.data[v->group].implementation->temporaries[v->temporary];
        t->placed = true, t->offset_bytes = offset_bytes;
    }
}

/* Each value a block of its own, one behind the other. */
static tcc_status place_apart(planner *p, int64_t *arena_bytes, tcc_diag *diag) {
    *arena_bytes = 0;
    for (int v = 0; v < p->plan.values.count; v++) {
        const tcc_plan_value *value = &p->plan.values.data[v];
        block fresh = {value->size_bytes, *arena_bytes, value->first, value->last, !value->node};
        p->block_of[v] = v;
        if (!tcc_vec_push(&p->blocks, fresh)) return tcc_enomem(diag);
        *arena_bytes += value->size_bytes;
    }
    return TCC_OK;
}

static tcc_status plan(tcc_pass_cx *cx, tcc_graph *g) {
    const bool apart = cx->options && cx->options->apart;
    char *marks = tcc__calloc((size_t)g->nodes.count + 1, 1);
    tcc_status listed = marks ? plan_outputs(g, apart, marks, cx->diag) : tcc_enomem(cx->diag);
    if (listed == TCC_OK) listed = list_places(g, marks);
    tcc__free(marks);
    TCC_TRY(listed);
    planner p = {.g = g};
    TCC_TRY(tcc_plan_read(g, &p.plan, cx->diag));
    p.block_of = tcc__malloc(sizeof *p.block_of * (size_t)(p.plan.values.count + 1));
    tcc_status status = p.block_of ? TCC_OK : tcc_enomem(cx->diag);
    if (status == TCC_OK && apart) status = place_apart(&p, &g->arena_bytes, cx->diag);
    if (status == TCC_OK && !apart) status = make_blocks(&p, cx->diag);
    if (status == TCC_OK && !apart) status = place_all(&p, &g->arena_bytes, cx->diag);
    for (int v = 0; v < p.plan.values.count && status == TCC_OK; v++) {
        p.plan.values.data[v].offset_bytes = p.blocks.data[p.block_of[v]].offset_bytes;
        set_offset(g, &p.plan, v, p.plan.values.data[v].offset_bytes);
    }
    if (status == TCC_OK) log_plan(cx, &p);
    tcc__free(p.block_of);
    tcc_vec_free(&p.blocks);
    tcc_plan_free(&p.plan);
    return status;
}

tcc_status tcc_pass_plan_memory(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    tcc_graph *g;
    TCC_TRY(tcc_group_copy_graph(in, NULL, &g));
    const tcc_status status = plan(cx, g);
    if (status != TCC_OK) {
        tcc_graph_destroy(g);
        return status;
    }
    *out = g;
    return TCC_OK;
}
