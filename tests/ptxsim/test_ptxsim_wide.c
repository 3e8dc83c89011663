/* SPDX-License-Identifier: MIT
 * What instructions on 64 and 16 bits compute, comparisons of every type, and conversions between all of them, against
 * C. */
#include "driver.h"

#include <math.h>

enum { MOST = 8192 };

static uint64_t in[3][MOST], out[MOST];
static uint64_t seed = 1;

static double f64(uint64_t u) {
    double f;
    memcpy(&f, &u, 8);
    return f;
}
static uint64_t bits64(double f) {
    uint64_t u;
    memcpy(&u, &f, 8);
    return u;
}
static float f32(uint64_t u) {
    uint32_t w = (uint32_t)u;
    float f;
    memcpy(&f, &w, 4);
    return f;
}
static uint64_t bits32(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static float f16(uint64_t u) {
    int e = (int)(u >> 10 & 31);
    float m = (float)(u & 1023), v = e == 31 ? (m != 0 ? NAN : INFINITY)
                                     : e     ? ldexpf(1024 + m, e - 25)
                                             : ldexpf(m, -24);
    return u & 0x8000 ? -v : v;
}

static uint64_t random64(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed ^ seed >> 29;
}

static const uint64_t special[] = {0,
                                   1,
                                   2,
                                   31,
                                   32,
                                   63,
                                   64,
                                   65,
                                   0x7f,
                                   0x80,
                                   0xff,
                                   0x7fff,
                                   0x8000,
                                   0xffff,
                                   0x7fffffff,
                                   0x80000000,
                                   0xffffffff,
                                   0x7fffffffffffffff,
                                   0x8000000000000000,
                                   0x8000000000000001,
                                   0xffffffffffffffff,
                                   0x3ff0000000000000,
                                   0xbff0000000000000,
                                   0x7ff0000000000000,
                                   0xfff0000000000000,
                                   0x7ff8000000000000,
                                   0x7ff0000000000001,
                                   0x0010000000000000,
                                   0x000fffffffffffff,
                                   0x43e0000000000000,
                                   0xc3e0000000000000,
                                   0x41dfffffffc00000,
                                   0x41efffffffe00000,
                                   0x3fe0000000000000,
                                   0x4008000000000000,
                                   0x3ff00000fffffff0,
                                   0x47efffffefffffff,
                                   0x36a0000000000000,
                                   0x3f800000,
                                   0xbf800000,
                                   0x7f800000,
                                   0xff800000,
                                   0x7fc00000,
                                   0x5f000000,
                                   0xdf000000,
                                   0x4f000000,
                                   0x3f000000,
                                   0x3c00,
                                   0xbc00,
                                   0x7c00,
                                   0xfc00,
                                   0x7e00,
                                   0x3f80,
                                   0xbf80,
                                   0x7f80,
                                   0x7fc0};
enum { SPECIAL = sizeof special / sizeof *special };

/* All pairs of special values, then random ones; a third of any kind. */
static int fill(void) {
    int n = 0;
    for (int i = 0; i < SPECIAL; i++)
        for (int k = 0; k < SPECIAL; k++)
            in[0][n] = special[i], in[1][n] = special[k], in[2][n] = special[random64() % SPECIAL], n++;
    for (; n < MOST; n++)
        for (int k = 0; k < 3; k++)
            in[k][n] = random64() % 4 ? random64() >> (n % 5 ? 0 : random64() % 64) : special[random64() % SPECIAL];
    return n;
}

/* body: %d5, %d6, %d7 to %d8; the low bits of the same in %h, %r, %f and, as numbers, in %q. */
static void compute(const char *body, int n) {
    char text[6000];
    fresh_device();
    snprintf(text, sizeof text,
             PTX_HEAD ".visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n) {\n"
                      "  .reg .pred %%p<20>;\n  .reg .b16 %%h<20>;\n  .reg .b32 %%r<20>;\n  .reg .f32 %%f<20>;\n  .reg "
                      ".b64 %%d<20>;\n  .reg .f64 %%q<20>;\n"
                      "  ld.param.u64 %%d1, [a];\n  ld.param.u64 %%d2, [b];\n  ld.param.u32 %%r1, [n];\n"
                      "  mov.u32 %%r2, %%ctaid.x;\n  mov.u32 %%r3, %%tid.x;\n  mad.lo.u32 %%r2, %%r2, 256, %%r3;\n  "
                      "setp.ge.u32 %%p1, %%r2, %%r1;\n  @%%p1 ret;\n"
                      "  mul.wide.u32 %%d3, %%r2, 8;\n  mul.wide.u32 %%d4, %%r1, 8;\n  add.s64 %%d9, %%d1, %%d3;\n  "
                      "ld.global.u64 %%d5, [%%d9];\n  add.s64 %%d9, %%d9, %%d4;\n"
                      "  ld.global.u64 %%d6, [%%d9];\n  add.s64 %%d9, %%d9, %%d4;\n  ld.global.u64 %%d7, [%%d9];\n"
                      "  mov.b64 %%q5, %%d5;\n  mov.b64 %%q6, %%d6;\n  mov.b64 %%q7, %%d7;\n  cvt.u32.u64 %%r5, "
                      "%%d5;\n  cvt.u32.u64 %%r6, %%d6;\n  cvt.u32.u64 %%r7, %%d7;\n"
                      "  mov.b32 %%f5, %%r5;\n  mov.b32 %%f6, %%r6;\n  cvt.u16.u64 %%h5, %%d5;\n  cvt.u16.u64 %%h6, "
                      "%%d6;\n  cvt.u16.u64 %%h7, %%d7;\n"
                      "%s\n  add.s64 %%d9, %%d2, %%d3;\n  st.global.u64 [%%d9], %%d8;\n  ret;\n}\n",
             body);
    CUfunction k = function_of(load(text), "k");
    CUdeviceptr da = device_alloc((size_t)n * 24), db = device_alloc((size_t)n * 8);
    for (int i = 0; i < 3; i++) assert_cuda(cuMemcpyHtoD_v2(da + (size_t)(i * n) * 8, in[i], (size_t)n * 8));
    assert_cuda(LAUNCH(k, (unsigned)(n + 255) / 256, 256, 0, &da, &db, &n));
    assert_cuda(cuMemcpyDtoH_v2(out, db, (size_t)n * 8));
    assert_int_equal(ptxsim_report_count(), 0);
}

/* --- arithmetic */

#define EXPECT(name, expr)                                                                                        \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c) {                                                    \
        int64_t sa = (int64_t)a, sb = (int64_t)b;                                                                 \
        double x = f64(a), y = f64(b), z = f64(c);                                                                \
        float v = f32(a);                                                                                         \
        uint16_t ha = (uint16_t)a, hb = (uint16_t)b, hc = (uint16_t)c;                                            \
        uint32_t wa = (uint32_t)a, wb = (uint32_t)b;                                                              \
        (void)sa, (void)sb, (void)x, (void)y, (void)z, (void)v, (void)ha, (void)hb, (void)hc, (void)wa, (void)wb; \
        return (uint64_t)(expr);                                                                                  \
    }
