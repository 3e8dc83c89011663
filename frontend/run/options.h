/* SPDX-License-Identifier: MIT
 * The options of a model, its optimizer and groups of parameters as a table (options.def). */
#ifndef TCC_FRONTEND_RUN_OPTIONS_H
#define TCC_FRONTEND_RUN_OPTIONS_H

#include "ir/support/diag.h"
#include "ir/support/strbuf.h"
#include "traincc/model.h"

typedef enum tcc_option_of { TCC_OPTION_OF_MODEL, TCC_OPTION_OF_OPTIMIZER, TCC_OPTION_OF_GROUP } tcc_option_of;
typedef enum tcc_option_type {
    TCC_OPTION_BOOL,
    TCC_OPTION_ENUM,
    TCC_OPTION_INT,
    TCC_OPTION_I64,
    TCC_OPTION_U64,
    TCC_OPTION_REAL,
    TCC_OPTION_TEXT,
    TCC_OPTION_POINTER
} tcc_option_type;
typedef enum tcc_option_key {
    TCC_OPTION_KEY_NOT,
    TCC_OPTION_KEY_PART,
    TCC_OPTION_KEY_CODE,
    TCC_OPTION_KEY_STEP,
    TCC_OPTION_KEY_STEP_IF
} tcc_option_key;

typedef struct tcc_option {
    const char *name;
    tcc_option_of of;
    tcc_option_key key;
    bool in_plan;
    tcc_option_type type;
    size_t offset; /* in the struct that it is of */
    double least, most;
    bool below;   /* most itself is too much */
    bool or_rest; /* NaN: as of the rest */
} tcc_option;

/* Row `index` of options.def; NULL past the last. */
const tcc_option *tcc__option(int index);
bool tcc__option_fits(const tcc_option *o, const void *options);
/* TCC_EINVAL for the first that is out of its range. `who` begins the message: "optimizer: ". */
tcc_status tcc__options_check(tcc_diag *diag, tcc_option_of of, const char *who, const void *options);
/* " name=value" of each that a program depends on, but for what other parts of its key say. */
void tcc__options_print_key(tcc_strbuf *b, tcc_option_of of, const void *options, bool train);
/* " name=value" of each that training depends on: what a program depends on, and what a plan's file has. */
void tcc__options_print_training(tcc_strbuf *b, tcc_option_of of, const void *options);

bool tcc__optimizer_reads(tcc_optimizer_kind kind, tcc_optimizer_reads what);
/* Those that do: "TCC_ADAM, TCC_ADAMW or TCC_LION". */
enum { TCC_OPTIMIZERS_TEXT = 256 };
void tcc__optimizers_reading(tcc_optimizer_reads what, char names[TCC_OPTIMIZERS_TEXT]);

#endif
