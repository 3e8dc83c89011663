/* SPDX-License-Identifier: MIT
 * Vectors and arithmetic on them. */
#include "codegen/emit/functions.h"

#include <string.h>

tcc_emit_value tcc_emit_splat(tcc_emitter *e, tcc_emit_value scalar, int lanes) {
    if (lanes == 1) return scalar;
    if (LLVMIsConstant(scalar)) return tcc_emit_splat_constant(scalar, lanes);
    tcc_emit_type type = tcc_emit_vector_type(tcc_emit_type_of(scalar), lanes);
    tcc_emit_value one = tcc_emit_insert(e, tcc_emit_poison(type), scalar, tcc_emit_i32(e, 0));
    tcc_emit_value zeros = tcc_emit_null(tcc_emit_vector_type(e->i32, lanes));
    return LLVMBuildShuffleVector(e->builder, one, tcc_emit_poison(type), zeros, "");
}

tcc_emit_value tcc_emit_iota(tcc_emitter *e, tcc_emit_type scalar, int lanes) {
    (void)e;
    tcc_emit_value elements[64];
    for (int i = 0; i < lanes && i < 64; i++) elements[i] = LLVMConstInt(scalar, (unsigned long long)i, false);
    return lanes == 1 ? elements[0] : tcc_emit_constants(elements, lanes);
}

tcc_emit_value tcc_emit_fma(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b, tcc_emit_value c) {
    if (!e->target->fma) return tcc_emit_fadd(e, tcc_emit_fmul(e, a, b), c);
    tcc_emit_type type = tcc_emit_type_of(a);
    tcc_emit_value arguments[] = {a, b, c};
    return tcc_emit_intrinsic(e, "llvm.fma", type, arguments, 3);
}

tcc_emit_value tcc_emit_shuffle(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b, const int *indices, int n) {
    tcc_emit_value elements[64];
    for (int i = 0; i < n && i < 64; i++)
        elements[i] = indices[i] < 0 ? tcc_emit_poison(e->i32) : tcc_emit_i32(e, indices[i]);
    return LLVMBuildShuffleVector(e->builder, a, b ? b : tcc_emit_poison(tcc_emit_type_of(a)),
                                  tcc_emit_constants(elements, n), "");
}

tcc_emit_value tcc_emit_append(tcc_emitter *e, tcc_emit_value x, tcc_emit_value y) {
    const int lanes = tcc_emit_lanes_of(tcc_emit_type_of(x)), more = tcc_emit_lanes_of(tcc_emit_type_of(y));
    int indices[64];
    if (more < lanes) { /* both operands of a shuffle have one width */
        for (int i = 0; i < lanes; i++) indices[i] = i < more ? i : -1;
        y = tcc_emit_shuffle(e, y, NULL, indices, lanes);
    }
    for (int i = 0; i < lanes + more; i++) indices[i] = i;
    return tcc_emit_shuffle(e, x, y, indices, lanes + more);
}

typedef tcc_emit_value (*combine_fn)(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b);

static tcc_emit_value combine_sum(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) { return tcc_emit_fadd(e, a, b); }

static tcc_emit_value combine_max(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return tcc_emit_select(e, tcc_emit_fcmp(e, TCC_FCMP_OGT, a, b), a, b);
}

/* Of at least two lanes. */
static tcc_emit_value reduce_lanes(tcc_emitter *e, tcc_emit_value vector, combine_fn combine) {
    for (int n = tcc_emit_lanes_of(tcc_emit_type_of(vector)); n > 2; n /= 2) {
        int low[32], high[32];
        for (int i = 0; i < n / 2; i++) low[i] = i, high[i] = i + n / 2;
        vector = combine(e, tcc_emit_shuffle(e, vector, NULL, low, n / 2),
                         tcc_emit_shuffle(e, vector, NULL, high, n / 2));
    }
    tcc_emit_value a = tcc_emit_extract(e, vector, tcc_emit_i32(e, 0));
    tcc_emit_value b = tcc_emit_extract(e, vector, tcc_emit_i32(e, 1));
    return combine(e, a, b);
}

tcc_emit_value tcc_emit_sum_lanes(tcc_emitter *e, tcc_emit_value vector) {
    return reduce_lanes(e, vector, combine_sum);
}

tcc_emit_value tcc_emit_max_lanes(tcc_emitter *e, tcc_emit_value vector) {
    return reduce_lanes(e, vector, combine_max);
}

