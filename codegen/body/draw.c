/* SPDX-License-Identifier: MIT
 * Random draws: Philox 4x32-10, see ir/support/philox.h. Element n is word n % 4 of counter n / 4. */
#include "codegen/body/body.h"
#include "codegen/emit/math.h"
#include "codegen/emit/math64.h"

#include <stdio.h>

static tcc_emit_type like(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value v) {
    return tcc_emit_type_like(e, scalar, tcc_emit_type_of(v));
}

static void philox_product(tcc_emitter *e, uint32_t factor, tcc_emit_value x, tcc_emit_value *high,
                           tcc_emit_value *low) {
    tcc_emit_type wide = like(e, e->i64, x), narrow = like(e, e->i32, x);
    tcc_emit_value p = tcc_emit_imul(e, tcc_emit_zext(e, x, wide), tcc_emit_int(e, wide, factor));
    *high = tcc_emit_trunc(e, tcc_emit_lshr(e, p, tcc_emit_int(e, wide, 32)), narrow);
    *low = tcc_emit_trunc(e, p, narrow);
}

/* The low or high half of a 64-bit integer with the lanes of `as`. */
static tcc_emit_value half(tcc_emitter *e, tcc_emit_value v, int which, tcc_emit_type as) {
    tcc_emit_type type = tcc_emit_type_of(v);
    if (which) v = tcc_emit_lshr(e, v, tcc_emit_int(e, type, 32));
    v = tcc_emit_trunc(e, v, tcc_emit_type_like(e, e->i32, type));
    return tcc_emit_lanes_of(type) == tcc_emit_lanes_of(as) ? v : tcc_emit_splat(e, v, tcc_emit_lanes_of(as));
}

void tcc_scalar_philox(tcc_emitter *e, tcc_emit_value block, tcc_emit_value id, tcc_emit_value seed,
                       tcc_emit_value step, tcc_emit_value out[4]) {
    tcc_emit_type type = like(e, e->i32, block);
    tcc_emit_value k0 = half(e, seed, 0, type), k1 = half(e, seed, 1, type);
    tcc_emit_value c[4] = {half(e, block, 0, type), half(e, block, 1, type), half(e, id, 0, type),
                           half(e, step, 0, type)};
    for (int round = 0; round < 10; round++) {
        tcc_emit_value h0, l0, h1, l1;
        philox_product(e, 0xD2511F53u, c[0], &h0, &l0);
        philox_product(e, 0xCD9E8D57u, c[2], &h1, &l1);
        c[0] = tcc_emit_xor(e, tcc_emit_xor(e, h1, c[1]), k0);
        c[1] = l1;
        c[2] = tcc_emit_xor(e, tcc_emit_xor(e, h0, c[3]), k1);
        c[3] = l0;
        k0 = tcc_emit_iadd(e, k0, tcc_emit_int(e, type, 0x9E3779B9));
        k1 = tcc_emit_iadd(e, k1, tcc_emit_int(e, type, 0xBB67AE85));
    }
    for (int i = 0; i < 4; i++) out[i] = c[i];
}

static tcc_emit_value word(tcc_emitter *e, tcc_emit_value words[4], tcc_emit_value which) {
    tcc_emit_type type = tcc_emit_type_of(which);
    tcc_emit_value out = words[0];
    for (int i = 1; i < 4; i++)
        out = tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_EQ, which, tcc_emit_int(e, type, i)), words[i], out);
    return out;
}

static tcc_emit_value to_uniform(tcc_emitter *e, tcc_emit_value bits) {
    tcc_emit_type type = tcc_emit_type_of(bits), real = like(e, e->f32, bits);
    tcc_emit_value top = tcc_emit_lshr(e, bits, tcc_emit_int(e, type, 8));
    return tcc_emit_fmul(e, tcc_emit_sitofp(e, top, real), tcc_emit_float(e, real, 0x1p-24));
}

