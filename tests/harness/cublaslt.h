/* SPDX-License-Identifier: MIT
 * What tests of cuBLASLt share: the stand-in's own functions, and around each test a fresh library of which nothing
 * stays alive and which was never called wrongly. */
#ifndef TCC_TESTS_HARNESS_CUBLASLT_H
#define TCC_TESTS_HARNESS_CUBLASLT_H

#include "cublasltsim/cublasltsim.h"
#include "harness/cuda_device.h"

/* The functions of tests/cublasltsim/cublasltsim.h; all NULL with the real library, or without any. */
typedef struct cublaslt_stand_in {
    void (*get_counts)(cublasltsim_counts *counts);
    const char *(*last_error)(void);
    void (*inject)(int nth, int status);
    void (*refuse)(unsigned long long most_k);
    void (*refuse_epilogues)(int refuse);
    void (*differ)(int how);
    void (*differ_where)(int type, unsigned long long least_k);
    void (*offer)(int answers);
    void (*spoil)(int wrong, int fails, int gone);
    void (*restart)(void);
} cublaslt_stand_in;
extern cublaslt_stand_in lt;

/* Of a group of tests, and around each of its tests; those of the device are in them. */
int cublaslt_set_up(void **state);
int cublaslt_fresh(void **state);
int cublaslt_finish(void **state);
#define CUBLASLT_TEST(name) cmocka_unit_test_setup_teardown(name, cublaslt_fresh, cublaslt_finish)

#endif
