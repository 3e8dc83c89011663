/* SPDX-License-Identifier: MIT
 * Samples of a graph: how much of each dim is taken, and the smaller graph. */
#include "ir/sample.h"
#include "ir/eval_rules.h"
#include "ir/sample_dims.h"
#include "ir/support/alloc.h"

#include <stdio.h>
#include <string.h>

/* -- Work -- */

/* The extent of a dim in the sample; NULL: in the whole graph. */
static int64_t share(const tcc_sample *s, const tcc_node *n, int d) {
    if (!s) return n->type.dims[d];
    const tcc_sample_dim *x = tcc__sample_dim(s, n, d);
    return n->type.dims[d] / x->units * x->count;
}

static double numel(const tcc_sample *s, const tcc_node *n) {
    double count = 1;
    for (int d = 0; d < n->type.rank; d++) count *= (double)share(s, n, d);
    return count;
}

static double work_of(const tcc_sample *s, const tcc_node *n) {
    enum { POINT = 4, DRAW = 20 };
    const tcc_node *a = n->n_operands ? n->operands[0] : NULL, *b = n->n_operands > 1 ? n->operands[1] : NULL;
    double work = POINT * numel(s, n);
    switch (tcc_op_get_info(n->op)->fusion) {
    case TCC_FUSION_LEAF: return 0;
    case TCC_FUSION_POINT: return tcc_op_get_info(n->op)->attrs == TCC_ATTR_CLASS_rng ? DRAW * numel(s, n) : work;
    case TCC_FUSION_CONTRACT:
        if (n->op == TCC_OP_CONV_GRAD_WEIGHT) return numel(s, b) * numel(s, n) / (double)share(s, n, 0);
        if (n->op == TCC_OP_CONV_GRAD_INPUT) return numel(s, a) * numel(s, b) / (double)share(s, b, 0);
        work = numel(s, n);
        if (n->op == TCC_OP_CONV) return work * numel(s, b) / (double)share(s, b, 0);
        for (int i = 0; i < n->attrs->dot.contract_a.count; i++)
            work *= (double)share(s, a, (int)n->attrs->dot.contract_a.v[i]);
        return work;
    case TCC_FUSION_ATTENTION: /* scores, and what they are multiplied by */
        return 3 * numel(s, a) * (double)share(s, b, b->type.rank - 2);
    case TCC_FUSION_WINDOW:
        if (tcc_op_get_info(n->op)->attrs == TCC_ATTR_CLASS_pool)
            for (int i = 0; i < n->attrs->pool.window.count; i++) work *= (double)n->attrs->pool.window.v[i];
        break;
    default: break;
    }
    for (int k = 0; k < n->n_operands; k++) work += numel(s, n->operands[k]);
    return work;
}

static double work_of_graph(const tcc_graph *g, const tcc_sample *s) {
    double work = 0;
    for (int i = 0; i < g->nodes.count; i++)
        if (!s || s->live[i]) work += work_of(s, g->nodes.data[i]);
    return work;
}

double tcc_graph_work(const tcc_graph *g) { return work_of_graph(g, NULL); }

/* -- How much -- */

static double taken_of(const tcc_sample_dim *x) { return (double)x->count / (double)x->units; }

/* All, if that is not too much; else the dim of which least is taken is doubled for as long as that fits. */
static tcc_status choose(tcc_sample *s, double most_work, tcc_diag *diag) {
    const tcc_graph *g = s->whole;
    const int all = g->nodes.count * TCC_MAX_RANK;
    bool *done = TCC_ARENA_ARRAY(&s->memory, bool, all + 1);
    if (!done) return tcc_enomem(diag);
    for (int i = 0; i < all; i++) s->dims[i].count = s->live[i / TCC_MAX_RANK] ? s->dims[i].units : 1;
    s->all = work_of_graph(g, s) <= most_work;
    if (s->all) return TCC_OK;
    for (int i = 0; i < all; i++) {
        done[i] = s->dims[i].parent != i || s->dims[i].units == 1 || !s->live[i / TCC_MAX_RANK];
        s->dims[i].count = 1;
    }
    for (;;) {
        int least = -1;
        for (int i = 0; i < all; i++)
            if (!done[i] && (least < 0 || taken_of(&s->dims[i]) < taken_of(&s->dims[least]))) least = i;
        if (least < 0) return TCC_OK;
        tcc_sample_dim *x = &s->dims[least];
        const int64_t before = x->count;
        x->count = 2 * before < x->units ? 2 * before : x->units;
        done[least] = x->count == x->units;
        if (work_of_graph(g, s) <= most_work) continue;
        x->count = before;
        done[least] = true;
    }
}

