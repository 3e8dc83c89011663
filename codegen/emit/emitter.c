/* SPDX-License-Identifier: MIT
 * The emission helpers: kernels, loops, vectors. Loops are emitted rotated (tested at the bottom, guarded at the top),
 * because that is the form the back end wants and no pass then has to find it. */
#include "codegen/emit/nvptx.h"

#include <string.h>

/* --- Constants and types */

LLVMValueRef tcc_emit_i64(tcc_emitter *e, int64_t value) {
    return LLVMConstInt(e->i64, (unsigned long long)value, true);
}

LLVMValueRef tcc_emit_i32(tcc_emitter *e, int32_t value) {
    return LLVMConstInt(e->i32, (unsigned long long)value, true);
}

static LLVMTypeRef scalar_of(LLVMTypeRef type) {
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

int tcc_emit_lanes_of(LLVMTypeRef type) {
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(type) : 1;
}

LLVMTypeRef tcc_emit_vector_type(LLVMTypeRef scalar, int lanes) {
    return lanes == 1 ? scalar : LLVMVectorType(scalar, (unsigned)lanes);
}

LLVMTypeRef tcc_emit_type_like(tcc_emitter *e, LLVMTypeRef scalar, LLVMTypeRef like) {
    (void)e;
    return tcc_emit_vector_type(scalar, tcc_emit_lanes_of(like));
}

static LLVMValueRef splat_constant(LLVMValueRef scalar, int lanes) {
    if (lanes == 1) return scalar;
    LLVMValueRef elements[64];
    for (int i = 0; i < lanes && i < 64; i++) elements[i] = scalar;
    return LLVMConstVector(elements, (unsigned)lanes);
}

LLVMValueRef tcc_emit_float(tcc_emitter *e, LLVMTypeRef type, double value) {
    (void)e;
    return splat_constant(LLVMConstReal(scalar_of(type), value), tcc_emit_lanes_of(type));
}

LLVMValueRef tcc_emit_int(tcc_emitter *e, LLVMTypeRef type, int64_t value) {
    (void)e;
    return splat_constant(LLVMConstInt(scalar_of(type), (unsigned long long)value, true), tcc_emit_lanes_of(type));
}

LLVMTypeRef tcc_emit_dtype(tcc_emitter *e, tcc_dtype dtype) {
    switch (dtype) {
    case TCC_F64: return e->f64;
    case TCC_F32: return e->f32;
    case TCC_F16:
    case TCC_BF16: return e->i16;
    case TCC_I64: return e->i64;
    case TCC_I32: return e->i32;
    case TCC_U8:
    case TCC_BOOL: return e->i8;
    case TCC_DTYPE_COUNT: break;
    }
    return NULL;
}

bool tcc_emit_is_constant(LLVMValueRef v, int64_t *value) {
    LLVMValueRef constant = LLVMIsAConstantInt(v);
    if (!constant) return false;
    *value = LLVMConstIntGetSExtValue(constant);
    return true;
}

/* --- Kernels */

static unsigned attribute_kind(const char *name) { return LLVMGetEnumAttributeKindForName(name, strlen(name)); }

static void add_attribute(tcc_emitter *e, LLVMValueRef function, unsigned index, const char *name, uint64_t value) {
    LLVMAddAttributeAtIndex(function, index, LLVMCreateEnumAttribute(e->context, attribute_kind(name), value));
}

static void add_text_attribute(tcc_emitter *e, LLVMValueRef function, const char *name, const char *value) {
    LLVMAddAttributeAtIndex(
        function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
        LLVMCreateStringAttribute(e->context, name, (unsigned)strlen(name), value, (unsigned)strlen(value)));
}

/* `no-builtins` and `no-jump-tables` keep the object free of calls and of absolute addresses. */
static void set_attributes(tcc_emitter *e, LLVMValueRef function) {
    const unsigned whole = (unsigned)LLVMAttributeFunctionIndex;
    add_attribute(e, function, whole, "nounwind", 0);
    add_text_attribute(e, function, "no-builtins", "");
    add_text_attribute(e, function, "no-jump-tables", "true");
    add_text_attribute(e, function, "target-cpu", e->target->cpu);
    if (e->target->features[0]) add_text_attribute(e, function, "target-features", e->target->features);
    if (e->target->kind == TCC_TARGET_HOST && e->lanes > 4) {
        const char *width = e->lanes == 16 ? "512" : "256";
        add_text_attribute(e, function, "prefer-vector-width", width);
        add_text_attribute(e, function, "min-legal-vector-width", width);
    }
}

void tcc_emit_kernel_begin(tcc_emitter *e, const char *symbol) {
    if (e->target->kind == TCC_TARGET_CUDA) {
        tcc_cuda_kernel_begin(e, symbol);
        set_attributes(e, e->function);
        return;
    }
    LLVMTypeRef types[] = {e->ptr, e->ptr, e->i64, e->i64, e->ptr};
    e->function = LLVMAddFunction(e->module, symbol, LLVMFunctionType(e->void_, types, 5, false));
    set_attributes(e, e->function);
    for (unsigned i = 1; i <= 5; i++)
        if (i != 3 && i != 4) add_attribute(e, e->function, i, "noalias", 0);
    e->buffers = LLVMGetParam(e->function, 0);
    e->params = LLVMGetParam(e->function, 1);
    e->begin = LLVMGetParam(e->function, 2);
    e->end = LLVMGetParam(e->function, 3);
    e->scratch = LLVMGetParam(e->function, 4);
    e->entry = LLVMAppendBasicBlockInContext(e->context, e->function, "");
    LLVMPositionBuilderAtEnd(e->builder, e->entry);
}

void tcc_emit_kernel_end(tcc_emitter *e) {
    LLVMBuildRetVoid(e->builder);
    e->function = NULL;
}

LLVMValueRef tcc_emit_buffer(tcc_emitter *e, int index) {
    if (e->target->kind == TCC_TARGET_CUDA) return tcc_cuda_buffer(e, index);
    LLVMValueRef offset = tcc_emit_i64(e, index);
    LLVMValueRef slot = LLVMBuildInBoundsGEP2(e->builder, e->ptr, e->buffers, &offset, 1, "");
    LLVMValueRef pointer = LLVMBuildLoad2(e->builder, e->ptr, slot, "");
    LLVMSetMetadata(pointer, LLVMGetMDKindIDInContext(e->context, "invariant.load", 14),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, NULL, 0)));
    return pointer;
}

