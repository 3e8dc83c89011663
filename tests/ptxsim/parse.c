/* SPDX-License-Identifier: MIT
 * Reader of PTX text: directives, variables, functions and the operands of instructions. */
#include "parse.h"
#include "memory.h"
#include "numbers.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void parse_fail(parser *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = snprintf(p->error, p->error_size, "line %d: error: ", p->line);
    if (n >= 0 && (size_t)n < p->error_size) vsnprintf(p->error + n, p->error_size - (size_t)n, format, args);
    va_end(args);
    longjmp(p->fail, 1);
}

void *parse_alloc(parser *p, size_t bytes) {
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) parse_fail(p, "out of memory");
    return memory;
}

static char *copy_string(parser *p, const char *s) {
    char *copy = parse_alloc(p, strlen(s) + 1);
    strcpy(copy, s);
    return copy;
}

/* --- symbols */

static unsigned hash_of(const char *s) {
    unsigned h = 2166136261u;
    while (*s) h = (h ^ (unsigned char)*s++) * 16777619u;
    return h % BUCKETS;
}

static symbol *find_exact(parser *p, const char *name) {
    for (symbol *s = p->buckets[hash_of(name)]; s; s = s->next)
        if (strcmp(s->name, name) == 0) return s;
    return NULL;
}

static symbol *add_symbol(parser *p, const char *name, symbol_kind kind) {
    symbol *old = find_exact(p, name);
    if (old && old->scope == p->scope && kind != SYM_FUNC) parse_fail(p, "'%s' is defined twice", name);
    symbol *s = parse_alloc(p, sizeof *s);
    s->name = copy_string(p, name);
    s->kind = kind, s->scope = p->scope, s->row = -1, s->index = -1;
    unsigned h = hash_of(name);
    s->next = p->buckets[h], p->buckets[h] = s;
    return s;
}

static void leave_scope(parser *p) {
    for (int b = 0; b < BUCKETS; b++)
        while (p->buckets[b] && p->buckets[b]->scope >= p->scope) {
            symbol *s = p->buckets[b];
            p->buckets[b] = s->next;
            free(s->rows), free(s->name), free(s);
        }
    p->scope--;
}

static bool wide(sim_type t) { return sim_type_size(t) == 8; }

int parse_new_row(parser *p, bool is_wide) {
    int first = p->func->n_rows;
    p->func->n_rows += is_wide ? 2 : 1;
    return first;
}

/* A register of a range gets its row when it is first named: LLVM declares many that nothing uses. */
symbol *parse_lookup(parser *p, const char *name) {
    symbol *s = find_exact(p, name);
    if (s) return s;
    size_t n = strlen(name), digits = n;
    while (digits > 0 && isdigit((unsigned char)name[digits - 1])) digits--;
    if (digits == n || digits == 0 || n - digits > 7) return NULL;
    char prefix[128];
    if (digits + 2 > sizeof prefix) return NULL;
    memcpy(prefix, name, digits);
    prefix[digits] = '<', prefix[digits + 1] = 0;
    s = find_exact(p, prefix);
    int index = atoi(name + digits);
    if (!s || s->kind != SYM_RANGE || index >= s->count || (name[digits] == '0' && n - digits > 1)) return NULL;
    if (s->rows[index] < 0) s->rows[index] = parse_new_row(p, wide(s->type));
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
    *f = (fixup){p->func->n_code - 1, copy_string(p, label), p->line, p->fixups};
    p->fixups = f;
}

/* --- text */

static void skip_space(parser *p) {
    for (; p->at < p->end; p->at++) {
        if (*p->at == '\n') {
            p->line++;
        } else if (*p->at == '/' && p->at + 1 < p->end && p->at[1] == '/') {
            while (p->at < p->end && *p->at != '\n') p->at++;
            p->at--;
        } else if (*p->at == '/' && p->at + 1 < p->end && p->at[1] == '*') {
            for (p->at += 2; p->at + 1 < p->end && !(p->at[0] == '*' && p->at[1] == '/'); p->at++)
                if (*p->at == '\n') p->line++;
            p->at++;
        } else if (!isspace((unsigned char)*p->at)) {
            return;
        }
    }
}

static char peek(parser *p) {
    skip_space(p);
    return p->at < p->end ? *p->at : 0;
}