EXPECT(add, a + b)
EXPECT(sub, a - b)
EXPECT(mul, a *b)
EXPECT(mad, a *b + c)
EXPECT(mul_hi_u, (unsigned __int128)a *b >> 64)
EXPECT(mul_hi_s, (unsigned __int128)((__int128)sa *sb) >> 64)
EXPECT(min_s, sa < sb ? sa : sb)
EXPECT(max_s, sa > sb ? sa : sb)
EXPECT(min_u, a < b ? a : b)
EXPECT(max_u, a > b ? a : b)
EXPECT(div_s, sb == 0 ? UINT64_MAX : sb == -1 ? -a : (uint64_t)(sa / sb))
EXPECT(rem_s, sb == 0 ? sa : sb == -1 ? 0 : sa % sb)
EXPECT(div_u, b ? a / b : UINT64_MAX)
EXPECT(rem_u, b ? a % b : a)
EXPECT(abs_s, sa < 0 ? -a : a)
EXPECT(neg_s, -a)
EXPECT(and_b, a &b)
EXPECT(or_b, a | b)
EXPECT(xor_b, a ^ b)
EXPECT(not_b, ~a)
EXPECT(shl_b, wb > 63 ? 0 : a << wb)
EXPECT(shr_u, wb > 63 ? 0 : a >> wb)
EXPECT(shr_s, wb > 63 ? sa >> 63 : sa >> wb)
EXPECT(popc, __builtin_popcountll(a))
EXPECT(clz, a ? __builtin_clzll(a) : 64)
EXPECT(wide_u16, (uint32_t)ha *hb)
EXPECT(wide_s16, (uint32_t)((int16_t)ha *(int16_t)hb))
EXPECT(wide_u32, (uint64_t)wa *wb)
EXPECT(wide_s32, (int64_t)(int32_t)wa *(int32_t)wb)
EXPECT(mad_wide_u32, (uint64_t)wa *wb + c)
EXPECT(mad_wide_s32, (uint64_t)((int64_t)(int32_t)wa *(int32_t)wb) + c)
EXPECT(add_h, (uint16_t)(ha + hb))
EXPECT(sub_h, (uint16_t)(ha - hb))
EXPECT(mul_h, (uint16_t)((uint32_t)ha *hb))
EXPECT(mad_h, (uint16_t)((uint32_t)ha *hb + hc))
EXPECT(neg_h, (uint16_t)-ha)
EXPECT(and_h, (uint16_t)(ha &hb))
EXPECT(or_h, (uint16_t)(ha | hb))
EXPECT(xor_h, (uint16_t)(ha ^ hb))
EXPECT(not_h, (uint16_t)~ha)
EXPECT(shl_h, wb > 15 ? 0 : (uint16_t)(ha << wb))
EXPECT(shr_hu, wb > 15 ? 0 : ha >> wb)
EXPECT(shr_hs, (uint16_t)((int16_t)ha >> (wb > 15 ? 15 : wb)))
EXPECT(min_hs, (uint16_t)((int16_t)ha < (int16_t)hb ? ha : hb))
EXPECT(max_hu, ha > hb ? ha : hb)
EXPECT(add_f, bits64(x + y))
EXPECT(sub_f, bits64(x - y))
EXPECT(mul_f, bits64(x *y))
EXPECT(div_f, bits64(x / y))
EXPECT(fma_f, bits64(fma(x, y, z)))
EXPECT(sqrt_f, bits64(sqrt(x)))
EXPECT(rcp_f, bits64(1 / x))
EXPECT(abs_f, a &INT64_MAX)
EXPECT(neg_f, a ^ (uint64_t)INT64_MIN)
EXPECT(min_f, x != x ? b : y != y ? a : x == y ? a | b : x < y ? a : b)
EXPECT(max_f, x != x ? b : y != y ? a : x == y ? a & b : x > y ? a : b)
EXPECT(rni_f, bits64(rint(x)))
EXPECT(rmi_f, bits64(floor(x)))
EXPECT(rpi_f, bits64(ceil(x)))
EXPECT(rzi_f, bits64(trunc(x)))
EXPECT(selp, sa < sb ? a : b)
EXPECT(selp_w, sa < sb ? wa : wb)
EXPECT(selp_h, sa < sb ? ha : hb)
EXPECT(same, a)
EXPECT(logic,
       ((sa < sb && a < b) ? 1 : 0) | ((sa < sb || a < b) ? 2 : 0) | ((sa < sb) != (a < b) ? 4 : 0) | (sa < sb ? 8 : 0))
