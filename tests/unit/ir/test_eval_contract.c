/* SPDX-License-Identifier: MIT
 * The interpreter on dot and convolutions, against their formulas written element by element. */
#include "harness/check.h"
#include "harness/evaluate.h"

#include <math.h>
#include <stdlib.h>

static void assert_close(double a, double b) {
    if (!(fabs(a - b) <= 1e-12 * (1 + fabs(b)))) fail_msg("%.17g, expected %.17g", a, b);
}

/* -- Dot -- */

static int64_t offset_of(const tcc_type *type, const int64_t *index) {
    int64_t at = 0;
    for (int d = 0; d < type->rank; d++) at = at * type->dims[d] + index[d];
    return at;
}

static void index_of(const tcc_type *type, int64_t at, int64_t *index) {
    for (int d = type->rank - 1; d >= 0; at /= type->dims[d--]) index[d] = at % type->dims[d];
}

static int position(const tcc_dims *dims, int d) {
    for (int i = 0; i < dims->count; i++)
        if (dims->v[i] == d) return i;
    return -1;
}

/* Element `out` of the result: for all elements of a and b whose batch and contracted indices
 * agree, and whose free indices are those of `out`. Quadratic, and shares nothing with the rule. */
static double dot_element(const tcc_value *a, const tcc_value *b, const tcc_attrs_dot *t, const int64_t *out) {
    double sum = 0;
    int64_t i[TCC_MAX_RANK], j[TCC_MAX_RANK];
    for (int64_t p = 0; p < tcc_type_numel(&a->type); p++) {
        index_of(&a->type, p, i);
        for (int64_t q = 0; q < tcc_type_numel(&b->type); q++) {
            index_of(&b->type, q, j);
            bool hit = true;
            int next = t->batch_a.count;
            for (int k = 0; k < t->batch_a.count; k++)
                hit &= i[t->batch_a.v[k]] == out[k] && j[t->batch_b.v[k]] == out[k];
            for (int k = 0; k < t->contract_a.count; k++) hit &= i[t->contract_a.v[k]] == j[t->contract_b.v[k]];
            for (int d = 0; d < a->type.rank; d++)
                if (position(&t->batch_a, d) < 0 && position(&t->contract_a, d) < 0) hit &= i[d] == out[next++];
            for (int d = 0; d < b->type.rank; d++)
                if (position(&t->batch_b, d) < 0 && position(&t->contract_b, d) < 0) hit &= j[d] == out[next++];
            if (hit) sum += a->f[p] * b->f[q];
        }
    }
    return sum;
}

static void check_dot(tcc_type a, tcc_type b, tcc_attrs_dot attrs) {
    tcc_value in[] = {random_value(&a, 1, -1, 1), random_value(&b, 2, -1, 1)};
    tcc_attrs all = {.dot = attrs};
    tcc_value y = evaluate_op(TCC_OP_DOT, &all, NULL, 2, in);
    for (int64_t e = 0; e < tcc_type_numel(&y.type); e++) {
        int64_t index[TCC_MAX_RANK];
        index_of(&y.type, e, index);
        assert_int_equal(offset_of(&y.type, index), e);
        assert_close(y.f[e], dot_element(&in[0], &in[1], &attrs, index));
    }
    tcc_value_free(&y);
    tcc_value_free(&in[0]);
    tcc_value_free(&in[1]);
}

static void test_dot(void **state) {
    (void)state;
    check_dot((tcc_type){TCC_F32, 2, {3, 4}}, (tcc_type){TCC_F32, 2, {4, 5}},
              (tcc_attrs_dot){.contract_a = {1, {1}}, .contract_b = {1, {0}}});
    check_dot((tcc_type){TCC_F32, 2, {3, 4}}, (tcc_type){TCC_F32, 2, {5, 4}},
              (tcc_attrs_dot){.contract_a = {1, {1}}, .contract_b = {1, {1}}});
    check_dot((tcc_type){TCC_F32, 1, {4}}, (tcc_type){TCC_F32, 1, {4}},
              (tcc_attrs_dot){.contract_a = {1, {0}}, .contract_b = {1, {0}}});
    check_dot((tcc_type){TCC_F32, 1, {3}}, (tcc_type){TCC_F32, 1, {4}}, (tcc_attrs_dot){0});
    check_dot((tcc_type){TCC_F32, 4, {2, 3, 4, 5}}, (tcc_type){TCC_F32, 4, {5, 2, 2, 3}},
              (tcc_attrs_dot){
                  .batch_a = {1, {1}}, .batch_b = {1, {3}}, .contract_a = {2, {0, 3}}, .contract_b = {2, {2, 0}}});
    check_dot((tcc_type){TCC_F32, 3, {2, 3, 2}}, (tcc_type){TCC_F32, 3, {2, 2, 4}},
              (tcc_attrs_dot){.batch_a = {2, {2, 0}}, .batch_b = {2, {0, 1}}, .contract_a = {0}, .contract_b = {0}});
}

