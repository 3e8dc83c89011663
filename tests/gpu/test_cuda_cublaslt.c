/* SPDX-License-Identifier: MIT
 * Matrix products by cuBLASLt: every form against plain sums, what the library refuses, a library that is missing or of another
 * version, and every call of it failing once. On the stand-in; on a GPU with the library the products alone. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/cuda_device.h"
#include "harness/graphs.h"
#include "cublasltsim/cublasltsim.h"

#include "codegen/llvm.h"
#include "ir/support/alloc.h"
#include "runtime/cuda_cublaslt.h"

#include <traincc/traincc.h>

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { A, B, BIAS, C, BINDINGS };
enum { WORKSPACE = 8192 };

static struct {
    void (*get_counts)(cublasltsim_counts *counts);
    const char *(*last_error)(void);
    void (*inject)(int nth, int status);
    void (*refuse)(unsigned long long most_k);
    void (*restart)(void);
} lt; /* NULL on a GPU */

static int set_up(void **state) {
    void *library = dlopen("libcublasLt.so.12", RTLD_NOW);
    find_function(library, "cublasltsim_get_counts", &lt.get_counts);
    find_function(library, "cublasltsim_last_error", &lt.last_error);
    find_function(library, "cublasltsim_inject", &lt.inject);
    find_function(library, "cublasltsim_refuse", &lt.refuse);
    find_function(library, "cublasltsim_restart", &lt.restart);
    return cuda_set_up(state);
}

static int fresh(void **state) {
    if (lt.restart) lt.restart();
    return cuda_fresh(state);
}

static int finish(void **state) {
    cublasltsim_counts counts = {0};
    if (lt.get_counts) lt.get_counts(&counts);
    if (counts.errors) fail_msg("the library was called wrongly: %s", lt.last_error());
    if (counts.handles || counts.descriptors) fail_msg("alive: %d handles, %d descriptors of the library", counts.handles, counts.descriptors);
    return cuda_finish(state);
}

/* --- programs of one product --- */

static int64_t span(int64_t batch, int64_t stride, int64_t rows, int64_t columns, int64_t ld) {
    return (batch - 1) * stride + (rows - 1) * ld + columns;
}

static int64_t elements(const tcc_matmul_params *p, int binding) {
    switch (binding) {
    case A: return span(p->batch, p->stride_a, p->transpose_a ? p->k : p->m, p->transpose_a ? p->m : p->k, p->lda);
    case B: return span(p->batch, p->stride_b, p->transpose_b ? p->n : p->k, p->transpose_b ? p->k : p->n, p->ldb);
    case BIAS: return p->n;
    default: return span(p->batch, p->stride_c, p->m, p->n, p->ldc);
    }
}

static tcc_program *product_program(const tcc_matmul_params *p) {
    static const char *const names[] = {"a", "b", "bias", "c"};
    tcc_program *program = tcc__calloc(1, sizeof *program);
    assert_non_null(program);
    tcc_arena *m = &program->memory;
    program->name = "product";
    program->target = TCC_TARGET_CUDA;
    program->cpu = "sm_75";
    program->arena_bytes = 64 + p->workspace_bytes; /* not at a multiple of what the library wants */
    program->n_bindings = BINDINGS;
    program->bindings = TCC_ARENA_ARRAY(m, tcc_binding, BINDINGS);
    tcc_buffer *buffers = TCC_ARENA_ARRAY(m, tcc_buffer, BINDINGS + 1);
    for (int i = 0; i < BINDINGS; i++) {
        tcc_dtype dtype = (tcc_dtype)(i == A || i == B ? p->type : p->type_c);
        program->bindings[i] = (tcc_binding){names[i], i == C ? TCC_ROLE_OUTPUT : TCC_ROLE_BATCH, {.dtype = dtype, .rank = 1, .dims = {elements(p, i)}}};
        buffers[i] = (tcc_buffer){TCC_SPACE_BINDING, i, 0, tcc_type_bytes(&program->bindings[i].type)};
    }
    buffers[BINDINGS] = (tcc_buffer){TCC_SPACE_ARENA, -1, 64, p->workspace_bytes};
    tcc_library_call call = {"cublaslt.matmul", BINDINGS + 1, TCC_MATMUL_PARAMS, buffers, tcc_arena_copy(m, p, sizeof *p)};
    program->n_steps = 1;
    program->steps = TCC_ARENA_ARRAY(m, tcc_step, 1);
    program->steps[0] = (tcc_step){.kind = TCC_STEP_LIBRARY, .call = tcc_arena_copy(m, &call, sizeof call), .label = "dot", .lines = "net.c:7", .grain = 1};
    return program;
}

