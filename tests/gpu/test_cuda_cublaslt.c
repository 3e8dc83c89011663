/* SPDX-License-Identifier: MIT
 * Matrix products by cuBLASLt: every form against plain sums, what the library refuses, a library that is missing or of
 * another version, and every call of it failing once. On the stand-in; on a GPU with the library the products alone. */
#include "harness/check.h"
#include "harness/cublaslt.h"
#include "harness/cuda_call.h"

#include "codegen/calls.h"
#include "ir/support/alloc.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/context.h"

#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { A, B, BIAS, AUX, ADDEND, C, BINDINGS };
enum { WORKSPACE = 8192 };

/* --- programs of one product --- */

static int64_t span(int64_t batch, int64_t stride, int64_t rows, int64_t columns, int64_t ld) {
    return (batch - 1) * stride + (rows - 1) * ld + columns;
}

static int64_t elements(const tcc_matmul_params *p, int binding) {
    const int64_t last = p->outer - 1;
    switch (binding) {
    case A:
        return last * p->outer_a +
               span(p->batch, p->stride_a, p->transpose_a ? p->k : p->m, p->transpose_a ? p->m : p->k, p->lda);
    case B:
        return last * p->outer_b +
               span(p->batch, p->stride_b, p->transpose_b ? p->n : p->k, p->transpose_b ? p->k : p->n, p->ldb);
    case BIAS: return p->bias == TCC_MATMUL_SUMS_OF_A ? p->m : p->n;
    case ADDEND: return p->addend ? elements(p, C) : 1;
    case AUX:
        if (p->activation == TCC_MATMUL_RELU_GRADIENT)
            return span(p->batch, p->stride_aux / 8, p->m, p->n / 8, p->ld_aux / 8);
        return p->aux ? span(p->batch, p->stride_aux, p->m, p->n, p->ld_aux) : 1;
    default: return last * p->outer_c + span(p->batch, p->stride_c, p->m, p->n, p->ldc);
    }
}

static tcc_dtype type_of(const tcc_matmul_params *p, int binding) {
    if (binding == AUX && p->activation == TCC_MATMUL_RELU_GRADIENT) return TCC_U8;
    return (tcc_dtype)(binding == A || binding == B ? p->type : p->type_c);
}

static tcc_program *product_program(const tcc_matmul_params *p) {
    call_shape shape = {"cublaslt.matmul", TCC_MATMUL_PARAMS, BINDINGS, 1, .workspace_bytes = p->workspace_bytes};
    for (int i = 0; i < BINDINGS; i++)
        shape.types[i] = (tcc_type){.dtype = type_of(p, i), .rank = 1, .dims = {elements(p, i)}};
    return call_program(&shape, (const int64_t *)p);
}

static tcc_status start(rig *r, const tcc_matmul_params *p) { return rig_start(r, product_program(p)); }

static double a_at(const tcc_matmul_params *p, void *const *data, int64_t outer, int64_t batch, int64_t i, int64_t k) {
    return call_value_at(data[A], p->type,
                         outer * p->outer_a + batch * p->stride_a + (p->transpose_a ? k * p->lda + i : i * p->lda + k));
}
static double b_at(const tcc_matmul_params *p, void *const *data, int64_t outer, int64_t batch, int64_t k, int64_t j) {
    return call_value_at(data[B], p->type,
                         outer * p->outer_b + batch * p->stride_b + (p->transpose_b ? j * p->ldb + k : k * p->ldb + j));
}

static double gelu_inner(double x) { return tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)); }

static void check_near(const tcc_matmul_params *p, const char *what, int64_t matrix, int64_t i, int64_t j, double is,
                       double expected, double scale) {
    double tolerance = p->type == TCC_F64                       ? 1e-14
                       : p->allow_tf32 || p->type_c == TCC_BF16 ? 1e-2
                       : p->type_c == TCC_F16                   ? 2e-3
                                                                : 1e-5;
    if (!(fabs(is - expected) <= tolerance * scale))
        fail_msg("%lld x %lld x %lld, %s, matrix %lld, (%lld, %lld): %g instead of %g", (long long)p->m,
                 (long long)p->n, (long long)p->k, what, (long long)matrix, (long long)i, (long long)j, is, expected);
}

/* An element of C, and of aux if that is written, from its operands as they were before the run. */
static void compare_element(const tcc_matmul_params *p, void *const *data, void *const *got, int64_t outer,
                            int64_t batch, int64_t i, int64_t j) {
    const int64_t at_aux = batch * p->stride_aux + i * p->ld_aux + j,
                  at_c = outer * p->outer_c + batch * p->stride_c + i * p->ldc + j;
    const bool adds_up = p->outer > 1 && !p->outer_c;
    double sum = p->bias == TCC_MATMUL_BIAS ? call_value_at(data[BIAS], p->type_c, j) : 0, scale = 1;
    for (int64_t o = adds_up ? 0 : outer; o < (adds_up ? p->outer : outer + 1); o++)
        for (int64_t k = 0; k < p->k; k++) {
            double term = a_at(p, data, o, batch, i, k) * b_at(p, data, o, batch, k, j);
            sum += term;
            scale += fabs(term);
        }
    if (p->addend) sum += call_value_at(data[ADDEND], p->type_c, at_c);
    if (p->aux && p->activation == TCC_MATMUL_GELU)
        check_near(p, "aux", batch, i, j, call_value_at(got[AUX], p->type_c, at_aux), sum, scale);
    if (p->activation == TCC_MATMUL_RELU && sum < 0) sum = 0;
    if (p->activation == TCC_MATMUL_RELU_GRADIENT && !(((const uint8_t *)data[AUX])[at_aux / 8] >> at_aux % 8 & 1))
        sum = 0;
    if (p->activation == TCC_MATMUL_GELU) sum *= 0.5 * (1 + gelu_inner(sum));
    if (p->activation == TCC_MATMUL_GELU_GRADIENT) {
        double x = call_value_at(data[AUX], p->type_c, at_aux), t = gelu_inner(x);
        sum *= 0.5 * (1 + t + x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x));
    }
    check_near(p, "c", outer * p->batch + batch, i, j, call_value_at(got[C], p->type_c, at_c), sum, scale);
}

