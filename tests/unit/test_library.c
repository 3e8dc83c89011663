/* SPDX-License-Identifier: MIT
 * Library entries against naive loops, on any number of threads with equal bits; what is missing is skipped, and said.
 */
#include "harness/check.h"

#include "ir/support/alloc.h"
#include "runtime/cpu/library.h"
#include "runtime/wanted.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONES {1, 1, 1}
#define NONE {0}

static float *random_floats(int64_t count, uint32_t seed) {
    float *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        x[i] = (float)(seed >> 8) / (1 << 23) - 1.0f;
    }
    return x;
}

/* The entry, or NULL with the reason printed. */
static const tcc_library_entry *find_or_skip(tcc_libraries *l, const char *name) {
    const tcc_library_entry *e = tcc_libraries_find(l, name);
    if (!e) {
        tcc_strbuf text = {0};
        tcc_libraries_describe(l, &text);
        printf("skipped: %s is not available:\n%s", name, text.text);
        tcc_strbuf_free(&text);
    }
    return e;
}

static void open_all(tcc_context *cx, tcc_libraries **l) {
    assert_ok(tcc_context_init(cx), &cx->diag);
    assert_ok(tcc_libraries_open(cx, l), &cx->diag);
}

/* Run the entry with `threads` threads. */
static void run_entry(tcc_context *cx, tcc_libraries *l, const tcc_library_entry *e, const void *params,
                      void *const *buffers, int threads) {
    tcc_pool *pool;
    void *call;
    assert_ok(tcc_pool_create(&cx->diag, threads, &pool), &cx->diag);
    assert_ok(e->create(l, &cx->diag, pool, params, &call), &cx->diag);
    tcc_pool_lock(pool);
    for (int i = 0; i < 2; i++) assert_ok(e->run(call, &cx->diag, pool, buffers), &cx->diag);
    tcc_pool_unlock(pool);
    e->destroy(call);
    tcc_pool_destroy(pool);
}

static void check_sgemm(tcc_context *cx, tcc_libraries *l, const tcc_library_entry *e, const tcc_sgemm_params *p) {
    int64_t size_a = p->stride_a * (p->batch - 1) + p->lda * (p->transpose_a ? p->k : p->m);
    int64_t size_b = p->stride_b * (p->batch - 1) + p->ldb * (p->transpose_b ? p->n : p->k);
    int64_t size_c = p->stride_c * (p->batch - 1) + p->ldc * p->m;
    float *a = random_floats(size_a, 1), *b = random_floats(size_b, 2), *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        float *c = calloc((size_t)size_c, sizeof *c);
        void *buffers[3] = {a, b, c};
        run_entry(cx, l, e, p, buffers, threads);
        for (int64_t z = 0; z < p->batch && threads == 1; z++)
            for (int64_t i = 0; i < p->m; i++)
                for (int64_t j = 0; j < p->n; j++) {
                    double sum = 0;
                    for (int64_t k = 0; k < p->k; k++)
                        sum += (double)a[z * p->stride_a + (p->transpose_a ? k * p->lda + i : i * p->lda + k)] *
                               b[z * p->stride_b + (p->transpose_b ? j * p->ldb + k : k * p->ldb + j)];
                    if (p->accumulate) sum *= 2; /* it ran twice */
                    if (fabs(c[z * p->stride_c + i * p->ldc + j] - sum) > 1e-5 * sqrt((double)p->k) * 4)
                        fail_msg("sgemm differs");
                }
        for (int64_t i = 0; i < p->m && threads == 1; i++) /* between the rows nothing is written */
            for (int64_t j = p->n; j < p->ldc; j++) assert_true(c[i * p->ldc + j] == 0);
        if (first) assert_memory_equal(first, c, (size_t)size_c * sizeof *c);
        else first = c, c = NULL;
        free(c);
    }
    free(first);
    free(a);
    free(b);
}

