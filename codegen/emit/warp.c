/* SPDX-License-Identifier: MIT
 * Instructions of NVIDIA GPUs as inline assembly: LLVM's intrinsics for them differ from version to version, PTX does
 * not. */
#include "codegen/emit/warp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED = 3 };

/* One instruction. `effects`: it reads or writes memory, or must stay where it is. */
static LLVMValueRef assemble(tcc_emitter *e, const char *text, const char *constraints, LLVMTypeRef result,
                             LLVMValueRef *arguments, int n, bool effects) {
    LLVMTypeRef types[16];
    for (int i = 0; i < n; i++) types[i] = LLVMTypeOf(arguments[i]);
    LLVMTypeRef function = LLVMFunctionType(result, types, (unsigned)n, false);
    LLVMValueRef code = LLVMGetInlineAsm(function, (char *)text, strlen(text), (char *)constraints, strlen(constraints),
                                         effects, false, LLVMInlineAsmDialectATT, false);
    LLVMValueRef call = LLVMBuildCall2(e->builder, function, code, arguments, (unsigned)n, "");
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(e->context, LLVMGetEnumAttributeKindForName("nounwind", 8), 0));
    /* All lanes of a warp meet in it, so it must not move into a branch. */
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(e->context, LLVMGetEnumAttributeKindForName("convergent", 10), 0));
    return call;
}

static LLVMTypeRef several(tcc_emitter *e, LLVMTypeRef type, int n) {
    LLVMTypeRef types[4] = {type, type, type, type};
    return LLVMStructTypeInContext(e->context, types, (unsigned)n, false);
}

static LLVMValueRef part(tcc_emitter *e, LLVMValueRef all, int i) {
    return LLVMBuildExtractValue(e->builder, all, (unsigned)i, "");
}

/* A generic pointer into shared memory as the address that instructions of that space take. */
static LLVMValueRef shared_address(tcc_emitter *e, LLVMValueRef pointer) {
    LLVMTypeRef shared = LLVMPointerTypeInContext(e->context, SHARED);
    pointer = LLVMBuildAddrSpaceCast(e->builder, pointer, shared, "");
    return LLVMBuildTrunc(e->builder, LLVMBuildPtrToInt(e->builder, pointer, e->i64, ""), e->i32, "");
}

bool tcc_llvm_has_matrix(const tcc_llvm_target *target) {
    enum { FIRST = 80 };
    return target->hw.sm >= FIRST;
}

LLVMValueRef tcc_emit_thread(tcc_emitter *e) { return assemble(e, "mov.u32 $0, %tid.x;", "=r", e->i32, NULL, 0, true); }

/* Registers that an access of elements goes to: elements themselves, or words of several narrow ones. */
typedef struct unit {
    LLVMTypeRef type;
    const char *move, *load, *constraint;
    int bytes;
} unit;

static unit unit_of(tcc_emitter *e, LLVMTypeRef element, int n) {
    if (element == e->f32) return (unit){e->f32, "f32", "f32", "f", 4};
    if (element == e->f64) return (unit){e->f64, "f64", "f64", "d", 8};
    if (element == e->i64) return (unit){e->i64, "b64", "b64", "l", 8};
    const int bytes = n * (int)LLVMGetIntTypeWidth(element) / 8;
    if (bytes >= 4) return (unit){e->i32, "b32", "b32", "r", 4};
    return bytes == 2 ? (unit){e->i16, "b16", "b16", "h", 2} : (unit){e->i16, "b16", "u8", "h", 1};
}

/* 1, 2 or 4 units in one access. */
static void load_units(tcc_emitter *e, const unit *u, LLVMValueRef address, int n, LLVMValueRef condition,
                       LLVMValueRef *out) {
    static const char *const width[] = {[1] = "", [2] = ".v2", [4] = ".v4"},
                             *const to[] = {[1] = "$0", [2] = "{$0, $1}", [4] = "{$0, $1, $2, $3}"};
    char text[320], constraints[64];
    int at = snprintf(text, sizeof text, "{ .reg .pred %%p; setp.ne.u32 %%p, $%d, 0; ", n + 1), c = 0;
    for (int i = 0; i < n; i++) {
        at += snprintf(text + at, sizeof text - (size_t)at, "mov.%s $%d, $%d; ", u->move, i, n + 2);
        c += snprintf(constraints + c, sizeof constraints - (size_t)c, "=&%s,", u->constraint);
    }
    snprintf(text + at, sizeof text - (size_t)at, "@%%p ld.global%s.%s %s, [$%d]; }", width[n], u->load, to[n], n);
    snprintf(constraints + c, sizeof constraints - (size_t)c, "l,r,%s", u->constraint);
    LLVMValueRef arguments[] = {address, condition, LLVMConstNull(u->type)};
    LLVMValueRef all = assemble(e, text, constraints, n == 1 ? u->type : several(e, u->type, n), arguments, 3, true);
    for (int i = 0; i < n; i++) out[i] = n == 1 ? all : part(e, all, i);
}

