/* SPDX-License-Identifier: MIT
 * The result of lowering a group: one or more launches, each of a kernel that is described but not yet emitted. The
 * program builder compiles kernels with equal keys once, and merges launches. */
#ifndef TCC_CODEGEN_SCHEDULE_LOWERING_H
#define TCC_CODEGEN_SCHEDULE_LOWERING_H

#include "codegen/calls.h"
#include "codegen/body/access.h"
#include "codegen/body/body.h"
#include "codegen/emit/emitter.h"
#include "codegen/options.h"
#include "codegen/schedule/params.h"
#include "ir/support/context.h"
#include "passes/select.h"

typedef struct tcc_kernel_plan tcc_kernel_plan;

/* Emits the kernel into the module as a function named `symbol` (tcc_emit_kernel_begin ... end). May run in another
 * thread than the lowering: it only reads `plan`. */
typedef tcc_status (*tcc_kernel_emit)(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol);

/* Whether the element that `load` reads may be the one that `store` writes, where both begin at one address: whoever
 * reads it does so before it is written. */
typedef bool (*tcc_kernel_in_step)(const tcc_kernel_plan *plan, const tcc_body *body, const tcc_expr *load,
                                   const tcc_body_write *store);

struct tcc_kernel_plan {
    const char *schedule; /* "pointwise", "reduce": also the stem of the symbol */
    const char *key;      /* everything that the code depends on; equal keys, equal code */
    int n_buffers, n_params;
    int64_t scratch_bytes; /* a thread; CUDA: a lane group */
    tcc_thread_shape shape;
    tcc_kernel_emit emit;
    tcc_kernel_in_step in_step; /* NULL: never */
    const void *data;           /* the schedule's own, in the lowering's arena */
    bool transposes;            /* calls tcc_transpose, of which its module has one for all kernels */
};

/* A buffer of a launch: the memory of a value (an input, a stored value, a constant), a temporary of the group, or a
 * table. */
typedef struct tcc_plan_buffer {
    const tcc_node *node; /* NULL: a temporary or a table */
    int temporary;        /* -1, and neither node nor table: nothing, where a library call needs no buffer */
    const void *literal;
    int64_t literal_bytes;
    int64_t offset_bytes;
    bool written;
} tcc_plan_buffer;

typedef struct tcc_plan_launch {
    tcc_kernel_plan kernel;
    tcc_plan_buffer *buffers; /* in the kernel's order */
    int64_t *params;
    int first_settled, end_settled; /* the parameters of its schedule, among those of the lowering */
    int64_t items, grain;
    double flop;
    double multiply_adds; /* a cycle, of the unit that multiplies its products; 0: of its type's usual one */
    bool matrices;        /* and that unit multiplies matrices, as tensor cores do */
    double bytes;         /* that it moves, as its body tells; 0: all of its buffers */
    bool copies;          /* only copies a value to another: nothing to do where both are the same memory */
    bool in_place;        /* a call that may write its result over what it reads, its first two buffers */
    double waits_ns;      /* for other ranks, and for what comes from them */
    bool beside;          /* may run together with the launch before it: they write different parts of one value */
    const char *library;  /* not NULL: a library call of that name instead of a kernel; kernel.n_buffers and n_params
                            hold for it */
    /* What it does with its buffers (facts.c): those from first_of_body on as the body says. The others are read, or
     * written, wholly, or where `regions` (by buffer; run 0: wholly) says. */
    const tcc_body *body;
    double part; /* of the points of its body that it runs; 0: all of them */
    int first_of_body;
    const tcc_region *regions;
} tcc_plan_launch;

/* One of a library's ways to do a call. */
typedef struct tcc_listed_algorithm {
    tcc_algorithm_params by;
    int64_t workspace_bytes;
} tcc_listed_algorithm;

/* Lowering of one group by one row of the table of implementations (select.c): as a proposal, which says what that row
 * would launch, or, with a choice in `params`, as the graph says. Both go the same way, so what is proposed is what is
 * made. */
