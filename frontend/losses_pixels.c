/* SPDX-License-Identifier: MIT
 * Losses of segmentation: of a label for each pixel. */
#include "tensor_ops.h"

#include "traincc/functions.h"
#include "traincc/losses.h"

#include <math.h>
#include <stdint.h>

/* What is built here stands at the line of the loss's caller. */
#undef TCC_HERE
#define TCC_HERE at

/* A loss in the making. Its logits are f32 at least, and labels i32 [N, 1, ..]. */
typedef struct pixels {
    const char *name;
    tcc_dtype dtype; /* of the result */
    tcc_pixel_loss_options options;
    double ignored;
    tcc_tensor x, labels;
    tcc_tensor counts; /* bool: is not ignored */
    tcc_tensor good;   /* 1; NaN where a label that counts is no class */
} pixels;

/* -- Arguments -- */

static bool check_options(const pixels *p, bool mines, tcc_loc at) {
    const tcc_pixel_loss_options *o = &p->options;
    tcc_trace *t = p->x.trace;
    if (!mines && (o->threshold != 0 || o->least != 0))
        tcc_trace_error(t, TCC_EINVAL, at, "%s has no option %s", p->name, o->threshold != 0 ? "threshold" : "least");
    else if (!(o->threshold >= 0 && o->threshold < 1))
        tcc_trace_error(t, TCC_EINVAL, at, "%s: threshold must be in (0, 1), not %g", p->name, o->threshold);
    else if (!(o->least >= 0 && o->least <= 1))
        tcc_trace_error(t, TCC_EINVAL, at, "%s: least must be in (0, 1], not %g", p->name, o->least);
    else if (o->ignore_index < INT32_MIN || o->ignore_index > INT32_MAX)
        tcc_trace_error(t, TCC_EINVAL, at, "%s: ignore_index must be an i32, not %lld", p->name,
                        (long long)o->ignore_index);
    else return true;
    return false;
}

static bool check_shapes(const pixels *p, int64_t channels, int rank, tcc_loc at) {
    const tcc_type *x = &p->x.node->type, *is = &p->labels.node->type;
    const bool wrong = x->rank < 3 || (rank && x->rank != rank) || (channels && x->dims[1] != channels);
    if (!tcc_dtype_is_float(x->dtype) || wrong) {
        tcc_trace_error(p->x.trace, tcc_dtype_is_float(x->dtype) ? TCC_ESHAPE : TCC_EDTYPE, at,
                        "%s: x is %s; it must be floats [N, %s, %s]", p->name, tcc_type_text(x), channels ? "1" : "C",
                        rank ? "H, W" : "..");
        return false;
    }
    tcc_type want = *x;
    want.dtype = is->dtype == TCC_I64 ? TCC_I64 : TCC_I32;
    want.rank--;
    for (int d = 1; d < want.rank; d++) want.dims[d] = x->dims[d + 1];
    want.dims[want.rank] = 0;
    if (tcc_type_equal(&want, is)) return true;
    tcc_trace_error(p->x.trace, is->dtype == want.dtype ? TCC_ESHAPE : TCC_EDTYPE, at,
                    "%s: labels are %s; with x %s they must be %s, as i32 or i64", p->name, tcc_type_text(is),
                    tcc_type_text(x), tcc_type_text(&want));
    return false;
}

