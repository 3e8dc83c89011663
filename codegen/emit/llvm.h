/* SPDX-License-Identifier: MIT
 * The LLVM-C base: one place for LLVM's ownership rules, the target machine, the pass pipeline and object emission, and
 * the emission helpers that every schedule is written with.
 *
 * An emitter is one LLVM module in a context of its own; it may hold many kernels. Emitters share nothing, so that
 * modules can be built in several threads at once. Objects are self-contained: no helper here produces a call out of
 * the module.
 *
 * A schedule uses only kernels, loops, vectors and the functions below; it does not know the target. The differences
 * between targets are one table of functions (functions.h), which host.c and nvptx.c implement. On CUDA a work item is
 * run by a lane group: neighbouring threads that share the lanes of a loop, each with vectors of its own. The host's
 * lane group is one thread. */
#ifndef TCC_CODEGEN_EMIT_LLVM_H
#define TCC_CODEGEN_EMIT_LLVM_H

#include "codegen/program.h"
#include "codegen/target.h"

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include <stdbool.h>

typedef struct tcc_emit_functions tcc_emit_functions;

/* What code is made for. Strings are owned. */
typedef struct tcc_llvm_target {
    tcc_target kind;
    const tcc_emit_functions *functions; /* what it does in its own way (functions.h) */
    bool lane_groups; /* work items are run by lane groups of threads (see below), and vectors are accesses of a thread;
                         else a thread runs an item, and vectors are registers. The one thing that schedules ask. */
    bool aligned_vectors;          /* an access of several elements lies at a multiple of its size */
    char *triple, *cpu, *features; /* cpu and features as LLVM names them */
    char *arch;                    /* CUDA: the architecture that was asked for, "sm_120"; host: NULL */
    int lanes;                     /* f32 lanes of a vector register: 16, 8 or 4; CUDA: of one access of a thread, 4 */
    int registers;                 /* vector registers */
    bool fma;                      /* fused multiply-add in one instruction */
    bool f16;                      /* conversions between f16 and f32 */
    bool checks;         /* host: kernels tell their accesses, to be checked (program.h); TCC_CHECK_ACCESS=1 */
    bool quick;          /* host: LLVM optimizes nothing; in sanitizer builds, which look at other code than kernels */
    int64_t most_narrow; /* the largest index that is computed in 32 bits: INT32_MAX; tests lower it, so that small
                            programs have the code of large ones */
    tcc_hardware hw;
} tcc_llvm_target;

/* The machine we run on. `cpu` NULL: what TCC_CPU says, else all that the machine has; not NULL: an LLVM name
 * ("x86-64-v3") with that CPU's own features. Errors: TCC_EUNSUPPORTED; TCC_EINVAL for a malformed TCC_CPU. */
tcc_status tcc_llvm_target_host(const char *cpu, tcc_diag *diag, tcc_llvm_target *out);
/* A GPU, by the name of its architecture: "sm_75", "sm_90". PTX of the lowest version that has all of it. The figures
 * are those of `hw` that are known, and else of a usual device of the architecture; NULL: all are. Errors:
 * TCC_EUNSUPPORTED with the names that are known. */
tcc_status tcc_llvm_target_cuda(const char *arch, const tcc_hardware *hw, tcc_diag *diag, tcc_llvm_target *out);
void tcc_llvm_target_clear(tcc_llvm_target *t);
/* Of files with its assembly: "ptx", "s". */
const char *tcc_llvm_assembly_suffix(const tcc_llvm_target *target);

/* How threads share the work of a CUDA kernel: blocks of `threads`, in lane groups of `group` threads. `group` is a
 * power of two up to 32, or all threads of the block. If `split` is more than 1, the block is so many lane groups that
 * work on one item together: they share a loop across the lanes. Zeroed on the host. */
typedef struct tcc_thread_shape {
    int threads, group, split;
    int blocks; /* that a processor should hold at once: a bound on registers; 0: as the assembler likes */
} tcc_thread_shape;

enum { TCC_EMIT_MAX_CARRY = 64, TCC_EMIT_MAX_BUFFERS = 64 };

