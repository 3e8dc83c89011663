/* SPDX-License-Identifier: MIT */
#include "ir/support/text_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

tcc_status tcc_text_file_write(tcc_diag *diag, tcc_strbuf *path, tcc_strbuf *text) {
    tcc_status status = path->failed || text->failed || !path->text ? tcc_enomem(diag) : TCC_OK;
    if (status == TCC_OK) {
        FILE *f = fopen(path->text, "w");
        bool written = f && fwrite(text->text ? text->text : "", 1, text->length, f) == text->length;
        if (f && fclose(f)) written = false;
        if (!written)
            status = tcc_error(diag, TCC_EIO, TCC_NOWHERE, "cannot write %s: %s", path->text, strerror(errno));
    }
    tcc_strbuf_free(path);
    tcc_strbuf_free(text);
    return status;
}
