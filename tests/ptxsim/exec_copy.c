/* SPDX-License-Identifier: MIT
 * Asynchronous copies: the bytes move when a wait asks for them, as late as the hardware may. */
#include "access.h"
#include "lanes.h"
#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void sim_exec_cp_async(sim_warp *w, const sim_inst *i, uint32_t mask) {
    uint32_t bytes = i->vec;
    uint64_t to[LANES], from[LANES];
    if (!mask || !sim_addresses(w, i, mask, bytes, to) || !sim_check_registers(w, i, i->in[1], mask, "the address"))
        return;
    EACH_LANE from[l] = row(w, i->in[1])->u64[l] + (uint64_t)(int64_t)(int32_t)i->target;
    sim_count_access(w, i, to, mask, bytes, true);
    uint32_t reads = 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        uint32_t size = i->n_in > 2 ? row(w, i->in[2])->u32[l] : bytes;
        if (size > bytes) {
            sim_fault(w, i, l, SIM_ILLEGAL_INSTRUCTION, "cp.async of %u bytes from a source of %u", bytes, size);
            return;
        }
        if (size) {
            reads |= 1u << l;
            if (!sim_check_alignment(w, i, l, SP_GLOBAL, from[l], bytes)) return;
            sim_place at;
            if (!sim_locate(w, i, i->memory + 1, l, SP_GLOBAL, from[l], size, false, &at)) return;
        }
        /* From here on until the wait the words are being written: others must not touch them. */
        if (!sim_touch_slot(w, i, i->memory, l, SP_SHARED, to[l], bytes, ACCESS_WRITE)) return;
        sim_place at;
        if (sim_locate(w, i, i->memory, l, SP_SHARED, to[l], bytes, true, &at)) memset(at.init, 0, bytes);
        if (w->n_copies == w->cap_copies) {
            int cap = w->cap_copies ? w->cap_copies * 2 : 256;
            sim_copy *grown = realloc(w->copies, (size_t)cap * sizeof *grown);
            if (!grown) {
                sim_fault(w, i, l, SIM_OUT_OF_MEMORY, "the host has no memory left for asynchronous copies");
                return;
            }
            w->copies = grown, w->cap_copies = cap;
        }
        w->copies[w->n_copies++] = (sim_copy){from[l], to[l], size, bytes - size, (uint32_t)l, w->group[l], i};
    }
    if (reads) sim_count_global(w, from, reads, bytes, false);
}

void sim_complete_copies(sim_warp *w, uint32_t lanes, uint32_t pending) {
    int kept = 0;
    for (int k = 0; k < w->n_copies; k++) {
        sim_copy c = w->copies[k];
        if (!(lanes >> c.lane & 1) || (pending != (uint32_t)ALL_COPIES && c.group + pending >= w->group[c.lane])) {
            w->copies[kept++] = c;
            continue;
        }
        if (w->launch->status) continue;
        sim_place at;
        if (!sim_locate(w, c.inst, c.inst->memory, (int)c.lane, SP_SHARED, c.shared, c.bytes + c.zeros, true, &at))
            continue;
        if (memchr(at.init, 1, c.bytes + c.zeros) &&
            sim_soft_fault(w, c.inst, (int)c.lane, CHECK_RACE,
                           "race: shared 0x%" PRIx64 " was written while this asynchronous copy to it was under way",
                           c.shared))
            continue;
        const uint8_t *from = c.bytes ? sim_touch_slot(w, c.inst, c.inst->memory + 1, (int)c.lane, SP_GLOBAL, c.global,
                                                       c.bytes, ACCESS_READ)
                                      : NULL;
        uint8_t *to = sim_touch_slot(w, c.inst, c.inst->memory, (int)c.lane, SP_SHARED, c.shared, c.bytes + c.zeros,
                                     ACCESS_WRITE);
        if (!to || (c.bytes && !from)) continue;
        if (c.bytes) memcpy(to, from, c.bytes);
        memset(to + c.bytes, 0, c.zeros);
    }
    w->n_copies = kept;
}

void sim_exec_cp_commit(sim_warp *w, const sim_inst *i, uint32_t mask) {
    (void)i;
    EACH_LANE w->group[l] += mask >> l & 1;
}

void sim_exec_cp_wait(sim_warp *w, const sim_inst *i, uint32_t mask) {
    sim_complete_copies(w, mask, (uint32_t)i->imm); /* wait_all: ALL_COPIES, committed or not */
}
