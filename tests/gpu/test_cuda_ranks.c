/* SPDX-License-Identifier: MIT
 * Ranks with a CUDA device each, on the stand-ins for driver and NCCL: threads of one process and processes. They give
 * the bits of micro-batches on one device, launched and replayed; and what goes wrong ends all of them in time. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/optimizer.h"
#include "harness/patience.h"
#include "harness/rank_models.h"
#include "ncclsim/ncclsim.h"
#include "runtime/cuda/nccl.h"

#include <traincc/traincc.h>

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_RANKS = 3, ROWS = 4, WIDTH = 70, STEPS = 4, WEIGHTS = WIDTH * WIDTH };

static struct {
    void (*get_counts)(ncclsim_counts *counts);
    const char *(*last_error)(void);
    void (*inject)(ncclsim_fault fault, int rank, int nth);
    void (*restart)(void);
    int (*get_id)(char id[128]); /* it begins with the stand-in's folder */
} nccl;

static ncclsim_counts counts_of_run(void) {
    ncclsim_counts counts = {0};
    nccl.get_counts(&counts);
    if (counts.errors) fail_msg("%s", nccl.last_error());
    assert_int_equal(counts.comms, 0);
    return counts;
}

/* -- Whole networks, in threads -- */

static void check_network(const rank_model_case *c, int ranks) {
    const char *what = rank_model_differs(c, ranks);
    if (what) fail_msg("%s on %d devices: %s %s", c->network, ranks, what, nccl.last_error());
    if (sim.report_count()) fail_msg("%s", sim.last_report());
}

static void networks_replayed(void **state) {
    (void)state;
    const rank_model_case c = {"gpt",
                               OPTIMIZER(TCC_ADAMW, 0.01, .clip_grad_norm = 1),
                               {.device = "cuda",
                                .mode = TCC_MODE_REDUCE_OVERHEAD,
                                .require_graphs = true,
                                .mixed_precision = TCC_MIXED_FP16,
                                .loss_scale = 1 << 20}};
    check_network(&c, 2);
    const ncclsim_counts counts = counts_of_run();
    assert_true(counts.captured > 0 && counts.captured < counts.launches && counts.runs > counts.launches / 2);
    assert_int_equal(counts.fast, 0);
}

static void networks_shared_out(void **state) {
    (void)state;
    const rank_model_case c = {
        "cnn", OPTIMIZER(TCC_ADAM, 0.01, .clip_grad_norm = 0.1), {.device = "cuda", .shard_optimizer = true}};
    check_network(&c, 3);
    counts_of_run();
    const rank_model_case low = {"gpt",
                                 OPTIMIZER(TCC_ADAMW, 0.01, .clip_grad_norm = 0.1),
                                 {.device = "cuda", .shard_optimizer = true, .mixed_precision = TCC_MIXED_BF16}};
    check_network(&low, 2);
    counts_of_run();
}

/* -- A small one, in threads and processes -- */

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_input(t, "x"), h = tcc_tanh(tcc_linear(x, "in", WIDTH));
    tcc_tensor error = tcc_sub(tcc_linear(h, "out", WIDTH), x);
    tcc_loss(t, tcc_mean(tcc_mul(error, error), TCC_ALL));
}

/* What it divides by is a total of the whole batch. */
static void totals(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_input(t, "x"), h = tcc_tanh(tcc_batch_norm(tcc_linear(x, "in", WIDTH), "norm"));
    tcc_tensor error = tcc_sub(tcc_linear(h, "out", WIDTH), x);
    tcc_loss(t, tcc_div(tcc_sum(tcc_mul(error, error), TCC_ALL), tcc_sum(tcc_mul(x, x), TCC_ALL)));
}

typedef struct rank {
    tcc_model_fn net;
    tcc_model_options options;
    int first, rows; /* of the batch */
    int steps;       /* 0: all */
    tcc_context *cx;
    tcc_comm *comm;
    pthread_t thread;
    tcc_status status;
    char text[2048];
    double losses[STEPS];
    float weights[WEIGHTS];
} rank;

static tcc_status train(rank *r, tcc_model *m) {
    static const tcc_dtype type = TCC_F32;
    float x[4 * ROWS * WIDTH];
    tcc_array a;
    for (int step = 0; step < (r->steps ? r->steps : STEPS); step++) {
        for (int i = 0; i < r->rows * WIDTH; i++)
            x[i] = (float)(((i + r->first * WIDTH) * 37 + step * 11) % 101) / 50 - 1;
        const tcc_array batch = {.name = "x", .dtype = type, .rank = 2, .dims = {r->rows, WIDTH}, .data = x};
        TCC_TRY(tcc_model_train(m, &batch, 1));
        TCC_TRY(tcc_model_step_loss(m, step, &r->losses[step]));
    }
    TCC_TRY(tcc_model_synchronize(m));
    if (!tcc_model_find_param(m, "in.weight", &a)) return TCC_ENOTFOUND;
    memcpy(r->weights, a.data, sizeof r->weights);
    return TCC_OK;
}

