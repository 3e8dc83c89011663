/* SPDX-License-Identifier: MIT
 * PNG files in memory, by libpng. */
#include "runtime/files/png_encode.h"
#include "ir/support/alloc.h"

#include <png.h>

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
