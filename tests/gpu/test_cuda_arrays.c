/* SPDX-License-Identifier: MIT
 * A program that computes on the model's GPU: batches that steps read there and outputs that they write there. The bits
 * are those of arrays on the host, nothing is copied, nothing waits, and the order of streams holds. */
#include "harness/check.h"
#include "harness/simulation.h"

#include <traincc/traincc.h>

enum { STEPS = 5 };

#define OK(call)                                                                \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

typedef struct outcome {
    double losses[STEPS];
    float logits[STEPS][ROWS * CLASSES], weights[HIDDEN * WIDTH];
} outcome;

static void end_run(tcc_context *cx, tcc_model *m, outcome *out) {
    tcc_array weights;
    for (int step = 0; step < STEPS; step++) OK(tcc_model_step_loss(m, step, &out->losses[step]));
    assert_true(tcc_model_find_param(m, "in.weight", &weights));
    memcpy(out->weights, weights.data, sizeof out->weights);
}

/* Copies and bytes of the last step's call; 0 on a machine's own driver. */
typedef struct cost {
    uint64_t copies, bytes;
} cost;

static tcc_status train_counted(tcc_model *m, const tcc_array batch[2], cost *out) {
    if (!cu.get_calls) return tcc_model_train(m, batch, 2);
    const cost before = {cu.get_calls("copy"), cu.get_copied()};
    const tcc_status status = tcc_model_train(m, batch, 2);
    *out = (cost){cu.get_calls("copy") - before.copies, cu.get_copied() - before.bytes};
    return status;
}

static cost train_from_host(const way *w, outcome *out) {
    tcc_context *cx;
    tcc_model *m;
    tcc_array logits;
    cost c = {0, 0};
    const tcc_array batch[] = {x_array(xs), y_array(ys)};
    memset(out, 0, sizeof *out);
    OK(tcc_context_create(&cx));
    OK(simulation_model(cx, "cuda", w, &m));
    for (int step = 0; step < STEPS; step++) {
        compute(step);
        OK(train_counted(m, batch, &c));
        OK(tcc_model_output(m, "logits", &logits));
        memcpy(out->logits[step], logits.data, logits_bytes(w));
    }
    end_run(cx, m, out);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return c;
}

static cost train_from_device(const way *w, int rings, outcome *out) {
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2], result;
    simulation s;
    cost c = {0, 0};
    memset(out, 0, sizeof *out);
    OK(tcc_context_create(&cx));
    OK(simulation_model(cx, "cuda", w, &m));
    simulation_start(&s, rings);
    const tcc_array logits = on_device(logits_array(w, s.logits), s.stream);
    for (int step = 0; step < STEPS; step++) {
        simulate(&s, step, batch);
        if (!step) OK(tcc_model_compile(m, true, batch, 2));
        if (!step) OK(tcc_model_place_output(m, &logits));
        OK(train_counted(m, batch, &c));
        OK(tcc_model_output(m, "logits", &result));
        assert_ptr_equal(result.data, s.logits);
        assert_int_equal(result.memory, TCC_MEMORY_DEVICE);
        DRIVER(cuMemcpyDtoHAsync_v2, out->logits[step], address_of(s.logits), logits_bytes(w), s.stream);
    }
    DRIVER(cuStreamSynchronize, s.stream);
    end_run(cx, m, out);
    if (sim.report_count && sim.report_count()) fail_msg("%s", sim.last_report());
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    simulation_stop(&s);
    return c;
}

static void check_same(const outcome *a, const outcome *b) {
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
    assert_memory_equal(a->logits, b->logits, sizeof a->logits);
    assert_memory_equal(a->weights, b->weights, sizeof a->weights);
}

/* -- Tests -- */

static void test_bits_without_copies(void **state) {
    (void)state;
    static const way ways[] = {{TCC_MODE_EAGER, TCC_MIXED_NONE, 0},
                               {TCC_MODE_DEFAULT, TCC_MIXED_FP16, 0},
                               {TCC_MODE_DEFAULT, TCC_MIXED_NONE, 2},
                               {TCC_MODE_REDUCE_OVERHEAD, TCC_MIXED_BF16, 0},
                               {TCC_MODE_MAX_AUTOTUNE, TCC_MIXED_NONE, 0}};
    static outcome host, device;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const cost from_host = train_from_host(&ways[i], &host), from_device = train_from_device(&ways[i], 1, &device);
        check_same(&host, &device);
        if (!cu.get_calls) continue;
        if (from_device.copies > from_host.copies || from_device.bytes + X_BYTES + Y_BYTES > from_host.bytes)
            fail_msg("way %zu: %llu copies of %llu bytes; from the host %llu of %llu", i,
                     (unsigned long long)from_device.copies, (unsigned long long)from_device.bytes,
                     (unsigned long long)from_host.copies, (unsigned long long)from_host.bytes);
    }
}

