/* SPDX-License-Identifier: MIT
 * Twenty training steps from PyTorch's weights and batches follow PyTorch's losses, in every mode.
 * golden/make_golden.py says how weights and batches come from formulas, and made the losses. */
#include "harness/check.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <traincc/traincc.h>

enum { STEPS = 20 };
static const double TOLERANCE = 1e-4; /* relative, of each loss; float32 runs of PyTorch itself differ by up to 2e-5 */

/* -- The formulas -- */

static uint64_t hash(const char *name) {
    uint64_t h = 0xcbf29ce484222325;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 0x100000001b3;
    return h;
}

static uint64_t noise(const char *name, int64_t i) {
    uint64_t x = hash(name) + (uint64_t)(i + 1) * 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static double uniform(const char *name, int64_t i) { return (double)(noise(name, i) >> 40) * 0x1p-23 - 1; }

static bool is_batch_norm(tcc_model *m, const char *name) {
    char running[256];
    snprintf(running, sizeof running, "%.*s.running_mean", (int)(strrchr(name, '.') - name), name);
    tcc_array a;
    return tcc_model_find_param(m, running, &a);
}

static void fill(tcc_model *m) {
    tcc_array p;
    for (int index = 0; tcc_model_param(m, index, &p); index++) {
        if (!tcc_model_param_is_trained(m, index)) continue;
        int64_t numel = 1, inputs = 1;
        for (int d = 0; d < p.rank; d++) {
            numel *= p.dims[d];
            if (d) inputs *= p.dims[d];
        }
        int k = 0;
        while (pow(4, k) < (double)inputs) k++;
        const char *dot = strrchr(p.name, '.');
        bool norm = is_batch_norm(m, p.name), weight = !strcmp(dot, ".weight");
        for (int64_t i = 0; i < numel; i++) {
            double u = uniform(p.name, i);
            if (p.rank >= 2) u *= pow(2, -k);
            else if (weight) u = (1 + u / 4) / (norm ? 2 : 1);
            else u = u / 8 + (norm ? 0.75 : 0);
            ((float *)p.data)[i] = (float)u;
        }
    }
}

/* -- Cases -- */

typedef struct scenario {
    const cJSON *model, *optimizer;
    const char *kind;
    int64_t batch, context, vocab, image[3];
} scenario;

static double number(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item)) fail_msg("curves.json: no number \"%s\"", key);
    return item->valuedouble;
}

static const char *text(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsString(item)) fail_msg("curves.json: no string \"%s\"", key);
    return item->valuestring;
}

static bool truth(const cJSON *object, const char *key) {
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, key));
}

static void build(tcc_trace *t, void *user) {
    const scenario *s = user;
    tcc_tensor x = tcc_input(t, "x"), logits;
    if (!strcmp(s->kind, "gpt"))
        logits = tcc_gpt(t, x,
                         &(tcc_gpt_options){.layers = (int64_t)number(s->model, "layers"),
                                            .heads = (int64_t)number(s->model, "heads"),
                                            .width = (int64_t)number(s->model, "width"),
                                            .context = s->context,
                                            .vocab = s->vocab,
                                            .bias = truth(s->model, "bias"),
                                            .gelu_tanh = !strcmp(text(s->model, "gelu"), "tanh")});
    else if (!strcmp(s->kind, "cnn"))
        logits = tcc_cnn(t, x, &(tcc_cnn_options){.channels1 = 32, .channels2 = 64, .hidden = 128, .classes = 10});
    else
        logits = tcc_resnet(
            t, x,
            &(tcc_resnet_options){
                .depth = 18, .classes = 10, .width = (int64_t)number(s->model, "width"), .cifar_stem = true});
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y")));
}

static double number_or(const cJSON *object, const char *key, double otherwise) {
    return cJSON_GetObjectItemCaseSensitive(object, key) ? number(object, key) : otherwise;
}

enum { MOST_GROUPS = 4 };

