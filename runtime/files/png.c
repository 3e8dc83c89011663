/* SPDX-License-Identifier: MIT
 * PNG files in memory, by libpng, whose errors jump. */
#include "runtime/files/png.h"
#include "ir/support/alloc.h"

#include <png.h>
#include <stdio.h>
#include <string.h>

tcc_status tcc__png_encode(tcc_diag *d, const uint8_t *pixels, int64_t height, int64_t width, int channels,
                           tcc_strbuf *out) {
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY};
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image); /* so that it is compressed once */
    char *file = tcc__malloc(size);
    const bool done = file && png_image_write_to_memory(&image, file, &size, 0, pixels, 0, NULL);
    if (done) tcc_strbuf_addn(out, file, size);
    png_image_free(&image);
    tcc__free(file);
    if (done && !out->failed) return TCC_OK;
    tcc_strbuf_free(out);
    return tcc_enomem(d);
}

/* -- Decoding -- */

typedef struct decoding {
    const unsigned char *file;
    size_t size, at;
    const char *path;
    const tcc__png_reader *reader;
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
    if (job->size - job->at < size) png_error(png, "the file ends too early");
    memcpy(to, job->file + job->at, size);
    job->at += size;
}

static void set_form(tcc_diag *d, png_structp png, png_infop info, decoding *job) {
    int colour = png_get_color_type(png, info), depth = png_get_bit_depth(png, info);
    if (job->reader->labels) {
        if (depth > 8 || (colour != PNG_COLOR_TYPE_GRAY && colour != PNG_COLOR_TYPE_PALETTE))
            job->status = tcc_error(d, TCC_EFORMAT, (tcc_loc){job->path, 0},
                                    "labels are a grey or palette PNG of at most 8 bits a pixel, this has %d bits of "
                                    "PNG's colour type %d",
                                    depth, colour);
        png_set_packing(png);
        return;
    }
    png_set_expand(png);
    png_set_scale_16(png);
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
}

/* Its locals are not looked at after a jump. */
static void decode(tcc_diag *d, png_structp png, png_infop info, decoding *job) {
    const tcc__png_reader *reader = job->reader;
    png_set_read_fn(png, job, give);
    png_set_user_limits(png, (png_uint_32)reader->side_max, (png_uint_32)reader->side_max);
    png_read_info(png, info);
    tcc__png_head head = {.height = png_get_image_height(png, info),
                          .width = png_get_image_width(png, info),
                          .channels = reader->labels ? 1 : 3};
    png_bytep exif;
    png_uint_32 exif_bytes;
    if (png_get_eXIf_1(png, info, &exif_bytes, &exif)) head.exif = exif, head.exif_bytes = exif_bytes;
    uint8_t *pixels = NULL;
    job->status = reader->begin(d, &head, &pixels, reader->user);
    if (job->status != TCC_OK || !pixels) return;
    set_form(d, png, info, job);
    if (job->status != TCC_OK) return;
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    size_t row = (size_t)(head.width * head.channels);
    if (png_get_rowbytes(png, info) != row) png_error(png, "rows of an unexpected size");
    job->rows = tcc__malloc((size_t)head.height * sizeof *job->rows);
    if (!job->rows) {
        job->status = tcc_enomem(d);
        return;
    }
    for (int64_t i = 0; i < head.height; i++) job->rows[i] = pixels + (size_t)i * row;
    png_read_image(png, job->rows);
    png_read_end(png, NULL);
}

tcc_status tcc__png_decode(tcc_diag *d, const char *path, const void *file, size_t size,
                           const tcc__png_reader *reader) {
    decoding job = {.file = file, .size = size, .path = path, .reader = reader};
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
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "PNG, before byte %zu of %zu: %s", job.at, size, job.problem);
}
