/* SPDX-License-Identifier: MIT
 * Weights that other code wrote: which tensor is which parameter, what is said of the rest, and what is refused. */
#include "harness/check.h"
#include "harness/files.h"
#include "ir/support/context.h"
#include "traincc/model.h"
#include "runtime/files/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tcc_context cx;

/* A tensor of a file, or a parameter, all of whose elements are `value`, but in one that is `counted` one apart. */
typedef struct tensor {
    const char *name;
    int rows, columns; /* columns 0: of rank 1 */
    float value;
    bool counted;
} tensor;

enum { MOST = 16, ELEMENTS = 64 };
static float data[MOST][ELEMENTS];

static int make(const tensor *t, tcc_array *out) {
    int n = 0;
    for (; t[n].name; n++) {
        out[n] = (tcc_array){.name = t[n].name,
                             .dtype = TCC_F32,
                             .rank = t[n].columns ? 2 : 1,
                             .dims = {t[n].rows, t[n].columns},
                             .data = data[n]};
        for (int i = 0; i < ELEMENTS; i++) data[n][i] = t[n].value + (t[n].counted ? (float)i : 0);
    }
    return n;
}

static const char *write(void **state, const char *name, const tensor *t) {
    tcc_array arrays[MOST];
    const char *path = test_path(state, name);
    const int n = make(t, arrays);
    assert_ok(tcc_safetensors_write(&cx, path, arrays, n, NULL, 0), &cx.diag);
    return path;
}

static char *report;

static tcc_status load(const char *path, const tensor *wanted, const char *ignore) {
    tcc_array to[MOST];
    const int n = make(wanted, to);
    const tcc_weights_options o = {.size = sizeof o, .ignore = &ignore, .n_ignore = ignore ? 1 : 0};
    tcc_string_free(report);
    tcc_diag_clear(&cx.diag);
    return tcc_weights_load(&cx, path, to, n, &o, &report);
}

static void check_report(const char *path, const char *expected) {
    char text[4096];
    snprintf(text, sizeof text, expected, path);
    assert_string_equal(report, text);
}

static void names_by_rules(void **state) {
    const char *path = write(state, "a.safetensors",
                             (tensor[]){{"module._orig_mod.bert.layer.0.q.weight", 2, 3, 1, false},
                                        {"module._orig_mod.bert.layer.0.norm.gamma", 2, 0, 2, false},
                                        {"module._orig_mod.bert.layer.0.norm.beta", 2, 0, 3, false},
                                        {"pooler.weight", 2, 2, 4, false},
                                        {"classifier.weight", 5, 2, 5, false},
                                        {"bn.num_batches_tracked", 1, 0, 6, false},
                                        {0}});
    const tensor wanted[] = {{"bert.layer.0.q.weight", 2, 3, 0, false},
                             {"bert.layer.0.norm.weight", 2, 0, 0, false},
                             {"bert.layer.0.norm.bias", 2, 0, 0, false},
                             {"classifier.weight", 3, 2, 9, false},
                             {0}};
    assert_ok(load(path, wanted, "classifier.*"), &cx.diag);
    check_report(path, "3 of 4 tensors are from %s\n"
                       "names: \"module._orig_mod.bert.*\" of the file is \"bert.*\" here: 3 tensors\n"
                       "names: \"*.gamma\" and \"*.beta\" of the file are \"*.weight\" and \"*.bias\" here: 2 tensors\n"
                       "not loaded, as asked for: classifier.weight\n"
                       "of the file, but ignored: classifier.weight\n"
                       "left over in the file: pooler.weight\n"
                       "skipped: 1 counters of batches, as bn.num_batches_tracked\n");
    for (int i = 0; i < 3; i++) assert_true(data[i][0] == (float)i + 1);
    assert_true(data[3][0] == 9);
    assert_error(load(path, wanted, NULL), TCC_ESHAPE, &cx.diag,
                 "shape: 'classifier.weight' is f32[5,2] in the file, but f32[3,2] is wanted");
    assert_non_null(strstr(tcc_diag_text(&cx.diag), "init_ignore: \"classifier.*\""));
    assert_true(data[0][0] == 0); /* nothing was copied */
}