LLVMValueRef tcc_emit_param(tcc_emitter *e, int index) {
    if (e->target->kind == TCC_TARGET_CUDA) return tcc_cuda_param(e, index);
    LLVMValueRef offset = tcc_emit_i64(e, index);
    LLVMValueRef slot = LLVMBuildInBoundsGEP2(e->builder, e->i64, e->params, &offset, 1, "");
    LLVMValueRef value = LLVMBuildLoad2(e->builder, e->i64, slot, "");
    LLVMSetMetadata(value, LLVMGetMDKindIDInContext(e->context, "invariant.load", 14),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, NULL, 0)));
    return value;
}

tcc_emit_function tcc_emit_function_begin(tcc_emitter *e, const char *symbol, LLVMTypeRef result,
                                          const LLVMTypeRef *types, int n_types) {
    tcc_emit_function f = {.saved_function = e->function,
                           .saved_entry = e->entry,
                           .saved_block = e->function ? LLVMGetInsertBlock(e->builder) : NULL};
    f.type = LLVMFunctionType(result, (LLVMTypeRef *)types, (unsigned)n_types, false);
    f.function = LLVMAddFunction(e->module, symbol, f.type);
    LLVMSetLinkage(f.function, LLVMInternalLinkage);
    set_attributes(e, f.function);
    add_attribute(e, f.function, (unsigned)LLVMAttributeFunctionIndex, "noinline", 0);
    e->function = f.function;
    e->entry = LLVMAppendBasicBlockInContext(e->context, f.function, "");
    LLVMPositionBuilderAtEnd(e->builder, e->entry);
    return f;
}

void tcc_emit_function_end(tcc_emitter *e, tcc_emit_function *f, LLVMValueRef result_or_null) {
    if (result_or_null) LLVMBuildRet(e->builder, result_or_null);
    else LLVMBuildRetVoid(e->builder);
    e->function = f->saved_function;
    e->entry = f->saved_entry;
    if (f->saved_block) LLVMPositionBuilderAtEnd(e->builder, f->saved_block);
}

