/* SPDX-License-Identifier: MIT
 * Reading safetensors files. Everything in the header is distrusted: a file from the network must
 * not be able to make us read past its end, and a damaged one must be told from a sound one before
 * a single weight is replaced. */
#include "runtime/files/safetensors.h"
#include "ir/support/alloc.h"
#include "ir/support/arena.h"
#include "ir/support/context.h"
#include "ir/support/dtype.h"
#include "ir/support/element.h"
#include "runtime/files/utf8.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are mapped and copied as they lie, little-endian");

static const uint64_t header_limit_bytes = 100000000;         /* as in the reference implementation */
static const double exact_integer_limit = 9007199254740992.0; /* 2^53: past it JSON numbers here are not exact */

typedef struct entry {
    const char *name;
    const char *unread; /* its type and shape in words, where we have no such type or rank; else NULL */
    tcc_type type;
    uint64_t begin, end; /* bytes from the start of the data */
} entry;

struct tcc_safetensors {
    tcc_arena memory; /* strings and tables */
    char *path;
    const char *header;
    size_t header_bytes; /* without the blanks at its end */
    const uint8_t *data; /* after the header */
    uint64_t data_bytes;
    void *mapping; /* NULL when parsed from the caller's memory */
    size_t mapping_bytes;
    entry *entries; /* by offset */
    int *by_name;   /* indices into entries, by name */
    int count;
    tcc_pair *metadata;
    int n_metadata;
};

/* ---- parsing ---- */

typedef struct parser {
    tcc_diag *diag;
    const char *path;
    tcc_safetensors *file;
} parser;

#define FORMAT_ERROR(p, ...) tcc_error((p)->diag, TCC_EFORMAT, (tcc_loc){(p)->path, 0}, __VA_ARGS__)

/* A JSON number that is an integer from 0 to 2^53. */
static bool get_size(const cJSON *value, uint64_t *out) {
    if (!cJSON_IsNumber(value)) return false;
    double x = value->valuedouble;
    if (!(x >= 0 && x <= exact_integer_limit) || x != (double)(uint64_t)x) return false;
    *out = (uint64_t)x;
    return true;
}

static bool dtype_of(const char *text, tcc_dtype *out) {
    for (int t = 0; t < TCC_DTYPE_COUNT; t++) {
        if (!strcmp(text, tcc_dtype_safetensors((tcc_dtype)t))) {
            *out = (tcc_dtype)t;
            return true;
        }
    }
    return false;
}

/* Its type and shape as they are in the file, of a tensor that cannot be read. */
static tcc_status describe_unread(parser *p, const char *dtype, const cJSON *shape, entry *e) {
    tcc_strbuf text = {0};
    const cJSON *dim;
    tcc_strbuf_printf(&text, "%s[", dtype);
    cJSON_ArrayForEach(dim, shape) {
        tcc_strbuf_printf(&text, dim == shape->child ? "%.15g" : ",%.15g", dim->valuedouble);
    }
    tcc_strbuf_add(&text, "]");
    e->unread = text.failed ? NULL : tcc_arena_strdup(&p->file->memory, text.text);
    tcc_strbuf_free(&text);
    e->type = (tcc_type){.dtype = TCC_U8, .rank = 1, .dims = {(int64_t)(e->end - e->begin)}};
    return e->unread ? TCC_OK : tcc_enomem(p->diag);
}

/* A type that we lack, or a rank, makes the one tensor unreadable: of it only the place is checked. */
static tcc_status parse_shape(parser *p, const char *name, const char *dtype, const cJSON *shape, entry *e) {
    if (!cJSON_IsArray(shape)) return FORMAT_ERROR(p, "tensor '%s' has no shape", name);
    int rank = cJSON_GetArraySize(shape), i = 0;
    const bool known = dtype_of(dtype, &e->type.dtype) && rank <= TCC_MAX_RANK;
    uint64_t bytes = known ? (uint64_t)tcc_dtype_bytes(e->type.dtype) : 0;
    const cJSON *dim;
    cJSON_ArrayForEach(dim, shape) {
        uint64_t size;
        if (!get_size(dim, &size)) return FORMAT_ERROR(p, "tensor '%s': dimension %d is not a size", name, i);
        if (__builtin_mul_overflow(bytes, size, &bytes))
            return FORMAT_ERROR(p, "tensor '%s' is larger than any memory", name);
        if (known) e->type.dims[i] = (int64_t)size;
        i++;
    }
    if (!known) return describe_unread(p, dtype, shape, e);
    e->type.rank = rank;
    if (bytes != e->end - e->begin)
        return FORMAT_ERROR(p, "tensor '%s' of type %s needs %llu bytes, but its data_offsets [%llu,%llu] hold %llu",
                            name, tcc_type_text(&e->type), (unsigned long long)bytes, (unsigned long long)e->begin,
                            (unsigned long long)e->end, (unsigned long long)(e->end - e->begin));
    return TCC_OK;
}

