/* SPDX-License-Identifier: MIT
 * What a pass is: graph in, graph out. Passes are listed in passes.def, the order they run in is pipeline.c, and
 * manager.c runs them: verifies, dumps and times. */
#ifndef TCC_PASSES_PASS_H
#define TCC_PASSES_PASS_H

#include "ir/ir.h"
#include "ir/support/context.h"
#include "ir/support/network.h"
#include "ir/support/optimizer.h"
#include "ir/support/train_step.h"

/* How the training step is built. What a schedule may change is not here but in the hyper-parameter vector
 * (train_step.h). */
typedef struct tcc_train_spec {
    tcc_step_part part;
    bool no_update; /* gradients are computed, and no parameter changes */
    tcc_optimizer_kind optimizer;
    bool momentum, nesterov;    /* SGD: keep a momentum buffer; use Nesterov's form */
    double loss_scale;          /* what the scale of the loss begins with (train_step.h); 0: it is not scaled */
    bool clip_norm;             /* scale gradients to a global L2 norm of at most hyper[CLIP_NORM] */
    bool ema;                   /* average the parameters: state "NAME.ema" */
    bool ema_buffers;           /* and buffers of floats */
    int n_groups;               /* parameter groups, each with its own lr and weight decay; at least 1 */
    int n_rates;                /* sets of betas and momentum; 0: as 1 */
    const int *rates_of;        /* by group: its set; NULL: all have set 0 */
    const int *group_of;        /* by parameter, in the order of PARAM inputs; NULL: all in group 0 */
    const bool *frozen;         /* by parameter: no gradient, no update; NULL: none */
    bool keep_gradients;        /* outputs "grad.NAME" stay outputs of the step */
    bool input_gradients;       /* there are such of float inputs of the batch, too, which are outputs in any case */
    bool detect_anomaly;        /* output TCC_ANOMALY_OUTPUT (train_step.h) */
    int ranks;                  /* that have parts of the batch; 0 or 1: it is on one */
    bool reduce_in_bf16;        /* gradients travel in bf16 */
    bool shard;                 /* each has a part of the optimizer's states (step_shard.c) */
    const tcc_network *network; /* between them; NULL: that of processes on one machine */
    bool statistics;            /* outputs TCC_PARAMETER_STATISTICS_PREFIX NAME and those of modules (train_step.h) */
} tcc_train_spec;

/* Bytes of the states that train-step adds to an update of the graph's parameters. */
int64_t tcc_train_state_bytes(const tcc_train_spec *spec, const tcc_graph *g);

/* Elements that a rank keeps of a parameter, of which products read a low-precision copy and nobody itself; 0: it keeps
 * all, as ranks without such a spec do. */
int64_t tcc_train_own_part(const tcc_train_spec *spec, const tcc_type *parameter);

/* What mixed precision does. */
typedef struct tcc_amp_spec {
    tcc_dtype low;                /* F16 or BF16 */
    const tcc_amp_class *classes; /* by op; NULL: as ops.def says */
} tcc_amp_spec;

/* Fills in the classes of ops.def. */
void tcc_amp_table(tcc_amp_class *classes);
/* Changes some, as `text` says: "gelu=fp32,take=fp32". Errors: EINVAL. */
tcc_status tcc_amp_parse(tcc_diag *diag, const char *text, tcc_amp_class *classes);

typedef struct tcc_pass_options {
    const tcc_amp_spec *amp; /* NULL: no mixed precision */
    bool train;              /* build the training step; else a forward-only program */
    tcc_train_spec spec;
    int64_t chunk_rows; /* chunk: rows of a chunk, of whatever product has more; 0: what pays, by cost (chunk.c) */
    bool align_all;     /* align: each product whose rows are not aligned, whatever it costs */
    bool eager;         /* every op its own group */
    bool apart; /* plan-memory: memory of its own for all that lives, so that each value can be read after a run */
    const struct tcc_remat_spec *remat;   /* rematerialization (passes/remat/remat.h); NULL: none */
    const struct tcc_pass_target *target; /* what the passes ask (passes/select.h); NULL: code for no target yet */
} tcc_pass_options;