static uint64_t bit_field(uint64_t a, uint64_t b, uint64_t c, bool is_signed) {
    uint32_t p = b & 255, n = c & 255, last = p + n - 1 > 63 ? 63 : p + n - 1;
    uint64_t r = 0, sign = is_signed && n ? a >> last & 1 : 0;
    for (uint32_t i = 0; i < 64; i++) r |= (i < n && p + i <= 63 ? a >> (p + i) & 1 : sign) << i;
    return r;
}
static uint64_t bfe_u(uint64_t a, uint64_t b, uint64_t c) { return bit_field(a, b, c, false); }
static uint64_t bfe_s(uint64_t a, uint64_t b, uint64_t c) { return bit_field(a, b, c, true); }
static uint64_t brev(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t r = 0;
    (void)b, (void)c;
    for (int i = 0; i < 64; i++) r |= (a >> i & 1) << (63 - i);
    return r;
}

#define FROM_H "\n cvt.u64.u16 %d8, %h8;"
#define FROM_R "\n cvt.u64.u32 %d8, %r8;"
#define FROM_F "\n mov.b32 %r8, %f8;" FROM_R
#define FROM_Q "\n mov.b64 %d8, %q8;"
static const struct {
    const char *body;
    uint64_t (*expected)(uint64_t, uint64_t, uint64_t);
} cases[] = {
    {"add.s64 %d8, %d5, %d6;", add},
    {"sub.s64 %d8, %d5, %d6;", sub},
    {"mul.lo.s64 %d8, %d5, %d6;", mul},
    {"mad.lo.s64 %d8, %d5, %d6, %d7;", mad},
    {"mul.hi.u64 %d8, %d5, %d6;", mul_hi_u},
    {"mul.hi.s64 %d8, %d5, %d6;", mul_hi_s},
    {"min.s64 %d8, %d5, %d6;", min_s},
    {"max.s64 %d8, %d5, %d6;", max_s},
    {"min.u64 %d8, %d5, %d6;", min_u},
    {"max.u64 %d8, %d5, %d6;", max_u},
    {"div.s64 %d8, %d5, %d6;", div_s},
    {"rem.s64 %d8, %d5, %d6;", rem_s},
    {"div.u64 %d8, %d5, %d6;", div_u},
    {"rem.u64 %d8, %d5, %d6;", rem_u},
    {"abs.s64 %d8, %d5;", abs_s},
    {"neg.s64 %d8, %d5;", neg_s},
    {"and.b64 %d8, %d5, %d6;", and_b},
    {"or.b64 %d8, %d5, %d6;", or_b},
    {"xor.b64 %d8, %d5, %d6;", xor_b},
    {"not.b64 %d8, %d5;", not_b},
    {"shl.b64 %d8, %d5, %r6;", shl_b},
    {"shr.u64 %d8, %d5, %r6;", shr_u},
    {"shr.s64 %d8, %d5, %r6;", shr_s},
    {"bfe.u64 %d8, %d5, %r6, %r7;", bfe_u},
    {"bfe.s64 %d8, %d5, %r6, %r7;", bfe_s},
    {"popc.b64 %r8, %d5;" FROM_R, popc},
    {"clz.b64 %r8, %d5;" FROM_R, clz},
    {"brev.b64 %d8, %d5;", brev},
    {"mul.wide.u16 %r8, %h5, %h6;" FROM_R, wide_u16},
    {"mul.wide.s16 %r8, %h5, %h6;" FROM_R, wide_s16},
    {"mul.wide.u32 %d8, %r5, %r6;", wide_u32},
    {"mul.wide.s32 %d8, %r5, %r6;", wide_s32},
    {"mad.wide.u32 %d8, %r5, %r6, %d7;", mad_wide_u32},
    {"mad.wide.s32 %d8, %r5, %r6, %d7;", mad_wide_s32},
    {"add.s16 %h8, %h5, %h6;" FROM_H, add_h},
    {"sub.s16 %h8, %h5, %h6;" FROM_H, sub_h},
    {"mul.lo.s16 %h8, %h5, %h6;" FROM_H, mul_h},
    {"mad.lo.s16 %h8, %h5, %h6, %h7;" FROM_H, mad_h},
    {"neg.s16 %h8, %h5;" FROM_H, neg_h},
    {"and.b16 %h8, %h5, %h6;" FROM_H, and_h},
    {"or.b16 %h8, %h5, %h6;" FROM_H, or_h},
    {"xor.b16 %h8, %h5, %h6;" FROM_H, xor_h},
    {"not.b16 %h8, %h5;" FROM_H, not_h},
    {"shl.b16 %h8, %h5, %r6;" FROM_H, shl_h},
    {"shr.u16 %h8, %h5, %r6;" FROM_H, shr_hu},
    {"shr.s16 %h8, %h5, %r6;" FROM_H, shr_hs},
    {"min.s16 %h8, %h5, %h6;" FROM_H, min_hs},
    {"max.u16 %h8, %h5, %h6;" FROM_H, max_hu},
    {"add.rn.f64 %q8, %q5, %q6;" FROM_Q, add_f},
    {"sub.rn.f64 %q8, %q5, %q6;" FROM_Q, sub_f},
    {"mul.rn.f64 %q8, %q5, %q6;" FROM_Q, mul_f},
    {"div.rn.f64 %q8, %q5, %q6;" FROM_Q, div_f},
    {"fma.rn.f64 %q8, %q5, %q6, %q7;" FROM_Q, fma_f},
    {"sqrt.rn.f64 %q8, %q5;" FROM_Q, sqrt_f},
    {"rcp.rn.f64 %q8, %q5;" FROM_Q, rcp_f},
    {"abs.f64 %q8, %q5;" FROM_Q, abs_f},
    {"neg.f64 %q8, %q5;" FROM_Q, neg_f},
    {"min.f64 %q8, %q5, %q6;" FROM_Q, min_f},
    {"max.f64 %q8, %q5, %q6;" FROM_Q, max_f},
    {"cvt.rni.f64.f64 %q8, %q5;" FROM_Q, rni_f},
    {"cvt.rmi.f64.f64 %q8, %q5;" FROM_Q, rmi_f},
    {"cvt.rpi.f64.f64 %q8, %q5;" FROM_Q, rpi_f},
    {"cvt.rzi.f64.f64 %q8, %q5;" FROM_Q, rzi_f},
    {"setp.lt.s64 %p2, %d5, %d6;\n selp.b64 %d8, %d5, %d6, %p2;", selp},
    {"setp.lt.s64 %p2, %d5, %d6;\n selp.u64 %d8, %d5, %d6, %p2;", selp},
    {"setp.lt.s64 %p2, %d5, %d6;\n selp.f64 %q8, %q5, %q6, %p2;" FROM_Q, selp},
    {"setp.lt.s64 %p2, %d5, %d6;\n selp.f32 %f8, %f5, %f6, %p2;" FROM_F, selp_w},
    {"setp.lt.s64 %p2, %d5, %d6;\n selp.u16 %h8, %h5, %h6, %p2;" FROM_H, selp_h},
    {"setp.lt.s64 %p2, %d5, %d6;\n setp.lt.u64 %p3, %d5, %d6;\n and.pred %p4, %p2, %p3;\n or.pred %p5, %p2, %p3;\n "
     "xor.pred %p6, %p2, %p3;\n not.pred %p7, %p2;\n mov.pred %p8, %p7;\n"
     "selp.u64 %d8, 1, 0, %p4;\n selp.u64 %d9, 2, 0, %p5;\n or.b64 %d8, %d8, %d9;\n selp.u64 %d9, 4, 0, %p6;\n or.b64 "
     "%d8, %d8, %d9;\n selp.u64 %d9, 0, 8, %p8;\n or.b64 %d8, %d8, %d9;",
     logic},
    {"mov.f64 %q8, %q5;" FROM_Q, same},
    {"mov.b64 {%r10, %r11}, %d5;\n mov.b64 %d8, {%r10, %r11};", same},
    {"mov.b64 {%h10, %h11, %h12, %h13}, %d5;\n mov.b16 %h14, %h11;\n mov.b64 %d8, {%h10, %h14, %h12, %h13};", same},
};

