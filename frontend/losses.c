/* SPDX-License-Identifier: MIT
 * Losses: the small expressions of tensor.h that they are defined by, in forms that neither overflow nor cancel. */
#include "tensor_ops.h"

#include "traincc/losses.h"

#include <math.h>
#include <stdint.h>

/* What is built here stands at the line of the loss's caller. */
#undef TCC_HERE
#define TCC_HERE at

/* -- What all of them share -- */

static bool check_reduction(tcc_trace *t, const char *loss, tcc_loss_reduction reduction, tcc_loc at) {
    if (reduction >= TCC_REDUCE_MEAN && reduction <= TCC_REDUCE_BATCH_MEAN) return true;
    tcc_trace_error(t, TCC_EINVAL, at, "%s: there is no reduction %d: TCC_REDUCE_MEAN, _SUM, _NONE or _BATCH_MEAN",
                    loss, (int)reduction);
    return false;
}

static bool check_float(const char *loss, tcc_tensor x, tcc_loc at) {
    if (tcc_dtype_is_float(x.node->type.dtype)) return true;
    tcc_trace_error(x.trace, TCC_EDTYPE, at, "%s: x is %s; convert it first: tcc_cast(x, TCC_F32)", loss,
                    tcc_type_text(&x.node->type));
    return false;
}

/* A loss in the making. */
typedef struct loss {
    const char *name;
    tcc_trace *trace;
    tcc_dtype dtype; /* of the result */
    tcc_loss_options options;
} loss;

/* Which losses have an option. */
enum {
    WEIGHT = 1,
    POS_WEIGHT = 2,
    BETA = 4,
    DELTA = 8,
    MARGIN = 16,
    NORM = 32,
    EPS = 64,
    SWAP = 128,
    LOG_TARGET = 256
};

/* An option that would be ignored is an error. */
static bool check_options(const loss *l, int has, tcc_loc at) {
    const tcc_loss_options *o = &l->options;
    const struct {
        int bit;
        const char *name;
        bool given;
    } all[] = {{WEIGHT, "weight", o->weight},
               {POS_WEIGHT, "pos_weight", o->pos_weight},
               {BETA, "beta", o->beta != 0},
               {DELTA, "delta", o->delta != 0},
               {MARGIN, "margin", o->margin != 0 || o->has_margin},
               {NORM, "p", o->p != 0},
               {EPS, "eps", o->eps != 0},
               {SWAP, "swap", o->swap},
               {LOG_TARGET, "log_target", o->log_target}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given && !(has & all[i].bit)) {
            tcc_trace_error(l->trace, TCC_EINVAL, at, "%s has no option %s", l->name, all[i].name);
            return false;
        }
    const struct {
        const char *name;
        double value;
    } positive[] = {{"beta", o->beta}, {"delta", o->delta}, {"eps", o->eps}};
    for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
        if (!(positive[i].value >= 0 && isfinite(positive[i].value))) {
            tcc_trace_error(l->trace, TCC_EINVAL, at, "%s: %s must be finite and above 0, not %g", l->name,
                            positive[i].name, positive[i].value);
            return false;
        }
    if (!isfinite(o->margin)) {
        tcc_trace_error(l->trace, TCC_EINVAL, at, "%s: margin must be finite, not %g", l->name, o->margin);
        return false;
    }
    return check_reduction(l->trace, l->name, o->reduction, at);
}

/* Between begin and end all is computed in f32 at least: squares of f16 overflow, and differences of bf16 drown in
 * their rounding. `xs` are widened; `has` are the options of this loss. */
static bool begin(loss *l, const char *name, int has, const tcc_loss_options *given, int count, tcc_tensor *const *xs,
                  tcc_loc at) {
    TCC_OPTIONS(tcc_loss_options, options, given);
    if (given && !tcc_trace_takes_size(name, given->size, sizeof options, at)) return false;
    *l = (loss){name, xs[0]->trace, xs[0]->node->type.dtype, options};
    if (!check_options(l, has, at) || !check_float(name, *xs[0], at)) return false;
    tcc_full_precision(l->trace);
    for (int i = 0; i < count; i++)
        xs[i]->node = tcc_ir_widen(tcc__tensor_begin(l->trace, at), xs[i]->node); /* NULL poisons what follows */
    return true;
}

