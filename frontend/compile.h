/* SPDX-License-Identifier: MIT
 * A model behind the public handle: its parameters and its compiled programs. Private to the composition root
 * (compile*.c). */
#ifndef TCC_FRONTEND_COMPILE_H
#define TCC_FRONTEND_COMPILE_H

#include "codegen/program.h"
#include "codegen/select.h"
#include "frontend/trace.h"
#include "passes/pass.h"
#include "passes/remat.h"
#include "passes/train_step.h"
#include "runtime/device.h"
#include "runtime/exec.h"
#include "traincc/model.h"

#include <stdio.h>
#include <string.h>

enum { TCC_DECAYED, TCC_NOT_DECAYED, TCC_DECAY_GROUPS }; /* parameter groups of the optimizer */

/* Memory of a binding that is the program's own: outputs, hyper-parameters, the random key, and the batch where it is
 * copied. */
typedef struct tcc_bound {
    void *device,
        *host; /* host: of an output, the copy of it; the same where memory is shared; NULL until it is asked for */
    int64_t bytes;
    bool old; /* the host's copy is of an earlier run */
} tcc_bound;

/* One compiled program and what it was compiled for. */
typedef struct tcc_compiled {
    tcc_arena arena; /* signature, names */
    bool train;
    int n_inputs;
    tcc_array *inputs; /* signature: names, types and shapes of the batch; data is not kept */
    tcc_graph *graph;  /* after the last pass */
    tcc_program *program;
    tcc_exec *exec;       /* NULL where there is no device */
    tcc_bound *bound;     /* by binding, owned */
    int hyper, rng, loss; /* bindings, or -1 */
    bool ran;
    float *hyper_values;
    tcc_vec(int) outdates; /* derived states, in the model's moments, whose source it writes and that it does not */
    int outdates_of;       /* how many states there were when these were looked for */
    tcc_manager_report passes;
    tcc_remat_report remat; /* empty where nothing may be computed again */
    double trace_seconds, passes_seconds, codegen_seconds, total_seconds;
} tcc_compiled;

struct tcc_model {
    tcc_context *cx;
    tcc_model_fn fn;
    void *user;
    tcc_model_options options;
    tcc_amp_spec amp; /* where options.mixed_precision is on */
    tcc_amp_class amp_classes[TCC_OP_COUNT];
    tcc_remat_spec remat;           /* of options.checkpointing and memory_budget */
    bool budget_of_device;          /* remat.bytes is what the device has; 0: it was not asked yet */
    char *dump_dir;                 /* copy of options.dump_dir, or NULL */
    tcc_device *device;             /* NULL: code is made for `arch`, and nothing runs */
    char device_name[32], arch[16]; /* "cuda:0", "sm_90"; arch is empty on the CPU */
    tcc_store store;                /* parameters and buffers */
    tcc_store moments;              /* what passes added: optimizer state, derived states */
    tcc_vec(tcc_compiled *) programs;
    tcc_compiled *last; /* of the last run or compile; NULL before */
    int64_t step;
    int64_t loss_tickets[TCC_FETCHES]; /* of training step i, in place i % TCC_FETCHES */
    int64_t first_kept, end_kept;      /* steps whose losses are there */
    double lr;
    bool profile;
    char *verified;            /* what the last verification saw, as text; NULL: there was none */
    tcc_selector *selector;    /* what codegen answers the passes; NULL before the first program */
    tcc_pass_target target[2]; /* the same as the passes of an evaluation (0) and of training (1) ask it */
};

