/* SPDX-License-Identifier: MIT
 * Training on several ranks. N ranks with a part of the batch each give the bits of one rank that takes the batch in N
 * micro-batches: losses, parameters, averages, states, the scale of the loss. And what all are told where ranks differ
 * or one of them fails. */
#include "harness/accumulate_cases.h"
#include "harness/check.h"
#include "harness/optimizer.h"
#include "harness/patience.h"

#include <traincc/traincc.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 14, WIDTH = 6, CLASSES = 5, STEPS = 4, MOST_RANKS = 4, MOST_BYTES = 1 << 22, WIDE = 400 };

typedef struct test_case {
    const char *name;
    tcc_model_fn net;
    tcc_optimizer_options optimizer;
    tcc_model_options options;
} test_case;

/* -- Models -- */

/* Targets of 9 do not count: all of one part, and some of others. Masks are drawn. */
static void counted(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor logits = tcc_linear(tcc_dropout(tcc_layer_norm(used_twice(t, WIDTH), "norm"), 0.2), "out", CLASSES);
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y"), .has_ignore_index = true, .ignore_index = 9));
}

/* Totals of two levels, a maximum among them, and a number that is added once for the whole batch. */
static void totals(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_input(t, "x"), h = used_twice(t, WIDTH),
               w = tcc_param(t, "w", (tcc_init){TCC_INIT_NORMAL, .b = 1}, TCC_DIMS(WIDTH));
    tcc_tensor shifted = tcc_sub(x, tcc_reduce_max(x, TCC_ALL)), size = tcc_sum(tcc_mul(shifted, shifted), TCC_ALL);
    tcc_tensor part = tcc_div(tcc_sum(tcc_mul(h, h), TCC_ALL), size);
    tcc_loss(t, tcc_add(part, tcc_sum(tcc_mul(w, w), TCC_ALL)));
}

/* The root of a mean is no sum over micro-batches; the caller's weight makes it one. */
static void weighed(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = used_twice(t, WIDTH);
    tcc_loss(t, tcc_sqrt(tcc_mean(tcc_mul(h, h), TCC_ALL)));
    tcc_loss_weight(t, tcc_constant(t, (double)tcc_dim(h, 0), TCC_F32, 0, NULL));
}

/* Gradients that take more than one bucket. */
static void wide(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_tanh(tcc_linear(used_twice(t, WIDTH), "in", WIDE));
    h = tcc_tanh(tcc_linear(tcc_tanh(tcc_linear(h, "first", WIDE)), "second", WIDE));
    tcc_loss(t, tcc_mean(tcc_mul(h, h), TCC_ALL));
}

/* Parameters that have fewer elements than there are ranks, or do not divide among them, and one that is frozen. */
static void small(tcc_trace *t, void *user) {
    (void)user;
    const tcc_init init = {TCC_INIT_CONSTANT, .a = 0.7};
    tcc_tensor gain = tcc_param(t, "gain", init, 0, NULL), shift = tcc_param(t, "shift", init, TCC_DIMS(WIDTH));
    tcc_tensor h = tcc_add(tcc_mul(used_twice(t, WIDTH), gain), shift), y = tcc_linear(h, "odd", 3);
    tcc_loss(t, tcc_mean(tcc_mul(tcc_mul(y, y), tcc_param(t, "frozen", init, TCC_DIMS(3))), TCC_ALL));
}

/* -- Runs -- */

typedef struct values {
    double loss[STEPS];
    size_t bytes;
    char v[MOST_BYTES]; /* of all that a checkpoint has */
} values;

static float x[STEPS][ROWS * WIDTH];
static int32_t y[STEPS][ROWS];

static void make_data(void) {
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < ROWS * WIDTH; i++) x[step][i] = (float)((i * 37 + step * 11) % 101) / 50 - 1;
        for (int i = 0; i < ROWS; i++) y[step][i] = i / 4 == 1 || (i * 7 + step) % 5 == 0 ? 9 : (i + step) % CLASSES;
    }
}

