/* SPDX-License-Identifier: MIT
 * A small function of parameters for every op that has a derivative, and for its variants; the loss is its result times
 * fixed random weights, summed, so that no gradient is trivial. */
#include "harness/gradient_cases.h"
#include "harness/check.h"
#include "harness/gradcheck.h"
#include "ir/build.h"
#include "ir/collective.h"
#include "passes/gradient/gradients.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INPUTS = 8 };

/* A graph under construction, with the values of its inputs. */
typedef struct world {
    tcc_diag diag;
    tcc_graph *g;
    uint64_t random;
    tcc_dtype dtype; /* of parameters */
    int n_inputs;
    tcc_value inputs[MOST_INPUTS];
} world;

#define DIMS(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

static tcc_type make_type(tcc_dtype dtype, int rank, const int64_t *dims) {
    tcc_type type = {.dtype = dtype, .rank = rank};
    memcpy(type.dims, dims, sizeof *dims * (size_t)rank);
    return type;
}

static tcc_node *input(world *w, tcc_role role, const tcc_type *type, double lo, double hi) {
    char name[16];
    snprintf(name, sizeof name, "p%d", w->n_inputs);
    tcc_value *v = &w->inputs[w->n_inputs++];
    assert_ok(tcc_value_create(type, v, &w->diag), &w->diag);
    test_fill(v, &w->random, lo, hi);
    return tcc_ir_input(w->g, name, role, type, TCC_NOWHERE);
}

/* A parameter with values in lo .. hi. */
static tcc_node *param(world *w, double lo, double hi, int rank, const int64_t *dims) {
    tcc_type type = make_type(w->dtype, rank, dims);
    return input(w, TCC_ROLE_PARAM, &type, lo, hi);
}

/* Whole numbers from lo to hi - 1. */
static tcc_node *indices(world *w, int lo, int hi, int rank, const int64_t *dims) {
    tcc_type type = make_type(TCC_I32, rank, dims);
    return input(w, TCC_ROLE_BATCH, &type, lo, hi);
}

static tcc_node *build(world *w, tcc_op op, const tcc_attrs *attrs, const tcc_type *type, int n, tcc_node *a,
                       tcc_node *b, tcc_node *c) {
    return tcc_ir_build(w->g, op, (tcc_node *[]){a, b, c}, n, attrs, type, TCC_NOWHERE);
}
static tcc_node *build1(world *w, tcc_op op, const tcc_attrs *attrs, const tcc_type *type, tcc_node *a) {
    return build(w, op, attrs, type, 1, a, NULL, NULL);
}
static tcc_node *build2(world *w, tcc_op op, const tcc_attrs *attrs, const tcc_type *type, tcc_node *a, tcc_node *b) {
    return build(w, op, attrs, type, 2, a, b, NULL);
}
static tcc_node *build3(world *w, tcc_op op, const tcc_attrs *attrs, tcc_node *a, tcc_node *b, tcc_node *c) {
    return build(w, op, attrs, NULL, 3, a, b, c);
}

/* -- Between ranks: this one alone -- */

static tcc_node *of_ranks(world *w, tcc_op op, tcc_rank_reduction reduction) {
    enum { RANKS = 3 };
    tcc_node *x = param(w, -1, 1, DIMS(6, 2));
    tcc_node *first = tcc_ir_collective(w->g, op, tcc_ir_binary(w->g, TCC_OP_MUL, x, x), reduction, RANKS);
    return tcc_ir_collective(w->g, TCC_OP_ALL_GATHER, first, TCC_REDUCTIONS, RANKS);
}

/* -- Element by element -- */

static tcc_node *of_one(world *w, tcc_op op, double lo, double hi) {
    return tcc_ir_unary(w->g, op, param(w, lo, hi, DIMS(3, 4)));
}

static tcc_node *make_leaky_relu(world *w) {
    tcc_attrs attrs = {.slope = {.slope = 0.1}};
    return build1(w, TCC_OP_LEAKY_RELU, &attrs, NULL, param(w, -2, 2, DIMS(12)));
}

/* To integers and back nothing flows; the way through float types is in test_cast. */
static tcc_node *make_cast(world *w) {
    tcc_node *x = param(w, -2, 2, DIMS(4)), *i = indices(w, 0, 9, DIMS(4));
    return tcc_ir_binary(w->g, TCC_OP_MUL, x, tcc_ir_cast(w->g, i, w->dtype));
}

static tcc_node *of_two(world *w, tcc_op op, double lo_a, double hi_a, double lo_b, double hi_b) {
    tcc_node *a = param(w, lo_a, hi_a, DIMS(3, 4));
    return tcc_ir_binary(w->g, op, a, param(w, lo_b, hi_b, DIMS(3, 4)));
}

static tcc_node *of_power(world *w, double exponent, double lo) {
    return tcc_ir_binary_c(w->g, TCC_OP_POW, param(w, lo, 2, DIMS(6)), exponent);
}

static tcc_node *make_select(world *w) {
    tcc_node *a = param(w, -2, 2, DIMS(3, 4)), *b = param(w, -2, 2, DIMS(3, 4));
    tcc_node *c = tcc_ir_binary_c(w->g, TCC_OP_GT, indices(w, 0, 2, DIMS(3, 4)), 0);
    return tcc_ir_select(w->g, c, a, b);
}

/* One value used several times, in different ways. */
static tcc_node *make_many_uses(world *w) {
    tcc_node *x = param(w, 0.5, 2, DIMS(5));
    tcc_node *y = tcc_ir_binary(w->g, TCC_OP_MUL, x, x);
    y = tcc_ir_binary(w->g, TCC_OP_ADD, y, tcc_ir_binary(w->g, TCC_OP_DIV, y, x));
    return tcc_ir_binary(w->g, TCC_OP_SUB, tcc_ir_unary(w->g, TCC_OP_SIN, y), tcc_ir_binary(w->g, TCC_OP_MUL, y, x));
}

