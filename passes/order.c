/* SPDX-License-Identifier: MIT
 * order: the order in which groups run. */
#include "passes/group.h"
#include "passes/pass.h"

tcc_status tcc_pass_order(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    (void)cx;
    tcc_rewrite rw;
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    tcc_status status = tcc_group_copy_all(&rw, NULL);
    if (status != TCC_OK) {
        tcc_rewrite_abort(&rw);
        return status;
    }
    return tcc_rewrite_end(&rw, out);
}
