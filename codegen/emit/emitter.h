/* SPDX-License-Identifier: MIT
 * The emitter: one place for LLVM's ownership rules, the target machine, the pass pipeline and object emission, and the
 * functions that every schedule is written with. No file outside of this folder sees LLVM's headers.
 *
 * An emitter is one LLVM module in a context of its own; it may hold many kernels. Emitters share nothing, so that
 * modules can be built in several threads at once. Objects are self-contained: no helper here produces a call out of
 * the module.
 *
 * A schedule uses only kernels, loops, vectors and the functions below; it does not know the target. The differences
 * between targets are one table of functions (functions.h), which host.c and nvptx.c implement. On CUDA a work item is
 * run by a lane group: neighbouring threads that share the lanes of a loop, each with vectors of its own. The host's
 * lane group is one thread. */
#ifndef TCC_CODEGEN_EMIT_EMITTER_H
#define TCC_CODEGEN_EMIT_EMITTER_H

#include "codegen/program.h"
#include "ir/support/costs.h"

#include <stdbool.h>

/* Emitted values, their types, and basic blocks. They are LLVM's; only the files of the emitter include its headers. */
typedef struct LLVMOpaqueValue *tcc_emit_value;
typedef struct LLVMOpaqueType *tcc_emit_type;
typedef struct LLVMOpaqueBasicBlock *tcc_emit_block;

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
    tcc_costs costs;
} tcc_llvm_target;

/* The machine we run on. `cpu` NULL: what TCC_CPU says, else all that the machine has; not NULL: an LLVM name
 * ("x86-64-v3") with that CPU's own features. Errors: TCC_EUNSUPPORTED; TCC_EINVAL for a malformed TCC_CPU. */
tcc_status tcc_llvm_target_host(const char *cpu, tcc_diag *diag, tcc_llvm_target *out);
/* What a host's triple and features say of it, whatever the name of its CPU: vectors, registers, units. */
void tcc_llvm_target_of_features(tcc_llvm_target *t);
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
    struct LLVMOpaqueContext *context;
    struct LLVMOpaqueModule *module;
    struct LLVMOpaqueBuilder *builder;
    struct LLVMOpaqueTargetMachine *machine;
    tcc_emit_type void_, i1, i8, i16, i32, i64, f16, f32, f64, ptr;
    tcc_emit_type vf32, vi32, vi1; /* a full vector: target->lanes lanes */
    int lanes;
    tcc_status status; /* the first thing that went wrong inside LLVM; reported by tcc_emitter_finish */
    /* the kernel being emitted */
    tcc_emit_value function;
    tcc_emit_value buffers, params, begin, end, scratch; /* its arguments */
    tcc_emit_block entry;
    bool past_caches;   /* something was stored so: tcc_emit_kernel_end puts a fence behind it */
    bool few_roundings; /* to bf16: each may have a branch; tcc_emit_kernel_begin clears it */
    int tile_rows[8];   /* as tiles were begun */
    tcc_emit_value vector_on_stack, vector_function; /* room for a vector (mask_host.c), and whose it is */
    /* CUDA */
    tcc_emit_entry shape;
    tcc_emit_value thread,
        group;            /* index in the lane group, i64; index of the lane group in the block; NULL on the host */
    tcc_emit_value split; /* index of the lane group among those of its item, or NULL */
    tcc_emit_value row;   /* the instance's row of the table, or NULL */
    bool shared_reused;   /* an item leaves values in shared memory that others of the block may still read */
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
tcc_emit_value tcc_emit_buffer(tcc_emitter *e, int index);
tcc_emit_value tcc_emit_param(tcc_emitter *e, int index);
/* A private function of the module, for code that several places share: arguments and result as given, never inlined.
 * The builder moves into it and back to where it was on tcc_emit_function_end. */
typedef struct tcc_emit_function {
    tcc_emit_value function;
    tcc_emit_type type;
    tcc_emit_value saved_function;
    tcc_emit_block saved_block, saved_entry;
} tcc_emit_function;
tcc_emit_function tcc_emit_function_begin(tcc_emitter *e, const char *symbol, tcc_emit_type result,
                                          const tcc_emit_type *types, int n_types);
