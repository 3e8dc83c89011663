/* SPDX-License-Identifier: MIT */
#include "harness/random_draw_cases.h"
#include "harness/evaluate.h"

#include "frontend/compile/compile.h"
#include "harness/check.h"
#include "ir/eval.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEED = 77, STEPS = 3, MOST_OUTPUTS = 16, MOST_BYTES = 4096 };

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

/* Every draw, and a parameter with noise on it, so that there is something to train. With `more`, others beside. */
static void net(tcc_trace *t, void *user) {
    const bool *more = user;
    tcc_tensor w = tcc_param(t, "w", ((tcc_init){.kind = TCC_INIT_CONSTANT, .a = 0.5}), TCC_DIMS(5, 3));
    if (*more) w = tcc_dropout(tcc_add(w, tcc_random_normal(t, "before", 0, 1, TCC_F32, TCC_DIMS(5, 3))), 0.5);
    tcc_output(t, "unit", tcc_random_uniform(t, "unit", 0, 1, TCC_F32, TCC_DIMS(7, 5)));
    tcc_output(t, "half", tcc_cast(tcc_random_uniform(t, "half", -0.5, 0.5, TCC_BF16, TCC_DIMS(33)), TCC_F32));
    tcc_output(t, "keep", tcc_random_bernoulli(t, "keep", 0.3, TCC_DIMS(65)));
    tcc_output(t, "small", tcc_random_integers(t, "small", -5, 12, TCC_I32, TCC_DIMS(1, 37)));
    tcc_output(t, "far",
               tcc_random_integers(t, "far", INT64_C(1) << 40, (INT64_C(1) << 40) + 1000, TCC_I64, TCC_DIMS(9)));
    tcc_output(t, "order", tcc_random_permutation(t, "order", 13));
    tcc_output(t, "normal", tcc_random_normal(t, "normal", 1, 2, TCC_F32, TCC_DIMS(11, 3)));
    tcc_tensor noisy = tcc_mul(w, tcc_random_uniform(t, "noise", 0.5, 1.5, TCC_F32, TCC_DIMS(5, 3)));
    tcc_loss(t, tcc_mean(tcc_square(noisy), TCC_ALL));
}

static tcc_model *make(tcc_context *cx, const char *device, tcc_mode mode, const bool *more) {
    tcc_model *m = NULL;
    const tcc_model_options options = {.size = sizeof options, .device = device, .mode = mode, .seed = SEED};
    OK(cx, tcc_model_create(cx, net, (void *)more, &options, &m));
    return m;
}

static const struct {
    const char *name;
    bool rounds; /* it is a function of what is drawn, and rounded otherwise on another device */
} names[] = {{"unit", false}, {"half", false},  {"keep", false}, {"small", false},
             {"far", false},  {"order", false}, {"normal", true}};
enum { NAMES = sizeof names / sizeof *names };

/* What a run has drawn. */
typedef struct record {
    unsigned char bytes[NAMES][MOST_BYTES];
} record;

static void read_draws(tcc_context *cx, tcc_model *m, record *out) {
    *out = (record){0};
    for (int i = 0; i < NAMES; i++) {
        tcc_array a;
        OK(cx, tcc_model_output(m, names[i].name, &a));
        const tcc_type type = tcc__array_type(&a);
        assert_true(tcc_type_bytes(&type) <= MOST_BYTES);
        memcpy(out->bytes[i], a.data, (size_t)tcc_type_bytes(&type));
    }
}

static void check_equal(const record *a, const record *b, const char *what, int step) {
    for (int i = 0; i < NAMES; i++)
        if (memcmp(a->bytes[i], b->bytes[i], MOST_BYTES)) fail_msg("%s, step %d: other %s", what, step, names[i].name);
}

static void check_other(const record *a, const record *b) {
    for (int i = 0; i < NAMES; i++) assert_memory_not_equal(a->bytes[i], b->bytes[i], MOST_BYTES);
}

