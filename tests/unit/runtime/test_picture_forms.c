/* SPDX-License-Identifier: MIT
 * Picture files of all forms that people have, as viewers show them. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/pictures.h"
#include "ir/support/alloc.h"
#include "ir/support/context.h"
#include "runtime/data/pictures/picture.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>

#include <webp/encode.h>

enum { H = 16, W = 24, EXIF_BYTES = 36 };

static tcc_diag d;

static tcc__picture load(const char *path) {
    tcc__picture p, size;
    assert_ok(tcc__picture_load(&d, path, TCC__PICTURE_RGB, &p), &d);
    assert_ok(tcc__picture_load(&d, path, TCC__PICTURE_SIZE, &size), &d);
    assert_true(size.height == p.height && size.width == p.width && !size.pixels);
    return p;
}

static void expect_pixel(const tcc__picture *p, int64_t row, int64_t column, const int rgb[3], int tolerance) {
    const uint8_t *at = p->pixels + 3 * (row * p->width + column);
    for (int c = 0; c < 3; c++)
        if (abs(at[c] - rgb[c]) > tolerance)
            fail_msg("row %d, column %d: %d %d %d, expected %d %d %d", (int)row, (int)column, at[0], at[1], at[2],
                     rgb[0], rgb[1], rgb[2]);
}

/* ---- orientation ---- */

/* Its quarters: red and green above, blue and white below. */
static void paint_quarters(uint8_t *pixels) {
    static const uint8_t colors[4][3] = {{250, 5, 5}, {5, 250, 5}, {5, 5, 250}, {250, 250, 250}};
    for (int i = 0; i < H * W; i++) memcpy(pixels + 3 * i, colors[2 * (i / W >= H / 2) + (i % W >= W / 2)], 3);
}

static void make_exif(int orientation, bool big, uint8_t out[EXIF_BYTES]) {
    static const uint8_t little[EXIF_BYTES] = {'E', 'x', 'i', 'f', 0,    0, 'I', 'I', '*', 0, 8, 0,
                                               0,   0,   1,   0,   0x12, 1, 3,   0,   1,   0, 0, 0},
                         large[EXIF_BYTES] = {'E', 'x', 'i', 'f', 0, 0,    'M', 'M', 0, '*', 0, 0,
                                              0,   8,   0,   1,   1, 0x12, 0,   3,   0, 0,   0, 1};
    memcpy(out, big ? large : little, EXIF_BYTES);
    out[big ? 25 : 24] = (uint8_t)orientation;
}

/* Puts bytes into a file behind its first `at`. */
static const char *splice(void **state, const char *path, size_t at, const void *bytes, size_t count) {
    size_t size;
    char *file = test_read(path, &size), *whole = malloc(size + count);
    memcpy(whole, file, at);
    memcpy(whole + at, bytes, count);
    memcpy(whole + at + count, file + at, size - at);
    const char *out = test_write(state, "spliced", whole, size + count);
    free(file);
    free(whole);
    return out;
}

static const char *jpeg_with_exif(void **state, const uint8_t *pixels, int orientation, bool big) {
    uint8_t marker[4 + EXIF_BYTES] = {0xFF, 0xE1, 0, 2 + EXIF_BYTES};
    make_exif(orientation, big, marker + 4);
    return splice(state, write_jpeg(state, "plain.jpg", H, W, pixels), 2, marker, sizeof marker);
}

