/* SPDX-License-Identifier: MIT
 * Groups of parameters: what is frozen costs nothing and stays, what a group says is reported, kept in plans, and
 * refused where it makes no sense. That updates are PyTorch's is tests/numerics/test_curves.c. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/optimizer.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

static float xs[8][4];
static int32_t ys[8];
static const tcc_array batch[2] = {{.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {8, 4}, .data = xs},
                                   {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {8}, .data = ys}};

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_relu(tcc_linear(tcc_input(t, "x"), "fc1", 5));
    tcc_loss(t, tcc_cross_entropy(tcc_linear(tcc_layer_norm(h, "norm"), "fc2", 3), tcc_input(t, "y")));
}

static int set_up(void **state) {
    (void)state;
    for (int i = 0; i < 32; i++) xs[i / 4][i % 4] = (float)(i * 37 % 19) / 9 - 1;
    for (int i = 0; i < 8; i++) ys[i] = i % 3;
    return 0;
}

static tcc_status create(tcc_context *cx, const tcc_optimizer_options *o, tcc_model **m) {
    const tcc_model_options options = {.size = sizeof options, .seed = 3, .optimizer = o};
    return tcc_model_create(cx, net, NULL, &options, m);
}

static tcc_param_group group(const char *match) {
    tcc_param_group g;
    tcc_param_group_init(&g, match);
    return g;
}

static void check_report(tcc_context *cx, tcc_model *m, const char *expected) {
    char *text;
    OK(cx, tcc_model_report(m, "groups", &text));
    assert_string_equal(text, expected);
    tcc_string_free(text);
}

/* Frozen batch norms that keep their statistics normalize by them, and training moves nothing of them. */
static void norm_net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_batch_norm(tcc_linear(tcc_input(t, "x"), "fc1", 5), "bn");
    tcc_tensor loss = tcc_cross_entropy(tcc_linear(tcc_relu(h), "fc2", 3), tcc_input(t, "y"));
    if (tcc_is_training(t)) tcc_loss(t, loss);
    else tcc_output(t, "loss", loss);
}

static void frozen_statistics(void **state) {
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        tcc_context *cx;
        tcc_model *m;
        tcc_param_group g = group("bn.*");
        g.frozen = true;
        g.keep_statistics = keep;
        tcc_optimizer_options o;
        tcc_optimizer_init(&o, TCC_SGD);
        o.groups = &g;
        o.n_groups = 1;
        const tcc_model_options options = {.size = sizeof options, .seed = 3, .optimizer = &o};
        assert_int_equal(tcc_context_create(&cx), TCC_OK);
        OK(cx, tcc_model_create(cx, norm_net, NULL, &options, &m));
        tcc_array loss;
        OK(cx, tcc_model_evaluate(m, batch, 2));
        OK(cx, tcc_model_output(m, "loss", &loss));
        const double evaluated = *(const float *)loss.data;
        OK(cx, tcc_model_train(m, batch, 2));
        assert_int_equal(fabs(tcc_model_loss(m) - evaluated) < 1e-5, keep);
        OK(cx, tcc_model_synchronize(m));
        tcc_array a;
        int moved = 0;
        for (int i = 0; tcc_model_param(m, i, &a); i++)
            if (strstr(a.name, "running_mean")) moved += ((const float *)a.data)[0] != 0;
        assert_int_equal(moved, !keep);
        tcc_model_destroy(m);
        tcc_context_destroy(cx);
    }
}

