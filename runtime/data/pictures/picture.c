/* SPDX-License-Identifier: MIT
 * Picture files: which decoder a file is for. */
#include "runtime/data/pictures/picture.h"
#include "ir/support/alloc.h"
#include "runtime/files/inflate.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

bool tcc__picture_is_named(const char *name) {
    static const char *const ends[] = {".png", ".jpg", ".jpeg", ".webp"};
    size_t length = strlen(name);
    for (int i = 0; i < 4; i++)
        if (length > strlen(ends[i]) && !strcasecmp(name + length - strlen(ends[i]), ends[i])) return true;
    return false;
}

/* Sizes are usually found at a file's beginning; *whole says whether that is all of it. */
static tcc_status load_head(tcc_diag *d, const char *path, tcc__bytes *out, bool *whole) {
    enum { HEAD_BYTES = 1 << 16 };
    tcc__inflate file;
    TCC_TRY(tcc__inflate_open(d, path, &file));
    *out = (tcc__bytes){.data = tcc__malloc(HEAD_BYTES)};
    tcc_status status = out->data ? tcc__inflate_read(d, &file, out->data, HEAD_BYTES, &out->size) : tcc_enomem(d);
    *whole = out->size < HEAD_BYTES;
    tcc__inflate_close(&file);
    return status;
}

static tcc_status decode(tcc_diag *d, const char *path, const tcc__bytes *file, tcc__picture_form form,
                         tcc__picture *out) {
    static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'}, jpeg[] = {0xFF, 0xD8, 0xFF};
    if (file->size > sizeof png && !memcmp(file->data, png, sizeof png))
        return tcc__picture_png(d, path, file, form, out);
    if (file->size > sizeof jpeg && !memcmp(file->data, jpeg, sizeof jpeg))
        return tcc__jpeg_decode(d, path, file, form, out);
    if (file->size > 12 && !memcmp(file->data, "RIFF", 4) && !memcmp(file->data + 8, "WEBP", 4))
        return tcc__webp_decode(d, path, file, form, out);
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "does not begin as a PNG, JPEG or WebP file");
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
    const int orientation = out->orientation;
    out->orientation = 0;
    if (status == TCC_OK) status = tcc__picture_turn(d, orientation, out);
    if (status == TCC_OK) return TCC_OK;
    tcc__free(out->pixels);
    *out = (tcc__picture){0};
    return status;
}

/* Files that were cut short are the most usual damage, and their beginnings are whole. */
static bool ends_well(const char *path) {
    static const uint8_t png[] = {0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xAE, 0x42, 0x60, 0x82}, jpeg[] = {0xFF, 0xD9};
    uint8_t first[12] = {0}, last[12] = {0};
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    bool ok = fread(first, 1, sizeof first, f) == sizeof first && !fseek(f, -(long)sizeof last, SEEK_END) &&
              fread(last, 1, sizeof last, f) == sizeof last;
    const long size = ftell(f);
    fclose(f);
    if (!ok) return false;
    if (!memcmp(first, "RIFF", 4)) {
        const uint32_t said = first[4] | (uint32_t)first[5] << 8 | (uint32_t)first[6] << 16 | (uint32_t)first[7] << 24;
        return said + 8 <= (uint64_t)size;
    }
    return *first == 0xFF ? !memcmp(last + 10, jpeg, sizeof jpeg) : !memcmp(last, png, sizeof png);
}

tcc_status tcc__picture_check(tcc_diag *d, const char *path, tcc__picture *size) {
    TCC_TRY(tcc__picture_load(d, path, TCC__PICTURE_SIZE, size));
    if (ends_well(path)) return TCC_OK;
    TCC_TRY(tcc__picture_load(d, path, TCC__PICTURE_RGB, size));
    tcc__free(size->pixels);
    size->pixels = NULL;
    return TCC_OK;
}
