/* SPDX-License-Identifier: MIT
 * NVIDIA GPUs as a target: architectures, the entry of a kernel, thread indices and accesses, in LLVM's NVPTX terms.
 * threads.c has exchanges between threads. All code is plain IR and NVVM intrinsics; nothing outside the module is
 * called. */
#include "codegen/options.h"
#include "codegen/emit/nvptx.h"
#include "codegen/emit/warp.h"

#include "ir/support/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Architectures, the one that LLVM makes code for, and the oldest PTX version that has all we emit for it: the older,
 * the more drivers take it, and the more versions of LLVM make it. Newer GPUs run PTX for sm_90, and we emit nothing
 * that only they have. */
static const struct arch {
    int sm;
    const char *name, *cpu, *features;
} archs[] = {
    {75, "sm_75", "sm_75", "+ptx63"},   {80, "sm_80", "sm_80", "+ptx70"},   {86, "sm_86", "sm_86", "+ptx71"},
    {87, "sm_87", "sm_87", "+ptx74"},   {89, "sm_89", "sm_89", "+ptx78"},   {90, "sm_90", "sm_90", "+ptx78"},
    {90, "sm_90a", "sm_90a", "+ptx80"}, {100, "sm_100", "sm_90", "+ptx78"}, {103, "sm_103", "sm_90", "+ptx78"},
    {120, "sm_120", "sm_90", "+ptx78"}, {121, "sm_121", "sm_90", "+ptx78"},
};
enum { ARCHS = sizeof archs / sizeof *archs };

tcc_status tcc_llvm_target_cuda(const char *arch, const tcc_hardware *hw, tcc_diag *diag, tcc_llvm_target *out) {
    *out = (tcc_llvm_target){.kind = TCC_TARGET_CUDA,
                             .functions = &tcc_emit_nvptx,
                             .lane_groups = true,
                             .aligned_vectors = true,
                             .lanes = 4,
                             .registers = 32,
                             .fma = true,
                             .f16 = true,
                             .most_narrow = INT32_MAX};
    TCC_TRY(tcc_llvm_initialize_cuda(diag));
    const struct arch *found = NULL;
    char known[128] = "";
    for (int i = 0; i < ARCHS; i++) {
        if (!strcmp(archs[i].name, arch)) found = &archs[i];
        size_t end = strlen(known);
        snprintf(known + end, sizeof known - end, "%s%s", i ? ", " : "", archs[i].name);
    }
    if (!found)
        return tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "unknown GPU architecture '%s'; known are %s", arch,
                         known);
    if (hw) tcc_hardware_of_device(hw, &out->hw);
    else tcc_hardware_of_sm(found->sm, &out->hw);
    tcc_costs_of_gpu(&out->hw, &out->costs);
    out->triple = tcc__strdup("nvptx64-nvidia-cuda");
    out->arch = tcc__strdup(found->name);
    out->cpu = tcc__strdup(found->cpu);
    out->features = tcc__strdup(found->features);
    if (!out->triple || !out->arch || !out->cpu || !out->features) {
        tcc_llvm_target_clear(out);
        return tcc_enomem(diag);
    }
    return TCC_OK;
}

tcc_status tcc_codegen_check_arch(tcc_diag *diag, const char *arch) {
    tcc_llvm_target target;
    TCC_TRY(tcc_llvm_target_cuda(arch, NULL, diag, &target));
    tcc_llvm_target_clear(&target);
    return TCC_OK;
}

const char *tcc_codegen_cuda_arch(int sm) {
    const char *newest = NULL;
    for (int i = 0; i < ARCHS; i++)
        if (archs[i].sm <= sm && !strchr(archs[i].name, 'a'))
            newest = archs[i].name; /* "sm_90a" runs on nothing newer */
    return newest;
}

static tcc_emit_value call(tcc_emitter *e, const char *name, tcc_emit_value *arguments, int n) {
    return tcc_cuda_intrinsic(e, name, arguments, n);
}

static tcc_emit_value special_register(tcc_emitter *e, const char *name) {
    return tcc_emit_zext(e, call(e, name, NULL, 0), e->i64);
}

/* --- Entries */