static tcc_tensor reduced(tcc_tensor x, tcc_loss_reduction reduction, const char *name, tcc_loc at) {
    if (reduction == TCC_REDUCE_MEAN) return tcc_mean(x, TCC_ALL);
    if (reduction == TCC_REDUCE_NONE) return x;
    if (reduction == TCC_REDUCE_SUM) return tcc_sum(x, TCC_ALL);
    if (x.node && !tcc_rank(x))
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "%s: TCC_REDUCE_BATCH_MEAN needs a batch dim; the loss is %s",
                               name, tcc_type_text(&x.node->type));
    return tcc_scale(tcc_sum(x, TCC_ALL), 1 / (double)tcc_dim(x, 0));
}

static tcc_tensor end(const loss *l, tcc_tensor elements, tcc_loc at) {
    tcc_tensor y = tcc_cast(reduced(elements, l->options.reduction, l->name, at), l->dtype);
    tcc_full_precision_end(l->trace);
    return y;
}

/* Whether x and another operand are alike: [N, 1] against [N] would broadcast to N x N and train to the mean. */
static bool check_alike(const char *loss, tcc_tensor x, const char *what, tcc_tensor other, tcc_loc at) {
    if (!tcc_trace_takes(loss, at, 2, (tcc_tensor[]){x, other}) || !check_float(loss, x, at)) return false;
    const tcc_type *a = &x.node->type, *b = &other.node->type;
    if (a->dtype != b->dtype) {
        tcc_trace_error(x.trace, TCC_EDTYPE, at, "%s: element types differ: x is %s, %s %s; tcc_cast converts", loss,
                        tcc_type_text(a), what, tcc_type_text(b));
    } else if (!tcc_type_equal(a, b)) {
        tcc_trace_error(x.trace, TCC_ESHAPE, at,
                        "%s: x is %s, %s %s; they must have one shape (nothing broadcasts in a loss): tcc_reshape "
                        "or tcc_broadcast one of them",
                        loss, tcc_type_text(a), what, tcc_type_text(b));
    } else {
        return true;
    }
    tcc_note(x.trace->graph->diag, x.node->loc, "x made here");
    tcc_note(x.trace->graph->diag, other.node->loc, "%s made here", what);
    return false;
}

static bool begin_pair(loss *l, const char *name, int has, const tcc_loss_options *given, tcc_tensor *x,
                       tcc_tensor *target, tcc_loc at) {
    return check_alike(name, *x, "the target", *target, at) &&
           begin(l, name, has, given, 2, (tcc_tensor *const[]){x, target}, at);
}

/* A factor of x's elements, widened like x; it may broadcast to x but not x to it. */
static bool take_factor(const loss *l, const char *what, const tcc_tensor *given, tcc_tensor x, tcc_tensor *out,
                        tcc_loc at) {
    if (!tcc_trace_takes(l->name, at, 1, given)) return false;
    const tcc_type *is = &given->node->type, *of = &x.node->type;
    bool fits = is->dtype == l->dtype && is->rank <= of->rank;
    for (int d = 0; fits && d < is->rank; d++)
        fits = is->dims[d] == 1 || is->dims[d] == of->dims[d + of->rank - is->rank];
    if (!fits) {
        tcc_type want = *of;
        want.dtype = l->dtype;
        tcc_trace_error(l->trace, TCC_ESHAPE, at, "%s: %s, %s, does not broadcast to x, %s, or is of another type",
                        l->name, what, tcc_type_text(is), tcc_type_text(&want));
        return false;
    }
    *out = *given;
    out->node = tcc_ir_widen(tcc__tensor_begin(l->trace, at), out->node);
    return true;
}

static tcc_tensor failed(const loss *l) { /* behind begin */
    tcc_full_precision_end(l->trace);
    return tcc_trace_poison();
}

/* -- Regression -- */

tcc_tensor tcc_mse_loss_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *given, tcc_loc at) {
    loss l;
    if (!begin_pair(&l, "mse_loss", 0, given, &x, &target, at)) return tcc_trace_poison();
    tcc_tensor d = tcc_sub(x, target);
    return end(&l, tcc_mul(d, d), at);
}

tcc_tensor tcc_l1_loss_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *given, tcc_loc at) {
    loss l;
    if (!begin_pair(&l, "l1_loss", 0, given, &x, &target, at)) return tcc_trace_poison();
    return end(&l, tcc_abs(tcc_sub(x, target)), at);
}

/* With m = min(|d|, delta): m (|d| - m / 2). Nothing overflows far out, and the slope at |d| = delta is delta, whatever
 * share of it min gives to either side. */
