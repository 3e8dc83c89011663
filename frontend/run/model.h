/* SPDX-License-Identifier: MIT
 * A model behind the public handle: its parameters and the programs that it runs. Where programs come from is another's
 * matter: they are compiled (compile.h) or read from a plan's file (plan.c), and all that is here needs no compiler. */
#ifndef TCC_FRONTEND_RUN_MODEL_H
#define TCC_FRONTEND_RUN_MODEL_H

#include "codegen/program.h"
#include "frontend/run/store.h"
#include "frontend/run/timeline.h"
#include "ir/support/train_step.h"
#include "runtime/cuda/nvtx.h"
#include "runtime/device.h"
#include "runtime/exec.h"
#include "traincc/model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { TCC_MOST_MICRO_BATCHES = 1 << 20 }; /* of a step */

#define TCC_LARGEST_LR 1e30 /* it is a float32 on the device */

/* The optimizer's groups of parameters: the caller's, in their order, then the rest. Each is two of the training
 * step's, of what weight decay is for and of the norms and biases that it spares by default; the rest comes first
 * there. */
enum { TCC_DECAYED, TCC_NOT_DECAYED, TCC_DECAY_GROUPS, TCC_MOST_GROUPS = 16 };
#define TCC_STEP_GROUPS(n_groups) (TCC_DECAY_GROUPS * ((n_groups) + 1))
/* Elements of the hyper-parameter vector at most. */
#define TCC_HYPER_MOST TCC_HYPER_LENGTH(TCC_STEP_GROUPS(TCC_MOST_GROUPS), TCC_MOST_GROUPS + 1)

/* Memory of a binding that is the program's own: outputs, hyper-parameters, the random key, and the batch where it is
 * copied. */
typedef struct tcc_bound {
    void *device,
        *host; /* host: of an output, the copy of it; the same where memory is shared; NULL until it is asked for */
    int64_t bytes;
    tcc_feed *feed; /* device: part of the program's memory for what runs are fed with; NULL: it is none */
    bool old;       /* the host's copy is of an earlier run */
    /* Where the caller has it (arrays.c): */
    tcc_array placed;  /* of an output: the caller's array that runs write; data NULL: they write to `device` */
    void *at;          /* of a batch array that is fed: where runs read it, `device` or the caller's memory */
    const void *given; /* and where the last run was given it on the device; NULL: it was on the host */
    int captures;      /* and how often an address was bound that a graph did not have */
} tcc_bound;

/* Reports on how a program was made, which is kept with it. */
typedef enum tcc_text { TCC_TEXT_PASSES, TCC_TEXT_MEMORY, TCC_TEXT_REMAT, TCC_TEXTS } tcc_text;

/* One program and what it was compiled for. */
typedef struct tcc_compiled {
    tcc_arena arena; /* signature, names, texts */
    bool train;
    tcc_step_part part;          /* of a step in micro-batches (micro.c); WHOLE where there are none */
    int64_t whole;               /* MICRO, TOTALS, RANK: samples of the batch that is taken so; else 0 */
    struct tcc_compiled *totals; /* MICRO: what the program needs of the whole batch; NULL: nothing */
    struct tcc_compiled *next;   /* MICRO: the update of its sums; UPDATE, while it is made: whose sums */
    int n_inputs;
    tcc_array *inputs; /* signature: names, types and shapes of the batch; data is not kept */
    tcc_program *program;
    const char *text[TCC_TEXTS];       /* NULL: not written yet */
    struct tcc_compile_record *record; /* the compiler's own; NULL: it was not compiled here */
    tcc_exec *exec;                    /* NULL where there is no device */
    bool profiled;                     /* its steps are timed */
    tcc_bound *bound;                  /* by binding, owned */
    int *input_of;                     /* by binding: which array of the batch it is, or -1 */
    void *fed;                         /* device memory, one part after another, for what changes from run to run */
    int64_t fed_bytes;
    tcc_feed *feeds; /* its parts; a part that does not come from the host has NULL */
    int n_feeds;
    int loss;     /* binding, or -1 */
    bool counted; /* in the model's kept_bytes */
    bool ran;
    tcc_replay_stage replay_stage; /* that was logged */
    float hyper_values[TCC_HYPER_MOST], micro_values[TCC_MICRO_COUNT];
    int64_t rng_values[2];
    tcc_vec(int) reads;    /* derived states, in the shared copies, that it is bound to */
    tcc_vec(int) outdates; /* those whose source it writes and that it does not */
    tcc_vec(int) wholes;   /* entries of the shared store that it reads or writes */
    tcc_vec(int) leaves;   /* those of which it updates the rank's own parts alone */
    int outdates_of;       /* how many states there were when these were looked for */
    double trace_seconds, passes_seconds, codegen_seconds, total_seconds;
    bool from_cache; /* it was compiled before: */
    double saved_seconds;
} tcc_compiled;

