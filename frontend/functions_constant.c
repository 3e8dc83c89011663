/* SPDX-License-Identifier: MIT
 * Functions made of operations: constants. */
#include "tensor_ops.h"

#include "traincc/functions.h"

#include <math.h>

/* What is built here stands at the line of the function's caller. */
#undef TCC_HERE
#define TCC_HERE at

tcc_tensor tcc_full_like_at(tcc_tensor x, double value, tcc_loc at) {
    if (!tcc_trace_takes("full_like", at, 1, &x)) return tcc_trace_poison();
    const tcc_type type = x.node->type;
    return tcc_constant(x.trace, value, type.dtype, type.rank, type.dims);
}

/* start + i step, in f64 until it is rounded to its type. */
static tcc_tensor steps_from(tcc_trace *t, double start, double step, int64_t n, tcc_dtype dtype, tcc_loc at) {
    if (!tcc_dtype_is_float(dtype)) return tcc_add_scalar(tcc_scale(tcc_iota(t, 0, dtype, TCC_DIMS(n)), step), start);
    return tcc_cast(tcc_add_scalar(tcc_scale(tcc_iota(t, 0, TCC_F64, TCC_DIMS(n)), step), start), dtype);
}

tcc_tensor tcc_arange_at(tcc_trace *t, double start, double limit, double step, tcc_dtype dtype, tcc_loc at) {
    if (!tcc_trace_is_open(t, "arange", at)) return tcc_trace_poison();
    if ((unsigned)dtype >= TCC_DTYPE_COUNT || dtype == TCC_BOOL)
        return tcc_trace_error(t, TCC_EDTYPE, at, "arange: there are no numbers of element type %d", (int)dtype);
    const double n = ceil((limit - start) / step);
    if (!isfinite(start) || !isfinite(limit) || !isfinite(step) || !(n >= 1 && n <= 0x1p53))
        return tcc_trace_error(t, TCC_EINVAL, at, "arange: there is nothing from %g to below %g in steps of %g", start,
                               limit, step);
    const double last = start + (n - 1) * step; /* the type must have all of them; a fraction is found below */
    if (last == floor(last) && !tcc_constant(t, last, dtype, 0, NULL).node) return tcc_trace_poison();
    return steps_from(t, start, step, (int64_t)n, dtype, at);
}

tcc_tensor tcc_linspace_at(tcc_trace *t, double start, double end, int64_t n, tcc_dtype dtype, tcc_loc at) {
    if (!tcc_trace_is_open(t, "linspace", at)) return tcc_trace_poison();
    if ((unsigned)dtype >= TCC_DTYPE_COUNT || !tcc_dtype_is_float(dtype))
        return tcc_trace_error(t, TCC_EDTYPE, at, "linspace: it makes floats, not element type %d", (int)dtype);
    if (!isfinite(start) || !isfinite(end) || n < 1)
        return tcc_trace_error(t, TCC_EINVAL, at,
                               "linspace: %lld numbers from %g to %g; it takes 1 or more, and finite ends",
                               (long long)n, start, end);
    tcc_tensor up = steps_from(t, start, n > 1 ? (end - start) / (double)(n - 1) : 0, n, dtype, at);
    if (n == 1) return up;
    tcc_tensor down = steps_from(t, end, -(end - start) / (double)(n - 1), n, dtype, at), /* so that it ends at `end` */
        turn = tcc_iota(t, 0, TCC_I64, TCC_DIMS(n));
    return tcc_select(tcc_lt(turn, tcc__tensor_like(turn, (double)(n / 2), at)), up, tcc_flip(down, 0));
}

tcc_tensor tcc_eye_at(tcc_trace *t, int64_t n, tcc_dtype dtype, tcc_loc at) {
    if (!tcc_trace_is_open(t, "eye", at)) return tcc_trace_poison();
    if (n < 1) return tcc_trace_error(t, TCC_EINVAL, at, "eye: n must be 1 or more, not %lld", (long long)n);
    return tcc_cast(tcc_eq(tcc_iota(t, 0, TCC_I64, TCC_DIMS(n, n)), tcc_iota(t, 1, TCC_I64, TCC_DIMS(n, n))), dtype);
}
