/* SPDX-License-Identifier: MIT
 * Data kind tokens: files of little-endian tokens, which may be larger than memory and are read window by window. */
#include "ir/support/alloc.h"
#include "runtime/data/learned.h"
#include "runtime/data/token_file.h"
#include "runtime/data/windows.h"
#include "runtime/files/list.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 13 };
static const int64_t default_token_bytes = 2;

typedef struct shard {
    char *path;
    int fd;
    tcc__token_form form;
    int64_t first; /* of its tokens, in the set */
} shard;

/* Files whose tokens follow one another. */
typedef struct shards {
    tcc_vec(shard) list;
    int64_t tokens;
} shards;

typedef struct tokens {
    shards sets[TCC_SPLIT_COUNT]; /* of path and val_path */
    struct {
        const shards *set;
        int64_t first; /* token */
    } parts[TCC_SPLIT_COUNT];
    int64_t token_bytes;      /* of files that do not say; 0: the default */
    int64_t vocab_size;       /* 0: not yet known */
    tcc_tokenizer *tokenizer; /* NULL: the file has none beside it */
} tokens;

/* Token i of a piece of a file. */
static int64_t token_at(const tcc__token_form *form, const uint8_t *bytes, int64_t i) {
    uint64_t value = 0;
    memcpy(&value, bytes + i * form->token_bytes, (size_t)form->token_bytes);
    return form->is_signed && form->token_bytes == 4 ? (int32_t)value : (int64_t)value;
}

/* `count` tokens of a shard as i32, from its `first` on. Each is checked against the vocabulary, or *largest is raised
 * to the largest. */
static tcc_status fetch_shard(tcc_diag *d, const tokens *t, const shard *s, int64_t first, int64_t count, int32_t *out,
                              int64_t *largest) {
    uint8_t piece[PIECE_BYTES];
    const int64_t bytes = s->form.token_bytes;
    while (count) {
        const int64_t n = count < PIECE_BYTES / bytes ? count : PIECE_BYTES / bytes;
        const int64_t offset = s->form.begins + first * bytes;
        TCC_TRY(tcc__file_read_at(d, s->path, s->fd, offset, piece, n * bytes));
        for (int64_t i = 0; i < n; i++) {
            const int64_t token = token_at(&s->form, piece, i);
            if (token < 0 || token > INT32_MAX || (t->vocab_size && token >= t->vocab_size))
                return tcc_error(d, TCC_EFORMAT, (tcc_loc){s->path, 0},
                                 "token %lld at byte %lld is not below the vocabulary's size, %lld", (long long)token,
                                 (long long)(offset + i * bytes),
                                 (long long)(t->vocab_size ? t->vocab_size : INT32_MAX));
            if (out) *out++ = (int32_t)token;
            if (largest && token > *largest) *largest = token;
        }
        first += n;
        count -= n;
    }
    return TCC_OK;
}

/* Tokens [first, first + count) of a set. */
static tcc_status fetch(tcc_diag *d, const tokens *t, const shards *set, int64_t first, int64_t count, int32_t *out,
                        int64_t *largest) {
    for (int i = 0; i < set->list.count && count; i++) {
        const shard *s = &set->list.data[i];
        const int64_t from = first - s->first, left = s->form.tokens - from, n = left < count ? left : count;
        if (from >= s->form.tokens) continue;
        TCC_TRY(fetch_shard(d, t, s, from, n, out, largest));
        first += n;
        count -= n;
        if (out) out += n;
    }
    return TCC_OK;
}

/* ---- opening ---- */

/* How many tokens the file has, and that they are all there. */
static tcc_status check_form(tcc_diag *d, const tokens *t, const char *path, int64_t size, tcc__token_form *f) {
    const tcc_loc place = {path, 0};
    if (f->token_bytes && t->token_bytes && t->token_bytes != f->token_bytes)
        return tcc_error(d, TCC_EINVAL, place,
                         "its %s header says that tokens have %d bytes, token_bytes that they have "
                         "%lld",
                         f->name, f->token_bytes, (long long)t->token_bytes);
    if (!f->token_bytes) f->token_bytes = (int)(t->token_bytes ? t->token_bytes : default_token_bytes);
    const int64_t bytes = size - f->begins, most = bytes / f->token_bytes;
    if (f->tokens >= 0 && f->tokens != most)
        return tcc_error(d, TCC_EFORMAT, place, "its %s header says that there are %lld tokens, but there are %lld",
                         f->name, (long long)f->tokens, (long long)most);
    if (bytes % f->token_bytes)
        return tcc_error(d, TCC_EFORMAT, place, "%lld bytes are not a whole number of %d-byte tokens", (long long)bytes,
                         f->token_bytes);
    f->tokens = most;
    return TCC_OK;
}

