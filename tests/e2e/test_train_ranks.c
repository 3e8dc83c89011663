/* SPDX-License-Identifier: MIT
 * tcc-train --ranks N: the run of one process with N micro-batches, bit for bit, also resumed; and how it ends where
 * a rank is killed, stopped or interrupted. */
#include "harness/apart.h"
#include "harness/check.h"
#include "harness/files.h"
#include "harness/patience.h"
#include "harness/program.h"
#include "harness/same_run.h"
#include "harness/train_data.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUN(...) program_run(NULL, "tcc-train", (const char *const[]){"--device", "cpu", __VA_ARGS__, NULL})

#define TRAIN(...) free(program_output(RUN("--quiet", __VA_ARGS__)))

#define LAST "checkpoints/step-000020.safetensors"

/* The lines of a run's evaluations, from malloc. */
static char *evaluations(void **state, const char *run) {
    char path[64];
    snprintf(path, sizeof path, "%s/metrics.jsonl", run);
    char *text = test_read(test_path(state, path), NULL), *to = text;
    for (const char *line = text, *next; *line; line = next) {
        next = line + strcspn(line, "\n") + 1;
        if (!memmem(line, (size_t)(next - line), "val_loss", 8)) continue;
        memmove(to, line, (size_t)(next - line));
        to += next - line;
    }
    *to = '\0';
    assert_true(to > text);
    return text;
}

/* Ranks share them: the last of three has no batch of the two. */
static void same_evaluations(void **state, const char *a, const char *b) {
    char *x = evaluations(state, a), *y = evaluations(state, b);
    assert_string_equal(x, y);
    free(x);
    free(y);
}

static void same_runs(void **state, const char *a, const char *b) {
    same_file(state, a, b, LAST);
    same_file(state, a, b, "checkpoints/best.safetensors");
    same_evaluations(state, a, b);
}

/* 20 steps are more than an epoch, and the last step of one has a rest. */
static void ranks_are_micro_batches(void **state) {
    const char *mlp = write_recipe(state, "mlp"), *gpt = write_recipe(state, "gpt");
#define MLP mlp, "training.clip_grad_norm=0.5", "training.ema_decay=0.9", "data.drop_last=false"
    TRAIN(MLP, "--run-dir", test_path(state, "micro"), "training.batch_accumulate=3");
    TRAIN(MLP, "--run-dir", test_path(state, "ranks"), "--ranks", "3");
    same_runs(state, "micro", "ranks");
    const char *parts = test_path(state, "parts"), *moved = test_path(state, "moved");
    TRAIN(MLP, "--run-dir", parts, "--ranks", "3", "training.max_steps=10", "training.shard=optimizer");
    char *said = program_output(
        RUN(MLP, "--run-dir", moved, "--resume", test_path(state, "parts/checkpoints/step-000010.safetensors")));
    assert_non_null(strstr(said, "--ranks was 3, is 1: each takes 3 micro-batches of a step of "));
    free(said);
    same_file(state, "micro", "moved", LAST);
    TRAIN(MLP, "--run-dir", parts, "--ranks", "3", "--resume", "training.shard=optimizer", "training.save_every=3");
    same_runs(state, "micro", "parts");
#undef MLP
#define GPT gpt, "training.mixed_precision=bf16", "training.eval_every=0"
    TRAIN(GPT, "--run-dir", test_path(state, "gpt-micro"), "training.batch_accumulate=2");
    TRAIN(GPT, "--run-dir", test_path(state, "gpt-ranks"), "--ranks", "2");
    same_file(state, "gpt-micro", "gpt-ranks", LAST);
#undef GPT
}

/* In mixed precision, ranks keep weights in parts, which are whole where they are saved: as a checkpoint, as the best
 * that was evaluated. Any number of ranks goes on from there. */
static void weights_in_parts_go_on(void **state) {
    const char *gpt = write_recipe(state, "gpt"), *saved = NULL;
    static const char *const ranks[] = {"1", "2", "8"};
#define GPT \
    gpt, "training.mixed_precision=bf16", "training.clip_grad_norm=0.5", "training.eval_every=5", "data.batch_size=8"
    TRAIN(GPT, "--run-dir", test_path(state, "micro"), "training.batch_accumulate=4");
    TRAIN(GPT, "--run-dir", test_path(state, "parts"), "--ranks", "4", "training.shard=optimizer");
    same_runs(state, "micro", "parts");
    saved = test_path(state, "parts/checkpoints/step-000010.safetensors");
    for (int i = 0; i < 3; i++) {
        char whole[16], parts[16];
        snprintf(whole, sizeof whole, "whole-%s", ranks[i]);
        snprintf(parts, sizeof parts, "parts-%s", ranks[i]);
        TRAIN(GPT, "--run-dir", test_path(state, whole), "--ranks", ranks[i], "--resume", saved);
        TRAIN(GPT, "--run-dir", test_path(state, parts), "--ranks", ranks[i], "--resume", saved,
              "training.shard=optimizer");
        same_file(state, whole, parts, LAST);
        same_evaluations(state, whole, parts);
    }
    same_file(state, "micro", "parts-1", LAST);
#undef GPT
}

