/* SPDX-License-Identifier: MIT
 * An optimizer's options as an initializer, for tables: kind, learning rate, and what differs from Adam's defaults. */
#ifndef TCC_TESTS_OPTIMIZER_H
#define TCC_TESTS_OPTIMIZER_H

#include <traincc/model.h>

#define OPTIMIZER(kind_, lr_, ...)          \
    {.size = sizeof(tcc_optimizer_options), \
     .kind = (kind_),                       \
     .lr = (lr_),                           \
     .beta1 = 0.9,                          \
     .beta2 = 0.999,                        \
     .eps = 1e-8,                           \
     __VA_ARGS__}
/* The same as a pointer that lives as long as the block, or the program. */
#define OPTIMIZER_OF(...) (&(const tcc_optimizer_options)OPTIMIZER(__VA_ARGS__))

#endif
