/* SPDX-License-Identifier: MIT
 * chunk: the region of row-wise work around a wide product.
 *
 * Rows are followed from the product forward, by one rule an operation (tcc_chunk_operand_row). A value with at least
 * as many elements as the product is called wide. The region holds every wide value, and the values per row by which
 * one wide value depends on another. It ends where wide values become narrow: in one value per row, which is joined
 * from the chunks, or in a sum over the rows, which is added up over them. So no wide value may be needed outside, and
 * no value inside may depend on one that is known only when all chunks are done. Some wide values do not depend on the
 * product: a one-hot mask, a bias spread over the rows, another model's probabilities. They and the values made of them
 * belong to the region if all their readers do. Others are sliced. */
#include "passes/chunk.h"
#include "ir/support/integers.h"

#include <string.h>

/* -- One operation -- */

/* The row-major position of row a of `units` is the same share of the whole in both, so the dims need only begin at the
 * same place. */
static int through_reshape(const tcc_type *from, const tcc_type *to, int row, int64_t *units) {
    int64_t before = 1, outer = 1;
    for (int i = 0; i < row; i++) before *= from->dims[i];
    for (int d = 0; d < to->rank && outer <= before; outer *= to->dims[d++]) {
        if (outer != before || to->dims[d] == 1) continue;
        *units = tcc_gcd(*units, tcc_gcd(from->dims[row], to->dims[d]));
        return *units > 1 ? d : TCC_CHUNK_NEVER;
    }
    return TCC_CHUNK_NEVER;
}

/* Result dims: batch, free dims of a, free dims of b. */
static int through_dot(const tcc_node *n, int row, int k) {
    const tcc_attrs_dot *dot = &n->attrs->dot;
    if (row < dot->batch_a.count) return (int)(k ? dot->batch_b.v[row] : dot->batch_a.v[row]);
    int at = dot->batch_a.count;
    for (int side = 0; side < 2; side++) {
        const tcc_dims *batch = side ? &dot->batch_b : &dot->batch_a;
        const tcc_dims *contract = side ? &dot->contract_b : &dot->contract_a;
        for (int d = 0; d < n->operands[side]->type.rank; d++)
            if (!tcc_dims_has(batch, d) && !tcc_dims_has(contract, d) && at++ == row)
                return k == side ? d : TCC_CHUNK_ALL;
    }
    return TCC_CHUNK_NEVER;
}

static int through_broadcast(const tcc_node *n, int row) {
    const tcc_dims *dims = &n->attrs->broadcast.dims;
    const int i = tcc_dims_find(dims, row);
    return i >= 0 && n->operands[0]->type.dims[i] == n->type.dims[row] ? i : TCC_CHUNK_ALL;
}

/* The dim of the operand that is dim `row` of what is left without `axes`. */
static int through_reduction(const tcc_dims *axes, int row) {
    int d = 0;
    for (;; d++) {
        if (tcc_dims_has(axes, d)) continue;
        if (row-- == 0) return d;
    }
}

static int through_take(const tcc_node *n, int row, int k) {
    const int axis = (int)n->attrs->axis.axis, rank = n->operands[1]->type.rank;
    if (row >= axis && row < axis + rank) return k ? row - axis : TCC_CHUNK_ALL;
    return k ? TCC_CHUNK_ALL : row < axis ? row : row - rank + 1;
}

static bool takes_all_of(const tcc_node *n, int d) {
    const tcc_attrs_slice *slice = &n->attrs->slice;
    return slice->start.v[d] == 0 && slice->stride.v[d] == 1 && n->type.dims[d] == n->operands[0]->type.dims[d];
}

/* Without operands, and the same in each row along `row`. */
static bool is_alike(const tcc_node *n, int row) {
    return n->op == TCC_OP_CONSTANT ? n->attrs->constant.values.count == 1
                                    : n->op == TCC_OP_IOTA && n->attrs->axis.axis != row;
}

