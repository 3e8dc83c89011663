/* SPDX-License-Identifier: MIT
 * Traffic of memory, counted: bytes and widths, sectors of global memory, banks of shared memory. */
#include "access.h"
#include "lanes.h"
#include "sim.h"

static int width_class(uint32_t bytes) {
    return bytes >= 16 ? 4 : bytes == 8 ? 3 : bytes == 4 ? 2 : bytes == 2 ? 1 : 0;
}

bool sim_is_regular(const uint64_t *address, uint64_t step) {
    bool all = true;
    for (uint32_t l = 1; l < LANES; l++) all &= address[l] == address[0] + step * l;
    return all;
}

/* Whether these lanes ask each bank for one word at most. */
static bool has_no_conflict(const uint64_t *address, uint32_t lanes, uint32_t words) {
    uint64_t first[32];
    uint32_t taken = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        const uint64_t word = address[__builtin_ctz(m)] / 4;
        const uint32_t bank = word % 32, banks = ((1u << words) - 1) << bank;
        if (bank % words || (taken & banks && !(taken >> bank & 1 && first[bank] == word))) return false;
        if (!(taken & banks)) first[bank] = word;
        taken |= banks;
    }
    return true;
}

/* Wavefronts of an access of shared memory: the most words that one bank must deliver, by groups of lanes that move 128
 * bytes. */
static void count_banks(sim_worker *k, const uint64_t *address, uint32_t mask, uint32_t bytes) {
    uint32_t lanes = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8, words = bytes <= 4 ? 1 : bytes / 4;
    if (mask == FULL &&
        (sim_is_regular(address, bytes) || sim_is_regular(address, 0))) { /* each word of a bank is one */
        k->stats.shared_accesses += LANES / lanes;
        return;
    }
    for (uint32_t first = 0; first < LANES; first += lanes) {
        const uint32_t group = mask & (lanes == 32 ? FULL : ((1u << lanes) - 1) << first);
        if (has_no_conflict(address, group, words)) {
            k->stats.shared_accesses += group != 0;
            continue;
        }
        uint8_t count[32] = {0};
        uint64_t seen[32][32];
        uint32_t most = 0;
        for (uint32_t l = first; l < first + lanes; l++) {
            if (!(mask >> l & 1)) continue;
            for (uint32_t q = 0; q < words; q++) {
                uint64_t word = address[l] / 4 + q;
                uint32_t bank = word % 32, n = 0;
                while (n < count[bank] && seen[bank][n] != word) n++;
                if (n == count[bank]) seen[bank][n] = word, count[bank]++;
                if (count[bank] > most) most = count[bank];
            }
        }
        if (most) k->stats.shared_accesses += most, k->stats.shared_conflicts += most - 1;
    }
}

static uint64_t count_sectors(const uint64_t *address, uint32_t mask, uint32_t bytes) {
    if (mask == FULL && sim_is_regular(address, 0)) return (address[0] + bytes - 1) / 32 - address[0] / 32 + 1;
    if (mask == FULL && sim_is_regular(address, bytes))
        return (address[LANES - 1] + bytes - 1) / 32 - address[0] / 32 + 1;
    uint64_t seen[LANES * 2], n = 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        for (uint64_t s = address[l] / 32; s <= (address[l] + bytes - 1) / 32; s++) {
            uint64_t k = n;
            while (k > 0 && seen[k - 1] != s && n - k < 4) k--; /* neighbours are what repeats */
            if (n == 0 || k == 0 || seen[k - 1] != s) {
                if (n < LANES * 2) seen[n++] = s;
            }
        }
    }
    return n;
}

void sim_count_global(sim_warp *w, const uint64_t *address, uint32_t mask, uint32_t bytes, bool write) {
    ptxsim_stats *s = &w->worker->stats;
    uint64_t lanes = (uint64_t)__builtin_popcount(mask);
    if (write) s->global_write_bytes += lanes * bytes, s->global_stores[width_class(bytes)] += lanes;
    else s->global_read_bytes += lanes * bytes, s->global_loads[width_class(bytes)] += lanes;
    const uint64_t sectors = count_sectors(address, mask, bytes);
    s->global_sectors += sectors;
    if (write) s->global_write_sectors += sectors;
}

static sim_space space_by_address(sim_space space, uint64_t a) {
    if (space != SP_GENERIC) return space == SP_CONST ? SP_GLOBAL : space;
    return a - SHARED_WINDOW < WINDOW_BYTES  ? SP_SHARED
           : a - LOCAL_WINDOW < WINDOW_BYTES ? SP_LOCAL
           : a - PARAM_WINDOW < WINDOW_BYTES ? SP_PARAM
                                             : SP_GLOBAL;
}

void sim_count_access(sim_warp *w, const sim_inst *i, const uint64_t *address, uint32_t mask, uint32_t bytes,
                      bool write) {
    ptxsim_stats *s = &w->worker->stats;
    uint64_t lanes = (uint64_t)__builtin_popcount(mask), first = address[__builtin_ctz(mask)];
    switch (space_by_address((sim_space)i->space, first)) {
    case SP_SHARED:
        if (write) s->shared_write_bytes += lanes * bytes;
        else s->shared_read_bytes += lanes * bytes;
        count_banks(w->worker, address, mask, bytes);
        break;
    case SP_LOCAL:
        if (write) s->local_write_bytes += lanes * bytes;
        else s->local_read_bytes += lanes * bytes;
        break;
    case SP_GLOBAL: sim_count_global(w, address, mask, bytes, write); break;
    default: break;
    }
}

void sim_count_shared(sim_warp *w, const uint64_t *address, uint32_t mask, uint32_t bytes) {
    w->worker->stats.shared_read_bytes += (uint64_t)__builtin_popcount(mask) * bytes;
    count_banks(w->worker, address, mask, bytes);
}
