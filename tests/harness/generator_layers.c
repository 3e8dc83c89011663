/* SPDX-License-Identifier: MIT
 * Random graphs: contractions, windows, attention, composites. */
#include "harness/generator_values.h"

#include <math.h>
#include <stdio.h>

#define ANY_RANK 0, TCC_MAX_RANK

static tcc_gen_value pick_float(tcc_gen *r, int least_rank, int most_rank) {
    return tcc__gen_pick(r, (tcc_gen_want){TCC_GEN_FLOAT, least_rank, most_rank, false});
}

/* A sum of `count` products of a and b. */
static tcc_gen_value sum_of_products(tcc_node *n, tcc_gen_value a, tcc_gen_value b, double count) {
    const double ma = tcc__gen_magnitude(a), mb = tcc__gen_magnitude(b), most = count * ma * mb;
    return tcc__gen_made(n, -most, most, count * (ma * b.err + mb * a.err),
                         a.grid < 0 || b.grid < 0 ? -1 : a.grid + b.grid);
}

/* -- dot -- */

static void shuffle(tcc_gen *r, int *v, int n) {
    for (int i = n - 1; i > 0; i--) {
        int at = (int)tcc__gen_below(r, i + 1), swap = v[at];
        v[at] = v[i];
        v[i] = swap;
    }
}

static void add_dot(tcc_gen *r) {
    tcc_gen_value a;
    if (tcc__gen_chance(r, 25)) {
        /* Rows and columns past one tile. */
        tcc_type type = {tcc__gen_float(r), 2, {1 + tcc__gen_below(r, 70), 1 + tcc__gen_below(r, 100)}};
        if (!tcc__gen_fits(r, &type)) return;
        a = tcc__gen_input(r, &type);
    } else {
        a = pick_float(r, 1, 5);
    }
    if (!a.n) return;
    const tcc_type *ta = &a.n->type;
    int order[TCC_MAX_RANK];
    for (int i = 0; i < ta->rank; i++) order[i] = i;
    if (tcc__gen_chance(r, 50)) shuffle(r, order, ta->rank);
    const int contract = tcc__gen_chance(r, 4) ? 0 : ta->rank > 1 && tcc__gen_chance(r, 15) ? 2 : 1;
    int batch = tcc__gen_chance(r, 60) ? 0 : (int)tcc__gen_below(r, 3);
    if (batch > ta->rank - contract) batch = ta->rank - contract;

    /* b: its dims in any order; role[i] says which dim of a it pairs with, -1 is free. */
    tcc_type tb = {.dtype = ta->dtype}, result = {.dtype = ta->dtype};
    int role[TCC_MAX_RANK], rank_b = 0;
    const int free_b = (int)tcc__gen_below(r, 3);
    for (int i = 0; i < batch; i++) role[rank_b++] = order[i];
    for (int i = 0; i < contract; i++) role[rank_b++] = order[ta->rank - 1 - i];
    for (int i = 0; i < free_b; i++) role[rank_b++] = -1;
    shuffle(r, role, rank_b);

    tcc_attrs_dot attrs = {0};
    double count = 1;
    for (int i = 0; i < rank_b; i++) tb.dims[tb.rank++] = role[i] < 0 ? tcc__gen_extent(r, 70) : ta->dims[role[i]];
    for (int k = 0; k < batch + contract; k++) {
        const bool is_batch = k < batch;
        const int dim_a = is_batch ? order[k] : order[ta->rank - 1 - (k - batch)];
        int dim_b = 0;
        while (role[dim_b] != dim_a) dim_b++;
        tcc_dims *list_a = is_batch ? &attrs.batch_a : &attrs.contract_a,
                 *list_b = is_batch ? &attrs.batch_b : &attrs.contract_b;
        list_a->v[list_a->count++] = dim_a;
        list_b->v[list_b->count++] = dim_b;
        if (!is_batch) count *= (double)ta->dims[dim_a];
    }
    for (int i = 0; i < ta->rank - contract; i++) result.dims[result.rank++] = ta->dims[order[i]];
    for (int i = 0; i < rank_b; i++) {
        if (role[i] >= 0) continue;
        if (result.rank == TCC_MAX_RANK) return;
        result.dims[result.rank++] = tb.dims[i];
    }
    if (!tcc__gen_fits(r, &tb) || !tcc__gen_fits(r, &result)) return;
    tcc_gen_value b = tcc__gen_like(r, &tb);
    tcc__gen_keep(r, sum_of_products(tcc_ir_dot(r->g, a.n, b.n, &attrs), a, b, count));
}

