/* SPDX-License-Identifier: MIT
 * Tables that one instruction looks up, and functions by full vectors. */
#include "codegen/emit/math_tables.h"

enum { MOST = 64 };

bool tcc_math_has_tables(const tcc_emitter *e) { return e->target->lanes == 16 || e->target->lanes == 8; }

tcc_emit_value tcc_math_permute(tcc_emitter *e, tcc_emit_value x, tcc_emit_value index) {
    tcc_emit_value arguments[] = {x, index};
    return tcc_emit_intrinsic(e, e->target->lanes == 16 ? "llvm.x86.avx512.permvar.sf.512" : "llvm.x86.avx2.permps",
                              NULL, arguments, 2);
}

tcc_emit_value tcc_math_look_up(tcc_emitter *e, const float *table, tcc_emit_value index) {
    tcc_emit_value entries[MOST];
    for (int i = 0; i < e->target->lanes; i++) entries[i] = LLVMConstReal(e->f32, (double)table[i]);
    return tcc_math_permute(e, LLVMConstVector(entries, (unsigned)e->target->lanes), index);
}

/* Lanes first, first + 1, ... of x as a full vector; those past the end of x hold anything. */
static tcc_emit_value part(tcc_emitter *e, tcc_emit_value x, int first) {
    const int full = e->target->lanes, lanes = tcc_emit_lanes_of(tcc_emit_type_of(x));
    int indices[MOST];
    if (lanes == full) return x;
    if (lanes == 1) {
        tcc_emit_type type = tcc_emit_vector_type(tcc_emit_type_of(x), full);
        return tcc_emit_insert(e, tcc_emit_poison(type), x, tcc_emit_i32(e, 0));
    }
    for (int i = 0; i < full; i++) indices[i] = first + i < lanes ? first + i : -1;
    return tcc_emit_shuffle(e, x, NULL, indices, full);
}

tcc_emit_value tcc_math_by_parts(tcc_emitter *e, tcc_math_of_full f, tcc_emit_value x, tcc_emit_value y) {
    const int full = e->target->lanes, lanes = tcc_emit_lanes_of(tcc_emit_type_of(x));
    int indices[MOST];
    tcc_emit_value all = f(e, part(e, x, 0), y ? part(e, y, 0) : NULL);
    if (lanes == 1) return tcc_emit_extract(e, all, tcc_emit_i32(e, 0));
    for (int i = 0; i < MOST; i++) indices[i] = i;
    if (lanes < full) return tcc_emit_shuffle(e, all, NULL, indices, lanes);
    for (int first = full; first < lanes; first += full)
        all = tcc_emit_append(e, all, f(e, part(e, x, first), y ? part(e, y, first) : NULL));
    return all;
}
