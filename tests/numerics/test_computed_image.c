/* SPDX-License-Identifier: MIT
 * Work in front of a filter's gradient, which its kernels on the host do while they pack or transform the image: it is
 * not stored, and gives the bits of an image from memory. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "ir/build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct form {
    int n_spatial; /* 1: columns alone; 3: a few planes in front of the rows, too */
    int images, rows, columns, in, out, kernel, stride, pad_low, pad_high, dilation;
} form;

static tcc_node *input(tcc_graph *g, const char *name, tcc_type type) {
    return tcc_ir_input(g, name, TCC_ROLE_BATCH, &type, TCC_NOWHERE);
}

/* A vector of channels over the image, f32 as statistics are. */
static tcc_node *channels(tcc_graph *g, const char *name, const tcc_type *image) {
    const int last = image->rank - 1;
    tcc_node *v = input(g, name, (tcc_type){.dtype = TCC_F32, .rank = 1, .dims = {image->dims[last]}});
    return tcc_ir_broadcast(g, v, image->rank, image->dims, &last);
}

static int64_t size_of(int64_t size, const form *f) {
    return (size + f->pad_low + f->pad_high - (f->kernel - 1) * f->dilation - 1) / f->stride + 1;
}

static tcc_dims same(int n, int value) {
    tcc_dims d = {.count = n};
    for (int i = 0; i < n; i++) d.v[i] = value;
    return d;
}

/* The sizes of the image, or of the result, along the spatial dims; channels last. */
static tcc_type type_of(const form *f, tcc_dtype dtype, bool result) {
    const int n = f->n_spatial, sizes[] = {f->kernel * f->dilation + 1, f->rows, f->columns};
    tcc_type t = {.dtype = dtype, .rank = n + 2, .dims = {f->images}};
    for (int i = 0; i < n; i++) {
        const int size = sizes[3 - n + i];
        t.dims[1 + i] = result ? size_of(size, f) : size;
    }
    t.dims[n + 1] = result ? f->out : f->in;
    return t;
}

/* relu of a norm, beside another image, so that it is not 0 outside where it is 0 inside. The norm is computed in f32,
 * and stored in the image's type. */
static tcc_graph *graph_of(const form *f, tcc_dtype dtype, bool residual, tcc_diag *diag) {
    tcc_graph *g = tcc_graph_create("gradient", diag);
    const int n = f->n_spatial;
    const tcc_type image = type_of(f, dtype, false), result = type_of(f, dtype, true);
    tcc_type filter = {.dtype = dtype, .rank = n + 2, .dims = {f->out}};
    for (int i = 0; i < n; i++) filter.dims[1 + i] = f->kernel;
    filter.dims[n + 1] = f->in;
    tcc_node *x = input(g, "x", image);
    if (dtype != TCC_F32) x = tcc_ir_cast(g, x, TCC_F32);
    x = tcc_ir_binary(g, TCC_OP_SUB, x, channels(g, "mean", &image));
    x = tcc_ir_binary(g, TCC_OP_MUL, x, channels(g, "scale", &image));
    x = tcc_ir_binary(g, TCC_OP_MUL, x, channels(g, "gamma", &image));
    x = tcc_ir_binary(g, TCC_OP_ADD, x, channels(g, "shift", &image));
    if (dtype != TCC_F32) x = tcc_ir_cast(g, x, dtype);
    if (residual) x = tcc_ir_binary(g, TCC_OP_ADD, x, input(g, "other", image));
    x = tcc_ir_binary_c(g, TCC_OP_MAX, x, 0);
    const tcc_attrs attrs = {.conv = {.stride = same(n, f->stride),
                                      .pad_lo = same(n, f->pad_low),
                                      .pad_hi = same(n, f->pad_high),
                                      .dilation = same(n, f->dilation),
                                      .groups = 1,
                                      .channels_last = true}};
    tcc_node *operands[] = {x, input(g, "dy", result)};
    tcc_node *dw = tcc_ir_build(g, TCC_OP_CONV_GRAD_WEIGHT, operands, 2, &attrs, &filter, TCC_NOWHERE);
    assert_ok(tcc_ir_output(g, "dw", dw, -1), diag);
    return g;
}

/* Whether the program is the contraction alone: the image is nowhere in memory. */
static bool is_fused(const tcc_graph *g, const compiled_options *options) {
    compiled *c = compiled_create(g, options);
    bool fused = c->graph->groups.count == 1;
    for (int i = 0; i < c->program->n_steps && fused; i++) {
        const char *schedule = c->program->kernels[c->program->steps[i].kernel].schedule;
        fused = !strcmp(schedule, "winograd") || !strcmp(schedule, "contract") || !strcmp(schedule, "combine");
    }
    compiled_destroy(c);
    return fused;
}

/* Terms of each of the gradient's sums. */
static double terms_of(const form *f) {
    const tcc_type t = type_of(f, TCC_F32, true);
    return (double)tcc_type_numel(&t) / f->out;
}

/* The gradient of 16 bits against the interpreter that rounds each result to its type. Winograd's algorithm rounds what
 * it transforms, too: errors of a few units in each term, about 1, which add up at random. */
static void check_rounded(const tcc_graph *g, const tcc_value *inputs, const void *memory, double terms,
                          tcc_diag *diag) {
    const tcc_type *type = &g->outputs.data[0].node->type;
    const double unit = type->dtype == TCC_F16 ? 0x1p-11 : 0x1p-8;
    tcc_value expected, got;
    assert_ok(tcc_graph_eval_rounded(g, inputs, &expected, diag), diag);
    assert_int_equal(tcc_value_create(type, &got, NULL), TCC_OK);
    tcc_value_load(&got, memory);
    for (int64_t i = 0; i < tcc_type_numel(type); i++) {
        const double bound = unit * (fabs(expected.f[i]) + 8 * sqrt(terms));
        if (!(fabs(got.f[i] - expected.f[i]) <= bound))
            fail_msg("dw[%lld]: %.9g instead of %.9g", (long long)i, got.f[i], expected.f[i]);
    }
    tcc_value_free(&got);
    tcc_value_free(&expected);
}

