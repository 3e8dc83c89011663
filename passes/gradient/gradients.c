/* SPDX-License-Identifier: MIT
 * The gradients of a scalar by other nodes of its graph: reverse mode, added to the graph in place.
 *
 * How. The nodes that the scalar depends on are visited backwards from it, each after all its users, so that its
 * gradient is complete. The op's rule (the vjp column of ops.def) writes the gradients by the operands as expressions
 * in the same graph. These are added to the gradients from other users. So the result is plain IR, which can be
 * differentiated again. There is no tape: backward simply uses the values of forward, and later passes decide which of
 * them are kept in memory and which are recomputed. A gradient is an expression: the gradient of one use stays as it
 * is, those of several uses are added once. No buffer is filled with zeros and accumulated into.
 *
 * Invariants.
 *   1. The gradient by a node has the node's type.
 *   2. Only nodes on a path from a wanted node to the scalar get a gradient (`needs`). Integers, bools and results of
 * ops whose derivative is zero everywhere (`zero` in the table) end such paths.
 *   3. Nodes made here carry the line of the forward node that they belong to.
 *   4. The order of additions depends on the graph alone: among nodes whose users are all done, the last comes first.
 *   5. The nodes that were there stay as they are.
 *
 * Ops without a rule. For softmax, norms and losses a closed form is better than differentiating the definition: it
 * keeps less and needs fewer sweeps. Such a composite has a rule of its own, and takes parts of the definition from
 * ir/decompose.h. Since equal expressions are one node, backward uses the mean and scale that forward computes. The
 * others say `composite`: their definition is built beside them, equal to them, and their gradient goes to it. So do
 * ops that are gradients themselves and have no simple derivative.
 *
 * Files. This one has the table of rules and the way through the graph. The helpers of rules are in vjp.c, the rules in
 * vjp_*.c.
 *
 * Adding a rule. Name it in the vjp column and write TCC_VJP_RULE(name) in the vjp_*.c of its
 * family: a missing rule does not link. Where both x and y would serve and y is stored anyway
 * (relu, tanh, softmax), use y: then x can be freed. Guard only what is costly by tcc__vjp_wants.
 * Add a row to tests/harness/gradient_cases.c, which compares with finite differences, once and twice.
 *
 * Source: Griewank and Walther 2008, "Evaluating Derivatives", ch. 3; closed forms are derived
 * where they stand. */
#include "passes/gradient/gradients.h"
#include "ir/decompose.h"
#include "ir/support/alloc.h"
#include "passes/gradient/vjp.h"