int tcc_shape_items(tcc_thread_shape shape); /* items a block runs side by side */

/* What a CUDA kernel's signature and thread indices are made from; set before tcc_emit_kernel_begin. */
typedef struct tcc_emit_entry {
    tcc_thread_shape shape;
    int n_buffers, n_params;
    int64_t scratch_bytes; /* shared memory of a lane group */
    bool table;            /* the entry for several instances */
} tcc_emit_entry;

typedef struct tcc_emitter {
    const tcc_llvm_target *target; /* borrowed */
    tcc_diag *diag;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMTargetMachineRef machine;
    LLVMTypeRef void_, i1, i8, i16, i32, i64, f16, f32, f64, ptr;
    LLVMTypeRef vf32, vi32, vi1; /* a full vector: target->lanes lanes */
    int lanes;
    tcc_status status; /* the first thing that went wrong inside LLVM; reported by tcc_emitter_finish */
    /* the kernel being emitted */
    LLVMValueRef function;
    LLVMValueRef buffers, params, begin, end, scratch; /* its arguments */
    LLVMBasicBlockRef entry;
    bool few_roundings; /* to bf16: each may have a branch; tcc_emit_kernel_begin clears it */
    int tile_rows[8];   /* as tiles were begun */
    /* CUDA */
    tcc_emit_entry shape;
    LLVMValueRef thread,
        group;          /* index in the lane group, i64; index of the lane group in the block; NULL on the host */
    LLVMValueRef split; /* index of the lane group among those of its item, or NULL */
    LLVMValueRef row;   /* the instance's row of the table, or NULL */
    bool shared_reused; /* an item leaves values in shared memory that others of the block may still read */
} tcc_emitter;

/* A fresh module named `name`; destroy it in any case. `target` is borrowed for the emitter's life. */
tcc_status tcc_emitter_init(tcc_emitter *e, const tcc_llvm_target *target, const char *name, tcc_diag *diag);
void tcc_emitter_clear(tcc_emitter *e);

/* Verify and optimize the module; call once, after the last kernel. `passes` is a pipeline in LLVM's syntax, NULL for
 * the usual short one. Errors: TCC_EBUG with LLVM's words when a kernel is malformed. */
tcc_status tcc_emitter_finish(tcc_emitter *e, const char *passes);
/* The finished module in `arena`: a relocatable ELF object, or PTX text with a NUL at its end (counted). */
tcc_status tcc_emitter_object(tcc_emitter *e, tcc_arena *arena, tcc_module *out);
/* The module as LLVM IR or as assembly, for reading. Call the latter before tcc_emitter_object or after; it works on a
 * copy. */
tcc_status tcc_emitter_print_ir(tcc_emitter *e, tcc_strbuf *out);
tcc_status tcc_emitter_print_assembly(tcc_emitter *e, tcc_strbuf *out);

/* --- Kernels. The function has the ABI of tcc_host_kernel and external linkage; the builder is in its first block.
 * A work item loop over [begin, end) is emitted by tcc_emit_items_begin and closed by tcc_emit_loop_end. */
void tcc_emit_kernel_begin(tcc_emitter *e, const char *symbol);
void tcc_emit_kernel_end(tcc_emitter *e);
/* Pointer to buffer `index` (int8 pointer, aligned to 4 at least), and integer parameter `index`. */
LLVMValueRef tcc_emit_buffer(tcc_emitter *e, int index);
LLVMValueRef tcc_emit_param(tcc_emitter *e, int index);
/* A private function of the module, for code that several places share: arguments and result as given, never inlined.
 * The builder moves into it and back to where it was on tcc_emit_function_end. */
typedef struct tcc_emit_function {
    LLVMValueRef function;
    LLVMTypeRef type;
    LLVMValueRef saved_function;
    LLVMBasicBlockRef saved_block, saved_entry;
} tcc_emit_function;
tcc_emit_function tcc_emit_function_begin(tcc_emitter *e, const char *symbol, LLVMTypeRef result,
                                          const LLVMTypeRef *types, int n_types);