/* The run "two" of these processes ends as "one" did, and the first alone tells of it. */
static void check_as_one(void **state, program_process ranks[2]) {
    char *said = program_output(program_wait(&ranks[0])), *nothing = program_output(program_wait(&ranks[1]));
    assert_non_null(strstr(said, "step 19/20"));
    assert_non_null(strstr(said, "% waiting, rank "));
    assert_string_equal(nothing, "");
    same_file(state, "one", "two", LAST);
    free(said);
    free(nothing);
}

static void ranks_meet_by_the_environment(void **state) {
    const char *mlp = write_recipe(state, "mlp");
    program_process ranks[2];
    TRAIN(mlp, "--run-dir", test_path(state, "one"), "--ranks", "2");
    start_apart(state, mlp, "two", NULL, ranks);
    check_as_one(state, ranks);
    static const char *const differences[][2] = {{"optimizer.lr=0.5", "rank 1 has another recipe than rank 0"},
                                                 {"data.val_split=0.5", "rank 1 has another recipe than rank 0"}};
    for (int i = 0; i < 2; i++) {
        start_apart(state, mlp, "three", &(apart){.given = differences[i][0]}, ranks);
        for (int r = 0; r < 2; r++) {
            program_result ended = program_wait(&ranks[r]);
            assert_int_equal(ended.status, 1);
            if (!r && !strstr(ended.err, differences[i][1])) fail_msg("said: %s", ended.err);
            program_free(&ended);
        }
    }
}

/* As srun starts them without an MPI: on the first of its nodes, which here is this machine. */
static void ranks_of_srun_meet(void **state) {
    const char *mlp = write_recipe(state, "mlp");
    program_process ranks[2];
    char job[16];
    TRAIN(mlp, "--run-dir", test_path(state, "one"), "--ranks", "2");
    snprintf(job, sizeof job, "%d", (int)getpid());
    setenv("SLURM_JOB_ID", job, 1);
    setenv("SLURM_STEP_ID", "3", 1);
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    setenv("SLURM_STEP_NODELIST", "127.0.0.[1-2,7],nowhere", 1);
    unsetenv("RANK"); /* and the port, which the step has by itself */
    unsetenv("MASTER_PORT");
    for (int r = 1; r >= 0; r--) {
        const char *const arguments[] = {"--device", "cpu", mlp, "--run-dir", test_path(state, "two"), NULL};
        setenv("SLURM_PROCID", r ? "1" : "0", 1);
        ranks[r] = program_start(NULL, "tcc-train", arguments);
    }
    check_as_one(state, ranks);
    program_result r = RUN(mlp, "--run-dir", test_path(state, "three"), "--ranks", "2");
    assert_int_equal(r.status, 2);
    assert_non_null(strstr(r.err, "--ranks 2: this process is already one of 2 ranks, as SLURM_STEP_NUM_TASKS says"));
    program_free(&r);
    unsetenv("SLURM_STEP_NUM_TASKS");
    unsetenv("SLURM_PROCID");
}

static void what_ranks_cannot_do_is_refused(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
    const struct {
        const char *arguments[3];
        int status;
        const char *said;
    } cases[] = {
        {{"--network=ib"}, 2, "--network goes with --dry-run --ranks"},
        {{"--dry-run", "--network=1"}, 2, "--network: error: network \"1\": must be LATENCY,BANDWIDTH"},
        {{"--verify"}, 2, "--ranks does not go with --verify"},
        {{"data.batch_size=auto"}, 2, "--ranks does not go with data.batch_size=auto"},
        {{"--ranks", "0"}, 2, "--ranks 0: must be a whole number from 1 to 1024"},
        {{"data.path=nowhere.csv"}, 1, "nowhere.csv"},
        {{"data.drop_last=false", "data.batch_size=53", "--ranks=3"}, 1, "in 3 parts leaves one without samples"}};
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        const char *const *a = cases[i].arguments;
        program_result r = RUN("--quiet", recipe, "--run-dir", run, "--ranks", "2", a[0], a[1], a[2]);
        if (r.status != cases[i].status || !strstr(r.err, cases[i].said))
            fail_msg("case %d: status %d, said: %s", i, r.status, r.err);
        const char *once = strstr(r.err, "tcc-train: "); /* and not by each rank */
        assert_non_null(once);
        assert_null(strstr(once + 1, "tcc-train: "));
        program_free(&r);
    }
}

