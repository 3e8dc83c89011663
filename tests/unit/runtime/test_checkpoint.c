/* SPDX-License-Identifier: MIT
 * Checkpoints: pairs of files that exist as a whole or not at all. */
#include "harness/check.h"
#include "harness/files.h"
#include "ir/support/alloc.h"
#include "ir/support/context.h"
#include "runtime/files/file.h"
#include "traincc/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static tcc_context cx;

/* Save a checkpoint whose numbers are its step. */
static tcc_status save(void **state, int64_t step) {
    float weight[4], moment[4];
    for (int i = 0; i < 4; i++) weight[i] = (float)step, moment[i] = (float)step / 2;
    char position[32];
    snprintf(position, sizeof position, "%lld", (long long)step * 10);
    const tcc_array params = {.name = "fc.weight", .dtype = TCC_F32, .rank = 2, .dims = {2, 2}, .data = weight};
    const tcc_array moments = {.name = "adam.m.fc.weight", .dtype = TCC_F32, .rank = 2, .dims = {2, 2}, .data = moment};
    const tcc_pair values[] = {{"loader.batch", position}};
    const tcc_checkpoint_contents contents = {.size = sizeof contents,
                                              .step = step,
                                              .params = &params,
                                              .n_params = 1,
                                              .state = &moments,
                                              .n_state = 1,
                                              .values = values,
                                              .n_values = 1};
    return tcc_checkpoint_save(&cx, test_path(state, "checkpoints"), &contents);
}

static void save_list_open(void **state) {
    const char *folder = test_path(state, "checkpoints");
    int count;
    int64_t steps[4];
    assert_ok(tcc_checkpoint_list(&cx, folder, steps, 4, &count), &cx.diag);
    assert_int_equal(count, 0);
    static const int64_t saved[] = {1000000, 0, 200, 100};
    for (int i = 0; i < 4; i++) assert_ok(save(state, saved[i]), &cx.diag);
    test_write_text(state, "checkpoints/step-7.safetensors", "");      /* not named as ours are */
    test_write_text(state, "checkpoints/step-000300.safetensors", ""); /* no state beside it */
    assert_ok(tcc_checkpoint_list(&cx, folder, steps, 4, &count), &cx.diag);
    assert_int_equal(count, 4);
    assert_true(steps[0] == 0 && steps[1] == 100 && steps[2] == 200 && steps[3] == 1000000);
    assert_ok(tcc_checkpoint_list(&cx, folder, steps, 1, &count), &cx.diag);
    assert_true(count == 4 && steps[0] == 1000000);

    tcc_checkpoint *c;
    assert_ok(tcc_checkpoint_open(&cx, folder, &c), &cx.diag);
    assert_int_equal(tcc_checkpoint_step(c), 1000000);
    tcc_checkpoint_close(c);
    assert_ok(tcc_checkpoint_open(&cx, test_path(state, "checkpoints/step-000200.safetensors"), &c), &cx.diag);
    assert_int_equal(tcc_checkpoint_step(c), 200);
    assert_string_equal(tcc_checkpoint_value(c, "loader.batch"), "2000");
    assert_null(tcc_checkpoint_value(c, "absent"));
    float weight[4], moment[4];
    const tcc_array params = {.name = "fc.weight", .dtype = TCC_F32, .rank = 2, .dims = {2, 2}, .data = weight};
    const tcc_array moments = {.name = "adam.m.fc.weight", .dtype = TCC_F32, .rank = 2, .dims = {2, 2}, .data = moment};
    assert_ok(tcc_safetensors_load(&cx, tcc_checkpoint_params(c), &params, 1, 0), &cx.diag);
    assert_ok(tcc_safetensors_load(&cx, tcc_checkpoint_state(c), &moments, 1, 0), &cx.diag);
    assert_true(weight[3] == 200 && moment[3] == 100);
    tcc_checkpoint_close(c);
}

static void bad_paths(void **state) {
    tcc_checkpoint *c;
    assert_error(tcc_checkpoint_open(&cx, test_path(state, "absent"), &c), TCC_ENOTFOUND, &cx.diag, "No such file");
    assert_error(tcc_checkpoint_open(&cx, *state, &c), TCC_ENOTFOUND, &cx.diag, "there is no checkpoint");
    assert_error(tcc_checkpoint_open(&cx, test_write_text(state, "weights.safetensors", ""), &c), TCC_EINVAL, &cx.diag,
                 "step-NNNNNN.safetensors");
    test_write_text(state, "checkpoints", "a file, not a folder");
    assert_error(save(state, 1), TCC_EIO, &cx.diag, "cannot create the folder");
    const tcc_checkpoint_contents unsized = {.step = 1};
    assert_error(tcc_checkpoint_save(&cx, *state, &unsized), TCC_EINVAL, &cx.diag, "size is 0");
    const tcc_checkpoint_contents negative = {.size = sizeof negative, .n_state = -2};
    assert_error(tcc_checkpoint_save(&cx, *state, &negative), TCC_EINVAL, &cx.diag,
                 "0 parameters, -2 states and 0 values must each be at least 0");
    assert_error(tcc_checkpoint_save(&cx, *state, NULL), TCC_EINVAL, &cx.diag, "the contents are NULL");
    const tcc_checkpoint_contents missing = {.size = sizeof missing, .n_params = 2, .n_values = 1};
    assert_error(tcc_checkpoint_save(&cx, *state, &missing), TCC_EINVAL, &cx.diag, "2 arrays that are NULL");
    const tcc_checkpoint_contents unvalued = {.size = sizeof unvalued, .n_values = 1};
    assert_error(tcc_checkpoint_save(&cx, *state, &unvalued), TCC_EINVAL, &cx.diag, "metadata 3 has no key");
}