static tcc_status open_shard(tcc_diag *d, const tokens *t, shards *set, shard *s) {
    const tcc_loc place = {s->path, 0};
    uint8_t head[TCC__TOKEN_HEAD];
    struct stat info;
    s->fd = open(s->path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0) {
        const int error = errno;
        return tcc_error(d, error == ENOENT ? TCC_ENOTFOUND : TCC_EIO, place, "cannot open the file: %s",
                         tcc__errno(error).text);
    }
    if (fstat(s->fd, &info) || !S_ISREG(info.st_mode)) return tcc_error(d, TCC_EIO, place, "is not a regular file");
    const int64_t count = info.st_size < (off_t)sizeof head ? info.st_size : (int64_t)sizeof head;
    TCC_TRY(tcc__file_read_at(d, s->path, s->fd, 0, head, count));
    TCC_TRY(tcc__token_form_of(d, s->path, head, count, &s->form));
    TCC_TRY(check_form(d, t, s->path, info.st_size, &s->form));
    s->first = set->tokens;
    set->tokens += s->form.tokens;
    return TCC_OK;
}

static bool is_tokenizer(const char *path) {
    const size_t length = strlen(path), suffix = sizeof TCC_TOKENIZER_SUFFIX - 1;
    return length > suffix && !strcmp(path + length - suffix, TCC_TOKENIZER_SUFFIX);
}

static tcc_status open_set(tcc_diag *d, const tokens *t, const char *path, shards *set) {
    tcc__file_list files = {0};
    tcc_status status = tcc__file_list_match(d, path, &files);
    for (int i = 0; i < files.count && status == TCC_OK; i++) {
        const shard s = {.path = files.data[i], .fd = -1};
        if (is_tokenizer(files.data[i])) continue; /* beside a file of tokens */
        if (tcc_vec_push(&set->list, s)) files.data[i] = NULL;
        else status = tcc_enomem(d);
        if (status == TCC_OK) status = open_shard(d, t, set, &set->list.data[set->list.count - 1]);
    }
    if (status == TCC_OK && !set->list.count) status = tcc_error(d, TCC_ENOTFOUND, (tcc_loc){path, 0}, "has no files");
    tcc__file_list_free(&files);
    return status;
}

static tcc_status open_files(tcc_diag *d, const tcc_data_options *options, tokens *t, int64_t length[TCC_SPLIT_COUNT]) {
    for (int i = 0; i < TCC_SPLIT_COUNT; i++) t->parts[i].set = &t->sets[i];
    if (options->path) TCC_TRY(open_set(d, t, options->path, &t->sets[0]));
    if (options->val_path) TCC_TRY(open_set(d, t, options->val_path, &t->sets[1]));
    for (int i = 0; i < TCC_SPLIT_COUNT; i++) length[i] = t->sets[i].tokens;
    if (options->val_path || !options->path) return TCC_OK;
    length[1] = tcc__val_count(length[0], options->val_split);
    length[0] -= length[1];
    t->parts[1].set = &t->sets[0];
    t->parts[1].first = length[0];
    return TCC_OK;
}

/* The tokenizer that the first file was made with lies beside it, or was learned. The vocabulary is its own then. */
static tcc_status open_tokenizer(tcc_diag *d, const tcc_data_options *options, const cJSON *learned, tokens *t) {
    const cJSON *described = cJSON_GetObjectItemCaseSensitive(learned, "tokenizer");
    if (described) return tcc__tokenizer_open_described(d, described, &t->tokenizer);
    if (learned || !options->path || !t->sets[0].list.count) return TCC_OK;
    tcc_strbuf path = {0};
    tcc_strbuf_printf(&path, "%s" TCC_TOKENIZER_SUFFIX, t->sets[0].list.data[0].path);
    tcc_status status = path.text ? TCC_OK : tcc_enomem(d);
    tcc__bytes file = {0};
    if (status == TCC_OK && tcc__file_exists(path.text)) {
        status = tcc__file_load(d, path.text, &file);
        cJSON *all = status == TCC_OK ? cJSON_ParseWithLength((const char *)file.data, file.size) : NULL;
        if (status == TCC_OK) status = tcc__tokenizer_open_described(d, all, &t->tokenizer);
        if (status == TCC_EFORMAT) tcc_note(d, (tcc_loc){path.text, 0}, "the tokenizer");
        cJSON_Delete(all);
    }
    tcc__free(file.data);
    tcc_strbuf_free(&path);
    return status;
}

/* A vocabulary that is given may be larger than the tokenizer's, as it is where its size is rounded up. */
static tcc_status check_tokenizer(tcc_diag *d, tokens *t) {
    const int64_t size = t->tokenizer ? tcc_tokenizer_vocab_size(t->tokenizer) : 0;
    if (!t->vocab_size) t->vocab_size = size;
    if (t->vocab_size >= size) return TCC_OK;
    return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "vocab_size is %lld, but the tokenizer of the data has %lld tokens",
                     (long long)t->vocab_size, (long long)size);
}

