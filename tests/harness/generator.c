/* SPDX-License-Identifier: MIT
 * Random graphs: ops one after the other, outputs, and data for the inputs. */
#include "harness/generator.h"
#include "harness/generator_values.h"
#include "ir/support/alloc.h"
#include "ir/support/element.h"
#include "ir/support/hash.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_NODES = 40, DEFAULT_ELEMENTS = 4096 };

/* -- Outputs -- */

typedef struct reach {
    bool *used, *from_param; /* by node id */
} reach;

static bool find_reach(const tcc_graph *g, reach *out) {
    out->used = tcc__calloc((size_t)g->nodes.count, 1);
    out->from_param = tcc__calloc((size_t)g->nodes.count, 1);
    if (!out->used || !out->from_param) return false;
    for (int id = 0; id < g->nodes.count; id++) {
        const tcc_node *n = g->nodes.data[id];
        out->from_param[id] = n->op == TCC_OP_INPUT && n->attrs->input.role == TCC_ROLE_PARAM;
        for (int i = 0; i < n->n_operands; i++) {
            out->used[n->operands[i]->id] = true;
            out->from_param[id] |= out->from_param[n->operands[i]->id];
        }
    }
    return true;
}

/* Mean of x, or of x times data, so that not every element counts the same. */
static tcc_node *loss_term(tcc_gen *r, tcc_gen_value v) {
    tcc_node *x = tcc_ir_cast(r->g, v.n, TCC_F32);
    if (!x) return NULL;
    if (tcc__gen_chance(r, 60)) {
        char name[16];
        snprintf(name, sizeof name, "x%d", r->g->inputs.count);
        x = tcc_ir_binary(r->g, TCC_OP_MUL, x, tcc_ir_input(r->g, name, TCC_ROLE_BATCH, &x->type, TCC_NOWHERE));
        if (!x) return NULL;
    }
    tcc_dims axes = tcc_ir_axes_from(0, x->type.rank);
    return tcc_ir_mean(r->g, x, &axes);
}

static void add_loss(tcc_gen *r, const reach *reach) {
    enum { MOST_TERMS = 6 };
    tcc_node *loss = NULL;
    for (int i = r->pool.count - 1, terms = 0; i >= 0 && terms < MOST_TERMS; i--) {
        tcc_gen_value v = r->pool.data[i];
        bool last_chance = !i && !loss;
        if (!tcc_dtype_is_float(v.n->type.dtype) || !reach->from_param[v.n->id] ||
            (reach->used[v.n->id] && !last_chance))
            continue;
        tcc_node *term = loss_term(r, v);
        loss = loss ? tcc_ir_binary(r->g, TCC_OP_ADD, loss, term) : term;
        terms++;
    }
    tcc_ir_output(r->g, "loss", loss, -1);
}

static void add_outputs(tcc_gen *r, const reach *reach) {
    enum { MOST_OUTPUTS = 8 };
    int count = 0;
    for (int i = r->pool.count - 1; i >= 0 && count < MOST_OUTPUTS; i--) {
        tcc_gen_value v = r->pool.data[i];
        if ((reach->used[v.n->id] || v.n->op == TCC_OP_INPUT) && !tcc__gen_chance(r, 5)) continue;
        char name[16];
        snprintf(name, sizeof name, "o%d", count++);
        tcc_ir_output(r->g, name, v.n, -1);
    }
    if (!count) tcc_ir_output(r->g, "o0", r->pool.data[r->pool.count - 1].n, -1);
    /* State that is replaced by what is computed from it. */
    tcc_gen_value v = tcc__gen_pick(r, (tcc_gen_want){TCC_GEN_FLOAT, 0, TCC_MAX_RANK, false});
    if (!v.n || !tcc__gen_chance(r, 50)) return;
    tcc_node *state = tcc_ir_input(r->g, "state", TCC_ROLE_STATE, &v.n->type, TCC_NOWHERE);
    tcc_node *next = tcc_ir_binary(r->g, TCC_OP_ADD, tcc_ir_binary_c(r->g, TCC_OP_MUL, state, 0.5), v.n);
    tcc_ir_output(r->g, "state", next, r->g->inputs.count - 1);
}

