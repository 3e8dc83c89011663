/* SPDX-License-Identifier: MIT
 * Instructions of the warp as a whole: shuffles, votes, reductions. */
#include "lanes.h"
#include "sim.h"

#include <time.h>

/* Every lane that takes part must name itself, and all that it names must be here or have exited. */
static bool check_members(sim_warp *w, const sim_inst *i, int r, uint32_t mask) {
    const sim_reg *members = row(w, r);
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        uint32_t named = members->u32[l];
        if (!(named >> l & 1))
            return !sim_soft_fault(w, i, l, CHECK_BARRIER, "the lane is not in its own member mask 0x%08x", named);
        if (named & w->live & ~mask)
            return !sim_soft_fault(w, i, l, CHECK_BARRIER, "member mask 0x%08x names lanes 0x%08x that are not here",
                                   named, named & w->live & ~mask);
    }
    return true;
}

/* The lanes whose members' values are all known: a result that depends on all of them is known there. */
static uint32_t known_lanes(const sim_warp *w, int value, int members, uint32_t mask) {
    uint32_t known = 0;
    EACH_LANE known |= (uint32_t)((row(w, members)->u32[l] & mask & ~w->init[value]) == 0) << l;
    return known & w->init[members] & mask;
}

static void set_known(sim_warp *w, const sim_inst *i, uint32_t known, uint32_t mask) {
    for (int k = 0; k < i->n_out; k++) w->init[i->out[k]] = (w->init[i->out[k]] & ~mask) | known;
}

void sim_exec_shfl(sim_warp *w, const sim_inst *i, uint32_t mask) {
    if (!check_members(w, i, i->in[3], mask)) return;
    const sim_reg *a = row(w, i->in[0]), *b = row(w, i->in[1]), *c = row(w, i->in[2]);
    uint32_t out[LANES], valid = 0, known = 0, value_known = w->init[i->in[0]];
    EACH_LANE {
        uint32_t bval = b->u32[l] & 31, clamp = c->u32[l] & 31, segment = c->u32[l] >> 8 & 31;
        uint32_t most = ((uint32_t)l & segment) | (clamp & ~segment), least = (uint32_t)l & segment;
        int from;
        bool ok;
        switch (i->op) {
        case 0: from = l - (int)bval, ok = from >= (int)most; break;
        case 1: from = l + (int)bval, ok = from <= (int)most; break;
        case 2: from = l ^ (int)bval, ok = from <= (int)most; break;
        default: from = (int)(least | (bval & ~segment)), ok = from <= (int)most; break;
        }
        if (!ok) from = l;
        valid |= (uint32_t)ok << l;
        out[l] = a->u32[from & 31];
        bool here = mask >> (from & 31) & 1;
        known |= (uint32_t)(here && (value_known >> (from & 31) & 1)) << l;
    }
    commit32(w, i->out[0], out, mask);
    known &= w->init[i->in[1]] & w->init[i->in[2]];
    w->init[i->out[0]] = (w->init[i->out[0]] & ~mask) | (known & mask);
    if (i->n_out > 1) {
        commit_predicate(w, i->out[1], valid, mask);
        w->init[i->out[1]] |= mask;
    }
}

void sim_exec_vote(sim_warp *w, const sim_inst *i, uint32_t mask) {
    if (!check_members(w, i, i->in[1], mask)) return;
    uint32_t p = predicate(w, i->in[0]), out[LANES], bits = 0, known = known_lanes(w, i->in[0], i->in[1], mask);
    EACH_LANE {
        uint32_t members = row(w, i->in[1])->u32[l] & mask, yes = p & members;
        out[l] = yes;
        bool r = i->op == 0 ? yes == members : i->op == 1 ? yes != 0 : yes == members || yes == 0;
        bits |= (uint32_t)r << l;
    }
    if (i->op == 3) commit32(w, i->out[0], out, mask);
    else commit_predicate(w, i->out[0], bits, mask);
    set_known(w, i, known, mask);
}

void sim_exec_match(sim_warp *w, const sim_inst *i, uint32_t mask) {
    if (!check_members(w, i, i->in[1], mask)) return;
    const sim_reg *a = row(w, i->in[0]);
    bool wide = sim_type_size((sim_type)i->type) == 8;
    uint32_t out[LANES], all = 0, known = known_lanes(w, i->in[0], i->in[1], mask);
    EACH_LANE {
        uint32_t members = row(w, i->in[1])->u32[l] & mask, same = 0;
        for (uint32_t m = members; m; m &= m - 1) {
            int k = __builtin_ctz(m);
            same |= (uint32_t)(wide ? a->u64[k] == a->u64[l] : a->u32[k] == a->u32[l]) << k;
        }
        out[l] = i->op == 0 || same == members ? same : 0;
        all |= (uint32_t)(same == members) << l;
    }
    commit32(w, i->out[0], out, mask);
    if (i->n_out > 1) commit_predicate(w, i->out[1], all, mask);
    set_known(w, i, known, mask);
}

void sim_exec_redux(sim_warp *w, const sim_inst *i, uint32_t mask) {
    if (!check_members(w, i, i->in[1], mask)) return;
    const sim_reg *a = row(w, i->in[0]);
    bool is_signed = i->type == T_S32;
    uint32_t out[LANES], known = known_lanes(w, i->in[0], i->in[1], mask);
    EACH_LANE {
        uint32_t members = row(w, i->in[1])->u32[l] & mask, r = 0;
        bool first = true;
        for (uint32_t m = members; m; m &= m - 1) {
            uint32_t v = a->u32[__builtin_ctz(m)];
            bool less = is_signed ? (int32_t)v < (int32_t)r : v < r;
            if (first) r = v;
            else switch (i->op) {
                case 0: r += v; break;
                case 1: r = less ? v : r; break;
                case 2: r = less ? r : v; break;
                case 3: r &= v; break;
                case 4: r |= v; break;
                default: r ^= v; break;
                }
            first = false;
        }
        out[l] = r;
    }
    commit32(w, i->out[0], out, mask);
    set_known(w, i, known, mask);
}

void sim_exec_activemask(sim_warp *w, const sim_inst *i, uint32_t mask) {
    uint32_t out[LANES];
    EACH_LANE out[l] = mask;
    commit32(w, i->out[0], out, mask);
}

/* Orders the memory accesses of the warp's own lanes. */
void sim_exec_warp_sync(sim_warp *w, const sim_inst *i, uint32_t mask) {
    if (!check_members(w, i, i->in[0], mask)) return;
    w->clock[w->index]++;
}

void sim_exec_clock(sim_warp *w, const sim_inst *i, uint32_t mask) {
    uint64_t wide[LANES];
    uint32_t narrow[LANES];
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    EACH_LANE wide[l] = now, narrow[l] = (uint32_t)now;
    if (i->sub == SR_CLOCK) commit32(w, i->out[0], narrow, mask);
    else commit64(w, i->out[0], wide, mask);
}
