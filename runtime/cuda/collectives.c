/* SPDX-License-Identifier: MIT
 * Collectives of a program as calls of NCCL and kernels that combine. */
#include "runtime/cuda/collectives.h"
#include "runtime/cuda/combine.h"
#include "runtime/cuda/ranks.h"
#include "runtime/program.h"

#include "ir/support/alloc.h"

#include <string.h>

enum {
    SMALL_BYTES = 16 << 10, /* up to here a second exchange takes longer than sending all to all */
    CLEARED_BYTES = 64 << 10
};

typedef struct item {
    int step;
    tcc_call call;
    tcc_collective_params params;
    tcc_cuda_function combine; /* NULL: nothing is combined */
    tcc_cuda_event done;
} item;

struct tcc_cuda_collectives {
    tcc_device_cuda *cuda;
    const tcc_program *program;
    const tcc_collectives *by;
    int count;
    item *items;
    int *item_of, *waits_for; /* by step; -1: none. waits_for: the item's number */
    int started, done;        /* items before these were started, and are waited for */
    tcc_cuda_module module;
    tcc_cuda_function mark;
    tcc_cuda_event begun;   /* what a collective comes after */
    tcc_cuda_address parts; /* what ranks have sent */
};

/* -- Making -- */

static int64_t bytes_of(const tcc_collective_params *p) { return p->count * tcc_dtype_bytes((tcc_dtype)p->type); }

static bool is_fast(const tcc_collective_params *p) {
    return p->fast && p->reduction == TCC_REDUCTION_SUM && p->type != TCC_BOOL;
}

static bool combines(const item *i) {
    return i->call != TCC_CALL_ALL_GATHER && i->params.reduction != TCC_REDUCTION_FIRST && !is_fast(&i->params);
}

static bool is_small(const item *i) { return i->call == TCC_CALL_ALL_REDUCE && bytes_of(&i->params) <= SMALL_BYTES; }

/* Elements that one rank combines, and that each rank sends to it. */
static int64_t part_of(const item *i) {
    const tcc_collective_params *p = &i->params;
    return i->call == TCC_CALL_ALL_REDUCE && !is_small(i) ? (p->count + p->ranks - 1) / p->ranks : p->count;
}

static tcc_status check(const tcc_library_call *call, const item *i, tcc_diag *d) {
    const int64_t part = bytes_of(&i->params), whole = i->params.ranks * part;
    if (call->buffers[0].size_bytes >= (i->call == TCC_CALL_REDUCE_SCATTER ? whole : part) &&
        call->buffers[1].size_bytes >= (i->call == TCC_CALL_ALL_GATHER ? whole : part))
        return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "'%s': its buffers are smaller than its params say", call->name);
}

static tcc_status find_items(tcc_cuda_collectives *c, tcc_diag *d) {
    const tcc_program *p = c->program;
    int *steps = tcc__malloc(sizeof *steps * (size_t)(p->n_steps + 1));
    if (!steps) return tcc_enomem(d);
    tcc_program_find_waits(p, steps);
    tcc_status status = TCC_OK;
    int n = 0;
    for (int s = 0; s < p->n_steps && status == TCC_OK; s++) {
        c->item_of[s] = -1;
        c->waits_for[s] = steps[s] < 0 ? -1 : c->item_of[steps[s]];
        const tcc_call call = p->steps[s].kind == TCC_STEP_LIBRARY ? tcc_call_find(p->steps[s].call->name) : TCC_CALLS;
        if (call == TCC_CALLS || !tcc_call_is_collective(call)) continue;
        item *i = &c->items[n];
        i->step = s;
        i->call = call;
        memcpy(&i->params, p->steps[s].call->params, sizeof i->params);
        status = check(p->steps[s].call, i, d);
        c->item_of[s] = n++;
    }
    tcc__free(steps);
    return status;
}

