/* SPDX-License-Identifier: MIT
 * Emission of element-by-element ops on register values, scalar or vector alike: one rule an op, in a table by op.
 * Registers hold f32 for f32, f16 and bf16; i32 for i32 and u8 (zero-extended); i1 for bool. */
#include "codegen/body/body.h"
#include "codegen/emit/math.h"
#include "codegen/emit/math64.h"

#define GELU_C 0.79788456080286535588 /* sqrt(2 / pi) */
#define GELU_K 0.044715

typedef struct scalar_cx {
    tcc_emitter *e;
    tcc_op op;
    tcc_dtype result, operand; /* element types of the result and of operand 0 */
    LLVMTypeRef type;          /* register type of operand 0, with lanes */
    bool is_float, is_bool;    /* of operand 0 */
} scalar_cx;

typedef LLVMValueRef (*scalar_rule)(const scalar_cx *c, LLVMValueRef *v);

static LLVMValueRef number(const scalar_cx *c, double x) { return tcc_emit_float(c->e, c->type, x); }
static LLVMValueRef integer(const scalar_cx *c, int64_t x) { return tcc_emit_int(c->e, c->type, x); }
static LLVMValueRef select_(const scalar_cx *c, LLVMValueRef condition, LLVMValueRef yes, LLVMValueRef no) {
    return tcc_emit_select(c->e, condition, yes, no);
}
static LLVMValueRef compare(const scalar_cx *c, LLVMRealPredicate p, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFCmp(c->e->builder, p, a, b, "");
}
static LLVMValueRef icompare(const scalar_cx *c, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildICmp(c->e->builder, p, a, b, "");
}
/* u8 lives in 32 bits: bring a result back into range. */
static LLVMValueRef wrap(const scalar_cx *c, LLVMValueRef v) {
    return c->operand == TCC_U8 ? LLVMBuildAnd(c->e->builder, v, integer(c, 255), "") : v;
}
static LLVMValueRef intrinsic1(const scalar_cx *c, const char *name, LLVMValueRef x) {
    return tcc_emit_intrinsic(c->e, name, LLVMTypeOf(x), &x, 1);
}

static LLVMValueRef rule_neg(const scalar_cx *c, LLVMValueRef *v) {
    if (c->is_float) return LLVMBuildFNeg(c->e->builder, v[0], "");
    return wrap(c, LLVMBuildSub(c->e->builder, integer(c, 0), v[0], ""));
}
static LLVMValueRef rule_abs(const scalar_cx *c, LLVMValueRef *v) {
    if (c->is_float) return intrinsic1(c, "llvm.fabs", v[0]);
    return select_(c, icompare(c, LLVMIntSLT, v[0], integer(c, 0)),
                   LLVMBuildSub(c->e->builder, integer(c, 0), v[0], ""), v[0]);
}
static LLVMValueRef rule_sign(const scalar_cx *c, LLVMValueRef *v) {
    if (c->is_float) {
        LLVMValueRef zero = number(c, 0);
        LLVMValueRef low = select_(c, compare(c, LLVMRealOLT, v[0], zero), number(c, -1), v[0]); /* 0 and NaN stay */
        return select_(c, compare(c, LLVMRealOGT, v[0], zero), number(c, 1), low);
    }
    LLVMValueRef low = select_(c, icompare(c, LLVMIntSLT, v[0], integer(c, 0)), integer(c, -1), integer(c, 0));
    return select_(c, icompare(c, LLVMIntSGT, v[0], integer(c, 0)), integer(c, 1), low);
}

/* A function of both precisions. */
#define BOTH(name)                                                                                  \
    static LLVMValueRef rule_##name(const scalar_cx *c, LLVMValueRef *v) {                          \
        return c->operand == TCC_F64 ? tcc_math64_##name(c->e, v[0]) : tcc_math_##name(c->e, v[0]); \
    }
/* A function of f64 that gives an f32 result by rounding. */
#define WIDENED(name)                                                                                                  \
    static LLVMValueRef rule_##name(const scalar_cx *c, LLVMValueRef *v) {                                             \
        return c->operand == TCC_F64 ? tcc_math64_##name(c->e, v[0])                                                   \
                                     : tcc_math64_narrow(c->e, tcc_math64_##name(c->e, tcc_math64_widen(c->e, v[0]))); \
    }
BOTH(exp)
BOTH(log)
BOTH(tanh)
BOTH(sigmoid)
BOTH(erf)
WIDENED(expm1)
WIDENED(log1p)
WIDENED(sin)
WIDENED(cos)

