/* SPDX-License-Identifier: MIT
 * How the time of compiling grows with the graph: scale SHAPE N [DOUBLINGS] compiles the training step of a graph of
 * SHAPE with N parts, then of 2 N, 4 N, ... and prints the seconds of each pass, so that one that is not linear stands
 * out. Shapes: harness/scale_shapes.h. */
#include "harness/scale_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int run(const scale_shape *shape, int64_t parts) {
    tcc_context *cx;
    tcc_model *m = NULL;
    char *passes = NULL;
    tcc_program_info info = {0};
    const double start = now();
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = scale_compile(cx, shape, parts, &m);
    const double end = now();
    if (status == TCC_OK) status = tcc_model_report(m, "passes", &passes);
    if (status == TCC_OK) status = tcc_model_info(m, &info);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (status == TCC_OK)
        printf("%s %lld: %.2f s, at most %ld MiB; %d kernels, %d steps\n%s\n", shape->name, (long long)parts,
               end - start, usage.ru_maxrss >> 10, info.kernels, info.steps, passes);
    else fprintf(stderr, "scale: %s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    fflush(stdout);
    tcc_string_free(passes);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return status == TCC_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    const scale_shape *shape = argc > 2 ? scale_shape_find(argv[1]) : NULL;
    if (!shape) {
        fputs("usage: scale chain|residual|gpt|fan|rnn|ctc N [DOUBLINGS]\n", stderr);
        return 2;
    }
    int64_t parts = atoll(argv[2]);
    for (int i = argc > 3 ? atoi(argv[3]) : 0; i >= 0; i--, parts *= 2)
        if (run(shape, parts) != EXIT_SUCCESS) return EXIT_FAILURE;
    return EXIT_SUCCESS;
}
