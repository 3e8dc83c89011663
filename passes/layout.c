/* SPDX-License-Identifier: MIT
 * layout: runs convolutional networks channels-last, [N, spatial, C], where a vector register holds channels of one
 * pixel and libraries are fastest.
 *
 * Every value of the old graph has up to two forms in the new one: "plain", as it was, and "last", with dim 1 moved to
 * the end. Convolutions, pools and resizings compute in last form, but for parts that gain nothing by it
 * (layout_plain.c). Arithmetic, reductions, batch norms and views follow their operands. All else uses plain values. If
 * a requested form does not exist yet, it is made as a transpose of the other one. So transposes remain only where the
 * network begins and ends, and at weights, which are small. Broadcasts, constants and arithmetic on these alone have no
 * form of their own: they are built in the requested form.
 *
 * Where a reshape cuts the channels in groups, as a group norm does, dims 1 and 2 are the channels. The last form has
 * them as one dim, as convolutions have: vectors run along all of it, and not along the few channels of a group. What a
 * group has in common is repeated for each of its channels first, which is small. */
#include "passes/layout.h"

#include "ir/build.h"
#include "ir/support/alloc.h"
#include "passes/group.h"
#include "passes/select.h"

#include <string.h>

typedef enum form { PLAIN, LAST, FORMS } form;

enum { LEAST_CHANNELS = 16 }; /* with fewer channels in every convolution a register is not filled either way */

typedef struct rewriter {
    tcc_rewrite rw;
    tcc_node **forms[FORMS]; /* by old id */
    bool *flexible;          /* by old id: built in the form that is asked for */
    bool *leads;             /* by old id: it has the last form, and so has what follows it */
    bool *ends;              /* by old id: nothing behind it has a form, as in an update */
    bool *stays;             /* by old id: a convolution that computes in plain form */
    signed char *channels;   /* by old id: how many dims of channels its last form, if there is one, has at the end */
    bool at_end;             /* what is visited ends */
} rewriter;

/* -- Forms: the plain one has the channels in k dims from dim 1 on, the last one in one dim at the end -- */

static tcc_type last_type(const tcc_type *type, int k) {
    tcc_type out = *type;
    out.rank = type->rank - k + 1;
    for (int i = 0; i < out.rank; i++) out.dims[i] = type->dims[tcc_layout_dim(type->rank, k, i)];
    if (k == 2) out.dims[out.rank - 1] = type->dims[1] * type->dims[2];
    return out;
}

static tcc_dims permute_list(const tcc_dims *list, int rank) {
    tcc_dims out = {.count = list->count};
    for (int i = 0; i < list->count && list->count == rank; i++) out.v[i] = list->v[tcc_layout_dim(rank, 1, i)];
    return out;
}

static tcc_dims permute_axes(const tcc_dims *axes, int rank) {
    tcc_dims out = {0};
    for (int i = 0; i < rank; i++)
        if (tcc_dims_has(axes, tcc_layout_dim(rank, 1, i))) out.v[out.count++] = i;
    return out;
}

static tcc_node *build(rewriter *r, const tcc_node *old, tcc_node *const *operands, const tcc_attrs *attrs,
                       const tcc_type *type) {
    bool typed = tcc_op_get_info(old->op)->flags & TCC_FLAG_TYPED;
    return tcc_ir_build(r->rw.to, old->op, operands, old->n_operands, attrs, typed ? type : NULL, old->loc);
}

/* x, which is `old` in the other form. */
static tcc_node *transpose(rewriter *r, const tcc_node *old, tcc_node *x, form to, int k) {
    const int rank = old->type.rank;
    int perm[TCC_MAX_RANK];
    tcc_type apart = old->type;
    if (!x) return NULL;
    for (int i = 0; i < rank; i++) {
        const int d = tcc_layout_dim(rank, k, i);
        apart.dims[i] = old->type.dims[d];
        if (to == LAST) perm[i] = d;
        else perm[d] = i;
    }
    if (to == PLAIN && k == 2) x = tcc_ir_reshape(r->rw.to, x, rank, apart.dims);
    x = tcc_ir_transpose(r->rw.to, x, perm);
    if (to == PLAIN || k == 1) return x;
    const tcc_type last = last_type(&old->type, k);
    return tcc_ir_reshape(r->rw.to, x, last.rank, last.dims);
}

