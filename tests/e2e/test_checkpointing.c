/* SPDX-License-Identifier: MIT
 * Activation checkpointing from the public API: segments that models mark, and what is refused. */
#include "harness/check.h"
#include "harness/optimizer.h"
#include "traincc/traincc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

/* -- Marks -- */

/* The graph of `fn` for a batch "x" f32[4,8], with origins; to be freed. */
static char *traced(tcc_model_fn fn, tcc_mode mode) {
    float x[4 * 8] = {0};
    const tcc_array batch = {"x", TCC_F32, 2, {4, 8}, x};
    tcc_context *cx;
    tcc_model *m;
    char *tir;
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, fn, NULL, &(tcc_model_options){.size = sizeof(tcc_model_options), .mode = mode}, &m));
    OK(cx, tcc_model_compile(m, true, &batch, 1));
    OK(cx, tcc_model_report(m, "tir", &tir));
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return tir;
}

/* The segment of the first node of that op in the text; -1: there is none. */
static int segment_of(const char *tir, const char *op) {
    char text[32];
    snprintf(text, sizeof text, "= %s(", op);
    const char *line = strstr(tir, text);
    if (!line) return -1;
    const char *end = strchr(line, '\n'), *segment = strstr(line, "segment ");
    return segment && segment < end ? atoi(segment + strlen("segment ")) : 0;
}

static void marked_model(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_exp(tcc_linear(tcc_input(t, "x"), "in", 8));
    tcc_checkpoint_segment(t);
    x = tcc_sin(x);
    tcc_full_precision(t); /* other scopes may begin in one segment and end in another */
    tcc_checkpoint_segment(t);
    x = tcc_cos(x);
    tcc_checkpoint_segment_end(t);
    x = tcc_tanh(x);
    tcc_checkpoint_segment_end(t);
    x = tcc_log(x);
    tcc_checkpoint_segment(t);
    tcc_full_precision_end(t);
    x = tcc_erf(x);
    tcc_checkpoint_segment_end(t);
    tcc_loss(t, tcc_mean(x, 0, NULL));
}

static void nodes_are_in_their_segments(void **state) {
    (void)state;
    static const struct {
        const char *op;
        int segment;
    } cases[] = {{"exp", 0}, {"sin", 1}, {"cos", 1}, {"tanh", 1}, {"log", 0}, {"erf", 2}};
    for (int eager = 0; eager < 2; eager++) {
        char *tir = traced(marked_model, eager ? TCC_MODE_EAGER : TCC_MODE_DEFAULT);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            if (segment_of(tir, cases[i].op) != cases[i].segment)
                fail_msg("%s is in segment %d, not %d:\n%s", cases[i].op, segment_of(tir, cases[i].op),
                         cases[i].segment, tir);
        tcc_string_free(tir);
    }
}

static void unclosed(tcc_trace *t, void *user) {
    (void)user;
    tcc_checkpoint_segment(t);
    tcc_output(t, "y", tcc_relu(tcc_input(t, "x")));
}

static void unclosed_inside(tcc_trace *t, void *user) {
    (void)user;
    tcc_checkpoint_segment(t);
    tcc_checkpoint_segment(t);
    tcc_output(t, "y", tcc_relu(tcc_input(t, "x")));
}

static void unopened(tcc_trace *t, void *user) {
    (void)user;
    tcc_checkpoint_segment(t);
    tcc_checkpoint_segment_end(t);
    tcc_checkpoint_segment_end(t);
    tcc_output(t, "y", tcc_relu(tcc_input(t, "x")));
}

static void refused_marks(void **state) {
    (void)state;
    static const struct {
        tcc_model_fn fn;
        const char *says;
    } cases[] = {{unclosed, "1 tcc_checkpoint_segment without tcc_checkpoint_segment_end"},
                 {unclosed_inside, "2 tcc_checkpoint_segment without tcc_checkpoint_segment_end"},
                 {unopened, "tcc_checkpoint_segment_end without tcc_checkpoint_segment"}};
    float x[2] = {0};
    const tcc_array batch = {"x", TCC_F32, 1, {2}, x};
    tcc_context *cx;
    OK(cx, tcc_context_create(&cx));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tcc_model *m;
        OK(cx, tcc_model_create(cx, cases[i].fn, NULL, NULL, &m));
        assert_int_equal(tcc_model_compile(m, false, &batch, 1), TCC_EINVAL);
        if (!strstr(tcc_context_error(cx), cases[i].says)) fail_msg("\"%s\"", tcc_context_error(cx));
        tcc_context_clear_error(cx);
        tcc_model_destroy(m);
    }
    tcc_checkpoint_segment(NULL); /* outside of a model's function: nothing happens */
    tcc_checkpoint_segment_end(NULL);
    tcc_context_destroy(cx);
}

