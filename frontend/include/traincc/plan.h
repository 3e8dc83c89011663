/* SPDX-License-Identifier: MIT
 * Training plans: a model's compiled programs in a file, with all that running them needs - parameters and how they
 * begin, inputs, optimizer, states. A plan is loaded and run without a compiler: libtraincc_rt has all of this header,
 * of context.h, data.h, checkpoint.h and metrics.h, and of model.h what does not ask the model's function.
 *
 * A plan runs on a machine of the kind that it was made for: a CPU with the same instruction sets, or a GPU of the
 * same architecture with the libraries whose calls it has. What it says of memory and of work is checked before it
 * runs. But it holds machine code, so load plans only from where you would run programs from. */
#ifndef TRAINCC_PLAN_H
#define TRAINCC_PLAN_H

#include "traincc/context.h"
#include "traincc/model.h"

TCC_API_BEGIN

/* Writes the programs that the model has so far, for training and evaluation: call tcc_model_compile for each batch
 * signature first. Values of parameters are not in it (checkpoint.h saves them), only how they begin. `about` is a text
 * of the caller's, kept with it; may be NULL. A model with options.arch can be saved, too. The file is replaced as a
 * whole or not at all. Errors: TCC_EINVAL (nothing is compiled), TCC_EIO. */
TCC_API tcc_status tcc_model_save_plan(tcc_model *m, const char *about, const char *path);

/* The model of a plan, with its parameters' initial values, ready to train and evaluate with batches of the signatures
 * that the plan has; others are TCC_EUNSUPPORTED. The learning rate and all other options are those it was made with.
 * `device`: as in tcc_model_options; NULL: "cpu" or "cuda", as the plan was made for. What asks the model's function
 * (tcc_model_verify, the reports "tir", "llvm" and "asm") is not there. A plan of one of several models that share
 * parameters has those that its own programs use; the model shares with none, but others may share with it.
 * Errors: TCC_EIO, TCC_ENOTFOUND (no such file), TCC_EFORMAT (no plan, of another version, or damaged),
 * TCC_EUNSUPPORTED (made for another kind of machine, or a library is missing), TCC_EDEVICE, TCC_ENOMEM. */
TCC_API tcc_status tcc_model_load_plan(tcc_context *cx, const char *path, const char *device, tcc_model **out);

/* The text that the plan was saved with, to be freed with tcc_string_free. */
TCC_API tcc_status tcc_plan_about(tcc_context *cx, const char *path, char **about);

TCC_API_END
#endif
