/* SPDX-License-Identifier: MIT
 * Mixed precision from the public API: what is compiled, that it trains, and what is refused. */
#include "harness/check.h"
#include "harness/optimizer.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

enum { SAMPLES = 4, CONTEXT = 16, VOCAB = 11, IMAGE = 16, CLASSES = 3 };

/* -- Two kinds of models and their data -- */

static void text_model(tcc_trace *t, void *user) {
    (void)user;
    const tcc_gpt_options o = {.layers = 2, .heads = 2, .width = 32, .context = CONTEXT, .vocab = VOCAB, .bias = true};
    tcc_tensor logits = tcc_gpt(t, tcc_input(t, "x"), &o);
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y")));
}

static void image_model(tcc_trace *t, void *user) {
    (void)user;
    const tcc_resnet_options o = {.depth = 18, .classes = CLASSES, .width = 8, .cifar_stem = true};
    tcc_loss(t, tcc_cross_entropy(tcc_resnet(t, tcc_input(t, "x"), &o), tcc_input(t, "y")));
}

typedef struct data {
    int32_t tokens[SAMPLES * CONTEXT], next[SAMPLES * CONTEXT], labels[SAMPLES];
    float images[SAMPLES * 3 * IMAGE * IMAGE];
    tcc_array arrays[2];
} data;

static uint32_t draw(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 16; }

/* A text whose next token follows from the last, and images whose brightness is their class. */
static void make_data(data *d, bool images) {
    uint32_t seed = 3;
    for (int i = 0; i < SAMPLES * CONTEXT; i++) {
        d->tokens[i] = (int32_t)(draw(&seed) % VOCAB);
        d->next[i] = (d->tokens[i] * 3 + 1) % VOCAB;
    }
    for (int i = 0; i < SAMPLES; i++) {
        d->labels[i] = i % CLASSES;
        for (int k = 0; k < 3 * IMAGE * IMAGE; k++)
            d->images[i * 3 * IMAGE * IMAGE + k] = (float)d->labels[i] + (float)(draw(&seed) % 100) / 100;
    }
    d->arrays[0] = (tcc_array){"x", TCC_I32, 2, {SAMPLES, CONTEXT}, d->tokens};
    d->arrays[1] = (tcc_array){"y", TCC_I32, 2, {SAMPLES, CONTEXT}, d->next};
    if (!images) return;
    d->arrays[0] = (tcc_array){"x", TCC_F32, 4, {SAMPLES, 3, IMAGE, IMAGE}, d->images};
    d->arrays[1] = (tcc_array){"y", TCC_I32, 1, {SAMPLES}, d->labels};
}

static const tcc_optimizer_options optimizer = OPTIMIZER(TCC_ADAMW, 3e-3, .weight_decay = 0);

static tcc_model_options options_for(tcc_mixed_precision precision, const char *arch) {
    return (tcc_model_options){.size = sizeof(tcc_model_options),
                               .seed = 5,
                               .arch = arch,
                               .optimizer = &optimizer,
                               .mixed_precision = precision};
}

/* -- What is compiled -- */

/* Counts the groups of the text whose nodes only cast and view, but for one that reads the batch. */
static int count_cast_kernels(const char *tir) {
    enum { MOST_NODES = 1 << 14 };
    static char ops[MOST_NODES][16];
    static bool reads_batch[MOST_NODES];
    int found = 0;
    for (const char *line = tir; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        int id, first;
        char op[16];
        const size_t length = strcspn(line, "\n");
        if (sscanf(line, " %%%d = %15[a-z_0-9]", &id, op) == 2 && id < MOST_NODES) {
            snprintf(ops[id], sizeof ops[id], "%s", op);
            reads_batch[id] = !strcmp(op, "input") && memmem(line, length, "name=\"x\"", 8) != NULL;
            const char *open = memchr(line, '(', length);
            if (open && sscanf(open, "(%%%d", &first) == 1 && first < id) reads_batch[id] = reads_batch[first];
        }
        const char *nodes = strncmp(line, "  group", 7) ? NULL : strstr(line, "nodes(");
        if (!nodes) continue;
        bool casts = false, only = true, batch = false;
        for (const char *n = nodes + 5; *n != ')' && sscanf(n + 1, " %%%d", &id) == 1; n += strcspn(n + 1, ",)") + 1) {
            const char *name = ops[id];
            casts |= !strcmp(name, "cast");
            batch |= reads_batch[id];
            only &= !strcmp(name, "cast") || !strcmp(name, "reshape") || !strcmp(name, "transpose") ||
                    !strcmp(name, "slice") || !strcmp(name, "broadcast");
        }
        found += casts && only && !batch;
    }
    return found;
}