/* -- Convolution -- */

/* A value with a batch, a channel and 1 to 3 spatial dims. */
static tcc_gen_value pick_image(tcc_gen *r, bool channels_last) {
    static const int8_t extents[] = {1, 3, 4, 5, 7, 8, 11, 16};
    static const int8_t few[] = {1, 2, 3, 4, 6, 8, 16, 17};
    if (tcc__gen_chance(r, 50)) {
        tcc_gen_value v = pick_float(r, 3, 5);
        if (v.n && tcc_type_numel(&v.n->type) <= 4096) return v;
    }
    const int spatial = tcc__gen_chance(r, 65) ? 2 : tcc__gen_chance(r, 60) ? 1 : 3;
    tcc_type type = {.dtype = tcc__gen_float(r), .rank = spatial + 2};
    for (int i = 0; i < type.rank; i++) type.dims[i] = TCC_GEN_ONE_OF(r, extents);
    type.dims[0] = 1 + tcc__gen_below(r, 3);
    type.dims[channels_last ? type.rank - 1 : 1] = TCC_GEN_ONE_OF(r, few);
    while (!tcc__gen_fits(r, &type)) type.dims[1 + tcc__gen_below(r, type.rank - 1)] = 1;
    return tcc__gen_input(r, &type);
}

static int64_t windows(int64_t extent, int64_t reach, int64_t stride) {
    return extent < reach ? 0 : (extent - reach) / stride + 1;
}

static void add_conv(tcc_gen *r) {
    tcc_attrs attrs = {.conv.channels_last = tcc__gen_chance(r, 50)};
    tcc_attrs_conv *a = &attrs.conv;
    tcc_gen_value x = pick_image(r, a->channels_last);
    if (!x.n) return;
    const tcc_type *tx = &x.n->type;
    const int spatial = tx->rank - 2, first = a->channels_last ? 1 : 2, channel = a->channels_last ? tx->rank - 1 : 1;
    const int64_t channels = tx->dims[channel];
    a->groups = tcc__gen_chance(r, 60) ? 1 : 1 + tcc__gen_below(r, channels);
    while (channels % a->groups) a->groups--;
    tcc_type tw = {.dtype = tx->dtype, .rank = tx->rank}, ty = *tx;
    tw.dims[0] = ty.dims[channel] = a->groups * (1 + tcc__gen_below(r, 5));
    tw.dims[channel] = channels / a->groups;
    double count = (double)tw.dims[channel];
    a->stride.count = a->pad_lo.count = a->pad_hi.count = a->dilation.count = spatial;
    for (int i = 0; i < spatial; i++) {
        const int64_t kernel = 1 + tcc__gen_below(r, 4);
        a->stride.v[i] = tcc__gen_chance(r, 60) ? 1 : 2 + tcc__gen_below(r, 2);
        a->dilation.v[i] = tcc__gen_chance(r, 75) ? 1 : 2;
        a->pad_lo.v[i] = tcc__gen_chance(r, 40) ? 0 : tcc__gen_below(r, 3);
        a->pad_hi.v[i] = tcc__gen_chance(r, 60) ? a->pad_lo.v[i] : tcc__gen_below(r, 5);
        const int64_t extent = tx->dims[first + i] + a->pad_lo.v[i] + a->pad_hi.v[i],
                      reach = (kernel - 1) * a->dilation.v[i] + 1;
        tw.dims[first + i] = reach <= extent ? kernel : 1;
        if (reach > extent) a->dilation.v[i] = 1;
        ty.dims[first + i] = windows(extent, reach <= extent ? reach : 1, a->stride.v[i]);
        count *= (double)tw.dims[first + i];
    }
    if (!tcc__gen_fits(r, &ty) || !tcc__gen_fits(r, &tw)) return;
    const int kind = tcc__gen_chance(r, 70) ? 0 : 1 + (int)tcc__gen_below(r, 2);
    if (kind == 0) {
        tcc_gen_value w = tcc__gen_like(r, &tw);
        tcc__gen_keep(
            r, sum_of_products(tcc__gen_build(r, TCC_OP_CONV, (tcc_node *[]){x.n, w.n}, 2, &attrs, NULL), x, w, count));
        return;
    }
    tcc_gen_value dy = tcc__gen_like(r, &ty);
    if (kind == 1) {
        tcc_gen_value w = tcc__gen_like(r, &tw);
        tcc_node *n = tcc__gen_build(r, TCC_OP_CONV_GRAD_INPUT, (tcc_node *[]){dy.n, w.n}, 2, &attrs, tx);
        /* An element of x meets each element of the kernel once, for each feature of its group. */
        double terms = count / (double)tw.dims[channel] * (double)(tw.dims[0] / a->groups);
        tcc__gen_keep(r, sum_of_products(n, dy, w, terms));
    } else {
        tcc_node *n = tcc__gen_build(r, TCC_OP_CONV_GRAD_WEIGHT, (tcc_node *[]){x.n, dy.n}, 2, &attrs, &tw);
        double terms = (double)tcc_type_numel(&ty) / (double)ty.dims[channel];
        tcc__gen_keep(r, sum_of_products(n, x, dy, terms));
    }
}

