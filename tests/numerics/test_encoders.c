/* SPDX-License-Identifier: MIT
 * BERT, RoBERTa and DistilBERT against PyTorch's values (golden/make_encoders.py): logits, loss and each gradient of a
 * batch of texts of different lengths, whichever length the batch is padded to; names and shapes are those of Hugging
 * Face's code. */
#include "harness/check.h"
#include "harness/files.h"
#include "traincc/losses.h"
#include "traincc/models.h"
#include "traincc/traincc.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, HEADS = 2, WIDTH = 8, HIDDEN = 12, CONTEXT = 6, VOCAB = 20, CLASSES = 3, TEXTS = 3 };

#define OK(call)                                                                \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

static tcc_context *cx;

static void net(tcc_trace *t, void *user) {
    const char *family = user;
    const tcc_bert_options o = {.size = sizeof o,
                                .roberta = !strcmp(family, "roberta"),
                                .layers = LAYERS,
                                .heads = HEADS,
                                .width = WIDTH,
                                .hidden = HIDDEN,
                                .context = CONTEXT,
                                .vocab = VOCAB,
                                .classes = CLASSES};
    const tcc_distilbert_options d = {
        .layers = LAYERS, .heads = HEADS, .width = WIDTH, .context = CONTEXT, .vocab = VOCAB, .classes = CLASSES};
    const tcc_tensor x = tcc_input(t, "x");
    tcc_tensor logits = strcmp(family, "distilbert") != 0 ? tcc_bert(t, x, &o) : tcc_distilbert(t, x, &d);
    tcc_output(t, "logits", logits);
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y")));
}

static void check_number(const char *what, double got, double want) {
    if (!(fabs(got - want) <= 3e-6 * (1 + fabs(want)))) fail_msg("%s: %.9g is not PyTorch's %.9g", what, got, want);
}

static double item(const cJSON *list, int i) { return cJSON_GetArrayItem(list, i)->valuedouble; }

static int64_t numel(const tcc_array *a) {
    int64_t n = 1;
    for (int d = 0; d < a->rank; d++) n *= a->dims[d];
    return n;
}

/* Element i of NAME is sin(1.3 i + s) / 4, s the sum of NAME's bytes. */
static void fill(tcc_model *m) {
    tcc_array a;
    for (int k = 0; tcc_model_param(m, k, &a); k++) {
        const size_t length = strlen(a.name);
        const bool weight_of_norm = length > 10 && !strcmp(a.name + length - 10, "orm.weight");
        double s = 0;
        for (const char *c = a.name; *c; c++) s += (unsigned char)*c;
        for (int64_t i = 0; i < numel(&a); i++)
            ((float *)a.data)[i] = (float)(sin(1.3 * (double)i + s) / 4 + weight_of_norm);
    }
}

/* That of a parameter that the file has, with its shape. */
static void check_gradient(tcc_model *m, const tcc_array *p, const cJSON *all) {
    const cJSON *want = cJSON_GetObjectItemCaseSensitive(all, p->name), *dims = cJSON_GetArrayItem(want, 2);
    tcc_array g;
    double x = 0, y = 0;
    if (!want) fail_msg("%s is no parameter of the reference", p->name);
    assert_int_equal(cJSON_GetArraySize(dims), p->rank);
    for (int d = 0; d < p->rank; d++) assert_int_equal((int)item(dims, d), p->dims[d]);
    OK(tcc_model_gradient(m, p->name, &g));
    for (int64_t i = 0; i < numel(&g); i++) {
        x += ((const float *)g.data)[i] * cos((double)i);
        y += ((const float *)g.data)[i] * sin(2 * (double)i);
    }
    check_number(p->name, x, item(want, 0));
    check_number(p->name, y, item(want, 1));
}

static void check_case(const cJSON *expected, int padded) {
    static const int32_t texts[TEXTS][CONTEXT] = {{2, 7, 11, 5, 3, 19}, {2, 9, 3, 4, -1, -1}, {2, 1, -1, -1, -1, -1}};
    static int32_t labels[TEXTS] = {2, 0, 1};
    int32_t tokens[TEXTS][CONTEXT];
    /* padded 0: all; else the last two texts alone, in rows of so many tokens */
    const int first = padded ? 1 : 0, rows = TEXTS - first, length = padded ? padded : CONTEXT;
    for (int r = 0; r < rows; r++) memcpy(&tokens[0][0] + r * length, texts[first + r], (size_t)length * 4);
    const tcc_array batch[] = {{.name = "x", .dtype = TCC_I32, .rank = 2, .dims = {rows, length}, .data = tokens},
                               {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {rows}, .data = labels + first}};
    const tcc_model_options o = {.size = sizeof o, .keep_gradients = true};
    tcc_model *m;
    OK(tcc_model_create(cx, net, cJSON_GetObjectItem(expected, "family")->valuestring, &o, &m));
    OK(tcc_model_compile(m, true, batch, 2));
    fill(m);
    OK(tcc_model_train(m, batch, 2));
    tcc_array logits, p;
    OK(tcc_model_output(m, "logits", &logits));
    for (int i = 0; i < rows * CLASSES; i++)
        check_number("logits", ((const float *)logits.data)[i],
                     item(cJSON_GetObjectItem(expected, "logits"), first * CLASSES + i));
    if (!padded) {
        const cJSON *gradients = cJSON_GetObjectItem(expected, "gradients");
        int count = 0;
        check_number("loss", tcc_model_loss(m), cJSON_GetObjectItem(expected, "loss")->valuedouble);
        for (; tcc_model_param(m, count, &p); count++) check_gradient(m, &p, gradients);
        assert_int_equal(count, cJSON_GetArraySize(gradients));
    }
    tcc_model_destroy(m);
}

static void encoders(void **state) {
    (void)state;
    size_t size;
    char *text = test_read(TCC_SOURCE_DIR "/tests/numerics/golden/encoders.json", &size);
    cJSON *cases = cJSON_ParseWithLength(text, size), *expected;
    assert_int_equal(cJSON_GetArraySize(cases), 3);
    cJSON_ArrayForEach(expected, cases) {
        check_case(expected, 0);
        check_case(expected, 4);
    }
    cJSON_Delete(cases);
    free(text);
}

int main(void) {
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    const struct CMUnitTest tests[] = {cmocka_unit_test(encoders)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_destroy(cx);
    return failed;
}