static void check_cast_kernels(bool images, tcc_mixed_precision precision, const char *arch, bool eager) {
    static data d;
    tcc_context *cx;
    tcc_model *m;
    char *tir;
    tcc_model_options o = options_for(precision, arch);
    o.mode = eager ? TCC_MODE_EAGER : TCC_MODE_DEFAULT;
    make_data(&d, images);
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, images ? image_model : text_model, NULL, &o, &m));
    OK(cx, tcc_model_compile(m, true, d.arrays, 2));
    OK(cx, tcc_model_report(m, "tir", &tir));
    const int count = count_cast_kernels(tir);
    if (eager) assert_true(count > 0); /* so that counting is known to find them */
    else if (count)
        fail_msg("%d kernels of the %s model only cast, %s for %s", count, images ? "image" : "text",
                 precision == TCC_MIXED_FP16 ? "fp16" : "bf16", arch ? arch : "cpu");
    tcc_string_free(tir);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void no_kernel_only_casts(void **state) {
    (void)state;
    static const char *const archs[] = {NULL, "sm_80", "sm_90"};
    for (int images = 0; images < 2; images++)
        for (int a = 0; a < 3; a++) {
            check_cast_kernels(images, TCC_MIXED_BF16, archs[a], false);
            check_cast_kernels(images, TCC_MIXED_FP16, archs[a], false);
            check_cast_kernels(images, TCC_MIXED_BF16, archs[a], true);
        }
}

/* Steps of training the image model of many filters and norms. */
static int count_steps(tcc_mixed_precision precision, const char *arch) {
    static data d;
    tcc_context *cx;
    tcc_model *m;
    tcc_program_info info;
    const tcc_model_options o = options_for(precision, arch);
    make_data(&d, true);
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, image_model, NULL, &o, &m));
    OK(cx, tcc_model_compile(m, true, d.arrays, 2));
    OK(cx, tcc_model_info(m, &info));
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return info.steps;
}

/* fp16 looks at all gradients before it updates: not in a step for each of them. */
static void flags_take_few_steps(void **state) {
    (void)state;
    enum { PARAMETERS = 62, MOST = 40 };
    const int fp16 = count_steps(TCC_MIXED_FP16, "sm_90"), bf16 = count_steps(TCC_MIXED_BF16, "sm_90");
    if (fp16 > bf16 + MOST) fail_msg("%d steps in fp16, %d in bf16, for %d parameters", fp16, bf16, PARAMETERS);
}

static void full_model(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_input(t, "x"), h = tcc_linear(x, "a", 8, .no_bias = true);
    tcc_full_precision(t);
    h = tcc_linear(h, "b", 8, .no_bias = true);
    tcc_full_precision_end(t);
    tcc_output(t, "y", tcc_linear(h, "c", 8, .no_bias = true));
}

