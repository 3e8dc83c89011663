/* SPDX-License-Identifier: MIT
 * Attention of graphs, compiled and run against the interpreter: heads inside a packed projection, gradients, masks. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"
#include "harness/passes.h"

#include <stdio.h>
#include <string.h>

/* The text is right, and runs as attention kernels. */
static void check_within(const char *text, double tolerance) {
    tcc_diag diag = {0};
    check_text(text, &(compiled_options){.tolerance = tolerance});
    tcc_graph *g = parse_graph(text, &diag);
    compiled *c = compiled_create(g, &(compiled_options){0});
    bool found = false;
    for (int i = 0; i < c->program->n_kernels; i++)
        found = found || !strcmp(c->program->kernels[i].schedule, "attention");
    assert_true(found);
    compiled_destroy(c);
    tcc_graph_destroy(g);
}

static void check(const char *text) { check_within(text, 1e-4); }

#define HEADS                                                                                   \
    "  %0 = input {name=\"qkv\"} : f32[2,16,96]\n"                                              \
    "  %1 = slice(%0) {start=[0, 0, 0], limit=[2, 16, 32], stride=[1, 1, 1]} : f32[2,16,32]\n"  \
    "  %2 = reshape(%1) : f32[2,16,4,8]\n"                                                      \
    "  %3 = transpose(%2) {perm=[0, 2, 1, 3]} : f32[2,4,16,8]\n"                                \
    "  %4 = slice(%0) {start=[0, 0, 32], limit=[2, 16, 64], stride=[1, 1, 1]} : f32[2,16,32]\n" \
    "  %5 = reshape(%4) : f32[2,16,4,8]\n"                                                      \
    "  %6 = transpose(%5) {perm=[0, 2, 1, 3]} : f32[2,4,16,8]\n"                                \
    "  %7 = slice(%0) {start=[0, 0, 64], limit=[2, 16, 96], stride=[1, 1, 1]} : f32[2,16,32]\n" \
    "  %8 = reshape(%7) : f32[2,16,4,8]\n"                                                      \
    "  %9 = transpose(%8) {perm=[0, 2, 1, 3]} : f32[2,4,16,8]\n"

static void heads_in_place(void **state) {
    (void)state;
    check("graph @heads {\n" HEADS "  %10 = sdpa(%3, %6, %9) {scale=0.5, causal=true} : f32[2,4,16,8]\n"
          "  %11 = transpose(%10) {perm=[0, 2, 1, 3]} : f32[2,16,4,8]\n"
          "  %12 = reshape(%11) : f32[2,16,32]\n"
          "  %13 = sdpa_lse(%3, %6) {scale=0.5, causal=true} : f32[2,4,16]\n"
          "  output \"y\" %12\n"
          "  output \"lse\" %13\n"
          "}\n");
    check("graph @twice {\n" HEADS "  %10 = sdpa(%3, %6, %9) {scale=1} : f32[2,4,16,8]\n"
          "  %11 = transpose(%10) {perm=[0, 2, 1, 3]} : f32[2,16,4,8]\n"
          "  %12 = reshape(%11) : f32[2,16,32]\n"
          "  output \"y\" %12\n"
          "  output \"o\" %10\n"
          "}\n");
}

