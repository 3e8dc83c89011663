/* SPDX-License-Identifier: MIT
 * The manual pages name every option that --help names, and every key of a recipe. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "recipe_rules.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* A manual page without the backslashes before its dashes. From malloc. */
static char *read_page(const char *program) {
    char path[4200];
    snprintf(path, sizeof path, "%s/tools/man/%s.1", TCC_SOURCE_DIR, program);
    char *text = test_read(path, NULL), *to = text;
    for (const char *from = text; *from; from++)
        if (*from != '\\' || from[1] != '-') *to++ = *from;
    *to = '\0';
    return text;
}

static bool has_word(const char *text, const char *word, size_t length) {
    for (const char *at = text; (at = memmem(at, strlen(at), word, length)); at += length)
        if (!isalnum((unsigned char)at[length]) && at[length] != '-' && at[length] != '_') return true;
    return false;
}

static void check_options(const char *program) {
    program_result r = program_run(NULL, program, (const char *const[]){"--help", NULL});
    char *page = read_page(program);
    int found = 0;
    assert_int_equal(r.status, 0);
    for (const char *at = r.out; (at = strstr(at, "--")); at++) {
        const size_t length = 2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");
        if (!islower((unsigned char)at[2]) || (at > r.out && at[-1] == '-')) continue;
        if (!has_word(page, at, length)) fail_msg("%s(1) does not name %.*s", program, (int)length, at);
        found++;
    }
    assert_true(found > 15);
    free(page);
    program_free(&r);
}

static void options(void **state) {
    (void)state;
    check_options("tcc-train");
    check_options("tcc-opt");
}

static void keys(void **state) {
    (void)state;
    char *page = read_page("tcc-train");
    for (int i = 0; recipe_key(i); i++) {
        if (!has_word(page, recipe_key(i), strlen(recipe_key(i))))
            fail_msg("tcc-train(1) does not name the key %s", recipe_key(i));
    }
    free(page);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(options), cmocka_unit_test(keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