int tcc_chunk_operand_row(const tcc_node *n, int row, int k, int64_t *units) {
    switch (n->op) {
    case TCC_OP_RNG_BITS:
    case TCC_OP_RNG_UNIFORM:
    case TCC_OP_RNG_NORMAL: return TCC_CHUNK_NEVER; /* a draw depends on the position */
    case TCC_OP_RESHAPE: return through_reshape(&n->type, &n->operands[0]->type, row, units);
    case TCC_OP_TRANSPOSE: return (int)n->attrs->perm.perm.v[row];
    case TCC_OP_BROADCAST: return through_broadcast(n, row);
    case TCC_OP_SLICE: return takes_all_of(n, row) ? row : TCC_CHUNK_NEVER;
    case TCC_OP_PAD: return n->type.dims[row] == n->operands[0]->type.dims[row] ? row : TCC_CHUNK_NEVER;
    case TCC_OP_FLIP: return tcc_dims_has(&n->attrs->axes.axes, row) ? TCC_CHUNK_NEVER : row;
    case TCC_OP_CONCAT:
    case TCC_OP_SCATTER_ALONG:
    case TCC_OP_SCATTER_ADD_ALONG: return n->attrs->axis.axis == row ? TCC_CHUNK_NEVER : row;
    case TCC_OP_CUMSUM:
    case TCC_OP_CUMMAX:
    case TCC_OP_LINEAR_SCAN: return n->attrs->scan.axis == row ? TCC_CHUNK_NEVER : row;
    case TCC_OP_TAKE: return through_take(n, row, k);
    case TCC_OP_TAKE_ALONG: return n->attrs->axis.axis == row && !k ? TCC_CHUNK_ALL : row;
    case TCC_OP_ARGMAX: return through_reduction(&(tcc_dims){1, {n->attrs->axis.axis}}, row);
    case TCC_OP_REDUCE_SUM:
    case TCC_OP_REDUCE_MAX:
    case TCC_OP_REDUCE_MIN:
    case TCC_OP_REDUCE_MEAN:
    case TCC_OP_REDUCE_M2: return through_reduction(&n->attrs->axes.axes, row);
    case TCC_OP_DOT: return through_dot(n, row, k);
    default: return tcc_op_get_info(n->op)->fusion == TCC_FUSION_POINT ? row : TCC_CHUNK_NEVER;
    }
}

/* -- The region -- */

static int64_t numel(const tcc_node *n) { return tcc_type_numel(&n->type); }
static bool is_wide(const tcc_chunk_region *r, const tcc_node *n) { return numel(n) >= numel(r->wide); }

static bool fail(tcc_chunk_region *r, const char *reason) {
    r->reason = reason;
    return false;
}

/* Whether `n` works row by row along `row`, reading operands that depend on the product by their own rows. */
static bool goes_along(const tcc_chunk_region *r, const tcc_node *n, int row, int64_t *units) {
    if (n->n_operands == 0) return is_alike(n, row);
    for (int k = 0; k < n->n_operands; k++) {
        const int id = n->operands[k]->id, d = tcc_chunk_operand_row(n, row, k, units);
        if (d == TCC_CHUNK_NEVER || (r->depends[id] && d != r->row[id])) return false;
    }
    return true;
}

/* The dim of `n` in which rows lie, given its operands'; -1: none. */
static int find_row(tcc_chunk_region *r, const tcc_node *n) {
    for (int k = 0; k < n->n_operands; k++) /* late: known when all rows are */
        if (r->depends[n->operands[k]->id] && r->row[n->operands[k]->id] < 0) return -1;
    for (int row = 0; row < n->type.rank; row++) {
        int64_t units = r->units;
        if (!goes_along(r, n, row, &units)) continue;
        r->units = units;
        return row;
    }
    return -1;
}

/* The dim of operand k that dot `n` contracts as contracted dim number i. */
static int contracted(const tcc_node *n, int i, int k) {
    return (int)(k ? n->attrs->dot.contract_b.v[i] : n->attrs->dot.contract_a.v[i]);
}

int tcc_chunk_summed_row(const tcc_chunk_region *r, const tcc_node *n, int k) {
    if (n->op != TCC_OP_DOT) return r->row[n->operands[0]->id];
    for (int i = 0; i < n->attrs->dot.contract_a.count; i++) {
        bool all = true;
        for (int j = 0; j < 2; j++)
            all = all && (!r->depends[n->operands[j]->id] || contracted(n, i, j) == r->row[n->operands[j]->id]);
        if (all) return contracted(n, i, k);
    }
    return TCC_CHUNK_NEVER;
}

/* Whether `n`, which has no rows, is the sum of what chunks give. */
static bool adds_up(const tcc_chunk_region *r, const tcc_node *n) {
    for (int k = 0; k < n->n_operands; k++)
        if (r->depends[n->operands[k]->id] && r->row[n->operands[k]->id] < 0) return false;
    if (n->op == TCC_OP_DOT) return tcc_chunk_summed_row(r, n, 0) >= 0;
    return (n->op == TCC_OP_REDUCE_SUM || n->op == TCC_OP_REDUCE_MAX || n->op == TCC_OP_REDUCE_MIN) &&
           tcc_dims_has(&n->attrs->axes.axes, r->row[n->operands[0]->id]);
}

/* Follows rows forward. Wide values, and what reads wide values, are of the region. */
static bool follow_rows(tcc_chunk_region *r) {
    for (int id = r->wide->id + 1; id < r->g->nodes.count; id++) {
        const tcc_node *n = r->g->nodes.data[id];
        bool reads = false;
        for (int k = 0; k < n->n_operands && r->live[id]; k++) {
            const tcc_node *x = n->operands[k];
            r->depends[id] |= r->depends[x->id];
            reads |= r->depends[x->id] && is_wide(r, x);
        }
        if (!r->depends[id]) continue;
        r->row[id] = find_row(r, n);
        if (r->row[id] >= 0 && n->op == TCC_OP_DOT && numel(n) > numel(r->wide))
            return fail(r, "a wider product depends on it");
        if (r->row[id] >= 0 && (reads || is_wide(r, n))) r->role[id] = TCC_CHUNK_INSIDE;
        else if (reads && adds_up(r, n)) r->role[id] = TCC_CHUNK_SUM;
        else if (reads) return fail(r, "a wide value is needed as a whole, or late");
    }
    return true;
}