static tcc_status start(rig *r, const tcc_matmul_params *p) { return rig_start(r, product_program(p)); }

static double value_at(const void *data, int64_t dtype, int64_t i) {
    if (dtype == TCC_F32) return (double)((const float *)data)[i];
    return (double)(dtype == TCC_F16 ? tcc_f16_to_f32(((const uint16_t *)data)[i]) : tcc_bf16_to_f32(((const uint16_t *)data)[i]));
}

static void *random_data(int64_t dtype, int64_t count, uint32_t seed) {
    void *data = malloc((size_t)count * 4);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        float x = (float)(seed >> 8) / (1 << 23) - 1.0f;
        if (dtype == TCC_F32) ((float *)data)[i] = x;
        else ((uint16_t *)data)[i] = dtype == TCC_F16 ? tcc_f32_to_f16(x) : tcc_f32_to_bf16(x);
    }
    return data;
}

static void compare(const tcc_matmul_params *p, void *const *data, const void *got) {
    double tolerance = p->allow_tf32 || p->type_c == TCC_BF16 ? 1e-2 : p->type_c == TCC_F16 ? 2e-3 : 1e-5;
    for (int64_t batch = 0; batch < p->batch; batch++)
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0; j < p->n; j++) {
                double sum = p->bias ? value_at(data[BIAS], p->type_c, j) : 0, scale = 1;
                for (int64_t k = 0; k < p->k; k++) {
                    double term = value_at(data[A], p->type, batch * p->stride_a + (p->transpose_a ? k * p->lda + i : i * p->lda + k)) *
                                  value_at(data[B], p->type, batch * p->stride_b + (p->transpose_b ? j * p->ldb + k : k * p->ldb + j));
                    sum += term;
                    scale += fabs(term);
                }
                if (p->relu && sum < 0) sum = 0;
                double is = value_at(got, p->type_c, batch * p->stride_c + i * p->ldc + j);
                if (!(fabs(is - sum) <= tolerance * scale))
                    fail_msg("%lld x %lld x %lld, matrix %lld, (%lld, %lld): %g instead of %g", (long long)p->m, (long long)p->n, (long long)p->k,
                             (long long)batch, (long long)i, (long long)j, is, sum);
            }
}

static void check_product(const tcc_matmul_params *p) {
    rig r;
    void *data[BINDINGS];
    if (start(&r, p) != TCC_OK) fail_msg("%s", tcc_diag_text(&r.cx.diag));
    for (int i = 0; i < BINDINGS; i++) {
        data[i] = random_data(i == A || i == B ? p->type : p->type_c, elements(p, i), (uint32_t)i + 1);
        assert_ok(r.device->ops->upload(r.device, &r.cx.diag, r.memory[i], data[i], tcc_type_bytes(&r.program->bindings[i].type)), &r.cx.diag);
    }
    for (int run = 0; run < 2; run++) {
        assert_ok(tcc_exec_run(r.exec, &r.cx.diag), &r.cx.diag);
        assert_ok(r.device->ops->download(r.device, &r.cx.diag, data[C], r.memory[C], tcc_type_bytes(&r.program->bindings[C].type)), &r.cx.diag);
        compare(p, data, data[C]);
        /* The bias elsewhere from now on: the library has to be told. */
        void *other;
        int64_t bytes = tcc_type_bytes(&r.program->bindings[BIAS].type);
        assert_ok(r.device->ops->alloc(r.device, &r.cx.diag, bytes, &other), &r.cx.diag);
        assert_ok(r.device->ops->upload(r.device, &r.cx.diag, other, data[BIAS], bytes), &r.cx.diag);
        r.device->ops->free(r.device, r.memory[BIAS], bytes);
        r.memory[BIAS] = other;
        assert_ok(tcc_exec_bind(r.exec, &r.cx.diag, BIAS, other, bytes), &r.cx.diag);
    }
    for (int i = 0; i < BINDINGS; i++) free(data[i]);
    rig_stop(&r);
}

