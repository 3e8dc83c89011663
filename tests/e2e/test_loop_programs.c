/* SPDX-License-Identifier: MIT
 * Fusing never multiplies work: random programs with unrolled loops do about eager's arithmetic, in no longer predicted
 * time. bench/loop_programs.c runs more and longer ones, and times compiling. */
#include "harness/check.h"
#include "harness/loop_programs.h"

#include <stdlib.h>

enum { PROGRAMS = 250, TURNS = 24 };

static void no_more_work(void **state) {
    (void)state;
    int wrong = 0;
    for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
        const char *name;
        loop_work eager, fused;
        tcc_context *cx;
        if (tcc_context_create(&cx) != TCC_OK) fail_msg("no context");
        if (loop_program_make(cx, seed, TURNS, TCC_MODE_EAGER, false, &name, &eager) != TCC_OK ||
            loop_program_make(cx, seed, TURNS, TCC_MODE_DEFAULT, false, &name, &fused) != TCC_OK)
            fail_msg("%s %d: %s", name, (int)seed, tcc_context_error(cx));
        tcc_context_destroy(cx);
        assert_true(eager.flop > 0 && eager.bytes > 0 && eager.ns > 0);
        const char *why = loop_work_judge(&eager, &fused);
        if (why) print_error("%s %d: %s\n", name, (int)seed, why);
        wrong += why != NULL;
    }
    assert_int_equal(wrong, 0);
}

static loop_work planned(uint64_t seed, int turns, tcc_mode mode, const char *kind) {
    const char *name;
    loop_work work;
    tcc_context *cx;
    if (tcc_context_create(&cx) != TCC_OK) fail_msg("no context");
    if (loop_program_make(cx, seed, turns, mode, false, &name, &work) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    tcc_context_destroy(cx);
    assert_string_equal(name, kind);
    return work;
}

/* A chain of sums, each of which reads the one before at two places: a walk along each way would take 20 s. */
static void no_way_is_walked_twice(void **state) {
    (void)state;
    const loop_work work = planned(550, 100, TCC_MODE_DEFAULT, "stops");
    assert_in_range(work.nodes, 500, 1000);
    assert_true(work.cpu_seconds < 4);
}

/* A sort by turns, whose values are computed again for the backward pass: 14 times eager's time. Walks to the start of
 * the program and sets that are tried in vain make it 60. */
static void no_walk_to_the_start(void **state) {
    (void)state;
    const loop_work eager = planned(465, 500, TCC_MODE_EAGER, "exchange"),
                    work = planned(465, 500, TCC_MODE_DEFAULT, "exchange");
    assert_in_range(eager.nodes, 5000, 6000);
    assert_true(work.cpu_seconds < 30 * eager.cpu_seconds);
}

enum { FRAMES = 4, WIDTH = 8 };

/* Turns that read a frame of their own at several places, and beyond its ends. */
static void frames(tcc_trace *t, void *user) {
    tcc_tensor x = tcc_input(t, "x"), text = tcc_iota(t, 1, TCC_I32, TCC_DIMS(FRAMES, 3));
    tcc_tensor ones = tcc_full_like(tcc_iota(t, 0, TCC_I32, TCC_DIMS(FRAMES)), 1);
    (void)user;
    tcc_loss(t, tcc_ctc_loss(tcc_log_softmax(x, -1), tcc_add_scalar(text, 1), tcc_scale(ones, (double)tcc_dim(x, 0)),
                             tcc_scale(ones, 3)));
}

static int kernels_of_frames(int64_t turns) {
    float *zeros = calloc((size_t)turns * FRAMES * WIDTH, sizeof *zeros);
    const tcc_array x = {.name = "x", .dtype = TCC_F32, .rank = 3, .dims = {turns, FRAMES, WIDTH}, .data = zeros};
    const tcc_model_options options = {.size = sizeof options, .compile_only = true, .keep_input_gradients = true};
    tcc_context *cx;
    tcc_model *m;
    tcc_program_info info;
    assert_non_null(zeros);
    if (tcc_context_create(&cx) != TCC_OK) fail_msg("no context");
    if (tcc_model_create(cx, frames, NULL, &options, &m) != TCC_OK || tcc_model_compile(m, true, &x, 1) != TCC_OK ||
        tcc_model_info(m, &info) != TCC_OK)
        fail_msg("%s", tcc_context_error(cx));
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    free(zeros);
    return info.kernels;
}

/* However many turns there are, they have a few kernels. */
static void turns_share_kernels(void **state) {
    (void)state;
    assert_in_range(kernels_of_frames(80), 1, kernels_of_frames(40) + 2);
}

int main(void) {
    setenv("TCC_CACHE_DISABLE", "1", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_more_work), cmocka_unit_test(no_way_is_walked_twice),
                                       cmocka_unit_test(no_walk_to_the_start), cmocka_unit_test(turns_share_kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