static tcc_vjp_rule *const rules[TCC_OP_COUNT] = {
#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, noise, emit, doc) \
    [TCC_OP_##id] = tcc__vjp_##vjp,
#include "ir/ops.def"
#undef TCC_OP
};

/* -- Which nodes have a gradient -- */

static bool passes_gradient(const tcc_node *n) {
    return tcc_dtype_is_float(n->type.dtype) && rules[n->op] != tcc__vjp_zero;
}

/* The closed form of cross-entropy does not cover the class weights; where their gradient is wanted, it is
 * differentiated through the definition. */
static bool is_expanded(const tcc_autodiff *a, const tcc_node *n) {
    if (n->op == TCC_OP_CROSS_ENTROPY) return n->n_operands > 2 && a->needs[n->operands[2]->id];
    return rules[n->op] == tcc__vjp_composite;
}

static bool operand_needs(const tcc_autodiff *a, const tcc_node *n) {
    for (int i = 0; i < n->n_operands; i++)
        if (a->needs[n->operands[i]->id]) return true;
    return false;
}

/* By node up to y: y depends on it. */
static bool *mark_ancestors(const tcc_graph *g, const tcc_node *y) {
    bool *ancestor = tcc__calloc((size_t)y->id + 1, sizeof *ancestor);
    if (!ancestor) return NULL;
    ancestor[y->id] = true;
    for (int id = y->id; id >= 0; id--)
        for (int i = 0; ancestor[id] && i < g->nodes.data[id]->n_operands; i++)
            ancestor[g->nodes.data[id]->operands[i]->id] = true;
    return ancestor;
}

/* Makes room for the nodes that the graph has now. */
static bool grow(tcc_autodiff *a, int count) {
    const int more = count - a->count;
    if (more <= 0) return true;
    bool *needs = tcc__realloc(a->needs, sizeof *needs * (size_t)count);
    if (needs) a->needs = needs;
    tcc_node **definition = tcc__realloc(a->definition, sizeof(tcc_node *) * (size_t)count);
    if (definition) a->definition = definition;
    if (!needs || !definition) return false;
    for (int id = a->count; id < count; id++) needs[id] = false, definition[id] = NULL;
    a->count = count;
    return true;
}

/* Marks what needs a gradient, and builds the definitions through which some of it goes. These are new nodes, or nodes
 * of the graph wherever they stand in it, so all nodes are looked at. */
static bool mark_needs(tcc_autodiff *a, const tcc_node *y, int count, tcc_node *const *x) {
    bool *ancestor = mark_ancestors(a->g, y);
    bool done = ancestor && grow(a, a->g->nodes.count);
    for (int i = 0; done && i < count; i++) a->needs[x[i]->id] = true;
    for (int id = 0; done && id < a->g->nodes.count; id++) {
        const tcc_node *n = a->g->nodes.data[id];
        if (!passes_gradient(n) || !operand_needs(a, n)) continue;
        a->needs[id] = true;
        if (id > y->id || !ancestor[id] || !is_expanded(a, n)) continue;
        tcc_ir_set_marks(a->g, n->marks);
        a->definition[id] = tcc_ir_decompose(a->g, n, n->operands);
        done = a->definition[id] && grow(a, a->g->nodes.count);
    }
    tcc__free(ancestor);
    return done;
}

/* -- In which order -- */

/* What the gradient by n goes to: the definition, or the operands that need one. */
static int next_of(const tcc_autodiff *a, const tcc_node *n, tcc_node *const **next) {
    const bool defined = a->definition[n->id] != NULL;
    *next = defined ? &a->definition[n->id] : n->operands;
    return defined ? 1 : n->n_operands;
}

/* Counts by node the uses from which a gradient may come. The stack holds each node once. */
static bool count_uses(tcc_autodiff *a, tcc_node *y) {
    tcc_vec(tcc_node *) stack = {0};
    bool done = tcc_vec_push(&stack, y);
    while (done && stack.count) {
        tcc_node *const *next;
        const int count = next_of(a, stack.data[--stack.count], &next);
        for (int i = 0; i < count && done; i++) {
            if (!a->needs[next[i]->id]) continue;
            if (a->uses[next[i]->id]++ == 0) done = tcc_vec_push(&stack, next[i]);
        }
    }
    tcc_vec_free(&stack);
    return done;
}

/* The nodes whose uses are all done: a heap, the last in the graph on top. */
typedef struct ready_list {
    int *ids;
    int count;
} ready_list;

static void swap(int *a, int *b) {
    const int held = *a;
    *a = *b;
    *b = held;
}

static void push(ready_list *ready, int id) {
    int at = ready->count++;
    ready->ids[at] = id;
    for (; at > 0 && ready->ids[(at - 1) / 2] < ready->ids[at]; at = (at - 1) / 2)
        swap(&ready->ids[(at - 1) / 2], &ready->ids[at]);
}

static int pop(ready_list *ready) {
    const int top = ready->ids[0];
    ready->ids[0] = ready->ids[--ready->count];
    for (int at = 0, child; (child = 2 * at + 1) < ready->count; at = child) {
        if (child + 1 < ready->count && ready->ids[child + 1] > ready->ids[child]) child++;
        if (ready->ids[child] <= ready->ids[at]) break;
        swap(&ready->ids[child], &ready->ids[at]);
    }
    return top;
}

/* -- The sweep -- */

static void set_place(const tcc_autodiff *a, const tcc_node *n) {
    if (a->backward) {
        tcc_ir_set_backward(a->g, n->loc);
    } else {
        tcc_ir_set_segment(a->g, 0);
        tcc_ir_set_loc(a->g, n->loc);
    }
    tcc_ir_set_marks(a->g, n->marks);
}

/* The rule of a composite in f32, as its definition is; its gradients are rounded as they are given. */
static void visit_widened(tcc_vjp *v) {
    enum { MOST_OPERANDS = 8 };
    tcc_node *wide[MOST_OPERANDS];
    for (int i = 0; i < v->y->n_operands; i++) wide[i] = tcc_ir_widen(v->g, v->x[i]);
    v->x = wide;
    v->dy = tcc_ir_widen(v->g, v->dy);
    rules[v->y->op](v);
}

static void visit(tcc_autodiff *a, tcc_node *n) {
    if (!operand_needs(a, n)) return;
    set_place(a, n);
    tcc_vjp v = {a, a->g, n, n->operands, tcc__gradient_of(a, a->g, n)};
    if (!v.dy) return;
    if (a->definition[n->id]) tcc__gradient_add(a, a->definition[n->id], v.dy);
    else if (tcc_ir_rounds_inside(n)) visit_widened(&v);
    else rules[n->op](&v);
}

static void sweep(tcc_autodiff *a, ready_list *ready, tcc_node *y, tcc_node *seed) {
    set_place(a, y);
    tcc__gradient_add(a, y, seed ? tcc_ir_cast(a->g, seed, y->type.dtype) : tcc_ir_splat_like(a->g, y, 1));
    push(ready, y->id);
    while (ready->count && !a->failed) {
        tcc_node *n = a->g->nodes.data[pop(ready)];
        visit(a, n);
        tcc_node *const *next;
        const int count = next_of(a, n, &next);
        for (int i = 0; i < count; i++)
            if (a->needs[next[i]->id] && --a->uses[next[i]->id] == 0) push(ready, next[i]->id);
    }
}

/* The whole of the work; `a` holds what its caller frees. */
static tcc_status differentiate(tcc_autodiff *a, tcc_node *y, tcc_node *seed, int count, tcc_node *const *x,
                                tcc_node **out) {
    bool enough = mark_needs(a, y, count, x);
    const size_t nodes = (size_t)a->count;
    a->uses = tcc__calloc(nodes, sizeof *a->uses);
    a->first = tcc__calloc(nodes, sizeof *a->first);
    a->last = tcc__calloc(nodes, sizeof *a->last);
    ready_list ready = {.ids = tcc__malloc(nodes * sizeof *ready.ids)};
    enough = enough && a->uses && a->first && a->last && ready.ids && (!a->needs[y->id] || count_uses(a, y));
    if (enough && a->needs[y->id]) sweep(a, &ready, y, seed);
    tcc__free(ready.ids);
    if (!enough) return a->g->diag->status != TCC_OK ? a->g->diag->status : tcc_enomem(a->g->diag);
    for (int i = 0; i < count && !a->failed; i++) {
        set_place(a, x[i]);
        out[i] = tcc__gradient_of(a, a->g, x[i]);
    }
    if (!a->failed) return TCC_OK;
    return a->g->diag->status != TCC_OK ? a->g->diag->status : TCC_EBUG;
}

tcc_status tcc_build_gradients(tcc_graph *g, tcc_node *y, tcc_node *seed, bool backward, int count, tcc_node *const *x,
                               tcc_node **out) {
    tcc_autodiff a = {.g = g, .backward = backward};
    tcc_status status = differentiate(&a, y, seed, count, x, out);
    tcc_ir_set_marks(g, 0);
    tcc__free(a.needs);
    tcc__free(a.definition);
    tcc__free(a.uses);
    tcc__free(a.first);
    tcc__free(a.last);
    tcc_arena_free(&a.memory);
    return status;
}
