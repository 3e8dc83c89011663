/* SPDX-License-Identifier: MIT
 * A batch norm over ranks, for sync_batch_norm.py: sync-batch-norm RANKS MOMENTUM OFFSET. Trains a few steps of which
 * the last has a smaller batch, and the last rank a smaller part of each, and prints what each rank has: "NAME STEP
 * RANK EXTENTS.. :", and the values. The loss is the sum of y g, so g is the gradient that comes back to y. */
#include "harness/optimizer.h"

#include <traincc/traincc.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 13, CHANNELS = 5, SIDE = 3, STEPS = 4, IMAGE = CHANNELS * SIDE * SIDE, MOST_RANKS = 8 };

static double momentum, offset;
static float x[STEPS][ROWS * IMAGE], g[STEPS][ROWS * IMAGE];

typedef struct rank {
    tcc_context *cx;
    tcc_comm *comm;
    pthread_t thread;
    tcc_status status;
    char text[1024];
} rank;

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor in = tcc_input(t, "x"), y = tcc_batch_norm(in, "norm", .sync = true, .momentum = momentum);
    tcc_tensor loss = tcc_sum(tcc_mul(y, tcc_input(t, "g")), TCC_ALL);
    tcc_output(t, "y", y);
    tcc_output(t, "gx", tcc_gradient(loss, in));
    tcc_loss(t, loss);
}

static void print(const char *name, int step, int rank, const tcc_array *a) {
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    int64_t count = 1;
    pthread_mutex_lock(&one);
    printf("%s %d %d", name, step, rank);
    for (int d = 0; d < a->rank; d++) printf(" %lld", (long long)a->dims[d]), count *= a->dims[d];
    printf(" :");
    for (int64_t i = 0; i < count; i++) printf(" %.9g", (double)((const float *)a->data)[i]);
    putchar('\n');
    pthread_mutex_unlock(&one);
}

static tcc_status print_model(tcc_model *m, int step, int rank) {
    static const char *const outputs[] = {"y", "gx"}, *const gradients[] = {"norm.weight", "norm.bias"};
    tcc_array a;
    for (int i = 0; i < 2; i++) {
        TCC_TRY(tcc_model_output(m, outputs[i], &a));
        print(outputs[i], step, rank, &a);
        char name[32];
        TCC_TRY(tcc_model_gradient(m, gradients[i], &a));
        snprintf(name, sizeof name, "grad.%s", gradients[i]);
        print(name, step, rank, &a);
    }
    for (int i = 0; tcc_model_param(m, i, &a); i++) print(a.name, step, rank, &a);
    return TCC_OK;
}

static tcc_status train(tcc_model *m, int size, int part) {
    for (int step = 0; step < STEPS; step++) {
        const int64_t all = step == STEPS - 1 ? ROWS - 3 : ROWS, each = (all + size - 1) / size, begin = part * each,
                      rows = all - begin < each ? all - begin : each;
        const tcc_array batch[] = {{"x", TCC_F32, 4, {rows, CHANNELS, SIDE, SIDE}, x[step] + begin * IMAGE},
                                   {"g", TCC_F32, 4, {rows, CHANNELS, SIDE, SIDE}, g[step] + begin * IMAGE}};
        print("x", step, part, &batch[0]);
        print("g", step, part, &batch[1]);
        TCC_TRY(tcc_model_train(m, batch, 2));
        TCC_TRY(print_model(m, step, part));
    }
    return TCC_OK;
}

static void *run(void *user) {
    rank *r = user;
    const tcc_optimizer_options optimizer = OPTIMIZER(TCC_SGD, 0.01);
    const tcc_model_options o = {
        .size = sizeof o, .seed = 3, .optimizer = &optimizer, .comm = r->comm, .keep_gradients = true};
    tcc_model *m;
    r->status = tcc_model_create(r->cx, net, NULL, &o, &m);
    if (r->status == TCC_OK) r->status = train(m, tcc_comm_size(r->comm), tcc_comm_rank(r->comm));
    if (r->status != TCC_OK) snprintf(r->text, sizeof r->text, "%s", tcc_context_error(r->cx));
    tcc_model_destroy(m);
    tcc_comm_destroy(r->comm);
    return NULL;
}

/* Channels differ in mean and spread, and samples of one rank from those of another. */
static void make_data(void) {
    unsigned state = 7;
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < ROWS * IMAGE; i++) {
            const int channel = i / (SIDE * SIDE) % CHANNELS, row = i / IMAGE;
            state = state * 1664525 + 1013904223;
            const double u = (double)(state >> 8) / (1 << 24) - 0.5;
            x[step][i] = (float)(offset + channel + 0.1 * row + (1 + channel) * u);
            state = state * 1664525 + 1013904223;
            g[step][i] = (float)((double)(state >> 8) / (1 << 24) - 0.3);
        }
}

int main(int argc, char **argv) {
    static rank ranks[MOST_RANKS];
    tcc_context *contexts[MOST_RANKS];
    tcc_comm *comms[MOST_RANKS];
    const int size = argc > 1 ? atoi(argv[1]) : 2;
    momentum = argc > 2 ? atof(argv[2]) : 0.1;
    offset = argc > 3 ? atof(argv[3]) : 0;
    if (size < 2 || size > MOST_RANKS) return fputs("2 to 8 ranks\n", stderr), 2;
    make_data();
    for (int r = 0; r < size; r++)
        if (tcc_context_create(&contexts[r]) != TCC_OK) return 1;
    if (tcc_comm_create_local(contexts, size, comms) != TCC_OK) return 1;
    for (int r = 0; r < size; r++) {
        ranks[r] = (rank){.cx = contexts[r], .comm = comms[r]};
        if (pthread_create(&ranks[r].thread, NULL, run, &ranks[r])) return 1;
    }
    int failed = 0;
    for (int r = 0; r < size; r++) pthread_join(ranks[r].thread, NULL);
    for (int r = 0; r < size; r++) {
        if (ranks[r].status != TCC_OK) failed = 1, fprintf(stderr, "rank %d: %s\n", r, ranks[r].text);
        tcc_context_destroy(contexts[r]);
    }
    return failed;
}
