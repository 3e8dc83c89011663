/* SPDX-License-Identifier: MIT
 * Every op compiled for this machine, against the interpreter. */
#include "harness/check.h"
#include "harness/op_cases.h"

int main(void) { return op_cases_run(check_compiled); }
