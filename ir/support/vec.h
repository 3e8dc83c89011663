/* SPDX-License-Identifier: MIT
 * A growing array of any type on the heap: `tcc_vec(int) v = {0}; if (!tcc_vec_push(&v, 3)) goto out_of_memory;` */
#ifndef TCC_SUPPORT_VEC_H
#define TCC_SUPPORT_VEC_H

#include <stdbool.h>
#include <stddef.h>

#define tcc_vec(T)           \
    struct {                 \
        T *data;             \
        int count, capacity; \
    }

/* Append `value`; false when memory is short (the array is then unchanged). */
#define tcc_vec_push(v, ...)                                                           \
    (tcc__vec_grow((void **)&(v)->data, &(v)->capacity, (v)->count, sizeof *(v)->data) \
         ? ((v)->data[(v)->count++] = (__VA_ARGS__), true)                             \
         : false)
#define tcc_vec_free(v) tcc__vec_free((void **)&(v)->data, &(v)->count, &(v)->capacity)

bool tcc__vec_grow(void **data, int *capacity, int count, size_t element_bytes);
void tcc__vec_free(void **data, int *count, int *capacity);

#endif
