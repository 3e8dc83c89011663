/* SPDX-License-Identifier: MIT
 * How a camera was held: the orientation of a picture in its EXIF data, which is a TIFF file without an image. */
#include "runtime/data/pictures/picture.h"

#include <string.h>

static unsigned number(const uint8_t *at, int bytes, bool big) {
    unsigned value = 0;
    for (int i = 0; i < bytes; i++) value |= (unsigned)at[i] << 8 * (big ? bytes - 1 - i : i);
    return value;
}

int tcc__exif_orientation(const uint8_t *data, size_t size) {
    enum { HEADER = 8, ENTRY = 12, ORIENTATION = 0x0112, SHORT = 3 };
    static const char mark[] = "Exif\0";
    if (size >= sizeof mark && !memcmp(data, mark, sizeof mark)) data += sizeof mark, size -= sizeof mark;
    if (size < HEADER || (memcmp(data, "II*\0", 4) && memcmp(data, "MM\0*", 4))) return 1;
    const bool big = *data == 'M';
    const size_t at = number(data + 4, 4, big);
    if (at > size - 2) return 1;
    const size_t entries = number(data + at, 2, big);
    for (size_t i = 0; i < entries; i++) {
        const uint8_t *entry = data + at + 2 + i * ENTRY;
        if (size - at - 2 < (i + 1) * ENTRY) return 1;
        if (number(entry, 2, big) != ORIENTATION || number(entry + 2, 2, big) != SHORT) continue;
        const unsigned orientation = number(entry + 8, 2, big);
        return orientation >= 1 && orientation <= 8 ? (int)orientation : 1;
    }
    return 1;
}
