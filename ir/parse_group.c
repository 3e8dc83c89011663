/* SPDX-License-Identifier: MIT
 * Groups in the text: their nodes, what runs them, and where their values lie. parse.c has the grammar. */
#include "ir/parser.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_GROUP_NODES = 1 << 20,
    MAX_LAUNCHES = 1 << 20, /* of a group, and temporaries */
};

/* -- What runs a group -- */

static tcc_status parse_named(tcc_parser *p, const char *word, int64_t *out) {
    TCC_TRY(tcc__parse_word(p, word));
    return tcc__lex_i64(&p->x, out);
}

static tcc_status parse_small(tcc_parser *p, const char *word, int *out) {
    int64_t value;
    TCC_TRY(parse_named(p, word, &value));
    if (value < 0 || value >= MAX_LAUNCHES)
        return tcc__parse_fail(p, "launches are numbered from 0 to %d", MAX_LAUNCHES - 1);
    *out = (int)value;
    return TCC_OK;
}

/* "t12" */
static tcc_status parse_temporary_name(tcc_parser *p, int *out) {
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

static tcc_status parse_values(tcc_parser *p, const char *word, tcc_launch_value **out, int *count) {
    tcc_vec(tcc_launch_value) values = {0};
    TCC_TRY(tcc__parse_word(p, word));
    TCC_TRY(tcc__lex_punct(&p->x, '('));
    tcc_status status = TCC_OK;
    while (status == TCC_OK && !tcc__lex_is(&p->x, ')')) {
        tcc_launch_value v = {0};
        if (values.count) status = tcc__lex_punct(&p->x, ',');
        if (status != TCC_OK) break;
        status = p->x.token.kind == TCC_TOKEN_NODE ? tcc__parse_node(p, &v.node)
                                                   : parse_temporary_name(p, &v.temporary);
        if (status == TCC_OK && !tcc_vec_push(&values, v)) status = tcc_enomem(p->x.diag);
    }
    *count = values.count;
    *out = tcc_arena_copy(&p->scratch, values.data, sizeof **out * (size_t)values.count);
    if (status == TCC_OK && !*out) status = tcc_enomem(p->x.diag);
    tcc_vec_free(&values);
    return status == TCC_OK ? tcc__lex_next(&p->x) : status;
}

static tcc_status parse_overwrites(tcc_parser *p, tcc_launch *launch) {
    tcc_vec(tcc_overwrite) all = {0};
    TCC_TRY(tcc__parse_word(p, "over"));
    tcc_status status = tcc__lex_punct(&p->x, '(');
    for (tcc_overwrite o; status == TCC_OK;) {
        status = tcc__parse_node(p, &o.old);
        if (status == TCC_OK) status = tcc__parse_word(p, "by");
        if (status == TCC_OK) status = tcc__parse_node(p, &o.written);
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

static tcc_status parse_launch(tcc_parser *p, tcc_launch *out) {
    *out = (tcc_launch){0};
    TCC_TRY(tcc__parse_word(p, "launch"));
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

static tcc_status parse_temporary(tcc_parser *p, int number, tcc_temporary *out) {
    int named = 0;
    *out = (tcc_temporary){0};
    TCC_TRY(tcc__parse_word(p, "temporary"));
    TCC_TRY(parse_temporary_name(p, &named));
    if (named != number) return tcc__parse_fail(p, "temporaries are numbered in order: t%d", number);
    TCC_TRY(parse_named(p, "bytes", &out->size_bytes));
    TCC_TRY(parse_small(p, "launches", &out->first));
    TCC_TRY(parse_small(p, "to", &out->last));
    out->placed = p->x.token.kind == TCC_TOKEN_AT;
    return out->placed ? tcc__parse_offset(p, &out->offset_bytes) : TCC_OK;
}

static tcc_status parse_choice_param(tcc_parser *p, tcc_choice_param *out) {
    TCC_TRY(tcc__lex_next(&p->x));
    if (p->x.token.kind != TCC_TOKEN_WORD) return tcc__lex_expected(&p->x, "the name of a parameter");
    out->name = tcc_arena_printf(&p->scratch, "%.*s", (int)p->x.token.length, p->x.token.text);
    if (!out->name) return tcc_enomem(p->x.diag);
    TCC_TRY(tcc__lex_next(&p->x));
    TCC_TRY(tcc__lex_punct(&p->x, '='));
    return tcc__lex_i64(&p->x, &out->value);
}

static tcc_status parse_choice_params(tcc_parser *p, tcc_implementation *x) {
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

/* by "NAME" {PARAMETER=NUMBER, ...} */
static tcc_status parse_choice_name(tcc_parser *p, tcc_implementation **out) {
    tcc_implementation *x = *out = TCC_ARENA_NEW(&p->scratch, tcc_implementation);
    if (!x) return tcc_enomem(p->x.diag);
    TCC_TRY(tcc__parse_word(p, "by"));
    TCC_TRY(tcc__lex_string(&p->x, &p->scratch, &x->name));
    return tcc__lex_is(&p->x, '{') ? parse_choice_params(p, x) : TCC_OK;
}

tcc_status tcc_implementation_parse(const char *text, tcc_loc at, tcc_arena *arena, tcc_diag *diag,
                                    tcc_implementation **out) {
    tcc_parser p = {0};
    tcc_implementation *x;
    tcc_status status = tcc__lex_start(&p.x, text, strlen(text), at.file, diag);
    p.x.loc.line = at.line;
    if (status == TCC_OK) status = parse_choice_name(&p, &x);
    if (status == TCC_OK && p.x.token.kind != TCC_TOKEN_END) status = tcc__lex_expected(&p.x, "the end of the line");
    if (status == TCC_OK && !(*out = tcc_implementation_copy(arena, x, NULL))) status = tcc_enomem(diag);
    tcc_arena_free(&p.scratch);
    return status;
}

static tcc_status parse_choice(tcc_parser *p, tcc_implementation **out) {
    tcc_vec(tcc_launch) launches = {0};
    tcc_vec(tcc_temporary) temporaries = {0};
    TCC_TRY(parse_choice_name(p, out));
    tcc_implementation *x = *out;
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

tcc_status tcc__parse_group(tcc_parser *p) {
    const char *kinds[TCC_GROUP_KIND_COUNT];
    tcc_group group = {0};
    int kind = 0;
    TCC_TRY(tcc__parse_word(p, "group"));
    for (int k = 0; k < TCC_GROUP_KIND_COUNT; k++) kinds[k] = tcc_group_kind_text((tcc_group_kind)k);
    while (kind < TCC_GROUP_KIND_COUNT && !is_word(p, kinds[kind])) kind++;
    if (kind == TCC_GROUP_KIND_COUNT) return tcc__parse_unknown(p, "kind of group", kinds, kind);
    group.kind = (tcc_group_kind)kind;
    TCC_TRY(tcc__lex_next(&p->x));
    TCC_TRY(tcc__parse_node(p, &group.hero));
    TCC_TRY(tcc__parse_word(p, "nodes"));
    TCC_TRY(tcc__parse_nodes(p, MAX_GROUP_NODES));
    group.n_nodes = p->list.count;
    group.nodes = tcc_arena_copy(&p->scratch, p->list.data, sizeof *group.nodes * (size_t)group.n_nodes);
    if (!group.nodes) return tcc_enomem(p->x.diag);
    TCC_TRY(tcc__parse_word(p, "outputs"));
    TCC_TRY(tcc__parse_nodes(p, MAX_GROUP_NODES));
    group.n_outputs = p->list.count;
    group.outputs = tcc_arena_copy(&p->scratch, p->list.data, sizeof *group.outputs * (size_t)group.n_outputs);
    if (!group.outputs) return tcc_enomem(p->x.diag);
    if (is_word(p, "by")) TCC_TRY(parse_choice(p, &group.implementation));
    return tcc_ir_group(p->g, &group);
}

tcc_status tcc__parse_place(tcc_parser *p) {
    tcc_place place;
    TCC_TRY(tcc__parse_word(p, "place"));
    TCC_TRY(tcc__parse_node(p, &place.node));
    TCC_TRY(tcc__parse_offset(p, &place.offset_bytes));
    return tcc_vec_push(&p->g->places, place) ? TCC_OK : tcc_enomem(p->x.diag);
}
