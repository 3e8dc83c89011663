/* SPDX-License-Identifier: MIT
 * Weights that ranks keep in parts (options.shard_optimizer in mixed precision): those that products alone read. The
 * bits are those of whole weights; who asks for a weight gets it or is told; and what is sent and kept is less. */
#include "harness/check.h"
#include "harness/optimizer.h"
#include "harness/rank_threads.h"

#include "frontend/run/model.h"

#include <traincc/traincc.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { VOCAB = 37, WIDTH = 12, ROWS_EACH = 4, MOST_RANKS = 4, MOST_PARTS = 4, STEPS = 5, MOST_BYTES = 1 << 17 };

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

/* -- The model -- */

typedef enum how { IN_PARTS, WHOLE, READ_BOTH_WAYS } how;
typedef struct parameter {
    const char *name;
    int64_t numel;
    how how;
} parameter;
static const parameter parameters[] = {
    {"wte", VOCAB *WIDTH, IN_PARTS},         /* by a gather, and turned round by the product at the end */
    {"norm.weight", WIDTH, WHOLE},           /* in float32 */
    {"norm.bias", WIDTH, WHOLE},             /* */
    {"twice", WIDTH *WIDTH, IN_PARTS},       /* by two products */
    {"mixed", WIDTH *WIDTH, READ_BOTH_WAYS}, /* by a product, and in float32 */
    {"few.weight", WIDTH * 3, IN_PARTS},
    {"few.bias", 3, WHOLE},
    {"least.weight", 3, IN_PARTS}, /* fewer than ranks */
    {"least.bias", 1, WHOLE},
};
enum { PARAMETERS = sizeof parameters / sizeof *parameters };

static void net(tcc_trace *t, void *user) {
    const tcc_init init = {TCC_INIT_NORMAL, .b = 0.4};
    (void)user;
    tcc_tensor wte = tcc_param(t, "wte", init, TCC_DIMS(VOCAB, WIDTH));
    tcc_tensor h = tcc_layer_norm(tcc_take(wte, tcc_input(t, "x"), 0), "norm");
    tcc_tensor twice = tcc_param(t, "twice", init, TCC_DIMS(WIDTH, WIDTH));
    tcc_tensor mixed = tcc_param(t, "mixed", init, TCC_DIMS(WIDTH, WIDTH));
    h = tcc_matmul(tcc_tanh(tcc_matmul(h, twice)), twice);
    h = tcc_tanh(tcc_matmul(h, mixed));
    tcc_tensor least = tcc_linear(tcc_linear(h, "few", 3), "least", 1);
    tcc_tensor logits = tcc_matmul(h, tcc_transpose(wte, TCC_DIMS(1, 0)));
    tcc_output(t, "logits", tcc_cast(logits, TCC_F32));
    tcc_tensor loss = tcc_add(tcc_cross_entropy(logits, tcc_input(t, "y")), tcc_mean(tcc_mul(least, least), TCC_ALL));
    tcc_loss(t, tcc_add(loss, tcc_scale(tcc_sum(tcc_mul(mixed, mixed), TCC_ALL), 0.001)));
}

/* -- Runs -- */

typedef struct run {
    const char *name;
    tcc_optimizer_options optimizer;
    tcc_model_options options;
    int parts, ranks; /* rows of the step's batch are ROWS_EACH a part */
    bool scales;      /* a weight is set in the middle */
} run;

/* What a rank has seen, bit for bit. */
typedef struct rank {
    const run *of;
    int64_t length;
    char bytes[MOST_BYTES];
    int64_t sent[STEPS]; /* what it brought to be gathered in a step */
    int64_t skipped;
    tcc_status status;
    char text[1024];
} rank;

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static int64_t gathered; /* brought by all ranks together to be gathered */

static void count(int64_t bytes) {
    pthread_mutex_lock(&counting);
    gathered += bytes;
    pthread_mutex_unlock(&counting);
}

