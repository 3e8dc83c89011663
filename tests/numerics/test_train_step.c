/* SPDX-License-Identifier: MIT
 * The training step against plain C loops of PyTorch's optimizers (torch/optim/sgd.py, adam.py,
 * adamw.py, adagrad.py and nn/utils/clip_grad.py, version 1.13), over several steps in double precision. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/gradcheck.h"
#include "ir/build.h"
#include "ir/support/alloc.h"
#include "passes/pass.h"
#include "ir/support/train_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 6, N_PARAMETERS = 3, ELEMENTS = 6, N_GROUPS = 2 };

static const int group_of[N_PARAMETERS] = {0, 1, 1};

/* What a case of the table sets. */
typedef struct recipe {
    tcc_optimizer_kind optimizer;
    bool momentum, nesterov, clip, ema, ema_warmup;
    double dampening, weight_decay[N_GROUPS], lr[N_GROUPS];
} recipe;

static const double beta1 = 0.9, beta2 = 0.99, eps = 1e-3, momentum = 0.8, clip_norm = 1.5, ema_decay = 0.7;

/* loss = sum over parameters of sum (curvature / 2 p^2 + sin p): the gradient is curvature p + cos
 * p. */
static tcc_graph *make_loss(tcc_diag *diag, tcc_dtype dtype, const double *curvature) {
    static const char *const names[N_PARAMETERS] = {"a", "b", "c"};
    tcc_graph *g = tcc_graph_create("step", diag);
    tcc_type type = {dtype, 2, {2, 3}};
    tcc_node *loss = NULL;
    for (int i = 0; i < N_PARAMETERS; i++) {
        tcc_node *p = tcc_ir_input(g, names[i], TCC_ROLE_PARAM, &type, TCC_NOWHERE);
        tcc_node *square = tcc_ir_binary_c(g, TCC_OP_MUL, tcc_ir_binary(g, TCC_OP_MUL, p, p), 0.5 * curvature[i]);
        tcc_dims all = tcc_ir_axes_from(0, 2);
        tcc_node *sum = tcc_ir_reduce(g, TCC_OP_REDUCE_SUM,
                                      tcc_ir_binary(g, TCC_OP_ADD, square, tcc_ir_unary(g, TCC_OP_SIN, p)), &all);
        loss = loss ? tcc_ir_binary(g, TCC_OP_ADD, loss, sum) : sum;
    }
    assert_ok(tcc_ir_output(g, "twice", tcc_ir_binary_c(g, TCC_OP_MUL, loss, 2), -1), diag);
    assert_ok(tcc_ir_output(g, "loss", loss, -1), diag);
    return g;
}

/* autodiff and train-step; the argument is freed. */
static tcc_graph *make_step(tcc_graph *g, const tcc_train_spec *spec) {
    tcc_context context = {0};
    tcc_pass_options options = {.train = true, .spec = *spec};
    tcc_pass_cx cx = {.cx = &context, .diag = g->diag, .options = &options};
    tcc_graph *joint = NULL, *step = NULL;
    assert_ok(tcc_pass_autodiff(&cx, g, &joint), g->diag);
    assert_ok(tcc_pass_train_step(&cx, joint, &step), g->diag);
    tcc_graph_destroy(g);
    tcc_graph_destroy(joint);
    return step;
}

static int input_named(const tcc_graph *g, const char *name) {
    for (int i = 0; i < g->inputs.count; i++)
        if (!strcmp(g->inputs.data[i]->attrs->input.name, name)) return i;
    return -1;
}

static int output_named(const tcc_graph *g, const char *name) {
    for (int i = 0; i < g->outputs.count; i++)
        if (!strcmp(g->outputs.data[i].name, name)) return i;
    return -1;
}

/* -- PyTorch, in plain loops -- */

typedef struct reference {
    double p[N_PARAMETERS][ELEMENTS], first[N_PARAMETERS][ELEMENTS], second[N_PARAMETERS][ELEMENTS];
    double ema[N_PARAMETERS][ELEMENTS];
    double norm;
} reference;

