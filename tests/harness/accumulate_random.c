/* SPDX-License-Identifier: MIT
 * Networks are of every layer that has no statistics of the batch; losses are those of losses.h and what users write by
 * hand, one to three of them added up. */
#include "harness/accumulate_random.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 6, STEPS = 4, CLASSES = 5, SIDE = 4, MOST_ROWS = 20, IGNORED = 9, MOST_PARTS = 3 };

#define TRY(call)                              \
    do {                                       \
        const tcc_status status_ = (call);     \
        if (status_ != TCC_OK) return status_; \
    } while (0)

/* -- Choices -- */

typedef struct pair {
    uint64_t state;
    int64_t rows, parts;
    int network, n_losses, losses[MOST_PARTS];
    double scales[MOST_PARTS];
    uint64_t details; /* of what the network and the losses choose for themselves: the same in each trace */
    tcc_trace *t;
    tcc_tensor features, steps, weights, targets; /* [N, WIDTH], [N, STEPS, WIDTH] or none, [N], i32 [N] */
} pair;

static uint64_t draw(uint64_t *state) { /* splitmix64 (Steele et al. 2014) */
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int below(uint64_t *state, int n) { return (int)(draw(state) % (uint64_t)n); }
static double uniform(uint64_t *state) { return (double)(draw(state) >> 11) * 0x1p-53; }

/* -- Networks: features [N, WIDTH], and those of steps where there are such -- */

static tcc_tensor activated(pair *p, tcc_tensor x) {
    switch (below(&p->state, 5)) {
    case 0: return tcc_tanh(x);
    case 1: return tcc_gelu(x);
    case 2: return tcc_silu(x);
    case 3: return tcc_leaky_relu(x, 0.1);
    default: return tcc_softplus(x);
    }
}

static void dense(pair *p) {
    tcc_tensor h = tcc_linear(tcc_input(p->t, "x"), "in", 2 * WIDTH);
    if (below(&p->state, 2)) h = tcc_layer_norm(h, "norm");
    h = activated(p, h);
    if (below(&p->state, 2)) h = tcc_rms_norm(h, "rms");
    p->features = tcc_linear(h, "out", WIDTH);
    if (below(&p->state, 2)) p->features = tcc_add(p->features, tcc_input(p->t, "x"));
}

static void images(pair *p) {
    tcc_tensor h = tcc_conv_layer(tcc_input(p->t, "image"), "conv", 4, 3, .padding = 1);
    if (below(&p->state, 2)) h = tcc_group_norm(h, "group", 2);
    if (below(&p->state, 3) == 0) h = tcc_instance_norm(h, "instance");
    h = activated(p, h);
    switch (below(&p->state, 3)) {
    case 0: h = tcc_max_pool(h, 2); break;
    case 1: h = tcc_avg_pool(h, 2); break;
    default: h = tcc_conv_transpose_layer(h, "up", 3, 2, .stride = 2); break;
    }
    p->features = tcc_linear(tcc_flatten(h, 1), "out", WIDTH);
}

static void attends(pair *p) {
    tcc_tensor h = tcc_embedding(tcc_input(p->t, "tokens"), "embedding", CLASSES, WIDTH);
    if (below(&p->state, 2)) {
        static const double places[STEPS] = {0, 1, 2, 3};
        tcc_tensor at = tcc_cast(tcc_literal(p->t, places, TCC_F32, TCC_DIMS(STEPS)), TCC_I32);
        h = tcc_add(h, tcc_embedding(at, "place", STEPS, WIDTH));
    }
    h = tcc_add(h, tcc_multi_head_attention(h, h, h, "attention", 2, .causal = below(&p->state, 2)));
    p->steps = tcc_linear(activated(p, tcc_layer_norm(h, "norm")), "mlp", WIDTH);
    p->features = below(&p->state, 2) ? tcc_mean(p->steps, TCC_DIMS(1))
                                      : tcc_linear(tcc_flatten(p->steps, 1), "out", WIDTH);
}

static void recurs(pair *p) {
    const bool first = below(&p->state, 2), both = below(&p->state, 3) == 0;
    tcc_tensor x = tcc_embedding(tcc_input(p->t, "tokens"), "embedding", CLASSES, WIDTH);
    if (!first) x = tcc_transpose(x, TCC_DIMS(1, 0, 2));
    const tcc_recurrent_states s = below(&p->state, 2)
                                       ? tcc_gru(x, "rnn", WIDTH, .batch_first = first, .bidirectional = both)
                                       : tcc_lstm(x, "rnn", WIDTH, .batch_first = first, .bidirectional = both);
    p->steps = first ? s.all : tcc_transpose(s.all, TCC_DIMS(1, 0, 2));
    if (both) p->steps = tcc_linear(p->steps, "join", WIDTH);
    p->features = tcc_linear(tcc_flatten(p->steps, 1), "out", WIDTH);
}

/* Steps first, and then all rows of all steps at once. */
static void time_major(pair *p) {
    const int64_t n = tcc_dim(tcc_input(p->t, "sequence"), 0);
    tcc_tensor x = tcc_transpose(tcc_input(p->t, "sequence"), TCC_DIMS(1, 0, 2));
    tcc_tensor h = activated(p, tcc_linear(tcc_reshape(x, TCC_DIMS(STEPS * n, WIDTH)), "in", WIDTH));
    h = tcc_layer_norm(tcc_linear(h, "hidden", WIDTH), "norm");
    p->steps = tcc_transpose(tcc_reshape(h, TCC_DIMS(STEPS, n, WIDTH)), TCC_DIMS(1, 0, 2));
    p->features = tcc_sum(p->steps, TCC_DIMS(1));
}

/* Two views of a sample through one network: the second behind the first along the batch. */
static void siamese(pair *p) {
    tcc_tensor x = tcc_input(p->t, "x"), u = tcc_input(p->t, "u");
    const int64_t n = tcc_dim(x, 0);
    tcc_tensor both = tcc_concat(((tcc_tensor[]){x, u}), 2, 0);
    tcc_tensor h = tcc_linear(activated(p, tcc_linear(both, "in", WIDTH)), "out", WIDTH);
    tcc_tensor a = tcc_slice(h, 0, 0, n), b = tcc_slice(h, 0, n, 2 * n);
    p->features = below(&p->state, 2) ? tcc_add(a, tcc_scale(b, 0.5)) : tcc_mul(a, tcc_tanh(b));
}

static const struct network {
    const char *name;
    void (*make)(pair *p);
} networks[] = {{"dense", dense},   {"images", images},         {"attention", attends},
                {"recurs", recurs}, {"time major", time_major}, {"siamese", siamese}};
enum { NETWORKS = sizeof networks / sizeof networks[0] };

/* -- What losses read -- */

static tcc_tensor target(pair *p) { return tcc_input(p->t, "u"); }
static tcc_tensor mask(pair *p) { return tcc_cast(tcc_ne(p->targets, tcc_full_like(p->targets, IGNORED)), TCC_F32); }
static tcc_tensor row_errors(pair *p) { return tcc_mean(tcc_square(tcc_sub(p->features, target(p))), TCC_DIMS(1)); }
static tcc_tensor logits(pair *p) { return tcc_slice(p->features, 1, 0, CLASSES); }

/* -- Losses that are never refused -- */

static tcc_tensor entropy(pair *p) {
    static const double values[CLASSES] = {1, 0.5, 2, 0.25, 3};
    tcc_tensor weights = tcc_literal(p->t, values, TCC_F32, TCC_DIMS(CLASSES));
    const tcc_cross_entropy_options o = {.size = sizeof o,
                                         .has_ignore_index = true,
                                         .ignore_index = IGNORED,
                                         .label_smoothing = below(&p->state, 2) ? 0.1 : 0,
                                         .weight = below(&p->state, 2) ? &weights : NULL};
    return tcc_cross_entropy_at(tcc_cast(logits(p), TCC_F32), p->targets, &o, TCC_HERE);
}

static tcc_tensor likelihood(pair *p) {
    static const double values[CLASSES] = {1, 0.5, 2, 0.25, 3};
    tcc_tensor weights = tcc_literal(p->t, values, TCC_F32, TCC_DIMS(CLASSES));
    const tcc_cross_entropy_options o = {.size = sizeof o,
                                         .has_ignore_index = true,
                                         .ignore_index = IGNORED,
                                         .weight = below(&p->state, 2) ? &weights : NULL};
    return tcc_nll_loss_at(tcc_log_softmax(tcc_cast(logits(p), TCC_F32), -1), p->targets, &o, TCC_HERE);
}

/* Rows of a cross-entropy, weighed by sample and by class. */
static tcc_tensor entropy_rows(pair *p) {
    tcc_tensor rows = tcc_cross_entropy(tcc_cast(logits(p), TCC_F32), p->targets, .has_ignore_index = true,
                                        .ignore_index = IGNORED, .reduction = TCC_REDUCE_NONE);
    switch (below(&p->state, 3)) {
    case 0: return tcc_mean(rows, TCC_ALL);
    case 1: return tcc_div(tcc_sum(tcc_mul(rows, p->weights), TCC_ALL), tcc_sum(p->weights, TCC_ALL));
    default: return tcc_div(tcc_sum(rows, TCC_ALL), tcc_sum(mask(p), TCC_ALL));
    }
}

static tcc_tensor entropy_of_steps(pair *p) {
    if (!p->steps.trace) return entropy(p);
    tcc_tensor x = tcc_cast(tcc_linear(p->steps, "step_logits", CLASSES), TCC_F32), y = tcc_input(p->t, "step_targets");
    if (below(&p->state, 2))
        return tcc_cross_entropy(tcc_transpose(x, TCC_DIMS(0, 2, 1)), y, .axis = 1, .has_ignore_index = true,
                                 .ignore_index = IGNORED);
    const int64_t all = tcc_dim(x, 0) * STEPS;
    return tcc_cross_entropy(tcc_reshape(x, TCC_DIMS(all, CLASSES)), tcc_reshape(y, TCC_DIMS(all)),
                             .has_ignore_index = true, .ignore_index = IGNORED);
}

static tcc_tensor soft_entropy(pair *p) {
    tcc_tensor soft = tcc_softmax(target(p), -1);
    return tcc_cross_entropy(tcc_cast(p->features, TCC_F32), soft, .label_smoothing = 0.05);
}

static tcc_loss_reduction reduction(pair *p) {
    static const tcc_loss_reduction all[] = {TCC_REDUCE_MEAN, TCC_REDUCE_SUM, TCC_REDUCE_BATCH_MEAN};
    return all[below(&p->state, 3)];
}

static tcc_tensor regression(pair *p) {
    tcc_tensor x = tcc_cast(p->features, TCC_F32), u = target(p);
    const tcc_loss_options o = {.size = sizeof o, .reduction = reduction(p)};
    switch (below(&p->state, 4)) {
    case 0: return tcc_mse_loss_at(x, u, &o, TCC_HERE);
    case 1: return tcc_l1_loss_at(x, u, &o, TCC_HERE);
    case 2: return tcc_smooth_l1_loss_at(x, u, &o, TCC_HERE);
    default: return tcc_huber_loss_at(x, u, &o, TCC_HERE);
    }
}

static tcc_tensor binary(pair *p) {
    tcc_tensor u = tcc_sigmoid(target(p)), weight = tcc_expand_dims(p->weights, TCC_DIMS(1));
    const tcc_loss_options o = {
        .size = sizeof o, .reduction = reduction(p), .weight = below(&p->state, 2) ? &weight : NULL};
    if (below(&p->state, 2)) return tcc_bce_with_logits_at(tcc_cast(p->features, TCC_F32), u, &o, TCC_HERE);
    return tcc_bce_loss_at(tcc_sigmoid(tcc_cast(p->features, TCC_F32)), u, &o, TCC_HERE);
}

static tcc_tensor divergence(pair *p) {
    return tcc_kl_div(tcc_log_softmax(tcc_cast(p->features, TCC_F32), -1), tcc_softmax(target(p), -1),
                      .reduction = reduction(p));
}

static tcc_tensor embeddings(pair *p) {
    tcc_tensor x = tcc_cast(p->features, TCC_F32), u = target(p), v = tcc_input(p->t, "v");
    tcc_tensor signs = tcc_select(tcc_gt(p->weights, tcc_full_like(p->weights, 1)), tcc_full_like(p->weights, 1),
                                  tcc_full_like(p->weights, -1));
    switch (below(&p->state, 3)) {
    case 0: return tcc_triplet_margin_loss(x, u, v, .swap = below(&p->state, 2));
    case 1: return tcc_cosine_embedding_loss(x, u, signs, .margin = 0.1);
    default: return tcc_hinge_embedding_loss(tcc_sum(x, TCC_DIMS(1)), signs);
    }
}

static tcc_tensor overlaps(pair *p) {
    const int64_t n = tcc_dim(p->features, 0);
    tcc_tensor x = tcc_reshape(tcc_sigmoid(tcc_cast(p->features, TCC_F32)), TCC_DIMS(n, 2, 3));
    tcc_tensor u = tcc_reshape(tcc_sigmoid(target(p)), TCC_DIMS(n, 2, 3));
    return below(&p->state, 2) ? tcc_dice_loss(x, u) : tcc_jaccard_loss(x, u);
}

static tcc_tensor frames(pair *p) {
    if (!p->steps.trace) return regression(p);
    tcc_tensor x = tcc_log_softmax(tcc_cast(tcc_linear(p->steps, "frames", CLASSES), TCC_F32), -1);
    return tcc_ctc_loss(tcc_transpose(x, TCC_DIMS(1, 0, 2)), tcc_input(p->t, "text"), tcc_input(p->t, "n_frames"),
                        tcc_input(p->t, "n_text"), .reduction = below(&p->state, 2) ? TCC_REDUCE_MEAN : TCC_REDUCE_SUM);
}

/* Means over what a mask leaves, as users write them. */
static tcc_tensor masked(pair *p) {
    tcc_tensor m = mask(p), sum = tcc_sum(tcc_mul(row_errors(p), m), TCC_ALL), count = tcc_sum(m, TCC_ALL);
    tcc_tensor one = tcc_full_like(count, 1);
    switch (below(&p->state, 7)) {
    case 0: return tcc_div(sum, count);
    case 1: return tcc_div(sum, tcc_max(count, one));
    case 2: return tcc_div(sum, tcc_add_scalar(count, 1e-6));
    case 3: return tcc_select(tcc_gt(count, tcc_full_like(count, 0)), tcc_div(sum, tcc_max(count, one)), one);
    case 4: return tcc_mul(sum, tcc_reciprocal(count));
    case 5: return tcc_div(tcc_mean(tcc_mul(row_errors(p), m), TCC_ALL), tcc_mean(m, TCC_ALL));
    default: return tcc_sum(tcc_div(tcc_mul(row_errors(p), m), count), TCC_ALL);
    }
}

/* Weights that the batch normalizes. */
static tcc_tensor weighed(pair *p) {
    tcc_tensor w = p->weights, e = row_errors(p);
    switch (below(&p->state, 6)) {
    case 0: return tcc_sum(tcc_mul(e, tcc_div(w, tcc_sum(w, TCC_ALL))), TCC_ALL);
    case 1: return tcc_mean(tcc_mul(e, tcc_div(w, tcc_mean(w, TCC_ALL))), TCC_ALL);
    case 2: return tcc_mean(tcc_mul(e, tcc_div(w, tcc_reduce_max(w, TCC_ALL))), TCC_ALL);
    case 3:
        w = tcc_div(w, tcc_mean(w, TCC_ALL));
        return tcc_div(tcc_sum(tcc_mul(e, w), TCC_ALL), tcc_sum(tcc_square(w), TCC_ALL));
    case 4:
        w = tcc_sub(w, tcc_reduce_min(w, TCC_ALL));
        return tcc_div(tcc_sum(tcc_mul(e, w), TCC_ALL), tcc_sum(w, TCC_ALL));
    default: {
        tcc_tensor away = tcc_sub(w, tcc_mean(w, TCC_ALL));
        away = tcc_div(away, tcc_add_scalar(tcc_std(w, 1, TCC_ALL), 0.1));
        return tcc_mean(tcc_mul(e, tcc_square(away)), TCC_ALL);
    }
    }
}

/* Means for each class, of the classes that are there. */
static tcc_tensor by_class(pair *p) {
    tcc_tensor hot = tcc_one_hot(p->targets, CLASSES, TCC_F32), e = tcc_expand_dims(row_errors(p), TCC_DIMS(1));
    tcc_tensor count = tcc_sum(hot, TCC_DIMS(0)), sum = tcc_sum(tcc_mul(hot, e), TCC_DIMS(0));
    return tcc_mean(tcc_div(sum, tcc_max(count, tcc_full_like(count, 1))), TCC_ALL);
}

/* A part that the batch is no part of, and a factor that is trained. */
static tcc_tensor regularized(pair *p) {
    tcc_tensor w = tcc_param(p->t, "scale", ((tcc_init){.kind = TCC_INIT_CONSTANT, .a = 0.3}), TCC_DIMS(3));
    tcc_tensor size = tcc_mean(tcc_square(w), TCC_ALL), e = tcc_mean(row_errors(p), TCC_ALL);
    tcc_tensor factor = tcc_exp(tcc_sum(w, TCC_ALL)), columns;
    switch (below(&p->state, 4)) {
    case 0: return tcc_add(e, size);
    case 1: return tcc_mul(e, factor);
    case 2:
        columns = tcc_mean(tcc_square(tcc_sub(p->features, target(p))), TCC_DIMS(0));
        return tcc_mean(tcc_linear_scan(w, tcc_slice(columns, 0, 0, 3), 0), TCC_ALL);
    default: return tcc_add(tcc_div(e, factor), tcc_log(factor));
    }
}

/* The gradient of a product by the samples, whose size is a part of the loss. */
static tcc_tensor penalized(pair *p) {
    tcc_tensor x = tcc_input(p->t, "u"), scores = tcc_linear(tcc_tanh(tcc_linear(x, "critic", WIDTH)), "score", 3);
    tcc_tensor y = tcc_prod(scores, TCC_KEEP(1));
    tcc_tensor g = tcc_cast(tcc_gradient(tcc_sum(y, TCC_ALL), x), TCC_F32);
    tcc_tensor size = tcc_sum(tcc_square(g), TCC_DIMS(1)),
               penalty = tcc_mean(tcc_square(tcc_add_scalar(size, -1)), TCC_ALL);
    return tcc_add(tcc_mean(tcc_cast(y, TCC_F32), TCC_ALL), tcc_add(penalty, tcc_mean(row_errors(p), TCC_ALL)));
}

/* Statistics of the batch alone normalize the target. */
static tcc_tensor standardized(pair *p) {
    tcc_tensor u = target(p), mean = tcc_mean(u, TCC_DIMS(0)), spread = tcc_std(u, 0, TCC_DIMS(0));
    tcc_tensor at = tcc_div(tcc_sub(u, mean), tcc_add_scalar(spread, 1e-3));
    return tcc_mean(tcc_square(tcc_sub(tcc_cast(p->features, TCC_F32), at)), TCC_ALL);
}

/* A buffer that the step updates is as before the step for all samples. */
static tcc_tensor buffered(pair *p) {
    tcc_tensor state = tcc_state(p->t, "state", ((tcc_init){.kind = TCC_INIT_CONSTANT, .a = 0.5}), TCC_DIMS(WIDTH));
    tcc_tensor e = tcc_square(tcc_sub(tcc_cast(p->features, TCC_F32), state));
    if (tcc_is_training(p->t)) tcc_update(state, tcc_scale(tcc_add(state, tcc_mean(target(p), TCC_DIMS(0))), 0.9));
    return tcc_mean(e, TCC_ALL);
}

/* -- Losses that may be refused -- */

static tcc_tensor nonlinear(pair *p) {
    tcc_tensor m = tcc_mean(row_errors(p), TCC_ALL);
    switch (below(&p->state, 6)) {
    case 0: return tcc_log(m);
    case 1: return tcc_sqrt(m);
    case 2: return tcc_square(m);
    case 3: return tcc_max(m, tcc_full_like(m, 0.5));
    case 4: return tcc_mul(m, tcc_mean(tcc_abs(p->features), TCC_ALL));
    default: return tcc_div(m, tcc_add_scalar(tcc_sum(tcc_abs(p->features), TCC_ALL), 1));
    }
}

static tcc_tensor across(pair *p) {
    tcc_tensor x = tcc_cast(p->features, TCC_F32), e = row_errors(p);
    const int64_t n = tcc_dim(x, 0);
    switch (below(&p->state, 9)) {
    case 0: return tcc_reduce_max(e, TCC_ALL);
    case 1: return tcc_std(e, 0, TCC_ALL);
    case 2: return tcc_mean(tcc_square(tcc_matmul(x, tcc_transpose(x, TCC_DIMS(1, 0)))), TCC_ALL);
    case 3: return tcc_mean(tcc_cumsum(e, 0), TCC_ALL);
    case 4: return tcc_mean(tcc_softmax(e, 0), TCC_ALL);
    case 5: return tcc_mean(tcc_square(tcc_sub(x, tcc_roll(x, 0, 1))), TCC_ALL);
    case 6: return tcc_mean(tcc_mul(e, tcc_cast(tcc_iota(p->t, 0, TCC_F32, TCC_DIMS(n)), TCC_F32)), TCC_ALL);
    case 7: return tcc_sum(tcc_slice(e, 0, 0, 1 + n / 2), TCC_ALL);
    default: return tcc_mean(tcc_square(tcc_sub(x, tcc_mean(x, TCC_DIMS(0)))), TCC_ALL);
    }
}

/* Linear in sums over the batch, though it is not their sum: may be had. */
static tcc_tensor moments(pair *p) {
    tcc_tensor x = tcc_cast(p->features, TCC_F32), u = target(p);
    const int64_t n = tcc_dim(x, 0);
    switch (below(&p->state, 3)) {
    case 0: return tcc_sum(tcc_scale(tcc_matmul(tcc_transpose(u, TCC_DIMS(1, 0)), x), 1 / (double)n), TCC_ALL);
    case 1: return tcc_mean(tcc_mul(tcc_mean(x, TCC_DIMS(0)), tcc_mean(u, TCC_DIMS(0))), TCC_ALL);
    default: return tcc_sum(tcc_square(tcc_mean(x, TCC_DIMS(0))), TCC_ALL);
    }
}

static const struct part {
    const char *name;
    tcc_tensor (*make)(pair *p);
    bool may_be_refused;
} losses[] = {{"entropy", entropy, false},
              {"likelihood", likelihood, false},
              {"entropy rows", entropy_rows, false},
              {"entropy of steps", entropy_of_steps, false},
              {"soft entropy", soft_entropy, false},
              {"regression", regression, false},
              {"binary", binary, false},
              {"divergence", divergence, false},
              {"embeddings", embeddings, false},
              {"overlaps", overlaps, false},
              {"frames", frames, false},
              {"masked", masked, false},
              {"weighed", weighed, false},
              {"by class", by_class, false},
              {"regularized", regularized, false},
              {"penalized", penalized, false},
              {"standardized", standardized, false},
              {"buffered", buffered, false},
              {"nonlinear", nonlinear, true},
              {"across", across, true},
              {"moments", moments, true}};
enum { LOSSES = sizeof losses / sizeof losses[0] };

static void make_pair(pair *p, uint64_t seed) {
    uint64_t state = seed * 2654435761u + 17;
    *p = (pair){.network = below(&state, NETWORKS), .n_losses = 1 + below(&state, MOST_PARTS)};
    p->parts = 2 + below(&state, 4);
    p->rows = p->parts * (1 + below(&state, 4));
    if (below(&state, 3) == 0) p->rows += below(&state, (int)p->parts); /* uneven */
    if (p->rows > MOST_ROWS) p->rows = MOST_ROWS;
    for (int i = 0; i < p->n_losses; i++) {
        bool twice = true; /* parameters have names of their own */
        while (twice) {
            p->losses[i] = below(&state, LOSSES);
            twice = losses[p->losses[i]].may_be_refused && i; /* one such is enough */
            for (int k = 0; k < i; k++) twice |= p->losses[k] == p->losses[i];
            if (p->losses[i] == 18 || p->losses[i] == 19) twice |= below(&state, 2); /* less of these */
        }
        p->scales[i] = below(&state, 2) ? 1 : 0.25 + uniform(&state);
    }
    p->details = draw(&state);
}

static void net(tcc_trace *t, void *user) {
    pair *p = user;
    p->t = t;
    p->state = p->details;
    p->steps = (tcc_tensor){0};
    p->targets = tcc_input(t, "targets"), p->weights = tcc_input(t, "weights");
    networks[p->network].make(p);
    tcc_tensor loss = {0};
    for (int i = 0; i < p->n_losses; i++) {
        tcc_tensor part = tcc_cast(losses[p->losses[i]].make(p), TCC_F32);
        if (p->scales[i] != 1) part = tcc_scale(part, p->scales[i]);
        loss = i ? tcc_add(loss, part) : part;
    }
    tcc_loss(t, loss);
}

/* -- The batch -- */

typedef struct batch {
    float x[MOST_ROWS * WIDTH], u[MOST_ROWS * WIDTH], v[MOST_ROWS * WIDTH], image[MOST_ROWS * 2 * SIDE * SIDE],
        sequence[MOST_ROWS * STEPS * WIDTH], weights[MOST_ROWS];
    int32_t targets[MOST_ROWS], tokens[MOST_ROWS * STEPS], step_targets[MOST_ROWS * STEPS], text[MOST_ROWS * 2],
        n_frames[MOST_ROWS], n_text[MOST_ROWS];
} batch;

static void draw_floats(uint64_t *state, float *x, int count) {
    for (int i = 0; i < count; i++) x[i] = (float)(2 * uniform(state) - 1);
}

static void make_batch(uint64_t seed, batch *b) {
    uint64_t state = seed ^ 0x5bd1e995;
    const int ignored = below(&state, 4); /* of four; all of a micro-batch now and then */
    draw_floats(&state, b->x, MOST_ROWS * WIDTH);
    draw_floats(&state, b->u, MOST_ROWS * WIDTH);
    draw_floats(&state, b->v, MOST_ROWS * WIDTH);
    draw_floats(&state, b->image, MOST_ROWS * 2 * SIDE * SIDE);
    draw_floats(&state, b->sequence, MOST_ROWS * STEPS * WIDTH);
    for (int i = 0; i < MOST_ROWS; i++) {
        b->weights[i] = (float)(0.1 + 2 * uniform(&state));
        b->targets[i] = i && below(&state, 4) < ignored ? IGNORED : below(&state, CLASSES);
        b->n_frames[i] = STEPS - below(&state, 2);
        b->n_text[i] = 1 + below(&state, 2);
        for (int k = 0; k < 2; k++) b->text[2 * i + k] = 1 + 2 * k + below(&state, 2);
        for (int k = 0; k < STEPS; k++) {
            b->tokens[i * STEPS + k] = below(&state, CLASSES);
            b->step_targets[i * STEPS + k] = (i || k) && below(&state, 4) < ignored ? IGNORED : below(&state, CLASSES);
        }
    }
}

/* -- One step -- */

enum { MOST_GRADIENTS = 64, MOST_VALUES = 1 << 14 };

typedef struct step {
    double loss;
    int n_gradients, n_values, begins[MOST_GRADIENTS + 1];
    char names[MOST_GRADIENTS][64];
    float values[MOST_VALUES];
} step;

static tcc_status read_gradients(tcc_model *m, step *out) {
    tcc_array a, g;
    for (int i = 0; tcc_model_param(m, i, &a); i++) {
        if (!tcc_model_param_is_trained(m, i)) continue;
        TRY(tcc_model_gradient(m, a.name, &g));
        int64_t count = 1;
        for (int d = 0; d < g.rank; d++) count *= g.dims[d];
        if (out->n_gradients == MOST_GRADIENTS || out->n_values + count > MOST_VALUES) return TCC_ENOMEM;
        snprintf(out->names[out->n_gradients], sizeof out->names[0], "%s", a.name);
        out->begins[out->n_gradients++] = out->n_values;
        memcpy(out->values + out->n_values, g.data, (size_t)count * sizeof(float));
        out->n_values += (int)count;
    }
    out->begins[out->n_gradients] = out->n_values;
    return TCC_OK;
}

/* What runs a step: one process with the whole batch, in `parts` micro-batches, or a rank with `rows` rows of it. */
typedef struct place {
    const char *device;
    tcc_mixed_precision precision;
    int64_t parts, begin, rows;
    tcc_comm *comm; /* NULL: there are no ranks */
} place;

static tcc_status run_step(tcc_context *cx, pair *p, const batch *b, const place *at, step *out) {
    const int64_t n = at->rows;
    tcc_array arrays[] = {{"x", TCC_F32, 2, {n, WIDTH}, (void *)b->x},
                          {"u", TCC_F32, 2, {n, WIDTH}, (void *)b->u},
                          {"v", TCC_F32, 2, {n, WIDTH}, (void *)b->v},
                          {"image", TCC_F32, 4, {n, 2, SIDE, SIDE}, (void *)b->image},
                          {"sequence", TCC_F32, 3, {n, STEPS, WIDTH}, (void *)b->sequence},
                          {"weights", TCC_F32, 1, {n}, (void *)b->weights},
                          {"targets", TCC_I32, 1, {n}, (void *)b->targets},
                          {"tokens", TCC_I32, 2, {n, STEPS}, (void *)b->tokens},
                          {"step_targets", TCC_I32, 2, {n, STEPS}, (void *)b->step_targets},
                          {"text", TCC_I32, 2, {n, 2}, (void *)b->text},
                          {"n_frames", TCC_I32, 1, {n}, (void *)b->n_frames},
                          {"n_text", TCC_I32, 1, {n}, (void *)b->n_text}};
    const tcc_model_options o = {.size = sizeof o,
                                 .device = at->device,
                                 .seed = 5,
                                 .keep_gradients = true,
                                 .mixed_precision = at->precision,
                                 .batch_accumulate = at->parts,
                                 .comm = at->comm};
    tcc_model *m;
    *out = (step){0};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        int64_t row_bytes = 4;
        for (int d = 1; d < arrays[i].rank; d++) row_bytes *= arrays[i].dims[d];
        arrays[i].data = (char *)arrays[i].data + at->begin * row_bytes;
    }
    TRY(tcc_model_create(cx, net, p, &o, &m));
    tcc_status status = tcc_model_train(m, arrays, sizeof arrays / sizeof arrays[0]);
    if (status == TCC_OK) {
        out->loss = tcc_model_loss(m);
        status = read_gradients(m, out);
    }
    tcc_model_destroy(m);
    return status;
}

