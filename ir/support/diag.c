/* SPDX-License-Identifier: MIT
 * Diagnostics. */
#include "diag.h"

#include <stdio.h>
#include <string.h>

void tcc_loc_print(tcc_strbuf *out, tcc_loc loc) {
    tcc_strbuf_add(out, loc.file);
    if (loc.line > 0) tcc_strbuf_printf(out, ":%d", loc.line);
}

static void add_line(tcc_diag *d, tcc_loc loc, const char *severity, const char *format, va_list args) {
    char message[2048]; /* longer messages are cut, which is better than failing to report */
    vsnprintf(message, sizeof message, format, args);
    if (d->text.length) tcc_strbuf_add(&d->text, "\n");
    if (loc.file) tcc_loc_print(&d->text, loc);
    tcc_strbuf_printf(&d->text, "%s%s: %s", loc.file ? ": " : "", severity, message);
}

tcc_status tcc_verror(tcc_diag *d, tcc_status status, tcc_loc loc, const char *format, va_list args) {
    if (!d || d->status != TCC_OK) return status;
    tcc_diag_clear(d);
    d->status = status;
    add_line(d, loc, "error", format, args);
    return status;
}

tcc_status tcc_error(tcc_diag *d, tcc_status status, tcc_loc loc, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tcc_verror(d, status, loc, format, args);
    va_end(args);
    return status;
}

tcc_status tcc_enomem(tcc_diag *d) { return tcc_error(d, TCC_ENOMEM, TCC_NOWHERE, "out of memory"); }

void tcc_note(tcc_diag *d, tcc_loc loc, const char *format, ...) {
    if (!d || d->status == TCC_OK) return;
    va_list args;
    va_start(args, format);
    add_line(d, loc, "note", format, args);
    va_end(args);
}

const char *tcc_diag_text(const tcc_diag *d) {
    if (d->status == TCC_OK) return "";
    return d->text.text ? d->text.text : tcc_status_text(d->status);
}

const char *tcc_diag_words(const tcc_diag *d) {
    static const char severity[] = "error: ";
    const char *text = tcc_diag_text(d);
    return strncmp(text, severity, sizeof severity - 1) ? text : text + sizeof severity - 1;
}

void tcc_diag_begin(tcc_diag *d) {
    if (d->status != TCC_OK) d->last = d->status;
    d->status = TCC_OK;
}

const char *tcc_diag_last(const tcc_diag *d) {
    const tcc_status status = d->status != TCC_OK ? d->status : d->last;
    if (status == TCC_OK) return "";
    return d->text.text ? d->text.text : tcc_status_text(status);
}

void tcc_diag_clear(tcc_diag *d) {
    tcc_strbuf_free(&d->text);
    d->status = d->last = TCC_OK;
}
