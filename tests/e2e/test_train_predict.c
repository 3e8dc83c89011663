/* SPDX-License-Identifier: MIT
 * Predictions of a run, and which of its weights they come from. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/train_data.h"

#include <stdio.h>
#include <stdlib.h>

#define RUN_WITH(options, ...) program_run(options, "tcc-train", (const char *const[]){__VA_ARGS__, NULL})
#define RUN(...) RUN_WITH(NULL, __VA_ARGS__)

/* Eight classes, named c0 to c7, which the first two columns tell. */
static const int first[] = {4, 1, 2, 0, 1, 2, 0, 1};

static void write_rows(void **state) {
    FILE *f = fopen(test_path(state, "data.csv"), "w"), *rows = fopen(test_path(state, "rows.csv"), "w");
    fputs("a,b,c,label\n", f);
    fputs("a,b,c\n", rows);
    for (int i = 0; i < 128; i++) {
        fprintf(f, "%d,%d,%d,c%d\n", first[i % 8], i % 8 / 3 * 2, i % 5, i % 8);
        if (i < 70) fprintf(rows, "%d, %d ,%d%s\n", first[i % 8], i % 8 / 3 * 2, i % 5, i % 2 ? "\r" : "");
    }
    fclose(f);
    fclose(rows);
    f = fopen(test_path(state, "recipe.yaml"), "w");
    fprintf(f,
            "model: {name: mlp, hidden: [64]}\n"
            "data: {kind: csv, path: %s, val_path: %s, batch_size: 32}\n"
            "training: {max_steps: 400, eval_every: 200, save_every: 200, ema_decay: 0.9}\noptimizer: {lr: 0.01}\n",
            test_path(state, "data.csv"), test_path(state, "data.csv"));
    fclose(f);
}

static program_result train(void **state, const char *recipe) {
    program_result r = RUN(recipe, "--device", "cpu", "--run-dir", test_path(state, "run"));
    if (r.status) fail_msg("%d: %s%s", r.status, r.out, r.err);
    return r;
}

/* Each of `count` lines: class c(i mod 8), its probability, and the label where there is one. */
static void expect_classes(const program_result *r, int count, bool labels) {
    const char *at = r->out;
    if (r->status || *r->err) fail_msg("%d: %s%s", r->status, r->out, r->err);
    for (int i = 0; i < count; i++) {
        int class, label, used = 0;
        double probability;
        const int fields = sscanf(at, labels ? "c%d\t%lf\tc%d%n" : "c%d\t%lf%n", &class, &probability,
                                  labels ? &label : &used, &used);
        if (fields != (labels ? 3 : 2) || at[used] != '\n' || class != i % 8 || (labels && label != class) ||
            !(probability > 0.5 && probability <= 1))
            fail_msg("line %d: %.60s", i, at);
        at += used + 1;
    }
    assert_int_equal(*at, '\0');
}

static void classes_of_rows(void **state) {
    write_rows(state);
    program_result r = train(state, test_path(state, "recipe.yaml"));
    program_free(&r);
    r = RUN("predict", "--device", "cpu", test_path(state, "run"));
    expect_classes(&r, 128, true);
    program_free(&r);
    /* 70 rows are two batches and a part of one. */
    r = RUN("predict", "--device", "cpu", test_path(state, "run"), test_path(state, "rows.csv"));
    expect_classes(&r, 70, false);
    program_result again = RUN_WITH(&(program_options){.input = test_path(state, "rows.csv")}, "predict", "--device",
                                    "cpu", test_path(state, "run/checkpoints/step-000400.safetensors"), "-",
                                    "data.batch_size=16");
    assert_string_equal(r.out, again.out);
    program_free(&again);
    again = RUN("predict", "--device", "cpu", test_path(state, "run"), test_path(state, "rows.csv"),
                "training.ema_decay=0");
    if (!strcmp(r.out, again.out)) fail_msg("averages and what they are of answer the same");
    program_free(&again);
    program_free(&r);

    /* The best is of an evaluation, which was made with averages. */
    r = RUN("predict", "--device", "cpu", test_path(state, "run/checkpoints/best.safetensors"));
    expect_classes(&r, 128, true);
    program_free(&r);
    r = RUN("eval", "--device", "cpu", test_path(state, "run/checkpoints/best.safetensors"));
    again = RUN("eval", "--device", "cpu", test_path(state, "run/checkpoints/step-000200.safetensors"));
    const char *line = strstr(r.out, "weights: averages"), *other = strstr(again.out, "weights: averages");
    if (r.status || again.status || !line || !other || !strstr(line, "val_accuracy 1.0000"))
        fail_msg("%s%s%s%s", r.out, r.err, again.out, again.err);
    if (strstr(line, "step 200")) assert_string_equal(line, other); /* else the second evaluation was better */
    program_free(&again);
    program_free(&r);
}

