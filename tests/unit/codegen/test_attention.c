/* SPDX-License-Identifier: MIT
 * Attention kernels against a naive evaluation in double precision: causal or not, masks, more keys than queries and
 * the reverse, heads inside a packed projection, widths that fill no vector, several blocks; the same bits for any
 * division of items. */
#include "codegen/attention/attention.h"
#include "harness/object.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t random_state = 1;

static float random_float(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(random_state >> 8) / 8388608.0f - 1;
}

typedef struct shape {
    int batch, heads, T, S, D, E;
    bool causal, mask, packed; /* packed: q, k, v interleaved in one array, heads side by side */
} shape;

enum { GUARD = 16 };

typedef struct arrays {
    float *data[TCC_ATTENTION_ROLES];
    int64_t count[TCC_ATTENTION_ROLES], offset[TCC_ATTENTION_ROLES];
} arrays;

/* [batch, row, heads, width] unless packed, in which case q, k and v share the storage of q. */
static tcc_attention describe(shape s, arrays *x) {
    tcc_attention a = {
        .n_batch = 2, .batch = {s.batch, s.heads}, .T = s.T, .S = s.S, .D = s.D, .E = s.E, .causal = s.causal};
    a.scale = 1 / sqrt(s.D);
    const int rows[TCC_ATTENTION_ROLES] = {s.T, s.S, s.S, 0, s.T, 0, s.T, s.T, s.S, s.S};
    const int widths[TCC_ATTENTION_ROLES] = {s.D, s.D, s.E, 0, s.E, 0, s.E, s.D, s.D, s.E};
    *x = (arrays){0};
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++) {
        tcc_attention_operand *o = &a.operands[r];
        if (r > TCC_ATTENTION_DV) continue; /* no memory */
        if (r == TCC_ATTENTION_MASK) {
            *o = (tcc_attention_operand){{(int64_t)s.T * s.S, 0}, s.S};
            x->count[r] = (int64_t)s.batch * s.T * s.S;
        } else if (r == TCC_ATTENTION_LSE) {
            *o = (tcc_attention_operand){{(int64_t)s.heads * s.T, s.T}, 1};
            x->count[r] = (int64_t)s.batch * s.heads * s.T;
        } else {
            bool packed = s.packed && (r <= TCC_ATTENTION_V || r >= TCC_ATTENTION_DQ);
            int64_t row = (int64_t)s.heads * widths[r] * (packed ? 3 : 1);
            *o = (tcc_attention_operand){{rows[r] * row, widths[r]}, row};
            int which = r >= TCC_ATTENTION_DQ ? r - TCC_ATTENTION_DQ : r;
            if (packed) x->offset[r] = (int64_t)which * s.heads * s.D;
            if (!packed || which == 0) x->count[r] = s.batch * rows[r] * row;
        }
    }
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++) {
        if (!x->count[r]) continue;
        x->data[r] = malloc(sizeof(float) * (size_t)(x->count[r] + GUARD));
        for (int64_t i = 0; i < x->count[r] + GUARD; i++) x->data[r][i] = i < x->count[r] ? random_float() : 77;
    }
    if (s.packed) {
        for (int r = 1; r < 3; r++) x->data[r] = x->data[0], x->data[TCC_ATTENTION_DQ + r] = x->data[TCC_ATTENTION_DQ];
    }
    if (s.mask)
        for (int64_t i = 0; i < x->count[TCC_ATTENTION_MASK]; i++)
            if (random_float() > 0.3f) x->data[TCC_ATTENTION_MASK][i] = -INFINITY;
    return a;
}

static void free_arrays(shape s, arrays *x) {
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++) {
        bool shared = s.packed && (r == 1 || r == 2 || r > TCC_ATTENTION_DQ);
        if (!shared) free(x->data[r]);
    }
}

static float *element(const tcc_attention *a, const arrays *x, int role, int b, int h, int row) {
    const tcc_attention_operand *o = &a->operands[role];
    return x->data[role] + x->offset[role] + b * o->batch[0] + h * o->batch[1] + row * o->row;
}

