/* SPDX-License-Identifier: MIT
 * Pictures as PNG files in memory. Reading them is another room's (runtime/data/pictures). */
#ifndef TCC_RUNTIME_FILES_PNG_ENCODE_H
#define TCC_RUNTIME_FILES_PNG_ENCODE_H

#include "ir/support/diag.h"
#include "ir/support/strbuf.h"

#include <stdint.h>

/* Adds the file to `out`. 1 channel: grey; 3: red, green, blue. Errors: ENOMEM, and then `out` is freed. */
tcc_status tcc__png_encode(tcc_diag *d, const uint8_t *pixels, int64_t height, int64_t width, int channels,
                           tcc_strbuf *out);

#endif