/* Dense matrices. */
static tcc_matmul_params product(int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
    return (tcc_matmul_params){.batch = batch, .m = m, .n = n, .k = k, .transpose_a = ta, .transpose_b = tb, .lda = ta ? m : k, .ldb = tb ? k : n,
                               .ldc = n, .stride_a = m * k, .stride_b = k * n, .stride_c = m * n, .type = TCC_F32, .type_c = TCC_F32,
                               .alignment = 16, .workspace_bytes = WORKSPACE};
}

/* Whether there is a device with the library; says why not. */
static bool available(void) {
    rig r;
    tcc_matmul_params p = product(1, 16, 16, 16, false, false);
    tcc_status s = start(&r, &p);
    if (s != TCC_OK) printf("skipped: %s\n", tcc_diag_text(&r.cx.diag));
    rig_stop(&r);
    return s == TCC_OK;
}

static void test_products(void **state) {
    (void)state;
    if (!available()) skip();
    for (int form = 0; form < 64; form++) {
        tcc_matmul_params p = product(form & 4 ? 3 : 1, 24, 40, 16, form & 1, form & 2);
        p.bias = form >> 3 & 1, p.relu = form >> 4 & 1;
        if (form & 32) { /* parts of larger matrices */
            p.lda += 8, p.ldb += 4, p.ldc += 12;
            p.stride_a = p.lda * (p.transpose_a ? p.k : p.m), p.stride_b = p.ldb * (p.transpose_b ? p.n : p.k), p.stride_c = p.ldc * p.m;
        }
        check_product(&p);
    }
    tcc_matmul_params odd = product(1, 7, 13, 29, false, true), shared = product(4, 20, 12, 8, false, false), deep = product(1, 16, 16, 600, true, false);
    odd.alignment = 4;
    shared.stride_b = 0;
    check_product(&odd);
    check_product(&shared);
    check_product(&deep); /* with workspace */
}

static void test_types(void **state) {
    (void)state;
    if (!available()) skip();
    static const tcc_dtype types[][2] = {{TCC_F16, TCC_F16}, {TCC_BF16, TCC_BF16}, {TCC_F16, TCC_F32}, {TCC_BF16, TCC_F32}};
    for (int i = 0; i < 4; i++)
        for (int form = 0; form < 4; form++) {
            tcc_matmul_params p = product(1, 32, 24, 48, form & 1, form & 2);
            p.type = types[i][0], p.type_c = types[i][1];
            p.bias = form == 3;
            check_product(&p);
        }
    tcc_matmul_params p = product(1, 32, 24, 48, false, false);
    p.allow_tf32 = 1;
    check_product(&p);
}

/* --- what cannot be had --- */

static char logged[1024];

static void keep_line(void *user, const char *topic, const char *message) {
    (void)user;
    (void)topic;
    snprintf(logged, sizeof logged, "%s", message);
}

