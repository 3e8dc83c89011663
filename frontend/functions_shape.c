/* SPDX-License-Identifier: MIT
 * Functions made of operations: what changes the shape, or moves elements. */
#include "tensor_ops.h"

#include "ir/builder.h"

#include "traincc/functions.h"

/* What is built here stands at the line of the function's caller. */
#undef TCC_HERE
#define TCC_HERE at

/* -- Dims -- */

tcc_tensor tcc_expand_dims_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    if (!tcc_trace_takes("expand_dims", at, 1, &x)) return tcc_trace_poison();
    if (count < 0 || count > TCC_MAX_RANK || (count && !axes))
        return tcc_trace_error(x.trace, TCC_EINVAL, at, "expand_dims: %d axes%s; it takes 0 to %d", count,
                               count > 0 && !axes ? ", which are NULL" : "", TCC_MAX_RANK);
    const int rank = tcc_rank(x) + count;
    if (rank > TCC_MAX_RANK)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "expand_dims: %s would have %d dims; there are at most %d",
                               tcc_type_text(&x.node->type), rank, TCC_MAX_RANK);
    int64_t dims[TCC_MAX_RANK] = {0};
    for (int i = 0; i < count; i++) {
        const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank || dims[axis])
            return tcc_trace_error(x.trace, TCC_EINVAL, at, "expand_dims: axis %lld of a result with %d dims is %s",
                                   (long long)axes[i], rank, axis < 0 || axis >= rank ? "out of range" : "named twice");
        dims[axis] = 1;
    }
    for (int d = 0, own = 0; d < rank; d++)
        if (!dims[d]) dims[d] = x.node->type.dims[own++];
    return tcc_reshape(x, rank, dims);
}

tcc_tensor tcc_squeeze_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at) {
    tcc_dims list;
    if (!tcc__tensor_axes(x, "squeeze", count, axes, at, &list)) return tcc_trace_poison();
    if (count & TCC_KEEP_DIMS) return tcc_trace_error(x.trace, TCC_EINVAL, at, "squeeze: TCC_KEEP keeps no dims here");
    int64_t dims[TCC_MAX_RANK];
    int rank = 0;
    for (int d = 0, next = 0; d < tcc_rank(x); d++) {
        const bool named = next < list.count && list.v[next] == d;
        next += named;
        if (!named || (!count && tcc_dim(x, d) != 1)) dims[rank++] = tcc_dim(x, d);
        else if (tcc_dim(x, d) != 1)
            return tcc_trace_error(x.trace, TCC_ESHAPE, at, "squeeze: dim %d of %s is not 1", d,
                                   tcc_type_text(&x.node->type));
    }
    return tcc_reshape(x, rank, dims);
}

tcc_tensor tcc_stack_at(const tcc_tensor *xs, int count, int axis, tcc_loc at) {
    tcc_trace *t = tcc_trace_poison().trace;
    if (!t) return tcc_trace_poison();
    if (!xs || count < 1) return tcc_trace_error(t, TCC_EINVAL, at, "stack: it takes one operand at least");
    if (!tcc_trace_takes("stack", at, count, xs)) return tcc_trace_poison();
    for (int i = 1; i < count; i++)
        if (!tcc_type_equal(&xs[i].node->type, &xs[0].node->type))
            return tcc_trace_error(t, TCC_ESHAPE, at, "stack: operand %d is %s, operand 0 %s", i,
                                   tcc_type_text(&xs[i].node->type), tcc_type_text(&xs[0].node->type));
    const int rank = tcc_rank(xs[0]) + 1, a = axis < 0 ? axis + rank : axis;
    if (a < 0 || a >= rank)
        return tcc_trace_error(t, TCC_EINVAL, at, "stack: axis %d is out of range for a result with %d dims", axis,
                               rank);
    tcc_tensor *all = TCC_ARENA_ARRAY(&t->graph->arena, tcc_tensor, count);
    if (!all) {
        tcc_enomem(t->graph->diag);
        return tcc_trace_poison();
    }
    for (int i = 0; i < count; i++) all[i] = tcc_expand_dims(xs[i], TCC_DIMS(a));
    return tcc_concat(all, count, a);
}

