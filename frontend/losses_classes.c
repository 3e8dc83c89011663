/* SPDX-License-Identifier: MIT
 * Cross entropy and negative log-likelihood of classes. */
#include "tensor_ops.h"

#include "traincc/losses.h"

#include <math.h>
#include <stdint.h>

/* What is built here stands at the line of the loss's caller. */
#undef TCC_HERE
#define TCC_HERE at

/* Both losses in the making. The classes have been made the last dim. */
typedef struct likelihood {
    const char *name;
    tcc_cross_entropy_options options;
    int64_t ignored, classes;
    tcc_tensor x, targets, weight; /* weight without a trace: none */
} likelihood;

/* -- Arguments -- */

/* What a target that does not change can be: the least and largest value, where it is known. */
static bool known_targets(const tcc_node *n, tcc_doubles *values, double ends[2]) {
    while (n->op == TCC_OP_RESHAPE || n->op == TCC_OP_TRANSPOSE || n->op == TCC_OP_BROADCAST) n = n->operands[0];
    if (n->op == TCC_OP_CONSTANT) *values = n->attrs->constant.values;
    if (n->op == TCC_OP_IOTA) {
        ends[1] = (double)(n->type.dims[n->attrs->axis.axis] - 1);
        *values = (tcc_doubles){2, ends};
    }
    return values->count > 0;
}

/* Constant targets are checked here; others make the loss NaN where they are none. */
static bool check_targets(const likelihood *l, tcc_loc at) {
    tcc_doubles values = {0};
    double ends[2] = {0};
    if (!known_targets(l->targets.node, &values, ends)) return true;
    for (int64_t i = 0; i < values.count; i++) {
        const double v = values.v[i];
        if ((v >= 0 && v < (double)l->classes) || v == (double)l->ignored) continue;
        tcc_trace_error(l->x.trace, TCC_EINVAL, at,
                        "%s: target %g is no class of the logits, %s: neither in 0 .. %lld nor ignore_index, %lld",
                        l->name, v, tcc_type_text(&l->x.node->type), (long long)l->classes - 1, (long long)l->ignored);
        return false;
    }
    return true;
}

static bool check_options(const likelihood *l, bool smooths, tcc_loc at) {
    const tcc_cross_entropy_options *o = &l->options;
    tcc_trace *t = l->x.trace;
    if (o->reduction < TCC_REDUCE_MEAN || o->reduction > TCC_REDUCE_NONE)
        tcc_trace_error(t, TCC_EINVAL, at, "%s: reduction %d is none of TCC_REDUCE_MEAN, _SUM and _NONE", l->name,
                        (int)o->reduction);
    else if (!smooths && o->label_smoothing != 0)
        tcc_trace_error(t, TCC_EINVAL, at, "%s has no option label_smoothing", l->name);
    else if (!(o->label_smoothing >= 0 && o->label_smoothing < 1))
        tcc_trace_error(t, TCC_EINVAL, at, "%s: label_smoothing must be in [0, 1), not %g", l->name,
                        o->label_smoothing);
    else if (l->ignored < INT32_MIN || l->ignored > INT32_MAX)
        tcc_trace_error(t, TCC_EINVAL, at, "%s: ignore_index must be an i32, not %lld", l->name, (long long)l->ignored);
    else return true;
    return false;
}

static bool check_weight(const likelihood *l, tcc_loc at) {
    const tcc_type want = {l->x.node->type.dtype, 1, {l->classes}}, *is = &l->weight.node->type;
    if (tcc_type_equal(&want, is)) return true;
    tcc_trace_error(l->x.trace, TCC_ESHAPE, at, "%s: the weights of the classes are %s, not %s", l->name,
                    tcc_type_text(is), tcc_type_text(&want));
    return false;
}

/* Targets that are classes have the shape of x without the dim `axis`. */
static bool check_shape(const likelihood *l, int axis, tcc_loc at) {
    const tcc_type *x = &l->x.node->type, *is = &l->targets.node->type;
    tcc_type want = *x;
    want.dtype = is->dtype == TCC_I64 ? TCC_I64 : TCC_I32;
    want.rank--;
    for (int d = axis; d <= want.rank; d++) want.dims[d] = d < want.rank ? x->dims[d + 1] : 0;
    if (tcc_type_equal(&want, is)) return true;
    const bool integer = is->dtype == want.dtype;
    tcc_trace_error(l->x.trace, integer ? TCC_ESHAPE : TCC_EDTYPE, at,
                    "%s: targets are %s; with the classes in dim %d of %s they must be %s, as i32 or i64", l->name,
                    tcc_type_text(is), axis, tcc_type_text(x), tcc_type_text(&want));
    if (integer && is->rank == want.rank && want.rank > 1)
        tcc_note(l->x.trace->graph->diag, at, "option axis gives the dim of the classes: .axis = 1 for [N, C, ..]");
    return false;
}

