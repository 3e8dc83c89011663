/* SPDX-License-Identifier: MIT
 * Dots and convolutions with what is fused to them, compiled for a GPU, against the interpreter; their traffic; no
 * spills. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/gpu_program.h"
#include "harness/graphs.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const archs[] = {"sm_75", "sm_80", "sm_90"};

static gpu_program *create_with(const char *text, const char *arch, const compiled_options *options) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    gpu_program *p = gpu_program_create(g, options, arch);
    tcc_graph_destroy(g);
    return p;
}

static gpu_program *create(const char *text, const char *arch) {
    return create_with(text, arch, &(compiled_options){0});
}

/* For old and new devices, without spills. */
static void assemble_with(const char *text, const compiled_options *options) {
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        gpu_program *p = create_with(text, archs[i], options);
        assert_true(gpu_assemble(p->program, archs[i]) <= 0);
        gpu_program_destroy(p);
    }
}

static void assemble(const char *text) { assemble_with(text, &(compiled_options){0}); }

static double tolerance_of(const char *text) { return strstr(text, "f64") ? 1e-12 : 1e-4; } /* of a type or a graph */

/* Against the interpreter, every contraction by this schedule; and assembled. */
static void check(const char *text) {
    check_gpu_text(text, &(compiled_options){.tolerance = tolerance_of(text)});
    gpu_program *p = create(text, "sm_90");
    bool found = false;
    for (int i = 0; i < p->program->n_kernels; i++)
        found = found || !strcmp(p->program->kernels[i].schedule, "contract");
    assert_true(found);
    gpu_program_destroy(p);
    assemble(text);
}

/* A graph's text with `type` wherever it said f32. */
static void retype(char *text, const char *type) {
    for (char *at = text; (at = strstr(at, "f32")); at += 3) memcpy(at, type, 3);
}

static void dot_text(char *text, size_t size, const char *type, int m, int n, int k, bool a_columns, bool b_columns) {
    char a[64], b[64];
    snprintf(a, sizeof a, "f32[%d,%d]", a_columns ? k : m, a_columns ? m : k);
    snprintf(b, sizeof b, "f32[%d,%d]", b_columns ? n : k, b_columns ? k : n);
    snprintf(text, size,
             "graph @dot {\n  %%0 = input {name=\"a\"} : %s\n  %%1 = input {name=\"b\"} : %s\n  %%2 = dot(%%0, %%1) "
             "{contract_a=[%d], contract_b=[%d]} : "
             "f32[%d,%d]\n  output \"c\" %%2\n}\n",
             a, b, !a_columns, b_columns, m, n);
    retype(text, type);
}

static void dot(const char *type, int m, int n, int k, bool a_columns, bool b_columns) {
    char text[1024];
    dot_text(text, sizeof text, type, m, n, k, a_columns, b_columns);
    check_gpu_text(text, &(compiled_options){.tolerance = tolerance_of(type)});
}

static void dots_of_every_layout(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *type = i ? "f64" : "f32";
        for (int layout = 0; layout < 4; layout++) {
            dot(type, 40, 36, 24, layout & 1, layout & 2);
            dot(type, 33, 65, 37, layout & 1, layout & 2); /* nothing is a multiple of anything */
            dot(type, 1, 10, 5, layout & 1, layout & 2);
            dot(type, 130, 132, 20, layout & 1, layout & 2);
        }
        dot(type, 300, 260, 40, false, true);
        dot(type, 7, 5, 1, false, false);
        dot(type, 65, 64, 640, true, false); /* split */
    }
}

/* The largest tiles have the most to keep in registers. */
static void large_dots_do_not_spill(void **state) {
    (void)state;
    for (int form = 0; form < 12; form++) {
        char text[1024];
        bool wide = form >= 8, odd = wide ? form & 1 : form & 4; /* f64: along k, and not */
        dot_text(text, sizeof text, wide ? "f64" : "f32", 4096 + odd, 4096 + odd, 1024 + odd,
                 wide ? form & 2 : form & 1, wide ? false : form & 2);
        assemble(text);
    }
}

