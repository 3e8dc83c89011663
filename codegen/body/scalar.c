/* SPDX-License-Identifier: MIT
 * Emission of element-by-element ops on register values, scalar or vector alike: one rule an op, in a table by op.
 * Registers hold f32 for f32, f16 and bf16; i32 for i32 and u8 (zero-extended); i1 for bool. */
#include "codegen/body/body.h"
#include "codegen/emit/math.h"
#include "codegen/emit/math64.h"

#include <math.h>
#include <stdio.h>

#define GELU_C 0.79788456080286535588 /* sqrt(2 / pi) */
#define GELU_K 0.044715

typedef struct scalar_cx {
    tcc_emitter *e;
    tcc_op op;
    tcc_dtype result, operand; /* element types of the result and of operand 0 */
    tcc_emit_type type;        /* register type of operand 0, with lanes */
    bool is_float, is_bool;    /* of operand 0 */
} scalar_cx;

typedef tcc_emit_value (*scalar_rule)(const scalar_cx *c, tcc_emit_value *v);

static tcc_emit_value number(const scalar_cx *c, double x) { return tcc_emit_float(c->e, c->type, x); }
static tcc_emit_value integer(const scalar_cx *c, int64_t x) { return tcc_emit_int(c->e, c->type, x); }
static tcc_emit_value select_(const scalar_cx *c, tcc_emit_value condition, tcc_emit_value yes, tcc_emit_value no) {
    return tcc_emit_select(c->e, condition, yes, no);
}
static tcc_emit_value compare(const scalar_cx *c, tcc_emit_fcmp_kind p, tcc_emit_value a, tcc_emit_value b) {
    return tcc_emit_fcmp(c->e, p, a, b);
}
static tcc_emit_value icompare(const scalar_cx *c, tcc_emit_icmp_kind p, tcc_emit_value a, tcc_emit_value b) {
    return tcc_emit_icmp(c->e, p, a, b);
}
/* u8 lives in 32 bits: bring a result back into range. */
static tcc_emit_value wrap(const scalar_cx *c, tcc_emit_value v) {
    return c->operand == TCC_U8 ? tcc_emit_and(c->e, v, integer(c, 255)) : v;
}
static tcc_emit_value intrinsic1(const scalar_cx *c, const char *name, tcc_emit_value x) {
    return tcc_emit_intrinsic(c->e, name, tcc_emit_type_of(x), &x, 1);
}

static tcc_emit_value rule_neg(const scalar_cx *c, tcc_emit_value *v) {
    if (c->is_float) return tcc_emit_fneg(c->e, v[0]);
    return wrap(c, tcc_emit_isub(c->e, integer(c, 0), v[0]));
}
static tcc_emit_value rule_abs(const scalar_cx *c, tcc_emit_value *v) {
    if (c->is_float) return intrinsic1(c, "llvm.fabs", v[0]);
    return select_(c, icompare(c, TCC_ICMP_SLT, v[0], integer(c, 0)), tcc_emit_isub(c->e, integer(c, 0), v[0]), v[0]);
}
static tcc_emit_value rule_sign(const scalar_cx *c, tcc_emit_value *v) {
    if (c->is_float) {
        tcc_emit_value zero = number(c, 0);
        tcc_emit_value low = select_(c, compare(c, TCC_FCMP_OLT, v[0], zero), number(c, -1), v[0]); /* 0 and NaN stay */
        return select_(c, compare(c, TCC_FCMP_OGT, v[0], zero), number(c, 1), low);
    }
    tcc_emit_value low = select_(c, icompare(c, TCC_ICMP_SLT, v[0], integer(c, 0)), integer(c, -1), integer(c, 0));
    return select_(c, icompare(c, TCC_ICMP_SGT, v[0], integer(c, 0)), integer(c, 1), low);
}

/* A function of both precisions. */
#define BOTH(name)                                                                       \
    static tcc_emit_value rule_##name(const scalar_cx *c, tcc_emit_value *v) {           \
        return c->operand == TCC_F64 ? tcc_math64_##name(c->e, v[0])                     \
                                     : tcc_math_by_vectors(c->e, tcc_math_##name, v[0]); \
    }
BOTH(exp)
BOTH(log)
BOTH(tanh)
BOTH(sigmoid)
BOTH(erf)
BOTH(erfinv)
BOTH(expm1)
BOTH(log1p)
BOTH(atan)
BOTH(sinh)
BOTH(cosh)

