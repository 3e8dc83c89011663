/* SPDX-License-Identifier: MIT
 * Frames: the registers and local memory of a call. Lanes that call the same function at the same place share a frame,
 * whenever they come: their registers are lanes of the same rows. A frame is kept for the next call at its place. */
#include "lanes.h"
#include "sim.h"

#include <stdlib.h>

enum { MOST_DEPTH = 24 };

static void fill(sim_warp *w, int r, bool is_wide, uint64_t value) {
    if (is_wide) EACH_LANE row(w, r)->u64[l] = value;
    else EACH_LANE row(w, r)->u32[l] = (uint32_t)value;
    w->init[r] = FULL;
}

/* What a frame starts with: constants and special registers defined, all else not. */
static void start_frame(sim_warp *w, const sim_func *f, uint64_t local_base) {
    const sim_launch *l = w->launch;
    memset(w->init, 0, (size_t)f->n_rows * sizeof *w->init);
    for (int k = 0; k < f->n_constants; k++) {
        const sim_constant *c = &f->constants[k];
        fill(w, c->row, c->wide, c->var ? c->var->offset : c->value);
    }
    for (int s = 0; s < SR_COUNT; s++) {
        int r = f->special[s];
        if (r < 0) continue;
        uint64_t v = 0;
        switch (s) {
        case SR_NTID_X:
        case SR_NTID_Y:
        case SR_NTID_Z: v = l->block[s - SR_NTID_X]; break;
        case SR_CTAID_X:
        case SR_CTAID_Y:
        case SR_CTAID_Z: v = w->block->ctaid[s - SR_CTAID_X]; break;
        case SR_NCTAID_X:
        case SR_NCTAID_Y:
        case SR_NCTAID_Z: v = l->grid[s - SR_NCTAID_X]; break;
        case SR_WARPID: v = w->index; break;
        case SR_NWARPID: v = (l->threads + LANES - 1) / LANES; break;
        case SR_SMID: v = w->block->linear % (uint64_t)sim_set.sm_count; break;
        case SR_NSMID: v = (uint64_t)sim_set.sm_count; break;
        case SR_DYNAMIC_SHARED: v = l->dynamic_shared; break;
        case SR_TOTAL_SHARED: v = l->shared_total; break;
        case SR_DYNAMIC_BASE: v = l->dynamic_offset; break;
        case SR_LOCAL_BASE: v = local_base; break;
        case SR_GRIDID: v = l->op; break;
        default: break;
        }
        fill(w, r,
             s == SR_CLOCK64 || s == SR_GLOBALTIMER || s == SR_GRIDID || s == SR_DYNAMIC_BASE || s == SR_LOCAL_BASE, v);
        uint32_t *u = row(w, r)->u32;
        for (uint32_t lane = 0; lane < LANES; lane++) {
            uint32_t tid[3], one = 1u << lane;
            switch (s) {
            case SR_TID_X:
            case SR_TID_Y:
            case SR_TID_Z: sim_thread_of(w, (int)lane, tid), u[lane] = tid[s - SR_TID_X]; break;
            case SR_LANEID: u[lane] = lane; break;
            case SR_LT: u[lane] = one - 1; break;
            case SR_LE: u[lane] = one | (one - 1); break;
            case SR_EQ: u[lane] = one; break;
            case SR_GE: u[lane] = ~(one - 1); break;
            case SR_GT: u[lane] = ~(one | (one - 1)); break;
            default: break;
            }
        }
    }
}

static void copy_locals(sim_warp *w, uint64_t to, uint64_t from, uint64_t bytes, uint32_t mask) {
    sim_block *b = w->block;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint64_t base = ((uint64_t)w->index * LANES + (uint64_t)__builtin_ctz(m)) * b->local_stride;
        memcpy(b->local + base + to, b->local + base + from, bytes);
        memcpy(b->local_init + base + to, b->local_init + base + from, bytes);
    }
}

/* The frame is there already: what lanes that come to it now have written before is undefined again. */
static void start_frame_again(sim_warp *w, const sim_func *f, uint32_t mask) {
    for (int r = 0; r < f->n_rows; r++) w->init[r] &= ~mask;
    for (int k = 0; k < f->n_constants; k++) w->init[f->constants[k].row] = FULL;
    for (int s = 0; s < SR_COUNT; s++)
        if (f->special[s] >= 0) w->init[f->special[s]] = FULL;
}

void sim_start_kernel_frame(sim_warp *w, uint8_t *rows, uint32_t *init) {
    free(w->kernel.bits); /* of the block before */
    w->kernel = (sim_frame){.func = w->launch->func, .rows = rows, .init = init};
    w->frames = NULL;
    sim_use_frame(w, &w->kernel);
    start_frame(w, w->kernel.func, 0);
}

static sim_frame *new_frame(sim_warp *w, const struct sim_call *c, uint64_t base) {
    const size_t rows = (size_t)c->func->n_rows * ROW_BYTES;
    sim_frame *f = malloc(sizeof *f);
    if (!f) return NULL;
    *f = (sim_frame){.func = c->func,
                     .rows = aligned_alloc(ROW_BYTES, rows + ROW_BYTES),
                     .init = calloc((size_t)c->func->n_rows + 1, sizeof(uint32_t)),
                     .local_base = base,
                     .call = c,
                     .caller = w->frame,
                     .next = w->frames,
                     .depth = w->frame->depth + 1};
    if (!f->rows || !f->init) {
        free(f->rows), free(f->init), free(f);
        return NULL;
    }
    return w->frames = f;
}

sim_frame *sim_enter_frame(sim_warp *w, const sim_inst *i, uint32_t mask) {
    sim_frame *from = w->frame, *to = w->frames;
    const struct sim_call *c = &from->func->calls[i->target];
    uint64_t base = (from->local_base + from->func->local_bytes + 15) / 16 * 16;
    while (to && (to->caller != from || to->call != c)) to = to->next;
    bool found = to != NULL;
    if (!found && from->depth + 1 < MOST_DEPTH && base + c->func->local_bytes <= w->block->local_stride)
        to = new_frame(w, c, base);
    if (!to) {
        sim_fault(w, i, -1, SIM_LAUNCH_FAILED, "calls nested too deep");
        return NULL;
    }
    for (int k = 0; k < c->n_args && k < to->func->n_params; k++)
        copy_locals(w, base + to->func->params[k]->offset, from->local_base + c->arg[k], to->func->params[k]->size,
                    mask);
    sim_use_frame(w, to);
    if (found) start_frame_again(w, to->func, mask);
    else start_frame(w, to->func, base);
    return to;
}

void sim_leave_frame(sim_warp *w, sim_frame *f, uint32_t mask) {
    const struct sim_call *c = f->call;
    for (int k = 0; k < c->n_results && k < f->func->n_returns; k++)
        copy_locals(w, f->caller->local_base + c->result[k], f->local_base + f->func->returns[k]->offset,
                    f->func->returns[k]->size, mask & w->live);
    sim_use_frame(w, f->caller);
}

void sim_drop_frames(sim_warp *w) {
    while (w->frames) {
        sim_frame *gone = w->frames;
        w->frames = gone->next;
        free(gone->rows), free(gone->init), free(gone->bits), free(gone);
    }
}
