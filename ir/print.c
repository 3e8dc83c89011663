/* SPDX-License-Identifier: MIT
 * Graphs as text; the grammar is on top of parse.c. And as Graphviz input. */
#include "ir/attrs.h"
#include "ir/ir.h"

#include <stdio.h>
#include <string.h>

static const char *const group_kinds[TCC_GROUP_KIND_COUNT] = {
    [TCC_GROUP_POINTWISE] = "pointwise",   [TCC_GROUP_REDUCE] = "reduce",       [TCC_GROUP_SCAN] = "scan",
    [TCC_GROUP_SCATTER] = "scatter",       [TCC_GROUP_SORT] = "sort",           [TCC_GROUP_CONTRACT] = "contract",
    [TCC_GROUP_WINDOW] = "window",         [TCC_GROUP_ATTENTION] = "attention", [TCC_GROUP_NORM] = "norm",
    [TCC_GROUP_COLLECTIVE] = "collective",
};

const char *tcc_group_kind_text(tcc_group_kind kind) { return group_kinds[kind]; }

static void print_ids(tcc_strbuf *b, tcc_node *const *nodes, int count) {
    tcc_strbuf_add(b, "(");
    for (int i = 0; i < count; i++) tcc_strbuf_printf(b, i ? ", %%%d" : "%%%d", nodes[i]->id);
    tcc_strbuf_add(b, ")");
}

static void print_loc(tcc_strbuf *b, const tcc_node *n) {
    if (!n->loc.file && !n->backward && !n->segment) return;
    tcc_strbuf_add(b, " loc(");
    if (n->loc.file) {
        tcc_print_quoted(b, n->loc.file);
        if (n->loc.line) tcc_strbuf_printf(b, ":%d", n->loc.line);
    }
    if (n->segment) tcc_strbuf_printf(b, n->loc.file ? ", segment %d" : "segment %d", n->segment);
    if (n->backward) tcc_strbuf_add(b, n->loc.file || n->segment ? ", bw" : "bw");
    tcc_strbuf_add(b, ")");
}

static void print_node(tcc_strbuf *b, const tcc_node *n, bool with_attrs) {
    const tcc_op_info *info = tcc_op_get_info(n->op);
    tcc_strbuf_printf(b, "%%%d = %s", n->id, info->text);
    if (n->n_operands) print_ids(b, n->operands, n->n_operands);
    if (with_attrs) {
        size_t before = b->length;
        tcc_strbuf_add(b, " ");
        if (!tcc_attrs_print(b, info->attrs, n->attrs) && !b->failed) b->text[b->length = before] = '\0';
    }
    tcc_strbuf_add(b, " : ");
    tcc_type_print(b, &n->type);
    if (n->marks & TCC_MARK_FULL) tcc_strbuf_add(b, " full");
    if (n->marks & TCC_MARK_REMAT) tcc_strbuf_add(b, " remat");
    if (n->marks & TCC_MARK_PASSES) tcc_strbuf_add(b, " passes");
}

