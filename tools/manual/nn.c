/* SPDX-License-Identifier: MIT
 * Examples of nn.h. */
#include "examples.h"

TRACED(tcc_scope) {
    tcc_tensor x = tcc_iota(t, 0, TCC_F32, TCC_DIMS(2, 3));
    tcc_scope(t, "h.%d", 0);
    tcc_output(t, "y", tcc_linear(x, "fc1", 4)); /* f32 [2, 4] */
    tcc_scope_end(t);                            /* its parameters are h.0.fc1.weight and h.0.fc1.bias */
}

TRACED(tcc_scope_end) {
    tcc_scope(t, "encoder");
    tcc_scope(t, "layer.%d", 1); /* names begin with encoder.layer.1 */
    tcc_scope_end(t);            /* with encoder */
    tcc_scope_end(t);
}

TRACED(tcc_full_precision) {
    tcc_tensor x = tcc_iota(t, 0, TCC_F32, TCC_DIMS(2, 3));
    tcc_full_precision(t);
    tcc_tensor y = tcc_linear(x, "router", 4); /* in float32 under bf16 and fp16, too */
    tcc_full_precision_end(t);
    tcc_output(t, "y", y); /* f32 [2, 4] */
}

TRACED(tcc_full_precision_end) {
    tcc_tensor x = tcc_iota(t, 0, TCC_F32, TCC_DIMS(2, 3));
    tcc_full_precision(t);
    tcc_tensor weights = tcc_softmax(x, -1);
    tcc_full_precision_end(t);
    tcc_output(t, "y", weights); /* f32 [2, 3] */
}

TRACED(tcc_checkpoint_segment) {
    tcc_tensor x = tcc_iota(t, 0, TCC_F32, TCC_DIMS(2, 3));
    tcc_checkpoint_segment(t);
    tcc_tensor y = tcc_linear(tcc_relu(tcc_linear(x, "up", 12)), "down", 3);
    tcc_checkpoint_segment_end(t);
    tcc_output(t, "y", tcc_add(x, y)); /* f32 [2, 3] */
}

TRACED(tcc_checkpoint_segment_end) {
    tcc_tensor x = tcc_iota(t, 0, TCC_F32, TCC_DIMS(2, 3));
    tcc_checkpoint_segment(t);
    x = tcc_gelu(tcc_linear(x, "fc", 12)); /* computed again in the backward pass */
    tcc_checkpoint_segment_end(t);
    tcc_output(t, "y", x); /* f32 [2, 12] */
}

TRACED(tcc_scope_place) {
    tcc_scope(t, "h.%d", 3);
    printf("%s\n", tcc_scope_place(t, "gpt").file); /* gpt.h.3 */
    tcc_scope_end(t);
}

TRACED(tcc_is_training) { printf("%s\n", tcc_is_training(t) ? "training" : "evaluation"); /* evaluation */ }

TRACED(tcc_param) {
    tcc_tensor scale = tcc_param(t, "scale", ((tcc_init){TCC_INIT_CONSTANT, 0.5, 0, 0}), TCC_DIMS(3));
    tcc_output(t, "y", scale); /* 0.5, 0.5, 0.5 */
}

TRACED(tcc_state) {
    tcc_tensor count = tcc_state(t, "count", ((tcc_init){TCC_INIT_ZEROS, 0, 0, 0}), TCC_DIMS(1));
    tcc_output(t, "y", count); /* 0 */
}

TRACED(tcc_update) {
    tcc_tensor count = tcc_state(t, "count", ((tcc_init){TCC_INIT_ZEROS, 0, 0, 0}), TCC_DIMS(1));
    tcc_update(count, tcc_add_scalar(count, 1)); /* after each training step */
}

TRACED(tcc_linear) {
    tcc_tensor x = tcc_iota(t, 0, TCC_F32, TCC_DIMS(2, 3));
    tcc_output(t, "y", tcc_linear(x, "fc1", 4, .no_bias = true)); /* f32 [2, 4] */
}

