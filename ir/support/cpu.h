/* SPDX-License-Identifier: MIT
 * What this CPU can do: instruction sets by LLVM's names, levels of the x86-64 ABI, and TCC_CPU, which takes the CPU
 * for one of a level: code is made for that, and code for more is not run. Codegen and the runtime ask here. */
#ifndef TCC_IR_SUPPORT_CPU_H
#define TCC_IR_SUPPORT_CPU_H

#include "ir/support/diag.h"

#include <stdbool.h>

/* The sets of a level, as a list of features. */
#define TCC_CPU_V2 "+cx16,+popcnt,+sse3,+ssse3,+sse4.1,+sse4.2"
#define TCC_CPU_V3 TCC_CPU_V2 ",+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"
#define TCC_CPU_V4 TCC_CPU_V3 ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"

/* Whether a list of features ("znver4,+avx2,-amx-bf16") has this one with a plus. */
bool tcc_cpu_lists(const char *features, const char *name);

/* TCC_CPU: *level is x86-64-v2, x86-64-v3 or x86-64-v4, or NULL, where it is native or not set. Errors: TCC_EINVAL, it
 * is something else; TCC_EUNSUPPORTED, it is more than this CPU has. */
tcc_status tcc_cpu_wanted(tcc_diag *d, const char **level);

/* What the CPU has, as far as TCC_CPU leaves it. Tiles it has where the kernel lets us use them. Sets that compiled
 * arithmetic does not use are not known: the CPU has them all. */
bool tcc_cpu_has(const char *name);
/* The first of a list of features that it lacks, and NULL if it lacks none. The answer points into the list, up to the
 * next comma. */
const char *tcc_cpu_lacks(const char *features);
/* The highest level that it has; NULL: none, as on another architecture. */
const char *tcc_cpu_level(void);

#endif
