/* SPDX-License-Identifier: MIT
 * A language model's head and its loss in chunks of rows, from the public API: the same training with less memory. */
#include "harness/check.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

enum { SAMPLES = 4, LENGTH = 16, VOCAB = 1031, MOST_PARAMS = 64, IGNORED = -100 };

typedef struct net {
    int64_t samples, length, width, vocab;
} net;

static void model(tcc_trace *t, void *user) {
    const net *n = user;
    const tcc_gpt_options o = {
        .layers = 1, .heads = 2, .width = n->width, .context = n->length, .vocab = n->vocab, .bias = true};
    tcc_tensor logits = tcc_gpt(t, tcc_input(t, "x"), &o);
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y"), .ignore_index = IGNORED, .label_smoothing = 0.125));
}

static const net small = {SAMPLES, LENGTH, 32, VOCAB};

typedef struct session {
    tcc_context *cx;
    tcc_model *model;
    int32_t *tokens[2];
    tcc_array batch[2];
} session;

static void open_session(session *s, const net *n, const tcc_model_options *options) {
    const int64_t count = n->samples * n->length;
    uint32_t seed = 9;
    for (int i = 0; i < 2; i++) {
        s->tokens[i] = malloc(sizeof *s->tokens[i] * (size_t)count);
        assert_non_null(s->tokens[i]);
        for (int64_t k = 0; k < count; k++) {
            seed = seed * 1664525u + 1013904223u;
            s->tokens[i][k] = i && k % 7 == 3 ? IGNORED : (int32_t)((seed >> 8) % (uint32_t)n->vocab);
        }
        s->batch[i] = (tcc_array){i ? "y" : "x", TCC_I32, 2, {n->samples, n->length}, s->tokens[i]};
    }
    OK(s->cx, tcc_context_create(&s->cx));
    OK(s->cx, tcc_model_create(s->cx, model, (void *)n, options, &s->model));
}

static void close_session(session *s) {
    tcc_model_destroy(s->model);
    tcc_context_destroy(s->cx);
    free(s->tokens[0]);
    free(s->tokens[1]);
}

static tcc_model_options options_for(tcc_mixed_precision precision, int64_t rows) {
    return (tcc_model_options){
        .size = sizeof(tcc_model_options),
        .seed = 3,
        .optimizer = {.size = sizeof(tcc_optimizer_options), .kind = TCC_ADAMW, .lr = 1e-3, .clip_grad_norm = 1},
        .keep_gradients = true,
        .mixed_precision = precision,
        .chunk_rows = rows};
}

/* Largest difference of two gradients over the largest value. */
static double distance(const tcc_array *a, const tcc_array *b) {
    int64_t count = 1;
    double worst = 0, largest = 1e-12;
    for (int d = 0; d < a->rank; d++) count *= a->dims[d];
    for (int64_t i = 0; i < count; i++) {
        const double x = ((const float *)a->data)[i], y = ((const float *)b->data)[i];
        assert_true(isfinite(x) && isfinite(y));
        worst = fmax(worst, fabs(x - y));
        largest = fmax(largest, fabs(x));
    }
    return worst / largest;
}

static void compare_gradients(session *whole, session *cut, double tolerance) {
    tcc_array p, a, b;
    int compared = 0;
    for (int i = 0; tcc_model_param(whole->model, i, &p); i++) {
        if (!tcc_model_param_is_trained(whole->model, i)) continue;
        OK(whole->cx, tcc_model_gradient(whole->model, p.name, &a));
        OK(cut->cx, tcc_model_gradient(cut->model, p.name, &b));
        const double error = distance(&a, &b);
        if (!(error <= tolerance)) fail_msg("gradient of %s differs by %g", p.name, error);
        compared++;
    }
    assert_true(compared > 10);
}

static int64_t arena_of(session *s) {
    tcc_program_info info;
    OK(s->cx, tcc_model_info(s->model, &info));
    return info.arena_bytes;
}

/* Of one step from equal weights; 16 bits round each part of a sum. */
static void same_loss_and_gradients(void **state) {
    (void)state;
    static const struct {
        tcc_mixed_precision precision;
        double loss, gradient;
    } cases[] = {{TCC_MIXED_NONE, 1e-6, 1e-5}, {TCC_MIXED_BF16, 1e-4, 2e-2}, {TCC_MIXED_FP16, 1e-5, 5e-3}};
    for (int i = 0; i < 3; i++) {
        session whole, cut;
        const tcc_model_options a = options_for(cases[i].precision, 0), b = options_for(cases[i].precision, LENGTH);
        open_session(&whole, &small, &a);
        open_session(&cut, &small, &b);
        OK(whole.cx, tcc_model_evaluate(whole.model, whole.batch, 2));
        OK(cut.cx, tcc_model_evaluate(cut.model, cut.batch, 2));
        assert_true(fabs(tcc_model_loss(whole.model) - tcc_model_loss(cut.model)) <= cases[i].loss);
        OK(whole.cx, tcc_model_train(whole.model, whole.batch, 2));
        OK(cut.cx, tcc_model_train(cut.model, cut.batch, 2));
        const double error = fabs(tcc_model_loss(whole.model) - tcc_model_loss(cut.model));
        if (!(error <= cases[i].loss)) fail_msg("losses differ by %g", error);
        compare_gradients(&whole, &cut, cases[i].gradient);
        close_session(&whole);
        close_session(&cut);
    }
}

static void kernels_and_passes_verify(void **state) {
    (void)state;
    static const tcc_mixed_precision precisions[] = {TCC_MIXED_NONE, TCC_MIXED_BF16};
    for (int i = 0; i < 2; i++) {
        session s;
        tcc_model_options o = options_for(precisions[i], 5); /* 1 sample of 4 at a time, then rows of it */
        o.verify_passes = true;
        open_session(&s, &small, &o);
        OK(s.cx, tcc_model_verify(s.model, s.batch, 2, 0, NULL));
        close_session(&s);
    }
}

/* The bits are those of the chunks: the same again, however many threads there are. */
static void training_repeats(void **state) {
    (void)state;
    double losses[2][3];
    for (int run = 0; run < 2; run++) {
        session s;
        const tcc_model_options o = options_for(TCC_MIXED_NONE, LENGTH);
        setenv("TCC_NUM_THREADS", run ? "2" : "1", 1);
        open_session(&s, &small, &o);
        for (int step = 0; step < 3; step++) {
            OK(s.cx, tcc_model_train(s.model, s.batch, 2));
            losses[run][step] = tcc_model_loss(s.model);
        }
        close_session(&s);
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
            const net many = {4, 1024, 64, LARGE}, few = {4, 128, 64, LARGE};
            const int64_t logits = 4 * 1024 * INT64_C(4) * LARGE;
            int64_t arena[2], arena_few[2];
            for (int skip = 0; skip < 2; skip++) {
                if (skip) setenv("TCC_SKIP", "chunk", 1);
                session s;
                tcc_model_options o = options_for(TCC_MIXED_NONE, 0);
                o.arch = archs[a];
                open_session(&s, &many, &o);
                OK(s.cx, tcc_model_compile(s.model, train, s.batch, 2));
                arena[skip] = arena_of(&s);
                close_session(&s);
                open_session(&s, &few, &o);
                OK(s.cx, tcc_model_compile(s.model, train, s.batch, 2));
                arena_few[skip] = arena_of(&s);
                close_session(&s);
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
    tcc_model_options o = options_for(TCC_MIXED_NONE, -1);
    OK(cx, tcc_context_create(&cx));
    assert_int_equal(tcc_model_create(cx, model, (void *)&small, &o, &m), TCC_EINVAL);
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
