/* SPDX-License-Identifier: MIT
 * A run's export, as tcc-train export writes it, made without training. */
#ifndef TCC_TESTS_HARNESS_EXPORTED_H
#define TCC_TESTS_HARNESS_EXPORTED_H

#include <traincc/run.h>

/* Writes a small classifier of the rows of a table to FOLDER, with random weights and a program for batches of 4 rows.
 * */
tcc_status exported_make(tcc_context *cx, const char *table, const char *folder);

#endif
