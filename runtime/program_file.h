/* SPDX-License-Identifier: MIT
 * Programs as bytes, sealed (stream.h): for the cache, and for a runtime without a compiler. */
#ifndef TCC_RUNTIME_PROGRAM_FILE_H
#define TCC_RUNTIME_PROGRAM_FILE_H

#include "codegen/program.h"

enum { TCC_PROGRAM_FILE_VERSION = 9 };

/* The program's bytes, which the caller frees with tcc__free. Errors: TCC_ENOMEM, TCC_EFORMAT (the program is
 * malformed). */
tcc_status tcc_program_encode(tcc_diag *d, const tcc_program *p, void **bytes, int64_t *size_bytes);
/* The program in these bytes, checked as tcc_program_check does; the bytes are not needed afterwards. `name` stands in
 * messages. Errors: TCC_EFORMAT (damaged, or another version), TCC_ENOMEM. */
tcc_status tcc_program_decode(tcc_diag *d, const char *name, const void *bytes, int64_t size_bytes, tcc_program **out);

#endif
