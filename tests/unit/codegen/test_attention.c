/* SPDX-License-Identifier: MIT
 * Attention kernels against a naive evaluation in double precision: causal or not, masks, more keys than queries and
 * the reverse, heads inside a packed projection, widths that fill no vector, several blocks, operands of f16 and bf16,
 * and products of bf16 by pairs and by tiles; the same bits for any division of items, and wherever in the batch. */
#include "codegen/attention/attention.h"
#include "harness/check.h"
#include "harness/object.h"
#include "ir/support/element.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t random_state = 1;

/* The type of operands in memory, and how products of bf16 are made. */
static tcc_dtype stored = TCC_F32;
static tcc_contract_multiply by = TCC_CONTRACT_FMA;

/* Exact in the type that is stored. */
static float random_float(void) {
    random_state = random_state * 1664525u + 1013904223u;
    if (stored != TCC_F32) return (float)((int)((random_state >> 8) % 255) - 127) / 128;
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
    tcc_attention a = {.n_batch = 2,
                       .batch = {s.batch, s.heads},
                       .T = s.T,
                       .S = s.S,
                       .D = s.D,
                       .E = s.E,
                       .causal = s.causal,
                       .dtype = stored};
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

static tcc_dtype dtype_of(int role) { return role == TCC_ATTENTION_LSE ? TCC_F32 : stored; }

/* The operands in their own type; those that share memory share it there too. */
static void to_memory(const arrays *x, void **memory) {
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++) {
        memory[r] = NULL;
        for (int other = 0; other < r && x->data[r]; other++)
            if (x->data[other] == x->data[r]) memory[r] = memory[other];
        if (!x->count[r]) continue;
        int64_t count = x->count[r] + GUARD;
        memory[r] = malloc((size_t)count * 4);
        for (int64_t i = 0; i < count; i++) tcc_element_set(dtype_of(r), memory[r], i, (double)x->data[r][i]);
    }
}

static void from_memory(const arrays *x, void **memory) {
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++) {
        if (!x->count[r]) continue;
        for (int64_t i = 0; i < x->count[r] + GUARD; i++)
            x->data[r][i] = (float)tcc_element_get(dtype_of(r), memory[r], i);
        free(memory[r]);
    }
}

static int64_t rows_of_tiles; /* 0: as the plan decides */
static int n_made;            /* plans whose products are made as `by` says */

static void make_plan(const tcc_attention *a, tcc_llvm_target *target, tcc_attention_plan *p) {
    tcc_diag diag = {0};
    if (by != TCC_CONTRACT_TILES) target->hw.fma_bf16_tiles = 0;
    if (by == TCC_CONTRACT_FMA) target->hw.fma_bf16_pairs = 0;
    if (by == TCC_CONTRACT_PAIRS) target->hw.fma_bf16_pairs = 2 * target->hw.fma_f32;
    tcc_choice_param rows = {"rows", rows_of_tiles};
    const tcc_implementation choice = {.name = "attention", .n_params = 1, .params = &rows};
    tcc_params params = {.diag = &diag, .choice = &choice, .completes = true};
    assert_int_equal(tcc_attention_make_plan(target, a, rows_of_tiles ? &params : NULL, &diag, p), TCC_OK);
    tcc_params_clear(&params);
    n_made += p->multiply == by;
}

