/* SPDX-License-Identifier: MIT
 * gpu-matmul [DIVISOR [SHAPE]]: matrix products on a GPU, alone and with a bias and gelu_tanh behind them in the same
 * kernel, and the gradient of a layer's weights, alone and with that of its bias beside it; by our kernels and by
 * cuBLASLt where it is. Prints one JSON line each; `of_plain` is how long the product alone takes beside it. DIVISOR
 * makes all sizes smaller. */
#include "gpu_timing.h"

#include "codegen/build.h"
#include "codegen/emit/emitter.h"
#include "codegen/select.h"
#include "harness/check.h"
#include "harness/passes.h"
#include "ir/ir.h"
#include "runtime/cuda/context.h"
#include "runtime/cuda/device.h"
#include "traincc/context.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name;
    int64_t m, n, k; /* of x[m, k] times the transpose of w[n, k], as linear layers do */
} shapes[] = {
    {"4096", 4096, 4096, 4096},
    {"gpt2 c_attn", 16384, 2304, 768},
    {"gpt2 c_fc", 16384, 3072, 768},
    {"gpt2 mlp.c_proj", 16384, 768, 3072},
};

static const struct {
    const char *name, *dtype;
    bool tf32;
} types[] = {{"f32", "f32", false}, {"tf32", "f32", true}, {"f16", "f16", false}, {"bf16", "bf16", false}};

enum { PLAIN, BIAS, BIAS_GELU, WEIGHTS, WEIGHTS_BIAS, FORMS };
static const struct {
    const char *name;
    int plain;  /* that it is compared with; -1: it is such itself */
    double aim; /* of_plain; 0: none */
} forms[FORMS] = {{"none", -1, 0},
                  {"bias", PLAIN, 0.95},
                  {"bias+gelu_tanh", PLAIN, 0.95},
                  {"weights", -1, 0},
                  {"weights+bias", WEIGHTS, 0}};

typedef struct bench {
    tcc_context *cx;
    tcc_device *device;
    const tcc_llvm_target *target;
    int64_t divisor;
} bench;

static bool takes_call(void *user, const char *name, int64_t *params) {
    const bench *b = user;
    return b->device->ops->takes_call(b->device, b->cx, name, params);
}

static tcc_graph *ready(bench *b, const char *text, const tcc_codegen_options *options) {
    tcc_graph *g;
    tcc_selector *selector;
    if (tcc_graph_parse(text, strlen(text), "matmul", &b->cx->diag, &g) != TCC_OK)
        bench_give_up("matmul", &b->cx->diag);
    if (tcc_selector_create(b->cx, options, false, &selector) != TCC_OK) bench_give_up("matmul", &b->cx->diag);
    tcc_graph *planned = run_passes(g, "simplify,fuse,select,order,plan-memory",
                                    &(tcc_pass_options){.target = tcc_selector_target(selector)});
    tcc_selector_destroy(selector);
    tcc_graph_destroy(g);
    return planned;
}

/* dy[m, n] and x[m, k] to dw[n, k], and db[n] beside it. */
static tcc_graph *gradients(bench *b, const char *dtype, int64_t m, int64_t n, int64_t k, bool bias,
                            const tcc_codegen_options *options) {
    const long long M = (long long)m, N = (long long)n, K = (long long)k;
    char text[1024], beside[256] = "";
    if (bias)
        snprintf(beside, sizeof beside, "  %%3 = reduce_sum(%%0) {axes=[0]} : %s[%lld]\n  output \"db\" %%3\n", dtype,
                 N);
    snprintf(
        text, sizeof text,
        "graph @gradients {\n  %%0 = input {name=\"dy\"} : %s[%lld,%lld]\n  %%1 = input {name=\"x\"} : %s[%lld,%lld]\n"
        "  %%2 = dot(%%0, %%1) {contract_a=[0], contract_b=[0]} : %s[%lld,%lld]\n  output \"dw\" %%2\n%s}\n",
        dtype, M, N, dtype, M, K, dtype, N, K, beside);
    return ready(b, text, options);
}