/* (1 + tanh(c (x + k x^3))) / 2, which is a sigmoid of twice that, and x^2 */
static LLVMValueRef gelu_share(const scalar_cx *c, LLVMValueRef x, LLVMValueRef *square) {
    LLVMBuilderRef b = c->e->builder;
    *square = LLVMBuildFMul(b, x, x, "");
    LLVMValueRef factor = LLVMBuildFAdd(b, LLVMBuildFMul(b, *square, number(c, 2 * GELU_C * GELU_K), ""),
                                        number(c, 2 * GELU_C), "");
    LLVMValueRef inner = LLVMBuildFMul(b, x, factor, "");
    return rule_sigmoid(c, &inner);
}
static LLVMValueRef rule_gelu_tanh(const scalar_cx *c, LLVMValueRef *v) {
    LLVMValueRef square;
    return LLVMBuildFMul(c->e->builder, v[0], gelu_share(c, v[0], &square), "");
}
/* dy (s + x s (1 - s) 2 c (1 + 3 k x^2)) */
static LLVMValueRef rule_gelu_tanh_grad(const scalar_cx *c, LLVMValueRef *v) {
    LLVMBuilderRef b = c->e->builder;
    LLVMValueRef square, share = gelu_share(c, v[0], &square);
    LLVMValueRef inner = LLVMBuildFAdd(b, LLVMBuildFMul(b, square, number(c, 6 * GELU_C * GELU_K), ""),
                                       number(c, 2 * GELU_C), "");
    LLVMValueRef rest = LLVMBuildFMul(b, share, LLVMBuildFSub(b, number(c, 1), share, ""), "");
    rest = LLVMBuildFMul(b, LLVMBuildFMul(b, v[0], rest, ""), inner, "");
    return LLVMBuildFMul(b, v[1], LLVMBuildFAdd(b, share, rest, ""), "");
}

static LLVMValueRef rule_sqrt(const scalar_cx *c, LLVMValueRef *v) { return intrinsic1(c, "llvm.sqrt", v[0]); }
static LLVMValueRef rule_rsqrt(const scalar_cx *c, LLVMValueRef *v) {
    if (c->operand != TCC_F64) return tcc_math_rsqrt(c->e, v[0]);
    return LLVMBuildFDiv(c->e->builder, number(c, 1), intrinsic1(c, "llvm.sqrt", v[0]), "");
}
static LLVMValueRef rule_floor(const scalar_cx *c, LLVMValueRef *v) { return intrinsic1(c, "llvm.floor", v[0]); }
static LLVMValueRef rule_ceil(const scalar_cx *c, LLVMValueRef *v) { return intrinsic1(c, "llvm.ceil", v[0]); }
static LLVMValueRef rule_round(const scalar_cx *c, LLVMValueRef *v) { return intrinsic1(c, "llvm.roundeven", v[0]); }
static LLVMValueRef rule_isfinite(const scalar_cx *c, LLVMValueRef *v) {
    if (!c->is_float) return tcc_emit_int(c->e, tcc_emit_type_like(c->e, c->e->i1, c->type), 1);
    return compare(c, LLVMRealOLT, intrinsic1(c, "llvm.fabs", v[0]), number(c, __builtin_inf()));
}
static LLVMValueRef rule_not(const scalar_cx *c, LLVMValueRef *v) {
    return wrap(c, LLVMBuildNot(c->e->builder, v[0], ""));
}
static LLVMValueRef rule_cast(const scalar_cx *c, LLVMValueRef *v) {
    return tcc_scalar_convert(c->e, v[0], c->operand, c->result);
}

#define ARITHMETIC(name, F, I)                                                     \
    static LLVMValueRef rule_##name(const scalar_cx *c, LLVMValueRef *v) {         \
        return c->is_float ? LLVMBuild##F(c->e->builder, v[0], v[1], "")           \
                           : wrap(c, LLVMBuild##I(c->e->builder, v[0], v[1], "")); \
    }
ARITHMETIC(add, FAdd, Add)
ARITHMETIC(sub, FSub, Sub)
ARITHMETIC(mul, FMul, Mul)

