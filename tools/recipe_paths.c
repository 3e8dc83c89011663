/* SPDX-License-Identifier: MIT */
#include "recipe_paths.h"

#include <glob.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The home folder that "~" or "~name" means, *length bytes of text; NULL: it means none. */
static const char *home_of(const char *text, size_t *length) {
    char name[256];
    *length = strcspn(text, "/");
    snprintf(name, sizeof name, "%.*s", (int)*length, text);
    const char *home = name[1] ? NULL : getenv("HOME");
    const struct passwd *user = home && *home ? NULL : name[1] ? getpwnam(name + 1) : getpwuid(getuid());
    return user ? user->pw_dir : home;
}

/* Prints a path with its variables. False with the name of one that is not set. */
static bool print_expanded(const char *text, FILE *out, char missing[64]) {
    size_t length;
    const char *home = *text == '~' ? home_of(text, &length) : NULL;
    if (home) {
        fputs(home, out);
        text += length;
    }
    while (*text) {
        const char *end = !strncmp(text, "${", 2) ? strchr(text, '}') : NULL;
        if (!end) {
            putc(*text++, out);
            continue;
        }
        snprintf(missing, 64, "%.*s", (int)(end - text - 2), text + 2);
        const char *value = getenv(missing);
        if (!value) return false;
        fputs(value, out);
        text = end + 1;
    }
    return true;
}

static char *expand(const char *text, char problem[RECIPE_PROBLEM_MAX]) {
    char *path = NULL, missing[64];
    size_t length;
    FILE *out = open_memstream(&path, &length);
    const bool ok = out && print_expanded(text, out, missing);
    if (out && !fclose(out) && ok) return path;
    if (out && !ok) snprintf(problem, RECIPE_PROBLEM_MAX, "\"%.100s\": the variable %s is not set", text, missing);
    else snprintf(problem, RECIPE_PROBLEM_MAX, "out of memory");
    free(path);
    return NULL;
}

/* Whether there is such a file, or, by a pattern as "train_*.bin", are such files. */
static bool is_there(const char *path) {
    glob_t found = {0};
    if (!access(path, F_OK)) return true;
    const bool some = strpbrk(path, "*?[") && !glob(path, GLOB_NOSORT, NULL, &found);
    globfree(&found);
    return some;
}

/* Of a relative path that is not there, what is there beside the file; else the path itself. Takes `path`. */
static char *look_beside(char *path, const char *beside) {
    const char *slash = beside ? strrchr(beside, '/') : NULL;
    char *there = NULL;
    if (*path == '/' || !slash || is_there(path)) return path;
    if (asprintf(&there, "%.*s%s", (int)(slash - beside) + 1, beside, path) < 0) return path;
    if (!is_there(there)) {
        free(there);
        return path;
    }
    free(path);
    return there;
}

char *recipe_path_read(const char *text, const char *beside, char problem[RECIPE_PROBLEM_MAX]) {
    char *path = expand(text, problem);
    if (!path) return NULL;
    if (!*path) {
        snprintf(problem, RECIPE_PROBLEM_MAX, "the path is empty; leave out a key that has none");
        free(path);
        return NULL;
    }
    path = look_beside(path, beside);
    char *absolute = recipe_path_absolute(path);
    const bool fits = absolute && yaml_can_hold(absolute);
    free(absolute);
    if (fits) return path;
    snprintf(problem, RECIPE_PROBLEM_MAX,
             yaml_can_hold(path)
                 ? "the path leads through this folder, whose name is not UTF-8, so no recipe can hold it; rename it"
                 : "the path is not UTF-8, so no recipe can hold it; rename it, or make a link");
    free(path);
    return NULL;
}

char *recipe_path_absolute(const char *path) {
    char *absolute = NULL, *here = *path == '/' ? NULL : getcwd(NULL, 0);
    if (!here) return strdup(path);
    if (asprintf(&absolute, "%s/%s", strcmp(here, "/") ? here : "", path) < 0) absolute = NULL;
    free(here);
    return absolute;
}
