/* SPDX-License-Identifier: MIT
 * Memory of a picture. */
#include "ir/support/alloc.h"
#include "runtime/data/pictures/picture.h"

tcc_status tcc__picture_room(tcc_diag *d, const char *path, tcc__picture *out) {
    if (out->height < 1 || out->width < 1 || out->height > TCC__PICTURE_SIDE_MAX ||
        out->width > TCC__PICTURE_SIDE_MAX || out->height * out->width > TCC__PICTURE_PIXELS_MAX)
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "a picture of %lld x %lld pixels is too large",
                         (long long)out->width, (long long)out->height);
    out->pixels = tcc__malloc((size_t)(out->height * out->width * out->channels));
    return out->pixels ? TCC_OK : tcc_enomem(d);
}
