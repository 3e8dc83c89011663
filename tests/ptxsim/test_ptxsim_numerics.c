/* SPDX-License-Identifier: MIT
 * What instructions compute, against C: each on special values and random ones, conversions of 16-bit types on all
 * values. */
#include "driver.h"

#include <math.h>

enum { MOST = 1 << 17 };

static uint32_t *in[3], *out;
static CUdeviceptr da, db;

static float f32(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static uint32_t bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static uint64_t seed = 1;
static uint32_t random32(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

/* body: %r5, %r6, %r7 (also %f5 ...) to %r8. */
static void compute(const char *body, int n) {
    char text[6000];
    fresh_device();
    snprintf(text, sizeof text,
             PTX_HEAD ".visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n) {\n"
                      "  .reg .pred %%p<20>;\n  .reg .b16 %%h<20>;\n  .reg .b32 %%r<60>;\n  .reg .f32 %%f<60>;\n  .reg "
                      ".b64 %%d<20>;\n  .reg .f64 %%q<10>;\n"
                      "  ld.param.u64 %%d1, [a];\n  ld.param.u64 %%d2, [b];\n  ld.param.u32 %%r1, [n];\n"
                      "  mov.u32 %%r2, %%ctaid.x;\n  mov.u32 %%r3, %%tid.x;\n  mad.lo.u32 %%r2, %%r2, 256, %%r3;\n  "
                      "setp.ge.u32 %%p1, %%r2, %%r1;\n  @%%p1 ret;\n"
                      "  mul.wide.u32 %%d3, %%r2, 4;\n  mul.wide.u32 %%d4, %%r1, 4;\n  add.s64 %%d5, %%d1, %%d3;\n  "
                      "ld.global.u32 %%r5, [%%d5];\n  add.s64 %%d5, %%d5, %%d4;\n"
                      "  ld.global.u32 %%r6, [%%d5];\n  add.s64 %%d5, %%d5, %%d4;\n  ld.global.u32 %%r7, [%%d5];\n  "
                      "mov.b32 %%f5, %%r5;\n  mov.b32 %%f6, %%r6;\n  mov.b32 %%f7, %%r7;\n"
                      "%s\n  add.s64 %%d5, %%d2, %%d3;\n  st.global.u32 [%%d5], %%r8;\n  ret;\n}\n",
             body);
    CUfunction k = function_of(load(text), "k");
    da = device_alloc((size_t)n * 12), db = device_alloc((size_t)n * 4);
    for (int i = 0; i < 3; i++) assert_cuda(cuMemcpyHtoD_v2(da + (size_t)(i * n) * 4, in[i], (size_t)n * 4));
    assert_cuda(LAUNCH(k, (unsigned)(n + 255) / 256, 256, 0, &da, &db, &n));
    assert_cuda(cuMemcpyDtoH_v2(out, db, (size_t)n * 4));
}

static const uint32_t special[] = {
    0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x80800000, 0x3f800000, 0xbf800000,
    0x3f000000, 0xbf000000, 0x40000000, 0x40490fdb, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
    0x7f800001, 0xffc12345, 0x4f000000, 0xcf000000, 0x4effffff, 0x4f800000, 0x5f000000, 0x7fffffff, 0xffffffff,
    31,         32,         33,         64,         0x00ff00ff, 0x477fe000, 0x477ff000, 0x477fefff, 0x33000000,
    0x33000001, 0x33800000, 0x387fc000, 0x38800000, 0x3f800800, 0x3f801000, 0x3f808000, 0x3f818000};
enum { SPECIAL = sizeof special / sizeof *special };

/* All pairs of special values, then random ones; c is random or special. */
static int fill(void) {
    int n = 0;
    for (int i = 0; i < SPECIAL; i++)
        for (int k = 0; k < SPECIAL; k++)
            in[0][n] = special[i], in[1][n] = special[k], in[2][n] = special[random32() % SPECIAL], n++;
    for (int i = 0; i < 2048; i++, n++)
        for (int k = 0; k < 3; k++)
            in[k][n] = random32() % 4 ? (k && i % 2 ? random32() % 40 : random32()) : special[random32() % SPECIAL];
    return n;
}

static float flush(float f) { return fabsf(f) < 0x1p-126f ? copysignf(0, f) : f; }
static uint32_t canonical(float f) { return f != f ? 0x7fffffff : bits(f); }
static float sat(float f) { return f > 0 ? (f < 1 ? f : 1) : 0; }

#define EXPECT(name, expr)                                         \
    static uint32_t name(uint32_t a, uint32_t b, uint32_t c) {     \
        int32_t sa = (int32_t)a, sb = (int32_t)b, sc = (int32_t)c; \
        float x = f32(a), y = f32(b), z = f32(c);                  \
        (void)sa, (void)sb, (void)sc, (void)x, (void)y, (void)z;   \
        return (uint32_t)(expr);                                   \
    }
EXPECT(add_u, a + b)
EXPECT(sub_u, a - b)
EXPECT(mul_lo, a *b)
EXPECT(mul_hi_u, (uint64_t)a *b >> 32)
EXPECT(mul_hi_s, (uint64_t)((int64_t)sa *sb) >> 32)
EXPECT(mad_lo, a *b + c)
EXPECT(min_u, a < b ? a : b)
EXPECT(max_s, sa > sb ? sa : sb)
EXPECT(div_u, b ? a / b : 0xffffffff)
EXPECT(rem_s, sb == 0 ? sa : sb == -1 ? 0 : sa % sb)
EXPECT(div_s, sb == 0 ? 0xffffffff : sb == -1 ? -a : (uint32_t)(sa / sb))
EXPECT(abs_s, sa < 0 ? -a : a)
EXPECT(neg_s, -a)
EXPECT(and_b, a &b)
EXPECT(or_b, a | b)
EXPECT(xor_b, a ^ b)
EXPECT(not_b, ~a)
EXPECT(shl_b, b > 31 ? 0 : a << b)
EXPECT(shr_u, b > 31 ? 0 : a >> b)
EXPECT(shr_s, b > 31 ? sa >> 31 : sa >> b)
EXPECT(shf_l, ((uint64_t)b << 32 | a) << (c & 31) >> 32)
EXPECT(shf_r, ((uint64_t)b << 32 | a) >> (c & 31))
EXPECT(shf_r_clamp, ((uint64_t)b << 32 | a) >> (c > 32 ? 32 : c))
EXPECT(popc, __builtin_popcount(a))
EXPECT(clz, a ? __builtin_clz(a) : 32)
EXPECT(bfind, a ? 31 - __builtin_clz(a) : (int)-1)
EXPECT(add_sat, (int64_t)sa + sb > INT32_MAX ? INT32_MAX : (int64_t)sa + sb < INT32_MIN ? INT32_MIN : (int64_t)sa + sb)
EXPECT(lop3, (a & b) | (~a & c))
EXPECT(sad_u, c + (a > b ? a - b : b - a))
EXPECT(selp, sa < sb ? a : b)
EXPECT(cnot, a == 0)
static uint32_t brev(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t r = 0;
    (void)b, (void)c;
    for (int i = 0; i < 32; i++) r |= (a >> i & 1) << (31 - i);
    return r;
}
static uint32_t bit_field(uint32_t a, uint32_t b, uint32_t c, bool is_signed) {
    uint32_t p = b & 255, n = c & 255, r = 0, last = p + n - 1 > 31 ? 31 : p + n - 1,
             sign = is_signed && n ? a >> last & 1 : 0;
    for (uint32_t i = 0; i < 32; i++) r |= (i < n && p + i <= 31 ? a >> (p + i) & 1 : sign) << i;
    return r;
}
static uint32_t bfe_u(uint32_t a, uint32_t b, uint32_t c) { return bit_field(a, b, c, false); }
static uint32_t bfe_s(uint32_t a, uint32_t b, uint32_t c) { return bit_field(a, b, c, true); }
static uint32_t bfi(uint32_t a, uint32_t b, uint32_t c) { /* 5 bits of a into b at c */
    uint32_t p = c & 255, r = b;
    for (uint32_t i = 0; i < 5 && p + i < 32; i++) r = (r & ~(1u << (p + i))) | (a >> i & 1) << (p + i);
    return r;
}
static uint32_t prmt(uint32_t a, uint32_t b, uint32_t c) {
    uint8_t bytes[8];
    uint32_t r = 0;
    memcpy(bytes, &a, 4), memcpy(bytes + 4, &b, 4);
    for (int i = 0; i < 4; i++) {
        uint32_t s = c >> 4 * i & 15, v = bytes[s & 7];
        r |= (s & 8 ? (v >> 7) * 255 : v) << 8 * i;
    }
    return r;
}
EXPECT(add_f32, canonical(x + y))
EXPECT(sub_f32, canonical(x - y))
EXPECT(mul_f32, canonical(x *y))
EXPECT(div_f32, canonical(x / y))
EXPECT(fma_f32, canonical(fmaf(x, y, z)))
EXPECT(add_ftz, canonical(flush(flush(x) + flush(y))))
EXPECT(mul_ftz_sat, canonical(sat(flush(flush(x) * flush(y)))))
EXPECT(add_f32_sat, canonical(sat(x + y)))
EXPECT(sqrt_f32, canonical(sqrtf(x)))
EXPECT(rcp_f32, canonical(1 / x))
EXPECT(abs_f32, x != x ? 0x7fffffff : a & 0x7fffffff)
EXPECT(neg_f32, x != x ? 0x7fffffff : a ^ 0x80000000)
static uint32_t min_f(uint32_t a, uint32_t b, uint32_t c) {
    float x = f32(a), y = f32(b);
    (void)c;
    if (x != x && y != y) return 0x7fffffff;
    if (x != x) return b;
    if (y != y) return a;
    return x < y ? a : y < x ? b : a | b;
}
static uint32_t max_nan_f(uint32_t a, uint32_t b, uint32_t c) {
    float x = f32(a), y = f32(b);
    (void)c;
    if (x != x || y != y) return 0x7fffffff;
    return x > y ? a : y > x ? b : a & b;
}
EXPECT(lt_f, x < y)
EXPECT(ne_f, x == x && y == y && x != y)
EXPECT(neu_f, !(x == y))
EXPECT(geu_f, !(x < y))
EXPECT(num_f, x == x && y == y)
EXPECT(lo_u, a < b)
EXPECT(ge_s, sa >= sb)
EXPECT(both, sa < sb && a > 5)
EXPECT(rzi_s32, x != x ? 0 : x >= 0x1p31f ? INT32_MAX : x < -0x1p31f ? INT32_MIN : (int32_t)x)
EXPECT(rni_u32, x != x || x <= 0 ? 0 : x >= 0x1p32f ? UINT32_MAX : (uint32_t)nearbyint((double)x))
EXPECT(rmi_s8, x != x ? 0 : (uint32_t)(int32_t)(x >= 127 ? 127 : x < -128 ? -128 : floorf(x)))
EXPECT(rni_f32, x != x ? 0x7fffffff : bits(rintf(x)))
EXPECT(from_s32, bits((float)sa))
EXPECT(from_u32, bits((float)a))
static uint32_t from_u32_rz(uint32_t a, uint32_t b, uint32_t c) {
    (void)b, (void)c;
    int n = a ? 32 - __builtin_clz(a) : 0;
    return bits((float)(n > 24 ? a >> (n - 24) << (n - 24) : a));
}
static uint32_t tf32(uint32_t a, uint32_t b, uint32_t c) { /* to the nearest, ties away */
    (void)b, (void)c;
    return (a & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : (a & 0x7f800000) == 0x7f800000 ? a : (a + 0x1000) & 0xffffe000;
}
/* The exact sum as a long double where the exponents are close enough, rounded by a step towards the side wanted. */
static uint32_t add_directed(uint32_t a, uint32_t b, bool up) {
    float x = f32(a), y = f32(b), r = x + y;
    if (!(fabsf(x) < 0x1p60f && fabsf(y) < 0x1p60f && fabsf(x) > 0x1p20f && fabsf(y) > 0x1p20f)) return 0;
    long double exact = (long double)x + y;
    if (exact == 0) return bits(up ? 0.0f : -0.0f);
    if (up && r < exact) r = nextafterf(r, INFINITY);
    if (!up && r > exact) r = nextafterf(r, -INFINITY);
    return bits(r);
}
static uint32_t add_rp(uint32_t a, uint32_t b, uint32_t c) { return (void)c, add_directed(a, b, true); }
static uint32_t add_rm(uint32_t a, uint32_t b, uint32_t c) { return (void)c, add_directed(a, b, false); }

#define TO_R "\n mov.b32 %r8, %f8;"
#define TO_P "\n selp.u32 %r8, 1, 0, %p2;"
static const struct {
    const char *body;
    uint32_t (*expected)(uint32_t, uint32_t, uint32_t);
} cases[] = {
    {"add.u32 %r8, %r5, %r6;", add_u},
    {"sub.s32 %r8, %r5, %r6;", sub_u},
    {"mul.lo.s32 %r8, %r5, %r6;", mul_lo},
    {"mul.hi.u32 %r8, %r5, %r6;", mul_hi_u},
    {"mul.hi.s32 %r8, %r5, %r6;", mul_hi_s},
    {"mad.lo.u32 %r8, %r5, %r6, %r7;", mad_lo},
    {"mul.wide.s32 %d6, %r5, %r6;\n shr.u64 %d6, %d6, 32;\n cvt.u32.u64 %r8, %d6;", mul_hi_s},
    {"min.u32 %r8, %r5, %r6;", min_u},
    {"max.s32 %r8, %r5, %r6;", max_s},
    {"div.u32 %r8, %r5, %r6;", div_u},
    {"div.s32 %r8, %r5, %r6;", div_s},
    {"rem.s32 %r8, %r5, %r6;", rem_s},
    {"abs.s32 %r8, %r5;", abs_s},
    {"neg.s32 %r8, %r5;", neg_s},
    {"and.b32 %r8, %r5, %r6;", and_b},
    {"or.b32 %r8, %r5, %r6;", or_b},
    {"xor.b32 %r8, %r5, %r6;", xor_b},
    {"not.b32 %r8, %r5;", not_b},
    {"cnot.b32 %r8, %r5;", cnot},
    {"shl.b32 %r8, %r5, %r6;", shl_b},
    {"shr.u32 %r8, %r5, %r6;", shr_u},
    {"shr.s32 %r8, %r5, %r6;", shr_s},
    {"shf.l.wrap.b32 %r8, %r5, %r6, %r7;", shf_l},
    {"shf.r.wrap.b32 %r8, %r5, %r6, %r7;", shf_r},
    {"shf.r.clamp.b32 %r8, %r5, %r6, %r7;", shf_r_clamp},
    {"popc.b32 %r8, %r5;", popc},
    {"clz.b32 %r8, %r5;", clz},
    {"brev.b32 %r8, %r5;", brev},
    {"bfind.u32 %r8, %r5;", bfind},
    {"bfe.u32 %r8, %r5, %r6, %r7;", bfe_u},
    {"bfe.s32 %r8, %r5, %r6, %r7;", bfe_s},
    {"bfi.b32 %r8, %r5, %r6, %r7, 5;", bfi},
    {"prmt.b32 %r8, %r5, %r6, %r7;", prmt},
    {"lop3.b32 %r8, %r5, %r6, %r7, 0xCA;", lop3},
    {"sad.u32 %r8, %r5, %r6, %r7;", sad_u},
    {"add.sat.s32 %r8, %r5, %r6;", add_sat},
    {"setp.lt.s32 %p2, %r5, %r6;\n selp.b32 %r8, %r5, %r6, %p2;", selp},
    {"setp.lo.u32 %p2, %r5, %r6;" TO_P, lo_u},
    {"setp.lt.s32 %p2|%p3, %r5, %r6;\n not.pred %p2, %p3;" TO_P, NULL},
    {"setp.ge.s32 %p2, %r5, %r6;" TO_P, ge_s},
    {"setp.gt.u32 %p3, %r5, 5;\n setp.lt.and.s32 %p2, %r5, %r6, %p3;" TO_P, both},
    {"set.lt.u32.s32 %r8, %r5, %r6;\n and.b32 %r8, %r8, 1;", NULL},
    {"add.rn.f32 %f8, %f5, %f6;" TO_R, add_f32},
    {"sub.f32 %f8, %f5, %f6;" TO_R, sub_f32},
    {"mul.f32 %f8, %f5, %f6;" TO_R, mul_f32},
    {"div.rn.f32 %f8, %f5, %f6;" TO_R, div_f32},
    {"fma.rn.f32 %f8, %f5, %f6, %f7;" TO_R, fma_f32},
    {"add.ftz.f32 %f8, %f5, %f6;" TO_R, add_ftz},
    {"mul.ftz.sat.f32 %f8, %f5, %f6;" TO_R, mul_ftz_sat},
    {"add.sat.f32 %f8, %f5, %f6;" TO_R, add_f32_sat},
    {"add.rp.f32 %f8, %f5, %f6;" TO_R, add_rp},
    {"add.rm.f32 %f8, %f5, %f6;" TO_R, add_rm},
    {"sqrt.rn.f32 %f8, %f5;" TO_R, sqrt_f32},
    {"rcp.rn.f32 %f8, %f5;" TO_R, rcp_f32},
    {"abs.f32 %f8, %f5;" TO_R, abs_f32},
    {"neg.f32 %f8, %f5;" TO_R, neg_f32},
    {"min.f32 %f8, %f5, %f6;" TO_R, min_f},
    {"max.NaN.f32 %f8, %f5, %f6;" TO_R, max_nan_f},
    {"setp.lt.f32 %p2, %f5, %f6;" TO_P, lt_f},
    {"setp.ne.f32 %p2, %f5, %f6;" TO_P, ne_f},
    {"setp.neu.f32 %p2, %f5, %f6;" TO_P, neu_f},
    {"setp.geu.f32 %p2, %f5, %f6;" TO_P, geu_f},
    {"setp.num.f32 %p2, %f5, %f6;" TO_P, num_f},
    {"cvt.rzi.s32.f32 %r8, %f5;", rzi_s32},
    {"cvt.rni.u32.f32 %r8, %f5;", rni_u32},
    {"cvt.rmi.s8.f32 %r8, %f5;", rmi_s8},
    {"cvt.rni.f32.f32 %f8, %f5;" TO_R, rni_f32},
    {"cvt.rn.f32.s32 %f8, %r5;" TO_R, from_s32},
    {"cvt.rn.f32.u32 %f8, %r5;" TO_R, from_u32},
    {"cvt.rz.f32.u32 %f8, %r5;" TO_R, from_u32_rz},
    {"cvt.rna.tf32.f32 %r8, %f5;", tf32},
    {"cvt.f64.f32 %q1, %f5;\n cvt.f64.f32 %q2, %f6;\n cvt.f64.f32 %q3, %f7;\n cvt.rn.f32.f64 %f8, %q1;" TO_R, NULL},
};

static void instructions_agree_with_c(void **state) {
    (void)state;
    int n = fill();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        compute(cases[k].body, n);
        for (int i = 0; i < n && cases[k].expected; i++) {
            uint32_t e = cases[k].expected(in[0][i], in[1][i], in[2][i]);
            if ((cases[k].expected == add_rp || cases[k].expected == add_rm) && e == 0)
                continue; /* outside of what the reference covers */
            if (out[i] != e)
                fail_msg("%s of 0x%08x, 0x%08x, 0x%08x: 0x%08x instead of 0x%08x", cases[k].body, in[0][i], in[1][i],
                         in[2][i], out[i], e);
        }
    }
}

/* --- 16-bit floats: the reference looks the neighbours up among all values */

static double value16(uint32_t h, bool f16) {
    if (!f16) return f32(h << 16);
    int e = h >> 10 & 31;
    double m = h & 1023, v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -v : v;
}

enum { RN, RZ, RM, RP };
static uint32_t round16(double x, bool f16, int mode) {
    uint32_t infinity = f16 ? 0x7c00 : 0x7f80, low = 0, high = infinity, sign = signbit(x) ? 0x8000 : 0;
    double v = fabs(x), top;
    if (x != x) return 0x7fff;
    while (high - low > 1) { /* value(low) <= v < value(high) */
        uint32_t middle = (low + high) / 2;
        if (value16(middle, f16) <= v) low = middle;
        else high = middle;
    }
    if (isinf(v)) return sign | infinity;
    if (v == value16(low, f16)) return sign | low;
    bool up = mode == RP ? !sign : mode == RM ? sign != 0 : false;
    top = high == infinity ? 2 * value16(low, f16) - value16(low - 1, f16) : value16(high, f16);
    if (mode == RN) {
        double below = v - value16(low, f16), above = top - v;
        up = below > above || (below == above && low & 1);
    }
    return sign | (up ? high : low);
}

static void conversions_of_all_halves(void **state) {
    (void)state;
    for (int i = 0; i < 65536; i++) in[0][i] = (uint32_t)i, in[1][i] = in[2][i] = 0;
    compute("cvt.u16.u32 %h1, %r5;\n cvt.f32.f16 %f8, %h1;" TO_R, 65536);
    for (uint32_t i = 0; i < 65536; i++) {
        double v = value16(i, true);
        assert_int_equal(out[i], v != v ? 0x7fffffff : bits((float)v));
    }
    compute("cvt.u16.u32 %h1, %r5;\n cvt.f32.bf16 %f8, %h1;" TO_R, 65536);
    for (uint32_t i = 0; i < 65536; i++) assert_int_equal(out[i], (i & 0x7fff) > 0x7f80 ? 0x7fffffff : i << 16);
    static const char *const names[] = {"rn", "rz", "rm", "rp"};
    for (int f16 = 0; f16 < 2; f16++)
        for (int mode = 0; mode < 4; mode++) {
            char body[200];
            if (!f16 && mode > RZ) continue;
            /* every 16-bit value, half way to the next, and a bit beside that */
            int n = 0;
            for (uint32_t h = 0; h < 65536; h += 3)
                for (int q = -1; q < 3 && n < MOST; q++) {
                    uint32_t u = bits((float)value16(h, f16)), next = bits((float)value16(h + 1, f16));
                    in[0][n++] = q < 0 ? u : (u + (next - u) / 2) + (uint32_t)(q - 1);
                }
            snprintf(body, sizeof body, "cvt.%s.%s.f32 %%h1, %%f5;\n cvt.u32.u16 %%r8, %%h1;", names[mode],
                     f16 ? "f16" : "bf16");
            compute(body, n);
            for (int i = 0; i < n; i++) {
                uint32_t e = round16(f32(in[0][i]), f16, mode);
                if (out[i] != e) fail_msg("%s of 0x%08x: 0x%04x instead of 0x%04x", body, in[0][i], out[i], e);
            }
        }
}

/* Two halves packed in each word; exact results in long double, which holds sums and products of float16 exactly. */
static void half_arithmetic(void **state) {
    (void)state;
    static const struct {
        const char *body;
        int op;
        bool f16;
    } ops[] = {
        {"add.rn.f16x2 %r8, %r5, %r6;", 0, true},
        {"sub.f16x2 %r8, %r5, %r6;", 1, true},
        {"mul.rn.f16x2 %r8, %r5, %r6;", 2, true},
        {"fma.rn.f16x2 %r8, %r5, %r6, %r7;", 3, true},
        {"fma.rn.relu.f16x2 %r8, %r5, %r6, %r7;", 4, true},
        {"fma.rn.bf16x2 %r8, %r5, %r6, %r7;", 3, false},
        {"min.f16x2 %r8, %r5, %r6;", 5, true},
        {"max.NaN.bf16x2 %r8, %r5, %r6;", 6, false},
        {"add.rn.bf16x2 %r8, %r5, %r6;", 0, false},
        {"neg.f16x2 %r8, %r5;", 7, true},
    };
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        int n = 20000;
        for (int i = 0; i < n; i++)
            for (int q = 0; q < 3; q++) {
                in[q][i] = random32();
                if (!ops[k].f16 && i % 8)
                    in[q][i] = (in[q][i] & 0x83ff83ff) | 0x3c003c00; /* exponents that a long double covers */
                if (i % 16 == 0) in[q][i] = (in[q][i] & 0x8000) | 0x7c00 | (in[q][i] & 0xffff0001);
            }
        compute(ops[k].body, n);
        for (int i = 0; i < n; i++)
            for (int h = 0; h < 32; h += 16) {
                uint32_t a = in[0][i] >> h & 0xffff, b = in[1][i] >> h & 0xffff, c = in[2][i] >> h & 0xffff, e;
                long double x = value16(a, ops[k].f16), y = value16(b, ops[k].f16), z = value16(c, ops[k].f16), v = 0;
                uint32_t got = out[i] >> h & 0xffff;
                if (!ops[k].f16 && i % 8 == 0) continue;
                switch (ops[k].op) {
                case 0: v = x + y; break;
                case 1: v = x - y; break;
                case 2: v = x * y; break;
                case 5: v = x != x ? y : y != y ? x : x < y || (x == y && a >> 15) ? x : y; break;
                case 6: v = x != x || y != y ? NAN : x > y || (x == y && !(a >> 15)) ? x : y; break;
                case 7: v = -x; break;
                default: v = x * y + z; break;
                }
                if (ops[k].op == 4 && v < 0) v = 0;
                e = round16((double)v, ops[k].f16, RN);
                if ((double)v != v && v == v) { /* a double is not enough: round to odd on the way */
                    double d = (double)v;
                    uint64_t u;
                    if (d != v && (memcpy(&u, &d, 8), !(u & 1)))
                        d = (fabsl(d) < fabsl(v)) == (d > 0) ? nextafter(d, INFINITY) : nextafter(d, -INFINITY);
                    e = round16(d, ops[k].f16, RN);
                }
                if (ops[k].op >= 5 && ops[k].op <= 6 && got == e) continue;
                if (got != e)
                    fail_msg("%s of 0x%04x, 0x%04x, 0x%04x: 0x%04x instead of 0x%04x", ops[k].body, a, b, c, got, e);
            }
    }
}

static void packed_conversions(void **state) {
    (void)state;
    int n = fill();
    static const struct {
        const char *body;
        bool f16, relu;
        int mode;
    } ops[] = {
        {"cvt.rn.f16x2.f32 %r8, %f5, %f6;", true, false, RN},
        {"cvt.rz.f16x2.f32 %r8, %f5, %f6;", true, false, RZ},
        {"cvt.rn.bf16x2.f32 %r8, %f5, %f6;", false, false, RN},
        {"cvt.rn.relu.bf16x2.f32 %r8, %f5, %f6;", false, true, RN},
    };
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        compute(ops[k].body, n);
        for (int i = 0; i < n; i++) {
            double x = f32(in[0][i]), y = f32(in[1][i]);
            if (ops[k].relu) x = x < 0 ? 0 : x, y = y < 0 ? 0 : y;
            uint32_t e = round16(x, ops[k].f16, ops[k].mode) << 16 | round16(y, ops[k].f16, ops[k].mode);
            if (out[i] != e && !(ops[k].relu && ((out[i] ^ e) & 0x7fff7fff) == 0))
                fail_msg("%s of 0x%08x, 0x%08x: 0x%08x instead of 0x%08x", ops[k].body, in[0][i], in[1][i], out[i], e);
        }
    }
}

