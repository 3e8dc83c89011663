/* SPDX-License-Identifier: MIT
 * Collectives that a model's function calls: several ranks train as one rank does that has the whole batch, but for
 * rounding; and all alike, whatever the budget. */
#include "harness/check.h"
#include "harness/optimizer.h"
#include "harness/rank_threads.h"

#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 12, WIDTH = 6, STEPS = 3, MOST_RANKS = 3, MOST_VALUES = 512 };

typedef struct test_case {
    const char *name;
    tcc_model_fn net;
    int64_t rows;
    int inputs; /* x, y */
} test_case;

typedef struct rank {
    const test_case *c;
    tcc_context *cx;
    tcc_comm *comm; /* NULL: it has the whole batch */
    const char *budget;
    int64_t micro_batches;
    tcc_status status;
    char text[1024];
    int count;
    double values[MOST_VALUES]; /* losses, then parameters */
} rank;

static tcc_tensor all_sum(tcc_tensor x) { return tcc_all_reduce(x, TCC_COMM_SUM); }

/* A batch norm over all ranks, by hand. */
static void norm(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_linear(tcc_input(t, "x"), "in", WIDTH), mean = all_sum(tcc_mean(x, TCC_DIMS(0)));
    tcc_tensor d = tcc_sub(x, mean), variance = all_sum(tcc_mean(tcc_mul(d, d), TCC_DIMS(0)));
    x = tcc_tanh(tcc_mul(d, tcc_rsqrt(tcc_add_scalar(variance, 1e-3))));
    x = tcc_linear(x, "out", 2);
    tcc_loss(t, tcc_mean(tcc_mul(x, x), TCC_ALL));
}

/* Each sample is to be most like itself among those of all ranks. */
static void contrast(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor z = tcc_tanh(tcc_linear(tcc_input(t, "x"), "in", WIDTH));
    tcc_tensor logits = tcc_matmul(z, tcc_transpose(tcc_all_gather(z), TCC_DIMS(1, 0)));
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y")));
}

/* A loss that is not linear in sums over the batch, the gradient of one, and an extremum of the batch. */
static void sums(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_input(t, "x"), z = tcc_tanh(tcc_linear(x, "in", WIDTH));
    tcc_tensor most = tcc_all_reduce(tcc_reduce_max(x, TCC_ALL), TCC_COMM_MAX);
    tcc_tensor energy = tcc_sum(tcc_sqrt(tcc_add_scalar(all_sum(tcc_sum(tcc_mul(z, z), TCC_DIMS(0))), 1)), TCC_ALL);
    tcc_tensor slope = tcc_gradient(energy, z), off = tcc_sub(tcc_linear(slope, "out", 2), most);
    tcc_loss(t, tcc_add(tcc_mean(tcc_mul(off, off), TCC_ALL), energy));
}

static const test_case cases[] = {
    {"norm", norm, ROWS + 1, 1}, {"contrast", contrast, ROWS, 2}, {"sums", sums, ROWS, 1}};

static float x[STEPS][(ROWS + 1) * WIDTH];
static int32_t y[ROWS + 1];

static void make_data(void) {
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < (ROWS + 1) * WIDTH; i++) x[step][i] = (float)((i * 37 + step * 11) % 101) / 40 - 1;
    for (int i = 0; i <= ROWS; i++) y[i] = i;
}

