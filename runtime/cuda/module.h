/* SPDX-License-Identifier: MIT
 * A program's PTX on a CUDA device: loading it, and keeping it for a person where it fails. */
#ifndef TCC_RUNTIME_CUDA_MODULE_H
#define TCC_RUNTIME_CUDA_MODULE_H

#include "runtime/cuda/context.h"

/* Load all modules; the driver compiles what `store` (may be NULL) does not have, and what it says on a failure is in
 * the error. `modules` has n_modules entries, NULL where none was loaded. Entered. Errors: TCC_EUNSUPPORTED (the driver
 * is too old for the PTX), TCC_EDEVICE, TCC_ENOMEM. */
tcc_status tcc__cuda_modules_load(tcc_device_cuda *cuda, tcc_diag *d, const tcc_program *program,
                                  const tcc_code_store *store, tcc_cuda_module *modules);
/* Write a module's PTX to a new file in TMPDIR, and add its name to the error. */
void tcc__cuda_module_save(tcc_diag *d, const tcc_program *program, int module);

#endif
