/* SPDX-License-Identifier: MIT
 * Running results: an element of a line maps the value before it, y, to a y + b. Two maps one after the other are such
 * a map again, which is how a line is taken in vectors and by many threads. */
#include "codegen/schedule/scan.h"

#include <float.h>

static tcc_emit_type wide_type(tcc_emitter *e, tcc_dtype dtype, int lanes) {
    return tcc_emit_vector_type(tcc_scalar_register(e, tcc_dtype_is_float(dtype) ? TCC_F64 : dtype), lanes);
}

static tcc_emit_value widen(tcc_emitter *e, tcc_emit_value value) {
    tcc_emit_type type = tcc_emit_type_of(value), wide = tcc_emit_type_like(e, e->f64, type);
    return tcc_emit_scalar_of(type) == e->f32 ? tcc_emit_fpext(e, value, wide) : value;
}

tcc_emit_value tcc_scan_narrow(tcc_emitter *e, tcc_emit_value y, tcc_dtype dtype) {
    tcc_emit_type type = tcc_emit_type_of(y), scalar = tcc_scalar_register(e, dtype);
    if (dtype == TCC_U8) return tcc_emit_and(e, y, tcc_emit_int(e, type, 255));
    return scalar == e->f32 ? tcc_emit_fptrunc(e, y, tcc_emit_type_like(e, scalar, type)) : y;
}

static tcc_emit_value one_of(tcc_emitter *e, tcc_emit_type type) {
    return tcc_emit_is_float(type) ? tcc_emit_float(e, type, 1) : tcc_emit_int(e, type, 1);
}

/* A linear scan of a alone is one of products. */
static bool is_products(const tcc_expr *x) { return x->op == TCC_OP_LINEAR_SCAN && x->n_operands == 1; }

int tcc_scan_begin(tcc_body_run *r, int lanes, tcc_emit_value *carry) {
    const tcc_body *b = r->body;
    int n = 0;
    for (int i = 0; i < b->stores.count; i++) tcc_body_need(r, b->stores.data[i].value);
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind != TCC_EXPR_REDUCE) continue;
        for (int k = 0; k < x->n_operands; k++) tcc_body_need(r, x->operands[k]);
        tcc_emit_type type = wide_type(r->e, x->dtype, lanes);
        carry[n++] = is_products(x) ? one_of(r->e, type) : tcc_emit_null(type);
    }
    return n;
}

tcc_scan_map tcc_scan_none(tcc_emitter *e, tcc_scan_map like) {
    return (tcc_scan_map){.a = like.a ? one_of(e, tcc_emit_type_of(like.a)) : NULL,
                          .b = like.b ? tcc_emit_null(tcc_emit_type_of(like.b)) : NULL};
}

tcc_scan_map tcc_scan_choose(tcc_emitter *e, tcc_emit_value condition, tcc_scan_map yes, tcc_scan_map no) {
    return (tcc_scan_map){.a = yes.a ? tcc_emit_select(e, condition, yes.a, no.a) : NULL,
                          .b = yes.b ? tcc_emit_select(e, condition, yes.b, no.b) : NULL};
}

tcc_scan_map tcc_scan_lane(tcc_emitter *e, tcc_scan_map map, int lane) {
    if (tcc_emit_lanes_of(tcc_emit_type_of(map.a ? map.a : map.b)) == 1) return map;
    tcc_emit_value at = tcc_emit_i32(e, lane);
    return (tcc_scan_map){.a = map.a ? tcc_emit_extract(e, map.a, at) : NULL,
                          .b = map.b ? tcc_emit_extract(e, map.b, at) : NULL};
}

tcc_scan_map tcc_scan_read(tcc_body_run *r, const tcc_expr *x, tcc_emit_value exists) {
    const int first_b = x->op == TCC_OP_LINEAR_SCAN;
    tcc_scan_map map = {0};
    if (first_b) map.a = widen(r->e, tcc_body_lanes(r, x->operands[0]));
    if (first_b < x->n_operands) map.b = widen(r->e, tcc_body_lanes(r, x->operands[first_b]));
    return exists ? tcc_scan_choose(r->e, exists, map, tcc_scan_none(r->e, map)) : map;
}

static tcc_emit_value multiply(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return tcc_emit_is_float(tcc_emit_type_of(a)) ? tcc_emit_fmul(e, a, b) : tcc_emit_imul(e, a, b);
}

tcc_emit_value tcc_scan_apply(tcc_emitter *e, tcc_scan_map map, tcc_emit_value y) {
    const bool floats = tcc_emit_is_float(tcc_emit_type_of(y));
    if (map.a && map.b && floats) return tcc_emit_fma(e, map.a, y, map.b);
    if (map.a) y = multiply(e, map.a, y);
    if (map.b) y = floats ? tcc_emit_fadd(e, y, map.b) : tcc_emit_iadd(e, y, map.b);
    return y;
}

tcc_scan_map tcc_scan_join(tcc_emitter *e, tcc_scan_map first, tcc_scan_map then) {
    return (tcc_scan_map){.a = first.a ? multiply(e, then.a, first.a) : NULL,
                          .b = first.b ? tcc_scan_apply(e, then, first.b) : NULL};
}

tcc_emit_value tcc_scan_is_finite(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_type type = tcc_emit_type_of(x);
    return tcc_emit_fcmp(e, TCC_FCMP_OLT, tcc_emit_intrinsic(e, "llvm.fabs", type, &x, 1),
                         tcc_emit_float(e, type, __builtin_inf()));
}

tcc_scan_map tcc_scan_join_bounded(tcc_emitter *e, tcc_scan_map first, tcc_scan_map then) {
    tcc_scan_map map = tcc_scan_join(e, first, then);
    if (!map.a || !tcc_emit_is_float(tcc_emit_type_of(map.a))) return map;
    tcc_emit_type type = tcc_emit_type_of(map.a);
    tcc_emit_value largest[] = {tcc_emit_float(e, type, DBL_MAX), map.a};
    tcc_emit_value factors = tcc_emit_and(e, tcc_scan_is_finite(e, first.a), tcc_scan_is_finite(e, then.a));
    tcc_emit_value beyond = tcc_emit_and(e, factors, tcc_emit_not(e, tcc_scan_is_finite(e, map.a)));
    map.a = tcc_emit_select(e, beyond, tcc_emit_intrinsic(e, "llvm.copysign", type, largest, 2), map.a);
    return map;
}
