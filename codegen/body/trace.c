/* SPDX-License-Identifier: MIT
 * Tracing graph nodes into scalar expressions: a node's value at a point is made once, by the rule of its op. */
#include "codegen/body/body.h"

#include "ir/support/hash.h"

/* The value of a node at a point, as far as the guard holds. */
typedef struct memo {
    const tcc_node *node;
    const tcc_expr *guard, *value;
    tcc_affine coordinates[];
} memo;

static const tcc_expr *out_of_memory(tcc_body *b) {
    if (b->status == TCC_OK) b->status = tcc_enomem(b->diag);
    return NULL;
}

/* The value that the node has, from what its rule computes. That may be of another type: partial sums are of f32. */
static const tcc_expr *as_result(tcc_body *b, const tcc_node *n, const tcc_expr *value) {
    const tcc_dtype dtype = n->type.dtype;
    if (!value || !tcc_dtype_is_narrow(dtype) || tcc_op_get_info(n->op)->flags & TCC_FLAG_EXACT) return value;
    return value->dtype == dtype ? tcc_expr_round(b, value) : tcc_expr_point(b, TCC_OP_CAST, dtype, &value, 1);
}

static uint64_t hash_point(const tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    uint64_t h = tcc_hash_add((uint64_t)n->id, b->guard ? (uint64_t)b->guard->id + 1 : 0);
    for (int i = 0; i < n->type.rank; i++) {
        h = tcc_hash_add(h, (uint64_t)coordinates[i].constant);
        for (int k = 0; k < coordinates[i].n; k++) {
            const tcc_term *t = &coordinates[i].terms[k];
            h = tcc_hash_add(h, (uint64_t)t->var << 48 ^ (uint64_t)t->coefficient);
        }
    }
    return h;
}

const tcc_expr *tcc_body_trace(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    if (b->status != TCC_OK) return NULL;
    const size_t rank = (size_t)n->type.rank;
    const uint64_t hash = hash_point(b, n, coordinates);
    size_t at = hash;
    for (const memo *m; (m = tcc_table_next(&b->memo, hash, &at));) {
        bool equal = m->node == n && m->guard == b->guard;
        for (size_t i = 0; equal && i < rank; i++) equal = tcc_affine_equal(&m->coordinates[i], &coordinates[i]);
        if (equal) return m->value;
    }
    const tcc_expr *value = as_result(b, n, b->rule(b, n, coordinates));
    if (!value) return NULL;
    const int position = tcc_op_get_info(n->op)->fusion == TCC_FUSION_POINT ? tcc_body_position(b, n) : -1;
    if (position >= 0 && !tcc_vec_push(&b->traced, (tcc_traced){position, value})) return out_of_memory(b);
    memo *m = tcc_arena_alloc(b->arena, sizeof *m + rank * sizeof *coordinates);
    if (!m || !tcc_table_reserve(&b->memo)) return out_of_memory(b);
    m->node = n;
    m->guard = b->guard;
    m->value = value;
    for (size_t i = 0; i < rank; i++) m->coordinates[i] = coordinates[i];
    tcc_table_add(&b->memo, hash, m);
    return value;
}

void tcc_body_store(tcc_body *b, const tcc_node *n, tcc_affine position, bool kept) {
    tcc_affine coordinates[TCC_MAX_RANK];
    /* A reshape keeps positions. Put together again from the coordinates of its own dims, which may be quotients, the
     * position would no longer be known for that of a reduction at hand. */
    const tcc_node *viewed = n;
    while (viewed->op == TCC_OP_RESHAPE && tcc_body_has(b, viewed)) viewed = viewed->operands[0];
    tcc_affine_split(b, position, viewed->type.rank, viewed->type.dims, coordinates);
    const tcc_expr *value = tcc_body_trace(b, viewed, coordinates);
    if (!value) return;
    int buffer = tcc_body_buffer_of(b, n, 0, true);
    if (!tcc_vec_push(&b->stores, (tcc_body_write){buffer, tcc_affine_whole(b, position), value, NULL, .kept = kept}))
        out_of_memory(b);
}
