/* SPDX-License-Identifier: MIT
 * Walks the control groups of a process, versions 1 and 2. */
#ifndef TCC_RUNTIME_CGROUPS_H
#define TCC_RUNTIME_CGROUPS_H

#include <stdbool.h>

enum { TCC_CGROUP_PATH = 4096 };

/* Calls `visit` with the folder of each group that the process is in for this controller ("cpu", "memory"), and of all
 * its parents. `proc_file` is the process's table of groups ("/proc/self/cgroup"), `mount` where their files lie
 * ("/sys/fs/cgroup"). */
typedef void tcc_cgroup_visit(void *user, const char *folder, bool version2);
void tcc_cgroups_visit(const char *proc_file, const char *mount, const char *controller, tcc_cgroup_visit *visit,
                       void *user);

#endif