static tcc_graph *forward(bench *b, const char *dtype, int64_t m, int64_t n, int64_t k, int epilogue,
                          const tcc_codegen_options *options) {
    const long long M = (long long)m, N = (long long)n, K = (long long)k;
    char text[1024], behind[512] = "";
    if (epilogue >= BIAS)
        snprintf(behind, sizeof behind,
                 "  %%3 = input {name=\"b\"} : %s[%lld]\n  %%4 = broadcast(%%3) {dims=[1]} : %s[%lld,%lld]\n  %%5 = "
                 "add(%%2, %%4) : %s[%lld,%lld]\n",
                 dtype, N, dtype, M, N, dtype, M, N);
    if (epilogue == BIAS_GELU)
        snprintf(behind + strlen(behind), sizeof behind - strlen(behind), "  %%6 = gelu_tanh(%%5) : %s[%lld,%lld]\n",
                 dtype, M, N);
    snprintf(text, sizeof text,
             "graph @matmul {\n  %%0 = input {name=\"x\"} : %s[%lld,%lld]\n  %%1 = input {name=\"w\"} : %s[%lld,%lld]\n"
             "  %%2 = dot(%%0, %%1) {contract_a=[1], contract_b=[1]} : %s[%lld,%lld]\n%s  output \"y\" %%%d\n}\n",
             dtype, M, K, dtype, N, K, dtype, M, N, behind,
             epilogue == PLAIN  ? 2
             : epilogue == BIAS ? 5
                                : 6);
    return ready(b, text, options);
}

/* Seconds; 0 where the library does not take the whole of it. */
static double time_of(bench *b, const char *dtype, bool tf32, bool library, int64_t m, int64_t n, int64_t k, int form) {
    tcc_program *p;
    tcc_codegen_options options = {.target = b->target, .tf32 = tf32};
    if (library) options.takes_call = takes_call, options.takes_call_user = b;
    tcc_graph *g = form >= WEIGHTS ? gradients(b, dtype, m, n, k, form == WEIGHTS_BIAS, &options)
                                   : forward(b, dtype, m, n, k, form, &options);
    if (tcc_codegen_build(b->cx, &b->cx->diag, g, &options, &p) != TCC_OK) bench_give_up("matmul", &b->cx->diag);
    const bool whole = !library || (p->n_steps == 1 && p->steps[0].kind == TCC_STEP_LIBRARY);
    double seconds = whole ? bench_time_program(p, b->cx, b->device) : 0;
    tcc_program_destroy(p);
    tcc_graph_destroy(g);
    return seconds;
}

static void measure(bench *b, int shape, int type, bool library) {
    const int64_t m = shapes[shape].m / b->divisor, n = shapes[shape].n / b->divisor, k = shapes[shape].k / b->divisor;
    double times[FORMS];
    for (int e = 0; e < FORMS; e++) {
        double seconds = times[e] = time_of(b, types[type].dtype, types[type].tf32, library, m, n, k, e);
        printf("{\"matmul\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": %lld, \"type\": \"%s\", \"by\": \"%s\", "
               "\"form\": \"%s\"",
               shapes[shape].name, (long long)m, (long long)n, (long long)k, types[type].name,
               library ? "cublaslt" : "ours", forms[e].name);
        if (seconds > 0)
            printf(", \"ms\": %.4f, \"tflop_per_s\": %.2f", 1e3 * seconds,
                   2e-12 * (double)m * (double)n * (double)k / seconds);
        else printf(", \"why\": \"the library does not take it\"");
        const double plain = forms[e].plain < 0 ? 0 : times[forms[e].plain];
        if (seconds > 0 && plain > 0) printf(", \"of_plain\": %.3f", plain / seconds);
        if (seconds > 0 && plain > 0 && forms[e].aim > 0) printf(", \"aim\": %.2f", forms[e].aim);
        puts("}");
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    bench b = {.divisor = argc > 1 ? atoll(argv[1]) : 1};
    tcc_llvm_target target;
    if (b.divisor < 1) {
        fputs("usage: gpu-matmul [DIVISOR [SHAPE]]\n", stderr);
        return 2;
    }
    if (tcc_context_create(&b.cx) != TCC_OK) return EXIT_FAILURE;
    if (tcc_device_cuda_create(b.cx, -1, &b.device) != TCC_OK) bench_give_up("device", &b.cx->diag);
    if (tcc_llvm_target_cuda(((const tcc_device_cuda *)b.device)->arch, &b.device->hw, &b.cx->diag, &target) != TCC_OK)
        bench_give_up("target", &b.cx->diag);
    b.target = &target;
    for (int shape = 0; shape < (int)(sizeof shapes / sizeof *shapes); shape++)
        for (int type = 0; type < (int)(sizeof types / sizeof *types); type++)
            for (int library = 0; library < 2; library++)
                if (argc < 3 || !strcmp(argv[2], shapes[shape].name)) measure(&b, shape, type, library);
    tcc_llvm_target_clear(&target);
    tcc_device_destroy(b.device);
    tcc_context_destroy(b.cx);
    return EXIT_SUCCESS;
}