static tcc_status parse_entry(parser *p, const cJSON *item, entry *e) {
    const char *name = item->string;
    if (!cJSON_IsObject(item)) return FORMAT_ERROR(p, "tensor '%s' is not described by a JSON object", name);
    const cJSON *dtype = NULL, *shape = NULL, *offsets = NULL, *field;
    cJSON_ArrayForEach(field, item) {
        const cJSON **slot = !strcmp(field->string, "dtype")          ? &dtype
                             : !strcmp(field->string, "shape")        ? &shape
                             : !strcmp(field->string, "data_offsets") ? &offsets
                                                                      : NULL;
        if (!slot) return FORMAT_ERROR(p, "tensor '%s' has an unknown field '%s'", name, field->string);
        if (*slot) return FORMAT_ERROR(p, "tensor '%s' has two fields '%s'", name, field->string);
        *slot = field;
    }
    if (!cJSON_IsString(dtype)) return FORMAT_ERROR(p, "tensor '%s' has no dtype", name);
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 || !get_size(offsets->child, &e->begin) ||
        !get_size(offsets->child->next, &e->end))
        return FORMAT_ERROR(p, "tensor '%s' has no data_offsets of two sizes", name);
    uint64_t available = p->file->data_bytes;
    if (e->begin > e->end || e->end > available)
        return FORMAT_ERROR(p,
                            "tensor '%s' has data_offsets [%llu,%llu], but the file holds %llu "
                            "bytes of data: it is truncated or damaged",
                            name, (unsigned long long)e->begin, (unsigned long long)e->end,
                            (unsigned long long)available);
    e->name = tcc_arena_strdup(&p->file->memory, name);
    if (!e->name) return tcc_enomem(p->diag);
    return parse_shape(p, name, dtype->valuestring, shape, e);
}

static tcc_status parse_metadata(parser *p, const cJSON *item) {
    tcc_safetensors *f = p->file;
    if (!cJSON_IsObject(item)) return FORMAT_ERROR(p, "__metadata__ is not a JSON object");
    if (f->metadata) return FORMAT_ERROR(p, "two __metadata__ entries");
    int count = cJSON_GetArraySize(item);
    f->metadata = TCC_ARENA_ARRAY(&f->memory, tcc_pair, count ? count : 1);
    if (!f->metadata) return tcc_enomem(p->diag);
    const cJSON *field;
    cJSON_ArrayForEach(field, item) {
        if (!cJSON_IsString(field)) return FORMAT_ERROR(p, "__metadata__ '%s' is not a string", field->string);
        tcc_pair *pair = &f->metadata[f->n_metadata++];
        pair->key = tcc_arena_strdup(&f->memory, field->string);
        pair->value = tcc_arena_strdup(&f->memory, field->valuestring);
        if (!pair->key || !pair->value) return tcc_enomem(p->diag);
    }
    return TCC_OK;
}

