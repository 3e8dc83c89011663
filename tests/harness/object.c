/* SPDX-License-Identifier: MIT
 * Loading a kernel's object in a test, through the runtime's own loader. */
#include "object.h"

#include "runtime/cpu/object.h"

#include <stdio.h>
#include <stdlib.h>

struct test_object {
    tcc_host_object *object;
};

static _Noreturn void give_up(const tcc_diag *diag) {
    fprintf(stderr, "an object for a test: %s\n", tcc_diag_text(diag));
    abort();
}

test_object *test_object_load(tcc_emitter *e) {
    tcc_arena arena = {0};
    tcc_module module;
    if (tcc_emitter_finish(e, NULL) != TCC_OK || tcc_emitter_object(e, &arena, &module) != TCC_OK) give_up(e->diag);
    test_object *o = calloc(1, sizeof *o);
    tcc_diag diag = {0};
    if (tcc_host_object_load(&diag, "test", module.code, module.size_bytes, &o->object) != TCC_OK) give_up(&diag);
    tcc_arena_free(&arena);
    return o;
}

tcc_host_kernel test_object_kernel(test_object *o, const char *symbol) {
    tcc_host_kernel kernel = tcc_host_object_kernel(o->object, symbol);
    if (!kernel) {
        fprintf(stderr, "no kernel '%s'\n", symbol);
        abort();
    }
    return kernel;
}

void test_object_free(test_object *o) {
    tcc_host_object_destroy(o->object);
    free(o);
}
