/* SPDX-License-Identifier: MIT
 * How much rounding disturbs the result of each op. */
#include "ir/noise_rules.h"
#include "ir/chain.h"
#include "ir/eval_rules.h"
#include "ir/noise_loops.h"
#include "ir/support/alloc.h"

#include <math.h>
#include <string.h>

static const tcc_noise_origin origins[TCC_OP_COUNT] = {
#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, noise, emit, doc) \
    [TCC_OP_##id] = TCC_NOISE_##noise,
#include "ir/ops.def"
#undef TCC_OP
};

tcc_noise_origin tcc__noise_origin(const tcc_noise *noise, const tcc_node *n) {
    if (!tcc_dtype_is_float(n->type.dtype)) return TCC_NOISE_NONE;
    const tcc_noise_origin origin = origins[n->op];
    if (origin == TCC_NOISE_CAST) return noise->constants ? TCC_NOISE_CONSTANT : TCC_NOISE_POINT;
    return origin == TCC_NOISE_CONSTANT && !noise->constants ? TCC_NOISE_NONE : origin;
}

/* Half of the distance between 1 and the next number. */
static double unit(tcc_dtype t) { return ldexp(1, -tcc_dtype_digits(t)); }

/* What rounding may move the least numbers of a type by: half of the distance between two of f16; all of them in types
 * whose least numbers a machine may take for 0. */
static double least(tcc_dtype t) { return t == TCC_F64 ? 0 : t == TCC_F16 ? 0x1p-25 : 0x1p-126; }

/* Of what a draw computes in. */
static double unit_of(const tcc_noise_draw *d, tcc_dtype t) { return unit(d->noise->constants ? TCC_F64 : t); }

/* Parts of sums are f32 at least. */
static double unit_of_parts(const tcc_noise_draw *d, tcc_dtype t) { return fmin(unit_of(d, t), 0x1p-24); }

/* Whether equal values err alike in this draw. */
static bool errs_alike(const tcc_noise_draw *d) { return (d->noise->first + d->draw) / 2 % 2 == 0; }

/* Of elements that `alike` says of which are equal, and `too` if there is one; the other way round in the other draw of
 * a pair. */
static tcc_pushes pushes_of(const tcc_noise_draw *d, const double *alike, const double *too) {
    const uint64_t number = (uint64_t)(d->noise->first + d->draw);
    const bool equal = errs_alike(d);
    return (tcc_pushes){.seed = d->seed + (number / 2 << 48),
                        .reversed = number % 2 != 0,
                        .alike = equal ? alike : NULL,
                        .too = equal ? too : NULL};
}

/* Of element e of the result. */
static double push_at(const tcc_noise_draw *d, int64_t e) {
    const tcc_pushes p = pushes_of(d, d->exact->f, NULL);
    return tcc__noise_push(&p, e);
}

/* What operand k of a draw is multiplied by is up to `unit` off 1. */
static void push_operand(const tcc_noise_draw *d, int k, double unit, const double *in, double *out, int64_t count) {
    tcc_pushes p = pushes_of(d, d->exact_in[k]->f, NULL);
    p.seed += (uint64_t)k << 40;
    tcc__noise_loops_best()->factors(&p, unit, in, out, count);
}

/* Of results that are rounded once to their type. */
static tcc_noise_points points_of(const tcc_noise_draw *d, tcc_dtype t, double units, bool all) {
    const bool constants = d->noise->constants;
    return (tcc_noise_points){.held = constants ? TCC_F64 : t,
                              .all = all,
                              .units = d->noise->factor * units,
                              .unit = unit_of(d, t),
                              .smallest = constants ? 0 : least(t)};
}

/* -- Sums -- */

/* What a sum compares rather than adds stays as it is. */
static bool is_term(const tcc_node *n, int operand) { return tcc_dtype_is_float(n->operands[operand]->type.dtype); }

/* Whether all terms are whole numbers: then f32 holds a sum and its parts exactly, up to some size. */
static bool is_whole(const tcc_node *n, const tcc_value *const *in) {
    if (n->op == TCC_OP_REDUCE_MEAN || n->op == TCC_OP_AVG_POOL) return false;
    for (int k = 0; k < n->n_operands; k++)
        for (int64_t e = 0, all = is_term(n, k) ? tcc_type_numel(&in[k]->type) : 0; e < all; e++)
            if (in[k]->f[e] != floor(in[k]->f[e])) return false;
    return true;
}

/* Of attention: terms of the longest of its sums. What its operands are disturbed by spreads over the terms of a sum
 * like their root, the error of adding them up like their number. */
static double terms_of(const tcc_node *n) {
    const tcc_type *q = &n->operands[0]->type, *k = &n->operands[1]->type;
    const int64_t queries = q->dims[q->rank - 2], keys = k->dims[k->rank - 2], width = q->dims[q->rank - 1];
    return (double)(queries > keys ? (queries > width ? queries : width) : keys > width ? keys : width);
}

/* Kernels of f16 and bf16 round p and ds to that type before they are multiplied (Dao et al.), so that where a sum
 * cancels its error is far above a rounding of the result: measured at 9 times what rounding operands and results to
 * f32 and bf16 gives, where keys are alike but for a tenth. */
static double factor_error(const void *user, double factor, int64_t element) {
    const tcc_noise_draw *d = user;
    const tcc_dtype type = d->exact->type.dtype;
    const double rounded = (double)(float)factor;
    tcc_pushes p = pushes_of(d, &rounded, NULL);
    p.seed += UINT64_C(1) << 63;
    return d->noise->factor * unit_of(d, type) * tcc__noise_push(&p, p.alike ? 0 : element);
}

static bool rounds_factors(const tcc_node *n) {
    const tcc_dtype type = n->operands[0]->type.dtype;
    return tcc_dtype_is_narrow(type) && n->op != TCC_OP_SDPA_LSE &&
           tcc__noise_origin(&(tcc_noise){0}, n) == TCC_NOISE_OPERANDS;
}

static tcc_status eval_rounded(tcc_value_pool *pool, const tcc_node *n, const tcc_value *const *operands,
                               const tcc_noise_draw *d, tcc_value *out, tcc_diag *diag) {
    const bool cubic = n->op == TCC_OP_RESIZE_BICUBIC || n->op == TCC_OP_RESIZE_BICUBIC_GRAD;
    if (d ? !rounds_factors(n) : !cubic) return tcc_node_eval_in(pool, n, operands, out, diag);
    const tcc_attention_error error = {factor_error, d};
    TCC_TRY(tcc_value_create_in(pool, &n->type, out, diag));
    tcc_status status = d ? tcc__eval_attention(n, operands, &error, out, diag)
                          : tcc__eval_cubic_magnitudes(n, operands[0], out, diag);
    if (status != TCC_OK) tcc_value_free(out);
    return status;
}

/* The node on changed copies of its terms: magnitudes where `d` is NULL, else values rounded at random. */
static tcc_status eval_changed(tcc_value_pool *pool, const tcc_node *n, const tcc_value *const *in,
                               const tcc_noise_draw *d, tcc_value *out, tcc_diag *diag) {
    const size_t count = (size_t)n->n_operands;
    tcc_value *copies = tcc__calloc(count, sizeof *copies);
    const tcc_value **operands = tcc__calloc(count, sizeof(tcc_value *));
    tcc_status status = copies && operands ? TCC_OK : tcc_enomem(diag);
    for (int k = 0; k < n->n_operands && status == TCC_OK; k++) {
        operands[k] = in[k];
        if (!is_term(n, k)) continue;
        status = tcc_value_create_in(pool, &in[k]->type, &copies[k], diag);
        if (status != TCC_OK) break;
        operands[k] = &copies[k];
        double u = d ? d->noise->factor * unit_of_parts(d, in[k]->type.dtype) * sqrt(terms_of(n)) : 0;
        if (d && d->noise->tf32 && in[k]->type.dtype == TCC_F32) u = fmax(u, 0x1p-11);
        const int64_t all = tcc_type_numel(&in[k]->type);
        if (d) push_operand(d, k, u, in[k]->f, copies[k].f, all);
        for (int64_t e = 0; !d && e < all; e++) copies[k].f[e] = fabs(in[k]->f[e]);
    }
    if (status == TCC_OK) status = eval_rounded(pool, n, operands, d, out, diag);
    for (size_t k = 0; copies && k < count; k++) tcc_value_free(&copies[k]);
    tcc__free(copies);
    tcc__free(operands);
    return status;
}

tcc_status tcc__noise_magnitudes(const tcc_noise *noise, const tcc_node *n, const tcc_value *const *in, tcc_value *out,
                                 tcc_diag *diag) {
    return eval_changed(noise->pool, n, in, NULL, out, diag);
}

/* Terms of an element of a sum; 0: a mean, a window or a running sum, which are cut into many short sums. */
static double terms_of_sum(const tcc_node *n, const tcc_value *const *in) {
    const tcc_type *b = n->n_operands > 1 ? &in[1]->type : NULL;
    double terms = 1;
    switch (n->op) {
    case TCC_OP_DOT:
        for (int i = 0; i < n->attrs->dot.contract_a.count; i++)
            terms *= (double)in[0]->type.dims[n->attrs->dot.contract_a.v[i]];
        return terms;
    case TCC_OP_CONV: return (double)tcc_type_numel(b) / (double)b->dims[0];
    case TCC_OP_CONV_GRAD_INPUT: return (double)tcc_type_numel(b) / (double)b->dims[1];
    case TCC_OP_CONV_GRAD_WEIGHT: return (double)tcc_type_numel(b) / (double)n->type.dims[0];
    case TCC_OP_SCATTER_ADD: return (double)tcc_type_numel(b);
    case TCC_OP_SCATTER_ADD_ALONG: return (double)b->dims[n->attrs->axis.axis];
    case TCC_OP_REDUCE_SUM: return (double)tcc_type_numel(&in[0]->type) / (double)tcc_type_numel(&n->type);
    case TCC_OP_LINEAR_SCAN: return (double)n->type.dims[n->attrs->scan.axis];
    default: return 0;
    }
}

/* How many additions follow one another. */
static double chain_of_sum(const tcc_noise *noise, const tcc_node *n, double terms) {
    if (n->op == TCC_OP_SCATTER_ADD || n->op == TCC_OP_SCATTER_ADD_ALONG) return terms;
    if (n->op == TCC_OP_REDUCE_SUM) return tcc_chain_of(terms, TCC_CHAIN_TERMS);
    /* each factor rounds what comes of all before; in f64, so that of narrower types nothing is seen of it */
    if (n->op == TCC_OP_LINEAR_SCAN) return n->type.dtype == TCC_F64 ? terms : 0;
    return noise->one_chain ? terms : tcc_chain_of(terms, TCC_CHAIN_PRODUCTS);
}

/* Units of a sum's rounding error. Where the terms are alike, all additions err the same way: n of them by n / 5 units,
 * about; others mostly cancel. */
static double units_of_sum(const tcc_noise *noise, const tcc_node *n, const tcc_value *const *in) {
    return 2 + chain_of_sum(noise, n, terms_of_sum(n, in)) / 32;
}

static void disturb_sum(const tcc_node *n, const tcc_noise_draw *d, tcc_value *out, bool *changed) {
    const tcc_dtype type = n->type.dtype;
    const double u = unit_of_parts(d, type);
    tcc_noise_sums sums = {.terms = d->terms->f,
                           .units = units_of_sum(d->noise, n, d->in) * d->noise->factor * u,
                           .whole = !d->inexact_operands && is_whole(n, d->in),
                           .rounds = unit_of(d, type) > u,
                           .own = points_of(d, type, 1, false)};
    if (d->noise->tf32 && tcc_op_get_info(n->op)->fusion == TCC_FUSION_CONTRACT && type == TCC_F32)
        sums.units = fmax(sums.units, 0x1p-10);
    const tcc_pushes p = pushes_of(d, d->exact->f, d->terms->f);
    *changed |= tcc__noise_loops_best()->sums(&p, &sums, out->f, tcc_type_numel(&n->type));
}

/* Both squares and the mean that they are taken from are rounded. */
static void disturb_squares(const tcc_node *n, const tcc_noise_draw *d, tcc_value *out, bool *changed) {
    const tcc_value *in = d->in[0];
    const double u = d->noise->factor * unit_of_parts(d, n->type.dtype);
    const int64_t count = tcc_type_numel(&n->type), terms = tcc_type_numel(&in->type) / count;
    double most = 0;
    for (int64_t e = 0, all = tcc_type_numel(&in->type); e < all; e++) most = fmax(most, fabs(in->f[e]));
    for (int64_t e = 0; e < count; e++) {
        const double p = push_at(d, e);
        out->f[e] += p * 4 * u * out->f[e] + fabs(p) * (double)terms * pow(2 * u * most, 2);
    }
    *changed = true;
}

/* -- Single results -- */

static void disturb_points(const tcc_node *n, const tcc_noise_draw *d, double units, tcc_value *out, bool *changed) {
    /* A cast rounds what is a little off to one side or the other. */
    const tcc_noise_points points = points_of(d, n->type.dtype, units, n->op == TCC_OP_CAST && d->inexact_operands);
    const tcc_pushes p = pushes_of(d, d->exact->f, NULL);
    *changed |= tcc__noise_loops_best()->points(&p, &points, out->f, tcc_type_numel(&n->type));
}

static bool is_broken(double x) { return isfinite(x) && x != floor(x); }

/* Whole numbers are meant as they are. A cast is disturbed where it rounds: it may be dropped where its operand is of
 * the same type, of which the interpreter holds more digits. */
static void disturb_constant(const tcc_node *n, const tcc_noise_draw *d, tcc_value *out, bool *changed) {
    const tcc_value *from = n->op == TCC_OP_CAST && tcc_dtype_is_float(d->in[0]->type.dtype) ? d->in[0] : NULL;
    for (int64_t e = 0, count = tcc_type_numel(&n->type); e < count; e++) {
        if (from ? from->f[e] == out->f[e] : n->op == TCC_OP_CAST || !is_broken(out->f[e])) continue;
        out->f[e] += push_at(d, e) * unit(n->type.dtype) * out->f[e];
        *changed = true;
    }
}

/* One draw of eight is not disturbed: there each result is rounded to its type once, as by a machine that adds up
 * exactly. For errors may also be nothing, which the least disturbance of a value that is nothing but noise hides. */
static bool only_rounds(const tcc_noise_draw *d) {
    return (d->noise->first + d->draw) % 8 == 7 && !d->noise->constants;
}

static tcc_status disturb(const tcc_node *n, const tcc_noise_draw *d, tcc_value *out, bool *changed, tcc_diag *diag) {
    const tcc_noise_origin origin = tcc__noise_origin(d->noise, n);
    if (origin == TCC_NOISE_CONSTANT) disturb_constant(n, d, out, changed);
    if (origin == TCC_NOISE_SUM) disturb_sum(n, d, out, changed);
    if (origin == TCC_NOISE_SQUARES) disturb_squares(n, d, out, changed);
    if (origin == TCC_NOISE_OPERANDS) {
        tcc_value_free(out);
        TCC_TRY(eval_changed(d->noise->pool, n, d->in, d, out, diag));
        *changed = true;
    }
    if (origin == TCC_NOISE_POINT || origin == TCC_NOISE_OPERANDS) disturb_points(n, d, 1, out, changed);
    if (origin == TCC_NOISE_FUNCTION) disturb_points(n, d, 4, out, changed);
    return TCC_OK;
}

static bool is_finite(const tcc_value *v) {
    for (int64_t e = 0, count = tcc_type_numel(&v->type); e < count; e++)
        if (!isfinite(v->f[e])) return false;
    return true;
}

static bool is_conv(const tcc_node *n) { return n->op == TCC_OP_CONV || n->op == TCC_OP_CONV_GRAD_WEIGHT; }

/* Whether zeros that the op itself brings may meet what is not finite. */
static bool may_multiply_by_zero(const tcc_node *n, const tcc_value *const *in) {
    enum { LSE = 4 }; /* among a gradient's operands: -inf where a query sees no key */
    const tcc_op_info *info = tcc_op_get_info(n->op);
    const bool hides = info->fusion == TCC_FUSION_ATTENTION && n->op != TCC_OP_SDPA_LSE && n->attrs->sdpa.causal;
    if (!is_conv(n) && !hides) return false;
    for (int k = 0; k < info->least; k++)
        if (!(hides && k == LSE) && !is_finite(in[k])) return true;
    return false;
}

/* Zeros of the padding, and those of keys that a query does not see, may be multiplied by what overflowed, or left out.
 */
static tcc_status disturb_zeros(const tcc_node *n, const tcc_noise_draw *d, tcc_value *out, bool *changed,
                                tcc_diag *diag) {
    tcc_value by_zero;
    if (!may_multiply_by_zero(n, d->in)) return TCC_OK;
    TCC_TRY(tcc_value_create_in(d->noise->pool, &n->type, &by_zero, diag));
    const tcc_status status = is_conv(n) ? tcc__eval_padded(n, d->in, &by_zero, diag)
                                         : tcc__eval_unseen(n, d->in, &by_zero, diag);
    for (int64_t e = 0, count = tcc_type_numel(&n->type); e < count && status == TCC_OK; e++)
        if (isnan(by_zero.f[e]) && !isnan(out->f[e])) out->f[e] = NAN, *changed = true;
    tcc_value_free(&by_zero);
    return status;
}

static void overflow(const tcc_noise_draw *d, double exact, double *x) {
    const double other = 2 * exact - *x, most = fabs(other) > fabs(*x) ? other : *x;
    if (isfinite(most) && isinf(tcc_dtype_round(d->exact->type.dtype, most))) *x = copysign(INFINITY, most);
}

/* At the border of a type the sign of a disturbance says nothing: what may overflow on either side of the exact value
 * does so, also where the draw fell to the inside. */
static void overflow_at_border(const tcc_noise_draw *d, tcc_value *out) {
    const double near = out->type.dtype == TCC_F16 ? 0x1p14 : out->type.dtype == TCC_F64 ? 0x1p1022 : 0x1p126;
    const int64_t count = tcc_type_numel(&out->type);
    if (!tcc__noise_loops_best()->any_beyond(near / 2, d->exact->f, out->f, count)) return;
    for (int64_t e = 0; e < count; e++) {
        const double x = out->f[e], exact = d->exact->f[e];
        if (x != exact && !(fabs(x) < near && fabs(exact) < near)) overflow(d, exact, &out->f[e]);
    }
}

tcc_status tcc__noise_disturb(const tcc_node *n, const tcc_noise_draw *d, tcc_value *out, bool *changed,
                              tcc_diag *diag) {
    const bool is_float = tcc_dtype_is_float(n->type.dtype), rounds = only_rounds(d);
    if (!rounds) TCC_TRY(disturb(n, d, out, changed, diag));
    /* What overflows in its type shows in one draw of a pair; inside a kernel it may be held in a wider one. */
    const bool overflows = (d->noise->first + d->draw) % 2 == 0 && !d->noise->constants;
    if (is_float && overflows && !rounds) overflow_at_border(d, out);
    if (is_float && (rounds || (overflows && (*changed || d->inexact_operands)))) *changed |= tcc_value_round(out);
    return overflows ? disturb_zeros(n, d, out, changed, diag) : TCC_OK;
}
