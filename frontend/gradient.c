/* SPDX-License-Identifier: MIT
 * Gradients as tensors of a trace. */
#include "ir/support/alloc.h"
#include "passes/gradient/gradients.h"
#include "tensor_ops.h"

tcc_tensor tcc_stop_gradient_at(tcc_tensor x, tcc_loc at) {
    if (!tcc_trace_takes("stop_gradient", at, 1, &x)) return tcc_trace_poison();
    if (!tcc_dtype_is_float(x.node->type.dtype)) return x;
    return tcc__tensor_op(TCC_OP_STOP_GRADIENT, x, NULL, NULL, at);
}

static bool takes(tcc_tensor y, const tcc_tensor *x, int n, tcc_loc at) {
    if (!tcc_trace_takes("gradients", at, 1, &y) || !tcc_trace_takes("gradients", at, n, x)) return false;
    if (y.node->type.rank || !tcc_dtype_is_float(y.node->type.dtype)) {
        tcc_trace_error(y.trace, TCC_ESHAPE, at, "gradients: y must be a float scalar, not %s; reduce it with tcc_sum",
                        tcc_type_text(&y.node->type));
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (tcc_dtype_is_float(x[i].node->type.dtype)) continue;
        tcc_trace_error(y.trace, TCC_EDTYPE, at, "gradients: x[%d] is %s: only floats have gradients", i,
                        tcc_type_text(&x[i].node->type));
        return false;
    }
    return true;
}

/* `nodes` has room for the x and their gradients. */
static void build(tcc_tensor y, const tcc_tensor *x, int n, tcc_tensor *gradients, tcc_node **nodes, tcc_loc at) {
    tcc_node **found = nodes + n;
    for (int i = 0; i < n; i++) nodes[i] = x[i].node;
    const tcc_status status = tcc_build_gradients(y.trace->graph, y.node, NULL, false, n, nodes, found);
    tcc_trace_resume(y.trace, at);
    if (status != TCC_OK) return;
    for (int i = 0; i < n; i++)
        gradients[i] = tcc_trace_wrap(y.trace, found[i] ? found[i] : tcc_ir_splat_like(y.trace->graph, nodes[i], 0));
}

void tcc_gradients_at(tcc_tensor y, const tcc_tensor *x, int n, tcc_tensor *gradients, tcc_loc at) {
    for (int i = 0; i < n; i++) gradients[i] = tcc_trace_poison();
    if (n <= 0 || !takes(y, x, n, at)) return;
    tcc_node **nodes = tcc__malloc(2 * (size_t)n * sizeof(tcc_node *));
    if (nodes) build(y, x, n, gradients, nodes, at);
    else tcc_enomem(y.trace->graph->diag);
    tcc__free(nodes);
}

tcc_tensor tcc_gradient_at(tcc_tensor y, tcc_tensor x, tcc_loc at) {
    tcc_tensor gradient;
    tcc_gradients_at(y, &x, 1, &gradient, at);
    return gradient;
}
