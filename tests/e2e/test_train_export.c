/* SPDX-License-Identifier: MIT
 * tcc-train export, and predict's formats: an export answers as the run does, without its data and without a compiler,
 * and answers are those that eval counts. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/pictures.h"
#include "harness/program.h"
#include "harness/train_data.h"
#include "ir/support/context.h"
#include "traincc/run.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define RUN(...) program_run(NULL, "tcc-train", (const char *const[]){"--device", "cpu", __VA_ARGS__, NULL})

static char *must(program_result r) {
    if (r.status) fail_msg("%d: %s%s", r.status, r.out, r.err);
    free(r.err);
    return r.out;
}

static void train(void **state, const char *recipe, const char *run) {
    free(must(RUN(test_write_text(state, "recipe.yaml", recipe), "--run-dir", run, "--quiet")));
}

static double number_behind(const char *text, const char *key) {
    const char *at = strstr(text, key);
    if (!at) fail_msg("no %s in %s", key, text);
    return strtod(at + strlen(key), NULL);
}

typedef struct counted {
    int count;
    char labels[256];
    float values[256];
} counted;

static bool count(void *user, const tcc_answer *a) {
    counted *c = user;
    c->values[c->count] = a->values[0];
    c->labels[c->count++] = (char)('0' + a->label);
    return c->count < 250;
}

/* What a program gets of a folder. */
static counted opened(const char *folder, const char *inputs) {
    tcc_context *cx;
    tcc_run *run;
    counted c = {0};
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    assert_ok(tcc_run_open(cx, folder, &run), &cx->diag);
    assert_ok(tcc_run_predict(run, inputs, count, &c), &cx->diag);
    tcc_run_close(run);
    tcc_context_destroy(cx);
    return c;
}

/* Any column of a file, and of the validation data. */
static void told_by_a_column(void **state, const char *run) {
    const char *named = test_write_text(state, "named.csv", "who,width,height\n\"a, b\",50,10.5\nc,-60,20\n");
    char *told = must(RUN("predict", run, named, "--id", "who", "--format=csv"));
    if (strncmp(told, "who,prediction,probability\n\"a, b\",large,", 40) != 0 || !strstr(told, "\nc,small,"))
        fail_msg("%s", told);
    free(told);
    told = must(RUN("predict", run, named, "--id=who", "--format=json"));
    if (strncmp(told, "{\"who\":\"a, b\",\"prediction\":\"large\",", 35) != 0) fail_msg("%s", told);
    free(told);
    told = must(RUN("predict", run, "--id", "width"));
    if (!strchr(told, '\t') || strtod(told, NULL) == 0) fail_msg("%s", told);
    free(told);
}

/* Rows of each file, in the order of the files; a file that is not there ends it. */
static void told_by_their_file(void **state, const char *run) {
    const char *a = test_write_text(state, "a.csv", "width,height\n50,10.5\n-60,20\n"),
               *b = test_write_text(state, "b, c.csv", "height,width,class\n-90,3,large\n");
    char expected[8400], *told = must(RUN("predict", run, a, b, "--format=csv"));
    const char *at = told;
    snprintf(expected, sizeof expected, "file,row,prediction,probability\n%s,0,large,\n%s,1,small,\n\"%s\",0,small,\n",
             a, a, b);
    for (const char *line = expected; *line; line += strcspn(line, "\n") + 1, at += strcspn(at, "\n") + 1)
        if (strncmp(at, line, strcspn(line, "\n")) != 0) fail_msg("%s\nis not\n%s", told, expected);
    if (*at) fail_msg("%s", told);
    free(told);
    told = must(RUN("predict", run, b, a));
    snprintf(expected, sizeof expected, "%s\tsmall\t", b);
    if (strncmp(told, expected, strlen(expected)) != 0) fail_msg("%s", told);
    free(told);
    program_result r = RUN("predict", run, a, test_path(state, "none.csv"), "--format=json");
    if (r.status != 1 || !strstr(r.out, "a.csv\",\"row\":1,") || !strstr(r.err, "none.csv"))
        fail_msg("%d: %s%s", r.status, r.out, r.err);
    program_free(&r);
}