/* Runs all items at once, and again one by one from the last: the same bits of o. */
static void compile_and_run(const tcc_attention *a, arrays *x, const char *cpu) {
    tcc_llvm_target target;
    tcc_emitter e;
    tcc_diag diag = {0};
    tcc_attention_plan p;
    assert_int_equal(tcc_llvm_target_host(cpu, &diag, &target), TCC_OK);
    make_plan(a, &target, &p);
    assert_int_equal(tcc_emitter_init(&e, &target, "attention", &diag), TCC_OK);
    tcc_attention_emit(&e, "attention", &p);
    test_object *o = test_object_load(&e);
    tcc_host_kernel kernel = test_object_kernel(o, "attention");
    void *buffers[TCC_ATTENTION_ROLES], *memory[TCC_ATTENTION_ROLES];
    int64_t params[TCC_ATTENTION_ROLES];
    to_memory(x, memory);
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++)
        if (p.buffers[r] >= 0) buffers[p.buffers[r]] = memory[r], params[p.buffers[r]] = x->offset[r];
    size_t size = ((size_t)p.scratch_bytes + 63) / 64 * 64;
    unsigned char *scratch = aligned_alloc(64, size + 64);
    memset(scratch, 0xff, size + 64); /* NaN */
    kernel(buffers, params, 0, p.items, scratch);
    int last = a->backward ? TCC_ATTENTION_DV : TCC_ATTENTION_O;
    size_t bytes = (size_t)tcc_dtype_bytes(stored);
    bytes *= (size_t)(x->count[last] ? x->count[last] : x->count[TCC_ATTENTION_DQ]);
    void *first = malloc(bytes);
    memcpy(first, memory[last], bytes);
    memset(scratch, 0xff, size);
    for (int64_t i = p.items - 1; i >= 0; i--) kernel(buffers, params, i, i + 1, scratch);
    assert_memory_equal(first, memory[last], bytes);
    free(first);
    from_memory(x, memory);
    for (int i = 0; i < 64; i++) assert_int_equal(scratch[size + (size_t)i], 0xff);
    free(scratch);
    test_object_free(o);
    tcc_emitter_clear(&e);
    tcc_llvm_target_clear(&target);
}

/* What rounding to the stored type may make of a number of size 1, with some room. */
static double unit(void) { return stored == TCC_BF16 ? 0x1.01p-8 : stored == TCC_F16 ? 0x1.01p-11 : 0; }

/* The same where factors of products are rounded: only bf16's own instructions take them so. */
static double unit_of_factors(void) { return by == TCC_CONTRACT_FMA ? 0 : unit(); }

/* `terms`: what rounded factors may add to each element. The result itself is rounded as well. */
static void check_close(const float *got, const double *expected, const double *terms, int n, double bound,
                        const char *what) {
    for (int i = 0; i < n; i++)
        if (!(fabs((double)got[i] - expected[i]) <= bound + terms[i] + unit() * fabs(expected[i])))
            fail_msg("%s[%d]: %g, expected %g within %g", what, i, (double)got[i], expected[i], bound + terms[i]);
}

/* Expected rows, and how far rounded factors may take each element. */
typedef struct expected {
    double *p, *o, *dq, *dk, *dv, *o_terms, *dq_terms, *dk_terms, *dv_terms;
} expected;

static void allocate(shape s, expected *w) {
    const int sizes[] = {s.S, s.E, s.D, s.S * s.D, s.S * s.E, s.E, s.D, s.S * s.D, s.S * s.E};
    double **rows[] = {&w->p, &w->o, &w->dq, &w->dk, &w->dv, &w->o_terms, &w->dq_terms, &w->dk_terms, &w->dv_terms};
    size_t all = 0;
    for (int i = 0; i < 9; i++) all += (size_t)sizes[i];
    double *memory = malloc(all * sizeof *memory);
    for (int i = 0; i < 9; i++) *rows[i] = memory, memory += sizes[i];
}

static void add(double *to, double *terms, int n, double factor, double error, const float *from) {
    for (int i = 0; i < n; i++) to[i] += factor * (double)from[i], terms[i] += error * fabs((double)from[i]);
}

/* The probabilities of a query; returns its lse. */
static double probabilities(const tcc_attention *a, const arrays *x, shape s, const float *q, int b, int h, int t,
                            double *p) {
    double most = -INFINITY, sum = 0;
    for (int k = 0; k < s.S; k++) {
        p[k] = -INFINITY;
        if (s.causal && k > t + s.S - s.T) continue;
        const float *key = element(a, x, TCC_ATTENTION_K, b, h, k);
        p[k] = 0;
        for (int d = 0; d < s.D; d++) p[k] += (double)q[d] * (double)key[d];
        p[k] *= a->scale;
        if (s.mask) p[k] += (double)element(a, x, TCC_ATTENTION_MASK, b, h, t)[k];
        if (p[k] > most) most = p[k];
    }
    for (int k = 0; k < s.S; k++) p[k] = isinf(most) ? 0 : exp(p[k] - most), sum += p[k];
    for (int k = 0; k < s.S && sum > 0; k++) p[k] /= sum;
    return sum > 0 ? most + log(sum) : -INFINITY;
}

