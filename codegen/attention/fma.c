/* SPDX-License-Identifier: MIT
 * Attention on CUDA by multiply-adds, for f32. A warp has 16 rows: 4 x 8 threads, each with 4 rows and groups of 4
 * columns, 32 columns apart. So a row of scores lies in 8 neighbouring threads. Shared memory holds the operands of a
 * product along the summed dim, transposed, as in contract/gpu.c. There are 4 floats of padding between lines, so that
 * the writes of a warp fall into different banks.
 *
 * Probabilities pass through shared memory to become the left operand of the next product. They lie as [column][row];
 * the groups of four rows of a line are permuted by the column's number, for the same reason. A warp reads only its own
 * writes. */
#include "codegen/attention/gpu_internal.h"

#include "codegen/emit/warp.h"
#include "codegen/emit/math.h"
#include "ir/support/integers.h"

#include <math.h>
#include <string.h>

enum { GROUPS = TCC_ATTENTION_GPU_WIDTH / 32, WARP_ROWS = 16, ROW_THREADS = 8, UNROLL = 8 };

static tcc_emit_value i32(tcc_emitter *e, int64_t value) { return tcc_emit_i32(e, (int32_t)value); }
static tcc_emit_value i64(tcc_emitter *e, int64_t value) { return tcc_emit_i64(e, value); }
static tcc_emit_value at(tcc_emitter *e, tcc_emit_value base, tcc_emit_value offset) {
    return tcc_emit_at(e, e->f32, base, offset);
}
static tcc_emit_value narrow(tcc_emitter *e, tcc_emit_value x) { return tcc_emit_trunc(e, x, e->i32); }
static tcc_emit_value below(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return tcc_emit_icmp(e, TCC_ICMP_SLT, a, b);
}
static tcc_emit_type four(tcc_emitter *e) { return tcc_emit_vector_type(e->f32, 4); }
static tcc_emit_value number(tcc_emitter *e, double x) { return tcc_emit_float(e, e->f32, x); }
static tcc_emit_value lane(tcc_emitter *e, tcc_emit_value vector, int i) {
    return tcc_emit_extract(e, vector, i32(e, i));
}

/* The lines of shared memory, in floats: rows, their second operand, columns, and probabilities. */
typedef struct layout {
    int64_t d, e;                   /* widths as sums have them */
    int64_t first, second, columns; /* sizes */
    int64_t scores;
} layout;

static layout layout_of(const tcc_attention_gpu_plan *p) {
    const tcc_attention *a = &p->a;
    layout l = {.d = tcc_round_up(a->D, UNROLL), .e = tcc_round_up(a->E, UNROLL)};
    int64_t widest = p->kind == TCC_ATTENTION_GPU_QUERIES ? a->D : tcc_max_i64(a->D, a->E),
            summed = tcc_max_i64(l.d, l.e);
    l.first = l.d * (p->rows + 4);
    l.second = p->kind == TCC_ATTENTION_GPU_FORWARD ? 0 : l.e * (p->rows + 4);
    l.columns = tcc_max_i64(summed * (p->columns + 4), p->columns * (tcc_round_up(widest, 32) + 4));
    l.scores = (int64_t)p->columns * p->rows;
    return l;
}

int64_t tcc_attention_fma_scratch(const tcc_attention_gpu_plan *p) {
    layout l = layout_of(p);
    return 4 * (l.first + l.second + l.columns + l.scores);
}

typedef struct run {
    const tcc_attention_gpu_plan *p;
    const tcc_attention_block *b;
    tcc_emit_value row4, column4; /* i32; row4: the thread's first row in the block, column4: its first column */
    tcc_emit_value first, second, columns, scores; /* shared memory */
} run;

/* Row i of the thread's four, of all. */
static tcc_emit_value row_of(tcc_emitter *e, const run *r, int i) {
    return tcc_emit_add(e, r->b->row0, tcc_emit_add(e, r->row4, i32(e, i)));
}

static tcc_emit_value element(tcc_emitter *e, const run *r, tcc_attention_role role, tcc_emit_value row,
                              tcc_emit_value column) {
    return tcc_attention_element(e, r->b, role, row, column);
}

/* Rows first ... first + count of an operand into shared memory, as [row][column] or transposed; zeros beyond `limit`
 * rows and `width` columns, up to `padded`. */
