/* SPDX-License-Identifier: MIT
 * Loops over several values, over the frames of a sequence, and turns of random operations. */
#include "harness/loop_kinds.h"

/* -- Turns that read values of earlier turns, too -- */

static tcc_tensor laplace(tcc_tensor u) {
    return tcc_add(tcc_add(tcc_roll(u, 1, 1), tcc_roll(u, 1, -1)), tcc_scale(u, -2));
}

static tcc_tensor wave(loop_program *p, tcc_tensor u) {
    tcc_tensor before = u;
    const bool damped = loop_below(p, 2);
    for (int i = 0; i < p->turns; i++) {
        tcc_tensor next = tcc_add(tcc_sub(tcc_scale(u, 2), before), tcc_scale(laplace(u), 0.2));
        if (damped) next = tcc_sub(next, tcc_scale(tcc_sub(u, before), 0.01));
        before = u, u = next;
    }
    return u;
}

static tcc_tensor momentum(loop_program *p, tcc_tensor x) {
    tcc_tensor y = tcc_scale(x, 0.5), v = tcc_scale(x, 0), s = tcc_add_scalar(v, 1);
    const bool adapts = loop_below(p, 2);
    for (int i = 0; i < p->turns; i++) {
        tcc_tensor slope = tcc_add(tcc_sub(y, x), tcc_scale(tcc_cos(y), 0.3));
        v = tcc_add(tcc_scale(v, 0.9), slope);
        s = tcc_add(tcc_scale(s, 0.99), tcc_scale(tcc_square(slope), 0.01));
        y = tcc_sub(y, tcc_scale(adapts ? tcc_mul(v, tcc_rsqrt(tcc_add_scalar(s, 1e-6))) : v, 0.01));
    }
    return y;
}

static tcc_tensor chebyshev(loop_program *p, tcc_tensor x) {
    tcc_tensor before = tcc_full_like(x, 1), last = tcc_tanh(x), sum = last, y = last;
    const int64_t every = 1 + loop_below(p, 4);
    for (int i = 0; i < p->turns; i++) {
        tcc_tensor next = tcc_sub(tcc_scale(tcc_mul(y, last), 2), before);
        before = last, last = next;
        if (i % every == 0) sum = tcc_add(sum, tcc_scale(next, 1.0 / (i + 1)));
    }
    return sum;
}

static tcc_tensor predators(loop_program *p, tcc_tensor x) {
    tcc_tensor a = tcc_sigmoid(x), b = tcc_add_scalar(tcc_neg(a), 1);
    const double h = 0.01 * (double)(1 + loop_below(p, 5));
    for (int i = 0; i < p->turns; i++) {
        tcc_tensor both = tcc_mul(a, b), next = tcc_add(a, tcc_scale(tcc_sub(a, both), h));
        b = tcc_add(b, tcc_scale(tcc_sub(both, b), h));
        a = next;
    }
    return tcc_add(a, b);
}

static tcc_tensor all_before(loop_program *p, tcc_tensor x) {
    const int most = p->turns < 40 ? p->turns : 40;
    tcc_tensor sum = x, y = x;
    for (int i = 0; i < most; i++) {
        y = tcc_tanh(tcc_scale(sum, 1.0 / (i + 1)));
        sum = tcc_add(sum, y);
    }
    return y;
}

/* -- Turns with sums -- */

static tcc_tensor balance(loop_program *p, tcc_tensor x) {
    const bool logs = loop_below(p, 2);
    tcc_tensor y = logs ? x : tcc_exp(x);
    for (int i = 0; i < p->turns; i++)
        for (int axis = 1; axis >= 0; axis--)
            y = logs ? tcc_sub(y, tcc_logsumexp(y, TCC_KEEP(axis))) : tcc_div(y, tcc_sum(y, TCC_KEEP(axis)));
    return y;
}

static tcc_tensor standardize(loop_program *p, tcc_tensor y) {
    const int64_t how = loop_below(p, 3);
    for (int i = 0; i < p->turns; i++) {
        if (how == 0) y = tcc_sub(y, tcc_scale(tcc_mean(y, TCC_KEEP(1)), 0.5));
        else if (how == 1) y = tcc_add(tcc_scale(y, 0.9), tcc_softmax(tcc_scale(y, 1.1), 1));
        else y = tcc_mul(y, tcc_rsqrt(tcc_add_scalar(tcc_mean(tcc_square(y), TCC_KEEP(1)), 1e-5)));
        if (i % 4 == 3) y = tcc_tanh(y);
    }
    return y;
}