/* In f32, and in f64. */
static void check_types(const char *text) {
    char wide[4096];
    check(text);
    snprintf(wide, sizeof wide, "%s", text);
    retype(wide, "f64");
    check(wide);
}

static void work_behind_parts(void **state) {
    (void)state;
    check_types("graph @split {\n"
                "  %0 = input {name=\"x\"} : f32[3000,20]\n"
                "  %1 = input {name=\"dy\"} : f32[3000,18]\n"
                "  %2 = input {name=\"m\"} : f32[18,20]\n"
                "  %3 = dot(%1, %0) {contract_a=[0], contract_b=[0]} : f32[18,20]\n"
                "  %4 = add(%3, %2) : f32[18,20]\n"
                "  output \"dw\" %4\n"
                "}\n");
}

static void dots_with_views_and_work(void **state) {
    (void)state;
    for (int i = 0; i < DOT_GRAPHS; i++) check_types(dot_graphs[i]);
}

static void narrow_types_sum_in_float(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        char text[1024];
        snprintf(
            text, sizeof text,
            "graph @narrow {\n  %%0 = input {name=\"x\"} : %1$s[2,20,40]\n  %%1 = input {name=\"w\"} : %1$s[50,40]\n"
            "  %%2 = dot(%%0, %%1) {contract_a=[2], contract_b=[1]} : %1$s[2,20,50]\n  %%3 = cast(%%2) : f32[2,20,50]\n"
            "  output \"y\" %%2\n  output \"z\" %%3\n}\n",
            i ? "bf16" : "f16");
        check_gpu_text(text, &(compiled_options){.tolerance = i ? 1e-2 : 2e-3});
    }
}

/* a (m x k) times b, of `type`, each with k or its rows contiguous. */
static void matrix_text(char *text, size_t size, const char *type, int m, int n, int k, int layout) {
    bool a_columns = layout & 1, b_columns = layout & 2;
    snprintf(text, size,
             "graph @dot {\n  %%0 = input {name=\"a\"} : %s[%d,%d]\n  %%1 = input {name=\"b\"} : %s[%d,%d]\n"
             "  %%2 = dot(%%0, %%1) {contract_a=[%d], contract_b=[%d]} : %s[%d,%d]\n  output \"c\" %%2\n}\n",
             type, a_columns ? k : m, a_columns ? m : k, type, b_columns ? n : k, b_columns ? k : n, !a_columns,
             b_columns, type, m, n);
}

/* What tensor cores take; and what they do not, because it is not whole pieces of 16 bytes. */
static void tensor_cores(void **state) {
    (void)state;
    static const struct {
        const char *type;
        double tolerance;
    } types[] = {{"f16", 3e-3}, {"bf16", 2e-2}, {"f32", 0}}; /* tf32: by the length of the sum */
    static const int sizes[][3] = {{64, 64, 32}, {72, 40, 48},   {136, 200, 24}, {160, 136, 264},
                                   {8, 8, 8},    {64, 72, 1032}, {33, 17, 25}};
    ptxsim_stats s;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int layout = 0; layout < 4; layout++) {
                char text[1024];
                matrix_text(text, sizeof text, types[t].type, sizes[i][0], sizes[i][1], sizes[i][2], layout);
                if (sim.reset_stats) sim.reset_stats();
                double tolerance = types[t].tolerance ? types[t].tolerance : 8e-4 * sqrt(sizes[i][2]);
                check_gpu_text(text, &(compiled_options){.tolerance = tolerance, .tf32 = true});
                if (!sim.get_stats) continue;
                assert_int_equal(sim.get_stats(NULL, &s), 0);
                assert_int_equal(s.matrix_instructions > 0, sizes[i][0] % 8 == 0);
                assert_int_equal(s.shared_conflicts, 0);
            }
}

