/* SPDX-License-Identifier: MIT
 * Growing arrays. */
#include "vec.h"
#include "alloc.h"

#include <limits.h>

bool tcc__vec_grow(void **data, int *capacity, int count, size_t element_bytes) {
    if (count < *capacity) return true;
    if (*capacity > INT_MAX / 2) return false;
    int larger = *capacity ? 2 * *capacity : 8;
    void *moved = tcc__realloc(*data, (size_t)larger * element_bytes);
    if (!moved) return false;
    *data = moved;
    *capacity = larger;
    return true;
}

void tcc__vec_free(void **data, int *count, int *capacity) {
    tcc__free(*data);
    *data = NULL;
    *count = *capacity = 0;
}
