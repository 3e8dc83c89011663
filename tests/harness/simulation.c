/* SPDX-License-Identifier: MIT
 * A program that computes on the model's GPU. */
#include "harness/simulation.h"
#include "harness/check.h"
#include "harness/optimizer.h"

#include <traincc/traincc.h>

#include <dlfcn.h>
#include <stdlib.h>

simulation_driver cu;
float xs[ROWS * WIDTH];
int32_t ys[ROWS];

int simulation_set_up(void **state) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
#define X(name, parameters) find_function(driver, #name, &cu.name);
    SIMULATION_CALLS(X)
#undef X
    find_function(driver, "ptxsim_get_calls", &cu.get_calls);
    find_function(driver, "ptxsim_get_copied", &cu.get_copied);
    unsetenv("TCC_POISON"); /* which writes outputs before each run, by copies */
    return cuda_set_up(state);
}

static CUcontext context;

int simulation_begin(void **state) {
    const int status = cuda_fresh(state);
    DRIVER(cuInit, 0);
    DRIVER(cuDevicePrimaryCtxRetain, &context, 0);
    DRIVER(cuCtxPushCurrent_v2, context);
    return status;
}

int simulation_end(void **state) {
    CUcontext own;
    cu.cuCtxPopCurrent_v2(&own);
    cu.cuDevicePrimaryCtxRelease_v2(0);
    return cuda_finish(state);
}

void *device_memory(size_t bytes) {
    CUdeviceptr address = 0;
    DRIVER(cuMemAlloc_v2, &address, bytes);
    return (void *)(uintptr_t)address;
}

/* -- The model -- */

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_dropout(tcc_tanh(tcc_linear(tcc_input(t, "x"), "in", HIDDEN)), 0.1);
    tcc_tensor logits = tcc_linear(h, "out", CLASSES);
    tcc_output(t, "logits", logits);
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y")));
}

void compute(int step) {
    for (int i = 0; i < ROWS * WIDTH; i++) xs[i] = (float)((i * 37 + step * 11) % 101) / 101 - 0.5f;
    for (int i = 0; i < ROWS; i++) ys[i] = (step + 3 * i) % CLASSES;
}

tcc_status simulation_model(tcc_context *cx, const char *device, const way *w, tcc_model **out) {
    const tcc_model_options o = {.size = sizeof o,
                                 .device = device,
                                 .mode = w->mode,
                                 .seed = 5,
                                 .mixed_precision = w->mixed,
                                 .batch_accumulate = w->accumulate,
                                 .optimizer = OPTIMIZER_OF(TCC_ADAMW, 1e-2),
                                 .autotune_budget_s = 0.01,
                                 .require_graphs = w->mode == TCC_MODE_REDUCE_OVERHEAD && strcmp(device, "cpu"),
                                 .keep_gradients = true};
    return tcc_model_create(cx, net, NULL, &o, out);
}

tcc_array x_array(void *data) {
    return (tcc_array){.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {ROWS, WIDTH}, .data = data};
}
tcc_array y_array(void *data) {
    return (tcc_array){.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {ROWS}, .data = data};
}
tcc_array on_device(tcc_array a, CUstream stream) {
    a.memory = TCC_MEMORY_DEVICE;
    a.stream = stream;
    return a;
}
tcc_array logits_array(const way *w, void *data) {
    const int64_t rows = w->accumulate > 1 ? ROWS / w->accumulate : ROWS;
    return (tcc_array){.name = "logits", .dtype = TCC_F32, .rank = 2, .dims = {rows, CLASSES}, .data = data};
}
size_t logits_bytes(const way *w) { return sizeof(float) * CLASSES * ROWS / (w->accumulate > 1 ? w->accumulate : 1); }

/* -- The program -- */

void simulation_start(simulation *s, int rings) {
    *s = (simulation){.rings = rings};
    DRIVER(cuStreamCreate, &s->stream, CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < rings; i++) s->x[i] = device_memory(X_BYTES), s->y[i] = device_memory(Y_BYTES);
    s->logits = device_memory(sizeof(float) * ROWS * CLASSES);
}

void simulation_stop(simulation *s) {
    for (int i = 0; i < s->rings; i++) cu.cuMemFree_v2(address_of(s->x[i])), cu.cuMemFree_v2(address_of(s->y[i]));
    cu.cuMemFree_v2(address_of(s->logits));
    cu.cuStreamDestroy_v2(s->stream);
}

void simulate(const simulation *s, int step, tcc_array batch[2]) {
    void *x = s->x[step % s->rings], *y = s->y[step % s->rings];
    compute(step);
    DRIVER(cuMemcpyHtoDAsync_v2, address_of(x), xs, X_BYTES, s->stream);
    DRIVER(cuMemcpyHtoDAsync_v2, address_of(y), ys, Y_BYTES, s->stream);
    batch[0] = on_device(x_array(x), s->stream);
    batch[1] = on_device(y_array(y), s->stream);
}