/* -- Pieces -- */

void tcc_split_at(tcc_tensor x, int axis, tcc_tensor *out, int count, const int64_t *extents, tcc_loc at) {
    for (int i = 0; i < count; i++) out[i] = tcc_trace_poison();
    if (!tcc__tensor_axis(x, "split", axis, at, &axis)) return;
    int64_t sum = 0;
    for (int i = 0; i < count; i++) {
        if (extents[i] < 1 || extents[i] > tcc_dim(x, axis)) {
            tcc_trace_error(x.trace, TCC_ESHAPE, at, "split: piece %d of dim %d of %s has an extent of %lld", i, axis,
                            tcc_type_text(&x.node->type), (long long)extents[i]);
            return;
        }
        sum += extents[i];
    }
    if (sum != tcc_dim(x, axis)) {
        tcc_trace_error(x.trace, TCC_ESHAPE, at, "split: pieces of dim %d of %s have %lld elements together", axis,
                        tcc_type_text(&x.node->type), (long long)sum);
        return;
    }
    int64_t start = 0;
    for (int i = 0; i < count; start += extents[i++]) out[i] = tcc_slice(x, axis, start, start + extents[i]);
}

void tcc_chunk_at(tcc_tensor x, int axis, int count, tcc_tensor *out, tcc_loc at) {
    for (int i = 0; i < count; i++) out[i] = tcc_trace_poison();
    if (!tcc__tensor_axis(x, "chunk", axis, at, &axis)) return;
    const int64_t n = tcc_dim(x, axis);
    if (count < 1 || n % count) {
        tcc_trace_error(x.trace, TCC_ESHAPE, at, "chunk: dim %d of %s has no %d equal parts; tcc_split takes others",
                        axis, tcc_type_text(&x.node->type), count);
        return;
    }
    for (int i = 0; i < count; i++) out[i] = tcc_slice(x, axis, i * (n / count), (i + 1) * (n / count));
}

/* Tensors one after another, those left out that hold nothing (NULL). */
static tcc_tensor joined(const tcc_tensor *parts, int count, int axis, tcc_loc at) {
    tcc_tensor some[3];
    int n = 0;
    for (int i = 0; i < count; i++)
        if (parts[i].trace) some[n++] = parts[i];
    return n == 1 ? some[0] : tcc_concat(some, n, axis);
}

/* x[start .. limit - 1]; nothing where that is empty. */
static tcc_tensor part(tcc_tensor x, int axis, int64_t start, int64_t limit, tcc_loc at) {
    return start < limit ? tcc_slice(x, axis, start, limit) : (tcc_tensor){0};
}

tcc_tensor tcc_roll_at(tcc_tensor x, int axis, int64_t shift, tcc_loc at) {
    if (!tcc__tensor_axis(x, "roll", axis, at, &axis)) return tcc_trace_poison();
    const int64_t n = tcc_dim(x, axis), cut = n - (shift % n + n) % n;
    return joined((tcc_tensor[]){part(x, axis, cut, n, at), part(x, axis, 0, cut, at)}, 2, axis, at);
}

/* x as often along each axis as counts say, from axis *first on: of a few axes at once, so that the gradient is one sum
 * over all of them. An axis that is repeated has one in front of it, and what follows it stays with it. */
static tcc_tensor repeated(tcc_tensor x, int *first, const int64_t *counts, tcc_loc at) {
    enum { AT_ONCE = (TCC_MAX_RANK - 1) / 2 };
    tcc_type type = x.node->type;
    int64_t from[TCC_MAX_RANK] = {1}, to[TCC_MAX_RANK] = {1};
    int rank = 1, some = 0, next = *first;
    for (int d = 0; d < type.rank; d++) {
        const bool repeats = d >= *first && counts[d] > 1 && some < AT_ONCE;
        if (repeats) {
            from[rank] = 1, to[rank] = counts[d];
            from[rank + 1] = to[rank + 1] = 1;
            rank += 2, some++;
        }
        from[rank - 1] *= type.dims[d], to[rank - 1] *= type.dims[d];
        if (some < AT_ONCE || repeats) next = d + 1;
    }
    const int begin = *first;
    *first = next;
    if (!some) return x;
    x = tcc_broadcast(tcc_reshape(x, rank, from), rank, to);
    if (!x.node) return x; /* there are too many elements to count */
    for (int d = begin; d < next; d++) type.dims[d] *= counts[d] > 1 ? counts[d] : 1;
    return tcc_reshape(x, type.rank, type.dims);
}

