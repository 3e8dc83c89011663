/* SPDX-License-Identifier: MIT
 * Settings from the environment, the log of reports, and statistics by kernel. */
#include "api.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

sim_settings sim_set = {.driver = 12080};
static struct {
    pthread_mutex_t lock;
    FILE *file; /* NULL: nowhere */
    int count;
    char last[2048];
} reports = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t number_of(const char *name, uint64_t otherwise) {
    const char *s = getenv(name);
    return s && *s ? strtoull(s, NULL, 0) : otherwise;
}

/* "lockstep", or "independent" and perhaps ":seed". */
static void read_schedule(const char *s) {
    static const char name[] = "independent";
    sim_set.independent = s && strncmp(s, name, sizeof name - 1) == 0;
    sim_set.seed = sim_set.independent && s[sizeof name - 1] == ':' ? strtoull(s + sizeof name, NULL, 0) : 1;
}

void sim_read_settings(void) {
    static const struct {
        const char *name;
        int flag;
    } names[] = {{"uninit", CHECK_UNINIT},   {"align", CHECK_ALIGN}, {"race", CHECK_RACE},
                 {"barrier", CHECK_BARRIER}, {"leak", CHECK_LEAK},   {"stream", CHECK_STREAM}};
    sim_set.sm = (int)number_of("PTXSIM_SM", 90);
    sim_set.profile = sim_profile_of(sim_set.sm);
    sim_set.sm_count = (int)number_of("PTXSIM_SM_COUNT", (uint64_t)sim_set.profile->sm_count);
    sim_set.shared_kib = (int)number_of("PTXSIM_SHARED_KIB", (uint64_t)sim_set.profile->block_shared_kib);
    sim_set.memory_bytes = number_of("PTXSIM_MEMORY_MIB", 4096) << 20;
    sim_set.devices = (int)number_of("PTXSIM_DEVICES", 1);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    sim_set.threads = (int)number_of("PTXSIM_THREADS", online > 0 ? (uint64_t)online : 1);
    sim_set.limit = number_of("PTXSIM_LIMIT", UINT64_C(1) << 36);
    sim_set.driver = (int)number_of("PTXSIM_DRIVER", 12080);
    sim_set.graph_us = (int)number_of("PTXSIM_GRAPH_US", 0);
    read_schedule(getenv("PTXSIM_SCHEDULE"));
    const char *sums = getenv("PTXSIM_MMA");
    sim_set.truncates = sums && strcmp(sums, "truncate") == 0;
    sim_set.checks = CHECK_UNINIT | CHECK_ALIGN | CHECK_RACE | CHECK_BARRIER | CHECK_LEAK | CHECK_STREAM;
    const char *s = getenv("PTXSIM_CHECKS");
    if (s && strstr(s, "warn")) sim_set.checks |= CHECK_WARN;
    for (size_t k = 0; s && k < sizeof names / sizeof *names; k++) {
        char minus[16];
        snprintf(minus, sizeof minus, "-%s", names[k].name);
        if (strstr(s, minus)) sim_set.checks &= ~names[k].flag;
    }
    s = getenv("PTXSIM_LOG");
    pthread_mutex_lock(&reports.lock);
    if (reports.file && reports.file != stderr) fclose(reports.file);
    reports.file = !s || strcmp(s, "stderr") == 0 ? stderr : strcmp(s, "none") == 0 ? NULL : fopen(s, "a");
    reports.count = 0, reports.last[0] = 0;
    pthread_mutex_unlock(&reports.lock);
}

void sim_report(const char *format, ...) {
    va_list args;
    pthread_mutex_lock(&reports.lock);
    va_start(args, format);
    vsnprintf(reports.last, sizeof reports.last, format, args);
    va_end(args);
    reports.count++;
    if (reports.file) {
        fprintf(reports.file, "ptxsim: %s\n", reports.last);
        fflush(reports.file);
    }
    pthread_mutex_unlock(&reports.lock);
}

EXPORT int ptxsim_report_count(void) { return reports.count; }
EXPORT const char *ptxsim_last_report(void) { return reports.last; }

double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* --- statistics */

typedef struct named {
    char *name;
    ptxsim_stats stats;
    struct named *next;
} named;
static named *kernels;

ptxsim_stats *sim_stats_of(const char *kernel) {
    for (named *n = kernels; n; n = n->next)
        if (strcmp(n->name, kernel) == 0) return &n->stats;
    named *n = calloc(1, sizeof *n);
    if (n && !(n->name = strdup(kernel))) free(n), n = NULL;
    if (!n) return NULL;
    n->next = kernels, kernels = n;
    return &n->stats;
}

/* All counters add up; the three sizes at the end are the last launch's. */
void sim_stats_add(ptxsim_stats *to, const ptxsim_stats *from) {
    uint64_t *a = (uint64_t *)to;
    const uint64_t *b = (const uint64_t *)from;
    size_t sums = offsetof(ptxsim_stats, registers) / sizeof *a;
    for (size_t k = 0; k < sums; k++) a[k] += b[k];
    if (from->launches)
        to->registers = from->registers, to->local_bytes = from->local_bytes, to->shared_bytes = from->shared_bytes;
}

void stats_reset(void) {
    while (kernels) {
        named *n = kernels;
        kernels = n->next;
        free(n->name), free(n);
    }
}

EXPORT int ptxsim_get_stats(const char *kernel, ptxsim_stats *stats) {
    int found = -1;
    memset(stats, 0, sizeof *stats);
    pthread_mutex_lock(&sim.lock);
    for (named *n = kernels; n; n = n->next)
        if ((!kernel || strcmp(n->name, kernel) == 0) && n->stats.launches) sim_stats_add(stats, &n->stats), found = 0;
    pthread_mutex_unlock(&sim.lock);
    return found;
}

EXPORT void ptxsim_reset_stats(void) {
    pthread_mutex_lock(&sim.lock);
    stats_reset();
    pthread_mutex_unlock(&sim.lock);
}
