/* SPDX-License-Identifier: MIT
 * The pool of values that the random-graph generator draws from, and what it knows of each. Private
 * to generator*.c. */
#ifndef TCC_TEST_GENERATOR_VALUES_H
#define TCC_TEST_GENERATOR_VALUES_H

#include "ir/build.h"
#include "harness/generator.h"

/* lo <= value <= hi, known up to `err`. grid >= 0: the value is a multiple of 2^-grid, and no way
 * to compute it rounds. */
typedef struct tcc_gen_value {
    tcc_node *n; /* NULL: none */
    double lo, hi, err;
    int grid;
} tcc_gen_value;

typedef struct tcc_gen {
    const tcc_random_options *options;
    int64_t max_elements;
    tcc_graph *g;
    uint64_t state;
    tcc_vec(tcc_gen_value) pool;
    tcc_node *key; /* the RNG input, when there is one */
    int draws;
} tcc_gen;

typedef struct tcc_gen_want {
    unsigned kinds; /* bits 1u << TCC_KIND_...; 0: any */
    int least_rank, most_rank;
    bool exact;
} tcc_gen_want;

/* Inputs of role batch are multiples of 1/8 in -2 .. 2; those of param and state are any floats in -1 .. 1. */
enum { TCC_GEN_BATCH_GRID = 3, TCC_GEN_BATCH_MOST = 2, TCC_GEN_INT_MOST = 8, TCC_GEN_U8_MOST = 15 };
enum { TCC_GEN_FLOAT = 1 << TCC_KIND_FLOAT, TCC_GEN_INT = 1 << TCC_KIND_INT, TCC_GEN_BOOL = 1 << TCC_KIND_BOOL };

/* -- Chance -- */
uint64_t tcc__gen_bits(tcc_gen *r);
int64_t tcc__gen_below(tcc_gen *r, int64_t n); /* 0 .. n-1 */
bool tcc__gen_chance(tcc_gen *r, int percent);
#define TCC_GEN_ONE_OF(r, array) ((array)[tcc__gen_below((r), (int64_t)(sizeof(array) / sizeof *(array)))])
int64_t tcc__gen_extent(tcc_gen *r, int64_t most); /* odd sizes, ones, vector widths and their neighbours */
tcc_dtype tcc__gen_float(tcc_gen *r);
tcc_type tcc__gen_type(tcc_gen *r, tcc_dtype dtype, int least_rank, int most_rank); /* no more than max_elements */
bool tcc__gen_fits(const tcc_gen *r, const tcc_type *t);                            /* no more than max_elements */

/* -- Values -- */
static inline double tcc__gen_magnitude(tcc_gen_value v) { return v.hi > -v.lo ? v.hi : -v.lo; }
/* A value made by an op: adds one rounding of its type unless it stays exact. `grid` -1: rounds. */
tcc_gen_value tcc__gen_made(tcc_node *n, double lo, double hi, double err, int grid);
/* A value of the pool, or a new input if none is as wanted. */
tcc_gen_value tcc__gen_pick(tcc_gen *r, tcc_gen_want want);
tcc_gen_value tcc__gen_input(tcc_gen *r, const tcc_type *type);
/* A value of this type: from the pool, a new input, a literal, or a smaller one broadcast. */
tcc_gen_value tcc__gen_like(tcc_gen *r, const tcc_type *type);
/* Indices of this shape (i32 or i64) for an axis; the data is chosen by tcc_random_input, from who
 * uses it. */
tcc_node *tcc__gen_index(tcc_gen *r, int rank, const int64_t *dims);
tcc_node *tcc__gen_key(tcc_gen *r);
/* The value itself if its interval is within lo .. hi, else scaled and shifted into it. Floats. */
tcc_gen_value tcc__gen_into(tcc_gen *r, tcc_gen_value v, double lo, double hi);
/* Into the pool, if it is good for further use; large values are scaled down first. */
void tcc__gen_keep(tcc_gen *r, tcc_gen_value v);

tcc_node *tcc__gen_build(tcc_gen *r, tcc_op op, tcc_node *const *operands, int n, const tcc_attrs *attrs,
                         const tcc_type *type);

/* -- What files of ops share -- */
static inline double tcc__gen_max(double a, double b) { return a > b ? a : b; }
static inline double tcc__gen_min(double a, double b) { return a < b ? a : b; }
/* The grid of a sum, or of a choice between the two. */
static inline int tcc__gen_join_grid(int a, int b) { return a < 0 || b < 0 ? -1 : a > b ? a : b; }

static inline tcc_gen_value tcc__gen_pick_float(tcc_gen *r, int least_rank, bool exact) {
    return tcc__gen_pick(r, (tcc_gen_want){TCC_GEN_FLOAT, least_rank, TCC_MAX_RANK, exact});
}

/* -- Ops (generator_point.c, generator_shape.c, generator_reduce.c, generator_layers.c): each adds to the pool -- */
void tcc__gen_point(tcc_gen *r);
void tcc__gen_view(tcc_gen *r);
void tcc__gen_reduce(tcc_gen *r);
void tcc__gen_scan(tcc_gen *r);
void tcc__gen_take(tcc_gen *r);
void tcc__gen_scatter(tcc_gen *r);
bool tcc__gen_allows_composites(const tcc_gen *r);
void tcc__gen_contract(tcc_gen *r);
void tcc__gen_window(tcc_gen *r);
void tcc__gen_attention(tcc_gen *r);
void tcc__gen_composite(tcc_gen *r);
void tcc__gen_collective(tcc_gen *r);

#endif
