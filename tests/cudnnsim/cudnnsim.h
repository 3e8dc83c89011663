/* SPDX-License-Identifier: MIT
 * What the stand-in libcudnn.so.9 exports beside the library's own names. It checks what it is given, computes
 * operations in double through the driver's memory functions, and lets a test make calls fail. Look the functions up
 * with dlsym(), so that a test also loads where the library is the real one.
 *
 * Environment, read by each call: CUDNNSIM_VERSION, the version it says it is (91900 by default). */
#ifndef CUDNNSIM_H
#define CUDNNSIM_H

/* Its engines, in the order in which mode A proposes them; the last one is mode FALLBACK's. */
enum {
    CUDNNSIM_NONDETERMINISTIC,
    CUDNNSIM_DOWN_CONVERT,
    CUDNNSIM_REDUCED_SUMS,
    CUDNNSIM_TENSOR_CORE, /* rounds f32 to tf32 */
    CUDNNSIM_WORKSPACE,   /* exact, with CUDNNSIM_WORKSPACE_BYTES */
    CUDNNSIM_PLAIN,       /* exact, without */
    CUDNNSIM_ENGINES
};
enum { CUDNNSIM_WORKSPACE_BYTES = 4096 };

typedef struct cudnnsim_counts {
    int handles, descriptors;   /* alive; descriptors of all kinds */
    int calls;                  /* of functions that can fail, so far */
    int made;                   /* descriptors, so far */
    int runs[CUDNNSIM_ENGINES]; /* that succeeded, so far */
    int errors;                 /* arguments that the real library would not take, so far */
} cudnnsim_counts;
void cudnnsim_get_counts(cudnnsim_counts *counts);
/* What was wrong the last time; "" when nothing was. */
const char *cudnnsim_last_error(void);
/* The nth call of a function that can fail, 1 being the next, returns this status instead of doing its work; 0: none.
 */
void cudnnsim_inject(int nth, int status);
/* Plans of these engines (1 << engine) are not supported. */
void cudnnsim_refuse(unsigned engines);
/* What max(0, x) makes of NaN: CUDNNSIM_NAN, NaN, as we want it; CUDNNSIM_ZERO, 0, as the documentation allows;
 * CUDNNSIM_PROMISED_NAN, NaN, and the notes of all engines say so. */
enum { CUDNNSIM_NAN, CUDNNSIM_ZERO, CUDNNSIM_PROMISED_NAN };
void cudnnsim_relu(int of_nan);
/* Where that is 0: it is only in these engines (1 << engine); all, unless told. */
void cudnnsim_relu_of(unsigned engines);
/* Forget everything that was said above and counted. */
void cudnnsim_restart(void);

#endif