/* Of three precisions. */
#define SINE(name)                                                                                               \
    static tcc_emit_value rule_##name(const scalar_cx *c, tcc_emit_value *v) {                                   \
        if (c->operand == TCC_F64) return tcc_math64_##name(c->e, v[0]);                                         \
        return tcc_math_by_vectors(c->e, c->result == TCC_F32 ? tcc_math_##name : tcc_math_narrow_##name, v[0]); \
    }
SINE(sin)
SINE(cos)

static tcc_emit_value rule_normal_density(const scalar_cx *c, tcc_emit_value *v) {
    tcc_emit_value of_erf = tcc_emit_fmul(c->e, v[0], number(c, M_SQRT1_2)); /* as GELU has it */
    tcc_emit_value slope = c->operand == TCC_F64 ? NULL : tcc_math_erf_slope(c->e, of_erf);
    if (slope) return tcc_emit_fmul(c->e, slope, number(c, 0.5 * M_SQRT1_2));
    tcc_emit_value power = tcc_emit_fmul(c->e, tcc_emit_fmul(c->e, v[0], v[0]), number(c, -0.5));
    return tcc_emit_fmul(c->e, rule_exp(c, &power), number(c, 0.5 * M_SQRT1_2 * M_2_SQRTPI));
}

/* (1 + tanh(c (x + k x^3))) / 2, which is a sigmoid of twice that, and x^2 */
static tcc_emit_value gelu_share(const scalar_cx *c, tcc_emit_value x, tcc_emit_value *square) {
    *square = tcc_emit_fmul(c->e, x, x);
    tcc_emit_value factor = tcc_emit_fadd(c->e, tcc_emit_fmul(c->e, *square, number(c, 2 * GELU_C * GELU_K)),
                                          number(c, 2 * GELU_C));
    tcc_emit_value inner = tcc_emit_fmul(c->e, x, factor);
    return rule_sigmoid(c, &inner);
}
static tcc_emit_value rule_gelu_tanh(const scalar_cx *c, tcc_emit_value *v) {
    tcc_emit_value square;
    return tcc_emit_fmul(c->e, v[0], gelu_share(c, v[0], &square));
}
/* dy (s + x s (1 - s) 2 c (1 + 3 k x^2)) */
static tcc_emit_value rule_gelu_tanh_grad(const scalar_cx *c, tcc_emit_value *v) {
    tcc_emit_value square, share = gelu_share(c, v[0], &square);
    tcc_emit_value inner = tcc_emit_fadd(c->e, tcc_emit_fmul(c->e, square, number(c, 6 * GELU_C * GELU_K)),
                                         number(c, 2 * GELU_C));
    tcc_emit_value rest = tcc_emit_fmul(c->e, share, tcc_emit_fsub(c->e, number(c, 1), share));
    rest = tcc_emit_fmul(c->e, tcc_emit_fmul(c->e, v[0], rest), inner);
    return tcc_emit_fmul(c->e, v[1], tcc_emit_fadd(c->e, share, rest));
}

static tcc_emit_value rule_sqrt(const scalar_cx *c, tcc_emit_value *v) { return intrinsic1(c, "llvm.sqrt", v[0]); }
static tcc_emit_value rule_rsqrt(const scalar_cx *c, tcc_emit_value *v) {
    if (c->operand != TCC_F64) return tcc_math_rsqrt(c->e, v[0]);
    return tcc_emit_fdiv(c->e, number(c, 1), intrinsic1(c, "llvm.sqrt", v[0]));
}
static tcc_emit_value rule_floor(const scalar_cx *c, tcc_emit_value *v) { return intrinsic1(c, "llvm.floor", v[0]); }
static tcc_emit_value rule_ceil(const scalar_cx *c, tcc_emit_value *v) { return intrinsic1(c, "llvm.ceil", v[0]); }
static tcc_emit_value rule_round(const scalar_cx *c, tcc_emit_value *v) {
    return intrinsic1(c, "llvm.roundeven", v[0]);
}
static tcc_emit_value rule_isfinite(const scalar_cx *c, tcc_emit_value *v) {
    if (!c->is_float) return tcc_emit_int(c->e, tcc_emit_type_like(c->e, c->e->i1, c->type), 1);
    return compare(c, TCC_FCMP_OLT, intrinsic1(c, "llvm.fabs", v[0]), number(c, __builtin_inf()));
}
static tcc_emit_value rule_not(const scalar_cx *c, tcc_emit_value *v) { return wrap(c, tcc_emit_not(c->e, v[0])); }
static tcc_emit_value rule_cast(const scalar_cx *c, tcc_emit_value *v) {
    return tcc_scalar_convert(c->e, v[0], c->operand, c->result);
}

