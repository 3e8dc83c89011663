/* SPDX-License-Identifier: MIT
 * Shared by the files of simplify. A rule looks at a node whose operands are already simple and returns a node that
 * means the same and is simpler, or NULL when it does not apply. It builds nothing unless it applies, so that a graph
 * without work stays as it is. */
#ifndef TCC_PASSES_SIMPLIFY_SIMPLIFY_H
#define TCC_PASSES_SIMPLIFY_SIMPLIFY_H

#include "ir/build.h"
#include "ir/ir.h"

typedef struct tcc_simplifier tcc_simplifier;
typedef tcc_node *(*tcc_simplify_rule)(tcc_simplifier *s, tcc_node *n);

struct tcc_simplifier {
    tcc_simplify_rule all; /* all rules, until none applies */
    tcc_graph *g;          /* being built */
    bool vectors;          /* the target's, on which arithmetic is what an image's taps take */
    const tcc_node
        *counted;  /* the node whose operands' uses were counted; those of nodes that rules make are not known */
    unsigned once; /* bit k: nothing else uses operand k of it */
};

/* All rules on `n` until none applies; NULL stays NULL. Rules call it on what they build inside their result. */
static inline tcc_node *tcc__simplify(tcc_simplifier *s, tcc_node *n) { return s->all(s, n); }

tcc_node *tcc__simplify_fold(tcc_simplifier *s, tcc_node *n);     /* fold.c: constants */
tcc_node *tcc__simplify_point(tcc_simplifier *s, tcc_node *n);    /* point.c: arithmetic */
tcc_node *tcc__simplify_rows(tcc_simplifier *s, tcc_node *n);     /* rows.c: arithmetic before broadcasts */
tcc_node *tcc__simplify_view(tcc_simplifier *s, tcc_node *n);     /* view.c: merging views */
tcc_node *tcc__simplify_reshape(tcc_simplifier *s, tcc_node *n);  /* reshape.c: reshapes move towards outputs */
tcc_node *tcc__simplify_contract(tcc_simplifier *s, tcc_node *n); /* contract.c: dot, convolution */
tcc_node *tcc__simplify_gather(tcc_simplifier *s, tcc_node *n);   /* gather.c: picked elements */
tcc_node *tcc__simplify_window(tcc_simplifier *s, tcc_node *n);   /* window.c: pools by larger windows */
tcc_node *tcc__simplify_resize(tcc_simplifier *s, tcc_node *n);   /* resize.c: images by much larger ones */

/* -- Small questions -- */

static inline bool tcc__is_splat(const tcc_node *n) {
    return n->op == TCC_OP_CONSTANT && n->attrs->constant.values.count == 1;
}
static inline double tcc__splat_value(const tcc_node *n) { return n->attrs->constant.values.v[0]; }
/* A splat of this value; 0 and -0 differ (fold.c). */
bool tcc__is_splat_of(const tcc_node *n, double value);
/* Whether n is the only user of its operand k, so that what computes it may be replaced. */
static inline bool tcc__used_once(const tcc_simplifier *s, const tcc_node *n, int k) {
    return s->counted == n && s->once >> k & 1;
}

/* The finest cut of a reshape into parts: dims [from_begin[i], from_begin[i+1]) of the operand hold the same elements
 * as dims [to_begin[i], to_begin[i+1]) of the result. Dims of 1 join the part before them, or the first. */
typedef struct tcc_reshape_parts {
    int count;
    int from_begin[TCC_MAX_RANK + 1], to_begin[TCC_MAX_RANK + 1];
} tcc_reshape_parts;
void tcc__reshape_parts(const tcc_type *from, const tcc_type *to, tcc_reshape_parts *out);

#endif
