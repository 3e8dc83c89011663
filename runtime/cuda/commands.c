/* SPDX-License-Identifier: MIT
 * A program on a CUDA device: modules loaded, kernels found, and each step a launch, library call or copy whose
 * parameters stand ready. A run hands them to the driver one after the other and returns; it looks nothing up,
 * allocates nothing, and waits for nothing. */
#include "runtime/cuda/collectives.h"
#include "runtime/cuda/commands.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/module.h"
#include "runtime/cuda/ranks.h"
#include "runtime/cuda/replay.h"
#include "runtime/cuda/staging.h"
#include "runtime/places.h"
#include "runtime/program.h"

#include "ir/support/alloc.h"

#include <string.h>

enum {
    WAVES = 8, /* blocks of a launch: at most so many times what the device holds at once; a block then takes several
                  items */
    TABLE_ALIGNMENT = 8 /* integers */
};

typedef struct kernel {
    tcc_cuda_function function;
    int64_t most_blocks;
} kernel;

typedef struct launch {
    unsigned grid; /* 0: nothing to do */
    int64_t *values;
    void **parameters; /* one pointer a value, as cuLaunchKernel takes them */
} launch;

typedef struct command {
    tcc_step_kind kind;
    /* kernel */
    const kernel *kernel;
    unsigned threads, shared_bytes;
    int n_launches; /* one, or where a kernel takes no tables, one an instance */
    launch *launches;
    int64_t *rows; /* of a table; NULL: none */
    int row_integers;
    /* library */
    const tcc_cuda_entry *entry; /* NULL: a collective */
    void *call;                  /* the device's */
    tcc_cuda_address *buffers;
    /* copy: to, from */
    tcc_cuda_address copy[2];
    size_t copy_bytes;
} command;

struct tcc_commands {
    tcc_arena memory;
    const tcc_program *program;
    tcc_device_cuda *device;
    tcc_cuda_module *modules; /* NULL: not loaded */
    kernel *kernels;
    int local_bytes; /* the most of a kernel */
    command *commands;
    tcc_places *places;
    int64_t *tables; /* of all steps; a copy is on the device */
    int64_t table_integers;
    tcc_cuda_address tables_on_device;
    bool tables_moved;                 /* the device's copy is old */
    tcc_cuda_event *times;             /* n_steps + 1; NULL until a run was timed */
    tcc_cuda_collectives *collectives; /* NULL: there are none */
    tcc_replay_mode mode;
    tcc_cuda_replay *replay; /* NULL until a run needs it */
};

/* --- making --- */

static tcc_status find_kernel(tcc_commands *c, tcc_diag *d, const tcc_kernel *k, kernel *out) {
    tcc_device_cuda *cuda = c->device;
    int blocks = 0, local_bytes = 0;
    const int64_t most = cuda->base.hw.shared_optin_bytes;
    if (most && k->scratch_bytes > most)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE,
                         "kernel '%s' needs %lld bytes of shared memory a block, cuda:%d (%s) has %lld", k->symbol,
                         (long long)k->scratch_bytes, cuda->ordinal, cuda->name, (long long)most);
    tcc_cuda_result r = cuda->cu.module_function(&out->function, c->modules[k->module], k->symbol);
    if (r == TCC_CUDA_NOT_FOUND)
        return tcc_error(d, TCC_ENOTFOUND, TCC_NOWHERE, "module %d has no kernel '%s'", k->module, k->symbol);
    if (r) return tcc__cuda_failed(cuda, d, r, tcc__cuda_symbol_module_function);
    TCC_CUDA_TRY(cuda, d, function_get, &local_bytes, TCC_CUDA_FUNCTION_LOCAL_BYTES, out->function);
    if (local_bytes > c->local_bytes) c->local_bytes = local_bytes;
    if (k->scratch_bytes)
        TCC_CUDA_TRY(cuda, d, function_set, out->function, TCC_CUDA_FUNCTION_MAX_DYNAMIC_SHARED_BYTES,
                     (int)k->scratch_bytes);
    TCC_CUDA_TRY(cuda, d, occupancy, &blocks, out->function, k->threads, (size_t)k->scratch_bytes);
    if (!blocks)
        return tcc_error(
            d, TCC_EUNSUPPORTED, TCC_NOWHERE,
            "kernel '%s': a block of %d threads with %lld bytes of shared memory does not fit on cuda:%d (%s)",
            k->symbol, k->threads, (long long)k->scratch_bytes, cuda->ordinal, cuda->name);
    out->most_blocks = (int64_t)WAVES * blocks * cuda->base.hw.processors;
    return TCC_OK;
}

