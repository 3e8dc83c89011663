/* SPDX-License-Identifier: MIT
 * A temporary folder for a test's files. */
#include "files.h"
#include "check.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static char *paths[256]; /* handed out by test_path, until the folder is removed */
static int n_paths;

int test_folder_create(void **state) {
    const char *parent = getenv("TMPDIR");
    char *path = malloc(4096);
    if (!path) return -1;
    snprintf(path, 4096, "%s/traincc-test-XXXXXX", parent && *parent ? parent : "/tmp");
    *state = mkdtemp(path);
    return *state ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

int test_folder_remove(void **state) {
    int failed = nftw(*state, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    while (n_paths) free(paths[--n_paths]);
    free(*state);
    return failed;
}

const char *test_path(void **state, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", (const char *)*state, name);
    for (int i = 0; i < n_paths; i++)
        if (!strcmp(paths[i], path)) return paths[i];
    if (n_paths == sizeof paths / sizeof *paths) fail_msg("too many files in one test");
    return paths[n_paths++] = strdup(path);
}

void test_make_folders(void **state, const char *name) {
    char part[256];
    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - name), name);
        mkdir(test_path(state, part), 0777);
    }
}

const char *test_write(void **state, const char *name, const void *data, size_t size_bytes) {
    const char *path = test_path(state, name);
    test_make_folders(state, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size_bytes, file) != size_bytes || fclose(file)) fail_msg("cannot write %s", path);
    return path;
}

const char *test_write_text(void **state, const char *name, const char *text) {
    return test_write(state, name, text, strlen(text));
}

const char *test_write_gzip(void **state, const char *name, const void *data, size_t size_bytes) {
    const char *path = test_path(state, name);
    test_make_folders(state, name);
    gzFile file = gzopen(path, "wb1");
    if (!file || gzwrite(file, data, (unsigned)size_bytes) != (int)size_bytes || gzclose(file))
        fail_msg("cannot write %s", path);
    return path;
}

char *test_read(const char *path, size_t *size_bytes) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot open %s", path);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    if (!text || fread(text, 1, (size_t)size, file) != (size_t)size) fail_msg("cannot read %s", path);
    text[size] = '\0';
    fclose(file);
    if (size_bytes) *size_bytes = (size_t)size;
    return text;
}

bool test_exists(const char *path) { return access(path, F_OK) == 0; }