/* Between begin and end all is computed in f32 at least. `channels` and `rank` are those of x; 0: any. */
static bool begin(pixels *p, const char *name, tcc_tensor x, tcc_tensor labels, const tcc_pixel_loss_options *given,
                  int64_t channels, int rank, bool mines, tcc_loc at) {
    TCC_OPTIONS(tcc_pixel_loss_options, options, given);
    if (!tcc_trace_takes(name, at, 2, (tcc_tensor[]){x, labels}) ||
        (given && !tcc_trace_takes_size(name, given->size, sizeof options, at)))
        return false;
    const bool chosen = options.has_ignore_index || options.ignore_index != 0;
    *p = (pixels){.name = name,
                  .dtype = tcc_get_dtype(x),
                  .options = options,
                  .ignored = chosen ? (double)options.ignore_index : -100,
                  .x = x,
                  .labels = labels};
    if (!check_options(p, mines, at) || !check_shapes(p, channels, rank, at)) return false;
    tcc_full_precision(x.trace);
    if (tcc_get_dtype(labels) == TCC_I64) { /* saturated, so that none out of range becomes a class */
        tcc_tensor low = tcc__tensor_like(labels, INT32_MIN, at), high = tcc__tensor_like(labels, INT32_MAX, at);
        labels = tcc_cast(tcc_min(tcc_max(labels, low), high), TCC_I32);
    }
    p->x = tcc__tensor_widened(x, at);
    p->labels = tcc_expand_dims(labels, TCC_DIMS(1));
    p->counts = tcc_ne_scalar(p->labels, p->ignored);
    return true;
}

static tcc_tensor end(const pixels *p, tcc_tensor loss, tcc_loc at) {
    loss = tcc_cast(loss, p->dtype);
    tcc_full_precision_end(p->x.trace);
    return loss;
}

/* -- What the losses are made of -- */

/* bool [N, C, ..]: whether it is the pixel's class. */
static tcc_tensor own_class(const pixels *p, tcc_loc at) {
    int64_t dims[TCC_MAX_RANK];
    for (int d = 0; d < tcc_rank(p->x); d++) dims[d] = d == 1 ? tcc_dim(p->x, 1) : 1;
    return tcc_eq(tcc_iota(p->x.trace, 1, TCC_I32, tcc_rank(p->x), dims), p->labels);
}

/* Log-probabilities, which are NaN where the label is no class, and so are their gradients. */
static tcc_tensor log_probabilities(pixels *p, tcc_loc at) {
    tcc_tensor known = tcc_and(tcc_ge_scalar(p->labels, 0), tcc_lt_scalar(p->labels, (double)tcc_dim(p->x, 1)));
    tcc_tensor one = tcc__tensor_like(p->x, 1, at), nan = tcc__tensor_like(p->x, NAN, at);
    p->good = tcc_select(tcc_or(known, tcc_not(p->counts)), one, nan);
    return tcc_mul(tcc_log_softmax(p->x, 1), p->good);
}

/* Each pixel's cross entropy [N, 1, ..], 0 where it does not count. */
static tcc_tensor entropies(const pixels *p, tcc_tensor z, tcc_loc at) {
    tcc_tensor own = tcc_sum(tcc_select_scalar(own_class(p, at), z, 0), TCC_KEEP(1));
    return tcc_select_scalar(p->counts, tcc_neg(tcc_mul(own, p->good)), 0);
}

/* How many are true, as a number of x's type that is 1 or more. */
static tcc_tensor number(const pixels *p, tcc_tensor these, tcc_loc at) {
    return tcc_clamp(tcc_sum(tcc_cast(these, tcc_get_dtype(p->x)), TCC_ALL), 1, INFINITY);
}

/* bool: the labels within a window around the pixel, k x k, of those that there are, differ. */
static tcc_tensor differ(tcc_tensor labels, int64_t k, tcc_loc at) {
    tcc_tensor number = tcc_cast(labels, TCC_F32), most = number, least = tcc_neg(number);
    for (int d = 0; d < 2; d++) { /* rows, then columns */
        const tcc_pool_options line = {.size = sizeof line,
                                       .stride = 1,
                                       .window_of = {d ? 1 : k, d ? k : 1},
                                       .padding_of = {d ? 0 : k / 2, d ? k / 2 : 0}};
        most = tcc_max_pool_at(most, 1, &line, at), least = tcc_max_pool_at(least, 1, &line, at);
    }
    return tcc_ne(most, tcc_neg(least));
}