/* Rows of a part: what one rank takes as micro-batch, the last may be smaller. The last batch has 10 rows. */
static int64_t make_batch(int step, int part, int parts, tcc_array *batch) {
    const int64_t all = step == STEPS - 1 ? 10 : ROWS, each = (all + parts - 1) / parts, begin = part * each;
    const int64_t rows = all - begin < each ? all - begin : each;
    batch[0] = (tcc_array){"x", TCC_F32, 2, {rows, WIDTH}, x[step] + begin * WIDTH};
    batch[1] = (tcc_array){"y", TCC_I32, 1, {rows}, y[step] + begin};
    return rows;
}

static void append(values *to, const tcc_array *a) {
    int64_t bytes = a->dtype == TCC_I64 ? 8 : 4;
    for (int d = 0; d < a->rank; d++) bytes *= a->dims[d];
    assert_true(to->bytes + (size_t)bytes <= MOST_BYTES);
    memcpy(to->v + to->bytes, a->data, (size_t)bytes);
    to->bytes += (size_t)bytes;
}

typedef struct rank {
    const test_case *c;
    tcc_context *cx;
    tcc_comm *comm; /* NULL: it is alone, */
    int parts;      /* and takes so many micro-batches */
    pthread_t thread;
    values out;
    size_t parameter_bytes;
    int64_t skipped;
    tcc_status status;
    char text[2048];
    int wrong;  /* what this rank does otherwise than the others */
    int traces; /* of its model's function: it made programs */
} rank;

enum { NOTHING, OTHER_LR, OTHER_GROUP, OTHER_WEIGHTS, OTHER_NAMES, OTHER_STEP, NO_ROWS, DAMAGE, ENDS, FAULTS };

static void trace(tcc_trace *t, void *user) {
    rank *r = user;
    r->traces++;
    r->c->net(t, NULL);
}

static tcc_status make_model(rank *r, tcc_model **m) {
    tcc_model_options o = r->c->options;
    tcc_optimizer_options optimizer = r->c->optimizer;
    o.size = sizeof o;
    o.seed = 7;
    o.optimizer = &optimizer;
    o.comm = r->comm;
    if (r->wrong == OTHER_LR) optimizer.lr *= 2;
    tcc_param_group group;
    tcc_param_group_init(&group, "twice");
    if (r->wrong == OTHER_GROUP) group.lr_scale = 2, optimizer.groups = &group, optimizer.n_groups = 1;
    if (!r->comm) o.batch_accumulate = r->parts;
    return tcc_model_create(r->cx, trace, r, &o, m);
}

static tcc_status train_steps(rank *r, tcc_model *m) {
    const int part = r->comm ? tcc_comm_rank(r->comm) : 0, count = r->c->net == counted ? 2 : 1;
    if (r->wrong == OTHER_STEP) tcc_model_set_step(m, 3);
    for (int step = 0; step < STEPS; step++) {
        tcc_array batch[2], w;
        make_batch(step, part, r->comm ? tcc_comm_size(r->comm) : 1, batch);
        if (r->wrong == OTHER_NAMES) batch[0].name = "z";
        if (r->wrong == NO_ROWS && step == 1) batch[0].dims[0] = batch[1].dims[0] = 0;
        if (r->wrong == ENDS && step == 1) return TCC_OK;
        if (r->wrong == OTHER_WEIGHTS) {
            TCC_TRY(tcc_model_evaluate(m, batch, count));
            if (!tcc_model_find_param(m, "twice", &w)) return TCC_ENOTFOUND;
            ((float *)w.data)[3] += 1;
        }
        TCC_TRY(tcc_model_train(m, batch, count));
        TCC_TRY(tcc_model_step_loss(m, tcc_model_step(m) - 1, &r->out.loss[step]));
    }
    tcc_array a;
    double scale;
    for (int averages = r->c->optimizer.ema_decay > 0; averages >= 0; averages--) {
        if (r->c->optimizer.ema_decay > 0) TCC_TRY(tcc_model_use_ema(m, averages));
        else TCC_TRY(tcc_model_gather_states(m)); /* parameters that are in parts, too */
        for (int i = 0; tcc_model_param(m, i, &a); i++) append(&r->out, &a);
    }
    TCC_TRY(tcc_model_gather_states(m));
    r->parameter_bytes = r->out.bytes;
    for (int i = 0; tcc_model_optimizer_state(m, i, &a); i++) append(&r->out, &a);
    return r->c->options.mixed_precision == TCC_MIXED_FP16 ? tcc_model_loss_scale(m, &scale, &r->skipped) : TCC_OK;
}

