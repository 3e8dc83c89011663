/* SPDX-License-Identifier: MIT
 * Writes a run's checkpoints beside its training, and keeps the newest few. */
#ifndef TCC_TOOLS_TRAIN_SAVER_H
#define TCC_TOOLS_TRAIN_SAVER_H

#include <traincc/checkpoint.h>

#include <stdbool.h>

typedef struct saver saver;

/* `keep_last`: how many checkpoints stay, beside that of step 0; 0: all. NULL when memory is short. */
saver *saver_create(const char *folder, int64_t keep_last);
void saver_destroy(saver *v); /* waits; NULL is allowed */

/* Saves a copy of the contents; returns at once. An earlier save is waited for first. Errors, also of the earlier one,
 * are told by saver_error. */
tcc_status saver_save(saver *v, const tcc_checkpoint_contents *contents);
/* The end of the save that is under way, if any. */
tcc_status saver_wait(saver *v);
/* The same, if it has ended. */
tcc_status saver_poll(saver *v);
const char *saver_error(const saver *v);

/* The step of the last checkpoint that is there; -1: none. While a save is under way it says nothing. */
int64_t saver_saved(const saver *v);
void saver_set_saved(saver *v, int64_t step);

#endif