typedef struct tcc_tried tcc_tried;

typedef struct tcc_pass_cx {
    tcc_context *cx; /* log */
    tcc_diag *diag;
    const tcc_pass_options *options;
    /* tcc_pipeline_plan, for a pass that tries what those behind it make of a graph. Set by the manager. */
    tcc_status (*plan)(const struct tcc_pass_cx *cx, const tcc_graph *g, tcc_tried *tried, tcc_graph **out);
    /* What the passes behind made of the very graph that the pass at hand gives out: the manager takes it, and does not
     * run them again. NULL: nothing is taken. Set by the manager, who owns what is in it. */
    tcc_tried *tried;
} tcc_pass_cx;

/* Makes *out from `in`, which stays the caller's. On error *out is untouched and the diag says why. */
typedef tcc_status (*tcc_pass_fn)(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out);

#define TCC_PASS(id, name, function, doc) tcc_status function(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out);
#include "passes/passes.def"
#undef TCC_PASS

typedef enum tcc_pass_id {
#define TCC_PASS(id, name, function, doc) TCC_PASS_##id,
#include "passes/passes.def"
#undef TCC_PASS
    TCC_PASS_COUNT
} tcc_pass_id;

/* Graphs, by the pass that made each; NULL: none. */
struct tcc_tried {
    tcc_graph *made[TCC_PASS_COUNT];
    double milliseconds[TCC_PASS_COUNT]; /* that it took */
};

static inline void tcc_tried_clear(tcc_tried *tried) {
    for (int i = 0; i < TCC_PASS_COUNT; i++) {
        tcc_graph_destroy(tried->made[i]);
        tried->made[i] = NULL;
        tried->milliseconds[i] = 0;
    }
}

typedef struct tcc_pass_info {
    const char *name, *doc;
    tcc_pass_fn run;
} tcc_pass_info;

const tcc_pass_info *tcc_pass_get_info(tcc_pass_id id);

/* What the manager does around each pass. */
typedef struct tcc_manager_options {
    const char *dump_dir; /* write NN.pass.tir (and .dot) before and after, numbered in order; NULL: no dump */
    bool verify;          /* check the graph after every pass */
    /* Is shown the graph around each pass; NULL: nobody is. */
    tcc_status (*after)(void *user, const char *pass, const tcc_graph *before, const tcc_graph *after);
    void *after_user;
} tcc_manager_options;

typedef struct tcc_pass_report {
    const char *pass;
    double milliseconds; /* to make what is taken; of a pass that tried others, without theirs that are taken */
    int nodes_before, nodes_after;
    bool changed;
} tcc_pass_report;

typedef struct tcc_manager_report {
    tcc_vec(tcc_pass_report) passes; /* free with tcc_vec_free */
} tcc_manager_report;

/* Runs the standard pipeline (pipeline.c) that the options call for, consuming *g: on success *g is the new graph, on
 * failure it is the last good one. `report` may be NULL. */
tcc_status tcc_pipeline_run(tcc_pass_cx *cx, const tcc_manager_options *manager, tcc_graph **g,
                            tcc_manager_report *report);
/* The passes from fuse to plan-memory on `g`, which stays the caller's; nothing is dumped, verified or logged. What all
 * but the last one made goes into `tried`, if that is not NULL, and the time of all. */
tcc_status tcc_pipeline_plan(const tcc_pass_cx *cx, const tcc_graph *g, tcc_tried *tried, tcc_graph **out);
/* Runs the passes named in `list`, comma-separated, in that order; for tcc-opt and tests. */
tcc_status tcc_pipeline_run_named(tcc_pass_cx *cx, const tcc_manager_options *manager, const char *list, tcc_graph **g,
                                  tcc_manager_report *report);

#endif