void tcc__gen_contract(tcc_gen *r) {
    if (tcc__gen_chance(r, 60)) add_dot(r);
    else add_conv(r);
}

/* -- Windows -- */

static void add_pool(tcc_gen *r) {
    tcc_attrs attrs = {.pool = {.channels_last = tcc__gen_chance(r, 50), .include_pad = tcc__gen_chance(r, 50)}};
    tcc_attrs_pool *a = &attrs.pool;
    const bool is_max = tcc__gen_chance(r, 50);
    if (is_max) a->include_pad = false;
    tcc_gen_value x = pick_image(r, a->channels_last);
    if (!x.n) return;
    const tcc_type *tx = &x.n->type;
    const int spatial = tx->rank - 2, first = a->channels_last ? 1 : 2;
    tcc_type ty = *tx;
    double overlap = 1; /* windows that hold one element, at most */
    a->window.count = a->stride.count = a->pad_lo.count = a->pad_hi.count = spatial;
    for (int i = 0; i < spatial; i++) {
        const int64_t extent = tx->dims[first + i];
        a->window.v[i] = 1 + tcc__gen_below(r, extent < 4 ? extent : 4);
        a->stride.v[i] = 1 + tcc__gen_below(r, 3);
        a->pad_lo.v[i] = tcc__gen_below(r, (a->window.v[i] + 1) / 2 + 1);
        if (a->pad_lo.v[i] >= a->window.v[i]) a->pad_lo.v[i] = 0;
        a->pad_hi.v[i] = tcc__gen_chance(r, 60) ? a->pad_lo.v[i] : tcc__gen_below(r, a->window.v[i]);
        ty.dims[first + i] = windows(extent + a->pad_lo.v[i] + a->pad_hi.v[i], a->window.v[i], a->stride.v[i]);
        overlap *= (double)((a->window.v[i] - 1) / a->stride.v[i] + 1);
    }
    if (tcc__gen_chance(r, 75) || !tcc__gen_fits(r, &ty)) {
        tcc_node *n = tcc__gen_build(r, is_max ? TCC_OP_MAX_POOL : TCC_OP_AVG_POOL, &x.n, 1, &attrs, NULL);
        tcc__gen_keep(r, tcc__gen_made(n, x.lo < 0 ? x.lo : 0, x.hi > 0 ? x.hi : 0, x.err, is_max ? x.grid : -1));
        return;
    }
    if (is_max && (x.grid < 0 || r->options->differentiable)) return;
    tcc_gen_value dy = tcc__gen_like(r, &ty);
    tcc_node *operands[] = {is_max ? tcc__gen_build(r, TCC_OP_MAX_POOL_PLACE, &x.n, 1, &attrs, NULL) : NULL, dy.n};
    tcc_node *n = is_max ? tcc__gen_build(r, TCC_OP_MAX_POOL_GRAD, operands, 2, &attrs, tx)
                         : tcc__gen_build(r, TCC_OP_AVG_POOL_GRAD, &operands[1], 1, &attrs, tx);
    const double most = overlap * tcc__gen_magnitude(dy);
    tcc__gen_keep(r, tcc__gen_made(n, -most, most, overlap * dy.err, is_max ? dy.grid : -1));
}