static tcc_tensor running(loop_program *p, tcc_tensor y) {
    const int most = p->turns < 100 ? p->turns : 100;
    for (int i = 0; i < most; i++) y = tcc_tanh(tcc_scale(tcc_cumsum(i % 2 ? tcc_flip(y, 1) : y, 1), 0.1));
    return y;
}

/* At most 64 columns: a square matrix of all would be large. */
static tcc_tensor first_columns(tcc_tensor x) {
    const int64_t n = tcc_dim(x, 1);
    return tcc_slice(x, 1, 0, n < 64 ? n : 64);
}

static tcc_tensor power(loop_program *p, tcc_tensor x) {
    tcc_tensor y = first_columns(x);
    (void)p;
    for (int i = 0; i < p->turns; i++) y = tcc_normalize(tcc_linear(y, "matrix", tcc_dim(y, 1), .no_bias = true), 2, 1);
    return y;
}

static tcc_tensor deep(loop_program *p, tcc_tensor x) {
    const int64_t norm = loop_below(p, 3), shared = loop_below(p, 2);
    tcc_tensor y = first_columns(x);
    for (int i = 0; i < p->turns; i++) {
        if (!shared) tcc_scope(y.trace, "block.%d", i);
        tcc_tensor h = norm == 0 ? tcc_layer_norm(y, "norm") : norm == 1 ? tcc_rms_norm(y, "norm") : y;
        h = tcc_linear(h, "up", tcc_dim(y, 1));
        y = tcc_add(y, i % 2 ? tcc_gelu(h) : tcc_relu(h));
        if (!shared) tcc_scope_end(y.trace);
    }
    return y;
}

/* -- Turns that move parts -- */

static tcc_tensor butterfly(loop_program *p, tcc_tensor x) {
    tcc_tensor y = tcc_slice(x, 1, 0, tcc_dim(x, 1) / 2 * 2);
    const int64_t n = tcc_dim(y, 1);
    const bool strided = loop_below(p, 2);
    for (int i = 0; i < p->turns; i++) {
        tcc_tensor a = strided ? tcc_slice_strided(y, 1, 0, n, 2) : tcc_slice(y, 1, 0, n / 2);
        tcc_tensor b = strided ? tcc_slice_strided(y, 1, 1, n, 2) : tcc_slice(y, 1, n / 2, n);
        y = tcc_scale(tcc_concat(((tcc_tensor[]){tcc_add(a, b), tcc_sub(a, b)}), 2, 1), 0.7);
    }
    return y;
}

static tcc_tensor exchange(loop_program *p, tcc_tensor x) {
    tcc_tensor y = x;
    (void)p;
    for (int i = 0; i < p->turns; i++) { /* odd-even transposition sort */
        tcc_tensor left = tcc_roll(y, 1, 1), right = tcc_roll(y, 1, -1);
        tcc_tensor at = tcc_iota(y.trace, 1, TCC_I32, TCC_DIMS(tcc_dim(y, 0), tcc_dim(y, 1)));
        at = tcc_rem(tcc_add_scalar(at, i % 2), tcc_full_like(at, 2));
        y = tcc_select(tcc_eq(at, tcc_full_like(at, 0)), tcc_min(y, right), tcc_max(y, left));
    }
    return y;
}

static tcc_tensor neighbors(loop_program *p, tcc_tensor u) {
    const bool wide = loop_below(p, 2);
    for (int i = 0; i < p->turns; i++) {
        tcc_tensor sum = tcc_add(tcc_roll(u, 0, 1), tcc_roll(u, 1, -1));
        if (wide) sum = tcc_add(sum, tcc_add(loop_shifted(u, 1, 2), tcc_roll(tcc_roll(u, 0, -1), 1, 1)));
        u = tcc_sigmoid(tcc_sub(sum, u));
    }
    return u;
}

static tcc_tensor taps(loop_program *p, tcc_tensor x) {
    tcc_tensor sum = x;
    const int64_t n = tcc_dim(x, 1), step = 1 + loop_below(p, 3);
    for (int64_t i = 1; i < p->turns && i * step < n; i++)
        sum = tcc_add(sum, tcc_scale(loop_shifted(x, 1, i * step), 1.0 / (double)(i + 1)));
    return tcc_tanh(sum);
}

