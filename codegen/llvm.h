/* SPDX-License-Identifier: MIT
 * The LLVM-C base: one place for LLVM's ownership rules, the target machine, the pass pipeline and object emission, and the
 * emission helpers that every schedule is written with.
 *
 * An emitter is one LLVM module in a context of its own; it may hold many kernels. Emitters share nothing, so that modules can be
 * built in several threads at once. Objects are self-contained: no helper here produces a call out of the module.
 *
 * A schedule speaks only of kernels, loops, vectors and the functions below, not of the host; a second target implements the same
 * functions (its thread index takes the place of the work item). */
#ifndef TCC_CODEGEN_LLVM_H
#define TCC_CODEGEN_LLVM_H

#include "codegen/program.h"

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include <stdbool.h>

/* What code is made for. Strings are owned. */
typedef struct tcc_llvm_target {
    char *triple, *cpu, *features;
    int lanes;     /* f32 lanes of a vector register: 16, 8 or 4 */
    int registers; /* vector registers */
    bool fma;      /* fused multiply-add in one instruction */
} tcc_llvm_target;

/* The machine we run on. `cpu` NULL: detected; else an LLVM name ("x86-64-v3") with that CPU's own features, for tests and for
 * --emit of another machine's code. Errors: TCC_EUNSUPPORTED. */
tcc_status tcc_llvm_target_host(const char *cpu, tcc_diag *diag, tcc_llvm_target *out);
void tcc_llvm_target_clear(tcc_llvm_target *t);

enum { TCC_EMIT_MAX_CARRY = 64, TCC_EMIT_MAX_BUFFERS = 64 };

typedef struct tcc_emitter {
    const tcc_llvm_target *target; /* borrowed */
    tcc_diag *diag;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMTargetMachineRef machine;
    LLVMTypeRef void_, i1, i8, i16, i32, i64, f16, bf16, f32, f64, ptr;
    LLVMTypeRef vf32, vi32, vi1; /* a full vector: target->lanes lanes */
    int lanes;
    tcc_status status;           /* the first thing that went wrong inside LLVM; reported by tcc_emitter_finish */
    /* the kernel being emitted */
    LLVMValueRef function;
    LLVMValueRef buffers, params, begin, end, scratch; /* its arguments */
    LLVMBasicBlockRef entry;
} tcc_emitter;

/* A fresh module named `name`; destroy it in any case. `target` is borrowed for the emitter's life. */
tcc_status tcc_emitter_init(tcc_emitter *e, const tcc_llvm_target *target, const char *name, tcc_diag *diag);
void tcc_emitter_clear(tcc_emitter *e);

/* Verify and optimize the module; call once, after the last kernel. `passes` is a pipeline in LLVM's syntax, NULL for the usual
 * short one. Errors: TCC_EBUG with LLVM's words when a kernel is malformed. */
tcc_status tcc_emitter_finish(tcc_emitter *e, const char *passes);
/* The finished module as a relocatable ELF object in `arena`. */
tcc_status tcc_emitter_object(tcc_emitter *e, tcc_arena *arena, tcc_module *out);
/* The module as LLVM IR or as assembly, for reading. Call the latter before tcc_emitter_object or after; it works on a copy. */
tcc_status tcc_emitter_print_ir(tcc_emitter *e, tcc_strbuf *out);
tcc_status tcc_emitter_print_assembly(tcc_emitter *e, tcc_strbuf *out);

/* --- Kernels. The function has the ABI of tcc_host_kernel and external linkage; the builder stands in its first block. A work
 * item loop over [begin, end) is emitted by tcc_emit_items_begin and closed by tcc_emit_loop_end. */
void tcc_emit_kernel_begin(tcc_emitter *e, const char *symbol);
void tcc_emit_kernel_end(tcc_emitter *e);
/* Pointer to buffer `index` (int8 pointer, aligned to 4 at least), and integer parameter `index`. */
LLVMValueRef tcc_emit_buffer(tcc_emitter *e, int index);
LLVMValueRef tcc_emit_param(tcc_emitter *e, int index);
/* A private function of the module, for code that several places share: arguments and result as given, never inlined. The
 * builder moves into it and back to where it was on tcc_emit_function_end. */
