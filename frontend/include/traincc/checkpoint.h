/* SPDX-License-Identifier: MIT
 * Weights in files: safetensors files as any public reader knows them, and the checkpoints of a run, which are two such
 * files each.
 *
 * Calls that take a context leave the error's text in it (tcc_context_error). */
#ifndef TRAINCC_CHECKPOINT_H
#define TRAINCC_CHECKPOINT_H

#include "traincc/api.h"
#include "traincc/array.h"
#include "traincc/context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

TCC_API_BEGIN

/* A small value by name, as text: the metadata of a file. */
typedef struct tcc_pair {
    const char *key, *value;
} tcc_pair;

/* ---- safetensors files ----
 * Format: https://github.com/huggingface/safetensors#format. 8 bytes of little-endian header
 * length, a JSON header that gives each tensor's dtype, shape and data_offsets, and the tensors'
 * bytes. */
typedef struct tcc_safetensors tcc_safetensors;

/* Opens a file. It is mapped, and its whole header is checked: sizes, bounds, overlaps, holes, types, names. Errors:
 * TCC_ENOTFOUND, TCC_EIO, TCC_EFORMAT (what is wrong, and with which tensor or at which byte), TCC_ENOMEM. A tensor of
 * an element type or rank that we lack cannot be read, but the others can. The caller closes it. */
TCC_API tcc_status tcc_safetensors_open(tcc_context *cx, const char *path, tcc_safetensors **out);
TCC_API void tcc_safetensors_close(tcc_safetensors *f); /* NULL is allowed */

/* The tensors, in the order of their bytes: `index` is from 0 to the count. Name and data live until the file is
 * closed. The data is read-only and may be unaligned; NULL: the tensor cannot be read, and is told as so many bytes. */
TCC_API int tcc_safetensors_count(const tcc_safetensors *f);
TCC_API tcc_array tcc_safetensors_get(const tcc_safetensors *f, int index);
TCC_API int tcc_safetensors_find(const tcc_safetensors *f, const char *name); /* its index; -1 if there is none */
/* A value of the header's __metadata__; NULL if there is none. Lives until the file is closed. */
TCC_API const char *tcc_safetensors_metadata(const tcc_safetensors *f, const char *key);

/* What a load may ignore; 0 is strict. */
enum {
    TCC_LOAD_ALLOW_MISSING = 1,    /* arrays that the file lacks keep their contents */
    TCC_LOAD_ALLOW_UNEXPECTED = 2, /* tensors of the file that nobody asked for */
};

/* Copies the file's tensors into the `count` arrays of `to`, by name. Shapes must agree. Float types are converted to
 * the destination's and rounded once, to nearest even; other types must be equal. On a mismatch nothing is copied, and
 * one error (TCC_ENOTFOUND, TCC_ESHAPE or TCC_EDTYPE) lists everything that is missing, unexpected, or of another shape
 * or type. If the file has our checksum, its data is checked against it first (TCC_EFORMAT). An array without a name or
 * data is TCC_EINVAL. */
TCC_API tcc_status tcc_safetensors_load(tcc_context *cx, const tcc_safetensors *f, const tcc_array *to, int count,
                                        unsigned allow);

/* Weights that other code wrote. `path` is a safetensors file, an index of several (*.index.json), or a folder with
 * model.safetensors.index.json or model.safetensors. */
typedef struct tcc_weights_options {
    size_t size; /* sizeof(tcc_weights_options) */
    /* Patterns as of a shell, as "classifier.*": arrays of such names keep what they hold, and nobody misses tensors of
     * such names. A pattern is compared with whole names and with those without their prefixes. */
    const char *const *ignore;
    int n_ignore;
} tcc_weights_options;

/* Copies tensors into the `count` arrays of `to` as tcc_safetensors_load does, and finds them by names that are equal
 * but for prefixes ("module.", "_orig_mod.", "model.", "transformer.", "distilbert.", "bert.", "roberta.", "vit.",
 * "deit."), for gamma and beta at their end, and for the two names of a tied head. Weights of GPT-2's code that lie as
 * [in, out] are transposed. All arrays but those ignored have to be there. What the file has beyond them is left over,
 * but not where it is of a kind of which the model has some, as of a further layer: that is an error. Options may be
 * NULL. `report`, which may be NULL, gets lines on what was loaded, by which rule, and what was not; to be freed with
 * tcc_string_free. Errors: those of tcc_safetensors_open and tcc_safetensors_load; TCC_EUNSUPPORTED (a pickle of
 * PyTorch, with the line that converts it); TCC_ENOTFOUND (a file that an index names). */
