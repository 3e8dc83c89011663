/* SPDX-License-Identifier: MIT
 * Graphs from text, for tests. */
#include "harness/graphs.h"
#include "harness/check.h"
#include "harness/passes.h"

#include "ir/support/alloc.h"

#include <stdio.h>
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

tcc_graph *adamw_graph(const int64_t *sizes, int count, tcc_diag *diag) {
    tcc_strbuf text = {0};
    tcc_strbuf_add(&text, "graph @adamw {\n");
    for (int i = 0; i < count; i++) tcc_strbuf_printf(&text, "  %%%d = input {role=param, name=\"p%d\"} : f32[%lld]\n", i, i, (long long)sizes[i]);
    int next = count, loss = -1;
    for (int i = 0; i < count; i++) {
        tcc_strbuf_printf(&text, "  %%%d = mul(%%%d, %%%d) : f32[%lld]\n  %%%d = reduce_sum(%%%d) {axes=[0]} : f32[]\n", next, i, i, (long long)sizes[i], next + 1, next);
        next += 2;
        if (loss >= 0) tcc_strbuf_printf(&text, "  %%%d = add(%%%d, %%%d) : f32[]\n", next, loss, next - 1), loss = next++;
        else loss = next - 1;
    }
    tcc_strbuf_printf(&text, "  output \"loss\" %%%d\n}\n", loss);
    tcc_graph *g = parse_graph(text.text, diag);
    tcc_graph *step = run_passes(g, "simplify,autodiff,train-step", &(tcc_pass_options){.train = true, .spec = {.optimizer = TCC_OPTIMIZER_ADAMW, .n_groups = 1}});
    tcc_graph_destroy(g);
    tcc_strbuf_free(&text);
    return step;
}

const char *const dot_graphs[DOT_GRAPHS] = {
    "graph @linear {\n"
    "  %0 = input {name=\"x\"} : f32[4,9,40]\n"
    "  %1 = input {name=\"w\"} : f32[50,40]\n"
    "  %2 = input {name=\"b\"} : f32[50]\n"
    "  %3 = input {name=\"r\"} : f32[4,9,50]\n"
    "  %4 = dot(%0, %1) {contract_a=[2], contract_b=[1]} : f32[4,9,50]\n"
    "  %5 = broadcast(%2) {dims=[2]} : f32[4,9,50]\n"
    "  %6 = add(%4, %5) : f32[4,9,50]\n"
    "  %7 = tanh(%6) : f32[4,9,50]\n"
    "  %8 = add(%7, %3) : f32[4,9,50]\n"
    "  output \"y\" %8\n"
    "  output \"before\" %6\n"
    "}\n",
    "graph @heads {\n"
    "  %0 = input {name=\"q\"} : f32[2,12,32]\n"
    "  %1 = input {name=\"k\"} : f32[2,12,32]\n"
    "  %2 = reshape(%0) : f32[2,12,4,8]\n"
    "  %3 = transpose(%2) {perm=[0, 2, 1, 3]} : f32[2,4,12,8]\n"
    "  %4 = reshape(%1) : f32[2,12,4,8]\n"
    "  %5 = transpose(%4) {perm=[0, 2, 1, 3]} : f32[2,4,12,8]\n"
    "  %6 = dot(%3, %5) {batch_a=[0, 1], batch_b=[0, 1], contract_a=[3], contract_b=[3]} : f32[2,4,12,12]\n"
    "  output \"s\" %6\n"
    "}\n",
    "graph @several {\n"
    "  %0 = input {name=\"a\"} : f32[3,4,5,6]\n"
    "  %1 = input {name=\"b\"} : f32[6,7,4,3]\n"
    "  %2 = dot(%0, %1) {batch_a=[1], batch_b=[2], contract_a=[0, 3], contract_b=[3, 0]} : f32[4,5,7]\n"
    "  %3 = dot(%0, %0) {contract_a=[0, 1, 2, 3], contract_b=[0, 1, 2, 3]} : f32[]\n"
    "  output \"c\" %2\n"
    "  output \"n\" %3\n"
    "}\n",
};