/* Runs all items at once, and again one by one from the last: the same bits of o. */
static void compile_and_run(const tcc_attention *a, arrays *x, const char *cpu) {
    tcc_llvm_target target;
    tcc_emitter e;
    tcc_diag diag = {0};
    tcc_attention_plan p;
    assert_int_equal(tcc_llvm_target_host(cpu, &diag, &target), TCC_OK);
    assert_int_equal(tcc_attention_make_plan(&target, a, NULL, &diag, &p), TCC_OK);
    assert_int_equal(tcc_emitter_init(&e, &target, "attention", &diag), TCC_OK);
    tcc_attention_emit(&e, "attention", &p);
    test_object *o = test_object_load(&e);
    tcc_host_kernel kernel = test_object_kernel(o, "attention");
    void *buffers[TCC_ATTENTION_ROLES];
    int64_t params[TCC_ATTENTION_ROLES];
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++)
        if (p.buffers[r] >= 0) buffers[p.buffers[r]] = x->data[r], params[p.buffers[r]] = x->offset[r];
    size_t size = ((size_t)p.scratch_bytes + 63) / 64 * 64;
    unsigned char *scratch = aligned_alloc(64, size + 64);
    memset(scratch, 0xff, size + 64); /* NaN */
    kernel(buffers, params, 0, p.items, scratch);
    int last = a->backward ? TCC_ATTENTION_DV : TCC_ATTENTION_O;
    size_t bytes = sizeof(float) * (size_t)(x->count[last] ? x->count[last] : x->count[TCC_ATTENTION_DQ]);
    float *first = malloc(bytes);
    memcpy(first, x->data[last], bytes);
    memset(scratch, 0xff, size);
    for (int64_t i = p.items - 1; i >= 0; i--) kernel(buffers, params, i, i + 1, scratch);
    assert_memory_equal(first, x->data[last], bytes);
    free(first);
    for (int i = 0; i < 64; i++) assert_int_equal(scratch[size + (size_t)i], 0xff);
    free(scratch);
    test_object_free(o);
    tcc_emitter_clear(&e);
    tcc_llvm_target_clear(&target);
}

static void check_close(const float *got, const double *expected, int n, double bound, const char *what) {
    for (int i = 0; i < n; i++)
        if (!(fabs((double)got[i] - expected[i]) <= bound))
            fail_msg("%s[%d]: %g, expected %g", what, i, (double)got[i], expected[i]);
}

