/* SPDX-License-Identifier: MIT
 * The loss of the whole batch, cut down to a micro-batch (micro.h says what its values are). */
#include "passes/micro_loss.h"

#include "ir/build.h"
#include "ir/collective.h"
#include "ir/decompose.h"
#include "ir/support/alloc.h"
#include "ir/support/train_step.h"

#include <string.h>

/* -- What the parts of the analysis share -- */

typedef tcc_micro_cut cut;
typedef tcc_micro_value value;

static value *value_of(cut *c, const tcc_node *n) { return &c->values[n->id]; }

static bool give(value *y, tcc_node *made) {
    y->node = made;
    return made != NULL;
}

static bool refuse(cut *c, const tcc_node *n, const char *why, const tcc_node *of) {
    if (!c->refusal.node) c->refusal = (tcc_micro_refusal){n, why, of};
    return false;
}

static bool refuse_mixed(cut *c, const tcc_node *n) {
    return refuse(c, n, "reads across the samples of the batch", NULL);
}

tcc_node *tcc_micro_input(const tcc_graph *g, const char *name) {
    for (int i = 0; i < g->inputs.count; i++)
        if (!strcmp(g->inputs.data[i]->attrs->input.name, name)) return g->inputs.data[i];
    return NULL;
}

tcc_node *tcc_micro_hyper(tcc_graph *g, int index) {
    const tcc_type type = {TCC_F32, 1, {TCC_MICRO_COUNT}};
    tcc_node *hyper = tcc_micro_input(g, TCC_MICRO_INPUT);
    if (!hyper) hyper = tcc_ir_input(g, TCC_MICRO_INPUT, TCC_ROLE_HYPER, &type, TCC_NOWHERE);
    int64_t start = index, limit = index + 1, stride = 1;
    return tcc_ir_reshape(g, tcc_ir_slice(g, hyper, &start, &limit, &stride), 0, NULL);
}

tcc_node *tcc_micro_first(tcc_graph *g) {
    return tcc_ir_binary_c(g, TCC_OP_GT, tcc_micro_hyper(g, TCC_MICRO_FIRST), 0);
}

/* The type of a micro-batch's rows; false where they end within what is no whole sample. */
static bool cut_type(const cut *c, const tcc_type *whole, tcc_axis axis, tcc_type *out) {
    const int64_t block = whole->dims[axis.dim] / axis.outer;
    *out = *whole;
    out->dims[axis.dim] = axis.outer * (block * c->samples / c->whole);
    return block * c->samples % c->whole == 0;
}

/* n on other operands; `type`: that its result has then. */
static tcc_node *rebuild(cut *c, const tcc_node *n, tcc_node *const *operands, const tcc_type *type,
                         const tcc_attrs *attrs) {
    const bool typed = tcc_op_get_info(n->op)->flags & TCC_FLAG_TYPED;
    tcc_ir_set_origin(c->g, n);
    tcc_ir_set_marks(c->g, n->marks);
    tcc_node *made = tcc_ir_build(c->g, n->op, operands, n->n_operands, attrs ? attrs : n->attrs, typed ? type : NULL,
                                  n->loc);
    tcc_ir_set_marks(c->g, 0);
    if (made && !tcc_type_equal(&made->type, type)) TCC_BUG(c->g->diag, "a cut of %s is no such", tcc_node_text(n));
    return made;
}

/* The same with rows. A slice of whole blocks begins and ends where the shorter ones do. */
static tcc_node *rebuild_rows(cut *c, const tcc_node *n, tcc_node *const *operands, tcc_axis axis,
                              const tcc_type *type) {
    const int d = axis.dim;
    tcc_attrs attrs = *n->attrs;
    if (n->op != TCC_OP_SLICE) return rebuild(c, n, operands, type, NULL);
    const int64_t block = n->type.dims[d] / axis.outer, shorter = type->dims[d] / axis.outer;
    attrs.slice.start.v[d] = attrs.slice.start.v[d] / block * shorter;
    attrs.slice.limit.v[d] = attrs.slice.limit.v[d] / block * shorter;
    return rebuild(c, n, operands, type, &attrs);
}

