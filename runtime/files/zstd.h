/* SPDX-License-Identifier: MIT
 * Files that Zstandard compressed, read from their beginning to their end. */
#ifndef TCC_RUNTIME_FILES_ZSTD_H
#define TCC_RUNTIME_FILES_ZSTD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tcc__zstd tcc__zstd;

/* Whether a file begins as such a file does; one that cannot be looked ahead in, as a pipe, does not. */
bool tcc__zstd_is(int fd);
/* Takes the file, which it closes; NULL when memory is short. */
tcc__zstd *tcc__zstd_open(int fd);
/* Up to `capacity` bytes; fewer only at the end. False: *problem says why; static. errno is set where reading failed,
 * and 0 else. */
bool tcc__zstd_read(tcc__zstd *z, void *to, size_t capacity, size_t *got, const char **problem);
/* Bytes of the file that were read. */
int64_t tcc__zstd_position(const tcc__zstd *z);
void tcc__zstd_close(tcc__zstd *z);

#endif