static void compare(const tcc_matmul_params *p, void *const *data, void *const *got) {
    for (int64_t outer = 0; outer < p->outer; outer++)
        for (int64_t batch = 0; batch < p->batch; batch++)
            for (int64_t i = 0; i < p->m; i++)
                for (int64_t j = 0; j < p->n; j++) compare_element(p, data, got, outer, batch, i, j);
    if (p->bias != TCC_MATMUL_SUMS_OF_A && p->bias != TCC_MATMUL_SUMS_OF_B) return;
    for (int64_t i = 0; i < elements(p, BIAS); i++) {
        double sum = 0;
        for (int64_t k = 0; k < p->k; k++)
            sum += p->bias == TCC_MATMUL_SUMS_OF_A ? a_at(p, data, 0, 0, i, k) : b_at(p, data, 0, 0, k, i);
        check_near(p, "sums", 0, i, 0, call_value_at(got[BIAS], p->type_c, i), sum, (double)p->k);
    }
}

static void check_product(const tcc_matmul_params *p) {
    static const int written[] = {BIAS, AUX, C};
    rig r;
    void *data[BINDINGS], *got[BINDINGS] = {0};
    if (start(&r, p) != TCC_OK) fail_msg("%s", tcc_diag_text(&r.cx.diag));
    const tcc_device_ops *ops = r.device->ops;
    for (int i = 0; i < BINDINGS; i++) {
        data[i] = call_random_data(type_of(p, i), elements(p, i), (uint32_t)i + 1);
        assert_ok(ops->upload(r.device, &r.cx.diag, r.memory[i], data[i], tcc_type_bytes(&r.program->bindings[i].type)),
                  &r.cx.diag);
    }
    for (int run = 0; run < 2; run++) {
        assert_ok(tcc_exec_run(r.exec, &r.cx.diag), &r.cx.diag);
        for (int i = 0; i < 3; i++) {
            int64_t bytes = tcc_type_bytes(&r.program->bindings[written[i]].type);
            got[written[i]] = realloc(got[written[i]], (size_t)bytes);
            assert_ok(ops->download(r.device, &r.cx.diag, got[written[i]], r.memory[written[i]], bytes), &r.cx.diag);
        }
        compare(p, data, got);
        for (int i = BIAS; i <= ADDEND; i++) { /* elsewhere from now on: the library has to be told */
            void *other;
            int64_t bytes = tcc_type_bytes(&r.program->bindings[i].type);
            assert_ok(ops->alloc(r.device, &r.cx.diag, bytes, &other), &r.cx.diag);
            assert_ok(ops->upload(r.device, &r.cx.diag, other, data[i], bytes), &r.cx.diag);
            ops->free(r.device, r.memory[i], bytes);
            r.memory[i] = other;
            assert_ok(tcc_exec_bind(r.exec, &r.cx.diag, i, other, bytes), &r.cx.diag);
        }
    }
    for (int i = 0; i < BINDINGS; i++) free(data[i]), free(got[i]);
    rig_stop(&r);
}

/* Dense matrices. */
static tcc_matmul_params product(int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
    return (tcc_matmul_params){.batch = batch,
                               .m = m,
                               .n = n,
                               .k = k,
                               .transpose_a = ta,
                               .transpose_b = tb,
                               .lda = ta ? m : k,
                               .ldb = tb ? k : n,
                               .ldc = n,
                               .stride_a = m * k,
                               .stride_b = k * n,
                               .stride_c = m * n,
                               .outer = 1,
                               .type = TCC_F32,
                               .type_c = TCC_F32,
                               .alignment = 16,
                               .workspace_bytes = WORKSPACE};
}

/* Whether there is a device with the library; says why not. */
static bool available(void) {
    tcc_matmul_params p = product(1, 16, 16, 16, false, false);
    return call_available(product_program(&p));
}

static bool takes(const tcc_matmul_params *p) {
    rig r;
    int64_t params[TCC_MATMUL_PARAMS];
    tcc_matmul_params plain = product(1, 16, 16, 16, false, false);
    memcpy(params, p, sizeof params);
    bool yes = start(&r, &plain) == TCC_OK && r.device->ops->takes_call(r.device, &r.cx, "cublaslt.matmul", params);
    rig_stop(&r);
    return yes;
}

static void test_products(void **state) {
    (void)state;
    if (!available()) skip();
    for (int form = 0; form < 64; form++) {
        tcc_matmul_params p = product(form & 4 ? 3 : 1, 24, 40, 16, form & 1, form & 2);
        p.bias = form >> 3 & 1, p.activation = form >> 4 & 1;
        if (form & 32) { /* parts of larger matrices */
            p.lda += 8, p.ldb += 4, p.ldc += 12;
            p.stride_a = p.lda * (p.transpose_a ? p.k : p.m), p.stride_b = p.ldb * (p.transpose_b ? p.n : p.k),
            p.stride_c = p.ldc * p.m;
        }
        check_product(&p);
    }
    tcc_matmul_params odd = product(1, 7, 13, 29, false, true), shared = product(4, 20, 12, 8, false, false),
                      deep = product(1, 16, 16, 600, true, false);
    odd.alignment = 4;
    shared.stride_b = 0;
    check_product(&odd);
    check_product(&shared);
    check_product(&deep); /* with workspace */
}

