/* SPDX-License-Identifier: MIT
 * A program on the CPU: a list of calls whose pointers stand ready, so that a run looks nothing up and allocates
 * nothing. */
#include "ir/support/clock.h"
#include "runtime/cpu/access.h"
#include "runtime/cpu/device.h"
#include "runtime/cpu/object.h"
#include "runtime/places.h"
#include "runtime/program.h"

#include "ir/support/alloc.h"
#include "ir/support/cpu.h"

#include <stdio.h>
#include <string.h>

enum { COPY_ITEM_BYTES = 4096, COPY_GRAIN = 32 /* items: below 128 KiB one thread copies faster */ };

typedef struct instance {
    int64_t first; /* item of the step at which this instance begins */
    void **buffers;
    const int64_t *params;
} instance;

typedef struct command {
    tcc_step_kind kind;
    tcc_pool *pool;
    /* kernel */
    tcc_host_kernel kernel;
    int n_instances;
    instance *instances; /* n_instances + 1: the last holds the end */
    int64_t items, grain;
    tcc_accesses *accesses; /* NULL: they are not checked */
    int step;
    /* copy: to, from; collective: from, to */
    void **buffers;
    int64_t copy_bytes;
    tcc_call call;
    const int64_t *params;
    bool blocks;     /* a collective that the next command waits for */
    int64_t request; /* that it was started as in this run */
    int waits_for;   /* the last collective before it whose memory it touches; -1: none */
} command;

struct tcc_commands {
    tcc_arena memory;
    const tcc_program *program;
    tcc_device_cpu *device;
    tcc_host_object **objects; /* of the modules */
    tcc_accesses *accesses;    /* NULL: no module has checked ones */
    command *commands;
    int n_commands; /* that were made; fewer than steps after a failure */
    tcc_places *places;
    const tcc_collectives *collectives; /* NULL: there are none */
    int started, done;                  /* of a run: steps of the last collective that was started, and that is done */
};

/* --- making --- */

/* A command that touches the memory of a collective before it waits until that is done. */
static tcc_status find_waits(tcc_commands *c, tcc_diag *d) {
    const int count = c->program->n_steps;
    int *waits_for = TCC_ARENA_ARRAY(&c->memory, int, count);
    if (!waits_for) return tcc_enomem(d);
    tcc_program_find_waits(c->program, waits_for);
    for (int i = 0; i < count; i++) {
        c->commands[i].waits_for = waits_for[i];
        c->commands[i].blocks = c->accesses || i + 1 == count || waits_for[i + 1] == i;
    }
    return TCC_OK;
}

static void *place_of(void *user, int step, int n, int buffer) {
    const command *m = &((const tcc_commands *)user)->commands[step];
    return m->kind == TCC_STEP_KERNEL ? &m->instances[n].buffers[buffer] : &m->buffers[buffer];
}

static tcc_status make_kernel(tcc_commands *c, tcc_diag *d, const tcc_step *s, command *m) {
    const tcc_kernel *k = &c->program->kernels[s->kernel];
    m->kernel = tcc_host_object_kernel(c->objects[k->module], k->symbol);
    if (!m->kernel)
        return tcc_error(d, TCC_ENOTFOUND, TCC_NOWHERE, "module %d has no kernel '%s'", k->module, k->symbol);
    m->grain = s->grain < 1 ? 1 : s->grain;
    m->n_instances = s->n_instances;
    m->instances = TCC_ARENA_ARRAY(&c->memory, instance, s->n_instances + 1);
    if (!m->instances) return tcc_enomem(d);
    for (int n = 0; n < s->n_instances; n++) {
        instance *i = &m->instances[n];
        i->first = m->items;
        i->params = s->instances[n].params;
        void **table = TCC_ARENA_ARRAY(&c->memory, void *, 1 + k->n_buffers);
        if (!table) return tcc_enomem(d);
        table[0] = c->accesses ? tcc_accesses_function() : NULL; /* for a checked kernel to find */
        i->buffers = table + 1;
        m->items += s->instances[n].items;
    }
    m->instances[s->n_instances].first = m->items;
    return TCC_OK;
}

static tcc_status make_collective(tcc_commands *c, tcc_diag *d, const tcc_library_call *call, command *m) {
    m->call = tcc_call_find(call->name);
    m->params = call->params;
    if (!tcc_call_is_collective(m->call))
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "'%s': no such library entry on the CPU", call->name);
    const tcc_collective_params *p = (const tcc_collective_params *)m->params;
    const int64_t part = p->count * tcc_dtype_bytes((tcc_dtype)p->type), whole = p->ranks * part;
    if (call->buffers[0].size_bytes < (m->call == TCC_CALL_REDUCE_SCATTER ? whole : part) ||
        call->buffers[1].size_bytes < (m->call == TCC_CALL_ALL_GATHER ? whole : part))
        return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "'%s': its buffers are smaller than its params say", call->name);
    m->buffers = TCC_ARENA_ARRAY(&c->memory, void *, call->n_buffers);
    return m->buffers ? TCC_OK : tcc_enomem(d);
}

