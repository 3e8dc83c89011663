/* SPDX-License-Identifier: MIT
 * Parameters and layers. */
#include "layers.h"
#include "tensor_ops.h"

#include "ir/decompose.h"

#include <math.h>

/* -- Parameters -- */

/* What draws or sets initial values. */
static bool check_init(tcc_trace *t, const char *name, const tcc_init *init, tcc_loc at) {
    const tcc_init_kind kind = init->kind;
    const bool drawn = kind == TCC_INIT_NORMAL || kind == TCC_INIT_TRUNC_NORMAL;
    if ((unsigned)kind > TCC_INIT_XAVIER_NORMAL)
        tcc_trace_error(t, TCC_EINVAL, at, "parameter \"%s\": init kind %d must be from 0 to %d", name, (int)kind,
                        (int)TCC_INIT_XAVIER_NORMAL);
    else if (!isfinite(init->a) || !isfinite(init->b))
        tcc_trace_error(t, TCC_EINVAL, at, "parameter \"%s\": init a %g and b %g must be finite", name, init->a,
                        init->b);
    else if (drawn && init->b < 0)
        tcc_trace_error(t, TCC_EINVAL, at, "parameter \"%s\": init b %g, a standard deviation, must be 0 or more", name,
                        init->b);
    else if (kind == TCC_INIT_UNIFORM && init->a > init->b)
        tcc_trace_error(t, TCC_EINVAL, at, "parameter \"%s\": init [%g, %g) is no range", name, init->a, init->b);
    else if (kind >= TCC_INIT_KAIMING_UNIFORM && init->a < 0)
        tcc_trace_error(t, TCC_EINVAL, at, "parameter \"%s\": init a %g, a factor, must be 0 or more", name, init->a);
    else if (init->fan_in < 0)
        tcc_trace_error(t, TCC_EINVAL, at, "parameter \"%s\": init fan_in %lld must be 1 or more, or 0", name,
                        (long long)init->fan_in);
    else return true;
    return false;
}

static tcc_tensor stored(tcc_trace *t, const char *name, const char *suffix, tcc_role role, tcc_init init, int rank,
                         const int64_t *dims, tcc_loc at) {
    if (!tcc_trace_is_open(t, "param", at) || !tcc_trace_takes_name("param", name, at)) return tcc_trace_poison();
    tcc_diag *diag = t->graph->diag;
    if (rank < 0 || rank > TCC_MAX_RANK)
        return tcc_trace_error(t, TCC_EINVAL, at, "parameter \"%s\": rank %d is out of range (0 to %d)", name, rank,
                               TCC_MAX_RANK);
    if (!tcc_trace_takes_list(t, "param", "extents", rank, dims, at)) return tcc_trace_poison();
    tcc_type type = {.dtype = t->types.count ? t->types.data[t->types.count - 1] : TCC_F32, .rank = rank};
    for (int d = 0; d < rank; d++) type.dims[d] = dims[d];
    const char *full = tcc_trace_name(t, name, suffix);
    if (!full || diag->status != TCC_OK) return tcc_trace_wrap(t, NULL);
    if (tcc_name_is_reserved(full))
        return tcc_trace_error(t, TCC_EINVAL, at, "parameter \"%s\": names that begin with '@' are the library's own",
                               full);

    if (!check_init(t, full, &init, at)) return tcc_trace_poison();
    int index = tcc_store_find(t->store, full);
    if (index < 0 && tcc_store_add(t->store, full, role, &type, &init, diag, at, &index) != TCC_OK)
        return tcc_trace_wrap(t, NULL);
    const tcc_stored *p = &t->store->entries.data[index];
    if (!tcc_type_equal(&p->type, &type) || p->role != role)
        return tcc_trace_error(t, TCC_ESHAPE, at, "\"%s\" is asked for as %s %s, but it is %s %s", full,
                               role == TCC_ROLE_PARAM ? "a parameter" : "a buffer", tcc_type_text(&type),
                               p->role == TCC_ROLE_PARAM ? "a parameter" : "a buffer", tcc_type_text(&p->type));
    while (t->stored.count <= index)
        if (!tcc_vec_push(&t->stored, NULL)) {
            tcc_enomem(diag);
            return tcc_trace_wrap(t, NULL);
        }
    if (!t->stored.data[index]) t->stored.data[index] = tcc_ir_input(t->graph, full, role, &type, at);
    return tcc_trace_wrap(t, t->stored.data[index]);
}