/* 1 - (2 both + 1) / (sum + 1 + 1e-5), which cancels: sum is 2 both + apart. */
static tcc_tensor overlap(tcc_tensor apart, tcc_tensor sum, tcc_loc at) {
    return tcc_div(tcc_add_scalar(apart, 1e-5), tcc_add_scalar(sum, 1 + 1e-5));
}

/* -- The losses -- */

tcc_tensor tcc_pixel_cross_entropy_at(tcc_tensor x, tcc_tensor labels, const tcc_pixel_loss_options *given,
                                      tcc_loc at) {
    pixels p;
    if (!begin(&p, "pixel_cross_entropy", x, labels, given, 0, 0, false, at)) return tcc_trace_poison();
    tcc_tensor each = entropies(&p, log_probabilities(&p, at), at);
    return end(&p, tcc_div(tcc_sum(each, TCC_ALL), number(&p, p.counts, at)), at);
}

tcc_tensor tcc_edge_dice_loss_at(tcc_tensor x, tcc_tensor labels, const tcc_pixel_loss_options *given, tcc_loc at) {
    pixels p;
    if (!begin(&p, "edge_dice_loss", x, labels, given, 0, 4, false, at)) return tcc_trace_poison();
    tcc_tensor z = log_probabilities(&p, at), each = entropies(&p, z, at), edge = differ(p.labels, 5, at);
    tcc_tensor on_edges = tcc_div(tcc_sum(tcc_select_scalar(edge, each, 0), TCC_ALL), number(&p, edge, at));
    tcc_tensor entropy = tcc_scale(tcc_add(tcc_mean(each, TCC_ALL), on_edges), 0.5);

    tcc_tensor own = own_class(&p, at), q = tcc_exp(z), ones = tcc_cast(own, tcc_get_dtype(z));
    tcc_tensor rest = tcc_neg(tcc_expm1(tcc_neg(each))); /* 1 - q of the own class, which does not cancel */
    tcc_tensor apart = tcc_select(own, rest, q), sum = tcc_add(q, ones);
    apart = tcc_sum(tcc_select_scalar(p.counts, apart, 0), TCC_DIMS(0, 2, 3));
    sum = tcc_sum(tcc_select_scalar(p.counts, sum, 0), TCC_DIMS(0, 2, 3));
    return end(&p, tcc_add(entropy, tcc_mean(overlap(apart, sum, at), TCC_ALL)), at);
}

tcc_tensor tcc_detail_loss_at(tcc_tensor x, tcc_tensor labels, const tcc_pixel_loss_options *given, tcc_loc at) {
    pixels p;
    if (!begin(&p, "detail_loss", x, labels, given, 1, 4, false, at)) return tcc_trace_poison();
    /* What lies outside has a label of its own. It is below all others that count, for it must differ from them. */
    tcc_tensor framed = tcc_pad_dims(p.labels, INT32_MIN, TCC_DIMS(1, 1, 1, 1));
    const int64_t h = tcc_dim(p.labels, 2), w = tcc_dim(p.labels, 3);
    tcc_tensor border = differ(framed, 3, at);
    border = tcc_slice(tcc_slice(border, 2, 1, h + 1), 3, 1, w + 1);
    const tcc_dtype dtype = tcc_get_dtype(p.x);
    tcc_tensor fine = tcc_cast(tcc_and(border, p.counts), dtype);
    tcc_tensor coarse = tcc_slice_strided(tcc_slice_strided(fine, 2, 0, h, 2), 3, 0, w, 2);
    tcc_tensor target = tcc_max(fine, tcc_resize_nearest(coarse, false, TCC_DIMS(h, w)));
    tcc_tensor s = tcc_sigmoid(p.x), rest = tcc_sigmoid(tcc_neg(p.x));
    tcc_tensor apart = tcc_select(tcc_gt_scalar(target, 0), rest, s);
    tcc_tensor share = overlap(tcc_sum(apart, TCC_ALL), tcc_sum(tcc_add(s, target), TCC_ALL), at);
    return end(&p, tcc_add(tcc_bce_with_logits(p.x, target), share), at);
}

