/* SPDX-License-Identifier: MIT
 * PNG files in memory. */
#ifndef TCC_RUNTIME_FILES_PNG_H
#define TCC_RUNTIME_FILES_PNG_H

#include "ir/support/diag.h"
#include "ir/support/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Adds the file to `out`. 1 channel: grey; 3: red, green, blue. Errors: ENOMEM, and then `out` is freed. */
tcc_status tcc__png_encode(tcc_diag *d, const uint8_t *pixels, int64_t height, int64_t width, int channels,
                           tcc_strbuf *out);

/* What a file's head says. The EXIF data is the decoder's, NULL where the file has none. */
typedef struct tcc__png_head {
    int64_t height, width;
    int channels; /* 3, or 1 of labels */
    const uint8_t *exif;
    size_t exif_bytes;
} tcc__png_head;

typedef struct tcc__png_reader {
    bool labels; /* a grey or palette picture's numbers, as they are, instead of colours of 8 bits */
    int64_t side_max;
    /* Is told the head and gives room for height x width x channels bytes; NULL: the head is all that is wanted. */
    tcc_status (*begin)(tcc_diag *d, const tcc__png_head *head, uint8_t **pixels, void *user);
    void *user;
} tcc__png_reader;

/* Errors are of the file at `path`: EFORMAT; ENOMEM; what begin returns. */
tcc_status tcc__png_decode(tcc_diag *d, const char *path, const void *file, size_t size, const tcc__png_reader *reader);

#endif
