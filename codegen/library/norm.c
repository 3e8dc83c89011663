/* SPDX-License-Identifier: MIT
 * Batch norm and its gradients by cuDNN, each as one call: y with the statistics, dx with the gradients of weight and
 * bias.
 *
 * The library is asked while the norms are still whole (passes/norms.c). Norms that it declines are expanded: their
 * sums and their last sweep then fuse with their neighbours. The epilogue of a call is a kernel of its own, which reads
 * y back. */
#include "codegen/library/norm.h"
#include "codegen/options.h"
#include "codegen/library/call.h"
#include "passes/group.h"

#include <string.h>

/* When a call is worth it, by the memory that is read and written, which bounds both ways. In words an element of x:
 * both read x for the statistics and for y, which is written; a plan of the library may keep x on chip, as nobody can
 * tell without measuring. What follows elementwise is done on our way to y and takes a kernel behind the library's,
 * which reads and writes. Going back both read dy and x twice and write dx. A plan takes the library seconds,
 * once a shape (planned_call_bytes). */
static const struct {
    int ours, cudnn, behind, ours_back, cudnn_back;
} words = {.ours = 3, .cudnn = 3, .behind = 2, .ours_back = 5, .cudnn_back = 5};

enum { WORKSPACE_BYTES = 32 << 20, ACCESS_BYTES = 16 /* of a pixel's channels, that the library reads at once */ };
enum { X, WEIGHT, BIAS, FORWARD_Y, FORWARD_MEAN, FORWARD_SCALE, FORWARD_BUFFERS };
enum { BACK_DY, BACK_X, BACK_MEAN, BACK_SCALE, BACK_WEIGHT, BACK_DX, BACK_DWEIGHT, BACK_DBIAS, BACK_BUFFERS };

static bool is_gradient(const tcc_node *n) { return n->op >= TCC_OP_BATCH_NORM_GRAD_X; }

static tcc_call call_of(const tcc_node *n) { return is_gradient(n) ? TCC_CALL_NORM_BACKWARD : TCC_CALL_NORM_FORWARD; }

static const char *entry_of(const tcc_node *n) { return tcc_call_get_info(call_of(n))->name; }

/* Why the library cannot be asked about `n`, one of a family; NULL: here is what to ask. */
static const char *describe(const tcc_node *n, tcc_norm_params *p) {
    const tcc_type *x = &n->operands[0]->type;
    const int axis = (int)n->attrs->norm.axis;
    const float eps = (float)n->attrs->norm.eps;
    int32_t eps_bits;
    memcpy(&eps_bits, &eps, sizeof eps_bits);
    *p = (tcc_norm_params){.channels = x->dims[axis],
                           .rows = tcc_type_numel(x) / x->dims[axis],
                           .eps_bits = is_gradient(n) ? 0 : eps_bits,
                           .type = x->dtype,
                           .workspace_bytes = WORKSPACE_BYTES};
    if (n->attrs->norm.ranks) return "it is of a batch on several ranks";
    if (n->attrs->norm.unbiased) return "its variance is unbiased";
    if (x->dtype != TCC_F32 && x->dtype != TCC_F16 && x->dtype != TCC_BF16) return "it is not of f32, f16 or bf16";
    if (n->op == TCC_OP_BATCH_NORM && n->n_operands <= BIAS) return "it has no weight or no bias";
    if (is_gradient(n) && n->n_operands <= BACK_WEIGHT) return "it has no weight";
    for (int i = 1; i < n->n_operands; i++)
        if (n->operands[i]->type.rank == 1 && n->operands[i]->type.dtype != TCC_F32)
            return "its statistics are not of f32";
    for (int i = 1; i < n->n_operands && n->op == TCC_OP_BATCH_NORM; i++) /* its statistics may be wanted before y is */
        if (n->operands[i]->op != TCC_OP_INPUT) return "its weight or bias is computed";
    for (int i = axis + 1; i < x->rank; i++)
        if (x->dims[i] > 1) return "its channels are not last";
    if (p->channels * tcc_dtype_bytes(x->dtype) % ACCESS_BYTES) return "its channels are no multiple of 16 bytes";
    return NULL;
}

static bool is_elementwise(const tcc_node *n) { return tcc_op_get_info(n->op)->fusion == TCC_FUSION_POINT; }

/* Words an element that the call saves. */
static int words_saved(const tcc_graph *g, const tcc_node *n) {
    if (is_gradient(n))
        return words.ours_back - words.cudnn_back -
               (is_elementwise(n->operands[BACK_DY]) ? 1 : 0); /* that is written for the call */
    int saved = words.ours - words.cudnn;
    for (int i = 0; i < g->nodes.count; i++) {
        const tcc_node *user = g->nodes.data[i];
        for (int k = 0; k < user->n_operands; k++)
            if (user->operands[k] == n && is_elementwise(user)) return saved - words.behind;
    }
    return saved;
}

