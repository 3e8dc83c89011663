/* SPDX-License-Identifier: MIT
 * Decoding of arithmetic, logic, comparison, selection, moves and conversions. */
#include "parse.h"

#include <string.h>

sim_exec *sim_pick_saturating(sim_operation op);

static const struct {
    const char *name;
    sim_operation op;
    int operands;
} simple[] = {
    {"add", OP_ADD, 2},     {"sub", OP_SUB, 2},   {"div", OP_DIV, 2},           {"rem", OP_REM, 2},
    {"abs", OP_ABS, 1},     {"neg", OP_NEG, 1},   {"min", OP_MIN, 2},           {"max", OP_MAX, 2},
    {"and", OP_AND, 2},     {"or", OP_OR, 2},     {"xor", OP_XOR, 2},           {"not", OP_NOT, 1},
    {"cnot", OP_CNOT, 1},   {"fma", OP_FMA, 3},   {"rcp", OP_RCP, 1},           {"sqrt", OP_SQRT, 1},
    {"rsqrt", OP_RSQRT, 1}, {"sin", OP_SIN, 1},   {"cos", OP_COS, 1},           {"ex2", OP_EX2, 1},
    {"lg2", OP_LG2, 1},     {"tanh", OP_TANH, 1}, {"copysign", OP_COPYSIGN, 2}, {"sad", OP_SAD, 3},
    {"brev", OP_BREV, 1},   {"lop3", OP_LOP3, 3},
};

static sim_round rounding(parser *p) {
    static const struct {
        const char *name;
        sim_round r;
    } modes[] = {{"rn", RND_RN},   {"rz", RND_RZ},   {"rm", RND_RM},   {"rp", RND_RP},  {"rna", RND_RNA},
                 {"rni", RND_RNI}, {"rzi", RND_RZI}, {"rmi", RND_RMI}, {"rpi", RND_RPI}};
    for (size_t k = 0; k < sizeof modes / sizeof *modes; k++)
        if (decode_has(p, modes[k].name)) return modes[k].r;
    return RND_NONE;
}

static int flags_of(parser *p) {
    int flags = 0;
    if (decode_has(p, "ftz")) flags |= FLAG_FTZ;
    if (decode_has(p, "sat")) flags |= FLAG_SAT;
    if (decode_has(p, "relu")) flags |= FLAG_RELU;
    if (decode_has(p, "NaN")) flags |= FLAG_NAN;
    if (decode_has(p, "xorsign")) flags |= FLAG_XORSIGN;
    if (flags & FLAG_XORSIGN && decode_has(p, "abs")) flags |= FLAG_ABS;
    return flags;
}

static bool half_type(sim_type t) { return t == T_F16 || t == T_F16X2 || t == T_BF16 || t == T_BF16X2; }

/* The destination and `n` sources of one type. */
static sim_inst *same(parser *p, sim_exec *exec, sim_type t, int n) {
    int in[4], out;
    decode_ops(p, n + 1, n + 1);
    if (!exec) parse_fail(p, "'%s' is not known here", p->opcode);
    for (int k = 0; k < n; k++) in[k] = decode_in(p, &p->ops[k + 1], t);
    out = decode_out(p, &p->ops[0], t);
    sim_inst *i = parse_emit(p);
    i->exec = exec, i->type = (uint8_t)t;
    i->n_in = (int16_t)n;
    memcpy(i->in, in, (size_t)n * sizeof *in);
    i->n_out = 1, i->out[0] = out;
    return i;
}

