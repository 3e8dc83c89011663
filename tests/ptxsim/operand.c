/* SPDX-License-Identifier: MIT
 * Operands of instructions: registers, numbers, addresses, lists. */
#include "read.h"

#include <stdio.h>

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

static void parse_list(parser *p, operand *o, char close) {
    operand items[MAX_VECTOR];
    o->kind = OPD_VECTOR, o->n = 0;
    while (!lex_accept(p, close)) {
        if (o->n == MAX_VECTOR) parse_fail(p, "too many elements");
        parse_operand(p, &items[o->n++]);
        if (lex_peek(p) != close) lex_expect(p, ',');
    }
    o->items = new_items(p, o->n);
    memcpy(o->items, items, (size_t)o->n * sizeof *items);
}

/* What a name stands for. */
void parse_name(parser *p, operand *o, const char *name) {
    if (strcmp(name, "_") == 0) {
        o->kind = OPD_SINK;
        return;
    }
    symbol *s = parse_lookup(p, name);
    if (s && (s->kind == SYM_REGISTER || s->kind == SYM_RANGE)) {
        o->kind = OPD_REGISTER, o->type = s->type;
        if (s->row < 0) s->row = parse_new_row(p, type_is_wide(s->type));
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

void parse_operand(parser *p, operand *o) {
    memset(o, 0, sizeof *o);
    char c = lex_peek(p), name[256];
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
        if (lex_number(p, &base)) {
            o->offset = (int64_t)base.bits;
        } else {
            lex_word(p, name, sizeof name, false);
            parse_name(p, &base, name);
            if (base.kind == OPD_REGISTER) o->has_register = true, o->row = base.row, o->type = base.type;
            else if (base.kind == OPD_SYMBOL && base.symbol && base.symbol->kind == SYM_VAR) o->symbol = base.symbol;
            else parse_fail(p, "'%s' is no address", name);
        }
        char sign = lex_peek(p);
        if (sign == '+' || sign == '-') {
            operand offset;
            if (sign == '+') p->at++;
            if (!lex_number(p, &offset) || offset.kind != OPD_INT) parse_fail(p, "offset of an address expected");
            o->offset += (int64_t)offset.bits;
        }
        lex_expect(p, ']');
    } else if (c == '!') {
        p->at++;
        parse_operand(p, o);
        o->negated = true;
    } else if (!lex_number(p, o)) {
        lex_word(p, name, sizeof name, false);
        if (!name[0]) parse_fail(p, "operand expected before '%.16s'", p->at);
        parse_name(p, o, name);
        if (lex_accept(p, '|')) {
            operand second;
            parse_operand(p, &second);
            o->second = new_items(p, 1);
            *o->second = second;
        }
    }
}
