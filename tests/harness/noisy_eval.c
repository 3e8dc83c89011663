/* SPDX-License-Identifier: MIT
 * The interpreter with rounding's noise. */
#include "harness/noisy_eval.h"

#include "ir/noise_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* As ir/noise.h says, but that normal draws are taken as exact. */
static tcc_noise_origin origin_of(const tcc_node *n) {
    return n->op == TCC_OP_RNG_NORMAL ? TCC_NOISE_NONE : tcc__noise_origin(&(tcc_noise){0}, n);
}

/* Half of the distance between 1 and the next number. */
static double unit(tcc_dtype t) {
    return t == TCC_F64 ? 0x1p-53 : t == TCC_F32 ? 0x1p-24 : t == TCC_F16 ? 0x1p-11 : 0x1p-8;
}

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Another number for each node of a run. */
static uint64_t next(uint64_t *state) { return *state += 0x9e3779b97f4a7c15u; }

/* Between -1 and 1. Equal values of a node err alike, as they do where they are rounded: in a sum their errors add up
 * instead of cancelling. */
static double between(uint64_t node, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (double)(mix(node ^ mix(bits + 0x9e3779b97f4a7c15u)) >> 11) * 0x1p-52 - 1;
}

static bool whole(const tcc_value *v) {
    for (int64_t e = 0, n = tcc_type_numel(&v->type); e < n; e++)
        if (v->f[e] != floor(v->f[e])) return false;
    return true;
}

static tcc_status copy(const tcc_value *from, tcc_value *to, tcc_diag *diag) {
    tcc_status status = tcc_value_create(&from->type, to, diag);
    if (status == TCC_OK) memcpy(to->f, from->f, (size_t)tcc_type_numel(&from->type) * sizeof *from->f);
    return status;
}

/* Whether a result of this type is not held exactly. The interpreter's own f64 does not tell: whole numbers are. */
static bool is_rounded(tcc_dtype dtype, double x) {
    return isfinite(x) && (dtype == TCC_F64 ? x != floor(x) : x != tcc_dtype_round(dtype, x));
}

/* The node on changed copies of its float operands: magnitudes, or values rounded at random. What MAX_POOL_GRAD
 * compares stays. */
static tcc_status eval_changed(const tcc_node *n, const tcc_value *const *in, bool magnitudes, uint64_t *state,
                               tcc_value *out, tcc_diag *diag) {
    tcc_value copies[16] = {{.type = {0}}};
    const tcc_value *operands[16];
    tcc_status status = n->n_operands <= 16 ? TCC_OK : TCC_BUG(diag, "%d operands", n->n_operands);
    for (int k = 0; k < n->n_operands && status == TCC_OK; k++) {
        operands[k] = in[k];
        if (!tcc_dtype_is_float(in[k]->type.dtype) || (n->op == TCC_OP_MAX_POOL_GRAD && k == 0)) continue;
        status = copy(in[k], &copies[k], diag);
        if (status != TCC_OK) break;
        const double u = unit(in[k]->type.dtype) > 0x1p-24 ? 0x1p-24 : unit(in[k]->type.dtype);
        const uint64_t node = next(state);
        for (int64_t e = 0, count = tcc_type_numel(&in[k]->type); e < count; e++)
            copies[k].f[e] = magnitudes ? fabs(copies[k].f[e])
                                        : copies[k].f[e] * (1 + 2 * u * between(node, copies[k].f[e]));
        operands[k] = &copies[k];
    }
    if (status == TCC_OK) status = tcc_node_eval(n, operands, out, diag);
    for (int k = 0; k < n->n_operands && k < 16; k++)
        if (copies[k].f) tcc_value_free(&copies[k]);
    return status;
}

