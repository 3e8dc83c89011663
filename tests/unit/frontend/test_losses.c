/* SPDX-License-Identifier: MIT
 * Arguments that losses refuse: each with a message at the user's line. Values are in numerics/test_functions.c. */
#include "frontend/trace.h"
#include "harness/check.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>

typedef struct fixture {
    tcc_context cx;
    tcc_store store;
    tcc_trace trace;
    tcc_tensor x, y, probabilities, scalar, classes, image, labels;
} fixture;

static int begin(void **state) {
    static fixture f;
    f = (fixture){.store = {.seed = 5}};
    tcc_trace *t = &f.trace;
    if (tcc_context_init(&f.cx) != TCC_OK) return -1;
    *state = &f;
    if (tcc_trace_begin(t, "test", &f.store, true, NULL, 0, &f.cx.diag) != TCC_OK) return -1;
    f.x = tcc_param(t, "x", (tcc_init){0}, TCC_DIMS(4, 3));
    f.y = tcc_param(t, "y", (tcc_init){0}, TCC_DIMS(4, 3));
    f.probabilities = tcc_sigmoid(f.x);
    f.scalar = tcc_sum(f.x, TCC_ALL);
    f.classes = tcc_cast(tcc_sum(f.x, TCC_DIMS(1)), TCC_I32);
    f.image = tcc_param(t, "image", (tcc_init){0}, TCC_DIMS(2, 3, 5, 5));
    f.labels = tcc_cast(tcc_sum(f.image, TCC_DIMS(1)), TCC_I64);
    return 0;
}

static int end(void **state) {
    fixture *f = *state;
    tcc_graph *g = NULL;
    if (f->trace.graph && tcc_trace_end(&f->trace, &g) == TCC_OK) tcc_graph_destroy(g);
    tcc_store_free(&f->store);
    tcc_context_clear(&f->cx);
    return 0;
}

/* The error is the only one, at the call, which may be some lines long. */
static void check_refused(fixture *f, tcc_tensor got, tcc_status status, int line, const char *text) {
    const char *message = tcc_diag_text(&f->cx.diag);
    bool said = false;
    for (int i = 0; i < 3; i++) {
        char place[256];
        snprintf(place, sizeof place, "test_losses.c:%d: error: %s", line + i, text);
        said |= strstr(message, place) != NULL;
    }
    if (!said) fail_msg("\"%s\" does not say \"test_losses.c:%d: error: %s\"", message, line, text);
    assert_int_equal(f->cx.diag.status, status);
    assert_null(got.node);
    assert_int_equal(f->trace.full_depth, 0);
    tcc_diag_clear(&f->cx.diag);
}

#define REFUSES(status, text, call) check_refused(f, call, status, __LINE__, text)

static void options_of_other_losses(void **state) {
    fixture *f = *state;
    const tcc_tensor x = f->x, y = f->y;
    REFUSES(TCC_EINVAL, "mse_loss has no option beta", tcc_mse_loss(x, y, .beta = 2));
    REFUSES(TCC_EINVAL, "huber_loss has no option beta", tcc_huber_loss(x, y, .beta = 2));
    REFUSES(TCC_EINVAL, "smooth_l1_loss has no option delta", tcc_smooth_l1_loss(x, y, .delta = 2));
    REFUSES(TCC_EINVAL, "l1_loss has no option weight", tcc_l1_loss(x, y, .weight = &y));
    REFUSES(TCC_EINVAL, "bce_loss has no option pos_weight", tcc_bce_loss(x, y, .pos_weight = &y));
    REFUSES(TCC_EINVAL, "kl_div has no option margin", tcc_kl_div(x, y, .has_margin = true));
    REFUSES(TCC_EINVAL, "l1_loss has no option log_target", tcc_l1_loss(x, y, .log_target = true));
    REFUSES(TCC_EINVAL, "mse_loss has no option swap", tcc_mse_loss(x, y, .swap = true));
    REFUSES(TCC_EINVAL, "kl_div has no option p", tcc_kl_div(x, y, .p = 2));
    REFUSES(TCC_EINVAL, "nll_loss has no option label_smoothing", tcc_nll_loss(x, f->classes, .label_smoothing = 0.1));
}

static void values_out_of_range(void **state) {
    fixture *f = *state;
    const tcc_tensor x = f->x, y = f->y;
    REFUSES(TCC_EINVAL, "mse_loss: there is no reduction 7", tcc_mse_loss(x, y, .reduction = (tcc_loss_reduction)7));
    REFUSES(TCC_EINVAL, "smooth_l1_loss: beta must be finite and above 0, not -1",
            tcc_smooth_l1_loss(x, y, .beta = -1));
    REFUSES(TCC_EINVAL, "huber_loss: delta must be finite and above 0, not inf",
            tcc_huber_loss(x, y, .delta = INFINITY));
    REFUSES(TCC_EINVAL, "hinge_embedding_loss: margin must be finite, not nan",
            tcc_hinge_embedding_loss(x, y, .margin = NAN));
    REFUSES(TCC_EINVAL, "triplet_margin_loss: p must be 1, 2 or INFINITY, not 3",
            tcc_triplet_margin_loss(x, y, y, .p = 3));
    REFUSES(TCC_EINVAL, "cross_entropy: label_smoothing must be in [0, 1), not 1",
            tcc_cross_entropy(x, f->classes, .label_smoothing = 1));
    REFUSES(TCC_EINVAL, "cross_entropy: reduction 3 is none of",
            tcc_cross_entropy(x, f->classes, .reduction = TCC_REDUCE_BATCH_MEAN));
    REFUSES(TCC_EINVAL, "cross_entropy: ignore_index must be an i32, not 4294967296",
            tcc_cross_entropy(x, f->classes, .ignore_index = (int64_t)1 << 32));
    REFUSES(TCC_EINVAL, "cross_entropy: axis 2 is out of range for f32[4,3]",
            tcc_cross_entropy(x, f->classes, .axis = 2));
    REFUSES(TCC_EINVAL, "nll_loss: target 3 is no class",
            tcc_nll_loss(x, tcc_literal(&f->trace, ((double[]){0, 1, 2, 3}), TCC_I64, TCC_DIMS(4))));
}