tcc_status __real_tcc_comm_start_all_gather(tcc_comm *c, const void *from, void *to, int64_t size_bytes, int64_t *id);
tcc_status __wrap_tcc_comm_start_all_gather(tcc_comm *c, const void *from, void *to, int64_t size_bytes, int64_t *id);
tcc_status __wrap_tcc_comm_start_all_gather(tcc_comm *c, const void *from, void *to, int64_t size_bytes, int64_t *id) {
    count(size_bytes);
    return __real_tcc_comm_start_all_gather(c, from, to, size_bytes, id);
}

tcc_status __real_tcc_comm_all_gather(tcc_comm *c, const void *from, void *to, int64_t size_bytes);
tcc_status __wrap_tcc_comm_all_gather(tcc_comm *c, const void *from, void *to, int64_t size_bytes);
tcc_status __wrap_tcc_comm_all_gather(tcc_comm *c, const void *from, void *to, int64_t size_bytes) {
    count(size_bytes);
    return __real_tcc_comm_all_gather(c, from, to, size_bytes);
}

/* What was gathered until now, while no rank does more. */
static tcc_status read_count(tcc_comm *comm, int64_t *out) {
    if (comm) TCC_TRY(tcc_comm_barrier(comm));
    *out = gathered;
    return comm ? tcc_comm_barrier(comm) : TCC_OK;
}

static void keep(rank *r, const void *data, int64_t bytes) {
    if (r->length + bytes > MOST_BYTES) abort();
    memcpy(r->bytes + r->length, data, (size_t)bytes);
    r->length += bytes;
}

static void keep_array(rank *r, const tcc_array *a) {
    int64_t bytes = a->dtype == TCC_I64 ? 8 : 4;
    for (int d = 0; d < a->rank; d++) bytes *= a->dims[d];
    keep(r, a->data, bytes);
}

static void make_batch(int step, int first, int rows, int32_t *x, int32_t *y, tcc_array *batch) {
    for (int i = 0; i < rows; i++) {
        x[i] = ((first + i) * 7 + step * 5) % VOCAB;
        y[i] = ((first + i) * 11 + step * 3) % VOCAB;
    }
    batch[0] = (tcc_array){"x", TCC_I32, 1, {rows}, x};
    batch[1] = (tcc_array){"y", TCC_I32, 1, {rows}, y};
}

static tcc_status wrong(rank *r, const char *what, const char *name) {
    snprintf(r->text, sizeof r->text, "%s %s", what, name);
    return TCC_EBUG;
}

static bool keeps_parts(const rank *r) {
    const tcc_model_options *o = &r->of->options;
    return r->of->ranks > 1 && o->shard_optimizer && o->mixed_precision && !o->keep_gradients && !o->statistics;
}

/* Each parameter is there, or all ways to it say why not. `whole`: they were gathered, or are averages. */
static tcc_status look_at_parameters(rank *r, tcc_context *cx, tcc_model *m, bool whole) {
    for (int i = 0; i < PARAMETERS; i++) {
        const parameter *p = &parameters[i];
        const bool there = whole || p->how != IN_PARTS || !keeps_parts(r);
        static _Thread_local float values[VOCAB * WIDTH];
        tcc_array a, to = {0};
        char text[128];
        snprintf(text, sizeof text, "parameter \"%s\" is shared out among ranks: call tcc_model_gather_states",
                 p->name);
        if (tcc_model_find_param(m, p->name, &a) != there) return wrong(r, "found or not:", p->name);
        if (!there && !strstr(tcc_context_error(cx), text)) return wrong(r, tcc_context_error(cx), p->name);
        if (there) to = a;
        else { /* its shape is that of the last time */
            to = (tcc_array){.name = p->name, .dtype = TCC_F32, .rank = 2, .dims = {p->numel / WIDTH, WIDTH}};
            if (!strcmp(p->name, "least.weight")) to.dims[0] = 1, to.dims[1] = 3;
        }
        to.data = values;
        if ((tcc_model_get_param(m, &to) == TCC_OK) != there) return wrong(r, "got or not:", p->name);
        if (!there && !strstr(tcc_context_error(cx), text)) return wrong(r, tcc_context_error(cx), p->name);
        if (there && memcmp(values, a.data, (size_t)p->numel * 4) != 0) return wrong(r, "two values of", p->name);
        if (whole) keep_array(r, &a);
    }
    return TCC_OK;
}

