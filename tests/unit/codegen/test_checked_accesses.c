/* SPDX-License-Identifier: MIT
 * Checked accesses (TCC_CHECK_ACCESS=1): a right program runs and gives its bits, and each kind of wrong one is an
 * error that names the kernel, the user's line, the buffer and the offset. The wrong ones are right ones whose buffers
 * or params were changed behind the compiler's back. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"

#include "codegen/contract/computed.h"
#include "runtime/cpu/device.h"

#include <stdlib.h>

enum { BINDINGS = 4, MOST = 24 * 5 * 5 * 32 };

static const char sums[] = "graph @sums {\n"
                           "  %0 = input {name=\"x\"} : f32[5,37]\n"
                           "  %1 = input {name=\"y\"} : f32[5,37]\n"
                           "  %2 = mul(%0, %1) : f32[5,37] loc(\"net.c\":5)\n"
                           "  %3 = reduce_sum(%2) {axes=[1]} : f32[5] loc(\"net.c\":6)\n"
                           "  output \"s\" %3\n"
                           "}\n";
static const char product[] = "graph @product {\n"
                              "  %0 = input {name=\"x\"} : f32[48,40]\n"
                              "  %1 = input {name=\"w\"} : f32[40,64]\n"
                              "  %2 = dot(%0, %1) {contract_a=[1], contract_b=[0]} : f32[48,64] loc(\"net.c\":5)\n"
                              "  output \"z\" %2\n"
                              "}\n";

/* A filter's gradient whose kernel computes the image. */
static const char gradient[] = "graph @gradient {\n"
                               "  %0 = input {name=\"x\"} : f32[4,9,11,32]\n"
                               "  %1 = input {name=\"mean\"} : f32[32]\n"
                               "  %2 = input {name=\"dy\"} : f32[4,5,7,24]\n"
                               "  %3 = broadcast(%1) {dims=[3]} : f32[4,9,11,32]\n"
                               "  %4 = sub(%0, %3) : f32[4,9,11,32] loc(\"net.c\":5)\n"
                               "  %5 = conv_grad_weight(%4, %2) {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], "
                               "dilation=[1, 1], groups=1, channels_last=true} : f32[24,5,5,32] loc(\"net.c\":7)\n"
                               "  output \"dw\" %5\n"
                               "}\n";

typedef struct made {
    tcc_context cx;
    tcc_llvm_target target;
    tcc_graph *graph;
    tcc_program *program;
} made;

/* Each op is a kernel, unless the gradient's. */
static void make_for(made *m, const char *cpu, const char *text, const char *checks) {
    setenv("TCC_CHECK_ACCESS", checks, 1);
    *m = (made){0};
    assert_ok(tcc_context_init(&m->cx), &m->cx.diag);
    tcc_graph *g = parse_graph(text, &m->cx.diag);
    assert_ok(tcc_llvm_target_host(cpu, &m->cx.diag, &m->target), &m->cx.diag);
    compiled_build(g, &(compiled_options){.eager = text != gradient}, &m->target, &m->cx, &m->graph, &m->program);
    tcc_graph_destroy(g);
}

static void make(made *m, const char *text, const char *checks) { make_for(m, NULL, text, checks); }

static void clear(made *m) {
    tcc_program_destroy(m->program);
    tcc_graph_destroy(m->graph);
    tcc_llvm_target_clear(&m->target);
    tcc_context_clear(&m->cx);
}

/* Runs it; `out` gets the bytes of the last binding. Two of its threads find what one does. */
static tcc_status run(made *m, int threads, float *out) {
    static float memory[BINDINGS][MOST] __attribute__((aligned(64)));
    tcc_device *device;
    tcc_exec *exec;
    tcc_diag *diag = &m->cx.diag;
    tcc_diag_clear(diag);
    assert_ok(tcc_device_cpu_create(&m->cx, threads, &device), diag);
    assert_ok(tcc_exec_create(&m->cx, device, m->program, &exec), diag);
    const int n = m->program->n_bindings;
    for (int i = 0; i < n; i++) {
        const int64_t bytes = tcc_type_bytes(&m->program->bindings[i].type);
        for (int k = 0; k < MOST; k++) memory[i][k] = (float)(k % 17) - 8 + (float)i;
        assert_ok(tcc_exec_bind(exec, diag, i, memory[i], bytes), diag);
    }
    tcc_status status = tcc_exec_run(exec, diag);
    if (out) memcpy(out, memory[n - 1], (size_t)tcc_type_bytes(&m->program->bindings[n - 1].type));
    tcc_exec_destroy(exec);
    tcc_device_destroy(device);
    return status;
}

/* The same bits, from code that is the same but for the checks; without them it is what it was. */
static void right_programs_run(void **state) {
    (void)state;
    static const char *const texts[] = {sums, product, gradient};
    static float out[2][MOST];
    for (int i = 0; i < 3; i++) {
        made m[3];
        for (int k = 0; k < 3; k++) {
            make(&m[k], texts[i], k == 1 ? "1" : "0");
            if (k < 2) assert_ok(run(&m[k], 2, out[k]), &m[k].cx.diag);
        }
        assert_memory_equal(out[0], out[1], sizeof out[0]);
        const tcc_module *plain = &m[0].program->modules[0], *checked = &m[1].program->modules[0],
                         *again = &m[2].program->modules[0];
        assert_true(checked->size_bytes > plain->size_bytes);
        assert_int_equal(plain->size_bytes, again->size_bytes);
        assert_memory_equal(plain->code, again->code, (size_t)plain->size_bytes);
        for (int k = 0; k < 3; k++) clear(&m[k]);
    }
}