#define ARITHMETIC(name, F, I)                                                                         \
    static tcc_emit_value rule_##name(const scalar_cx *c, tcc_emit_value *v) {                         \
        return c->is_float ? tcc_emit_##F(c->e, v[0], v[1]) : wrap(c, tcc_emit_##I(c->e, v[0], v[1])); \
    }
ARITHMETIC(add, fadd, iadd)
ARITHMETIC(sub, fsub, isub)
ARITHMETIC(mul, fmul, imul)

/* Integer division: by 0 gives 0; by -1 is a negation, since the machine traps on the one case that overflows. */
static tcc_emit_value divide_integers(const scalar_cx *c, tcc_emit_value a, tcc_emit_value b, bool remainder) {
    tcc_emit_value zero = icompare(c, TCC_ICMP_EQ, b, integer(c, 0)),
                   minus = icompare(c, TCC_ICMP_EQ, b, integer(c, -1));
    tcc_emit_value safe = select_(c, tcc_emit_or(c->e, zero, minus), integer(c, 1), b);
    if (remainder) return tcc_emit_srem(c->e, a, safe); /* a % 1 = 0 in both special cases */
    tcc_emit_value quotient = tcc_emit_sdiv(c->e, a, safe);
    quotient = select_(c, minus, tcc_emit_isub(c->e, integer(c, 0), a), quotient);
    return select_(c, zero, integer(c, 0), quotient);
}
static tcc_emit_value rule_div(const scalar_cx *c, tcc_emit_value *v) {
    return c->is_float ? tcc_emit_fdiv(c->e, v[0], v[1]) : divide_integers(c, v[0], v[1], false);
}
static tcc_emit_value rule_rem(const scalar_cx *c, tcc_emit_value *v) {
    if (!c->is_float) return divide_integers(c, v[0], v[1], true);
    if (c->operand == TCC_F64) return tcc_math64_rem(c->e, v[0], v[1]);
    return tcc_math64_narrow(c->e, tcc_math64_rem(c->e, tcc_math64_widen(c->e, v[0]), tcc_math64_widen(c->e, v[1])));
}
static tcc_emit_value rule_pow(const scalar_cx *c, tcc_emit_value *v) {
    if (c->operand == TCC_F64) return tcc_math64_pow(c->e, v[0], v[1]);
    return tcc_math_pow(c->e, v[0], v[1]);
}

static tcc_emit_value extreme(const scalar_cx *c, tcc_emit_value a, tcc_emit_value b, tcc_emit_fcmp_kind real,
                              tcc_emit_icmp_kind whole) {
    if (!c->is_float) return select_(c, icompare(c, whole, a, b), a, b);
    tcc_emit_value by_instruction = tcc_math_extreme(c->e, a, b, real == TCC_FCMP_OLT);
    if (by_instruction) return by_instruction;
    tcc_emit_value first = tcc_emit_or(c->e, compare(c, real, a, b), compare(c, TCC_FCMP_UNO, a, a));
    return select_(c, first, a, b);
}
static tcc_emit_value rule_max(const scalar_cx *c, tcc_emit_value *v) {
    return extreme(c, v[0], v[1], TCC_FCMP_OGT, c->is_bool ? TCC_ICMP_UGT : TCC_ICMP_SGT);
}
static tcc_emit_value rule_min(const scalar_cx *c, tcc_emit_value *v) {
    return extreme(c, v[0], v[1], TCC_FCMP_OLT, c->is_bool ? TCC_ICMP_ULT : TCC_ICMP_SLT);
}
static tcc_emit_value rule_and(const scalar_cx *c, tcc_emit_value *v) { return tcc_emit_and(c->e, v[0], v[1]); }
static tcc_emit_value rule_or(const scalar_cx *c, tcc_emit_value *v) { return tcc_emit_or(c->e, v[0], v[1]); }
static tcc_emit_value rule_xor(const scalar_cx *c, tcc_emit_value *v) { return tcc_emit_xor(c->e, v[0], v[1]); }

