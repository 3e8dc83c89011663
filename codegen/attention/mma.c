/* SPDX-License-Identifier: MIT
 * Attention by tensor cores, for f16 and bf16. A warp has 16 rows of scores. All operands lie in shared memory row by
 * row, as in memory. Rows are an odd number of 16-byte chunks apart, so that 8 rows of a fragment lie in different
 * banks. Scores are sums of mma.sync; rounded, they have the layout of its left operand, so probabilities never leave
 * registers. Sums, maxima and exponentials are f32. */
#include "codegen/attention/gpu_internal.h"

#include "codegen/emit/warp.h"
#include "codegen/emit/math.h"

#include <math.h>
#include <string.h>

enum { MOST_COLUMNS = 64, MOST_TILES = TCC_ATTENTION_GPU_WIDTH / 8, ROW_THREADS = 4, CHUNK = 16 /* bytes */ };

static int64_t padded(int64_t width) { return (width + 15) / 16 * 16; }
static int64_t pitch_of(int64_t width) { return 2 * padded(width) + CHUNK; }

static tcc_emit_value i32(tcc_emitter *e, int64_t value) { return tcc_emit_i32(e, (int32_t)value); }
static tcc_emit_value add(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) { return tcc_emit_add(e, a, b); }
static tcc_emit_value times(tcc_emitter *e, tcc_emit_value a, int64_t b) { return tcc_emit_mul(e, a, i32(e, b)); }
static tcc_emit_value over(tcc_emitter *e, tcc_emit_value a, int64_t b) { return tcc_emit_div(e, a, b); }
static tcc_emit_value rest(tcc_emitter *e, tcc_emit_value a, int64_t b) { return tcc_emit_rem(e, a, b); }
static tcc_emit_value number(tcc_emitter *e, double x) { return tcc_emit_float(e, e->f32, x); }
static tcc_emit_value below(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return tcc_emit_icmp(e, TCC_ICMP_SLT, a, b);
}
static tcc_emit_value shared(tcc_emitter *e, tcc_emit_value bytes) { return tcc_emit_at(e, e->i8, e->scratch, bytes); }

/* Bytes where the operands begin: of the rows, in d and in e, and of the columns. */
typedef struct places {
    int64_t rows_d, rows_e, columns_d, columns_e, end;
} places;

static places places_of(const tcc_attention_gpu_plan *p) {
    int64_t d = pitch_of(p->a.D), e = pitch_of(p->a.E);
    places x = {.rows_e = p->rows * d};
    x.columns_d = x.rows_e + (p->kind == TCC_ATTENTION_GPU_FORWARD ? 0 : p->rows * e);
    x.columns_e = x.columns_d + p->columns * d;
    x.end = x.columns_e + p->columns * e;
    return x;
}

int64_t tcc_attention_mma_scratch(const tcc_attention_gpu_plan *p) { return places_of(p).end; }

/* Rows first ... first + count of an operand on their way to shared memory; zeros beyond `limit` rows, and up to whole
 * steps of k. */
static void send_rows(tcc_emitter *e, const tcc_attention_block *b, tcc_attention_role role, tcc_emit_value first,
                      int count, int64_t limit, int64_t width, int64_t to) {
    int64_t chunks = padded(width) / 8, total = count * chunks, pitch = pitch_of(width);
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, tcc_emit_zext(e, b->thread, e->i64), tcc_emit_i64(e, total), b->p->threads, NULL, 0);
    tcc_emit_value index = tcc_emit_trunc(e, loop.index, e->i32), row = over(e, index, chunks),
                   column = times(e, rest(e, index, chunks), 8);
    tcc_emit_value in_memory = add(e, first, row), inside = below(e, in_memory, i32(e, limit));
    if (padded(width) != width) inside = tcc_emit_and(e, inside, below(e, column, i32(e, width)));
    tcc_emit_value place = add(e, add(e, times(e, row, pitch), times(e, column, 2)), i32(e, to));
    tcc_emit_copy_async(e, shared(e, place), tcc_attention_element(e, b, role, in_memory, column), CHUNK, inside);
    tcc_emit_loop_end(e, &loop, NULL);
}

