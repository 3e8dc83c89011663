/* SPDX-License-Identifier: MIT
 * Decoding of memory access, warp-wide instructions, and control. */
#include "parse.h"

#include <stdlib.h>
#include <string.h>

/* Cache hints, scopes and the like change nothing here. Returns whether the access is volatile or orders memory. */
static bool skip_hints(parser *p) {
    static const char *const names[] = {"ca",   "cg",  "cs",  "lu",  "cv",      "wb",      "wt",   "nc",
                                        "weak", "cta", "gpu", "sys", "cluster", "unified", "noftz"};
    static const char *const strong[] = {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "sc"};
    bool found = false;
    for (int k = 1; k < p->n_parts; k++) {
        const char *s = p->part[k];
        if (strncmp(s, "L1::", 4) == 0 || strncmp(s, "L2::", 4) == 0 || strcmp(s, "level") == 0) p->used[k] = true;
        for (size_t n = 0; n < sizeof names / sizeof *names; n++)
            if (strcmp(s, names[n]) == 0) p->used[k] = true;
        for (size_t n = 0; n < sizeof strong / sizeof *strong; n++)
            if (strcmp(s, strong[n]) == 0) p->used[k] = found = true;
    }
    return found;
}

sim_space decode_space(parser *p) {
    if (decode_has(p, "global")) return SP_GLOBAL;
    if (decode_has(p, "shared") || decode_has(p, "shared::cta")) return SP_SHARED;
    if (decode_has(p, "local")) return SP_LOCAL;
    if (decode_has(p, "const")) return SP_CONST;
    if (decode_has(p, "param") || decode_has(p, "param::entry") || decode_has(p, "param::func")) return SP_PARAM;
    return SP_GENERIC;
}

static int vector_of(parser *p) {
    return decode_has(p, "v2") ? 2 : decode_has(p, "v4") ? 4 : decode_has(p, "v8") ? 8 : 1;
}

sim_inst *decode_access(parser *p, sim_exec *exec, sim_space space, sim_type t, int base, int64_t offset) {
    sim_inst *i = parse_emit(p);
    i->exec = exec, i->space = (uint8_t)space, i->type = (uint8_t)t, i->imm = offset;
    i->in[0] = base, i->n_in = 1, i->propagates = false;
    i->memory = (uint32_t)p->func->n_memory++;
    return i;
}

static void decode_load(parser *p) {
    bool strong = skip_hints(p);
    sim_space space = decode_space(p);
    int n = vector_of(p);
    sim_type t = decode_type(p);
    decode_ops(p, 2, 3);
    const operand *d = &p->ops[0], *items = d->kind == OPD_VECTOR ? d->items : d;
    if ((d->kind == OPD_VECTOR ? d->n : 1) != n || n * sim_type_size(t) > 32 ||
        (n * sim_type_size(t) > 16 && p->module->target < 100))
        parse_fail(p, "'%s': vector of another length", p->opcode);
    int64_t offset;
    int base = decode_address(p, &p->ops[1], &space, &offset), slot = sim_type_size(t), out[8];
    for (int k = 0; k < n; k++) {
        const operand *o = &items[k];
        if (o->kind == OPD_SINK) {
            out[k] = parse_new_row(p, true);
            continue;
        }
        if (o->kind != OPD_REGISTER || o->type == T_PRED || sim_type_size(o->type) < sim_type_size(t))
            parse_fail(p, "'%s': the result's register is too small", p->opcode);
        if (sim_type_size(o->type) > slot) slot = sim_type_size(o->type);
        out[k] = o->row;
    }
    sim_inst *i = decode_access(p, sim_exec_load, space, t, base, offset);
    i->vec = (uint8_t)n, i->sub = (uint8_t)slot, i->n_out = (int16_t)n;
    memcpy(i->out, out, (size_t)n * sizeof *out);
    if (strong) i->flags |= FLAG_VOLATILE;
}