static void copy_rows(tcc_emitter *e, const run *r, tcc_attention_role role, tcc_emit_value first, int count,
                      int64_t limit, int64_t width, int64_t padded, bool transposed, tcc_emit_value to, int64_t pitch) {
    enum { AT_ONCE = 4 };
    int vector = r->p->aligned[role] ? 4 : 1, threads = r->p->threads;
    int64_t total = count * padded / vector, turns = (total + threads - 1) / threads;
    int at_once = (int)(turns < AT_ONCE ? turns : AT_ONCE);
    tcc_emit_value row[AT_ONCE], column[AT_ONCE], value[AT_ONCE], exists[AT_ONCE];
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, i64(e, 0), i64(e, total), (int64_t)threads * at_once, NULL, 0);
    for (int j = 0; j < at_once; j++) {
        tcc_emit_value index = tcc_emit_add(e, tcc_emit_add(e, narrow(e, loop.index), i32(e, (int64_t)j * threads)),
                                            r->b->thread);
        exists[j] = total % ((int64_t)threads * at_once) ? below(e, index, i32(e, total)) : NULL;
        if (transposed) { /* a warp reads whole sectors, 8 columns of 16 or 4 rows, and writes them to different banks
                           */
            int rows = vector == 4 ? 16 : 4, in_row = 8 / vector;
            tcc_emit_value unit = tcc_emit_div(e, index, 32), in_unit = tcc_emit_rem(e, index, 32);
            row[j] = tcc_emit_add(e, tcc_emit_mul(e, tcc_emit_rem(e, unit, count / rows), i32(e, rows)),
                                  tcc_emit_div(e, in_unit, in_row));
            column[j] = tcc_emit_add(e, tcc_emit_mul(e, tcc_emit_div(e, unit, count / rows), i32(e, 8)),
                                     tcc_emit_mul(e, tcc_emit_rem(e, in_unit, in_row), i32(e, vector)));
        } else {
            row[j] = tcc_emit_div(e, index, padded / vector);
            column[j] = tcc_emit_mul(e, tcc_emit_rem(e, index, padded / vector), i32(e, vector));
        }
        tcc_emit_value in_memory = tcc_emit_add(e, first, row[j]), inside = below(e, in_memory, i32(e, limit));
        if (padded != width) inside = tcc_emit_and(e, inside, below(e, column[j], i32(e, width)));
        if (exists[j]) inside = tcc_emit_and(e, inside, exists[j]);
        value[j] = tcc_emit_global_load(e, TCC_F32, element(e, r, role, in_memory, column[j]), vector, inside);
    }
    for (int j = 0; j < at_once; j++) {
        tcc_emit_if store;
        if (exists[j]) tcc_emit_if_begin(e, &store, exists[j]);
        tcc_emit_value line = transposed ? column[j] : row[j], place = transposed ? row[j] : column[j];
        tcc_emit_value address = at(e, to, tcc_emit_add(e, tcc_emit_mul(e, line, i32(e, pitch)), place));
        if (vector == 1 || !transposed) tcc_emit_store(e, value[j], address, 4 * vector);
        for (int i = 0; i < 4 && vector == 4 && transposed; i++)
            tcc_emit_store(e, lane(e, value[j], i), at(e, address, i32(e, i * pitch)), 4);
        if (exists[j]) tcc_emit_if_end(e, &store);
    }
    tcc_emit_loop_end(e, &loop, NULL);
}

/* sums[4 rows][groups] += left [k][rows of the block] times right [k][columns], over k below `count`, a multiple of 8.
 * `turned`: the left one is probabilities. */
