/* SPDX-License-Identifier: MIT
 * Functions: parameters, directives, and the statements of bodies. */
#include "read.h"

#include <stdio.h>
#include <stdlib.h>

/* --- functions */

static void target_list(parser *p, const char *label) {
    sim_func *f = p->func;
    uint32_t *list = parse_alloc(p, 4096 * sizeof *list);
    int n = 0;
    f->targets = realloc(f->targets, (size_t)(f->n_target_lists + 1) * sizeof *f->targets);
    f->n_targets = realloc(f->n_targets, (size_t)(f->n_target_lists + 1) * sizeof *f->n_targets);
    if (!f->targets || !f->n_targets) parse_fail(p, "out of memory");
    do {
        char w[256];
        lex_word(p, w, sizeof w, false);
        if (n == 4096) parse_fail(p, "too many targets");
        fixup *x = parse_alloc(p, sizeof *x);
        /* instruction numbers from 2^31 on stand for entries of lists */
        *x = (fixup){0x80000000u | (uint32_t)f->n_target_lists << 12 | (uint32_t)n++, parse_copy(p, w), p->line,
                     p->fixups};
        p->fixups = x;
    } while (lex_accept(p, ','));
    lex_expect(p, ';');
    f->targets[f->n_target_lists] = list, f->n_targets[f->n_target_lists] = n;
    symbol *s = symbol_find(p, label);
    if (s && s->kind == SYM_LABEL) s->kind = SYM_TARGETS, s->index = f->n_target_lists;
    f->n_target_lists++;
}

static void parse_statement(parser *p) {
    char name[256];
    p->n_ops = p->n_pool = 0;
    p->guard = -1, p->guard_not = false;
    if (lex_accept(p, '@')) {
        p->guard_not = lex_accept(p, '!');
        lex_word(p, name, sizeof name, false);
        operand o;
        memset(&o, 0, sizeof o);
        parse_name(p, &o, name);
        if (o.kind != OPD_REGISTER || o.type != T_PRED) parse_fail(p, "'%s' is no predicate", name);
        p->guard = o.row;
    }
    lex_word(p, p->opcode, sizeof p->opcode, true);
    int line = p->line;
    if (!p->opcode[0]) parse_fail(p, "instruction expected before '%.16s'", p->at);
    /* a label? */
    if (lex_peek(p) == ':') {
        p->at++;
        symbol *s = symbol_add(p, p->opcode, SYM_LABEL);
        s->index = (int)p->func->n_code;
        snprintf(name, sizeof name, "%s", p->opcode);
        const char *before = p->at;
        int before_line = p->line;
        char w[64];
        if (lex_peek(p) == '.') {
            lex_word(p, w, sizeof w, false);
            if (strcmp(w, ".branchtargets") == 0) {
                target_list(p, name);
                return;
            }
            if (strcmp(w, ".callprototype") == 0) {
                lex_skip_statement(p);
                return;
            }
        }
        p->at = before, p->line = before_line;
        return;
    }
    while (!lex_accept(p, ';')) {
        if (p->n_ops == MAX_OPERANDS) parse_fail(p, "too many operands");
        parse_operand(p, &p->ops[p->n_ops++]);
        if (lex_peek(p) != ';') lex_expect(p, ',');
    }
    int after = p->line;
    p->line = line;
    /* split the opcode at dots */
    static _Thread_local char split[160];
    snprintf(split, sizeof split, "%s", p->opcode);
    p->n_parts = 0;
    memset(p->used, 0, sizeof p->used);
    for (char *s = split; s;) {
        if (p->n_parts == MAX_PARTS) parse_fail(p, "opcode '%s' has too many parts", p->opcode);
        p->part[p->n_parts++] = s;
        s = strchr(s, '.');
        if (s) *s++ = 0;
    }
    p->used[0] = true;
    decode_statement(p);
    if (p->func->n_code) p->func->code[p->func->n_code - 1].counts = true;
    for (int k = 1; k < p->n_parts; k++)
        if (!p->used[k]) parse_fail(p, "'%s': '.%s' is not known here", p->opcode, p->part[k]);
    p->line = after;
}

static void resolve_fixups(parser *p) {
    sim_func *f = p->func;
    while (p->fixups) {
        fixup *x = p->fixups;
        symbol *s = symbol_find(p, x->label);
        p->line = x->line;
        if (!s || (s->kind != SYM_LABEL && s->kind != SYM_TARGETS))
            parse_fail(p, "label '%s' is not defined", x->label);
        if (x->inst & 0x80000000u) f->targets[x->inst >> 12 & 0x7ffff][x->inst & 0xfff] = (uint32_t)s->index;
        else f->code[x->inst].target = (uint32_t)s->index;
        p->fixups = x->next;
        free(x->label), free(x);
    }
}