static void add_resize(tcc_gen *r) {
    static const tcc_op forward[] = {TCC_OP_ADAPTIVE_AVG_POOL, TCC_OP_RESIZE_NEAREST, TCC_OP_RESIZE_BILINEAR,
                                     TCC_OP_RESIZE_BICUBIC};
    static const tcc_op backward[] = {TCC_OP_ADAPTIVE_AVG_POOL_GRAD, TCC_OP_RESIZE_NEAREST_GRAD,
                                      TCC_OP_RESIZE_BILINEAR_GRAD, TCC_OP_RESIZE_BICUBIC_GRAD};
    const int kind = (int)tcc__gen_below(r, 4);
    const bool is_cubic = kind == 3;
    const bool is_grad = tcc__gen_chance(r, 25);
    tcc_attrs attrs = {
        .resize = {.align_corners = kind && tcc__gen_chance(r, 50), .channels_last = tcc__gen_chance(r, 50)}};
    tcc_gen_value x = pick_image(r, attrs.resize.channels_last);
    if (!x.n) return;
    tcc_type type = x.n->type;
    double overlap = 1, weights = 1;
    for (int i = 0; i < type.rank - 2; i++) {
        const int at = i + (attrs.resize.channels_last ? 1 : 2);
        const int64_t from = type.dims[at];
        type.dims[at] = tcc__gen_extent(r, 17);
        /* How many elements of the larger side touch one of the smaller. */
        overlap *= (double)((from > type.dims[at] ? from / type.dims[at] : type.dims[at] / from) + 3);
        if (is_cubic) overlap *= 4, weights *= 1.375; /* the sum of Keys' weights without their signs, at most */
    }
    if (!tcc__gen_fits(r, &type)) return;
    if (!is_grad) overlap = weights;
    tcc_node *n = tcc__gen_build(r, is_grad ? backward[kind] : forward[kind], &x.n, 1, &attrs, &type);
    const double most = overlap * tcc__gen_magnitude(x);
    /* Coordinates of interpolation are rounded too. */
    tcc__gen_keep(r,
                  tcc__gen_made(n, -most, most, overlap * (x.err + (kind >= 2 ? 1e-5 : 0)), kind == 1 ? x.grid : -1));
}

void tcc__gen_window(tcc_gen *r) {
    if (tcc__gen_chance(r, 55)) add_pool(r);
    else add_resize(r);
}

/* -- Attention -- */

