/* SPDX-License-Identifier: MIT
 * Makes a relocatable ELF object in memory executable, without LLVM and without the dynamic linker.
 *
 * The object is untrusted (it may come from a cache on disk): every offset, size, index and relocation is checked
 * before use, and a malformed one is an error. What its code does when called is of course the object's own affair.
 * Objects are closed: a reference to a symbol that the object does not define is an error, and so is code that would
 * run at load time. */
#ifndef TCC_RUNTIME_CPU_OBJECT_H
#define TCC_RUNTIME_CPU_OBJECT_H

#include "codegen/program.h"

typedef struct tcc_host_object tcc_host_object;

/* Load an object of this process's machine. `name` stands in messages; `code` is not needed afterwards. No page is ever
 * writable and executable at once. Errors: TCC_EFORMAT (malformed), TCC_EUNSUPPORTED (another machine, or a feature
 * kernels do not need), TCC_ENOTFOUND (an undefined symbol), TCC_ENOMEM. */
tcc_status tcc_host_object_load(tcc_diag *d, const char *name, const void *code, int64_t size_bytes,
                                tcc_host_object **out);
/* The function of that name; NULL if there is none. Valid until the object is destroyed. */
tcc_host_kernel tcc_host_object_kernel(const tcc_host_object *object, const char *symbol);
void tcc_host_object_destroy(tcc_host_object *object); /* NULL is allowed */

#endif
