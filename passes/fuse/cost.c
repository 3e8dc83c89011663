/* SPDX-License-Identifier: MIT
 * fuse: what a group costs. The unit is a byte of memory traffic. Vector arithmetic is counted as the traffic that
 * takes equally long, as the target says (ir/support/costs.h). */
#include "passes/fuse/draft.h"
#include "passes/group.h"
#include "passes/select.h"
#include "ir/support/integers.h"

/* Random draws are recomputed wherever they are needed, since a stored mask would live from forward to backward. */
double tcc_op_cost(const tcc_costs *costs, tcc_op op) {
    return tcc_op_draws(op) ? 0 : tcc_traffic_of(costs, costs->instruction_ns) * tcc_op_get_info(op)->cost;
}

/* What a prologue costs beyond doing its work once for each element. Let it have n elements of w bytes. Storing them
 * means to write and to read them: fusing saves 2 n w and a launch. With r repeats fusing costs (r - 1) n (work + half
 * of the bytes by which its tensors exceed w), since those mostly come from the cache. So in f32 a scaling pays for
 * itself up to 20 repeats (2560 columns); a gradient of ReLU, which reads 4 bytes more, up to 3; a random mask or an
 * exponential only where nothing is repeated. Where an operand's work costs a part of what it
 * does elsewhere, it is hidden beside the products from the first time on. */
static double cost_of_repeats(const tcc_draft *d, tcc_draft_scratch *s) {
    int64_t repeats[TCC_FUSE_MAX_NODES] = {0};
    const double beside = tcc_traffic_of(&s->costs, s->costs.beside_ns);
    const double part = tcc_costs_operand_part(&s->costs, d->hero->operands[0]->type.dtype);
    double work = 0, bytes = 0;
    bool computes = false;
    for (int i = d->n_nodes - 1; i >= 0; i--) {
        const tcc_node *n = d->nodes[i];
        const bool hero = n == d->hero;
        if (!hero && !repeats[i]) continue;
        if (!hero && tcc_type_numel(&n->type) > 1 && tcc_fusion_of(n) == TCC_FUSION_POINT)
            work += (part * (double)repeats[i] - 1) * (double)tcc_type_numel(&n->type) * beside *
                    tcc_op_get_info(n->op)->cost,
                computes = true;
        for (int k = 0; k < n->n_operands; k++) {
            const tcc_node *x = n->operands[k];
            const int p = s->position[x->id];
            const int64_t again = hero ? tcc_max_i64(tcc_draft_operand_work(s, d->hero, k)->repeats, 1) : repeats[i];
            if (p >= 0) repeats[p] = tcc_max_i64(repeats[p], again);
            double read = (double)tcc_dtype_bytes(x->type.dtype) *
                          (double)tcc_type_numel(n->op == TCC_OP_SLICE ? &n->type : &x->type);
            if (hero) bytes -= p >= 0 ? part * (double)(again - 1) * read : 0;
            else if (p < 0 && x->op != TCC_OP_CONSTANT) bytes += part * (double)(again - 1) * read;
        }
    }
    return computes ? work + tcc_traffic_of(&s->costs, s->costs.cached_byte_ns) * (bytes > 0 ? bytes : 0) : 0;
}

/* Counts in s->loaded, by node, the bytes of each input that the draft's nodes read. */
static void count_loads(const tcc_draft *d, tcc_draft_scratch *s) {
    for (int i = 0; i < d->n_nodes; i++)
        for (int k = 0; k < d->nodes[i]->n_operands; k++) {
            const tcc_node *n = d->nodes[i], *x = n->operands[k];
            if (x->op == TCC_OP_CONSTANT || s->position[x->id] >= 0) continue;
            bool part = n->op == TCC_OP_SLICE || (tcc_fusion_of(n) == TCC_FUSION_INDEX && k == 0);
            s->loaded[x->id] += (double)tcc_type_numel(part ? &n->type : &x->type) * tcc_dtype_bytes(x->type.dtype);
        }
}

static bool moves_last_dim(const tcc_node *n) {
    const tcc_dims *perm = &n->attrs->perm.perm;
    return n->op == TCC_OP_TRANSPOSE && perm->v[perm->count - 1] != perm->count - 1;
}

/* Whether values stand in the rows of n several times each, one beside the other, as each channel of a group has what
 * the group has. Vectors of a kernel that reads them by such an index are no longer than these repeats. */
static bool repeats_in_rows(const tcc_node *n) {
    const tcc_node *x = n;
    while (x->op == TCC_OP_RESHAPE) x = x->operands[0];
    if (x == n || x->op != TCC_OP_BROADCAST || !n->type.rank || !x->type.rank) return false;
    const int last = x->type.rank - 1, at = tcc_dims_find(&x->attrs->broadcast.dims, last);
    const int64_t times = at < 0 || x->operands[0]->type.dims[at] == 1 ? x->type.dims[last] : 1;
    return times > 1 && n->type.dims[n->type.rank - 1] > times;
}

double tcc_draft_cost(const tcc_draft *d, tcc_draft_scratch *s) {
    const double hoisted = 1.0 / 4096; /* a scalar is computed once a work item, not in the loop */
    double cost = tcc_traffic_of(&s->costs, s->costs.avoided_launch_ns);
    count_loads(d, s);
    if (d->kind == TCC_GROUP_CONTRACT) cost += cost_of_repeats(d, s);
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        if (d->stored[i]) cost += (double)tcc_type_bytes(&n->type);
        double work = tcc_op_cost(&s->costs, n->op) * (double)s->times[i];
        cost += tcc_type_numel(&n->type) == 1 ? hoisted * work : work;
        if (s->costs.repeated_ns > 0 && s->times[i] > tcc_type_numel(&n->type) && repeats_in_rows(n))
            cost += tcc_traffic_of(&s->costs, s->costs.repeated_ns) * (double)(s->times[i] - tcc_type_numel(&n->type));
        bool strided = moves_last_dim(n) && (d->kind == TCC_GROUP_POINTWISE || d->kind == TCC_GROUP_REDUCE);
        if (strided) cost += (double)tcc_type_bytes(&n->type);
        for (int k = 0; k < n->n_operands; k++) {
            const tcc_node *x = n->operands[k];
            const double all = (double)tcc_type_bytes(&x->type), read = s->loaded[x->id];
            cost += read < all ? read : all; /* once: at the first of its readers */
            s->loaded[x->id] = 0;
        }
    }
    return cost;
}