static void test_sgemm(void **state) {
    (void)state;
    tcc_context cx;
    tcc_libraries *l;
    open_all(&cx, &l);
    const tcc_library_entry *e = find_or_skip(l, "cblas.sgemm");
    static const int64_t shapes[][3] = {{1, 1, 1}, {100, 30, 20}, {30, 300, 17}, {130, 65, 64}, {5, 7, 200}};
    for (int s = 0; e && s < (int)(sizeof shapes / sizeof *shapes); s++)
        for (int variant = 0; variant < 8; variant++) {
            tcc_sgemm_params p = {.batch = variant % 3 + 1, .m = shapes[s][0], .n = shapes[s][1], .k = shapes[s][2]};
            p.transpose_a = variant & 1;
            p.transpose_b = variant >> 1 & 1;
            p.accumulate = variant >> 2;
            int64_t padding = variant & 1 ? 3 : 0;
            p.lda = (p.transpose_a ? p.m : p.k) + padding;
            p.ldb = (p.transpose_b ? p.k : p.n) + padding;
            p.ldc = p.n + padding;
            p.stride_a = p.lda * (p.transpose_a ? p.k : p.m);
            p.stride_b = variant & 4 ? 0 : p.ldb * (p.transpose_b ? p.n : p.k); /* shared */
            p.stride_c = p.ldc * p.m;
            check_sgemm(&cx, l, e, &p);
        }
    tcc_sgemm_params bad = {.batch = 1, .m = 4, .n = 4, .k = 4, .lda = 3, .ldb = 4, .ldc = 4};
    void *call;
    if (e) assert_int_equal(e->create(l, &cx.diag, NULL, (const int64_t *)&bad, &call), TCC_EFORMAT);
    tcc_context_clear(&cx);
    tcc_libraries_close(l);
}

/* Dense strides of a tensor [outer, channels, 3 spatial], channels last or first. */
static void dense(int64_t strides[5], int64_t channels, const int64_t size[3], bool channels_last) {
    int64_t points = size[0] * size[1] * size[2];
    strides[0] = channels * points;
    strides[1] = channels_last ? 1 : points;
    strides[4] = channels_last ? channels : 1;
    strides[3] = strides[4] * size[2];
    strides[2] = strides[3] * size[1];
}

typedef void each_tap(void *user, int64_t x, int64_t w, int64_t y, int64_t out_channel);

/* Every product of the convolution by its definition: element offsets of input, weight and output. */
static void for_taps(const tcc_conv_params *p, each_tap *each, void *user) {
    int64_t in_group = p->in / p->groups, out_group = p->out / p->groups, o[3], k[3];
    for (int64_t n = 0; n < p->batch; n++)
        for (int64_t c = 0; c < p->out; c++)
            for (o[0] = 0; o[0] < p->y_size[0]; o[0]++)
                for (o[1] = 0; o[1] < p->y_size[1]; o[1]++)
                    for (o[2] = 0; o[2] < p->y_size[2]; o[2]++)
                        for (k[0] = 0; k[0] < p->kernel[0]; k[0]++)
                            for (k[1] = 0; k[1] < p->kernel[1]; k[1]++)
                                for (k[2] = 0; k[2] < p->kernel[2]; k[2]++) {
                                    int64_t x = n * p->x_stride[0], y = n * p->y_stride[0] + c * p->y_stride[1],
                                            w = c * p->w_stride[0];
                                    bool inside = true;
                                    for (int i = 0; i < 3; i++) {
                                        int64_t at = o[i] * p->stride[i] + k[i] * p->dilation[i] - p->pad_low[i];
                                        inside &= at >= 0 && at < p->x_size[i];
                                        x += at * p->x_stride[2 + i];
                                        y += o[i] * p->y_stride[2 + i];
                                        w += k[i] * p->w_stride[2 + i];
                                    }
                                    for (int64_t i = 0; inside && i < in_group; i++)
                                        each(user, x + (c / out_group * in_group + i) * p->x_stride[1],
                                             w + i * p->w_stride[1], y, c);
                                }
}