static tcc_status make_text(const tcc_cuda_collectives *c, tcc_strbuf *ptx) {
    bool made[TCC_REDUCTIONS][TCC_DTYPE_COUNT] = {{false}};
    tcc_combine_begin(ptx);
    for (int i = 0; i < c->count; i++) {
        const tcc_collective_params *p = &c->items[i].params;
        if (!combines(&c->items[i]) || made[p->reduction][p->type]) continue;
        made[p->reduction][p->type] = true;
        tcc_combine_add(ptx, (tcc_rank_reduction)p->reduction, (tcc_dtype)p->type);
    }
    return ptx->text ? TCC_OK : TCC_ENOMEM;
}

static tcc_status load_kernels(tcc_cuda_collectives *c, tcc_diag *d) {
    tcc_device_cuda *cuda = c->cuda;
    tcc_strbuf ptx = {0};
    if (make_text(c, &ptx) != TCC_OK) return tcc_enomem(d);
    const tcc_cuda_result r = cuda->cu.module_load(&c->module, ptx.text, 0, NULL, NULL);
    tcc_strbuf_free(&ptx);
    if (r) return c->module = NULL, tcc__cuda_failed(cuda, d, r, "the driver refuses the kernels of collectives");
    TCC_CUDA_TRY(cuda, d, module_function, &c->mark, c->module, TCC_COMBINE_MARK);
    for (int i = 0; i < c->count; i++) {
        item *m = &c->items[i];
        char name[32];
        TCC_CUDA_TRY(cuda, d, event_create, &m->done, TCC_CUDA_EVENT_NO_TIMING);
        if (!combines(m)) continue;
        tcc_combine_name(name, (tcc_rank_reduction)m->params.reduction, (tcc_dtype)m->params.type);
        TCC_CUDA_TRY(cuda, d, module_function, &m->combine, c->module, name);
    }
    TCC_CUDA_TRY(cuda, d, event_create, &c->begun, TCC_CUDA_EVENT_NO_TIMING);
    return TCC_OK;
}

int64_t tcc__cuda_received_bytes(tcc_call call, const tcc_collective_params *params) {
    const item i = {.call = call, .params = *params};
    return combines(&i) ? params->ranks * part_of(&i) * tcc_dtype_bytes((tcc_dtype)params->type) : 0;
}