/* gelu_tanh with and without its input stored, and its gradient: what a real library lacks it says when it is asked. */
static void test_gelu(void **state) {
    (void)state;
    if (!available()) skip();
    static const tcc_dtype types[] = {TCC_F32, TCC_F16, TCC_BF16};
    int refused = 0;
    for (int form = 0; form < 60; form++) {
        tcc_matmul_params p = product(form & 4 ? 3 : 1, 24, 40, 16, form & 1, form & 2);
        p.type = p.type_c = types[form / 20];
        p.activation = form % 20 < 16 ? TCC_MATMUL_GELU : TCC_MATMUL_GELU_GRADIENT;
        p.bias = form % 20 < 16 && form & 8;
        p.aux = form % 20 >= 8;
        p.ld_aux = form & 1 ? 48 : 40;
        p.stride_aux = p.ld_aux * (p.m + 1);
        if (takes(&p)) check_product(&p);
        else refused++;
    }
    if (refused) printf("%d of 60 forms are refused\n", refused);
    if (lt.refuse) assert_int_equal(refused, 0);
}

/* Zeros where a bit is 0. */
static void test_relu_gradient(void **state) {
    (void)state;
    if (!available()) skip();
    static const tcc_dtype types[] = {TCC_F32, TCC_F16, TCC_BF16};
    int refused = 0;
    for (int form = 0; form < 24; form++) {
        tcc_matmul_params p = product(form & 4 ? 3 : 1, 24, form & 1 ? 40 : 136, 16, form & 1, form & 2);
        p.type = p.type_c = types[form / 8];
        p.activation = TCC_MATMUL_RELU_GRADIENT, p.aux = 1;
        p.ld_aux = form & 1 ? 128 : 256;
        p.stride_aux = p.ld_aux * (p.m + 1);
        if (takes(&p)) check_product(&p);
        else refused++;
    }
    if (refused) printf("%d of 24 forms are refused\n", refused);
    if (lt.refuse) assert_int_equal(refused, 0);
}

/* NaN in a row of A is NaN in that row of C, whatever the activation. */
static void test_nan(void **state) {
    (void)state;
    if (!available()) skip();
    enum { ROW = 3 };
    for (int activation = TCC_MATMUL_LINEAR; activation <= TCC_MATMUL_GELU; activation++) {
        tcc_matmul_params p = product(1, 16, 24, 16, false, true);
        rig r;
        float *data[BINDINGS], c[16 * 24];
        p.activation = activation;
        if (start(&r, &p) != TCC_OK) fail_msg("%s", tcc_diag_text(&r.cx.diag));
        for (int i = 0; i < BINDINGS; i++) {
            data[i] = call_random_data(TCC_F32, elements(&p, i), (uint32_t)i + 1);
            if (i == A) data[A][ROW * p.k + 5] = NAN;
            assert_ok(r.device->ops->upload(r.device, &r.cx.diag, r.memory[i], data[i], elements(&p, i) * 4),
                      &r.cx.diag);
        }
        assert_ok(tcc_exec_run(r.exec, &r.cx.diag), &r.cx.diag);
        assert_ok(r.device->ops->download(r.device, &r.cx.diag, c, r.memory[C], sizeof c), &r.cx.diag);
        for (int i = 0; i < p.m; i++)
            for (int j = 0; j < p.n; j++)
                if (isnan(c[i * p.n + j]) != (i == ROW))
                    fail_msg("activation %d: %g at (%d, %d)", activation, (double)c[i * p.n + j], i, j);
        for (int i = 0; i < BINDINGS; i++) free(data[i]);
        rig_stop(&r);
    }
}

/* Beside the product the sums of an operand. */
static void test_sums(void **state) {
    (void)state;
    if (!available()) skip();
    int refused = 0;
    for (int form = 0; form < 16; form++) {
        tcc_matmul_params p = product(1, 24, 40, 16, form & 1, form & 2);
        p.bias = form & 4 ? TCC_MATMUL_SUMS_OF_A : TCC_MATMUL_SUMS_OF_B;
        if (form & 8) p.type = p.type_c = TCC_BF16;
        if (takes(&p)) check_product(&p);
        else refused++;
    }
    if (refused) printf("%d of 16 forms are refused\n", refused);
    if (lt.refuse) assert_int_equal(refused, 0);
}

/* Several calls: heads that lie packed beside each other, and sums over two dimensions that do not merge. */
static void test_outer(void **state) {
    (void)state;
    if (!available()) skip();
    enum { IMAGES = 3, TIME = 24, HEADS = 4, WIDTH = 16, ROW = 3 * HEADS * WIDTH };
    tcc_matmul_params scores = product(HEADS, TIME, TIME, WIDTH, false,
                                       true); /* q and k out of [IMAGES, TIME, 3, HEADS, WIDTH] */
    scores.lda = scores.ldb = ROW, scores.stride_a = scores.stride_b = WIDTH;
    scores.outer = IMAGES, scores.outer_a = scores.outer_b = TIME * ROW, scores.outer_c = HEADS * TIME * TIME;
    check_product(&scores);
    scores.bias = TCC_MATMUL_BIAS;
    check_product(&scores);
    tcc_matmul_params weights = product(HEADS, WIDTH, WIDTH, TIME, true, false);
    weights.lda = weights.ldb = ROW, weights.stride_a = weights.stride_b = WIDTH;
    weights.outer = IMAGES, weights.outer_a = weights.outer_b = TIME * ROW;
    check_product(&weights);
    weights.workspace_bytes = 0;
    check_product(&weights);
}

