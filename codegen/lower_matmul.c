/* SPDX-License-Identifier: MIT
 * Dots that a library multiplies: those that are (batched) matrices as they lie in memory, and large. Of the work behind them the
 * library does a bias and max(0, x); what is more reads its result back in kernels of our own, where that costs less than it saves. */
#include "codegen/lower_matmul.h"
#include "codegen/build.h"
#include "codegen/contract_internal.h"
#include "codegen/lower_library.h"

#include "ir/support/alloc.h"

#include <string.h>

/* When a library's product is worth a call. Derived from data sheets, not measured: below so many multiply-adds both ways are bound by
 * launches; a result that is written and read once more (8 bytes of f32 an element) costs what a sum of about so many terms gains where
 * the library runs at 0.9 of the peak of f32 and our kernel at 0.6. */
static const struct {
    double multiply_adds;
    int64_t extent, k_apart;
} least = {.multiply_adds = 1 << 24, .extent = 16, .k_apart = 256};

enum { B, M, N, K, LISTS, RESULT = 0, BIAS = 1, BASE_ALIGNMENT = 16, WORKSPACE_BYTES = 32 << 20 };

/* --- As matrices */

/* One dimension, or none, which counts as one element. */
static bool single(const tcc_contract_dims *l, tcc_contract_dim *out) {
    *out = l->n ? l->d[0] : (tcc_contract_dim){.extent = 1};
    return l->n <= 1;
}

/* The matrices of the dot with its result (and bias) as `f` says; false: it is none such. */
static bool read_matrices(const tcc_matmul_dot *dot, const tcc_epilogue *epilogue, const tcc_library_fused *f, tcc_matmul_params *p) {
    tcc_contract c = dot->c;
    tcc_contract_dims *lists[LISTS] = {&c.b, &c.m, &c.n, &c.k};
    if (!tcc_library_along_loops(epilogue->body, &f->offset) || (f->bias && !tcc_library_along_loops(epilogue->body, &f->bias->affine))) return false;
    for (int list = 0; list < LISTS; list++) {
        for (int i = 0; i < lists[list]->n && list != K; i++) {
            lists[list]->d[i].c[RESULT] = tcc_affine_coefficient(&f->offset, dot->loops[list][i]);
            lists[list]->d[i].c[BIAS] = f->bias ? tcc_affine_coefficient(&f->bias->affine, dot->loops[list][i]) : 0;
        }
        tcc_contract_sort(lists[list], list == K ? TCC_CONTRACT_BY_A : TCC_CONTRACT_BY_OUTPUT);
        tcc_contract_merge(lists[list], 2);
    }
    tcc_contract_dim b, m, n, k;
    if (!single(&c.b, &b) || !single(&c.m, &m) || !single(&c.n, &n) || !single(&c.k, &k)) return false;
    const double work = (double)b.extent * (double)m.extent * (double)n.extent * (double)k.extent;
    if (m.extent < least.extent || n.extent < least.extent || k.extent < least.extent || work < least.multiply_adds) return false;
    if (n.c[RESULT] != 1 || (f->bias && (n.c[BIAS] != 1 || m.c[BIAS] || b.c[BIAS]))) return false;
    if ((k.a != 1 && m.a != 1) || (k.b != 1 && n.b != 1)) return false;
    *p = (tcc_matmul_params){.batch = b.extent, .m = m.extent, .n = n.extent, .k = k.extent, .transpose_a = k.a != 1, .transpose_b = n.b != 1,
                             .lda = k.a != 1 ? k.a : m.a, .ldb = n.b != 1 ? n.b : k.b, .ldc = m.c[RESULT], .stride_a = b.a, .stride_b = b.b,
                             .stride_c = b.c[RESULT], .bias = f->bias != NULL, .relu = f->relu, .workspace_bytes = WORKSPACE_BYTES};
    return p->lda >= (p->transpose_a ? p->m : p->k) && p->ldb >= (p->transpose_b ? p->k : p->n) && p->ldc >= p->n && b.a >= 0 && b.b >= 0 && b.c[RESULT] >= 0;
}

/* --- The call */

static tcc_status add_call(tcc_lowering *l, const tcc_matmul_params *p, const tcc_plan_buffer *buffers, int n) {
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    launch->library = "cublaslt.matmul";
    launch->kernel.schedule = "library";
    launch->kernel.n_buffers = n;
    launch->kernel.n_params = TCC_MATMUL_PARAMS;
    launch->buffers = tcc_arena_copy(l->arena, buffers, sizeof *buffers * (size_t)n);
    launch->params = tcc_arena_copy(l->arena, p, sizeof *p);
    launch->flop = 2.0 * (double)p->batch * (double)p->m * (double)p->n * (double)p->k;
    return launch->buffers && launch->params ? TCC_OK : tcc_enomem(l->diag);
}

