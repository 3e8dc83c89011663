/* SPDX-License-Identifier: MIT
 * Dots and convolutions of graphs, compiled with what is fused to them and run, against the interpreter. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(const char *text) { check_text(text, &(compiled_options){.tolerance = 1e-4}); }

/* What the graphs' f32 is replaced by. */
static const struct {
    const char *name;
    double tolerance;
} *type, types[] = {{"f32", 1e-4}, {"f16", 3e-3}, {"bf16", 3e-2}};

/* The text with that type; to be freed. */
static char *typed(const char *text) {
    char *out = calloc(2 * strlen(text) + 1, 1), *to = out;
    while (*text) {
        const bool here = !strncmp(text, "f32", 3);
        to += sprintf(to, "%.*s", here ? 4 : 1, here ? type->name : text);
        text += here ? 3 : 1;
    }
    return out;
}

/* Some launch must be of that schedule. */
static void check_schedule(const char *of_f32, const char *schedule) {
    tcc_diag diag = {0};
    const compiled_options options = {.tolerance = type->tolerance, .prefer = schedule};
    char *text = typed(of_f32);
    tcc_graph *g = parse_graph(text, &diag);
    /* What is multiplied there may be rounded to bf16 once more: as --verify allows. */
    if (!strcmp(schedule, "winograd") && !strcmp(type->name, "bf16")) check_within_noise(g, &options, 16);
    else check_compiled(g, &options);
    compiled *c = compiled_create(g, &options);
    bool found = false;
    for (int i = 0; i < c->program->n_kernels; i++) found = found || !strcmp(c->program->kernels[i].schedule, schedule);
    assert_true(found);
    compiled_destroy(c);
    tcc_graph_destroy(g);
    free(text);
}

/* No launch may be the plain loops that everything falls back to. */
static void check_scheduled(const char *text) { check_schedule(text, "contract"); }

static void dots_with_views_and_work(void **state) {
    (void)state;
    for (int i = 0; i < DOT_GRAPHS; i++) check_scheduled(dot_graphs[i]);
}

static void dots_of_gradients(void **state) {
    (void)state;
    check_scheduled("graph @gradients {\n"
                    "  %0 = input {name=\"x\"} : f32[33,20]\n"
                    "  %1 = input {name=\"dy\"} : f32[33,10]\n"
                    "  %2 = input {name=\"w\"} : f32[10,20]\n"
                    "  %3 = dot(%1, %0) {contract_a=[0], contract_b=[0]} : f32[10,20]\n"
                    "  %4 = dot(%1, %2) {contract_a=[1], contract_b=[0]} : f32[33,20]\n"
                    "  output \"dw\" %3\n"
                    "  output \"dx\" %4\n"
                    "}\n");
    check_scheduled("graph @long {\n" /* the sum is split in parts */
                    "  %0 = input {name=\"x\"} : f32[20000,3]\n"
                    "  %1 = input {name=\"dy\"} : f32[20000,18]\n"
                    "  %2 = input {name=\"m\"} : f32[18,3]\n"
                    "  %3 = dot(%1, %0) {contract_a=[0], contract_b=[0]} : f32[18,3]\n"
                    "  %4 = add(%3, %2) : f32[18,3]\n"
                    "  output \"dw\" %4\n"
                    "}\n");
}

static void narrow_types_sum_in_float(void **state) {
    (void)state;
    const char *const text = "graph @narrow {\n"
                             "  %%0 = input {name=\"x\"} : %1$s[2,20,40]\n"
                             "  %%1 = input {name=\"w\"} : %1$s[50,40]\n"
                             "  %%2 = dot(%%0, %%1) {contract_a=[2], contract_b=[1]} : %1$s[2,20,50]\n"
                             "  %%3 = cast(%%2) : f32[2,20,50]\n"
                             "  output \"y\" %%2\n"
                             "  output \"z\" %%3\n"
                             "}\n";
    for (int i = 0; i < 2; i++) {
        char one[1024];
        snprintf(one, sizeof one, text, i ? "bf16" : "f16");
        check_text(one, &(compiled_options){.tolerance = i ? 1e-2 : 2e-3});
    }
}

