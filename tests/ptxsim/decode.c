/* SPDX-License-Identifier: MIT
 * Decoding: types, operands as rows, and the way from an opcode to its family. */
#include "parse.h"
#include "numbers.h"

#include <stdlib.h>

static const struct {
    const char *name;
    uint8_t size;
    bool is_signed, is_float;
} types[T_COUNT] = {
    [T_NONE] = {"", 0, false, false},        [T_PRED] = {"pred", 0, false, false},  [T_B8] = {"b8", 1, false, false},
    [T_B16] = {"b16", 2, false, false},      [T_B32] = {"b32", 4, false, false},    [T_B64] = {"b64", 8, false, false},
    [T_B128] = {"b128", 16, false, false},   [T_U8] = {"u8", 1, false, false},      [T_U16] = {"u16", 2, false, false},
    [T_U32] = {"u32", 4, false, false},      [T_U64] = {"u64", 8, false, false},    [T_S8] = {"s8", 1, true, false},
    [T_S16] = {"s16", 2, true, false},       [T_S32] = {"s32", 4, true, false},     [T_S64] = {"s64", 8, true, false},
    [T_F16] = {"f16", 2, false, true},       [T_F16X2] = {"f16x2", 4, false, true}, [T_BF16] = {"bf16", 2, false, true},
    [T_BF16X2] = {"bf16x2", 4, false, true}, [T_TF32] = {"tf32", 4, false, true},   [T_F32] = {"f32", 4, false, true},
    [T_F64] = {"f64", 8, false, true},
};

int sim_type_size(sim_type t) { return types[t].size; }
const char *sim_type_name(sim_type t) { return types[t].name; }
bool sim_type_signed(sim_type t) { return types[t].is_signed; }
bool sim_type_float(sim_type t) { return types[t].is_float; }

bool decode_has(parser *p, const char *part) {
    for (int k = 1; k < p->n_parts; k++)
        if (!p->used[k] && strcmp(p->part[k], part) == 0) return p->used[k] = true;
    return false;
}

sim_type decode_type_or_none(parser *p) {
    for (int k = 1; k < p->n_parts; k++)
        if (!p->used[k]) {
            sim_type t = type_by_name(p->part[k]);
            if (t != T_NONE) {
                p->used[k] = true;
                return t;
            }
        }
    return T_NONE;
}

sim_type decode_type(parser *p) {
    sim_type t = decode_type_or_none(p);
    if (t == T_NONE) parse_fail(p, "'%s' names no type", p->opcode);
    return t;
}

void decode_ops(parser *p, int least, int most) {
    if (p->n_ops < least || p->n_ops > most)
        parse_fail(p, "'%s' has %d operands, not %d", p->opcode, p->n_ops, p->n_ops < least ? least : most);
}

void decode_need(parser *p, int sm) {
    if (p->module->target < sm)
        parse_fail(p, "'%s' needs sm_%d, the module is for sm_%d", p->opcode, sm, p->module->target);
}

static uint64_t immediate(parser *p, const operand *o, sim_type t) {
    int size = sim_type_size(t);
    uint64_t bits = o->bits;
    if (o->kind == OPD_FLOAT) {
        if (t == T_F64) bits = o->single ? as_u64(as_f32((uint32_t)bits)) : bits;
        else if (t == T_F32 && !o->single) bits = as_u32((float)as_f64(bits));
        else if (t == T_F16)
            bits = sim_round_double(o->single ? as_f32((uint32_t)bits) : as_f64(bits), sim_f16, RND_RN);
        else if (t == T_BF16)
            bits = sim_round_double(o->single ? as_f32((uint32_t)bits) : as_f64(bits), sim_bf16, RND_RN);
        else if (size == 4 && !o->single) parse_fail(p, "a 64-bit float where .%s is needed", sim_type_name(t));
    } else if (t == T_F32 || t == T_F64) {
        parse_fail(p, "'%s': an integer where a .%s is needed", p->opcode, sim_type_name(t));
    }
    return size == 8 ? bits : size == 4 ? (uint32_t)bits : size == 2 ? (uint16_t)bits : (uint8_t)bits;
}

/* A row with the low 32 bits, or fewer, of a wider register. */
static int narrowed(parser *p, int from, bool from_wide, sim_type t) {
    int guard = p->guard;
    p->guard = -1;
    sim_inst *i = parse_emit(p);
    p->guard = guard;
    i->exec = sim_exec_narrow;
    i->imm = sim_type_size(t), i->sub = !from_wide;
    i->n_in = 1, i->in[0] = from;
    i->n_out = 1, i->out[0] = parse_new_row(p, false);
    return i->out[0];
}

static uint64_t symbol_address(parser *p, const operand *o, bool *dynamic) {
    symbol *s = o->symbol;
    *dynamic = false;
    if (!s || s->kind != SYM_VAR) parse_fail(p, "'%s' is not declared", o->name);
    sim_var *v = s->var;
    if (v->space == SP_SHARED && v->external) {
        parse_var_address(p, v);
        *dynamic = true;
        return 0;
    }
    return parse_var_address(p, v);
}

