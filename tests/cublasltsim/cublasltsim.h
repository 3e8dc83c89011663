/* SPDX-License-Identifier: MIT
 * What the stand-in libcublasLt.so.12 exports beside the library's own names. It checks what it is given, computes
 * products in double through the driver's memory functions, and lets a test make calls fail. Look the functions up with
 * dlsym(), so that a test also loads where the library is the real one.
 *
 * Environment, read by each call: CUBLASLTSIM_VERSION, the version it says it is (120900 by default). */
#ifndef CUBLASLTSIM_H
#define CUBLASLTSIM_H

enum {
    CUBLASLTSIM_WORKSPACE = 4096 /* bytes that sums of at least ... */,
    CUBLASLTSIM_WORKSPACE_K = 512 /* ... so many terms take, where it may have them */
};

typedef struct cublasltsim_counts {
    int handles, descriptors; /* alive; descriptors of all kinds */
    int calls;                /* of functions that can fail, so far */
    int products;             /* cublasLtMatmul calls that succeeded, so far */
    int epilogues[10];        /* of these, those with each bit of the epilogue: [5] has GELU, [8] sums of A */
    int added;                /* of these, those that add a matrix */
    int by_id[128];           /* of these, those by each algorithm */
    int errors;               /* arguments that the real library would not take, so far */
} cublasltsim_counts;
void cublasltsim_get_counts(cublasltsim_counts *counts);
/* What was wrong the last time; "" when nothing was. */
const char *cublasltsim_last_error(void);
/* The nth call of a function that can fail, 1 being the next, returns this status instead of doing its work; 0: none.
 */
void cublasltsim_inject(int nth, int status);
/* The heuristic knows no way for sums of more terms than this; 0: it knows one for all. */
void cublasltsim_refuse(unsigned long long most_k);
/* The heuristic knows no way for epilogues with an auxiliary matrix or sums of an operand. */
void cublasltsim_refuse_epilogues(int refuse);
/* Epilogues that documentation allows and we do not: 1: max(0, x) of NaN is 0; 2: DRELU reads a byte's bits from the
 * highest; 3: DRELU multiplies by its bits, so that a hidden infinity is NaN; 0: none. */
void cublasltsim_differ(int how);
/* They do so only for products of this cudaDataType of D and of at least so many terms; -1: of any type. */
void cublasltsim_differ_where(int type, unsigned long long least_k);
/* The heuristic has up to so many answers where it is asked for them; 4 unless told. The first is what it gives where
 * it is asked for one. */
void cublasltsim_offer(int answers);
/* Algorithms that spoil a product: one that computes something else, one that fails to run, and one that the library no
 * longer has; by id, -1: none. */
void cublasltsim_spoil(int wrong, int fails, int gone);
/* Forget everything that was said above and counted. */
void cublasltsim_restart(void);

#endif
