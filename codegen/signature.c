/* SPDX-License-Identifier: MIT
 * Groups as text, independent of their position in the graph. */
#include "codegen/signature.h"

#include "ir/attrs.h"
#include "ir/support/hash.h"

/* The number of a random draw is data of a kernel, not its form: only which draws are the same counts. */
static int64_t draw_of(const tcc_node *n) {
    const tcc_attr_class class = tcc_op_get_info(n->op)->attrs;
    if (class == TCC_ATTR_CLASS_rng) return n->attrs->rng.id;
    return class == TCC_ATTR_CLASS_sdpa ? n->attrs->sdpa.id : -1;
}

static void print_node_attrs(tcc_strbuf *b, const tcc_group *group, int at) {
    const tcc_node *n = group->nodes[at];
    const int64_t draw = draw_of(n);
    tcc_attrs attrs = *n->attrs;
    int first = 0;
    while (draw >= 0 && draw_of(group->nodes[first]) != draw) first++;
    const tcc_attr_class class = tcc_op_get_info(n->op)->attrs;
    if (class == TCC_ATTR_CLASS_rng) attrs.rng.id = first;
    if (class == TCC_ATTR_CLASS_sdpa) attrs.sdpa.id = first;
    tcc_attrs_print(b, class, &attrs);
}

static int position_of(tcc_node *const *list, int count, const tcc_node *n) {
    for (int i = 0; i < count; i++)
        if (list[i] == n) return i;
    return -1;
}

static void print_operand(tcc_strbuf *b, const tcc_group *group, tcc_node *const *inputs, int n_inputs,
                          const tcc_node *x) {
    const int inside = position_of(group->nodes, group->n_nodes, x);
    if (inside >= 0) {
        tcc_strbuf_printf(b, " n%d", inside);
    } else if (x->op == TCC_OP_CONSTANT) {
        const tcc_doubles *values = &x->attrs->constant.values;
        tcc_strbuf_printf(b, " c%lld:%llx:", (long long)values->count,
                          (unsigned long long)tcc_hash_bytes(0, values->v, sizeof *values->v * (size_t)values->count));
        tcc_type_print(b, &x->type);
    } else {
        tcc_strbuf_printf(b, " i%d", position_of(inputs, n_inputs, x));
    }
}

char *tcc_group_signature(const tcc_group *group, tcc_node *const *inputs, int n_inputs) {
    tcc_strbuf b = {0};
    tcc_strbuf_printf(&b, "%d h%d", (int)group->kind, position_of(group->nodes, group->n_nodes, group->hero));
    for (int i = 0; i < n_inputs; i++) {
        tcc_strbuf_add(&b, inputs[i]->op == TCC_OP_INPUT ? " I" : " V"); /* an input's elements may have an address */
        tcc_type_print(&b, &inputs[i]->type);
    }
    for (int i = 0; i < group->n_nodes; i++) {
        const tcc_node *n = group->nodes[i];
        tcc_strbuf_printf(&b, "\n%s", tcc_op_get_info(n->op)->text);
        for (int k = 0; k < n->n_operands; k++) print_operand(&b, group, inputs, n_inputs, n->operands[k]);
        if (n->op != TCC_OP_CONSTANT) print_node_attrs(&b, group, i);
        else print_operand(&b, &(tcc_group){0}, inputs, n_inputs, n);
        tcc_type_print(&b, &n->type);
    }
    for (int i = 0; i < group->n_outputs; i++)
        tcc_strbuf_printf(&b, " o%d", position_of(group->nodes, group->n_nodes, group->outputs[i]));
    return tcc_strbuf_take(&b);
}
