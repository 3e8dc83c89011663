/* SPDX-License-Identifier: MIT
 * The state of the pass train-step, shared by train_step.c and step_*.c. */
#ifndef TCC_PASSES_STEP_H
#define TCC_PASSES_STEP_H

#include "ir/build.h"
#include "ir/support/train_step.h"
#include "passes/pass.h"

typedef struct tcc_step_state {
    int input; /* its number, of which `value` is the old value */
    tcc_node *value;
} tcc_step_state;

enum { TCC_STEP_STATES = 2 };

/* One trained parameter on its way through the pass. */
typedef struct tcc_trained {
    int input; /* of the parameter, in graph->inputs */
    int group, rates;
    tcc_node *p, *g; /* value and gradient, in the type of the arithmetic */
    tcc_node *whole; /* the gradient before it is clipped */
    tcc_step_state states[TCC_STEP_STATES];
    tcc_step_state ema;
    tcc_node *next; /* the parameter's next value, where no step is skipped */
    /* Where states are shared out, p, g, states, average and `next` are this rank's parts. So is `part`, the next value
     * as it is stored; and `whole_next` is that of all ranks, of input `gathered`: of the parameter. Or, where `own` is
     * this rank's part of it that stays from step to step, of the parameter's copy. */
    tcc_node *part, *whole_next;
    tcc_step_state own; /* value NULL: each rank has the whole */
    int gathered;
} tcc_trained;

typedef struct tcc_step_builder {
    tcc_pass_cx *cx;
    const tcc_train_spec *spec;
    tcc_graph *g;
    tcc_node *hyper;
    tcc_node *count;      /* Adam, averages: of updates, this one included; NULL: nothing is counted */
    int count_input;      /* whose next value it is */
    tcc_node *ema_weight; /* of the parameter in its new average */
    tcc_node *scale;      /* of the loss; NULL: it is not scaled */
    tcc_node *good;       /* where steps may be skipped: whether this one is not; NULL: none is */
    tcc_node *valid;      /* whether it is none that changes nothing at all, as an overflow does; NULL: none is such */
    int n_buffers;        /* outputs among which those are that buffers take */
    tcc_vec(tcc_trained) trained;
    tcc_vec(tcc_output) old_outputs; /* of the copied graph */
} tcc_step_builder;

/* -- Expressions --
 * At most one operand of a call builds nodes: C leaves open which argument is evaluated first, and nodes are numbered
 * as they are built, so the graph would depend on the compiler. */

static inline tcc_node *step_add(tcc_step_builder *b, tcc_node *x, tcc_node *y) {
    return tcc_ir_binary(b->g, TCC_OP_ADD, x, y);
}
static inline tcc_node *step_sub(tcc_step_builder *b, tcc_node *x, tcc_node *y) {
    return tcc_ir_binary(b->g, TCC_OP_SUB, x, y);
}
static inline tcc_node *step_mul(tcc_step_builder *b, tcc_node *x, tcc_node *y) {
    return tcc_ir_binary(b->g, TCC_OP_MUL, x, y);
}
static inline tcc_node *step_div(tcc_step_builder *b, tcc_node *x, tcc_node *y) {
    return tcc_ir_binary(b->g, TCC_OP_DIV, x, y);
}
static inline tcc_node *step_sqrt(tcc_step_builder *b, tcc_node *x) { return tcc_ir_unary(b->g, TCC_OP_SQRT, x); }
static inline tcc_node *step_one_minus(tcc_step_builder *b, tcc_node *x) {
    return step_sub(b, tcc_ir_splat_like(b->g, x, 1), x);
}
/* A scalar at x's dims. */
static inline tcc_node *step_spread(tcc_step_builder *b, tcc_node *scalar, const tcc_node *x) {
    return tcc_ir_broadcast_like(b->g, scalar, x);
}

/* Element `index` of the hyper-parameter vector, as a scalar of x's type. */
static inline tcc_node *step_hyper(tcc_step_builder *b, int index, const tcc_node *x) {
    int64_t start = index, limit = index + 1, stride = 1;
    tcc_node *one = tcc_ir_slice(b->g, b->hyper, &start, &limit, &stride);
    one = tcc_ir_reshape(b->g, one, 0, NULL);
    return x ? tcc_ir_cast(b->g, one, x->type.dtype) : NULL;
}