static void gradients(void **state) {
    (void)state;
    check("graph @gradients {\n" HEADS "  %10 = input {name=\"d\"} : f32[2,16,32]\n"
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

/* Queries that lie apart in two strides, as in windows of images; results whose queries and widths reshapes split, as
 * windows are put back; denominators that are stored across the queries. */
static void views_of_results(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "bf16"};
    for (int i = 0; i < 2; i++) {
        const char *const type = types[i];
        char text[2048];
        snprintf(text, sizeof text,
                 "graph @views {\n"
                 "  %%0 = input {name=\"q\"} : %s[3,2,4,5,16]\n"
                 "  %%1 = input {name=\"k\"} : %s[3,2,20,16]\n"
                 "  %%2 = input {name=\"v\"} : %s[3,2,20,16]\n"
                 "  %%8 = transpose(%%0) {perm=[0, 1, 3, 2, 4]} : %s[3,2,5,4,16]\n"
                 "  %%9 = reshape(%%8) : %s[3,2,20,16]\n"
                 "  %%3 = sdpa(%%9, %%1, %%2) {scale=0.5, causal=true} : %s[3,2,20,16]\n"
                 "  %%4 = sdpa_lse(%%9, %%1) {scale=0.5, causal=true} : f32[3,2,20]\n"
                 "  %%5 = transpose(%%3) {perm=[0, 2, 1, 3]} : %s[3,20,2,16]\n"
                 "  %%6 = reshape(%%5) : %s[3,5,4,2,2,8]\n"
                 "  %%7 = transpose(%%4) {perm=[2, 0, 1]} : f32[20,3,2]\n"
                 "  output \"y\" %%6\n"
                 "  output \"lse\" %%7\n"
                 "}\n",
                 type, type, type, type, type, type, type, type);
        check_within(text, i ? 2e-2 : 1e-4);
    }
}

/* Results that no strides lead to where they are stored: with the widths across, as an image has its channels, in rows
 * that straddle heads, and in two places at once. */
static void views_that_are_copied(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "bf16"}, *const stored[] = {"45", "5", "6", "56", "3456"};
    for (int i = 0; i < 10; i++) {
        const char *const type = types[i % 2];
        char text[2048];
        int n = snprintf(text, sizeof text,
                         "graph @views {\n"
                         "  %%0 = input {name=\"q\"} : %1$s[3,2,20,16]\n"
                         "  %%1 = input {name=\"k\"} : %1$s[3,2,20,16]\n"
                         "  %%2 = input {name=\"v\"} : %1$s[3,2,20,16]\n"
                         "  %%3 = sdpa(%%0, %%1, %%2) {scale=0.5} : %1$s[3,2,20,16]\n"
                         "  %%4 = transpose(%%3) {perm=[0, 2, 1, 3]} : %1$s[3,20,2,16]\n"
                         "  %%5 = transpose(%%3) {perm=[0, 1, 3, 2]} : %1$s[3,2,16,20]\n"
                         "  %%6 = reshape(%%4) : %1$s[3,16,40]\n",
                         type);
        for (const char *name = stored[i / 2]; *name; name++)
            n += snprintf(text + n, sizeof text - (size_t)n, "  output \"y%c\" %%%c\n", *name, *name);
        snprintf(text + n, sizeof text - (size_t)n, "}\n");
        check_within(text, i % 2 ? 2e-2 : 1e-4);
    }
}

/* Gradients that are parts of one narrow tensor: one kernel makes them, and a copy rounds all three. */
static void narrow_gradients_side_by_side(void **state) {
    (void)state;
    const char *const text = "graph @packed {\n"
                             "  %0 = input {name=\"q\"} : bf16[3,10,16]\n"
                             "  %1 = input {name=\"k\"} : bf16[3,10,16]\n"
                             "  %2 = input {name=\"v\"} : bf16[3,10,16]\n"
                             "  %3 = input {name=\"d\"} : bf16[3,10,16]\n"
                             "  %4 = sdpa(%0, %1, %2) {scale=0.5, causal=true} : bf16[3,10,16]\n"
                             "  %5 = sdpa_lse(%0, %1) {scale=0.5, causal=true} : f32[3,10]\n"
                             "  %6 = sdpa_grad_q(%0, %1, %2, %4, %5, %3) {scale=0.5, causal=true} : bf16[3,10,16]\n"
                             "  %7 = sdpa_grad_k(%0, %1, %2, %4, %5, %3) {scale=0.5, causal=true} : bf16[3,10,16]\n"
                             "  %8 = sdpa_grad_v(%0, %1, %2, %4, %5, %3) {scale=0.5, causal=true} : bf16[3,10,16]\n"
                             "  %9 = concat(%6, %7, %8) {axis=2} : bf16[3,10,48]\n"
                             "  output \"y\" %4\n"
                             "  output \"d\" %9\n"
                             "}\n";
    check_text(text, &(compiled_options){.tolerance = 2e-2});
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    compiled *c = compiled_create(g, &(compiled_options){0});
    int kernels = 0;
    for (int i = 0; i < c->program->n_kernels; i++) kernels += !strcmp(c->program->kernels[i].schedule, "attention");
    assert_int_equal(kernels, 2); /* forward and backward */
    compiled_destroy(c);
    tcc_graph_destroy(g);
}

