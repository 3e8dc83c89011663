/* SPDX-License-Identifier: MIT
 * Records of separated values. */
#include "runtime/data/records.h"
#include "runtime/files/utf8.h"

#include <string.h>

#define LINE_ERROR(r, ...) tcc_error((r)->diag, TCC_EFORMAT, (tcc_loc){(r)->path, (r)->line}, __VA_ARGS__)

tcc_status tcc__records_begin(tcc_diag *d, const char *path, const tcc__bytes *file, char separator, bool escapes,
                              tcc__records *out) {
    const char *text = (const char *)file->data;
    *out = (tcc__records){.diag = d,
                          .path = path,
                          .at = text,
                          .end = text + file->size,
                          .next_line = 1,
                          .separator = separator,
                          .escapes = escapes};
    if (strchr("\"\r\n", separator))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "a quote or a line end cannot separate CSV cells");
    size_t bad = tcc__utf8_check(file->data, file->size);
    if (bad != file->size)
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "byte %zu (0x%02x) is not UTF-8", bad, file->data[bad]);
    if (file->size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) out->at += 3;
    return TCC_OK;
}

static bool at_line_end(const tcc__records *r) { return r->at == r->end || *r->at == '\n' || *r->at == '\r'; }

static tcc_status scan_quoted(tcc__records *r) {
    r->at++;
    for (;;) {
        const char *quote = memchr(r->at, '"', (size_t)(r->end - r->at));
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

tcc_status tcc__records_next(tcc__records *r, bool *more) {
    *more = r->at < r->end;
    if (!*more) return TCC_OK;
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

const char *tcc__records_cell(const tcc__records *r, int i) { return r->text.text + r->cells.data[i]; }

void tcc__records_free(tcc__records *r) {
    tcc_strbuf_free(&r->text);
    tcc_vec_free(&r->cells);
}
