/* SPDX-License-Identifier: MIT
 * "Did you mean": the candidate nearest to a misspelt word. Part of the public headers. */
#ifndef TCC_SUPPORT_NEAREST_H
#define TCC_SUPPORT_NEAREST_H

#include "api.h"

TCC_API_BEGIN

/* The candidate with the fewest edits (insert, delete, replace a character) from `word`; NULL if even that one shares
 * too little with it: more edits than a third of the longer word. Words past 63 characters have no nearest one. */
TCC_API const char *tcc_nearest(const char *word, const char *const *candidates, int count);

TCC_API_END
#endif
