/* SPDX-License-Identifier: MIT
 * Declarations of variables, formal parameters and registers. */
#include "memory.h"
#include "numbers.h"
#include "read.h"

#include <stdlib.h>

sim_type type_by_name(const char *name) {
    for (int t = T_PRED; t < T_COUNT; t++)
        if (strcmp(sim_type_name((sim_type)t), name) == 0) return (sim_type)t;
    return T_NONE;
}

uint64_t parse_var_address(parser *p, sim_var *v) {
    if (v->space == SP_SHARED && v->offset == UINT64_MAX) {
        if (v->external) {
            p->func->dynamic_shared = true;
            if (v->align > p->func->dynamic_align) p->func->dynamic_align = v->align;
            return UINT64_MAX; /* known when the function's static variables are */
        }
        p->func->shared_bytes = parse_round_up(p->func->shared_bytes, v->align);
        v->offset = SHARED_START + p->func->shared_bytes;
        p->func->shared_bytes += v->size;
    }
    return v->offset;
}

/* The bytes of `= {1, 2}` or `= 5`; addresses are left as references that loading the module resolves. */
static void parse_initializer(parser *p, sim_var *v, uint64_t *at) {
    if (lex_accept(p, '{')) {
        while (!lex_accept(p, '}')) {
            parse_initializer(p, v, at);
            if (lex_peek(p) != '}') lex_expect(p, ',');
        }
        return;
    }
    uint64_t size = (uint64_t)sim_type_size(v->type);
    if (*at + size > v->size)
        parse_fail(p, "initializer of '%s' is longer than its %llu bytes", v->name, (unsigned long long)v->size);
    operand o;
    memset(&o, 0, sizeof o);
    if (lex_number(p, &o)) {
        uint64_t bits = o.bits;
        if (o.kind == OPD_FLOAT && v->type == T_F32 && !o.single) bits = as_u32((float)as_f64(bits));
        memcpy(v->init + *at, &bits, size);
    } else {
        char name[256];
        lex_word(p, name, sizeof name, false);
        bool generic = strcmp(name, "generic") == 0 && lex_accept(p, '(');
        if (generic) lex_word(p, name, sizeof name, false);
        if (generic) lex_expect(p, ')');
        symbol *s = parse_lookup(p, name);
        if (!s || s->kind != SYM_VAR || size != 8) parse_fail(p, "'%s' is no constant", name);
        int64_t add = 0;
        if (lex_peek(p) == '+' || lex_peek(p) == '-') {
            if (*p->at == '+') p->at++;
            if (!lex_number(p, &o)) parse_fail(p, "offset expected");
            add = (int64_t)o.bits;
        }
        struct sim_reference *grown = realloc(v->references, (size_t)(v->n_references + 1) * sizeof *grown);
        if (!grown) parse_fail(p, "out of memory");
        v->references = grown;
        grown[v->n_references++] = (struct sim_reference){*at, s->var, add};
    }
    *at += size;
}

