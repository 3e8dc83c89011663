/* SPDX-License-Identifier: MIT
 * The files that weights of other code lie in. */
#ifndef TCC_RUNTIME_FILES_WEIGHTS_FILES_H
#define TCC_RUNTIME_FILES_WEIGHTS_FILES_H

#include "ir/support/vec.h"
#include "runtime/files/safetensors.h"

typedef tcc_vec(tcc_safetensors *) tcc__weights_files;

/* Opens what `path` is: a safetensors file, the index of several, or a folder with one of these, and checks their
 * sums. What is open has to be closed after an error, too. */
tcc_status tcc__weights_files_open(tcc_diag *d, const char *path, tcc__weights_files *out);
void tcc__weights_files_close(tcc__weights_files *files);

#endif
