/* SPDX-License-Identifier: MIT
 * What lies in a segment is computed again with the same bits: networks of random blocks, each in a segment or not,
 * trained a few steps with nothing computed again, with segments, and with a budget beside them. Where a value would
 * change the order of a sum, it is kept, and the report says so. */
#include "harness/check.h"
#include "harness/optimizer.h"
#include "traincc/traincc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define D TCC_DIMS
enum { BATCH = 3, CHANNELS = 8, ROWS = 16, COLUMNS = 20, STEPS = 2, PIXELS = BATCH * CHANNELS * ROWS * COLUMNS };

typedef enum kind { IMAGES, TOKENS, LADDER } kind;
static const char *const kinds[] = {"images", "tokens", "a ladder"};

typedef struct network {
    unsigned seed;
    kind kind;
} network;

static unsigned draw(unsigned *state, unsigned below) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 16) % below;
}

static tcc_tensor activate(tcc_tensor x, unsigned kind) {
    switch (kind) {
    case 0: return tcc_relu(x);
    case 1: return tcc_silu(x);
    case 2: return tcc_gelu(x);
    case 3: return tcc_elu(x, 1);
    default: return tcc_tanh(x);
    }
}

static tcc_tensor normalize(tcc_tensor x, unsigned kind) {
    switch (kind) {
    case 0: return tcc_group_norm(x, "norm", 4);
    case 1: return tcc_batch_norm(x, "norm");
    case 2: return tcc_instance_norm(x, "norm");
    default: return x;
    }
}

static tcc_tensor image_block(tcc_tensor x, unsigned *state) {
    const unsigned norm = draw(state, 4), activation = draw(state, 5), kernel = 1 + 2 * draw(state, 2);
    tcc_tensor y = x;
    if (draw(state, 2)) { /* in front of the convolution */
        y = activate(normalize(y, norm), activation);
        return tcc_add(x, tcc_conv_layer(y, "conv", CHANNELS, kernel, .padding = kernel / 2));
    }
    y = activate(normalize(tcc_conv_layer(y, "conv", CHANNELS, kernel, .padding = kernel / 2), norm), activation);
    return draw(state, 2) ? tcc_add(x, y) : y;
}

static tcc_tensor token_block(tcc_tensor x, unsigned *state) {
    const unsigned kind = draw(state, 4), activation = draw(state, 5);
    tcc_tensor y = draw(state, 2) ? tcc_layer_norm(x, "norm") : tcc_rms_norm(x, "norm");
    if (kind == 0) y = tcc_multi_head_attention(y, y, y, "attention", 2, .causal = activation > 2);
    else if (kind == 1) y = tcc_lstm(y, "lstm", CHANNELS, .batch_first = true).all;
    else if (kind == 2) y = tcc_linear(activate(tcc_linear(y, "up", 4 * CHANNELS), activation), "down", CHANNELS);
    else y = tcc_mul(tcc_softmax(y, 2), tcc_linear(y, "gate", CHANNELS));
    return tcc_add(x, y);
}

/* Down and up again, where what is on the way up also reads the norm's activation from the way down: so its mean is
 * computed again without the variance that was made beside it. */
static tcc_tensor ladder(tcc_trace *t, tcc_tensor x) {
    x = tcc_max_pool(tcc_silu(tcc_conv_layer(x, "in", 2 * CHANNELS, 3, .padding = 1)), 2);
    tcc_checkpoint_segment(t);
    tcc_tensor down = tcc_silu(tcc_group_norm(tcc_conv_layer(x, "down", 2 * CHANNELS, 1), "norm", CHANNELS));
    tcc_checkpoint_segment_end(t);
    tcc_checkpoint_segment(t);
    tcc_tensor middle = tcc_silu(tcc_conv_layer(tcc_max_pool(down, 2), "middle", 2 * CHANNELS, 3, .padding = 1));
    tcc_checkpoint_segment_end(t);
    tcc_tensor both[] = {tcc_conv_transpose_layer(middle, "up", 2 * CHANNELS, 2, .stride = 2), down};
    return tcc_conv_layer(tcc_concat(both, 2, 1), "out", 4, 3, .padding = 1);
}