static tcc_node *make_dropout(world *w) {
    tcc_type type = {TCC_I64, 1, {2}};
    tcc_node *x = param(w, -2, 2, DIMS(5, 7)), *key = input(w, TCC_ROLE_RNG, &type, 0, 1000);
    tcc_attrs attrs = {.dropout = {.p = 0.4, .id = 3}};
    return build2(w, TCC_OP_DROPOUT, &attrs, NULL, x, key);
}

/* -- Shape and indexing -- */

static tcc_node *make_reshape(world *w) { return tcc_ir_reshape(w->g, param(w, -2, 2, DIMS(2, 3, 4)), DIMS(4, 6)); }
static tcc_node *make_transpose(world *w) {
    return tcc_ir_transpose(w->g, param(w, -2, 2, DIMS(2, 3, 4)), (int[]){2, 0, 1});
}
static tcc_node *make_broadcast(world *w) {
    return tcc_ir_broadcast(w->g, param(w, -2, 2, DIMS(3, 1, 2)), DIMS(4, 3, 5, 2), (int[]){1, 2, 3});
}
static tcc_node *make_broadcast_scalar(world *w) {
    return tcc_ir_broadcast(w->g, param(w, -2, 2, 0, (const int64_t[1]){0}), DIMS(4, 3), NULL);
}
static tcc_node *make_slice(world *w) {
    return tcc_ir_slice(w->g, param(w, -2, 2, DIMS(7, 5)), (int64_t[]){1, 0}, (int64_t[]){6, 5}, (int64_t[]){2, 3});
}
/* Several slices of one value: side by side with a gap, and overlapping. */
static tcc_node *of_slices(world *w, const int64_t (*ranges)[2], int count) {
    tcc_node *x = param(w, -2, 2, DIMS(3, 9)), *y = NULL;
    for (int i = 0; i < count; i++) {
        tcc_node *part = tcc_ir_slice(w->g, x, (int64_t[]){0, ranges[i][0]}, (int64_t[]){3, ranges[i][1]},
                                      (int64_t[]){1, 1});
        part = tcc_ir_binary_c(w->g, TCC_OP_MUL, part, i + 1);
        y = y ? tcc_ir_binary(w->g, TCC_OP_MUL, y, part) : part;
    }
    return y;
}
static tcc_node *make_slices(world *w) { return of_slices(w, (const int64_t[][2]){{6, 8}, {0, 2}, {2, 4}}, 3); }
static tcc_node *make_slices_all(world *w) { return of_slices(w, (const int64_t[][2]){{3, 6}, {0, 3}, {6, 9}}, 3); }
static tcc_node *make_slices_overlap(world *w) { return of_slices(w, (const int64_t[][2]){{6, 9}, {0, 3}, {2, 5}}, 3); }
static tcc_node *make_slices_twice(world *w) { return of_slices(w, (const int64_t[][2]){{0, 3}, {0, 3}, {3, 6}}, 3); }
static tcc_node *make_slices_of_two_dims(world *w) {
    tcc_node *x = param(w, -2, 2, DIMS(4, 4));
    tcc_node *rows = tcc_ir_slice(w->g, x, (int64_t[]){0, 0}, (int64_t[]){2, 4}, (int64_t[]){1, 1});
    tcc_node *columns = tcc_ir_slice(w->g, x, (int64_t[]){0, 2}, (int64_t[]){4, 4}, (int64_t[]){1, 1});
    return tcc_ir_binary(w->g, TCC_OP_MUL, tcc_ir_reshape(w->g, rows, DIMS(8)), tcc_ir_reshape(w->g, columns, DIMS(8)));
}

static tcc_node *make_pad(world *w) {
    return tcc_ir_pad(w->g, param(w, -2, 2, DIMS(3, 4)), 1.5, (int64_t[]){1, 0}, (int64_t[]){0, 2}, (int64_t[]){2, 1});
}
static tcc_node *make_concat(world *w) {
    tcc_attrs attrs = {.axis = {.axis = 1}};
    tcc_node *a = param(w, -2, 2, DIMS(2, 3)), *b = param(w, -2, 2, DIMS(2, 1));
    return build3(w, TCC_OP_CONCAT, &attrs, a, b, a);
}
static tcc_node *make_flip(world *w) {
    tcc_attrs attrs = {.axes = {.axes = {2, {0, 2}}}};
    return build1(w, TCC_OP_FLIP, &attrs, NULL, param(w, -2, 2, DIMS(2, 3, 4)));
}