static int read_groups(const cJSON *o, tcc_param_group groups[MOST_GROUPS]) {
    const cJSON *item;
    int count = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(o, "groups")) {
        assert_true(count < MOST_GROUPS);
        tcc_param_group *g = &groups[count++];
        tcc_param_group_init(g, text(item, "match"));
        g->lr_scale = number_or(item, "lr_scale", g->lr_scale);
        g->weight_decay = number_or(item, "weight_decay", g->weight_decay);
        g->momentum = number_or(item, "momentum", g->momentum);
        g->frozen = truth(item, "frozen");
        const cJSON *betas = cJSON_GetObjectItemCaseSensitive(item, "betas");
        if (!betas) continue;
        g->beta1 = cJSON_GetArrayItem(betas, 0)->valuedouble;
        g->beta2 = cJSON_GetArrayItem(betas, 1)->valuedouble;
    }
    return count;
}

static tcc_optimizer_options optimizer_of(const cJSON *o) {
    const bool sgd = !strcmp(text(o, "name"), "sgd");
    tcc_optimizer_options options;
    tcc_optimizer_init(&options, sgd ? TCC_SGD : TCC_ADAMW);
    options.lr = number(o, "lr");
    options.weight_decay = number(o, "weight_decay");
    options.clip_grad_norm = number(o, "clip");
    if (sgd) {
        options.momentum = number(o, "momentum");
        options.nesterov = truth(o, "nesterov");
        options.decay_all = true;
        return options;
    }
    if (!strncmp(text(o, "name"), "ada", 3) && strcmp(text(o, "name"), "adamw")) {
        options.kind = !strcmp(text(o, "name"), "adafactor") ? TCC_ADAFACTOR : TCC_ADAGRAD;
        options.eps = number(o, "eps");
        return options;
    }
    const cJSON *betas = cJSON_GetObjectItemCaseSensitive(o, "betas");
    options.beta1 = cJSON_GetArrayItem(betas, 0)->valuedouble;
    options.beta2 = cJSON_GetArrayItem(betas, 1)->valuedouble;
    if (!strcmp(text(o, "name"), "lion")) {
        options.kind = TCC_LION;
        return options;
    }
    options.eps = number(o, "eps");
    return options;
}

static scenario read_scenario(const cJSON *item) {
    scenario s = {.model = cJSON_GetObjectItemCaseSensitive(item, "model"),
                  .optimizer = cJSON_GetObjectItemCaseSensitive(item, "optimizer")};
    s.kind = text(s.model, "kind");
    s.batch = (int64_t)number(s.model, "batch");
    if (!strcmp(s.kind, "gpt")) {
        s.context = (int64_t)number(s.model, "context");
        s.vocab = (int64_t)number(s.model, "vocab");
    } else {
        const cJSON *input = cJSON_GetObjectItemCaseSensitive(s.model, "input");
        for (int d = 0; d < 3; d++) s.image[d] = (int64_t)cJSON_GetArrayItem(input, d)->valuedouble;
    }
    return s;
}

/* Batch number b into the arrays' memory. */
static void make_batch(const scenario *s, int64_t b, tcc_array batch[2]) {
    int32_t *labels = batch[1].data;
    if (!strcmp(s->kind, "gpt")) {
        int64_t row = s->context + 1;
        for (int64_t r = 0; r < s->batch; r++)
            for (int64_t t = 0; t < row; t++) {
                int32_t token = (int32_t)((noise("tokens", (b * s->batch + r) * row + t) >> 33) % (uint64_t)s->vocab);
                if (t < s->context) ((int32_t *)batch[0].data)[r * s->context + t] = token;
                if (t) labels[r * s->context + t - 1] = token;
            }
        return;
    }
    int64_t size = s->image[0] * s->image[1] * s->image[2];
    for (int64_t i = 0; i < s->batch * size; i++)
        ((float *)batch[0].data)[i] = (float)uniform("images", b * s->batch * size + i);
    for (int64_t r = 0; r < s->batch; r++) labels[r] = (int32_t)((noise("labels", b * s->batch + r) >> 33) % 10);
}

