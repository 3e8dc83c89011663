/* SPDX-License-Identifier: MIT
 * plan-memory: blocks are placed one by one, each in the tightest gap that the blocks alive at the same time leave
 * (best fit), in several orders of which the smallest arena wins.
 *
 * What is taken at a time is known without looking at each block. Over the moments stands a binary tree. A block is
 * noted at the few nodes that make up its life. A node knows what bytes are taken in all of its moments, and what in
 * any of them, as runs of bytes: few, since blocks lie one behind the other. */
#include "passes/plan_place.h"

#include "ir/support/alloc.h"
#include "ir/support/vec.h"

#include <stdlib.h>
#include <string.h>

/* -- Runs of bytes: sorted, and none touches another -- */

typedef struct run {
    int64_t from, to;
} run;

typedef tcc_vec(run) runs;

typedef enum added { ADDED, WAS_THERE, NO_MEMORY } added;

static added add_run(runs *all, run r) {
    int low = 0, high = all->count;
    while (low < high) { /* the first one that r touches, or that is behind it */
        const int middle = low + (high - low) / 2;
        if (all->data[middle].to < r.from) low = middle + 1;
        else high = middle;
    }
    int end = low;
    if (low < all->count && all->data[low].from <= r.from && r.to <= all->data[low].to) return WAS_THERE;
    for (; end < all->count && all->data[end].from <= r.to; end++) {
        if (all->data[end].from < r.from) r.from = all->data[end].from;
        if (all->data[end].to > r.to) r.to = all->data[end].to;
    }
    if (end == low && !tcc_vec_push(all, r)) return NO_MEMORY;
    const int moved = end == low ? all->count - 1 - low : all->count - end;
    memmove(&all->data[low + 1], &all->data[end], sizeof *all->data * (size_t)moved);
    all->data[low] = r;
    all->count = low + 1 + moved;
    return ADDED;
}

static bool push_run(runs *out, run r) {
    run *last = out->count ? &out->data[out->count - 1] : NULL;
    if (!last || last->to < r.from) return tcc_vec_push(out, r);
    if (last->to < r.to) last->to = r.to;
    return true;
}

/* What is in a or b. */
static bool unite(const runs *a, const runs *b, runs *out) {
    bool ok = true;
    out->count = 0;
    for (int i = 0, k = 0; (i < a->count || k < b->count) && ok;) {
        const bool first = k == b->count || (i < a->count && a->data[i].from <= b->data[k].from);
        ok = push_run(out, first ? a->data[i++] : b->data[k++]);
    }
    return ok;
}

/* -- What is taken when -- */

typedef struct timeline {
    int leaves;          /* a power of 2; node leaves + m is moment m, and node n is all of nodes 2 n and 2 n + 1 */
    runs *always, *ever; /* by node: what blocks take that are alive in all of its moments and noted there; and what is
                            taken in any of its moments by those noted there and below */
    int *seen, searches; /* by node */
    runs taken, room;    /* during a search */
    int64_t steps;       /* of all searches */
} timeline;

static bool make_timeline(timeline *t, int moments) {
    for (t->leaves = 1; t->leaves < moments;) t->leaves *= 2;
    const size_t nodes = 2 * (size_t)t->leaves;
    t->always = tcc__calloc(nodes, sizeof *t->always);
    t->ever = tcc__calloc(nodes, sizeof *t->ever);
    t->seen = tcc__calloc(nodes, sizeof *t->seen);
    return t->always && t->ever && t->seen;
}

static void free_timeline(timeline *t) {
    for (int n = 0; n < 2 * t->leaves; n++) {
        if (t->always) tcc_vec_free(&t->always[n]);
        if (t->ever) tcc_vec_free(&t->ever[n]);
    }
    tcc__free(t->always);
    tcc__free(t->ever);
    tcc__free(t->seen);
    tcc_vec_free(&t->taken);
    tcc_vec_free(&t->room);
}

static void clear_timeline(timeline *t) {
    for (int n = 0; n < 2 * t->leaves; n++) t->always[n].count = t->ever[n].count = 0;
}

/* The nodes that make up a life, from its ends to its middle. */
typedef struct walk {
    int left, right;
} walk;

static walk begin_walk(const timeline *t, const tcc_block *b) {
    return (walk){t->leaves + b->first + 1, t->leaves + b->last + 2};
}

/* 0: no more. */
static int next_node(walk *w) {
    for (; w->left < w->right; w->left /= 2, w->right /= 2) {
        if (w->left % 2) return w->left++;
        if (w->right % 2) return --w->right;
    }
    return 0;
}

static bool note(timeline *t, const tcc_block *b) {
    const run r = {b->offset_bytes, b->offset_bytes + b->size_bytes};
    walk w = begin_walk(t, b);
    for (int node; (node = next_node(&w));) {
        if (add_run(&t->always[node], r) == NO_MEMORY) return false;
        for (added a = ADDED; node && a == ADDED; node /= 2) { /* what one node has, those above it have */
            a = add_run(&t->ever[node], r);
            if (a == NO_MEMORY) return false;
        }
    }
    return true;
}

static bool take(timeline *t, const runs *more) {
    if (!more->count) return true;
    const runs old = t->taken;
    t->steps += old.count + more->count;
    if (!unite(&old, more, &t->room)) return false;
    t->taken = t->room;
    t->room = old;
    return true;
}

/* Fills t->taken: what is taken in any moment of the block's life. */
static bool find_taken(timeline *t, const tcc_block *b) {
    walk w = begin_walk(t, b);
    bool ok = true;
    t->taken.count = 0;
    t->searches++;
    for (int node; ok && (node = next_node(&w));) {
        ok = take(t, &t->ever[node]);
        for (node /= 2; ok && node && t->seen[node] != t->searches; node /= 2) {
            t->seen[node] = t->searches;
            ok = take(t, &t->always[node]);
        }
    }
    return ok;
}