/* A program with the call is refused; codegen is told before that the call is not taken, and the log why. */
static void check_refused(const tcc_matmul_params *p, tcc_status expected, const char *words) {
    rig r;
    tcc_status s = start(&r, p);
    if (s != expected || !strstr(tcc_diag_text(&r.cx.diag), words))
        fail_msg("%s: \"%s\" does not say \"%s\"", tcc_status_name(s), tcc_diag_text(&r.cx.diag), words);
    int64_t params[TCC_MATMUL_PARAMS];
    memcpy(params, p, sizeof params);
    r.cx.topics |= 1u << TCC_LOG_LIBRARY;
    r.cx.log = keep_line;
    assert_false(r.device->ops->takes_call(r.device, &r.cx, "cublaslt.matmul", params));
    if (!strstr(logged, "our own kernel instead: ") || !strstr(logged, words)) fail_msg("the log says \"%s\", not \"%s\"", logged, words);
    assert_memory_equal(params, p, sizeof params);
    assert_false(r.device->ops->takes_call(r.device, &r.cx, "cublaslt.inverse", params));
    rig_stop(&r);
}

static void check_described(const char *words) {
    rig r;
    tcc_matmul_params p = product(1, 16, 16, 16, false, false);
    start(&r, &p);
    tcc_strbuf text = {0};
    r.device->ops->describe(r.device, &text);
    if (!strstr(text.text, words)) fail_msg("\"%s\" does not say \"%s\"", text.text, words);
    tcc_strbuf_free(&text);
    rig_stop(&r);
}

static void test_refused(void **state) {
    (void)state;
    if (!lt.refuse) skip();
    tcc_matmul_params p = product(2, 16, 16, 600, false, false), wrong = product(1, 16, 16, 16, false, false);
    lt.refuse(512);
    check_refused(&p, TCC_EUNSUPPORTED, "cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_NOT_SUPPORTED");
    check_refused(&p, TCC_EUNSUPPORTED, "for cublaslt.matmul of 2 x 16 x 16 x 600 (batch, m, n, k)");
    wrong.lda = 8;
    check_refused(&wrong, TCC_EFORMAT, "leading dimensions 8, 16, 16");
}

static void test_workspace_is_lowered(void **state) {
    (void)state;
    if (!lt.refuse) skip();
    rig r;
    tcc_matmul_params p = product(1, 16, 16, 16, false, false), deep = product(1, 16, 16, 600, false, false), tight = deep;
    tight.workspace_bytes = CUBLASLTSIM_WORKSPACE; /* nothing to round up with */
    if (start(&r, &p) != TCC_OK) fail_msg("%s", tcc_diag_text(&r.cx.diag));
    const int64_t expected[] = {0, CUBLASLTSIM_WORKSPACE + 255, 0};
    tcc_matmul_params *all[] = {&p, &deep, &tight};
    for (int i = 0; i < 3; i++) {
        int64_t params[TCC_MATMUL_PARAMS];
        memcpy(params, all[i], sizeof params);
        assert_true(r.device->ops->takes_call(r.device, &r.cx, "cublaslt.matmul", params));
        assert_int_equal(params[TCC_MATMUL_PARAMS - 1], expected[i]);
    }
    rig_stop(&r);
}

static void test_library_missing(void **state) {
    (void)state;
    if (!lt.refuse) skip();
    tcc_matmul_params p = product(1, 16, 16, 16, false, false);
    setenv("CUBLASLTSIM_VERSION", "110605", 1);
    check_refused(&p, TCC_EUNSUPPORTED, "cannot be used: only versions 12 and 13 are known; large matrix products use our own kernels");
    check_described("cublaslt: 11.6.5 (");
    setenv("CUBLASLTSIM_VERSION", "120103", 1);
    check_described("cublaslt: 12.1.3 (");
    unsetenv("CUBLASLTSIM_VERSION");
    setenv("TCC_LIBRARIES", "openblas", 1);
    check_refused(&p, TCC_EUNSUPPORTED, "cublaslt: switched off by TCC_LIBRARIES");
    setenv("TCC_LIBRARIES", "cublaslt", 1);
    check_described("cublaslt: 12.9.0 (");
    unsetenv("TCC_LIBRARIES");
}

