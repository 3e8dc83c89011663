/* SPDX-License-Identifier: MIT
 * Models that share their parameters, beside PyTorch and beside models that do not share. */
#include "harness/shared_cases.h"
#include "harness/check.h"
#include "harness/files.h"
#include "harness/optimizer.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

static const tcc_init normal = {.kind = TCC_INIT_NORMAL, .b = 1};

/* -- Networks of make_shared.py; `user` is the number of hidden units -- */

static tcc_tensor two_layers(tcc_tensor x, const char *name, void *user, int64_t outputs) {
    char in[32], out[32];
    snprintf(in, sizeof in, "%s.in", name);
    snprintf(out, sizeof out, "%s.out", name);
    return tcc_linear(tcc_tanh(tcc_linear(x, in, *(int *)user)), out, outputs);
}

static tcc_tensor gain(tcc_trace *t, tcc_tensor x) {
    return tcc_mul(x, tcc_param(t, "gain", normal, TCC_DIMS(tcc_dim(x, 1))));
}

static tcc_tensor score(tcc_trace *t, void *user, tcc_tensor x) { return two_layers(gain(t, x), "critic", user, 1); }

static tcc_tensor generate(tcc_trace *t, void *user) {
    const tcc_tensor z = tcc_input(t, "z");
    return gain(t, two_layers(z, "generator", user, tcc_dim(z, 1)));
}

static void critic(tcc_trace *t, void *user) {
    const tcc_tensor real = tcc_input(t, "real"), where = tcc_scale(tcc_add_scalar(tcc_input(t, "where"), 1), 0.5);
    const tcc_tensor fake = tcc_stop_gradient(generate(t, user));
    const tcc_tensor between = tcc_add(fake, tcc_mul(where, tcc_sub(tcc_stop_gradient(real), fake)));
    const tcc_tensor slope = tcc_gradient(tcc_sum(score(t, user, between), TCC_ALL), between);
    const tcc_tensor off = tcc_add_scalar(tcc_sqrt(tcc_sum(tcc_mul(slope, slope), TCC_DIMS(1))), -1);
    const tcc_tensor lead = tcc_sub(tcc_mean(score(t, user, fake), TCC_ALL), tcc_mean(score(t, user, real), TCC_ALL));
    tcc_loss(t, tcc_add(lead, tcc_scale(tcc_mean(tcc_mul(off, off), TCC_ALL), 10)));
}

static void generator(tcc_trace *t, void *user) {
    tcc_loss(t, tcc_neg(tcc_mean(score(t, user, generate(t, user)), TCC_ALL)));
}

static void teacher(tcc_trace *t, void *user) {
    tcc_loss(t, tcc_cross_entropy(two_layers(tcc_input(t, "real"), "teacher", user, 3), tcc_input(t, "y")));
}

static void student(tcc_trace *t, void *user) {
    const tcc_tensor x = tcc_input(t, "real"), logits = tcc_linear(x, "student", 3);
    const tcc_tensor soft = tcc_softmax(tcc_scale(two_layers(x, "teacher", user, 3), 0.5), -1);
    tcc_loss(t, tcc_add(tcc_cross_entropy(logits, tcc_input(t, "y")),
                        tcc_scale(tcc_cross_entropy(tcc_scale(logits, 0.5), soft), 4)));
}

/* -- Beside PyTorch -- */

enum { MOST_ROWS = 8, MOST_FEATURES = 4 };
static float real[MOST_ROWS * MOST_FEATURES], z[MOST_ROWS * MOST_FEATURES], where[MOST_ROWS];
static int32_t y[MOST_ROWS];

static void fill(float *out, int count, int j, int step) {
    for (int i = 0; i < count; i++) out[i] = (float)((37 * i + 11 * step + 29 * j) % 101) / 50 - 1;
}