/* The traced graph at this step. */
static void check_interpreted(tcc_context *cx, tcc_model *m, const record *got, int64_t step) {
    tcc_graph *g = NULL;
    OK(cx, tcc__model_trace(m, false, NULL, 0, &g));
    tcc_value *inputs = calloc((size_t)g->inputs.count, sizeof *inputs), outputs[MOST_OUTPUTS];
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        OK(cx, tcc_value_create(&n->type, &inputs[i], &cx->diag));
        if (n->attrs->input.role == TCC_ROLE_RNG) inputs[i].i[0] = SEED, inputs[i].i[1] = step;
    }
    assert_true(g->outputs.count <= MOST_OUTPUTS);
    OK(cx, tcc_graph_eval(g, inputs, outputs, &cx->diag));
    int found = 0;
    for (int o = 0; o < g->outputs.count; o++) {
        for (int i = 0; i < NAMES; i++) {
            if (strcmp(names[i].name, g->outputs.data[o].name)) continue;
            unsigned char bytes[MOST_BYTES] = {0};
            value_store(&outputs[o], bytes);
            if (!names[i].rounds) assert_memory_equal(bytes, got->bytes[i], MOST_BYTES);
            for (int e = 0; e < 33 && names[i].rounds; e++) {
                float have;
                memcpy(&have, got->bytes[i] + 4 * e, 4);
                /* 1 + 2 z, of which z is within 2^-22 of itself, and each of the two ops rounds */
                const double want = outputs[o].f[e], z = (want - 1) / 2;
                assert_true(fabs(have - want) <= 0x1p-21 * fabs(z) + 0x1p-23 * fabs(want));
            }
            found++;
        }
        tcc_value_free(&outputs[o]);
    }
    assert_int_equal(found, NAMES);
    for (int i = 0; i < g->inputs.count; i++) tcc_value_free(&inputs[i]);
    free(inputs);
    tcc_graph_destroy(g);
}

void random_draws_are_the_interpreters(const char *device) {
    static const tcc_mode modes[] = {TCC_MODE_DEFAULT, TCC_MODE_EAGER, TCC_MODE_REDUCE_OVERHEAD};
    static record first[STEPS + 1], r;
    static const bool plain = false, more = true;
    tcc_context *cx;
    OK(NULL, tcc_context_create(&cx));
    for (int k = 0; k < 4; k++) { /* the last one has other draws, too */
        tcc_model *m = make(cx, device, k < 3 ? modes[k] : TCC_MODE_DEFAULT, k < 3 ? &plain : &more);
        for (int step = 0; step <= STEPS; step++) {
            OK(cx, tcc_model_evaluate(m, NULL, 0));
            read_draws(cx, m, k ? &r : &first[step]);
            if (k) check_equal(&r, &first[step], k < 3 ? "mode" : "with others", step);
            else check_interpreted(cx, m, &first[step], step);
            if (step == STEPS) break;
            OK(cx, tcc_model_train(m, NULL, 0));
            read_draws(cx, m, &r);
            check_equal(&r, &first[step], "training", step);
            if (step) check_other(&r, &first[step - 1]);
        }
        tcc_model_destroy(m);
    }
    tcc_context_destroy(cx);
}

/* A model that goes on at step 2 draws what one draws that has come there. */
void random_draws_resume(const char *device) {
    static record whole, resumed;
    static const bool plain = false;
    tcc_context *cx;
    OK(NULL, tcc_context_create(&cx));
    tcc_model *m = make(cx, device, TCC_MODE_DEFAULT, &plain), *other = make(cx, device, TCC_MODE_DEFAULT, &plain);
    for (int step = 0; step < 3; step++) OK(cx, tcc_model_train(m, NULL, 0));
    read_draws(cx, m, &whole);
    tcc_model_set_step(other, 2);
    OK(cx, tcc_model_train(other, NULL, 0));
    read_draws(cx, other, &resumed);
    check_equal(&whole, &resumed, "resumed", 2);
    tcc_model_destroy(m);
    tcc_model_destroy(other);
    tcc_context_destroy(cx);
}
