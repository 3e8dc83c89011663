/* SPDX-License-Identifier: MIT
 * distribute: the update of a step whose batch lies on several ranks. Micro-batches have left sums of gradients, of
 * losses and of weights in states of each rank (step_micro.c). Where the update reads such a state, it now reads the
 * sum of all ranks, taken in their order; and as the next value of a buffer, that of rank 0. So the update is that of
 * the whole batch, and the same on all ranks: the norm for clipping and the flag of what is not finite follow from
 * equal values, and need no exchange of their own.
 *
 * Each exchange waits for the network once at least. So states travel together in buckets, one behind the other in one
 * value; a bucket is closed when that wait is a small part of its time (ir/support/network.h).
 *
 * It runs behind train-step, which reads some of these states, too. */
#include "ir/build.h"
#include "ir/collective.h"
#include "ir/support/alloc.h"
#include "ir/support/network.h"
#include "passes/pass.h"

#include <string.h>

typedef struct bucket {
    tcc_rank_reduction how;
    tcc_dtype dtype;
    int64_t size_bytes;
    tcc_vec(tcc_node *) states; /* of the graph that came in */
    tcc_vec(tcc_node *) parts;  /* they, flat, in the new one */
} bucket;

/* How a state becomes that of all ranks; TCC_REDUCTIONS: it is the same on all of them. */
static tcc_rank_reduction reduction_of(const tcc_node *state) {
    const char *name = state->attrs->input.name;
    if (state->attrs->input.role != TCC_ROLE_STATE) return TCC_REDUCTIONS;
    if (tcc_begins(name, TCC_NEXT_PREFIX)) return TCC_REDUCTION_FIRST;
    const bool sum = tcc_begins(name, TCC_SUM_PREFIX) || !strcmp(name, TCC_LOSS_SUM_STATE) ||
                     !strcmp(name, TCC_WEIGHT_SUM_STATE);
    return sum ? TCC_REDUCTION_SUM : TCC_REDUCTIONS;
}

/* The type in which it travels. Losses and weights are few, and need all of their digits. */
static tcc_dtype wire_type(const tcc_train_spec *spec, const tcc_node *state) {
    const bool low = spec->reduce_in_bf16 && tcc_begins(state->attrs->input.name, TCC_SUM_PREFIX);
    return low && state->type.dtype == TCC_F32 ? TCC_BF16 : state->type.dtype;
}

static tcc_status fill(tcc_rewrite *rw, bucket *b, tcc_node *state) {
    const int64_t count = tcc_type_numel(&state->type);
    tcc_ir_set_origin(rw->to, state);
    tcc_node *flat = tcc_ir_cast(rw->to, tcc_ir_reshape(rw->to, rw->map[state->id], 1, &count), b->dtype);
    if (!flat) return rw->to->diag->status;
    b->size_bytes += count * tcc_dtype_bytes(b->dtype);
    return tcc_vec_push(&b->states, state) && tcc_vec_push(&b->parts, flat) ? TCC_OK : tcc_enomem(rw->to->diag);
}

/* What is read of a state, from element *at of the bucket on. */
static tcc_node *take(tcc_rewrite *rw, const bucket *b, tcc_node *all, const tcc_node *state, int64_t *at) {
    const int64_t start = *at, limit = start + tcc_type_numel(&state->type), stride = 1;
    *at = limit;
    tcc_ir_set_origin(rw->to, state);
    tcc_node *part = b->parts.count > 1 ? tcc_ir_slice(rw->to, all, &start, &limit, &stride) : all;
    part = tcc_ir_reshape(rw->to, part, state->type.rank, state->type.dims);
    return part ? tcc_ir_cast(rw->to, part, state->type.dtype) : NULL;
}

static tcc_status send(tcc_rewrite *rw, bucket *b, int ranks) {
    if (!b->parts.count) return TCC_OK;
    const tcc_attrs first_axis = {.axis = {0}};
    tcc_node *whole = b->parts.data[0];
    if (b->parts.count > 1)
        whole = tcc_ir_build(rw->to, TCC_OP_CONCAT, b->parts.data, b->parts.count, &first_axis, NULL, whole->loc);
    tcc_node *all = tcc_ir_collective(rw->to, TCC_OP_ALL_REDUCE, whole, b->how, ranks);
    int64_t at = 0;
    for (int i = 0; i < b->states.count && all; i++) {
        const tcc_node *state = b->states.data[i];
        rw->map[state->id] = take(rw, b, all, state, &at);
    }
    b->states.count = b->parts.count = 0;
    b->size_bytes = 0;
    return rw->to->diag->status;
}

/* The states of one kind, in the order of inputs: the sums of losses and weights come first. */
static tcc_status send_all(tcc_rewrite *rw, bucket *b, const tcc_train_spec *spec) {
    const double full = tcc_network_bucket_bytes(spec->network ? spec->network : tcc_network_local, spec->ranks);
    for (int i = 0; i < rw->from->inputs.count; i++) {
        tcc_node *state = rw->from->inputs.data[i];
        if (!rw->live[state->id] || reduction_of(state) != b->how || wire_type(spec, state) != b->dtype) continue;
        TCC_TRY(fill(rw, b, state));
        if ((double)b->size_bytes >= full) TCC_TRY(send(rw, b, spec->ranks));
    }
    return send(rw, b, spec->ranks);
}

tcc_status tcc_pass_distribute(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    tcc_rewrite rw;
    bucket b = {0};
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    tcc_status status = TCC_OK;
    for (int how = 0; how < TCC_REDUCTIONS; how++)
        for (int dtype = 0; dtype < TCC_DTYPE_COUNT && status == TCC_OK; dtype++) {
            b.how = (tcc_rank_reduction)how;
            b.dtype = (tcc_dtype)dtype;
            status = send_all(&rw, &b, &cx->options->spec);
        }
    tcc_vec_free(&b.states);
    tcc_vec_free(&b.parts);
    if (status != TCC_OK) {
        tcc_rewrite_abort(&rw);
        return status;
    }
    tcc_rewrite_copy_live(&rw);
    return tcc_rewrite_end(&rw, out);
}
