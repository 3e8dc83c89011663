/* SPDX-License-Identifier: MIT
 * A program in the making: it is traced as it grows, so that shapes are the API's own. Private to user_random.c and the
 * layers in user_layers_*.c. */
#ifndef TCC_TESTS_HARNESS_USER_MAKER_H
#define TCC_TESTS_HARNESS_USER_MAKER_H

#include "harness/user_random.h"

#include "frontend/trace.h"

enum { USER_POOL = 256 };

typedef struct user_maker {
    user_program *p;
    const user_random_options *options;
    uint64_t random;
    tcc_diag diag;
    tcc_store store;
    tcc_trace trace;
    tcc_array batch[USER_INPUTS];
    tcc_tensor values[USER_STEPS];
    bool used[USER_STEPS];
    int pool[USER_POOL], n_pool; /* steps with an f32 result that layers may go on from */
    int64_t extents[4];          /* of this program */
    int n_extents;
    int64_t most; /* elements of a tensor */
    double work;  /* of networks (net_maker.h): products that may be added; few: of few sizes */
    bool few;
    int n_names;
} user_maker;

/* Every program begins and ends with these. The second is as user_program_random. */
bool user_maker_begin(user_maker *m, const user_random_options *options, uint64_t seed, user_program *out);
const char *user_maker_end(user_maker *m);

/* -- Chance -- */

static inline uint64_t user_draw(user_maker *m) {
    uint64_t x = m->random += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}
static inline int64_t user_below(user_maker *m, int64_t n) { return (int64_t)(user_draw(m) >> 11) % n; }
static inline bool user_chance(user_maker *m, int percent) { return user_below(m, 100) < percent; }
#define USER_ONE_OF(m, ...) \
    (((const int[]){__VA_ARGS__})[user_below((m), (int64_t)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))])

/* -- Shapes -- */

int64_t user_extent(user_maker *m);
void user_extents(user_maker *m, int count, int64_t *out);
bool user_fits(const user_maker *m, int rank, const int64_t *dims);
static inline int user_rank(const user_maker *m, int v) { return m->p->steps[v].rank; }
static inline int64_t user_dim(const user_maker *m, int v, int d) {
    const user_step *s = &m->p->steps[v];
    return s->dims[d < 0 ? d + s->rank : d];
}
int64_t user_count(const user_maker *m, int v); /* elements */
bool user_same(const user_maker *m, int a, int b);

/* -- Steps; they return the step's number -- */

int user_emit(user_maker *m, const user_step *s);
int user_op1(user_maker *m, user_op op, int a);
int user_op2(user_maker *m, user_op op, int a, int b);
int user_op3(user_maker *m, user_op op, int a, int b, int c);
int user_op_real(user_maker *m, user_op op, int a, double real);
int user_op_ints(user_maker *m, user_op op, int a, int n, const int64_t *ints);
#define USER_INT_LIST(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
/* A layer with a name of its own, or `name` where that is not NULL. */
int user_layer(user_maker *m, user_op op, int a, const char *name, int n, const int64_t *ints);
int user_param(user_maker *m, double bound, int rank, const int64_t *dims);
int user_constant(user_maker *m, double value, tcc_dtype dtype, int rank, const int64_t *dims);
int user_literal_of(user_maker *m, tcc_dtype dtype, int pattern, int64_t modulus, double real, int rank,
                    const int64_t *dims);
int user_random_leaf(user_maker *m, user_op op, tcc_dtype dtype, int64_t limit, double real, int rank,
                     const int64_t *dims);
int user_iota(user_maker *m, tcc_dtype dtype, int axis, int rank, const int64_t *dims);
int user_new_input(user_maker *m, tcc_dtype dtype, user_fill fill, int64_t limit, int rank, const int64_t *dims);
void user_name(user_maker *m, char *out, const char *kind);

/* -- Values -- */

/* A float value of some rank, recent ones more often; made where there is none. */
int user_pick(user_maker *m, int least_rank, int most_rank);
/* Another of the same shape: an old one, a parameter, or the value itself. */
int user_pick_like(user_maker *m, int v);
/* Something that broadcasts to v's shape. */
int user_pick_broadcastable(user_maker *m, int v);
/* Integers of this shape in 0 .. limit - 1, of some origin. */
int user_indices(user_maker *m, int64_t limit, int rank, const int64_t *dims);
int user_mask(user_maker *m, int rank, const int64_t *dims); /* bool */
void user_push(user_maker *m, int v);

/* -- Layers: each goes on from values of the pool and leaves its results there. -- */

typedef struct user_layer_kind {
    void (*make)(user_maker *m);
    int weight;
} user_layer_kind;

extern const user_layer_kind user_layers_net[], user_layers_tensor[], user_layers_more[]; /* ended by a NULL */

#endif
