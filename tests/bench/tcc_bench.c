/* SPDX-License-Identifier: MIT
 * tcc-bench MODEL [STEPS]: times whole training steps of one of the models in configs.py, which says what they are;
 * prints one JSON line as peer.py does, for compare.py. tcc-bench MODEL STEPS --explain prints the table of kernels
 * too. TCC_BENCH_DEVICE is the device ("cuda"), TCC_BENCH_MODE=eager compiles each op by itself,
 * TCC_BENCH_PRECISION=bf16 or fp16 trains in mixed precision, TCC_BENCH_BATCH is another batch size,
 * TCC_BENCH_CROP=256x512 another height and width of images for segmentation, TCC_BENCH_LAYERS another number of layers
 * of a GPT (char_gpt with 85: 20,000 nodes, for what TCC_LOG=passes says), TCC_BENCH_MEMORY_BUDGET a budget as in
 * tcc_model_options. A timed step waits for its loss; on a GPU, where nobody needs to, a window of WINDOW steps waits
 * once.
 *
 * With WORLD_SIZE and RANK in the environment it is one of so many ranks, each with its part of the batch; rank 0
 * prints, and says how long it waited for others in a step, and how long the sums of as many bytes as the parameters
 * have take when nothing goes on beside them. ranks.py starts them.
 *
 * TCC_BENCH_MEMORY=1 trains a tiny model first, and says how many resident bytes the step adds to what the process has
 * then: at the most, and at the most after the first step, in which it compiles. */
#include "models.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* -- Resident memory -- */

/* In MB, a line of /proc/self/status: "VmRSS", what is resident now; "VmHWM", what was at the most. 0: not known. */
static double resident_mb(const char *line) {
    char text[256];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    if (!f) return 0;
    while (fgets(text, sizeof text, f))
        if (!strncmp(text, line, strlen(line))) kib = strtod(text + strlen(line) + 1, NULL);
    fclose(f);
    return kib / 1024;
}

/* What was resident at the most since the last call, in MB; it is counted anew from now on. */
static double take_peak_mb(void) {
    const double most = resident_mb("VmHWM");
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) fputs("5", f);
    if (f) fclose(f);
    return most;
}

/* Resident memory: before the model; at the most until then, until the end of the first step, and after it. */
typedef struct resident {
    double start_mb, before_mb, first_mb, later_mb;
} resident;

static double larger(double a, double b) { return a > b ? a : b; }

static void tiny(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_relu(tcc_linear(tcc_input(t, "x"), "a", 8));
    tcc_loss(t, tcc_cross_entropy(tcc_linear(h, "b", 8), tcc_input(t, "y")));
}

/* One step, so that the compiler's code and tables are there. */
static tcc_status train_tiny(tcc_context *cx, const tcc_model_options *options) {
    static float x[8 * 8];
    static int32_t y[8];
    const tcc_array batch[] = {{"x", TCC_F32, 2, {8, 8}, x}, {"y", TCC_I32, 1, {8}, y}};
    tcc_model *m;
    tcc_status status = tcc_model_create(cx, tiny, NULL, options, &m);
    if (status != TCC_OK) return status;
    status = tcc_model_train(m, batch, 2);
    tcc_model_loss(m); /* waits */
    tcc_model_destroy(m);
    return status;
}

/* -- Measuring -- */

static bool find_mode(const char *name, tcc_mode *mode) {
    static const char *const names[] = {[TCC_MODE_DEFAULT] = "default",
                                        [TCC_MODE_EAGER] = "eager",
                                        [TCC_MODE_REDUCE_OVERHEAD] = "reduce-overhead",
                                        [TCC_MODE_MAX_AUTOTUNE] = "max-autotune"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name)) {
            *mode = (tcc_mode)i;
            return true;
        }
    return false;
}

