/* SPDX-License-Identifier: MIT
 * What tests of the CUDA device share: the stand-in driver's own functions, a fresh driver for each test and nothing
 * alive after it, and a device with a program that is ready to run. */
#ifndef TCC_TESTS_HARNESS_CUDA_DEVICE_H
#define TCC_TESTS_HARNESS_CUDA_DEVICE_H

#include "ptxsim/ptxsim.h"

#include "ir/support/diag.h"
#include "runtime/cuda/device.h"
#include "runtime/exec.h"

/* The functions of tests/ptxsim/ptxsim.h; all NULL on a machine's own driver, or where there is none. get_stats is NULL
 * too where the stand-in does not run warps in lockstep: what it counts there says nothing of a kernel. */
typedef struct stand_in {
    void (*inject)(ptxsim_fault fault, int nth);
    void (*lose_by)(int result);
    void (*spill)(int nth, int bytes);
    void (*get_live)(ptxsim_live *live);
    void (*restart)(void);
    int (*get_stats)(const char *kernel, ptxsim_stats *stats);
    void (*reset_stats)(void);
    int (*report_count)(void);
    const char *(*last_report)(void);
} stand_in;
extern stand_in sim;

/* Why a test is skipped on a machine's own driver and libraries. */
#define STAND_IN_COUNTS "it counts what only the stand-in driver counts"
#define STAND_IN_FAILS "it has calls fail as only a stand-in lets them"
#define STAND_IN_REFUSES "it has a library refuse or err as only its stand-in does"
#define STAND_IN_IS "it wants other devices or drivers, which only the stand-in becomes"

void stand_in_find(void);
/* The address of `name` in a library from dlopen(), stored where `function` points; NULL without the library or the
 * name. */
void find_function(void *library, const char *name, void *function);

/* Of a group of tests, and around each of its tests. */
int cuda_set_up(void **state);
int cuda_fresh(void **state);
int cuda_finish(void **state);
#define CUDA_TEST(name) cmocka_unit_test_setup_teardown(name, cuda_fresh, cuda_finish)

void check_nothing_alive(void);

/* A device with a program and memory for its bindings. */
enum { RIG_BINDINGS = 16 };
typedef struct rig {
    tcc_context cx;
    tcc_device *device;
    tcc_program *program; /* owned */
    tcc_exec *exec;
    void *memory[RIG_BINDINGS];
} rig;

/* Device -1 runs `owned`. rig_stop() follows in any case. */
tcc_status rig_start(rig *r, tcc_program *owned);
/* The program, which the test has changed, made ready once more. */
void rig_reload(rig *r);
void rig_stop(rig *r);

#endif