static void a_scope_stays_in_float32(void **state) {
    (void)state;
    float x[4 * 8] = {0};
    const tcc_array batch = {"x", TCC_F32, 2, {4, 8}, x};
    tcc_context *cx;
    tcc_model *m;
    char *tir;
    const tcc_model_options o = options_for(TCC_MIXED_BF16, NULL);
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, full_model, NULL, &o, &m));
    OK(cx, tcc_model_compile(m, false, &batch, 1));
    OK(cx, tcc_model_report(m, "tir", &tir));
    int low = 0, full = 0;
    for (const char *line = tir; (line = strstr(line, "= dot(")); line++) {
        const size_t length = strcspn(line, "\n");
        low += memmem(line, length, ": bf16[", 7) != NULL;
        full += memmem(line, length, ": f32[", 6) != NULL;
    }
    assert_int_equal(low, 2);
    assert_int_equal(full, 1);
    tcc_string_free(tir);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* -- That it trains -- */

static double final_loss(bool images, tcc_mixed_precision precision, double *first) {
    enum { STEPS = 40 };
    static data d;
    tcc_context *cx;
    tcc_model *m;
    const tcc_model_options o = options_for(precision, NULL);
    make_data(&d, images);
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, images ? image_model : text_model, NULL, &o, &m));
    for (int i = 0; i < STEPS; i++) {
        OK(cx, tcc_model_train(m, d.arrays, 2));
        if (i == 0) *first = tcc_model_loss(m);
    }
    OK(cx, tcc_model_evaluate(m, d.arrays, 2));
    const double loss = tcc_model_loss(m);
    tcc_array p;
    for (int i = 0; tcc_model_param(m, i, &p); i++) assert_int_equal(p.dtype, TCC_F32);
    for (int i = 0; tcc_model_optimizer_state(m, i, &p); i++) assert_null(strstr(p.name, ".bf16"));
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return loss;
}

static void trains_like_float32(void **state) {
    (void)state;
    for (int images = 0; images < 2; images++) {
        double first, start;
        const double full = final_loss(images, TCC_MIXED_NONE, &start);
        const double low = final_loss(images, TCC_MIXED_BF16, &first);
        if (fabs(first - start) > 0.01 * start) fail_msg("bf16 begins with loss %g, float32 with %g", first, start);
        if (!(low < 0.5 * start) || fabs(low - full) > 0.1 * start)
            fail_msg("%s: from %g, float32 comes to %g and bf16 to %g", images ? "images" : "text", start, full, low);
    }
}

/* A gradient penalty through attention, of the input as it is and of what layers make of it. */
static void penalty(tcc_trace *t, void *user) {
    const bool layers = *(const bool *)user;
    tcc_tensor x = tcc_input(t, "x"), q = x, k = x, v = x;
    if (layers) q = tcc_linear(x, "q", 8), k = tcc_linear(x, "k", 8), v = tcc_linear(x, "v", 8);
    tcc_tensor score = tcc_mean(tcc_square(tcc_cast(tcc_attention(q, k, v, .causal = !layers), TCC_F32)), TCC_ALL);
    tcc_tensor w = tcc_param(t, "w", ((tcc_init){TCC_INIT_CONSTANT, .a = 1}), TCC_DIMS(1));
    tcc_tensor g = tcc_cast(tcc_gradient(score, x), TCC_F32);
    tcc_loss(t, tcc_mul(tcc_add(score, tcc_sum(tcc_square(g), TCC_ALL)), tcc_sum(w, TCC_ALL)));
}

static void gradients_in_the_model(void **state) {
    (void)state;
    enum { ROWS_OF_X = 2 * 5, WIDTH = 8 };
    float x[ROWS_OF_X * WIDTH];
    const tcc_array batch = {"x", TCC_F32, 3, {2, 5, WIDTH}, x};
    for (int i = 0; i < ROWS_OF_X * WIDTH; i++) x[i] = sinf(1.7f * (float)i);
    for (int layers = 0; layers < 2; layers++) {
        double losses[TCC_MIXED_FP16 + 1];
        for (int p = TCC_MIXED_NONE; p <= TCC_MIXED_FP16; p++) {
            tcc_context *cx;
            tcc_model *m;
            bool with_layers = layers;
            const tcc_model_options o = options_for((tcc_mixed_precision)p, NULL);
            OK(cx, tcc_context_create(&cx));
            OK(cx, tcc_model_create(cx, penalty, &with_layers, &o, &m));
            OK(cx, tcc_model_train(m, &batch, 1));
            losses[p] = tcc_model_loss(m);
            tcc_model_destroy(m);
            tcc_context_destroy(cx);
            if (!(fabs(losses[p] - losses[0]) <= 0.02 * losses[0])) fail_msg("%d: %g, %g", p, losses[0], losses[p]);
        }
    }
}

