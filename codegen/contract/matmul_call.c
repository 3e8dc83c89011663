/* SPDX-License-Identifier: MIT
 * Dots that a library multiplies: large ones that are (batched) matrices in memory without a copy. The library computes
 * these epilogues: a bias, an added matrix, max(0, x), gelu_tanh and its gradient, and zeros where a stored mask,
 * packed as bits, is false. The rest of an epilogue becomes another group, which reads the result back, if that costs
 * less than it saves.
 *
 * A matrix has one dimension each for m, n and k. One further dimension is the library's batch, whose matrices lie at
 * equal distances; one more is a loop of calls. */
#include "codegen/contract/epilogue.h"
#include "codegen/contract/matmul_call.h"
#include "codegen/options.h"
#include "codegen/contract/internal.h"
#include "codegen/library/call.h"

#include "ir/support/alloc.h"

#include <string.h>

enum { LEAST_EXTENT = 16 }; /* of a matrix that the library is asked about */

enum { B, M, N, K, LISTS, RESULT = 0, BIAS, AUX, ADDEND, ACCESSES };
enum {
    WORKSPACE_BYTES = 32 << 20,
    MOST_CALLS = 64,
    AUX_MULTIPLE = 8 /* of its leading dimension */,
    BITS_MULTIPLE = 128
};

/* What the library does behind the product. */
typedef struct fused {
    tcc_library_fused value; /* its `relu` is an activation here */
    tcc_matmul_activation activation;
    const tcc_body_buffer *aux; /* GELU: where its input is stored, or NULL; GELU_GRADIENT: where it is; RELU_GRADIENT:
                                   the mask, not packed */
    tcc_affine aux_offset;
    bool sum; /* dot->sum as well */
} fused;

/* --- What is fused */

static bool read_gelu(const tcc_body *b, const tcc_expr *x, const tcc_expr *port, fused *f) {
    const tcc_expr *input = x->operands[0];
    f->activation = TCC_MATMUL_GELU;
    for (int i = 0; i < b->stores.count; i++)
        if (b->stores.data[i].value == input && !b->stores.data[i].guard) {
            f->aux = &b->buffers.data[b->stores.data[i].buffer];
            f->aux_offset = b->stores.data[i].offset;
        }
    return tcc_library_read_value(input, port, &f->value) && !f->value.relu && !f->value.addend;
}

static bool read_gelu_gradient(const tcc_body *b, const tcc_expr *x, const tcc_expr *port, fused *f) {
    const tcc_expr *input = x->operands[0];
    if (tcc_expr_unrounded(x->operands[1]) != port || input->kind != TCC_EXPR_LOAD || input->n_operands) return false;
    f->activation = TCC_MATMUL_GELU_GRADIENT;
    f->aux = &b->buffers.data[input->buffer];
    f->aux_offset = input->affine;
    return true;
}

static bool read_mask(const tcc_body *b, const tcc_expr *x, const tcc_expr *port, fused *f) {
    const tcc_expr *mask = x->operands[0], *other = x->operands[2];
    if (tcc_expr_unrounded(x->operands[1]) != port || other->kind != TCC_EXPR_CONST || other->number != 0) return false;
    if (mask->kind != TCC_EXPR_LOAD || mask->dtype != TCC_BOOL || mask->n_operands) return false;
    f->activation = TCC_MATMUL_RELU_GRADIENT;
    f->aux = &b->buffers.data[mask->buffer];
    f->aux_offset = mask->affine;
    return true;
}

static bool read_fused(const tcc_body *b, const tcc_expr *value, const tcc_expr *port, fused *f) {
    const tcc_expr *x = tcc_expr_unrounded(value);
    if (x->kind == TCC_EXPR_POINT && x->op == TCC_OP_GELU_TANH) return read_gelu(b, x, port, f);
    if (x->kind == TCC_EXPR_POINT && x->op == TCC_OP_GELU_TANH_GRAD) return read_gelu_gradient(b, x, port, f);
    if (x->kind == TCC_EXPR_POINT && x->op == TCC_OP_SELECT) return read_mask(b, x, port, f);
    if (!tcc_library_read_value(x, port, &f->value)) return false;
    f->activation = f->value.relu ? TCC_MATMUL_RELU : TCC_MATMUL_LINEAR;
    return true;
}