static bool accept(parser *p, char c) {
    if (peek(p) != c) return false;
    p->at++;
    return true;
}

static void expect(parser *p, char c) {
    char got = peek(p);
    if (got != c) {
        if (got) parse_fail(p, "'%c' expected before '%.16s'", c, p->at);
        parse_fail(p, "'%c' expected at the end", c);
    }
    p->at++;
}

static bool word_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%'; }

/* A name, directive or opcode into `out`; empty when there is none. */
static void word(parser *p, char *out, size_t size, bool colons) {
    skip_space(p);
    size_t n = 0;
    while (p->at < p->end &&
           (word_char(*p->at) || (colons && *p->at == ':' && (p->at[1] == ':' || p->at[-1] == ':')))) {
        if (n + 1 >= size) parse_fail(p, "name too long");
        out[n++] = *p->at++;
    }
    out[n] = 0;
}

static void skip_statement(parser *p) {
    while (p->at < p->end && *p->at != ';') p->line += *p->at++ == '\n';
    if (p->at < p->end) p->at++;
}

static void skip_line(parser *p) {
    while (p->at < p->end && *p->at != '\n') p->at++;
}

static bool number(parser *p, operand *o) {
    skip_space(p);
    const char *s = p->at;
    bool negative = false;
    if (*s == '-' || *s == '+') negative = *s == '-', s++;
    if (!isdigit((unsigned char)*s)) return false;
    char *end;
    if (*s == '0' && (s[1] == 'f' || s[1] == 'F') && isxdigit((unsigned char)s[2])) {
        uint32_t bits = (uint32_t)strtoul(s + 2, &end, 16);
        if (end - s != 10) parse_fail(p, "0f needs eight hexadecimal digits");
        o->kind = OPD_FLOAT, o->single = true, o->bits = bits ^ (negative ? 0x80000000u : 0);
    } else if (*s == '0' && (s[1] == 'd' || s[1] == 'D') && isxdigit((unsigned char)s[2])) {
        uint64_t bits = strtoull(s + 2, &end, 16);
        if (end - s != 18) parse_fail(p, "0d needs sixteen hexadecimal digits");
        o->kind = OPD_FLOAT, o->single = false, o->bits = bits ^ (negative ? UINT64_C(1) << 63 : 0);
    } else {
        uint64_t value = strtoull(s, &end, 0);
        if (*end == '.' || ((*end == 'e' || *end == 'E') && !(s[0] == '0' && (s[1] == 'x' || s[1] == 'X')))) {
            double d = strtod(s, &end);
            o->kind = OPD_FLOAT, o->single = false, o->bits = as_u64(negative ? -d : d);
        } else {
            if (*end == 'U') end++;
            o->kind = OPD_INT, o->bits = negative ? -value : value;
        }
    }
    p->at = end;
    return true;
}

static const struct {
    const char *name;
    sim_special special;
} specials[] = {
    {"%tid.x", SR_TID_X},
    {"%tid.y", SR_TID_Y},
    {"%tid.z", SR_TID_Z},
    {"%ntid.x", SR_NTID_X},
    {"%ntid.y", SR_NTID_Y},
    {"%ntid.z", SR_NTID_Z},
    {"%ctaid.x", SR_CTAID_X},
    {"%ctaid.y", SR_CTAID_Y},
    {"%ctaid.z", SR_CTAID_Z},
    {"%nctaid.x", SR_NCTAID_X},
    {"%nctaid.y", SR_NCTAID_Y},
    {"%nctaid.z", SR_NCTAID_Z},
    {"%laneid", SR_LANEID},
    {"%warpid", SR_WARPID},
    {"%nwarpid", SR_NWARPID},
    {"%smid", SR_SMID},
    {"%nsmid", SR_NSMID},
    {"%lanemask_lt", SR_LT},
    {"%lanemask_le", SR_LE},
    {"%lanemask_eq", SR_EQ},
    {"%lanemask_ge", SR_GE},
    {"%lanemask_gt", SR_GT},
    {"%dynamic_smem_size", SR_DYNAMIC_SHARED},
    {"%total_smem_size", SR_TOTAL_SHARED},
    {"%gridid", SR_GRIDID},
    {"%clock", SR_CLOCK},
    {"%clock64", SR_CLOCK64},
    {"%globaltimer", SR_GLOBALTIMER},
};