static bool uses_table(const tcc_program *p, const tcc_step *s) {
    return s->n_instances > 1 && p->kernels[s->kernel].table;
}

static int64_t blocks_of(const tcc_kernel *k, int64_t items) {
    return items / k->items_a_block + (items % k->items_a_block > 0);
}

static int row_integers(const tcc_kernel *k) { return 2 + k->n_buffers + k->n_params; }

static int64_t table_integers(const tcc_program *p, const tcc_step *s) {
    int64_t integers = (s->n_instances + INT64_C(1)) * row_integers(&p->kernels[s->kernel]);
    return (integers + TABLE_ALIGNMENT - 1) / TABLE_ALIGNMENT * TABLE_ALIGNMENT;
}

static tcc_status make_tables(tcc_commands *c, tcc_diag *d) {
    const tcc_program *p = c->program;
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].kind == TCC_STEP_KERNEL && uses_table(p, &p->steps[i]))
            c->table_integers += table_integers(p, &p->steps[i]);
    if (!c->table_integers) return TCC_OK;
    c->tables = TCC_ARENA_ARRAY(&c->memory, int64_t, c->table_integers);
    if (!c->tables) return tcc_enomem(d);
    return tcc__cuda_alloc(c->device, d, c->table_integers * (int64_t)sizeof(int64_t),
                           "the tables of steps with many instances", &c->tables_on_device);
}

static tcc_status make_launch(tcc_commands *c, tcc_diag *d, launch *l, int n_values, int64_t blocks, int64_t most) {
    l->grid = (unsigned)(blocks < most ? blocks : most);
    l->values = TCC_ARENA_ARRAY(&c->memory, int64_t, n_values);
    l->parameters = TCC_ARENA_ARRAY(&c->memory, void *, n_values);
    if (!l->values || !l->parameters) return tcc_enomem(d);
    for (int i = 0; i < n_values; i++) l->parameters[i] = &l->values[i];
    return TCC_OK;
}

/* A launch of its own for each instance. */
static tcc_status make_launches(tcc_commands *c, tcc_diag *d, const tcc_step *s, command *m) {
    const tcc_kernel *k = &c->program->kernels[s->kernel];
    for (int n = 0; n < s->n_instances; n++) {
        const tcc_instance *i = &s->instances[n];
        launch *l = &m->launches[n];
        TCC_TRY(make_launch(c, d, l, k->n_buffers + k->n_params + 1, blocks_of(k, i->items), m->kernel->most_blocks));
        if (k->n_params) memcpy(l->values + k->n_buffers, i->params, (size_t)k->n_params * sizeof *i->params);
        l->values[k->n_buffers + k->n_params] = i->items;
    }
    return TCC_OK;
}