void tcc_emit_function_end(tcc_emitter *e, tcc_emit_function *f, LLVMValueRef result_or_null);
LLVMValueRef tcc_emit_call(tcc_emitter *e, const tcc_emit_function *f, LLVMValueRef *arguments, int n);

/* --- Control. A loop counts i64 `index` from `from` while it is below `to`, and carries values: `carry[i]` is the
 * value inside the body, tcc_emit_loop_end takes the next ones and leaves the final ones in `carry`. A loop whose
 * bounds are constants is known to run or dropped to its initial values. */
typedef struct tcc_emit_loop {
    LLVMValueRef index; /* anchored */
    int n_carry;
    LLVMValueRef carry[TCC_EMIT_MAX_CARRY];
    LLVMValueRef initial[TCC_EMIT_MAX_CARRY], to, step, counter;
    LLVMBasicBlockRef guard, body, exit; /* guard: the block that may skip the loop; NULL when it is known to run */
    bool once;                           /* it runs at most once */
    bool narrow;                         /* it counts in 32 bits: CUDA, where `to` and the step are known to fit */
    bool items;                          /* of work items */
} tcc_emit_loop;
void tcc_emit_loop_begin(tcc_emitter *e, tcc_emit_loop *loop, LLVMValueRef from, LLVMValueRef to, int64_t step,
                         const LLVMValueRef *initial, int n_carry);
/* The same with a step that is known only at run time. */
void tcc_emit_loop_begin_by(tcc_emitter *e, tcc_emit_loop *loop, LLVMValueRef from, LLVMValueRef to, LLVMValueRef step,
                            const LLVMValueRef *initial, int n_carry);
void tcc_emit_loop_end(tcc_emitter *e, tcc_emit_loop *loop, const LLVMValueRef *next);
void tcc_emit_items_begin(tcc_emitter *e, tcc_emit_loop *loop);

typedef struct tcc_emit_if {
    LLVMBasicBlockRef otherwise, join, then_end; /* NULL join: nothing was begun */
    bool has_else;
} tcc_emit_if;
void tcc_emit_if_begin(tcc_emitter *e, tcc_emit_if *branch, LLVMValueRef condition);
void tcc_emit_if_else(tcc_emitter *e, tcc_emit_if *branch);
void tcc_emit_if_end(tcc_emitter *e, tcc_emit_if *branch);
/* After the end of a branch without else: `value` from inside it, or `other` where it was not taken. */
LLVMValueRef tcc_emit_if_value(tcc_emitter *e, tcc_emit_if *branch, LLVMValueRef value, LLVMValueRef other);

/* --- Lane groups. A loop whose lanes the group shares: vectors of `lanes` elements, one after the other over its
 * threads. `index` is the first element of the thread's own vector. `lanes` divides from and to on CUDA, so that a
 * vector is wholly inside or outside. */
void tcc_emit_lane_loop_begin(tcc_emitter *e, tcc_emit_loop *loop, LLVMValueRef from, LLVMValueRef to, int lanes,
                              const LLVMValueRef *initial, int n_carry);
/* Lanes of all threads of the group together, for vectors of `lanes`. */
int tcc_emit_group_lanes(const tcc_emitter *e, int lanes);
/* Lanes from loop.index to `to` that exist in a vector of `lanes`; NULL: all of them do. */
LLVMValueRef tcc_emit_tail_mask(tcc_emitter *e, int lanes, LLVMValueRef to, LLVMValueRef index);
/* Where whole vectors from a multiple of `lanes` up to `to` end; what is left is a loop of single lanes. The host
 * masks: `to` itself. */
LLVMValueRef tcc_emit_vectors_end(tcc_emitter *e, LLVMValueRef to, int lanes);
/* What follows is done once for an item: by one thread of the lane group, or, if `lanes`, by all threads of one lane
 * group. */
void tcc_emit_leader_begin(tcc_emitter *e, tcc_emit_if *branch, bool lanes);
void tcc_emit_leader_end(tcc_emitter *e, tcc_emit_if *branch);
/* A loop that the lane groups of an item share; each takes every split-th step. */
void tcc_emit_split_loop_begin(tcc_emitter *e, tcc_emit_loop *loop, LLVMValueRef from, LLVMValueRef to,
                               const LLVMValueRef *initial, int n_carry);