static void annotate(tcc_emitter *e, const char *what, int value) {
    LLVMMetadataRef parts[] = {
        LLVMValueAsMetadata(e->function),
        LLVMMDStringInContext2(e->context, what, strlen(what)),
        LLVMValueAsMetadata(tcc_emit_i32(e, value)),
    };
    LLVMMetadataRef node = LLVMMDNodeInContext2(e->context, parts, 3);
    LLVMAddNamedMetadataOperand(e->module, "nvvm.annotations", LLVMMetadataAsValue(e->context, node));
}

/* A bound of the kernel: `attribute` from LLVM 21 on, which reads no metadata for it any more, else `metadata`. */
static void bound(tcc_emitter *e, const char *attribute, const char *metadata, int value) {
    enum { FIRST_WITH_ATTRIBUTES = 21 };
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    if (major >= FIRST_WITH_ATTRIBUTES) {
        char text[16];
        snprintf(text, sizeof text, "%d", value);
        LLVMAddAttributeAtIndex(e->function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                LLVMCreateStringAttribute(e->context, attribute, (unsigned)strlen(attribute), text,
                                                          (unsigned)strlen(text)));
        return;
    }
    annotate(e, metadata, value);
}

/* Words 0, 1, ... of the instance's row: first block, items, buffers, params. */
static tcc_emit_value table_word(tcc_emitter *e, tcc_emit_value place) {
    tcc_emit_value value = tcc_emit_load(e, e->i64, place, 8);
    tcc_emit_set_invariant(e, value);
    return value;
}

static tcc_emit_value row_word(tcc_emitter *e, int index) {
    return table_word(e, tcc_emit_at(e, e->i64, e->row, tcc_emit_i64(e, index)));
}

/* The last of `count` rows whose first block is not past this one. */
static tcc_emit_value find_row(tcc_emitter *e, tcc_emit_value table, tcc_emit_value count, tcc_emit_value block) {
    int64_t words = 2 + e->shape.n_buffers + e->shape.n_params;
    tcc_emit_block before = LLVMGetInsertBlock(e->builder), test = tcc_emit_new_block(e), body = tcc_emit_new_block(e),
                   found = tcc_emit_new_block(e);
    tcc_emit_value zero = tcc_emit_i64(e, 0), one = tcc_emit_i64(e, 1);
    LLVMBuildBr(e->builder, test);
    LLVMPositionBuilderAtEnd(e->builder, test);
    tcc_emit_value low = LLVMBuildPhi(e->builder, e->i64, ""), high = LLVMBuildPhi(e->builder, e->i64, "");
    LLVMAddIncoming(low, &zero, &before, 1);
    LLVMAddIncoming(high, &count, &before, 1);
    tcc_emit_value several = tcc_emit_icmp(e, TCC_ICMP_SGT, tcc_emit_sub(e, high, low), one);
    LLVMBuildCondBr(e->builder, several, body, found);
    LLVMPositionBuilderAtEnd(e->builder, body);
    tcc_emit_value middle = tcc_emit_lshr(e, tcc_emit_add(e, low, high), one);
    tcc_emit_value first = table_word(e,
                                      tcc_emit_at(e, e->i64, table, tcc_emit_mul(e, middle, tcc_emit_i64(e, words))));
    tcc_emit_value past = tcc_emit_icmp(e, TCC_ICMP_SGT, first, block);
    tcc_emit_value next_low = tcc_emit_select(e, past, low, middle), next_high = tcc_emit_select(e, past, middle, high);
    LLVMAddIncoming(low, &next_low, &body, 1);
    LLVMAddIncoming(high, &next_high, &body, 1);
    LLVMBuildBr(e->builder, test);
    LLVMPositionBuilderAtEnd(e->builder, found);
    return tcc_emit_at(e, e->i64, table, tcc_emit_mul(e, low, tcc_emit_i64(e, words)));
}

static tcc_emit_value generic(tcc_emitter *e, tcc_emit_value pointer) {
    return LLVMBuildAddrSpaceCast(e->builder, pointer, e->ptr, "");
}

/* The block's dynamic shared memory; one array a module. */
static tcc_emit_value dynamic_shared(tcc_emitter *e) {
    tcc_emit_value array = LLVMGetNamedGlobal(e->module, "tcc_shared");
    if (!array) {
        array = LLVMAddGlobalInAddressSpace(e->module, LLVMArrayType2(e->i8, 0), "tcc_shared", TCC_CUDA_SHARED);
        LLVMSetAlignment(array, 16);
    }
    return generic(e, array);
}