static tcc_tensor huber(tcc_tensor x, tcc_tensor target, double delta, tcc_loc at) {
    tcc_tensor d = tcc_abs(tcc_sub(x, target)), m = tcc_min(d, tcc__tensor_like(d, delta, at));
    return tcc_mul(m, tcc_sub(d, tcc_scale(m, 0.5)));
}

tcc_tensor tcc_huber_loss_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *given, tcc_loc at) {
    loss l;
    if (!begin_pair(&l, "huber_loss", DELTA, given, &x, &target, at)) return tcc_trace_poison();
    return end(&l, huber(x, target, l.options.delta > 0 ? l.options.delta : 1, at), at);
}

tcc_tensor tcc_smooth_l1_loss_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *given, tcc_loc at) {
    loss l;
    if (!begin_pair(&l, "smooth_l1_loss", BETA, given, &x, &target, at)) return tcc_trace_poison();
    const double beta = l.options.beta > 0 ? l.options.beta : 1;
    return end(&l, tcc_scale(huber(x, target, beta, at), 1 / beta), at);
}

/* -- Probabilities -- */

/* log(1 - z) where that is -100 at least. Below, and where it is infinite, a line of slope 1e12 through -100; the
 * logarithm that is not taken sees 0, so its infinite slope stays out of the gradient. */
static tcc_tensor bounded_log1m(tcc_tensor z, tcc_tensor low, tcc_tensor left, tcc_loc at) {
    tcc_tensor log = tcc_log1p(tcc_neg(tcc_select(low, tcc__tensor_like(z, 0, at), z)));
    return tcc_select(low, tcc_add_scalar(tcc_scale(left, 1e12), -100), log);
}

static tcc_tensor bounded_log(tcc_tensor x, tcc_tensor low, tcc_loc at) {
    tcc_tensor log = tcc_log(tcc_select(low, tcc__tensor_like(x, 1, at), x));
    return tcc_select(low, tcc_add_scalar(tcc_scale(x, 1e12), -100), log);
}

tcc_tensor tcc_bce_loss_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *given, tcc_loc at) {
    loss l;
    tcc_tensor weight;
    if (!begin_pair(&l, "bce_loss", WEIGHT, given, &x, &target, at)) return tcc_trace_poison();
    if (l.options.weight && !take_factor(&l, "weight", l.options.weight, x, &weight, at)) return failed(&l);
    const double least = 3.7200759760208361e-44; /* e^-100 */
    tcc_tensor rest = tcc_add_scalar(tcc_neg(x), 1), zero = tcc__tensor_like(x, 0, at),
               bound = tcc__tensor_like(x, least, at);
    tcc_tensor at_zero = tcc_and(tcc_ge(x, zero), tcc_lt(x, bound)),
               at_one = tcc_and(tcc_ge(rest, zero), tcc_lt(rest, bound));
    tcc_tensor ones = tcc_mul(target, bounded_log(x, at_zero, at)),
               zeros = tcc_mul(tcc_add_scalar(tcc_neg(target), 1), bounded_log1m(x, at_one, rest, at));
    tcc_tensor y = tcc_neg(tcc_add(ones, zeros));
    return end(&l, l.options.weight ? tcc_mul(y, weight) : y, at);
}

tcc_tensor tcc_bce_with_logits_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *given, tcc_loc at) {
    loss l;
    tcc_tensor weight, positive;
    if (!begin_pair(&l, "bce_with_logits", WEIGHT | POS_WEIGHT, given, &x, &target, at)) return tcc_trace_poison();
    if ((l.options.weight && !take_factor(&l, "weight", l.options.weight, x, &weight, at)) ||
        (l.options.pos_weight && !take_factor(&l, "pos_weight", l.options.pos_weight, x, &positive, at)))
        return failed(&l);
    /* -w t log s(x) - (1 - t) log(1 - s(x)) = (1 - t) x + (1 + (w - 1) t) softplus(-x) */
    tcc_tensor y = tcc_softplus(tcc_neg(x));
    if (l.options.pos_weight) y = tcc_mul(y, tcc_add_scalar(tcc_mul(tcc_add_scalar(positive, -1), target), 1));
    y = tcc_add(tcc_mul(tcc_add_scalar(tcc_neg(target), 1), x), y);
    return end(&l, l.options.weight ? tcc_mul(y, weight) : y, at);
}

