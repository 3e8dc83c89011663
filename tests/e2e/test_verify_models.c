/* SPDX-License-Identifier: MIT
 * Models that are shipped and measured, at the sizes that they are used with: their first step verifies, kernel by
 * kernel. Recipes that take longer are in bench/verify_recipes.sh. */
#include "bench/models.h"
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/train_data.h"

#include <stdio.h>
#include <stdlib.h>

/* -- Recipes, on data made for them -- */

static void check_recipe(const char *name, const char *data) {
    char recipe[512], path[512];
    snprintf(recipe, sizeof recipe, "%s/tools/recipes/%s.yaml", TCC_SOURCE_DIR, name);
    snprintf(path, sizeof path, "data.path=%s", data);
    program_result r = program_run(NULL, "tcc-train",
                                   (const char *const[]){recipe, path, "--verify", "--dry-run", NULL});
    if (r.status || !strstr(r.out, "verify: loss and all gradients agree"))
        fail_msg("%s: %d\n%s%s", name, r.status, r.out, r.err);
    program_free(&r);
}

static void table(void **state) { check_recipe("csv-mlp", write_csv_data(state)); }
static void digits(void **state) { check_recipe("mnist-cnn", write_idx_data(state)); }

/* -- Models of the benchmarks -- */

static void check_model(const char *name, tcc_mixed_precision precision) {
    const bench_model *b = bench_model_find(name);
    tcc_array batch[2];
    tcc_context *cx;
    tcc_model *m;
    assert_non_null(b);
    bench_model_batch(b, batch);
    /* Loss and gradients of two samples: the kernels are those of the whole batch. */
    const tcc_model_options o = {
        .size = sizeof o, .optimizer = &b->optimizer, .mixed_precision = precision, .verify_samples = 2};
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    if (tcc_model_create(cx, bench_model_build, (void *)b, &o, &m) != TCC_OK ||
        tcc_model_verify(m, batch, 2, 0, NULL) != TCC_OK)
        fail_msg("%s: %s", name, tcc_context_error(cx));
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    free(batch[0].data);
    free(batch[1].data);
}

static void perceptron(void **state) {
    (void)state;
    check_model("mlp", TCC_MIXED_BF16);
}

static void characters(void **state) {
    (void)state;
    check_model("char_gpt", TCC_MIXED_NONE);
}

int main(void) {
    const struct CMUnitTest tests[] = {FOLDER_TEST(table), FOLDER_TEST(digits), cmocka_unit_test(perceptron),
                                       cmocka_unit_test(characters)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
