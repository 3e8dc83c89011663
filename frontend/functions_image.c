/* SPDX-License-Identifier: MIT
 * Functions made of operations: windows of images, one spatial dim after another; and a resize. */
#include "tensor_ops.h"

#include "ir/builder.h"

#include "traincc/functions.h"

/* What is built here stands at the line of the function's caller. */
#undef TCC_HERE
#define TCC_HERE at

/* Whether x has so many spatial dims, and can have these extents there. */
static bool takes_extents(const char *name, tcc_tensor x, int rank, const int64_t *spatial, tcc_loc at) {
    if (!tcc_trace_takes(name, at, 1, &x) || !tcc__tensor_takes_floats(name, x, at) ||
        !tcc_trace_takes_list(x.trace, name, "extents", rank, spatial, at))
        return false;
    if (rank != tcc_rank(x) - 2 || rank < 1 || rank > 3) {
        tcc_trace_error(x.trace, TCC_ESHAPE, at, "%s: %d spatial extents for x of type %s; it must be [N, C, spatial]",
                        name, rank, tcc_type_text(&x.node->type));
        return false;
    }
    for (int d = 0; d < rank; d++)
        if (spatial[d] < 1 || spatial[d] > TCC_MAX_NUMEL) {
            tcc_trace_error(x.trace, TCC_ESHAPE, at, "%s: spatial extent %d is %lld; it must be 1 to %lld", name, d,
                            (long long)spatial[d], (long long)TCC_MAX_NUMEL);
            return false;
        }
    return true;
}

/* Numbers for so many places; NULL: there is no memory, which the trace says. */
static double *numbers(tcc_trace *t, int64_t count) {
    double *all = TCC_ARENA_ARRAY(&t->graph->arena, double, count);
    if (!all) tcc_enomem(t->graph->diag);
    return all;
}

/* -- Adaptive windows -- */

/* The largest of each window along `axis`, whose extent becomes `out`. Short windows are filled up with their last
 * element, which the first of equals comes before. */
static tcc_tensor adaptive_max(tcc_tensor x, int axis, int64_t out, tcc_loc at) {
    if (!x.node) return x;
    const int64_t in = tcc_dim(x, axis);
    int64_t longest = 0;
    for (int64_t i = 0; i < out; i++) {
        const int64_t first = i * in / out, end = ((i + 1) * in + out - 1) / out;
        if (end - first > longest) longest = end - first;
    }
    double *places = numbers(x.trace, out * longest);
    if (!places) return tcc_trace_poison();
    for (int64_t i = 0; i < out; i++)
        for (int64_t k = 0; k < longest; k++) {
            const int64_t place = i * in / out + k, last = ((i + 1) * in + out - 1) / out - 1;
            places[i * longest + k] = (double)(place < last ? place : last);
        }
    tcc_tensor windows = tcc_take(x, tcc_literal(x.trace, places, TCC_I32, TCC_DIMS(out, longest)), axis);
    tcc_tensor which = tcc_argmax(windows, axis + 1);
    return tcc_squeeze(tcc_take_along(windows, tcc_expand_dims(which, TCC_DIMS(axis + 1)), axis + 1),
                       TCC_DIMS(axis + 1));
}

tcc_tensor tcc_adaptive_max_pool_at(tcc_tensor x, int rank, const int64_t *spatial, tcc_loc at) {
    if (!takes_extents("adaptive_max_pool", x, rank, spatial, at)) return tcc_trace_poison();
    tcc_pool_options options = {.size = sizeof options};
    bool even = true;
    for (int d = 0; d < rank; d++) {
        const int64_t in = tcc_dim(x, 2 + d);
        even &= in % spatial[d] == 0;
        options.window_of[d] = in / spatial[d];
    }
    if (even) return tcc_max_pool_at(x, 1, &options, at);
    for (int d = rank - 1; d >= 0; d--) x = adaptive_max(x, 2 + d, spatial[d], at); /* so the first in a row is taken */
    return x;
}

/* -- Bicubic -- */

tcc_tensor tcc_resize_bicubic_at(tcc_tensor x, bool align_corners, int rank, const int64_t *spatial, tcc_loc at) {
    if (!takes_extents("resize_bicubic", x, rank, spatial, at)) return tcc_trace_poison();
    if (rank != 2)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "resize_bicubic: x is %s; it must be [N, C, H, W]",
                               tcc_type_text(&x.node->type));
    tcc_type type = x.node->type;
    for (int d = 0; d < rank; d++) type.dims[2 + d] = spatial[d];
    return tcc__tensor_op(TCC_OP_RESIZE_BICUBIC, x, &(tcc_attrs){.resize = {.align_corners = align_corners}}, &type,
                          at);
}
