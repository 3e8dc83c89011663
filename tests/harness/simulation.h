/* SPDX-License-Identifier: MIT
 * A program that computes on the model's GPU, with a context, a stream and memory of its own, and a small model that it
 * feeds and reads. */
#ifndef TCC_TESTS_HARNESS_SIMULATION_H
#define TCC_TESTS_HARNESS_SIMULATION_H

#include "harness/cuda_device.h"
#include "ptxsim/cuda_api.h"

#include <traincc/model.h>

/* -- The driver, as the program uses it -- */

/* name, parameters */
#define SIMULATION_CALLS(X)                                                \
    X(cuInit, (unsigned))                                                  \
    X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                   \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice))                            \
    X(cuCtxPushCurrent_v2, (CUcontext))                                    \
    X(cuCtxPopCurrent_v2, (CUcontext *))                                   \
    X(cuCtxCreate_v2, (CUcontext *, unsigned, CUdevice))                   \
    X(cuCtxDestroy_v2, (CUcontext))                                        \
    X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                              \
    X(cuMemFree_v2, (CUdeviceptr))                                         \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream)) \
    X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))       \
    X(cuStreamCreate, (CUstream *, unsigned))                              \
    X(cuStreamDestroy_v2, (CUstream))                                      \
    X(cuStreamSynchronize, (CUstream))                                     \
    X(cuStreamBeginCapture_v2, (CUstream, int))                            \
    X(cuStreamEndCapture, (CUstream, CUgraph *))                           \
    X(cuGraphDestroy, (CUgraph))
typedef struct simulation_driver {
#define X(name, parameters) CUresult(*name) parameters;
    SIMULATION_CALLS(X)
#undef X
    /* Of the stand-in; NULL on a machine's own driver. */
    uint64_t (*get_calls)(const char *name);
    uint64_t (*get_copied)(void);
} simulation_driver;
extern simulation_driver cu;

#define DRIVER(name, ...)                                                                     \
    do {                                                                                      \
        const CUresult r_ = cu.name(__VA_ARGS__);                                             \
        if (r_) fail_msg("%s: %d; %s", #name, r_, sim.report_count ? sim.last_report() : ""); \
    } while (0)

/* Of a group of tests, and around each of its tests: the primary context of device 0 is current. */
int simulation_set_up(void **state);
int simulation_begin(void **state);
int simulation_end(void **state);
#define SIMULATION_TEST(name) cmocka_unit_test_setup_teardown(name, simulation_begin, simulation_end)

void *device_memory(size_t bytes);
static inline CUdeviceptr address_of(const void *memory) { return (CUdeviceptr)(uintptr_t)memory; }

/* -- The model: x f32[ROWS, WIDTH], y i32[ROWS], output "logits" -- */

enum { ROWS = 8, WIDTH = 640, HIDDEN = 16, CLASSES = 5, X_BYTES = ROWS * WIDTH * 4, Y_BYTES = ROWS * 4 };

typedef struct way {
    tcc_mode mode;
    tcc_mixed_precision mixed;
    int64_t accumulate;
} way;
tcc_status simulation_model(tcc_context *cx, const char *device, const way *w, tcc_model **out);

/* Arrays on the host, and the same on the device. */
tcc_array x_array(void *data);
tcc_array y_array(void *data);
tcc_array logits_array(const way *w, void *data); /* of a micro-batch, where there are some */
size_t logits_bytes(const way *w);
tcc_array on_device(tcc_array a, CUstream stream);

/* -- The program -- */

/* What a step is given: of the host. */
extern float xs[ROWS * WIDTH];
extern int32_t ys[ROWS];
void compute(int step);

/* It waits for nothing but events. `rings`: it has so many of each array, in turn. */
typedef struct simulation {
    CUstream stream;
    void *x[2], *y[2], *logits;
    int rings;
} simulation;

void simulation_start(simulation *s, int rings);
void simulation_stop(simulation *s);
/* What a step is given, as the stream makes it. */
void simulate(const simulation *s, int step, tcc_array batch[2]);

#endif
