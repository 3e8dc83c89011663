/* SPDX-License-Identifier: MIT
 * Files of a graph for people: the text, graphviz's language, the memory plan. */
#include "passes/pipeline/dump.h"

#include "ir/attrs.h"
#include "ir/support/text_file.h"
#include "passes/group.h"
#include "passes/memory/plan.h"
#include "passes/remat/print.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static void dot_node(tcc_strbuf *b, const tcc_node *n, const char *indent, const char *style) {
    const bool input = n->op == TCC_OP_INPUT;
    tcc_strbuf label = {0};
    tcc_strbuf_printf(&label, "%s\n%s", input ? n->attrs->input.name : tcc_op_get_info(n->op)->text,
                      tcc_type_text(&n->type));
    tcc_strbuf_printf(b, "%sn%d [label=", indent, n->id);
    if (label.failed) b->failed = true;
    else tcc_print_quoted(b, label.text); /* the \n that it writes is Graphviz's own */
    tcc_strbuf_printf(b, "%s];\n", input ? ", style=filled, fillcolor=lightblue" : style);
    tcc_strbuf_free(&label);
}

void tcc_dump_dot(tcc_strbuf *b, const tcc_graph *g) {
    tcc_strbuf_add(b, "digraph ");
    tcc_print_quoted(b, g->name);
    tcc_strbuf_add(b, " {\n  node [shape=box, fontsize=10];\n");
    for (int i = 0; i < g->groups.count; i++) {
        const tcc_group *group = &g->groups.data[i];
        tcc_strbuf_printf(b, "  subgraph cluster%d {\n    label=\"%d %s%s%s\"; color=gray;\n", i, i,
                          tcc_group_kind_text(group->kind), group->implementation ? " by " : "",
                          group->implementation ? group->implementation->name : "");
        for (int k = 0; k < group->n_outputs; k++)
            dot_node(b, group->outputs[k], "    ", group->outputs[k] == group->hero ? ", penwidth=2" : "");
        tcc_strbuf_add(b, "  }\n");
    }
    for (int i = 0; i < g->nodes.count; i++) {
        const tcc_node *n = g->nodes.data[i];
        if (n->op == TCC_OP_CONSTANT) continue;
        dot_node(b, n, "  ", "");
        for (int k = 0; k < n->n_operands; k++)
            if (n->operands[k]->op != TCC_OP_CONSTANT)
                tcc_strbuf_printf(b, "  n%d -> n%d;\n", n->operands[k]->id, n->id);
    }
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *output = &g->outputs.data[i];
        tcc_strbuf_printf(b, "  o%d [label=", i);
        tcc_print_quoted(b, output->name);
        tcc_strbuf_printf(b, ", style=filled, fillcolor=lightgray];\n  n%d -> o%d;\n", output->node->id, i);
    }
    tcc_strbuf_add(b, "}\n");
}

/* Writes the buffer to DIR/NN.pass.SUFFIX and empties it. */
static tcc_status write_file(tcc_strbuf *b, const char *directory, int number, const char *pass, const char *suffix,
                             tcc_diag *diag) {
    tcc_strbuf path = {0};
    tcc_strbuf_printf(&path, "%s/%02d.%s.%s", directory, number, pass, suffix);
    return tcc_text_file_write(diag, &path, b);
}

static tcc_status dump_plan(const tcc_graph *g, const char *directory, int number, const char *pass, tcc_diag *diag) {
    tcc_plan plan;
    TCC_TRY(tcc_plan_read(g, &plan, diag));
    tcc_strbuf b = {0};
    tcc_plan_print(&b, g, &plan);
    tcc_status status = write_file(&b, directory, number, pass, "memory.txt", diag);
    if (status == TCC_OK) {
        tcc_plan_svg(&b, g, &plan);
        status = write_file(&b, directory, number, pass, "memory.svg", diag);
    }
    tcc_plan_free(&plan);
    return status;
}

tcc_status tcc_dump_graph(const tcc_graph *g, const char *directory, int number, const char *pass, tcc_diag *diag) {
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        return tcc_error(diag, TCC_EIO, TCC_NOWHERE, "cannot make folder %s: %s", directory, strerror(errno));
    tcc_strbuf b = {0};
    tcc_graph_print(&b, g, (tcc_print_options){.locs = true});
    TCC_TRY(write_file(&b, directory, number, pass, "tir", diag));
    tcc_dump_dot(&b, g);
    TCC_TRY(write_file(&b, directory, number, pass, "dot", diag));
    return g->places.count ? dump_plan(g, directory, number, pass, diag) : TCC_OK;
}

tcc_status tcc_dump_remat(const tcc_remat_report *r, const char *directory, int number, const char *pass,
                          tcc_diag *diag) {
    tcc_strbuf b = {0};
    if (!r->frontier.count) return TCC_OK;
    tcc_remat_print_frontier(&b, r);
    TCC_TRY(write_file(&b, directory, number, pass, "frontier.txt", diag));
    tcc_remat_frontier_svg(&b, r);
    return write_file(&b, directory, number, pass, "frontier.svg", diag);
}
