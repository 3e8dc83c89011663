/* SPDX-License-Identifier: MIT
 * Programs as the runtime sees them: checked, described, destroyed. */
#include "runtime/program.h"

#include "codegen/calls.h"
#include "ir/support/alloc.h"

#include <stdio.h>
#include <string.h>

void tcc_program_destroy(tcc_program *p) {
    if (!p) return;
    tcc_arena_free(&p->memory);
    tcc__free(p);
}

static const char *name_of(const tcc_program *p) { return p->name ? p->name : ""; }

static void print_step(tcc_strbuf *out, const tcc_program *p, int step) {
    const tcc_step *s = &p->steps[step];
    tcc_strbuf_printf(out, "step %d", step);
    const char *label = s->label ? s->label : "", *lines = s->lines ? s->lines : "";
    if (*label || *lines) tcc_strbuf_printf(out, " (%s%s%s)", label, *label && *lines ? "; " : "", lines);
}

void tcc_program_note_step(tcc_diag *d, const tcc_program *p, int step) {
    tcc_strbuf text = {0};
    print_step(&text, p, step);
    tcc_note(d, TCC_NOWHERE, "in program '%s', %s", name_of(p), text.text ? text.text : "a step");
    tcc_strbuf_free(&text);
}

void tcc_program_for_buffers(const tcc_program *p, tcc_program_buffer_fn *each, void *user) {
    for (int i = 0; i < p->n_steps; i++) {
        const tcc_step *s = &p->steps[i];
        if (s->kind == TCC_STEP_KERNEL)
            for (int n = 0; n < s->n_instances; n++)
                for (int b = 0; b < p->kernels[s->kernel].n_buffers; b++)
                    each(user, i, n, b, &s->instances[n].buffers[b]);
        else if (s->kind == TCC_STEP_LIBRARY)
            for (int b = 0; b < s->call->n_buffers; b++) each(user, i, 0, b, &s->call->buffers[b]);
        else {
            each(user, i, 0, 0, &s->to);
            each(user, i, 0, 1, &s->from);
        }
    }
}

/* -- What waits for collectives -- */

typedef struct waits {
    const tcc_program *program;
    int *of;
} waits;

static bool overlap(const tcc_buffer *x, const tcc_buffer *y) {
    return x->space == y->space && (x->space != TCC_SPACE_BINDING || x->binding == y->binding) &&
           x->offset_bytes < y->offset_bytes + y->size_bytes && y->offset_bytes < x->offset_bytes + x->size_bytes;
}

static bool is_collective(const tcc_step *s) {
    return s->kind == TCC_STEP_LIBRARY && tcc_call_is_collective(tcc_call_find(s->call->name));
}

static void look_for_collectives(void *user, int step, int instance, int buffer, const tcc_buffer *b) {
    const waits *w = user;
    (void)instance, (void)buffer;
    for (int i = step - 1; i > w->of[step]; i--) {
        const tcc_step *s = &w->program->steps[i];
        if (is_collective(s) && (overlap(b, &s->call->buffers[0]) || overlap(b, &s->call->buffers[1]))) w->of[step] = i;
    }
}

void tcc_program_find_waits(const tcc_program *p, int *waits_for) {
    bool any = false;
    for (int i = 0; i < p->n_steps; i++) {
        waits_for[i] = -1;
        any |= is_collective(&p->steps[i]);
    }
    if (any) tcc_program_for_buffers(p, look_for_collectives, &(waits){p, waits_for});
}

/* -- The largest tensors -- */

enum { LARGEST = 20, LINES = 5 }; /* those of one step and size share a line */

typedef struct tensor {
    int binding, step; /* one of them is -1 */
    int64_t offset_bytes, size_bytes;
} tensor;

typedef struct largest {
    int count;
    tensor list[LARGEST + 1]; /* descending; of distinct places */
} largest;