/* Rows of draws that begin at any place in their fours, and at none but the first; tails of queries, keys and widths;
 * blocks of keys. */
static void dropout(void **state) {
    (void)state;
    static const attention_graph all[] = {
        {"2,3,", 16, 16, 8, 8, "scale=0.5", .p = 0.25},
        {"2,3,", 13, 13, 8, 8, "scale=0.5, causal=true", .p = 0.25},
        {"3,", 5, 67, 20, 12, "scale=0.25", .mask = "3,5,67", .p = 0.5},
        {"2,2,2,", 9, 30, 4, 6, "scale=1", .mask = "2,1,1,9,30", .p = 0.75},
        {"2,3,", 9, 30, 4, 6, "scale=1, causal=true", .mask = "2,1,1,30", .p = 0.3},
        {"", 70, 1041, 16, 32, "scale=0.2, causal=true", .p = 0.2},
        {"2,", 130, 7, 8, 12, "scale=0.2, causal=true", .p = 0.2}, /* the first see no key */
        {"2,", 600, 530, 8, 8, "scale=0.2, causal=true", .p = 0},
        {"3,", 9, 1, 4, 4, "scale=0.2, causal=true", .mask = "3,9,1"},
        {"2,", 1, 3, 4, 4, "scale=0.2", .mask = "2,1,3", .p = 0.9},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[4096];
        attention_graph_text(text, sizeof text, &all[i]);
        check(text);
    }
}

static void dropout_of_other_types(void **state) {
    (void)state;
    attention_graph a = {"2,2,",    10,           11, 8, 16, "scale=0.5, causal=true", .mask = "1,2,10,11",
                         .p = 0.25, .type = "f64"};
    char text[4096];
    for (int i = 0; i < 2; i++) {
        const attention_graph few_keys = {"2,", 9, 5, 4, 3, "scale=0.5, causal=true", .type = "f64"};
        attention_graph_text(text, sizeof text, i ? &few_keys : &a);
        for (char *at = text; (at = strstr(at, "f32"));) memcpy(at, "f64", 3); /* its denominators are f64 */
        check_text(text, &(compiled_options){.tolerance = 1e-9});
    }
    static const char *const types[] = {"f16", "bf16"};
    for (int i = 0; i < 2; i++) {
        a.type = types[i];
        attention_graph_text(text, sizeof text, &a);
        check_text(text, &(compiled_options){.tolerance = 3e-2});
    }
}

/* Wide and long enough for products of bf16, where the CPU has them: lengths and widths that fill no tile, masks and
 * dropout, several blocks; the same bits by any number of threads. */
