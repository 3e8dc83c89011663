/* SPDX-License-Identifier: MIT
 * Pictures as viewers show them. */
#include "ir/support/alloc.h"
#include "runtime/data/pictures/picture.h"

#include <string.h>

static bool is_on_its_side(int orientation) { return orientation >= 5; }
static bool is_mirrored_down(int o) { return o == 3 || o == 4 || o == 6 || o == 7; }
static bool is_mirrored_across(int o) { return o == 2 || o == 3 || o == 7 || o == 8; }

tcc_status tcc__picture_turn(tcc_diag *d, int orientation, tcc__picture *p) {
    const int64_t height = p->height, width = p->width;
    const size_t pixel = (size_t)p->channels;
    if (orientation <= 1) return TCC_OK;
    if (is_on_its_side(orientation)) {
        p->height = width;
        p->width = height;
    }
    if (!p->pixels) return TCC_OK;
    uint8_t *turned = tcc__malloc((size_t)(height * width) * pixel), *to = turned;
    if (!turned) return tcc_enomem(d);
    for (int64_t i = 0; i < p->height; i++) {
        for (int64_t j = 0; j < p->width; j++, to += pixel) {
            int64_t row = is_on_its_side(orientation) ? j : i, column = is_on_its_side(orientation) ? i : j;
            if (is_mirrored_down(orientation)) row = height - 1 - row;
            if (is_mirrored_across(orientation)) column = width - 1 - column;
            memcpy(to, p->pixels + (size_t)(row * width + column) * pixel, pixel);
        }
    }
    tcc__free(p->pixels);
    p->pixels = turned;
    return TCC_OK;
}
