/* SPDX-License-Identifier: MIT
 * Where libraries of CUDA's are looked for, and in what order. Any shared library will do to be found: cmocka's, under
 * its own name and under one that nothing else has. */
#include "harness/check.h"
#include "harness/files.h"

#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOWHERE_ELSE "libtcc-probe.so.1"

/* In the order of the search: a setting, the folder that it names, and where below it the library lies. */
static const struct place {
    const char *setting, *folder, *below;
} places[] = {
    {"TCC_CUDA_PATH", "given", ""},
    {"TCC_CUDA_PATH", "given", "/lib64"},
    {"TCC_CUDA_PATH", "given", "/lib"},
    {"VIRTUAL_ENV", "venv", "/lib/python3.11/site-packages/nvidia/cublas/lib"},
    {"CONDA_PREFIX", "conda", "/lib/python3.12/site-packages/nvidia/cudnn/lib"},
    {"PATH", "python/bin", "/../lib/python3.9/site-packages/nvidia/cublas/lib"},
    {"HOME", "home", "/.local/lib/python3.13/site-packages/nvidia/cublas/lib"},
};
enum { PLACES = sizeof places / sizeof *places };

static void make_folders(const char *path) {
    char part[4096];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        mkdir(part, 0777);
    }
}

static const char *file_in(void **state, int place, const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, "%s%s/%s", test_path(state, places[place].folder), places[place].below, name);
    return path;
}

/* A copy of the library in that place. */
static void put(void **state, int place, const char *name) {
    Dl_info cmocka;
    size_t size;
    assert_true(dladdr((void *)(uintptr_t)_cmocka_run_group_tests, &cmocka));
    char *data = test_read(cmocka.dli_fname, &size);
    const char *path = file_in(state, place, name);
    make_folders(path);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    free(data);
}

/* Where it is found: place, or PLACES for elsewhere; -1: nowhere. */
static int find(void **state, const char *name) {
    char found[PATH_MAX], real[2][PATH_MAX];
    void *handle = tcc_cuda_library_open((const char *const[]){"libtcc-none.so.1", name, NULL}, found);
    if (!handle) return -1;
    assert_int_equal(dlclose(handle), 0);
    assert_non_null(realpath(found, real[0]));
    for (int i = 0; i < PLACES; i++)
        if (realpath(file_in(state, i, name), real[1]) && !strcmp(real[0], real[1])) return i;
    return PLACES;
}

static char *kept[PLACES];

static int create(void **state) {
    if (test_folder_create(state)) return -1;
    for (int i = 0; i < PLACES; i++) {
        const char *value = getenv(places[i].setting);
        kept[i] = value ? strdup(value) : NULL;
    }
    for (int i = 0; i < PLACES; i++) setenv(places[i].setting, test_path(state, places[i].folder), 1);
    return 0;
}

static int restore(void **state) {
    for (int i = 0; i < PLACES; i++) {
        if (kept[i]) setenv(places[i].setting, kept[i], 1);
        else unsetenv(places[i].setting);
        free(kept[i]);
    }
    return test_folder_remove(state);
}

static void each_place_in_turn(void **state) {
    assert_int_equal(find(state, NOWHERE_ELSE), -1);
    char python[4096];
    snprintf(python, sizeof python, "%s/python3", test_path(state, "python/bin"));
    make_folders(python);
    FILE *f = fopen(python, "w"); /* python3 itself is not run */
    assert_non_null(f);
    fclose(f);
    assert_int_equal(chmod(python, 0755), 0);
    for (int i = PLACES - 1; i >= 0; i--) {
        put(state, i, NOWHERE_ELSE);
        int at = find(state, NOWHERE_ELSE);
        if (at != i) fail_msg("found in place %d instead of %s%s", at, places[i].setting, places[i].below);
    }
}

/* What the loader finds comes after TCC_CUDA_PATH and before everything else. */
static void the_loaders_path(void **state) {
    put(state, 3, "libcmocka.so.0");
    assert_int_equal(find(state, "libcmocka.so.0"), PLACES);
    put(state, 0, "libcmocka.so.0");
    assert_int_equal(find(state, "libcmocka.so.0"), 0);
}

/* A folder may hold what is no library: the search goes on. */
static void what_does_not_open(void **state) {
    put(state, 3, NOWHERE_ELSE);
    put(state, 0, NOWHERE_ELSE);
    assert_int_equal(truncate(file_in(state, 0, NOWHERE_ELSE), 100), 0);
    assert_int_equal(find(state, NOWHERE_ELSE), 3);
}

static void a_toolkit(void **state) {
    glob_t files;
    if (glob("/usr/local/cuda/lib64/libnvrtc.so.1[0-9]", 0, NULL, &files)) {
        printf("skipped: no toolkit in /usr/local/cuda\n");
        skip();
    }
    const char *name = strrchr(files.gl_pathv[0], '/') + 1;
    char found[PATH_MAX];
    put(state, 3, name);
    void *handle = tcc_cuda_library_open((const char *const[]){name, NULL}, found);
    assert_non_null(handle);
    if (strncmp(found, "/usr/local/cuda", 15)) printf("not in the toolkit, but by the loader: %s\n", found);
    assert_null(strstr(found, "site-packages"));
    dlclose(handle);
    globfree(&files);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, create, restore)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(each_place_in_turn), TEST(the_loaders_path), TEST(what_does_not_open),
                                       TEST(a_toolkit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
