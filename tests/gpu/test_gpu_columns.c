/* SPDX-License-Identifier: MIT
 * Reductions over an inner axis, in several sweeps over columns: what losses of images, and norms of channels, are when
 * a user writes them of plain operations. Against the interpreter, and how many launches they are. */
#include "harness/check.h"
#include "harness/gpu_program.h"
#include "harness/graphs.h"
#include "harness/passes.h"

#include "ir/support/strbuf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The dims of the operand, of which the second is reduced. */
typedef struct shape {
    int n, c, h, w;
    const char *type;
} shape;

/* Capitals become types: X of the operand, B the same as bool and I as i32; K without the reduced dim, M the same as
 * bool and L as i32; S a number. The caller frees it. */
static char *text_of(const char *from, const shape *s) {
    tcc_strbuf text = {0};
    for (const char *p = from; *p; p++) {
        const char *type = *p == 'B' || *p == 'M' ? "bool" : *p == 'I' || *p == 'L' ? "i32" : s->type;
        if (strchr("XBI", *p)) tcc_strbuf_printf(&text, "%s[%d,%d,%d,%d]", type, s->n, s->c, s->h, s->w);
        else if (strchr("KML", *p)) tcc_strbuf_printf(&text, "%s[%d,%d,%d]", type, s->n, s->h, s->w);
        else if (*p == 'S') tcc_strbuf_printf(&text, "%s[]", type);
        else tcc_strbuf_printf(&text, "%c", *p);
    }
    return text.text;
}

static int steps_of(const tcc_graph *g, const compiled_options *options) {
    gpu_program *p = gpu_program_create(g, options, "sm_90");
    const int steps = p->program->n_steps;
    gpu_program_destroy(p);
    return steps;
}

static const char softmax[] = "graph @softmax {\n  %0 = input {name=\"x\"} : X\n  %1 = softmax(%0) {axis=1} : X\n"
                              "  %2 = reduce_max(%1) {axes=[1]} : K\n  output \"y\" %1\n  output \"m\" %2\n}\n";

static const char moments[] = "graph @moments {\n  %0 = input {name=\"x\"} : X\n"
                              "  %1 = reduce_mean(%0) {axes=[1]} : K\n  %2 = reduce_m2(%0) {axes=[1]} : K\n"
                              "  %3 = broadcast(%1) {dims=[0, 2, 3]} : X\n  %4 = sub(%0, %3) : X\n"
                              "  %5 = constant {values=[0x1p-10]} : K\n  %6 = add(%2, %5) : K\n  %7 = rsqrt(%6) : K\n"
                              "  %8 = broadcast(%7) {dims=[0, 2, 3]} : X\n  %9 = mul(%4, %8) : X\n"
                              "  output \"y\" %9\n  output \"mean\" %1\n}\n";

static const char places[] = "graph @places {\n  %0 = input {name=\"x\"} : X\n"
                             "  %1 = argmax(%0) {axis=1} : L\n  %2 = broadcast(%1) {dims=[0, 2, 3]} : I\n"
                             "  %3 = iota {axis=1} : I\n  %4 = eq(%2, %3) : B\n"
                             "  %5 = reduce_min(%0) {axes=[1]} : K\n  %6 = broadcast(%5) {dims=[0, 2, 3]} : X\n"
                             "  %7 = select(%4, %0, %6) : X\n  output \"y\" %7\n  output \"at\" %1\n}\n";

/* The longest column that goes through one kernel is 256. */
static const shape shapes[] = {{2, 19, 24, 32, "f32"},  {3, 7, 5, 9, "f32"},   {6, 6, 6, 6, "f32"},
                               {1, 130, 3, 33, "f32"},  {1, 1, 1, 1, "f32"},   {4, 1, 5, 6, "f32"},
                               {1, 5, 1, 257, "f32"},   {5, 2, 3, 1, "f32"},   {1, 256, 2, 70, "f32"},
                               {2, 19, 16, 32, "bf16"}, {3, 5, 7, 11, "bf16"}, {8, 8, 8, 8, "f16"},
                               {300, 3, 1, 2, "f32"},   {2, 19, 5, 8, "f64"}};

static void several_sweeps(void **state) {
    (void)state;
    static const char *const works[] = {softmax, moments, places};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t k = 0; k < sizeof works / sizeof *works; k++) {
            const compiled_options options = {.simplify = i % 2 == 0, .seed = i, .tolerance = 1e-4};
            char *text = text_of(works[k], &shapes[i]);
            if (shapes[i].h * shapes[i].w > 1) assert_int_equal(gpu_steps_of_text(text, &options), 1);
            check_gpu_text(text, &options);
            free(text);
        }
}

/* No cache has them from one sweep to the next. */
static void long_columns(void **state) {
    (void)state;
    const shape longer = {1, 257, 2, 70, "f32"};
    char *text = text_of(softmax, &longer);
    assert_true(gpu_steps_of_text(text, &(compiled_options){0}) > 1);
    check_gpu_text(text, &(compiled_options){0});
    free(text);
}

/* -- Losses and their gradients -- */

static const char log_sum_exp[] = "graph @lse {\n  %0 = input {name=\"x\", role=param} : X\n"
                                  "  %1 = reduce_max(%0) {axes=[1]} : K\n  %2 = broadcast(%1) {dims=[0, 2, 3]} : X\n"
                                  "  %3 = sub(%0, %2) : X\n  %4 = exp(%3) : X\n  %5 = reduce_sum(%4) {axes=[1]} : K\n"
                                  "  %6 = log(%5) : K\n  %7 = add(%6, %1) : K\n"
                                  "  %8 = reduce_sum(%7) {axes=[0, 1, 2]} : S\n  output \"loss\" %8\n}\n";

