/* SPDX-License-Identifier: MIT
 * Batch norms over the batches of all ranks: several ranks train as one rank does that has the whole batch, but for
 * rounding; parts of the batch may differ in size. */
#include "harness/check.h"
#include "harness/optimizer.h"
#include "harness/rank_threads.h"

#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 13, WIDTH = 6, PLACES = 3, CLASSES = 4, STEPS = 4, MOST_RANKS = 3, MOST_VALUES = 512 };

typedef struct rank {
    tcc_context *cx;
    tcc_comm *comm; /* NULL: it has the whole batch */
    bool synced, by_layer;
    tcc_mixed_precision precision;
    tcc_status status;
    char text[1024];
    int count;
    double values[MOST_VALUES]; /* losses, then parameters and buffers */
} rank;

/* Two norms, of images and of features, of which the second one's input depends on the first. */
static void net(tcc_trace *t, void *user) {
    const rank *r = user;
    const bool sync = r->by_layer;
    tcc_tensor x = tcc_relu(tcc_batch_norm(tcc_input(t, "x"), "first", .sync = sync));
    x = tcc_linear(tcc_reshape(x, TCC_DIMS(tcc_dim(x, 0), WIDTH * PLACES)), "in", WIDTH);
    x = tcc_tanh(tcc_batch_norm(x, "second", .sync = sync));
    tcc_loss(t, tcc_cross_entropy(tcc_linear(x, "out", CLASSES), tcc_input(t, "y")));
}

static float x[STEPS][ROWS * WIDTH * PLACES];
static int32_t y[STEPS][ROWS];

static void make_data(void) {
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < ROWS * WIDTH * PLACES; i++)
            x[step][i] = (float)((i * 37 + step * 11) % 101) / 20 +
                         (float)(i / (5 * WIDTH * PLACES)); /* of unlike parts */
        for (int i = 0; i < ROWS; i++) y[step][i] = (i * 5 + step) % CLASSES;
    }
}

static void keep(rank *r, const tcc_array *a) {
    int64_t count = 1;
    for (int d = 0; d < a->rank; d++) count *= a->dims[d];
    assert_true(a->dtype == TCC_F32 && r->count + count <= MOST_VALUES);
    for (int64_t i = 0; i < count; i++) r->values[r->count++] = ((const float *)a->data)[i];
}

static tcc_status train(rank *r, tcc_model *m) {
    const int size = r->comm ? tcc_comm_size(r->comm) : 1, part = r->comm ? tcc_comm_rank(r->comm) : 0;
    const int64_t each = (ROWS + size - 1) / size, begin = part * each,
                  rows = ROWS - begin < each ? ROWS - begin : each;
    for (int step = 0; step < STEPS; step++) {
        const tcc_array batch[] = {{"x", TCC_F32, 3, {rows, WIDTH, PLACES}, x[step] + begin * WIDTH * PLACES},
                                   {"y", TCC_I32, 1, {rows}, y[step] + begin}};
        TCC_TRY(tcc_model_train(m, batch, 2));
        TCC_TRY(tcc_model_step_loss(m, step, &r->values[r->count++]));
    }
    tcc_array a;
    for (int i = 0; tcc_model_param(m, i, &a); i++) keep(r, &a);
    return TCC_OK;
}

static void run(void *user, int number, tcc_context *cx, tcc_comm *comm) {
    rank *r = (rank *)user + number;
    r->cx = cx;
    r->comm = comm;
    const tcc_optimizer_options optimizer = OPTIMIZER(TCC_SGD, 0.1, .momentum = 0.9);
    const tcc_model_options o = {.size = sizeof o,
                                 .seed = 3,
                                 .optimizer = &optimizer,
                                 .comm = r->comm,
                                 .mixed_precision = r->precision,
                                 .sync_batch_norm = r->synced && !r->by_layer,
                                 .memory_budget = r->comm ? "min" : NULL};
    tcc_model *m;
    r->status = tcc_model_create(r->cx, net, r, &o, &m);
    if (r->status == TCC_OK) r->status = train(r, m);
    if (r->status != TCC_OK) snprintf(r->text, sizeof r->text, "%s", tcc_context_error(r->cx));
    tcc_model_destroy(m);
}

static void run_ranks(rank *ranks, int size, const rank *like) {
    for (int r = 0; r < size; r++) ranks[r] = *like;
    assert_true(run_rank_threads(size, run, ranks));
    for (int r = 0; r < size; r++)
        if (ranks[r].status != TCC_OK) fail_msg("rank %d of %d: %s", r, size, ranks[r].text);
}

/* The largest difference of the values, which all ranks have alike. */
static double difference(int size, const rank *like) {
    static rank one, ranks[MOST_RANKS];
    double most = 0;
    run_ranks(&one, 1, like);
    run_ranks(ranks, size, like);
    for (int r = 0; r < size; r++) {
        assert_int_equal(ranks[r].count, one.count);
        assert_memory_equal(ranks[r].values, ranks[0].values, sizeof(double) * (size_t)one.count);
    }
    for (int i = 0; i < one.count; i++) most = fmax(most, fabs(ranks[0].values[i] - one.values[i]));
    return most;
}

static void ranks_train_as_one(void **state) {
    (void)state;
    for (int size = 2; size <= MOST_RANKS; size++) {
        const double by_option = difference(size, &(rank){.synced = true}),
                     by_layer = difference(size, &(rank){.synced = true, .by_layer = true});
        if (!(by_option < 1e-5)) fail_msg("%d ranks: values differ by %g", size, by_option);
        assert_true(by_option == by_layer);
        assert_true(difference(size, &(rank){.synced = false}) > 1e-2);
    }
    const double low = difference(2, &(rank){.synced = true, .precision = TCC_MIXED_BF16});
    if (!(low < 0.1)) fail_msg("in bf16: values differ by %g", low);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_train_as_one)};
    make_data();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
