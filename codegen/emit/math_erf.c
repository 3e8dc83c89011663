/* SPDX-License-Identifier: MIT
 * erf and its slope by tables (math_tables.h). On each interval of |x|: value + t p(t) with t = |x| - centre, fitted so
 * that both are near. Centres are numbers whose erf is nearly f32. The first value is |x| itself, so that small results
 * keep their relative precision. The last centre is where the intervals end: from there on erf is 1 and its slope 0. */
#include "codegen/emit/math_tables.h"

enum { MOST_DEGREE = 7, INTERVALS = 16 };

typedef struct pieces {
    double per_unit, end;                                                       /* intervals of 1; the last centre */
    int degree;                                                                 /* of p */
    float centres[INTERVALS], values[INTERVALS], p[MOST_DEGREE + 1][INTERVALS]; /* of p: the constants first */
} pieces;

/* Sixteen intervals: the slope to 4e-8, erf to 8e-10 beside the rounding of its value. */
static const pieces of_sixteen = {
    3.5714285373687744,
    4.199999809265137,
    5,
    {0.0f, 0.27921605f, 0.5625276f, 0.83972937f, 1.1212633f, 1.4003721f, 1.6810067f, 1.9579005f, 2.2412395f, 2.5184948f,
     2.7970078f, 3.0817204f, 3.359292f, 3.642999f, 3.923f, 4.2f},
    {0.0f, 0.307062f, 0.57369715f, 0.7649919f, 0.8871939f, 0.95234424f, 0.9825602f, 0.9943752f, 0.99847347f, 0.9996315f,
     0.99992365f, 0.9999869f, 0.999998f, 0.99999976f, 1.0f, 1.0f},
    {
        {0.12837917f, 1.0437506f, 0.82229584f, 0.5574608f, 0.3209567f, 0.15877615f, 0.066870235f, 0.024414148f,
         0.0074289357f, 0.001985204f, 4.517109e-04f, 8.471549e-05f, 1.4174756e-05f, 1.9442496e-06f, 2.3372883e-07f,
         0.0f},
        {-2.2044846e-09f, -0.29143193f, -0.46256408f, -0.46811616f, -0.359877f, -0.22234572f, -0.112409316f,
         -0.04780049f, -0.016650029f, -0.0049997214f, -0.0012634341f, -2.6106936e-04f, -4.7616744e-05f, -7.082965e-06f,
         -9.16933e-07f, -4.4290905e-06f},
        {-0.376122f, -0.2936615f, -0.10063351f, 0.07623084f, 0.162021f, 0.1546535f, 0.1036869f, 0.054256283f,
         0.022401856f, 0.0077325064f, 0.002205021f, 5.079657e-04f, 1.0185824e-04f, 1.6538927e-05f, 2.316948e-06f,
         -1.6392244e-04f},
        {-1.514356e-04f, 0.13813972f, 0.18248817f, 0.124027796f, 0.029129444f, -0.034166753f, -0.049678247f,
         -0.03717856f, -0.019554187f, -0.008071283f, -0.0026632745f, -6.957011e-04f, -1.5527001e-04f, -2.7756014e-05f,
         -4.237067e-06f, -0.00245976f},
        {0.114862934f, 0.07208826f, -0.010465485f, -0.06375546f, -0.061274324f, -0.027344828f, 0.0020416002f,
         0.012680669f, 0.010778863f, 0.005834068f, 0.0023426104f, 7.180508e-04f, 1.8263586e-04f, 3.6720685e-05f,
         6.216994e-06f, -0.016045006f},
        {-0.012061616f, -0.043274567f, -0.04634523f, -0.015016045f, 0.014900183f, 0.021635152f, 0.012009363f,
         0.0015590605f, -0.002810324f, -0.0027085163f, -0.0014441219f, -5.490637e-04f, -1.6051368e-04f, -3.7331032e-05f,
         -7.0391766e-06f, -0.038183805f},
    }};