tcc_tensor tcc_param_at(tcc_trace *t, const char *name, tcc_init init, int rank, const int64_t *dims, tcc_loc at) {
    return stored(t, name, "", TCC_ROLE_PARAM, init, rank, dims, at);
}

tcc_tensor tcc__layer_param(tcc_trace *t, const char *name, const char *suffix, tcc_init init, int rank,
                            const int64_t *dims, tcc_loc at) {
    return stored(t, name, suffix, TCC_ROLE_PARAM, init, rank, dims, at);
}

tcc_tensor tcc_state_at(tcc_trace *t, const char *name, tcc_init init, int rank, const int64_t *dims, tcc_loc at) {
    return stored(t, name, "", TCC_ROLE_STATE, init, rank, dims, at);
}

void tcc_update_at(tcc_tensor state, tcc_tensor next, tcc_loc at) {
    if (!tcc_trace_takes("update", at, 2, (tcc_tensor[]){state, next})) return;
    tcc_trace *t = state.trace;
    for (int i = 0; i < t->graph->inputs.count; i++) {
        if (t->graph->inputs.data[i] != state.node || state.node->attrs->input.role != TCC_ROLE_STATE) continue;
        if (!tcc_type_equal(&state.node->type, &next.node->type)) {
            tcc_trace_error(t, TCC_ESHAPE, at, "update of \"%s\": %s cannot hold %s", state.node->attrs->input.name,
                            tcc_type_text(&state.node->type), tcc_type_text(&next.node->type));
            return;
        }
        for (int k = 0; k < t->graph->outputs.count; k++)
            if (t->graph->outputs.data[k].alias == i) {
                tcc_trace_error(t, TCC_EINVAL, at, "update of \"%s\": it has one already; a buffer is updated once",
                                state.node->attrs->input.name);
                return;
            }
        tcc_ir_output(t->graph, state.node->attrs->input.name, next.node, i);
        return;
    }
    tcc_trace_error(t, TCC_EINVAL, at, "tcc_update needs a buffer made by tcc_state");
}

/* -- Linear and convolution -- */

tcc_loc tcc__layer_place(const char *name, tcc_loc at) {
    if (!at.file || at.line || !tcc_trace_poison().trace) return at;
    tcc_graph *g = tcc_trace_poison().trace->graph;
    at.file = tcc_arena_printf(&g->arena, "%s.%s", at.file, name);
    if (!at.file) tcc_enomem(g->diag);
    return at;
}

static const tcc_init torch_default = {.kind = TCC_INIT_KAIMING_UNIFORM, .a = 1};

/* U(+-1/sqrt(fan_in)), PyTorch's bias. */
static tcc_init bias_default(int64_t fan_in) {
    return (tcc_init){.kind = TCC_INIT_KAIMING_UNIFORM, .a = 1, .fan_in = fan_in};
}

tcc_tensor tcc__layer_product(tcc_tensor x, tcc_tensor w, tcc_loc at) {
    if (!tcc_trace_takes("linear", at, 2, (tcc_tensor[]){x, w})) return tcc_trace_poison();
    tcc_ir_set_loc(x.trace->graph, at);
    tcc_attrs_dot attrs = {.contract_a = {1, {tcc_rank(x) - 1}}, .contract_b = {1, {1}}};
    return tcc_trace_wrap(x.trace, tcc_ir_dot(x.trace->graph, x.node, w.node, &attrs));
}

tcc_tensor tcc_linear_at(tcc_tensor x, const char *name, int64_t features, const tcc_linear_options *given,
                         tcc_loc at) {
    TCC_OPTIONS(tcc_linear_options, options, given);
    at = tcc__layer_place(name, at);
    if (!tcc_trace_takes("linear", at, 1, &x) || !tcc_trace_takes_name("linear", name, at) ||
        (given && !tcc_trace_takes_size("linear", given->size, sizeof options, at)))
        return tcc_trace_poison();
    if (!tcc_rank(x)) return tcc_trace_error(x.trace, TCC_ESHAPE, at, "linear \"%s\": x is a scalar", name);
    int64_t in = tcc_dim(x, -1);
    tcc_tensor w = stored(x.trace, name, ".weight", TCC_ROLE_PARAM,
                          options.weight_init ? *options.weight_init : torch_default, 2, (int64_t[]){features, in}, at);
    tcc_tensor y = tcc__layer_product(x, w, at);
    if (options.no_bias || !y.node) return y;
    tcc_tensor b = stored(x.trace, name, ".bias", TCC_ROLE_PARAM,
                          options.bias_init ? *options.bias_init : bias_default(in), 1, (int64_t[]){features}, at);
    return tcc_add_at(y, b, at);
}

