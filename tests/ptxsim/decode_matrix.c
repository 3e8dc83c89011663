/* SPDX-License-Identifier: MIT
 * Decoding of instructions on matrices: ldmatrix, mma and wmma. */
#include "parse.h"

#include <stdlib.h>
#include <string.h>

/* More than an instruction has places for are a list of the function. */
static void set_inputs(parser *p, sim_inst *i, const int32_t *in, int n) {
    sim_func *f = p->func;
    i->n_in = (int16_t)n;
    if (n <= SIM_MAX_IN) {
        memcpy(i->in, in, (size_t)n * sizeof *in);
        return;
    }
    int32_t *grown = realloc(f->inputs, (size_t)(f->n_inputs + n) * sizeof *grown);
    if (!grown) parse_fail(p, "out of memory");
    f->inputs = grown, i->target = (uint32_t)f->n_inputs;
    memcpy(grown + f->n_inputs, in, (size_t)n * sizeof *in);
    f->n_inputs += n;
}

static void decode_ldmatrix(parser *p) {
    decode_need(p, 75);
    bool trans = decode_has(p, "trans");
    int n = decode_has(p, "x1") ? 1 : decode_has(p, "x2") ? 2 : decode_has(p, "x4") ? 4 : 0;
    if (!decode_has(p, "sync") || !decode_has(p, "aligned") || !decode_has(p, "m8n8") || !n)
        parse_fail(p, "instruction '%s' is not known here", p->opcode);
    sim_space space = decode_space(p);
    if (space != SP_SHARED && space != SP_GENERIC) parse_fail(p, "'%s' reads shared memory", p->opcode);
    if (decode_type(p) != T_B16) parse_fail(p, "'%s' is not known here", p->opcode);
    decode_ops(p, 2, 2);
    int64_t offset;
    int base = decode_address(p, &p->ops[1], &space, &offset), out[4];
    const operand *d = &p->ops[0];
    if (d->kind != OPD_VECTOR || d->n != n) parse_fail(p, "'%s': %d registers expected", p->opcode, n);
    for (int k = 0; k < n; k++) out[k] = decode_out(p, &d->items[k], T_B32);
    sim_inst *i = decode_access(p, sim_exec_ldmatrix, space, T_B16, base, offset);
    i->vec = (uint8_t)n, i->n_out = (int16_t)n, i->flags = trans ? FLAG_TRANS : 0, i->meets = MEETS_WARP;
    memcpy(i->out, out, (size_t)n * sizeof *out);
}

/* The shapes M x 8 x K of each type, and what they need. */
static const struct {
    const char *shape;
    sim_type type;
    int m, k, sm;
} products[] = {
    {"m16n8k8", T_F16, 16, 8, 75},    {"m16n8k16", T_F16, 16, 16, 80}, {"m16n8k8", T_BF16, 16, 8, 80},
    {"m16n8k16", T_BF16, 16, 16, 80}, {"m16n8k4", T_TF32, 16, 4, 80},  {"m16n8k8", T_TF32, 16, 8, 80},
    {"m8n8k4", T_F64, 8, 4, 80},      {"m16n8k4", T_F64, 16, 4, 90},   {"m16n8k8", T_F64, 16, 8, 90},
    {"m16n8k16", T_F64, 16, 16, 90},  {"m8n8k16", T_S8, 8, 16, 75},    {"m16n8k16", T_S8, 16, 16, 80},
    {"m16n8k32", T_S8, 16, 32, 80},
};

static bool is_byte(sim_type t) { return t == T_S8 || t == T_U8; }