static tcc_node *get(rewriter *r, const tcc_node *old, form f, int k);
static tcc_node *get_plain(rewriter *r, const tcc_node *old) { return get(r, old, PLAIN, 1); }

/* -- One node in last form -- */

/* `old` rebuilt on its operands in form f. */
static tcc_node *build_from(rewriter *r, const tcc_node *old, form f, int k, const tcc_attrs *attrs,
                            const tcc_type *type) {
    enum { ON_STACK = 8 };
    tcc_node *few[ON_STACK], **operands = few, *made = NULL;
    if (old->n_operands > ON_STACK && !(operands = tcc__malloc(sizeof *operands * (size_t)old->n_operands))) {
        tcc_enomem(r->rw.to->diag);
        return NULL;
    }
    bool ok = true;
    for (int i = 0; i < old->n_operands; i++) ok &= (operands[i] = get(r, old->operands[i], f, k)) != NULL;
    if (ok) {
        tcc_ir_set_origin(r->rw.to, old);
        made = build(r, old, operands, attrs, type);
    }
    if (operands != few) tcc__free(operands);
    return made;
}

/* A broadcast whose result is in last form: ascending dims may need the operand's dims in another order. What it has of
 * channels in groups is made for each channel first. */
static tcc_node *broadcast_last(rewriter *r, const tcc_node *old, int k) {
    const tcc_dims *dims = &old->attrs->broadcast.dims;
    const int rank = old->type.rank;
    tcc_attrs order = {.perm.perm.count = dims->count};
    const bool channels = k == 2 && (tcc_dims_has(dims, 1) || tcc_dims_has(dims, 2));
    const tcc_type *x_type = &old->operands[0]->type;
    tcc_type each = {.dtype = old->type.dtype}; /* the operand with all channels, and these as one */
    int to[TCC_MAX_RANK], from[TCC_MAX_RANK];   /* dims of the result, in last form; of `each` for the operand's */
    bool ascending = true;
    for (int i = 0, count = 0; i < rank; i++) {
        const int d = tcc_layout_dim(rank, k, i), at = tcc_dims_find(dims, d);
        if (at >= 0) {
            ascending &= at == count;
            order.perm.perm.v[count] = at;
            from[count++] = each.rank;
        }
        const bool channel = channels && (d == 1 || d == 2);
        if (at < 0 && !channel) continue;
        to[each.rank] = i;
        each.dims[each.rank++] = channel ? old->type.dims[d] : x_type->dims[at];
    }
    tcc_node *x = get_plain(r, old->operands[0]);
    if (x && !ascending) x = tcc_ir_build(r->rw.to, TCC_OP_TRANSPOSE, &x, 1, &order, NULL, old->loc);
    if (channels) {
        if (x && !tcc_type_equal(&x->type, &each)) x = tcc_ir_broadcast(r->rw.to, x, each.rank, each.dims, from);
        each.rank--;
        each.dims[each.rank - 1] *= each.dims[each.rank];
        x = tcc_ir_reshape(r->rw.to, x, each.rank, each.dims);
    }
    const tcc_type type = last_type(&old->type, k);
    return tcc_ir_broadcast(r->rw.to, x, type.rank, type.dims, to);
}

static tcc_node *constant_last(rewriter *r, const tcc_node *old, int k) {
    if (old->attrs->constant.values.count != 1) return transpose(r, old, get_plain(r, old), LAST, k);
    tcc_type type = last_type(&old->type, k);
    return build(r, old, NULL, old->attrs, &type);
}

