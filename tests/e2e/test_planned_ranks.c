/* SPDX-License-Identifier: MIT
 * The table of a training step on ranks that are not there, against what follows from the sizes of the model. */
#include "harness/check.h"
#include "harness/optimizer.h"

#include <traincc/traincc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 8, FEATURES = 30, HIDDEN = 500, MOST_TABLE = 16 };
#define MIB 1048576.0

#define check_ok(cx, call)                                                      \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)
#define check_close(value, wanted, most)                                                              \
    do {                                                                                              \
        const double value_ = (value), wanted_ = (wanted);                                            \
        if (!(fabs(value_ - wanted_) <= (most))) fail_msg("%s: %g, not %g", #value, value_, wanted_); \
    } while (0)

static const double parameters = (double)(FEATURES + 1) * HIDDEN + (double)(HIDDEN + 1) * HIDDEN + (HIDDEN + 1);

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_relu(tcc_linear(tcc_input(t, "x"), "in", HIDDEN));
    h = tcc_linear(tcc_relu(tcc_linear(h, "hidden", HIDDEN)), "out", 1);
    tcc_loss(t, tcc_mean(tcc_mul(h, h), TCC_ALL));
}

typedef struct row {
    int ranks;
    double step_ms, waiting_ms, samples, efficiency, sent_mb, memory_mib, sharded_mib;
} row;

typedef struct table {
    int count;
    row rows[MOST_TABLE];
    char head[256];
    double peak_mib;
} table;

