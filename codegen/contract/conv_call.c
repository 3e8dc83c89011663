/* SPDX-License-Identifier: MIT
 * Convolutions by a library. Operands in memory are read in place, in either layout; others are copied, channels last.
 * The library computes a bias and max(0, y) of an epilogue. The rest becomes another group, which reads the result
 * back, if that costs less than it saves. */
#include "codegen/contract/epilogue.h"
#include "codegen/contract/conv.h"
#include "codegen/options.h"
#include "codegen/library/call.h"
#include "codegen/schedule/operand.h"

#include "ir/support/alloc.h"

#include <string.h>

/* When a library is asked about a convolution. Derived from data sheets, not measured: with fewer channels in a group a
 * pixel of f16 is shorter than one access of 16 bytes, and the library gathers as our kernel does. In f32 without
 * tensor cores the library's workspace holds images in another layout: a byte of it that is written and read takes the
 * time of so many multiply-adds' gain. */
static const struct {
    double multiply_adds_a_byte;
    int64_t channels;
} least = {.multiply_adds_a_byte = 22, .channels = 8};

enum { SPATIAL = 3, STRIDES = SPATIAL + 2, OUTER = 0, CHANNEL = 1, WORKSPACE_BYTES = 128 << 20 };

enum { AT_FIRST, AT_SECOND, AT_BIAS_OR_RESULT, AT_LAST, BUFFERS = 5 };

/* --- Where tensors lie */

static int param_of(const tcc_conv *c, int spatial) { return SPATIAL - c->n_spatial + spatial; }

/* From strides by the node's dims to those of params: outer, channel, spatial. */
static void set_strides(const tcc_conv *c, const int64_t *by_dim, int64_t *out) {
    memset(out, 0, sizeof *out * STRIDES);
    out[OUTER] = by_dim[0];
    out[CHANNEL] = by_dim[c->channel];
    for (int i = 0; i < c->n_spatial; i++) out[2 + param_of(c, i)] = by_dim[c->first + i];
}

/* Dimensions of one element get the stride that they would have if the others lay dense inside: libraries tell layouts
 * by strides. */
static void complete_strides(int64_t outer, int64_t channels, const int64_t *sizes, int64_t *strides) {
    const bool last = channels == 1 || strides[CHANNEL] == 1;
    int64_t dense = last ? channels : 1;
    for (int i = SPATIAL; i-- > 0;) {
        if (sizes[i] == 1) strides[2 + i] = dense;
        dense = strides[2 + i] * sizes[i];
    }
    if (channels == 1) strides[CHANNEL] = 1;
    if (outer == 1) strides[OUTER] = last ? dense : strides[CHANNEL] * channels;
}

static void sizes_of(const tcc_conv *c, const tcc_node *n, int64_t *out) {
    for (int i = 0; i < SPATIAL; i++) out[i] = 1;
    for (int i = 0; i < c->n_spatial; i++) out[param_of(c, i)] = n->type.dims[c->first + i];
}

static tcc_conv_params params_of(const tcc_conv *c) {
    tcc_conv_params p = {
        .batch = c->x->type.dims[0], .groups = c->groups, .in = c->ci * c->groups, .out = c->co * c->groups};
    sizes_of(c, c->x, p.x_size);
    sizes_of(c, c->y, p.y_size);
    sizes_of(c, c->w, p.kernel);
    for (int i = 0; i < SPATIAL; i++) p.stride[i] = p.dilation[i] = 1;
    for (int i = 0; i < c->n_spatial; i++) {
        const int at = param_of(c, i);
        p.stride[at] = c->attrs->stride.v[i], p.dilation[at] = c->attrs->dilation.v[i];
        p.pad_low[at] = c->attrs->pad_lo.v[i], p.pad_high[at] = c->attrs->pad_hi.v[i];
    }
    return p;
}

static int64_t *strides_in(const tcc_conv *c, tcc_conv_params *p, const tcc_node *n) {
    return n == c->x ? p->x_stride : n == c->w ? p->w_stride : p->y_stride;
}

static bool in_memory(const tcc_lowering *l, const tcc_node *n) {
    return !tcc_group_has(l->group, n) && n->op != TCC_OP_CONSTANT;
}

/* The operand as it lies; what the group computes is copied with channels last, once it is sure that the copy is
 * wanted. */
