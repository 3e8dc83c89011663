/* SPDX-License-Identifier: MIT */
#include "harness/chunked_head.h"
#include "harness/check.h"
#include "harness/optimizer.h"

#include <math.h>
#include <stdlib.h>

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

enum { SAMPLES = 4, LENGTH = 16, VOCAB = 1031, IGNORED = -100 };

void head_trace(tcc_trace *t, void *user) {
    const head_net *n = user;
    const tcc_gpt_options o = {
        .layers = 1, .heads = 2, .width = n->width, .context = n->length, .vocab = n->vocab, .bias = true};
    tcc_tensor logits = tcc_gpt(t, tcc_input(t, "x"), &o);
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y"), .ignore_index = IGNORED, .label_smoothing = 0.125));
}

const head_net small_head = {SAMPLES, LENGTH, 32, VOCAB};

void head_open(head_session *s, const head_net *n, const tcc_model_options *options) {
    const int64_t count = n->samples * n->length;
    uint32_t seed = 9;
    for (int i = 0; i < 2; i++) {
        s->tokens[i] = malloc(sizeof *s->tokens[i] * (size_t)count);
        assert_non_null(s->tokens[i]);
        for (int64_t k = 0; k < count; k++) {
            seed = seed * 1664525u + 1013904223u;
            s->tokens[i][k] = i && k % 7 == 3 ? IGNORED : (int32_t)((seed >> 8) % (uint32_t)n->vocab);
        }
        s->batch[i] = (tcc_array){i ? "y" : "x", TCC_I32, 2, {n->samples, n->length}, s->tokens[i]};
    }
    OK(s->cx, tcc_context_create(&s->cx));
    OK(s->cx, tcc_model_create(s->cx, head_trace, (void *)n, options, &s->model));
}

void head_close(head_session *s) {
    tcc_model_destroy(s->model);
    tcc_context_destroy(s->cx);
    free(s->tokens[0]);
    free(s->tokens[1]);
}

static const tcc_optimizer_options optimizer = OPTIMIZER(TCC_ADAMW, 1e-3, .clip_grad_norm = 1);

tcc_model_options head_options(const char *device, tcc_mixed_precision precision, int64_t rows) {
    return (tcc_model_options){.size = sizeof(tcc_model_options),
                               .device = device,
                               .seed = 3,
                               .optimizer = &optimizer,
                               .keep_gradients = true,
                               .mixed_precision = precision,
                               .chunk_rows = rows};
}

tcc_program_info head_info(head_session *s) {
    tcc_program_info info;
    OK(s->cx, tcc_model_info(s->model, &info));
    return info;
}

/* Largest difference of two gradients over the largest value. */
static double distance(const tcc_array *a, const tcc_array *b) {
    int64_t count = 1;
    double worst = 0, largest = 1e-12;
    for (int d = 0; d < a->rank; d++) count *= a->dims[d];
    for (int64_t i = 0; i < count; i++) {
        const double x = ((const float *)a->data)[i], y = ((const float *)b->data)[i];
        assert_true(isfinite(x) && isfinite(y));
        worst = fmax(worst, fabs(x - y));
        largest = fmax(largest, fabs(x));
    }
    return worst / largest;
}

static void compare_gradients(head_session *whole, head_session *cut, double tolerance) {
    tcc_array p, a, b;
    int compared = 0;
    for (int i = 0; tcc_model_param(whole->model, i, &p); i++) {
        if (!tcc_model_param_is_trained(whole->model, i)) continue;
        OK(whole->cx, tcc_model_gradient(whole->model, p.name, &a));
        OK(cut->cx, tcc_model_gradient(cut->model, p.name, &b));
        const double error = distance(&a, &b);
        if (!(error <= tolerance)) fail_msg("gradient of %s differs by %g", p.name, error);
        compared++;
    }
    assert_true(compared > 10);
}

/* Of one step from equal weights; 16 bits round each part of a sum. */
void check_head_gradients(const char *device) {
    static const struct {
        tcc_mixed_precision precision;
        double loss, gradient;
    } cases[] = {{TCC_MIXED_NONE, 1e-6, 1e-5}, {TCC_MIXED_BF16, 1e-4, 2e-2}, {TCC_MIXED_FP16, 1e-5, 5e-3}};
    for (int i = 0; i < 3; i++) {
        head_session whole, cut;
        const tcc_model_options a = head_options(device, cases[i].precision, 0),
                                b = head_options(device, cases[i].precision, LENGTH);
        head_open(&whole, &small_head, &a);
        head_open(&cut, &small_head, &b);
        OK(whole.cx, tcc_model_evaluate(whole.model, whole.batch, 2));
        OK(cut.cx, tcc_model_evaluate(cut.model, cut.batch, 2));
        assert_true(fabs(tcc_model_loss(whole.model) - tcc_model_loss(cut.model)) <= cases[i].loss);
        OK(whole.cx, tcc_model_train(whole.model, whole.batch, 2));
        OK(cut.cx, tcc_model_train(cut.model, cut.batch, 2));
        const double error = fabs(tcc_model_loss(whole.model) - tcc_model_loss(cut.model));
        if (!(error <= cases[i].loss)) fail_msg("losses differ by %g", error);
        assert_true(head_info(&cut).flop != head_info(&whole).flop); /* it is another program */
        compare_gradients(&whole, &cut, cases[i].gradient);
        head_close(&whole);
        head_close(&cut);
    }
}

void check_head_kernels(const char *device) {
    static const tcc_mixed_precision precisions[] = {TCC_MIXED_NONE, TCC_MIXED_BF16};
    for (int i = 0; i < 2; i++) {
        head_session s;
        tcc_model_options o = head_options(device, precisions[i], 5); /* 1 sample of 4 at a time, then rows of it */
        o.verify_passes = true;
        head_open(&s, &small_head, &o);
        OK(s.cx, tcc_model_verify(s.model, s.batch, 2, 0, NULL));
        head_close(&s);
    }
}
