/* SPDX-License-Identifier: MIT
 * Limits of memory. */
#include "runtime/memory_limits.h"
#include "runtime/cgroups.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Unknown amounts are negative. */
enum { UNKNOWN = -1 };

static int64_t smaller(int64_t a, int64_t b) {
    if (a < 0) return b;
    return b < 0 || a < b ? a : b;
}

/* The number in FOLDER/NAME; UNKNOWN if there is none ("max"). */
static int64_t read_number(const char *folder, const char *name) {
    char path[TCC_CGROUP_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    long long value;
    const bool found = f && fscanf(f, "%lld", &value) == 1;
    if (f) fclose(f);
    return found ? value : UNKNOWN;
}

/* The number behind `key` in FOLDER/NAME, a line each. */
static int64_t read_key(const char *folder, const char *name, const char *key) {
    char path[TCC_CGROUP_PATH + 64], line[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    long long value = UNKNOWN;
    const size_t length = strlen(key);
    while (f && value < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, key, length) || sscanf(line + length, " %lld", &value) != 1) value = UNKNOWN;
    if (f) fclose(f);
    return value;
}

static void visit_group(void *user, const char *folder, bool version2) {
    int64_t *left = user;
    const int64_t limit = read_number(folder, version2 ? "memory.max" : "memory.limit_in_bytes"),
                  used = read_number(folder, version2 ? "memory.current" : "memory.usage_in_bytes"),
                  cached = read_key(folder, "memory.stat", version2 ? "inactive_file " : "total_inactive_file ");
    if (limit < 0 || used < 0) return;
    const int64_t kept = used - (cached > 0 ? cached : 0);
    *left = smaller(*left, limit > kept ? limit - kept : 0);
}

/* What a limit of the process leaves; field `field` of statm is what counts for it, in pages. */
static int64_t rlimit_left(const char *proc, int resource, int field) {
    struct rlimit limit;
    char path[256];
    long long pages[6] = {0};
    if (getrlimit((__rlimit_resource_t)resource, &limit) || limit.rlim_cur == RLIM_INFINITY) return UNKNOWN;
    snprintf(path, sizeof path, "%s/self/statm", proc);
    FILE *f = fopen(path, "re");
    for (int i = 0; f && i < 6; i++)
        if (fscanf(f, "%lld", &pages[i]) != 1) pages[i] = 0;
    if (f) fclose(f);
    const int64_t used = pages[field] * sysconf(_SC_PAGESIZE), most = (int64_t)limit.rlim_cur;
    return most > used ? most - used : 0;
}

int64_t tcc_memory_left(const char *proc, const char *mount) {
    char path[256];
    int64_t left = read_key(proc, "meminfo", "MemAvailable:");
    if (left > 0) left *= 1024;
    snprintf(path, sizeof path, "%s/self/cgroup", proc);
    tcc_cgroups_visit(path, mount, "memory", visit_group, &left);
    left = smaller(left, rlimit_left(proc, RLIMIT_AS, 0));
    left = smaller(left, rlimit_left(proc, RLIMIT_DATA, 5));
    if (left < 0) return 0;
    return left ? left : 1; /* 0 means unknown */
}