/* op: K, vec: M; types of A, of B in `sub`, of C and D in `type2`. Fragments: A in[0..], B, C; D out. */
static void decode_mma(parser *p) {
    enum { SHAPES = sizeof products / sizeof *products };
    const char *shape = NULL;
    int at = 0;
    for (int k = 0; k < SHAPES && !shape; k++)
        if (decode_has(p, products[k].shape)) shape = products[k].shape;
    if (!shape || !decode_has(p, "sync") || !decode_has(p, "aligned") || !decode_has(p, "row") || !decode_has(p, "col"))
        parse_fail(p, "instruction '%s' is not known here", p->opcode);
    bool saturates = decode_has(p, "satfinite");
    sim_type d = decode_type(p), a = decode_type(p), b = decode_type(p), c = decode_type(p);
    while (at < SHAPES && (strcmp(products[at].shape, shape) || products[at].type != (a == T_U8 ? T_S8 : a))) at++;
    sim_type sums = a == T_F64 ? T_F64 : is_byte(a) ? T_S32 : T_F32;
    if (at == SHAPES || c != d || (a != b && !(is_byte(a) && is_byte(b))) ||
        (d != sums && !(a == T_F16 && d == T_F16)) || (saturates && !is_byte(a)))
        parse_fail(p, "instruction '%s' is not known here", p->opcode);
    decode_need(p, products[at].sm);
    const int m = products[at].m, k = products[at].k, per = sim_type_size(a) < 4 ? 4 / sim_type_size(a) : 1;
    const int n_c = m * 8 / 32 / (d == T_F16 ? 2 : 1), counts[4] = {n_c, m * k / 32 / per, 8 * k / 32 / per, n_c};
    const sim_type word = a == T_F64 ? T_F64 : T_B32, sum_word = d == T_F16 ? T_B32 : d;
    decode_ops(p, 4, 4);
    int32_t in[16], out[4];
    int n = 0;
    for (int o = 0; o < 4; o++) {
        const operand *v = &p->ops[o], *items = v->kind == OPD_VECTOR ? v->items : v;
        if ((v->kind == OPD_VECTOR ? v->n : 1) != counts[o])
            parse_fail(p, "'%s': operand %d needs %d registers", p->opcode, o, counts[o]);
        for (int e = 0; o && e < counts[o]; e++) in[n++] = decode_in(p, &items[e], o == 3 ? sum_word : word);
    }
    for (int e = 0; e < n_c; e++) out[e] = decode_out(p, &p->ops[0].items[e], sum_word);
    sim_inst *i = parse_emit(p);
    i->exec = sim_exec_mma, i->propagates = false, i->meets = MEETS_WARP, i->op = (uint8_t)k, i->vec = (uint8_t)m;
    i->type = (uint8_t)a, i->sub = (uint8_t)b, i->type2 = (uint8_t)d, i->flags = saturates ? FLAG_SAT : 0;
    i->n_out = (int16_t)n_c;
    set_inputs(p, i, in, n);
    memcpy(i->out, out, (size_t)n_c * sizeof *out);
}

/* --- wmma: the same products, of matrices that warps load and store themselves. Which thread has which element is
 * nobody's business but the machine's. */

typedef struct wmma_shape {
    const char *name;
    int m, n, k;
} wmma_shape;

