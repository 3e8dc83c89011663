/* SPDX-License-Identifier: MIT
 * Executables: what is the same on every device. */
#include "runtime/exec.h"
#include "runtime/program.h"

#include "ir/support/alloc.h"

#include <stdlib.h>
#include <string.h>

struct tcc_exec {
    tcc_device *device;
    const tcc_program *program;
    tcc_commands *commands;
    void *arena, *constants;
    bool owns_arena;
    void **bound; /* a binding's memory; NULL: none yet */
    int n_unbound;
    bool poison; /* before the next run, and all later ones */
    bool poison_later;
    bool profiling;
    tcc_step_profile *profile; /* n_steps; NULL until it was on */
    tcc_step_time *times;
};

static tcc_status create(tcc_exec *e, tcc_context *cx, const tcc_code_store *store) {
    const tcc_program *p = e->program;
    const tcc_device_ops *ops = e->device->ops;
    tcc_diag *d = &cx->diag;
    if (p->target != ops->target)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "program '%s' was not made for device '%s'", p->name,
                         ops->kind);
    TCC_TRY(tcc_program_check(d, p));
    e->bound = tcc__calloc((size_t)p->n_bindings, sizeof *e->bound);
    if (!e->bound) return tcc_enomem(d);
    for (int i = 0; i < p->n_bindings; i++) e->n_unbound += !p->bindings[i].idle;
    TCC_TRY(ops->prepare(e->device, cx, p, store, &e->commands));
    if (p->arena_bytes && e->owns_arena) {
        tcc_status s = ops->alloc(e->device, d, p->arena_bytes, &e->arena);
        if (s != TCC_OK) {
            tcc_note(d, TCC_NOWHERE, "for the arena of program '%s'", p->name);
            tcc_program_note_largest(d, p);
            return s;
        }
        ops->place(e->commands, TCC_SPACE_ARENA, 0, e->arena);
    }
    if (p->constants_bytes) {
        TCC_TRY(ops->alloc(e->device, d, p->constants_bytes, &e->constants));
        TCC_TRY(ops->upload(e->device, d, e->constants, p->constants, p->constants_bytes));
        ops->place(e->commands, TCC_SPACE_CONST, 0, e->constants);
    }
    return TCC_OK;
}

static tcc_status new_exec(tcc_context *cx, tcc_device *device, const tcc_program *program, const tcc_code_store *store,
                           bool owns_arena, tcc_exec **out) {
    *out = NULL;
    tcc_exec *e = tcc__calloc(1, sizeof *e);
    if (!e) return tcc_enomem(&cx->diag);
    e->device = device;
    e->program = program;
    e->owns_arena = owns_arena;
    const char *poison = getenv("TCC_POISON");
    e->poison_later = poison && !strcmp(poison, "1");
    e->poison = e->poison_later && device->ops->shares_host;
    tcc_status s = create(e, cx, store);
    if (s == TCC_OK) *out = e;
    else tcc_exec_destroy(e);
    return s;
}

tcc_status tcc_exec_create(tcc_context *cx, tcc_device *device, const tcc_program *program, tcc_exec **out) {
    return new_exec(cx, device, program, NULL, true, out);
}

tcc_status tcc_exec_create_without_arena(tcc_context *cx, tcc_device *device, const tcc_program *program,
                                         const tcc_code_store *store, tcc_exec **out) {
    return new_exec(cx, device, program, store, false, out);
}

static void free_arena(tcc_exec *e) {
    if (e->owns_arena) e->device->ops->free(e->device, e->arena, e->program->arena_bytes);
    e->owns_arena = false;
    e->arena = NULL;
}

tcc_status tcc_exec_set_arena(tcc_exec *e, tcc_diag *d, void *memory, int64_t size_bytes) {
    const int64_t needed = e->program->arena_bytes;
    if (memory && size_bytes < needed)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "program '%s' needs an arena of %lld bytes, got %lld",
                         e->program->name, (long long)needed, (long long)size_bytes);
    if (memory == e->arena || !needed) return TCC_OK;
    free_arena(e);
    e->arena = memory;
    if (memory) e->device->ops->place(e->commands, TCC_SPACE_ARENA, 0, memory);
    return TCC_OK;
}

void tcc_exec_destroy(tcc_exec *e) {
    if (!e) return;
    const tcc_device_ops *ops = e->device->ops;
    if (e->commands) ops->release(e->commands);
    free_arena(e);
    ops->free(e->device, e->constants, e->program->constants_bytes);
    tcc__free(e->bound);
    tcc__free(e->profile);
    tcc__free(e->times);
    tcc__free(e);
}

tcc_status tcc_exec_bind(tcc_exec *e, tcc_diag *d, int binding, void *memory, int64_t size_bytes) {
    const tcc_program *p = e->program;
    if (binding < 0 || binding >= p->n_bindings)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "program '%s' has no binding %d, it has %d", p->name, binding,
                         p->n_bindings);
    const tcc_binding *b = &p->bindings[binding];
    if (size_bytes < tcc_type_bytes(&b->type))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "binding '%s' is %s and needs %lld bytes, got %lld", b->name,
                         tcc_type_text(&b->type), (long long)tcc_type_bytes(&b->type), (long long)size_bytes);
    if (!memory || (uintptr_t)memory % (uintptr_t)tcc_dtype_bytes(b->type.dtype))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "binding '%s' is %s and cannot lie at address %p", b->name,
                         tcc_type_text(&b->type), memory);
    if (e->bound[binding] == memory) return TCC_OK;
    e->n_unbound -= !e->bound[binding] && !b->idle;
    e->bound[binding] = memory;
    e->device->ops->place(e->commands, TCC_SPACE_BINDING, binding, memory);
    return TCC_OK;
}

