/* SPDX-License-Identifier: MIT
 * Shared by the parts of verification. Private to this room. */
#ifndef TCC_FRONTEND_VERIFY_VERIFY_H
#define TCC_FRONTEND_VERIFY_VERIFY_H

#include "frontend/compile/compile.h"
#include "frontend/compile/trial.h"

#include "ir/noise.h"
#include "ir/sample.h"
#include "runtime/cpu/pool.h"

typedef struct tcc_verification {
    tcc_model *m;             /* whose step is verified; only read */
    tcc_model *twin;          /* the same, which has run the step */
    const tcc_array *whole;   /* the batch that was given, or what a CPU gets through of it, */
    const tcc_array *slice;   /* what the interpreter gets through of it, */
    const tcc_array *batch;   /* and which of both is at hand */
    int count;                /* of arrays */
    double tolerance;         /* allowed beyond the noise, relative to the largest entry */
    tcc_pool *pool;           /* the interpreter's */
    bool micro;               /* it is the batch of one program of a step in micro-batches: that which m runs next, */
    const tcc_compiled *part; /* this one */
    tcc_store states;         /* what the model has not got yet of the states that passes add, as they begin */
    tcc_noise noise;
    bool skipped;         /* fp16: the twin's step found a gradient that is not finite */
    tcc_graph *reference; /* what the step must compute: after autodiff */
    tcc_noisy *expected;  /* its outputs, and the noise of computing them in their types; NULL: not needed yet */
    tcc_noisy *meant;     /* the same, with the noise of writing the graph in another way; then it may stand alone */
    /* What was seen, for the report. Errors are in units of what is allowed. */
    int groups, sampled; /* of these a sample of the results was compared */
    double worst_kernel, worst_output;
    char worst_kernel_name[160], worst_output_name[256];
} tcc_verification;

/* What is wrong, and the smallest graph that shows it. */
typedef struct tcc_blame {
    tcc_strbuf text;       /* an error message; empty: nothing is wrong */
    tcc_strbuf cause;      /* a note */
    tcc_strbuf reproducer; /* text that tcc-opt reads */
} tcc_blame;

void tcc__blame_clear(tcc_blame *b);
/* Replaces the reproducer; `pass`: that is wrong, NULL: none. */
void tcc__blame_graph(tcc_blame *b, const tcc_graph *g, const char *pass);

/* -- In twin.c -- */

/* A model like v->m, compiled for v->batch, with v->m's parameters and moments. `gradients`: it keeps them, which may
 * make another program of it. */
tcc_status tcc__verify_make_twin(const tcc_verification *v, int batch_accumulate, bool gradients, tcc_model **out);

/* -- In cut.c -- */

/* What is left of a batch. */
typedef struct tcc_cut {
    int64_t samples, all;             /* 0: it cannot be cut */
    int64_t extents[2];               /* height and width of what is left of images, their middle; 0, 0: all */
    int64_t positions, all_positions; /* what is left of sequences, their beginning; 0: all */
} tcc_cut;
typedef enum tcc_cut_for { TCC_CUT_FOR_RESULTS, TCC_CUT_FOR_KERNELS } tcc_cut_for;
/* Sets `slice` to the first samples of v->batch: for results, as many as the options say, or half as often as the work
 * is too much for the interpreter; for kernels, as it is too much for a CPU that runs them. Of two it takes what is in
 * the middle of images, or the beginning of sequences. All of it, where the model takes no such slice. To be freed,
 * also after an error, with tcc__verify_free_slice; it has room for v->count arrays of zeros. */
tcc_status tcc__verify_cut(tcc_verification *v, tcc_cut_for what, tcc_array *slice, tcc_cut *cut);
static inline bool tcc__verify_is_cut(const tcc_cut *c) {
    return c->samples != c->all || c->extents[0] || c->positions;
}
/* "the first 2 of 8 samples of the batch". */
void tcc__verify_cut_print(tcc_strbuf *b, const tcc_cut *cut);
void tcc__verify_free_slice(const tcc_verification *v, tcc_array *slice, const tcc_array *batch); /* NULL is allowed */

/* -- In reference.c -- */

/* Says so where v->m is not finite before the step, or the batch has a NaN: then nothing can be judged. */
tcc_status tcc__verify_check_finite(const tcc_verification *v);
/* Makes v->reference from v->batch. */
tcc_status tcc__verify_reference(tcc_verification *v);