/* `.align 4 .b8 name[16] = {...};` after the space; also a formal parameter, which has no ';'. */
sim_var *parse_variable_of(parser *p, sim_space space, bool external) {
    uint64_t align = 0;
    int vector = 1;
    sim_type type = T_NONE;
    char w[256];
    for (;;) {
        lex_word(p, w, sizeof w, false);
        if (strcmp(w, ".align") == 0) {
            operand o;
            if (!lex_number(p, &o) || o.bits == 0 || (o.bits & (o.bits - 1)))
                parse_fail(p, ".align needs a power of two");
            align = o.bits;
        } else if (strcmp(w, ".v2") == 0) {
            vector = 2;
        } else if (strcmp(w, ".v4") == 0) {
            vector = 4;
        } else if (strcmp(w, ".ptr") == 0 || strcmp(w, ".global") == 0 || strcmp(w, ".shared") == 0 ||
                   strcmp(w, ".const") == 0 || strcmp(w, ".local") == 0) {
            if (space != SP_PARAM) parse_fail(p, "unexpected '%s'", w);
            if (strcmp(w, ".ptr") == 0) {
                /* `.ptr .global .align 16` speaks of what the parameter points to */
                uint64_t own = align;
                for (;;) {
                    const char *before = p->at;
                    int line = p->line;
                    lex_word(p, w, sizeof w, false);
                    operand o;
                    if (strcmp(w, ".align") == 0) lex_number(p, &o);
                    else if (w[0] != '.') {
                        p->at = before, p->line = line;
                        break;
                    }
                }
                align = own;
            }
        } else if (w[0] == '.' && type_by_name(w + 1) != T_NONE) {
            type = type_by_name(w + 1);
        } else {
            break;
        }
    }
    if (type == T_NONE || !w[0]) parse_fail(p, "type and name of a variable expected, got '%s'", w);
    sim_var *v = parse_alloc(p, sizeof *v);
    v->next = p->module->vars, p->module->vars = v;
    v->name = parse_copy(p, w);
    v->space = space, v->type = type, v->external = external;
    uint64_t element = (uint64_t)sim_type_size(type), count = (uint64_t)vector;
    v->align = align ? align : element * (uint64_t)vector;
    bool open = false;
    while (lex_accept(p, '[')) {
        operand o;
        if (lex_accept(p, ']')) {
            open = true;
            continue;
        }
        if (!lex_number(p, &o)) parse_fail(p, "size of '%s' expected", v->name);
        count *= o.bits;
        lex_expect(p, ']');
    }
    v->size = open ? 0 : element * count;
    v->offset = UINT64_MAX;
    return v;
}

void symbol_declare(parser *p, sim_var *v) { symbol_add(p, v->name, SYM_VAR)->var = v; }

void parse_variable(parser *p, sim_space space, bool external) {
    do {
        sim_var *v = parse_variable_of(p, space, external);
        if (lex_accept(p, '=')) {
            uint64_t at = 0;
            v->init = parse_alloc(p, v->size);
            parse_initializer(p, v, &at);
        }
        if (space == SP_LOCAL || space == SP_PARAM) { /* a call's parameters live in the frame too */
            if (!p->func) parse_fail(p, "local variable outside of a function");
            v->space = SP_LOCAL;
            p->func->local_bytes = parse_round_up(p->func->local_bytes, v->align);
            v->offset = p->func->local_bytes;
            p->func->local_bytes += v->size;
        }
        symbol_declare(p, v);
    } while (lex_accept(p, ','));
    lex_expect(p, ';');
}

void parse_registers(parser *p) {
    char w[256];
    lex_word(p, w, sizeof w, false);
    sim_type type = w[0] == '.' ? type_by_name(w + 1) : T_NONE;
    if (type == T_NONE) parse_fail(p, "type of registers expected, got '%s'", w);
    if (type == T_B128) parse_fail(p, "128-bit registers are not known here");
    do {
        lex_word(p, w, sizeof w, false);
        if (!w[0]) parse_fail(p, "name of a register expected");
        if (lex_accept(p, '<')) {
            operand o;
            if (!lex_number(p, &o) || o.kind != OPD_INT || o.bits > 1000000)
                parse_fail(p, "number of registers expected");
            lex_expect(p, '>');
            size_t n = strlen(w);
            w[n] = '<', w[n + 1] = 0;
            symbol *s = symbol_add(p, w, SYM_RANGE);
            s->type = type, s->count = (int)o.bits;
            s->rows = parse_alloc(p, (size_t)s->count * sizeof *s->rows);
            for (int k = 0; k < s->count; k++) s->rows[k] = -1;
        } else {
            symbol *s = symbol_add(p, w, SYM_REGISTER);
            s->type = type;
        }
    } while (lex_accept(p, ','));
    lex_expect(p, ';');
}
