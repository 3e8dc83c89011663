/* SPDX-License-Identifier: MIT
 * How values of several ranks become one. */
#ifndef TCC_SUPPORT_REDUCTION_H
#define TCC_SUPPORT_REDUCTION_H

#include <string.h>

/* FIRST: that of rank 0 is taken. The others are those of tcc_comm_op. */
typedef enum tcc_rank_reduction {
    TCC_REDUCTION_SUM,
    TCC_REDUCTION_MAX,
    TCC_REDUCTION_MIN,
    TCC_REDUCTION_FIRST,
    TCC_REDUCTIONS
} tcc_rank_reduction;

enum { TCC_MOST_RANKS = 1024 };

static inline const char *tcc_reduction_text(tcc_rank_reduction reduction) {
    static const char *const texts[TCC_REDUCTIONS] = {"sum", "max", "min", "first"};
    return texts[reduction];
}

/* TCC_REDUCTIONS: the text, which may be NULL, is none. */
static inline tcc_rank_reduction tcc_reduction_parse(const char *text) {
    int i = 0;
    while (i < TCC_REDUCTIONS && (!text || strcmp(tcc_reduction_text((tcc_rank_reduction)i), text))) i++;
    return (tcc_rank_reduction)i;
}

#endif