/* Where the tightest gap begins, the first of equals; or the end of all that is taken. */
static int64_t best_fit(const runs *taken, int64_t size_bytes) {
    int64_t end = 0, best = -1, best_gap = INT64_MAX;
    for (int i = 0; i < taken->count; i++) {
        const int64_t gap = taken->data[i].from - end;
        if (gap >= size_bytes && gap < best_gap) best = end, best_gap = gap;
        end = taken->data[i].to;
    }
    return best >= 0 ? best : end;
}

/* -- Orders -- */

typedef int (*compare_fn)(const void *, const void *);

static int by_size(const void *a, const void *b) {
    const tcc_block *x = *(tcc_block *const *)a, *y = *(tcc_block *const *)b;
    if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? 1 : -1;
    return x->first != y->first ? x->first - y->first : x < y ? -1 : x > y;
}

static int by_area(const void *a, const void *b) {
    const tcc_block *x = *(tcc_block *const *)a, *y = *(tcc_block *const *)b;
    double p = (double)x->size_bytes * (x->last - x->first + 1), q = (double)y->size_bytes * (y->last - y->first + 1);
    return p != q ? (p < q ? 1 : -1) : by_size(a, b);
}

static int by_life(const void *a, const void *b) {
    const tcc_block *x = *(tcc_block *const *)a, *y = *(tcc_block *const *)b;
    int p = x->last - x->first, q = y->last - y->first;
    return p != q ? q - p : by_size(a, b);
}

static int by_start(const void *a, const void *b) {
    const tcc_block *x = *(tcc_block *const *)a, *y = *(tcc_block *const *)b;
    return x->first != y->first ? x->first - y->first : by_size(a, b);
}

/* Moves scratch behind the values and keeps the order within both. So the arena that the values alone would need grows
 * only by the scratch that does not fit beside them. */
static void scratch_last(tcc_block **order, int count, tcc_block **room) {
    int n = 0, kept = 0;
    for (int i = 0; i < count; i++)
        if (order[i]->scratch) room[n++] = order[i];
        else order[kept++] = order[i];
    memcpy(order + kept, room, sizeof *order * (size_t)n);
}

/* -- Placing -- */

typedef struct placer {
    tcc_block *blocks, **order; /* order: with room for twice as many */
    int count;
    timeline timeline;
    int64_t *best; /* by block: the offset in the smallest arena so far */
} placer;

/* Places the blocks in their order. Gives the arena's size, or what is at least `most` as soon as it is known to be
 * that; -1: memory is short. */
static int64_t place_in_order(placer *p, int64_t most) {
    int64_t arena = 0;
    clear_timeline(&p->timeline);
    for (int i = 0; i < p->count && arena < most; i++) {
        tcc_block *b = p->order[i];
        if (!find_taken(&p->timeline, b)) return -1;
        b->offset_bytes = best_fit(&p->timeline.taken, b->size_bytes);
        if (b->offset_bytes + b->size_bytes > arena) arena = b->offset_bytes + b->size_bytes;
        if (!note(&p->timeline, b)) return -1;
    }
    return arena;
}

/* The most bytes that are alive in one moment, which no arena can be smaller than; -1: memory is short. */
static int64_t least_arena(const placer *p, int moments) {
    int64_t *change = tcc__calloc((size_t)moments + 3, sizeof *change), alive = 0, most = 0;
    if (!change) return -1;
    for (int i = 0; i < p->count; i++) {
        change[p->blocks[i].first + 1] += p->blocks[i].size_bytes;
        change[p->blocks[i].last + 2] -= p->blocks[i].size_bytes;
    }
    for (int m = 0; m <= moments; m++)
        if ((alive += change[m]) > most) most = alive;
    tcc__free(change);
    return most;
}

/* False: memory is short. */
static bool place(placer *p, int moments, int64_t *arena_bytes) {
    static const compare_fn orders[] = {by_size, by_area, by_life, by_start};
    const int64_t least = least_arena(p, moments);
    if (least < 0) return false;
    *arena_bytes = INT64_MAX;
    for (size_t way = 0; way < 2 * sizeof orders / sizeof orders[0] && *arena_bytes > least; way++) {
        for (int i = 0; i < p->count; i++) p->order[i] = &p->blocks[i];
        qsort(p->order, (size_t)p->count, sizeof(tcc_block *), orders[way / 2]);
        if (way % 2) scratch_last(p->order, p->count, p->order + p->count);
        const int64_t arena = place_in_order(p, *arena_bytes);
        if (arena < 0) return false;
        if (arena >= *arena_bytes) continue;
        *arena_bytes = arena;
        for (int i = 0; i < p->count; i++) p->best[i] = p->blocks[i].offset_bytes;
    }
    for (int i = 0; i < p->count; i++) p->blocks[i].offset_bytes = p->best[i];
    return true;
}

tcc_status tcc_place_blocks(tcc_block *blocks, int count, int moments, int64_t *arena_bytes, tcc_diag *diag) {
    placer p = {.blocks = blocks, .count = count};
    p.order = tcc__malloc(sizeof(tcc_block *) * 2 * ((size_t)count + 1));
    p.best = tcc__malloc(sizeof *p.best * ((size_t)count + 1));
    const bool placed = p.order && p.best && make_timeline(&p.timeline, moments + 1) && place(&p, moments, arena_bytes);
    diag->steps += p.timeline.steps;
    free_timeline(&p.timeline);
    tcc__free(p.order);
    tcc__free(p.best);
    return placed ? TCC_OK : tcc_enomem(diag);
}
