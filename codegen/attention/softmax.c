/* SPDX-License-Identifier: MIT
 * Helpers of softmax for both targets: maxima of rows that may see no key, and inverse denominators. */
#include "codegen/attention/internal.h"

#include <math.h>

tcc_emit_value tcc_attention_larger(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return tcc_emit_select(e, tcc_emit_fcmp(e, TCC_FCMP_OGT, a, b), a, b);
}

tcc_emit_value tcc_attention_shown(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_type type = tcc_emit_type_of(x);
    tcc_emit_value hidden = tcc_emit_fcmp(e, TCC_FCMP_OEQ, x, tcc_emit_float(e, type, -INFINITY));
    return tcc_emit_select(e, hidden, tcc_emit_float(e, type, 0), x);
}

tcc_emit_value tcc_attention_inverse(tcc_emitter *e, tcc_emit_value denominator) {
    tcc_emit_value one = tcc_emit_float(e, e->f32, 1), zero = tcc_emit_float(e, e->f32, 0);
    tcc_emit_value empty = tcc_emit_fcmp(e, TCC_FCMP_OEQ, denominator, zero);
    return tcc_emit_select(e, empty, zero, tcc_emit_fdiv(e, one, denominator));
}
