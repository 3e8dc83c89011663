/* SPDX-License-Identifier: MIT
 * Models that share their parameters. */
#ifndef TCC_TESTS_HARNESS_SHARED_CASES_H
#define TCC_TESTS_HARNESS_SHARED_CASES_H

#include "traincc/traincc.h"

/* Two networks that train one set of parameters in turn have PyTorch's losses and parameters after each step
 * (numerics/golden/make_shared.py, with the first so many of its extents), whichever is created and compiled first. */
void check_shared_golden(const char *device, tcc_mode mode, int extents);

typedef struct shared_case {
    tcc_mode mode;
    tcc_mixed_precision precisions[2];
    int accumulate; /* micro-batches of the second model */
} shared_case;
/* Two models that share do bit for bit what two do whose parameters are copied from one to the other by hand before
 * each run: while both train, evaluate, draw at random and are written to. */
void check_shared_as_copied(const char *device, const shared_case *c);

#endif