tcc_tensor tcc_repeat_at(tcc_tensor x, int rank, const int64_t *counts, tcc_loc at) {
    if (!tcc_trace_takes("repeat", at, 1, &x)) return tcc_trace_poison();
    if (!tcc_trace_takes_list(x.trace, "repeat", "counts", rank, counts, at)) return tcc_trace_poison();
    if (rank < tcc_rank(x) || rank > TCC_MAX_RANK)
        return tcc_trace_error(x.trace, TCC_EINVAL, at, "repeat: %d counts for %s; it takes %d to %d", rank,
                               tcc_type_text(&x.node->type), tcc_rank(x), TCC_MAX_RANK);
    int64_t dims[TCC_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        if (counts[d] < 1)
            return tcc_trace_error(x.trace, TCC_EINVAL, at, "repeat: count %d is %lld; it must be 1 or more", d,
                                   (long long)counts[d]);
        const int own = d - (rank - tcc_rank(x));
        dims[d] = own < 0 ? 1 : tcc_dim(x, own);
    }
    x = tcc_reshape(x, rank, dims);
    for (int first = 0; x.node && first < rank;) x = repeated(x, &first, counts, at);
    return x;
}

/* -- Matrices -- */

static tcc_tensor triangle(const char *name, bool lower, tcc_tensor x, int64_t k, tcc_loc at) {
    if (!tcc_trace_takes(name, at, 1, &x)) return tcc_trace_poison();
    if (tcc_rank(x) < 2)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "%s: %s is no matrix", name, tcc_type_text(&x.node->type));
    const int64_t rows = tcc_dim(x, -2), columns = tcc_dim(x, -1);
    k = k > columns ? columns : k < -rows ? -rows : k;
    tcc_tensor row = tcc_iota(x.trace, 0, TCC_I32, TCC_DIMS(rows, columns)),
               column = tcc_iota(x.trace, 1, TCC_I32, TCC_DIMS(rows, columns));
    tcc_tensor diagonal = tcc_add_scalar(row, (double)k);
    tcc_tensor stays = lower ? tcc_le(column, diagonal) : tcc_ge(column, diagonal);
    return tcc_select(stays, x, tcc__tensor_like(x, 0, at));
}

tcc_tensor tcc_tril_at(tcc_tensor x, int64_t k, tcc_loc at) { return triangle("tril", true, x, k, at); }
tcc_tensor tcc_triu_at(tcc_tensor x, int64_t k, tcc_loc at) { return triangle("triu", false, x, k, at); }

tcc_tensor tcc_swap_axes_at(tcc_tensor x, int a, int b, tcc_loc at) {
    int64_t perm[TCC_MAX_RANK];
    if (!tcc__tensor_axis(x, "swap_axes", a, at, &a) || !tcc__tensor_axis(x, "swap_axes", b, at, &b))
        return tcc_trace_poison();
    for (int d = 0; d < tcc_rank(x); d++) perm[d] = d == a ? b : d == b ? a : d;
    return tcc_transpose(x, tcc_rank(x), perm);
}

