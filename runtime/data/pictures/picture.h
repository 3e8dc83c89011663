/* SPDX-License-Identifier: MIT
 * Pictures from PNG, JPEG and WebP files, as viewers show them. */
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
    int orientation; /* of EXIF, 1 to 8; 0: the file has none. Of a picture that was loaded: 0 */
} tcc__picture;

typedef enum tcc__picture_form {
    TCC__PICTURE_SIZE,   /* height and width alone */
    TCC__PICTURE_RGB,    /* grey and CMYK too; transparency is left out, 16 bits become 8 */
    TCC__PICTURE_LABELS, /* a number a pixel, as stored: of PNG files, grey or with a palette */
} tcc__picture_form;

/* Is this a name of a PNG, JPEG or WebP file? */
bool tcc__picture_is_named(const char *name);
/* Read a file. Errors: ENOTFOUND, EIO, EFORMAT (the file, what is wrong, and about where), ENOMEM. */
tcc_status tcc__picture_load(tcc_diag *d, const char *path, tcc__picture_form form, tcc__picture *out);
/* The size of a picture whose file is there to its end: what does not end as its format does is decoded. */
tcc_status tcc__picture_check(tcc_diag *d, const char *path, tcc__picture *size);

/* One decoder each; `file` begins as its format does. */
tcc_status tcc__picture_png(tcc_diag *d, const char *path, const tcc__bytes *file, tcc__picture_form form,
                            tcc__picture *out);
tcc_status tcc__jpeg_decode(tcc_diag *d, const char *path, const tcc__bytes *file, tcc__picture_form form,
                            tcc__picture *out);
tcc_status tcc__webp_decode(tcc_diag *d, const char *path, const tcc__bytes *file, tcc__picture_form form,
                            tcc__picture *out);
/* 1 to 8; 1, which is upright, where the data does not say. */
int tcc__exif_orientation(const uint8_t *data, size_t size);
/* Turns and mirrors a picture, or its size alone, so that it is upright. */
tcc_status tcc__picture_turn(tcc_diag *d, int orientation, tcc__picture *p);
/* Room for the pixels of out->height, width and channels; the sizes are checked. */
tcc_status tcc__picture_room(tcc_diag *d, const char *path, tcc__picture *out);

#endif