/* v [C] as [1, C, 1, ..], to broadcast over x [N, C, spatial]. */
static tcc_tensor per_channel(tcc_tensor v, tcc_tensor x, tcc_loc at) {
    int64_t dims[TCC_MAX_RANK];
    for (int d = 0; d < tcc_rank(x); d++) dims[d] = d == 1 ? tcc_dim(x, 1) : 1;
    return tcc_reshape_at(v, tcc_rank(x), dims, at);
}

/* A convolution with a parameter for its weight: of a transposed one [C, channels / groups, kernel..], else
 * [channels, C / groups, kernel..]. */
static tcc_tensor conv_layer(bool transposed, tcc_tensor x, const char *name, int64_t channels, int64_t kernel,
                             const tcc_conv_options *given, tcc_loc at) {
    const char *what = transposed ? "conv_transpose" : "conv";
    TCC_OPTIONS(tcc_conv_options, options, given);
    at = tcc__layer_place(name, at);
    if (!tcc_trace_takes(what, at, 1, &x) || !tcc_trace_takes_name(what, name, at) ||
        (given && !tcc_trace_takes_size(what, given->size, sizeof options, at)))
        return tcc_trace_poison();
    const int rank = tcc_rank(x), spatial = rank - 2;
    if (spatial < 1 || spatial > 3)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at,
                               "%s \"%s\": x must be [N, C, spatial] with 1 to 3 spatial dims, not %s", what, name,
                               tcc_type_text(&x.node->type));
    const int64_t groups = options.groups ? options.groups : 1, in = tcc_dim(x, 1);
    if (groups < 0 || in % groups || channels % groups)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at,
                               "%s \"%s\": %lld groups do not divide %lld input and %lld output channels", what, name,
                               (long long)groups, (long long)in, (long long)channels);
    int64_t dims[TCC_MAX_RANK] = {transposed ? in : channels, (transposed ? channels : in) / groups};
    for (int d = 0; d < 3; d++) {
        const int64_t of = options.kernel_of[d];
        if (d < spatial) dims[2 + d] = of ? of : kernel;
        else if (of)
            return tcc_trace_error(x.trace, TCC_EINVAL, at,
                                   "%s \"%s\": kernel_of[%d] is %lld, but x, %s, has %d spatial dim%s", what, name, d,
                                   (long long)of, tcc_type_text(&x.node->type), spatial, spatial == 1 ? "" : "s");
    }
    tcc_tensor w = stored(x.trace, name, ".weight", TCC_ROLE_PARAM,
                          options.weight_init ? *options.weight_init : torch_default, rank, dims, at);
    if (!w.node) return w;
    const tcc_init bias = options.bias_init ? *options.bias_init
                                            : bias_default(tcc_type_numel(&w.node->type) / dims[0]);
    const bool no_bias = options.no_bias;
    options.no_bias = false, options.weight_init = options.bias_init = NULL; /* those of layers */
    memset(options.kernel_of, 0, sizeof options.kernel_of);
    tcc_tensor y = transposed ? tcc_conv_transpose_at(x, w, &options, at) : tcc_conv_at(x, w, &options, at);
    if (no_bias || !y.node) return y;
    tcc_tensor b = stored(x.trace, name, ".bias", TCC_ROLE_PARAM, bias, 1, (int64_t[]){channels}, at);
    return tcc_add_at(y, per_channel(b, y, at), at);
}

tcc_tensor tcc_conv_layer_at(tcc_tensor x, const char *name, int64_t channels, int64_t kernel,
                             const tcc_conv_options *options, tcc_loc at) {
    return conv_layer(false, x, name, channels, kernel, options, at);
}

tcc_tensor tcc_conv_transpose_layer_at(tcc_tensor x, const char *name, int64_t channels, int64_t kernel,
                                       const tcc_conv_options *options, tcc_loc at) {
    return conv_layer(true, x, name, channels, kernel, options, at);
}

