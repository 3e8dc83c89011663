/* SPDX-License-Identifier: MIT
 * Interpreter rules of views and indexing. Every view is one strided copy. */
#include "ir/eval_rules.h"

#include <math.h>
#include <string.h>

static const void *elements(const tcc_value *v) {
    return tcc__value_is_float(v) ? (const void *)v->f : (const void *)v->i;
}
static void *mutable_elements(tcc_value *v) { return tcc__value_is_float(v) ? (void *)v->f : (void *)v->i; }
static void *at(tcc_value *v, int64_t offset) {
    return tcc__value_is_float(v) ? (void *)(v->f + offset) : (void *)(v->i + offset);
}
static const void *at_const(const tcc_value *v, int64_t offset) {
    return tcc__value_is_float(v) ? (const void *)(v->f + offset) : (const void *)(v->i + offset);
}

/* The whole of `out`, read from `x` at offset + index . strides. */
static tcc_status view(tcc_value *out, const tcc_value *x, int64_t offset, const int64_t *strides) {
    int64_t out_strides[TCC_MAX_RANK];
    tcc__strides(&out->type, out_strides);
    tcc__copy_strided(out->type.rank, out->type.dims, mutable_elements(out), out_strides, at_const(x, offset), strides);
    return TCC_OK;
}

static void copy_all(tcc_value *out, const tcc_value *x) {
    memcpy(mutable_elements(out), elements(x), (size_t)tcc_type_numel(&x->type) * sizeof *out->f);
}

TCC_EVAL_RULE(reshape) {
    copy_all(out, in[0]);
    return TCC_OK;
}

TCC_EVAL_RULE(transpose) {
    int64_t x_strides[TCC_MAX_RANK], strides[TCC_MAX_RANK];
    tcc__strides(&in[0]->type, x_strides);
    for (int i = 0; i < out->type.rank; i++) strides[i] = x_strides[n->attrs->perm.perm.v[i]];
    return view(out, in[0], 0, strides);
}

TCC_EVAL_RULE(broadcast) {
    int64_t x_strides[TCC_MAX_RANK], strides[TCC_MAX_RANK] = {0};
    const tcc_type *x = &in[0]->type;
    tcc__strides(x, x_strides);
    for (int i = 0; i < x->rank; i++)
        if (x->dims[i] > 1) strides[n->attrs->broadcast.dims.v[i]] = x_strides[i];
    return view(out, in[0], 0, strides);
}

TCC_EVAL_RULE(slice) {
    int64_t x_strides[TCC_MAX_RANK], strides[TCC_MAX_RANK], offset = 0;
    tcc__strides(&in[0]->type, x_strides);
    for (int i = 0; i < out->type.rank; i++) {
        offset += n->attrs->slice.start.v[i] * x_strides[i];
        strides[i] = n->attrs->slice.stride.v[i] * x_strides[i];
    }
    return view(out, in[0], offset, strides);
}

TCC_EVAL_RULE(flip) {
    int64_t strides[TCC_MAX_RANK], offset = 0;
    tcc__strides(&in[0]->type, strides);
    for (int i = 0; i < n->attrs->axes.axes.count; i++) {
        int64_t axis = n->attrs->axes.axes.v[i];
        offset += (out->type.dims[axis] - 1) * strides[axis];
        strides[axis] = -strides[axis];
    }
    return view(out, in[0], offset, strides);
}

TCC_EVAL_RULE(pad) {
    int64_t count = tcc_type_numel(&out->type);
    const tcc_attrs_pad *pad = &n->attrs->pad;
    double value = tcc_dtype_round(out->type.dtype, pad->value);
    for (int64_t e = 0; e < count; e++) {
        if (tcc__value_is_float(out)) out->f[e] = value;
        else out->i[e] = (int64_t)value;
    }
    int64_t x_strides[TCC_MAX_RANK], strides[TCC_MAX_RANK], offset = 0;
    tcc__strides(&in[0]->type, x_strides);
    tcc__strides(&out->type, strides);
    for (int i = 0; i < out->type.rank; i++) {
        offset += pad->lo.v[i] * strides[i];
        strides[i] *= pad->interior.v[i] + 1;
    }
    tcc__copy_strided(out->type.rank, in[0]->type.dims, at(out, offset), strides, elements(in[0]), x_strides);
    return TCC_OK;
}

TCC_EVAL_RULE(concat) {
    int64_t x_strides[TCC_MAX_RANK], strides[TCC_MAX_RANK], offset = 0, axis = n->attrs->axis.axis;
    tcc__strides(&out->type, strides);
    for (int i = 0; i < n->n_operands; i++) {
        const tcc_type *x = &in[i]->type;
        tcc__strides(x, x_strides);
        tcc__copy_strided(x->rank, x->dims, at(out, offset), strides, elements(in[i]), x_strides);
        offset += x->dims[axis] * strides[axis];
    }
    return TCC_OK;
}

/* -- Indexing -- */

/* A tensor seen as [outer, extent of axis, inner]. */
typedef struct split {
    int64_t outer, extent, inner;
} split;

