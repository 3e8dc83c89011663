/* SPDX-License-Identifier: MIT
 * Arrays on the device beside steps: parameters, verification; and which arrays are refused, with what words. */
#include "harness/check.h"
#include "harness/simulation.h"

#include <traincc/traincc.h>

#include <stdlib.h>

#define OK(call)                                                                \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)
#define REFUSED(call, expected, part)                                                                      \
    do {                                                                                                   \
        const tcc_status got_ = (call);                                                                    \
        if (got_ != (expected) || !strstr(tcc_context_error(cx), part))                                    \
            fail_msg("%s: %s: %s, not '%s'", #call, tcc_status_name(got_), tcc_context_error(cx), (part)); \
    } while (0)

static void test_parameters(void **state) {
    (void)state;
    static const way w = {TCC_MODE_DEFAULT, TCC_MIXED_BF16, 0};
    enum { COUNT = HIDDEN * WIDTH };
    static float given[COUNT], got[COUNT];
    tcc_context *cx;
    tcc_model *m;
    const tcc_array batch[] = {x_array(xs), y_array(ys)};
    simulation s;
    double losses[3];
    compute(0);
    for (int i = 0; i < COUNT; i++) given[i] = (float)(i % 17) / 100 - 0.08f;
    OK(tcc_context_create(&cx));
    OK(simulation_model(cx, "cuda", &w, &m));
    simulation_start(&s, 1);
    void *memory = device_memory(sizeof given);
    tcc_array a = on_device(
        (tcc_array){.name = "in.weight", .dtype = TCC_F32, .rank = 2, .dims = {HIDDEN, WIDTH}, .data = memory},
        s.stream);
    tcc_array host = {.name = "in.weight", .dtype = TCC_F32, .rank = 2, .dims = {HIDDEN, WIDTH}, .data = given};
    OK(tcc_model_compile(m, false, batch, 2));
    for (int i = 0; i < 3; i++) { /* by the host, by the device, and what the device was given back */
        if (i) DRIVER(cuMemcpyHtoDAsync_v2, address_of(memory), i == 1 ? given : got, sizeof given, s.stream);
        OK(tcc_model_set_param(m, i ? &a : &host));
        OK(tcc_model_evaluate(m, batch, 2));
        losses[i] = tcc_model_loss(m);
        OK(tcc_model_get_param(m, &a));
        memset(got, 0, sizeof got);
        DRIVER(cuMemcpyDtoHAsync_v2, got, address_of(memory), sizeof got, s.stream);
        DRIVER(cuStreamSynchronize, s.stream);
        assert_memory_equal(got, given, sizeof given);
        OK(tcc_model_get_param(
            m, &(tcc_array){.name = "in.weight", .dtype = TCC_F32, .rank = 2, .dims = {HIDDEN, WIDTH}, .data = got}));
        assert_memory_equal(got, given, sizeof given);
    }
    assert_true(losses[0] == losses[1] && losses[1] == losses[2]);
    a.dtype = TCC_BF16;
    REFUSED(tcc_model_set_param(m, &a), TCC_EDTYPE, "nothing is converted on the device");
    a.dtype = TCC_F32, a.data = (char *)memory + 4;
    REFUSED(tcc_model_get_param(m, &a), TCC_EINVAL, "array \"in.weight\" begins at");
    if (sim.report_count) assert_int_equal(sim.report_count(), 0);
    cu.cuMemFree_v2(address_of(memory));
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    simulation_stop(&s);
}

/* What reads a batch on the host copies it there. */
static void test_verification(void **state) {
    (void)state;
    static const way w = {TCC_MODE_DEFAULT, TCC_MIXED_NONE, 0};
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2];
    simulation s;
    char *text;
    OK(tcc_context_create(&cx));
    OK(simulation_model(cx, "cuda", &w, &m));
    simulation_start(&s, 1);
    simulate(&s, 0, batch);
    OK(tcc_model_verify(m, batch, 2, 0, NULL));
    OK(tcc_model_find_overflow(m, batch, 2, &text));
    assert_non_null(strstr(text, "no op of the step overflows"));
    tcc_string_free(text);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    simulation_stop(&s);
}