/* -- The comparison -- */

static const double in_f32 = 2e-4, in_bf16 = 3e-2; /* what is allowed */

static double norm(const float *x, const float *y, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += ((double)x[i] - (y ? y[i] : 0)) * ((double)x[i] - (y ? y[i] : 0));
    return sqrt(sum);
}

static void note(accumulate_result *out, double ratio, const char *name, double got, double want) {
    if (!(ratio > out->worst)) return;
    out->worst = ratio;
    snprintf(out->text, sizeof out->text, "%s: %.9g instead of %.9g, %.3g times what is allowed", name, got, want,
             ratio);
}

/* In L2, relative to the gradient and to all of them together. */
static void compare(const step *got, const step *want, double tolerance, accumulate_result *out) {
    const double all = norm(want->values, NULL, want->n_values);
    const bool finite = isfinite(want->loss) && isfinite(all);
    note(out, finite ? fabs(got->loss - want->loss) / (tolerance * fmax(1, fabs(want->loss))) : 0, "loss", got->loss,
         want->loss);
    if (!finite && isfinite(got->loss)) note(out, INFINITY, "loss", got->loss, want->loss);
    for (int i = 0; i < want->n_gradients && finite; i++) {
        const float *x = got->values + want->begins[i], *y = want->values + want->begins[i];
        const int count = want->begins[i + 1] - want->begins[i];
        const double far = norm(x, y, count), allowed = tolerance * (norm(y, NULL, count) + 0.05 * all) + 1e-7;
        note(out, isfinite(far) ? far / allowed : INFINITY, want->names[i], norm(x, NULL, count), norm(y, NULL, count));
    }
    out->verdict = out->worst <= 1 ? ACCUMULATE_EQUAL : ACCUMULATE_DIFFERENT;
}

