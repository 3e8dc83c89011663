/* SPDX-License-Identifier: MIT
 * Growing text. */
#include "harness/check.h"
#include "harness/files.h"
#include "ir/support/strbuf.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A locale with a decimal comma, made from the system's description of it. */
static bool use_comma(void **state) {
    char command[4200];
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >'%s/said' 2>&1", (char *)*state,
             (char *)*state);
    if (system(command)) return false;
    setenv("LOCPATH", *state, 1);
    return setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
}

/* What the library writes is read by programs. The program's locale stays as it is. */
static void numbers_have_a_point(void **state) {
    char own[16];
    tcc_strbuf b = {0};
    if (!use_comma(state)) skip();
    tcc_strbuf_printf(&b, "x=\"%.2f\" %g %d", 0.25, 1e-3, 12345);
    snprintf(own, sizeof own, "%.2f", 0.25);
    setlocale(LC_ALL, "C");
    assert_string_equal(b.text, "x=\"0.25\" 0.001 12345");
    assert_string_equal(own, "0,25");
    tcc_strbuf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {FOLDER_TEST(numbers_have_a_point)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
