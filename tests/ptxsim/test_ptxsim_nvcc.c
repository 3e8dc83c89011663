/* SPDX-License-Identifier: MIT
 * Kernels that nvcc compiled from CUDA (cuda/kernels.cu), against the CPU: in lockstep, with independent threads, and
 * with sums as tensor cores truncate them. By itself the test runs the PTX that is stored; given nvcc it compiles the
 * source, compares what the same version of nvcc made with what is stored, and runs that. */
#include "driver.h"

#include <math.h>
#include <unistd.h>

enum { THREADS = 256, SKIPPED = 77 };

static char *ptx; /* owned */
static const char *const schedules[] = {"lockstep", "independent:1", "independent:2", "independent:3"};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

static uint32_t state_of_random;
static uint32_t drawn(uint32_t below) {
    state_of_random = state_of_random * 1664525 + 1013904223;
    return (state_of_random >> 8) % below;
}

/* Runs `name` on a fresh device; `in` and `out` have these sizes, `out` is set to what it holds before. */
static CUresult run(const char *name, const char *schedule, unsigned blocks, unsigned threads, const void *in,
                    size_t in_bytes, void *out, size_t out_bytes, int n) {
    setenv("PTXSIM_SCHEDULE", schedule, 1);
    fresh_device();
    CUfunction k = function_of(load(ptx), name);
    CUdeviceptr a = device_copy(in, in_bytes), b = device_copy(out, out_bytes);
    assert_cuda(cuLaunchKernel(k, blocks, 1, 1, threads, 1, 1, 0, NULL, (void *[]){&a, &b, &n}, NULL));
    CUresult r = cuCtxSynchronize();
    if (r == CUDA_SUCCESS) assert_cuda(cuMemcpyDtoH_v2(out, b, out_bytes));
    return r;
}

#define RUN(name, schedule, blocks, threads, in, out, n) \
    assert_cuda(run(name, schedule, blocks, threads, in, sizeof in, out, sizeof out, n))

static void check_near(const char *what, double got, double expected, double tolerance) {
    if (got != expected && !(fabs(got - expected) <= tolerance))
        fail_msg("%s: %.17g instead of %.17g", what, got, expected);
}

static void reductions(void **state) {
    (void)state;
    enum { N = 5000, BLOCKS = 3 };
    static float in[N];
    for (int i = 0; i < N; i++) in[i] = (float)drawn(1000) / 8; /* whole multiples: sums are exact */
    for (int s = 0; s < SCHEDULES; s++) {
        float out[BLOCKS] = {0}, sum = 0, all = 0;
        RUN("block_sum", schedules[s], BLOCKS, THREADS, in, out, N);
        for (int b = 0; b < BLOCKS; b++) sum += out[b];
        for (int i = 0; i < N; i++) all += in[i];
        check_near("block_sum", sum, all, 0);
        int where[1] = {-1}, first = 0;
        for (int i = 0; i < N; i++)
            if (in[i] > in[first]) first = i;
        RUN("block_argmax", schedules[s], 1, THREADS, in, where, N);
        assert_int_equal(where[0], first);
    }
}

static void products(void **state) {
    (void)state;
    enum { N = 50, ACROSS = (N + 15) / 16 };
    static float in[2 * N * N], out[N * N];
    for (int i = 0; i < 2 * N * N; i++) in[i] = (float)drawn(2001) / 1000 - 1;
    for (int s = 0; s < SCHEDULES; s++) {
        memset(out, 0, sizeof out);
        RUN("tiled_product", schedules[s], ACROSS * ACROSS, 256, in, out, N);
        for (int r = 0; r < N; r++)
            for (int c = 0; c < N; c++) {
                float e = 0;
                for (int k = 0; k < N; k++) e = fmaf(in[r * N + k], in[N * N + k * N + c], e);
                check_near("tiled_product", out[r * N + c], e, 0);
            }
    }
}

static uint16_t half_of(int eighths) { /* of -64 to 64 eighths */
    static const double unit = 0x1p-3;
    double v = eighths * unit;
    int e;
    if (!eighths) return 0;
    const double m = frexp(fabs(v), &e);
    return (uint16_t)((v < 0 ? 0x8000 : 0) | (e + 14) << 10 | ((int)(m * 2048) & 0x3ff));
}

