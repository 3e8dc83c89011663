/* SPDX-License-Identifier: MIT
 * A training run: what its files share. train_run.c calls the others. */
#ifndef TCC_TOOLS_TRAIN_RUN_H
#define TCC_TOOLS_TRAIN_RUN_H

#include "train.h"

#include <traincc/checkpoint.h>
#include <traincc/metrics.h>

typedef struct run {
    const train_options *options;
    const recipe *recipe;
    const volatile sig_atomic_t *interrupted;
    tcc_context *cx;
    tcc_dataset *data;
    tcc_dataset_info info;
    tcc_loader *loader, *val_loader; /* val_loader: NULL without validation data */
    tcc_model *model;
    tcc_metrics *metrics;
    run_folder folder;
    bool language, regression, terminal;
    bool late;    /* a step is reported when the next one is under way, so that the device is never idle */
    bool pending; /* a step is not yet reported: */
    int64_t pending_step;
    double pending_lr, pending_seconds;          /* that it took to enqueue */
    bool drawing;                                /* a progress line is on the terminal, without its line break */
    int64_t total_steps, first_step, saved_step; /* saved_step: -1 none yet */
    double started;                              /* when the first step began, in seconds */
    int64_t logged_step;                         /* of the last logged line */
    double busy_seconds;                         /* spent in training steps since then */
    int64_t skipped, skipped_in_row;             /* steps that fp16 skipped: so far, and up to the last logged one */
    const tcc_batch *batch;                      /* of the last training step */
    char problem[1024];                          /* that ends the run, where it is no error of the library */
    char graphs[512];                            /* what was last said of CUDA graphs */
    bool graphs_decided;                         /* nothing more is to be said of them */
    double shown_at;                             /* when the progress line was last drawn */
} run;

/* train_data.c. Opens the data set and its loaders. */
tcc_status run_open_data(run *s);
/* A prompt that the vocabulary cannot spell is refused before the training, not after it. */
tcc_status run_check_prompt(run *s);

/* train_model.c. The first batch, to be looked at: its signature is all that compiling needs. */
tcc_status run_first_batch(run *s, const tcc_batch **batch);
/* Creates the model and compiles what the run will need; verifies it if asked to. */
tcc_status run_create_model(run *s);

/* train_checkpoint.c */
tcc_status run_save(run *s, int64_t step);
tcc_status run_init_from(run *s, const char *path);
/* Takes all that a checkpoint holds; the run goes on from its step. */
tcc_status run_resume(run *s, const tcc_checkpoint *c);

/* train_steps.c. Leaves the progress line, where one is being drawn. */
void run_end_line(run *s);
tcc_status run_print_sample(run *s);
/* Trains from first_step to total_steps, or until interrupted; then the last step is saved. */
tcc_status run_train(run *s);

#endif