LLVMValueRef tcc_emit_call(tcc_emitter *e, const tcc_emit_function *f, LLVMValueRef *arguments, int n) {
    return LLVMBuildCall2(e->builder, f->type, f->function, arguments, (unsigned)n, "");
}

/* --- Control */

static LLVMBasicBlockRef new_block(tcc_emitter *e) {
    return LLVMAppendBasicBlockInContext(e->context, e->function, "");
}

void tcc_emit_loop_begin(tcc_emitter *e, tcc_emit_loop *loop, LLVMValueRef from, LLVMValueRef to, int64_t step,
                         const LLVMValueRef *initial, int n_carry) {
    tcc_emit_loop_begin_by(e, loop, from, to, tcc_emit_i64(e, step), initial, n_carry);
}

void tcc_emit_loop_begin_by(tcc_emitter *e, tcc_emit_loop *loop, LLVMValueRef from, LLVMValueRef to, LLVMValueRef step,
                            const LLVMValueRef *initial, int n_carry) {
    int64_t first, last;
    bool runs = tcc_emit_is_constant(from, &first) && tcc_emit_is_constant(to, &last) && first < last;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder);
    /* Below 2^31 and one step more is below 2^32. Kernels with a bound on registers use the counter in addresses of
     * their own, in both widths. */
    LLVMValueRef narrow_to = e->shape.shape.blocks ? NULL : tcc_emit_narrow(e, to),
                 narrow_step = tcc_emit_narrow(e, step);
    LLVMValueRef narrow_from = narrow_to && narrow_step ? tcc_emit_narrow(e, tcc_emit_within(e, from, INT32_MAX))
                                                        : NULL;
    loop->narrow = narrow_from;
    if (loop->narrow) {
        from = narrow_from;
        to = narrow_to;
        step = narrow_step;
    }
    loop->to = to;
    loop->step = step;
    loop->n_carry = n_carry;
    loop->once = loop->items = false;
    loop->body = new_block(e);
    loop->exit = new_block(e);
    loop->guard = NULL;
    if (runs) {
        LLVMBuildBr(e->builder, loop->body);
    } else {
        loop->guard = before;
        LLVMBuildCondBr(e->builder, LLVMBuildICmp(e->builder, loop->narrow ? LLVMIntULT : LLVMIntSLT, from, to, ""),
                        loop->body, loop->exit);
    }
    LLVMPositionBuilderAtEnd(e->builder, loop->body);
    loop->counter = LLVMBuildPhi(e->builder, LLVMTypeOf(from), "");
    LLVMAddIncoming(loop->counter, &from, &before, 1);
    for (int i = 0; i < n_carry; i++) {
        loop->initial[i] = initial[i];
        loop->carry[i] = LLVMBuildPhi(e->builder, LLVMTypeOf(initial[i]), "");
        LLVMAddIncoming(loop->carry[i], &loop->initial[i], &before, 1);
    }
    loop->index = loop->narrow ? LLVMBuildZExt(e->builder, loop->counter, e->i64, "")
                               : tcc_emit_anchor(e, loop->counter);
}

void tcc_emit_loop_end(tcc_emitter *e, tcc_emit_loop *loop, const LLVMValueRef *next) {
    if (loop->items && e->shared_reused) tcc_emit_barrier(e);
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->builder);
    int64_t last, step;
    /* of a loop that carries sums, products with the counter may become steps */
    bool near = loop->n_carry && tcc_emit_is_constant(loop->to, &last) && tcc_emit_is_constant(loop->step, &step) &&
                last <= INT32_MAX / 2 && step <= INT32_MAX / 2;
    LLVMValueRef index = loop->narrow && !near ? LLVMBuildNUWAdd(e->builder, loop->counter, loop->step, "")
                                               : LLVMBuildNSWAdd(e->builder, loop->counter, loop->step, "");
    LLVMValueRef more = loop->once
                            ? LLVMConstInt(e->i1, 0, false)
                            : LLVMBuildICmp(e->builder, loop->narrow ? LLVMIntULT : LLVMIntSLT, index, loop->to, "");
    LLVMBuildCondBr(e->builder, more, loop->body, loop->exit);
    LLVMAddIncoming(loop->counter, &index, &latch, 1);
    LLVMPositionBuilderAtEnd(e->builder, loop->exit);
    for (int i = 0; i < loop->n_carry; i++) {
        LLVMValueRef value = next[i];
        LLVMAddIncoming(loop->carry[i], &value, &latch, 1);
        LLVMValueRef result = LLVMBuildPhi(e->builder, LLVMTypeOf(value), "");
        LLVMAddIncoming(result, &value, &latch, 1);
        if (loop->guard) LLVMAddIncoming(result, &loop->initial[i], &loop->guard, 1);
        loop->carry[i] = result;
    }
}