typedef struct tensors {
    float *x, *w, *y, *bias;
    double *expected;
} tensors;

static void tap_forward(void *user, int64_t x, int64_t w, int64_t y, int64_t c) {
    tensors *t = user;
    (void)c;
    t->expected[y] += (double)t->x[x] * t->w[w];
}
static void tap_data(void *user, int64_t x, int64_t w, int64_t y, int64_t c) {
    tensors *t = user;
    (void)c;
    t->expected[x] += (double)t->y[y] * t->w[w];
}
static void tap_filter(void *user, int64_t x, int64_t w, int64_t y, int64_t c) {
    tensors *t = user;
    (void)c;
    t->expected[w] += (double)t->y[y] * t->x[x];
}

static void compare(const char *what, const float *got, const double *expected, int64_t count, double tolerance) {
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - expected[i]) <= tolerance))
            fail_msg("%s[%lld]: %g, expected %g", what, (long long)i, got[i], expected[i]);
}

static void check_conv(tcc_context *cx, tcc_libraries *l, const tcc_conv_params *p) {
    int64_t sizes[3] = {p->batch * p->in * p->x_size[0] * p->x_size[1] * p->x_size[2],
                        p->out * (p->in / p->groups) * p->kernel[0] * p->kernel[1] * p->kernel[2],
                        p->batch * p->out * p->y_size[0] * p->y_size[1] * p->y_size[2]};
    static const char *const names[] = {"onednn.conv_forward", "onednn.conv_data_gradient",
                                        "onednn.conv_filter_gradient"};
    static each_tap *const taps[] = {tap_forward, tap_data, tap_filter};
    static const int result[] = {2, 0, 1}; /* index into sizes */
    tensors t = {random_floats(sizes[0], 3), random_floats(sizes[1], 4), random_floats(sizes[2], 5),
                 random_floats(p->out, 6), NULL};
    for (int kind = 0; kind < 3; kind++) {
        int64_t count = sizes[result[kind]];
        t.expected = calloc((size_t)count, sizeof *t.expected);
        for_taps(p, taps[kind], &t);
        for (int64_t n = 0; kind == 0 && n < p->batch; n++)
            for (int64_t c = 0; c < p->out; c++)
                for (int64_t i = 0; i < sizes[2] / p->batch / p->out; i++) {
                    double *y = &t.expected[n * p->y_stride[0] + c * p->y_stride[1] + i * p->y_stride[4]];
                    if (p->bias) *y += t.bias[c];
                    if (p->relu && *y < 0) *y = 0;
                }
        float *first = NULL;
        for (int threads = 1; threads <= 3; threads++) {
            float *out = calloc((size_t)count, sizeof *out);
            void *const buffers[3][4] = {{t.x, t.w, t.bias, out}, {t.y, t.w, out, NULL}, {t.x, t.y, out, NULL}};
            run_entry(cx, l, tcc_libraries_find(l, names[kind]), p, buffers[kind], threads);
            if (first) assert_memory_equal(first, out, (size_t)count * sizeof *out);
            else {
                double terms = kind == 2 ? (double)sizes[2] / (double)p->out
                                         : (double)sizes[1] / (double)(kind ? p->in : p->out);
                compare(names[kind], out, t.expected, count, 2e-6 * sqrt(terms) * 4);
                first = out, out = NULL;
            }
            free(out);
        }
        free(first);
        free(t.expected);
    }
    free(t.x);
    free(t.w);
    free(t.y);
    free(t.bias);
}

