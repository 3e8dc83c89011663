/* SPDX-License-Identifier: MIT
 * Picture files: which decoder a file is for. */
#include "runtime/data/pictures/picture.h"
#include "ir/support/alloc.h"
#include "runtime/files/stream.h"

#include <string.h>
#include <strings.h>

bool tcc__picture_is_named(const char *name) {
    static const char *const ends[] = {".png", ".jpg", ".jpeg"};
    size_t length = strlen(name);
    for (int i = 0; i < 3; i++)
        if (length > strlen(ends[i]) && !strcasecmp(name + length - strlen(ends[i]), ends[i])) return true;
    return false;
}

/* Sizes are usually found at a file's beginning; *whole says whether that is all of it. */
static tcc_status load_head(tcc_diag *d, const char *path, tcc__bytes *out, bool *whole) {
    enum { HEAD_BYTES = 1 << 16 };
    tcc__stream file;
    TCC_TRY(tcc__stream_open(d, path, &file));
    *out = (tcc__bytes){.data = tcc__malloc(HEAD_BYTES)};
    tcc_status status = out->data ? tcc__stream_read(d, &file, out->data, HEAD_BYTES, &out->size) : tcc_enomem(d);
    *whole = out->size < HEAD_BYTES;
    tcc__stream_close(&file);
    return status;
}

static tcc_status decode(tcc_diag *d, const char *path, const tcc__bytes *file, tcc__picture_form form,
                         tcc__picture *out) {
    static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'}, jpeg[] = {0xFF, 0xD8, 0xFF};
    if (file->size > sizeof png && !memcmp(file->data, png, sizeof png))
        return tcc__png_decode(d, path, file, form, out);
    if (file->size > sizeof jpeg && !memcmp(file->data, jpeg, sizeof jpeg))
        return tcc__jpeg_decode(d, path, file, form, out);
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "does not begin as a PNG or JPEG file");
}

tcc_status tcc__picture_load(tcc_diag *d, const char *path, tcc__picture_form form, tcc__picture *out) {
    *out = (tcc__picture){0};
    tcc__bytes file = {0};
    bool whole = form != TCC__PICTURE_SIZE;
    tcc_status status = whole ? tcc__file_load(d, path, &file) : load_head(d, path, &file, &whole);
    if (status == TCC_OK) status = decode(whole ? d : NULL, path, &file, form, out);
    if (status != TCC_OK && !whole && file.size) {
        tcc__free(file.data);
        file = (tcc__bytes){0};
        status = tcc__file_load(d, path, &file);
        if (status == TCC_OK) status = decode(d, path, &file, form, out);
    }
    tcc__free(file.data);
    if (status == TCC_OK) return TCC_OK;
    tcc__free(out->pixels);
    *out = (tcc__picture){0};
    return status;
}
