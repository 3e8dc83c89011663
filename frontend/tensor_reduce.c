/* SPDX-License-Identifier: MIT
 * Operations on tensors: reductions, softmax and losses. */
#include "tensor_ops.h"

/* -- Reductions -- */

/* Ascending distinct axes; none listed means all. */
static bool reduction_axes(tcc_tensor x, const char *op, int count, const int64_t *axes, tcc_loc at, tcc_dims *out) {
    if (!tcc_trace_takes(op, at, 1, &x)) return false;
    if (count == 0) {
        *out = tcc_ir_axes_from(0, x.node->type.rank);
        return true;
    }
    bool chosen[TCC_MAX_RANK] = {false};
    for (int i = 0; i < count; i++) {
        int a;
        if (!tcc__tensor_axis(x, op, axes[i], at, &a)) return false;
        chosen[a] = true;
    }
    *out = (tcc_dims){0};
    for (int d = 0; d < TCC_MAX_RANK; d++)
        if (chosen[d]) out->v[out->count++] = d;
    return true;
}

static tcc_tensor reduction(tcc_op op, tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    tcc_dims list;
    if (!reduction_axes(x, tcc_op_get_info(op)->text, count, axes, at, &list)) return tcc_trace_poison();
    return tcc_trace_wrap(x.trace, tcc_ir_reduce(tcc__tensor_begin(x.trace, at), op, x.node, &list));
}

tcc_tensor tcc_sum_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    return reduction(TCC_OP_REDUCE_SUM, x, count, axes, at);
}

tcc_tensor tcc_reduce_max_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    return reduction(TCC_OP_REDUCE_MAX, x, count, axes, at);
}

tcc_tensor tcc_reduce_min_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    return reduction(TCC_OP_REDUCE_MIN, x, count, axes, at);
}

tcc_tensor tcc_mean_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    tcc_dims list;
    if (!reduction_axes(x, "mean", count, axes, at, &list)) return tcc_trace_poison();
    if (!tcc_dtype_is_float(x.node->type.dtype))
        return tcc_trace_error(x.trace, TCC_EDTYPE, at,
                               "mean: the mean of %s is no integer; convert first: tcc_mean(tcc_cast(x, TCC_F32), ..)",
                               tcc_type_text(&x.node->type));
    return tcc_trace_wrap(x.trace, tcc_ir_mean(tcc__tensor_begin(x.trace, at), x.node, &list));
}

tcc_tensor tcc_argmax_at(tcc_tensor x, int axis, tcc_loc at) {
    int a;
    if (!tcc__tensor_axis(x, "argmax", axis, at, &a)) return tcc_trace_poison();
    return tcc__tensor_op(TCC_OP_ARGMAX, x, &(tcc_attrs){.axis = {.axis = a}}, NULL, at);
}

tcc_tensor tcc_cumsum_at(tcc_tensor x, int axis, tcc_loc at) {
    int a;
    if (!tcc__tensor_axis(x, "cumsum", axis, at, &a)) return tcc_trace_poison();
    return tcc__tensor_op(TCC_OP_CUMSUM, x, &(tcc_attrs){.scan = {.axis = a}}, NULL, at);
}

/* -- Softmax and losses -- */

static tcc_tensor along_axis(tcc_op op, tcc_tensor x, int axis, tcc_loc at) {
    int a;
    if (!tcc__tensor_axis(x, tcc_op_get_info(op)->text, axis, at, &a)) return tcc_trace_poison();
    return tcc__tensor_op(op, x, &(tcc_attrs){.axis = {.axis = a}}, NULL, at);
}

tcc_tensor tcc_softmax_at(tcc_tensor x, int axis, tcc_loc at) { return along_axis(TCC_OP_SOFTMAX, x, axis, at); }
tcc_tensor tcc_log_softmax_at(tcc_tensor x, int axis, tcc_loc at) {
    return along_axis(TCC_OP_LOG_SOFTMAX, x, axis, at);
}

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
static bool check_targets(tcc_tensor logits, tcc_tensor targets, int64_t ignored, tcc_loc at) {
    const tcc_type *type = &logits.node->type;
    tcc_doubles values = {0};
    double ends[2] = {0};
    if (!type->rank || !known_targets(targets.node, &values, ends)) return true;
    const int64_t classes = type->dims[type->rank - 1];
    for (int64_t i = 0; i < values.count; i++) {
        const double v = values.v[i];
        if ((v >= 0 && v < (double)classes) || v == (double)ignored) continue;
        tcc_trace_error(
            logits.trace, TCC_EINVAL, at,
            "cross_entropy: target %g is no class of the logits, %s: neither in 0 .. %lld nor ignore_index, "
            "%lld",
            v, tcc_type_text(type), (long long)classes - 1, (long long)ignored);
        return false;
    }
    return true;
}

