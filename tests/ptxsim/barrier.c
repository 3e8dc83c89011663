/* SPDX-License-Identifier: MIT
 * Barriers of a block: warps arrive, wait, and learn what the others have done before. */
#include "sim.h"

#include <string.h>

static void let_go(sim_block *b, const sim_barrier *r) {
    for (uint32_t m = r->arrived_warps; m; m &= m - 1) {
        sim_warp *other = &b->warps[__builtin_ctz(m)];
        for (int k = 0; k < MAX_WARPS; k++)
            if (r->clock[k] > other->clock[k]) other->clock[k] = r->clock[k];
        other->state = WARP_READY;
        for (int k = 0; k < other->n_fragments; k++)
            if (other->fragments[k].state == FRAGMENT_AT_BARRIER) other->fragments[k].state = FRAGMENT_READY;
    }
}

bool sim_arrive(sim_warp *w, const sim_inst *i, uint32_t mask, int lane) {
    sim_block *b = w->block;
    uint32_t id = row(w, i->in[0])->u32[lane], threads = b->launch->threads;
    bool counted = i->n_in > 1;
    w->worker->stats.barriers++;
    if (id >= MAX_BARRIERS) {
        sim_fault(w, i, -1, SIM_ILLEGAL_INSTRUCTION, "barrier %u: there are %d", id, MAX_BARRIERS);
        return true;
    }
    if (!(i->flags & FLAG_UNALIGNED) && mask != w->live &&
        sim_soft_fault(w, i, -1, CHECK_BARRIER,
                       "barrier divergence: lanes 0x%08x of the warp are here, lanes 0x%08x are not", mask,
                       w->live & ~mask))
        return true;
    if (!counted && w->live != w->initial &&
        sim_soft_fault(
            w, i, -1, CHECK_BARRIER,
            "barrier divergence: lanes 0x%08x of the warp have exited before this barrier of the whole block",
            w->initial & ~w->live))
        return true;
    uint32_t expected = counted ? row(w, i->in[1])->u32[lane] : (threads + LANES - 1) / LANES * LANES;
    if (expected % LANES || expected == 0 || (counted && expected > (threads + LANES - 1) / LANES * LANES)) {
        sim_fault(w, i, -1, SIM_ILLEGAL_INSTRUCTION, "barrier %u for %u threads of a block of %u", id, expected,
                  threads);
        return true;
    }
    sim_barrier *r = &b->barriers[id];
    if (r->arrived_threads && r->expected != expected) {
        sim_soft_fault(w, i, -1, CHECK_BARRIER, "barrier %u: %u threads expected, others wait for %u", id, expected,
                       r->expected);
        if (w->launch->status) return true;
    }
    if (!r->arrived_threads) memset(r->clock, 0, sizeof r->clock);
    r->expected = expected;
    r->arrived_threads += LANES; /* a warp counts whole */
    for (int k = 0; k < MAX_WARPS; k++)
        if (w->clock[k] > r->clock[k]) r->clock[k] = w->clock[k];
    bool waits = !(i->flags & FLAG_ARRIVE);
    if (waits) r->arrived_warps |= 1u << w->index;
    w->clock[w->index]++; /* what follows an arrival is not covered by it */
    if (r->arrived_threads < r->expected) {
        if (waits) w->state = WARP_WAITING, w->barrier = (int)id;
        return waits;
    }
    let_go(b, r);
    memset(r, 0, sizeof *r);
    return false;
}
