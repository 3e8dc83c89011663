/* SPDX-License-Identifier: MIT
 * tcc-train with input that is wrong: each time the exit status, and a message that says what and where. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/train_data.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRAIN(...) program_run(NULL, "tcc-train", (const char *const[]){__VA_ARGS__, NULL})

/* Refused with this status and message; nothing is printed besides, and "must not exist" does not. */
static void expect(program_result r, int status, const char *message) {
    if (r.status != status || !strstr(r.err, message))
        fail_msg("exit status %d, not %d, or this does not say \"%s\":\n%s%s", r.status, status, message, r.out, r.err);
    program_free(&r);
}

static char *assignment(const char *key, const char *value) {
    static char text[4][4200];
    static int next;
    char *to = text[next++ % 4];
    snprintf(to, sizeof text[0], "%s=%s", key, value);
    return to;
}

/* -- Command line and recipe -- */

static void command_line(void **state) {
    const char *recipe = write_recipe(state, "mlp");
    expect(TRAIN("--frobnicate", recipe), 2, "unknown option --frobnicate");
    expect(TRAIN("--explian", recipe), 2, "unknown option --explian; did you mean --explain?");
    expect(TRAIN(recipe, "--run-dir"), 2, "--run-dir needs a value");
    expect(TRAIN(recipe, "--quiet=1"), 2, "--quiet takes no value");
    expect(TRAIN("--quiet"), 2, "no recipe given");
    expect(TRAIN(recipe, "--emit", "sass"), 2, "--emit sass: must be tir, llvm, asm or ptx");
    expect(TRAIN(recipe, "--emit", "ptx", "--device", "cpu"), 2,
           "there is no GPU here to make it for; name one, as in --arch sm_90");
    expect(TRAIN(recipe, "--arch", "sm_90"), 2, "--arch goes with --emit or --dry-run");
    expect(TRAIN(recipe, "--emit", "ptx", "--arch", "sm_9"), 2, "unknown GPU architecture 'sm_9'; known are sm_75, ");
    expect(TRAIN(recipe, "--emit", "ptx", "--arch", "a100-of-unknown-kind"), 2, "a100-of-unknown-kind");
    expect(TRAIN(recipe, "--device", "gpu"), 2, "device \"gpu\": must be cpu, cuda, cuda:N or auto");
    expect(TRAIN(recipe, "--device", "cuda:x"), 2, "device \"cuda:x\": must be");
    expect(TRAIN("nowhere.yaml"), 2, "cannot read the recipe nowhere.yaml: No such file or directory");
    expect(TRAIN(recipe, "training.max_step=3"), 2,
           "unknown key \"training.max_step\"; did you mean \"training.max_steps\"?");
    expect(TRAIN(recipe, recipe), 2, "is not of the form key.path=value");
    expect(TRAIN("--dry-run", "--", recipe, "--quiet"), 2, "\"--quiet\" is not of the form key.path=value");
    expect(TRAIN("--dry-run", "--", recipe), 0, "");
    const program_options no_thread = {.environment = "TCC_NUM_THREADS=0"};
    program_result r = program_run(&no_thread, "tcc-train", (const char *const[]){recipe, NULL});
    assert_int_equal(strncmp(r.err, "tcc-train: TCC_NUM_THREADS: expected", 36), 0);
    expect(r, 2, "expected a whole number from 1 to 1024, got '0'");
}

static void cuda_is_one_clear_line(void **state) {
    const char *recipe = write_recipe(state, "mlp");
    const char *const runs[][6] = {{"--device", "cuda", recipe}, {"--device", "cuda", "--ranks", "2", recipe}};
    for (int i = 0; i < 2; i++) {
        program_result r = program_run(&(program_options){.environment = "CUDA_VISIBLE_DEVICES="}, "tcc-train",
                                       runs[i]);
        assert_int_equal(r.status, 2);
        if (strncmp(r.err, "tcc-train: --device cuda: no CUDA device: ", 42) ||
            strchr(r.err, '\n') != r.err + strlen(r.err) - 1)
            fail_msg("%s", r.err);
        assert_string_equal(r.out, "");
        program_free(&r);
    }
}

