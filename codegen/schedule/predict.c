/* SPDX-License-Identifier: MIT
 * Predicted times. A launch takes the time to start it, plus the longer of the times for its memory traffic and its
 * arithmetic. Arithmetic reaches a fraction of the target's peak that depends on the kernel. What these are is the
 * target's answer (ir/support/costs.h). */
#include "codegen/schedule/predict.h"

#include "codegen/options.h"
#include "passes/group.h"

/* -- Traffic -- */

/* Points that the loops of `mask` have together. */
static double points_of(const tcc_body *b, uint64_t mask) {
    double points = 1;
    for (int i = 0; i < b->n_loops; i++)
        if (mask >> i & 1) points *= (double)(b->vars.data[i].high + 1);
    return points;
}

static double smaller(double a, double b) { return a < b ? a : b; }

/* Elements behind a buffer's beginning; for temporaries and tables nobody knows more than what is touched. */
static double elements_of(const tcc_body_buffer *buffer) {
    return buffer->node ? (double)(tcc_type_numel(&buffer->node->type) - buffer->offset) : 1e18;
}

double tcc_predict_body_bytes(const tcc_body *b) {
    double bytes = 0;
    for (int i = 0; i < b->buffers.count; i++) {
        const tcc_body_buffer *buffer = &b->buffers.data[i];
        double touched = 0; /* by the access that touches most */
        for (int k = 0; k < b->exprs.count; k++) {
            const tcc_expr *x = b->exprs.data[k];
            if (x->kind != TCC_EXPR_LOAD || x->buffer != i) continue;
            const double n = points_of(b, x->loops);
            if (n > touched) touched = n;
        }
        for (int k = 0; k < b->stores.count; k++) {
            const tcc_body_write *s = &b->stores.data[k];
            const double n = s->buffer == i ? points_of(b, tcc_affine_loops(b, &s->offset)) : 0;
            if (n > touched) touched = n;
        }
        bytes += smaller(touched, elements_of(buffer)) * (double)tcc_dtype_bytes(buffer->dtype);
    }
    return bytes;
}

double tcc_predict_buffer_bytes(const tcc_lowering *l, const tcc_plan_buffer *buffer) {
    if (buffer->node) return (double)(tcc_type_bytes(&buffer->node->type) - buffer->offset_bytes);
    if (buffer->literal) return (double)buffer->literal_bytes;
    return buffer->temporary < 0 ? 0 : (double)l->temporaries.data[buffer->temporary];
}

/* A library's workspace is not traffic. */
static double bytes_of(const tcc_lowering *l, const tcc_plan_launch *launch) {
    if (launch->bytes > 0) return launch->bytes;
    double bytes = 0;
    const int n = launch->kernel.n_buffers - (launch->library ? 1 : 0);
    for (int i = 0; i < n; i++) bytes += tcc_predict_buffer_bytes(l, &launch->buffers[i]);
    return bytes;
}

/* -- Time -- */

/* Operations a nanosecond; 0: it has no such. */
static double flop_a_ns(const tcc_llvm_target *t, double multiply_adds) {
    return 2e-9 * multiply_adds * t->hw.processors * t->hw.clock_hz;
}

/* Multiply-adds a cycle of products on tensor cores; 0: there are none for that type. */
static double tensor_rate(const tcc_lowering *l, const char *name) {
    const tcc_group_kind kind = l->group->kind;
    if ((kind != TCC_GROUP_CONTRACT && kind != TCC_GROUP_ATTENTION) || !tcc_costs_reached(&l->target->costs, name))
        return 0;
    switch (l->group->hero->operands[0]->type.dtype) {
    case TCC_F16:
    case TCC_BF16: return l->target->hw.fma_f16;
    case TCC_F32: return l->options->tf32 ? l->target->hw.fma_tf32 : 0;
    default: return 0;
    }
}

void tcc_predict(const tcc_lowering *l, const tcc_plan_launch *launch, tcc_launch *out) {
    const tcc_hardware *hw = &l->target->hw;
    const tcc_costs *costs = &l->target->costs;
    const tcc_reached *p = tcc_costs_reached(costs, out->name);
    const bool named = launch->multiply_adds > 0;
    const double tensor = !named ? tensor_rate(l, out->name) : launch->matrices ? launch->multiply_adds : 0;
    const double bytes = bytes_of(l, launch);
    const double plain = named                                   ? launch->multiply_adds
                         : l->group->hero->type.dtype == TCC_F64 ? hw->fma_f64
                                                                 : hw->fma_f32;
    const double rate = tensor > 0 ? flop_a_ns(l->target, tensor) * p->matrices
                                   : flop_a_ns(l->target, plain) * (p ? p->plain : costs->reached_elsewhere);
    const double memory = bytes / costs->bytes_a_ns, work = launch->flop / rate;
    out->bytes = (int64_t)bytes;
    out->flop = (int64_t)launch->flop;
    out->ns = (int64_t)(costs->launch_ns + launch->waits_ns + (memory > work ? memory : work));
}
