/* SPDX-License-Identifier: MIT
 * Random graphs: the pool of values, outputs, and data for the inputs. */
#include "ir/random.h"
#include "ir/random_values.h"
#include "ir/support/alloc.h"
#include "ir/support/hash.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Inputs in BATCH are multiples of 1/8 in -2 .. 2; those of PARAM and STATE are any floats in -1
 * .. 1. */
enum { BATCH_GRID = 3, BATCH_MOST = 2, INT_MOST = 8, U8_MOST = 15, DEFAULT_NODES = 40, DEFAULT_ELEMENTS = 4096 };
#define LARGEST_FLOAT 64.0
#define LARGEST_INT (1 << 20)

/* -- Chance -- */

static uint64_t next_bits(tcc_gen *r) { return tcc_hash_mix(r->state += 0x9e3779b97f4a7c15u); }

int64_t tcc__gen_below(tcc_gen *r, int64_t n) { return (int64_t)(next_bits(r) % (uint64_t)n); }

bool tcc__gen_chance(tcc_gen *r, int percent) { return tcc__gen_below(r, 100) < percent; }

int64_t tcc__gen_extent(tcc_gen *r, int64_t most) {
    static const int16_t small[] = {1, 1, 2, 3, 4, 5, 7, 8, 9};
    static const int16_t large[] = {13, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 129, 257, 515};
    int64_t extent = tcc__gen_chance(r, 75) ? TCC_GEN_ONE_OF(r, small) : TCC_GEN_ONE_OF(r, large);
    return extent <= most ? extent : 1 + tcc__gen_below(r, most);
}

tcc_dtype tcc__gen_float(tcc_gen *r) {
    static const tcc_dtype floats[] = {TCC_F32, TCC_F32, TCC_F32, TCC_F16, TCC_BF16, TCC_F64};
    return r->options->mixed ? TCC_GEN_ONE_OF(r, floats) : TCC_F32;
}

bool tcc__gen_fits(const tcc_gen *r, const tcc_type *t) {
    int64_t numel = 1;
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[i] > r->max_elements / numel) return false;
        numel *= t->dims[i];
    }
    return true;
}

static tcc_type random_type(tcc_gen *r, tcc_dtype dtype, int least_rank, int most_rank) {
    static const int8_t ranks[] = {0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5};
    tcc_type t = {.dtype = dtype, .rank = TCC_GEN_ONE_OF(r, ranks)};
    if (t.rank < least_rank) t.rank = least_rank;
    if (t.rank > most_rank) t.rank = most_rank;
    int64_t room = r->max_elements;
    for (int i = 0; i < t.rank; i++) {
        t.dims[i] = tcc__gen_extent(r, room);
        room /= t.dims[i];
    }
    return t;
}

/* -- Values -- */

tcc_node *tcc__gen_build(tcc_gen *r, tcc_op op, tcc_node *const *operands, int n, const tcc_attrs *attrs,
                         const tcc_type *type) {
    return tcc_ir_build(r->g, op, operands, n, attrs, type, TCC_NOWHERE);
}

/* How many bits a value of the type holds without rounding. */
static int precision(tcc_dtype t) {
    switch (t) {
    case TCC_F64: return 53;
    case TCC_F16: return 11;
    case TCC_BF16: return 8;
    default: return 24;
    }
}

tcc_gen_value tcc__gen_made(tcc_node *n, double lo, double hi, double err, int grid) {
    enum { FINEST = 24 };
    tcc_gen_value v = {n, lo, hi, err, grid};
    if (!n || !tcc_dtype_is_float(n->type.dtype)) return v;
    const int bits = precision(n->type.dtype);
    if (grid > FINEST || ldexp(tcc__gen_magnitude(v), grid) > ldexp(1, bits)) v.grid = -1;
    /* One unit in the last place and a half: functions are not rounded to the nearest. */
    if (v.grid >= 0) v.err = 0;
    else v.err += 1.5 * ldexp(tcc__gen_magnitude(v), 1 - bits);
    return v;
}

static bool suits(const tcc_gen_value *v, tcc_gen_want want) {
    const tcc_type *t = &v->n->type;
    return (!want.kinds || want.kinds >> tcc_dtype_get_kind(t->dtype) & 1) && t->rank >= want.least_rank &&
           t->rank <= want.most_rank && (!want.exact || v->grid >= 0);
}

tcc_gen_value tcc__gen_pick(tcc_gen *r, tcc_gen_want want) {
    const int count = r->pool.count;
    /* From a place anywhere, later ones more often, so that graphs grow deep as well as wide. */
    int at = count ? (int)tcc__gen_below(r, count) : 0;
    if (count && tcc__gen_chance(r, 60)) at = count - 1 - (int)tcc__gen_below(r, count < 6 ? count : 6);
    for (int i = 0; i < count && tcc__gen_chance(r, 98); i++) {
        const tcc_gen_value *v = &r->pool.data[(at + count - i) % count];
        /* Rather something that was computed. */
        if (suits(v, want) && (v->n->op != TCC_OP_INPUT || tcc__gen_chance(r, 50))) return *v;
    }
    static const tcc_dtype ints[] = {TCC_I32, TCC_I32, TCC_I64, TCC_U8};
    tcc_dtype dtype = tcc__gen_float(r);
    if (want.kinds && !(want.kinds & TCC_GEN_FLOAT))
        dtype = want.kinds & TCC_GEN_INT ? TCC_GEN_ONE_OF(r, ints) : TCC_BOOL;
    tcc_type type = random_type(r, dtype, want.least_rank, want.most_rank);
    tcc_gen_value v;
    do v = tcc__gen_input(r, &type);
    while (v.n && want.exact && v.grid < 0);
    return v;
}