/* Where the result is a NaN of f64, any NaN will do: the ISA does not fix its bits. */
static bool equal(const char *body, uint64_t got, uint64_t e) {
    return got == e || (strstr(body, "%q8") && f64(got) != f64(got) && f64(e) != f64(e));
}

static void instructions_agree_with_c(void **state) {
    (void)state;
    int n = fill();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        compute(cases[k].body, n);
        for (int i = 0; i < n; i++) {
            uint64_t e = cases[k].expected(in[0][i], in[1][i], in[2][i]);
            if (!equal(cases[k].body, out[i], e))
                fail_msg("%s of 0x%llx, 0x%llx, 0x%llx: 0x%llx instead of 0x%llx", cases[k].body,
                         (unsigned long long)in[0][i], (unsigned long long)in[1][i], (unsigned long long)in[2][i],
                         (unsigned long long)out[i], (unsigned long long)e);
        }
    }
}

/* --- comparisons */

static bool compare(const char *how, double order, bool unordered) { /* order: the sign of x - y */
    if (!strcmp(how, "num")) return !unordered;
    if (!strcmp(how, "nan")) return unordered;
    if (unordered) return strlen(how) == 3;
    if (how[0] == 'e') return order == 0;
    if (how[0] == 'n') return order != 0;
    bool less = how[0] == 'l', strict = how[1] == 't' || !strcmp(how, "lo") || !strcmp(how, "hi");
    return (less ? order < 0 : order > 0) || (!strict && order == 0);
}