/* products[tile of 8 columns][4] = the warp's rows times columns, both [row][k] in shared memory. */
static void make_products(tcc_emitter *e, const tcc_attention_block *b, int64_t rows, int64_t columns, int64_t width,
                          tcc_emit_value (*out)[4]) {
    const tcc_attention_gpu_plan *p = b->p;
    int64_t pitch = pitch_of(width), steps = padded(width) / 16;
    tcc_emit_value lane = b->in_warp, a[4], c[4];
    tcc_emit_value row = add(e, times(e, b->warp, 16), rest(e, lane, 16));
    tcc_emit_value a_at = add(e, add(e, times(e, row, pitch), times(e, over(e, lane, 16), CHUNK)), i32(e, rows));
    tcc_emit_value column = add(e, times(e, over(e, lane, 16), 8), rest(e, lane, 8));
    tcc_emit_value c_at = add(e, add(e, times(e, column, pitch), times(e, rest(e, over(e, lane, 8), 2), CHUNK)),
                              i32(e, columns));
    for (int t = 0; t < p->columns / 8; t++)
        for (int i = 0; i < 4; i++) out[t][i] = number(e, 0);
    for (int64_t k = 0; k < steps; k++) {
        tcc_emit_load_matrix(e, 4, false, shared(e, add(e, a_at, i32(e, 32 * k))), a);
        for (int t = 0; t < p->columns / 8; t += 2) {
            tcc_emit_load_matrix(e, 4, false, shared(e, add(e, c_at, i32(e, 32 * k + 8 * t * pitch))), c);
            tcc_emit_matrix_product(e, p->matrix, a, c, out[t]);
            tcc_emit_matrix_product(e, p->matrix, a, c + 2, out[t + 1]);
        }
    }
}

/* sums[tile of 8] (vectors of 4) += x [the warp's rows][columns], rounded, times rows of a [column][k] operand in
 * shared memory. */
static void add_products(tcc_emitter *e, const tcc_attention_block *b, tcc_emit_value (*x)[4], int64_t columns,
                         int64_t width, tcc_emit_value *sums) {
    const tcc_attention_gpu_plan *p = b->p;
    int64_t pitch = pitch_of(width);
    tcc_emit_value lane = b->in_warp, a[4], c[4];
    tcc_emit_value line = add(e, times(e, rest(e, over(e, lane, 8), 2), 8), rest(e, lane, 8));
    tcc_emit_value at = add(e, add(e, times(e, line, pitch), times(e, over(e, lane, 16), CHUNK)), i32(e, columns));
    for (int k = 0; k < p->columns / 16; k++) {
        for (int i = 0; i < 4; i++)
            a[i] = tcc_emit_pack(e, p->matrix, x[2 * k + i / 2][2 * (i % 2)], x[2 * k + i / 2][2 * (i % 2) + 1]);
        for (int64_t t = 0; t < padded(width) / 8; t += 2) {
            tcc_emit_load_matrix(e, 4, true, shared(e, add(e, at, i32(e, 16 * k * pitch + 16 * t))), c);
            for (int h = 0; h < 2; h++) {
                tcc_emit_value parts[4], *sum = &sums[t + h];
                for (int i = 0; i < 4; i++) parts[i] = tcc_emit_extract(e, *sum, i32(e, i));
                tcc_emit_matrix_product(e, p->matrix, a, c + 2 * h, parts);
                for (int i = 0; i < 4; i++) *sum = tcc_emit_insert(e, *sum, parts[i], i32(e, i));
            }
        }
    }
}

static void clear(tcc_emitter *e, tcc_emit_value *sums, int64_t n) {
    for (int64_t i = 0; i < n; i++) sums[i] = tcc_emit_null(tcc_emit_vector_type(e->f32, 4));
}

/* The thread's rows: `half` 0 or 1; and its columns in a tile of 8. */
static tcc_emit_value row_of(tcc_emitter *e, const tcc_attention_block *b, int half) {
    return add(e, b->row0, add(e, times(e, b->warp, 16), add(e, over(e, b->in_warp, 4), i32(e, 8 * half))));
}