static void numbers(void **state) {
    FILE *f = fopen(test_path(state, "line.csv"), "w");
    for (int i = 0; i < 64; i++) fprintf(f, "%d,%d\n", i, 3 * i + 1);
    fclose(f);
    f = fopen(test_path(state, "recipe.yaml"), "w");
    fprintf(f,
            "model: {name: mlp, hidden: []}\n"
            "data: {kind: csv, path: %s, regression: true, batch_size: 16}\n"
            "training: {max_steps: 1500}\noptimizer: {name: adam, lr: 0.5}\nschedule: {name: cosine}\n",
            test_path(state, "line.csv"));
    fclose(f);
    program_result r = train(state, test_path(state, "recipe.yaml"));
    program_free(&r);
    test_write_text(state, "x", "10\n-4\n");
    r = RUN("predict", "--device", "cpu", test_path(state, "run"), test_path(state, "x"));
    double a, b;
    if (r.status || sscanf(r.out, "%lf\n%lf\n", &a, &b) != 2 || !(a > 30 && a < 32) || !(b > -12 && b < -10))
        fail_msg("%d: %s%s", r.status, r.out, r.err);
    program_free(&r);
}

static void texts(void **state) {
    const char *data = write_text_classes_data(state);
    FILE *f = fopen(test_path(state, "recipe.yaml"), "w");
    fprintf(f,
            "model: {name: distilbert, layers: 1, heads: 2, width: 16, context: 64}\n"
            "data: {kind: text_classes, path: %s, vocab_file: %s, batch_size: 16}\n"
            "training: {max_steps: 120}\noptimizer: {lr: 0.003}\n",
            data, test_path(state, "vocab.txt"));
    fclose(f);
    program_result r = train(state, test_path(state, "recipe.yaml"));
    program_free(&r);
    test_write_text(state, "lines", "The film was great.\nthe film was DULL . the film\n\nthe film was fine");
    r = RUN("predict", "--device", "cpu", test_path(state, "run"), test_path(state, "lines"));
    char *end;
    if (r.status || strncmp(r.out, "0\t0.9", 5) != 0 || !(end = strchr(r.out, '\n')) ||
        strncmp(end, "\n1\t0.9", 6) != 0)
        fail_msg("%d: %s%s", r.status, r.out, r.err);
    int lines = 0;
    for (const char *at = r.out; *at; at++) lines += *at == '\n';
    assert_int_equal(lines, 4); /* an empty text has a class too */
    program_free(&r);
}

static void expect_refused(program_result r, int status, const char *message) {
    if (r.status != status || *r.out || !strstr(r.err, message))
        fail_msg("%d, or this does not say \"%s\": %s%s", r.status, message, r.out, r.err);
    program_free(&r);
}