static void *run(void *user) {
    rank *r = user;
    const tcc_optimizer_options optimizer = OPTIMIZER(TCC_ADAM, 0.01, .clip_grad_norm = 0.5);
    tcc_model *m = NULL;
    r->options.size = sizeof r->options;
    r->options.optimizer = &optimizer;
    r->options.comm = r->comm;
    r->options.device = "cuda";
    r->status = tcc_model_create(r->cx, r->net ? r->net : net, NULL, &r->options, &m);
    if (r->status == TCC_OK) r->status = train(r, m);
    if (r->status != TCC_OK) snprintf(r->text, sizeof r->text, "%s", tcc_context_error(r->cx));
    tcc_model_destroy(m);
    tcc_comm_destroy(r->comm);
    return NULL;
}

/* In processes, memory of `ranks` is shared with this one. */
static void run_ranks(rank *ranks, int count, const tcc_model_options *o, double timeout_s, bool processes) {
    tcc_context *contexts[MOST_RANKS] = {NULL};
    tcc_comm *comms[MOST_RANKS];
    for (int r = 0; r < count; r++) assert_int_equal(tcc_context_create(&contexts[r]), TCC_OK);
    assert_int_equal(tcc_comm_create_local(contexts, count, comms), TCC_OK);
    pid_t children[MOST_RANKS];
    for (int r = 0; r < count; r++) {
        ranks[r].options = *o;
        ranks[r].rows = ROWS * (o->batch_accumulate ? (int)o->batch_accumulate : 1);
        ranks[r].first = r * ranks[r].rows;
        ranks[r].cx = contexts[r];
        ranks[r].comm = comms[r];
        tcc_comm_set_timeout(comms[r], timeout_s);
        if (!processes) {
            assert_int_equal(pthread_create(&ranks[r].thread, NULL, run, &ranks[r]), 0);
            continue;
        }
        children[r] = fork();
        assert_true(children[r] >= 0);
        if (children[r]) continue;
        for (int i = 0; i < count; i++)
            if (i != r) tcc_comm_destroy(comms[i]);
        run(&ranks[r]);
        _exit(0);
    }
    for (int r = 0; r < count; r++) {
        int status = 0;
        if (!processes) pthread_join(ranks[r].thread, NULL);
        else assert_true(waitpid(children[r], &status, 0) == children[r]);
        if (status) fail_msg("rank %d ended with %d", r, status);
        if (processes) tcc_comm_destroy(comms[r]);
    }
    for (int r = 0; r < count; r++) tcc_context_destroy(contexts[r]);
}

static void run_one(rank *one, int parts) {
    assert_int_equal(tcc_context_create(&one->cx), TCC_OK);
    one->options.batch_accumulate = parts;
    one->rows = parts * ROWS;
    run(one);
    tcc_context_destroy(one->cx);
    if (one->status != TCC_OK) fail_msg("%s", one->text);
}

