/* SPDX-License-Identifier: MIT
 * Functions of an opened library by name. */
#include "runtime/cpu/library_table.h"

#include <dlfcn.h>
#include <string.h>

bool tcc__library_function(const tcc_library_info *info, const char *symbol, void *function) {
    void *address = dlsym(info->handle, symbol);
    memcpy(function, &address, sizeof address); /* ISO C has no cast from object to function pointer */
    return address != NULL;
}
