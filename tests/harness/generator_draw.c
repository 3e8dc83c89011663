/* SPDX-License-Identifier: MIT
 * Random graphs: chance, and the pool of values that operands are drawn from. */
#include "harness/generator_values.h"
#include "ir/support/hash.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LARGEST_FLOAT 64.0
#define LARGEST_INT (1 << 20)

/* -- Chance -- */

uint64_t tcc__gen_bits(tcc_gen *r) { return tcc_hash_mix(r->state += 0x9e3779b97f4a7c15u); }

int64_t tcc__gen_below(tcc_gen *r, int64_t n) { return (int64_t)(tcc__gen_bits(r) % (uint64_t)n); }

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

tcc_type tcc__gen_type(tcc_gen *r, tcc_dtype dtype, int least_rank, int most_rank) {
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

tcc_gen_value tcc__gen_made(tcc_node *n, double lo, double hi, double err, int grid) {
    enum { FINEST = 24 };
    tcc_gen_value v = {n, lo, hi, err, grid};
    if (!n || !tcc_dtype_is_float(n->type.dtype)) return v;
    const int bits = tcc_dtype_digits(n->type.dtype);
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
    /* Starts anywhere in the pool, at later values more often, so that graphs grow deep as well as wide. */
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
    tcc_type type = tcc__gen_type(r, dtype, want.least_rank, want.most_rank);
    tcc_gen_value v;
    do v = tcc__gen_input(r, &type);
    while (v.n && want.exact && v.grid < 0);
    return v;
}

tcc_gen_value tcc__gen_input(tcc_gen *r, const tcc_type *type) {
    char name[16];
    tcc_role role = TCC_ROLE_BATCH;
    tcc_gen_value v = {.lo = -TCC_GEN_BATCH_MOST, .hi = TCC_GEN_BATCH_MOST, .grid = TCC_GEN_BATCH_GRID};
    if (tcc_dtype_is_float(type->dtype) && tcc__gen_chance(r, r->options->differentiable ? 60 : 30)) {
        role = TCC_ROLE_PARAM;
        v = (tcc_gen_value){.lo = -1, .hi = 1, .grid = -1};
    } else if (type->dtype == TCC_BOOL) {
        v = (tcc_gen_value){.hi = 1};
    } else if (type->dtype == TCC_U8) {
        v = (tcc_gen_value){.hi = TCC_GEN_U8_MOST};
    } else if (!tcc_dtype_is_float(type->dtype)) {
        v = (tcc_gen_value){.lo = -TCC_GEN_INT_MOST, .hi = TCC_GEN_INT_MOST};
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
        else values[i] = (double)tcc__gen_below(r, type->dtype == TCC_BOOL ? 2 : TCC_GEN_INT_MOST);
    }
    tcc_gen_value v = {.n = tcc__gen_build(r, TCC_OP_CONSTANT, NULL, 0, &attrs, type)};
    v.lo = is_float ? -TCC_GEN_BATCH_MOST : 0;
    v.hi = is_float ? TCC_GEN_BATCH_MOST : type->dtype == TCC_BOOL ? 1 : TCC_GEN_INT_MOST;
    v.grid = is_float ? TCC_GEN_BATCH_GRID : 0;
    return v;
}

/* A value with fewer dims or with extents of 1, broadcast to the type. */
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
