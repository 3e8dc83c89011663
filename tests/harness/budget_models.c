/* SPDX-License-Identifier: MIT */
#include "harness/budget_models.h"

#include "harness/check.h"
#include "harness/optimizer.h"
#include "traincc/traincc.h"

#include <string.h>

enum { STEPS = 4, MOST_VALUES = 4096 };

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

#define WEIGHTS(t, name, ...) \
    tcc_param(t, name, ((tcc_init){.kind = TCC_INIT_UNIFORM, .a = -1, .b = 1}), TCC_DIMS(__VA_ARGS__))

/* exp(x - max x) is computed again beside the update, where it is not known that its argument is at most 0. */
static void smoothed_classes(tcc_trace *t, void *user) {
    (void)user;
    tcc_loss(t, tcc_cross_entropy(WEIGHTS(t, "w", 16, 16, 7), tcc_input(t, "x"), .label_smoothing = 0.1));
}

/* The distance, which is an output, is a sum over columns as long as it is not what others compute again. */
static void distances(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor d = tcc_cdist(tcc_input(t, "x"), WEIGHTS(t, "centers", 7, 13), 2);
    tcc_tensor y = tcc_linear(tcc_add(WEIGHTS(t, "shift", 13, 7), d), "out", 11);
    tcc_loss(t, tcc_add(tcc_smooth_l1_loss(y, tcc_input(t, "y")), tcc_mean(WEIGHTS(t, "more", 13, 13), TCC_ALL)));
    tcc_output(t, "d", d);
}

/* The sums of the norm have neighbouring loops that are one, or not, by what they load. */
static void normed_before_growing(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor normed = tcc_batch_norm(tcc_swap_axes(tcc_input(t, "x"), 1, 0), "norm");
    tcc_tensor y = tcc_conv_transpose(normed, tcc_tanh(WEIGHTS(t, "kernel", 8, 2, 3)), .stride = 2, .stride_of = {1},
                                      .padding_after = {1}, .groups = 8);
    tcc_tensor two = tcc_constant(t, 2, TCC_I32, TCC_DIMS(2, 16));
    tcc_loss(t, tcc_add(tcc_cross_entropy(y, two, .label_smoothing = 0.1),
                        tcc_param(t, "shift", (tcc_init){.kind = TCC_INIT_ZEROS}, 0, NULL)));
}

static tcc_tensor normed_conv(tcc_tensor in, const char *name, int64_t channels, int64_t kernel) {
    tcc_tensor y = tcc_conv_layer(in, name, channels, kernel, .padding = kernel / 2, .no_bias = true);
    return tcc_batch_norm(y, "norm");
}

/* The outputs of the blocks follow from one another. Their readers evaluate masks that it would take less time to
 * store. */
static void bottlenecks(tcc_trace *t, void *user) {
    (void)user;
    static const char *const blocks[] = {"a", "b", "c", "d"};
    tcc_tensor h = tcc_relu(normed_conv(tcc_input(t, "x"), "stem", 16, 3));
    for (int i = 0; i < 4; i++) {
        tcc_scope(t, "%s", blocks[i]);
        tcc_tensor in = h;
        static const char *const scopes[] = {"down", "middle", "up"};
        for (int k = 0; k < 3; k++) {
            tcc_scope(t, "%s", scopes[k]);
            h = normed_conv(h, "conv", k < 2 ? 4 : 16, k == 1 ? 3 : 1);
            if (k < 2) h = tcc_relu(h);
            tcc_scope_end(t);
        }
        h = tcc_relu(tcc_add(h, in));
        tcc_scope_end(t);
    }
    tcc_loss(t, tcc_mean(tcc_mul(h, h), TCC_ALL));
}

/* The mean, which its segment computes again, has a kernel with the sum of the gradient's norm. Only for the mean that
 * kernel reads what is flipped, in two loops. */
static void clipped_behind_a_mean(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor loss = tcc_cross_entropy(tcc_input(t, "x"), tcc_input(t, "classes"));
    tcc_tensor flipped = tcc_flip(WEIGHTS(t, "w", 64, 2), 0);
    tcc_checkpoint_segment(t);
    loss = tcc_add(loss, tcc_mean(tcc_tanh(flipped), TCC_ALL));
    tcc_checkpoint_segment_end(t);
    tcc_loss(t, loss);
}

static float x[256], y[256];
static int32_t classes[256];