static tcc_status make_command(tcc_commands *c, tcc_diag *d, const tcc_step *s, command *m) {
    m->kind = s->kind;
    m->pool = c->device->pool;
    m->accesses = c->accesses;
    m->step = c->n_commands;
    if (s->kind == TCC_STEP_KERNEL) return make_kernel(c, d, s, m);
    if (s->kind == TCC_STEP_LIBRARY) return make_collective(c, d, s->call, m);
    m->copy_bytes = s->to.size_bytes;
    m->buffers = TCC_ARENA_ARRAY(&c->memory, void *, 2);
    return m->buffers ? TCC_OK : tcc_enomem(d);
}

/* The sets of instructions that the program was made with are there. */
static tcc_status check_cpu(const tcc_program *p, tcc_diag *d) {
    const char *lacking = p->cpu ? tcc_cpu_lacks(p->cpu) : NULL, *level;
    if (!lacking) return TCC_OK;
    TCC_TRY(tcc_cpu_wanted(d, &level));
    return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE,
                     "program '%s' was made for %.*s, a CPU with %.*s, which %s%s lacks", p->name,
                     (int)strcspn(p->cpu, ","), p->cpu, (int)strcspn(lacking, ","), lacking, level ? level : "this one",
                     level ? " (TCC_CPU)" : "");
}

static tcc_status make(tcc_commands *c, tcc_diag *d) {
    const tcc_program *p = c->program;
    TCC_TRY(check_cpu(p, d));
    c->objects = TCC_ARENA_ARRAY(&c->memory, tcc_host_object *, p->n_modules);
    c->commands = TCC_ARENA_ARRAY(&c->memory, command, p->n_steps);
    if (!c->objects || !c->commands) return tcc_enomem(d);
    for (int i = 0; i < p->n_modules; i++) {
        char name[32];
        snprintf(name, sizeof name, "module %d", i);
        TCC_TRY(tcc_host_object_load(d, name, p->modules[i].code, p->modules[i].size_bytes, &c->objects[i]));
        if (!c->accesses && tcc_host_object_kernel(c->objects[i], TCC_CHECKED_MODULE))
            TCC_TRY(tcc_accesses_make(&c->memory, d, p, &c->accesses));
    }
    for (; c->n_commands < p->n_steps; c->n_commands++) {
        tcc_status s = make_command(c, d, &p->steps[c->n_commands], &c->commands[c->n_commands]);
        if (s != TCC_OK) {
            tcc_program_note_step(d, p, c->n_commands);
            return s;
        }
    }
    TCC_TRY(find_waits(c, d));
    int64_t scratch_bytes = 0;
    for (int i = 0; i < p->n_kernels; i++)
        if (p->kernels[i].scratch_bytes > scratch_bytes) scratch_bytes = p->kernels[i].scratch_bytes;
    if (scratch_bytes) TCC_TRY(tcc_pool_reserve(c->device->pool, d, scratch_bytes));
    return tcc_places_make(&c->memory, d, p, place_of, c, &c->places);
}

tcc_status tcc__commands_cpu_prepare(tcc_device *device, tcc_context *cx, const tcc_program *program,
                                     const tcc_code_store *store, tcc_commands **out) {
    (void)store; /* host code comes as machine code */
    *out = NULL;
    tcc_commands *c = tcc__calloc(1, sizeof *c);
    if (!c) return tcc_enomem(&cx->diag);
    c->device = (tcc_device_cpu *)device;
    c->program = program;
    tcc_status s = make(c, &cx->diag);
    if (s == TCC_OK) *out = c;
    else tcc__commands_cpu_release(c);
    return s;
}

void tcc__commands_cpu_release(tcc_commands *c) {
    if (!c) return;
    for (int i = 0; c->objects && i < c->program->n_modules; i++) tcc_host_object_destroy(c->objects[i]);
    tcc_arena_free(&c->memory);
    tcc__free(c);
}

void tcc__commands_cpu_place(tcc_commands *c, tcc_space space, int binding, void *base) {
    tcc_places_set(c->places, space, binding, base);
}

void tcc__commands_cpu_set_collectives(tcc_commands *c, const tcc_collectives *collectives) {
    c->collectives = collectives;
}

/* --- running --- */

static void run_kernel(void *user, int worker, int64_t begin, int64_t end) {
    const command *m = user;
    void *scratch = tcc_pool_scratch(m->pool, worker);
    int low = 0, high = m->n_instances; /* the instance of `begin` is in [low, high) */
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (m->instances[middle].first <= begin) low = middle;
        else high = middle;
    }
    for (; begin < end; low++) {
        const instance *i = &m->instances[low];
        int64_t stop = i[1].first < end ? i[1].first : end;
        if (begin < stop && m->accesses)
            tcc_accesses_run(m->accesses, m->kernel, m->step, low, i->buffers, begin - i->first, stop - i->first,
                             scratch);
        else if (begin < stop) m->kernel(i->buffers, i->params, begin - i->first, stop - i->first, scratch);
        begin = stop;
    }
}

