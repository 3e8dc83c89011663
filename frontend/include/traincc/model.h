/* SPDX-License-Identifier: MIT
 * Models: a C function traced into a graph, compiled once for each input signature, and run.
 *
 *     static void net(tcc_trace *t, void *user) {
 *         tcc_tensor h = tcc_relu(tcc_linear(tcc_input(t, "x"), "fc1", 128));
 *         tcc_loss(t, tcc_cross_entropy(tcc_linear(h, "fc2", 10), tcc_input(t, "y")));
 *     }
 *
 * tcc_model_train compiles the whole training step - forward, backward, clipping, optimizer - into one program the
 * first time it sees a batch's names, shapes and types, and runs it; tcc_model_evaluate does the same for a
 * forward-only program.
 *
 * A thread that calls these needs a stack of 128 KiB. Results do not depend on its floating-point mode: whatever
 * rounding it has set, it is the default one within a call, and the thread's own again after it. */
#ifndef TRAINCC_MODEL_H
#define TRAINCC_MODEL_H

#include "traincc/array.h"
#include "traincc/comm.h"
#include "traincc/context.h"
#include "traincc/optimizer.h"
#include "traincc/tensor.h"

TCC_API_BEGIN

typedef struct tcc_model tcc_model;

/* Traces the model: gets inputs, computes, names outputs. It is called once for each program and must do the same for
 * the same inputs. `user` is what tcc_model_create was given. */
typedef void (*tcc_model_fn)(tcc_trace *t, void *user);

/* The batch input `name`: the array of that name given to the run, whose shape and type it has. */
TCC_API tcc_tensor tcc_input_at(tcc_trace *t, const char *name, tcc_loc at);
#define tcc_input(t, name) tcc_input_at(t, name, TCC_HERE)
/* Whether a batch array of that name was given, so that a model can compute its loss only where there are targets. */
TCC_API bool tcc_has_input(const tcc_trace *t, const char *name);
/* Names a result, readable after each run with tcc_model_output. */
TCC_API void tcc_output_at(tcc_trace *t, const char *name, tcc_tensor x, tcc_loc at);
#define tcc_output(t, name, x) tcc_output_at(t, name, x, TCC_HERE)
/* The scalar f32 to minimize; also output "loss". At most once in a trace. */
#define tcc_loss(t, x) tcc_output_at(t, "loss", x, TCC_HERE)
/* A scalar f32, 0 or more: your word for what a micro-batch weighs, where options.batch_accumulate refuses the loss.
 * The step's loss is then the mean of the micro-batches' losses, weighed so, and one that weighs 0 does not count at
 * all, even if its loss is NaN. A loss that is not refused needs no such word, and does not ask for it. Also output
 * "loss_weight". At most once in a trace. */
#define tcc_loss_weight(t, x) tcc_output_at(t, "loss_weight", x, TCC_HERE)

typedef enum tcc_mode {
    TCC_MODE_DEFAULT,         /* fused, heuristic choices */
    TCC_MODE_EAGER,           /* each op is a kernel of its own: for comparison and debugging */
    TCC_MODE_REDUCE_OVERHEAD, /* the kernels of the default; on a GPU a step replays as one CUDA graph */
    TCC_MODE_MAX_AUTOTUNE,    /* the same, with the kernels that measure fastest on this device */
} tcc_mode;

/* In which type the products, convolutions and attention of a model compute, and what they store. Parameters, their
 * updates, sums, norms and losses are float32 in any case (Micikevicius et al. 2018). */
typedef enum tcc_mixed_precision { TCC_MIXED_NONE, TCC_MIXED_BF16, TCC_MIXED_FP16 } tcc_mixed_precision;

/* What of the forward pass is computed again for the backward pass instead of kept (Chen et al. 2016). It never changes
 * a bit of a result. */
typedef enum tcc_checkpointing {
    TCC_CHECKPOINTING_AUTO, /* what meets the budget at the least added time; without one, what costs next to none */
    TCC_CHECKPOINTING_NONE, /* nothing: what is cheapest in time */
    TCC_CHECKPOINTING_SEGMENTS, /* what lies in tcc_checkpoint_segment (nn.h), and more if a budget asks for it */
} tcc_checkpointing;

/* Parameters that are updated otherwise than the rest; PyTorch's param_groups. A parameter belongs to the first group
 * whose pattern its name matches. */
