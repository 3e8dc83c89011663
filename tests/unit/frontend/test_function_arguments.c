/* SPDX-License-Identifier: MIT
 * Arguments that losses and functions refuse: each with a message at the user's line. Values are in
 * numerics/test_functions.c. */
#include "harness/check.h"
#include "harness/tracing.h"
#include "ir/support/alloc.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>

typedef struct fixture {
    tracing of;
    tcc_tensor x, y, probabilities, scalar, classes, image, labels;
} fixture;

static int begin(void **state) {
    static fixture f;
    tcc_trace *t = &f.of.trace;
    *state = &f;
    if (tracing_begin(&f.of, NULL, 0)) return -1;
    f.x = tcc_param(t, "x", (tcc_init){0}, TCC_DIMS(4, 3));
    f.y = tcc_param(t, "y", (tcc_init){0}, TCC_DIMS(4, 3));
    f.probabilities = tcc_sigmoid(f.x);
    f.scalar = tcc_sum(f.x, TCC_ALL);
    f.classes = tcc_cast(tcc_sum(f.x, TCC_DIMS(1)), TCC_I32);
    f.image = tcc_param(t, "image", (tcc_init){0}, TCC_DIMS(2, 3, 5, 5));
    f.labels = tcc_cast(tcc_sum(f.image, TCC_DIMS(1)), TCC_I64);
    return 0;
}

static int end(void **state) { return tracing_end(&((fixture *)*state)->of); }