/* Each call of the library fails once: an error that names it, and nothing left. */
static void test_failures(void **state) {
    (void)state;
    if (!lt.inject) skip();
    enum { EXECUTION_FAILED = 13 };
    int failed = 0;
    tcc_matmul_params p = product(2, 16, 16, 600, true, false);
    p.bias = 1;
    for (int n = 1;; n++) {
        rig r;
        sim.restart();
        lt.restart();
        lt.inject(n, EXECUTION_FAILED);
        tcc_status s = start(&r, &p);
        for (int i = 0; i < BINDINGS && s == TCC_OK; i++) {
            void *data = random_data(TCC_F32, elements(&p, i), 1);
            s = r.device->ops->upload(r.device, &r.cx.diag, r.memory[i], data, tcc_type_bytes(&r.program->bindings[i].type));
            free(data);
        }
        if (s == TCC_OK) s = tcc_exec_run(r.exec, &r.cx.diag);
        if (s == TCC_OK) s = r.device->ops->synchronize(r.device, &r.cx.diag);
        if (s != TCC_OK && (s != TCC_EDEVICE || !strstr(tcc_diag_text(&r.cx.diag), ": CUBLAS_STATUS_EXECUTION_FAILED") ||
                            !strstr(tcc_diag_text(&r.cx.diag), "in program 'product', step 0 (dot; net.c:7)")))
            fail_msg("call %d: %s: %s", n, tcc_status_name(s), tcc_diag_text(&r.cx.diag));
        rig_stop(&r);
        check_nothing_alive();
        if (s == TCC_OK) break;
        failed++;
    }
    assert_true(failed >= 20);
}

/* --- graphs */

static bool ask_device(void *user, const char *name, int64_t *params) {
    rig *r = user;
    return r->device->ops->takes_call(r->device, &r->cx, name, params);
}

static int library_steps(const tcc_program *p) {
    int n = 0;
    for (int i = 0; i < p->n_steps; i++) n += p->steps[i].kind == TCC_STEP_LIBRARY;
    return n;
}

/* Compiled for the device, run, compared with the interpreter; `calls` of its steps are the library's, of `steps` in all. */
static void check_graph(const char *text, int calls, int steps) {
    rig r = {0};
    if (sim.restart) sim.restart();
    assert_ok(tcc_context_init(&r.cx), &r.cx.diag);
    tcc_diag *d = &r.cx.diag;
    assert_ok(tcc_device_cuda_create(&r.cx, -1, &r.device), d);
    const tcc_device_ops *ops = r.device->ops;
    tcc_graph *g = parse_graph(text, d), *planned;
    compiled_options options = {.tolerance = strstr(text, "bf16") ? 1e-2 : strstr(text, "f16") ? 2e-3 : 1e-4, .takes_call = ask_device, .takes_call_user = &r};
    tcc_llvm_target target;
    assert_ok(tcc_llvm_target_cuda("sm_80", d, &target), d);
    compiled_build(g, &options, &target, &r.cx, &planned, &r.program);
    if (library_steps(r.program) != calls || r.program->n_steps != steps) {
        tcc_strbuf list = {0};
        tcc_program_print_steps(&list, r.program);
        fail_msg("%s\n%d calls of %d steps, not %d of %d:\n%s", text, library_steps(r.program), r.program->n_steps, calls, steps, list.text);
    }
    tcc_value *inputs = random_inputs(planned, &options), *outputs = calloc((size_t)planned->outputs.count, sizeof *outputs);
    assert_ok(tcc_graph_eval(g, inputs, outputs, d), d);
    assert_ok(tcc_exec_create(&r.cx, r.device, r.program, &r.exec), d);
    void *memory[8] = {0};
    assert_true(r.program->n_bindings <= 8);
    for (int i = 0; i < r.program->n_bindings; i++) {
        int64_t bytes = tcc_type_bytes(&r.program->bindings[i].type);
        assert_ok(ops->alloc(r.device, d, bytes, &memory[i]), d);
        assert_ok(tcc_exec_bind(r.exec, d, i, memory[i], bytes), d);
        if (i >= planned->inputs.count) continue; /* an output: not even written before */
        void *packed = calloc(1, (size_t)bytes);
        tcc_value_store(&inputs[i], packed);
        assert_ok(ops->upload(r.device, d, memory[i], packed, bytes), d);
        free(packed);
    }
    assert_ok(tcc_exec_run(r.exec, d), d);
    for (int i = 0; i < planned->outputs.count; i++) {
        int binding = compiled_output_binding(planned, i);
        int64_t bytes = tcc_type_bytes(&r.program->bindings[binding].type);
        void *got = malloc((size_t)bytes);
        assert_ok(ops->download(r.device, d, got, memory[binding], bytes), d);
        compiled_compare(&planned->outputs.data[i], got, &outputs[i], &options);
        free(got);
    }
    for (int i = 0; i < r.program->n_bindings; i++) ops->free(r.device, memory[i], tcc_type_bytes(&r.program->bindings[i].type));
    free_values(inputs, planned->inputs.count);
    free_values(outputs, planned->outputs.count);
    tcc_llvm_target_clear(&target);
    tcc_graph_destroy(g);
    tcc_graph_destroy(planned);
    rig_stop(&r);
}