void tcc_emit_items_begin(tcc_emitter *e, tcc_emit_loop *loop) {
    if (e->target->kind == TCC_TARGET_CUDA) tcc_cuda_items_begin(e, loop);
    else tcc_emit_loop_begin(e, loop, e->begin, e->end, 1, NULL, 0);
    loop->items = true;
}

void tcc_emit_if_begin(tcc_emitter *e, tcc_emit_if *branch, LLVMValueRef condition) {
    LLVMBasicBlockRef then = new_block(e);
    branch->otherwise = new_block(e);
    branch->join = new_block(e);
    branch->has_else = false;
    branch->then_end = NULL;
    LLVMBuildCondBr(e->builder, condition, then, branch->otherwise);
    LLVMPositionBuilderAtEnd(e->builder, then);
}

void tcc_emit_if_else(tcc_emitter *e, tcc_emit_if *branch) {
    LLVMBuildBr(e->builder, branch->join);
    LLVMPositionBuilderAtEnd(e->builder, branch->otherwise);
    branch->has_else = true;
}

LLVMValueRef tcc_emit_if_value(tcc_emitter *e, tcc_emit_if *branch, LLVMValueRef value, LLVMValueRef other) {
    LLVMValueRef result = LLVMBuildPhi(e->builder, LLVMTypeOf(value), "");
    LLVMAddIncoming(result, &value, &branch->then_end, 1);
    LLVMAddIncoming(result, &other, &branch->otherwise, 1);
    return result;
}

void tcc_emit_if_end(tcc_emitter *e, tcc_emit_if *branch) {
    if (!branch->has_else) branch->then_end = LLVMGetInsertBlock(e->builder);
    LLVMBuildBr(e->builder, branch->join);
    if (!branch->has_else) {
        LLVMPositionBuilderAtEnd(e->builder, branch->otherwise);
        LLVMBuildBr(e->builder, branch->join);
    }
    LLVMPositionBuilderAtEnd(e->builder, branch->join);
}

/* --- Memory */

LLVMValueRef tcc_emit_at(tcc_emitter *e, LLVMTypeRef scalar, LLVMValueRef base, LLVMValueRef offset) {
    int64_t k;
    if (tcc_emit_is_constant(offset, &k) && k == 0) return base;
    return LLVMBuildGEP2(e->builder, scalar, base, &offset, 1, "");
}

LLVMValueRef tcc_emit_at_bytes(tcc_emitter *e, LLVMValueRef base, int64_t offset_bytes) {
    return tcc_emit_at(e, e->i8, base, tcc_emit_i64(e, offset_bytes));
}

/* An empty instruction that takes and gives a register. */
LLVMValueRef tcc_emit_anchor(tcc_emitter *e, LLVMValueRef value) {
    if (LLVMIsConstant(value) || e->target->kind == TCC_TARGET_CUDA) return value;
    LLVMTypeRef type = LLVMTypeOf(value);
    LLVMTypeRef function = LLVMFunctionType(type, &type, 1, false);
    LLVMValueRef nothing = LLVMGetInlineAsm(function, "", 0, "=r,0", 4, false, false, LLVMInlineAsmDialectATT, false);
    LLVMValueRef call = LLVMBuildCall2(e->builder, function, nothing, &value, 1, "");
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(e->context, LLVMGetEnumAttributeKindForName("memory", 6), 0));
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(e->context, LLVMGetEnumAttributeKindForName("nounwind", 8), 0));
    return call;
}

