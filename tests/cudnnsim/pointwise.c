/* SPDX-License-Identifier: MIT
 * Work on elements: what is asked of its attributes, and what it computes. */
#include "sim.h"

#include <math.h>

/* Data types of x, y and the computation: FLOAT32 stands for f16 and bf16 too, but for the computation. */
typedef struct mode {
    int number, operands; /* 3: the third one chooses */
    int x, y, compute;
    bool axis; /* is told one */
} mode;

static const mode modes[] = {
    {SIM_ADD, 2, FLOAT32, FLOAT32, FLOAT32, false},  {SIM_ADD, 2, INT32, INT32, INT32, true},
    {SIM_MUL, 2, FLOAT32, FLOAT32, FLOAT32, false},  {SIM_DIV, 2, FLOAT32, FLOAT32, FLOAT32, false},
    {SIM_SUB, 2, FLOAT32, FLOAT32, FLOAT32, false},  {SIM_SUB, 2, INT32, INT32, INT32, true},
    {SIM_EXP, 1, FLOAT32, FLOAT32, FLOAT32, false},  {SIM_LOG, 1, FLOAT32, FLOAT32, FLOAT32, false},
    {SIM_RELU, 1, FLOAT32, FLOAT32, FLOAT32, false}, {SIM_CMP_GE, 2, INT32, BOOLEAN8, BOOLEAN8, false},
    {SIM_GEN_INDEX, 1, FLOAT32, INT32, INT32, true}, {SIM_SELECT, 3, FLOAT32, FLOAT32, FLOAT32, false},
};

static const mode *mode_of(const descriptor *pointwise) {
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (modes[i].number == sim_int(pointwise, 0) && modes[i].compute == sim_int(pointwise, 1)) return &modes[i];
    return NULL;
}

static int finalize_pointwise(descriptor *d) {
    const mode *m = mode_of(d);
    if (!m) return sim_wrong("pointwise mode %d, computed in data type %d", sim_int(d, 0), sim_int(d, 1));
    return m->axis || !sim_get(d, 9, NULL) ? SUCCESS : sim_wrong("pointwise mode %d along an axis", m->number);
}

const kind sim_pointwise = {.type = POINTWISE,
                            .name = "pointwise",
                            .finalize = finalize_pointwise,
                            .rules = {ONE(0, POINTWISE_MODE), ONE(1, DATA_TYPE), MAYBE(9, INT64S)}};

static bool is_type(int type, int wanted) {
    return type == wanted || (wanted == FLOAT32 && (type == FLOAT16 || type == BFLOAT16));
}

/* `v` has the dims of `y`, or 1 where it may. */
static int check_dims(const value *v, const value *y, bool broadcast) {
    if (v->rank != y->rank) return sim_wrong("work on elements of %d and %d dimensions", v->rank, y->rank);
    for (int i = 0; i < v->rank; i++)
        if (v->dims[i] != y->dims[i] && !(broadcast && v->dims[i] == 1))
            return sim_wrong("work on elements: dimension %d of %lld and %lld", i, (long long)v->dims[i],
                             (long long)y->dims[i]);
    return SUCCESS;
}

static int finalize_operation_pointwise(descriptor *d) {
    const descriptor *pointwise = sim_reference(d, 750), *b = sim_reference(d, 752), *chosen = sim_reference(d, 758);
    const mode *m = mode_of(pointwise);
    value x = sim_value_of(sim_reference(d, 751)), y = sim_value_of(sim_reference(d, 753));
    if (m->operands != 1 + !!b + !!chosen || (chosen && !b))
        return sim_wrong("pointwise mode %d with %d operands", m->number, 1 + !!b + !!chosen);
    if (!is_type(x.type, m->x) || !is_type(y.type, m->y))
        return sim_wrong("pointwise mode %d of data type %d to %d", m->number, x.type, y.type);
    if (m->number == SIM_GEN_INDEX &&
        (!sim_get(pointwise, 9, NULL) || sim_int64(pointwise, 9) < 0 || sim_int64(pointwise, 9) >= x.rank))
        return sim_wrong("an index along no axis");
    int status = check_dims(&x, &y, false);
    if (!status && b) {
        value v = sim_value_of(b);
        status = is_type(v.type, m->x) ? check_dims(&v, &y, true)
                                       : sim_wrong("a second operand of data type %d", v.type);
    }
    if (!status && chosen) {
        value v = sim_value_of(chosen);
        status = v.type == BOOLEAN8 ? check_dims(&v, &y, false) : sim_wrong("a choice of data type %d", v.type);
    }
    return status;
}

/* The place in `v` of element `i` of `of`; dimensions of one element are the same for all. */
static int64_t place(const value *v, const value *of, int64_t i) {
    int64_t at = 0, stride = 1;
    for (int d = of->rank - 1; d >= 0; d--) {
        if (v->dims[d] > 1) at += i % of->dims[d] * stride;
        stride *= v->dims[d];
        i /= of->dims[d];
    }
    return at;
}

static int64_t index_along(const value *v, int64_t axis, int64_t i) {
    for (int d = v->rank - 1; d > axis; d--) i /= v->dims[d];
    return i % v->dims[axis];
}

static bool drops_nan(void) { return sim_relu_of_nan == CUDNNSIM_ZERO && sim_relu_engines >> sim_running & 1; }

static int evaluate_pointwise(const descriptor *d, value *const *reads, value *const *writes) {
    const descriptor *pointwise = sim_reference(d, 750);
    const int number = sim_int(pointwise, 0);
    value *to = writes[0];
    for (int64_t i = 0; i < to->count; i++) {
        const double x = reads[0]->data[i], b = reads[1] ? reads[1]->data[place(reads[1], to, i)] : 0;
        switch (number) {
        case SIM_ADD: to->data[i] = x + b; break;
        case SIM_MUL: to->data[i] = x * b; break;
        case SIM_DIV: to->data[i] = x / b; break;
        case SIM_SUB: to->data[i] = x - b; break;
        case SIM_EXP: to->data[i] = exp(x); break;
        case SIM_LOG: to->data[i] = log(x); break;
        case SIM_RELU: to->data[i] = x < 0 || (x != x && drops_nan()) ? 0 : x; break;
        case SIM_CMP_GE: to->data[i] = x >= b; break;
        case SIM_GEN_INDEX: to->data[i] = (double)index_along(to, sim_int64(pointwise, 9), i); break;
        default: to->data[i] = reads[2]->data[i] != 0 ? x : b; break;
        }
    }
    return SUCCESS;
}

const kind sim_operation_pointwise = {
    .type = OPERATION_POINTWISE,
    .name = "operation on elements",
    .finalize = finalize_operation_pointwise,
    .evaluate = evaluate_pointwise,
    .rules = {REFERENCE(750, POINTWISE), REFERENCE(751, TENSOR), MAYBE_REFERENCE(752, TENSOR), REFERENCE(753, TENSOR),
              MAYBE_REFERENCE(758, TENSOR)},
    .reads = {751, 752, 758},
    .writes = {753},
};