typedef struct tcc_param_group {
    size_t size; /* the same in all groups of an array */
    const char
        *match;      /* a shell's pattern: "*.bias", "blocks.[0-3].*". It is an error if no parameter is left for it */
    double lr_scale; /* factor of the learning rate, from step to step; 1 */
    double weight_decay;  /* of all in the group, norms and biases too; NaN: as of the rest */
    double beta1, beta2;  /* NaN: as of the rest */
    double momentum;      /* SGD: the same; above 0 only where the optimizer's is */
    bool frozen;          /* not trained: no gradient is computed, no state is kept */
    bool keep_statistics; /* frozen: batch norms of which the group has the weight normalize by their running statistics
                             in training, too, and leave them */
} tcc_param_group;

/* As the rest. */
#define tcc_param_group_init(g, match) tcc_param_group_init_sized((g), sizeof *(g), (match))
TCC_API void tcc_param_group_init_sized(tcc_param_group *g, size_t size, const char *match);

/* How parameters are updated: TCC_SGD, TCC_ADAM, TCC_ADAMW, TCC_LION, TCC_ADAFACTOR or TCC_ADAGRAD (optimizer.h), by
 * PyTorch's definitions, and Lion as in Chen et al. 2023. Adafactor keeps of a matrix the mean square gradients of its
 * rows and columns alone (Shazeer and Stern 2018). Every number means itself, 0 too:
 * tcc_optimizer_init sets them as said here, and the caller changes what is to differ. */
typedef struct tcc_optimizer_options {
    size_t size;
    tcc_optimizer_kind kind;
    double lr; /* 1e-3; SGD: 0.1; Lion: 1e-4; Adafactor, Adagrad: 1e-2; tcc_model_set_lr changes it from step to step */
    double beta1, beta2; /* Adam, AdamW: 0.9 and 0.999; Lion: 0.9 and 0.99 */
    double eps;          /* Adam, AdamW: 1e-8; Adagrad: 1e-10; Adafactor: 1e-3, the least size that it takes a
                            parameter to have */
    double weight_decay; /* AdamW, Lion, Adafactor: decoupled; else added to the gradient; 0 */
    bool decay_all;      /* decay norms and biases (rank < 2) too; false: matrices only */
    double momentum;     /* SGD; 0: none, and none can be set later */
    bool nesterov;
    double clip_grad_norm; /* largest global L2 norm; 0: no clipping */
    /* Above 0: the kernel that updates a parameter also keeps its exponential moving average, state "NAME.ema": the
     * parameter after the first update, then decay average + (1 - decay) parameter. Buffers have none, unless
     * ema_buffers: evaluation has the running statistics of the model as it is. */
    double ema_decay;
    bool ema_warmup;               /* the decay is at most (1 + n) / (10 + n) after n updates */
    const tcc_param_group *groups; /* copied with their patterns */
    int n_groups;                  /* at most 16 */
    bool ema_buffers;              /* buffers of floats have averages, too, as running statistics of batch norms */
    double ema_ramp;               /* above 0: step n, from 1, takes ema_decay (1 - exp(-ema_ramp n)) for the decay */
} tcc_optimizer_options;

/* The defaults of this kind:
 *     tcc_optimizer_options adamw;
 *     tcc_optimizer_init(&adamw, TCC_ADAMW);
 *     adamw.lr = 3e-4; */
#define tcc_optimizer_init(o, kind) tcc_optimizer_init_sized((o), sizeof *(o), (kind))
TCC_API void tcc_optimizer_init_sized(tcc_optimizer_options *o, size_t size, tcc_optimizer_kind kind);

