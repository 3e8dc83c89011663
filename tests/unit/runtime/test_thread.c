/* SPDX-License-Identifier: MIT
 * Threads of the library block all signals, so that the program's own threads get them: of the pool, of collectives,
 * and what gives signs of life. */
#include "harness/check.h"
#include "ir/support/thread.h"
#include "runtime/comm/queue.h"
#include "runtime/comm/work.h"
#include "runtime/cpu/pool.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 3 };

/* Bits of signals that a task of this process blocks; bit 0 is signal 1. */
static uint64_t blocked_by(const char *task) {
    char path[64], line[256];
    unsigned long long blocked = 0;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", task);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) sscanf(line, "SigBlk: %llx", &blocked);
    fclose(f);
    return blocked;
}

#ifdef TCC_TEST_EMULATED
#define EMULATED 1
#else
#define EMULATED 0
#endif

/* How many threads there are beside this one; each blocks what a thread can block. */
static int check_others(void) {
    sigset_t all;
    int count = 0;
    sigfillset(&all);
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *task; (task = readdir(tasks));) {
        if (task->d_name[0] == '.' || atoi(task->d_name) == gettid()) continue;
        const uint64_t blocked = blocked_by(task->d_name);
        for (int s = 1; s <= 64; s++)
            if (sigismember(&all, s) == 1 && s != SIGKILL && s != SIGSTOP && !(blocked >> (s - 1) & 1))
                fail_msg("thread %s does not block signal %d", task->d_name, s);
        count++;
    }
    closedir(tasks);
    return count;
}

static tcc_status nothing(void *user, const tcc_comm_job *job) {
    (void)user, (void)job;
    return TCC_OK;
}

static tcc_status no_beat(void *user) {
    (void)user;
    return TCC_OK;
}

static void threads_block_signals(void **state) {
    (void)state;
    skip_without(!EMULATED, "an emulator takes signals of its own");
    tcc_diag d = {0};
    tcc_pool *pool;
    tcc_comm_queue *queue;
    tcc_comm_work *work;
    const int before = check_others();
    assert_ok(tcc_pool_create(&d, THREADS, &pool), &d);
    assert_ok(tcc_comm_queue_create(&d, nothing, NULL, &queue), &d);
    assert_ok(tcc_comm_work_begin(&d, 1, no_beat, NULL, &work), &d);
    assert_true(check_others() >= before + 3); /* the caller is one of the pool */
    tcc_comm_work_end(work);
    tcc_comm_queue_destroy(queue);
    tcc_pool_destroy(pool);
}

static void *get_mask(void *user) {
    pthread_sigmask(SIG_SETMASK, NULL, user);
    return NULL;
}

static void the_caller_keeps_its_mask(void **state) {
    (void)state;
    sigset_t some, seen;
    pthread_t thread;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &some, NULL);
    assert_int_equal(tcc__thread_create(&thread, get_mask, &seen), 0);
    pthread_join(thread, NULL);
    assert_true(sigismember(&seen, SIGINT) && sigismember(&seen, SIGTERM) && sigismember(&seen, SIGUSR1));
    get_mask(&seen);
    assert_true(sigismember(&seen, SIGUSR1) && !sigismember(&seen, SIGINT));
    sigemptyset(&some);
    pthread_sigmask(SIG_SETMASK, &some, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_block_signals),
                                       cmocka_unit_test(the_caller_keeps_its_mask)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
