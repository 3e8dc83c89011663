/* SPDX-License-Identifier: MIT
 * A run saves itself every ten minutes where its recipe says nothing of it. The test moves the run's clock. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/train_data.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void set_clock(void **state, int seconds) {
    char text[16];
    snprintf(text, sizeof text, "%d", seconds);
    test_write_text(state, "clock.next", text);
    assert_int_equal(rename(test_path(state, "clock.next"), test_path(state, "clock")), 0);
}

static int count_lines(void **state) {
    char *text = access(test_path(state, "run/metrics.jsonl"), F_OK)
                     ? NULL
                     : test_read(test_path(state, "run/metrics.jsonl"), NULL);
    int lines = 0;
    for (const char *c = text; c && *c; c++) lines += *c == '\n';
    free(text);
    return lines;
}

/* Checkpoints beside that of step 0; *step: the newest one's. */
static int count_checkpoints(void **state, long *step) {
    DIR *folder = opendir(test_path(state, "run/checkpoints"));
    int count = 0;
    *step = 0;
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        char *end;
        const long n = strncmp(e->d_name, "step-", 5) ? 0 : strtol(e->d_name + 5, &end, 10);
        if (!n || strcmp(end, ".safetensors")) continue;
        count++;
        if (n > *step) *step = n;
    }
    if (folder) closedir(folder);
    return count;
}

static void wait_for_lines(void **state, int lines) {
    for (int i = 0; count_lines(state) < lines; i++) {
        if (i > 12000) fail_msg("the run has not gone on for a minute");
        usleep(5000);
    }
}

static void wait_for_checkpoints(void **state, int count) {
    long step;
    for (int i = 0; count_checkpoints(state, &step) < count; i++) {
        if (i > 12000) fail_msg("no checkpoint for a minute, but %d", count_checkpoints(state, &step));
        usleep(5000);
    }
}

static void every_ten_minutes(void **state) {
    if (!program_takes_memory_limit()) skip(); /* nothing can be preloaded beside AddressSanitizer */
    char text[8192];
    long step, later;
    snprintf(text, sizeof text,
             "model: {name: mlp, hidden: [4]}\ndata: {kind: csv, path: %s, batch_size: 8}\n"
             "training: {max_steps: 1000000, log_every: 10}\n",
             write_csv_data(state));
    const char *recipe = test_write_text(state, "r.yaml", text), *run = test_path(state, "run");
    const program_options o = {.folder = *state, .environment = "LD_PRELOAD=" TCC_CLOCKSIM};
    set_clock(state, 0);
    program_process p = program_start(
        &o, "tcc-train", (const char *const[]){"--quiet", "--device", "cpu", "--run-dir", run, recipe, NULL});
    wait_for_lines(state, 5);
    set_clock(state, 570);
    wait_for_lines(state, count_lines(state) + 20);
    assert_int_equal(count_checkpoints(state, &step), 0);
    set_clock(state, 601);
    wait_for_checkpoints(state, 1);
    wait_for_lines(state, count_lines(state) + 20);
    assert_int_equal(count_checkpoints(state, &step), 1);
    set_clock(state, 1202);
    wait_for_checkpoints(state, 2);
    count_checkpoints(state, &later);
    assert_true(later > step);
    kill(p.pid, SIGKILL);
    program_result r = program_wait(&p);
    program_free(&r);

    char most[64], resumed[64];
    snprintf(most, sizeof most, "training.max_steps=%ld", later + 1);
    snprintf(resumed, sizeof resumed, "step %ld", later);
    r = program_run(NULL, "tcc-train", (const char *const[]){"--run-dir", run, "--resume", recipe, most, NULL});
    if (r.status || !strstr(r.out, resumed)) fail_msg("%d, not from %s:\n%s%s", r.status, resumed, r.out, r.err);
    program_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {FOLDER_TEST(every_ten_minutes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