static double sign_of(double x, double y) { return (x > y) - (x < y); }

static void comparisons(void **state) {
    (void)state;
    static const char *const ways[] = {"eq", "ne",  "lt",  "le",  "gt",  "ge",  "lo",  "ls",  "hi",
                                       "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
    static const struct {
        const char *type, *registers;
        int kind;
    } types[] = {
        {"s16", "%h", 's'}, {"u16", "%h", 'u'}, {"b16", "%h", 'b'}, {"s32", "%r", 's'},
        {"u32", "%r", 'u'}, {"b32", "%r", 'b'}, {"s64", "%d", 's'}, {"u64", "%d", 'u'},
        {"b64", "%d", 'b'}, {"f16", "%h", 'f'}, {"f32", "%f", 'f'}, {"f64", "%q", 'f'},
    };
    int n = fill();
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            bool is_float = types[t].kind == 'f';
            if (is_float ? w >= 6 && w < 10 : w >= (types[t].kind == 'b' ? 2 : types[t].kind == 's' ? 6 : 10)) continue;
            char body[200];
            int width = atoi(types[t].type + 1);
            snprintf(body, sizeof body, "setp.%s.%s %%p2, %s5, %s6;\n selp.u64 %%d8, 1, 0, %%p2;", ways[w],
                     types[t].type, types[t].registers, types[t].registers);
            compute(body, n);
            for (int i = 0; i < n; i++) {
                uint64_t a = in[0][i] << (64 - width), b = in[1][i] << (64 - width); /* keeps the order of integers */
                double x = width == 64 ? f64(in[0][i]) : width == 32 ? (double)f32(in[0][i]) : (double)f16(in[0][i]);
                double y = width == 64 ? f64(in[1][i]) : width == 32 ? (double)f32(in[1][i]) : (double)f16(in[1][i]);
                double order = is_float               ? sign_of(x, y)
                               : types[t].kind == 's' ? ((int64_t)a > (int64_t)b) - ((int64_t)a < (int64_t)b)
                                                      : (a > b) - (a < b);
                bool e = compare(ways[w], order, is_float && (x != x || y != y));
                if (out[i] != e)
                    fail_msg("%s of 0x%llx, 0x%llx: %d", body, (unsigned long long)in[0][i],
                             (unsigned long long)in[1][i], (int)out[i]);
            }
        }
}