static double weighed(const tcc_array *a) {
    double sum = 0;
    int64_t count = 1;
    for (int d = 0; d < a->rank; d++) count *= a->dims[d];
    for (int64_t i = 0; i < count; i++)
        sum += (double)((const float *)a->data)[i] * ((double)((37 * i + 5) % 101) / 101 - 0.5);
    return sum;
}

static const cJSON *field(const cJSON *c, const char *name) { return cJSON_GetObjectItemCaseSensitive(c, name); }

static void begin(tcc_model *m, const cJSON *names) {
    for (int k = 0; k < cJSON_GetArraySize(names); k++) {
        tcc_array a;
        const char *name = cJSON_GetArrayItem(names, k)->valuestring;
        if (!tcc_model_find_param(m, name, &a)) fail_msg("there is no %s", name);
        const int64_t count = a.dims[0] * (a.rank > 1 ? a.dims[1] : 1);
        for (int64_t i = 0; i < count; i++)
            ((float *)a.data)[i] = (float)((double)((37 * i + 11 * k) % 101) / 101 - 0.5);
    }
}

static void compare(const char *what, int step, double got, double want) {
    if (!(fabs(got - want) <= 2e-5 * fmax(1, fabs(want))))
        fail_msg("step %d: %s: %.9g, not %.9g", step, what, got, want);
}

static void check_step(tcc_context *cx, tcc_model *const models[2], const cJSON *c, int step, int turn) {
    const cJSON *want = cJSON_GetArrayItem(field(c, "steps"), step), *names = field(c, "names");
    tcc_array a;
    compare("loss", step, tcc_model_loss(models[turn]), field(want, "loss")->valuedouble);
    if (field(want, "gradient")->valuedouble != 0) {
        OK(cx, tcc_model_gradient(models[turn], "real", &a));
        compare("gradient by the input", step, weighed(&a), field(want, "gradient")->valuedouble);
    }
    for (int k = 0; k < cJSON_GetArraySize(names); k++) { /* as the other model has them */
        assert_true(tcc_model_find_param(models[!turn], cJSON_GetArrayItem(names, k)->valuestring, &a));
        compare(a.name, step, weighed(&a), cJSON_GetArrayItem(field(want, "params"), k)->valuedouble);
    }
}

typedef struct pair {
    tcc_model_fn nets[2];
    const char *names[2], *frozen[2]; /* frozen: a pattern, or NULL */
    char turns[2];
    tcc_optimizer_options optimizers[2];
} pair;

static void check_case(const pair *p, const cJSON *c, const char *device, tcc_mode mode, bool reversed) {
    const int rows = field(c, "rows")->valueint, features = field(c, "features")->valueint;
    int hidden = field(c, "hidden")->valueint;
    const char *turns = field(c, "turns")->valuestring;
    const tcc_array batch[4] = {{"real", TCC_F32, 2, {rows, features}, real},
                                {"z", TCC_F32, 2, {rows, features}, z},
                                {"where", TCC_F32, 2, {rows, 1}, where},
                                {"y", TCC_I32, 1, {rows}, y}};
    tcc_context *cx;
    tcc_model *models[2] = {NULL, NULL};
    OK(NULL, tcc_context_create(&cx));
    for (int k = 0; k < 2; k++) {
        const int i = reversed ? 1 - k : k;
        tcc_param_group frozen;
        tcc_optimizer_options optimizer = p->optimizers[i];
        tcc_param_group_init(&frozen, p->frozen[i]);
        frozen.frozen = true;
        optimizer.groups = &frozen;
        optimizer.n_groups = p->frozen[i] != NULL;
        const tcc_model_options o = {.size = sizeof o,
                                     .device = device,
                                     .mode = mode,
                                     .optimizer = &optimizer,
                                     .keep_input_gradients = true,
                                     .share = models[1 - i],
                                     .name = p->names[i]};
        OK(cx, tcc_model_create(cx, p->nets[i], &hidden, &o, &models[i]));
    }
    for (int i = 0; i < rows; i++) y[i] = i % 3;
    for (int k = 0; k < 2; k++) OK(cx, tcc_model_compile(models[reversed ? k : 1 - k], true, batch, 4));
    begin(models[0], field(c, "names"));
    for (int step = 0; turns[step]; step++) {
        const int turn = turns[step] == p->turns[1];
        fill(real, rows * features, 0, step);
        fill(z, rows * features, 1, step);
        fill(where, rows, 2, step);
        OK(cx, tcc_model_train(models[turn], batch, 4));
        check_step(cx, models, c, step, turn);
    }
    tcc_model_destroy(models[reversed]);
    tcc_model_destroy(models[!reversed]);
    tcc_context_destroy(cx);
}