/* The error is the only one, at the call, which may be some lines long, or stand a line above. */
static void check_refused(fixture *f, tcc_tensor got, tcc_status status, int line, const char *text) {
    const char *message = tcc_diag_text(&f->of.cx.diag);
    bool said = false;
    for (int i = -1; i < 3; i++) {
        char place[256];
        snprintf(place, sizeof place, "test_function_arguments.c:%d: error: %s", line + i, text);
        said |= strstr(message, place) != NULL;
    }
    if (!said) fail_msg("\"%s\" does not say \"test_function_arguments.c:%d: error: %s\"", message, line, text);
    assert_int_equal(f->of.cx.diag.status, status);
    assert_null(got.node);
    assert_int_equal(f->of.trace.full_depth, 0);
    tcc_diag_clear(&f->of.cx.diag);
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

static void gradients(void **state) {
    fixture *f = *state;
    REFUSES(TCC_ESHAPE, "gradients: y must be a float scalar, not f32[4,3]; reduce it with tcc_sum",
            tcc_gradient(f->y, f->x));
    REFUSES(TCC_ESHAPE, "gradients: y must be a float scalar, not i32[]; reduce it with tcc_sum",
            tcc_gradient(tcc_cast(f->scalar, TCC_I32), f->x));
    REFUSES(TCC_EDTYPE, "gradients: x[0] is i32[4]: only floats have gradients", tcc_gradient(f->scalar, f->classes));
    REFUSES(TCC_EINVAL, "gradients: operand 1 is no tensor", tcc_gradient(f->scalar, (tcc_tensor){0}));
    assert_ptr_equal(tcc_stop_gradient(f->classes).node, f->classes.node);
    REFUSES(TCC_EINVAL, "reduce_sum: axis 1 is named twice", tcc_sum(f->x, TCC_DIMS(1, 0, -1)));
}

/* What is built for a gradient has the line of its op, no segment and that op's precision; what the user builds next
 * is where the user is. */
static void gradients_leave_the_place(void **state) {
    fixture *f = *state;
    tcc_trace *t = &f->of.trace;
    tcc_checkpoint_segment(t);
    const tcc_tensor y = tcc_sum(tcc_sin(f->x), TCC_ALL);
    tcc_full_precision(t);
    const tcc_tensor slope = tcc_gradient(y, f->x), next = tcc_exp(slope);
    assert_int_equal(slope.node->loc.line, y.node->loc.line);
    assert_false(slope.node->backward);
    assert_int_equal(slope.node->segment, 0);
    assert_int_equal(slope.node->marks, 0);
    assert_int_equal(next.node->segment, 1);
    assert_int_equal(next.node->marks, TCC_MARK_FULL);
    assert_int_equal(next.node->loc.line, y.node->loc.line + 2);
    tcc_full_precision_end(t);
    tcc_checkpoint_segment_end(t);
    assert_int_equal(tcc_exp(y).node->segment, 0);
    assert_int_equal(tcc_cos(y).node->marks, 0);
}

/* Each allocation fails in turn. */
static void gradients_without_memory(void **state) {
    fixture *f = *state;
    const tcc_tensor y = tcc_sum(tcc_softplus(tcc_mul(f->x, f->y)), TCC_ALL), by[] = {f->x, f->y};
    tcc_tensor gradients[2];
    int failures = 0;
    do {
        tcc_diag_clear(&f->of.cx.diag);
        tcc__alloc_fail_at(failures++);
        tcc_gradients(y, by, 2, gradients);
        tcc__alloc_fail_at(-1);
        assert_true(f->of.cx.diag.status == TCC_OK || f->of.cx.diag.status == TCC_ENOMEM);
        assert_true((f->of.cx.diag.status == TCC_OK) == (gradients[0].node && gradients[1].node));
    } while (f->of.cx.diag.status != TCC_OK);
    assert_true(failures > 10);
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
            tcc_nll_loss(x, tcc_literal(&f->of.trace, ((double[]){0, 1, 2, 3}), TCC_I64, TCC_DIMS(4))));
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
    assert_int_equal(f->of.cx.diag.status, TCC_OK);
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

static void activations_and_reductions(void **state) {
    fixture *f = *state;
    const tcc_tensor x = f->x, bits = tcc_gt(x, f->y);
    REFUSES(TCC_EDTYPE, "relu6: x is i32[4]", tcc_relu6(f->classes));
    REFUSES(TCC_EINVAL, "elu: alpha must be finite, not nan", tcc_elu(x, NAN));
    REFUSES(TCC_ESHAPE,
            "prelu: the slope, f32[4], must have one element, or one for each channel (dim 1) of x, f32[4,3]",
            tcc_prelu(x, tcc_sum(x, TCC_DIMS(1))));
    REFUSES(TCC_ESHAPE, "glu: dim 1 of f32[4,3], 3, has no halves", tcc_glu(x, -1));
    REFUSES(TCC_EINVAL, "clamp: there is nothing from 2 to 1", tcc_clamp(x, 2, 1));
    REFUSES(TCC_EINVAL, "clamp: there is nothing from nan to 1", tcc_clamp(x, NAN, 1));
    REFUSES(TCC_EDTYPE, "constant: 0.5 is no value of i32", tcc_clamp(f->classes, 0.5, 1));
    REFUSES(TCC_EDTYPE, "clamp: x is bool[4,3], no numbers", tcc_clamp(bits, 0, 1));
    REFUSES(TCC_EINVAL, "var: 3 elements less a correction of 3 are not above 0", tcc_var(x, 3, TCC_DIMS(1)));
    REFUSES(TCC_EINVAL, "std: 12 elements less a correction of nan", tcc_std(x, NAN, TCC_ALL));
    REFUSES(TCC_EINVAL, "var: axis 2 is out of range for f32[4,3]", tcc_var(x, 1, TCC_DIMS(2)));
    REFUSES(TCC_EINVAL, "norm: p must be 1, 2 or INFINITY, not 0.5", tcc_norm(x, 0.5, TCC_ALL));
    REFUSES(TCC_EDTYPE, "logsumexp: x is i64[2,5,5]", tcc_logsumexp(f->labels, TCC_ALL));
    REFUSES(TCC_EINVAL, "argmin: axis 5 is out of range", tcc_argmin(x, 5));
    assert_int_equal(f->of.cx.diag.status, TCC_OK);
}

static void shapes_of_functions(void **state) {
    fixture *f = *state;
    const tcc_tensor x = f->x, pair[] = {x, f->image};
    REFUSES(TCC_EINVAL, "expand_dims: axis 3 of a result with 3 dims is out of range", tcc_expand_dims(x, TCC_DIMS(3)));
    REFUSES(TCC_EINVAL, "expand_dims: axis -1 of a result with 4 dims is named twice",
            tcc_expand_dims(x, TCC_DIMS(3, -1)));
    REFUSES(TCC_ESHAPE, "expand_dims: f32[2,3,5,5] would have 9 dims",
            tcc_expand_dims(f->image, TCC_DIMS(0, 1, 2, 3, 4)));
    REFUSES(TCC_ESHAPE, "squeeze: dim 1 of f32[4,3] is not 1", tcc_squeeze(x, TCC_DIMS(1)));
    REFUSES(TCC_ESHAPE, "stack: operand 1 is f32[2,3,5,5], operand 0 f32[4,3]", tcc_stack(pair, 2, 0));
    REFUSES(TCC_EINVAL, "stack: axis 3 is out of range for a result with 3 dims", tcc_stack(pair, 1, 3));
    REFUSES(TCC_EINVAL, "stack: it takes one operand", tcc_stack(pair, 0, 0));
    tcc_tensor out[3];
    tcc_split(x, 0, out, TCC_DIMS(1, 2));
    REFUSES(TCC_ESHAPE, "split: pieces of dim 0 of f32[4,3] have 3 elements together", out[1]);
    tcc_split(x, 0, out, TCC_DIMS(5, -1));
    REFUSES(TCC_ESHAPE, "split: piece 0 of dim 0 of f32[4,3] has an extent of 5", out[0]);
    tcc_chunk(x, 0, 3, out);
    REFUSES(TCC_ESHAPE, "chunk: dim 0 of f32[4,3] has no 3 equal parts", out[2]);
    REFUSES(TCC_EINVAL, "repeat: 1 counts for f32[4,3]", tcc_repeat(x, TCC_DIMS(2)));
    REFUSES(TCC_EINVAL, "repeat: count 1 is 0", tcc_repeat(x, TCC_DIMS(2, 0)));
    REFUSES(TCC_ESHAPE, "tril: f32[] is no matrix", tcc_tril(f->scalar, 0));
    REFUSES(TCC_EINVAL, "pad_reflect: 3 before and 0 after dim 1 of f32[4,3]; each takes 0 to 2",
            tcc_pad_reflect(x, 1, 3, 0));
    REFUSES(TCC_EINVAL, "pad_wrap: 0 before and 4 after dim 1 of f32[4,3]; each takes 0 to 3",
            tcc_pad_wrap(x, 1, 0, 4));
    REFUSES(TCC_EINVAL, "pad_replicate: -1 before and 4 after", tcc_pad_replicate(x, 1, -1, 4));
    REFUSES(TCC_ESHAPE, "pixel_shuffle: r is 2, x f32[2,3,5,5]; r * r must divide", tcc_pixel_shuffle(f->image, 2));
    REFUSES(TCC_ESHAPE, "pixel_unshuffle: r is 0", tcc_pixel_unshuffle(f->image, 0));
    REFUSES(TCC_ESHAPE, "unfold: x is f32[4,3]", tcc_unfold(x, 2));
    REFUSES(TCC_ESHAPE, "unfold: a window over 7 elements does not fit", tcc_unfold(f->image, 4, .dilation = 2));
    REFUSES(TCC_EINVAL, "unfold: window 0 (1 to 64)", tcc_unfold(f->image, 0));
    assert_int_equal(f->of.cx.diag.status, TCC_OK);
}

static void indices_and_letters(void **state) {
    fixture *f = *state;
    const tcc_tensor x = f->x, two[] = {x, f->y}, mixed[] = {x, tcc_cast(x, TCC_F64)};
    REFUSES(TCC_EDTYPE, "one_hot: indices are i32 or i64, not f32[4,3]", tcc_one_hot(x, 3, TCC_F32));
    REFUSES(TCC_EINVAL, "one_hot: there are no 0 classes", tcc_one_hot(f->classes, 0, TCC_F32));
    REFUSES(TCC_ESHAPE, "scatter: updates are f32[4,3], not f32[4,4], as indices are i32[4] and the base f32[4,3]",
            tcc_scatter(x, f->classes, x, 1));
    REFUSES(TCC_EINVAL, "top_k: k must be in 1 .. 3, not 4", tcc_top_k(x, 4, 1, NULL));
    REFUSES(TCC_EINVAL, "sort: axis 2 is out of range", tcc_sort(x, 2, false));
    REFUSES(TCC_EINVAL, "einsum: \"ij,jk\" is for 2 operands; 1 are given", tcc_einsum("ij,jk", two, 1));
    REFUSES(TCC_ESHAPE, "einsum: letter j is 4 in operand 1, f32[4,3], but 3 before", tcc_einsum("ij,jk", two, 2));
    REFUSES(TCC_ESHAPE, "einsum: operand 0, f32[4,3], has 2 dims and 3 letters, \"ijk\"", tcc_einsum("ijk,jk", two, 2));
    REFUSES(TCC_EINVAL, "einsum: letter z of the result is in no operand", tcc_einsum("ij,ij->z", two, 2));
    REFUSES(TCC_EINVAL, "einsum: letter i of the result is there twice", tcc_einsum("ij,ij->ii", two, 2));
    REFUSES(TCC_EINVAL, "einsum: '.' is no letter", tcc_einsum("...j,ij->i", two, 2));
    REFUSES(TCC_EINVAL, "einsum: '-' is no letter", tcc_einsum("ij,ij-->i", two, 2));
    REFUSES(TCC_EDTYPE, "einsum: operand 1 is f64[4,3], operand 0 f32[4,3]", tcc_einsum("ij,ij->i", mixed, 2));
    assert_int_equal(f->of.cx.diag.status, TCC_OK);
}

static void layers(void **state) {
    fixture *f = *state;
    tcc_tensor x = tcc_reshape(f->x, TCC_DIMS(2, 2, 3)), q = tcc_broadcast(f->x, TCC_DIMS(2, 4, 4, 3));
    tcc_tensor three = tcc_broadcast(f->x, TCC_DIMS(2, 3, 4, 3)), two = tcc_broadcast(f->x, TCC_DIMS(2, 2, 4, 3));
    tcc_tensor mask = tcc_constant(&f->of.trace, 1, TCC_BOOL, TCC_DIMS(2, 4, 4));
    REFUSES(TCC_ESHAPE, "sdpa: q [..,T,D] and k [..,S,D] do not agree: f32[2,4,4,3] and f32[2,3,4,3]",
            tcc_attention(q, three, three));
    REFUSES(TCC_ESHAPE, "sdpa: q [..,T,D] and k [..,S,D] do not agree: f32[2,4,4,3] and f32[2,2,4,3]",
            tcc_attention(q, two, q));
    REFUSES(TCC_ESHAPE, "attention: the mask, bool[2,4,4], does not broadcast to the scores, f32[2,4,4,4]",
            tcc_attention(q, two, two, .mask = mask));
    REFUSES(TCC_EINVAL, "embedding \"e\": padding index 5 is out of range for 5 rows (-5 to 4)",
            tcc_embedding(f->classes, "e", 5, 2, .padding_index = 5));
    REFUSES(TCC_EINVAL, "embedding \"e\": padding index -6 is out of range for 5 rows (-5 to 4)",
            tcc_embedding(f->classes, "e", 5, 2, .padding_index = -6));
    REFUSES(TCC_ESHAPE, "instance_norm \"n\": x must be [N, C, ..] with two values or more a channel, not f32[4,3]",
            tcc_instance_norm(f->x, "n"));
    REFUSES(TCC_ESHAPE,
            "multi_head_attention \"m\": q [N, T, C], k [N, S, K] and v [N, S, V] do not agree: f32[2,2,3], f32[4,3]",
            tcc_multi_head_attention(x, f->x, f->x, "m", 3));
    REFUSES(TCC_ESHAPE, "multi_head_attention \"m\": 2 heads must divide the width of q, f32[2,2,3], and 2 kv_heads",
            tcc_multi_head_attention(x, x, x, "m", 2));
    REFUSES(TCC_ESHAPE, "multi_head_attention \"m\": 3 heads must divide the width of q, f32[2,2,3], and 2 kv_heads",
            tcc_multi_head_attention(x, x, x, "m", 3, .kv_heads = 2));
    REFUSES(TCC_ESHAPE, "lstm \"l\": x must be [T, N, in], not f32[4,3]", tcc_lstm(f->x, "l", 2).all);
    REFUSES(TCC_ESHAPE, "gru \"g\": x must be [N, T, in], not f32[4,3]", tcc_gru(f->x, "g", 2, .batch_first = true).h);
    REFUSES(TCC_ESHAPE, "lstm \"l\": c0 must be [4, 2, 5], not f32[2,2,3]",
            tcc_lstm(x, "l", 5, .layers = 2, .bidirectional = true, .c0 = x).c);
    REFUSES(TCC_EINVAL, "gru \"g\": c0 is given, but a GRU has no c0", tcc_gru(x, "g", 5, .c0 = x).all);
    REFUSES(TCC_EINVAL, "lstm \"l\": a width of 0, -1 layers:", tcc_lstm(x, "l", 0, .layers = -1).all);
    REFUSES(TCC_EINVAL, "lstm \"d\": dropout must be in [0, 1), not 1",
            tcc_lstm(x, "d", 2, .layers = 2, .dropout = 1).all);
}

/* What no call at a line says. */
static void types_of_parameters(void **state) {
    fixture *f = *state;
    tcc_trace *t = &f->of.trace;
    tcc_param_type(t, TCC_F64);
    tcc_param_type(t, TCC_BF16);
    assert_int_equal(tcc_get_dtype(tcc_param(t, "b", (tcc_init){0}, TCC_DIMS(2))), TCC_BF16);
    tcc_param_type_end(t);
    assert_int_equal(tcc_get_dtype(tcc_state(t, "d", (tcc_init){0}, TCC_DIMS(2))), TCC_F64);
    REFUSES(TCC_ESHAPE, "\"x\" is asked for as a parameter f64[4,3], but it is a parameter f32[4,3]",
            tcc_param(t, "x", (tcc_init){0}, TCC_DIMS(4, 3)));
    tcc_param_type_end(t);
    assert_int_equal(tcc_get_dtype(tcc_param(t, "f", (tcc_init){0}, TCC_DIMS(2))), TCC_F32);
    tcc_param_type_end(t);
    assert_non_null(strstr(tcc_diag_text(&f->of.cx.diag), "tcc_param_type_end without tcc_param_type"));
    tcc_diag_clear(&f->of.cx.diag);
    tcc_param_type(t, TCC_I32);
    assert_non_null(strstr(tcc_diag_text(&f->of.cx.diag), "parameters are of f16, bf16, f32 or f64, not of i32"));
    tcc_diag_clear(&f->of.cx.diag);
    tcc_graph *g = NULL;
    assert_int_equal(tcc_trace_end(t, &g), TCC_EINVAL);
    assert_non_null(strstr(tcc_diag_text(&f->of.cx.diag), "1 tcc_param_type without tcc_param_type_end"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(options_of_other_losses, begin, end),
                                       cmocka_unit_test_setup_teardown(gradients, begin, end),
                                       cmocka_unit_test_setup_teardown(gradients_leave_the_place, begin, end),
                                       cmocka_unit_test_setup_teardown(gradients_without_memory, begin, end),
                                       cmocka_unit_test_setup_teardown(values_out_of_range, begin, end),
                                       cmocka_unit_test_setup_teardown(shapes_and_types, begin, end),
                                       cmocka_unit_test_setup_teardown(activations_and_reductions, begin, end),
                                       cmocka_unit_test_setup_teardown(shapes_of_functions, begin, end),
                                       cmocka_unit_test_setup_teardown(indices_and_letters, begin, end),
                                       cmocka_unit_test_setup_teardown(layers, begin, end),
                                       cmocka_unit_test_setup_teardown(types_of_parameters, begin, end),
                                       cmocka_unit_test_setup_teardown(narrow_types_are_widened, begin, end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