/* --- conversions */

enum { RN, RZ, RM, RP };

/* x rounded to float32: from the nearest value to the neighbour that the mode wants. */
static uint64_t to_f32(double x, int mode) {
    float r = (float)x;
    if (x != x) return 0x7fffffff;
    if (isinf(x)) return bits32(r);
    if (isinf(r) && (mode == RZ || mode == (x > 0 ? RM : RP))) return bits32(copysignf(0x1.fffffep127f, r));
    bool up = mode == RP || (mode == RZ && x < 0), down = mode == RM || (mode == RZ && x > 0);
    if (up && (double)r < x) r = nextafterf(r, INFINITY);
    if (down && (double)r > x) r = nextafterf(r, -INFINITY);
    return bits32(r);
}
EXPECT(f32_rn, to_f32(x, RN))
EXPECT(f32_rz, to_f32(x, RZ))
EXPECT(f32_rm, to_f32(x, RM))
EXPECT(f32_rp, to_f32(x, RP))
EXPECT(widen, bits64((double)v))
EXPECT(f32_s64, bits32((float)sa))
EXPECT(f32_u64, bits32((float)a))
EXPECT(f64_s32, bits64((double)(int32_t)wa))
EXPECT(f64_u32, bits64((double)wa))
EXPECT(f64_s64, bits64((double)sa))
EXPECT(f64_u64, bits64((double)a))
EXPECT(f32_rmi, v != v ? 0x7fffffff : bits32(floorf(v)))
EXPECT(f32_rpi, v != v ? 0x7fffffff : bits32(ceilf(v)))
EXPECT(f32_rzi, v != v ? 0x7fffffff : bits32(truncf(v)))
EXPECT(extend, (int64_t)(int32_t)wa)
EXPECT(extend_h, ha)
EXPECT(extend_sh, (int64_t)(int16_t)ha)
EXPECT(extend_b, (uint8_t)a)
EXPECT(extend_sb, (int64_t)(int8_t)a)
EXPECT(low_w, wa)
EXPECT(clamp_u8, (int32_t)wa < 0 ? 0 : wa > 255 ? 255 : wa)
EXPECT(clamp_s16, (uint16_t)(sa > 32767 ? 32767 : sa < -32768 ? -32768 : sa))

