/* SPDX-License-Identifier: MIT
 * A file read from its beginning to its end in pieces. A file of gzip or Zstandard is
 * inflated on the way. */
#ifndef TCC_RUNTIME_FILES_INFLATE_H
#define TCC_RUNTIME_FILES_INFLATE_H

#include "ir/support/diag.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tcc__inflate {
    const char *path; /* borrowed */
    void *file;       /* zlib's; NULL: */
    struct tcc__zstd *zstd;
    int64_t offset;                     /* inflated bytes read so far */
    int64_t size_bytes, position_bytes; /* of the file as it lies on the disk, for progress */
} tcc__inflate;

/* Errors as tcc__file_load's. After an error there is nothing to close. */
tcc_status tcc__inflate_open(tcc_diag *d, const char *path, tcc__inflate *out);
/* Up to `capacity` bytes; fewer only at the end of the file. */
tcc_status tcc__inflate_read(tcc_diag *d, tcc__inflate *s, void *to, size_t capacity, size_t *got);
void tcc__inflate_close(tcc__inflate *s);

#endif