/* A name that needs no quotes: as the lexer reads a word. */
static bool is_word(const char *s) {
    if (!*s) return false;
    for (; *s; s++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", *s)) return false;
    return true;
}

/* -- What runs a group -- */

void tcc_implementation_print_name(tcc_strbuf *b, const tcc_implementation *x) {
    tcc_print_quoted(b, x->name);
    if (!x->n_params) return;
    tcc_strbuf_add(b, " {");
    for (int i = 0; i < x->n_params; i++)
        tcc_strbuf_printf(b, "%s%s=%lld", i ? ", " : "", x->params[i].name, (long long)x->params[i].value);
    tcc_strbuf_add(b, "}");
}

static void print_values(tcc_strbuf *b, const char *word, const tcc_launch_value *values, int count) {
    tcc_strbuf_printf(b, " %s(", word);
    for (int i = 0; i < count; i++) {
        const char *comma = i ? ", " : "";
        if (values[i].node) tcc_strbuf_printf(b, "%s%%%d", comma, values[i].node->id);
        else tcc_strbuf_printf(b, "%st%d", comma, values[i].temporary);
    }
    tcc_strbuf_add(b, ")");
}

static void print_launch(tcc_strbuf *b, const tcc_launch *launch) {
    tcc_strbuf_add(b, "    launch ");
    tcc_print_quoted(b, launch->name);
    if (launch->beside) tcc_strbuf_add(b, " beside");
    if (launch->copies) tcc_strbuf_add(b, " copies");
    print_values(b, "reads", launch->reads, launch->n_reads);
    print_values(b, "writes", launch->writes, launch->n_writes);
    if (launch->n_overwrites) tcc_strbuf_add(b, " over(");
    for (int i = 0; i < launch->n_overwrites; i++)
        tcc_strbuf_printf(b, "%s%%%d by %%%d", i ? ", " : "", launch->overwrites[i].old->id,
                          launch->overwrites[i].written->id);
    tcc_strbuf_printf(b, "%s bytes %lld flop %lld ns %lld\n", launch->n_overwrites ? ")" : "", (long long)launch->bytes,
                      (long long)launch->flop, (long long)launch->ns);
}

static void print_implementation(tcc_strbuf *b, const tcc_implementation *x) {
    tcc_strbuf_add(b, "    by ");
    tcc_implementation_print_name(b, x);
    tcc_strbuf_add(b, "\n");
    for (int i = 0; i < x->n_temporaries; i++) {
        const tcc_temporary *t = &x->temporaries[i];
        tcc_strbuf_printf(b, "    temporary t%d bytes %lld launches %d to %d", i, (long long)t->size_bytes, t->first,
                          t->last);
        if (t->placed) tcc_strbuf_printf(b, " @%lld", (long long)t->offset_bytes);
        tcc_strbuf_add(b, "\n");
    }
    for (int i = 0; i < x->n_launches; i++) print_launch(b, &x->launches[i]);
}

void tcc_graph_print(tcc_strbuf *b, const tcc_graph *g, tcc_print_options options) {
    tcc_strbuf_add(b, "graph @");
    if (is_word(g->name)) tcc_strbuf_add(b, g->name);
    else tcc_print_quoted(b, g->name);
    tcc_strbuf_add(b, " {\n");
    for (int i = 0; i < g->nodes.count; i++) {
        tcc_strbuf_add(b, "  ");
        print_node(b, g->nodes.data[i], true);
        if (options.locs) print_loc(b, g->nodes.data[i]);
        tcc_strbuf_add(b, "\n");
    }
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *o = &g->outputs.data[i];
        tcc_strbuf_add(b, "  output ");
        tcc_print_quoted(b, o->name);
        tcc_strbuf_printf(b, " %%%d", o->node->id);
        if (o->alias >= 0)
            tcc_strbuf_printf(b, " alias %%%d%s", g->inputs.data[o->alias]->id, o->in_place ? " in_place" : "");
        if (o->staged) tcc_strbuf_printf(b, " via @%lld", (long long)o->stage_bytes);
        tcc_strbuf_add(b, "\n");
    }
    for (int i = 0; i < g->groups.count; i++) {
        const tcc_group *group = &g->groups.data[i];
        tcc_strbuf_printf(b, "  group %s %%%d nodes", group_kinds[group->kind], group->hero->id);
        print_ids(b, group->nodes, group->n_nodes);
        tcc_strbuf_add(b, " outputs");
        print_ids(b, group->outputs, group->n_outputs);
        tcc_strbuf_add(b, "\n");
        if (group->implementation) print_implementation(b, group->implementation);
    }
    for (int i = 0; i < g->places.count; i++)
        tcc_strbuf_printf(b, "  place %%%d @%lld\n", g->places.data[i].node->id,
                          (long long)g->places.data[i].offset_bytes);
    if (g->arena_bytes) tcc_strbuf_printf(b, "  arena %lld\n", (long long)g->arena_bytes);
    tcc_strbuf_add(b, "}\n");
}

const char *tcc_node_text(const tcc_node *n) {
    enum { TEXT_BYTES = 400, LONGEST_LIST = 8, MOST_OPERANDS = 16 };
    static _Thread_local char buffers[4][TEXT_BYTES];
    static _Thread_local unsigned next;
    char *text = buffers[next++ % 4];
    tcc_strbuf b = {0};
    if (n->n_operands > MOST_OPERANDS)
        tcc_strbuf_printf(&b, "%%%d = %s(...) : %s", n->id, tcc_op_get_info(n->op)->text, tcc_type_text(&n->type));
    else print_node(&b, n, n->op != TCC_OP_CONSTANT || n->attrs->constant.values.count <= LONGEST_LIST);
    snprintf(text, TEXT_BYTES, "%s", b.text && !b.failed ? b.text : tcc_op_get_info(n->op)->text);
    tcc_strbuf_free(&b);
    return text;
}
