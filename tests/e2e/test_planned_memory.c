/* SPDX-License-Identifier: MIT
 * What tcc_model_plan says is what compiling takes, to the byte, whatever the options: micro-batches with and without a
 * rest, precision, budgets, averages, kept gradients, anomalies, statistics, clipping. Each pair of values occurs. */
#include "harness/check.h"
#include "harness/optimizer.h"

#include <traincc/traincc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 5, HIDDEN = 16, CLASSES = 3, MOST_ROWS = 13 };

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

static float x[MOST_ROWS * FEATURES];
static int32_t y[MOST_ROWS];

/* Buffers, a divisor that the batch alone knows, and draws. */
static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_relu(tcc_batch_norm(tcc_linear(tcc_input(t, "x"), "in", HIDDEN), "norm"));
    h = tcc_gelu(tcc_linear(tcc_dropout(h, 0.1), "hidden", HIDDEN));
    tcc_loss(t, tcc_cross_entropy(tcc_linear(h, "out", CLASSES), tcc_input(t, "y")));
}

enum { PARTS, ROWS, PRECISION, BUDGET, AVERAGES, GRADIENTS, ANOMALY, STATISTICS, CLIPPING, OPTIMIZER, OPTIONS };
static const int values[OPTIONS] = {3, 2, 3, 3, 2, 2, 2, 2, 2, 2};
static const int parts[] = {0, 2, 3}, rows[] = {12, 13};
static const tcc_mixed_precision precisions[] = {TCC_MIXED_NONE, TCC_MIXED_BF16, TCC_MIXED_FP16};

typedef struct memory {
    tcc_status status;
    int64_t planned, peak;
} memory;

static void take(const int *row, const char *budget, bool compiles, memory *out) {
    const int n = rows[row[ROWS]];
    const tcc_array batch[] = {{"x", TCC_F32, 2, {n, FEATURES}, x}, {"y", TCC_I32, 1, {n}, y}};
    tcc_optimizer_options optimizer;
    tcc_context *cx;
    tcc_model *m;
    tcc_memory_plan plan;
    tcc_program_info info;
    tcc_optimizer_init(&optimizer, row[OPTIMIZER] ? TCC_ADAMW : TCC_SGD);
    optimizer.ema_decay = row[AVERAGES] ? 0.9 : 0;
    optimizer.clip_grad_norm = row[CLIPPING] ? 1 : 0;
    const tcc_model_options o = {.size = sizeof o,
                                 .optimizer = &optimizer,
                                 .batch_accumulate = parts[row[PARTS]],
                                 .mixed_precision = precisions[row[PRECISION]],
                                 .keep_gradients = row[GRADIENTS],
                                 .detect_anomaly = row[ANOMALY],
                                 .statistics = row[STATISTICS],
                                 .memory_budget = budget};
    OK(NULL, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, net, NULL, &o, &m));
    out->status = tcc_model_plan(m, true, batch, 2, &plan);
    if (out->status != TCC_OK && out->status != TCC_ENOMEM) fail_msg("%s", tcc_context_error(cx));
    out->planned = plan.arena_bytes + plan.state_bytes + plan.batch_bytes;
    if (compiles && out->status == TCC_OK) {
        OK(cx, tcc_model_compile(m, true, batch, 2));
        OK(cx, tcc_model_info(m, &info));
        out->peak = info.peak_bytes;
    }
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void expect_equal(const memory *got, const int *row, const char *budget) {
    char text[128] = "";
    for (int i = 0, n = 0; i < OPTIONS; i++) n += snprintf(text + n, sizeof text - (size_t)n, " %d", row[i]);
    if (got->status != TCC_OK) fail_msg("options%s, budget %s: %s", text, budget, tcc_status_name(got->status));
    if (got->planned != got->peak)
        fail_msg("options%s, budget %s: planned %lld bytes, taken %lld", text, budget, (long long)got->planned,
                 (long long)got->peak);
}

/* Planned is taken; what was planned is a budget that can be met; and half of it is met, or is an error. */
static void check_row(const int *row) {
    char budget[32];
    memory free, tight = {0}, least;
    if (row[BUDGET] < 2) {
        const char *const words[] = {"none", "min"};
        take(row, words[row[BUDGET]], true, &free);
        expect_equal(&free, row, words[row[BUDGET]]);
        return;
    }
    take(row, "none", false, &free);
    snprintf(budget, sizeof budget, "%lld", (long long)free.planned);
    take(row, budget, true, &tight);
    expect_equal(&tight, row, budget);
    assert_true(tight.peak <= free.planned);
    snprintf(budget, sizeof budget, "%lld", (long long)free.planned / 2);
    take(row, budget, true, &least);
    if (least.status == TCC_OK) assert_true(least.peak <= free.planned / 2);
    else assert_int_equal(least.status, TCC_ENOMEM);
}

/* -- Rows -- */

static bool seen[OPTIONS][3][OPTIONS][3];

static int new_pairs(const int *row, bool marks) {
    int count = 0;
    for (int a = 0; a < OPTIONS; a++)
        for (int b = a + 1; b < OPTIONS; b++) {
            count += !seen[a][row[a]][b][row[b]];
            if (marks) seen[a][row[a]][b][row[b]] = true;
        }
    return count;
}

/* The best of some drawn rows, until each pair of values has occurred. */
static bool next_row(int *best) {
    static unsigned state = 12345;
    int most = 0;
    for (int tried = 0; tried < 400; tried++) {
        int row[OPTIONS];
        for (int i = 0; i < OPTIONS; i++) {
            state = state * 1664525 + 1013904223;
            row[i] = (int)(state >> 16) % values[i];
        }
        const int count = new_pairs(row, false);
        if (count <= most) continue;
        most = count;
        memcpy(best, row, sizeof row);
    }
    new_pairs(best, most > 0);
    return most > 0;
}

static void planned_is_taken(void **state) {
    (void)state;
    int row[OPTIONS], count = 0;
    for (int i = 0; i < MOST_ROWS * FEATURES; i++) x[i] = (float)(i % 7) - 3;
    for (int i = 0; i < MOST_ROWS; i++) y[i] = i % CLASSES;
    while (next_row(row)) {
        check_row(row);
        count++;
    }
    assert_true(count >= 9);
    for (int a = 0; a < OPTIONS; a++)
        for (int b = a + 1; b < OPTIONS; b++)
            for (int i = 0; i < values[a]; i++)
                for (int k = 0; k < values[b]; k++) assert_true(seen[a][i][b][k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(planned_is_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
