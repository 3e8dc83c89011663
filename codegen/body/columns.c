/* SPDX-License-Identifier: MIT
 * Loads of all elements of short rows, a row for each lane: the first of all lanes, the second, and so on. Whole rows
 * are loaded and transposed in registers. A processor would gather the lanes one by one, for each element of a row. The
 * same of windows that do not overlap, as a pool's: a row of each is such a row. */
#include "codegen/body/run.h"

enum { MOST = 32 /* elements of a row */, MOST_PARTS = 8 /* of a vector of lanes */ };

static int lanes_of_part(const tcc_body_run *r) { return r->lanes < r->e->lanes ? r->lanes : r->e->lanes; }

/* The loads of all elements of the rows that x loads one of, in order; their number, 0: they are not all there. */
static int find_row(const tcc_body_run *r, const tcc_expr *x, const tcc_expr **row) {
    const int64_t stride = tcc_body_stride(r, &x->affine), part = lanes_of_part(r);
    if (stride < part || stride > MOST || stride % part || x->n_operands) return 0;
    int64_t first = x->affine.constant;
    int n = 0;
    for (int pass = 0; pass < 2; pass++) /* where the row begins, and what it has */
        for (int i = 0; i < r->body->exprs.count; i++) {
            const tcc_expr *y = r->body->exprs.data[i];
            if (y->kind != TCC_EXPR_LOAD || y->buffer != x->buffer || y->n_operands || !r->needed[i] || r->values[i])
                continue;
            tcc_affine moved = y->affine;
            moved.constant = x->affine.constant;
            if (!tcc_affine_equal(&moved, &x->affine)) continue;
            const int64_t at = y->affine.constant - first;
            if (pass == 0) first += at < 0 ? at : 0;
            else if (at >= stride) return 0;
            else row[at] = y, n++;
        }
    return n == stride ? n : 0;
}

bool tcc_body_has_columns(const tcc_body_run *r, const tcc_expr *x) {
    const tcc_expr *row[MOST];
    const tcc_emit_type f32 = r->e->f32;
    return !r->e->target->lane_groups && !r->mask && !r->forms && tcc_scalar_register(r->e, x->dtype) == f32 &&
           lanes_of_part(r) > 1 && r->lanes / lanes_of_part(r) <= MOST_PARTS && find_row(r, x, row);
}

/* Elements `from`, ... of the rows of lanes `first`, ...: as many as a register has lanes. */
static void load_square(tcc_body_run *r, const tcc_expr *x, int first, int64_t from, tcc_emit_value *columns) {
    tcc_emitter *e = r->e;
    const int lanes = lanes_of_part(r);
    const int64_t stride = tcc_body_stride(r, &x->affine);
    const tcc_emit_type memory = tcc_emit_dtype(e, x->dtype), type = tcc_emit_vector_type(memory, lanes);
    tcc_emit_value begin = tcc_body_offset(r, &x->affine);
    for (int i = 0; i < lanes; i++) {
        tcc_emit_value at = tcc_emit_add(e, begin, tcc_emit_i64(e, (first + i) * stride + from));
        columns[i] = tcc_emit_load(e, type, tcc_emit_at(e, memory, r->bases[x->buffer], at), 0);
        columns[i] = tcc_scalar_from_memory(e, columns[i], x->dtype);
    }
    tcc_emit_transpose_vectors(e, columns, lanes);
}

/* A column of squares below each other; their number is a power of two. */
static tcc_emit_value joined(tcc_emitter *e, tcc_emit_value *const *parts, int column, int n) {
    if (n == 1) return parts[0][column];
    return tcc_emit_append(e, joined(e, parts, column, n / 2), joined(e, parts + n / 2, column, n / 2));
}

void tcc_body_load_columns(tcc_body_run *r, const tcc_expr *x) {
    const tcc_expr *row[MOST];
    const int n = find_row(r, x, row), part = lanes_of_part(r), parts = r->lanes / part;
    tcc_emit_value columns[MOST_PARTS][MOST], *of[MOST_PARTS];
    for (int from = 0; from < n; from += part) {
        for (int i = 0; i < parts; i++) load_square(r, row[0], i * part, from, of[i] = columns[i]);
        for (int i = 0; i < part; i++) r->values[row[from + i]->id] = joined(r->e, of, i, parts);
    }
}

/* -- Windows beside each other -- */

/* What moves with `var` otherwise than as a loop is not there yet: then x is not ready. */
static bool has_window(const tcc_body_run *r, const tcc_expr *x, int var) {
    const int64_t extent = r->body->vars.data[var].high + 1;
    return x->kind == TCC_EXPR_LOAD && !x->n_operands && r->needed[x->id] && !r->values[x->id] &&
           !(x->loops & ~(r->open | UINT64_C(1) << var)) && tcc_body_ready(r, x) &&
           tcc_affine_coefficient(&x->affine, var) == 1 && tcc_body_stride(r, &x->affine) >= extent &&
           tcc_scalar_register(r->e, x->dtype) == r->e->f32;
}

int tcc_body_find_windows(const tcc_body_run *r, int var, const tcc_expr **loads, int most) {
    const int64_t extent = r->body->vars.data[var].high + 1;
    int n = 0;
    if (r->e->target->lane_groups || r->forms || extent != r->lanes || r->lanes > r->e->lanes || r->lanes < 4) return 0;
    for (int i = 0; i < r->body->exprs.count && n < most; i++)
        if (has_window(r, r->body->exprs.data[i], var)) loads[n++] = r->body->exprs.data[i];
    return n;
}

/* Lanes that do not exist read the first window again; where none does, the value's first elements. */
void tcc_body_load_windows(tcc_body_run *r, const tcc_expr *x, int var, tcc_emit_value *columns) {
    tcc_emitter *e = r->e;
    const int lanes = r->lanes;
    const int64_t stride = tcc_body_stride(r, &x->affine);
    const tcc_emit_type memory = tcc_emit_dtype(e, x->dtype), type = tcc_emit_vector_type(memory, lanes);
    tcc_body_enter(r, var, tcc_emit_i64(e, 0));
    const tcc_emit_value begin = tcc_body_offset(r, &x->affine);
    tcc_body_leave(r, var);
    tcc_emit_value other = tcc_emit_i64(e, 0);
    for (int i = 0; i < lanes; i++) {
        tcc_emit_value at = tcc_emit_add(e, begin, tcc_emit_i64(e, i * stride));
        if (r->mask) at = tcc_emit_select(e, tcc_emit_extract(e, r->mask, tcc_emit_i32(e, i)), at, other);
        if (!i) other = at;
        columns[i] = tcc_emit_load(e, type, tcc_emit_at(e, memory, r->bases[x->buffer], at), 0);
        columns[i] = tcc_scalar_from_memory(e, columns[i], x->dtype);
    }
    tcc_emit_transpose_vectors(e, columns, lanes);
}