static void product(tcc_emitter *e, const run *r, tcc_emit_value left, bool turned, tcc_emit_value right,
                    int64_t right_pitch, int64_t count, int groups, tcc_emit_value *sums) {
    tcc_emit_loop loop;
    int n = 4 * groups;
    int64_t pitch = turned ? r->p->rows : r->p->rows + 4;
    tcc_emit_loop_begin(e, &loop, i64(e, 0), i64(e, count), UNROLL, sums, n);
    memcpy(sums, loop.carry, sizeof *sums * (size_t)n);
    tcc_emit_value k = narrow(e, loop.index), from[2];
    tcc_emit_value line = at(e, left, tcc_emit_mul(e, k, i32(e, pitch)));
    from[0] = from[1] = at(e, line, r->row4);
    if (turned) {
        tcc_emit_value turn =
            tcc_emit_and(e, k, i32(e, 24)); /* of columns k ... k + 3, in floats; of the next four: 4 more */
        tcc_emit_value place = tcc_emit_xor(e, r->row4, turn);
        from[0] = at(e, line, place);
        from[1] = at(e, line, tcc_emit_xor(e, place, i32(e, 4)));
    }
    right = at(e, at(e, right, tcc_emit_mul(e, k, i32(e, right_pitch))), r->column4);
    for (int u = 0; u < UNROLL; u++) {
        tcc_emit_value rows = tcc_emit_load(e, four(e), at(e, from[u / 4], i32(e, u * pitch)), 16), columns[GROUPS];
        for (int g = 0; g < groups; g++)
            columns[g] = tcc_emit_load(e, four(e), at(e, right, i32(e, u * right_pitch + g * 32)), 16);
        for (int i = 0; i < 4; i++)
            for (int g = 0; g < groups; g++)
                sums[i * groups + g] = tcc_emit_fma(e, tcc_emit_splat(e, lane(e, rows, i), 4), columns[g],
                                                    sums[i * groups + g]);
    }
    tcc_emit_loop_end(e, &loop, sums);
    memcpy(sums, loop.carry, sizeof *sums * (size_t)n);
}

static void clear(tcc_emitter *e, tcc_emit_value *sums, int n) {
    for (int i = 0; i < n; i++) sums[i] = tcc_emit_null(four(e));
}

/* Scores or their gradients to shared memory, for product(). */
static void put_scores(tcc_emitter *e, const run *r, int groups, const tcc_emit_value *x) {
    tcc_emit_value place = tcc_emit_xor(e, r->row4, tcc_emit_and(e, r->column4, i32(e, 28)));
    for (int g = 0; g < groups; g++)
        for (int i = 0; i < 4; i++) {
            tcc_emit_value rows = tcc_emit_poison(four(e));
            for (int k = 0; k < 4; k++) rows = tcc_emit_insert(e, rows, lane(e, x[k * groups + g], i), i32(e, k));
            tcc_emit_value line = tcc_emit_mul(e, tcc_emit_add(e, r->column4, i32(e, g * 32 + i)), i32(e, r->p->rows));
            tcc_emit_store(e, rows, at(e, at(e, r->scores, line), place), 16);
        }
}

/* products[4 rows][groups] = the block's rows times columns `first` ... of another operand, which takes its place in
 * shared memory. */
static void make_products(tcc_emitter *e, const run *r, tcc_emit_value rows, tcc_attention_role role,
                          tcc_emit_value first, int64_t limit, int64_t width, int64_t padded,
                          tcc_emit_value *products) {
    int columns = r->p->columns, groups = columns / 32;
    copy_rows(e, r, role, first, columns, limit, width, padded, true, r->columns, columns + 4);
    tcc_emit_barrier(e);
    clear(e, products, 4 * groups);
    product(e, r, rows, false, r->columns, columns + 4, padded, groups, products);
    tcc_emit_barrier(e);
}

/* sums[4 rows][groups] += x times the columns' operand that lies in shared memory, with `pitch` floats a column. */
static void add_products(tcc_emitter *e, const run *r, const tcc_emit_value *x, int64_t pitch, int groups,
                         tcc_emit_value *sums) {
    int columns = r->p->columns;
    put_scores(e, r, columns / 32, x);
    tcc_emit_barrier(e);
    product(e, r, r->scores, true, r->columns, pitch, columns, groups, sums);
    tcc_emit_barrier(e);
}