/* Code for other CPUs is checked as well: masks without registers of their own, tiles of registers. */
static void other_targets_are_checked(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for CPUs of x86-64");
    static const char *const cpus[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "cooperlake", "sapphirerapids"};
    static const char bf16[] = "graph @bf16 {\n"
                               "  %0 = input {name=\"x\"} : bf16[64,96]\n"
                               "  %1 = input {name=\"w\"} : bf16[96,64]\n"
                               "  %2 = dot(%0, %1) {contract_a=[1], contract_b=[0]} : bf16[64,64]\n"
                               "  output \"z\" %2\n"
                               "}\n";
    for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++) {
        made m[2];
        for (int k = 0; k < 2; k++) make_for(&m[k], cpus[i], bf16, k ? "1" : "0");
        assert_true(m[1].program->modules[0].size_bytes > m[0].program->modules[0].size_bytes);
        for (int k = 0; k < 2; k++) clear(&m[k]);
    }
}

/* Buffers and params of a step's one instance, to be changed. */
static tcc_buffer *buffers_of(made *m, int step) { return (tcc_buffer *)m->program->steps[step].instances->buffers; }
static int64_t *params_of(made *m, int step) { return (int64_t *)m->program->steps[step].instances->params; }

static void expect_error(made *m, const char *const *parts, int n) {
    for (int threads = 1; threads <= 2; threads++)
        for (int i = 0; i < n; i++) assert_error(run(m, threads, NULL), TCC_EBUG, &m->cx.diag, parts[i]);
    clear(m);
}
#define EXPECT(m, ...) \
    expect_error(m, (const char *[]){__VA_ARGS__}, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)))

static void a_load_beyond_its_buffer(void **state) {
    (void)state;
    made m;
    make(&m, sums, "1");
    buffers_of(&m, 0)[1].size_bytes -= 4; /* one element */
    EXPECT(&m, "reads ", "of buffer 1, 'y' (f32[5,37])", "which lie outside of it", "pointwise_0", "net.c:5");
    make(&m, product, "1");
    params_of(&m, 0)[1] += 8; /* where B begins: vectors, or what is packed from them */
    EXPECT(&m, "contract_0 reads ", "'w' (f32[40,64]), 10240 bytes", "outside", "net.c:5");
    make(&m, product, "1");
    params_of(&m, 0)[0] -= 1;
    EXPECT(&m, "contract_0 reads ", "at offset -4 of buffer 0, 'x' (f32[48,40])", "outside", "net.c:5");
}

static void a_store_beyond_its_buffer(void **state) {
    (void)state;
    made m;
    make(&m, product, "1");
    buffers_of(&m, 0)[2].size_bytes -= 16;
    EXPECT(&m, "contract_0 writes ", "of buffer 2, 'z' (f32[48,64])", "which lie outside of it", "net.c:5");
    make(&m, sums, "1");
    params_of(&m, 0);
    buffers_of(&m, 1)[1].size_bytes = 16; /* of five sums */
    EXPECT(&m, "reduce_1 writes ", "at offset 16 of buffer 1, 's' (f32[5])", "outside", "net.c:6");
}

static void a_load_of_what_was_not_written(void **state) {
    (void)state;
    made m;
    make(&m, sums, "1");
    tcc_buffer *product_of = &buffers_of(&m, 1)[0];
    assert_int_equal(product_of->space, TCC_SPACE_ARENA);
    m.program->arena_bytes += 64;
    product_of->offset_bytes += 64;
    EXPECT(&m, "reduce_1 reads ", "bytes from 64 on of the arena", "which nothing has written", "net.c:6");
}

static void a_store_to_what_is_read(void **state) {
    (void)state;
    made m;
    make(&m, sums, "1");
    buffers_of(&m, 1)[1] = (tcc_buffer){TCC_SPACE_BINDING, 0, 0, 64};
    EXPECT(&m, "reduce_1 writes ", "'x' (f32[5,37])", "which is only read by the program");
}

/* Here a column of several pixels' channels is taken for a channel where that is wanted, as it once was. */
static bool forgets_pixels;
void __real_tcc_computed_columns(tcc_computed_run *r, tcc_emit_value column, int64_t n_columns, tcc_emit_value mask);
void __wrap_tcc_computed_columns(tcc_computed_run *r, tcc_emit_value column, int64_t n_columns, tcc_emit_value mask);
void __wrap_tcc_computed_columns(tcc_computed_run *r, tcc_emit_value column, int64_t n_columns, tcc_emit_value mask) {
    __real_tcc_computed_columns(r, column, forgets_pixels ? 0 : n_columns, mask);
}

static void a_vector_of_channels_beyond_its_end(void **state) {
    (void)state;
    made m;
    forgets_pixels = true;
    make(&m, gradient, "1");
    forgets_pixels = false;
    EXPECT(&m, "contract_0 reads ", "'mean' (f32[32]), 128 bytes", "which lie outside of it", "net.c:5,7");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(right_programs_run),
                                       cmocka_unit_test(other_targets_are_checked),
                                       cmocka_unit_test(a_load_beyond_its_buffer),
                                       cmocka_unit_test(a_store_beyond_its_buffer),
                                       cmocka_unit_test(a_load_of_what_was_not_written),
                                       cmocka_unit_test(a_store_to_what_is_read),
                                       cmocka_unit_test(a_vector_of_channels_beyond_its_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