/* Whether a bit of what this thread receives is another one on its way. */
static _Thread_local bool damages;

tcc_status __real_tcc_comm_broadcast(tcc_comm *c, int root, void *data, int64_t size_bytes);
tcc_status __wrap_tcc_comm_broadcast(tcc_comm *c, int root, void *data, int64_t size_bytes);
tcc_status __wrap_tcc_comm_broadcast(tcc_comm *c, int root, void *data, int64_t size_bytes) {
    const tcc_status status = __real_tcc_comm_broadcast(c, root, data, size_bytes);
    if (damages && size_bytes > 1000) ((char *)data)[size_bytes / 2] ^= 8;
    return status;
}

static void *run_rank(void *user) {
    rank *r = user;
    tcc_model *m;
    damages = r->wrong == DAMAGE;
    r->status = make_model(r, &m);
    if (r->status == TCC_OK) r->status = train_steps(r, m);
    if (r->status != TCC_OK) snprintf(r->text, sizeof r->text, "%s", tcc_context_error(r->cx));
    tcc_model_destroy(m);
    tcc_comm_destroy(r->comm);
    return NULL;
}

/* Trains on `size` ranks, each in a thread; 1: on one without a communicator, in `parts` micro-batches. */
static void train(const test_case *c, int size, int parts, int fault, rank *ranks) {
    tcc_context *contexts[MOST_RANKS] = {NULL};
    tcc_comm *comms[MOST_RANKS] = {NULL};
    for (int r = 0; r < size; r++) assert_int_equal(tcc_context_create(&contexts[r]), TCC_OK);
    if (size > 1) assert_int_equal(tcc_comm_create_local(contexts, size, comms), TCC_OK);
    for (int r = 0; r < size; r++) {
        ranks[r] = (rank){.c = c, .cx = contexts[r], .comm = comms[r], .parts = parts};
        if (comms[r]) tcc_comm_set_timeout(comms[r], test_seconds(60));
        if (r == size - 1) ranks[r].wrong = fault;
    }
    for (int r = 0; r < size; r++) assert_int_equal(pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]), 0);
    for (int r = 0; r < size; r++) pthread_join(ranks[r].thread, NULL);
    for (int r = 0; r < size; r++) tcc_context_destroy(contexts[r]);
}

static void compare(const test_case *c, int size) {
    static rank one, ranks[MOST_RANKS];
    train(c, 1, size, NOTHING, &one);
    if (one.status != TCC_OK) fail_msg("%s on one rank: %s", c->name, one.text);
    train(c, size, 1, NOTHING, ranks);
    for (int r = 0; r < size; r++) {
        if (ranks[r].status != TCC_OK) fail_msg("%s: rank %d of %d: %s", c->name, r, size, ranks[r].text);
        for (int i = 0; i < STEPS; i++)
            if (memcmp(&ranks[r].out.loss[i], &one.out.loss[i], sizeof(double)) != 0)
                fail_msg("%s: rank %d of %d: the loss of step %d is %.9g, not %.9g", c->name, r, size, i,
                         ranks[r].out.loss[i], one.out.loss[i]);
        assert_int_equal(ranks[r].parameter_bytes, one.parameter_bytes);
        assert_true(one.parameter_bytes > 0);
        const bool has_states = !c->options.shard_optimizer || !r; /* else rank 0 alone has them */
        if (has_states) assert_int_equal(ranks[r].out.bytes, one.out.bytes);
        if (memcmp(ranks[r].out.v, one.out.v, has_states ? one.out.bytes : one.parameter_bytes) != 0)
            fail_msg("%s: rank %d of %d ends with other bits", c->name, r, size);
        assert_int_equal(ranks[r].skipped, one.skipped);
        assert_true(r ? !ranks[r].traces : ranks[r].traces); /* rank 0 alone makes programs */
    }
    if (c->options.loss_scale) assert_true(one.skipped > 0 && one.skipped < STEPS);
    else assert_true(one.out.loss[0] != one.out.loss[1]);
}

