/* SPDX-License-Identifier: MIT
 * Optimizer states that are shared out among ranks (ZeRO stage 1), and averages of parameters likewise. Each rank has
 * the states of one part of every parameter. It gets the sums of that part's gradients (distribute.c), updates it, and
 * all gather the parts. A part is a stretch of the parameter's elements, as many on each rank; behind the last element
 * are zeros. So the bits of a step do not depend on the parts. Parts are of whole blocks, whose sums the norm of all
 * gradients is made of (step_clip.c).
 *
 * Which part is a rank's own is an input (TCC_MICRO_RANK), as all ranks have one program. New parts travel in buckets,
 * in the order in which their gradients arrive: the last parameters first.
 *
 * In mixed precision, the products of a step read low-precision copies of weights (low_copies.c). Where nothing else
 * reads a weight, no rank needs the whole of it: its own part stays from step to step, and the copy is gathered.
 *
 * Source: Rajbhandari et al. 2020. */
#include "ir/collective.h"
#include "passes/micro_loss.h"
#include "passes/step.h"

#include <string.h>

/* A power of 2 that follows from the parameter alone. A large block makes few sums, and parts that are large against
 * what a rank has of a small parameter. */
int64_t tcc__step_block(const tcc_type *x) {
    enum { MOST = 256, LEAST_BLOCKS = 16 }; /* for each element of a block */
    int64_t block = 1;
    while (block < MOST && LEAST_BLOCKS * 4 * block * block <= tcc_type_numel(x)) block *= 2;
    return block;
}

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t tcc__step_part(const tcc_train_spec *spec, const tcc_type *x) {
    const int64_t block = tcc__step_block(x);
    return divide_up(divide_up(tcc_type_numel(x), block), spec->ranks) * block;
}

tcc_node *tcc__step_rows(tcc_graph *g, tcc_node *x, int64_t rows, int64_t columns) {
    if (!x) return NULL;
    const int64_t count = tcc_type_numel(&x->type), missing = rows * columns - count, none = 0;
    const int64_t dims[] = {rows, columns};
    x = tcc_ir_reshape(g, x, 1, &count);
    if (missing) x = tcc_ir_pad(g, x, 0, &none, &missing, &none);
    return tcc_ir_reshape(g, x, 2, dims);
}

tcc_node *tcc__step_concat(tcc_graph *g, tcc_node *const *x, int count, int axis) {
    const tcc_attrs attrs = {.axis = {.axis = axis}};
    return count == 1 ? x[0] : tcc_ir_build(g, TCC_OP_CONCAT, x, count, &attrs, NULL, x[0]->loc);
}

/* The rank's part of x. */
static tcc_node *own(tcc_step_builder *b, tcc_node *x, tcc_node *rank) {
    if (!x || !rank) return NULL;
    const int64_t part = tcc__step_part(b->spec, &x->type), one = 1;
    const tcc_attrs first_axis = {.axis = {0}};
    tcc_node *operands[] = {tcc__step_rows(b->g, x, b->spec->ranks, part), NULL};
    operands[1] = tcc_ir_reshape(b->g, rank, 1, &one);
    if (!operands[0] || !operands[1]) return NULL;
    return tcc_ir_reshape(b->g, tcc_ir_build(b->g, TCC_OP_TAKE, operands, 2, &first_axis, NULL, x->loc), 1, &part);
}

int64_t tcc_train_own_part(const tcc_train_spec *spec, const tcc_type *parameter) {
    return step_scatters(spec) ? tcc__step_part(spec, parameter) : 0;
}

/* The input that is the parameter's copy, or a rank's own part of it; -1: there is none. */
static int find_input(const tcc_graph *g, bool own, const char *parameter) {
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_attrs_input *input = &g->inputs.data[i]->attrs->input;
        const char *of = own ? tcc_own_of(input->name) : input->copy_of;
        if (of && !strcmp(of, parameter)) return i;
    }
    return -1;
}

/* The part that stays with this rank, of a parameter of which the step reads nothing but a copy. An update comes with
 * it, as it does not see what is read (frontend/compile/micro.c). */
static tcc_status find_own(tcc_step_builder *b, tcc_trained *t) {
    const tcc_node *of = b->g->inputs.data[t->input];
    const int copy = find_input(b->g, false, of->attrs->input.name);
    t->gathered = t->input;
    t->own.input = find_input(b->g, true, of->attrs->input.name);
    if (copy < 0 || !step_scatters(b->spec) || (t->own.input < 0 && b->spec->part == TCC_STEP_UPDATE)) return TCC_OK;
    if (t->own.input < 0) {
        const tcc_type type = {of->type.dtype, 1, {tcc__step_part(b->spec, &of->type)}};
        const char *name = tcc_arena_printf(&b->g->arena, TCC_OWN_PREFIX "%s", of->attrs->input.name);
        t->own.input = b->g->inputs.count;
        if (!name) return tcc_enomem(b->g->diag);
        if (!tcc_ir_input(b->g, name, TCC_ROLE_STATE, &type, of->loc)) return b->g->diag->status;
    }
    t->own.value = b->g->inputs.data[t->own.input];
    t->gathered = copy;
    return TCC_OK;
}