static wmma_shape wmma_shape_of(parser *p) {
    static const wmma_shape shapes[] = {{"m16n16k16", 16, 16, 16},
                                        {"m32n8k16", 32, 8, 16},
                                        {"m8n32k16", 8, 32, 16},
                                        {"m16n16k8", 16, 16, 8},
                                        {"m8n8k4", 8, 8, 4}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        if (decode_has(p, shapes[k].name)) return shapes[k];
    parse_fail(p, "instruction '%s' is not known here", p->opcode);
}

/* Registers of a fragment of `elements`: of f16, A and B have each element twice. */
static int wmma_registers(int elements, sim_type t, bool sums) {
    const int size = sim_type_size(t);
    return elements / 32 * (t == T_F16 && !sums ? 2 : 1) * (size > 4 ? 4 : size) / 4;
}

static void wmma_items(parser *p, const operand *o, int n, const operand **items) {
    *items = o->kind == OPD_VECTOR ? o->items : o;
    if ((o->kind == OPD_VECTOR ? o->n : 1) != n) parse_fail(p, "'%s': a fragment has %d registers", p->opcode, n);
}

/* op: rows, sub: columns of the matrix; type; vec: registers. in[0]: address, in[1]: the stride, if there is one; then,
 * of a store, registers. FLAG_TRANS: by columns; FLAG_RELU: of the result. */
static void decode_wmma_access(parser *p, bool store) {
    const bool a = decode_has(p, "a"), b = decode_has(p, "b"), c = decode_has(p, store ? "d" : "c");
    const bool by_rows = decode_has(p, "row"), by_columns = decode_has(p, "col");
    const wmma_shape s = wmma_shape_of(p);
    sim_space space = decode_space(p);
    const sim_type t = decode_type(p);
    const bool known = t == T_F16 || t == T_F64 || (c ? t == T_F32 : t == T_BF16 || t == T_TF32);
    if (a + b + c != 1 || by_rows == by_columns || !known || (store && !c))
        parse_fail(p, "instruction '%s' is not known here", p->opcode);
    decode_need(p, t == T_F16 || t == T_F32 ? 70 : 80);
    decode_ops(p, 2, 3);
    const int rows = b ? s.k : s.m, columns = a ? s.k : s.n, n = wmma_registers(rows * columns, t, c);
    const operand *items;
    wmma_items(p, &p->ops[store ? 1 : 0], n, &items);
    const sim_type word = t == T_F64 || t == T_F32 ? t : T_B32;
    int64_t offset;
    int32_t in[2 + 8], out[8];
    in[0] = decode_address(p, &p->ops[store ? 0 : 1], &space, &offset);
    in[1] = p->n_ops == 3 ? decode_in(p, &p->ops[2], T_U32)
                          : parse_constant(p, (uint64_t)(by_rows ? columns : rows), false);
    for (int q = 0; q < n; q++)
        if (store) in[2 + q] = decode_in(p, &items[q], word);
        else out[q] = decode_out(p, &items[q], word);
    sim_inst *i = decode_access(p, store ? sim_exec_wmma_store : sim_exec_wmma_load, space, t, in[0], offset);
    i->meets = MEETS_WARP, i->op = (uint8_t)rows, i->sub = (uint8_t)columns, i->vec = (uint8_t)n;
    i->flags = by_columns ? FLAG_TRANS : 0;
    set_inputs(p, i, in, store ? 2 + n : 2);
    i->n_out = store ? 0 : (int16_t)n;
    if (!store) memcpy(i->out, out, (size_t)n * sizeof *out);
}

/* op: M, vec: N, imm: K; types of A and B, of D in `type2`, of C in `sub`. A, B, C in, D out. */
static void decode_wmma_product(parser *p) {
    decode_has(p, "row"), decode_has(p, "row"), decode_has(p, "col"), decode_has(p, "col");
    const wmma_shape s = wmma_shape_of(p);
    sim_type d = decode_type(p), a = decode_type(p), b = decode_type_or_none(p), c = decode_type_or_none(p);
    if (b == T_NONE) c = a, a = b = T_F16; /* .f32.f16: D and C */
    const bool sums = d == T_F64 ? c == T_F64 : (d == T_F32 || d == T_F16) && (c == T_F32 || c == T_F16);
    const int k = a == T_F64 ? 4 : a == T_TF32 ? 8 : 16;
    if (a != b || !sums || (d == T_F64) != (a == T_F64) || (a != T_F16 && c != d) || s.k != k ||
        (a != T_F16 && a != T_BF16 && a != T_TF32 && a != T_F64))
        parse_fail(p, "instruction '%s' is not known here", p->opcode);
    decode_need(p, a == T_F16 ? 70 : 80);
    decode_ops(p, 4, 4);
    const int count[4] = {wmma_registers(s.m * s.n, d, true), wmma_registers(s.m * s.k, a, false),
                          wmma_registers(s.k * s.n, a, false), wmma_registers(s.m * s.n, c, true)};
    const sim_type word[4] = {d == T_F16 ? T_B32 : d, a == T_F64 ? a : T_B32, a == T_F64 ? a : T_B32,
                              c == T_F16 ? T_B32 : c};
    int32_t in[3 * 8], out[8];
    int n = 0;
    for (int o = 0; o < 4; o++) {
        const operand *items;
        wmma_items(p, &p->ops[o], count[o], &items);
        for (int q = 0; q < count[o]; q++)
            if (o) in[n++] = decode_in(p, &items[q], word[o]);
            else out[q] = decode_out(p, &items[q], word[o]);
    }
    sim_inst *i = parse_emit(p);
    i->exec = sim_exec_wmma, i->propagates = false, i->meets = MEETS_WARP;
    i->op = (uint8_t)s.m, i->vec = (uint8_t)s.n, i->imm = s.k;
    i->type = (uint8_t)a, i->type2 = (uint8_t)d, i->sub = (uint8_t)c;
    set_inputs(p, i, in, n);
    i->n_out = (int16_t)count[0];
    memcpy(i->out, out, (size_t)count[0] * sizeof *out);
}

static void decode_wmma(parser *p) {
    const bool load = decode_has(p, "load"), store = decode_has(p, "store"), product = decode_has(p, "mma");
    if (load + store + product != 1 || !decode_has(p, "sync") || !decode_has(p, "aligned"))
        parse_fail(p, "instruction '%s' is not known here", p->opcode);
    if (product) decode_wmma_product(p);
    else decode_wmma_access(p, store);
}

bool decode_matrix(parser *p, const char *name) {
    if (strcmp(name, "ldmatrix") == 0) decode_ldmatrix(p);
    else if (strcmp(name, "mma") == 0) decode_mma(p);
    else if (strcmp(name, "wmma") == 0) decode_wmma(p);
    else return false;
    return true;
}