/* Eight: the slope to 3e-8, erf to 2e-9. */
static const pieces of_eight = {
    1.6746411323547363,
    4.179999828338623,
    7,
    {0.0f, 0.5979722f, 1.193524f, 1.7908653f, 2.387892f, 2.98472f, 3.5788572f, 4.18f},
    {0.0f, 0.6022578f, 0.90856916f, 0.9886801f, 0.99926716f, 0.9999757f, 0.9999996f, 1.0f},
    {
        {0.12837917f, 0.78915817f, 0.27152058f, 0.04566531f, 0.003767869f, 1.5258766e-04f, 3.0896995e-06f, 0.0f},
        {2.4236488e-07f, -0.47189465f, -0.32406634f, -0.081780426f, -0.0089972615f, -4.5543173e-04f, -1.0820919e-05f,
         -4.848583e-06f},
        {-0.37613785f, -0.07493447f, 0.16734752f, 0.08241717f, 0.013066883f, 8.5536443e-04f, 2.5353396e-05f,
         -1.6810079e-04f},
        {2.0903295e-04f, 0.1797022f, 0.008155988f, -0.046538405f, -0.012602235f, -0.0011246786f, -5.3354186e-05f,
         -0.0025358074f},
        {0.11099196f, -0.02044421f, -0.054108713f, 0.008597862f, 0.008122514f, 0.0010860158f, 5.198034e-05f,
         -0.019389452f},
        {0.008539329f, -0.04383013f, 0.019334279f, 0.0072710123f, -0.0031008732f, -7.811559e-04f, 1.3349674e-04f,
         -0.07932169f},
        {-0.047204457f, 0.011604838f, 0.006390659f, -0.0055921813f, 1.0916973e-04f, 4.0923106e-04f, 4.1602565e-05f,
         -0.16551156f},
        {0.021408372f, 0.007408748f, -0.005818367f, 9.573604e-04f, 5.658111e-04f, -1.3172989e-04f, -9.365568e-04f,
         -0.13851617f},
    }};

/* erf of a size, and its slope if asked for. */
static tcc_emit_value erf_of_size(tcc_emitter *e, tcc_emit_value size, tcc_emit_value *slope) {
    const pieces *s = e->target->lanes == INTERVALS ? &of_sixteen : &of_eight;
    tcc_emit_value near = tcc_math_at_most(e, size, s->end), magic = constant(e, size, MAGIC);
    /* The number of the nearest centre, in the low bits. */
    tcc_emit_value number = tcc_emit_fma(e, near, constant(e, size, s->per_unit), magic), index = to_bits(e, number);
    tcc_emit_value first = tcc_emit_fcmp(e, TCC_FCMP_OEQ, number, magic);
    tcc_emit_value t = sub(e, near, tcc_math_look_up(e, s->centres, index));
    tcc_emit_value sum = tcc_math_look_up(e, s->p[s->degree], index), derivative = sum; /* of t p(t) */
    for (int i = s->degree - 1; i >= 0; i--) {
        sum = tcc_emit_fma(e, sum, t, tcc_math_look_up(e, s->p[i], index));
        if (slope) derivative = tcc_emit_fma(e, derivative, t, sum);
    }
    if (slope) *slope = tcc_emit_select(e, first, add(e, derivative, constant(e, size, 1)), derivative);
    return tcc_emit_fma(e, sum, t, tcc_emit_select(e, first, size, tcc_math_look_up(e, s->values, index)));
}

static tcc_emit_value erf_of(tcc_emitter *e, tcc_emit_value x, tcc_emit_value unused) {
    (void)unused;
    return copy_sign(e, erf_of_size(e, tcc_math_abs(e, x), NULL), x);
}

tcc_emit_value tcc_math_erf_by_tables(tcc_emitter *e, tcc_emit_value x) {
    return tcc_math_by_parts(e, erf_of, x, NULL);
}

static tcc_emit_value slope_of(tcc_emitter *e, tcc_emit_value x, tcc_emit_value unused) {
    (void)unused;
    tcc_emit_value slope;
    erf_of_size(e, tcc_math_abs(e, x), &slope);
    return slope;
}

tcc_emit_value tcc_math_erf_slope_by_tables(tcc_emitter *e, tcc_emit_value x) {
    return tcc_math_by_parts(e, slope_of, x, NULL);
}