static int scalar_bytes(LLVMTypeRef type) {
    switch (LLVMGetTypeKind(scalar_of(type))) {
    case LLVMHalfTypeKind:
    case LLVMBFloatTypeKind: return 2;
    case LLVMFloatTypeKind: return 4;
    case LLVMIntegerTypeKind: return (int)(LLVMGetIntTypeWidth(scalar_of(type)) + 7) / 8;
    default: return 8;
    }
}

LLVMValueRef tcc_emit_load(tcc_emitter *e, LLVMTypeRef type, LLVMValueRef address, int alignment) {
    LLVMValueRef load = LLVMBuildLoad2(e->builder, type, address, "");
    LLVMSetAlignment(load, (unsigned)(alignment ? alignment : scalar_bytes(type)));
    return load;
}

void tcc_emit_store(tcc_emitter *e, LLVMValueRef value, LLVMValueRef address, int alignment) {
    LLVMValueRef store = LLVMBuildStore(e->builder, value, address);
    LLVMSetAlignment(store, (unsigned)(alignment ? alignment : scalar_bytes(LLVMTypeOf(value))));
}

static LLVMValueRef call_intrinsic(tcc_emitter *e, const char *name, LLVMTypeRef *overloads, int n_overloads,
                                   LLVMValueRef *arguments, int n) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(e->module, id, overloads, (size_t)n_overloads);
    LLVMTypeRef type = LLVMIntrinsicGetType(e->context, id, overloads, (size_t)n_overloads);
    return LLVMBuildCall2(e->builder, type, function, arguments, (unsigned)n, "");
}

/* A masked access: `pointer` is the index of what is addressed among three arguments. Its alignment, that of an
 * element, is one more operand behind it, or since LLVM 22 an attribute. */
static LLVMValueRef call_masked(tcc_emitter *e, const char *name, LLVMTypeRef type, LLVMValueRef *arguments,
                                int pointer) {
    enum { N = 3 };
    LLVMTypeRef overloads[] = {type, LLVMTypeOf(arguments[pointer])};
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMTypeRef function = LLVMIntrinsicGetType(e->context, id, overloads, 2);
    if (LLVMCountParamTypes(function) == N) {
        LLVMValueRef call = call_intrinsic(e, name, overloads, 2, arguments, N);
        unsigned align = LLVMGetEnumAttributeKindForName("align", 5);
        LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)pointer + 1,
                                 LLVMCreateEnumAttribute(e->context, align, (uint64_t)scalar_bytes(type)));
        return call;
    }
    LLVMValueRef all[N + 1];
    for (int i = 0, n = 0; i < N; i++) {
        all[n++] = arguments[i];
        if (i == pointer) all[n++] = tcc_emit_i32(e, scalar_bytes(type));
    }
    return call_intrinsic(e, name, overloads, 2, all, N + 1);
}

LLVMValueRef tcc_emit_load_masked(tcc_emitter *e, LLVMTypeRef type, LLVMValueRef address, LLVMValueRef mask) {
    if (e->target->kind == TCC_TARGET_CUDA) return tcc_cuda_load_lanes(e, scalar_of(type), address, NULL, mask);
    LLVMValueRef arguments[] = {address, mask, LLVMConstNull(type)};
    return call_masked(e, "llvm.masked.load", type, arguments, 0);
}

void tcc_emit_store_masked(tcc_emitter *e, LLVMValueRef value, LLVMValueRef address, LLVMValueRef mask) {
    if (e->target->kind == TCC_TARGET_CUDA) {
        tcc_cuda_store_lanes(e, value, address, NULL, mask);
        return;
    }
    LLVMValueRef arguments[] = {value, address, mask};
    call_masked(e, "llvm.masked.store", LLVMTypeOf(value), arguments, 1);
}

LLVMValueRef tcc_emit_gather(tcc_emitter *e, LLVMTypeRef type, LLVMValueRef addresses, LLVMValueRef mask) {
    LLVMValueRef arguments[] = {addresses, mask, LLVMConstNull(type)};
    return call_masked(e, "llvm.masked.gather", type, arguments, 0);
}

void tcc_emit_scatter(tcc_emitter *e, LLVMValueRef value, LLVMValueRef addresses, LLVMValueRef mask) {
    LLVMValueRef arguments[] = {value, addresses, mask};
    call_masked(e, "llvm.masked.scatter", LLVMTypeOf(value), arguments, 1);
}