static void frozen_parameters(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    tcc_array p;
    float before[20];
    tcc_param_group groups[] = {group("fc1.*"), group("*.bias")};
    groups[0].frozen = true;
    groups[1].lr_scale = 0.5;
    groups[1].weight_decay = 0;
    const tcc_optimizer_options o = OPTIMIZER(TCC_ADAMW, 0.01, .weight_decay = 0.1, .ema_decay = 0.9, .groups = groups,
                                              .n_groups = 2);
    OK(NULL, tcc_context_create(&cx));
    OK(cx, create(cx, &o, &m));
    groups[0].match = "gone"; /* the model has copies */
    OK(cx, tcc_model_compile(m, true, batch, 2));
    assert_true(tcc_model_find_param(m, "fc1.weight", &p));
    memcpy(before, p.data, sizeof before);
    for (int i = 0; i < 3; i++) OK(cx, tcc_model_train(m, batch, 2));
    assert_true(tcc_model_find_param(m, "fc1.weight", &p));
    assert_memory_equal(before, p.data, sizeof before);
    for (int i = 0; tcc_model_optimizer_state(m, i, &p); i++)
        if (!strncmp(p.name, "fc1.", 4)) fail_msg("a frozen parameter has state %s", p.name);
    check_report(cx, m,
                 "group fc1.*: 25 parameters in 2 tensors, frozen\n"
                 "group *.bias: 8 parameters in 2 tensors, lr x 0.5, weight decay 0\n"
                 "group of the rest: 20 parameters in 2 tensors\n");
    OK(cx, tcc_model_use_ema(m, true));
    OK(cx, tcc_model_evaluate(m, batch, 2));
    OK(cx, tcc_model_use_ema(m, false));
    OK(cx, tcc_model_verify(m, batch, 2, 0, NULL));
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* No gradient of the frozen is computed: the step of a model that is frozen up to its last layer has fewer operations.
 */
static void frozen_parameters_cost_nothing(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_program_info info[2];
    tcc_param_group frozen = group("[fn]*[1m].*"); /* fc1 and norm */
    frozen.frozen = true;
    OK(NULL, tcc_context_create(&cx));
    for (int i = 0; i < 2; i++) {
        tcc_model *m;
        const tcc_optimizer_options o = OPTIMIZER(TCC_SGD, 0.1, .groups = &frozen, .n_groups = i);
        OK(cx, create(cx, &o, &m));
        OK(cx, tcc_model_compile(m, true, batch, 2));
        OK(cx, tcc_model_info(m, &info[i]));
        tcc_model_destroy(m);
    }
    if (!(info[1].flop < 0.7 * info[0].flop)) fail_msg("%g of %g operations", info[1].flop, info[0].flop);
    tcc_context_destroy(cx);
}

/* A model from a plan goes on as the one that it was made from. */
static void plans_have_groups(void **state) {
    const char *path = test_path(state, "groups.tccplan");
    tcc_context *cx;
    tcc_model *m, *planned;
    tcc_param_group groups[] = {group("*.bias"), group("norm.*")};
    groups[0].beta1 = 0.5;
    groups[0].lr_scale = 3;
    groups[1].frozen = true;
    const tcc_optimizer_options o = OPTIMIZER(TCC_ADAM, 0.01, .groups = groups, .n_groups = 2);
    OK(NULL, tcc_context_create(&cx));
    OK(cx, create(cx, &o, &m));
    OK(cx, tcc_model_compile(m, true, batch, 2));
    OK(cx, tcc_model_save_plan(m, "", path));
    OK(cx, tcc_model_load_plan(cx, path, "cpu", &planned));
    for (int i = 0; i < 4; i++) {
        OK(cx, tcc_model_train(m, batch, 2));
        OK(cx, tcc_model_train(planned, batch, 2));
        assert_true(tcc_model_loss(m) == tcc_model_loss(planned));
    }
    check_report(cx, planned,
                 "group *.bias: 13 parameters in 3 tensors, lr x 3, beta1 0.5\n"
                 "group norm.*: 5 parameters in 1 tensors, frozen\n"
                 "group of the rest: 35 parameters in 2 tensors\n");
    tcc_model_destroy(planned);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* In micro-batches each group gets its own update, too. */
static void micro_batches_have_groups(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_param_group groups[] = {group("fc1.*"), group("*.bias"), group("norm.*")};
    groups[0].frozen = true;
    groups[1].beta1 = 0.5;
    groups[2].lr_scale = 3;
    const tcc_optimizer_options o = OPTIMIZER(TCC_ADAMW, 0.01, .weight_decay = 0.1, .groups = groups, .n_groups = 3);
    OK(NULL, tcc_context_create(&cx));
    float after[2][15];
    for (int cut = 0; cut < 2; cut++) {
        const tcc_model_options options = {
            .size = sizeof options, .seed = 3, .optimizer = &o, .batch_accumulate = cut ? 4 : 0};
        tcc_model *m;
        tcc_array p;
        OK(cx, tcc_model_create(cx, net, NULL, &options, &m));
        for (int i = 0; i < 3; i++) OK(cx, tcc_model_train(m, batch, 2));
        assert_true(tcc_model_find_param(m, "fc2.weight", &p));
        memcpy(after[cut], p.data, sizeof after[cut]);
        for (int i = 0; tcc_model_optimizer_state(m, i, &p); i++)
            if (!strncmp(p.name, "fc1.", 4)) fail_msg("a frozen parameter has state %s", p.name);
        OK(cx, tcc_model_verify(m, batch, 2, 0, NULL));
        tcc_model_destroy(m);
    }
    for (int i = 0; i < 15; i++)
        if (fabs((double)after[0][i] - (double)after[1][i]) > 1e-6) fail_msg("%g, %g", after[0][i], after[1][i]);
    tcc_context_destroy(cx);
}

static void check_refused(tcc_context *cx, const tcc_optimizer_options *o, const char *part) {
    tcc_model *m;
    tcc_status status = create(cx, o, &m);
    if (status == TCC_OK) {
        status = tcc_model_compile(m, true, batch, 2);
        tcc_model_destroy(m);
    }
    if (status != TCC_EINVAL || !strstr(tcc_context_error(cx), part))
        fail_msg("%s, or this does not say \"%s\": %s", tcc_status_name(status), part, tcc_context_error(cx));
    tcc_context_clear_error(cx);
}

/* Losses of three steps; `set`: with this momentum for all groups from the second on. */
static void train_with(tcc_context *cx, const tcc_optimizer_options *o, double set, double losses[3]) {
    tcc_model *m;
    OK(cx, create(cx, o, &m));
    for (int i = 0; i < 3; i++) {
        if (i && !isnan(set)) OK(cx, tcc_model_set_momentum(m, set));
        OK(cx, tcc_model_train(m, batch, 2));
        losses[i] = tcc_model_loss(m);
    }
    tcc_model_destroy(m);
}

/* A momentum that is cycled is that of every group, as with PyTorch's schedulers. */
static void momentum_is_set_for_all(void **state) {
    (void)state;
    tcc_context *cx;
    OK(NULL, tcc_context_create(&cx));
    for (int adam = 0; adam < 2; adam++) {
        tcc_param_group own = group("*");
        if (adam) own.beta1 = 0.3;
        else own.momentum = 0.3;
        tcc_optimizer_options o = OPTIMIZER(TCC_SGD, 0.1, .momentum = 0.9);
        if (adam) o = (tcc_optimizer_options)OPTIMIZER(TCC_ADAM, 0.1);
        double plain[3], set[3], own_momentum[3], own_set[3];
        train_with(cx, &o, NAN, plain);
        train_with(cx, &o, 0.6, set);
        o.groups = &own;
        o.n_groups = 1;
        train_with(cx, &o, NAN, own_momentum);
        train_with(cx, &o, 0.6, own_set);
        assert_true(plain[2] != set[2] && own_momentum[2] != plain[2]);
        /* The first update is the same without momentum, and Adam's direction is then the gradient's. */
        if (fabs(own_set[2] - set[2]) > (adam ? 2e-2 : 1e-6) * fabs(set[2]))
            fail_msg("%.9g is not %.9g", own_set[2], set[2]);
        if (fabs(own_set[2] - own_momentum[2]) < 1e-4 * fabs(set[2])) fail_msg("the group's own is still in use");
    }
    tcc_context_destroy(cx);
}

static void refuses(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_param_group g[17] = {group("fc1.*"), group("fc?.*")};
    tcc_optimizer_options o = OPTIMIZER(TCC_ADAMW, 0.01, .groups = g, .n_groups = 2);
    OK(NULL, tcc_context_create(&cx));
    g[1].match = "fc1.bias"; /* the first group has it */
    check_refused(cx, &o, "no parameter is left for the group \"fc1.bias\"");
    g[1].match = "fc2.weights";
    check_refused(cx, &o, "the parameters are fc1.weight, fc1.bias");
    g[1].match = "";
    check_refused(cx, &o, "group 1 has no pattern");
    g[1].match = "*";
    g[0].frozen = g[1].frozen = true;
    check_refused(cx, &o, "every parameter is frozen");
    g[1].frozen = false;
    g[1].lr_scale = -1;
    check_refused(cx, &o, "group \"*\": lr_scale -1 must be at least 0 and at most 1e+30");
    g[1].lr_scale = NAN;
    check_refused(cx, &o, "lr_scale nan");
    g[1].lr_scale = 1;
    g[1].beta2 = 1;
    check_refused(cx, &o, "group \"*\": beta2 1 must be at least 0 and less than 1");
    g[1].beta2 = NAN;
    g[1].momentum = 0.5;
    check_refused(cx, &o, "group \"*\": momentum 0.5 goes with TCC_SGD");
    o.kind = TCC_SGD;
    check_refused(cx, &o, "group \"*\": momentum 0.5 goes with a momentum of the optimizer");
    o.n_groups = 17;
    check_refused(cx, &o, "n_groups 17 must be from 0 to 16");
    o.n_groups = 2;
    g[0].size = 8;
    check_refused(cx, &o, "the size 8 of a group must be at least");
    tcc_context_destroy(cx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(frozen_parameters),
                                       cmocka_unit_test(frozen_statistics),
                                       cmocka_unit_test(frozen_parameters_cost_nothing),
                                       FOLDER_TEST(plans_have_groups),
                                       cmocka_unit_test(micro_batches_have_groups),
                                       cmocka_unit_test(momentum_is_set_for_all),
                                       cmocka_unit_test(refuses)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