static void consider(largest *l, tensor t) {
    for (int i = 0; i < l->count; i++)
        if (t.binding < 0 && l->list[i].binding < 0 && l->list[i].offset_bytes == t.offset_bytes) return;
    int at = l->count;
    for (; at && t.size_bytes > l->list[at - 1].size_bytes; at--) l->list[at] = l->list[at - 1];
    if (at == LARGEST) return;
    l->list[at] = t;
    if (l->count < LARGEST) l->count++;
}

static void consider_buffer(void *user, int step, int instance, int buffer, const tcc_buffer *b) {
    (void)instance;
    (void)buffer;
    if (b->space == TCC_SPACE_ARENA) consider(user, (tensor){-1, step, b->offset_bytes, b->size_bytes});
}

void tcc_program_note_largest(tcc_diag *d, const tcc_program *p) {
    largest l = {0};
    for (int i = 0; i < p->n_bindings; i++) consider(&l, (tensor){i, -1, 0, tcc_type_bytes(&p->bindings[i].type)});
    tcc_program_for_buffers(p, consider_buffer, &l);
    for (int i = 0, lines = 0, n; i < l.count && lines < LINES; i += n, lines++) {
        const tensor *t = &l.list[i];
        tcc_strbuf what = {0};
        for (n = 1; i + n < l.count && t->step >= 0 && t[n].step == t->step && t[n].size_bytes == t->size_bytes;) n++;
        if (n > 1) tcc_strbuf_printf(&what, "%d times ", n);
        tcc_strbuf_bytes(&what, (double)t->size_bytes);
        tcc_strbuf_add(&what, t->step < 0 ? ", " : ", of ");
        if (t->step < 0)
            tcc_strbuf_printf(&what, "'%s', %s", p->bindings[t->binding].name,
                              tcc_type_text(&p->bindings[t->binding].type));
        else print_step(&what, p, t->step);
        if (what.text) tcc_note(d, TCC_NOWHERE, "%s %s", i ? "then" : "the largest tensor:", what.text);
        tcc_strbuf_free(&what);
    }
}

static tcc_status __attribute__((format(printf, 4, 5))) bad_step(tcc_diag *d, const tcc_program *p, int step,
                                                                 const char *format, ...) {
    tcc_strbuf text = {0};
    print_step(&text, p, step);
    tcc_strbuf_add(&text, ": ");
    char message[256];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    tcc_strbuf_add(&text, message);
    tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "program '%s': %s", name_of(p), text.text ? text.text : message);
    tcc_strbuf_free(&text);
    return TCC_EFORMAT;
}

static tcc_status check_buffer(tcc_diag *d, const tcc_program *p, int step, const tcc_buffer *b) {
    int64_t space_bytes;
    switch (b->space) {
    case TCC_SPACE_ARENA: space_bytes = p->arena_bytes; break;
    case TCC_SPACE_CONST: space_bytes = p->constants_bytes; break;
    case TCC_SPACE_BINDING:
        if (b->binding < 0 || b->binding >= p->n_bindings)
            return bad_step(d, p, step, "binding %d of %d", b->binding, p->n_bindings);
        if (p->bindings[b->binding].idle)
            return bad_step(d, p, step, "binding %d, which no step touches, as it says", b->binding);
        space_bytes = tcc_type_bytes(&p->bindings[b->binding].type);
        break;
    default: return bad_step(d, p, step, "memory space %d", (int)b->space);
    }
    if (b->offset_bytes < 0 || b->size_bytes < 0 || b->offset_bytes > space_bytes ||
        b->size_bytes > space_bytes - b->offset_bytes)
        return bad_step(d, p, step, "%lld bytes at %lld of %lld", (long long)b->size_bytes, (long long)b->offset_bytes,
                        (long long)space_bytes);
    return TCC_OK;
}

/* The largest of an instance's buffers, and all of them. */
static int64_t buffer_bytes(const tcc_kernel *k, const tcc_instance *n, int64_t *all) {
    int64_t most = 0;
    *all = 0;
    for (int b = 0; b < k->n_buffers; b++) {
        const int64_t bytes = n->buffers[b].size_bytes;
        if (bytes > most) most = bytes;
        if (__builtin_add_overflow(*all, bytes, all)) *all = INT64_MAX;
    }
    return most;
}

