/* SPDX-License-Identifier: MIT
 * The decompose pass: composite ops become their definitions (ir/decompose.c). */
#include "ir/decompose.h"
#include "passes/pass.h"

tcc_status tcc_pass_decompose(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    (void)cx;
    tcc_rewrite rw;
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    for (int id = 0; id < in->nodes.count; id++) {
        const tcc_node *n = in->nodes.data[id];
        if (!rw.live[id]) continue;
        if (tcc_op_get_info(n->op)->fusion == TCC_FUSION_COMPOSITE) tcc_rewrite_decompose(&rw, n);
        else tcc_rewrite_copy(&rw, n);
    }
    return tcc_rewrite_end(&rw, out);
}
