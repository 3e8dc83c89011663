/* SPDX-License-Identifier: MIT
 * Running sums and linear scans, for whatever runs a graph and compares it with the interpreter. */
#ifndef TCC_TESTS_HARNESS_SCAN_CASES_H
#define TCC_TESTS_HARNESS_SCAN_CASES_H

#include "harness/compiled.h"

/* Lines of ones behind 2^24, which in f32 would add nothing to it: as in lines of 2^25 ones. Along the innermost dim,
 * along another, with work on both sides; forward and in reverse. */
void running_sums_of_long_lines(graph_check *check);
/* Of values that do not change along the line. */
void running_sums_of_equal_values(graph_check *check);
/* Linear scans and products, along each dim, of every type that has them. */
void linear_scans(graph_check *check);
/* Of zeros, numbers beyond f32's range on their way, and NaN; `infinite`: and of infinities. */
void linear_scans_of_special_values(graph_check *check, bool infinite);
/* Running maxima with their places, of equal values and NaNs, and sums that begin anew there: along each dim, of every
 * type that has them. */
void running_maxima(graph_check *check);
/* Sums that begin anew behind an infinite one, which is in none of the others. */
void running_sums_of_runs(graph_check *check);
/* The graph of running results both ways along lines of `width` elements, which are read a step further as well, before
 * and behind; and the end of each line by itself, as `end`. */
tcc_graph *results_both_ways(const char *dtype, int width, bool reverse, tcc_diag *diag);
void running_results_both_ways(graph_check *check);
/* What reads bytes from a register that a running result has left there. */
void running_results_of_bytes(graph_check *check);

#endif