static tcc_emit_value column_of(tcc_emitter *e, const tcc_attention_block *b, tcc_emit_value first, int tile, int i) {
    return add(e, add(e, first, i32(e, 8 * tile + i)), times(e, rest(e, b->in_warp, 4), 2));
}

/* Stores sums in pairs, scaled by scale[half] if given: results have the narrow type of the operands. */
static void store_rows(tcc_emitter *e, const tcc_attention_block *b, tcc_attention_role role, int64_t limit,
                       int64_t width, const tcc_emit_value *sums, const tcc_emit_value *scale) {
    for (int half = 0; half < 2; half++) {
        tcc_emit_value row = row_of(e, b, half);
        tcc_emit_if exists;
        tcc_emit_if_begin(e, &exists, below(e, row, i32(e, limit)));
        for (int t = 0; t < width / 8; t++) { /* widths are multiples of 8 */
            tcc_emit_value value[2], to = tcc_attention_element(e, b, role, row, column_of(e, b, i32(e, 0), t, 0));
            for (int i = 0; i < 2; i++) {
                value[i] = tcc_emit_extract(e, sums[t], i32(e, 2 * half + i));
                if (scale) value[i] = tcc_emit_fmul(e, value[i], scale[half]);
            }
            tcc_emit_store(e, tcc_emit_pack(e, b->p->dtype[role], value[0], value[1]), to, 4);
        }
        tcc_emit_if_end(e, &exists);
    }
}

static void keep_rows(tcc_emitter *e, const tcc_attention_block *b, tcc_emit_value key0, tcc_emit_value (*kept)[2]) {
    tcc_emit_value queries[2];
    for (int h = 0; h < 2; h++) queries[h] = row_of(e, b, h);
    tcc_attention_keep_rows(e, b, queries, key0, kept);
}