/* The dim `axis` behind all others. */
static tcc_tensor moved_last(tcc_tensor x, int axis, tcc_loc at) {
    const int rank = tcc_rank(x);
    int64_t perm[TCC_MAX_RANK];
    for (int d = 0; d < rank - 1; d++) perm[d] = d < axis ? d : d + 1;
    perm[rank - 1] = axis;
    return axis == rank - 1 ? x : tcc_transpose(x, rank, perm);
}

/* Checks all and moves the classes; `soft`: targets are probabilities. */
static bool begin(likelihood *l, const char *name, tcc_tensor x, tcc_tensor targets,
                  const tcc_cross_entropy_options *given, bool *soft, tcc_loc at) {
    TCC_OPTIONS(tcc_cross_entropy_options, options, given);
    if (given && !tcc_trace_takes_size(name, given->size, sizeof options, at)) return false;
    const bool chosen = options.has_ignore_index || options.ignore_index != 0;
    *l = (likelihood){
        .name = name, .options = options, .ignored = chosen ? options.ignore_index : -100, .x = x, .targets = targets};
    if (options.weight) l->weight = *options.weight;
    if (!tcc_trace_takes(name, at, 2 + (options.weight != NULL), (tcc_tensor[]){x, targets, l->weight})) return false;
    int axis;
    if (!tcc_dtype_is_float(x.node->type.dtype)) {
        tcc_trace_error(x.trace, TCC_EDTYPE, at, "%s: x is %s; convert it first: tcc_cast(x, TCC_F32)", name,
                        tcc_type_text(&x.node->type));
        return false;
    }
    if (!tcc__tensor_axis(x, name, options.axis ? options.axis : -1, at, &axis)) return false;
    l->classes = tcc_dim(x, axis);
    const bool likelihoods = soft == NULL;
    if (!check_options(l, !likelihoods, at) || (options.weight && !check_weight(l, at))) return false;
    if (soft) *soft = tcc_type_equal(&x.node->type, &targets.node->type);
    if (soft && *soft && chosen) {
        tcc_trace_error(x.trace, TCC_EINVAL, at, "%s: targets that are probabilities have no ignore_index", name);
        return false;
    }
    if (!soft || !*soft) {
        if (!check_shape(l, axis, at) || !check_targets(l, at)) return false;
        if (tcc_get_dtype(targets) == TCC_I64) { /* saturated, so that none out of range becomes a class */
            tcc_tensor low = tcc_constant(x.trace, INT32_MIN, TCC_I64, 0, NULL),
                       high = tcc_constant(x.trace, INT32_MAX, TCC_I64, 0, NULL);
            l->targets = tcc_cast(tcc_min(tcc_max(targets, low), high), TCC_I32);
        }
    } else {
        l->targets = moved_last(targets, axis, at);
    }
    l->x = moved_last(x, axis, at);
    return true;
}

/* -- Rows -- */

/* x [..] as [.., 1]. */
static tcc_tensor column(tcc_tensor x, tcc_loc at) {
    int64_t dims[TCC_MAX_RANK];
    for (int d = 0; d < tcc_rank(x); d++) dims[d] = tcc_dim(x, d);
    dims[tcc_rank(x)] = 1;
    return tcc_reshape(x, tcc_rank(x) + 1, dims);
}

/* The element of class t of each row of z. Rows of logits are swept anyway, so theirs is found in passing; of others
 * nothing else is read. */
static tcc_tensor own_class(tcc_tensor z, tcc_tensor t, bool logits, tcc_loc at) {
    int64_t dims[TCC_MAX_RANK];
    for (int d = 0; d < tcc_rank(z); d++) dims[d] = tcc_dim(z, d);
    if (!logits) return tcc_reshape(tcc_take_along(z, column(t, at), -1), tcc_rank(z) - 1, dims);
    tcc_tensor classes = tcc_iota(z.trace, -1, TCC_I32, tcc_rank(z), dims);
    tcc_tensor own = tcc_select(tcc_eq(classes, column(t, at)), z, tcc__tensor_like(z, 0, at));
    return tcc_sum(own, TCC_DIMS(-1));
}

/* A row of log-probabilities with class t, weights w and smoothing s: -(1 - s) w_t z_t - s/C sum_c w_c z_c; NaN where
 * t is no class, with its gradients. *share is w_t, and 0 where the target does not count. */