static const struct {
    const char *name;
    tcc_model_fn fn;
    tcc_mixed_precision precision;
    tcc_optimizer_kind optimizer;
    double lr;
    int n_inputs;
    tcc_array inputs[2];
    double clip;
    bool segments; /* it has some, which are computed again without a budget, too */
} models[] = {
    {"smoothed_classes", smoothed_classes, TCC_MIXED_NONE, TCC_SGD, 30, 1, {{"x", TCC_I32, 2, {16, 16}, classes}}},
    {"distances",
     distances,
     TCC_MIXED_BF16,
     TCC_SGD,
     0.03,
     2,
     {{"x", TCC_F32, 2, {13, 13}, x}, {"y", TCC_F32, 2, {13, 11}, y}}},
    {"normed_before_growing",
     normed_before_growing,
     TCC_MIXED_NONE,
     TCC_ADAM,
     0.03,
     1,
     {{"x", TCC_F32, 3, {8, 2, 2}, x}}},
    {"bottlenecks", bottlenecks, TCC_MIXED_NONE, TCC_SGD, 0.1, 1, {{"x", TCC_F32, 4, {4, 1, 8, 8}, x}}},
    {"clipped_behind_a_mean",
     clipped_behind_a_mean,
     TCC_MIXED_NONE,
     TCC_SGD,
     1,
     2,
     {{"x", TCC_F32, 2, {32, 7}, x}, {"classes", TCC_I32, 1, {32}, classes}},
     .clip = 0.01,
     .segments = true},
};

/* Losses of all steps, norms of gradients that are clipped, and the parameters behind the last; how many. 0: the budget
 * cannot be met. */
static int trained(int model, const char *device, const char *budget, bool segments, double *out) {
    for (int i = 0; i < 256; i++) {
        x[i] = (float)((i * 37 + 11) % 64) / 32.0F - 1;
        y[i] = (float)((i * 29 + 5) % 61) / 32.0F - 1;
        classes[i] = i * 7 / 3 % 7;
    }
    const tcc_optimizer_options optimizer = OPTIMIZER(models[model].optimizer, models[model].lr,
                                                      .clip_grad_norm = models[model].clip);
    const tcc_model_options o = {.size = sizeof o,
                                 .seed = 3,
                                 .device = device,
                                 .optimizer = &optimizer,
                                 .keep_gradients = models[model].lr < 30,
                                 .mixed_precision = models[model].precision,
                                 .checkpointing = segments ? TCC_CHECKPOINTING_SEGMENTS : TCC_CHECKPOINTING_AUTO,
                                 .memory_budget = budget};
    tcc_context *cx;
    tcc_model *m;
    tcc_array p;
    int count = 0;
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, models[model].fn, NULL, &o, &m));
    for (int s = 0; s < STEPS; s++) {
        const tcc_status status = tcc_model_train(m, models[model].inputs, models[model].n_inputs);
        if (status == TCC_ENOMEM && budget && strcmp(budget, "min") != 0) break; /* it needs more */
        if (status != TCC_OK)
            fail_msg("%s, %s: %s", models[model].name, budget ? budget : "no budget", tcc_context_error(cx));
        out[count++] = tcc_model_loss(m);
        if (models[model].clip <= 0) continue;
        OK(cx, tcc_model_output(m, "grad_norm", &p));
        out[count++] = (double)*(const float *)p.data;
    }
    for (int i = 0; count && tcc_model_param(m, i, &p); i++) {
        int64_t n = 1;
        for (int d = 0; d < p.rank; d++) n *= p.dims[d];
        assert_true(p.dtype == TCC_F32 && count + n <= MOST_VALUES);
        for (int64_t e = 0; e < n; e++) out[count++] = (double)((const float *)p.data)[e];
    }
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return count;
}

/* NULL: no budget, but segments. */
static void check_budget(int model, const char *device, const char *budget, const double *free, int count) {
    static double bound[MOST_VALUES];
    const int met = trained(model, device, budget, !budget, bound);
    assert_true(met == count || (met == 0 && budget));
    for (int k = 0; k < met; k++)
        if (memcmp(&free[k], &bound[k], sizeof free[k]) != 0)
            fail_msg("%s, %s: value %d is %.9g, not %.9g", models[model].name, budget ? budget : "segments", k,
                     bound[k], free[k]);
}

void check_budget_models(const char *device) {
    static double free[MOST_VALUES];
    static const char *const budgets[] = {"90%", "70%", "50%", "min"};
    for (int i = 0; i < (int)(sizeof models / sizeof models[0]); i++) {
        const int count = trained(i, device, NULL, false, free);
        for (size_t b = 0; b < sizeof budgets / sizeof budgets[0]; b++)
            check_budget(i, device, budgets[b], free, count);
        if (models[i].segments) check_budget(i, device, NULL, free, count);
    }
}