typedef struct tcc_model_options {
    size_t size;
    const char *device; /* "cpu" (default), "cuda" (the first usable), "cuda:N", or "auto": the first usable CUDA
                           device, else the CPU */
    tcc_mode mode;
    uint64_t seed;                          /* initial values, dropout */
    const tcc_optimizer_options *optimizer; /* copied; NULL: TCC_SGD's defaults */
    bool keep_gradients;                    /* tcc_model_gradient after each training step */
    const char *dump_dir; /* a folder to write to: the IR around every pass, and kernels, memory plan and steps of each
                             compiled program */
    bool verify_passes;   /* check the graph after every pass, and that every read of memory in a finished program finds
                             the value that the graph means; TCC_VERIFY_PASSES=1 in the environment does the same.
                             A program comes from the cache if it was checked when it was made */
    const char *arch;     /* "sm_90": compile for a GPU of this architecture, present or not; `device` is ignored, and
                             nothing can run */
    bool allow_tf32; /* a GPU (sm_80 and newer) may round the operands of f32 matrix products to 10 bits of fraction,
                        for tensor cores; a CPU never does */
    void (*progress)(void *user, const char *text); /* called by what takes long (tcc_model_verify) at each stage
                                                       and every few seconds, with a line of text; or NULL */
    void *progress_user;
    int64_t verify_samples; /* the most samples of a batch whose loss and gradients tcc_model_verify compares; 0: as
                               many as its interpreter does in about half a minute on two cores */
    tcc_mixed_precision mixed_precision;
    const char *mixed_precision_ops; /* other choices for some ops, as "gelu=fp32,take=fp32": "low" computes in the low
                                        type, "fp32" in float32, "opmath" in float32 with a result of its first
                                        operand's type, "promote" in the widest of its operands' types; or NULL */
    /* FP16: the loss is scaled so that small gradients do not vanish, as torch.amp.GradScaler does, all on the device.
     * A step whose gradients are not finite updates nothing and lowers the scale. 0: the defaults given here. */
    double loss_scale;           /* in the beginning; 65536 */
    double loss_scale_growth;    /* factor, after loss_scale_interval updates in a row; 2 */
    double loss_scale_backoff;   /* factor, at a skipped step; 0.5 */
    int64_t loss_scale_interval; /* 2000 */
    /* Wide work that goes row by row, as a language model's head and its loss, runs in chunks of rows where that saves
     * much memory (passes/chunk.c), so that logits are never whole in memory. 0: what pays; N: every product of more
     * than N rows that can be, in chunks of so many. The sum over rows in a weight's gradient depends on it. */
    int64_t chunk_rows;
    tcc_checkpointing checkpointing;
    /* What a training step may take of memory, planned before it runs:
     *     "1.5GiB", "800MB", "123456789"  bytes of all its memory: parameters, states, batch, outputs, activations
     *     "50%"                           this share of the activation memory of TCC_CHECKPOINTING_NONE
     *     "min"                           as little as it can
     *     "auto"                          what the device has free when the first program is compiled
     *     "none", or NULL                 no budget
     * A budget that cannot be met is an error of compiling, TCC_ENOMEM, which says how little would do. */
    const char *memory_budget;
    /* With TCC_MODE_REDUCE_OVERHEAD: every launch of a step has to be captured, and steps are replayed in any case;
     * what prevents that is an error, TCC_EUNSUPPORTED. Else what cannot be captured is launched, and all is where a
     * replay measures slower. */
    bool require_graphs;
    /* Of TCC_MODE_MAX_AUTOTUNE. */
    double autotune_budget_s; /* the most seconds for measuring, of all programs of the model; 0: 60. What has not been
                                 measured when they are over runs as by default */
    const char *lock;         /* a file to write every choice to, as text; or NULL */
    const char *locked;       /* such a file: what it says is used, and nothing is measured; or NULL. Where it does not
                                 fit the model or this machine, compiling fails with TCC_EINVAL */
    /* Programs are made, reported on and saved, but get no memory, and parameters no values: tcc_model_param gives no
     * data, and nothing can run (TCC_EUNSUPPORTED). */
    bool compile_only;
    /* Above 1: tcc_model_train takes its batch in so many micro-batches, one after another, as it were smaller: the
     * memory of a step is that of a micro-batch and one sum for each gradient. All arrays of the batch have the same
     * first extent, which is cut in parts of equal size, and one that is smaller where it does not divide. The step is
     * that of the whole batch but for rounding, whatever the loss divides by. What depends on the batch alone, as a
     * count of targets, a sum of weights or a mask, is added up over all micro-batches before the first of them. The
     * loss must be linear in every other sum over the batch, and must not read across samples otherwise: a loss that is
     * the logarithm of a mean, a maximum over the batch, or contrasts samples is an error (TCC_EINVAL) that names the
     * op's line. tcc_loss_weight or loss_is_sum, where you know better, take it as you say. The model's function is
     * traced on the whole batch, too. A step whose loss is NaN because what it divides by is 0, as no target counts, is
     * left out: it changes nothing. (Without batch_accumulate its gradients are 0, as in PyTorch.) Gradients are
     * clipped, and their scale is taken from them, once, as a whole. What a batch norm knows of a batch is of one
     * micro-batch, and its running statistics are updated by each of them; each has random draws of its own. A buffer
     * that the loss reads is as before the step. Outputs but the loss and gradients are those of the last
     * micro-batch. */
    int64_t batch_accumulate;
    bool loss_is_sum; /* your word that losses of micro-batches add up, where batch_accumulate refuses the loss */
    /* tcc_model_train waits for its step and is TCC_EINVAL where the loss or a gradient is infinite or NaN. The error
     * names the first op that gave such a value, forward or backward, with its line of the user's code. Such a step
     * changes nothing and is not counted. With FP16 a step that is skipped because of its gradients is none of these:
     * there the loss alone counts. A step that is in order costs one flag, made of all gradients, and the wait. It
     * stays what it is but for rounding: the flag reads each gradient, so other groups of operations run as one kernel,
     * and sums may be taken in another order. */
    bool detect_anomaly;
    /* A training step also computes what tcc_model_statistic tells. The step stays what it is but for rounding, as sums
     * may then be taken in another order. Where it is false, nothing is computed for it. */
    bool statistics;
    /* tcc_model_gradient of float inputs of the batch, too. That costs their backward pass, and an output as large as
     * each of them; where it is false, nothing. Not with batch_accumulate. */
    bool keep_input_gradients;
    /* A model to share parameters and buffers with, by name: for the two networks of a GAN, a student and its teacher,
     * or two losses in turn. NULL: it has its own. Both use one memory: what either trains, loads or writes, the other
     * sees in its next run. Names that the other lacks are added for both. Each has its own function, options,
     * optimizer, moments, averages, loss scale, count of steps and random numbers. A step updates all parameters of its
     * own function that are not frozen (tcc_param_group); weight decay reaches those too that its loss does not depend
     * on. A third model may share with any of them. They may be destroyed in any order. It must be of the same context;
     * the device is that of the other: `device` and `arch` NULL or the same. `seed` is the same, or 0. The model that
     * first asks for a parameter says how it begins; the values depend on seed and name alone, not on the model.
     * Errors: TCC_EINVAL. */
    tcc_model *share;
    /* Tells models that share apart. It is put before the names of the optimizer's state, "critic/fc1.weight.m", so
     * that the states of all of them fit into one checkpoint, and random draws depend on it beside seed and step. NULL:
     * none, which one of them may have. It has no '/'. */
    const char *name;
    /* The end of a communicator of this rank: all its ranks train one model together, each on its own part of a batch.
     * NULL: it trains alone. tcc_model_train and tcc_model_compile are then collectives: all ranks call them alike, and
     * each brings at least one sample. Rank 0 makes the programs and reads the cache; the others get them from it, and
     * their model's function is not called. The step is that of the whole batch, the ranks' parts in their order, with
     * the same rules as batch_accumulate has: N ranks give the bits of one rank that takes the batch in N micro-
     * batches. On a CUDA device last bits may differ, where more is fused with a sum in one of the two programs than in
     * the other. With batch_accumulate, each rank takes its part in so many. The loss and gradients are those of the
     * whole batch, other outputs those of this rank. Buffers, as running statistics, take the next values that rank 0
     * has. Ranks must begin with the same version of the library, processor (TCC_CPU), options, parameters and states,
     * which is checked before the first step. Whatever fails on one rank fails the step on all. tcc_model_evaluate is
     * this rank's own: it makes a program that tcc_model_compile was not asked for. It must be of the same context, and
     * outlive the model. On a CUDA device NCCL carries what devices send each other, on a stream of its own, and sums
     * are taken in the order of ranks all the same; "cuda" and "auto" are then the device that has this rank's number
     * on its machine. Not with keep_input_gradients. */
    tcc_comm *comm;
    bool
        reduce_in_bf16; /* with comm: gradients travel in bf16, half of the bytes, and each sum of two ranks' is rounded
                             to that */
    bool sync_batch_norm; /* with comm: all batch norms take the batch of all ranks, as if each had the option sync */
    bool shard_optimizer; /* with comm: each rank gets a part of the gradients, keeps and updates a part of the
                             optimizer's states and of averages, and all gather the parameters: the same bits, as much
                             to send, and less memory. In mixed precision a weight that products alone read is kept in
                             parts, too, and its low-precision copy is gathered: half as much to send of it. With
                             keep_gradients or statistics gradients and weights are whole, and it is half as much again
                             to send. Not with TCC_ADAFACTOR, which needs whole parameters. See tcc_model_gather_states
                             and tcc_model_use_ema. */
    bool reduce_fast; /* with comm on CUDA devices: sums of gradients are taken as NCCL's algorithms do, which need not
                         be in the order of ranks. So their bits may be others than those of micro-batches, and from one
                         number of ranks, machine or version of NCCL to another */
} tcc_model_options;

