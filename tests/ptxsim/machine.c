/* SPDX-License-Identifier: MIT
 * Runs a launch: blocks on host threads, warps in turn until each waits at a barrier, lanes by masks with a stack of
 * paths.
 *
 * Divergence. Each warp has a stack of paths (place, lanes, place where they join). A branch that splits the lanes
 * leaves the join on the stack and runs the two paths one after the other; a path that reaches its join is dropped. */
#include "sim.h"
#include "lanes.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* --- faults */

void sim_thread_of(const sim_warp *w, int lane, uint32_t tid[3]) {
    const uint32_t *b = w->launch->block;
    uint32_t t = w->index * LANES + (uint32_t)(lane < 0 ? 0 : lane);
    tid[0] = t % b[0], tid[1] = t / b[0] % b[1], tid[2] = t / b[0] / b[1];
}

static void describe(sim_warp *w, const sim_inst *i, int lane, const char *format, va_list args) {
    char message[512];
    uint32_t tid[3];
    vsnprintf(message, sizeof message, format, args);
    sim_thread_of(w, lane, tid);
    const uint32_t *c = w->block->ctaid;
    sim_report("%s\n    at line %u of %s, %s %u of block (%u,%u,%u), thread (%u,%u,%u)", message, i->line,
               w->launch->func->name, lane < 0 ? "warp" : "lane", lane < 0 ? w->index : (uint32_t)lane, c[0], c[1],
               c[2], tid[0], tid[1], tid[2]);
}