/* The rows of `w` for indices that may be `padding`, whose gradient is dropped. */
static tcc_tensor padded_embedding(tcc_tensor w, tcc_tensor indices, const char *name, int64_t padding, tcc_loc at) {
    tcc_trace *t = w.trace;
    int64_t dims[TCC_MAX_RANK + 1];
    const int rank = tcc_rank(indices);
    tcc_tensor rows = tcc_take_at(w, indices, 0, at);
    if (!rows.node) return rows;
    const int index = tcc_store_find(t->store, tcc_trace_name(t, name, ".weight"));
    if (index >= t->store->filled) t->store->entries.data[index].zero_row = padding + 1;
    for (int d = 0; d < rank; d++) dims[d] = tcc_dim(indices, d);
    dims[rank] = 1;
    tcc_tensor is = tcc_eq_at(indices, tcc_constant_at(t, (double)padding, tcc_get_dtype(indices), 0, NULL, at), at);
    return tcc_select_at(tcc_reshape_at(is, rank + 1, dims, at), tcc_stop_gradient_at(rows, at), rows, at);
}

tcc_tensor tcc_embedding_at(tcc_tensor indices, const char *name, int64_t rows, int64_t width,
                            const tcc_embedding_options *given, tcc_loc at) {
    TCC_OPTIONS(tcc_embedding_options, options, given);
    at = tcc__layer_place(name, at);
    if (!tcc_trace_takes("embedding", at, 1, &indices) || !tcc_trace_takes_name("embedding", name, at) ||
        (given && !tcc_trace_takes_size("embedding", given->size, sizeof options, at)))
        return tcc_trace_poison();
    const tcc_init init = options.weight_init ? *options.weight_init : (tcc_init){.kind = TCC_INIT_NORMAL, .b = 1};
    tcc_tensor w = stored(indices.trace, name, ".weight", TCC_ROLE_PARAM, init, 2, (int64_t[]){rows, width}, at);
    if (!options.has_padding_index && !options.padding_index) return tcc_take_at(w, indices, 0, at);
    const int64_t padding = options.padding_index < 0 ? options.padding_index + rows : options.padding_index;
    if (padding < 0 || padding >= rows)
        return tcc_trace_error(indices.trace, TCC_EINVAL, at,
                               "embedding \"%s\": padding index %lld is out of range for %lld rows (-%lld to %lld)",
                               name, (long long)options.padding_index, (long long)rows, (long long)rows,
                               (long long)rows - 1);
    return w.node ? padded_embedding(w, indices, name, padding, at) : w;
}

/* -- Normalization -- */

static tcc_init constant(double value) { return (tcc_init){.kind = TCC_INIT_CONSTANT, .a = value}; }

/* Adds weight and bias of the normalized extent `features` to operands[1..]; returns the number of operands, 0 after an
 * error. */
static int affine(tcc_tensor x, const char *name, const tcc_norm_options *options, int64_t features,
                  tcc_node *operands[3], tcc_loc at) {
    operands[0] = x.node;
    if (options->no_affine) return 1;
    operands[1] =
        stored(x.trace, name, ".weight", TCC_ROLE_PARAM, constant(options->zero_weight ? 0 : 1), 1, &features, at).node;
    if (!operands[1]) return 0;
    if (options->no_bias) return 2;
    operands[2] = stored(x.trace, name, ".bias", TCC_ROLE_PARAM, constant(0), 1, &features, at).node;
    return operands[2] ? 3 : 0;
}

/* Whether these are options of the norm; `moves`: it has running statistics. */
static bool check_norm(tcc_op op, tcc_tensor x, const char *name, const tcc_norm_options *options, tcc_loc at) {
    const char *text = tcc_op_get_info(op)->text;
    const bool moves = op == TCC_OP_BATCH_NORM;
    tcc_trace *t = x.trace;
    if (!tcc_trace_takes(text, at, 1, &x) || !tcc_trace_takes_name(text, name, at) ||
        !tcc_trace_takes_size(text, options->size, sizeof *options, at))
        return false;
    if (!isfinite(options->eps) || options->eps < 0)
        tcc_trace_error(t, TCC_EINVAL, at, "%s \"%s\": eps must be finite and above 0, not %g", text, name,
                        options->eps);
    else if (!moves && options->momentum != 0)
        tcc_trace_error(t, TCC_EINVAL, at, "%s \"%s\" has no option momentum", text, name);
    else if (!moves && options->sync) tcc_trace_error(t, TCC_EINVAL, at, "%s \"%s\" has no option sync", text, name);
    else if (!(options->momentum >= 0 && options->momentum <= 1))
        tcc_trace_error(t, TCC_EINVAL, at, "%s \"%s\": momentum must be above 0 and at most 1, not %g", text, name,
                        options->momentum);
    else if (options->no_affine && options->zero_weight)
        tcc_trace_error(t, TCC_EINVAL, at, "%s \"%s\": zero_weight without a weight, by no_affine", text, name);
    else return true;
    return false;
}

