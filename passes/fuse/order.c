/* SPDX-License-Identifier: MIT
 * The order of units: a list in which each unit stands after all units that it waits for. To find whether one unit
 * waits for another, only the units between them are searched, and a merge moves as few of them as possible. Without
 * such an order, each search would visit a large part of the graph, and fusing would take quadratic time.
 *
 * After Pearce and Kelly 2006 (a dynamic topological sort), with numbers that leave gaps (Dietz and Sleator 1987), so
 * that a unit that moves renumbers no others. */
#include "passes/fuse/units.h"

#include "ir/support/alloc.h"

#include <string.h>

enum {
    NONE = TCC_FUSE_NO_UNIT,
    MOST_SEARCHED = TCC_FUSE_MOST_SEARCHED,
    LEAD = 12 /* readers that the search forth may look at before the one back has seen as many loads */
};
static const int64_t gap = (int64_t)1 << 32;

/* -- The list -- */

static tcc_fuse_unit *unit_of(const tcc_fuser *f, int u) { return &f->units.data[u]; }

static void take_out(tcc_fuser *f, int u) {
    const tcc_fuse_unit *x = unit_of(f, u);
    if (x->before != NONE) unit_of(f, x->before)->after = x->after;
    else f->first_unit = x->after;
    if (x->after != NONE) unit_of(f, x->after)->before = x->before;
}

static void renumber(tcc_fuser *f) {
    int64_t place = 0;
    for (int u = f->first_unit; u != NONE; u = unit_of(f, u)->after) unit_of(f, u)->place = place += gap;
}

/* Puts unit u, which is in no list, behind unit `before`; NONE: at the start. */
static void put_behind(tcc_fuser *f, int u, int before) {
    tcc_fuse_unit *x = unit_of(f, u);
    x->before = before;
    x->after = before == NONE ? f->first_unit : unit_of(f, before)->after;
    if (before != NONE) unit_of(f, before)->after = u;
    else f->first_unit = u;
    if (x->after != NONE) unit_of(f, x->after)->before = u;
    const int64_t low = before == NONE ? 0 : unit_of(f, before)->place;
    const int64_t high = x->after == NONE ? low + 2 * gap : unit_of(f, x->after)->place;
    x->place = low + (high - low) / 2;
    if (x->place == low) renumber(f);
}

/* Unit u, which is somewhere else in the list, takes the place of unit `other`, which leaves it. */
static void replace(tcc_fuser *f, int u, int other) {
    if (u == other) return;
    take_out(f, u);
    const int before = unit_of(f, other)->before;
    take_out(f, other);
    put_behind(f, u, before);
}

/* -- Searching -- */

/* Adds to f->others what unit u waits for, as far as it stands behind place `low`. Whether u waits for `watched`. */
static bool look_earlier(tcc_fuser *f, int u, int64_t low, int watched) {
    const tcc_fuse_ids *loads = &unit_of(f, u)->loads;
    const int stamp = f->unit_stamp;
    bool met = false;
    for (int i = 0; i < loads->count; i++) {
        const int source = tcc_fuser_source(f, loads->data[i]);
        if (source == NONE || source == u) continue;
        met |= source == watched;
        if (f->unit_mark[source] == stamp || unit_of(f, source)->place <= low) continue;
        f->unit_mark[source] = stamp;
        tcc_fuser_push(f, &f->others, source);
    }
    return met;
}

/* Adds to f->later the units that load node `id`, as far as they stand before place `high`. Whether `watched` does. */
static bool add_later(tcc_fuser *f, int id, int64_t high, int watched) {
    bool met = false;
    for (int i = f->first_user[id]; i < f->first_user[id + 1]; i++) {
        const int user = f->users[i], reader = f->home[user];
        if (f->inlined[user] && f->asked[user] != f->question) {
            f->asked[user] = f->question;
            met |= add_later(f, user, high, watched);
        }
        if (reader == NONE) continue;
        met |= reader == watched;
        if (f->later_mark[reader] == f->unit_stamp || unit_of(f, reader)->place >= high) continue;
        f->later_mark[reader] = f->unit_stamp;
        tcc_fuser_push(f, &f->later, reader);
    }
    return met;
}

/* The same for all units that wait for unit u. What is inlined and stored all the same, as an output, nobody loads. */
static bool look_later(tcc_fuser *f, int u, int64_t high, int watched) {
    const tcc_fuse_ids *stored = &unit_of(f, u)->stored;
    bool met = false;
    f->question++;
    for (int i = 0; i < stored->count; i++)
        if (!f->inlined[stored->data[i]]) met |= add_later(f, stored->data[i], high, watched);
    return met;
}

/* About how much look_later has to look at. */
static int readers_of(const tcc_fuser *f, int u) {
    const tcc_fuse_ids *stored = &unit_of(f, u)->stored;
    int readers = 0;
    for (int i = 0; i < stored->count; i++)
        readers += f->first_user[stored->data[i] + 1] - f->first_user[stored->data[i]];
    return readers;
}

static void begin_search(tcc_fuser *f, const int *units, int count) {
    f->unit_stamp++;
    f->others.count = f->later.count = 0;
    for (int i = 0; i < count; i++) f->unit_mark[units[i]] = f->later_mark[units[i]] = f->unit_stamp;
}

