/* SPDX-License-Identifier: MIT
 * Objects for runtime tests, from LLVM IR text, so that a test shows the kernel that it runs. */
#ifndef TCC_TESTS_HARNESS_IR_OBJECT_H
#define TCC_TESTS_HARNESS_IR_OBJECT_H

#include <stdint.h>

/* Compile for `triple` (NULL: this machine; of another kind: one whose target was initialized) as position-independent
 * code. The bytes are the caller's, freed with free(). Prints and aborts on malformed IR. */
void *test_ir_object(const char *ir, const char *triple, int64_t *size_bytes);

#endif
