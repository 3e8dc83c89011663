/* SPDX-License-Identifier: MIT
 * Random graphs on a GPU, against the interpreter. */
#include "harness/check.h"
#include "harness/gpu_program.h"
#include "harness/random_graphs.h"

int main(void) {
    if (!gpu_available()) return 77;
    return random_graphs_run(check_gpu, 0.25);
}