/* -- In values.c -- */

/* Tells the user of the model how the verification gets on. */
void tcc__verify_say(const tcc_verification *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A parameter, buffer or state before the step, or NULL. The host's side is up to date. */
const tcc_stored *tcc__verify_stored(const tcc_verification *v, const char *name);
/* What the step is fed with beside the batch: TCC_HYPER_MOST hyper-parameters, and the random key. */
void tcc__verify_feed(const tcc_verification *v, float *hyper, int64_t *rng);
/* Packed bits of an input of the training step, before the step; NULL: zeros. */
const void *tcc__verify_input(const tcc_verification *v, const tcc_node *n, const float *hyper, const int64_t *rng);
/* The same of all inputs of g, as values; those that nothing reads have no elements. The caller frees them with
 * tcc__values_free. */
tcc_status tcc__verify_inputs(const tcc_verification *v, const tcc_graph *g, tcc_value **out);
/* Frees the first `count` values and the array; NULL is allowed. */
void tcc__values_free(tcc_value *values, int count);
void tcc__noisy_array_free(tcc_noisy *values, int count);

/* The worst element of a value. */
typedef struct tcc_difference {
    double ratio; /* error over what is allowed; above 1 it is wrong */
    int64_t element;
    double got, want, allowed;
} tcc_difference;

/* `multiple` of the noise is allowed. `window`: over how many neighbours, in their order, an element's noise is evened
 * out; 0: over the whole. What the noise leaves open is not looked at. */
tcc_difference tcc__noisy_difference(const tcc_noisy *expected, const tcc_value *got, double multiple, int64_t window,
                                     double tolerance);
/* "element 3 of 100 is 1.5 instead of 1.2, where rounding explains 1e-07". */
void tcc__difference_print(tcc_strbuf *b, const tcc_difference *d, const tcc_type *type);

/* -- The parts; each fills *out where something is wrong -- */

/* In kernels.c. A program of the twin, run once more with all values kept apart. */
typedef struct tcc_verified {
    tcc_compiled *c;
    tcc_graph *g;
    const void **given;
    void *zeros;
    tcc_trial t;
    double work_left; /* for its kernels */
} tcc_verified;
/* Runs it so on the state of v->m and v->batch, and checks that each kernel does what its
 * group says, on the values that it gets. *p is to be cleared after an error, too. */
tcc_status tcc__verify_program(tcc_verification *v, tcc_compiled *c, tcc_verified *p, tcc_blame *out);
/* Once the twin has run it from the same state: that gave the same bits. */
tcc_status tcc__verify_bits(tcc_verification *v, const tcc_verified *p, tcc_blame *out);
void tcc__verified_clear(tcc_verified *p);
/* Runs the twin's program with all values kept apart; checks that this gives the same
 * bits, and that each kernel does what its group says, on the values that it gets. */
tcc_status tcc__verify_kernels(tcc_verification *v, tcc_blame *out);
/* In micro.c. Where the batch is taken in micro-batches: a twin takes the step so, and the programs that
 * add to sums, and that of the update, are verified as the one of the whole step is. `meaning`: so are their graphs,
 * and what comes of them. */
tcc_status tcc__verify_micro(tcc_verification *v, bool meaning, tcc_blame *out);
/* In passes.c. What the twin has computed of output i of the reference, against v->expected; *out stays
 * as it is where there is nothing of that name. */
tcc_status tcc__verify_result(tcc_verification *v, int i, tcc_difference *out);
/* Interprets v->reference, and compares what the twin has computed with it. */
tcc_status tcc__verify_outputs(tcc_verification *v, tcc_blame *out);
/* Makes v->meant: what the reference's outputs may be of a graph that is written in another way. */
tcc_status tcc__verify_meaning(tcc_verification *v);
/* A step of fp16 is skipped where a gradient is not finite, and nowhere else; then all that is stored keeps its bits.
 */
tcc_status tcc__verify_skip(tcc_verification *v, tcc_blame *out);
/* Interprets what the passes have left of the traced graph, and compares it with the reference's outputs. */
tcc_status tcc__verify_graph(tcc_verification *v, tcc_blame *out);
/* Takes the traced graph through the passes until an output differs from the reference's. Finding nothing leaves *out
 * as it is. */
tcc_status tcc__verify_passes(tcc_verification *v, tcc_blame *out, bool *found);

#endif