/* What makes programs. */
typedef struct tcc_compiler_ops {
    /* c->program for its signature; the model's store gets the parameters that it brings. */
    tcc_status (*make)(tcc_model *m, tcc_compiled *c, const tcc_array *batch);
    /* c->text[which], where it is NULL. */
    tcc_status (*write)(tcc_model *m, tcc_compiled *c, tcc_text which);
    /* Reports that are not kept: TCC_ENOTFOUND without a message for a name that is none. */
    tcc_status (*report)(tcc_model *m, tcc_compiled *c, const char *what, tcc_strbuf *out);
    const char *(*trouble)(const tcc_model *m);        /* why there is no cache, or no more; NULL */
    const tcc_code_store *(*code_store)(tcc_model *m); /* for what the device's driver makes of programs; or NULL */
    /* The processor that code is made for, first in a line for people, and our own version. */
    tcc_status (*describe)(tcc_model *m, tcc_strbuf *machine, tcc_strbuf *version);
    tcc_status (*find_overflow)(tcc_model *m, const tcc_array *batch, int count, char **text); /* tcc_model_... */
    /* Frees c->record, and m->compiler. */
    void (*forget)(tcc_compiled *c);
    void (*destroy)(tcc_model *m);
} tcc_compiler_ops;

/* What models have in common that share parameters (options.share): memory on one device, as one of them runs at a
 * time. It lives as long as one of them does. */
typedef struct tcc_shared {
    tcc_model *models; /* all of them, one behind the other by their `sharing` */
    tcc_store store;   /* parameters and buffers */
    tcc_store copies;  /* derived states of any of them */
    void *arena;       /* device memory that all programs run in, one after another; of the size of the largest arena */
    int64_t arena_bytes;
    int64_t kept_bytes;  /* of parameters, buffers and copies that programs bind */
    tcc_model *averaged; /* whose averages are in the parameters' place; NULL: the parameters are */
} tcc_shared;

/* Initial values that are being drawn. */
enum { TCC_FILL_THREADS = 63 };
typedef struct tcc_filling {
    const tcc_store *store; /* NULL: nothing is under way */
    atomic_int_fast64_t next;
    int64_t parts;
    int n_threads;
    pthread_t threads[TCC_FILL_THREADS];
} tcc_filling;

struct tcc_model {
    tcc_context *cx;
    tcc_shared *shared;
    tcc_model *sharing;            /* the next of those that share with it; NULL: it is the last */
    tcc_vec(bool) uses;            /* by entry of the store: its function asks for it; there may be fewer */
    const char *name;              /* options.name; NULL: none */
    uint64_t random_seed;          /* of what its programs draw */
    const tcc_compiler_ops *ops;   /* NULL: it has the programs of a plan, and no others */
    struct tcc_compiler *compiler; /* what they work with */
    tcc_model_options options;     /* pointers in it are for the compiler alone */
    tcc_optimizer_options optimizer;
    tcc_device *device;   /* NULL: code is made for `arch`, and nothing runs */
    char device_name[32]; /* "cuda:0" */
    char arch[16];        /* "sm_90"; empty on the CPU */
    tcc_filling filling;  /* of the shared store */
    tcc_store moments;    /* what passes added, but for derived states: the optimizer's */
    int64_t kept_bytes;   /* of its programs together, beside what is shared: states, batches, outputs */
    tcc_vec(tcc_compiled *) programs;
    tcc_compiled *last; /* of the last run or compile; NULL before */
    int64_t step;
    int micro;                       /* which micro-batch of the step runs, */
    int64_t micro_whole;             /* of a batch of so many samples, */
    int micro_level;                 /* and of which level totals are added up */
    tcc_vec(tcc_array) slice;        /* of the batch that it is */
    tcc_vec(tcc_array) placed;       /* outputs that the caller has given memory for; names are owned */
    int64_t ranks_rows, ranks_whole; /* with options.comm: samples of the step's batch on this rank, and on all */
    bool ranks_compared;             /* all ranks have begun alike */
    tcc_vec(uint64_t) ranks_served;  /* hashes of all ranks' parts of batches that all ranks have programs for */
    tcc_collectives collectives;     /* of its programs */
    void *bucket;                    /* for what ranks send; owned */
    int64_t bucket_bytes;
    int64_t loss_tickets[TCC_FETCHES]; /* of training step i, in place i % TCC_FETCHES */
    int64_t first_kept, end_kept;      /* steps whose losses are there */
    double lr, momentum;               /* of the next step; momentum: Adam's beta1 */
    bool sets_momentum;                /* it was set: groups have none of their own any more */
    bool profile;
    tcc_timeline timeline; /* of profiled runs */
    tcc_nvtx nvtx;         /* for ranges in another's profile */
    int64_t measured;      /* candidates that were timed to make its programs */
    int cached_kernels;    /* of programs that were compiled: kernels from the cache */
};