/* Evaluations are no collectives: rank 1 makes one more. */
static tcc_status look_at_answers(rank *r, tcc_model *m, int number) {
    int32_t x[ROWS_EACH], y[ROWS_EACH];
    tcc_array batch[2], logits;
    make_batch(100, 0, ROWS_EACH, x, y, batch);
    for (int i = 0; i <= (number == 1); i++) TCC_TRY(tcc_model_evaluate(m, batch, 2));
    TCC_TRY(tcc_model_output(m, "logits", &logits));
    keep_array(r, &logits);
    return TCC_OK;
}

/* On all ranks. */
static tcc_status set_weight(tcc_model *m) {
    float values[VOCAB * WIDTH];
    for (int i = 0; i < VOCAB * WIDTH; i++) values[i] = (float)(i % 13) / 20 - 0.3F;
    return tcc_model_set_param(m, &(tcc_array){"wte", TCC_F32, 2, {VOCAB, WIDTH}, values});
}

static tcc_status train(rank *r, tcc_context *cx, tcc_comm *comm, tcc_model *m) {
    const run *of = r->of;
    const int number = comm ? tcc_comm_rank(comm) : 0, rows = ROWS_EACH * of->parts / of->ranks;
    int32_t x[ROWS_EACH * MOST_PARTS], y[ROWS_EACH * MOST_PARTS];
    tcc_array batch[2], a;
    double loss, scale;
    for (int step = 0; step < STEPS; step++) {
        int64_t before, after;
        TCC_TRY(read_count(comm, &before));
        make_batch(step, number * rows, rows, x, y, batch);
        TCC_TRY(tcc_model_train(m, batch, 2));
        TCC_TRY(tcc_model_step_loss(m, step, &loss));
        keep(r, &loss, sizeof loss);
        TCC_TRY(read_count(comm, &after));
        r->sent[step] = after - before;
        if (step == 1) TCC_TRY(look_at_answers(r, m, number));
        if (step == 1) TCC_TRY(look_at_parameters(r, cx, m, false));
        if (step == 2 && of->scales) TCC_TRY(set_weight(m));
        if (step == 2 && of->scales) TCC_TRY(look_at_answers(r, m, number));
        if (step == 3) TCC_TRY(tcc_model_gather_states(m));
        if (step == 3) TCC_TRY(look_at_parameters(r, cx, m, true));
    }
    for (int averages = of->optimizer.ema_decay > 0; averages; averages = 0) {
        TCC_TRY(tcc_model_use_ema(m, true));
        TCC_TRY(look_at_answers(r, m, number));
        TCC_TRY(look_at_parameters(r, cx, m, true));
        TCC_TRY(tcc_model_use_ema(m, false));
    }
    TCC_TRY(look_at_answers(r, m, number));
    TCC_TRY(tcc_model_gather_states(m));
    TCC_TRY(look_at_parameters(r, cx, m, true));
    for (int i = 0; !number && tcc_model_optimizer_state(m, i, &a); i++) {
        if (strchr(a.name, '@') && strcmp(a.name, TCC_STEP_STATE) != 0 && *a.name != '@') return wrong(r, "", a.name);
        keep_array(r, &a);
    }
    return of->options.mixed_precision == TCC_MIXED_FP16 ? tcc_model_loss_scale(m, &scale, &r->skipped) : TCC_OK;
}