/* -- Values that are the same for all samples, where rows are asked for -- */

static tcc_node *cut_same(cut *c, const tcc_node *n, tcc_axis axis);

static tcc_node *cut_operands(cut *c, const tcc_node *n, tcc_axis axis, const tcc_type *type) {
    tcc_node *some[8], **operands = n->n_operands <= 8 ? some : tcc__malloc(sizeof *operands * (size_t)n->n_operands);
    tcc_node *made = NULL;
    bool cuts = operands != NULL;
    for (int k = 0; k < n->n_operands && cuts; k++) {
        const tcc_axis wanted = tcc_axis_of_operand(n, k, axis);
        if (wanted.dim == TCC_AXIS_MIXED) cuts = refuse_mixed(c, n);
        else if (wanted.dim == TCC_AXIS_NONE) operands[k] = value_of(c, n->operands[k])->node;
        else cuts = (operands[k] = cut_same(c, n->operands[k], wanted)) != NULL;
    }
    if (cuts) made = rebuild_rows(c, n, operands, axis, type);
    if (operands != some) tcc__free(operands);
    return made;
}

/* Rows of a value that has none of its own: it must not depend on the sample. */
static tcc_node *cut_same(cut *c, const tcc_node *n, tcc_axis axis) {
    value *v = value_of(c, n);
    tcc_type type;
    if (v->cut_node && tcc_axis_equal(v->cut, axis)) return v->cut_node;
    const bool splat = n->op == TCC_OP_CONSTANT && n->attrs->constant.values.count == 1;
    const bool leaf = n->n_operands == 0 && !splat && !(n->op == TCC_OP_IOTA && n->attrs->axis.axis != axis.dim);
    if (leaf || !cut_type(c, &n->type, axis, &type)) {
        refuse(c, n, "has something of its own for each sample of the batch", NULL);
        return NULL;
    }
    v->cut = axis;
    v->cut_node = splat || n->op == TCC_OP_IOTA ? rebuild(c, n, NULL, &type, NULL)
                  : tcc_op_draws(n->op)         ? rebuild(c, n, &value_of(c, n->operands[0])->node, &type, NULL)
                                                : cut_operands(c, n, axis, &type);
    return v->cut_node;
}

/* -- Totals -- */

/* What the total number c->totals.count is read from. */
static tcc_node *read_total(cut *c, const tcc_micro_total *t) {
    const char *kind = t->op == TCC_OP_MAX ? TCC_TOTAL_MAX : t->op == TCC_OP_MIN ? TCC_TOTAL_MIN : "";
    const tcc_rank_reduction how = t->op == TCC_OP_MAX   ? TCC_REDUCTION_MAX
                                   : t->op == TCC_OP_MIN ? TCC_REDUCTION_MIN
                                                         : TCC_REDUCTION_SUM;
    if (c->ranks > 1) return tcc_ir_collective(c->g, TCC_OP_ALL_REDUCE, t->part, how, c->ranks);
    const char *name = tcc_arena_printf(&c->g->arena, TCC_TOTAL_PREFIX "%d.%d%s", t->level, c->totals.count, kind);
    return name ? tcc_ir_state(c->g, name, &t->part->type, 0, t->part->loc) : NULL;
}