/* Integer division: by 0 gives 0; by -1 is a negation, since the machine traps on the one case that overflows. */
static LLVMValueRef divide_integers(const scalar_cx *c, LLVMValueRef a, LLVMValueRef b, bool remainder) {
    LLVMValueRef zero = icompare(c, LLVMIntEQ, b, integer(c, 0)), minus = icompare(c, LLVMIntEQ, b, integer(c, -1));
    LLVMValueRef safe = select_(c, LLVMBuildOr(c->e->builder, zero, minus, ""), integer(c, 1), b);
    if (remainder) return LLVMBuildSRem(c->e->builder, a, safe, ""); /* a % 1 = 0 in both special cases */
    LLVMValueRef quotient = LLVMBuildSDiv(c->e->builder, a, safe, "");
    quotient = select_(c, minus, LLVMBuildSub(c->e->builder, integer(c, 0), a, ""), quotient);
    return select_(c, zero, integer(c, 0), quotient);
}
static LLVMValueRef rule_div(const scalar_cx *c, LLVMValueRef *v) {
    return c->is_float ? LLVMBuildFDiv(c->e->builder, v[0], v[1], "") : divide_integers(c, v[0], v[1], false);
}
static LLVMValueRef rule_rem(const scalar_cx *c, LLVMValueRef *v) {
    if (!c->is_float) return divide_integers(c, v[0], v[1], true);
    if (c->operand == TCC_F64) return tcc_math64_rem(c->e, v[0], v[1]);
    return tcc_math64_narrow(c->e, tcc_math64_rem(c->e, tcc_math64_widen(c->e, v[0]), tcc_math64_widen(c->e, v[1])));
}
static LLVMValueRef rule_pow(const scalar_cx *c, LLVMValueRef *v) {
    if (c->operand == TCC_F64) return tcc_math64_pow(c->e, v[0], v[1]);
    return tcc_math64_narrow(c->e, tcc_math64_pow(c->e, tcc_math64_widen(c->e, v[0]), tcc_math64_widen(c->e, v[1])));
}

static LLVMValueRef extreme(const scalar_cx *c, LLVMValueRef a, LLVMValueRef b, LLVMRealPredicate real,
                            LLVMIntPredicate whole) {
    if (!c->is_float) return select_(c, icompare(c, whole, a, b), a, b);
    LLVMValueRef first = LLVMBuildOr(c->e->builder, compare(c, real, a, b), compare(c, LLVMRealUNO, a, a), "");
    return select_(c, first, a, b);
}
static LLVMValueRef rule_max(const scalar_cx *c, LLVMValueRef *v) {
    return extreme(c, v[0], v[1], LLVMRealOGT, c->is_bool ? LLVMIntUGT : LLVMIntSGT);
}
static LLVMValueRef rule_min(const scalar_cx *c, LLVMValueRef *v) {
    return extreme(c, v[0], v[1], LLVMRealOLT, c->is_bool ? LLVMIntULT : LLVMIntSLT);
}
static LLVMValueRef rule_and(const scalar_cx *c, LLVMValueRef *v) {
    return LLVMBuildAnd(c->e->builder, v[0], v[1], "");
}
static LLVMValueRef rule_or(const scalar_cx *c, LLVMValueRef *v) { return LLVMBuildOr(c->e->builder, v[0], v[1], ""); }
static LLVMValueRef rule_xor(const scalar_cx *c, LLVMValueRef *v) {
    return LLVMBuildXor(c->e->builder, v[0], v[1], "");
}