/* Whether a kernel's work can be meant: each item writes something of its own, so there are no more of them than bytes;
 * and a parameter is an extent of a buffer or a place in one. That of attention behind its places names a draw. */
static bool is_plausible(const tcc_kernel *k, const tcc_instance *n) {
    int64_t all;
    const int64_t most = buffer_bytes(k, n, &all);
    const bool draws = k->schedule && !strcmp(k->schedule, "attention");
    for (int i = 0; i < k->n_params && n->items; i++) {
        if (draws && i == k->n_buffers) continue;
        if (n->params[i] > most || n->params[i] < -most) return false;
    }
    return n->items <= all;
}

static tcc_status check_kernel_step(tcc_diag *d, const tcc_program *p, int i) {
    const tcc_step *s = &p->steps[i];
    if (s->kernel < 0 || s->kernel >= p->n_kernels)
        return bad_step(d, p, i, "kernel %d of %d", s->kernel, p->n_kernels);
    const tcc_kernel *k = &p->kernels[s->kernel];
    if (s->n_instances < 0 || (s->n_instances && !s->instances))
        return bad_step(d, p, i, "%d instances", s->n_instances);
    int64_t items = 0;
    for (int n = 0; n < s->n_instances; n++) {
        const tcc_instance *instance = &s->instances[n];
        if (instance->items < 0 || __builtin_add_overflow(items, instance->items, &items) ||
            (k->n_buffers && !instance->buffers) || (k->n_params && !instance->params))
            return bad_step(d, p, i, "instance %d is malformed", n);
        for (int b = 0; b < k->n_buffers; b++) TCC_TRY(check_buffer(d, p, i, &instance->buffers[b]));
        if (!is_plausible(k, instance))
            return bad_step(d, p, i, "instance %d of %lld work items asks for more than there is memory", n,
                            (long long)instance->items);
    }
    return TCC_OK;
}

/* A call that nobody knows is for the device to refuse. */
static tcc_status check_library_step(tcc_diag *d, const tcc_program *p, int i) {
    const tcc_library_call *c = p->steps[i].call;
    if (!c || !c->name || c->n_buffers < 0 || c->n_params < 0 || (c->n_buffers && !c->buffers) ||
        (c->n_params && !c->params))
        return bad_step(d, p, i, "the library call is malformed");
    for (int b = 0; b < c->n_buffers; b++) TCC_TRY(check_buffer(d, p, i, &c->buffers[b]));
    const tcc_call call = tcc_call_find(c->name);
    if (call == TCC_CALLS) return TCC_OK;
    const tcc_call_info *info = tcc_call_get_info(call);
    if (c->n_params != info->n_params || c->n_buffers != info->n_buffers)
        return bad_step(d, p, i, "'%s' takes %d params and %d buffers, not %d and %d", c->name, info->n_params,
                        info->n_buffers, c->n_params, c->n_buffers);
    const tcc_status s = tcc_call_check(d, call, c->params);
    if (s != TCC_OK) tcc_program_note_step(d, p, i);
    return s;
}

static tcc_status check_step(tcc_diag *d, const tcc_program *p, int i) {
    const tcc_step *s = &p->steps[i];
    switch (s->kind) {
    case TCC_STEP_KERNEL: return check_kernel_step(d, p, i);
    case TCC_STEP_LIBRARY: return check_library_step(d, p, i);
    case TCC_STEP_COPY:
        TCC_TRY(check_buffer(d, p, i, &s->from));
        TCC_TRY(check_buffer(d, p, i, &s->to));
        if (s->from.size_bytes != s->to.size_bytes || s->to.space == TCC_SPACE_CONST)
            return bad_step(d, p, i, "copy of %lld bytes to %lld", (long long)s->from.size_bytes,
                            (long long)s->to.size_bytes);
        return TCC_OK;
    }
    return bad_step(d, p, i, "kind %d", (int)s->kind);
}

