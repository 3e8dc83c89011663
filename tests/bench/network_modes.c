/* SPDX-License-Identifier: MIT
 * The networks that guides measure, in all modes, with budgets of memory, in all precisions, on the CPU and on a CUDA
 * device or its stand-in, beside eager training on the CPU (harness/network_modes.h):
 *
 *     network-modes NETWORK|all f32|bf16|fp16|all cpu|cuda|all [SIDE [STEPS [WAYS]]]
 *     LD_LIBRARY_PATH=build/ptxsim TCC_CACHE_DISABLE=1 build/bin/network-modes all all all
 *
 * Prints a line a way and ends with status 1 where one disagrees. Two images are SIDE x SIDE, 64; two texts have at
 * most 16 tokens. DistilBERT has two layers of its real width, and dropout. STEPS, 4, are trained; of the five ways,
 * max-autotune is the last. The stand-in takes minutes for a network of side 32. */
#include "bench/segmentation.h"
#include "harness/network_modes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 5, TOKENS = 16, WORDS = 512, BATCH = 2 };

static void segmentation(tcc_trace *t, void *user) {
    const bench_network *net = user;
    tcc_segmentation heads = net->make(t, tcc_input(t, "x"), net->name, CLASSES);
    tcc_loss(t, bench_network_loss(t, net, &heads, tcc_input(t, "y"), CLASSES));
}

static void distilbert(tcc_trace *t, void *user) {
    (void)user;
    const tcc_distilbert_options o = {
        .layers = 2, .heads = 12, .width = 768, .context = TOKENS, .vocab = WORDS, .classes = 2, .dropout = 0.1};
    tcc_loss(t, tcc_cross_entropy(tcc_distilbert(t, tcc_input(t, "x"), &o), tcc_input(t, "y")));
}

static void make_texts(tcc_array batch[2]) {
    int32_t *x = calloc((size_t)BATCH * TOKENS, sizeof *x), *y = calloc((size_t)BATCH, sizeof *y);
    if (!x || !y) abort();
    for (int64_t i = 0; i < BATCH; i++) {
        const int64_t length = TOKENS - 5 * i;
        for (int64_t k = 0; k < TOKENS; k++)
            x[i * TOKENS + k] = (int32_t)(k < length ? (i * 131 + k * 71) % WORDS : -1);
        y[i] = (int32_t)(i % 2);
    }
    batch[0] = (tcc_array){.name = "x", .dtype = TCC_I32, .rank = 2, .dims = {BATCH, TOKENS}, .data = x};
    batch[1] = (tcc_array){.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {BATCH}, .data = y};
}

static bool run(network_case c, const char *name, const char *precision, int ways) {
    network_result results[NETWORK_WAYS];
    const int n = network_check(&c, ways, results);
    bool agree = true;
    for (int i = 0; i < n; i++) {
        const network_result *r = &results[i];
        agree &= !r->wrong[0];
        printf("%-14s %s %-4s %-15s %6.1f s  ", name, precision, c.device, r->way, r->seconds);
        if (r->refused) puts("cannot be met");
        else if (r->wrong[0]) printf("DIFFERS: %s\n", r->wrong);
        else if (r->worst == 0) puts("equal bits");
        else printf("%.2f of what is allowed: %s\n", r->worst, r->worst_name);
    }
    return agree;
}

static network_case case_of(const char *name, int64_t side, tcc_array batch[2]) {
    network_case c = {.batch = batch, .n_inputs = 2};
    const bool adam = strstr(name, "bert") || strstr(name, "segformer");
    tcc_optimizer_init(&c.optimizer, adam ? TCC_ADAMW : TCC_SGD);
    c.optimizer.lr = 1e-4, c.optimizer.momentum = adam ? 0 : 0.9, c.optimizer.weight_decay = 5e-4;
    if (!strcmp(name, "distilbert")) {
        c.build = distilbert;
        make_texts(batch);
        return c;
    }
    c.build = segmentation, c.begin = bench_network_begin;
    c.user = (void *)(uintptr_t)bench_network_find(name);
    bench_network_batch(BATCH, side, side, CLASSES, batch);
    return c;
}

int main(int argc, char **argv) {
    static const char *const names[] = {"pp_liteseg_t", "stdc1_seg",    "ddrnet_23_slim",
                                        "regseg",       "segformer_b0", "distilbert"};
    static const char *const precisions[] = {"f32", "bf16", "fp16"}, *const devices[] = {"cpu", "cuda"};
    if (argc < 4) {
        fputs("usage: network-modes NETWORK|all f32|bf16|fp16|all cpu|cuda|all [SIDE [STEPS [WAYS]]]\n", stderr);
        return 2;
    }
    const int side = argc > 4 ? atoi(argv[4]) : 64, ways = argc > 6 ? atoi(argv[6]) : NETWORK_WAYS;
    bool agree = true;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(argv[1], "all") && strcmp(argv[1], names[i])) continue;
        tcc_array batch[2];
        network_case c = case_of(names[i], side, batch);
        c.steps = argc > 5 ? atoi(argv[5]) : 4;
        for (int d = 0; d < 2; d++)
            for (int p = 0; p < 3; p++) {
                if (strcmp(argv[2], "all") && strcmp(argv[2], precisions[p])) continue;
                if (strcmp(argv[3], "all") && strcmp(argv[3], devices[d])) continue;
                c.device = devices[d], c.precision = (tcc_mixed_precision)p;
                agree &= run(c, names[i], precisions[p], ways);
            }
        free(batch[0].data);
        free(batch[1].data);
    }
    return !agree;
}