/* One launch with a row an instance; codegen/program.h says what a row is. `at`: where in the tables, moved on. */
static tcc_status make_table_launch(tcc_commands *c, tcc_diag *d, const tcc_step *s, command *m, int64_t *at) {
    const tcc_kernel *k = &c->program->kernels[s->kernel];
    int64_t blocks = 0;
    m->rows = c->tables + *at;
    m->row_integers = row_integers(k);
    for (int n = 0; n < s->n_instances; n++) {
        int64_t *row = m->rows + (int64_t)n * m->row_integers;
        row[0] = blocks;
        row[1] = s->instances[n].items;
        if (k->n_params) memcpy(row + 2 + k->n_buffers, s->instances[n].params, (size_t)k->n_params * sizeof *row);
        blocks += blocks_of(k, s->instances[n].items);
    }
    m->rows[(int64_t)s->n_instances * m->row_integers] = blocks;
    if (blocks > INT32_MAX)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "a launch of %lld blocks", (long long)blocks);
    TCC_TRY(make_launch(c, d, &m->launches[0], 2, blocks, blocks));
    m->launches[0].values[0] = (int64_t)(c->tables_on_device + (uint64_t)*at * sizeof(int64_t));
    m->launches[0].values[1] = s->n_instances;
    *at += table_integers(c->program, s);
    return TCC_OK;
}

static tcc_status make_library(tcc_commands *c, tcc_diag *d, const tcc_step *s, command *m) {
    const tcc_library_call *call = s->call;
    const tcc_cuda_entry *entry = tcc__cuda_entry_find(call->name);
    const bool is_collective = tcc_call_is_collective(tcc_call_find(call->name));
    if (!entry && !is_collective)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "'%s': no such library entry on CUDA devices", call->name);
    m->buffers = TCC_ARENA_ARRAY(&c->memory, tcc_cuda_address, call->n_buffers + 1);
    int64_t *params = tcc_arena_copy(&c->memory, call->params, (size_t)call->n_params * sizeof *params);
    if (!m->buffers || !params) return tcc_enomem(d);
    if (is_collective) return TCC_OK;
    m->entry = entry;
    return tcc__cuda_call(c->device, d, entry, params, &m->call);
}

static tcc_status make_command(tcc_commands *c, tcc_diag *d, const tcc_step *s, command *m, int64_t *table_at) {
    m->kind = s->kind;
    if (s->kind == TCC_STEP_LIBRARY) return make_library(c, d, s, m);
    if (s->kind == TCC_STEP_COPY) {
        m->copy_bytes = (size_t)s->to.size_bytes;
        return TCC_OK;
    }
    const tcc_kernel *k = &c->program->kernels[s->kernel];
    bool table = uses_table(c->program, s);
    m->kernel = table ? &c->kernels[c->program->n_kernels + s->kernel] : &c->kernels[s->kernel];
    m->threads = (unsigned)k->threads;
    m->shared_bytes = (unsigned)k->scratch_bytes;
    m->n_launches = table ? 1 : s->n_instances;
    m->launches = TCC_ARENA_ARRAY(&c->memory, launch, m->n_launches + 1);
    if (!m->launches) return tcc_enomem(d);
    return table ? make_table_launch(c, d, s, m, table_at) : make_launches(c, d, s, m);
}

static void *place_of(void *user, int step, int instance, int buffer) {
    command *m = &((tcc_commands *)user)->commands[step];
    if (m->kind == TCC_STEP_COPY) return &m->copy[buffer];
    if (m->kind == TCC_STEP_LIBRARY) return &m->buffers[buffer];
    if (m->rows) return &m->rows[(int64_t)instance * m->row_integers + 2 + buffer];
    return &m->launches[instance].values[buffer];
}

/* "sm_90a" -> 90; whatever follows the number ties code to exactly that architecture. */
static tcc_status check_arch(const tcc_commands *c, tcc_diag *d) {
    const char *arch = c->program->cpu ? c->program->cpu : "";
    int sm = 0;
    const char *p = strncmp(arch, "sm_", 3) ? "" : arch + 3;
    for (; *p >= '0' && *p <= '9' && sm < 10000; p++) sm = 10 * sm + (*p - '0');
    if (sm && (*p ? sm == c->device->base.hw.sm : sm <= c->device->base.hw.sm)) return TCC_OK;
    return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "program '%s' was made for %s, cuda:%d (%s) is %s",
                     c->program->name, *arch ? arch : "no architecture", c->device->ordinal, c->device->name,
                     c->device->arch);
}