/* With smoothed labels, of which those below 0 do not count. */
static const char labels[] =
    "graph @labels {\n  %0 = input {name=\"x\", role=param} : X\n  %1 = input {name=\"t\"} : L\n"
    "  %2 = log_softmax(%0) {axis=1} : X\n  %3 = iota {axis=1} : I\n  %4 = broadcast(%1) {dims=[0, 2, 3]} : I\n"
    "  %5 = eq(%3, %4) : B\n  %6 = constant {values=[0x0p+0]} : X\n  %7 = select(%5, %2, %6) : X\n"
    "  %8 = reduce_sum(%7) {axes=[1]} : K\n  %9 = reduce_mean(%2) {axes=[1]} : K\n"
    "  %10 = constant {values=[0x1.cp-1]} : K\n  %11 = mul(%8, %10) : K\n  %12 = constant {values=[0x1p-3]} : K\n"
    "  %13 = mul(%9, %12) : K\n  %14 = add(%11, %13) : K\n  %15 = constant {values=[0]} : L\n  %16 = ge(%1, %15) : M\n"
    "  %17 = constant {values=[0x0p+0]} : K\n  %18 = select(%16, %14, %17) : K\n"
    "  %19 = reduce_sum(%18) {axes=[0, 1, 2]} : S\n  %20 = cast(%16) : K\n"
    "  %21 = reduce_sum(%20) {axes=[0, 1, 2]} : S\n  %22 = constant {values=[0x1p+0]} : S\n  %23 = max(%21, %22) : S\n"
    "  %24 = div(%19, %23) : S\n  %25 = neg(%24) : S\n  output \"loss\" %25\n}\n";

/* The variance of the channels that a mask names; none may be named. */
static const char masked[] =
    "graph @masked {\n  %0 = input {name=\"x\", role=param} : X\n  %1 = input {name=\"m\"} : I\n"
    "  %2 = constant {values=[0]} : I\n  %3 = gt(%1, %2) : B\n  %4 = constant {values=[0x0p+0]} : X\n"
    "  %5 = select(%3, %0, %4) : X\n  %6 = reduce_sum(%5) {axes=[1]} : K\n  %7 = cast(%3) : X\n"
    "  %8 = reduce_sum(%7) {axes=[1]} : K\n  %9 = constant {values=[0x1p+0]} : K\n  %10 = max(%8, %9) : K\n"
    "  %11 = div(%6, %10) : K\n  %12 = broadcast(%11) {dims=[0, 2, 3]} : X\n  %13 = sub(%0, %12) : X\n"
    "  %14 = select(%3, %13, %4) : X\n  %15 = mul(%14, %14) : X\n  %16 = reduce_sum(%15) {axes=[1]} : K\n"
    "  %17 = div(%16, %10) : K\n  %18 = reduce_sum(%17) {axes=[0, 1, 2]} : S\n  output \"loss\" %18\n}\n";

typedef struct loss {
    const char *text;
    int steps; /* with the gradient */
} loss;

static const loss losses[] = {{log_sum_exp, 2}, {labels, 3}, {masked, 2}};

enum { USUAL, EMPTY, SOME_NAN };

/* Inputs in which no label counts and no channel is named, or every seventh number is NaN. */
static void set_inputs(const tcc_graph *g, tcc_value *inputs, int how) {
    for (int i = 0; i < g->inputs.count; i++) {
        tcc_value *v = &inputs[i];
        const bool number = tcc_dtype_is_float(v->type.dtype);
        for (int64_t k = 0; k < tcc_type_numel(&v->type); k++)
            if (how == SOME_NAN && number && k % 7 == 3) v->f[k] = NAN;
            else if (how == EMPTY && !number) v->i[k] = -1;
    }
}

static void check_loss(const loss *l, const shape *s, int how, int seed) {
    tcc_diag diag = {0};
    char *text = text_of(l->text, s);
    tcc_graph *g = parse_graph(text, &diag),
              *both = run_passes(g, "simplify,autodiff,simplify", &(tcc_pass_options){0});
    const bool narrow = strchr(s->type, '1') != NULL;
    compiled_options options = {
        .simplify = true, .limit = s->c - 1, .seed = (uint64_t)seed, .tolerance = narrow ? 1e-2 : 1e-4};
    tcc_value *inputs = random_inputs(both, &options);
    set_inputs(both, inputs, how);
    options.inputs = inputs;
    if (s->c > 1 && s->h * s->w > 1) assert_int_equal(steps_of(both, &options), l->steps);
    check_gpu(both, &options);
    free_values(inputs, both->inputs.count);
    tcc_graph_destroy(both);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
    free(text);
}

static void losses_over_an_inner_axis(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t k = 0; k < sizeof losses / sizeof *losses; k++) check_loss(&losses[k], &shapes[i], USUAL, (int)i);
}

static void nothing_counts(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof losses / sizeof *losses; k++) {
        check_loss(&losses[k], &shapes[0], EMPTY, 1);
        check_loss(&losses[k], &shapes[1], SOME_NAN, 2);
        check_loss(&losses[k], &shapes[9], SOME_NAN, 3);
    }
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(several_sweeps), cmocka_unit_test(long_columns),
                                       cmocka_unit_test(losses_over_an_inner_axis), cmocka_unit_test(nothing_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