static void outer_products(void **state) {
    (void)state;
    check("graph @outer {\n"
          "  %0 = input {name=\"a\"} : f32[5]\n"
          "  %1 = input {name=\"b\"} : f32[20]\n"
          "  %2 = dot(%0, %1) : f32[5,20]\n"
          "  %3 = dot(%1, %1) {contract_a=[0], contract_b=[0]} : f32[]\n"
          "  output \"c\" %2\n"
          "  output \"d\" %3\n"
          "}\n");
}

static void check_conv_by(const char *schedule, int n, int c, int h, int w, int o, int kh, int kw, const char *attrs,
                          int oh, int ow, int groups, bool last) {
    char text[4096];
    conv_graph_text(text, sizeof text, &(conv_graph){n, c, h, w, o, kh, kw, attrs, oh, ow, groups, last});
    check_schedule(text, schedule);
}

static void check_conv(int n, int c, int h, int w, int o, int kh, int kw, const char *attrs, int oh, int ow, int groups,
                       bool last) {
    check_conv_by("contract", n, c, h, w, o, kh, kw, attrs, oh, ow, groups, last);
}

static void convolutions(void **state) {
    (void)state;
    check_conv(2, 5, 7, 6, 18, 3, 3, "stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1]", 7, 6, 1, true);
    check_conv(2, 16, 8, 8, 12, 3, 3, "stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1]", 4, 4, 1, true);
    check_conv(1, 4, 8, 8, 20, 1, 1, "stride=[2, 2], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1]", 4, 4, 1, true);
    check_conv(2, 3, 9, 9, 8, 5, 3, "stride=[1, 3], pad_lo=[2, 0], pad_hi=[1, 1], dilation=[1, 1]", 8, 3, 1, true);
    check_conv(1, 3, 9, 8, 4, 3, 3, "stride=[1, 1], pad_lo=[2, 1], pad_hi=[2, 2], dilation=[2, 1]", 9, 9, 1, true);
}

static void convolutions_of_many_images(void **state) {
    (void)state;
    check_conv(5, 16, 5, 4, 32, 3, 3, "stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1]", 5, 4, 1, true);
    check_conv(6, 16, 6, 7, 18, 3, 3, "stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 0], dilation=[1, 1]", 3, 3, 1, true);
    check_conv(4, 32, 5, 6, 32, 3, 2, "stride=[1, 1], pad_lo=[2, 1], pad_hi=[1, 1], dilation=[1, 2]", 6, 6, 2, true);
}

static void convolutions_with_fewer_products(void **state) {
    (void)state;
    const char *const same = "stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1]";
    check_conv_by("winograd", 3, 32, 6, 10, 48, 3, 3, same, 6, 10, 1, true);
    check_conv_by("winograd", 35, 16, 4, 2, 16, 3, 3, same, 4, 2, 1, true);
    check_conv_by("winograd", 5, 64, 6, 6, 32, 3, 3, same, 6, 6, 1, true);
    check_conv_by("winograd", 2, 16, 8, 8, 80, 3, 3, "stride=[1, 1], pad_lo=[0, 2], pad_hi=[2, 2], dilation=[1, 1]", 8,
                  10, 1, true);
    check_conv_by("winograd", 2, 80, 10, 10, 16, 3, 3, "stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1]",
                  8, 8, 1, true);
}

