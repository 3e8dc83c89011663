/* SPDX-License-Identifier: MIT
 * Shared by the host's two backward kernels: the current blocks of keys and queries, their mask, and the gradient of
 * one score. */
#ifndef TCC_CODEGEN_ATTENTION_BACKWARD_BLOCK_H
#define TCC_CODEGEN_ATTENTION_BACKWARD_BLOCK_H

#include "codegen/attention/internal.h"

/* i64, and i1 where a block is the first of several (NULL: it is the only one). */
typedef struct tcc_attention_blocks {
    tcc_emit_value key0, in_block, first_keys; /* keys [key0, key0 + in_block) */
    tcc_emit_value query0, query_end, n_queries, first_queries;
} tcc_attention_blocks;

/* Columns of a gradient's rows in scratch. */
static inline int64_t tcc_attention_padded_width(const tcc_attention_plan *p, tcc_attention_role role) {
    return role == TCC_ATTENTION_DV ? p->e_padded : p->d_padded;
}

void tcc_attention_enter_keys(tcc_emitter *e, const tcc_attention_plan *p, tcc_emit_value key0,
                              tcc_attention_blocks *b);
/* The first query that sees the block begins its first block of queries; the first keys meet all queries, to set dq. */
tcc_emit_value tcc_attention_first_query(tcc_emitter *e, const tcc_attention_plan *p, const tcc_attention_blocks *b);
/* `from`: where the blocks of queries begin. */
void tcc_attention_enter_queries(tcc_emitter *e, const tcc_attention_plan *p, tcc_emit_value query0,
                                 tcc_emit_value from, tcc_attention_blocks *b);
/* Keys of the block that the query sees. */
tcc_emit_value tcc_attention_seen_in_block(tcc_emitter *e, const tcc_attention *a, const tcc_attention_blocks *b,
                                           tcc_emit_value query);
/* With a causal mask: queries from the block's first one on that do not see the key; may be more than the block has. */
tcc_emit_value tcc_attention_blind_queries(tcc_emitter *e, const tcc_attention *a, const tcc_attention_blocks *b,
                                           tcc_emit_value key);

/* delta[query] = the sum of do o along the query's row, of all queries. */
void tcc_attention_emit_delta(tcc_emitter *e, const tcc_attention_run *r, tcc_emit_value delta);
/* A query and a vector of keys. */
typedef struct tcc_attention_pair {
    tcc_emit_value query, key;     /* i64; the first key */
    tcc_emit_value shift, delta;   /* the row's log-sum-exp, 0 where it saw nothing, and its delta; in all lanes */
    tcc_emit_value kept;           /* by dropout; NULL: all */
    tcc_emit_value product, d_out; /* q k^T and do v^T */
} tcc_attention_pair;
/* *p: the probabilities as dropout leaves them; *ds: the gradient of the products. */
void tcc_attention_pair_gradient(tcc_emitter *e, const tcc_attention_run *r, const tcc_attention_pair *x,
                                 tcc_emit_value *p, tcc_emit_value *ds);

#endif