/* To integers: NaN becomes 0, or 1 << (width - 1) where f64 or 64 bits are concerned; what is too large the limit. */
static uint64_t to_int(double x, int width, bool is_signed, bool from_f64) {
    if (x != x) return from_f64 || width == 64 ? UINT64_C(1) << (width - 1) : 0;
    if (is_signed) {
        double limit = ldexp(1, width - 1);
        uint64_t r = x >= limit   ? (UINT64_C(1) << (width - 1)) - 1
                     : x < -limit ? UINT64_C(1) << (width - 1)
                                  : (uint64_t)(int64_t)x;
        return width == 64 ? r : r & ((UINT64_C(1) << width) - 1);
    }
    return x <= 0 ? 0 : x >= ldexp(1, width) ? UINT64_MAX >> (64 - width) : (uint64_t)x;
}
EXPECT(s32_f64, to_int(trunc(x), 32, true, true))
EXPECT(u32_f64, to_int(trunc(x), 32, false, true))
EXPECT(s64_f64, to_int(trunc(x), 64, true, true))
EXPECT(u64_f64, to_int(trunc(x), 64, false, true))
EXPECT(s64_f32, to_int((double)truncf(v), 64, true, false))
EXPECT(u64_f32, to_int((double)truncf(v), 64, false, false))
EXPECT(s32_f32_rni, to_int((double)rintf(v), 32, true, false))
EXPECT(s32_f32_rmi, to_int((double)floorf(v), 32, true, false))
EXPECT(s32_f32_rpi, to_int((double)ceilf(v), 32, true, false))
EXPECT(s64_f64_rni, to_int(rint(x), 64, true, true))
EXPECT(u8_f32, to_int((double)truncf(v), 8, false, false))
EXPECT(f32_f16, f16(a) != f16(a) ? 0x7fffffff : bits32(f16(a)))
EXPECT(s16_f16, to_int((double)truncf(f16(a)), 16, true, false))