static void check_refused_batches(tcc_context *cx, tcc_model *m, const simulation *s) {
    static float somewhere[ROWS * WIDTH];
    tcc_array batch[2], good[2];
    simulate(s, 0, good);
#define WITH(change, part)                                             \
    do {                                                               \
        memcpy(batch, good, sizeof batch);                             \
        batch[0].change;                                               \
        REFUSED(tcc_model_train(m, batch, 2), TCC_EINVAL, part);       \
        REFUSED(tcc_model_evaluate(m, batch, 2), TCC_EINVAL, "\"x\""); \
    } while (0)
    WITH(data = NULL, "batch array 0 \"x\" has no data");
    WITH(data = (char *)good[0].data + 4, "which is no multiple of 16 bytes");
    WITH(data = somewhere, "is memory of the host");
    WITH(memory = (tcc_memory)7, "memory 7 is no kind");
    CUcontext another, own;
    CUstream stream;
    DRIVER(cuCtxCreate_v2, &another, 0, 0);
    DRIVER(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    DRIVER(cuCtxPopCurrent_v2, &own);
    WITH(stream = stream, "is one of another context");
    DRIVER(cuCtxPushCurrent_v2, another);
    cu.cuStreamDestroy_v2(stream);
    DRIVER(cuCtxDestroy_v2, another);
    CUgraph graph;
    DRIVER(cuStreamBeginCapture_v2, s->stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    WITH(stream = s->stream, "is being captured");
    DRIVER(cuStreamEndCapture, s->stream, &graph);
    cu.cuGraphDestroy(graph);
    if (sim.restart) WITH(stream = somewhere, "is none of CUDA's");
    OK(tcc_model_train(m, good, 2));
    OK(tcc_model_synchronize(m));
#undef WITH
}

static void check_refused_outputs(tcc_context *cx, tcc_model *m, const simulation *s) {
    static const way w = {TCC_MODE_DEFAULT, TCC_MIXED_NONE, 0};
    static _Alignas(64) float somewhere[ROWS * CLASSES];
    tcc_array batch[2], out = on_device(logits_array(&w, s->logits), s->stream), wrong = out;
    simulate(s, 0, batch);
    wrong.name = "logit";
    REFUSED(tcc_model_place_output(m, &wrong), TCC_ENOTFOUND, "no program has an output \"logit\"; there are: ");
    wrong.name = "loss";
    REFUSED(tcc_model_place_output(m, &wrong), TCC_EINVAL, "tcc_model_step_loss");
    wrong = out, wrong.dims[1]++;
    REFUSED(tcc_model_place_output(m, &wrong), TCC_ESHAPE, "is f32[8,5], and is placed in an array of f32[8,6]");
    wrong = out, wrong.dtype = TCC_F64;
    REFUSED(tcc_model_place_output(m, &wrong), TCC_EDTYPE, "an array of f64[8,5]");
    wrong = logits_array(&w, somewhere);
    REFUSED(tcc_model_place_output(m, &wrong), TCC_EINVAL, "writes no memory of the host");
    wrong = out, wrong.data = (char *)s->logits + 8;
    REFUSED(tcc_model_place_output(m, &wrong), TCC_EINVAL, "output \"logits\" begins at");
    wrong = out, wrong.data = s->x[0];
    OK(tcc_model_place_output(m, &wrong));
    REFUSED(tcc_model_train(m, batch, 2), TCC_EINVAL, "is placed in the memory of batch array \"x\"");
    OK(tcc_model_place_output(m, &out));
    batch[0].dims[0] = batch[1].dims[0] = ROWS / 2;
    REFUSED(tcc_model_evaluate(m, batch, 2), TCC_ESHAPE, "output \"logits\" is f32[4,5], and is placed in");
    wrong = out, wrong.data = NULL;
    OK(tcc_model_place_output(m, &wrong));
    OK(tcc_model_evaluate(m, batch, 2));
    OK(tcc_model_output(m, "logits", &wrong));
    assert_int_equal(wrong.memory, TCC_MEMORY_HOST);
}

static void test_refused(void **state) {
    (void)state;
    static const way w = {TCC_MODE_DEFAULT, TCC_MIXED_NONE, 0};
    tcc_context *cx;
    tcc_model *m;
    simulation s;
    OK(tcc_context_create(&cx));
    OK(simulation_model(cx, "cuda", &w, &m));
    simulation_start(&s, 1);
    check_refused_batches(cx, m, &s);
    check_refused_outputs(cx, m, &s);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    simulation_stop(&s);
}

/* Two GPUs: arrays of the other one. */
static void test_another_device(void **state) {
    skip_without(sim.restart, STAND_IN_IS);
    simulation_end(state);
    setenv("PTXSIM_DEVICES", "2", 1);
    simulation_begin(state);
    static const way w = {TCC_MODE_DEFAULT, TCC_MIXED_NONE, 0};
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2];
    simulation s;
    OK(tcc_context_create(&cx));
    OK(simulation_model(cx, "cuda:1", &w, &m));
    simulation_start(&s, 1);
    simulate(&s, 0, batch);
    REFUSED(tcc_model_train(m, batch, 2), TCC_EINVAL,
            "batch array \"x\" lies on cuda:0, and the model computes on cuda:1: copy it there");
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    simulation_stop(&s);
    unsetenv("PTXSIM_DEVICES");
}

/* A model on the CPU takes no arrays of a device, and writes outputs straight to the host's memory. */
static void test_on_the_cpu(void **state) {
    (void)state;
    static const way w = {TCC_MODE_DEFAULT, TCC_MIXED_NONE, 0};
    static _Alignas(64) float memory[2 * ROWS * CLASSES];
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[] = {x_array(xs), y_array(ys)}, out = logits_array(&w, memory), result;
    float before[ROWS * CLASSES];
    compute(0);
    OK(tcc_context_create(&cx));
    OK(simulation_model(cx, "cpu", &w, &m));
    REFUSED(tcc_model_place_output(m, &out), TCC_ENOTFOUND, "outputs are there after the first run or compile");
    OK(tcc_model_evaluate(m, batch, 2));
    OK(tcc_model_output(m, "logits", &result));
    memcpy(before, result.data, sizeof before);
    OK(tcc_model_place_output(m, &out));
    OK(tcc_model_evaluate(m, batch, 2));
    assert_memory_equal(memory, before, sizeof before);
    OK(tcc_model_output(m, "logits", &result));
    assert_ptr_equal(result.data, memory);
    out.data = memory + 1;
    REFUSED(tcc_model_place_output(m, &out), TCC_EINVAL, "no multiple of 64 bytes");
    batch[0].memory = TCC_MEMORY_DEVICE;
    REFUSED(tcc_model_evaluate(m, batch, 2), TCC_EINVAL,
            "batch array \"x\" lies on a device, and the model computes on the cpu");
    const tcc_array weight = {.name = "out.bias",
                              .dtype = TCC_F32,
                              .rank = 1,
                              .dims = {CLASSES},
                              .data = memory,
                              .memory = TCC_MEMORY_DEVICE};
    REFUSED(tcc_model_set_param(m, &weight), TCC_EINVAL, "array \"out.bias\" lies on a device");
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

int main(void) {
    const struct CMUnitTest tests[] = {SIMULATION_TEST(test_parameters), SIMULATION_TEST(test_verification),
                                       SIMULATION_TEST(test_refused), SIMULATION_TEST(test_another_device),
                                       SIMULATION_TEST(test_on_the_cpu)};
    return cmocka_run_group_tests(tests, simulation_set_up, NULL);
}
