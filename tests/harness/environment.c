/* SPDX-License-Identifier: MIT
 * See the header. */
#include "harness/environment.h"
#include "harness/check.h"

#include <stdlib.h>

static const char *changed; /* NULL: nothing is */
static char *before;        /* NULL: it was not there */

static void put(const char *name, const char *value) {
    assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

void test_environment_set(const char *name, const char *value) {
    if (!changed) {
        const char *now = getenv(name);
        changed = name;
        before = now ? strdup(now) : NULL;
    }
    assert_string_equal(changed, name);
    put(name, value);
}

void test_environment_restore(void) {
    put(changed, before);
    free(before);
    changed = before = NULL;
}