/* A NaN that arithmetic gives has its quiet bit in the upper half; one that was loaded need not. A short one has
 * nothing in the lower half, where a carry would begin. */
typedef enum nans { ANY_NAN, QUIET_NAN, SHORT_NAN } nans;

static tcc_emit_value by_integers(tcc_emitter *e, tcc_emit_value x, nans kind) {
    tcc_emit_type type = tcc_emit_type_like(e, e->i32, tcc_emit_type_of(x));
    tcc_emit_value bits = tcc_emit_bitcast(e, x, type), one = tcc_emit_int(e, type, 1);
    tcc_emit_value last = tcc_emit_and(e, tcc_emit_lshr(e, bits, tcc_emit_int(e, type, 16)), one);
    tcc_emit_value up = tcc_emit_iadd(e, tcc_emit_iadd(e, bits, tcc_emit_int(e, type, 0x7fff)), last);
    if (kind != SHORT_NAN) {
        tcc_emit_value quiet = kind == QUIET_NAN ? bits : tcc_emit_or(e, bits, tcc_emit_int(e, type, 0x400000));
        up = tcc_emit_select(e, tcc_emit_fcmp(e, TCC_FCMP_UNO, x, x), quiet, up);
    }
    return tcc_emit_bitcast(e, tcc_emit_and(e, up, tcc_emit_int(e, type, -0x10000)), tcc_emit_type_of(x));
}

tcc_emit_value tcc_emit_round_by_integers(tcc_emitter *e, tcc_emit_value x) { return by_integers(e, x, ANY_NAN); }

static tcc_emit_value rounded(tcc_emitter *e, tcc_emit_value x, nans kind) {
    const tcc_emit_functions *f = e->target->functions;
    tcc_emit_value by_instruction = f->round_bf16 ? f->round_bf16(e, x) : NULL;
    return by_instruction ? by_instruction : by_integers(e, x, kind);
}

tcc_emit_value tcc_emit_round_bf16(tcc_emitter *e, tcc_emit_value x) { return rounded(e, x, QUIET_NAN); }

tcc_emit_value tcc_emit_cast_bf16(tcc_emitter *e, tcc_emit_value x) { return rounded(e, x, ANY_NAN); }

tcc_emit_value tcc_emit_round_short(tcc_emitter *e, tcc_emit_value x) { return rounded(e, x, SHORT_NAN); }

tcc_emit_value tcc_emit_multiply_pairs(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b, tcc_emit_value sums) {
    return e->target->functions->multiply_pairs(e, a, b, sums);
}

tcc_emit_value tcc_emit_round_pairs(tcc_emitter *e, tcc_emit_value low, tcc_emit_value high) {
    return e->target->functions->round_pairs(e, low, high);
}

void tcc_emit_tiles_begin(tcc_emitter *e, const int rows[TCC_EMIT_TILES]) {
    e->target->functions->tiles->configure(e, rows);
}

void tcc_emit_tiles_end(tcc_emitter *e) { e->target->functions->tiles->release(e); }

void tcc_emit_tile_zero(tcc_emitter *e, int tile) { e->target->functions->tiles->zero(e, tile); }

void tcc_emit_tile_load(tcc_emitter *e, int tile, tcc_emit_value address, int64_t row_bytes) {
    e->target->functions->tiles->load(e, tile, address, row_bytes);
}

void tcc_emit_tile_store(tcc_emitter *e, int tile, tcc_emit_value address, int64_t row_bytes) {
    e->target->functions->tiles->store(e, tile, address, row_bytes);
}

void tcc_emit_tile_multiply(tcc_emitter *e, int sums, int a, int b) {
    e->target->functions->tiles->multiply(e, sums, a, b);
}

/* What takes the target fewer instructions is a choice that is always made, between that and what a shift makes: LLVM
 * drops it, and until then tcc_emit_bits_behind finds the bits. */
tcc_emit_value tcc_emit_from_bf16(tcc_emitter *e, tcc_emit_value half) {
    const tcc_emit_functions *f = e->target->functions;
    tcc_emit_value shorter = f->from_bf16 && !LLVMIsConstant(half) ? f->from_bf16(e, half) : NULL;
    tcc_emit_type type = tcc_emit_type_like(e, e->i32, tcc_emit_type_of(half));
    tcc_emit_value up = tcc_emit_shl(e, tcc_emit_zext(e, half, type), tcc_emit_int(e, type, 16));
    tcc_emit_value shifted = tcc_emit_bitcast(e, up, tcc_emit_type_like(e, e->f32, type));
    return shorter ? LLVMBuildSelect(e->builder, tcc_emit_int(e, e->i1, 1), shorter, shifted, "") : shifted;
}

