/* SPDX-License-Identifier: MIT
 * Attention by cuDNN: f16 or bf16, without a mask or dropout, all gradients at once.
 *
 * cuDNN does not compute attention with a mask: a query that sees no key gives 0 here and NaN there, and a mask's
 * values are known only at run time. In causal attention with more queries than keys the first queries see no key, so
 * that is ours too. The library rounds f32 to tf32 and has no engine for f32 gradients. Dropout of probabilities uses
 * our random numbers. */
#include "codegen/attention/call.h"
#include "codegen/options.h"
#include "codegen/library/call.h"

#include <string.h>

/* The workspace of the gradients holds a matrix of scores in half precision, which ours never have: what that may cost
 * is limited. */
enum { FORWARD_WORKSPACE_BYTES = 32 << 20, BACKWARD_WORKSPACE_BYTES = 512 << 20 };

/* Buffers of both calls, but for the workspace, which is last. */
enum { ROLES = 9 };
static const tcc_attention_role roles[2][ROLES] = {
    {TCC_ATTENTION_Q, TCC_ATTENTION_K, TCC_ATTENTION_V, TCC_ATTENTION_O, TCC_ATTENTION_LSE},
    {TCC_ATTENTION_Q, TCC_ATTENTION_K, TCC_ATTENTION_V, TCC_ATTENTION_O, TCC_ATTENTION_LSE, TCC_ATTENTION_DO,
     TCC_ATTENTION_DQ, TCC_ATTENTION_DK, TCC_ATTENTION_DV}};
static const int n_roles[2] = {5, ROLES};

/* The batch dims as the library has them: batch, heads of k and v, and the queries' heads that share one. */
enum { BATCH, HEADS, SHARE, KINDS };
typedef struct batch_dims {
    int dim[KINDS]; /* of each; -1: none */
    int64_t extent[KINDS];
} batch_dims;

static bool is_shared(const tcc_attention *a, int dim) {
    return a->operands[TCC_ATTENTION_K].batch[dim] == 0 && a->operands[TCC_ATTENTION_V].batch[dim] == 0;
}

/* Dims of 1 are none. False: there are more, or others; all of them count as batch. */
static bool find_batch_dims(const tcc_attention *a, batch_dims *out) {
    int own[2], n = 0, share = -1;
    *out = (batch_dims){{-1, -1, -1}, {1, 1, 1}};
    for (int i = 0; i < a->n_batch; i++) out->extent[BATCH] *= a->batch[i];
    for (int i = 0; i < a->n_batch; i++) {
        if (a->batch[i] == 1) continue;
        if (share >= 0 || (n == 2 && !is_shared(a, i))) return false; /* what is shared is the last */
        if (is_shared(a, i)) share = i;
        else own[n++] = i;
    }
    const bool batch = n == 2 || (n == 1 && share >= 0);
    *out = (batch_dims){.dim = {batch ? own[0] : -1, n == 2 ? own[1] : n == 1 && !batch ? own[0] : -1, share}};
    for (int i = 0; i < KINDS; i++) out->extent[i] = out->dim[i] < 0 ? 1 : a->batch[out->dim[i]];
    return true;
}

/* [batch, head, row] strides of an operand; `by_key`: of k's heads. Those of dims of 1 are what they would be in a
 * dense tensor. False: it says one element twice, or heads that share keys are not as far apart as the others, or each
 * of them wants its own gradient by keys that were repeated in front: the library adds up. */
static bool read_strides(const tcc_attention *a, const batch_dims *dims, tcc_attention_role role, bool by_key,
                         int64_t rows, int64_t width, int64_t out[3]) {
    const tcc_attention_operand *o = &a->operands[role];
    const int *dim = dims->dim, head = by_key || dim[SHARE] < 0 ? dim[HEADS] : dim[SHARE];
    out[2] = rows == 1 ? width : o->row;
    out[1] = head < 0 ? out[2] * rows : o->batch[head];
    const int64_t heads = dims->extent[HEADS] * (by_key ? 1 : dims->extent[SHARE]);
    out[0] = dim[BATCH] < 0 ? out[1] * heads : o->batch[dim[BATCH]];
    if (by_key && dim[SHARE] >= 0 && o->batch[dim[SHARE]]) return false;
    if (head == dim[SHARE] && dim[HEADS] >= 0 && o->batch[dim[HEADS]] != out[1] * dims->extent[SHARE]) return false;
    return out[0] > 0 && out[1] > 0 && out[2] > 0;
}