static void emit_forward(tcc_emitter *e, const tcc_attention_block *b) {
    const tcc_attention_gpu_plan *p = b->p;
    const tcc_attention *a = &p->a;
    const places at = places_of(p);
    const int64_t n = padded(a->E) / 8;
    tcc_emit_value carry[MOST_TILES + 4], s[MOST_COLUMNS / 8][4], from, to;
    tcc_attention_columns(e, b, &from, &to);
    send_rows(e, b, TCC_ATTENTION_Q, b->row0, p->rows, a->T, a->D, at.rows_d);
    send_rows(e, b, TCC_ATTENTION_K, from, p->columns, a->S, a->D, at.columns_d);
    tcc_emit_copy_commit(e);
    send_rows(e, b, TCC_ATTENTION_V, from, p->columns, a->S, a->E, at.columns_e);
    tcc_emit_copy_commit(e);
    clear(e, carry, n);
    for (int h = 0; h < 2; h++)
        carry[n + h] = number(e, -INFINITY), carry[n + 2 + h] = number(e, 0); /* maxima; parts of denominators */
    tcc_emit_loop blocks;
    tcc_emit_value key0 = tcc_attention_blocks_begin(e, b, from, to, &blocks, carry, (int)(n + 4)),
                   next = add(e, key0, i32(e, p->columns));
    tcc_emit_value kept[2][2]; /* drawn while operands are on their way */
    keep_rows(e, b, key0, kept);
    tcc_emit_copy_wait(e, 1); /* k is there, v may be on its way */
    tcc_emit_barrier(e);
    make_products(e, b, at.rows_d, at.columns_d, a->D, s);
    tcc_emit_copy_wait(e, 0);
    tcc_emit_barrier(e); /* v is there, all have done with k */
    send_rows(e, b, TCC_ATTENTION_K, next, p->columns, a->S, a->D, at.columns_d);
    tcc_emit_copy_commit(e);
    for (int h = 0; h < 2; h++) {
        tcc_emit_value highest = carry[n + h], sum = number(e, 0);
        for (int t = 0; t < p->columns / 8; t++)
            for (int i = 0; i < 2; i++) {
                tcc_emit_value *x = &s[t][2 * h + i];
                *x = tcc_attention_gpu_score(e, b, *x, row_of(e, b, h), column_of(e, b, key0, t, i));
                highest = tcc_attention_larger(e, *x, highest);
            }
        highest = tcc_attention_max_row(e, highest, ROW_THREADS);
        tcc_emit_value shift = tcc_attention_shown(e, highest),
                       factor = tcc_math_exp_negative(e, tcc_emit_fsub(e, carry[n + h], shift));
        for (int t = 0; t < p->columns / 8; t++)
            for (int i = 0; i < 2; i++) {
                tcc_emit_value *x = &s[t][2 * h + i];
                *x = tcc_math_exp_negative(e, tcc_emit_fsub(e, *x, shift));
                sum = tcc_emit_fadd(e, sum, *x);
                *x = tcc_attention_drop(e, a, tcc_attention_bit(e, kept[h][t / 4], 8 * (t % 4) + i), *x);
            }
        carry[n + h] = highest;
        carry[n + 2 + h] = tcc_emit_fadd(e, tcc_emit_fmul(e, carry[n + 2 + h], factor), sum);
        for (int64_t t = 0; t < n; t++)
            for (int i = 0; i < 2; i++) {
                tcc_emit_value one = tcc_emit_extract(e, carry[t], i32(e, 2 * h + i));
                carry[t] = tcc_emit_insert(e, carry[t], tcc_emit_fmul(e, one, factor), i32(e, 2 * h + i));
            }
    }
    add_products(e, b, s, at.columns_e, a->E, carry);
    tcc_emit_barrier(e); /* all have done with v */
    send_rows(e, b, TCC_ATTENTION_V, next, p->columns, a->S, a->E, at.columns_e);
    tcc_emit_copy_commit(e);
    tcc_emit_loop_end(e, &blocks, carry);
    memcpy(carry, blocks.carry, sizeof *carry * (size_t)(n + 4));
    tcc_emit_copy_wait(e, 0);
    tcc_emit_value inverse[2];
    for (int h = 0; h < 2; h++) {
        tcc_emit_value denominator = tcc_attention_sum_row(e, carry[n + 2 + h], ROW_THREADS);
        inverse[h] = tcc_attention_inverse(e, denominator);
        if (!a->has[TCC_ATTENTION_LSE]) continue;
        tcc_emit_value lse = tcc_emit_fadd(e, tcc_attention_shown(e, carry[n + h]), tcc_math_log(e, denominator));
        tcc_emit_value row = row_of(e, b, h), place = rest(e, b->in_warp, ROW_THREADS);
        tcc_attention_store_value(e, b, TCC_ATTENTION_LSE, row, lse, place);
    }
    if (a->has[TCC_ATTENTION_O]) store_rows(e, b, TCC_ATTENTION_O, a->T, a->E, carry, inverse);
}

/* exp(score - lse), in the place of products. */
static void make_probabilities(tcc_emitter *e, const tcc_attention_block *b, tcc_emit_value column0,
                               tcc_emit_value (*s)[4], tcc_emit_value (*lse)[4]) {
    bool keys = b->p->kind == TCC_ATTENTION_GPU_KEYS;
    for (int t = 0; t < b->p->columns / 8; t++)
        for (int i = 0; i < 4; i++) {
            tcc_emit_value row = row_of(e, b, i / 2), column = column_of(e, b, column0, t, i % 2);
            tcc_emit_value x = tcc_attention_gpu_score(e, b, s[t][i], keys ? column : row, keys ? row : column);
            s[t][i] = tcc_math_exp_negative(e, tcc_emit_fsub(e, x, lse[t][i]));
        }
}

/* Values with dropout, by what tcc_attention_keep_columns() drew; `from` and `to` may be one. */
static void drop_columns(tcc_emitter *e, const tcc_attention_block *b, const tcc_emit_value *kept,
                         tcc_emit_value (*from)[4], tcc_emit_value (*to)[4]) {
    for (int t = 0; t < b->p->columns / 8; t++)
        for (int i = 0; i < 4; i++)
            to[t][i] = tcc_attention_drop(e, &b->p->a, tcc_attention_bit(e, kept[i / 2], 16 * (i % 2) + 4 * t),
                                          from[t][i]);
}