/* -- In compiled.c -- */

/* Whether arrays have one name, type and shape. */
bool tcc__same_array(const tcc_array *a, const tcc_array *b);
/* The program of that signature; `whole`: samples of the batch of which it is a part, or 0. And the update of a
 * micro-batch's sums. NULL: there is none yet. */
tcc_compiled *tcc__program_find(const tcc_model *m, bool train, tcc_step_part part, int64_t whole,
                                const tcc_array *batch, int count);
tcc_compiled *tcc__update_find(const tcc_model *m, const tcc_compiled *micro);
/* An empty one of this signature. */
tcc_status tcc__compiled_create(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_compiled **out);
/* Makes c->program, which is there, ready to run, and gives parameters their initial values. */
tcc_status tcc__compiled_load(tcc_model *m, tcc_compiled *c);
void tcc__compiled_destroy(tcc_model *m, tcc_compiled *c); /* NULL is allowed */

/* -- In arrays.c. Arrays of the caller's that runs read and write where they lie. -- */

/* TCC_EINVAL for an array on a device that the model cannot use; `what`: "batch array". */
tcc_status tcc__array_check(tcc_model *m, const char *what, const tcc_array *a);
/* Around the programs of a step: they come after what made the caller's arrays, and the caller's work after them.
 * TCC_EINVAL for a batch that overlaps a placed output. */
tcc_status tcc__arrays_begin(tcc_model *m, const tcc_array *batch, int count);
tcc_status tcc__arrays_end(tcc_model *m, const tcc_array *batch, int count);
/* Binds batch arrays and outputs of a program for its next run: c->feeds then says what comes from the host (the others
 * have NULL), and what has to be copied within the device is to be copied by the second function, after the feed. */
tcc_status tcc__arrays_bind(tcc_model *m, tcc_compiled *c, const tcc_array *batch);
tcc_status tcc__arrays_copy(tcc_model *m, tcc_compiled *c, const tcc_array *batch);
/* A batch on the host, for who reads it there: *out is *batch but for what lies on the device. */
tcc_status tcc__arrays_to_host(tcc_model *m, const tcc_array *batch, int count, tcc_array **out);
void tcc__arrays_free(tcc_array *host, const tcc_array *batch, int count);
void tcc__placed_free(tcc_model *m);

/* -- In programs.c -- */

/* TCC_EINVAL where arrays of a batch lack names or data, or share a name. */
tcc_status tcc__model_check_batch(tcc_model *m, const tcc_array *batch, int count);
/* The program for this batch's signature, made now if need be; of a step in micro-batches that of the first of them.
 * Errors: TCC_EINVAL for a batch without sense,
 * TCC_EUNSUPPORTED where a plan has no such program. */
tcc_status tcc__model_compiled(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_compiled **out);
/* The program of a micro-batch that tcc__micro_cut gave, with those of its totals and of the update. */
tcc_status tcc__micro_program(tcc_model *m, const tcc_array *slice, int count, tcc_compiled **out);
/* After a plan was read: finds the updates. TCC_EFORMAT for programs that are no parts of the model's steps. */
tcc_status tcc__micro_link(tcc_model *m);

/* -- In run.c -- */

/* One run of one program of a step; *batch as its signature. */
tcc_status tcc__program_run(tcc_model *m, tcc_compiled *c, const tcc_array *batch);

/* An output that is read on the host: TCC_EINVAL where it is placed on the device. */
tcc_status tcc__host_output(tcc_model *m, const char *name, tcc_array *out);

/* -- In micro.c. Steps whose batch is taken in micro-batches. -- */

