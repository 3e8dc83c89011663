/* SPDX-License-Identifier: MIT
 * Which of its operands a launch may overwrite. The memory plan (choice.c) and the check of the finished program
 * (verify/facts.c) both ask this file, so they agree. */
#include "codegen/schedule/lowering.h"

#include "ir/support/alloc.h"

bool tcc_body_in_step(const tcc_kernel_plan *plan, const tcc_body *body, const tcc_expr *load,
                      const tcc_body_write *store) {
    (void)plan;
    return tcc_body_same_element(body, load, store);
}

bool tcc_launch_in_step(const tcc_plan_launch *launch, const bool *used, int read, int write) {
    const tcc_body *b = launch->body;
    const int from = read - launch->first_of_body, to = write - launch->first_of_body;
    if (launch->in_place) return true;
    if (!b || !launch->kernel.in_step || from < 0 || to < 0) return false;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind != TCC_EXPR_LOAD || x->buffer != from || !used[i]) continue;
        for (int k = 0; k < b->stores.count; k++)
            if (b->stores.data[k].buffer == to && !launch->kernel.in_step(&launch->kernel, b, x, &b->stores.data[k]))
                return false;
    }
    return true;
}

bool *tcc_launch_used(const tcc_plan_launch *launch) {
    const tcc_body *b = launch->body;
    bool *used = tcc__calloc(b ? (size_t)b->exprs.count + 1 : 1, sizeof *used);
    if (used && b) tcc_body_mark_used(b, used);
    return used;
}

static bool is(const tcc_plan_buffer *buffer, const tcc_node *n) { return buffer->node && buffer->node->id == n->id; }

bool tcc_launch_overwrites(const tcc_plan_launch *launch, const bool *used, const tcc_node *old,
                           const tcc_node *written) {
    const int n = launch->kernel.n_buffers;
    for (int w = 0; w < n; w++) {
        if (!is(&launch->buffers[w], written) || !launch->buffers[w].written) continue;
        for (int r = 0; r < n; r++) {
            const tcc_plan_buffer *buffer = &launch->buffers[r];
            if (!is(buffer, old) || buffer->written) continue;
            if (buffer->offset_bytes != launch->buffers[w].offset_bytes || !tcc_launch_in_step(launch, used, r, w))
                return false;
        }
    }
    return true;
}
