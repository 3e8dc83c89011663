/* SPDX-License-Identifier: MIT What comes after training: answers of a model, text from a language model, and runs of
 * tcc-train, which are used without a compiler: libtraincc_rt has all of this header.
 *
 *     tcc_run *run;
 *     if (tcc_run_open(cx, "runs/csv-mlp", &run)) ...;
 *     if (tcc_run_predict(run, "rows.csv", print_answer, NULL)) ...;
 *     tcc_run_close(run);
 *
 * Calls that take a context leave the error's text in it (tcc_context_error). */
#ifndef TRAINCC_RUN_H
#define TRAINCC_RUN_H

#include "traincc/context.h"
#include "traincc/data.h"
#include "traincc/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

TCC_API_BEGIN

/* ---- answers ---- */

/* What a model says of a row, a text or a picture. All is borrowed for the call that gives it. */
typedef struct tcc_answer {
    int64_t index;       /* of the row, text or picture, from 0 */
    const char *id;      /* tcc_dataset_sample_name: a picture's path, a row's id; else NULL */
    const float *values; /* probabilities of the classes; of regression the numbers, in the targets' units */
    int64_t n_values;
    int64_t label;        /* the likeliest class; -1: of regression, or what was computed is NaN */
    int64_t target_label; /* the class that the data has; -1: none */
    const float *target;  /* the numbers that the data has, n_values of them; NULL: none */
} tcc_answer;
/* False ends it. */
typedef bool (*tcc_answer_fn)(void *user, const tcc_answer *answer);

/* Zero fields take the defaults given here. */
typedef struct tcc_predict_options {
    size_t size;        /* sizeof(tcc_predict_options) */
    int64_t batch_size; /* default: 64 */
    int num_workers;    /* threads that read ahead */
} tcc_predict_options;

/* Answers for the validation samples of a data set, in their order. The model's function gives, for input x alone, an
 * output "logits", f32 [batch, classes], and "probabilities", their softmax; or "logits", [batch, numbers], of
 * regression. Batches are all of one size, so one program does. Errors: TCC_EINVAL (an option; data of kind text,
 * tokens or segmentation; no samples), those of reading and of the model. */
TCC_API tcc_status tcc_model_predict(tcc_context *cx, tcc_model *model, const tcc_dataset *data,
                                     const tcc_predict_options *options, tcc_answer_fn fn, void *user);

/* ---- text ---- */

/* Zero fields take the defaults given here. */
typedef struct tcc_generate_options {
    size_t size;          /* sizeof(tcc_generate_options) */
    const char *prompt;   /* the text to go on from, UTF-8 unless tokens are bytes; not empty; required */
    size_t prompt_length; /* in bytes; default: up to its NUL */
    int64_t length;       /* the most tokens to write; default: 256 */
    double temperature;   /* logits are divided by it; 0: the likeliest token is taken */
    int64_t top_k;        /* draw from so many tokens, the likeliest; default: all */
    double top_p;         /* draw from as few of the likeliest of these as have this probability together; default: 1 */
    uint64_t seed;        /* of the draws: the same one gives the same text */
    const char *stop;     /* the text ends before this one, which is not given; default: none */
} tcc_generate_options;

/* Takes the next piece of the text: whole characters, where tokens are not single bytes. False ends it. */
typedef bool (*tcc_generate_fn)(void *user, const char *text, size_t length);

/* Writes what follows the prompt, a token at a time, and gives it to `fn` as it is made. What the model has written
 * takes part in what it writes next, as far as its context reaches.
 *
 * `data` has the vocabulary: kind text, or kind tokens with a known tokenizer. The model's function gives, for inputs
 * x, i32 [1, T] with any T up to the context, and at, i32 [1], an output "logits", f32 [1, vocab]: those behind token
 * `at` (tcc_gpt_next). Tokens behind that one are 0, and must change nothing. A program is compiled for each of a
 * few T when it is first needed. *count, where `count` is not NULL, is the number of tokens that were made.
 *
 * Errors: TCC_EINVAL (an option; a prompt that is empty, longer than the context, not UTF-8, or has a character that
 * the vocabulary lacks; data without text; logits that are not numbers), and those of the model. */
TCC_API tcc_status tcc_generate(tcc_context *cx, tcc_model *model, const tcc_dataset *data,
                                const tcc_generate_options *options, tcc_generate_fn fn, void *user, int64_t *count);
/* Shape `index`, from 0, of the arrays "x" and "at" that tcc_generate runs the model with, without data, so that
 * programs for all can be compiled ahead; false past the last. */
TCC_API bool tcc_generate_shape(const tcc_dataset *data, int index, tcc_array shape[2]);

/* ---- runs ---- */

typedef struct tcc_run tcc_run;

/* The files of a run or an export that this needs, and keys of the weights' metadata. */
#define TCC_RUN_PLAN "predict.plan"
#define TCC_RUN_WEIGHTS "model.safetensors" /* of an export */
#define TCC_RUN_CHECKPOINTS "checkpoints"   /* the folder in that of a run */
#define TCC_RUN_LEARNED "traincc.data"      /* tcc_dataset_learned */
#define TCC_RUN_KIND "traincc.kind"         /* tcc_data_options.kind */

/* Opens a run: its weights, compiled programs and what was learned from the training data. `folder` is that of a run of
 * tcc-train, which may still train: then its newest checkpoint is taken, and averages where it has some; or what
 * tcc-train export wrote. It runs on a device of the kind that it was trained or exported on. It holds machine code, so
 * open only what you would run programs from. The caller closes it, before the context. Errors: those of
 * tcc_model_load_plan, tcc_checkpoint_open and tcc_safetensors_open; TCC_ENOTFOUND where there is no predict.plan: in
 * folders of older versions, of runs from a plan, and of segmentation, tcc-train export makes one. */
TCC_API tcc_status tcc_run_open(tcc_context *cx, const char *folder, tcc_run **out);
TCC_API void tcc_run_close(tcc_run *run); /* NULL is allowed */

/* Its vocabulary, and names of classes; no samples. Both live as long as the run. */
TCC_API const tcc_dataset *tcc_run_data(const tcc_run *run);
TCC_API tcc_model *tcc_run_model(const tcc_run *run);

/* Answers for a file: a table as in training, whose targets may be missing; a file with a text a line; a picture, or a
 * folder of pictures. Errors: those of tcc_dataset_open and tcc_model_predict. */
TCC_API tcc_status tcc_run_predict(tcc_run *run, const char *path, tcc_answer_fn fn, void *user);
/* The same for what such a file would hold. */
TCC_API tcc_status tcc_run_predict_bytes(tcc_run *run, const void *bytes, size_t size_bytes, tcc_answer_fn fn,
                                         void *user);
/* Text, of a language model. */
TCC_API tcc_status tcc_run_generate(tcc_run *run, const tcc_generate_options *options, tcc_generate_fn fn, void *user,
                                    int64_t *count);

TCC_API_END

#endif
