/* SPDX-License-Identifier: MIT
 * Files of text to one file of tokens, in pieces. A piece ends where its tokens do not depend on what follows. */
#include "ir/support/alloc.h"
#include "runtime/data/tokenize/tokenizer.h"
#include "runtime/files/file.h"
#include "runtime/files/list.h"
#include "runtime/files/inflate.h"
#include "runtime/files/utf8.h"

#include <string.h>
#include <sys/stat.h>

enum { PIECE_BYTES = 1 << 20, LARGEST_PIECE = 1 << 30 };

typedef struct job {
    tcc_tokenizer *t;
    const tcc_tokenize_options *options;
    tcc_tokenize_result *result;
    tcc__file_list files;
    int64_t bytes_before, all_bytes; /* on the disk: of the files read so far, of all */
    uint8_t *text;
    size_t capacity;
    int32_t end; /* -1: none */
    tcc__out out;
} job;

static tcc_status check_options(tcc_diag *d, const tcc_tokenize_options *o, job *j) {
    int64_t size = j->t->vocab.count;
    if (o->size != sizeof *o)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "tcc_tokenize_options.size is %zu, should be %zu", o->size,
                         sizeof *o);
    if (o->n_inputs < 1 || !o->output || !*o->output)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "text files and the file to write are needed");
    if (o->token_bytes != 0 && o->token_bytes != 2 && o->token_bytes != 4)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "token_bytes is %d; tokens have 2 or 4", o->token_bytes);
    if (o->token_bytes == 2 && size > 65536)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "a vocabulary of %lld tokens does not fit in 2 bytes a token",
                         (long long)size);
    j->end = o->end ? (int32_t)tcc_tokenizer_find(j->t, o->end) : -1;
    if (o->end && j->end < 0) return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "the vocabulary has no token '%s'", o->end);
    j->result->token_bytes = o->token_bytes ? o->token_bytes : size > 65536 ? 4 : 2;
    return TCC_OK;
}

/* The inputs' files. The output, from an earlier time, may lie among them. */
static tcc_status list_files(tcc_diag *d, job *j) {
    struct stat output, info;
    bool exists = !stat(j->options->output, &output);
    for (int i = 0; i < j->options->n_inputs; i++) TCC_TRY(tcc__file_list_add(d, j->options->inputs[i], &j->files));
    for (int i = 0; i < j->files.count; i++) {
        if (stat(j->files.data[i], &info)) continue; /* opening it will tell */
        if (exists && info.st_dev == output.st_dev && info.st_ino == output.st_ino)
            return tcc_error(d, TCC_EINVAL, (tcc_loc){j->options->output, 0}, "is both an input and the output");
        j->all_bytes += info.st_size;
    }
    if (j->files.count) return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){j->options->inputs[0], 0}, "has no files");
}

/* ---- one file ---- */

static tcc_status write_ids(tcc_diag *d, job *j) {
    tcc__ids *ids = &j->t->ids;
    if (j->result->token_bytes == 2) { /* in place: each goes where an earlier one was */
        uint8_t *narrow = (uint8_t *)ids->data;
        for (size_t i = 0; i < ids->count; i++) {
            uint16_t token = (uint16_t)ids->data[i];
            memcpy(narrow + 2 * i, &token, sizeof token);
        }
    }
    j->result->tokens += (int64_t)ids->count;
    return tcc__out_write(d, &j->out, ids->data, ids->count * (size_t)j->result->token_bytes);
}

/* How much of the text read so far can be encoded; 0: more must be read. */
static tcc_status find_cut(tcc_diag *d, const job *j, const tcc__passage *from, size_t *cut) {
    *cut = j->t->kind->cut(from->text, from->size);
    if (*cut || j->t->kind->any_bytes) return TCC_OK;
    size_t good = tcc__utf8_check(from->text, from->size);
    if (from->size - good > 3) { /* not merely a character cut off */
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){from->path, 0}, "the text is not UTF-8 at byte %lld (0x%02x)",
                         (long long)(from->first + (int64_t)good), from->text[good]);
    }
    if (from->size < LARGEST_PIECE) return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){from->path, 0},
                     "from byte %lld on %zu bytes have no space between words", (long long)from->first, from->size);
}