/* -- The generator -- */

static void add_op(tcc_gen *r) {
    static const struct {
        tcc_fusion_class class;
        int weight;
        void (*add)(tcc_gen *r);
    } kinds[] = {
        {TCC_FUSION_POINT, 40, tcc__gen_point},
        {TCC_FUSION_VIEW, 18, tcc__gen_view},
        {TCC_FUSION_REDUCE, 10, tcc__gen_reduce},
        {TCC_FUSION_SCAN, 2, tcc__gen_scan},
        {TCC_FUSION_INDEX, 4, tcc__gen_take},
        {TCC_FUSION_SCATTER, 3, tcc__gen_scatter},
        {TCC_FUSION_CONTRACT, 8, tcc__gen_contract},
        {TCC_FUSION_WINDOW, 4, tcc__gen_window},
        {TCC_FUSION_ATTENTION, 3, tcc__gen_attention},
        {TCC_FUSION_COMPOSITE, 10, tcc__gen_composite},
        {TCC_FUSION_COLLECTIVE, 20, tcc__gen_collective},
    };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    unsigned classes = r->options->classes ? r->options->classes | 1u << TCC_FUSION_POINT : ~0u;
    if (!r->options->ranks) classes &= ~(1u << TCC_FUSION_COLLECTIVE);
    int total = 0;
    for (int i = 0; i < KINDS; i++) total += classes >> kinds[i].class & 1 ? kinds[i].weight : 0;
    int64_t at = tcc__gen_below(r, total);
    for (int i = 0; i < KINDS; i++) {
        if (!(classes >> kinds[i].class & 1)) continue;
        if (at < kinds[i].weight) {
            kinds[i].add(r);
            return;
        }
        at -= kinds[i].weight;
    }
}

static void generate(tcc_gen *r) {
    enum { MOST_TRIES = 8 }; /* a step may add nothing */
    const int nodes = r->options->nodes > 0 ? r->options->nodes : DEFAULT_NODES;
    tcc_type type = tcc__gen_type(r, tcc__gen_float(r), 1, 4);
    tcc_gen_value first = {.lo = -1, .hi = 1, .grid = -1};
    first.n = tcc_ir_input(r->g, "x0", TCC_ROLE_PARAM, &type, TCC_NOWHERE);
    if (!first.n) return;
    if (!tcc_vec_push(&r->pool, first)) tcc_enomem(r->g->diag);
    for (int i = 0; i < MOST_TRIES * nodes && r->g->nodes.count < nodes && r->g->diag->status == TCC_OK; i++) add_op(r);
    reach reach;
    if (!find_reach(r->g, &reach)) tcc_enomem(r->g->diag);
    else if (r->g->diag->status == TCC_OK && r->options->differentiable) add_loss(r, &reach);
    else if (r->g->diag->status == TCC_OK) add_outputs(r, &reach);
    tcc__free(reach.used);
    tcc__free(reach.from_param);
}

tcc_graph *tcc_graph_random(const tcc_random_options *options, uint64_t seed, tcc_diag *diag) {
    tcc_gen r = {.options = options,
                 .max_elements = options->max_elements > 0 ? options->max_elements : DEFAULT_ELEMENTS};
    tcc_diag own = {0};
    r.state = tcc_hash_mix(seed + 1);
    r.g = tcc_graph_create("random", diag ? diag : &own);
    if (!r.g) return NULL;
    generate(&r);
    tcc_vec_free(&r.pool);
    if (r.g->diag->status != TCC_OK) {
        tcc_graph_destroy(r.g);
        r.g = NULL;
    } else {
        r.g->diag = diag;
    }
    tcc_diag_clear(&own);
    return r.g;
}

/* -- Data -- */