/* Whether this is the launch's first fault. */
static bool ends_launch(sim_launch *l, int status) {
    int none = 0;
    return __atomic_compare_exchange_n(&l->status, &none, status, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

void sim_fault(sim_warp *w, const sim_inst *i, int lane, int status, const char *format, ...) {
    va_list args;
    if (!ends_launch(w->launch, status)) return;
    va_start(args, format);
    describe(w, i, lane, format, args);
    va_end(args);
}

bool sim_soft_fault(sim_warp *w, const sim_inst *i, int lane, int check, const char *format, ...) {
    va_list args;
    if (!sim_checks(check)) return false;
    bool warn = sim_checks(CHECK_WARN);
    if (!warn && !ends_launch(w->launch, SIM_LAUNCH_FAILED)) return true;
    va_start(args, format);
    describe(w, i, lane, format, args);
    va_end(args);
    return !warn;
}

/* --- frames */

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

static uint8_t *new_rows(size_t bytes) { return aligned_alloc(ROW_BYTES, (bytes + ROW_BYTES) / ROW_BYTES * ROW_BYTES); }

static void copy_locals(sim_warp *w, uint64_t to, uint64_t from, uint64_t bytes, uint32_t mask) {
    sim_block *b = w->block;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint64_t base = ((uint64_t)w->index * LANES + (uint64_t)__builtin_ctz(m)) * b->local_stride;
        memcpy(b->local + base + to, b->local + base + from, bytes);
        memcpy(b->local_init + base + to, b->local_init + base + from, bytes);
    }
}

static bool call(sim_warp *w, const sim_inst *i, uint32_t mask) {
    sim_frame *from = &w->frames[w->n_frames - 1];
    const struct sim_call *c = &from->func->calls[i->target];
    const sim_func *f = c->func;
    uint64_t base = (from->local_base + from->func->local_bytes + 15) / 16 * 16;
    if (w->n_frames == sizeof w->frames / sizeof *w->frames || base + f->local_bytes > w->block->local_stride) {
        sim_fault(w, i, -1, SIM_LAUNCH_FAILED, "calls nested too deep");
        return false;
    }
    sim_frame *to = &w->frames[w->n_frames];
    *to = (sim_frame){.func = f,
                      .rows = new_rows((size_t)f->n_rows * ROW_BYTES),
                      .init = calloc((size_t)f->n_rows + 1, sizeof(uint32_t)),
                      .local_base = base,
                      .call = c,
                      .call_mask = mask};
    if (!to->rows || !to->init || w->depth + 2 > STACK_DEPTH) {
        free(to->rows), free(to->init);
        sim_fault(w, i, -1, SIM_LAUNCH_FAILED, "calls nested too deep");
        return false;
    }
    for (int k = 0; k < c->n_args && k < f->n_params; k++)
        copy_locals(w, base + f->params[k]->offset, from->local_base + c->arg[k], f->params[k]->size, mask);
    w->n_frames++;
    w->rows = to->rows, w->init = to->init;
    start_frame(w, f, base);
    w->stack[w->depth++] = (sim_entry){0, UINT32_MAX, mask, w->n_frames - 1};
    return true;
}

/* Back to the caller when the last path of the frame has ended. */
static void leave_frame(sim_warp *w) {
    sim_frame *gone = &w->frames[--w->n_frames], *to = &w->frames[w->n_frames - 1];
    const struct sim_call *c = gone->call;
    for (int k = 0; k < c->n_results && k < gone->func->n_returns; k++)
        copy_locals(w, to->local_base + c->result[k], gone->local_base + gone->func->returns[k]->offset,
                    gone->func->returns[k]->size, gone->call_mask & w->live);
    free(gone->rows), free(gone->init);
    w->rows = to->rows, w->init = to->init;
}

/* --- barriers */

static bool arrive(sim_warp *w, const sim_inst *i, uint32_t mask) {
    sim_block *b = w->block;
    uint32_t id = row(w, i->in[0])->u32[__builtin_ctz(mask)], threads = b->launch->threads;
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
    uint32_t expected = counted ? row(w, i->in[1])->u32[__builtin_ctz(mask)] : (threads + LANES - 1) / LANES * LANES;
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
    for (uint32_t m = r->arrived_warps; m; m &= m - 1) {
        sim_warp *other = &b->warps[__builtin_ctz(m)];
        for (int k = 0; k < MAX_WARPS; k++)
            if (r->clock[k] > other->clock[k]) other->clock[k] = r->clock[k];
        other->state = WARP_READY;
    }
    memset(r, 0, sizeof *r);
    return false;
}

/* --- the loop */

static void propagate(sim_warp *w, const sim_inst *i, uint32_t mask) {
    uint32_t known = FULL;
    for (int k = 0; k < i->n_in; k++) known &= w->init[i->in[k]];
    known &= mask;
    for (int k = 0; k < i->n_out; k++) w->init[i->out[k]] = (w->init[i->out[k]] & ~mask) | known;
}

static void drop_lanes(sim_warp *w, uint32_t mask, uint32_t from_frame) {
    for (uint32_t d = w->depth; d-- > 0 && w->stack[d].frame >= from_frame;) w->stack[d].mask &= ~mask;
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
    uint32_t join = i->reconverge, frame = top->frame;
    if (top->reconverge == join) w->depth--; /* an entry below already waits there for these lanes */
    else top->pc = join;
    if (next != join) w->stack[w->depth++] = (sim_entry){next, join, others, frame};
    if (target != join) w->stack[w->depth++] = (sim_entry){target, join, taken, frame};
}

static void finish_warp(sim_warp *w) {
    if (!w->launch->status) sim_complete_copies(w, UINT32_MAX);
    w->n_copies = 0;
    w->state = WARP_DONE;
}

static void hangs(sim_warp *w, const sim_inst *i) {
    sim_fault(w, i, -1, SIM_LAUNCH_TIMEOUT,
              "the launch does not end: more than %llu warp instructions on one host thread",
              (unsigned long long)sim_set.limit);
}

static void run_warp(sim_warp *w) {
    sim_launch *l = w->launch;
    sim_worker *k = w->worker;
    uint64_t steps = 0, instructions = 0, lanes = 0;
    while (!__atomic_load_n(&l->status, __ATOMIC_RELAXED)) {
        if (w->depth == 0) {
            finish_warp(w);
            break;
        }
        sim_entry *top = &w->stack[w->depth - 1];
        if (top->mask == 0 || top->pc == top->reconverge) {
            w->depth--;
            if (w->depth && w->stack[w->depth - 1].frame + 1 < w->n_frames) leave_frame(w);
            continue;
        }
        const sim_func *f = w->frames[top->frame].func;
        const sim_inst *i = &f->code[top->pc];
        uint32_t here = top->mask, mask = here;
        if (i->guard >= 0) {
            if (sim_checks(CHECK_UNINIT) && here & ~w->init[i->guard] &&
                sim_soft_fault(w, i, __builtin_ctz(here & ~w->init[i->guard]), CHECK_UNINIT,
                               "a predicate that was never written decides here"))
                break;
            uint32_t p = predicate(w, i->guard);
            mask &= i->guard_not ? ~p : p;
        }
        w->at = i;
        steps++;
        instructions += i->counts;
        lanes += i->counts ? (uint64_t)__builtin_popcount(mask) : 0;
        switch (i->kind) {
        case K_COMPUTE:
            top->pc++;
            if (!mask) break;
            if (i->propagates) propagate(w, i, mask);
            i->exec(w, i, mask);
            break;
        case K_NOP: top->pc++; break;
        case K_BRANCH: branch(w, i, here, top->pc + 1, i->target, mask); break;
        case K_BRANCH_INDEX: {
            /* One target after the other: lanes of other targets come back to this instruction. */
            if (!mask) {
                top->pc++;
                break;
            }
            uint32_t index = row(w, i->in[0])->u32[__builtin_ctz(mask)], same = 0;
            if (index >= (uint32_t)f->n_targets[i->target]) {
                sim_fault(w, i, __builtin_ctz(mask), SIM_ILLEGAL_INSTRUCTION, "brx.idx with index %u of %d targets",
                          index, f->n_targets[i->target]);
                break;
            }
            EACH_LANE same |= (uint32_t)(row(w, i->in[0])->u32[l] == index) << l;
            branch(w, i, here, top->pc, f->targets[i->target][index], same & mask);
            break;
        }
        case K_EXIT:
            top->pc++;
            w->live &= ~mask;
            drop_lanes(w, mask, 0);
            break;
        case K_RET: {
            top->pc++;
            drop_lanes(w, mask, top->frame);
            break;
        }
        case K_CALL:
            top->pc++;
            if (mask) call(w, i, mask);
            break;
        case K_BARRIER:
            top->pc++;
            if (mask && arrive(w, i, mask)) goto out;
            break;
        default:
            if (mask) sim_fault(w, i, __builtin_ctz(mask), SIM_LAUNCH_FAILED, "trap");
            top->pc++;
            break;
        }
        if ((steps & 0xfffff) == 0) {
            uint64_t step = 0x100000;
            if (k->budget < step) hangs(w, i);
            else k->budget -= step;
        }
    }
out:
    if (k->budget < (steps & 0xfffff)) hangs(w, w->at);
    else k->budget -= steps & 0xfffff;
    k->stats.warp_instructions += instructions, k->stats.lane_instructions += lanes;
}

static void start_warp(sim_worker *k, int index) {
    sim_warp *w = &k->warps[index];
    sim_block *b = &k->block;
    const sim_func *f = k->launch->func;
    uint32_t first = (uint32_t)index * LANES, rest = k->launch->threads - first;
    w->block = b, w->launch = k->launch, w->worker = k, w->index = (uint32_t)index;
    w->initial = w->live = rest >= LANES ? FULL : (1u << rest) - 1;
    w->state = WARP_READY;
    w->group = 0, w->n_copies = 0;
    memset(w->clock, 0, sizeof w->clock);
    w->clock[index] = 1;
    w->rows = k->rows + (size_t)index * (size_t)f->n_rows * ROW_BYTES;
    w->init = k->init + (size_t)index * (size_t)f->n_rows;
    w->frames[0] = (sim_frame){.func = f, .rows = w->rows, .init = w->init};
    w->n_frames = 1;
    w->stack[0] = (sim_entry){0, UINT32_MAX, w->live, 0};
    w->depth = 1;
    start_frame(w, f, 0);
}

void sim_run_block(sim_worker *k, uint64_t linear) {
    sim_launch *l = k->launch;
    sim_block *b = &k->block;
    b->launch = l, b->linear = linear, b->warps = k->warps;
    b->ctaid[0] = (uint32_t)(linear % l->grid[0]), b->ctaid[1] = (uint32_t)(linear / l->grid[0] % l->grid[1]),
    b->ctaid[2] = (uint32_t)(linear / l->grid[0] / l->grid[1]);
    b->fenced = b->acquired_any = false;
    memset(b->barriers, 0, sizeof b->barriers);
    memset(b->shared_init, 0, b->shared_bytes);
    memset(b->shared, 0xcd, b->shared_bytes);
    memset(b->shared_words, 0, ((size_t)b->shared_bytes / 4 + 1) * sizeof *b->shared_words);
    if (b->local_stride) memset(b->local_init, 0, (size_t)b->n_warps * LANES * b->local_stride);
    for (int i = 0; i < b->n_warps; i++) start_warp(k, i);
    for (;;) {
        bool progress = false, waiting = false;
        for (int i = 0; i < b->n_warps; i++) {
            if (k->warps[i].state == WARP_READY) run_warp(&k->warps[i]), progress = true;
            waiting |= k->warps[i].state == WARP_WAITING;
            if (l->status) break;
        }
        if (l->status) break;
        if (!progress && waiting) {
            sim_warp *stuck = NULL;
            int done = 0;
            for (int i = 0; i < b->n_warps; i++)
                if (k->warps[i].state == WARP_WAITING && !stuck) stuck = &k->warps[i];
                else if (k->warps[i].state == WARP_DONE) done++;
            sim_fault(stuck, stuck->at, -1, SIM_LAUNCH_FAILED,
                      "barrier divergence: warp %u waits at barrier %d for ever; %d of %d warps have exited",
                      stuck->index, stuck->barrier, done, b->n_warps);
            break;
        }
        if (!waiting) break;
    }
    for (int i = 0; i < b->n_warps; i++)
        while (k->warps[i].n_frames > 1) {
            sim_frame *gone = &k->warps[i].frames[--k->warps[i].n_frames];
            free(gone->rows), free(gone->init);
        }
    k->stats.blocks++;
}

/* --- launches */

static uint64_t local_need(const sim_func *f, int depth) {
    uint64_t most = 0;
    for (int k = 0; k < f->n_calls && depth < 20; k++) {
        uint64_t n = local_need(f->calls[k].func, depth + 1);
        if (n > most) most = n;
    }
    return (f->local_bytes + 15) / 16 * 16 + most;
}

static bool start_worker(sim_worker *k, sim_launch *l) {
    const sim_func *f = l->func;
    int warps = (int)((l->threads + LANES - 1) / LANES);
    memset(k, 0, sizeof *k);
    k->launch = l;
    k->budget = sim_set.limit;
    k->block.n_warps = warps;
    k->block.shared_bytes = l->shared_total;
    k->block.local_stride = local_need(f, 0);
    size_t locals = (size_t)warps * LANES * k->block.local_stride;
    k->warps = calloc((size_t)warps, sizeof *k->warps);
    k->rows = new_rows((size_t)warps * (size_t)f->n_rows * ROW_BYTES);
    k->init = calloc((size_t)warps * (size_t)f->n_rows + 1, sizeof *k->init);
    k->cache = calloc((size_t)f->n_memory + 1, sizeof *k->cache);
    k->block.shared = malloc(l->shared_total + 16), k->block.shared_init = malloc(l->shared_total + 16);
    k->block.shared_words = malloc((l->shared_total / 4 + 2) * sizeof(sim_shared_word));
    k->block.local = malloc(locals + 1), k->block.local_init = malloc(locals + 1);
    if (!k->rows) return false;
    memset(k->rows, 0, (size_t)warps * (size_t)f->n_rows * ROW_BYTES);
    return k->warps && k->init && k->cache && k->block.shared && k->block.shared_init && k->block.shared_words &&
           k->block.local && k->block.local_init;
}

static void stop_worker(sim_worker *k) {
    for (int i = 0; k->warps && i < k->block.n_warps; i++) free(k->warps[i].copies);
    free(k->warps), free(k->rows), free(k->init), free(k->cache), free(k->block.shared), free(k->block.shared_init),
        free(k->block.shared_words), free(k->block.local), free(k->block.local_init);
}

static void *work(void *argument) {
    sim_worker *k = argument;
    sim_launch *l = k->launch;
    while (!__atomic_load_n(&l->status, __ATOMIC_RELAXED)) {
        uint64_t block = __atomic_fetch_add(&l->next_block, 1, __ATOMIC_RELAXED);
        if (block >= l->blocks) break;
        sim_run_block(k, block);
    }
    return NULL;
}

int sim_run_launch(sim_launch *l) {
    enum { MOST = 64 };
    sim_worker workers[MOST];
    pthread_t threads[MOST];
    int n = sim_set.threads < MOST ? sim_set.threads : MOST, started = 0;
    if ((uint64_t)n > l->blocks) n = (int)l->blocks;
    if (l->blocks * l->threads < 2048) n = 1;
    l->parallel = n > 1;
    l->acquired = calloc(l->blocks, 1), l->released = calloc(l->blocks, 1);
    bool ok = l->acquired && l->released;
    for (int k = 0; k < n; k++) ok = start_worker(&workers[k], l) && ok;
    if (!ok) {
        l->status = SIM_OUT_OF_MEMORY; /* of the host */
    } else {
        for (int k = 1; k < n; k++)
            if (pthread_create(&threads[started], NULL, work, &workers[k]) == 0) started++;
        work(&workers[0]);
        for (int k = 0; k < started; k++) pthread_join(threads[k], NULL);
    }
    for (int k = 0; k < n; k++) {
        sim_stats_add(&l->stats, &workers[k].stats);
        stop_worker(&workers[k]);
    }
    free(l->acquired), free(l->released);
    l->acquired = l->released = NULL;
    l->stats.launches = 1;
    l->stats.registers = (uint64_t)l->func->registers, l->stats.local_bytes = local_need(l->func, 0),
    l->stats.shared_bytes = l->shared_total;
    ptxsim_stats *total = sim_stats_of(l->func->name);
    if (total) sim_stats_add(total, &l->stats);
    return l->status;
}