static int compare_offsets(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int compare_names(const void *a, const void *b, void *entries) {
    const entry *e = entries;
    return strcmp(e[*(const int *)a].name, e[*(const int *)b].name);
}

/* Names are distinct, and the tensors fill the data without holes or overlaps. */
static tcc_status check_layout(parser *p) {
    tcc_safetensors *f = p->file;
    qsort(f->entries, (size_t)f->count, sizeof *f->entries, compare_offsets);
    uint64_t at = 0;
    for (int i = 0; i < f->count; i++) {
        const entry *e = &f->entries[i];
        if (e->begin < at)
            return FORMAT_ERROR(p, "tensors '%s' and '%s' overlap at byte %llu of the data", f->entries[i - 1].name,
                                e->name, (unsigned long long)e->begin);
        if (e->begin > at)
            return FORMAT_ERROR(p, "%llu bytes before tensor '%s', at byte %llu of the data, belong to no tensor",
                                (unsigned long long)(e->begin - at), e->name, (unsigned long long)at);
        at = e->end;
    }
    if (at != f->data_bytes)
        return FORMAT_ERROR(p, "the tensors end at byte %llu of the data, but the file holds %llu",
                            (unsigned long long)at, (unsigned long long)f->data_bytes);
    for (int i = 0; i < f->count; i++) f->by_name[i] = i;
    qsort_r(f->by_name, (size_t)f->count, sizeof *f->by_name, compare_names, f->entries);
    for (int i = 1; i < f->count; i++) {
        const char *name = f->entries[f->by_name[i]].name;
        if (!strcmp(name, f->entries[f->by_name[i - 1]].name))
            return FORMAT_ERROR(p, "two tensors are named '%s'", name);
    }
    return TCC_OK;
}

static tcc_status parse_header(parser *p, const cJSON *header) {
    tcc_safetensors *f = p->file;
    if (!cJSON_IsObject(header)) return FORMAT_ERROR(p, "the header is not a JSON object");
    int count = cJSON_GetArraySize(header);
    f->entries = TCC_ARENA_ARRAY(&f->memory, entry, count + 1);
    f->by_name = TCC_ARENA_ARRAY(&f->memory, int, count + 1);
    if (!f->entries || !f->by_name) return tcc_enomem(p->diag);
    const cJSON *item;
    cJSON_ArrayForEach(item, header) {
        if (!strcmp(item->string, "__metadata__")) TCC_TRY(parse_metadata(p, item));
        else TCC_TRY(parse_entry(p, item, &f->entries[f->count++]));
    }
    return check_layout(p);
}

static tcc_status parse_file(parser *p, const uint8_t *bytes, size_t size) {
    uint64_t header_bytes;
    if (size < sizeof header_bytes)
        return FORMAT_ERROR(p, "not a safetensors file: %zu bytes are too few for the header's length", size);
    memcpy(&header_bytes, bytes, sizeof header_bytes);
    const char *header = (const char *)bytes + sizeof header_bytes;
    if (header_bytes > header_limit_bytes || header_bytes < 2 || (size > sizeof header_bytes && header[0] != '{'))
        return FORMAT_ERROR(p,
                            "not a safetensors file: its first 8 bytes announce a header of %llu "
                            "bytes, byte 8 must be '{'",
                            (unsigned long long)header_bytes);
    if (header_bytes > size - sizeof header_bytes)
        return FORMAT_ERROR(p, "the header has %llu bytes, but the file ends after %zu of them: it is truncated",
                            (unsigned long long)header_bytes, size - sizeof header_bytes);
    size_t bad = tcc__utf8_check((const uint8_t *)header, header_bytes);
    if (bad != header_bytes)
        return FORMAT_ERROR(p, "the header is not UTF-8 at byte %zu of the file", bad + sizeof header_bytes);
    p->file->header = header;
    p->file->header_bytes = header_bytes;
    while (p->file->header_bytes && header[p->file->header_bytes - 1] == ' ') p->file->header_bytes--;
    p->file->data = bytes + sizeof header_bytes + header_bytes;
    p->file->data_bytes = size - sizeof header_bytes - header_bytes;

    const char *end = NULL;
    cJSON *json = cJSON_ParseWithLengthOpts(header, header_bytes, &end, 0);
    while (json && end < header + header_bytes && (*end == ' ' || *end == '\t' || *end == '\n' || *end == '\r')) end++;
    tcc_status status;
    if (!json || end != header + header_bytes) {
        size_t at = (size_t)((end && end >= header ? end : header) - (const char *)bytes);
        status = FORMAT_ERROR(p, "the header is not JSON at byte %zu of the file", at);
    } else {
        status = parse_header(p, json);
    }
    cJSON_Delete(json);
    return status;
}

tcc_status tcc__safetensors_parse(tcc_diag *d, const char *path, const uint8_t *bytes, size_t size,
                                  tcc_safetensors **out) {
    *out = NULL;
    tcc_safetensors *f = tcc__calloc(1, sizeof *f);
    if (!f) return tcc_enomem(d);
    f->path = tcc__strdup(path);
    tcc_status status = f->path ? parse_file(&(parser){d, path, f}, bytes, size) : tcc_enomem(d);
    if (status == TCC_OK) *out = f;
    else tcc_safetensors_close(f);
    return status;
}

/* ---- opening ---- */

tcc_status tcc__safetensors_open(tcc_diag *d, const char *path, tcc_safetensors **out) {
    *out = NULL;
    tcc_loc place = {path, 0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int error = errno;
        return tcc_error(d, error == ENOENT ? TCC_ENOTFOUND : TCC_EIO, place, "cannot open the file: %s",
                         tcc__errno(error).text);
    }
    struct stat info;
    tcc_status status = TCC_OK;
    void *mapping = MAP_FAILED;
    if (fstat(fd, &info)) status = tcc_error(d, TCC_EIO, place, "cannot read the file: %s", tcc__errno(errno).text);
    else if (!S_ISREG(info.st_mode)) status = tcc_error(d, TCC_EIO, place, "is not a regular file");
    else if (info.st_size == 0) status = tcc_error(d, TCC_EFORMAT, place, "not a safetensors file: it is empty");
    else {
        mapping = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (mapping == MAP_FAILED)
            status = tcc_error(d, TCC_EIO, place, "cannot map the file: %s", tcc__errno(errno).text);
    }
    close(fd);
    if (status != TCC_OK) return status;
    status = tcc__safetensors_parse(d, path, mapping, (size_t)info.st_size, out);
    if (status != TCC_OK) {
        munmap(mapping, (size_t)info.st_size);
        return status;
    }
    (*out)->mapping = mapping;
    (*out)->mapping_bytes = (size_t)info.st_size;
    return TCC_OK;
}

tcc_status tcc_safetensors_open(tcc_context *cx, const char *path, tcc_safetensors **out) {
    tcc_diag_begin(&cx->diag);
    return tcc__safetensors_open(&cx->diag, path, out);
}

void tcc_safetensors_close(tcc_safetensors *f) {
    if (!f) return;
    if (f->mapping) munmap(f->mapping, f->mapping_bytes);
    tcc_arena_free(&f->memory);
    tcc__free(f->path);
    tcc__free(f);
}

/* ---- looking ---- */

int tcc_safetensors_count(const tcc_safetensors *f) { return f->count; }

tcc_array tcc_safetensors_get(const tcc_safetensors *f, int index) {
    const entry *e = &f->entries[index];
    tcc_array a = {.name = e->name,
                   .dtype = e->type.dtype,
                   .rank = e->type.rank,
                   .data = e->unread ? NULL : (void *)(uintptr_t)(f->data + e->begin)};
    memcpy(a.dims, e->type.dims, sizeof a.dims);
    return a;
}

const char *tcc__safetensors_type(const tcc_safetensors *f, int index) {
    const entry *e = &f->entries[index];
    return e->unread ? e->unread : tcc_type_text(&e->type);
}

int tcc_safetensors_find(const tcc_safetensors *f, const char *name) {
    int low = 0, high = f->count;
    while (low < high) {
        int middle = low + (high - low) / 2, order = strcmp(name, f->entries[f->by_name[middle]].name);
        if (order == 0) return f->by_name[middle];
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return -1;
}

const char *tcc_safetensors_metadata(const tcc_safetensors *f, const char *key) {
    for (int i = 0; i < f->n_metadata; i++)
        if (!strcmp(f->metadata[i].key, key)) return f->metadata[i].value;
    return NULL;
}

uint32_t tcc__safetensors_header_crc(const char *text, size_t length, size_t crc_at) {
    static const char zeros[8] = "00000000";
    const uint8_t *bytes = (const uint8_t *)text;
    unsigned long crc = crc32_z(crc32_z(0, NULL, 0), bytes, crc_at);
    crc = crc32_z(crc, (const uint8_t *)zeros, sizeof zeros);
    return (uint32_t)crc32_z(crc, bytes + crc_at + sizeof zeros, length - crc_at - sizeof zeros);
}

static tcc_status verify_header(tcc_diag *d, const tcc_safetensors *f) {
    static const char mark[] = "\"" TCC__HEADER_CRC_KEY "\":\"";
    const char *text = tcc_safetensors_metadata(f, TCC__HEADER_CRC_KEY),
               *at = memmem(f->header, f->header_bytes, mark, sizeof mark - 1);
    if (!text) return TCC_OK;
    if (!at || strlen(text) != 8)
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){f->path, 0}, "the file is damaged: its header's checksum is \"%s\"",
                         text);
    const uint32_t actual = tcc__safetensors_header_crc(f->header, f->header_bytes,
                                                        (size_t)(at - f->header) + sizeof mark - 1);
    char expected[9];
    snprintf(expected, sizeof expected, "%08x", (unsigned)actual);
    if (!strcmp(text, expected)) return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){f->path, 0},
                     "the file is damaged: its header has checksum %s, but says %s", expected, text);
}

