/* SPDX-License-Identifier: MIT
 * Products of matrices, sums and maxima along rows, and other shapes of the same elements: what is asked of their
 * attributes, and what they compute. */
#include "sim.h"

#include <math.h>

enum { RANK = 4 };

/* --- products --- */

static int finalize_product(descriptor *d) {
    return sim_int(d, 1500) == FLOAT32 ? SUCCESS : sim_wrong("a product computed in data type %d", sim_int(d, 1500));
}

const kind sim_product = {
    .type = PRODUCT, .name = "product", .finalize = finalize_product, .rules = {ONE(1500, DATA_TYPE)}};

static bool is_half(int type) { return type == FLOAT16 || type == BFLOAT16; }

/* a may be f32 between operations; it is rounded to b's type. Matrices of a beside each other may share one of b. */
static int finalize_operation_product(descriptor *d) {
    value a = sim_value_of(sim_reference(d, 1520)), b = sim_value_of(sim_reference(d, 1521)),
          c = sim_value_of(sim_reference(d, 1522));
    if (a.rank != RANK || b.rank != RANK || c.rank != RANK)
        return sim_wrong("a product of tensors of %d, %d, %d dimensions", a.rank, b.rank, c.rank);
    if (!is_half(b.type) || (a.type != b.type && !(a.type == FLOAT32 && sim_flag(a.tensor, 907))) ||
        (c.type != b.type && c.type != FLOAT32))
        return sim_wrong("a product of data types %d, %d, %d", a.type, b.type, c.type);
    if (a.dims[0] != b.dims[0] || a.dims[0] != c.dims[0] || a.dims[1] % b.dims[1] || a.dims[1] != c.dims[1])
        return sim_wrong("a product of different numbers of matrices");
    if (a.dims[2] != c.dims[2] || b.dims[3] != c.dims[3] || a.dims[3] != b.dims[2])
        return sim_wrong("a product of %lld x %lld by %lld x %lld to %lld x %lld", (long long)a.dims[2],
                         (long long)a.dims[3], (long long)b.dims[2], (long long)b.dims[3], (long long)c.dims[2],
                         (long long)c.dims[3]);
    return SUCCESS;
}

static int evaluate_product(const descriptor *d, value *const *reads, value *const *writes) {
    (void)d;
    const value *a = reads[0], *b = reads[1], *c = writes[0];
    const int64_t m = c->dims[2], n = c->dims[3], k = a->dims[3], share = a->dims[1] / b->dims[1];
    for (int64_t i = 0; i < a->count; i++) a->data[i] = sim_round(a->data[i], b->type);
    for (int64_t i = 0; i < c->count / n; i++) {
        double *to = c->data + i * n;
        const double *from = b->data + i / m / share * k * n;
        for (int64_t l = 0; l < k; l++)
            for (int64_t j = 0; j < n; j++) to[j] += a->data[i * k + l] * from[l * n + j];
    }
    return SUCCESS;
}

const kind sim_operation_product = {
    .type = OPERATION_PRODUCT,
    .name = "operation product",
    .finalize = finalize_operation_product,
    .evaluate = evaluate_product,
    .rules = {REFERENCE(1520, TENSOR), REFERENCE(1521, TENSOR), REFERENCE(1522, TENSOR), REFERENCE(1523, PRODUCT)},
    .reads = {1520, 1521},
    .writes = {1522},
};

/* --- along rows, or over heads beside each other --- */

static int finalize_reduction(descriptor *d) {
    const int number = sim_int(d, 1600);
    if (number != SIM_SUM && number != SIM_MAXIMUM) return sim_wrong("reduction %d", number);
    return sim_int(d, 1601) == FLOAT32 ? SUCCESS : sim_wrong("a reduction computed in data type %d", sim_int(d, 1601));
}

const kind sim_reduction = {.type = REDUCTION,
                            .name = "reduction",
                            .finalize = finalize_reduction,
                            .rules = {ONE(1600, REDUCTION_OPERATOR), ONE(1601, DATA_TYPE)}};

