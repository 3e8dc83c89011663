/* SPDX-License-Identifier: MIT
 * Recurrent layers, step by step: the product of all steps with the input weights is one, and a step has one with the
 * hidden weights, for all gates together.
 *
 * With z = W_ih x + b_ih and u = W_hh h + b_hh, in parts for the gates:
 *   LSTM   c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c), of i, f, g, o = z + u
 *   GRU    h = n + sigmoid(z_z + u_z) (h - n), n = tanh(z_n + sigmoid(z_r + u_r) u_n) */
#include "layers.h"
#include "tensor_ops.h"

#include "ir/builder.h"

#include "traincc/functions.h"

#include <stdio.h>

/* What is built here stands at the line of the layer's caller. */
#undef TCC_HERE
#define TCC_HERE at

typedef struct recurrent {
    tcc_trace *t;
    const char *name, *op;
    int64_t hidden, steps, batch;
    int gates, directions, layers;
    int time; /* the dim of steps */
    const tcc_recurrent_options *options;
    tcc_loc at;
} recurrent;

typedef struct state {
    tcc_tensor h, c; /* node NULL: zeros */
} state;

/* Of one direction of a layer. */
typedef struct weights {
    tcc_tensor ih, hh, bias_ih, bias_hh;
} weights;

static tcc_tensor param(const recurrent *r, const char *what, int layer, bool reverse, int rank, int64_t columns) {
    char suffix[64];
    const tcc_init init = {.kind = TCC_INIT_KAIMING_UNIFORM, .a = 1, .fan_in = r->hidden};
    snprintf(suffix, sizeof suffix, ".%s_l%d%s", what, layer, reverse ? "_reverse" : "");
    return tcc__layer_param(r->t, r->name, suffix, init, rank, (int64_t[]){r->gates * r->hidden, columns}, r->at);
}

static weights weights_of(const recurrent *r, int layer, bool reverse, int64_t in) {
    weights w = {.ih = param(r, "weight_ih", layer, reverse, 2, in),
                 .hh = param(r, "weight_hh", layer, reverse, 2, r->hidden)};
    if (r->options->no_bias) return w;
    w.bias_ih = param(r, "bias_ih", layer, reverse, 1, 0);
    w.bias_hh = param(r, "bias_hh", layer, reverse, 1, 0);
    return w;
}

static tcc_tensor gate(const recurrent *r, tcc_tensor z, int i) {
    const tcc_loc at = r->at;
    return tcc_slice(z, 1, i * r->hidden, (i + 1) * r->hidden);
}

/* A step computes in f32 between its products and its states, which are of the weights' type. */
static tcc_tensor widened(const recurrent *r, tcc_tensor x) { return x.node ? tcc__tensor_widened(x, r->at) : x; }

/* z: the inputs' part of the gates, with both biases; [N, 4 hidden]. */
static state lstm_step(const recurrent *r, const weights *w, tcc_tensor z, state s) {
    const tcc_loc at = r->at;
    const tcc_dtype dtype = tcc_get_dtype(z);
    z = widened(r, z);
    if (s.h.node) z = tcc_add(z, widened(r, tcc__layer_product(s.h, w->hh, at)));
    tcc_tensor c = tcc_mul(tcc_sigmoid(gate(r, z, 0)), tcc_tanh(gate(r, z, 2)));
    if (s.c.node) c = tcc_add(tcc_mul(tcc_sigmoid(gate(r, z, 1)), widened(r, s.c)), c);
    return (state){tcc_cast(tcc_mul(tcc_sigmoid(gate(r, z, 3)), tcc_tanh(c)), dtype), tcc_cast(c, dtype)};
}