static operand *new_items(parser *p, int n) {
    if (p->n_pool + n > (int)(sizeof p->pool / sizeof *p->pool)) parse_fail(p, "too many operands");
    operand *first = &p->pool[p->n_pool];
    memset(first, 0, (size_t)n * sizeof *first);
    p->n_pool += n;
    return first;
}

static void parse_operand(parser *p, operand *o);

static void parse_list(parser *p, operand *o, char close) {
    operand items[MAX_VECTOR];
    o->kind = OPD_VECTOR, o->n = 0;
    while (!accept(p, close)) {
        if (o->n == MAX_VECTOR) parse_fail(p, "too many elements");
        parse_operand(p, &items[o->n++]);
        if (peek(p) != close) expect(p, ',');
    }
    o->items = new_items(p, o->n);
    memcpy(o->items, items, (size_t)o->n * sizeof *items);
}

/* What a name stands for. */
static void resolve(parser *p, operand *o, const char *name) {
    if (strcmp(name, "_") == 0) {
        o->kind = OPD_SINK;
        return;
    }
    symbol *s = parse_lookup(p, name);
    if (s && (s->kind == SYM_REGISTER || s->kind == SYM_RANGE)) {
        o->kind = OPD_REGISTER, o->type = s->type;
        if (s->row < 0) s->row = parse_new_row(p, wide(s->type));
        o->row = s->row;
        return;
    }
    if (!s && name[0] == '%') {
        for (size_t k = 0; k < sizeof specials / sizeof *specials; k++)
            if (strcmp(specials[k].name, name) == 0) {
                o->kind = OPD_SPECIAL, o->row = (int)specials[k].special;
                return;
            }
        parse_fail(p, "register '%s' is not declared", name);
    }
    if (!s && strcmp(name, "WARP_SZ") == 0) {
        o->kind = OPD_INT, o->bits = 32;
        return;
    }
    o->kind = OPD_SYMBOL, o->symbol = s;
    snprintf(o->name, sizeof o->name, "%.90s", name);
}

static void parse_operand(parser *p, operand *o) {
    memset(o, 0, sizeof *o);
    char c = peek(p), name[256];
    if (c == '{') {
        p->at++;
        parse_list(p, o, '}');
    } else if (c == '(') {
        p->at++;
        parse_list(p, o, ')');
    } else if (c == '[') {
        p->at++;
        o->kind = OPD_ADDRESS;
        operand base;
        memset(&base, 0, sizeof base);
        if (number(p, &base)) {
            o->offset = (int64_t)base.bits;
        } else {
            word(p, name, sizeof name, false);
            resolve(p, &base, name);
            if (base.kind == OPD_REGISTER) o->has_register = true, o->row = base.row, o->type = base.type;
            else if (base.kind == OPD_SYMBOL && base.symbol && base.symbol->kind == SYM_VAR) o->symbol = base.symbol;
            else parse_fail(p, "'%s' is no address", name);
        }
        char sign = peek(p);
        if (sign == '+' || sign == '-') {
            operand offset;
            if (sign == '+') p->at++;
            if (!number(p, &offset) || offset.kind != OPD_INT) parse_fail(p, "offset of an address expected");
            o->offset += (int64_t)offset.bits;
        }
        expect(p, ']');
    } else if (c == '!') {
        p->at++;
        parse_operand(p, o);
        o->negated = true;
    } else if (!number(p, o)) {
        word(p, name, sizeof name, false);
        if (!name[0]) parse_fail(p, "operand expected before '%.16s'", p->at);
        resolve(p, o, name);
        if (accept(p, '|')) {
            operand second;
            parse_operand(p, &second);
            o->second = new_items(p, 1);
            *o->second = second;
        }
    }
}

/* --- variables */

sim_type type_by_name(const char *name) {
    for (int t = T_PRED; t < T_COUNT; t++)
        if (strcmp(sim_type_name((sim_type)t), name) == 0) return (sim_type)t;
    return T_NONE;
}

static uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

uint64_t parse_var_address(parser *p, sim_var *v) {
    if (v->space == SP_SHARED && v->offset == UINT64_MAX) {
        if (v->external) {
            p->func->dynamic_shared = true;
            if (v->align > p->func->dynamic_align) p->func->dynamic_align = v->align;
            return UINT64_MAX; /* known when the function's static variables are */
        }
        p->func->shared_bytes = round_up(p->func->shared_bytes, v->align);
        v->offset = SHARED_START + p->func->shared_bytes;
        p->func->shared_bytes += v->size;
    }
    return v->offset;
}