/* Images and filters that are one number. */
static void constant_operands(void **state) {
    (void)state;
    static const char attrs[] = "stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1], groups=1, "
                                "channels_last=true";
    char text[1024];
    snprintf(text, sizeof text,
             "graph @filter {\n  %%0 = input {name=\"x\"} : f32[3,6,10,32]\n"
             "  %%1 = constant {values=[0.125]} : f32[48,3,3,32]\n"
             "  %%2 = conv(%%0, %%1) {%s} : f32[3,6,10,48]\n  output \"y\" %%2\n}\n",
             attrs);
    check_schedule(text, "winograd");
    snprintf(text, sizeof text,
             "graph @image {\n  %%0 = constant {values=[0.5]} : f32[3,6,10,32]\n"
             "  %%1 = input {name=\"w\"} : f32[48,3,3,32]\n  %%2 = input {name=\"dy\"} : f32[3,6,10,48]\n"
             "  %%3 = conv(%%0, %%1) {%s} : f32[3,6,10,48]\n"
             "  %%4 = conv_grad_weight(%%0, %%2) {%s} : f32[48,3,3,32]\n"
             "  output \"y\" %%3\n  output \"dw\" %%4\n}\n",
             attrs, attrs);
    check_schedule(text, "contract");
}

/* A stored reshape has the memory of what it splits or merges. */
static void stored_reshapes(void **state) {
    (void)state;
    static const char *const schedules[] = {"winograd", "contract"};
    for (int i = 0; i < 2; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "graph @anchors {\n"
                 "  %%0 = input {name=\"x\"} : f32[3,6,10,32]\n"
                 "  %%1 = input {name=\"w\"} : f32[48,%1$d,%1$d,32]\n"
                 "  %%2 = conv(%%0, %%1) {stride=[1, 1], pad_lo=[%2$d, %2$d], pad_hi=[%2$d, %2$d], dilation=[1, 1], "
                 "groups=1, channels_last=true} : f32[3,6,10,48]\n"
                 "  %%3 = tanh(%%2) : f32[3,6,10,48]\n"
                 "  %%4 = reshape(%%3) : f32[3,180,16]\n"
                 "  output \"y\" %%4\n"
                 "}\n",
                 i ? 1 : 3, !i);
        check_schedule(text, schedules[i]);
    }
}

/* Which thread runs an item, and when, changes no bit: neither of results, nor of gradients that are summed in parts.
 */
static void fewer_products_on_any_number_of_threads(void **state) {
    (void)state;
    enum { MOST_THREADS = 7 };
    char text[4096];
    tcc_diag diag = {0};
    conv_graph_text(text, sizeof text,
                    &(conv_graph){35, 32, 8, 8, 48, 3, 3,
                                  "stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1]", 8, 8, 1, true});
    tcc_graph *g = parse_graph(text, &diag);
    compiled *c = compiled_create(g, &(compiled_options){0});
    int shared = 0; /* steps that have work for several */
    for (int i = 0; i < c->program->n_steps; i++) {
        const tcc_step *step = &c->program->steps[i];
        if (step->kind == TCC_STEP_KERNEL && !strcmp(c->program->kernels[step->kernel].schedule, "winograd"))
            shared += step->instances[0].items >= MOST_THREADS;
    }
    assert_int_equal(shared, 3);
    compiled_destroy(c);
    check_threads(g, &(compiled_options){0}, MOST_THREADS);
    tcc_graph_destroy(g);
}

static void convolutions_in_groups_and_channels_first(void **state) {
    (void)state;
    check_conv(2, 6, 6, 5, 9, 3, 2, "stride=[1, 1], pad_lo=[1, 0], pad_hi=[1, 0], dilation=[1, 1]", 6, 4, 3, true);
    check_conv(2, 4, 6, 6, 6, 3, 3, "stride=[2, 1], pad_lo=[1, 1], pad_hi=[0, 1], dilation=[1, 1]", 3, 6, 2, false);
    check_conv(2, 3, 7, 6, 17, 3, 3, "stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1]", 7, 6, 1, false);
    check_conv(1, 2, 7, 6, 3, 2, 2, "stride=[2, 2], pad_lo=[0, 0], pad_hi=[0, 1], dilation=[2, 2]", 3, 3, 1, true);
    check_conv_by("pointwise", 3, 16, 24, 20, 16, 3, 3, "stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1]",
                  24, 20, 16, true);
    check_conv_by("pointwise", 2, 37, 9, 8, 37, 3, 2, "stride=[2, 1], pad_lo=[1, 0], pad_hi=[1, 1], dilation=[1, 1]", 5,
                  8, 37, true);
    check("graph @depthwise {\n"
          "  %0 = input {name=\"x\"} : f32[2,6,5,8]\n"
          "  %1 = input {name=\"w\"} : f32[8,3,3,1]\n"
          "  %2 = conv(%0, %1) {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1], groups=8, "
          "channels_last=true} : f32[2,6,5,8]\n"
          "  output \"y\" %2\n"
          "}\n");
    check_scheduled("graph @line {\n"
                    "  %0 = input {name=\"x\"} : f32[2,30,6]\n"
                    "  %1 = input {name=\"w\"} : f32[10,5,6]\n"
                    "  %2 = conv(%0, %1) {stride=[1], pad_lo=[2], pad_hi=[2], dilation=[1], groups=1, "
                    "channels_last=true} : f32[2,30,10]\n"
                    "  output \"y\" %2\n"
                    "}\n");
}