static const test_case cases[] = {
    {.name = "counted", .net = counted, .optimizer = OPTIMIZER(TCC_ADAMW, 0.01, .clip_grad_norm = 0.1)},
    {.name = "totals",
     .net = totals,
     .optimizer = OPTIMIZER(TCC_SGD, 0.05, .momentum = 0.9, .clip_grad_norm = 0.5, .ema_decay = 0.8)},
    {.name = "weighed", .net = weighed, .optimizer = OPTIMIZER(TCC_LION, 0.001)},
    {.name = "bf16",
     .net = counted,
     .optimizer = OPTIMIZER(TCC_ADAMW, 0.01, .weight_decay = 0.1),
     .options = {.mixed_precision = TCC_MIXED_BF16, .memory_budget = "min"}},
    {.name = "fp16, with a scale that is too large",
     .net = counted,
     .optimizer = OPTIMIZER(TCC_ADAM, 0.01, .clip_grad_norm = 0.1),
     .options = {.mixed_precision = TCC_MIXED_FP16, .loss_scale = 1e6}},
    {.name = "wide",
     .net = wide,
     .optimizer = OPTIMIZER(TCC_SGD, 0.1, .clip_grad_norm = 0.01),
     .options = {.keep_gradients = true, .statistics = true, .detect_anomaly = true}},
    {.name = "eager", .net = totals, .optimizer = OPTIMIZER(TCC_ADAFACTOR, 0.01), .options = {.mode = TCC_MODE_EAGER}},
};
enum { CASES = sizeof cases / sizeof *cases };

#define FROZEN_GROUP                                              \
    .groups = &(tcc_param_group){.size = sizeof(tcc_param_group), \
                                 .match = "frozen",               \
                                 .lr_scale = 1,                   \
                                 .weight_decay = NAN,             \
                                 .beta1 = NAN,                    \
                                 .beta2 = NAN,                    \
                                 .momentum = NAN,                 \
                                 .frozen = true},                 \
    .n_groups = 1

static const test_case shared_out[] = {
    {.name = "small, shared out",
     .net = small,
     .optimizer = OPTIMIZER(TCC_ADAMW, 0.01, .weight_decay = 0.1, .clip_grad_norm = 0.5, .ema_decay = 0.8,
                            FROZEN_GROUP),
     .options = {.shard_optimizer = true, .keep_gradients = true, .statistics = true}},
    {.name = "fp16, shared out",
     .net = counted,
     .optimizer = OPTIMIZER(TCC_ADAM, 0.01, .clip_grad_norm = 0.1, .ema_decay = 0.9),
     .options = {.mixed_precision = TCC_MIXED_FP16, .loss_scale = 1e6, .shard_optimizer = true}},
    {.name = "wide, shared out",
     .net = wide,
     .optimizer = OPTIMIZER(TCC_LION, 0.001, .clip_grad_norm = 0.01),
     .options = {.shard_optimizer = true}},
    {.name = "parts of small gradients",
     .net = small,
     .optimizer = OPTIMIZER(TCC_SGD, 0.05, .momentum = 0.9, .clip_grad_norm = 0.5, .ema_decay = 0.8, FROZEN_GROUP),
     .options = {.shard_optimizer = true, .detect_anomaly = true}},
};

static void states_may_be_shared_out(void **state) {
    (void)state;
    compare(&shared_out[0], 4);
    compare(&shared_out[1], 2);
    compare(&shared_out[2], 3);
    compare(&shared_out[3], 4);
}

