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

/* Its locals are not looked at after a jump. */
static void decode(tcc_diag *d, const char *path, struct jpeg_decompress_struct *jpeg, const tcc__bytes *file,
                   tcc__picture_form form, tcc__picture *out) {
    decoding *job = (decoding *)jpeg->err;
    jpeg_mem_src(jpeg, file->data, (unsigned long)file->size);
    jpeg_read_header(jpeg, TRUE);
    out->height = jpeg->image_height;
    out->width = jpeg->image_width;
    if (form == TCC__PICTURE_SIZE) return;
    if (form == TCC__PICTURE_LABELS) {
        job->status = tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0},
                                "labels are a PNG file; JPEG does not keep numbers as they are");
        return;
    }
    jpeg->out_color_space = JCS_RGB;
    jpeg_start_decompress(jpeg);
    out->channels = 3;
    job->status = tcc__picture_room(d, path, out);
    while (job->status == TCC_OK && jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = out->pixels + (size_t)jpeg->output_scanline * (size_t)(out->width * 3);
        jpeg_read_scanlines(jpeg, &row, 1);
    }
    if (job->status == TCC_OK) jpeg_finish_decompress(jpeg);
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
    if (!*job.problem) return job.status;
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "JPEG, before byte %zu of %zu: %s", file->size - left,
                     file->size, job.problem);
}
