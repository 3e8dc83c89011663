/* SPDX-License-Identifier: MIT
 * Networks that use a gradient, so that their own is of second order; beside golden/second_order.py. */
#include "harness/second_order.h"
#include "harness/layer_cases.h"

static tcc_tensor square(tcc_tensor x) { return tcc_mul(x, x); }

/* x [N, D], w1 [D, H], w2 [H, 1]: the sum of a value for each row. */
static tcc_tensor tanh_network(tcc_tensor x, tcc_tensor w1, tcc_tensor w2) {
    return tcc_sum(tcc_matmul(tcc_tanh(tcc_matmul(x, w1)), w2), TCC_ALL);
}

tcc_tensor input_gradient(const tcc_tensor *x) { return tcc_gradient(tanh_network(x[0], x[1], x[2]), x[0]); }

/* Burgers' equation, u_t + u u_x - 0.1 u_xx, of a network u(x, t). */
tcc_tensor physics_informed(const tcc_tensor *x) {
    const tcc_tensor place = x[0], time = x[1], w = x[2], v = x[3];
    const tcc_tensor both = tcc_concat(((tcc_tensor[]){place, time}), 2, 1);
    const tcc_tensor u = tcc_matmul(tcc_tanh(tcc_matmul(both, w)), v);
    const tcc_tensor by[2] = {place, time};
    tcc_tensor first[2];
    tcc_gradients(tcc_sum(u, TCC_ALL), by, 2, first);
    const tcc_tensor second = tcc_gradient(tcc_sum(first[0], TCC_ALL), place);
    return tcc_sub(tcc_add(first[1], tcc_mul(u, first[0])), tcc_scale(second, 0.1));
}

/* (|gradient| - 1)^2 of a convolutional critic, an image each (Gulrajani et al. 2017). */
tcc_tensor gradient_penalty(const tcc_tensor *x) {
    tcc_tensor h = tcc_leaky_relu(tcc_conv(x[0], x[1], .stride = 2, .padding = 1), 0.2);
    h = tcc_matmul(tcc_reshape(h, TCC_DIMS(2, -1)), x[2]);
    const tcc_tensor gradient = tcc_gradient(tcc_sum(h, TCC_ALL), x[0]);
    const tcc_tensor norm = tcc_norm(tcc_reshape(gradient, TCC_DIMS(2, -1)), 2, TCC_DIMS(1));
    return square(tcc_add_scalar(norm, -1));
}

/* v (ds/dx) v + |s|^2 / 2 of a score s(x) (Song et al. 2019). */
tcc_tensor score_matching(const tcc_tensor *x) {
    const tcc_tensor s = tcc_matmul(tcc_silu(tcc_matmul(x[0], x[1])), x[2]);
    const tcc_tensor along = tcc_gradient(tcc_sum(tcc_mul(s, x[3]), TCC_ALL), x[0]);
    const tcc_tensor trace = tcc_sum(tcc_mul(along, x[3]), TCC_DIMS(1));
    return tcc_add(trace, tcc_scale(tcc_sum(square(s), TCC_DIMS(1)), 0.5));
}

/* x [B, T, D], w [D, 3 D]: causal self-attention. */
tcc_tensor attention_gradient(const tcc_tensor *x) {
    tcc_tensor parts[3];
    tcc_chunk(tcc_scale(tcc_matmul(x[0], x[1]), 0.25), 2, 3, parts);
    const tcc_tensor y = tcc_attention(parts[0], parts[1], parts[2], .causal = true);
    return tcc_gradient(energy(y), x[0]);
}

tcc_tensor layer_norm_gradient(const tcc_tensor *x) {
    const tcc_tensor mean = tcc_expand_dims(tcc_mean(x[0], TCC_DIMS(1)), TCC_DIMS(1));
    const tcc_tensor variance = tcc_expand_dims(tcc_var(x[0], 0, TCC_DIMS(1)), TCC_DIMS(1));
    const tcc_tensor n = tcc_mul(tcc_sub(x[0], mean), tcc_rsqrt(tcc_add_scalar(variance, 1e-5)));
    return tcc_gradient(energy(tcc_gelu(tcc_matmul(n, x[1]))), x[0]);
}