static tcc_status place_operand(tcc_lowering *l, const tcc_conv *c, const tcc_node *n, bool copy, int64_t *strides,
                                tcc_plan_buffer *out) {
    int64_t by_dim[TCC_MAX_RANK];
    *out = (tcc_plan_buffer){.node = n, .temporary = -1};
    if (in_memory(l, n)) {
        tcc_operand_dense(&n->type, by_dim);
    } else {
        int perm[TCC_MAX_RANK] = {0};
        const int rank = n->type.rank;
        for (int i = 0; i < c->n_spatial; i++) perm[1 + i] = c->first + i;
        perm[rank - 1] = c->channel;
        int64_t dense = 1;
        for (int i = rank; i-- > 0;) by_dim[perm[i]] = dense, dense *= n->type.dims[perm[i]];
        *out = (tcc_plan_buffer){.temporary = -1};
        if (copy) TCC_TRY(tcc_operand_copy(l, n, n->type.dtype, perm, NULL, NULL, &out->temporary));
    }
    set_strides(c, by_dim, strides);
    return TCC_OK;
}

/* The result as `f` leaves it, and a bias of its channels; false: not as a library does. */
static bool place_result(const tcc_conv *c, const tcc_node *hero, const tcc_body *b, const tcc_library_fused *f,
                         int64_t *strides) {
    int64_t by_dim[TCC_MAX_RANK];
    if (f->addend || !tcc_library_along_loops(b, &f->offset) ||
        (f->bias && !tcc_library_along_loops(b, &f->bias->affine)))
        return false;
    for (int i = 0; i < hero->type.rank; i++) {
        by_dim[i] = tcc_affine_coefficient(&f->offset, i);
        if (hero->type.dims[i] > 1 && by_dim[i] < 1) return false;
        if (f->bias && hero->type.dims[i] > 1 && tcc_affine_coefficient(&f->bias->affine, i) != (i == c->channel))
            return false;
    }
    set_strides(c, by_dim, strides);
    return true;
}

/* --- The call */

static tcc_call call_of(const tcc_conv *c, const tcc_node *hero) {
    return hero == c->y   ? TCC_CALL_CONV_FORWARD
           : hero == c->x ? TCC_CALL_CONV_DATA_GRADIENT
                          : TCC_CALL_CONV_FILTER_GRADIENT;
}

/* In the order of the entry's buffers. */
static void operands_of(const tcc_conv *c, const tcc_node *hero, const tcc_node *out[2]) {
    out[0] = hero == c->x ? c->y : c->x;
    out[1] = hero == c->w ? c->y : c->w;
}

static double multiply_adds(const tcc_conv *c) {
    double n = (double)c->ci;
    for (int i = 0; i < c->y->type.rank; i++) n *= (double)c->y->type.dims[i];
    for (int i = 0; i < c->n_spatial; i++) n *= (double)c->w->type.dims[c->first + i];
    return n;
}

static int64_t workspace_for(const tcc_lowering *l, const tcc_conv *c) {
    const double worth = multiply_adds(c) / least.multiply_adds_a_byte;
    return c->x->type.dtype == TCC_F32 && !l->options->tf32 && worth < WORKSPACE_BYTES ? (int64_t)worth
                                                                                       : WORKSPACE_BYTES;
}