/* Indices repeat and are partly out of range. */
static tcc_node *make_take(world *w) {
    tcc_attrs attrs = {.axis = {.axis = 1}};
    return build2(w, TCC_OP_TAKE, &attrs, NULL, param(w, -2, 2, DIMS(2, 5, 3)), indices(w, -1, 6, DIMS(4, 2)));
}
/* A table that is read twice and multiplied with, as tied embeddings are. */
static tcc_node *make_take_tied(world *w) {
    tcc_attrs attrs = {.axis = {.axis = 0}};
    tcc_attrs_dot dot = {.contract_a = {1, {1}}, .contract_b = {1, {1}}};
    tcc_node *table = param(w, -2, 2, DIMS(5, 3)), *i = indices(w, 0, 5, DIMS(4));
    tcc_node *x = build2(w, TCC_OP_TAKE, &attrs, NULL, table, i);
    tcc_node *again = build2(w, TCC_OP_TAKE, &attrs, NULL, table, indices(w, 0, 5, DIMS(4)));
    return tcc_ir_dot(w->g, tcc_ir_binary(w->g, TCC_OP_MUL, x, again), table, &dot);
}
static tcc_node *make_take_along(world *w) {
    tcc_attrs attrs = {.axis = {.axis = 1}};
    return build2(w, TCC_OP_TAKE_ALONG, &attrs, NULL, param(w, -2, 2, DIMS(2, 5, 3)), indices(w, -1, 6, DIMS(2, 7, 3)));
}
static tcc_node *make_scatter_add(world *w) {
    tcc_attrs attrs = {.axis = {.axis = 1}};
    tcc_node *base = param(w, -2, 2, DIMS(2, 5, 3)), *i = indices(w, -1, 6, DIMS(4, 2));
    return build3(w, TCC_OP_SCATTER_ADD, &attrs, base, i, param(w, -2, 2, DIMS(2, 4, 2, 3)));
}
static tcc_node *make_scatter(world *w) {
    tcc_attrs attrs = {.axis = {.axis = 1}};
    tcc_node *base = param(w, -2, 2, DIMS(2, 5, 3)), *i = indices(w, -1, 6, DIMS(4, 2));
    return build3(w, TCC_OP_SCATTER, &attrs, base, i, param(w, -2, 2, DIMS(2, 4, 2, 3)));
}
static tcc_node *make_scatter_along(world *w) {
    tcc_attrs attrs = {.axis = {.axis = 1}};
    tcc_node *base = param(w, -2, 2, DIMS(2, 5, 3)), *i = indices(w, -1, 6, DIMS(2, 7, 3));
    return build3(w, TCC_OP_SCATTER_ALONG, &attrs, base, i, param(w, -2, 2, DIMS(2, 7, 3)));
}
static tcc_node *make_scatter_max(world *w) {
    tcc_attrs attrs = {.axis = {.axis = 1}};
    tcc_node *base = param(w, -2, 2, DIMS(2, 5, 3)), *i = indices(w, -1, 6, DIMS(4, 2));
    return build3(w, TCC_OP_SCATTER_MAX, &attrs, base, i, param(w, -2, 2, DIMS(2, 4, 2, 3)));
}
static tcc_node *make_scatter_add_along(world *w) {
    tcc_attrs attrs = {.axis = {.axis = 1}};
    tcc_node *base = param(w, -2, 2, DIMS(2, 5, 3)), *i = indices(w, -1, 6, DIMS(2, 7, 3));
    return build3(w, TCC_OP_SCATTER_ADD_ALONG, &attrs, base, i, param(w, -2, 2, DIMS(2, 7, 3)));
}

/* -- Reductions -- */

static tcc_node *of_reduction(world *w, tcc_op op) {
    tcc_dims axes = {2, {0, 2}};
    return tcc_ir_reduce(w->g, op, param(w, -2, 2, DIMS(3, 4, 5)), &axes);
}
/* With a line that has one zero, and one that has two. */
static tcc_node *of_product(world *w, bool last) {
    const tcc_dims axes = last ? (tcc_dims){1, {2}} : (tcc_dims){2, {0, 2}};
    tcc_node *x = param(w, -2, 2, DIMS(3, 4, 5));
    double *values = w->inputs[w->n_inputs - 1].f;
    values[3] = values[10] = values[14] = 0;
    return tcc_ir_reduce(w->g, TCC_OP_PROD, x, &axes);
}
static tcc_node *make_prod_grad(world *w) {
    const tcc_attrs attrs = {.axes = {.axes = {1, {1}}}};
    tcc_node *x = param(w, -2, 2, DIMS(2, 5, 3));
    w->inputs[w->n_inputs - 1].f[4] = 0;
    return build2(w, TCC_OP_PROD_GRAD, &attrs, NULL, x, param(w, -2, 2, DIMS(2, 3)));
}
static tcc_node *of_scan(world *w, bool reverse) {
    tcc_attrs attrs = {.scan = {.axis = 1, .reverse = reverse}};
    return build1(w, TCC_OP_CUMSUM, &attrs, NULL, param(w, -2, 2, DIMS(2, 5, 3)));
}
/* Sums that begin anew within each line. */
static tcc_node *of_runs(world *w, bool reverse) {
    tcc_attrs attrs = {.scan = {.axis = 1, .reverse = reverse}};
    tcc_node *x = param(w, -2, 2, DIMS(2, 5, 3));
    return build2(w, TCC_OP_CUMSUM, &attrs, NULL, x,
                  tcc_ir_binary_c(w->g, TCC_OP_GT, indices(w, 0, 3, DIMS(2, 5, 3)), 0));
}
static tcc_node *of_maxima(world *w, bool reverse) {
    tcc_attrs attrs = {.scan = {.axis = 1, .reverse = reverse}};
    return build1(w, TCC_OP_CUMMAX, &attrs, NULL, param(w, -2, 2, DIMS(2, 9, 3)));
}
static tcc_node *make_linear_scan(world *w, bool reverse) {
    tcc_attrs attrs = {.scan = {.axis = 1, .reverse = reverse}};
    tcc_node *a = param(w, -2, 2, DIMS(2, 5, 3)), *b = param(w, -2, 2, DIMS(2, 5, 3));
    return build2(w, TCC_OP_LINEAR_SCAN, &attrs, NULL, a, b);
}
/* Two factors of a line are 0. */
static tcc_node *make_products(world *w, bool reverse) {
    tcc_attrs attrs = {.scan = {.axis = 1, .reverse = reverse}};
    tcc_node *x = param(w, -2, 2, DIMS(2, 5, 3));
    w->inputs[w->n_inputs - 1].f[3] = w->inputs[w->n_inputs - 1].f[9] = 0;
    return build1(w, TCC_OP_LINEAR_SCAN, &attrs, NULL, x);
}

/* -- Contractions -- */

