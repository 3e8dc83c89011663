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

void tcc_moment_step(tcc_emitter *e, const tcc_emit_value *state, tcc_emit_value *sums, tcc_emit_value x,
                     tcc_emit_value mask) {
    tcc_emit_value difference = tcc_emit_fsub(e, x, state[1]);
    if (mask) difference = tcc_emit_select(e, mask, difference, tcc_emit_null(tcc_emit_type_of(x)));
    sums[0] = tcc_emit_fadd(e, sums[0], difference);
    sums[1] = tcc_emit_fma(e, difference, difference, sums[1]);
}

static tcc_emit_value divide_by_count(tcc_emitter *e, tcc_emit_value a, tcc_emit_value count) {
    tcc_emit_type type = tcc_emit_type_of(count);
    tcc_emit_value none = tcc_emit_fcmp(e, TCC_FCMP_OEQ, count, tcc_emit_null(type));
    return tcc_emit_fdiv(e, a, tcc_emit_select(e, none, tcc_emit_float(e, type, 1), count));
}

void tcc_moment_settle(tcc_emitter *e, tcc_emit_value *state, const tcc_emit_value *sums, tcc_emit_value count) {
    tcc_emit_type type = tcc_emit_type_of(state[0]);
    tcc_emit_value first = tcc_emit_fcmp(e, TCC_FCMP_OEQ, state[0], tcc_emit_null(type));
    tcc_emit_value all = tcc_emit_fadd(e, state[0], count), shift = divide_by_count(e, sums[0], all);
    tcc_emit_value taken = tcc_emit_fmul(e, sums[0], shift), gain = tcc_emit_fsub(e, sums[1], taken);
    state[0] = all;
    state[1] = tcc_emit_fadd(e, state[1], shift);
    state[2] = tcc_emit_fadd(e, state[2], tcc_emit_select(e, first, tcc_emit_null(type), gain));
}

void tcc_moment_merge(tcc_emitter *e, tcc_emit_value *a, const tcc_emit_value *b) {
    tcc_emit_value all = tcc_emit_fadd(e, a[0], b[0]), share = divide_by_count(e, b[0], all);
    tcc_emit_value difference = tcc_emit_fsub(e, b[1], a[1]), weight = tcc_emit_fmul(e, a[0], share);
    tcc_emit_value weighted = tcc_emit_fmul(e, difference, weight), between = tcc_emit_fmul(e, weighted, difference);
    tcc_emit_value shift = tcc_emit_fmul(e, difference, share), within = tcc_emit_fadd(e, a[2], b[2]);
    a[0] = all;
    a[1] = tcc_emit_fadd(e, a[1], shift);
    a[2] = tcc_emit_fadd(e, within, between);
}

void tcc_moment_segments_begin(tcc_emitter *e, tcc_emit_loop *loop, tcc_emit_value *from, tcc_emit_value *to,
                               int64_t stride, int64_t length, int64_t high, const tcc_emit_value *initial,
                               int n_carry) {
    int segments = 1;
    while ((INT64_C(1) << GROWTH_BITS * (segments - 1)) * stride < length) segments++;
    tcc_emit_loop_begin(e, loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, segments), 1, initial, n_carry);
    tcc_emit_value bits = tcc_emit_mul(e, loop->index, tcc_emit_i64(e, GROWTH_BITS));
    tcc_emit_value steps = tcc_emit_shl(e, tcc_emit_i64(e, 1), bits),
                   before = tcc_emit_lshr(e, steps, tcc_emit_i64(e, GROWTH_BITS));
    int64_t most = INT64_C(1) << GROWTH_BITS * (segments - 1), growth = INT64_C(1) << GROWTH_BITS;
    steps = tcc_emit_within(e, steps, most);
    before = tcc_emit_within(e, before, most / growth);
    tcc_emit_value begin = tcc_emit_add(e, *from, tcc_emit_mul(e, before, tcc_emit_i64(e, stride)));
    tcc_emit_value end = tcc_emit_add(e, *from, tcc_emit_mul(e, steps, tcc_emit_i64(e, stride)));
    *from = tcc_emit_within(e, begin, high + length);
    *to = tcc_emit_min(e, tcc_emit_within(e, end, high + growth * length), *to);
}