static tcc_tensor class_rows(const likelihood *l, tcc_tensor z, bool logits, tcc_tensor *share, tcc_loc at) {
    const double s = l->options.label_smoothing;
    tcc_tensor t = l->targets, zero = tcc__tensor_like(z, 0, at), first = tcc__tensor_like(t, 0, at);
    tcc_tensor counts = tcc_ne(t, tcc__tensor_like(t, (double)l->ignored, at)),
               known = tcc_and(tcc_ge(t, first), tcc_lt(t, tcc__tensor_like(t, (double)l->classes, at)));
    tcc_tensor good = tcc_select(tcc_or(known, tcc_not(counts)), tcc__tensor_like(z, 1, at),
                                 tcc__tensor_like(z, NAN, at));
    z = tcc_mul(z, column(good, at)); /* so NaN reaches the gradients */
    tcc_tensor row = tcc_neg(own_class(z, tcc_select(known, t, first), logits, at));
    *share = tcc_select(counts, good, zero);
    if (l->options.weight) {
        tcc_tensor w = tcc_take(l->weight, tcc_select(known, t, first), 0);
        w = tcc_select(counts, w, zero); /* what an ignored target weighs may be NaN */
        row = tcc_mul(row, w), *share = tcc_mul(*share, w);
    }
    if (s != 0) {
        tcc_tensor all = tcc_sum(l->options.weight ? tcc_mul(z, l->weight) : z, TCC_DIMS(-1));
        row = tcc_sub(tcc_scale(row, 1 - s), tcc_scale(all, s / (double)l->classes));
    }
    return tcc_select(counts, tcc_mul(row, good), zero);
}

static tcc_tensor soft_rows(const likelihood *l, tcc_tensor z, tcc_loc at) {
    const double s = l->options.label_smoothing;
    tcc_tensor t = l->targets;
    if (s != 0) t = tcc_add_scalar(tcc_scale(t, 1 - s), s / (double)l->classes);
    if (l->options.weight) t = tcc_mul(t, l->weight);
    return tcc_neg(tcc_sum(tcc_mul(t, z), TCC_DIMS(-1)));
}

/* Of log-probabilities, or of logits, in f32 at least. */
static tcc_tensor rows_reduced(likelihood *l, bool logits, bool soft, tcc_loc at) {
    const tcc_dtype dtype = tcc_get_dtype(l->x);
    tcc_trace *t = l->x.trace;
    tcc_full_precision(t);
    tcc_tensor *const floats[] = {&l->x, &l->weight, &l->targets};
    for (int i = 0; i < 3; i++)
        if (floats[i]->node && tcc_dtype_is_float(floats[i]->node->type.dtype))
            floats[i]->node = tcc_ir_widen(tcc__tensor_begin(t, at), floats[i]->node);
    tcc_tensor z = logits ? tcc_log_softmax(l->x, -1) : l->x, share = {0};
    tcc_tensor y = soft ? soft_rows(l, z, at) : class_rows(l, z, logits, &share, at);
    const tcc_loss_reduction how = l->options.reduction;
    if (how == TCC_REDUCE_MEAN && soft) y = tcc_mean(y, TCC_ALL);
    else if (how != TCC_REDUCE_NONE) y = tcc_sum(y, TCC_ALL);
    if (how == TCC_REDUCE_MEAN && !soft) y = tcc_div(y, tcc_sum(share, TCC_ALL));
    y = tcc_cast(y, dtype);
    tcc_full_precision_end(t);
    return y;
}

/* -- The losses -- */

tcc_tensor tcc_cross_entropy_at(tcc_tensor x, tcc_tensor targets, const tcc_cross_entropy_options *given, tcc_loc at) {
    likelihood l;
    bool soft;
    if (!begin(&l, "cross_entropy", x, targets, given, &soft, at)) return tcc_trace_poison();
    if (soft || l.options.reduction != TCC_REDUCE_MEAN) return rows_reduced(&l, true, soft, at);
    /* One op: it need not store the probabilities, and says what a micro-batch weighs. */
    const tcc_attrs attrs = {
        .cross_entropy = {.ignore_index = l.ignored, .label_smoothing = l.options.label_smoothing}};
    tcc_node *operands[3] = {l.x.node, l.targets.node, l.weight.node};
    return tcc_trace_wrap(x.trace, tcc_ir_build(tcc__tensor_begin(x.trace, at), TCC_OP_CROSS_ENTROPY, operands,
                                                l.options.weight ? 3 : 2, &attrs, NULL, at));
}

tcc_tensor tcc_nll_loss_at(tcc_tensor x, tcc_tensor targets, const tcc_cross_entropy_options *given, tcc_loc at) {
    likelihood l;
    if (!begin(&l, "nll_loss", x, targets, given, NULL, at)) return tcc_trace_poison();
    return rows_reduced(&l, false, false, at);
}