static const char *png_with_exif(void **state, const uint8_t *pixels, int orientation) {
    enum { HEAD = 8 + 25, BYTES = EXIF_BYTES - 6 };
    uint8_t chunk[12 + BYTES] = {0, 0, 0, BYTES, 'e', 'X', 'I', 'f'}, exif[EXIF_BYTES];
    make_exif(orientation, true, exif);
    memcpy(chunk + 8, exif + 6, BYTES);
    uint32_t crc = 0xFFFFFFFF;
    for (int i = 4; i < 8 + BYTES; i++) {
        crc ^= chunk[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    for (int i = 0; i < 4; i++) chunk[8 + BYTES + i] = (uint8_t)(~crc >> (24 - 8 * i));
    return splice(state, write_png(state, "plain.png", H, W, 3, pixels), HEAD, chunk, sizeof chunk);
}

/* Where EXIF says that the stored first row and column are shown. */
static void expect_turned(const char *path, int orientation) {
    /* The colours of the quarters as they are shown: above left and right, below left and right. */
    static const int shown[9][4] = {{0},          {0, 1, 2, 3}, {1, 0, 3, 2}, {3, 2, 1, 0}, {2, 3, 0, 1},
                                    {0, 2, 1, 3}, {2, 0, 3, 1}, {3, 1, 2, 0}, {1, 3, 0, 2}};
    static const int colors[4][3] = {{250, 5, 5}, {5, 250, 5}, {5, 5, 250}, {250, 250, 250}};
    tcc__picture p = load(path);
    assert_int_equal(p.height, orientation >= 5 ? W : H);
    assert_int_equal(p.width, orientation >= 5 ? H : W);
    for (int i = 0; i < 4; i++)
        expect_pixel(&p, i / 2 ? p.height - 3 : 2, i % 2 ? p.width - 3 : 2, colors[shown[orientation][i]], 12);
    tcc__free(p.pixels);
}

static void cameras_are_held_in_eight_ways(void **state) {
    uint8_t pixels[3 * H * W];
    paint_quarters(pixels);
    for (int o = 1; o <= 8; o++) {
        expect_turned(jpeg_with_exif(state, pixels, o, o % 2), o);
        expect_turned(png_with_exif(state, pixels, o), o);
    }
    expect_turned(jpeg_with_exif(state, pixels, 9, false), 1); /* there is no such one */
}

static void damaged_exif_is_left_out(void **state) {
    (void)state;
    uint8_t exif[EXIF_BYTES];
    make_exif(6, false, exif);
    assert_int_equal(tcc__exif_orientation(exif, sizeof exif), 6);
    for (size_t size = 0; size < 26; size++) {
        uint8_t *cut = malloc(size + 1); /* so that a sanitizer sees what is read behind it */
        memcpy(cut, exif, size);
        assert_int_equal(tcc__exif_orientation(cut, size), 1);
        free(cut);
    }
    exif[10] = 0xFF; /* the directory is far away */
    exif[13] = 0xFF;
    assert_int_equal(tcc__exif_orientation(exif, sizeof exif), 1);
}

/* ---- colours ---- */

static void inks_become_light(void **state) {
    const uint8_t ink[4] = {20, 200, 100, 50};
    uint8_t inks[4 * H * W];
    for (int i = 0; i < 4 * H * W; i++) inks[i] = ink[i % 4];
    const int light[3] = {235 * 205 / 255, 55 * 205 / 255, 155 * 205 / 255};
    for (int adobe = 0; adobe < 2; adobe++) {
        tcc__picture p = load(write_cmyk_jpeg(state, "cmyk.jpg", H, W, inks, adobe));
        expect_pixel(&p, 3, 5, light, 4);
        tcc__free(p.pixels);
    }
}

static const char *write_form(void **state, png_uint_32 format, const void *pixels, const void *colors, int entries) {
    const char *path = test_path(state, "form.png");
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = 2,
                       .height = 1,
                       .format = format,
                       .colormap_entries = (png_uint_32)entries};
    assert_true(png_image_write_to_file(&image, path, 0, pixels, 0, colors));
    return path;
}

static void depths_palettes_and_transparency(void **state) {
    const uint8_t grey[] = {10, 200}, clear[] = {10, 20, 30, 255, 200, 100, 50, 128}, indices[] = {1, 0};
    const uint8_t colors[] = {1, 2, 3, 200, 100, 50};
    const uint16_t deep[] = {0, 65535}; /* linear light, of which these are the ends in any case */
    tcc__picture p = load(write_form(state, PNG_FORMAT_GRAY, grey, NULL, 0));
    expect_pixel(&p, 0, 1, (int[]){200, 200, 200}, 0);
    tcc__free(p.pixels);
    p = load(write_form(state, PNG_FORMAT_RGBA, clear, NULL, 0));
    expect_pixel(&p, 0, 0, (int[]){10, 20, 30}, 0);
    expect_pixel(&p, 0, 1, (int[]){200, 100, 50}, 0); /* its colour, whatever lies behind */
    tcc__free(p.pixels);
    p = load(write_form(state, PNG_FORMAT_RGB_COLORMAP, indices, colors, 2));
    expect_pixel(&p, 0, 0, (int[]){200, 100, 50}, 0);
    tcc__free(p.pixels);
    p = load(write_form(state, PNG_FORMAT_LINEAR_Y, deep, NULL, 0));
    expect_pixel(&p, 0, 0, (int[]){0, 0, 0}, 0);
    expect_pixel(&p, 0, 1, (int[]){255, 255, 255}, 0);
    tcc__free(p.pixels);
}

/* ---- WebP ---- */

static void webp(void **state) {
    uint8_t pixels[3 * H * W], *bytes;
    paint_quarters(pixels);
    const size_t size = WebPEncodeLosslessRGB(pixels, W, H, 3 * W, &bytes);
    const char *path = test_write(state, "a.webp", bytes, size);
    assert_true(size && tcc__picture_is_named(path));
    tcc__picture p = load(path), found;
    assert_true(p.height == H && p.width == W && !memcmp(p.pixels, pixels, sizeof pixels));
    tcc__free(p.pixels);
    assert_ok(tcc__picture_check(&d, path, &found), &d);
    for (size_t cut = 13; cut < size; cut += 7) {
        path = test_write(state, "cut.webp", bytes, cut);
        assert_error(tcc__picture_check(&d, path, &found), TCC_EFORMAT, &d, "WebP: ");
        tcc_diag_clear(&d);
    }
    WebPFree(bytes);
}

/* Files that are cut short are found without decoding all others. */
static void cut_files_are_found(void **state) {
    uint8_t pixels[3 * H * W];
    paint_quarters(pixels);
    const char *const paths[] = {write_png(state, "a.png", H, W, 3, pixels), write_jpeg(state, "a.jpg", H, W, pixels)};
    for (int i = 0; i < 2; i++) {
        size_t size;
        tcc__picture found;
        char *file = test_read(paths[i], &size);
        assert_ok(tcc__picture_check(&d, paths[i], &found), &d);
        assert_true(found.height == H && found.width == W && !found.pixels);
        const char *cut = test_write(state, "cut", file, size - 20);
        assert_error(tcc__picture_check(&d, cut, &found), TCC_EFORMAT, &d, i ? "JPEG" : "PNG");
        tcc_diag_clear(&d);
        char *longer = calloc(1, size + 9);
        memcpy(longer, file, size);
        assert_ok(tcc__picture_check(&d, test_write(state, "longer", longer, size + 9), &found), &d);
        free(longer);
        free(file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(cameras_are_held_in_eight_ways),
        FOLDER_TEST(damaged_exif_is_left_out),
        FOLDER_TEST(inks_become_light),
        FOLDER_TEST(depths_palettes_and_transparency),
        FOLDER_TEST(webp),
        FOLDER_TEST(cut_files_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
