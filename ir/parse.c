/* SPDX-License-Identifier: MIT
 * Graphs from text. print.c writes the canonical form, which parses back to the same graph and
 * prints the same bytes.
 *
 *   text      := "graph" name "{" statement* "}"
 *   name      := "@" word | "@" string
 *   statement := node "=" op [ "(" nodes ")" ] [ attrs ] ":" type [ "full" ] [ "remat" ] [ loc ]
 *              | "output" string node [ "alias" node [ "in_place" ] [ "via" offset ] ]
 *              | "group" kind node "nodes" "(" nodes ")" "outputs" "(" nodes ")" [ choice ]
 *              | "place" node offset
 *              | "arena" integer
 *   choice    := "by" string [ "{" word "=" integer { "," word "=" integer } "}" ] temporary* launch*
 *   temporary := "temporary" "t" digits "bytes" integer "launches" integer "to" integer [ offset ]
 *   launch    := "launch" string [ "beside" ] [ "copies" ] "reads" "(" values ")" "writes" "(" values ")"
 *                [ "over" "(" node "by" node { "," node "by" node } ")" ] "bytes" integer "flop" integer "ns" integer
 *   node      := "%" digits, defined in an earlier statement; canonical: 0, 1, 2, ...
 *   nodes     := [ node { "," node } ]
 *   values    := [ value { "," value } ], each a node or the "t" digits of a temporary
 *   offset    := "@" digits, bytes from the start of the arena
 *   attrs     := "{" word "=" value { "," word "=" value } "}", the fields of attrs.def
 *   value     := integer | number | "true" | "false" | string | role | "[" [ value { "," value } ] "]"
 *   type      := element "[" [ integer { "," integer } ] "]"
 *   loc       := "loc" "(" origin { "," origin } ")", each at most once and in this order; bw: made by autodiff
 *   origin    := string [ ":" integer ] | "segment" integer | "bw"
 *
 * Words are letters, digits and _; strings have the escapes \" \\ \n \t \xHH; a comment goes from
 * // to the end of the line. An attribute that is not given is 0, false or empty. The text may come
 * from anywhere: memory grows with its length at most, and every error says the line and what was
 * expected. */
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/parser.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_NODES = 1 << 20,
    MAX_OPERANDS = 1 << 12, /* of one node */
    MAX_NAMED = 1 << 14,    /* inputs, and outputs */
};

/* -- Nodes by number -- */

static tcc_status define(tcc_parser *p, int64_t number, tcc_node *n) {
    while (p->by_number.count <= number)
        if (!tcc_vec_push(&p->by_number, NULL)) return tcc_enomem(p->x.diag);
    p->by_number.data[number] = n;
    return TCC_OK;
}

/* -- Attributes and types -- */

static tcc_status parse_dims(tcc_parser *p, tcc_dims *out) {
    TCC_TRY(tcc__lex_punct(&p->x, '['));
    while (!tcc__lex_is(&p->x, ']')) {
        if (out->count) TCC_TRY(tcc__lex_punct(&p->x, ','));
        if (out->count == TCC_MAX_RANK) return tcc__parse_fail(p, "more than %d entries", TCC_MAX_RANK);
        TCC_TRY(tcc__lex_i64(&p->x, &out->v[out->count]));
        out->count++;
    }
    return tcc__lex_next(&p->x);
}

static tcc_status parse_doubles(tcc_parser *p, tcc_doubles *out) {
    p->values.count = 0;
    TCC_TRY(tcc__lex_punct(&p->x, '['));
    while (!tcc__lex_is(&p->x, ']')) {
        double value;
        if (p->values.count) TCC_TRY(tcc__lex_punct(&p->x, ','));
        TCC_TRY(tcc__lex_f64(&p->x, &value));
        if (!tcc_vec_push(&p->values, value)) return tcc_enomem(p->x.diag);
    }
    out->count = p->values.count;
    out->v = tcc_arena_copy(&p->scratch, p->values.data, sizeof *out->v * (size_t)out->count);
    return out->v ? tcc__lex_next(&p->x) : tcc_enomem(p->x.diag);
}

static tcc_status parse_role(tcc_parser *p, tcc_role *out) {
    if (p->x.token.kind == TCC_TOKEN_WORD && tcc_role_parse(p->x.token.text, p->x.token.length, out))
        return tcc__lex_next(&p->x);
    return tcc__lex_expected(&p->x, "a role like param");
}

