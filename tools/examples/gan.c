/* SPDX-License-Identifier: MIT
 * A GAN with gradient penalty (Gulrajani et al. 2017): it learns to draw points on a ring. The critic's loss contains a
 * gradient, which its training step differentiates once more. Two models train one set of parameters in turn, each its
 * own part.  build/bin/example-gan        In PyTorch it is 45 lines. */
#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 64, SECTORS = 8 };
static const double pi = 3.14159265358979323846;
static float real[POINTS][2], noise[POINTS][2], where[POINTS][1];

static tcc_tensor network(tcc_trace *t, const char *name, tcc_tensor x, int64_t outputs) {
    tcc_scope(t, "%s", name);
    x = tcc_tanh(tcc_linear(tcc_tanh(tcc_linear(x, "fc1", 32)), "fc2", 32));
    x = tcc_linear(x, "fc3", outputs);
    tcc_scope_end(t);
    return x;
}

static tcc_tensor score(tcc_trace *t, tcc_tensor x) { return network(t, "critic", x, 1); }

static void critic(tcc_trace *t, void *user) {
    (void)user;
    const tcc_tensor points = tcc_input(t, "real"), fake = network(t, "generator", tcc_input(t, "noise"), 2);
    const tcc_tensor between = tcc_add(fake, tcc_mul(tcc_input(t, "where"), tcc_sub(points, fake)));
    const tcc_tensor slope = tcc_gradient(tcc_sum(score(t, between), TCC_ALL), between);
    const tcc_tensor excess = tcc_add_scalar(tcc_sqrt(tcc_sum(tcc_mul(slope, slope), TCC_DIMS(1))), -1);
    const tcc_tensor lead = tcc_sub(tcc_mean(score(t, fake), TCC_ALL), tcc_mean(score(t, points), TCC_ALL));
    tcc_loss(t, tcc_add(lead, tcc_scale(tcc_mean(tcc_mul(excess, excess), TCC_ALL), 0.3)));
}

static void generator(tcc_trace *t, void *user) {
    (void)user;
    const tcc_tensor fake = network(t, "generator", tcc_input(t, "noise"), 2);
    tcc_output(t, "fake", fake);
    tcc_loss(t, tcc_neg(tcc_mean(score(t, fake), TCC_ALL)));
}

static double uniform(void) {
    static uint32_t state = 1;
    state = state * 1664525U + 1013904223U;
    return (state >> 8) / 16777216.0;
}

static void draw(void) {
    for (int i = 0; i < POINTS; i++) {
        const double angle = 2 * pi * uniform(), radius = 1 + 0.1 * (uniform() - 0.5);
        real[i][0] = (float)(radius * cos(angle));
        real[i][1] = (float)(radius * sin(angle));
        where[i][0] = (float)uniform();
        for (int k = 0; k < 2; k++) noise[i][k] = (float)(2 * uniform() - 1);
    }
}

int main(void) {
    const tcc_array batch[] = {{.name = "noise", .dtype = TCC_F32, .rank = 2, .dims = {POINTS, 2}, .data = noise},
                               {.name = "real", .dtype = TCC_F32, .rank = 2, .dims = {POINTS, 2}, .data = real},
                               {.name = "where", .dtype = TCC_F32, .rank = 2, .dims = {POINTS, 1}, .data = where}};
    tcc_context *cx = NULL;
    tcc_model *models[2] = {NULL, NULL}; /* the critic, the generator */
    tcc_param_group frozen;
    tcc_optimizer_options adam;
    tcc_optimizer_init(&adam, TCC_ADAM);
    adam.beta1 = 0.5, adam.beta2 = 0.9;
    adam.groups = &frozen, adam.n_groups = 1;
    tcc_status status = tcc_context_create(&cx);
    for (int k = 0; k < 2 && status == TCC_OK; k++) {
        const tcc_model_options options = {
            .size = sizeof options, .optimizer = &adam, .share = models[0], .name = k ? "generator" : "critic"};
        tcc_param_group_init(&frozen, k ? "critic.*" : "generator.*");
        frozen.frozen = true;
        status = tcc_model_create(cx, k ? generator : critic, NULL, &options, &models[k]);
    }
    for (int step = 1; step <= 6000 && status == TCC_OK; step++) {
        draw();
        tcc_model_set_lr(models[step % 4 == 0], 0.005 * (1 - step / 6001.0));
        status = step % 4 ? tcc_model_train(models[0], batch, 3) : tcc_model_train(models[1], batch, 1);
        if (step % 1000 == 0 && status == TCC_OK) printf("step %4d  critic %.4f\n", step, -tcc_model_loss(models[0]));
    }
    tcc_array fake = {0};
    double error = 0;
    int sectors = 0;
    if (status == TCC_OK) status = tcc_model_evaluate(models[1], batch, 1);
    if (status == TCC_OK) status = tcc_model_output(models[1], "fake", &fake);
    for (int i = 0; i < POINTS && fake.data; i++) {
        const float *p = (const float *)fake.data + 2 * (size_t)i;
        error += fabs(hypot(p[0], p[1]) - 1) / POINTS;
        sectors |= 1 << (int)((atan2(p[1], p[0]) / pi + 1) * (SECTORS / 2 - 1e-6));
    }
    if (status == TCC_OK)
        printf("distance of its points from the ring: %.3f; %s\n", error,
               sectors == (1 << SECTORS) - 1 ? "all around" : "not all around");
    else fprintf(stderr, "%s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    for (int k = 0; k < 2; k++) tcc_model_destroy(models[k]);
    tcc_context_destroy(cx);
    return status == TCC_OK && error < 0.06 && sectors == (1 << SECTORS) - 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