/* --- As matrices */

typedef struct matrices {
    tcc_contract_dim m, n, k, batch, outer;
    bool sums; /* outer is of k */
} matrices;

static bool split_dims(tcc_contract *c, matrices *out) {
    static const tcc_contract_dim one = {.extent = 1};
    tcc_contract_dims *lists[LISTS] = {&c->b, &c->m, &c->n, &c->k};
    tcc_contract_dim *const inner[LISTS] = {[M] = &out->m, [N] = &out->n, [K] = &out->k};
    *out = (matrices){.batch = one, .outer = one};
    for (int list = 0; list < LISTS; list++) {
        int more = lists[list]->n;
        if (list != B) *inner[list] = more ? lists[list]->d[--more] : one;
        for (int i = 0; i < more; i++) {
            tcc_contract_dim d = lists[list]->d[i];
            if (list != K && d.extent > out->batch.extent) { /* the longer one is the batch */
                tcc_contract_dim swap = d;
                d = out->batch;
                out->batch = swap;
            }
            if (d.extent == 1) continue;
            if (out->outer.extent > 1) return false;
            out->outer = d;
            out->sums = list == K;
        }
    }
    return true;
}

static bool along_loops(const tcc_body *b, const fused *f) {
    return tcc_library_along_loops(b, &f->value.offset) &&
           (!f->value.bias || tcc_library_along_loops(b, &f->value.bias->affine)) &&
           (!f->value.addend || tcc_library_along_loops(b, &f->value.addend->affine)) &&
           (!f->aux || tcc_library_along_loops(b, &f->aux_offset));
}

static tcc_matmul_bias bias_of(const tcc_matmul_dot *dot, const fused *f) {
    if (f->sum) return dot->summed ? TCC_MATMUL_SUMS_OF_B : TCC_MATMUL_SUMS_OF_A;
    return f->value.bias ? TCC_MATMUL_BIAS : TCC_MATMUL_NO_BIAS;
}

/* It lies as the result does. */
static bool follows_result(const matrices *x, int access) {
    const tcc_contract_dim *const dims[] = {&x->m, &x->n, &x->batch, &x->outer};
    for (int i = 0; i < 4; i++)
        if (dims[i]->extent > 1 && dims[i]->c[access] != dims[i]->c[RESULT]) return false;
    return true;
}

/* The mask is a value of the graph that lies as a dense result does, its rows whole bytes; sets how its bits will lie.
 */
static bool place_bits(const fused *f, const matrices *x, tcc_matmul_params *p) {
    const tcc_node *mask = f->aux->node;
    if (!mask || f->aux->offset || f->aux_offset.constant || mask->type.rank < 1 ||
        mask->type.dims[mask->type.rank - 1] != p->n || p->n % 8)
        return false;
    if (tcc_type_numel(&mask->type) != p->batch * p->m * p->n || x->m.c[AUX] != p->n ||
        (p->batch > 1 && x->batch.c[AUX] != p->m * p->n))
        return false;
    p->ld_aux = (p->n + BITS_MULTIPLE - 1) / BITS_MULTIPLE * BITS_MULTIPLE;
    p->stride_aux = p->m * p->ld_aux;
    return true;
}

