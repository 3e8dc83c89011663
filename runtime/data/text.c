/* SPDX-License-Identifier: MIT
 * Data kind text: characters of a text file. */
#include "runtime/data/text.h"
#include "ir/support/alloc.h"
#include "runtime/data/windows.h"
#include "runtime/files/utf8.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 18, MARK_BYTES = 1 << 12, READ_BYTES = 1 << 12 };

/* ---- bytes of a source ---- */

static tcc_status fetch(tcc_diag *d, const tcc__text_source *s, int64_t at, void *to, int64_t count) {
    if (s->fd < 0) {
        memcpy(to, s->memory + at, (size_t)count);
        return TCC_OK;
    }
    return tcc__file_read_at(d, s->path, s->fd, at, to, count);
}

/* ---- the first reading ---- */

/* A piece, mark by mark. *used are its whole characters. */
static tcc_status survey_piece(tcc_diag *d, tcc__text *t, tcc__text_source *s, const tcc__passage *piece, bool last,
                               size_t *used) {
    for (*used = 0; *used < piece->size;) {
        size_t left = piece->size - *used, size = left < MARK_BYTES ? left : MARK_BYTES, taken;
        if (!tcc_vec_push(&s->marks, (tcc__text_mark){piece->first + (int64_t)*used, s->characters}))
            return tcc_enomem(d);
        tcc__passage part = {piece->text + *used, size, s->path, piece->first + (int64_t)*used};
        TCC_TRY(tcc__characters_survey(d, &t->characters, &part, last && size == left, &taken, &s->characters));
        *used += taken;
        if (!taken) { /* a character cut off: it comes again, with its mark */
            s->marks.count--;
            break;
        }
    }
    return TCC_OK;
}

static tcc_status survey_source(tcc_diag *d, tcc__text *t, tcc__text_source *s, uint8_t *buffer) {
    for (int64_t at = 0; at < s->size_bytes;) {
        int64_t left = s->size_bytes - at, size = left < PIECE_BYTES ? left : PIECE_BYTES;
        TCC_TRY(fetch(d, s, at, buffer, size));
        tcc__passage piece = {buffer, (size_t)size, s->path, at};
        if (!at && !t->characters.bytes) tcc__skip_mark(&piece);
        s->first = at ? s->first : piece.first;
        size_t used;
        TCC_TRY(survey_piece(d, t, s, &piece, size == left, &used));
        at = piece.first + (int64_t)used;
    }
    if (s->characters == s->size_bytes - s->first) tcc_vec_free(&s->marks); /* a byte each */
    return TCC_OK;
}

static tcc_status make_labels(tcc_diag *d, tcc__text *t) {
    if (!tcc__characters_number(&t->characters, &t->vocab)) return tcc_enomem(d);
    t->labels = tcc__calloc((size_t)t->vocab.count + 1, sizeof *t->labels);
    if (!t->labels) return tcc_enomem(d);
    for (int32_t id = 0; id < t->vocab.count; id++) {
        size_t length;
        const char *text = tcc__vocab_text(&t->vocab, id, &length);
        memcpy(t->labels[id], text, length);
    }
    return TCC_OK;
}

tcc_status tcc__text_survey(tcc_diag *d, tcc__text *t) {
    uint8_t *buffer = tcc__malloc(PIECE_BYTES);
    tcc_status status = buffer ? TCC_OK : tcc_enomem(d);
    for (int i = 0; i < 2 && status == TCC_OK; i++) status = survey_source(d, t, &t->sources[i], buffer);
    tcc__free(buffer);
    return status == TCC_OK ? make_labels(d, t) : status;
}

void tcc__text_free(tcc__text *t) {
    for (int i = 0; i < 2; i++) {
        if (t->sources[i].fd >= 0) close(t->sources[i].fd);
        tcc__free(t->sources[i].own);
        tcc_vec_free(&t->sources[i].marks);
    }
    tcc__free(t->characters.ids);
    tcc__vocab_free(&t->vocab);
    tcc__free(t->labels);
}

/* ---- reading ---- */

/* The byte of character `at`, or of one before it, of which *skip are to be left out. */
static int64_t find_byte(const tcc__text_source *s, int64_t at, int64_t *skip) {
    *skip = 0;
    if (!s->marks.count) return s->first + at;
    int low = 0, high = s->marks.count; /* the mark is in [low, high) */
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (s->marks.data[middle].character <= at) low = middle;
        else high = middle;
    }
    *skip = at - s->marks.data[low].character;
    return s->marks.data[low].byte;
}

static tcc_status changed(tcc_diag *d, const tcc__text_source *s, int64_t byte) {
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){s->path, 0},
                     "byte %lld begins no character that was there before; the file has changed while it was in use",
                     (long long)byte);
}

tcc_status tcc__text_read(tcc_diag *d, const tcc__text *t, int which, int64_t at, int64_t count, int32_t *out) {
    const tcc__text_source *s = &t->sources[which];
    const tcc__characters *c = &t->characters;
    int64_t skip, byte = find_byte(s, at, &skip);
    uint8_t text[READ_BYTES];
    while (count > 0) {
        int64_t left = s->size_bytes - byte, size = left < READ_BYTES ? left : READ_BYTES, used = 0;
        if (size <= 0) return changed(d, s, byte);
        TCC_TRY(fetch(d, s, byte, text, size));
        while (used < size && count > 0) {
            uint32_t code = text[used];
            int length = c->bytes ? 1 : tcc__utf8_decode(text + used, (size_t)(size - used), &code);
            if (!length && used && size < left) break; /* cut off */
            if (!length || code >= c->count || c->ids[code] < 0) return changed(d, s, byte + used);
            used += length;
            if (skip-- > 0) continue;
            *out++ = c->ids[code];
            count--;
        }
        byte += used;
    }
    return TCC_OK;
}

