/* SPDX-License-Identifier: MIT
 * Batch norm and its gradients: what is asked of their attributes, and what they compute. */
#include "sim.h"

#include <math.h>

enum { BATCH_NORM = 2, TRAINING = 1, CHANNEL = 1 };
enum { MODE = 2000, PHASE, X, MEAN, INVERSE, SCALE, BIAS, EPSILON, Y = 2013 };
enum {
    BACK_MODE = 2100,
    BACK_X,
    BACK_MEAN,
    BACK_INVERSE,
    BACK_DY,
    BACK_SCALE,
    BACK_DSCALE = 2107,
    BACK_DBIAS,
    BACK_DX
};

static int check_image(const descriptor *operation, int name, const value *x) {
    const value v = sim_value_of(sim_reference(operation, name));
    if (v.rank != x->rank || v.type != x->type)
        return sim_wrong("a norm of %d and %d dimensions, data types %d and %d", v.rank, x->rank, v.type, x->type);
    for (int i = 0; i < v.rank; i++)
        if (v.dims[i] != x->dims[i] || v.strides[i] != x->strides[i])
            return sim_wrong("tensors of a norm differ in dimension %d", i);
    return SUCCESS;
}

/* One f32 a channel, or one altogether. */
static int check_numbers(const descriptor *operation, int name, const value *x, bool by_channel) {
    const value v = sim_value_of(sim_reference(operation, name));
    if (v.rank != x->rank || v.type != FLOAT32)
        return sim_wrong("attribute %d of a norm: %d dimensions, data type %d", name, v.rank, v.type);
    for (int i = 0; i < v.rank; i++)
        if (v.dims[i] != (by_channel && i == CHANNEL ? x->dims[i] : 1))
            return sim_wrong("attribute %d of a norm: dimension %d of %lld", name, i, (long long)v.dims[i]);
    return sim_flag(v.tensor, 908) == !by_channel
               ? SUCCESS
               : sim_wrong("attribute %d of a norm %s memory", name, by_channel ? "wants" : "has");
}

static int check_all(const descriptor *d, int x, const int *images, const int *numbers) {
    const value vx = sim_value_of(sim_reference(d, x));
    int status = SUCCESS;
    if (vx.type != FLOAT32 && vx.type != FLOAT16 && vx.type != BFLOAT16)
        return sim_wrong("a norm of data type %d", vx.type);
    if (vx.rank < 4 || vx.rank > 5) return sim_wrong("a norm of %d dimensions", vx.rank);
    for (; *images && !status; images++) status = check_image(d, *images, &vx);
    for (; *numbers && !status; numbers++) status = check_numbers(d, *numbers, &vx, true);
    return status;
}

static int finalize_forward(descriptor *d) {
    if (sim_int(d, MODE) != BATCH_NORM || sim_int(d, PHASE) != TRAINING)
        return sim_wrong("a norm of mode %d in phase %d", sim_int(d, MODE), sim_int(d, PHASE));
    const value x = sim_value_of(sim_reference(d, X));
    const int status = check_all(d, X, (int[]){Y, 0}, (int[]){MEAN, INVERSE, SCALE, BIAS, 0});
    return status ? status : check_numbers(d, EPSILON, &x, false);
}

static int finalize_backward(descriptor *d) {
    if (sim_int(d, BACK_MODE) != BATCH_NORM) return sim_wrong("a norm of mode %d", sim_int(d, BACK_MODE));
    return check_all(d, BACK_X, (int[]){BACK_DY, BACK_DX, 0},
                     (int[]){BACK_MEAN, BACK_INVERSE, BACK_SCALE, BACK_DSCALE, BACK_DBIAS, 0});
}

bool sim_norm_has_engine(const descriptor *operation) {
    enum { ACCESS_BYTES = 16 };
    const value x = sim_value_of(sim_reference(operation, operation->kind == &sim_norm_forward ? X : BACK_X));
    return x.strides[CHANNEL] != 1 || x.dims[CHANNEL] * sim_bytes(x.type) % ACCESS_BYTES == 0;
}

