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

const char *write_palette_png(void **state, const char *name, int height, int width, const uint8_t *pixels,
                              const uint8_t *colors, int n_colors) {
    test_make_folders(state, name);
    const char *path = test_path(state, name);
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = PNG_FORMAT_RGB_COLORMAP,
                       .colormap_entries = (png_uint_32)n_colors};
    assert_true(png_image_write_to_file(&image, path, 0, pixels, 0, colors));
    return path;
}

typedef struct jpeg_form {
    int channels, quality;
    J_COLOR_SPACE from, to;
    bool adobe;
} jpeg_form;

static const char *write_jpeg_as(void **state, const char *name, int height, int width, jpeg_form form,
                                 const uint8_t *pixels) {
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
    jpeg.input_components = form.channels;
    jpeg.in_color_space = form.from;
    jpeg_set_defaults(&jpeg);
    jpeg_set_colorspace(&jpeg, form.to);
    jpeg.write_Adobe_marker = form.adobe;
    jpeg_set_quality(&jpeg, form.quality, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int i = 0; i < height; i++) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + (size_t)i * (size_t)(width * form.channels));
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    assert_int_equal(fclose(f), 0);
    return path;
}

const char *write_jpeg(void **state, const char *name, int height, int width, const uint8_t *pixels) {
    const jpeg_form form = {.channels = 3, .quality = 95, .from = JCS_RGB, .to = JCS_YCbCr};
    return write_jpeg_as(state, name, height, width, form, pixels);
}

const char *write_cmyk_jpeg(void **state, const char *name, int height, int width, const uint8_t *inks, bool adobe) {
    const jpeg_form form = {
        .channels = 4, .quality = 75, .from = JCS_CMYK, .to = adobe ? JCS_YCCK : JCS_CMYK, .adobe = adobe};
    const size_t size = 4 * (size_t)(height * width);
    uint8_t *inverted = malloc(size);
    assert_non_null(inverted);
    for (size_t i = 0; i < size; i++) inverted[i] = adobe ? 255 - inks[i] : inks[i];
    const char *path = write_jpeg_as(state, name, height, width, form, inverted);
    free(inverted);
    return path;
}
