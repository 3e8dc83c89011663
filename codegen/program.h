/* SPDX-License-Identifier: MIT
 * The program: everything that codegen hands to the runtime. Plain data without pointers into the graph: kernels as
 * object code, steps in order, buffers as (space, offset), and for each step the user's lines it came from. A runtime
 * without LLVM can load and run it.
 *
 * Memory. A program addresses three spaces. ARENA is scratch of one run, planned at compile time. BINDING i is memory
 * that the caller provides: parameters, optimizer state, batch inputs, hyper-parameters, outputs. CONST is read-only
 * data in the program.
 *
 * Time. Steps run in order; a step sees everything that earlier steps wrote. Within a step all instances and all their
 * work items are independent and may run in any order on any thread. So a result never depends on the number of
 * threads. */
#ifndef TCC_CODEGEN_PROGRAM_H
#define TCC_CODEGEN_PROGRAM_H

#include "ir/support/arena.h"
#include "ir/support/diag.h"
#include "ir/support/dtype.h"
#include "ir/support/role.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tcc_space { TCC_SPACE_ARENA, TCC_SPACE_BINDING, TCC_SPACE_CONST } tcc_space;

/* A place in memory. Values lie at multiples of 64 bytes in ARENA and CONST; a buffer may also begin inside one. */
typedef struct tcc_buffer {
    tcc_space space;
    int binding;          /* index into bindings; BINDING only */
    int64_t offset_bytes; /* from the start of the space or binding */
    int64_t size_bytes;   /* what the step may touch from there */
} tcc_buffer;

typedef struct tcc_binding {
    const char *name;
    tcc_role role;
    tcc_type type;
    /* How a STATE begins: as `begin` everywhere, or as the binding named here, one before it, cast to its type, and so
     * again whenever the host writes that one. */
    double begin;
    const char *copy_of; /* NULL: no copy */
    bool written;        /* PARAM, STATE: a run gives it its next value */
    bool idle;           /* PARAM: no step reads or writes it, but maybe its copies: it needs no memory */
} tcc_binding;

/* A host kernel runs the work items [begin, end) of one instance.
 *   buffers  one pointer for each buffer of the instance, in the kernel's order
 *   params   the instance's integers (extents, strides, seeds), in the kernel's order
 *   scratch  private to the calling thread, `scratch_bytes` large, 64-byte aligned, contents undefined
 * It must not call out of its module. It touches vector registers freely and obeys the C calling convention. */
typedef void (*tcc_host_kernel)(void *const *buffers, const int64_t *params, int64_t begin, int64_t end, void *scratch);

/* Where the environment has TCC_CHECK_ACCESS=1 when it is compiled, a host kernel tells each access before it makes it:
 * in front of buffers[0] is the address of such a function, which does not return where the access is wrong. Bit i of
 * `lanes`: the `lane_bytes` at address + i * lane_bytes are accessed; bit i of `buffers`: they may be in buffer i. A
 * module whose kernels do so has a function of the name TCC_CHECKED_MODULE, too. */
typedef enum tcc_host_access_how {
    TCC_ACCESS_STORES = 1,
    TCC_ACCESS_SCRATCH = 2,  /* it may be in the scratch */
    TCC_ACCESS_ANYWHERE = 4, /* or in any buffer */
} tcc_host_access_how;
typedef void (*tcc_host_access)(const void *address, int64_t lane_bytes, uint64_t lanes, uint64_t buffers, int32_t how);
#define TCC_CHECKED_MODULE "tcc_checked"

/* A CUDA kernel is an entry of its module's PTX, for blocks of `threads` threads in x and `scratch_bytes` bytes of
 * dynamic shared memory a block. A block runs `items_a_block` work items side by side: items b * items_a_block and
 * following for block b, then those gridDim.x * items_a_block further on, and so forth, so any grid is right. Its
 * parameters, each 8 bytes: n_buffers addresses, n_params integers, items
 *
 * A step of several instances launches the entry "<symbol>_table", which exists if `table`, with two parameters: the
 * address of a table in device memory, and the number of instances (8 bytes each). A row of the table is 8-byte
 * integers: the first block of the instance, its items, n_buffers addresses, n_params integers. One more row has the
 * number of blocks of all instances in its first place, which is the grid; an instance has (items + items_a_block - 1)
 * / items_a_block of them. */

