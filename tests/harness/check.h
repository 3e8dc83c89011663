/* SPDX-License-Identifier: MIT
 * cmocka with what it needs included, and a check that shows a diagnostic's text when a call fails. */
#ifndef TCC_TESTS_HARNESS_CHECK_H
#define TCC_TESTS_HARNESS_CHECK_H

#include "ir/support/diag.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The call returns TCC_OK; else fail with what it left in the tcc_diag. */
#define assert_ok(call, diag)                                                 \
    do {                                                                      \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_diag_text(diag)); \
    } while (0)

/* The call, after the diagnostic was cleared, returns `expected`, and the message it left says `part`. */
#define assert_error(call, expected, diag, part)                                                          \
    do {                                                                                                  \
        tcc_diag_clear(diag);                                                                             \
        tcc_status got_ = (call);                                                                         \
        if (got_ != (expected))                                                                           \
            fail_msg("%s: %s instead of %s: %s", #call, tcc_status_name(got_), tcc_status_name(expected), \
                     tcc_diag_text(diag));                                                                \
        if (!strstr(tcc_diag_text(diag), part))                                                           \
            fail_msg("%s: '%s' does not say '%s'", #call, tcc_diag_text(diag), part);                     \
    } while (0)

/* Whether this machine has instructions of x86-64, for tests that look at those. */
#if defined __x86_64__
#define ON_X86_64 1
#else
#define ON_X86_64 0
#endif

/* Skips the test without what it needs, and says why: check.py has the reasons in its table. */
#define skip_without(what, why)                  \
    do {                                         \
        if (!(what)) {                           \
            print_message("skipped: %s\n", why); \
            skip();                              \
        }                                        \
    } while (0)

#endif