tcc_gen_value tcc__gen_input(tcc_gen *r, const tcc_type *type) {
    char name[16];
    tcc_role role = TCC_ROLE_BATCH;
    tcc_gen_value v = {.lo = -BATCH_MOST, .hi = BATCH_MOST, .grid = BATCH_GRID};
    if (tcc_dtype_is_float(type->dtype) && tcc__gen_chance(r, r->options->differentiable ? 60 : 30)) {
        role = TCC_ROLE_PARAM;
        v = (tcc_gen_value){.lo = -1, .hi = 1, .grid = -1};
    } else if (type->dtype == TCC_BOOL) {
        v = (tcc_gen_value){.hi = 1};
    } else if (type->dtype == TCC_U8) {
        v = (tcc_gen_value){.hi = U8_MOST};
    } else if (!tcc_dtype_is_float(type->dtype)) {
        v = (tcc_gen_value){.lo = -INT_MOST, .hi = INT_MOST};
    }
    snprintf(name, sizeof name, "x%d", r->g->inputs.count);
    v.n = tcc_ir_input(r->g, name, role, type, TCC_NOWHERE);
    if (v.n && !tcc_vec_push(&r->pool, v)) tcc_enomem(r->g->diag);
    return v;
}

/* A literal on a coarse grid, or a splat. */
static tcc_gen_value constant(tcc_gen *r, const tcc_type *type) {
    enum { MOST_VALUES = 64 };
    double values[MOST_VALUES];
    const int64_t numel = tcc_type_numel(type);
    const bool literal = numel <= MOST_VALUES && tcc__gen_chance(r, 50);
    tcc_attrs attrs = {.constant.values = {literal ? numel : 1, values}};
    const bool is_float = tcc_dtype_is_float(type->dtype);
    for (int64_t i = 0; i < attrs.constant.values.count; i++) {
        if (is_float) values[i] = (double)(tcc__gen_below(r, 33) - 16) / 8;
        else values[i] = (double)tcc__gen_below(r, type->dtype == TCC_BOOL ? 2 : INT_MOST);
    }
    tcc_gen_value v = {.n = tcc__gen_build(r, TCC_OP_CONSTANT, NULL, 0, &attrs, type)};
    v.lo = is_float ? -BATCH_MOST : 0;
    v.hi = is_float ? BATCH_MOST : type->dtype == TCC_BOOL ? 1 : INT_MOST;
    v.grid = is_float ? BATCH_GRID : 0;
    return v;
}

/* A value of some of the dims, or of dims that are 1 in part, stretched to the type. */
static tcc_gen_value stretched(tcc_gen *r, const tcc_type *type) {
    tcc_type small = {.dtype = type->dtype};
    int dims[TCC_MAX_RANK];
    for (int i = 0; i < type->rank; i++) {
        if (tcc__gen_chance(r, 50)) continue;
        dims[small.rank] = i;
        small.dims[small.rank++] = tcc__gen_chance(r, 80) ? type->dims[i] : 1;
    }
    tcc_gen_value v = {0};
    for (int i = r->pool.count - 1; i >= 0 && !v.n; i--)
        if (tcc_type_equal(&r->pool.data[i].n->type, &small)) v = r->pool.data[i];
    if (!v.n) v = tcc__gen_chance(r, 30) ? constant(r, &small) : tcc__gen_input(r, &small);
    v.n = tcc_ir_broadcast(r->g, v.n, type->rank, type->dims, dims);
    return v;
}

tcc_gen_value tcc__gen_like(tcc_gen *r, const tcc_type *type) {
    const int count = r->pool.count;
    if (count && tcc__gen_chance(r, 70)) {
        const int at = (int)tcc__gen_below(r, count);
        for (int i = 0; i < count; i++) {
            const tcc_gen_value *v = &r->pool.data[(at + i) % count];
            if (tcc_type_equal(&v->n->type, type)) return *v;
        }
    }
    if (type->rank && tcc__gen_chance(r, 50)) return stretched(r, type);
    return tcc__gen_chance(r, 20) ? constant(r, type) : tcc__gen_input(r, type);
}

tcc_node *tcc__gen_index(tcc_gen *r, int rank, const int64_t *dims) {
    char name[16];
    tcc_type type = {.dtype = tcc__gen_chance(r, 70) ? TCC_I32 : TCC_I64, .rank = rank};
    memcpy(type.dims, dims, sizeof type.dims[0] * (size_t)rank);
    snprintf(name, sizeof name, "i%d", r->g->inputs.count);
    return tcc_ir_input(r->g, name, TCC_ROLE_BATCH, &type, TCC_NOWHERE);
}