/* -- Ranks: the bits of micro-batches -- */

typedef struct rank {
    pair p;
    const batch *b;
    place at;
    tcc_context *cx;
    pthread_t thread;
    tcc_status status;
    step out;
} rank;

static void *run_rank(void *user) {
    rank *r = user;
    r->status = run_step(r->cx, &r->p, r->b, &r->at, &r->out);
    return NULL;
}

/* The gradient that differs most, relative to its norm. */
static double most_apart(const step *got, const step *want, const char **name) {
    double most = 0;
    *name = "none";
    for (int i = 0; i < want->n_gradients && got->n_values == want->n_values; i++) {
        const float *x = got->values + want->begins[i], *y = want->values + want->begins[i];
        const int count = want->begins[i + 1] - want->begins[i];
        const double apart = norm(x, y, count) / fmax(norm(y, NULL, count), 1e-30);
        if (apart > most) most = apart, *name = want->names[i];
    }
    return most;
}

static void judge_rank(const rank *r, int number, const step *want, accumulate_result *out) {
    const bool same = r->out.n_values == want->n_values && !memcmp(&r->out.loss, &want->loss, sizeof want->loss) &&
                      !memcmp(r->out.values, want->values, sizeof *want->values * (size_t)want->n_values);
    if (same && r->status == TCC_OK) return;
    const char *name;
    const double apart = most_apart(&r->out, want, &name);
    out->verdict = ACCUMULATE_DIFFERENT;
    snprintf(out->text, sizeof out->text, "rank %d: loss %.9g, not %.9g; gradients are %.2g apart in %s; %s", number,
             r->out.loss, want->loss, apart, name, tcc_context_error(r->cx));
}