tcc_tensor tcc_kl_div_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *given, tcc_loc at) {
    loss l;
    if (!begin_pair(&l, "kl_div", LOG_TARGET, given, &x, &target, at)) return tcc_trace_poison();
    if (l.options.log_target) return end(&l, tcc_mul(tcc_exp(target), tcc_sub(target, x)), at);
    tcc_tensor none = tcc_eq(target, tcc__tensor_like(target, 0, at));
    tcc_tensor log = tcc_log(tcc_select(none, tcc__tensor_like(target, 1, at), target));
    return end(&l, tcc_mul(target, tcc_sub(log, x)), at);
}

/* -- Embeddings -- */

/* Signs of rows of shape `rows`, as numbers of type `dtype`; false after an error. */
static bool take_signs(const char *loss, const tcc_type *rows, tcc_tensor *signs, tcc_loc at) {
    const tcc_type *is = &signs->node->type;
    tcc_type want = *rows, have = *is;
    want.dtype = have.dtype = TCC_F32;
    const bool integer = is->dtype == TCC_I32 || is->dtype == TCC_I64;
    if ((!integer && is->dtype != rows->dtype) || !tcc_type_equal(&want, &have)) {
        tcc_trace_error(signs->trace, integer || is->dtype == rows->dtype ? TCC_ESHAPE : TCC_EDTYPE, at,
                        "%s: signs are %s; a row has one, so they must be %s, or integers", loss, tcc_type_text(is),
                        tcc_type_text(rows));
        return false;
    }
    *signs = tcc_cast(*signs, rows->dtype);
    return signs->node;
}

/* `ones` where signs are 1, `others` where they are -1; where they are neither, as PyTorch has it, `neither`. */
static tcc_tensor by_sign(tcc_tensor signs, tcc_tensor ones, tcc_tensor others, tcc_tensor neither, tcc_loc at) {
    tcc_tensor one = tcc__tensor_like(signs, 1, at), minus = tcc__tensor_like(signs, -1, at);
    return tcc_select(tcc_eq(signs, one), ones, tcc_select(tcc_eq(signs, minus), others, neither));
}

tcc_tensor tcc_cosine_embedding_loss_at(tcc_tensor a, tcc_tensor b, tcc_tensor signs, const tcc_loss_options *given,
                                        tcc_loc at) {
    static const char name[] = "cosine_embedding_loss";
    loss l;
    if (!tcc_trace_takes(name, at, 3, (tcc_tensor[]){a, b, signs}) || !check_alike(name, a, "b", b, at))
        return tcc_trace_poison();
    tcc_type rows = a.node->type;
    if (!rows.rank)
        return tcc_trace_error(a.trace, TCC_ESHAPE, at, "%s: a is %s; it must have rows, [.., D]", name,
                               tcc_type_text(&rows));
    rows.dims[--rows.rank] = 0;
    if (!take_signs(name, &rows, &signs, at) ||
        !begin(&l, name, MARGIN, given, 3, (tcc_tensor *const[]){&a, &b, &signs}, at))
        return tcc_trace_poison();
    const double tiny = 1e-12; /* PyTorch's: rows of zeros have a cosine of 0 */
    tcc_tensor aa = tcc_add_scalar(tcc_sum(tcc_mul(a, a), TCC_DIMS(-1)), tiny),
               bb = tcc_add_scalar(tcc_sum(tcc_mul(b, b), TCC_DIMS(-1)), tiny),
               ab = tcc_sum(tcc_mul(a, b), TCC_DIMS(-1));
    tcc_tensor cosine = tcc_mul(ab, tcc_mul(tcc_rsqrt(aa), tcc_rsqrt(bb)));
    return end(&l,
               by_sign(signs, tcc_add_scalar(tcc_neg(cosine), 1), tcc_relu(tcc_add_scalar(cosine, -l.options.margin)),
                       tcc__tensor_like(cosine, 0, at), at),
               at);
}

static double margin_or_one(const loss *l) {
    return l->options.has_margin || l->options.margin != 0 ? l->options.margin : 1;
}

tcc_tensor tcc_hinge_embedding_loss_at(tcc_tensor x, tcc_tensor signs, const tcc_loss_options *given, tcc_loc at) {
    static const char name[] = "hinge_embedding_loss";
    loss l;
    if (!tcc_trace_takes(name, at, 2, (tcc_tensor[]){x, signs}) || !check_float(name, x, at) ||
        !take_signs(name, &x.node->type, &signs, at) ||
        !begin(&l, name, MARGIN, given, 2, (tcc_tensor *const[]){&x, &signs}, at))
        return tcc_trace_poison();
    tcc_tensor far = tcc_relu(tcc_add_scalar(tcc_neg(x), margin_or_one(&l)));
    return end(&l, by_sign(signs, x, far, tcc_add(x, far), at), at);
}

