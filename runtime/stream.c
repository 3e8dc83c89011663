/* SPDX-License-Identifier: MIT
 * Data as bytes, in both directions. */
#include "runtime/stream.h"

#include "ir/support/alloc.h"
#include "runtime/files/inflate.h"

#include <string.h>
#include <zlib.h>

enum { HEADER_BYTES = TCC_STREAM_HEADER_BYTES, MAX_TEXT = 1 << 26 };

void tcc_stream_fail(tcc_stream *s, tcc_status status) {
    if (s->status == TCC_OK) s->status = status;
}

static void write_bytes(tcc_stream *s, const void *data, size_t size_bytes) {
    if (s->status != TCC_OK || !size_bytes) return;
    if (size_bytes > s->capacity - s->length) {
        size_t capacity = 2 * s->capacity + size_bytes + 4096;
        unsigned char *larger = tcc__realloc(s->out, capacity);
        if (!larger) {
            tcc_stream_fail(s, TCC_ENOMEM);
            return;
        }
        s->out = larger;
        s->capacity = capacity;
    }
    memcpy(s->out + s->length, data, size_bytes);
    s->length += size_bytes;
}

/* The next bytes of the input; NULL after its end. */
static const unsigned char *take(tcc_stream *s, size_t size_bytes) {
    if (s->status != TCC_OK || size_bytes > s->in_bytes - s->at) {
        tcc_stream_fail(s, TCC_EFORMAT);
        return NULL;
    }
    const unsigned char *p = s->in + s->at;
    s->at += size_bytes;
    return p;
}

static void put_u64(unsigned char bytes[8], uint64_t v) {
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(v >> 8 * i);
}
static uint64_t get_u64(const unsigned char bytes[8]) {
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) v |= (uint64_t)bytes[i] << 8 * i;
    return v;
}

void tcc_io_i64(tcc_stream *s, int64_t *v) {
    unsigned char bytes[8];
    if (s->writing) {
        put_u64(bytes, (uint64_t)*v);
        write_bytes(s, bytes, 8);
    } else {
        const unsigned char *p = take(s, 8);
        *v = p ? (int64_t)get_u64(p) : 0;
    }
}

void tcc_io_int(tcc_stream *s, int *v) {
    int64_t wide = *v;
    tcc_io_i64(s, &wide);
    if (wide < INT32_MIN || wide > INT32_MAX) tcc_stream_fail(s, TCC_EFORMAT);
    *v = s->status == TCC_OK ? (int)wide : 0;
}

void tcc_io_bool(tcc_stream *s, bool *v) {
    int wide = *v;
    tcc_io_int(s, &wide);
    if (wide != 0 && wide != 1) tcc_stream_fail(s, TCC_EFORMAT);
    *v = wide == 1;
}

void tcc_io_double(tcc_stream *s, double *v) {
    int64_t bits;
    memcpy(&bits, v, 8);
    tcc_io_i64(s, &bits);
    memcpy(v, &bits, 8);
}

void tcc_io_count(tcc_stream *s, int64_t *count, size_t least_bytes) {
    tcc_io_i64(s, count);
    if (*count < 0 || (!s->writing && (uint64_t)*count > (s->in_bytes - s->at) / least_bytes))
        tcc_stream_fail(s, TCC_EFORMAT);
    if (s->status != TCC_OK) *count = 0;
}

void tcc_io_data(tcc_stream *s, const void **data, int64_t *size_bytes) {
    tcc_io_count(s, size_bytes, 1);
    if (s->writing) {
        write_bytes(s, *data, (size_t)*size_bytes);
        return;
    }
    const unsigned char *p = take(s, (size_t)*size_bytes);
    *data = p ? tcc_arena_copy(s->memory, p, (size_t)*size_bytes) : NULL;
    if (p && !*data) tcc_stream_fail(s, TCC_ENOMEM);
}

void tcc_io_text(tcc_stream *s, const char **text) {
    int64_t length = s->writing && *text ? (int64_t)strlen(*text) + 1 : 0; /* with its NUL */
    const void *data = *text;
    tcc_io_data(s, &data, &length);
    *text = data;
    if (s->writing || s->status != TCC_OK) return;
    if (!length) *text = NULL;
    else if (length > MAX_TEXT || memchr(*text, 0, (size_t)length) != *text + length - 1)
        tcc_stream_fail(s, TCC_EFORMAT);
}

void *tcc_io_room(tcc_stream *s, const void *array, int64_t count, size_t element_bytes) {
    if (s->writing) return (void *)array;
    void *room = s->status == TCC_OK ? tcc_arena_alloc(s->memory, (size_t)count * element_bytes) : NULL;
    if (!room) tcc_stream_fail(s, TCC_ENOMEM);
    return room;
}

void tcc_io_type(tcc_stream *s, tcc_type *t) {
    int dtype = (int)t->dtype;
    tcc_io_int(s, &dtype);
    t->dtype = (tcc_dtype)dtype;
    tcc_io_int(s, &t->rank);
    if (t->rank < 0 || t->rank > TCC_MAX_RANK) tcc_stream_fail(s, TCC_EFORMAT);
    for (int i = 0; s->status == TCC_OK && i < t->rank; i++) tcc_io_i64(s, &t->dims[i]);
}

