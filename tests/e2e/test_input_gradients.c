/* SPDX-License-Identifier: MIT
 * Gradients by inputs of the batch after a step: their values, what they cost, and where there are none. */
#include "harness/check.h"
#include "harness/input_gradients.h"
#include "harness/optimizer.h"

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

static float xs[6][4];
static const tcc_array batch = {"x", TCC_F32, 2, {6, 4}, xs};

static void net(tcc_trace *t, void *user) {
    const tcc_tensor x = tcc_input(t, "x"), h = tcc_tanh(tcc_linear(x, "fc1", 5));
    const tcc_tensor loss = tcc_mean(tcc_mul(tcc_linear(h, "fc2", 3), tcc_linear(h, "fc2", 3)), TCC_ALL);
    if (user) tcc_output(t, user, tcc_gradient(loss, x));
    tcc_loss(t, loss);
}

static void values(void **state) {
    (void)state;
    check_input_gradients("cpu", TCC_MODE_DEFAULT);
    check_input_gradients("cpu", TCC_MODE_EAGER);
}

/* They are those that the trace can take itself, and cost nothing where they are not asked for. */
static void as_in_the_trace(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_program_info info[3];
    tcc_array traced, kept;
    for (int i = 0; i < 24; i++) xs[i / 4][i % 4] = (float)(i * 37 % 19) / 9 - 1;
    OK(NULL, tcc_context_create(&cx));
    for (int i = 0; i < 3; i++) {
        const tcc_model_options o = {
            .size = sizeof o, .seed = 2, .keep_gradients = i > 0, .keep_input_gradients = i > 1};
        tcc_model *m;
        OK(cx, tcc_model_create(cx, net, i > 1 ? "slope" : NULL, &o, &m));
        OK(cx, tcc_model_train(m, &batch, 1));
        OK(cx, tcc_model_info(m, &info[i]));
        if (i == 1) {
            assert_int_equal(tcc_model_gradient(m, "x", &kept), TCC_EINVAL);
            if (!strstr(tcc_context_error(cx), "gradient of \"x\": create the model with keep_input_gradients"))
                fail_msg("%s", tcc_context_error(cx));
        }
        if (i > 1) {
            OK(cx, tcc_model_output(m, "slope", &traced));
            OK(cx, tcc_model_gradient(m, "x", &kept));
            assert_memory_equal(traced.data, kept.data, sizeof xs);
            OK(cx, tcc_model_gradient(m, "fc1.weight", &kept));
            OK(cx, tcc_model_verify(m, &batch, 1, 0, NULL));
        }
        tcc_model_destroy(m);
    }
    assert_true(info[0].flop == info[1].flop && info[1].flop < info[2].flop);
    tcc_context_destroy(cx);
}

static void expect_refused(tcc_context *cx, const char *output, const tcc_model_options *o, const char *part) {
    tcc_model *m;
    tcc_status status = tcc_model_create(cx, net, (void *)output, o, &m);
    if (status == TCC_OK) {
        status = tcc_model_compile(m, true, &batch, 1);
        tcc_model_destroy(m);
    }
    if (status != TCC_EINVAL || !strstr(tcc_context_error(cx), part))
        fail_msg("%s, or this does not say \"%s\": %s", tcc_status_name(status), part, tcc_context_error(cx));
    tcc_context_clear_error(cx);
}

static void refuses(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    tcc_model_options o = {.size = sizeof o};
    OK(NULL, tcc_context_create(&cx));
    expect_refused(cx, "grad.fc1.weight", &o, "a training step calls the gradient by \"fc1.weight\" so");
    OK(cx, tcc_model_create(cx, net, "grad.x", &o, &m)); /* free, where nobody asks for that gradient */
    OK(cx, tcc_model_train(m, &batch, 1));
    tcc_model_destroy(m);
    o.keep_input_gradients = true;
    expect_refused(cx, "grad.x", &o, "output \"grad.x\": a training step calls the gradient by \"x\" so");
    o.batch_accumulate = 2;
    expect_refused(cx, NULL, &o, "keep_input_gradients: with batch_accumulate or comm no program has the whole batch");
    tcc_context_destroy(cx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(as_in_the_trace),
                                       cmocka_unit_test(refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
