/* SPDX-License-Identifier: MIT
 * Whether this is a build with AddressSanitizer, in which freed memory stays a process's own for a while. */
#ifndef TCC_TESTS_HARNESS_SANITIZER_H
#define TCC_TESTS_HARNESS_SANITIZER_H

#include <stdbool.h>

#ifdef __SANITIZE_ADDRESS__ /* gcc's */
#define TEST_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#define TEST_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#else
#define TEST_ADDRESS_SANITIZER 0
#endif

static const bool address_sanitizer = TEST_ADDRESS_SANITIZER;

#endif
