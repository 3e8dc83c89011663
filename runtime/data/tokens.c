/* SPDX-License-Identifier: MIT
 * Data kind tokens: a file of little-endian uint16 or uint32 tokens, which may be larger than
 * memory and is read window by window. */
#include "ir/support/alloc.h"
#include "runtime/data/windows.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 13 };
static const int64_t default_token_bytes = 2;

typedef struct part {
    char *path;
    int fd;
    int64_t first; /* token */
} part;

typedef struct tokens {
    part parts[TCC_SPLIT_COUNT]; /* of one file, or of two */
    bool two_files;
    int64_t token_bytes;
    int64_t vocab_size; /* 0: not yet known */
} tokens;

/* Tokens [first, first + count) as i32. Each is checked against the vocabulary, or *largest is
 * raised to the largest. */
static tcc_status fetch(tcc_diag *d, const tokens *t, const part *p, int64_t first, int64_t count, int32_t *out,
                        int64_t *largest) {
    union {
        uint8_t bytes[PIECE_BYTES];
        uint16_t narrow[PIECE_BYTES / 2];
        uint32_t wide[PIECE_BYTES / 4];
    } piece;
    tcc_loc place = {p->path, 0};
    while (count) {
        int64_t n = count < PIECE_BYTES / t->token_bytes ? count : PIECE_BYTES / t->token_bytes;
        int64_t offset = first * t->token_bytes;
        TCC_TRY(tcc__file_read_at(d, p->path, p->fd, offset, piece.bytes, n * t->token_bytes));
        for (int64_t i = 0; i < n; i++) {
            int64_t token = t->token_bytes == 2 ? piece.narrow[i] : piece.wide[i];
            if (token > INT32_MAX || (t->vocab_size && token >= t->vocab_size))
                return tcc_error(d, TCC_EFORMAT, place,
                                 "token %lld at byte %lld is not below the vocabulary's size, %lld", (long long)token,
                                 (long long)(offset + i * t->token_bytes),
                                 (long long)(t->vocab_size ? t->vocab_size : INT32_MAX));
            if (out) *out++ = (int32_t)token;
            if (largest && token > *largest) *largest = token;
        }
        first += n;
        count -= n;
    }
    return TCC_OK;
}

static tcc_status open_part(tcc_diag *d, const tokens *t, const char *path, part *p, int64_t *count) {
    tcc_loc place = {path, 0};
    p->path = tcc__strdup(path);
    if (!p->path) return tcc_enomem(d);
    p->fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (p->fd < 0) {
        int error = errno;
        return tcc_error(d, error == ENOENT ? TCC_ENOTFOUND : TCC_EIO, place, "cannot open the file: %s",
                         tcc__errno(error).text);
    }
    if (fstat(p->fd, &info) || !S_ISREG(info.st_mode)) return tcc_error(d, TCC_EIO, place, "is not a regular file");
    if (info.st_size % t->token_bytes)
        return tcc_error(d, TCC_EFORMAT, place, "%lld bytes are not a whole number of %lld-byte tokens",
                         (long long)info.st_size, (long long)t->token_bytes);
    *count = info.st_size / t->token_bytes;
    return TCC_OK;
}

static tcc_status open_files(tcc_diag *d, const tcc_data_options *options, tokens *t, int64_t length[TCC_SPLIT_COUNT]) {
    if (options->path) TCC_TRY(open_part(d, t, options->path, &t->parts[0], &length[0]));
    if (options->val_path) {
        t->two_files = true;
        return open_part(d, t, options->val_path, &t->parts[1], &length[1]);
    }
    if (!options->path) return TCC_OK;
    length[1] = tcc__val_count(length[0], options->val_split);
    length[0] -= length[1];
    t->parts[1] = t->parts[0];
    t->parts[1].first = length[0];
    return TCC_OK;
}

static tcc_status open_tokens(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data) {
    tokens *t = data->own = tcc__calloc(1, sizeof *t);
    if (!t) return tcc_enomem(d);
    for (int i = 0; i < TCC_SPLIT_COUNT; i++) t->parts[i].fd = -1;
    t->token_bytes = options->token_bytes ? options->token_bytes : default_token_bytes;
    t->vocab_size = options->vocab_size;
    if (t->token_bytes != 2 && t->token_bytes != 4)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "token_bytes is %d; tokens have 2 or 4", options->token_bytes);
    if (t->vocab_size < 0 || t->vocab_size > INT32_MAX)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "vocab_size is %lld", (long long)t->vocab_size);
    int64_t length[TCC_SPLIT_COUNT] = {0};
    TCC_TRY(open_files(d, options, t, length));
    if (!t->vocab_size) {
        int64_t largest = 0;
        for (int i = 0; i < TCC_SPLIT_COUNT; i++)
            TCC_TRY(fetch(d, t, &t->parts[i], t->parts[i].first, length[i], NULL, &largest));
        t->vocab_size = largest + 1;
    }
    return tcc__windows_init(d, options, data, length, t->vocab_size);
}

static tcc_status read_tokens(tcc_diag *d, const tcc_dataset *data, const tcc__sample *sample, void *x, void *y) {
    const tokens *t = data->own;
    const part *p = &t->parts[sample->split];
    int64_t start = p->first + tcc__window_start(data, sample), context = data->info.x.dims[0];
    int32_t *inputs = x, *targets = y;
    TCC_TRY(fetch(d, t, p, start, context, inputs, NULL));
    memcpy(targets, inputs + 1, (size_t)(context - 1) * sizeof *targets);
    return fetch(d, t, p, start + context, 1, targets + context - 1, NULL);
}

static void close_tokens(tcc_dataset *data) {
    tokens *t = data->own;
    for (int i = 0; i < (t->two_files ? 2 : 1); i++) {
        if (t->parts[i].fd >= 0) close(t->parts[i].fd);
        tcc__free(t->parts[i].path);
    }
    tcc__free(t);
}

const tcc__reader tcc__tokens_reader = {
    .kind = "tokens",
    .windows = true,
    .open = open_tokens,
    .read = read_tokens,
    .close = close_tokens,
};
