/* SPDX-License-Identifier: MIT
 * Picture files before the first step: the beginnings and ends of all, by several threads. */
#ifndef TCC_RUNTIME_DATA_PICTURE_CHECK_H
#define TCC_RUNTIME_DATA_PICTURE_CHECK_H

#include "runtime/data/pictures/picture.h"
#include "runtime/files/list.h"

/* What a file was found to be. */
typedef struct tcc__picture_found {
    int64_t height, width; /* 0: it is bad */
} tcc__picture_found;

/* `found` has a place for each file. The first bad one ends it with its error, unless `skips`. */
tcc_status tcc__picture_check_all(tcc_diag *d, const tcc__file_list *files, bool skips, tcc__picture_found *found);

#endif