/* As many ranks as micro-batches that gave `want`. */
static void compare_ranks(const pair *p, const batch *b, const place *micro, const step *want, accumulate_result *out) {
    enum { MOST_RANKS = MOST_ROWS };
    const int64_t each = (p->rows + p->parts - 1) / p->parts;
    const int size = (int)((p->rows + each - 1) / each);
    rank *ranks = calloc(MOST_RANKS, sizeof *ranks);
    tcc_context *contexts[MOST_RANKS] = {NULL};
    tcc_comm *comms[MOST_RANKS] = {NULL};
    bool made = ranks != NULL;
    for (int r = 0; r < size && made; r++) made = tcc_context_create(&contexts[r]) == TCC_OK;
    made = made && tcc_comm_create_local(contexts, size, comms) == TCC_OK;
    for (int r = 0; r < size && made; r++) {
        const int64_t left = p->rows - r * each;
        ranks[r] = (rank){.p = *p, .b = b, .at = *micro, .cx = contexts[r]};
        ranks[r].at.parts = 0, ranks[r].at.comm = comms[r];
        ranks[r].at.begin = r * each, ranks[r].at.rows = left < each ? left : each;
        made = !pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]);
    }
    for (int r = 0; r < size && made; r++) pthread_join(ranks[r].thread, NULL);
    for (int r = 0; r < size && made; r++) judge_rank(&ranks[r], r, want, out);
    if (!made) out->verdict = ACCUMULATE_DIFFERENT;
    for (int r = 0; r < size; r++) tcc_comm_destroy(comms[r]), tcc_context_destroy(contexts[r]);
    free(ranks);
}

