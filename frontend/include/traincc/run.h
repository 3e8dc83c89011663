/* SPDX-License-Identifier: MIT
 * What comes after training: text from a language model.
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

TCC_API_END

#endif