static tcc_tensor stacked(loop_program *p, tcc_tensor x) {
    tcc_tensor all[100], y = x;
    const int most = p->turns < 100 ? p->turns : 100;
    for (int i = 0; i < most; i++) all[i] = y = tcc_tanh(tcc_scale(y, 1.1));
    tcc_tensor stack = tcc_stack(all, most, 0);
    return loop_below(p, 2) ? tcc_mean(stack, TCC_DIMS(0)) : tcc_reduce_max(stack, TCC_DIMS(0));
}

static tcc_tensor noisy(loop_program *p, tcc_tensor y) {
    (void)p;
    for (int i = 0; i < p->turns; i++) {
        tcc_scope(y.trace, "turn.%d", i);
        tcc_tensor noise = tcc_random_normal(y.trace, "noise", 0, 1, TCC_F32, TCC_DIMS(tcc_dim(y, 0), tcc_dim(y, 1)));
        tcc_scope_end(y.trace);
        y = tcc_add(tcc_scale(y, 0.99), tcc_scale(noise, 0.1));
    }
    return y;
}

static tcc_tensor stops(loop_program *p, tcc_tensor y) {
    const double limit = 1 + (double)loop_below(p, 4);
    for (int i = 0; i < p->turns; i++) {
        tcc_tensor small = tcc_lt(tcc_abs(y), tcc_full_like(y, limit));
        y = tcc_select(small, tcc_add(tcc_square(y), tcc_scale(y, 0.1)), y);
    }
    return y;
}

/* -- Sequences -- */

static tcc_tensor filter(loop_program *p, tcc_tensor x) {
    tcc_tensor mean = tcc_scale(loop_frame(x, 0), 0), var = tcc_add_scalar(mean, 1), sum = mean;
    (void)p;
    for (int64_t t = 0; t < tcc_dim(x, 0); t++) {
        tcc_tensor off = tcc_sub(loop_frame(x, t), mean);
        tcc_tensor gain = tcc_div(var, tcc_add_scalar(var, 0.5));
        mean = tcc_add(mean, tcc_mul(gain, off));
        var = tcc_add_scalar(tcc_mul(var, tcc_add_scalar(tcc_neg(gain), 1)), 0.01);
        sum = tcc_add(sum, tcc_mul(tcc_square(off), gain));
    }
    return tcc_add(sum, mean);
}

static tcc_tensor field(loop_program *p, tcc_tensor x) { /* a conditional random field's log of the sum over all ways */
    const int64_t n = tcc_dim(x, 1), c = tcc_dim(x, 2) < 16 ? tcc_dim(x, 2) : 16;
    const bool best = loop_below(p, 3) == 0;
    tcc_tensor ways = tcc_param(x.trace, "ways", (tcc_init){TCC_INIT_NORMAL, .b = 0.1}, TCC_DIMS(1, c, c));
    tcc_tensor y = tcc_slice(loop_frame(x, 0), 1, 0, c);
    for (int64_t t = 1; t < tcc_dim(x, 0); t++) {
        tcc_tensor all = tcc_add(tcc_reshape(y, TCC_DIMS(n, c, 1)), ways);
        y = best ? tcc_reduce_max(all, TCC_DIMS(1)) : tcc_logsumexp(all, TCC_DIMS(1));
        y = tcc_add(y, tcc_slice(loop_frame(x, t), 1, 0, c));
    }
    return y;
}

static tcc_tensor looks(loop_program *p, tcc_tensor x) { /* a decoder that weighs all frames in each turn */
    const int64_t d = tcc_dim(x, 2);
    const int most = p->turns < 50 ? p->turns : 50;
    tcc_tensor y = loop_frame(x, 0);
    for (int i = 0; i < most; i++) {
        tcc_tensor score = tcc_sum(tcc_mul(x, tcc_reshape(y, TCC_DIMS(1, tcc_dim(x, 1), d))), TCC_KEEP(2));
        tcc_tensor read = tcc_sum(tcc_mul(tcc_softmax(score, 0), x), TCC_DIMS(0));
        y = tcc_tanh(tcc_add(tcc_linear(y, "own", d), read));
    }
    return y;
}

static tcc_tensor memory(loop_program *p, tcc_tensor x) {
    const bool batch = loop_below(p, 2);
    tcc_recurrent_states s = tcc_lstm(x, "cell", tcc_dim(x, 2));
    return batch ? tcc_reshape(tcc_mean(s.all, TCC_DIMS(0)), TCC_DIMS(tcc_dim(x, 1), tcc_dim(x, 2))) : s.h;
}

