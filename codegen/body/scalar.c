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
BOTH(exp)
BOTH(log)
BOTH(tanh)
BOTH(sigmoid)
BOTH(erf)
BOTH(expm1)
BOTH(log1p)
BOTH(sin)
BOTH(cos)
BOTH(atan)

static LLVMValueRef rule_normal_density(const scalar_cx *c, LLVMValueRef *v) {
    LLVMBuilderRef b = c->e->builder;
    LLVMValueRef of_erf = LLVMBuildFMul(b, v[0], number(c, M_SQRT1_2), ""); /* as GELU has it */
    LLVMValueRef slope = c->operand == TCC_F64 ? NULL : tcc_math_erf_slope(c->e, of_erf);
    if (slope) return LLVMBuildFMul(b, slope, number(c, 0.5 * M_SQRT1_2), "");
    LLVMValueRef power = LLVMBuildFMul(b, LLVMBuildFMul(b, v[0], v[0], ""), number(c, -0.5), "");
    return LLVMBuildFMul(b, rule_exp(c, &power), number(c, 0.5 * M_SQRT1_2 * M_2_SQRTPI), "");
}

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
    return tcc_math_pow(c->e, v[0], v[1]);
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

/* LLVM leaves shifts by what is out of range open. */
static LLVMValueRef in_places(const scalar_cx *c, LLVMValueRef by) {
    const int bits = c->operand == TCC_I64 ? 64 : c->operand == TCC_I32 ? 32 : 8;
    return icompare(c, LLVMIntULT, by, integer(c, bits));
}
static LLVMValueRef rule_shift_left(const scalar_cx *c, LLVMValueRef *v) {
    LLVMValueRef fits = in_places(c, v[1]), zero = integer(c, 0);
    LLVMValueRef moved = LLVMBuildShl(c->e->builder, v[0], select_(c, fits, v[1], zero), "");
    return wrap(c, select_(c, fits, moved, zero));
}
static LLVMValueRef rule_shift_right(const scalar_cx *c, LLVMValueRef *v) {
    const int most = c->operand == TCC_I64 ? 63 : 31;
    return LLVMBuildAShr(c->e->builder, v[0], select_(c, in_places(c, v[1]), v[1], integer(c, most)), "");
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

LLVMValueRef tcc_scalar_emit(tcc_emitter *e, tcc_op op, tcc_dtype result, tcc_dtype operand, LLVMValueRef *operands) {
    scalar_cx c = {.e = e, .op = op, .result = result, .operand = operand, .type = LLVMTypeOf(operands[0])};
    c.is_float = tcc_dtype_is_float(operand);
    c.is_bool = operand == TCC_BOOL;
    return rules[op](&c, operands);
}

LLVMValueRef tcc_scalar_call(tcc_emitter *e, tcc_op op, tcc_dtype dtype, LLVMValueRef *operands, int n) {
    LLVMTypeRef types[2] = {LLVMTypeOf(operands[0]), n > 1 ? LLVMTypeOf(operands[1]) : NULL};
    char name[48];
    snprintf(name, sizeof name, "tcc_%s.%s.%d", tcc_op_get_info(op)->text, dtype == TCC_F64 ? "f64" : "f32",
             tcc_emit_lanes_of(types[0]));
    tcc_emit_function f = {.function = LLVMGetNamedFunction(e->module, name)};
    if (f.function) f.type = LLVMGlobalGetValueType(f.function);
    else {
        f = tcc_emit_function_begin(e, name, types[0], types, n);
        LLVMValueRef v[2] = {LLVMGetParam(f.function, 0), n > 1 ? LLVMGetParam(f.function, 1) : NULL};
        tcc_emit_function_end(e, &f, tcc_scalar_emit(e, op, dtype, dtype, v));
    }
    return tcc_emit_call(e, &f, operands, n);
}