static void decode_simple(parser *p, sim_operation op, int n) {
    sim_round r = rounding(p);
    int flags = flags_of(p);
    bool approx = decode_has(p, "approx"), full = decode_has(p, "full");
    sim_type t = decode_type(p);
    sim_exec *exec;
    sim_operation kind = op;
    if (t == T_PRED) {
        decode_ops(p, n + 1, n + 1);
        int a = decode_predicate(p, &p->ops[1]), b = n > 1 ? decode_predicate(p, &p->ops[2]) : 0,
            d = decode_out_predicate(p, &p->ops[0]);
        if (op != OP_AND && op != OP_OR && op != OP_XOR && op != OP_NOT)
            parse_fail(p, "'%s' is not known here", p->opcode);
        sim_inst *i = parse_emit(p);
        i->exec = sim_exec_predicate_logic, i->op = (uint8_t)op;
        i->n_in = (int16_t)n, i->in[0] = a, i->in[1] = b, i->n_out = 1, i->out[0] = d;
        return;
    }
    int64_t table = 0;
    if (op == OP_LOP3) {
        if (p->n_ops != 5 || p->ops[4].kind != OPD_INT) parse_fail(p, "lop3 needs a table");
        table = (int64_t)p->ops[4].bits;
        p->n_ops = 4;
    }
    if ((op == OP_MIN || op == OP_MAX) && p->n_ops == 4 && t == T_F32) n = 3;
    if (half_type(t)) {
        /* fma.relu, ftz and the like take the general form */
        exec = sim_pick_half(flags && sim_pick_half(op, t) ? OP_NOT : op, t);
        if (!sim_pick_half(op, t)) exec = NULL;
        if ((op == OP_AND || op == OP_OR || op == OP_XOR || op == OP_NOT)) exec = NULL;
    } else if (t == T_F32 || t == T_F64) {
        if (op == OP_DIV && t == T_F32 && (approx || full)) kind = approx ? OP_DIV_APPROX : OP_DIV_FULL;
        if (op == OP_DIV && t == T_F32 && !approx && !full && r == RND_NONE)
            parse_fail(p, "'%s' needs .approx, .full or a rounding", p->opcode);
        if ((op == OP_RCP || op == OP_SQRT) && !approx && r == RND_NONE)
            parse_fail(p, "'%s' needs .approx or a rounding", p->opcode);
        if (op == OP_FMA && r == RND_NONE) parse_fail(p, "'%s' needs a rounding", p->opcode);
        exec = sim_pick_float(kind, t, flags, r);
    } else {
        exec = sim_pick_int(op, t);
        if (flags & FLAG_SAT) exec = t == T_S32 ? sim_pick_saturating(op) : NULL;
        bool bits = t == T_B16 || t == T_B32 || t == T_B64, logic = op == OP_AND || op == OP_OR || op == OP_XOR ||
                                                                    op == OP_NOT || op == OP_CNOT || op == OP_BREV ||
                                                                    op == OP_LOP3;
        if (bits != logic) parse_fail(p, "'%s': .%s does not go with it", p->opcode, sim_type_name(t));
    }
    sim_inst *i = same(p, exec, t, n);
    i->op = (uint8_t)kind, i->flags = (uint16_t)flags, i->round = (uint8_t)r, i->imm = table;
}

static void decode_multiply(parser *p, bool add) {
    sim_round r = rounding(p);
    int flags = flags_of(p);
    bool wide = decode_has(p, "wide"), hi = decode_has(p, "hi"), lo = decode_has(p, "lo");
    sim_type t = decode_type(p);
    if (sim_type_float(t)) {
        sim_operation op = add ? OP_FMA : OP_MUL;
        sim_exec *exec = half_type(t) ? sim_pick_half(flags ? OP_NOT : op, t) : sim_pick_float(op, t, flags, r);
        sim_inst *i = same(p, exec, t, add ? 3 : 2);
        i->op = (uint8_t)op, i->flags = (uint16_t)flags, i->round = (uint8_t)r;
        return;
    }
    if (wide + hi + lo != 1) parse_fail(p, "'%s' needs one of .lo, .hi, .wide", p->opcode);
    sim_operation op = wide ? (add ? OP_MAD_WIDE : OP_MUL_WIDE)
                       : hi ? (add ? OP_MAD_HI : OP_MUL_HI)
                            : (add ? OP_MAD_LO : OP_MUL_LO);
    sim_exec *exec = sim_pick_int(op, t);
    if (!wide) {
        same(p, exec, t, add ? 3 : 2);
        return;
    }
    decode_ops(p, add ? 4 : 3, add ? 4 : 3);
    if (!exec) parse_fail(p, "'%s' is not known here", p->opcode);
    sim_type d = sim_type_size(t) == 2 ? T_U32 : T_U64;
    int a = decode_in(p, &p->ops[1], t), b = decode_in(p, &p->ops[2], t), c = add ? decode_in(p, &p->ops[3], d) : 0,
        out = decode_out(p, &p->ops[0], d);
    sim_inst *i = parse_emit(p);
    i->exec = exec, i->n_in = add ? 3 : 2, i->in[0] = a, i->in[1] = b, i->in[2] = c, i->n_out = 1, i->out[0] = out;
}

