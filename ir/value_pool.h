/* SPDX-License-Identifier: MIT
 * Memory that the interpreter uses again. The system takes longer to give pages of zeros than many rules take to fill
 * them, so a pool keeps large blocks that are given back, for new ones of about their size. What it keeps and what is
 * in use are never more together than what was in use at once before: a pool does not raise the peak. */
#ifndef TCC_IR_VALUE_POOL_H
#define TCC_IR_VALUE_POOL_H

#include <stdbool.h>
#include <stddef.h>

/* May be used by several threads. Where a function takes a pool, NULL is allowed: then nothing is kept. */
typedef struct tcc_value_pool tcc_value_pool;

tcc_value_pool *tcc_value_pool_create(void); /* NULL when memory is short */
/* To be called when all has been given back. */
void tcc_value_pool_destroy(tcc_value_pool *p);
/* NULL when memory is short. */
void *tcc_value_pool_take(tcc_value_pool *p, size_t bytes, bool zeroed);
/* Gives back what was taken from `p` with this size; NULL is allowed. */
void tcc_value_pool_give(tcc_value_pool *p, void *memory, size_t bytes);

#endif