TRACED(tcc_conv_layer) {
    tcc_tensor x = tcc_iota(t, -1, TCC_F32, TCC_DIMS(1, 3, 8, 8));
    tcc_output(t, "y", tcc_conv_layer(x, "conv1", 16, 3, .padding = 1, .stride = 2)); /* f32 [1, 16, 4, 4] */
}

TRACED(tcc_embedding) {
    tcc_tensor tokens = tcc_literal(t, ((double[]){3, 0, 3}), TCC_I32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_embedding(tokens, "wte", 10, 4, NULL)); /* f32 [3, 4] */
}

TRACED(tcc_layer_norm) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(1, 3));
    tcc_output(t, "y", tcc_layer_norm(x, "ln")); /* -1.225, 0, 1.225 */
}

TRACED(tcc_rms_norm) {
    tcc_tensor x = tcc_literal(t, ((double[]){3, 4}), TCC_F32, TCC_DIMS(1, 2));
    tcc_output(t, "y", tcc_rms_norm(x, "norm")); /* 0.8485, 1.131 */
}

TRACED(tcc_group_norm) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 3, 10, 30}), TCC_F32, TCC_DIMS(1, 4));
    tcc_output(t, "y", tcc_group_norm(x, "gn", 2)); /* -1, 1, -1, 1 */
}

TRACED(tcc_batch_norm) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2}), TCC_F32, TCC_DIMS(2, 1));
    tcc_output(t, "y", tcc_batch_norm(x, "bn", .momentum = 0.01)); /* 1, 2 */
}

TRACED(tcc_dropout) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_dropout(x, 0.5)); /* 1, 2, 3 */
}

TRACED(tcc_param_type) {
    tcc_tensor x = tcc_constant(t, 1, TCC_F64, TCC_DIMS(2, 3));
    tcc_param_type(t, TCC_F64);
    tcc_output(t, "y", tcc_linear(x, "fc1", 4)); /* f64 [2, 4] */
    tcc_param_type_end(t);
}

TRACED(tcc_param_type_end) {
    tcc_tensor x = tcc_constant(t, 1, TCC_F64, TCC_DIMS(2, 3));
    tcc_param_type(t, TCC_F64);
    x = tcc_linear(x, "in f64", 4);
    tcc_param_type_end(t);
    tcc_output(t, "y", tcc_linear(tcc_cast(x, TCC_F32), "in f32", 4)); /* f32 [2, 4] */
}

TRACED(tcc_conv_transpose_layer) {
    tcc_tensor x = tcc_constant(t, 1, TCC_F32, TCC_DIMS(1, 16, 4, 4));
    tcc_output(t, "y", tcc_conv_transpose_layer(x, "up", 8, 2, .stride = 2)); /* f32 [1, 8, 8, 8] */
}

TRACED(tcc_instance_norm) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 3, 10, 30}), TCC_F32, TCC_DIMS(1, 2, 2));
    tcc_output(t, "y", tcc_instance_norm(x, "in")); /* -1, 1, -1, 1 */
}

TRACED(tcc_multi_head_attention) {
    tcc_tensor x = tcc_iota(t, -1, TCC_F32, TCC_DIMS(2, 5, 8));
    tcc_output(t, "y", tcc_multi_head_attention(x, x, x, "attn", 4, .causal = true)); /* f32 [2, 5, 8] */
}

TRACED(tcc_lstm) {
    tcc_tensor x = tcc_iota(t, -1, TCC_F32, TCC_DIMS(5, 2, 3));
    tcc_recurrent_states s = tcc_lstm(x, "lstm", 4);
    tcc_output(t, "all", s.all); /* f32 [5, 2, 4] */
    tcc_output(t, "last", s.h);  /* f32 [1, 2, 4] */
}

TRACED(tcc_gru) {
    tcc_tensor x = tcc_iota(t, -1, TCC_F32, TCC_DIMS(2, 5, 3));
    tcc_recurrent_states s = tcc_gru(x, "gru", 4, .batch_first = true, .bidirectional = true);
    tcc_output(t, "all", s.all); /* f32 [2, 5, 8] */
}