/* Milliseconds of one sum of `size_bytes` bytes over all ranks, the least of some. */
static double reduce_ms(tcc_comm *comm, int64_t size_bytes) {
    double least = 1e9;
    float *data = calloc((size_t)size_bytes, 1);
    for (int i = 0; data && i < 10; i++) {
        if (tcc_comm_barrier(comm) != TCC_OK) break;
        const double start = now();
        if (tcc_comm_all_reduce(comm, TCC_COMM_SUM, TCC_F32, data, size_bytes / 4) != TCC_OK) break;
        if (now() - start < least) least = now() - start;
    }
    free(data);
    return 1e3 * least;
}

static tcc_model_options options_of(const bench_model *c, tcc_comm *comm) {
    tcc_model_options options = {.size = sizeof options, .seed = 1, .optimizer = &c->optimizer, .comm = comm};
    const char *mode = getenv("TCC_BENCH_MODE"), *precision = getenv("TCC_BENCH_PRECISION");
    options.device = getenv("TCC_BENCH_DEVICE");
    options.allow_tf32 = true; /* on a GPU, as peer.py allows it */
    if (mode) find_mode(mode, &options.mode);
    if (options.mode == TCC_MODE_MAX_AUTOTUNE) {
        options.lock = getenv("TCC_BENCH_LOCK"); /* so that what was found is measured in later runs */
        options.locked = getenv("TCC_BENCH_LOCKED");
    }
    if (precision && !strcmp(precision, "bf16")) options.mixed_precision = TCC_MIXED_BF16;
    if (precision && !strcmp(precision, "fp16")) options.mixed_precision = TCC_MIXED_FP16;
    return options;
}