/* Channels that fill no vectors may be stored. */
enum { WIDEST_VECTOR = 16 };

/* Images that are computed, and those that are stored though they might be computed. */
static int n_computed, n_stored;

static void check(const form *f, tcc_dtype dtype, bool residual) {
    tcc_diag diag = {0};
    tcc_graph *g = graph_of(f, dtype, residual, &diag);
    const compiled_options options = {.tolerance = 2e-4}, eager = {.eager = true};
    const bool fused = is_fused(g, &options);
    n_computed += fused;
    n_stored += !fused && f->in % WIDEST_VECTOR == 0;
    if (f->in % WIDEST_VECTOR == 0 && !fused && dtype != TCC_BF16)
        fail_msg("%s %dx%dx%d, %d to %d channels, kernel %d, stride %d: the image is stored", tcc_dtype_text(dtype),
                 f->images, f->rows, f->columns, f->in, f->out, f->kernel, f->stride);
    if (dtype == TCC_F32) check_compiled(g, &options);
    tcc_value *inputs = random_inputs(g, &options);
    void *computed, *stored;
    run_compiled(g, inputs, &options, &computed);
    run_compiled(g, inputs, &eager, &stored);
    if (memcmp(computed, stored, (size_t)tcc_type_bytes(&g->outputs.data[0].node->type)))
        fail_msg("%s %dx%dx%d, %d to %d channels, kernel %d, stride %d: other bits than from memory",
                 tcc_dtype_text(dtype), f->images, f->rows, f->columns, f->in, f->out, f->kernel, f->stride);
    if (dtype != TCC_F32) check_rounded(g, inputs, computed, terms_of(f), &diag);
    free(computed);
    free(stored);
    free_values(inputs, g->inputs.count);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

static void check_forms(tcc_dtype dtype) {
    static const form forms[] = {{2, 4, 16, 16, 64, 64, 3, 1, 1, 1, 1},  {2, 5, 10, 14, 32, 96, 3, 1, 1, 1, 1},
                                 {2, 8, 8, 8, 48, 128, 3, 1, 0, 2, 1},   {2, 4, 7, 9, 32, 32, 3, 1, 1, 1, 1},
                                 {2, 4, 15, 13, 64, 48, 3, 2, 1, 1, 1},  {2, 6, 14, 14, 32, 32, 3, 2, 0, 1, 1},
                                 {2, 4, 9, 9, 16, 24, 5, 2, 2, 2, 1},    {2, 4, 12, 11, 32, 32, 3, 1, 2, 2, 2},
                                 {2, 4, 9, 7, 64, 40, 1, 1, 0, 0, 1},    {2, 16, 14, 14, 96, 112, 1, 1, 0, 0, 1},
                                 {2, 4, 9, 8, 32, 64, 1, 2, 0, 0, 1},    {2, 2, 28, 28, 64, 256, 1, 1, 0, 0, 1},
                                 {2, 2, 28, 28, 256, 64, 1, 1, 0, 0, 1}, {2, 1, 3, 3, 16, 4, 1, 1, 0, 0, 1},
                                 {2, 7, 5, 5, 112, 16, 3, 1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        check(&forms[i], dtype, false);
        check(&forms[i], dtype, true);
    }
}

/* Without padding, neighbouring taps may be one dim with the channels: all of them where the kernel is as wide as the
 * image. */
static void check_unpadded(tcc_dtype dtype) {
    static const form forms[] = {{2, 4, 9, 11, 32, 24, 5, 1, 0, 0, 1},  {2, 4, 8, 12, 16, 40, 2, 2, 0, 0, 1},
                                 {2, 5, 9, 8, 48, 16, 3, 1, 0, 0, 1},   {2, 4, 9, 7, 32, 32, 3, 2, 0, 0, 1},
                                 {2, 16, 5, 5, 32, 16, 5, 1, 0, 0, 1},  {2, 6, 9, 9, 16, 16, 9, 1, 0, 0, 1},
                                 {2, 4, 9, 9, 32, 32, 3, 1, 0, 0, 2},   {2, 4, 8, 9, 24, 16, 4, 1, 0, 0, 1},
                                 {2, 1, 12, 12, 64, 64, 5, 1, 0, 0, 1}, {1, 4, 0, 33, 48, 16, 3, 1, 0, 0, 1},
                                 {1, 9, 0, 40, 16, 96, 7, 2, 0, 0, 1},  {1, 4, 0, 30, 32, 8, 5, 1, 2, 2, 1},
                                 {3, 4, 5, 6, 16, 16, 3, 1, 0, 0, 1},   {3, 2, 6, 5, 32, 16, 2, 2, 0, 0, 1}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) check(&forms[i], dtype, i % 2);
}

static void test_f32(void **state) {
    (void)state;
    check_forms(TCC_F32);
    check_unpadded(TCC_F32);
}

static void test_f16(void **state) {
    (void)state;
    check_forms(TCC_F16);
    check_unpadded(TCC_F16);
}

/* To compute an image costs a bf16 product more of its time, so small ones may be stored: most are not. */
static void test_bf16(void **state) {
    (void)state;
    n_computed = n_stored = 0;
    check_forms(TCC_BF16);
    check_unpadded(TCC_BF16);
    assert_true(n_computed > 2 * n_stored);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_f16),
                                       cmocka_unit_test(test_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
