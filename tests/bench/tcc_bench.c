/* SPDX-License-Identifier: MIT
 * tcc-bench MODEL [STEPS]: times whole training steps of one of the models in configs.py, which says what they are;
 * prints one JSON line as peer.py does, for compare.py. tcc-bench MODEL STEPS --explain prints the table of kernels
 * too. TCC_BENCH_DEVICE is the device ("cuda"), TCC_BENCH_MODE=eager compiles each op by itself. A timed step waits for
 * its loss; on a GPU, where nobody needs to, a window of WINDOW steps waits once. */
#include <traincc/traincc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { WARM_UP = 5, WINDOW = 5 };

typedef struct config {
    const char *name;
    tcc_gpt_options gpt;   /* layers 0: another kind */
    int64_t batch, length; /* length: of a text, or an image's side */
    int resnet;
    bool cnn;
    tcc_optimizer_options optimizer;
} config;

#define ADAMW_GPT {.kind = TCC_ADAMW, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1, .clip_grad_norm = 1}
#define ADAM {.kind = TCC_ADAMW, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999}
#define SGD {.kind = TCC_SGD, .lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4, .decay_all = true}

static const config configs[] = {
    {"char_gpt", {.layers = 4, .heads = 4, .width = 128, .context = 64, .vocab = 65}, 12, 64, 0, false, ADAMW_GPT},
    {"gpt_10m", {.layers = 6, .heads = 6, .width = 384, .context = 256, .vocab = 65}, 8, 256, 0, false, ADAMW_GPT},
    {"gpt2_124m",
     {.layers = 12, .heads = 12, .width = 768, .context = 1024, .vocab = 50257, .bias = true},
     4,
     64,
     0,
     false,
     ADAMW_GPT},
    {"gpt2_1024",
     {.layers = 12, .heads = 12, .width = 768, .context = 1024, .vocab = 50257, .bias = true},
     16,
     1024,
     0,
     false,
     ADAMW_GPT},
    {"mnist_cnn", {0}, 64, 28, 0, true, ADAM},
    {"resnet18_cifar", {0}, 32, 32, 18, false, SGD},
    {"resnet50", {0}, 128, 224, 50, false, SGD},
    {"mlp", {0}, 128, 0, 0, false, ADAM},
};

static int64_t classes_of(const config *c) { return c->gpt.layers ? c->gpt.vocab : c->resnet == 50 ? 1000 : 10; }

static void build(tcc_trace *t, void *user) {
    const config *c = user;
    tcc_tensor x = tcc_input(t, "x"), logits;
    if (c->gpt.layers) logits = tcc_gpt(t, x, &c->gpt);
    else if (c->cnn)
        logits = tcc_cnn(t, x, &(tcc_cnn_options){.channels1 = 32, .channels2 = 64, .hidden = 128, .classes = 10});
    else if (c->resnet)
        logits =
            tcc_resnet(t, x,
                       &(tcc_resnet_options){
                           .depth = c->resnet, .classes = classes_of(c), .width = 64, .cifar_stem = c->length == 32});
    else logits = tcc_mlp(t, x, &(tcc_mlp_options){.n_hidden = 2, .hidden = (int64_t[]){1024, 1024}, .outputs = 10});
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y")));
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

static uint64_t random_state = 1;
static uint32_t random_bits(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

/* x as the model wants it, random; y random classes. */
static void make_batch(const config *c, tcc_array batch[2]) {
    int64_t classes = classes_of(c), numel = 1, targets = c->gpt.layers ? c->batch * c->length : c->batch;
    tcc_array x = {.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {c->batch, c->cnn ? 1 : 3, c->length, c->length}};
    tcc_array y = {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {c->batch}};
    if (c->gpt.layers) {
        x = (tcc_array){.name = "x", .dtype = TCC_I32, .rank = 2, .dims = {c->batch, c->length}};
        y = (tcc_array){.name = "y", .dtype = TCC_I32, .rank = 2, .dims = {c->batch, c->length}};
    } else if (!c->cnn && !c->resnet) {
        x = (tcc_array){.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {c->batch, 784}};
    }
    for (int d = 0; d < x.rank; d++) numel *= x.dims[d];
    x.data = aligned_alloc(64, (size_t)(numel * 4 + 63) / 64 * 64);
    y.data = aligned_alloc(64, (size_t)(targets * 4 + 63) / 64 * 64);
    if (!x.data || !y.data) exit(EXIT_FAILURE);
    for (int64_t i = 0; i < numel; i++) {
        if (x.dtype == TCC_I32) ((int32_t *)x.data)[i] = (int32_t)(random_bits() % (uint32_t)classes);
        else ((float *)x.data)[i] = (float)((double)random_bits() * 0x1p-30 - 1) * 1.7f; /* variance near 1 */
    }
    for (int64_t i = 0; i < targets; i++) ((int32_t *)y.data)[i] = (int32_t)(random_bits() % (uint32_t)classes);
    batch[0] = x;
    batch[1] = y;
}

static tcc_status measure(tcc_context *cx, const config *c, int steps, bool explain) {
    tcc_model_options options = {.size = sizeof options, .seed = 1, .optimizer = c->optimizer};
    const char *mode = getenv("TCC_BENCH_MODE");
    options.device = getenv("TCC_BENCH_DEVICE");
    options.allow_tf32 = true; /* on a GPU, as peer.py allows it */
    int window = options.device && strcmp(options.device, "cpu") ? WINDOW : 1;
    if (mode && !strcmp(mode, "eager")) options.mode = TCC_MODE_EAGER;
    tcc_model *m;
    tcc_array batch[2];
    make_batch(c, batch);
    tcc_status status = tcc_model_create(cx, build, (void *)c, &options, &m);
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
    const config *c = NULL;
    for (size_t i = 0; argc > 1 && i < sizeof configs / sizeof configs[0]; i++)
        if (!strcmp(configs[i].name, argv[1])) c = &configs[i];
    int steps = argc > 2 ? atoi(argv[2]) : 20;
    if (!c || steps < 1) {
        fputs("usage: tcc-bench MODEL [STEPS [--explain]], MODEL one of", stderr);
        for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) fprintf(stderr, " %s", configs[i].name);
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