/* Rows of a result: the thread's 4 rows, groups of columns; those that exist. */
static void store_rows(tcc_emitter *e, const run *r, tcc_attention_role role, int64_t limit, int64_t width, int groups,
                       const tcc_emit_value *x) {
    for (int i = 0; i < 4; i++) {
        tcc_emit_value row = row_of(e, r, i);
        tcc_emit_if exists, inside;
        tcc_emit_if_begin(e, &exists, below(e, row, i32(e, limit)));
        for (int g = 0; g < groups; g++) {
            tcc_emit_value column = tcc_emit_add(e, r->column4, i32(e, g * 32));
            for (int k = 0; k < (r->p->aligned[role] ? 1 : 4); k++) {
                tcc_emit_value here = tcc_emit_add(e, column, i32(e, k)), to = element(e, r, role, row, here);
                tcc_emit_if_begin(e, &inside, below(e, here, i32(e, width)));
                if (r->p->aligned[role]) tcc_emit_store(e, x[i * groups + g], to, 16);
                else tcc_emit_store(e, lane(e, x[i * groups + g], k), to, 4);
                tcc_emit_if_end(e, &inside);
            }
        }
        tcc_emit_if_end(e, &exists);
    }
}

/* 4 lanes with dropout, of which lane i has bit place[i] of kept[i]. */
static tcc_emit_value drop(tcc_emitter *e, const run *r, const tcc_emit_value *kept, const int *place,
                           tcc_emit_value x) {
    if (!r->p->a.has[TCC_ATTENTION_RNG]) return x;
    tcc_emit_value out = tcc_emit_poison(four(e));
    for (int i = 0; i < 4; i++) {
        tcc_emit_value one = tcc_attention_drop(e, &r->p->a, tcc_attention_bit(e, kept[i], place[i]), lane(e, x, i));
        out = tcc_emit_insert(e, out, one, i32(e, i));
    }
    return out;
}

/* Of a query and four keys. */
static tcc_emit_value drop_keys(tcc_emitter *e, const run *r, tcc_emit_value query, tcc_emit_value key,
                                tcc_emit_value x) {
    if (!r->p->a.has[TCC_ATTENTION_RNG]) return x;
    tcc_emit_value bits = tcc_attention_keeps_four(e, r->b, query, key);
    return drop(e, r, (tcc_emit_value[]){bits, bits, bits, bits}, (const int[]){0, 1, 2, 3}, x);
}

/* 4 lanes of them, along queries or keys. */
static tcc_emit_value score(tcc_emitter *e, const run *r, tcc_emit_value products, tcc_emit_value query,
                            tcc_emit_value key, bool along_queries) {
    tcc_emit_value out = tcc_emit_poison(four(e));
    for (int i = 0; i < 4; i++) {
        tcc_emit_value t = along_queries ? tcc_emit_add(e, query, i32(e, i)) : query,
                       s = along_queries ? key : tcc_emit_add(e, key, i32(e, i));
        out = tcc_emit_insert(e, out, tcc_attention_gpu_score(e, r->b, lane(e, products, i), t, s), i32(e, i));
    }
    return out;
}

static tcc_emit_value sum_four(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value a = tcc_emit_fadd(e, lane(e, x, 0), lane(e, x, 2)),
                   b = tcc_emit_fadd(e, lane(e, x, 1), lane(e, x, 3));
    return tcc_emit_fadd(e, a, b);
}

/* --- The kernels */