/* The words of each four lanes' block, in all four of them; and which of the words is the lane's own. */
static tcc_emit_value philox_fours(tcc_emitter *e, tcc_emit_value element, tcc_emit_value id, tcc_emit_value seed,
                                   tcc_emit_value step, tcc_emit_value out[4]) {
    enum { MOST_LANES = 64 };
    tcc_emit_type narrow = like(e, e->i32, element);
    int lanes = tcc_emit_lanes_of(narrow);
    tcc_emit_value which[MOST_LANES];
    for (int w = 0; w < 4; w++) out[w] = tcc_emit_poison(narrow);
    for (int i = 0; i < lanes; i++) {
        tcc_emit_value words[4];
        which[i] = tcc_emit_i32(e, i % 4);
        if (i % 4) continue;
        tcc_emit_value first = tcc_emit_extract(e, element, tcc_emit_i32(e, i));
        tcc_scalar_philox(e, tcc_emit_lshr(e, first, tcc_emit_i64(e, 2)), id, seed, step, words);
        for (int w = 0; w < 4; w++)
            for (int k = 0; k < 4; k++) out[w] = tcc_emit_insert(e, out[w], words[w], tcc_emit_i32(e, i + k));
    }
    return tcc_emit_constants(which, lanes);
}

tcc_emit_value tcc_scalar_random(tcc_emitter *e, tcc_op op, bool fours, const tcc_emit_value operands[4]) {
    tcc_emit_value element = operands[0], seed = operands[1], step = operands[2], id = operands[3];
    tcc_emit_type wide = tcc_emit_type_of(element), narrow = like(e, e->i32, element);
    tcc_emit_value words[4], which;
    if (fours) {
        which = philox_fours(e, element, id, seed, step, words);
    } else {
        tcc_scalar_philox(e, tcc_emit_lshr(e, element, tcc_emit_int(e, wide, 2)), id, seed, step, words);
        tcc_emit_value low = tcc_emit_trunc(e, element, narrow);
        which = tcc_emit_and(e, low, tcc_emit_int(e, narrow, 3));
    }
    if (op != TCC_OP_RNG_NORMAL) {
        tcc_emit_value bits = word(e, words, which);
        return op == TCC_OP_RNG_BITS ? bits : to_uniform(e, bits);
    }
    /* Box-Muller: words 0 and 1 give elements 0 and 1, words 2 and 3 the others; u1 is in (0, 1] */
    tcc_emit_type real = like(e, e->f32, element);
    tcc_emit_value second = tcc_emit_icmp(e, TCC_ICMP_UGE, which, tcc_emit_int(e, narrow, 2));
    tcc_emit_value u1 = to_uniform(e, tcc_emit_select(e, second, words[2], words[0]));
    tcc_emit_value u2 = to_uniform(e, tcc_emit_select(e, second, words[3], words[1]));
    u1 = tcc_emit_fadd(e, u1, tcc_emit_float(e, real, 0x1p-24));
    tcc_emit_value radius = tcc_emit_fmul(e, tcc_math_log(e, u1), tcc_emit_float(e, real, -2));
    radius = tcc_emit_intrinsic(e, "llvm.sqrt", real, &radius, 1);
    tcc_emit_value wide_u2 = tcc_math64_widen(e, u2);
    tcc_emit_value angle = tcc_emit_fmul(e, wide_u2, tcc_emit_float(e, tcc_emit_type_of(wide_u2), 0x1.921fb54442d18p2));
    tcc_emit_value odd = tcc_emit_trunc(e, which, like(e, e->i1, element));
    tcc_emit_value turn = tcc_emit_select(e, odd, tcc_math64_near_sin(e, angle), tcc_math64_near_cos(e, angle));
    return tcc_emit_fmul(e, radius, tcc_math64_narrow(e, turn));
}

tcc_emit_value tcc_scalar_random_call(tcc_emitter *e, tcc_op op, bool fours, tcc_emit_value operands[4]) {
    enum { N = 4 };
    tcc_emit_type types[N], element = tcc_emit_type_of(operands[0]);
    for (int i = 0; i < N; i++) types[i] = tcc_emit_type_of(operands[i]);
    char name[64];
    snprintf(name, sizeof name, "tcc_%s.%d.%d%s", tcc_op_get_info(op)->text, tcc_emit_lanes_of(element),
             tcc_emit_lanes_of(types[1]), fours ? ".fours" : "");
    tcc_emit_function f;
    if (!tcc_emit_function_find(e, name, &f)) {
        f = tcc_emit_function_begin(e, name, like(e, op == TCC_OP_RNG_BITS ? e->i32 : e->f32, operands[0]), types, N);
        tcc_emit_value v[N];
        for (int i = 0; i < N; i++) v[i] = tcc_emit_argument(&f, i);
        tcc_emit_function_end(e, &f, tcc_scalar_random(e, op, fours, v));
    }
    return tcc_emit_call(e, &f, operands, N);
}
