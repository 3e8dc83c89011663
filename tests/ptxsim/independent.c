/* SPDX-License-Identifier: MIT
 * Warps with independent threads, as Volta and later may run them. A branch parts the threads of a warp for good: they
 * come together again only in instructions that wait for others (.sync), with those that the member mask names. What
 * runs next, and for how long, is drawn from a seed: among the warps of the block, among the parts of a warp, and now
 * and then a part is parted further where no branch is, for nothing promises that threads stay together.
 *
 * A fragment is a set of threads of a warp that are at one place. Where one reaches a .sync instruction it waits until
 * the fragments there hold all that are named and have not exited; then these are one fragment, which executes it. */
#include "lanes.h"
#include "sim.h"

#include <stdio.h>

enum { MOST_SPLITS = 3 };

/* xorshift64*, Vigna 2016. */
static uint32_t draw(sim_worker *k, uint32_t below) {
    uint64_t x = k->random;
    x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
    k->random = x;
    return (uint32_t)((x * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % below;
}

/* The same for the same block of the same launch, whichever host thread it falls to. */
static void seed(sim_worker *k) {
    uint64_t x = sim_set.seed * UINT64_C(0x9e3779b97f4a7c15) + k->launch->op;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9) + k->block.linear;
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    k->random = (x ^ x >> 31) | 1;
}

static sim_fragment *part(sim_warp *w, sim_fragment *from, uint32_t mask, uint32_t pc) {
    sim_fragment *to = w->fragments; /* masks are disjoint, so that of 32 one is empty or one can be added */
    while (to < w->fragments + w->n_fragments && to->mask) to++;
    if (to == w->fragments + w->n_fragments) w->n_fragments++;
    *to = *from;
    to->mask = mask, to->pc = pc;
    from->mask &= ~mask;
    return to;
}

static void remove_empty(sim_warp *w) {
    int n = 0;
    for (int k = 0; k < w->n_fragments; k++)
        if (w->fragments[k].mask) w->fragments[n++] = w->fragments[k];
    w->n_fragments = n;
    if (!n && w->state != WARP_DONE) sim_finish_warp(w);
}

static const sim_inst *place(const sim_fragment *f) { return &f->frame->func->code[f->pc]; }

/* --- instructions in which threads meet */

/* Barriers of warps and unaligned ones of blocks: threads may come to them by different instructions, no data moves. */
static bool meet_anywhere(const sim_inst *i) {
    return i->exec == sim_exec_warp_sync || (i->kind == K_BARRIER && i->flags & FLAG_UNALIGNED);
}

/* Threads exchange data in these, and need not be at the same instruction if it has the same qualifiers. */
static bool exchange(const sim_inst *i) {
    return i->exec == sim_exec_shfl || i->exec == sim_exec_vote || i->exec == sim_exec_match ||
           i->exec == sim_exec_redux;
}

static uint32_t barrier_id(const sim_fragment *f) {
    return ((const sim_reg *)(f->frame->rows + (size_t)place(f)->in[0] * ROW_BYTES))->u32[__builtin_ctz(f->mask)];
}

static bool same_meeting(const sim_fragment *a, const sim_fragment *b) {
    const sim_inst *i = place(a), *j = place(b);
    if (b->state != FRAGMENT_MEETS || a->members != b->members) return false;
    if (i == j && a->frame == b->frame) return true;
    if (exchange(i)) return i->exec == j->exec && i->op == j->op && i->type == j->type;
    return meet_anywhere(i) && meet_anywhere(j) && i->kind == j->kind &&
           (i->kind != K_BARRIER || barrier_id(a) == barrier_id(b));
}

/* Between the rows of an operand, or its bits of a predicate's row. */
static void copy_lanes(uint8_t *to, const uint8_t *from, uint32_t mask, bool is_predicate, bool is_wide) {
    const size_t bytes = is_wide ? 8 : 4;
    if (is_predicate) {
        uint32_t now, other;
        memcpy(&now, to, sizeof now);
        memcpy(&other, from, sizeof other);
        now = (now & ~mask) | (other & mask);
        memcpy(to, &now, sizeof now);
        return;
    }
    for (uint32_t m = mask; m; m &= m - 1) {
        const size_t lane = (size_t)__builtin_ctz(m);
        memcpy(to + lane * bytes, from + lane * bytes, bytes);
    }
}

/* The operands of fragments at different places are brought together in registers of no frame. */
static void exchange_apart(sim_warp *w, const sim_fragment *f) {
    enum { OUT = 2 * SIM_MAX_IN, ROWS = OUT + 2 };
    _Alignas(ROW_BYTES) uint8_t rows[ROWS][ROW_BYTES] = {0};
    uint32_t init[ROWS] = {0}, met = 0;
    sim_inst together = *place(f);
    const bool vote = together.exec == sim_exec_vote, wide = together.type == T_B64, flag = vote && together.op != 3;
    for (int k = 0; k < together.n_in; k++) together.in[k] = 2 * k;
    together.n_out = together.exec == sim_exec_shfl || together.exec == sim_exec_match ? 2 : 1;
    for (int k = 0; k < together.n_out; k++) together.out[k] = OUT + k;
    for (int g = 0; g < w->n_fragments; g++) {
        const sim_fragment *other = &w->fragments[g];
        if (!same_meeting(f, other)) continue;
        const sim_inst *i = place(other);
        met |= other->mask;
        for (int k = 0; k < i->n_in; k++) {
            copy_lanes(rows[2 * k], other->frame->rows + (size_t)i->in[k] * ROW_BYTES, other->mask, vote && k == 0,
                       wide && k == 0);
            init[2 * k] |= other->frame->init[i->in[k]] & other->mask;
        }
    }
    w->rows = rows[0], w->init = init;
    together.exec(w, &together, met);
    for (int g = 0; g < w->n_fragments; g++) {
        const sim_fragment *other = &w->fragments[g];
        if (!same_meeting(f, other)) continue;
        const sim_inst *i = place(other);
        for (int k = 0; k < i->n_out; k++) {
            uint32_t *known = &other->frame->init[i->out[k]];
            copy_lanes(other->frame->rows + (size_t)i->out[k] * ROW_BYTES, rows[OUT + k], other->mask, flag || k == 1,
                       false);
            *known = (*known & ~other->mask) | (init[OUT + k] & other->mask);
        }
    }
    sim_use_frame(w, f->frame);
}

/* Executes the instruction in which the fragment's threads have met. Fragments at other places go on from there. */
static void perform(sim_warp *w, sim_fragment *f, uint32_t met) {
    const sim_inst *i = place(f);
    sim_use_frame(w, f->frame);
    w->at = i;
    if (i->kind == K_BARRIER) {
        const bool waits = sim_arrive(w, i, met, __builtin_ctz(f->mask));
        for (int k = 0; k < w->n_fragments; k++)
            if (w->fragments[k].mask & met)
                w->fragments[k].state = waits ? FRAGMENT_AT_BARRIER : FRAGMENT_READY, w->fragments[k].pc++;
        return;
    }
    if (i->exec == sim_exec_warp_sync) {
        w->clock[w->index]++;
    } else if (met != f->mask) {
        exchange_apart(w, f);
    } else {
        if (i->propagates) sim_propagate(w, i, f->mask);
        i->exec(w, i, f->mask);
    }
    for (int k = 0; k < w->n_fragments; k++)
        if (w->fragments[k].mask & met) w->fragments[k].state = FRAGMENT_READY, w->fragments[k].pc++;
}

/* Whether all for whom the fragment waits are there; then they have met. */
static bool try_meet(sim_warp *w, sim_fragment *f) {
    uint32_t met = 0;
    for (int k = 0; k < w->n_fragments; k++)
        if (same_meeting(f, &w->fragments[k])) met |= w->fragments[k].mask;
    if (f->members & w->live & ~met) return false;
    for (int k = 0; k < w->n_fragments; k++) {
        sim_fragment *g = &w->fragments[k];
        if (g != f && g->frame == f->frame && g->pc == f->pc && same_meeting(f, g)) f->mask |= g->mask, g->mask = 0;
    }
    perform(w, f, met);
    return true;
}

/* Threads have exited, so that others may have waited long enough. */
static void meet_without_exited(sim_warp *w) {
    for (int k = 0; k < w->n_fragments && !w->launch->status; k++)
        if (w->fragments[k].mask && w->fragments[k].state == FRAGMENT_MEETS) try_meet(w, &w->fragments[k]);
}

static uint32_t members_of(const sim_warp *w, const sim_inst *i, int lane) {
    return i->meets == MEETS_WARP ? w->initial : row(w, i->in[i->meets - 1])->u32[lane];
}

/* The fragment has come to a .sync instruction. False: it does not go on now. */
static bool arrive(sim_warp *w, sim_fragment *f) {
    const sim_inst *i = place(f);
    bool complete = true;
    for (uint32_t m = f->mask; m; m &= m - 1) {
        int lane = __builtin_ctz(m);
        uint32_t members = members_of(w, i, lane);
        if (!(members >> lane & 1) &&
            sim_soft_fault(w, i, lane, CHECK_BARRIER, "the lane is not in its own member mask 0x%08x", members))
            return false;
        complete &= (members & w->live & ~f->mask) == 0;
    }
    if (complete && !meet_anywhere(i)) {
        perform(w, f, f->mask);
        return f->state == FRAGMENT_READY;
    }
    bool goes_on = false;
    const uint32_t all = f->mask;
    for (uint32_t left = all; left;) { /* those with the same member mask wait together */
        const int lane = __builtin_ctz(left);
        const uint32_t members = members_of(w, i, lane);
        uint32_t same = 0;
        for (uint32_t m = left; m; m &= m - 1)
            if (members_of(w, i, __builtin_ctz(m)) == members) same |= m & -m;
        left &= ~same;
        sim_fragment *g = left ? part(w, f, same, f->pc) : f;
        g->state = FRAGMENT_MEETS, g->members = members;
        bool met = try_meet(w, g);
        sim_use_frame(w, f->frame);
        if (g == f) goes_on = met && f->state == FRAGMENT_READY;
    }
    return goes_on;
}

/* --- all other instructions that are not simply executed */

static void take_branch(sim_warp *w, sim_fragment *f, const sim_inst *i, uint32_t target, uint32_t taken) {
    if (taken == f->mask) {
        f->pc = target;
        return;
    }
    if (i->flags & FLAG_UNIFORM && taken &&
        sim_soft_fault(w, i, -1, CHECK_BARRIER, "bra.uni goes two ways: lanes 0x%08x of 0x%08x", taken, f->mask))
        return;
    if (taken) part(w, f, taken, target);
    f->pc++;
}

/* One target at a time: threads with another index are at the instruction still. */
static void branch_by_index(sim_warp *w, sim_fragment *f, const sim_inst *i, uint32_t mask) {
    const sim_func *func = f->frame->func;
    if (f->mask & ~mask) part(w, f, f->mask & ~mask, f->pc + 1);
    uint32_t index = row(w, i->in[0])->u32[__builtin_ctz(mask)], same = 0;
    if (index >= (uint32_t)func->n_targets[i->target]) {
        sim_fault(w, i, __builtin_ctz(mask), SIM_ILLEGAL_INSTRUCTION, "brx.idx with index %u of %d targets", index,
                  func->n_targets[i->target]);
        return;
    }
    EACH_LANE same |= (uint32_t)(row(w, i->in[0])->u32[l] == index) << l;
    if (f->mask & ~same) part(w, f, f->mask & ~same, f->pc);
    f->pc = func->targets[i->target][index];
}

/* A control instruction that `mask` of the fragment executes. False: the fragment does not go on now. */
static bool control(sim_warp *w, sim_fragment *f, const sim_inst *i, uint32_t mask) {
    if (i->kind == K_BRANCH) {
        take_branch(w, f, i, i->target, mask);
        return true;
    }
    if (!mask) {
        f->pc++;
        return true;
    }
    if (i->kind == K_BRANCH_INDEX) {
        branch_by_index(w, f, i, mask);
        return true;
    }
    if (f->mask & ~mask) part(w, f, f->mask & ~mask, f->pc + 1);
    switch (i->kind) {
    case K_EXIT:
        w->live &= ~mask;
        f->mask = 0;
        meet_without_exited(w);
        return false;
    case K_RET:
        f->pc = f->frame->return_pc;
        sim_leave_frame(w, f->frame, mask);
        f->frame = w->frame;
        return true;
    case K_CALL: {
        sim_frame *to = sim_enter_frame(w, i, mask);
        if (!to) return false;
        to->return_pc = f->pc + 1;
        f->frame = to, f->pc = 0;
        return true;
    }
    case K_BARRIER: return arrive(w, f);
    default: sim_fault(w, i, __builtin_ctz(mask), SIM_LAUNCH_FAILED, "trap"); return false;
    }
}

static void run_fragment(sim_warp *w, sim_fragment *f, uint32_t quantum) {
    sim_launch *l = w->launch;
    uint64_t steps = 0, instructions = 0, lanes = 0;
    sim_use_frame(w, f->frame);
    for (bool goes_on = true; goes_on && steps < quantum && !__atomic_load_n(&l->status, __ATOMIC_RELAXED);) {
        const sim_inst *i = place(f);
        uint32_t mask = f->mask;
        if (i->guard >= 0 && !sim_guard(w, i, f->mask, &mask)) break;
        w->at = i;
        steps++;
        instructions += i->counts;
        lanes += i->counts ? (uint64_t)__builtin_popcount(mask) : 0;
        if (i->kind == K_NOP || (i->kind == K_COMPUTE && !mask)) {
            f->pc++;
        } else if (i->kind != K_COMPUTE) {
            goes_on = control(w, f, i, mask);
        } else if (i->meets) {
            if (f->mask & ~mask) part(w, f, f->mask & ~mask, f->pc + 1);
            goes_on = arrive(w, f);
        } else {
            if (i->propagates) sim_propagate(w, i, mask);
            i->exec(w, i, mask);
            f->pc++;
        }
    }
    sim_spend(w->worker, w, w->at, steps);
    w->worker->stats.warp_instructions += instructions, w->worker->stats.lane_instructions += lanes;
}

/* --- the order */

/* A random fragment that is ready, of the warp or of the next ones that have any; NULL: all wait or are done. */
static sim_fragment *choose(sim_worker *k, sim_warp **warp) {
    const int n = k->block.n_warps, first = (int)draw(k, (uint32_t)n);
    for (int j = 0; j < n; j++) {
        sim_warp *w = &k->warps[(first + j) % n];
        int ready = 0;
        for (int f = 0; f < w->n_fragments; f++) ready += w->fragments[f].state == FRAGMENT_READY;
        if (!ready) continue;
        int which = (int)draw(k, (uint32_t)ready);
        *warp = w;
        for (int f = 0;; f++)
            if (w->fragments[f].state == FRAGMENT_READY && which-- == 0) return &w->fragments[f];
    }
    return NULL;
}

static void report_stuck(sim_worker *k) {
    char text[512];
    sim_warp *first = NULL;
    const sim_inst *at = NULL;
    size_t n = 0;
    for (int j = 0; j < k->block.n_warps; j++) {
        sim_warp *w = &k->warps[j];
        for (int q = 0; q < w->n_fragments && n < sizeof text - 100; q++) {
            const sim_fragment *f = &w->fragments[q];
            if (!first) first = w, at = f->state == FRAGMENT_MEETS ? place(f) : place(f) - 1;
            if (f->state == FRAGMENT_MEETS)
                n += (size_t)snprintf(text + n, sizeof text - n, "; warp %d: lanes 0x%08x at line %u for lanes 0x%08x",
                                      j, f->mask, place(f)->line, f->members & w->live & ~f->mask);
            else
                n += (size_t)snprintf(text + n, sizeof text - n, "; warp %d: lanes 0x%08x at the barrier of line %u", j,
                                      f->mask, place(f)[-1].line);
        }
    }
    if (first) sim_fault(first, at, -1, SIM_LAUNCH_FAILED, "threads wait for ever for others%s", text);
}

void sim_run_independent(sim_worker *k) {
    seed(k);
    for (int j = 0; j < k->block.n_warps; j++) {
        sim_warp *w = &k->warps[j];
        w->fragments[0] = (sim_fragment){.mask = w->live, .frame = &w->kernel};
        w->n_fragments = 1;
        w->splits = draw(k, 4) == 0 ? MOST_SPLITS : 0;
    }
    while (!k->launch->status) {
        sim_warp *w;
        sim_fragment *f = choose(k, &w);
        if (!f) {
            report_stuck(k); /* if any is left */
            return;
        }
        run_fragment(w, f, 1u << draw(k, 8));
        remove_empty(w);
        if (w->splits && w->n_fragments && draw(k, 8) == 0) {
            f = &w->fragments[draw(k, (uint32_t)w->n_fragments)];
            uint32_t some = f->mask & (draw(k, 1u << 16) | draw(k, 1u << 16) << 16);
            if (f->state == FRAGMENT_READY && some && some != f->mask) part(w, f, some, f->pc), w->splits--;
        }
    }
}