/* Algorithm 2 of Chen et al. 2023 */
static double lion_step(double lr, double decay, double p, double g, double *m) {
    const double c = beta1 * *m + (1 - beta1) * g;
    *m = beta2 * *m + (1 - beta2) * g;
    return p - lr * ((c > 0) - (c < 0) + decay * p);
}

/* torch.optim.Adagrad: _single_tensor_adagrad, without lr_decay */
static double adagrad_step(double lr, double decay, double p, double g, double *sum) {
    g = g + decay * p;
    *sum = *sum + g * g;
    return p - lr * g / (sqrt(*sum) + eps);
}

/* torch.optim.SGD: _single_tensor_sgd */
static double sgd_step(const recipe *r, int step, double lr, double decay, double p, double g, double *buffer) {
    if (decay != 0) g = g + decay * p;
    if (r->momentum) {
        if (step == 1) *buffer = g;
        else *buffer = *buffer * momentum + (1 - r->dampening) * g;
        if (r->nesterov) g = g + momentum * *buffer;
        else g = *buffer;
    }
    return p - lr * g;
}

/* torch.optim.Adam and AdamW: _single_tensor_adam, _single_tensor_adamw */
static double adam_step(const recipe *r, int step, double lr, double decay, double p, double g, double *m, double *v) {
    if (r->optimizer == TCC_ADAMW) p = p * (1 - lr * decay);
    else if (decay != 0) g = g + decay * p;
    *m = *m * beta1 + (1 - beta1) * g;
    *v = *v * beta2 + (1 - beta2) * g * g;
    double correction1 = 1 - pow(beta1, step), correction2 = 1 - pow(beta2, step);
    double denominator = sqrt(*v) / sqrt(correction2) + eps;
    return p - lr / correction1 * (*m / denominator);
}

static void reference_step(reference *ref, const recipe *r, int step, const double *curvature) {
    double g[N_PARAMETERS][ELEMENTS], squares = 0;
    for (int i = 0; i < N_PARAMETERS; i++)
        for (int e = 0; e < ELEMENTS; e++) {
            g[i][e] = curvature[i] * ref->p[i][e] + cos(ref->p[i][e]);
            squares += g[i][e] * g[i][e];
        }
    ref->norm = sqrt(squares);
    double factor = r->clip ? fmin(1, clip_norm / (ref->norm + 1e-6)) : 1;
    for (int i = 0; i < N_PARAMETERS; i++)
        for (int e = 0; e < ELEMENTS; e++) {
            double lr = r->lr[group_of[i]], decay = r->weight_decay[group_of[i]], *p = &ref->p[i][e];
            if (r->optimizer == TCC_SGD) *p = sgd_step(r, step, lr, decay, *p, g[i][e] * factor, &ref->first[i][e]);
            else if (r->optimizer == TCC_LION) *p = lion_step(lr, decay, *p, g[i][e] * factor, &ref->first[i][e]);
            else if (r->optimizer == TCC_ADAGRAD) *p = adagrad_step(lr, decay, *p, g[i][e] * factor, &ref->first[i][e]);
            else *p = adam_step(r, step, lr, decay, *p, g[i][e] * factor, &ref->first[i][e], &ref->second[i][e]);
        }
}

/* torch.optim.swa_utils.AveragedModel with get_ema_avg_fn: the first is a copy. */
static void reference_ema(reference *ref, const recipe *r, int step) {
    const double n = step - 1, decay = r->ema_warmup ? fmin(ema_decay, (1 + n) / (10 + n)) : ema_decay;
    for (int i = 0; i < N_PARAMETERS; i++)
        for (int e = 0; e < ELEMENTS; e++)
            ref->ema[i][e] = step == 1 ? ref->p[i][e] : decay * ref->ema[i][e] + (1 - decay) * ref->p[i][e];
}

/* -- The two side by side -- */

