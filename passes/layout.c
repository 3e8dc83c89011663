/* SPDX-License-Identifier: MIT
 * layout: channels-last convolutional networks. */
#include "passes/pass.h"

tcc_status tcc_pass_layout(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    (void)cx;
    tcc_rewrite rw;
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    for (int i = 0; i < in->nodes.count; i++)
        if (rw.live[i] && !rw.map[i]) tcc_rewrite_copy(&rw, in->nodes.data[i]);
    return tcc_rewrite_end(&rw, out);
}
