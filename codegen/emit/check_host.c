/* SPDX-License-Identifier: MIT
 * Checked accesses: a call of the runtime (tcc_host_access, program.h) in front of each load and store of a host's
 * kernels. The accesses are found in the finished module, so none is missed; helper functions are inlined first. An
 * address is followed through offsets, selects and loops to the buffers that it is derived from, and the access must
 * lie in these. So an access that leaves its buffer for another one is found as well.
 *
 * Not checked are loads of the kernel's own tables of buffers and params, locals on the stack (tcc_emit_local) and
 * prefetches, which never fault. In scratch, where packed panels lie, only bounds are checked, not whether memory was
 * written. */
#include "codegen/emit/functions.h"

#include "ir/support/vec.h"

#include <llvm-c/Transforms/PassBuilder.h>

#include <string.h>

enum { MOST_SEEN = 512 };

typedef struct checker {
    tcc_emitter *e;
    LLVMTargetDataRef layout;
    tcc_emit_type call_type;
    tcc_emit_value function, call; /* the kernel's, and what it calls */
} checker;

/* What an address is derived from. */
typedef struct origin {
    uint64_t buffers; /* by bit */
    int how;          /* tcc_host_access_how, but for TCC_ACCESS_STORES */
    bool unchecked;   /* a table of the kernel's, or a local */
    int n_seen;
    tcc_emit_value seen[MOST_SEEN];
} origin;

/* The kernel's buffer that is loaded from its table; -1: it is none. */
static int buffer_of(const checker *c, tcc_emit_value load) {
    tcc_emit_value slot = LLVMGetOperand(load, 0), table = LLVMGetParam(c->function, 0);
    int64_t index;
    if (slot == table) return 0;
    if (!LLVMIsAGetElementPtrInst(slot) || LLVMGetOperand(slot, 0) != table || LLVMGetNumOperands(slot) != 2) return -1;
    return tcc_emit_is_constant(LLVMGetOperand(slot, 1), &index) ? (int)index : -1;
}

static void trace(const checker *c, tcc_emit_value v, origin *o);

static void trace_operands(const checker *c, tcc_emit_value v, int first, int end, origin *o) {
    for (int i = first; i < end; i++) trace(c, LLVMGetOperand(v, (unsigned)i), o);
}

static void trace_argument(const checker *c, tcc_emit_value v, origin *o) {
    enum { BUFFERS, PARAMS, SCRATCH = 4 };
    if (v == LLVMGetParam(c->function, SCRATCH)) o->how |= TCC_ACCESS_SCRATCH;
    else if (v == LLVMGetParam(c->function, BUFFERS) || v == LLVMGetParam(c->function, PARAMS)) o->unchecked = true;
    else o->how |= TCC_ACCESS_ANYWHERE;
}

static void trace_load(const checker *c, tcc_emit_value v, origin *o) {
    const int buffer = buffer_of(c, v);
    if (buffer < 0 || buffer >= TCC_EMIT_MAX_BUFFERS) o->how |= TCC_ACCESS_ANYWHERE;
    else o->buffers |= UINT64_C(1) << buffer;
}

static void trace(const checker *c, tcc_emit_value v, origin *o) {
    for (int i = 0; i < o->n_seen; i++)
        if (o->seen[i] == v) return;
    if (o->n_seen == MOST_SEEN) {
        o->how |= TCC_ACCESS_ANYWHERE;
        return;
    }
    o->seen[o->n_seen++] = v;
    if (LLVMIsUndef(v)) return; /* a vector of addresses before its lanes are set */
    if (LLVMIsAArgument(v)) trace_argument(c, v, o);
    else if (LLVMIsAAllocaInst(v)) o->unchecked = true;
    else if (LLVMIsALoadInst(v)) trace_load(c, v, o);
    else if (LLVMIsAGetElementPtrInst(v) || LLVMIsAExtractElementInst(v)) trace_operands(c, v, 0, 1, o);
    else if (LLVMIsAInsertElementInst(v) || LLVMIsAShuffleVectorInst(v)) trace_operands(c, v, 0, 2, o);
    else if (LLVMIsASelectInst(v)) trace_operands(c, v, 1, 3, o);
    else if (LLVMIsACallInst(v) && LLVMIsAInlineAsm(LLVMGetCalledValue(v))) trace_operands(c, v, 0, 1, o);
    else if (LLVMIsAPHINode(v))
        for (unsigned i = 0; i < LLVMCountIncoming(v); i++) trace(c, LLVMGetIncomingValue(v, i), o);
    else o->how |= TCC_ACCESS_ANYWHERE;
}

