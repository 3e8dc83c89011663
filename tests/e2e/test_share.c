/* SPDX-License-Identifier: MIT
 * Models that share their parameters: what each trains, what the other sees of it, checkpoints, averages, errors, and
 * ends in any order. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/optimizer.h"
#include "harness/shared_cases.h"
#include "ir/support/alloc.h"
#include "traincc/checkpoint.h"
#include "traincc/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

enum { ROWS = 5, WIDTH = 3 };
static float xs[ROWS * WIDTH];
static const tcc_array batch = {"x", TCC_F32, 2, {ROWS, WIDTH}, xs};

/* `user` is the name of the layer that the other model lacks. */
static void net(tcc_trace *t, void *user) {
    tcc_tensor h = tcc_tanh(tcc_linear(tcc_input(t, "x"), "both", 4));
    h = tcc_dropout(h, 0.5);
    tcc_output(t, "hidden", h);
    tcc_loss(t, tcc_mean(tcc_mul(tcc_linear(h, user, 2), tcc_linear(h, user, 2)), TCC_ALL));
}

static int set_up(void **state) {
    (void)state;
    for (int i = 0; i < ROWS * WIDTH; i++) xs[i] = (float)(i * 37 % 19) / 9 - 1;
    return 0;
}

static const tcc_optimizer_options adamw = OPTIMIZER(TCC_ADAMW, 0.05, .weight_decay = 0.1, .ema_decay = 0.5);

static tcc_status create(tcc_context *cx, char *layer, tcc_model *share, const char *name, tcc_model **out) {
    const tcc_model_options o = {
        .size = sizeof o, .seed = share ? 0 : 3, .optimizer = &adamw, .share = share, .name = name};
    return tcc_model_create(cx, net, layer, &o, out);
}

/* -- The mechanism -- */

static void as_pytorch(void **state) {
    (void)state;
    check_shared_golden("cpu", TCC_MODE_DEFAULT, 2);
    check_shared_golden("cpu", TCC_MODE_EAGER, 1);
}

