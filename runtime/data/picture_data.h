/* SPDX-License-Identifier: MIT
 * What kinds of picture files share: lists of files, and views of them as samples. */
#ifndef TCC_RUNTIME_DATA_PICTURE_DATA_H
#define TCC_RUNTIME_DATA_PICTURE_DATA_H

#include "runtime/data/view.h"
#include "runtime/files/list.h"

typedef struct tcc__picture_data {
    tcc__file_list pictures[TCC_SPLIT_COUNT]; /* paths; those of the first split alone if it is held out of them */
    tcc__view_options view;
} tcc__picture_data;

/* The lists are made: check that all begin as pictures, and set info's samples, x, mean and std. Without a size in the
 * options it is that of the first picture. Without a mean and std they are measured on up to 256 training pictures. */
tcc_status tcc__picture_data_init(tcc_diag *d, const tcc_data_options *options, bool cover, tcc_dataset *data,
                                  tcc__picture_data *p);
/* Which list a sample is in. */
int tcc__picture_list_of(const tcc_dataset *data, const tcc__sample *sample);
/* The sample's picture in x; *view is what it shows. */
tcc_status tcc__picture_data_read(tcc_diag *d, const tcc_dataset *data, const tcc__picture_data *p,
                                  const tcc__sample *sample, tcc__view *view, tcc__picture *size, float *x);
void tcc__picture_data_free(tcc__picture_data *p);

#endif