/* Whether options.memory_budget may be `text`. */
TCC_API bool tcc_is_memory_budget(const char *text);
/* The bytes that such a text says; 0: it is no budget, or one of another kind. */
TCC_API int64_t tcc_memory_budget_bytes(const char *text);

/* `options` may be NULL. The model keeps `fn` and `user`. */
TCC_API tcc_status tcc_model_create(tcc_context *cx, tcc_model_fn fn, void *user, const tcc_model_options *options,
                                    tcc_model **out);
TCC_API void tcc_model_destroy(tcc_model *m); /* NULL is allowed */
/* Where it computes: "cpu", "cuda:0"; "none" with options.arch. Borrowed. */
TCC_API const char *tcc_model_device(const tcc_model *m);

/* One training step on a batch: arrays named as the model's inputs, borrowed for the call. Compiles when the signature
 * is new. On a GPU the call returns when the step is enqueued. A few steps may be under way; later calls return their
 * errors.
 *
 * Arrays may lie on the device (array.h), some or all of them. The step reads these where they lie. They are copied,
 * within the device, in two cases: a micro-batch (batch_accumulate) that does not begin at a multiple of 16 bytes, and
 * a step that is replayed as a graph, where the address is neither that of the graph nor that of the step before. A
 * graph holds addresses; an address that two steps in a row have is captured, a few times at most. The copy takes less
 * time than to change the graph. So with TCC_MODE_REDUCE_OVERHEAD and TCC_MODE_MAX_AUTOTUNE keep one array for each
 * input. */
