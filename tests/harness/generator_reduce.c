/* SPDX-License-Identifier: MIT
 * Random graphs: reductions and scans. */
#include "harness/generator_values.h"
#include "ir/collective.h"

static tcc_dims random_axes(tcc_gen *r, int rank) {
    tcc_dims axes = {0};
    /* Rows and columns are the common cases. */
    if (tcc__gen_chance(r, 50)) {
        axes = (tcc_dims){1, {tcc__gen_chance(r, 60) ? rank - 1 : tcc__gen_below(r, rank)}};
        return axes;
    }
    for (int i = 0; i < rank; i++)
        if (tcc__gen_chance(r, 50)) axes.v[axes.count++] = i;
    return axes.count ? axes : tcc_ir_axes_from(0, rank);
}

static double count_of(const tcc_node *x, const tcc_dims *axes) {
    double count = 1;
    for (int i = 0; i < axes->count; i++) count *= (double)x->type.dims[axes->v[i]];
    return count;
}

static tcc_gen_value reduced(tcc_gen *r, tcc_op op, tcc_gen_value x, const tcc_dims *axes) {
    const double count = op == TCC_OP_REDUCE_SUM ? count_of(x.n, axes) : 1;
    tcc_node *n = tcc_ir_reduce(r->g, op, x.n, axes);
    if (op == TCC_OP_REDUCE_MEAN) return tcc__gen_made(n, x.lo, x.hi, x.err, -1);
    if (op == TCC_OP_REDUCE_M2) {
        const double width = x.hi - x.lo, all = count_of(x.n, axes);
        return tcc__gen_made(n, 0, all * width * width, all * 2 * width * x.err, -1);
    }
    const double least = tcc__gen_min(x.lo, count * x.lo), most = tcc__gen_max(x.hi, count * x.hi);
    return tcc__gen_made(n, least, most, count * x.err, x.grid);
}

/* x - max x, x / sum x, ...: what softmax and the norms are made of. The pattern's result. */
static tcc_gen_value add_row_pattern(tcc_gen *r, tcc_gen_value x, const tcc_dims *axes) {
    tcc_gen_value y = {0};
    switch (tcc__gen_below(r, 3)) {
    case 0: {
        tcc_gen_value top = reduced(r, TCC_OP_REDUCE_MAX, x, axes);
        tcc_node *n = tcc_ir_binary(r->g, TCC_OP_SUB, x.n,
                                    tcc_ir_unreduce(r->g, top.n, x.n->type.rank, x.n->type.dims, axes));
        y = tcc__gen_made(n, x.lo - x.hi, 0, 2 * x.err, x.grid);
        break;
    }
    case 1: {
        x = tcc__gen_into(r, x, 0.5, 4);
        tcc_gen_value sum = reduced(r, TCC_OP_REDUCE_SUM, x, axes);
        if (!x.n) return x;
        const double relative = (x.err + (sum.n ? sum.err / count_of(x.n, axes) : 0)) / 0.5;
        tcc_node *n = tcc_ir_binary(r->g, TCC_OP_DIV, x.n,
                                    tcc_ir_unreduce(r->g, sum.n, x.n->type.rank, x.n->type.dims, axes));
        y = tcc__gen_made(n, 0, 1, relative, -1);
        break;
    }
    default: {
        x = tcc__gen_into(r, x, -2, 2);
        if (!x.n) return x;
        tcc_node *mean = tcc__gen_chance(r, 50) ? tcc_ir_mean(r->g, x.n, axes)
                                                : reduced(r, TCC_OP_REDUCE_MEAN, x, axes).n;
        if (tcc__gen_chance(r, 60)) tcc__gen_keep(r, reduced(r, TCC_OP_REDUCE_M2, x, axes));
        const double width = x.hi - x.lo;
        tcc_node *n = tcc_ir_binary(r->g, TCC_OP_SUB, x.n,
                                    tcc_ir_unreduce(r->g, mean, x.n->type.rank, x.n->type.dims, axes));
        y = tcc__gen_made(n, -width, width, 2 * x.err, -1);
    }
    }
    tcc__gen_keep(r, y);
    return y;
}

/* Work on rows, and column sums of it: what the gradients of norms and biases are made of. */
static void add_column_sums(tcc_gen *r) {
    tcc_type type = {tcc__gen_float(r), 2, {16 + tcc__gen_below(r, 60), 2 + tcc__gen_below(r, 80)}};
    if (tcc__gen_chance(r, 30)) type = (tcc_type){type.dtype, 3, {2, type.dims[0] / 2, type.dims[1]}};
    if (!tcc__gen_fits(r, &type)) return;
    const tcc_dims rows = {1, {type.rank - 1}}, columns = {type.rank - 1, {0, 1}};
    tcc_gen_value x = tcc__gen_input(r, &type), y = add_row_pattern(r, x, &rows);
    if (!x.n || !y.n) return;
    if (tcc__gen_chance(r, 70)) tcc__gen_keep(r, reduced(r, TCC_OP_REDUCE_SUM, y, &columns));
    if (tcc__gen_chance(r, 50)) tcc__gen_keep(r, reduced(r, TCC_OP_REDUCE_SUM, x, &columns));
}