static void fill_hyper(tcc_value *hyper, const recipe *r, int step) {
    double *h = hyper->f;
    h[TCC_HYPER_MOMENTUM] = momentum;
    h[TCC_HYPER_DAMPENING_SCALE] = step == 1 ? 1 : 1 - r->dampening;
    h[TCC_HYPER_BETA1_COMPLEMENT] = 1 - beta1;
    h[TCC_HYPER_BETA2_COMPLEMENT] = 1 - beta2;
    h[TCC_HYPER_EPS] = eps;
    h[TCC_HYPER_CLIP_NORM] = clip_norm;
    if (r->ema) {
        h[TCC_HYPER_EMA(N_GROUPS, TCC_EMA_COMPLEMENT)] = 1 - ema_decay;
        h[TCC_HYPER_EMA(N_GROUPS, TCC_EMA_WARMUP)] = r->ema_warmup ? 9 : 0;
    }
    for (int i = 0; i < N_GROUPS; i++) {
        h[TCC_HYPER_LR(i)] = r->lr[i];
        h[TCC_HYPER_WEIGHT_DECAY(i)] = r->weight_decay[i];
    }
}

/* One run of the step; outputs that alias inputs become their next values. */
static void run_step(const tcc_graph *g, tcc_value *inputs, double *norm) {
    tcc_value *outputs = calloc((size_t)g->outputs.count, sizeof *outputs);
    assert_ok(tcc_graph_eval(g, inputs, outputs, g->diag), g->diag);
    if (output_named(g, "grad_norm") >= 0) *norm = outputs[output_named(g, "grad_norm")].f[0];
    for (int i = 0; i < g->outputs.count; i++) {
        int alias = g->outputs.data[i].alias;
        if (alias < 0) {
            tcc_value_free(&outputs[i]);
            continue;
        }
        tcc_value_free(&inputs[alias]);
        inputs[alias] = outputs[i];
    }
    free(outputs);
}

/* Double arithmetic in another order differs by a few ulp a step; the norm that clipping divides by
 * is float32. */
static void assert_near(const recipe *r, double a, double b) {
    double tolerance = r->clip ? 3e-7 : 1e-12;
    if (!(fabs(a - b) <= tolerance * (1 + fabs(b)))) fail_msg("%.17g, expected %.17g", a, b);
}

static void test_optimizer(void **state) {
    const recipe *r = *state;
    const double curvature[N_PARAMETERS] = {1, 3, -0.5};
    tcc_diag diag = {0};
    tcc_train_spec spec = {.optimizer = r->optimizer,
                           .momentum = r->momentum,
                           .nesterov = r->nesterov,
                           .clip_norm = r->clip,
                           .ema = r->ema,
                           .n_groups = N_GROUPS,
                           .group_of = group_of};
    tcc_graph *g = make_step(make_loss(&diag, TCC_F64, curvature), &spec);
    tcc_value *inputs = calloc((size_t)g->inputs.count, sizeof *inputs);
    reference ref = {0};
    uint64_t random = 7;
    for (int i = 0; i < g->inputs.count; i++) {
        assert_ok(tcc_value_create(&g->inputs.data[i]->type, &inputs[i], &diag), &diag);
        if (i >= N_PARAMETERS) continue;
        test_fill(&inputs[i], &random, -2, 2);
        memcpy(ref.p[i], inputs[i].f, sizeof ref.p[i]);
    }
    for (int step = 1; step <= STEPS; step++) {
        double norm = 0;
        fill_hyper(&inputs[input_named(g, "hyper")], r, step);
        run_step(g, inputs, &norm);
        reference_step(&ref, r, step, curvature);
        for (int i = 0; i < N_PARAMETERS; i++)
            for (int e = 0; e < ELEMENTS; e++) assert_near(r, inputs[i].f[e], ref.p[i][e]);
        reference_ema(&ref, r, step);
        for (int i = 0; r->ema && i < N_PARAMETERS; i++) {
            const char *const averages[] = {"a.ema", "b.ema", "c.ema"};
            const double *got = inputs[input_named(g, averages[i])].f;
            for (int e = 0; e < ELEMENTS; e++) assert_near(r, got[e], ref.ema[i][e]);
        }
        if (r->clip) assert_near(r, norm, ref.norm);
    }
    for (int i = 0; i < g->inputs.count; i++) tcc_value_free(&inputs[i]);
    free(inputs);
    tcc_graph_destroy(g);
}

