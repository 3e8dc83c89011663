/* SPDX-License-Identifier: MIT
 * What kinds text and tokens share: samples that are windows of T + 1 tokens of a long sequence. */
#ifndef TCC_RUNTIME_DATA_WINDOWS_H
#define TCC_RUNTIME_DATA_WINDOWS_H

#include "runtime/data/data.h"

/* Set info from the length of each part (0: no such part) and the options. Errors: EINVAL (no
 * context), EFORMAT (a part is shorter than one window). */
tcc_status tcc__windows_init(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data,
                             const int64_t tokens[TCC_SPLIT_COUNT], int64_t vocab_size);
/* Where the sample's window starts in its part: shuffled, uniform in [0, len - T); else side by
 * side. */
int64_t tcc__window_start(const tcc_dataset *data, const tcc__sample *sample);

#endif