/* More columns than the rule's loops take at once, and a rest: each element is summed one product after the other, so
 * that nobody sees how wide the vectors are. */
static void test_dot_order(void **state) {
    (void)state;
    enum { ROWS = 3, DEPTH = 11, COLUMNS = 75 };
    const tcc_type a = {TCC_F32, 2, {ROWS, DEPTH}}, b = {TCC_F32, 2, {DEPTH, COLUMNS}};
    tcc_value in[] = {random_value(&a, 1, -1, 1), random_value(&b, 2, -1, 1)};
    const tcc_attrs attrs = {.dot = {.contract_a = {1, {1}}, .contract_b = {1, {0}}}};
    tcc_value y = evaluate_op(TCC_OP_DOT, &attrs, NULL, 2, in);
    for (int row = 0; row < ROWS; row++)
        for (int j = 0; j < COLUMNS; j++) {
            double sum = 0;
            for (int k = 0; k < DEPTH; k++) {
                const double product = in[0].f[row * DEPTH + k] * in[1].f[k * COLUMNS + j];
                sum += product;
            }
            assert_true(y.f[row * COLUMNS + j] == sum);
        }
    tcc_value_free(&y);
    for (int i = 0; i < 2; i++) tcc_value_free(&in[i]);
}

/* -- Convolution: two spatial dims with everything different in each -- */

typedef struct problem {
    tcc_attrs attrs;
    tcc_type x, w, y;
} problem;

/* A group has so many channels of x and of y. */
static problem make_problem(bool channels_last, int groups, int inputs, int outputs) {
    problem p = {.attrs = {.conv = {.stride = {2, {2, 1}},
                                    .pad_lo = {2, {1, 0}},
                                    .pad_hi = {2, {2, 1}},
                                    .dilation = {2, {1, 2}},
                                    .groups = groups,
                                    .channels_last = channels_last}},
                 .x = {TCC_F32, 4, {2, groups * inputs, 6, 7}},
                 .w = {TCC_F32, 4, {groups * outputs, inputs, 3, 2}},
                 .y = {TCC_F32, 4, {2, groups * outputs, 4, 6}}};
    if (!channels_last) return p;
    p.x = (tcc_type){TCC_F32, 4, {2, 6, 7, groups * inputs}};
    p.w = (tcc_type){TCC_F32, 4, {groups * outputs, 3, 2, inputs}};
    p.y = (tcc_type){TCC_F32, 4, {2, 4, 6, groups * outputs}};
    return p;
}

/* Element [n, c, i, j] of a tensor in either layout; 0 outside. */
static double *at(const problem *p, tcc_value *v, int64_t n, int64_t c, int64_t i, int64_t j) {
    bool last = p->attrs.conv.channels_last;
    const int64_t *d = v->type.dims;
    int64_t C = d[last ? 3 : 1], H = d[last ? 1 : 2], W = d[last ? 2 : 3];
    if (i < 0 || i >= H || j < 0 || j >= W) return NULL;
    return &v->f[last ? ((n * H + i) * W + j) * C + c : ((n * C + c) * H + i) * W + j];
}

static double conv_element(const problem *p, tcc_value *x, tcc_value *w, int64_t n, int64_t o, int64_t i, int64_t j) {
    double sum = 0;
    const int64_t inputs = w->type.dims[p->attrs.conv.channels_last ? 3 : 1];
    const int64_t group = o / (w->type.dims[0] / p->attrs.conv.groups);
    for (int64_t c = 0; c < inputs; c++)
        for (int64_t k = 0; k < 3; k++)
            for (int64_t l = 0; l < 2; l++) {
                double *from = at(p, x, n, group * inputs + c, i * 2 + k - 1, j + 2 * l);
                if (from) sum += *from * *at(p, w, o, c, k, l);
            }
    return sum;
}