/* The sum over all micro-batches of `part`, of that level, as part's type has it; *level becomes its own. */
static tcc_node *total_of(cut *c, tcc_node *part, tcc_op op, int *level) {
    tcc_node *wide = tcc_ir_widen(c->g, part);
    if (!wide) return NULL;
    if (++*level > TCC_TOTAL_LEVELS) {
        tcc_error(c->g->diag, TCC_EUNSUPPORTED, part->loc,
                  "batch_accumulate: sums over the batch that are made of such sums, more than %d deep",
                  TCC_TOTAL_LEVELS);
        return NULL;
    }
    for (int i = 0; i < c->totals.count; i++)
        if (c->totals.data[i].part == wide && c->totals.data[i].op == op)
            return tcc_ir_cast(c->g, c->totals.data[i].all, part->type.dtype);
    tcc_micro_total t = {.part = wide, .op = op, .level = *level};
    if (!(t.all = read_total(c, &t)) || !tcc_vec_push(&c->totals, t)) return NULL;
    return tcc_ir_cast(c->g, t.all, part->type.dtype);
}

static bool is_view(const tcc_node *n) {
    return n->op == TCC_OP_RESHAPE || n->op == TCC_OP_TRANSPOSE || n->op == TCC_OP_BROADCAST;
}

/* The sum n becomes the same for all samples; of its views that which they are of. */
static bool make_total(cut *c, const tcc_node *n) {
    value *v = value_of(c, n);
    if (v->kind != TCC_MICRO_SUM) return true;
    if (v->local) return refuse(c, v->local, "is of a micro-batch, and the loss reads it", NULL);
    if (is_view(n)) {
        if (!make_total(c, n->operands[0])) return false;
        const value *of = value_of(c, n->operands[0]);
        *v = *of;
        v->cut_node = NULL;
        v->node = rebuild(c, n, &(tcc_node *){of->node}, &n->type, NULL);
    } else {
        v->node = total_of(c, v->node, TCC_OP_ADD, &v->level);
        v->kind = TCC_MICRO_SAME;
    }
    return v->node;
}

/* What is divided by a scalar total may be 0 / 0. */
static bool note_divisor(cut *c, const tcc_node *n) {
    while (is_view(n) || n->op == TCC_OP_CAST) n = n->operands[0];
    const value *v = value_of(c, n);
    if (v->kind != TCC_MICRO_SAME || !v->level || v->trained || tcc_type_numel(&n->type) != 1 ||
        !tcc_dtype_is_float(n->type.dtype))
        return true;
    for (int i = 0; i < c->divisors.count; i++)
        if (c->divisors.data[i] == v->node) return true;
    return tcc_vec_push(&c->divisors, v->node);
}

/* -- Sums -- */

/* In the first micro-batch of all ranks' x, else 0. */
static tcc_node *first_alone(cut *c, tcc_node *x) {
    tcc_node *first = tcc_ir_binary_c(c->g, TCC_OP_GT, tcc_micro_hyper(c->g, TCC_MICRO_LEADS), 0);
    return x ? tcc_ir_select(c->g, tcc_ir_broadcast_like(c->g, first, x), x, tcc_ir_splat_like(c->g, x, 0)) : NULL;
}

static bool is_sum(cut *c, const tcc_node *n, int k) { return value_of(c, n->operands[k])->kind == TCC_MICRO_SUM; }
static bool is_same(cut *c, const tcc_node *n, int k) { return value_of(c, n->operands[k])->kind == TCC_MICRO_SAME; }

static int count_kind(cut *c, const tcc_node *n, tcc_micro_kind kind) {
    int count = 0;
    for (int k = 0; k < n->n_operands; k++) count += value_of(c, n->operands[k])->kind == kind;
    return count;
}