static void body(void *user, int number, tcc_context *cx, tcc_comm *comm) {
    rank *r = (rank *)user + number;
    tcc_model_options o = r->of->options;
    tcc_model *m = NULL;
    o.size = sizeof o;
    o.seed = 3;
    o.optimizer = &r->of->optimizer;
    o.comm = comm;
    r->status = tcc_model_create(cx, net, NULL, &o, &m);
    if (r->status == TCC_OK) r->status = train(r, cx, comm, m);
    if (r->status != TCC_OK && !*r->text) snprintf(r->text, sizeof r->text, "%s", tcc_context_error(cx));
    tcc_model_destroy(m);
}

static void do_run(const run *of, rank *out) {
    for (int r = 0; r < of->ranks; r++) out[r] = (rank){.of = of, .status = TCC_EIO};
    assert_true(run_rank_threads(of->ranks, body, out));
    for (int r = 0; r < of->ranks; r++)
        if (out[r].status != TCC_OK) fail_msg("%s: rank %d of %d: %s", of->name, r, of->ranks, out[r].text);
}

/* Ranks with parts are as others, as many or one with micro-batches. */
static void compare(const run *parts, const run *whole) {
    static rank others[MOST_RANKS], ranks[MOST_RANKS];
    do_run(whole, others);
    do_run(parts, ranks);
    for (int r = 0; r < parts->ranks; r++) {
        const rank *other = &others[whole->ranks > 1 ? r : 0];
        assert_int_equal(ranks[r].skipped, other->skipped);
        if (parts->options.loss_scale > 0) assert_true(other->skipped > 0 && other->skipped < STEPS);
        if (!r || whole->ranks > 1) assert_int_equal(ranks[r].length, other->length);
        for (int64_t i = 0; i < ranks[r].length; i++)
            if (ranks[r].bytes[i] != other->bytes[i])
                fail_msg("%s: rank %d of %d has other bits from byte %lld of %lld on", parts->name, r, parts->ranks,
                         (long long)i, (long long)other->length);
    }
}

static void bits_are_the_same(void **state) {
    (void)state;
    static const run runs[] = {
        {"AdamW in bf16",
         OPTIMIZER(TCC_ADAMW, 0.01, .weight_decay = 0.1, .clip_grad_norm = 0.5),
         {.mixed_precision = TCC_MIXED_BF16, .detect_anomaly = true},
         4,
         4,
         true},
        {"Adam and averages in fp16, which skips",
         OPTIMIZER(TCC_ADAM, 0.01, .ema_decay = 0.8),
         {.mixed_precision = TCC_MIXED_FP16, .loss_scale = 1 << 19},
         2,
         2},
        {"averages of SGD",
         OPTIMIZER(TCC_SGD, 0.1, .momentum = 0.9, .ema_decay = 0.8, .clip_grad_norm = 0.1),
         {.mixed_precision = TCC_MIXED_BF16},
         3,
         3,
         true},
        {"kept gradients",
         OPTIMIZER(TCC_LION, 0.001),
         {.mixed_precision = TCC_MIXED_BF16, .keep_gradients = true},
         2,
         2},
    };
    for (int i = 0; i < (int)(sizeof runs / sizeof *runs); i++) {
        run parts = runs[i], whole = runs[i];
        parts.options.shard_optimizer = true;
        whole.ranks = 1;
        whole.options.batch_accumulate = whole.parts;
        compare(&parts, &whole);
    }
    run parts = runs[0], whole;
    parts.name = "two micro-batches each";
    parts.ranks = 2;
    parts.options.batch_accumulate = 2;
    whole = parts;
    parts.options.shard_optimizer = true;
    compare(&parts, &whole);
}

/* -- What is sent and kept -- */

/* Elements of a rank's part, in whole blocks (passes/step_shard.c). */
static int64_t part_of(const parameter *p, int ranks) {
    int64_t block = 1;
    while (64 * block * block <= p->numel) block *= 2;
    const int64_t blocks = (p->numel + block - 1) / block;
    return (blocks + ranks - 1) / ranks * block;
}

