/* SPDX-License-Identifier: MIT
 * Elements in packed memory: dense, row-major, of one element type. The one place where numbers become bits of a type
 * and come back. */
#ifndef TCC_SUPPORT_ELEMENT_H
#define TCC_SUPPORT_ELEMENT_H

#include "dtype.h"

/* Element `index` as a double: exact but for integers beyond 2^53. The memory may lie unaligned. */
double tcc_element_get(tcc_dtype t, const void *packed, int64_t index);
/* Writes x as tcc_dtype_round has it: rounded once. */
void tcc_element_set(tcc_dtype t, void *packed, int64_t index, double x);

/* The same of integers and bools, exact. A value that the type cannot hold wraps; bool is x != 0. */
int64_t tcc_element_get_int(tcc_dtype t, const void *packed, int64_t index);
void tcc_element_set_int(tcc_dtype t, void *packed, int64_t index, int64_t x);

/* `count` elements of one type as elements of another, each as the operation cast makes it: floats are rounded once, to
 * nearest even. No overlap; `from` may lie unaligned. */
void tcc_elements_cast(tcc_dtype to_type, void *to, tcc_dtype from_type, const void *from, int64_t count);

#endif