static void narrow_types_of_many_shapes(void **state) {
    (void)state;
    static const attention_graph all[] = {
        {"2,3,", 33, 33, 32, 32, "scale=0.25, causal=true", .p = 0},
        {"2,", 100, 100, 65, 65, "scale=0.125, causal=true", .p = 0},
        {"2,2,", 7, 100, 16, 24, "scale=0.25", .mask = "1,2,7,100"},
        {"3,", 33, 70, 40, 16, "scale=0.25", .mask = "3,1,70", .p = 0.25},
        {"", 64, 290, 32, 64, "scale=0.25, causal=true", .p = 0.5},
        {"2,", 300, 300, 16, 16, "scale=0.25, causal=true", .p = 0},
        {"1,", 19, 61, 20, 16, "scale=0.25, causal=true", .mask = "1,19,61", .p = 0.3},
        {"2,", 100, 33, 32, 16, "scale=0.25, causal=true", .p = 0.3},
        {"", 300, 270, 16, 32, "scale=0.25, causal=true", .p = 0},
    };
    static const char *const types[] = {"bf16", "f16"};
    for (size_t i = 0; i < 2 * (sizeof all / sizeof *all); i++) {
        attention_graph a = all[i / 2];
        char text[4096];
        a.type = types[i % 2];
        attention_graph_text(text, sizeof text, &a);
        check_text(text, &(compiled_options){.tolerance = i % 2 ? 3e-3 : 2e-2});
        tcc_diag diag = {0};
        tcc_graph *g = parse_graph(text, &diag);
        check_threads(g, &(compiled_options){0}, 3);
        tcc_graph_destroy(g);
    }
}

/* Sums that cancel: probabilities and gradients of scores are rounded before the products that make them, so their
 * errors are far above a rounding of the result. The noise model knows that. */
static void rounded_factors_lie_within_the_noise(void **state) {
    (void)state;
    const attention_graph a = {"2,", 64, 96, 32, 32, "scale=0.25, causal=true", .type = "bf16"};
    char text[4096];
    tcc_diag diag = {0};
    attention_graph_text(text, sizeof text, &a);
    tcc_graph *g = parse_graph(text, &diag);
    tcc_value *inputs = random_inputs(g, &(compiled_options){0});
    for (int operand = 0; operand < 4; operand++) /* q: small; k: alike; v and do: one up, one down */
        for (int64_t e = 0, count = tcc_type_numel(&inputs[operand].type); e < count; e++) {
            const double x = inputs[operand].f[e], sign = e / a.D % 2 ? 1 : -1;
            const double y = operand == 0 ? x / 8 : operand == 1 ? 4 + x / 4 : 4 * sign;
            inputs[operand].f[e] = tcc_dtype_round(TCC_BF16, y);
        }
    check_within_noise(g, &(compiled_options){.inputs = inputs}, 2);
    free_values(inputs, g->inputs.count);
    tcc_graph_destroy(g);
}

static void a_key_that_lies_apart(void **state) {
    (void)state;
    check("graph @apart {\n"
          "  %0 = input {name=\"q\"} : f32[3,10,8]\n"
          "  %1 = input {name=\"k\"} : f32[3,12,8]\n"
          "  %2 = input {name=\"keys\"} : i64[4]\n"
          "  %3 = slice(%2) {start=[1], limit=[4], stride=[2]} : i64[2]\n"
          "  %4 = sdpa(%0, %1, %1, %3) {scale=1, p=0x1p-2, id=2} : f32[3,10,8]\n"
          "  output \"y\" %4\n"
          "}\n");
}

/* Both have equal values and gradients; *steps: each with its gradients, which the caller destroys. */
static void check_alike(const char *a, const char *b, tcc_graph *steps[2]) {
    tcc_diag diag = {0};
    for (int i = 0; i < 2; i++) {
        tcc_graph *g = parse_graph(i ? b : a, &diag);
        steps[i] = run_passes(g, "autodiff", NULL);
        tcc_graph_destroy(g);
    }
    assert_same_meaning(steps[0], steps[1], 1e-12);
}

