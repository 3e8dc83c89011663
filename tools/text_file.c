/* SPDX-License-Identifier: MIT */
#include "text_file.h"

#include <stdlib.h>

bool text_file_begin(text_file *f) {
    *f = (text_file){0};
    f->out = open_memstream(&f->text, &f->length);
    return f->out != NULL;
}

tcc_status text_file_end(text_file *f, tcc_context *cx, const char *path) {
    const bool whole = !ferror(f->out);
    tcc_status status = !fclose(f->out) && whole ? TCC_OK : TCC_ENOMEM;
    if (status == TCC_OK) status = tcc_file_write(cx, path, f->text, f->length);
    free(f->text);
    *f = (text_file){0};
    return status;
}