static void test_conv(void **state) {
    (void)state;
    tcc_context cx;
    tcc_libraries *l;
    open_all(&cx, &l);
    typedef struct shape {
        int64_t batch, groups, in, out, x[3], kernel[3], stride[3], dilation[3], low[3], high[3], bias, relu;
    } shape;
    static const shape shapes[] = {
        {4, 1, 3, 16, {1, 12, 12}, {1, 3, 3}, ONES, ONES, {0, 1, 1}, {0, 1, 1}, 1, 1},     /* a first layer */
        {6, 1, 32, 48, {1, 8, 8}, {1, 3, 3}, {1, 2, 2}, ONES, {0, 1, 1}, {0, 1, 1}, 0, 0}, /* strided */
        {3, 1, 16, 32, {1, 7, 9}, ONES, {1, 2, 2}, ONES, NONE, NONE, 1, 0}, /* 1x1, strided: a shortcut */
        {2, 4, 8, 12, {1, 9, 10}, {1, 3, 2}, ONES, {1, 2, 1}, {0, 2, 0}, {0, 1, 1}, 0, 1}, /* groups, dilation, uneven
                                                                                              padding */
        {5, 8, 8, 8, {1, 10, 10}, {1, 3, 3}, ONES, ONES, {0, 1, 1}, {0, 1, 1}, 0, 0},      /* depthwise */
        {7, 1, 5, 7, {1, 1, 40}, {1, 1, 5}, {1, 1, 2}, ONES, {0, 0, 2}, {0, 0, 2}, 1, 0},  /* 1-D */
        {2, 1, 4, 6, {5, 6, 7}, {3, 3, 3}, ONES, ONES, {1, 1, 1}, {1, 1, 1}, 0, 0},        /* 3-D */
        {1, 1, 1, 1, ONES, ONES, ONES, ONES, NONE, NONE, 0, 0},
        {2, 1, 128, 128, {1, 4, 4}, {1, 3, 3}, ONES, ONES, {0, 1, 1}, {0, 1, 1}, 0, 0}, /* weights converted in parts */
    };
    if (find_or_skip(l, "onednn.conv_forward"))
        for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++)
            for (int layout = 0; layout < 2; layout++) {
                const shape *s = &shapes[i];
                tcc_conv_params p = {.batch = s->batch,
                                     .groups = s->groups,
                                     .in = s->in,
                                     .out = s->out,
                                     .bias = s->bias,
                                     .relu = s->relu};
                for (int k = 0; k < 3; k++) {
                    p.x_size[k] = s->x[k];
                    p.kernel[k] = s->kernel[k];
                    p.stride[k] = s->stride[k];
                    p.dilation[k] = s->dilation[k];
                    p.pad_low[k] = s->low[k];
                    p.pad_high[k] = s->high[k];
                    p.y_size[k] =
                        (s->x[k] + s->low[k] + s->high[k] - (s->kernel[k] - 1) * s->dilation[k] - 1) / s->stride[k] + 1;
                }
                dense(p.x_stride, p.in, p.x_size, !layout);
                dense(p.y_stride, p.out, p.y_size, !layout);
                dense(p.w_stride, p.in / p.groups, p.kernel, !layout);
                check_conv(&cx, l, &p);
            }
    tcc_conv_params bad = {.batch = 1, .groups = 2, .in = 3, .out = 2};
    void *call;
    const tcc_library_entry *e = tcc_libraries_find(l, "onednn.conv_forward");
    if (e) assert_int_equal(e->create(l, &cx.diag, NULL, (const int64_t *)&bad, &call), TCC_EFORMAT);
    tcc_context_clear(&cx);
    tcc_libraries_close(l);
}