/* Why the library cannot be asked; NULL: here is what to ask. */
static const char *describe(const tcc_costs *costs, const tcc_attention *a, const tcc_plan_buffer *buffers,
                            const int64_t *offsets, const tcc_dtype *dtypes, tcc_sdpa_params *p) {
    const tcc_dtype type = dtypes[TCC_ATTENTION_Q];
    batch_dims dims;
    const bool has_dims = find_batch_dims(a, &dims);
    int64_t *const strides[TCC_ATTENTION_ROLES] = {
        [TCC_ATTENTION_Q] = p->q_stride,   [TCC_ATTENTION_K] = p->k_stride,   [TCC_ATTENTION_V] = p->v_stride,
        [TCC_ATTENTION_O] = p->o_stride,   [TCC_ATTENTION_DO] = p->do_stride, [TCC_ATTENTION_DQ] = p->dq_stride,
        [TCC_ATTENTION_DK] = p->dk_stride, [TCC_ATTENTION_DV] = p->dv_stride};
    const float scale = (float)a->scale;
    int32_t scale_bits;
    memcpy(&scale_bits, &scale, sizeof scale_bits);
    *p = (tcc_sdpa_params){.batch = dims.extent[BATCH],
                           .heads = dims.extent[HEADS] * dims.extent[SHARE],
                           .kv_heads = dims.extent[HEADS],
                           .queries = a->T,
                           .keys = a->S,
                           .width = a->D,
                           .value_width = a->E,
                           .scale_bits = scale_bits,
                           .causal = a->causal,
                           .lse = a->has[TCC_ATTENTION_LSE],
                           .type = type,
                           .alignment = TCC_CUDA_ALIGNMENT,
                           .workspace_bytes = a->backward ? BACKWARD_WORKSPACE_BYTES : FORWARD_WORKSPACE_BYTES};
    if (!tcc_dtype_is_narrow(type)) return "it is not of f16 or bf16";
    if (a->has[TCC_ATTENTION_MASK]) return "a query whose mask hides all keys would not give 0";
    if (a->has[TCC_ATTENTION_RNG]) return "its dropout would draw other random numbers";
    if (a->causal && a->T > a->S) return "its first queries see no key";
    if (!has_dims) return "it has more batch dims than a batch, heads, and heads that share keys";
    if ((double)p->batch * (double)p->heads * (double)a->T * (double)a->S * (double)(a->D + a->E) <
        costs->least_call_fma)
        return "it is small";
    for (int i = 0; i < n_roles[a->backward]; i++) {
        const tcc_attention_role role = roles[a->backward][i];
        const bool by_key = role == TCC_ATTENTION_K || role == TCC_ATTENTION_V || role == TCC_ATTENTION_DK ||
                            role == TCC_ATTENTION_DV;
        const bool of_v = role == TCC_ATTENTION_V || role == TCC_ATTENTION_O || role == TCC_ATTENTION_DO ||
                          role == TCC_ATTENTION_DV;
        int64_t lse[3];
        if (!a->has[role]) {
            if (role == TCC_ATTENTION_LSE && !a->backward) continue;
            return "not all of its gradients are wanted";
        }
        const int64_t bytes = buffers[role].offset_bytes + offsets[role] * tcc_dtype_bytes(dtypes[role]);
        if (!buffers[role].node && bytes) return "an operand lies inside a temporary";
        p->alignment = tcc_library_alignment(p->alignment, bytes);
        if (role == TCC_ATTENTION_LSE) {
            if (!read_strides(a, &dims, role, false, a->T, 1, lse) || lse[2] != 1 || lse[1] != a->T ||
                lse[0] != a->T * p->heads)
                return "its lse is part of another tensor";
            continue;
        }
        if (dtypes[role] != type) return "its result is not of its operands' type";
        if (!read_strides(a, &dims, role, by_key, by_key ? a->S : a->T, of_v ? a->E : a->D, strides[role]))
            return "an operand is shared between heads, or its heads are not equally far apart";
    }
    return NULL;
}

static double flop_of(const tcc_attention *a) {
    double pairs = (double)a->T * (double)a->S * (a->causal ? 0.5 : 1);
    for (int i = 0; i < a->n_batch; i++) pairs *= (double)a->batch[i];
    return 2 * pairs * (a->backward ? 3.0 * (double)a->D + 2.0 * (double)a->E : (double)(a->D + a->E));
}

tcc_status tcc_attention_add_call(tcc_lowering *l, const tcc_attention *a, const tcc_plan_buffer *buffers,
                                  const int64_t *offsets, const tcc_dtype *dtypes, bool *done) {
    *done = false;
    if (!tcc_lowering_may_call(l)) return TCC_OK;
    tcc_sdpa_params p;
    const tcc_call call = a->backward ? TCC_CALL_SDPA_BACKWARD : TCC_CALL_SDPA_FORWARD;
    const char *name = tcc_call_get_info(call)->name, *what = a->backward ? "gradients of attention" : "attention";
    const char *why_not = describe(&l->target->costs, a, buffers, offsets, dtypes, &p);
    if (why_not) {
        tcc_logf(l->cx, TCC_LOG_FUSION, "our own kernel for %s of %lld x %lld heads, %lld queries, %lld keys: %s", what,
                 (long long)p.batch, (long long)p.heads, (long long)p.queries, (long long)p.keys, why_not);
        return TCC_OK;
    }
    TCC_TRY(tcc_lowering_takes_call(l, name, (int64_t *)&p, &p.workspace_bytes, done));
    if (!*done) return TCC_OK;
    tcc_logf(l->cx, TCC_LOG_FUSION, "cudnn for %s of %lld x %lld heads, %lld queries, %lld keys", what,
             (long long)p.batch, (long long)p.heads, (long long)p.queries, (long long)p.keys);
    tcc_plan_buffer at[ROLES + 1];
    const int n = n_roles[a->backward];
    tcc_region *regions = TCC_ARENA_ARRAY(l->arena, tcc_region, n + 1);
    if (!regions) return tcc_enomem(l->diag);
    for (int i = 0; i < n; i++) {
        const tcc_attention_role role = roles[a->backward][i];
        at[i] = a->has[role] ? buffers[role] : (tcc_plan_buffer){.temporary = -1};
        if (!a->has[role]) continue;
        at[i].offset_bytes += offsets[role] * tcc_dtype_bytes(dtypes[role]);
        regions[i] = tcc_attention_region(a, role, 0, tcc_dtype_bytes(dtypes[role]));
    }
    at[n] = (tcc_plan_buffer){.temporary = -1, .written = true};
    if (p.workspace_bytes && (at[n].temporary = tcc_lowering_temporary(l, p.workspace_bytes)) < 0) return TCC_ENOMEM;
    TCC_TRY(tcc_library_add_call(l, call, (int64_t *)&p, at, flop_of(a)));
    l->launches.data[l->launches.count - 1].regions = regions;
    return TCC_OK;
}