/* The op draws what a dropout of the written-out probabilities draws, and has its gradients, the mask's too. */
static void as_written_out(void **state) {
    (void)state;
#define INPUTS(name, heads)                                                                                          \
    "graph @" name                                                                                                   \
    " {\n  %0 = input {role=param, name=\"q\"} : f64[2,3,7,4]\n  %1 = input {role=param, name=\"k\"} : f64[2," heads \
    ",9,4]\n"                                                                                                        \
    "  %2 = input {role=param, name=\"v\"} : f64[2," heads                                                           \
    ",9,5]\n  %3 = input {role=param, name=\"m\"} : f64[2,3,7,9]\n"                                                  \
    "  %4 = input {role=rng, name=\"key\"} : i64[2]\n  %5 = input {name=\"w\"} : f64[2,3,7,5]\n"
#define LOSS                                                                                                           \
    "  %30 = mul(%20, %5) : f64[2,3,7,5]\n  %31 = reduce_sum(%30) {axes=[0, 1, 2, 3]} : f64[]\n  output \"o\" %20\n  " \
    "output \"loss\" %31\n}\n"
    static const char op[] = INPUTS(
        "op", "3") "  %20 = sdpa(%0, %1, %2, %3, %4) {scale=0.5, causal=true, p=0.3, id=7} : f64[2,3,7,5]\n" LOSS;
    static const char written[] = INPUTS(
        "written", "3") "  %6 = dot(%0, %1) {batch_a=[0, 1], batch_b=[0, 1], contract_a=[3], contract_b=[3]} : "
                        "f64[2,3,7,9]\n"
                        "  %7 = constant {values=[0.5]} : f64[]\n  %8 = broadcast(%7) : f64[2,3,7,9]\n  %9 = mul(%6, "
                        "%8) : f64[2,3,7,9]\n"
                        "  %10 = add(%9, %3) : f64[2,3,7,9]\n  %11 = iota {axis=2} : i32[2,3,7,9]\n  %12 = iota "
                        "{axis=3} : i32[2,3,7,9]\n"
                        "  %13 = constant {values=[2]} : i32[]\n  %14 = broadcast(%13) : i32[2,3,7,9]\n  %15 = "
                        "add(%11, %14) : i32[2,3,7,9]\n"
                        "  %16 = le(%12, %15) : bool[2,3,7,9]\n  %17 = constant {values=[-inf]} : f64[]\n  %18 = "
                        "broadcast(%17) : f64[2,3,7,9]\n"
                        "  %19 = select(%16, %10, %18) : f64[2,3,7,9]\n  %21 = softmax(%19) {axis=3} : f64[2,3,7,9]\n"
                        "  %22 = dropout(%21, %4) {p=0.3, id=7} : f64[2,3,7,9]\n"
                        "  %20 = dot(%22, %2) {batch_a=[0, 1], batch_b=[0, 1], contract_a=[3], contract_b=[2]} : "
                        "f64[2,3,7,5]\n" LOSS;
    tcc_graph *steps[2];
    check_alike(op, written, steps);
    for (int i = 0; i < 2; i++) tcc_graph_destroy(steps[i]);
}

/* Keys that are shared by the last batch dim, the first, or all; their gradients are sums. */
static void shared_keys(void **state) {
    (void)state;
    static const attention_graph all[] = {
        {"2,3,", 16, 16, 8, 8, "scale=0.5, causal=true", .shared = "2,1,"},
        {"2,2,3,", 13, 9, 8, 12, "scale=0.5", .mask = "2,1,3,13,9", .p = 0.25, .shared = "2,2,1,"},
        {"2,3,", 9, 30, 4, 6, "scale=1, causal=true", .shared = "1,3,"},
        {"2,1,3,", 5, 67, 16, 8, "scale=0.25", .p = 0.5, .shared = "1,1,1,"},
        {"4,", 33, 70, 40, 16, "scale=0.25, causal=true", .mask = "4,1,70", .shared = "1,"},
    };
    static const char *const types[] = {"f32", "bf16", "f16", "f64"};
    static const double tolerance[] = {1e-4, 2e-2, 3e-3, 1e-9};
    enum { TYPES = sizeof types / sizeof *types, F64 = 3 };
    for (size_t i = 0; i < TYPES * (sizeof all / sizeof *all); i++) {
        attention_graph a = all[i / TYPES];
        char text[4096];
        a.type = types[i % TYPES];
        attention_graph_text(text, sizeof text, &a);
        for (char *at = text; i % TYPES == F64 && (at = strstr(at, "f32"));) memcpy(at, "f64", 3);
        check_text(text, &(compiled_options){.tolerance = tolerance[i % TYPES]});
    }
}

