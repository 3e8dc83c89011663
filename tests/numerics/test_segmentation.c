/* SPDX-License-Identifier: MIT
 * Segmentation networks with their losses, trained for five steps, beside the same in PyTorch in float64
 * (golden/make_segmentation.py): logits of all heads, each parameter's gradient, losses, and what parameters and
 * running statistics become. Ours compute in f64 for it, where a ReLU whose operand is nearly 0 does not flip.
 *
 * The suite has a few small cases. TCC_SEGMENTATION=FILE takes all of a file that the script made, and tells how far
 * float32 is, with PyTorch's beside it: in each mode, with budgets, verified, and in mixed precision. */
#include "bench/segmentation.h"
#include "harness/check.h"
#include "traincc/traincc.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- A case -- */

typedef struct given {
    const bench_network *net;
    const cJSON *expected;
    int64_t classes, n, h, w;
    tcc_array batch[2];
    bool wide; /* in f64 */
} given;

static const char *const head_names[] = {"head0", "head1", "head2", "head3"};

static void build(tcc_trace *t, void *user) {
    const given *g = user;
    tcc_param_type(t, g->wide ? TCC_F64 : TCC_F32);
    tcc_tensor x = tcc_cast(tcc_input(t, "x"), g->wide ? TCC_F64 : TCC_F32);
    tcc_segmentation heads = g->net->make(t, x, g->net->name, g->classes);
    tcc_param_type_end(t);
    tcc_loss(t, tcc_cast(bench_network_loss(t, g->net, &heads, tcc_input(t, "y"), g->classes), TCC_F32));
    for (int i = 0; i < heads.count; i++) tcc_output(t, head_names[i], heads.logits[i]);
    if (heads.has_detail) tcc_output(t, head_names[heads.count], heads.detail);
}

static int64_t count(const tcc_array *a) {
    int64_t n = 1;
    for (int d = 0; d < a->rank; d++) n *= a->dims[d];
    return n;
}

/* -- Distances from PyTorch -- */

typedef struct distances {
    double logits, gradients, parameters, losses;
    const char *worst; /* the gradient that is furthest; NULL: not known */
} distances;

static double item(const cJSON *list, int i) { return cJSON_GetArrayItem(list, i)->valuedouble; }

/* Of the products of a tensor of such a kind, over its norm; a gradient that is 0 but for rounding has the size of
 * others. */
static double distance(const cJSON *kind, const char *name, const tcc_array *a) {
    const cJSON *want = cJSON_GetObjectItemCaseSensitive(kind, name), *other;
    double largest = 0, worst = 0, sums[4] = {0};
    if (!want) fail_msg("PyTorch has no %s", name);
    cJSON_ArrayForEach(other, kind) largest = fmax(largest, item(other, 0));
    assert_true(a->dtype == TCC_F32 || a->dtype == TCC_F64);
    for (int64_t e = 0; e < count(a); e++) {
        const double v = a->dtype == TCC_F64 ? ((const double *)a->data)[e] : (double)((const float *)a->data)[e];
        for (int k = 0; k < 4; k++) {
            const double x = (double)(e + 1) * 0.7548776662466927 * (k + 1);
            sums[k] += v * (x - floor(x) - 0.5);
        }
    }
    for (int k = 0; k < 4; k++) worst = fmax(worst, fabs(sums[k] - item(want, 1 + k)));
    worst /= item(want, 0) + 1e-4 * largest;
    return isfinite(worst) ? worst : INFINITY;
}

typedef struct settings {
    const char *name, *budget;
    tcc_mode mode;
    tcc_mixed_precision precision;
    bool verify, wide;
} settings;

static double read_losses(tcc_model *m, const cJSON *want, double *losses, int step) {
    losses[step] = tcc_model_loss(m);
    return fabs(losses[step] - item(want, step)) / fabs(item(want, step));
}

static void compare_first_step(tcc_model *m, const cJSON *expected, distances *d) {
    const cJSON *gradients = cJSON_GetObjectItem(expected, "gradients"), *of;
    const cJSON *logits = cJSON_GetObjectItem(expected, "logits");
    tcc_array a;
    for (int i = 0; i < cJSON_GetArraySize(logits); i++) {
        const char number[2] = {(char)('0' + i), 0};
        assert_int_equal(tcc_model_output(m, head_names[i], &a), TCC_OK);
        d->logits = fmax(d->logits, distance(logits, number, &a));
    }
    cJSON_ArrayForEach(of, gradients) {
        assert_int_equal(tcc_model_gradient(m, of->string, &a), TCC_OK);
        const double far = distance(gradients, of->string, &a);
        if (far >= d->gradients) d->gradients = far, d->worst = of->string;
    }
}

enum { STEPS = 5 };

