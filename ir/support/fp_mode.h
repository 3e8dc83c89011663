/* SPDX-License-Identifier: MIT
 * The thread's floating-point mode: how it rounds, whether small numbers are flushed to 0, which exceptions trap.
 * Results are those of the default mode whatever the caller's is, so what computes stands between begin and end. */
#ifndef TCC_SUPPORT_FP_MODE_H
#define TCC_SUPPORT_FP_MODE_H

#if defined __x86_64__

typedef unsigned tcc_fp_mode;

enum { TCC_FP_DEFAULT = 0x1f80, TCC_FP_RAISED = 0x3f /* which exceptions there were */ };

/* To the default mode; what it was. Where it is that already, nothing is written. */
static inline tcc_fp_mode tcc_fp_begin(void) {
    const unsigned mode = __builtin_ia32_stmxcsr();
    if ((mode & ~(unsigned)TCC_FP_RAISED) != TCC_FP_DEFAULT) __builtin_ia32_ldmxcsr(TCC_FP_DEFAULT);
    return mode;
}

static inline void tcc_fp_end(tcc_fp_mode mode) {
    if ((mode & ~(unsigned)TCC_FP_RAISED) != TCC_FP_DEFAULT) __builtin_ia32_ldmxcsr(mode);
}

#else
#include <fenv.h>

typedef fenv_t tcc_fp_mode;

static inline tcc_fp_mode tcc_fp_begin(void) {
    tcc_fp_mode mode;
    fegetenv(&mode);
    fesetenv(FE_DFL_ENV);
    return mode;
}

static inline void tcc_fp_end(tcc_fp_mode mode) { fesetenv(&mode); }

#endif
#endif