static tcc_status train(rank *r, tcc_model *m) {
    const int size = r->comm ? tcc_comm_size(r->comm) : 1, part = r->comm ? tcc_comm_rank(r->comm) : 0;
    const int64_t all = r->c->rows, each = (all + size - 1) / size, begin = part * each,
                  rows = all - begin < each ? all - begin : each;
    for (int step = 0; step < STEPS; step++) {
        const tcc_array batch[] = {{"x", TCC_F32, 2, {rows, WIDTH}, x[step] + begin * WIDTH},
                                   {"y", TCC_I32, 1, {rows}, y + begin}};
        TCC_TRY(tcc_model_train(m, batch, r->c->inputs));
        TCC_TRY(tcc_model_step_loss(m, step, &r->values[r->count++]));
    }
    tcc_array a;
    for (int i = 0; tcc_model_param(m, i, &a); i++) {
        int64_t count = 1;
        for (int d = 0; d < a.rank; d++) count *= a.dims[d];
        assert_true(r->count + count <= MOST_VALUES);
        for (int64_t k = 0; k < count; k++) r->values[r->count++] = ((const float *)a.data)[k];
    }
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
                                 .batch_accumulate = r->micro_batches,
                                 .memory_budget = r->budget};
    tcc_model *m;
    r->status = tcc_model_create(r->cx, r->c->net, NULL, &o, &m);
    if (r->status == TCC_OK) r->status = train(r, m);
    if (r->status != TCC_OK) snprintf(r->text, sizeof r->text, "%s", tcc_context_error(r->cx));
    tcc_model_destroy(m);
}

static void run_ranks(rank *ranks, int size, const rank *like) {
    for (int r = 0; r < size; r++) ranks[r] = *like;
    assert_true(run_rank_threads(size, run, ranks));
}

static void check_same(const rank *a, const rank *b) {
    if (a->status != TCC_OK) fail_msg("%s: %s", a->c->name, a->text);
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->values, b->values, sizeof(double) * (size_t)b->count);
}

static void ranks_train_as_one(void **state) {
    (void)state;
    static rank one, ranks[MOST_RANKS], small[MOST_RANKS];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int size = 2; size <= MOST_RANKS; size++) {
            const test_case *c = &cases[i];
            run_ranks(&one, 1, &(rank){.c = c});
            if (one.status != TCC_OK) fail_msg("%s alone: %s", c->name, one.text);
            run_ranks(ranks, size, &(rank){.c = c});
            run_ranks(small, size, &(rank){.c = c, .budget = "min"});
            for (int r = 0; r < size; r++) {
                check_same(&ranks[r], &ranks[0]);
                check_same(&small[r], &ranks[0]);
            }
            assert_int_equal(ranks[0].count, one.count);
            for (int k = 0; k < one.count; k++)
                if (!(fabs(ranks[0].values[k] - one.values[k]) <= 1e-5 * (1 + fabs(one.values[k]))))
                    fail_msg("%s on %d ranks: value %d of %d is %.9g, not %.9g", c->name, size, k, one.count,
                             ranks[0].values[k], one.values[k]);
            assert_true(one.values[0] != one.values[1]);
        }
}

/* What each rank would have of its own, a maximum that depends on parameters, and rows that are added up. */
static void strange(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor z = tcc_linear(tcc_input(t, "x"), "in", WIDTH);
    tcc_loss(t, tcc_mean(tcc_all_reduce(z, TCC_COMM_MAX), TCC_ALL));
}

static void what_has_no_meaning_is_refused(void **state) {
    (void)state;
    static const test_case bad = {"strange", strange, ROWS, 1}, uneven = {"uneven", contrast, ROWS + 1, 2};
    static const struct {
        const test_case *c;
        int size;
        int64_t micro_batches;
        const char *text;
    } refused[] = {{&bad, 2, 0, "this all_reduce, f32[12,6], reads across the samples of the batch"},
                   {&uneven, 2, 0, "gathers samples of ranks that do not have as many each"},
                   {&cases[1], 2, 2, "gathers the samples of all micro-batches"},
                   {&cases[0], 2, 2, "is not linear in a sum over the batch that depends on parameters"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        static rank ranks[MOST_RANKS];
        run_ranks(ranks, refused[i].size, &(rank){.c = refused[i].c, .micro_batches = refused[i].micro_batches});
        if (ranks[0].status == TCC_OK || !strstr(ranks[0].text, refused[i].text))
            fail_msg("%s: not \"%s\": %s", refused[i].c->name, refused[i].text, ranks[0].text);
        assert_non_null(strstr(ranks[0].text, "test_collectives.c:"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_train_as_one),
                                       cmocka_unit_test(what_has_no_meaning_is_refused)};
    make_data();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