typedef struct tcc_lowering {
    tcc_arena *arena; /* for everything that must live until the program is built */
    tcc_context *cx;  /* for the log */
    tcc_diag *diag;
    const tcc_graph *graph;
    const tcc_group *group;
    const tcc_llvm_target *target;
    const struct tcc_codegen_options *options;
    const bool *far; /* by node id: stored past the caches, since nobody reads it there; NULL: none is */
    bool library;    /* by a call of a library or not at all */
    int asked;       /* calls that a library was asked about */
    bool lists;      /* the library names the algorithms that it has for the call */
    tcc_node *cut;   /* a proposal, with no launches: the call leaves this value, what is behind it is another group */
    tcc_params params;                 /* what is decided; with the choice of the graph where it is not a proposal */
    tcc_vec(tcc_plan_launch) launches; /* in order; a launch sees what earlier ones wrote */
    tcc_vec(int64_t) temporaries;      /* bytes of each; alive for this group alone */
    tcc_vec(tcc_body *) bodies;        /* kept until the program is built */
    tcc_vec(tcc_listed_algorithm) algorithms; /* that the library named */
} tcc_lowering;

/* The parameters of a choice that a listed algorithm is. */
enum { TCC_LISTED_PARAMS = 10 };
void tcc_lowering_listed_params(const tcc_listed_algorithm *x, tcc_choice_param out[TCC_LISTED_PARAMS]);

/* A lowering by `choice`, or, where that is NULL, a proposal. What is left out is zero. */
tcc_lowering tcc_lowering_of(tcc_arena *arena, tcc_diag *diag, const tcc_graph *g, const tcc_group *group,
                             const tcc_implementation *choice, const struct tcc_codegen_options *options);
void tcc_lowering_clear(tcc_lowering *l);

/* Appends a launch; zeroed. NULL when memory is short (reported). */
tcc_plan_launch *tcc_lowering_add(tcc_lowering *l);
/* The launch's buffers from a body's, and its flop from the body. */
tcc_status tcc_lowering_use_body(tcc_lowering *l, tcc_plan_launch *launch, const tcc_body *b);
/* Each work item takes points of the body in order, and a point's loads come before its stores. */
bool tcc_body_in_step(const tcc_kernel_plan *plan, const tcc_body *body, const tcc_expr *load,
                      const tcc_body_write *store);
/* The expressions of the launch's body that its stores need, by id, for the caller to free; NULL: memory is short. */
bool *tcc_launch_used(const tcc_plan_launch *launch);
/* Whether buffers `read` and `write` of the launch may be one memory, element for element. False where the body does
 * not say how the launch touches them. */
bool tcc_launch_in_step(const tcc_plan_launch *launch, const bool *used, int read, int write);
/* Whether all that the launch writes of the value `written` may lie over `old`, which it reads and which has as many
 * bytes. */
bool tcc_launch_overwrites(const tcc_plan_launch *launch, const bool *used, const tcc_node *old,
                           const tcc_node *written);
/* The launch's buffers: `lead`, then those of the body behind (NULL: none). */
tcc_status tcc_lowering_set_buffers(tcc_lowering *l, tcc_plan_launch *launch, const tcc_plan_buffer *lead, int n_lead,
                                    const tcc_body *body);
/* A body for a kernel of the target. `group`: whose nodes it evaluates; NULL: none. NULL when memory is short. */
tcc_body *tcc_lowering_body(const tcc_lowering *l, const tcc_group *group);
/* Traced successfully: the body is sealed, and freed with the lowering. If tracing failed, frees it and returns why. */
tcc_status tcc_lowering_keep(tcc_lowering *l, tcc_body *b);
/* Marks the stores of values that are far: of the body's, if any. For schedules whose vectors begin at multiples. */
bool tcc_lowering_mark_far(const tcc_lowering *l, tcc_body *b);
/* Adds the parameters of the launch's schedule, on which its code depends, to a key. */
void tcc_lowering_describe_settled(const tcc_lowering *l, const tcc_plan_launch *launch, tcc_strbuf *out);
/* The key of a launch: its schedule, what `format` adds, the parameters of the schedule, and the body. */
tcc_status tcc_lowering_key(tcc_lowering *l, tcc_plan_launch *launch, const tcc_body *b, int any_extent,
                            const char *format, ...) __attribute__((format(printf, 5, 6)));