static tcc_status grow(tcc_diag *d, job *j) {
    uint8_t *larger = tcc__realloc(j->text, 2 * j->capacity);
    if (!larger) return tcc_enomem(d);
    j->text = larger;
    j->capacity *= 2;
    return TCC_OK;
}

static tcc_status report_progress(tcc_diag *d, const job *j, const tcc__inflate *file) {
    const tcc_tokenize_options *o = j->options;
    if (!o->progress || o->progress(o->user, j->bytes_before + file->position_bytes, j->all_bytes, j->result->tokens))
        return TCC_OK;
    return tcc_error(d, TCC_EINTERRUPTED, (tcc_loc){o->output, 0}, "interrupted; nothing was written");
}

static tcc_status encode_pieces(tcc_diag *d, job *j, tcc__inflate *file) {
    size_t kept = 0;
    int64_t first = 0; /* of what is kept, in the file */
    for (bool last = false; !last;) {
        if (kept == j->capacity) TCC_TRY(grow(d, j));
        size_t got, cut;
        TCC_TRY(tcc__inflate_read(d, file, j->text + kept, j->capacity - kept, &got));
        last = got < j->capacity - kept;
        tcc__passage from = {j->text, kept + got, file->path, first};
        if (!first && !j->t->kind->any_bytes) tcc__skip_mark(&from);
        cut = from.size;
        if (!last) TCC_TRY(find_cut(d, j, &from, &cut));
        tcc__passage piece = {from.text, cut, from.path, from.first};
        j->t->ids.count = 0;
        TCC_TRY(tcc__tokenizer_encode(d, j->t, &piece, &j->t->ids));
        if (last && j->end >= 0 && !tcc__ids_add(&j->t->ids, &j->end, 1)) return tcc_enomem(d);
        TCC_TRY(write_ids(d, j));
        TCC_TRY(report_progress(d, j, file));
        kept = from.size - cut;
        first = from.first + (int64_t)cut;
        memmove(j->text, from.text + cut, kept);
    }
    return TCC_OK;
}

static tcc_status encode_file(tcc_diag *d, job *j, const char *path) {
    tcc__inflate file;
    TCC_TRY(tcc__inflate_open(d, path, &file));
    tcc_status status = encode_pieces(d, j, &file);
    j->bytes_before += file.size_bytes;
    j->result->text_bytes += file.offset;
    j->result->files++;
    tcc__inflate_close(&file);
    return status;
}

/* ---- all ---- */

static tcc_status run(tcc_diag *d, job *j) {
    TCC_TRY(check_options(d, j->options, j));
    TCC_TRY(list_files(d, j));
    j->capacity = PIECE_BYTES;
    j->text = tcc__malloc(j->capacity);
    if (!j->text) return tcc_enomem(d);
    TCC_TRY(tcc__out_open(d, &j->out, j->options->output));
    for (int i = 0; i < j->files.count; i++) TCC_TRY(encode_file(d, j, j->files.data[i]));
    TCC_TRY(tcc__out_sync(d, &j->out));
    return tcc__out_rename(d, &j->out);
}

tcc_status tcc_tokenize_files(tcc_context *cx, tcc_tokenizer *t, const tcc_tokenize_options *options,
                              tcc_tokenize_result *result) {
    tcc_diag_begin(&cx->diag);
    *result = (tcc_tokenize_result){0};
    job j = {.t = t, .options = options, .result = result, .out = {.fd = -1}};
    tcc_status status = run(&cx->diag, &j);
    tcc__out_abandon(&j.out);
    tcc__file_list_free(&j.files);
    tcc__free(j.text);
    return status;
}
