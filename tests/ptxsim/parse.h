/* SPDX-License-Identifier: MIT
 * Between the reader of PTX text and the decoder of instructions. */
#ifndef PTXSIM_PARSE_H
#define PTXSIM_PARSE_H

#include "machine.h"
#include "ptx.h"

#include <setjmp.h>

enum { MAX_PARTS = 16, MAX_OPERANDS = 12, MAX_VECTOR = 16, BUCKETS = 1024 };

typedef enum symbol_kind { SYM_REGISTER, SYM_RANGE, SYM_VAR, SYM_FUNC, SYM_LABEL, SYM_TARGETS } symbol_kind;

typedef struct symbol {
    char *name;
    symbol_kind kind;
    sim_type type;  /* registers */
    int row, count; /* row: -1 until it is used; count: of a range */
    int *rows;
    sim_var *var;
    sim_func *func;
    int index; /* label: instruction, -1 until defined; targets: list */
    int scope;
    struct symbol *next;
} symbol;

typedef enum operand_kind {
    OPD_REGISTER,
    OPD_SPECIAL,
    OPD_INT,
    OPD_FLOAT,
    OPD_ADDRESS,
    OPD_VECTOR,
    OPD_SYMBOL,
    OPD_SINK
} operand_kind;

typedef struct operand {
    operand_kind kind;
    bool negated;  /* !%p */
    sim_type type; /* register's */
    int row;
    uint64_t bits;     /* INT: value; FLOAT: as double's bits */
    bool single;       /* FLOAT: written as 0f... */
    symbol *symbol;    /* SYMBOL, and ADDRESS of a variable */
    int64_t offset;    /* ADDRESS */
    bool has_register; /* ADDRESS */
    int n;             /* VECTOR */
    struct operand *items;
    struct operand *second; /* a|b */
    char name[96];          /* SYMBOL not known yet: a label or function */
} operand;

typedef struct fixup {
    uint32_t inst;
    char *label;
    int line;
    struct fixup *next;
} fixup;

typedef struct parser {
    const char *at, *end;
    int line;
    char *error;
    size_t error_size;
    jmp_buf fail;
    sim_module *module;
    int device_sm;
    symbol *buckets[BUCKETS];
    int scope;
    sim_func *func;
    fixup *fixups;
    /* the statement */
    char opcode[160];
    char *part[MAX_PARTS];
    int n_parts;
    operand ops[MAX_OPERANDS];
    operand pool[64]; /* elements of vectors */
    int n_ops, n_pool;
    int guard;
    bool guard_not;
    bool used[MAX_PARTS]; /* parts that the decoder has taken */
} parser;

_Noreturn void parse_fail(parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *parse_alloc(parser *p, size_t bytes); /* zeroed */
int parse_new_row(parser *p, bool wide);
int parse_constant(parser *p, uint64_t value, bool wide);
int parse_special(parser *p, sim_special s);
sim_inst *parse_emit(parser *p); /* a zeroed instruction with line and guard of the statement */
void parse_fixup(parser *p, const char *label);
symbol *parse_lookup(parser *p, const char *name);
uint64_t parse_var_address(parser *p, sim_var *v); /* places it when that has not happened */

/* Decodes the statement in `p`. */
void decode_statement(parser *p);

/* --- for the decoders */
bool decode_has(parser *p, const char *part); /* takes the part if it is there */
sim_type decode_type(parser *p);              /* takes the next part that names a type; fails when none */
sim_type decode_type_or_none(parser *p);
sim_type type_by_name(const char *name);
int decode_in(parser *p, const operand *o,
              sim_type t); /* row with the operand's value as t; registers must have its size */
int decode_in_wide(parser *p, const operand *o, sim_type t); /* registers may be wider */
int decode_predicate(parser *p, const operand *o);
int decode_out(parser *p, const operand *o, sim_type t); /* row for the result */
int decode_out_predicate(parser *p, const operand *o);
/* Row (64 bits) of the base and the offset of `[...]`; a call's parameters turn the space into LOCAL. */
int decode_address(parser *p, const operand *o, sim_space *space, int64_t *offset);
void decode_ops(parser *p, int least, int most); /* number of operands */
void decode_need(parser *p, int sm);             /* the least compute capability */
sim_space decode_space(parser *p);               /* takes the part that names a state space */
/* An access of memory at `base` (a row) and `offset`, with its place in the function's cache. */
sim_inst *decode_access(parser *p, sim_exec *exec, sim_space space, sim_type t, int base, int64_t offset);

/* Execution functions by operation and type; NULL where PTX has none. */
/* clang-format off */
#define SIM_OPERATIONS(X) \
    X(ADD) X(SUB) X(MUL) X(MUL_LO) X(MUL_HI) X(MUL_WIDE) X(MAD) X(MAD_LO) X(MAD_HI) X(MAD_WIDE) X(FMA) X(DIV) \
    X(REM) X(ABS) X(NEG) X(MIN) X(MAX) X(MIN3) X(MAX3) X(AND) X(OR) X(XOR) X(NOT) X(CNOT) X(SHL) X(SHR) \
    X(SHF_L_WRAP) X(SHF_R_WRAP) X(SHF_L_CLAMP) X(SHF_R_CLAMP) X(POPC) X(CLZ) X(BREV) X(BFIND) X(BFIND_SHIFT) \
    X(BFE) X(BFI) X(BMSK) X(SAD) X(DP4A) X(LOP3) X(MUL24) X(MAD24) X(PRMT) X(PRMT_F4E) X(PRMT_B4E) X(PRMT_RC8) \
    X(PRMT_ECL) X(PRMT_ECR) X(PRMT_RC16) X(SELP) X(SLCT) X(SETP) X(SET) X(MOV) X(RCP) X(SQRT) X(RSQRT) X(SIN) \
    X(COS) X(EX2) X(LG2) X(TANH) X(COPYSIGN) X(TESTP) X(DIV_APPROX) X(DIV_FULL) X(EXIT_NOTHING)
/* clang-format on */
typedef enum sim_operation {
#define X(name) OP_##name,
    SIM_OPERATIONS(X)
#undef X
} sim_operation;
typedef enum sim_compare {
    CMP_EQ,
    CMP_NE,
    CMP_LT,
    CMP_LE,
    CMP_GT,
    CMP_GE,
    CMP_EQU,
    CMP_NEU,
    CMP_LTU,
    CMP_LEU,
    CMP_GTU,
    CMP_GEU,
    CMP_NUM,
    CMP_NAN
} sim_compare;
typedef enum sim_bool { BOOL_NONE, BOOL_AND, BOOL_OR, BOOL_XOR } sim_bool;

sim_exec *sim_pick_int(sim_operation op, sim_type t);
sim_exec *sim_pick_float(sim_operation op, sim_type t, int flags, sim_round r);
sim_exec *sim_pick_half(sim_operation op, sim_type t);
sim_exec *sim_pick_cvt(sim_type to, sim_type from, int flags, sim_round r);
sim_exec sim_exec_pack, sim_exec_unpack, sim_exec_mov32, sim_exec_mov64, sim_exec_narrow, sim_exec_widen_unsigned,
    sim_exec_widen_signed, sim_exec_predicate_logic, sim_exec_predicate_mov, sim_exec_predicate_select, sim_exec_cvta,
    sim_exec_isspacep, sim_exec_cvt_pack;

/* Families of instructions; false when the opcode is none of theirs. */
bool decode_memory(parser *p, const char *name);
bool decode_matrix(parser *p, const char *name);
bool decode_carry(parser *p, const char *name);
bool decode_arithmetic(parser *p, const char *name);
bool decode_control(parser *p, const char *name);

#endif
