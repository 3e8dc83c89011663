/* SPDX-License-Identifier: MIT */
#include "harness/layer_cases.h"

tcc_tensor energy(tcc_tensor x) { return tcc_sum(tcc_mul(x, x), TCC_ALL); }

/* All states side by side. */
static tcc_tensor states(tcc_recurrent_states s) {
    tcc_tensor parts[] = {s.all, s.h, s.c};
    const int count = s.c.node ? 3 : 2;
    for (int i = 0; i < count; i++) parts[i] = tcc_reshape(parts[i], TCC_DIMS(-1));
    return tcc_concat(parts, count, 0);
}

tcc_tensor lstm_states(const tcc_tensor *x) { return states(tcc_lstm(x[0], "m", 5, .h0 = x[1], .c0 = x[2])); }

tcc_tensor lstm_two(const tcc_tensor *x) {
    return states(tcc_lstm(x[0], "m", 3, .layers = 2, .bidirectional = true, .h0 = x[1], .c0 = x[2]));
}

tcc_tensor lstm_batch_first(const tcc_tensor *x) {
    return states(tcc_lstm(x[0], "m", 2, .layers = 2, .bidirectional = true, .batch_first = true, .no_bias = true));
}

tcc_tensor lstm_one_step(const tcc_tensor *x) { return states(tcc_lstm(x[0], "m", 1)); }

tcc_tensor gru_two(const tcc_tensor *x) {
    return states(tcc_gru(x[0], "m", 3, .layers = 2, .bidirectional = true, .h0 = x[1]));
}

tcc_tensor group_attention_gradient(const tcc_tensor *x) {
    return tcc_gradient(energy(tcc_attention(x[0], x[1], x[1])), x[1]);
}

tcc_tensor few_keys_gradient(const tcc_tensor *x) {
    return tcc_gradient(energy(tcc_attention(x[0], x[1], x[1], .causal = true)), x[1]);
}
