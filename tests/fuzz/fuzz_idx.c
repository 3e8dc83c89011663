/* SPDX-License-Identifier: MIT
 * Fuzzes the checks of idx files: the first byte chooses between images and labels. */
#include "runtime/data/images.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size < 1) return 0;
    tcc_diag d = {0};
    tcc__bytes file = {(uint8_t *)(uintptr_t)bytes + 1, size - 1};
    tcc_status status;
    unsigned sum = 0;
    if (bytes[0] & 1) {
        tcc__idx_images images;
        status = tcc__idx_parse_images(&d, "fuzz", &file, &images);
        for (int64_t i = 0; status == TCC_OK && i < images.count * images.height * images.width; i++)
            sum += images.pixels[i];
    } else {
        const uint8_t *labels;
        int64_t count = bytes[0] >> 1;
        status = tcc__idx_parse_labels(&d, "fuzz", &file, count, 10, &labels);
        for (int64_t i = 0; status == TCC_OK && i < count; i++) {
            if (labels[i] >= 10) abort();
            sum += labels[i];
        }
    }
    if (status != TCC_OK && !*tcc_diag_text(&d)) abort(); /* an error without words */
    tcc_diag_clear(&d);
    return (int)(sum & 0);
}
