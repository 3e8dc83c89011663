/* SPDX-License-Identifier: MIT
 * Which tensor of files is which parameter of a model, by their names. */
#ifndef TCC_RUNTIME_FILES_WEIGHTS_NAMES_H
#define TCC_RUNTIME_FILES_WEIGHTS_NAMES_H

#include "ir/support/arena.h"
#include "runtime/files/weights_files.h"

/* A name, and what it has in common with the names that other code gives to the same: its key is the name without
 * "module.", "bert." and the like in front, and with "weight" and "bias" for "gamma" and "beta" at the end. */
typedef struct tcc__weight_name {
    const char *name, *key;
    int prefix;   /* length of what the key lacks in front */
    bool renamed; /* at its end */
} tcc__weight_name;

/* What becomes of a tensor of the files. */
typedef enum tcc__weight_fate {
    TCC__WEIGHT_LEFT_OVER, /* nobody asks for it */
    TCC__WEIGHT_USED,
    TCC__WEIGHT_IGNORED, /* the caller names it */
    TCC__WEIGHT_SKIPPED, /* a counter or a mask, which no network of ours has */
    TCC__WEIGHT_SAME,    /* what was used, once more: a tied head */
    TCC__WEIGHT_MORE     /* of a kind that the model has, but with another number: a further layer */
} tcc__weight_fate;

typedef struct tcc__weight_tensor {
    tcc__weight_name is;
    const tcc_safetensors *file;
    int index;
    tcc__weight_fate fate;
} tcc__weight_tensor;

typedef struct tcc__weight_match {
    tcc_arena memory;
    tcc__weight_tensor *tensors;
    int n_tensors;
    tcc__weight_name *wanted; /* of the arrays that are to be filled, */
    int *from;                /* the tensor of each; -1: none; -2: it is to be left alone */
    int n_wanted;
} tcc__weight_match;

enum { TCC__WEIGHT_MISSING = -1, TCC__WEIGHT_LEFT_ALONE = -2 };

/* Finds all. `path` is for messages. Errors: EFORMAT (two tensors may be one parameter; a head that is not tied),
 * ENOMEM. The match is freed in any case. */
tcc_status tcc__weights_match(tcc_diag *d, const char *path, const tcc__weights_files *files, const tcc_array *to,
                              int count, const tcc_weights_options *o, tcc__weight_match *out);
void tcc__weights_match_free(tcc__weight_match *m);

/* What kind of counter or mask a tensor is, in words; NULL: of none. */
const char *tcc__weight_skipped_kind(const tcc__weight_name *n);
/* Whether a key is of a weight that GPT-2's code keeps as [in, out]. */
bool tcc__weight_is_conv1d(const char *key);
bool tcc__weight_ends_with(const char *name, const char *end);

#endif