static inline bool tcc__model_accumulates(const tcc_model *m) {
    return m->options.batch_accumulate > 1 || m->options.comm;
}
/* Micro-batches of a step on this rank. */
static inline int64_t tcc__micro_parts(const tcc_model *m) {
    return m->options.batch_accumulate > 1 ? m->options.batch_accumulate : 1;
}
/* The program of a micro-batch: on ranks with one each, that is the whole step's. */
static inline tcc_step_part tcc__micro_part(const tcc_model *m) {
    return m->options.comm && tcc__micro_parts(m) == 1 ? TCC_STEP_RANK : TCC_STEP_MICRO;
}
/* Whether a state is one of a step in micro-batches, as a sum over them: it has no meaning between steps. */
bool tcc__is_sum(const char *name);
/* The levels of totals (train_step.h) that a program has, at most; 0: it has none. */
int tcc__micro_levels(const tcc_program *p);
/* Whether a program reads all that the micro-batch's leaves for it, and nothing else of that kind, and writes its
 * copies of weights. */
bool tcc__micro_is_update_of(const tcc_program *update, const tcc_program *micro);
/* TCC_ESHAPE for a batch that cannot be cut. */
tcc_status tcc__micro_check(tcc_model *m, const tcc_array *batch, int count);
/* Samples of each micro-batch but the last, which may have fewer. */
int64_t tcc__micro_samples(const tcc_model *m, const tcc_array *batch);
/* The micro-batch from that sample on, in m->slice; it is the one that runs next. */
const tcc_array *tcc__micro_cut(tcc_model *m, const tcc_array *batch, int count, int64_t begin);
/* What its program is fed with beside it: TCC_MICRO_INPUT, and a random key of the micro-batch's own. */
void tcc__micro_feed(const tcc_model *m, float *micro, int64_t *rng);

/* -- In ranks.c. Steps whose batch lies on several ranks. The first three functions are collectives. -- */

/* Before a step, or before programs are made, of a batch that was checked: m->ranks_rows and ranks_whole of a training
 * step. All ranks have the programs for their parts then. TCC_EINVAL where the ranks' batches do not go together. */
tcc_status tcc__ranks_begin(tcc_model *m, bool train, const tcc_array *batch, int count);
/* Before the first step, once its programs are there: TCC_EINVAL where ranks have other options, parameters or states.
 */
tcc_status tcc__ranks_compare(tcc_model *m);
/* Adds up over ranks the totals of a level that a program's micro-batches have left. */
tcc_status tcc__ranks_add_totals(tcc_model *m, const tcc_program *p, int level);
/* This rank's step failed, as the error says, so that the other ranks' steps fail. */
void tcc__ranks_fail(tcc_model *m);
/* The status of a wait for the device: an error there is one of steps before. */
tcc_status tcc__ranks_check(tcc_model *m, tcc_status status);

/* -- In ranks_collectives.c -- */

/* Lets the model's communicator run the collectives of a program. Or nobody: where one rank alone is to measure it. */
void tcc__ranks_connect(tcc_model *m, tcc_exec *exec);
void tcc__ranks_connect_alone(tcc_exec *exec);
/* A collective: the device meets those of the other ranks, if it has memory of its own. And leaves them. */
tcc_status tcc__ranks_join(tcc_model *m);
void tcc__ranks_leave(tcc_model *m);

/* -- In ranks_programs.c -- */

/* Whether this rank has its training programs from another one, and makes none. */
bool tcc__ranks_borrow(const tcc_model *m);
/* A collective. Rank 0 makes what programs the ranks lack for their parts of a batch, and sends them. `rows` of each
 * rank. */
tcc_status tcc__ranks_serve(tcc_model *m, bool train, const tcc_array *batch, int count, const int64_t *rows);

/* -- In shards.c. States that ranks share out. -- */

/* The parameter of whose elements each has one in that state, so that ranks can share it out; NULL: there is none. */
const tcc_stored *tcc__shard_parameter(const tcc_model *m, const char *state);
/* Sets p->shared_out and p->whole of a new state. */
void tcc__shard_mark(tcc_model *m, tcc_stored *p);
/* The whole of a state; false, with an error, where it is not there. */
bool tcc__shard_array(tcc_model *m, tcc_stored *p, tcc_array *out);
void tcc__shard_release(tcc_stored *p);
/* A collective: the whole of p is on all ranks; and then it may go again, but from rank 0. */
tcc_status tcc__shard_show(tcc_model *m, tcc_stored *p);
void tcc__shard_hide(const tcc_model *m, tcc_stored *p);
/* Before a program runs: parts take over what the user has written. What it reads whole must be there, or is gathered
 * by a training step, which is a collective; else TCC_EINVAL. */