static void tensor_cores_do_not_spill(void **state) {
    (void)state;
    static const char *const types[] = {"bf16", "f32"};
    for (int i = 0; i < 8; i++) {
        char text[1024];
        matrix_text(text, sizeof text, types[i / 4], 4096, 4096, 1024, i % 4);
        assemble_with(text, &(compiled_options){.tf32 = true});
    }
}

/* f32 stays exact unless tf32 is allowed. */
static void tf32_is_asked_for(void **state) {
    (void)state;
    char text[1024];
    matrix_text(text, sizeof text, "f32", 64, 64, 64, 0);
    for (int i = 0; i < 2; i++) {
        gpu_program *p = create_with(text, "sm_80", &(compiled_options){.tf32 = i});
        bool found = false;
        for (int k = 0; k < p->program->n_modules; k++) found = found || strstr(p->program->modules[k].code, "tf32");
        assert_int_equal(found, i);
        gpu_program_destroy(p);
    }
}

static void narrow_convolutions(void **state) {
    (void)state;
    char text[4096];
    conv_graph c = {2, 16, 8, 8,   24, 3, 3, "stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1]",
                    8, 8,  1, true};
    conv_graph_text(text, sizeof text, &c);
    retype(text, "f16");
    check_gpu_text(text, &(compiled_options){.tolerance = 5e-3});
    conv_graph_text(text, sizeof text, &c);
    check_gpu_text(text, &(compiled_options){.tolerance = 1e-2, .tf32 = true});
}

static void conv(conv_graph c) {
    char text[4096];
    conv_graph_text(text, sizeof text, &c);
    check(text);
}

static void wide_convolutions(void **state) {
    (void)state;
    static const conv_graph convs[] = {
        {2, 5, 7, 6, 18, 3, 3, "stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1]", 7, 6, 1, true},
        {2, 6, 6, 6, 6, 3, 3, "stride=[2, 1], pad_lo=[1, 1], pad_hi=[0, 1], dilation=[1, 1]", 3, 6, 2, false},
        {2, 8, 6, 6, 8, 3, 3, "stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1]", 6, 6, 8, true}};
    for (int i = 0; i < 3; i++) { /* the last one is one of each channel */
        char text[4096];
        conv_graph_text(text, sizeof text, &convs[i]);
        retype(text, "f64");
        check_gpu_text(text, &(compiled_options){.tolerance = tolerance_of(text)});
    }
}

static void convolutions(void **state) {
    (void)state;
    conv((conv_graph){2, 5, 7, 6, 18, 3, 3, "stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1]", 7, 6, 1,
                      true});
    conv((conv_graph){2, 16, 8, 8, 12, 3, 3, "stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1]", 4, 4, 1,
                      true});
    conv((conv_graph){2, 3, 9, 9, 8, 5, 3, "stride=[1, 3], pad_lo=[2, 0], pad_hi=[1, 1], dilation=[1, 1]", 8, 3, 1,
                      true});
    conv((conv_graph){4, 32, 5, 6, 32, 3, 2, "stride=[1, 1], pad_lo=[2, 1], pad_hi=[1, 1], dilation=[1, 2]", 6, 6, 2,
                      true});
}

static void convolutions_in_groups_and_channels_first(void **state) {
    (void)state;
    conv((conv_graph){2, 6, 6, 5, 9, 3, 2, "stride=[1, 1], pad_lo=[1, 0], pad_hi=[1, 0], dilation=[1, 1]", 6, 4, 3,
                      true});
    conv((conv_graph){2, 4, 6, 6, 6, 3, 3, "stride=[2, 1], pad_lo=[1, 1], pad_hi=[0, 1], dilation=[1, 1]", 3, 6, 2,
                      false});
    conv((conv_graph){2, 3, 7, 6, 17, 3, 3, "stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1]", 7, 6, 1,
                      false});
    conv((conv_graph){1, 2, 7, 6, 3, 2, 2, "stride=[2, 2], pad_lo=[0, 0], pad_hi=[0, 1], dilation=[2, 2]", 3, 3, 1,
                      true});
}