/* A dot of a (m x k, or stored the other way) and b with `rest` behind it as %3 and following. */
static void check_dot(const char *type, int batch, int m, int n, int k, bool ta, bool tb, const char *rest, int calls, int steps) {
    char text[2048], lead[16] = "", batches[64] = "";
    if (batch) snprintf(lead, sizeof lead, "%d,", batch), snprintf(batches, sizeof batches, "batch_a=[0], batch_b=[0], ");
    snprintf(text, sizeof text,
             "graph @dot {\n  %%0 = input {name=\"a\"} : %s[%s%d,%d]\n  %%1 = input {name=\"b\"} : %s[%s%d,%d]\n  %%2 = input {name=\"bias\"} : %s[%d]\n"
             "  %%3 = dot(%%0, %%1) {%scontract_a=[%d], contract_b=[%d]} : %s[%s%d,%d]\n%s}\n",
             type, lead, ta ? k : m, ta ? m : k, type, lead, tb ? n : k, tb ? k : n, type, n, batches, (batch > 0) + !ta, (batch > 0) + tb, type, lead, m, n,
             rest);
    check_graph(text, calls, steps);
}

static void test_graphs(void **state) {
    (void)state;
    if (!available()) skip();
    for (int form = 0; form < 4; form++) {
        check_dot("f32", 0, 256, 320, 272, form & 1, form & 2, "  output \"c\" %3\n", 1, 1);
        check_dot("f32", 4, 160, 176, 192, form & 1, form & 2, "  output \"c\" %3\n", 1, 1);
    }
    check_dot("bf16", 0, 256, 320, 272, false, true, "  output \"c\" %3\n", 1, 1);
    check_dot("f16", 0, 256, 320, 272, true, false, "  output \"c\" %3\n", 1, 1);
    check_dot("f32", 0, 64, 64, 64, false, false, "  output \"c\" %3\n", 0, 1); /* too small */
}

static void test_epilogues(void **state) {
    (void)state;
    if (!available()) skip();
    static const char bias[] = "  %4 = broadcast(%2) {dims=[1]} : f32[256,320]\n  %5 = add(%3, %4) : f32[256,320]\n";
    char text[1024];
    snprintf(text, sizeof text, "%s  output \"c\" %%5\n", bias);
    check_dot("f32", 0, 256, 320, 272, false, true, text, 1, 1);
    snprintf(text, sizeof text, "%s  %%6 = constant {values=[0]} : f32[256,320]\n  %%7 = max(%%5, %%6) : f32[256,320]\n  output \"c\" %%7\n", bias);
    check_dot("f32", 0, 256, 320, 272, false, true, text, 1, 1);
    /* what is stored before tanh is the library's, tanh ours */
    snprintf(text, sizeof text, "%s  %%6 = tanh(%%5) : f32[256,320]\n  output \"c\" %%5\n  output \"d\" %%6\n", bias);
    check_dot("f32", 0, 256, 320, 272, false, true, text, 1, 2);
    /* nothing is stored before tanh: the sum is long enough, or not */
    snprintf(text, sizeof text, "%s  %%6 = tanh(%%5) : f32[256,320]\n  output \"d\" %%6\n", bias);
    check_dot("f32", 0, 256, 320, 272, true, true, text, 1, 2);
    check_dot("f32", 0, 256, 320, 240, true, true, text, 0, 1);
    /* a bias of the rows is not the library's */
    check_dot("f32", 0, 512, 320, 272, false, false, "  %4 = slice(%0) {start=[0, 0], limit=[512, 1], stride=[1, 1]} : f32[512,1]\n  %5 = reshape(%4) : f32[512]\n"
              "  %6 = broadcast(%5) {dims=[0]} : f32[512,320]\n  %7 = add(%3, %6) : f32[512,320]\n  output \"c\" %7\n", 1, 2);
}