static tcc_tensor distance(const loss *l, tcc_tensor a, tcc_tensor b, tcc_loc at) {
    const tcc_loss_options *o = &l->options;
    tcc_tensor d = tcc_add_scalar(tcc_sub(a, b), o->eps > 0 ? o->eps : 1e-6);
    if (o->p == 1) return tcc_sum(tcc_abs(d), TCC_DIMS(-1));
    if (o->p != 0 && isinf(o->p)) return tcc_reduce_max(tcc_abs(d), TCC_DIMS(-1));
    return tcc__tensor_root(tcc_sum(tcc_mul(d, d), TCC_DIMS(-1)), at);
}

tcc_tensor tcc_triplet_margin_loss_at(tcc_tensor anchor, tcc_tensor positive, tcc_tensor negative,
                                      const tcc_loss_options *given, tcc_loc at) {
    static const char name[] = "triplet_margin_loss";
    loss l;
    if (!tcc_trace_takes(name, at, 3, (tcc_tensor[]){anchor, positive, negative}) ||
        !check_alike(name, anchor, "the positive", positive, at) ||
        !check_alike(name, anchor, "the negative", negative, at))
        return tcc_trace_poison();
    if (!tcc_rank(anchor))
        return tcc_trace_error(anchor.trace, TCC_ESHAPE, at, "%s: the anchor is %s; it must have rows, [.., D]", name,
                               tcc_type_text(&anchor.node->type));
    if (!begin(&l, name, MARGIN | NORM | EPS | SWAP, given, 3, (tcc_tensor *const[]){&anchor, &positive, &negative},
               at))
        return tcc_trace_poison();
    const double p = l.options.p;
    if (p != 0 && p != 1 && p != 2 && !(p > 0 && isinf(p))) {
        tcc_trace_error(l.trace, TCC_EINVAL, at, "%s: p must be 1, 2 or INFINITY, not %g", name, p);
        return failed(&l);
    }
    tcc_tensor near = distance(&l, anchor, positive, at), far = distance(&l, anchor, negative, at);
    if (l.options.swap) far = tcc_min(far, distance(&l, positive, negative, at));
    return end(&l, tcc_relu(tcc_add_scalar(tcc_sub(near, far), margin_or_one(&l))), at);
}

/* -- Overlap -- */

/* Sums over the dims behind N and C. */
static tcc_tensor overlap(const char *name, bool dice, tcc_tensor x, tcc_tensor target, const tcc_loss_options *given,
                          tcc_loc at) {
    loss l;
    if (!check_alike(name, x, "the target", target, at)) return tcc_trace_poison();
    if (tcc_rank(x) < 3)
        return tcc_trace_error(x.trace, TCC_ESHAPE, at, "%s: x is %s; it must be [N, C, ..] with a dim to sum over",
                               name, tcc_type_text(&x.node->type));
    if (!begin(&l, name, EPS, given, 2, (tcc_tensor *const[]){&x, &target}, at)) return tcc_trace_poison();
    const double eps = l.options.eps > 0 ? l.options.eps : 1e-5;
    x = tcc_flatten(x, 2), target = tcc_flatten(target, 2);
    tcc_tensor both = tcc_sum(tcc_mul(x, target), TCC_DIMS(2)),
               sum = tcc_add(tcc_sum(x, TCC_DIMS(2)), tcc_sum(target, TCC_DIMS(2)));
    tcc_tensor above = dice ? tcc_scale(both, 2) : both, below = dice ? sum : tcc_sub(sum, both);
    tcc_tensor share = tcc_div(tcc_add_scalar(above, eps), tcc_add_scalar(below, eps));
    return end(&l, tcc_add_scalar(tcc_neg(share), 1), at);
}

tcc_tensor tcc_dice_loss_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *given, tcc_loc at) {
    return overlap("dice_loss", true, x, target, given, at);
}

tcc_tensor tcc_jaccard_loss_at(tcc_tensor x, tcc_tensor target, const tcc_loss_options *given, tcc_loc at) {
    return overlap("jaccard_loss", false, x, target, given, at);
}