void tcc__gen_attention(tcc_gen *r) {
    static const int8_t lengths[] = {1, 3, 4, 8, 17, 33, 65};
    static const int8_t widths[] = {1, 2, 4, 8, 16, 20};
    tcc_type q = {.dtype = tcc__gen_float(r)}, k, v, scores;
    const int leading = (int)tcc__gen_below(r, 3);
    for (int i = 0; i < leading; i++) q.dims[q.rank++] = 1 + tcc__gen_below(r, 3);
    const int64_t queries = TCC_GEN_ONE_OF(r, lengths),
                  keys = tcc__gen_chance(r, 50) ? queries : TCC_GEN_ONE_OF(r, lengths);
    const int64_t width = TCC_GEN_ONE_OF(r, widths);
    const bool causal = tcc__gen_chance(r, 50);
    q.rank += 2;
    k = v = scores = q;
    q.dims[leading] = scores.dims[leading] = queries;
    k.dims[leading] = v.dims[leading] = scores.dims[leading + 1] = keys;
    q.dims[leading + 1] = k.dims[leading + 1] = width;
    int64_t sharing = 1; /* queries that see one key */
    for (int i = 0; i < leading; i++)
        if (tcc__gen_chance(r, 30)) sharing *= q.dims[i], k.dims[i] = v.dims[i] = 1;
    v.dims[leading + 1] = TCC_GEN_ONE_OF(r, widths);
    if (!tcc__gen_fits(r, &q) || !tcc__gen_fits(r, &k) || !tcc__gen_fits(r, &v) || !tcc__gen_fits(r, &scores)) return;
    tcc_attrs attrs = {.sdpa = {.scale = 1 / sqrt((double)width), .causal = causal}};
    tcc_attrs whole = attrs; /* of the softmax's denominators */
    static const double rates[] = {0.125, 0.25, 0.5};
    tcc_node *key = tcc__gen_chance(r, 40) ? tcc__gen_key(r) : NULL;
    if (key) attrs.sdpa.p = TCC_GEN_ONE_OF(r, rates), attrs.sdpa.id = r->draws++;
    const double grown = 1 / (1 - attrs.sdpa.p); /* what dropout keeps */
    tcc_gen_value vq = tcc__gen_into(r, tcc__gen_like(r, &q), -2, 2),
                  vk = tcc__gen_into(r, tcc__gen_like(r, &k), -2, 2);
    tcc_gen_value vv = tcc__gen_into(r, tcc__gen_like(r, &v), -4, 4), mask = {0};
    if (tcc__gen_chance(r, 35)) mask = tcc__gen_into(r, tcc__gen_like(r, &scores), -4, 4);

    /* Errors of the scores, which softmax passes on; 1e-6 for its exponentials. */
    const double dot = attrs.sdpa.scale * (double)width,
                 err = dot * 2 * (vq.err + vk.err) + mask.err + 1e-6 * (1 + dot * 4);
    const double most = tcc__gen_magnitude(vv) * grown, lse_most = dot * 4 + 4 + log((double)keys);
    tcc_node *operands[8] = {vq.n, vk.n, vv.n};
    int n = 3;
    if (mask.n) operands[n++] = mask.n;
    if (key) operands[n++] = key;
    tcc_gen_value o = tcc__gen_made(tcc__gen_build(r, TCC_OP_SDPA, operands, n, &attrs, NULL), key ? -most : vv.lo,
                                    key ? most : vv.hi, vv.err * grown + 2 * most * err, -1);
    const int kind = r->options->differentiable ? 0 : (int)tcc__gen_below(r, 8);
    const bool blind = causal && queries > keys; /* some query sees no key: the denominator's logarithm is -inf */
    if (kind < 4 || (kind == 4 && blind)) {
        tcc__gen_keep(r, o);
        return;
    }
    tcc_node *lse = tcc__gen_build(r, TCC_OP_SDPA_LSE, (tcc_node *[]){vq.n, vk.n, mask.n}, mask.n ? 3 : 2, &whole,
                                   NULL);
    if (kind == 4) {
        tcc__gen_keep(r, tcc__gen_made(lse, -lse_most, lse_most, err, -1));
        return;
    }
    if (!o.n) return;
    static const tcc_op grads[] = {TCC_OP_SDPA_GRAD_Q, TCC_OP_SDPA_GRAD_K, TCC_OP_SDPA_GRAD_V};
    tcc_gen_value dy = tcc__gen_into(r, tcc__gen_like(r, &o.n->type), -2, 2);
    operands[3] = o.n, operands[4] = lse, operands[5] = dy.n;
    n = 6;
    if (mask.n) operands[n++] = mask.n;
    if (key) operands[n++] = key;
    /* Up to `queries` rows add up, of all that share keys; each a product of a probability, a sum over v's width, and q
     * or k. */
    const double terms = (double)(queries * sharing) * (double)v.dims[leading + 1] * 2 * most * 2 * 2;
    const double errors = terms * (vq.err + vk.err + vv.err + dy.err + o.err + 2 * err);
    tcc__gen_keep(
        r, tcc__gen_made(tcc__gen_build(r, grads[kind - 5], operands, n, &attrs, NULL), -terms, terms, errors, -1));
}

