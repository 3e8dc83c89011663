/* SPDX-License-Identifier: MIT
 * What fusing makes of random programs with unrolled loops (harness/loop_programs.h): loop-programs FIRST COUNT
 * [TURNS [plan]] compiles each in eager and in the default mode, or plans it, and prints what breaks the promise, and
 * what compiling takes a node. */
#include "harness/loop_programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0,
                   count = argc > 2 ? strtoull(argv[2], NULL, 10) : 500;
    const int turns = argc > 3 ? atoi(argv[3]) : 1000;
    const bool kernels = argc <= 4 || strcmp(argv[4], "plan");
    const double most_ms_a_node = 0.3, start_ms = 100;
    int wrong = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        const char *name = "";
        loop_work eager, fused;
        tcc_context *cx = NULL;
        if (tcc_context_create(&cx) != TCC_OK ||
            loop_program_make(cx, seed, turns, TCC_MODE_EAGER, kernels, &name, &eager) != TCC_OK ||
            loop_program_make(cx, seed, turns, TCC_MODE_DEFAULT, kernels, &name, &fused) != TCC_OK) {
            fprintf(stderr, "%s %llu: %s\n", name, (unsigned long long)seed, cx ? tcc_context_error(cx) : "no memory");
            return EXIT_FAILURE;
        }
        tcc_context_destroy(cx);
        const char *why = loop_work_judge(&eager, &fused);
        const double ms = 1e3 * fused.cpu_seconds;
        const bool slow = ms > start_ms + most_ms_a_node * eager.nodes;
        printf("%s %llu: %d nodes, flop %.3g of %.3g, bytes %.3g of %.3g, us %.0f of %.0f, compiled in %.0f ms of "
               "%.0f%s%s%s\n",
               name, (unsigned long long)seed, eager.nodes, fused.flop, eager.flop, fused.bytes, eager.bytes,
               fused.ns / 1e3, eager.ns / 1e3, ms, 1e3 * eager.cpu_seconds, why || slow ? "; WRONG: " : "",
               why ? why : "", slow ? " slow to compile" : "");
        fflush(stdout);
        wrong += why || slow;
    }
    printf("%d of %llu are wrong\n", wrong, (unsigned long long)count);
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
