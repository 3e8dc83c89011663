/* SPDX-License-Identifier: MIT
 * Clipping of gradients by the L2 norm of all of them, as PyTorch's clip_grad_norm_.
 *
 * Where a step is taken in micro-batches or on ranks, its bits may not depend on who has which part of a gradient. So
 * squares are added up in blocks of a gradient's elements, and then the sums of all blocks, in the order of parameters.
 * Ranks that have their parts alone, which are of whole blocks, gather the sums of these.
 *
 * Source: Pascanu et al. 2013. */
#include "ir/collective.h"
#include "passes/step.h"

typedef tcc_vec(tcc_node *) values;

static tcc_status add(tcc_step_builder *b, values *list, tcc_node *x) {
    if (!x) return b->g->diag->status;
    return tcc_vec_push(list, x) ? TCC_OK : tcc_enomem(b->g->diag);
}

static tcc_node *add_up(tcc_step_builder *b, tcc_node *x) {
    const tcc_dims all = tcc_ir_axes_from(0, x ? x->type.rank : 0);
    return x ? tcc_ir_reduce(b->g, TCC_OP_REDUCE_SUM, x, &all) : NULL;
}

/* Gradient by gradient. */
static tcc_node *sum_of_squares(tcc_step_builder *b) {
    tcc_node *sum = NULL;
    for (int i = 0; i < b->trained.count; i++) {
        tcc_node *g = b->trained.data[i].g;
        if (!g) return NULL;
        tcc_node *square = tcc_ir_cast(b->g, add_up(b, step_mul(b, g, g)), TCC_F32);
        sum = sum ? step_add(b, sum, square) : square;
    }
    return sum;
}

static const tcc_type *type_of(const tcc_step_builder *b, int i) {
    return &b->g->inputs.data[b->trained.data[i].input]->type;
}

static int64_t blocks_of(const tcc_step_builder *b, int i, int64_t elements) {
    const int64_t block = tcc__step_block(type_of(b, i));
    return (elements + block - 1) / block;
}

/* The sums of the blocks of gradient i, or of this rank's part of it: f32[]. */
static tcc_node *sums_of_blocks(tcc_step_builder *b, int i) {
    static const tcc_dims columns = {1, {1}};
    tcc_node *g = b->trained.data[i].g;
    if (!g) return NULL;
    const int64_t rows = blocks_of(b, i, tcc_type_numel(&g->type));
    g = tcc__step_rows(b->g, g, rows, tcc__step_block(type_of(b, i)));
    g = step_mul(b, g, g);
    return g ? tcc_ir_cast(b->g, tcc_ir_reduce(b->g, TCC_OP_REDUCE_SUM, g, &columns), TCC_F32) : NULL;
}

/* Of parts one behind the other, those of all ranks: one gradient behind the other. */
static tcc_status gather_sums(tcc_step_builder *b, tcc_node *own, values *out) {
    const int64_t ranks = b->spec->ranks, size = own ? own->type.dims[0] : 0, rows[] = {ranks, size};
    tcc_node *all = tcc_ir_collective(b->g, TCC_OP_ALL_GATHER, own, TCC_REDUCTIONS, ranks);
    all = tcc_ir_reshape(b->g, all, 2, rows);
    out->count = 0;
    for (int i = 0, at = 0; i < b->trained.count; i++) {
        const int64_t each = blocks_of(b, i, tcc__step_part(b->spec, type_of(b, i))), whole = ranks * each;
        const int64_t count = blocks_of(b, i, tcc_type_numel(type_of(b, i)));
        const int64_t start[] = {0, at}, limit[] = {ranks, at + each}, stride[] = {1, 1};
        tcc_node *x = all ? tcc_ir_reshape(b->g, tcc_ir_slice(b->g, all, start, limit, stride), 1, &whole) : NULL;
        if (x && count < whole) x = tcc_ir_slice(b->g, x, start, &count, stride);
        TCC_TRY(add(b, out, x));
        at += (int)each;
    }
    return TCC_OK;
}

static tcc_status sum_of_blocks(tcc_step_builder *b, values *list, tcc_node **sum) {
    for (int i = 0; i < b->trained.count; i++) TCC_TRY(add(b, list, sums_of_blocks(b, i)));
    if (step_scatters(b->spec)) TCC_TRY(gather_sums(b, tcc__step_concat(b->g, list->data, list->count, 0), list));
    *sum = add_up(b, tcc__step_concat(b->g, list->data, list->count, 0));
    return *sum ? TCC_OK : b->g->diag->status;
}

/* A norm that is not finite makes NaN or zero of gradients, as in PyTorch: it is seen in "grad_norm". */
tcc_status tcc__step_clip(tcc_step_builder *b) {
    tcc_node *sum = NULL;
    if (b->spec->part != TCC_STEP_WHOLE) {
        values list = {0};
        const tcc_status status = sum_of_blocks(b, &list, &sum);
        tcc_vec_free(&list);
        TCC_TRY(status);
    } else if (!(sum = sum_of_squares(b))) return b->g->diag->status;
    tcc_node *norm = step_sqrt(b, sum);
    tcc_node *divisor = tcc_ir_binary_c(b->g, TCC_OP_ADD, norm, 1e-6);
    tcc_node *ratio = step_div(b, step_hyper(b, TCC_HYPER_CLIP_NORM, norm), divisor);
    tcc_node *factor = tcc_ir_binary_c(b->g, TCC_OP_MIN, ratio, 1);
    for (int i = 0; i < b->trained.count; i++) {
        tcc_trained *t = &b->trained.data[i];
        if (t->g) t->g = step_mul(b, t->g, step_spread(b, tcc_ir_cast(b->g, factor, t->g->type.dtype), t->g));
    }
    return tcc_ir_output(b->g, "grad_norm", norm, -1);
}
