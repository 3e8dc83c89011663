/* SPDX-License-Identifier: MIT
 * PNG files, by libpng, whose errors jump. */
#include "ir/support/alloc.h"
#include "runtime/data/pictures/picture.h"

#include <png.h>
#include <stdio.h>
#include <string.h>

typedef struct decoding {
    const tcc__bytes *file;
    size_t at;
    const char *path;
    tcc__picture_form form;
    tcc__picture *out;
    png_bytep *rows;
    char problem[128];
    tcc_status status; /* of our own part */
} decoding;

static void on_error(png_structp png, png_const_charp message) {
    decoding *job = png_get_error_ptr(png);
    snprintf(job->problem, sizeof job->problem, "%s", message);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message) {
    (void)png;
    (void)message;
}

static void give(png_structp png, png_bytep to, size_t size) {
    decoding *job = png_get_io_ptr(png);
    if (job->file->size - job->at < size) png_error(png, "the file ends too early");
    memcpy(to, job->file->data + job->at, size);
    job->at += size;
}

static void set_form(tcc_diag *d, png_structp png, png_infop info, decoding *job) {
    int colour = png_get_color_type(png, info), depth = png_get_bit_depth(png, info);
    if (job->form == TCC__PICTURE_LABELS) {
        job->out->channels = 1;
        if (depth > 8 || (colour != PNG_COLOR_TYPE_GRAY && colour != PNG_COLOR_TYPE_PALETTE))
            job->status = tcc_error(d, TCC_EFORMAT, (tcc_loc){job->path, 0},
                                    "labels are a grey or palette PNG of at most 8 bits a pixel, this has %d bits of "
                                    "PNG's colour type %d",
                                    depth, colour);
        png_set_packing(png);
        return;
    }
    job->out->channels = 3;
    png_set_expand(png);
    png_set_scale_16(png);
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
}

/* Its locals are not looked at after a jump. */
static void decode(tcc_diag *d, png_structp png, png_infop info, decoding *job) {
    png_set_read_fn(png, job, give);
    png_set_user_limits(png, TCC__PICTURE_SIDE_MAX, TCC__PICTURE_SIDE_MAX);
    png_read_info(png, info);
    job->out->height = png_get_image_height(png, info);
    job->out->width = png_get_image_width(png, info);
    png_bytep exif;
    png_uint_32 exif_bytes;
    if (png_get_eXIf_1(png, info, &exif_bytes, &exif)) job->out->orientation = tcc__exif_orientation(exif, exif_bytes);
    if (job->form == TCC__PICTURE_SIZE) return;
    set_form(d, png, info, job);
    if (job->status != TCC_OK) return;
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    job->status = tcc__picture_room(d, job->path, job->out);
    if (job->status != TCC_OK) return;
    size_t row = (size_t)(job->out->width * job->out->channels);
    if (png_get_rowbytes(png, info) != row) png_error(png, "rows of an unexpected size");
    job->rows = tcc__malloc((size_t)job->out->height * sizeof *job->rows);
    if (!job->rows) {
        job->status = tcc_enomem(d);
        return;
    }
    for (int64_t i = 0; i < job->out->height; i++) job->rows[i] = job->out->pixels + (size_t)i * row;
    png_read_image(png, job->rows);
    png_read_end(png, NULL);
}

tcc_status tcc__png_decode(tcc_diag *d, const char *path, const tcc__bytes *file, tcc__picture_form form,
                           tcc__picture *out) {
    decoding job = {.file = file, .path = path, .form = form, .out = out};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info) {
        png_destroy_read_struct(&png, NULL, NULL);
        return tcc_enomem(d);
    }
    if (!setjmp(png_jmpbuf(png))) decode(d, png, info, &job);
    png_destroy_read_struct(&png, &info, NULL);
    tcc__free(job.rows);
    if (!*job.problem) return job.status;
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "PNG, before byte %zu of %zu: %s", job.at, file->size,
                     job.problem);
}
