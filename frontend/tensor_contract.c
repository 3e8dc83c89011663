/* SPDX-License-Identifier: MIT
 * Operations on tensors: matrix products and attention. */
#include "tensor_ops.h"

#include <math.h>

/* Broadcasts the leading dims of a and b (all but the last two) together; the ranks become equal. */
static bool broadcast_batch(tcc_graph *g, tcc_tensor *a, tcc_tensor *b, tcc_loc at) {
    tcc_tensor *both[2] = {a, b};
    int rank = tcc_rank(*a) > tcc_rank(*b) ? tcc_rank(*a) : tcc_rank(*b);
    int64_t batch[TCC_MAX_RANK];
    for (int d = 0; d < rank - 2; d++) {
        batch[d] = 1;
        for (int i = 0; i < 2; i++) {
            int own = d - (rank - tcc_rank(*both[i]));
            int64_t extent = own < 0 ? 1 : both[i]->node->type.dims[own];
            if (extent == 1) continue;
            if (batch[d] != 1 && batch[d] != extent) {
                tcc_trace_error(a->trace, TCC_ESHAPE, at, "matmul: batch dims do not broadcast: %s x %s",
                                tcc_type_text(&a->node->type), tcc_type_text(&b->node->type));
                return false;
            }
            batch[d] = extent;
        }
    }
    for (int i = 0; i < 2; i++) {
        const tcc_type *type = &both[i]->node->type;
        int64_t want[TCC_MAX_RANK];
        int dims[TCC_MAX_RANK], shift = rank - type->rank;
        memcpy(want, batch, sizeof batch);
        for (int d = rank - 2; d < rank; d++) want[d] = type->dims[d - shift];
        for (int d = 0; d < type->rank; d++) dims[d] = d + shift;
        if (type->rank == rank && !memcmp(want, type->dims, sizeof want[0] * (size_t)rank)) continue;
        both[i]->node = tcc_ir_broadcast(g, both[i]->node, rank, want, dims);
        if (!both[i]->node) return false;
    }
    return true;
}

tcc_tensor tcc_matmul_at(tcc_tensor a, tcc_tensor b, tcc_loc at) {
    if (!tcc_trace_takes("matmul", at, 2, (tcc_tensor[]){a, b})) return tcc_trace_poison();
    tcc_graph *g = tcc__tensor_begin(a.trace, at);
    if (tcc_rank(a) < 2 || tcc_rank(b) < 2)
        return tcc_trace_error(a.trace, TCC_ESHAPE, at, "matmul: operands must have at least 2 dims: %s x %s",
                               tcc_type_text(&a.node->type), tcc_type_text(&b.node->type));
    if (tcc_dim(a, -1) != tcc_dim(b, -2)) {
        tcc_tensor poison = tcc_trace_error(a.trace, TCC_ESHAPE, at,
                                            "matmul: inner dimensions differ: %s x %s (%lld vs %lld)",
                                            tcc_type_text(&a.node->type), tcc_type_text(&b.node->type),
                                            (long long)tcc_dim(a, -1), (long long)tcc_dim(b, -2));
        tcc_note(g->diag, a.node->loc, "first operand made here");
        tcc_note(g->diag, b.node->loc, "second operand made here");
        return poison;
    }
    tcc_attrs_dot attrs = {.contract_a = {1, {tcc_rank(a) - 1}}, .contract_b = {1, {tcc_rank(b) - 2}}};
    if (tcc_rank(b) > 2) { /* a plain matrix b needs no batch: a's rows just grow */
        if (!broadcast_batch(g, &a, &b, at)) return tcc_trace_poison();
        int rank = tcc_rank(a);
        attrs = (tcc_attrs_dot){.contract_a = {1, {rank - 1}}, .contract_b = {1, {rank - 2}}};
        for (int d = 0; d < rank - 2; d++) {
            attrs.batch_a.v[attrs.batch_a.count++] = d;
            attrs.batch_b.v[attrs.batch_b.count++] = d;
        }
    }
    return tcc_trace_wrap(a.trace, tcc_ir_dot(g, a.node, b.node, &attrs));
}

/* The type of the scores [.., T, S] of q and k, to which the mask must broadcast. false after an error. */
static bool check_mask(tcc_tensor mask, tcc_tensor q, tcc_tensor k, tcc_loc at, tcc_type *scores) {
    const tcc_type *is = &mask.node->type;
    *scores = q.node->type;
    scores->dims[scores->rank - 1] = tcc_dim(k, -2);
    const int shift = scores->rank - is->rank;
    bool fits = shift >= 0 && (is->dtype == TCC_BOOL || is->dtype == scores->dtype);
    for (int d = 0; fits && d < is->rank; d++) fits = is->dims[d] == 1 || is->dims[d] == scores->dims[d + shift];
    if (!fits)
        tcc_trace_error(
            q.trace, TCC_ESHAPE, at,
            "attention: the mask, %s, does not broadcast to the scores, %s, or is not of bool or their type",
            tcc_type_text(is), tcc_type_text(scores));
    return fits;
}