static tcc_node *make_linear(world *w) {
    tcc_attrs_dot attrs = {.contract_a = {1, {2}}, .contract_b = {1, {1}}};
    return tcc_ir_dot(w->g, param(w, -2, 2, DIMS(2, 3, 4)), param(w, -2, 2, DIMS(5, 4)), &attrs);
}
static tcc_node *make_matmul(world *w) {
    tcc_attrs_dot attrs = {.contract_a = {1, {1}}, .contract_b = {1, {0}}};
    return tcc_ir_dot(w->g, param(w, -2, 2, DIMS(3, 4)), param(w, -2, 2, DIMS(4, 5)), &attrs);
}
static tcc_node *make_matmul_transposed(world *w) {
    tcc_attrs_dot attrs = {.contract_a = {1, {0}}, .contract_b = {1, {1}}};
    return tcc_ir_dot(w->g, param(w, -2, 2, DIMS(4, 3)), param(w, -2, 2, DIMS(5, 4)), &attrs);
}
static tcc_node *make_dot_vectors(world *w) {
    tcc_attrs_dot attrs = {.contract_a = {1, {0}}, .contract_b = {1, {0}}};
    return tcc_ir_dot(w->g, param(w, -2, 2, DIMS(6)), param(w, -2, 2, DIMS(6)), &attrs);
}
static tcc_node *make_dot_outer(world *w) {
    tcc_attrs_dot attrs = {0};
    return tcc_ir_dot(w->g, param(w, -2, 2, DIMS(3)), param(w, -2, 2, DIMS(4)), &attrs);
}
/* Batch dims in different places, two contracted dims in crossed order, free dims between them. */
static tcc_node *make_dot_general(world *w) {
    tcc_attrs_dot attrs = {
        .batch_a = {1, {1}}, .batch_b = {1, {3}}, .contract_a = {2, {0, 3}}, .contract_b = {2, {2, 0}}};
    return tcc_ir_dot(w->g, param(w, -2, 2, DIMS(2, 3, 4, 5)), param(w, -2, 2, DIMS(5, 6, 2, 3)), &attrs);
}
static tcc_node *make_dot_square(world *w) {
    tcc_attrs_dot attrs = {.contract_a = {1, {0}}, .contract_b = {1, {1}}};
    tcc_node *a = param(w, -2, 2, DIMS(4, 4));
    return tcc_ir_dot(w->g, a, a, &attrs);
}
static tcc_node *make_dot_batches(world *w) {
    tcc_attrs_dot attrs = {
        .batch_a = {2, {0, 1}}, .batch_b = {2, {0, 1}}, .contract_a = {1, {3}}, .contract_b = {1, {3}}};
    return tcc_ir_dot(w->g, param(w, -2, 2, DIMS(2, 2, 3, 4)), param(w, -2, 2, DIMS(2, 2, 5, 4)), &attrs);
}

static const tcc_attrs conv_1d = {
    .conv = {.stride = {1, {2}}, .pad_lo = {1, {1}}, .pad_hi = {1, {2}}, .dilation = {1, {2}}, .groups = 1}};
static const tcc_attrs conv_2d = {
    .conv = {
        .stride = {2, {2, 1}}, .pad_lo = {2, {1, 0}}, .pad_hi = {2, {0, 1}}, .dilation = {2, {1, 2}}, .groups = 2}};
static const tcc_attrs conv_2d_last = {.conv = {.stride = {2, {2, 1}},
                                                .pad_lo = {2, {1, 0}},
                                                .pad_hi = {2, {0, 1}},
                                                .dilation = {2, {1, 2}},
                                                .groups = 2,
                                                .channels_last = true}};
static const tcc_attrs conv_3d = {.conv = {.stride = {3, {1, 2, 1}},
                                           .pad_lo = {3, {0, 1, 1}},
                                           .pad_hi = {3, {0, 1, 1}},
                                           .dilation = {3, {1, 1, 1}},
                                           .groups = 1}};

static tcc_node *make_conv_1d(world *w) {
    return build2(w, TCC_OP_CONV, &conv_1d, NULL, param(w, -2, 2, DIMS(2, 3, 8)), param(w, -2, 2, DIMS(4, 3, 3)));
}
static tcc_node *make_conv_2d(world *w) {
    return build2(w, TCC_OP_CONV, &conv_2d, NULL, param(w, -2, 2, DIMS(2, 4, 5, 6)), param(w, -2, 2, DIMS(6, 2, 3, 2)));
}
static tcc_node *make_conv_2d_last(world *w) {
    return build2(w, TCC_OP_CONV, &conv_2d_last, NULL, param(w, -2, 2, DIMS(2, 5, 6, 4)),
                  param(w, -2, 2, DIMS(6, 3, 2, 2)));
}
static tcc_node *make_conv_3d(world *w) {
    return build2(w, TCC_OP_CONV, &conv_3d, NULL, param(w, -2, 2, DIMS(1, 2, 3, 4, 3)),
                  param(w, -2, 2, DIMS(2, 2, 2, 3, 3)));
}
static tcc_node *make_conv_grad_input(world *w) {
    tcc_type x = {w->dtype, 3, {2, 3, 8}};
    return build2(w, TCC_OP_CONV_GRAD_INPUT, &conv_1d, &x, param(w, -2, 2, DIMS(2, 4, 4)),
                  param(w, -2, 2, DIMS(4, 3, 3)));
}
static tcc_node *make_conv_grad_weight(world *w) {
    tcc_type weight = {w->dtype, 3, {4, 3, 3}};
    return build2(w, TCC_OP_CONV_GRAD_WEIGHT, &conv_1d, &weight, param(w, -2, 2, DIMS(2, 3, 8)),
                  param(w, -2, 2, DIMS(2, 4, 4)));
}

/* -- Windows -- */

