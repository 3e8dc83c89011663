/* SPDX-License-Identifier: MIT
 * What AVX-512 makes short of the elementary functions on f32: one instruction looks up a table of sixteen entries for
 * every lane, and one multiplies by a power of two that may lie beyond the range of exponents.
 *
 * Vectors of another width are computed as full ones, so that all have the same bits. */
#include "codegen/emit/math.h"

enum { LANES = 16 };

bool tcc_math_has_avx512(const tcc_emitter *e) { return e->target->lanes == LANES; }

static LLVMValueRef constant(tcc_emitter *e, LLVMValueRef like, double value) {
    return tcc_emit_float(e, LLVMTypeOf(like), value);
}

/* Lanes first, first + 1, ... of x as a full vector; those past the end of x hold anything. */
static LLVMValueRef part(tcc_emitter *e, LLVMValueRef x, int first) {
    int indices[LANES], lanes = tcc_emit_lanes_of(LLVMTypeOf(x));
    if (lanes == LANES) return x;
    if (lanes == 1) {
        LLVMTypeRef full = tcc_emit_vector_type(LLVMTypeOf(x), LANES);
        return LLVMBuildInsertElement(e->builder, LLVMGetPoison(full), x, tcc_emit_i32(e, 0), "");
    }
    for (int i = 0; i < LANES; i++) indices[i] = first + i < lanes ? first + i : -1;
    return tcc_emit_shuffle(e, x, NULL, indices, LANES);
}

/* f of all lanes of x, and of those of y unless that is NULL. */
static LLVMValueRef by_parts(tcc_emitter *e, LLVMValueRef (*f)(tcc_emitter *e, LLVMValueRef x, LLVMValueRef y),
                             LLVMValueRef x, LLVMValueRef y) {
    enum { MOST = 64 };
    int indices[MOST], lanes = tcc_emit_lanes_of(LLVMTypeOf(x));
    LLVMValueRef all = f(e, part(e, x, 0), y ? part(e, y, 0) : NULL);
    if (lanes == 1) return LLVMBuildExtractElement(e->builder, all, tcc_emit_i32(e, 0), "");
    for (int i = 0; i < MOST; i++) indices[i] = i;
    if (lanes < LANES) return tcc_emit_shuffle(e, all, NULL, indices, lanes);
    for (int first = LANES; first < lanes; first += LANES) { /* both operands of a shuffle have one width */
        LLVMValueRef next = f(e, part(e, x, first), y ? part(e, y, first) : NULL);
        if (first > LANES) {
            for (int i = LANES; i < first; i++) indices[i] = -1;
            next = tcc_emit_shuffle(e, next, NULL, indices, first);
        }
        for (int i = LANES; i < MOST; i++) indices[i] = i;
        all = tcc_emit_shuffle(e, all, next, indices, first + LANES);
    }
    return all;
}

/* The entry that the low four bits of each lane's index name. */
static LLVMValueRef look_up(tcc_emitter *e, const float *table, LLVMValueRef index) {
    LLVMValueRef entries[LANES];
    for (int i = 0; i < LANES; i++) entries[i] = LLVMConstReal(e->f32, (double)table[i]);
    LLVMValueRef arguments[] = {LLVMConstVector(entries, LANES), index};
    return tcc_emit_intrinsic(e, "llvm.x86.avx512.permvar.sf.512", NULL, arguments, 2);
}

static LLVMValueRef scale(tcc_emitter *e, LLVMValueRef x, LLVMValueRef whole) {
    enum { ALL = 0xffff, ROUND_AS_USUAL = 4 };
    LLVMValueRef arguments[] = {x, whole, x, LLVMConstInt(e->i16, ALL, false), tcc_emit_i32(e, ROUND_AS_USUAL)};
    return tcc_emit_intrinsic(e, "llvm.x86.avx512.mask.scalef.ps.512", NULL, arguments, 5);
}

LLVMValueRef tcc_math_avx512_scale(tcc_emitter *e, LLVMValueRef x, LLVMValueRef whole) {
    return by_parts(e, scale, x, whole);
}

/* On each of sixteen intervals of |x|, value + t p(t) with t = |x| - centre. Centres are numbers whose erf and slope
 * are nearly f32. The first value is |x| itself, so that small results keep their relative precision; beyond 3.928, erf
 * rounds to 1. */