LLVMValueRef tcc_emit_gather_at(tcc_emitter *e, LLVMTypeRef scalar, LLVMValueRef base, LLVMValueRef offsets,
                                LLVMValueRef mask) {
    if (e->target->kind == TCC_TARGET_CUDA) return tcc_cuda_load_lanes(e, scalar, base, offsets, mask);
    LLVMTypeRef type = tcc_emit_type_like(e, scalar, LLVMTypeOf(offsets));
    LLVMValueRef addresses = LLVMBuildGEP2(e->builder, scalar, base, &offsets, 1, "");
    return tcc_emit_gather(e, type, addresses, mask ? mask : tcc_emit_int(e, tcc_emit_type_like(e, e->i1, type), 1));
}

void tcc_emit_scatter_at(tcc_emitter *e, LLVMValueRef value, LLVMValueRef base, LLVMValueRef offsets,
                         LLVMValueRef mask) {
    if (e->target->kind == TCC_TARGET_CUDA) {
        tcc_cuda_store_lanes(e, value, base, offsets, mask);
        return;
    }
    LLVMValueRef addresses = LLVMBuildGEP2(e->builder, scalar_of(LLVMTypeOf(value)), base, &offsets, 1, "");
    tcc_emit_scatter(e, value, addresses,
                     mask ? mask : tcc_emit_int(e, tcc_emit_type_like(e, e->i1, LLVMTypeOf(value)), 1));
}

LLVMValueRef tcc_emit_load_if(tcc_emitter *e, LLVMTypeRef scalar, LLVMValueRef base, LLVMValueRef offset,
                              LLVMValueRef condition) {
    if (e->target->kind == TCC_TARGET_CUDA)
        return tcc_cuda_load_lanes(e, scalar, tcc_emit_at(e, scalar, base, offset), NULL, condition);
    offset = tcc_emit_select(e, condition, offset, tcc_emit_i64(e, 0));
    LLVMValueRef value = tcc_emit_load(e, scalar, tcc_emit_at(e, scalar, base, offset), 0);
    return tcc_emit_select(e, condition, value, LLVMConstNull(scalar));
}

LLVMValueRef tcc_emit_mask(tcc_emitter *e, int lanes, LLVMValueRef count) {
    LLVMValueRef narrow = LLVMTypeOf(count) == e->i64 ? LLVMBuildTrunc(e->builder, count, e->i32, "") : count;
    return LLVMBuildICmp(e->builder, LLVMIntSLT, tcc_emit_iota(e, e->i32, lanes), tcc_emit_splat(e, narrow, lanes), "");
}

void tcc_emit_prefetch(tcc_emitter *e, LLVMValueRef address, int locality) {
    LLVMValueRef arguments[] = {address, tcc_emit_i32(e, 0), tcc_emit_i32(e, locality), tcc_emit_i32(e, 1)};
    call_intrinsic(e, "llvm.prefetch", &e->ptr, 1, arguments, 4);
}

LLVMValueRef tcc_emit_local(tcc_emitter *e, LLVMTypeRef type, int64_t count) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
    LLVMValueRef first = LLVMGetFirstInstruction(e->entry);
    if (first) LLVMPositionBuilderBefore(e->builder, first);
    else LLVMPositionBuilderAtEnd(e->builder, e->entry);
    LLVMValueRef place = LLVMBuildAlloca(e->builder, LLVMArrayType2(type, (uint64_t)count), "");
    LLVMSetAlignment(place, 64);
    LLVMPositionBuilderAtEnd(e->builder, here);
    return place;
}

/* --- Vectors and arithmetic */

LLVMValueRef tcc_emit_splat(tcc_emitter *e, LLVMValueRef scalar, int lanes) {
    if (lanes == 1) return scalar;
    if (LLVMIsConstant(scalar)) return splat_constant(scalar, lanes);
    LLVMTypeRef type = tcc_emit_vector_type(LLVMTypeOf(scalar), lanes);
    LLVMValueRef one = LLVMBuildInsertElement(e->builder, LLVMGetPoison(type), scalar, tcc_emit_i32(e, 0), "");
    LLVMValueRef zeros = LLVMConstNull(tcc_emit_vector_type(e->i32, lanes));
    return LLVMBuildShuffleVector(e->builder, one, LLVMGetPoison(type), zeros, "");
}

