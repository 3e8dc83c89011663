/* SPDX-License-Identifier: MIT
 * Runs a row's kernel of gpu_plain.cu on the stand-in driver. */
#ifndef TCC_BENCH_GPU_PLAIN_H
#define TCC_BENCH_GPU_PLAIN_H

#include "op_rows.h"

/* The kernel of this row in the PTX of a file, on the row's operands, whose result `y` has. Its error in `*furthest`:
 * that of the result, relative to 1 and to what is larger. 1: it ran; 0: the file has none; -1: it failed, and stderr
 * has why. */
int gpu_plain_run(const char *path, const op_bench *b, const tcc_array *y, double *furthest);

#endif