static void malformed_recipe(void **state) {
    const char *path = test_write_text(state, "r.yaml", "model:\n  name: mlp\n  hiden: [4]\n");
    expect(TRAIN(path), 2, "r.yaml:3: unknown key \"model.hiden\"; did you mean \"model.hidden\"?");
    test_write_text(state, "r.yaml", "model:\n  name: mlp\n  hidden: [four]\n");
    expect(TRAIN(path), 2, "r.yaml:3: model.hidden: \"four\" is not a number");
    expect(TRAIN(write_recipe(state, "mlp"), "training.allow_tf32=fast"), 2,
           "training.allow_tf32: must be true or false, not \"fast\"");
    expect(TRAIN(write_recipe(state, "mlp"), "training.memory_budget=half"), 2,
           "training.memory_budget: \"half\" is no budget");
    test_write_text(state, "r.yaml", "model: {name: mlp\n");
    expect(TRAIN(path), 2, "malformed YAML");
    test_write_text(state, "r.yaml", "");
    expect(TRAIN(path), 2, "the recipe is empty");
}

static void micro_batches(void **state) {
    const char *recipe = write_recipe(state, "mlp");
    expect(TRAIN(recipe, "data.pin_memory=some"), 2, "data.pin_memory: must be true or false");
    expect(TRAIN(recipe, "training.batch_accumulate=0"), 2, "training.batch_accumulate");
    expect(TRAIN(recipe, "training.batch_accumulate=1.5"), 2, "training.batch_accumulate");
    expect(TRAIN(recipe, "training.batch_accumulate=many"), 2, "training.batch_accumulate");
    expect(TRAIN(recipe, "training.batch_accumulate=2000000"), 2, "training.batch_accumulate");
    expect(TRAIN(recipe, "training.batch_accumulate=100"), 1, "has 160 samples, too few for one batch of 800");
}

static void keys_that_do_not_go_together(void **state) {
    const char *recipe = write_recipe(state, "mlp");
    expect(TRAIN(recipe, "training.ema_warmup=true"), 2, "training.ema_warmup needs a training.ema_decay above 0");
}

static void cache_commands(void **state) {
    (void)state;
    setenv("TCC_CACHE_DISABLE", "0", 1);
    expect(TRAIN("cache"), 2, "usage: tcc-train cache stat | list");
    expect(TRAIN("cache", "sta"), 2, "usage: tcc-train cache stat | list");
    expect(TRAIN("cache", "export"), 2, "usage: tcc-train cache stat | list");
    expect(TRAIN("cache", "why", "zz"), 1, "no entry of the cache has a key that begins with 'zz'");
    expect(TRAIN("cache", "import", "/no/such/file"), 1, "there is no such file");
    setenv("TCC_CACHE_DISABLE", "1", 1);
    expect(TRAIN("cache", "stat"), 1, "the cache is switched off by TCC_CACHE_DISABLE");
    program_share_cache();
}

/* -- Data -- */

static void missing_data(void **state) {
    const char *nowhere = assignment("data.path", test_path(state, "nowhere"));
    expect(TRAIN(write_recipe(state, "gpt"), nowhere), 1,
           "nowhere: error: cannot open the file: No such file or directory");
    expect(TRAIN(write_recipe(state, "mlp"), nowhere), 1, "nowhere: error: cannot open the file");
    expect(TRAIN(write_recipe(state, "cnn"), nowhere), 1, "nowhere");
    expect(TRAIN(write_recipe(state, "gpt"), "data.val_path=nowhere.txt"), 1,
           "nowhere.txt: error: cannot open the file");
}

