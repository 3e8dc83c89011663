/* SPDX-License-Identifier: MIT
 * What this CPU can do, measured in some tenths of a second: multiply-adds in registers, and a triad over more memory
 * than caches hold, on all threads of the pool. */
#include "runtime/cpus.h"
#include "ir/support/clock.h"
#include "runtime/cpu/device.h"

#include "ir/support/alloc.h"
#include "ir/support/cpu.h"

#include <string.h>
#if defined __x86_64__
#include <immintrin.h>
#endif

enum { REPEATS = 3, CHAINS = 12 /* enough to cover the latency of two units */ };
enum {
    TRIAD_FLOATS = 16 << 20 /* of each of three arrays: well past a large last-level cache */,
    TRIAD_GRAIN = 1 << 16
};
static const int64_t probe_iterations = 200000;

/* Each probe runs CHAINS chains of multiply-adds and returns the flop of one iteration; `sink` keeps the work alive. */
typedef double probe_fn(int64_t iterations, float *sink);

static double probe_portable(int64_t iterations, float *sink) {
    typedef float lanes __attribute__((vector_size(16)));
    lanes x[CHAINS], a = {0.5f, 0.5f, 0.5f, 0.5f};
    for (int c = 0; c < CHAINS; c++) x[c] = a * (float)c;
    for (int64_t i = 0; i < iterations; i++)
        for (int c = 0; c < CHAINS; c++) x[c] = x[c] * a + a;
    for (int c = 1; c < CHAINS; c++) x[0] += x[c];
    memcpy(sink, &x[0], sizeof *sink);
    return CHAINS * 4 * 2;
}

#if defined __x86_64__
__attribute__((target("avx2,fma"))) static double probe_avx2(int64_t iterations, float *sink) {
    __m256 x[CHAINS], a = _mm256_set1_ps(0.5f);
    for (int c = 0; c < CHAINS; c++) x[c] = _mm256_set1_ps((float)c);
    for (int64_t i = 0; i < iterations; i++)
        for (int c = 0; c < CHAINS; c++) x[c] = _mm256_fmadd_ps(x[c], a, a);
    for (int c = 1; c < CHAINS; c++) x[0] = _mm256_add_ps(x[0], x[c]);
    *sink = _mm256_cvtss_f32(x[0]);
    return CHAINS * 8 * 2;
}

__attribute__((target("avx512f"))) static double probe_avx512(int64_t iterations, float *sink) {
    __m512 x[CHAINS], a = _mm512_set1_ps(0.5f);
    for (int c = 0; c < CHAINS; c++) x[c] = _mm512_set1_ps((float)c);
    for (int64_t i = 0; i < iterations; i++)
        for (int c = 0; c < CHAINS; c++) x[c] = _mm512_fmadd_ps(x[c], a, a);
    for (int c = 1; c < CHAINS; c++) x[0] = _mm512_add_ps(x[0], x[c]);
    *sink = _mm512_cvtss_f32(x[0]);
    return CHAINS * 16 * 2;
}
#endif

static probe_fn *choose_probe(void) {
#if defined __x86_64__
    if (tcc_cpu_has("avx512f")) return probe_avx512;
    if (tcc_cpu_has("avx2") && tcc_cpu_has("fma")) return probe_avx2;
#endif
    return probe_portable;
}

typedef struct measurement {
    probe_fn *probe;
    double flop; /* of one iteration of the probe */
    float sinks[TCC_MAX_THREADS];
    float *a, *b, *c;
} measurement;

static void run_probe(void *user, int worker, int64_t begin, int64_t end) {
    measurement *m = user;
    for (int64_t i = begin; i < end; i++) {
        double flop = m->probe(probe_iterations, &m->sinks[worker]);
        if (!worker) m->flop = flop;
    }
}

static void run_triad(void *user, int worker, int64_t begin, int64_t end) {
    (void)worker;
    measurement *m = user;
    float *restrict a = m->a;
    const float *restrict b = m->b, *restrict c = m->c;
    for (int64_t i = begin; i < end; i++) a[i] = b[i] + 3 * c[i];
}

/* The shortest of some runs, the first of which only warms up. */
static double best_seconds(tcc_pool *pool, tcc_pool_task task, measurement *m, int64_t items, int64_t grain) {
    double best = 0;
    for (int r = 0; r <= REPEATS; r++) {
        double start = tcc_clock_seconds();
        tcc_pool_run(pool, task, m, items, grain);
        double took = tcc_clock_seconds() - start;
        if (r == 1 || (r > 1 && took < best)) best = took;
    }
    return best > 0 ? best : 1e-9;
}

tcc_status tcc__device_cpu_measure(tcc_device *device, tcc_diag *d, tcc_roofline *out) {
    tcc_pool *pool = ((tcc_device_cpu *)device)->pool;
    measurement *m = tcc__calloc(1, sizeof *m);
    void *memory = NULL;
    tcc_status s = m ? device->ops->alloc(device, d, 3 * TRIAD_FLOATS * (int64_t)sizeof(float), &memory)
                     : tcc_enomem(d);
    if (s == TCC_OK) {
        m->a = memory;
        m->b = m->a + TRIAD_FLOATS;
        m->c = m->b + TRIAD_FLOATS;
        m->probe = choose_probe();
        int threads = tcc_pool_threads(pool);
        tcc_pool_lock(pool);
        double probe = best_seconds(pool, run_probe, m, threads, 1);
        double triad = best_seconds(pool, run_triad, m, TRIAD_FLOATS, TRIAD_GRAIN);
        tcc_pool_unlock(pool);
        out->flop_per_s = m->flop * (double)probe_iterations * threads / probe;
        out->bytes_per_s = 3.0 * TRIAD_FLOATS * sizeof(float) / triad;
    }
    if (memory) device->ops->free(device, memory, 3 * TRIAD_FLOATS * (int64_t)sizeof(float));
    tcc__free(m);
    return s;
}
