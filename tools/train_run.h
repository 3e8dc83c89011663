/* SPDX-License-Identifier: MIT
 * A training run: what its files share. train_run.c calls the others. */
#ifndef TCC_TOOLS_TRAIN_RUN_H
#define TCC_TOOLS_TRAIN_RUN_H

#include "train.h"
#include "eval_metrics.h"
#include "train_saver.h"

#include <traincc/checkpoint.h>
#include <traincc/metrics.h>
#include <traincc/models.h>

typedef struct run {
    const train_options *options;
    recipe *recipe; /* a batch size that it leaves open is chosen before the loaders are made */
    train_signals *signals;
    const volatile sig_atomic_t *interrupted; /* among them */
    tcc_context *cx;
    char *learned;              /* what the data set learned from the training data */
    tcc_checkpoint *checkpoint; /* to evaluate or predict with: one of these two */
    tcc_safetensors *parameters;
    tcc_dataset *data;
    int input;       /* of those to predict from, the one that is read */
    void *predicted; /* names of pictures that were written so far: a tree of search.h */
    tcc_dataset_info info;
    tcc_loader *loader, *val_loader; /* NULL: of a run that is only looked at; without validation data */
    tcc_model *model;
    tcc_model *predictor; /* programs that answer, until they are written into the run's folder */
    tcc_metrics *metrics;
    saver *saver;
    const char *weights; /* what was loaded to evaluate or predict with, in words; static */
    run_folder folder;
    int64_t batch_limit; /* bytes that a step of the batch that was chosen may take; 0: the recipe says the batch */
    double best;         /* of validation so far; NaN: none */
    struct {
        double best;          /* NaN: none yet */
        int64_t waited, step; /* evaluations since then; the step of the last */
    } stopping;               /* early */
    bool language, regression, terminal;
    bool pixels; /* the model gives a class for each pixel */
    bool mute;   /* MPI allows no thread to tell of a rank's work: others wait without a limit */
    int64_t step_samples, micro_batches; /* of a step on all ranks, and each rank's; 0: as the recipe says */
    int64_t step_ranks;                  /* for so many it does; 0: for those that there are */
    struct rank_times *times;            /* of all ranks; NULL: there are none */
    bool late;    /* a step is reported when the next one is under way, so that the device is never idle */
    bool pending; /* a step is not yet reported: */
    int64_t pending_step;
    double pending_lr, pending_seconds;          /* that it took to enqueue */
    bool drawing;                                /* a progress line is on the terminal, without its line break */
    tcc_schedule schedule;                       /* of the whole run */
    int64_t milestones[RECIPE_LIST_MAX];         /* that it points to */
    int64_t total_steps, first_step, saved_step; /* saved_step: that was last given to the saver; -1 none yet */
    double saved_at;                             /* when that was, in seconds */
    double started;                              /* when the first step began, in seconds */
    int64_t logged_step;                         /* of the last logged line */
    double busy_seconds;                         /* spent in training steps since then */
    int64_t skipped, skipped_in_row;             /* steps that fp16 skipped: so far, and up to the last logged one */
    int64_t sampled_step;                        /* after so many steps text was sampled last; 0: not yet */
    int64_t watched_step;                        /* the first whose loss was not looked at */
    int64_t bad_step, bad_in_row; /* the first of the last steps whose loss was no number, and how many */
    const tcc_batch *batch;       /* of the last training step */
    int64_t gathered_step;        /* of which rank 0 has the states that ranks share out */
    bool data_lost;               /* the next one could not be read; `problem` says why */
    char problem[1024];           /* that ends the run, where it is no error of the library */
    char graphs[512];             /* what was last said of CUDA graphs */
    bool graphs_decided;          /* nothing more is to be said of them */
    double shown_at;              /* when the progress line was last drawn */
} run;

/* train_ranks.c. Whether it is rank 0, or has no ranks: the one that saves and reports. */
bool run_is_first(const run *s);
/* From here to where ranks meet next, this one may take as long as it needs. */
tcc_status run_begin_work(run *s);
/* While rank 0 compiles the others wait, so it takes the CPUs of all; and when it is done its own. These are those of
 * this thread, and of threads that it starts then. */
