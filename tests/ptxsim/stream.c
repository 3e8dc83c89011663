/* SPDX-License-Identifier: MIT
 * Queues of work, what comes after what, and the execution of one piece of work. */
#include "api.h"

#include <stdio.h>
#include <unistd.h>

/* --- the order of operations. Each executed operation has a number; `orders` says where it stood. */

typedef struct order {
    uint8_t slot;
    uint32_t graph_launch, node;
    uint64_t position;
    CUgraphExec exec;
    const char *name;
} order;
static struct {
    order *list;
    uint32_t n, cap, graph_launches, launch; /* that executes now */
    uint64_t clock[SLOTS];                   /* what comes before the operation that executes now */
} orders;
static struct {
    uint64_t position; /* the last one given out; they go on when the slot is used again */
    CUstream owner;    /* the last stream that got the slot; NULL: none did */
} slots[SLOTS];

void orders_reset(void) {
    free(orders.list);
    memset(&orders, 0, sizeof orders);
    memset(slots, 0, sizeof slots);
}

static uint32_t order_new(order o) {
    if (orders.n + 1 >= orders.cap) {
        uint32_t cap = orders.cap ? orders.cap * 2 : 1024;
        order *grown = realloc(orders.list, cap * sizeof *grown);
        if (!grown || cap > WORD_OP_MASK) return 0;
        orders.list = grown, orders.cap = cap;
    }
    if (!orders.n) orders.n = 1; /* 0 means nobody */
    orders.list[orders.n] = o;
    return orders.n++;
}

bool sim_op_before(uint32_t earlier, uint32_t current) {
    if (earlier == 0 || earlier >= orders.n || current == 0) return true;
    const order *e = &orders.list[earlier], *c = &orders.list[current];
    if (e->graph_launch && e->graph_launch == c->graph_launch) {
        if (!c->exec->ancestors) return true;
        return c->exec->ancestors[c->node * c->exec->words + e->node / 64] >> e->node % 64 & 1;
    }
    return orders.clock[e->slot] >= e->position;
}

void sim_describe_op(uint32_t op, char *text, size_t size) {
    if (op == 0 || op >= orders.n) snprintf(text, size, "something");
    else snprintf(text, size, "%s in stream %d", orders.list[op].name, orders.list[op].slot);
}

/* --- execution */

static const char *copy_name(const sim_work *w) {
    bool to_device = w->to - DEVICE_BASE < (UINT64_C(1) << 44),
         from_device = !w->staged && w->from - DEVICE_BASE < (UINT64_C(1) << 44);
    return to_device ? (from_device ? "a copy in the device" : "a copy to the device") : "a copy to the host";
}

static bool host_race(const char *what, const char *mine, uint64_t address, uint32_t other, const char *theirs) {
    char text[128];
    if (!sim_checks(CHECK_STREAM)) return false;
    sim_describe_op(other, text, sizeof text);
    sim_report("race between streams: %s %s global 0x%llx, which %s %s, and nothing orders the two", what, mine,
               (unsigned long long)address, text, theirs);
    return !sim_checks(CHECK_WARN);
}

