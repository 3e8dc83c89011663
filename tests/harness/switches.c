/* SPDX-License-Identifier: MIT */
#include "harness/switches.h"
#include "harness/check.h"
#include "harness/optimizer.h"

#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 12, CONTEXT = 4, VOCAB = 11, WIDTH = 8, STEPS = 4 };

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

/* -- The model: a block of a transformer, and targets of which some do not count -- */

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_embedding(tcc_input(t, "x"), "embed", VOCAB, WIDTH);
    tcc_checkpoint_segment(t);
    tcc_tensor h = tcc_gelu(tcc_linear(tcc_layer_norm(x, "norm1"), "up", 3 * WIDTH));
    x = tcc_add(x, tcc_linear(h, "down", WIDTH));
    tcc_checkpoint_segment_end(t);
    tcc_tensor logits = tcc_linear(tcc_layer_norm(x, "norm2"), "head", VOCAB);
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y")));
}

static int32_t tokens[ROWS * CONTEXT], targets[ROWS * CONTEXT];
static const tcc_array batch[2] = {{"x", TCC_I32, 2, {ROWS, CONTEXT}, tokens},
                                   {"y", TCC_I32, 2, {ROWS, CONTEXT}, targets}};

static void make_batch(int step) {
    for (int i = 0; i < ROWS * CONTEXT; i++) {
        tokens[i] = (i * 7 + step * 3) % VOCAB;
        targets[i] = (i + step) % 5 ? (tokens[i] * 2 + 1) % VOCAB : -100;
    }
}

typedef struct outcome {
    double losses[STEPS], evaluation, averaged;
} outcome;

static void train(const tcc_model_options *o, outcome *out) {
    tcc_context *cx;
    tcc_model *m;
    OK(NULL, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, net, NULL, o, &m));
    for (int step = 0; step < STEPS; step++) {
        make_batch(step);
        OK(cx, tcc_model_train(m, batch, 2));
        out->losses[step] = tcc_model_loss(m);
    }
    OK(cx, tcc_model_evaluate(m, batch, 2));
    out->evaluation = tcc_model_loss(m);
    if (o->optimizer->ema_decay > 0) {
        OK(cx, tcc_model_use_ema(m, true));
        OK(cx, tcc_model_evaluate(m, batch, 2));
        out->averaged = tcc_model_loss(m);
    }
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* -- The table -- */

enum {
    PARTS,
    AVERAGES,
    PRECISION,
    AGAIN,
    MODE,
    OPTIMIZER_KIND,
    CLIPPING,
    STATISTICS,
    DEVICE,
    SWITCHES,
    MOST_VALUES = 5
};

typedef struct table {
    int values[SWITCHES]; /* how many a switch has */
    bool met[SWITCHES][MOST_VALUES][SWITCHES][MOST_VALUES];
} table;

static int count_new(const table *t, const int *row) {
    int count = 0;
    for (int a = 0; a < SWITCHES; a++)
        for (int b = 0; b < a; b++) count += !t->met[a][row[a]][b][row[b]];
    return count;
}

/* Of a few hundred rows that a generator draws, one in which most values meet that have not met yet; 0: all have. */
static int next_row(table *t, uint64_t *seed, int *best) {
    int most = 0;
    for (int tries = 0; tries < 500; tries++) {
        int row[SWITCHES];
        for (int i = 0; i < SWITCHES; i++) {
            *seed = *seed * 6364136223846793005U + 1442695040888963407U;
            row[i] = (int)((*seed >> 33) % (uint64_t)t->values[i]);
        }
        const int count = count_new(t, row);
        if (count > most) memcpy(best, row, sizeof row), most = count;
    }
    for (int a = 0; a < SWITCHES && most; a++)
        for (int b = 0; b < a; b++) t->met[a][best[a]][b][best[b]] = true;
    return most;
}

static bool all_met(const table *t) {
    for (int a = 0; a < SWITCHES; a++)
        for (int b = 0; b < a; b++)
            for (int i = 0; i < t->values[a]; i++)
                for (int k = 0; k < t->values[b]; k++)
                    if (!t->met[a][i][b][k]) return false;
    return true;
}

static const tcc_optimizer_options optimizers[] = {
    OPTIMIZER(TCC_SGD, 0.1, .momentum = 0.9), OPTIMIZER(TCC_ADAM, 0.01, .weight_decay = 0.01),
    OPTIMIZER(TCC_ADAMW, 0.01, .weight_decay = 0.1), OPTIMIZER(TCC_LION, 1e-3, .weight_decay = 0.1),
    OPTIMIZER(TCC_ADAFACTOR, 1e-3, .weight_decay = 0.1)};

