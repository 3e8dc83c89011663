/* SPDX-License-Identifier: MIT
 * What kinds of picture files share: lists of files, and views of them as samples. */
#ifndef TCC_RUNTIME_DATA_PICTURE_DATA_H
#define TCC_RUNTIME_DATA_PICTURE_DATA_H

#include "runtime/data/picture_check.h"
#include "runtime/data/view.h"
#include "runtime/files/list.h"

#include <pthread.h>

/* Pictures that were left out, each with its error. */
typedef struct tcc__skipped {
    pthread_mutex_t mutex; /* workers find some, too */
    tcc__file_list said;
    bool failed; /* memory was short */
} tcc__skipped;

typedef struct tcc__picture_data {
    tcc__file_list pictures[TCC_SPLIT_COUNT]; /* paths; those of the first split alone if it is held out of them */
    tcc__picture_found *found[TCC_SPLIT_COUNT];
    bool skips; /* what is bad is left out, rather than an error */
    tcc__skipped *skipped;
    tcc__view_options view[TCC_SPLIT_COUNT];
} tcc__picture_data;

/* Appends a picture, or all that lie anywhere in a folder, of which there is one at least. */
tcc_status tcc__picture_files(tcc_diag *d, const char *path, tcc__file_list *out);
/* The lists are made: look at the beginnings and ends of all files. The caller may find more of them bad
 * (tcc__picture_data_spoil), then leaves out what belongs to bad ones, and calls init. */
tcc_status tcc__picture_data_check(tcc_diag *d, const tcc_data_options *options, tcc__picture_data *p);
static inline bool tcc__picture_data_is_bad(const tcc__picture_data *p, int split, int i) {
    return !p->found[split][i].height;
}
/* Picture i is bad for `error`: leaves it out and returns OK, or returns `status`. */
tcc_status tcc__picture_data_spoil(tcc__picture_data *p, int split, int i, tcc_diag *error, tcc_status status);
/* Leave out bad pictures, and set info's samples, x, mean and std. Without a size in the options it is that of the
 * first picture. Without a mean and std they are measured on up to 256 training pictures. */
tcc_status tcc__picture_data_init(tcc_diag *d, const tcc_data_options *options, bool cover, tcc_dataset *data,
                                  tcc__picture_data *p);
/* Which list a sample is in. */
int tcc__picture_list_of(const tcc_dataset *data, const tcc__sample *sample);
/* The sample's picture in x; *view is what it shows. */
tcc_status tcc__picture_data_read(tcc_diag *d, const tcc_dataset *data, const tcc__picture_data *p,
                                  const tcc__sample *sample, tcc__view *view, tcc__picture *size, float *x);
/* As `read` gives it, or, where bad pictures are left out, another sample of the split in its place: which one depends
 * on the sample alone. */
tcc_status tcc__picture_data_read_any(tcc_diag *d, const tcc_dataset *data, const tcc__picture_data *p,
                                      const tcc__sample *sample, void *x, void *y,
                                      tcc_status (*read)(tcc_diag *d, const tcc_dataset *data,
                                                         const tcc__sample *sample, void *x, void *y));
/* The i-th that was left out so far, in words; NULL: there are fewer. */
const char *tcc__picture_data_skipped(const tcc__picture_data *p, int64_t i);
bool tcc__picture_data_describe(const tcc__picture_data *p, tcc_strbuf *out);
void tcc__picture_data_free(tcc__picture_data *p);

#endif
