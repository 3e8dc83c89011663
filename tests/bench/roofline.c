// SPDX-License-Identifier: MIT
// The machine's two ceilings, for reading the benchmark's figures: float32 fused multiply-adds a second from registers
// and the triad's bytes a second from memory, on TCC_NUM_THREADS threads (default: all). Prints one JSON line. Best of
// several rounds. Build: cc -O3 -march=native -pthread roofline.c -o roofline
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CHAINS 12 // independent accumulators, one register each: at least latency times the number of FMA units
#define EACH_CHAIN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
typedef float vector __attribute__((vector_size(LANES * sizeof(float))));

enum { ROUNDS = 7, FMA_LOOPS = 4 << 20 };
static const size_t TRIAD_FLOATS = 32u << 20; // an array: 128 MiB, past every cache here

typedef struct {
    float *a;
    const float *b, *c;
    size_t count;
    float result;
    pthread_barrier_t *start;
    double seconds;
} work;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fma_loop(work *w) {
    vector x, y;
    for (int k = 0; k < LANES; k++) {
        x[k] = 0.999f;
        y[k] = 1e-3f;
    }
#define DECLARE(i) vector sum##i = x + (float)(i); // equal chains would be computed once
    EACH_CHAIN(DECLARE)
    for (long n = 0; n < FMA_LOOPS; n++) {
#define ACCUMULATE(i) sum##i = sum##i * x + y;
        EACH_CHAIN(ACCUMULATE)
    }
#define RESULT(i) +sum##i[0]
    w->result = EACH_CHAIN(RESULT);
}

static void triad_loop(work *w) {
    float *restrict a = w->a;
    for (size_t i = 0; i < w->count; i++) {
        a[i] = w->b[i] + 3.0f * w->c[i];
    }
}

static void *run_fma(void *argument) {
    work *w = argument;
    pthread_barrier_wait(w->start);
    double begin = now();
    fma_loop(w);
    w->seconds = now() - begin;
    return NULL;
}

static void *run_triad(void *argument) {
    work *w = argument;
    pthread_barrier_wait(w->start);
    double begin = now();
    triad_loop(w);
    w->seconds = now() - begin;
    return NULL;
}

// The best round's time in seconds of all threads together (the slowest thread's), or a negative number when a thread
// cannot start.
static double best(void *(*run)(void *), work *works, int threads) {
    double fastest = 1e30;
    pthread_t ids[threads];
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_t start;
        pthread_barrier_init(&start, NULL, (unsigned)threads);
        for (int t = 0; t < threads; t++) {
            works[t].start = &start;
            if (pthread_create(&ids[t], NULL, run, &works[t]) != 0) {
                return -1;
            }
        }
        double slowest = 0;
        for (int t = 0; t < threads; t++) {
            pthread_join(ids[t], NULL);
            slowest = works[t].seconds > slowest ? works[t].seconds : slowest;
        }
        pthread_barrier_destroy(&start);
        fastest = slowest < fastest ? slowest : fastest;
    }
    return fastest;
}

int main(void) {
    const char *wish = getenv("TCC_NUM_THREADS");
    int threads = wish ? atoi(wish) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (threads < 1 || threads > 1024) {
        fprintf(stderr, "roofline: TCC_NUM_THREADS is %s, expected 1 to 1024\n", wish);
        return 2;
    }
    work works[threads];
    float *memory = malloc(3 * TRIAD_FLOATS * sizeof(float));
    if (memory == NULL) {
        fprintf(stderr, "roofline: cannot allocate %zu bytes\n", 3 * TRIAD_FLOATS * sizeof(float));
        return 1;
    }
    for (size_t i = 0; i < 3 * TRIAD_FLOATS; i++) {
        memory[i] = 1;
    }
    size_t part = TRIAD_FLOATS / (size_t)threads;
    for (int t = 0; t < threads; t++) {
        float *a = memory + (size_t)t * part;
        works[t] = (work){.a = a, .b = a + TRIAD_FLOATS, .c = a + 2 * TRIAD_FLOATS, .count = part};
    }
    double fma = best(run_fma, works, threads), triad = best(run_triad, works, threads);
    double flop = 2.0 * LANES * CHAINS * (double)FMA_LOOPS * threads;
    double bytes = 3.0 * sizeof(float) *
                   (double)(part * (size_t)threads); // as STREAM counts: without the write-allocate read
    printf("{\"threads\": %d, \"lanes\": %d, \"fma_gflops\": %.1f, \"triad_gb_s\": %.2f}\n", threads, LANES,
           flop / fma / 1e9, bytes / triad / 1e9);
    free(memory);
    return fma > 0 && triad > 0 ? 0 : 1;
}