static tcc_node *build_last(rewriter *r, const tcc_node *old, int k) {
    int rank = old->type.rank;
    if (old->op == TCC_OP_CONSTANT) return constant_last(r, old, k);
    if (old->op == TCC_OP_BROADCAST) return broadcast_last(r, old, k);
    tcc_attrs attrs = *old->attrs;
    switch (old->op) {
    case TCC_OP_CONV:
    case TCC_OP_CONV_GRAD_INPUT:
    case TCC_OP_CONV_GRAD_WEIGHT: attrs.conv.channels_last = true; break;
    case TCC_OP_MAX_POOL:
    case TCC_OP_MAX_POOL_PLACE:
    case TCC_OP_MAX_POOL_GRAD:
    case TCC_OP_AVG_POOL:
    case TCC_OP_AVG_POOL_GRAD: attrs.pool.channels_last = true; break;
    case TCC_OP_SLICE:
        attrs.slice.start = permute_list(&attrs.slice.start, rank);
        attrs.slice.limit = permute_list(&attrs.slice.limit, rank);
        attrs.slice.stride = permute_list(&attrs.slice.stride, rank);
        break;
    case TCC_OP_PAD:
        attrs.pad.lo = permute_list(&attrs.pad.lo, rank);
        attrs.pad.hi = permute_list(&attrs.pad.hi, rank);
        attrs.pad.interior = permute_list(&attrs.pad.interior, rank);
        break;
    case TCC_OP_CONCAT: attrs.axis.axis = tcc_layout_place(rank, 1, (int)attrs.axis.axis); break;
    case TCC_OP_FLIP: attrs.axes.axes = permute_axes(&attrs.axes.axes, rank); break;
    default:
        if (tcc_op_get_info(old->op)->attrs == TCC_ATTR_CLASS_resize) attrs.resize.channels_last = true;
        break;
    }
    tcc_type type = last_type(&old->type, k);
    return build_from(r, old, LAST, k, &attrs, &type);
}

/* -- Asking for a form -- */

static tcc_node *build_plain(rewriter *r, const tcc_node *old) {
    return build_from(r, old, PLAIN, 1, old->attrs, &old->type);
}

/* `k`: the dims of channels of a last form. */
static tcc_node *get(rewriter *r, const tcc_node *old, form f, int k) {
    tcc_node **at = &r->forms[f][old->id], *other = NULL;
    if (*at && (f == PLAIN || r->channels[old->id] == k)) return *at;
    tcc_ir_set_origin(r->rw.to, old);
    if (*at) at = &other; /* it has a last form of other dims */
    else if (f == LAST) r->channels[old->id] = (signed char)k;
    if (r->flexible[old->id]) *at = f == LAST ? build_last(r, old, k) : build_plain(r, old);
    else if (f == LAST) *at = transpose(r, old, get_plain(r, old), LAST, k);
    else *at = transpose(r, old, r->forms[LAST][old->id], PLAIN, r->channels[old->id]);
    /* What computes with the other form has the work beside it follow that. What becomes of a gradient has no say, for
     * micro-batches and ranks differ in it, and sums would have another order. */
    if (!r->at_end) r->leads[old->id] = false;
    return *at;
}

static bool has_last(const rewriter *r, const tcc_node *old) { return old->type.rank >= 3 && r->leads[old->id]; }

/* -- The pass -- */

/* A batch norm, its statistics or its gradients, of tensors in last form. Values with one element a channel have no
 * other form. */
static void norm_last(rewriter *r, const tcc_node *old) {
    const int rank = old->operands[0]->type.rank;
    tcc_attrs attrs = *old->attrs;
    tcc_node *operands[5];
    attrs.norm.axis = tcc_layout_place(rank, 1, (int)attrs.norm.axis);
    for (int i = 0; i < old->n_operands; i++)
        if (!(operands[i] = get(r, old->operands[i], old->operands[i]->type.rank == rank ? LAST : PLAIN, 1))) return;
    const tcc_type type = old->type.rank == rank ? last_type(&old->type, 1) : old->type;
    r->leads[old->id] = old->type.rank == rank;
    r->channels[old->id] = 1;
    r->forms[r->leads[old->id] ? LAST : PLAIN][old->id] = build(r, old, operands, &attrs, &type);
}

