/* SPDX-License-Identifier: MIT
 * A byte of shadow memory for each byte of the arena and of the outputs says whether it was written. */
#include "runtime/cpu/access.h"

#include "ir/support/strbuf.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>

typedef enum mistake { OUTSIDE, NOT_WRITTEN, READ_ONLY } mistake;

/* The first wrong access. */
typedef struct found {
    mistake mistake;
    bool stores;
    int step, instance, buffer; /* -1: the scratch of a thread */
    int64_t offset, bytes;      /* in the buffer */
} found;

struct tcc_accesses {
    const tcc_program *program;
    unsigned char *arena, **outputs; /* shadows; outputs: by binding, NULL: it is none */
    atomic_bool any;
    found first;
};

/* A thread at work on an instance. */
typedef struct watch {
    tcc_accesses *a;
    const tcc_kernel *kernel;
    const tcc_buffer *is; /* the instance's buffers */
    void *const *at;
    const void *scratch;
    int step, instance;
    jmp_buf leave;
} watch;

static _Thread_local watch *watching;

tcc_status tcc_accesses_make(tcc_arena *memory, tcc_diag *d, const tcc_program *p, tcc_accesses **out) {
    tcc_accesses *a = *out = TCC_ARENA_NEW(memory, tcc_accesses);
    if (!a) return tcc_enomem(d);
    a->program = p;
    a->arena = TCC_ARENA_ARRAY(memory, unsigned char, p->arena_bytes + 1);
    a->outputs = TCC_ARENA_ARRAY(memory, unsigned char *, p->n_bindings + 1);
    if (!a->arena || !a->outputs) return tcc_enomem(d);
    for (int i = 0; i < p->n_bindings; i++) {
        if (p->bindings[i].role != TCC_ROLE_OUTPUT) continue;
        a->outputs[i] = TCC_ARENA_ARRAY(memory, unsigned char, tcc_type_bytes(&p->bindings[i].type) + 1);
        if (!a->outputs[i]) return tcc_enomem(d);
    }
    return TCC_OK;
}

void tcc_accesses_begin(tcc_accesses *a) {
    const tcc_program *p = a->program;
    memset(a->arena, 0, (size_t)p->arena_bytes);
    for (int i = 0; i < p->n_bindings; i++)
        if (a->outputs[i]) memset(a->outputs[i], 0, (size_t)tcc_type_bytes(&p->bindings[i].type));
    atomic_store(&a->any, false);
}

/* The shadow of a buffer; NULL: all of it is written. */
static unsigned char *shadow_of(const tcc_accesses *a, const tcc_buffer *b) {
    if (b->space == TCC_SPACE_ARENA) return a->arena + b->offset_bytes;
    if (b->space == TCC_SPACE_BINDING && a->outputs[b->binding]) return a->outputs[b->binding] + b->offset_bytes;
    return NULL;
}

static bool is_writable(const tcc_accesses *a, const tcc_buffer *b) {
    const tcc_binding *binding = b->space == TCC_SPACE_BINDING ? &a->program->bindings[b->binding] : NULL;
    return b->space == TCC_SPACE_ARENA || (binding && (binding->written || binding->role == TCC_ROLE_OUTPUT));
}

static void remember(tcc_accesses *a, const found *f) {
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&busy)) continue;
    if (!atomic_load(&a->any)) a->first = *f;
    atomic_store(&a->any, true);
    atomic_flag_clear(&busy);
}

/* An access of some bytes that lies in a buffer. */
static bool is_right(const tcc_accesses *a, const tcc_buffer *b, found *f) {
    unsigned char *shadow = shadow_of(a, b);
    if (f->stores && !is_writable(a, b)) {
        f->mistake = READ_ONLY;
        return false;
    }
    if (f->stores && shadow) memset(shadow + f->offset, 1, (size_t)f->bytes);
    if (f->stores || !shadow || !memchr(shadow + f->offset, 0, (size_t)f->bytes)) return true;
    f->mistake = NOT_WRITTEN;
    return false;
}

static bool may_be_in(int buffer, uint64_t buffers, int how) {
    return how & TCC_ACCESS_ANYWHERE || (buffer < 64 && buffers >> buffer & 1);
}

/* Finds the buffer among those that it may be in; else what is wrong is told of the first of them. */
static void check_bytes(watch *w, const char *address, int64_t bytes, uint64_t buffers, int how) {
    found f = {OUTSIDE, how & TCC_ACCESS_STORES, w->step, w->instance, -1, 0, bytes};
    if (how & (TCC_ACCESS_SCRATCH | TCC_ACCESS_ANYWHERE)) {
        f.offset = (int64_t)((uintptr_t)address - (uintptr_t)w->scratch);
        if (f.offset >= 0 && f.offset <= w->kernel->scratch_bytes - bytes) return;
    }
    for (int i = 0; i < w->kernel->n_buffers; i++) {
        if (!may_be_in(i, buffers, how)) continue;
        const int64_t offset = (int64_t)((uintptr_t)address - (uintptr_t)w->at[i]);
        const bool inside = offset >= 0 && offset <= w->is[i].size_bytes - bytes;
        if (f.buffer < 0 || inside) f.buffer = i, f.offset = offset;
        if (inside && is_right(w->a, &w->is[i], &f)) return;
        if (inside) break;
    }
    remember(w->a, &f);
    longjmp(w->leave, 1);
}

