/* SPDX-License-Identifier: MIT
 * Ports for tests that listen. */
#ifndef TCC_TESTS_HARNESS_PORT_H
#define TCC_TESTS_HARNESS_PORT_H

/* A port that nobody listened at just now, below those that the system gives to connections of other tests. */
int test_free_port(void);

#endif