/* Whether `cut` is `whole` with its channels, dim 1, cut in groups, dims 1 and 2. */
static bool cuts_channels(const tcc_type *whole, const tcc_type *cut) {
    if (cut->rank != whole->rank + 1 || whole->rank < 3 || cut->dims[0] != whole->dims[0]) return false;
    for (int d = 2; d < whole->rank; d++)
        if (cut->dims[d + 1] != whole->dims[d]) return false;
    return cut->dims[1] * cut->dims[2] == whole->dims[1];
}

/* Dims of channels of the result of a reshape of x, whose last form has k; 0: it has no such form. */
static int channels_of_reshape(const tcc_node *old, int k) {
    const tcc_type *x = &old->operands[0]->type;
    if (old->op != TCC_OP_RESHAPE) return 0;
    if (k == 1 && cuts_channels(x, &old->type)) return 2;
    return k == 2 && cuts_channels(&old->type, x) ? 1 : 0;
}

/* Whether `old`, which follows operands whose last form has k dims of channels, has such a form. */
static bool follows(const tcc_node *old, int k) {
    return tcc_layout_follows(old) && (k == 1 || tcc_op_get_info(old->op)->fusion == TCC_FUSION_POINT);
}

/* Builds `old` in the form that suits it. */
static void visit(rewriter *r, const tcc_node *old) {
    tcc_fusion_class fusion = tcc_op_get_info(old->op)->fusion;
    bool any_last = false, all_flexible = true;
    int k = 1; /* dims of channels */
    for (int i = 0; i < old->n_operands; i++) {
        if (has_last(r, old->operands[i]) && !any_last) k = r->channels[old->operands[i]->id];
        any_last |= has_last(r, old->operands[i]);
        all_flexible &= r->flexible[old->operands[i]->id];
    }
    tcc_ir_set_origin(r->rw.to, old);
    r->at_end = r->ends[old->id];
    bool reduces = fusion == TCC_FUSION_REDUCE && old->op != TCC_OP_ARGMAX;
    if (old->op == TCC_OP_INPUT) {
        r->forms[PLAIN][old->id] = r->rw.map[old->id];
    } else if (old->op == TCC_OP_CONSTANT || old->op == TCC_OP_BROADCAST ||
               (fusion == TCC_FUSION_POINT && old->n_operands > 0 && all_flexible)) {
        r->flexible[old->id] = true;
    } else if ((tcc_layout_computes(old) && !r->stays[old->id]) || (any_last && follows(old, k))) {
        if (tcc_layout_computes(old)) k = 1;
        r->forms[LAST][old->id] = build_last(r, old, k);
        r->channels[old->id] = (signed char)k;
        r->leads[old->id] = true;
        /* The optimizer works on weights as they are stored. */
        if (old->op == TCC_OP_CONV_GRAD_WEIGHT) {
            get_plain(r, old);
            r->leads[old->id] = false;
        }
    } else if (any_last && tcc_is_batch_norm(old->op)) {
        norm_last(r, old);
    } else if (any_last && reduces) {
        r->forms[PLAIN][old->id] = tcc_layout_reduce(r->rw.to, old, get(r, old->operands[0], LAST, k), k);
    } else if (any_last && channels_of_reshape(old, k)) {
        r->forms[LAST][old->id] = get(r, old->operands[0], LAST, k); /* it is the same */
        r->leads[old->id] = true;
        r->channels[old->id] = (signed char)channels_of_reshape(old, k);
    } else {
        r->forms[PLAIN][old->id] = build_plain(r, old);
    }
}