/* -- Sealed -- */

tcc_stream tcc_stream_write(void) {
    static const unsigned char header[HEADER_BYTES];
    tcc_stream s = {.writing = true};
    write_bytes(&s, header, sizeof header);
    return s;
}

tcc_status tcc_stream_seal(tcc_stream *s, tcc_diag *d, const tcc_stream_kind *kind, const char *name, void **bytes,
                           int64_t *size_bytes) {
    *bytes = NULL;
    *size_bytes = 0;
    if (s->status != TCC_OK) {
        tcc__free(s->out);
        s->out = NULL;
        return s->status == TCC_ENOMEM
                   ? tcc_enomem(d)
                   : tcc_error(d, s->status, TCC_NOWHERE, "%s '%s' is too large to be stored", kind->what, name);
    }
    memcpy(s->out, kind->magic, sizeof kind->magic);
    put_u64(s->out + 8, (uint64_t)kind->version);
    put_u64(s->out + 16, s->length);
    put_u64(s->out + 24, crc32_z(0, s->out + HEADER_BYTES, s->length - HEADER_BYTES));
    *bytes = s->out;
    *size_bytes = (int64_t)s->length;
    return TCC_OK;
}

static tcc_status check_magic(tcc_diag *d, const tcc_stream_kind *kind, const char *name, const void *header,
                              int64_t size_bytes) {
    if (size_bytes >= HEADER_BYTES && !memcmp(header, kind->magic, sizeof kind->magic)) return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){name, 0}, "not a %s", kind->what);
}

tcc_status tcc_stream_read(tcc_stream *s, tcc_diag *d, const tcc_stream_kind *kind, const char *name, const void *bytes,
                           int64_t size_bytes, tcc_arena *memory) {
    const tcc_loc loc = {name, 0};
    const unsigned char *header = bytes;
    TCC_TRY(check_magic(d, kind, name, header, size_bytes));
    if (get_u64(header + 8) != (uint64_t)kind->version)
        return tcc_error(d, TCC_EFORMAT, loc, "a %s of version %llu; this runtime reads version %d", kind->what,
                         (unsigned long long)get_u64(header + 8), kind->version);
    if (get_u64(header + 16) != (uint64_t)size_bytes)
        return tcc_error(d, TCC_EFORMAT, loc, "a %s of %llu bytes, but there are %lld", kind->what,
                         (unsigned long long)get_u64(header + 16), (long long)size_bytes);
    if (get_u64(header + 24) != crc32_z(0, header + HEADER_BYTES, (size_t)size_bytes - HEADER_BYTES))
        return tcc_error(d, TCC_EFORMAT, loc, "the %s is damaged (its checksum differs)", kind->what);
    *s = (tcc_stream){.in = bytes, .in_bytes = (size_t)size_bytes, .at = HEADER_BYTES, .memory = memory};
    return TCC_OK;
}

tcc_status tcc_stream_end(const tcc_stream *s, tcc_diag *d, const tcc_stream_kind *kind, const char *name) {
    if (s->status == TCC_OK && s->at == s->in_bytes) return TCC_OK;
    if (s->status == TCC_ENOMEM) return tcc_enomem(d);
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){name, 0}, "the %s is malformed near byte %zu", kind->what, s->at);
}

/* Up to `wanted` bytes behind the header. Room grows with what was read, as the file may have less than it says. */
static tcc_status load_rest(tcc_diag *d, tcc__inflate *file, size_t wanted, tcc__bytes *out) {
    size_t got = 1, room = out->size;
    while (got && out->size < wanted) {
        room = 2 * room + 4096 < wanted ? 2 * room + 4096 : wanted;
        uint8_t *larger = tcc__realloc(out->data, room);
        if (!larger) return tcc_enomem(d);
        out->data = larger;
        TCC_TRY(tcc__inflate_read(d, file, out->data + out->size, room - out->size, &got));
        out->size += got;
    }
    return TCC_OK;
}

tcc_status tcc_stream_load(tcc_diag *d, const tcc_stream_kind *kind, const char *path, tcc__bytes *out) {
    tcc__inflate file;
    *out = (tcc__bytes){.data = tcc__malloc(HEADER_BYTES)};
    if (!out->data) return tcc_enomem(d);
    tcc_status status = tcc__inflate_open(d, path, &file);
    if (status == TCC_OK) status = tcc__inflate_read(d, &file, out->data, HEADER_BYTES, &out->size);
    if (status == TCC_OK) status = check_magic(d, kind, path, out->data, (int64_t)out->size);
    if (status == TCC_OK) /* one byte more: the file may have more than it says */
        status = load_rest(d, &file, (size_t)get_u64(out->data + 16) + 1, out);
    tcc__inflate_close(&file);
    if (status != TCC_OK) {
        tcc__free(out->data);
        *out = (tcc__bytes){0};
    }
    return status;
}
