/* SPDX-License-Identifier: MIT
 * Targets of cross-entropy that are no classes. */
#include "harness/targets.h"
#include "harness/check.h"

#include <math.h>

enum { ROWS = 6, CLASSES = 5, IGNORED = -100 };

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

typedef struct loss_kind {
    bool weighted;
    double smoothing;
    int64_t ignored; /* 0: the default */
} loss_kind;

static void net(tcc_trace *t, void *user) {
    const loss_kind *kind = user;
    tcc_tensor w = tcc_param(t, "w", ((tcc_init){.kind = TCC_INIT_NORMAL, .b = 1}), TCC_DIMS(ROWS, CLASSES));
    tcc_tensor weight = tcc_literal(t, ((double[]){1, 2, 0.5, 1, 3}), TCC_F32, TCC_DIMS(CLASSES));
    tcc_loss(t, tcc_cross_entropy(w, tcc_input(t, "y"), .weight = kind->weighted ? &weight : NULL,
                                  .label_smoothing = kind->smoothing, .ignore_index = kind->ignored));
}

static void check(const char *device, tcc_mode mode, const loss_kind *kind, int32_t last, bool is_class) {
    tcc_context *cx;
    tcc_model *m;
    int32_t y[ROWS] = {0, 4, 2, (int32_t)(kind->ignored ? kind->ignored : IGNORED), 1, last};
    tcc_array batch = {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {ROWS}, .data = y}, gradient;
    const tcc_model_options o = {.size = sizeof o, .device = device, .mode = mode, .seed = 2, .keep_gradients = true};
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, net, (void *)kind, &o, &m));
    OK(cx, tcc_model_train(m, &batch, 1));
    OK(cx, tcc_model_gradient(m, "w", &gradient));
    if (isnan(tcc_model_loss(m)) == is_class) fail_msg("target %d: loss %g", (int)last, tcc_model_loss(m));
    for (int i = 0; i < ROWS * CLASSES; i++) {
        const float g = ((const float *)gradient.data)[i];
        const bool ignored = i / CLASSES == 3 || (i / CLASSES == 5 && last == y[3]);
        if (ignored ? g != 0 : isnan(g) == is_class) fail_msg("target %d: gradient %d is %g", (int)last, i, g);
    }
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

void check_targets(const char *device, tcc_mode mode) {
    const loss_kind kinds[] = {
        {.smoothing = 0}, {.weighted = true, .ignored = -1}, {.weighted = true, .smoothing = 0.1}};
    for (int i = 0; i < 3; i++) {
        check(device, mode, &kinds[i], 3, true);
        check(device, mode, &kinds[i], (int32_t)(kinds[i].ignored ? kinds[i].ignored : IGNORED), true);
        check(device, mode, &kinds[i], CLASSES, false);
        check(device, mode, &kinds[i], -2, false);
    }
}