static double inner(const tcc_value *a, const tcc_value *b) {
    double sum = 0;
    assert_true(tcc_type_equal(&a->type, &b->type));
    for (int64_t e = 0; e < tcc_type_numel(&a->type); e++) sum += a->f[e] * b->f[e];
    return sum;
}

static void check_conv(bool channels_last, int groups, int inputs, int outputs) {
    problem p = make_problem(channels_last, groups, inputs, outputs);
    tcc_value x = random_value(&p.x, 1, -1, 1), w = random_value(&p.w, 2, -1, 1), dy = random_value(&p.y, 3, -1, 1);
    tcc_value y = evaluate_op(TCC_OP_CONV, &p.attrs, NULL, 2, (tcc_value[]){x, w});
    assert_true(tcc_type_equal(&y.type, &p.y));
    for (int64_t n = 0; n < 2; n++)
        for (int64_t o = 0; o < groups * outputs; o++)
            for (int64_t i = 0; i < 4; i++)
                for (int64_t j = 0; j < 6; j++)
                    assert_close(*at(&p, &y, n, o, i, j), conv_element(&p, &x, &w, n, o, i, j));
    /* The gradients are the transposes: <conv(x, w), dy> = <x, grad_input(dy, w)> = <w,
     * grad_weight(x, dy)>. */
    tcc_value dx = evaluate_op(TCC_OP_CONV_GRAD_INPUT, &p.attrs, &p.x, 2, (tcc_value[]){dy, w});
    tcc_value dw = evaluate_op(TCC_OP_CONV_GRAD_WEIGHT, &p.attrs, &p.w, 2, (tcc_value[]){x, dy});
    assert_close(inner(&x, &dx), inner(&y, &dy));
    assert_close(inner(&w, &dw), inner(&y, &dy));
    tcc_value *all[] = {&x, &w, &dy, &y, &dx, &dw};
    for (int i = 0; i < 6; i++) tcc_value_free(all[i]);
}

static void test_conv(void **state) {
    (void)state;
    for (int last = 0; last < 2; last++) {
        check_conv(last, 2, 2, 3);
        check_conv(last, 7, 1, 1);
        check_conv(last, 1, 40, 35);
    }
}

static void test_conv_by_hand(void **state) {
    (void)state;
    EXPECT("%0 = constant {values=[1, 2, 3, 4]} : f32[1,1,4]\n%1 = constant {values=[10, 1]} : "
           "f32[1,1,2]\n"
           "%2 = conv(%0, %1) {stride=[1], pad_lo=[1], pad_hi=[0], dilation=[1], groups=1} : "
           "f32[1,1,4]",
           1, 12, 23, 34);
    EXPECT("%0 = constant {values=[1, 2, 3, 4]} : f32[1,1,4]\n%1 = constant {values=[10, 1]} : "
           "f32[1,1,2]\n"
           "%2 = conv(%0, %1) {stride=[2], pad_lo=[0], pad_hi=[1], dilation=[2], groups=1} : "
           "f32[1,1,2]",
           13, 30);
    EXPECT("%0 = constant {values=[1, 2, 3, 4]} : f32[1,1,4]\n%1 = constant {values=[10, 1]} : "
           "f32[1,1,2]\n"
           "%2 = conv_grad_input(%0, %1) {stride=[1], pad_lo=[1], pad_hi=[0], dilation=[1], "
           "groups=1} : f32[1,1,4]",
           21, 32, 43, 4);
    EXPECT("%0 = constant {values=[1, 2, 3, 4]} : f32[1,1,4]\n%1 = constant {values=[1, 10, 0, 0]} "
           ": f32[1,1,4]\n"
           "%2 = conv_grad_weight(%0, %1) {stride=[1], pad_lo=[1], pad_hi=[0], dilation=[1], "
           "groups=1} : f32[1,1,2]",
           10, 21);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dot), cmocka_unit_test(test_dot_order),
                                       cmocka_unit_test(test_conv), cmocka_unit_test(test_conv_by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