void tcc_emit_function_end(tcc_emitter *e, tcc_emit_function *f, tcc_emit_value result_or_null);
tcc_emit_value tcc_emit_argument(const tcc_emit_function *f, int index);
/* Whether the module has a function of that name. */
bool tcc_emit_function_find(tcc_emitter *e, const char *symbol, tcc_emit_function *f);
tcc_emit_value tcc_emit_call(tcc_emitter *e, const tcc_emit_function *f, tcc_emit_value *arguments, int n);

/* --- Control. A loop counts i64 `index` from `from` while it is below `to`, and carries values: `carry[i]` is the
 * value inside the body, tcc_emit_loop_end takes the next ones and leaves the final ones in `carry`. A loop whose
 * bounds are constants is known to run or dropped to its initial values. */
typedef struct tcc_emit_loop {
    tcc_emit_value index; /* anchored on the host, and where it counts a GPU's items */
    int n_carry;
    tcc_emit_value carry[TCC_EMIT_MAX_CARRY];
    tcc_emit_value initial[TCC_EMIT_MAX_CARRY], to, step, counter;
    tcc_emit_block guard, body, exit; /* guard: the block that may skip the loop; NULL when it is known to run */
    bool once;                        /* it runs at most once */
    bool narrow;                      /* it counts in 32 bits: CUDA, where `to` and the step are known to fit */
    bool items;                       /* of work items */
} tcc_emit_loop;
void tcc_emit_loop_begin(tcc_emitter *e, tcc_emit_loop *loop, tcc_emit_value from, tcc_emit_value to, int64_t step,
                         const tcc_emit_value *initial, int n_carry);
/* The same with a step that is known only at run time. */
void tcc_emit_loop_begin_by(tcc_emitter *e, tcc_emit_loop *loop, tcc_emit_value from, tcc_emit_value to,
                            tcc_emit_value step, const tcc_emit_value *initial, int n_carry);
void tcc_emit_loop_end(tcc_emitter *e, tcc_emit_loop *loop, const tcc_emit_value *next);
void tcc_emit_items_begin(tcc_emitter *e, tcc_emit_loop *loop);

typedef struct tcc_emit_if {
    tcc_emit_block otherwise, join, then_end; /* NULL join: nothing was begun */
    bool has_else;
} tcc_emit_if;
void tcc_emit_if_begin(tcc_emitter *e, tcc_emit_if *branch, tcc_emit_value condition);
void tcc_emit_if_else(tcc_emitter *e, tcc_emit_if *branch);
void tcc_emit_if_end(tcc_emitter *e, tcc_emit_if *branch);
/* The block that is being filled, and, at the head of a block that n others end in, the value that comes from there. */
tcc_emit_block tcc_emit_current_block(tcc_emitter *e);
tcc_emit_value tcc_emit_phi(tcc_emitter *e, tcc_emit_value *values, tcc_emit_block *from, int n);
/* After the end of a branch without else: `value` from inside it, or `other` where it was not taken. */
tcc_emit_value tcc_emit_if_value(tcc_emitter *e, tcc_emit_if *branch, tcc_emit_value value, tcc_emit_value other);

/* --- Lane groups. A loop whose lanes the group shares: vectors of `lanes` elements, one after the other over its
 * threads. `index` is the first element of the thread's own vector. `lanes` divides from and to on CUDA, so that a
 * vector is wholly inside or outside. */
void tcc_emit_lane_loop_begin(tcc_emitter *e, tcc_emit_loop *loop, tcc_emit_value from, tcc_emit_value to, int lanes,
                              const tcc_emit_value *initial, int n_carry);
/* Lanes of all threads of the group together, for vectors of `lanes`. */
int tcc_emit_group_lanes(const tcc_emitter *e, int lanes);
/* Lanes from loop.index to `to` that exist in a vector of `lanes`; NULL: all of them do. */
tcc_emit_value tcc_emit_tail_mask(tcc_emitter *e, int lanes, tcc_emit_value to, tcc_emit_value index);
/* Where whole vectors from a multiple of `lanes` up to `to` end; what is left is a loop of single lanes. The host
 * masks: `to` itself. */