/* Adam's bias corrections alone, as the step computes them: 1 / (1 - beta1^t) and the same of beta2. */
static tcc_graph *make_corrections(tcc_diag *diag) {
    static const double curvature[N_PARAMETERS] = {1, 1, 1};
    const tcc_train_spec spec = {.optimizer = TCC_ADAM, .n_groups = 1};
    tcc_graph *g = make_step(make_loss(diag, TCC_F32, curvature), &spec);
    g->outputs.count = 0;
    for (int id = 0; id < g->nodes.count; id++) {
        const tcc_node *n = g->nodes.data[id];
        if (n->op != TCC_OP_CAST || n->type.dtype != TCC_F32 || n->operands[0]->type.dtype != TCC_F64) continue;
        assert_ok(tcc_ir_output(g, g->outputs.count ? "first" : "second", g->nodes.data[id], -1), diag);
    }
    assert_int_equal(g->outputs.count, 2); /* one of each, for all parameters */
    return g;
}

/* The largest error in 100,000 updates, in units of the last place; expected is what PyTorch computes, in double. */
static double worst_correction(compiled *c, int64_t *count, double b1, double b2) {
    double worst = 0;
    for (int64_t t = 1; t <= 100000; t++) {
        *count = t - 1;
        compiled_run(c);
        for (int i = 0; i < 2; i++) {
            const float got = *(const float *)compiled_output(c, i);
            const double want = 1 / (1 - pow(i ? b1 : b2, (double)t));
            const double ulp = (double)(nextafterf((float)want, INFINITY) - (float)want);
            worst = fmax(worst, fabs((double)got - want) / ulp);
        }
    }
    return worst;
}

/* Within 1.25 units of f32's last place of PyTorch's doubles at every step: half a unit is the result's own rounding,
 * the rest that of 1 - beta, which is f32. */
static void test_bias_corrections(void **state) {
    (void)state;
    static const double betas[][2] = {{0.9, 0.999}, {0.9, 0.95}, {0.5, 0.9999}};
    tcc_diag diag = {0};
    tcc_graph *g = make_corrections(&diag);
    compiled *c = compiled_create(g, &(compiled_options){0});
    float *hyper = c->memory[input_named(c->graph, "hyper")];
    int64_t *count = c->memory[input_named(c->graph, TCC_STEP_STATE)];
    for (size_t i = 0; i < sizeof betas / sizeof betas[0]; i++) {
        hyper[TCC_HYPER_BETA1_COMPLEMENT] = (float)(1 - betas[i][0]);
        hyper[TCC_HYPER_BETA2_COMPLEMENT] = (float)(1 - betas[i][1]);
        const double worst = worst_correction(c, count, betas[i][0], betas[i][1]);
        if (!(worst <= 1.25)) fail_msg("betas %g, %g: %.3f units", betas[i][0], betas[i][1], worst);
    }
    compiled_destroy(c);
    tcc_graph_destroy(g);
}

static void expect_outputs(const tcc_graph *g, const char *const *names) {
    int i = 0;
    for (; names[i]; i++) {
        assert_true(i < g->outputs.count);
        assert_string_equal(g->outputs.data[i].name, names[i]);
        int alias = g->outputs.data[i].alias;
        if (alias >= 0) assert_string_equal(g->inputs.data[alias]->attrs->input.name, names[i]);
        else assert_true(input_named(g, names[i]) < 0);
    }
    assert_int_equal(g->outputs.count, i);
}

static const double unit[N_PARAMETERS] = {1, 1, 1};