static void damaged_idx(void **state) {
    const char *recipe = write_recipe(state, "cnn"), *images = test_path(state, "idx/train-images-idx3-ubyte"),
               *labels = test_path(state, "idx/train-labels-idx1-ubyte");
    assert_int_equal(truncate(images, 5000), 0);
    expect(TRAIN(recipe), 1,
           "train-images-idx3-ubyte: error: the header announces 75264 bytes of data, but 4984 follow: the file is "
           "truncated");
    write_idx_data(state);
    size_t size;
    char *bytes = test_read(labels, &size);
    bytes[3] = 9;
    test_write(state, "idx/train-labels-idx1-ubyte", bytes, size);
    expect(TRAIN(recipe), 1, "magic number at byte 0 is 0x00000809, that of idx labels is 0x00000801");
    bytes[3] = 1;
    bytes[20] = 77;
    test_write(state, "idx/train-labels-idx1-ubyte", bytes, size);
    expect(TRAIN(recipe), 1,
           "train-labels-idx1-ubyte: error: label 77 at byte 20 is not below the number of classes, 10");
    free(bytes);
}

static void damaged_cifar(void **state) {
    const char *data = assignment("data.path", write_cifar_data(state)),
               *recipe = TCC_SOURCE_DIR "/tools/recipes/cifar-resnet18.yaml";
    size_t size;
    char *bytes = test_read(test_path(state, "cifar/data_batch_1.bin"), &size);
    test_write(state, "cifar/data_batch_1.bin", bytes, size - 1);
    expect(TRAIN(recipe, data), 1, "data_batch_1.bin: error:");
    bytes[3073] = 10;
    test_write(state, "cifar/data_batch_1.bin", bytes, size);
    expect(TRAIN(recipe, data), 1, "label 10 at byte 3073 is not below 10");
    free(bytes);
}

static void bad_csv_cell(void **state) {
    const char *recipe = write_recipe(state, "mlp");
    test_write_text(state, "table.csv", "a,b,kind\n1,2,x\n3,four,y\n");
    expect(TRAIN(recipe), 1, "table.csv:3: error: column 2 ('b'): 'four' is not a finite number");
    test_write_text(state, "table.csv", "a,b,kind\n1,2,x\n3,y\n");
    expect(TRAIN(recipe), 1, "table.csv:3: error: the line has 2 cells, but the first has 3");
}

static void too_little_data(void **state) {
    const char *recipe = write_recipe(state, "gpt");
    test_write_text(state, "text.txt", "short");
    expect(TRAIN(recipe), 1, "text.txt");
    expect(TRAIN(write_recipe(state, "gpt"), "sample.prompt=Zebra"), 1, "'Z'");
}

/* -- Files of weights -- */

static void init_from_lists_all_that_differs(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
    program_result r = TRAIN(recipe, "--run-dir", run, "training.max_steps=1", "model.hidden=[16,8,4]");
    assert_int_equal(r.status, 0);
    program_free(&r);
    const char *weights = assignment("init_from", test_path(state, "run/checkpoints/step-000000.safetensors"));
    r = TRAIN(recipe, "--run-dir", test_path(state, "other"), "model.hidden=[16,16]", weights);
    assert_int_equal(r.status, 1);
    static const char *const parts[] = {"step-000000.safetensors",
                                        "fc2.weight",
                                        "fc2.bias",
                                        "fc3.weight",
                                        "fc3.bias",
                                        "fc4.weight",
                                        "fc4.bias",
                                        "[8,16]",
                                        "[16,16]"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strstr(r.err, parts[i])) fail_msg("\"%s\" is not named in: %s", parts[i], r.err);
    if (strstr(r.err, "fc1.weight")) fail_msg("fc1.weight agrees, but is named in: %s", r.err);
    program_free(&r);
    assert_false(test_exists(test_path(state, "other")));
    expect(TRAIN(recipe, "model.hidden=[16,8,4,4]", weights), 1, "fc5.weight"); /* missing in the file */
    expect(TRAIN(recipe, assignment("init_from", recipe)), 1, "mlp.yaml: error:");
}

static void unwritable_run_folder(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *file = test_write_text(state, "file", "");
    char inside[4200];
    snprintf(inside, sizeof inside, "%s/run", file);
    expect(TRAIN(recipe, "--run-dir", inside), 1, "cannot make the run's folder");
    expect(TRAIN(recipe, "--run-dir", "/proc/run"), 1, "cannot make the run's folder /proc/run: ");
}