enum {                          /* bytes; where a binding begins is a multiple */
       TCC_CUDA_ALIGNMENT = 16, /* of a CUDA program, as do its arena and constants: accesses are that wide */
       TCC_HOST_ALIGNMENT = 64, /* of a host program that writes it: vectors go past the caches in whole lines */
};

/* Code of one or more kernels: a relocatable ELF object for the host, PTX text for CUDA. */
typedef struct tcc_module {
    const void *code;
    int64_t size_bytes;
} tcc_module;

typedef struct tcc_kernel {
    const char *symbol;
    int module; /* index into modules */
    int n_buffers, n_params;
    int64_t scratch_bytes;      /* host: a thread; CUDA: a block's shared memory */
    const char *schedule;       /* "pointwise", "reduce", "contract", ...: for reports */
    int threads, items_a_block; /* CUDA; 0 on the host */
    bool table;                 /* CUDA */
} tcc_kernel;

/* One use of a kernel. Several instances of one kernel in one step are a multi-tensor launch: the optimizer's update of
 * all parameters is one step. */
typedef struct tcc_instance {
    const tcc_buffer *buffers; /* n_buffers of the kernel */
    const int64_t *params;     /* n_params of the kernel */
    int64_t items;             /* work items; fixed by shape and schedule, never by the number of threads */
} tcc_instance;

/* A call of a library: one of those that calls.h describes. */
typedef struct tcc_library_call {
    const char *name;
    int n_buffers, n_params;
    const tcc_buffer *buffers;
    const int64_t *params;
} tcc_library_call;

typedef enum tcc_step_kind { TCC_STEP_KERNEL, TCC_STEP_LIBRARY, TCC_STEP_COPY } tcc_step_kind;

typedef struct tcc_step {
    tcc_step_kind kind;
    int kernel;      /* KERNEL: index into kernels */
    int n_instances; /* KERNEL */
    const tcc_instance *instances;
    int64_t grain;                /* KERNEL: a thread takes at least so many items at once; at least 1 */
    const tcc_library_call *call; /* LIBRARY */
    tcc_buffer from, to;          /* COPY: equal sizes, no overlap */
    double flop, bytes;           /* of all instances: arithmetic, and compulsory memory traffic */
    /* Of all instances: arithmetic operations that its loops evaluate, whatever an op takes; and how many that would be
     * if each element of each value was evaluated once in the group. */
    double evaluations, elements;
    double predicted_s;         /* of all instances: what the choice of the implementation expected; 0: nothing */
    const char *implementation; /* that was chosen: "contract.tiles"; "" where there was no choice */
    const char *label;          /* ops it does, "dot+add+gelu" */
    const char
        *lines; /* the user's lines it came from, "gpt.c:41,44", or layers, "gpt.transformer.h.0.mlp.c_fc,c_proj" */
} tcc_step;

typedef enum tcc_target { TCC_TARGET_HOST, TCC_TARGET_CUDA } tcc_target;

/* The struct itself comes from tcc__calloc; what it points to lies in `memory`. */
typedef struct tcc_program {
    tcc_arena memory; /* owns everything below */
    const char *name;
    tcc_target target;
    const char
        *cpu; /* LLVM's name and features, "znver4,+avx512f,-sse4a,...", or "sm_90": code must not run elsewhere */
    int64_t arena_bytes;
    const void *constants;
    int64_t constants_bytes;
    int n_bindings, n_modules, n_kernels, n_steps;
    tcc_binding *bindings;
    tcc_module *modules;
    tcc_kernel *kernels;
    tcc_step *steps;
} tcc_program;

/* Frees the program and all it owns; NULL is allowed. */
void tcc_program_destroy(tcc_program *p);

#endif