static uint64_t scrambled(uint64_t x) { /* SplitMix64, Steele et al. 2014 */
    x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 30) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The last block, and one drawn from each of as many equal parts of the others as are wanted. */
static tcc_status draw(tcc_sample *s, tcc_sample_dim *x, uint64_t seed, tcc_diag *diag) {
    if (!(x->taken = TCC_ARENA_ARRAY(&s->memory, int64_t, x->count))) return tcc_enomem(diag);
    const int64_t others = x->units - 1, parts = x->count - 1;
    for (int64_t i = 0; i < x->count; i++) {
        x->taken[i] = i;
        if (x->count == x->units) continue;
        if (i == parts) x->taken[i] = others;
        else {
            const int64_t from = i * others / parts, to = (i + 1) * others / parts;
            x->taken[i] = from + (int64_t)(scrambled(seed + (uint64_t)i) % (uint64_t)(to - from));
        }
    }
    return TCC_OK;
}

/* -- The smaller graph -- */

static tcc_type type_of(const tcc_sample *s, const tcc_node *n) {
    tcc_type type = n->type;
    for (int d = 0; d < type.rank; d++) type.dims[d] = share(s, n, d);
    return type;
}

/* Where rows [from, from + count * step) of the share of x lie, every `step` of them: among the rows of a batch, or,
 * `batches`, in which batch. */
static const int64_t *places(tcc_sample *s, const tcc_node *x, int64_t count, int64_t step, bool batches) {
    const int64_t width = x->type.dims[x->type.rank - 1], rows = x->type.dims[x->type.rank - 2];
    int64_t *at = TCC_ARENA_ARRAY(&s->memory, int64_t, count + 1);
    for (int64_t i = 0; at && i < count; i++) {
        const int64_t row = tcc_sample_element(s, x, i * step * width) / width;
        at[i] = batches ? row / rows : row % rows;
    }
    return at;
}

/* An attention that is cut hides keys and draws by its rows' positions in the whole graph. */
static tcc_status set_positions(tcc_sample *s, const tcc_node *n, tcc_node *made, tcc_diag *diag) {
    const tcc_node *q = n->operands[0], *k = n->operands[1];
    const int lead = q->type.rank - 2;
    const int64_t queries = share(s, q, lead), keys = share(s, k, lead);
    int64_t batches = 1;
    for (int d = 0; d < lead; d++) batches *= share(s, q, d);
    tcc_positions *p = TCC_ARENA_NEW(&s->memory, tcc_positions);
    if (!p) return tcc_enomem(diag);
    *p = (tcc_positions){.all_queries = q->type.dims[lead],
                         .all_keys = k->type.dims[lead],
                         .batches = places(s, q, batches, queries, true),
                         .queries = places(s, q, queries, 1, false),
                         .keys = places(s, k, keys, 1, false)};
    if (!p->batches || !p->queries || !p->keys) return tcc_enomem(diag);
    if (made->positions) return TCC_BUG(diag, "%s is twice in a sample", tcc_node_text(n));
    made->positions = p;
    return TCC_OK;
}