static void decode_store(parser *p) {
    bool strong = skip_hints(p);
    sim_space space = decode_space(p);
    int n = vector_of(p);
    sim_type t = decode_type(p);
    decode_ops(p, 2, 3);
    const operand *s = &p->ops[1], *items = s->kind == OPD_VECTOR ? s->items : s;
    if ((s->kind == OPD_VECTOR ? s->n : 1) != n || n * sim_type_size(t) > 32 ||
        (n * sim_type_size(t) > 16 && p->module->target < 100))
        parse_fail(p, "'%s': vector of another length", p->opcode);
    int64_t offset;
    int base = decode_address(p, &p->ops[0], &space, &offset), in[8];
    if (space == SP_CONST || space == SP_PARAM) parse_fail(p, "'%s' writes what is read-only", p->opcode);
    for (int k = 0; k < n; k++) in[k] = decode_in_wide(p, &items[k], t);
    sim_inst *i = decode_access(p, sim_exec_store, space, t, base, offset);
    i->vec = (uint8_t)n, i->n_in = (int16_t)(n + 1);
    memcpy(i->in + 1, in, (size_t)n * sizeof *in);
    if (strong) i->flags |= FLAG_VOLATILE;
}

static const char *const atomic_names[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"};

static void decode_atomic(parser *p, bool returns) {
    int op = -1;
    skip_hints(p);
    for (int k = 0; k < 10; k++)
        if (decode_has(p, atomic_names[k])) op = k;
    sim_space space = decode_space(p);
    sim_type t = decode_type(p);
    if (op < 0 || sim_type_size(t) < 2 || (space != SP_GENERIC && space != SP_GLOBAL && space != SP_SHARED))
        parse_fail(p, "'%s' is not known here", p->opcode);
    int n = op == 7 ? 2 : 1, first = returns ? 1 : 0;
    decode_ops(p, first + 1 + n, first + 1 + n);
    int64_t offset;
    int base = decode_address(p, &p->ops[first], &space, &offset), a = decode_in(p, &p->ops[first + 1], t),
        b = n == 2 ? decode_in(p, &p->ops[first + 2], t) : 0;
    int d = returns ? decode_out(p, &p->ops[0], t) : 0;
    sim_inst *i = decode_access(p, sim_exec_atomic, space, t, base, offset);
    i->op = (uint8_t)op, i->n_in = (int16_t)(1 + n), i->in[1] = a, i->in[2] = b, i->vec = 1;
    if (returns) i->n_out = 1, i->out[0] = d, i->flags |= FLAG_ATOMIC_RETURNS;
}

static void decode_cp(parser *p) {
    if (!decode_has(p, "async")) parse_fail(p, "instruction '%s' is not known here", p->opcode);
    decode_need(p, 80);
    if (decode_has(p, "commit_group")) {
        sim_inst *i = parse_emit(p);
        i->exec = sim_exec_cp_commit;
        return;
    }
    bool all = decode_has(p, "wait_all"), group = decode_has(p, "wait_group");
    if (all || group) {
        if (group && (p->n_ops != 1 || p->ops[0].kind != OPD_INT)) parse_fail(p, "'%s' needs a number", p->opcode);
        sim_inst *i = parse_emit(p);
        i->exec = sim_exec_cp_wait, i->imm = all ? -1 : (int64_t)p->ops[0].bits;
        return;
    }
    bool ca = decode_has(p, "ca"), cg = decode_has(p, "cg");
    bool shared = decode_has(p, "shared") || decode_has(p, "shared::cta"), global = decode_has(p, "global");
    skip_hints(p);
    if (ca == cg || !shared || !global) parse_fail(p, "instruction '%s' is not known here", p->opcode);
    decode_ops(p, 3, 4);
    sim_space to = SP_SHARED, from = SP_GLOBAL;
    int64_t to_offset, from_offset;
    int d = decode_address(p, &p->ops[0], &to, &to_offset), s = decode_address(p, &p->ops[1], &from, &from_offset);
    if (p->ops[2].kind != OPD_INT) parse_fail(p, "'%s' needs a size", p->opcode);
    uint64_t bytes = p->ops[2].bits;
    if (bytes != 16 && (cg || (bytes != 4 && bytes != 8)))
        parse_fail(p, "'%s' cannot copy %llu bytes", p->opcode, (unsigned long long)bytes);
    int size = -1;
    if (p->n_ops == 4) {
        const operand *o = &p->ops[3];
        if (o->kind == OPD_REGISTER && o->type == T_PRED)
            parse_fail(p, "'%s': the form that ignores the source is not known here", p->opcode);
        size = decode_in(p, o, T_U32);
    }
    sim_inst *i = decode_access(p, sim_exec_cp_async, SP_SHARED, T_B8, d, to_offset);
    i->in[1] = s, i->n_in = size >= 0 ? 3 : 2, i->in[2] = size, i->vec = (uint8_t)bytes;
    i->target = (uint32_t)from_offset;
    p->func->n_memory++; /* the global side has a cache of its own */
}

static void decode_shfl(parser *p) {
    static const char *const modes[] = {"up", "down", "bfly", "idx"};
    int mode = -1;
    if (!decode_has(p, "sync")) parse_fail(p, "'%s' needs .sync", p->opcode);
    for (int k = 0; k < 4; k++)
        if (decode_has(p, modes[k])) mode = k;
    if (mode < 0 || decode_type(p) != T_B32) parse_fail(p, "instruction '%s' is not known here", p->opcode);
    decode_ops(p, 5, 5);
    int in[4];
    for (int k = 0; k < 4; k++) in[k] = decode_in(p, &p->ops[k + 1], k ? T_U32 : T_B32);
    int d = decode_out(p, &p->ops[0], T_B32),
        second = p->ops[0].second ? decode_out_predicate(p, p->ops[0].second) : -1;
    sim_inst *i = parse_emit(p);
    i->exec = sim_exec_shfl, i->op = (uint8_t)mode, i->propagates = false, i->meets = 4;
    i->n_in = 4, i->n_out = second >= 0 ? 2 : 1, i->out[0] = d, i->out[1] = second;
    memcpy(i->in, in, sizeof in);
}

static void decode_vote(parser *p) {
    static const char *const modes[] = {"all", "any", "uni", "ballot"};
    int mode = -1;
    if (!decode_has(p, "sync")) parse_fail(p, "'%s' needs .sync", p->opcode);
    for (int k = 0; k < 4; k++)
        if (decode_has(p, modes[k])) mode = k;
    sim_type t = decode_type(p);
    if (mode < 0 || t != (mode == 3 ? T_B32 : T_PRED)) parse_fail(p, "instruction '%s' is not known here", p->opcode);
    decode_ops(p, 3, 3);
    int a = decode_predicate(p, &p->ops[1]), m = decode_in(p, &p->ops[2], T_U32);
    int d = mode == 3 ? decode_out(p, &p->ops[0], T_B32) : decode_out_predicate(p, &p->ops[0]);
    sim_inst *i = parse_emit(p);
    i->exec = sim_exec_vote, i->op = (uint8_t)mode, i->propagates = false, i->meets = 2, i->n_in = 2, i->in[0] = a,
    i->in[1] = m, i->n_out = 1, i->out[0] = d;
}

static void decode_match_redux(parser *p, bool redux) {
    static const char *const modes[] = {"add", "min", "max", "and", "or", "xor"};
    int mode = 0;
    if (!decode_has(p, "sync")) parse_fail(p, "'%s' needs .sync", p->opcode);
    if (redux) {
        decode_need(p, 80);
        mode = -1;
        for (int k = 0; k < 6; k++)
            if (decode_has(p, modes[k])) mode = k;
    } else if (!decode_has(p, "any")) {
        mode = decode_has(p, "all") ? 1 : -1;
    }
    sim_type t = decode_type(p);
    if (mode < 0 || (redux && sim_type_size(t) != 4)) parse_fail(p, "instruction '%s' is not known here", p->opcode);
    decode_ops(p, 3, 3);
    int a = decode_in(p, &p->ops[1], t), m = decode_in(p, &p->ops[2], T_U32), d = decode_out(p, &p->ops[0], T_B32);
    int second = p->ops[0].second ? decode_out_predicate(p, p->ops[0].second) : -1;
    sim_inst *i = parse_emit(p);
    i->exec = redux ? sim_exec_redux : sim_exec_match, i->propagates = false, i->meets = 2;
    i->op = (uint8_t)mode, i->type = (uint8_t)t, i->n_in = 2, i->in[0] = a, i->in[1] = m,
    i->n_out = second >= 0 ? 2 : 1, i->out[0] = d, i->out[1] = second;
}

bool decode_memory(parser *p, const char *name) {
    if (strcmp(name, "ld") == 0 || strcmp(name, "ldu") == 0) decode_load(p);
    else if (strcmp(name, "st") == 0) decode_store(p);
    else if (strcmp(name, "atom") == 0 || strcmp(name, "red") == 0) decode_atomic(p, name[0] == 'a');
    else if (strcmp(name, "cp") == 0) decode_cp(p);
    else if (strcmp(name, "shfl") == 0) decode_shfl(p);
    else if (strcmp(name, "vote") == 0) decode_vote(p);
    else if (strcmp(name, "match") == 0 || strcmp(name, "redux") == 0) decode_match_redux(p, name[0] == 'r');
    else if (strcmp(name, "activemask") == 0) {
        decode_type(p);
        decode_ops(p, 1, 1);
        int d = decode_out(p, &p->ops[0], T_B32);
        sim_inst *i = parse_emit(p);
        i->exec = sim_exec_activemask, i->n_out = 1, i->out[0] = d;
    } else if (strcmp(name, "membar") == 0 || strcmp(name, "fence") == 0) {
        skip_hints(p);
        decode_has(p, "gl");
        decode_has(p, "proxy"), decode_has(p, "async");
        sim_inst *i = parse_emit(p);
        i->exec = sim_exec_fence;
    } else if (strcmp(name, "prefetch") == 0 || strcmp(name, "prefetchu") == 0 || strcmp(name, "nanosleep") == 0 ||
               strcmp(name, "griddepcontrol") == 0 || strcmp(name, "discard") == 0 ||
               strcmp(name, "applypriority") == 0 || strcmp(name, "pmevent") == 0) {
        for (int k = 1; k < p->n_parts; k++) p->used[k] = true;
        parse_emit(p)->kind = K_NOP;
    } else if (strcmp(name, "cvta") == 0) {
        bool to = decode_has(p, "to");
        sim_space space = decode_space(p);
        if (decode_type(p) != T_U64) parse_fail(p, "'%s': only 64-bit addresses are known here", p->opcode);
        decode_ops(p, 2, 2);
        int64_t base = space == SP_SHARED  ? (int64_t)SHARED_WINDOW
                       : space == SP_LOCAL ? (int64_t)LOCAL_WINDOW
                       : space == SP_PARAM ? (int64_t)PARAM_WINDOW
                                           : 0;
        int64_t offset = 0;
        sim_space where = space;
        int a = p->ops[1].kind == OPD_ADDRESS ? decode_address(p, &p->ops[1], &where, &offset)
                                              : decode_in(p, &p->ops[1], T_U64),
            d = decode_out(p, &p->ops[0], T_U64);
        sim_inst *i = parse_emit(p);
        i->exec = sim_exec_cvta, i->imm = to ? -base : base, i->n_in = 1, i->in[0] = a, i->n_out = 1, i->out[0] = d;
    } else if (strcmp(name, "isspacep") == 0) {
        sim_space space = decode_space(p);
        decode_ops(p, 2, 2);
        int a = decode_in(p, &p->ops[1], T_U64), d = decode_out_predicate(p, &p->ops[0]);
        sim_inst *i = parse_emit(p);
        i->exec = sim_exec_isspacep, i->space = (uint8_t)space, i->n_in = 1, i->in[0] = a, i->n_out = 1, i->out[0] = d;
    } else {
        return false;
    }
    return true;
}

/* --- control */

static void decode_barrier(parser *p, const char *name) {
    bool cta = decode_has(p, "cta"), warp = decode_has(p, "warp");
    (void)cta;
    bool sync = decode_has(p, "sync"), arrive = decode_has(p, "arrive"), aligned = decode_has(p, "aligned");
    if (sync == arrive || decode_has(p, "red")) parse_fail(p, "instruction '%s' is not known here", p->opcode);
    if (warp) {
        decode_ops(p, 1, 1);
        int m = decode_in(p, &p->ops[0], T_U32);
        sim_inst *i = parse_emit(p);
        i->exec = sim_exec_warp_sync, i->n_in = 1, i->in[0] = m, i->meets = 1;
        return;
    }
    decode_ops(p, arrive ? 2 : 1, 2);
    int id = decode_in(p, &p->ops[0], T_U32), count = p->n_ops > 1 ? decode_in(p, &p->ops[1], T_U32) : -1;
    sim_inst *i = parse_emit(p);
    i->kind = K_BARRIER, i->n_in = count >= 0 ? 2 : 1, i->in[0] = id, i->in[1] = count, i->propagates = false,
    i->meets = MEETS_WARP;
    if (arrive) i->flags |= FLAG_ARRIVE;
    if (strcmp(name, "barrier") == 0 && !aligned) i->flags |= FLAG_UNALIGNED;
}

static void decode_call(parser *p) {
    decode_has(p, "uni");
    int at = 0;
    const operand *results = NULL, *args = NULL;
    if (at < p->n_ops && p->ops[at].kind == OPD_VECTOR) results = &p->ops[at++];
    if (at >= p->n_ops || p->ops[at].kind != OPD_SYMBOL || !p->ops[at].symbol || p->ops[at].symbol->kind != SYM_FUNC)
        parse_fail(p, "a call needs the name of a function; calls through pointers are not known here");
    sim_func *callee = p->ops[at++].symbol->func, *f = p->func;
    if (at < p->n_ops && p->ops[at].kind == OPD_VECTOR) args = &p->ops[at++];
    struct sim_call *grown = realloc(f->calls, (size_t)(f->n_calls + 1) * sizeof *grown);
    if (!grown) parse_fail(p, "out of memory");
    f->calls = grown;
    struct sim_call *c = &f->calls[f->n_calls];
    memset(c, 0, sizeof *c);
    c->func = callee;
    c->n_args = args ? args->n : 0, c->n_results = results ? results->n : 0;
    if (c->n_args > 16 || c->n_results > 4) parse_fail(p, "a call with too many arguments");
    for (int k = 0; k < c->n_args + c->n_results; k++) {
        const operand *o = k < c->n_args ? &args->items[k] : &results->items[k - c->n_args];
        if (o->kind != OPD_SYMBOL || !o->symbol || o->symbol->kind != SYM_VAR || o->symbol->var->space != SP_LOCAL)
            parse_fail(p, "arguments of a call are .param variables");
        if (k < c->n_args) c->arg[k] = o->symbol->var->offset, c->arg_bytes[k] = o->symbol->var->size;
        else c->result[k - c->n_args] = o->symbol->var->offset, c->result_bytes[k - c->n_args] = o->symbol->var->size;
    }
    sim_inst *i = parse_emit(p);
    i->kind = K_CALL, i->target = (uint32_t)f->n_calls++;
}

bool decode_control(parser *p, const char *name) {
    if (strcmp(name, "bra") == 0) {
        bool uniform = decode_has(p, "uni");
        decode_ops(p, 1, 1);
        if (p->ops[0].kind != OPD_SYMBOL) parse_fail(p, "bra needs a label");
        sim_inst *i = parse_emit(p);
        i->kind = K_BRANCH;
        if (uniform) i->flags |= FLAG_UNIFORM;
        parse_fixup(p, p->ops[0].name);
    } else if (strcmp(name, "brx") == 0) {
        decode_has(p, "idx"), decode_has(p, "uni");
        decode_ops(p, 2, 2);
        int a = decode_in(p, &p->ops[0], T_U32);
        if (p->ops[1].kind != OPD_SYMBOL) parse_fail(p, "brx.idx needs a list of targets");
        sim_inst *i = parse_emit(p);
        i->kind = K_BRANCH_INDEX, i->n_in = 1, i->in[0] = a;
        parse_fixup(p, p->ops[1].name);
    } else if (strcmp(name, "exit") == 0) {
        parse_emit(p)->kind = K_EXIT;
    } else if (strcmp(name, "ret") == 0) {
        decode_has(p, "uni");
        parse_emit(p)->kind = p->func->kernel ? K_EXIT : K_RET;
    } else if (strcmp(name, "trap") == 0 || strcmp(name, "brkpt") == 0) {
        parse_emit(p)->kind = K_TRAP;
    } else if (strcmp(name, "bar") == 0 || strcmp(name, "barrier") == 0) {
        decode_barrier(p, name);
    } else if (strcmp(name, "call") == 0) {
        decode_call(p);
    } else {
        return false;
    }
    return true;
}