static void read_table(const char *text, table *out) {
    const char *line = strchr(text, '\n');
    snprintf(out->head, sizeof out->head, "%.*s", (int)(line - text), text);
    for (line = strchr(line + 1, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        row *r = &out->rows[out->count++];
        assert_true(out->count <= MOST_TABLE);
        if (sscanf(line, "%d %lf %lf %lf %lf%% %lf %lf %lf\n", &r->ranks, &r->step_ms, &r->waiting_ms, &r->samples,
                   &r->efficiency, &r->sent_mb, &r->memory_mib, &r->sharded_mib) != 8)
            fail_msg("no row of a table: %s", line);
    }
}

static table plan(int ranks, const char *network, bool bf16, bool shard, tcc_mixed_precision precision) {
    static float x[ROWS * FEATURES];
    const tcc_array batch = {"x", TCC_F32, 2, {ROWS, FEATURES}, x};
    const tcc_optimizer_options adamw = OPTIMIZER(TCC_ADAMW, 1e-3);
    tcc_context *cx;
    tcc_comm *comm;
    tcc_model *m;
    char *text;
    tcc_program_info info;
    table out = {0};
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    check_ok(cx, tcc_comm_create_planned(cx, ranks, network, &comm));
    check_ok(cx, tcc_model_create(cx, net, NULL,
                                  &(tcc_model_options){.device = "cpu",
                                                       .optimizer = &adamw,
                                                       .comm = comm,
                                                       .reduce_in_bf16 = bf16,
                                                       .shard_optimizer = shard,
                                                       .mixed_precision = precision,
                                                       .compile_only = true},
                                  &m));
    check_ok(cx, tcc_model_compile(m, true, &batch, 1));
    check_ok(cx, tcc_model_info(m, &info));
    check_ok(cx, tcc_model_report(m, "ranks", &text));
    read_table(text, &out);
    out.peak_mib = (double)info.peak_bytes / MIB;
    tcc_string_free(text);
    tcc_model_destroy(m);
    tcc_comm_destroy(comm);
    tcc_context_destroy(cx);
    return out;
}

/* Sent: 2 (n - 1) / n of each gradient and of the sums of losses and weights. Shared out: two moments a parameter. */
static void rows_follow_from_the_model(void **state) {
    (void)state;
    static const int ranks[] = {1, 2, 4, 8, 16, 32, 48, 64, 128, 256, 512, 1024};
    const table t = plan(48, "100,2", false, false, TCC_MIXED_NONE);
    assert_int_equal(t.count, sizeof ranks / sizeof *ranks);
    assert_string_equal(t.head,
                        "predicted, with 8 samples a rank, 100 us a message and 2 GB/s; collectives as for 48 ranks");
    for (int i = 0; i < t.count; i++) {
        const row *r = &t.rows[i], *one = &t.rows[0];
        const double n = r->ranks, share = (n - 1) / n, megabytes = 2 * share * 4 * parameters * 1e-6;
        assert_int_equal(r->ranks, ranks[i]);
        check_close(r->sent_mb, megabytes, 2e-3);
        check_close(r->memory_mib, t.peak_mib, 0.06);
        check_close(r->memory_mib - r->sharded_mib, share * 8 * parameters / MIB, 0.11);
        check_close(r->step_ms - r->waiting_ms, one->step_ms, 2e-3); /* computing is the same */
        check_close(r->samples / (1e3 * n * ROWS / r->step_ms), 1, 0.01);
        check_close(r->efficiency, 100 * one->step_ms / r->step_ms, 0.6);
        const double one_message = n > 1 ? 2 * (n - 1) * 0.1 + megabytes / 2 : 0; /* if all traveled together */
        assert_true(r->waiting_ms >= one_message - 2e-3);
        assert_true(r->waiting_ms <= 3 * one_message + 2e-3);
    }
    assert_true(t.rows[0].waiting_ms == 0 && t.rows[0].sent_mb == 0);
}

/* Half of the bytes where gradients travel in bf16; no time where the network takes none. */
static void rows_follow_the_options(void **state) {
    (void)state;
    const table f32 = plan(2, "100,2", false, false, TCC_MIXED_NONE),
                bf16 = plan(2, "100,2", true, false, TCC_MIXED_NONE),
                fast = plan(2, "1e-6,1e6", false, false, TCC_MIXED_NONE);
    assert_int_equal(f32.count, 11);
    check_close(bf16.rows[10].sent_mb / f32.rows[10].sent_mb, 0.5, 1e-3);
    for (int i = 0; i < 11; i++) assert_true(fast.rows[i].waiting_ms < 2e-3);
}

/* A rank sends its gradients to those who have their parts, and then its part of the parameters to all. */
static void parts_are_as_much_to_send(void **state) {
    (void)state;
    const table whole = plan(4, "100,2", false, false, TCC_MIXED_NONE),
                parts = plan(4, "100,2", false, true, TCC_MIXED_NONE),
                low = plan(4, "100,2", true, true, TCC_MIXED_NONE);
    for (int i = 1; i < 3; i++) {
        const row *w = &whole.rows[i], *p = &parts.rows[i];
        check_close(p->sent_mb / w->sent_mb, 1, 0.01);
        check_close(low.rows[i].sent_mb / w->sent_mb, 0.75, 0.01);
        check_close(p->memory_mib, w->memory_mib, 0.1 * w->memory_mib);
    }
    check_close(parts.peak_mib, parts.rows[2].sharded_mib, 0.06);
}

/* Of weights that products alone read, copies of two bytes. */
static void copies_are_less_to_send(void **state) {
    (void)state;
    const table whole = plan(4, "100,2", false, false, TCC_MIXED_BF16),
                parts = plan(4, "100,2", false, true, TCC_MIXED_BF16);
    for (int i = 1; i < 3; i++) {
        const row *w = &whole.rows[i], *p = &parts.rows[i];
        const double n = w->ranks, weights = 4.0 * parameters / MIB;
        check_close(p->sent_mb / w->sent_mb, 0.75, 0.01);
        check_close(p->memory_mib - p->sharded_mib, (n - 1) / n * 3 * weights, 0.11);
        check_close(p->memory_mib, w->memory_mib, 0.1 * w->memory_mib);
    }
    check_close(parts.peak_mib, parts.rows[2].sharded_mib, 0.06);
}

static void expect_error(tcc_context *cx, tcc_status status, tcc_status wanted, const char *text) {
    assert_int_equal(status, wanted);
    if (!strstr(tcc_context_error(cx), text)) fail_msg("%s: not \"%s\"", tcc_context_error(cx), text);
}

static void what_is_only_planned_is_refused(void **state) {
    (void)state;
    static const char *const unknown[] = {"",    "infiniband", "ib ",   "5",     "5,",   "0,1",
                                          "1,0", "-1,1",       "nan,1", "1,inf", "1,2,3"};
    tcc_context *cx;
    tcc_comm *comm;
    tcc_model *m;
    char data[4] = {0};
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    for (int i = 0; i < (int)(sizeof unknown / sizeof *unknown); i++) {
        expect_error(cx, tcc_comm_create_planned(cx, 2, unknown[i], &comm), TCC_EINVAL, "nvlink");
        assert_null(comm);
    }
    expect_error(cx, tcc_comm_create_planned(cx, 0, "ib", &comm), TCC_EINVAL, "0 ranks: 1 to 1024");
    expect_error(cx, tcc_comm_create_planned(cx, 1025, "ib", &comm), TCC_EINVAL, "1025 ranks: 1 to 1024");
    check_ok(cx, tcc_comm_create_planned(cx, 3, "5.5,1e2", &comm));
    assert_int_equal(tcc_comm_size(comm), 3);
    expect_error(cx, tcc_model_create(cx, net, NULL, &(tcc_model_options){.device = "cpu", .comm = comm}, &m),
                 TCC_EINVAL, "only planned");
    expect_error(cx, tcc_comm_broadcast(comm, 1, data, sizeof data), TCC_EUNSUPPORTED, "rank 1 is only planned");
    tcc_comm_destroy(comm);
    tcc_context_destroy(cx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_follow_from_the_model), cmocka_unit_test(rows_follow_the_options),
        cmocka_unit_test(parts_are_as_much_to_send), cmocka_unit_test(copies_are_less_to_send),
        cmocka_unit_test(what_is_only_planned_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