static void test_types(void **state) {
    (void)state;
    if (!available()) skip();
    static const tcc_dtype types[][2] = {
        {TCC_F16, TCC_F16}, {TCC_BF16, TCC_BF16}, {TCC_F16, TCC_F32}, {TCC_BF16, TCC_F32}, {TCC_F64, TCC_F64}};
    for (int i = 0; i < 5; i++)
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

/* A matrix is added; the bias behind it, if any, and max(0, x). */
static void test_addend(void **state) {
    (void)state;
    if (!available()) skip();
    static const tcc_dtype types[][2] = {
        {TCC_F32, TCC_F32}, {TCC_BF16, TCC_BF16}, {TCC_F16, TCC_F32}, {TCC_F64, TCC_F64}};
    int refused = 0;
    for (int form = 0; form < 32; form++) {
        tcc_matmul_params p = product(form & 4 ? 3 : 1, 24, 40, 16, form & 1, form & 2);
        p.type = types[form >> 3][0], p.type_c = types[form >> 3][1];
        p.addend = 1, p.bias = form & 1, p.activation = form >> 1 & 1;
        if (form & 4) p.ldc += 8, p.stride_c = p.ldc * p.m;
        if (takes(&p)) check_product(&p);
        else refused++;
    }
    if (refused) printf("%d of 32 forms are refused\n", refused);
    if (lt.refuse) assert_int_equal(refused, 0);
    tcc_matmul_params several = product(2, 24, 40, 16, false, false);
    several.outer = 3, several.outer_a = 2 * 24 * 16, several.outer_c = 2 * 24 * 40, several.addend = 1;
    check_product(&several);
    cublasltsim_counts counts = {0};
    if (lt.get_counts) lt.get_counts(&counts);
    if (lt.get_counts) assert_int_equal(counts.added, 2 * (32 + 3)); /* each runs twice */
}

/* --- what cannot be had --- */

static void check_refused(const tcc_matmul_params *p, tcc_status expected, const char *words) {
    check_call_refused(product_program(p), expected, words);
}

static void check_described(const char *words) {
    const tcc_matmul_params p = product(1, 16, 16, 16, false, false);
    check_device_described(product_program(&p), words);
}

static void test_refused(void **state) {
    (void)state;
    skip_without(lt.refuse, STAND_IN_REFUSES);
    tcc_matmul_params p = product(2, 16, 16, 600, false, false), wrong = product(1, 16, 16, 16, false, false),
                      narrow = product(1, 19, 64, 5000, true, false);
    check_refused(&narrow, TCC_EUNSUPPORTED, "its way fills 0.00758 of the GPU");
    lt.refuse(512);
    check_refused(&p, TCC_EUNSUPPORTED, "cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_NOT_SUPPORTED");
    check_refused(&p, TCC_EUNSUPPORTED, "for cublaslt.matmul of 2 x 16 x 16 x 600 (batch, m, n, k)");
    wrong.lda = 8;
    check_refused(&wrong, TCC_EFORMAT,
                  "cublaslt.matmul: a row of A overlaps the next one: {batch=1, m=16, n=16, k=16, lda=8, ");
    static const struct {
        int64_t outer, batch, bias, activation, aux, ld_aux, stride_aux, alignment;
    } forms[] = {
        {1, 1, TCC_MATMUL_NO_BIAS, TCC_MATMUL_GELU, 1, 12, 0, 16}, /* aux: its leading dimension */
        {1, 1, TCC_MATMUL_NO_BIAS, TCC_MATMUL_GELU, 1, 20, 0, 16},
        {1, 2, TCC_MATMUL_NO_BIAS, TCC_MATMUL_GELU, 1, 16, 260, 16}, /* its stride */
        {1, 1, TCC_MATMUL_NO_BIAS, TCC_MATMUL_GELU, 1, 16, 0, 8},    /* its alignment */
        {2, 1, TCC_MATMUL_NO_BIAS, TCC_MATMUL_GELU, 1, 16, 0, 16},   /* several calls */
        {1, 1, TCC_MATMUL_NO_BIAS, TCC_MATMUL_RELU, 1, 16, 0, 16},
        {1, 1, TCC_MATMUL_NO_BIAS, TCC_MATMUL_GELU_GRADIENT, 0, 0, 0, 16},
        {1, 1, TCC_MATMUL_BIAS, TCC_MATMUL_GELU_GRADIENT, 1, 16, 0, 16},
        {1, 1, TCC_MATMUL_NO_BIAS, TCC_MATMUL_RELU_GRADIENT, 1, 64, 0, 16}, /* bits */
        {1, 2, TCC_MATMUL_NO_BIAS, TCC_MATMUL_RELU_GRADIENT, 1, 128, 64, 16},
        {1, 1, TCC_MATMUL_NO_BIAS, TCC_MATMUL_RELU_GRADIENT, 0, 0, 0, 16},
        {1, 1, TCC_MATMUL_BIAS, TCC_MATMUL_RELU_GRADIENT, 1, 128, 0, 16},
        {1, 2, TCC_MATMUL_SUMS_OF_A, TCC_MATMUL_LINEAR, 0, 0, 0, 16}, /* sums: of one product */
        {1, 1, TCC_MATMUL_SUMS_OF_B, TCC_MATMUL_RELU, 0, 0, 0, 16},
        {2, 1, TCC_MATMUL_BIAS, TCC_MATMUL_LINEAR, 0, 0, 0, 16}, /* calls that add up */
        {2, 1, TCC_MATMUL_NO_BIAS, TCC_MATMUL_RELU, 0, 0, 0, 16},
        {0, 1, TCC_MATMUL_NO_BIAS, TCC_MATMUL_LINEAR, 0, 0, 0, 16},
        {1, 1, 4, TCC_MATMUL_LINEAR, 0, 0, 0, 16},
        {1, 1, TCC_MATMUL_NO_BIAS, 5, 0, 0, 0, 16},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        wrong = product(forms[i].batch, 16, 16, 16, false, false);
        wrong.outer = forms[i].outer, wrong.bias = forms[i].bias, wrong.activation = forms[i].activation,
        wrong.aux = forms[i].aux;
        wrong.ld_aux = forms[i].ld_aux, wrong.stride_aux = forms[i].stride_aux, wrong.alignment = forms[i].alignment;
        check_refused(&wrong, TCC_EFORMAT, "cublaslt.matmul: ");
    }
}

/* What is added is added once, and not with everything; f64 is f64 wholly, and without GELU. */
static void test_addend_and_types_refused(void **state) {
    (void)state;
    skip_without(lt.refuse, STAND_IN_REFUSES);
    static const struct {
        int64_t outer, addend, bias, activation;
        tcc_dtype type, type_c;
    } forms[] = {
        {2, 1, TCC_MATMUL_NO_BIAS, TCC_MATMUL_LINEAR, TCC_F32, TCC_F32},
        {1, 1, TCC_MATMUL_SUMS_OF_A, TCC_MATMUL_LINEAR, TCC_F32, TCC_F32},
        {1, 1, TCC_MATMUL_NO_BIAS, TCC_MATMUL_GELU, TCC_F32, TCC_F32},
        {1, 0, TCC_MATMUL_NO_BIAS, TCC_MATMUL_GELU, TCC_F64, TCC_F64},
        {1, 0, TCC_MATMUL_NO_BIAS, TCC_MATMUL_LINEAR, TCC_F64, TCC_F32},
        {1, 0, TCC_MATMUL_NO_BIAS, TCC_MATMUL_LINEAR, TCC_F32, TCC_F64},
        {1, 0, TCC_MATMUL_NO_BIAS, TCC_MATMUL_LINEAR, TCC_I32, TCC_I32},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        tcc_matmul_params wrong = product(1, 16, 16, 16, false, false);
        wrong.outer = forms[i].outer, wrong.addend = forms[i].addend, wrong.bias = forms[i].bias,
        wrong.activation = forms[i].activation;
        wrong.type = forms[i].type, wrong.type_c = forms[i].type_c;
        check_refused(&wrong, TCC_EFORMAT, "cublaslt.matmul: ");
    }
}

/* A library whose epilogues are not what we mean by them is found out, and asked for others all the same. */
static void test_differing(void **state) {
    (void)state;
    skip_without(lt.differ, STAND_IN_REFUSES);
    static const struct {
        tcc_matmul_activation activation;
        const char *words;
    } ways[] = {{TCC_MATMUL_RELU, "cublaslt: its max(0, x) makes a number of NaN"},
                {TCC_MATMUL_RELU_GRADIENT, "cublaslt: it reads the mask's bits in another order"},
                {TCC_MATMUL_RELU_GRADIENT, "cublaslt: what its mask hides is not 0 where it is NaN or infinite"}};
    for (int how = 0; how < 3; how++) {
        tcc_matmul_params p = product(1, 16, 128, 16, false, false), plain = p;
        p.activation = ways[how].activation;
        if (p.activation == TCC_MATMUL_RELU_GRADIENT) p.aux = 1, p.ld_aux = 128;
        lt.differ(how + 1);
        check_refused(&p, TCC_EUNSUPPORTED, ways[how].words);
        check_product(&plain);
        lt.differ(0);
        check_product(&p);
    }
}

/* Each type is asked for by itself, and at a size that tensor cores take. */
static void test_differing_somewhere(void **state) {
    (void)state;
    skip_without(lt.differ, STAND_IN_REFUSES);
    static const struct {
        int type, type_c, cuda_type;
    } types[] = {{TCC_F64, TCC_F64, TCC_CUDA_R_64F},
                 {TCC_F32, TCC_F32, TCC_CUDA_R_32F},
                 {TCC_F16, TCC_F16, TCC_CUDA_R_16F},
                 {TCC_BF16, TCC_BF16, TCC_CUDA_R_16BF}};
    for (int t = 0; t < 4; t++) {
        lt.differ(1);
        lt.differ_where(types[t].cuda_type, 64);
        for (int i = 0; i < 4; i++) {
            tcc_matmul_params p = product(1, 16, 128, 16, false, false); /* where it does not differ itself */
            p.type = types[i].type, p.type_c = types[i].type_c, p.activation = TCC_MATMUL_RELU;
            if (i == t) check_refused(&p, TCC_EUNSUPPORTED, "cublaslt: its max(0, x) makes a number of NaN");
            else check_product(&p);
        }
    }
}

static void test_workspace_is_lowered(void **state) {
    (void)state;
    skip_without(lt.refuse, STAND_IN_REFUSES);
    rig r;
    tcc_matmul_params p = product(1, 16, 16, 16, false, false), deep = product(1, 16, 16, 600, false, false),
                      tight = deep;
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
    skip_without(lt.refuse, STAND_IN_REFUSES);
    tcc_matmul_params p = product(1, 16, 16, 16, false, false);
    setenv("CUBLASLTSIM_VERSION", "110605", 1);
    check_refused(&p, TCC_EUNSUPPORTED,
                  "cannot be used: only versions 12 and 13 are known; large matrix products use our own kernels");
    check_described("cublaslt: 11.6.5 (");
    setenv("CUBLASLTSIM_VERSION", "120103", 1);
    check_described("cublaslt: 12.1.3 (");
    unsetenv("CUBLASLTSIM_VERSION");
    setenv("TCC_LIBRARIES", "cudnn", 1);
    check_refused(&p, TCC_EUNSUPPORTED, "cublaslt: switched off by TCC_LIBRARIES");
    setenv("TCC_LIBRARIES", "cublaslt", 1);
    check_described("cublaslt: 12.9.0 (");
    unsetenv("TCC_LIBRARIES");
}

/* Each call of the library fails once: an error that names it, and nothing left. */
static int fail_each_call(const tcc_matmul_params *p) {
    enum { EXECUTION_FAILED = 13 };
    int failed = 0;
    for (int n = 1;; n++) {
        rig r;
        sim.restart();
        lt.restart();
        lt.inject(n, EXECUTION_FAILED);
        tcc_status s = start(&r, p);
        for (int i = 0; i < BINDINGS && s == TCC_OK; i++) {
            void *data = call_random_data(TCC_F32, elements(p, i), 1);
            s = r.device->ops->upload(r.device, &r.cx.diag, r.memory[i], data,
                                      tcc_type_bytes(&r.program->bindings[i].type));
            free(data);
        }
        if (s == TCC_OK) s = tcc_exec_run(r.exec, &r.cx.diag);
        if (s == TCC_OK) s = r.device->ops->synchronize(r.device, &r.cx.diag);
        if (s != TCC_OK &&
            (s != TCC_EDEVICE || !strstr(tcc_diag_text(&r.cx.diag), ": CUBLAS_STATUS_EXECUTION_FAILED") ||
             !strstr(tcc_diag_text(&r.cx.diag), "in program 'call', step 0 (op; net.c:7)")))
            fail_msg("call %d: %s: %s", n, tcc_status_name(s), tcc_diag_text(&r.cx.diag));
        rig_stop(&r);
        check_nothing_alive();
        if (s == TCC_OK) break;
        failed++;
    }
    return failed;
}

static void test_failures(void **state) {
    (void)state;
    skip_without(lt.inject, STAND_IN_FAILS);
    tcc_matmul_params p = product(2, 16, 16, 600, true, false);
    p.bias = TCC_MATMUL_BIAS, p.activation = TCC_MATMUL_RELU;
    const int with_probe = fail_each_call(&p);
    p.activation = TCC_MATMUL_GELU, p.aux = 1, p.ld_aux = 16, p.stride_aux = 256;
    const int without = fail_each_call(&p);
    assert_true(without >= 20 && with_probe >= without + 10);
}

/* What the stand-in must not let pass: each is a fault of ours that the real library would refuse, or worse, compute
 * with. */
typedef struct strict {
    rig r;
    const tcc_cublaslt_functions *f;
    tcc_cuda_stream stream;
    void *handle, *desc, *wide, *layout, *wide_layout, *half_layout, *preference;
    tcc_cublaslt_result result; /* of 16 x 16 floats */
} strict;

static tcc_cublas_status ask(strict *s, void *desc, void *layout) {
    int found;
    return s->f->heuristic(s->handle, desc, layout, layout, layout, layout, s->preference, 1, &s->result, &found);
}

static void check_types_agree(strict *s) {
    void *none;
    assert_int_equal(s->f->matmul_create(&none, TCC_CUBLAS_COMPUTE_32F, TCC_CUDA_R_64F), TCC_CUBLAS_INVALID_VALUE);
    assert_int_equal(s->f->matmul_create(&none, TCC_CUBLAS_COMPUTE_64F, TCC_CUDA_R_32F), TCC_CUBLAS_INVALID_VALUE);
    assert_int_equal(ask(s, s->desc, s->wide_layout), TCC_CUBLAS_INVALID_VALUE);
    assert_int_equal(ask(s, s->wide, s->layout), TCC_CUBLAS_INVALID_VALUE);
}

/* Sums of 16 bits: by default their parts may be added in them. */
static void check_parts_of_sums(strict *s) {
    const uint32_t in_place = TCC_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | 1,
                   in_compute_type = TCC_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    for (int i = 0; i < 3; i++) {
        const uint32_t *mask = i == 1 ? &in_place : &in_compute_type;
        if (i)
            assert_int_equal(
                s->f->preference_set(s->preference, TCC_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, mask, sizeof *mask),
                0);
        assert_int_equal(ask(s, s->desc, s->half_layout), i == 2 ? 0 : TCC_CUBLAS_INVALID_VALUE);
        if (i < 2) assert_non_null(strstr(lt.last_error(), "parts of a sum may be added in 16 bits"));
    }
}

static const float factors[] = {0, 1, 2};

/* C = by A B + added * from */
static void check_product_fails(strict *s, int by, int added, const char *from, const char *words) {
    char *c = s->r.memory[C];
    assert_int_equal(s->f->matmul(s->handle, s->desc, &factors[by], s->r.memory[A], s->layout, s->r.memory[B],
                                  s->layout, &factors[added], from, s->layout, c, s->layout, &s->result.algorithm, NULL,
                                  0, s->stream),
                     TCC_CUBLAS_INVALID_VALUE);
    assert_non_null(strstr(lt.last_error(), words));
}

/* With what is added, and the bits' leading dimension and stride. */
static void check_epilogues(strict *s) {
    const uint32_t gelu = TCC_CUBLASLT_EPILOGUE_GELU, drelu = TCC_CUBLASLT_EPILOGUE_DRELU;
    const int64_t ld = 64;
    const void *aux = s->r.memory[B];
    assert_int_equal(s->f->matmul_set(s->desc, TCC_CUBLASLT_MATMUL_DESC_EPILOGUE, &gelu, sizeof gelu), 0);
    check_product_fails(s, 1, 1, s->r.memory[B], "epilogue 32 of a product that is added to");
    assert_int_equal(s->f->matmul_set(s->desc, TCC_CUBLASLT_MATMUL_DESC_EPILOGUE, &drelu, sizeof drelu), 0);
    assert_int_equal(s->f->matmul_set(s->desc, TCC_CUBLASLT_MATMUL_DESC_AUX_POINTER, &aux, sizeof aux), 0);
    assert_int_equal(s->f->matmul_set(s->desc, TCC_CUBLASLT_MATMUL_DESC_AUX_LD, &ld, sizeof ld), 0);
    assert_int_equal(ask(s, s->desc, s->layout), TCC_CUBLAS_INVALID_VALUE);
    assert_non_null(strstr(lt.last_error(), "leading dimension 64"));
}

static void strict_create(strict *s) {
    const tcc_cublaslt_functions *f = s->f;
    assert_int_equal(f->create(&s->handle), 0);
    assert_int_equal(f->matmul_create(&s->desc, TCC_CUBLAS_COMPUTE_32F, TCC_CUDA_R_32F), 0);
    assert_int_equal(f->matmul_create(&s->wide, TCC_CUBLAS_COMPUTE_64F, TCC_CUDA_R_64F), 0);
    assert_int_equal(f->layout_create(&s->layout, TCC_CUDA_R_32F, 16, 16, 16), 0);
    assert_int_equal(f->layout_create(&s->wide_layout, TCC_CUDA_R_64F, 16, 16, 16), 0);
    assert_int_equal(f->layout_create(&s->half_layout, TCC_CUDA_R_16F, 16, 16, 16), 0);
    assert_int_equal(f->preference_create(&s->preference), 0);
}

static void strict_destroy(strict *s) {
    const tcc_cublaslt_functions *f = s->f;
    assert_int_equal(f->preference_destroy(s->preference), 0);
    assert_int_equal(f->layout_destroy(s->layout), 0);
    assert_int_equal(f->layout_destroy(s->wide_layout), 0);
    assert_int_equal(f->layout_destroy(s->half_layout), 0);
    assert_int_equal(f->matmul_destroy(s->desc), 0);
    assert_int_equal(f->matmul_destroy(s->wide), 0);
    assert_int_equal(f->destroy(s->handle), 0);
}

enum { ROWS = 256, WIDTH = 256, RUNS = 5 };

static void layers(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_tanh(tcc_linear(tcc_input(t, "x"), "a", WIDTH));
    tcc_tensor y = tcc_linear(h, "b", WIDTH);
    tcc_loss(t, tcc_mean(tcc_mul(y, y), 2, (int64_t[]){0, 1}));
}

/* Trains and returns the model's last loss; *status of the run that failed, if any did. */
static double train_layers(tcc_context *cx, tcc_mode mode, bool required, tcc_program_info *info, char **text,
                           tcc_status *status) {
    static float x[ROWS * WIDTH];
    const tcc_array batch = {"x", TCC_F32, 2, {ROWS, WIDTH}, x};
    const tcc_model_options o = {
        .size = sizeof o, .device = "cuda", .mode = mode, .seed = 3, .require_graphs = required};
    tcc_model *m;
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)(i * 37 % 101) / 101 - 0.5f;
    assert_int_equal(tcc_model_create(cx, layers, NULL, &o, &m), TCC_OK);
    *status = TCC_OK;
    for (int i = 0; i < RUNS && *status == TCC_OK; i++) *status = tcc_model_train(m, &batch, 1);
    const double loss = *status == TCC_OK ? tcc_model_loss(m) : 0;
    assert_int_equal(tcc_model_info(m, info), TCC_OK);
    assert_int_equal(tcc_model_report(m, "graphs", text), TCC_OK);
    tcc_model_destroy(m);
    return loss;
}