/* In a matrix as one row, each element of a diagonal is a row and a column behind the one before. */
tcc_tensor tcc_diagonal_at(tcc_tensor x, int64_t k, tcc_loc at) {
    if (!tcc_trace_takes("diagonal", at, 1, &x)) return tcc_trace_poison();
    tcc_type type = x.node->type;
    if (type.rank < 2)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "diagonal: %s is no matrix", tcc_type_text(&type));
    const int64_t rows = tcc_dim(x, -2), columns = tcc_dim(x, -1);
    if (k <= -rows || k >= columns)
        return tcc_trace_error(x.trace, TCC_EINVAL, at, "diagonal: %s has diagonals %lld to %lld, not %lld",
                               tcc_type_text(&type), (long long)(1 - rows), (long long)columns - 1, (long long)k);
    const int64_t start = k < 0 ? -k * columns : k, down = k < 0 ? rows + k : rows,
                  across = k < 0 ? columns : columns - k, n = down < across ? down : across;
    type.dims[type.rank - 2] = rows * columns;
    x = tcc_reshape(x, type.rank - 1, type.dims);
    return tcc_slice_strided(x, -1, start, start + (n - 1) * (columns + 1) + 1, columns + 1);
}

/* The same the other way: there is a row and a column between two elements. */
tcc_tensor tcc_diag_embed_at(tcc_tensor x, tcc_loc at) {
    if (!tcc_trace_takes("diag_embed", at, 1, &x)) return tcc_trace_poison();
    if (!tcc_rank(x)) return tcc_trace_error(x.trace, TCC_ESHAPE, at, "diag_embed: x is a scalar");
    tcc_type type = x.node->type;
    const int rank = type.rank;
    if (rank == TCC_MAX_RANK)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "diag_embed: %s would have %d dims; there are at most %d",
                               tcc_type_text(&type), rank + 1, TCC_MAX_RANK);
    const int64_t n = type.dims[rank] = type.dims[rank - 1];
    tcc_attrs attrs = {.pad = {.lo = {.count = rank}, .hi = {.count = rank}, .interior = {.count = rank}}};
    attrs.pad.interior.v[rank - 1] = n;
    return tcc_reshape(tcc__tensor_op(TCC_OP_PAD, x, &attrs, NULL, at), rank + 1, type.dims);
}

tcc_tensor tcc_outer_at(tcc_tensor a, tcc_tensor b, tcc_loc at) {
    if (!tcc_trace_takes("outer", at, 2, (tcc_tensor[]){a, b})) return tcc_trace_poison();
    if (tcc_rank(a) != 1 || tcc_rank(b) != 1)
        return tcc_trace_error(a.trace, TCC_ESHAPE, at, "outer: a is %s, b %s; both must have one dim",
                               tcc_type_text(&a.node->type), tcc_type_text(&b.node->type));
    return tcc_mul(tcc_expand_dims(a, TCC_DIMS(1)), b);
}

void tcc_meshgrid_at(const tcc_tensor *xs, int count, tcc_tensor *out, tcc_loc at) {
    for (int i = 0; i < count; i++) out[i] = tcc_trace_poison();
    tcc_trace *t = tcc_trace_poison().trace;
    if (!t) return;
    if (!xs || count < 1 || count > TCC_MAX_RANK) {
        tcc_trace_error(t, TCC_EINVAL, at, "meshgrid: it takes 1 to %d operands, not %d", TCC_MAX_RANK, count);
        return;
    }
    if (!tcc_trace_takes("meshgrid", at, count, xs)) return;
    int64_t dims[TCC_MAX_RANK];
    for (int i = 0; i < count; i++) {
        if (tcc_rank(xs[i]) != 1) {
            tcc_trace_error(t, TCC_ESHAPE, at, "meshgrid: operand %d is %s; it must have one dim", i,
                            tcc_type_text(&xs[i].node->type));
            return;
        }
        dims[i] = tcc_dim(xs[i], 0);
    }
    for (int i = 0; i < count; i++) {
        int64_t own[TCC_MAX_RANK];
        for (int d = 0; d < count; d++) own[d] = d == i ? dims[i] : 1;
        out[i] = tcc_broadcast(tcc_reshape(xs[i], count, own), count, dims);
    }
}

tcc_tensor tcc_diff_at(tcc_tensor x, int axis, tcc_loc at) {
    if (!tcc__tensor_axis(x, "diff", axis, at, &axis)) return tcc_trace_poison();
    const int64_t n = tcc_dim(x, axis);
    if (n < 2)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "diff: dim %d of %s has one element", axis,
                               tcc_type_text(&x.node->type));
    return tcc_sub(tcc_slice(x, axis, 1, n), tcc_slice(x, axis, 0, n - 1));
}

