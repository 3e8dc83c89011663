/* SPDX-License-Identifier: MIT
 * Amounts of memory as people write them: "1.5GiB", "800 MB", "123456789". */
#ifndef TCC_SUPPORT_SIZE_H
#define TCC_SUPPORT_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* A decimal number without sign, in any locale: "12", "1.5", ".5", "2e9"; spaces before and after it. Returns what
 * follows; NULL: none is there. */
const char *tcc_number_parse(const char *text, double *out);
/* A number with a unit, or of bytes; true if it is one, above 0 and below 2^60. */
bool tcc_size_parse(const char *text, int64_t *bytes);

#endif