static void test_outputs_and_their_order(void **state) {
    (void)state;
    tcc_diag diag = {0};
    bool frozen[N_PARAMETERS] = {false, true, false};
    tcc_train_spec spec = {
        .optimizer = TCC_ADAM, .clip_norm = true, .n_groups = 1, .frozen = frozen, .keep_gradients = true};
    tcc_graph *g = make_step(make_loss(&diag, TCC_F32, unit), &spec);
    expect_outputs(g, (const char *const[]){"loss", "twice", "grad_norm", "a", "a.m", "a.v", "c", "c.m", "c.v", "@step",
                                            "grad.a", "grad.c", NULL});
    assert_int_equal(g->inputs.data[input_named(g, "a.m")]->attrs->input.role, TCC_ROLE_STATE);
    assert_int_equal(g->inputs.data[input_named(g, "hyper")]->attrs->input.role, TCC_ROLE_HYPER);
    assert_ok(tcc_graph_verify(g, &diag), &diag);
    tcc_graph_destroy(g);

    spec = (tcc_train_spec){.optimizer = TCC_SGD, .n_groups = 1, .momentum = true};
    g = make_step(make_loss(&diag, TCC_F32, unit), &spec);
    expect_outputs(
        g, (const char *const[]){"loss", "twice", "a", "a.momentum", "b", "b.momentum", "c", "c.momentum", NULL});
    tcc_graph_destroy(g);

    spec = (tcc_train_spec){.no_update = true, .n_groups = 1, .keep_gradients = true};
    g = make_step(make_loss(&diag, TCC_F32, unit), &spec);
    expect_outputs(g, (const char *const[]){"loss", "twice", "grad.a", "grad.b", "grad.c", NULL});
    assert_int_equal(g->inputs.count, N_PARAMETERS);
    tcc_graph_destroy(g);
}

/* Short parameters: states and arithmetic are float32, the parameter is rounded once at the end. */
static void test_short_parameters(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_train_spec spec = {.optimizer = TCC_ADAMW, .n_groups = 1};
    tcc_graph *g = make_step(make_loss(&diag, TCC_BF16, unit), &spec);
    assert_int_equal(g->inputs.data[input_named(g, "a.m")]->type.dtype, TCC_F32);
    const tcc_node *next = g->outputs.data[output_named(g, "a")].node;
    assert_int_equal(next->op, TCC_OP_CAST);
    assert_int_equal(next->type.dtype, TCC_BF16);
    assert_int_equal(next->operands[0]->type.dtype, TCC_F32);
    assert_ok(tcc_graph_verify(g, &diag), &diag);
    tcc_graph_destroy(g);
}

static void refuse(tcc_graph *g, const tcc_train_spec *spec, const char *message) {
    tcc_context context = {0};
    tcc_pass_options options = {.train = true, .spec = *spec};
    tcc_pass_cx cx = {.cx = &context, .diag = g->diag, .options = &options};
    tcc_graph *step = NULL;
    assert_int_equal(tcc_pass_train_step(&cx, g, &step), TCC_EINVAL);
    assert_null(step);
    assert_string_equal(tcc_diag_text(g->diag), message);
    tcc_diag_clear(g->diag);
    tcc_graph_destroy(g);
}

static void test_errors(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_type type = {TCC_F32, 1, {4}};
    tcc_train_spec spec = {.optimizer = TCC_SGD, .n_groups = 1};
    refuse(tcc_graph_create("empty", &diag), &spec, "error: the graph 'empty' has no output 'loss'");

    tcc_graph *g = tcc_graph_create("g", &diag);
    tcc_node *p = tcc_ir_input(g, "p", TCC_ROLE_PARAM, &type, (tcc_loc){"m.c", 3});
    assert_ok(tcc_ir_output(g, "loss", p, -1), &diag);
    assert_ok(tcc_ir_output(g, "grad.p", p, -1), &diag);
    const int groups[] = {1};
    spec.group_of = groups;
    refuse(g, &spec, "m.c:3: error: parameter 'p' is in group 1 of 1");

    spec.n_groups = 0;
    refuse(tcc_graph_create("empty", &diag), &spec, "error: 0 parameter groups, at least 1 is needed");
}