/* The call that leaves f->node, and then what is left. */
static tcc_status try_fused(tcc_lowering *l, const tcc_matmul_dot *dot, const tcc_epilogue *epilogue, const tcc_library_fused *f, bool *done) {
    enum { AT_A, AT_B, AT_BIAS, AT_C, AT_WORKSPACE, BUFFERS };
    tcc_matmul_params p;
    const tcc_dtype type = dot->operands[0].dtype, type_c = f->node->type.dtype;
    if (type != dot->operands[1].dtype || (type_c != type && type_c != TCC_F32) || !read_matrices(dot, epilogue, f, &p)) return TCC_OK;
    const tcc_group *rest = tcc_library_rest(l, f->node);
    const bool stored = tcc_group_stores(l->group, f->node);
    const char *name = tcc_op_get_info(f->node->op)->text;
    if (!rest || f->whole != !rest->n_outputs) return TCC_OK;
    if (rest->n_outputs && p.k < least.k_apart) {
        tcc_logf(l->cx, TCC_LOG_FUSION, "our own kernel for a dot of %lld x %lld x %lld: apart from the work behind it, %s of %.0f bytes would be %s, more than "
                 "a sum of %lld terms gains", (long long)p.m, (long long)p.n, (long long)p.k, name, (double)tcc_type_bytes(&f->node->type),
                 stored ? "read again" : "written and read again", (long long)p.k);
        return TCC_OK;
    }
    const tcc_body_buffer *bias = f->bias ? &epilogue->body->buffers.data[f->bias->buffer] : NULL;
    if (bias && (bias->dtype != type_c || bias->literal || bias->temporary >= 0)) return TCC_OK;
    p.type = type, p.type_c = type_c;
    p.allow_tf32 = l->options->tf32;
    p.alignment = BASE_ALIGNMENT;
    tcc_plan_buffer buffers[BUFFERS] = {[AT_BIAS] = {.temporary = -1}, [AT_C] = {.node = f->node, .temporary = -1, .written = true},
                                        [AT_WORKSPACE] = {.temporary = -1, .written = true}};
    for (int i = 0; i < 2; i++) {
        buffers[AT_A + i] = dot->operands[i].buffer;
        buffers[AT_A + i].offset_bytes += dot->operands[i].offset * tcc_dtype_bytes(type);
        if (!buffers[AT_A + i].node && buffers[AT_A + i].offset_bytes) return TCC_OK;
    }
    if (bias) {
        buffers[AT_BIAS] = (tcc_plan_buffer){.node = bias->node, .temporary = -1, .offset_bytes = (bias->offset + f->bias->affine.constant) * tcc_dtype_bytes(type_c)};
        if (!bias->node) return TCC_OK;
    }
    buffers[AT_C].offset_bytes = f->offset.constant * tcc_dtype_bytes(type_c);
    for (int i = 0; i < AT_WORKSPACE; i++) p.alignment = tcc_library_alignment(p.alignment, buffers[i].offset_bytes);
    if (!l->options->takes_call(l->options->takes_call_user, "cublaslt.matmul", (int64_t *)&p)) return TCC_OK;

    int temporary = -1;
    if (!stored) {
        temporary = tcc_lowering_temporary(l, tcc_type_bytes(&f->node->type));
        if (temporary < 0) return TCC_ENOMEM;
        buffers[AT_C] = (tcc_plan_buffer){.temporary = temporary, .written = true};
    }
    if (p.workspace_bytes) {
        buffers[AT_WORKSPACE].temporary = tcc_lowering_temporary(l, p.workspace_bytes);
        if (buffers[AT_WORKSPACE].temporary < 0) return TCC_ENOMEM;
    }
    tcc_logf(l->cx, TCC_LOG_FUSION, "cublaslt for a dot of %lld x %lld x %lld x %lld as far as %s%s", (long long)p.batch, (long long)p.m, (long long)p.n,
             (long long)p.k, name, !rest->n_outputs ? "" : stored ? "; the work behind it reads that again" : "; the work behind it has that written and read again");
    *done = true;
    TCC_TRY(add_call(l, &p, buffers, BUFFERS));
    return rest->n_outputs ? tcc_library_lower_rest(l, rest, f->node, temporary) : TCC_OK;
}

tcc_status tcc_lower_matmul(tcc_lowering *l, const tcc_matmul_dot *dot, const tcc_epilogue *epilogue, bool *done) {
    const tcc_body *b = epilogue->body;
    *done = false;
    if (l->target->kind != TCC_TARGET_CUDA || !l->options->takes_call) return TCC_OK;
    /* As much as the library does at once: everything, then as far as something that is stored anyway, then the product alone. */
    for (int pass = 0; pass < 2 && !*done; pass++)
        for (int i = 0; i < b->stores.count && !*done; i++) {
            const tcc_store *s = &b->stores.data[i];
            tcc_library_fused f = {.node = b->buffers.data[s->buffer].node, .offset = s->offset, .whole = pass == 0};
            if (s->guard || s->kept || !f.node || !tcc_library_read_value(s->value, epilogue->port, &f)) continue;
            TCC_TRY(try_fused(l, dot, epilogue, &f, done));
        }
    tcc_library_fused alone = {.node = l->group->hero, .offset = epilogue->port->affine};
    return *done ? TCC_OK : try_fused(l, dot, epilogue, &alone, done);
}
