/* SPDX-License-Identifier: MIT
 * Whether a program fits the device's memory: asked when the plan is made, before anything large is allocated. */
#include "compile.h"

#include <stdlib.h>

enum { NAMED = 5 };

typedef struct part {
    const tcc_node *node;
    int64_t bytes;
} part;

static int larger_first(const void *a, const void *b) {
    int64_t x = ((const part *)a)->bytes, y = ((const part *)b)->bytes;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* What of this program has no memory yet: its arena, and state that no earlier program of the model has brought. */
static double missing_bytes(const tcc_model *m, const tcc_graph *g) {
    double bytes = (double)g->arena_bytes;
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        int stored = tcc_store_find(&m->store, n->attrs->input.name);
        bool has = stored >= 0 ? tcc__stored_has_memory(m, &m->store.entries.data[stored]) : tcc_store_find(&m->moments, n->attrs->input.name) >= 0;
        if (!has) bytes += (double)tcc_type_bytes(&n->type);
    }
    return bytes;
}

static tcc_status too_large(tcc_model *m, const tcc_graph *g, double needed, int64_t free_bytes) {
    tcc_diag *diag = &m->cx->diag;
    int n = g->inputs.count + g->places.count;
    part *parts = tcc__calloc((size_t)n + 1, sizeof *parts);
    if (!parts) return tcc_enomem(diag);
    for (int i = 0; i < n; i++) {
        const tcc_node *node = i < g->inputs.count ? g->inputs.data[i] : g->places.data[i - g->inputs.count].node;
        parts[i] = (part){node, tcc_type_bytes(&node->type)};
    }
    qsort(parts, (size_t)n, sizeof *parts, larger_first);
    tcc_strbuf text = {0};
    tcc_strbuf_bytes(&text, needed);
    tcc_strbuf_add(&text, " are needed, ");
    tcc_strbuf_bytes(&text, (double)g->arena_bytes);
    tcc_strbuf_add(&text, " of it for values of one step; ");
    tcc_strbuf_bytes(&text, (double)free_bytes);
    tcc_strbuf_printf(&text, " are free on %s", m->device_name);
    tcc_status status = tcc_error(diag, TCC_ENOMEM, TCC_NOWHERE, "the program does not fit: %s", text.text ? text.text : "");
    for (int i = 0; i < n && i < NAMED; i++) {
        const tcc_node *node = parts[i].node;
        text.length = 0;
        tcc_strbuf_bytes(&text, (double)parts[i].bytes);
        tcc_note(diag, node->loc, "%s%s%s, %s: %s", i ? "then " : "the largest is ", node->op == TCC_OP_INPUT ? "" : "the result of ",
                 node->op == TCC_OP_INPUT ? node->attrs->input.name : tcc_op_get_info(node->op)->text, tcc_type_text(&node->type),
                 text.text ? text.text : "");
    }
    tcc_strbuf_free(&text);
    tcc__free(parts);
    return status;
}

tcc_status tcc__model_fit(tcc_model *m, const tcc_graph *g) {
    if (!m->device) return TCC_OK; /* nothing runs */
    int64_t free_bytes = m->device->ops->free_bytes(m->device);
    double needed = missing_bytes(m, g);
    return free_bytes && needed > (double)free_bytes ? too_large(m, g, needed, free_bytes) : TCC_OK;
}
