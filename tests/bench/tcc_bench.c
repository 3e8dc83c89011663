/* SPDX-License-Identifier: MIT
 * tcc-bench MODEL [STEPS]: times whole training steps of one of the models in configs.py, which says what they are;
 * prints one JSON line as peer.py does, for compare.py. tcc-bench MODEL STEPS --explain prints the table of kernels
 * too. TCC_BENCH_DEVICE is the device ("cuda"), TCC_BENCH_MODE=eager compiles each op by itself,
 * TCC_BENCH_PRECISION=bf16 or fp16 trains in mixed precision. A timed step waits for its loss; on a GPU, where nobody
 * needs to, a window of WINDOW steps waits once. */
#include "models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { WARM_UP = 5, WINDOW = 5 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

static tcc_status measure(tcc_context *cx, const bench_model *c, int steps, bool explain) {
    tcc_model_options options = {.size = sizeof options, .seed = 1, .optimizer = c->optimizer};
    const char *mode = getenv("TCC_BENCH_MODE"), *precision = getenv("TCC_BENCH_PRECISION");
    options.device = getenv("TCC_BENCH_DEVICE");
    options.allow_tf32 = true; /* on a GPU, as peer.py allows it */
    int window = options.device && strcmp(options.device, "cpu") ? WINDOW : 1;
    if (mode && !strcmp(mode, "eager")) options.mode = TCC_MODE_EAGER;
    if (precision && !strcmp(precision, "bf16")) options.mixed_precision = TCC_MIXED_BF16;
    if (precision && !strcmp(precision, "fp16")) options.mixed_precision = TCC_MIXED_FP16;
    tcc_model *m;
    tcc_array batch[2];
    bench_model_batch(c, batch);
    tcc_status status = tcc_model_create(cx, bench_model_build, (void *)c, &options, &m);
    if (status != TCC_OK) return status;
    tcc_model_profile(m, explain);
    double *times = calloc((size_t)(WARM_UP + steps), sizeof *times);
    for (int i = 0; times && i < WARM_UP + steps && status == TCC_OK; i++) {
        double start = now();
        int n = i ? window : 1;
        for (int k = 0; k < n && status == TCC_OK; k++) status = tcc_model_train(m, batch, 2);
        tcc_model_loss(m); /* waits */
        times[i] = (now() - start) / n;
    }
    tcc_program_info info = {0};
    if (times && status == TCC_OK) status = tcc_model_info(m, &info);
    if (times && status == TCC_OK) {
        double first = times[0];
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        qsort(times + WARM_UP, (size_t)steps, sizeof *times, ascending);
        const char *threads = getenv("TCC_NUM_THREADS");
        printf("{\"peer\": \"traincc\", \"model\": \"%s\", \"version\": \"%s\", \"threads\": %s, \"step_ms\": %.3f, "
               "\"step_ms_min\": %.3f, "
               "\"compile_s\": %.3f, \"trace_to_runnable_s\": %.3f, \"peak_rss_mb\": %.1f, \"peak_device_mb\": %.1f, "
               "\"final_loss\": %.5f, \"gflop\": %.3f}\n",
               c->name, TCC_VERSION, threads ? threads : "null", 1e3 * times[WARM_UP + steps / 2], 1e3 * times[WARM_UP],
               first, info.compile_seconds, (double)usage.ru_maxrss / 1024, (double)info.peak_bytes / (1 << 20),
               tcc_model_loss(m), 1e-9 * info.flop);
    }
    char *text;
    if (explain && status == TCC_OK && (status = tcc_model_report(m, "kernels", &text)) == TCC_OK) {
        fputs(text, stdout);
        tcc_string_free(text);
    }
    free(times);
    tcc_model_destroy(m);
    free(batch[0].data);
    free(batch[1].data);
    return status;
}

int main(int argc, char **argv) {
    const bench_model *c = argc > 1 ? bench_model_find(argv[1]) : NULL;
    int steps = argc > 2 ? atoi(argv[2]) : 20;
    if (!c || steps < 1) {
        fputs("usage: tcc-bench MODEL [STEPS [--explain]], MODEL one of", stderr);
        for (int i = 0; i < n_bench_models; i++) fprintf(stderr, " %s", bench_models[i].name);
        fputc('\n', stderr);
        return 2;
    }
    tcc_context *cx;
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = measure(cx, c, steps, argc > 3 && !strcmp(argv[3], "--explain"));
    if (status != TCC_OK) fprintf(stderr, "tcc-bench: %s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    tcc_context_destroy(cx);
    return status == TCC_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