/* Rows of the formats agree with each other and with eval. */
static void tables(void **state) {
    const char *run = test_path(state, "run"), *exported = test_path(state, "exported"), *data = write_csv_data(state);
    char text[1024];
    snprintf(text, sizeof text,
             "model: {name: mlp, hidden: [8]}\ndata: {kind: csv, path: %s, batch_size: 32}\n"
             "training: {max_steps: 40, ema_decay: 0.9}\noptimizer: {lr: 0.01}\n",
             data);
    train(state, text, run);
    char *eval = must(RUN("eval", run)), *lines = must(RUN("predict", run)),
         *csv = must(RUN("predict", run, "--format=csv"));
    int rows = 0, right = 0, same = 0;
    const char *cell = strchr(csv, '\n') + 1;
    if (strncmp(csv, "row,prediction,probability,target\n", 34) != 0) fail_msg("%s", csv);
    for (char *at = lines, *end; (end = strchr(at, '\n')); at = end + 1, rows++) {
        char name[16], target[16], again[16];
        double p;
        int row;
        assert_int_equal(sscanf(at, "%15[^\t]\t%lf\t%15[^\n]", name, &p, target), 3);
        right += !strcmp(name, target);
        assert_int_equal(sscanf(cell, "%d,%15[^,],%lf", &row, again, &p), 3);
        same += row == rows && !strcmp(name, again);
        cell = strchr(cell, '\n') + 1;
    }
    assert_int_equal(rows, 20);
    assert_int_equal(same, rows);
    assert_true(fabs(number_behind(eval, "val_accuracy ") - right / (double)rows) < 1e-4);
    free(csv);
    free(lines);

    /* The same from a file, in each format; without the data from an export. */
    const char *inputs = test_write_text(state, "rows.csv", "width,height\n50,10.5\n-60,20\n3,-90\n70,70\n");
    char *json = must(RUN("predict", run, inputs, "--format", "json", "--top", "2", "--probabilities"));
    cJSON *first = cJSON_Parse(json);
    assert_string_equal(cJSON_GetObjectItem(first, "prediction")->valuestring, "large");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(first, "top")), 2);
    const cJSON *all = cJSON_GetObjectItem(first, "probabilities");
    assert_true(fabs(cJSON_GetObjectItem(all, "large")->valuedouble + cJSON_GetObjectItem(all, "small")->valuedouble -
                     1) < 1e-5);
    cJSON_Delete(first);
    told_by_a_column(state, run);
    told_by_their_file(state, run);
    free(must(RUN("export", run, exported)));
    remove(data);
    lines = must(RUN("predict", exported, inputs, "--format", "json", "--top", "2", "--probabilities"));
    assert_string_equal(lines, json);
    free(lines);
    free(json);
    free(eval);

    const counted a = opened(exported, inputs), b = opened(run, inputs);
    assert_string_equal(a.labels, "0110"); /* large, small, small, large */
    assert_memory_equal(&a, &b, sizeof a); /* averages of the newest checkpoint */

    static const char *const files[] = {"model.safetensors", "config.json", "learned.json", "recipe.yaml", "README.md"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(text, sizeof text, "exported/%s", files[i]);
        if (!test_exists(test_path(state, text))) fail_msg("no %s", files[i]);
    }
    size_t size;
    char *card = test_read(test_path(state, "exported/README.md"), &size);
    assert_non_null(strstr(card, "| val_accuracy | 40 |"));
    assert_non_null(strstr(card, "Weights: averages"));
    free(card);
    /* A training begins with it. */
    snprintf(text, sizeof text, "init_from=%s", exported);
    write_csv_data(state);
    free(must(
        RUN(test_path(state, "recipe.yaml"), text, "training.max_steps=1", "--run-dir", test_path(state, "more"))));
}