/* x [N, C, H, W], w [O, C, 3, 3]. */
tcc_tensor pooled_convolution(const tcc_tensor *x) {
    const tcc_tensor h = tcc_softplus(tcc_max_pool(tcc_conv(x[0], x[1], .padding = 1), 2));
    return tcc_gradient(energy(h), x[0]);
}

/* The Hessian of a cross-entropy by w, times v. */
tcc_tensor hessian_vector(const tcc_tensor *x) {
    const tcc_tensor loss = tcc_cross_entropy(tcc_matmul(x[0], x[1]), x[2], .label_smoothing = 0.1);
    const tcc_tensor gradient = tcc_gradient(loss, x[1]);
    return tcc_gradient(tcc_sum(tcc_mul(gradient, x[3]), TCC_ALL), x[1]);
}

/* x [T, N, D], w [D, 4 H], u [H, 4 H]: what the last output of an LSTM says of each input. */
tcc_tensor recurrent_saliency(const tcc_tensor *x) {
    tcc_tensor h = tcc_scale(tcc_matmul(tcc_reshape(tcc_slice(x[0], 0, 0, 1), TCC_DIMS(2, 3)), x[3]), 0.5);
    tcc_tensor c = tcc_scale(h, 0.3);
    for (int t = 0; t < 3; t++) {
        const tcc_tensor step = tcc_reshape(tcc_slice(x[0], 0, t, t + 1), TCC_DIMS(2, 3));
        tcc_tensor gates[4];
        tcc_chunk(tcc_add(tcc_matmul(step, x[1]), tcc_matmul(h, x[2])), 1, 4, gates);
        c = tcc_add(tcc_mul(tcc_sigmoid(gates[1]), c), tcc_mul(tcc_sigmoid(gates[0]), tcc_tanh(gates[2])));
        h = tcc_mul(tcc_sigmoid(gates[3]), tcc_tanh(c));
    }
    return tcc_gradient(energy(h), x[0]);
}

/* Rows i of a table, and the gradient by the table. */
tcc_tensor embedding_gradient(const tcc_tensor *x) {
    const tcc_tensor h = tcc_sin(tcc_matmul(tcc_take(x[0], x[1], 0), x[2]));
    return tcc_gradient(energy(h), x[0]);
}

/* The loss after a step of gradient descent, by the parameters before it (Finn et al. 2017). */
tcc_tensor meta_learning(const tcc_tensor *x) {
    tcc_tensor w[2] = {x[2], x[3]}, gradients[2];
    tcc_gradients(tcc_mse_loss(tcc_matmul(tcc_tanh(tcc_matmul(x[0], w[0])), w[1]), x[1]), w, 2, gradients);
    for (int i = 0; i < 2; i++) w[i] = tcc_sub(w[i], tcc_scale(gradients[i], 0.1));
    return tcc_mse_loss(tcc_matmul(tcc_tanh(tcc_matmul(tcc_neg(x[0]), w[0])), w[1]), x[1],
                        .reduction = TCC_REDUCE_NONE);
}

/* The same with the gradients as constants (first-order MAML). */
tcc_tensor meta_learning_first_order(const tcc_tensor *x) {
    tcc_tensor w[2] = {x[2], x[3]}, gradients[2];
    tcc_gradients(tcc_mse_loss(tcc_matmul(tcc_tanh(tcc_matmul(x[0], w[0])), w[1]), x[1]), w, 2, gradients);
    for (int i = 0; i < 2; i++) w[i] = tcc_sub(w[i], tcc_scale(tcc_stop_gradient(gradients[i]), 0.1));
    return tcc_mse_loss(tcc_matmul(tcc_tanh(tcc_matmul(tcc_neg(x[0]), w[0])), w[1]), x[1],
                        .reduction = TCC_REDUCE_NONE);
}