static void unwritable_profile(void **state) {
    const char *run = test_path(state, "run");
    expect(TRAIN(write_recipe(state, "mlp"), "--run-dir", run, "--profile", "/proc/profile.json"), 1,
           "--profile /proc/profile.json: cannot be written: ");
    assert_false(test_exists(run));
}

/* Rows that take more than a quarter of the memory that is left lie in a file. */
static void table_beyond_memory(void **state) {
    if (!program_takes_memory_limit()) skip();
    enum { ROWS = 1200000 };
    FILE *f = fopen(test_path(state, "large.csv"), "w");
    assert_non_null(f);
    fputs("a,b,c,d,e,f,g,h,y\n", f);
    for (int i = 0; i < ROWS; i++) fprintf(f, "%d,2,3,4,5,6,7,8,%d\n", i % 9, i % 2);
    fclose(f);
    char data[4200];
    snprintf(data, sizeof data, "data.path=%s", test_path(state, "large.csv"));
    const char *recipe = write_recipe(state, "mlp");
    const program_options little = {.memory_limit_bytes = 350 << 20, .environment = "TCC_CACHE_DISABLE=1"};
    program_result r = program_run(&little, "tcc-train",
                                   (const char *const[]){"--device", "cpu", recipe, data, "--run-dir",
                                                         test_path(state, "r"), "training.max_steps=2", NULL});
    if (r.status || !strstr(r.out, " in a temporary file")) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    program_free(&r);
}

static void does_not_fit(void **state) {
    const char *run = test_path(state, "run"), *recipe = write_recipe(state, "gpt");
    program_result r = TRAIN(recipe, "--run-dir", run, "model.width=65536", "model.heads=16", "model.layers=24");
    assert_non_null(
        strstr(r.err, "the largest tensor: 64.0 GiB, 'transformer.h.0.mlp.c_fc.weight', f32[262144,65536]"));
    expect(r, 1, "error: the program does not fit: ");
    assert_false(test_exists(run));
}

/* However little address space there is, the program says so, and ends by itself. */
static void little_address_space(void **state) {
    if (!program_takes_memory_limit()) skip();
    const char *const arguments[] = {write_recipe(state, "mlp"), "--run-dir", test_path(state, "run"),
                                     "model.hidden=[512, 512]", NULL};
    for (long limit = 180L << 20; limit < 520L << 20; limit += 20L << 20) {
        program_result r =
            program_run(&(program_options){.memory_limit_bytes = limit, .environment = "TCC_CACHE_DISABLE=1"},
                        "tcc-train", arguments);
        if (r.status != 0 && r.status != 1 && r.status != 2 && r.status != 127)
            fail_msg("%ld MiB: exit status %d\n%s", limit >> 20, r.status, r.err);
        if (r.status && !*r.err) fail_msg("%ld MiB: not a word", limit >> 20);
        program_free(&r);
    }
    const program_options half = {.memory_limit_bytes = 512L << 20, .environment = "TCC_CACHE_DISABLE=1"};
    expect(program_run(&half, "tcc-train",
                       (const char *const[]){write_recipe(state, "mlp"), "--run-dir", test_path(state, "run"),
                                             "model.hidden=[6144, 6144]", NULL}),
           1, " are free on cpu");
}

static void corrupt_checkpoint(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
    expect(TRAIN(recipe, "--run-dir", run, "--resume"), 1,
           "run/checkpoints: error: cannot open the checkpoint: No such file or directory");
    assert_false(test_exists(run));
    expect(TRAIN(recipe, "--run-dir", run), 0, "");
    const char *newest = test_path(state, "run/checkpoints/step-000020.safetensors");
    size_t size;
    char *bytes = test_read(newest, &size);
    bytes[size - 5] ^= 1;
    test_write(state, "run/checkpoints/step-000020.safetensors", bytes, size);
    free(bytes);
    program_result r = TRAIN(recipe, "--run-dir", run, "--resume");
    assert_non_null(strstr(r.err, "step-000020.safetensors: error:"));
    expect(r, 1, "the newest earlier checkpoint that is sound is");
    const char *sound = test_path(state, "run/checkpoints/step-000010.safetensors");
    expect(TRAIN(recipe, "--run-dir", run, "--resume", sound), 0, "");
    expect(TRAIN(recipe, "--run-dir", run, "--resume", recipe), 2, "is not of the form");
    expect(TRAIN(recipe, "--run-dir", run, "--resume", "training.max_steps=10"), 1,
           "past the end of this run of 10 steps");
}