static tcc_node *rebuild(tcc_sample *s, const tcc_node *n, tcc_node *const *map) {
    enum { MOST = 16 };
    tcc_node *few[MOST], **operands = few;
    if (n->n_operands > MOST && !(operands = TCC_ARENA_ARRAY(&s->memory, tcc_node *, n->n_operands))) return NULL;
    for (int k = 0; k < n->n_operands; k++) operands[k] = map[n->operands[k]->id];
    const tcc_type type = type_of(s, n);
    tcc_attrs attrs = *n->attrs;
    for (int d = 0; n->op == TCC_OP_SLICE && d < n->type.rank; d++) /* a dim that is not cut */
        if (n->type.dims[d] == n->operands[0]->type.dims[d]) attrs.slice.limit.v[d] = type.dims[d];
    if (tcc_op_get_info(n->op)->fusion == TCC_FUSION_CONTRACT && n->op != TCC_OP_DOT && attrs.conv.groups > 1) {
        const tcc_node *x = n->op == TCC_OP_CONV_GRAD_INPUT ? n : n->operands[0];
        const int c = attrs.conv.channels_last ? x->type.rank - 1 : 1;
        attrs.conv.groups = attrs.conv.groups * share(s, x, c) / x->type.dims[c];
    }
    const bool typed = tcc_op_get_info(n->op)->flags & TCC_FLAG_TYPED;
    return tcc_ir_build(s->graph, n->op, operands, n->n_operands, &attrs, typed ? &type : NULL, n->loc);
}

static tcc_node *placed_input(tcc_sample *s, const tcc_node *n) {
    char name[32];
    const tcc_type type = type_of(s, n);
    snprintf(name, sizeof name, "@placed.%d", n->id);
    s->placed[s->n_placed++] = n;
    return tcc_ir_input(s->graph, name, TCC_ROLE_BATCH, &type, n->loc);
}

static tcc_status build(tcc_sample *s, int output, tcc_diag *diag) {
    const tcc_graph *g = s->whole;
    tcc_node **map = TCC_ARENA_ARRAY(&s->memory, tcc_node *, g->nodes.count + 1);
    s->placed = TCC_ARENA_ARRAY(&s->memory, const tcc_node *, g->nodes.count + 1);
    if (!map || !s->placed || !(s->graph = tcc_graph_create("sample", diag))) return tcc_enomem(diag);
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        const tcc_type type = type_of(s, n);
        map[n->id] = tcc_ir_input(s->graph, n->attrs->input.name, n->attrs->input.role, &type, n->loc);
    }
    for (int i = 0; i < g->nodes.count; i++) {
        const tcc_node *n = g->nodes.data[i];
        if (n->op == TCC_OP_INPUT || !s->live[i]) continue;
        if (!(map[i] = tcc__sample_is_placed(n) ? placed_input(s, n) : rebuild(s, n, map)))
            return diag && diag->status != TCC_OK ? diag->status : tcc_enomem(diag);
        if (tcc_op_get_info(n->op)->fusion == TCC_FUSION_ATTENTION) TCC_TRY(set_positions(s, n, map[i], diag));
    }
    for (int i = 0; i < g->outputs.count; i++)
        if (output < 0 || i == output)
            TCC_TRY(tcc_ir_output(s->graph, g->outputs.data[i].name, map[g->outputs.data[i].node->id], -1));
    return TCC_OK;
}

static void find_live(tcc_sample *s, int output) {
    const tcc_graph *g = s->whole;
    for (int i = 0; i < g->outputs.count; i++)
        if (output < 0 || i == output) s->live[g->outputs.data[i].node->id] = true;
    for (int i = g->nodes.count - 1; i >= 0; i--)
        for (int k = 0; s->live[i] && k < g->nodes.data[i]->n_operands; k++)
            s->live[g->nodes.data[i]->operands[k]->id] = true;
}

tcc_status tcc_sample_create(const tcc_graph *whole, int output, double most_work, uint64_t seed, tcc_sample *out,
                             tcc_diag *diag) {
    const int all = whole->nodes.count * TCC_MAX_RANK;
    *out = (tcc_sample){.whole = whole};
    out->dims = TCC_ARENA_ARRAY(&out->memory, tcc_sample_dim, all + 1);
    out->live = TCC_ARENA_ARRAY(&out->memory, bool, whole->nodes.count + 1);
    if (!out->dims || !out->live) return tcc_enomem(diag);
    find_live(out, output);
    for (int i = 0; i < all; i++) {
        const tcc_node *n = whole->nodes.data[i / TCC_MAX_RANK];
        const int d = i % TCC_MAX_RANK;
        out->dims[i] = (tcc_sample_dim){.parent = i, .units = d < n->type.rank ? n->type.dims[d] : 1};
    }
    for (int i = 0; i < whole->nodes.count; i++)
        if (out->live[i]) tcc__sample_tie(out, whole->nodes.data[i]);
    for (int i = 0; i < all; i++) { /* the way is short from now on */
        const tcc_sample_dim *root = &out->dims[i];
        while (&out->dims[root->parent] != root) root = &out->dims[root->parent];
        out->dims[i].parent = (int)(root - out->dims);
    }
    TCC_TRY(choose(out, most_work, diag));
    for (int i = 0; i < all; i++)
        if (out->dims[i].parent == i) TCC_TRY(draw(out, &out->dims[i], seed + ((uint64_t)i << 32), diag));
    return build(out, output, diag);
}