TCC_API tcc_status tcc_model_train(tcc_model *m, const tcc_array *batch, int count);
/* Lets a GPU fetch batches that lie in this memory from there, where each run else copies its batch first. What a run
 * was given there stays as it is for TCC_PINNED_RUNS more, or until the model was synchronized. The memory must outlive
 * the model. On the CPU runs read batches where they lie, and this does nothing. Errors: TCC_ENOMEM where the memory
 * cannot be pinned, TCC_EDEVICE. */
enum { TCC_PINNED_RUNS = 4 };
TCC_API tcc_status tcc_model_pin(tcc_model *m, void *memory, size_t size_bytes);
/* Forward only, in evaluation mode. Changes no state. Arrays may lie on the device, as for tcc_model_train. */
TCC_API tcc_status tcc_model_evaluate(tcc_model *m, const tcc_array *batch, int count);
/* Compile ahead without running; also makes parameters and, but with options.compile_only, their initial values. The
 * program is the same wherever the arrays lie. */
TCC_API tcc_status tcc_model_compile(tcc_model *m, bool train, const tcc_array *batch, int count);

/* Output `name` of the last run, borrowed until the next; TCC_ENOTFOUND lists the names. It lies on the host, after a
 * wait for the run; or it is the caller's array, without a wait, where tcc_model_place_output gave one. */
TCC_API tcc_status tcc_model_output(tcc_model *m, const char *name, tcc_array *out);
/* Lets all later runs, of each program with this output, write output to->name straight to to->data, where nothing is
 * copied. The memory is the caller's. It lies where the model computes: on the device, with TCC_MEMORY_DEVICE, in order
 * with to->stream as a batch is; or on the host, at a multiple of 64 bytes. It must live until the output is placed
 * anew, which takes effect with the next run, or the model is destroyed; with `data` NULL the output goes back to the
 * model's own memory. `to` itself and its name are borrowed for the call. With graphs (TCC_MODE_REDUCE_OVERHEAD) each
 * new address is captured anew. Not for "loss", which tcc_model_step_loss gives without a wait.
 * Errors: TCC_ENOTFOUND where no program that was made so far has the output, with the names; TCC_ESHAPE and TCC_EDTYPE
 * where it has another shape or type in all of them; TCC_EINVAL for memory that will not do. A later run whose program
 * has the output in another shape or type, or whose batch overlaps it, is an error, too: place it anew before. */
TCC_API tcc_status tcc_model_place_output(tcc_model *m, const tcc_array *to);
/* Output "loss" of the last run; waits for it. NaN before the first run, and if the run failed. */
TCC_API double tcc_model_loss(tcc_model *m);
/* Loss of training step `step`, counted from 0: one of the last 64 that this model and those that share with it ran.
 * Waits for that step but not for later ones, so a GPU stays busy if you ask one step late. Errors: TCC_ENOTFOUND (not
 * one of those 64), and those of the step. */
TCC_API tcc_status tcc_model_step_loss(tcc_model *m, int64_t step, double *loss);
/* Waits for all runs, and brings parameters, buffers and optimizer state to the host. Returns errors of runs. */
TCC_API tcc_status tcc_model_synchronize(tcc_model *m);

/* The scale of the loss after the last step, and how many steps were skipped so far because a gradient was not finite.
 * Waits for all steps. Errors: TCC_ENOTFOUND where the loss is not scaled (mixed_precision is not TCC_MIXED_FP16, or
 * nothing was trained yet), and those of the steps. */
