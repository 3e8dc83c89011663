/* SPDX-License-Identifier: MIT
 * Headers of files of tokens (fuzzed). */
#include "runtime/data/token_file.h"

#include <string.h>

typedef struct head {
    tcc_diag *diag;
    const char *path;
    const uint8_t *bytes;
    int64_t count;
} head;

#define HEAD_ERROR(h, ...) tcc_error((h)->diag, TCC_EFORMAT, (tcc_loc){(h)->path, 0}, __VA_ARGS__)

static int64_t number(const head *h, int64_t at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes && at + i < h->count; i++) value |= (uint64_t)h->bytes[at + i] << 8 * i;
    return (int64_t)value;
}

/* ---- NumPy ---- */

/* What stands behind 'key': in the header, which is a Python dict; NULL: it has none. The text ends with a NUL. */
static const char *member(const char *text, const char *key) {
    const char *at = strstr(text, key);
    if (!at) return NULL;
    at += strlen(key);
    at += strspn(at, "'\" ");
    return *at == ':' ? at + 1 + strspn(at + 1, " ") : NULL;
}

static bool parse_shape(const char *at, int64_t *tokens) {
    *tokens = 1;
    for (at += *at == '('; *at && *at != ')'; at += strspn(at, ", ")) {
        int64_t extent = 0;
        if (*at < '0' || *at > '9') return false;
        for (; *at >= '0' && *at <= '9'; at++) {
            if (extent > INT64_MAX / 10 - 1) return false;
            extent = 10 * extent + (*at - '0');
        }
        if (__builtin_mul_overflow(*tokens, extent, tokens)) return false;
    }
    return *at == ')';
}

static tcc_status read_numpy(const head *h, tcc__token_form *out) {
    static const struct {
        const char *name;
        int bytes;
        bool is_signed;
    } types[] = {{"<u2", 2, false}, {"<u4", 4, false}, {"<i4", 4, true}, {"<i8", 8, true}};
    char text[TCC__TOKEN_HEAD + 1] = {0};
    const int64_t prefix = h->bytes[6] >= 2 ? 12 : 10, length = number(h, 8, h->bytes[6] >= 2 ? 4 : 2);
    if (h->bytes[6] < 1 || h->bytes[6] > 3 || length < 0 || length > h->count - prefix)
        return HEAD_ERROR(h, "its .npy header of version %d and %lld bytes is not read", h->bytes[6],
                          (long long)length);
    memcpy(text, h->bytes + prefix, (size_t)length);
    const char *descr = member(text, "descr"), *shape = member(text, "shape");
    out->begins = prefix + length;
    out->name = "npy";
    if (!descr || !shape || !parse_shape(shape, &out->tokens)) return HEAD_ERROR(h, "its .npy header is damaged");
    descr += strspn(descr, "'\"");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strncmp(descr, types[i].name, 3)) continue;
        out->token_bytes = types[i].bytes;
        out->is_signed = types[i].is_signed;
        return TCC_OK;
    }
    return HEAD_ERROR(h, "its .npy elements are of type '%.*s'; tokens are '<u2', '<u4', '<i4' or '<i8'",
                      (int)strcspn(descr, "'\""), descr);
}

/* ---- llm.c ---- */

static bool looks_like_llmc(const head *h) {
    if (h->count < TCC__TOKEN_HEAD || number(h, 0, 4) < 20230101 || number(h, 0, 4) > 20391231) return false;
    for (int i = 16; i < TCC__TOKEN_HEAD; i++)
        if (h->bytes[i]) return false;
    return true;
}

static tcc_status read_llmc(const head *h, tcc__token_form *out) {
    const int64_t magic = number(h, 0, 4), version = number(h, 4, 4);
    *out = (tcc__token_form){.begins = TCC__TOKEN_HEAD, .tokens = number(h, 8, 4), .name = "llm.c"};
    if (magic == 20240520 && version == 1) out->token_bytes = 2;
    else if (magic == 20240801 && version == 7) out->token_bytes = 4;
    else
        return HEAD_ERROR(h,
                          "begins as a shard of llm.c with magic number %lld, version %lld; known are 20240520, "
                          "version 1, and 20240801, version 7",
                          (long long)magic, (long long)version);
    return TCC_OK;
}

/* ---- what is none ---- */

static tcc_status refuse_others(const head *h) {
    static const struct {
        const char *magic;
        int bytes;
        const char *what;
    } others[] = {{"\x1f\x8b\x08", 3, "gzip"},
                  {"\x28\xb5\x2f\xfd", 4, "Zstandard"},
                  {"PK\3\4", 4, "zip or .npz"},
                  {"PAR1", 4, "Parquet"},
                  {"ARROW1", 6, "Arrow"},
                  {"\x89HDF", 4, "HDF5"},
                  {"MMIDIDX", 7, "an index of Megatron"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (h->count >= others[i].bytes && !memcmp(h->bytes, others[i].magic, (size_t)others[i].bytes))
            return HEAD_ERROR(h, "begins as a file of %s, not of tokens", others[i].what);
    return TCC_OK;
}

tcc_status tcc__token_form_of(tcc_diag *d, const char *path, const uint8_t *bytes, int64_t count,
                              tcc__token_form *out) {
    const head h = {d, path, bytes, count};
    *out = (tcc__token_form){.tokens = -1, .name = "bare"};
    if (count >= 12 && !memcmp(bytes, "\x93NUMPY", 6)) return read_numpy(&h, out);
    if (looks_like_llmc(&h)) return read_llmc(&h, out);
    return refuse_others(&h);
}