/* Whether n of sums, and what is the same for all samples, is a sum itself. */
static bool is_linear(cut *c, const tcc_node *n) {
    const tcc_dtype from = n->operands[0]->type.dtype, to = n->type.dtype;
    if (count_kind(c, n, TCC_MICRO_ROWS)) return false;
    switch (n->op) {
    case TCC_OP_NEG:
    case TCC_OP_RESHAPE:
    case TCC_OP_TRANSPOSE:
    case TCC_OP_BROADCAST:
    case TCC_OP_SLICE:
    case TCC_OP_FLIP:
    case TCC_OP_REDUCE_SUM:
    case TCC_OP_REDUCE_MEAN:
    case TCC_OP_STOP_GRADIENT:
    case TCC_OP_AVG_POOL:
    case TCC_OP_AVG_POOL_GRAD:
    case TCC_OP_ADAPTIVE_AVG_POOL:
    case TCC_OP_ADAPTIVE_AVG_POOL_GRAD:
    case TCC_OP_RESIZE_NEAREST:
    case TCC_OP_RESIZE_NEAREST_GRAD:
    case TCC_OP_RESIZE_BILINEAR:
    case TCC_OP_RESIZE_BILINEAR_GRAD:
    case TCC_OP_RESIZE_BICUBIC:
    case TCC_OP_RESIZE_BICUBIC_GRAD:
    case TCC_OP_ADD:
    case TCC_OP_SUB:
    case TCC_OP_CONCAT: return true;
    case TCC_OP_CAST:
        return from != TCC_BOOL && (tcc_dtype_is_float(to) || (!tcc_dtype_is_float(from) && to != TCC_BOOL));
    case TCC_OP_PAD: return n->attrs->pad.value == 0;
    case TCC_OP_MUL:
    case TCC_OP_DOT:
    case TCC_OP_CONV:
    case TCC_OP_CONV_GRAD_INPUT:
    case TCC_OP_CONV_GRAD_WEIGHT: return count_kind(c, n, TCC_MICRO_SUM) == 1;
    case TCC_OP_DIV: return tcc_dtype_is_float(to) && is_same(c, n, 1);
    case TCC_OP_SELECT: return is_same(c, n, 0);
    case TCC_OP_CUMSUM: return n->n_operands < 2 || is_same(c, n, 1);
    case TCC_OP_LINEAR_SCAN: return n->n_operands > 1 && is_same(c, n, 0);
    case TCC_OP_TAKE:
    case TCC_OP_TAKE_ALONG: return is_same(c, n, 1);
    default: return false;
    }
}

/* Operand k of a linear op is added to the others. */
static bool is_added(const tcc_node *n, int k) {
    return n->op == TCC_OP_ADD || n->op == TCC_OP_SUB || n->op == TCC_OP_CONCAT || (n->op == TCC_OP_SELECT && k > 0);
}

/* No operand of n that is a sum is left, or n is linear in them. */
static bool settle_sums(cut *c, const tcc_node *n) {
    if (!count_kind(c, n, TCC_MICRO_SUM) || is_linear(c, n)) return true;
    for (int k = 0; k < n->n_operands; k++)
        if (is_sum(c, n, k) && !value_of(c, n->operands[k])->trained && !make_total(c, n->operands[k])) return false;
    if (!count_kind(c, n, TCC_MICRO_SUM) || is_linear(c, n)) return true;
    int k = 0;
    while (!is_sum(c, n, k)) k++;
    return refuse(c, n, "is not linear in a sum over the batch that depends on parameters", n->operands[k]);
}

/* -- Ops -- */

/* A maximum or minimum over the batch, or the squares' differences from its mean, of what no parameter is in. */
static bool reduce_batch_alone(cut *c, const tcc_node *n, tcc_node *x, value *y) {
    const tcc_dims *axes = &n->attrs->axes.axes;
    tcc_ir_set_origin(c->g, n);
    if (n->op == TCC_OP_REDUCE_M2) {
        int64_t count = 1;
        for (int i = 0; i < axes->count; i++) count *= n->operands[0]->type.dims[axes->v[i]];
        tcc_node *sum = total_of(c, tcc_ir_reduce(c->g, TCC_OP_REDUCE_SUM, x, axes), TCC_OP_ADD, &y->level);
        tcc_node *mean = tcc_ir_binary_c(c->g, TCC_OP_MUL, sum, 1 / (double)count);
        mean = tcc_ir_unreduce(c->g, mean, x->type.rank, x->type.dims, axes);
        tcc_node *d = tcc_ir_binary(c->g, TCC_OP_SUB, x, mean);
        y->kind = TCC_MICRO_SUM;
        y->node = tcc_ir_reduce(c->g, TCC_OP_REDUCE_SUM, tcc_ir_binary(c->g, TCC_OP_MUL, d, d), axes);
        return y->node;
    }
    y->kind = TCC_MICRO_SAME;
    y->node = total_of(c, tcc_ir_reduce(c->g, n->op, x, axes), n->op == TCC_OP_REDUCE_MAX ? TCC_OP_MAX : TCC_OP_MIN,
                       &y->level);
    return y->node;
}

