/* SPDX-License-Identifier: MIT
 * Picture files for tests. */
#ifndef TCC_TESTS_HARNESS_PICTURES_H
#define TCC_TESTS_HARNESS_PICTURES_H

#include <stdbool.h>
#include <stdint.h>

/* Write FOLDER/name, whose folders are made. Pixels are row by row; a PNG has 1 or 3 channels, a JPEG 3. Return its
 * path. */
const char *write_png(void **state, const char *name, int height, int width, int channels, const uint8_t *pixels);
const char *write_jpeg(void **state, const char *name, int height, int width, const uint8_t *pixels);
/* Pixels are numbers of `colors`, 3 bytes each, which a PNG has as its palette. */
const char *write_palette_png(void **state, const char *name, int height, int width, const uint8_t *pixels,
                              const uint8_t *colors, int n_colors);
/* Pixels are inks, 4 bytes each; 255 is all of one. `adobe`: as Photoshop writes them, inverted and as YCCK. */
const char *write_cmyk_jpeg(void **state, const char *name, int height, int width, const uint8_t *inks, bool adobe);

#endif