static void kernel_begin(tcc_emitter *e, const char *symbol) {
    enum { MOST = 4 * TCC_EMIT_MAX_BUFFERS + 64 };
    const tcc_emit_entry *shape = &e->shape;
    tcc_emit_type types[MOST], global = LLVMPointerTypeInContext(e->context, TCC_CUDA_GLOBAL);
    int n = 0, n_pointers = shape->table ? 1 : shape->n_buffers, n_integers = shape->table ? 1 : shape->n_params + 1;
    if (n_pointers + n_integers > MOST) {
        e->status = TCC_BUG(e->diag, "a kernel of %d buffers and %d parameters", shape->n_buffers, shape->n_params);
        n_pointers = n_integers = 1;
    }
    while (n < n_pointers) types[n++] = global;
    while (n < n_pointers + n_integers) types[n++] = e->i64;
    e->function = LLVMAddFunction(e->module, symbol, LLVMFunctionType(e->void_, types, (unsigned)n, false));
    LLVMSetFunctionCallConv(e->function, LLVMPTXKernelCallConv);
    annotate(e, "kernel", 1);
    bound(e, "nvvm.maxntid", "maxntidx", shape->shape.threads);
    /* Left to itself the assembler aims at so many threads that the row of a table does not fit their registers. */
    enum { REGISTERS_OF_TABLES = 85 };
    int held = tcc_hardware_threads(&e->target->hw, REGISTERS_OF_TABLES);
    int blocks = shape->shape.blocks || !shape->table ? shape->shape.blocks : held / shape->shape.threads;
    if (blocks) bound(e, "nvvm.minctasm", "minctasm", blocks < 16 ? blocks : 16);
    e->entry = LLVMAppendBasicBlockInContext(e->context, e->function, "");
    LLVMPositionBuilderAtEnd(e->builder, e->entry);
    tcc_emit_value tid = special_register(e, "llvm.nvvm.read.ptx.sreg.tid.x"),
                   block = special_register(e, "llvm.nvvm.read.ptx.sreg.ctaid.x");
    const int threads = shape->shape.threads, group = shape->shape.group, groups = tcc_shape_items(shape->shape);
    e->thread = group == threads ? tid : tcc_emit_rem(e, tid, group);
    e->split = shape->shape.split > 1 ? tcc_emit_div(e, tid, group) : NULL;
    e->group = groups == 1 ? tcc_emit_i64(e, 0) : tcc_emit_div(e, tid, group);
    e->row = NULL;
    e->shared_reused = false;
    if (shape->table) {
        e->row = find_row(e, generic(e, LLVMGetParam(e->function, 0)), LLVMGetParam(e->function, 1), block);
        block = tcc_emit_sub(e, block, row_word(e, 0));
    }
    e->begin = tcc_emit_add(e, tcc_emit_mul(e, block, tcc_emit_i64(e, groups)), e->group);
    e->end = shape->table ? row_word(e, 1) : LLVMGetParam(e->function, (unsigned)(n - 1));
    e->end = tcc_emit_within(e, e->end, INT32_MAX); /* as build.c checks */
    e->buffers = e->params = NULL;
    e->scratch = NULL;
    if (shape->scratch_bytes) {
        tcc_emit_value at = tcc_emit_mul(e, e->group, tcc_emit_i64(e, shape->scratch_bytes));
        e->scratch = tcc_emit_at(e, e->i8, dynamic_shared(e), at);
    }
}

static tcc_emit_value buffer(tcc_emitter *e, int index) {
    tcc_emit_type global = LLVMPointerTypeInContext(e->context, TCC_CUDA_GLOBAL);
    tcc_emit_value pointer = e->row ? LLVMBuildIntToPtr(e->builder, row_word(e, 2 + index), global, "")
                                    : LLVMGetParam(e->function, (unsigned)index);
    return generic(e, pointer);
}

static tcc_emit_value param(tcc_emitter *e, int index) {
    index += e->shape.n_buffers;
    return e->row ? row_word(e, 2 + index) : LLVMGetParam(e->function, (unsigned)index);
}

