/* SPDX-License-Identifier: MIT
 * Loops that each have one shape of turn. */
#include "harness/loop_kinds.h"

int64_t loop_below(loop_program *p, int64_t n) {
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((p->random >> 33) % (uint64_t)n);
}

/* -- Turns that read the last one's value at other indices -- */

tcc_tensor loop_shifted(tcc_tensor y, int axis, int64_t by) {
    const int64_t n = tcc_dim(y, axis);
    return tcc_pad(tcc_slice(y, axis, 0, n - by), axis, by, 0, 0);
}

static tcc_tensor smooth(loop_program *p, tcc_tensor y) {
    const int64_t most = loop_below(p, 5);
    for (int i = 0; i < p->turns; i++) {
        const int64_t by = (int64_t)1 << (i % (most + 1));
        y = tcc_add(tcc_scale(y, 0.9), tcc_scale(loop_shifted(y, 1, by), 0.1));
    }
    return y;
}

static tcc_tensor heat(loop_program *p, tcc_tensor u) {
    const bool around = loop_below(p, 2);
    for (int i = 0; i < p->turns; i++) {
        tcc_tensor left = around ? tcc_roll(u, 1, 1) : loop_shifted(u, 1, 1), right = tcc_roll(u, 1, -1);
        u = tcc_add(u, tcc_scale(tcc_add(tcc_add(left, right), tcc_scale(u, -2)), 0.1));
    }
    return u;
}

static tcc_tensor narrow(loop_program *p, tcc_tensor u) {
    for (int i = 0; i < p->turns && tcc_dim(u, 1) > 4; i++) {
        const int64_t n = tcc_dim(u, 1);
        u = tcc_add(tcc_slice(u, 1, 0, n - 1), tcc_scale(tcc_slice(u, 1, 1, n), 0.5));
    }
    return u;
}

static tcc_tensor mirror(loop_program *p, tcc_tensor y) {
    for (int i = 0; i < p->turns; i++) {
        tcc_tensor other = i % 3 == 2 ? tcc_roll(y, 1, 1 + loop_below(p, 8)) : tcc_flip(y, i % 2);
        y = tcc_add(tcc_tanh(y), tcc_scale(other, 0.5));
    }
    return y;
}

static tcc_tensor permute(loop_program *p, tcc_tensor y) {
    const int64_t n = tcc_dim(y, 1), step = 1 + 2 * loop_below(p, 8);
    tcc_tensor at = tcc_iota(y.trace, 0, TCC_I32, TCC_DIMS(n));
    at = tcc_rem(tcc_scale(at, (double)step), tcc_full_like(at, (double)n));
    for (int i = 0; i < p->turns; i++) y = tcc_add(tcc_scale(y, 0.5), tcc_mul(tcc_take(y, at, 1), tcc_sigmoid(y)));
    return y;
}

static tcc_tensor queue(loop_program *p, tcc_tensor y) {
    for (int i = 0; i < p->turns; i++) {
        const int64_t n = tcc_dim(y, 1);
        tcc_tensor next = tcc_mul(tcc_slice(y, 1, n - 1, n), tcc_tanh(tcc_slice(y, 1, 0, 1)));
        y = tcc_concat(((tcc_tensor[]){tcc_slice(y, 1, 1, n), next}), 2, 1);
    }
    return y;
}

static tcc_tensor products(loop_program *p, tcc_tensor x) {
    tcc_tensor y = tcc_cumprod(x, 1);
    if (loop_below(p, 2)) y = tcc_cumprod(tcc_add_scalar(tcc_tanh(y), 1), 1);
    return y;
}

static tcc_tensor product(loop_program *p, tcc_tensor x) {
    (void)p;
    return tcc_prod(x, TCC_DIMS(1));
}

static tcc_tensor extremes(loop_program *p, tcc_tensor x) {
    (void)p;
    return tcc_mul(tcc_cummax(x, 1, NULL), tcc_cumsum(x, 1));
}