static void shapes_and_types(void **state) {
    fixture *f = *state;
    const tcc_tensor x = f->x, row = tcc_sum(x, TCC_DIMS(1));
    REFUSES(TCC_ESHAPE, "mse_loss: TCC_REDUCE_BATCH_MEAN needs a batch dim; the loss is f32[]",
            tcc_mse_loss(f->scalar, f->scalar, .reduction = TCC_REDUCE_BATCH_MEAN));
    REFUSES(TCC_EDTYPE, "l1_loss: x is i32[4]", tcc_l1_loss(f->classes, f->classes));
    REFUSES(TCC_ESHAPE, "bce_loss: weight, f32[4], does not broadcast to x, f32[4,3]",
            tcc_bce_loss(x, f->probabilities, .weight = &row));
    REFUSES(TCC_ESHAPE, "bce_with_logits: pos_weight, f32[2,3,5,5], does not broadcast",
            tcc_bce_with_logits(x, f->probabilities, .pos_weight = &f->image));
    REFUSES(TCC_ESHAPE, "cosine_embedding_loss: signs are f32[4,3]; a row has one, so they must be f32[4]",
            tcc_cosine_embedding_loss(x, f->y, f->y));
    REFUSES(TCC_ESHAPE, "cosine_embedding_loss: a is f32[]; it must have rows",
            tcc_cosine_embedding_loss(f->scalar, f->scalar, f->scalar));
    REFUSES(TCC_ESHAPE, "cosine_embedding_loss: x is f32[4,3], b f32[4]", tcc_cosine_embedding_loss(x, row, row));
    REFUSES(TCC_EDTYPE, "hinge_embedding_loss: signs are bool[4,3]", tcc_hinge_embedding_loss(x, tcc_gt(x, f->y)));
    REFUSES(TCC_ESHAPE, "triplet_margin_loss: x is f32[4,3], the negative f32[4]",
            tcc_triplet_margin_loss(x, f->y, row));
    REFUSES(TCC_ESHAPE, "dice_loss: x is f32[4,3]; it must be [N, C, ..]", tcc_dice_loss(x, f->y));
    REFUSES(TCC_ESHAPE,
            "cross_entropy: targets are i64[2,5,5]; with the classes in dim 3 of f32[2,3,5,5] they must be i64[2,3,5]",
            tcc_cross_entropy(f->image, f->labels));
    REFUSES(TCC_EDTYPE, "nll_loss: targets are f32[4,3]; with the classes in dim 1", tcc_nll_loss(x, f->y));
    REFUSES(TCC_ESHAPE, "cross_entropy: the weights of the classes are f32[4], not f32[3]",
            tcc_cross_entropy(x, f->classes, .weight = &row));
    REFUSES(TCC_EINVAL, "cross_entropy: targets that are probabilities have no ignore_index",
            tcc_cross_entropy(x, f->probabilities, .ignore_index = 1));
    assert_int_equal(tcc_rank(tcc_cross_entropy(f->image, f->labels, .axis = 1)), 0);
    assert_int_equal(tcc_rank(tcc_cross_entropy(f->image, f->labels, .axis = 1, .reduction = TCC_REDUCE_NONE)), 3);
    assert_int_equal(f->cx.diag.status, TCC_OK);
}

/* Sums of f16 overflow, so losses are computed in f32; the result has the operands' type. */
static void narrow_types_are_widened(void **state) {
    fixture *f = *state;
    tcc_tensor x = tcc_cast(f->x, TCC_F16), y = tcc_cast(f->y, TCC_F16);
    const tcc_tensor loss = tcc_mse_loss(x, y);
    assert_int_equal(tcc_get_dtype(loss), TCC_F16);
    assert_int_equal(loss.node->op, TCC_OP_CAST);
    assert_int_equal(loss.node->operands[0]->type.dtype, TCC_F32);
    assert_int_equal(tcc_get_dtype(tcc_cross_entropy(x, f->classes, .reduction = TCC_REDUCE_SUM)), TCC_F16);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(options_of_other_losses, begin, end),
                                       cmocka_unit_test_setup_teardown(values_out_of_range, begin, end),
                                       cmocka_unit_test_setup_teardown(shapes_and_types, begin, end),
                                       cmocka_unit_test_setup_teardown(narrow_types_are_widened, begin, end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