int64_t tcc__cuda_program_receives(const tcc_program *p) {
    int64_t most = 0;
    for (int s = 0; s < p->n_steps && p->target == TCC_TARGET_CUDA; s++) {
        if (p->steps[s].kind != TCC_STEP_LIBRARY) continue;
        const tcc_call call = tcc_call_find(p->steps[s].call->name);
        if (!tcc_call_is_collective(call)) continue;
        const int64_t bytes = tcc__cuda_received_bytes(call, (const tcc_collective_params *)p->steps[s].call->params);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Cleared, as the last part may be shorter, and all of it is sent. */
static tcc_status allocate_parts(tcc_cuda_collectives *c, tcc_diag *d) {
    static const char zeros[CLEARED_BYTES];
    tcc_device_cuda *cuda = c->cuda;
    const int64_t most = tcc__cuda_program_receives(c->program);
    if (!most) return TCC_OK;
    TCC_TRY(tcc__cuda_alloc(cuda, d, most, "what other ranks send", &c->parts));
    for (int64_t at = 0; at < most; at += CLEARED_BYTES)
        TCC_CUDA_TRY(cuda, d, copy_to_device, c->parts + (tcc_cuda_address)at, zeros,
                     (size_t)(most - at < CLEARED_BYTES ? most - at : CLEARED_BYTES), cuda->compute);
    return TCC_OK;
}

static int count_of(const tcc_program *p) {
    int n = 0;
    for (int s = 0; s < p->n_steps; s++)
        n += p->steps[s].kind == TCC_STEP_LIBRARY && tcc_call_is_collective(tcc_call_find(p->steps[s].call->name));
    return n;
}

tcc_status tcc__cuda_collectives_create(tcc_device_cuda *cuda, tcc_diag *d, const tcc_program *p,
                                        tcc_cuda_collectives **out) {
    const int count = count_of(p);
    *out = NULL;
    if (!count) return TCC_OK;
    tcc_cuda_collectives *c = *out = tcc__calloc(1, sizeof *c);
    if (!c) return tcc_enomem(d);
    *c = (tcc_cuda_collectives){.cuda = cuda, .program = p, .count = count};
    c->items = tcc__calloc((size_t)count, sizeof *c->items);
    c->item_of = tcc__calloc((size_t)p->n_steps, sizeof *c->item_of);
    c->waits_for = tcc__calloc((size_t)p->n_steps, sizeof *c->waits_for);
    if (!c->items || !c->item_of || !c->waits_for) return tcc_enomem(d);
    TCC_TRY(find_items(c, d));
    TCC_TRY(load_kernels(c, d));
    return allocate_parts(c, d);
}

void tcc__cuda_collectives_drop(tcc_cuda_collectives *c) {
    if (!c) return;
    const tcc_cuda_driver *cu = &c->cuda->cu;
    tcc_device_ranks *ranks = c->by ? c->by->ranks : NULL;
    if (ranks && ranks->program == c->program) ranks->program = NULL;
    for (int i = 0; c->items && i < c->count; i++)
        if (c->items[i].done) cu->event_destroy(c->items[i].done);
    if (c->begun) cu->event_destroy(c->begun);
    if (c->parts) cu->free(c->parts);
    if (c->module) cu->module_unload(c->module);
}

void tcc__cuda_collectives_destroy(tcc_cuda_collectives *c) {
    if (!c) return;
    tcc__free(c->items);
    tcc__free(c->item_of);
    tcc__free(c->waits_for);
    tcc__free(c);
}

void tcc__cuda_collectives_set(tcc_cuda_collectives *c, const tcc_collectives *by) { c->by = by; }

tcc_device_ranks *tcc__cuda_collectives_ranks(const tcc_cuda_collectives *c) { return c->by ? c->by->ranks : NULL; }

/* -- Running -- */

/* What a collective is run with. */
typedef struct run {
    tcc_cuda_collectives *c;
    tcc_device_ranks *r;
    const item *item;
    tcc_cuda_address from, to;
    int64_t bytes; /* of `count` elements */
} run;

static tcc_status combine(const run *a, tcc_diag *d, tcc_cuda_address to, int64_t count) {
    tcc_device_cuda *cuda = a->c->cuda;
    tcc_combine_params p = {a->c->parts, to, count, part_of(a->item), a->item->params.ranks};
    void *parameters[] = {&p.slots, &p.to, &p.count, &p.stride, &p.ranks};
    const int64_t blocks = (count + TCC_COMBINE_THREADS - 1) / TCC_COMBINE_THREADS,
                  most = 8L * cuda->base.hw.processors;
    if (count)
        TCC_CUDA_TRY(cuda, d, launch, a->item->combine, (unsigned)(blocks < most ? blocks : most), 1, 1,
                     TCC_COMBINE_THREADS, 1, 1, 0, a->r->stream, parameters, NULL);
    return TCC_OK;
}

/* Each rank gets its own part of all ranks. Returns how many elements that is. */
static tcc_status exchange(const run *a, tcc_diag *d, int64_t *own) {
    const tcc_collective_params *p = &a->item->params;
    const int64_t part = part_of(a->item), element = tcc_dtype_bytes((tcc_dtype)p->type);
    const int64_t all = a->item->call == TCC_CALL_ALL_REDUCE ? p->count : p->count * p->ranks;
    tcc_nccl_result result = a->r->nccl.group_start();
    *own = 0;
    for (int64_t r = 0; r < p->ranks && !result; r++) {
        const int64_t begin = r * part < all ? r * part : all, end = begin + part < all ? begin + part : all;
        if (r == a->r->with.rank) *own = end - begin;
        if (end > begin)
            result = a->r->nccl.send(a->from + (tcc_cuda_address)(begin * element), (size_t)((end - begin) * element),
                                     TCC_NCCL_INT8, (int)r, a->r->comm, a->r->stream);
    }
    for (int64_t r = 0; r < p->ranks && *own && !result; r++)
        result = a->r->nccl.receive(a->c->parts + (tcc_cuda_address)(r * part * element), (size_t)(*own * element),
                                    TCC_NCCL_INT8, (int)r, a->r->comm, a->r->stream);
    const tcc_nccl_result ended = a->r->nccl.group_end();
    return tcc__cuda_ranks_settle(a->r, d, result ? result : ended, "a group of ncclSend and ncclRecv");
}

static tcc_status gather(const run *a, tcc_diag *d, tcc_cuda_address from, tcc_cuda_address to, int64_t bytes) {
    TCC_NCCL_TRY(a->r, d, all_gather, from, to, (size_t)bytes, TCC_NCCL_INT8, a->r->comm, a->r->stream);
    return TCC_OK;
}

static tcc_status all_reduce(const run *a, tcc_diag *d) {
    const tcc_collective_params *p = &a->item->params;
    tcc_device_cuda *cuda = a->c->cuda;
    if (is_small(a->item)) {
        TCC_TRY(gather(a, d, a->from, a->c->parts, a->bytes));
        return combine(a, d, a->to, p->count);
    }
    const int64_t part = part_of(a->item), part_bytes = part * tcc_dtype_bytes((tcc_dtype)p->type);
    const tcc_cuda_address whole = p->count == part * p->ranks ? a->to : a->c->parts,
                           mine = whole + (tcc_cuda_address)(a->r->with.rank * part_bytes);
    int64_t own;
    TCC_TRY(exchange(a, d, &own));
    TCC_TRY(combine(a, d, mine, own));
    TCC_TRY(gather(a, d, mine, whole, part_bytes));
    if (whole != a->to) TCC_CUDA_TRY(cuda, d, copy, a->to, whole, (size_t)a->bytes, a->r->stream);
    return TCC_OK;
}

static tcc_status reduce_scatter(const run *a, tcc_diag *d) {
    int64_t own;
    TCC_TRY(exchange(a, d, &own));
    return combine(a, d, a->to, own);
}

static const int nccl_types[TCC_DTYPE_COUNT] = {
    [TCC_F64] = TCC_NCCL_FLOAT64,   [TCC_F32] = TCC_NCCL_FLOAT32, [TCC_F16] = TCC_NCCL_FLOAT16,
    [TCC_BF16] = TCC_NCCL_BFLOAT16, [TCC_I64] = TCC_NCCL_INT64,   [TCC_I32] = TCC_NCCL_INT32,
    [TCC_U8] = TCC_NCCL_UINT8,      [TCC_BOOL] = TCC_NCCL_UINT8};

static tcc_status sum_fast(const run *a, tcc_diag *d) {
    const tcc_collective_params *p = &a->item->params;
    const int type = nccl_types[p->type];
    if (a->item->call == TCC_CALL_ALL_REDUCE)
        TCC_NCCL_TRY(a->r, d, all_reduce, a->from, a->to, (size_t)p->count, type, TCC_NCCL_SUM, a->r->comm,
                     a->r->stream);
    else
        TCC_NCCL_TRY(a->r, d, reduce_scatter, a->from, a->to, (size_t)p->count, type, TCC_NCCL_SUM, a->r->comm,
                     a->r->stream);
    return TCC_OK;
}

static tcc_status run_on_ranks(const run *a, tcc_diag *d) {
    const tcc_collective_params *p = &a->item->params;
    if (a->item->call == TCC_CALL_ALL_GATHER) return gather(a, d, a->from, a->to, a->bytes);
    if (p->reduction == TCC_REDUCTION_FIRST) {
        TCC_NCCL_TRY(a->r, d, broadcast, a->from, a->to, (size_t)a->bytes, TCC_NCCL_INT8, 0, a->r->comm, a->r->stream);
        return TCC_OK;
    }
    if (is_fast(p)) return sum_fast(a, d);
    return a->item->call == TCC_CALL_ALL_REDUCE ? all_reduce(a, d) : reduce_scatter(a, d);
}

/* What others would send is what this rank has: their time is not there, nor their values. */
static tcc_status run_alone(const run *a, tcc_diag *d) {
    tcc_device_cuda *cuda = a->c->cuda;
    const int64_t copies = a->item->call == TCC_CALL_ALL_GATHER ? a->item->params.ranks : 1;
    for (int64_t r = 0; r < copies; r++) {
        const tcc_cuda_address to = a->to + (tcc_cuda_address)(r * a->bytes);
        if (to != a->from) TCC_CUDA_TRY(cuda, d, copy, to, a->from, (size_t)a->bytes, cuda->compute);
    }
    return TCC_OK;
}

static tcc_status check_ranks(const tcc_cuda_collectives *c, tcc_diag *d, const item *i) {
    const tcc_device_ranks *r = c->by ? c->by->ranks : NULL;
    if (!c->by)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "'%s': the program was made for several ranks, and here is no communicator",
                         tcc_call_get_info(i->call)->name);
    if (r) TCC_TRY(tcc__cuda_ranks_check(r, d));
    if (r && r->with.ranks != i->params.ranks)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "the program was made for %lld ranks, and here are %d",
                         (long long)i->params.ranks, r->with.ranks);
    return TCC_OK;
}