static void copies_alone_are_gathered(void **state) {
    (void)state;
    static rank ranks[MOST_RANKS];
    for (int low = 0; low < 2; low++) {
        const run r = {"SGD",
                       OPTIMIZER(TCC_SGD, 0.1),
                       {.mixed_precision = low ? TCC_MIXED_BF16 : TCC_MIXED_NONE, .shard_optimizer = true},
                       4,
                       4};
        int64_t sent = r.ranks * 4 * 8; /* what they say when they meet before a step, four numbers */
        for (int i = 0; i < PARAMETERS; i++)
            sent += r.ranks * part_of(&parameters[i], r.ranks) * (low && parameters[i].how == IN_PARTS ? 2 : 4);
        do_run(&r, ranks);
        for (int step = 1; step < STEPS; step++) assert_int_equal(ranks[0].sent[step], sent);
    }
}

static tcc_memory_plan plan(int ranks, bool shares, int micro_batches, const char *arch, const char *budget) {
    static const tcc_optimizer_options adamw = OPTIMIZER(TCC_ADAMW, 1e-3);
    int32_t x[ROWS_EACH], y[ROWS_EACH];
    tcc_array batch[2];
    tcc_context *cx;
    tcc_comm *comm;
    tcc_model *m;
    tcc_memory_plan out;
    tcc_program_info info;
    make_batch(0, 0, ROWS_EACH, x, y, batch);
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    OK(cx, tcc_comm_create_planned(cx, ranks, "local", &comm));
    OK(cx, tcc_model_create(cx, net, NULL,
                            &(tcc_model_options){.optimizer = &adamw,
                                                 .comm = comm,
                                                 .mixed_precision = TCC_MIXED_BF16,
                                                 .shard_optimizer = shares,
                                                 .batch_accumulate = micro_batches,
                                                 .arch = arch,
                                                 .memory_budget = budget,
                                                 .compile_only = true},
                            &m));
    OK(cx, tcc_model_plan(m, true, batch, 2, &out));
    OK(cx, tcc_model_compile(m, true, batch, 2));
    OK(cx, tcc_model_info(m, &info));
    assert_int_equal(info.peak_bytes, out.arena_bytes + out.state_bytes + out.batch_bytes);
    tcc_model_destroy(m);
    tcc_comm_destroy(comm);
    tcc_context_destroy(cx);
    return out;
}

/* Of a weight in parts a rank has its copy, and its part of the weight and of two moments; of others their part of
 * these. */
static void a_rank_keeps_less(void **state) {
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks += 2)
        for (int micro = 1; micro <= 2; micro++) {
            const int64_t before = plan(ranks, false, micro, NULL, NULL).state_bytes,
                          after = plan(ranks, true, micro, NULL, NULL).state_bytes;
            int64_t less = 0;
            for (int i = 0; i < PARAMETERS; i++) {
                const parameter *p = &parameters[i];
                less += (p->how == IN_PARTS ? 12 : 8) * (p->numel - part_of(p, ranks));
            }
            assert_int_equal(before - after, less);
        }
}

/* A budget of what the least plan takes is enough: what no step touches counts in neither. Parts are planned for the
 * host alone: budgets leave out what a GPU has for parts that it receives. */
static void budgets_count_what_is_kept(void **state) {
    (void)state;
    for (int shares = 0; shares < 2; shares++)
        for (int micro = 1; micro <= 2; micro++)
            for (int gpu = 0; gpu < 2 - shares; gpu++) {
                const char *arch = gpu ? "sm_90" : NULL;
                char budget[32];
                const tcc_memory_plan least = plan(4, shares, micro, arch, "min");
                const int64_t bytes = least.arena_bytes + least.state_bytes + least.batch_bytes;
                snprintf(budget, sizeof budget, "%lld", (long long)bytes);
                const tcc_memory_plan same = plan(4, shares, micro, arch, budget);
                const int64_t taken = same.arena_bytes + same.state_bytes + same.batch_bytes;
                if (taken > bytes)
                    fail_msg("%s, %d micro-batches, %s: %lld bytes of %lld", shares ? "parts" : "whole", micro,
                             gpu ? arch : "host", (long long)taken, (long long)bytes);
            }
}