/* The matrices of the dot with its result, bias and aux as `f` says; false: it is none such. */
static bool read_matrices(const tcc_costs *costs, const tcc_matmul_dot *dot, const tcc_epilogue *epilogue,
                          const fused *f, tcc_matmul_params *p) {
    tcc_contract c = dot->c;
    tcc_contract_dims *lists[LISTS] = {&c.b, &c.m, &c.n, &c.k};
    const tcc_affine *const maps[ACCESSES] = {&f->value.offset, f->value.bias ? &f->value.bias->affine : NULL,
                                              f->aux ? &f->aux_offset : NULL,
                                              f->value.addend ? &f->value.addend->affine : NULL};
    if (!along_loops(epilogue->body, f)) return false;
    for (int list = 0; list < LISTS; list++) {
        for (int i = 0; i < lists[list]->n && list != K; i++)
            for (int x = 0; x < ACCESSES; x++)
                lists[list]->d[i].c[x] = maps[x] ? tcc_affine_coefficient(maps[x], dot->loops[list][i]) : 0;
        tcc_contract_sort(lists[list], list == K ? TCC_CONTRACT_BY_A : TCC_CONTRACT_BY_OUTPUT);
        tcc_contract_merge(lists[list], ACCESSES);
    }
    matrices x;
    if (!split_dims(&c, &x) || x.outer.extent > MOST_CALLS) return false;
    const double work = (double)x.batch.extent * (double)x.m.extent * (double)x.n.extent * (double)x.k.extent;
    if (x.m.extent < LEAST_EXTENT || x.n.extent < LEAST_EXTENT || x.k.extent < LEAST_EXTENT ||
        work < costs->least_call_fma)
        return false;
    if (x.n.c[RESULT] != 1 || (x.k.a != 1 && x.m.a != 1) || (x.k.b != 1 && x.n.b != 1)) return false;
    if (f->value.bias && (x.n.c[BIAS] != 1 || x.m.c[BIAS] || x.batch.c[BIAS] || x.outer.c[BIAS])) return false;
    if (f->value.addend && (x.sums || f->activation > TCC_MATMUL_RELU || !follows_result(&x, ADDEND))) return false;
    if (f->aux && (x.n.c[AUX] != 1 || x.outer.extent > 1 || x.m.c[AUX] % AUX_MULTIPLE ||
                   x.batch.c[AUX] % AUX_MULTIPLE || x.m.c[AUX] < x.n.extent))
        return false;
    if (f->sum && (x.outer.extent > 1 || x.batch.extent > 1 || f->value.bias || f->value.addend ||
                   f->activation != TCC_MATMUL_LINEAR))
        return false;
    if (x.sums && (f->value.bias || f->activation != TCC_MATMUL_LINEAR || f->value.node->type.dtype != TCC_F32))
        return false;
    *p = (tcc_matmul_params){.batch = x.batch.extent,
                             .m = x.m.extent,
                             .n = x.n.extent,
                             .k = x.k.extent,
                             .transpose_a = x.k.a != 1,
                             .transpose_b = x.n.b != 1,
                             .lda = x.k.a != 1 ? x.k.a : x.m.a,
                             .ldb = x.n.b != 1 ? x.n.b : x.k.b,
                             .ldc = x.m.c[RESULT],
                             .stride_a = x.batch.a,
                             .stride_b = x.batch.b,
                             .stride_c = x.batch.c[RESULT],
                             .outer = x.outer.extent,
                             .outer_a = x.outer.a,
                             .outer_b = x.outer.b,
                             .outer_c = x.outer.c[RESULT],
                             .bias = bias_of(dot, f),
                             .activation = f->activation,
                             .aux = f->aux != NULL,
                             .ld_aux = x.m.c[AUX],
                             .stride_aux = x.batch.c[AUX],
                             .addend = f->value.addend != NULL,
                             .workspace_bytes = WORKSPACE_BYTES};
    if (f->activation == TCC_MATMUL_RELU_GRADIENT && !place_bits(f, &x, p)) return false;
    return p->lda >= (p->transpose_a ? p->m : p->k) && p->ldb >= (p->transpose_b ? p->k : p->n) && p->ldc >= p->n &&
           p->stride_a >= 0 && p->stride_b >= 0 && p->stride_c >= 0;
}

/* --- The call */

enum { AT_A, AT_B, AT_BIAS, AT_AUX, AT_ADDEND, AT_C, AT_WORKSPACE, BUFFERS };

static double flop_of(const tcc_matmul_params *p) {
    return 2.0 * (double)p->outer * (double)p->batch * (double)p->m * (double)p->n * (double)p->k;
}

