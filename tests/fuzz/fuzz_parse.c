/* SPDX-License-Identifier: MIT
 * The parser of the textual IR on any bytes. What parses must print, parse back to an equal graph
 * and print the same again; the verifier and the other readers of a graph must cope with it. */
#include "ir/ir.h"
#include "ir/support/alloc.h"
#include "passes/pipeline/dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *print(const tcc_graph *g) {
    tcc_strbuf b = {0};
    tcc_graph_print(&b, g, (tcc_print_options){.locs = true});
    return tcc_strbuf_take(&b);
}

static void expect(bool holds, const char *what, const char *text) {
    if (holds) return;
    fprintf(stderr, "%s\n%s\n", what, text);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tcc_diag diag = {0};
    tcc_graph *g = NULL, *again = NULL;
    tcc_status status = tcc_graph_parse((const char *)data, size, "fuzz.tir", &diag, &g);
    if (status != TCC_OK) {
        expect(diag.status != TCC_OK && *tcc_diag_text(&diag), "an error without a message", "");
        tcc_diag_clear(&diag);
        return 0;
    }
    char *text = print(g);
    expect(tcc_graph_parse(text, strlen(text), "again.tir", &diag, &again) == TCC_OK, tcc_diag_text(&diag), text);
    char *text_again = print(again);
    expect(!strcmp(text, text_again), "it prints another text the second time:", text_again);
    expect(tcc_graph_equal(g, again), "its copy is not equal", text);
    tcc_graph_verify(g, &diag);
    tcc_strbuf dot = {0};
    tcc_dump_dot(&dot, g);
    tcc_strbuf_free(&dot);
    tcc__free(text);
    tcc__free(text_again);
    tcc_graph_destroy(g);
    tcc_graph_destroy(again);
    tcc_diag_clear(&diag);
    return 0;
}