/* What the library refuses when it is asked is our own kernel's; sums with workspace are the library's. */
static void test_fallback(void **state) {
    (void)state;
    if (!lt.refuse || !available()) skip();
    check_dot("f32", 0, 256, 256, 600, false, false, "  output \"c\" %3\n", 1, 1);
    lt.refuse(512);
    check_dot("f32", 0, 256, 256, 600, false, false, "  output \"c\" %3\n", 0, 2); /* in parts that a second step adds */
    check_dot("f32", 0, 256, 256, 300, false, false, "  output \"c\" %3\n", 1, 1);
    setenv("TCC_LIBRARIES", "none", 1);
    check_dot("f32", 0, 256, 256, 300, false, false, "  output \"c\" %3\n", 0, 2);
    unsetenv("TCC_LIBRARIES");
}

/* --- training */

enum { TRAIN_BATCH = 256, TRAIN_WIDTH = 256, TRAIN_CLASSES = 5, TRAIN_STEPS = 3 };

static void mlp(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor y = tcc_mlp(t, tcc_input(t, "x"), &(tcc_mlp_options){.n_hidden = 2, .hidden = (int64_t[]){TRAIN_WIDTH, TRAIN_WIDTH}, .outputs = TRAIN_CLASSES});
    tcc_loss(t, tcc_cross_entropy(y, tcc_input(t, "y")));
}