/* -- The scale of the loss -- */

static void squares(tcc_trace *t, void *user) {
    (void)user;
    const tcc_init ones = {.kind = TCC_INIT_CONSTANT, .a = 1};
    tcc_tensor w = tcc_param(t, "w", ones, TCC_DIMS(3));
    tcc_loss(t, tcc_sum(tcc_mul(tcc_mul(w, w), tcc_input(t, "x")), TCC_ALL));
}

/* As torch.amp.GradScaler does it (PyTorch 2.15): AdamW with lr 0.05 and weight decay 0.1, gradients clipped to 1.5,
 * scale 65536, interval 3. After each step the scale, the updates since it changed, and w. */
static void scales_as_pytorch(void **state) {
    (void)state;
    static const struct {
        float x; /* the last element of the batch */
        double scale;
        int64_t steps;
        float w[3];
    } script[] = {
        {1, 65536, 1, {0.944999993f, 1.04499996f, 0.944999993f}},
        {1, 65536, 2, {0.890572369f, 1.08961844f, 0.890360475f}},
        {1, 131072, 0, {0.836423993f, 1.13365281f, 0.836167932f}},
        {1, 131072, 1, {0.782366812f, 1.17681599f, 0.782517672f}},
        {INFINITY, 65536, 0, {0.782366812f, 1.17681599f, 0.782517672f}},
        {INFINITY, 32768, 0, {0.782366812f, 1.17681599f, 0.782517672f}},
        {1, 32768, 1, {0.728556693f, 1.21566689f, 0.730020463f}},
        {NAN, 16384, 0, {0.728556693f, 1.21566689f, 0.730020463f}},
        {1, 16384, 1, {0.674650013f, 1.24814427f, 0.678930223f}},
        {1, 16384, 2, {0.62060678f, 1.27378941f, 0.629154801f}},
        {1, 32768, 0, {0.566488683f, 1.29190099f, 0.580652118f}},
        {1, 32768, 1, {0.512382507f, 1.30177248f, 0.533407748f}},
        {1, 32768, 2, {0.458387107f, 1.30293f, 0.487424523f}},
        {1, 65536, 0, {0.404615343f, 1.29531145f, 0.442716837f}},
        {-INFINITY, 32768, 0, {0.404615343f, 1.29531145f, 0.442716837f}},
        {1, 32768, 1, {0.351258516f, 1.27877796f, 0.399525434f}},
    };
    enum { STEPS = sizeof script / sizeof script[0] };
    for (int eager = 0; eager < 2; eager++) {
        tcc_context *cx;
        tcc_model *m;
        tcc_model_options o = options_for(TCC_MIXED_FP16, NULL);
        o.mode = eager ? TCC_MODE_EAGER : TCC_MODE_DEFAULT;
        o.loss_scale_interval = 3;
        o.keep_gradients = true;
        o.optimizer = OPTIMIZER_OF(TCC_ADAMW, 0.05, .weight_decay = 0.1, .decay_all = true, .clip_grad_norm = 1.5);
        int64_t skipped = 0, seen, updates = 0;
        double scale;
        OK(cx, tcc_context_create(&cx));
        OK(cx, tcc_model_create(cx, squares, NULL, &o, &m));
        assert_int_equal(tcc_model_loss_scale(m, &scale, &seen), TCC_ENOTFOUND);
        for (int i = 0; i < STEPS; i++) {
            float x[3] = {0.5f + 0.25f * (float)i, -1 + 0.125f * (float)i, script[i].x};
            const tcc_array batch = {"x", TCC_F32, 1, {3}, x};
            tcc_array w, state_of, gradient;
            tcc_model_find_param(m, "w", &w);
            float before = i ? ((const float *)w.data)[0] : 1;
            OK(cx, tcc_model_train(m, &batch, 1));
            OK(cx, tcc_model_loss_scale(m, &scale, &seen));
            assert_true(scale == script[i].scale);
            skipped += !isfinite(script[i].x);
            updates += isfinite(script[i].x);
            assert_int_equal(seen, skipped);
            assert_true(tcc_model_find_param(m, "w", &w));
            for (int k = 0; k < 3; k++) {
                const float got = ((const float *)w.data)[k];
                if (fabsf(got - script[i].w[k]) > 2e-6f) fail_msg("step %d: w[%d] %.9g", i, k, (double)got);
            }
            OK(cx, tcc_model_gradient(m, "w", &gradient)); /* without the scale */
            const float expected = 2 * before * x[0];
            assert_true(fabsf(((const float *)gradient.data)[0] - expected) <= 1e-5f);
            for (int k = 0; tcc_model_optimizer_state(m, k, &state_of); k++) {
                const int64_t count = *(const int64_t *)state_of.data;
                if (!strcmp(state_of.name, TCC_STEP_STATE)) assert_int_equal(count, updates);
                if (!strcmp(state_of.name, "@scale_steps")) assert_int_equal(count, script[i].steps);
            }
        }
        tcc_model_destroy(m);
        tcc_context_destroy(cx);
    }
}