static tcc_status open_tokens(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data) {
    tokens *t = data->own = tcc__calloc(1, sizeof *t);
    if (!t) return tcc_enomem(d);
    t->token_bytes = options->token_bytes;
    t->vocab_size = options->vocab_size;
    if (t->token_bytes && t->token_bytes != 2 && t->token_bytes != 4)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "token_bytes is %d; tokens have 2 or 4", options->token_bytes);
    if (t->vocab_size < 0 || t->vocab_size > INT32_MAX)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "vocab_size is %lld", (long long)t->vocab_size);
    int64_t length[TCC_SPLIT_COUNT] = {0};
    TCC_TRY(open_files(d, options, t, length));
    TCC_TRY(open_tokenizer(d, options, data->learned, t));
    TCC_TRY(check_tokenizer(d, t));
    if (!t->vocab_size) {
        int64_t largest = 0;
        for (int i = 0; i < TCC_SPLIT_COUNT; i++)
            TCC_TRY(fetch(d, t, t->parts[i].set, t->parts[i].first, length[i], NULL, &largest));
        t->vocab_size = largest + 1;
    }
    return tcc__windows_init(d, options, data, length, t->vocab_size);
}

static tcc_status read_tokens(tcc_diag *d, const tcc_dataset *data, const tcc__sample *sample, void *x, void *y) {
    const tokens *t = data->own;
    const shards *set = t->parts[sample->split].set;
    const int64_t start = t->parts[sample->split].first + tcc__window_start(data, sample),
                  context = data->info.x.dims[0];
    int32_t *inputs = x, *targets = y;
    TCC_TRY(fetch(d, t, set, start, context, inputs, NULL));
    memcpy(targets, inputs + 1, (size_t)(context - 1) * sizeof *targets);
    return fetch(d, t, set, start + context, 1, targets + context - 1, NULL);
}

static bool describe_tokens(const tcc_dataset *data, tcc_strbuf *out) {
    const tokens *t = data->own;
    for (int i = 0; i < TCC_SPLIT_COUNT; i++) {
        const shards *set = &t->sets[i];
        if (!set->list.count) continue;
        const tcc__token_form *f = &set->list.data[0].form;
        tcc_strbuf_printf(out, "tokens: %lld in %d %s, of %d bytes (%s)\n", (long long)set->tokens, set->list.count,
                          set->list.count == 1 ? "file" : "files", f->token_bytes, f->name);
    }
    tcc_strbuf_printf(out, "vocabulary: %lld\n", (long long)t->vocab_size);
    return true;
}

static void close_tokens(tcc_dataset *data) {
    tokens *t = data->own;
    for (int i = 0; i < TCC_SPLIT_COUNT; i++) {
        for (int k = 0; k < t->sets[i].list.count; k++) {
            if (t->sets[i].list.data[k].fd >= 0) close(t->sets[i].list.data[k].fd);
            tcc__free(t->sets[i].list.data[k].path);
        }
        tcc_vec_free(&t->sets[i].list);
    }
    tcc_tokenizer_close(t->tokenizer);
    tcc__free(t);
}

static const char *label_token(const tcc_dataset *data, int64_t id, size_t *length) {
    const tokens *t = data->own;
    return t->tokenizer ? tcc_tokenizer_token(t->tokenizer, id, length) : NULL;
}

static tcc_status no_tokenizer(tcc_diag *d) {
    return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                     "the tokenizer of this data is not known: there was no FILE" TCC_TOKENIZER_SUFFIX
                     " beside the file of tokens; tcc-train tokenize writes it");
}

static tcc_status encode_tokens(tcc_diag *d, const tcc_dataset *data, const char *text, size_t length, int32_t *out,
                                int64_t capacity, int64_t *count) {
    tcc_tokenizer *t = ((const tokens *)data->own)->tokenizer;
    return t ? tcc__tokenizer_encode_to(d, t, text, length, out, capacity, count) : no_tokenizer(d);
}

static tcc_status decode_tokens(tcc_diag *d, const tcc_dataset *data, const int32_t *in, int64_t count,
                                tcc_strbuf *out) {
    const tcc_tokenizer *t = ((const tokens *)data->own)->tokenizer;
    return t ? tcc__tokenizer_decode(d, t, in, count, out) : no_tokenizer(d);
}

static bool learn_tokens(const tcc_dataset *data, cJSON *to) {
    const tokens *t = data->own;
    return !t->tokenizer || tcc__learn_tokenizer(to, t->tokenizer);
}

const tcc__reader tcc__tokens_reader = {
    .kind = "tokens",
    .windows = true,
    .open = open_tokens,
    .read = read_tokens,
    .close = close_tokens,
    .describe = describe_tokens,
    .label = label_token,
    .encode = encode_tokens,
    .decode = decode_tokens,
    .learn = learn_tokens,
};
