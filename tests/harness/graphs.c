/* SPDX-License-Identifier: MIT
 * Graphs from text, for tests. */
#include "harness/graphs.h"
#include "harness/check.h"

#include <stdio.h>

#include "ir/support/alloc.h"

#include <stdlib.h>
#include <string.h>

tcc_graph *parse_graph(const char *text, tcc_diag *diag) {
    tcc_graph *g = NULL;
    assert_ok(tcc_graph_parse(text, strlen(text), "test.tir", diag, &g), diag);
    assert_ok(tcc_graph_verify(g, diag), diag);
    return g;
}

char *print_graph(const tcc_graph *g, bool locs) {
    tcc_strbuf b = {0};
    tcc_graph_print(&b, g, (tcc_print_options){.locs = locs});
    assert_false(b.failed);
    char *text = strdup(b.text);
    tcc_strbuf_free(&b);
    return text;
}

void conv_graph_text(char *text, size_t size, const conv_graph *c) {
    char x[64], y[64], f[64], both[256];
    snprintf(x, sizeof x, c->last ? "f32[%1$d,%2$d,%3$d,%4$d]" : "f32[%1$d,%4$d,%2$d,%3$d]", c->n, c->h, c->w, c->c);
    snprintf(y, sizeof y, c->last ? "f32[%1$d,%2$d,%3$d,%4$d]" : "f32[%1$d,%4$d,%2$d,%3$d]", c->n, c->oh, c->ow, c->o);
    snprintf(f, sizeof f, c->last ? "f32[%1$d,%2$d,%3$d,%4$d]" : "f32[%1$d,%4$d,%2$d,%3$d]", c->o, c->kh, c->kw, c->c / c->groups);
    snprintf(both, sizeof both, "%s, groups=%d%s", c->attrs, c->groups, c->last ? ", channels_last=true" : "");
    snprintf(text, size,
             "graph @conv {\n"
             "  %%0 = input {name=\"x\"} : %s\n"
             "  %%1 = input {name=\"w\"} : %s\n"
             "  %%2 = input {name=\"dy\"} : %s\n"
             "  %%3 = input {name=\"b\"} : f32[%d]\n"
             "  %%4 = conv(%%0, %%1) {%s} : %s\n"
             "  %%5 = broadcast(%%3) {dims=[%d]} : %s\n"
             "  %%6 = add(%%4, %%5) : %s\n"
             "  %%7 = tanh(%%6) : %s\n"
             "  %%8 = conv_grad_input(%%2, %%1) {%s} : %s\n"
             "  %%9 = conv_grad_weight(%%0, %%2) {%s} : %s\n"
             "  output \"y\" %%7\n"
             "  output \"dx\" %%8\n"
             "  output \"dw\" %%9\n"
             "}\n",
             x, f, y, c->o, both, y, c->last ? 3 : 1, y, y, y, both, x, both, f);
}
