/* SPDX-License-Identifier: MIT
 * Lanes of one vector picked by the indices in another, on hosts that have an instruction for it. */
#include "codegen/emit/math_tables.h"

enum { MOST_LANES = 64 };

bool tcc_emit_has_permutes(const tcc_llvm_target *t, int lanes) {
    return !t->lane_groups && (t->lanes == 16 || t->lanes == 8) && lanes % t->lanes == 0 && lanes <= MOST_LANES;
}

static tcc_emit_value part_of(tcc_emitter *e, tcc_emit_value v, int first) {
    const int full = e->target->lanes;
    int indices[MOST_LANES];
    if (tcc_emit_lanes_of(tcc_emit_type_of(v)) == full) return v;
    for (int i = 0; i < full; i++) indices[i] = first + i;
    return tcc_emit_shuffle(e, v, NULL, indices, full);
}

/* Of `n` registers, a power of two; each looks at the lowest bits of an index alone, or two do together. */
static tcc_emit_value pick(tcc_emitter *e, const tcc_emit_value *parts, int n, tcc_emit_value index) {
    const int full = e->target->lanes;
    if (n == 1) return tcc_math_permute(e, parts[0], index);
    if (n == 2 && full == 16) {
        tcc_emit_value arguments[] = {parts[0], index, parts[1]};
        return tcc_emit_intrinsic(e, "llvm.x86.avx512.vpermi2var.ps.512", NULL, arguments, 3);
    }
    tcc_emit_type type = tcc_emit_type_of(index);
    tcc_emit_value low = pick(e, parts, n / 2, index), high = pick(e, parts + n / 2, n / 2, index);
    tcc_emit_value bit = tcc_emit_and(e, index, tcc_emit_int(e, type, n / 2 * full));
    return tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_NE, bit, tcc_emit_null(type)), high, low);
}

tcc_emit_value tcc_emit_permute(tcc_emitter *e, tcc_emit_value from, tcc_emit_value indices) {
    const int full = e->target->lanes, n = tcc_emit_lanes_of(tcc_emit_type_of(from)) / full;
    const int lanes = tcc_emit_lanes_of(tcc_emit_type_of(indices));
    tcc_emit_value parts[MOST_LANES], all = NULL;
    for (int i = 0; i < n; i++)
        parts[i] = tcc_emit_bitcast(e, part_of(e, from, i * full), tcc_emit_vector_type(e->f32, full));
    for (int first = 0; first < lanes; first += full) {
        tcc_emit_value next = pick(e, parts, n, part_of(e, indices, first));
        all = all ? tcc_emit_append(e, all, next) : next;
    }
    return tcc_emit_bitcast(e, all, tcc_emit_vector_type(tcc_emit_scalar_of(tcc_emit_type_of(from)), lanes));
}