/* The ranks whose batches a batch norm takes together; 0: it takes that of this one. */
static int64_t synced(const tcc_trace *t, const tcc_norm_options *options) {
    return t->training && t->ranks > 1 && (options->sync || t->sync_norms) ? t->ranks : 0;
}

static tcc_tensor norm(tcc_op op, tcc_tensor x, const char *name, const tcc_norm_options *options, int axis,
                       int64_t groups, tcc_loc at) {
    if (!check_norm(op, x, name, options, at)) return tcc_trace_poison();
    if (axis >= tcc_rank(x) || axis < 0)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "%s \"%s\": too few dims: %s", tcc_op_get_info(op)->text, name,
                               tcc_type_text(&x.node->type));
    tcc_node *operands[3];
    int count = affine(x, name, options, tcc_dim(x, axis), operands, at);
    if (!count) return tcc_trace_wrap(x.trace, NULL);
    tcc_attrs attrs = {.norm = {.eps = options->eps ? options->eps : 1e-5, .axis = axis, .groups = groups}};
    if (op == TCC_OP_BATCH_NORM) attrs.norm.ranks = synced(x.trace, options);
    return tcc_trace_wrap(x.trace, tcc_ir_build(x.trace->graph, op, operands, count, &attrs, NULL, at));
}

tcc_tensor tcc_layer_norm_at(tcc_tensor x, const char *name, const tcc_norm_options *given, tcc_loc at) {
    TCC_OPTIONS(tcc_norm_options, options, given);
    return norm(TCC_OP_LAYER_NORM, x, name, &options, tcc_rank(x) - 1, 0, tcc__layer_place(name, at));
}

tcc_tensor tcc_rms_norm_at(tcc_tensor x, const char *name, const tcc_norm_options *given, tcc_loc at) {
    TCC_OPTIONS(tcc_norm_options, options, given);
    options.no_bias = true;
    return norm(TCC_OP_RMS_NORM, x, name, &options, tcc_rank(x) - 1, 0, tcc__layer_place(name, at));
}

tcc_tensor tcc_group_norm_at(tcc_tensor x, const char *name, int64_t groups, const tcc_norm_options *given,
                             tcc_loc at) {
    TCC_OPTIONS(tcc_norm_options, options, given);
    return norm(TCC_OP_GROUP_NORM, x, name, &options, 1, groups, tcc__layer_place(name, at));
}

tcc_tensor tcc_instance_norm_at(tcc_tensor x, const char *name, const tcc_norm_options *given, tcc_loc at) {
    TCC_OPTIONS(tcc_norm_options, options, given);
    at = tcc__layer_place(name, at);
    if (!tcc_trace_takes("instance_norm", at, 1, &x)) return tcc_trace_poison();
    if (tcc_rank(x) < 3 || tcc_type_numel(&x.node->type) == tcc_dim(x, 0) * tcc_dim(x, 1))
        return tcc_trace_error(x.trace, TCC_ESHAPE, at,
                               "instance_norm \"%s\": x must be [N, C, ..] with two values or more a channel, not %s",
                               name, tcc_type_text(&x.node->type));
    return norm(TCC_OP_GROUP_NORM, x, name, &options, 1, tcc_dim(x, 1), at);
}

/* running = (1 - momentum) running + momentum statistic, which is f32 at least */
static void update_running(tcc_tensor running, tcc_tensor statistic, double momentum, tcc_loc at) {
    tcc_tensor kept = tcc_scale_at(tcc__tensor_widened(running, at), 1 - momentum, at);
    tcc_tensor next = tcc_add_at(kept, tcc_scale_at(statistic, momentum, at), at);
    tcc_update_at(running, tcc_cast_at(next, tcc_get_dtype(running), at), at);
}

/* Whether a batch norm normalizes by its running statistics, and leaves them. */
static bool is_settled(tcc_trace *t, const char *name) {
    if (!t->training) return true;
    const char *weight = t->keeps_statistics ? tcc_trace_name(t, name, ".weight") : NULL;
    return weight && t->keeps_statistics(t->keeps_user, weight);
}

