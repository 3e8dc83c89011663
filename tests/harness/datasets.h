/* SPDX-License-Identifier: MIT
 * What tests of data sets share. */
#ifndef TCC_TESTS_HARNESS_DATASETS_H
#define TCC_TESTS_HARNESS_DATASETS_H

#include "ir/support/context.h"
#include "traincc/data.h"

/* Opening the data set fails with `status`, and the message says `part`. */
void dataset_refused(tcc_context *cx, tcc_data_options options, tcc_status status, const char *part);
/* Opening it where each allocation in turn fails ends in TCC_ENOMEM, until none does. */
void dataset_out_of_memory(tcc_context *cx, tcc_data_options options);

#endif