/* A copy or set touches whole ranges; the checks are those of a kernel's access. Returns a CUresult. */
static CUresult touch_range(uint64_t address, uint64_t bytes, uint32_t op, const char *what, bool write) {
    sim_alloc *a = sim_memory_find(address);
    if (!a || bytes > a->size - (address - a->base)) {
        char where[160];
        if (!a && address - DEVICE_BASE >= (UINT64_C(1) << 44)) return CUDA_SUCCESS; /* pageable host memory */
        sim_memory_describe(a ? a->base + a->size : address, where, sizeof where);
        sim_report("%s of %llu bytes: %s at 0x%llx is invalid: %s", what, (unsigned long long)bytes,
                   write ? "destination" : "source", (unsigned long long)address, where);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (a->host) return CUDA_SUCCESS;
    uint64_t offset = address - a->base;
    if (write) memset(a->init + offset, 1, bytes);
    else if (sim_checks(CHECK_UNINIT)) {
        const uint8_t *hole = memchr(a->init + offset, 0, bytes);
        if (hole && what[7] != 'i') { /* copies inside the device take the holes along */
            sim_report("%s of %llu bytes from 0x%llx (allocation #%d): byte %llu was never written", what,
                       (unsigned long long)bytes, (unsigned long long)address, a->id,
                       (unsigned long long)(hole - (a->init + offset)));
            if (!sim_checks(CHECK_WARN)) return CUDA_ERROR_LAUNCH_FAILED;
        }
    }
    uint32_t last_writer = 0, last_reader = 0;
    for (uint64_t word = offset / 4; word <= (offset + bytes - 1) / 4; word++) {
        uint64_t *w = &a->words[word * 2];
        uint32_t writer = word_op(w[0]), reader = word_op(w[1]);
        if (writer && writer != last_writer && writer != op) {
            if (!sim_op_before(writer, op) &&
                host_race(what, write ? "writes" : "reads", a->base + word * 4, writer, "wrote"))
                return CUDA_ERROR_LAUNCH_FAILED;
            last_writer = writer;
        }
        if (write && reader && reader != last_reader && reader != op) {
            if (!sim_op_before(reader, op) && host_race(what, "writes", a->base + word * 4, reader, "read"))
                return CUDA_ERROR_LAUNCH_FAILED;
            last_reader = reader;
        }
        w[write ? 0 : 1] = (uint64_t)op << WORD_OP_SHIFT | 15;
    }
    return CUDA_SUCCESS;
}

static uint8_t *bytes_at(uint64_t address) {
    sim_alloc *a = sim_memory_find(address);
    return a ? a->data + (address - a->base) : (uint8_t *)(uintptr_t)address;
}

static void fail(CUresult r) {
    if (r && !sim.sticky) sim.sticky = r;
}

static void execute_copy(const sim_work *w, uint32_t op) {
    const char *what = copy_name(w);
    CUresult r = w->staged ? CUDA_SUCCESS : touch_range(w->from, w->bytes, op, what, false);
    if (!r) r = touch_range(w->to, w->bytes, op, what, true);
    if (r) {
        fail(r);
        return;
    }
    memmove(bytes_at(w->to), w->staged ? w->staged : bytes_at(w->from), w->bytes);
    if (w->staged) return;
    sim_alloc *to = sim_memory_find(w->to), *from = sim_memory_find(w->from);
    if (to && from && to->init && from->init)
        memmove(to->init + (w->to - to->base), from->init + (w->from - from->base), w->bytes);
}

static void execute_set(const sim_work *w, uint32_t op) {
    CUresult r = touch_range(w->to, w->bytes, op, "a memset", true);
    if (r) {
        fail(r);
        return;
    }
    uint8_t *to = bytes_at(w->to);
    if (w->width == 1) memset(to, (int)w->value, w->bytes);
    else
        for (uint64_t at = 0; at < w->bytes; at += w->width) memcpy(to + at, &w->value, w->width);
}

CUresult stream_lose_device(void) {
    fail(sim.lost_by ? sim.lost_by : SIM_DEVICE_UNAVAILABLE);
    return sim.sticky;
}

static void execute_launch(const sim_work *w, uint32_t op) {
    if (api_fault(PTXSIM_FAULT_LOST)) {
        sim_report("the device is lost while %s executes (injected)", w->func->name);
        stream_lose_device();
        return;
    }
    sim_launch l = {.func = w->func, .dynamic_shared = w->shared, .params = w->params, .op = op};
    memcpy(l.grid, w->grid, sizeof l.grid), memcpy(l.block, w->block, sizeof l.block);
    l.threads = w->block[0] * w->block[1] * w->block[2];
    l.blocks = (uint64_t)w->grid[0] * w->grid[1] * w->grid[2];
    uint64_t align = w->func->dynamic_align > 16 ? w->func->dynamic_align : 16,
             start = (w->func->shared_bytes + align - 1) / align * align;
    l.dynamic_offset = SHARED_START + start;
    l.shared_total = (uint32_t)(w->shared ? start + w->shared : w->func->shared_bytes);
    fail(sim_run_launch(&l));
}

static void check_attempt(const ptxsim_work *a, uint32_t op) {
    CUresult r = CUDA_SUCCESS;
    for (int k = 0; !r && k < a->n_ranges; k++)
        r = touch_range(a->ranges[k].address, a->ranges[k].bytes, op, a->name, a->ranges[k].write);
    fail(r);
}

bool work_execute(sim_work *w, const uint64_t *clock, int slot, uint64_t position, CUgraphExec exec, int node) {
    if (w->kind == WORK_RECORD) {
        w->event->time_ms = now_ms();
        return true;
    }
    if (w->kind == WORK_FREE) {
        sim_alloc *a = sim_memory_find(w->to);
        if (a && a->base == w->to) sim_memory_free(a);
        return true;
    }
    if (w->kind == WORK_EMPTY || sim.sticky) return true;
    if (w->kind == WORK_GRAPH) {
        if (!w->launch) w->launch = ++orders.graph_launches;
        orders.launch = w->launch;
        return graph_execute(w, clock, slot, position);
    }
    if (w->kind == WORK_HOST) {
        w->function(w->user);
        return true;
    }
    if (w->kind == WORK_ATTEMPT) {
        const int done = w->attempt->attempt(w->attempt->user);
        if (done < 0) fail(CUDA_ERROR_LAUNCH_FAILED);
        if (done <= 0) return done < 0;
    }
    memcpy(orders.clock, clock, sizeof orders.clock);
    uint32_t op = order_new((order){.slot = (uint8_t)slot,
                                    .position = position,
                                    .graph_launch = exec ? orders.launch : 0,
                                    .node = (uint32_t)node,
                                    .exec = exec,
                                    .name = w->kind == WORK_ATTEMPT  ? w->attempt->name
                                            : w->kind == WORK_LAUNCH ? "a kernel"
                                            : w->kind == WORK_SET    ? "a memset"
                                                                     : copy_name(w)});
    if (w->kind == WORK_ATTEMPT) check_attempt(w->attempt, op);
    else if (w->kind == WORK_COPY) execute_copy(w, op);
    else if (w->kind == WORK_SET) execute_set(w, op);
    else execute_launch(w, op);
    return true;
}

void work_clear(sim_work *w) {
    free(w->params), free(w->staged);
    w->params = NULL, w->staged = NULL;
}

bool work_copy(sim_work *to, const sim_work *from) {
    *to = *from;
    to->params = to->staged = NULL;
    if (from->params) {
        to->params = malloc(from->func->param_bytes + 16);
        if (!to->params) return false;
        memcpy(to->params, from->params, from->func->param_bytes + 16);
    }
    if (from->staged) {
        to->staged = malloc(from->bytes);
        if (!to->staged) return false;
        memcpy(to->staged, from->staged, from->bytes);
    }
    return true;
}

/* --- queues */

CUstream stream_find(CUstream handle) {
    CUcontext c = api_context();
    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) return c ? c->null_stream : NULL;
    for (CUstream s = sim.streams; s; s = s->next)
        if (s == handle) return s->alive && !s->null ? s : NULL;
    return NULL;
}

