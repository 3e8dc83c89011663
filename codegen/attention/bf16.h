/* SPDX-License-Identifier: MIT
 * Shared by the host's attention kernels that multiply bf16 directly, in pairs or in tiles.
 *
 * Both operands of a product are packed in this order: A as rows of k; B as rows of pairs of successive k, with one
 * pair per column. The last GROUP of k is padded with zeros in both. Rows of A past the last one are undefined: their
 * rows of the result are never read. */
#ifndef TCC_CODEGEN_ATTENTION_BF16_H
#define TCC_CODEGEN_ATTENTION_BF16_H

#include "codegen/attention/internal.h"

enum { TCC_ATTENTION_GROUP = 32 }; /* rows, keys and elements of k come in such groups: a step of tiles takes one */

static inline int64_t tcc_attention_in_groups(int64_t n) {
    return (n + TCC_ATTENTION_GROUP - 1) / TCC_ATTENTION_GROUP * TCC_ATTENTION_GROUP;
}
/* The same at run time, of a number that is not negative. */
tcc_emit_value tcc_attention_round_up(tcc_emitter *e, tcc_emit_value n);

/* Tiles are there between these. */
void tcc_attention_bf16_begin(tcc_emitter *e, tcc_attention_run *r, const tcc_attention_plan *p, const char *symbol);
void tcc_attention_bf16_end(tcc_emitter *e, const tcc_attention_plan *p);

/* Rows [first, first + count) of an operand that is `width` wide. As A: to[count][width in groups]. */
void tcc_attention_bf16_rows(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                             tcc_emit_value first, tcc_emit_value count, tcc_emit_value to);
/* As B with k along the width: to[width in groups / 2][key_stride]. Columns past whole vectors are not written. */
void tcc_attention_bf16_transposed(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                                   tcc_emit_value first, tcc_emit_value count, tcc_emit_value to);
/* As B with k along the rows: to[count in groups / 2][padded]. */
void tcc_attention_bf16_pairs(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                              int64_t padded, tcc_emit_value first, tcc_emit_value count, tcc_emit_value to);

/* to[rows][vectors * lanes] = A B, as f32: of the plan's rows of A, over the first `count` of k, a multiple of what is
 * multiplied at once. Strides: a_row in elements, b_row (from pair to pair of k) and to_row in words of 4 bytes. */
typedef struct tcc_attention_factors {
    tcc_emit_value a, b, count;
    int64_t a_row, b_row;
} tcc_attention_factors;
void tcc_attention_bf16_product(tcc_emitter *e, const tcc_attention_plan *p, int vectors,
                                const tcc_attention_factors *f, tcc_emit_value to, int64_t to_row);

/* Row `row` of an operand from a row of f32, times `scale` (all lanes; NULL: 1). What follows the row in memory is read
 * up to the group's end. */
void tcc_attention_bf16_store(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                              tcc_emit_value row, tcc_emit_value from, tcc_emit_value scale);
/* Of `padded` columns: how many vectors each product makes. */
int tcc_attention_bf16_vectors(const tcc_emitter *e, int64_t padded);

void tcc_attention_emit_bf16_forward(tcc_emitter *e, const char *symbol, const tcc_attention_plan *p);
void tcc_attention_emit_bf16_backward(tcc_emitter *e, const char *symbol, const tcc_attention_plan *p);
int64_t tcc_attention_bf16_forward_floats(const tcc_attention_plan *p);
int64_t tcc_attention_bf16_backward_floats(const tcc_attention_plan *p);

#endif