TCC_API tcc_status tcc_model_loss_scale(tcc_model *m, double *scale, int64_t *skipped);

/* The learning rate, and the momentum (SGD) or beta1 (all others), of the steps that follow: traincc/schedule.h
 * computes them. They are data, and nothing is compiled again. Errors: TCC_EINVAL for what is out of range, and for a
 * momentum where SGD was created without one. All groups get this momentum, those with one of their own too, as
 * PyTorch's OneCycleLR and CyclicLR do it. */
TCC_API tcc_status tcc_model_set_lr(tcc_model *m, double lr);
TCC_API tcc_status tcc_model_set_momentum(tcc_model *m, double momentum);
TCC_API int64_t tcc_model_step(const tcc_model *m); /* training steps done */
/* After loading a checkpoint: how far schedule and random numbers are. The optimizer's own count, by which Adam
 * corrects its moments, is TCC_STEP_STATE below and not touched. */
TCC_API void tcc_model_set_step(tcc_model *m, int64_t step);

/* Parameters and buffers, in the order of the model's code, from index 0; of models that share (options.share) all, in
 * the order in which they were first asked for. They exist after the first run or compile. The array says the element
 * type; layers make f32. It lies in host memory, which may be read and written until the next run, of any model that
 * shares: ask again after a run, for what is written unasked may be missed (with a GPU the memory is a copy). The next
 * run uses what was written. False past the end, or if the device failed; tcc_model_synchronize returns the error. And
 * false, with TCC_EINVAL as the context's error, for a weight that ranks keep in parts (options.shard_optimizer, in
 * mixed precision): after a step it is there once tcc_model_gather_states or tcc_model_use_ema was called. */
TCC_API bool tcc_model_param(tcc_model *m, int index, tcc_array *out);
TCC_API bool tcc_model_find_param(tcc_model *m, const char *name, tcc_array *out);
/* Copies the parameter or buffer to->name to to->data, or sets it to what lies in from->data, whatever its type: the
 * array says what the caller has. Floats are converted, rounded once to nearest even; other types must be equal, and so
 * must shapes. An array may lie on the device (array.h): it is copied there, without a wait, and must have the
 * parameter's own type; an array of tcc_model_param is old then. Errors, which name the parameter and both types:
 * TCC_ENOTFOUND, TCC_ESHAPE, TCC_EDTYPE; those of the device. Nothing is changed then. And of the first function
 * TCC_EINVAL where tcc_model_param is false for a weight in parts; the second sets it whole, which is for all ranks. */
TCC_API tcc_status tcc_model_get_param(tcc_model *m, const tcc_array *to);
TCC_API tcc_status tcc_model_set_param(tcc_model *m, const tcc_array *from);
/* Whether parameter `index` is trained (not a buffer). */
TCC_API bool tcc_model_param_is_trained(const tcc_model *m, int index);
/* The optimizer's state, for checkpoints; exists once a training program was compiled. Moments are f32. Of a parameter
 * NAME it is "NAME.momentum" with SGD's momentum; "NAME.m" and "NAME.v" with Adam and AdamW; "NAME.m" with Lion;
 * "NAME.row_var" and "NAME.col_var" with Adafactor, "NAME.variance" where it has no rows; "NAME.sum" with Adagrad. With
 * Adam and AdamW there is TCC_STEP_STATE too, an i64[]: the updates that were made. A checkpoint without it is of a
 * version that made an update in every step: write the number of its steps there. */
#define TCC_STEP_STATE "@step"
TCC_API bool tcc_model_optimizer_state(tcc_model *m, int index, tcc_array *out);
/* With options.shard_optimizer, a collective between steps: until its next step rank 0 has whole states, as a model
 * that does not share them out has them, and all ranks have whole parameters. On other ranks, and without this call,
 * tcc_model_optimizer_state is false for such a state, with TCC_EINVAL as the context's error; but before a model's
 * first step each rank has them, and writes all that a checkpoint says. Without that option it does nothing. */
TCC_API tcc_status tcc_model_gather_states(tcc_model *m);
/* Gradient of the loss by parameter `name`, or by that float input of the batch, at the last training step; needs
 * keep_gradients or keep_input_gradients. It is that of the loss itself, with FP16 as well, and before clipping.
 * Borrowed until the next run. A frozen parameter has none: TCC_ENOTFOUND. */
TCC_API tcc_status tcc_model_gradient(tcc_model *m, const char *name, tcc_array *out);

/* Statistics of the last training step, of each trained parameter and of the result of each module. A module is what
 * names of parameters have in front of their last dot, as "up" of "up.weight"; its result is the last value of the
 * forward pass that is computed with one of its parameters, and belongs to the last micro-batch of a step. */