LLVMValueRef tcc_emit_iota(tcc_emitter *e, LLVMTypeRef scalar, int lanes) {
    (void)e;
    LLVMValueRef elements[64];
    for (int i = 0; i < lanes && i < 64; i++) elements[i] = LLVMConstInt(scalar, (unsigned long long)i, false);
    return lanes == 1 ? elements[0] : LLVMConstVector(elements, (unsigned)lanes);
}

LLVMValueRef tcc_emit_fma(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    if (!e->target->fma) return LLVMBuildFAdd(e->builder, LLVMBuildFMul(e->builder, a, b, ""), c, "");
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef arguments[] = {a, b, c};
    return call_intrinsic(e, "llvm.fma", &type, 1, arguments, 3);
}

LLVMValueRef tcc_emit_intrinsic(tcc_emitter *e, const char *name, LLVMTypeRef overload, LLVMValueRef *arguments,
                                int n) {
    return call_intrinsic(e, name, &overload, overload ? 1 : 0, arguments, n);
}

LLVMValueRef tcc_emit_shuffle(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b, const int *indices, int n) {
    LLVMValueRef elements[64];
    for (int i = 0; i < n && i < 64; i++)
        elements[i] = indices[i] < 0 ? LLVMGetPoison(e->i32) : tcc_emit_i32(e, indices[i]);
    return LLVMBuildShuffleVector(e->builder, a, b ? b : LLVMGetPoison(LLVMTypeOf(a)),
                                  LLVMConstVector(elements, (unsigned)n), "");
}

/* Four by four within the 128-bit parts, with shuffles that stay inside a part, then the parts by taking even and odd
 * ones: every step is one cheap instruction. */
static void transpose(tcc_emitter *e, LLVMValueRef *rows) {
    const int lanes = e->lanes, parts = lanes / 4;
    static const int in_part[4][4] = {
        {0, 16, 1, 17}, {2, 18, 3, 19}, {0, 1, 16, 17}, {2, 3, 18, 19}}; /* 16: the other's */
    int masks[4][16], even[16], odd[16];
    for (int i = 0; i < lanes; i++) {
        for (int m = 0; m < 4; m++) {
            int from = in_part[m][i % 4];
            masks[m][i] = from % 16 + i / 4 * 4 + (from >= 16 ? lanes : 0);
        }
        even[i] = i / 4 * 8 + i % 4; /* of a and b joined */
        odd[i] = even[i] + 4;
    }
    LLVMValueRef columns[4][4]; /* [column in part][group of four rows] */
    for (int g = 0; g < parts; g++) {
        LLVMValueRef *r = rows + 4 * g, t[4];
        for (int i = 0; i < 4; i++) t[i] = tcc_emit_shuffle(e, r[i / 2 * 2], r[i / 2 * 2 + 1], masks[i % 2], lanes);
        for (int i = 0; i < 4; i++)
            columns[i][g] = tcc_emit_shuffle(e, t[i / 2], t[i / 2 + 2], masks[2 + i % 2], lanes);
    }
    for (int c = 0; c < 4; c++) {
        for (int stage = 1; stage < parts; stage *= 2) {
            LLVMValueRef next[4];
            for (int i = 0; i < parts / 2; i++) {
                next[i] = tcc_emit_shuffle(e, columns[c][2 * i], columns[c][2 * i + 1], even, lanes);
                next[i + parts / 2] = tcc_emit_shuffle(e, columns[c][2 * i], columns[c][2 * i + 1], odd, lanes);
            }
            memcpy(columns[c], next, sizeof *next * (size_t)parts);
        }
        for (int i = 0; i < parts; i++) rows[4 * i + c] = columns[c][i];
    }
}

