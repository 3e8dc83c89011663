/* SPDX-License-Identifier: MIT
 * The CUDA device with cuDNN: the stand-in library's own functions, and nothing of it alive after a test. */
#ifndef TCC_TESTS_HARNESS_CUDNN_DEVICE_H
#define TCC_TESTS_HARNESS_CUDNN_DEVICE_H

#include "cudnnsim/cudnnsim.h"
#include "harness/cuda_call.h"

/* The functions of tests/cudnnsim/cudnnsim.h; all NULL where the library is the real one, or missing. */
typedef struct cudnn_stand_in {
    bool found; /* a library, whichever */
    void (*get_counts)(cudnnsim_counts *counts);
    const char *(*last_error)(void);
    void (*inject)(int nth, int status);
    void (*refuse)(unsigned engines);
    void (*relu)(int of_nan);
    void (*relu_of)(unsigned engines);
    void (*restart)(void);
} cudnn_stand_in;
extern cudnn_stand_in dnn;

/* Of a group of tests, and around each of its tests. */
int cudnn_set_up(void **state);
int cudnn_fresh(void **state);
int cudnn_finish(void **state);
#define CUDNN_TEST(name) cmocka_unit_test_setup_teardown(name, cudnn_fresh, cudnn_finish)

/* Fails the test if something of the library lives, or a call of it was wrong. */
void check_no_cudnn_alive(void);

/* Makes and runs the call of zeros once for each call of the library, which then fails with the status of that name:
 * `expected` comes of it, the error says so and where, and nothing stays alive. How often that ended the call, and how
 * often another engine did instead. */
typedef struct cudnn_failures {
    int failed, done;
} cudnn_failures;
cudnn_failures cudnn_fail_each_call(const call_shape *shape, const int64_t *params, int status, const char *name,
                                    tcc_status expected);

#endif