static void refuses(void **state) {
    write_rows(state);
    program_result r = train(state, test_path(state, "recipe.yaml"));
    program_free(&r);
    const char *run = test_path(state, "run");
    const struct {
        const char *text, *message;
    } cases[] = {{"1,0,1\n1,x,1\n", "rows:2: error: column 2 ('b'): 'x' is not a finite number"},
                 {"1,0\n", "rows:1: error: has 2 columns, but the training file has 4"},
                 {"1,0,1\n1,0,1,c1\n", "rows:2: error: the line has 4 cells, but the first has 3"},
                 {"1,0,1\n\nnan,0,1\n", "rows:3: error: column 1 ('a'): 'nan' is not a finite number"},
                 {"1e400,0,1\n", "rows:1: error: column 1 ('a'): '1e400' is not a finite number"},
                 {"a,c\n1,0\n", "rows:1: error: has no column 'b', which the training file has"},
                 {"a,b,c\n\n", "rows: error: has no rows of data"},
                 {"\xff\xfe\n", "rows: error: byte 0 (0xff) is not UTF-8"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *rows = test_write_text(state, "rows", cases[i].text);
        expect_refused(RUN("predict", "--device", "cpu", run, rows), 1, cases[i].message);
    }
    expect_refused(RUN("predict", "--device", "cpu", run, test_path(state, "gone")), 1,
                   "gone: error: cannot open the file: No such file");
    expect_refused(RUN("predict", "--device", "cpu", run, "data.val_split=0"), 1,
                   "there is no validation data to predict; give data.val_path=PATH");
    expect_refused(RUN("predict"), 2, "predict: no checkpoint or run folder given");
    expect_refused(RUN("predict", "--device", "cpu", run, "model.hidden=[32]"), 1, "shape");
    expect_refused(RUN("predict", "--device", "cpu", test_path(state, "run/checkpoints/gone.safetensors")), 1,
                   "gone.safetensors");

    FILE *f = fopen(test_path(state, "run/recipe.yaml"), "w");
    fprintf(f,
            "model: {name: gpt, layers: 1, heads: 1, width: 8, context: 8}\ndata: {kind: text, path: %s}\n"
            "training: {max_steps: 1}\n",
            write_text_data(state));
    fclose(f);
    expect_refused(RUN("predict", "--device", "cpu", run), 1, "predict: a language model is not a classifier");
    f = fopen(test_path(state, "run/recipe.yaml"), "w");
    fprintf(f, "model: {name: cnn}\ndata: {kind: idx, path: %s}\ntraining: {max_steps: 1}\n", write_idx_data(state));
    fclose(f);
    expect_refused(RUN("predict", "--device", "cpu", run, "x"), 1,
                   "predict: data of kind idx is not read from such a file; give data.val_path=PATH");
}

/* A run answers as it was trained, whatever has become of the training data; only going on needs that as it was. */
static void changed_data(void **state) {
    char *text;
    test_write_text(state, "rows", "100,100\n-100,-100\n");
    test_write_text(state, "other.csv", "height,width,kind\n1000,1000,large\n-1000,-1000,small\n");
    const char *data = write_csv_data(state), *run = test_path(state, "run"), *rows = test_path(state, "rows");
    program_result r = train(state, write_recipe(state, "mlp"));
    program_free(&r);
    program_result before = RUN("predict", "--device", "cpu", run, rows);
    char val_path[4200];
    snprintf(val_path, sizeof val_path, "data.val_path=%s", test_path(state, "other.csv"));
    program_result evaluated = RUN("eval", "--device", "cpu", run, val_path);
    assert_int_equal(before.status + evaluated.status, 0);

    text = test_read(data, NULL);
    for (char *at = text; (at = strstr(at, "small"));) memcpy(at, "minor", 5);
    test_write_text(state, "table.csv", text);
    free(text);
    r = RUN("predict", "--device", "cpu", run, rows);
    assert_string_equal(r.out, before.out);
    program_free(&r);
    expect_refused(RUN("eval", "--quiet", "--device", "cpu", run), 1, "is not as it was when it was trained on");
    r = RUN("--resume", "--device", "cpu", "--run-dir", run, test_path(state, "mlp.yaml"), "training.max_steps=30");
    if (r.status != 1 || !strstr(r.err, "the training data has changed: its classes[1] was \"small\""))
        fail_msg("%d: %s%s", r.status, r.out, r.err);
    program_free(&r);

    remove(data);
    r = RUN("predict", "--device", "cpu", run, rows);
    assert_string_equal(r.out, before.out);
    program_free(&r);
    r = RUN("eval", "--device", "cpu", run, val_path);
    assert_string_equal(strstr(r.out, "weights:"), strstr(evaluated.out, "weights:"));
    program_free(&r);
    program_free(&before);
    program_free(&evaluated);
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {FOLDER_TEST(classes_of_rows), FOLDER_TEST(numbers), FOLDER_TEST(texts),
                                       FOLDER_TEST(refuses), FOLDER_TEST(changed_data)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
