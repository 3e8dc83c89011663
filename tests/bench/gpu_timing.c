/* SPDX-License-Identifier: MIT
 * How benchmarks on a GPU time a program. */
#include "gpu_timing.h"

#include "runtime/exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CLASSES = 1024, MOST_RUNS = 21, LEAST_RUNS = 3, WARM_UP = 3 };
static const double LONG_SECONDS = 0.25;

void bench_give_up(const char *what, tcc_diag *d) {
    fprintf(stderr, "%s: %s\n", what, tcc_diag_text(d));
    exit(EXIT_FAILURE);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The median of MOST_RUNS runs; of fewer where they take long, as on a stand-in. */
static double time_of(tcc_exec *exec, tcc_diag *d) {
    const tcc_program *p = tcc_exec_get_program(exec);
    const double begin = now();
    double times[MOST_RUNS];
    int warm = 0, n = 0;
    if (tcc_exec_set_profiling(exec, d, true) != TCC_OK) bench_give_up("profiling", d);
    while (n < MOST_RUNS && (n < LEAST_RUNS || now() - begin < LONG_SECONDS)) {
        if (tcc_exec_run(exec, d) != TCC_OK) bench_give_up("run", d);
        const tcc_step_profile *steps = tcc_exec_get_profile(exec);
        if (warm < WARM_UP && (warm == 0 || now() - begin < LONG_SECONDS)) warm++;
        else times[n++] = 1e-9 * (double)(steps[p->n_steps - 1].last.end_ns - steps[0].last.begin_ns);
    }
    qsort(times, (size_t)n, sizeof *times, ascending);
    return times[n / 2];
}

static void fill(const tcc_type *type, void *values, uint32_t state) {
    const int64_t count = tcc_type_numel(type);
    for (int64_t k = 0; k < count; k++) {
        state = state * 1664525u + 1013904223u;
        const float x = (float)(state >> 8) * 0x1p-24f + 0.5f;
        switch (type->dtype) {
        case TCC_F32: ((float *)values)[k] = x; break;
        case TCC_F16: ((uint16_t *)values)[k] = tcc_f32_to_f16(x); break;
        case TCC_BF16: ((uint16_t *)values)[k] = tcc_f32_to_bf16(x); break;
        default: ((uint32_t *)values)[k] = (state >> 8) % CLASSES;
        }
    }
}

static void bind_all(tcc_exec *exec, tcc_device *device, tcc_diag *d, void **memory) {
    const tcc_program *p = tcc_exec_get_program(exec);
    for (int i = 0; i < p->n_bindings; i++) {
        const tcc_type *type = &p->bindings[i].type;
        int64_t bytes = tcc_type_bytes(type);
        if (device->ops->alloc(device, d, bytes, &memory[i]) != TCC_OK) bench_give_up("memory", d);
        if (p->bindings[i].role != TCC_ROLE_OUTPUT) {
            void *values = malloc((size_t)bytes + 4);
            if (values) fill(type, values, (uint32_t)i * 2654435761u + 1);
            if (!values || device->ops->upload(device, d, memory[i], values, bytes) != TCC_OK)
                bench_give_up("upload", d);
            free(values);
        }
        if (tcc_exec_bind(exec, d, i, memory[i], bytes) != TCC_OK) bench_give_up("bind", d);
    }
}

double bench_time_program(const tcc_program *p, tcc_context *cx, tcc_device *device) {
    tcc_exec *exec = NULL;
    void **memory = calloc((size_t)p->n_bindings + 1, sizeof *memory);
    if (!memory || tcc_exec_create(cx, device, p, &exec) != TCC_OK) bench_give_up(p->name, &cx->diag);
    bind_all(exec, device, &cx->diag, memory);
    double seconds = time_of(exec, &cx->diag);
    tcc_exec_destroy(exec);
    for (int i = 0; i < p->n_bindings; i++) device->ops->free(device, memory[i], tcc_type_bytes(&p->bindings[i].type));
    free(memory);
    return seconds;
}