static tcc_status measure(tcc_context *cx, tcc_comm *comm, const bench_model *c, int steps, bool explain) {
    tcc_model_options options = options_of(c, comm);
    const int window = options.device && strcmp(options.device, "cpu") ? WINDOW : 1;
    tcc_model *m;
    tcc_array batch[2];
    tcc_status status = TCC_OK;
    if (getenv("TCC_BENCH_MEMORY")) status = train_tiny(cx, &options);
    if (status != TCC_OK) return status;
    options.memory_budget = getenv("TCC_BENCH_MEMORY_BUDGET"); /* not the tiny model's */
    resident r = {.start_mb = resident_mb("VmRSS"), .before_mb = take_peak_mb()};
    bench_model_batch(c, batch);
    status = tcc_model_create(cx, bench_model_build, (void *)c, &options, &m);
    if (status != TCC_OK) return status;
    tcc_model_profile(m, explain);
    const int warm_up = steps < WARM_UP ? steps : WARM_UP;
    double first_loss = 0, waited_s = 0,
           host_s = 1e9; /* of the fastest call in which a step is enqueued, and so did not wait */
    double *times = calloc((size_t)(warm_up + steps), sizeof *times);
    for (int i = 0; times && i < warm_up + steps && status == TCC_OK; i++) {
        if (i == warm_up && comm) waited_s = -tcc_comm_waited(comm);
        double start = now();
        int n = i ? window : 1;
        if (!i) {
            status = tcc_model_compile(m, true, batch, 2);
            const double compiled = now();
            if (status == TCC_OK) status = bench_model_begin(c, m);
            start += now() - compiled;
        }
        for (int k = 0; k < n && status == TCC_OK; k++) {
            const double called = now();
            status = tcc_model_train(m, batch, 2);
            if (i >= warm_up && now() - called < host_s) host_s = now() - called;
        }
        const double loss = tcc_model_loss(m); /* waits */
        times[i] = (now() - start) / n;
        if (!i) first_loss = loss, r.first_mb = take_peak_mb();
    }
    if (comm) waited_s += tcc_comm_waited(comm);
    r.later_mb = take_peak_mb();
    tcc_program_info info = {0};
    if (times && status == TCC_OK) status = tcc_model_info(m, &info);
    if (times && status == TCC_OK) {
        double first = times[0];
        const double most_mb = larger(r.first_mb, r.later_mb);
        qsort(times + warm_up, (size_t)steps, sizeof *times, ascending);
        const char *threads = getenv("TCC_NUM_THREADS");
        const double sums_ms = comm ? reduce_ms(comm, info.param_bytes) : 0;
        if (!comm || !tcc_comm_rank(comm))
            printf(
                "{\"peer\": \"traincc\", \"model\": \"%s\", \"version\": \"%s\", \"threads\": %s, \"step_ms\": %.3f, "
                "\"step_ms_min\": %.3f, \"host_us_min\": %.1f, "
                "\"compile_s\": %.3f, \"trace_to_runnable_s\": %.3f, \"peak_rss_mb\": %.1f, \"peak_device_mb\": %.1f, "
                "\"planned_arena_bytes\": %lld, \"planned_bytes\": %lld, "
                "\"ranks\": %d, \"waited_ms\": %.3f, \"sums_alone_ms\": %.3f, "
                "\"added_rss_mb\": %.1f, \"later_rss_mb\": %.1f, \"first_loss\": %.6f, \"final_loss\": %.5f, "
                "\"gflop\": "
                "%.3f}\n",
                c->name, TCC_VERSION, threads ? threads : "null", 1e3 * times[warm_up + steps / 2],
                1e3 * times[warm_up], 1e6 * host_s, first, info.compile_seconds, larger(r.before_mb, most_mb),
                (double)info.peak_bytes / (1 << 20), (long long)info.arena_bytes, (long long)info.peak_bytes,
                comm ? tcc_comm_size(comm) : 1, 1e3 * waited_s / steps, sums_ms, most_mb - r.start_mb,
                r.later_mb - r.start_mb, first_loss, tcc_model_loss(m), 1e-9 * info.flop);
    }
    char *text;
    if (explain && status == TCC_OK && (status = tcc_model_report(m, "kernels", &text)) == TCC_OK) {
        fputs(text, stdout);
        tcc_string_free(text);
    }
    if (explain && status == TCC_OK && (status = tcc_model_report(m, "tune", &text)) == TCC_OK) {
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
    setenv("TCC_CACHE_DISABLE", "1", 0); /* compiling is part of what is measured */
    const bench_model *c = argc > 1 ? bench_model_find(argv[1]) : NULL;
    int steps = argc > 2 ? atoi(argv[2]) : 20;
    const char *batch = getenv("TCC_BENCH_BATCH"), *layers = getenv("TCC_BENCH_LAYERS");
    bench_model sized = c ? *c : (bench_model){0};
    if (batch) sized.batch = atoi(batch);
    const char *crop = getenv("TCC_BENCH_CROP");
    if (crop && sized.crop[0] && sscanf(crop, "%" SCNd64 "x%" SCNd64, &sized.crop[0], &sized.crop[1]) != 2) c = NULL;
    if (layers && sized.gpt.layers) sized.gpt.layers = atoi(layers);
    if (!c || steps < 1 || sized.batch < 1 || sized.gpt.layers < 0) {
        fputs("usage: tcc-bench MODEL [STEPS [--explain]], MODEL one of", stderr);
        for (int i = 0; i < n_bench_models; i++) fprintf(stderr, " %s", bench_models[i].name);
        fputc('\n', stderr);
        return 2;
    }
    const char *mode = getenv("TCC_BENCH_MODE");
    if (mode && !find_mode(mode, &(tcc_mode){0})) {
        fprintf(stderr, "tcc-bench: there is no mode %s\n", mode);
        return 2;
    }
    tcc_context *cx;
    tcc_comm *comm = NULL;
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK && getenv("WORLD_SIZE")) status = tcc_comm_create(cx, "env", &comm);
    if (comm) sized.batch /= tcc_comm_size(comm);
    if (status == TCC_OK) status = measure(cx, comm, &sized, steps, argc > 3 && !strcmp(argv[3], "--explain"));
    if (status != TCC_OK) fprintf(stderr, "tcc-bench: %s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    tcc_comm_destroy(comm);
    tcc_context_destroy(cx);
    return status == TCC_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
