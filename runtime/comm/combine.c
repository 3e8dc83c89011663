/* SPDX-License-Identifier: MIT
 * Combining elements of two ranks: loops over the wide types, and one over all others. */
#include "runtime/comm/combine.h"

#include "ir/support/element.h"

/* A comparison with NaN is false: where one is NaN, `all` is taken only if it is the NaN. */
#define LOOPS(name, T, S)                                                                               \
    static void name(tcc_comm_op how, T *restrict all, const T *restrict x, int64_t n) {                \
        if (how == TCC_COMM_SUM)                                                                        \
            for (int64_t i = 0; i < n; i++) all[i] = (T)((S)all[i] + (S)x[i]);                          \
        else if (how == TCC_COMM_MAX)                                                                   \
            for (int64_t i = 0; i < n; i++) all[i] = all[i] > x[i] || all[i] != all[i] ? all[i] : x[i]; \
        else                                                                                            \
            for (int64_t i = 0; i < n; i++) all[i] = all[i] < x[i] || all[i] != all[i] ? all[i] : x[i]; \
    }
LOOPS(combine_f32, float, float)
LOOPS(combine_f64, double, double)
LOOPS(combine_i32, int32_t, uint32_t) /* sums wrap */
LOOPS(combine_i64, int64_t, uint64_t)

static void combine_short(tcc_comm_op how, tcc_dtype type, void *all, const void *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) { /* as f64, in which sums and values are exact, and rounded once */
        double a = tcc_element_get(type, all, i);
        const double b = tcc_element_get(type, x, i);
        combine_f64(how, &a, &b, 1);
        if (tcc_dtype_is_float(type)) tcc_element_set(type, all, i, a);
        else tcc_element_set_int(type, all, i, (int64_t)a);
    }
}

void tcc_combine(tcc_comm_op reduction, tcc_dtype type, void *all, const void *x, int64_t count) {
    switch (type) {
    case TCC_F32: combine_f32(reduction, all, x, count); return;
    case TCC_F64: combine_f64(reduction, all, x, count); return;
    case TCC_I32: combine_i32(reduction, all, x, count); return;
    case TCC_I64: combine_i64(reduction, all, x, count); return;
    default: combine_short(reduction, type, all, x, count); return;
    }
}