/* scale p (dp - delta), in the place of dp. */
static void make_gradients(tcc_emitter *e, const tcc_attention_block *b, tcc_emit_value (*s)[4],
                           tcc_emit_value (*dp)[4], tcc_emit_value (*delta)[4]) {
    for (int t = 0; t < b->p->columns / 8; t++)
        for (int i = 0; i < 4; i++) {
            tcc_emit_value y = tcc_emit_fmul(e, tcc_emit_fsub(e, dp[t][i], delta[t][i]), number(e, b->p->a.scale));
            dp[t][i] = tcc_emit_fmul(e, s[t][i], y);
        }
}

static void emit_queries(tcc_emitter *e, const tcc_attention_block *b) {
    const tcc_attention_gpu_plan *p = b->p;
    const tcc_attention *a = &p->a;
    const places at = places_of(p);
    const int64_t n = padded(a->D) / 8;
    tcc_emit_value dq[MOST_TILES], s[MOST_COLUMNS / 8][4], dp[MOST_COLUMNS / 8][4], lse[MOST_COLUMNS / 8][4],
        delta[MOST_COLUMNS / 8][4], from, to;
    for (int h = 0; h < 2; h++) {
        tcc_emit_value row = row_of(e, b, h), exists = below(e, row, i32(e, a->T)), sum = number(e, 0), parts[2];
        for (int t = 0; t < a->E / 8; t++)
            for (int i = 0; i < 2; i++) {
                static const tcc_attention_role roles[] = {TCC_ATTENTION_O, TCC_ATTENTION_DO};
                for (int k = 0; k < 2; k++) {
                    tcc_emit_value place = tcc_attention_element(e, b, roles[k], row, column_of(e, b, i32(e, 0), t, i));
                    parts[k] = tcc_emit_widen(e, p->dtype[roles[k]],
                                              tcc_emit_global_load(e, p->dtype[roles[k]], place, 1, exists));
                }
                sum = tcc_emit_fma(e, parts[0], parts[1], sum);
            }
        sum = tcc_attention_sum_row(e, sum, ROW_THREADS);
        tcc_attention_store_value(e, b, TCC_ATTENTION_DELTA, row, sum, rest(e, b->in_warp, ROW_THREADS));
        tcc_emit_value shift = tcc_attention_shown(e, tcc_attention_load_value(e, b, TCC_ATTENTION_LSE, row));
        for (int t = 0; t < p->columns / 8; t++)
            for (int i = 0; i < 2; i++) lse[t][2 * h + i] = shift, delta[t][2 * h + i] = sum;
    }
    if (!a->has[TCC_ATTENTION_DQ]) return;
    send_rows(e, b, TCC_ATTENTION_Q, b->row0, p->rows, a->T, a->D, at.rows_d);
    send_rows(e, b, TCC_ATTENTION_DO, b->row0, p->rows, a->T, a->E, at.rows_e);
    tcc_emit_copy_commit(e); /* waited for at the end where the rows see no key */
    clear(e, dq, n);
    tcc_attention_columns(e, b, &from, &to);
    tcc_emit_loop blocks;
    tcc_emit_value key0 = tcc_attention_blocks_begin(e, b, from, to, &blocks, dq, (int)n);
    send_rows(e, b, TCC_ATTENTION_K, key0, p->columns, a->S, a->D, at.columns_d);
    send_rows(e, b, TCC_ATTENTION_V, key0, p->columns, a->S, a->E, at.columns_e);
    tcc_emit_copy_commit(e);
    tcc_emit_value kept[2][2];
    keep_rows(e, b, key0, kept);
    tcc_emit_copy_wait(e, 0);
    tcc_emit_barrier(e);
    make_products(e, b, at.rows_d, at.columns_d, a->D, s);
    make_products(e, b, at.rows_e, at.columns_e, a->E, dp);
    make_probabilities(e, b, key0, s, lse);
    for (int t = 0; t < p->columns / 8; t++)
        for (int i = 0; i < 4; i++)
            dp[t][i] = tcc_attention_drop(e, a, tcc_attention_bit(e, kept[i / 2][t / 4], 8 * (t % 4) + i % 2),
                                          dp[t][i]);
    make_gradients(e, b, s, dp, delta);
    add_products(e, b, dp, at.columns_d, a->D, dq);
    tcc_emit_barrier(e);
    tcc_emit_loop_end(e, &blocks, dq);
    tcc_emit_copy_wait(e, 0);
    store_rows(e, b, TCC_ATTENTION_DQ, a->T, a->D, blocks.carry, NULL);
}