static void check_query(const tcc_attention *a, const arrays *x, shape s, expected *w, int b, int h, int t) {
    const float *q = element(a, x, TCC_ATTENTION_Q, b, h, t), *d_o = element(a, x, TCC_ATTENTION_DO, b, h, t);
    const double u = unit_of_factors();
    double lse = probabilities(a, x, s, q, b, h, t, w->p), delta = 0, delta_terms = 0;
    memset(w->o, 0, sizeof(double) * (size_t)s.E);
    memset(w->o_terms, 0, sizeof(double) * (size_t)s.E);
    for (int k = 0; k < s.S; k++)
        add(w->o, w->o_terms, s.E, w->p[k], u * w->p[k], element(a, x, TCC_ATTENTION_V, b, h, k));
    float got = *element(a, x, TCC_ATTENTION_LSE, b, h, t);
    assert_true(isinf(lse) ? got == -INFINITY : fabs((double)got - lse) < 1e-5);
    check_close(element(a, x, TCC_ATTENTION_O, b, h, t), w->o, w->o_terms, s.E, 1e-5, "o");
    for (int d = 0; d < s.E; d++) { /* of o as it was stored */
        const double o = (double)element(a, x, TCC_ATTENTION_O, b, h, t)[d];
        delta += o * (double)d_o[d];
        delta_terms += 1e-6 * fabs(o);
    }
    memset(w->dq, 0, sizeof(double) * (size_t)s.D);
    memset(w->dq_terms, 0, sizeof(double) * (size_t)s.D);
    for (int k = 0; k < s.S; k++) {
        double dp = 0;
        for (int d = 0; d < s.E; d++) dp += (double)d_o[d] * (double)element(a, x, TCC_ATTENTION_V, b, h, k)[d];
        add(w->dv + k * s.E, w->dv_terms + k * s.E, s.E, w->p[k], u * w->p[k], d_o);
        const double ds = a->scale * w->p[k] * (dp - delta);
        const double error = u * fabs(ds) + a->scale * w->p[k] * delta_terms;
        add(w->dq, w->dq_terms, s.D, ds, error, element(a, x, TCC_ATTENTION_K, b, h, k));
        add(w->dk + k * s.D, w->dk_terms + k * s.D, s.D, ds, error, q);
    }
    check_close(element(a, x, TCC_ATTENTION_DQ, b, h, t), w->dq, w->dq_terms, s.D, 2e-5, "dq");
}

static void check_head(const tcc_attention *a, const arrays *x, shape s, expected *w, int b, int h) {
    memset(w->dk, 0, sizeof(double) * (size_t)(s.S * s.D));
    memset(w->dv, 0, sizeof(double) * (size_t)(s.S * s.E));
    memset(w->dk_terms, 0, sizeof(double) * (size_t)(s.S * s.D));
    memset(w->dv_terms, 0, sizeof(double) * (size_t)(s.S * s.E));
    for (int t = 0; t < s.T; t++) check_query(a, x, s, w, b, h, t);
    for (int k = 0; k < s.S; k++) {
        check_close(element(a, x, TCC_ATTENTION_DK, b, h, k), w->dk + k * s.D, w->dk_terms + k * s.D, s.D, 2e-5, "dk");
        check_close(element(a, x, TCC_ATTENTION_DV, b, h, k), w->dv + k * s.E, w->dv_terms + k * s.E, s.E, 5e-5, "dv");
    }
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

    expected w;
    allocate(s, &w);
    for (int b = 0; b < s.batch; b++)
        for (int h = 0; h < s.heads; h++) check_head(&a, &x, s, &w, b, h);
    free(w.p);
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++)
        if (x.count[r])
            for (int i = 0; i < GUARD; i++) assert_true(x.data[r][x.count[r] + i] == 77);
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

/* A tile of 7 keys begins in a vector of them that a tile of queries sees, and ends in one that it does not see. */
static void tiles_across_vectors(void **state) {
    (void)state;
    tcc_llvm_target host;
    assert_int_equal(tcc_llvm_target_host(NULL, NULL, &host), TCC_OK);
    rows_of_tiles = host.registers >= 32 ? 7 : 3;
    tcc_llvm_target_clear(&host);
    check((shape){1, 1, 21, 29, 16, 16, .causal = true}, NULL);
    check((shape){1, 1, 21, 21, 16, 16, .causal = true}, NULL);
    rows_of_tiles = 0;
}