/* One tensor of gradients, those by keys being sums: one query and one key. */
static void shared_gradients_side_by_side(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "bf16"};
    for (int i = 0; i < 2; i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "graph @packed {\n"
                 "  %%0 = input {name=\"q\"} : %1$s[3,4,1,8]\n"
                 "  %%1 = input {name=\"k\"} : %1$s[3,1,1,8]\n"
                 "  %%2 = input {name=\"v\"} : %1$s[3,1,1,8]\n"
                 "  %%3 = input {name=\"d\"} : %1$s[3,4,1,8]\n"
                 "  %%4 = sdpa(%%0, %%1, %%2) {scale=0.5} : %1$s[3,4,1,8]\n"
                 "  %%5 = sdpa_lse(%%0, %%1) {scale=0.5} : f32[3,4,1]\n"
                 "  %%6 = sdpa_grad_q(%%0, %%1, %%2, %%4, %%5, %%3) {scale=0.5} : %1$s[3,4,1,8]\n"
                 "  %%7 = sdpa_grad_k(%%0, %%1, %%2, %%4, %%5, %%3) {scale=0.5} : %1$s[3,1,1,8]\n"
                 "  %%8 = sdpa_grad_v(%%0, %%1, %%2, %%4, %%5, %%3) {scale=0.5} : %1$s[3,1,1,8]\n"
                 "  %%9 = reshape(%%6) : %1$s[3,32]\n"
                 "  %%10 = reshape(%%7) : %1$s[3,8]\n"
                 "  %%11 = reshape(%%8) : %1$s[3,8]\n"
                 "  %%12 = concat(%%9, %%10, %%11) {axis=1} : %1$s[3,48]\n"
                 "  output \"d\" %%12\n"
                 "}\n",
                 types[i]);
        check_text(text, &(compiled_options){.tolerance = i ? 2e-2 : 1e-4});
    }
}

/* Shared keys are what repeated ones are, and so are all gradients. */
static void as_repeated(void **state) {
    (void)state;
    static const char shared[] = INPUTS(
        "shared", "1") "  %20 = sdpa(%0, %1, %2, %3, %4) {scale=0.5, causal=true, p=0.3, id=7} : f64[2,3,7,5]\n" LOSS;
    static const char repeated[] = INPUTS(
        "repeated", "1") "  %6 = broadcast(%1) {dims=[0, 1, 2, 3]} : f64[2,3,9,4]\n"
                         "  %7 = broadcast(%2) {dims=[0, 1, 2, 3]} : f64[2,3,9,5]\n"
                         "  %20 = sdpa(%0, %6, %7, %3, %4) {scale=0.5, causal=true, p=0.3, id=7} : f64[2,3,7,5]\n" LOSS;
    tcc_graph *steps[2];
    check_alike(shared, repeated, steps);
    tcc_graph *written = run_passes(steps[0], "decompose", NULL);
    assert_same_meaning(written, steps[1], 1e-12);
    tcc_graph_destroy(written);
    for (int i = 0; i < 2; i++) tcc_graph_destroy(steps[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_in_place),
        cmocka_unit_test(gradients),
        cmocka_unit_test(masks),
        cmocka_unit_test(narrow_types_sum_in_float),
        cmocka_unit_test(views_of_results),
        cmocka_unit_test(views_that_are_copied),
        cmocka_unit_test(narrow_gradients_side_by_side),
        cmocka_unit_test(dropout),
        cmocka_unit_test(dropout_of_other_types),
        cmocka_unit_test(narrow_types_of_many_shapes),
        cmocka_unit_test(rounded_factors_lie_within_the_noise),
        cmocka_unit_test(a_key_that_lies_apart),
        cmocka_unit_test(as_written_out),
        cmocka_unit_test(shared_keys),
        cmocka_unit_test(shared_gradients_side_by_side),
        cmocka_unit_test(as_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