typedef struct tcc_emit_function {
    LLVMValueRef function;
    LLVMTypeRef type;
    LLVMValueRef saved_function;
    LLVMBasicBlockRef saved_block, saved_entry;
} tcc_emit_function;
tcc_emit_function tcc_emit_function_begin(tcc_emitter *e, const char *symbol, LLVMTypeRef result, const LLVMTypeRef *types,
                                          int n_types);
void tcc_emit_function_end(tcc_emitter *e, tcc_emit_function *f, LLVMValueRef result_or_null);
LLVMValueRef tcc_emit_call(tcc_emitter *e, const tcc_emit_function *f, LLVMValueRef *arguments, int n);

/* --- Control. A loop counts i64 `index` from `from` while it is below `to`, and carries values: `carry[i]` is the value inside
 * the body, tcc_emit_loop_end takes the next ones and leaves the final ones in `carry`. A loop whose bounds are constants
 * is known to run or dropped to its initial values. */
typedef struct tcc_emit_loop {
    LLVMValueRef index; /* anchored */
    int n_carry;
    LLVMValueRef carry[TCC_EMIT_MAX_CARRY];
    LLVMValueRef initial[TCC_EMIT_MAX_CARRY], to, step, counter;
    LLVMBasicBlockRef guard, body, exit; /* guard: the block that may skip the loop; NULL when it is known to run */
} tcc_emit_loop;
void tcc_emit_loop_begin(tcc_emitter *e, tcc_emit_loop *loop, LLVMValueRef from, LLVMValueRef to, int64_t step,
                         const LLVMValueRef *initial, int n_carry);
void tcc_emit_loop_end(tcc_emitter *e, tcc_emit_loop *loop, const LLVMValueRef *next);
void tcc_emit_items_begin(tcc_emitter *e, tcc_emit_loop *loop);

typedef struct tcc_emit_if {
    LLVMBasicBlockRef otherwise, join;
    bool has_else;
} tcc_emit_if;
void tcc_emit_if_begin(tcc_emitter *e, tcc_emit_if *branch, LLVMValueRef condition);
void tcc_emit_if_else(tcc_emitter *e, tcc_emit_if *branch);
void tcc_emit_if_end(tcc_emitter *e, tcc_emit_if *branch);

/* --- Constants and types */
LLVMValueRef tcc_emit_i64(tcc_emitter *e, int64_t value);
LLVMValueRef tcc_emit_i32(tcc_emitter *e, int32_t value);
/* A constant of the scalar or vector type `type` (float types: rounded to it; all lanes equal). */
LLVMValueRef tcc_emit_float(tcc_emitter *e, LLVMTypeRef type, double value);
LLVMValueRef tcc_emit_int(tcc_emitter *e, LLVMTypeRef type, int64_t value);
/* `scalar` with the lane count of `like`: the scalar itself, or a vector of it. */
LLVMTypeRef tcc_emit_type_like(tcc_emitter *e, LLVMTypeRef scalar, LLVMTypeRef like);
LLVMTypeRef tcc_emit_vector_type(LLVMTypeRef scalar, int lanes); /* 1 lane: the scalar */
int tcc_emit_lanes_of(LLVMTypeRef type);                         /* 1 for a scalar */
/* The memory type of a dtype: bool is i8. NULL for an unknown one. */
LLVMTypeRef tcc_emit_dtype(tcc_emitter *e, tcc_dtype dtype);
bool tcc_emit_is_constant(LLVMValueRef v, int64_t *value); /* an integer constant */