/* Shared memory in which the `split` lane groups of an item give each other values like these n: each thread has a
 * place of its own, which the same thread of another group reads behind a barrier. `values` get what is read. */
void tcc_emit_split_arrays(tcc_emitter *e, const LLVMValueRef *values, int n, LLVMValueRef *arrays);
void tcc_emit_split_put(tcc_emitter *e, const LLVMValueRef *arrays, const LLVMValueRef *values, int n);
void tcc_emit_split_get(tcc_emitter *e, const LLVMValueRef *arrays, LLVMValueRef group, LLVMValueRef *values, int n);

enum { TCC_EMIT_WARP = 32 };
/* The value of the thread whose index in the group differs in `bit`, at most half a warp away. i1, i32, i64, f32 or
 * f64. */
LLVMValueRef tcc_emit_exchange(tcc_emitter *e, LLVMValueRef value, int bit);
/* The value of the group's first thread, which lies in the same warp. */
LLVMValueRef tcc_emit_first_thread(tcc_emitter *e, LLVMValueRef value);
/* The value of the thread `distance` before this one in its warp's part of the group, at most half a warp; its own
 * where there is none. */
LLVMValueRef tcc_emit_from_before(tcc_emitter *e, LLVMValueRef value, int distance);
/* The values of the last threads of the group's warps, in all threads; of the group's last thread, if it is less than a
 * warp. A barrier must follow before the next such call at the same place. */
void tcc_emit_last_threads(tcc_emitter *e, LLVMValueRef value, LLVMValueRef *all);
/* Where the group has several warps: one value a warp, from its first thread, n kinds of them; afterwards every thread
 * has in values[k] warp number (thread % warps)'s. */
void tcc_emit_gather_warps(tcc_emitter *e, LLVMValueRef *values, int n);
void tcc_emit_barrier(tcc_emitter *e); /* of the block */
/* Of a warp that is one lane group: what its threads wrote is seen by all of them; a bit for each thread that has this
 * one's key (i32). */
void tcc_emit_warp_barrier(tcc_emitter *e);
LLVMValueRef tcc_emit_match(tcc_emitter *e, LLVMValueRef key);
/* A bit for each thread of a warp that is one lane group: its condition. i32 */
LLVMValueRef tcc_emit_ballot(tcc_emitter *e, LLVMValueRef condition);

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
/* The memory type of a dtype: bool is i8; f16 and bf16 are i16, the type of their bits, which every target has. NULL
 * for an unknown one. */
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
/* The same of all lanes of a vector of i64, or of numbers of another width, which lie in [low, high]. */
LLVMValueRef tcc_emit_div_lanes(tcc_emitter *e, LLVMValueRef a, int64_t d, int64_t low, int64_t high);
LLVMValueRef tcc_emit_rem_lanes(tcc_emitter *e, LLVMValueRef a, int64_t d, int64_t low, int64_t high);
/* v, which is known to lie in [0, high]: on CUDA, if that fits, from 32-bit arithmetic. */
LLVMValueRef tcc_emit_within(tcc_emitter *e, LLVMValueRef v, int64_t high);
/* The same of [low, high], with what is constant added at the end, so that it can become a displacement. `reach`: no
 * partial sum or product of v is further from 0; if that is small too, loops may replace products by steps. */
LLVMValueRef tcc_emit_offset(tcc_emitter *e, LLVMValueRef v, int64_t low, int64_t high, int64_t reach);
/* CUDA: the i32 that v is without its upper half, if that is known to be 0; else NULL. */
LLVMValueRef tcc_emit_narrow(tcc_emitter *e, LLVMValueRef v);

/* --- Memory. Pointers are opaque; offsets count elements of `type`'s scalar. Alignments in bytes; 0: the scalar's own.
 */