tcc_tensor tcc_batch_norm_at(tcc_tensor x, const char *name, const tcc_norm_options *given, tcc_loc at) {
    TCC_OPTIONS(tcc_norm_options, options, given);
    at = tcc__layer_place(name, at);
    if (tcc_rank(x) < 2) return norm(TCC_OP_BATCH_NORM, x, name, &options, 1, 0, at); /* reports */
    if (!check_norm(TCC_OP_BATCH_NORM, x, name, &options, at)) return tcc_trace_poison();
    tcc_trace *t = x.trace;
    int64_t channels = tcc_dim(x, 1);
    const double n = (double)tcc_type_numel(&x.node->type) / (double)channels;
    const bool settled = is_settled(t, name);
    const int64_t ranks = synced(t, &options);
    if (!settled && n == 1 && !ranks)
        return tcc_trace_error(t, TCC_ESHAPE, at,
                               "batch_norm \"%s\": %s has one value for each channel, whose variance is 0 in training; "
                               "it takes 2 or more",
                               name, tcc_type_text(&x.node->type));
    tcc_tensor mean = stored(t, name, ".running_mean", TCC_ROLE_STATE, constant(0), 1, &channels, at);
    tcc_tensor variance = stored(t, name, ".running_var", TCC_ROLE_STATE, constant(1), 1, &channels, at);
    if (settled) {
        tcc_node *operands[5];
        int count = affine(x, name, &options, channels, operands, at);
        if (!count || !mean.node || !variance.node) return tcc_trace_wrap(t, NULL);
        if (count < 2) operands[1] = tcc_constant_at(t, 1, TCC_F32, 1, &channels, at).node;
        if (count < 3) operands[2] = tcc_constant_at(t, 0, TCC_F32, 1, &channels, at).node;
        operands[3] = mean.node;
        operands[4] = variance.node;
        tcc_attrs attrs = {.norm = {.eps = options.eps ? options.eps : 1e-5, .axis = 1}};
        return tcc_trace_wrap(t, tcc_ir_build(t->graph, TCC_OP_BATCH_NORM_INFERENCE, operands, 5, &attrs, NULL, at));
    }
    tcc_tensor y = norm(TCC_OP_BATCH_NORM, x, name, &options, 1, 0, at);
    tcc_attrs attrs = {.norm = {.eps = options.eps ? options.eps : 1e-5, .axis = 1, .ranks = ranks}};
    /* y's, so that all is computed once */
    const tcc_type type = {x.node->type.dtype == TCC_F64 ? TCC_F64 : TCC_F32, 1, {channels}};
    tcc_node *batch_mean = tcc_ir_build(t->graph, TCC_OP_BATCH_NORM_MEAN, &x.node, 1, &attrs, &type, at);
    attrs.norm.unbiased = ranks > 0; /* how many values there are on all of them is known there */
    tcc_node *batch_variance = tcc_ir_build(t->graph, TCC_OP_BATCH_NORM_VARIANCE, &x.node, 1, &attrs, &type, at);
    double momentum = options.momentum ? options.momentum : 0.1;
    update_running(mean, tcc_trace_wrap(t, batch_mean), momentum, at);
    tcc_tensor unbiased = tcc_trace_wrap(t, batch_variance);
    update_running(variance, ranks ? unbiased : tcc_scale_at(unbiased, n / (n - 1), at), momentum, at);
    return y;
}

tcc_tensor tcc_dropout_at(tcc_tensor x, double p, tcc_loc at) {
    if (!tcc_trace_takes("dropout", at, 1, &x)) return tcc_trace_poison();
    if (!tcc_dtype_is_float(tcc_get_dtype(x)))
        return tcc_trace_error(x.trace, TCC_EDTYPE, at, "dropout: x is %s; convert it first: tcc_cast(x, TCC_F32)",
                               tcc_type_text(&x.node->type));
    if (!(p >= 0 && p < 1)) return tcc_trace_error(x.trace, TCC_EINVAL, at, "dropout: p must be in [0, 1), not %g", p);
    if (!x.trace->training || p == 0) return x;
    tcc_attrs attrs = {.dropout = {.p = p, .id = x.trace->next_random_id++}};
    return tcc_trace_wrap(x.trace,
                          tcc_ir_build(x.trace->graph, TCC_OP_DROPOUT,
                                       (tcc_node *const[]){x.node, tcc_trace_rng_key(x.trace)}, 2, &attrs, NULL, at));
}
