/* SPDX-License-Identifier: MIT
 * Ranks that mpirun has started, of each MPI library that is here: sums in the order of ranks, what ranks are told
 * where one fails, and tcc-train, which leaves the files of --ranks. Without an MPI library it is skipped. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/patience.h"
#include "harness/program.h"
#include "harness/same_run.h"
#include "harness/train_data.h"

#include <dirent.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *name, *mpirun;
} mpis[] = {TCC_MPIS{NULL, NULL}};
enum { MPIS = sizeof mpis / sizeof *mpis - 1, MOST_ARGUMENTS = 40 };

#define LAST "checkpoints/step-000020.safetensors"

/* mpirun -np RANKS with the rest of the arguments up to NULL. */
static program_process start(int mpi, const char *ranks, const char *const *rest) {
    const char *arguments[MOST_ARGUMENTS];
    int n = 0;
    if (!strcmp(mpis[mpi].name, "openmpi"))
        for (int i = 0; i < 4; i++)
            arguments[n++] = ((const char *const[]){"--oversubscribe", "--bind-to", "none", "--quiet"})[i];
    arguments[n++] = "-np";
    arguments[n++] = ranks;
    for (; *rest; rest++) {
        assert_true(n < MOST_ARGUMENTS - 1);
        arguments[n++] = *rest;
    }
    arguments[n] = NULL;
    return program_start(NULL, mpis[mpi].mpirun, arguments);
}

#define START(mpi, ranks, ...) start(mpi, ranks, (const char *const[]){__VA_ARGS__, NULL})

static program_result finish(program_process p) { return program_wait(&p); }

static const char *ranks_program(int mpi, char path[256]) {
    snprintf(path, 256, "%s%s", TCC_MPI_RANKS, mpis[mpi].name);
    return path;
}

static void expect_lines(const char *name, const char *what, const program_result *r, const char *text, int count) {
    int found = 0;
    for (const char *at = r->out; (at = strstr(at, text)); at++) found++;
    if (found != count) fail_msg("%s %s: %d times '%s', said: %s%s", name, what, found, text, r->out, r->err);
}

static void sums_have_the_order_of_ranks(void **state) {
    (void)state;
    static const char *const cases[] = {"sums", "single", "world", "fortran"};
    for (int mpi = 0; mpi < MPIS; mpi++)
        for (int i = 0; i < 3; i++) {
            char path[256];
            program_result r = finish(START(mpi, "3", ranks_program(mpi, path), cases[i]));
            expect_lines(mpis[mpi].name, cases[i], &r, "of 3: right\n", 3);
            assert_int_equal(r.status, 0);
            program_free(&r);
        }
}

static void faults_are_told(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"gives-up", "rank 2 gave up: the disk is full"},
        {"ends", "rank 2 is gone: it has closed its communicator"},
        {"differs", "calls all_reduce (sum) of 4 f32, but rank 2 calls all_reduce (sum) of 3 f32"},
        {"stalls", "rank 2 did not answer within 0.3 s"},
    };
    for (int mpi = 0; mpi < MPIS; mpi++)
        for (int i = 0; i < 4; i++) {
            char path[256];
            program_result r = finish(START(mpi, "3", ranks_program(mpi, path), cases[i][0]));
            expect_lines(mpis[mpi].name, cases[i][0], &r, cases[i][1], 2);
            program_free(&r);
        }
}

/* A rank that is late reads what the others have begun to send it: they may have unmapped that. */
static void failed_sums_leave_memory_alone(void **state) {
    (void)state;
    for (int mpi = 0; mpi < MPIS; mpi++) {
        char path[256];
        program_result r = finish(START(mpi, "3", ranks_program(mpi, path), "unmaps"));
        expect_lines(mpis[mpi].name, "unmaps", &r, " gave up: all_reduce, collective 1, on rank ", 1);
        expect_lines(mpis[mpi].name, "unmaps", &r, ": ended\n", 3);
        program_free(&r);
    }
}

/* The first of mpirun's processes that is a rank of that number; 0: there is none. */
static pid_t process_of(pid_t mpirun, const char *variable) {
    DIR *all = opendir("/proc");
    pid_t found = 0;
    char path[300], text[1 << 16];
    for (struct dirent *d; all && !found && (d = readdir(all));) {
        long parent = 0;
        const long pid = strtol(d->d_name, NULL, 10);
        if (pid <= 0) continue;
        snprintf(path, sizeof path, "/proc/%ld/environ", pid);
        FILE *f = fopen(path, "r");
        const size_t length = f ? fread(text, 1, sizeof text, f) : 0;
        if (f) fclose(f);
        if (!length || !memmem(text, length, variable, strlen(variable) + 1)) continue;
        for (long at = pid; at > 1 && at != mpirun; at = parent) { /* it or its parents are mpirun's */
            snprintf(path, sizeof path, "/proc/%ld/stat", at);
            parent = 0;
            if ((f = fopen(path, "r"))) {
                if (fscanf(f, "%*d %*s %*c %ld", &parent) != 1) parent = 0;
                fclose(f);
            }
        }
        if (parent == mpirun) found = (pid_t)pid;
    }
    if (all) closedir(all);
    return found;
}

