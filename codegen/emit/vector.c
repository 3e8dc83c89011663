/* SPDX-License-Identifier: MIT
 * Vectors and arithmetic on them. */
#include "codegen/emit/functions.h"

LLVMValueRef tcc_emit_splat(tcc_emitter *e, LLVMValueRef scalar, int lanes) {
    if (lanes == 1) return scalar;
    if (LLVMIsConstant(scalar)) return tcc_emit_splat_constant(scalar, lanes);
    LLVMTypeRef type = tcc_emit_vector_type(LLVMTypeOf(scalar), lanes);
    LLVMValueRef one = LLVMBuildInsertElement(e->builder, LLVMGetPoison(type), scalar, tcc_emit_i32(e, 0), "");
    LLVMValueRef zeros = LLVMConstNull(tcc_emit_vector_type(e->i32, lanes));
    return LLVMBuildShuffleVector(e->builder, one, LLVMGetPoison(type), zeros, "");
}

LLVMValueRef tcc_emit_iota(tcc_emitter *e, LLVMTypeRef scalar, int lanes) {
    (void)e;
    LLVMValueRef elements[64];
    for (int i = 0; i < lanes && i < 64; i++) elements[i] = LLVMConstInt(scalar, (unsigned long long)i, false);
    return lanes == 1 ? elements[0] : LLVMConstVector(elements, (unsigned)lanes);
}

LLVMValueRef tcc_emit_fma(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    if (!e->target->fma) return LLVMBuildFAdd(e->builder, LLVMBuildFMul(e->builder, a, b, ""), c, "");
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef arguments[] = {a, b, c};
    return tcc_emit_intrinsic(e, "llvm.fma", type, arguments, 3);
}

LLVMValueRef tcc_emit_shuffle(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b, const int *indices, int n) {
    LLVMValueRef elements[64];
    for (int i = 0; i < n && i < 64; i++)
        elements[i] = indices[i] < 0 ? LLVMGetPoison(e->i32) : tcc_emit_i32(e, indices[i]);
    return LLVMBuildShuffleVector(e->builder, a, b ? b : LLVMGetPoison(LLVMTypeOf(a)),
                                  LLVMConstVector(elements, (unsigned)n), "");
}

LLVMValueRef tcc_emit_compare(tcc_emitter *e, LLVMRealPredicate predicate, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFCmp(e->builder, predicate, a, b, "");
}

LLVMValueRef tcc_emit_select(tcc_emitter *e, LLVMValueRef condition, LLVMValueRef yes, LLVMValueRef no) {
    return LLVMBuildSelect(e->builder, condition, yes, no, "");
}

typedef LLVMValueRef (*combine_fn)(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b);

static LLVMValueRef combine_sum(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFAdd(e->builder, a, b, "");
}

static LLVMValueRef combine_max(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return tcc_emit_select(e, tcc_emit_compare(e, LLVMRealOGT, a, b), a, b);
}

/* Of at least two lanes. */
static LLVMValueRef reduce_lanes(tcc_emitter *e, LLVMValueRef vector, combine_fn combine) {
    for (int n = tcc_emit_lanes_of(LLVMTypeOf(vector)); n > 2; n /= 2) {
        int low[32], high[32];
        for (int i = 0; i < n / 2; i++) low[i] = i, high[i] = i + n / 2;
        vector = combine(e, tcc_emit_shuffle(e, vector, NULL, low, n / 2),
                         tcc_emit_shuffle(e, vector, NULL, high, n / 2));
    }
    LLVMValueRef a = LLVMBuildExtractElement(e->builder, vector, tcc_emit_i32(e, 0), "");
    LLVMValueRef b = LLVMBuildExtractElement(e->builder, vector, tcc_emit_i32(e, 1), "");
    return combine(e, a, b);
}

LLVMValueRef tcc_emit_sum_lanes(tcc_emitter *e, LLVMValueRef vector) { return reduce_lanes(e, vector, combine_sum); }

LLVMValueRef tcc_emit_max_lanes(tcc_emitter *e, LLVMValueRef vector) { return reduce_lanes(e, vector, combine_max); }

/* A NaN that arithmetic gives has its quiet bit in the upper half; one that was loaded need not. */
static LLVMValueRef by_integers(tcc_emitter *e, LLVMValueRef x, bool arithmetic) {
    LLVMBuilderRef b = e->builder;
    LLVMTypeRef type = tcc_emit_type_like(e, e->i32, LLVMTypeOf(x));
    LLVMValueRef bits = LLVMBuildBitCast(b, x, type, ""), one = tcc_emit_int(e, type, 1);
    LLVMValueRef last = LLVMBuildAnd(b, LLVMBuildLShr(b, bits, tcc_emit_int(e, type, 16), ""), one, "");
    LLVMValueRef up = LLVMBuildAdd(b, LLVMBuildAdd(b, bits, tcc_emit_int(e, type, 0x7fff), ""), last, "");
    LLVMValueRef quiet = arithmetic ? bits : LLVMBuildOr(b, bits, tcc_emit_int(e, type, 0x400000), "");
    LLVMValueRef sum = tcc_emit_select(e, LLVMBuildFCmp(b, LLVMRealUNO, x, x, ""), quiet, up);
    return LLVMBuildBitCast(b, LLVMBuildAnd(b, sum, tcc_emit_int(e, type, -0x10000), ""), LLVMTypeOf(x), "");
}

LLVMValueRef tcc_emit_round_by_integers(tcc_emitter *e, LLVMValueRef x) { return by_integers(e, x, false); }

static LLVMValueRef rounded(tcc_emitter *e, LLVMValueRef x, bool arithmetic) {
    const tcc_emit_functions *f = e->target->functions;
    LLVMValueRef by_instruction = f->round_bf16 ? f->round_bf16(e, x) : NULL;
    return by_instruction ? by_instruction : by_integers(e, x, arithmetic);
}

LLVMValueRef tcc_emit_round_bf16(tcc_emitter *e, LLVMValueRef x) { return rounded(e, x, true); }

LLVMValueRef tcc_emit_cast_bf16(tcc_emitter *e, LLVMValueRef x) { return rounded(e, x, false); }

LLVMValueRef tcc_emit_multiply_pairs(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sums) {
    return e->target->functions->multiply_pairs(e, a, b, sums);
}

LLVMValueRef tcc_emit_round_pairs(tcc_emitter *e, LLVMValueRef low, LLVMValueRef high) {
    return e->target->functions->round_pairs(e, low, high);
}

void tcc_emit_tiles_begin(tcc_emitter *e, const int rows[TCC_EMIT_TILES]) {
    e->target->functions->tiles->configure(e, rows);
}

void tcc_emit_tiles_end(tcc_emitter *e) { e->target->functions->tiles->release(e); }

void tcc_emit_tile_zero(tcc_emitter *e, int tile) { e->target->functions->tiles->zero(e, tile); }

void tcc_emit_tile_load(tcc_emitter *e, int tile, LLVMValueRef address, int64_t row_bytes) {
    e->target->functions->tiles->load(e, tile, address, row_bytes);
}

void tcc_emit_tile_store(tcc_emitter *e, int tile, LLVMValueRef address, int64_t row_bytes) {
    e->target->functions->tiles->store(e, tile, address, row_bytes);
}

void tcc_emit_tile_multiply(tcc_emitter *e, int sums, int a, int b) {
    e->target->functions->tiles->multiply(e, sums, a, b);
}
