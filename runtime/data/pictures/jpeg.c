/* SPDX-License-Identifier: MIT
 * JPEG files, by libjpeg, whose errors jump. */
#include "ir/support/alloc.h"
#include "runtime/data/pictures/picture.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

typedef struct decoding {
    struct jpeg_error_mgr base; /* first: libjpeg knows it by its address */
    jmp_buf back;
    char problem[JMSG_LENGTH_MAX];
    tcc_status status; /* of our own part */
    uint8_t *inks;     /* a row of cyan, magenta, yellow and black */
} decoding;

static void on_error(j_common_ptr info) {
    decoding *job = (decoding *)info->err;
    job->base.format_message(info, job->problem);
    longjmp(job->back, 1);
}

/* Damage that libjpeg would paint over is an error; what is merely unusual is not. */
static void on_message(j_common_ptr info, int level) {
    int code = info->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE)) on_error(info);
}

static int orientation_of(const struct jpeg_decompress_struct *jpeg) {
    for (jpeg_saved_marker_ptr m = jpeg->marker_list; m; m = m->next)
        if (m->data_length > 6 && !memcmp(m->data, "Exif\0", 6)) return tcc__exif_orientation(m->data, m->data_length);
    return 1;
}

/* What libjpeg makes of the file, and whether it can at all. */
static J_COLOR_SPACE colours_of(const struct jpeg_decompress_struct *jpeg) {
    switch (jpeg->jpeg_color_space) {
    case JCS_GRAYSCALE:
    case JCS_RGB:
    case JCS_YCbCr: return JCS_RGB;
    case JCS_CMYK:
    case JCS_YCCK: return JCS_CMYK;
    default: return JCS_UNKNOWN;
    }
}

/* Paper shows what light its inks leave. Adobe's files, which say so, have that light and not the inks. */
static void print_row(const uint8_t *inks, bool inverted, int64_t width, uint8_t *out) {
    for (int64_t i = 0; i < width; i++, inks += 4)
        for (int c = 0; c < 3; c++) {
            const int light = inverted ? inks[c] * inks[3] : (255 - inks[c]) * (255 - inks[3]);
            *out++ = (uint8_t)((light + 127) / 255);
        }
}

static void read_rows(struct jpeg_decompress_struct *jpeg, tcc__picture *out) {
    decoding *job = (decoding *)jpeg->err;
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *to = out->pixels + (size_t)jpeg->output_scanline * (size_t)(out->width * 3);
        JSAMPROW row = job->inks ? job->inks : to;
        jpeg_read_scanlines(jpeg, &row, 1);
        if (job->inks) print_row(job->inks, jpeg->saw_Adobe_marker, out->width, to);
    }
}

/* Its locals are not looked at after a jump. */
static void decode(tcc_diag *d, const char *path, struct jpeg_decompress_struct *jpeg, const tcc__bytes *file,
                   tcc__picture_form form, tcc__picture *out) {
    decoding *job = (decoding *)jpeg->err;
    jpeg_mem_src(jpeg, file->data, (unsigned long)file->size);
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(jpeg, TRUE);
    jpeg->out_color_space = colours_of(jpeg);
    if (jpeg->out_color_space == JCS_UNKNOWN || jpeg->data_precision != 8) {
        job->status = tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "JPEG: %d channels of %d bits are not read",
                                jpeg->num_components, jpeg->data_precision);
        return;
    }
    out->orientation = orientation_of(jpeg);
    out->height = jpeg->image_height;
    out->width = jpeg->image_width;
    if (form == TCC__PICTURE_SIZE) return;
    if (form == TCC__PICTURE_LABELS) {
        job->status = tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0},
                                "labels are a PNG file; JPEG does not keep numbers as they are");
        return;
    }
    jpeg_start_decompress(jpeg);
    out->channels = 3;
    job->status = tcc__picture_room(d, path, out);
    if (job->status != TCC_OK) return;
    if (jpeg->out_color_space == JCS_CMYK && !(job->inks = tcc__malloc((size_t)out->width * 4))) {
        job->status = tcc_enomem(d);
        return;
    }
    read_rows(jpeg, out);
    jpeg_finish_decompress(jpeg);
}

tcc_status tcc__jpeg_decode(tcc_diag *d, const char *path, const tcc__bytes *file, tcc__picture_form form,
                            tcc__picture *out) {
    struct jpeg_decompress_struct jpeg = {0};
    decoding job = {.status = TCC_OK};
    jpeg.err = jpeg_std_error(&job.base);
    job.base.error_exit = on_error;
    job.base.emit_message = on_message;
    size_t left = 0;
    if (!setjmp(job.back)) {
        jpeg_create_decompress(&jpeg);
        decode(d, path, &jpeg, file, form, out);
    }
    if (jpeg.src) left = jpeg.src->bytes_in_buffer;
    jpeg_destroy_decompress(&jpeg);
    tcc__free(job.inks);
    if (!*job.problem) return job.status;
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "JPEG, before byte %zu of %zu: %s", file->size - left,
                     file->size, job.problem);
}