tcc_emit_value tcc_emit_vectors_end(tcc_emitter *e, tcc_emit_value to, int lanes);
/* What follows is done once for an item: by one thread of the lane group, or, if `lanes`, by all threads of one lane
 * group. */
void tcc_emit_leader_begin(tcc_emitter *e, tcc_emit_if *branch, bool lanes);
void tcc_emit_leader_end(tcc_emitter *e, tcc_emit_if *branch);
/* A loop that the lane groups of an item share; each takes every split-th step. */
void tcc_emit_split_loop_begin(tcc_emitter *e, tcc_emit_loop *loop, tcc_emit_value from, tcc_emit_value to,
                               const tcc_emit_value *initial, int n_carry);
/* Shared memory in which the `split` lane groups of an item give each other values like these n: each thread has a
 * place of its own, which the same thread of another group reads behind a barrier. `values` get what is read. */
void tcc_emit_split_arrays(tcc_emitter *e, const tcc_emit_value *values, int n, tcc_emit_value *arrays);
void tcc_emit_split_put(tcc_emitter *e, const tcc_emit_value *arrays, const tcc_emit_value *values, int n);
void tcc_emit_split_get(tcc_emitter *e, const tcc_emit_value *arrays, tcc_emit_value group, tcc_emit_value *values,
                        int n);

enum { TCC_EMIT_WARP = 32 };
/* The value of the thread whose index in the group differs in `bit`, at most half a warp away. i1, i32, i64, f32 or
 * f64. */
tcc_emit_value tcc_emit_exchange(tcc_emitter *e, tcc_emit_value value, int bit);
/* The value of the group's first thread, which lies in the same warp. */
tcc_emit_value tcc_emit_first_thread(tcc_emitter *e, tcc_emit_value value);
/* The value of the thread `distance` before this one in its warp's part of the group, or behind it, at most half a
 * warp; its own where there is none. */
tcc_emit_value tcc_emit_from_before(tcc_emitter *e, tcc_emit_value value, int distance);
tcc_emit_value tcc_emit_from_after(tcc_emitter *e, tcc_emit_value value, int distance);
/* The values of the last threads of the group's warps, or of the first ones, in all threads; of that thread of the
 * group, if it is less than a warp. A barrier must follow before the next such call at the same place. */
void tcc_emit_end_threads(tcc_emitter *e, tcc_emit_value value, bool first, tcc_emit_value *all);
/* The value of the group's thread behind this one, or before it; some thread's where there is none. Of several warps a
 * barrier must follow, as above. */
tcc_emit_value tcc_emit_neighbour(tcc_emitter *e, tcc_emit_value value, bool after);
/* Where the group has several warps: one value a warp, from its first thread, n kinds of them; afterwards every thread
 * has in values[k] warp number (thread % warps)'s. */
void tcc_emit_gather_warps(tcc_emitter *e, tcc_emit_value *values, int n);
void tcc_emit_barrier(tcc_emitter *e); /* of the block */
/* Of a warp that is one lane group: what its threads wrote is seen by all of them; a bit for each thread that has this
 * one's key (i32). */
void tcc_emit_warp_barrier(tcc_emitter *e);
tcc_emit_value tcc_emit_match(tcc_emitter *e, tcc_emit_value key);
/* A bit for each thread of a warp that is one lane group: its condition. i32 */
tcc_emit_value tcc_emit_ballot(tcc_emitter *e, tcc_emit_value condition);