static void check(shape s, const char *cpu) {
    arrays x;
    tcc_attention a = describe(s, &x);
    for (int r = 0; r <= TCC_ATTENTION_LSE; r++) a.has[r] = r != TCC_ATTENTION_MASK || s.mask;
    compile_and_run(&a, &x, cpu);
    tcc_attention g = a;
    g.backward = true;
    for (int r = TCC_ATTENTION_DO; r <= TCC_ATTENTION_DV; r++) g.has[r] = true;
    compile_and_run(&g, &x, cpu);

    double *p = malloc(sizeof(double) * (size_t)s.S), *dq = malloc(sizeof(double) * (size_t)s.D),
           *o = malloc(sizeof(double) * (size_t)s.E);
    double *dk = malloc(sizeof(double) * (size_t)(s.S * s.D)), *dv = malloc(sizeof(double) * (size_t)(s.S * s.E));
    for (int b = 0; b < s.batch; b++)
        for (int h = 0; h < s.heads; h++) {
            memset(dk, 0, sizeof(double) * (size_t)(s.S * s.D));
            memset(dv, 0, sizeof(double) * (size_t)(s.S * s.E));
            for (int t = 0; t < s.T; t++) {
                const float *q = element(&a, &x, TCC_ATTENTION_Q, b, h, t),
                            *d_o = element(&a, &x, TCC_ATTENTION_DO, b, h, t);
                double most = -INFINITY, sum = 0, delta = 0;
                for (int k = 0; k < s.S; k++) {
                    p[k] = -INFINITY;
                    if (s.causal && k > t + s.S - s.T) continue;
                    const float *key = element(&a, &x, TCC_ATTENTION_K, b, h, k);
                    p[k] = 0;
                    for (int d = 0; d < s.D; d++) p[k] += (double)q[d] * (double)key[d];
                    p[k] *= a.scale;
                    if (s.mask) p[k] += (double)element(&a, &x, TCC_ATTENTION_MASK, b, h, t)[k];
                    if (p[k] > most) most = p[k];
                }
                for (int k = 0; k < s.S; k++) p[k] = isinf(most) ? 0 : exp(p[k] - most), sum += p[k];
                memset(o, 0, sizeof(double) * (size_t)s.E);
                for (int k = 0; k < s.S && sum > 0; k++) {
                    p[k] /= sum;
                    for (int d = 0; d < s.E; d++) o[d] += p[k] * (double)element(&a, &x, TCC_ATTENTION_V, b, h, k)[d];
                }
                double lse = sum > 0 ? most + log(sum) : -INFINITY;
                float got = *element(&a, &x, TCC_ATTENTION_LSE, b, h, t);
                assert_true(isinf(lse) ? got == -INFINITY : fabs((double)got - lse) < 1e-5);
                check_close(element(&a, &x, TCC_ATTENTION_O, b, h, t), o, s.E, 1e-5, "o");
                for (int d = 0; d < s.E; d++) delta += o[d] * (double)d_o[d];
                memset(dq, 0, sizeof(double) * (size_t)s.D);
                for (int k = 0; k < s.S; k++) {
                    double dp = 0;
                    for (int d = 0; d < s.E; d++) {
                        dp += (double)d_o[d] * (double)element(&a, &x, TCC_ATTENTION_V, b, h, k)[d];
                        dv[k * s.E + d] += p[k] * (double)d_o[d];
                    }
                    double ds = a.scale * p[k] * (dp - delta);
                    for (int d = 0; d < s.D; d++) {
                        dq[d] += ds * (double)element(&a, &x, TCC_ATTENTION_K, b, h, k)[d];
                        dk[k * s.D + d] += ds * (double)q[d];
                    }
                }
                check_close(element(&a, &x, TCC_ATTENTION_DQ, b, h, t), dq, s.D, 2e-5, "dq");
            }
            for (int k = 0; k < s.S; k++) {
                check_close(element(&a, &x, TCC_ATTENTION_DK, b, h, k), dk + k * s.D, s.D, 2e-5, "dk");
                check_close(element(&a, &x, TCC_ATTENTION_DV, b, h, k), dv + k * s.E, s.E, 5e-5, "dv");
            }
        }
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++)
        if (x.count[r])
            for (int i = 0; i < GUARD; i++) assert_true(x.data[r][x.count[r] + i] == 77);
    free(p), free(dq), free(o), free(dk), free(dv);
    free_arrays(s, &x);
}

static void attention_of_one_block(void **state) {
    (void)state;
    check((shape){2, 3, 64, 64, 32, 32, .causal = true, .packed = true}, NULL);
    check((shape){1, 1, 37, 51, 16, 48, .causal = true}, NULL);
    check((shape){1, 1, 1, 1, 16, 16, .causal = false}, NULL);
}

static void odd_sizes_and_masks(void **state) {
    (void)state;
    check((shape){2, 2, 13, 13, 5, 5, .causal = true}, NULL);
    check((shape){1, 2, 5, 9, 20, 12, .mask = true}, NULL);
    check((shape){2, 1, 30, 17, 24, 24, .causal = true, .mask = true}, NULL);
}

static void several_blocks(void **state) {
    (void)state;
    check((shape){1, 1, 80, 530, 16, 32, .causal = false}, NULL);
    check((shape){1, 1, 200, 523, 20, 16, .causal = true}, NULL);
    check((shape){1, 1, 300, 523, 20, 16, .causal = true}, NULL); /* of queries too, in both kernels */
    check((shape){1, 1, 270, 140, 16, 16, .causal = true}, NULL); /* of queries alone; the first see nothing */
}

static void narrower_vectors(void **state) {
    (void)state;
    tcc_llvm_target host;
    assert_int_equal(tcc_llvm_target_host(NULL, NULL, &host), TCC_OK);
    if (!strncmp(host.triple, "x86_64", 6)) {
        check((shape){1, 2, 33, 33, 16, 16, .causal = true}, "x86-64-v2");
        if (host.lanes >= 8) check((shape){1, 2, 33, 33, 20, 16, .causal = true}, "x86-64-v3");
    }
    tcc_llvm_target_clear(&host);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_of_one_block),
        cmocka_unit_test(odd_sizes_and_masks),
        cmocka_unit_test(several_blocks),
        cmocka_unit_test(narrower_vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