static void add_argsort(tcc_gen *r, tcc_gen_value x) {
    const int64_t line = x.n->type.dims[x.n->type.rank - 1];
    const tcc_attrs attrs = {
        .order = {.count = 1 + tcc__gen_below(r, (int)line), .descending = tcc__gen_chance(r, 50)}};
    tcc_node *n = tcc__gen_build(r, TCC_OP_ARGSORT, &x.n, 1, &attrs, NULL);
    tcc__gen_keep(r, (tcc_gen_value){n, 0, (double)line, 0, 0});
}

static void add_argmax(tcc_gen *r) {
    tcc_gen_value x = tcc__gen_pick(r, (tcc_gen_want){TCC_GEN_FLOAT | TCC_GEN_INT, 1, TCC_MAX_RANK, true});
    if (!x.n) return;
    if (tcc__gen_allows_composites(r) && tcc__gen_chance(r, 50)) {
        add_argsort(r, x);
        return;
    }
    tcc_attrs attrs = {.axis.axis = tcc__gen_below(r, x.n->type.rank)};
    tcc_node *n = tcc__gen_build(r, TCC_OP_ARGMAX, &x.n, 1, &attrs, NULL);
    tcc__gen_keep(r, (tcc_gen_value){n, 0, (double)x.n->type.dims[attrs.axis.axis], 0, 0});
}

void tcc__gen_reduce(tcc_gen *r) {
    static const tcc_op ops[] = {TCC_OP_REDUCE_SUM, TCC_OP_REDUCE_SUM, TCC_OP_REDUCE_MAX, TCC_OP_REDUCE_MIN};
    if (tcc__gen_chance(r, 8)) {
        add_argmax(r);
        return;
    }
    if (tcc__gen_chance(r, 15)) {
        add_column_sums(r);
        return;
    }
    tcc_gen_value x =
        tcc__gen_pick(r, (tcc_gen_want){tcc__gen_chance(r, 92) ? TCC_GEN_FLOAT : TCC_GEN_INT, 1, TCC_MAX_RANK, false});
    if (!x.n || x.n->type.dtype == TCC_U8) return; /* sums of bytes overflow */
    const tcc_dims axes = random_axes(r, x.n->type.rank);
    if (tcc_dtype_is_float(x.n->type.dtype) && tcc__gen_chance(r, 35)) add_row_pattern(r, x, &axes);
    else tcc__gen_keep(r, reduced(r, TCC_GEN_ONE_OF(r, ops), x, &axes));
}

/* Over some dims, or the gradient of such a product. */
static void add_product(tcc_gen *r, tcc_gen_value x) {
    const tcc_attrs attrs = {.axes = {.axes = random_axes(r, x.n->type.rank)}};
    const double count = count_of(x.n, &attrs.axes.axes);
    tcc_node *y = tcc__gen_build(r, TCC_OP_PROD, &x.n, 1, &attrs, NULL);
    if (y && tcc__gen_chance(r, 40)) {
        tcc_gen_value dy = tcc__gen_into(r, tcc__gen_like(r, &y->type), -1, 1);
        if (!dy.n) return;
        tcc_node *n = tcc__gen_build(r, TCC_OP_PROD_GRAD, (tcc_node *[]){x.n, dy.n}, 2, &attrs, NULL);
        tcc__gen_keep(r, tcc__gen_made(n, -1, 1, dy.err + count * x.err, -1));
        return;
    }
    tcc__gen_keep(r, tcc__gen_made(y, -1, 1, count * x.err, -1));
}

/* y = a y + b, or products of a, of factors that let nothing grow but as sums do. */
static void add_linear_scan(tcc_gen *r) {
    tcc_gen_value a = tcc__gen_into(r, tcc__gen_pick_float(r, 1, false), -1, 1);
    if (!a.n) return;
    tcc_attrs attrs = {.scan = {.axis = tcc__gen_below(r, a.n->type.rank), .reverse = tcc__gen_chance(r, 40)}};
    const double count = (double)a.n->type.dims[attrs.scan.axis];
    if (tcc__gen_chance(r, 40)) {
        if (tcc__gen_allows_composites(r) && tcc__gen_chance(r, 60)) {
            add_product(r, a);
            return;
        }
        tcc_node *n = tcc__gen_build(r, TCC_OP_LINEAR_SCAN, &a.n, 1, &attrs, NULL);
        tcc__gen_keep(r, tcc__gen_made(n, -1, 1, count * a.err, -1));
        return;
    }
    tcc_gen_value b = tcc__gen_like(r, &a.n->type);
    if (!b.n) return;
    const double most = count * tcc__gen_max(-b.lo, b.hi);
    tcc_node *n = tcc__gen_build(r, TCC_OP_LINEAR_SCAN, (tcc_node *[]){a.n, b.n}, 2, &attrs, NULL);
    tcc__gen_keep(r, tcc__gen_made(n, -most, most, count * (b.err + most * a.err), -1));
}