/* --- Constants and types */
tcc_emit_value tcc_emit_i64(tcc_emitter *e, int64_t value);
tcc_emit_value tcc_emit_i32(tcc_emitter *e, int32_t value);
/* A constant of the scalar or vector type `type` (float types: rounded to it; all lanes equal). */
tcc_emit_value tcc_emit_float(tcc_emitter *e, tcc_emit_type type, double value);
tcc_emit_value tcc_emit_int(tcc_emitter *e, tcc_emit_type type, int64_t value);
/* `scalar` with the lane count of `like`: the scalar itself, or a vector of it. */
tcc_emit_type tcc_emit_type_like(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_type like);
tcc_emit_type tcc_emit_vector_type(tcc_emit_type scalar, int lanes); /* 1 lane: the scalar */
tcc_emit_type tcc_emit_scalar_of(tcc_emit_type type);                /* of a vector's lanes; else the type */
tcc_emit_type tcc_emit_type_of(tcc_emit_value v);
bool tcc_emit_is_float(tcc_emit_type type);                            /* or a vector of floats */
int tcc_emit_bits_of(tcc_emit_type type);                              /* of an integer, or of a vector's lane */
int tcc_emit_type_bytes(tcc_emitter *e, tcc_emit_type type);           /* in memory, with what follows in an array */
tcc_emit_value tcc_emit_null(tcc_emit_type type);                      /* all bits 0 */
tcc_emit_value tcc_emit_poison(tcc_emit_type type);                    /* no value in particular */
tcc_emit_value tcc_emit_constants(tcc_emit_value *scalars, int lanes); /* a vector of them, which are constant */
int tcc_emit_lanes_of(tcc_emit_type type);                             /* 1 for a scalar */
/* The memory type of a dtype: bool is i8; f16 and bf16 are i16, the type of their bits, which every target has. NULL
 * for an unknown one. */
tcc_emit_type tcc_emit_dtype(tcc_emitter *e, tcc_dtype dtype);
bool tcc_emit_is_constant(tcc_emit_value v, int64_t *value); /* an integer constant */

/* --- Integers: folded when an operand is a constant 0 or 1. */
tcc_emit_value tcc_emit_add(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b);
tcc_emit_value tcc_emit_sub(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b);
tcc_emit_value tcc_emit_mul(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b);
tcc_emit_value tcc_emit_min(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b); /* signed */
tcc_emit_value tcc_emit_max(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b);
/* a / d and a % d of non-negative a by a positive constant d. */
tcc_emit_value tcc_emit_div(tcc_emitter *e, tcc_emit_value a, int64_t d);
tcc_emit_value tcc_emit_rem(tcc_emitter *e, tcc_emit_value a, int64_t d);
/* The same of all lanes of a vector of i64, or of numbers of another width, which lie in [low, high]. */
tcc_emit_value tcc_emit_div_lanes(tcc_emitter *e, tcc_emit_value a, int64_t d, int64_t low, int64_t high);
tcc_emit_value tcc_emit_rem_lanes(tcc_emitter *e, tcc_emit_value a, int64_t d, int64_t low, int64_t high);
/* v, which is known to lie in [0, high]: on CUDA, if that fits, from 32-bit arithmetic. */
tcc_emit_value tcc_emit_within(tcc_emitter *e, tcc_emit_value v, int64_t high);
/* The same of [low, high], with what is constant added at the end, so that it can become a displacement. `reach`: no
 * partial sum or product of v is further from 0; if that is small too, loops may replace products by steps. */
tcc_emit_value tcc_emit_offset(tcc_emitter *e, tcc_emit_value v, int64_t low, int64_t high, int64_t reach);
/* CUDA: the i32 that v is without its upper half, if that is known to be 0; else NULL. */
tcc_emit_value tcc_emit_narrow(tcc_emitter *e, tcc_emit_value v);

/* --- Memory. Pointers are opaque; offsets count elements of `type`'s scalar. Alignments in bytes; 0: the scalar's own.
 */
tcc_emit_value tcc_emit_at(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offset);
/* The same with one offset, or a vector of them, taken as it is: no alignment is known. */
tcc_emit_value tcc_emit_element(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offset);
tcc_emit_value tcc_emit_at_bytes(tcc_emitter *e, tcc_emit_value base, int64_t offset_bytes);
/* The same pointer, i64 or vector of a register's size, but a unit for the optimizer: what is addressed from it by
 * constants stays base plus displacement, and the rewriting of induction variables, which costs half of all compile
 * time and gains nothing here, stops at it; so does the search for better shuffles. Loop indices are anchored
 * already. On a GPU, of an index alone. */
