/* SPDX-License-Identifier: MIT
 * An access of one lane: where its address lies, and the checks of bounds, alignment, initialization and races. */
#include "access.h"
#include "lanes.h"
#include "memory.h"
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>

static const char *space_names[] = {"generic", "global", "shared", "local", "const", "param", "register"};

static bool out_of_bounds(sim_warp *w, const sim_inst *i, int lane, sim_space space, uint64_t address, uint32_t bytes,
                          bool write, const char *where) {
    sim_fault(w, i, lane, SIM_ILLEGAL_ADDRESS, "invalid %s of %u bytes at %s 0x%" PRIx64 ": %s",
              write ? "write" : "read", bytes, space_names[space], address, where);
    return false;
}

bool sim_locate(sim_warp *w, const sim_inst *i, uint32_t slot, int lane, sim_space space, uint64_t address,
                uint32_t bytes, bool write, sim_place *at) {
    char where[160];
    if (space == SP_GENERIC) {
        if (address - SHARED_WINDOW < WINDOW_BYTES) space = SP_SHARED, address -= SHARED_WINDOW;
        else if (address - LOCAL_WINDOW < WINDOW_BYTES) space = SP_LOCAL, address -= LOCAL_WINDOW;
        else if (address - PARAM_WINDOW < WINDOW_BYTES) space = SP_PARAM, address -= PARAM_WINDOW;
        else space = SP_GLOBAL;
    }
    *at = (sim_place){.space = space};
    switch (space) {
    case SP_SHARED: {
        uint64_t offset = address - SHARED_START;
        uint32_t total = w->block->shared_bytes;
        if (offset >= total || bytes > total - offset) {
            snprintf(where, sizeof where, "the block has %u bytes of shared memory, from 0x%x on", total, SHARED_START);
            return out_of_bounds(w, i, lane, space, address, bytes, write, where);
        }
        at->data = w->block->shared + offset, at->init = w->block->shared_init + offset;
        at->shared = w->block->shared_words + offset / 4, at->within = offset & 3;
        return true;
    }
    case SP_LOCAL: {
        uint64_t stride = w->block->local_stride;
        if (address >= stride || bytes > stride - address) {
            snprintf(where, sizeof where, "the thread has %" PRIu64 " bytes of local memory", stride);
            return out_of_bounds(w, i, lane, space, address, bytes, write, where);
        }
        uint64_t offset = ((uint64_t)w->index * LANES + (uint64_t)lane) * stride + address;
        at->data = w->block->local + offset, at->init = w->block->local_init + offset;
        return true;
    }
    case SP_PARAM: {
        uint64_t total = w->launch->func->param_bytes;
        if (write || address >= total || bytes > total - address) {
            snprintf(where, sizeof where, "the kernel has %" PRIu64 " bytes of parameters, which are read-only", total);
            return out_of_bounds(w, i, lane, space, address, bytes, write, where);
        }
        at->data = (uint8_t *)(uintptr_t)(w->launch->params + address);
        return true;
    }
    default: {
        sim_alloc **cache = &w->worker->cache[slot], *a = *cache;
        if (!a || address - a->base >= a->size || bytes > a->size - (address - a->base)) {
            a = sim_memory_find(address);
            if (!a || bytes > a->size - (address - a->base)) {
                sim_memory_describe(a ? a->base + a->size : address, where, sizeof where);
                return out_of_bounds(w, i, lane, SP_GLOBAL, address, bytes, write, where);
            }
            *cache = a;
        }
        if (write && a->read_only)
            return out_of_bounds(w, i, lane, SP_GLOBAL, address, bytes, write, "constant memory is read-only");
        uint64_t offset = address - a->base;
        at->data = a->data + offset;
        if (!a->host) at->init = a->init + offset, at->words = a->words + offset / 4 * 2, at->within = offset & 3;
        return true;
    }
    }
}

static bool check_init(sim_warp *w, const sim_inst *i, int lane, sim_space space, uint64_t address, const uint8_t *init,
                       uint32_t bytes) {
    if (!init || !sim_checks(CHECK_UNINIT) || all_written(init, bytes)) return true;
    uint32_t k = 0;
    while (init[k]) k++;
    return !sim_soft_fault(w, i, lane, CHECK_UNINIT,
                           "uninitialized read of %u bytes at %s 0x%" PRIx64 ": byte %u was never written", bytes,
                           space_names[space], address, k);
}

bool sim_check_alignment(sim_warp *w, const sim_inst *i, int lane, sim_space space, uint64_t address, uint32_t bytes) {
    if ((address & (bytes - 1)) == 0 || !sim_checks(CHECK_ALIGN)) return true;
    sim_fault(w, i, lane, SIM_MISALIGNED, "misaligned access of %u bytes at %s 0x%" PRIx64, bytes, space_names[space],
              address);
    return false;
}

bool sim_check_registers(sim_warp *w, const sim_inst *i, int r, uint32_t mask, const char *what) {
    uint32_t unknown = mask & ~w->init[r];
    if (!unknown || !sim_checks(CHECK_UNINIT)) return true;
    return !sim_soft_fault(w, i, __builtin_ctz(unknown), CHECK_UNINIT,
                           "%s comes from a register that was never written", what);
}