void run_take_all_cpus(const run *s, bool all);
/* Returns when all ranks have come here; then they go to work again. */
tcc_status run_wait_for_all(run *s);
/* All ranks call it once the data is open. TCC_EINVAL where one has another version, recipe or data set. */
tcc_status run_compare_ranks(run *s);
/* The ranks meet before a step. `ends`: rank 0 says that there is none; *end: all ranks end. */
tcc_status run_meet(run *s, int64_t step, bool ends, bool *end);
/* Before rank 0 saves: it gets the optimizer's states of all ranks, which do their part where they meet. */
tcc_status run_gather_states(run *s);
/* The same before it writes parameters that were evaluated. */
tcc_status run_gather_parameters(run *s);
/* The training of all ranks but the first. */
tcc_status run_follow(run *s);
/* Adds up `count` numbers over all ranks; *stopped: one of them was interrupted before it had its own. */
tcc_status run_add_over_ranks(run *s, int64_t step, double *numbers, int64_t count, bool *stopped);
/* Says which rank was the slowest since this was last asked, and what share of their time ranks have waited: "", or
 * words that follow others in a line. */
void run_print_waiting(run *s, char *out, size_t size);
void run_forget_times(run *s);
/* The run failed: the other ranks are told why. */
void run_tell_ranks(run *s, const char *why);

/* train_data.c. Samples of a training step, on all ranks. */
int64_t run_step_samples(const run *s);
/* Opens the data set and its loaders. */
tcc_status run_open_data(run *s);
/* Its loaders, in the place of those that are there. */
tcc_status run_open_loaders(run *s);
/* How much of a batch is padding, where texts have lengths. */
void run_print_padding(const run *s);
/* A prompt that the vocabulary cannot spell is refused before the training, not after it. */
tcc_status run_check_prompt(run *s);

/* Whether batches are made in memory that a GPU fetches them from. */
bool run_pins(const run *s);

/* train_batch.c. Chooses recipe->data.batch_size by the memory that there is. */
tcc_status run_choose_batch(run *s);
/* The model of the batch that was chosen cannot be made: chooses a smaller one, by what there is now. */
tcc_status run_shrink_batch(run *s);

/* train_model.c. A model that makes plans alone. */
tcc_status run_create_planner(run *s);
/* The first batch, to be looked at: its signature is all that compiling needs. */
tcc_status run_first_batch(run *s, const tcc_batch **batch);
/* Creates the model and compiles what the run will need; verifies it if asked to. */
tcc_status run_create_model(run *s);
/* Whether the recipe's model gives logits of the next token. */
bool run_is_language(const recipe *r);
/* Whether it gives a class for each pixel. */
bool run_is_pixels(const recipe *r);

/* train_pixels.c. What builds such a network. */
enum { DDRNET_SLIM = 1 };
tcc_segmentation build_pp_liteseg(tcc_trace *t, tcc_tensor x, const run *s, int variant);
tcc_segmentation build_stdc(tcc_trace *t, tcc_tensor x, const run *s, int variant);
tcc_segmentation build_ddrnet(tcc_trace *t, tcc_tensor x, const run *s, int variant);
tcc_segmentation build_regseg(tcc_trace *t, tcc_tensor x, const run *s, int variant);
tcc_segmentation build_segformer(tcc_trace *t, tcc_tensor x, const run *s, int variant);
/* The loss of all its heads. */
tcc_tensor run_pixels_loss(const run *s, tcc_trace *t, const tcc_segmentation *heads, tcc_tensor y);

/* train_features.c. The features that the model sees of a batch of a table: embedded, and without weights. */
tcc_tensor run_features(const run *s, tcc_trace *t, tcc_tensor x);
/* Whether the recipe's list of weights is of as many as there are classes. */
tcc_status run_check_class_weights(run *s);
/* The loss of a batch, by the weights of its rows and classes. */
tcc_tensor run_loss(const run *s, tcc_trace *t, tcc_tensor x, tcc_tensor logits, tcc_tensor y);

/* train_describe.c. Prints what was read; keeps it in the run's folder as data.txt. */
tcc_status run_describe_data(run *s);
tcc_status run_keep_description(run *s);
/* Says which samples were left out so far. */
void run_tell_skipped(const run *s);

/* What to do where training gives infinities. */
extern const char run_nan_advice[];

/* train_steps.c. A training step, reported by nobody. */
tcc_status run_step(run *s, int64_t step);

