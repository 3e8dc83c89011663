/* SPDX-License-Identifier: MIT
 * How benchmarks on a GPU time a program. What fails ends the benchmark with a message. */
#ifndef TCC_BENCH_GPU_TIMING_H
#define TCC_BENCH_GPU_TIMING_H

#include "codegen/program.h"
#include "ir/support/context.h"
#include "runtime/device.h"

__attribute__((noreturn)) void bench_give_up(const char *what, tcc_diag *d);
/* Median seconds of a run, from the start of its first step to the end of its last on the device's own clock; on random
 * values: floats near 1, integers below 1024. */
double bench_time_program(const tcc_program *p, tcc_context *cx, tcc_device *device);

#endif