/* --- Integers: folded when an operand is a constant 0 or 1. */
LLVMValueRef tcc_emit_add(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef tcc_emit_sub(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef tcc_emit_mul(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef tcc_emit_min(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b); /* signed */
/* a / d and a % d of non-negative a by a positive constant d. */
LLVMValueRef tcc_emit_div(tcc_emitter *e, LLVMValueRef a, int64_t d);
LLVMValueRef tcc_emit_rem(tcc_emitter *e, LLVMValueRef a, int64_t d);

/* --- Memory. Pointers are opaque; offsets count elements of `type`'s scalar. Alignments in bytes; 0: the scalar's own. */
LLVMValueRef tcc_emit_at(tcc_emitter *e, LLVMTypeRef scalar, LLVMValueRef base, LLVMValueRef offset);
LLVMValueRef tcc_emit_at_bytes(tcc_emitter *e, LLVMValueRef base, int64_t offset_bytes);
/* The same pointer or i64, but a unit for the optimizer: what is addressed from it by constants stays base plus displacement, and
 * the rewriting of induction variables, which costs half of all compile time and gains nothing here, stops at it. Loop indices are
 * anchored already. */
LLVMValueRef tcc_emit_anchor(tcc_emitter *e, LLVMValueRef value);
LLVMValueRef tcc_emit_load(tcc_emitter *e, LLVMTypeRef type, LLVMValueRef address, int alignment);
void tcc_emit_store(tcc_emitter *e, LLVMValueRef value, LLVMValueRef address, int alignment);
/* Lanes whose mask bit is off read 0 and touch no memory. */
LLVMValueRef tcc_emit_load_masked(tcc_emitter *e, LLVMTypeRef type, LLVMValueRef address, LLVMValueRef mask);
void tcc_emit_store_masked(tcc_emitter *e, LLVMValueRef value, LLVMValueRef address, LLVMValueRef mask);
/* Lane by lane from a vector of pointers. */
LLVMValueRef tcc_emit_gather(tcc_emitter *e, LLVMTypeRef type, LLVMValueRef addresses, LLVMValueRef mask);
void tcc_emit_scatter(tcc_emitter *e, LLVMValueRef value, LLVMValueRef addresses, LLVMValueRef mask);
/* The first `count` (i64 or i32) of `lanes` lanes. */
LLVMValueRef tcc_emit_mask(tcc_emitter *e, int lanes, LLVMValueRef count);
void tcc_emit_prefetch(tcc_emitter *e, LLVMValueRef address, int locality); /* for reading; 3: into L1 ... 0 */
/* Stack space of the current function, 64-byte aligned. */
LLVMValueRef tcc_emit_local(tcc_emitter *e, LLVMTypeRef type, int64_t count);

/* --- Vectors and arithmetic; operands scalar or vector alike. */
LLVMValueRef tcc_emit_splat(tcc_emitter *e, LLVMValueRef scalar, int lanes);
LLVMValueRef tcc_emit_iota(tcc_emitter *e, LLVMTypeRef scalar, int lanes); /* 0, 1, 2 ... */
/* a * b + c with one rounding; with two on a target that has no such instruction (target->fma). */
LLVMValueRef tcc_emit_fma(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
/* An overloaded intrinsic on one type, as in "llvm.fabs": only ones that lower to instructions. */
LLVMValueRef tcc_emit_intrinsic(tcc_emitter *e, const char *name, LLVMTypeRef overload, LLVMValueRef *arguments, int n);
/* Sum or maximum of the lanes, as a balanced tree over halves: a fixed order. NaN: maximum may drop it. */
LLVMValueRef tcc_emit_sum_lanes(tcc_emitter *e, LLVMValueRef vector);
LLVMValueRef tcc_emit_max_lanes(tcc_emitter *e, LLVMValueRef vector);
/* The lanes of a picked by constant indices; from a and b joined if b is not NULL. Index -1: any. */
LLVMValueRef tcc_emit_shuffle(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b, const int *indices, int n);
/* to[i][j] = from[j][i] for i, j below the lane count (f32; strides in elements): `rows` and `columns` (i64, at least 1) of `from`
 * exist. What lies past its last row repeats that row, past its last column is 0. The code is one function of the module. */
void tcc_emit_transpose(tcc_emitter *e, LLVMValueRef from, int64_t from_stride, LLVMValueRef rows, LLVMValueRef columns, LLVMValueRef to,
                        int64_t to_stride);
LLVMValueRef tcc_emit_compare(tcc_emitter *e, LLVMRealPredicate predicate, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef tcc_emit_select(tcc_emitter *e, LLVMValueRef condition, LLVMValueRef yes, LLVMValueRef no);

#endif