static LLVMValueRef erf_of(tcc_emitter *e, LLVMValueRef x, LLVMValueRef unused) {
    (void)unused;
    static const double intervals_per_unit = 3.9450242519378662, end = 3.928;
    static const float centres[LANES] = {0.0f,       0.24948221f, 0.50406545f, 0.74790525f, 1.0297127f, 1.273365f,
                                         1.5086414f, 1.7500398f,  2.0537355f,  2.2907321f,  2.48827f,   2.746791f,
                                         3.0072703f, 3.3008478f,  3.5605686f,  3.8321629f};
    static const float values[LANES] = {0.0f,        0.27577746f, 0.52406526f, 0.70980674f, 0.85467196f, 0.9282672f,
                                        0.96711963f, 0.9866738f,  0.99632066f, 0.99880296f, 0.99956673f, 0.9998975f,
                                        0.9999789f,  0.99999696f, 0.9999995f,  0.99999994f};
    /* The coefficients of p, the constants first; relative errors of erf are below 9e-10. */
    static const float p[][LANES] = {
        {0.12837917f, 1.0602883f, 0.8752027f, 0.6449516f, 0.39081305f, 0.22297932f, 0.1158781f, 0.05276764f,
         0.016621683f, 0.0059362864f, 0.002309543f, 5.9671083e-04f, 1.3330208e-04f, 2.0919815e-05f, 3.5206451e-06f,
         4.727154e-07f},
        {3.6038125e-07f, -0.26452303f, -0.44115958f, -0.48236254f, -0.40242526f, -0.28393424f, -0.17481853f,
         -0.09234551f, -0.03413662f, -0.013598414f, -0.0057467227f, -0.001639085f, -4.0072235e-04f, -6.9143745e-05f,
         -1.2539622e-05f, -1.9432157e-06f},
        {-0.3761477f, -0.30943128f, -0.1434859f, 0.025521783f, 0.14598256f, 0.16670787f, 0.1372001f, 0.09014992f,
         0.041197713f, 0.018788183f, 0.008763027f, 0.0028026695f, 7.589646e-04f, 1.4497554e-04f, 2.8579792e-05f,
         4.3075997e-06f},
        {4.289733e-04f, 0.12676486f, 0.18322995f, 0.15121311f, 0.05901044f, -0.01146591f, -0.045210518f, -0.048087012f,
         -0.030922005f, -0.01699122f, -0.008993396f, -0.0032988018f, -0.0010254608f, -2.023936e-04f, -4.606909e-05f,
         6.71588e-06f},
        {0.10962033f, 0.0797852f, 0.006224488f, -0.05250656f, -0.06781909f, -0.044113856f, -0.013975516f, 0.0065414575f,
         0.013030109f, 0.009922048f, 0.0063510807f, 0.0027557244f, 0.0010467874f, 2.4446147e-04f, 5.869293e-05f,
         4.357655e-05f},
        {0.0044083777f, -0.040001597f, -0.050131623f, -0.02546815f, 0.005824166f, 0.02044004f, 0.018500987f,
         0.0080187265f, -3.7848877e-04f, -0.0028411376f, -0.0027552352f, -0.0014933455f, -5.098288e-04f,
         -7.4256543e-04f, -8.1476086e-05f, -2.485594e-04f},
    };
    enum { DEGREE = sizeof p / sizeof *p - 1 };
    LLVMValueRef a = tcc_math_abs(e, x), near = tcc_math_at_most(e, a, end), magic = constant(e, x, 12582912.0);
    /* Adding 1.5 * 2^23 leaves the number of the nearest centre in the low bits. */
    LLVMValueRef number = tcc_emit_fma(e, near, constant(e, x, intervals_per_unit), magic);
    LLVMValueRef index = LLVMBuildBitCast(e->builder, number, tcc_emit_type_like(e, e->i32, LLVMTypeOf(x)), "");
    LLVMValueRef first = tcc_emit_compare(e, LLVMRealOEQ, number, magic);
    LLVMValueRef t = LLVMBuildFSub(e->builder, near, look_up(e, centres, index), "");
    LLVMValueRef sum = look_up(e, p[DEGREE], index);
    for (int i = DEGREE - 1; i >= 0; i--) sum = tcc_emit_fma(e, sum, t, look_up(e, p[i], index));
    LLVMValueRef value = tcc_emit_select(e, first, a, look_up(e, values, index));
    LLVMValueRef arguments[] = {tcc_emit_fma(e, sum, t, value), x};
    return tcc_emit_intrinsic(e, "llvm.copysign", LLVMTypeOf(x), arguments, 2);
}

LLVMValueRef tcc_math_avx512_erf(tcc_emitter *e, LLVMValueRef x) { return by_parts(e, erf_of, x, NULL); }