/* -- Options -- */

static void refused_options(void **state) {
    (void)state;
    static const struct {
        tcc_checkpointing checkpointing;
        const char *budget, *arch, *says;
    } cases[] = {
        {(tcc_checkpointing)7, NULL, NULL, "checkpointing 7 must be from 0 to 2"},
        {TCC_CHECKPOINTING_AUTO, "lots", NULL, "memory_budget \"lots\": must be bytes for all memory of a step"},
        {TCC_CHECKPOINTING_NONE, "1GiB", NULL, "leave checkpointing at TCC_CHECKPOINTING_AUTO, or give no budget"},
        {TCC_CHECKPOINTING_NONE, "min", NULL, "memory_budget \"min\" with TCC_CHECKPOINTING_NONE"},
        {TCC_CHECKPOINTING_AUTO, "auto", "sm_90", "with `arch` there is no device"},
    };
    tcc_context *cx;
    OK(cx, tcc_context_create(&cx));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tcc_model *m;
        const tcc_model_options o = {.size = sizeof o,
                                     .checkpointing = cases[i].checkpointing,
                                     .memory_budget = cases[i].budget,
                                     .arch = cases[i].arch};
        assert_int_equal(tcc_model_create(cx, marked_model, NULL, &o, &m), TCC_EINVAL);
        if (!strstr(tcc_context_error(cx), cases[i].says))
            fail_msg("\"%s\" does not say \"%s\"", tcc_context_error(cx), cases[i].says);
        tcc_context_clear_error(cx);
    }
    tcc_context_destroy(cx);
}

/* Older versions wrote `checkpointing: none` with `memory_budget: auto` into each resolved recipe. */
static void accepted_options(void **state) {
    (void)state;
    static const struct {
        tcc_checkpointing checkpointing;
        const char *budget;
    } cases[] = {{TCC_CHECKPOINTING_NONE, NULL},
                 {TCC_CHECKPOINTING_NONE, "none"},
                 {TCC_CHECKPOINTING_NONE, "auto"},
                 {TCC_CHECKPOINTING_AUTO, "auto"},
                 {TCC_CHECKPOINTING_SEGMENTS, "50%"}};
    tcc_context *cx;
    OK(cx, tcc_context_create(&cx));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tcc_model *m;
        OK(cx, tcc_model_create(cx, marked_model, NULL,
                                &(tcc_model_options){.size = sizeof(tcc_model_options),
                                                     .checkpointing = cases[i].checkpointing,
                                                     .memory_budget = cases[i].budget},
                                &m));
        tcc_model_destroy(m);
    }
    tcc_context_destroy(cx);
}

/* -- The library's models, through all passes -- */

enum { SAMPLES = 2, CONTEXT = 16, VOCAB = 11, IMAGE = 32 };

static void text_model(tcc_trace *t, void *user) {
    (void)user;
    const tcc_gpt_options o = {
        .layers = 3, .heads = 2, .width = 32, .context = CONTEXT, .vocab = VOCAB, .bias = true, .dropout = 0.1};
    tcc_loss(t, tcc_cross_entropy(tcc_gpt(t, tcc_input(t, "x"), &o), tcc_input(t, "y")));
}

static void image_model(tcc_trace *t, void *user) {
    (void)user;
    const tcc_resnet_options o = {.depth = 18, .classes = 3, .width = 8, .cifar_stem = true};
    tcc_loss(t, tcc_cross_entropy(tcc_resnet(t, tcc_input(t, "x"), &o), tcc_input(t, "y")));
}

/* The segment that a node of the library's models belongs in, by the place that it has in the text. */
static int expected_segment(const char *place) {
    int block, stage;
    if (sscanf(place, "gpt.transformer.h.%d", &block) == 1) return block + 1;
    if (sscanf(place, "resnet.layer%d.%d", &stage, &block) == 2) return 2 * (stage - 1) + block + 1;
    return 0;
}