static void describe(const pair *p, tcc_mixed_precision precision, accumulate_result *out) {
    int n = snprintf(out->network, sizeof out->network, "%s%s, %d in %d:", precision ? "bf16 " : "",
                     networks[p->network].name, (int)p->rows, (int)p->parts);
    for (int i = 0; i < p->n_losses; i++)
        n += snprintf(out->network + n, sizeof out->network - (size_t)n, "%s %s", i ? "," : "",
                      losses[p->losses[i]].name);
}

/* The loss's line is told. One sample has no deviation. */
static bool is_refusal(const char *error, bool may_be_refused) {
    if (!strstr(error, "accumulate_random.c:")) return false;
    return (may_be_refused && strstr(error, "batch_accumulate: this ")) ||
           (strstr(error, "std: 1 elements") && strstr(error, "batch_accumulate: a micro-batch has 1 of "));
}

/* Some networks make more of rounding than others: how much, the whole batch's own difference from float32 says. The
 * micro-batches may be off by a few times that in bf16, if they are right in float32. */
static void forgive_rounding(tcc_context *cx, pair *p, const batch *b, const place *micro, const step *whole,
                             accumulate_result *out) {
    static _Thread_local step exact, exact_parts;
    const double few = 3;
    place at = {.device = micro->device, .rows = p->rows};
    accumulate_result own = {0}, in_parts = {0};
    if (run_step(cx, p, b, &at, &exact) != TCC_OK) return;
    at.parts = micro->parts;
    if (run_step(cx, p, b, &at, &exact_parts) != TCC_OK) return;
    compare(whole, &exact, in_bf16, &own);
    compare(&exact_parts, &exact, in_f32, &in_parts);
    if (in_parts.verdict == ACCUMULATE_EQUAL && out->worst <= few * own.worst) out->verdict = ACCUMULATE_EQUAL;
}

