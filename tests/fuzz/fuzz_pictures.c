/* SPDX-License-Identifier: MIT
 * Fuzzes the decoders of pictures and what reads EXIF data. */
#include "ir/support/alloc.h"
#include "runtime/data/pictures/picture.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static tcc_status decode(tcc_diag *d, const tcc__bytes *file, tcc__picture_form form, tcc__picture *out) {
    if (*file->data == 0xFF) return tcc__jpeg_decode(d, "picture", file, form, out);
    if (*file->data == 'R') return tcc__webp_decode(d, "picture", file, form, out);
    return tcc__picture_png(d, "picture", file, form, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    const tcc__bytes file = {(uint8_t *)(uintptr_t)bytes, size};
    const int orientation = tcc__exif_orientation(bytes, size);
    if (orientation < 1 || orientation > 8) abort();
    if (size < 12 || (*bytes == 'R' && (memcmp(bytes, "RIFF", 4) || memcmp(bytes + 8, "WEBP", 4)))) return 0;
    for (int form = TCC__PICTURE_SIZE; form <= TCC__PICTURE_LABELS; form++) {
        tcc_diag d = {0};
        tcc__picture p = {0};
        tcc_status status = decode(&d, &file, TCC__PICTURE_SIZE, &p); /* large ones take long */
        if (status == TCC_OK && p.height * p.width < 1 << 20) status = decode(&d, &file, (tcc__picture_form)form, &p);
        if (status == TCC_OK) status = tcc__picture_turn(&d, p.orientation, &p);
        if (status != TCC_OK && !*tcc_diag_text(&d)) abort(); /* an error without words */
        tcc__free(p.pixels);
        tcc_diag_clear(&d);
    }
    return 0;
}