/* Calls the runtime in front of `access`: bit i of `lanes` says that the `lane_bytes` at `address` + i * lane_bytes are
 * accessed. */
static void tell(const checker *c, tcc_emit_value address, int64_t lane_bytes, tcc_emit_value lanes, int how,
                 const origin *o) {
    tcc_emitter *e = c->e;
    tcc_emit_value arguments[] = {address, tcc_emit_i64(e, lane_bytes), lanes, tcc_emit_i64(e, (int64_t)o->buffers),
                                  tcc_emit_i32(e, how | o->how)};
    LLVMBuildCall2(e->builder, c->call_type, c->call, arguments, 5, "");
}

static tcc_emit_value one(const checker *c) { return tcc_emit_i64(c->e, 1); }

static int64_t bytes_of(const checker *c, tcc_emit_type type) { return (int64_t)LLVMStoreSizeOfType(c->layout, type); }

/* A mask of up to 64 lanes as bits. */
static tcc_emit_value bits_of(const checker *c, tcc_emit_value mask) {
    const unsigned lanes = (unsigned)tcc_emit_lanes_of(tcc_emit_type_of(mask));
    tcc_emit_value bits = tcc_emit_bitcast(c->e, mask, LLVMIntTypeInContext(c->e->context, lanes));
    return lanes == 64 ? bits : tcc_emit_zext(c->e, bits, c->e->i64);
}

/* Lane by lane, at addresses of their own. */
static void tell_lanes(const checker *c, tcc_emit_value addresses, int64_t lane_bytes, tcc_emit_value mask, int how,
                       const origin *o) {
    tcc_emitter *e = c->e;
    for (int i = 0; i < tcc_emit_lanes_of(tcc_emit_type_of(addresses)); i++) {
        tcc_emit_value lane = tcc_emit_i32(e, i), address = tcc_emit_extract(e, addresses, lane);
        tcc_emit_value is_on = tcc_emit_zext(e, tcc_emit_extract(e, mask, lane), e->i64);
        tell(c, address, lane_bytes, is_on, how, o);
    }
}

/* The mask among an intrinsic's arguments: the last of its vectors of i1, as values of memory are none. */
static tcc_emit_value mask_of(const checker *c, tcc_emit_value call) {
    tcc_emit_value mask = NULL;
    for (unsigned i = 0; i < LLVMGetNumArgOperands(call); i++) {
        tcc_emit_type type = tcc_emit_type_of(LLVMGetOperand(call, i));
        if (LLVMGetTypeKind(type) == LLVMVectorTypeKind && LLVMGetElementType(type) == c->e->i1)
            mask = LLVMGetOperand(call, i);
    }
    return mask;
}

/* Rows of a tile of registers: they are at its call, as metadata. */
static void tell_tile(const checker *c, tcc_emit_value call, int how, const origin *o) {
    enum { ROW_BYTES = 64 };
    tcc_emitter *e = c->e;
    tcc_emit_value data = LLVMGetMetadata(call, tcc_host_tile_rows(e)), rows;
    LLVMGetMDNodeOperands(data, &rows);
    for (int64_t i = 0, n = LLVMConstIntGetSExtValue(rows); i < n; i++) {
        tcc_emit_value offset = tcc_emit_imul(e, LLVMGetOperand(call, 2), tcc_emit_i64(e, i));
        tell(c, tcc_emit_at(e, e->i8, LLVMGetOperand(call, 1), offset), ROW_BYTES, one(c), how, o);
    }
}

/* An access to memory, as LLVM has them. */
typedef struct access {
    enum { WHOLE, MASKED, LANES, TILE } kind;
    tcc_emit_value address, mask;
    tcc_emit_type type; /* of the value; TILE: none */
    bool stores;
} access;