static int finalize_operation_reduction(descriptor *d) {
    value x = sim_value_of(sim_reference(d, 1610)), y = sim_value_of(sim_reference(d, 1611));
    if (x.rank != RANK || y.rank != RANK) return sim_wrong("a reduction from %d to %d dimensions", x.rank, y.rank);
    const int along = x.dims[1] == y.dims[1] ? 3 : 1;
    if (along == 3 ? y.dims[3] != 1 : x.dims[1] % y.dims[1])
        return sim_wrong("a reduction of %lld to %lld along dimension %d", (long long)x.dims[along],
                         (long long)y.dims[along], along);
    for (int i = 0; i < RANK; i++)
        if (i != along && x.dims[i] != y.dims[i]) return sim_wrong("a reduction along dimension %d", i);
    const bool narrow = along == 1 && is_half(x.type) && x.type == y.type;
    return narrow || (x.type == FLOAT32 && y.type == FLOAT32)
               ? SUCCESS
               : sim_wrong("a reduction of data type %d to %d", x.type, y.type);
}

static int evaluate_reduction(const descriptor *d, value *const *reads, value *const *writes) {
    const bool sum = sim_int(sim_reference(d, 1612), 1600) == SIM_SUM;
    const value *x = reads[0], *y = writes[0];
    const int64_t one_head = x->dims[2] * x->dims[3], step = x->dims[1] == y->dims[1] ? 1 : one_head,
                  count = x->count / y->count;
    for (int64_t i = 0; i < y->count; i++) {
        const double *first = x->data + (step == 1 ? i * count : i / one_head * count * one_head + i % one_head);
        double result = sum ? 0 : *first;
        for (int64_t k = 0; k < count; k++) result = sum ? result + first[k * step] : fmax(result, first[k * step]);
        y->data[i] = result;
    }
    return SUCCESS;
}

const kind sim_operation_reduction = {
    .type = OPERATION_REDUCTION,
    .name = "operation reduction",
    .finalize = finalize_operation_reduction,
    .evaluate = evaluate_reduction,
    .rules = {REFERENCE(1610, TENSOR), REFERENCE(1611, TENSOR), REFERENCE(1612, REDUCTION)},
    .reads = {1610},
    .writes = {1611},
};

/* --- another shape of the same elements: in this stand-in, the last two dimensions changed round --- */

static int finalize_reshape(descriptor *d) {
    value x = sim_value_of(sim_reference(d, 2200)), y = sim_value_of(sim_reference(d, 2201));
    if (x.rank != RANK || y.rank != RANK || x.dims[0] != y.dims[0] || x.dims[1] != y.dims[1] ||
        x.dims[2] != y.dims[3] || x.dims[3] != y.dims[2] || x.strides[2] != y.strides[3] ||
        x.strides[3] != y.strides[2])
        return sim_wrong("a reshape that is no transpose of rows and columns");
    return sim_flag(y.tensor, 907) ? SUCCESS : sim_wrong("a reshape into memory");
}

static int evaluate_reshape(const descriptor *d, value *const *reads, value *const *writes) {
    (void)d;
    const int64_t rows = writes[0]->dims[2], columns = writes[0]->dims[3];
    for (int64_t i = 0; i < writes[0]->count; i++) {
        const int64_t matrix = i / (rows * columns), row = i / columns % rows, column = i % columns;
        writes[0]->data[i] = reads[0]->data[(matrix * columns + column) * rows + row];
    }
    return SUCCESS;
}

const kind sim_reshape = {.type = OPERATION_RESHAPE,
                          .name = "operation reshape",
                          .finalize = finalize_reshape,
                          .evaluate = evaluate_reshape,
                          .rules = {REFERENCE(2200, TENSOR), REFERENCE(2201, TENSOR)},
                          .reads = {2200},
                          .writes = {2201}};