#define COMPARISON(name, F, S, U)                                                           \
    static LLVMValueRef rule_##name(const scalar_cx *c, LLVMValueRef *v) {                  \
        return c->is_float ? compare(c, LLVMReal##F, v[0], v[1])                            \
                           : icompare(c, c->is_bool ? LLVMInt##U : LLVMInt##S, v[0], v[1]); \
    }
COMPARISON(eq, OEQ, EQ, EQ)
COMPARISON(ne, UNE, NE, NE)
COMPARISON(lt, OLT, SLT, ULT)
COMPARISON(le, OLE, SLE, ULE)
COMPARISON(gt, OGT, SGT, UGT)
COMPARISON(ge, OGE, SGE, UGE)

static LLVMValueRef rule_select(const scalar_cx *c, LLVMValueRef *v) { return select_(c, v[0], v[1], v[2]); }

/* iota and random draws have ways of their own, see tcc_scalar_random. */
static const scalar_rule rules[TCC_OP_COUNT] = {
    [TCC_OP_NEG] = rule_neg,
    [TCC_OP_ABS] = rule_abs,
    [TCC_OP_SIGN] = rule_sign,
    [TCC_OP_EXP] = rule_exp,
    [TCC_OP_EXPM1] = rule_expm1,
    [TCC_OP_LOG] = rule_log,
    [TCC_OP_LOG1P] = rule_log1p,
    [TCC_OP_SQRT] = rule_sqrt,
    [TCC_OP_RSQRT] = rule_rsqrt,
    [TCC_OP_SIN] = rule_sin,
    [TCC_OP_COS] = rule_cos,
    [TCC_OP_TANH] = rule_tanh,
    [TCC_OP_SIGMOID] = rule_sigmoid,
    [TCC_OP_ERF] = rule_erf,
    [TCC_OP_FLOOR] = rule_floor,
    [TCC_OP_GELU_TANH] = rule_gelu_tanh,
    [TCC_OP_GELU_TANH_GRAD] = rule_gelu_tanh_grad,
    [TCC_OP_CEIL] = rule_ceil,
    [TCC_OP_ROUND] = rule_round,
    [TCC_OP_ISFINITE] = rule_isfinite,
    [TCC_OP_NOT] = rule_not,
    [TCC_OP_CAST] = rule_cast,
    [TCC_OP_ADD] = rule_add,
    [TCC_OP_SUB] = rule_sub,
    [TCC_OP_MUL] = rule_mul,
    [TCC_OP_DIV] = rule_div,
    [TCC_OP_REM] = rule_rem,
    [TCC_OP_POW] = rule_pow,
    [TCC_OP_MAX] = rule_max,
    [TCC_OP_MIN] = rule_min,
    [TCC_OP_AND] = rule_and,
    [TCC_OP_OR] = rule_or,
    [TCC_OP_XOR] = rule_xor,
    [TCC_OP_EQ] = rule_eq,
    [TCC_OP_NE] = rule_ne,
    [TCC_OP_LT] = rule_lt,
    [TCC_OP_LE] = rule_le,
    [TCC_OP_GT] = rule_gt,
    [TCC_OP_GE] = rule_ge,
    [TCC_OP_SELECT] = rule_select,
};

LLVMValueRef tcc_scalar_emit(tcc_emitter *e, tcc_op op, tcc_dtype result, tcc_dtype operand, LLVMValueRef *operands) {
    scalar_cx c = {.e = e, .op = op, .result = result, .operand = operand, .type = LLVMTypeOf(operands[0])};
    c.is_float = tcc_dtype_is_float(operand);
    c.is_bool = operand == TCC_BOOL;
    return rules[op](&c, operands);
}

/* --- Element types */

LLVMTypeRef tcc_scalar_register(tcc_emitter *e, tcc_dtype dtype) {
    switch (dtype) {
    case TCC_F64: return e->f64;
    case TCC_F32:
    case TCC_F16:
    case TCC_BF16: return e->f32;
    case TCC_I64: return e->i64;
    case TCC_BOOL: return e->i1;
    default: return e->i32;
    }
}

static LLVMTypeRef like(tcc_emitter *e, LLVMTypeRef scalar, LLVMValueRef v) {
    return tcc_emit_type_like(e, scalar, LLVMTypeOf(v));
}

/* The upper half of an f32, rounded to nearest even; NaN stays NaN. As i32. What bf16_value made of bits is those bits.
 */
static LLVMValueRef bf16_bits(tcc_emitter *e, LLVMValueRef value) {
    LLVMTypeRef type = like(e, e->i32, value);
    LLVMValueRef up = LLVMIsABitCastInst(value) ? LLVMGetOperand(value, 0) : NULL;
    if (up && LLVMIsAInstruction(up) && LLVMGetInstructionOpcode(up) == LLVMShl &&
        LLVMGetOperand(up, 1) == tcc_emit_int(e, type, 16))
        return LLVMGetOperand(up, 0);
    LLVMValueRef bits = LLVMBuildBitCast(e->builder, value, type, "");
    LLVMValueRef high = LLVMBuildLShr(e->builder, bits, tcc_emit_int(e, type, 16), "");
    LLVMValueRef bias = LLVMBuildAdd(e->builder, LLVMBuildAnd(e->builder, high, tcc_emit_int(e, type, 1), ""),
                                     tcc_emit_int(e, type, 0x7fff), "");
    LLVMValueRef rounded = LLVMBuildLShr(e->builder, LLVMBuildAdd(e->builder, bits, bias, ""),
                                         tcc_emit_int(e, type, 16), "");
    LLVMValueRef quiet = LLVMBuildOr(e->builder, high, tcc_emit_int(e, type, 0x40), "");
    return tcc_emit_select(e, LLVMBuildFCmp(e->builder, LLVMRealUNO, value, value, ""), quiet, rounded);
}

static LLVMValueRef bf16_value(tcc_emitter *e, LLVMValueRef bits) {
    LLVMTypeRef type = LLVMTypeOf(bits);
    LLVMValueRef up = LLVMBuildShl(e->builder, bits, tcc_emit_int(e, type, 16), "");
    return LLVMBuildBitCast(e->builder, up, tcc_emit_type_like(e, e->f32, type), "");
}

/* f16 to and from its bits, as i32. Integer arithmetic where the target has no instruction: a library's function cannot
 * be called. */
static LLVMValueRef f16_value(tcc_emitter *e, LLVMValueRef bits) {
    LLVMBuilderRef b = e->builder;
    LLVMTypeRef type = LLVMTypeOf(bits), wide = like(e, e->f32, bits);
    if (e->target->f16)
        return LLVMBuildFPExt(
            b, LLVMBuildBitCast(b, LLVMBuildTrunc(b, bits, like(e, e->i16, bits), ""), like(e, e->f16, bits), ""), wide,
            "");
    LLVMValueRef sign = LLVMBuildShl(b, LLVMBuildAnd(b, bits, tcc_emit_int(e, type, 0x8000), ""),
                                     tcc_emit_int(e, type, 16), "");
    LLVMValueRef rest = LLVMBuildAnd(b, bits, tcc_emit_int(e, type, 0x7fff), "");
    LLVMValueRef moved = LLVMBuildShl(b, rest, tcc_emit_int(e, type, 13), ""); /* the value, 2^112 times too small */
    LLVMValueRef scaled = LLVMBuildFMul(b, LLVMBuildBitCast(b, moved, wide, ""), tcc_emit_float(e, wide, 0x1p112), "");
    LLVMValueRef special = LLVMBuildOr(b, moved, tcc_emit_int(e, type, 0x7f800000), "");
    LLVMValueRef is_special = LLVMBuildICmp(b, LLVMIntUGE, rest, tcc_emit_int(e, type, 0x7c00), "");
    LLVMValueRef size = tcc_emit_select(e, is_special, special, LLVMBuildBitCast(b, scaled, type, ""));
    return LLVMBuildBitCast(b, LLVMBuildOr(b, size, sign, ""), wide, "");
}

static LLVMValueRef f16_bits(tcc_emitter *e, LLVMValueRef value) {
    LLVMBuilderRef b = e->builder;
    LLVMTypeRef type = like(e, e->i32, value), wide = LLVMTypeOf(value);
    if (e->target->f16)
        return LLVMBuildZExt(
            b, LLVMBuildBitCast(b, LLVMBuildFPTrunc(b, value, like(e, e->f16, value), ""), like(e, e->i16, value), ""),
            type, "");
    LLVMValueRef bits = LLVMBuildBitCast(b, value, type, "");
    LLVMValueRef size = LLVMBuildAnd(b, bits, tcc_emit_int(e, type, 0x7fffffff), "");
    LLVMValueRef sign = LLVMBuildAnd(b, LLVMBuildLShr(b, bits, tcc_emit_int(e, type, 16), ""),
                                     tcc_emit_int(e, type, 0x8000), "");
    /* normal: rebase the exponent, round the 13 bits that go to nearest even; a carry makes infinity */
    LLVMValueRef odd = LLVMBuildAnd(b, LLVMBuildLShr(b, size, tcc_emit_int(e, type, 13), ""), tcc_emit_int(e, type, 1),
                                    "");
    LLVMValueRef based = LLVMBuildAdd(b, size, tcc_emit_int(e, type, -(112LL << 23) + 0xfff), "");
    LLVMValueRef normal = LLVMBuildLShr(b, LLVMBuildAdd(b, based, odd, ""), tcc_emit_int(e, type, 13), "");
    /* below 2^-14: adding 0.5 rounds at the place where f16's last bit is */
    LLVMValueRef shifted = LLVMBuildFAdd(b, LLVMBuildBitCast(b, size, wide, ""), tcc_emit_float(e, wide, 0.5), "");
    LLVMValueRef small = LLVMBuildSub(b, LLVMBuildBitCast(b, shifted, type, ""), tcc_emit_int(e, type, 0x3f000000), "");
    LLVMValueRef half = tcc_emit_select(e, LLVMBuildICmp(b, LLVMIntULT, size, tcc_emit_int(e, type, 0x38800000), ""),
                                        small, normal);
    LLVMValueRef large = LLVMBuildICmp(b, LLVMIntUGE, size, tcc_emit_int(e, type, 0x47800000), "");
    half = tcc_emit_select(e, large, tcc_emit_int(e, type, 0x7c00), half);
    LLVMValueRef nan = LLVMBuildOr(
        b, tcc_emit_int(e, type, 0x7e00),
        LLVMBuildAnd(b, LLVMBuildLShr(b, size, tcc_emit_int(e, type, 13), ""), tcc_emit_int(e, type, 0x3ff), ""), "");
    half = tcc_emit_select(e, LLVMBuildICmp(b, LLVMIntUGT, size, tcc_emit_int(e, type, 0x7f800000), ""), nan, half);
    return LLVMBuildOr(b, half, sign, "");
}

LLVMValueRef tcc_scalar_from_memory(tcc_emitter *e, LLVMValueRef value, tcc_dtype dtype) {
    switch (dtype) {
    case TCC_F16: return f16_value(e, LLVMBuildZExt(e->builder, value, like(e, e->i32, value), ""));
    case TCC_BF16: return bf16_value(e, LLVMBuildZExt(e->builder, value, like(e, e->i32, value), ""));
    case TCC_U8: return LLVMBuildZExt(e->builder, value, like(e, e->i32, value), "");
    case TCC_BOOL: return LLVMBuildICmp(e->builder, LLVMIntNE, value, tcc_emit_int(e, LLVMTypeOf(value), 0), "");
    default: return value;
    }
}

LLVMValueRef tcc_scalar_to_memory(tcc_emitter *e, LLVMValueRef value, tcc_dtype dtype) {
    switch (dtype) {
    case TCC_F16: return LLVMBuildTrunc(e->builder, f16_bits(e, value), like(e, e->i16, value), "");
    case TCC_BF16: return LLVMBuildTrunc(e->builder, bf16_bits(e, value), like(e, e->i16, value), "");
    case TCC_U8: return LLVMBuildTrunc(e->builder, value, like(e, e->i8, value), "");
    case TCC_BOOL: return LLVMBuildZExt(e->builder, value, like(e, e->i8, value), "");
    default: return value;
    }
}

static LLVMValueRef float_to_integer(tcc_emitter *e, LLVMValueRef value, LLVMTypeRef scalar) {
    LLVMTypeRef overloads[] = {like(e, scalar, value), LLVMTypeOf(value)};
    unsigned id = LLVMLookupIntrinsicID("llvm.fptosi.sat", 15);
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(e->module, id, overloads, 2);
    return LLVMBuildCall2(e->builder, LLVMIntrinsicGetType(e->context, id, overloads, 2), function, &value, 1, "");
}

LLVMValueRef tcc_scalar_convert(tcc_emitter *e, LLVMValueRef value, tcc_dtype from, tcc_dtype to) {
    if (from == to) return value;
    LLVMTypeRef type = like(e, tcc_scalar_register(e, to), value);
    LLVMBuilderRef b = e->builder;
    if (tcc_dtype_is_float(from)) {
        if (to == TCC_BOOL) return LLVMBuildFCmp(b, LLVMRealUNE, value, tcc_emit_float(e, LLVMTypeOf(value), 0), "");
        if (to == TCC_F64) return LLVMBuildFPExt(b, value, type, "");
        if (tcc_dtype_is_float(to)) {
            if (from == TCC_F64) value = LLVMBuildFPTrunc(b, value, like(e, e->f32, value), "");
            if (to == TCC_F16) return f16_value(e, f16_bits(e, value));
            return to == TCC_BF16 ? bf16_value(e, bf16_bits(e, value)) : value;
        }
        LLVMValueRef whole = float_to_integer(e, value, to == TCC_I64 ? e->i64 : e->i32);
        if (to != TCC_U8) return whole;
        LLVMValueRef least = tcc_emit_int(e, type, 0), most = tcc_emit_int(e, type, 255);
        whole = tcc_emit_select(e, LLVMBuildICmp(b, LLVMIntSLT, whole, least, ""), least, whole);
        return tcc_emit_select(e, LLVMBuildICmp(b, LLVMIntSGT, whole, most, ""), most, whole);
    }
    if (to == TCC_BOOL) return LLVMBuildICmp(b, LLVMIntNE, value, tcc_emit_int(e, LLVMTypeOf(value), 0), "");
    if (tcc_dtype_is_float(to)) {
        LLVMValueRef x = from == TCC_BOOL ? LLVMBuildUIToFP(b, value, type, "") : LLVMBuildSIToFP(b, value, type, "");
        return to == TCC_F16 || to == TCC_BF16 ? tcc_scalar_convert(e, x, TCC_F32, to) : x;
    }
    if (to == TCC_I64) return from == TCC_I32 ? LLVMBuildSExt(b, value, type, "") : LLVMBuildZExt(b, value, type, "");
    LLVMValueRef narrow = from == TCC_I64    ? LLVMBuildTrunc(b, value, type, "")
                          : from == TCC_BOOL ? LLVMBuildZExt(b, value, type, "")
                                             : value;
    return to == TCC_U8 ? LLVMBuildAnd(b, narrow, tcc_emit_int(e, type, 255), "") : narrow;
}

/* --- Random draws: Philox 4x32-10, see ir/support/philox.h. Element n is word n % 4 of counter n / 4. */

static void philox_product(tcc_emitter *e, uint32_t factor, LLVMValueRef x, LLVMValueRef *high, LLVMValueRef *low) {
    LLVMTypeRef wide = like(e, e->i64, x), narrow = like(e, e->i32, x);
    LLVMValueRef p = LLVMBuildMul(e->builder, LLVMBuildZExt(e->builder, x, wide, ""), tcc_emit_int(e, wide, factor),
                                  "");
    *high = LLVMBuildTrunc(e->builder, LLVMBuildLShr(e->builder, p, tcc_emit_int(e, wide, 32), ""), narrow, "");
    *low = LLVMBuildTrunc(e->builder, p, narrow, "");
}

/* The low or high half of a 64-bit integer with the lanes of `as`. */
static LLVMValueRef half(tcc_emitter *e, LLVMValueRef v, int which, LLVMTypeRef as) {
    LLVMTypeRef type = LLVMTypeOf(v);
    if (which) v = LLVMBuildLShr(e->builder, v, tcc_emit_int(e, type, 32), "");
    v = LLVMBuildTrunc(e->builder, v, tcc_emit_type_like(e, e->i32, type), "");
    return tcc_emit_lanes_of(type) == tcc_emit_lanes_of(as) ? v : tcc_emit_splat(e, v, tcc_emit_lanes_of(as));
}

void tcc_scalar_philox(tcc_emitter *e, LLVMValueRef block, LLVMValueRef id, LLVMValueRef seed, LLVMValueRef step,
                       LLVMValueRef out[4]) {
    LLVMBuilderRef b = e->builder;
    LLVMTypeRef type = like(e, e->i32, block);
    LLVMValueRef k0 = half(e, seed, 0, type), k1 = half(e, seed, 1, type);
    LLVMValueRef c[4] = {half(e, block, 0, type), half(e, block, 1, type), half(e, id, 0, type),
                         half(e, step, 0, type)};
    for (int round = 0; round < 10; round++) {
        LLVMValueRef h0, l0, h1, l1;
        philox_product(e, 0xD2511F53u, c[0], &h0, &l0);
        philox_product(e, 0xCD9E8D57u, c[2], &h1, &l1);
        c[0] = LLVMBuildXor(b, LLVMBuildXor(b, h1, c[1], ""), k0, "");
        c[1] = l1;
        c[2] = LLVMBuildXor(b, LLVMBuildXor(b, h0, c[3], ""), k1, "");
        c[3] = l0;
        k0 = LLVMBuildAdd(b, k0, tcc_emit_int(e, type, 0x9E3779B9), "");
        k1 = LLVMBuildAdd(b, k1, tcc_emit_int(e, type, 0xBB67AE85), "");
    }
    for (int i = 0; i < 4; i++) out[i] = c[i];
}

static LLVMValueRef word(tcc_emitter *e, LLVMValueRef words[4], LLVMValueRef which) {
    LLVMTypeRef type = LLVMTypeOf(which);
    LLVMValueRef out = words[0];
    for (int i = 1; i < 4; i++)
        out = tcc_emit_select(e, LLVMBuildICmp(e->builder, LLVMIntEQ, which, tcc_emit_int(e, type, i), ""), words[i],
                              out);
    return out;
}

static LLVMValueRef to_uniform(tcc_emitter *e, LLVMValueRef bits) {
    LLVMTypeRef type = LLVMTypeOf(bits), real = like(e, e->f32, bits);
    LLVMValueRef top = LLVMBuildLShr(e->builder, bits, tcc_emit_int(e, type, 8), "");
    return LLVMBuildFMul(e->builder, LLVMBuildSIToFP(e->builder, top, real, ""), tcc_emit_float(e, real, 0x1p-24), "");
}

/* The words of each four lanes' block, in all four of them; and which of the words is the lane's own. */
static LLVMValueRef philox_fours(tcc_emitter *e, LLVMValueRef element, int64_t id, LLVMValueRef seed, LLVMValueRef step,
                                 LLVMValueRef out[4]) {
    enum { MOST_LANES = 64 };
    LLVMTypeRef narrow = like(e, e->i32, element);
    int lanes = tcc_emit_lanes_of(narrow);
    LLVMValueRef which[MOST_LANES];
    for (int w = 0; w < 4; w++) out[w] = LLVMGetPoison(narrow);
    for (int i = 0; i < lanes; i++) {
        LLVMValueRef words[4];
        which[i] = tcc_emit_i32(e, i % 4);
        if (i % 4) continue;
        LLVMValueRef first = LLVMBuildExtractElement(e->builder, element, tcc_emit_i32(e, i), "");
        tcc_scalar_philox(e, LLVMBuildLShr(e->builder, first, tcc_emit_i64(e, 2), ""), tcc_emit_i64(e, id), seed, step,
                          words);
        for (int w = 0; w < 4; w++)
            for (int k = 0; k < 4; k++)
                out[w] = LLVMBuildInsertElement(e->builder, out[w], words[w], tcc_emit_i32(e, i + k), "");
    }
    return LLVMConstVector(which, (unsigned)lanes);
}

LLVMValueRef tcc_scalar_random(tcc_emitter *e, tcc_op op, int64_t id, LLVMValueRef element, LLVMValueRef seed,
                               LLVMValueRef step, bool fours) {
    LLVMTypeRef wide = LLVMTypeOf(element), narrow = like(e, e->i32, element);
    LLVMValueRef words[4], which;
    if (fours) {
        which = philox_fours(e, element, id, seed, step, words);
    } else {
        tcc_scalar_philox(e, LLVMBuildLShr(e->builder, element, tcc_emit_int(e, wide, 2), ""), tcc_emit_i64(e, id),
                          seed, step, words);
        LLVMValueRef low = LLVMBuildTrunc(e->builder, element, narrow, "");
        which = LLVMBuildAnd(e->builder, low, tcc_emit_int(e, narrow, 3), "");
    }
    if (op != TCC_OP_RNG_NORMAL) {
        LLVMValueRef bits = word(e, words, which);
        return op == TCC_OP_RNG_BITS ? bits : to_uniform(e, bits);
    }
    /* Box-Muller: words 0 and 1 give elements 0 and 1, words 2 and 3 the others; u1 is in (0, 1] */
    LLVMTypeRef real = like(e, e->f32, element);
    LLVMValueRef second = LLVMBuildICmp(e->builder, LLVMIntUGE, which, tcc_emit_int(e, narrow, 2), "");
    LLVMValueRef u1 = to_uniform(e, tcc_emit_select(e, second, words[2], words[0]));
    LLVMValueRef u2 = to_uniform(e, tcc_emit_select(e, second, words[3], words[1]));
    u1 = LLVMBuildFAdd(e->builder, u1, tcc_emit_float(e, real, 0x1p-24), "");
    LLVMValueRef radius = LLVMBuildFMul(e->builder, tcc_math_log(e, u1), tcc_emit_float(e, real, -2), "");
    radius = tcc_emit_intrinsic(e, "llvm.sqrt", real, &radius, 1);
    LLVMValueRef wide_u2 = tcc_math64_widen(e, u2);
    LLVMValueRef angle = LLVMBuildFMul(e->builder, wide_u2, tcc_emit_float(e, LLVMTypeOf(wide_u2), 0x1.921fb54442d18p2),
                                       "");
    LLVMValueRef odd = LLVMBuildTrunc(e->builder, which, like(e, e->i1, element), "");
    LLVMValueRef turn = tcc_emit_select(e, odd, tcc_math64_near_sin(e, angle), tcc_math64_near_cos(e, angle));
    return LLVMBuildFMul(e->builder, radius, tcc_math64_narrow(e, turn), "");
}