/* -- Borders -- */

/* Whether so many elements can be had; *axis becomes 0 or more. */
static bool takes_border(const char *name, tcc_tensor x, int *axis, int64_t before, int64_t after, int64_t less,
                         tcc_loc at) {
    if (!tcc__tensor_axis(x, name, *axis, at, axis)) return false;
    const int64_t most = less < 0 ? INT64_MAX : tcc_dim(x, *axis) - less;
    if (before >= 0 && after >= 0 && before <= most && after <= most) return true;
    if (less < 0)
        tcc_trace_error(x.trace, TCC_EINVAL, at, "%s: %lld before and %lld after dim %d of %s: neither is negative",
                        name, (long long)before, (long long)after, *axis, tcc_type_text(&x.node->type));
    else
        tcc_trace_error(x.trace, TCC_EINVAL, at, "%s: %lld before and %lld after dim %d of %s; each takes 0 to %lld",
                        name, (long long)before, (long long)after, *axis, tcc_type_text(&x.node->type),
                        (long long)most);
    return false;
}

tcc_tensor tcc_pad_reflect_at(tcc_tensor x, int axis, int64_t before, int64_t after, tcc_loc at) {
    if (!takes_border("pad_reflect", x, &axis, before, after, 1, at)) return tcc_trace_poison();
    const int64_t n = tcc_dim(x, axis);
    tcc_tensor first = part(x, axis, 1, before + 1, at), last = part(x, axis, n - 1 - after, n - 1, at);
    if (first.trace) first = tcc_flip(first, axis);
    if (last.trace) last = tcc_flip(last, axis);
    return joined((tcc_tensor[]){first, x, last}, 3, axis, at);
}

/* x, of which `axis` has one element, `count` times along it. */
static tcc_tensor stretched(tcc_tensor x, int axis, int64_t count, tcc_loc at) {
    if (!x.node) return x;
    tcc_type type = x.node->type;
    type.dims[axis] = count;
    return tcc_broadcast(x, type.rank, type.dims);
}

tcc_tensor tcc_pad_replicate_at(tcc_tensor x, int axis, int64_t before, int64_t after, tcc_loc at) {
    if (!takes_border("pad_replicate", x, &axis, before, after, -1, at)) return tcc_trace_poison();
    const int64_t n = tcc_dim(x, axis);
    tcc_tensor first = {0}, last = {0};
    if (before) first = stretched(tcc_slice(x, axis, 0, 1), axis, before, at);
    if (after) last = stretched(tcc_slice(x, axis, n - 1, n), axis, after, at);
    return joined((tcc_tensor[]){first, x, last}, 3, axis, at);
}

tcc_tensor tcc_pad_wrap_at(tcc_tensor x, int axis, int64_t before, int64_t after, tcc_loc at) {
    if (!takes_border("pad_wrap", x, &axis, before, after, 0, at)) return tcc_trace_poison();
    const int64_t n = tcc_dim(x, axis);
    return joined((tcc_tensor[]){part(x, axis, n - before, n, at), x, part(x, axis, 0, after, at)}, 3, axis, at);
}

/* -- Images -- */