/* What passes make of a parameter alone, as a cast or a transpose of it, is where the parameter is: in no segment. */
static bool is_of_parameter(const char *tir, const char *line) {
    char input[32];
    int operand;
    const char *list = strchr(line, '(');
    char end;
    if (!list || sscanf(list, "(%%%d%c", &operand, &end) != 2 || end != ')') return false;
    snprintf(input, sizeof input, "  %%%d = input {role=", operand);
    return strstr(tir, input);
}

/* Checks each line; how many are in a segment. Numbers that blocks share are where they were made first, and what
 * autodiff made is in none. */
static int check_lines(const char *tir) {
    int inside = 0;
    for (const char *start = tir, *end; (end = strchr(start, '\n')); start = end + 1) {
        char line[1024];
        snprintf(line, sizeof line, "%.*s", (int)(end - start), start);
        const char *loc = strstr(line, " loc("), *segment = loc ? strstr(loc, "segment ") : NULL;
        const bool forward = !strstr(line, "= input") && !strstr(line, "bw)");
        const bool placed = loc && loc[5] == '"';
        if (!loc || (forward && !placed) || strstr(line, "= constant") || is_of_parameter(tir, line)) continue;
        const int expected = forward ? expected_segment(loc + 6) : 0;
        if ((segment ? atoi(segment + strlen("segment ")) : 0) != expected)
            fail_msg("not in segment %d: %s", expected, line);
        inside += expected > 0;
    }
    return inside;
}

static void marks_last_through_all_passes(void **state) {
    (void)state;
    static const char *const archs[] = {NULL, "sm_80"};
    int32_t tokens[SAMPLES * CONTEXT] = {0}, labels[SAMPLES] = {0};
    float images[SAMPLES * 3 * IMAGE * IMAGE] = {0};
    const tcc_array texts[] = {{"x", TCC_I32, 2, {SAMPLES, CONTEXT}, tokens},
                               {"y", TCC_I32, 2, {SAMPLES, CONTEXT}, tokens}},
                    pictures[] = {{"x", TCC_F32, 4, {SAMPLES, 3, IMAGE, IMAGE}, images},
                                  {"y", TCC_I32, 1, {SAMPLES}, labels}};
    for (int of_images = 0; of_images < 2; of_images++)
        for (int precision = TCC_MIXED_NONE; precision <= TCC_MIXED_BF16; precision++)
            for (int a = 0; a < 2; a++) {
                tcc_context *cx;
                tcc_model *m;
                char *tir;
                const tcc_model_options o = {
                    .size = sizeof o, .mixed_precision = (tcc_mixed_precision)precision, .arch = archs[a]};
                OK(cx, tcc_context_create(&cx));
                OK(cx, tcc_model_create(cx, of_images ? image_model : text_model, NULL, &o, &m));
                OK(cx, tcc_model_compile(m, true, of_images ? pictures : texts, 2));
                OK(cx, tcc_model_report(m, "tir", &tir));
                assert_true(check_lines(tir) > 20);
                tcc_string_free(tir);
                tcc_model_destroy(m);
                tcc_context_destroy(cx);
            }
}

/* -- What a plan says -- */

typedef struct planned {
    tcc_context *cx;
    tcc_model *m;
} planned;

/* The training program of the GPT above, compiled. */
static tcc_status plan(planned *p, const char *budget, tcc_checkpointing checkpointing) {
    static int32_t tokens[SAMPLES * CONTEXT];
    const tcc_array batch[] = {{"x", TCC_I32, 2, {SAMPLES, CONTEXT}, tokens},
                               {"y", TCC_I32, 2, {SAMPLES, CONTEXT}, tokens}};
    const tcc_model_options o = {.size = sizeof o, .checkpointing = checkpointing, .memory_budget = budget};
    OK(p->cx, tcc_context_create(&p->cx));
    OK(p->cx, tcc_model_create(p->cx, text_model, NULL, &o, &p->m));
    return tcc_model_compile(p->m, true, batch, 2);
}

static void discard(planned *p) {
    tcc_model_destroy(p->m);
    tcc_context_destroy(p->cx);
}

static char *report_of(const planned *p, const char *what) {
    char *text;
    OK(p->cx, tcc_model_report(p->m, what, &text));
    return text;
}