void check_shared_golden(const char *device, tcc_mode mode, int extents) {
    static const pair pairs[2] = {{.nets = {critic, generator},
                                   .names = {"critic", NULL},
                                   .frozen = {"generator.*", "critic.*"},
                                   .turns = {'c', 'g'},
                                   .optimizers = {{.size = sizeof(tcc_optimizer_options),
                                                   .kind = TCC_ADAM,
                                                   .lr = 0.02,
                                                   .beta1 = 0.5,
                                                   .beta2 = 0.9,
                                                   .eps = 1e-8},
                                                  OPTIMIZER(TCC_SGD, 0.05, .momentum = 0.9)}},
                                  {.nets = {teacher, student},
                                   .names = {NULL, "student"},
                                   .frozen = {NULL, "teacher.*"},
                                   .turns = {'t', 's'},
                                   .optimizers = {OPTIMIZER(TCC_ADAMW, 0.03, .weight_decay = 0.1, .decay_all = true),
                                                  OPTIMIZER(TCC_ADAMW, 0.05, .weight_decay = 0.1, .decay_all = true)}}};
    char *text = test_read(TCC_SOURCE_DIR "/tests/numerics/golden/shared.json", NULL);
    cJSON *golden = cJSON_Parse(text);
    assert_non_null(golden);
    for (int k = 0; k < 2; k++) {
        const cJSON *cases = field(golden, k ? "distill" : "gan");
        assert_int_equal(cJSON_GetArraySize(cases), 2);
        for (int i = 0; i < extents; i++) check_case(&pairs[k], cJSON_GetArrayItem(cases, i), device, mode, i == k);
    }
    cJSON_Delete(golden);
    free(text);
}

/* -- Beside models that share nothing -- */

enum { ROWS = 6, WIDTH = 5 };

/* "both" is trained by both networks, "a" and "b" by one each, and a batch norm counts in both. */
static void net(tcc_trace *t, void *user) {
    const char *own = user;
    tcc_tensor h = tcc_linear(tcc_input(t, "x"), "both", WIDTH);
    h = tcc_dropout(tcc_batch_norm(tcc_gelu(h), "norm"), 0.25);
    h = tcc_linear(h, own, WIDTH);
    tcc_output(t, "result", h);
    tcc_loss(t, tcc_mse_loss(*own == 'a' ? h : tcc_tanh(h), tcc_input(t, "y")));
}

typedef struct family {
    tcc_context *cx;
    tcc_model *models[2];
    int newest; /* which of them has the parameters, where they do not share */
} family;

static family start(const char *device, const shared_case *c, bool shares) {
    static char *const nets[2] = {"a", "b"};
    static const tcc_optimizer_options adamw = OPTIMIZER(TCC_ADAMW, 0.05, .weight_decay = 0.1),
                                       sgd = OPTIMIZER(TCC_SGD, 0.1, .momentum = 0.9);
    family f = {0};
    OK(NULL, tcc_context_create(&f.cx));
    for (int i = 0; i < 2; i++) {
        const tcc_model_options o = {.size = sizeof o,
                                     .device = device,
                                     .mode = c->mode,
                                     .seed = 9,
                                     .optimizer = i ? &sgd : &adamw,
                                     .mixed_precision = c->precisions[i],
                                     .batch_accumulate = i ? c->accumulate : 0,
                                     .share = shares && i ? f.models[0] : NULL,
                                     .name = i ? "second" : NULL};
        OK(f.cx, tcc_model_create(f.cx, net, nets[i], &o, &f.models[i]));
    }
    return f;
}