/* A move, of an index. No pass computes what follows from it by steps, or a part of that before a loop. */
static tcc_emit_value anchor(tcc_emitter *e, tcc_emit_value value) {
    tcc_emit_type type = tcc_emit_type_of(value);
    if (LLVMIsConstant(value) || (type != e->i64 && type != e->i32)) return value;
    const bool wide = type == e->i64;
    return tcc_cuda_assemble(e, wide ? "mov.b64 $0, $1;" : "mov.b32 $0, $1;", wide ? "=l,l" : "=r,r", &value, 1);
}

/* Mostly a thread has one item. A step from an address to the next item's would take a register of 64 bits in it. */
static void items_begin(tcc_emitter *e, tcc_emit_loop *loop) {
    tcc_emit_value step = tcc_emit_i64(e, 1);
    if (!e->row) {
        tcc_emit_value blocks = special_register(e, "llvm.nvvm.read.ptx.sreg.nctaid.x");
        step = tcc_emit_within(e, tcc_emit_mul(e, blocks, tcc_emit_i64(e, tcc_shape_items(e->shape.shape))), INT32_MAX);
    }
    tcc_emit_loop_begin_by(e, loop, e->begin, e->end, step, NULL, 0);
    if (!e->row) {
        tcc_emit_value item = anchor(e, loop->counter);
        loop->index = loop->narrow ? tcc_emit_zext(e, item, e->i64) : item;
    }
    loop->once = e->row != NULL;
}

/* --- Access lane by lane, at base[offsets[lane]], or base[lane] if `offsets` is NULL. `mask`: a bit a lane, one bit
 * for a scalar; NULL: all. */

static tcc_emit_value lane_of(tcc_emitter *e, tcc_emit_value v, int lane) {
    return tcc_emit_lanes_of(tcc_emit_type_of(v)) == 1 ? v : tcc_emit_extract(e, v, tcc_emit_i32(e, lane));
}

static tcc_emit_value lane_address(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offsets,
                                   int lane) {
    return tcc_emit_at(e, scalar, base, offsets ? lane_of(e, offsets, lane) : tcc_emit_i64(e, lane));
}

static tcc_emit_value gather_at(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offsets,
                                tcc_emit_value mask) {
    int lanes = tcc_emit_lanes_of(tcc_emit_type_of(offsets ? offsets : mask));
    tcc_emit_value result = tcc_emit_poison(tcc_emit_vector_type(scalar, lanes));
    for (int i = 0; i < lanes; i++) {
        tcc_emit_value value;
        if (mask) {
            tcc_emit_block before, after, then = tcc_emit_new_block(e), join = tcc_emit_new_block(e);
            tcc_emit_value condition = lane_of(e, mask, i), none = tcc_emit_null(scalar);
            before = LLVMGetInsertBlock(e->builder);
            LLVMBuildCondBr(e->builder, condition, then, join);
            LLVMPositionBuilderAtEnd(e->builder, then);
            tcc_emit_value loaded = tcc_emit_load(e, scalar, lane_address(e, scalar, base, offsets, i), 0);
            after = LLVMGetInsertBlock(e->builder);
            LLVMBuildBr(e->builder, join);
            LLVMPositionBuilderAtEnd(e->builder, join);
            value = LLVMBuildPhi(e->builder, scalar, "");
            LLVMAddIncoming(value, &none, &before, 1);
            LLVMAddIncoming(value, &loaded, &after, 1);
        } else {
            value = tcc_emit_load(e, scalar, lane_address(e, scalar, base, offsets, i), 0);
        }
        result = lanes == 1 ? value : tcc_emit_insert(e, result, value, tcc_emit_i32(e, i));
    }
    return result;
}

static void scatter_at(tcc_emitter *e, tcc_emit_value value, tcc_emit_value base, tcc_emit_value offsets,
                       tcc_emit_value mask) {
    tcc_emit_type type = tcc_emit_type_of(value),
                  scalar = LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
    for (int i = 0; i < tcc_emit_lanes_of(type); i++) {
        tcc_emit_if branch;
        if (mask) tcc_emit_if_begin(e, &branch, lane_of(e, mask, i));
        tcc_emit_store(e, lane_of(e, value, i), lane_address(e, scalar, base, offsets, i), 0);
        if (mask) tcc_emit_if_end(e, &branch);
    }
}

