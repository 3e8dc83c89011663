/* SPDX-License-Identifier: MIT
 * WebP files, by libwebp. */
#include "runtime/data/pictures/picture.h"

#include <string.h>

#include <webp/decode.h>

enum { RIFF_HEADER = 12, CHUNK_HEADER = 8 };

static size_t number(const uint8_t *at) {
    return (size_t)at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
}

static bool has_exif(const tcc__bytes *file) {
    return file->size > RIFF_HEADER + CHUNK_HEADER && !memcmp(file->data + RIFF_HEADER, "VP8X", 4) &&
           file->data[RIFF_HEADER + CHUNK_HEADER] & 0x08;
}

/* EXIF data has a chunk of its own, behind the picture's. */
static int orientation_of(const tcc__bytes *file) {
    for (size_t at = RIFF_HEADER; at + CHUNK_HEADER <= file->size;) {
        const size_t size = number(file->data + at + 4);
        if (size > file->size - at - CHUNK_HEADER) break;
        if (!memcmp(file->data + at, "EXIF", 4)) return tcc__exif_orientation(file->data + at + CHUNK_HEADER, size);
        at += CHUNK_HEADER + size + (size & 1);
    }
    return 1;
}

static tcc_status refuse(tcc_diag *d, const char *path, const char *why) {
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "WebP: %s", why);
}

tcc_status tcc__webp_decode(tcc_diag *d, const char *path, const tcc__bytes *file, tcc__picture_form form,
                            tcc__picture *out) {
    WebPBitstreamFeatures features;
    const VP8StatusCode code = WebPGetFeatures(file->data, file->size, &features);
    if (code == VP8_STATUS_NOT_ENOUGH_DATA) return refuse(d, path, "the file ends too early");
    if (code != VP8_STATUS_OK) return refuse(d, path, "its header is damaged");
    if (features.has_animation) return refuse(d, path, "an animation is no picture");
    const bool whole = number(file->data + 4) + CHUNK_HEADER <= file->size;
    if (!whole && (form != TCC__PICTURE_SIZE || has_exif(file))) return refuse(d, path, "the file ends too early");
    out->height = features.height;
    out->width = features.width;
    if (has_exif(file)) out->orientation = orientation_of(file);
    if (form == TCC__PICTURE_SIZE) return TCC_OK;
    if (form == TCC__PICTURE_LABELS)
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0},
                         "labels are a PNG file; WebP does not keep numbers as they are");
    out->channels = 3;
    TCC_TRY(tcc__picture_room(d, path, out));
    const size_t row = (size_t)out->width * 3;
    if (WebPDecodeRGBInto(file->data, file->size, out->pixels, row * (size_t)out->height, (int)row)) return TCC_OK;
    return refuse(d, path, "its picture is damaged");
}