static void a_damaged_one_names_a_sound_one(void **state) {
    for (int64_t step = 100; step <= 400; step += 100) assert_ok(save(state, step), &cx.diag);
    /* 400: truncated parameters; 300: a flipped bit in the state; 200: the state of another step */
    assert_int_equal(truncate(test_path(state, "checkpoints/step-000400.safetensors"), 150), 0);
    size_t size;
    char *bytes = test_read(test_path(state, "checkpoints/step-000300.state.safetensors"), &size);
    bytes[size - 1] ^= 1;
    test_write(state, "checkpoints/step-000300.state.safetensors", bytes, size);
    free(bytes);
    bytes = test_read(test_path(state, "checkpoints/step-000100.state.safetensors"), &size);
    test_write(state, "checkpoints/step-000200.state.safetensors", bytes, size);
    free(bytes);
    tcc_checkpoint *c;
    assert_error(tcc_checkpoint_open(&cx, test_path(state, "checkpoints"), &c), TCC_EFORMAT, &cx.diag, "truncated");
    assert_non_null(strstr(tcc_diag_text(&cx.diag), "checkpoint that is sound is "));
    assert_non_null(strstr(tcc_diag_text(&cx.diag), "checkpoints/step-000100.safetensors"));
    assert_error(tcc_checkpoint_open(&cx, test_path(state, "checkpoints/step-000300.safetensors"), &c), TCC_EFORMAT,
                 &cx.diag, "damaged");
    assert_error(tcc_checkpoint_open(&cx, test_path(state, "checkpoints/step-000200.safetensors"), &c), TCC_EFORMAT,
                 &cx.diag, "of step 100");
    unlink(test_path(state, "checkpoints/step-000100.state.safetensors"));
    assert_error(tcc_checkpoint_open(&cx, test_path(state, "checkpoints/step-000100.safetensors"), &c), TCC_ENOTFOUND,
                 &cx.diag, "no earlier checkpoint that is sound");
}

/* A byte changed anywhere in either file is noticed. */
static void every_byte_is_checked(void **state) {
    static const char *const names[] = {"checkpoints/step-000100.safetensors",
                                        "checkpoints/step-000100.state.safetensors"};
    assert_ok(save(state, 100), &cx.diag);
    for (int f = 0; f < 2; f++) {
        size_t size;
        char *bytes = test_read(test_path(state, names[f]), &size);
        for (size_t i = 0; i < size; i++) {
            const char was = bytes[i];
            bytes[i] ^= 2; /* a digit becomes another digit, a letter another letter */
            test_write(state, names[f], bytes, size);
            tcc_checkpoint *c = NULL;
            tcc_diag_clear(&cx.diag);
            if (tcc_checkpoint_open(&cx, test_path(state, "checkpoints"), &c) == TCC_OK) {
                tcc_checkpoint_close(c);
                fail_msg("%s: byte %zu, '%c' changed to '%c', is not noticed", names[f], i, was, bytes[i]);
            }
            bytes[i] = was;
        }
        test_write(state, names[f], bytes, size);
        free(bytes);
    }
}

static void parameters_of_another_save(void **state) {
    assert_ok(save(state, 5), &cx.diag);
    float other[4] = {0};
    const tcc_array params = {.name = "fc.weight", .dtype = TCC_F32, .rank = 2, .dims = {2, 2}, .data = other};
    assert_ok(tcc_safetensors_write(&cx, test_path(state, "checkpoints/step-000005.safetensors"), &params, 1, NULL, 0),
              &cx.diag);
    tcc_checkpoint *c;
    assert_error(tcc_checkpoint_open(&cx, test_path(state, "checkpoints"), &c), TCC_EFORMAT, &cx.diag,
                 "belongs to other parameters");
}

