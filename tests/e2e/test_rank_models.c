/* SPDX-License-Identifier: MIT
 * Whole networks on ranks give the bits of micro-batches: a few of those of bench/rank_campaign.c. */
#include "harness/check.h"
#include "harness/optimizer.h"
#include "harness/rank_models.h"
#include "harness/user_random.h"
#include "harness/user_ranks.h"

static void networks_train_on_ranks(void **state) {
    (void)state;
    static const struct {
        rank_model_case c;
        int ranks;
    } runs[] = {
        {{"gpt",
          OPTIMIZER(TCC_ADAMW, 0.01, .clip_grad_norm = 1),
          {.mixed_precision = TCC_MIXED_FP16, .loss_scale = 1 << 20}},
         2},
    };
    for (int i = 0; i < (int)(sizeof runs / sizeof *runs); i++) {
        const char *what = rank_model_differs(&runs[i].c, runs[i].ranks);
        if (what) fail_msg("%s on %d ranks: %s", runs[i].c.network, runs[i].ranks, what);
    }
}

static void random_programs_train_on_ranks(void **state) {
    (void)state;
    static const user_random_options usual = {0};
    static const uint64_t seeds[] = {1,
                                     2,
                                     3,
                                     1325 /* skips all steps */,
                                     3118,
                                     3123 /* sums are fused otherwise */,
                                     102438 /* attention is computed again */,
                                     113787 /* a column sum is beside sums of rows */,
                                     125004 /* reads behind three conditions on one index */,
                                     153385 /* a gradient is reshaped beside a sum */};
    static user_program p;
    for (int i = 0; i < (int)(sizeof seeds / sizeof *seeds); i++) {
        const char *what = user_program_random(&usual, seeds[i], &p);
        if (!what) what = user_ranks_differ(&p, 2 + (int)(seeds[i] / 2 % 2));
        if (what) fail_msg("program %d: %s", (int)seeds[i], what);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(networks_train_on_ranks),
                                       cmocka_unit_test(random_programs_train_on_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
