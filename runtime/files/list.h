/* SPDX-License-Identifier: MIT
 * Lists of files. */
#ifndef TCC_RUNTIME_FILES_LIST_H
#define TCC_RUNTIME_FILES_LIST_H

#include "ir/support/diag.h"
#include "ir/support/vec.h"

typedef tcc_vec(char *) tcc__file_list;

/* Append `path`, or, where it is a folder, all files in it and below it, in the order of their names. Hidden ones are
 * left out. Errors: ENOTFOUND, EIO, ENOMEM. */
tcc_status tcc__file_list_add(tcc_diag *d, const char *path, tcc__file_list *list);
/* The same; where there is no such file, `path` may be a pattern, as "train_*.bin", of files. */
tcc_status tcc__file_list_match(tcc_diag *d, const char *path, tcc__file_list *list);
/* Append the names, not paths, of a folder's own files, or of its own folders, in their order; hidden ones are left
 * out. */
tcc_status tcc__folder_names(tcc_diag *d, const char *path, bool folders, tcc__file_list *list);
void tcc__file_list_free(tcc__file_list *list);

#endif
