/* SPDX-License-Identifier: MIT
 * Distillation (Hinton et al. 2015): a small network learns from a larger one which of two spirals a point is on, and
 * never sees a label. The student's function computes the teacher, too, and shares its parameters, frozen.
 * build/bin/example-distill        In PyTorch it is 39 lines. */
#include "spirals.h"

#include <traincc/traincc.h>

#include <stdio.h>
#include <stdlib.h>

static tcc_tensor network(tcc_trace *t, const char *name, int64_t hidden) {
    tcc_scope(t, "%s", name);
    tcc_tensor h = tcc_tanh(tcc_linear(tcc_input(t, "points"), "fc1", hidden));
    h = tcc_linear(tcc_tanh(tcc_linear(h, "fc2", hidden)), "fc3", 2);
    tcc_scope_end(t);
    return h;
}

static tcc_tensor teacher_logits(tcc_trace *t) { return network(t, "teacher", 32); }

static void teacher(tcc_trace *t, void *user) {
    (void)user;
    tcc_loss(t, tcc_cross_entropy(teacher_logits(t), tcc_input(t, "labels")));
}

static void student(tcc_trace *t, void *user) {
    (void)user;
    const double temperature = 2;
    const tcc_tensor logits = network(t, "student", 12), wanted = teacher_logits(t);
    const tcc_tensor soft = tcc_softmax(tcc_scale(wanted, 1 / temperature), -1);
    const tcc_tensor same = tcc_eq(tcc_argmax(logits, -1), tcc_argmax(wanted, -1));
    tcc_output(t, "same", tcc_sum(tcc_cast(same, TCC_F32), TCC_ALL));
    tcc_loss(t, tcc_scale(tcc_cross_entropy(tcc_scale(logits, 1 / temperature), soft), temperature * temperature));
}

int main(void) {
    static float points[POINTS][2];
    static int32_t labels[POINTS];
    make_points(points, labels);
    const tcc_array batch[] = {{.name = "points", .dtype = TCC_F32, .rank = 2, .dims = {POINTS, 2}, .data = points},
                               {.name = "labels", .dtype = TCC_I32, .rank = 1, .dims = {POINTS}, .data = labels}};
    tcc_context *cx = NULL;
    tcc_model *models[2] = {NULL, NULL}; /* the teacher, the student */
    tcc_array same = {0};
    tcc_param_group frozen;
    tcc_param_group_init(&frozen, "teacher.*");
    frozen.frozen = true;
    tcc_optimizer_options adam;
    tcc_optimizer_init(&adam, TCC_ADAM);
    adam.lr = 0.01;
    tcc_status status = tcc_context_create(&cx);
    for (int k = 0; k < 2 && status == TCC_OK; k++) {
        const tcc_model_options options = {
            .size = sizeof options, .optimizer = &adam, .share = models[0], .name = k ? "student" : "teacher"};
        adam.groups = k ? &frozen : NULL;
        adam.n_groups = k;
        status = tcc_model_create(cx, k ? student : teacher, NULL, &options, &models[k]);
    }
    for (int k = 0; k < 2; k++)
        for (int step = 1; step <= 1500 && status == TCC_OK; step++) {
            status = tcc_model_train(models[k], batch, k ? 1 : 2);
            if (status == TCC_OK && step % 500 == 0)
                printf("%s: step %4d  loss %.4f\n", k ? "student" : "teacher", step, tcc_model_loss(models[k]));
        }
    if (status == TCC_OK) status = tcc_model_evaluate(models[1], batch, 1);
    if (status == TCC_OK) status = tcc_model_output(models[1], "same", &same);
    if (status == TCC_OK)
        printf("the student answers as the teacher for %.0f of %d points\n", *(float *)same.data, POINTS);
    else fprintf(stderr, "%s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    const bool learned = status == TCC_OK && *(float *)same.data >= 0.97F * POINTS;
    for (int k = 0; k < 2; k++) tcc_model_destroy(models[k]);
    tcc_context_destroy(cx);
    return learned ? EXIT_SUCCESS : EXIT_FAILURE;
}
