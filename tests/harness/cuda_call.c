/* SPDX-License-Identifier: MIT */
#include "harness/cuda_call.h"
#include "harness/evaluate.h"
#include "harness/check.h"
#include "harness/graphs.h"

#include "codegen/emit/emitter.h"
#include "ir/support/alloc.h"

#include <stdio.h>
#include <stdlib.h>

tcc_program *call_program(const call_shape *s, const int64_t *params) {
    tcc_program *program = tcc__calloc(1, sizeof *program);
    assert_non_null(program);
    tcc_arena *m = &program->memory;
    program->name = "call";
    program->target = TCC_TARGET_CUDA;
    program->cpu = "sm_75";
    program->arena_bytes = 64 + s->workspace_bytes; /* the workspace is not at a multiple of what libraries want */
    program->n_bindings = s->n_buffers;
    program->bindings = TCC_ARENA_ARRAY(m, tcc_binding, s->n_buffers);
    tcc_buffer *buffers = TCC_ARENA_ARRAY(m, tcc_buffer, s->n_buffers + 1);
    for (int i = 0; i < s->n_buffers; i++) {
        char name[16];
        snprintf(name, sizeof name, "b%d", i);
        program->bindings[i] = (tcc_binding){.name = tcc_arena_strdup(m, name),
                                             .role = i >= s->n_buffers - s->n_outputs ? TCC_ROLE_OUTPUT
                                                                                      : TCC_ROLE_BATCH,
                                             .type = s->types[i]};
        buffers[i] = (tcc_buffer){TCC_SPACE_BINDING, i, 0, tcc_type_bytes(&s->types[i])};
    }
    buffers[s->n_buffers] = (tcc_buffer){TCC_SPACE_ARENA, -1, 64, s->workspace_bytes};
    tcc_library_call call = {s->entry, s->n_buffers + 1, s->n_params, buffers,
                             tcc_arena_copy(m, params, sizeof *params * (size_t)s->n_params)};
    program->n_steps = 1;
    program->steps = TCC_ARENA_ARRAY(m, tcc_step, 1);
    program->steps[0] = (tcc_step){.kind = TCC_STEP_LIBRARY,
                                   .call = tcc_arena_copy(m, &call, sizeof call),
                                   .label = "op",
                                   .lines = "net.c:7",
                                   .grain = 1};
    return program;
}

static void keep_line(void *user, const char *topic, const char *message) {
    (void)topic;
    tcc_strbuf_printf(user, "%s\n", message);
}

void keep_log(tcc_context *cx, tcc_topic topic, tcc_strbuf *lines) {
    cx->topics |= 1u << topic;
    cx->log = keep_line;
    cx->log_user = lines;
}

bool call_available(tcc_program *owned) {
    rig r;
    tcc_status s = rig_start(&r, owned);
    if (s != TCC_OK) printf("skipped: %s\n", tcc_diag_text(&r.cx.diag));
    rig_stop(&r);
    return s == TCC_OK;
}

void check_call_refused(tcc_program *owned, tcc_status status, const char *words) {
    rig r;
    tcc_strbuf logged = {0};
    tcc_status s = rig_start(&r, owned);
    if (s != status || !strstr(tcc_diag_text(&r.cx.diag), words))
        fail_msg("%s: \"%s\" does not say \"%s\"", tcc_status_name(s), tcc_diag_text(&r.cx.diag), words);
    const tcc_library_call *call = owned->steps[0].call;
    const size_t bytes = sizeof *call->params * (size_t)call->n_params;
    int64_t *params = memcpy(malloc(bytes), call->params, bytes);
    keep_log(&r.cx, TCC_LOG_LIBRARY, &logged);
    assert_false(r.device->ops->takes_call(r.device, &r.cx, call->name, params));
    if (!logged.text || !strstr(logged.text, "our own kernel instead: ") || !strstr(logged.text, words))
        fail_msg("the log says \"%s\", not \"%s\"", logged.text, words);
    assert_memory_equal(params, call->params, bytes);
    assert_false(r.device->ops->takes_call(r.device, &r.cx, "library.nothing", params));
    free(params);
    tcc_strbuf_free(&logged);
    rig_stop(&r);
}

void check_device_described(tcc_program *owned, const char *words) {
    rig r;
    tcc_strbuf text = {0};
    rig_start(&r, owned);
    assert_non_null(r.device);
    r.device->ops->describe(r.device, &text);
    if (!strstr(text.text, words)) fail_msg("\"%s\" does not say \"%s\"", text.text, words);
    tcc_strbuf_free(&text);
    rig_stop(&r);
}

int64_t rig_bytes(const rig *r, int binding) { return tcc_type_bytes(&r->program->bindings[binding].type); }