static void build(tcc_trace *t, void *user) {
    const network *n = user;
    const bool tokens = n->kind == TOKENS;
    unsigned state = n->seed;
    tcc_tensor x = tcc_input(t, "x");
    if (n->kind == LADDER) {
        x = ladder(t, x);
        tcc_loss(t, tcc_mean(tcc_square(x), TCC_ALL));
        return;
    }
    if (tokens) x = tcc_linear(tcc_reshape(x, D(BATCH * ROWS * 2, COLUMNS / 2, CHANNELS)), "in", CHANNELS);
    else x = tcc_conv_layer(x, "in", CHANNELS, 3, .padding = 1);
    const unsigned blocks = 2 + draw(&state, 2);
    for (unsigned i = 0; i < blocks; i++) {
        const bool marked = i == 0 || draw(&state, 4);
        if (marked) tcc_checkpoint_segment(t);
        tcc_scope(t, "block.%u", i);
        x = tokens ? token_block(x, &state) : image_block(x, &state);
        if (!tokens && draw(&state, 4) == 0) x = tcc_avg_pool(x, 2);
        tcc_scope_end(t);
        if (marked) tcc_checkpoint_segment_end(t);
    }
    tcc_loss(t, tcc_mean(tcc_square(x), TCC_ALL));
}

/* Losses, gradients of the last step and parameters after it, one behind the other. */
typedef struct result {
    double losses[STEPS];
    char *bytes;
    size_t size;
    char *report;
} result;

static void append(result *r, const tcc_array *a) {
    size_t n = a->dtype == TCC_F32 ? 4 : 2;
    for (int d = 0; d < a->rank; d++) n *= (size_t)a->dims[d];
    r->bytes = realloc(r->bytes, r->size + n);
    memcpy(r->bytes + r->size, a->data, n);
    r->size += n;
}

static void discard(result *r) {
    free(r->bytes);
    free(r->report);
}

static result train(const network *n, tcc_mixed_precision precision, tcc_checkpointing checkpointing,
                    const char *budget) {
    static float x[PIXELS];
    unsigned state = 99;
    for (int i = 0; i < PIXELS; i++) x[i] = (float)draw(&state, 2000) / 1000 - 1;
    const tcc_array batch = {"x", TCC_F32, 4, {BATCH, CHANNELS, ROWS, COLUMNS}, x};
    const tcc_model_options o = {.size = sizeof o,
                                 .seed = 5,
                                 .optimizer = OPTIMIZER_OF(TCC_SGD, 0.1),
                                 .keep_gradients = true,
                                 .mixed_precision = precision,
                                 .checkpointing = checkpointing,
                                 .memory_budget = budget};
    tcc_context *cx;
    tcc_model *m;
    tcc_array a;
    result r = {0};
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    if (tcc_model_create(cx, build, (void *)n, &o, &m) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    for (int i = 0; i < STEPS; i++) {
        if (tcc_model_train(m, &batch, 1) != TCC_OK) fail_msg("seed %u: %s", n->seed, tcc_context_error(cx));
        r.losses[i] = tcc_model_loss(m);
    }
    for (int i = 0; tcc_model_param(m, i, &a); i++) {
        append(&r, &a);
        if (tcc_model_param_is_trained(m, i) && tcc_model_gradient(m, a.name, &a) == TCC_OK) append(&r, &a);
    }
    assert_int_equal(tcc_model_report(m, "remat", &r.report), TCC_OK);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return r;
}

/* How many values were marked and kept. */
static int check(const network *n, tcc_mixed_precision precision) {
    const result all = train(n, precision, TCC_CHECKPOINTING_NONE, NULL);
    int refused = 0;
    for (int budget = 0; budget < 2; budget++) {
        result again = train(n, precision, TCC_CHECKPOINTING_SEGMENTS, budget ? "min" : NULL);
        const bool same = again.size == all.size && !memcmp(again.bytes, all.bytes, all.size) &&
                          !memcmp(again.losses, all.losses, sizeof all.losses);
        if (!same || !strstr(again.report, "computed again: "))
            fail_msg("%s of seed %u, precision %d%s: other bits, or no segment\n%s", kinds[n->kind], n->seed,
                     (int)precision, budget ? ", least budget" : "", again.report);
        const char *kept = strstr(again.report, "kept although marked: ");
        if (kept) {
            refused += atoi(kept + strlen("kept although marked: "));
            print_message("%s of seed %u: %s", kinds[n->kind], n->seed, kept);
        }
        discard(&again);
    }
    result gone = all;
    discard(&gone);
    return refused;
}

/* TCC_TEST_NETWORKS: from which seed on, and how many random networks of each kind. */
static void segments_change_no_bit(void **state) {
    (void)state;
    unsigned first = 2, count = 2;
    const network fixed = {0, LADDER};
    int refused = check(&fixed, TCC_MIXED_NONE);
    const char *asked = getenv("TCC_TEST_NETWORKS");
    if (asked) sscanf(asked, "%u,%u", &first, &count);
    for (unsigned i = first; i < first + count; i++)
        for (kind k = IMAGES; k < LADDER; k++) {
            const network n = {i, k};
            refused += check(&n, i % 3 ? TCC_MIXED_NONE : TCC_MIXED_BF16);
        }
    print_message("%d values were kept although marked\n", refused);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(segments_change_no_bit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