static tcc_tensor warps(loop_program *p, tcc_tensor x) { /* dynamic time warping without its inner chain */
    tcc_tensor y = loop_frame(x, 0);
    (void)p;
    for (int64_t t = 1; t < tcc_dim(x, 0); t++)
        y = tcc_add(tcc_square(loop_frame(x, t)),
                    tcc_min(y, tcc_pad(tcc_slice(y, 1, 0, tcc_dim(y, 1) - 1), 1, 1, 0, 1e9)));
    return y;
}

/* -- Turns of random operations, the same ones in each, on three values -- */

enum { VALUES = 3, MOST_STEPS = 6, STEPS = 17 };

static tcc_tensor random_step(int64_t op, int64_t by, tcc_tensor a, tcc_tensor b) {
    switch (op) {
    case 0: return tcc_add(tcc_scale(a, 0.7), tcc_scale(b, 0.3));
    case 1: return tcc_mul(tcc_tanh(a), b);
    case 2: return tcc_sigmoid(tcc_add(a, b));
    case 3: return tcc_add(tcc_scale(a, 0.9), tcc_scale(loop_shifted(b, 1, by), 0.1));
    case 4: return tcc_sub(a, tcc_scale(tcc_roll(b, 1, by), 0.2));
    case 5: return tcc_max(a, tcc_flip(b, 1));
    case 6: return tcc_sub(a, tcc_scale(tcc_mean(b, TCC_KEEP(1)), 0.1));
    case 7: return tcc_select(tcc_gt(a, b), a, tcc_scale(b, 0.5));
    case 8: return tcc_add(a, tcc_softmax(b, 1));
    case 9: return tcc_mul(a, tcc_rsqrt(tcc_add_scalar(tcc_square(b), 1)));
    case 10: return tcc_add(tcc_exp(tcc_neg(tcc_square(a))), b);
    case 11: return tcc_add(a, tcc_scale(tcc_cumsum(b, 1), 0.01));
    case 12: return tcc_min(tcc_roll(a, 0, 1), b);
    case 13: return tcc_add(tcc_sin(a), tcc_cos(b));
    case 14: return tcc_sub(tcc_scale(a, 0.5), tcc_scale(loop_shifted(tcc_add(a, b), 1, by), 0.25));
    case 15: return tcc_div(a, tcc_add_scalar(tcc_reduce_max(tcc_abs(b), TCC_KEEP(1)), 1));
    default: return tcc_mul(a, tcc_add_scalar(tcc_neg(b), 1));
    }
}

static tcc_tensor random_turns(loop_program *p, tcc_tensor x) {
    tcc_tensor v[VALUES] = {x, tcc_tanh(x), tcc_scale(x, 0.5)};
    struct {
        int64_t op, by, a, b, to;
    } steps[MOST_STEPS];
    const int n = 1 + (int)loop_below(p, MOST_STEPS), most = p->turns < 300 ? p->turns : 300;
    for (int i = 0; i < n; i++) {
        steps[i].op = loop_below(p, STEPS), steps[i].by = 1 + loop_below(p, 8);
        steps[i].a = loop_below(p, VALUES), steps[i].b = loop_below(p, VALUES), steps[i].to = loop_below(p, VALUES);
    }
    for (int turn = 0; turn < most; turn++)
        for (int i = 0; i < n; i++)
            v[steps[i].to] = random_step(steps[i].op, steps[i].by, v[steps[i].a], v[steps[i].b]);
    return tcc_add(v[0], tcc_mul(v[1], v[2]));
}

const loop_kind loop_kinds_states[] = {
    {"wave", wave, 2},
    {"momentum", momentum, 2},
    {"chebyshev", chebyshev, 2},
    {"predators", predators, 2},
    {"all before", all_before, 2},
    {"balance", balance, 2},
    {"standardize", standardize, 2},
    {"running", running, 2},
    {"power", power, 2},
    {"deep", deep, 2},
    {"butterfly", butterfly, 2},
    {"exchange", exchange, 2},
    {"neighbors", neighbors, 2},
    {"taps", taps, 2},
    {"stacked", stacked, 2},
    {"noisy", noisy, 2},
    {"stops", stops, 2},
    {"filter", filter, 3},
    {"field", field, 3},
    {"looks", looks, 3},
    {"memory", memory, 3},
    {"warps", warps, 3},
    {"random", random_turns, 2},
    {"random", random_turns, 2},
    {"random", random_turns, 2},
    {"random", random_turns, 2},
};
const int n_loop_kinds_states = sizeof loop_kinds_states / sizeof loop_kinds_states[0];