static void a_full_disk_loses_nothing(void **state) {
    assert_ok(save(state, 100), &cx.diag);
    for (int64_t limit = 0;; limit += 13) {
        tcc_diag_clear(&cx.diag);
        tcc__io_fail_after(limit);
        tcc_status status = save(state, 200);
        tcc__io_fail_after(-1);
        if (status == TCC_OK) break;
        assert_int_equal(status, TCC_EIO);
        assert_non_null(strstr(tcc_diag_text(&cx.diag), "No space left on device"));
        assert_false(test_exists(test_path(state, "checkpoints/step-000200.safetensors.tmp")));
        assert_false(test_exists(test_path(state, "checkpoints/step-000200.state.safetensors.tmp")));
        tcc_checkpoint *c;
        assert_ok(tcc_checkpoint_open(&cx, test_path(state, "checkpoints"), &c), &cx.diag);
        assert_int_equal(tcc_checkpoint_step(c), 100);
        tcc_checkpoint_close(c);
    }
}

/* What stands where the temporary file comes: left by a process that was killed, or put there by somebody. */
static void in_the_way(void **state) {
    const char *path = test_path(state, "file"), *temporary = test_path(state, "file.tmp");
    const char *other = test_write_text(state, "other", "mine");
    test_write_text(state, "file.tmp", "half");
    assert_ok(tcc_file_write(&cx, path, "whole", 5), &cx.diag);
    assert_false(test_exists(temporary));
    assert_int_equal(symlink(other, temporary), 0); /* is not followed */
    assert_ok(tcc_file_write(&cx, path, "again", 5), &cx.diag);
    char *text = test_read(other, NULL);
    assert_string_equal(text, "mine");
    free(text);
    assert_int_equal(symlink(test_path(state, "nowhere"), temporary), 0);
    assert_ok(tcc_file_write(&cx, path, "third", 5), &cx.diag);
    assert_false(test_exists(test_path(state, "nowhere")));
    assert_int_equal(mkdir(temporary, 0777), 0);
    assert_error(tcc_file_write(&cx, path, "fourth", 6), TCC_EIO, &cx.diag, "cannot create the file");
    assert_int_equal(rmdir(temporary), 0);

    tcc__out out; /* somebody is writing it */
    assert_ok(tcc__out_open(&cx.diag, &out, path), &cx.diag);
    assert_error(tcc_file_write(&cx, path, "fifth", 5), TCC_EIO, &cx.diag, "another process is writing it");
    assert_true(test_exists(temporary));
    tcc__out_abandon(&out);
    text = test_read(path, NULL);
    assert_string_equal(text, "third");
    free(text);
    assert_error(tcc_file_write(&cx, NULL, "", 0), TCC_EINVAL, &cx.diag, "the path is NULL");
    assert_error(tcc_file_write(&cx, path, NULL, 1), TCC_EINVAL, &cx.diag, "the bytes are NULL");
}

/* A file in a folder of devices is a file; an open stream is no name to put another file under. */
static void files_and_streams(void **state) {
    char path[64], *text;
    (void)state;
    snprintf(path, sizeof path, "/dev/shm/traincc-test-%d", (int)getpid());
    for (int i = 0; i < 2; i++) {
        if (tcc_file_write(&cx, path, i ? "b" : "aaa", i ? 1 : 3) != TCC_OK) skip(); /* without such a folder */
        text = test_read(path, NULL);
        assert_string_equal(text, i ? "b" : "aaa");
        free(text);
    }
    FILE *f = fopen(path, "w");
    char stream[64];
    snprintf(stream, sizeof stream, "/proc/self/fd/%d", fileno(f));
    assert_ok(tcc_file_write(&cx, stream, "through", 7), &cx.diag);
    fclose(f);
    text = test_read(path, NULL);
    assert_string_equal(text, "through");
    free(text);
    unlink(path);
}

static void out_of_memory(void **state) {
    for (int64_t n = 0;; n++) {
        tcc_diag_clear(&cx.diag);
        tcc__alloc_fail_at(n);
        tcc_status status = save(state, 1);
        tcc_checkpoint *c = NULL;
        if (status == TCC_OK) status = tcc_checkpoint_open(&cx, test_path(state, "checkpoints"), &c);
        tcc__alloc_fail_at(-1);
        tcc_checkpoint_close(c);
        if (status == TCC_OK) break;
        if (status != TCC_EIO) assert_int_equal(status, TCC_ENOMEM); /* EIO: the folder could not be synced */
        assert_true(n < 1000);
    }
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(save_list_open),
        FOLDER_TEST(bad_paths),
        FOLDER_TEST(a_damaged_one_names_a_sound_one),
        FOLDER_TEST(every_byte_is_checked),
        FOLDER_TEST(parameters_of_another_save),
        FOLDER_TEST(a_full_disk_loses_nothing),
        FOLDER_TEST(in_the_way),
        FOLDER_TEST(files_and_streams),
        FOLDER_TEST(out_of_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