/* All of one lane's checks; the bytes. */
uint8_t *sim_touch_slot(sim_warp *w, const sim_inst *i, uint32_t slot, int lane, sim_space space, uint64_t address,
                        uint32_t bytes, sim_access access) {
    sim_place at;
    bool write = access != ACCESS_READ;
    if (!sim_locate(w, i, slot, lane, space, address, bytes, write, &at)) return NULL;
    if ((access == ACCESS_READ || access == ACCESS_ATOMIC) &&
        !check_init(w, i, lane, at.space, address, at.init, bytes))
        return NULL;
    if (at.words) {
        uint32_t fresh = sim_track(w, i, lane, &at, address, bytes, access);
        if (write) w->worker->stats.global_write_unique_bytes += fresh;
        else w->worker->stats.global_read_unique_bytes += fresh;
    } else if (at.shared && sim_checks(CHECK_RACE)) {
        sim_track_shared(w, i, lane, &at, address, bytes, access);
    }
    if (w->launch->status) return NULL;
    if (write && at.init) mark_written(at.init, bytes);
    return at.data;
}

uint8_t *sim_touch(sim_warp *w, const sim_inst *i, int lane, sim_space space, uint64_t address, uint32_t bytes,
                   sim_access access) {
    return sim_touch_slot(w, i, i->memory, lane, space, address, bytes, access);
}

/* Bytes that lanes side by side touch, in an allocation that the slot knows: NULL where a word of them needs a look. */
static uint8_t *touch_run(sim_warp *w, const sim_inst *i, uint64_t address, uint32_t bytes, bool write) {
    const sim_alloc *a = w->worker->cache[i->memory];
    if (!a || address - a->base >= a->size || bytes > a->size - (address - a->base)) return NULL;
    if (a->host || (address | bytes) % 4 || (write && a->read_only)) return NULL;
    const uint64_t offset = address - a->base;
    ptxsim_stats *s = &w->worker->stats;
    uint32_t fresh = 0;
    if (!write && sim_checks(CHECK_UNINIT) && !all_written(a->init + offset, bytes)) return NULL;
    const bool known = sim_track_run(w, a->words + offset / 4 * 2, bytes, write, &fresh);
    if (write) s->global_write_unique_bytes += fresh;
    else s->global_read_unique_bytes += fresh;
    if (!known) return NULL;
    if (write) mark_written(a->init + offset, bytes);
    return a->data + offset;
}

/* Of shared memory that has been written; false where a lane needs a look. */
static bool touch_shared(sim_warp *w, const sim_inst *i, const uint64_t *address, uint32_t mask, uint32_t bytes,
                         sim_access access, uint8_t **data) {
    const sim_block *b = w->block;
    uint64_t most = 0;
    EACH_LANE {
        const uint64_t offset = mask >> l & 1 ? address[l] - SHARED_START : 0;
        most = offset > most ? offset : most;
    }
    if (most >= b->shared_bytes || bytes > b->shared_bytes - most) return false;
    const bool written = access == ACCESS_READ && sim_checks(CHECK_UNINIT);
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        const uint64_t offset = address[l] - SHARED_START;
        if (written && !all_written(b->shared_init + offset, bytes)) return false;
        data[l] = b->shared + offset;
    }
    if (sim_checks(CHECK_RACE)) sim_track_shared_lanes(w, i, address, mask, bytes, access);
    for (uint32_t m = access == ACCESS_READ ? 0 : mask; m; m &= m - 1)
        mark_written(b->shared_init + (address[__builtin_ctz(m)] - SHARED_START), bytes);
    return true;
}

/* How many lanes from this one on lie side by side. */
static int run_of(const uint64_t *address, uint32_t mask, int lane, uint32_t bytes) {
    int n = 1;
    while (lane + n < LANES && mask >> (lane + n) & 1 && address[lane + n] == address[lane] + (uint64_t)n * bytes) n++;
    return n;
}

bool sim_touch_lanes(sim_warp *w, const sim_inst *i, const uint64_t *address, uint32_t mask, uint32_t bytes,
                     sim_access access, uint8_t **data) {
    const sim_space space = (sim_space)i->space;
    const bool plain = access <= ACCESS_WRITE, repeats = space == SP_GLOBAL || space == SP_PARAM;
    if (plain && space == SP_SHARED && touch_shared(w, i, address, mask, bytes, access, data))
        return !w->launch->status;
    for (uint32_t m = mask; m;) {
        const int l = __builtin_ctz(m), n = space == SP_GLOBAL ? run_of(address, mask, l, bytes) : 1;
        uint8_t *run = NULL;
        if (plain && space == SP_GLOBAL) run = touch_run(w, i, address[l], bytes * (uint32_t)n, access == ACCESS_WRITE);
        for (int k = 0; k < n; k++) {
            data[l + k] = run ? run + (uint32_t)k * bytes
                              : sim_touch_slot(w, i, i->memory, l + k, space, address[l + k], bytes, access);
            if (!data[l + k]) return false;
        }
        m &= n == LANES ? 0 : ~(((1u << n) - 1) << l);
        for (; repeats && access == ACCESS_READ && m && address[__builtin_ctz(m)] == address[l + n - 1]; m &= m - 1)
            data[__builtin_ctz(m)] = data[l + n - 1];
    }
    return true;
}

bool sim_addresses(sim_warp *w, const sim_inst *i, uint32_t mask, uint32_t bytes, uint64_t *address) {
    const sim_reg *a = row(w, i->in[0]);
    if (!sim_check_registers(w, i, i->in[0], mask, "the address")) return false;
    uint64_t wrong = 0;
    EACH_LANE {
        address[l] = a->u64[l] + (uint64_t)i->imm;
        wrong |= mask >> l & 1 ? address[l] & (bytes - 1) : 0;
    }
    if (wrong)
        for (uint32_t m = mask; m; m &= m - 1) {
            int l = __builtin_ctz(m);
            if (!sim_check_alignment(w, i, l, (sim_space)i->space, address[l], bytes)) return false;
        }
    return true;
}
