/* SPDX-License-Identifier: MIT
 * Random draws that are told apart by their names. */
#include "tensor_ops.h"

#include "frontend/run/draws.h"
#include "traincc/functions.h"
#include "traincc/random.h"

#include <math.h>

/* What is built here stands at the line of the draw's caller. */
#undef TCC_HERE
#define TCC_HERE at

/* The number of a draw: a hash of its name in the upper half of the numbers; draws without a name count in the lower.
 * So neither depends on which others there are. -1: the trace has the error. */
static int64_t number_of(tcc_trace *t, const char *op, const char *name, tcc_loc at) {
    const char *full = tcc_trace_name(t, name, "");
    if (!full) return -1;
    const int64_t id = tcc_draws_of(0, full).name_hash | INT64_C(1) << 31;
    for (int i = 0; i < t->draws.count; i++) {
        const tcc_trace_draw *other = &t->draws.data[i];
        if (other->id != id) continue;
        if (!strcmp(other->name, full))
            tcc_trace_error(t, TCC_EINVAL, at,
                            "%s: \"%s\" is drawn twice, which gives the same numbers again; give each draw a name of "
                            "its own",
                            op, full);
        else
            tcc_trace_error(t, TCC_EINVAL, at,
                            "%s: \"%s\" and \"%s\" would draw the same numbers, as their names have one hash; rename "
                            "one",
                            op, full, other->name);
        tcc_note(t->graph->diag, other->at, "the first is drawn here");
        return -1;
    }
    if (tcc_vec_push(&t->draws, ((tcc_trace_draw){full, id, at}))) return id;
    tcc_enomem(t->graph->diag);
    return -1;
}

static bool takes_draw(tcc_trace *t, const char *op, const char *name, int rank, const int64_t *dims, tcc_loc at) {
    if (!tcc_trace_is_open(t, op, at)) return false;
    if (!name || !*name) {
        tcc_trace_error(t, TCC_EINVAL, at, "%s: a draw must have a name, by which its numbers are found", op);
        return false;
    }
    if (rank < 0 || rank > TCC_MAX_RANK) {
        tcc_trace_error(t, TCC_EINVAL, at, "%s: rank %d is out of range (0 to %d)", op, rank, TCC_MAX_RANK);
        return false;
    }
    if (!tcc_trace_takes_list(t, op, "extents", rank, dims, at)) return false;
    for (int d = 0; d < rank; d++)
        if (dims[d] < 1) {
            tcc_trace_error(t, TCC_ESHAPE, at, "%s: dim %d is %lld; it must be 1 or more", op, d, (long long)dims[d]);
            return false;
        }
    return true;
}

/* A draw of `op`, which decides the type. */
static tcc_tensor drawn(tcc_trace *t, const char *text, tcc_op op, const char *name, int rank, const int64_t *dims,
                        tcc_loc at) {
    if (!takes_draw(t, text, name, rank, dims, at)) return tcc_trace_poison();
    const int64_t id = number_of(t, text, name, at);
    if (id < 0) return tcc_trace_poison();
    tcc_type type = {.dtype = op == TCC_OP_RNG_BITS ? TCC_I32 : TCC_F32, .rank = rank};
    for (int d = 0; d < rank; d++) type.dims[d] = dims[d];
    tcc_node *key = tcc_trace_rng_key(t);
    tcc__tensor_begin(t, at);
    return tcc_trace_wrap(t, tcc_ir_build(t->graph, op, &key, 1, &(tcc_attrs){.rng = {.id = id}}, &type, at));
}

static bool is_float(tcc_trace *t, const char *op, tcc_dtype dtype, tcc_loc at) {
    if (!tcc_trace_is_open(t, op, at)) return false;
    if ((unsigned)dtype < TCC_DTYPE_COUNT && tcc_dtype_is_float(dtype)) return true;
    tcc_trace_error(t, TCC_EDTYPE, at, "%s: it draws floats, not element type %d", op, (int)dtype);
    return false;
}

/* The largest value of a type below `x`, which is one of its values. */
static double below(tcc_dtype dtype, double x) {
    if (dtype == TCC_F64) return nextafter(x, -INFINITY);
    if (dtype == TCC_F32) return nextafterf((float)x, -INFINITY);
    if (x == 0) return tcc_dtype_round(dtype, dtype == TCC_F16 ? -0x1p-24 : -0x1p-126);
    int exponent;
    frexp(x, &exponent);
    return tcc_dtype_round(dtype, x - 0.6 * ldexp(1, exponent - tcc_dtype_digits(dtype)));
}

