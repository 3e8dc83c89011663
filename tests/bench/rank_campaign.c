/* SPDX-License-Identifier: MIT
 * Whole networks on 2 and 3 ranks, in each precision, with what training may have, and states shared out or not: bits
 * against micro-batches.
 *   rank-campaign [NETWORK...]
 * The test e2e.test_rank_models runs a few of these. */
#include "harness/optimizer.h"
#include "harness/rank_models.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    tcc_optimizer_options optimizer;
    tcc_model_options options;
} kinds[] = {
    {"AdamW", OPTIMIZER(TCC_ADAMW, 0.01, .weight_decay = 0.1), {.checkpointing = 0}},
    {"clipped SGD with momentum and averages",
     OPTIMIZER(TCC_SGD, 0.05, .momentum = 0.9, .clip_grad_norm = 0.5, .ema_decay = 0.9),
     {.keep_gradients = true}},
    {"Lion in little memory", OPTIMIZER(TCC_LION, 0.001), {.memory_budget = "min"}},
    {"Adam, eager", OPTIMIZER(TCC_ADAM, 0.01), {.mode = TCC_MODE_EAGER}},
};

int main(int argc, char **argv) {
    static const char *const precisions[] = {"f32", "bf16", "fp16"};
    int count = 0, wrong = 0;
    for (int n = 0; rank_model_names[n]; n++) {
        bool asked = argc == 1;
        for (int i = 1; i < argc; i++) asked |= !strcmp(argv[i], rank_model_names[n]);
        for (int k = 0; asked && k < (int)(sizeof kinds / sizeof *kinds); k++)
            for (int p = TCC_MIXED_NONE; p <= TCC_MIXED_FP16; p++)
                for (int run = 0; run < 4; run++) {
                    const int ranks = 2 + run % 2;
                    const bool shards = run >= 2;
                    rank_model_case c = {rank_model_names[n], kinds[k].optimizer, kinds[k].options};
                    c.options.mixed_precision = (tcc_mixed_precision)p;
                    if (p == TCC_MIXED_FP16) c.options.loss_scale = 1 << 20; /* a step or more is skipped */
                    c.options.shard_optimizer = shards;
                    const char *what = rank_model_differs(&c, ranks);
                    count++;
                    wrong += what != NULL;
                    if (what)
                        printf("%s, %s, %s, %d ranks%s: %s\n", c.network, kinds[k].name, precisions[p], ranks,
                               shards ? ", states shared out" : "", what);
                    fflush(stdout);
                }
    }
    printf("%d runs, %d different\n", count, wrong);
    return wrong > 0;
}
