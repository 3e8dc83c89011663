/* SPDX-License-Identifier: MIT
 * Instructions of NVIDIA GPUs as inline assembly: LLVM's intrinsics for them differ from version to version, PTX does
 * not. */
#include "codegen/emit/warp.h"
#include "codegen/emit/functions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED = 3 };

/* One instruction. `effects`: it reads or writes memory, or must stay where it is. */
static tcc_emit_value assemble(tcc_emitter *e, const char *text, const char *constraints, tcc_emit_type result,
                               tcc_emit_value *arguments, int n, bool effects) {
    tcc_emit_type types[16];
    for (int i = 0; i < n; i++) types[i] = tcc_emit_type_of(arguments[i]);
    tcc_emit_type function = LLVMFunctionType(result, types, (unsigned)n, false);
    tcc_emit_value code = LLVMGetInlineAsm(function, (char *)text, strlen(text), (char *)constraints,
                                           strlen(constraints), effects, false, LLVMInlineAsmDialectATT, false);
    tcc_emit_value call = LLVMBuildCall2(e->builder, function, code, arguments, (unsigned)n, "");
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(e->context, LLVMGetEnumAttributeKindForName("nounwind", 8), 0));
    /* All lanes of a warp meet in it, so it must not move into a branch. */
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(e->context, LLVMGetEnumAttributeKindForName("convergent", 10), 0));
    return call;
}

static tcc_emit_type several(tcc_emitter *e, tcc_emit_type type, int n) {
    tcc_emit_type types[4] = {type, type, type, type};
    return LLVMStructTypeInContext(e->context, types, (unsigned)n, false);
}

static tcc_emit_value part(tcc_emitter *e, tcc_emit_value all, int i) {
    return LLVMBuildExtractValue(e->builder, all, (unsigned)i, "");
}

/* A generic pointer into shared memory as the address that instructions of that space take. */
static tcc_emit_value shared_address(tcc_emitter *e, tcc_emit_value pointer) {
    tcc_emit_type shared = LLVMPointerTypeInContext(e->context, SHARED);
    pointer = LLVMBuildAddrSpaceCast(e->builder, pointer, shared, "");
    return tcc_emit_trunc(e, tcc_emit_ptrtoint(e, pointer, e->i64), e->i32);
}

bool tcc_llvm_has_matrix(const tcc_llvm_target *target) {
    enum { FIRST = 80 };
    return target->hw.sm >= FIRST;
}

tcc_emit_value tcc_emit_thread(tcc_emitter *e) {
    return assemble(e, "mov.u32 $0, %tid.x;", "=r", e->i32, NULL, 0, true);
}

/* Registers that an access of elements goes to: elements themselves, or words of several narrow ones. */
typedef struct unit {
    tcc_emit_type type;
    const char *move, *load, *constraint;
    int bytes;
} unit;

static unit unit_of(tcc_emitter *e, tcc_emit_type element, int n) {
    if (element == e->f32) return (unit){e->f32, "f32", "f32", "f", 4};
    if (element == e->f64) return (unit){e->f64, "f64", "f64", "d", 8};
    if (element == e->i64) return (unit){e->i64, "b64", "b64", "l", 8};
    const int bytes = n * (int)LLVMGetIntTypeWidth(element) / 8;
    if (bytes >= 4) return (unit){e->i32, "b32", "b32", "r", 4};
    return bytes == 2 ? (unit){e->i16, "b16", "b16", "h", 2} : (unit){e->i16, "b16", "u8", "h", 1};
}

/* 1, 2 or 4 units in one access. */
static void load_units(tcc_emitter *e, const unit *u, tcc_emit_value address, int n, tcc_emit_value condition,
                       tcc_emit_value *out) {
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
    tcc_emit_value arguments[] = {address, condition, tcc_emit_null(u->type)};
    tcc_emit_value all = assemble(e, text, constraints, n == 1 ? u->type : several(e, u->type, n), arguments, 3, true);
    for (int i = 0; i < n; i++) out[i] = n == 1 ? all : part(e, all, i);
}