/* What the region depends on between the product and its ends is inside too. */
static void fill(tcc_chunk_region *r) {
    for (int id = r->g->nodes.count - 1; id > r->wide->id; id--) {
        const tcc_node *n = r->g->nodes.data[id];
        for (int k = 0; k < n->n_operands && r->role[id]; k++) {
            const int x = n->operands[k]->id;
            if (r->depends[x] && r->role[x] == TCC_CHUNK_OUTSIDE) r->role[x] = TCC_CHUNK_INSIDE;
        }
    }
}

/* The dim by which `user`, of the region, reads its operand k. */
static int read_row(const tcc_chunk_region *r, const tcc_node *user, int k) {
    if (r->role[user->id] == TCC_CHUNK_SUM) return tcc_chunk_summed_row(r, user, k);
    int64_t units = r->units;
    return tcc_chunk_operand_row(user, r->row[user->id], k, &units);
}

/* Wide values that do not depend on the product, and what depends on such, if all that read them are inside and ask for
 * the same rows. Their readers come after them, so one sweep backward settles all. */
static void draw_in(tcc_chunk_region *r) {
    enum { UNREAD = -3 };
    for (int id = 0; id < r->g->nodes.count; id++) {
        const tcc_node *n = r->g->nodes.data[id];
        r->made_of_wide[id] = n->op != TCC_OP_INPUT && is_wide(r, n);
        for (int k = 0; k < n->n_operands; k++) r->made_of_wide[id] |= r->made_of_wide[n->operands[k]->id];
    }
    for (int id = 0; id < r->g->nodes.count; id++)
        if (!r->depends[id]) r->row[id] = r->live[id] ? UNREAD : TCC_CHUNK_NEVER;
    for (int i = 0; i < r->g->outputs.count; i++) {
        const int id = r->g->outputs.data[i].node->id;
        if (!r->depends[id]) r->row[id] = TCC_CHUNK_NEVER;
    }
    for (int id = r->g->nodes.count - 1; id >= 0; id--) {
        const tcc_node *n = r->g->nodes.data[id];
        if (!r->live[id]) continue;
        if (!r->depends[id] && r->row[id] >= 0 && r->made_of_wide[id]) {
            int64_t units = r->units;
            if (goes_along(r, n, r->row[id], &units)) {
                r->role[id] = TCC_CHUNK_INSIDE;
                r->units = units;
            }
        }
        for (int k = 0; k < n->n_operands; k++) {
            const int x = n->operands[k]->id;
            if (r->depends[x]) continue;
            const int d = r->role[id] ? read_row(r, n, k) : TCC_CHUNK_NEVER;
            r->row[x] = r->row[x] == UNREAD || r->row[x] == d ? d : TCC_CHUNK_NEVER;
        }
    }
}

/* What is read outside, and must be narrow. */
static bool find_joined(tcc_chunk_region *r) {
    for (int id = 0; id < r->g->nodes.count; id++) {
        const tcc_node *n = r->g->nodes.data[id];
        for (int k = 0; k < n->n_operands && r->live[id] && !r->role[id]; k++)
            r->joined[n->operands[k]->id] |= r->role[n->operands[k]->id] == TCC_CHUNK_INSIDE;
    }
    for (int i = 0; i < r->g->outputs.count; i++) {
        const int id = r->g->outputs.data[i].node->id;
        r->joined[id] |= r->role[id] == TCC_CHUNK_INSIDE;
    }
    for (int id = 0; id < r->g->nodes.count; id++)
        if (r->joined[id] && is_wide(r, r->g->nodes.data[id])) return fail(r, "a wide value is needed as a whole");
    return true;
}

bool tcc_chunk_find(tcc_chunk_region *r, const tcc_node *wide, int row) {
    const size_t count = (size_t)r->g->nodes.count;
    r->wide = wide;
    r->units = wide->type.dims[row];
    memset(r->depends, 0, sizeof *r->depends * count);
    memset(r->joined, 0, sizeof *r->joined * count);
    memset(r->role, 0, sizeof *r->role * count);
    for (size_t id = 0; id < count; id++) r->row[id] = -1;
    if (r->units < 2) return fail(r, "one row");
    r->depends[wide->id] = true;
    r->row[wide->id] = row;
    r->role[wide->id] = TCC_CHUNK_INSIDE;
    if (!follow_rows(r)) return false;
    fill(r);
    draw_in(r);
    return find_joined(r);
}
