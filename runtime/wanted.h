/* SPDX-License-Identifier: MIT
 * TCC_LIBRARIES: which libraries of others may be opened, by devices of all kinds. A list as in "cublaslt,cudnn", or
 * "none"; all if it is empty or not set. In it "cudnn.batch_norm" stands for cudnn and sends batch norms there wherever
 * it takes them, also where our kernels should be faster. Without "nccl" CUDA devices do not train together. */
#ifndef TCC_RUNTIME_WANTED_H
#define TCC_RUNTIME_WANTED_H

#include "ir/support/diag.h"

/* Errors: TCC_EINVAL for a name that is no library, with all that are. */
tcc_status tcc_libraries_check_wanted(tcc_diag *d);
/* Whether this library may be opened. */
bool tcc_library_wanted(const char *name);
/* Whether the list says "cudnn.batch_norm", or whatever `name` is, itself. */
bool tcc_libraries_prefer(const char *name);

#endif