tcc_emit_value tcc_emit_global_load(tcc_emitter *e, tcc_dtype dtype, tcc_emit_value address, int n,
                                    tcc_emit_value inside) {
    enum { WIDEST = 16, MOST_UNITS = 8 };
    tcc_emit_type element = tcc_emit_dtype(e, dtype);
    const unit u = unit_of(e, element, n);
    const int bytes = n * (int)tcc_dtype_bytes(dtype), units = bytes / u.bytes, most = WIDEST / u.bytes;
    tcc_emit_value condition = inside ? tcc_emit_zext(e, inside, e->i32) : tcc_emit_i32(e, 1), out[MOST_UNITS];
    for (int i = 0; i < units; i += most)
        load_units(e, &u, tcc_emit_at_bytes(e, address, (int64_t)i * u.bytes), units < most ? units : most, condition,
                   out + i);
    if (n == 1) return u.type == element ? out[0] : tcc_emit_trunc(e, out[0], element);
    tcc_emit_value vector = tcc_emit_poison(LLVMVectorType(u.type, (unsigned)units)); /* a vector of one, too */
    for (int i = 0; i < units; i++) vector = tcc_emit_insert(e, vector, out[i], tcc_emit_i32(e, i));
    return u.type == element ? vector : tcc_emit_bitcast(e, vector, tcc_emit_vector_type(element, n));
}

tcc_emit_value tcc_emit_widen(tcc_emitter *e, tcc_dtype dtype, tcc_emit_value bits) {
    if (dtype == TCC_F32 || dtype == TCC_F64) return bits;
    tcc_emit_type type = tcc_emit_type_of(bits), wide = tcc_emit_type_like(e, e->f32, type),
                  words = tcc_emit_type_like(e, e->i32, type);
    if (dtype == TCC_F16)
        return tcc_emit_fpext(e, tcc_emit_bitcast(e, bits, tcc_emit_type_like(e, e->f16, type)), wide);
    tcc_emit_value high = tcc_emit_shl(e, tcc_emit_zext(e, bits, words), tcc_emit_int(e, words, 16));
    return tcc_emit_bitcast(e, high, wide);
}

void tcc_emit_load_matrix(tcc_emitter *e, int n, bool transposed, tcc_emit_value address, tcc_emit_value *out) {
    static const char *const operands[] = {[1] = "{$0}, [$1]", [2] = "{$0, $1}, [$2]", [4] = "{$0, $1, $2, $3}, [$4]"};
    static const char *const constraints[] = {
        [1] = "=r,r,~{memory}", [2] = "=r,=r,r,~{memory}", [4] = "=r,=r,=r,=r,r,~{memory}"};
    char text[96];
    snprintf(text, sizeof text, "ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 %s;", n, transposed ? ".trans" : "",
             operands[n]);
    tcc_emit_value from = shared_address(e, address);
    tcc_emit_value all = assemble(e, text, constraints[n], n == 1 ? e->i32 : several(e, e->i32, n), &from, 1, true);
    for (int i = 0; i < n; i++) out[i] = n == 1 ? all : part(e, all, i);
}

void tcc_emit_matrix_product(tcc_emitter *e, tcc_dtype type, const tcc_emit_value *a, const tcc_emit_value *b,
                             tcc_emit_value *sums) {
    const char *name = type == TCC_F16 ? "f16" : type == TCC_BF16 ? "bf16" : "tf32";
    char text[192];
    snprintf(text, sizeof text,
             "mma.sync.aligned.m16n8k%d.row.col.f32.%s.%s.f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, "
             "$12, $13};",
             type == TCC_F32 ? 8 : 16, name, name);
    tcc_emit_value arguments[] = {a[0], a[1], a[2], a[3], b[0], b[1], sums[0], sums[1], sums[2], sums[3]};
    tcc_emit_value all = assemble(e, text, "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3", several(e, e->f32, 4), arguments, 10,
                                  false);
    for (int i = 0; i < 4; i++) sums[i] = part(e, all, i);
}

tcc_emit_value tcc_emit_pack(tcc_emitter *e, tcc_dtype type, tcc_emit_value low, tcc_emit_value high) {
    tcc_emit_value arguments[] = {high, low};
    return assemble(e, type == TCC_F16 ? "cvt.rn.f16x2.f32 $0, $1, $2;" : "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f",
                    e->i32, arguments, 2, false);
}

tcc_emit_value tcc_emit_round_tf32(tcc_emitter *e, tcc_emit_value value) {
    return assemble(e, "cvt.rna.tf32.f32 $0, $1;", "=r,f", e->i32, &value, 1, false);
}

void tcc_emit_copy_async(tcc_emitter *e, tcc_emit_value shared, tcc_emit_value global, int bytes,
                         tcc_emit_value inside) {
    char text[64];
    tcc_emit_value size = tcc_emit_i32(e, bytes);
    if (inside) size = tcc_emit_select(e, inside, size, tcc_emit_i32(e, 0));
    snprintf(text, sizeof text, "cp.async.%s.shared.global [$0], [$1], %d, $2;", bytes == 16 ? "cg" : "ca", bytes);
    tcc_emit_value arguments[] = {shared_address(e, shared), global, size};
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