/* -- Turns whose value several others read -- */

static tcc_tensor ode(loop_program *p, tcc_tensor y) {
    const double h = 0.05;
    const bool net = loop_below(p, 2);
    for (int i = 0; i < p->turns; i++) {
        tcc_tensor k[4], at = y;
        for (int s = 0; s < 4; s++) {
            k[s] = net ? tcc_tanh(tcc_linear(at, "field", tcc_dim(y, 1))) : tcc_mul(at, tcc_add_scalar(tcc_neg(at), 1));
            at = tcc_add(y, tcc_scale(k[s], s == 2 ? h : h / 2));
        }
        tcc_tensor sum = tcc_add(tcc_add(k[0], k[3]), tcc_scale(tcc_add(k[1], k[2]), 2));
        y = tcc_add(y, tcc_scale(sum, h / 6));
    }
    return y;
}

static tcc_tensor logistic(loop_program *p, tcc_tensor y) {
    for (int i = 0; i < p->turns; i++) y = tcc_mul(tcc_scale(y, 3.2), tcc_add_scalar(tcc_neg(y), 1));
    return y;
}

tcc_tensor loop_frame(tcc_tensor x, int64_t t) {
    return tcc_reshape(tcc_slice(x, 0, t, t + 1), TCC_DIMS(tcc_dim(x, 1), tcc_dim(x, 2)));
}

static tcc_tensor linear_recurrence(loop_program *p, tcc_tensor x) {
    tcc_tensor h = tcc_scale(loop_frame(x, 0), 0.5), sum = h;
    for (int64_t t = 1; t < tcc_dim(x, 0); t++) {
        h = tcc_add(tcc_mul(h, tcc_sigmoid(loop_frame(x, t))), loop_frame(x, t));
        if (t % 2) sum = tcc_add(sum, h);
    }
    return loop_below(p, 2) ? tcc_add(sum, h) : h;
}

static tcc_tensor cells(loop_program *p, tcc_tensor x) {
    if (loop_below(p, 2)) return tcc_gru(x, "cell", tcc_dim(x, 2)).h;
    tcc_tensor h = tcc_scale(loop_frame(x, 0), 0);
    for (int64_t t = 0; t < tcc_dim(x, 0); t++)
        h = tcc_tanh(tcc_add(tcc_linear(h, "hidden", tcc_dim(x, 2)), loop_frame(x, t)));
    return h;
}

static tcc_tensor ctc(loop_program *p, tcc_tensor x) {
    const int64_t frames = tcc_dim(x, 0), n = tcc_dim(x, 1), labels = 1 + frames / 5;
    (void)p;
    tcc_tensor text = tcc_iota(x.trace, 1, TCC_I32, TCC_DIMS(n, labels)), ones = tcc_add_scalar(tcc_scale(text, 0), 1);
    tcc_tensor of_frames = tcc_add_scalar(tcc_iota(x.trace, 0, TCC_I32, TCC_DIMS(n)), (double)(frames - n));
    tcc_tensor of_labels = tcc_add_scalar(tcc_scale(of_frames, 0), (double)labels);
    return tcc_ctc_loss(tcc_log_softmax(x, -1), ones, of_frames, of_labels);
}

const loop_kind loop_kinds[] = {
    {"smooth", smooth, 2},     {"heat", heat, 2},         {"narrow", narrow, 2},
    {"mirror", mirror, 2},     {"permute", permute, 2},   {"queue", queue, 2},
    {"products", products, 2}, {"product", product, 2},   {"extremes", extremes, 2},
    {"ode", ode, 2},           {"logistic", logistic, 2}, {"linear recurrence", linear_recurrence, 3},
    {"cells", cells, 3},       {"ctc", ctc, 3},
};
const int n_loop_kinds = sizeof loop_kinds / sizeof loop_kinds[0];
