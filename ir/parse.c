/* SPDX-License-Identifier: MIT
 * Graphs from text. print.c writes the canonical form, which parses back to the same graph and
 * prints the same bytes.
 *
 *   text      := "graph" name "{" statement* "}"
 *   name      := "@" word | "@" string
 *   statement := node "=" op [ "(" nodes ")" ] [ attrs ] ":" type [ loc ]
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
 *   loc       := "loc" "(" string ":" integer [ "," "bw" ] ")" | "loc" "(" "bw" ")", bw: made by autodiff
 *
 * Words are letters, digits and _; strings have the escapes \" \\ \n \t \xHH; a comment goes from
 * // to the end of the line. An attribute that is not given is 0, false or empty. The text may come
 * from anywhere: memory grows with its length at most, and every error says the line and what was
 * expected. */
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/lex.h"
#include "ir/support/alloc.h"
#include "ir/support/nearest.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_NODES = 1 << 20,
    MAX_OPERANDS = 1 << 12, /* of one node */
    MAX_NAMED = 1 << 14,    /* inputs, and outputs */
    MAX_GROUP_NODES = 1 << 20,
    MAX_LAUNCHES = 1 << 20, /* of a group, and temporaries */
};

typedef struct parser {
    tcc_lexer x;
    tcc_graph *g;
    tcc_arena scratch;             /* strings and lists until they are copied into the graph */
    tcc_vec(tcc_node *) by_number; /* nodes by their number in the text */
    tcc_vec(tcc_node *) list;      /* the list that was read last */
    tcc_vec(double) values;
} parser;

