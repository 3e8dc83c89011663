/* SPDX-License-Identifier: MIT
 * Random graphs compiled for this machine, against the interpreter. */
#include "harness/check.h"
#include "harness/random_graphs.h"

int main(void) { return random_graphs_run(check_compiled, 0.6); }
