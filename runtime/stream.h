/* SPDX-License-Identifier: MIT
 * Data as bytes, in both directions: one function walks a struct's fields to write and to read it, so that what is
 * written is what is read. Reading trusts nothing: every count is compared with the bytes that are left.
 *
 * A sealed stream has a header (magic, version, size, CRC-32 of the rest), then the fields in order, integers
 * little-endian. Its format is that of one version of ours: another version's bytes are refused, never guessed at. */
#ifndef TCC_RUNTIME_STREAM_H
#define TCC_RUNTIME_STREAM_H

#include "ir/support/arena.h"
#include "ir/support/diag.h"
#include "ir/support/dtype.h"
#include "runtime/files/file.h"

#include <stdbool.h>
#include <stdint.h>

/* Either writes into `out` or reads from `in`; the first failure sticks. */
typedef struct tcc_stream {
    bool writing;
    tcc_status status;
    unsigned char *out;
    size_t length, capacity;
    const unsigned char *in;
    size_t in_bytes, at;
    tcc_arena *memory; /* of what is read */
} tcc_stream;

/* What a sealed stream holds. */
typedef struct tcc_stream_kind {
    char magic[8];
    int version;
    const char *what; /* "stored program", for messages */
} tcc_stream_kind;

enum { TCC_STREAM_HEADER_BYTES = 32 };

/* A stream to write a sealed one; after its fields, tcc_stream_seal gives the bytes, which the caller frees with
 * tcc__free. Errors: TCC_ENOMEM, and TCC_EFORMAT where something is too large. `name` stands in messages. */
tcc_stream tcc_stream_write(void);
tcc_status tcc_stream_seal(tcc_stream *s, tcc_diag *d, const tcc_stream_kind *kind, const char *name, void **bytes,
                           int64_t *size_bytes);
/* A stream to read these bytes, once their header fits; what is read lies in `memory`, and the bytes are not needed
 * afterwards. After its fields, tcc_stream_end says whether all was well. Errors: TCC_EFORMAT (damaged, or another
 * version), TCC_ENOMEM. */
tcc_status tcc_stream_read(tcc_stream *s, tcc_diag *d, const tcc_stream_kind *kind, const char *name, const void *bytes,
                           int64_t size_bytes, tcc_arena *memory);
tcc_status tcc_stream_end(const tcc_stream *s, tcc_diag *d, const tcc_stream_kind *kind, const char *name);

/* The bytes of such a file, or as many of them as there are. Of a file that begins otherwise no more than a header is
 * read, so one without an end, as /dev/zero, takes no memory. Errors: as those of tcc__file_load, TCC_EFORMAT. */
tcc_status tcc_stream_load(tcc_diag *d, const tcc_stream_kind *kind, const char *path, tcc__bytes *out);

void tcc_stream_fail(tcc_stream *s, tcc_status status);
void tcc_io_i64(tcc_stream *s, int64_t *v);
void tcc_io_int(tcc_stream *s, int *v);
void tcc_io_bool(tcc_stream *s, bool *v);
void tcc_io_double(tcc_stream *s, double *v);
/* A count of things of which each takes at least `least_bytes` of the input: refused before anything is allocated for
 * them. */
void tcc_io_count(tcc_stream *s, int64_t *count, size_t least_bytes);
void tcc_io_data(tcc_stream *s, const void **data, int64_t *size_bytes);
/* NULL is kept apart from "". */
void tcc_io_text(tcc_stream *s, const char **text);
void tcc_io_type(tcc_stream *s, tcc_type *t);
/* Room for `count` elements when reading; what is there when writing. */
void *tcc_io_room(tcc_stream *s, const void *array, int64_t count, size_t element_bytes);

/* An array whose count is an int: `each` walks one element. */
#define TCC_IO_ARRAY(s, field, count, least_bytes, each)                                              \
    do {                                                                                              \
        int64_t count_ = (count);                                                                     \
        tcc_io_count((s), &count_, (least_bytes));                                                    \
        if (count_ > INT32_MAX) tcc_stream_fail((s), TCC_EFORMAT);                                    \
        (count) = (s)->status == TCC_OK ? (int)count_ : 0;                                            \
        __typeof__(*(field)) *array_ = tcc_io_room((s), (field), (count), sizeof *(field));           \
        for (int i_ = 0; (s)->status == TCC_OK && i_ < (count); i_++) each((s), (void *)&array_[i_]); \
        (field) = array_;                                                                             \
    } while (0)

#endif
