/* SPDX-License-Identifier: MIT
 * tcc-train on several CUDA devices, as a user starts it: by --ranks, and by the variables that torchrun sets. Each
 * rank takes the device that has its number, and the run is that of one device with micro-batches. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/files.h"
#include "harness/port.h"
#include "harness/program.h"
#include "harness/same_run.h"
#include "harness/train_data.h"

#include <stdio.h>
#include <stdlib.h>

#define GIVEN(run) "training.max_steps=4", "training.save_every=2", "training.eval_every=2", "--run-dir", run
#define RUN(...) program_run(NULL, "tcc-train", (const char *const[]){__VA_ARGS__, NULL})
#define LAST "checkpoints/step-000004.safetensors"

static void ranks_take_their_devices(void **state) {
    const char *mlp = write_recipe(state, "mlp");
    free(program_output(RUN(mlp, GIVEN(test_path(state, "micro")), "--device", "cuda", "training.batch_accumulate=2")));
    char *said = program_output(RUN(mlp, GIVEN(test_path(state, "ranks")), "--device", "auto", "--ranks", "2",
                                    "training.compile_mode=reduce-overhead", "--require-graphs"));
    if (!strstr(said, "device: cuda:0: ")) fail_msg("said: %s", said);
    free(said);
    same_file(state, "micro", "ranks", LAST);
    char port[16];
    program_process ranks[2];
    snprintf(port, sizeof port, "%d", test_free_port());
    setenv("WORLD_SIZE", "2", 1);
    setenv("MASTER_PORT", port, 1);
    for (int r = 1; r >= 0; r--) {
        const char *const arguments[] = {mlp, GIVEN(test_path(state, "apart")), "--device", "cuda", NULL};
        setenv("RANK", r ? "1" : "0", 1);
        setenv("LOCAL_RANK", r ? "1" : "0", 1);
        ranks[r] = program_start(NULL, "tcc-train", arguments);
    }
    unsetenv("WORLD_SIZE");
    for (int r = 0; r < 2; r++) free(program_output(program_wait(&ranks[r])));
    same_file(state, "micro", "apart", LAST);
}

/* The third of two devices. */
static void no_such_device(void **state) {
    program_result r = RUN(write_recipe(state, "mlp"), GIVEN(test_path(state, "three")), "--device", "cuda", "--ranks",
                           "3");
    assert_int_equal(r.status, 1);
    if (!strstr(r.err, "no device cuda:2: the driver shows 2")) fail_msg("said: %s", r.err);
    program_free(&r);
}

int main(void) {
    setenv("PTXSIM_DEVICES", "2", 1);
    stand_in_find();
    if (!sim.restart) {
        printf("skipped: " STAND_IN_IS "\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ranks_take_their_devices, test_folder_create, test_folder_remove),
        cmocka_unit_test_setup_teardown(no_such_device, test_folder_create, test_folder_remove)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