void rig_move(rig *c, int buffer) {
    const tcc_device_ops *ops = c->device->ops;
    tcc_diag *d = &c->cx.diag;
    const int64_t bytes = rig_bytes(c, buffer);
    void *held = malloc((size_t)bytes), *other;
    assert_ok(ops->download(c->device, d, held, c->memory[buffer], bytes), d);
    assert_ok(ops->alloc(c->device, d, bytes, &other), d);
    assert_ok(ops->upload(c->device, d, other, held, bytes), d);
    ops->free(c->device, c->memory[buffer], bytes);
    free(held);
    c->memory[buffer] = other;
    assert_ok(tcc_exec_bind(c->exec, d, buffer, other, bytes), d);
}

/* --- graphs --- */

static bool ask_device(void *user, const char *name, int64_t *params) {
    rig *c = user;
    return c->device->ops->takes_call(c->device, &c->cx, name, params);
}

static void check_steps(const tcc_program *p, const char *text, int calls, int steps) {
    int n = 0;
    for (int i = 0; i < p->n_steps; i++) n += p->steps[i].kind == TCC_STEP_LIBRARY;
    if (n == calls && (steps < 0 || p->n_steps == steps)) return;
    tcc_strbuf list = {0};
    tcc_program_print_steps(&list, p);
    fail_msg("%s\n%d calls of %d steps, not %d of %d:\n%s", text, n, p->n_steps, calls, steps, list.text);
}

/* A quiet NaN of the type, in every place that is to be written. */
static void poison(rig *c, int binding) {
    const int64_t bytes = rig_bytes(c, binding);
    void *all = malloc((size_t)bytes);
    memset(all, 0xff, (size_t)bytes);
    assert_ok(c->device->ops->upload(c->device, &c->cx.diag, c->memory[binding], all, bytes), &c->cx.diag);
    free(all);
}

void check_graph_on_cuda(const char *text, const compiled_options *given, int calls, int steps) {
    rig c = {0};
    tcc_diag *d = &c.cx.diag;
    assert_ok(tcc_context_init(&c.cx), d);
    assert_ok(tcc_device_cuda_create(&c.cx, -1, &c.device), d);
    const tcc_device_ops *ops = c.device->ops;
    compiled_options options = *given;
    options.takes_call = ask_device, options.takes_call_user = &c;
    if (calls) options.prefer = "cu"; /* cublaslt and cudnn: also calls that are too small to be worth it */
    tcc_graph *g = parse_graph(text, d), *planned;
    tcc_llvm_target target;
    assert_ok(tcc_llvm_target_cuda("sm_80", NULL, d, &target), d);
    compiled_build(g, &options, &target, &c.cx, &planned, &c.program);
    check_steps(c.program, text, calls, steps);
    tcc_value *inputs = random_inputs(planned, &options),
              *outputs = calloc((size_t)planned->outputs.count, sizeof *outputs);
    assert_ok(tcc_graph_eval(g, inputs, outputs, d), d);
    assert_ok(tcc_exec_create(&c.cx, c.device, c.program, &c.exec), d);
    assert_true(c.program->n_bindings <= RIG_BINDINGS);
    for (int i = 0; i < c.program->n_bindings; i++) {
        const int64_t bytes = rig_bytes(&c, i);
        assert_ok(ops->alloc(c.device, d, bytes, &c.memory[i]), d);
        assert_ok(tcc_exec_bind(c.exec, d, i, c.memory[i], bytes), d);
        if (i >= planned->inputs.count) {
            poison(&c, i);
            continue;
        }
        void *packed = calloc(1, (size_t)bytes);
        value_store(&inputs[i], packed);
        assert_ok(ops->upload(c.device, d, c.memory[i], packed, bytes), d);
        free(packed);
    }
    assert_ok(tcc_exec_run(c.exec, d), d);
    for (int i = 0; i < planned->outputs.count; i++) {
        const int binding = compiled_output_binding(planned, i);
        void *got = malloc((size_t)rig_bytes(&c, binding));
        assert_ok(ops->download(c.device, d, got, c.memory[binding], rig_bytes(&c, binding)), d);
        compiled_compare(&planned->outputs.data[i], got, &outputs[i], &options);
        free(got);
    }
    free_values(inputs, planned->inputs.count);
    free_values(outputs, planned->outputs.count);
    tcc_llvm_target_clear(&target);
    tcc_graph_destroy(g);
    tcc_graph_destroy(planned);
    rig_stop(&c);
}

double call_value_at(const void *data, int64_t dtype, int64_t i) {
    if (dtype == TCC_F64) return ((const double *)data)[i];
    if (dtype == TCC_F32) return (double)((const float *)data)[i];
    return (double)(dtype == TCC_F16 ? tcc_f16_to_f32(((const uint16_t *)data)[i])
                                     : tcc_bf16_to_f32(((const uint16_t *)data)[i]));
}

void *call_random_data(int64_t dtype, int64_t count, uint32_t seed) {
    void *data = malloc((size_t)count * 8);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        float x = (float)(seed >> 8) / (1 << 23) - 1.0f;
        if (dtype == TCC_F64) ((double *)data)[i] = (double)x;
        else if (dtype == TCC_F32) ((float *)data)[i] = x;
        else ((uint16_t *)data)[i] = dtype == TCC_F16 ? tcc_f32_to_f16(x) : tcc_f32_to_bf16(x);
    }
    return data;
}