tcc_tensor tcc_cross_entropy_at(tcc_tensor logits, tcc_tensor targets, const tcc_cross_entropy_options *given,
                                tcc_loc at) {
    TCC_OPTIONS(tcc_cross_entropy_options, options, given);
    const int count = options.weight ? 3 : 2;
    const tcc_tensor all[3] = {logits, targets, options.weight ? *options.weight : logits};
    if (!tcc_trace_takes("cross_entropy", at, count, all)) return tcc_trace_poison();
    const bool chosen = options.has_ignore_index || options.ignore_index != 0;
    tcc_attrs attrs = {.cross_entropy = {.ignore_index = chosen ? options.ignore_index : -100,
                                         .label_smoothing = options.label_smoothing}};
    if (!check_targets(logits, targets, attrs.cross_entropy.ignore_index, at)) return tcc_trace_poison();
    tcc_node *operands[3] = {logits.node, targets.node, all[2].node};
    return tcc_trace_wrap(logits.trace,
                          tcc_ir_build(logits.trace->graph, TCC_OP_CROSS_ENTROPY, operands, count, &attrs, NULL, at));
}

/* Whether x and its target are alike: [N, 1] against [N] would broadcast to N x N and train to the mean. */
static bool check_target(const char *loss, tcc_tensor x, tcc_tensor target, tcc_loc at) {
    if (!tcc_trace_takes(loss, at, 2, (tcc_tensor[]){x, target})) return false;
    const tcc_type *a = &x.node->type, *b = &target.node->type;
    if (!tcc_dtype_is_float(a->dtype)) {
        tcc_trace_error(x.trace, TCC_EDTYPE, at, "%s: x is %s; convert it first: tcc_cast(x, TCC_F32)", loss,
                        tcc_type_text(a));
    } else if (a->dtype != b->dtype) {
        tcc_trace_error(x.trace, TCC_EDTYPE, at, "%s: element types differ: x is %s, the target %s; tcc_cast converts",
                        loss, tcc_type_text(a), tcc_type_text(b));
    } else if (!tcc_type_equal(a, b)) {
        tcc_trace_error(
            x.trace, TCC_ESHAPE, at,
            "%s: x is %s, the target %s; they must have one shape (nothing broadcasts in a loss): tcc_reshape "
            "or tcc_broadcast one of them",
            loss, tcc_type_text(a), tcc_type_text(b));
    } else {
        return true;
    }
    tcc_note(x.trace->graph->diag, x.node->loc, "x made here");
    tcc_note(x.trace->graph->diag, target.node->loc, "the target made here");
    return false;
}

tcc_tensor tcc_mse_loss_at(tcc_tensor x, tcc_tensor target, tcc_loc at) {
    if (!check_target("mse_loss", x, target, at)) return tcc_trace_poison();
    tcc_tensor d = tcc_sub_at(x, target, at);
    return tcc_mean_at(tcc_mul_at(d, d, at), 0, NULL, at);
}

tcc_tensor tcc_l1_loss_at(tcc_tensor x, tcc_tensor target, tcc_loc at) {
    if (!check_target("l1_loss", x, target, at)) return tcc_trace_poison();
    return tcc_mean_at(tcc_abs_at(tcc_sub_at(x, target, at), at), 0, NULL, at);
}

tcc_tensor tcc_bce_with_logits_at(tcc_tensor x, tcc_tensor target, tcc_loc at) {
    if (!check_target("bce_with_logits", x, target, at)) return tcc_trace_poison();
    /* -t log s(x) - (1 - t) log(1 - s(x)) = softplus(x) - t x */
    return tcc_mean_at(tcc_sub_at(tcc_softplus_at(x, at), tcc_mul_at(target, x, at), at), 0, NULL, at);
}