/* z: the inputs' part with its bias; [N, 3 hidden]. */
static state gru_step(const recurrent *r, const weights *w, tcc_tensor z, state s) {
    const tcc_loc at = r->at;
    const tcc_dtype dtype = tcc_get_dtype(z);
    tcc_tensor u = s.h.node ? widened(r, tcc__layer_product(s.h, w->hh, at)) : (tcc_tensor){0},
               bias = widened(r, w->bias_hh), h = widened(r, s.h);
    z = widened(r, z);
    if (bias.node) {
        if (u.node) u = tcc_add(u, bias);
        else u = tcc_broadcast(bias, TCC_DIMS(r->batch, 3 * r->hidden));
    }
    tcc_tensor parts[3];
    for (int i = 0; i < 3; i++) parts[i] = gate(r, z, i);
    if (u.node) {
        for (int i = 0; i < 2; i++) parts[i] = tcc_add(parts[i], gate(r, u, i));
        parts[2] = tcc_add(parts[2], tcc_mul(tcc_sigmoid(parts[0]), gate(r, u, 2)));
    }
    tcc_tensor n = tcc_tanh(parts[2]), update = tcc_sigmoid(parts[1]);
    tcc_tensor next = h.node ? tcc_add(n, tcc_mul(update, tcc_sub(h, n))) : tcc_sub(n, tcc_mul(update, n));
    return (state){.h = tcc_cast(next, dtype)};
}

/* The steps of one direction of a layer, into out[steps]; returns the last state. */
static state run(const recurrent *r, int layer, bool reverse, tcc_tensor x, state s, tcc_tensor *out) {
    const tcc_loc at = r->at;
    const bool lstm = r->gates == 4;
    const weights w = weights_of(r, layer, reverse, tcc_dim(x, -1));
    tcc_tensor all = tcc__layer_product(x, w.ih, at);
    if (!r->options->no_bias) all = tcc_add(all, lstm ? tcc_add(w.bias_ih, w.bias_hh) : w.bias_ih);
    for (int64_t i = 0; i < r->steps && all.node; i++) {
        const int64_t step = reverse ? r->steps - 1 - i : i;
        tcc_tensor z = tcc_slice(all, r->time, step, step + 1);
        z = tcc_reshape(z, TCC_DIMS(r->batch, r->gates * r->hidden));
        s = lstm ? lstm_step(r, &w, z, s) : gru_step(r, &w, z, s);
        out[step] = s.h;
    }
    return s;
}

/* The given state before the first step, [layers, N, hidden], of row `i`. */
static tcc_tensor initial(const recurrent *r, tcc_tensor given, int i) {
    const tcc_loc at = r->at;
    if (!given.node) return (tcc_tensor){0};
    return tcc_reshape(tcc_slice(given, 0, i, i + 1), TCC_DIMS(r->batch, r->hidden));
}

/* `h` and `c` have room for the last states, `out` for those of all steps. */
static tcc_tensor run_layers(const recurrent *r, tcc_tensor x, tcc_tensor *h, tcc_tensor *c, tcc_tensor *out) {
    const tcc_loc at = r->at;
    for (int layer = 0; layer < r->layers; layer++) {
        tcc_tensor both[2];
        if (layer) x = tcc_dropout(x, r->options->dropout);
        for (int d = 0; d < r->directions; d++) {
            const int i = layer * r->directions + d;
            const state before = {initial(r, r->options->h0, i), initial(r, r->options->c0, i)};
            const state last = run(r, layer, d == 1, x, before, out);
            if (!last.h.node || r->t->graph->diag->status != TCC_OK) return tcc_trace_poison();
            h[i] = last.h, c[i] = last.c;
            both[d] = tcc_stack(out, (int)r->steps, r->time);
        }
        x = r->directions == 2 ? tcc_concat(both, 2, 2) : both[0];
    }
    return x;
}

/* Whether a state that is given has its shape. */
static bool takes_state(const recurrent *r, const char *which, tcc_tensor given) {
    if (!given.trace && !given.node) return true;
    if (!tcc_trace_takes(r->op, r->at, 1, &given)) return false;
    const int64_t dims[] = {(int64_t)r->layers * r->directions, r->batch, r->hidden};
    if (given.node->type.rank == 3 && !memcmp(given.node->type.dims, dims, sizeof dims)) return true;
    tcc_trace_error(r->t, TCC_ESHAPE, r->at, "%s \"%s\": %s must be [%lld, %lld, %lld], not %s", r->op, r->name, which,
                    (long long)dims[0], (long long)dims[1], (long long)dims[2], tcc_type_text(&given.node->type));
    return false;
}