static tcc_attrs pool(bool channels_last, bool include_pad) {
    return (tcc_attrs){.pool = {.window = {2, {3, 2}},
                                .stride = {2, {2, 1}},
                                .pad_lo = {2, {1, 0}},
                                .pad_hi = {2, {1, 1}},
                                .include_pad = include_pad,
                                .channels_last = channels_last}};
}
static tcc_node *of_pool(world *w, tcc_op op, bool channels_last, bool include_pad) {
    tcc_attrs attrs = pool(channels_last, include_pad);
    tcc_node *x = channels_last ? param(w, -2, 2, DIMS(2, 5, 6, 3)) : param(w, -2, 2, DIMS(2, 3, 5, 6));
    return build1(w, op, &attrs, NULL, x);
}
static tcc_node *make_avg_pool_grad(world *w) {
    tcc_attrs attrs = pool(false, true);
    tcc_type x = {w->dtype, 4, {2, 3, 5, 6}};
    return build1(w, TCC_OP_AVG_POOL_GRAD, &attrs, &x, param(w, -2, 2, DIMS(2, 3, 3, 6)));
}

static tcc_node *of_resize(world *w, tcc_op op, bool corners, bool last) {
    tcc_attrs attrs = {.resize = {.align_corners = corners, .channels_last = last}};
    tcc_type y = {w->dtype, 4, {2, 3, 7, 3}}, y_last = {w->dtype, 4, {2, 7, 3, 3}};
    tcc_node *x = last ? param(w, -2, 2, DIMS(2, 4, 5, 3)) : param(w, -2, 2, DIMS(2, 3, 4, 5));
    return build1(w, op, &attrs, last ? &y_last : &y, x);
}

/* -- Attention -- */

enum { UNMASKED, MASKED, HIDDEN, SHARED };

/* HIDDEN: the mask hides all keys from the first query, and the last key from all. SHARED: masked; heads share keys. */
static tcc_node *of_attention(world *w, bool causal, int mask, double p) {
    tcc_attrs attrs = {.sdpa = {.scale = 0.4, .causal = causal, .p = p, .id = p > 0 ? 5 : 0}};
    tcc_node *operands[5];
    int n = 3;
    operands[0] = param(w, -2, 2, DIMS(2, 2, 3, 4));
    operands[1] = mask == SHARED ? param(w, -2, 2, DIMS(2, 1, 5, 4)) : param(w, -2, 2, DIMS(2, 2, 5, 4));
    operands[2] = mask == SHARED ? param(w, -2, 2, DIMS(2, 1, 5, 3)) : param(w, -2, 2, DIMS(2, 2, 5, 3));
    if (mask) operands[n++] = param(w, -2, 2, DIMS(2, 2, 3, 5));
    if (mask == HIDDEN) {
        tcc_type seen = make_type(w->dtype, DIMS(2, 2, 2, 4));
        tcc_node *hidden = tcc_ir_pad(w->g, tcc_ir_splat(w->g, &seen, 0), -INFINITY, (int64_t[]){0, 0, 1, 0},
                                      (int64_t[]){0, 0, 0, 1}, (int64_t[4]){0});
        operands[3] = tcc_ir_binary(w->g, TCC_OP_ADD, operands[3], hidden);
    }
    if (p > 0) operands[n++] = input(w, TCC_ROLE_RNG, &(tcc_type){TCC_I64, 1, {2}}, 0, 1000);
    return tcc_ir_build(w->g, TCC_OP_SDPA, operands, n, &attrs, NULL, TCC_NOWHERE);
}

/* -- Softmax, norms, losses -- */

static tcc_node *of_softmax(world *w, tcc_op op, int axis) {
    tcc_attrs attrs = {.axis = {.axis = axis}};
    return build1(w, op, &attrs, NULL, param(w, -2, 2, DIMS(3, 4, 5)));
}

static tcc_node *of_norm(world *w, tcc_op op, int axis, int groups, int n_operands) {
    tcc_attrs attrs = {.norm = {.eps = 1e-3, .axis = axis, .groups = groups}};
    tcc_node *operands[3] = {param(w, -2, 2, DIMS(3, 4, 5))};
    bool channels = op == TCC_OP_GROUP_NORM || op == TCC_OP_BATCH_NORM;
    int64_t dims[] = {3, 4, 5};
    for (int i = 1; i < n_operands; i++) operands[i] = param(w, -2, 2, channels ? 1 : 3 - axis, dims + axis);
    return tcc_ir_build(w->g, op, operands, n_operands, &attrs, NULL, TCC_NOWHERE);
}

static tcc_node *make_batch_norm_variance(world *w) {
    const tcc_attrs attrs = {.norm = {.eps = 1e-3, .axis = 1}};
    const tcc_type channels = make_type(w->dtype, DIMS(4));
    return build1(w, TCC_OP_BATCH_NORM_VARIANCE, &attrs, &channels, param(w, -2, 2, DIMS(3, 4, 5)));
}

static tcc_node *make_batch_norm_inference(world *w) {
    tcc_attrs attrs = {.norm = {.eps = 1e-3, .axis = 1}};
    tcc_node *operands[5] = {param(w, -2, 2, DIMS(3, 4, 5))};
    for (int i = 1; i < 5; i++) operands[i] = param(w, i == 4 ? 0.5 : -2, 2, DIMS(4));
    return tcc_ir_build(w->g, TCC_OP_BATCH_NORM_INFERENCE, operands, 5, &attrs, NULL, TCC_NOWHERE);
}

enum { UNWEIGHTED, FIXED_WEIGHTS, TRAINED_WEIGHTS };

static tcc_node *of_cross_entropy(world *w, double smoothing, int weights, int ignore) {
    tcc_attrs attrs = {.cross_entropy = {.ignore_index = ignore, .label_smoothing = smoothing}};
    tcc_node *logits = param(w, -2, 2, DIMS(3, 4, 5)), *targets = indices(w, 0, 5, DIMS(3, 4)), *classes = NULL;
    tcc_type type = {w->dtype, 1, {5}};
    if (weights != UNWEIGHTED)
        classes = input(w, weights == FIXED_WEIGHTS ? TCC_ROLE_STATE : TCC_ROLE_PARAM, &type, 0.5, 2);
    return build(w, TCC_OP_CROSS_ENTROPY, &attrs, NULL, classes ? 3 : 2, logits, targets, classes);
}
static tcc_node *make_cross_entropy_one_row(world *w) {
    tcc_attrs attrs = {.cross_entropy = {.ignore_index = -100}};
    return build2(w, TCC_OP_CROSS_ENTROPY, &attrs, NULL, param(w, -2, 2, DIMS(5)),
                  indices(w, 0, 5, 0, (const int64_t[1]){0}));
}

