/* SPDX-License-Identifier: MIT
 * Random networks: from the input to the loss, and how they are trained. */
#include "harness/net_random.h"

#include "harness/net_maker.h"

#include <stdio.h>

enum { ROOM = 120 }; /* steps that a block and the end may take */

typedef struct value {
    int v;
    net_form form;
} value;

/* Whether its values are such that no cache holds a step's: only then a step of no budget computes anything again. */
static bool is_large(const user_maker *m) { return m->most > 600000; }

/* -- Inputs -- */

static int image(user_maker *m, const net_options *o, int spatial) {
    static const int64_t extents[4][8] = {
        {0}, {32, 37, 64, 100, 128, 256, 500, 512}, {8, 11, 12, 16, 20, 24, 28, 32}, {4, 5, 6, 7, 8, 8, 9, 10}};
    const bool large = is_large(m);
    int64_t dims[5] = {o->small ? 2 : large ? USER_ONE_OF(m, 32, 64) : USER_ONE_OF(m, 4, 8, 8, 16, 16, 32, 64, 5)};
    const int64_t extent = o->small ? 4 + user_below(m, 5)
                                    : extents[spatial][large ? 3 + user_below(m, 5) : user_below(m, 5)];
    dims[1] = USER_ONE_OF(m, 1, 3, 3, 16, 16, 32);
    for (int d = 0; d < spatial; d++) dims[2 + d] = user_chance(m, 80) ? extent : extent - 1;
    if (m->few) {
        dims[0] = large ? 64 : 16;
        for (int d = 0; d < spatial; d++) dims[2 + d] = spatial == 3 ? 8 : spatial == 1 ? 128 : large ? 28 : 16;
    }
    int x = user_new_input(m, TCC_F32, USER_FILL_UNIFORM, 0, 2 + spatial, dims);
    return user_chance(m, 70) ? net_dressing(m, net_conv(m, x, net_channels(m)), NET_IMAGE, 70) : x;
}

static int sequence(user_maker *m, const net_options *o) {
    int64_t dims[3] = {o->small ? 2 : USER_ONE_OF(m, 4, 4, 8, 16), USER_ONE_OF(m, 8, 12, 16, 16, 32, 32, 64, 17),
                       net_width(m, 1)};
    if (m->few) dims[0] = 8, dims[1] = 16;
    if (o->small) dims[1] = 4 + user_below(m, 6), dims[2] = USER_ONE_OF(m, 16, 32, 24);
    if (user_chance(m, 35)) return user_new_input(m, TCC_F32, USER_FILL_UNIFORM, 0, 3, dims);
    const int64_t rows = USER_ONE_OF(m, 20, 100, 256, 1000);
    int x = user_new_input(m, TCC_I32, user_chance(m, 80) ? USER_FILL_INDEX : USER_FILL_STRAY, rows, 2, dims);
    x = net_step(m, (user_step){.op = USER_embedding,
                                .n_args = 1,
                                .args = {x},
                                .n_ints = 4,
                                .ints = {rows, dims[2], user_chance(m, 20), user_below(m, rows)}});
    return user_chance(m, 60) ? user_op2(m, USER_add, x, user_param(m, 0.5, 2, dims + 1)) : x;
}

static value begin(user_maker *m, const net_options *o) {
    const int kind = (int)user_below(m, 20);
    const int64_t dims[2] = {o->small ? 4 : m->few ? 16 : USER_ONE_OF(m, 8, 16, 32, 64), net_width(m, 1)};
    if (kind < 9) return (value){image(m, o, 2), NET_IMAGE};
    if (kind < 12) return (value){image(m, o, 1), NET_IMAGE};
    if (kind < 13) return (value){image(m, o, 3), NET_IMAGE};
    if (kind < 18) return (value){sequence(m, o), NET_SEQUENCE};
    return (value){user_new_input(m, TCC_F32, USER_FILL_UNIFORM, 0, 2, dims), NET_VECTOR};
}

/* -- Between -- */

/* Now and then an image becomes a sequence of patches, and a vector an image, as in a generator. */
static value other_form(user_maker *m, value x) {
    const int64_t channels = user_dim(m, x.v, 1), each = net_each(m, x.v);
    const int64_t patches[] = {-1, channels, each / channels}, square[] = {-1, 32, 4, 4};
    if (x.form == NET_IMAGE && each / channels <= 64 && each / channels > 3 && user_chance(m, 12)) {
        x.v = net_channels_last(m, user_op_ints(m, USER_reshape, x.v, 3, patches));
        x.form = NET_SEQUENCE;
    } else if (x.form == NET_VECTOR && user_chance(m, 30)) {
        int y = net_linear(m, x.v, 32 * 16);
        x.v = user_op_ints(m, USER_reshape, net_dressing(m, y, NET_VECTOR, 40), 4, square);
        x.form = NET_IMAGE;
    }
    return x;
}

static int block(user_maker *m, value x) {
    return x.form == NET_IMAGE      ? net_image_block(m, x.v)
           : x.form == NET_SEQUENCE ? net_sequence_block(m, x.v)
                                    : net_vector_block(m, x.v);
}

/* -- How it is trained -- */

static void choose_training(user_maker *m) {
    static const char *const budgets[] = {"min", "50%", "70%"};
    user_program *p = m->p;
    tcc_optimizer_init(&p->optimizer, (tcc_optimizer_kind)USER_ONE_OF(m, TCC_SGD, TCC_SGD, TCC_ADAM, TCC_ADAMW));
    if (p->optimizer.kind == TCC_SGD && user_chance(m, 50)) p->optimizer.momentum = 0.9;
    if (user_chance(m, 25)) p->optimizer.weight_decay = 0.01;
    p->keep_gradients = user_chance(m, 70);
    const int precision = (int)user_below(m, 10), kind = (int)user_below(m, 12);
    if (precision > 6) p->precision = precision < 9 ? TCC_MIXED_BF16 : TCC_MIXED_FP16;
    if (kind < 3) p->memory_budget = budgets[kind];
    if (kind == 3) p->segment_steps = 3 + (int)user_below(m, 12);
    if (kind == 4 || kind == 5) p->batch_accumulate = USER_ONE_OF(m, 2, 2, 4, 3);
    if (kind == 6) p->chunk_rows = USER_ONE_OF(m, 16, 32, 64);
}

const char *net_random(const net_options *options, uint64_t seed, user_program *out) {
    static user_maker maker; /* large */
    static const user_random_options exact = {0};
    user_maker *m = &maker;
    if (!user_maker_begin(m, &exact, seed, out)) return "out of memory";
    const bool large = !options->small && user_chance(m, 40);
    m->work = large ? 4e8 : options->small ? 3e5 : 1e8;
    m->most = large ? 1600000 : options->small ? 8000 : 300000;
    m->few = options->few;
    choose_training(m);
    value x = begin(m, options);
    int aside = -1, blocks = 1 + (int)user_below(m, options->few ? 1 : options->small ? 3 : 6);
    for (int i = 0; i < blocks && m->work > 0 && out->n_steps < USER_STEPS - ROOM; i++) {
        x.v = block(m, x);
        if (i + 1 < blocks && user_chance(m, 8) && aside < 0) aside = net_loss(m, x.v, x.form);
        x = other_form(m, x);
    }
    int loss = net_loss(m, x.v, x.form);
    if (aside >= 0) loss = user_op2(m, USER_add, loss, user_op_real(m, USER_scale, aside, 0.3));
    user_step end = {.op = USER_loss, .n_args = 1, .args = {loss}};
    user_emit(m, &end);
    return user_maker_end(m);
}