/* Terms of one element of a sum, about. */
static double terms_of(const tcc_node *n, const tcc_value *const *in) {
    const double results = (double)tcc_type_numel(&n->type), first = (double)tcc_type_numel(&in[0]->type),
                 second = n->n_operands > 1 ? (double)tcc_type_numel(&in[1]->type) : 0;
    switch (n->op) {
    case TCC_OP_DOT: return sqrt(first * second / results);
    case TCC_OP_CONV: return second / (double)in[1]->type.dims[0];
    case TCC_OP_CONV_GRAD_INPUT:
    case TCC_OP_CONV_GRAD_WEIGHT: return second / (double)in[1]->type.dims[1];
    default: return first / results;
    }
}

/* Units of a sum's rounding error. Sums are cut into many short ones, but for a scatter's, which adds one update after
 * another: where they are alike, each addition errs the same way. */
static double units_of_sum(const tcc_node *n, const tcc_value *const *in, bool chains) {
    if (n->op != TCC_OP_SCATTER_ADD && n->op != TCC_OP_SCATTER_ADD_ALONG) return chains ? 2 + terms_of(n, in) / 24 : 2;
    const int64_t axis = n->attrs->axis.axis;
    const int64_t updates = n->op == TCC_OP_SCATTER_ADD ? tcc_type_numel(&in[1]->type) : in[1]->type.dims[axis];
    return 2 + (double)updates / 8;
}

/* The sums' partial sums are f32 at least, whatever the type. */
static tcc_status disturb_sum(const tcc_node *n, const tcc_value *const *in, bool chains, uint64_t *state,
                              tcc_value *out, tcc_diag *diag) {
    const double own = unit(n->type.dtype), u = own > 0x1p-24 ? 0x1p-24 : own;
    const double units = units_of_sum(n, in, chains);
    bool exact = n->op != TCC_OP_REDUCE_MEAN && n->op != TCC_OP_AVG_POOL;
    for (int k = 0; k < n->n_operands && exact; k++) exact = !tcc_dtype_is_float(in[k]->type.dtype) || whole(in[k]);
    const uint64_t node = next(state);
    tcc_value terms;
    tcc_status status = eval_changed(n, in, true, state, &terms, diag);
    for (int64_t e = 0, count = tcc_type_numel(&n->type); e < count && status == TCC_OK; e++) {
        if (exact && terms.f[e] < 0x1p24) continue;
        if (terms.f[e] == 0 || !isfinite(terms.f[e])) continue;
        out->f[e] += between(node, out->f[e]) * (units * u * terms.f[e] + (own > u ? own * fabs(out->f[e]) : 0));
    }
    if (status == TCC_OK) tcc_value_free(&terms);
    return status;
}

/* Both squares and the mean that they are taken from are rounded. */
static void disturb_squares(const tcc_node *n, const tcc_value *in, uint64_t *state, tcc_value *out) {
    const double u = unit(n->type.dtype) > 0x1p-24 ? 0x1p-24 : unit(n->type.dtype);
    const int64_t count = tcc_type_numel(&n->type), terms = tcc_type_numel(&in->type) / count;
    const uint64_t one = next(state), other = next(state);
    double most = 0;
    for (int64_t e = 0, all = tcc_type_numel(&in->type); e < all; e++) most = fmax(most, fabs(in->f[e]));
    for (int64_t e = 0; e < count; e++)
        out->f[e] += between(one, out->f[e]) * 4 * u * out->f[e] +
                     fabs(between(other, out->f[e])) * (double)terms * pow(2 * u * most, 2);
}