/* A plan that no graph's group has says what is wrong all the same. */
static void impossible_rows_are_an_error(void **state) {
    (void)state;
    tcc_choice_param rows = {"rows", 7};
    for (int n = 0; n < 2; n++) {
        const tcc_implementation choice = {.name = "attention", .n_params = n, .params = &rows};
        tcc_llvm_target target;
        tcc_diag diag = {0};
        tcc_attention_plan p;
        arrays x;
        const shape s = {1, 1, 21, 29, 16, 16, .causal = true};
        tcc_attention a = describe(s, &x);
        free_arrays(s, &x);
        assert_int_equal(tcc_llvm_target_host("x86-64-v3", &diag, &target), TCC_OK);
        tcc_params params = {.diag = &diag, .choice = &choice};
        assert_int_equal(tcc_attention_make_plan(&target, &a, &params, &diag, &p), TCC_EINVAL);
        const char *wrong = n ? "\"attention\" of a plan without a group cannot have rows=7, "
                              : "\"attention\" of a plan without a group lacks rows, ";
        if (!strstr(tcc_diag_text(&diag), wrong)) fail_msg("%s", tcc_diag_text(&diag));
        tcc_params_clear(&params);
        tcc_diag_clear(&diag);
        tcc_llvm_target_clear(&target);
    }
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

/* Lengths and widths that fill no tile, more keys than queries and the reverse, several blocks of either. */
static const shape all_shapes[] = {
    {2, 3, 64, 64, 32, 32, .causal = true, .packed = true},
    {1, 2, 64, 64, 64, 64, .causal = false},
    {1, 1, 37, 51, 16, 48, .causal = true},
    {2, 2, 13, 13, 17, 16, .causal = true},
    {1, 2, 9, 33, 20, 18, .mask = true},
    {2, 1, 30, 17, 24, 24, .causal = true, .mask = true},
    {1, 1, 100, 33, 65, 65, .causal = false},
    {1, 1, 33, 100, 65, 40, .causal = true, .mask = true},
    {1, 1, 1, 7, 16, 16, .causal = false},
    {1, 1, 7, 100, 32, 16, .causal = true},
    {1, 1, 80, 530, 16, 32, .causal = false},
    {1, 1, 300, 523, 20, 16, .causal = true},
    {1, 1, 270, 140, 16, 16, .causal = true}, /* the first see nothing */
    {1, 1, 290, 290, 32, 32, .causal = true},
};

/* Runs forward and backward where all entries of the batch have equal operands: their results have equal bits. */
static void batch_entries_agree(shape s) {
    arrays x;
    tcc_attention a = describe(s, &x);
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++)
        for (int b = 1; b < s.batch && x.count[r]; b++) {
            int64_t each = x.count[r] / s.batch;
            memcpy(x.data[r] + b * each, x.data[r], sizeof(float) * (size_t)each);
        }
    for (int backward = 0; backward < 2; backward++) {
        a.backward = backward;
        for (int r = 0; r <= TCC_ATTENTION_DV; r++)
            a.has[r] = r != TCC_ATTENTION_MASK && (backward || r <= TCC_ATTENTION_LSE);
        compile_and_run(&a, &x, NULL);
    }
    for (int r = TCC_ATTENTION_O; r <= TCC_ATTENTION_DV; r++)
        for (int b = 1; b < s.batch; b++) {
            int64_t each = x.count[r] / s.batch;
            assert_memory_equal(x.data[r], x.data[r] + b * each, sizeof(float) * (size_t)each);
        }
    free_arrays(s, &x);
}

static void of_type(tcc_dtype type, tcc_contract_multiply multiply) {
    const size_t count = sizeof all_shapes / sizeof *all_shapes, step = multiply == TCC_CONTRACT_FMA ? 3 : 1;
    stored = type, by = multiply, n_made = 0;
    for (size_t i = type == TCC_F16; i < count; i += step) check(all_shapes[i], NULL);
    assert_true(n_made >= (int)(count / step) * 2 - 4);
    batch_entries_agree((shape){5, 1, 33, 70, 48, 32, .causal = true});
    stored = TCC_F32, by = TCC_CONTRACT_FMA;
}