void tcc_emit_transpose(tcc_emitter *e, LLVMValueRef from, int64_t from_stride, LLVMValueRef rows, LLVMValueRef columns,
                        LLVMValueRef to, int64_t to_stride) {
    static const char *const name = "tcc_transpose";
    LLVMTypeRef types[] = {e->ptr, e->i64, e->i64, e->i64, e->ptr, e->i64};
    LLVMValueRef function = LLVMGetNamedFunction(e->module, name);
    tcc_emit_function f = {.function = function, .type = LLVMFunctionType(e->void_, types, 6, false)};
    if (!function) {
        f = tcc_emit_function_begin(e, name, e->void_, types, 6);
        LLVMValueRef argument[6], square[16];
        for (unsigned i = 0; i < 6; i++) argument[i] = LLVMGetParam(f.function, i);
        LLVMValueRef last = tcc_emit_sub(e, argument[2], tcc_emit_i64(e, 1)),
                     mask = tcc_emit_mask(e, e->lanes, argument[3]);
        for (int i = 0; i < e->lanes; i++) {
            LLVMValueRef row = tcc_emit_mul(e, tcc_emit_min(e, tcc_emit_i64(e, i), last), argument[1]);
            square[i] = tcc_emit_load_masked(e, e->vf32, tcc_emit_at(e, e->f32, argument[0], row), mask);
        }
        transpose(e, square);
        for (int i = 0; i < e->lanes; i++) {
            LLVMValueRef row = tcc_emit_mul(e, tcc_emit_i64(e, i), argument[5]);
            tcc_emit_store(e, square[i], tcc_emit_at(e, e->f32, argument[4], row), 4);
        }
        tcc_emit_function_end(e, &f, NULL);
    }
    LLVMValueRef arguments[] = {from, tcc_emit_i64(e, from_stride), rows, columns, to, tcc_emit_i64(e, to_stride)};
    tcc_emit_call(e, &f, arguments, 6);
}

LLVMValueRef tcc_emit_compare(tcc_emitter *e, LLVMRealPredicate predicate, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFCmp(e->builder, predicate, a, b, "");
}

LLVMValueRef tcc_emit_select(tcc_emitter *e, LLVMValueRef condition, LLVMValueRef yes, LLVMValueRef no) {
    return LLVMBuildSelect(e->builder, condition, yes, no, "");
}

typedef LLVMValueRef (*combine_fn)(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b);

static LLVMValueRef combine_sum(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFAdd(e->builder, a, b, "");
}

static LLVMValueRef combine_max(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return tcc_emit_select(e, tcc_emit_compare(e, LLVMRealOGT, a, b), a, b);
}

static LLVMValueRef reduce_lanes(tcc_emitter *e, LLVMValueRef vector, combine_fn combine) {
    for (int n = tcc_emit_lanes_of(LLVMTypeOf(vector)); n > 1; n /= 2) {
        int low[32], high[32];
        for (int i = 0; i < n / 2; i++) low[i] = i, high[i] = i + n / 2;
        if (n == 2) {
            LLVMValueRef a = LLVMBuildExtractElement(e->builder, vector, tcc_emit_i32(e, 0), "");
            LLVMValueRef b = LLVMBuildExtractElement(e->builder, vector, tcc_emit_i32(e, 1), "");
            return combine(e, a, b);
        }
        vector = combine(e, tcc_emit_shuffle(e, vector, NULL, low, n / 2),
                         tcc_emit_shuffle(e, vector, NULL, high, n / 2));
    }
    return vector;
}

LLVMValueRef tcc_emit_sum_lanes(tcc_emitter *e, LLVMValueRef vector) { return reduce_lanes(e, vector, combine_sum); }

LLVMValueRef tcc_emit_max_lanes(tcc_emitter *e, LLVMValueRef vector) { return reduce_lanes(e, vector, combine_max); }

/* log2(lanes) rounds of exchanges between rows that differ in one bit. */
void tcc_emit_transpose_vectors(tcc_emitter *e, LLVMValueRef *rows, int lanes) {
    for (int bit = 1; bit < lanes; bit *= 2) {
        int low[64], high[64];
        for (int l = 0; l < lanes; l++) {
            low[l] = l & bit ? lanes + l - bit : l;
            high[l] = l & bit ? lanes + l : l + bit;
        }
        for (int i = 0; i < lanes; i++) {
            if (i & bit) continue;
            LLVMValueRef a = rows[i], b = rows[i + bit];
            rows[i] = tcc_emit_shuffle(e, a, b, low, lanes);
            rows[i + bit] = tcc_emit_shuffle(e, a, b, high, lanes);
        }
    }
}
