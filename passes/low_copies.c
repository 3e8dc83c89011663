/* SPDX-License-Identifier: MIT
 * low-copies: where a step reads a weight in a shorter type than its own, the cast weight stays in memory from step to
 * step. It is a derived state, which the update of the weight also writes. So no step casts its weights again, and the
 * cast is part of the optimizer's kernel.
 *
 * Copies are made of weights that a contraction, attention or a gather reads, directly or through views. Other ops
 * compute the cast as they read. */
#include "ir/build.h"
#include "ir/support/alloc.h"
#include "passes/step.h"

#include <string.h>

/* Reads its operands as they lie in memory. */
static bool reads_memory(const tcc_node *n) {
    const tcc_fusion_class class = tcc_op_get_info(n->op)->fusion;
    return class == TCC_FUSION_CONTRACT || class == TCC_FUSION_ATTENTION || class == TCC_FUSION_INDEX;
}

/* A trained input in a shorter type. */
static bool is_low_weight(const tcc_node *n) {
    if (n->op != TCC_OP_CAST || !tcc_dtype_is_narrow(n->type.dtype)) return false;
    const tcc_node *weight = n->operands[0];
    return weight->op == TCC_OP_INPUT && weight->attrs->input.role == TCC_ROLE_PARAM && weight->type.dtype == TCC_F32;
}

/* By node: what reads it, through views too, reads memory. */
static bool *mark_read(const tcc_graph *g, const bool *live) {
    bool *read = tcc__calloc((size_t)g->nodes.count + 1, sizeof *read);
    if (!read) return NULL;
    for (int id = g->nodes.count - 1; id >= 0; id--) {
        const tcc_node *n = g->nodes.data[id];
        const bool passes_on = read[id] && tcc_op_get_info(n->op)->fusion == TCC_FUSION_VIEW;
        for (int i = 0; i < n->n_operands && live[id]; i++) read[n->operands[i]->id] |= passes_on || reads_memory(n);
    }
    return read;
}

/* The number of the output that is the next value of input number `input`; -1: it stays. */
static int next_value(const tcc_graph *g, int input) {
    for (int i = 0; i < g->outputs.count; i++)
        if (g->outputs.data[i].alias == input) return i;
    return -1;
}

/* The copies' next values are outputs after all others. A step that only updates has the copies of another program as
 * inputs. */
static tcc_status add_updates(tcc_graph *g) {
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *copy = g->inputs.data[i];
        int weight = 0;
        if (!tcc_input_is_copy(copy) || next_value(g, i) >= 0) continue;
        while (strcmp(g->inputs.data[weight]->attrs->input.name, copy->attrs->input.copy_of)) weight++;
        const int output = next_value(g, weight);
        if (output < 0) continue;
        tcc_node *value = g->outputs.data[output].node;
        tcc_ir_set_backward(g, copy->loc);
        TCC_TRY(tcc_ir_output(g, copy->attrs->input.name, tcc_ir_cast(g, value, copy->type.dtype), i));
    }
    return TCC_OK;
}

/* By node: a weight that something else reads than casts in `copied`. */
static void mark_whole(const tcc_graph *g, const bool *live, const bool *copied, bool *whole) {
    for (int id = 0; id < g->nodes.count; id++) {
        const tcc_node *n = g->nodes.data[id];
        for (int i = 0; i < n->n_operands && live[id] && !copied[id]; i++) whole[n->operands[i]->id] = true;
    }
    for (int i = 0; i < g->outputs.count; i++) whole[g->outputs.data[i].node->id] = true;
}

static tcc_node *copy_for(tcc_rewrite *rw, const tcc_node *cast) {
    const tcc_node *weight = rw->map[cast->operands[0]->id];
    const char *name = tcc_arena_printf(&rw->to->arena, "%s.%s", weight->attrs->input.name,
                                        tcc_dtype_text(cast->type.dtype));
    if (name) return tcc_ir_state_copy(rw->to, name, cast->type.dtype, weight, cast->loc);
    tcc_enomem(rw->from->diag);
    return NULL;
}

/* `alone`: of weights alone of which nothing else is read. */
static tcc_status copy_weights(const tcc_graph *in, bool alone, tcc_graph **out) {
    tcc_rewrite rw;
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    bool *copied = mark_read(in, rw.live), *whole = tcc__calloc((size_t)in->nodes.count + 1, sizeof *whole);
    if (!copied || !whole) {
        tcc__free(copied);
        tcc__free(whole);
        tcc_rewrite_abort(&rw);
        return tcc_enomem(in->diag);
    }
    for (int id = 0; id < in->nodes.count; id++) copied[id] &= is_low_weight(in->nodes.data[id]);
    if (alone) mark_whole(in, rw.live, copied, whole);
    for (int id = 0; id < in->nodes.count; id++) {
        const tcc_node *n = in->nodes.data[id];
        if (!rw.live[id]) continue;
        if (copied[id] && !whole[n->operands[0]->id]) rw.map[id] = copy_for(&rw, n);
        else tcc_rewrite_copy(&rw, n);
    }
    tcc__free(copied);
    tcc__free(whole);
    return tcc_rewrite_end(&rw, out);
}

tcc_status tcc__low_copies_alone(const tcc_graph *in, tcc_graph **out) { return copy_weights(in, true, out); }

tcc_status tcc_pass_low_copies(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    (void)cx;
    TCC_TRY(copy_weights(in, false, out));
    const tcc_status status = add_updates(*out);
    if (status != TCC_OK) {
        tcc_graph_destroy(*out);
        *out = NULL;
    }
    return status;
}
