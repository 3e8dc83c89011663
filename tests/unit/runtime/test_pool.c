/* SPDX-License-Identifier: MIT
 * The thread pool: every item runs once whatever the thread count, the grain holds, users on several threads, errors.
 */
#include "harness/check.h"

#include "ir/support/alloc.h"
#include "runtime/cpus.h"
#include "runtime/cpu/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ITEMS = 1000, THREADS = 5 };

typedef struct job {
    atomic_int runs[MAX_ITEMS];
    atomic_int busy[THREADS]; /* tasks at a time on a worker */
    atomic_int calls, faults;
    int64_t items, grain;
} job;

static void count_items(void *user, int worker, int64_t begin, int64_t end) {
    job *j = user;
    if (atomic_fetch_add(&j->busy[worker], 1)) atomic_fetch_add(&j->faults, 1);
    if (begin < 0 || end > j->items || begin >= end) atomic_fetch_add(&j->faults, 1);
    if (end - begin < j->grain && end - begin < j->items) atomic_fetch_add(&j->faults, 1);
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&j->runs[i], 1);
    atomic_fetch_add(&j->calls, 1);
    atomic_fetch_sub(&j->busy[worker], 1);
}

static void test_each_item_runs_once(void **state) {
    (void)state;
    static const int items[] = {0, 1, 2, 3, 7, 64, 100, 999, 1000};
    static const int grains[] = {0, 1, 2, 3, 33, 500, 5000};
    for (int threads = 1; threads <= THREADS; threads++) {
        tcc_diag d = {0};
        tcc_pool *pool;
        assert_ok(tcc_pool_create(&d, threads, &pool), &d);
        assert_int_equal(tcc_pool_threads(pool), threads);
        tcc_pool_lock(pool);
        for (int i = 0; i < (int)(sizeof items / sizeof *items); i++)
            for (int g = 0; g < (int)(sizeof grains / sizeof *grains); g++)
                for (int repeat = 0; repeat < 20; repeat++) {
                    job j = {.items = items[i], .grain = grains[g]};
                    tcc_pool_run(pool, count_items, &j, j.items, j.grain);
                    assert_int_equal(j.faults, 0);
                    for (int k = 0; k < items[i]; k++) assert_int_equal(j.runs[k], 1);
                    for (int k = items[i]; k < MAX_ITEMS; k++) assert_int_equal(j.runs[k], 0);
                }
        tcc_pool_unlock(pool);
        tcc_pool_destroy(pool);
    }
}

/* A step whose data the next step reads: what one job wrote, the next must see, whoever runs it. */
typedef struct chain {
    int64_t from[MAX_ITEMS], to[MAX_ITEMS];
} chain;

static void add_neighbours(void *user, int worker, int64_t begin, int64_t end) {
    (void)worker;
    chain *c = user;
    for (int64_t i = begin; i < end; i++) c->to[i] = c->from[i] + c->from[(i + MAX_ITEMS / 2) % MAX_ITEMS] % 7;
}

static void copy_back(void *user, int worker, int64_t begin, int64_t end) {
    (void)worker;
    chain *c = user;
    for (int64_t i = begin; i < end; i++) c->from[MAX_ITEMS - 1 - i] = c->to[i];
}

static void run_chain(tcc_pool *pool, chain *c) {
    for (int i = 0; i < MAX_ITEMS; i++) c->from[i] = i;
    for (int step = 0; step < 200; step++) {
        tcc_pool_lock(pool);
        tcc_pool_run(pool, add_neighbours, c, MAX_ITEMS, 16);
        tcc_pool_run(pool, copy_back, c, MAX_ITEMS, 16);
        tcc_pool_unlock(pool);
    }
}

static chain expected;

static void *chain_thread(void *arg) {
    chain *c = malloc(sizeof *c);
    if (!c) return (void *)1;
    void *failed = NULL;
    for (int i = 0; i < 3; i++) {
        run_chain(arg, c);
        if (memcmp(c->from, expected.from, sizeof c->from)) failed = (void *)1;
    }
    free(c);
    return failed;
}

static void test_steps_see_earlier_steps(void **state) {
    (void)state;
    tcc_diag d = {0};
    for (int threads = 1; threads <= THREADS; threads++) {
        tcc_pool *pool;
        assert_ok(tcc_pool_create(&d, threads, &pool), &d);
        if (threads == 1) run_chain(pool, &expected);
        assert_null(chain_thread(pool));
        /* Users in several threads take turns. */
        pthread_t users[3];
        for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&users[i], NULL, chain_thread, pool), 0);
        for (int i = 0; i < 3; i++) {
            void *failed;
            pthread_join(users[i], &failed);
            assert_null(failed);
        }
        tcc_pool_destroy(pool);
    }
}

static void test_sleeping_threads_wake(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_pool *pool;
    assert_ok(tcc_pool_create(&d, 2, &pool), &d);
    for (int i = 0; i < 50; i++) {
        usleep(200); /* past the spin between runs */
        job j = {.items = 100, .grain = 1};
        tcc_pool_lock(pool);
        tcc_pool_run(pool, count_items, &j, j.items, j.grain);
        tcc_pool_unlock(pool);
        for (int k = 0; k < 100; k++) assert_int_equal(j.runs[k], 1);
    }
    tcc_pool_destroy(pool);
}

