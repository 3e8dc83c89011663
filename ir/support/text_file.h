/* SPDX-License-Identifier: MIT
 * Texts as files, for people: dumps, reproducers. What must survive a crash is written by runtime/files. */
#ifndef TCC_IR_SUPPORT_TEXT_FILE_H
#define TCC_IR_SUPPORT_TEXT_FILE_H

#include "ir/support/diag.h"
#include "ir/support/strbuf.h"

/* Writes the text to the file that `path` spells, and empties both. Errors: EIO, ENOMEM where one of them failed. */
tcc_status tcc_text_file_write(tcc_diag *diag, tcc_strbuf *path, tcc_strbuf *text);

#endif