static const struct {
    const char *body;
    uint64_t (*expected)(uint64_t, uint64_t, uint64_t);
} conversions[] = {
    {"cvt.rn.f32.f64 %f8, %q5;" FROM_F, f32_rn},
    {"cvt.rz.f32.f64 %f8, %q5;" FROM_F, f32_rz},
    {"cvt.rm.f32.f64 %f8, %q5;" FROM_F, f32_rm},
    {"cvt.rp.f32.f64 %f8, %q5;" FROM_F, f32_rp},
    {"cvt.f64.f32 %q8, %f5;" FROM_Q, widen},
    {"cvt.rn.f32.s64 %f8, %d5;" FROM_F, f32_s64},
    {"cvt.rn.f32.u64 %f8, %d5;" FROM_F, f32_u64},
    {"cvt.rn.f64.s32 %q8, %r5;" FROM_Q, f64_s32},
    {"cvt.rn.f64.u32 %q8, %r5;" FROM_Q, f64_u32},
    {"cvt.rn.f64.s64 %q8, %d5;" FROM_Q, f64_s64},
    {"cvt.rn.f64.u64 %q8, %d5;" FROM_Q, f64_u64},
    {"cvt.rmi.f32.f32 %f8, %f5;" FROM_F, f32_rmi},
    {"cvt.rpi.f32.f32 %f8, %f5;" FROM_F, f32_rpi},
    {"cvt.rzi.f32.f32 %f8, %f5;" FROM_F, f32_rzi},
    {"cvt.s64.s32 %d8, %r5;", extend},
    {"cvt.u64.u32 %d8, %r5;", low_w},
    {"cvt.u64.u16 %d8, %h5;", extend_h},
    {"cvt.s64.s16 %d8, %h5;", extend_sh},
    {"cvt.u64.u8 %d8, %h5;", extend_b},
    {"cvt.s64.s8 %d8, %h5;", extend_sb},
    {"cvt.u32.u64 %r8, %d5;" FROM_R, low_w},
    {"cvt.u16.u64 %h8, %d5;" FROM_H, extend_h},
    {"cvt.sat.u8.s32 %r8, %r5;" FROM_R, clamp_u8},
    {"cvt.sat.s16.s64 %h8, %d5;" FROM_H, clamp_s16},
    {"cvt.rzi.s32.f64 %r8, %q5;" FROM_R, s32_f64},
    {"cvt.rzi.u32.f64 %r8, %q5;" FROM_R, u32_f64},
    {"cvt.rzi.s64.f64 %d8, %q5;", s64_f64},
    {"cvt.rzi.u64.f64 %d8, %q5;", u64_f64},
    {"cvt.rzi.s64.f32 %d8, %f5;", s64_f32},
    {"cvt.rzi.u64.f32 %d8, %f5;", u64_f32},
    {"cvt.rni.s32.f32 %r8, %f5;" FROM_R, s32_f32_rni},
    {"cvt.rmi.s32.f32 %r8, %f5;" FROM_R, s32_f32_rmi},
    {"cvt.rpi.s32.f32 %r8, %f5;" FROM_R, s32_f32_rpi},
    {"cvt.rni.s64.f64 %d8, %q5;", s64_f64_rni},
    {"cvt.rzi.u8.f32 %h8, %f5;" FROM_H, u8_f32},
    {"cvt.f32.f16 %f8, %h5;" FROM_F, f32_f16},
    {"cvt.rzi.s16.f16 %h8, %h5;" FROM_H, s16_f16},
};

static void conversions_agree_with_c(void **state) {
    (void)state;
    int n = fill();
    for (size_t k = 0; k < sizeof conversions / sizeof *conversions; k++) {
        compute(conversions[k].body, n);
        for (int i = 0; i < n; i++) {
            uint64_t e = conversions[k].expected(in[0][i], in[1][i], in[2][i]);
            if (!equal(conversions[k].body, out[i], e))
                fail_msg("%s of 0x%llx: 0x%llx instead of 0x%llx", conversions[k].body, (unsigned long long)in[0][i],
                         (unsigned long long)out[i], (unsigned long long)e);
        }
    }
}

int main(void) {
    setenv("PTXSIM_MEMORY_MIB", "256", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(instructions_agree_with_c), cmocka_unit_test(comparisons),
                                       cmocka_unit_test(conversions_agree_with_c)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
