/* SPDX-License-Identifier: MIT
 * Signs of life of a rank that is at work: a thread gives one every so often. */
#ifndef TCC_RUNTIME_COMM_WORK_H
#define TCC_RUNTIME_COMM_WORK_H

#include "ir/support/diag.h"

typedef struct tcc_comm_work tcc_comm_work;

/* From now on the thread calls `beat` each `seconds`, until one fails. TCC_ENOMEM, TCC_EIO. */
tcc_status tcc_comm_work_begin(tcc_diag *d, double seconds, tcc_status (*beat)(void *user), void *user,
                               tcc_comm_work **out);
/* Once the last beat is done. NULL is allowed. */
void tcc_comm_work_end(tcc_comm_work *w);

#endif