tcc_status tcc__safetensors_verify(tcc_diag *d, const tcc_safetensors *f) {
    TCC_TRY(verify_header(d, f));
    const char *text = tcc_safetensors_metadata(f, "traincc.crc32");
    if (!text) return TCC_OK;
    char *end;
    unsigned long expected = strtoul(text, &end, 16);
    unsigned long actual = crc32_z(crc32_z(0, NULL, 0), f->data, f->data_bytes);
    if (!*text || *end || expected != actual)
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){f->path, 0},
                         "the file is damaged: its data has checksum %08lx, its header says %s", actual, text);
    return TCC_OK;
}

/* ---- loading ---- */

tcc_status tcc__array_on_host(tcc_diag *d, tcc_loc at, const char *what, const tcc_array *a) {
    if (a->memory == TCC_MEMORY_HOST) return TCC_OK;
    return tcc_error(d, TCC_EINVAL, at, "%s '%s' does not lie on the host (TCC_MEMORY_HOST): copy it there", what,
                     a->name);
}

static tcc_type type_of(const tcc_array *a) {
    tcc_type t = {.dtype = a->dtype, .rank = a->rank};
    memcpy(t.dims, a->dims, sizeof t.dims[0] * (size_t)a->rank);
    return t;
}

static bool convertible(tcc_dtype from, tcc_dtype to) {
    return from == to || (tcc_dtype_is_float(from) && tcc_dtype_is_float(to));
}