/* Rank 0 measures for all, and what it wrote holds for all. */
static void choices_are_of_one_rank(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *file = test_path(state, "choices");
#define TUNED recipe, "--ranks", "2", "training.compile_mode=max-autotune", "training.autotune_budget_s=1"
    TRAIN(TUNED, "--run-dir", test_path(state, "tuned"), "--lock", file);
    char *written = test_read(file, NULL);
    assert_non_null(strstr(written, "traincc-lock 1\n"));
    TRAIN(TUNED, "--run-dir", test_path(state, "locked"), "--locked", file, "--lock", test_path(state, "again"));
#undef TUNED
    char *again = test_read(test_path(state, "again"), NULL);
    assert_string_equal(again, written);
    same_runs(state, "tuned", "locked");
    free(again);
    free(written);
}

/* The losses of two steps, as a run has written them. */
static void read_two_losses(void **state, const char *run, double losses[2]) {
    char path[64];
    snprintf(path, sizeof path, "%s/metrics.jsonl", run);
    char *text = test_read(test_path(state, path), NULL);
    const char *first = strstr(text, "\"step\":0,\"loss\":"), *second = strstr(text, "\"step\":1,\"loss\":");
    assert_true(first && second);
    losses[0] = atof(first + 16);
    losses[1] = atof(second + 16);
    free(text);
}

/* A loss that is no sum over samples is that of the parts where the recipe says so, and refused elsewhere. Losses are
 * compared: the model's batch norms keep the statistics of other parts. */
static void parts_have_losses_of_their_own(void **state) {
    const char *data, *pixels = write_kind_recipe(state, &train_kinds[TRAIN_KINDS - 1], &data);
#define DICE pixels, "loss.name=edge_dice", "training.max_steps=2", "training.save_every=2", "data.batch_size=2"
    program_result r = RUN(DICE, "--run-dir", test_path(state, "refused"), "training.batch_accumulate=2");
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.err, "training.loss_of=parts takes the mean of the parts' own losses"));
    program_free(&r);
    TRAIN(DICE, "--run-dir", test_path(state, "micro"), "training.loss_of=parts", "training.batch_accumulate=2");
    TRAIN(DICE, "--run-dir", test_path(state, "ranks"), "training.loss_of=parts", "--ranks", "2");
    double micro[2], ranks[2];
    read_two_losses(state, "micro", micro);
    read_two_losses(state, "ranks", ranks);
    assert_memory_equal(micro, ranks, sizeof micro);
    assert_true(micro[0] > 0 && micro[0] != micro[1]);
}

static void ranks_are_planned(void **state) {
    const char *run = test_path(state, "planned");
    char *out = program_output(
        RUN(write_recipe(state, "mlp"), "--run-dir", run, "--dry-run", "--ranks", "3", "--network", "ethernet"));
    assert_non_null(strstr(out, "30 us a message and 2.5 GB/s; collectives as for 3 ranks\nranks "));
    assert_non_null(strstr(out, "\n    3  "));
    assert_non_null(strstr(out, "\n 1024  "));
    assert_int_equal(access(run, F_OK), -1);
    free(out);
}

/* Those that the library names are those that completion offers. */
static void networks_are_listed(void **state) {
    char *offered =
        program_output(program_run(NULL, "tcc-train", (const char *const[]){"--complete", "--network=", NULL}));
    program_result r = RUN(write_recipe(state, "mlp"), "--dry-run", "--ranks", "2", "--network=none");
    const char *at = strstr(r.err, "one of\n");
    assert_non_null(at);
    int named = 0, lines = 0;
    for (const char *line = at; (line = strstr(line, "\n  ")); line++) named++;
    for (char *word = strtok(offered, "\n"); word; word = strtok(NULL, "\n"), lines++) {
        char text[64];
        snprintf(text, sizeof text, "\n  %s (", word + strlen("--network="));
        if (!strstr(at, text)) fail_msg("the library does not know %s: %s", word, r.err);
    }
    assert_int_equal(lines, named);
    program_free(&r);
    free(offered);
}