/* -- Composites -- */

static void add_softmax(tcc_gen *r) {
    tcc_gen_value x = pick_float(r, 1, TCC_MAX_RANK);
    if (!x.n) return;
    x = tcc__gen_into(r, x, -8, 8);
    if (!x.n) return;
    tcc_attrs attrs = {.axis.axis = tcc__gen_chance(r, 75) ? x.n->type.rank - 1 : tcc__gen_below(r, x.n->type.rank)};
    const double width = x.hi - x.lo + log((double)x.n->type.dims[attrs.axis.axis]);
    if (tcc__gen_chance(r, 50))
        tcc__gen_keep(r, tcc__gen_made(tcc__gen_build(r, TCC_OP_SOFTMAX, &x.n, 1, &attrs, NULL), 0, 1, x.err, -1));
    else
        tcc__gen_keep(
            r, tcc__gen_made(tcc__gen_build(r, TCC_OP_LOG_SOFTMAX, &x.n, 1, &attrs, NULL), -width, 0, 2 * x.err, -1));
}

/* A statistic or a gradient of batch_norm; those of f16 and bf16 in f32. */
static void add_batch_norm_part(tcc_gen *r, tcc_gen_value x) {
    static const tcc_op ops[] = {TCC_OP_BATCH_NORM_MEAN,   TCC_OP_BATCH_NORM_VARIANCE,    TCC_OP_BATCH_NORM_SCALE,
                                 TCC_OP_BATCH_NORM_GRAD_X, TCC_OP_BATCH_NORM_GRAD_WEIGHT, TCC_OP_BATCH_NORM_GRAD_BIAS};
    enum { FIRST_GRAD = 3, DY = 0, X, MEAN, SCALE, WEIGHT, OPERANDS };
    const int kind = (int)tcc__gen_below(r, 6);
    x = tcc__gen_into(r, x, -4, 4);
    if (!x.n) return;
    const tcc_type *tx = &x.n->type;
    const tcc_attrs attrs = {.norm = {.eps = 0.125, .axis = tcc__gen_chance(r, 60) ? 1 : tx->rank - 1}};
    const double inverse = 1 / sqrt(attrs.norm.eps), width = x.hi - x.lo;
    tcc_type type = {tx->dtype == TCC_F64 ? TCC_F64 : TCC_F32, 1, {tx->dims[attrs.norm.axis]}};
    const double rows = (double)tcc_type_numel(tx) / (double)type.dims[0];
    if (kind < FIRST_GRAD) {
        const double lo[] = {x.lo, 0, 0}, hi[] = {x.hi, width * width, inverse}, spread = 4 * width * x.err;
        const double err[] = {x.err, spread, spread * inverse * inverse * inverse};
        tcc__gen_keep(
            r, tcc__gen_made(tcc__gen_build(r, ops[kind], &x.n, 1, &attrs, &type), lo[kind], hi[kind], err[kind], -1));
        return;
    }
    const int count = tcc__gen_chance(r, 75) ? OPERANDS : WEIGHT;
    tcc_gen_value in[OPERANDS] = {[DY] = tcc__gen_into(r, tcc__gen_like(r, tx), -2, 2), [X] = x};
    for (int i = MEAN; i < count; i++) in[i] = tcc__gen_into(r, tcc__gen_like(r, &type), i == SCALE ? 0 : -2, 2);
    tcc_node *operands[OPERANDS];
    for (int i = 0; i < count; i++) operands[i] = in[i].n;
    const double normal = 2 * (tcc__gen_magnitude(x) + 2),
                 err_normal = 2 * (x.err + in[MEAN].err) + normal * in[SCALE].err, dy = in[DY].err;
    const double most_x = 4 * (2 + 2 + 2 * normal * normal);
    const double most[] = {most_x, rows * 2 * normal, rows * 2};
    const double err[] = {4 * (2 * dy + 4 * normal * err_normal + normal * normal * dy) +
                              most_x * (in[SCALE].err + in[WEIGHT].err + 1e-6),
                          rows * (2 * err_normal + normal * dy + 2e-6 * normal), rows * (dy + 2e-6)};
    tcc_node *n = tcc__gen_build(r, ops[kind], operands, count, &attrs, NULL);
    tcc__gen_keep(r, tcc__gen_made(n, -most[kind - FIRST_GRAD], most[kind - FIRST_GRAD], err[kind - FIRST_GRAD], -1));
}