static void check_report(const char *budget, tcc_checkpointing checkpointing, const char *first) {
    planned p;
    if (plan(&p, budget, checkpointing) != TCC_OK) fail_msg("%s", tcc_context_error(p.cx));
    char *remat = report_of(&p, "remat"), *memory = report_of(&p, "memory");
    static const char *const parts[] = {
        "\n  total ", "\n  activations ", "\ncomputed again: ", "\nkept: ", "gpt.transformer.h.", "\nsearch: "};
    if (strncmp(remat, first, strlen(first)) != 0) fail_msg("not \"%s\":\n%s", first, remat);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strstr(remat, parts[i])) fail_msg("no \"%s\":\n%s", parts[i], remat);
    assert_memory_equal(memory, remat, strlen(remat));
    assert_non_null(strstr(memory, "\n\narena "));
    for (const char *line = remat, *end; (end = strchr(line, '\n')); line = end + 1)
        if (end - line > 80) fail_msg("longer than 80 columns: %s", line);
    tcc_string_free(remat);
    tcc_string_free(memory);
    discard(&p);
}

static void plans_are_reported(void **state) {
    (void)state;
    check_report("90%", TCC_CHECKPOINTING_AUTO, "memory budget: 90% of the activations' memory, ");
    check_report("min", TCC_CHECKPOINTING_AUTO, "memory budget: as little as possible\n");
    check_report("1GiB", TCC_CHECKPOINTING_AUTO, "memory budget: 1.0 GiB in total, of which 102");
    check_report(NULL, TCC_CHECKPOINTING_SEGMENTS, "memory budget: none; the model's segments");
    planned p;
    assert_int_equal(plan(&p, NULL, TCC_CHECKPOINTING_AUTO), TCC_OK);
    char *remat = report_of(&p, "remat"), *memory = report_of(&p, "memory");
    assert_string_equal(remat, "");
    assert_memory_equal(memory, "arena ", 6);
    tcc_string_free(remat);
    tcc_string_free(memory);
    discard(&p);
}

/* What `min` takes is a budget that is met, and what a smaller one is told. */
static void least_is_a_budget(void **state) {
    (void)state;
    planned p;
    tcc_program_info info, same;
    char text[32];
    assert_int_equal(plan(&p, "min", TCC_CHECKPOINTING_AUTO), TCC_OK);
    OK(p.cx, tcc_model_info(p.m, &info));
    discard(&p);
    snprintf(text, sizeof text, "%lld", (long long)info.peak_bytes);
    if (plan(&p, text, TCC_CHECKPOINTING_AUTO) != TCC_OK) fail_msg("%s", tcc_context_error(p.cx));
    OK(p.cx, tcc_model_info(p.m, &same));
    assert_true(same.peak_bytes == info.peak_bytes);
    discard(&p);
    snprintf(text, sizeof text, "%lld", (long long)info.peak_bytes - 1);
    assert_int_equal(plan(&p, text, TCC_CHECKPOINTING_AUTO), TCC_ENOMEM);
    snprintf(text, sizeof text, "%lld", (long long)info.peak_bytes);
    if (!strstr(tcc_context_error(p.cx), text)) fail_msg("no %s in: %s", text, tcc_context_error(p.cx));
    discard(&p);
}

static void wide_image_model(tcc_trace *t, void *user) {
    (void)user;
    const tcc_resnet_options o = {.depth = 18, .classes = 3, .width = 16, .cifar_stem = true};
    tcc_loss(t, tcc_cross_entropy(tcc_resnet(t, tcc_input(t, "x"), &o), tcc_input(t, "y")));
}

static int64_t arena_of_images(tcc_checkpointing checkpointing, const char *budget) {
    enum { IMAGES = 32 };
    static float x[IMAGES * 3 * IMAGE * IMAGE];
    static int32_t y[IMAGES];
    const tcc_array batch[] = {{"x", TCC_F32, 4, {IMAGES, 3, IMAGE, IMAGE}, x}, {"y", TCC_I32, 1, {IMAGES}, y}};
    const tcc_model_options o = {.size = sizeof o, .checkpointing = checkpointing, .memory_budget = budget};
    planned p;
    tcc_program_info info;
    OK(p.cx, tcc_context_create(&p.cx));
    OK(p.cx, tcc_model_create(p.cx, wide_image_model, NULL, &o, &p.m));
    OK(p.cx, tcc_model_compile(p.m, true, batch, 2));
    OK(p.cx, tcc_model_info(p.m, &info));
    discard(&p);
    return info.arena_bytes;
}

/* Filters' gradients compute the results of norms and ReLU as they read them, so that these are not kept for them, with
 * no budget set. */