static void mark_ends(rewriter *r, const tcc_graph *g) {
    for (int i = 0; i < g->nodes.count; i++) r->ends[i] = true;
    for (int i = g->nodes.count - 1; i >= 0; i--) {
        const tcc_node *n = g->nodes.data[i];
        if (!r->rw.live[i] || (r->ends[i] && !tcc_layout_computes(n) && !tcc_is_batch_norm(n->op))) continue;
        for (int k = 0; k < n->n_operands; k++) r->ends[n->operands[k]->id] = false;
    }
}

/* Whether a convolution has enough channels for the other layout to matter. */
static bool worth_it(const tcc_graph *g) {
    for (int i = 0; i < g->nodes.count; i++) {
        const tcc_node *n = g->nodes.data[i];
        const bool makes_image = n->op == TCC_OP_CONV || n->op == TCC_OP_CONV_GRAD_INPUT;
        if (makes_image && !n->attrs->conv.channels_last &&
            (n->operands[0]->type.dims[1] >= LEAST_CHANNELS || n->type.dims[1] >= LEAST_CHANNELS))
            return true;
    }
    return false;
}

/* Channels-last already, in part: then the whole is left alone. */
static bool is_mixed(const tcc_graph *g) {
    for (int i = 0; i < g->nodes.count; i++) {
        const tcc_node *n = g->nodes.data[i];
        if (!tcc_layout_computes(n)) continue;
        tcc_attr_class attrs = tcc_op_get_info(n->op)->attrs;
        if (attrs == TCC_ATTR_CLASS_conv   ? n->attrs->conv.channels_last
            : attrs == TCC_ATTR_CLASS_pool ? n->attrs->pool.channels_last
                                           : n->attrs->resize.channels_last)
            return true;
    }
    return false;
}

tcc_status tcc_pass_layout(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    const tcc_pass_target *target = cx->options->target;
    size_t count = (size_t)in->nodes.count + 1;
    rewriter r = {0};
    bool change = worth_it(in) && !is_mixed(in);
    TCC_TRY(tcc_rewrite_begin(&r.rw, in));
    for (int f = 0; f < FORMS; f++) r.forms[f] = tcc__calloc(count, sizeof *r.forms[f]);
    r.flexible = tcc__calloc(count, sizeof *r.flexible);
    r.leads = tcc__calloc(count, sizeof *r.leads);
    r.ends = tcc__calloc(count, sizeof *r.ends);
    r.stays = tcc__calloc(count, sizeof *r.stays);
    r.channels = tcc__calloc(count, sizeof *r.channels);
    bool ok = r.forms[PLAIN] && r.forms[LAST] && r.flexible && r.leads && r.ends && r.stays && r.channels;
    if (ok) mark_ends(&r, in);
    if (ok && change) ok = tcc_layout_find_plain(in, r.rw.live, target ? target->lanes : 0, r.stays) == TCC_OK;
    for (int i = 0; ok && i < in->nodes.count && in->diag->status == TCC_OK; i++) {
        if (!r.rw.live[i] && in->nodes.data[i]->op != TCC_OP_INPUT) continue;
        if (change) visit(&r, in->nodes.data[i]);
        else tcc_rewrite_copy(&r.rw, in->nodes.data[i]);
    }
    for (int i = 0; ok && change && i < in->outputs.count && in->diag->status == TCC_OK; i++)
        r.rw.map[in->outputs.data[i].node->id] = get_plain(&r, in->outputs.data[i].node);
    for (int f = 0; f < FORMS; f++) tcc__free(r.forms[f]);
    tcc__free(r.flexible);
    tcc__free(r.leads);
    tcc__free(r.ends);
    tcc__free(r.stays);
    tcc__free(r.channels);
    if (ok) return tcc_rewrite_end(&r.rw, out);
    tcc_rewrite_abort(&r.rw);
    return tcc_enomem(in->diag);
}
