/* SPDX-License-Identifier: MIT
 * tcc-train generate: text of a run's language model, on the command line. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/train_data.h"
#include "ir/support/context.h"
#include "traincc/run.h"

#include <stdio.h>
#include <stdlib.h>

#define RUN(...) program_run(NULL, "tcc-train", (const char *const[]){"--device", "cpu", __VA_ARGS__, NULL})

static void expect(program_result r, int status, const char *out, const char *err) {
    if (r.status != status || !strstr(r.out, out) || !strstr(r.err, err))
        fail_msg("exit status %d, or this does not say \"%s%s\":\n%s%s", r.status, out, err, r.out, r.err);
    program_free(&r);
}

static bool append(void *user, const char *text, size_t length) {
    strncat(user, text, length);
    return true;
}

/* A program gets the same text of the run's folder. */
static void written_by_a_program(const char *folder, const char *prompt, const char *expected) {
    const tcc_generate_options how = {.size = sizeof how, .prompt = prompt, .length = 30};
    char text[256] = "";
    tcc_context *cx;
    tcc_run *run;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    assert_ok(tcc_run_open(cx, folder, &run), &cx->diag);
    assert_ok(tcc_run_generate(run, &how, append, text, NULL), &cx->diag);
    assert_int_equal(strlen(text), 30);
    assert_memory_equal(expected + strlen(prompt), text, 30);
    tcc_run_close(run);
    tcc_context_destroy(cx);
}

static void texts(void **state) {
    const char *data = write_text_data(state), *run = test_path(state, "run");
    char text[1024];
    snprintf(text, sizeof text,
             "model: {name: gpt, layers: 1, heads: 2, width: 32, context: 32}\n"
             "data: {kind: text, path: %s, batch_size: 8}\n"
             "training: {max_steps: 60, eval_every: 60, seed: 3}\noptimizer: {lr: 0.01}\n"
             "sample: {length: 40, temperature: 0.7, every: 30}\n",
             data);
    program_result r = RUN(test_write_text(state, "recipe.yaml", text), "--run-dir", run);
    const char *sample = strstr(r.out, "--- sample ---"), *last = NULL;
    for (; sample; sample = strstr(sample + 1, "--- sample ---")) last = sample;
    assert_non_null(last);
    /* What the recipe says gives the text that was the last sample, without the training data. */
    remove(data);
    program_result again = RUN("generate", run);
    assert_int_equal(again.status, 0);
    assert_true(strlen(again.out) > 40);
    assert_non_null(strstr(last, again.out));
    program_free(&r);
    r = RUN("generate", run, "--seed", "4");
    assert_string_not_equal(r.out, again.out);
    program_free(&again);
    program_free(&r);

    const char *prompt = "the";
    r = RUN("generate", run, "--prompt", prompt, "--length", "30", "--temperature", "0");
    again = RUN("generate", run, "--prompt", prompt, "--length=30", "--top-k", "1", "--temperature", "1");
    if (r.status || strncmp(r.out, "the", 3) != 0 || strlen(r.out) != 34) fail_msg("%s%s", r.out, r.err);
    assert_string_equal(r.out, again.out);
    program_free(&again);
    written_by_a_program(run, prompt, r.out);
    char stop[4] = {r.out[12], r.out[13], r.out[14]}; /* is not given */
    again = RUN("generate", run, "--prompt", prompt, "--length=30", "--temperature=0", "--stop", stop);
    assert_null(strstr(again.out + 3, stop));
    assert_memory_equal(again.out, r.out, strlen(again.out) - 1);
    program_free(&again);
    program_free(&r);

    expect(RUN("generate", run, "--prompt", ""), 1, "", "the prompt is empty");
    expect(RUN("generate", run, "--prompt", "the\xfe"), 1, "", "not UTF-8 at byte 3");
    expect(RUN("generate", run, "--prompt", "the \xE2\x98\x83"), 1, "", "(U+2603) at byte 4 does not occur");
    expect(RUN("generate", run, "--prompt", "the the the the the the the the the the the "), 1, "",
           "the prompt has 44 tokens; it must have from 1 to 32");
    expect(RUN("generate", run, "--top-k", "none"), 2, "", "--top-k none: must be a whole number from 1");
    expect(RUN("generate", run, "--top-p", "1.5"), 2, "", "--top-p 1.5: must be a number from");
    expect(RUN("predict", run, "--prompt", "the"), 2, "", "--prompt goes with tcc-train generate");
    expect(RUN("generate", test_path(state, "none")), 2, "", "none/recipe.yaml");
}

static void other_models(void **state) {
    char text[512];
    snprintf(text, sizeof text,
             "model: {name: mlp, hidden: [4]}\ndata: {kind: csv, path: %s, batch_size: 8}\ntraining: {max_steps: 2}\n",
             write_csv_data(state));
    expect(RUN(test_write_text(state, "recipe.yaml", text), "--run-dir", test_path(state, "run")), 0, "", "");
    expect(RUN("generate", test_path(state, "run")), 1, "", "generate: mlp is no language model and writes no text");

    /* Tokens without their tokenizer. */
    uint16_t tokens[400];
    for (int i = 0; i < 400; i++) tokens[i] = (uint16_t)(i % 7);
    snprintf(text, sizeof text,
             "model: {name: gpt, layers: 1, heads: 1, width: 8, context: 8}\n"
             "data: {kind: tokens, path: %s, batch_size: 4}\ntraining: {max_steps: 2}\n",
             test_write(state, "tokens.bin", tokens, sizeof tokens));
    const char *recipe = test_write_text(state, "tokens.yaml", text);
    expect(RUN(recipe, "--run-dir", test_path(state, "tokens")), 0, "step 2", "");
    expect(RUN("generate", test_path(state, "tokens"), "--prompt", "a"), 1, "",
           "the tokenizer of this data is not known");
    expect(RUN("generate", test_path(state, "tokens")), 1, "", "the tokenizer of this data is not known");
    expect(RUN(recipe, "sample.prompt=a", "--run-dir", test_path(state, "more")), 1, "", "tokenizer of this data");
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {FOLDER_TEST(texts), FOLDER_TEST(other_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