/* The block after `{` up to its `}`. Inner blocks have scopes of their own. */
static void parse_body(parser *p) {
    char w[256];
    p->scope++;
    for (;;) {
        char c = lex_peek(p);
        if (!c) parse_fail(p, "function '%s' has no end", p->func->name);
        if (c == '}') {
            p->at++;
            break;
        }
        if (c == '{') {
            p->at++;
            parse_body(p);
            continue;
        }
        if (c != '.') {
            parse_statement(p);
            continue;
        }
        lex_word(p, w, sizeof w, false);
        if (strcmp(w, ".reg") == 0) parse_registers(p);
        else if (strcmp(w, ".loc") == 0) lex_skip_line(p);
        else if (strcmp(w, ".pragma") == 0) lex_skip_statement(p);
        else if (strcmp(w, ".shared") == 0) parse_variable(p, SP_SHARED, false);
        else if (strcmp(w, ".local") == 0) parse_variable(p, SP_LOCAL, false);
        else if (strcmp(w, ".param") == 0) parse_variable(p, SP_PARAM, false);
        else if (strcmp(w, ".global") == 0) parse_variable(p, SP_GLOBAL, false);
        else if (strcmp(w, ".const") == 0) parse_variable(p, SP_CONST, false);
        else parse_fail(p, "directive '%s' is not known in a function", w);
    }
    if (p->scope == 2) resolve_fixups(p); /* labels of the outermost block; inner ones leave theirs behind */
    else {
        /* labels of an inline block are only named inside it */
        for (fixup **x = &p->fixups; *x;) {
            symbol *s = symbol_find(p, (*x)->label);
            if (s && s->kind == SYM_LABEL && s->scope == p->scope && !((*x)->inst & 0x80000000u)) {
                p->func->code[(*x)->inst].target = (uint32_t)s->index;
                fixup *gone = *x;
                *x = gone->next;
                free(gone->label), free(gone);
            } else {
                x = &(*x)->next;
            }
        }
    }
    symbol_leave_scope(p);
}

static void parse_params(parser *p, sim_func *f, sim_var ***list, int *n) {
    *list = parse_alloc(p, 256 * sizeof **list);
    if (!lex_accept(p, '(')) return;
    while (!lex_accept(p, ')')) {
        char w[64];
        lex_word(p, w, sizeof w, false);
        if (strcmp(w, ".param") != 0) parse_fail(p, ".param expected, got '%s'", w);
        if (*n == 256) parse_fail(p, "too many parameters");
        sim_var *v = parse_variable_of(p, SP_PARAM, false);
        (*list)[(*n)++] = v;
        if (f->kernel) {
            f->param_bytes = parse_round_up(f->param_bytes, v->align);
            v->offset = f->param_bytes;
            f->param_bytes += v->size;
        } else {
            v->space = SP_LOCAL;
            f->local_bytes = parse_round_up(f->local_bytes, v->align);
            v->offset = f->local_bytes;
            f->local_bytes += v->size;
        }
        if (lex_peek(p) != ')') lex_expect(p, ',');
    }
}

void parse_function(parser *p, bool kernel) {
    sim_func *f = parse_alloc(p, sizeof *f);
    f->next = p->module->funcs, p->module->funcs = f;
    f->module = p->module, f->kernel = kernel;
    f->dynamic_align = 16;
    for (int k = 0; k < SR_COUNT; k++) f->special[k] = -1;
    char w[256];
    if (!kernel) parse_params(p, f, &f->returns, &f->n_returns);
    lex_word(p, w, sizeof w, false);
    if (!w[0]) parse_fail(p, "name of a function expected");
    f->name = parse_copy(p, w);
    symbol *old = symbol_find(p, w);
    if (!(old && old->kind == SYM_FUNC && !old->func->defined)) symbol_add(p, w, SYM_FUNC)->func = f;
    parse_params(p, f, &f->params, &f->n_params);
    if (kernel && f->param_bytes > 32764) parse_fail(p, "%llu bytes of parameters", (unsigned long long)f->param_bytes);
    for (;;) {
        char c = lex_peek(p);
        if (c == ';') { /* a declaration */
            p->at++;
            return;
        }
        if (c == '{') break;
        operand o;
        lex_word(p, w, sizeof w, false);
        uint32_t value[3] = {1, 1, 1};
        int n = 0;
        if (strcmp(w, ".noreturn") == 0) continue;
        do {
            if (n == 3 || !lex_number(p, &o)) parse_fail(p, "numbers expected after '%s'", w);
            value[n++] = (uint32_t)o.bits;
        } while (lex_accept(p, ','));
        if (strcmp(w, ".maxntid") == 0) f->max_threads = value[0] * value[1] * value[2];
        else if (strcmp(w, ".reqntid") == 0) memcpy(f->required, value, sizeof value);
        else if (strcmp(w, ".minnctapersm") == 0) f->min_blocks = value[0];
        else if (strcmp(w, ".maxnreg") == 0) f->max_registers = value[0];
        else parse_fail(p, "directive '%s' is not known for a function", w);
    }
    lex_expect(p, '{');
    symbol *s = symbol_find(p, f->name);
    s->func = f;
    f->defined = true;
    p->func = f;
    p->scope++;
    for (int k = 0; k < f->n_params; k++) symbol_declare(p, f->params[k]);
    for (int k = 0; k < f->n_returns; k++) symbol_declare(p, f->returns[k]);
    /* A device function's shared variables must lie where every caller has them: then all functions have all of them.
     */
    for (sim_var *v = p->module->vars; v; v = v->next)
        if (v->space == SP_SHARED) {
            v->offset = UINT64_MAX;
            if (p->module->has_device_functions && !v->external) parse_var_address(p, v);
        }
    parse_body(p);
    p->guard = -1;
    parse_emit(p)->kind = kernel ? K_EXIT : K_RET; /* falling off the end */
    symbol_leave_scope(p);
    for (sim_inst *i = f->code; i < f->code + f->n_code; i++)
        if (i->kind == K_BRANCH && i->target > f->n_code) parse_fail(p, "branch out of '%s'", f->name);
    if (!sim_cfg_analyze(f)) parse_fail(p, "out of memory");
    p->func = NULL;
}
