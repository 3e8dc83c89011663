/* SPDX-License-Identifier: MIT
 * A scatter's points one after another: an item visits all index positions, in the order of their loops. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/scatter.h"

tcc_status tcc_scatter_emit_points(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_scatter *p = plan->data;
    const tcc_body *b = p->body;
    tcc_body_run run;
    tcc_emit_kernel_begin(e, symbol);
    TCC_TRY(tcc_body_run_begin(&run, e, b, 0));
    for (int i = 0; i < b->stores.count; i++) {
        tcc_body_need(&run, b->stores.data[i].value);
        if (b->stores.data[i].guard) tcc_body_need(&run, b->stores.data[i].guard);
    }
    tcc_emit_loop items;
    tcc_emit_items_begin(e, &items);
    tcc_emit_cut_loops cut_loops;
    tcc_emit_cut_begin(&run, &p->cut, items.index, p->lanes, &cut_loops);
    tcc_body_emit(&run, 0);
    for (int i = 0; i < p->n_positions; i++) {
        int64_t extent = b->vars.data[p->positions[i]].high + 1;
        tcc_emit_loop *loop = &run.nest[p->positions[i]];
        tcc_emit_loop_begin(e, loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, extent), 1, NULL, 0);
        tcc_body_enter(&run, p->positions[i], loop->index);
        tcc_body_emit(&run, 0);
    }
    for (int i = 0; i < b->stores.count; i++) tcc_body_emit_store(&run, &b->stores.data[i]);
    for (int i = p->n_positions - 1; i >= 0; i--) {
        tcc_body_leave(&run, p->positions[i]);
        tcc_emit_loop_end(e, &run.nest[p->positions[i]], NULL);
    }
    tcc_emit_cut_end(&run, &p->cut, &cut_loops);
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
    tcc_body_run_end(&run);
    return TCC_OK;
}