/* Where an access of the epilogue begins; false: it is none to a value of the graph in C's type. */
static bool place(const tcc_body_buffer *buffer, const tcc_affine *offset, tcc_dtype type, tcc_plan_buffer *out) {
    *out = (tcc_plan_buffer){.node = buffer->node,
                             .temporary = -1,
                             .offset_bytes = (buffer->offset + offset->constant) * tcc_dtype_bytes(type),
                             .written = buffer->written};
    return buffer->node && buffer->dtype == type;
}

/* The call's buffers, but for what is a temporary, and their alignment. */
static bool place_all(const tcc_matmul_dot *dot, const tcc_epilogue *epilogue, const fused *f, tcc_plan_buffer *buffers,
                      tcc_matmul_params *p) {
    const tcc_dtype type = dot->operands[0].dtype, type_c = f->value.node->type.dtype;
    const tcc_expr *bias = f->value.bias, *addend = f->value.addend;
    const tcc_plan_buffer none = {.temporary = -1};
    buffers[AT_BIAS] = buffers[AT_AUX] = buffers[AT_ADDEND] = buffers[AT_WORKSPACE] = none;
    buffers[AT_WORKSPACE].written = true;
    for (int i = 0; i < 2; i++) {
        buffers[AT_A + i] = dot->operands[i].buffer;
        buffers[AT_A + i].offset_bytes += dot->operands[i].offset * tcc_dtype_bytes(type);
        if (!buffers[AT_A + i].node && buffers[AT_A + i].offset_bytes) return false;
    }
    if (bias && !place(&epilogue->body->buffers.data[bias->buffer], &bias->affine, type_c, &buffers[AT_BIAS]))
        return false;
    if (addend && !place(&epilogue->body->buffers.data[addend->buffer], &addend->affine, type_c, &buffers[AT_ADDEND]))
        return false;
    if (f->sum) buffers[AT_BIAS] = (tcc_plan_buffer){.node = dot->sum, .temporary = -1, .written = true};
    if (f->aux && f->activation != TCC_MATMUL_RELU_GRADIENT && !place(f->aux, &f->aux_offset, type_c, &buffers[AT_AUX]))
        return false;
    buffers[AT_C] = (tcc_plan_buffer){.node = f->value.node,
                                      .temporary = -1,
                                      .offset_bytes = f->value.offset.constant * tcc_dtype_bytes(type_c),
                                      .written = true};
    p->alignment = TCC_CUDA_ALIGNMENT;
    for (int i = 0; i < AT_WORKSPACE; i++) p->alignment = tcc_library_alignment(p->alignment, buffers[i].offset_bytes);
    if (p->outer > 1) {
        p->alignment = tcc_library_alignment(p->alignment, p->outer_a * tcc_dtype_bytes(type));
        p->alignment = tcc_library_alignment(p->alignment, p->outer_b * tcc_dtype_bytes(type));
        p->alignment = tcc_library_alignment(p->alignment, p->outer_c * tcc_dtype_bytes(type_c));
    }
    return !f->aux || p->alignment == TCC_CUDA_ALIGNMENT;
}

/* For the log: what the call does more. */
static const char *beside(const fused *f, bool aux_written) {
    if (f->sum) return ", and the sum of an operand";
    if (f->activation == TCC_MATMUL_RELU_GRADIENT) return ", by its mask as bits";
    return aux_written ? ", and its input" : f->value.addend ? ", with what that reads" : "";
}