LLVMValueRef tcc_emit_at(tcc_emitter *e, LLVMTypeRef scalar, LLVMValueRef base, LLVMValueRef offset);
LLVMValueRef tcc_emit_at_bytes(tcc_emitter *e, LLVMValueRef base, int64_t offset_bytes);
/* The same pointer, i64 or vector of a register's size, but a unit for the optimizer: what is addressed from it by
 * constants stays base plus displacement, and the rewriting of induction variables, which costs half of all compile
 * time and gains nothing here, stops at it; so does the search for better shuffles. Loop indices are anchored
 * already. */
LLVMValueRef tcc_emit_anchor(tcc_emitter *e, LLVMValueRef value);
LLVMValueRef tcc_emit_load(tcc_emitter *e, LLVMTypeRef type, LLVMValueRef address, int alignment);
void tcc_emit_store(tcc_emitter *e, LLVMValueRef value, LLVMValueRef address, int alignment);
/* To memory at once, so that the line is not read first: for what nobody reads until the caches hold other things. The
 * address is a multiple of the value's size. The fence, after such stores, lets other threads see them. */
void tcc_emit_store_past_caches(tcc_emitter *e, LLVMValueRef value, LLVMValueRef address);
void tcc_emit_fence(tcc_emitter *e);
/* Lanes whose mask bit is off read 0 and touch no memory. */
LLVMValueRef tcc_emit_load_masked(tcc_emitter *e, LLVMTypeRef type, LLVMValueRef address, LLVMValueRef mask);
void tcc_emit_store_masked(tcc_emitter *e, LLVMValueRef value, LLVMValueRef address, LLVMValueRef mask);
/* Lane by lane from a vector of pointers. */
LLVMValueRef tcc_emit_gather(tcc_emitter *e, LLVMTypeRef type, LLVMValueRef addresses, LLVMValueRef mask);
void tcc_emit_scatter(tcc_emitter *e, LLVMValueRef value, LLVMValueRef addresses, LLVMValueRef mask);
/* The same at base + offsets, in elements; NULL: all lanes. */
LLVMValueRef tcc_emit_gather_at(tcc_emitter *e, LLVMTypeRef scalar, LLVMValueRef base, LLVMValueRef offsets,
                                LLVMValueRef mask);
void tcc_emit_scatter_at(tcc_emitter *e, LLVMValueRef value, LLVMValueRef base, LLVMValueRef offsets,
                         LLVMValueRef mask);
/* One element, or 0 where the condition is false; base[0] exists. */
LLVMValueRef tcc_emit_load_if(tcc_emitter *e, LLVMTypeRef scalar, LLVMValueRef base, LLVMValueRef offset,
                              LLVMValueRef condition);
/* A whole vector where the condition (i1) is true, else zeros. */
LLVMValueRef tcc_emit_load_lanes_if(tcc_emitter *e, LLVMTypeRef type, LLVMValueRef base, LLVMValueRef offset,
                                    int alignment, LLVMValueRef condition);
/* The first `count` (i64 or i32) of `lanes` lanes. */
LLVMValueRef tcc_emit_mask(tcc_emitter *e, int lanes, LLVMValueRef count);
void tcc_emit_prefetch(tcc_emitter *e, LLVMValueRef address, int locality); /* for reading; 3: into L1 ... 0 */
void tcc_emit_prefetch_to_store(tcc_emitter *e, LLVMValueRef address);
/* Stack space of the current function, 64-byte aligned. */
LLVMValueRef tcc_emit_local(tcc_emitter *e, LLVMTypeRef type, int64_t count);