tcc_node *tcc__gen_key(tcc_gen *r) {
    if (!r->key) r->key = tcc_ir_input(r->g, "key", TCC_ROLE_RNG, &(tcc_type){TCC_I64, 1, {2}}, TCC_NOWHERE);
    return r->key;
}

tcc_gen_value tcc__gen_into(tcc_gen *r, tcc_gen_value v, double lo, double hi) {
    if (v.lo >= lo && v.hi <= hi) return v;
    /* A power of 2, and a shift that is a multiple of 1/16: an exact value stays exact. */
    const double width = v.hi - v.lo;
    int exponent = 0;
    if (width > 0.75 * (hi - lo)) exponent = (int)floor(log2(0.75 * (hi - lo) / width));
    const double scale = ldexp(1, exponent), shift = ceil((lo - v.lo * scale) * 16) / 16;
    if (exponent) {
        v.n = tcc_ir_binary_c(r->g, TCC_OP_MUL, v.n, scale);
        v = tcc__gen_made(v.n, v.lo * scale, v.hi * scale, v.err * scale, v.grid < 0 ? -1 : v.grid - exponent);
    }
    if (v.lo >= lo && v.hi <= hi) return v;
    v.n = tcc_ir_binary_c(r->g, TCC_OP_ADD, v.n, shift);
    return tcc__gen_made(v.n, v.lo + shift, v.hi + shift, v.err, v.grid < 0 ? -1 : v.grid > 4 ? v.grid : 4);
}

void tcc__gen_keep(tcc_gen *r, tcc_gen_value v) {
    if (!v.n) return;
    if (!tcc_dtype_is_float(v.n->type.dtype)) {
        if (tcc__gen_magnitude(v) > LARGEST_INT || (v.n->type.dtype == TCC_U8 && (v.lo < 0 || v.hi > UINT8_MAX)))
            return;
    } else {
        if (tcc__gen_magnitude(v) > LARGEST_FLOAT) v = tcc__gen_into(r, v, -4, 4);
        if (v.err > (r->options->mixed ? TCC_RANDOM_TOLERANCE_MIXED : TCC_RANDOM_TOLERANCE) / 4) return;
    }
    if (v.n && !tcc_vec_push(&r->pool, v)) tcc_enomem(r->g->diag);
}

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
        {TCC_FUSION_POINT, 40, tcc__gen_point},        {TCC_FUSION_VIEW, 18, tcc__gen_view},
        {TCC_FUSION_REDUCE, 10, tcc__gen_reduce},      {TCC_FUSION_SCAN, 2, tcc__gen_scan},
        {TCC_FUSION_INDEX, 4, tcc__gen_take},          {TCC_FUSION_SCATTER, 3, tcc__gen_scatter},
        {TCC_FUSION_CONTRACT, 8, tcc__gen_contract},   {TCC_FUSION_WINDOW, 4, tcc__gen_window},
        {TCC_FUSION_ATTENTION, 3, tcc__gen_attention}, {TCC_FUSION_COMPOSITE, 10, tcc__gen_composite},
    };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    unsigned classes = r->options->classes ? r->options->classes | 1u << TCC_FUSION_POINT : ~0u;
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
    tcc_type type = random_type(r, tcc__gen_float(r), 1, 4);
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
            n->op == TCC_OP_SCATTER_ADD_ALONG)
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
    if (dtype == TCC_U8) return tcc__gen_below(r, U8_MOST + 1);
    return tcc__gen_below(r, 2 * INT_MOST + 1) - INT_MOST;
}

static double random_float(tcc_gen *r, tcc_role role, tcc_dtype dtype) {
    if (role == TCC_ROLE_BATCH)
        return (double)(tcc__gen_below(r, (2 * BATCH_MOST << BATCH_GRID) + 1) - (BATCH_MOST << BATCH_GRID)) /
               (1 << BATCH_GRID);
    double x = ldexp((double)(next_bits(r) >> 40), -23) - 1; /* 24 bits: -1 <= x < 1 */
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
        if (role == TCC_ROLE_RNG) k = i ? (int64_t)tcc__gen_below(&r, 1000) : (int64_t)next_bits(&r);
        switch (dtype) {
        case TCC_F64: ((double *)packed)[i] = f; break;
        case TCC_F32: ((float *)packed)[i] = (float)f; break;
        case TCC_F16: ((uint16_t *)packed)[i] = tcc_f32_to_f16((float)f); break;
        case TCC_BF16: ((uint16_t *)packed)[i] = tcc_f32_to_bf16((float)f); break;
        case TCC_I64: ((int64_t *)packed)[i] = k; break;
        case TCC_I32: ((int32_t *)packed)[i] = (int32_t)k; break;
        default: ((uint8_t *)packed)[i] = (uint8_t)k; break;
        }
    }
}
