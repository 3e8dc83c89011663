/* SPDX-License-Identifier: MIT
 * Ranges of frontend/run/options.def by what the options mean: a value that has a meaning is taken, up to the edges of
 * what has one, and beyond these none is. A row with a range that nobody judges here fails, and so does one without a
 * range that is judged. */
#include "harness/check.h"

#include "frontend/run/options.h"

#include <float.h>
#include <math.h>

enum { MOST = 6 };
#define JUST_BELOW_1 (1 - DBL_EPSILON / 2)
#define TINY DBL_TRUE_MIN

typedef struct judgement {
    tcc_option_of of;
    const char *name;
    int n_right, n_wrong;
    double right[MOST], wrong[MOST];
} judgement;

#define ROW(of_, name_, ...) {.of = TCC_OPTION_OF_##of_, .name = #name_, __VA_ARGS__}
#define TAKES(...) .n_right = (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), .right = {__VA_ARGS__}
#define REFUSES(...) .n_wrong = (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), .wrong = {__VA_ARGS__}

/* A share of what was before, of which something new is added: 1 would never learn, below 0 is no share (Kingma and Ba
 * 2014: "in [0, 1)"). */
#define DECAY TAKES(0, 0.5, 0.999, JUST_BELOW_1), REFUSES(1, 1.5, -TINY, -1, INFINITY)
/* A size, which is float32 on the device. */
#define SIZE TAKES(0, TINY, 1e-8, 1, 1e6), REFUSES(-TINY, -1, 1e39, INFINITY)

static const judgement judgements[] = {
    ROW(MODEL, mode, TAKES(TCC_MODE_DEFAULT, TCC_MODE_REDUCE_OVERHEAD, TCC_MODE_MAX_AUTOTUNE),
        REFUSES(-1, TCC_MODE_MAX_AUTOTUNE + 1)),
    ROW(MODEL, mixed_precision, TAKES(TCC_MIXED_NONE, TCC_MIXED_BF16, TCC_MIXED_FP16), REFUSES(-1, TCC_MIXED_FP16 + 1)),
    ROW(MODEL, checkpointing, TAKES(TCC_CHECKPOINTING_NONE, TCC_CHECKPOINTING_AUTO, TCC_CHECKPOINTING_SEGMENTS),
        REFUSES(-1, TCC_CHECKPOINTING_SEGMENTS + 1)),
    ROW(OPTIMIZER, kind, TAKES(TCC_SGD, TCC_ADAM, TCC_ADAMW, TCC_LION, TCC_ADAFACTOR, TCC_ADAGRAD),
        REFUSES(-1, TCC_ADAGRAD + 1)),
    /* Counts, where 0 leaves it to the library. */
    ROW(MODEL, batch_accumulate, TAKES(0, 1, 1 << 20), REFUSES(-1, INT64_MIN, 0x1p62)),
    ROW(MODEL, chunk_rows, TAKES(0, 1, 2, 0x1p40), REFUSES(-1, INT64_MIN)),
    ROW(MODEL, verify_samples, TAKES(0, 1, 2, 0x1p40), REFUSES(-1, INT64_MIN)),
    ROW(MODEL, autotune_budget_s, TAKES(0, TINY, 60, 1e6), REFUSES(-TINY, -1)),
    ROW(OPTIMIZER, lr, SIZE),
    ROW(OPTIMIZER, beta1, DECAY),
    ROW(OPTIMIZER, beta2, DECAY),
    ROW(OPTIMIZER, momentum, DECAY),
    ROW(OPTIMIZER, ema_decay, DECAY),
    ROW(OPTIMIZER, eps, SIZE),
    ROW(OPTIMIZER, weight_decay, SIZE),
    ROW(OPTIMIZER, clip_grad_norm, SIZE),
    ROW(OPTIMIZER, ema_ramp, SIZE),
    ROW(GROUP, lr_scale, SIZE),
    ROW(GROUP, weight_decay, SIZE),
    ROW(GROUP, beta1, DECAY),
    ROW(GROUP, beta2, DECAY),
    ROW(GROUP, momentum, DECAY),
};
enum { COUNT = sizeof judgements / sizeof judgements[0] };

static const judgement *judgement_of(const tcc_option *o) {
    for (int i = 0; i < COUNT; i++)
        if (judgements[i].of == o->of && !strcmp(judgements[i].name, o->name)) return &judgements[i];
    return NULL;
}

/* What the check says of options where this one is `value`. */
static bool takes(const tcc_option *o, double value) {
    tcc_model_options model = {.size = sizeof model};
    tcc_optimizer_options optimizer;
    tcc_param_group group;
    tcc_optimizer_init(&optimizer, TCC_ADAM);
    tcc_param_group_init(&group, "*");
    void *const of[] = {
        [TCC_OPTION_OF_MODEL] = &model, [TCC_OPTION_OF_OPTIMIZER] = &optimizer, [TCC_OPTION_OF_GROUP] = &group};
    char *at = (char *)of[o->of] + o->offset;
    if (o->type == TCC_OPTION_REAL) *(double *)at = value;
    else if (o->type == TCC_OPTION_I64) *(int64_t *)at = (int64_t)value;
    else *(int *)at = (int)value;
    tcc_diag diag = {0};
    const tcc_status status = tcc__options_check(&diag, o->of, "", of[o->of]);
    if (status != TCC_OK && !strstr(tcc_diag_text(&diag), o->name)) fail_msg("%s", tcc_diag_text(&diag));
    tcc_diag_clear(&diag);
    return status == TCC_OK;
}

static void ranges_are_what_has_a_meaning(void **state) {
    (void)state;
    int judged = 0;
    for (int i = 0; tcc__option(i); i++) {
        const tcc_option *o = tcc__option(i);
        const judgement *j = judgement_of(o);
        const bool has_range = o->least > -INFINITY || o->most < INFINITY;
        if (has_range != (j != NULL)) fail_msg("%s has %s range", o->name, has_range ? "an unjudged" : "no");
        if (!j) continue;
        judged++;
        for (int k = 0; k < j->n_right; k++)
            if (!takes(o, j->right[k])) fail_msg("%s: %g is refused", o->name, j->right[k]);
        for (int k = 0; k < j->n_wrong; k++)
            if (takes(o, j->wrong[k])) fail_msg("%s: %g is taken", o->name, j->wrong[k]);
        /* NaN stands for the rest's value in a group, where that is one for all; else it is no number. */
        const bool or_rest = o->of == TCC_OPTION_OF_GROUP && strcmp(o->name, "lr_scale") != 0;
        if (o->type == TCC_OPTION_REAL && takes(o, NAN) != or_rest) fail_msg("%s: nan", o->name);
    }
    assert_int_equal(judged, COUNT);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranges_are_what_has_a_meaning)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