static tcc_status fail(parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static tcc_status fail(parser *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tcc_verror(p->x.diag, TCC_EPARSE, p->x.loc, format, args);
    va_end(args);
    return TCC_EPARSE;
}

static bool is_word(const parser *p, const char *word) { return tcc__lex_is_word(&p->x, word); }

static tcc_status take_word(parser *p, const char *word) {
    char what[32];
    snprintf(what, sizeof what, "'%s'", word);
    return is_word(p, word) ? tcc__lex_next(&p->x) : tcc__lex_expected(&p->x, what);
}

/* The word as a C string in a small buffer, cut: for messages and nearest words. */
static const char *word_text(const parser *p, char text[64]) {
    snprintf(text, 64, "%.*s", p->x.token.length < 63 ? (int)p->x.token.length : 63, p->x.token.text);
    return text;
}

/* "unknown <what> 'wrod', did you mean 'word'?" */
static tcc_status unknown(parser *p, const char *what, const char *const *known, int n) {
    char text[64];
    const char *nearest = tcc_nearest(word_text(p, text), known, n);
    if (nearest) return fail(p, "unknown %s '%s', did you mean '%s'?", what, text, nearest);
    return fail(p, "unknown %s '%s'", what, text);
}

/* -- Nodes by number -- */

static tcc_status define(parser *p, int64_t number, tcc_node *n) {
    while (p->by_number.count <= number)
        if (!tcc_vec_push(&p->by_number, NULL)) return tcc_enomem(p->x.diag);
    p->by_number.data[number] = n;
    return TCC_OK;
}

static tcc_status parse_node(parser *p, tcc_node **out) {
    int64_t number;
    const tcc_loc at = p->x.loc;
    TCC_TRY(tcc__lex_node(&p->x, &number));
    *out = number < p->by_number.count ? p->by_number.data[number] : NULL;
    if (*out) return TCC_OK;
    return tcc_error(p->x.diag, TCC_EPARSE, at, "%%%lld is not defined above", (long long)number);
}

/* "(" nodes ")" into p->list. */
static tcc_status parse_nodes(parser *p, int most) {
    p->list.count = 0;
    TCC_TRY(tcc__lex_punct(&p->x, '('));
    while (!tcc__lex_is(&p->x, ')')) {
        tcc_node *n;
        if (p->list.count) TCC_TRY(tcc__lex_punct(&p->x, ','));
        if (p->list.count == most) return fail(p, "more than %d nodes in a list", most);
        TCC_TRY(parse_node(p, &n));
        if (!tcc_vec_push(&p->list, n)) return tcc_enomem(p->x.diag);
    }
    return tcc__lex_next(&p->x);
}

/* -- Attributes and types -- */

static tcc_status parse_dims(parser *p, tcc_dims *out) {
    TCC_TRY(tcc__lex_punct(&p->x, '['));
    while (!tcc__lex_is(&p->x, ']')) {
        if (out->count) TCC_TRY(tcc__lex_punct(&p->x, ','));
        if (out->count == TCC_MAX_RANK) return fail(p, "more than %d entries", TCC_MAX_RANK);
        TCC_TRY(tcc__lex_i64(&p->x, &out->v[out->count]));
        out->count++;
    }
    return tcc__lex_next(&p->x);
}

static tcc_status parse_doubles(parser *p, tcc_doubles *out) {
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

static tcc_status parse_role(parser *p, tcc_role *out) {
    if (p->x.token.kind == TCC_TOKEN_WORD && tcc_role_parse(p->x.token.text, p->x.token.length, out))
        return tcc__lex_next(&p->x);
    return tcc__lex_expected(&p->x, "a role like param");
}

static tcc_status parse_value(parser *p, tcc_attr_kind kind, void *out) {
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

static tcc_status parse_attrs(parser *p, tcc_attr_class attr_class, tcc_attrs *out) {
    const tcc_attr_field *fields = tcc_attr_fields(attr_class);
    unsigned seen = 0;
    TCC_TRY(tcc__lex_punct(&p->x, '{'));
    do {
        const char *names[32] = {0};
        int i = 0, count = 0;
        for (; fields[count].name; count++) names[count] = fields[count].name;
        if (p->x.token.kind != TCC_TOKEN_WORD) return tcc__lex_expected(&p->x, "an attribute");
        while (i < count && !is_word(p, names[i])) i++;
        if (i == count) return unknown(p, "attribute", names, count);
        if (seen >> i & 1) return fail(p, "attribute '%s' is given twice", names[i]);
        seen |= 1u << i;
        TCC_TRY(tcc__lex_next(&p->x));
        TCC_TRY(tcc__lex_punct(&p->x, '='));
        TCC_TRY(parse_value(p, fields[i].kind, tcc_attr_at(out, &fields[i])));
        if (!tcc__lex_is(&p->x, ',')) break;
        TCC_TRY(tcc__lex_next(&p->x));
    } while (true);
    return tcc__lex_punct(&p->x, '}');
}

static tcc_status parse_type(parser *p, tcc_type *out) {
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

static tcc_status parse_loc(parser *p, tcc_loc *loc, bool *backward) {
    TCC_TRY(take_word(p, "loc"));
    TCC_TRY(tcc__lex_punct(&p->x, '('));
    if (!is_word(p, "bw")) {
        int64_t line;
        TCC_TRY(tcc__lex_string(&p->x, &p->scratch, &loc->file));
        if (tcc__lex_is(&p->x, ':')) { /* else no file but a layer of a model */
            TCC_TRY(tcc__lex_next(&p->x));
            if (tcc__lex_i64(&p->x, &line) != TCC_OK) return TCC_EPARSE;
            if (line < 0 || line > INT32_MAX) return fail(p, "%lld is no line number", (long long)line);
            loc->line = (int)line;
        }
        if (!tcc__lex_is(&p->x, ',')) return tcc__lex_punct(&p->x, ')');
        TCC_TRY(tcc__lex_next(&p->x));
    }
    TCC_TRY(take_word(p, "bw"));
    *backward = true;
    return tcc__lex_punct(&p->x, ')');
}

/* -- Statements -- */

static tcc_status unknown_op(parser *p) {
    const char *names[TCC_OP_COUNT];
    for (int op = 0; op < TCC_OP_COUNT; op++) names[op] = tcc_op_get_info((tcc_op)op)->text;
    return unknown(p, "operation", names, TCC_OP_COUNT);
}

static tcc_status parse_definition(parser *p) {
    const tcc_loc at = p->x.loc;
    int64_t number;
    tcc_infer q = {.diag = p->x.diag, .loc = at};
    tcc_attrs attrs = {0};
    tcc_type type = {0}, inferred;
    tcc_loc loc = TCC_NOWHERE;
    bool backward = false;

    TCC_TRY(tcc__lex_node(&p->x, &number));
    if (number >= MAX_NODES) return fail(p, "node numbers end at %d", MAX_NODES - 1);
    if (number < p->by_number.count && p->by_number.data[number])
        return fail(p, "%%%lld is defined twice", (long long)number);
    TCC_TRY(tcc__lex_punct(&p->x, '='));
    if (p->x.token.kind != TCC_TOKEN_WORD) return tcc__lex_expected(&p->x, "an operation");
    if (!tcc_op_parse(p->x.token.text, p->x.token.length, &q.op)) return unknown_op(p);
    const tcc_op_info *info = tcc_op_get_info(q.op);
    TCC_TRY(tcc__lex_next(&p->x));
    p->list.count = 0;
    if (tcc__lex_is(&p->x, '(')) TCC_TRY(parse_nodes(p, MAX_OPERANDS));
    if (tcc__lex_is(&p->x, '{')) TCC_TRY(parse_attrs(p, info->attrs, &attrs));
    TCC_TRY(tcc__lex_punct(&p->x, ':'));
    TCC_TRY(parse_type(p, &type));
    if (is_word(p, "loc")) TCC_TRY(parse_loc(p, &loc, &backward));

    /* Inferred here too, so that errors are reported at the line of this text, not the user's. */
    q.attrs = &attrs;
    q.operands = p->list.data;
    q.n_operands = p->list.count;
    q.given = info->flags & TCC_FLAG_TYPED ? &type : NULL;
    TCC_TRY(tcc__infer(&q, &inferred));
    if (!tcc_type_equal(&type, &inferred))
        return tcc_error(p->x.diag, TCC_EPARSE, at, "%s gives %s, but %%%lld says %s", info->text,
                         tcc_type_text(&inferred), (long long)number, tcc_type_text(&type));
    if (q.op == TCC_OP_INPUT && p->g->inputs.count == MAX_NAMED) return fail(p, "more than %d inputs", MAX_NAMED);
    tcc_node *n = tcc__ir_build(p->g, q.op, q.operands, q.n_operands, &attrs, q.given, loc, backward);
    if (!n) {
        tcc_note(p->x.diag, at, "in this node");
        return TCC_EPARSE;
    }
    return define(p, number, n);
}

static tcc_status parse_offset(parser *p, int64_t *out) {
    const tcc_token at = p->x.token;
    if (at.kind != TCC_TOKEN_AT) return tcc__lex_expected(&p->x, "'@' and an offset");
    *out = 0;
    for (size_t i = 1; i < at.length; i++) {
        int digit = at.text[i] - '0';
        if (digit < 0 || digit > 9 || *out > (INT64_MAX - digit) / 10)
            return tcc__lex_expected(&p->x, "an offset in bytes");
        *out = *out * 10 + digit;
    }
    if (at.length == 1) return tcc__lex_expected(&p->x, "an offset in bytes");
    return tcc__lex_next(&p->x);
}

static tcc_status parse_output(parser *p) {
    const tcc_loc at = p->x.loc;
    const char *name;
    tcc_node *n;
    int alias = -1;
    bool in_place = false, staged = false;
    int64_t stage_bytes = 0;
    TCC_TRY(take_word(p, "output"));
    TCC_TRY(tcc__lex_string(&p->x, &p->scratch, &name));
    TCC_TRY(parse_node(p, &n));
    if (is_word(p, "alias")) {
        tcc_node *input;
        TCC_TRY(tcc__lex_next(&p->x));
        TCC_TRY(parse_node(p, &input));
        for (int i = 0; i < p->g->inputs.count; i++)
            if (p->g->inputs.data[i] == input) alias = i;
        if (alias < 0) return tcc_error(p->x.diag, TCC_EPARSE, at, "only an input can be aliased");
        in_place = is_word(p, "in_place");
        if (in_place) TCC_TRY(tcc__lex_next(&p->x));
        staged = is_word(p, "via");
        if (staged) TCC_TRY(tcc__lex_next(&p->x));
        if (staged) TCC_TRY(parse_offset(p, &stage_bytes));
    }
    if (p->g->outputs.count == MAX_NAMED) return fail(p, "more than %d outputs", MAX_NAMED);
    if (tcc_ir_output(p->g, name, n, alias) != TCC_OK) {
        tcc_note(p->x.diag, at, "in this output");
        return TCC_EPARSE;
    }
    tcc_output *out = &p->g->outputs.data[p->g->outputs.count - 1];
    out->in_place = in_place, out->staged = staged, out->stage_bytes = stage_bytes;
    return TCC_OK;
}

/* -- What runs a group -- */

static tcc_status parse_named(parser *p, const char *word, int64_t *out) {
    TCC_TRY(take_word(p, word));
    return tcc__lex_i64(&p->x, out);
}

static tcc_status parse_small(parser *p, const char *word, int *out) {
    int64_t value;
    TCC_TRY(parse_named(p, word, &value));
    if (value < 0 || value >= MAX_LAUNCHES) return fail(p, "launches are numbered from 0 to %d", MAX_LAUNCHES - 1);
    *out = (int)value;
    return TCC_OK;
}

/* "t12" */
static tcc_status parse_temporary_name(parser *p, int *out) {
    const tcc_token t = p->x.token;
    int64_t number = 0;
    bool good = t.kind == TCC_TOKEN_WORD && t.length > 1 && *t.text == 't';
    for (size_t i = 1; good && i < t.length; i++) {
        good = t.text[i] >= '0' && t.text[i] <= '9' && number < MAX_LAUNCHES;
        number = 10 * number + (t.text[i] - '0');
    }
    if (!good) return tcc__lex_expected(&p->x, "a temporary, as t0");
    *out = (int)number;
    return tcc__lex_next(&p->x);
}

static tcc_status parse_values(parser *p, const char *word, tcc_launch_value **out, int *count) {
    tcc_vec(tcc_launch_value) values = {0};
    TCC_TRY(take_word(p, word));
    TCC_TRY(tcc__lex_punct(&p->x, '('));
    tcc_status status = TCC_OK;
    while (status == TCC_OK && !tcc__lex_is(&p->x, ')')) {
        tcc_launch_value v = {0};
        if (values.count) status = tcc__lex_punct(&p->x, ',');
        if (status != TCC_OK) break;
        status = p->x.token.kind == TCC_TOKEN_NODE ? parse_node(p, &v.node) : parse_temporary_name(p, &v.temporary);
        if (status == TCC_OK && !tcc_vec_push(&values, v)) status = tcc_enomem(p->x.diag);
    }
    *count = values.count;
    *out = tcc_arena_copy(&p->scratch, values.data, sizeof **out * (size_t)values.count);
    if (status == TCC_OK && !*out) status = tcc_enomem(p->x.diag);
    tcc_vec_free(&values);
    return status == TCC_OK ? tcc__lex_next(&p->x) : status;
}

static tcc_status parse_overwrites(parser *p, tcc_launch *launch) {
    tcc_vec(tcc_overwrite) all = {0};
    TCC_TRY(take_word(p, "over"));
    tcc_status status = tcc__lex_punct(&p->x, '(');
    for (tcc_overwrite o; status == TCC_OK;) {
        status = parse_node(p, &o.old);
        if (status == TCC_OK) status = take_word(p, "by");
        if (status == TCC_OK) status = parse_node(p, &o.written);
        if (status == TCC_OK && !tcc_vec_push(&all, o)) status = tcc_enomem(p->x.diag);
        if (status != TCC_OK || !tcc__lex_is(&p->x, ',')) break;
        status = tcc__lex_next(&p->x);
    }
    launch->n_overwrites = all.count;
    launch->overwrites = tcc_arena_copy(&p->scratch, all.data, sizeof *all.data * (size_t)all.count);
    if (status == TCC_OK && !launch->overwrites) status = tcc_enomem(p->x.diag);
    tcc_vec_free(&all);
    return status == TCC_OK ? tcc__lex_punct(&p->x, ')') : status;
}

static tcc_status parse_launch(parser *p, tcc_launch *out) {
    *out = (tcc_launch){0};
    TCC_TRY(take_word(p, "launch"));
    TCC_TRY(tcc__lex_string(&p->x, &p->scratch, &out->name));
    out->beside = is_word(p, "beside");
    if (out->beside) TCC_TRY(tcc__lex_next(&p->x));
    out->copies = is_word(p, "copies");
    if (out->copies) TCC_TRY(tcc__lex_next(&p->x));
    TCC_TRY(parse_values(p, "reads", &out->reads, &out->n_reads));
    TCC_TRY(parse_values(p, "writes", &out->writes, &out->n_writes));
    if (is_word(p, "over")) TCC_TRY(parse_overwrites(p, out));
    TCC_TRY(parse_named(p, "bytes", &out->bytes));
    TCC_TRY(parse_named(p, "flop", &out->flop));
    return parse_named(p, "ns", &out->ns);
}

static tcc_status parse_temporary(parser *p, int number, tcc_temporary *out) {
    int named = 0;
    *out = (tcc_temporary){0};
    TCC_TRY(take_word(p, "temporary"));
    TCC_TRY(parse_temporary_name(p, &named));
    if (named != number) return fail(p, "temporaries are numbered in order: t%d", number);
    TCC_TRY(parse_named(p, "bytes", &out->size_bytes));
    TCC_TRY(parse_small(p, "launches", &out->first));
    TCC_TRY(parse_small(p, "to", &out->last));
    out->placed = p->x.token.kind == TCC_TOKEN_AT;
    return out->placed ? parse_offset(p, &out->offset_bytes) : TCC_OK;
}

static tcc_status parse_choice_param(parser *p, tcc_choice_param *out) {
    TCC_TRY(tcc__lex_next(&p->x));
    if (p->x.token.kind != TCC_TOKEN_WORD) return tcc__lex_expected(&p->x, "the name of a parameter");
    out->name = tcc_arena_printf(&p->scratch, "%.*s", (int)p->x.token.length, p->x.token.text);
    if (!out->name) return tcc_enomem(p->x.diag);
    TCC_TRY(tcc__lex_next(&p->x));
    TCC_TRY(tcc__lex_punct(&p->x, '='));
    return tcc__lex_i64(&p->x, &out->value);
}

static tcc_status parse_choice_params(parser *p, tcc_implementation *x) {
    tcc_vec(tcc_choice_param) params = {0};
    tcc_status status;
    do {
        tcc_choice_param param;
        status = parse_choice_param(p, &param);
        if (status == TCC_OK && !tcc_vec_push(&params, param)) status = tcc_enomem(p->x.diag);
    } while (status == TCC_OK && tcc__lex_is(&p->x, ','));
    x->n_params = params.count;
    x->params = tcc_arena_copy(&p->scratch, params.data, sizeof *params.data * (size_t)params.count);
    tcc_vec_free(&params);
    TCC_TRY(status);
    return x->params ? tcc__lex_punct(&p->x, '}') : tcc_enomem(p->x.diag);
}

static tcc_status parse_choice(parser *p, tcc_implementation **out) {
    tcc_vec(tcc_launch) launches = {0};
    tcc_vec(tcc_temporary) temporaries = {0};
    tcc_implementation *x = TCC_ARENA_NEW(&p->scratch, tcc_implementation);
    if (!x) return tcc_enomem(p->x.diag);
    *out = x;
    TCC_TRY(take_word(p, "by"));
    TCC_TRY(tcc__lex_string(&p->x, &p->scratch, &x->name));
    if (tcc__lex_is(&p->x, '{')) TCC_TRY(parse_choice_params(p, x));
    tcc_status status = TCC_OK;
    while (status == TCC_OK && is_word(p, "temporary")) {
        tcc_temporary t;
        status = parse_temporary(p, temporaries.count, &t);
        if (status == TCC_OK && !tcc_vec_push(&temporaries, t)) status = tcc_enomem(p->x.diag);
    }
    while (status == TCC_OK && is_word(p, "launch")) {
        tcc_launch launch;
        status = parse_launch(p, &launch);
        if (status == TCC_OK && !tcc_vec_push(&launches, launch)) status = tcc_enomem(p->x.diag);
    }
    x->n_launches = launches.count;
    x->n_temporaries = temporaries.count;
    x->launches = tcc_arena_copy(&p->scratch, launches.data, sizeof *x->launches * (size_t)launches.count);
    x->temporaries = tcc_arena_copy(&p->scratch, temporaries.data, sizeof *x->temporaries * (size_t)temporaries.count);
    if (status == TCC_OK && (!x->launches || !x->temporaries)) status = tcc_enomem(p->x.diag);
    tcc_vec_free(&launches);
    tcc_vec_free(&temporaries);
    return status;
}

static tcc_status parse_group(parser *p) {
    const char *kinds[TCC_GROUP_KIND_COUNT];
    tcc_group group = {0};
    int kind = 0;
    TCC_TRY(take_word(p, "group"));
    for (int k = 0; k < TCC_GROUP_KIND_COUNT; k++) kinds[k] = tcc_group_kind_text((tcc_group_kind)k);
    while (kind < TCC_GROUP_KIND_COUNT && !is_word(p, kinds[kind])) kind++;
    if (kind == TCC_GROUP_KIND_COUNT) return unknown(p, "kind of group", kinds, kind);
    group.kind = (tcc_group_kind)kind;
    TCC_TRY(tcc__lex_next(&p->x));
    TCC_TRY(parse_node(p, &group.hero));
    TCC_TRY(take_word(p, "nodes"));
    TCC_TRY(parse_nodes(p, MAX_GROUP_NODES));
    group.n_nodes = p->list.count;
    group.nodes = tcc_arena_copy(&p->scratch, p->list.data, sizeof *group.nodes * (size_t)group.n_nodes);
    if (!group.nodes) return tcc_enomem(p->x.diag);
    TCC_TRY(take_word(p, "outputs"));
    TCC_TRY(parse_nodes(p, MAX_GROUP_NODES));
    group.n_outputs = p->list.count;
    group.outputs = tcc_arena_copy(&p->scratch, p->list.data, sizeof *group.outputs * (size_t)group.n_outputs);
    if (!group.outputs) return tcc_enomem(p->x.diag);
    if (is_word(p, "by")) TCC_TRY(parse_choice(p, &group.implementation));
    return tcc_ir_group(p->g, &group);
}

static tcc_status parse_place(parser *p) {
    tcc_place place;
    TCC_TRY(take_word(p, "place"));
    TCC_TRY(parse_node(p, &place.node));
    TCC_TRY(parse_offset(p, &place.offset_bytes));
    return tcc_vec_push(&p->g->places, place) ? TCC_OK : tcc_enomem(p->x.diag);
}

static tcc_status parse_statement(parser *p) {
    static const char *const words[] = {"output", "group", "place", "arena"};
    if (p->x.token.kind == TCC_TOKEN_NODE) return parse_definition(p);
    if (is_word(p, "output")) return parse_output(p);
    if (is_word(p, "group")) return parse_group(p);
    if (is_word(p, "place")) return parse_place(p);
    if (is_word(p, "arena")) {
        TCC_TRY(tcc__lex_next(&p->x));
        return tcc__lex_i64(&p->x, &p->g->arena_bytes);
    }
    if (p->x.token.kind == TCC_TOKEN_WORD) return unknown(p, "statement", words, 4);
    return tcc__lex_expected(&p->x, "a node, an output or '}'");
}

static tcc_status parse_graph(parser *p, const char *text, size_t length, const char *file, tcc_diag *diag) {
    const char *name;
    TCC_TRY(tcc__lex_start(&p->x, text, length, file, diag));
    TCC_TRY(take_word(p, "graph"));
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
    parser p = {0};
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
