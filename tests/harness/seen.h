/* SPDX-License-Identifier: MIT
 * Arrays that a training leaves, and how far those of two trainings may be apart. Disturbed runs tell: what changes
 * with a few units in the last place of parameters and batch is noise. */
#ifndef TCC_TESTS_HARNESS_SEEN_H
#define TCC_TESTS_HARNESS_SEEN_H

#include "traincc/traincc.h"

typedef struct seen {
    char name[96];
    int64_t count;
    float *data;
    double own;   /* the norm of what a change was made to: that rounds */
    double terms; /* of an array that cancels: the norm of what it is a sum of, at most */
    double size, noise;
} seen;

typedef struct seen_list {
    int count, room;
    seen *list;
} seen_list;

void seen_drop(seen_list *r);
/* A copy of an array of f32, named "KIND NAME"; NULL: it has another type. */
seen *seen_add(seen_list *r, const char *kind, const tcc_array *a);
/* The array becomes its change from `before`. */
void seen_make_change(seen *s, const float *before);
/* Adam's second moment is a square, which has the noise of a gradient twice. The step takes its root. */
void seen_take_roots(seen *s);

/* An array that is zeros in all runs is of sums whose terms cancel, in another order perhaps not quite. The terms are
 * no larger than the largest array of its kind, and round as that does. */
void seen_find_cancelled(seen_list *r);

int64_t seen_elements(const tcc_array *a);
double seen_norm(const float *x, const float *y, int64_t count); /* L2, of x - y; y NULL: of x. NaN equals NaN */
/* How far an array may be from what it should be, beyond the noise: sums of other orders, of the size of the whole
 * array. An array that is noise, as the gradient of a bias in front of a norm or its square, has that of every run,
 * which a few do not tell. */
double seen_allowed(tcc_mixed_precision p, const seen *e);

/* Of a value, at most: four units in the last place, or a quarter of one of 16 bits, so that some results round
 * otherwise. */
double seen_disturbance(tcc_mixed_precision p);
/* By `most` of each value, and by `at_zero`: a parameter that is 0, as a bias that training begins with, is disturbed
 * as what is left of terms near 1. */
void seen_disturb(float *x, int64_t count, double most, double at_zero, uint64_t *random);

#endif