/* All rows are taken together, and operands have been cut. */
static bool place_summed(cut *c, const tcc_node *n, tcc_node **operands, value *y) {
    switch (n->op) {
    case TCC_OP_REDUCE_SUM:
    case TCC_OP_REDUCE_MEAN:
        y->kind = TCC_MICRO_SUM;
        tcc_ir_set_origin(c->g, n);
        y->node = tcc_ir_reduce(c->g, TCC_OP_REDUCE_SUM, operands[0], &n->attrs->axes.axes);
        if (n->op == TCC_OP_REDUCE_MEAN)
            y->node = tcc_ir_binary_c(c->g, TCC_OP_MUL, y->node,
                                      (double)tcc_type_numel(&n->type) / (double)tcc_type_numel(&n->operands[0]->type));
        return y->node;
    case TCC_OP_REDUCE_MAX:
    case TCC_OP_REDUCE_MIN:
    case TCC_OP_REDUCE_M2:
        if (y->trained) return refuse_mixed(c, n);
        return reduce_batch_alone(c, n, operands[0], y);
    case TCC_OP_SCATTER_ADD:
    case TCC_OP_SCATTER_ADD_ALONG: operands[0] = first_alone(c, operands[0]); /* fall through */
    case TCC_OP_DOT:
    case TCC_OP_CONV_GRAD_WEIGHT:
    case TCC_OP_BATCH_NORM_GRAD_WEIGHT:
    case TCC_OP_BATCH_NORM_GRAD_BIAS: y->kind = TCC_MICRO_SUM; break;
    case TCC_OP_BATCH_NORM_MEAN:
    case TCC_OP_BATCH_NORM_VARIANCE:
    case TCC_OP_BATCH_NORM_SCALE: y->kind = TCC_MICRO_SAME, y->local = n; break;
    default: return refuse_mixed(c, n);
    }
    return give(y, rebuild(c, n, operands, &n->type, NULL));
}

static bool place_rows(cut *c, const tcc_node *n, tcc_node **operands, value *y) {
    int k = 0;
    while (value_of(c, n->operands[k])->kind != TCC_MICRO_ROWS) k++;
    const tcc_axis x = value_of(c, n->operands[k])->axis;
    y->kind = TCC_MICRO_ROWS;
    y->axis = tcc_axis_of_result(n, k, x);
    const bool all = y->axis.dim == TCC_AXIS_SUMMED;
    if (y->axis.dim == TCC_AXIS_MIXED) return refuse_mixed(c, n);
    for (int j = 0; j < n->n_operands; j++) {
        const value *v = value_of(c, n->operands[j]);
        const tcc_axis wanted = all ? tcc_axis_summed_with(n, k, x, j) : tcc_axis_of_operand(n, j, y->axis);
        const bool rows = v->kind == TCC_MICRO_ROWS;
        operands[j] = v->node;
        if (rows ? tcc_axis_equal(wanted, v->axis) : wanted.dim == TCC_AXIS_NONE) continue;
        if (rows || wanted.dim < 0) return refuse_mixed(c, n);
        if (!(operands[j] = cut_same(c, n->operands[j], wanted))) return false;
    }
    if (all) return place_summed(c, n, operands, y);
    tcc_type type;
    y->local = NULL;
    if (!cut_type(c, &n->type, y->axis, &type)) return refuse(c, n, "takes samples in groups that would be cut", NULL);
    return give(y, rebuild_rows(c, n, operands, y->axis, &type));
}

