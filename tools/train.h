/* SPDX-License-Identifier: MIT
 * tcc-train's parts: what the command line asks for, and a training run. */
#ifndef TCC_TOOLS_TRAIN_H
#define TCC_TOOLS_TRAIN_H

#include "complete.h"
#include "train_recipe.h"

#include <traincc/data.h>
#include <traincc/traincc.h>

#include <signal.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

/* What is done with the recipe's model. */
typedef enum train_task {
    TASK_TRAIN,
    TASK_EVALUATE,
    TASK_PREDICT,
    TASK_GENERATE,
    TASK_EXPORT,
    TASK_FIND_LR,
    TASK_DESCRIBE
} train_task;

typedef struct train_options {
    train_task task;
    const char *recipe_path;
    const char *run_dir; /* NULL: runs/<recipe's name> */
    bool resume;
    const char *resume_from; /* checkpoint; NULL: the newest of the run */
    const char *weights;     /* to evaluate or predict with: a checkpoint or a file of parameters; NULL: as above */
    int64_t lr_steps;        /* of the range test; 0: 100 */
    struct {
        const char *prompt, *stop;
        double length, temperature, top_k, top_p, seed; /* NaN: as the recipe says */
    } generate;
    struct {
        const char *format; /* "text", "csv", "json"; NULL: text */
        double top;         /* classes that are told */
        bool probabilities; /* of all classes */
        const char *id;     /* the column that rows are told by; NULL: their number */
    } predict;
    const char *export_to; /* the folder to export to */
    char *const *inputs;   /* to predict from: files and folders, "-": standard input; NULL: the validation data */
    int n_inputs;
    bool dry_run, explain, verify, quiet, require_graphs;
    const char *dump_dir, *emit, *profile; /* NULL: not asked for */
    const char *plan, *save_plan;          /* files to read programs from, and to write them to; NULL */
    const char *lock, *locked;             /* the files of choices to write and to hold; NULL: none */
    const char *device;                    /* "cpu", "cuda:0" */
    const char *arch;     /* compile for this GPU architecture, and run nothing; NULL: for the device */
    const char *network;  /* between planned ranks; NULL: that of processes on this machine */
    int ranks;            /* processes that train together; 0: this one alone */
    const char *launcher; /* the variable by which another program says that it has started them; NULL: none */
    double comm_timeout;  /* seconds that a rank waits for the others */
    tcc_comm *comm;       /* of a rank: its end, and */
    tcc_context *cx;      /* the context of that; NULL */
} train_options;

/* What the program's signal handler and a run tell each other. */
typedef struct train_signals {
    volatile sig_atomic_t interrupted; /* by the handler: save and end */
    volatile sig_atomic_t saves;  /* by the run: it has something to save; before that the handler ends it itself */
    volatile sig_atomic_t saved;  /* by the run: all is written, and a signal ends the program as it ends any */
    volatile sig_atomic_t silent; /* it is a rank that says nothing */
} train_signals;

/* Trains as the recipe says; messages go to standard error, progress to standard output. Returns the program's exit
 * status. */
int train_run(const train_options *options, recipe *recipe, train_signals *signals);
/* Whether the environment says that another program has started ranks, of which this process is one: then the options
 * say so. EXIT_USAGE where they also ask for ranks. */
int ranks_look(train_options *o);
/* The same, on options->ranks processes. */
int train_on_ranks(const train_options *options, recipe *recipe, train_signals *signals);

/* tcc-train cache ARGUMENTS. Returns the program's exit status. */
int train_cache(char *const *arguments, int count);

/* Completes the argument of `command`, or the command itself where that is NULL; so do the others below. */
void train_cache_complete(const char *command, const char *current);

/* tcc-train report ARGUMENTS. Returns the program's exit status. */
int train_report(char *const *arguments, int count);
void train_report_complete(const char *before, const char *current);

/* tcc-train tokenize ARGUMENTS, whose order changes. Returns the program's exit status. */
int train_tokenize(char **arguments, int count, const volatile sig_atomic_t *interrupted);
void train_tokenize_complete(const char *before, const char *current);

/* Prints what the last of the words can become, behind which `options` may stand (complete.h). */
int train_complete(const complete_option *options, int n_options, train_task task, char *const *words, int count);

/* The recipe's schedule for a run of `total` steps, of which `epoch` are an epoch; it points into *milestones. */
tcc_schedule train_schedule(const recipe *r, int64_t total, int64_t epoch, int64_t milestones[RECIPE_LIST_MAX]);

/* Text that the language model writes after a prompt, which comes first, to `out`, and to `copy` where it is not NULL;
 * *count, where it is not NULL, is in tokens. Without a prompt it begins behind a line break. Ends early when
 * interrupted. */
tcc_status train_sample(tcc_context *cx, tcc_model *model, const tcc_dataset *data, const tcc_generate_options *how,
                        const volatile sig_atomic_t *interrupted, FILE *out, FILE *copy, int64_t *count);
/* As the recipe says. */
tcc_generate_options train_sample_options(const recipe *r);

/* The folder that a run writes to. */
typedef struct run_folder {
    char *path, *checkpoints;
    char *abandoned; /* the file for lines of metrics past the step that the run goes on from; NULL: there are none */
    int lock;        /* open while this process writes there; -1: not yet */
} run_folder;

/* Its name, --run-dir or one made from the recipe's; makes nothing yet. False when memory is short. */
bool run_folder_name(run_folder *f, const train_options *options);
/* Makes the folder where it is not, for files beside those of a run. Complains itself; returns the program's exit
 * status. */
int run_folder_make(const run_folder *f);
/* Locks the folder if it is there already, so that a run in it is noticed before much work is done. Complains itself;
 * returns the program's exit status. */
int run_folder_lock(run_folder *f);
/* Makes and locks the folder, and writes the recipe there. `checkpoint`: what the run goes on from, at `step`; NULL: it
 * begins. What a killed run has half written is removed. Files that an earlier run left are moved aside into a
 * subfolder: all of them when this run does not go on from one of its checkpoints, else those past `step`. Complains
 * itself; returns the program's exit status. */
int run_folder_open(run_folder *f, tcc_context *cx, const recipe *r, const char *checkpoint, int64_t step, bool quiet);
/* Keeps the best so far beside the checkpoint of this step, which is saved next. */
void run_folder_keep_best(const run_folder *f, int64_t step);
void run_folder_close(run_folder *f);

/* Where to compute: *device is freed with tcc_string_free. Says so if `say`. The program's exit status; where that is
 * not EXIT_DONE, *fault is why, freed with free, or NULL as memory is short. */
int train_find_device(const char *name, bool say, char **device, char **fault);
void train_complain(const char *fault);

#endif