static void emit_keys(tcc_emitter *e, const tcc_attention_block *b) {
    const tcc_attention_gpu_plan *p = b->p;
    const tcc_attention *a = &p->a;
    const places at = places_of(p);
    bool want_k = a->has[TCC_ATTENTION_DK], want_v = a->has[TCC_ATTENTION_DV];
    const int64_t n_k = want_k ? padded(a->D) / 8 : 0, n = n_k + (want_v ? padded(a->E) / 8 : 0);
    tcc_emit_value sums[2 * MOST_TILES], s[MOST_COLUMNS / 8][4], dp[MOST_COLUMNS / 8][4], lse[MOST_COLUMNS / 8][4],
        delta[MOST_COLUMNS / 8][4], from, to;
    send_rows(e, b, TCC_ATTENTION_K, b->row0, p->rows, a->S, a->D, at.rows_d);
    if (want_k) send_rows(e, b, TCC_ATTENTION_V, b->row0, p->rows, a->S, a->E, at.rows_e);
    clear(e, sums, n);
    tcc_attention_columns(e, b, &from, &to);
    tcc_emit_loop blocks;
    tcc_emit_value query0 = tcc_attention_blocks_begin(e, b, from, to, &blocks, sums, (int)n);
    send_rows(e, b, TCC_ATTENTION_Q, query0, p->columns, a->T, a->D, at.columns_d);
    send_rows(e, b, TCC_ATTENTION_DO, query0, p->columns, a->T, a->E, at.columns_e);
    tcc_emit_copy_commit(e);
    for (int t = 0; t < p->columns / 8; t++)
        for (int i = 0; i < 2; i++) {
            tcc_emit_value query = column_of(e, b, query0, t, i);
            lse[t][i] = lse[t][2 + i] = tcc_attention_shown(e,
                                                            tcc_attention_load_value(e, b, TCC_ATTENTION_LSE, query));
            if (want_k) delta[t][i] = delta[t][2 + i] = tcc_attention_load_value(e, b, TCC_ATTENTION_DELTA, query);
        }
    tcc_emit_value kept[2], dropped[MOST_COLUMNS / 8][4];
    tcc_attention_keep_columns(e, b, query0, add(e, b->row0, times(e, b->warp, 16)), kept);
    tcc_emit_copy_wait(e, 0);
    tcc_emit_barrier(e);
    make_products(e, b, at.rows_d, at.columns_d, a->D, s);
    make_probabilities(e, b, query0, s, lse);
    if (want_v) {
        drop_columns(e, b, kept, s, dropped);
        add_products(e, b, dropped, at.columns_e, a->E, sums + n_k);
    }
    if (want_k) {
        make_products(e, b, at.rows_e, at.columns_e, a->E, dp);
        drop_columns(e, b, kept, dp, dp);
        make_gradients(e, b, s, dp, delta);
        add_products(e, b, dp, at.columns_d, a->D, sums);
    }
    tcc_emit_barrier(e);
    tcc_emit_loop_end(e, &blocks, sums);
    tcc_emit_copy_wait(e, 0);
    if (want_k) store_rows(e, b, TCC_ATTENTION_DK, a->S, a->D, blocks.carry, NULL);
    if (want_v) store_rows(e, b, TCC_ATTENTION_DV, a->S, a->E, blocks.carry + n_k, NULL);
}

void tcc_attention_mma(tcc_emitter *e, const tcc_attention_block *b) {
    if (b->p->kind == TCC_ATTENTION_GPU_FORWARD) emit_forward(e, b);
    else if (b->p->kind == TCC_ATTENTION_GPU_QUERIES) emit_queries(e, b);
    else emit_keys(e, b);
}