tcc_emit_value tcc_emit_anchor(tcc_emitter *e, tcc_emit_value value);
tcc_emit_value tcc_emit_load(tcc_emitter *e, tcc_emit_type type, tcc_emit_value address, int alignment);
void tcc_emit_store(tcc_emitter *e, tcc_emit_value value, tcc_emit_value address, int alignment);
/* To memory at once, so that the line is not read first: for what nobody reads until the caches hold other things. The
 * address is a multiple of the value's size. The fence, after such stores, lets other threads see them. */
void tcc_emit_store_past_caches(tcc_emitter *e, tcc_emit_value value, tcc_emit_value address);
void tcc_emit_fence(tcc_emitter *e);
/* Lanes whose mask bit is off read 0 and touch no memory. */
tcc_emit_value tcc_emit_load_masked(tcc_emitter *e, tcc_emit_type type, tcc_emit_value address, tcc_emit_value mask);
void tcc_emit_store_masked(tcc_emitter *e, tcc_emit_value value, tcc_emit_value address, tcc_emit_value mask);
/* Elements that are `stride` apart, from an address on. NULL: all lanes. Of the host alone. */
tcc_emit_value tcc_emit_load_strided(tcc_emitter *e, tcc_emit_type type, tcc_emit_value address, int stride,
                                     tcc_emit_value mask);
/* One element in all lanes that want it, 0 in the others. `there`: it may be read if no lane wants it. */
tcc_emit_value tcc_emit_load_one(tcc_emitter *e, tcc_emit_type type, tcc_emit_value base, tcc_emit_value offset,
                                 bool there, tcc_emit_value mask);
/* Lane by lane from a vector of pointers. */
tcc_emit_value tcc_emit_gather(tcc_emitter *e, tcc_emit_type type, tcc_emit_value addresses, tcc_emit_value mask);
void tcc_emit_scatter(tcc_emitter *e, tcc_emit_value value, tcc_emit_value addresses, tcc_emit_value mask);
/* The same at base + offsets, in elements; NULL: all lanes. */
tcc_emit_value tcc_emit_gather_at(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offsets,
                                  tcc_emit_value mask);
void tcc_emit_scatter_at(tcc_emitter *e, tcc_emit_value value, tcc_emit_value base, tcc_emit_value offsets,
                         tcc_emit_value mask);
/* One element, or 0 where the condition is false; base[0] exists. */
tcc_emit_value tcc_emit_load_if(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offset,
                                tcc_emit_value condition);
bool tcc_emit_is_fixed(tcc_emit_value value); /* a constant, of any type */
/* Whether the target has no masked access of all types, or a slow one. */
bool tcc_emit_masks_are_slow(const tcc_llvm_target *t);
/* The lanes of the mask (NULL: all), or zeros where the condition, one for all of them, is false. On a host. */
tcc_emit_value tcc_emit_load_masked_if(tcc_emitter *e, tcc_emit_type type, tcc_emit_value address, tcc_emit_value mask,
                                       tcc_emit_value condition);
/* A whole vector where the condition (i1) is true, else zeros. */
tcc_emit_value tcc_emit_load_lanes_if(tcc_emitter *e, tcc_emit_type type, tcc_emit_value base, tcc_emit_value offset,
                                      int alignment, tcc_emit_value condition);
/* The first `count` (i64 or i32) of `lanes` lanes. */
tcc_emit_value tcc_emit_mask(tcc_emitter *e, int lanes, tcc_emit_value count);
void tcc_emit_prefetch(tcc_emitter *e, tcc_emit_value address, int locality); /* for reading; 3: into L1 ... 0 */
void tcc_emit_prefetch_to_store(tcc_emitter *e, tcc_emit_value address);
/* Stack space of the current function, 64-byte aligned. */
tcc_emit_value tcc_emit_local(tcc_emitter *e, tcc_emit_type type, int64_t count);

/* --- Vectors and arithmetic; operands scalar or vector alike. */
tcc_emit_value tcc_emit_splat(tcc_emitter *e, tcc_emit_value scalar, int lanes);
tcc_emit_value tcc_emit_iota(tcc_emitter *e, tcc_emit_type scalar, int lanes); /* 0, 1, 2 ... */
/* a * b + c with one rounding; with two on a target that has no such instruction (target->fma). */
tcc_emit_value tcc_emit_fma(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b, tcc_emit_value c);
/* An intrinsic that is overloaded on one type, as "llvm.fabs" is, or on none (`overload` NULL): only ones that lower to
 * instructions. */
