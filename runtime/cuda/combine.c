/* SPDX-License-Identifier: MIT
 * PTX that combines what ranks have sent. A thread takes every so manieth element, and for each goes through the ranks:
 * so sums are taken in their order. Narrow types are computed with as f32 or i32 and rounded after each step; a sum of
 * two of them is exact in f32 or rounds there as if it were, so that is one rounding. */
#include "runtime/cuda/combine.h"

#include <stdio.h>

/* How an element is loaded to %a, the sum so far, or %x; and %a rounded to its type, and stored. */
typedef struct element {
    const char *wide;  /* type that is computed with */
    const char *load;  /* to %x from [%at] */
    const char *round; /* %a, with its bits in %bits */
    const char *store; /* %a to [%at] */
} element;

#define FROM_BF16 "ld.global.u16 %bits, [%at];\n  shl.b32 %bits, %bits, 16;\n  mov.b32 %x, %bits;\n"
/* To nearest, ties to even; NaN stays one. */
#define TO_BF16                                                                                                \
    "mov.b32 %bits, %a;\n  shr.u32 %low, %bits, 16;\n  and.b32 %low, %low, 1;\n  add.u32 %low, %low, 32767;\n" \
    "  add.u32 %bits, %bits, %low;\n  and.b32 %bits, %bits, 0xffff0000;\n  setp.nan.f32 %q, %a, %a;\n"         \
    "  selp.b32 %bits, 0x7fff0000, %bits, %q;\n  mov.b32 %a, %bits;\n"

static const element elements[TCC_DTYPE_COUNT] = {
    [TCC_F64] = {"f64", "ld.global.f64 %x, [%at];\n", "", "st.global.f64 [%at], %a;\n"},
    [TCC_F32] = {"f32", "ld.global.f32 %x, [%at];\n", "", "st.global.f32 [%at], %a;\n"},
    [TCC_F16] = {"f32", "ld.global.b16 %h, [%at];\n  cvt.f32.f16 %x, %h;\n",
                 "cvt.rn.f16.f32 %h, %a;\n  cvt.f32.f16 %a, %h;\n",
                 "cvt.rn.f16.f32 %h, %a;\n  st.global.b16 [%at], %h;\n"},
    [TCC_BF16] = {"f32", FROM_BF16, TO_BF16,
                  "mov.b32 %bits, %a;\n  shr.u32 %bits, %bits, 16;\n  st.global.u16 [%at], %bits;\n"},
    [TCC_I64] = {"s64", "ld.global.s64 %x, [%at];\n", "", "st.global.s64 [%at], %a;\n"},
    [TCC_I32] = {"s32", "ld.global.s32 %x, [%at];\n", "", "st.global.s32 [%at], %a;\n"},
    [TCC_U8] = {"s32", "ld.global.u8 %x, [%at];\n", "", "st.global.u8 [%at], %a;\n"},
    [TCC_BOOL] = {"s32", "ld.global.u8 %x, [%at];\n", "min.s32 %a, %a, 1;\n", "st.global.u8 [%at], %a;\n"},
};

void tcc_combine_name(char name[32], tcc_rank_reduction reduction, tcc_dtype type) {
    snprintf(name, 32, "tcc_%s_%s", tcc_reduction_text(reduction), tcc_dtype_text(type));
}

void tcc_combine_begin(tcc_strbuf *ptx) {
    tcc_strbuf_add(ptx, ".version 6.4\n.target sm_75\n.address_size 64\n\n"
                        ".visible .entry " TCC_COMBINE_MARK "(.param .u64 at, .param .u32 value) {\n"
                        "  .reg .b64 %at;\n  .reg .b32 %value;\n"
                        "  ld.param.u64 %at, [at];\n  ld.param.u32 %value, [value];\n"
                        "  cvta.to.global.u64 %at, %at;\n  st.volatile.global.u32 [%at], %value;\n  ret;\n}\n");
}

