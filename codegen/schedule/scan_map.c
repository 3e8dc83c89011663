/* SPDX-License-Identifier: MIT
 * Running results: an element of a line maps the value before it, y, to a y + b or to the larger of y and b. Two maps
 * one after the other are such a map again, which is how a line is taken in vectors and by many threads. */
#include "codegen/emit/math.h"
#include "codegen/schedule/scan.h"

#include <float.h>

static tcc_emit_type carry_type(tcc_emitter *e, const tcc_expr *x, int lanes) {
    const bool widens = tcc_dtype_is_float(x->dtype) && x->op != TCC_OP_CUMMAX;
    return tcc_emit_vector_type(tcc_scalar_register(e, widens ? TCC_F64 : x->dtype), lanes);
}

static tcc_emit_value widen(tcc_emitter *e, tcc_emit_value value) {
    tcc_emit_type type = tcc_emit_type_of(value), wide = tcc_emit_type_like(e, e->f64, type);
    return tcc_emit_scalar_of(type) == e->f32 ? tcc_emit_fpext(e, value, wide) : value;
}

tcc_emit_value tcc_scan_narrow(tcc_emitter *e, tcc_emit_value y, tcc_dtype dtype) {
    tcc_emit_type type = tcc_emit_type_of(y), scalar = tcc_scalar_register(e, dtype);
    if (dtype == TCC_U8) return tcc_emit_and(e, y, tcc_emit_int(e, type, 255));
    return scalar == e->f32 && tcc_emit_scalar_of(type) == e->f64
               ? tcc_emit_fptrunc(e, y, tcc_emit_type_like(e, scalar, type))
               : y;
}

static tcc_emit_value one_of(tcc_emitter *e, tcc_emit_type type) {
    return tcc_emit_is_float(type) ? tcc_emit_float(e, type, 1) : tcc_emit_int(e, type, 1);
}

/* Least of the numbers that a register of that type holds of a running maximum's; a u8 is in an i32. */
static tcc_emit_value least_of(tcc_emitter *e, tcc_emit_type type) {
    if (tcc_emit_is_float(type)) return tcc_emit_float(e, type, -__builtin_inf());
    return tcc_emit_int(e, type, tcc_emit_scalar_of(type) == e->i64 ? INT64_MIN : INT32_MIN);
}

/* What is before the first element. */
static tcc_emit_value start_of(tcc_emitter *e, const tcc_expr *x, tcc_emit_type type) {
    if (x->op == TCC_OP_CUMMAX) return least_of(e, type);
    /* a linear scan of a alone is one of products */
    return x->op == TCC_OP_LINEAR_SCAN && x->n_operands == 1 ? one_of(e, type) : tcc_emit_null(type);
}

int tcc_scan_begin(tcc_body_run *r, int lanes, tcc_emit_value *carry) {
    const tcc_body *b = r->body;
    int n = 0;
    for (int i = 0; i < b->stores.count; i++) tcc_body_need(r, b->stores.data[i].value);
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind != TCC_EXPR_REDUCE) continue;
        for (int k = 0; k < x->n_operands; k++) tcc_body_need(r, x->operands[k]);
        if (tcc_scan_is_step(x)) continue;
        carry[n++] = start_of(r->e, x, carry_type(r->e, x, lanes));
    }
    return n;
}

tcc_scan_map tcc_scan_with(tcc_scan_map like, tcc_emit_value a, tcc_emit_value b) {
    return (tcc_scan_map){.a = a, .b = b, .largest = like.largest};
}

tcc_scan_map tcc_scan_none(tcc_emitter *e, tcc_scan_map like) {
    if (like.largest) return tcc_scan_with(like, NULL, least_of(e, tcc_emit_type_of(like.b)));
    return tcc_scan_with(like, like.a ? one_of(e, tcc_emit_type_of(like.a)) : NULL,
                         like.b ? tcc_emit_null(tcc_emit_type_of(like.b)) : NULL);
}