/* -- Ends -- */

/* The process of a rank, in the order in which the first process has started them. */
static pid_t process_of(pid_t first, int rank) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)first, (int)first);
    FILE *f = fopen(path, "r");
    const size_t length = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    char *at = text;
    text[length] = '\0';
    for (; rank; rank--) strtol(at, &at, 10);
    return (pid_t)strtol(at, NULL, 10);
}

static bool is_there(void *path) { return test_exists(path); }

enum { NO_RANK = -1, RANKS = 3 };

static int answer_seconds; /* --comm-timeout */

/* Trains until a signal comes for a rank, or for all together. */
static program_result end_by(void **state, const char *recipe, const char *run, int rank, int signal_number) {
    char saved[64], timeout[16];
    snprintf(saved, sizeof saved, "%s/checkpoints/step-000010.safetensors", run);
    snprintf(timeout, sizeof timeout, "%d", answer_seconds);
    const char *arguments[] = {"--device",
                               "cpu",
                               "--quiet",
                               recipe,
                               "--run-dir",
                               test_path(state, run),
                               "--ranks",
                               "3",
                               "--comm-timeout",
                               timeout,
                               "training.max_steps=100000000",
                               "training.eval_every=0",
                               NULL};
    program_process p = program_start(NULL, "tcc-train", arguments);
    assert_true(test_wait(is_there, (void *)test_path(state, saved), 30));
    const pid_t process = rank == NO_RANK ? p.pid : process_of(p.pid, rank);
    assert_true(process > 0);
    assert_int_equal(kill(process, signal_number), 0);
    return program_wait(&p);
}

static void ends_of_a_rank_end_all(void **state) {
    const char *recipe = write_recipe(state, "mlp");
    char late[80], first_late[80];
    answer_seconds = (int)test_seconds(1) + 1;
    snprintf(late, sizeof late, "of 3: rank 1 did not answer within %d s", answer_seconds);
    snprintf(first_late, sizeof first_late, "of 3: rank 0 did not answer within %d s", answer_seconds);
    const struct {
        const char *run;
        int rank, signal, status;
        const char *said, *not_said; /* by rank 0 itself, or by the rank that sees it first and gives up */
    } cases[] = {
        {"killed", 2, SIGKILL, 1, "of 3: rank 2 is gone", NULL},
        {"first-killed", 0, SIGKILL, 1, "rank 0 was ended by signal 9", NULL},
        {"stopped", 1, SIGSTOP, 1, late, NULL},
        {"first-stopped", 0, SIGSTOP, 1, first_late, NULL},
        {"interrupted", 1, SIGTERM, 130, "interrupted at step ", "gone"},
        {"all-interrupted", NO_RANK, SIGTERM, 130, "interrupted at step ", "gone"},
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        program_result r = end_by(state, recipe, cases[i].run, cases[i].rank, cases[i].signal);
        if (r.status != cases[i].status || !strstr(r.err, cases[i].said) ||
            (cases[i].not_said && strstr(r.err, cases[i].not_said)))
            fail_msg("%s: status %d, said: %s", cases[i].run, r.status, r.err);
        const bool names_step = cases[i].signal == SIGTERM || strstr(r.err, "in training step ") ||
                                strstr(r.err, "before training step ");
        if (!names_step && cases[i].rank) fail_msg("%s: said: %s", cases[i].run, r.err);
        program_free(&r);
    }
    char *log = test_read(test_path(state, "killed/rank-1.log"), NULL); /* what others than the first have to say */
    assert_non_null(strstr(log, "rank 2 is gone"));
    free(log);
    TRAIN(recipe, "--run-dir", test_path(state, "whole"), "--ranks", "3", "training.max_steps=10");
    same_file(state, "whole", "killed", "checkpoints/step-000010.safetensors");
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(ranks_are_micro_batches), FOLDER_TEST(ranks_meet_by_the_environment),
        FOLDER_TEST(ranks_of_srun_meet),      FOLDER_TEST(what_ranks_cannot_do_is_refused),
        FOLDER_TEST(choices_are_of_one_rank), FOLDER_TEST(ranks_are_planned),
        FOLDER_TEST(networks_are_listed),     FOLDER_TEST(weights_in_parts_go_on),
        FOLDER_TEST(ends_of_a_rank_end_all),  FOLDER_TEST(parts_have_losses_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