static void emit_forward(tcc_emitter *e, const run *r) {
    const tcc_attention_gpu_plan *p = r->p;
    const tcc_attention *a = &p->a;
    layout l = layout_of(p);
    int groups = p->columns / 32, out_groups = (int)(tcc_round_up(a->E, 32) / 32), n = 4 * out_groups;
    int64_t values_pitch = out_groups * 32 + 4;
    tcc_emit_value carry[4 * GROUPS + 8], from, to;
    copy_rows(e, r, TCC_ATTENTION_Q, r->b->row0, p->rows, a->T, a->D, l.d, true, r->first, p->rows + 4);
    clear(e, carry, n);
    for (int i = 0; i < 4; i++)
        carry[n + i] = number(e, -INFINITY), carry[n + 4 + i] = number(e, 0); /* maxima; parts of denominators */
    tcc_attention_columns(e, r->b, &from, &to);
    tcc_emit_loop blocks;
    tcc_emit_value key0 = tcc_attention_blocks_begin(e, r->b, from, to, &blocks, carry, n + 8), s[4 * GROUPS];
    make_products(e, r, r->first, TCC_ATTENTION_K, key0, a->S, a->D, l.d, s);
    copy_rows(e, r, TCC_ATTENTION_V, key0, p->columns, a->S, a->E, tcc_round_up(a->E, 32), false, r->columns,
              values_pitch);
    for (int i = 0; i < 4; i++) {
        tcc_emit_value query = row_of(e, r, i), highest = carry[n + i], sum = NULL;
        for (int g = 0; g < groups; g++) {
            tcc_emit_value *x = &s[i * groups + g];
            *x = score(e, r, *x, query, tcc_emit_add(e, key0, tcc_emit_add(e, r->column4, i32(e, g * 32))), false);
            for (int k = 0; k < 4; k++) highest = tcc_attention_larger(e, lane(e, *x, k), highest);
        }
        highest = tcc_attention_max_row(e, highest, ROW_THREADS);
        tcc_emit_value shift = tcc_attention_shown(e, highest),
                       factor = tcc_math_exp_negative(e, tcc_emit_fsub(e, carry[n + i], shift));
        for (int g = 0; g < groups; g++) {
            tcc_emit_value *x = &s[i * groups + g];
            *x = tcc_math_exp_negative(e, tcc_emit_fsub(e, *x, tcc_emit_splat(e, shift, 4)));
            sum = sum ? tcc_emit_fadd(e, sum, *x) : *x;
            *x = drop_keys(e, r, query, tcc_emit_add(e, key0, tcc_emit_add(e, r->column4, i32(e, g * 32))), *x);
        }
        carry[n + i] = highest;
        carry[n + 4 + i] = tcc_emit_fadd(e, tcc_emit_fmul(e, carry[n + 4 + i], factor), sum_four(e, sum));
        for (int g = 0; g < out_groups; g++)
            carry[i * out_groups + g] = tcc_emit_fmul(e, carry[i * out_groups + g], tcc_emit_splat(e, factor, 4));
    }
    add_products(e, r, s, values_pitch, out_groups, carry);
    tcc_emit_loop_end(e, &blocks, carry);
    memcpy(carry, blocks.carry, sizeof *carry * (size_t)(n + 8));
    for (int i = 0; i < 4; i++) {
        tcc_emit_value denominator = tcc_attention_sum_row(e, carry[n + 4 + i], ROW_THREADS),
                       inverse = tcc_attention_inverse(e, denominator);
        for (int g = 0; g < out_groups; g++)
            carry[i * out_groups + g] = tcc_emit_fmul(e, carry[i * out_groups + g], tcc_emit_splat(e, inverse, 4));
        if (!a->has[TCC_ATTENTION_LSE]) continue;
        tcc_emit_value lse = tcc_emit_fadd(e, tcc_attention_shown(e, carry[n + i]), tcc_math_log(e, denominator));
        tcc_attention_store_value(e, r->b, TCC_ATTENTION_LSE, row_of(e, r, i), lse, r->column4);
    }
    if (a->has[TCC_ATTENTION_O]) store_rows(e, r, TCC_ATTENTION_O, a->T, a->E, out_groups, carry);
}

/* p = exp(score - lse) and, if `dp` is given, ds = scale p (dp - delta) in its place. 4 lanes. */
static tcc_emit_value probability(tcc_emitter *e, tcc_emit_value x, tcc_emit_value lse) {
    return tcc_math_exp_negative(e, tcc_emit_fsub(e, x, lse));
}

static tcc_emit_value score_gradient(tcc_emitter *e, const run *r, tcc_emit_value p, tcc_emit_value dp,
                                     tcc_emit_value delta) {
    tcc_emit_value y = tcc_emit_fmul(e, tcc_emit_fsub(e, dp, delta), tcc_emit_float(e, four(e), r->p->a.scale));
    return tcc_emit_fmul(e, p, y);
}

/* The sum of do o of each of the thread's rows. */
static void emit_delta(tcc_emitter *e, const run *r, tcc_emit_value *delta) {
    const tcc_attention *a = &r->p->a;
    for (int i = 0; i < 4; i++) {
        tcc_emit_value row = row_of(e, r, i), exists = below(e, row, i32(e, a->T));
        tcc_emit_value sum = number(e, 0);
        for (int64_t g = 0; g < tcc_round_up(a->E, 32) / 32; g++)
            for (int k = 0; k < 4; k++) {
                tcc_emit_value column = tcc_emit_add(e, r->column4, i32(e, g * 32 + k));
                tcc_emit_value inside = tcc_emit_and(e, exists, below(e, column, i32(e, a->E)));
                tcc_emit_value x = tcc_emit_global_load(e, TCC_F32, element(e, r, TCC_ATTENTION_O, row, column), 1,
                                                        inside);
                tcc_emit_value y = tcc_emit_global_load(e, TCC_F32, element(e, r, TCC_ATTENTION_DO, row, column), 1,
                                                        inside);
                sum = tcc_emit_fma(e, x, y, sum);
            }
        delta[i] = tcc_attention_sum_row(e, sum, ROW_THREADS);
        tcc_attention_store_value(e, r->b, TCC_ATTENTION_DELTA, row, delta[i], r->column4);
    }
}