bool tcc_fuser_depends(tcc_fuser *f, int to, int from) {
    const int64_t low = unit_of(f, from)->place, high = unit_of(f, to)->place;
    int seen_later = 0, loads = 0, readers = 0;
    begin_search(f, (int[]){to, from}, 2);
    if (high <= low) return false;
    bool found = tcc_fuser_post_between(f, to, from), forth = true;
    tcc_fuser_push(f, &f->others, to);
    tcc_fuser_push(f, &f->later, from);
    for (int i = 0; i < f->others.count && !f->out_of_memory; i++) {
        found |= look_earlier(f, f->others.data[i], low, from) && i; /* straight from `from` is no third */
        if (found && f->others.count > MOST_SEARCHED) return true;
        loads += unit_of(f, f->others.data[i])->loads.count;
        for (; forth && !found && seen_later <= i; seen_later++) {
            if (seen_later == f->later.count) return false;
            const int more = readers_of(f, f->later.data[seen_later]);
            if (readers + more > loads + LEAD) break;
            readers += more;
            forth = !look_later(f, f->later.data[seen_later], high, to) || !seen_later;
        }
    }
    return found;
}

/* -- The order -- */

/* Sorts units by their place. */
static void sort(tcc_fuser *f, tcc_fuse_ids *units) {
    const int *list = units->data;
    int sorted = 1;
    while (sorted < units->count && unit_of(f, list[sorted - 1])->place < unit_of(f, list[sorted])->place) sorted++;
    if (sorted >= units->count) return;
    for (int width = 1; width < units->count; width *= 2) { /* merge sort: qsort takes no fuser */
        f->nodes.count = 0;
        for (int start = 0; start < units->count; start += 2 * width) {
            int a = start, b = start + width;
            const int end_a = b < units->count ? b : units->count,
                      end_b = b + width < units->count ? b + width : units->count;
            while (a < end_a || b < end_b) {
                const bool first = b >= end_b ||
                                   (a < end_a && unit_of(f, units->data[a])->place < unit_of(f, units->data[b])->place);
                tcc_fuser_push(f, &f->nodes, units->data[first ? a++ : b++]);
            }
        }
        if (f->out_of_memory) return;
        memcpy(units->data, f->nodes.data, sizeof *units->data * (size_t)units->count);
    }
}

void tcc_fuser_order_merged(tcc_fuser *f, const int *units, int count) {
    int first = units[0], last = units[0], back = 0, forth = 0;
    for (int i = 1; i < count; i++) {
        if (unit_of(f, units[i])->place < unit_of(f, first)->place) first = units[i];
        if (unit_of(f, units[i])->place > unit_of(f, last)->place) last = units[i];
    }
    const int64_t low = unit_of(f, first)->place, high = unit_of(f, last)->place;
    begin_search(f, units, count);
    for (int i = 0; i < count; i++) {
        look_earlier(f, units[i], low, NONE);
        look_later(f, units[i], high, NONE);
    }
    while (back < f->others.count && forth < f->later.count && !f->out_of_memory) {
        look_earlier(f, f->others.data[back++], low, NONE);
        look_later(f, f->later.data[forth++], high, NONE);
    }
    const bool later = forth ==
                       f->later.count; /* those that wait move behind the last; else what is waited for moves */
    tcc_fuse_ids *moved = later ? &f->later : &f->others;
    sort(f, moved);
    for (int i = 0; i < moved->count; i++) take_out(f, moved->data[i]);
    for (int i = 0; i < moved->count; i++)
        put_behind(f, moved->data[i], i ? moved->data[i - 1] : later ? last : unit_of(f, first)->before);
    for (int i = 0; i < count; i++)
        if (units[i] != units[0] && units[i] != (later ? last : first)) take_out(f, units[i]);
    replace(f, units[0], later ? last : first);
}

bool tcc_fuser_order_all(tcc_fuser *f) {
    enum { NEW, OPEN, DONE };
    char *state = tcc__calloc((size_t)f->units.count + 1, 1);
    tcc_fuse_ids *open = &f->others;
    int last = NONE;
    f->out_of_memory |= !state;
    f->first_unit = NONE;
    for (int u = 0; u < f->units.count && !f->out_of_memory; u++) {
        open->count = 0;
        tcc_fuser_push(f, open, u);
        while (open->count && !f->out_of_memory) {
            const int top = open->data[open->count - 1];
            if (state[top] != NEW) {
                open->count--;
                if (state[top] == DONE) continue;
                state[top] = DONE;
                put_behind(f, top, last);
                last = top;
                continue;
            }
            state[top] = OPEN;
            const tcc_fuse_ids *loads = &unit_of(f, top)->loads;
            for (int i = 0; i < loads->count; i++) {
                const int source = tcc_fuser_source(f, loads->data[i]);
                if (source == NONE || source == top || state[source] == DONE) continue;
                if (state[source] == NEW) {
                    tcc_fuser_push(f, open, source);
                    continue;
                }
                tcc__free(state);
                return false;
            }
        }
    }
    tcc__free(state);
    return true;
}
