/* SPDX-License-Identifier: MIT
 * Runs that were exported: they answer without their data, and what is not whole is refused. */
#include "harness/check.h"
#include "harness/exported.h"
#include "harness/files.h"
#include "ir/support/alloc.h"
#include "ir/support/context.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 10 };
static const char table[] = "height,width,kind\n1,2,x\n3,4,y\n5,6,x\n7,8,y\n9,9,x\n2,3,y\n1,1,x\n8,6,y\n3,3,x\n5,5,y\n";
static const char rows[] =
    "width,height\n2,1\n4,3\n6,5\n8,7\n9,9\n3,2\n1,1\n6,8\n3,3\n5,5\n"; /* other columns, no kind */

typedef struct answers {
    int count, most; /* most: ends after so many; 0: never */
    double values[64][2];
} answers;

static bool take(void *user, const tcc_answer *a) {
    answers *to = user;
    double sum = 0;
    assert_int_equal(a->index, to->count);
    assert_int_equal(a->n_values, 2);
    assert_null(a->id);
    assert_null(a->target);
    assert_int_equal(a->target_label, -1);
    for (int i = 0; i < 2; i++) sum += to->values[to->count][i] = a->values[i];
    assert_true(fabs(sum - 1) < 1e-6);
    assert_true(a->values[a->label] >= a->values[1 - a->label]);
    return ++to->count != to->most;
}

static tcc_context *cx;

static tcc_run *open_exported(void **state) {
    tcc_run *run;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    const char *path = test_write_text(state, "table.csv", table);
    assert_ok(exported_make(cx, path, test_path(state, "exported")), &cx->diag);
    remove(path);
    assert_ok(tcc_run_open(cx, test_path(state, "exported"), &run), &cx->diag);
    return run;
}

static void answers_rows(void **state) {
    tcc_run *run = open_exported(state);
    answers a = {0}, b = {0}, c = {.most = 5};
    size_t length;
    assert_memory_equal(tcc_dataset_label(tcc_run_data(run), 1, &length), "y", 1);
    assert_ok(tcc_run_predict(run, test_write_text(state, "rows.csv", rows), take, &a), &cx->diag);
    assert_int_equal(a.count, ROWS); /* two batches and a half */
    assert_ok(tcc_run_predict_bytes(run, rows, sizeof rows - 1, take, &b), &cx->diag);
    assert_int_equal(b.count, ROWS);
    assert_memory_equal(a.values, b.values, sizeof a.values);
    assert_ok(tcc_run_predict(run, test_path(state, "rows.csv"), take, &c), &cx->diag);
    assert_int_equal(c.count, 5); /* the caller ended it */

    assert_error(tcc_run_predict_bytes(run, "a,b\n1,2\n", 8, take, &a), TCC_EFORMAT, &cx->diag, "is not a finite");
    assert_error(tcc_run_predict_bytes(run, "1,z\n", 4, take, &a), TCC_EFORMAT, &cx->diag, ":1: error:");
    assert_error(tcc_run_predict_bytes(run, "", 0, take, &a), TCC_EFORMAT, &cx->diag, "has no rows");
    assert_error(tcc_run_predict(run, test_path(state, "none"), take, &a), TCC_ENOTFOUND, &cx->diag, "none");
    tcc_generate_options how = {.size = sizeof how, .prompt = "a"};
    assert_error(tcc_run_generate(run, &how, NULL, NULL, NULL), TCC_EINVAL, &cx->diag, "kind csv has no vocabulary");
    tcc_predict_options wrong = {0};
    assert_error(tcc_model_predict(cx, tcc_run_model(run), tcc_run_data(run), &wrong, take, &a), TCC_EINVAL, &cx->diag,
                 "tcc_predict_options.size");
    tcc_run_close(run);
    tcc_context_destroy(cx);
}

/* The folder is that of a run that has the export in it; what a file lacks is told. */
static void folders(void **state) {
    tcc_run *run = open_exported(state);
    tcc_run_close(run);
    test_make_folders(state, "run/export/x");
    const char *run_folder = test_path(state, "run"), *weights = test_path(state, "exported/" TCC_RUN_WEIGHTS);
    const tcc_status missing = tcc_run_open(cx, run_folder, &run);
    if (missing != TCC_ENOTFOUND || !strstr(tcc_context_error(cx), "tcc-train export writes it"))
        fail_msg("%d: %s", missing, tcc_context_error(cx));
    assert_null(run);
    rmdir(test_path(state, "run/export"));
    assert_int_equal(rename(test_path(state, "exported"), test_path(state, "run/export")), 0);
    assert_ok(tcc_run_open(cx, run_folder, &run), &cx->diag);
    tcc_run_close(run);

    float none[1] = {0};
    const tcc_array array = {.name = "fc1.weight", .dtype = TCC_F32, .rank = 1, .dims = {1}, .data = none};
    weights = test_path(state, "run/export/" TCC_RUN_WEIGHTS);
    assert_ok(tcc_safetensors_write(cx, weights, &array, 1, NULL, 0), &cx->diag);
    assert_error(tcc_run_open(cx, run_folder, &run), TCC_EFORMAT, &cx->diag, "does not say what was learned");
    const tcc_pair about[] = {{TCC_RUN_KIND, "csv"}, {TCC_RUN_LEARNED, "{}"}};
    assert_ok(tcc_safetensors_write(cx, weights, &array, 1, about, 2), &cx->diag);
    assert_error(tcc_run_open(cx, run_folder, &run), TCC_ESHAPE, &cx->diag, "fc1.bias");
    remove(weights);
    assert_error(tcc_run_open(cx, run_folder, &run), TCC_ENOTFOUND, &cx->diag, TCC_RUN_WEIGHTS);
    test_write_text(state, "run/export/" TCC_RUN_PLAN, "no plan");
    assert_error(tcc_run_open(cx, run_folder, &run), TCC_EFORMAT, &cx->diag, TCC_RUN_PLAN);
    assert_null(run);
    tcc_context_destroy(cx);
}

/* Where each allocation in turn fails, the run is not opened, or gives no wrong answers. */
static void out_of_memory(void **state) {
    tcc_run *run = open_exported(state);
    answers whole = {0};
    const char *folder = test_path(state, "exported");
    assert_ok(tcc_run_predict_bytes(run, rows, sizeof rows - 1, take, &whole), &cx->diag);
    tcc_run_close(run);
    int64_t n = 0;
    for (tcc_status status = TCC_ENOMEM; status != TCC_OK; n++) {
        answers a = {0};
        tcc_diag_clear(&cx->diag);
        tcc__alloc_fail_at(n);
        status = tcc_run_open(cx, folder, &run);
        if (status == TCC_OK) status = tcc_run_predict_bytes(run, rows, sizeof rows - 1, take, &a);
        tcc__alloc_fail_at(-1);
        if (status != TCC_OK) assert_int_equal(status, TCC_ENOMEM);
        else assert_memory_equal(a.values, whole.values, sizeof a.values);
        tcc_run_close(run);
        run = NULL;
    }
    assert_true(n > 50);
    tcc_context_destroy(cx);
}

int main(void) {
    const struct CMUnitTest tests[] = {FOLDER_TEST(answers_rows), FOLDER_TEST(folders), FOLDER_TEST(out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
