// SPDX-License-Identifier: MIT
// Attention kernels on one core, forward and backward, in f32, f16 and bf16: microseconds for all heads, GFLOP/s of the
// products that causality leaves, and cycles for each score at 3 GHz. Shapes come twice: each head with keys of its
// own, and four that share theirs. Each figure is the best of many rounds, because
// other work on the machine only ever slows one down. Run: bench_attention [f32 | f16 | bf16]
#include "codegen/attention/attention.h"
#include "harness/object.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Of this thread, so that what else runs on the machine does not count (its use of caches and memory does).
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct shape {
    int batch, heads, length, width, shared; // shared: heads that read the same keys and values
} shape;

static tcc_llvm_target target;

// q, k and v lie in one packed projection, as models have them. Gradients by keys that are shared are those of each
// head, dense, and their sum is made elsewhere.
static tcc_attention describe(shape s, tcc_dtype dtype, bool backward) {
    tcc_attention a = {.n_batch = 3,
                       .batch = {s.batch, s.heads / s.shared, s.shared},
                       .T = s.length,
                       .S = s.length,
                       .D = s.width,
                       .E = s.width,
                       .scale = 1 / sqrt(s.width),
                       .causal = true,
                       .dtype = dtype,
                       .backward = backward};
    const int64_t row = (int64_t)s.heads * s.width, all = row + 2 * row / s.shared;
    for (int r = 0; r <= TCC_ATTENTION_DV; r++) {
        const bool packed = r <= TCC_ATTENTION_V || r >= TCC_ATTENTION_DQ;
        const bool by_key = r == TCC_ATTENTION_K || r == TCC_ATTENTION_V, own = s.shared == 1 || r <= TCC_ATTENTION_V;
        const int64_t stride = packed && own ? all : row;
        const int64_t group = by_key ? s.width : (int64_t)s.shared * s.width;
        a.has[r] = r != TCC_ATTENTION_MASK && (backward || r <= TCC_ATTENTION_LSE);
        a.operands[r] = (tcc_attention_operand){{s.length * stride, group, by_key && s.shared > 1 ? 0 : s.width},
                                                stride};
        if (r == TCC_ATTENTION_LSE)
            a.operands[r] =
                (tcc_attention_operand){{(int64_t)s.heads * s.length, (int64_t)s.shared * s.length, s.length}, 1};
    }
    return a;
}

static void fail(const tcc_diag *diag) {
    fprintf(stderr, "%s\n", tcc_diag_text(diag));
    exit(1);
}

static void measure(shape s, tcc_dtype dtype, bool backward) {
    tcc_attention a = describe(s, dtype, backward);
    tcc_attention_plan p;
    tcc_emitter e;
    tcc_diag diag = {0};
    if (tcc_attention_make_plan(&target, &a, NULL, &diag, &p) != TCC_OK ||
        tcc_emitter_init(&e, &target, "bench", &diag) != TCC_OK)
        fail(&diag);
    tcc_attention_emit(&e, "attention", &p);
    test_object *o = test_object_load(&e);
    tcc_host_kernel kernel = test_object_kernel(o, "attention");
    void *buffers[TCC_ATTENTION_ROLES], *scratch = aligned_alloc(4096, (size_t)(p.scratch_bytes + 8191) / 4096 * 4096);
    int64_t params[TCC_ATTENTION_ROLES] = {0};
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++) {
        if (p.buffers[r] < 0) continue;
        const size_t count = (size_t)s.batch * (size_t)s.heads * (size_t)s.length * (size_t)s.width * 3 + 1024;
        uint16_t *x = aligned_alloc(4096, (count * 4 + 4095) / 4096 * 4096);
        float *y = (float *)x;
        for (size_t i = 0; i < count; i++)
            if (dtype == TCC_F32 || r == TCC_ATTENTION_LSE) y[i] = r == TCC_ATTENTION_LSE ? 5 : (float)(i % 17) / 17;
            else x[i] = (uint16_t)((dtype == TCC_F16 ? 0x3400 : 0x3e80) + i % 17 * 8); // around 1/4
        buffers[p.buffers[r]] = x;
    }
    double best = INFINITY, spent = 0;
    for (int i = 0; i < 200 && spent < 1; i++) {
        const double start = now();
        kernel(buffers, params, 0, p.items, scratch);
        const double seconds = now() - start;
        best = fmin(best, seconds), spent += seconds;
    }
    const double scores = (double)s.batch * s.heads * s.length * (s.length + 1) / 2;
    printf("%-8s %-4s %2dx%2d/%dx%4dx%2d by %2d keys %3lld queries %3lld %9.1f us %7.1f GFLOP/s %6.2f cycles a score\n",
           backward ? "backward" : "forward", tcc_dtype_text(dtype), s.batch, s.heads, s.shared, s.length, s.width,
           p.multiply, (long long)p.key_block, (long long)p.query_block, best * 1e6,
           scores * s.width * (backward ? 10 : 4) / best * 1e-9, best * 3e9 / scores);
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++)
        if (p.buffers[r] >= 0) free(buffers[p.buffers[r]]);
    free(scratch);
    test_object_free(o);
    tcc_emitter_clear(&e);
}

int main(int argc, char **argv) {
    static const shape shapes[] = {{8, 6, 256, 64, 1},   {4, 12, 64, 64, 1}, {4, 12, 64, 64, 4}, {2, 12, 1024, 64, 1},
                                   {2, 12, 1024, 64, 4}, {16, 4, 64, 32, 1}, {16, 4, 64, 32, 4}};
    static const tcc_dtype types[] = {TCC_F32, TCC_F16, TCC_BF16};
    tcc_diag diag = {0};
    if (tcc_llvm_target_host(NULL, &diag, &target) != TCC_OK) fail(&diag);
    for (int backward = 0; backward < 2; backward++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (size_t t = 0; t < sizeof types / sizeof *types; t++)
                if (argc < 2 || !strcmp(argv[1], tcc_dtype_text(types[t]))) measure(shapes[i], types[t], backward);
    tcc_llvm_target_clear(&target);
}