/* The stand-in waits for the stream, so its calls cannot be captured: they are launches between graphs, and the reason
 * is told. The library itself can be captured. */
static void test_replay(void **state) {
    (void)state;
    if (!available()) skip();
    tcc_context *cx;
    tcc_program_info info;
    tcc_status status;
    char *text;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    const double launched = train_layers(cx, TCC_MODE_DEFAULT, false, &info, &text, &status);
    tcc_string_free(text);
    const double replayed = train_layers(cx, TCC_MODE_REDUCE_OVERHEAD, false, &info, &text, &status);
    assert_int_equal(status, TCC_OK);
    assert_true(launched == replayed);
    if (lt.get_counts) {
        assert_true(info.captured_launches > 0 && info.captured_launches < info.launches);
        assert_true(info.graphs >= 2);
        if (!strstr(text, " not: cublaslt.matmul: ")) fail_msg("%s", text);
    } else assert_int_equal(info.captured_launches, info.launches);
    tcc_string_free(text);
    train_layers(cx, TCC_MODE_REDUCE_OVERHEAD, true, &info, &text, &status);
    assert_int_equal(status, lt.get_counts ? TCC_EUNSUPPORTED : TCC_OK);
    if (lt.get_counts) assert_non_null(strstr(tcc_context_error(cx), "graphs are required"));
    tcc_string_free(text);
    tcc_context_destroy(cx);
}