/* Of a cross-entropy over n's rows: by which of all targets that count, or of their weights, those of the micro-batch
 * are. Where there are none, what it gives is none of the loss. */
static bool place_cross_entropy(cut *c, const tcc_node *n, tcc_node **operands, value *y) {
    const value *logits = value_of(c, n->operands[0]), *targets = value_of(c, n->operands[1]);
    const tcc_axis rows = logits->kind == TCC_MICRO_ROWS ? logits->axis : targets->axis;
    if (rows.dim == n->operands[0]->type.rank - 1) return refuse_mixed(c, n);
    for (int k = 0; k < 2; k++) {
        const value *v = value_of(c, n->operands[k]);
        operands[k] = v->node;
        if (v->kind == TCC_MICRO_SAME && !(operands[k] = cut_same(c, n->operands[k], rows))) return false;
        if (v->kind == TCC_MICRO_ROWS && !tcc_axis_equal(v->axis, rows)) return refuse_mixed(c, n);
    }
    if (n->n_operands > 2) {
        operands[2] = value_of(c, n->operands[2])->node;
        if (!is_same(c, n, 2)) return refuse_mixed(c, n);
        if (value_of(c, n->operands[2])->trained)
            return refuse(c, n, "divides by a sum over the batch that depends on parameters", n->operands[2]);
    }
    tcc_node *mean = rebuild(c, n, operands, &n->type, NULL);
    tcc_node *weights = n->n_operands > 2 ? tcc_ir_widen(c->g, operands[2]) : NULL;
    tcc_node *own =
        tcc_ir_get_cross_entropy(c->g, n, tcc_ir_widen(c->g, operands[0]), operands[1], weights).denominator;
    y->level = targets->level;
    tcc_node *all = total_of(c, own, TCC_OP_ADD, &y->level);
    if (!mean || !all || !tcc_vec_push(&c->divisors, all)) return false;
    tcc_node *share = tcc_ir_cast(c->g, tcc_ir_binary(c->g, TCC_OP_DIV, own, all), mean->type.dtype);
    tcc_node *some = tcc_ir_binary_c(c->g, TCC_OP_NE, own, 0); /* a NaN counts */
    tcc_node *part = tcc_ir_binary(c->g, TCC_OP_MUL, mean, share);
    y->kind = TCC_MICRO_SUM;
    return give(y, tcc_ir_select(c->g, some, part, share)); /* 0, and NaN where the batch has none, too */
}

static bool place_input(cut *c, const tcc_node *n, value *y) {
    const tcc_role role = n->attrs->input.role;
    y->trained = role == TCC_ROLE_PARAM;
    if (role == TCC_ROLE_BATCH) {
        y->kind = TCC_MICRO_ROWS;
        y->axis = (tcc_axis){0, 1};
    }
    tcc_node *input = tcc_micro_input(c->g, n->attrs->input.name);
    return input ? give(y, input) : refuse(c, n, "is no input of a micro-batch", NULL);
}

static bool place_op(cut *c, const tcc_node *n, tcc_node **operands, value *y) {
    if (!settle_sums(c, n)) return false;
    for (int k = 0; k < n->n_operands; k++) {
        const value *v = value_of(c, n->operands[k]);
        y->trained |= v->trained;
        if (v->level > y->level) y->level = v->level;
        if (!y->local && v->kind != TCC_MICRO_ROWS) y->local = v->local;
    }
    if (n->op == TCC_OP_DIV && !note_divisor(c, n->operands[1])) return false;
    if (count_kind(c, n, TCC_MICRO_ROWS))
        return n->op == TCC_OP_CROSS_ENTROPY ? place_cross_entropy(c, n, operands, y) : place_rows(c, n, operands, y);
    const bool sum = count_kind(c, n, TCC_MICRO_SUM);
    y->kind = sum ? TCC_MICRO_SUM : TCC_MICRO_SAME;
    for (int k = 0; k < n->n_operands; k++) {
        operands[k] = value_of(c, n->operands[k])->node;
        if (sum && is_added(n, k) && is_same(c, n, k)) operands[k] = first_alone(c, operands[k]);
    }
    return give(y, rebuild(c, n, operands, &n->type, NULL));
}