static void finish(family *f, bool first) {
    tcc_model_destroy(f->models[first]);
    tcc_model_destroy(f->models[!first]);
    tcc_context_destroy(f->cx);
}

static void copy_params(tcc_context *cx, tcc_model *from, tcc_model *to) {
    tcc_array a, b;
    for (int i = 0; tcc_model_param(from, i, &a); i++)
        if (tcc_model_find_param(to, a.name, &b)) OK(cx, tcc_model_set_param(to, &a));
}

static void same_bytes(int step, const char *what, const tcc_array *a, const tcc_array *b) {
    int64_t count = 1;
    for (int d = 0; d < a->rank; d++) count *= a->dims[d];
    for (int64_t i = 0; i < count; i++) {
        const float x = ((const float *)a->data)[i], other = ((const float *)b->data)[i];
        if (memcmp(&x, &other, sizeof x)) fail_msg("step %d: %s[%d]: %.9g, not %.9g", step, what, (int)i, x, other);
    }
}

/* One run of model `which` of each family; the one that shares nothing gets the other's parameters before. */
static void run_both(family *shared, family *alone, int step, int which, bool train, const tcc_array *batch) {
    family *const families[2] = {shared, alone};
    tcc_array a, b;
    if (alone->newest != which) copy_params(alone->cx, alone->models[!which], alone->models[which]);
    for (int k = 0; k < 2; k++)
        OK(families[k]->cx, (train ? tcc_model_train : tcc_model_evaluate)(families[k]->models[which], batch, 2));
    OK(shared->cx, tcc_model_output(shared->models[which], "result", &a));
    OK(alone->cx, tcc_model_output(alone->models[which], "result", &b));
    same_bytes(step, "result", &a, &b);
    if (!train) return;
    alone->newest = which;
    for (int i = 0; step % 3 == 2 && tcc_model_param(alone->models[which], i, &b); i++) { /* read now and then */
        assert_true(tcc_model_find_param(shared->models[!which], b.name, &a));
        same_bytes(step, b.name, &a, &b);
    }
}

void check_shared_as_copied(const char *device, const shared_case *c) {
    static const char runs[] = "AaBbBABABBaAbABwABBbAAB"; /* capitals train; w: "both.weight" is written */
    float inputs[2][ROWS * WIDTH];
    const tcc_array batch[2] = {{"x", TCC_F32, 2, {ROWS, WIDTH}, inputs[0]},
                                {"y", TCC_F32, 2, {ROWS, WIDTH}, inputs[1]}};
    family shared = start(device, c, true), alone = start(device, c, false);
    for (int i = 0; i < 2; i++) { /* the second first: nothing may depend on it */
        OK(shared.cx, tcc_model_compile(shared.models[1 - i], true, batch, 2));
        OK(alone.cx, tcc_model_compile(alone.models[i], true, batch, 2));
    }
    for (int step = 0; runs[step]; step++) {
        tcc_array a, b;
        for (int i = 0; i < 2; i++) fill(inputs[i], ROWS * WIDTH, i, step);
        if (runs[step] != 'w') {
            run_both(&shared, &alone, step, (runs[step] & 31) - 1, runs[step] < 'a', batch);
            continue;
        }
        assert_true(tcc_model_find_param(shared.models[0], "both.weight", &a));
        assert_true(tcc_model_find_param(alone.models[alone.newest], "both.weight", &b));
        for (int i = 0; i < WIDTH * WIDTH; i++) ((float *)a.data)[i] *= 0.5f, ((float *)b.data)[i] *= 0.5f;
    }
    finish(&shared, c->mode == TCC_MODE_EAGER);
    finish(&alone, false);
}
