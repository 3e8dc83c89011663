/* SPDX-License-Identifier: MIT
 * Shared by the host's forward and backward kernels of attention; CUDA's kernels use a few values too. */
#ifndef TCC_CODEGEN_ATTENTION_INTERNAL_H
#define TCC_CODEGEN_ATTENTION_INTERNAL_H

#include "codegen/attention/attention.h"

/* What all of dropout's draws share: i64. */
typedef struct tcc_attention_draws {
    tcc_emit_value seed, step, id;
} tcc_attention_draws;

/* Emission of one kernel: where operands begin for the item at hand, and scratch. */
typedef struct tcc_attention_run {
    const tcc_attention_plan *p;
    tcc_emit_value base[TCC_ATTENTION_ROLES];  /* buffer and instance offset */
    tcc_emit_value begin[TCC_ATTENTION_ROLES]; /* of the item's batch entry */
    int64_t scratch_floats;                    /* taken so far */
    tcc_emit_value batch;                      /* the item's batch entry, i64 */
    tcc_attention_draws dropout;               /* with TCC_ATTENTION_RNG */
    tcc_emit_value draws, drawn;               /* scratch for those of a row; where its first key's is */
} tcc_attention_run;

/* Rows of scratch for a block of queries: whole tiles, and one more for the tile that overlaps the last. */
int64_t tcc_attention_slots(const tcc_attention_plan *p);

void tcc_attention_begin(tcc_emitter *e, tcc_attention_run *r, const tcc_attention_plan *p, const char *symbol);
/* Sets r->begin for the batch entry of that row-major index. */
void tcc_attention_enter(tcc_emitter *e, tcc_attention_run *r, tcc_emit_value batch);
tcc_emit_value tcc_attention_scratch(tcc_emitter *e, tcc_attention_run *r, int64_t floats);

/* Keys that query t sees: s < result (may be below 0). */
tcc_emit_value tcc_attention_seen(tcc_emitter *e, const tcc_attention *a, tcc_emit_value t);
/* The row of an operand. */
tcc_emit_value tcc_attention_row(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role,
                                 tcc_emit_value row);
/* Its element at a column, which is not lse's; a vector of f32 from there, and back to the operand's type. */
tcc_emit_value tcc_attention_place(tcc_emitter *e, const tcc_attention_run *r, tcc_emit_value row,
                                   tcc_emit_value column);
tcc_emit_value tcc_attention_load(tcc_emitter *e, const tcc_attention_run *r, tcc_emit_value address,
                                  tcc_emit_value mask);
void tcc_attention_store(tcc_emitter *e, const tcc_attention_run *r, tcc_emit_value value, tcc_emit_value address,
                         tcc_emit_value mask);
/* Fetches `width` elements from `column` on of that many rows, which may lie past the last: rows of an operand lie too
 * far apart for the hardware to foresee them. */
void tcc_attention_prefetch(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, tcc_emit_value first,
                            int rows, tcc_emit_value column, int64_t width, bool to_store);
/* to[width][key_stride] = transpose of rows [first, first + count) of an operand, as f32; columns up to whole vectors
 * are filled. */
void tcc_attention_pack_transposed(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                                   tcc_emit_value first, tcc_emit_value count, tcc_emit_value to);
/* to[count][padded]: rows copied as f32 and padded with zeros, for narrow types and widths that are no multiple of a
 * vector. */
static inline bool tcc_attention_copies_rows(const tcc_emitter *e, const tcc_attention_plan *p, int64_t width) {
    return p->a.dtype != TCC_F32 || width % e->lanes != 0;
}
void tcc_attention_pack_rows(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                             int64_t padded, tcc_emit_value first, tcc_emit_value count, tcc_emit_value to);
/* Calls `panel` for each panel of the first `count` columns of scores: two vectors, but one where the last has no more
 * columns than that, as on the diagonal of a causal rule. */
typedef void (*tcc_attention_panel)(void *user, tcc_emitter *e, tcc_emit_value column, int vectors);
void tcc_attention_panels(tcc_emitter *e, tcc_emit_value count, tcc_attention_panel panel, void *user);
/* to[rows][key_stride] = rows row0... of an operand times a panel of a packed block; both pointers at its first column.
 */
void tcc_attention_tile(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                        tcc_emit_value row0, int vectors, tcc_emit_value packed, tcc_emit_value to);
/* The scores of query `row` and keys key, key + 1, ... from the products: scaled, masked, -inf where a key is not seen.
 */
tcc_emit_value tcc_attention_score(tcc_emitter *e, const tcc_attention_run *r, tcc_emit_value product,
                                   tcc_emit_value row, tcc_emit_value key);
/* Vectors of a panel of scores, and of a panel of output that has `padded` lanes. */
int tcc_attention_score_vectors(const tcc_emitter *e);
int tcc_attention_output_vectors(const tcc_emitter *e, int64_t padded);
/* Adds to, or begins with (`initial` NULL: zeros), sums of rows x vectors: A [row, k] with strides a_row, a_k times
 * rows of B. */
void tcc_attention_product(tcc_emitter *e, const tcc_attention_run *r, int vectors, tcc_dtype a_type, tcc_emit_value a,
                           int64_t a_row, int64_t a_k, tcc_emit_value b, int64_t b_k, bool b_aligned,
                           tcc_emit_value count, tcc_emit_value *sums);
/* The lanes of a vector at column (constant) of a row that is `width` wide; NULL: all. */
tcc_emit_value tcc_attention_mask(tcc_emitter *e, int64_t width, tcc_emit_value column);

/* --- Dropout (dropout.c) */
tcc_attention_draws tcc_attention_draws_begin(tcc_emitter *e, tcc_emit_value key, int id_param);
/* Whether a word drawn for an element keeps it: i1, with the lanes of `word`. */
tcc_emit_value tcc_attention_keeps(tcc_emitter *e, const tcc_attention *a, tcc_emit_value word);
/* `value` as dropout leaves it: a multiple where kept, else 0. `kept` NULL: no dropout. */
tcc_emit_value tcc_attention_drop(tcc_emitter *e, const tcc_attention *a, tcc_emit_value kept, tcc_emit_value value);
/* Host: draws for query `row` and keys key0 ... key0 + count, in r->draws; which of a vector of keys from key0 + column
 * on are kept, NULL without dropout. Lanes beyond the count are any. */
int64_t tcc_attention_draws_floats(int lanes, int64_t keys);
void tcc_attention_draw(tcc_emitter *e, tcc_attention_run *r, tcc_emit_value row, tcc_emit_value key0,
                        tcc_emit_value count);
tcc_emit_value tcc_attention_kept(tcc_emitter *e, const tcc_attention_run *r, tcc_emit_value column);

tcc_emit_value tcc_attention_larger(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b);
/* x, or 0 where x is -inf: a maximum to subtract from scores that are all hidden. f32, one or a vector. */
tcc_emit_value tcc_attention_shown(tcc_emitter *e, tcc_emit_value x);
/* 1 / denominator; 0 for a row that saw nothing. f32. */
tcc_emit_value tcc_attention_inverse(tcc_emitter *e, tcc_emit_value denominator);

void tcc_attention_emit_forward(tcc_emitter *e, const char *symbol, const tcc_attention_plan *p);
void tcc_attention_emit_backward(tcc_emitter *e, const char *symbol, const tcc_attention_plan *p);

#endif
