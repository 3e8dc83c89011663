/* SPDX-License-Identifier: MIT
 * Random draws. A draw has a name, within the open scopes like a parameter's. Its numbers follow from the model's seed,
 * the step and that name alone: they are other ones in each step and each micro-batch, and the same with other draws
 * beside it, in every mode, with any number of threads, resumed or not. All but normal draws have the same bits on
 * every device; normal ones have the same bits on one device, and between devices, and from the interpreter's, which
 * computes in f64, a standard one differs by less than 2^-22 of itself. They are computed wherever they are needed and
 * never stored (Philox 4x32-10, Salmon et al. 2011).
 *
 * Evaluation draws too, by the number of training steps done. So two evaluations without a training step between them
 * see the same numbers. A model that draws in training alone asks tcc_is_training.
 *
 * A name is drawn once in a trace: a second draw of it would hold the same numbers again, which is an error. Draws have
 * no gradient. Where low and high are tensors, write low + (high - low) u with u a draw from [0, 1): the gradient goes
 * to low and high. */
#ifndef TRAINCC_RANDOM_H
#define TRAINCC_RANDOM_H

#include "traincc/tensor.h"

TCC_API_BEGIN

/* Floats of type `dtype` in [low, high), both finite, rounded to that type. There are 2^24 steps between them. */
TCC_API tcc_tensor tcc_random_uniform_at(tcc_trace *t, const char *name, double low, double high, tcc_dtype dtype,
                                         int rank, const int64_t *dims, tcc_loc at);
/* Floats of type `dtype`, of this mean and standard deviation, 0 or more. The largest is 5.8 deviations away. */
TCC_API tcc_tensor tcc_random_normal_at(tcc_trace *t, const char *name, double mean, double std, tcc_dtype dtype,
                                        int rank, const int64_t *dims, tcc_loc at);
/* bool: true with probability p in [0, 1], to 2^-24. Of a tensor of probabilities: tcc_lt(u, p) with u uniform. */
TCC_API tcc_tensor tcc_random_bernoulli_at(tcc_trace *t, const char *name, double p, int rank, const int64_t *dims,
                                           tcc_loc at);
/* i32 or i64 in [low, high), which holds 1 to 2^31 numbers. They are equally likely to (high - low) 2^-32. */
TCC_API tcc_tensor tcc_random_integers_at(tcc_trace *t, const char *name, int64_t low, int64_t high, tcc_dtype dtype,
                                          int rank, const int64_t *dims, tcc_loc at);
/* i32 [n]: 0 .. n - 1 in random order, as tcc_argsort of n draws. */
TCC_API tcc_tensor tcc_random_permutation_at(tcc_trace *t, const char *name, int64_t n, tcc_loc at);
#define tcc_random_uniform(t, name, low, high, dtype, ...) \
    tcc_random_uniform_at(t, name, low, high, dtype, __VA_ARGS__, TCC_HERE)
#define tcc_random_normal(t, name, mean, std, dtype, ...) \
    tcc_random_normal_at(t, name, mean, std, dtype, __VA_ARGS__, TCC_HERE)
#define tcc_random_bernoulli(t, name, p, ...) tcc_random_bernoulli_at(t, name, p, __VA_ARGS__, TCC_HERE)
#define tcc_random_integers(t, name, low, high, dtype, ...) \
    tcc_random_integers_at(t, name, low, high, dtype, __VA_ARGS__, TCC_HERE)
#define tcc_random_permutation(t, name, n) tcc_random_permutation_at(t, name, n, TCC_HERE)

TCC_API_END
#endif