tcc_status tcc__shards_begin(tcc_model *m, const tcc_compiled *c);
/* A step has updated the parts of a parameter that ranks keep. */
void tcc__shard_leave(tcc_stored *whole);
/* TCC_EINVAL where a parameter's value is with the ranks, each of which has its own part. And a collective: it is
 * whole. */
tcc_status tcc__shard_check(tcc_model *m, const tcc_stored *whole);
tcc_status tcc__shard_fetch(tcc_model *m, tcc_stored *whole);
/* What there is of it beside it: the rank's own part, or else a copy in low precision, the latest. NULL: none. */
tcc_stored *tcc__copy_of(const tcc_model *m, const tcc_stored *whole, bool own);

/* -- In optimizer.c -- */

/* The options that a caller gave, or NULL, in whole. Errors: TCC_EINVAL for what is out of its range. */
tcc_status tcc__optimizer_read(tcc_diag *diag, const tcc_optimizer_options *given, tcc_optimizer_options *out);

/* -- In groups.c -- */

/* What is out of range in the caller's groups is TCC_EINVAL. */
tcc_status tcc__groups_check(tcc_diag *diag, const tcc_optimizer_options *o);
/* Copies m->optimizer's groups into memory of the model. */
tcc_status tcc__groups_keep(tcc_model *m);
/* The group of parameter `name`; NULL: the rest. */
const tcc_param_group *tcc__group_find(const tcc_model *m, const char *name);
/* In the training step: the number of a group's part for a parameter of this rank; NULL is the rest. And the number of
 * its set of rates. */
int tcc__group_in_step(const tcc_model *m, const tcc_param_group *group, int rank);
int tcc__group_rates(const tcc_model *m, const tcc_param_group *group);
/* A line for each group: how many parameters it has, and how they are updated. */
void tcc__groups_print(const tcc_model *m, tcc_strbuf *b);

/* -- In shared.c -- */

/* Gives a new model what it has in common with `with`, its device too, or, where that is NULL, with itself alone. */
tcc_status tcc__model_share(tcc_model *m, tcc_model *with);
/* Sets m->name and what follows from it. TCC_EINVAL for one that a model that shares with it has, or that is none. */
tcc_status tcc__model_name(tcc_model *m, const char *name);
/* The model goes; what it shared goes with the last. */
void tcc__model_unshare(tcc_model *m);

/* -- In names.c -- */

/* The model's function asks for entry `index` of the store. */
tcc_status tcc__model_use(tcc_model *m, int index);
bool tcc__model_uses(const tcc_model *m, int index);
/* What a program of the model means by that name: a parameter, buffer, derived state or the optimizer's; or NULL. */
tcc_stored *tcc__model_stored(const tcc_model *m, const char *name);

/* -- In ema.c -- */

/* A model goes whose averages may be in the parameters' place: others that share these get them back. */
void tcc__ema_end(tcc_model *m);

/* -- In model.c -- */

/* The rates of the next step are those of the options. */
void tcc__model_begin_rates(tcc_model *m);

/* -- In device.c -- */

/* Opens the device of that name; NULL is "cpu". *sm: of a CUDA device, else 0. */
tcc_status tcc__model_open_device(tcc_model *m, const char *name, int *sm);
/* TCC_EINVAL where the name means another device than the model's; NULL is any. */
tcc_status tcc__model_check_device(tcc_model *m, const char *name);
/* TCC_EUNSUPPORTED where the model has no device; where it has none, or no memory, to run with. */
tcc_status tcc__model_need_device(tcc_model *m);
tcc_status tcc__model_can_run(tcc_model *m);

/* -- In fill.c -- */

/* Begins to draw the initial values of all parameters that have none, beside what the caller does next, where there is
 * ample memory and the model is to run. Until tcc__fill_end or _stop nothing is added to the store. */
tcc_status tcc__fill_begin(tcc_model *m);
/* Returns when all parameters have their values, whether it was begun or not. */
tcc_status tcc__fill_end(tcc_model *m);
/* Gives up what was begun, if anything was: parameters have no values then. */
void tcc__fill_stop(tcc_model *m);

/* -- In fit.c -- */

/* Checks that a program and the state it brings fit the device. Errors: TCC_ENOMEM, which names the largest tensors. */
tcc_status tcc__model_fit(tcc_model *m, const tcc_program *p);