/* ---- the reader ---- */

/* One text in two parts is one source for both. */
typedef struct text_data {
    tcc__text text;
    char *paths[2];
    int source[TCC_SPLIT_COUNT];
    int64_t first[TCC_SPLIT_COUNT]; /* character */
} text_data;

/* Plain files stay open; gzipped ones are inflated at once. */
static tcc_status open_source(tcc_diag *d, const char *path, tcc__text_source *s) {
    struct stat info;
    uint8_t magic[2] = {0};
    s->path = path;
    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd >= 0 && !fstat(s->fd, &info) && S_ISREG(info.st_mode)) {
        ssize_t got = pread(s->fd, magic, 2, 0);
        s->size_bytes = info.st_size;
        if (got >= 0 && !(magic[0] == 0x1F && magic[1] == 0x8B)) return TCC_OK;
    }
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
    tcc__bytes file;
    TCC_TRY(tcc__file_load(d, path, &file)); /* a pipe, too; and its words where there is no file */
    s->own = file.data;
    s->memory = file.data;
    s->size_bytes = (int64_t)file.size;
    return TCC_OK;
}

static bool learn_characters(const tcc_dataset *data, cJSON *to) {
    const tcc__characters *c = &((const text_data *)data->own)->text.characters;
    return tcc__characters_describe(c, to) && (!c->bytes || cJSON_AddTrueToObject(to, "bytes"));
}

static tcc_status open_text(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data) {
    text_data *own = data->own = tcc__calloc(1, sizeof *own);
    if (!own) return tcc_enomem(d);
    tcc__text *t = &own->text;
    t->sources[0].fd = t->sources[1].fd = -1;
    t->characters.bytes = options->bytes;
    const char *const paths[2] = {options->path, options->val_path};
    if (data->learned) TCC_TRY(tcc__characters_take(d, data->learned, &t->characters));
    for (int i = 0; i < 2; i++) {
        if (!paths[i]) continue;
        own->paths[i] = tcc__strdup(paths[i]);
        if (!own->paths[i]) return tcc_enomem(d);
        TCC_TRY(open_source(d, own->paths[i], &t->sources[i]));
    }
    TCC_TRY(tcc__text_survey(d, t));
    int64_t length[TCC_SPLIT_COUNT] = {t->sources[0].characters, t->sources[1].characters};
    if (paths[1]) {
        own->source[TCC_SPLIT_VALIDATION] = 1;
    } else if (paths[0]) {
        length[1] = tcc__val_count(length[0], options->val_split);
        length[0] -= length[1];
        own->first[TCC_SPLIT_VALIDATION] = length[0];
    }
    return tcc__windows_init(d, options, data, length, t->vocab.count);
}

static tcc_status read_text(tcc_diag *d, const tcc_dataset *data, const tcc__sample *sample, void *x, void *y) {
    const text_data *own = data->own;
    int64_t start = own->first[sample->split] + tcc__window_start(data, sample), context = data->info.x.dims[0];
    int which = own->source[sample->split];
    int32_t *inputs = x, *targets = y;
    TCC_TRY(tcc__text_read(d, &own->text, which, start, 1, inputs));
    TCC_TRY(tcc__text_read(d, &own->text, which, start + 1, context, targets));
    memcpy(inputs + 1, targets, (size_t)(context - 1) * sizeof *targets);
    return TCC_OK;
}

static void close_text(tcc_dataset *data) {
    text_data *own = data->own;
    tcc__text_free(&own->text);
    for (int i = 0; i < 2; i++) tcc__free(own->paths[i]);
    tcc__free(own);
}

static const char *label_text(const tcc_dataset *data, int64_t id, size_t *length) {
    const tcc__text *t = &((const text_data *)data->own)->text;
    tcc__vocab_text(&t->vocab, (int32_t)id, length);
    return t->labels[id];
}

static tcc_status encode_text(tcc_diag *d, const tcc_dataset *data, const char *text, size_t length, int32_t *tokens,
                              int64_t capacity, int64_t *count) {
    const tcc__characters *c = &((const text_data *)data->own)->text.characters;
    int step;
    for (size_t at = 0; at < length; at += (size_t)step, ++*count) {
        uint32_t code = (uint8_t)text[at];
        step = c->bytes ? 1 : tcc__utf8_decode((const uint8_t *)text + at, length - at, &code);
        if (!step) return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "the text is not UTF-8 at byte %zu", at);
        if (code >= c->count || c->ids[code] < 0)
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                             "character '%.*s' (U+%04X) at byte %zu does not occur in the data", step, text + at, code,
                             at);
        if (*count < capacity) tokens[*count] = c->ids[code];
    }
    return TCC_OK;
}

const tcc__reader tcc__text_reader = {
    .kind = "text",
    .windows = true,
    .open = open_text,
    .read = read_text,
    .close = close_text,
    .label = label_text,
    .encode = encode_text,
    .learn = learn_characters,
};