/* The call that leaves f->node; what is left is cut off. */
static tcc_status try_fused(tcc_lowering *l, const tcc_conv *c, const tcc_epilogue *epilogue,
                            const tcc_library_fused *f, bool *done) {
    const tcc_node *hero = l->group->hero, *operands[2];
    const tcc_dtype type = hero->type.dtype;
    tcc_cudnn_conv_params p = {.conv = params_of(c),
                               .type = type,
                               .allow_tf32 = l->options->tf32,
                               .alignment = TCC_CUDA_ALIGNMENT,
                               .workspace_bytes = workspace_for(l, c)};
    operands_of(c, hero, operands);
    if (f->node->type.dtype != type || operands[0]->type.dtype != type || operands[1]->type.dtype != type)
        return TCC_OK;
    if ((f->bias || f->relu) && hero != c->y) return TCC_OK;
    if (!place_result(c, hero, epilogue->body, f, strides_in(c, &p.conv, hero))) return TCC_OK;
    const bool whole = tcc_group_stores(l->group, f->node) && l->group->n_outputs == 1;
    const bool stored = tcc_group_stores(l->group, f->node);
    const char *name = tcc_op_get_info(f->node->op)->text, *entry = tcc_call_get_info(call_of(c, hero))->name;
    if (f->whole != whole || (!whole && !tcc_library_leaves(l, f->node))) return TCC_OK;
    const tcc_body_buffer *bias = f->bias ? &epilogue->body->buffers.data[f->bias->buffer] : NULL;
    if (bias && (bias->dtype != type || bias->literal || bias->temporary >= 0 || !bias->node)) return TCC_OK;
    p.conv.bias = f->bias != NULL, p.conv.relu = f->relu;

    const bool forward = hero == c->y;
    const int at_result = forward ? AT_LAST : AT_BIAS_OR_RESULT, at_workspace = at_result + 1;
    tcc_plan_buffer buffers[BUFFERS] = {0};
    for (int i = 0; i < 2; i++)
        TCC_TRY(place_operand(l, c, operands[i], false, strides_in(c, &p.conv, operands[i]), &buffers[i]));
    if (forward) buffers[AT_BIAS_OR_RESULT].temporary = -1;
    if (bias)
        buffers[AT_BIAS_OR_RESULT] =
            (tcc_plan_buffer){.node = bias->node,
                              .temporary = -1,
                              .offset_bytes = (bias->offset + f->bias->affine.constant) * tcc_dtype_bytes(type)};
    buffers[at_result] = (tcc_plan_buffer){
        .node = f->node, .temporary = -1, .written = true, .offset_bytes = f->offset.constant * tcc_dtype_bytes(type)};
    buffers[at_workspace] = (tcc_plan_buffer){.temporary = -1, .written = true};
    for (int i = 0; i < at_workspace; i++) p.alignment = tcc_library_alignment(p.alignment, buffers[i].offset_bytes);
    complete_strides(p.conv.batch, p.conv.in, p.conv.x_size, p.conv.x_stride);
    complete_strides(p.conv.batch, p.conv.out, p.conv.y_size, p.conv.y_stride);
    complete_strides(p.conv.out, c->ci, p.conv.kernel, p.conv.w_stride);
    TCC_TRY(tcc_lowering_takes_call(l, entry, (int64_t *)&p, &p.workspace_bytes, done));
    if (!*done) return TCC_OK;
    tcc_logf(l->cx, TCC_LOG_FUSION, "%s of %.0f multiply-adds as far as %s%s", entry, multiply_adds(c), name,
             whole    ? ""
             : stored ? "; the work behind it reads that again"
                      : "; the work behind it has that written and read again");
    if (!whole) return tcc_library_cut(l, f->node);
    if (p.workspace_bytes) {
        buffers[at_workspace].temporary = tcc_lowering_temporary(l, p.workspace_bytes);
        if (buffers[at_workspace].temporary < 0) return TCC_ENOMEM;
    }
    int64_t same[STRIDES];
    for (int i = 0; i < 2; i++)
        if (!buffers[i].node) TCC_TRY(place_operand(l, c, operands[i], true, same, &buffers[i]));
    return tcc_library_add_call(l, call_of(c, hero), (int64_t *)&p, buffers, 2 * multiply_adds(c));
}

static tcc_status try_all(tcc_lowering *l, const tcc_conv *c, const tcc_epilogue *epilogue, bool *done) {
    const tcc_body *b = epilogue->body;
    /* As much as the library does at once: everything, then as far as something that is stored anyway, then the
     * convolution alone. */
    for (int pass = 0; pass < 2 && !*done; pass++)
        for (int i = 0; i < b->stores.count && !*done; i++) {
            const tcc_body_write *s = &b->stores.data[i];
            tcc_library_fused f = {.node = b->buffers.data[s->buffer].node, .offset = s->offset, .whole = pass == 0};
            if (s->guard || s->kept || !f.node || !tcc_library_read_value(s->value, epilogue->port, &f)) continue;
            TCC_TRY(try_fused(l, c, epilogue, &f, done));
        }
    tcc_library_fused alone = {.node = l->group->hero, .offset = epilogue->port->affine};
    return *done ? TCC_OK : try_fused(l, c, epilogue, &alone, done);
}

tcc_status tcc_lower_conv_library(tcc_lowering *l, const tcc_conv *c) {
    const tcc_node *hero = l->group->hero;
    bool done = false;
    if (!tcc_lowering_may_call(l)) return TCC_OK;
    if (multiply_adds(c) < l->target->costs.least_call_fma || c->ci < least.channels || c->co < least.channels) {
        tcc_logf(l->cx, TCC_LOG_FUSION,
                 "our own kernel for %s of %.0f multiply-adds with %lld and %lld channels in a group: too small for a "
                 "library",
                 tcc_call_get_info(call_of(c, hero))->name, multiply_adds(c), (long long)c->ci, (long long)c->co);
        return TCC_OK;
    }
    tcc_epilogue epilogue;
    tcc_diag quiet = {0}, *loud = l->diag;
    l->diag = &quiet;
    tcc_status status = tcc_epilogue_create(l, hero, hero->type.rank, hero->type.dims, &epilogue);
    l->diag = loud;
    if (status == TCC_OK) {
        epilogue.body->diag = loud;
        status = try_all(l, c, &epilogue, &done);
    } else if (status == TCC_EUNSUPPORTED) {
        status = TCC_OK; /* whatever else does it says so too */
    } else {
        tcc_error(loud, status, TCC_NOWHERE, "%s", tcc_diag_text(&quiet));
    }
    tcc_diag_clear(&quiet);
    return status;
}