typedef struct tcc_statistic {
    const char *name; /* of the parameter or module; borrowed */
    bool of_module;
    double gradient_norm, gradient_largest; /* of a parameter's gradient before clipping: L2 norm, largest magnitude */
    double gradient_zeros;                  /* share of its elements that are 0 */
    double weight_norm, update_norm;        /* of the parameter before the step, and of what the step has changed */
    double mean, std, largest;              /* of a module's result; largest: magnitude */
} tcc_statistic;
/* The one of that index, from 0; waits for the step. Errors: TCC_ENOTFOUND past the last; TCC_EINVAL without
 * options.statistics. */
TCC_API tcc_status tcc_model_statistic(tcc_model *m, int index, tcc_statistic *out);

/* Exchanges the trained parameters and their averages (ema_decay): while it is on, evaluation, tcc_model_param and what
 * is saved as parameters are averages, "NAME.ema" are the trained values, and tcc_model_train is refused. Before the
 * first update the averages are the parameters. What is on, or off, already stays so. Models that share parameters see
 * the averages too, and cannot train either; where the model is destroyed meanwhile they get the parameters back. With
 * options.shard_optimizer turning it on is a collective.
 * Errors: TCC_ENOTFOUND where nothing is averaged, or no training program was compiled yet; TCC_EUNSUPPORTED for
 * parameters of another type than their average; TCC_EINVAL while another's averages are in their place. */
TCC_API tcc_status tcc_model_use_ema(tcc_model *m, bool on);

/* What a program would take of memory, in bytes. */
typedef struct tcc_memory_plan {
    int64_t arena_bytes; /* values of a run; all programs of a model share the largest */
    int64_t state_bytes; /* parameters, buffers, the optimizer's state; these are shared, too */
    int64_t batch_bytes; /* batch, hyper-parameters and outputs, and on a GPU what other ranks send: each program has
                            its own */
} tcc_memory_plan;
/* Plans a training step or an evaluation on such a batch: the passes run, but no code is made, and the model has no
 * program more. Errors are those of tcc_model_compile up to there. */
TCC_API tcc_status tcc_model_plan(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_memory_plan *out);
/* Bytes that the model's device could give now, about; 0: unknown, or there is no device. */
TCC_API int64_t tcc_model_free_memory(tcc_model *m);

/* What compiling did and what the program is. Of a training step with batch_accumulate all its runs are meant, of so
 * many micro-batches and of the update, but `launches` and what follows on graphs are of a micro-batch's. */
typedef struct tcc_program_info {
    int programs;                                  /* compiled so far */
    double compile_seconds;                        /* of the last: trace to runnable, without drawing initial values */
    int64_t arena_bytes, param_bytes, state_bytes; /* of the last */
    int64_t peak_bytes; /* of all programs together, of models that share too, which have one arena: the largest arena,
                           parameters and states, batches and outputs */
    int kernels, steps; /* distinct kernels; steps of a run */
    double flop, bytes; /* of a run */
    /* TCC_MODE_REDUCE_OVERHEAD on a GPU; else 0. The first run of a program is made by launches, before the second they
     * are captured, and the next few are timed; then it is decided. */
    int launches, captured_launches, graphs; /* of a run; graphs: that it replays, 0: it is launched */
    bool graphs_decided;
    double replay_ms, launch_ms; /* time of a run, measured; 0: it was not */
    int64_t measured;            /* TCC_MODE_MAX_AUTOTUNE: candidates that were timed so far, for all programs */
    int cached_programs;         /* of all so far: from the cache; */
    int cached_kernels;          /* of the others: kernels from the cache */
    double saved_seconds;        /* how much longer compiling those programs would have taken */
    const char *cache_trouble;   /* why there is no cache, or no more; NULL; borrowed */
} tcc_program_info;
TCC_API tcc_status tcc_model_info(tcc_model *m, tcc_program_info *out);