/* Replayed steps whose arrays move from step to step are copied within the device, and no more than these; so are
 * micro-batches that begin anywhere. */
static void test_copies_within_the_device(void **state) {
    (void)state;
    static const way replayed = {TCC_MODE_REDUCE_OVERHEAD, TCC_MIXED_NONE, 0},
                     in_parts = {TCC_MODE_DEFAULT, TCC_MIXED_NONE, 4};
    static outcome host, device;
    cost from_host = train_from_host(&replayed, &host), from_device = train_from_device(&replayed, 2, &device);
    check_same(&host, &device);
    if (cu.get_calls) { /* what changes from run to run, and the loss; x and y */
        assert_int_equal(from_device.copies, 2 + 2);
        assert_true(from_device.bytes > X_BYTES + Y_BYTES && from_device.bytes < X_BYTES + Y_BYTES + 2048);
    }
    from_host = train_from_host(&in_parts, &host);
    from_device = train_from_device(&in_parts, 1, &device);
    check_same(&host, &device);
    /* y of the second and fourth part begins at 8 and at 24 bytes, for the totals and for the step. */
    if (cu.get_calls) assert_int_equal(from_device.copies, from_host.copies + 4);
}

/* An address that comes twice in a row is captured, and not copied from then on, from the host and back. */
static void test_moves(void **state) {
    (void)state;
    skip_without(sim.restart && cu.get_copied, STAND_IN_COUNTS);
    static const way w = {TCC_MODE_REDUCE_OVERHEAD, TCC_MIXED_NONE, 0};
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2];
    simulation s;
    uint64_t bytes[12];
    OK(tcc_context_create(&cx));
    OK(simulation_model(cx, "cuda", &w, &m));
    simulation_start(&s, 2);
    for (int step = 0; step < 12; step++) {
        simulate(&s, step < 8 ? 0 : 1, batch);
        if (step < 4) batch[0] = x_array(xs), batch[1] = y_array(ys);
        bytes[step] = cu.get_copied();
        OK(tcc_model_train(m, batch, 2));
        bytes[step] = cu.get_copied() - bytes[step];
    }
    OK(tcc_model_synchronize(m));
    assert_true(bytes[3] > X_BYTES); /* from the host */
    assert_true(bytes[4] > X_BYTES); /* within the device */
    assert_true(bytes[5] < 2048);
    assert_true(bytes[8] > X_BYTES);
    assert_true(bytes[9] < 2048 && bytes[11] < 2048);
    assert_int_equal(sim.report_count(), 0);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    simulation_stop(&s);
}

/* An array whose stream is another than the one that it is written on: the stand-in sees that nothing orders the write
 * and the step, as it would see a step that does not wait. */
static void test_wrong_stream(void **state) {
    (void)state;
    skip_without(sim.restart, STAND_IN_COUNTS);
    static const way w = {TCC_MODE_DEFAULT, TCC_MIXED_NONE, 0};
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2];
    CUstream other;
    simulation s;
    OK(tcc_context_create(&cx));
    OK(simulation_model(cx, "cuda", &w, &m));
    simulation_start(&s, 1);
    DRIVER(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
    for (int step = 0; step < 2; step++) {
        simulate(&s, step, batch);
        if (step) batch[0].stream = batch[1].stream = other;
        OK(tcc_model_train(m, batch, 2));
        const tcc_status status = tcc_model_synchronize(m);
        cu.cuStreamSynchronize(s.stream);
        if (!step) assert_int_equal(status, TCC_OK);
        if (!step) assert_int_equal(sim.report_count(), 0);
    }
    if (!strstr(sim.last_report(), "nothing orders")) fail_msg("'%s'", sim.last_report());
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    cu.cuStreamDestroy_v2(other);
    simulation_stop(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {SIMULATION_TEST(test_bits_without_copies),
                                       SIMULATION_TEST(test_copies_within_the_device), SIMULATION_TEST(test_moves),
                                       SIMULATION_TEST(test_wrong_stream)};
    return cmocka_run_group_tests(tests, simulation_set_up, NULL);
}