static bool takes(const recurrent *r, tcc_tensor x) {
    enum { MOST_LAYERS = 1000 };
    const tcc_recurrent_options *o = r->options;
    if (tcc_rank(x) != 3) {
        tcc_trace_error(r->t, TCC_ESHAPE, r->at, "%s \"%s\": x must be %s, not %s", r->op, r->name,
                        o->batch_first ? "[N, T, in]" : "[T, N, in]", tcc_type_text(&x.node->type));
        return false;
    }
    if (!(o->dropout >= 0 && o->dropout < 1)) {
        tcc_trace_error(r->t, TCC_EINVAL, r->at, "%s \"%s\": dropout must be in [0, 1), not %g", r->op, r->name,
                        o->dropout);
        return false;
    }
    if (r->hidden < 1 || r->hidden > TCC_MAX_NUMEL || o->layers < 0 || o->layers > MOST_LAYERS) {
        tcc_trace_error(r->t, TCC_EINVAL, r->at,
                        "%s \"%s\": a width of %lld, %lld layers: the width must be 1 or more, and layers 1 to %d",
                        r->op, r->name, (long long)r->hidden, (long long)o->layers, MOST_LAYERS);
        return false;
    }
    if (r->gates == 3 && (o->c0.trace || o->c0.node)) {
        tcc_trace_error(r->t, TCC_EINVAL, r->at, "%s \"%s\": c0 is given, but a GRU has no c0", r->op, r->name);
        return false;
    }
    return takes_state(r, "h0", o->h0) && takes_state(r, "c0", o->c0);
}

static tcc_recurrent_states recurrent_layers(const char *op, int gates, tcc_tensor x, const char *name, int64_t hidden,
                                             const tcc_recurrent_options *given, tcc_loc at) {
    TCC_OPTIONS(tcc_recurrent_options, options, given);
    tcc_recurrent_states all = {tcc_trace_poison(), tcc_trace_poison(), tcc_trace_poison()};
    at = tcc__layer_place(name, at);
    if (!tcc_trace_takes(op, at, 1, &x) || !tcc_trace_takes_name(op, name, at) ||
        (given && !tcc_trace_takes_size(op, given->size, sizeof options, at)))
        return all;
    recurrent r = {.t = x.trace, .name = name, .op = op, .hidden = hidden, .gates = gates, .options = &options};
    r.directions = options.bidirectional ? 2 : 1;
    r.layers = options.layers ? (int)options.layers : 1;
    r.time = options.batch_first;
    r.steps = tcc_dim(x, r.time), r.batch = tcc_dim(x, 1 - r.time);
    r.at = at;
    if (!takes(&r, x)) return all;
    const int64_t states = (int64_t)r.layers * r.directions;
    tcc_tensor *h = TCC_ARENA_ARRAY(&r.t->graph->arena, tcc_tensor, 2 * states + r.steps);
    if (!h) {
        tcc_enomem(r.t->graph->diag);
        return all;
    }
    tcc_tensor *c = h + states, y = run_layers(&r, x, h, c, c + states);
    if (!y.node) return all;
    all = (tcc_recurrent_states){.all = y, .h = tcc_stack(h, (int)states, 0)};
    if (gates == 4) all.c = tcc_stack(c, (int)states, 0);
    return all;
}

tcc_recurrent_states tcc_lstm_at(tcc_tensor x, const char *name, int64_t hidden, const tcc_recurrent_options *options,
                                 tcc_loc at) {
    return recurrent_layers("lstm", 4, x, name, hidden, options, at);
}

tcc_recurrent_states tcc_gru_at(tcc_tensor x, const char *name, int64_t hidden, const tcc_recurrent_options *options,
                                tcc_loc at) {
    return recurrent_layers("gru", 3, x, name, hidden, options, at);
}
