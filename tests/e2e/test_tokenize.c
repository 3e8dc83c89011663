/* SPDX-License-Identifier: MIT
 * tcc-train tokenize, from text to a run that reads its file. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define SMALL TCC_SOURCE_DIR "/tests/tokenizers/small/"
#define TOKENIZE(...) program_run(NULL, "tcc-train", (const char *const[]){"tokenize", __VA_ARGS__, NULL})

static void check_run(program_result r, int status, const char *out, const char *err) {
    if (r.status != status || !strstr(r.out, out) || !strstr(r.err, err))
        fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    program_free(&r);
}

static void text_to_run(void **state) {
    const char *out = test_path(state, "text.bin");
    check_run(TOKENIZE("--tokenizer", "gpt2", "--vocab=" SMALL "gpt2-vocab.json", "--merges", SMALL "gpt2-merges.txt",
                       "--end", "<|endoftext|>", "-o", out, SMALL "expected.jsonl"),
              0, "tokens of 2 bytes from", "");
    char path[512];
    snprintf(path, sizeof path, "data.path=%s", out);
    const char *recipe = test_write_text(state, "r.yaml",
                                         "model: {name: gpt, layers: 1, heads: 1, width: 8, context: 8}\n"
                                         "data: {kind: tokens, batch_size: 2}\n"
                                         "training: {max_steps: 2}\n"
                                         "sample: {length: 0}\n");
    program_result r =
        program_run(NULL, "tcc-train",
                    (const char *const[]){"--device", "cpu", "--run-dir", test_path(state, "run"), recipe, path, NULL});
    check_run(r, 0, "step 2  val_loss", "");

    /* The run keeps the tokenizer: it writes text without the files. */
    remove(out);
    remove(test_path(state, "text.bin.tokenizer.json"));
    r = program_run(NULL, "tcc-train",
                    (const char *const[]){"generate", "--device", "cpu", test_path(state, "run"), "--prompt", "The sea",
                                          "--length", "20", "--temperature", "2", NULL});
    if (strncmp(r.out, "The sea", 7) != 0 || strlen(r.out) < 27) fail_msg("%s%s", r.out, r.err);
    check_run(r, 0, "", "");
}

static void characters(void **state) {
    const char *a = test_write_text(state, "a.txt", "abca"), *out = test_path(state, "a.bin");
    check_run(TOKENIZE("--quiet", "-o", out, a), 0, "", "");
    size_t size;
    char *text = test_read(test_path(state, "a.bin.vocab"), &size);
    assert_string_equal(text, "abc");
    free(text);
    check_run(TOKENIZE("--vocab", test_path(state, "a.bin.vocab"), "-o", out, a), 0, "4 tokens of 2 bytes", "");
}

/* The characters are counted before the text is encoded, but a pipe is read once. */
static void from_a_pipe(void **state) {
    char command[4200];
    const char *a = test_write_text(state, "a.txt", "abca");
    for (int form = 0; form < 3; form++) {
        snprintf(command, sizeof command,
                 form < 2 ? "cat '%1$s' | " TCC_BIN_DIR "/tcc-train tokenize -o '%2$s' %3$s"
                          : "cat '%1$s' > '%3$s/pipe' & " TCC_BIN_DIR "/tcc-train tokenize -o '%2$s' '%3$s/pipe'",
                 a, test_path(state, "a.bin"),
                 form == 0   ? "-"
                 : form == 1 ? "--tokenizer bytes /dev/stdin"
                             : (char *)*state);
        if (form == 2) assert_int_equal(mkfifo(test_path(state, "pipe"), 0666), 0);
        check_run(program_run(NULL, "/bin/sh", (const char *const[]){"-c", command, NULL}), 0, "4 tokens of 2 bytes",
                  "");
    }
}

static void errors(void **state) {
    const char *out = test_path(state, "out.bin"), *bad = test_write(state, "bad.txt", "a\xff", 2);
    check_run(TOKENIZE("--help"), 0, "usage: tcc-train tokenize", "");
    check_run(TOKENIZE("-o", out), 2, "", "no text file given");
    check_run(TOKENIZE("a.txt"), 2, "", "--output is missing");
    check_run(TOKENIZE("--vocap", "x"), 2, "", "unknown option --vocap; did you mean --vocab");
    check_run(TOKENIZE("--vocab"), 2, "", "--vocab needs a value");
    check_run(TOKENIZE("--quiet=1"), 2, "", "--quiet takes no value");
    check_run(TOKENIZE("--token-bytes", "3", "-o", out, bad), 2, "", "must be 2 or 4, not 3");
    check_run(TOKENIZE("--tokenizer", "gpt4", "-o", out, bad), 2, "", "there are characters, bytes, gpt2, wordpiece");
    check_run(TOKENIZE("-o", out, bad), 1, "", "bad.txt: error: byte 1 (0xff) is not UTF-8");
    check_run(TOKENIZE("-o", out, test_path(state, "none.txt")), 1, "", "none.txt");
    assert_false(test_exists(out));
}

int main(void) {
    const struct CMUnitTest tests[] = {FOLDER_TEST(text_to_run), FOLDER_TEST(characters), FOLDER_TEST(from_a_pipe),
                                       FOLDER_TEST(errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