/* -- Hard pixels -- */

static tcc_tensor above(const pixels *p, tcc_tensor each, tcc_tensor bound, tcc_loc at) {
    return tcc_and(p->counts, tcc_gt(each, bound));
}

static tcc_tensor count_above(const pixels *p, tcc_tensor each, tcc_tensor bound, tcc_loc at) {
    return tcc_count_nonzero(above(p, each, bound, at), TCC_ALL);
}

/* How many pixels are kept in any case: a share of the n that count, and less than n. */
static tcc_tensor least_kept(const pixels *p, tcc_tensor n, tcc_loc at) {
    tcc_tensor m =
        tcc_cast(tcc_floor(tcc_scale(tcc_cast(n, TCC_F64), p->options.least > 0 ? p->options.least : 0.0625)), TCC_I32);
    return tcc_max(tcc_min(m, tcc_add_scalar(n, -1)), tcc__tensor_like(m, 0, at));
}

/* The m-th largest lies between bounds that are halved until floats hardly lie closer. No order is needed, and no shape
 * depends on what is found. */
tcc_tensor tcc_ohem_cross_entropy_at(tcc_tensor x, tcc_tensor labels, const tcc_pixel_loss_options *given, tcc_loc at) {
    enum { HALVINGS = 24 };
    pixels p;
    if (!begin(&p, "ohem_cross_entropy", x, labels, given, 0, 0, true, at)) return tcc_trace_poison();
    tcc_tensor each = entropies(&p, log_probabilities(&p, at), at), fixed = tcc_stop_gradient(each);
    tcc_tensor m = least_kept(&p, tcc_count_nonzero(p.counts, TCC_ALL), at);
    tcc_tensor high = tcc__tensor_like(each, -log(p.options.threshold > 0 ? p.options.threshold : 0.7), at);
    tcc_tensor low = tcc__tensor_like(each, -0x1p-20, at), hard = count_above(&p, fixed, high, at);
    tcc_tensor many = tcc_gt(hard, m);
    for (int i = 0; i < HALVINGS; i++) {
        tcc_tensor middle = tcc_scale(tcc_add(low, high), 0.5), wide = tcc_gt(count_above(&p, fixed, middle, at), m);
        tcc_tensor raised = tcc_and(wide, tcc_not(many)), lowered = tcc_not(tcc_or(wide, many));
        low = tcc_select(raised, middle, low), high = tcc_select(lowered, middle, high);
    }
    /* above `high` all are kept, and of those between the bounds as many as are left */
    const tcc_dtype dtype = tcc_get_dtype(each);
    tcc_tensor surely = count_above(&p, fixed, high, at), between = tcc_sub(count_above(&p, fixed, low, at), surely);
    tcc_tensor share = tcc_div(tcc_cast(tcc_sub(m, surely), dtype), tcc_clamp(tcc_cast(between, dtype), 1, INFINITY));
    share = tcc_select(many, tcc__tensor_like(share, 0, at), share);
    tcc_tensor rest = tcc_select_scalar(above(&p, fixed, low, at), tcc_mul(each, share), 0);
    tcc_tensor sum = tcc_sum(tcc_select(above(&p, fixed, high, at), each, rest), TCC_ALL);
    tcc_tensor kept = tcc_clamp(tcc_cast(tcc_max(hard, m), dtype), 1, INFINITY);
    /* NaN is above nothing, and must be seen all the same */
    tcc_tensor bad = tcc_any(tcc_ne(fixed, fixed), TCC_ALL);
    tcc_tensor good = tcc_select(bad, tcc__tensor_like(sum, NAN, at), tcc__tensor_like(sum, 1, at));
    return end(&p, tcc_mul(tcc_div(sum, kept), good), at);
}
