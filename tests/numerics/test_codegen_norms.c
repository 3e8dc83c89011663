/* SPDX-License-Identifier: MIT
 * Gradients of norms and biases, compiled and run on the CPU, against the interpreter. */
#include "harness/norm_cases.h"

int main(void) { return norm_cases_run(check_compiled); }