/* [.., C r r, H, W] <-> [.., C, H r, W r] through [B, C, r, r, H, W] and [B, C, H, r, W, r]. */
static tcc_tensor shuffled(const char *name, bool back, tcc_tensor x, int64_t r, tcc_loc at) {
    if (!tcc_trace_takes(name, at, 1, &x)) return tcc_trace_poison();
    tcc_type type = x.node->type;
    const int rank = type.rank;
    if (rank < 3)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "%s: x is %s; it must be [.., C, H, W]", name,
                               tcc_type_text(&type));
    int64_t *c = &type.dims[rank - 3], *h = c + 1, *w = c + 2, n = 1;
    const int64_t most = INT64_C(1) << 20; /* r * r is then no more than a tensor's elements */
    if (r < 1 || r > most || (back ? *h % r || *w % r : *c % (r * r)))
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "%s: r is %lld, x %s; %s", name, (long long)r,
                               tcc_type_text(&x.node->type),
                               back ? "r must divide H and W" : "r * r must divide the channels");
    for (int d = 0; d < rank - 3; d++) n *= type.dims[d];
    if (back) {
        x = tcc_reshape(x, TCC_DIMS(n, *c, *h / r, r, *w / r, r));
        *c *= r * r, *h /= r, *w /= r;
        return tcc_reshape(tcc_transpose(x, TCC_DIMS(0, 1, 3, 5, 2, 4)), rank, type.dims);
    }
    x = tcc_reshape(x, TCC_DIMS(n, *c / (r * r), r, r, *h, *w));
    *c /= r * r, *h *= r, *w *= r;
    return tcc_reshape(tcc_transpose(x, TCC_DIMS(0, 1, 4, 2, 5, 3)), rank, type.dims);
}

tcc_tensor tcc_pixel_shuffle_at(tcc_tensor x, int64_t r, tcc_loc at) {
    return shuffled("pixel_shuffle", false, x, r, at);
}
tcc_tensor tcc_pixel_unshuffle_at(tcc_tensor x, int64_t r, tcc_loc at) {
    return shuffled("pixel_unshuffle", true, x, r, at);
}

tcc_tensor tcc_unfold_at(tcc_tensor x, int64_t k, const tcc_unfold_options *given, tcc_loc at) {
    TCC_OPTIONS(tcc_unfold_options, options, given);
    if (given && !tcc_trace_takes_size("unfold", given->size, sizeof options, at)) return tcc_trace_poison();
    if (!tcc_trace_takes("unfold", at, 1, &x)) return tcc_trace_poison();
    if (tcc_rank(x) != 4)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "unfold: x is %s; it must be [N, C, H, W]",
                               tcc_type_text(&x.node->type));
    const int64_t n = tcc_dim(x, 0), c = tcc_dim(x, 1), pad = options.padding, most = 64, far = TCC_MAX_NUMEL;
    const int64_t stride = options.stride ? options.stride : 1, dilation = options.dilation ? options.dilation : 1;
    if (k < 1 || k > most || stride < 1 || stride > far || dilation < 1 || dilation > far || pad < 0 || pad > far)
        return tcc_trace_error(
            x.trace, TCC_EINVAL, at,
            "unfold: window %lld (1 to %lld), stride %lld and dilation %lld (1 to 2^40), padding %lld (0 to "
            "2^40)",
            (long long)k, (long long)most, (long long)stride, (long long)dilation, (long long)pad);
    const int64_t reach = dilation * (k - 1) + 1;
    const int64_t room[2] = {tcc_dim(x, 2) + 2 * pad - reach, tcc_dim(x, 3) + 2 * pad - reach};
    if (room[0] < 0 || room[1] < 0)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "unfold: a window over %lld elements does not fit in %s",
                               (long long)reach, tcc_type_text(&x.node->type));
    const int64_t h = room[0] / stride + 1, w = room[1] / stride + 1;
    if (pad) x = tcc_pad(tcc_pad(x, 2, pad, pad, 0), 3, pad, pad, 0);
    tcc_tensor *all = TCC_ARENA_ARRAY(&x.trace->graph->arena, tcc_tensor, k * k);
    if (!all) {
        tcc_enomem(x.trace->graph->diag);
        return tcc_trace_poison();
    }
    for (int64_t i = 0; i < k; i++) {
        tcc_tensor rows = tcc_slice_strided(x, 2, i * dilation, i * dilation + (h - 1) * stride + 1, stride);
        for (int64_t j = 0; j < k; j++)
            all[i * k + j] = tcc_slice_strided(rows, 3, j * dilation, j * dilation + (w - 1) * stride + 1, stride);
    }
    return tcc_reshape(tcc_stack(all, (int)(k * k), 2), TCC_DIMS(n, c * k * k, h * w));
}