static void train(const char *device, double losses[TRAIN_STEPS]) {
    static float x[TRAIN_BATCH * TRAIN_WIDTH];
    static int32_t y[TRAIN_BATCH];
    tcc_context *cx;
    tcc_model *m;
    for (int i = 0; i < TRAIN_BATCH * TRAIN_WIDTH; i++) x[i] = (float)((i * 37 + i / TRAIN_WIDTH * 11) % 101) / 101 - 0.5f;
    for (int i = 0; i < TRAIN_BATCH; i++) y[i] = i % TRAIN_CLASSES;
    const tcc_array batch[] = {{.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {TRAIN_BATCH, TRAIN_WIDTH}, .data = x},
                               {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {TRAIN_BATCH}, .data = y}};
    const tcc_model_options o = {.size = sizeof o, .device = device, .seed = 7, .optimizer = {.size = sizeof(tcc_optimizer_options), .kind = TCC_ADAMW, .lr = 1e-3}};
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    if (tcc_model_create(cx, mlp, NULL, &o, &m) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    for (int i = 0; i < TRAIN_STEPS; i++) {
        if (tcc_model_train(m, batch, 2) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
        losses[i] = tcc_model_loss(m);
    }
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* The products of a training step are the library's, and its losses the CPU's. */
static void test_training(void **state) {
    (void)state;
    if (!available()) skip();
    cublasltsim_counts before = {0}, after = {0};
    double expected[TRAIN_STEPS], got[TRAIN_STEPS];
    train("cpu", expected);
    if (lt.get_counts) lt.get_counts(&before);
    train("cuda", got);
    if (lt.get_counts) lt.get_counts(&after);
    for (int i = 0; i < TRAIN_STEPS; i++)
        if (!(fabs(got[i] - expected[i]) <= 1e-5 * expected[i])) fail_msg("step %d: loss %.9g instead of %.9g", i, got[i], expected[i]);
    if (lt.get_counts && after.products - before.products != TRAIN_STEPS * 5) /* two layers forward, their weights, and one input */
        fail_msg("%d products", after.products - before.products);
}

/* Descriptors need no device: the real library, where it is installed, takes every attribute that we set, and says what it is. */
static void test_attributes(void **state) {
    (void)state;
    static tcc_cublaslt_library library;
    const tcc_cuda_driver newest = {.version = 13000};
    tcc_cublaslt_find(&newest, &library);
    if (!library.usable) skip();
    printf("%s\n", library.text);
    const tcc_cublaslt_functions *f = &library.f;
    static const int computes[] = {TCC_CUBLAS_COMPUTE_32F, TCC_CUBLAS_COMPUTE_32F_FAST_TF32}, types[] = {TCC_CUDA_R_32F, TCC_CUDA_R_16F, TCC_CUDA_R_16BF};
    const int32_t transposed = TCC_CUBLAS_OP_T, type = TCC_CUDA_R_16BF, batch = 3;
    const uint32_t epilogue = TCC_CUBLASLT_EPILOGUE_RELU | TCC_CUBLASLT_EPILOGUE_BIAS, alignment = 16;
    const void *bias = (const void *)(uintptr_t)16;
    const int64_t stride = 384;
    const uint64_t workspace = WORKSPACE;
    void *desc, *layout, *preference;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(f->matmul_create(&desc, computes[i], TCC_CUDA_R_32F), 0);
        assert_int_equal(f->matmul_set(desc, TCC_CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed), 0);
        assert_int_equal(f->matmul_set(desc, TCC_CUBLASLT_MATMUL_DESC_TRANSB, &transposed, sizeof transposed), 0);
        assert_int_equal(f->matmul_set(desc, TCC_CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue), 0);
        assert_int_equal(f->matmul_set(desc, TCC_CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias), 0);
        assert_int_equal(f->matmul_set(desc, TCC_CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type), 0);
        assert_int_equal(f->matmul_destroy(desc), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(f->layout_create(&layout, types[i], 16, 24, 16), 0);
        assert_int_equal(f->layout_set(layout, TCC_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch), 0);
        assert_int_equal(f->layout_set(layout, TCC_CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride), 0);
        assert_int_equal(f->layout_destroy(layout), 0);
    }
    assert_int_equal(f->preference_create(&preference), 0);
    assert_int_equal(f->preference_set(preference, TCC_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(f->preference_set(preference, TCC_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i, &alignment, sizeof alignment), 0);
    assert_int_equal(f->preference_destroy(preference), 0);
    assert_string_equal(f->status_name(TCC_CUBLAS_ALLOC_FAILED), "CUBLAS_STATUS_ALLOC_FAILED");
    assert_string_equal(f->status_name(TCC_CUBLAS_INVALID_VALUE), "CUBLAS_STATUS_INVALID_VALUE");
    assert_string_equal(f->status_name(TCC_CUBLAS_ARCH_MISMATCH), "CUBLAS_STATUS_ARCH_MISMATCH");
    assert_string_equal(f->status_name(TCC_CUBLAS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_products, fresh, finish),
        cmocka_unit_test_setup_teardown(test_types, fresh, finish),
        cmocka_unit_test_setup_teardown(test_refused, fresh, finish),
        cmocka_unit_test_setup_teardown(test_workspace_is_lowered, fresh, finish),
        cmocka_unit_test_setup_teardown(test_library_missing, fresh, finish),
        cmocka_unit_test_setup_teardown(test_failures, fresh, finish),
        cmocka_unit_test_setup_teardown(test_graphs, fresh, finish),
        cmocka_unit_test_setup_teardown(test_epilogues, fresh, finish),
        cmocka_unit_test_setup_teardown(test_fallback, fresh, finish),
        cmocka_unit_test_setup_teardown(test_training, fresh, finish),
        cmocka_unit_test_setup_teardown(test_attributes, fresh, finish),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