/* What overflows in forward reaches neither parameters nor the running statistics of norms. */
static void normed(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_linear(tcc_input(t, "x"), "in", 8);
    h = tcc_batch_norm(tcc_linear(tcc_scale(h, 100), "out", 8, .no_bias = true), "bn");
    tcc_loss(t, tcc_mean(tcc_mul(h, h), TCC_ALL));
}

static void skipped_steps_leave_no_trace(void **state) {
    (void)state;
    float x[4 * 2];
    const tcc_array batch = {"x", TCC_F32, 2, {4, 2}, x};
    tcc_context *cx;
    tcc_model *m;
    tcc_array p;
    float kept[192];
    const tcc_model_options o = options_for(TCC_MIXED_FP16, NULL);
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, normed, NULL, &o, &m));
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < 8; i++) x[i] = step ? 60000 : (float)i / 8;
        int at = 0;
        OK(cx, tcc_model_train(m, &batch, 1));
        for (int i = 0; tcc_model_param(m, i, &p); i++)
            for (int k = 0; k < (p.rank == 2 ? (int)(p.dims[0] * p.dims[1]) : 8); k++, at++) {
                const float got = ((const float *)p.data)[k];
                assert_true(at < 192);
                if (step && got != kept[at]) fail_msg("%s[%d]: %g became %g", p.name, k, (double)kept[at], (double)got);
                kept[at] = got;
            }
    }
    double scale;
    int64_t skipped;
    OK(cx, tcc_model_loss_scale(m, &scale, &skipped));
    assert_true(scale == 32768);
    assert_int_equal(skipped, 1);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* -- What is refused -- */

