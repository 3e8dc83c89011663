/* SPDX-License-Identifier: MIT
 * What a fused group may hold: the contract between fuse, which makes groups, and codegen, which turns each into one
 * kernel.
 *
 * In every kind, a value is evaluated at an index. POINT nodes pass the index on to their operands. VIEW nodes map it:
 * reshape re-splits the row-major position, transpose permutes, broadcast drops, slice scales and shifts, flip mirrors,
 * pad and concat choose by comparison. INDEX nodes evaluate their index operand and load the element that it names; the
 * table must come from outside the group. Inputs of the group (values that other groups store, and graph inputs) are
 * loaded at the index that reaches them. Constants and iota need no memory. So the leaves of a group are loads at
 * indices of the iteration space, most of them affine.
 *
 * The hero of a group is the node that gives it its kind.
 *
 * POINTWISE  No reduction inside. All outputs have the hero's number of elements, and the same row-major order as the
 *            hero up to reshape, or are reached from it by a transpose (which the kernel then tiles). Or they are
 *            woven: some outputs are so, and each other one is a concat of equal parts of that size, which nothing in
 *            the group reads. A point stores its element of each part.
 * REDUCE     The hero is a reduction; its operand's dims are the iteration space, split into kept and reduced dims.
 *            Every other reduction in the group has the same operand dims and axes. A node is `full` (one value an
 *            iteration point) or `kept` (one value a kept point: a reduction, or POINT/reshape work on such values). A
 *            kept value enters full work only through a broadcast that puts the kept dims back in their places (with
 *            reshapes that add or drop dims of 1 around it). Reductions may depend on each other this way (softmax,
 *            norms): the kernel makes one sweep over the reduced dims for each level of dependence, over cached values.
 *            Outputs are full or kept. Dependent reductions and full outputs want rows - the reduced dims are the last
 *            ones - or, where the target says so (longest_column, passes/select.h), short columns: the last dim is
 *            kept. If the reduced dims are the last ones, each kept point has a row. Then column sums may be inside as
 *            well: sums of full values over all kept dims (gradients of weights and biases), and POINT work and
 *            reshapes on them alone. Such a value is `across`: one value a reduced point, known when all rows are done.
 *            Outputs may be across. Where the target says so (longest_parts, passes/select.h), sums of parts of short
 *            rows may be inside as well, of equal parts: of full values over the last reduced dims, as the sums of each
 *            channel of a group. Nothing in the group reads such a sum, so it is an output.
 * SCAN       The hero is cumsum, cummax or linear_scan; full work before and after it on the same dims. Where the
 *            target has a line at once, in the last dim, there may be several such, either way along the same lines.
 *            Full values may then be read one step further along the line (a pad of a slice), and one element of each
 *            line is a `kept` value, on which there may be POINT work and reshapes. Outputs are full or kept.
 * SCATTER    The hero is scatter_add(_along) or scatter_max; work on its updates and base operands may be inside;
 *            nothing after it.
 * SORT       The hero is argsort of whole lines; full work before it, and behind it POINT work on its result and
 *            take_along by it of what is in memory, which reads elements in order, and scatter_add_along by it onto
 *            zeros, which nothing reads. Or all that reads the result is a slice of the first places of each line, and
 *            what is behind it has that slice's dims: then the others are not stored. Such groups exist only where the
 *            target sorts.
 * CONTRACT   The hero is dot or a convolution. The epilogue is POINT work on its result, at the index of the result:
 *            bias, activation, residual; it may have several outputs. In front of a dot there may be views of its
 *            operands that permute, re-split or slice dims, so that it reads in place. If the target's kernels compute
 *            operands while they read them, there may be a prologue too: POINT work and broadcasts (casts, masks,
 *            gradients of activations), which is recomputed for each tile of the other operand. If a library's call of
 *            the target computes it, a dot that is stored as it is may have the sum of an operand over the contracted
 *            dims beside it (a bias's gradient), which nothing in the group reads.
 * WINDOW     The hero is a pooling or resizing op; POINT work behind it, in front of it a cast that widens its operand.
 *            max_pool and max_pool_place of equal windows may both be inside.
 * ATTENTION  The heroes are sdpa and sdpa_lse of equal operands, or the sdpa_grad_* of equal operands: one kernel
 *            stores all. Views may be inside, so that heads are read and written in place: in front those that permute,
 *            re-split or slice dims, behind those that permute or re-split. The only output may also be one concat of
 *            all results, each by such views that keep its last dim.
 * NORM       batch_norm, its mean and scale, of equal x and attributes; or its gradients, of equal operands. Nothing
 *            else is inside. Such groups exist only where the target has said that its library computes the norm whole.
 * COLLECTIVE One collective (ir/collective.h) by itself. It is a reader of the collective before it, without reading
 *            memory.
 *
 * In REDUCE, CONTRACT and WINDOW an output may also be a reshape of a full value: it has that value's row-major memory,
 * and nothing in the group reads it. Where the target's kernels store so (stores_across, passes/select.h), an output of
 * REDUCE may be a transpose of a full value of the space's dims, if an input is read from that order: each point stores
 * its value at the place that it has there. What an output may be written over, in_step.h says. */
