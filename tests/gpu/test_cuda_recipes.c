/* SPDX-License-Identifier: MIT
 * Every shipped recipe in every mode and on both devices: the losses of the first steps are those of eager within what
 * rounding makes of them, and those of the default bit for bit where the kernels are the same. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/train_data.h"

#include <cJSON.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 8, MODES = 3, DEVICES = 2 };

static const char *const modes[MODES] = {"eager", "default", "reduce-overhead"};
static const char *const devices[DEVICES] = {"cpu", "cuda"};

static int read_losses(const char *folder, double *losses) {
    char path[4400];
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    char *text = test_read(path, NULL);
    int n = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        cJSON *json = cJSON_Parse(line);
        const cJSON *value = cJSON_GetObjectItem(json, "loss");
        if (value && n < STEPS) losses[n++] = value->valuedouble;
        cJSON_Delete(json);
    }
    free(text);
    return n;
}

/* A recipe at a size that the stand-in bears. */
typedef struct shipped {
    const char *recipe;
    const char *(*write_data)(void **state);
    const char *overrides[10]; /* NULL at the end */
    int steps[DEVICES];        /* a graph of each shape replays from its third on; 0: not there */
    double tolerance;          /* of a loss of eager's, relative */
} shipped;

static void train(void **state, const shipped *s, const char *data, int device, int mode, double *losses) {
    char name[32], recipe[4200], path[4300], compile_mode[64], steps[64];
    snprintf(name, sizeof name, "%s-%s", devices[device], modes[mode]);
    const char *folder = test_path(state, name);
    snprintf(recipe, sizeof recipe, "%s/tools/recipes/%s.yaml", TCC_SOURCE_DIR, s->recipe);
    snprintf(path, sizeof path, "data.path=%s", data);
    snprintf(compile_mode, sizeof compile_mode, "training.compile_mode=%s", modes[mode ? mode : 1]);
    snprintf(steps, sizeof steps, "training.max_steps=%d", s->steps[device]);
    const char *arguments[32] = {recipe,
                                 "--device",
                                 devices[device],
                                 "--run-dir",
                                 folder,
                                 path,
                                 compile_mode,
                                 steps,
                                 mode ? "training.compile=true" : "training.compile=false",
                                 "training.max_epochs=0",
                                 "training.log_every=1",
                                 "training.eval_every=0",
                                 "training.eval_batches=1",
                                 "training.save_every=0",
                                 "schedule.warmup_steps=2",
                                 "sample.length=0"};
    int n = 16;
    for (int i = 0; s->overrides[i]; i++) arguments[n++] = s->overrides[i];
    if (mode == 2 && device) arguments[n++] = "--require-graphs";
    program_result r = program_run(&(program_options){.environment = "PTXSIM_LOG=none"}, "tcc-train", arguments);
    if (r.status) fail_msg("%s, %s: status %d: %s%s", s->recipe, name, r.status, r.out, r.err);
    if (mode == 2 && device && s->steps[device] > 1 &&
        !strstr(r.out, "launches of the training step are captured in 1 graph\n"))
        fail_msg("%s, %s: %s", s->recipe, name, r.out);
    program_free(&r);
    const int found = read_losses(folder, losses);
    if (found != s->steps[device]) fail_msg("%s, %s: %d losses", s->recipe, name, found);
}

static void check(void **state, const shipped *s) {
    const char *data = s->write_data(state);
    double losses[DEVICES][MODES][STEPS], worst = 0;
    setenv("TCC_LIBRARIES", "none", 1);
    for (int device = 0; device < DEVICES; device++)
        for (int mode = 0; mode < MODES && s->steps[device]; mode++) {
            double *l = losses[device][mode];
            train(state, s, data, device, mode, l);
            for (int i = 0; i < s->steps[device]; i++) {
                const double expected = losses[0][0][i], error = fabs(l[i] - expected) / fabs(expected);
                if (!(error <= s->tolerance))
                    fail_msg("%s, %s on %s: step %d: loss %.9g, %.9g in eager on the CPU", s->recipe, modes[mode],
                             devices[device], i, l[i], expected);
                if (error > worst) worst = error;
            }
            if (mode == 2) assert_memory_equal(l, losses[device][1], (size_t)s->steps[device] * sizeof *l);
        }
    unsetenv("TCC_LIBRARIES");
    print_message("%s: losses within %.1e of eager on the CPU\n", s->recipe, worst);
}

static void test_char_gpt(void **state) {
    check(state, &(shipped){"char-gpt",
                            write_text_data,
                            {"model.layers=2", "model.width=16", "model.heads=2", "model.context=16",
                             "model.dropout=0.1", "data.batch_size=4"},
                            {STEPS, 4},
                            1e-5});
}

static void test_mnist_cnn(void **state) {
    check(state,
          &(shipped){"mnist-cnn", write_idx_data, {"data.batch_size=2", "optimizer.name=sgd"}, {STEPS, 3}, 1e-5});
}

static void test_csv_mlp(void **state) {
    check(state, &(shipped){"csv-mlp", write_csv_data, {"data.batch_size=8"}, {STEPS, STEPS}, 1e-5});
}

/* Batches of two lengths: a program, and a graph, for each. Adam would make steps of what are gradients of 0 but for
 * rounding, as those of the keys' biases. */
static void test_imdb_classifier(void **state) {
    char vocab[4200];
    snprintf(vocab, sizeof vocab, "data.vocab_file=%s", test_path(state, "vocab.txt"));
    check(state,
          &(shipped){"imdb-classifier",
                     write_text_classes_data,
                     {"model.layers=1", "model.width=16", "model.heads=2", "model.context=24", "data.padding_lengths=2",
                      "data.batch_size=4", "optimizer.name=sgd", "optimizer.lr=0.1", vocab},
                     {STEPS, STEPS},
                     1e-5});
}

/* On the CPU alone, as the stand-in would take hours; with a small rate, as batch norms of few samples magnify rounding
 * from step to step. */
static void test_cifar_resnet18(void **state) {
    check(state,
          &(shipped){"cifar-resnet18", write_cifar_data, {"data.batch_size=8", "optimizer.lr=1e-4"}, {3, 0}, 1e-2});
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(test_char_gpt),        FOLDER_TEST(test_mnist_cnn),      FOLDER_TEST(test_csv_mlp),
        FOLDER_TEST(test_imdb_classifier), FOLDER_TEST(test_cifar_resnet18),
    };
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