static void refused_options(void **state) {
    (void)state;
    static const struct {
        tcc_mixed_precision precision;
        const char *ops, *says;
    } cases[] = {
        {(tcc_mixed_precision)7, NULL, "mixed_precision 7 must be from 0 to 2"},
        {TCC_MIXED_NONE, "gelu=fp32", "mixed_precision_ops \"gelu=fp32\" without mixed_precision"},
        {TCC_MIXED_BF16, "gelu=f32", "'gelu=f32' is no precision of an op"},
        {TCC_MIXED_BF16, "geluu=fp32", "there is no op 'geluu' to give a precision to"},
    };
    tcc_context *cx;
    tcc_model *m;
    OK(cx, tcc_context_create(&cx));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tcc_model_options o = options_for(cases[i].precision, NULL);
        o.mixed_precision_ops = cases[i].ops;
        assert_int_equal(tcc_model_create(cx, text_model, NULL, &o, &m), TCC_EINVAL);
        if (!strstr(tcc_context_error(cx), cases[i].says))
            fail_msg("\"%s\" does not say \"%s\"", tcc_context_error(cx), cases[i].says);
        tcc_context_clear_error(cx);
    }
    tcc_context_destroy(cx);
}

static void unclosed(tcc_trace *t, void *user) {
    (void)user;
    tcc_full_precision(t);
    tcc_output(t, "y", tcc_relu(tcc_input(t, "x")));
}

static void unopened(tcc_trace *t, void *user) {
    (void)user;
    tcc_full_precision_end(t);
    tcc_output(t, "y", tcc_relu(tcc_input(t, "x")));
}

static void refused_scopes(void **state) {
    (void)state;
    static const tcc_model_fn models[] = {unclosed, unopened};
    static const char *const says[] = {"1 tcc_full_precision without tcc_full_precision_end",
                                       "tcc_full_precision_end without tcc_full_precision"};
    float x[2] = {0};
    const tcc_array batch = {"x", TCC_F32, 1, {2}, x};
    tcc_context *cx;
    OK(cx, tcc_context_create(&cx));
    for (int i = 0; i < 2; i++) {
        tcc_model *m;
        OK(cx, tcc_model_create(cx, models[i], NULL, NULL, &m));
        assert_int_equal(tcc_model_compile(m, false, &batch, 1), TCC_EINVAL);
        if (!strstr(tcc_context_error(cx), says[i])) fail_msg("\"%s\"", tcc_context_error(cx));
        tcc_context_clear_error(cx);
        tcc_model_destroy(m);
    }
    tcc_context_destroy(cx);
}

/* -- Copies of weights -- */

enum { ROWS = 70001, COLUMNS = 241 }; /* more bytes than caches hold, and no multiple of a vector */

/* -- Numbers that the low type does not hold -- */

/* Rows of scores masked by hand with -1e9, one of them as a whole; and the same as a mask of attention. */
static void masked_model(tcc_trace *t, void *user) {
    const double masked = *(const double *)user;
    tcc_tensor x = tcc_input(t, "x"), mask = tcc_input(t, "mask"), k = tcc_linear(x, "k", 8);
    tcc_tensor scores = tcc_matmul(tcc_linear(x, "q", 8), tcc_transpose(k, TCC_DIMS(1, 0)));
    tcc_output(t, "p", tcc_cast(tcc_softmax(tcc_masked_fill(scores, mask, masked), -1), TCC_F32));
    tcc_tensor zero = tcc_constant(t, 0, TCC_F32, TCC_DIMS(4, 4)),
               ones = tcc_constant(t, 1, TCC_F32, TCC_DIMS(1, 4, 4)),
               added = tcc_reshape(tcc_masked_fill(zero, mask, masked), TCC_DIMS(1, 4, 4)),
               q = tcc_reshape(k, TCC_DIMS(1, 4, 8));
    tcc_output(t, "y", tcc_cast(tcc_attention(q, q, ones, .mask = added), TCC_F32));
    tcc_loss(t, tcc_mean(tcc_cast(k, TCC_F32), TCC_ALL));
}

