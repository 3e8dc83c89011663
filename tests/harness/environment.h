/* SPDX-License-Identifier: MIT
 * A variable of the environment that a test changes, and that the suite may have set (TCC_CPU). */
#ifndef TCC_TESTS_HARNESS_ENVIRONMENT_H
#define TCC_TESTS_HARNESS_ENVIRONMENT_H

/* One variable at a time: set to `value`, NULL to none, as often as wanted, until it is put back as it was. */
void test_environment_set(const char *name, const char *value);
void test_environment_restore(void);

#endif