static void emit_queries(tcc_emitter *e, const run *r) {
    const tcc_attention_gpu_plan *p = r->p;
    const tcc_attention *a = &p->a;
    layout l = layout_of(p);
    int groups = p->columns / 32, out_groups = (int)(tcc_round_up(a->D, 32) / 32), n = 4 * out_groups;
    int64_t keys_pitch = out_groups * 32 + 4;
    tcc_emit_value dq[4 * GROUPS], delta[4], lse[4], from, to, s[4 * GROUPS], dp[4 * GROUPS];
    emit_delta(e, r, delta);
    if (!a->has[TCC_ATTENTION_DQ]) return;
    copy_rows(e, r, TCC_ATTENTION_Q, r->b->row0, p->rows, a->T, a->D, l.d, true, r->first, p->rows + 4);
    copy_rows(e, r, TCC_ATTENTION_DO, r->b->row0, p->rows, a->T, a->E, l.e, true, r->second, p->rows + 4);
    for (int i = 0; i < 4; i++) {
        lse[i] = tcc_emit_splat(
            e, tcc_attention_shown(e, tcc_attention_load_value(e, r->b, TCC_ATTENTION_LSE, row_of(e, r, i))), 4);
        delta[i] = tcc_emit_splat(e, delta[i], 4);
    }
    clear(e, dq, n);
    tcc_attention_columns(e, r->b, &from, &to);
    tcc_emit_loop blocks;
    tcc_emit_value key0 = tcc_attention_blocks_begin(e, r->b, from, to, &blocks, dq, n);
    make_products(e, r, r->first, TCC_ATTENTION_K, key0, a->S, a->D, l.d, s);
    make_products(e, r, r->second, TCC_ATTENTION_V, key0, a->S, a->E, l.e, dp);
    copy_rows(e, r, TCC_ATTENTION_K, key0, p->columns, a->S, a->D, tcc_round_up(a->D, 32), false, r->columns,
              keys_pitch);
    for (int i = 0; i < 4; i++)
        for (int g = 0; g < groups; g++) {
            tcc_emit_value query = row_of(e, r, i);
            tcc_emit_value *x = &s[i * groups + g],
                           key = tcc_emit_add(e, key0, tcc_emit_add(e, r->column4, i32(e, g * 32)));
            *x = probability(e, score(e, r, *x, query, key, false), lse[i]);
            *x = score_gradient(e, r, *x, drop_keys(e, r, query, key, dp[i * groups + g]), delta[i]);
        }
    add_products(e, r, s, keys_pitch, out_groups, dq);
    tcc_emit_loop_end(e, &blocks, dq);
    store_rows(e, r, TCC_ATTENTION_DQ, a->T, a->D, out_groups, blocks.carry);
}