/* Elements are multiples of 1/8 and small, so that even truncated sums are exact. */
static void tensor_cores(void **state) {
    (void)state;
    enum { N = 48, K = 40 };
    static uint16_t in[2 * N * N];
    static int value[2 * N * N];
    static float out[N * N], in_tf[16 * K * 2], out_tf[16 * 16];
    for (int i = 0; i < 2 * N * N; i++) in[i] = half_of(value[i] = (int)drawn(129) - 64);
    for (int i = 0; i < 16 * K * 2; i++) in_tf[i] = (float)((int)drawn(129) - 64) / 8;
    for (int s = 0; s < SCHEDULES + 1; s++) {
        const char *schedule = schedules[s % SCHEDULES];
        if (s == SCHEDULES) setenv("PTXSIM_MMA", "truncate", 1);
        memset(out, 0, sizeof out), memset(out_tf, 0, sizeof out_tf);
        RUN("wmma_half", schedule, 2, 192, in, out, N);
        for (int r = 0; r < N; r++)
            for (int c = 0; c < N; c++) {
                int e = 64;
                for (int k = 0; k < N; k++) e += value[r * N + k] * value[N * N + c * N + k];
                check_near("wmma_half", out[r * N + c], e / 128.0, 0);
            }
        RUN("wmma_tf32", schedule, 1, 64, in_tf, out_tf, K);
        for (int r = 0; r < 16; r++)
            for (int c = 0; c < 16; c++) {
                double e = 0;
                for (int k = 0; k < K; k++) e += (double)in_tf[r * K + k] * in_tf[16 * K + k * 16 + c];
                check_near("wmma_tf32", out_tf[c * 16 + r], e, 0);
            }
    }
    unsetenv("PTXSIM_MMA");
}

static void copies_ahead(void **state) {
    (void)state;
    enum { TILE = 256, TILES = 5 };
    static float in[TILE * TILES], out[TILE * TILES];
    for (int i = 0; i < TILE * TILES; i++) in[i] = (float)drawn(1000);
    for (int s = 0; s < SCHEDULES; s++) {
        memset(out, 0, sizeof out);
        RUN("copy_ahead", schedules[s], 1, TILE, in, out, TILE * TILES);
        for (int i = 0; i < TILE * TILES; i++) {
            float e = 0;
            for (int d = -2; d <= 2; d++) {
                const int at = i % TILE + d;
                e += in[i / TILE * TILE + (at < 0 ? 0 : at >= TILE ? TILE - 1 : at)];
            }
            check_near("copy_ahead", out[i], e / 5, 0);
        }
    }
}

static void atomics(void **state) {
    (void)state;
    enum { N = 3000, BINS = 64 };
    static uint32_t in[N];
    uint32_t count[BINS + 2] = {0};
    for (int i = 0; i < N; i++) {
        in[i] = drawn(1u << 20);
        count[in[i] % BINS]++, count[BINS + 1] ^= in[i];
        count[BINS] = in[i] > count[BINS] ? in[i] : count[BINS];
    }
    setenv("PTXSIM_CHECKS", "-race", 1); /* the largest value is also read without an atomic */
    for (int s = 0; s < SCHEDULES; s++) {
        uint32_t out[BINS + 2] = {0};
        RUN("histogram", schedules[s], 3, THREADS, in, out, N);
        assert_memory_equal(out, count, sizeof count);
    }
    unsetenv("PTXSIM_CHECKS");
}

static void votes(void **state) {
    (void)state;
    enum { N = 1000 };
    static uint32_t in[N], out[N + 2], expected[N + 2];
    uint32_t kept = 0;
    bool any = false, all = true;
    for (int i = 0; i < N; i++) {
        in[i] = drawn(1000);
        if (in[i] % 2 == 0) expected[kept++] = in[i];
        if (i < 32) any |= in[i] > 7, all &= in[i] > 7;
    }
    for (int s = 0; s < SCHEDULES; s++) {
        memset(out, 0, sizeof out);
        RUN("compact", schedules[s], 1, THREADS, in, out, N);
        assert_int_equal(out[N], kept);
        assert_int_equal(out[N + 1], 496 + any * 1000 + all * 2000);
        assert_memory_equal(out, expected, kept * 4);
    }
}

static uint32_t collatz_steps(uint32_t v) {
    uint32_t steps = 0;
    for (; v != 1; steps++) v = v % 2 ? 3 * v + 1 : v / 2;
    return steps;
}

static void divergent_loops(void **state) {
    (void)state;
    enum { N = 500 };
    static uint32_t in[N], out[N];
    for (int i = 0; i < N; i++) in[i] = 1 + drawn(5000);
    for (int s = 0; s < SCHEDULES; s++) {
        memset(out, 0, sizeof out);
        RUN("collatz", schedules[s], 1, THREADS, in, out, N);
        for (int i = 0; i < N; i++) assert_int_equal(out[i], collatz_steps(in[i]));
    }
}