/* Each case: its name, and what builds it. */
/* clang-format off */
#define CASES(C) \
    C(neg, of_one(w, TCC_OP_NEG, -2, 2)) \
    C(abs, of_one(w, TCC_OP_ABS, -2, 2)) \
    C(exp, of_one(w, TCC_OP_EXP, -2, 2)) \
    C(expm1, of_one(w, TCC_OP_EXPM1, -2, 2)) \
    C(log, of_one(w, TCC_OP_LOG, 0.3, 3)) \
    C(log1p, of_one(w, TCC_OP_LOG1P, -0.5, 3)) \
    C(sqrt, of_one(w, TCC_OP_SQRT, 0.3, 3)) \
    C(rsqrt, of_one(w, TCC_OP_RSQRT, 0.3, 3)) \
    C(sin, of_one(w, TCC_OP_SIN, -4, 4)) \
    C(cos, of_one(w, TCC_OP_COS, -4, 4)) \
    C(atan, of_one(w, TCC_OP_ATAN, -3, 3)) \
    C(sinh, of_one(w, TCC_OP_SINH, -2, 2)) \
    C(cosh, of_one(w, TCC_OP_COSH, -2, 2)) \
    C(tanh, of_one(w, TCC_OP_TANH, -2, 2)) \
    C(sigmoid, of_one(w, TCC_OP_SIGMOID, -4, 4)) \
    C(erf, of_one(w, TCC_OP_ERF, -2, 2)) \
    C(erfinv, of_one(w, TCC_OP_ERFINV, -0.6, 0.6)) \
    C(relu, of_one(w, TCC_OP_RELU, -2, 2)) \
    C(gelu, of_one(w, TCC_OP_GELU, -3, 3)) \
    C(normal_density, of_one(w, TCC_OP_NORMAL_DENSITY, -3, 3)) \
    C(gelu_tanh, of_one(w, TCC_OP_GELU_TANH, -3, 3)) \
    C(silu, of_one(w, TCC_OP_SILU, -3, 3)) \
    C(softplus, of_one(w, TCC_OP_SOFTPLUS, -3, 3)) \
    C(leaky_relu, make_leaky_relu(w)) \
    C(cast, make_cast(w)) \
    C(add, of_two(w, TCC_OP_ADD, -2, 2, -2, 2)) \
    C(sub, of_two(w, TCC_OP_SUB, -2, 2, -2, 2)) \
    C(mul, of_two(w, TCC_OP_MUL, -2, 2, -2, 2)) \
    C(div, of_two(w, TCC_OP_DIV, -2, 2, 0.5, 2)) \
    C(rem, of_two(w, TCC_OP_REM, -9, 9, 1, 2)) \
    C(rem_negative, of_two(w, TCC_OP_REM, -9, 9, -2, -1)) \
    C(pow, of_two(w, TCC_OP_POW, 0.3, 2, -2, 2)) \
    C(max, of_two(w, TCC_OP_MAX, -2, 2, -2, 2)) \
    C(min, of_two(w, TCC_OP_MIN, -2, 2, -2, 2)) \
    C(gelu_tanh_grad, of_two(w, TCC_OP_GELU_TANH_GRAD, -3, 3, -2, 2)) \
    C(pow_0, of_power(w, 0, -2)) \
    C(pow_1, of_power(w, 1, -2)) \
    C(pow_2, of_power(w, 2, -2)) \
    C(pow_3, of_power(w, 3, -2)) \
    C(pow_half, of_power(w, 0.5, 0.3)) \
    C(select, make_select(w)) \
    C(many_uses, make_many_uses(w)) \
    C(dropout, make_dropout(w)) \
    C(reshape, make_reshape(w)) \
    C(transpose, make_transpose(w)) \
    C(broadcast, make_broadcast(w)) \
    C(broadcast_scalar, make_broadcast_scalar(w)) \
    C(slice, make_slice(w)) \
    C(slices, make_slices(w)) \
    C(slices_all, make_slices_all(w)) \
    C(slices_overlap, make_slices_overlap(w)) \
    C(slices_twice, make_slices_twice(w)) \
    C(slices_of_two_dims, make_slices_of_two_dims(w)) \
    C(pad, make_pad(w)) \
    C(concat, make_concat(w)) \
    C(flip, make_flip(w)) \
    C(take, make_take(w)) \
    C(take_tied, make_take_tied(w)) \
    C(take_along, make_take_along(w)) \
    C(scatter_add, make_scatter_add(w)) \
    C(scatter, make_scatter(w)) \
    C(scatter_along, make_scatter_along(w)) \
    C(scatter_max, make_scatter_max(w)) \
    C(scatter_add_along, make_scatter_add_along(w)) \
    C(reduce_sum, of_reduction(w, TCC_OP_REDUCE_SUM)) \
    C(reduce_mean, of_reduction(w, TCC_OP_REDUCE_MEAN)) \
    C(reduce_m2, of_reduction(w, TCC_OP_REDUCE_M2)) \
    C(reduce_max, of_reduction(w, TCC_OP_REDUCE_MAX)) \
    C(reduce_min, of_reduction(w, TCC_OP_REDUCE_MIN)) \
    C(prod, of_product(w, true)) \
    C(prod_two, of_product(w, false)) \
    C(prod_grad, make_prod_grad(w)) \
    C(cumsum, of_scan(w, false)) \
    C(cumsum_reverse, of_scan(w, true)) \
    C(cumsum_of_runs, of_runs(w, false)) \
    C(cumsum_of_runs_reverse, of_runs(w, true)) \
    C(cummax, of_maxima(w, false)) \
    C(cummax_reverse, of_maxima(w, true)) \
    C(linear_scan, make_linear_scan(w, false)) \
    C(linear_scan_reverse, make_linear_scan(w, true)) \
    C(products, make_products(w, false)) \
    C(products_reverse, make_products(w, true)) \
    C(linear, make_linear(w)) \
    C(matmul, make_matmul(w)) \
    C(matmul_transposed, make_matmul_transposed(w)) \
    C(dot_vectors, make_dot_vectors(w)) \
    C(dot_outer, make_dot_outer(w)) \
    C(dot_general, make_dot_general(w)) \
    C(dot_square, make_dot_square(w)) \
    C(dot_batches, make_dot_batches(w)) \
    C(conv_1d, make_conv_1d(w)) \
    C(conv_2d, make_conv_2d(w)) \
    C(conv_2d_last, make_conv_2d_last(w)) \
    C(conv_3d, make_conv_3d(w)) \
    C(conv_grad_input, make_conv_grad_input(w)) \
    C(conv_grad_weight, make_conv_grad_weight(w)) \
    C(max_pool, of_pool(w, TCC_OP_MAX_POOL, false, false)) \
    C(max_pool_last, of_pool(w, TCC_OP_MAX_POOL, true, false)) \
    C(avg_pool, of_pool(w, TCC_OP_AVG_POOL, false, false)) \
    C(avg_pool_last, of_pool(w, TCC_OP_AVG_POOL, true, true)) \
    C(avg_pool_grad, make_avg_pool_grad(w)) \
    C(adaptive, of_resize(w, TCC_OP_ADAPTIVE_AVG_POOL, false, false)) \
    C(adaptive_last, of_resize(w, TCC_OP_ADAPTIVE_AVG_POOL, false, true)) \
    C(adaptive_grad, of_resize(w, TCC_OP_ADAPTIVE_AVG_POOL_GRAD, false, false)) \
    C(nearest, of_resize(w, TCC_OP_RESIZE_NEAREST, false, false)) \
    C(nearest_corners, of_resize(w, TCC_OP_RESIZE_NEAREST, true, true)) \
    C(nearest_grad, of_resize(w, TCC_OP_RESIZE_NEAREST_GRAD, false, false)) \
    C(bilinear, of_resize(w, TCC_OP_RESIZE_BILINEAR, false, true)) \
    C(bilinear_corners, of_resize(w, TCC_OP_RESIZE_BILINEAR, true, false)) \
    C(bilinear_grad, of_resize(w, TCC_OP_RESIZE_BILINEAR_GRAD, false, false)) \
    C(bicubic, of_resize(w, TCC_OP_RESIZE_BICUBIC, false, true)) \
    C(bicubic_corners, of_resize(w, TCC_OP_RESIZE_BICUBIC, true, false)) \
    C(bicubic_grad, of_resize(w, TCC_OP_RESIZE_BICUBIC_GRAD, false, false)) \
    C(sdpa, of_attention(w, false, UNMASKED, 0)) \
    C(sdpa_causal, of_attention(w, true, UNMASKED, 0)) \
    C(sdpa_mask, of_attention(w, false, MASKED, 0)) \
    C(sdpa_causal_mask, of_attention(w, true, MASKED, 0)) \
    C(sdpa_hidden, of_attention(w, false, HIDDEN, 0)) \
    C(sdpa_dropout, of_attention(w, false, UNMASKED, 0.3)) \
    C(sdpa_causal_mask_dropout, of_attention(w, true, MASKED, 0.3)) \
    C(sdpa_hidden_dropout, of_attention(w, false, HIDDEN, 0.3)) \
    C(sdpa_shared, of_attention(w, false, SHARED, 0)) \
    C(sdpa_shared_causal_dropout, of_attention(w, true, SHARED, 0.3)) \
    C(softmax, of_softmax(w, TCC_OP_SOFTMAX, 2)) \
    C(softmax_inner, of_softmax(w, TCC_OP_SOFTMAX, 1)) \
    C(log_softmax, of_softmax(w, TCC_OP_LOG_SOFTMAX, 2)) \
    C(layer_norm, of_norm(w, TCC_OP_LAYER_NORM, 2, 0, 3)) \
    C(layer_norm_2, of_norm(w, TCC_OP_LAYER_NORM, 1, 0, 2)) \
    C(layer_norm_plain, of_norm(w, TCC_OP_LAYER_NORM, 0, 0, 1)) \
    C(rms_norm, of_norm(w, TCC_OP_RMS_NORM, 2, 0, 2)) \
    C(rms_norm_plain, of_norm(w, TCC_OP_RMS_NORM, 1, 0, 1)) \
    C(batch_norm, of_norm(w, TCC_OP_BATCH_NORM, 1, 0, 3)) \
    C(batch_norm_last, of_norm(w, TCC_OP_BATCH_NORM, 2, 0, 2)) \
    C(batch_norm_variance, make_batch_norm_variance(w)) \
    C(batch_norm_plain, of_norm(w, TCC_OP_BATCH_NORM, 1, 0, 1)) \
    C(group_norm, of_norm(w, TCC_OP_GROUP_NORM, 1, 2, 3)) \
    C(group_norm_last, of_norm(w, TCC_OP_GROUP_NORM, 2, 5, 2)) \
    C(batch_norm_inference, make_batch_norm_inference(w)) \
    C(all_reduce, of_ranks(w, TCC_OP_ALL_REDUCE, TCC_REDUCTION_SUM)) \
    C(all_reduce_max, of_ranks(w, TCC_OP_ALL_REDUCE, TCC_REDUCTION_MAX)) \
    C(reduce_scatter, of_ranks(w, TCC_OP_REDUCE_SCATTER, TCC_REDUCTION_SUM)) \
    C(reduce_scatter_min, of_ranks(w, TCC_OP_REDUCE_SCATTER, TCC_REDUCTION_MIN)) \
    C(all_gather, of_ranks(w, TCC_OP_ALL_GATHER, TCC_REDUCTIONS)) \
    C(cross_entropy, of_cross_entropy(w, 0, UNWEIGHTED, -100)) \
    C(cross_entropy_ignore, of_cross_entropy(w, 0, UNWEIGHTED, 2)) \
    C(cross_entropy_smooth, of_cross_entropy(w, 0.2, UNWEIGHTED, 2)) \
    C(cross_entropy_weights, of_cross_entropy(w, 0, FIXED_WEIGHTS, 2)) \
    C(cross_entropy_all, of_cross_entropy(w, 0.2, FIXED_WEIGHTS, 2)) \
    C(cross_entropy_trained_weights, of_cross_entropy(w, 0.2, TRAINED_WEIGHTS, 2)) \
    C(cross_entropy_one_row, make_cross_entropy_one_row(w))
