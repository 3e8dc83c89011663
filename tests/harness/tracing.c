/* SPDX-License-Identifier: MIT
 * See the header. */
#include "harness/tracing.h"

int tracing_begin(tracing *t, const tcc_array *batch, int count) {
    *t = (tracing){.store = {.seed = 5}};
    if (tcc_context_init(&t->cx) != TCC_OK) return -1;
    return tcc_trace_begin(&t->trace, "test", &t->store, true, batch, count, &t->cx.diag) == TCC_OK ? 0 : -1;
}

int tracing_end(tracing *t) {
    tcc_graph *g = NULL;
    if (t->trace.graph && tcc_trace_end(&t->trace, &g) == TCC_OK) tcc_graph_destroy(g);
    tcc_store_free(&t->store);
    tcc_context_clear(&t->cx);
    return 0;
}
