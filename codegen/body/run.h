/* SPDX-License-Identifier: MIT
 * Shared by the files that emit a scalar program. */
#ifndef TCC_CODEGEN_BODY_RUN_H
#define TCC_CODEGEN_BODY_RUN_H

#include "codegen/body/body.h"

/* --- run.c */
tcc_emit_value tcc_body_over_lanes(tcc_body_run *r, tcc_emit_value v); /* a scalar in all lanes; else v */
/* What x is made from is there, so that it can be emitted. */
bool tcc_body_ready(const tcc_body_run *r, const tcc_expr *x);

/* --- offset.c */

/* How an affine offset moves from lane to lane. */
typedef enum tcc_lane_step { TCC_STEP_NONE, TCC_STEP_ONE, TCC_STEP_MINUS_ONE, TCC_STEP_ANY } tcc_lane_step;
tcc_lane_step tcc_body_step(const tcc_body_run *r, const tcc_affine *a);
/* The elements from lane to lane where that is the same for all, as loops alone decide; 0: it is not. */
int64_t tcc_body_stride(const tcc_body_run *r, const tcc_affine *a);
/* The part of an affine form that differs from lane to lane, as integers of type `scalar`; NULL: none. */
tcc_emit_value tcc_body_lane_part(tcc_body_run *r, const tcc_affine *a, tcc_emit_type scalar);
/* The first lane of a vector in which an index is a multiple of what quotient or remainder x divides it by, a power of
 * two: so it is in each so many-th lane from there on. -1: it is not known. */
int tcc_body_phase(const tcc_body_run *r, const tcc_expr *x);
/* The type of such a part of an offset: 32 bits wherever it fits. */
tcc_emit_type tcc_body_offset_type(const tcc_body_run *r, const tcc_affine *a);
/* Are the lanes consecutive integers from a multiple of 4, as they are where vectors are aligned? */
bool tcc_body_begins_at_fours(const tcc_body_run *r, const tcc_expr *x);

/* --- inside.c */
/* Whether what all lanes have in common of the guards of a fold's loads holds in all of its steps, and all turns of
 * loop `jam` (-1: there is none); NULL: it is not known, or there is nothing to gain. */
tcc_emit_value tcc_body_lies_inside(tcc_body_run *r, const tcc_expr *fold, int jam);
/* What of a guard differs from lane to lane; NULL: nothing. */
const tcc_expr *tcc_body_guard_of_lanes(const tcc_body_run *r, const tcc_expr *guard);
/* Narrows [*from, *to), a range of the fold's innermost loop `var`, to where the guards of all loads hold in all turns
 * of `jam`; what is left may be empty. The fold's other loops are open. False: it is not known, or there is nothing to
 * gain. */
bool tcc_body_cut_inside(tcc_body_run *r, const tcc_expr *fold, int var, int jam, tcc_emit_value *from,
                         tcc_emit_value *to);

/* The guard of one of the factors whose products a sum is of, which is 0 where the guard does not hold: terms may be
 * left out. In *loops, loops of the fold that what lanes have in common of the guard moves with, each part with one.
 * NULL: there is no such guard, or all lanes have all of it in common. */
const tcc_expr *tcc_body_guard_of_products(const tcc_body_run *r, const tcc_expr *fold, uint64_t *loops);
/* Leaves those turns in [*from, *to) of loop `var`, of such a guard's, in which its parts for that loop hold. */
void tcc_body_cut_products(tcc_body_run *r, const tcc_expr *guard, uint64_t fold, int var, tcc_emit_value *from,
                           tcc_emit_value *to);

/* --- skew.c */
/* Whether loop `var` of a sum of products goes along what it sees as the `turns` of loop `jam` outside of it do: 1, or
 * the other way: -1; 0: it does not. */
int tcc_body_skew_of(const tcc_body_run *r, const tcc_expr *fold, int var, int jam, int turns);
/* Then: the factor of its products that moves with the rows; the other is that of taps. */
int tcc_body_seen_factor(const tcc_expr *fold, int jam);

/* --- columns.c */
/* Whether each lane has a row of its own, all elements of which are loaded, as x is; and all those loads. */
bool tcc_body_has_columns(const tcc_body_run *r, const tcc_expr *x);
void tcc_body_load_columns(tcc_body_run *r, const tcc_expr *x);
enum { TCC_MOST_WINDOW = 16 /* elements in a row of one */ };
/* The loads, `most` at most, whose lanes have windows beside each other, with as many elements along loop `var` as
 * there are lanes; their number. And all elements of one along that loop, by turn. */
int tcc_body_find_windows(const tcc_body_run *r, int var, const tcc_expr **loads, int most);
void tcc_body_load_windows(tcc_body_run *r, const tcc_expr *x, int var, tcc_emit_value *columns);

/* --- near.c */
/* Whether what a load addresses lies in the value's memory, whatever the guard says. */
bool tcc_body_lies_there(const tcc_body *b, const tcc_expr *load);
/* How many elements in a row have all lanes of a load among them, which are worth loading; 0: there are none such. */
int tcc_body_near(const tcc_body_run *r, const tcc_expr *load);
/* Those lanes in registers, 0 where the mask (NULL: none) is off. */
tcc_emit_value tcc_body_emit_near(tcc_body_run *r, const tcc_expr *load, int elements, tcc_emit_value mask);

/* --- memory.c */
tcc_emit_value tcc_body_emit_load(tcc_body_run *r, const tcc_expr *x);

#endif
