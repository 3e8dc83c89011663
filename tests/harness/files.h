/* SPDX-License-Identifier: MIT
 * A temporary folder for a test's files. */
#ifndef TCC_TESTS_HARNESS_FILES_H
#define TCC_TESTS_HARNESS_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* A test with a folder: *state is its path, removed with all in it afterwards. */
int test_folder_create(void **state);
int test_folder_remove(void **state);
#define FOLDER_TEST(name) cmocka_unit_test_setup_teardown(name, test_folder_create, test_folder_remove)

/* FOLDER/name; valid until the folder is removed. */
const char *test_path(void **state, const char *name);
/* The folders in which FOLDER/name lies. */
void test_make_folders(void **state, const char *name);
/* Write (replace) FOLDER/name, whose folders are made; the gzip form has the same contents compressed. Return its
 * path. */
const char *test_write(void **state, const char *name, const void *data, size_t size_bytes);
const char *test_write_text(void **state, const char *name, const char *text);
const char *test_write_gzip(void **state, const char *name, const void *data, size_t size_bytes);
/* The whole file, NUL-terminated, from malloc; the test fails if it cannot be read. */
char *test_read(const char *path, size_t *size_bytes);
bool test_exists(const char *path);

#endif
