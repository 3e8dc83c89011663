/* SPDX-License-Identifier: MIT
 * A classifier in fifty lines: which of two spirals is a point on?  build/bin/example-mlp
 * With the name of a file it writes a plan there, from which example-run_plan trains without a compiler. */
#include "spirals.h"

#include <traincc/traincc.h>

#include <stdio.h>
#include <stdlib.h>

/* The model: two hidden layers. Traced once, compiled, and run for every step. */
static void spirals(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_input(t, "points"); /* [POINTS, 2] */
    h = tcc_tanh(tcc_linear(h, "fc1", 32));
    h = tcc_tanh(tcc_linear(h, "fc2", 32));
    tcc_tensor logits = tcc_linear(h, "fc3", 2), labels = tcc_input(t, "labels");
    tcc_output(t, "correct", tcc_sum(tcc_cast(tcc_eq(tcc_argmax(logits, -1), labels), TCC_F32), TCC_ALL));
    tcc_loss(t, tcc_cross_entropy(logits, labels));
}

int main(int argc, char **argv) {
    static float points[POINTS][2];
    static int32_t labels[POINTS];
    make_points(points, labels);
    const tcc_array batch[] = {{.name = "points", .dtype = TCC_F32, .rank = 2, .dims = {POINTS, 2}, .data = points},
                               {.name = "labels", .dtype = TCC_I32, .rank = 1, .dims = {POINTS}, .data = labels}};

    tcc_context *cx = NULL;
    tcc_model *model = NULL;
    tcc_array correct = {0};
    tcc_optimizer_options adam;
    tcc_optimizer_init(&adam, TCC_ADAM);
    adam.lr = 0.01;
    const tcc_model_options options = {.size = sizeof options, .seed = 1, .optimizer = &adam};
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_model_create(cx, spirals, NULL, &options, &model);
    for (int step = 0; step <= 1000 && status == TCC_OK; step++) {
        status = tcc_model_train(model, batch, 2);
        if (status == TCC_OK && step % 200 == 0) printf("step %4d  loss %.4f\n", step, tcc_model_loss(model));
    }
    if (status == TCC_OK) status = tcc_model_evaluate(model, batch, 2);
    if (status == TCC_OK) status = tcc_model_output(model, "correct", &correct);
    if (status == TCC_OK && argc > 1) status = tcc_model_save_plan(model, "two spirals", argv[1]);
    if (status == TCC_OK) printf("%.0f of %d points right\n", *(float *)correct.data, POINTS);
    else fprintf(stderr, "%s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));

    tcc_model_destroy(model);
    tcc_context_destroy(cx);
    return status == TCC_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