/* --- Vectors and arithmetic; operands scalar or vector alike. */
LLVMValueRef tcc_emit_splat(tcc_emitter *e, LLVMValueRef scalar, int lanes);
LLVMValueRef tcc_emit_iota(tcc_emitter *e, LLVMTypeRef scalar, int lanes); /* 0, 1, 2 ... */
/* a * b + c with one rounding; with two on a target that has no such instruction (target->fma). */
LLVMValueRef tcc_emit_fma(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
/* An intrinsic that is overloaded on one type, as "llvm.fabs" is, or on none (`overload` NULL): only ones that lower to
 * instructions. */
LLVMValueRef tcc_emit_intrinsic(tcc_emitter *e, const char *name, LLVMTypeRef overload, LLVMValueRef *arguments, int n);
/* Sum or maximum of the lanes, as a balanced tree over halves: a fixed order. NaN: maximum may drop it. */
LLVMValueRef tcc_emit_sum_lanes(tcc_emitter *e, LLVMValueRef vector);
LLVMValueRef tcc_emit_max_lanes(tcc_emitter *e, LLVMValueRef vector);
/* The lanes of a picked by constant indices; from a and b joined if b is not NULL. Index -1: any. */
LLVMValueRef tcc_emit_shuffle(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b, const int *indices, int n);
/* `lanes` vectors of so many lanes: rows become columns. */
void tcc_emit_transpose_vectors(tcc_emitter *e, LLVMValueRef *rows, int lanes);
/* to[i][j] = from[j][i] for i, j below the lane count (f32; strides in elements): `rows` and `columns` (i64, at least
 * 1) of `from` exist. What lies past its last row repeats that row, past its last column is 0. The code is one function
 * of the module. */
void tcc_emit_transpose(tcc_emitter *e, LLVMValueRef from, int64_t from_stride, LLVMValueRef rows, LLVMValueRef columns,
                        LLVMValueRef to, int64_t to_stride);
/* The same of other memory: `line` gives its row i as a vector of f32, or of other 32 bits. `name`: of the function. */
typedef struct tcc_emit_square {
    LLVMValueRef from, stride, rows, columns;
    LLVMValueRef mask; /* the first `columns` lanes */
} tcc_emit_square;
typedef LLVMValueRef (*tcc_emit_line)(tcc_emitter *e, const tcc_emit_square *s, int i);
void tcc_emit_transpose_lines(tcc_emitter *e, const char *name, tcc_emit_line line, LLVMValueRef from,
                              int64_t from_stride, LLVMValueRef rows, LLVMValueRef columns, LLVMValueRef to,
                              int64_t to_stride);

/* The nearest value of bf16, denormals and all, to a result of arithmetic in f32. */
LLVMValueRef tcc_emit_round_bf16(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_emit_cast_bf16(tcc_emitter *e, LLVMValueRef x); /* to any f32, whose NaN may be a signalling one */
LLVMValueRef tcc_emit_round_by_integers(tcc_emitter *e, LLVMValueRef x); /* the same, without instructions for it */

/* --- Products of bf16, where the target's figures say that it has them (target.h). Sums are f32. */
/* sums + a0 b0 + a1 b1 in each lane: a and b are vectors of 32 bits, two bf16 each. */
LLVMValueRef tcc_emit_multiply_pairs(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sums);
/* Two vectors of f32 as one of bf16, as i16: `low` first. To nearest even, denormals to 0; with AVX512-BF16 alone
 * (target->hw.fma_bf16_pairs). */
LLVMValueRef tcc_emit_round_pairs(tcc_emitter *e, LLVMValueRef low, LLVMValueRef high);
/* Tiles are registers of up to 16 rows x 64 bytes, by number. Begin sets the rows of each (0: it is not used); what
 * follows up to the end may use them. A row of A is 32 of k, a row of B two of k for each of 16 columns. */
enum { TCC_EMIT_TILES = 8, TCC_EMIT_TILE_ROWS = 16 };
void tcc_emit_tiles_begin(tcc_emitter *e, const int rows[TCC_EMIT_TILES]);
void tcc_emit_tiles_end(tcc_emitter *e);
void tcc_emit_tile_zero(tcc_emitter *e, int tile);
void tcc_emit_tile_load(tcc_emitter *e, int tile, LLVMValueRef address, int64_t row_bytes);
void tcc_emit_tile_store(tcc_emitter *e, int tile, LLVMValueRef address, int64_t row_bytes);
void tcc_emit_tile_multiply(tcc_emitter *e, int sums, int a, int b); /* sums += a b */

LLVMValueRef tcc_emit_compare(tcc_emitter *e, LLVMRealPredicate predicate, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef tcc_emit_select(tcc_emitter *e, LLVMValueRef condition, LLVMValueRef yes, LLVMValueRef no);

#endif