static void refuses(void **state) {
    char text[512];
    snprintf(text, sizeof text,
             "model: {name: cnn}\ndata: {kind: idx, path: %s, batch_size: 8}\ntraining: {max_steps: 1}\n",
             write_idx_data(state));
    train(state, text, test_path(state, "run"));
    const struct {
        const char *const arguments[6];
        int status;
        const char *says;
    } cases[] = {
        {{"predict", test_path(state, "run"), "--format", "xml"}, 2, "must be text, csv or json"},
        {{"predict", test_path(state, "run"), "--top", "0"}, 2, "--top 0: must be a whole number from 1"},
        {{"eval", test_path(state, "run"), "--top", "3"}, 2, "--top goes with tcc-train predict"},
        {{"predict", test_path(state, "run"), "-", "a.png", "-"}, 2, "standard input can be read once"},
        {{"predict", test_path(state, "run"), "--id", "a"}, 1, "--id names a column of a table, and data of kind idx"},
        {{"predict", test_path(state, "run"), test_path(state, "recipe.yaml")}, 1, "data of kind idx is not read"},
        {{"export", test_path(state, "run"), test_path(state, "recipe.yaml")}, 1, "recipe.yaml"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *arguments[8] = {"--device", "cpu"};
        memcpy(arguments + 2, cases[i].arguments, sizeof cases[i].arguments);
        program_result r = program_run(NULL, "tcc-train", arguments);
        if (r.status != cases[i].status || !strstr(r.err, cases[i].says))
            fail_msg("%d, or this does not say '%s': %s%s", r.status, cases[i].says, r.out, r.err);
        program_free(&r);
    }
}

/* A folder of pictures of no class, and one picture. */
static void pictures(void **state) {
    uint8_t pixels[8 * 8];
    char name[64], text[1024];
    for (int i = 0; i < 24; i++) {
        memset(pixels, i % 2 ? 220 - i : 20 + i, sizeof pixels);
        snprintf(name, sizeof name, "set/%s/%02d.png", i % 2 ? "bright" : "dark", i);
        write_png(state, name, 8, 8, 1, pixels);
        snprintf(name, sizeof name, "new/%s%02d.png", i % 4 < 2 ? "a/" : "", i);
        write_png(state, name, 8, 8, 1, pixels);
    }
    snprintf(text, sizeof text,
             "model: {name: mlp, hidden: [4]}\ndata: {kind: images, path: %s, batch_size: 5, size: [8, 8]}\n"
             "training: {max_steps: 60}\noptimizer: {lr: 0.05}\n",
             test_path(state, "set"));
    train(state, text, test_path(state, "run"));
    char *lines = must(RUN("predict", test_path(state, "run"), test_path(state, "new")));
    int count = 0;
    for (char *at = lines, *end; (end = strchr(at, '\n')); at = end + 1, count++) {
        char path[256], class[16];
        assert_int_equal(sscanf(at, "%255[^\t]\t%15[^\t]", path, class), 2);
        const int number = atoi(strrchr(path, '.') - 2);
        assert_string_equal(class, number % 2 ? "bright" : "dark");
    }
    assert_int_equal(count, 24);
    free(lines);
    lines = must(RUN("predict", test_path(state, "run"), test_path(state, "new/03.png"), test_path(state, "new/a"),
                     "--format=csv"));
    if (!strstr(lines, "file,prediction,probability\n") || !strstr(lines, "03.png,bright,") ||
        !strstr(lines, "a/20.png,dark,"))
        fail_msg("%s", lines);
    free(lines);
    snprintf(text, sizeof text, "cat %s | " TCC_BIN_DIR "/tcc-train predict %s - --format=csv | grep -q ^-,bright,",
             test_path(state, "new/03.png"), test_path(state, "run"));
    assert_int_equal(system(text), 0);
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {FOLDER_TEST(tables), FOLDER_TEST(refuses), FOLDER_TEST(pictures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