static tcc_status mark(const tcc_cuda_collectives *c, tcc_diag *d, tcc_device_ranks *r, int step) {
    tcc_device_cuda *cuda = c->cuda;
    tcc_cuda_address at = (tcc_cuda_address)(uintptr_t)r->progress; /* pinned memory has one address for both */
    int32_t value = step + 1;
    void *parameters[] = {&at, &value};
    TCC_CUDA_TRY(cuda, d, launch, c->mark, 1, 1, 1, 1, 1, 1, 0, r->stream, parameters, NULL);
    return TCC_OK;
}

tcc_status tcc__cuda_collectives_start(tcc_cuda_collectives *c, tcc_diag *d, int step, tcc_cuda_address from,
                                       tcc_cuda_address to) {
    const int n = c->item_of[step];
    item *i = &c->items[n];
    tcc_device_cuda *cuda = c->cuda;
    TCC_TRY(check_ranks(c, d, i));
    const run a = {c, c->by->ranks, i, from, to, bytes_of(&i->params)};
    if (!a.r) return run_alone(&a, d);
    a.r->program = c->program;
    TCC_CUDA_TRY(cuda, d, event_record, c->begun, cuda->compute);
    TCC_CUDA_TRY(cuda, d, stream_wait, a.r->stream, c->begun, 0);
    c->started = n + 1; /* also where the rest fails: the streams come together again */
    tcc_status status = mark(c, d, a.r, step);
    if (status == TCC_OK) status = run_on_ranks(&a, d);
    TCC_CUDA_TRY(cuda, d, event_record, i->done, a.r->stream);
    return status;
}

void tcc__cuda_collectives_begin(tcc_cuda_collectives *c) { c->started = c->done = 0; }

/* For the items before `end`, of those that were started: the stream has them in order. */
static tcc_status wait_until(tcc_cuda_collectives *c, tcc_diag *d, int end) {
    tcc_device_cuda *cuda = c->cuda;
    if (end > c->started) end = c->started;
    if (end <= c->done) return TCC_OK;
    TCC_CUDA_TRY(cuda, d, stream_wait, cuda->compute, c->items[end - 1].done, 0);
    c->done = end;
    return TCC_OK;
}

tcc_status tcc__cuda_collectives_wait(tcc_cuda_collectives *c, tcc_diag *d, int step) {
    return wait_until(c, d, c->waits_for[step] + 1);
}

tcc_status tcc__cuda_collectives_join(tcc_cuda_collectives *c, tcc_diag *d) { return wait_until(c, d, c->started); }