/* A limit on the size of files is the full disk that a test can have. */
static void full_disk_while_saving(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
    expect(TRAIN(recipe, "--run-dir", run, "model.hidden=[2000]", "training.max_steps=10"), 0, "");
    const char *const more[] = {recipe, "--run-dir", run, "--resume", "model.hidden=[2000]", NULL};
    size_t before_size, after_size;
    const char *kept = test_path(state, "run/checkpoints/step-000010.safetensors");
    char *before = test_read(kept, &before_size);
    program_result r = program_run(&(program_options){.file_limit_bytes = 20000}, "tcc-train", more);
    assert_non_null(strstr(r.err, "File too large; the file was left as it was"));
    assert_false(test_exists(test_path(state, "run/checkpoints/step-000020.safetensors")));
    assert_false(test_exists(test_path(state, "run/checkpoints/step-000020.safetensors.tmp")));
    expect(r, 1, "the last checkpoint is of step 10");
    char *after = test_read(kept, &after_size);
    assert_true(before_size == after_size && !memcmp(before, after, before_size));
    free(before);
    free(after);
    expect(program_run(NULL, "tcc-train", more), 0, "");
    assert_true(test_exists(test_path(state, "run/checkpoints/step-000020.safetensors")));
}

/* An update makes weights that no later step survives: the run ends, and says where. */
static void overflows_from_then_on(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
    program_result r = TRAIN(recipe, "--device", "cpu", "--run-dir", run, "training.mixed_precision=fp16",
                             "training.max_steps=100", "model.hidden=[64, 64]", "optimizer.lr=2000",
                             "training.eval_every=0");
    if (!strstr(r.err, "by the interpreter: ") || !strstr(r.err, ": forward: dot with \"") ||
        !strstr(r.err, "inf in f16["))
        fail_msg("%s", r.err);
    expect(r, 1, "steps in a row are infinite or NaN, with the loss scaled by no more than ");
}

/* What is infinite or NaN ends the run, and no checkpoint of it is written: the last good one stays the newest. */
static void loss_becomes_nan(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
    expect(TRAIN(recipe, "--device", "cpu", "--run-dir", run, "optimizer.name=sgd", "optimizer.lr=1e6",
                 "training.save_every=1", "training.log_every=10"),
           1,
           "is infinite or NaN after step 3; try a lower optimizer.lr, training.clip_grad_norm=1, or "
           "schedule.warmup_steps; training.on_nan=continue trains on regardless\nthe last checkpoint is of step 2");
    assert_false(test_exists(test_path(state, "run/checkpoints/step-000003.safetensors")));
    assert_true(test_exists(test_path(state, "run/checkpoints/step-000002.safetensors")));
    expect(TRAIN(recipe, "--run-dir", run, "optimizer.name=sgd", "optimizer.lr=1e6", "training.eval_every=0",
                 "training.save_every=0"),
           1, "the loss is infinite or NaN since step 2, 3 steps in a row; try a lower optimizer.lr");
    expect(TRAIN(recipe, "--run-dir", run, "optimizer.name=sgd", "optimizer.lr=1e6", "training.on_nan=continue"), 0,
           "is infinite or NaN after step 20: no checkpoint of it is written");
    assert_false(test_exists(test_path(state, "run/checkpoints/step-000020.safetensors")));
    assert_false(test_exists(test_path(state, "run/checkpoints/best.safetensors")));
}