/* A slot for a stream. That of a destroyed stream serves again once the host has waited for all that was in it: then
 * the new stream's work comes after the old one's in any case. When there is none left, streams share the last slot, in
 * which some missing order is not seen. */
static int take_slot(CUstream s) {
    int k = 0;
    while (k < SLOTS - 1 && slots[k].owner && (slots[k].owner->alive || sim.host[k] < slots[k].position)) k++;
    slots[k].owner = s;
    return k;
}

CUstream stream_create(CUcontext context, unsigned flags, int priority, bool null) {
    CUstream s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->alive = true, s->null = null, s->flags = flags, s->priority = priority, s->context = context;
    s->blocking = !null && !(flags & CU_STREAM_NON_BLOCKING);
    s->slot = take_slot(s);
    s->enqueued = s->done = slots[s->slot].position;
    s->next = sim.streams, sim.streams = s;
    return s;
}

static void merge(uint64_t *to, const uint64_t *from) {
    for (int k = 0; k < SLOTS; k++)
        if (from[k] > to[k]) to[k] = from[k];
}

static bool add_dep(sim_op *op, CUstream s, uint64_t position) {
    if (s->done >= position) return true;
    dependency *grown = realloc(op->deps, (size_t)(op->n_deps + 1) * sizeof *grown);
    if (!grown) return false;
    op->deps = grown;
    op->deps[op->n_deps++] = (dependency){s, position};
    return true;
}

