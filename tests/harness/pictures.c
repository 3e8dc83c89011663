/* SPDX-License-Identifier: MIT
 * Picture files for tests. */
#include "pictures.h"
#include "check.h"
#include "files.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

const char *write_png(void **state, const char *name, int height, int width, int channels, const uint8_t *pixels) {
    test_make_folders(state, name);
    const char *path = test_path(state, name);
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};
    assert_true(png_image_write_to_file(&image, path, 0, pixels, 0, NULL));
    return path;
}

const char *write_jpeg(void **state, const char *name, int height, int width, const uint8_t *pixels) {
    test_make_folders(state, name);
    const char *path = test_path(state, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, f);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 95, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int i = 0; i < height; i++) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + (size_t)i * (size_t)width * 3);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    assert_int_equal(fclose(f), 0);
    return path;
}