static tcc_status unbound(const tcc_exec *e, tcc_diag *d) {
    int first = 0;
    while (e->bound[first] || e->program->bindings[first].idle) first++;
    const tcc_binding *b = &e->program->bindings[first];
    return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "program '%s': binding '%s' (%s) has no memory%s", e->program->name,
                     b->name, tcc_type_text(&b->type), e->n_unbound > 1 ? ", nor have others" : "");
}

static void add_times(tcc_exec *e) {
    for (int i = 0; i < e->program->n_steps; i++) {
        tcc_step_profile *p = &e->profile[i];
        int64_t ns = e->times[i].end_ns - e->times[i].begin_ns;
        if (!p->runs || ns < p->min_ns) p->min_ns = ns;
        p->runs++;
        p->total_ns += ns;
        p->last = e->times[i];
    }
}

static tcc_status poison(tcc_exec *e, tcc_diag *d, void *memory, int64_t size_bytes) {
    enum { CHUNK = 4096 };
    unsigned char bytes[CHUNK];
    memset(bytes, 0xff, sizeof bytes);
    for (int64_t at = 0; at < size_bytes; at += CHUNK) {
        int64_t left = size_bytes - at;
        TCC_TRY(e->device->ops->upload(e->device, d, (char *)memory + at, bytes, left < CHUNK ? left : CHUNK));
    }
    return TCC_OK;
}

tcc_status tcc_exec_poison(tcc_exec *e, tcc_diag *d) {
    TCC_TRY(poison(e, d, e->arena, e->program->arena_bytes));
    for (int i = 0; i < e->program->n_bindings; i++)
        if (e->program->bindings[i].role == TCC_ROLE_OUTPUT && e->bound[i])
            TCC_TRY(poison(e, d, e->bound[i], tcc_type_bytes(&e->program->bindings[i].type)));
    return TCC_OK;
}

void tcc_exec_set_collectives(tcc_exec *e, const tcc_collectives *collectives) {
    if (e->device->ops->set_collectives) e->device->ops->set_collectives(e->commands, collectives);
}

tcc_status tcc_exec_run(tcc_exec *e, tcc_diag *d) {
    if (e->n_unbound) return unbound(e, d);
    if (!e->arena && e->program->arena_bytes)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "program '%s' has no arena", e->program->name);
    if (e->poison) TCC_TRY(tcc_exec_poison(e, d));
    e->poison = e->poison_later;
    TCC_TRY(e->device->ops->run(e->commands, d, e->profiling ? e->times : NULL));
    if (e->profiling) add_times(e);
    return TCC_OK;
}

tcc_status tcc_exec_set_replay(tcc_exec *e, tcc_diag *d, tcc_replay_mode mode) {
    if (e->device->ops->set_replay) e->device->ops->set_replay(e->commands, mode);
    else if (mode == TCC_REPLAY_REQUIRED)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "device '%s' has no graphs to replay", e->device->ops->kind);
    return TCC_OK;
}

void tcc_exec_get_replay(const tcc_exec *e, tcc_replay *out) {
    *out = (tcc_replay){0};
    if (e->device->ops->get_replay) e->device->ops->get_replay(e->commands, out);
}

int64_t tcc_exec_local_bytes(const tcc_exec *e) {
    return e->device->ops->local_bytes ? e->device->ops->local_bytes(e->commands) : 0;
}

tcc_status tcc_exec_arena_part(const tcc_exec *e, tcc_diag *d, int64_t offset_bytes, int64_t size_bytes,
                               const void **out) {
    if (offset_bytes < 0 || size_bytes < 0 || offset_bytes > e->program->arena_bytes - size_bytes)
        return TCC_BUG(d, "bytes %lld to %lld of an arena of %lld", (long long)offset_bytes,
                       (long long)(offset_bytes + size_bytes), (long long)e->program->arena_bytes);
    *out = (const char *)e->arena + offset_bytes;
    return TCC_OK;
}

const tcc_program *tcc_exec_get_program(const tcc_exec *e) { return e->program; }
static int threads_of(const tcc_exec *e) { return e->device->ops->threads ? e->device->ops->threads(e->device) : 0; }

tcc_status tcc_exec_set_profiling(tcc_exec *e, tcc_diag *d, bool on) {
    size_t n = (size_t)e->program->n_steps;
    if (on && !e->profile) e->profile = tcc__calloc(n, sizeof *e->profile);
    if (on && !e->times) e->times = tcc__calloc(n * (size_t)(1 + threads_of(e)), sizeof *e->times);
    if (on && (!e->profile || !e->times)) return tcc_enomem(d);
    if (on) memset(e->profile, 0, n * sizeof *e->profile);
    e->profiling = on;
    return TCC_OK;
}

const tcc_step_profile *tcc_exec_get_profile(const tcc_exec *e) { return e->profile; }

const tcc_step_time *tcc_exec_get_threads(const tcc_exec *e, int *threads) {
    *threads = threads_of(e);
    return e->times && *threads ? e->times + e->program->n_steps : NULL;
}