/* Scales of a norm: weight, bias and what follows. The last are the mean and a positive variance.
 */
static void add_norm(tcc_gen *r) {
    static const tcc_op ops[] = {TCC_OP_LAYER_NORM, TCC_OP_LAYER_NORM, TCC_OP_RMS_NORM,
                                 TCC_OP_GROUP_NORM, TCC_OP_BATCH_NORM, TCC_OP_BATCH_NORM_INFERENCE};
    enum { LEAST_RANK = 2, MOST_OPERANDS = 5 };
    const tcc_op op = TCC_GEN_ONE_OF(r, ops);
    tcc_gen_value x = pick_float(r, LEAST_RANK, 5);
    if (!x.n) return;
    if (op == TCC_OP_BATCH_NORM && !r->options->differentiable && tcc__gen_chance(r, 60)) {
        add_batch_norm_part(r, x);
        return;
    }
    const tcc_type *tx = &x.n->type;
    tcc_attrs attrs = {.norm.eps = 0.125};
    tcc_type scale = {.dtype = tx->dtype};
    double group = 1; /* elements that are normalized together */
    if (op == TCC_OP_LAYER_NORM || op == TCC_OP_RMS_NORM) {
        attrs.norm.axis = tcc__gen_chance(r, 75) ? tx->rank - 1 : tcc__gen_below(r, tx->rank);
        for (int i = (int)attrs.norm.axis; i < tx->rank; i++) group *= (double)(scale.dims[scale.rank++] = tx->dims[i]);
    } else {
        attrs.norm.axis = tcc__gen_chance(r, 60) ? 1 : tx->rank - 1;
        scale.dims[scale.rank++] = tx->dims[attrs.norm.axis];
        if (op == TCC_OP_GROUP_NORM) {
            attrs.norm.groups = 1 + tcc__gen_below(r, scale.dims[0]);
            while (scale.dims[0] % attrs.norm.groups) attrs.norm.groups--;
        }
        group = (double)tcc_type_numel(tx);
    }
    tcc_node *operands[MOST_OPERANDS] = {x.n};
    int count = 1;
    double weight_most = 1, bias_most = 0, err = 0;
    const int most = op == TCC_OP_BATCH_NORM_INFERENCE ? 5 : op == TCC_OP_RMS_NORM ? 2 : 3;
    const bool all = op == TCC_OP_BATCH_NORM_INFERENCE || tcc__gen_chance(r, 75);
    for (; count < most && (all || tcc__gen_chance(r, 50)); count++) {
        tcc_gen_value v = tcc__gen_like(r, &scale);
        if (count == 4) v = tcc__gen_into(r, v, 0.25, 4);
        if (count == 1) weight_most = tcc__gen_magnitude(v);
        if (count == 2) bias_most = tcc__gen_magnitude(v);
        if (count == 3) x.lo -= tcc__gen_magnitude(v), x.hi += tcc__gen_magnitude(v);
        err += v.err;
        operands[count] = v.n;
    }
    /* Normalized values are at most sqrt(n), and at most their distance from the mean by sqrt(eps).
     */
    const double inverse = 1 / sqrt(attrs.norm.eps), far = 2 * tcc__gen_magnitude(x) * inverse;
    const double normal = op != TCC_OP_BATCH_NORM_INFERENCE && sqrt(group) < far ? sqrt(group) : far;
    const double bound = normal * weight_most + bias_most;
    tcc_node *n = tcc__gen_build(r, op, operands, count, &attrs, NULL);
    tcc__gen_keep(r, tcc__gen_made(n, -bound, bound,
                                   weight_most * x.err * inverse * (2 + normal) + err * (1 + normal) * inverse, -1));
}

