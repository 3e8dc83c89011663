/* SPDX-License-Identifier: MIT
 * Networks that guides measure, in all modes and with budgets of memory, beside eager training: one of them in
 * one precision, which a test has time for; build/bin/network-modes runs all, on all devices. */
#include "bench/segmentation.h"
#include "harness/check.h"
#include "harness/network_modes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 3, SIDE = 32 };

static void segmentation(tcc_trace *t, void *user) {
    const bench_network *net = user;
    tcc_segmentation heads = net->make(t, tcc_input(t, "x"), net->name, CLASSES);
    tcc_loss(t, bench_network_loss(t, net, &heads, tcc_input(t, "y"), CLASSES));
}

static void check_network(const char *name, tcc_mixed_precision precision) {
    tcc_array batch[2];
    network_result results[NETWORK_WAYS];
    network_case c = {.build = segmentation,
                      .user = (void *)(uintptr_t)bench_network_find(name),
                      .begin = bench_network_begin,
                      .batch = batch,
                      .n_inputs = 2,
                      .precision = precision,
                      .device = "cpu",
                      .steps = 2};
    tcc_optimizer_init(&c.optimizer, TCC_SGD);
    c.optimizer.lr = 1e-4, c.optimizer.momentum = 0.9;
    bench_network_batch(2, SIDE, SIDE, CLASSES, batch);
    assert_int_equal(network_check(&c, 2, results), 2);
    for (int i = 0; i < 2; i++)
        if (results[i].wrong[0]) fail_msg("%s, %s: %s", name, results[i].way, results[i].wrong);
    free(batch[0].data);
    free(batch[1].data);
}

static void regseg_in_bfloat16(void **state) {
    (void)state;
    check_network("regseg", TCC_MIXED_BF16);
}

/* -- Differences show -- */

static int begun, planted; /* models so far; which of them begins otherwise: 0 is eager */
static double factor;

static void small(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_batch_norm(tcc_conv_layer(tcc_input(t, "x"), "conv", 4, 3, .padding = 1), "norm");
    tcc_loss(t, tcc_mean(tcc_square(tcc_linear(tcc_flatten(tcc_relu(h), 1), "head", 2)), TCC_ALL));
}

static tcc_status begin(tcc_model *m) {
    tcc_array p;
    float values[2 * 4 * 8 * 8];
    if (begun++ != planted) return TCC_OK;
    for (int i = 0; tcc_model_param(m, i, &p) && strcmp(p.name, "head.weight"); i++);
    assert_string_equal(p.name, "head.weight");
    for (int64_t i = 0; i < p.dims[0] * p.dims[1]; i++) values[i] = (float)(((const float *)p.data)[i] * factor);
    p.data = values;
    return tcc_model_set_param(m, &p);
}

static network_result with_planted(int model, double by, int way) {
    float x[2 * 3 * 8 * 8];
    for (int i = 0; i < 2 * 3 * 8 * 8; i++) x[i] = sinf((float)i);
    tcc_array batch[] = {{"x", TCC_F32, 4, {2, 3, 8, 8}, x}};
    network_case c = {.build = small, .begin = begin, .batch = batch, .n_inputs = 1, .device = "cpu", .steps = 2};
    network_result results[NETWORK_WAYS];
    tcc_optimizer_init(&c.optimizer, TCC_SGD);
    begun = 0, planted = model, factor = by;
    assert_int_equal(network_check(&c, 2, results), 2);
    return results[way];
}

static void differences_show(void **state) {
    (void)state;
    assert_string_equal(with_planted(-1, 1, 0).wrong, "");
    assert_string_equal(with_planted(-1, 1, 1).wrong, "");
    assert_non_null(strstr(with_planted(1, 1.001, 0).wrong, "differs by"));
    assert_non_null(strstr(with_planted(2, 1 + 0x1p-22, 1).wrong, "other bits"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(regseg_in_bfloat16), cmocka_unit_test(differences_show)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
