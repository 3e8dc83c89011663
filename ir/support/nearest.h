/* SPDX-License-Identifier: MIT
 * "Did you mean": the candidate nearest to a misspelt word. Part of the public headers. */
#ifndef TCC_SUPPORT_NEAREST_H
#define TCC_SUPPORT_NEAREST_H

/* The candidate with the fewest edits (insert, delete, replace a character) from `word`; NULL if even that one shares too little
 * with it: more edits than a third of the longer word. Words past 63 characters have no nearest one. */
__attribute__((visibility("default"))) const char *tcc_nearest(const char *word, const char *const *candidates, int count);

#endif
