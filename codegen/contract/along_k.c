/* SPDX-License-Identifier: MIT
 * A few rows of A times columns of B that are contiguous along k, as a vector and the transpose of a matrix: vectors
 * run along k. Each element of C then has the lanes of one or several vectors as partial sums. Nothing is packed, and
 * each column is read from its beginning to its end, a few of them at a time.
 *
 * The sums of a panel are those of as many columns as a vector has lanes, so that what follows is the same as with
 * lanes along n. Which terms a lane adds up follows from M and the target's registers. */
#include "codegen/contract/internal.h"
#include "codegen/schedule/reduce.h"

/* Of a panel: what is at hand of it in registers. */
typedef struct along_k {
    const tcc_contract_plan *p;
    tcc_dtype a_type;
    int64_t a_row;          /* elements from row to row of A */
    int columns, abreast;   /* columns of B at a time, and vectors of each */
    tcc_emit_value a, b[4]; /* where the block's first row of A begins, and the columns */
} along_k;

/* Sums in registers, half of which are left for A and B. How many an element has must not follow from N: columns that
 * an epilogue does not let be one loop have several. */
static void choose_sums(const tcc_emitter *e, const tcc_contract_plan *p, int *columns, int *abreast) {
    enum { MOST_COLUMNS = 4, MANY_REGISTERS = 32 };
    const int most = e->target->registers >= MANY_REGISTERS ? 16 : 8;
    *columns = MOST_COLUMNS;
    while (*columns * p->rows > most) *columns /= 2;
    *abreast = most / (*columns * p->rows);
    while (*columns / 2 >= p->N) *columns /= 2;
}

/* Adds the products of `count` vectors from `at` on to so many sums of each element. */
static void add_products(tcc_emitter *e, const along_k *s, tcc_emit_value at, int count, tcc_emit_value mask,
                         tcc_emit_value *sums) {
    const tcc_dtype b_type = s->p->c.dtype;
    for (int v = 0; v < count; v++) {
        tcc_emit_value offset = tcc_emit_add(e, at, tcc_emit_i64(e, (int64_t)v * e->lanes)), a[4];
        for (int i = 0; i < s->p->rows; i++) {
            tcc_emit_value row = tcc_emit_add(e, offset, tcc_emit_i64(e, i * s->a_row));
            a[i] = tcc_contract_load_lanes(e, s->a_type, tcc_contract_at(e, s->a_type, s->a, row), 0, mask);
        }
        for (int c = 0; c < s->columns; c++) {
            tcc_emit_value b = tcc_contract_load_lanes(e, b_type, tcc_contract_at(e, b_type, s->b[c], offset), 0, mask);
            for (int i = 0; i < s->p->rows; i++) {
                tcc_emit_value *sum = &sums[(i * s->columns + c) * s->abreast + v];
                *sum = tcc_emit_fma(e, a[i], b, *sum);
            }
        }
    }
}

/* The same of all whole groups of vectors in [from, count). Returns where they end. */
static tcc_emit_value add_groups(tcc_emitter *e, const along_k *s, tcc_emit_value from, tcc_emit_value count,
                                 int abreast, tcc_emit_value *sums) {
    const int64_t step = (int64_t)abreast * e->lanes;
    const int n = s->p->rows * s->columns * s->abreast;
    tcc_emit_value next[TCC_EMIT_MAX_CARRY];
    tcc_emit_value to = tcc_emit_mul(e, tcc_emit_div(e, count, step), tcc_emit_i64(e, step));
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, from, to, step, sums, n);
    for (int i = 0; i < n; i++) next[i] = loop.carry[i];
    add_products(e, s, loop.index, abreast, NULL, next);
    tcc_emit_loop_end(e, &loop, next);
    for (int i = 0; i < n; i++) sums[i] = loop.carry[i];
    return to;
}

/* The sums of some columns over the block, each one vector, whose lanes are still to be added up. */
static void sum_columns(tcc_emitter *e, const along_k *s, tcc_emit_value count, tcc_emit_value *out, int stride) {
    const tcc_contract_plan *p = s->p;
    const int64_t last = p->c.k.d[0].extent % p->k_step;
    tcc_emit_value sums[TCC_EMIT_MAX_CARRY];
    for (int i = 0; i < p->rows * s->columns * s->abreast; i++) sums[i] = tcc_emit_float(e, e->vf32, 0);
    tcc_emit_value done = add_groups(e, s, tcc_emit_i64(e, 0), count, s->abreast, sums);
    const int64_t group = (int64_t)s->abreast * e->lanes;
    if (p->k_step % group || last % group) done = add_groups(e, s, done, count, 1, sums);
    if (p->k_step % e->lanes || last % e->lanes)
        add_products(e, s, done, 1, tcc_emit_mask(e, e->lanes, tcc_emit_sub(e, count, done)), sums);
    for (int i = 0; i < p->rows; i++)
        for (int c = 0; c < s->columns; c++) {
            tcc_emit_value *all = sums + (i * s->columns + c) * s->abreast;
            for (int width = s->abreast; width > 1; width /= 2)
                for (int v = 0; v < width / 2; v++) all[v] = tcc_emit_fadd(e, all[v], all[v + width / 2]);
            out[i * stride + c] = all[0];
        }
}

void tcc_contract_sum_along_k(tcc_emitter *e, const tcc_contract_plan *p, const tcc_contract_tile *t, tcc_emit_value a,
                              tcc_emit_value b, tcc_emit_value n0, tcc_emit_value count, tcc_emit_value *sums) {
    along_k s = {.p = p, .a_type = t->a_type, .a_row = t->a_row, .a = tcc_emit_anchor(e, a)};
    enum { MOST_ROWS = 4, MOST_LANES = 16 };
    tcc_emit_value all[MOST_ROWS * MOST_LANES];
    for (int i = 0; i < p->rows * e->lanes; i++) all[i] = tcc_emit_float(e, e->vf32, 0);
    choose_sums(e, p, &s.columns, &s.abreast);
    for (int first = 0; first < e->lanes && first < p->N; first += s.columns) {
        for (int c = 0; c < s.columns; c++) {
            tcc_emit_value column = tcc_emit_i64(e, first + c);
            /* One past the last is that one again. */
            if (p->N % e->lanes) column = tcc_emit_min(e, column, tcc_emit_sub(e, tcc_emit_i64(e, p->N - 1), n0));
            column = tcc_emit_mul(e, column, tcc_emit_i64(e, p->c.n.d[0].b));
            s.b[c] = tcc_emit_anchor(e, tcc_contract_at(e, t->b_type, b, column));
        }
        sum_columns(e, &s, count, all + first, e->lanes);
    }
    for (int i = 0; i < p->rows; i++)
        sums[i] = tcc_reduce_fold_rows(e, TCC_OP_REDUCE_SUM, all + (ptrdiff_t)i * e->lanes, 1, e->lanes);
}
