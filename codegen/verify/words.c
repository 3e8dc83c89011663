/* SPDX-License-Identifier: MIT
 * The verifier's texts for values, memory and steps. */
#include "codegen/verify/checker.h"

#include <stdio.h>

const char *tcc_checker_name(const tcc_checker *c, int value) {
    enum { NAMES = 4, BYTES = 440 };
    static _Thread_local char names[NAMES][BYTES];
    static _Thread_local unsigned next;
    char *name = names[next++ % NAMES];
    const tcc_fact_value *v = value >= 0 ? &c->f->values.data[value] : NULL;
    if (!v) snprintf(name, BYTES, "%s", value == TCC_MARK_CONSTANTS ? "constants" : "nothing");
    else if (v->node) snprintf(name, BYTES, "%s", tcc_node_text(v->node));
    else if (v->temporary >= 0) snprintf(name, BYTES, "temporary %d of %s", v->temporary, v->label);
    else snprintf(name, BYTES, "a table");
    return name;
}

const char *tcc_checker_place(const tcc_checker *c, const tcc_buffer *b, int64_t at) {
    static _Thread_local char text[200];
    if (b->space == TCC_SPACE_BINDING && b->binding >= 0 && b->binding < c->p->n_bindings)
        snprintf(text, sizeof text, "%s + %lld", c->p->bindings[b->binding].name, (long long)at);
    else snprintf(text, sizeof text, "%s + %lld", b->space == TCC_SPACE_CONST ? "constants" : "arena", (long long)at);
    return text;
}

const char *tcc_checker_step(const tcc_checker *c, const tcc_fact_launch *l) {
    static _Thread_local char text[300];
    snprintf(text, sizeof text, "step %d (%s, %s)", c->step, l->label, l->lines);
    return text;
}
