/* SPDX-License-Identifier: MIT
 * Loops that exist once for each vector width of x86-64, and once elsewhere. A file defines VARIANT(scope, name,
 * target), which makes its loops with the attribute `target` and gathers them in a variable PREFIX_name; `scope` is
 * empty for the portable one, which tests see, and else static. */
#ifndef TCC_SUPPORT_WIDTHS_H
#define TCC_SUPPORT_WIDTHS_H

#if defined __x86_64__
#if defined __clang__
#define TCC_AVX512 "avx512f,avx512dq,avx512vl"
#else /* which else takes half of the width */
#define TCC_AVX512 "avx512f,avx512dq,avx512vl,prefer-vector-width=512"
#endif
#define TCC_FOR_EACH_WIDTH(variant)                                              \
    variant(, portable, ) variant(static, avx2, __attribute__((target("avx2")))) \
        variant(static, avx512, __attribute__((target(TCC_AVX512))))
/* The address of the widest that this machine has. */
#define TCC_WIDEST(prefix)                                                                      \
    (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") ? &prefix##avx512 \
     : __builtin_cpu_supports("avx2")                                         ? &prefix##avx2   \
                                                                              : &prefix##portable)
#else
#define TCC_FOR_EACH_WIDTH(variant) variant(, portable, )
#define TCC_WIDEST(prefix) (&prefix##portable)
#endif

#endif
