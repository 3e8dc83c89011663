/* SPDX-License-Identifier: MIT
 * Trains from a plan, with libtraincc_rt alone: no compiler is in this program.
 *     build/bin/example-mlp spirals.plan && build/bin/example-run_plan spirals.plan */
#include "spirals.h"

#include <traincc/plan.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    static float points[POINTS][2];
    static int32_t labels[POINTS];
    const tcc_array batch[] = {{.name = "points", .dtype = TCC_F32, .rank = 2, .dims = {POINTS, 2}, .data = points},
                               {.name = "labels", .dtype = TCC_I32, .rank = 1, .dims = {POINTS}, .data = labels}};
    tcc_context *cx = NULL;
    tcc_model *model = NULL;
    tcc_array correct = {0};
    const double start = now_ms();
    double first = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: %s PLAN   (example-mlp writes one)\n", argv[0]);
        return 2;
    }
    make_points(points, labels);
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_model_load_plan(cx, argv[1], NULL, &model);
    for (int step = 0; step <= 1000 && status == TCC_OK; step++) {
        status = tcc_model_train(model, batch, 2);
        if (status == TCC_OK && step % 200 == 0) printf("step %4d  loss %.4f\n", step, tcc_model_loss(model));
        if (!step) first = now_ms() - start;
    }
    if (status == TCC_OK) status = tcc_model_evaluate(model, batch, 2);
    if (status == TCC_OK) status = tcc_model_output(model, "correct", &correct);
    if (status == TCC_OK) printf("%.0f of %d points right\n", *(float *)correct.data, POINTS);
    else fprintf(stderr, "%s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    fprintf(stderr, "the first step was done %.1f ms after the start\n", first);

    tcc_model_destroy(model);
    tcc_context_destroy(cx);
    return status == TCC_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
