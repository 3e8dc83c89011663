/* SPDX-License-Identifier: MIT
 * Attention of graphs, compiled and run against the interpreter: heads inside a packed projection, gradients, masks. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"

#include <string.h>

/* The text is right, and runs as attention kernels. */
static void check(const char *text) {
    tcc_diag diag = {0};
    check_text(text, &(compiled_options){.tolerance = 1e-4});
    tcc_graph *g = parse_graph(text, &diag);
    compiled *c = compiled_create(g, &(compiled_options){0});
    bool found = false;
    for (int i = 0; i < c->program->n_kernels; i++) found = found || !strcmp(c->program->kernels[i].schedule, "attention");
    assert_true(found);
    compiled_destroy(c);
    tcc_graph_destroy(g);
}

#define HEADS                                                                                                                     \
    "  %0 = input {name=\"qkv\"} : f32[2,16,96]\n"                                                                                \
    "  %1 = slice(%0) {start=[0, 0, 0], limit=[2, 16, 32], stride=[1, 1, 1]} : f32[2,16,32]\n"                                     \
    "  %2 = reshape(%1) : f32[2,16,4,8]\n"                                                                                        \
    "  %3 = transpose(%2) {perm=[0, 2, 1, 3]} : f32[2,4,16,8]\n"                                                                   \
    "  %4 = slice(%0) {start=[0, 0, 32], limit=[2, 16, 64], stride=[1, 1, 1]} : f32[2,16,32]\n"                                    \
    "  %5 = reshape(%4) : f32[2,16,4,8]\n"                                                                                        \
    "  %6 = transpose(%5) {perm=[0, 2, 1, 3]} : f32[2,4,16,8]\n"                                                                   \
    "  %7 = slice(%0) {start=[0, 0, 64], limit=[2, 16, 96], stride=[1, 1, 1]} : f32[2,16,32]\n"                                    \
    "  %8 = reshape(%7) : f32[2,16,4,8]\n"                                                                                        \
    "  %9 = transpose(%8) {perm=[0, 2, 1, 3]} : f32[2,4,16,8]\n"

static void heads_in_place(void **state) {
    (void)state;
    check("graph @heads {\n" HEADS
          "  %10 = sdpa(%3, %6, %9) {scale=0.5, causal=true} : f32[2,4,16,8]\n"
          "  %11 = transpose(%10) {perm=[0, 2, 1, 3]} : f32[2,16,4,8]\n"
          "  %12 = reshape(%11) : f32[2,16,32]\n"
          "  %13 = sdpa_lse(%3, %6) {scale=0.5, causal=true} : f32[2,4,16]\n"
          "  output \"y\" %12\n"
          "  output \"lse\" %13\n"
          "}\n");
    check("graph @twice {\n" HEADS
          "  %10 = sdpa(%3, %6, %9) {scale=1} : f32[2,4,16,8]\n"
          "  %11 = transpose(%10) {perm=[0, 2, 1, 3]} : f32[2,16,4,8]\n"
          "  %12 = reshape(%11) : f32[2,16,32]\n"
          "  output \"y\" %12\n"
          "  output \"o\" %10\n"
          "}\n");
}

static void gradients(void **state) {
    (void)state;
    check("graph @gradients {\n" HEADS
          "  %10 = input {name=\"d\"} : f32[2,16,32]\n"
          "  %11 = sdpa(%3, %6, %9) {scale=0.5, causal=true} : f32[2,4,16,8]\n"
          "  %12 = sdpa_lse(%3, %6) {scale=0.5, causal=true} : f32[2,4,16]\n"
          "  %13 = reshape(%10) : f32[2,16,4,8]\n"
          "  %14 = transpose(%13) {perm=[0, 2, 1, 3]} : f32[2,4,16,8]\n"
          "  %15 = sdpa_grad_q(%3, %6, %9, %11, %12, %14) {scale=0.5, causal=true} : f32[2,4,16,8]\n"
          "  %16 = sdpa_grad_k(%3, %6, %9, %11, %12, %14) {scale=0.5, causal=true} : f32[2,4,16,8]\n"
          "  %17 = sdpa_grad_v(%3, %6, %9, %11, %12, %14) {scale=0.5, causal=true} : f32[2,4,16,8]\n"
          "  %18 = transpose(%15) {perm=[0, 2, 1, 3]} : f32[2,16,4,8]\n"
          "  %19 = reshape(%18) : f32[2,16,32]\n"
          "  output \"dq\" %19\n"
          "  output \"dk\" %16\n"
          "  output \"dv\" %17\n"
          "}\n");
}

static void masks(void **state) {
    (void)state;
    check("graph @masks {\n"
          "  %0 = input {name=\"q\"} : f32[3,10,6]\n"
          "  %1 = input {name=\"k\"} : f32[3,13,6]\n"
          "  %2 = input {name=\"v\"} : f32[3,13,20]\n"
          "  %3 = input {name=\"m\"} : f32[3,10,13]\n"
          "  %4 = sdpa(%0, %1, %2, %3) {scale=1} : f32[3,10,20]\n"
          "  output \"y\" %4\n"
          "}\n");
}

static void narrow_types_sum_in_float(void **state) {
    (void)state;
    const char *const text = "graph @narrow {\n"
                             "  %0 = input {name=\"q\"} : bf16[3,10,16]\n"
                             "  %1 = input {name=\"k\"} : bf16[3,10,16]\n"
                             "  %2 = input {name=\"v\"} : bf16[3,10,16]\n"
                             "  %3 = input {name=\"d\"} : bf16[3,10,16]\n"
                             "  %4 = sdpa(%0, %1, %2) {scale=0.5, causal=true} : bf16[3,10,16]\n"
                             "  %5 = sdpa_lse(%0, %1) {scale=0.5, causal=true} : f32[3,10]\n"
                             "  %6 = sdpa_grad_q(%0, %1, %2, %4, %5, %3) {scale=0.5, causal=true} : bf16[3,10,16]\n"
                             "  %7 = transpose(%4) {perm=[1, 0, 2]} : bf16[10,3,16]\n"
                             "  output \"y\" %7\n"
                             "  output \"dq\" %6\n"
                             "}\n";
    check_text(text, &(compiled_options){.tolerance = 2e-2});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_in_place),
        cmocka_unit_test(gradients),
        cmocka_unit_test(masks),
        cmocka_unit_test(narrow_types_sum_in_float),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