/* Where element i of channel c is. */
static int64_t at(const value *x, int64_t c, int64_t i) {
    const int64_t inside = x->count / x->dims[0] / x->dims[CHANNEL];
    return (i / inside * x->dims[CHANNEL] + c) * inside + i % inside;
}

static int evaluate_forward(const descriptor *d, value *const *reads, value *const *writes) {
    (void)d;
    const value *x = reads[0];
    const int64_t n = x->count / x->dims[CHANNEL];
    const double epsilon = reads[3]->data[0];
    for (int64_t c = 0; c < x->dims[CHANNEL]; c++) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++) mean += x->data[at(x, c, i)] / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += (x->data[at(x, c, i)] - mean) * (x->data[at(x, c, i)] - mean) / (double)n;
        const double inverse = 1 / sqrt(variance + epsilon);
        for (int64_t i = 0; i < n; i++)
            writes[0]->data[at(x, c, i)] = (x->data[at(x, c, i)] - mean) * inverse * reads[1]->data[c] +
                                           reads[2]->data[c];
        writes[1]->data[c] = mean, writes[2]->data[c] = inverse;
    }
    return SUCCESS;
}

static int evaluate_backward(const descriptor *d, value *const *reads, value *const *writes) {
    (void)d;
    const value *x = reads[0], *dy = reads[1];
    const int64_t n = x->count / x->dims[CHANNEL];
    for (int64_t c = 0; c < x->dims[CHANNEL]; c++) {
        const double mean = reads[2]->data[c], inverse = reads[3]->data[c];
        double sum = 0, along = 0;
        for (int64_t i = 0; i < n; i++)
            sum += dy->data[at(x, c, i)], along += dy->data[at(x, c, i)] * (x->data[at(x, c, i)] - mean) * inverse;
        for (int64_t i = 0; i < n; i++) {
            const double normal = (x->data[at(x, c, i)] - mean) * inverse;
            writes[0]->data[at(x, c, i)] = reads[4]->data[c] * inverse *
                                           (dy->data[at(x, c, i)] - sum / (double)n - normal * along / (double)n);
        }
        writes[1]->data[c] = along, writes[2]->data[c] = sum;
    }
    return SUCCESS;
}

const kind sim_norm_forward = {
    .type = NORM_FORWARD,
    .name = "norm",
    .finalize = finalize_forward,
    .evaluate = evaluate_forward,
    .rules = {ONE(MODE, NORM_MODE), ONE(PHASE, NORM_PHASE), REFERENCE(X, TENSOR), REFERENCE(MEAN, TENSOR),
              REFERENCE(INVERSE, TENSOR), REFERENCE(SCALE, TENSOR), REFERENCE(BIAS, TENSOR), REFERENCE(EPSILON, TENSOR),
              REFERENCE(Y, TENSOR)},
    .reads = {X, SCALE, BIAS, EPSILON},
    .writes = {Y, MEAN, INVERSE},
};
const kind sim_norm_backward = {
    .type = NORM_BACKWARD,
    .name = "gradient of a norm",
    .finalize = finalize_backward,
    .evaluate = evaluate_backward,
    .rules = {ONE(BACK_MODE, NORM_MODE), REFERENCE(BACK_X, TENSOR), REFERENCE(BACK_MEAN, TENSOR),
              REFERENCE(BACK_INVERSE, TENSOR), REFERENCE(BACK_DY, TENSOR), REFERENCE(BACK_SCALE, TENSOR),
              REFERENCE(BACK_DSCALE, TENSOR), REFERENCE(BACK_DBIAS, TENSOR), REFERENCE(BACK_DX, TENSOR)},
    .reads = {BACK_X, BACK_DY, BACK_MEAN, BACK_INVERSE, BACK_SCALE},
    .writes = {BACK_DX, BACK_DSCALE, BACK_DBIAS},
};
