/* SPDX-License-Identifier: MIT
 * fuse: sums of products grow in place. An addition of a product to a sum of products becomes the product's epilogue,
 * before units are merged by gain. Such products are the parts of a weight's gradient that come from chunks of rows or
 * from steps of a sequence. Adding all of them up at once would move as many bytes, but all of them would be alive
 * together. */
#include "passes/fuse/units.h"

/* The dot that `x` is, or was before it was cast to the type of the sum; NULL: none, or it has other readers. */
static const tcc_node *product(const tcc_fuser *f, const tcc_node *x) {
    for (;; x = x->operands[0]) {
        if (f->output[x->id] || f->first_user[x->id + 1] - f->first_user[x->id] != 1) return NULL;
        if (x->op == TCC_OP_DOT) return x;
        if (x->op != TCC_OP_CAST) return NULL;
    }
}

/* Adds the unit that owns node `id` to the `count` of `units`, once; false: none owns it, as in a given group. */
static bool add_unit_of(const tcc_fuser *f, int id, int *units, int *count) {
    const int unit = f->home[id];
    for (int i = 0; i < *count; i++)
        if (units[i] == unit) return true;
    units[(*count)++] = unit;
    return unit != TCC_FUSE_NO_UNIT;
}

/* Puts into `units` those of the addition, and of the product and its casts; 0: too many, or no units. */
static int units_of(const tcc_fuser *f, const tcc_node *add, const tcc_node *x, int *units, int room) {
    int count = 0;
    if (!add_unit_of(f, add->id, units, &count)) return 0;
    for (; count < room && add_unit_of(f, x->id, units, &count); x = x->operands[0])
        if (x->op == TCC_OP_DOT) return count;
    return 0;
}

/* Whether the units are one, or become one. Those of given groups stay as they are: what else such a one has may lie
 * between the others. */
static bool join(tcc_fuser *f, const int *units, int count) {
    for (int i = 0; count > 1 && i < count; i++)
        if (f->units.data[units[i]].owned.count > 1) return false;
    return count == 1 || (count && tcc_fuser_try_merge(f, units, count));
}

void tcc_fuser_accumulate(tcc_fuser *f) {
    enum { CASTS = 2 };
    for (int id = 0; id < f->g->nodes.count && tcc_fuser_fine(f); id++) {
        const tcc_node *n = f->g->nodes.data[id];
        if (n->op != TCC_OP_ADD) continue;
        const tcc_node *a = n->operands[0], *b = n->operands[1];
        if (a->id > b->id) a = n->operands[1], b = n->operands[0];
        int units[CASTS + 2];
        const bool sum = a->op == TCC_OP_ADD && f->sum_of_products[a->id];
        if (!product(f, b) || (!sum && !product(f, a))) continue;
        const int count = units_of(f, n, b, units, CASTS + 2);
        f->sum_of_products[id] = join(f, units, count);
    }
}