tcc_tensor tcc_random_uniform_at(tcc_trace *t, const char *name, double low, double high, tcc_dtype dtype, int rank,
                                 const int64_t *dims, tcc_loc at) {
    static const char op[] = "random_uniform";
    if (!is_float(t, op, dtype, at)) return tcc_trace_poison();
    const double first = tcc_dtype_round(dtype, low), end = tcc_dtype_round(dtype, high);
    if (!(first < end) || !isfinite(first) || !isfinite(end) ||
        !isfinite(tcc_dtype_round(dtype == TCC_F64 ? dtype : TCC_F32, end - first)))
        return tcc_trace_error(t, TCC_EINVAL, at, "%s: [%g, %g) must be finite and hold numbers of %s", op, low, high,
                               tcc_dtype_text(dtype));
    tcc_tensor u = drawn(t, op, TCC_OP_RNG_UNIFORM, name, rank, dims, at);
    if (dtype == TCC_F64) u = tcc_cast(u, TCC_F64);
    if (end - first != 1) u = tcc_scale(u, end - first);
    if (first != 0) u = tcc_add_scalar(u, first);
    u = tcc_cast(u, dtype);
    /* What rounds up to `high` is the number below it. */
    if (dtype == TCC_F32 && first == 0 && end == 1) return u;
    tcc_tensor last = tcc__tensor_like(u, below(dtype, end), at);
    return tcc_select(tcc_gt(u, last), last, u);
}

tcc_tensor tcc_random_normal_at(tcc_trace *t, const char *name, double mean, double std, tcc_dtype dtype, int rank,
                                const int64_t *dims, tcc_loc at) {
    static const char op[] = "random_normal";
    if (!is_float(t, op, dtype, at)) return tcc_trace_poison();
    if (!isfinite(mean) || !isfinite(std) || std < 0)
        return tcc_trace_error(t, TCC_EINVAL, at,
                               "%s: the mean must be finite and the deviation finite and 0 or more, not %g and %g", op,
                               mean, std);
    tcc_tensor z = drawn(t, op, TCC_OP_RNG_NORMAL, name, rank, dims, at);
    if (dtype == TCC_F64) z = tcc_cast(z, TCC_F64);
    if (std != 1) z = tcc_scale(z, std);
    if (mean != 0) z = tcc_add_scalar(z, mean);
    return tcc_cast(z, dtype);
}

tcc_tensor tcc_random_bernoulli_at(tcc_trace *t, const char *name, double p, int rank, const int64_t *dims,
                                   tcc_loc at) {
    static const char op[] = "random_bernoulli";
    if (!tcc_trace_is_open(t, op, at)) return tcc_trace_poison();
    if (!(p >= 0 && p <= 1)) return tcc_trace_error(t, TCC_EINVAL, at, "%s: p must be in [0, 1], not %g", op, p);
    tcc_tensor u = drawn(t, op, TCC_OP_RNG_UNIFORM, name, rank, dims, at);
    return tcc_lt(u, tcc__tensor_like(u, p, at));
}

tcc_tensor tcc_random_integers_at(tcc_trace *t, const char *name, int64_t low, int64_t high, tcc_dtype dtype, int rank,
                                  const int64_t *dims, tcc_loc at) {
    static const char op[] = "random_integers";
    if (!tcc_trace_is_open(t, op, at)) return tcc_trace_poison();
    if (dtype != TCC_I32 && dtype != TCC_I64)
        return tcc_trace_error(t, TCC_EDTYPE, at, "%s: it draws i32 or i64, not element type %d", op, (int)dtype);
    const int64_t exact = INT64_C(1) << 53, least = dtype == TCC_I32 ? INT32_MIN : -exact,
                  most = dtype == TCC_I32 ? INT64_C(1) << 31 : exact;
    if (low >= high || low < least || high > most || high - low > INT64_C(1) << 31)
        return tcc_trace_error(
            t, TCC_EINVAL, at, "%s: [%lld, %lld) must hold 1 to 2^31 numbers, between %lld and %lld for %s", op,
            (long long)low, (long long)high, (long long)least, (long long)most - 1, tcc_dtype_text(dtype));
    tcc_tensor bits = drawn(t, op, TCC_OP_RNG_BITS, name, rank, dims, at);
    tcc_tensor word = tcc_cast(bits, TCC_I64); /* of 32 bits, without its sign; floor(word (high - low) / 2^32) */
    word = tcc_and(word, tcc__tensor_like(word, 0xffffffff, at));
    tcc_tensor y = tcc_scale(word, (double)(high - low));
    y = tcc_shift_right(y, tcc__tensor_like(y, 32, at));
    return tcc_cast(tcc_add_scalar(y, (double)low), dtype);
}

tcc_tensor tcc_random_permutation_at(tcc_trace *t, const char *name, int64_t n, tcc_loc at) {
    return tcc_argsort(drawn(t, "random_permutation", TCC_OP_RNG_BITS, name, 1, &n, at), 0, false);
}
