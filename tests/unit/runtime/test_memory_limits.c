/* SPDX-License-Identifier: MIT
 * What is left of memory: of the system, of control groups, and of the process's own limits. */
#include "harness/check.h"
#include "harness/files.h"
#include "runtime/memory_limits.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const int64_t MiB = 1 << 20;

static void put(void **state, const char *name, const char *text) { test_write_text(state, name, text); }

static int64_t left(void **state) {
    char proc[4200];
    snprintf(proc, sizeof proc, "%s", test_path(state, "proc"));
    return tcc_memory_left(proc, test_path(state, "cgroup"));
}

static void make_folders(void **state) {
    static const char *const folders[] = {"proc",       "proc/self",     "cgroup",         "cgroup/a",
                                          "cgroup/a/b", "cgroup/memory", "cgroup/memory/g"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) mkdir(test_path(state, folders[i]), 0777);
    put(state, "proc/meminfo", "MemTotal: 4096 kB\nMemFree: 1 kB\nMemAvailable:    1048576 kB\n");
    put(state, "proc/self/cgroup", "0::/a/b\n");
    put(state, "proc/self/statm", "25600 10 10 1 0 12800 0\n");
}

static void groups(void **state) {
    assert_int_equal(left(state), 0); /* nothing says anything */
    make_folders(state);
    assert_int_equal(left(state), 1024 * MiB);
    put(state, "cgroup/a/b/memory.max", "max\n");
    put(state, "cgroup/a/b/memory.current", "1048576\n");
    assert_int_equal(left(state), 1024 * MiB);
    put(state, "cgroup/a/memory.max", "536870912\n"); /* of a parent */
    put(state, "cgroup/a/memory.current", "104857600\n");
    assert_int_equal(left(state), 412 * MiB);
    put(state, "cgroup/a/memory.stat", "anon 5\ninactive_file 52428800\nactive_file 1\n");
    assert_int_equal(left(state), 462 * MiB);
    put(state, "cgroup/a/memory.current", "1048576000\n");
    assert_int_equal(left(state), 1);                    /* none: 0 would mean unknown */
    put(state, "proc/self/cgroup", "4:cpu,memory:/g\n"); /* version 1 */
    put(state, "cgroup/memory/g/memory.limit_in_bytes", "209715200\n");
    put(state, "cgroup/memory/g/memory.usage_in_bytes", "104857600\n");
    put(state, "cgroup/memory/g/memory.stat", "total_inactive_file 10485760\n");
    assert_int_equal(left(state), 110 * MiB);
}

static void process_limits(void **state) {
    make_folders(state);
    const int64_t page = sysconf(_SC_PAGESIZE);
    struct rlimit space, data;
    assert_int_equal(getrlimit(RLIMIT_AS, &space) | getrlimit(RLIMIT_DATA, &data), 0);
    const struct rlimit much = {(rlim_t)(25600 * page + 500 * MiB), space.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &much), 0);
    struct rlimit kept;
    assert_int_equal(getrlimit(RLIMIT_AS, &kept), 0);
    skip_without(kept.rlim_cur == much.rlim_cur, "an emulator runs it, which sets no limits of its own");
    assert_int_equal(left(state), 500 * MiB);
    const struct rlimit less = {(rlim_t)(12800 * page + 300 * MiB), data.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_DATA, &less), 0);
    assert_int_equal(left(state), 300 * MiB);
    assert_int_equal(setrlimit(RLIMIT_AS, &space) | setrlimit(RLIMIT_DATA, &data), 0);
    assert_int_equal(left(state), 1024 * MiB);
}

int main(void) {
    const struct CMUnitTest tests[] = {FOLDER_TEST(groups), FOLDER_TEST(process_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