static void run_case(const cJSON *item, tcc_mode mode) {
    scenario s = read_scenario(item);
    bool gpt = !strcmp(s.kind, "gpt");
    int64_t numel = s.batch * (gpt ? s.context : s.image[0] * s.image[1] * s.image[2]),
            targets = s.batch * (gpt ? s.context : 1);
    tcc_array batch[2] = {
        {.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {s.batch, s.image[0], s.image[1], s.image[2]}},
        {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {s.batch}}};
    if (gpt) {
        batch[0] = (tcc_array){.name = "x", .dtype = TCC_I32, .rank = 2, .dims = {s.batch, s.context}};
        batch[1] = (tcc_array){.name = "y", .dtype = TCC_I32, .rank = 2, .dims = {s.batch, s.context}};
    }
    batch[0].data = malloc((size_t)numel * 4);
    batch[1].data = malloc((size_t)targets * 4);
    tcc_context *cx;
    tcc_model *m;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    tcc_param_group groups[MOST_GROUPS];
    tcc_optimizer_options optimizer = optimizer_of(s.optimizer);
    optimizer.n_groups = read_groups(s.optimizer, groups);
    optimizer.groups = groups;
    tcc_model_options options = {.size = sizeof options, .mode = mode, .optimizer = &optimizer};
    if (tcc_model_create(cx, build, &s, &options, &m) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    make_batch(&s, 0, batch);
    if (tcc_model_compile(m, true, batch, 2) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    fill(m);

    int64_t batches = (int64_t)number(s.model, "batches");
    const cJSON *losses = cJSON_GetObjectItemCaseSensitive(item, "losses");
    assert_int_equal(cJSON_GetArraySize(losses), STEPS);
    double worst = 0;
    for (int step = 0; step < STEPS; step++) {
        double expected = cJSON_GetArrayItem(losses, step)->valuedouble;
        make_batch(&s, step % batches, batch);
        if (tcc_model_train(m, batch, 2) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
        double off = fabs(tcc_model_loss(m) - expected) / fabs(expected);
        if (!(off <= TOLERANCE))
            fail_msg("%s, step %d: loss %.7f, PyTorch's is %.7f (%.1e apart)", text(item, "name"), step,
                     tcc_model_loss(m), expected, off);
        if (off > worst) worst = off;
    }
    printf("%-24s %-8s at most %.1e from PyTorch over %d steps\n", text(item, "name"),
           mode == TCC_MODE_EAGER ? "eager" : "default", worst, STEPS);
    fflush(stdout);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    free(batch[0].data);
    free(batch[1].data);
}

static cJSON *read_curves(void) {
    FILE *f = fopen(TCC_SOURCE_DIR "/tests/numerics/golden/curves.json", "rb");
    assert_non_null(f);
    static char data[1 << 16];
    size_t length = fread(data, 1, sizeof data - 1, f);
    fclose(f);
    data[length] = '\0';
    cJSON *json = cJSON_Parse(data);
    assert_non_null(json);
    return json;
}

static void run_all(tcc_mode mode, const char *kind) {
    cJSON *json = read_curves();
    const cJSON *item;
    int count = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(json, "cases")) {
        if (strncmp(text(item, "name"), kind, strlen(kind))) continue;
        run_case(item, mode);
        count++;
    }
    assert_true(count > 0);
    cJSON_Delete(json);
}

static void gpt_default(void **state) {
    (void)state, run_all(TCC_MODE_DEFAULT, "char_gpt"), run_all(TCC_MODE_DEFAULT, "gpt2");
}
static void gpt_eager(void **state) { (void)state, run_all(TCC_MODE_EAGER, "char_gpt_small"); }
static void cnn_default(void **state) { (void)state, run_all(TCC_MODE_DEFAULT, "cnn"); }
static void cnn_eager(void **state) { (void)state, run_all(TCC_MODE_EAGER, "cnn.adamw"); }
static void resnet_default(void **state) { (void)state, run_all(TCC_MODE_DEFAULT, "resnet18"); }
static void resnet_eager(void **state) { (void)state, run_all(TCC_MODE_EAGER, "resnet18_narrow.sgd"); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt_default), cmocka_unit_test(gpt_eager),      cmocka_unit_test(cnn_default),
        cmocka_unit_test(cnn_eager),   cmocka_unit_test(resnet_default), cmocka_unit_test(resnet_eager),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
