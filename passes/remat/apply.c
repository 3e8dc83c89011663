/* SPDX-License-Identifier: MIT */
#include "passes/remat/apply.h"

#include "ir/support/alloc.h"
#include "passes/fuse/fuse.h"
#include "passes/remat/groups.h"
#include "passes/remat/passing.h"

#include <stdlib.h>

typedef struct copier {
    const tcc_remat_model *m;
    tcc_rewrite rw;
    tcc_node **copies;         /* by old id: the value computed again; NULL: not made yet */
    bool *listed;              /* by old id: its copy is made, or among `ids` or `waiting` */
    tcc_vec(int) waiting, ids; /* old ids */
    tcc_node **operands;       /* room for those of any node */
} copier;

/* Whether a late node reads the copy of `x`. `inside`: that node is computed again itself, so that nothing but what is
 * available may be read. */
static bool reads_copy(const copier *c, const tcc_node *x, bool inside) {
    return inside ? !c->m->late[x->id] && !tcc_remat_available(c->m, x) : c->m->stale[x->id];
}

/* Of a copy. What passes does so with all that leads to it alone. */
static unsigned marks_of(const tcc_remat_model *m, const tcc_node *n) {
    const bool leads = tcc_is_elementwise(n) && !m->stored[n->id] && !m->worked[n->id];
    const bool passes = leads || (m->passes[n->id] && !m->read_again[n->id]);
    return TCC_MARK_REMAT | (passes ? TCC_MARK_PASSES : 0);
}

static tcc_node *build(copier *c, const tcc_node *n, bool inside) {
    for (int k = 0; k < n->n_operands; k++) {
        const tcc_node *x = n->operands[k];
        c->operands[k] = reads_copy(c, x, inside) ? c->copies[x->id] : c->rw.map[x->id];
    }
    const bool typed = tcc_op_get_info(n->op)->flags & TCC_FLAG_TYPED;
    if (inside) tcc_ir_set_backward(c->rw.to, n->loc);
    else tcc_ir_set_origin(c->rw.to, n);
    tcc_ir_set_marks(c->rw.to, n->marks | (inside ? marks_of(c->m, n) : 0));
    tcc_node *made = tcc_ir_build(c->rw.to, n->op, c->operands, n->n_operands, n->attrs, typed ? &n->type : NULL,
                                  n->loc);
    tcc_ir_set_marks(c->rw.to, 0);
    return made;
}

static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* Adds to `waiting` the operands of node `id` whose copies are not made yet, each once: the ways to a value of a deep
 * graph are more than can be counted. */
static bool push_missing(copier *c, int id, bool inside) {
    const tcc_node *n = c->m->g->nodes.data[id];
    bool ok = true;
    for (int k = 0; k < n->n_operands; k++) {
        const int operand = n->operands[k]->id;
        if (!reads_copy(c, n->operands[k], inside) || c->listed[operand]) continue;
        c->listed[operand] = true;
        ok &= tcc_vec_push(&c->waiting, operand);
    }
    return ok;
}

/* Makes the copies that late node `id` reads: so they stand right in front of their first reader. */
static bool make_copies(copier *c, const tcc_graph *g, int id) {
    c->waiting.count = c->ids.count = 0;
    bool ok = push_missing(c, id, false);
    while (ok && c->waiting.count) {
        const int next = c->waiting.data[--c->waiting.count];
        ok = tcc_vec_push(&c->ids, next) && push_missing(c, next, true);
    }
    if (!ok) return false;
    if (c->ids.count) qsort(c->ids.data, (size_t)c->ids.count, sizeof *c->ids.data, ascending);
    for (int i = 0; i < c->ids.count; i++) c->copies[c->ids.data[i]] = build(c, g->nodes.data[c->ids.data[i]], true);
    return true;
}

static bool copy_all(copier *c, const tcc_graph *g) {
    for (int i = 0; i < g->nodes.count; i++) {
        const tcc_node *n = g->nodes.data[i];
        if (!c->m->late[i]) {
            tcc_rewrite_copy(&c->rw, n);
            continue;
        }
        if (!make_copies(c, g, i)) return false;
        c->rw.map[i] = build(c, n, false);
    }
    return true;
}

tcc_status tcc_remat_apply(const tcc_remat_model *m, const tcc_graph *g, const tcc_pass_target *target,
                           tcc_graph **out) {
    copier c = {.m = m};
    int most = 1;
    for (int i = 0; i < g->nodes.count; i++)
        if (g->nodes.data[i]->n_operands > most) most = g->nodes.data[i]->n_operands;
    TCC_TRY(tcc_rewrite_begin(&c.rw, g));
    c.copies = tcc__calloc((size_t)g->nodes.count + 1, sizeof *c.copies);
    c.listed = tcc__calloc((size_t)g->nodes.count + 1, sizeof *c.listed);
    c.operands = tcc__malloc(sizeof *c.operands * (size_t)most);
    const bool ok = c.copies && c.listed && c.operands && copy_all(&c, g) &&
                    tcc_remat_give_groups(m, target, g, c.rw.map, c.copies, c.rw.to) == TCC_OK;
    tcc__free(c.copies);
    tcc__free(c.listed);
    tcc__free(c.operands);
    tcc_vec_free(&c.waiting);
    tcc_vec_free(&c.ids);
    if (ok) return tcc_rewrite_end(&c.rw, out);
    tcc_rewrite_abort(&c.rw);
    return g->diag->status != TCC_OK ? g->diag->status : tcc_enomem(g->diag);
}