/* Whichever allocation fails, the passes report it, give back what they took, and make no graph. */
static void test_failing_allocations(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_context context = {0};
    tcc_pass_options options = {
        .train = true, .spec = {.optimizer = TCC_ADAMW, .clip_norm = true, .n_groups = 1, .keep_gradients = true}};
    tcc_pass_cx cx = {.cx = &context, .diag = &diag, .options = &options};
    tcc_graph *g = make_loss(&diag, TCC_F32, unit), *joint = NULL;
    assert_ok(tcc_pass_autodiff(&cx, g, &joint), &diag);
    tcc_pass_fn passes[] = {tcc_pass_train_step, tcc_pass_decompose};
    for (int i = 0; i < 2; i++) {
        tcc_status status = TCC_ENOMEM;
        for (int64_t n = 0; status != TCC_OK; n++) {
            assert_true(n < 2000);
            tcc_graph *result = NULL;
            tcc__alloc_fail_at(n);
            status = passes[i](&cx, joint, &result);
            tcc__alloc_fail_at(-1);
            assert_true(status == TCC_ENOMEM || (status == TCC_OK && n > 10));
            assert_true((status == TCC_OK) == (result != NULL));
            tcc_diag_clear(&diag);
            tcc_graph_destroy(result);
        }
    }
    tcc_graph_destroy(joint);
    tcc_graph_destroy(g);
}

/* clang-format off */
static recipe recipes[] = {
    {TCC_SGD,   .lr = {0.1, 0.03}},
    {TCC_SGD,   .lr = {0.1, 0.03}, .weight_decay = {0.2, 0}},
    {TCC_SGD,   .lr = {0.1, 0.03}, .weight_decay = {0.2, 0}, .momentum = true},
    {TCC_SGD,   .lr = {0.1, 0.03}, .weight_decay = {0.2, 0.1}, .momentum = true, .dampening = 0.3},
    {TCC_SGD,   .lr = {0.1, 0.03}, .weight_decay = {0.2, 0}, .momentum = true, .nesterov = true,
     .clip = true},
    {TCC_ADAM,  .lr = {0.1, 0.03}},
    {TCC_ADAM,  .lr = {0.1, 0.03}, .weight_decay = {0.2, 0}},
    {TCC_ADAMW, .lr = {0.1, 0.03}, .weight_decay = {0.2, 0}},
    {TCC_ADAMW, .lr = {0.1, 0.03}, .weight_decay = {0.2, 0.1}, .clip = true},
    {TCC_SGD,   .lr = {0.1, 0.03}, .ema = true},
    {TCC_ADAMW, .lr = {0.1, 0.03}, .ema = true, .ema_warmup = true},
    {TCC_LION,  .lr = {0.1, 0.03}, .weight_decay = {0.2, 0}, .ema = true},
    {TCC_ADAGRAD, .lr = {0.1, 0.03}, .weight_decay = {0.2, 0}},
};
/* clang-format on */

int main(void) {
    static const char *const names[] = {
        "sgd",        "sgd_decay", "sgd_momentum", "sgd_dampening", "sgd_nesterov_clip", "adam",
        "adam_decay", "adamw",     "adamw_clip",   "sgd_ema",       "adamw_ema_warmup",  "lion",
        "adagrad"};
    enum { N_RECIPES = sizeof recipes / sizeof *recipes };
    struct CMUnitTest tests[N_RECIPES + 5];
    for (int i = 0; i < N_RECIPES; i++)
        tests[i] = (struct CMUnitTest){names[i], test_optimizer, NULL, NULL, &recipes[i]};
    tests[N_RECIPES] = (struct CMUnitTest)cmocka_unit_test(test_outputs_and_their_order);
    tests[N_RECIPES + 1] = (struct CMUnitTest)cmocka_unit_test(test_short_parameters);
    tests[N_RECIPES + 2] = (struct CMUnitTest)cmocka_unit_test(test_errors);
    tests[N_RECIPES + 3] = (struct CMUnitTest)cmocka_unit_test(test_failing_allocations);
    tests[N_RECIPES + 4] = (struct CMUnitTest)cmocka_unit_test(test_bias_corrections);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