void accumulate_random(uint64_t seed, tcc_mixed_precision precision, const char *device, accumulate_result *out) {
    static _Thread_local step want, got;
    static _Thread_local batch b;
    pair p;
    tcc_context *cx;
    bool may_be_refused = false;
    *out = (accumulate_result){.verdict = ACCUMULATE_DIFFERENT};
    make_pair(&p, seed);
    make_batch(seed, &b);
    describe(&p, precision, out);
    for (int i = 0; i < p.n_losses; i++) may_be_refused |= losses[p.losses[i]].may_be_refused;
    if (tcc_context_create(&cx) != TCC_OK) return;
    place at = {.device = device, .precision = precision, .rows = p.rows};
    tcc_status status = run_step(cx, &p, &b, &at, &want);
    if (status == TCC_OK) {
        at.parts = p.parts;
        status = run_step(cx, &p, &b, &at, &got);
        if (status == TCC_OK) compare(&got, &want, precision ? in_bf16 : in_f32, out);
        if (status == TCC_OK && precision && out->verdict == ACCUMULATE_DIFFERENT)
            forgive_rounding(cx, &p, &b, &at, &want, out);
        if (status == TCC_OK && out->verdict == ACCUMULATE_EQUAL && seed % 8 == 0 && !strcmp(device, "cpu"))
            compare_ranks(&p, &b, &at, &got, out);
        else if (status == TCC_EINVAL && is_refusal(tcc_context_error(cx), may_be_refused))
            out->verdict = ACCUMULATE_REFUSED;
    }
    if (status != TCC_OK) snprintf(out->text, sizeof out->text, "%s", tcc_context_error(cx));
    tcc_context_destroy(cx);
}