TCC_API tcc_status tcc_weights_load(tcc_context *cx, const char *path, const tcc_array *to, int count,
                                    const tcc_weights_options *options, char **report);

/* Writes `arrays` with `metadata` to `path`. The file is written under a temporary name beside it, synced and renamed.
 * So a previous file survives an error untouched. Errors: TCC_EIO (path and reason), TCC_EINVAL (a name that is
 * missing, empty, doubled, reserved or not UTF-8; no data), TCC_ENOMEM. Checksums of the tensors' bytes
 * ("traincc.crc32") and of the header ("traincc.header_crc32") are added to the metadata. */
TCC_API tcc_status tcc_safetensors_write(tcc_context *cx, const char *path, const tcc_array *arrays, int count,
                                         const tcc_pair *metadata, int metadata_count);

/* Writes any file as those above are written: under a temporary name beside it (PATH.tmp, made anew, links not
 * followed), synced and renamed, so that an error, a full disk or a kill leaves the previous file as it was. What is no
 * file, as a pipe, is written to as it is. Errors: TCC_EIO (path and reason), TCC_EINVAL, TCC_ENOMEM. */
TCC_API tcc_status tcc_file_write(tcc_context *cx, const char *path, const void *bytes, size_t size_bytes);

/* ---- checkpoints ----
 * A checkpoint of step N is two files. FOLDER/step-NNNNNN.safetensors has the parameters and buffers alone.
 * FOLDER/step-NNNNNN.state.safetensors has all else that an exact resume needs. It exists as a whole or not at all: the
 * state is written first, and renaming the parameters' file is the commit. */
typedef struct tcc_checkpoint_contents {
    size_t size; /* sizeof(tcc_checkpoint_contents) */
    int64_t step;
    const tcc_array *params; /* parameters and buffers, PyTorch-style names */
    int n_params;
    const tcc_array *state; /* optimizer moments and the like */
    int n_state;
    const tcc_pair *values; /* small state: positions, seeds, best metric */
    int n_values;
} tcc_checkpoint_contents;

/* Saves into `folder`, which is created if it is missing; its parent is not. The contents are borrowed for the call. On
 * an error nothing earlier is lost. Errors: as those of tcc_safetensors_write. */
TCC_API tcc_status tcc_checkpoint_save(tcc_context *cx, const char *folder, const tcc_checkpoint_contents *contents);

/* The steps of the checkpoints in `folder`, ascending. Writes at most `capacity` of them to `steps`, the newest if
 * there are more, and the number of all to *count. A folder that does not exist has none. */
TCC_API tcc_status tcc_checkpoint_list(tcc_context *cx, const char *folder, int64_t *steps, int capacity, int *count);

/* Removes the checkpoint of a step, if there is one. Errors: TCC_EIO, TCC_ENOMEM. */
TCC_API tcc_status tcc_checkpoint_remove(tcc_context *cx, const char *folder, int64_t step);

typedef struct tcc_checkpoint tcc_checkpoint;

/* Opens a checkpoint. `path` is a folder, which means its newest one, or a step-NNNNNN.safetensors file whose state
 * lies beside it. Both files are checked as a whole, checksums included, and against each other. A damaged one is an
 * error (TCC_EFORMAT) that names the newest earlier checkpoint that is sound; it is never skipped silently. The caller
 * closes it. */
TCC_API tcc_status tcc_checkpoint_open(tcc_context *cx, const char *path, tcc_checkpoint **out);
TCC_API void tcc_checkpoint_close(tcc_checkpoint *c); /* NULL is allowed */

TCC_API int64_t tcc_checkpoint_step(const tcc_checkpoint *c);
TCC_API const char *tcc_checkpoint_path(const tcc_checkpoint *c); /* of the parameters' file; lives as long as `c` */
/* A saved small value; NULL if there is none. Lives as long as the checkpoint is open. */
TCC_API const char *tcc_checkpoint_value(const tcc_checkpoint *c, const char *key);
/* The two files, to look into or to load with tcc_safetensors_load. They live as long as the checkpoint is open. */
TCC_API const tcc_safetensors *tcc_checkpoint_params(const tcc_checkpoint *c);
TCC_API const tcc_safetensors *tcc_checkpoint_state(const tcc_checkpoint *c);
/* Copies averages of parameters (tcc_optimizer_options.ema_decay), which the state has as NAME.ema, into the arrays of
 * `to`, by name. Arrays without an average, as of what is not trained, keep what they hold. *found: there are averages.
 * Errors: those of tcc_safetensors_load. */
TCC_API tcc_status tcc_checkpoint_load_averages(tcc_context *cx, const tcc_checkpoint *c, const tcc_array *to,
                                                int count, bool *found);

TCC_API_END

#endif