static void test_stand_in_is_strict(void **state) {
    (void)state;
    skip_without(lt.refuse, STAND_IN_REFUSES);
    static tcc_cublaslt_library library;
    strict s = {.f = &library.f};
    tcc_matmul_params plain = product(1, 16, 16, 16, false, false);
    if (start(&s.r, &plain) != TCC_OK) fail_msg("%s", tcc_diag_text(&s.r.cx.diag));
    tcc_device_cuda *cuda = (tcc_device_cuda *)s.r.device;
    tcc_cublaslt_find(&cuda->cu, &library);
    s.stream = cuda->compute;
    assert_ok(tcc__cuda_enter(cuda, &s.r.cx.diag), &s.r.cx.diag);
    strict_create(&s);
    check_types_agree(&s);
    check_parts_of_sums(&s);
    assert_int_equal(ask(&s, s.desc, s.layout), 0);
    const char *b = s.r.memory[B], *c = s.r.memory[C];
    check_product_fails(&s, 2, 0, c, "factors 2 and 0");
    check_product_fails(&s, 1, 2, c, "factors 1 and 2");
    check_product_fails(&s, 1, 0, b, "C that is not read, elsewhere than D");
    check_product_fails(&s, 1, 1, c + 256, "overlaps D");
    check_epilogues(&s);
    strict_destroy(&s);
    tcc__cuda_leave(cuda);
    rig_stop(&s.r);
    lt.restart(); /* those errors were meant */
}