bool tcc_norm_takes(void *user, const tcc_graph *g, const tcc_node *n) {
    const tcc_norm_asker *a = user;
    tcc_norm_params p;
    const char *why_not = describe(n, &p), *name = tcc_op_get_info(n->op)->text;
    const double saved = words_saved(g, n) * (double)tcc_type_bytes(&n->operands[0]->type);
    if (why_not)
        tcc_logf(a->cx, TCC_LOG_FUSION, "our own kernels for %s of %lld x %lld: %s", name, (long long)p.rows,
                 (long long)p.channels, why_not);
    else if (!a->everywhere && saved < a->call_bytes)
        tcc_logf(a->cx, TCC_LOG_FUSION,
                 "our own kernels for %s of %lld x %lld: a call would save %.0f bytes, and is worth it from %.0f on",
                 name, (long long)p.rows, (long long)p.channels, saved, a->call_bytes);
    else return a->takes_call(a->takes_call_user, entry_of(n), (int64_t *)&p);
    return false;
}

/* --- The call */

/* The node of the group with that op; NULL: it is not wanted. */
static const tcc_node *member(const tcc_group *group, tcc_op op) {
    for (int i = 0; i < group->n_nodes; i++)
        if (group->nodes[i]->op == op) return group->nodes[i];
    return NULL;
}

/* The batch_norm that `n` belongs to, for its weight and bias. */
static const tcc_node *whole_of(const tcc_graph *g, const tcc_node *n) {
    for (int i = 0; i < g->nodes.count; i++)
        if (g->nodes.data[i]->op == TCC_OP_BATCH_NORM && tcc_same_batch_norm(g->nodes.data[i], n))
            return g->nodes.data[i];
    return NULL;
}

static tcc_plan_buffer reads(const tcc_node *n) { return (tcc_plan_buffer){.node = n, .temporary = -1}; }

/* The memory of what the group makes by `op`, or a temporary where nobody wants it. */
static tcc_status writes(tcc_lowering *l, tcc_op op, int64_t bytes, tcc_plan_buffer *out) {
    *out = (tcc_plan_buffer){.node = member(l->group, op), .temporary = -1, .written = true};
    if (out->node && tcc_group_stores(l->group, out->node)) return TCC_OK;
    out->node = NULL;
    if (!bytes) return TCC_OK;
    out->temporary = tcc_lowering_temporary(l, bytes);
    return out->temporary < 0 ? TCC_ENOMEM : TCC_OK;
}

tcc_status tcc_lower_norm_call(tcc_lowering *l) {
    const tcc_node *hero = l->group->hero;
    const bool back = is_gradient(hero);
    const tcc_node *whole = back ? hero : whole_of(l->graph, hero);
    tcc_norm_params p;
    const char *name = entry_of(hero);
    bool takes = whole && !describe(whole, &p);
    if (takes) TCC_TRY(tcc_lowering_takes_call(l, name, (int64_t *)&p, &p.workspace_bytes, &takes));
    if (!takes)
        return tcc_error(l->diag, TCC_EUNSUPPORTED, hero->loc, "%s: no library computes it", tcc_node_text(hero));
    const int64_t rows = tcc_type_bytes(&hero->operands[0]->type), channels = p.channels * tcc_dtype_bytes(TCC_F32);
    tcc_plan_buffer buffers[BACK_BUFFERS + 1];
    const int n = back ? BACK_BUFFERS : FORWARD_BUFFERS;
    for (int i = 0; i < whole->n_operands; i++) buffers[i] = reads(whole->operands[i]);
    if (back) {
        TCC_TRY(writes(l, TCC_OP_BATCH_NORM_GRAD_X, rows, &buffers[BACK_DX]));
        TCC_TRY(writes(l, TCC_OP_BATCH_NORM_GRAD_WEIGHT, channels, &buffers[BACK_DWEIGHT]));
        TCC_TRY(writes(l, TCC_OP_BATCH_NORM_GRAD_BIAS, channels, &buffers[BACK_DBIAS]));
    } else {
        TCC_TRY(writes(l, TCC_OP_BATCH_NORM, rows, &buffers[FORWARD_Y]));
        TCC_TRY(writes(l, TCC_OP_BATCH_NORM_MEAN, channels, &buffers[FORWARD_MEAN]));
        TCC_TRY(writes(l, TCC_OP_BATCH_NORM_SCALE, channels, &buffers[FORWARD_SCALE]));
    }
    TCC_TRY(writes(l, TCC_OP_COUNT, p.workspace_bytes, &buffers[n]));
    tcc_logf(l->cx, TCC_LOG_FUSION, "%s of %lld x %lld", name, (long long)p.rows, (long long)p.channels);
    return tcc_library_add_call(l, call_of(hero), (int64_t *)&p, buffers,
                                (back ? 10.0 : 6.0) * (double)p.rows * (double)p.channels);
}