tcc_status tcc__step_take_parts(tcc_step_builder *b) {
    tcc_node *rank = tcc_ir_cast(b->g, tcc_micro_hyper(b->g, TCC_MICRO_RANK), TCC_I32);
    for (int i = 0; i < b->trained.count; i++) {
        tcc_trained *t = &b->trained.data[i];
        tcc_ir_set_backward(b->g, b->g->inputs.data[t->input]->loc);
        TCC_TRY(find_own(b, t));
        t->p = t->own.value ? tcc_ir_cast(b->g, t->own.value, t->p->type.dtype) : own(b, t->p, rank);
        if (!step_scatters(b->spec)) t->g = own(b, t->g, rank);
        if (!t->p || !t->g) return b->g->diag->status;
    }
    return TCC_OK;
}

/* The parameter that has these parts in the columns from `from` on. */
static tcc_node *assemble(tcc_step_builder *b, tcc_node *all, int64_t from, const tcc_type *type) {
    const int64_t ranks = b->spec->ranks, part = tcc__step_part(b->spec, type), count = tcc_type_numel(type),
                  whole = ranks * part;
    const int64_t start[] = {0, from}, limit[] = {ranks, from + part}, stride[] = {1, 1};
    tcc_node *x = tcc_ir_reshape(b->g, tcc_ir_slice(b->g, all, start, limit, stride), 1, &whole);
    if (count < whole) x = tcc_ir_slice(b->g, x, start, &count, stride);
    return tcc_ir_reshape(b->g, x, type->rank, type->dims);
}

/* The type in which a parameter is gathered. */
static tcc_dtype wire_of(const tcc_step_builder *b, const tcc_trained *t) {
    return b->g->inputs.data[t->gathered]->type.dtype;
}

/* Gathers what trained parameters (last, first] have in type `dtype`: `size` elements. */
static tcc_status gather(tcc_step_builder *b, int last, int first, tcc_dtype dtype, int64_t size) {
    tcc_vec(tcc_node *) parts = {0};
    const int64_t rows[] = {b->spec->ranks, size};
    tcc_status status = TCC_OK;
    for (int i = last; i > first && status == TCC_OK; i--) {
        const tcc_trained *t = &b->trained.data[i];
        if (wire_of(b, t) != dtype) continue;
        tcc_ir_set_backward(b->g, b->g->inputs.data[t->input]->loc);
        if (!tcc_vec_push(&parts, tcc_ir_cast(b->g, t->part, dtype))) status = tcc_enomem(b->g->diag);
    }
    tcc_node *own = status == TCC_OK ? parts.data[0] : NULL;
    tcc_ir_set_backward(b->g, own ? own->loc : TCC_NOWHERE);
    if (own) own = tcc__step_concat(b->g, parts.data, parts.count, 0);
    tcc_vec_free(&parts);
    tcc_node *all = tcc_ir_collective(b->g, TCC_OP_ALL_GATHER, own, TCC_REDUCTION_SUM, b->spec->ranks);
    all = tcc_ir_reshape(b->g, all, 2, rows);
    if (!all) return b->g->diag->status;
    int64_t at = 0;
    for (int i = last; i > first; i--) {
        tcc_trained *t = &b->trained.data[i];
        const tcc_node *input = b->g->inputs.data[t->input];
        if (wire_of(b, t) != dtype) continue;
        tcc_ir_set_backward(b->g, input->loc);
        t->whole_next = assemble(b, all, at, &input->type);
        at += tcc_type_numel(&t->part->type);
    }
    return b->g->diag->status;
}

tcc_status tcc__step_gather_parts(tcc_step_builder *b) {
    const double full = tcc_network_bucket_bytes(b->spec->network ? b->spec->network : tcc_network_local,
                                                 b->spec->ranks);
    for (int dtype = 0; dtype < TCC_DTYPE_COUNT; dtype++) {
        int64_t size = 0;
        for (int i = b->trained.count - 1, last = i; i >= 0; i--) {
            const tcc_trained *t = &b->trained.data[i];
            if ((int)wire_of(b, t) == dtype) size += tcc_type_numel(&t->part->type);
            const double bytes = (double)(size * b->spec->ranks * tcc_dtype_bytes((tcc_dtype)dtype));
            if (!size || (i && bytes < full)) continue;
            TCC_TRY(gather(b, last, i - 1, (tcc_dtype)dtype, size));
            last = i - 1;
            size = 0;
        }
    }
    return TCC_OK;
}