/* A new temporary of so many bytes; its number, or -1. */
int tcc_lowering_temporary(tcc_lowering *l, int64_t size_bytes);
/* Whether there may be a call: a library that can be asked, or a choice. */
bool tcc_lowering_may_call(const tcc_lowering *l);
/* Whether a library takes the call, with that workspace or a smaller one: it is asked for a proposal, and not again for
 * what was chosen. */
tcc_status tcc_lowering_takes_call(tcc_lowering *l, const char *entry, int64_t *params, int64_t *workspace_bytes,
                                   bool *takes);
/* Takes back what was added: this row does not do it. */
tcc_status tcc_lowering_give_up(tcc_lowering *l);

/* The pointwise schedule for a traced body whose stores are one value a point. Keeps the body. */
tcc_status tcc_schedule_points(tcc_lowering *l, tcc_body *b);

/* The schedule of transposing work, if the sealed body is such: loads that are contiguous along another loop than the
 * last one. False: it is not. */
bool tcc_schedule_tiles(tcc_lowering *l, tcc_body *b, const int *order, int n, tcc_status *status);
/* The pointwise schedule for all outputs of the group with as many elements as `space`, whose dims are the loops. */
tcc_status tcc_lower_space(tcc_lowering *l, const tcc_type *space);

/* Schedules: each lowers a group of its kind. */
tcc_status tcc_lower_pointwise(tcc_lowering *l); /* also WINDOW, and whatever has no better schedule */
tcc_status tcc_lower_reduce(tcc_lowering *l);
/* Elements of a column that a GPU's sweeps find again in a cache: blocks side by side have as many of its second level
 * as a few hundred rows of their columns take. */
enum { TCC_REDUCE_LONGEST_COLUMN = 256 };
/* Elements of a row that a GPU's block adds up in parts: so many f32 of two tensors are in its shared memory. */
enum { TCC_REDUCE_LONGEST_PARTS = 28 * 1024 };
tcc_status tcc_lower_scan(tcc_lowering *l);
tcc_status tcc_lower_scatter(tcc_lowering *l);
tcc_status tcc_lower_sort(tcc_lowering *l);
/* Calls of libraries. */
tcc_status tcc_lower_norm_call(tcc_lowering *l);
tcc_status tcc_lower_matmul_call(tcc_lowering *l); /* a dot, or a convolution that is one */
tcc_status tcc_lower_conv_call(tcc_lowering *l);
tcc_status tcc_lower_attention_call(tcc_lowering *l);
/* Contractions and attention by kernels of our own; these and the calls add no launch where they do not do it. */
/* What it takes that the kernel of the group's hero, which is alone, computes operand k as it reads it; repeats 0: it
 * does not. The lowering is spent. */
tcc_status tcc_contract_computes(tcc_lowering *l, int k, tcc_operand_work *out);
tcc_status tcc_lower_contract(tcc_lowering *l); /* by tiles */
tcc_status tcc_lower_winograd(tcc_lowering *l); /* convolutions with fewer products */
tcc_status tcc_lower_depthwise(tcc_lowering *l);
tcc_status tcc_lower_dot(tcc_lowering *l); /* of tcc_lower_contract and tcc_lower_matmul_call, a dot */
tcc_status tcc_lower_attention(tcc_lowering *l);
/* A dot and the sum of an operand are two groups. */
tcc_status tcc_lower_apart(tcc_lowering *l);

#endif
