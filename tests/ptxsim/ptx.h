/* SPDX-License-Identifier: MIT
 * PTX as the simulator holds it: a module's variables and functions, with instructions decoded for execution by whole
 * warps.
 *
 * Every operand is a row: 32 lanes of 32 bits (two rows in sequence for 64 bits; a predicate is a bit mask in the first
 * word of its row). Immediates and special registers have rows too, filled when a warp starts, so that executing knows
 * only rows. Registers of 8 and 16 bits hold their value in the low bits of a 32-bit lane, zero above. */
#ifndef PTXSIM_PTX_H
#define PTXSIM_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum sim_type {
    T_NONE,
    T_PRED,
    T_B8,
    T_B16,
    T_B32,
    T_B64,
    T_B128,
    T_U8,
    T_U16,
    T_U32,
    T_U64,
    T_S8,
    T_S16,
    T_S32,
    T_S64,
    T_F16,
    T_F16X2,
    T_BF16,
    T_BF16X2,
    T_TF32,
    T_F32,
    T_F64,
    T_COUNT
} sim_type;

typedef enum sim_space { SP_GENERIC, SP_GLOBAL, SP_SHARED, SP_LOCAL, SP_CONST, SP_PARAM, SP_REG } sim_space;
typedef enum sim_round {
    RND_NONE,
    RND_RN,
    RND_RZ,
    RND_RM,
    RND_RP,
    RND_RNA,
    RND_RNI,
    RND_RZI,
    RND_RMI,
    RND_RPI
} sim_round;

typedef enum sim_special {
    SR_TID_X,
    SR_TID_Y,
    SR_TID_Z,
    SR_NTID_X,
    SR_NTID_Y,
    SR_NTID_Z,
    SR_CTAID_X,
    SR_CTAID_Y,
    SR_CTAID_Z,
    SR_NCTAID_X,
    SR_NCTAID_Y,
    SR_NCTAID_Z,
    SR_LANEID,
    SR_WARPID,
    SR_NWARPID,
    SR_SMID,
    SR_NSMID,
    SR_LT,
    SR_LE,
    SR_EQ,
    SR_GE,
    SR_GT,
    SR_DYNAMIC_SHARED,
    SR_TOTAL_SHARED,
    SR_GRIDID,
    SR_DYNAMIC_BASE,
    SR_LOCAL_BASE,
    SR_CARRY, /* of add.cc and the like */
    SR_CLOCK,
    SR_CLOCK64,
    SR_GLOBALTIMER,
    SR_COUNT
} sim_special;

/* How the interpreter's loop treats an instruction; all else is K_COMPUTE, done by its `exec`. */
typedef enum sim_kind { K_COMPUTE, K_BRANCH, K_BRANCH_INDEX, K_EXIT, K_RET, K_CALL, K_BARRIER, K_TRAP, K_NOP } sim_kind;

enum {
    FLAG_FTZ = 1,
    FLAG_SAT = 2,
    FLAG_RELU = 4,
    FLAG_NAN = 8,
    FLAG_UNIFORM = 16,
    FLAG_ARRIVE = 32,
    FLAG_TRANS = 64,
    FLAG_VOLATILE = 128,
    FLAG_ASYNC_ZFILL = 256,
    FLAG_ATOMIC_RETURNS = 512,
    FLAG_XORSIGN = 1024,
    FLAG_ABS = 2048,
    FLAG_UNALIGNED = 4096
};

typedef struct sim_warp sim_warp;
typedef struct sim_inst sim_inst;
typedef void sim_exec(sim_warp *w, const sim_inst *i, uint32_t mask);

enum { SHARED_START = 1024 }; /* the driver keeps the first KiB of shared memory */
enum { SIM_MAX_OUT = 8, SIM_MAX_IN = 12, MEETS_WARP = 255 };

struct sim_inst {
    sim_exec *exec;
    uint8_t kind, type, type2, round, space, vec, op, sub;
    bool guard_not, propagates; /* propagates: generic code derives what is initialized from the sources */
    bool counts;                /* the one that stands for its statement, which may be decoded to several */
    uint8_t meets;              /* .sync: 0 no; MEETS_WARP: all threads of the warp meet in it; k: those in in[k - 1] */
    uint16_t flags;
    int16_t n_out, n_in;
    int32_t guard; /* row of the predicate, -1: none */
    int32_t out[SIM_MAX_OUT], in[SIM_MAX_IN];
    int64_t imm;           /* address offset, and others */
    uint32_t target;       /* index of an instruction, a function or a target list */
    uint32_t reconverge;   /* branches: index where the paths join, or n_code */
    uint32_t line, memory; /* memory: number of this access in the function, for its cache */
};

typedef struct sim_var {
    char *name;
    sim_space space;
    sim_type type;
    uint64_t size, align, offset; /* offset: in its space; device address for global and const */
    bool external;
    uint8_t *init; /* size bytes, or NULL */
    struct sim_reference {
        uint64_t at;
        struct sim_var *var;
        int64_t add;
    } *references; /* addresses inside init */
    int n_references;
    struct sim_var *next;
} sim_var;

struct sim_var;
typedef struct sim_constant {
    int row;
    uint64_t value;
    bool wide;
    struct sim_var *var;
} sim_constant; /* var: its address */

typedef struct sim_func {
    char *name;
    struct sim_module *module;
    bool kernel, defined;
    int n_params, n_returns;
    sim_var **params, **returns; /* offsets in the parameter block (kernel) or in the frame (device function) */
    uint64_t param_bytes;
    sim_inst *code;
    uint32_t n_code, cap_code;
    int n_rows;
    sim_constant *constants;
    int n_constants;
    int special[SR_COUNT]; /* row, or -1 */
    uint64_t local_bytes, shared_bytes;
    bool dynamic_shared;
    uint64_t dynamic_align;
    int n_memory;
    int32_t *inputs; /* of instructions with more than SIM_MAX_IN: in turn */
    int n_inputs;
    uint32_t max_threads, required[3], min_blocks, max_registers;
    int registers;      /* estimate of 32-bit registers a thread */
    uint32_t **targets; /* lists of brx.idx */
    int *n_targets, n_target_lists;
    struct sim_call {
        int n_args, n_results, callee;
        uint64_t arg[16], result[4], arg_bytes[16], result_bytes[4];
        struct sim_func *func;
    } *calls;
    int n_calls;
    int max_dynamic_shared; /* cuFuncSetAttribute */
    struct sim_func *next;
} sim_func;

/* The rows that an instruction of the function reads. */
static inline const int32_t *sim_inputs(const sim_func *f, const sim_inst *i) {
    return i->n_in > SIM_MAX_IN ? f->inputs + i->target : i->in;
}

typedef struct sim_module {
    int version, target;
    bool target_specific; /* sm_90a */
    sim_var *vars;
    sim_func *funcs;
    int id;
    bool has_device_functions;
    struct sim_module *next;
} sim_module;

/* Parse and decode. NULL with a message in `error` (line and reason) when the text is not PTX that we can run. */
sim_module *sim_module_parse(const char *text, int device_sm, char *error, size_t error_size);
void sim_module_free(sim_module *m);

int sim_type_size(sim_type t); /* bytes */
const char *sim_type_name(sim_type t);
bool sim_type_signed(sim_type t);
bool sim_type_float(sim_type t);

/* Fills `reconverge` of all branches, and `registers`. */
bool sim_cfg_analyze(sim_func *f);

#endif