static tcc_emit_value half_behind(tcc_emit_value x) {
    if (LLVMIsASelectInst(x) && LLVMIsAConstantInt(LLVMGetOperand(x, 0))) x = LLVMGetOperand(x, 2);
    if (!LLVMIsABitCastInst(x)) return NULL;
    tcc_emit_value up = LLVMGetOperand(x, 0), bits;
    if (!LLVMIsAInstruction(up) || LLVMGetInstructionOpcode(up) != LLVMShl) return NULL;
    bits = LLVMGetOperand(up, 0);
    return LLVMIsAZExtInst(bits) ? LLVMGetOperand(bits, 0) : NULL;
}

/* What a vector has in all lanes, as tcc_emit_splat makes it; NULL: it is no such vector. */
static tcc_emit_value scalar_behind(tcc_emit_value x) {
    if (!LLVMIsAShuffleVectorInst(x) || !LLVMIsAInsertElementInst(LLVMGetOperand(x, 0))) return NULL;
    for (unsigned i = 0; i < LLVMGetNumMaskElements(x); i++)
        if (LLVMGetMaskValue(x, i)) return NULL;
    tcc_emit_value one = LLVMGetOperand(x, 0), at = LLVMGetOperand(one, 2);
    return LLVMIsAConstantInt(at) && !LLVMConstIntGetZExtValue(at) ? LLVMGetOperand(one, 1) : NULL;
}

static unsigned fabs_id(void) { return LLVMLookupIntrinsicID("llvm.fabs", strlen("llvm.fabs")); }

static tcc_emit_value bits_behind(tcc_emitter *e, tcc_emit_value x, bool chosen);

/* Of -y and |y|, which differ from y in a bit. */
static tcc_emit_value bits_of_sign(tcc_emitter *e, tcc_emit_value x) {
    enum { SIGN = 0x8000 };
    const bool minus = LLVMIsAUnaryOperator(x) && LLVMGetInstructionOpcode(x) == LLVMFNeg;
    if (!minus && (!LLVMIsACallInst(x) || LLVMGetIntrinsicID(LLVMGetCalledValue(x)) != fabs_id())) return NULL;
    tcc_emit_value half = bits_behind(e, LLVMGetOperand(x, 0), true);
    if (!half) return NULL;
    tcc_emit_type type = tcc_emit_type_of(half);
    return minus ? tcc_emit_xor(e, half, tcc_emit_int(e, type, SIGN))
                 : tcc_emit_and(e, half, tcc_emit_int(e, type, SIGN - 1));
}

static tcc_emit_value bits_behind(tcc_emitter *e, tcc_emit_value x, bool chosen) {
    tcc_emit_value half = half_behind(x), scalar = half ? NULL : scalar_behind(x);
    if (LLVMIsConstant(x)) {
        tcc_emit_type type = tcc_emit_type_like(e, e->i32, tcc_emit_type_of(x));
        half = tcc_emit_lshr(e, tcc_emit_bitcast(e, x, type), tcc_emit_int(e, type, 16));
        return tcc_emit_trunc(e, half, tcc_emit_type_like(e, e->i16, type));
    }
    if (scalar) half = half_behind(scalar);
    if (scalar && half) return tcc_emit_splat(e, half, tcc_emit_lanes_of(tcc_emit_type_of(x)));
    if (!half) half = bits_of_sign(e, x);
    if (half || !LLVMIsASelectInst(x)) return half;
    /* A choice that somebody else needs as a float is made once. */
    LLVMUseRef use = LLVMGetFirstUse(x);
    if (use && (!chosen || LLVMGetNextUse(use))) return NULL;
    tcc_emit_value a = bits_behind(e, LLVMGetOperand(x, 1), true), b = NULL;
    if (a) b = bits_behind(e, LLVMGetOperand(x, 2), true);
    return b ? tcc_emit_select(e, LLVMGetOperand(x, 0), a, b) : NULL;
}

tcc_emit_value tcc_emit_bits_behind(tcc_emitter *e, tcc_emit_value x) { return bits_behind(e, x, false); }
