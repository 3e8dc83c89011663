/* SPDX-License-Identifier: MIT
 * Names in their scopes, and what a function gathers while it is read: rows of registers and constants, code, labels
 * to be resolved. */
#include "read.h"

#include <ctype.h>
#include <stdlib.h>

static unsigned hash_of(const char *s) {
    unsigned h = 2166136261u;
    while (*s) h = (h ^ (unsigned char)*s++) * 16777619u;
    return h % BUCKETS;
}

symbol *symbol_find(parser *p, const char *name) {
    for (symbol *s = p->buckets[hash_of(name)]; s; s = s->next)
        if (strcmp(s->name, name) == 0) return s;
    return NULL;
}

symbol *symbol_add(parser *p, const char *name, symbol_kind kind) {
    symbol *old = symbol_find(p, name);
    if (old && old->scope == p->scope && kind != SYM_FUNC) parse_fail(p, "'%s' is defined twice", name);
    symbol *s = parse_alloc(p, sizeof *s);
    s->name = parse_copy(p, name);
    s->kind = kind, s->scope = p->scope, s->row = -1, s->index = -1;
    unsigned h = hash_of(name);
    s->next = p->buckets[h], p->buckets[h] = s;
    return s;
}

void symbol_leave_scope(parser *p) {
    for (int b = 0; b < BUCKETS; b++)
        while (p->buckets[b] && p->buckets[b]->scope >= p->scope) {
            symbol *s = p->buckets[b];
            p->buckets[b] = s->next;
            free(s->rows), free(s->name), free(s);
        }
    p->scope--;
}

int parse_new_row(parser *p, bool is_wide) {
    int first = p->func->n_rows;
    p->func->n_rows += is_wide ? 2 : 1;
    return first;
}

/* A register of a range gets its row when it is first named: LLVM declares many that nothing uses. */
symbol *parse_lookup(parser *p, const char *name) {
    symbol *s = symbol_find(p, name);
    if (s) return s;
    size_t n = strlen(name), digits = n;
    while (digits > 0 && isdigit((unsigned char)name[digits - 1])) digits--;
    if (digits == n || digits == 0 || n - digits > 7) return NULL;
    char prefix[128];
    if (digits + 2 > sizeof prefix) return NULL;
    memcpy(prefix, name, digits);
    prefix[digits] = '<', prefix[digits + 1] = 0;
    s = symbol_find(p, prefix);
    int index = atoi(name + digits);
    if (!s || s->kind != SYM_RANGE || index >= s->count || (name[digits] == '0' && n - digits > 1)) return NULL;
    if (s->rows[index] < 0) s->rows[index] = parse_new_row(p, type_is_wide(s->type));
    s->row = s->rows[index];
    return s;
}

int parse_constant(parser *p, uint64_t value, bool is_wide) {
    sim_func *f = p->func;
    for (int k = 0; k < f->n_constants; k++)
        if (f->constants[k].value == value && f->constants[k].wide == is_wide) return f->constants[k].row;
    if ((f->n_constants & (f->n_constants + 1)) == 0 || f->n_constants == 0) {
        int cap = f->n_constants ? (f->n_constants + 1) * 2 : 8;
        sim_constant *grown = realloc(f->constants, (size_t)cap * sizeof *grown);
        if (!grown) parse_fail(p, "out of memory");
        f->constants = grown;
    }
    sim_constant *c = &f->constants[f->n_constants++];
    *c = (sim_constant){parse_new_row(p, is_wide), value, is_wide, NULL};
    return c->row;
}

int parse_special(parser *p, sim_special s) {
    if (p->func->special[s] < 0)
        p->func->special[s] = parse_new_row(p, s == SR_CLOCK64 || s == SR_GLOBALTIMER || s == SR_GRIDID ||
                                                   s == SR_DYNAMIC_BASE || s == SR_LOCAL_BASE);
    return p->func->special[s];
}

sim_inst *parse_emit(parser *p) {
    sim_func *f = p->func;
    if (f->n_code == f->cap_code) {
        uint32_t cap = f->cap_code ? f->cap_code * 2 : 64;
        sim_inst *grown = realloc(f->code, cap * sizeof *grown);
        if (!grown) parse_fail(p, "out of memory");
        f->code = grown, f->cap_code = cap;
    }
    sim_inst *i = &f->code[f->n_code++];
    memset(i, 0, sizeof *i);
    i->line = (uint32_t)p->line;
    i->guard = p->guard, i->guard_not = p->guard_not;
    i->kind = K_COMPUTE, i->propagates = true;
    return i;
}

void parse_fixup(parser *p, const char *label) {
    fixup *f = parse_alloc(p, sizeof *f);
    *f = (fixup){p->func->n_code - 1, parse_copy(p, label), p->line, p->fixups};
    p->fixups = f;
}