static void tied_heads(void **state) {
    static const tensor wanted[] = {{"transformer.wte.weight", 4, 2, 0, false}, {0}};
    const char *path = write(state, "head", (tensor[]){{"lm_head.weight", 4, 2, 7, false}, {0}});
    assert_ok(load(path, wanted, NULL), &cx.diag);
    assert_true(data[0][0] == 7);
    assert_non_null(strstr(report, "\"lm_head.weight\" of the file is \"transformer.wte.weight\" here: a tied head"));
    path = write(state, "both", (tensor[]){{"lm_head.weight", 4, 2, 7, false}, {"wte.weight", 4, 2, 7, false}, {0}});
    assert_ok(load(path, wanted, NULL), &cx.diag);
    assert_non_null(strstr(report, "the same once more: lm_head.weight"));
    static const tensor untied[] = {{"wte.weight", 4, 2, 0, false}, {"lm_head.weight", 4, 2, 0, false}, {0}};
    path = write(state, "one", (tensor[]){{"wte.weight", 4, 2, 5, false}, {0}});
    assert_ok(load(path, untied, NULL), &cx.diag);
    assert_true(data[0][0] == 5 && data[1][0] == 5);
    path = write(state, "differ", (tensor[]){{"lm_head.weight", 4, 2, 7, false}, {"wte.weight", 4, 2, 8, false}, {0}});
    assert_error(load(path, wanted, NULL), TCC_EFORMAT, &cx.diag, "which differ; the model's head is tied");
    assert_ok(load(path, untied, NULL), &cx.diag);
}

/* GPT-2's code keeps linear weights as [in, out]; the masks beside them are no biases. */
static void gpt2_is_transposed(void **state) {
    static const tensor wanted[] = {{"transformer.h.0.attn.c_attn.weight", 6, 2, 0, false},
                                    {"transformer.h.0.attn.c_proj.weight", 2, 2, 0, false},
                                    {"transformer.h.0.ln.weight", 2, 0, 0, false},
                                    {0}};
    const char *path = write(state, "gpt2",
                             (tensor[]){{"h.0.attn.c_attn.weight", 2, 6, 0, true},
                                        {"h.0.attn.c_proj.weight", 2, 2, 0, true},
                                        {"h.0.attn.bias", 3, 3, 1, false},
                                        {"h.0.ln.weight", 2, 0, 0, true},
                                        {0}});
    assert_ok(load(path, wanted, NULL), &cx.diag);
    assert_non_null(strstr(report, "transposed: 2 weights"));
    assert_non_null(strstr(report, "skipped: 1 causal masks, as h.0.attn.bias"));
    for (int r = 0; r < 6; r++)
        for (int c = 0; c < 2; c++) assert_true(data[0][2 * r + c] == (float)(6 * c + r));
    assert_true(data[1][1] == 2 && data[1][2] == 1 && data[2][1] == 1);
}

static void another_network(void **state) {
    const char *path = write(state, "deeper",
                             (tensor[]){{"layer.0.w", 2, 0, 1, false}, {"layer.1.w", 2, 0, 1, false}, {0}});
    assert_error(load(path, (tensor[]){{"layer.0.w", 2, 0, 0, false}, {0}}, NULL), TCC_ENOTFOUND, &cx.diag,
                 "further: 'layer.1.w' f32[2] is of a kind that the model has fewer of");
    assert_ok(load(path, (tensor[]){{"layer.0.w", 2, 0, 0, false}, {0}}, "layer.1.*"), &cx.diag);
    assert_error(load(path, (tensor[]){{"conv.w", 2, 0, 0, false}, {0}}, NULL), TCC_ENOTFOUND, &cx.diag,
                 "the first of the file is 'layer.0.w', of the model 'conv.w'");
    assert_error(load(path, (tensor[]){{"layer.0.w", 2, 0, 0, false}, {0}}, "*"), TCC_ENOTFOUND, &cx.diag, "0 missing");
    path = write(state, "twice", (tensor[]){{"bert.w", 2, 0, 1, false}, {"module.w", 2, 0, 2, false}, {0}});
    assert_error(load(path, (tensor[]){{"w", 2, 0, 0, false}, {0}}, NULL), TCC_EFORMAT, &cx.diag,
                 "'w' may be 'bert.w' or 'module.w' of the file");
}