/* train_checkpoint.c. Whether the recipe may be resumed with from this checkpoint; what has changed is told. */
bool run_check_resume(run *s, const tcc_checkpoint *c);
/* Whether the training data is what it was when this checkpoint was made. */
tcc_status run_check_data(run *s, const tcc_checkpoint *c);
/* Saves the run beside the steps that follow; what cannot be saved ends it, now or later. */
tcc_status run_save(run *s, int64_t step);
/* `status`, which the saver gave; the text of its error is taken. */
tcc_status run_saved(run *s, tcc_status status);
/* What the best so far reached, from its file. */
tcc_status run_find_best(run *s);
/* Writes the parameters of the best so far; parameters that are not finite are not. */
tcc_status run_save_best(run *s, int64_t step, double metric);
/* Writes the parameters, unless some are not finite. */
tcc_status run_write_parameters(run *s, const char *path, int64_t step, double metric);
tcc_status run_init_from(run *s, const char *path);
/* Takes all that a checkpoint holds; the run goes on from its step. */
tcc_status run_resume(run *s, const tcc_checkpoint *c);

/* train_lr_find.c. Trains with a learning rate that grows from step to step, as a test: says which one to try, and
 * writes lr_find.csv and lr_find.svg into the run's folder. */
tcc_status run_find_lr(run *s);

/* Whether the run is only looked at: its weights are evaluated, or predicted with. */
bool run_only_looks(const run *s);
/* train_weights.c. Opens the checkpoint or file of parameters that is asked for, else the newest checkpoint. */
tcc_status run_open_weights(run *s);
/* What its data set had learned; NULL: it is of a version that did not keep it. */
const char *run_weights_learned(const run *s);
/* Takes the parameters from it. They are averages where a run keeps them. */
tcc_status run_load_weights(run *s);

/* train_predict.c. Whether the run can be predicted with. */
tcc_status run_check_predictor(run *s);
/* Compiles what predicting from a file runs. */
tcc_status run_compile_predictor(run *s);
/* Prints an answer for each row, text or picture, as the command line says. */
tcc_status run_predict(run *s);

/* train_export.c. Compiles what an export runs. */
tcc_status run_compile_export(run *s);
/* Writes the folder. */
tcc_status run_export(run *s);
/* Compiles the programs that answer, which need no memory yet. */
tcc_status run_make_predictor(run *s);
/* Writes them into the run's folder, from which tcc_run_open takes them. */
tcc_status run_keep_predictor(run *s);

/* train_sample.c. Whether the run can write text. */
tcc_status run_check_writer(run *s);
/* Writes text as the command line says. */
tcc_status run_generate(run *s);
/* Whether the vocabulary is known, so that text can be written. */
bool run_has_text(const run *s);

/* train_pictures.c. Writes pictures of the classes of each pixel into the folder "predictions" of the run. */
tcc_status run_predict_pixels(run *s);
void run_forget_predicted(run *s);
/* Writes image, label and prediction of the first validation images beside each other. */
tcc_status run_write_pictures(run *s, int64_t step);

/* train_average.c. Keeps the parameters that this evaluation was of, if it is among the best. */
tcc_status run_keep_top(run *s, int64_t step, double metric, bool larger_is_better);
/* At the end: the model takes the mean of the best, which is evaluated and written. */
tcc_status run_average_best(run *s);

/* train_evaluate.c. Names the results of an evaluation program that metrics are made of. */
void run_metric_outputs(const run *s, tcc_trace *t, tcc_tensor logits, tcc_tensor y);
/* Whether all ranks evaluate after so many steps. */
bool run_evaluates(const run *s, int64_t done);
/* Evaluates where there is validation data, on all ranks: rank 0 writes and prints the metrics, and keeps the best. */
tcc_status run_report_evaluation(run *s, int64_t step);
/* Evaluates the weights that were loaded, on all ranks, and prints what comes of it. */
tcc_status run_evaluate_alone(run *s);
/* Evaluates the model as it is, on this rank alone, and says what comes of it; *metric: by which the best is chosen. */
tcc_status run_evaluate_average(run *s, double *metric);
/* By which metric of validation a checkpoint is the best. */
const char *run_best_metric(const run *s);
/* Whether evaluations have not become better for as long as the recipe bears. */
bool run_stops_early(const run *s);

/* train_steps.c. */
/* Leaves the progress line, where one is being drawn. */
void run_end_line(run *s);
tcc_status run_print_sample(run *s);
/* Trains from first_step to total_steps, or until interrupted; then the last step is saved. */
tcc_status run_train(run *s);

/* train_statistics.c. Writes what the training step that ran last, `step`, tells of parameters and modules into the
 * metrics. */
tcc_status run_write_statistics(run *s, int64_t step);

#endif
