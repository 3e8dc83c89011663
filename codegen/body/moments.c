/* SPDX-License-Identifier: MIT
 * Mean and M2 (the sum of squared differences from the mean) of the elements that one sweep reads.
 *
 * Elements come in segments. While a segment is read, the mean m of the k elements before it stays fixed, and two sums
 * are made: s of x - m and q of (x - m)^2. A segment of j elements then makes the mean m + s / (k + j) and adds q - s^2
 * / (k + j) to M2. A segment ends where k + j is at most 8 k. By Cauchy and Schwarz s^2 <= j q, so at least k / (k +
 * j), an eighth, of q is left. So at most three bits cancel for any data, and M2 is never negative. The first segment
 * is one element, with M2 = 0. So for equal elements M2 is exactly 0, and the mean is exactly their value.
 *
 * States of lanes, threads and blocks are merged as Chan, Golub and LeVeque do ("Algorithms for computing the sample
 * variance", 1983). */
#include "codegen/body/body.h"

enum { GROWTH_BITS = 3 }; /* segments end after 1, 8, 64 ... elements */

void tcc_moment_step(tcc_emitter *e, const LLVMValueRef *state, LLVMValueRef *sums, LLVMValueRef x, LLVMValueRef mask) {
    LLVMValueRef difference = LLVMBuildFSub(e->builder, x, state[1], "");
    if (mask) difference = tcc_emit_select(e, mask, difference, LLVMConstNull(LLVMTypeOf(x)));
    sums[0] = LLVMBuildFAdd(e->builder, sums[0], difference, "");
    sums[1] = tcc_emit_fma(e, difference, difference, sums[1]);
}

static LLVMValueRef divide_by_count(tcc_emitter *e, LLVMValueRef a, LLVMValueRef count) {
    LLVMTypeRef type = LLVMTypeOf(count);
    LLVMValueRef none = tcc_emit_compare(e, LLVMRealOEQ, count, LLVMConstNull(type));
    return LLVMBuildFDiv(e->builder, a, tcc_emit_select(e, none, tcc_emit_float(e, type, 1), count), "");
}

void tcc_moment_settle(tcc_emitter *e, LLVMValueRef *state, const LLVMValueRef *sums, LLVMValueRef count) {
    LLVMBuilderRef b = e->builder;
    LLVMTypeRef type = LLVMTypeOf(state[0]);
    LLVMValueRef first = tcc_emit_compare(e, LLVMRealOEQ, state[0], LLVMConstNull(type));
    LLVMValueRef all = LLVMBuildFAdd(b, state[0], count, ""), shift = divide_by_count(e, sums[0], all);
    LLVMValueRef taken = LLVMBuildFMul(b, sums[0], shift, ""), gain = LLVMBuildFSub(b, sums[1], taken, "");
    state[0] = all;
    state[1] = LLVMBuildFAdd(b, state[1], shift, "");
    state[2] = LLVMBuildFAdd(b, state[2], tcc_emit_select(e, first, LLVMConstNull(type), gain), "");
}

void tcc_moment_merge(tcc_emitter *e, LLVMValueRef *a, const LLVMValueRef *b) {
    LLVMBuilderRef at = e->builder;
    LLVMValueRef all = LLVMBuildFAdd(at, a[0], b[0], ""), share = divide_by_count(e, b[0], all);
    LLVMValueRef difference = LLVMBuildFSub(at, b[1], a[1], ""), weight = LLVMBuildFMul(at, a[0], share, "");
    LLVMValueRef weighted = LLVMBuildFMul(at, difference, weight, ""),
                 between = LLVMBuildFMul(at, weighted, difference, "");
    LLVMValueRef shift = LLVMBuildFMul(at, difference, share, ""), within = LLVMBuildFAdd(at, a[2], b[2], "");
    a[0] = all;
    a[1] = LLVMBuildFAdd(at, a[1], shift, "");
    a[2] = LLVMBuildFAdd(at, within, between, "");
}

void tcc_moment_segments_begin(tcc_emitter *e, tcc_emit_loop *loop, LLVMValueRef *from, LLVMValueRef *to,
                               int64_t stride, int64_t length, int64_t high, const LLVMValueRef *initial, int n_carry) {
    int segments = 1;
    while ((INT64_C(1) << GROWTH_BITS * (segments - 1)) * stride < length) segments++;
    tcc_emit_loop_begin(e, loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, segments), 1, initial, n_carry);
    LLVMValueRef bits = tcc_emit_mul(e, loop->index, tcc_emit_i64(e, GROWTH_BITS));
    LLVMValueRef steps = LLVMBuildShl(e->builder, tcc_emit_i64(e, 1), bits, ""),
                 before = LLVMBuildLShr(e->builder, steps, tcc_emit_i64(e, GROWTH_BITS), "");
    int64_t most = INT64_C(1) << GROWTH_BITS * (segments - 1), growth = INT64_C(1) << GROWTH_BITS;
    steps = tcc_emit_within(e, steps, most);
    before = tcc_emit_within(e, before, most / growth);
    LLVMValueRef begin = tcc_emit_add(e, *from, tcc_emit_mul(e, before, tcc_emit_i64(e, stride)));
    LLVMValueRef end = tcc_emit_add(e, *from, tcc_emit_mul(e, steps, tcc_emit_i64(e, stride)));
    *from = tcc_emit_within(e, begin, high + length);
    *to = tcc_emit_min(e, tcc_emit_within(e, end, high + growth * length), *to);
}