static void narrow_operands(void **state) {
    for (int i = 1; i < 3; i++) {
        type = &types[i];
        dots_with_views_and_work(state);
        dots_of_gradients(state);
        convolutions(state);
        convolutions_of_many_images(state);
        convolutions_with_fewer_products(state);
        convolutions_in_groups_and_channels_first(state);
    }
    type = types;
}

/* What is computed on products is computed on as many vectors of a row at once as there are registers for, where the
 * row has them; not what lies apart from lane to lane, nor draws. */
static void vectors_are_finished_together(void **state) {
    (void)state;
    static const struct {
        int columns;
        const char *perm, *with;
        bool together;
    } rows[] = {
        {128, "0, 1", "%3", true}, {100, "0, 1", "%3", false}, {128, "1, 0", "%3", false}, {128, "0, 1", "%4", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int n = rows[i].columns;
        const bool turned = rows[i].perm[0] == '1';
        char text[1024];
        snprintf(text, sizeof text,
                 "graph @rows {\n"
                 "  %%0 = input {name=\"a\"} : f32[120,64]\n"
                 "  %%1 = input {name=\"b\"} : f32[64,%d]\n"
                 "  %%2 = input {name=\"c\"} : f32[%d,%d]\n"
                 "  %%3 = transpose(%%2) {perm=[%s]} : f32[120,%d]\n"
                 "  %%8 = constant {values=[7, 1]} : i64[2]\n"
                 "  %%4 = rng_uniform(%%8) {id=7} : f32[120,%d]\n"
                 "  %%5 = dot(%%0, %%1) {contract_a=[1], contract_b=[0]} : f32[120,%d]\n"
                 "  %%6 = erf(%%5) : f32[120,%d]\n"
                 "  %%7 = mul(%%6, %s) : f32[120,%d]\n"
                 "  output \"y\" %%7\n"
                 "}\n",
                 n, turned ? n : 120, turned ? 120 : n, rows[i].perm, n, n, n, n, rows[i].with, n);
        check(text);
        tcc_diag diag = {0};
        tcc_graph *g = parse_graph(text, &diag);
        if (ON_X86_64) {
            assert_int_equal(count_in_code(g, "x86-64-v4", "load <64 x float>") > 0, rows[i].together);
            assert_int_equal(count_in_code(g, "x86-64-v3", "load <16 x float>") > 0, rows[i].together);
        }
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

int main(void) {
    type = types;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dots_with_views_and_work),
        cmocka_unit_test(dots_of_gradients),
        cmocka_unit_test(narrow_types_sum_in_float),
        cmocka_unit_test(outer_products),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(convolutions_of_many_images),
        cmocka_unit_test(convolutions_with_fewer_products),
        cmocka_unit_test(constant_operands),
        cmocka_unit_test(stored_reshapes),
        cmocka_unit_test(fewer_products_on_any_number_of_threads),
        cmocka_unit_test(narrow_operands),
        cmocka_unit_test(convolutions_in_groups_and_channels_first),
        cmocka_unit_test(vectors_are_finished_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