/* Five steps. What they left is a hash of the losses and of all parameters and buffers: *bits, unless NULL. */
static distances run(given *g, const settings *s, uint64_t *bits) {
    tcc_context *cx;
    tcc_model *m;
    tcc_array p;
    distances d = {0};
    double losses[STEPS];
    g->wide = s->wide;
    tcc_optimizer_options sgd;
    tcc_optimizer_init(&sgd, TCC_SGD);
    sgd.lr = cJSON_GetObjectItem(g->expected, "rate")->valuedouble;
    sgd.momentum = 0.9, sgd.weight_decay = 5e-4, sgd.decay_all = true;
    const tcc_model_options o = {.size = sizeof o,
                                 .optimizer = &sgd,
                                 .keep_gradients = true,
                                 .mode = s->mode,
                                 .memory_budget = s->budget,
                                 .mixed_precision = s->precision,
                                 .loss_scale = s->precision == TCC_MIXED_FP16 ? 1024 : 0};
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    tcc_status status = tcc_model_create(cx, build, g, &o, &m);
    if (status == TCC_OK) status = tcc_model_compile(m, true, g->batch, 2);
    if (status == TCC_OK) status = bench_network_begin(m);
    if (status != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    if (s->verify && tcc_model_verify(m, g->batch, 2, 0, NULL) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    for (int step = 0; step < STEPS; step++) {
        if (tcc_model_train(m, g->batch, 2) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
        d.losses = fmax(d.losses, read_losses(m, cJSON_GetObjectItem(g->expected, "losses"), losses, step));
        if (!step) compare_first_step(m, g->expected, &d);
    }
    const cJSON *parameters = cJSON_GetObjectItem(g->expected, "parameters");
    uint64_t h = 0;
    int n = 0;
    for (; tcc_model_param(m, n, &p); n++) {
        d.parameters = fmax(d.parameters, distance(parameters, p.name, &p));
        for (int64_t e = 0; e < count(&p); e++) h = h * 31 + ((const uint32_t *)p.data)[e]; /* the first half of f64 */
    }
    for (int step = 0; step < STEPS; step++) h = h * 31 + (uint64_t)(losses[step] * 0x1p40);
    assert_int_equal(n, cJSON_GetArraySize(parameters));
    if (bits) *bits = h;
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return d;
}

static void print(const given *g, const char *how, distances d) {
    print_message("%-14s %" PRId64 " x %" PRId64 " x %" PRId64
                  " %-10s logits %8.2g  gradients %8.2g  parameters %8.2g  losses %8.2g %s\n",
                  g->net->name, g->n, g->h, g->w, how, d.logits, d.gradients, d.parameters, d.losses,
                  d.worst ? d.worst : "");
}

/* -- Cases -- */

static given read_case(const cJSON *expected) {
    const char *name = cJSON_GetObjectItem(expected, "network")->valuestring;
    const cJSON *size = cJSON_GetObjectItem(expected, "size");
    given g = {.expected = expected,
               .classes = cJSON_GetObjectItem(expected, "classes")->valueint,
               .n = (int64_t)item(size, 0),
               .h = (int64_t)item(size, 1),
               .w = (int64_t)item(size, 2)};
    g.net = bench_network_find(name);
    if (!g.net) fail_msg("there is no network %s", name);
    bench_network_batch(g.n, g.h, g.w, g.classes, g.batch);
    return g;
}

/* In f64 nothing but the order of sums may differ. But what the optimizer keeps is f32, and norms of a few values make
 * much of that from step to step. */
static void check(const given *g, distances d) {
    if (d.logits > 1e-9 || d.gradients > 1e-7 || d.parameters > 0.1 || d.losses > 1e-2)
        fail_msg("%s is another network than PyTorch's, or has another loss", g->net->name);
}

static distances read_distances(const cJSON *of) {
    return (distances){
        cJSON_GetObjectItem(of, "logits")->valuedouble, cJSON_GetObjectItem(of, "gradients")->valuedouble,
        cJSON_GetObjectItem(of, "parameters")->valuedouble, cJSON_GetObjectItem(of, "losses")->valuedouble, NULL};
}

/* Modes compute the same but for rounding; budgets the same bits. */
static void run_others(given *g, uint64_t bits) {
    static const settings others[] = {{"eager", .mode = TCC_MODE_EAGER},
                                      {"verified", .verify = true},
                                      {"75%", .budget = "75%"},
                                      {"min", .budget = "min"},
                                      {"bf16", .precision = TCC_MIXED_BF16},
                                      {"fp16", .precision = TCC_MIXED_FP16}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        uint64_t own;
        const distances d = run(g, &others[i], &own);
        print(g, others[i].name, d);
        if (!others[i].precision && others[i].mode == TCC_MODE_DEFAULT) assert_true(own == bits);
    }
}

static void networks_train_as_in_pytorch(void **state) {
    (void)state;
    const char *all = getenv("TCC_SEGMENTATION"),
               *path = all ? all : TCC_SOURCE_DIR "/tests/numerics/golden/segmentation.json";
    enum { MOST_BYTES = 1 << 23 };
    char *text = calloc(1, MOST_BYTES);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, MOST_BYTES - 1, f) > 0);
    fclose(f);
    cJSON *cases = cJSON_Parse(text), *expected;
    assert_non_null(cases);
    cJSON_ArrayForEach(expected, cases) {
        given g = read_case(expected);
        uint64_t bits;
        const distances d = run(&g, &(settings){.name = "f64", .wide = true}, NULL);
        print(&g, "f64", d);
        check(&g, d);
        if (all) {
            print(&g, "PyTorch", read_distances(cJSON_GetObjectItem(expected, "float32")));
            print(&g, "f32", run(&g, &(settings){.name = "f32"}, &bits));
            run_others(&g, bits);
        }
        free(g.batch[0].data);
        free(g.batch[1].data);
    }
    cJSON_Delete(cases);
    free(text);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(networks_train_as_in_pytorch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