static rank *new_ranks(void) {
    rank *ranks = mmap(NULL, sizeof *ranks * MOST_RANKS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(ranks != MAP_FAILED);
    return ranks;
}

static void free_ranks(rank *ranks) { munmap(ranks, sizeof *ranks * MOST_RANKS); }

static void check_same(const rank *ranks, int count, const rank *one) {
    for (int r = 0; r < count; r++) {
        if (ranks[r].status != TCC_OK) fail_msg("rank %d: %s %s", r, ranks[r].text, nccl.last_error());
        assert_memory_equal(ranks[r].losses, one->losses, sizeof one->losses);
        assert_memory_equal(ranks[r].weights, one->weights, sizeof one->weights);
    }
    assert_true(one->losses[STEPS - 1] < one->losses[0]);
}

/* What is sent does not divide among three ranks. */
static void processes_and_threads(void **state) {
    (void)state;
    static rank one;
    one = (rank){0};
    run_one(&one, 3);
    sim.restart(); /* a process has a driver of its own */
    for (int processes = 1; processes >= 0; processes--) {
        rank *ranks = new_ranks();
        run_ranks(ranks, 3, &(tcc_model_options){.mode = TCC_MODE_REDUCE_OVERHEAD}, test_seconds(60), processes);
        check_same(ranks, 3, &one);
        free_ranks(ranks);
    }
    assert_true(counts_of_run().runs > 0);
}

/* Nearly the same, as sums are taken in another order. */
static void check_near(const rank *ranks, int count, const rank *one) {
    check_same(ranks + 1, count - 1, ranks);
    for (int i = 0; i < STEPS; i++)
        if (fabs(ranks[0].losses[i] - one->losses[i]) > 1e-4 * fabs(one->losses[i]))
            fail_msg("the loss of step %d is %.9g, not %.9g", i, ranks[0].losses[i], one->losses[i]);
}

/* Each rank adds up its own, and then all ranks add up theirs. */
static void micro_batches_on_ranks(void **state) {
    (void)state;
    static rank one;
    one = (rank){.net = totals};
    run_one(&one, 4);
    rank *ranks = new_ranks();
    ranks[0].net = ranks[1].net = totals;
    run_ranks(ranks, 2, &(tcc_model_options){.mode = TCC_MODE_REDUCE_OVERHEAD, .batch_accumulate = 2}, test_seconds(60),
              false);
    check_near(ranks, 2, &one);
    counts_of_run();
    free_ranks(ranks);
}

/* Two ranks have the statistics of the whole batch: as one that takes it at once, but for rounding. */
static void batch_norms_in_step(void **state) {
    (void)state;
    static rank one;
    one = (rank){.net = totals, .rows = 2 * ROWS};
    assert_int_equal(tcc_context_create(&one.cx), TCC_OK);
    run(&one);
    tcc_context_destroy(one.cx);
    rank *ranks = new_ranks();
    ranks[0].net = ranks[1].net = totals;
    run_ranks(ranks, 2, &(tcc_model_options){.sync_batch_norm = true, .mode = TCC_MODE_REDUCE_OVERHEAD},
              test_seconds(60), false);
    check_near(ranks, 2, &one);
    counts_of_run();
    free_ranks(ranks);
}

static void sums_of_nccl(void **state) {
    (void)state;
    static rank one;
    one = (rank){0};
    run_one(&one, 3);
    rank *ranks = new_ranks();
    run_ranks(ranks, 3, &(tcc_model_options){.reduce_fast = true}, test_seconds(60), false);
    check_near(ranks, 3, &one);
    assert_true(counts_of_run().fast > 0);
    free_ranks(ranks);
}

/* -- What goes wrong -- */

static void check_failed(const rank *r, const char *part) {
    assert_true(r->status == TCC_EIO || r->status == TCC_EDEVICE || r->status == TCC_EINVAL);
    if (!strstr(r->text, part)) fail_msg("'%s' does not say '%s'", r->text, part);
}

static void check_stall(tcc_mode mode) {
    rank *ranks = new_ranks();
    nccl.inject(NCCLSIM_STALLS, 1, 5);
    run_ranks(ranks, 2, &(tcc_model_options){.mode = mode}, 1, false);
    assert_int_equal(counts_of_run().captured > 0, mode == TCC_MODE_REDUCE_OVERHEAD);
    for (int r = 0; r < 2; r++) {
        check_failed(&ranks[r], "the other ranks' devices did not answer within 1 s");
        check_failed(&ranks[r], "in program 'train");
        check_failed(&ranks[r], r ? "rank 1 of 2" : "rank 0 of 2");
    }
    free_ranks(ranks);
}

static void a_rank_that_stalls(void **state) {
    (void)state;
    check_stall(TCC_MODE_DEFAULT);
}

/* NCCL is told to give up while a graph runs that it waits for. */
static void a_graph_that_stalls(void **state) {
    (void)state;
    check_stall(TCC_MODE_REDUCE_OVERHEAD);
}

static void another_count(void **state) {
    (void)state;
    rank *ranks = new_ranks();
    nccl.inject(NCCLSIM_COUNTS, 1, 3);
    run_ranks(ranks, 2, &(tcc_model_options){0}, test_seconds(60), false);
    check_failed(&ranks[0], "invalid usage");
    check_failed(&ranks[0], "in program 'train");
    if (ranks[1].status == TCC_OK) fail_msg("rank 1 did not notice");
    free_ranks(ranks);
}

static void a_rank_that_ends(void **state) {
    (void)state;
    rank *ranks = new_ranks();
    ranks[1].steps = 2;
    run_ranks(ranks, 2, &(tcc_model_options){0}, test_seconds(60), false);
    assert_int_equal(ranks[1].status, TCC_OK);
    check_failed(&ranks[0], "rank 1 is gone");
    free_ranks(ranks);
}

static void no_library(void **state) {
    (void)state;
    rank *ranks = new_ranks();
    setenv("TCC_LIBRARIES", "none", 1);
    run_ranks(ranks, 2, &(tcc_model_options){0}, test_seconds(60), false);
    unsetenv("TCC_LIBRARIES");
    for (int r = 0; r < 2; r++) {
        assert_true(ranks[r].status != TCC_OK);
        if (!strstr(ranks[r].text, "nccl: switched off by TCC_LIBRARIES")) fail_msg("%s", ranks[r].text);
    }
    free_ranks(ranks);
}

/* What a killed process has left in the stand-in's folder of messages, the next one to make such a folder removes. */
static void killed_ranks_leave_little(void **state) {
    (void)state;
    char *left = mmap(NULL, 128, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), own[128];
    assert_true(left != MAP_FAILED);
    const pid_t process = fork();
    if (!process) {
        nccl.get_id(left);
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(process, NULL, 0), process);
    assert_int_equal(access(left, F_OK), 0);
    assert_int_equal(nccl.get_id(own), 0);
    assert_int_equal(access(left, F_OK), -1);
    assert_int_equal(rmdir(own), 0);
    munmap(left, 128);
}

/* What a rank has sent that gave up is there for one that is late. */
static void messages_stay_for_the_last(void **state) {
    (void)state;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int (*init)(unsigned flags), (*retain)(void **context, int device), (*set_current)(void *context),
        (*release)(int device);
    find_function(driver, "cuInit", &init);
    find_function(driver, "cuDevicePrimaryCtxRetain", &retain);
    find_function(driver, "cuCtxSetCurrent", &set_current);
    find_function(driver, "cuDevicePrimaryCtxRelease_v2", &release);
    assert_int_equal(init(0), 0);
    assert_int_equal(retain(&context, 0), 0);
    assert_int_equal(set_current(context), 0);
    static tcc_nccl calls;
    tcc_nccl_find(&calls);
    tcc_nccl_id id;
    assert_int_equal(calls.unique_id(&id), 0);
    tcc_nccl_comm comms[2];
    tcc_nccl_config config = {sizeof config, TCC_NCCL_MAGIC, TCC_NCCL_OLDEST, 0};
    for (int r = 0; r < 2; r++) assert_int_equal(calls.init(&comms[r], 2, id, r, &config), TCC_NCCL_IN_PROGRESS);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(access(id.bytes, F_OK), 0); /* the id begins with the stand-in's folder */
        assert_int_equal(calls.abort(comms[r]), 0);
    }
    assert_int_equal(access(id.bytes, F_OK), -1);
    set_current(NULL);
    assert_int_equal(release(0), 0);
    dlclose(driver);
}