enum { KINDS = sizeof optimizers / sizeof *optimizers };

static void read_row(const int *row, const char *const *devices, tcc_optimizer_options *optimizer,
                     tcc_model_options *o) {
    static const int64_t parts[] = {1, 3, 5};
    *optimizer = optimizers[row[OPTIMIZER_KIND]];
    optimizer->clip_grad_norm = row[CLIPPING] ? 0.5 : 0;
    optimizer->ema_decay = row[AVERAGES] ? 0.7 : 0;
    optimizer->ema_warmup = row[AVERAGES] == 2;
    *o = (tcc_model_options){.size = sizeof *o,
                             .seed = 5,
                             .device = devices[row[DEVICE]],
                             .mode = (tcc_mode)row[MODE],
                             .mixed_precision = (tcc_mixed_precision)row[PRECISION],
                             .batch_accumulate = parts[row[PARTS]],
                             .checkpointing = row[AGAIN] == 0   ? TCC_CHECKPOINTING_NONE
                                              : row[AGAIN] == 1 ? TCC_CHECKPOINTING_SEGMENTS
                                                                : TCC_CHECKPOINTING_AUTO,
                             .memory_budget = row[AGAIN] == 2 ? "min" : NULL,
                             .statistics = row[STATISTICS],
                             .optimizer = optimizer};
    if (o->mode == TCC_MODE_MAX_AUTOTUNE) o->autotune_budget_s = 0.2;
    if (o->mixed_precision == TCC_MIXED_FP16) o->loss_scale = 256; /* no step is skipped */
}

/* What this row is compared with: kept from row to row. */
static const outcome *reference(const int *row) {
    static outcome kept[KINDS][2][3];
    static bool made[KINDS][2][3];
    const int kind = row[OPTIMIZER_KIND], clips = row[CLIPPING], averages = row[AVERAGES];
    if (!made[kind][clips][averages]) {
        const int plain[SWITCHES] = {
            [MODE] = TCC_MODE_EAGER, [OPTIMIZER_KIND] = kind, [CLIPPING] = clips, [AVERAGES] = averages};
        static const char *const cpu[] = {"cpu"};
        tcc_optimizer_options optimizer;
        tcc_model_options o;
        read_row(plain, cpu, &optimizer, &o);
        train(&o, &kept[kind][clips][averages]);
        made[kind][clips][averages] = true;
    }
    return &kept[kind][clips][averages];
}

static void compare(const int *row, const char *what, double got, double want) {
    const double tolerance = row[PRECISION] ? 2e-2 : 2e-5;
    if (fabs(got - want) <= tolerance * fabs(want)) return;
    fail_msg(
        "parts %d, averages %d, precision %d, again %d, mode %d, optimizer %d, clipping %d, statistics %d, device %d: "
        "%s is "
        "%.9g, not %.9g",
        row[PARTS], row[AVERAGES], row[PRECISION], row[AGAIN], row[MODE], row[OPTIMIZER_KIND], row[CLIPPING],
        row[STATISTICS], row[DEVICE], what, got, want);
}

static void check_row(const int *row, const char *const *devices) {
    tcc_optimizer_options optimizer;
    tcc_model_options o;
    outcome got = {0};
    const outcome *want = reference(row);
    read_row(row, devices, &optimizer, &o);
    train(&o, &got);
    for (int step = 0; step < STEPS; step++) compare(row, "a loss", got.losses[step], want->losses[step]);
    compare(row, "the evaluation", got.evaluation, want->evaluation);
    if (row[AVERAGES]) compare(row, "the evaluation with averages", got.averaged, want->averaged);
}

void check_switches(const char *const *devices, int n_devices) {
    static table t;
    uint64_t seed = 1;
    int row[SWITCHES], rows = 0;
    t = (table){.values = {[PARTS] = 3,
                           [AVERAGES] = 3,
                           [PRECISION] = 3,
                           [AGAIN] = 3,
                           [MODE] = 4,
                           [OPTIMIZER_KIND] = KINDS,
                           [CLIPPING] = 2,
                           [STATISTICS] = 2,
                           [DEVICE] = n_devices}};
    for (; next_row(&t, &seed, row); rows++) check_row(row, devices);
    assert_true(all_met(&t) && rows >= 16);
}