/* A rank of four keeps a quarter of each moment and average, rounded up; what is planned is what is bound. */
static void parts_take_less_memory(void **state) {
    (void)state;
    enum { RANKS = 4, SQUARE = WIDTH * WIDTH, ODD = 3 * WIDTH };
    static const int counts[] = {SQUARE, 1, WIDTH, ODD, 3};
    int64_t less = 0, bytes[2], bound[2];
    for (int i = 0; i < 5; i++) less += 3 * 4 * (counts[i] - (counts[i] + RANKS - 1) / RANKS);
    for (int shares = 0; shares < 2; shares++) {
        test_case c = shared_out[0];
        tcc_array batch[2], a;
        tcc_context *cx;
        tcc_comm *comm;
        tcc_model *m;
        tcc_memory_plan plan;
        tcc_program_info info;
        make_batch(0, 0, 1, batch);
        assert_int_equal(tcc_context_create(&cx), TCC_OK);
        assert_int_equal(tcc_comm_create_planned(cx, RANKS, "local", &comm), TCC_OK);
        c.options.optimizer = &c.optimizer;
        c.options.comm = comm;
        c.options.compile_only = true;
        c.options.shard_optimizer = shares;
        assert_int_equal(tcc_model_create(cx, c.net, NULL, &c.options, &m), TCC_OK);
        if (tcc_model_plan(m, true, batch, 1, &plan) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
        assert_int_equal(tcc_model_compile(m, true, batch, 1), TCC_OK);
        assert_int_equal(tcc_model_info(m, &info), TCC_OK);
        assert_false(tcc_model_optimizer_state(m, 99, &a));
        bytes[shares] = plan.state_bytes;
        bound[shares] = info.peak_bytes - info.arena_bytes;
        assert_int_equal(info.arena_bytes, plan.arena_bytes);
        tcc_model_destroy(m);
        tcc_comm_destroy(comm);
        tcc_context_destroy(cx);
    }
    assert_int_equal(bytes[0] - bytes[1], less);
    assert_int_equal(bound[0] - bound[1], less - 4 * 4); /* which rank it is, an input of four numbers */
}

static void ranks_are_micro_batches(void **state) {
    (void)state;
    for (int size = 2; size <= MOST_RANKS; size += 2) compare(&cases[0], size);
    for (int i = 1; i < CASES; i++) compare(&cases[i], i == 1 ? 3 : 2);
}

/* Gradients that travel in bf16 give nearly the same, on all ranks alike. */
static void reductions_may_be_in_bf16(void **state) {
    (void)state;
    static rank exact[MOST_RANKS], low[MOST_RANKS];
    test_case c = {.name = "in bf16", .net = counted, .optimizer = OPTIMIZER(TCC_SGD, 0.1)};
    train(&c, 3, 1, NOTHING, exact);
    c.options.reduce_in_bf16 = true;
    train(&c, 3, 1, NOTHING, low);
    for (int r = 0; r < 3; r++) {
        if (low[r].status != TCC_OK) fail_msg("rank %d: %s", r, low[r].text);
        assert_int_equal(low[r].out.bytes, exact[r].out.bytes);
        assert_memory_equal(low[r].out.v, low[0].out.v, low[0].out.bytes);
        assert_true(low[r].out.loss[0] == exact[r].out.loss[0]);
        assert_true(low[r].out.loss[STEPS - 1] != exact[r].out.loss[STEPS - 1]);
        assert_true(fabs(low[r].out.loss[STEPS - 1] - exact[r].out.loss[STEPS - 1]) < 1e-2);
    }
}

/* Ranks that train alike, and nearly as one that takes the whole batch. */
static void compare_nearly(const test_case *c, int size) {
    static rank one, ranks[MOST_RANKS];
    test_case whole = *c;
    whole.options = (tcc_model_options){0};
    train(&whole, 1, 0, NOTHING, &one);
    if (one.status != TCC_OK) fail_msg("%s on one rank: %s", c->name, one.text);
    train(c, size, 1, NOTHING, ranks);
    for (int r = 0; r < size; r++) {
        if (ranks[r].status != TCC_OK) fail_msg("%s: rank %d of %d: %s", c->name, r, size, ranks[r].text);
        assert_int_equal(ranks[r].out.bytes, ranks[0].out.bytes);
        assert_memory_equal(ranks[r].out.v, ranks[0].out.v, ranks[0].out.bytes);
        assert_true(r ? !ranks[r].traces : ranks[r].traces);
        for (int i = 0; i < STEPS; i++)
            if (!(fabs(ranks[r].out.loss[i] - one.out.loss[i]) < 1e-4 * fabs(one.out.loss[i])))
                fail_msg("%s: the loss of step %d is %.9g, not %.9g", c->name, i, ranks[r].out.loss[i],
                         one.out.loss[i]);
    }
}

/* What rank 0 measures all ranks run. And ranks that lack different programs: of 4, 4, 4 and 2 samples, in two
 * micro-batches each, with a budget for those of each. */
static void rank_0_makes_all_programs(void **state) {
    (void)state;
    const test_case tuned = {.name = "tuned",
                             .net = totals,
                             .optimizer = OPTIMIZER(TCC_SGD, 0.05),
                             .options = {.mode = TCC_MODE_MAX_AUTOTUNE, .autotune_budget_s = 0.5}};
    const test_case shared = {.name = "shared",
                              .net = totals,
                              .optimizer = OPTIMIZER(TCC_SGD, 0.05),
                              .options = {.batch_accumulate = 2, .memory_budget = "1 MiB"}};
    compare_nearly(&tuned, 2);
    compare_nearly(&shared, 3);
    compare_nearly(&shared, 4);
}

static void differences_are_told(void **state) {
    (void)state;
    static const struct {
        int fault;
        const char *on_others, *on_itself;
    } told[] = {
        {OTHER_LR, "rank 1 has other options than rank 0 before step 0: all ranks must begin alike",
         "rank 0 has other options than rank 1"},
        {OTHER_GROUP, "rank 1 has other options than rank 0", "rank 0 has other options than rank 1"},
        {OTHER_WEIGHTS, "rank 1 has other parameters or buffers than rank 0 before step 0",
         "rank 0 has other parameters"},
        {OTHER_NAMES, "the batches of rank 1 and rank 0 differ", "the batches of rank 0 and rank 1 differ"},
        {OTHER_STEP, "rank 1 is at training step 3, rank 0 at 0", "rank 0 is at training step 0, rank 1 at 3"},
        {NO_ROWS, "rank 1 gave up: batch array \"x\" is f32[0,6]: it has no sample", "it has no sample"},
        {DAMAGE, "rank 1 gave up: rank 0's program: ", "rank 0's program: "},
        {ENDS, "rank 1 is gone", NULL},
    };
    _Static_assert(sizeof told / sizeof *told == FAULTS - 1, "each fault");
    for (int i = 0; i < FAULTS - 1; i++) {
        static rank ranks[2];
        train(&cases[2], 2, 1, told[i].fault, ranks);
        assert_true(ranks[0].status == TCC_EINVAL || ranks[0].status == TCC_EIO);
        if (!strstr(ranks[0].text, told[i].on_others)) fail_msg("fault %d: rank 0: '%s'", i, ranks[0].text);
        assert_non_null(strstr(ranks[0].text, "in training step "));
        if (told[i].on_itself && !strstr(ranks[1].text, told[i].on_itself))
            fail_msg("fault %d: rank 1: '%s'", i, ranks[1].text);
    }
}

static void what_ranks_cannot_do_is_refused(void **state) {
    (void)state;
    tcc_context *contexts[2] = {NULL};
    tcc_comm *comms[2] = {NULL};
    tcc_model *m;
    static const tcc_optimizer_options adafactor = OPTIMIZER(TCC_ADAFACTOR, 0.01);
    for (int r = 0; r < 2; r++) assert_int_equal(tcc_context_create(&contexts[r]), TCC_OK);
    assert_int_equal(tcc_comm_create_local(contexts, 2, comms), TCC_OK);
    static const struct {
        tcc_model_options o;
        const char *text;
    } refused[] = {
        {{.keep_input_gradients = true}, "keep_input_gradients"},
        {{.arch = "sm_90"}, "comm"},
        {{.shard_optimizer = true, .optimizer = &adafactor}, "shard_optimizer: adafactor takes means"},
    };
    for (int i = 0; i < (int)(sizeof refused / sizeof *refused); i++) {
        tcc_model_options o = refused[i].o;
        o.size = sizeof o;
        o.comm = comms[0];
        assert_true(tcc_model_create(contexts[0], counted, NULL, &o, &m) != TCC_OK);
        assert_non_null(strstr(tcc_context_error(contexts[0]), refused[i].text));
    }
    const tcc_model_options o = {.size = sizeof o, .comm = comms[0]};
    assert_int_equal(tcc_model_create(contexts[1], counted, NULL, &o, &m), TCC_EINVAL);
    assert_non_null(strstr(tcc_context_error(contexts[1]), "comm: it is of another context"));
    for (int r = 0; r < 2; r++) tcc_comm_destroy(comms[r]), tcc_context_destroy(contexts[r]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_micro_batches),         cmocka_unit_test(reductions_may_be_in_bf16),
        cmocka_unit_test(rank_0_makes_all_programs),       cmocka_unit_test(differences_are_told),
        cmocka_unit_test(what_ranks_cannot_do_is_refused), cmocka_unit_test(states_may_be_shared_out),
        cmocka_unit_test(parts_take_less_memory),
    };
    make_data();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
