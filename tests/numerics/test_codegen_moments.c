/* SPDX-License-Identifier: MIT
 * Means and variances, compiled and run on the CPU, against the interpreter. */
#include "harness/moment_cases.h"

int main(void) { return moment_cases_run(check_compiled); }
