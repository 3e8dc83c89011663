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
    snprintf(f, sizeof f, c->last ? "f32[%1$d,%2$d,%3$d,%4$d]" : "f32[%1$d,%4$d,%2$d,%3$d]", c->o, c->kh, c->kw,
             c->c / c->groups);
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

void attention_graph_text(char *text, size_t size, const attention_graph *a) {
    enum { Q, K, V, O, LSE, SCORES, TYPES };
    const char *type = a->type ? a->type : "f32";
    const int ends[TYPES][2] = {{a->T, a->D}, {a->S, a->D}, {a->S, a->E}, {a->T, a->E}, {0}, {a->T, a->S}};
    char types[TYPES][64], attrs[128], optional[32], dims[32] = "0, 1";
    for (int i = 0; i < TYPES; i++)
        snprintf(types[i], sizeof types[i], "%s[%s%d,%d]", type, a->shared && (i == K || i == V) ? a->shared : a->lead,
                 ends[i][0], ends[i][1]);
    snprintf(types[LSE], sizeof types[LSE], "f32[%s%d]", a->lead, a->T);
    int rank = 2;
    for (const char *c = a->lead; *c; c++)
        if (*c == ',') sprintf(dims + strlen(dims), ", %d", rank++);
    if (a->p > 0) snprintf(attrs, sizeof attrs, "%s, p=%a, id=3", a->attrs, a->p);
    else snprintf(attrs, sizeof attrs, "%s", a->attrs);
    snprintf(optional, sizeof optional, "%s%s", a->mask ? ", %6" : "", a->p > 0 ? ", %4" : "");
    const char *mask = a->mask ? ", %6" : "";
    tcc_strbuf b = {0};
    tcc_strbuf_printf(&b, "graph @attention {\n  %%0 = input {name=\"q\"} : %s\n  %%1 = input {name=\"k\"} : %s\n",
                      types[Q], types[K]);
    tcc_strbuf_printf(&b, "  %%2 = input {name=\"v\"} : %s\n  %%3 = input {name=\"do\"} : %s\n", types[V], types[O]);
    tcc_strbuf_add(&b, "  %4 = input {role=rng, name=\"key\"} : i64[2]\n");
    tcc_strbuf_printf(&b, "  %%5 = input {name=\"mask\"} : %s[%s]\n", type, a->mask ? a->mask : "1");
    if (a->mask) tcc_strbuf_printf(&b, "  %%6 = broadcast(%%5) {dims=[%s]} : %s\n", dims, types[SCORES]);
    tcc_strbuf_printf(&b, "  %%7 = sdpa(%%0, %%1, %%2%s) {%s} : %s\n  %%8 = sdpa_lse(%%0, %%1%s) {%s} : %s\n", optional,
                      attrs, types[O], mask, a->attrs, types[LSE]);
    for (int i = 0; i < 3 && !a->forward; i++)
        tcc_strbuf_printf(&b, "  %%%d = sdpa_grad_%c(%%0, %%1, %%2, %%7, %%8, %%3%s) {%s} : %s\n", 9 + i, "qkv"[i],
                          optional, attrs, types[i]);
    tcc_strbuf_add(&b, "  output \"o\" %7\n  output \"lse\" %8\n");
    if (!a->forward) tcc_strbuf_add(&b, "  output \"dq\" %9\n  output \"dk\" %10\n  output \"dv\" %11\n");
    tcc_strbuf_add(&b, "}\n");
    assert_true(!b.failed && strlen(b.text) < size);
    memcpy(text, b.text, strlen(b.text) + 1);
    tcc_strbuf_free(&b);
}

tcc_graph *adamw_graph(const int64_t *sizes, int count, tcc_diag *diag) {
    tcc_strbuf text = {0};
    tcc_strbuf_add(&text, "graph @adamw {\n");
    for (int i = 0; i < count; i++)
        tcc_strbuf_printf(&text, "  %%%d = input {role=param, name=\"p%d\"} : f32[%lld]\n", i, i, (long long)sizes[i]);
    int next = count, loss = -1;
    for (int i = 0; i < count; i++) {
        tcc_strbuf_printf(&text, "  %%%d = mul(%%%d, %%%d) : f32[%lld]\n  %%%d = reduce_sum(%%%d) {axes=[0]} : f32[]\n",
                          next, i, i, (long long)sizes[i], next + 1, next);
        next += 2;
        if (loss >= 0)
            tcc_strbuf_printf(&text, "  %%%d = add(%%%d, %%%d) : f32[]\n", next, loss, next - 1), loss = next++;
        else loss = next - 1;
    }
    tcc_strbuf_printf(&text, "  output \"loss\" %%%d\n}\n", loss);
    tcc_graph *g = parse_graph(text.text, diag);
    tcc_graph *step = run_passes(g, "simplify,autodiff,train-step",
                                 &(tcc_pass_options){.train = true, .spec = {.optimizer = TCC_ADAMW, .n_groups = 1}});
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
    "graph @stored_in_parts {\n" /* channels are split where they are stored, rows are merged */
    "  %0 = input {name=\"x\"} : f32[4,9,40]\n"
    "  %1 = input {name=\"w\"} : f32[48,40]\n"
    "  %2 = input {name=\"b\"} : f32[48]\n"
    "  %3 = dot(%0, %1) {contract_a=[2], contract_b=[1]} : f32[4,9,48]\n"
    "  %4 = broadcast(%2) {dims=[2]} : f32[4,9,48]\n"
    "  %5 = add(%3, %4) : f32[4,9,48]\n"
    "  %6 = reshape(%5) : f32[4,9,6,8]\n"
    "  %7 = tanh(%5) : f32[4,9,48]\n"
    "  %8 = reshape(%7) : f32[36,48]\n"
    "  output \"heads\" %6\n"
    "  output \"rows\" %8\n"
    "}\n",
};