static void narrow_operands_are_widened(void **state) {
    (void)state;
    of_type(TCC_F16, TCC_CONTRACT_FMA);
    of_type(TCC_BF16, TCC_CONTRACT_FMA);
}

static void bf16_by_its_own_instructions(void **state) {
    (void)state;
    tcc_llvm_target host;
    assert_int_equal(tcc_llvm_target_host(NULL, NULL, &host), TCC_OK);
    if (host.hw.fma_bf16_pairs > 0) of_type(TCC_BF16, TCC_CONTRACT_PAIRS);
    else print_message("pairs of bf16: not run, this CPU has no AVX512-BF16\n");
    if (host.hw.fma_bf16_tiles > 0) of_type(TCC_BF16, TCC_CONTRACT_TILES);
    else print_message("tiles of bf16: not run, this CPU has no AMX, or its kernel does not let us use it\n");
    tcc_llvm_target_clear(&host);
}

/* The instructions that the CPU has, by name: in the plan, and in the code. */
static void the_cpu_decides_how_bf16_is_multiplied(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for CPUs of x86-64");
    static const struct {
        const char *cpu;
        tcc_contract_multiply multiply;
        const char *has, *lacks[2];
    } cpus[] = {
        {"x86-64-v3", TCC_CONTRACT_FMA, "vfmadd", {"dpbf16ps", "tile"}},
        {"x86-64-v4", TCC_CONTRACT_FMA, "vfmadd", {"dpbf16ps", "tile"}},
        {"cooperlake", TCC_CONTRACT_FMA, "vfmadd", {"dpbf16ps", "tile"}}, /* its pairs are slower */
        {"znver4", TCC_CONTRACT_PAIRS, "vdpbf16ps", {"tdpbf16ps", "tile"}},
        {"sapphirerapids", TCC_CONTRACT_TILES, "tdpbf16ps", {"vdpbf16ps", "vpsrlw"}},
    };
    for (size_t i = 0; i < 2 * (sizeof cpus / sizeof *cpus); i++) {
        const size_t k = i / 2;
        tcc_llvm_target target;
        tcc_attention_plan p;
        tcc_emitter e;
        tcc_strbuf assembly = {0};
        arrays x;
        assert_int_equal(tcc_llvm_target_host(cpus[k].cpu, NULL, &target), TCC_OK);
        stored = TCC_BF16;
        const shape s = {1, 2, 64, 64, 64, 64, .causal = true};
        tcc_attention a = describe(s, &x);
        free_arrays(s, &x);
        stored = TCC_F32;
        a.backward = i % 2;
        for (int r = 0; r <= (a.backward ? TCC_ATTENTION_DV : TCC_ATTENTION_LSE); r++)
            a.has[r] = r != TCC_ATTENTION_MASK;
        assert_int_equal(tcc_attention_make_plan(&target, &a, NULL, NULL, &p), TCC_OK);
        assert_int_equal(p.multiply, cpus[k].multiply);
        assert_int_equal(tcc_emitter_init(&e, &target, "attention", NULL), TCC_OK);
        tcc_attention_emit(&e, "attention", &p);
        assert_int_equal(tcc_emitter_finish(&e, NULL), TCC_OK);
        assert_int_equal(tcc_emitter_print_assembly(&e, &assembly), TCC_OK);
        assert_non_null(strstr(assembly.text, cpus[k].has));
        for (int l = 0; l < 2; l++) assert_null(strstr(assembly.text, cpus[k].lacks[l]));
        tcc_strbuf_free(&assembly);
        tcc_emitter_clear(&e);
        tcc_llvm_target_clear(&target);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_of_one_block),
        cmocka_unit_test(odd_sizes_and_masks),
        cmocka_unit_test(tiles_across_vectors),
        cmocka_unit_test(impossible_rows_are_an_error),
        cmocka_unit_test(several_blocks),
        cmocka_unit_test(narrower_vectors),
        cmocka_unit_test(narrow_operands_are_widened),
        cmocka_unit_test(bf16_by_its_own_instructions),
        cmocka_unit_test(the_cpu_decides_how_bf16_is_multiplied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