static tcc_status parse_value(tcc_parser *p, tcc_attr_kind kind, void *out) {
    switch (kind) {
    case TCC_ATTR_I64: return tcc__lex_i64(&p->x, out);
    case TCC_ATTR_F64: return tcc__lex_f64(&p->x, out);
    case TCC_ATTR_DIMS: return parse_dims(p, out);
    case TCC_ATTR_F64S: return parse_doubles(p, out);
    case TCC_ATTR_STR: return tcc__lex_string(&p->x, &p->scratch, out);
    case TCC_ATTR_ROLE: return parse_role(p, out);
    case TCC_ATTR_BOOL:
        *(bool *)out = is_word(p, "true");
        if (*(bool *)out || is_word(p, "false")) return tcc__lex_next(&p->x);
        return tcc__lex_expected(&p->x, "true or false");
    }
    return TCC_BUG(p->x.diag, "an attribute of kind %d", (int)kind);
}

static tcc_status parse_attrs(tcc_parser *p, tcc_attr_class attr_class, tcc_attrs *out) {
    const tcc_attr_field *fields = tcc_attr_fields(attr_class);
    unsigned seen = 0;
    TCC_TRY(tcc__lex_punct(&p->x, '{'));
    do {
        const char *names[32] = {0};
        int i = 0, count = 0;
        for (; fields[count].name; count++) names[count] = fields[count].name;
        if (p->x.token.kind != TCC_TOKEN_WORD) return tcc__lex_expected(&p->x, "an attribute");
        while (i < count && !is_word(p, names[i])) i++;
        if (i == count) return tcc__parse_unknown(p, "attribute", names, count);
        if (seen >> i & 1) return tcc__parse_fail(p, "attribute '%s' is given twice", names[i]);
        seen |= 1u << i;
        TCC_TRY(tcc__lex_next(&p->x));
        TCC_TRY(tcc__lex_punct(&p->x, '='));
        TCC_TRY(parse_value(p, fields[i].kind, tcc_attr_at(out, &fields[i])));
        if (!tcc__lex_is(&p->x, ',')) break;
        TCC_TRY(tcc__lex_next(&p->x));
    } while (true);
    return tcc__lex_punct(&p->x, '}');
}

static tcc_status parse_type(tcc_parser *p, tcc_type *out) {
    const tcc_loc at = p->x.loc;
    tcc_dims dims = {0};
    if (p->x.token.kind != TCC_TOKEN_WORD || !tcc_dtype_parse(p->x.token.text, p->x.token.length, &out->dtype))
        return tcc__lex_expected(&p->x, "an element type like f32");
    TCC_TRY(tcc__lex_next(&p->x));
    TCC_TRY(parse_dims(p, &dims));
    out->rank = dims.count;
    memcpy(out->dims, dims.v, sizeof out->dims);
    return tcc__check_type(p->x.diag, at, "type", out);
}

static tcc_status parse_loc(tcc_parser *p, tcc_origin *out) {
    int64_t number;
    TCC_TRY(tcc__parse_word(p, "loc"));
    TCC_TRY(tcc__lex_punct(&p->x, '('));
    if (!is_word(p, "segment") && !is_word(p, "bw")) {
        TCC_TRY(tcc__lex_string(&p->x, &p->scratch, &out->loc.file));
        if (tcc__lex_is(&p->x, ':')) { /* else no file but a layer of a model */
            TCC_TRY(tcc__lex_next(&p->x));
            if (tcc__lex_i64(&p->x, &number) != TCC_OK) return TCC_EPARSE;
            if (number < 0 || number > INT32_MAX)
                return tcc__parse_fail(p, "%lld is no line number", (long long)number);
            out->loc.line = (int)number;
        }
        if (!tcc__lex_is(&p->x, ',')) return tcc__lex_punct(&p->x, ')');
        TCC_TRY(tcc__lex_next(&p->x));
    }
    if (is_word(p, "segment")) {
        TCC_TRY(tcc__lex_next(&p->x));
        if (tcc__lex_i64(&p->x, &number) != TCC_OK) return TCC_EPARSE;
        if (number < 1 || number > INT32_MAX) return tcc__parse_fail(p, "segments are numbered from 1");
        out->segment = (int)number;
        if (!tcc__lex_is(&p->x, ',')) return tcc__lex_punct(&p->x, ')');
        TCC_TRY(tcc__lex_next(&p->x));
    }
    TCC_TRY(tcc__parse_word(p, "bw"));
    out->backward = true;
    return tcc__lex_punct(&p->x, ')');
}