/* TCC_EINVAL where arrays of a batch lack names or data, or share a name. */
tcc_status tcc__model_check_batch(tcc_model *m, const tcc_array *batch, int count);
/* The program for this batch's signature, compiled now if need be. Errors: TCC_EINVAL for a batch without sense. */
tcc_status tcc__model_compiled(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_compiled **out);
void tcc__compiled_destroy(tcc_model *m, tcc_compiled *c); /* NULL is allowed */
/* Makes m->selector and m->target, if they are not there yet. */
tcc_status tcc__model_selector(tcc_model *m);
/* Traces the model into a graph. */
tcc_status tcc__model_trace(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_graph **out);
/* Pass options for this model; `groups` is room for one entry a parameter of the graph. */
tcc_pass_options tcc__model_pass_options(tcc_model *m, bool train, const tcc_graph *g, int *groups);
/* In compile_budget.c. Reads options.checkpointing and memory_budget. */
tcc_status tcc__model_read_budget(tcc_model *m);
/* What the passes are to compute again in a program; NULL: nothing. */
const tcc_remat_spec *tcc__model_remat(tcc_model *m, bool train);
/* Checks that a program and the state it brings fit the device. Errors: TCC_ENOMEM, which names the largest tensors. */
tcc_status tcc__model_fit(tcc_model *m, const tcc_program *p);
/* Generates code for a planned graph; `dump_dir` may be NULL. */
tcc_status tcc__model_codegen(tcc_model *m, const tcc_graph *g, const char *dump_dir, tcc_program **out);
/* Opens what options.device and options.arch say. */
tcc_status tcc__model_open_device(tcc_model *m);
/* TCC_EUNSUPPORTED where the model has no device to run on. */
tcc_status tcc__model_need_device(tcc_model *m);

/* In compile_bind.c. Memory for all that stays from run to run: parameters, buffers, moments, hyper-parameters, the
 * random key, outputs; and for the batch where it is copied. */
tcc_status tcc__compiled_bind(tcc_model *m, tcc_compiled *c);
void tcc__compiled_unbind(tcc_model *m, tcc_compiled *c);
/* The hyper-parameter vector for the next training step, TCC_HYPER_SIZE(TCC_DECAY_GROUPS) floats. */
void tcc__model_hyper(const tcc_model *m, float *out);
/* Hands over what changes from run to run. On the CPU a batch is used where it lies. */
tcc_status tcc__compiled_feed(tcc_model *m, tcc_compiled *c, const tcc_array *batch);
/* The host's copy of an output, brought up to date. */
tcc_status tcc__bound_host(tcc_model *m, tcc_bound *b, void **out);

/* In compile_state.c. The entry for a state binding; a new one begins as the binding says, once tcc_store_fill has
 * run. */
tcc_status tcc__state_add(tcc_store *s, const tcc_binding *b, tcc_diag *diag, int *index);
/* The host may have written `source`: its copies are to be made again. */
void tcc__state_source_written(tcc_model *m, const tcc_stored *source);
/* A training program ran: copies that it has not kept up are to be made again. */
tcc_status tcc__states_ran(tcc_model *m, tcc_compiled *c);
/* Makes what is to be made again, on the host's side. */
tcc_status tcc__states_derive(tcc_model *m);
/* The value of derived state `p`, from its source's. */
void tcc__state_derive(tcc_stored *p, const tcc_stored *source);

/* In compile_memory.c. Whether an entry has memory on the device. */
bool tcc__stored_has_memory(const tcc_model *m, const tcc_stored *p);
/* Device memory of an entry, allocated when first asked for. */
tcc_status tcc__stored_device(tcc_model *m, tcc_stored *p, void **out);
/* Brings the host's side of an entry up to date; whoever then writes it sets host_newer. */
tcc_status tcc__stored_host(tcc_model *m, tcc_stored *p);
/* The same for whole stores; and: a program wrote them all. */
tcc_status tcc__store_upload(tcc_model *m, tcc_store *s);
tcc_status tcc__store_download(tcc_model *m, tcc_store *s);
void tcc__store_written(tcc_store *s);
void tcc__store_release(tcc_model *m, tcc_store *s);
/* Device memory; `name` stands in the error. */
tcc_status tcc__device_alloc(tcc_model *m, int64_t size_bytes, const char *name, void **out);

#endif