static tcc_status check_cuda_kernel(tcc_diag *d, const tcc_program *p, int i) {
    enum { MOST_PARAMETERS = 4096 / 8 /* of a launch, all 8 bytes */, MOST_SHARED = 1 << 20 };
    const tcc_kernel *k = &p->kernels[i];
    if (k->threads < 1 || k->threads > 1024 || k->items_a_block < 1 || k->scratch_bytes > MOST_SHARED)
        return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE,
                         "program '%s': kernel %d has blocks of %d threads, %d items, %lld bytes of scratch",
                         name_of(p), i, k->threads, k->items_a_block, (long long)k->scratch_bytes);
    if (k->n_buffers < MOST_PARAMETERS && k->n_params < MOST_PARAMETERS && k->n_buffers + k->n_params < MOST_PARAMETERS)
        return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE,
                     "program '%s': kernel %d takes %d buffers and %d params, more than a launch can", name_of(p), i,
                     k->n_buffers, k->n_params);
}

/* PTX is handed to the driver as text. */
static tcc_status check_cuda_modules(tcc_diag *d, const tcc_program *p) {
    for (int i = 0; i < p->n_modules; i++) {
        const tcc_module *m = &p->modules[i];
        if (!m->code || m->size_bytes < 1 || ((const char *)m->code)[m->size_bytes - 1])
            return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "program '%s': module %d is no text that ends", name_of(p),
                             i);
    }
    return TCC_OK;
}

/* What a state begins as is there between runs, has its shape, and begins earlier. */
static bool begins_well(const tcc_program *p, const tcc_binding *b) {
    const bool constant = b->begin == 0, copy = b->copy_of != NULL;
    if (b->role != TCC_ROLE_STATE) return constant && !copy;
    if (!copy) return true;
    for (const tcc_binding *of = p->bindings; of < b; of++) {
        tcc_type type = of->type;
        type.dtype = b->type.dtype;
        if (strcmp(of->name, b->copy_of) || of->role == TCC_ROLE_OUTPUT) continue;
        return constant && (of->role == TCC_ROLE_PARAM || of->role == TCC_ROLE_STATE) && !of->copy_of &&
               tcc_type_equal(&type, &b->type);
    }
    return false;
}

tcc_status tcc_program_check(tcc_diag *d, const tcc_program *p) {
    const char *name = name_of(p);
    if (p->arena_bytes < 0 || p->constants_bytes < 0 || (p->constants_bytes && !p->constants) || p->n_bindings < 0 ||
        p->n_modules < 0 || p->n_kernels < 0 || p->n_steps < 0)
        return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "program '%s': malformed sizes", name);
    for (int i = 0; i < p->n_bindings; i++) {
        const tcc_type *t = &p->bindings[i].type;
        int64_t bytes = 8; /* of the largest element */
        bool good = p->bindings[i].name && t->rank >= 0 && t->rank <= TCC_MAX_RANK &&
                    (unsigned)t->dtype < TCC_DTYPE_COUNT && (unsigned)p->bindings[i].role <= TCC_ROLE_OUTPUT;
        for (int r = 0; good && r < t->rank; r++)
            good = t->dims[r] >= 0 && !__builtin_mul_overflow(bytes, t->dims[r], &bytes);
        if (!good) return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "program '%s': binding %d is malformed", name, i);
        if (!begins_well(p, &p->bindings[i]))
            return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "program '%s': binding '%s' cannot begin as it says", name,
                             p->bindings[i].name);
    }
    for (int i = 0; i < p->n_kernels; i++) {
        const tcc_kernel *k = &p->kernels[i];
        if (!k->symbol || k->module < 0 || k->module >= p->n_modules || k->n_buffers < 0 || k->n_params < 0 ||
            k->scratch_bytes < 0)
            return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "program '%s': kernel %d is malformed", name, i);
        if (p->target == TCC_TARGET_CUDA) TCC_TRY(check_cuda_kernel(d, p, i));
    }
    if (p->target == TCC_TARGET_CUDA) TCC_TRY(check_cuda_modules(d, p));
    for (int i = 0; i < p->n_steps; i++) TCC_TRY(check_step(d, p, i));
    return TCC_OK;
}