LLVMValueRef tcc_emit_global_load(tcc_emitter *e, tcc_dtype dtype, LLVMValueRef address, int n, LLVMValueRef inside) {
    enum { WIDEST = 16, MOST_UNITS = 8 };
    LLVMTypeRef element = tcc_emit_dtype(e, dtype);
    const unit u = unit_of(e, element, n);
    const int bytes = n * (int)tcc_dtype_bytes(dtype), units = bytes / u.bytes, most = WIDEST / u.bytes;
    LLVMValueRef condition = inside ? LLVMBuildZExt(e->builder, inside, e->i32, "") : tcc_emit_i32(e, 1),
                 out[MOST_UNITS];
    for (int i = 0; i < units; i += most)
        load_units(e, &u, tcc_emit_at_bytes(e, address, (int64_t)i * u.bytes), units < most ? units : most, condition,
                   out + i);
    if (n == 1) return u.type == element ? out[0] : LLVMBuildTrunc(e->builder, out[0], element, "");
    LLVMValueRef vector = LLVMGetPoison(LLVMVectorType(u.type, (unsigned)units));
    for (int i = 0; i < units; i++) vector = LLVMBuildInsertElement(e->builder, vector, out[i], tcc_emit_i32(e, i), "");
    return u.type == element ? vector : LLVMBuildBitCast(e->builder, vector, LLVMVectorType(element, (unsigned)n), "");
}

LLVMValueRef tcc_emit_widen(tcc_emitter *e, tcc_dtype dtype, LLVMValueRef bits) {
    if (dtype == TCC_F32 || dtype == TCC_F64) return bits;
    LLVMTypeRef type = LLVMTypeOf(bits), wide = tcc_emit_type_like(e, e->f32, type),
                words = tcc_emit_type_like(e, e->i32, type);
    if (dtype == TCC_F16)
        return LLVMBuildFPExt(e->builder, LLVMBuildBitCast(e->builder, bits, tcc_emit_type_like(e, e->f16, type), ""),
                              wide, "");
    LLVMValueRef high = LLVMBuildShl(e->builder, LLVMBuildZExt(e->builder, bits, words, ""), tcc_emit_int(e, words, 16),
                                     "");
    return LLVMBuildBitCast(e->builder, high, wide, "");
}

void tcc_emit_load_matrix(tcc_emitter *e, int n, bool transposed, LLVMValueRef address, LLVMValueRef *out) {
    static const char *const operands[] = {[1] = "{$0}, [$1]", [2] = "{$0, $1}, [$2]", [4] = "{$0, $1, $2, $3}, [$4]"};
    static const char *const constraints[] = {
        [1] = "=r,r,~{memory}", [2] = "=r,=r,r,~{memory}", [4] = "=r,=r,=r,=r,r,~{memory}"};
    char text[96];
    snprintf(text, sizeof text, "ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 %s;", n, transposed ? ".trans" : "",
             operands[n]);
    LLVMValueRef from = shared_address(e, address);
    LLVMValueRef all = assemble(e, text, constraints[n], n == 1 ? e->i32 : several(e, e->i32, n), &from, 1, true);
    for (int i = 0; i < n; i++) out[i] = n == 1 ? all : part(e, all, i);
}

void tcc_emit_matrix_product(tcc_emitter *e, tcc_dtype type, const LLVMValueRef *a, const LLVMValueRef *b,
                             LLVMValueRef *sums) {
    const char *name = type == TCC_F16 ? "f16" : type == TCC_BF16 ? "bf16" : "tf32";
    char text[192];
    snprintf(text, sizeof text,
             "mma.sync.aligned.m16n8k%d.row.col.f32.%s.%s.f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, "
             "$12, $13};",
             type == TCC_F32 ? 8 : 16, name, name);
    LLVMValueRef arguments[] = {a[0], a[1], a[2], a[3], b[0], b[1], sums[0], sums[1], sums[2], sums[3]};
    LLVMValueRef all = assemble(e, text, "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3", several(e, e->f32, 4), arguments, 10,
                                false);
    for (int i = 0; i < 4; i++) sums[i] = part(e, all, i);
}

LLVMValueRef tcc_emit_pack(tcc_emitter *e, tcc_dtype type, LLVMValueRef low, LLVMValueRef high) {
    LLVMValueRef arguments[] = {high, low};
    return assemble(e, type == TCC_F16 ? "cvt.rn.f16x2.f32 $0, $1, $2;" : "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f",
                    e->i32, arguments, 2, false);
}

LLVMValueRef tcc_emit_round_tf32(tcc_emitter *e, LLVMValueRef value) {
    return assemble(e, "cvt.rna.tf32.f32 $0, $1;", "=r,f", e->i32, &value, 1, false);
}

void tcc_emit_copy_async(tcc_emitter *e, LLVMValueRef shared, LLVMValueRef global, int bytes, LLVMValueRef inside) {
    char text[64];
    LLVMValueRef size = tcc_emit_i32(e, bytes);
    if (inside) size = LLVMBuildSelect(e->builder, inside, size, tcc_emit_i32(e, 0), "");
    snprintf(text, sizeof text, "cp.async.%s.shared.global [$0], [$1], %d, $2;", bytes == 16 ? "cg" : "ca", bytes);
    LLVMValueRef arguments[] = {shared_address(e, shared), global, size};
    assemble(e, text, "r,l,r,~{memory}", e->void_, arguments, 3, true);
}

void tcc_emit_copy_commit(tcc_emitter *e) {
    assemble(e, "cp.async.commit_group;", "~{memory}", e->void_, NULL, 0, true);
}

void tcc_emit_copy_wait(tcc_emitter *e, int pending) {
    char text[48];
    snprintf(text, sizeof text, "cp.async.wait_group %d;", pending);
    assemble(e, text, "~{memory}", e->void_, NULL, 0, true);
}
