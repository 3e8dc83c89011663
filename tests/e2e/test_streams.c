/* SPDX-License-Identifier: MIT
 * The programs' output: where it cannot be written the exit status says so, and closed streams harm nothing. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/train_data.h"

#include <stdio.h>
#include <stdlib.h>

/* Runs a shell's command line, in which $BIN is the folder of the programs and $RECIPE a recipe. */
static program_result shell(void **state, const char *line) {
    char script[8192];
    snprintf(script, sizeof script, "BIN='%s' RECIPE='%s'; %s", TCC_BIN_DIR, write_recipe(state, "mlp"), line);
    return program_run(&(program_options){.folder = *state}, "/bin/sh", (const char *const[]){"-c", script, NULL});
}

static void expect(program_result r, int status, const char *message) {
    if (r.status != status || !strstr(r.err, message))
        fail_msg("exit status %d, not %d, or this does not say \"%s\":\n%s%s", r.status, status, message, r.out, r.err);
    program_free(&r);
}

static void full_output(void **state) {
    static const char no_space[] = "standard output: "; /* and the reason, if it was the last write */
    test_write_text(state, "f.tir", "graph @f(%0: f32[2]) -> (f32[2]) {\n}\n");
    expect(shell(state, "$BIN/tcc-train --emit asm $RECIPE >/dev/full"), 1, no_space);
    expect(shell(state, "$BIN/tcc-train --emit tir $RECIPE > f.tir && $BIN/tcc-opt f.tir >/dev/full"), 1, no_space);
    expect(shell(state, "$BIN/tcc-opt --list-ops >/dev/full"), 1, no_space);
    expect(shell(state, "$BIN/tcc-train --help >/dev/full"), 1, no_space);
    expect(shell(state, "$BIN/tcc-train --devices >/dev/full"), 1, no_space);
    expect(shell(state, "$BIN/tcc-opt f.tir >&-"), 1, "standard output: ");
    expect(shell(state, "$BIN/tcc-train --dry-run --explain $RECIPE >/dev/full"), 1, no_space);
}

/* What is there and no file is written to, never replaced. */
static void full_profile(void **state) {
    expect(shell(state, "ln -s /dev/full full; $BIN/tcc-train --run-dir run --profile full $RECIPE"), 1,
           "full: error: writing failed: No space left on device");
    expect(shell(state, "test -c full && test ! -e full.tmp"), 0, "");
    expect(shell(state, "mkfifo pipe; cat pipe > got & $BIN/tcc-train --run-dir run --profile pipe $RECIPE && wait && "
                        "test -p pipe && grep -q traceEvents got"),
           0, "");
}

/* A run goes on without anybody to print for, and nothing of that lands in its files. */
static void closed_streams(void **state) {
    expect(shell(state, "$BIN/tcc-train --run-dir run $RECIPE <&- >&- 2>&-"), 0, "");
    char *metrics = test_read(test_path(state, "run/metrics.jsonl"), NULL);
    for (const char *line = metrics; *line; line = strchr(line, '\n') + 1)
        if (*line != '{') fail_msg("%s", line);
    free(metrics);
    expect(shell(state, "$BIN/tcc-train --run-dir run --resume $RECIPE training.max_steps=22 >&-"), 0, "");
    expect(shell(state, "$BIN/tcc-train --run-dir other $RECIPE model.name=none 2>&-"), 2, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {FOLDER_TEST(full_output), FOLDER_TEST(full_profile),
                                       FOLDER_TEST(closed_streams)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