static void several_files(void **state) {
    static const tensor wanted[] = {{"a", 2, 0, 0, false}, {"b", 3, 0, 0, false}, {0}};
    write(state, "one-of-2.safetensors", (tensor[]){{"a", 2, 0, 1, false}, {0}});
    write(state, "two-of-2.safetensors", (tensor[]){{"b", 3, 0, 2, false}, {0}});
    const char *folder = test_path(state, "."),
               *index = test_write_text(state, "model.safetensors.index.json",
                                        "{\"metadata\":{},\"weight_map\":{\"a\":\"one-of-2.safetensors\","
                                        "\"b\":\"two-of-2.safetensors\"}}");
    for (int i = 0; i < 2; i++) {
        assert_ok(load(i ? index : folder, wanted, NULL), &cx.diag);
        assert_true(data[0][0] == 1 && data[1][0] == 2);
        assert_non_null(strstr(report, ", 2 files\n"));
    }
    static const struct {
        const char *map, *error;
        tcc_status status;
    } bad[] = {
        {"{\"weight_map\":{\"a\":\"one-of-2.safetensors\",\"b\":\"gone.safetensors\"}}",
         "gone.safetensors, which is not", TCC_ENOTFOUND},
        {"{\"weight_map\":{\"a\":\"one-of-2.safetensors\",\"b\":\"one-of-2.safetensors\"}}",
         "says that 'b' is in one-of-2.safetensors, which does not have it", TCC_EFORMAT},
        {"{\"weight_map\":{\"a\":\"../one\"}}", "no name of one beside it", TCC_EFORMAT},
        {"{\"weight_map\":{}}", "no index of weights", TCC_EFORMAT},
        {"{\"weight_map\":{\"a\":1}}", "names no file for the tensor 'a'", TCC_EFORMAT},
        {"{", "is not JSON", TCC_EFORMAT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        test_write_text(state, "model.safetensors.index.json", bad[i].map);
        assert_error(load(folder, wanted, NULL), bad[i].status, &cx.diag, bad[i].error);
    }
    assert_int_equal(remove(index), 0);
    assert_error(load(folder, wanted, NULL), TCC_ENOTFOUND, &cx.diag, "has neither model.safetensors nor");
}

static void pickles_are_refused(void **state) {
    static const tensor wanted[] = {{"a", 2, 0, 0, false}, {0}};
    const char *const files[] = {test_write_text(state, "pytorch_model.bin", "PK\3\4 and so on"),
                                 test_write_text(state, "old.pt", "\x80\2 and so on")};
    char name[0x282] = {0}; /* of a file that begins as a pickle: by the length of its header */
    bool looks = false;
    for (size_t length = 1; length < sizeof name - 1 && !looks; length++) {
        size_t size;
        name[length - 1] = 'a';
        const char *path = write(state, "long", (tensor[]){{name, 2, 0, 1, false}, {0}});
        char *bytes = test_read(path, &size);
        looks = (unsigned char)bytes[0] == 0x80 && bytes[1] == 2;
        free(bytes);
        if (looks) assert_ok(load(path, (tensor[]){{name, 2, 0, 0, false}, {0}}, NULL), &cx.diag);
    }
    assert_true(looks);
    for (int i = 0; i < 2; i++) assert_error(load(files[i], wanted, NULL), TCC_EUNSUPPORTED, &cx.diag, "torch.load('");
    assert_error(load(test_path(state, "."), wanted, NULL), TCC_EUNSUPPORTED, &cx.diag,
                 "pytorch_model.bin.safetensors");
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(names_by_rules),  FOLDER_TEST(tied_heads),    FOLDER_TEST(gpt2_is_transposed),
        FOLDER_TEST(another_network), FOLDER_TEST(several_files), FOLDER_TEST(pickles_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_string_free(report);
    tcc_context_clear(&cx);
    return failed;
}
