/* SPDX-License-Identifier: MIT
 * Programs as bytes: their fields, in order. */
#include "runtime/program_file.h"
#include "runtime/files/file.h"
#include "runtime/program.h"
#include "runtime/stream.h"

#include "ir/support/alloc.h"

static const tcc_stream_kind kind = {"TCCPROG", TCC_PROGRAM_FILE_VERSION, "stored program"};

static void io_params(tcc_stream *s, int64_t *param) { tcc_io_i64(s, param); }

static void io_buffer(tcc_stream *s, tcc_buffer *b) {
    int space = (int)b->space;
    tcc_io_int(s, &space);
    b->space = (tcc_space)space;
    tcc_io_int(s, &b->binding);
    tcc_io_i64(s, &b->offset_bytes);
    tcc_io_i64(s, &b->size_bytes);
}

static void io_binding(tcc_stream *s, tcc_binding *b) {
    int role = (int)b->role;
    tcc_io_text(s, &b->name);
    tcc_io_int(s, &role);
    b->role = (tcc_role)role;
    tcc_io_type(s, &b->type);
    tcc_io_double(s, &b->begin);
    tcc_io_text(s, &b->copy_of);
    tcc_io_bool(s, &b->written);
    tcc_io_bool(s, &b->idle);
}

static void io_module(tcc_stream *s, tcc_module *m) { tcc_io_data(s, &m->code, &m->size_bytes); }

static void io_kernel(tcc_stream *s, tcc_kernel *k) {
    tcc_io_text(s, &k->symbol);
    tcc_io_int(s, &k->module);
    tcc_io_int(s, &k->n_buffers);
    tcc_io_int(s, &k->n_params);
    tcc_io_i64(s, &k->scratch_bytes);
    tcc_io_text(s, &k->schedule);
    tcc_io_int(s, &k->threads);
    tcc_io_int(s, &k->items_a_block);
    tcc_io_bool(s, &k->table);
}

static void io_call(tcc_stream *s, tcc_library_call *c) {
    tcc_io_text(s, &c->name);
    TCC_IO_ARRAY(s, c->buffers, c->n_buffers, 32, io_buffer);
    TCC_IO_ARRAY(s, c->params, c->n_params, 8, io_params);
}

/* The counts are the kernel's; they are stored again so that reading needs no trust in it. */
static void io_instance(tcc_stream *s, tcc_instance *n, const tcc_kernel *k) {
    int buffers = k->n_buffers, params = k->n_params;
    TCC_IO_ARRAY(s, n->buffers, buffers, 32, io_buffer);
    TCC_IO_ARRAY(s, n->params, params, 8, io_params);
    if (buffers != k->n_buffers || params != k->n_params) tcc_stream_fail(s, TCC_EFORMAT);
    tcc_io_i64(s, &n->items);
}

static void io_step(tcc_stream *s, tcc_step *step, const tcc_program *p) {
    int kind = (int)step->kind;
    tcc_io_int(s, &kind);
    step->kind = (tcc_step_kind)kind;
    tcc_io_text(s, &step->label);
    tcc_io_text(s, &step->implementation);
    tcc_io_double(s, &step->predicted_s);
    tcc_io_text(s, &step->lines);
    tcc_io_double(s, &step->flop);
    tcc_io_double(s, &step->bytes);
    tcc_io_double(s, &step->evaluations);
    tcc_io_double(s, &step->elements);
    if (step->kind == TCC_STEP_KERNEL) {
        tcc_io_int(s, &step->kernel);
        tcc_io_i64(s, &step->grain);
        int64_t n = step->n_instances;
        tcc_io_count(s, &n, 24);
        if (n > INT32_MAX || step->kernel < 0 || step->kernel >= p->n_kernels) tcc_stream_fail(s, TCC_EFORMAT);
        step->n_instances = s->status == TCC_OK ? (int)n : 0;
        tcc_instance *instances = tcc_io_room(s, step->instances, step->n_instances, sizeof *instances);
        for (int i = 0; s->status == TCC_OK && i < step->n_instances; i++)
            io_instance(s, &instances[i], &p->kernels[step->kernel]);
        step->instances = instances;
    } else if (step->kind == TCC_STEP_LIBRARY) {
        tcc_library_call *call = tcc_io_room(s, step->call, 1, sizeof *call);
        if (call) io_call(s, call);
        step->call = call;
    } else {
        io_buffer(s, &step->from);
        io_buffer(s, &step->to);
    }
}

static void io_program(tcc_stream *s, tcc_program *p) {
    int target = (int)p->target;
    tcc_io_text(s, &p->name);
    tcc_io_int(s, &target);
    p->target = (tcc_target)target;
    tcc_io_text(s, &p->cpu);
    tcc_io_i64(s, &p->arena_bytes);
    tcc_io_data(s, &p->constants, &p->constants_bytes);
    TCC_IO_ARRAY(s, p->bindings, p->n_bindings, 56, io_binding);
    TCC_IO_ARRAY(s, p->modules, p->n_modules, 8, io_module);
    TCC_IO_ARRAY(s, p->kernels, p->n_kernels, 48, io_kernel);
    int64_t n = p->n_steps;
    tcc_io_count(s, &n, 40);
    if (n > INT32_MAX) tcc_stream_fail(s, TCC_EFORMAT);
    p->n_steps = s->status == TCC_OK ? (int)n : 0;
    p->steps = tcc_io_room(s, p->steps, p->n_steps, sizeof *p->steps);
    for (int i = 0; s->status == TCC_OK && i < p->n_steps; i++) io_step(s, &p->steps[i], p);
}

tcc_status tcc_program_encode(tcc_diag *d, const tcc_program *p, void **bytes, int64_t *size_bytes) {
    *bytes = NULL;
    TCC_TRY(tcc_program_check(d, p));
    tcc_stream s = tcc_stream_write();
    tcc_program copy = *p; /* writing changes nothing but takes what reading takes */
    io_program(&s, &copy);
    return tcc_stream_seal(&s, d, &kind, p->name, bytes, size_bytes);
}

tcc_status tcc_program_decode(tcc_diag *d, const char *name, const void *bytes, int64_t size_bytes, tcc_program **out) {
    *out = NULL;
    tcc_program *p = tcc__calloc(1, sizeof *p);
    if (!p) return tcc_enomem(d);
    tcc_stream s;
    tcc_status status = tcc_stream_read(&s, d, &kind, name, bytes, size_bytes, &p->memory);
    if (status == TCC_OK) {
        io_program(&s, p);
        status = tcc_stream_end(&s, d, &kind, name);
    }
    if (status == TCC_OK) status = tcc_program_check(d, p);
    if (status == TCC_OK) *out = p;
    else tcc_program_destroy(p);
    return status;
}