#ifndef TCC_PASSES_GROUP_H
#define TCC_PASSES_GROUP_H

#include "ir/ir.h"

enum { TCC_GROUP_MAX_REDUCTIONS = 16 }; /* of a group over rows or columns: what a sweep holds in registers */

enum { TCC_GROUP_MAX_WOVEN = 8 }; /* stores of a point, of woven outputs */

/* Of a contraction's group. */
enum {
    TCC_GROUP_MAX_ACCESSES = 12, /* tensors that the epilogue reads or writes */
    TCC_GROUP_MAX_READS = 4,     /* tensors that an operand is computed from, beside scalars */
};

/* The group that stores each node: array by node id, -1 for none (leaves and values that are only recomputed). Caller
 * frees with tcc__free; NULL when memory is short. */
int *tcc_group_producers(const tcc_graph *g);
/* Nodes that the group loads: operands of its nodes that are not in it and not constants. Writes distinct nodes in a
 * fixed order to `out` (room for all operands of its nodes) and returns their number. */
int tcc_group_inputs(const tcc_group *group, tcc_node **out);
bool tcc_group_has(const tcc_group *group, const tcc_node *n);
/* Index of `n` in the group's nodes, which are in the order of their ids; -1: it is not in the group. */
int tcc_group_position(const tcc_group *group, const tcc_node *n);
bool tcc_group_stores(const tcc_group *group, const tcc_node *n);
/* Whether groups of that kind add up values by a schedule that chooses the order. */
bool tcc_group_sums(tcc_group_kind kind);
/* The hero of what the group's nodes have become; by position, NULL: that node is gone. It is what the hero has become,
 * or another node of its kind: of attention's result and the sums beside it, of two sums over rows. Else it is the sum
 * that was beside a dot, which alone makes a group of another kind. NULL: nothing is left that adds values up. */
tcc_node *tcc_group_hero_among(const tcc_group *group, tcc_node *const *become);
/* batch_norm, its statistics, its gradients: what a library computes whole. */
bool tcc_is_batch_norm(tcc_op op);
/* Of that family, one call computes both. */
bool tcc_same_batch_norm(const tcc_node *a, const tcc_node *b);
/* argsort of whole lines of elements of up to 4 bytes, which a target may sort. */
bool tcc_is_whole_order(const tcc_node *n);
/* The first places of such lines: a slice of one. */
bool tcc_is_first_in_order(const tcc_node *n);
/* SORT: that slice of the hero; NULL: all places are wanted. */
const tcc_node *tcc_group_first_in_order(const tcc_group *group);
/* A constant whose elements are all 0, none -0. */
bool tcc_is_zeros(const tcc_node *n);
/* What puts elements of whole lines where such an order says: each at a place of its own, so nothing is added up. */
bool tcc_is_put_in_order(const tcc_node *n);
/* Maxima and their places, of equal windows of one value: their kernel reads it once. */
bool tcc_same_maxima(const tcc_node *a, const tcc_node *b);
/* The axes that a reduction sums over. */
tcc_dims tcc_reduction_axes(const tcc_node *n);
/* Shorter parts of rows would leave threads of a block idle, and fewer rows, a block each, processors: for longer than
 * it takes to read the rows once more. */
enum { TCC_PARTS_SHORTEST = 32, TCC_PARTS_LEAST_ROWS = 32 };
/* Whether `n` adds up parts of the rows that the reduction `row` folds: their last dims, of the same space. */
bool tcc_sums_parts(const tcc_node *row, const tcc_node *n);
/* REDUCE: marks the nodes that are across, by position in group->nodes. */
void tcc_group_mark_across(const tcc_group *group, bool *across);
/* The operand of `dot` (0 or 1) that `sum` adds up over the contracted dims, with one value for each index of its free
 * dims; -1: it is no such sum. */
int tcc_group_summed_operand(const tcc_node *dot, const tcc_node *sum);

/* Whether the outputs of a POINTWISE group are woven, and of how many elements a part is: *part. */
bool tcc_group_weaves(tcc_node *const *outputs, int count, int64_t *part);

/* A copy of the graph with every node, output, group and place, groups in the order given: order[i] is the old index of
 * the new group i; NULL keeps it. For passes that change only what groups and places say. */
tcc_status tcc_group_copy_graph(const tcc_graph *in, const int *order, tcc_graph **out);

#endif