/* -- Statements -- */

static tcc_status unknown_op(tcc_parser *p) {
    const char *names[TCC_OP_COUNT];
    for (int op = 0; op < TCC_OP_COUNT; op++) names[op] = tcc_op_get_info((tcc_op)op)->text;
    return tcc__parse_unknown(p, "operation", names, TCC_OP_COUNT);
}

static tcc_status parse_definition(tcc_parser *p) {
    const tcc_loc at = p->x.loc;
    int64_t number;
    tcc_infer q = {.diag = p->x.diag, .loc = at};
    tcc_attrs attrs = {0};
    tcc_type type = {0}, inferred;
    tcc_origin origin = {0};

    TCC_TRY(tcc__lex_node(&p->x, &number));
    if (number >= MAX_NODES) return tcc__parse_fail(p, "node numbers end at %d", MAX_NODES - 1);
    if (number < p->by_number.count && p->by_number.data[number])
        return tcc__parse_fail(p, "%%%lld is defined twice", (long long)number);
    TCC_TRY(tcc__lex_punct(&p->x, '='));
    if (p->x.token.kind != TCC_TOKEN_WORD) return tcc__lex_expected(&p->x, "an operation");
    if (!tcc_op_parse(p->x.token.text, p->x.token.length, &q.op)) return unknown_op(p);
    const tcc_op_info *info = tcc_op_get_info(q.op);
    TCC_TRY(tcc__lex_next(&p->x));
    p->list.count = 0;
    if (tcc__lex_is(&p->x, '(')) TCC_TRY(tcc__parse_nodes(p, MAX_OPERANDS));
    if (tcc__lex_is(&p->x, '{')) TCC_TRY(parse_attrs(p, info->attrs, &attrs));
    TCC_TRY(tcc__lex_punct(&p->x, ':'));
    TCC_TRY(parse_type(p, &type));
    const unsigned full = is_word(p, "full") ? TCC_MARK_FULL : 0;
    if (full) TCC_TRY(tcc__lex_next(&p->x));
    const unsigned remat = is_word(p, "remat") ? TCC_MARK_REMAT : 0;
    if (remat) TCC_TRY(tcc__lex_next(&p->x));
    const unsigned passes = remat && is_word(p, "passes") ? TCC_MARK_PASSES : 0;
    if (passes) TCC_TRY(tcc__lex_next(&p->x));
    if (is_word(p, "loc")) TCC_TRY(parse_loc(p, &origin));

    /* Inferred here too, so that errors are reported at the line of this text, not the user's. */
    q.attrs = &attrs;
    q.operands = p->list.data;
    q.n_operands = p->list.count;
    q.given = info->flags & TCC_FLAG_TYPED ? &type : NULL;
    TCC_TRY(tcc__infer(&q, &inferred));
    if (!tcc_type_equal(&type, &inferred))
        return tcc_error(p->x.diag, TCC_EPARSE, at, "%s gives %s, but %%%lld says %s", info->text,
                         tcc_type_text(&inferred), (long long)number, tcc_type_text(&type));
    if (q.op == TCC_OP_INPUT && p->g->inputs.count == MAX_NAMED)
        return tcc__parse_fail(p, "more than %d inputs", MAX_NAMED);
    tcc_ir_set_marks(p->g, full | remat | passes);
    tcc_node *n = tcc__ir_build(p->g, q.op, q.operands, q.n_operands, &attrs, q.given, &origin);
    if (!n) {
        tcc_note(p->x.diag, at, "in this node");
        return TCC_EPARSE;
    }
    return define(p, number, n);
}

