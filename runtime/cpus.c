/* SPDX-License-Identifier: MIT
 * CPUs of this process: sched_getaffinity, cgroup v1 and v2 quotas, TCC_NUM_THREADS. */
#include "runtime/cpus.h"
#include "runtime/cgroups.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MASK_BITS = 8192 };

void tcc_cpus_get(tcc_cpus *out) {
    unsigned long mask[MASK_BITS / 8 / sizeof(unsigned long)] = {0}; /* larger than cpu_set_t: big machines exist */
    *out = (tcc_cpus){0};
    if (!sched_getaffinity(0, sizeof mask, (cpu_set_t *)mask))
        for (int cpu = 0; cpu < MASK_BITS && out->count < TCC_MAX_THREADS; cpu++)
            if (CPU_ISSET_S((size_t)cpu, sizeof mask, (cpu_set_t *)mask)) out->list[out->count++] = (short)cpu;
    if (!out->count) *out = (tcc_cpus){.count = 1, .list = {-1}};
}

/* The quota of one group in CPUs, 0 if it has none. */
static int quota_of(const char *folder, bool version2) {
    char path[TCC_CGROUP_PATH + 32];
    double quota = 0, period = 0;
    if (version2) {
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        FILE *f = fopen(path, "re");
        if (!f) return 0;
        if (fscanf(f, "%lf %lf", &quota, &period) != 2) quota = 0; /* "max 100000" */
        fclose(f);
    } else {
        const char *const names[2] = {"cpu.cfs_quota_us", "cpu.cfs_period_us"};
        double *const values[2] = {&quota, &period};
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof path, "%s/%s", folder, names[i]);
            FILE *f = fopen(path, "re");
            if (!f) return 0;
            if (fscanf(f, "%lf", values[i]) != 1) *values[i] = 0;
            fclose(f);
        }
    }
    if (!(quota > 0) || !(period > 0)) return 0;
    double cpus = quota / period;
    if (cpus >= TCC_MAX_THREADS) return TCC_MAX_THREADS;
    int whole = (int)cpus;
    return whole < cpus ? whole + 1 : whole;
}

static void visit_group(void *user, const char *folder, bool version2) {
    int *least = user;
    const int cpus = quota_of(folder, version2);
    if (cpus && (!*least || cpus < *least)) *least = cpus;
}

int tcc_cpus_quota(const char *proc_file, const char *mount) {
    int least = 0;
    tcc_cgroups_visit(proc_file, mount, "cpu", visit_group, &least);
    return least;
}

tcc_status tcc_cpus_threads(tcc_diag *d, const tcc_cpus *cpus, int *threads) {
    const char *text = getenv("TCC_NUM_THREADS");
    if (text && *text) {
        char *end;
        long n = strtol(text, &end, 10);
        if (*end || n < 1 || n > TCC_MAX_THREADS || *text < '0' || *text > '9')
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                             "TCC_NUM_THREADS: expected a whole number from 1 to %d, got '%s'", TCC_MAX_THREADS, text);
        *threads = (int)n;
        return TCC_OK;
    }
    int quota = tcc_cpus_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    *threads = quota && quota < cpus->count ? quota : cpus->count;
    return TCC_OK;
}