/* Element `index` of the rates of parameter t. */
static inline tcc_node *step_rate(tcc_step_builder *b, const tcc_trained *t, int index) {
    return step_hyper(b, TCC_HYPER_RATE(b->spec->n_groups, t->rates, index), t->p);
}

/* The type that the state of a parameter of this type has, and its update is computed in. */
static inline tcc_dtype step_arithmetic(tcc_dtype dtype) { return dtype == TCC_F64 ? TCC_F64 : TCC_F32; }
/* The value, or where the step is skipped what there was before. */
static inline tcc_node *step_unless_skipped(tcc_step_builder *b, tcc_node *value, tcc_node *old) {
    return b->good && value ? tcc_ir_select(b->g, step_spread(b, b->good, value), value, old) : value;
}
/* The next value of input `input`, which may have a shorter type than the arithmetic; unless the step is skipped. */
static inline tcc_status step_output(tcc_step_builder *b, int input, tcc_node *value) {
    if (!value) return tcc_ir_output(b->g, "", NULL, -1); /* gives the error that was reported */
    tcc_node *old = b->g->inputs.data[input];
    value = step_unless_skipped(b, tcc_ir_cast(b->g, value, old->type.dtype), old);
    return tcc_ir_output(b->g, old->attrs->input.name, value, input);
}

/* -- step_optimizer.c -- */

/* The states of all parameters, and the count of updates. */
tcc_status tcc__step_add_states(tcc_step_builder *b);
/* The next values of parameter t and of its states. */
tcc_status tcc__step_update(tcc_step_builder *b, tcc_trained *t);
/* The next value of the whole parameter that tcc__step_gather_parts gave. */
tcc_status tcc__step_update_whole(tcc_step_builder *b, const tcc_trained *t);
/* The states and next values of the averages of buffers. */
tcc_status tcc__step_average_buffers(tcc_step_builder *b);

/* -- step_clip.c -- */

/* Scales all gradients by min(1, clip_norm / (norm + 1e-6)), norm that of all of them together. */
tcc_status tcc__step_clip(tcc_step_builder *b);

/* -- step_shard.c -- */

/* Whether ranks share the optimizer's states out. */
static inline bool step_spec_shards(const tcc_train_spec *spec) { return spec->shard && spec->ranks > 1; }
static inline bool step_shards(const tcc_step_builder *b) { return step_spec_shards(b->spec); }
/* Whether a rank gets the sums of its own parts of gradients alone. Who wants to see gradients wants whole ones. */
static inline bool step_scatters(const tcc_train_spec *spec) {
    return step_spec_shards(spec) && !spec->keep_gradients && !spec->statistics;
}
/* Elements of a block of a parameter of type x. Norms are sums of blocks, so ranks have whole blocks. */
int64_t tcc__step_block(const tcc_type *x);
/* Elements of a rank's part of it. */
int64_t tcc__step_part(const tcc_train_spec *spec, const tcc_type *x);
/* x, with zeros behind, as [rows, columns]. */
tcc_node *tcc__step_rows(tcc_graph *g, tcc_node *x, int64_t rows, int64_t columns);
/* x one behind the other along `axis`. */
tcc_node *tcc__step_concat(tcc_graph *g, tcc_node *const *x, int count, int axis);
/* Parameters, and gradients that are whole, become this rank's parts. */
tcc_status tcc__step_take_parts(tcc_step_builder *b);
/* After all parts have their next values: those of whole parameters. */
tcc_status tcc__step_gather_parts(tcc_step_builder *b);

/* -- low_copies.c -- */

/* The graph with low-precision copies of weights of which nothing else is read. */
tcc_status tcc__low_copies_alone(const tcc_graph *in, tcc_graph **out);

/* -- step_micro.c -- */

/* Adds the gradients of a micro-batch, and its loss, to the sums of the step. */
tcc_status tcc__step_add_sums(tcc_step_builder *b, tcc_node *loss);

#endif