static split split_at(const tcc_type *type, int64_t axis) {
    split s = {1, type->dims[axis], 1};
    for (int i = 0; i < axis; i++) s.outer *= type->dims[i];
    for (int i = (int)axis + 1; i < type->rank; i++) s.inner *= type->dims[i];
    return s;
}

TCC_EVAL_RULE(take) {
    split s = split_at(&in[0]->type, n->attrs->axis.axis);
    int64_t picks = tcc_type_numel(&in[1]->type);
    for (int64_t o = 0; o < s.outer; o++) {
        for (int64_t p = 0; p < picks; p++) {
            int64_t index = in[1]->i[p];
            if (index < 0 || index >= s.extent) continue;
            memcpy(at(out, (o * picks + p) * s.inner), at_const(in[0], (o * s.extent + index) * s.inner),
                   (size_t)s.inner * sizeof *out->f);
        }
    }
    return TCC_OK;
}

static void add_at(tcc_value *to, int64_t to_at, const tcc_value *from, int64_t from_at) {
    if (tcc__value_is_float(to)) to->f[to_at] += from->f[from_at];
    else to->i[to_at] = tcc__wrap(to->type.dtype, (int64_t)((uint64_t)to->i[to_at] + (uint64_t)from->i[from_at]));
}

static void larger_at(tcc_value *to, int64_t to_at, const tcc_value *from, int64_t from_at) {
    if (!tcc__value_is_float(to)) to->i[to_at] = to->i[to_at] < from->i[from_at] ? from->i[from_at] : to->i[to_at];
    else if (!(to->f[to_at] >= from->f[from_at]) && !isnan(to->f[to_at])) to->f[to_at] = from->f[from_at];
}

static void replace_at(tcc_value *to, int64_t to_at, const tcc_value *from, int64_t from_at) {
    memcpy(at(to, to_at), at_const(from, from_at), sizeof *to->f);
}

/* Calls `take_in` with the place of the result and that of the update, for each update that has a place, in order. */
static void scatter(const tcc_node *n, const tcc_value *const *in, tcc_value *out,
                    void (*take_in)(tcc_value *to, int64_t to_at, const tcc_value *from, int64_t from_at)) {
    split s = split_at(&in[0]->type, n->attrs->axis.axis);
    int64_t picks = tcc_type_numel(&in[1]->type);
    copy_all(out, in[0]);
    for (int64_t o = 0; o < s.outer; o++) {
        for (int64_t p = 0; p < picks; p++) {
            int64_t index = in[1]->i[p];
            if (index < 0 || index >= s.extent) continue;
            for (int64_t k = 0; k < s.inner; k++)
                take_in(out, (o * s.extent + index) * s.inner + k, in[2], (o * picks + p) * s.inner + k);
        }
    }
}

TCC_EVAL_RULE(scatter_add) {
    scatter(n, in, out, add_at);
    return TCC_OK;
}

TCC_EVAL_RULE(scatter) {
    scatter(n, in, out, replace_at);
    return TCC_OK;
}

TCC_EVAL_RULE(scatter_max) {
    scatter(n, in, out, larger_at);
    return TCC_OK;
}

/* Calls `visit` with the place in the table and the place in the index tensor of each element of
 * the latter whose index is in range. Dims other than `axis` agree, or the table's are larger. */
typedef void visit_fn(tcc_value *out, const tcc_value *from, int64_t table_at, int64_t index_at);

static void along(const tcc_type *table, const tcc_value *index, int64_t axis, tcc_value *out, const tcc_value *from,
                  visit_fn *visit) {
    int64_t strides[TCC_MAX_RANK], table_strides[TCC_MAX_RANK], count = tcc_type_numel(&index->type);
    tcc__strides(&index->type, strides);
    tcc__strides(table, table_strides);
    for (int64_t e = 0; e < count; e++) {
        int64_t place = 0, pick = index->i[e];
        if (pick < 0 || pick >= table->dims[axis]) continue;
        for (int d = 0; d < table->rank; d++)
            place += table_strides[d] * (d == axis ? pick : e / strides[d] % index->type.dims[d]);
        visit(out, from, place, e);
    }
}

static void read_along(tcc_value *out, const tcc_value *from, int64_t table_at, int64_t index_at) {
    memcpy(at(out, index_at), at_const(from, table_at), sizeof *out->f);
}

static void add_along(tcc_value *out, const tcc_value *from, int64_t table_at, int64_t index_at) {
    add_at(out, table_at, from, index_at);
}

static void replace_along(tcc_value *out, const tcc_value *from, int64_t table_at, int64_t index_at) {
    replace_at(out, table_at, from, index_at);
}

TCC_EVAL_RULE(take_along) {
    along(&in[0]->type, in[1], n->attrs->axis.axis, out, in[0], read_along);
    return TCC_OK;
}

TCC_EVAL_RULE(scatter_add_along) {
    copy_all(out, in[0]);
    along(&out->type, in[1], n->attrs->axis.axis, out, in[2], add_along);
    return TCC_OK;
}

TCC_EVAL_RULE(scatter_along) {
    copy_all(out, in[0]);
    along(&out->type, in[1], n->attrs->axis.axis, out, in[2], replace_along);
    return TCC_OK;
}