/* What is fed to a run. */
static int64_t fed_bytes(const tcc_program *p) {
    int64_t bytes = 0;
    for (int i = 0; i < p->n_bindings; i++) {
        tcc_role role = p->bindings[i].role;
        if (role == TCC_ROLE_BATCH || role == TCC_ROLE_HYPER || role == TCC_ROLE_RNG)
            bytes += tcc_feed_room(tcc_type_bytes(&p->bindings[i].type));
    }
    return bytes;
}

static tcc_status find_kernels(tcc_commands *c, tcc_diag *d) {
    const tcc_program *p = c->program;
    c->kernels = TCC_ARENA_ARRAY(&c->memory, kernel,
                                 2 * p->n_kernels + 1); /* the second half: the entries for tables */
    if (!c->kernels) return tcc_enomem(d);
    for (int i = 0; i < p->n_kernels; i++) {
        TCC_TRY(find_kernel(c, d, &p->kernels[i], &c->kernels[i]));
        if (!p->kernels[i].table) continue;
        tcc_kernel table = p->kernels[i];
        table.symbol = tcc_arena_printf(&c->memory, "%s_table", table.symbol);
        if (!table.symbol) return tcc_enomem(d);
        TCC_TRY(find_kernel(c, d, &table, &c->kernels[p->n_kernels + i]));
    }
    return TCC_OK;
}

static tcc_status make(tcc_commands *c, tcc_diag *d, const tcc_code_store *store) {
    const tcc_program *p = c->program;
    int64_t table_at = 0;
    TCC_TRY(check_arch(c, d));
    c->modules = TCC_ARENA_ARRAY(&c->memory, tcc_cuda_module, p->n_modules + 1);
    c->commands = TCC_ARENA_ARRAY(&c->memory, command, p->n_steps + 1);
    if (!c->modules || !c->commands) return tcc_enomem(d);
    TCC_TRY(tcc__cuda_modules_load(c->device, d, p, store, c->modules));
    TCC_TRY(find_kernels(c, d));
    TCC_TRY(make_tables(c, d));
    for (int i = 0; i < p->n_steps; i++) {
        tcc_status s = make_command(c, d, &p->steps[i], &c->commands[i], &table_at);
        if (s == TCC_OK) continue;
        tcc_program_note_step(d, p, i);
        return s;
    }
    TCC_TRY(tcc__cuda_collectives_create(c->device, d, p, &c->collectives));
    TCC_TRY(tcc__cuda_staging_reserve(c->device, d, fed_bytes(p)));
    return tcc_places_make(&c->memory, d, p, place_of, c, &c->places);
}

tcc_status tcc__commands_cuda_prepare(tcc_device *device, tcc_context *cx, const tcc_program *program,
                                      const tcc_code_store *store, tcc_commands **out) {
    *out = NULL;
    tcc_commands *c = tcc__calloc(1, sizeof *c);
    if (!c) return tcc_enomem(&cx->diag);
    c->device = (tcc_device_cuda *)device;
    c->program = program;
    tcc_status s = tcc__cuda_enter(c->device, &cx->diag);
    if (s == TCC_OK) {
        s = make(c, &cx->diag, store);
        tcc__cuda_leave(c->device);
    }
    if (s == TCC_OK) *out = c;
    else tcc__commands_cuda_release(c);
    return s;
}

static void release_on_device(tcc_commands *c) {
    tcc_device_cuda *cuda = c->device;
    if (!tcc__cuda_enter_to_free(cuda)) return;
    cuda->cu.stream_synchronize(cuda->compute); /* a module must not go while its kernels run */
    for (int i = 0; c->times && i <= c->program->n_steps; i++)
        if (c->times[i]) cuda->cu.event_destroy(c->times[i]);
    tcc__cuda_replay_drop(c->replay);
    tcc__cuda_collectives_drop(c->collectives);
    if (c->tables_on_device) cuda->cu.free(c->tables_on_device);
    for (int i = 0; c->modules && i < c->program->n_modules; i++)
        if (c->modules[i]) cuda->cu.module_unload(c->modules[i]);
    tcc__cuda_leave(cuda);
}