static void images_are_computed_where_they_are_read(void **state) {
    (void)state;
    const int64_t none = arena_of_images(TCC_CHECKPOINTING_NONE, NULL),
                  usual = arena_of_images(TCC_CHECKPOINTING_AUTO, NULL);
    if ((double)usual > 0.85 * (double)none) fail_msg("%lld bytes of %lld", (long long)usual, (long long)none);
}

/* The outputs of residual blocks follow from one another: were all of them computed again, it would be at once. */
static void some_blocks_are_stored(void **state) {
    (void)state;
    const int64_t none = arena_of_images(TCC_CHECKPOINTING_NONE, NULL),
                  least = arena_of_images(TCC_CHECKPOINTING_AUTO, "min");
    if ((double)least > 0.45 * (double)none) fail_msg("%lld bytes of %lld", (long long)least, (long long)none);
}

static void hopeless_budgets_are_explained(void **state) {
    (void)state;
    static const struct {
        const char *budget, *says;
    } cases[] = {{"100kB", "the memory budget of 97.7 KiB is less than parameters, optimizer state, batch and outputs "
                           "alone need: 152.8 KiB; a step needs at least "},
                 {"5%", " cannot be met: a step needs at least "},
                 {"170KiB", "the memory budget of 170.0 KiB cannot be met: a step needs at least "}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        planned p;
        assert_int_equal(plan(&p, cases[i].budget, TCC_CHECKPOINTING_AUTO), TCC_ENOMEM);
        const char *error = tcc_context_error(p.cx);
        if (!strstr(error, cases[i].says)) fail_msg("no \"%s\": %s", cases[i].says, error);
        if (!strstr(error, "note: a smaller batch helps") || !strstr(error, "gpt.transformer.h.1.mlp") ||
            !strstr(error, ": note: 16.0 KiB: %"))
            fail_msg("%s", error);
        discard(&p);
    }
}

/* -- Bits -- */

enum { SIDE = 16 };

static void gelu_before_loss(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor w = tcc_param(t, "w", ((tcc_init){.kind = TCC_INIT_UNIFORM, .a = -1, .b = 1}), TCC_DIMS(SIDE, SIDE));
    tcc_tensor logits = tcc_gelu(tcc_linear(w, "out", SIDE, .no_bias = true)), y = tcc_input(t, "y");
    tcc_checkpoint_segment(t);
    tcc_loss(t, tcc_cross_entropy(logits, y));
    tcc_checkpoint_segment_end(t);
    tcc_output(t, "logits", logits);
}

static void gradient_of(tcc_checkpointing checkpointing, float *out) {
    int32_t y[SIDE];
    const tcc_array batch = {"y", TCC_I32, 1, {SIDE}, y};
    const tcc_model_options o = {.size = sizeof o,
                                 .seed = 7,
                                 .optimizer = OPTIMIZER_OF(TCC_SGD, 0.1, .clip_grad_norm = 0.5),
                                 .keep_gradients = true,
                                 .checkpointing = checkpointing};
    tcc_context *cx;
    tcc_model *m;
    tcc_array gradient;
    for (int i = 0; i < SIDE; i++) y[i] = i;
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, gelu_before_loss, NULL, &o, &m));
    OK(cx, tcc_model_train(m, &batch, 1));
    OK(cx, tcc_model_gradient(m, "w", &gradient));
    memcpy(out, gradient.data, sizeof *out * SIDE * SIDE);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

/* The row of the loss finds GELU's share of an earlier sweep again, or makes it anew: its slope is the same. */
static void slopes_do_not_depend_on_what_is_kept(void **state) {
    (void)state;
    float none[SIDE * SIDE], segments[SIDE * SIDE];
    gradient_of(TCC_CHECKPOINTING_NONE, none);
    gradient_of(TCC_CHECKPOINTING_SEGMENTS, segments);
    assert_memory_equal(none, segments, sizeof none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_in_their_segments),
        cmocka_unit_test(refused_marks),
        cmocka_unit_test(refused_options),
        cmocka_unit_test(accepted_options),
        cmocka_unit_test(marks_last_through_all_passes),
        cmocka_unit_test(plans_are_reported),
        cmocka_unit_test(least_is_a_budget),
        cmocka_unit_test(images_are_computed_where_they_are_read),
        cmocka_unit_test(some_blocks_are_stored),
        cmocka_unit_test(hopeless_budgets_are_explained),
        cmocka_unit_test(slopes_do_not_depend_on_what_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