/* -- Memory of the host -- */

enum { LARGE = 1024 };

static void large(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_linear(tcc_input(t, "x"), "l", LARGE);
    tcc_loss(t, tcc_mean(tcc_mul(h, h), TCC_ALL));
}

/* Pages of a weight that are in memory. */
static int64_t resident(tcc_model *m, const char *name) {
    enum { PAGE = 4096, MOST = LARGE * LARGE * 4 / PAGE };
    static _Thread_local unsigned char pages[MOST + 1];
    const tcc_store *store = &m->shared->store;
    const tcc_stored *p = &store->entries.data[tcc_store_find(store, name)];
    char *begin = (char *)(((uintptr_t)p->data + PAGE - 1) / PAGE * PAGE);
    const size_t bytes = LARGE * LARGE * 4 - PAGE;
    int64_t count = 0;
    if (mincore(begin, bytes, pages) != 0) return -1;
    for (size_t i = 0; i < bytes / PAGE; i++) count += pages[i] & 1;
    return count;
}

typedef struct pages {
    int64_t before, after, whole;
    float first, last;
    tcc_status status;
} pages;

static void watch_pages(void *user, int number, tcc_context *cx, tcc_comm *comm) {
    static const tcc_optimizer_options sgd = OPTIMIZER(TCC_SGD, 0.1);
    static float x[2][LARGE];
    pages *p = (pages *)user + number;
    const tcc_array batch = {"x", TCC_F32, 2, {1, LARGE}, x[number]};
    tcc_model *m = NULL;
    tcc_array a;
    for (int i = 0; i < LARGE; i++) x[number][i] = (float)(i % 5 - 2);
    p->status = tcc_model_create(
        cx, large, NULL,
        &(tcc_model_options){
            .optimizer = &sgd, .comm = comm, .mixed_precision = TCC_MIXED_BF16, .shard_optimizer = true},
        &m);
    if (p->status == TCC_OK) p->status = tcc_model_compile(m, true, &batch, 1);
    if (p->status == TCC_OK) p->before = resident(m, "l.weight");
    for (int i = 0; i < 2 && p->status == TCC_OK; i++) p->status = tcc_model_train(m, &batch, 1);
    if (p->status == TCC_OK) p->after = resident(m, "l.weight");
    if (p->status == TCC_OK) p->status = tcc_model_gather_states(m);
    if (p->status == TCC_OK && !tcc_model_find_param(m, "l.weight", &a)) p->status = TCC_ENOTFOUND;
    if (p->status == TCC_OK) {
        p->whole = resident(m, "l.weight");
        p->first = ((const float *)a.data)[0], p->last = ((const float *)a.data)[LARGE * LARGE - 1];
    }
    tcc_model_destroy(m);
}

static void a_weight_gives_its_memory_back(void **state) {
    (void)state;
    pages ranks[2] = {0};
    assert_true(run_rank_threads(2, watch_pages, ranks));
    for (int r = 0; r < 2; r++) {
        const pages *p = &ranks[r];
        assert_int_equal(p->status, TCC_OK);
        assert_true(p->before > 900 && p->after < 100 && p->whole == p->before);
        assert_true(p->first == ranks[0].first && p->last == ranks[0].last && p->first != 0 && p->last != 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits_are_the_same), cmocka_unit_test(copies_alone_are_gathered),
                                       cmocka_unit_test(a_rank_keeps_less),
                                       cmocka_unit_test(budgets_count_what_is_kept),
                                       cmocka_unit_test(a_weight_gives_its_memory_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
