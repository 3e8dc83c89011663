/* SPDX-License-Identifier: MIT
 * Functions made of operations: element by element. */
#include "tensor_ops.h"

#include "traincc/functions.h"

#include <math.h>

/* What is built here stands at the line of the function's caller. */
#undef TCC_HERE
#define TCC_HERE at

/* -- Of one operand. `w` is x, f32 at least, and `y` the result before it is x's type again. -- */

#define WIDE(name, y)                                                           \
    tcc_tensor tcc_##name##_at(tcc_tensor x, tcc_loc at) {                      \
        if (!tcc__tensor_takes_floats(#name, x, at)) return tcc_trace_poison(); \
        tcc_tensor w = tcc__tensor_widened(x, at);                              \
        return tcc_cast(y, tcc_get_dtype(x));                                   \
    }

static tcc_tensor arc_tangent(tcc_tensor x, tcc_loc at) { return tcc__tensor_op(TCC_OP_ATAN, x, NULL, NULL, at); }

/* x less 0 ? -x : x, with the slope 1 at 0: the sign is given back. */
static tcc_tensor magnitude(tcc_tensor x, tcc_tensor negative, tcc_loc at) {
    return tcc_select(negative, tcc_neg(x), x);
}

/* The angle between the first axis and [x, y], neither of which is negative, by share = small / large of them: in
 * [0, pi / 2]. */
static tcc_tensor angle_of(tcc_tensor share, tcc_tensor steep, tcc_loc at) {
    tcc_tensor angle = arc_tangent(share, at);
    return tcc_select(steep, tcc_add_scalar(tcc_neg(angle), M_PI_2), angle);
}

/* The same of [x, y] that may be both 0 or both infinite. */
static tcc_tensor first_quadrant(tcc_tensor y, tcc_tensor x, tcc_loc at) {
    tcc_tensor steep = tcc_gt(y, x), large = tcc_select(steep, y, x), small = tcc_select(steep, x, y);
    tcc_tensor none = tcc_eq(large, tcc__tensor_like(large, 0, at)), zero = tcc__tensor_like(large, 0, at);
    tcc_tensor share = tcc_div(small, tcc_select(none, tcc__tensor_like(large, 1, at), large));
    share = tcc_select(none, zero, share); /* so that there is no slope, either */
    tcc_tensor infinite = tcc_and(tcc_eq(small, large), tcc_eq(small, tcc__tensor_like(small, INFINITY, at)));
    share = tcc_select(infinite, tcc__tensor_like(share, 1, at), share); /* two infinities are alike */
    return angle_of(share, steep, at);
}

/* That of [sqrt(1 + x), sqrt(1 - x)], one of which is 1 or more. */
static tcc_tensor half_acos(tcc_tensor x, tcc_loc at) {
    tcc_tensor a = tcc_sqrt(tcc_add_scalar(tcc_neg(x), 1)), b = tcc_sqrt(tcc_add_scalar(x, 1));
    tcc_tensor steep = tcc_lt(x, tcc__tensor_like(x, 0, at));
    return angle_of(tcc_div(tcc_select(steep, b, a), tcc_select(steep, a, b)), steep, at);
}

/* sqrt(1 - x^2) near 1, too; its slope at 1 and -1 is infinite. */
static tcc_tensor cathetus(tcc_tensor x, tcc_loc at) {
    return tcc_mul(tcc_sqrt(tcc_add_scalar(tcc_neg(x), 1)), tcc_sqrt(tcc_add_scalar(x, 1)));
}

WIDE(tan, tcc_div(tcc_sin(w), tcc_cos(w)))
WIDE(asin, tcc_scale(arc_tangent(tcc_div(w, tcc_add_scalar(cathetus(w, at), 1)), at), 2))
WIDE(acos, tcc_scale(half_acos(w, at), 2))
WIDE(atan, arc_tangent(w, at))
WIDE(erfinv, tcc__tensor_op(TCC_OP_ERFINV, w, NULL, NULL, at)) /* its slope grows with what is not rounded yet */
WIDE(sinh, tcc__tensor_op(TCC_OP_SINH, w, NULL, NULL, at))
WIDE(cosh, tcc__tensor_op(TCC_OP_COSH, w, NULL, NULL, at))
WIDE(atanh, tcc_scale(tcc_sub(tcc_log1p(w), tcc_log1p(tcc_neg(w))), 0.5))
WIDE(log2, tcc_scale(tcc_log(w), M_LOG2E))
WIDE(log10, tcc_scale(tcc_log(w), M_LOG10E))
WIDE(exp2, tcc_pow(tcc__tensor_like(w, 2, at), w))
WIDE(reciprocal, tcc_div(tcc__tensor_like(w, 1, at), w))
WIDE(log_sigmoid, tcc_neg(tcc_softplus(tcc_neg(w))))
WIDE(softsign, tcc_div(w, tcc_add_scalar(tcc_abs(w), 1)))
WIDE(selu, tcc_scale(tcc_elu(w, 1.6732632423543772), 1.0507009873554805))
WIDE(hardsigmoid, tcc_scale(tcc_relu6(tcc_add_scalar(w, 3)), 1.0 / 6))
WIDE(trunc, tcc_select(tcc_lt(w, tcc__tensor_like(w, 0, at)), tcc_ceil(w), tcc_floor(w)))
#undef WIDE

tcc_tensor tcc_square_at(tcc_tensor x, tcc_loc at) { return tcc_mul(x, x); }

tcc_tensor tcc_isnan_at(tcc_tensor x, tcc_loc at) {
    return tcc__tensor_takes_floats("isnan", x, at) ? tcc_ne(x, x) : tcc_trace_poison();
}

/* -- Of two operands -- */

/* Two operands of floats, widened. */
static bool takes_two(const char *name, tcc_tensor *a, tcc_tensor *b, tcc_loc at) {
    if (!tcc_trace_takes(name, at, 2, (tcc_tensor[]){*a, *b}) || !tcc__tensor_takes_floats(name, *a, at)) return false;
    const tcc_type *of = &a->node->type, *is = &b->node->type;
    if (of->dtype != is->dtype) {
        tcc_trace_error(a->trace, TCC_EDTYPE, at, "%s: element types differ: %s and %s", name, tcc_type_text(of),
                        tcc_type_text(is));
        return false;
    }
    *a = tcc__tensor_widened(*a, at);
    *b = tcc__tensor_widened(*b, at);
    return true;
}

tcc_tensor tcc_atan2_at(tcc_tensor y, tcc_tensor x, tcc_loc at) {
    const tcc_dtype dtype = tcc_get_dtype(y);
    if (!takes_two("atan2", &y, &x, at)) return tcc_trace_poison();
    tcc_tensor zero = tcc__tensor_like(x, 0, at), below = tcc_lt(y, zero), left = tcc_lt(x, zero);
    tcc_tensor angle = first_quadrant(magnitude(y, below, at), magnitude(x, left, at), at);
    angle = tcc_select(left, tcc_add_scalar(tcc_neg(angle), M_PI), angle);
    return tcc_cast(magnitude(angle, below, at), dtype);
}

/* The larger plus softplus of the difference. The larger alone where it is infinite. The difference of operands one of
 * which is NaN is NaN, whichever counts as the larger. */
tcc_tensor tcc_logaddexp_at(tcc_tensor a, tcc_tensor b, tcc_loc at) {
    const tcc_dtype dtype = tcc_get_dtype(a);
    if (!takes_two("logaddexp", &a, &b, at)) return tcc_trace_poison();
    tcc_tensor first = tcc_ge(a, b), high = tcc_select(first, a, b), low = tcc_select(first, b, a);
    tcc_tensor numbers = tcc_eq(low, low), zero = tcc__tensor_like(high, 0, at);
    tcc_tensor alone = tcc_and(numbers, tcc_eq(tcc_abs(high), tcc__tensor_like(high, INFINITY, at)));
    tcc_tensor rest = tcc_softplus(tcc_sub(tcc_select(alone, zero, low), tcc_select(alone, zero, high)));
    return tcc_cast(tcc_add(high, rest), dtype);
}

tcc_tensor tcc_lerp_at(tcc_tensor a, tcc_tensor b, double weight, tcc_loc at) {
    const tcc_dtype dtype = tcc_get_dtype(a);
    if (!takes_two("lerp", &a, &b, at)) return tcc_trace_poison();
    if (!isfinite(weight))
        return tcc_trace_error(a.trace, TCC_EINVAL, at, "lerp: the weight must be finite, not %g", weight);
    tcc_tensor way = tcc_sub(b, a); /* from the nearer end, so that b comes out where the weight is 1 */
    return tcc_cast(weight < 0.5 ? tcc_add(a, tcc_scale(way, weight)) : tcc_sub(b, tcc_scale(way, 1 - weight)), dtype);
}

tcc_tensor tcc_masked_fill_at(tcc_tensor x, tcc_tensor mask, double value, tcc_loc at) {
    if (!tcc_trace_takes("masked_fill", at, 2, (tcc_tensor[]){x, mask})) return tcc_trace_poison();
    if (tcc_get_dtype(mask) != TCC_BOOL)
        return tcc_trace_error(x.trace, TCC_EDTYPE, at, "masked_fill: the mask is %s; it must be of bool",
                               tcc_type_text(&mask.node->type));
    return tcc_select(mask, tcc__tensor_like(x, value, at), x);
}