/* -- All -- */

static int fresh(void **state) {
    nccl.restart();
    return cuda_fresh(state);
}

static int set_up(void **state) {
    void *library = dlopen("libnccl.so.2", RTLD_NOW);
    find_function(library, "ncclsim_get_counts", &nccl.get_counts);
    find_function(library, "ncclsim_last_error", &nccl.last_error);
    find_function(library, "ncclsim_inject", &nccl.inject);
    find_function(library, "ncclsim_restart", &nccl.restart);
    find_function(library, "ncclGetUniqueId", &nccl.get_id);
    setenv("PTXSIM_DEVICES", "3", 1);
    return cuda_set_up(state);
}

#define RANKS_TEST(name) cmocka_unit_test_setup_teardown(name, fresh, cuda_finish)

int main(void) {
    const struct CMUnitTest tests[] = {RANKS_TEST(networks_replayed),
                                       RANKS_TEST(networks_shared_out),
                                       RANKS_TEST(processes_and_threads),
                                       RANKS_TEST(micro_batches_on_ranks),
                                       RANKS_TEST(batch_norms_in_step),
                                       RANKS_TEST(sums_of_nccl),
                                       RANKS_TEST(a_rank_that_stalls),
                                       RANKS_TEST(a_graph_that_stalls),
                                       RANKS_TEST(another_count),
                                       RANKS_TEST(a_rank_that_ends),
                                       RANKS_TEST(no_library),
                                       RANKS_TEST(messages_stay_for_the_last),
                                       cmocka_unit_test(killed_ranks_leave_little)};
    if (set_up(NULL) || !nccl.restart || !sim.restart) {
        printf("skipped: " STAND_IN_IS "\n");
        return 0;
    }
    const char *only = getenv("TCC_TEST_ONLY"); /* a pattern of names */
    if (only) cmocka_set_test_filter(only);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