void tcc__commands_cuda_release(tcc_commands *c) {
    if (!c) return;
    release_on_device(c);
    tcc__cuda_replay_destroy(c->replay);
    tcc__cuda_collectives_destroy(c->collectives);
    tcc_arena_free(&c->memory);
    tcc__free(c);
}

void tcc__commands_cuda_place(tcc_commands *c, tcc_space space, int binding, void *base) {
    tcc_places_set(c->places, space, binding, base);
    c->tables_moved |= c->tables &&
                       tcc_places_reach(c->places, space, binding, c->tables, c->tables + c->table_integers);
    if (c->replay) tcc__cuda_replay_outdate(c->replay);
}

void tcc__commands_cuda_set_collectives(tcc_commands *c, const tcc_collectives *by) {
    if (c->collectives) tcc__cuda_collectives_set(c->collectives, by);
}

/* --- running --- */

/* What is true only after a step was waited for: who failed. */
static tcc_status step_failed(tcc_commands *c, tcc_diag *d, int step, tcc_cuda_result r) {
    const tcc_step *s = &c->program->steps[step];
    const tcc_kernel *k = s->kind == TCC_STEP_KERNEL ? &c->program->kernels[s->kernel] : NULL;
    tcc_strbuf call = {0};
    if (k) tcc_strbuf_printf(&call, "kernel '%s%s'", k->symbol, c->commands[step].rows ? "_table" : "");
    else tcc_strbuf_add(&call, s->kind == TCC_STEP_LIBRARY ? s->call->name : "copy");
    tcc_status status = tcc__cuda_failed(c->device, d, r, call.text ? call.text : "a step");
    tcc_strbuf_free(&call);
    tcc_program_note_step(d, c->program, step);
    if (k) tcc__cuda_module_save(d, c->program, k->module);
    return status;
}

static tcc_status run_step(tcc_commands *c, tcc_diag *d, const command *m) {
    tcc_device_cuda *cuda = c->device;
    const int step = (int)(m - c->commands);
    if (c->collectives) TCC_TRY(tcc__cuda_collectives_wait(c->collectives, d, step));
    if (m->kind == TCC_STEP_LIBRARY && !m->entry)
        return tcc__cuda_collectives_start(c->collectives, d, step, m->buffers[0], m->buffers[1]);
    if (m->kind == TCC_STEP_LIBRARY) return m->entry->run(m->call, d, m->buffers);
    if (m->kind == TCC_STEP_COPY && m->copy_bytes)
        TCC_CUDA_TRY(cuda, d, copy, m->copy[0], m->copy[1], m->copy_bytes, cuda->compute);
    for (int i = 0; i < m->n_launches; i++) {
        const launch *l = &m->launches[i];
        if (l->grid)
            TCC_CUDA_TRY(cuda, d, launch, m->kernel->function, l->grid, 1, 1, m->threads, 1, 1, m->shared_bytes,
                         cuda->compute, l->parameters, NULL);
    }
    return TCC_OK;
}

static tcc_status put_step(void *user, tcc_diag *d, int step) {
    tcc_commands *c = user;
    tcc_device_cuda *cuda = c->device;
    tcc_status s = run_step(c, d, &c->commands[step]);
    if (s != TCC_OK) {
        tcc_program_note_step(d, c->program, step);
        return s;
    }
    tcc_cuda_result r = cuda->blocking ? cuda->cu.stream_synchronize(cuda->compute) : 0;
    return r ? step_failed(c, d, step, r) : TCC_OK;
}

static void begin_steps(void *user) {
    tcc_commands *c = user;
    if (c->collectives) tcc__cuda_collectives_begin(c->collectives);
}

static tcc_status end_steps(void *user, tcc_diag *d) {
    tcc_commands *c = user;
    return c->collectives ? tcc__cuda_collectives_join(c->collectives, d) : TCC_OK;
}

