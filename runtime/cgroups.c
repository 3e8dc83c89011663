/* SPDX-License-Identifier: MIT
 * Control groups. */
#include "runtime/cgroups.h"

#include <stdio.h>
#include <string.h>

static bool has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *p = list; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ','))
        if (strcspn(p, ",") == length && !memcmp(p, word, length)) return true;
    return false;
}

void tcc_cgroups_visit(const char *proc_file, const char *mount, const char *controller, tcc_cgroup_visit *visit,
                       void *user) {
    FILE *f = fopen(proc_file, "re");
    char line[TCC_CGROUP_PATH];
    while (f && fgets(line, sizeof line, f)) { /* "4:cpu,cpuacct:/group" or "0::/group" */
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *controllers++ = 0;
        *group++ = 0;
        bool version2 = !*controllers;
        if (!version2 && !has_word(controllers, controller)) continue;
        /* In a container the group's path may name a place outside of what is mounted; the walk to the root still finds
         * the container's own limit. */
        char folder[TCC_CGROUP_PATH];
        size_t root = (size_t)snprintf(folder, sizeof folder, "%s%s%s", mount, version2 ? "" : "/",
                                       version2 ? "" : controller);
        if (root + strlen(group) >= sizeof folder) continue;
        strcpy(folder + root, group);
        for (;;) {
            visit(user, folder, version2);
            char *slash = strrchr(folder + root, '/');
            if (!slash) break;
            *slash = 0;
        }
    }
    if (f) fclose(f);
}
