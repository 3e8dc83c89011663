/* SPDX-License-Identifier: MIT
 * Texts with a class each: padding changes no result, a run learns and goes on, and what is wrong is refused. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/optimizer.h"
#include "harness/program.h"
#include "harness/train_data.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- padding ---- */

enum { TEXTS = 4, LONGEST = 24, VOCAB = 50 };

static void classifier(tcc_trace *t, void *user) {
    (void)user;
    const tcc_distilbert_options o = {
        .layers = 2, .heads = 2, .width = 16, .context = LONGEST, .vocab = VOCAB, .classes = 3};
    tcc_loss(t, tcc_cross_entropy(tcc_distilbert(t, tcc_input(t, "x"), &o), tcc_input(t, "y")));
}

/* A step on texts of 1 to 11 tokens, in rows of `length`. */
static tcc_model *step_padded(tcc_context *cx, int64_t length, tcc_mode mode) {
    static const int lengths[TEXTS] = {11, 1, 6, 9};
    static const int32_t y[TEXTS] = {2, 0, 1, 2};
    int32_t x[TEXTS * LONGEST];
    for (int i = 0; i < TEXTS; i++)
        for (int j = 0; j < length; j++) x[i * length + j] = j < lengths[i] ? (7 * i + 13 * j + i * j) % VOCAB : -1;
    tcc_model_options o = {.size = sizeof o, .device = "cpu", .seed = 3, .mode = mode, .keep_gradients = true};
    tcc_model *m;
    assert_int_equal(tcc_model_create(cx, classifier, NULL, &o, &m), TCC_OK);
    const tcc_array batch[2] = {{.name = "x", .dtype = TCC_I32, .rank = 2, .dims = {TEXTS, length}, .data = x},
                                {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {TEXTS}, .data = (void *)y}};
    if (tcc_model_train(m, batch, 2) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    return m;
}

static void expect_close(const char *name, const tcc_array *a, const tcc_array *b) {
    const float *x = a->data, *y = b->data;
    double largest = 0, error = 0;
    int64_t count = 1;
    assert_int_equal(a->rank, b->rank);
    for (int d = 0; d < a->rank; d++) count *= a->dims[d];
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)x[i]));
        error = fmax(error, fabs((double)x[i] - (double)y[i]));
    }
    if (!(largest > 0 && error <= 1e-5 * largest)) fail_msg("%s: %g apart of %g", name, error, largest);
}

/* What lies behind a text changes neither the loss nor a gradient but by the rounding of longer sums. */
static void padding_changes_nothing(void **state) {
    (void)state;
    tcc_context *cx;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    for (int mode = TCC_MODE_DEFAULT; mode <= TCC_MODE_EAGER; mode++) {
        tcc_model *tight = step_padded(cx, 11, (tcc_mode)mode), *wide = step_padded(cx, LONGEST, (tcc_mode)mode);
        assert_true(fabs(tcc_model_loss(tight) - tcc_model_loss(wide)) < 1e-6);
        tcc_array param, a, b;
        int compared = 0;
        for (int i = 0; tcc_model_param(tight, i, &param); i++, compared++) {
            assert_int_equal(tcc_model_gradient(tight, param.name, &a), TCC_OK);
            assert_int_equal(tcc_model_gradient(wide, param.name, &b), TCC_OK);
            if (!strstr(param.name, "k_lin.bias")) expect_close(param.name, &a, &b); /* which is 0 but for rounding */
        }
        assert_int_equal(compared, 4 + 2 * 16 + 4);
        tcc_model_destroy(tight);
        tcc_model_destroy(wide);
    }
    tcc_context_destroy(cx);
}

/* ---- runs ---- */

static const char *write_recipe_of(void **state, const char *more) {
    char text[2048];
    const char *data = write_text_classes_data(state);
    snprintf(text, sizeof text,
             "model: {name: distilbert, layers: 1, heads: 2, width: 32, context: 64, dropout: 0.1}\n"
             "data: {kind: text_classes, path: %s, vocab_file: %s, batch_size: 16, %s}\n"
             "training: {max_steps: 40, save_every: 5, log_every: 1, keep_last: 0}\noptimizer: {lr: 0.01}\n",
             data, test_path(state, "vocab.txt"), more);
    return test_write_text(state, "r.yaml", text);
}

static program_result train(void **state, const char *recipe, const char *run, const char *steps, const char *more) {
    program_result r = program_run(
        NULL, "tcc-train",
        (const char *const[]){"--device", "cpu", "--run-dir", test_path(state, run), recipe, steps, more, NULL});
    if (r.status) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    return r;
}