/* The bytes of `= {1, 2}` or `= 5`; addresses are left as references that loading the module resolves. */
static void parse_initializer(parser *p, sim_var *v, uint64_t *at) {
    if (accept(p, '{')) {
        while (!accept(p, '}')) {
            parse_initializer(p, v, at);
            if (peek(p) != '}') expect(p, ',');
        }
        return;
    }
    uint64_t size = (uint64_t)sim_type_size(v->type);
    if (*at + size > v->size)
        parse_fail(p, "initializer of '%s' is longer than its %llu bytes", v->name, (unsigned long long)v->size);
    operand o;
    memset(&o, 0, sizeof o);
    if (number(p, &o)) {
        uint64_t bits = o.bits;
        if (o.kind == OPD_FLOAT && v->type == T_F32 && !o.single) bits = as_u32((float)as_f64(bits));
        memcpy(v->init + *at, &bits, size);
    } else {
        char name[256];
        word(p, name, sizeof name, false);
        bool generic = strcmp(name, "generic") == 0 && accept(p, '(');
        if (generic) word(p, name, sizeof name, false);
        if (generic) expect(p, ')');
        symbol *s = parse_lookup(p, name);
        if (!s || s->kind != SYM_VAR || size != 8) parse_fail(p, "'%s' is no constant", name);
        int64_t add = 0;
        if (peek(p) == '+' || peek(p) == '-') {
            if (*p->at == '+') p->at++;
            if (!number(p, &o)) parse_fail(p, "offset expected");
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
static sim_var *parse_var(parser *p, sim_space space, bool external) {
    uint64_t align = 0;
    int vector = 1;
    sim_type type = T_NONE;
    char w[256];
    for (;;) {
        word(p, w, sizeof w, false);
        if (strcmp(w, ".align") == 0) {
            operand o;
            if (!number(p, &o) || o.bits == 0 || (o.bits & (o.bits - 1))) parse_fail(p, ".align needs a power of two");
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
                    word(p, w, sizeof w, false);
                    operand o;
                    if (strcmp(w, ".align") == 0) number(p, &o);
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
    v->name = copy_string(p, w);
    v->space = space, v->type = type, v->external = external;
    uint64_t element = (uint64_t)sim_type_size(type), count = (uint64_t)vector;
    v->align = align ? align : element * (uint64_t)vector;
    bool open = false;
    while (accept(p, '[')) {
        operand o;
        if (accept(p, ']')) {
            open = true;
            continue;
        }
        if (!number(p, &o)) parse_fail(p, "size of '%s' expected", v->name);
        count *= o.bits;
        expect(p, ']');
    }
    v->size = open ? 0 : element * count;
    v->offset = UINT64_MAX;
    return v;
}

static void declare_var(parser *p, sim_var *v) { add_symbol(p, v->name, SYM_VAR)->var = v; }

static void parse_variable(parser *p, sim_space space, bool external) {
    do {
        sim_var *v = parse_var(p, space, external);
        if (accept(p, '=')) {
            uint64_t at = 0;
            v->init = parse_alloc(p, v->size);
            parse_initializer(p, v, &at);
        }
        if (space == SP_LOCAL || space == SP_PARAM) { /* a call's parameters live in the frame too */
            if (!p->func) parse_fail(p, "local variable outside of a function");
            v->space = SP_LOCAL;
            p->func->local_bytes = round_up(p->func->local_bytes, v->align);
            v->offset = p->func->local_bytes;
            p->func->local_bytes += v->size;
        }
        declare_var(p, v);
    } while (accept(p, ','));
    expect(p, ';');
}

static void parse_registers(parser *p) {
    char w[256];
    word(p, w, sizeof w, false);
    sim_type type = w[0] == '.' ? type_by_name(w + 1) : T_NONE;
    if (type == T_NONE) parse_fail(p, "type of registers expected, got '%s'", w);
    if (type == T_B128) parse_fail(p, "128-bit registers are not known here");
    do {
        word(p, w, sizeof w, false);
        if (!w[0]) parse_fail(p, "name of a register expected");
        if (accept(p, '<')) {
            operand o;
            if (!number(p, &o) || o.kind != OPD_INT || o.bits > 1000000) parse_fail(p, "number of registers expected");
            expect(p, '>');
            size_t n = strlen(w);
            w[n] = '<', w[n + 1] = 0;
            symbol *s = add_symbol(p, w, SYM_RANGE);
            s->type = type, s->count = (int)o.bits;
            s->rows = parse_alloc(p, (size_t)s->count * sizeof *s->rows);
            for (int k = 0; k < s->count; k++) s->rows[k] = -1;
        } else {
            symbol *s = add_symbol(p, w, SYM_REGISTER);
            s->type = type;
        }
    } while (accept(p, ','));
    expect(p, ';');
}

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
        word(p, w, sizeof w, false);
        if (n == 4096) parse_fail(p, "too many targets");
        fixup *x = parse_alloc(p, sizeof *x);
        /* instruction numbers from 2^31 on stand for entries of lists */
        *x = (fixup){0x80000000u | (uint32_t)f->n_target_lists << 12 | (uint32_t)n++, copy_string(p, w), p->line,
                     p->fixups};
        p->fixups = x;
    } while (accept(p, ','));
    expect(p, ';');
    f->targets[f->n_target_lists] = list, f->n_targets[f->n_target_lists] = n;
    symbol *s = find_exact(p, label);
    if (s && s->kind == SYM_LABEL) s->kind = SYM_TARGETS, s->index = f->n_target_lists;
    f->n_target_lists++;
}

static void parse_statement(parser *p) {
    char name[256];
    p->n_ops = p->n_pool = 0;
    p->guard = -1, p->guard_not = false;
    if (accept(p, '@')) {
        p->guard_not = accept(p, '!');
        word(p, name, sizeof name, false);
        operand o;
        memset(&o, 0, sizeof o);
        resolve(p, &o, name);
        if (o.kind != OPD_REGISTER || o.type != T_PRED) parse_fail(p, "'%s' is no predicate", name);
        p->guard = o.row;
    }
    word(p, p->opcode, sizeof p->opcode, true);
    int line = p->line;
    if (!p->opcode[0]) parse_fail(p, "instruction expected before '%.16s'", p->at);
    /* a label? */
    if (peek(p) == ':') {
        p->at++;
        symbol *s = add_symbol(p, p->opcode, SYM_LABEL);
        s->index = (int)p->func->n_code;
        snprintf(name, sizeof name, "%s", p->opcode);
        const char *before = p->at;
        int before_line = p->line;
        char w[64];
        if (peek(p) == '.') {
            word(p, w, sizeof w, false);
            if (strcmp(w, ".branchtargets") == 0) {
                target_list(p, name);
                return;
            }
            if (strcmp(w, ".callprototype") == 0) {
                skip_statement(p);
                return;
            }
        }
        p->at = before, p->line = before_line;
        return;
    }
    while (!accept(p, ';')) {
        if (p->n_ops == MAX_OPERANDS) parse_fail(p, "too many operands");
        parse_operand(p, &p->ops[p->n_ops++]);
        if (peek(p) != ';') expect(p, ',');
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
        symbol *s = find_exact(p, x->label);
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
        char c = peek(p);
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
        word(p, w, sizeof w, false);
        if (strcmp(w, ".reg") == 0) parse_registers(p);
        else if (strcmp(w, ".loc") == 0) skip_line(p);
        else if (strcmp(w, ".pragma") == 0) skip_statement(p);
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
            symbol *s = find_exact(p, (*x)->label);
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
    leave_scope(p);
}

static void parse_params(parser *p, sim_func *f, sim_var ***list, int *n, bool returns) {
    *list = parse_alloc(p, 256 * sizeof **list);
    if (!accept(p, '(')) return;
    while (!accept(p, ')')) {
        char w[64];
        word(p, w, sizeof w, false);
        if (strcmp(w, ".param") != 0) parse_fail(p, ".param expected, got '%s'", w);
        if (*n == 256) parse_fail(p, "too many parameters");
        sim_var *v = parse_var(p, SP_PARAM, false);
        (*list)[(*n)++] = v;
        if (f->kernel) {
            f->param_bytes = round_up(f->param_bytes, v->align);
            v->offset = f->param_bytes;
            f->param_bytes += v->size;
        } else {
            v->space = SP_LOCAL;
            f->local_bytes = round_up(f->local_bytes, v->align);
            v->offset = f->local_bytes;
            f->local_bytes += v->size;
        }
        if (peek(p) != ')') expect(p, ',');
    }
    (void)returns;
}

static void parse_function(parser *p, bool kernel) {
    sim_func *f = parse_alloc(p, sizeof *f);
    f->next = p->module->funcs, p->module->funcs = f;
    f->module = p->module, f->kernel = kernel;
    f->dynamic_align = 16;
    for (int k = 0; k < SR_COUNT; k++) f->special[k] = -1;
    char w[256];
    if (!kernel) parse_params(p, f, &f->returns, &f->n_returns, true);
    word(p, w, sizeof w, false);
    if (!w[0]) parse_fail(p, "name of a function expected");
    f->name = copy_string(p, w);
    symbol *old = find_exact(p, w);
    if (!(old && old->kind == SYM_FUNC && !old->func->defined)) add_symbol(p, w, SYM_FUNC)->func = f;
    parse_params(p, f, &f->params, &f->n_params, false);
    if (kernel && f->param_bytes > 32764) parse_fail(p, "%llu bytes of parameters", (unsigned long long)f->param_bytes);
    for (;;) {
        char c = peek(p);
        if (c == ';') { /* a declaration */
            p->at++;
            return;
        }
        if (c == '{') break;
        operand o;
        word(p, w, sizeof w, false);
        uint32_t value[3] = {1, 1, 1};
        int n = 0;
        if (strcmp(w, ".noreturn") == 0) continue;
        do {
            if (n == 3 || !number(p, &o)) parse_fail(p, "numbers expected after '%s'", w);
            value[n++] = (uint32_t)o.bits;
        } while (accept(p, ','));
        if (strcmp(w, ".maxntid") == 0) f->max_threads = value[0] * value[1] * value[2];
        else if (strcmp(w, ".reqntid") == 0) memcpy(f->required, value, sizeof value);
        else if (strcmp(w, ".minnctapersm") == 0) f->min_blocks = value[0];
        else if (strcmp(w, ".maxnreg") == 0) f->max_registers = value[0];
        else parse_fail(p, "directive '%s' is not known for a function", w);
    }
    expect(p, '{');
    symbol *s = find_exact(p, f->name);
    s->func = f;
    f->defined = true;
    p->func = f;
    p->scope++;
    for (int k = 0; k < f->n_params; k++) declare_var(p, f->params[k]);
    for (int k = 0; k < f->n_returns; k++) declare_var(p, f->returns[k]);
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
    leave_scope(p);
    for (sim_inst *i = f->code; i < f->code + f->n_code; i++)
        if (i->kind == K_BRANCH && i->target > f->n_code) parse_fail(p, "branch out of '%s'", f->name);
    if (!sim_cfg_analyze(f)) parse_fail(p, "out of memory");
    p->func = NULL;
}

/* --- module */

static void parse_target(parser *p) {
    char w[64];
    do {
        word(p, w, sizeof w, false);
        if (strncmp(w, "sm_", 3) == 0) {
            p->module->target = atoi(w + 3);
            size_t n = strlen(w);
            p->module->target_specific = n > 0 && w[n - 1] == 'a';
        } else if (strcmp(w, "texmode_independent") != 0 && strcmp(w, "debug") != 0 &&
                   strcmp(w, "map_f64_to_f32") != 0) {
            parse_fail(p, "target '%s' is not known", w);
        }
    } while (accept(p, ','));
    if (p->module->target > p->device_sm || (p->module->target_specific && p->module->target != p->device_sm))
        parse_fail(p, "code for sm_%d%s cannot run on this device, which is sm_%d", p->module->target,
                   p->module->target_specific ? "a" : "", p->device_sm);
}

static void parse_module(parser *p) {
    char w[256];
    bool external = false;
    while (peek(p)) {
        operand o;
        word(p, w, sizeof w, false);
        if (strcmp(w, ".version") == 0) {
            skip_space(p);
            char *end;
            long major = strtol(p->at, &end, 10), minor = *end == '.' ? strtol(end + 1, &end, 10) : 0;
            p->at = end;
            p->module->version = (int)(major * 10 + minor);
        } else if (strcmp(w, ".target") == 0) parse_target(p);
        else if (strcmp(w, ".address_size") == 0) {
            if (!number(p, &o) || o.bits != 64) parse_fail(p, "only 64-bit addresses are known here");
        } else if (!p->module->version || !p->module->target)
            parse_fail(p, ".version and .target expected before '%s'", w[0] ? w : p->at);
        else if (strcmp(w, ".visible") == 0 || strcmp(w, ".weak") == 0 || strcmp(w, ".common") == 0) continue;
        else if (strcmp(w, ".extern") == 0) {
            external = true;
            continue;
        } else if (strcmp(w, ".entry") == 0) parse_function(p, true);
        else if (strcmp(w, ".func") == 0) parse_function(p, false);
        else if (strcmp(w, ".global") == 0) parse_variable(p, SP_GLOBAL, external);
        else if (strcmp(w, ".const") == 0) parse_variable(p, SP_CONST, external);
        else if (strcmp(w, ".shared") == 0) parse_variable(p, SP_SHARED, external);
        else if (strcmp(w, ".file") == 0 || strcmp(w, ".loc") == 0) skip_line(p);
        else if (strcmp(w, ".pragma") == 0) skip_statement(p);
        else if (strcmp(w, ".section") == 0) { /* debug information */
            while (p->at < p->end && *p->at != '{') p->line += *p->at++ == '\n';
            for (int depth = 0; p->at < p->end;) {
                depth += *p->at == '{', depth -= *p->at == '}', p->line += *p->at == '\n';
                p->at++;
                if (depth == 0) break;
            }
        } else parse_fail(p, "'%s' is not known here", w[0] ? w : p->at);
        external = false;
    }
    if (!p->module->version) parse_fail(p, "this is no PTX");
}

/* Dynamic shared memory starts after the static variables, which are all known only now; decode left a mark. */
static void resolve_calls(parser *p) {
    for (sim_func *f = p->module->funcs; f; f = f->next)
        for (int k = 0; k < f->n_calls; k++) {
            if (!f->calls[k].func->defined) {
                for (sim_func *g = p->module->funcs; g; g = g->next)
                    if (g->defined && strcmp(g->name, f->calls[k].func->name) == 0) f->calls[k].func = g;
                if (!f->calls[k].func->defined) parse_fail(p, "function '%s' is not defined", f->calls[k].func->name);
            }
            if (f->calls[k].func->dynamic_shared) f->dynamic_shared = true;
            for (int a = 0; a < f->calls[k].n_args; a++)
                if (a < f->calls[k].func->n_params && f->calls[k].arg_bytes[a] != f->calls[k].func->params[a]->size)
                    parse_fail(p, "argument %d of a call of '%s' has another size", a, f->calls[k].func->name);
        }
}

sim_module *sim_module_parse(const char *text, int device_sm, char *error, size_t error_size) {
    parser *p = calloc(1, sizeof *p);
    sim_module *volatile m = calloc(1, sizeof *m);
    if (error_size) error[0] = 0;
    if (p && m) {
        p->at = text, p->end = text + strlen(text), p->line = 1;
        p->error = error, p->error_size = error_size;
        p->module = m, p->device_sm = device_sm;
        m->has_device_functions = strstr(text, ".func") != NULL;
        if (setjmp(p->fail) == 0) {
            parse_module(p);
            resolve_calls(p);
        } else {
            sim_module_free(m);
            m = NULL;
        }
        p->scope = 0;
        leave_scope(p);
        while (p->fixups) {
            fixup *x = p->fixups;
            p->fixups = x->next;
            free(x->label), free(x);
        }
    } else {
        free(m);
        m = NULL;
    }
    free(p);
    return m;
}

void sim_module_free(sim_module *m) {
    if (!m) return;
    while (m->vars) {
        sim_var *v = m->vars;
        m->vars = v->next;
        free(v->name), free(v->init), free(v->references), free(v);
    }
    while (m->funcs) {
        sim_func *f = m->funcs;
        m->funcs = f->next;
        for (int k = 0; k < f->n_target_lists; k++) free(f->targets[k]);
        free(f->targets), free(f->n_targets), free(f->name), free(f->params), free(f->returns), free(f->code),
            free(f->constants), free(f->calls), free(f->inputs), free(f);
    }
    free(m);
}