static void on_access(const void *address, int64_t lane_bytes, uint64_t lanes, uint64_t buffers, int32_t how) {
    watch *w = watching;
    for (int i = 0; lanes >> i; i++) {
        if (lanes >> i & 1) check_bytes(w, (const char *)address + i * lane_bytes, lane_bytes, buffers, how);
        if (i == 63) break;
    }
}

void *tcc_accesses_function(void) {
    const tcc_host_access function = on_access;
    void *pointer;
    memcpy(&pointer, &function, sizeof pointer);
    return pointer;
}

void tcc_accesses_run(tcc_accesses *a, tcc_host_kernel kernel, int step, int instance, void *const *buffers,
                      int64_t begin, int64_t end, void *scratch) {
    const tcc_step *s = &a->program->steps[step];
    const tcc_instance *is = &s->instances[instance];
    watch w = {.a = a,
               .kernel = &a->program->kernels[s->kernel],
               .is = is->buffers,
               .at = buffers,
               .scratch = scratch,
               .step = step,
               .instance = instance};
    watching = &w;
    if (!setjmp(w.leave)) kernel(buffers, is->params, begin, end, scratch);
    watching = NULL;
}

void tcc_accesses_copy(tcc_accesses *a, int step) {
    const tcc_step *s = &a->program->steps[step];
    found to = {.stores = true, .step = step, .buffer = 0, .bytes = s->to.size_bytes},
          from = {.step = step, .buffer = 1, .bytes = s->from.size_bytes};
    if (!is_right(a, &s->from, &from)) remember(a, &from);
    if (!is_right(a, &s->to, &to)) remember(a, &to);
}

/* Of a collective: from, to. */
void tcc_accesses_call(tcc_accesses *a, int step) {
    const tcc_buffer *b = a->program->steps[step].call->buffers;
    found from = {.step = step, .buffer = 0, .bytes = b[0].size_bytes},
          to = {.stores = true, .step = step, .buffer = 1, .bytes = b[1].size_bytes};
    if (!is_right(a, &b[0], &from)) remember(a, &from);
    if (!is_right(a, &b[1], &to)) remember(a, &to);
}

static void describe_buffer(const tcc_accesses *a, const found *f, tcc_strbuf *out) {
    const tcc_step *s = &a->program->steps[f->step];
    const bool copies = s->kind == TCC_STEP_COPY;
    if (f->buffer < 0) {
        tcc_strbuf_printf(out, "its scratch of %lld bytes", (long long)a->program->kernels[s->kernel].scratch_bytes);
        return;
    }
    const tcc_buffer *b = copies                        ? (f->buffer ? &s->from : &s->to)
                          : s->kind == TCC_STEP_LIBRARY ? &s->call->buffers[f->buffer]
                                                        : &s->instances[f->instance].buffers[f->buffer];
    tcc_strbuf_printf(out, "buffer %d", f->buffer);
    if (b->space == TCC_SPACE_BINDING) {
        const tcc_binding *binding = &a->program->bindings[b->binding];
        tcc_strbuf_printf(out, ", '%s' (%s)", binding->name, tcc_type_text(&binding->type));
    }
    tcc_strbuf_printf(out, ", %lld bytes from %lld on of %s", (long long)b->size_bytes, (long long)b->offset_bytes,
                      b->space == TCC_SPACE_ARENA   ? "the arena"
                      : b->space == TCC_SPACE_CONST ? "the constants"
                                                    : "that binding");
}

tcc_status tcc_accesses_judge(const tcc_accesses *a, tcc_diag *d) {
    static const char *const texts[] = {[OUTSIDE] = "which lie outside of it",
                                        [NOT_WRITTEN] = "which nothing has written",
                                        [READ_ONLY] = "which is only read by the program"};
    if (!atomic_load(&a->any)) return TCC_OK;
    const found *f = &a->first;
    const tcc_step *s = &a->program->steps[f->step];
    tcc_strbuf buffer = {0};
    describe_buffer(a, f, &buffer);
    const char *name = s->kind == TCC_STEP_COPY      ? "a copy"
                       : s->kind == TCC_STEP_LIBRARY ? s->call->name
                                                     : a->program->kernels[s->kernel].symbol;
    tcc_status status = TCC_BUG(d, "%s %s %lld bytes at offset %lld of %s, %s", name, f->stores ? "writes" : "reads",
                                (long long)f->bytes, (long long)f->offset, buffer.text ? buffer.text : "a buffer",
                                texts[f->mistake]);
    tcc_strbuf_free(&buffer);
    return status;
}
