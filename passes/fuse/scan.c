/* SPDX-License-Identifier: MIT
 * fuse: groups of running results. On the target that has a line at once they may go either way, and work on them may
 * read them one step further along the line: so a running result and its gradient share a kernel. */
#include "passes/fuse/draft.h"

#include "passes/group.h"
#include "passes/select.h"

typedef struct line {
    const tcc_type *dims;
    int axis;
    int64_t extent;
    int64_t end; /* the element that is stored by itself; -1: none is */
    int results; /* running ones */
    bool whole;  /* a kernel has to have all of it at once */
} line;

static line line_of(const tcc_node *hero) {
    const int axis = (int)hero->attrs->scan.axis;
    return (line){.dims = &hero->type, .axis = axis, .extent = hero->type.dims[axis], .end = -1};
}

static bool is_scan(const tcc_node *n) { return tcc_fusion_of(n) == TCC_FUSION_SCAN; }

/* A slice of whole lines but for their first element, or their last; and, *one, of one element of each. */
static bool is_part(const tcc_node *n, const line *l, bool *one) {
    if (n->op != TCC_OP_SLICE || !tcc_type_same_dims(&n->operands[0]->type, l->dims)) return false;
    for (int i = 0; i < l->dims->rank; i++)
        if (i != l->axis && n->type.dims[i] != l->dims->dims[i]) return false;
    *one = n->type.dims[l->axis] == 1 && l->extent > 2;
    return *one || (n->type.dims[l->axis] == l->extent - 1 && n->attrs->slice.stride.v[l->axis] == 1);
}

/* A pad that makes whole lines of such a slice again, all elements one step further. */
static bool is_step(const tcc_node *n, const line *l) {
    bool one;
    if (n->op != TCC_OP_PAD || !tcc_type_same_dims(&n->type, l->dims) || !is_part(n->operands[0], l, &one) || one)
        return false;
    return n->attrs->pad.interior.v[l->axis] == 0 &&
           n->attrs->pad.lo.v[l->axis] != n->operands[0]->attrs->slice.start.v[l->axis];
}

static bool only_steps_read(const tcc_draft *d, int at, const line *l) {
    for (int i = at + 1; i < d->n_nodes; i++)
        for (int k = 0; k < d->nodes[i]->n_operands; k++)
            if (d->nodes[i]->operands[k] == d->nodes[at] && !is_step(d->nodes[i], l)) return false;
    return !d->stored[at];
}

/* Work on the end of a line. */
static bool find_end(const tcc_draft *d, tcc_draft_scratch *s, int i, const char **reason) {
    const tcc_node *n = d->nodes[i];
    const bool keeps_place = n->op == TCC_OP_RESHAPE && tcc_dims_alike(&n->type, &n->operands[0]->type);
    s->level[i] = TCC_LEVEL_KEPT;
    return keeps_place || (tcc_fusion_of(n) == TCC_FUSION_POINT && !tcc_draft_reads_full(n, s)) ||
           fail(reason, "the end of a line goes elsewhere than to memory");
}

/* A view of what stands at each element of the lines. */
static bool find_view(const tcc_draft *d, tcc_draft_scratch *s, int i, line *l, const char **reason) {
    const tcc_node *n = d->nodes[i];
    bool one = false;
    l->whole = true;
    if (is_step(n, l)) return true;
    if (!is_part(n, l, &one)) return fail(reason, "a view of the result");
    if (!one) return only_steps_read(d, i, l) || fail(reason, "a view of the result");
    const int64_t at = n->attrs->slice.start.v[l->axis];
    if (l->end >= 0 && l->end != at) return fail(reason, "several elements of a line");
    l->end = at;
    s->level[i] = TCC_LEVEL_KEPT;
    return true;
}

static bool find_level(const tcc_draft *d, tcc_draft_scratch *s, int i, line *l, const char **reason) {
    const tcc_node *n = d->nodes[i];
    const unsigned levels = tcc_draft_operand_levels(n, s);
    const bool full = levels >> TCC_LEVEL_FULL & 1, kept = levels >> TCC_LEVEL_KEPT & 1;
    s->level[i] = full ? TCC_LEVEL_FULL : TCC_LEVEL_POINT;
    if (is_scan(n)) {
        s->level[i] = TCC_LEVEL_FULL;
        l->whole |= l->results++ > 0;
        return (!kept && n->attrs->scan.axis == l->axis && tcc_type_same_dims(&n->type, l->dims)) ||
               fail(reason, "running results along different lines");
    }
    if (kept) return find_end(d, s, i, reason);
    if (full && tcc_fusion_of(n) != TCC_FUSION_POINT) return find_view(d, s, i, l, reason);
    return full || tcc_draft_loads_table(n, s) || fail(reason, "a table that the kernel computes itself");
}

/* Whether a lane group has the line at once, in vectors that lie together. Reshapes could make two loops of one. */
static bool fits(const tcc_draft *d, const tcc_draft_scratch *s, const line *l) {
    enum { MOST_RESULTS = 4 };
    int bytes = 1;
    if (l->axis != l->dims->rank - 1 || l->extent < 2 || l->results > MOST_RESULTS) return false;
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        if (n->op == TCC_OP_RESHAPE && !tcc_dims_alike(&n->type, &n->operands[0]->type)) return false;
        if (tcc_dtype_bytes(n->type.dtype) > bytes) bytes = tcc_dtype_bytes(n->type.dtype);
        for (int k = 0; k < n->n_operands; k++)
            if (tcc_dtype_bytes(n->operands[k]->type.dtype) > bytes)
                bytes = tcc_dtype_bytes(n->operands[k]->type.dtype);
    }
    return tcc_has_line(s->target, l->extent, bytes);
}

bool tcc_draft_check_scan(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    line l = line_of(d->hero);
    for (int i = 0; i < d->n_nodes; i++) {
        if (!find_level(d, s, i, &l, reason)) return false;
        const tcc_draft_level level = s->level[i];
        if (d->stored[i] && level != TCC_LEVEL_FULL && level != TCC_LEVEL_KEPT)
            return fail(reason, "an output that does not depend on the result");
    }
    return !l.whole || fits(d, s, &l) || fail(reason, "lines that no kernel has at once");
}
