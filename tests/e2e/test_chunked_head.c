/* SPDX-License-Identifier: MIT
 * A language model's head and its loss in chunks of rows, from the public API: the same training with less memory. */
#include "harness/check.h"
#include "harness/chunked_head.h"

#include <stdlib.h>

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

enum { ROWS = 16 };

static void same_loss_and_gradients(void **state) {
    (void)state;
    check_head_gradients(NULL);
}

static void kernels_and_passes_verify(void **state) {
    (void)state;
    check_head_kernels(NULL);
}

/* The bits are those of the chunks: the same again, however many threads there are. */
static void training_repeats(void **state) {
    (void)state;
    double losses[2][3];
    for (int run = 0; run < 2; run++) {
        head_session s;
        const tcc_model_options o = head_options(NULL, TCC_MIXED_NONE, ROWS);
        setenv("TCC_NUM_THREADS", run ? "2" : "1", 1);
        head_open(&s, &small_head, &o);
        for (int step = 0; step < 3; step++) {
            OK(s.cx, tcc_model_train(s.model, s.batch, 2));
            losses[run][step] = tcc_model_loss(s.model);
        }
        head_close(&s);
    }
    unsetenv("TCC_NUM_THREADS");
    assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
    assert_true(losses[0][2] < losses[0][0]);
}

/* Compiled only. By cost, the logits of 4096 rows and GPT-2's vocabulary are never whole, forward or backward, on a CPU
 * and on a GPU; of 512 rows they are. */
static void logits_of_a_large_vocabulary(void **state) {
    (void)state;
    static const char *const archs[] = {NULL, "sm_90"};
    enum { LARGE = 50257 };
    for (int a = 0; a < 2; a++)
        for (int train = 0; train < 2; train++) {
            const head_net many = {4, 1024, 64, LARGE}, few = {4, 128, 64, LARGE};
            const int64_t logits = 4 * 1024 * INT64_C(4) * LARGE;
            int64_t arena[2], arena_few[2];
            for (int skip = 0; skip < 2; skip++) {
                if (skip) setenv("TCC_SKIP", "chunk", 1);
                head_session s;
                tcc_model_options o = head_options(NULL, TCC_MIXED_NONE, 0);
                o.arch = archs[a];
                head_open(&s, &many, &o);
                OK(s.cx, tcc_model_compile(s.model, train, s.batch, 2));
                arena[skip] = head_info(&s).arena_bytes;
                head_close(&s);
                head_open(&s, &few, &o);
                OK(s.cx, tcc_model_compile(s.model, train, s.batch, 2));
                arena_few[skip] = head_info(&s).arena_bytes;
                head_close(&s);
                unsetenv("TCC_SKIP");
            }
            if (arena[0] > arena[1] - logits / 2 || arena[0] > logits / 2)
                fail_msg("%s%s: %lld bytes in chunks, %lld whole", archs[a] ? archs[a] : "cpu",
                         train ? ", training" : "", (long long)arena[0], (long long)arena[1]);
            assert_true(arena_few[0] == arena_few[1]);
        }
}

static void bad_option(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    tcc_model_options o = head_options(NULL, TCC_MIXED_NONE, -1);
    OK(cx, tcc_context_create(&cx));
    assert_int_equal(tcc_model_create(cx, head_trace, (void *)&small_head, &o, &m), TCC_EINVAL);
    assert_non_null(strstr(tcc_context_error(cx), "chunk_rows -1"));
    tcc_context_destroy(cx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_loss_and_gradients),
        cmocka_unit_test(kernels_and_passes_verify),
        cmocka_unit_test(training_repeats),
        cmocka_unit_test(logits_of_a_large_vocabulary),
        cmocka_unit_test(bad_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
