/* SPDX-License-Identifier: MIT
 * Predicted times. A launch takes the time to start it, plus the longer of the times for its memory traffic and its
 * arithmetic. Arithmetic reaches a fraction of the target's peak that depends on the kernel. The fractions come from
 * benchmarks of our kernels and of libraries on large shapes. All figures depend on the architecture, never on the
 * number of threads: choices decide the order of sums, so they must not depend on threads. */
#include "codegen/schedule/predict.h"

#include "codegen/options.h"
#include "passes/group.h"

#include <string.h>

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

/* The part of the described peak that kernels reach, on tensor cores or tiles, and without. It decides whether a
 * library's call is worth that its result is written and read once more, which our kernel spares. On a GPU it is
 * derived from data sheets and a few measured shapes.
 *
 * On a host it is measured: all contractions of GPT, ResNet-18 and ResNet-50 on two cores of Zen 4, in f32 and bf16.
 * There kernels reach nine tenths of what the cores can do. But a host is described with eight cores, of which each
 * begins two multiply-adds of whole vectors in a cycle, beside the bandwidth of two, which begin one. So the part says
 * how much is computed while a byte is moved. Tiles were not measured there: their part is smaller by as much. */
typedef struct part {
    const char *name;
    double plain, tensor;           /* on a GPU */
    double host_plain, host_tensor; /* tiles are the host's tensor cores */
} part;

/* clang-format off */
static const part parts[] = {
    {"cublaslt.matmul", 0.9,  0.8,  0,    0    },
    {"cudnn.",          0.9,  0.7,  0,    0    },
    {"contract",        0.6,  0.27, 0.14, 0.063},
    {"winograd",        0.5,  0.5,  0.12, 0.12 },
    {"attention",       0.4,  0.2,  0.12, 0.06 },
};
/* clang-format on */

/* NULL: of no kernel that is made for products. */
static const part *find_part(const char *name) {
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strncmp(name, parts[i].name, strlen(parts[i].name))) return &parts[i];
    return NULL;
}

/* Bytes and operations a nanosecond; 0: it has no such. Products of matrices by their operands. */
static double bytes_a_ns(const tcc_llvm_target *t) { return 1e-9 * t->hw.bytes_per_s; }

static double flop_a_ns(const tcc_llvm_target *t, double multiply_adds) {
    return 2e-9 * multiply_adds * t->hw.processors * t->hw.clock_hz;
}

/* Multiply-adds a cycle of products on tensor cores; 0: there are none for that type. */
static double tensor_rate(const tcc_lowering *l, const char *name) {
    const tcc_group_kind kind = l->group->kind;
    if ((kind != TCC_GROUP_CONTRACT && kind != TCC_GROUP_ATTENTION) || !find_part(name)) return 0;
    switch (l->group->hero->operands[0]->type.dtype) {
    case TCC_F16:
    case TCC_BF16: return l->target->hw.fma_f16;
    case TCC_F32: return l->options->tf32 ? l->target->hw.fma_tf32 : 0;
    default: return 0;
    }
}

void tcc_predict(const tcc_lowering *l, const tcc_plan_launch *launch, tcc_launch *out) {
    static const double others = 0.2; /* of the peak: scalar work on vectors */
    const tcc_hardware *hw = &l->target->hw;
    const part *p = find_part(out->name);
    const bool named = launch->multiply_adds > 0;
    const double tensor = !named ? tensor_rate(l, out->name) : launch->matrices ? launch->multiply_adds : 0;
    const double bytes = bytes_of(l, launch);
    const double plain = named                                   ? launch->multiply_adds
                         : l->group->hero->type.dtype == TCC_F64 ? hw->fma_f64
                                                                 : hw->fma_f32;
    const bool host = !l->target->lane_groups;
    const double rate = tensor > 0 ? flop_a_ns(l->target, tensor) * (host ? p->host_tensor : p->tensor)
                        : p        ? flop_a_ns(l->target, plain) * (host ? p->host_plain : p->plain)
                                   : flop_a_ns(l->target, plain) * others;
    const double memory = bytes / bytes_a_ns(l->target), work = launch->flop / rate;
    out->bytes = (int64_t)bytes;
    out->flop = (int64_t)launch->flop;
    out->ns = (int64_t)(TCC_LAUNCH_NS + launch->waits_ns + (memory > work ? memory : work));
}