/* What an integer input means to its user: indices below `extent`, or class numbers of which one is
 * ignored. */
typedef struct meaning {
    int64_t extent; /* 0: any integer */
    bool targets;
    int64_t ignored;
} meaning;

static meaning find_meaning(const tcc_graph *g, const tcc_node *input) {
    for (int id = input->id + 1; id < g->nodes.count; id++) {
        const tcc_node *n = g->nodes.data[id];
        if (n->n_operands < 2 || n->operands[1] != input) continue;
        const tcc_type *x = &n->operands[0]->type;
        if (n->op == TCC_OP_CROSS_ENTROPY)
            return (meaning){x->dims[x->rank - 1], true, n->attrs->cross_entropy.ignore_index};
        if (n->op == TCC_OP_TAKE || n->op == TCC_OP_TAKE_ALONG || n->op == TCC_OP_SCATTER_ADD ||
            n->op == TCC_OP_SCATTER_ADD_ALONG || n->op == TCC_OP_SCATTER_MAX || n->op == TCC_OP_SCATTER ||
            n->op == TCC_OP_SCATTER_ALONG)
            return (meaning){x->dims[n->attrs->axis.axis], false, 0};
    }
    return (meaning){0};
}

static int64_t random_integer(tcc_gen *r, meaning m, tcc_dtype dtype, int64_t element) {
    if (m.targets) {
        /* The first one counts, so that there is something to take the mean of. */
        int64_t target = tcc__gen_below(r, m.extent);
        if (element && tcc__gen_chance(r, 15)) return m.ignored;
        return element || target != m.ignored ? target : (target + 1) % m.extent;
    }
    if (m.extent && tcc__gen_chance(r, 95)) return tcc__gen_below(r, m.extent);
    if (m.extent) return tcc__gen_chance(r, 50) ? -1 - tcc__gen_below(r, 2) : m.extent + tcc__gen_below(r, 3);
    if (dtype == TCC_BOOL) return tcc__gen_below(r, 2);
    if (dtype == TCC_U8) return tcc__gen_below(r, TCC_GEN_U8_MOST + 1);
    return tcc__gen_below(r, 2 * TCC_GEN_INT_MOST + 1) - TCC_GEN_INT_MOST;
}

static double random_float(tcc_gen *r, tcc_role role, tcc_dtype dtype) {
    if (role == TCC_ROLE_BATCH)
        return (double)(tcc__gen_below(r, (2 * TCC_GEN_BATCH_MOST << TCC_GEN_BATCH_GRID) + 1) -
                        (TCC_GEN_BATCH_MOST << TCC_GEN_BATCH_GRID)) /
               (1 << TCC_GEN_BATCH_GRID);
    double x = ldexp((double)(tcc__gen_bits(r) >> 40), -23) - 1; /* 24 bits: -1 <= x < 1 */
    return tcc_dtype_round(dtype, x);
}

void tcc_random_input(const tcc_graph *g, int index, uint64_t seed, void *packed) {
    const tcc_node *input = g->inputs.data[index];
    const tcc_dtype dtype = input->type.dtype;
    const tcc_role role = input->attrs->input.role;
    const int64_t numel = tcc_type_numel(&input->type);
    const meaning m = find_meaning(g, input);
    tcc_gen r = {.state = tcc_hash_add(seed, (uint64_t)index)};
    for (int64_t i = 0; i < numel; i++) {
        double f = tcc_dtype_is_float(dtype) ? random_float(&r, role, dtype) : 0;
        int64_t k = tcc_dtype_is_float(dtype) ? 0 : random_integer(&r, m, dtype, i);
        if (role == TCC_ROLE_RNG) k = i ? (int64_t)tcc__gen_below(&r, 1000) : (int64_t)tcc__gen_bits(&r);
        if (tcc_dtype_is_float(dtype)) tcc_element_set(dtype, packed, i, f);
        else tcc_element_set_int(dtype, packed, i, k);
    }
}
