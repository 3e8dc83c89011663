/* SPDX-License-Identifier: MIT
 * Warps in lockstep: each in turn until it waits at a barrier, its lanes by masks with a stack of paths.
 *
 * Divergence. Each warp has a stack of paths (place, lanes, place where they join). A branch that splits the lanes
 * leaves the join on the stack and runs the two paths one after the other; a path that reaches its join is dropped. */
#include "lanes.h"
#include "sim.h"

static void drop_lanes(sim_warp *w, uint32_t mask, const sim_frame *only) {
    for (uint32_t d = w->depth; d-- > 0 && (!only || w->stack[d].frame == only);) w->stack[d].mask &= ~mask;
}

static void branch(sim_warp *w, const sim_inst *i, uint32_t here, uint32_t next, uint32_t target, uint32_t taken) {
    sim_entry *top = &w->stack[w->depth - 1];
    uint32_t others = here & ~taken;
    if (!others || !taken) {
        top->pc = taken ? target : next;
        return;
    }
    if (i->flags & FLAG_UNIFORM &&
        sim_soft_fault(w, i, -1, CHECK_BARRIER, "bra.uni goes two ways: lanes 0x%08x of 0x%08x", taken, here))
        return;
    if (w->depth + 2 > STACK_DEPTH) {
        sim_fault(w, i, -1, SIM_LAUNCH_FAILED, "paths nested too deep");
        return;
    }
    uint32_t join = i->reconverge;
    sim_frame *frame = top->frame;
    if (top->reconverge == join) w->depth--; /* an entry below already waits there for these lanes */
    else top->pc = join;
    if (next != join) w->stack[w->depth++] = (sim_entry){next, join, others, frame};
    if (target != join) w->stack[w->depth++] = (sim_entry){target, join, taken, frame};
}

/* One target after the other: lanes of other targets come back to this instruction. */
static void branch_by_index(sim_warp *w, const sim_inst *i, uint32_t here, uint32_t mask) {
    sim_entry *top = &w->stack[w->depth - 1];
    const sim_func *f = top->frame->func;
    if (!mask) {
        top->pc++;
        return;
    }
    uint32_t index = row(w, i->in[0])->u32[__builtin_ctz(mask)], same = 0;
    if (index >= (uint32_t)f->n_targets[i->target]) {
        sim_fault(w, i, __builtin_ctz(mask), SIM_ILLEGAL_INSTRUCTION, "brx.idx with index %u of %d targets", index,
                  f->n_targets[i->target]);
        return;
    }
    EACH_LANE same |= (uint32_t)(row(w, i->in[0])->u32[l] == index) << l;
    branch(w, i, here, top->pc, f->targets[i->target][index], same & mask);
}

static void call(sim_warp *w, const sim_inst *i, uint32_t mask) {
    if (w->depth + 2 > STACK_DEPTH) {
        sim_fault(w, i, -1, SIM_LAUNCH_FAILED, "calls nested too deep");
        return;
    }
    sim_frame *frame = sim_enter_frame(w, i, mask);
    if (!frame) return;
    frame->lanes = mask;
    w->stack[w->depth++] = (sim_entry){0, UINT32_MAX, mask, frame};
}

/* A path has ended; with the last one of a call, so has the call. */
static void end_path(sim_warp *w) {
    w->depth--;
    if (w->depth && w->stack[w->depth - 1].frame != w->frame) sim_leave_frame(w, w->frame, w->frame->lanes);
}

/* Whether the warp stops here: it waits at a barrier or has failed. */
static bool control(sim_warp *w, const sim_inst *i, uint32_t here, uint32_t mask) {
    sim_entry *top = &w->stack[w->depth - 1];
    switch (i->kind) {
    case K_BRANCH: branch(w, i, here, top->pc + 1, i->target, mask); return false;
    case K_BRANCH_INDEX: branch_by_index(w, i, here, mask); return false;
    case K_EXIT:
        top->pc++;
        w->live &= ~mask;
        drop_lanes(w, mask, NULL);
        return false;
    case K_RET:
        top->pc++;
        drop_lanes(w, mask, top->frame);
        return false;
    case K_CALL:
        top->pc++;
        if (mask) call(w, i, mask);
        return false;
    case K_BARRIER: top->pc++; return mask && sim_arrive(w, i, mask, __builtin_ctz(mask));
    default:
        if (mask) sim_fault(w, i, __builtin_ctz(mask), SIM_LAUNCH_FAILED, "trap");
        top->pc++;
        return false;
    }
}

static void run_warp(sim_warp *w) {
    enum { STEPS = 1 << 20 }; /* between two looks at the budget */
    sim_launch *l = w->launch;
    sim_worker *k = w->worker;
    uint64_t steps = 0, instructions = 0, lanes = 0;
    while (!__atomic_load_n(&l->status, __ATOMIC_RELAXED)) {
        if (w->depth == 0) {
            sim_finish_warp(w);
            break;
        }
        sim_entry *top = &w->stack[w->depth - 1];
        if (top->mask == 0 || top->pc == top->reconverge) {
            end_path(w);
            continue;
        }
        const sim_inst *i = &top->frame->func->code[top->pc];
        uint32_t here = top->mask, mask = here;
        if (i->guard >= 0 && !sim_guard(w, i, here, &mask)) break;
        w->at = i;
        steps++;
        instructions += i->counts;
        lanes += i->counts ? (uint64_t)__builtin_popcount(mask) : 0;
        if (i->kind == K_COMPUTE) {
            top->pc++;
            if (mask) {
                if (i->propagates) sim_propagate(w, i, mask);
                i->exec(w, i, mask);
            }
        } else if (i->kind == K_NOP) {
            top->pc++;
        } else if (control(w, i, here, mask)) {
            break;
        }
        if (steps % STEPS == 0) sim_spend(k, w, i, STEPS);
    }
    sim_spend(k, w, w->at, steps % STEPS);
    k->stats.warp_instructions += instructions, k->stats.lane_instructions += lanes;
}

static void report_stuck(sim_worker *k) {
    sim_warp *stuck = NULL;
    int done = 0;
    for (int i = 0; i < k->block.n_warps; i++)
        if (k->warps[i].state == WARP_WAITING && !stuck) stuck = &k->warps[i];
        else if (k->warps[i].state == WARP_DONE) done++;
    sim_fault(stuck, stuck->at, -1, SIM_LAUNCH_FAILED,
              "barrier divergence: warp %u waits at barrier %d for ever; %d of %d warps have exited", stuck->index,
              stuck->barrier, done, k->block.n_warps);
}

void sim_run_lockstep(sim_worker *k) {
    const int n = k->block.n_warps;
    for (int i = 0; i < n; i++) {
        sim_warp *w = &k->warps[i];
        w->stack[0] = (sim_entry){0, UINT32_MAX, w->live, &w->kernel};
        w->depth = 1;
    }
    for (bool waiting = true; waiting && !k->launch->status;) {
        bool progress = false;
        waiting = false;
        for (int i = 0; i < n && !k->launch->status; i++) {
            if (k->warps[i].state == WARP_READY) run_warp(&k->warps[i]), progress = true;
            waiting |= k->warps[i].state == WARP_WAITING;
        }
        if (!progress && waiting && !k->launch->status) report_stuck(k);
    }
}