void tcc_sample_free(tcc_sample *s) {
    tcc_graph_destroy(s->graph);
    tcc_arena_free(&s->memory);
    *s = (tcc_sample){0};
}

/* -- Values -- */

int64_t tcc_sample_element(const tcc_sample *s, const tcc_node *n, int64_t e) {
    int64_t element = 0, stride = 1;
    for (int d = n->type.rank - 1; d >= 0; d--) {
        const tcc_sample_dim *x = tcc__sample_dim(s, n, d);
        const int64_t block = n->type.dims[d] / x->units, extent = block * x->count, at = e % extent;
        element += (x->taken[at / block] * block + at % block) * stride;
        stride *= n->type.dims[d];
        e /= extent;
    }
    return element;
}

/* The share of dims [d, rank) that begins at element `from`, behind the *to elements of `out` that are filled. */
static void load_share(const tcc_sample *s, const tcc_node *n, int d, int64_t from, const void *packed, tcc_value *out,
                       int64_t *to) {
    const tcc_sample_dim *x = tcc__sample_dim(s, n, d);
    const int64_t block = n->type.dims[d] / x->units;
    int64_t stride = 1;
    bool whole = true; /* all of the dims behind: then a block lies in one piece */
    for (int k = d + 1; k < n->type.rank; k++) {
        const tcc_sample_dim *behind = tcc__sample_dim(s, n, k);
        stride *= n->type.dims[k];
        whole &= behind->count == behind->units;
    }
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t first = from + x->taken[i] * block * stride;
        for (int64_t k = 0; !whole && k < block; k++) load_share(s, n, d + 1, first + k * stride, packed, out, to);
        if (!whole) continue;
        tcc__value_load_at(out, *to, packed, first, block * stride);
        *to += block * stride;
    }
}

tcc_status tcc_sample_value(const tcc_sample *s, const tcc_node *n, const void *packed, tcc_value *out,
                            tcc_diag *diag) {
    const tcc_type type = type_of(s, n);
    int64_t to = 0;
    TCC_TRY(tcc_value_create_in(s->pool, &type, out, diag));
    if (s->all || !type.rank) tcc_value_load(out, packed);
    else load_share(s, n, 0, 0, packed, out, &to);
    return TCC_OK;
}

/* `key`: packed, of draws. */
static tcc_status place(const tcc_sample *s, const tcc_node *n, const void *key, tcc_value *out, tcc_diag *diag) {
    const tcc_type type = type_of(s, n);
    TCC_TRY(tcc_value_create_in(s->pool, &type, out, diag));
    for (int64_t e = 0, count = tcc_type_numel(&type); e < count; e++)
        tcc__eval_placed(n, key, tcc_sample_element(s, n, e), out, e);
    return TCC_OK;
}

static const void *key_of(const tcc_sample *s, const tcc_node *n, const void *const *packed) {
    for (int i = 0; n->n_operands && i < s->whole->inputs.count; i++)
        if (s->whole->inputs.data[i] == n->operands[0]) return packed[i];
    return NULL;
}

tcc_status tcc_sample_inputs(const tcc_sample *s, const void *const *packed, tcc_value *out, tcc_diag *diag) {
    const int own = s->whole->inputs.count;
    for (int i = 0; i < own; i++) TCC_TRY(tcc_sample_value(s, s->whole->inputs.data[i], packed[i], &out[i], diag));
    for (int i = 0; i < s->n_placed; i++)
        TCC_TRY(place(s, s->placed[i], key_of(s, s->placed[i], packed), &out[own + i], diag));
    return TCC_OK;
}
