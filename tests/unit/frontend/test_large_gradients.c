/* SPDX-License-Identifier: MIT
 * Optimizers after one gradient of 1e20, whose square a float32 does not hold: as PyTorch's. */
#include "harness/check.h"
#include "traincc/traincc.h"

#include <math.h>

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor w = tcc_param(t, "w", ((tcc_init){.kind = TCC_INIT_CONSTANT, .a = 1}), TCC_DIMS(1));
    tcc_loss(t, tcc_sum(tcc_mul(w, tcc_input(t, "g")), TCC_ALL));
}

/* w after the first step, and after three more with gradients of 1. */
static void train(tcc_optimizer_kind kind, float after[2]) {
    float g = 1e20f;
    const tcc_array batch = {.name = "g", .dtype = TCC_F32, .rank = 1, .dims = {1}, .data = &g};
    tcc_optimizer_options optimizer;
    tcc_context *cx;
    tcc_model *m;
    tcc_array w;
    tcc_optimizer_init(&optimizer, kind);
    optimizer.lr = 0.1;
    const tcc_model_options o = {.size = sizeof o, .optimizer = &optimizer};
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    assert_int_equal(tcc_model_create(cx, net, NULL, &o, &m), TCC_OK);
    for (int step = 0; step < 4; step++, g = 1) {
        assert_int_equal(tcc_model_train(m, &batch, 1), TCC_OK);
        assert_true(tcc_model_find_param(m, "w", &w));
        after[step > 0] = *(const float *)w.data;
    }
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* torch.optim.Adam([w], lr=0.1): 0.9, then 0.73877. */
static void adam_goes_on(void **state) {
    (void)state;
    static const tcc_optimizer_kind kinds[] = {TCC_ADAM, TCC_ADAMW};
    for (int i = 0; i < 2; i++) {
        float after[2];
        train(kinds[i], after);
        if (!(fabsf(after[0] - 0.9f) < 1e-3f && fabsf(after[1] - 0.73877f) < 1e-3f))
            fail_msg("kind %d: %g, then %g", (int)kinds[i], after[0], after[1]);
    }
}

/* The sign alone counts. */
static void lion_goes_on(void **state) {
    (void)state;
    float after[2];
    train(TCC_LION, after);
    assert_true(fabsf(after[0] - 0.9f) < 1e-5f && fabsf(after[1] - 0.6f) < 1e-5f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(adam_goes_on), cmocka_unit_test(lion_goes_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