/* How one destination and the file disagree. */
typedef enum verdict { FITS, MISSING, WRONG_SHAPE, WRONG_TYPE, UNEXPECTED, VERDICTS } verdict;

static verdict judge(const tcc_safetensors *f, const tcc_array *to, int *found) {
    *found = tcc_safetensors_find(f, to->name);
    if (*found < 0) return MISSING;
    const entry *e = &f->entries[*found];
    tcc_type wanted = type_of(to);
    if (e->unread) return WRONG_TYPE;
    if (!tcc_type_same_dims(&e->type, &wanted)) return WRONG_SHAPE;
    return convertible(e->type.dtype, to->dtype) ? FITS : WRONG_TYPE;
}

/* Lists so many of a kind; a file of something else has thousands. */
enum { MOST_LISTED = 20 };

static void list_unexpected(tcc_diag *d, const tcc_safetensors *f, const bool *asked) {
    int listed = 0;
    for (int i = 0; i < f->count; i++)
        if (!asked[i] && listed++ < MOST_LISTED)
            tcc_note(d, TCC_NOWHERE, "unexpected: '%s' %s", f->entries[i].name, tcc__safetensors_type(f, i));
    if (listed > MOST_LISTED) tcc_note(d, TCC_NOWHERE, "unexpected: %d more", listed - MOST_LISTED);
}