/* Sources of types of their own: shifts, bit fields, counts. */
static sim_inst *decode_mixed(parser *p, sim_exec *exec, sim_type out_type, const sim_type *in_types, int n,
                              sim_operation op) {
    int in[4];
    decode_ops(p, n + 1, n + 1);
    if (!exec) parse_fail(p, "'%s' is not known here", p->opcode);
    for (int k = 0; k < n; k++) in[k] = decode_in(p, &p->ops[k + 1], in_types[k]);
    int out = decode_out(p, &p->ops[0], out_type);
    sim_inst *i = parse_emit(p);
    i->exec = exec, i->op = (uint8_t)op, i->type = (uint8_t)in_types[0], i->type2 = (uint8_t)in_types[n > 1 ? 1 : 0];
    i->n_in = (int16_t)n, i->n_out = 1, i->out[0] = out;
    memcpy(i->in, in, (size_t)n * sizeof *in);
    return i;
}

static const char *const compare_names[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                            "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

static void decode_compare(parser *p, bool set) {
    int cmp = -1;
    sim_bool combine = decode_has(p, "and")   ? BOOL_AND
                       : decode_has(p, "or")  ? BOOL_OR
                       : decode_has(p, "xor") ? BOOL_XOR
                                              : BOOL_NONE;
    for (size_t k = 0; k < sizeof compare_names / sizeof *compare_names; k++)
        if (decode_has(p, compare_names[k])) cmp = (int)k;
    if (decode_has(p, "lo")) cmp = CMP_LT;
    if (decode_has(p, "ls")) cmp = CMP_LE;
    if (decode_has(p, "hi")) cmp = CMP_GT;
    if (decode_has(p, "hs")) cmp = CMP_GE;
    if (cmp < 0) parse_fail(p, "'%s' names no comparison", p->opcode);
    int flags = flags_of(p);
    sim_type result = set ? decode_type(p) : T_PRED, t = decode_type(p);
    bool is_float = sim_type_float(t);
    sim_exec *exec = is_float        ? sim_pick_float(OP_SETP, t, flags, RND_NONE)
                     : cmp <= CMP_GE ? sim_pick_int(OP_SETP, t)
                                     : NULL;
    if (!exec) parse_fail(p, "'%s' is not known here", p->opcode);
    decode_ops(p, combine ? 4 : 3, combine ? 4 : 3);
    int a = decode_in(p, &p->ops[1], t), b = decode_in(p, &p->ops[2], t),
        c = combine ? decode_predicate(p, &p->ops[3]) : 0;
    const operand *d = &p->ops[0];
    int out, second = -1;
    if (set) {
        out = parse_new_row(p, false);
    } else {
        out = decode_out_predicate(p, d);
        if (d->second) second = decode_out_predicate(p, d->second);
    }
    sim_inst *i = parse_emit(p);
    i->exec = exec, i->op = (uint8_t)cmp, i->sub = (uint8_t)combine, i->type = (uint8_t)t, i->flags = (uint16_t)flags;
    i->n_in = combine ? 3 : 2, i->in[0] = a, i->in[1] = b, i->in[2] = c;
    i->n_out = second >= 0 ? 2 : 1, i->out[0] = out, i->out[1] = second;
    if (set) { /* all ones, or 1.0 for a float result */
        if (t == T_F16X2 || t == T_BF16X2 || sim_type_size(result) != 4)
            parse_fail(p, "'%s' is not known here", p->opcode);
        int yes = parse_constant(p, result == T_F32 ? 0x3f800000 : 0xffffffff, false), no = parse_constant(p, 0, false),
            to = decode_out(p, d, result);
        sim_inst *s = parse_emit(p);
        s->exec = sim_pick_int(OP_SELP, T_B32), s->propagates = false;
        s->n_in = 3, s->in[0] = yes, s->in[1] = no, s->in[2] = out, s->n_out = 1, s->out[0] = to;
    }
}

static void decode_select(parser *p) {
    sim_type t = decode_type(p);
    decode_ops(p, 4, 4);
    int a = decode_in(p, &p->ops[1], t), b = decode_in(p, &p->ops[2], t), c = decode_predicate(p, &p->ops[3]),
        d = decode_out(p, &p->ops[0], t);
    sim_inst *i = parse_emit(p);
    i->exec = sim_pick_int(OP_SELP, t), i->propagates = false;
    if (!i->exec) parse_fail(p, "'%s' is not known here", p->opcode);
    i->n_in = 3, i->in[0] = a, i->in[1] = b, i->in[2] = c, i->n_out = 1, i->out[0] = d;
}

static void decode_move(parser *p) {
    sim_type t = decode_type(p);
    decode_ops(p, 2, 2);
    const operand *d = &p->ops[0], *s = &p->ops[1];
    if (t == T_PRED) {
        int a = decode_predicate(p, s), out = decode_out_predicate(p, d);
        sim_inst *i = parse_emit(p);
        i->exec = sim_exec_predicate_mov, i->n_in = 1, i->in[0] = a, i->n_out = 1, i->out[0] = out;
        return;
    }
    int size = sim_type_size(t);
    const operand *vector = s->kind == OPD_VECTOR ? s : d->kind == OPD_VECTOR ? d : NULL;
    if (vector) {
        int n = vector->n, each = n ? size / n : 0;
        if ((n != 2 && n != 4) || each * n != size || each < 1 || (d->kind == OPD_VECTOR && s->kind == OPD_VECTOR))
            parse_fail(p, "'%s': this vector does not fit", p->opcode);
        sim_type part = each == 1 ? T_B8 : each == 2 ? T_B16 : T_B32;
        int rows[4], whole;
        for (int k = 0; k < n; k++) {
            const operand *o = &vector->items[k];
            if (o->kind == OPD_REGISTER && sim_type_size(o->type) != each && each > 1)
                parse_fail(p, "'%s': element of another size", p->opcode);
            rows[k] = vector == s               ? decode_in_wide(p, o, part)
                      : o->kind == OPD_REGISTER ? o->row
                                                : decode_out(p, o, part);
        }
        whole = vector == s ? decode_out(p, d, t) : decode_in(p, s, t);
        sim_inst *i = parse_emit(p);
        i->exec = vector == s ? sim_exec_pack : sim_exec_unpack;
        i->type = size == 8 ? T_B64 : T_B32, i->imm = each;
        i->propagates = vector != s;
        int32_t *list = vector == s ? i->in : i->out;
        for (int k = 0; k < n; k++) list[k] = rows[k];
        i->n_in = vector == s ? (int16_t)n : 1, i->n_out = vector == s ? 1 : (int16_t)n;
        if (vector == s) i->out[0] = whole;
        else i->in[0] = whole;
        return;
    }
    same(p, size == 8 ? sim_exec_mov64 : sim_exec_mov32, t, 1);
}

static void decode_convert(parser *p) {
    sim_round r = rounding(p);
    int flags = flags_of(p);
    bool satfinite = decode_has(p, "satfinite");
    sim_type to = decode_type(p), from = decode_type(p);
    if (satfinite && to != T_TF32) parse_fail(p, "'%s' is not known here", p->opcode);
    if (to == T_F16X2 || to == T_BF16X2) {
        decode_ops(p, 3, 3);
        if (from != T_F32 || (r != RND_RN && r != RND_RZ)) parse_fail(p, "'%s' is not known here", p->opcode);
        int a = decode_in(p, &p->ops[1], T_F32), b = decode_in(p, &p->ops[2], T_F32), d = decode_out(p, &p->ops[0], to);
        sim_inst *i = parse_emit(p);
        i->exec = sim_exec_cvt_pack, i->type = (uint8_t)to, i->round = (uint8_t)r, i->flags = (uint16_t)flags;
        i->n_in = 2, i->in[0] = a, i->in[1] = b, i->n_out = 1, i->out[0] = d;
        return;
    }
    decode_ops(p, 2, 2);
    const operand *d = &p->ops[0];
    bool float_to = sim_type_float(to), float_from = sim_type_float(from);
    if (float_to && float_from && r == RND_NONE && (sim_type_size(to) < sim_type_size(from)))
        parse_fail(p, "'%s' needs a rounding", p->opcode);
    if (float_to && !float_from && r == RND_NONE) parse_fail(p, "'%s' needs a rounding", p->opcode);
    if (!float_to && float_from && r != RND_RNI && r != RND_RZI && r != RND_RMI && r != RND_RPI)
        parse_fail(p, "'%s' needs an integer rounding", p->opcode);
    if (to == T_BF16 && float_from && from != T_F32 && from != T_BF16 && p->module->target < 90)
        parse_fail(p, "'%s' needs sm_90", p->opcode);
    if (d->kind != OPD_REGISTER || d->type == T_PRED || sim_type_size(d->type) < sim_type_size(to))
        parse_fail(p, "'%s': register for the result is too small", p->opcode);
    int a = decode_in_wide(p, &p->ops[1], from);
    bool exact = sim_type_size(d->type) == sim_type_size(to);
    sim_inst *i = parse_emit(p);
    i->exec = exact ? sim_pick_cvt(to, from, flags, r) : sim_pick_cvt(to, from, 1 << 15, r);
    i->type = (uint8_t)to, i->type2 = (uint8_t)from, i->round = (uint8_t)r, i->flags = (uint16_t)flags,
    i->imm = sim_type_size(d->type);
    i->n_in = 1, i->in[0] = a, i->n_out = 1, i->out[0] = d->row;
}

/* add.cc, addc, sub.cc, subc, mad.cc, madc: the carry flag is a row of the function. */
bool decode_carry(parser *p, const char *name) {
    const size_t length = strlen(name);
    const bool reads = name[length - 1] == 'c', sub = strncmp(name, "sub", 3) == 0, mad = strncmp(name, "mad", 3) == 0;
    if (length != (reads ? 4u : 3u) || (!sub && !mad && strncmp(name, "add", 3) != 0)) return false;
    const bool writes = decode_has(p, "cc");
    if (!reads && !writes) return false;
    const bool hi = mad && decode_has(p, "hi"), lo = mad && decode_has(p, "lo");
    const sim_type t = decode_type(p);
    if (sim_type_size(t) < 4 || sim_type_float(t) || (mad && hi == lo))
        parse_fail(p, "instruction '%s' is not known here", p->opcode);
    const int n = mad ? 3 : 2, flag = parse_special(p, SR_CARRY);
    sim_inst *i = same(p, sim_exec_carry, t, n);
    i->op = hi ? OP_MAD_HI : mad ? OP_MAD_LO : sub ? OP_SUB : OP_ADD;
    if (reads) i->in[i->n_in++] = flag;
    if (writes) i->out[i->n_out++] = flag;
    return true;
}

static void decode_slct(parser *p) {
    int flags = flags_of(p);
    sim_type t = decode_type(p), c = decode_type(p);
    decode_mixed(p, sim_pick_int(OP_SLCT, t), t, (sim_type[]){t, t, c}, 3, OP_SLCT);
    p->func->code[p->func->n_code - 1].type2 = (uint8_t)c, p->func->code[p->func->n_code - 1].flags = (uint16_t)flags;
}

static void decode_funnel_shift(parser *p) {
    bool left = decode_has(p, "l"), right = decode_has(p, "r"), wrap = decode_has(p, "wrap"),
         clamp = decode_has(p, "clamp");
    sim_type t = decode_type(p);
    if (left == right || wrap == clamp) parse_fail(p, "'%s' is not known here", p->opcode);
    sim_operation op = left ? (wrap ? OP_SHF_L_WRAP : OP_SHF_L_CLAMP) : (wrap ? OP_SHF_R_WRAP : OP_SHF_R_CLAMP);
    same(p, sim_pick_int(op, t), t, 3);
}

static void decode_permute(parser *p) {
    static const char *const modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
    sim_operation op = OP_PRMT;
    for (int k = 0; k < 6; k++)
        if (decode_has(p, modes[k])) op = (sim_operation)(OP_PRMT_F4E + k);
    sim_type t = decode_type(p);
    sim_inst *i = same(p, sim_pick_int(op, t), t, 3);
    i->op = (uint8_t)op, i->propagates = false;
}

static void decode_testp(parser *p) {
    static const char *const kinds[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
    int kind = -1;
    for (int k = 0; k < 6; k++)
        if (decode_has(p, kinds[k])) kind = k;
    sim_type t = decode_type(p);
    decode_ops(p, 2, 2);
    int a = decode_in(p, &p->ops[1], t), d = decode_out_predicate(p, &p->ops[0]);
    sim_inst *i = parse_emit(p);
    i->exec = sim_pick_float(OP_TESTP, t, 0, RND_NONE), i->sub = (uint8_t)kind, i->type = (uint8_t)t;
    if (!i->exec || kind < 0) parse_fail(p, "'%s' is not known here", p->opcode);
    i->n_in = 1, i->in[0] = a, i->n_out = 1, i->out[0] = d;
}

/* popc, clz, bfind, bfe, bfi, bmsk */
static bool decode_bits(parser *p, const char *name) {
    if (strcmp(name, "popc") == 0 || strcmp(name, "clz") == 0 || strcmp(name, "bfind") == 0) {
        bool shift = decode_has(p, "shiftamt");
        sim_type t = decode_type(p);
        sim_operation op = name[0] == 'p' ? OP_POPC : name[0] == 'c' ? OP_CLZ : shift ? OP_BFIND_SHIFT : OP_BFIND;
        decode_mixed(p, sim_pick_int(op, t), T_U32, &t, 1, op);
    } else if (strcmp(name, "bfe") == 0) {
        sim_type t = decode_type(p);
        sim_inst *i = decode_mixed(p, sim_pick_int(OP_BFE, t), t, (sim_type[]){t, T_U32, T_U32}, 3, OP_BFE);
        i->propagates = sim_type_size(t) == 8;
    } else if (strcmp(name, "bfi") == 0) {
        sim_type t = decode_type(p);
        sim_inst *i = decode_mixed(p, sim_pick_int(OP_BFI, t), t, (sim_type[]){t, t, T_U32, T_U32}, 4, OP_BFI);
        i->propagates = sim_type_size(t) == 8;
    } else if (strcmp(name, "bmsk") == 0) {
        bool clamp = decode_has(p, "clamp"), wrap = decode_has(p, "wrap");
        sim_type t = decode_type(p);
        if (clamp == wrap || t != T_B32) parse_fail(p, "'%s' is not known here", p->opcode);
        same(p, sim_pick_int(OP_BMSK, wrap ? T_S32 : T_U32), t, 2);
    } else {
        return false;
    }
    return true;
}

bool decode_arithmetic(parser *p, const char *name) {
    if (decode_carry(p, name) || decode_bits(p, name)) return true;
    for (size_t k = 0; k < sizeof simple / sizeof *simple; k++)
        if (strcmp(name, simple[k].name) == 0) {
            decode_simple(p, simple[k].op, simple[k].operands);
            return true;
        }
    if (strcmp(name, "mul") == 0 || strcmp(name, "mad") == 0) {
        decode_multiply(p, name[1] == 'a');
    } else if (strcmp(name, "mul24") == 0 || strcmp(name, "mad24") == 0) {
        if (!decode_has(p, "lo")) parse_fail(p, "'%s' is not known here", p->opcode);
        sim_type t = decode_type(p);
        same(p, sim_pick_int(name[1] == 'a' ? OP_MAD24 : OP_MUL24, t), t, name[1] == 'a' ? 3 : 2);
    } else if (strcmp(name, "setp") == 0 || strcmp(name, "set") == 0) {
        decode_compare(p, name[3] == 0);
    } else if (strcmp(name, "selp") == 0) {
        decode_select(p);
    } else if (strcmp(name, "slct") == 0) {
        decode_slct(p);
    } else if (strcmp(name, "mov") == 0) {
        decode_move(p);
    } else if (strcmp(name, "cvt") == 0) {
        decode_convert(p);
    } else if (strcmp(name, "shl") == 0 || strcmp(name, "shr") == 0) {
        sim_type t = decode_type(p);
        sim_operation op = name[2] == 'l' ? OP_SHL : OP_SHR;
        decode_mixed(p, sim_pick_int(op, t), t, (sim_type[]){t, T_U32}, 2, op);
    } else if (strcmp(name, "shf") == 0) {
        decode_funnel_shift(p);
    } else if (strcmp(name, "prmt") == 0) {
        decode_permute(p);
    } else if (strcmp(name, "dp4a") == 0) {
        sim_type a = decode_type(p), b = decode_type(p);
        decode_mixed(p, sim_pick_int(OP_DP4A, a), T_U32, (sim_type[]){a, b, T_U32}, 3, OP_DP4A);
    } else if (strcmp(name, "testp") == 0) {
        decode_testp(p);
    } else {
        return false;
    }
    return true;
}