CUresult stream_enqueue(CUstream s, sim_work *work, const dependency *deps, int n_deps, const uint64_t *clock) {
    if (s->capture) return graph_capture(s, work);
    if (s->null || s->blocking)
        for (CUstream o = sim.streams; o; o = o->next)
            if (o->capture && o->alive && o->capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && s->null &&
                o->blocking) { /* the default stream would wait for it */
                o->capture->invalid = true;
                work_clear(work);
                return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
            }
    sim_op *op = calloc(1, sizeof *op);
    if (!op) {
        work_clear(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->work = *work;
    op->position = s->enqueued = ++slots[s->slot].position;
    bool ok = true;
    memcpy(op->clock, s->clock, sizeof op->clock);
    merge(op->clock, sim.host);
    if (clock) merge(op->clock, clock);
    for (int k = 0; k < n_deps; k++) ok &= add_dep(op, deps[k].stream, deps[k].position);
    for (CUstream o = sim.streams; o; o = o->next)
        if (o != s && o->context == s->context && ((s->null && o->blocking) || (s->blocking && o->null))) {
            ok &= add_dep(op, o, o->enqueued);
            merge(op->clock, o->clock);
        }
    op->clock[s->slot] = op->position;
    memcpy(s->clock, op->clock, sizeof s->clock);
    if (s->tail) s->tail->next = op;
    else s->head = op;
    s->tail = op;
    if (!ok) return CUDA_ERROR_OUT_OF_MEMORY;
    if (s->enqueued - s->done > 65536) stream_complete(s, s->done + 1);
    return CUDA_SUCCESS;
}

bool stream_complete(CUstream s, uint64_t position) {
    while (s->done < position && s->head) {
        sim_op *op = s->head;
        for (int k = 0; k < op->n_deps; k++)
            if (!stream_complete(op->deps[k].stream, op->deps[k].position)) return false;
        if (s->head != op) continue; /* the dependencies came back to this stream */
        if (!work_execute(&op->work, op->clock, s->slot, op->position, NULL, 0)) return false;
        s->head = op->next;
        if (!s->head) s->tail = NULL;
        s->done = op->position;
        work_clear(&op->work);
        free(op->deps), free(op);
    }
    return true;
}

void stream_wait_for(CUstream s, uint64_t position) {
    while (!stream_complete(s, position)) {
        pthread_mutex_unlock(&sim.lock);
        usleep(200);
        pthread_mutex_lock(&sim.lock);
    }
}

/* The host has waited for all of the stream: it knows what the stream knew. */
void stream_host_knows(CUstream s) { merge(sim.host, s->clock); }

void stream_complete_of(const struct CUctx_st *c) {
    for (CUstream s = sim.streams; s; s = s->next) {
        if (s->context->device != c->device) continue;
        stream_wait_for(s, s->enqueued);
        merge(sim.host, s->clock);
    }
}

void stream_complete_all(void) { stream_complete_of(api_context()); }

void stream_poll(CUstream s) {
    if (s->head) stream_complete(s, s->head->position);
}

/* A thread disturbs its own captures but relaxed ones, and those of others that are global. */
static bool disturbs(const capture *c) {
    return c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
           (c->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && pthread_equal(c->thread, pthread_self()));
}

CUresult stream_forbid_capture(void) {
    for (CUstream s = sim.streams; s; s = s->next)
        if (s->alive && s->capture && disturbs(s->capture)) {
            s->capture->invalid = true;
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return CUDA_SUCCESS;
}

static bool reads(const sim_work *w, uint64_t begin, uint64_t bytes) {
    if (w->kind == WORK_COPY) return !w->staged && w->from < begin + bytes && begin < w->from + w->bytes;
    if (w->kind == WORK_HOST) return true;
    if (w->kind == WORK_LAUNCH) { /* a parameter that points there */
        const sim_alloc *a = sim_memory_find(begin);
        for (uint64_t at = 0; a && at + 8 <= w->func->param_bytes; at += 8) {
            uint64_t v;
            memcpy(&v, w->params + at, 8);
            if (v - a->base < a->size) return true;
        }
    }
    if (w->kind == WORK_GRAPH)
        for (int k = 0; k < w->exec->n; k++)
            if (reads(&w->exec->works[k], begin, bytes)) return true;
    return false;
}

bool stream_pending_read(uint64_t begin, uint64_t bytes) {
    for (CUstream s = sim.streams; s; s = s->next)
        for (sim_op *op = s->head; op; op = op->next)
            if (reads(&op->work, begin, bytes)) return true;
    return false;
}

bool stream_pending_graph(CUgraphExec exec) {
    for (CUstream s = sim.streams; s; s = s->next)
        for (sim_op *op = s->head; op; op = op->next)
            if (op->work.kind == WORK_GRAPH && op->work.exec == exec) return true;
    return false;
}

/* --- work of libraries */

__attribute__((visibility("default"))) int ptxsim_enqueue(void *stream, const ptxsim_work *work) {
    ENTER(true);
    CUstream s = stream_find(stream);
    if (!s) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    sim_work attempted = {.kind = WORK_ATTEMPT, .attempt = work};
    return api_leave(stream_enqueue(s, &attempted, NULL, 0, NULL));
}

__attribute__((visibility("default"))) void *ptxsim_bytes(uint64_t address, uint64_t bytes) {
    sim_alloc *a = sim_memory_find(address);
    return a && bytes <= a->size - (address - a->base) ? a->data + (address - a->base) : NULL;
}
