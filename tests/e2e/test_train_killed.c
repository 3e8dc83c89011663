/* SPDX-License-Identifier: MIT
 * Runs that end at any moment, over all kinds of data and all precisions: killed, asked to by a signal, by a full disk.
 * Resumed each time, they end with the bits of a run that nobody stopped. TCC_TEST_COUNT says how often they are
 * stopped in all. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/same_run.h"
#include "harness/train_data.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LAST "checkpoints/step-000012"

/* Of fp16 the first steps are skipped, and others later: the scale is too high, and grows every second step. */
static const char *const precisions[][4] = {
    {NULL},
    {"training.mixed_precision=bf16", NULL},
    {"training.mixed_precision=fp16", "training.loss_scale=16777216", "training.loss_scale_interval=2", NULL}};
enum { PRECISIONS = 3, CASES = TRAIN_KINDS * PRECISIONS };

static unsigned seed = 1;

static unsigned draw(unsigned below) {
    seed = seed * 1103515245 + 12345;
    return (seed >> 8 & 0xffff) * below >> 16;
}

typedef enum ending { KILLED, CLOSED, TERMINATED, INTERRUPTED, FULL, ENDINGS } ending;
static const int signals[ENDINGS] = {SIGKILL, SIGHUP, SIGTERM, SIGINT, 0};
static int stopped[ENDINGS];

static bool is_expected(ending how, int status) {
    if (how == FULL) return status == 1;
    if (status == 128 + signals[how]) return true; /* before it is answered */
    return how != KILLED && status == 130;
}

/* A fourth of them by a full disk, and by a signal that is answered. */
static ending draw_ending(void) {
    if (!draw(4)) return FULL;
    return draw(3) ? KILLED : (ending)(CLOSED + draw(3));
}

/* Until the process has ended, too, which leaves its status to be asked for. */
static void wait_at_most(pid_t pid, double us) {
    enum { STEP_US = 2000 };
    siginfo_t ended = {0};
    for (; us > 0 && !ended.si_pid; us -= STEP_US) {
        usleep((unsigned)(us < STEP_US ? us : STEP_US));
        if (waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT)) return;
    }
}

/* Starts or resumes a run and ends it within that time; true when it came to its own end before. */
static bool run_and_stop(const char *recipe, const char *run, const char *const *precision, double within_us) {
    const ending how = draw_ending();
    char first[4200];
    const char *arguments[16] = {"--quiet", recipe, "--run-dir", run};
    int n = 4;
    while (*precision) arguments[n++] = *precision++;
    snprintf(first, sizeof first, "%s/checkpoints/step-000000.safetensors", run);
    if (!access(first, F_OK)) arguments[n++] = "--resume"; /* else there is nothing to resume from */
    const program_options full = {.file_limit_bytes = 1 + draw(8000)};
    program_process p = program_start(how == FULL ? &full : NULL, "tcc-train", arguments);
    if (how != FULL) wait_at_most(p.pid, within_us * draw(1000) / 1000);
    if (how != FULL) kill(p.pid, signals[how]);
    program_result r = program_wait(&p);
    if (r.status && !is_expected(how, r.status)) fail_msg("ending %d: status %d:\n%s%s", how, r.status, r.out, r.err);
    const bool ended = !r.status;
    stopped[how] += !ended;
    program_free(&r);
    return ended;
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* A whole run, and what it takes. */
static double run_whole(const char *recipe, const char *run, const char *const *precision) {
    const char *arguments[16] = {"--quiet", recipe, "--run-dir", run};
    for (int n = 4; *precision; n++) arguments[n] = *precision++;
    const double begin = now_us();
    program_result r = program_run(NULL, "tcc-train", arguments);
    if (r.status) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    program_free(&r);
    return now_us() - begin;
}

static void remove_run(void **state, const char *name) {
    program_result r = program_run(NULL, "/bin/rm", (const char *const[]){"-rf", test_path(state, name), NULL});
    program_free(&r);
}

static void check_case(void **state, const train_kind *kind, int p, int wanted) {
    if (!wanted) return;
    const char *data, *recipe = write_kind_recipe(state, kind, &data);
    static const char whole[] = "whole", run[] = "run";
    double us = 0;
    for (int i = 0; i < 2; i++) { /* the second time its programs come from the cache, as those of the stopped runs */
        remove_run(state, whole);
        us = run_whole(recipe, test_path(state, whole), precisions[p]);
    }
    for (int stops = 0; stops < wanted;) {
        double within = 1.2 * us; /* and then longer: a machine that has become slower would let no run end */
        remove_run(state, run);
        for (; !run_and_stop(recipe, test_path(state, run), precisions[p], within); within += us / 4) stops++;
        same_file(state, whole, run, LAST ".safetensors");
        same_file(state, whole, run, LAST ".state.safetensors");
        same_file(state, whole, run, "checkpoints/best.safetensors");
        same_metrics(state, whole, run);
    }
}

static void stopped_at_any_moment(void **state) {
    const char *count = getenv("TCC_TEST_COUNT");
    const int wanted = count ? atoi(count) : CASES;
    for (int i = 0; i < CASES; i++)
        check_case(state, &train_kinds[i / PRECISIONS], i % PRECISIONS, wanted * (i + 1) / CASES - wanted * i / CASES);
    print_message("stopped: %d killed, %d by SIGHUP, %d by SIGTERM, %d by SIGINT, %d by a full disk\n", stopped[KILLED],
                  stopped[CLOSED], stopped[TERMINATED], stopped[INTERRUPTED], stopped[FULL]);
}

int main(void) {
    program_own_cache(); /* else most would be stopped while they compile */
    const struct CMUnitTest tests[] = {FOLDER_TEST(stopped_at_any_moment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
