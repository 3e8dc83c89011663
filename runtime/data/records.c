/* SPDX-License-Identifier: MIT
 * Records of separated values. */
#include "runtime/data/records.h"
#include "ir/support/alloc.h"
#include "runtime/files/utf8.h"

#include <string.h>

#define LINE_ERROR(r, ...) tcc_error((r)->diag, TCC_EFORMAT, (tcc_loc){(r)->path, (r)->line}, __VA_ARGS__)

enum { FIRST_WINDOW = 1 << 20, RECORD_MOST = 64 << 20, UTF8_MOST = 4 };

/* ---- the separator ---- */

/* How often `c` separates cells of the line that begins at `from`; *next: the next line. */
static int count_in_line(const char *from, const char *end, char c, const char **next) {
    int count = 0;
    bool quoted = false;
    for (; from < end && (quoted || (*from != '\n' && *from != '\r')); from++) {
        quoted ^= *from == '"';
        count += !quoted && *from == c;
    }
    while (from < end && (*from == '\n' || *from == '\r')) from++;
    *next = from;
    return count;
}

enum { LINES = 20 }; /* that are looked at */

/* Whether each of the first lines has as many of `c`, and at least one. The last line of a window may go on. */
static bool agree_on(const tcc__records *r, char c) {
    const char *at = r->at, *end = r->end;
    const int first = count_in_line(at, end, c, &at);
    bool agrees = first > 0;
    for (int line = 1; line < LINES && at < end && agrees; line++) {
        const int count = count_in_line(at, end, c, &at);
        agrees = count == first || (r->unread && at == end);
    }
    return agrees;
}

/* Whether all commas of the first lines are within numbers. */
static bool are_decimal(const tcc__records *r) {
    const char *from = r->at, *end = r->end;
    int lines = 0;
    for (const char *c = from; c < end && lines < LINES; c++) {
        lines += *c == '\n';
        if (*c == ',' && (c == from || c + 1 == end || c[-1] < '0' || c[-1] > '9' || c[1] < '0' || c[1] > '9'))
            return false;
    }
    return true;
}

/* A comma, but where all lines agree on another one, too, and the commas are decimal. */
static char find_separator(const tcc__records *r) {
    char found = 0;
    for (const char *c = ";\t|"; *c && !found; c++)
        if (agree_on(r, *c)) found = *c;
    const bool commas = agree_on(r, ',');
    return commas && found && are_decimal(r) ? found : commas || !found ? ',' : found;
}

/* ---- windows of a file ---- */

/* A file of columns is not separated values, though its first bytes may be UTF-8. */
static tcc_status check_magic(const tcc__records *r) {
    const size_t size = (size_t)(r->end - r->at);
    const char *kind = size < 6                      ? NULL
                       : !memcmp(r->at, "PAR1", 4)   ? "Parquet"
                       : !memcmp(r->at, "ARROW1", 6) ? "Arrow"
                                                     : NULL;
    if (!kind) return TCC_OK;
    return tcc_error(r->diag, TCC_EFORMAT, (tcc_loc){r->path, 0},
                     "is a file of %s, which is not read; convert it to CSV, as by pandas' to_csv", kind);
}

static tcc_status check_text(tcc__records *r) {
    if (r->next_line == 1 && !r->before) TCC_TRY(check_magic(r));
    const size_t size = (size_t)(r->end - r->checked);
    const uint8_t *text = (const uint8_t *)r->checked;
    const size_t good = tcc__utf8_check(text, size);
    r->checked += good;
    if (good == size || (r->unread && size - good < UTF8_MOST)) return TCC_OK; /* a character that may go on */
    const int64_t at = r->before + (r->checked - (r->opened ? r->window : r->at));
    return tcc_error(r->diag, TCC_EFORMAT, (tcc_loc){r->path, 0}, "byte %lld (0x%02x) is not UTF-8", (long long)at,
                     text[good]);
}

/* Reads on behind what is not used yet, which moves to the window's beginning. */
static tcc_status fill(tcc__records *r) {
    const size_t kept = (size_t)(r->end - r->at), checked = (size_t)(r->checked - r->at);
    if (kept >= RECORD_MOST)
        return LINE_ERROR(r, "the record has over %d MiB; has a quoted cell no closing quote?", RECORD_MOST >> 20);
    r->before += r->at - r->window;
    if (kept) memmove(r->window, r->at, kept);
    if (2 * kept >= r->capacity) {
        const size_t larger = r->capacity ? 2 * r->capacity : FIRST_WINDOW;
        char *moved = tcc__realloc(r->window, larger);
        if (!moved) return tcc_enomem(r->diag);
        r->window = moved;
        r->capacity = larger;
    }
    size_t got;
    r->at = r->window;
    r->checked = r->window + checked;
    r->end = r->window + kept;
    TCC_TRY(tcc__inflate_read(r->diag, &r->file, r->window + kept, r->capacity - kept, &got));
    r->end += got;
    r->unread = got == r->capacity - kept;
    return check_text(r);
}

/* ---- records ---- */

