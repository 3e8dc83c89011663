/* SPDX-License-Identifier: MIT
 * Transposing square blocks of vectors in registers. */
#include "codegen/emit/emitter.h"

#include <string.h>

/* One instruction. Left to itself LLVM looks for a better one through all shuffles before it, which took it more than
 * half of a kernel's compile time and never found any. */
static tcc_emit_value shuffle(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b, const int *mask, int lanes) {
    tcc_emit_value x = tcc_emit_shuffle(e, a, b, mask, lanes);
    const bool is_register = tcc_emit_type_of(x) == e->vf32 || tcc_emit_type_of(x) == e->vi32;
    return is_register ? tcc_emit_anchor(e, x) : x;
}

/* Four by four within the 128-bit parts, with shuffles that stay inside a part, then the parts by taking even and odd
 * ones: every step is one cheap instruction. */
static void transpose(tcc_emitter *e, tcc_emit_value *rows) {
    const int lanes = e->lanes, parts = lanes / 4;
    static const int in_part[4][4] = {
        {0, 16, 1, 17}, {2, 18, 3, 19}, {0, 1, 16, 17}, {2, 3, 18, 19}}; /* 16: the other's */
    int masks[4][16], even[16], odd[16];
    for (int i = 0; i < lanes; i++) {
        for (int m = 0; m < 4; m++) {
            int from = in_part[m][i % 4];
            masks[m][i] = from % 16 + i / 4 * 4 + (from >= 16 ? lanes : 0);
        }
        even[i] = i / 4 * 8 + i % 4; /* of a and b joined */
        odd[i] = even[i] + 4;
    }
    tcc_emit_value columns[4][4]; /* [column in part][group of four rows] */
    for (int g = 0; g < parts; g++) {
        tcc_emit_value *r = rows + 4 * g, t[4];
        for (int i = 0; i < 4; i++) t[i] = shuffle(e, r[i / 2 * 2], r[i / 2 * 2 + 1], masks[i % 2], lanes);
        for (int i = 0; i < 4; i++) columns[i][g] = shuffle(e, t[i / 2], t[i / 2 + 2], masks[2 + i % 2], lanes);
    }
    for (int c = 0; c < 4; c++) {
        for (int stage = 1; stage < parts; stage *= 2) {
            tcc_emit_value next[4];
            for (int i = 0; i < parts / 2; i++) {
                next[i] = shuffle(e, columns[c][2 * i], columns[c][2 * i + 1], even, lanes);
                next[i + parts / 2] = shuffle(e, columns[c][2 * i], columns[c][2 * i + 1], odd, lanes);
            }
            memcpy(columns[c], next, sizeof *next * (size_t)parts);
        }
        for (int i = 0; i < parts; i++) rows[4 * i + c] = columns[c][i];
    }
}

static tcc_emit_value line_f32(tcc_emitter *e, const tcc_emit_square *s, int i) {
    tcc_emit_value last = tcc_emit_sub(e, s->rows, tcc_emit_i64(e, 1));
    tcc_emit_value row = tcc_emit_mul(e, tcc_emit_min(e, tcc_emit_i64(e, i), last), s->stride);
    return tcc_emit_load_masked(e, e->vf32, tcc_emit_at(e, e->f32, s->from, row), s->mask);
}

void tcc_emit_transpose(tcc_emitter *e, tcc_emit_value from, int64_t from_stride, tcc_emit_value rows,
                        tcc_emit_value columns, tcc_emit_value to, int64_t to_stride) {
    tcc_emit_transpose_lines(e, "tcc_transpose", line_f32, from, from_stride, rows, columns, to, to_stride);
}

void tcc_emit_transpose_lines(tcc_emitter *e, const char *name, tcc_emit_line line, tcc_emit_value from,
                              int64_t from_stride, tcc_emit_value rows, tcc_emit_value columns, tcc_emit_value to,
                              int64_t to_stride) {
    tcc_emit_type types[] = {e->ptr, e->i64, e->i64, e->i64, e->ptr, e->i64};
    tcc_emit_function f;
    if (!tcc_emit_function_find(e, name, &f)) {
        f = tcc_emit_function_begin(e, name, e->void_, types, 6);
        tcc_emit_value argument[6], lines[16];
        for (int i = 0; i < 6; i++) argument[i] = tcc_emit_argument(&f, i);
        const tcc_emit_square s = {.from = argument[0],
                                   .stride = argument[1],
                                   .rows = argument[2],
                                   .columns = argument[3],
                                   .mask = tcc_emit_mask(e, e->lanes, argument[3])};
        for (int i = 0; i < e->lanes; i++) lines[i] = line(e, &s, i);
        transpose(e, lines);
        for (int i = 0; i < e->lanes; i++) {
            tcc_emit_value row = tcc_emit_mul(e, tcc_emit_i64(e, i), argument[5]);
            tcc_emit_store(e, lines[i], tcc_emit_at(e, e->f32, argument[4], row), 4);
        }
        tcc_emit_function_end(e, &f, NULL);
    }
    tcc_emit_value arguments[] = {from, tcc_emit_i64(e, from_stride), rows, columns, to, tcc_emit_i64(e, to_stride)};
    tcc_emit_call(e, &f, arguments, 6);
}

/* log2(lanes) rounds of exchanges between rows that differ in one bit. */
void tcc_emit_transpose_vectors(tcc_emitter *e, tcc_emit_value *rows, int lanes) {
    for (int bit = 1; bit < lanes; bit *= 2) {
        int low[64], high[64];
        for (int l = 0; l < lanes; l++) {
            low[l] = l & bit ? lanes + l - bit : l;
            high[l] = l & bit ? lanes + l : l + bit;
        }
        for (int i = 0; i < lanes; i++) {
            if (i & bit) continue;
            tcc_emit_value a = rows[i], b = rows[i + bit];
            rows[i] = shuffle(e, a, b, low, lanes);
            rows[i + bit] = shuffle(e, a, b, high, lanes);
        }
    }
}