/* LLVM leaves shifts by what is out of range open. */
static tcc_emit_value in_places(const scalar_cx *c, tcc_emit_value by) {
    const int bits = c->operand == TCC_I64 ? 64 : c->operand == TCC_I32 ? 32 : 8;
    return icompare(c, TCC_ICMP_ULT, by, integer(c, bits));
}
static tcc_emit_value rule_shift_left(const scalar_cx *c, tcc_emit_value *v) {
    tcc_emit_value fits = in_places(c, v[1]), zero = integer(c, 0);
    tcc_emit_value moved = tcc_emit_shl(c->e, v[0], select_(c, fits, v[1], zero));
    return wrap(c, select_(c, fits, moved, zero));
}
static tcc_emit_value rule_shift_right(const scalar_cx *c, tcc_emit_value *v) {
    const int most = c->operand == TCC_I64 ? 63 : 31;
    return tcc_emit_ashr(c->e, v[0], select_(c, in_places(c, v[1]), v[1], integer(c, most)));
}

#define COMPARISON(name, F, S, U)                                                               \
    static tcc_emit_value rule_##name(const scalar_cx *c, tcc_emit_value *v) {                  \
        return c->is_float ? compare(c, TCC_FCMP_##F, v[0], v[1])                               \
                           : icompare(c, c->is_bool ? TCC_ICMP_##U : TCC_ICMP_##S, v[0], v[1]); \
    }
COMPARISON(eq, OEQ, EQ, EQ)
COMPARISON(ne, UNE, NE, NE)
COMPARISON(lt, OLT, SLT, ULT)
COMPARISON(le, OLE, SLE, ULE)
COMPARISON(gt, OGT, SGT, UGT)
COMPARISON(ge, OGE, SGE, UGE)

static tcc_emit_value rule_select(const scalar_cx *c, tcc_emit_value *v) { return select_(c, v[0], v[1], v[2]); }

/* A POINT op has a rule, or says that it has none: iota and random draws, see tcc_scalar_random. */
#define rule_own NULL
#define EMITTED_POINT(rule) rule_##rule
#define EMITTED_LEAF(rule) NULL
#define EMITTED_VIEW(rule) NULL
#define EMITTED_INDEX(rule) NULL
#define EMITTED_REDUCE(rule) NULL
#define EMITTED_SCAN(rule) NULL
#define EMITTED_SCATTER(rule) NULL
#define EMITTED_CONTRACT(rule) NULL
#define EMITTED_WINDOW(rule) NULL
#define EMITTED_ATTENTION(rule) NULL
#define EMITTED_COMPOSITE(rule) NULL
#define EMITTED_COLLECTIVE(rule) NULL
static const scalar_rule rules[TCC_OP_COUNT] = {
#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, noise, emit, doc) \
    [TCC_OP_##id] = EMITTED_##fusion(emit),
#include "ir/ops.def"
#undef TCC_OP
};

tcc_emit_value tcc_scalar_emit(tcc_emitter *e, tcc_op op, tcc_dtype result, tcc_dtype operand,
                               tcc_emit_value *operands) {
    scalar_cx c = {.e = e, .op = op, .result = result, .operand = operand, .type = tcc_emit_type_of(operands[0])};
    c.is_float = tcc_dtype_is_float(operand);
    c.is_bool = operand == TCC_BOOL;
    return rules[op](&c, operands);
}

tcc_emit_value tcc_scalar_call(tcc_emitter *e, tcc_op op, tcc_dtype dtype, tcc_emit_value *operands, int n) {
    tcc_emit_type types[2] = {tcc_emit_type_of(operands[0]), n > 1 ? tcc_emit_type_of(operands[1]) : NULL};
    char name[48];
    snprintf(name, sizeof name, "tcc_%s.%s.%d", tcc_op_get_info(op)->text, dtype == TCC_F64 ? "f64" : "f32",
             tcc_emit_lanes_of(types[0]));
    tcc_emit_function f;
    if (!tcc_emit_function_find(e, name, &f)) {
        f = tcc_emit_function_begin(e, name, types[0], types, n);
        tcc_emit_value v[2] = {tcc_emit_argument(&f, 0), n > 1 ? tcc_emit_argument(&f, 1) : NULL};
        tcc_emit_function_end(e, &f, tcc_scalar_emit(e, op, dtype, dtype, v));
    }
    return tcc_emit_call(e, &f, operands, n);
}