/* %a and %x become %a. A comparison with NaN is false: where one is NaN, %a is taken only if it is the NaN. */
static void add_combination(tcc_strbuf *ptx, tcc_rank_reduction reduction, const char *wide) {
    const bool is_float = wide[0] == 'f';
    if (reduction == TCC_REDUCTION_SUM) {
        tcc_strbuf_printf(ptx, "  add%s.%s %%a, %%a, %%x;\n", is_float ? ".rn" : "", wide);
        return;
    }
    tcc_strbuf_printf(ptx, "  setp.%s.%s %%p, %%a, %%x;\n", reduction == TCC_REDUCTION_MAX ? "gt" : "lt", wide);
    if (is_float) tcc_strbuf_printf(ptx, "  setp.nan.%s %%q, %%a, %%a;\n  or.pred %%p, %%p, %%q;\n", wide);
    tcc_strbuf_printf(ptx, "  selp.%s %%a, %%a, %%x, %%p;\n", wide);
}

void tcc_combine_add(tcc_strbuf *ptx, tcc_rank_reduction reduction, tcc_dtype type) {
    const element *e = &elements[type];
    const int bytes = tcc_dtype_bytes(type);
    char name[32];
    tcc_combine_name(name, reduction, type);
    tcc_strbuf_printf(ptx,
                      "\n.visible .entry %s(.param .u64 slots, .param .u64 to, .param .s64 count, .param .s64 stride, "
                      ".param .s64 ranks) {\n  .reg .%s %%a, %%x;\n",
                      name, e->wide);
    tcc_strbuf_add(ptx, "  .reg .pred %p, %q;\n  .reg .b16 %h;\n  .reg .b32 %bits, %low, %block, %threads, %thread;\n"
                        "  .reg .b64 %slots, %to, %count, %stride, %ranks, %i, %step, %at, %offset, %rank;\n"
                        "  ld.param.u64 %slots, [slots];\n  ld.param.u64 %to, [to];\n  ld.param.s64 %count, [count];\n"
                        "  ld.param.s64 %stride, [stride];\n  ld.param.s64 %ranks, [ranks];\n"
                        "  cvta.to.global.u64 %slots, %slots;\n  cvta.to.global.u64 %to, %to;\n"
                        "  mov.u32 %block, %ctaid.x;\n  mov.u32 %threads, %ntid.x;\n  mov.u32 %thread, %tid.x;\n"
                        "  mul.wide.u32 %i, %block, %threads;\n  cvt.u64.u32 %step, %thread;\n"
                        "  add.s64 %i, %i, %step;\n  mov.u32 %block, %nctaid.x;\n"
                        "  mul.wide.u32 %step, %block, %threads;\n");
    tcc_strbuf_printf(ptx, "  mul.lo.s64 %%stride, %%stride, %d;\nNEXT:\n", bytes);
    tcc_strbuf_printf(ptx, "  setp.ge.s64 %%p, %%i, %%count;\n  @%%p bra DONE;\n  mul.lo.s64 %%offset, %%i, %d;\n",
                      bytes);
    tcc_strbuf_printf(ptx,
                      "  add.s64 %%at, %%slots, %%offset;\n  mov.u64 %%rank, 1;\n  %s  mov.%s %%a, %%x;\nRANK:\n"
                      "  setp.ge.s64 %%p, %%rank, %%ranks;\n  @%%p bra STORE;\n  add.s64 %%at, %%at, %%stride;\n  %s",
                      e->load, e->wide, e->load);
    add_combination(ptx, reduction, e->wide);
    if (*e->round) tcc_strbuf_printf(ptx, "  %s", e->round);
    tcc_strbuf_printf(ptx,
                      "  add.s64 %%rank, %%rank, 1;\n  bra RANK;\nSTORE:\n  add.s64 %%at, %%to, %%offset;\n  %s"
                      "  add.s64 %%i, %%i, %%step;\n  bra NEXT;\nDONE:\n  ret;\n}\n",
                      e->store);
}