static tcc_emit_value load_masked(tcc_emitter *e, tcc_emit_type type, tcc_emit_value address, tcc_emit_value mask) {
    return gather_at(e, tcc_emit_scalar_of(type), address, NULL, mask);
}

static void store_masked(tcc_emitter *e, tcc_emit_value value, tcc_emit_value address, tcc_emit_value mask) {
    scatter_at(e, value, address, NULL, mask);
}

static tcc_emit_value load_if(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offset,
                              tcc_emit_value condition) {
    return gather_at(e, scalar, tcc_emit_at(e, scalar, base, offset), NULL, condition);
}

static tcc_emit_value load_lanes_if(tcc_emitter *e, tcc_emit_type type, tcc_emit_value base, tcc_emit_value offset,
                                    int alignment, tcc_emit_value condition) {
    tcc_emit_if branch;
    tcc_emit_value at = tcc_emit_at(e, tcc_emit_scalar_of(type), base, offset), none = tcc_emit_null(type);
    tcc_emit_if_begin(e, &branch, condition);
    tcc_emit_value value = tcc_emit_load(e, type, at, alignment);
    tcc_emit_if_end(e, &branch);
    return tcc_emit_if_value(e, &branch, value, none);
}

/* Two values in an instruction. */
static tcc_emit_value round_bf16(tcc_emitter *e, tcc_emit_value x) {
    const int lanes = tcc_emit_lanes_of(tcc_emit_type_of(x));
    if (!tcc_llvm_has_matrix(e->target)) return NULL; /* nor conversions to bf16 */
    tcc_emit_value all = tcc_emit_poison(tcc_emit_type_of(x));
    for (int i = 0; i < lanes; i += 2) {
        const bool two = i + 1 < lanes;
        tcc_emit_value first = lane_of(e, x, i),
                       pack = tcc_emit_pack(e, TCC_BF16, first, two ? lane_of(e, x, i + 1) : first);
        tcc_emit_value high = tcc_emit_and(e, pack, tcc_emit_i32(e, -0x10000));
        high = tcc_emit_bitcast(e, high, e->f32);
        if (lanes == 1) return high;
        tcc_emit_value low = tcc_emit_bitcast(e, tcc_emit_shl(e, pack, tcc_emit_i32(e, 16)), e->f32);
        all = tcc_emit_insert(e, all, low, tcc_emit_i32(e, i));
        if (two) all = tcc_emit_insert(e, all, high, tcc_emit_i32(e, i + 1));
    }
    return all;
}

/* --- The table of functions */

static void set_attributes(tcc_emitter *e, tcc_emit_value function) { (void)e, (void)function; }

static tcc_emit_value tail_mask(tcc_emitter *e, int lanes, tcc_emit_value to, tcc_emit_value index) {
    (void)e, (void)lanes, (void)to, (void)index;
    return NULL;
}

static tcc_emit_value vectors_end(tcc_emitter *e, tcc_emit_value to, int lanes) {
    return lanes == 1 ? to : tcc_emit_and(e, to, tcc_emit_i64(e, -lanes));
}

const tcc_emit_functions tcc_emit_nvptx = {
    .text = true,
    .narrow_registers = true,
    .kernel_begin = kernel_begin,
    .set_attributes = set_attributes,
    .buffer = buffer,
    .param = param,
    .items_begin = items_begin,
    .tail_mask = tail_mask,
    .vectors_end = vectors_end,
    .narrow = tcc_nvptx_narrow,
    .within = tcc_nvptx_within,
    .offset = tcc_nvptx_offset,
    .anchor = anchor,
    .load_masked = load_masked,
    .store_masked = store_masked,
    .gather_at = gather_at,
    .scatter_at = scatter_at,
    .load_if = load_if,
    .load_lanes_if = load_lanes_if,
    .round_bf16 = round_bf16,
    .copy_sign = tcc_nvptx_copy_sign,
    .exp = tcc_nvptx_exp,
    .exp_negative = tcc_nvptx_exp_negative,
    .log = tcc_nvptx_log,
    .log_rough = tcc_nvptx_log_rough,
    .log1p = tcc_nvptx_log1p,
    .erf = tcc_nvptx_erf,
    .tanh_large = tcc_nvptx_tanh_large,
    .sigmoid = tcc_nvptx_sigmoid,
    .rsqrt = tcc_nvptx_rsqrt,
};