static tcc_status begin(tcc__records *r) {
    if (r->separator && strchr("\"\r\n", r->separator))
        return tcc_error(r->diag, TCC_EINVAL, TCC_NOWHERE, "a quote or a line end cannot separate CSV cells");
    if (r->opened) TCC_TRY(fill(r));
    else TCC_TRY(check_text(r));
    if (!r->separator) r->separator = find_separator(r);
    if (r->end - r->at >= 3 && !memcmp(r->at, "\xEF\xBB\xBF", 3)) r->at += 3;
    return TCC_OK;
}

tcc_status tcc__records_begin(tcc_diag *d, const char *path, const tcc__bytes *file, char separator, bool escapes,
                              tcc__records *out) {
    static const char none[1];
    const char *text = file && file->size ? (const char *)file->data : none;
    *out = (tcc__records){.diag = d,
                          .path = path,
                          .at = text,
                          .end = text + (file ? file->size : 0),
                          .checked = text,
                          .next_line = 1,
                          .separator = separator,
                          .escapes = escapes};
    if (!file) TCC_TRY(tcc__inflate_open(d, path, &out->file));
    if (!file) out->at = out->end = out->checked = NULL;
    out->opened = !file;
    return begin(out);
}

static bool at_line_end(const tcc__records *r) { return r->at == r->end || *r->at == '\n' || *r->at == '\r'; }

static tcc_status scan_quoted(tcc__records *r) {
    r->at++;
    for (;;) {
        const char *quote = memchr(r->at, '"', (size_t)(r->end - r->at));
        if (!quote && r->unread) return r->at = r->end, TCC_OK;
        if (!quote) return LINE_ERROR(r, "a quoted cell has no closing quote");
        for (const char *c = r->at; c < quote; c++) r->next_line += *c == '\n';
        tcc_strbuf_addn(&r->text, r->at, (size_t)(quote - r->at));
        r->at = quote + 1;
        if (r->at == r->end || *r->at != '"') break;
        tcc_strbuf_addn(&r->text, "\"", 1); /* doubled */
        r->at++;
    }
    if (!at_line_end(r) && *r->at != r->separator)
        return LINE_ERROR(r, "cell %d goes on after its closing quote", r->cells.count);
    return TCC_OK;
}

static void add_unescaped(tcc_strbuf *text, const char *from, const char *to) {
    static const char escapes[] = "tnr\\", stands_for[] = "\t\n\r\\";
    while (from < to) {
        const char *slash = memchr(from, '\\', (size_t)(to - from));
        const char *stop = slash ? slash : to, *what = slash && slash + 1 < to ? strchr(escapes, slash[1]) : NULL;
        tcc_strbuf_addn(text, from, (size_t)(stop - from));
        if (what && *what) tcc_strbuf_addn(text, &stands_for[what - escapes], 1);
        else if (slash) tcc_strbuf_addn(text, slash, 1); /* is itself */
        from = !slash ? to : what && *what ? slash + 2 : slash + 1;
    }
}

static void scan_plain(tcc__records *r) {
    const char *from = r->at;
    while (!at_line_end(r) && *r->at != r->separator) r->at++;
    const char *to = r->at;
    while (from < to && (*from == ' ' || *from == '\t')) from++;
    while (from < to && (to[-1] == ' ' || to[-1] == '\t')) to--;
    if (r->escapes) add_unescaped(&r->text, from, to);
    else tcc_strbuf_addn(&r->text, from, (size_t)(to - from));
}

static tcc_status scan_record(tcc__records *r) {
    r->text.length = 0;
    r->cells.count = 0;
    r->line = r->next_line;
    r->blank = at_line_end(r);
    for (;;) {
        if (!tcc_vec_push(&r->cells, r->text.length)) return tcc_enomem(r->diag);
        const char *start = r->at;
        if (!r->escapes && r->at < r->end && *r->at == '"') TCC_TRY(scan_quoted(r));
        else scan_plain(r);
        if (memchr(start, 0, (size_t)(r->at - start))) return LINE_ERROR(r, "cell %d holds a NUL byte", r->cells.count);
        tcc_strbuf_addn(&r->text, "", 1);
        if (at_line_end(r)) break;
        r->at++; /* the separator */
    }
    if (r->at < r->end && *r->at == '\r') r->at++;
    if (r->at < r->end && *r->at == '\n') r->at++;
    r->next_line++;
    return r->text.failed ? tcc_enomem(r->diag) : TCC_OK;
}

tcc_status tcc__records_next(tcc__records *r, bool *more) {
    for (;;) {
        const char *start = r->at;
        const int line = r->next_line;
        *more = start < r->end;
        if (*more) TCC_TRY(scan_record(r));
        if (!r->unread || r->at < r->end) return TCC_OK;
        r->at = start; /* the record may go on: it is read again, with what follows */
        r->next_line = line;
        TCC_TRY(fill(r));
    }
}

const char *tcc__records_cell(const tcc__records *r, int i) { return r->text.text + r->cells.data[i]; }

void tcc__records_free(tcc__records *r) {
    tcc_strbuf_free(&r->text);
    tcc_vec_free(&r->cells);
    tcc__free(r->window);
    r->window = NULL;
    if (r->opened) tcc__inflate_close(&r->file);
    r->opened = false;
}