static void add_dropout(tcc_gen *r) {
    static const double rates[] = {0, 0.125, 0.25, 0.5};
    tcc_gen_value x = pick_float(r, ANY_RANK);
    if (!x.n) return;
    tcc_attrs attrs = {.dropout = {.p = TCC_GEN_ONE_OF(r, rates), .id = r->draws++}};
    const double most = tcc__gen_magnitude(x) / (1 - attrs.dropout.p);
    tcc_node *n = tcc__gen_build(r, TCC_OP_DROPOUT, (tcc_node *[]){x.n, tcc__gen_key(r)}, 2, &attrs, NULL);
    tcc__gen_keep(r, tcc__gen_made(n, -most, most, x.err / (1 - attrs.dropout.p), -1));
}

static void add_cross_entropy(tcc_gen *r) {
    static const int8_t ignored[] = {-100, -1, 0};
    static const double smoothing[] = {0, 0, 0.125};
    tcc_gen_value x = pick_float(r, 1, 4);
    if (!x.n) return;
    x = tcc__gen_into(r, x, -8, 8);
    if (!x.n) return;
    const tcc_type *tx = &x.n->type;
    const int64_t classes = tx->dims[tx->rank - 1];
    char name[16];
    snprintf(name, sizeof name, "t%d", r->g->inputs.count);
    tcc_type targets = {.dtype = TCC_I32, .rank = tx->rank - 1};
    for (int i = 0; i < targets.rank; i++) targets.dims[i] = tx->dims[i];
    tcc_attrs attrs = {
        .cross_entropy = {.ignore_index = TCC_GEN_ONE_OF(r, ignored), .label_smoothing = TCC_GEN_ONE_OF(r, smoothing)}};
    if (classes == 1) attrs.cross_entropy.ignore_index = -1; /* else no target would count */
    tcc_node *operands[3] = {x.n, tcc_ir_input(r->g, name, TCC_ROLE_BATCH, &targets, TCC_NOWHERE)};
    int count = 2;
    if (tcc__gen_chance(r, 40)) {
        tcc_gen_value w = tcc__gen_into(r, tcc__gen_like(r, &(tcc_type){tx->dtype, 1, {classes}}), 0.5, 2);
        operands[count++] = w.n;
        x.err += 4 * w.err;
    }
    const double most = x.hi - x.lo + log((double)classes);
    tcc__gen_keep(r, tcc__gen_made(tcc__gen_build(r, TCC_OP_CROSS_ENTROPY, operands, count, &attrs, NULL), 0, most,
                                   4 * x.err, -1));
}

void tcc__gen_composite(tcc_gen *r) {
    const int64_t at = tcc__gen_below(r, 100);
    if (at < 35) add_softmax(r);
    else if (at < 75) add_norm(r);
    else if (at < 85) add_dropout(r);
    else add_cross_entropy(r);
}
