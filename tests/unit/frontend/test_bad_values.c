/* SPDX-License-Identifier: MIT
 * Values that no function of the public headers takes in silence: each is an error that names the value and what would
 * be right. A row is one such call; what losses and functions refuse by shape is in test_function_arguments.c. */
#include "frontend/trace.h"
#include "harness/check.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* What rows may use. */
typedef struct given {
    tcc_trace *t;
    tcc_tensor x, y, image, classes, integers; /* f32 [4,3] twice, [2,3,5,5]; i32 [4], [4,3] */
    tcc_tensor out[4];
} given;

static const tcc_init nothing = {0};
static const char long_name[] =
    "a.name.of.more.than.two.hundred.and.fifty.five.bytes.0123456789.0123456789.0123456789.0123456789.0123456789."
    "0123456789.0123456789.0123456789.0123456789.0123456789.0123456789.0123456789.0123456789.0123456789.0123456789."
    "0123456789.0123456789.0123456789.0123456789.0123456789";

#define INIT(...) ((tcc_init){__VA_ARGS__})

static tcc_tensor twice_updated(given *g) {
    tcc_tensor s = tcc_state(g->t, "p23", nothing, TCC_DIMS(3));
    tcc_update(s, tcc_scale(s, 2));
    tcc_update(s, tcc_scale(s, 3));
    return s;
}

static tcc_tensor gpt(given *g, tcc_gpt_options options) { return tcc_gpt(g->t, g->integers, &options); }

static tcc_tensor labels(given *g) { return tcc_constant(g->t, 1, TCC_I32, TCC_DIMS(2, 5, 5)); }

static tcc_tensor picture(given *g, int64_t height, int64_t width) {
    return tcc_constant(g->t, 1, TCC_F32, TCC_DIMS(2, 3, height, width));
}

static tcc_tensor pp_liteseg(given *g, int64_t height, int64_t width, tcc_pp_liteseg_options options) {
    return tcc_pp_liteseg(g->t, picture(g, height, width), &options).logits[0];
}

static tcc_tensor heads_loss(given *g, int count, tcc_segmentation_loss_options options) {
    const tcc_segmentation heads = {.count = count, .logits = {g->image}};
    return tcc_segmentation_loss(g->t, &heads, labels(g), &options);
}

static tcc_tensor as_steps(given *g) { return tcc_reshape(g->x, TCC_DIMS(1, 4, 3)); }

static tcc_tensor heads(given *g, const char *name, int64_t count, tcc_multi_head_attention_options options) {
    tcc_tensor x = as_steps(g);
    return tcc_multi_head_attention_at(x, x, x, name, count, &options, TCC_HERE);
}

enum { EVALUATE, TRAIN };
#define CONCAT_(a, b) a##b
#define CONCAT(a, b) CONCAT_(a, b)

#define BAD(call, mode, part) \
    static tcc_tensor CONCAT(row_, __LINE__)(given * g) { return (void)g, call; }
#include "bad_values.def"
#undef BAD

static const struct {
    tcc_tensor (*call)(given *g);
    const char *text, *part;
    int mode, line;
} rows[] = {
#define BAD(call, mode, part) {CONCAT(row_, __LINE__), #call, part, mode, __LINE__},
#include "bad_values.def"
#undef BAD
};

/* What row i says; "": nothing. */
static void run(int i, tcc_diag *diag) {
    tcc_store store = {.seed = 5};
    tcc_trace t;
    tcc_graph *graph = NULL;
    assert_ok(tcc_trace_begin(&t, "bad", &store, rows[i].mode == TRAIN, NULL, 0, diag), diag);
    given g = {.t = &t};
    g.x = tcc_param(&t, "x", nothing, TCC_DIMS(4, 3));
    g.y = tcc_param(&t, "y", nothing, TCC_DIMS(4, 3));
    g.image = tcc_param(&t, "image", nothing, TCC_DIMS(2, 3, 5, 5));
    g.classes = tcc_constant(&t, 1, TCC_I32, TCC_DIMS(4));
    g.integers = tcc_constant(&t, 1, TCC_I32, TCC_DIMS(4, 3));
    rows[i].call(&g);
    assert_int_equal(t.full_depth, 0);
    if (tcc_trace_end(&t, &graph) == TCC_OK) tcc_graph_destroy(graph);
    tcc_store_free(&store);
}

static void each_is_an_error(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tcc_diag diag = {0};
        run((int)i, &diag);
        const char *text = tcc_diag_text(&diag), *message = strstr(text, "error: ");
        if (!message || !strstr(message, rows[i].part))
            fail_msg("bad_values.def:%d: %s: \"%s\" does not say \"%s\"", rows[i].line, rows[i].text, text,
                     rows[i].part);
        if (strstr(message + 7, "error: ")) fail_msg("%s: another error: %s", rows[i].text, text);
        tcc_diag_clear(&diag);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