/* Tensor cores read as often, and meet as seldom in banks. */
static void matrix_traffic(void **state) {
    (void)state;
    skip_without(sim.get_stats, STAND_IN_COUNTS);
    char text[1024];
    enum { M = 2048, K = 64, TILE = 128 };
    uint16_t *zeros = calloc(M * K, sizeof *zeros);
    for (int layout = 0; layout < 4; layout++) {
        matrix_text(text, sizeof text, "bf16", M, M, K, layout);
        gpu_program *p = create(text, "sm_90");
        for (int i = 0; i < 2; i++) gpu_program_upload(p, i, zeros);
        sim.reset_stats();
        gpu_program_run(p);
        ptxsim_stats s;
        assert_int_equal(sim.get_stats(NULL, &s), 0);
        assert_int_equal(s.matrix_instructions, M / 16 * (M / 8) * (K / 16));
        assert_int_equal(s.global_read_bytes, 2 * 2 * M * K * (M / TILE));
        assert_int_equal(s.global_write_bytes, 2 * M * M);
        assert_int_equal(s.global_sectors * 32, s.global_read_bytes + s.global_write_bytes);
        assert_int_equal(s.shared_conflicts, 0);
        gpu_program_destroy(p);
    }
    free(zeros);
}

/* Every tile of an operand is read once for each tile of the other, 16 bytes at a time, and no two threads meet in a
 * bank. */
static void traffic(void **state) {
    (void)state;
    skip_without(sim.get_stats, STAND_IN_COUNTS);
    enum { EXTENT = 2048, K = 32, TILE = 128 };
    double *zeros = calloc(EXTENT * K, sizeof *zeros);
    for (int form = 0; form < 3; form++) {
        const char *type = form ? "f64" : "f32";
        const uint64_t bytes = form ? 8 : 4;
        char text[1024];
        dot_text(text, sizeof text, type, EXTENT, EXTENT, K, false, form == 2); /* B along its rows, and along k */
        gpu_program *p = create(text, "sm_90");
        gpu_program_upload(p, 0, zeros);
        gpu_program_upload(p, 1, zeros);
        assert_int_equal(p->program->n_kernels, 1);
        sim.reset_stats();
        gpu_program_run(p);
        ptxsim_stats s;
        assert_int_equal(sim.get_stats(NULL, &s), 0);
        assert_int_equal(s.global_read_bytes, 2 * EXTENT * K * bytes * (EXTENT / TILE));
        assert_int_equal(s.global_write_bytes, EXTENT * EXTENT * bytes);
        assert_int_equal(s.global_sectors * 32, s.global_read_bytes + s.global_write_bytes);
        assert_int_equal(s.global_loads[4] * 16, s.global_read_bytes);
        assert_int_equal(s.global_stores[4] * 16, s.global_write_bytes);
        assert_int_equal(s.shared_conflicts, 0);
        gpu_program_destroy(p);
    }
    free(zeros);
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dots_of_every_layout),
        cmocka_unit_test(large_dots_do_not_spill),
        cmocka_unit_test(work_behind_parts),
        cmocka_unit_test(dots_with_views_and_work),
        cmocka_unit_test(narrow_types_sum_in_float),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(convolutions_in_groups_and_channels_first),
        cmocka_unit_test(traffic),
        cmocka_unit_test(tensor_cores),
        cmocka_unit_test(tensor_cores_do_not_spill),
        cmocka_unit_test(tf32_is_asked_for),
        cmocka_unit_test(narrow_convolutions),
        cmocka_unit_test(wide_convolutions),
        cmocka_unit_test(matrix_traffic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