static int ascending(const void *a, const void *b) {
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

static void local_arrays(void **state) {
    (void)state;
    enum { N = 100, OWN = 24 };
    static int in[N * OWN], out[2 * N];
    for (int i = 0; i < N * OWN; i++) in[i] = (int)drawn(2001) - 1000;
    for (int s = 0; s < SCHEDULES; s++) {
        memset(out, 0, sizeof out);
        RUN("sort_own", schedules[s], 1, 128, in, out, N);
        for (int t = 0; t < N; t++) {
            int own[OWN];
            memcpy(own, in + t * OWN, sizeof own);
            qsort(own, OWN, sizeof *own, ascending);
            assert_int_equal(out[2 * t], own[OWN / 2 + (in[t * OWN] & 1)]);
            assert_int_equal(out[2 * t + 1], own[OWN - 1] - own[0]);
        }
    }
}

/* CUDA documents its functions of double to 1 or 2 units in the last place. */
static void doubles(void **state) {
    (void)state;
    enum { N = 300 };
    static double in[N], out[6 * N];
    for (int i = 0; i < N; i++) in[i] = ((double)drawn(20001) - 10000) / 1999 * (i % 7 == 0 ? 1e7 : 1);
    in[0] = 0, in[1] = -0.0, in[2] = 1e300, in[3] = -1e-300, in[4] = 0.5;
    for (int s = 0; s < 2; s++) {
        memset(out, 0, sizeof out);
        RUN("doubles", schedules[s], 2, THREADS, in, out, N);
        for (int i = 0; i < N; i++) {
            const double x = in[i], *r = out + 6 * i;
            const bool small = fabs(x) < 1e10;
            const double e0 = exp(-x * x) + log1p(fabs(x)), e1 = sqrt(fabs(x)) / (1 + x * x);
            check_near("exp, log1p", r[0], e0, 8e-16 * (fabs(e0) + 1e-300));
            check_near("sqrt, division", r[1], e1, 0);
            check_near("sin, exp2", r[2], sin(x) * exp2(x * 0.01), small ? 1e-15 * exp2(x * 0.01) : INFINITY);
            if (small) {
                const long long whole = llrint(x * 1e6);
                check_near("64-bit integers", r[3], (double)(whole / 37 * 1000 + whole % 37), 0);
                check_near("rounding", r[4], fma(x, x, -x) + floor(x) + copysign(1.0, x) + fmin(x, 0.25) + rint(x * 8),
                           0);
                check_near("conversions", r[5],
                           (double)(float)x + (double)(int)fmax(INT32_MIN, fmin(INT32_MAX, x * 100)) +
                               (double)(long long)floor(x * 1000),
                           0);
            }
        }
    }
}

/* In lockstep the thread that has the lock waits for those that want it. */
static void locks(void **state) {
    (void)state;
    uint32_t in[1] = {5}, out[64];
    setenv("PTXSIM_LIMIT", "1000000", 1);
    setenv("PTXSIM_CHECKS", "-race", 1); /* what the lock orders no barrier does */
    for (int s = 1; s < SCHEDULES; s++) {
        bool seen[64] = {false};
        memset(out, 0, sizeof out);
        RUN("locked", schedules[s], 1, 64, in, out, 1);
        for (int t = 0; t < 64; t++) {
            assert_in_range(out[t], 5, 68);
            assert_false(seen[out[t] - 5]);
            seen[out[t] - 5] = true;
        }
    }
    unsetenv("PTXSIM_LIMIT"), unsetenv("PTXSIM_CHECKS");
}

static char *read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    enum { MOST = 1 << 20 };
    char *text = calloc(1, MOST);
    const size_t n = fread(text, 1, MOST - 1, f);
    fclose(f);
    text[n] = 0;
    return text;
}

/* The line in which nvcc names itself. */
static bool same_nvcc(const char *a, const char *b) {
    const char *x = strstr(a, "// Cuda compilation tools"), *y = strstr(b, "// Cuda compilation tools");
    const size_t n = x ? strcspn(x, "\n") : 0;
    return x && y && strncmp(x, y, n + 1) == 0;
}

/* What `nvcc` makes of the source; NULL when it fails. */
static char *compile(const char *nvcc) {
    char command[4096];
    snprintf(command, sizeof command, "'%s' -ptx -arch=sm_80 -o kernels.ptx '%s/kernels.cu'", nvcc, PTXSIM_CUDA_DIR);
    return system(command) ? NULL : read_text("kernels.ptx");
}

int main(int argc, char **argv) {
    setenv("PTXSIM_MEMORY_MIB", "64", 1);
    setenv("PTXSIM_DRIVER", "13000", 1); /* the PTX is of CUDA 13 */
    ptx = read_text(PTXSIM_CUDA_DIR "/kernels.ptx");
    if (!ptx) return 1;
    if (argc > 1) {
        if (access(argv[1], X_OK)) {
            printf("skipped: no nvcc is installed; the PTX that it made before is tested by test_ptxsim_nvcc alone\n");
            return SKIPPED;
        }
        char *stored = ptx;
        ptx = compile(argv[1]);
        if (!ptx) return 1;
        const bool same = same_nvcc(stored, ptx), equal = strcmp(stored, ptx) == 0;
        free(stored);
        if (same && !equal) {
            printf("kernels.ptx is not what this nvcc makes of kernels.cu\n");
            return 1;
        }
        printf("compiled by %s, %s\n", argv[1], same ? "as stored" : "of another version than what is stored");
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions),      cmocka_unit_test(products),     cmocka_unit_test(tensor_cores),
        cmocka_unit_test(copies_ahead),    cmocka_unit_test(atomics),      cmocka_unit_test(votes),
        cmocka_unit_test(divergent_loops), cmocka_unit_test(local_arrays), cmocka_unit_test(doubles),
        cmocka_unit_test(locks),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(ptx);
    return failed;
}