static tcc_status parse_output(tcc_parser *p) {
    const tcc_loc at = p->x.loc;
    const char *name;
    tcc_node *n;
    int alias = -1;
    bool in_place = false, staged = false;
    int64_t stage_bytes = 0;
    TCC_TRY(tcc__parse_word(p, "output"));
    TCC_TRY(tcc__lex_string(&p->x, &p->scratch, &name));
    TCC_TRY(tcc__parse_node(p, &n));
    if (is_word(p, "alias")) {
        tcc_node *input;
        TCC_TRY(tcc__lex_next(&p->x));
        TCC_TRY(tcc__parse_node(p, &input));
        for (int i = 0; i < p->g->inputs.count; i++)
            if (p->g->inputs.data[i] == input) alias = i;
        if (alias < 0) return tcc_error(p->x.diag, TCC_EPARSE, at, "only an input can be aliased");
        in_place = is_word(p, "in_place");
        if (in_place) TCC_TRY(tcc__lex_next(&p->x));
        staged = is_word(p, "via");
        if (staged) TCC_TRY(tcc__lex_next(&p->x));
        if (staged) TCC_TRY(tcc__parse_offset(p, &stage_bytes));
    }
    if (p->g->outputs.count == MAX_NAMED) return tcc__parse_fail(p, "more than %d outputs", MAX_NAMED);
    if (tcc_ir_output(p->g, name, n, alias) != TCC_OK) {
        tcc_note(p->x.diag, at, "in this output");
        return TCC_EPARSE;
    }
    tcc_output *out = &p->g->outputs.data[p->g->outputs.count - 1];
    out->in_place = in_place, out->staged = staged, out->stage_bytes = stage_bytes;
    return TCC_OK;
}

static tcc_status parse_statement(tcc_parser *p) {
    static const char *const words[] = {"output", "group", "place", "arena"};
    if (p->x.token.kind == TCC_TOKEN_NODE) return parse_definition(p);
    if (is_word(p, "output")) return parse_output(p);
    if (is_word(p, "group")) return tcc__parse_group(p);
    if (is_word(p, "place")) return tcc__parse_place(p);
    if (is_word(p, "arena")) {
        TCC_TRY(tcc__lex_next(&p->x));
        return tcc__lex_i64(&p->x, &p->g->arena_bytes);
    }
    if (p->x.token.kind == TCC_TOKEN_WORD) return tcc__parse_unknown(p, "statement", words, 4);
    return tcc__lex_expected(&p->x, "a node, an output or '}'");
}

static tcc_status parse_graph(tcc_parser *p, const char *text, size_t length, const char *file, tcc_diag *diag) {
    const char *name;
    TCC_TRY(tcc__lex_start(&p->x, text, length, file, diag));
    TCC_TRY(tcc__parse_word(p, "graph"));
    const tcc_token at = p->x.token;
    if (at.kind != TCC_TOKEN_AT) return tcc__lex_expected(&p->x, "'@' and the graph's name");
    TCC_TRY(tcc__lex_next(&p->x));
    if (at.length == 1) TCC_TRY(tcc__lex_string(&p->x, &p->scratch, &name));
    else if (!(name = tcc_arena_printf(&p->scratch, "%.*s", (int)(at.length - 1 < 4096 ? at.length - 1 : 4096),
                                       at.text + 1)))
        return tcc_enomem(diag);
    p->g = tcc_graph_create(name, diag);
    if (!p->g) return TCC_ENOMEM;
    TCC_TRY(tcc__lex_punct(&p->x, '{'));
    while (!tcc__lex_is(&p->x, '}')) TCC_TRY(parse_statement(p));
    TCC_TRY(tcc__lex_next(&p->x));
    return p->x.token.kind == TCC_TOKEN_END ? TCC_OK : tcc__lex_expected(&p->x, "nothing after the graph");
}

tcc_status tcc_graph_parse(const char *text, size_t length, const char *file, tcc_diag *diag, tcc_graph **out) {
    tcc_parser p = {0};
    tcc_status status = parse_graph(&p, text, length, file, diag);
    if (status == TCC_OK) {
        *out = p.g;
    } else {
        /* A rule may have reported another status first; the caller sees the one that the text is
         * about. */
        if (diag && diag->status != TCC_OK) status = diag->status;
        tcc_graph_destroy(p.g);
    }
    tcc_vec_free(&p.by_number);
    tcc_vec_free(&p.list);
    tcc_vec_free(&p.values);
    tcc_arena_free(&p.scratch);
    return status;
}