static void emit_keys(tcc_emitter *e, const run *r) {
    const tcc_attention_gpu_plan *p = r->p;
    const tcc_attention *a = &p->a;
    layout l = layout_of(p);
    bool want_k = a->has[TCC_ATTENTION_DK], want_v = a->has[TCC_ATTENTION_DV];
    int groups = p->columns / 32, k_groups = want_k ? (int)(tcc_round_up(a->D, 32) / 32) : 0,
        v_groups = want_v ? (int)(tcc_round_up(a->E, 32) / 32) : 0;
    int n_k = 4 * k_groups, n = n_k + 4 * v_groups;
    int64_t k_pitch = k_groups * 32 + 4, v_pitch = v_groups * 32 + 4;
    tcc_emit_value sums[8 * GROUPS], from, to, s[4 * GROUPS], dp[4 * GROUPS];
    copy_rows(e, r, TCC_ATTENTION_K, r->b->row0, p->rows, a->S, a->D, l.d, true, r->first, p->rows + 4);
    if (want_k) copy_rows(e, r, TCC_ATTENTION_V, r->b->row0, p->rows, a->S, a->E, l.e, true, r->second, p->rows + 4);
    clear(e, sums, n);
    tcc_attention_columns(e, r->b, &from, &to);
    tcc_emit_loop blocks;
    tcc_emit_value query0 = tcc_attention_blocks_begin(e, r->b, from, to, &blocks, sums, n);
    make_products(e, r, r->first, TCC_ATTENTION_Q, query0, a->T, a->D, l.d, s);
    if (want_k) {
        make_products(e, r, r->second, TCC_ATTENTION_DO, query0, a->T, a->E, l.e, dp);
    }
    for (int g = 0; g < groups; g++) {
        tcc_emit_value query = tcc_emit_add(e, query0, tcc_emit_add(e, r->column4, i32(e, g * 32))),
                       lse = tcc_emit_poison(four(e)), delta = lse;
        for (int k = 0; k < 4; k++) {
            tcc_emit_value t = tcc_emit_add(e, query, i32(e, k)),
                           one = tcc_attention_shown(e, tcc_attention_load_value(e, r->b, TCC_ATTENTION_LSE, t));
            lse = tcc_emit_insert(e, lse, one, i32(e, k));
            if (!want_k) continue;
            one = tcc_attention_load_value(e, r->b, TCC_ATTENTION_DELTA, t);
            delta = tcc_emit_insert(e, delta, one, i32(e, k));
        }
        tcc_emit_value kept[4] = {0}; /* of query + k: a bit for each of the thread's rows */
        for (int k = 0; k < 4 && a->has[TCC_ATTENTION_RNG]; k++)
            kept[k] = tcc_attention_keeps_four(e, r->b, tcc_emit_add(e, query, i32(e, k)), row_of(e, r, 0));
        for (int i = 0; i < 4; i++) {
            tcc_emit_value *x = &s[i * groups + g], key = row_of(e, r, i);
            const int place[4] = {i, i, i, i};
            *x = probability(e, score(e, r, *x, query, key, true), lse);
            if (want_k)
                dp[i * groups + g] = score_gradient(e, r, *x, drop(e, r, kept, place, dp[i * groups + g]), delta);
            if (want_v) *x = drop(e, r, kept, place, *x);
        }
    }
    if (want_v) {
        copy_rows(e, r, TCC_ATTENTION_DO, query0, p->columns, a->T, a->E, tcc_round_up(a->E, 32), false, r->columns,
                  v_pitch);
        add_products(e, r, s, v_pitch, v_groups, sums + n_k);
    }
    if (want_k) {
        copy_rows(e, r, TCC_ATTENTION_Q, query0, p->columns, a->T, a->D, tcc_round_up(a->D, 32), false, r->columns,
                  k_pitch);
        add_products(e, r, dp, k_pitch, k_groups, sums);
    }
    tcc_emit_loop_end(e, &blocks, sums);
    memcpy(sums, blocks.carry, sizeof *sums * (size_t)n);
    if (want_k) store_rows(e, r, TCC_ATTENTION_DK, a->S, a->D, k_groups, sums);
    if (want_v) store_rows(e, r, TCC_ATTENTION_DV, a->S, a->E, v_groups, sums + n_k);
}

void tcc_attention_fma(tcc_emitter *e, const tcc_attention_block *b) {
    layout l = layout_of(b->p);
    run r = {.p = b->p, .b = b, .first = e->scratch};
    r.second = at(e, r.first, i32(e, l.first));
    r.columns = at(e, r.second, i32(e, l.second));
    r.scores = at(e, r.columns, i32(e, l.columns));
    r.row4 = tcc_emit_add(e, tcc_emit_mul(e, b->warp, i32(e, WARP_ROWS)),
                          tcc_emit_mul(e, tcc_emit_div(e, b->in_warp, ROW_THREADS), i32(e, 4)));
    r.column4 = tcc_emit_mul(e, tcc_emit_rem(e, b->in_warp, ROW_THREADS), i32(e, 4));
    if (b->p->kind == TCC_ATTENTION_GPU_FORWARD) emit_forward(e, &r);
    else if (b->p->kind == TCC_ATTENTION_GPU_QUERIES) emit_queries(e, &r);
    else emit_keys(e, &r);
}