/* -- In bind.c. Memory for all that stays from run to run: parameters, buffers, moments, hyper-parameters, the random
 * key, outputs; and for the batch where it is copied. -- */

/* Checks that the model can give each binding what has its type. Takes no memory. Errors: TCC_EFORMAT. */
tcc_status tcc__compiled_check(tcc_model *m, const tcc_compiled *c);
tcc_status tcc__compiled_bind(tcc_model *m, tcc_compiled *c);
void tcc__compiled_unbind(tcc_model *m, tcc_compiled *c);
/* The hyper-parameter vector for the next training step, TCC_HYPER_MOST floats at most. */
void tcc__model_hyper(const tcc_model *m, float *out);
/* Hands over what changes from run to run. On the CPU a batch is used where it lies. */
tcc_status tcc__compiled_feed(tcc_model *m, tcc_compiled *c, const tcc_array *batch);
/* The host's copy of an output, brought up to date. */
tcc_status tcc__bound_host(tcc_model *m, tcc_bound *b, void **out);

/* -- In replay.c -- */

/* Whether options.require_graphs can be met, once the device is open. */
tcc_status tcc__model_check_replay(tcc_model *m);
/* Has a program's runs replayed where the model's mode says so; after a run, logs what came of it; and tells it. */
tcc_status tcc__compiled_set_replay(tcc_model *m, tcc_compiled *c);
void tcc__compiled_log_replay(tcc_model *m, tcc_compiled *c);
void tcc__compiled_replay_info(const tcc_compiled *c, tcc_program_info *out);
tcc_status tcc__report_replay(tcc_model *m, tcc_compiled *c, tcc_strbuf *b);

/* -- In scaling.c -- */

/* What tcc_model_report says of "ranks"; a rank's memory is known. */
tcc_status tcc__report_ranks(tcc_model *m, const tcc_compiled *c, int64_t peak_bytes, tcc_strbuf *b);

/* -- In state.c -- */

/* The entry whose copy a binding is, or a rank's own part; NULL: it is none. */
static inline const char *tcc__source_of(const tcc_binding *b) { return b->copy_of ? b->copy_of : tcc_own_of(b->name); }
/* The entry for a state binding; a new one begins as the binding says, once tcc_store_fill has run. */
tcc_status tcc__state_add(tcc_store *s, const tcc_binding *b, tcc_diag *diag, int *index);
/* The host may have written `source`: its copies are to be made again. */
void tcc__state_source_written(tcc_model *m, const tcc_stored *source);
/* A training program ran: copies that it has not kept up are to be made again. */
tcc_status tcc__states_ran(tcc_model *m, tcc_compiled *c);
/* Makes what is to be made again of the copies that a program reads, on the host's side; NULL: of all. */
tcc_status tcc__states_derive(tcc_model *m, const tcc_compiled *c);
/* The value of derived state `p`, from its source's. */
void tcc__state_derive(tcc_stored *p, const tcc_stored *source);

/* -- In memory.c -- */

/* Whether an entry has memory on the device. */
bool tcc__stored_has_memory(const tcc_model *m, const tcc_stored *p);
/* Whether parameters that no program reads or writes lie in the device's memory: it is the host's, and ranks have no
 * parts of them instead (shards.c). */
static inline bool tcc__model_keeps_idle(const tcc_model *m) {
    return !*m->arch && !(m->options.comm && m->options.shard_optimizer);
}
/* Device memory of an entry, allocated when first asked for. */
tcc_status tcc__stored_device(tcc_model *m, tcc_stored *p, void **out);
/* Brings the host's side of an entry up to date; whoever then writes it sets host_newer. */
tcc_status tcc__stored_host(tcc_model *m, tcc_stored *p);
/* The same for whole stores; and: a program wrote them all. */
tcc_status tcc__store_upload(tcc_model *m, tcc_store *s);
tcc_status tcc__store_download(tcc_model *m, tcc_store *s);
void tcc__store_written(tcc_store *s);
void tcc__store_release(tcc_model *m, tcc_store *s);
/* Lets a program run in the arena that all share, which grows to the largest of them; when that fails, the others keep
 * one. */
tcc_status tcc__model_share_arena(tcc_model *m, tcc_compiled *c);
/* Counts a program that is ready now into m->kept_bytes. */
void tcc__model_count_memory(tcc_model *m, tcc_compiled *c);
/* Device memory; `name` stands in the error. */
tcc_status tcc__device_alloc(tcc_model *m, int64_t size_bytes, const char *name, void **out);

#endif
