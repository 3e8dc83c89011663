/* SPDX-License-Identifier: MIT
 * The same simulation in C: Burgers' equation on a ring of cells, which trains a model of itself as it runs. Started by
 * mpirun, each rank has fields of its own, and all train one model.  mpirun -np 2 build/bin/example-simulation */
#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 64, SAMPLES = 32, STEPS = 300, SMALL_STEPS = 40, WAVES = 3 };

void next_field(tcc_trace *t, void *user); /* net.c */

static float x[SAMPLES][CELLS], y[SAMPLES][CELLS];

static float draw(void) { return (float)rand() / (float)RAND_MAX; }

static void begin(float *u) {
    memset(u, 0, sizeof *u * CELLS);
    for (int k = 1; k <= WAVES; k++) {
        const float height = draw() - 0.5F, phase = draw();
        for (int i = 0; i < CELLS; i++) u[i] += height * sinf(6.2831853F * ((float)(k * i) / CELLS + phase));
    }
}

/* u_t = -(u^2 / 2)_x + viscosity u_xx, by central differences. */
static void advance(float *u) {
    const float dx = 1.0F / CELLS, dt = 2e-3F, viscosity = 2e-3F;
    float next[CELLS];
    for (int step = 0; step < SMALL_STEPS; step++) {
        for (int i = 0; i < CELLS; i++) {
            const float left = u[(i + CELLS - 1) % CELLS], right = u[(i + 1) % CELLS];
            next[i] = u[i] + dt * (-(right * right - left * left) / (4 * dx) +
                                   viscosity * (right - 2 * u[i] + left) / (dx * dx));
        }
        memcpy(u, next, sizeof next);
    }
}

static int train(tcc_context *cx, tcc_model *model, int rank) {
    const tcc_array batch[] = {{.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {SAMPLES, CELLS}, .data = x},
                               {.name = "y", .dtype = TCC_F32, .rank = 2, .dims = {SAMPLES, CELLS}, .data = y}};
    double first = 0, loss = 0;
    for (int i = 0; i < SAMPLES; i++) begin(x[i]);
    for (int step = 1; step <= STEPS; step++) {
        memcpy(y, x, sizeof y);
        for (int i = 0; i < SAMPLES; i++) advance(y[i]);
        if (tcc_model_train(model, batch, 2) != TCC_OK) {
            fprintf(stderr, "rank %d: %s\n", rank, tcc_context_error(cx));
            return 1;
        }
        loss = tcc_model_loss(model);
        if (step == 1) first = loss;
        if (rank == 0 && (step == 1 || step % 50 == 0)) printf("step %3d  loss %.4e\n", step, loss);
        memcpy(x, y, sizeof x);
        for (int i = 0; i < SAMPLES; i++)
            if ((step + i) % 16 == 0) begin(x[i]); /* it has come to rest */
    }
    return loss < first / 3 ? 0 : 1; /* it has learned something */
}

int main(void) {
    tcc_context *cx;
    tcc_comm *comm = NULL;
    tcc_model *model;
    tcc_optimizer_options adam;
    if (tcc_context_create(&cx) != TCC_OK) return 1;
    /* Without mpirun, or without MPI, this process trains alone. */
    const int rank = tcc_comm_create(cx, "mpi", &comm) == TCC_OK ? tcc_comm_rank(comm) : 0;
    srand((unsigned)rank + 1);
    tcc_optimizer_init(&adam, TCC_ADAM);
    adam.lr = 3e-3;
    const tcc_model_options options = {.size = sizeof options, .optimizer = &adam, .comm = comm};
    int failure = tcc_model_create(cx, next_field, NULL, &options, &model) != TCC_OK;
    if (failure) fprintf(stderr, "%s\n", tcc_context_error(cx));
    else failure = train(cx, model, rank);
    if (!failure) tcc_model_destroy(model);
    tcc_comm_destroy(comm);
    tcc_context_destroy(cx);
    return failure;
}
