/* SPDX-License-Identifier: MIT
 * Graphs from text, for tests. */
#include "harness/graphs.h"
#include "harness/check.h"

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