static void finite_masks_stay_finite(void **state) {
    (void)state;
    static const double masks[] = {-1e9, -3.4028234663852886e38}; /* what bf16 does not hold, too */
    float x[4 * 8];
    uint8_t mask[4 * 4] = {0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0};
    for (int i = 0; i < 32; i++) x[i] = (float)(i * 7 % 11) / 11;
    for (int precision = TCC_MIXED_NONE; precision <= TCC_MIXED_FP16; precision++)
        for (int m = 0; m < 2; m++) {
            tcc_context *cx;
            tcc_model *model;
            tcc_array p, y;
            const tcc_model_options o = {.size = sizeof o, .mixed_precision = precision};
            const tcc_array b[] = {{.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {4, 8}, .data = x},
                                   {.name = "mask", .dtype = TCC_BOOL, .rank = 2, .dims = {4, 4}, .data = mask}};
            assert_int_equal(tcc_context_create(&cx), TCC_OK);
            if (tcc_model_create(cx, masked_model, (void *)&masks[m], &o, &model) || tcc_model_train(model, b, 2) ||
                tcc_model_output(model, "p", &p) || tcc_model_output(model, "y", &y))
                fail_msg("%s", tcc_context_error(cx));
            for (int i = 0; i < 4; i++) {
                double sum = 0;
                for (int c = 0; c < 4; c++) {
                    const double is = ((float *)p.data)[4 * i + c];
                    sum += is;
                    if (i == 2) assert_true(fabs(is - 0.25) < 1e-3); /* all masked: alike */
                    else if (mask[4 * i + c]) assert_true(is == 0);
                    assert_true(fabs(((float *)y.data)[4 * i + c] - 1) < 1e-2); /* so rows of attention add up to 1 */
                }
                assert_true(fabs(sum - 1) < 1e-2);
            }
            tcc_model_destroy(model);
            tcc_context_destroy(cx);
        }
}

static void wide_model(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor y = tcc_linear(tcc_input(t, "x"), "wide", ROWS, .no_bias = true);
    tcc_loss(t, tcc_mean(tcc_mul(y, y), TCC_ALL));
}

/* What an update writes past the caches is what the host makes of the weight. */
static void check_large_copies(tcc_mixed_precision precision) {
    static float x[2 * COLUMNS];
    uint32_t seed = 7;
    for (int i = 0; i < 2 * COLUMNS; i++) x[i] = (float)(draw(&seed) % 100) / 100;
    const tcc_array batch = {"x", TCC_F32, 2, {2, COLUMNS}, x};
    const tcc_optimizer_options sgd = OPTIMIZER(TCC_SGD, 0.5, .weight_decay = 0.1);
    tcc_model_options o = options_for(precision, NULL);
    o.optimizer = &sgd;
    tcc_context *cx;
    tcc_model *m;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    OK(cx, tcc_model_create(cx, wide_model, NULL, &o, &m));
    OK(cx, tcc_model_evaluate(m, &batch, 1));
    const double before = tcc_model_loss(m);
    OK(cx, tcc_model_train(m, &batch, 1));
    OK(cx, tcc_model_evaluate(m, &batch, 1));
    const double after = tcc_model_loss(m);
    assert_true(after < 0.97 * before);
    tcc_array weight;
    assert_true(tcc_model_find_param(m, "wide.weight", &weight)); /* now the copy is made again */
    OK(cx, tcc_model_set_param(m, &weight));
    OK(cx, tcc_model_evaluate(m, &batch, 1));
    assert_memory_equal(&(double){tcc_model_loss(m)}, &after, sizeof after);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void large_copies_follow_their_weights(void **state) {
    (void)state;
    check_large_copies(TCC_MIXED_BF16);
    check_large_copies(TCC_MIXED_FP16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_kernel_only_casts),
        cmocka_unit_test(flags_take_few_steps),
        cmocka_unit_test(a_scope_stays_in_float32),
        cmocka_unit_test(trains_like_float32),
        cmocka_unit_test(gradients_in_the_model),
        cmocka_unit_test(refused_options),
        cmocka_unit_test(refused_scopes),
        cmocka_unit_test(finite_masks_stay_finite),
        cmocka_unit_test(scales_as_pytorch),
        cmocka_unit_test(skipped_steps_leave_no_trace),
        cmocka_unit_test(large_copies_follow_their_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