static void test_scratch(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_pool *pool;
    assert_ok(tcc_pool_create(&d, 3, &pool), &d);
    assert_null(tcc_pool_scratch(pool, 0));
    assert_ok(tcc_pool_reserve(pool, &d, 1000), &d);
    for (int w = 0; w < 3; w++) {
        assert_int_equal((uintptr_t)tcc_pool_scratch(pool, w) % 64, 0);
        memset(tcc_pool_scratch(pool, w), w, 1000);
    }
    void *before = tcc_pool_scratch(pool, 1);
    assert_ok(tcc_pool_reserve(pool, &d, 10), &d); /* never shrinks */
    assert_ptr_equal(tcc_pool_scratch(pool, 1), before);
    tcc__alloc_fail_at(1);
    assert_int_equal(tcc_pool_reserve(pool, &d, 100000), TCC_ENOMEM);
    tcc__alloc_fail_at(-1);
    tcc_diag_clear(&d);
    assert_ok(tcc_pool_reserve(pool, &d, 100000), &d);
    memset(tcc_pool_scratch(pool, 2), 1, 100000);
    tcc_pool_destroy(pool);
    tcc__alloc_fail_at(0);
    assert_int_equal(tcc_pool_create(&d, 2, &pool), TCC_ENOMEM);
    tcc__alloc_fail_at(-1);
    assert_null(pool);
    tcc_diag_clear(&d);
    tcc_pool_destroy(NULL);
}

static void test_number_of_threads(void **state) {
    (void)state;
    static const char *const bad[] = {"abc", "0", "-1", "4x", " 4", "+4", "1025", "99999999999999999999"};
    tcc_diag d = {0};
    tcc_pool *pool;
    for (int i = 0; i < (int)(sizeof bad / sizeof *bad); i++) {
        setenv("TCC_NUM_THREADS", bad[i], 1);
        assert_int_equal(tcc_pool_create(&d, 0, &pool), TCC_EINVAL);
        assert_non_null(strstr(tcc_diag_text(&d), "TCC_NUM_THREADS: expected a whole number from 1 to 1024, got '"));
        assert_non_null(strstr(tcc_diag_text(&d), bad[i]));
        tcc_diag_clear(&d);
    }
    setenv("TCC_NUM_THREADS", "3", 1);
    assert_ok(tcc_pool_create(&d, 0, &pool), &d);
    assert_int_equal(tcc_pool_threads(pool), 3);
    tcc_pool_destroy(pool);
    unsetenv("TCC_NUM_THREADS");
    tcc_cpus cpus;
    tcc_cpus_get(&cpus);
    assert_ok(tcc_pool_create(&d, 0, &pool), &d);
    assert_in_range(tcc_pool_threads(pool), 1, cpus.count);
    tcc_pool_destroy(pool);
}

static void put(const char *folder, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int quota_with(const char *folder, const char *groups) {
    char path[256];
    put(folder, "groups", groups);
    snprintf(path, sizeof path, "%s/groups", folder);
    return tcc_cpus_quota(path, folder);
}

static void test_cgroup_quota(void **state) {
    (void)state;
    char folder[] = "/tmp/tcc-test-XXXXXX", command[64];
    assert_non_null(mkdtemp(folder));
    assert_int_equal(quota_with(folder, "0::/a/b\n"), 0); /* no files */
    put(folder, "a/b/cpu.max", "max 100000\n");
    assert_int_equal(quota_with(folder, "0::/a/b\n"), 0);
    put(folder, "a/cpu.max", "250000 100000\n"); /* the parent's limit, 2.5 CPUs */
    assert_int_equal(quota_with(folder, "0::/a/b\n"), 3);
    put(folder, "a/b/cpu.max", "100000 100000\n");
    assert_int_equal(quota_with(folder, "0::/a/b\n"), 1);
    assert_int_equal(quota_with(folder, "0::/elsewhere\n"), 0);
    put(folder, "cpu/g/cpu.cfs_quota_us", "400000\n"); /* version 1 */
    put(folder, "cpu/g/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota_with(folder, "4:cpu,cpuacct:/g\n3:memory:/x\n"), 4);
    assert_int_equal(quota_with(folder, "4:cpuset:/g\n"), 0);
    put(folder, "cpu/g/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(quota_with(folder, "4:cpuacct,cpu:/g\n"), 0);
    assert_int_equal(quota_with(folder, "nonsense\n:\n::\n0:"), 0);
    assert_int_equal(tcc_cpus_quota("/nonexistent/file", folder), 0);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_item_runs_once),   cmocka_unit_test(test_steps_see_earlier_steps),
        cmocka_unit_test(test_sleeping_threads_wake), cmocka_unit_test(test_scratch),
        cmocka_unit_test(test_number_of_threads),     cmocka_unit_test(test_cgroup_quota),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