static tcc_status disturb(const tcc_node *n, const tcc_value *const *in, const noise *noise, uint64_t *state,
                          tcc_value *out, tcc_diag *diag) {
    if (!tcc_dtype_is_float(n->type.dtype)) return TCC_OK;
    const tcc_noise_origin origin = origin_of(n);
    const double u = unit(n->type.dtype);
    const int64_t count = tcc_type_numel(&n->type);
    if (origin == TCC_NOISE_SUM) {
        tcc_status status = disturb_sum(n, in, noise->chains, state, out, diag);
        if (status != TCC_OK) return status;
    } else if (origin == TCC_NOISE_SQUARES) {
        disturb_squares(n, in[0], state, out);
    } else if (origin == TCC_NOISE_OPERANDS) {
        tcc_value_free(out);
        tcc_status status = eval_changed(n, in, false, state, out, diag);
        if (status != TCC_OK) return status;
    }
    if (origin == TCC_NOISE_POINT || origin == TCC_NOISE_FUNCTION || origin == TCC_NOISE_OPERANDS) {
        const double units = origin == TCC_NOISE_FUNCTION ? 4 : 1;
        const uint64_t node = next(state);
        for (int64_t e = 0; e < count; e++)
            if (is_rounded(n->type.dtype, out->f[e])) out->f[e] += between(node, out->f[e]) * units * u * out->f[e];
    }
    if (noise->round)
        for (int64_t e = 0; e < count; e++) out->f[e] = tcc_dtype_round(n->type.dtype, out->f[e]);
    return TCC_OK;
}

/* What a walk holds: a value a node, and its uses to come. */
typedef struct walk {
    const tcc_graph *g;
    tcc_value *values;
    int *uses;
    bool *is_input;
} walk;

static void drop(walk *w, const tcc_node *n) {
    if (--w->uses[n->id] == 0 && !w->is_input[n->id]) tcc_value_free(&w->values[n->id]);
}

static void count_uses(walk *w) {
    const tcc_graph *g = w->g;
    for (int i = 0; i < g->outputs.count; i++) w->uses[g->outputs.data[i].node->id]++;
    for (int i = g->nodes.count - 1; i >= 0; i--)
        for (int k = 0; w->uses[i] && k < g->nodes.data[i]->n_operands; k++)
            w->uses[g->nodes.data[i]->operands[k]->id]++;
}

static tcc_status walk_nodes(walk *w, const noise *noise, tcc_diag *diag) {
    const tcc_graph *g = w->g;
    uint64_t state = noise->seed * 0xd1342543de82ef95u + 1;
    tcc_status status = TCC_OK;
    for (int i = 0; i < g->nodes.count && status == TCC_OK; i++) {
        const tcc_node *n = g->nodes.data[i];
        if (!w->uses[i] || w->is_input[i]) continue;
        const tcc_value **operands = calloc((size_t)n->n_operands + 1, sizeof(tcc_value *));
        for (int k = 0; k < n->n_operands; k++) operands[k] = &w->values[n->operands[k]->id];
        status = tcc_node_eval(n, operands, &w->values[i], diag);
        if (status == TCC_OK) status = disturb(n, operands, noise, &state, &w->values[i], diag);
        free(operands);
        for (int k = 0; k < n->n_operands; k++) drop(w, n->operands[k]);
    }
    return status;
}

tcc_status noisy_eval(const tcc_graph *g, const tcc_value *inputs, const noise *n, tcc_value *outputs, tcc_diag *diag) {
    if (!n) return tcc_graph_eval(g, inputs, outputs, diag);
    const size_t count = (size_t)g->nodes.count + 1;
    walk w = {g, calloc(count, sizeof *w.values), calloc(count, sizeof *w.uses), calloc(count, sizeof *w.is_input)};
    for (int i = 0; i < g->inputs.count; i++) {
        w.values[g->inputs.data[i]->id] = inputs[i];
        w.is_input[g->inputs.data[i]->id] = true;
    }
    count_uses(&w);
    tcc_status status = walk_nodes(&w, n, diag);
    for (int i = 0; i < g->outputs.count && status == TCC_OK; i++)
        status = copy(&w.values[g->outputs.data[i].node->id], &outputs[i], diag);
    for (int i = 0; i < g->nodes.count; i++)
        if (!w.is_input[i] && w.values[i].f) tcc_value_free(&w.values[i]);
    free(w.values);
    free(w.uses);
    free(w.is_input);
    return status;
}