static int in_row(parser *p, const operand *o, sim_type t, bool may_be_wider) {
    int size = sim_type_size(t);
    if (o->negated) parse_fail(p, "'!' needs a predicate");
    switch (o->kind) {
    case OPD_REGISTER: {
        int have = sim_type_size(o->type);
        if (o->type == T_PRED) parse_fail(p, "'%s': a predicate where .%s is needed", p->opcode, sim_type_name(t));
        if (have == size) return o->row;
        if (!may_be_wider || have < size)
            parse_fail(p, "'%s': register of %d bits where .%s is needed", p->opcode, have * 8, sim_type_name(t));
        if (have == 8 || size < 4) return narrowed(p, o->row, have == 8, t);
        return o->row;
    }
    case OPD_SPECIAL: {
        int r = parse_special(p, (sim_special)o->row);
        bool is_wide = o->row == SR_CLOCK64 || o->row == SR_GLOBALTIMER || o->row == SR_GRIDID;
        if (o->row >= SR_CLOCK) {
            sim_inst *i = parse_emit(p);
            i->exec = sim_exec_clock;
            i->sub = (uint8_t)o->row;
            i->n_out = 1, i->out[0] = r;
        }
        if (is_wide != (size == 8)) {
            if (is_wide) return narrowed(p, r, true, t);
            if (size == 8)
                parse_fail(p, "'%s': a special register of 32 bits where .%s is needed", p->opcode, sim_type_name(t));
        }
        return size < 4 ? narrowed(p, r, false, t) : r;
    }
    case OPD_INT:
    case OPD_FLOAT: return parse_constant(p, immediate(p, o, t), size == 8);
    case OPD_SYMBOL: {
        bool dynamic;
        uint64_t address = symbol_address(p, o, &dynamic);
        if (size != 8 && size != 4) parse_fail(p, "an address where .%s is needed", sim_type_name(t));
        if (dynamic) {
            int r = parse_special(p, SR_DYNAMIC_BASE);
            return size == 8 ? r : narrowed(p, r, true, t);
        }
        sim_var *v = o->symbol->var;
        if (v->space == SP_LOCAL && !p->func->kernel) { /* relative to the frame */
            int base = parse_special(p, SR_LOCAL_BASE), offset = parse_constant(p, address, true);
            sim_inst *i = parse_emit(p);
            i->exec = sim_pick_int(OP_ADD, T_U64);
            i->n_in = 2, i->in[0] = base, i->in[1] = offset, i->n_out = 1, i->out[0] = parse_new_row(p, true);
            return size == 8 ? i->out[0] : narrowed(p, i->out[0], true, t);
        }
        if (v->space == SP_GLOBAL || v->space == SP_CONST) {
            if (size != 8) parse_fail(p, "address of '%s' needs 64 bits", v->name);
            /* device addresses are given when the module is loaded: constants refer to variables by a mark */
            int r = parse_constant(p, (uint64_t)(uintptr_t)v, true);
            for (int k = 0; k < p->func->n_constants; k++)
                if (p->func->constants[k].row == r) p->func->constants[k].var = v;
            return r;
        }
        return parse_constant(p, address, size == 8);
    }
    default: parse_fail(p, "'%s': operand of another kind expected", p->opcode);
    }
}

int decode_in(parser *p, const operand *o, sim_type t) { return in_row(p, o, t, false); }
int decode_in_wide(parser *p, const operand *o, sim_type t) { return in_row(p, o, t, true); }

int decode_predicate(parser *p, const operand *o) {
    if (o->kind == OPD_INT && !o->negated) return parse_constant(p, o->bits ? 0xffffffff : 0, false);
    if (o->kind != OPD_REGISTER || o->type != T_PRED) parse_fail(p, "'%s': predicate expected", p->opcode);
    if (!o->negated) return o->row;
    int guard = p->guard;
    p->guard = -1;
    sim_inst *i = parse_emit(p);
    p->guard = guard;
    i->exec = sim_exec_predicate_logic;
    i->op = OP_NOT;
    i->n_in = 1, i->in[0] = o->row;
    i->n_out = 1, i->out[0] = parse_new_row(p, false);
    return i->out[0];
}

int decode_out_predicate(parser *p, const operand *o) {
    if (o->kind == OPD_SINK) return parse_new_row(p, false);
    if (o->kind != OPD_REGISTER || o->type != T_PRED) parse_fail(p, "'%s': predicate register expected", p->opcode);
    return o->row;
}

int decode_out(parser *p, const operand *o, sim_type t) {
    if (o->kind == OPD_SINK) return parse_new_row(p, sim_type_size(t) == 8);
    if (o->kind != OPD_REGISTER || o->type == T_PRED)
        parse_fail(p, "'%s': register expected for the result", p->opcode);
    if (sim_type_size(o->type) != sim_type_size(t))
        parse_fail(p, "'%s': register of %d bits for a result of .%s", p->opcode, sim_type_size(o->type) * 8,
                   sim_type_name(t));
    return o->row;
}

int decode_address(parser *p, const operand *o, sim_space *space, int64_t *offset) {
    *offset = o->offset;
    if (o->kind != OPD_ADDRESS) parse_fail(p, "'%s': address expected", p->opcode);
    if (o->has_register) {
        if (sim_type_size(o->type) == 8) return o->row;
        if (sim_type_size(o->type) != 4 || o->type == T_PRED)
            parse_fail(p, "'%s': an address has 32 or 64 bits", p->opcode);
        int guard = p->guard;
        p->guard = -1;
        sim_inst *i = parse_emit(p);
        p->guard = guard;
        i->exec = sim_exec_widen_unsigned;
        i->n_in = 1, i->in[0] = o->row, i->n_out = 1, i->out[0] = parse_new_row(p, true);
        return i->out[0];
    }
    if (!o->symbol) return parse_constant(p, 0, true);
    if (o->symbol->var->space == SP_LOCAL && *space == SP_PARAM)
        *space = SP_LOCAL; /* a call's parameters live in the frame */
    operand symbol = {.kind = OPD_SYMBOL, .symbol = o->symbol};
    return in_row(p, &symbol, T_U64, false);
}

void decode_statement(parser *p) {
    const char *name = p->part[0];
    if (decode_arithmetic(p, name) || decode_memory(p, name) || decode_matrix(p, name) || decode_control(p, name))
        return;
    parse_fail(p, "instruction '%s' is not known here", p->opcode);
}