static void as_copied_by_hand(void **state) {
    (void)state;
    static const shared_case cases[] = {{TCC_MODE_EAGER, {TCC_MIXED_BF16, TCC_MIXED_BF16}, 0},
                                        {TCC_MODE_REDUCE_OVERHEAD, {TCC_MIXED_NONE, TCC_MIXED_BF16}, 0},
                                        {TCC_MODE_DEFAULT, {TCC_MIXED_BF16, TCC_MIXED_FP16}, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_shared_as_copied("cpu", &cases[i]);
}

/* Draws depend on the name, so two models do not drop the same elements in the same step, and on nothing else. */
static void random_numbers_are_their_own(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m[3];
    float kept[3][ROWS * 4];
    OK(NULL, tcc_context_create(&cx));
    OK(cx, create(cx, "a", NULL, NULL, &m[0]));
    OK(cx, create(cx, "a", m[0], "second", &m[1]));
    OK(cx, create(cx, "a", NULL, "second", &m[2])); /* shares nothing */
    for (int i = 0; i < 3; i++) {
        tcc_array hidden;
        OK(cx, tcc_model_set_lr(m[i], 0));
        OK(cx, tcc_model_train(m[i], &batch, 1));
        OK(cx, tcc_model_output(m[i], "hidden", &hidden));
        memcpy(kept[i], hidden.data, sizeof kept[i]);
    }
    assert_memory_not_equal(kept[0], kept[1], sizeof kept[0]);
    assert_memory_equal(kept[1], kept[2], sizeof kept[0]);
    for (int i = 0; i < 3; i++) tcc_model_destroy(m[i]);
    tcc_context_destroy(cx);
}

/* One list of parameters for both, one arena, and what only one trains stays as it is. */
static void they_are_one_memory(void **state) {
    (void)state;
    static const char *const names[] = {"both.weight", "both.bias", "b.weight", "b.bias", "a.weight", "a.bias"};
    tcc_context *cx;
    tcc_model *a, *b;
    tcc_array p, q;
    tcc_program_info info[3];
    float before[2 * 4];
    OK(NULL, tcc_context_create(&cx));
    OK(cx, create(cx, "a", NULL, NULL, &a));
    OK(cx, create(cx, "b", a, "b", &b));
    OK(cx, tcc_model_train(b, &batch, 1));
    OK(cx, tcc_model_info(b, &info[0]));
    OK(cx, tcc_model_train(a, &batch, 1));
    OK(cx, tcc_model_info(a, &info[1]));
    OK(cx, tcc_model_info(b, &info[2]));
    for (int i = 0; i < 6; i++) {
        assert_true(tcc_model_param(a, i, &p) && tcc_model_param(b, i, &q));
        assert_string_equal(p.name, names[i]);
        assert_ptr_equal(p.data, q.data);
    }
    assert_false(tcc_model_param(a, 6, &p));
    assert_true(info[1].peak_bytes == info[2].peak_bytes);
    const int64_t both = 4 * (4 * WIDTH + 4); /* is there once */
    assert_true(info[1].peak_bytes == 2 * info[0].peak_bytes - info[0].arena_bytes - both);
    assert_true(tcc_model_find_param(a, "b.weight", &p));
    memcpy(before, p.data, sizeof before);
    for (int i = 0; i < 3; i++) OK(cx, tcc_model_train(a, &batch, 1));
    assert_true(tcc_model_find_param(a, "b.weight", &p));
    assert_memory_equal(before, p.data, sizeof before);
    char *text;
    OK(cx, tcc_model_report(b, "groups", &text));
    assert_string_equal(text, "group of the rest: 26 parameters in 4 tensors\n");
    tcc_string_free(text);
    OK(cx, tcc_model_verify(b, &batch, 1, 0, NULL));
    assert_int_equal(tcc_model_step(a), 4);
    assert_int_equal(tcc_model_step(b), 1);
    tcc_model_destroy(a);
    tcc_model_destroy(b);
    tcc_context_destroy(cx);
}

/* A state that a pass adds for one model may be called as a parameter of the other. */
static void names_of_states(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *a, *b;
    tcc_array p;
    float before[2 * 4];
    OK(NULL, tcc_context_create(&cx));
    OK(cx, create(cx, "both.weight.ema", NULL, NULL, &a)); /* its layer has "both.weight.ema.weight" */
    OK(cx, create(cx, "a", a, "a", &b));
    for (int i = 0; i < 2; i++) OK(cx, tcc_model_train(i ? a : b, &batch, 1));
    tcc_model_destroy(b);
    OK(cx, create(cx, "both", a, "b", &b)); /* "both.weight" as two layers: other shapes */
    assert_int_equal(tcc_model_train(b, &batch, 1), TCC_ESHAPE);
    tcc_model_destroy(b);
    assert_true(tcc_model_find_param(a, "a.weight", &p)); /* that the model which is gone has trained */
    memcpy(before, p.data, sizeof before);
    OK(cx, tcc_model_train(a, &batch, 1));
    assert_true(tcc_model_find_param(a, "a.weight", &p));
    assert_memory_equal(before, p.data, sizeof before);
    tcc_model_destroy(a);
    tcc_context_destroy(cx);
}

/* The loss of a model's last step is there though others have made more steps than are kept. */
static void losses_are_kept(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *a, *b;
    double loss;
    OK(NULL, tcc_context_create(&cx));
    OK(cx, create(cx, "a", NULL, NULL, &a));
    OK(cx, create(cx, "b", a, "b", &b));
    OK(cx, tcc_model_train(a, &batch, 1));
    const double kept = tcc_model_loss(a);
    for (int i = 0; i < 70; i++) OK(cx, tcc_model_train(b, &batch, 1));
    assert_true(tcc_model_loss(a) == kept && isfinite(kept));
    OK(cx, tcc_model_step_loss(b, 10, &loss));
    assert_int_equal(tcc_model_step_loss(a, 0, &loss), TCC_ENOTFOUND);
    if (!strstr(tcc_context_error(cx), "step 0 is not among the last 64 of all models that share"))
        fail_msg("%s", tcc_context_error(cx));
    tcc_model_destroy(a);
    tcc_model_destroy(b);
    tcc_context_destroy(cx);
}

/* -- Checkpoints -- */

enum { MOST = 40 };

typedef struct family {
    tcc_model *a, *b;
    tcc_array params[MOST], state[MOST];
    int n_params, n_state;
} family;

/* A family whose programs are there; the one that is first owns nothing more than the other. */
static void make(tcc_context *cx, family *f, bool b_first) {
    *f = (family){0};
    if (b_first) OK(cx, create(cx, "b", NULL, "b", &f->b));
    OK(cx, create(cx, "a", f->b, NULL, &f->a));
    if (!b_first) OK(cx, create(cx, "b", f->a, "b", &f->b));
    OK(cx, tcc_model_compile(b_first ? f->b : f->a, true, &batch, 1));
    OK(cx, tcc_model_compile(b_first ? f->a : f->b, true, &batch, 1));
}

static void list(family *f) {
    f->n_params = f->n_state = 0;
    while (tcc_model_param(f->a, f->n_params, &f->params[f->n_params])) f->n_params++;
    for (int k = 0; k < 2; k++)
        for (int i = 0; tcc_model_optimizer_state(k ? f->b : f->a, i, &f->state[f->n_state]); i++) f->n_state++;
}

static void go_on(tcc_context *cx, family *f, double losses[8]) {
    for (int i = 0; i < 8; i++) {
        tcc_model *m = i % 3 ? f->a : f->b;
        OK(cx, tcc_model_train(m, &batch, 1));
        losses[i] = tcc_model_loss(m);
    }
}

static void checkpoints_of_both(void **state) {
    const char *folder = test_path(state, "checkpoints");
    tcc_context *cx;
    family f, resumed;
    tcc_checkpoint *file;
    double unused[8], losses[2][8];
    OK(NULL, tcc_context_create(&cx));
    make(cx, &f, false);
    go_on(cx, &f, unused);
    list(&f);
    assert_true(f.n_params == 6 && f.n_state == 2 * (4 * 3 + 1)); /* m, v, ema of each, and the count */
    assert_string_equal(f.state[0].name, "both.weight.m");
    assert_string_equal(f.state[13].name, "b/both.weight.m");
    const tcc_checkpoint_contents contents = {.size = sizeof contents,
                                              .step = 8,
                                              .params = f.params,
                                              .n_params = f.n_params,
                                              .state = f.state,
                                              .n_state = f.n_state};
    OK(cx, tcc_checkpoint_save(cx, folder, &contents));
    go_on(cx, &f, losses[0]);
    make(cx, &resumed, true);
    list(&resumed);
    OK(cx, tcc_checkpoint_open(cx, folder, &file));
    OK(cx, tcc_safetensors_load(cx, tcc_checkpoint_params(file), resumed.params, resumed.n_params, 0));
    OK(cx, tcc_safetensors_load(cx, tcc_checkpoint_state(file), resumed.state, resumed.n_state, 0));
    tcc_checkpoint_close(file);
    tcc_model_set_step(resumed.a, 5);
    tcc_model_set_step(resumed.b, 3);
    go_on(cx, &resumed, losses[1]);
    for (int i = 0; i < 8; i++)
        if (losses[0][i] != losses[1][i]) fail_msg("step %d: %.9g, not %.9g", i, losses[1][i], losses[0][i]);
    tcc_model_destroy(f.a);
    tcc_model_destroy(f.b);
    tcc_model_destroy(resumed.b);
    tcc_model_destroy(resumed.a);
    tcc_context_destroy(cx);
}

/* A plan is of one model, with what its own programs know; it draws as the model that it was made from. */
static void a_plan_is_of_one_model(void **state) {
    const char *path = test_path(state, "b.tccplan");
    tcc_context *cx;
    tcc_model *planned, *sharing;
    tcc_array p;
    family f;
    OK(NULL, tcc_context_create(&cx));
    make(cx, &f, false);
    OK(cx, tcc_model_save_plan(f.b, NULL, path));
    OK(cx, tcc_model_load_plan(cx, path, NULL, &planned));
    assert_true(tcc_model_param(planned, 3, &p) && !tcc_model_param(planned, 4, &p));
    OK(cx, create(cx, "a", planned, NULL, &sharing)); /* a function may join it */
    for (int i = 0; i < 3; i++) {
        OK(cx, tcc_model_train(f.b, &batch, 1));
        OK(cx, tcc_model_train(planned, &batch, 1));
        assert_true(tcc_model_loss(f.b) == tcc_model_loss(planned));
        OK(cx, tcc_model_train(f.a, &batch, 1));
        OK(cx, tcc_model_train(sharing, &batch, 1));
        assert_true(tcc_model_loss(f.a) == tcc_model_loss(sharing));
    }
    assert_true(tcc_model_optimizer_state(planned, 0, &p));
    assert_string_equal(p.name, "b/both.weight.m");
    tcc_model_destroy(planned);
    tcc_model_destroy(sharing);
    tcc_model_destroy(f.a);
    tcc_model_destroy(f.b);
    tcc_context_destroy(cx);
}

/* -- Averages -- */

static void read_bias(tcc_model *m, float out[4]) {
    tcc_array p;
    assert_true(tcc_model_find_param(m, "both.bias", &p));
    memcpy(out, p.data, 4 * sizeof *out);
}

static void averages_are_of_one(void **state) {
    (void)state;
    tcc_context *cx;
    family f;
    float trained[4], average[4], seen[4];
    OK(NULL, tcc_context_create(&cx));
    make(cx, &f, false);
    for (int i = 0; i < 4; i++) OK(cx, tcc_model_train(i % 2 ? f.b : f.a, &batch, 1));
    read_bias(f.a, trained);
    OK(cx, tcc_model_use_ema(f.a, true));
    read_bias(f.b, average);
    assert_memory_not_equal(trained, average, sizeof average);
    assert_int_equal(tcc_model_train(f.b, &batch, 1), TCC_EINVAL);
    if (!strstr(tcc_context_error(cx), "those of a model that shares them")) fail_msg("%s", tcc_context_error(cx));
    assert_int_equal(tcc_model_use_ema(f.b, true), TCC_EINVAL);
    if (!strstr(tcc_context_error(cx), "a model that shares the parameters")) fail_msg("%s", tcc_context_error(cx));
    OK(cx, tcc_model_use_ema(f.b, false)); /* its own are off already */
    read_bias(f.b, seen);
    assert_memory_equal(seen, average, sizeof seen);
    OK(cx, tcc_model_evaluate(f.b, &batch, 1));
    OK(cx, tcc_model_use_ema(f.a, false));
    read_bias(f.b, seen);
    assert_memory_equal(seen, trained, sizeof seen);
    OK(cx, tcc_model_use_ema(f.a, true));
    tcc_model_destroy(f.a); /* the parameters are back */
    read_bias(f.b, seen);
    assert_memory_equal(seen, trained, sizeof seen);
    OK(cx, tcc_model_train(f.b, &batch, 1));
    tcc_model_destroy(f.b);
    tcc_context_destroy(cx);
}

/* -- Ends and errors -- */

static void in_any_order(void **state) {
    (void)state;
    for (int gone = 0; gone < 3; gone++) {
        tcc_context *cx;
        tcc_model *m[3];
        OK(NULL, tcc_context_create(&cx));
        OK(cx, create(cx, "a", NULL, NULL, &m[0]));
        OK(cx, create(cx, "b", m[0], "b", &m[1]));
        OK(cx, create(cx, "c", m[1], "c", &m[2])); /* by way of another */
        for (int i = 0; i < 3; i++) OK(cx, tcc_model_train(m[i], &batch, 1));
        tcc_model_destroy(m[gone]);
        for (int i = 0; i < 3; i++)
            if (i != gone) OK(cx, tcc_model_train(m[i], &batch, 1));
        OK(cx, create(cx, "d", m[(gone + 1) % 3], gone == 1 ? "b" : "d", &m[gone]));
        for (int i = 0; i < 3; i++) OK(cx, tcc_model_train(m[i], &batch, 1));
        for (int i = 0; i < 3; i++) tcc_model_destroy(m[(gone + 2 * i) % 3]);
        tcc_context_destroy(cx);
    }
}

static void expect_refused(tcc_context *cx, const tcc_model_options *o, const char *part) {
    tcc_model *m;
    const tcc_status status = tcc_model_create(cx, net, "a", o, &m);
    if (status == TCC_OK) fail_msg("this is no error: %s", part);
    if (!strstr(tcc_context_error(cx), part)) fail_msg("this does not say \"%s\": %s", part, tcc_context_error(cx));
    assert_null(m);
    tcc_context_clear_error(cx);
}

static void refuses(void **state) {
    (void)state;
    tcc_context *cx, *other;
    tcc_model *a, *b;
    OK(NULL, tcc_context_create(&cx));
    OK(NULL, tcc_context_create(&other));
    OK(cx, create(cx, "a", NULL, NULL, &a));
    OK(cx, create(cx, "b", a, "b", &b));
    tcc_model_options o = {.size = sizeof o, .share = a, .name = "c"};
    expect_refused(other, &o, "share: that model is of another context");
    o.seed = 4;
    expect_refused(cx, &o, "share: seed 4 must be that of the model whose parameters are shared, 3, or 0");
    o.seed = 3;
    o.device = "cpus";
    expect_refused(cx, &o, "device \"cpus\": must be cpu, cuda, cuda:N or auto");
    o.device = "cpu";
    o.arch = "sm_90";
    expect_refused(cx, &o, "share: arch \"sm_90\" must be that of the model whose parameters are shared");
    o.arch = NULL;
    o.name = "b";
    expect_refused(cx, &o, "name \"b\": a model that shares with this one has it already");
    o.name = NULL;
    expect_refused(cx, &o, "share: options.name must tell this model from the one without a name");
    o.name = "b/c";
    expect_refused(cx, &o, "name \"b/c\": a model's must not be empty, nor have a '/'");
    o.name = "";
    expect_refused(cx, &o, "name \"\": a model's must not be empty");
    assert_int_equal(tcc_model_train(a, &batch, -1), TCC_EINVAL);
    if (!strstr(tcc_context_error(cx), "a batch of -1 arrays")) fail_msg("%s", tcc_context_error(cx));
    tcc_model_destroy(a);
    tcc_model_destroy(b);
    tcc_context_destroy(other);
    tcc_context_destroy(cx);
}

/* A trace that fails leaves no parameters: neither to the models that share, nor in the way of the next batch. */
static void a_failed_trace_leaves_nothing(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *a, *b;
    tcc_array p;
    const tcc_array wrong = {"x", TCC_F32, 2, {ROWS + 1, WIDTH - 1}, xs}, unknown = {"z", TCC_F32, 1, {2}, xs};
    OK(NULL, tcc_context_create(&cx));
    OK(cx, create(cx, "a", NULL, NULL, &a));
    OK(cx, create(cx, "b", a, "b", &b));
    assert_int_equal(tcc_model_train(b, &unknown, 1), TCC_ENOTFOUND);
    assert_false(tcc_model_param(a, 0, &p));
    OK(cx, tcc_model_train(a, &batch, 1));
    assert_int_equal(tcc_model_train(b, &wrong, 1), TCC_ESHAPE);
    if (!strstr(tcc_context_error(cx), "\"both.weight\" is asked for as a parameter f32[4,2], but it is a parameter "
                                       "f32[4,3]"))
        fail_msg("%s", tcc_context_error(cx));
    OK(cx, tcc_model_train(b, &batch, 1));
    OK(cx, tcc_model_train(a, &batch, 1));
    tcc_model_destroy(a);
    tcc_model_destroy(b);
    tcc_context_destroy(cx);
}

static tcc_status compile_another(tcc_context *cx, tcc_model *a) {
    tcc_model *b = NULL;
    tcc_status status = create(cx, "b", a, "b", &b);
    if (status == TCC_OK) status = tcc_model_compile(b, true, &batch, 1);
    tcc_model_destroy(b);
    return status;
}

/* Memory that runs out at any point is an error; what was there before goes on as it would have. */
static void out_of_memory(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *a;
    double loss[2];
    OK(NULL, tcc_context_create(&cx));
    for (int fails = 0; fails < 2; fails++) {
        OK(cx, create(cx, "a", NULL, NULL, &a));
        OK(cx, tcc_model_train(a, &batch, 1));
        tcc__alloc_fail_at(INT64_MAX);
        OK(cx, compile_another(cx, a));
        const int64_t all = tcc__alloc_fail_at(-1);
        assert_true(all > 500);
        for (int64_t n = 0; fails && n < all; n += n < 10 ? 1 : all / 50 + 1) {
            tcc__alloc_fail_at(n);
            const tcc_status status = compile_another(cx, a);
            tcc__alloc_fail_at(-1);
            if (status != TCC_ENOMEM)
                fail_msg("allocation %d of %d failed: %s", (int)n, (int)all, tcc_status_name(status));
            tcc_context_clear_error(cx);
        }
        OK(cx, tcc_model_train(a, &batch, 1));
        loss[fails] = tcc_model_loss(a);
        tcc_model_destroy(a);
    }
    assert_true(loss[0] == loss[1]);
    tcc_context_destroy(cx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_pytorch),
                                       cmocka_unit_test(as_copied_by_hand),
                                       cmocka_unit_test(random_numbers_are_their_own),
                                       cmocka_unit_test(they_are_one_memory),
                                       cmocka_unit_test(names_of_states),
                                       cmocka_unit_test(losses_are_kept),
                                       FOLDER_TEST(checkpoints_of_both),
                                       FOLDER_TEST(a_plan_is_of_one_model),
                                       cmocka_unit_test(averages_are_of_one),
                                       cmocka_unit_test(in_any_order),
                                       cmocka_unit_test(refuses),
                                       cmocka_unit_test(a_failed_trace_leaves_nothing),
                                       cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