tcc_emit_value tcc_emit_intrinsic(tcc_emitter *e, const char *name, tcc_emit_type overload, tcc_emit_value *arguments,
                                  int n);
/* Sum or maximum of the lanes, as a balanced tree over halves: a fixed order. NaN: maximum may drop it. */
tcc_emit_value tcc_emit_sum_lanes(tcc_emitter *e, tcc_emit_value vector);
tcc_emit_value tcc_emit_max_lanes(tcc_emitter *e, tcc_emit_value vector);
/* The lanes of a picked by constant indices; from a and b joined if b is not NULL. Index -1: any. */
tcc_emit_value tcc_emit_shuffle(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b, const int *indices, int n);
/* The lanes of x and behind them those of y, which has no more: 64 in all at most. */
tcc_emit_value tcc_emit_append(tcc_emitter *e, tcc_emit_value x, tcc_emit_value y);
/* The lanes of `from`, of 32 bits, picked by indices (i32) that are below their number; others give any lane. A full
 * vector, or several, of each, where the target has such instructions. */
bool tcc_emit_has_permutes(const tcc_llvm_target *t, int lanes);
tcc_emit_value tcc_emit_permute(tcc_emitter *e, tcc_emit_value from, tcc_emit_value indices);
/* `lanes` vectors of so many lanes: rows become columns. */
void tcc_emit_transpose_vectors(tcc_emitter *e, tcc_emit_value *rows, int lanes);
/* to[i][j] = from[j][i] for i, j below the lane count (f32; strides in elements): `rows` and `columns` (i64, at least
 * 1) of `from` exist. What lies past its last row repeats that row, past its last column is 0. The code is one function
 * of the module. */
void tcc_emit_transpose(tcc_emitter *e, tcc_emit_value from, int64_t from_stride, tcc_emit_value rows,
                        tcc_emit_value columns, tcc_emit_value to, int64_t to_stride);
/* The same of other memory: `line` gives its row i as a vector of f32, or of other 32 bits. `name`: of the function. */
typedef struct tcc_emit_square {
    tcc_emit_value from, stride, rows, columns;
    tcc_emit_value mask; /* the first `columns` lanes */
} tcc_emit_square;
typedef tcc_emit_value (*tcc_emit_line)(tcc_emitter *e, const tcc_emit_square *s, int i);
void tcc_emit_transpose_lines(tcc_emitter *e, const char *name, tcc_emit_line line, tcc_emit_value from,
                              int64_t from_stride, tcc_emit_value rows, tcc_emit_value columns, tcc_emit_value to,
                              int64_t to_stride);