static int count_launches(const void *user, int step) {
    const command *m = &((const tcc_commands *)user)->commands[step];
    int n = m->kind == TCC_STEP_LIBRARY || (m->kind == TCC_STEP_COPY && m->copy_bytes);
    for (int i = 0; i < m->n_launches; i++) n += m->launches[i].grid != 0;
    return n;
}

static tcc_status run_steps(tcc_commands *c, tcc_diag *d, bool timed) {
    begin_steps(c);
    for (int i = 0; i < c->program->n_steps; i++) {
        if (timed) TCC_CUDA_TRY(c->device, d, event_record, c->times[i], c->device->compute);
        TCC_TRY(put_step(c, d, i));
    }
    TCC_TRY(end_steps(c, d));
    if (timed) TCC_CUDA_TRY(c->device, d, event_record, c->times[c->program->n_steps], c->device->compute);
    return TCC_OK;
}

/* Once for all runs until something is placed anew. */
static tcc_status upload_tables(tcc_commands *c, tcc_diag *d) {
    if (!c->tables_moved) return TCC_OK;
    TCC_CUDA_TRY(c->device, d, copy_to_device, c->tables_on_device, c->tables,
                 (size_t)c->table_integers * sizeof *c->tables, c->device->compute);
    c->tables_moved = false;
    return TCC_OK;
}

static tcc_status make_times(tcc_commands *c, tcc_diag *d) {
    if (!c->times) c->times = TCC_ARENA_ARRAY(&c->memory, tcc_cuda_event, c->program->n_steps + 1);
    if (!c->times) return tcc_enomem(d);
    for (int i = 0; i <= c->program->n_steps; i++)
        if (!c->times[i]) TCC_CUDA_TRY(c->device, d, event_create, &c->times[i], TCC_CUDA_EVENT_DEFAULT);
    return TCC_OK;
}

static tcc_status read_times(tcc_commands *c, tcc_diag *d, tcc_step_time *times) {
    TCC_TRY(tcc__cuda_wait_stream(c->device, d, c->device->compute));
    int64_t now = 0;
    for (int i = 0; i < c->program->n_steps; i++) {
        float milliseconds = 0;
        TCC_CUDA_TRY(c->device, d, event_elapsed, &milliseconds, c->times[i], c->times[i + 1]);
        times[i].begin_ns = now;
        times[i].end_ns = now += (int64_t)((double)milliseconds * 1e6);
    }
    return TCC_OK;
}

static tcc_status run_replay(tcc_commands *c, tcc_diag *d) {
    const tcc_cuda_steps steps = {.device = c->device,
                                  .program = c->program,
                                  .begin = begin_steps,
                                  .put = put_step,
                                  .end = end_steps,
                                  .count = count_launches,
                                  .user = c};
    if (!c->replay) TCC_TRY(tcc__cuda_replay_create(d, &steps, &c->replay));
    return tcc__cuda_replay_run(c->replay, d, c->mode,
                                c->collectives ? tcc__cuda_collectives_ranks(c->collectives) : NULL);
}

int64_t tcc__commands_cuda_local_bytes(const tcc_commands *c) { return c->local_bytes; }

void tcc__commands_cuda_set_replay(tcc_commands *c, tcc_replay_mode mode) { c->mode = mode; }

void tcc__commands_cuda_get_replay(const tcc_commands *c, tcc_replay *out) {
    if (c->replay) tcc__cuda_replay_get(c->replay, out);
}

tcc_status tcc__commands_cuda_run(tcc_commands *c, tcc_diag *d, tcc_step_time *times) {
    TCC_TRY(tcc__cuda_enter(c->device, d));
    tcc_status s = times ? make_times(c, d) : TCC_OK;
    if (s == TCC_OK) s = upload_tables(c, d);
    if (s == TCC_OK) s = c->mode && !times ? run_replay(c, d) : run_steps(c, d, times != NULL);
    if (s == TCC_OK && times) s = read_times(c, d, times);
    tcc__cuda_leave(c->device);
    return s;
}
