/* SPDX-License-Identifier: MIT
 * The compiler side of a model: its function, the passes and codegen. Private to the rooms that make programs: compile,
 * cache, tune, verify. */
#ifndef TCC_FRONTEND_COMPILE_COMPILE_H
#define TCC_FRONTEND_COMPILE_COMPILE_H

#include "codegen/select.h"
#include "frontend/run/model.h"
#include "frontend/trace.h"
#include "ir/support/train_step.h"
#include "passes/pass.h"
#include "passes/remat/remat.h"

/* How a program was compiled. */
typedef struct tcc_compile_record {
    tcc_graph *graph;     /* after the last pass, or, of a program from the cache, as it was traced */
    bool passed;          /* the passes have run */
    int64_t beside_bytes; /* MICRO, with a budget in bytes: what the step's other programs keep beside this one */
    tcc_manager_report passes;
    tcc_remat_report remat; /* empty where nothing may be computed again */
} tcc_compile_record;

/* What a model needs to compile programs. */
typedef struct tcc_compiler {
    tcc_model_fn fn;
    void *user;
    tcc_amp_spec amp; /* where options.mixed_precision is on */
    tcc_amp_class amp_classes[TCC_OP_COUNT];
    tcc_remat_spec remat;    /* of options.checkpointing and memory_budget */
    bool budget_of_device;   /* remat.bytes is what the device has; 0: it was not asked yet */
    char *dump_dir;          /* copy of options.dump_dir, or NULL */
    char *verified;          /* what the last verification saw, as text; NULL: there was none */
    struct tcc_cache *cache; /* of programs; NULL: there is none, or it was not asked for yet */
    bool cache_asked;
    tcc_code_store code_store; /* in that cache */
    char *cache_trouble;       /* why there is none, or no more; NULL */
    bool fresh;                /* nothing is taken from it, nor put there */
    tcc_selector *selector;    /* what codegen answers the passes; NULL before the first program */
    tcc_pass_target target[2]; /* the same as the passes of an evaluation (0) and of training (1) ask it */
    struct tcc_tuning *tuning; /* what was found by measurements; NULL: the mode measures nothing */
} tcc_compiler;

/* TCC_EUNSUPPORTED for a model of a plan, which has no function. */
tcc_status tcc__model_need_function(tcc_model *m);
/* In frontend/cache/cache.c. Makes c->program: traces, and takes it from the cache, or builds it. */
tcc_status tcc__model_make(tcc_model *m, tcc_compiled *c, const tcc_array *batch);
/* Of the same: the processor that code is made for, first in a line for people; and the version of what makes it. */
tcc_status tcc__cache_describe(tcc_model *m, tcc_strbuf *machine, tcc_strbuf *version);
/* In frontend/cache/code.c. Where the device's driver keeps what it makes of programs: in the cache; NULL where that is
 * not used. */
const tcc_code_store *tcc__cache_code_store(tcc_model *m);
/* Makes c->program from the traced graph: runs the passes, generates code. */
tcc_status tcc__model_build(tcc_model *m, tcc_compiled *c);
/* The graph after the last pass; of a program from the cache the passes are run now. */
tcc_status tcc__record_graph(tcc_model *m, tcc_compiled *c, const tcc_graph **out);
/* The same after the first passes, behind which no input is added; nothing else may be asked of it. */
tcc_status tcc__record_front(tcc_model *m, tcc_compiled *c, const tcc_graph **out);
/* In plan.c. Before the passes run: c->record->beside_bytes, where there is a budget in bytes. TCC_ENOMEM where
 * another program of the step does not fit in it. */
tcc_status tcc__plan_beside(tcc_model *m, tcc_compiled *c);
/* In report.c: texts of how a program was made, and of what it is made. */
tcc_status tcc__record_write(tcc_model *m, tcc_compiled *c, tcc_text which);
tcc_status tcc__record_report(tcc_model *m, tcc_compiled *c, const char *what, tcc_strbuf *out);
/* Makes m->compiler->selector and target, if they are not there yet. */
tcc_status tcc__model_selector(tcc_model *m);
/* Traces the model into a graph. */
tcc_status tcc__model_trace(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_graph **out);
/* The same to train with the batch of all ranks or micro-batches. Collectives are those of one rank, which has it. */
tcc_status tcc__model_trace_whole(tcc_model *m, const tcc_array *batch, int count, tcc_graph **out);
/* In micro.c. The graph that a program's passes begin with. */
tcc_status tcc__traced_graph(tcc_model *m, const tcc_compiled *c, const tcc_array *batch, tcc_graph **out);
/* How the parameters of a graph are updated. */
typedef struct tcc_grouping {
    int *group_of; /* by parameter, as in tcc_train_spec */
    bool *frozen;
    int rates_of[TCC_STEP_GROUPS(TCC_MOST_GROUPS)], n_rates; /* by group */
} tcc_grouping;
tcc_status tcc__model_group(tcc_model *m, const tcc_graph *g, tcc_arena *memory, tcc_grouping *out);
/* Pass options for this model, for a whole step, which point into `grouping`. */
tcc_pass_options tcc__model_pass_options(tcc_model *m, bool train, const tcc_grouping *grouping);
/* In budget.c. Reads options.checkpointing and memory_budget. */
tcc_status tcc__model_read_budget(tcc_model *m);
/* What the passes are to compute again in a program; NULL: nothing. */
const tcc_remat_spec *tcc__model_remat(tcc_model *m, bool train);
/* Generates code for a planned graph; `dump_dir` may be NULL. */
tcc_status tcc__model_codegen(tcc_model *m, const tcc_graph *g, const char *dump_dir, tcc_program **out);

/* In frontend/tune/tune.c. Where the mode is TCC_MODE_MAX_AUTOTUNE: makes m->compiler->tuning; */
tcc_status tcc__model_tune_begin(tcc_model *m);
/* finds what runs the groups of a traced program best, within the budget, `passes` and `codegen` as for the program; */
tcc_status tcc__model_tune(tcc_model *m, const tcc_pass_options *passes, const tcc_codegen_options *codegen,
                           const tcc_graph *traced);
/* and frees what was found. */
void tcc__model_tune_end(tcc_model *m);
/* In frontend/tune/report.c. The candidates of each group, their times and the winner. */
void tcc__tune_print(const tcc_model *m, tcc_strbuf *b);
#endif