static void list_mismatches(tcc_diag *d, const tcc_safetensors *f, const tcc_array *to, int count, unsigned allow,
                            const bool *asked) {
    int listed[VERDICTS] = {0};
    for (int i = 0; i < count; i++) {
        int found;
        verdict v = judge(f, &to[i], &found);
        tcc_type wanted = type_of(&to[i]);
        if (v == FITS || (v == MISSING && (allow & TCC_LOAD_ALLOW_MISSING)) || listed[v]++ >= MOST_LISTED) continue;
        if (v == MISSING) tcc_note(d, TCC_NOWHERE, "missing: '%s' %s", to[i].name, tcc_type_text(&wanted));
        else
            tcc_note(d, TCC_NOWHERE, "%s: '%s' is %s in the file, but %s is wanted",
                     v == WRONG_SHAPE ? "shape" : "type", to[i].name, tcc__safetensors_type(f, found),
                     tcc_type_text(&wanted));
    }
    static const char *const words[VERDICTS] = {"", "missing", "shape", "type", ""};
    for (int v = MISSING; v <= WRONG_TYPE; v++)
        if (listed[v] > MOST_LISTED) tcc_note(d, TCC_NOWHERE, "%s: %d more", words[v], listed[v] - MOST_LISTED);
    if (!(allow & TCC_LOAD_ALLOW_UNEXPECTED)) list_unexpected(d, f, asked);
}

static tcc_status check_names(tcc_diag *d, const tcc_safetensors *f, const tcc_array *to, int count, unsigned allow) {
    bool *asked = tcc__calloc((size_t)f->count, sizeof *asked);
    if (!asked) return tcc_enomem(d);
    int tally[VERDICTS] = {0};
    for (int i = 0; i < count; i++) {
        int found;
        tally[judge(f, &to[i], &found)]++;
        if (found >= 0) asked[found] = true;
    }
    for (int i = 0; i < f->count; i++) tally[UNEXPECTED] += !asked[i];
    if (allow & TCC_LOAD_ALLOW_MISSING) tally[MISSING] = 0;
    if (allow & TCC_LOAD_ALLOW_UNEXPECTED) tally[UNEXPECTED] = 0;
    tcc_status status = TCC_OK;
    if (tally[MISSING] || tally[UNEXPECTED] || tally[WRONG_SHAPE] || tally[WRONG_TYPE]) {
        tcc_status code = tally[WRONG_SHAPE] ? TCC_ESHAPE : tally[WRONG_TYPE] ? TCC_EDTYPE : TCC_ENOTFOUND;
        status = tcc_error(d, code, (tcc_loc){f->path, 0},
                           "the file's tensors are not those wanted: %d missing, %d unexpected, %d "
                           "wrongly shaped, %d wrongly typed",
                           tally[MISSING], tally[UNEXPECTED], tally[WRONG_SHAPE], tally[WRONG_TYPE]);
        list_mismatches(d, f, to, count, allow, asked);
    }
    tcc__free(asked);
    return status;
}

tcc_status tcc_safetensors_load(tcc_context *cx, const tcc_safetensors *f, const tcc_array *to, int count,
                                unsigned allow) {
    tcc_diag_begin(&cx->diag);
    if (count < 0 || (count && !to) || allow & ~(unsigned)(TCC_LOAD_ALLOW_MISSING | TCC_LOAD_ALLOW_UNEXPECTED))
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "tcc_safetensors_load: %d arrays%s, and allow is %u, of TCC_LOAD_ALLOW_*", count,
                         to || !count ? "" : " that are NULL", allow);
    for (int i = 0; i < count; i++) {
        bool empty = false;
        for (int k = 0; k < to[i].rank && k < TCC_MAX_RANK; k++) empty |= to[i].dims[k] == 0;
        if (to[i].name) TCC_TRY(tcc__array_on_host(&cx->diag, TCC_NOWHERE, "tcc_safetensors_load: array", &to[i]));
        if (to[i].name && (to[i].data || empty)) continue;
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE, "tcc_safetensors_load: array %d has no %s", i,
                         to[i].name ? "data" : "name");
    }
    TCC_TRY(check_names(&cx->diag, f, to, count, allow));
    TCC_TRY(tcc__safetensors_verify(&cx->diag, f));
    for (int i = 0; i < count; i++) {
        int found = tcc_safetensors_find(f, to[i].name);
        if (found < 0) continue;
        const entry *e = &f->entries[found];
        tcc_elements_cast(to[i].dtype, to[i].data, e->type.dtype, f->data + e->begin, tcc_type_numel(&e->type));
    }
    return TCC_OK;
}
