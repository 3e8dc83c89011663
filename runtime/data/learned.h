/* SPDX-License-Identifier: MIT
 * What a data set learns from its training files, as JSON: names of classes, columns with their statistics, characters,
 * means and deviations. Kept with a run, it makes later data read in the same way, without the training files. */
#ifndef TCC_RUNTIME_DATA_LEARNED_H
#define TCC_RUNTIME_DATA_LEARNED_H

#include "runtime/data/data.h"
#include "runtime/data/tokenize/tokenizer.h"
#include "runtime/files/list.h"

#include <cjson/cJSON.h>

/* Members that doubles survive in, bit for bit. False when memory is short. */
bool tcc__learn_number(cJSON *to, const char *key, double value);
bool tcc__learn_text(cJSON *to, const char *key, const char *value);
/* The member "tokenizer". */
bool tcc__learn_tokenizer(cJSON *to, const tcc_tokenizer *t);

/* The members of what was learned. A text that is not ours ends in EFORMAT, which names the member. */
tcc_status tcc__learned_number(tcc_diag *d, const cJSON *from, const char *key, double *out);
/* A whole number from 0 to `most`. */
tcc_status tcc__learned_integer(tcc_diag *d, const cJSON *from, const char *key, int64_t most, int64_t *out);
tcc_status tcc__learned_text(tcc_diag *d, const cJSON *from, const char *key, const char **out);
tcc_status tcc__learned_list(tcc_diag *d, const cJSON *from, const char *key, const cJSON **out);
/* The names of the classes, appended. */
tcc_status tcc__learned_classes(tcc_diag *d, const cJSON *from, tcc__file_list *out);

/* Errors: ENOTFOUND, EIO, ENOMEM. */
tcc_status tcc__digest_of(tcc_diag *d, const char *path, tcc__digest *out);
/* Of a file's bytes, as a digest looks at them; `rough`: of its size alone. */
uint64_t tcc__file_hash(const char *path, bool rough);

#endif
