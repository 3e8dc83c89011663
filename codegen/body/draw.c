/* SPDX-License-Identifier: MIT
 * Random draws: Philox 4x32-10, see ir/support/philox.h. Element n is word n % 4 of counter n / 4. */
#include "codegen/body/body.h"
#include "codegen/emit/math.h"
#include "codegen/emit/math64.h"

static LLVMTypeRef like(tcc_emitter *e, LLVMTypeRef scalar, LLVMValueRef v) {
    return tcc_emit_type_like(e, scalar, LLVMTypeOf(v));
}

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