/* The nearest value of bf16, denormals and all, to a result of arithmetic in f32. */
tcc_emit_value tcc_emit_round_bf16(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_emit_cast_bf16(tcc_emitter *e, tcc_emit_value x); /* to any f32, whose NaN may be a signalling one */
tcc_emit_value tcc_emit_round_by_integers(tcc_emitter *e, tcc_emit_value x); /* the same, without instructions for it */
/* The same to values whose NaN have nothing in the lower halves of their bits: rounding leaves those as they are. */
tcc_emit_value tcc_emit_round_short(tcc_emitter *e, tcc_emit_value x);

/* The f32 whose upper halves these 16 bits are. */
tcc_emit_value tcc_emit_from_bf16(tcc_emitter *e, tcc_emit_value half);
/* The 16 bits that an f32 was made of as its upper half, where it was, or was chosen of such; else NULL. A constant has
 * nothing in its lower half. LLVM sees that only within one block, and not behind a choice. */
tcc_emit_value tcc_emit_bits_behind(tcc_emitter *e, tcc_emit_value x);

/* --- Products of bf16, where the target's figures say that it has them (target.h). Sums are f32. */
/* sums + a0 b0 + a1 b1 in each lane: a and b are vectors of 32 bits, two bf16 each. */
tcc_emit_value tcc_emit_multiply_pairs(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b, tcc_emit_value sums);
/* Two vectors of f32 as one of bf16, as i16: `low` first. To nearest even, denormals to 0; with AVX512-BF16 alone
 * (target->hw.fma_bf16_pairs). */
tcc_emit_value tcc_emit_round_pairs(tcc_emitter *e, tcc_emit_value low, tcc_emit_value high);
/* Tiles are registers of up to 16 rows x 64 bytes, by number. Begin sets the rows of each (0: it is not used); what
 * follows up to the end may use them. A row of A is 32 of k, a row of B two of k for each of 16 columns. */
enum { TCC_EMIT_TILES = 8, TCC_EMIT_TILE_ROWS = 16 };
void tcc_emit_tiles_begin(tcc_emitter *e, const int rows[TCC_EMIT_TILES]);
void tcc_emit_tiles_end(tcc_emitter *e);
void tcc_emit_tile_zero(tcc_emitter *e, int tile);
void tcc_emit_tile_load(tcc_emitter *e, int tile, tcc_emit_value address, int64_t row_bytes);
void tcc_emit_tile_store(tcc_emitter *e, int tile, tcc_emit_value address, int64_t row_bytes);
void tcc_emit_tile_multiply(tcc_emitter *e, int sums, int a, int b); /* sums += a b */

/* --- Single instructions (instructions.def). Operands are scalar or vector alike. */
#define BINARY(name, build) tcc_emit_value tcc_emit_##name(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b);
#define UNARY(name, build) tcc_emit_value tcc_emit_##name(tcc_emitter *e, tcc_emit_value a);
#define CONVERSION(name, build) tcc_emit_value tcc_emit_##name(tcc_emitter *e, tcc_emit_value a, tcc_emit_type to);
#include "codegen/emit/instructions.def"
#undef BINARY
#undef UNARY
#undef CONVERSION
/* LLVM's numbers, which instructions.c checks. U: unsigned; S: signed. O: false where an operand is NaN; U: true. */
typedef enum tcc_emit_icmp_kind {
    TCC_ICMP_EQ = 32,
    TCC_ICMP_NE,
    TCC_ICMP_UGT,
    TCC_ICMP_UGE,
    TCC_ICMP_ULT,
    TCC_ICMP_ULE,
    TCC_ICMP_SGT,
    TCC_ICMP_SGE,
    TCC_ICMP_SLT,
    TCC_ICMP_SLE
} tcc_emit_icmp_kind;
typedef enum tcc_emit_fcmp_kind {
    TCC_FCMP_OEQ = 1,
    TCC_FCMP_OGT,
    TCC_FCMP_OGE,
    TCC_FCMP_OLT,
    TCC_FCMP_OLE,
    TCC_FCMP_ONE,
    TCC_FCMP_ORD,
    TCC_FCMP_UNO,
    TCC_FCMP_UEQ,
    TCC_FCMP_UGT,
    TCC_FCMP_UGE,
    TCC_FCMP_ULT,
    TCC_FCMP_ULE,
    TCC_FCMP_UNE
} tcc_emit_fcmp_kind;
tcc_emit_value tcc_emit_icmp(tcc_emitter *e, tcc_emit_icmp_kind kind, tcc_emit_value a, tcc_emit_value b);
tcc_emit_value tcc_emit_fcmp(tcc_emitter *e, tcc_emit_fcmp_kind kind, tcc_emit_value a, tcc_emit_value b);
tcc_emit_value tcc_emit_select(tcc_emitter *e, tcc_emit_value condition, tcc_emit_value yes, tcc_emit_value no);
tcc_emit_value tcc_emit_is_not_null(tcc_emitter *e, tcc_emit_value pointer);
tcc_emit_value tcc_emit_insert(tcc_emitter *e, tcc_emit_value vector, tcc_emit_value value, tcc_emit_value lane);
/* A float as the nearest integer of type `scalar` towards 0; what is out of range as the end of the range, NaN as 0. */
tcc_emit_value tcc_emit_fptosi_sat(tcc_emitter *e, tcc_emit_value a, tcc_emit_type scalar);

#endif
