/* SPDX-License-Identifier: MIT
 * Library entries against naive loops, on any number of threads with equal bits; what is missing is skipped, and said. */
#include "harness/check.h"

#include "ir/support/alloc.h"
#include "runtime/library.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
static void run_entry(tcc_context *cx, tcc_libraries *l, const tcc_library_entry *e, const void *params, int n_buffers,
                      void *const *buffers, int threads) {
    tcc_pool *pool;
    void *call;
    assert_ok(tcc_pool_create(&cx->diag, threads, &pool), &cx->diag);
    assert_ok(e->create(l, &cx->diag, params, n_buffers, threads, &call), &cx->diag);
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
        run_entry(cx, l, e, p, 3, buffers, threads);
        for (int64_t z = 0; z < p->batch && threads == 1; z++)
            for (int64_t i = 0; i < p->m; i++)
                for (int64_t j = 0; j < p->n; j++) {
                    double sum = 0;
                    for (int64_t k = 0; k < p->k; k++)
                        sum += (double)a[z * p->stride_a + (p->transpose_a ? k * p->lda + i : i * p->lda + k)] *
                               b[z * p->stride_b + (p->transpose_b ? j * p->ldb + k : k * p->ldb + j)];
                    if (p->accumulate) sum *= 2; /* it ran twice */
                    if (fabs(c[z * p->stride_c + i * p->ldc + j] - sum) > 1e-5 * sqrt((double)p->k) * 4) fail_msg("sgemm differs");
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
    if (e) assert_int_equal(e->create(l, &cx.diag, (const int64_t *)&bad, 3, 1, &call), TCC_EFORMAT);
    tcc_context_clear(&cx);
    tcc_libraries_close(l);
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
    assert_non_null(strstr(tcc_diag_text(&cx.diag), "TCC_LIBRARIES: unknown library 'mkl'; expected none, or a list of: openblas"));
    tcc_context_clear(&cx);

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
    assert_non_null(strstr(text.text, "cannot be used: it lacks cblas_sgemm; large matrix products use our own kernels"));
    tcc_strbuf_free(&text);
    tcc_libraries_close(l);
    unsetenv("TCC_OPENBLAS_PATH");
    unsetenv("TCC_LIBRARIES");
    tcc_libraries_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgemm),
        cmocka_unit_test(test_switches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
