/* SPDX-License-Identifier: MIT
 * The compiler from outside: graphs as text (.tir), passes by name, memory plans. It is for tools and for people who
 * look inside; training needs none of it. Calls that take a context leave the error's text in it. */
#ifndef TRAINCC_IR_H
#define TRAINCC_IR_H

#include "traincc/api.h"
#include "traincc/context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

TCC_API_BEGIN

/* A graph. It must be destroyed before its context. */
typedef struct tcc_ir tcc_ir;

/* Parses and checks one graph, which the caller destroys. `file` names the text in messages. Errors, with the line:
 * TCC_EPARSE, those of the ops, TCC_ENOMEM. */
TCC_API tcc_status tcc_ir_parse(tcc_context *cx, const char *text, size_t length, const char *file, tcc_ir **out);
TCC_API void tcc_ir_destroy(tcc_ir *ir); /* NULL is allowed */

/* What texts tcc_ir_text can make. */
typedef enum tcc_ir_form {
    TCC_IR_TIR,        /* parses back to the same graph */
    TCC_IR_TIR_LOCS,   /* with the user's lines */
    TCC_IR_DOT,        /* graphviz */
    TCC_IR_MEMORY,     /* table of the memory plan; needs plan-memory */
    TCC_IR_MEMORY_SVG, /* picture of it */
} tcc_ir_form;
/* The text, which the caller frees with tcc_ir_free_text. */
TCC_API tcc_status tcc_ir_text(tcc_context *cx, const tcc_ir *ir, tcc_ir_form form, char **out);
TCC_API void tcc_ir_free_text(char *text); /* NULL is allowed */

typedef struct tcc_ir_options {
    size_t size;           /* sizeof(tcc_ir_options) */
    bool train;            /* the whole pipeline only: with gradients and updates */
    bool eager;            /* fuse: every op its own group */
    const char *optimizer; /* train-step: "sgd", "adamw", ... (optimizer.def); NULL: none */
    bool momentum, nesterov, clip_norm, keep_gradients; /* train-step */
    bool no_verify;                                     /* do not check the graph after every pass */
    const char *dump_dir;      /* write the graph before and after every pass there; NULL: no */
    bool time;                 /* log times whatever TCC_LOG says */
    const char *target;        /* what code would be for, which select asks: "host", which is this machine, a CPU's
                             "x86-64-v3", or a GPU's "sm_90"; NULL: nothing */
    bool libraries;            /* as if the target's libraries took every call that they are asked about */
    const char *amp;           /* amp: the low type, "f16" or "bf16"; NULL: the pipeline has no mixed precision */
    const char *amp_ops;       /* amp: other classes for some ops, "gelu=fp32,take=fp32"; NULL: none */
    int64_t chunk_rows;        /* chunk: cut every product of more rows into chunks of so many; 0: by cost */
    const char *checkpointing; /* remat: "auto" (NULL), "none" or "segments" */
    const char
        *memory_budget; /* remat: as tcc_model_options.memory_budget, but for "auto"; NULL: none. The pipeline has
                                  the pass with a budget or with segments */
} tcc_ir_options;

/* Runs the passes named in `passes`, comma-separated, or the whole pipeline if it is NULL. *ir becomes the result; on
 * an error it is the last good graph. `options` may be NULL. Errors: TCC_EINVAL (no such pass or optimizer),
 * TCC_EUNSUPPORTED (no such target), those of the passes, TCC_EBUG (a pass broke the graph). */
TCC_API tcc_status tcc_ir_run(tcc_context *cx, tcc_ir **ir, const char *passes, const tcc_ir_options *options);

/* Name and meaning of pass number `index`, from 0; false past the last. The texts are static. */
TCC_API bool tcc_ir_pass_info(int index, const char **name, const char **doc);
/* Name and meaning of op number `index`, from 0; false past the last. The texts are static. */
TCC_API bool tcc_ir_op_info(int index, const char **name, const char **doc);

TCC_API_END
#endif