/* Descriptors need no device: the real library, where it is installed, takes every attribute that we set, and says what
 * it is. */
static void test_attributes(void **state) {
    (void)state;
    static tcc_cublaslt_library library;
    const tcc_cuda_driver newest = {.version = 13000};
    tcc_cublaslt_find(&newest, &library);
    if (!library.usable) skip();
    printf("%s\n", library.text);
    const tcc_cublaslt_functions *f = &library.f;
    static const int computes[][2] = {{TCC_CUBLAS_COMPUTE_32F, TCC_CUDA_R_32F},
                                      {TCC_CUBLAS_COMPUTE_32F_FAST_TF32, TCC_CUDA_R_32F},
                                      {TCC_CUBLAS_COMPUTE_64F, TCC_CUDA_R_64F}};
    static const int types[] = {TCC_CUDA_R_32F, TCC_CUDA_R_64F, TCC_CUDA_R_16F, TCC_CUDA_R_16BF};
    const int32_t transposed = TCC_CUBLAS_OP_T, type = TCC_CUDA_R_16BF, batch = 3;
    static const uint32_t epilogues[] = {TCC_CUBLASLT_EPILOGUE_RELU | TCC_CUBLASLT_EPILOGUE_BIAS,
                                         TCC_CUBLASLT_EPILOGUE_GELU | TCC_CUBLASLT_EPILOGUE_AUX |
                                             TCC_CUBLASLT_EPILOGUE_BIAS,
                                         TCC_CUBLASLT_EPILOGUE_DGELU,
                                         TCC_CUBLASLT_EPILOGUE_DRELU,
                                         TCC_CUBLASLT_EPILOGUE_BGRADA,
                                         TCC_CUBLASLT_EPILOGUE_BGRADB};
    const uint32_t alignment = 16;
    const void *bias = (const void *)(uintptr_t)16;
    const int64_t stride = 384;
    const uint64_t workspace = WORKSPACE;
    void *desc, *layout, *preference;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(f->matmul_create(&desc, computes[i][0], computes[i][1]), 0);
        assert_int_equal(f->matmul_set(desc, TCC_CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed), 0);
        assert_int_equal(f->matmul_set(desc, TCC_CUBLASLT_MATMUL_DESC_TRANSB, &transposed, sizeof transposed), 0);
        for (size_t e = 0; e < sizeof epilogues / sizeof *epilogues; e++)
            assert_int_equal(f->matmul_set(desc, TCC_CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogues[e], sizeof epilogues[e]),
                             0);
        assert_int_equal(f->matmul_set(desc, TCC_CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias), 0);
        assert_int_equal(f->matmul_set(desc, TCC_CUBLASLT_MATMUL_DESC_AUX_POINTER, &bias, sizeof bias), 0);
        assert_int_equal(f->matmul_set(desc, TCC_CUBLASLT_MATMUL_DESC_AUX_LD, &stride, sizeof stride), 0);
        assert_int_equal(f->matmul_set(desc, TCC_CUBLASLT_MATMUL_DESC_AUX_BATCH_STRIDE, &stride, sizeof stride), 0);
        assert_int_equal(f->matmul_set(desc, TCC_CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type), 0);
        assert_int_equal(f->matmul_destroy(desc), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(f->layout_create(&layout, types[i], 16, 24, 16), 0);
        assert_int_equal(f->layout_set(layout, TCC_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch), 0);
        assert_int_equal(f->layout_set(layout, TCC_CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
                         0);
        assert_int_equal(f->layout_destroy(layout), 0);
    }
    assert_int_equal(f->preference_create(&preference), 0);
    assert_int_equal(
        f->preference_set(preference, TCC_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace), 0);
    const uint32_t reductions = TCC_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    assert_int_equal(
        f->preference_set(preference, TCC_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions),
        0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(f->preference_set(preference, TCC_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i, &alignment,
                                           sizeof alignment),
                         0);
    assert_int_equal(f->preference_destroy(preference), 0);
    assert_string_equal(f->status_name(TCC_CUBLAS_ALLOC_FAILED), "CUBLAS_STATUS_ALLOC_FAILED");
    assert_string_equal(f->status_name(TCC_CUBLAS_INVALID_VALUE), "CUBLAS_STATUS_INVALID_VALUE");
    assert_string_equal(f->status_name(TCC_CUBLAS_ARCH_MISMATCH), "CUBLAS_STATUS_ARCH_MISMATCH");
    assert_string_equal(f->status_name(TCC_CUBLAS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CUBLASLT_TEST(test_products),
        CUBLASLT_TEST(test_types),
        CUBLASLT_TEST(test_gelu),
        CUBLASLT_TEST(test_relu_gradient),
        CUBLASLT_TEST(test_nan),
        CUBLASLT_TEST(test_sums),
        CUBLASLT_TEST(test_outer),
        CUBLASLT_TEST(test_addend),
        CUBLASLT_TEST(test_refused),
        CUBLASLT_TEST(test_addend_and_types_refused),
        CUBLASLT_TEST(test_differing),
        CUBLASLT_TEST(test_differing_somewhere),
        CUBLASLT_TEST(test_workspace_is_lowered),
        CUBLASLT_TEST(test_library_missing),
        CUBLASLT_TEST(test_failures),
        CUBLASLT_TEST(test_replay),
        CUBLASLT_TEST(test_stand_in_is_strict),
        CUBLASLT_TEST(test_attributes),
    };
    return cmocka_run_group_tests(tests, cublaslt_set_up, NULL);
}