static void statistics_of_no_steps(void **state) {
    const char *recipe = write_recipe(state, "mlp");
    expect(TRAIN(recipe, "training.statistics=-1"), 2, "training.statistics: must be from 0 to");
    expect(TRAIN(recipe, "training.statistics=all"), 2, "training.statistics: \"all\" is not a number");
    expect(TRAIN(recipe, "training.statistics=0.5"), 2, "training.statistics");
}

/* The first step that is not finite ends the run, which names the op; what came before it is the run's as without. */
static void anomaly_is_found(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
    expect(TRAIN(recipe, "training.detect_anomaly=maybe"), 2, "training.detect_anomaly: must be true or false");
    program_result r = TRAIN(recipe, "--device", "cpu", "--run-dir", run, "optimizer.name=sgd", "optimizer.lr=1e6",
                             "training.detect_anomaly=true");
    if (!strstr(r.err, "by the interpreter: ") || !strstr(r.err, " gives ")) fail_msg("%s", r.err);
    expect(r, 1, "infinite or NaN");
    expect(TRAIN(recipe, "--run-dir", run, "training.detect_anomaly=true"), 0, "");
}

static void resumed_with_another_recipe(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
    expect(TRAIN(recipe, "--run-dir", run, "training.max_steps=10"), 0, "");
    expect(TRAIN(recipe, "--run-dir", run, "--resume", "model.hidden=[8, 16]"), 2,
           "--resume: model.hidden is [8, 16], but the checkpoint is of a run with [16, 16], and that cannot change");
    expect(TRAIN(recipe, "--run-dir", run, "--resume", "data.batch_size=4"), 2, "data.batch_size is 4, but");
    expect(TRAIN(recipe, "--run-dir", run, "--resume", "data.shuffle=false"), 2, "data.shuffle is false, but");
    expect(TRAIN(recipe, "--run-dir", run, "--resume", "training.seed=3"), 2, "training.seed is 3, but");
    char *kept = test_read(test_path(state, "run/recipe.yaml"), NULL);
    assert_non_null(strstr(kept, "max_steps: 10\n")); /* a refused run has changed nothing */
    free(kept);
    program_result r = TRAIN(recipe, "--run-dir", run, "--resume", "optimizer.lr=0.01", "training.log_every=5",
                             "model.dropout=0");
    if (!strstr(r.out, "changed since the checkpoint: model.dropout was 0.1, is 0; optimizer.lr was 0.003, is 0.01; "
                       "training.max_steps was 10, is 20\n"))
        fail_msg("%s", r.out);
    expect(r, 0, "");
}

/* A folder that another run writes to is noticed before anything is compiled. */
static void busy_run_folder(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *run = test_path(state, "run");
    mkdir(run, 0777);
    const int folder = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(folder, LOCK_EX), 0);
    program_result r = TRAIN(recipe, "--run-dir", run);
    close(folder);
    assert_null(strstr(r.out, "compiled in"));
    expect(r, 1, "another tcc-train is writing to ");
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(command_line),
        FOLDER_TEST(cuda_is_one_clear_line),
        FOLDER_TEST(malformed_recipe),
        FOLDER_TEST(micro_batches),
        FOLDER_TEST(keys_that_do_not_go_together),
        FOLDER_TEST(cache_commands),
        FOLDER_TEST(missing_data),
        FOLDER_TEST(damaged_idx),
        FOLDER_TEST(damaged_cifar),
        FOLDER_TEST(bad_csv_cell),
        FOLDER_TEST(too_little_data),
        FOLDER_TEST(init_from_lists_all_that_differs),
        FOLDER_TEST(unwritable_run_folder),
        FOLDER_TEST(unwritable_profile),
        FOLDER_TEST(table_beyond_memory),
        FOLDER_TEST(does_not_fit),
        FOLDER_TEST(little_address_space),
        FOLDER_TEST(corrupt_checkpoint),
        FOLDER_TEST(full_disk_while_saving),
        FOLDER_TEST(overflows_from_then_on),
        FOLDER_TEST(loss_becomes_nan),
        FOLDER_TEST(anomaly_is_found),
        FOLDER_TEST(statistics_of_no_steps),
        FOLDER_TEST(resumed_with_another_recipe),
        FOLDER_TEST(busy_run_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
