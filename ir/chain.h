/* SPDX-License-Identifier: MIT
 * How long a chain of float32 additions may be. Sums are float32 at least, whatever their operands' type, and a chain
 * of n additions errs by up to n half units in the last place of the sum of its terms' magnitudes: where all terms are
 * alike, each addition errs the same way. So a long sum is cut. Reductions add up TCC_CHAIN_TERMS terms one after
 * another, contractions TCC_CHAIN_PRODUCTS products, which is what BLAS libraries keep of K in one block; then the sums
 * of these blocks are added up. On a GPU a contraction is one chain, in registers, as GPU libraries have it; and the
 * updates of a scatter are one anywhere. */
#ifndef TCC_IR_CHAIN_H
#define TCC_IR_CHAIN_H

enum { TCC_CHAIN_TERMS = 128, TCC_CHAIN_PRODUCTS = 384 };

/* Additions that follow one another at most, in a sum of so many terms that is cut at `length`. */
static inline double tcc_chain_of(double terms, double length) {
    return terms <= length ? terms : length + terms / length;
}

#endif
