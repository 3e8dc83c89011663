/* SPDX-License-Identifier: MIT
 * Which samples a batch has, and how long its rows are: functions of the batch's number, the seed, and the data.
 *
 * Batches go by windows. With TCC_PADDING_UNIFORM a window has WINDOW batches: its samples are drawn as without it, but
 * then sorted by their length, and its batches are drawn from what is sorted. Else each batch is a window. */
#ifndef TCC_RUNTIME_DATA_ORDER_H
#define TCC_RUNTIME_DATA_ORDER_H

#include "runtime/data/data.h"

enum { TCC__LENGTHS_MAX = 32 };

/* One sample of a batch. */
typedef struct tcc__drawn {
    int64_t number; /* as in tcc__sample */
    int64_t length; /* 0 where samples have none */
} tcc__drawn;

typedef struct tcc__order {
    const tcc_dataset *data;
    tcc_loader_options how;
    int64_t samples, batches;                             /* an epoch's */
    int64_t window;                                       /* batches */
    int64_t lengths[TCC__LENGTHS_MAX];                    /* of rows, ascending */
    int n_lengths;                                        /* 0 where samples have none */
    bool whole[TCC__LENGTHS_MAX], left[TCC__LENGTHS_MAX]; /* whether there are whole batches, and smaller ones, of each
                                                             length; of the first, where samples have none */
    tcc_padding_info padding;
} tcc__order;

/* The options are valid. */
tcc_status tcc__order_init(tcc_diag *d, const tcc_dataset *data, const tcc_loader_options *how, tcc__order *out);
/* How many samples batch `index` of an epoch has of its own. */
int64_t tcc__order_count(const tcc__order *o, int64_t index);
/* How many samples must fit in the space that a batch is drawn in. */
int64_t tcc__order_space(const tcc__order *o);
/* The samples of batch `number`, somewhere in `space`, and the length of its rows, 0 where samples have none. */
const tcc__drawn *tcc__order_batch(const tcc__order *o, int64_t number, tcc__drawn *space, int64_t *length);

#endif