/* The call that leaves f->value.node; what is left is cut off. */
static tcc_status try_fused(tcc_lowering *l, const tcc_matmul_dot *dot, const tcc_epilogue *epilogue, const fused *f,
                            bool *done) {
    tcc_matmul_params p;
    tcc_plan_buffer buffers[BUFFERS];
    const tcc_node *node = f->value.node;
    const tcc_dtype type = dot->operands[0].dtype, type_c = node->type.dtype;
    const char *name = tcc_op_get_info(node->op)->text;
    if (f->sum && dot->sum->type.dtype != type_c) return TCC_OK;
    if (type != dot->operands[1].dtype || (type_c != type && (type_c != TCC_F32 || type == TCC_F64)) ||
        !read_matrices(&l->target->costs, dot, epilogue, f, &p))
        return TCC_OK;
    const bool stored = tcc_group_stores(l->group, node), aux_written = f->aux && f->aux->written;
    const bool whole = stored && l->group->n_outputs == 1 + aux_written;
    if (whole != f->value.whole || (aux_written && !whole)) return TCC_OK;
    if (!whole && !tcc_library_leaves(l, node)) return TCC_OK;
    p.type = type, p.type_c = type_c;
    p.allow_tf32 = l->options->tf32;
    if (!place_all(dot, epilogue, f, buffers, &p)) return TCC_OK;
    const char *entry = tcc_call_get_info(TCC_CALL_MATMUL)->name;
    TCC_TRY(tcc_lowering_takes_call(l, entry, (int64_t *)&p, &p.workspace_bytes, done));
    if (!*done) return TCC_OK;
    tcc_logf(l->cx, TCC_LOG_FUSION, "%lld call%s of cublaslt for a dot of %lld x %lld x %lld x %lld as far as %s%s%s",
             (long long)p.outer, p.outer > 1 ? "s" : "", (long long)p.batch, (long long)p.m, (long long)p.n,
             (long long)p.k, name, beside(f, aux_written),
             whole    ? ""
             : stored ? "; the work behind it reads that again"
                      : "; the work behind it has that written and read again");
    if (!whole) return tcc_library_cut(l, node);

    if (p.activation == TCC_MATMUL_RELU_GRADIENT) {
        buffers[AT_AUX].temporary = tcc_lowering_temporary(l, p.batch * p.stride_aux / 8);
        if (buffers[AT_AUX].temporary < 0) return TCC_ENOMEM;
        TCC_TRY(tcc_library_pack_bits(l, f->aux->node, p.ld_aux, buffers[AT_AUX].temporary));
    }
    if (p.workspace_bytes) {
        buffers[AT_WORKSPACE].temporary = tcc_lowering_temporary(l, p.workspace_bytes);
        if (buffers[AT_WORKSPACE].temporary < 0) return TCC_ENOMEM;
    }
    return tcc_library_add_call(l, TCC_CALL_MATMUL, (int64_t *)&p, buffers, flop_of(&p));
}

tcc_status tcc_lower_matmul(tcc_lowering *l, const tcc_matmul_dot *dot, const tcc_epilogue *epilogue, bool *done,
                            bool *summed) {
    const tcc_body *b = epilogue->body;
    *done = *summed = false;
    if (!tcc_lowering_may_call(l)) return TCC_OK;
    /* As much as the library does at once: everything, then as far as something that is stored anyway, then the product
     * alone. */
    if (dot->sum) {
        const fused both = {.value = {.node = l->group->hero, .offset = epilogue->port->affine, .whole = true},
                            .sum = true};
        TCC_TRY(try_fused(l, dot, epilogue, &both, done));
        *summed = *done;
        return TCC_OK; /* the product alone is another group's */
    }
    for (int pass = 0; pass < 2 && !*done; pass++)
        for (int i = 0; i < b->stores.count && !*done; i++) {
            const tcc_body_write *s = &b->stores.data[i];
            fused f = {.value = {.node = b->buffers.data[s->buffer].node, .offset = s->offset, .whole = pass == 0}};
            if (s->guard || s->kept || !f.value.node || !read_fused(b, s->value, epilogue->port, &f)) continue;
            TCC_TRY(try_fused(l, dot, epilogue, &f, done));
            const tcc_expr *swap =
                f.value.bias; /* of two loads, or of one, either may be the bias: their strides tell */
            f.value.bias = f.value.addend, f.value.addend = swap;
            if (swap && !*done) TCC_TRY(try_fused(l, dot, epilogue, &f, done));
        }
    fused alone = {.value = {.node = l->group->hero, .offset = epilogue->port->affine}};
    return *done ? TCC_OK : try_fused(l, dot, epilogue, &alone, done);
}