static void expect_equal_files(void **state, const char *a, const char *b) {
    size_t size, other;
    char *x = test_read(test_path(state, a), &size), *y = test_read(test_path(state, b), &other);
    assert_int_equal(size, other);
    assert_memory_equal(x, y, size);
    free(x);
    free(y);
}

static void learns_and_goes_on(void **state) {
    static const char *const paddings[] = {"padding: fixed", "padding: dynamic", "padding: uniform"};
    for (int i = 0; i < 3; i++) {
        char whole_name[16], parts_name[16], a[96], b[96];
        snprintf(whole_name, sizeof whole_name, "whole%d", i);
        snprintf(parts_name, sizeof parts_name, "parts%d", i);
        const char *recipe = write_recipe_of(state, paddings[i]);
        program_result whole = train(state, recipe, whole_name, "training.max_steps=40", "data.num_workers=2");
        if (!strstr(whole.out, "step 40  val_loss") || !strstr(whole.out, "val_accuracy 1.0000"))
            fail_msg("it has not learned to tell good from bad:\n%s", whole.out);
        if (!strstr(whole.out, "padding: ") || !strstr(whole.out, "% of an epoch's tokens in rows of 64"))
            fail_msg("it does not say how much is padding:\n%s", whole.out);
        program_free(&whole);
        program_result first = train(state, recipe, parts_name, "training.max_steps=18", "data.num_workers=0");
        program_free(&first); /* 13 batches an epoch: in the middle of the second */
        program_result rest = train(state, recipe, parts_name, "training.max_steps=40", "--resume");
        program_free(&rest);
        snprintf(a, sizeof a, "%s/checkpoints/step-000040.safetensors", whole_name);
        snprintf(b, sizeof b, "%s/checkpoints/step-000040.safetensors", parts_name);
        expect_equal_files(state, a, b);
    }
}

static int count_programs(void **state, const char *recipe, const char *steps) {
    const char *const arguments[] = {"--device", "cpu", "--run-dir", test_path(state, "run"), recipe, steps, NULL};
    program_result r = program_run(&(program_options){.environment = "TCC_LOG=compile"}, "tcc-train", arguments);
    int programs = 0;
    if (r.status) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    for (const char *at = r.err; (at = strstr(at, "initial values")); at++) programs++;
    program_free(&r);
    return programs;
}

/* A run of four epochs compiles what one of a single step does: all shapes were ready before. */
static void compiles_nothing_on_the_way(void **state) {
    const char *recipe = write_recipe_of(state, "padding: uniform, padding_lengths: 3, drop_last: false");
    const int programs = count_programs(state, recipe, "training.max_steps=1");
    assert_true(programs >= 6); /* training alone has three lengths, with batches of 16 and of 8 */
    assert_int_equal(count_programs(state, recipe, "training.max_steps=56"), programs);
}

static void expect_refused(void **state, const char *assignment, int status, const char *message) {
    program_result r = program_run(NULL, "tcc-train",
                                   (const char *const[]){"--device", "cpu", "--run-dir", test_path(state, "no"),
                                                         write_recipe_of(state, "num_workers: 0"), assignment, NULL});
    if (r.status != status || !strstr(r.err, message))
        fail_msg("exit status %d, or this does not say \"%s\":\n%s%s", r.status, message, r.out, r.err);
    assert_false(test_exists(test_path(state, "no")));
    program_free(&r);
}

static void refuses(void **state) {
    expect_refused(state, "model.name=mlp", 2, "model.name mlp cannot be trained on data.kind text_classes");
    expect_refused(state, "model.heads=3", 2, "model.width 32 is not a multiple of model.heads 3");
    expect_refused(state, "data.text=stars", 1, "texts.tsv:1: error: there is no column 'stars'");
    expect_refused(state, "data.label=5", 1, "texts.tsv:1: error: there is no column '5'");
    expect_refused(state, "data.vocab_file=nowhere.txt", 1, "nowhere.txt: error: cannot open the file");
    expect_refused(state, "data.tokenizer=bpe", 2, "data.tokenizer: \"bpe\" is none of wordpiece");
    expect_refused(state, "data.separator=;", 1, "is the separator right?");
    expect_refused(state, "data.padding=none", 2, "data.padding: \"none\" is none of fixed|dynamic|uniform");
    expect_refused(state, "data.padding_lengths=4", 2,
                   "data.padding_lengths does not apply to data.padding fixed; it goes with dynamic|uniform");
    expect_refused(state, "data.padding_lengths=33", 2, "data.padding_lengths: must be from 1 to 32, not 33");
    expect_refused(state, "model.context=2", 1, "a context of at least 3 tokens, not 2");
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {cmocka_unit_test(padding_changes_nothing), FOLDER_TEST(learns_and_goes_on),
                                       FOLDER_TEST(compiles_nothing_on_the_way), FOLDER_TEST(refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