static void test_out_of_memory(void **state) {
    (void)state;
    tcc_context cx;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    tcc_conv_params conv = {.batch = 2,
                            .groups = 1,
                            .in = 16,
                            .out = 16,
                            .x_size = ONES,
                            .y_size = ONES,
                            .kernel = ONES,
                            .stride = ONES,
                            .dilation = ONES,
                            .x_stride = {16, 1, 16, 16, 16},
                            .y_stride = {16, 1, 16, 16, 16},
                            .w_stride = {16, 1, 1, 1, 1}};
    tcc_sgemm_params sgemm = {.batch = 1, .m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1};
    for (int64_t n = 0, done = 0; !done; n++) {
        tcc_libraries *l = NULL;
        tcc_pool *pool;
        void *calls[2] = {NULL};
        assert_ok(tcc_pool_create(&cx.diag, 2, &pool), &cx.diag);
        tcc__alloc_fail_at(n);
        tcc_status s = tcc_libraries_open(&cx, &l);
        const tcc_library_entry *entries[2] = {l ? tcc_libraries_find(l, "onednn.conv_filter_gradient") : NULL,
                                               l ? tcc_libraries_find(l, "cblas.sgemm") : NULL};
        const void *params[2] = {&conv, &sgemm};
        for (int i = 0; i < 2; i++)
            if (s == TCC_OK && entries[i]) s = entries[i]->create(l, &cx.diag, pool, params[i], &calls[i]);
        tcc__alloc_fail_at(-1);
        done = s == TCC_OK;
        if (!done) assert_int_equal(s, TCC_ENOMEM);
        for (int i = 0; i < 2; i++)
            if (calls[i]) entries[i]->destroy(calls[i]);
        tcc_libraries_close(l);
        tcc_pool_destroy(pool);
        tcc_context_clear(&cx);
    }
}

static void test_switches(void **state) {
    (void)state;
    tcc_context cx;
    tcc_libraries *l;
    setenv("TCC_LIBRARIES", "none", 1);
    open_all(&cx, &l);
    assert_null(tcc_libraries_find(l, "cblas.sgemm"));
    tcc_strbuf text = {0};
    tcc_libraries_describe(l, &text);
    assert_non_null(strstr(text.text, "openblas: switched off by TCC_LIBRARIES\n"));
    tcc_strbuf_free(&text);
    tcc_libraries_close(l);

    setenv("TCC_LIBRARIES", "openblas,mkl", 1);
    assert_int_equal(tcc_libraries_open(&cx, &l), TCC_EINVAL);
    assert_non_null(
        strstr(tcc_diag_text(&cx.diag), "TCC_LIBRARIES: unknown library 'mkl'; expected none, or a list of: openblas"));
    tcc_context_clear(&cx);

    /* A part of a library stands for the library, and for a preference. */
    setenv("TCC_LIBRARIES", "openblas,cudnn.batch_norm", 1);
    open_all(&cx, &l);
    tcc_libraries_close(l);
    assert_true(tcc_libraries_prefer("cudnn.batch_norm"));
    setenv("TCC_LIBRARIES", "cudnn", 1);
    assert_false(tcc_libraries_prefer("cudnn.batch_norm"));
    unsetenv("TCC_LIBRARIES");
    assert_false(tcc_libraries_prefer("cudnn.batch_norm"));

    setenv("TCC_LIBRARIES", "openblas", 1);
    setenv("TCC_OPENBLAS_PATH", "/nonexistent/libopenblas.so", 1);
    open_all(&cx, &l);
    assert_null(tcc_libraries_find(l, "cblas.sgemm"));
    tcc_libraries_describe(l, &text);
    assert_non_null(strstr(text.text, "openblas: not found (/nonexistent/libopenblas.so"));
    tcc_strbuf_free(&text);
    tcc_libraries_close(l);

    /* A library that is none of the sort is refused, not called. */
    setenv("TCC_OPENBLAS_PATH", "libc.so.6", 1);
    open_all(&cx, &l);
    assert_null(tcc_libraries_find(l, "cblas.sgemm"));
    tcc_libraries_describe(l, &text);
    assert_non_null(
        strstr(text.text, "cannot be used: it lacks cblas_sgemm; large matrix products use our own kernels"));
    tcc_strbuf_free(&text);
    tcc_libraries_close(l);
    unsetenv("TCC_OPENBLAS_PATH");
    unsetenv("TCC_LIBRARIES");
    tcc_libraries_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgemm),
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_switches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