tcc_scan_map tcc_scan_choose(tcc_emitter *e, tcc_emit_value condition, tcc_scan_map yes, tcc_scan_map no) {
    return tcc_scan_with(yes, yes.a ? tcc_emit_select(e, condition, yes.a, no.a) : NULL,
                         yes.b ? tcc_emit_select(e, condition, yes.b, no.b) : NULL);
}

tcc_scan_map tcc_scan_lane(tcc_emitter *e, tcc_scan_map map, int lane) {
    if (tcc_emit_lanes_of(tcc_emit_type_of(map.a ? map.a : map.b)) == 1) return map;
    tcc_emit_value at = tcc_emit_i32(e, lane);
    return tcc_scan_with(map, map.a ? tcc_emit_extract(e, map.a, at) : NULL,
                         map.b ? tcc_emit_extract(e, map.b, at) : NULL);
}

tcc_scan_map tcc_scan_read(tcc_body_run *r, const tcc_expr *x, tcc_emit_value exists) {
    const bool largest = x->op == TCC_OP_CUMMAX;
    tcc_emit_value v[2] = {0};
    for (int k = 0; k < x->n_operands; k++) {
        v[k] = tcc_body_lanes(r, x->operands[k]);
        if (!largest) v[k] = widen(r->e, v[k]);
    }
    tcc_scan_map map = {.a = v[1], .b = v[0], .largest = largest};
    if (x->op == TCC_OP_LINEAR_SCAN) map.a = v[0], map.b = v[1];
    return exists ? tcc_scan_choose(r->e, exists, map, tcc_scan_none(r->e, map)) : map;
}

static bool is_condition(tcc_emitter *e, tcc_emit_value a) { return tcc_emit_scalar_of(tcc_emit_type_of(a)) == e->i1; }

static tcc_emit_value multiply(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    if (is_condition(e, a)) return tcc_emit_and(e, a, b);
    return tcc_emit_is_float(tcc_emit_type_of(a)) ? tcc_emit_fmul(e, a, b) : tcc_emit_imul(e, a, b);
}

static tcc_emit_value add(tcc_emitter *e, tcc_emit_value y, tcc_emit_value b) {
    return tcc_emit_is_float(tcc_emit_type_of(y)) ? tcc_emit_fadd(e, y, b) : tcc_emit_iadd(e, y, b);
}

/* Of equal ones and of two NaNs the later, b, bit for bit. */
static tcc_emit_value larger(tcc_emitter *e, tcc_emit_value y, tcc_emit_value b) {
    if (!tcc_emit_is_float(tcc_emit_type_of(y))) return tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_SGT, y, b), y, b);
    tcc_emit_value stays = tcc_emit_and(e, tcc_emit_fcmp(e, TCC_FCMP_ULT, b, y), tcc_emit_fcmp(e, TCC_FCMP_ORD, b, b));
    return tcc_emit_select(e, stays, y, b);
}

tcc_emit_value tcc_scan_apply(tcc_emitter *e, tcc_scan_map map, tcc_emit_value y) {
    if (map.largest) return larger(e, y, map.b);
    if (map.a && is_condition(e, map.a)) return tcc_emit_select(e, map.a, add(e, y, map.b), map.b);
    if (map.a && map.b && tcc_emit_is_float(tcc_emit_type_of(y))) return tcc_emit_fma(e, map.a, y, map.b);
    if (map.a) y = multiply(e, map.a, y);
    return map.b ? add(e, y, map.b) : y;
}

tcc_scan_map tcc_scan_join(tcc_emitter *e, tcc_scan_map first, tcc_scan_map then) {
    return tcc_scan_with(first, first.a ? multiply(e, then.a, first.a) : NULL,
                         first.b ? tcc_scan_apply(e, then, first.b) : NULL);
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
    tcc_emit_value factors = tcc_emit_and(e, tcc_scan_is_finite(e, first.a), tcc_scan_is_finite(e, then.a));
    tcc_emit_value beyond = tcc_emit_and(e, factors, tcc_emit_not(e, tcc_scan_is_finite(e, map.a)));
    tcc_emit_value largest = tcc_math_copy_sign(e, tcc_emit_float(e, type, DBL_MAX), map.a);
    map.a = tcc_emit_select(e, beyond, largest, map.a);
    return map;
}
