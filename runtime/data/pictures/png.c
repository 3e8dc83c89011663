/* SPDX-License-Identifier: MIT
 * Pictures of PNG files. */
#include "runtime/files/png.h"
#include "runtime/data/pictures/picture.h"

typedef struct wanted {
    const char *path;
    tcc__picture_form form;
    tcc__picture *out;
} wanted;

static tcc_status begin(tcc_diag *d, const tcc__png_head *head, uint8_t **pixels, void *user) {
    const wanted *w = user;
    w->out->height = head->height, w->out->width = head->width;
    if (head->exif) w->out->orientation = tcc__exif_orientation(head->exif, head->exif_bytes);
    if (w->form == TCC__PICTURE_SIZE) return TCC_OK;
    w->out->channels = head->channels;
    tcc_status status = tcc__picture_room(d, w->path, w->out);
    *pixels = w->out->pixels;
    return status;
}

tcc_status tcc__picture_png(tcc_diag *d, const char *path, const tcc__bytes *file, tcc__picture_form form,
                            tcc__picture *out) {
    wanted w = {path, form, out};
    const tcc__png_reader reader = {
        .labels = form == TCC__PICTURE_LABELS, .side_max = TCC__PICTURE_SIDE_MAX, .begin = begin, .user = &w};
    return tcc__png_decode(d, path, file->data, file->size, &reader);
}