static void run_copy(void *user, int worker, int64_t begin, int64_t end) {
    (void)worker;
    const command *m = user;
    int64_t from = begin * COPY_ITEM_BYTES, to = end * COPY_ITEM_BYTES;
    if (to > m->copy_bytes) to = m->copy_bytes;
    memcpy((char *)m->buffers[0] + from, (const char *)m->buffers[1] + from, (size_t)(to - from));
}

/* A task of the pool, watched. */
typedef struct watch {
    tcc_pool_task task;
    void *user;
    int64_t start;
    tcc_step_time *threads;
} watch;

static void run_watched(void *user, int worker, int64_t begin, int64_t end) {
    const watch *w = user;
    tcc_step_time *t = &w->threads[worker];
    if (!t->end_ns) t->begin_ns = tcc_clock_ns() - w->start;
    w->task(w->user, worker, begin, end);
    t->end_ns = tcc_clock_ns() - w->start;
}

/* `threads`: of the step, to be filled; NULL: nobody asks. */
static void run_on_pool(command *m, tcc_pool_task task, int64_t items, int64_t grain, int64_t start,
                        tcc_step_time *threads) {
    watch w = {task, m, start, threads};
    if (threads) memset(threads, 0, sizeof *threads * (size_t)tcc_pool_threads(m->pool));
    if (threads) tcc_pool_run(m->pool, run_watched, &w, items, grain);
    else tcc_pool_run(m->pool, task, m, items, grain);
}

static tcc_status run_collective(tcc_commands *c, command *m, tcc_diag *d) {
    const tcc_collectives *by = c->collectives;
    if (!by)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "'%s': the program was made for several ranks, and here is no communicator",
                         tcc_call_get_info(m->call)->name);
    if (m->accesses) tcc_accesses_call(m->accesses, m->step);
    TCC_TRY(by->start(by->user, d, m->call, (const tcc_collective_params *)m->params, m->buffers[0], m->buffers[1],
                      m->blocks ? NULL : &m->request));
    if (m->blocks) c->done = m->step;
    else c->started = m->step;
    return TCC_OK;
}

/* For the collective of that step, and those before it. */
static tcc_status wait_for(tcc_commands *c, tcc_diag *d, int step) {
    if (step <= c->done) return TCC_OK;
    TCC_TRY(c->collectives->wait(c->collectives->user, d, c->commands[step].request));
    c->done = step;
    return TCC_OK;
}

static tcc_status run_command(tcc_commands *c, command *m, tcc_diag *d, int64_t start, tcc_step_time *threads) {
    TCC_TRY(wait_for(c, d, m->waits_for));
    switch (m->kind) {
    case TCC_STEP_KERNEL: run_on_pool(m, run_kernel, m->items, m->grain, start, threads); return TCC_OK;
    case TCC_STEP_LIBRARY:
        if (threads) memset(threads, 0, sizeof *threads * (size_t)tcc_pool_threads(m->pool));
        return run_collective(c, m, d);
    case TCC_STEP_COPY:
        if (m->accesses) tcc_accesses_copy(m->accesses, m->step);
        run_on_pool(m, run_copy, (m->copy_bytes + COPY_ITEM_BYTES - 1) / COPY_ITEM_BYTES, COPY_GRAIN, start, threads);
        return TCC_OK;
    }
    return TCC_BUG(d, "step kind %d", (int)m->kind);
}

tcc_status tcc__commands_cpu_run(tcc_commands *c, tcc_diag *d, tcc_step_time *times) {
    tcc_status s = TCC_OK;
    tcc_pool_lock(c->device->pool);
    c->started = c->done = -1;
    if (c->accesses) tcc_accesses_begin(c->accesses);
    const int64_t start = times ? tcc_clock_ns() : 0;
    const int n_threads = tcc_pool_threads(c->device->pool);
    tcc_step_time *threads = times ? times + c->n_commands : NULL;
    int last = 0;
    for (int i = 0; i < c->n_commands && s == TCC_OK; i++) {
        last = i;
        if (times) times[i].begin_ns = tcc_clock_ns() - start;
        s = run_command(c, &c->commands[i], d, start, threads ? threads + i * n_threads : NULL);
        if (c->accesses && s == TCC_OK) s = tcc_accesses_judge(c->accesses, d);
        if (times) times[i].end_ns = tcc_clock_ns() - start;
    }
    const tcc_status rest = wait_for(c, d, c->started); /* the run's memory is the caller's again */
    if (s == TCC_OK) s = rest;
    if (s != TCC_OK) tcc_program_note_step(d, c->program, last);
    tcc_pool_unlock(c->device->pool);
    return s;
}