/* Among values that are nearly equal, rounding would choose where the gradient goes. */
static void add_maxima(tcc_gen *r) {
    tcc_gen_value x = tcc__gen_pick(r, (tcc_gen_want){TCC_GEN_FLOAT | TCC_GEN_INT, 1, TCC_MAX_RANK, false});
    if (!x.n || (x.grid < 0 && r->options->differentiable)) return;
    tcc_attrs attrs = {.scan = {.axis = tcc__gen_below(r, x.n->type.rank), .reverse = tcc__gen_chance(r, 40)}};
    tcc__gen_keep(r, tcc__gen_made(tcc__gen_build(r, TCC_OP_CUMMAX, &x.n, 1, &attrs, NULL), x.lo, x.hi, x.err, x.grid));
}

void tcc__gen_scan(tcc_gen *r) {
    const int64_t kind = tcc__gen_below(r, 10);
    if (kind < 4) {
        add_linear_scan(r);
        return;
    }
    if (kind < 7) {
        add_maxima(r);
        return;
    }
    tcc_gen_value x = tcc__gen_pick_float(r, 1, false);
    if (!x.n) return;
    tcc_attrs attrs = {.scan = {.axis = tcc__gen_below(r, x.n->type.rank), .reverse = tcc__gen_chance(r, 40)}};
    const double count = (double)x.n->type.dims[attrs.scan.axis];
    tcc_node *operands[2] = {x.n};
    int n_operands = 1;
    if (tcc__gen_chance(r, 40)) {
        tcc_type bool_type = x.n->type;
        bool_type.dtype = TCC_BOOL;
        operands[1] = tcc__gen_like(r, &bool_type).n;
        n_operands += operands[1] != NULL;
    }
    tcc_node *n = tcc__gen_build(r, TCC_OP_CUMSUM, operands, n_operands, &attrs, NULL);
    tcc__gen_keep(
        r, tcc__gen_made(n, tcc__gen_min(x.lo, count * x.lo), tcc__gen_max(x.hi, count * x.hi), count * x.err, x.grid));
}

/* Its interval is that of one rank alone, too, to which the others bring nothing. */
void tcc__gen_collective(tcc_gen *r) {
    static const tcc_op ops[] = {TCC_OP_ALL_REDUCE, TCC_OP_ALL_REDUCE, TCC_OP_REDUCE_SCATTER, TCC_OP_ALL_GATHER};
    const tcc_op op = TCC_GEN_ONE_OF(r, ops);
    tcc_gen_value x =
        tcc__gen_pick(r, (tcc_gen_want){TCC_GEN_FLOAT | TCC_GEN_INT, op != TCC_OP_ALL_REDUCE, TCC_MAX_RANK, false});
    const bool sums = tcc__gen_chance(r, 70);
    if (!x.n || x.n->type.dtype == TCC_U8) return; /* sums of bytes overflow */
    const double ranks = r->options->ranks;
    tcc_type type = x.n->type;
    if (op == TCC_OP_ALL_GATHER) type.dims[0] *= r->options->ranks;
    if (!tcc__gen_fits(r, &type) || (op == TCC_OP_REDUCE_SCATTER && type.dims[0] % r->options->ranks)) return;
    tcc_rank_reduction how = sums ? TCC_REDUCTION_SUM : (tcc_rank_reduction)(1 + tcc__gen_below(r, 3));
    if (how == TCC_REDUCTION_FIRST && (op != TCC_OP_ALL_REDUCE || r->options->differentiable)) how = TCC_REDUCTION_MIN;
    tcc_node *n = tcc_ir_collective(r->g, op, x.n, how, r->options->ranks);
    const double times = op != TCC_OP_ALL_GATHER && sums ? ranks : 1, zero = op == TCC_OP_ALL_GATHER ? 0 : x.lo;
    tcc__gen_keep(r, tcc__gen_made(n, tcc__gen_min(zero, tcc__gen_min(x.lo, times * x.lo)),
                                   tcc__gen_max(zero, tcc__gen_max(x.hi, times * x.hi)), times * x.err, x.grid));
}
