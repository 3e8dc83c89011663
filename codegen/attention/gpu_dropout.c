/* SPDX-License-Identifier: MIT
 * Dropout of attention's probabilities on CUDA: the mask, as bits in registers, recomputed by each kernel.
 *
 * Four neighbouring keys of a query are one evaluation of Philox where S is a multiple of 4; else their draws may span
 * two evaluations. The multiply-add kernels have four neighbouring keys in each thread. Of a matrix fragment a thread
 * has pairs of columns: the threads of a row (or, where rows are keys, of a column) share the evaluations, and exchange
 * bits. */
#include "codegen/attention/gpu_internal.h"

#include "codegen/body/body.h"

static tcc_emit_value i32(tcc_emitter *e, int64_t value) { return tcc_emit_i32(e, (int32_t)value); }
static tcc_emit_value either(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return a ? tcc_emit_or(e, a, b) : b;
}
static tcc_emit_value left(tcc_emitter *e, tcc_emit_value x, tcc_emit_value by) { return tcc_emit_shl(e, x, by); }
static tcc_emit_value right(tcc_emitter *e, tcc_emit_value x, tcc_emit_value by) { return tcc_emit_lshr(e, x, by); }
static tcc_emit_value low_bits(tcc_emitter *e, tcc_emit_value x, int64_t mask) {
    return tcc_emit_and(e, x, tcc_emit_int(e, tcc_emit_type_of(x), mask));
}

/* The number of (batch entry, query, key) in the draws. Queries and keys of a block that do not exist may lie beyond.
 */
static tcc_emit_value number_of(tcc_emitter *e, const tcc_attention_block *b, tcc_emit_value query,
                                tcc_emit_value key) {
    const tcc_attention *a = &b->p->a;
    int64_t rows = a->T;
    for (int i = 0; i < a->n_batch; i++) rows *= a->batch[i];
    bool small = (double)(rows + b->p->rows) * (double)a->S < (double)(e->target->most_narrow - b->p->rows);
    tcc_emit_type type = small ? e->i32 : e->i64;
    tcc_emit_value at[] = {b->batch, query, key};
    for (int i = 0; i < 3; i++) at[i] = tcc_emit_zext(e, at[i], type);
    tcc_emit_value row = tcc_emit_add(e, tcc_emit_mul(e, at[0], tcc_emit_int(e, type, a->T)), at[1]);
    row = tcc_emit_add(e, tcc_emit_mul(e, row, tcc_emit_int(e, type, a->S)), at[2]);
    return tcc_emit_zext(e, row, e->i64);
}

tcc_emit_value tcc_attention_keeps_four(tcc_emitter *e, const tcc_attention_block *b, tcc_emit_value query,
                                        tcc_emit_value key) {
    const tcc_attention *a = &b->p->a;
    const bool in_fours = a->S % 4 == 0;
    tcc_emit_value first = number_of(e, b, query, key), block = right(e, first, tcc_emit_i64(e, 2)), bits = NULL;
    for (int half = 0; half < (in_fours ? 1 : 2); half++) {
        tcc_emit_value words[4];
        tcc_scalar_philox(e, tcc_emit_add(e, block, tcc_emit_i64(e, half)), b->dropout.id, b->dropout.seed,
                          b->dropout.step, words);
        for (int i = 0; i < 4; i++) {
            tcc_emit_value kept = tcc_emit_zext(e, tcc_attention_keeps(e, a, words[i]), e->i32);
            bits = either(e, bits, left(e, kept, i32(e, 4 * half + i)));
        }
    }
    if (in_fours) return bits;
    return low_bits(e, right(e, bits, low_bits(e, tcc_emit_trunc(e, first, e->i32), 3)), 15);
}

tcc_emit_value tcc_attention_bit(tcc_emitter *e, tcc_emit_value bits, int place) {
    if (!bits) return NULL;
    return tcc_emit_icmp(e, TCC_ICMP_NE, low_bits(e, bits, INT64_C(1) << place), i32(e, 0));
}

/* Thread c of the four of a row draws keys 4 c ... 4 c + 3 of each 16. */
void tcc_attention_keep_rows(tcc_emitter *e, const tcc_attention_block *b, const tcc_emit_value query[2],
                             tcc_emit_value key0, tcc_emit_value kept[2][2]) {
    tcc_emit_value thread = tcc_emit_rem(e, b->in_warp, 4), in_row = tcc_emit_mul(e, thread, i32(e, 4));
    for (int h = 0; h < 2; h++)
        for (int word = 0; word < 2; word++) kept[h][word] = NULL;
    if (!b->p->a.has[TCC_ATTENTION_RNG]) return;
    for (int h = 0; h < 2; h++)
        for (int word = 0; word < b->p->columns / 32; word++) {
            tcc_emit_value all = NULL;
            for (int k = 0; k < 2; k++) {
                tcc_emit_value from = tcc_emit_add(e, in_row, i32(e, 16 * k)),
                               key = tcc_emit_add(e, key0, tcc_emit_add(e, from, i32(e, 32 * word)));
                all = either(e, all, left(e, tcc_attention_keeps_four(e, b, query[h], key), from));
            }
            for (int bit = 1; bit < 4; bit *= 2) all = either(e, all, tcc_emit_exchange(e, all, bit));
            kept[h][word] = right(e, all, tcc_emit_mul(e, thread, i32(e, 2))); /* its first column */
        }
}

/* Of the eight threads that have a query's keys, thread r draws query r % 2 of each pair, and keys 4 j ... 4 j + 3 of
 * 16 for j = r / 4 + 2 (r / 2 % 2): it has keys r and r + 8, so that it needs j = r / 4, and 2 more. */
void tcc_attention_keep_columns(tcc_emitter *e, const tcc_attention_block *b, tcc_emit_value query0,
                                tcc_emit_value key0, tcc_emit_value kept[2]) {
    kept[0] = kept[1] = NULL;
    if (!b->p->a.has[TCC_ATTENTION_RNG]) return;
    tcc_emit_value pair = tcc_emit_mul(e, tcc_emit_rem(e, b->in_warp, 4), i32(e, 2)),
                   r = tcc_emit_div(e, b->in_warp, 4), all = NULL;
    tcc_emit_value odd = low_bits(e, r, 1), upper = low_bits(e, tcc_emit_div(e, r, 2), 1);
    tcc_emit_value fours = tcc_emit_add(e, tcc_emit_div(e, r, 4), tcc_emit_mul(e, upper, i32(e, 2)));
    tcc_emit_value query = tcc_emit_add(e, tcc_emit_add(e, query0, pair), odd),
                   key = tcc_emit_add(e, key0, tcc_emit_mul(e, fours, i32(e, 4)));
    for (int t = 0; t < b->p->columns / 8; t++)
        all = either(
            e, all, left(e, tcc_attention_keeps_four(e, b, tcc_emit_add(e, query, i32(e, 8 * t)), key), i32(e, 4 * t)));
    all = left(e, all, tcc_emit_mul(e, odd, i32(e, 16)));
    all = either(e, all, tcc_emit_exchange(e, all, 4));
    tcc_emit_value other = tcc_emit_exchange(e, all, 8), is_upper = tcc_emit_icmp(e, TCC_ICMP_NE, upper, i32(e, 0));
    tcc_emit_value in_four = tcc_emit_rem(e, r, 4);
    kept[0] = right(e, tcc_emit_select(e, is_upper, other, all), in_four);
    kept[1] = right(e, tcc_emit_select(e, is_upper, all, other), in_four);
}
