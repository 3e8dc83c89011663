/* SPDX-License-Identifier: MIT
 * Pictures from PNG and JPEG files. */
#ifndef TCC_RUNTIME_DATA_PICTURES_PICTURE_H
#define TCC_RUNTIME_DATA_PICTURES_PICTURE_H

#include "ir/support/diag.h"
#include "runtime/files/file.h"

#include <stdbool.h>
#include <stdint.h>

enum { TCC__PICTURE_SIDE_MAX = 32768, TCC__PICTURE_PIXELS_MAX = 1 << 28 };

typedef struct tcc__picture {
    int64_t height, width;
    int channels;    /* 3: red, green, blue; 1: labels */
    uint8_t *pixels; /* row by row, a pixel's channels beside each other; freed with tcc__free */
} tcc__picture;

typedef enum tcc__picture_form {
    TCC__PICTURE_SIZE,   /* height and width alone */
    TCC__PICTURE_RGB,    /* transparency is left out, 16 bits become 8 */
    TCC__PICTURE_LABELS, /* a number a pixel, as stored: of PNG files, grey or with a palette */
} tcc__picture_form;

/* Is this a name of a PNG or JPEG file? */
bool tcc__picture_is_named(const char *name);
/* Read a file. Errors: ENOTFOUND, EIO, EFORMAT (the file, what is wrong, and about where), ENOMEM. */
tcc_status tcc__picture_load(tcc_diag *d, const char *path, tcc__picture_form form, tcc__picture *out);

/* One decoder each; `file` begins as its format does. */
tcc_status tcc__png_decode(tcc_diag *d, const char *path, const tcc__bytes *file, tcc__picture_form form,
                           tcc__picture *out);
tcc_status tcc__jpeg_decode(tcc_diag *d, const char *path, const tcc__bytes *file, tcc__picture_form form,
                            tcc__picture *out);
/* Room for the pixels of out->height, width and channels; the sizes are checked. */
tcc_status tcc__picture_room(tcc_diag *d, const char *path, tcc__picture *out);

#endif