static bool find_call(const checker *c, tcc_emit_value call, access *a) {
    static const struct {
        const char *name;
        int kind, address, value;
    } known[] = {{"llvm.masked.load.", MASKED, 0, -1},  {"llvm.masked.store.", MASKED, 1, 0},
                 {"llvm.masked.gather.", LANES, 0, -1}, {"llvm.masked.scatter.", LANES, 1, 0},
                 {"llvm.x86.tileloadd64", TILE, 1, -1}, {"llvm.x86.tilestored64", TILE, 1, -1}};
    size_t length;
    tcc_emit_value called = LLVMGetCalledValue(call);
    if (!LLVMIsAFunction(called)) return false;
    const char *name = LLVMGetValueName2(called, &length);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strncmp(name, known[i].name, strlen(known[i].name)) != 0) continue;
        *a = (access){.kind = known[i].kind, .address = LLVMGetOperand(call, (unsigned)known[i].address)};
        a->type = known[i].value < 0 ? tcc_emit_type_of(call)
                                     : tcc_emit_type_of(LLVMGetOperand(call, (unsigned)known[i].value));
        a->stores = known[i].value >= 0 || strstr(known[i].name, "tilestore");
        a->mask = a->kind == TILE ? NULL : mask_of(c, call);
        return true;
    }
    return false;
}

static bool find_access(const checker *c, tcc_emit_value x, access *a) {
    if (LLVMIsALoadInst(x)) *a = (access){.address = LLVMGetOperand(x, 0), .type = tcc_emit_type_of(x)};
    else if (LLVMIsAStoreInst(x))
        *a = (access){.address = LLVMGetOperand(x, 1), .type = tcc_emit_type_of(LLVMGetOperand(x, 0)), .stores = true};
    else return LLVMIsACallInst(x) && find_call(c, x, a);
    return true;
}

static void check_instruction(const checker *c, tcc_emit_value x) {
    access a;
    if (!find_access(c, x, &a)) return;
    origin o;
    o.buffers = 0, o.how = 0, o.unchecked = false, o.n_seen = 0;
    trace(c, a.address, &o);
    if (o.unchecked) return;
    LLVMPositionBuilderBefore(c->e->builder, x);
    const int how = a.stores ? TCC_ACCESS_STORES : 0;
    switch (a.kind) {
    case WHOLE: tell(c, a.address, bytes_of(c, a.type), one(c), how, &o); break;
    case MASKED: tell(c, a.address, tcc_emit_scalar_bytes(a.type), bits_of(c, a.mask), how, &o); break;
    case LANES: tell_lanes(c, a.address, tcc_emit_scalar_bytes(a.type), a.mask, how, &o); break;
    case TILE: tell_tile(c, x, how, &o); break;
    }
}

static bool check_kernel(checker *c, tcc_emit_value function) {
    tcc_emitter *e = c->e;
    tcc_vec(tcc_emit_value) all = {0};
    bool fits = true;
    c->function = function;
    for (tcc_emit_block b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        for (tcc_emit_value x = LLVMGetFirstInstruction(b); x && fits; x = LLVMGetNextInstruction(x))
            fits = tcc_vec_push(&all, x);
    LLVMPositionBuilderBefore(e->builder, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(function)));
    tcc_emit_value in_front = tcc_emit_at(e, e->ptr, LLVMGetParam(function, 0), tcc_emit_i64(e, -1));
    c->call = LLVMBuildLoad2(e->builder, e->ptr, in_front, "");
    tcc_emit_set_invariant(e, c->call);
    for (int i = 0; i < all.count && fits; i++) check_instruction(c, all.data[i]);
    tcc_vec_free(&all);
    return fits;
}

unsigned tcc_host_tile_rows(tcc_emitter *e) { return LLVMGetMDKindIDInContext(e->context, "tile.rows", 9); }

static void add_mark(tcc_emitter *e) {
    tcc_emit_value mark = LLVMAddFunction(e->module, TCC_CHECKED_MODULE, LLVMFunctionType(e->void_, NULL, 0, false));
    LLVMPositionBuilderAtEnd(e->builder, LLVMAppendBasicBlockInContext(e->context, mark, ""));
    LLVMBuildRetVoid(e->builder);
}

tcc_status tcc_host_check_accesses(tcc_emitter *e) {
    tcc_emit_type types[] = {e->ptr, e->i64, e->i64, e->i64, e->i32};
    checker c = {.e = e, .call_type = LLVMFunctionType(e->void_, types, 5, false)};
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(e->module, "always-inline", e->machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (error) {
        LLVMConsumeError(error);
        return TCC_BUG(e->diag, "LLVM cannot inline the functions of a kernel");
    }
    bool fits = true;
    c.layout = LLVMCreateTargetDataLayout(e->machine);
    for (tcc_emit_value f = LLVMGetFirstFunction(e->module); f && fits; f = LLVMGetNextFunction(f))
        if (LLVMCountBasicBlocks(f)) fits = check_kernel(&c, f);
    LLVMDisposeTargetData(c.layout);
    add_mark(e);
    return fits ? TCC_OK : tcc_enomem(e->diag);
}