/* A collective of one rank, which has the whole batch: what all have alike it leaves. Where ranks have one micro-batch
 * each, their sums and samples become those of the batch. */
static bool place_collective(cut *c, const tcc_node *n, value *y) {
    const value *x = value_of(c, n->operands[0]);
    const tcc_rank_reduction how = tcc_reduction_of(n);
    const bool adds = n->op == TCC_OP_ALL_REDUCE && how == TCC_REDUCTION_SUM;
    *y = *x;
    y->cut_node = NULL;
    if (x->kind == TCC_MICRO_SAME || (x->kind == TCC_MICRO_SUM && adds && c->ranks < 2)) return true;
    const bool gathers = n->op == TCC_OP_ALL_GATHER && x->axis.dim == 0 && x->axis.outer == 1;
    if (!(x->kind == TCC_MICRO_SUM ? adds : gathers)) return refuse_mixed(c, n);
    if (c->ranks < 2) return refuse(c, n, "gathers the samples of all micro-batches", NULL);
    tcc_ir_set_origin(c->g, n);
    y->kind = TCC_MICRO_SAME;
    y->node = tcc_ir_collective_once(c->g, n->op, x->node, how, c->ranks);
    if (y->node && !tcc_type_equal(&y->node->type, &n->type))
        return refuse(c, n, "gathers samples of ranks that do not have as many each", NULL);
    return y->node;
}

static bool place(cut *c, const tcc_node *n) {
    value y = {0};
    tcc_node *some[8], **operands = n->n_operands <= 8 ? some : tcc__malloc(sizeof *operands * (size_t)n->n_operands);
    if (!operands) return false;
    const bool placed = n->op == TCC_OP_INPUT         ? place_input(c, n, &y)
                        : tcc_op_is_collective(n->op) ? place_collective(c, n, &y)
                                                      : place_op(c, n, operands, &y);
    if (operands != some) tcc__free(operands);
    *value_of(c, n) = y;
    return placed;
}

/* -- The loss -- */

static void mark_live(const tcc_graph *g, const tcc_node *loss, bool *live) {
    live[loss->id] = true;
    for (int i = loss->id; i >= 0; i--)
        for (int k = 0; live[i] && k < tcc_ir_read_operands(g->nodes.data[i]); k++)
            live[g->nodes.data[i]->operands[k]->id] = true;
}

tcc_node *tcc_micro_cut_loss(tcc_micro_cut *c, const tcc_node *loss) {
    bool *live = tcc__calloc((size_t)c->from->nodes.count + 1, sizeof *live), placed = true;
    c->values = tcc__calloc((size_t)c->from->nodes.count + 1, sizeof *c->values);
    if (!live || !c->values) {
        tcc__free(live);
        return NULL;
    }
    mark_live(c->from, loss, live);
    for (int i = 0; i <= loss->id && placed; i++)
        if (live[i]) placed = place(c, c->from->nodes.data[i]);
    tcc__free(live);
    if (!placed) return NULL;
    const value *v = value_of(c, loss);
    if (v->local && !refuse(c, v->local, "is of a micro-batch, and the loss reads it", NULL)) return NULL;
    tcc_ir_set_origin(c->g, loss);
    return v->kind == TCC_MICRO_SAME ? first_alone(c, v->node) : v->node;
}

void tcc_micro_cut_clear(tcc_micro_cut *c) {
    tcc_vec_free(&c->totals);
    tcc_vec_free(&c->divisors);
    tcc__free(c->values);
}
