/* SPDX-License-Identifier: MIT
 * Loading a kernel's object in a test: emit, load, look up a symbol, call it. */
#ifndef TCC_TESTS_HARNESS_OBJECT_H
#define TCC_TESTS_HARNESS_OBJECT_H

#include "codegen/emit/emitter.h"

typedef struct test_object test_object;

/* Finish the emitter, emit its object and make it executable. Fails the test with the diagnostic's text on an error. */
test_object *test_object_load(tcc_emitter *e);
tcc_host_kernel test_object_kernel(test_object *o, const char *symbol);
void test_object_free(test_object *o);

#endif