/* clang-format on */

#define FUNCTION(name, built) \
    static tcc_node *case_##name(world *w) { return built; }
CASES(FUNCTION)
#undef FUNCTION

static const struct {
    const char *name;
    tcc_node *(*build)(world *w);
} cases[] = {
#define ROW(name, built) {#name, case_##name},
    CASES(ROW)
#undef ROW
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* The sum of y times fixed weights between 0.5 and 1.5. */
static tcc_node *weighted_sum(world *w, tcc_node *y) {
    assert_non_null(y);
    int64_t count = tcc_type_numel(&y->type);
    double *weights = malloc((size_t)count * sizeof *weights);
    for (int64_t i = 0; i < count; i++) weights[i] = test_random(&w->random, 0.5, 1.5);
    tcc_attrs attrs = {.constant = {.values = {count, weights}}};
    tcc_node *r = tcc_ir_build(w->g, TCC_OP_CONSTANT, NULL, 0, &attrs, &y->type, TCC_NOWHERE);
    free(weights);
    tcc_dims all = tcc_ir_axes_from(0, y->type.rank);
    return tcc_ir_reduce(w->g, TCC_OP_REDUCE_SUM, tcc_ir_binary(w->g, TCC_OP_MUL, y, r), &all);
}

static void open_world(world *w, uint64_t seed, tcc_dtype dtype) {
    *w = (world){.random = seed, .dtype = dtype};
    w->g = tcc_graph_create("case", &w->diag);
    assert_non_null(w->g);
}

static void close_world(world *w) {
    for (int i = 0; i < w->n_inputs; i++) tcc_value_free(&w->inputs[i]);
    tcc_graph_destroy(w->g);
    tcc_diag_clear(&w->diag);
}

/* The sum of the gradients of the weighted sum of y^2 by all parameters, times fixed weights: so its own gradient is of
 * second order, and through what each rule built. */
static tcc_node *loss_of_gradients(world *w, tcc_node *y) {
    tcc_node *by[MOST_INPUTS], *gradients[MOST_INPUTS], *loss = NULL;
    int count = 0;
    for (int i = 0; i < w->g->inputs.count; i++)
        if (w->g->inputs.data[i]->attrs->input.role == TCC_ROLE_PARAM) by[count++] = w->g->inputs.data[i];
    tcc_node *first = weighted_sum(w, tcc_ir_binary(w->g, TCC_OP_MUL, y, y));
    assert_ok(tcc_build_gradients(w->g, first, NULL, false, count, by, gradients), &w->diag);
    for (int i = 0; i < count; i++) {
        if (!gradients[i]) continue;
        tcc_node *sum = weighted_sum(w, gradients[i]);
        loss = loss ? tcc_ir_binary(w->g, TCC_OP_ADD, loss, sum) : sum;
    }
    assert_non_null(loss);
    return loss;
}

static void build_case(world *w, int at, tcc_dtype dtype, gradient_order order) {
    open_world(w, 1 + (uint64_t)at, dtype);
    tcc_node *y = cases[at].build(w);
    if (!y) fail_msg("%s", tcc_diag_text(&w->diag));
    tcc_node *loss = order == FIRST_ORDER ? weighted_sum(w, y) : loss_of_gradients(w, y);
    assert_ok(tcc_ir_output(w->g, "loss", loss, -1), &w->diag);
}

static gradient_check *check_case;
static tcc_dtype case_dtype;
static gradient_order case_order;

static void test_case(void **state) {
    world w;
    build_case(&w, (int)(intptr_t)*state, case_dtype, case_order);
    check_case(w.g, w.inputs);
    close_world(&w);
}

int gradient_cases_run(tcc_dtype dtype, gradient_order order, gradient_check *check) {
    static struct CMUnitTest tests[N_CASES];
    check_case = check;
    case_dtype = dtype;
    case_order = order;
    for (int i = 0; i < N_CASES; i++)
        tests[i] = (struct CMUnitTest){cases[i].name, test_case, NULL, NULL, (void *)(intptr_t)i};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every op that has a derivative is in some case. */
void gradient_cases_cover(void **state) {
    (void)state;
    bool seen[TCC_OP_COUNT] = {0};
    for (int i = 0; i < N_CASES; i++) {
        world w;
        build_case(&w, i, TCC_F64, SECOND_ORDER);
        for (int k = 0; k < w.g->nodes.count; k++) seen[w.g->nodes.data[k]->op] = true;
        close_world(&w);
    }
    static const char *const rules[] = {
#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, noise, emit, doc) #vjp,
#include "ir/ops.def"
#undef TCC_OP
    };
    for (int op = 0; op < TCC_OP_COUNT; op++)
        if (!seen[op] && strcmp(rules[op], "zero") != 0) fail_msg("no case has %s", tcc_op_get_info((tcc_op)op)->text);
}