/* What is added to the scores; NULL after an error. It is converted before it is broadcast, while it is small. */
static tcc_node *attention_mask(tcc_tensor mask, tcc_tensor q, tcc_tensor k, tcc_loc at) {
    tcc_type scores;
    if (tcc_rank(q) < 2 || tcc_rank(k) != tcc_rank(q)) return mask.node; /* the op says what is wrong */
    if (!check_mask(mask, q, k, at, &scores)) return NULL;
    if (mask.node->type.dtype == TCC_BOOL) {
        const int64_t one = 1;
        tcc_tensor seen = tcc_constant_at(q.trace, 0, scores.dtype, 1, &one, at),
                   hidden = tcc_constant_at(q.trace, -INFINITY, scores.dtype, 1, &one, at);
        mask = tcc_select_at(mask, seen, hidden, at);
    }
    if (!mask.node || tcc_type_equal(&mask.node->type, &scores)) return mask.node;
    return tcc_broadcast_at(mask, scores.rank, scores.dims, at).node;
}

/* Queries in a group that shares a head of k and v, which is dim -3; 1 where each head has its own. */
static int64_t group_of(tcc_tensor q, tcc_tensor k, tcc_tensor v) {
    const int64_t heads = tcc_dim(q, -3), shared = tcc_dim(k, -3);
    const bool divides = tcc_rank(q) >= 4 && tcc_rank(k) == tcc_rank(q) && tcc_rank(v) == tcc_rank(q) &&
                         tcc_dim(v, -3) == shared && heads % shared == 0;
    return divides ? heads / shared : 1;
}

/* x [.., H, rows, columns] with its heads in groups: [.., H / group, group, rows, columns]. Dims that a mask lacks, or
 * of 1, stay so. */
static tcc_tensor grouped(tcc_tensor x, int64_t group, tcc_loc at) {
    int64_t dims[TCC_MAX_RANK];
    const int rank = tcc_rank(x), head = rank - 3;
    if (head < 0) return x;
    for (int d = 0; d < rank; d++) dims[d < head ? d : d + 1] = tcc_dim(x, d);
    dims[head] = tcc_dim(x, head) == 1 ? 1 : tcc_dim(x, head) / group;
    dims[head + 1] = tcc_dim(x, head) == 1 ? 1 : group;
    return tcc_reshape_at(x, rank + 1, dims, at);
}

/* k or v [.., H, S, D] for all queries of a group: [.., H, 1, S, D]. */
static tcc_tensor shared(tcc_tensor x, tcc_loc at) {
    int64_t dims[TCC_MAX_RANK];
    const int rank = tcc_rank(x), head = rank - 3;
    for (int d = 0; d < rank; d++) dims[d <= head ? d : d + 1] = tcc_dim(x, d);
    dims[head + 1] = 1;
    return tcc_reshape_at(x, rank + 1, dims, at);
}

static tcc_tensor add_attention(tcc_tensor q, tcc_tensor k, tcc_tensor v, const tcc_attention_options *o, tcc_loc at) {
    const double scale = o->scale != 0 ? o->scale : 1 / sqrt((double)tcc_dim(q, -1));
    tcc_attrs attrs = {.sdpa = {.scale = scale, .causal = o->causal}};
    tcc_node *operands[5] = {q.node, k.node, v.node};
    int n = 3;
    if (o->mask.node && !(operands[n++] = attention_mask(o->mask, q, k, at))) return tcc_trace_poison();
    if (o->dropout > 0 && q.trace->training) {
        attrs.sdpa.p = o->dropout, attrs.sdpa.id = q.trace->next_random_id++;
        operands[n++] = tcc_trace_rng_key(q.trace);
    }
    return tcc_trace_wrap(q.trace, tcc_ir_build(q.trace->graph, TCC_OP_SDPA, operands, n, &attrs, NULL, at));
}

/* Attention of queries in groups: each group is one more dim, in which k and v are 1. */
static tcc_tensor group_attention(tcc_tensor q, tcc_tensor k, tcc_tensor v, int64_t group, tcc_attention_options *o,
                                  tcc_loc at) {
    int64_t dims[TCC_MAX_RANK];
    const int rank = tcc_rank(q);
    if (rank == TCC_MAX_RANK)
        return tcc_trace_error(q.trace, TCC_ESHAPE, at, "attention: heads that share keys take at most %d dims, not %s",
                               TCC_MAX_RANK - 1, tcc_type_text(&q.node->type));
    for (int d = 0; d < rank; d++) dims[d] = tcc_dim(q, d);
    dims[rank - 1] = tcc_dim(v, -1);
    if (o->mask.node) {
        tcc_type scores;
        if (!check_mask(o->mask, q, k, at, &scores)) return tcc_trace_poison();
        o->mask = grouped(o->mask, group, at);
    }
    tcc_tensor y = add_attention(grouped(q, group, at), shared(k, at), shared(v, at), o, at);
    return tcc_reshape_at(y, rank, dims, at);
}

tcc_tensor tcc_attention_at(tcc_tensor q, tcc_tensor k, tcc_tensor v, const tcc_attention_options *given, tcc_loc at) {
    TCC_OPTIONS(tcc_attention_options, options, given);
    const bool masked = options.mask.trace || options.mask.node;
    if (!tcc_trace_takes("attention", at, 3 + masked, (tcc_tensor[]){q, k, v, options.mask}) ||
        (given && !tcc_trace_takes_size("attention", given->size, sizeof options, at)))
        return tcc_trace_poison();
    if (!(options.dropout >= 0 && options.dropout < 1))
        return tcc_trace_error(q.trace, TCC_EINVAL, at, "attention: dropout must be in [0, 1), not %g",
                               options.dropout);
    const int64_t group = group_of(q, k, v);
    if (group > 1) return group_attention(q, k, v, group, &options, at);
    return add_attention(q, k, v, &options, at);
}
