/* SPDX-License-Identifier: MIT
 * places: which element of a window was the largest is kept as a byte for max_pool's gradient, where that has room for
 * all elements of a window. As i32 it has as many bytes as the maximum itself, or twice as many. */
#include "ir/build.h"
#include "passes/pass.h"

#include <stdint.h>

static int64_t window_elements(const tcc_node *n) {
    int64_t elements = 1;
    for (int i = 0; i < n->attrs->pool.window.count; i++) elements *= n->attrs->pool.window.v[i];
    return elements;
}

static void copy_gradient(tcc_rewrite *rw, const tcc_node *n) {
    const int place = n->operands[0]->id;
    tcc_node *kept = rw->map[place];
    rw->map[place] = tcc_ir_cast(rw->to, kept, TCC_U8);
    tcc_rewrite_copy(rw, n);
    rw->map[place] = kept;
}

tcc_status tcc_pass_places(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    enum { MOST = UINT8_MAX + 1 };
    tcc_rewrite rw;
    (void)cx;
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    for (int id = 0; id < in->nodes.count; id++) {
        const tcc_node *n = in->nodes.data[id];
        if (!rw.live[id]) continue;
        const bool narrows = n->op == TCC_OP_MAX_POOL_GRAD && n->operands[0]->op == TCC_OP_MAX_POOL_PLACE;
        if (narrows && window_elements(n) <= MOST) copy_gradient(&rw, n);
        else tcc_rewrite_copy(&rw, n);
    }
    return tcc_rewrite_end(&rw, out);
}