static void approximations(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double (*f)(double);
        double error;
    } ops[] = {
        {"ex2.approx.ftz.f32", exp2, 0x1p-22}, {"lg2.approx.f32", log2, 0x1p-22},  {"sin.approx.f32", sin, 0x1p-20},
        {"cos.approx.f32", cos, 0x1p-20},      {"tanh.approx.f32", tanh, 0x1p-11}, {"sqrt.approx.f32", sqrt, 0x1p-22},
    };
    int n = 4000;
    for (int i = 0; i < n; i++)
        in[0][i] = bits((float)(i - (i % 2 ? 0 : n / 2)) / 300 + 0.001f), in[1][i] = in[2][i] = 0;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        char body[100];
        snprintf(body, sizeof body, "%s %s", ops[k].name, "%f8, %f5;" TO_R);
        compute(body, n);
        for (int i = 0; i < n; i++) {
            double e = ops[k].f(f32(in[0][i])), got = f32(out[i]);
            if (e != e ? got == got : fabs(got - e) > ops[k].error * fmax(1, fabs(e)))
                fail_msg("%s of %g: %g instead of %g", ops[k].name, f32(in[0][i]), got, e);
        }
    }
}

int main(void) {
    for (int k = 0; k < 3; k++) in[k] = calloc(MOST, 4);
    out = calloc(MOST, 4);
    setenv("PTXSIM_MEMORY_MIB", "256", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_agree_with_c),
        cmocka_unit_test(conversions_of_all_halves),
        cmocka_unit_test(half_arithmetic),
        cmocka_unit_test(packed_conversions),
        cmocka_unit_test(approximations),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int k = 0; k < 3; k++) free(in[k]);
    free(out);
    return failed;
}