/* A run that has saved, or has ended. A run that is fast removes its first checkpoints before anybody looks. */
typedef struct started {
    pid_t pid;
    const char *saved; /* a pattern */
} started;

static bool has_saved_or_ended(void *user) {
    const started *s = user;
    siginfo_t info = {0};
    glob_t found;
    const bool saved = !glob(s->saved, 0, NULL, &found);
    if (saved) globfree(&found);
    return saved || (!waitid(P_PID, (id_t)s->pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid);
}

#define TRAIN TCC_BIN_DIR "/tcc-train", "--device", "cpu"

static void training_is_that_of_ranks(void **state) {
    const char *recipe = write_recipe(state, "mlp");
    free(program_output(program_run(NULL, "tcc-train",
                                    (const char *const[]){"--device", "cpu", "--quiet", recipe, "--run-dir",
                                                          test_path(state, "ranks"), "--ranks", "2", NULL})));
    for (int mpi = 0; mpi < MPIS; mpi++) {
        program_result r = finish(START(mpi, "2", TRAIN, recipe, "--run-dir", test_path(state, mpis[mpi].name)));
        if (r.status) fail_msg("%s: status %d, said: %s%s", mpis[mpi].name, r.status, r.out, r.err);
        expect_lines(mpis[mpi].name, "training", &r, "step 19/20", 1);
        same_file(state, "ranks", mpis[mpi].name, LAST);
        program_free(&r);
        r = finish(START(mpi, "2", TRAIN, recipe, "--ranks", "2", "--run-dir", test_path(state, "none")));
        assert_int_not_equal(r.status, 0);
        assert_non_null(strstr(r.err, "--ranks 2: this process is already one of 2 ranks"));
        program_free(&r);
        r = finish(START(mpi, "1", TRAIN, recipe, "--run-dir", test_path(state, "none"), ":", "-np", "1", TRAIN, recipe,
                         "--run-dir", test_path(state, "none"), "optimizer.lr=0.5"));
        assert_int_not_equal(r.status, 0);
        assert_non_null(strstr(r.err, "rank 1 has another recipe than rank 0: all ranks must be given the same"));
        program_free(&r);
    }
}

/* MPI waits without a limit for processes that do not call it. */
static void a_rank_that_never_comes_is_noticed(void **state) {
    const char *recipe = write_recipe(state, "mlp");
    for (int mpi = 0; mpi < MPIS; mpi++) {
        program_result r = finish(START(mpi, "1", TRAIN, recipe, "--run-dir", test_path(state, "none"),
                                        "--comm-timeout", "1", ":", "-np", "1", "sleep", "60"));
        assert_int_not_equal(r.status, 0);
        if (!strstr(r.err, "not all ranks came within the time of --comm-timeout"))
            fail_msg("%s: status %d, said: %s%s", mpis[mpi].name, r.status, r.out, r.err);
        program_free(&r);
    }
}

/* SIGTERM saves, and the run goes on from there to the bits of one that was never stopped. */
static void an_interrupted_rank_ends_all(void **state) {
    const char *recipe = write_recipe(state, "mlp");
#define LONG "training.max_steps=100000000", "training.eval_every=0"
    for (int mpi = 0; mpi < MPIS; mpi++) {
        char saved[64];
        const char *run = test_path(state, mpis[mpi].name);
        snprintf(saved, sizeof saved, "%s/checkpoints/step-*.safetensors", mpis[mpi].name);
        program_process p = START(mpi, "2", TRAIN, "--quiet", recipe, "--run-dir", run, LONG);
        assert_true(test_wait(has_saved_or_ended, &(started){p.pid, test_path(state, saved)}, 30));
        const pid_t rank = process_of(p.pid,
                                      strcmp(mpis[mpi].name, "openmpi") != 0 ? "PMI_RANK=1" : "OMPI_COMM_WORLD_RANK=1");
        if (rank > 0) assert_int_equal(kill(rank, SIGTERM), 0);
        program_result r = finish(p);
        if (r.status != 130 || !strstr(r.err, "interrupted at step "))
            fail_msg("%s: status %d, said: %s", mpis[mpi].name, r.status, r.err);
        program_free(&r);
    }
}

int main(void) {
    if (!MPIS) {
        puts("skipped: built without an MPI library; tools/deps.sh --test installs two");
        return 77;
    }
    program_share_cache();
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(sums_have_the_order_of_ranks),   FOLDER_TEST(faults_are_told),
        FOLDER_TEST(failed_sums_leave_memory_alone), FOLDER_TEST(a_rank_that_never_comes_is_noticed),
        FOLDER_TEST(training_is_that_of_ranks),      FOLDER_TEST(an_interrupted_rank_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