/* Text of a report on the last program, to be freed with tcc_string_free; NULL when memory is short. Of a training step
 * with batch_accumulate it is of the program that a micro-batch runs; "passes", "kernels", "memory" and "graphs" go on
 * with the one that makes the update.
 * "passes": time of each pass; "kernels": a line a step with lines of source, bytes, flops, time (after profiling
 * runs), share of the roofline; "memory": the plan; "remat": with a memory budget or checkpointed segments, what is
 * computed again and what that saves, else empty; "tir": the graph as compiled; "llvm", "asm", "ptx": the kernels as
 * LLVM IR, as assembly, and as PTX where they are for a GPU; "verify": what the last verification has compared;
 * "graphs": with TCC_MODE_REDUCE_OVERHEAD on a GPU, after the second run, a line on what was captured, why the rest was
 * not, and the measured times; else empty; "tune": with TCC_MODE_MAX_AUTOTUNE the candidates of each kind of group,
 * their times and the winner, and the times of the whole step as by default and as tuned; else empty; "groups": a line
 * for each group of parameters: how many it has, and how they are updated; "ranks": with a communicator, a table of the
 * training step on 1 to 1,024 ranks as predicted: its time, how much of it is waiting for the network, samples a
 * second, their share of what as many separate ranks would do, bytes that a rank sends, and the memory that it takes,
 * without and with the optimizer's states shared out among ranks; else empty. */
TCC_API tcc_status tcc_model_report(tcc_model *m, const char *what, char **out);
/* Time every step of later runs (costs a little). */
TCC_API void tcc_model_profile(tcc_model *m, bool on);
/* Write what profiling saw of the last training steps, or, before the first, of the last evaluations, as a Chrome
 * trace: lanes for the host, copies and computing. */
TCC_API tcc_status tcc_model_write_profile(tcc_model *m, const char *path);
/* Frees a text that the library gave, as reports and error messages; NULL is allowed. */
TCC_API void tcc_string_free(char *s);
/* What `name` ("cpu", "cuda", "cuda:N", "auto") means on this machine: the device, "cpu" or "cuda:0", and a line on it
 * for a person, which for "auto" on the CPU says why. Free both with tcc_string_free. Acquires no device. Errors:
 * TCC_EINVAL (no such name), TCC_EUNSUPPORTED and TCC_EDEVICE, which say what is missing and what to do. */
TCC_API tcc_status tcc_find_device(tcc_context *cx, const char *name, char **device, char **text);
/* What hardware and libraries were found, from where, which version, and what is lost without the rest; to be freed. */
TCC_API tcc_status tcc_describe_devices(tcc_context *cx, char **out);

/* Run one training step on the compiled program and on the reference interpreter, and compare. The model's state is
 * unchanged.
 *
 * How much may differ is measured, not guessed: beside the exact run, the interpreter makes a few in which every result
 * is disturbed as rounding to its type might. Each kernel of the program that trains on this batch is compared on the
 * values that it really gets, then the loss, all gradients and buffers are, then what the passes have made of the
 * graph. The step must also give the same bits when every value has memory of its own. `tolerance` is allowed beyond
 * that, relative to the largest entry of an array; usually 0.
 *
 * The kernels are those of the whole batch, if there is memory for all of its values at once, and a CPU does not take
 * long for such a step; of results that take the interpreter long a fixed sample is compared. For loss and gradients, a
 * batch that would take long is cut to its first samples (options.verify_samples), where all its arrays have one first
 * extent and the model takes fewer; and then to the middle of its images or the beginning of its sequences, where the
 * model takes smaller ones. A step that a CPU takes long for is cut in the same way, to what that gets through. With
 * batch_accumulate these are verified in one piece, and then as they are taken in micro-batches, whose loss and
 * gradients must be those of the whole; the kernels are those of the micro-batches and of the update.
 * tcc_model_report(model, "verify", ...) tells what was compared and how close it is; options.progress is told on the
 * way.
 *
 * Arrays on the device are copied to the host first.
 *
 * Where a parameter or a state is not finite before the step, or the batch has a NaN, nothing can be judged:
 * TCC_EINVAL. On a mismatch returns TCC_EBUG; the error names the value, and the first pass whose result differs, or
 * else the fused group whose kernel does, or else the memory plan; the smallest failing graph is written to
 * `reproducer` (may be NULL).
 */
TCC_API tcc_status tcc_model_verify(tcc_model *m, const tcc_array *batch, int count, double tolerance,
                                    const char *reproducer);

/* Looks for the op that makes gradients infinite or NaN, where fp16 skips step after step. The reference interpreter
 * runs the next training step on `batch` from the model's present state, in the types and with the scale of the loss
 * that it is compiled for, as far as the first op whose result is not finite though its operands are. *text, to be
 * freed with tcc_string_free, is a line that names the op, its line of the user's code, its type, the parameters that
 * it reads and whether it is forward or backward; or says that no op overflows. A batch that would take long is cut as
 * by tcc_model_verify, and the line says so: a mean over fewer samples has larger gradients. Arrays on the device are
 * copied to the host first. The model is unchanged. */
TCC_API tcc_status tcc_model_find_overflow(tcc_model *m, const tcc_array *batch, int count, char **text);

TCC_API_END
#endif
