/* SPDX-License-Identifier: MIT
 * Depthwise convolutions as pointwise work: with channels last in vectors of channels, and on the host otherwise, for
 * results that are images, in vectors along a row. The weights are first laid out channels last too. The weights'
 * gradient is a sum over all positions. Partial sums over some rows of an image each are added in two steps, so that
 * all threads have work; the order depends on shapes alone. */
#include "codegen/contract/conv.h"
#include "codegen/schedule/items.h"
#include "codegen/schedule/operand.h"

typedef struct depthwise {
    const tcc_node *hero;
    const tcc_conv *c;
    int weights; /* the temporary with them, -1: they are read where they are; of a gradient, that with its parts */
    int64_t parts, taps, channels;
    tcc_dtype dtype; /* of the weights, which are not widened for each position; of sums */
} depthwise;

/* Where tap and channel of a weight lie in the temporary. */
static tcc_affine weight_at(tcc_body *b, const tcc_conv *c, const tcc_affine *at) {
    if (!c->attrs->channels_last) return tcc_affine_linear(b, at, c->w->type.rank, c->w->type.dims);
    tcc_affine position = tcc_affine_constant(0);
    for (int i = 0; i < c->n_spatial; i++)
        position = tcc_affine_add(b, tcc_affine_scale(b, position, c->w->type.dims[c->first + i]), at[c->first + i]);
    return tcc_affine_add(b, tcc_affine_scale(b, position, c->groups), at[0]);
}

static tcc_affine fold_loop(tcc_body *b, int64_t extent, uint64_t *loops) {
    if (extent == 1) return tcc_affine_constant(0);
    int var = tcc_body_loop(b, extent);
    *loops |= UINT64_C(1) << var;
    return tcc_affine_var(b, var);
}

/* The sum over `count` parts of a temporary, `size` elements each, from part `first` on, at `position`. */
static const tcc_expr *sum_parts(tcc_body *b, const depthwise *d, int temporary, tcc_affine first, int64_t count,
                                 int64_t size, tcc_affine position) {
    uint64_t loops = 0;
    tcc_affine part = tcc_affine_add(b, first, fold_loop(b, count, &loops));
    tcc_affine at = tcc_affine_add(b, tcc_affine_scale(b, part, size), position);
    const tcc_expr *value = tcc_expr_load(b, tcc_body_temporary(b, temporary, d->dtype, false), at, NULL);
    return loops && value ? tcc_expr_fold(b, TCC_OP_REDUCE_SUM, d->dtype, value, loops) : value;
}

/* Weights, and their gradient, come from temporaries. */
static const tcc_expr *special(tcc_body *b, const tcc_node *n, const tcc_affine *at, void *user) {
    const depthwise *d = user;
    if (n != d->c->w || d->weights < 0) return NULL;
    tcc_affine position = weight_at(b, d->c, at);
    if (n == d->hero)
        return sum_parts(b, d, d->weights, tcc_affine_constant(0), d->parts, d->taps * d->channels, position);
    return tcc_expr_load(b, tcc_body_temporary(b, d->weights, d->dtype, false), position, NULL);
}

enum { LEAST_TAPS = 16 }; /* of channels: a smaller filter waits for memory, which is faster position by position */

/* A few positions of a row are a loop of their own, which the schedule makes at once: they share the filter, and most
 * of what they see. Where vectors run along a row, these are positions in neighbouring rows, so many that the sums fit
 * into registers. */
static void split_rows(const tcc_lowering *l, tcc_iteration *it, const tcc_conv *c) {
    enum { MOST_VECTORS = 4 };
    static const int few[] = {4, 5, 6, 7, 3, 2};
    const bool last = c->attrs->channels_last;
    if (!last && c->n_spatial < 2) return;
    tcc_space_axis *row = &it->axes[c->first + c->n_spatial - (last ? 1 : 2)];
    int64_t vectors = last ? 1 : (row[1].extent + l->target->lanes - 1) / l->target->lanes;
    if (vectors > MOST_VECTORS) vectors = MOST_VECTORS;
    for (int i = 0; i < (int)(sizeof few / sizeof *few); i++)
        if (row->extent % few[i] == 0 && (last || few[i] * vectors <= tcc_most_sums(l->target))) {
            *row = (tcc_space_axis){row->extent, 2, {row->extent / few[i], few[i]}};
            return;
        }
}

/* All outputs of the group, by the usual rules but for `special`. */
static tcc_status lower_outputs(tcc_lowering *l, depthwise *d) {
    const tcc_type *space = &d->hero->type;
    tcc_iteration it;
    tcc_iteration_init(&it, space->rank, space->dims);
    const bool jams = !d->c->attrs->channels_last || d->taps >= LEAST_TAPS;
    if (d->hero->op != TCC_OP_CONV_GRAD_WEIGHT && jams) split_rows(l, &it, d->c);
    for (;;) {
        tcc_affine coordinates[TCC_MAX_RANK];
        tcc_body *b = tcc_lowering_body(l, l->group);
        if (!b) return tcc_enomem(l->diag);
        if (d->weights >= 0) b->also = d->c->w;
        b->special = special;
        b->special_user = d;
        tcc_iteration_open(b, &it, coordinates);
        tcc_affine position = tcc_affine_linear(b, coordinates, space->rank, space->dims);
        for (int i = 0; i < l->group->n_outputs; i++) tcc_body_store(b, l->group->outputs[i], position, false);
        if (!tcc_iteration_refine(&it, b)) return tcc_schedule_points(l, b);
        tcc_body_free(b);
    }
}

static bool store_part(tcc_body *b, const depthwise *d, int temporary, tcc_affine position, const tcc_expr *value) {
    if (!value) return false;
    tcc_body_write store = {.buffer = tcc_body_temporary(b, temporary, d->dtype, true),
                            .offset = tcc_affine_expand(b, position),
                            .value = value};
    return tcc_vec_push(&b->stores, store);
}

/* x at the position that tap k sees from y, 0 in the padding, times dy; summed over rows of y from row0 on. */
static const tcc_expr *sum_rows(tcc_body *b, const depthwise *d, tcc_affine image, tcc_affine row0, int64_t rows,
                                const tcc_affine *k, tcc_affine channel) {
    const tcc_conv *c = d->c;
    uint64_t loops = 0;
    tcc_affine at_x[TCC_MAX_RANK], at_y[TCC_MAX_RANK];
    const tcc_expr *inside = NULL;
    at_x[0] = at_y[0] = image;
    at_x[c->channel] = at_y[c->channel] = channel;
    for (int i = 0; i < c->n_spatial; i++) {
        int dim = c->first + i;
        at_y[dim] = i ? fold_loop(b, c->y->type.dims[dim], &loops)
                      : tcc_affine_add(b, row0, fold_loop(b, rows, &loops));
        tcc_affine at = tcc_affine_scale(b, at_y[dim], c->attrs->stride.v[i]);
        at = tcc_affine_add(b, at, tcc_affine_scale(b, k[i], c->attrs->dilation.v[i]));
        at_x[dim] = tcc_affine_add_constant(at, -c->attrs->pad_lo.v[i]);
        inside = tcc_expr_and(b, inside, tcc_expr_within(b, at_x[dim], c->x->type.dims[dim]));
    }
    b->guard = inside;
    const tcc_expr *x = tcc_body_trace(b, c->x, at_x);
    b->guard = NULL;
    if (x && inside && !(x->kind == TCC_EXPR_LOAD && x->n_operands)) {
        const tcc_expr *choice[] = {inside, x, tcc_expr_number(b, x->dtype, 0)};
        x = tcc_expr_point(b, TCC_OP_SELECT, x->dtype, choice, 3);
    }
    return tcc_expr_fold_products(b, d->dtype, x, tcc_body_trace(b, c->y, at_y), loops);
}

/* One part for each image and each `rows` rows of it. */
static tcc_status lower_parts(tcc_lowering *l, const depthwise *d, int temporary, int64_t rows) {
    const tcc_conv *c = d->c;
    int rank = 2 + c->n_spatial + 1;
    int64_t dims[TCC_MAX_RANK] = {c->y->type.dims[0], c->y->type.dims[c->first] / rows};
    for (int i = 0; i < c->n_spatial; i++) dims[2 + i] = c->w->type.dims[c->first + i];
    dims[rank - 1] = d->channels;
    tcc_iteration it;
    tcc_iteration_init(&it, rank, dims);
    for (;;) {
        tcc_affine at[TCC_MAX_RANK];
        tcc_body *b = tcc_lowering_body(l, l->group);
        if (!b) return tcc_enomem(l->diag);
        tcc_iteration_open(b, &it, at);
        const tcc_expr *value = sum_rows(b, d, at[0], tcc_affine_scale(b, at[1], rows), rows, at + 2, at[rank - 1]);
        if (value && !store_part(b, d, temporary, tcc_affine_linear(b, at, rank, dims), value))
            b->status = tcc_enomem(l->diag);
        if (!tcc_iteration_refine(&it, b)) return tcc_schedule_points(l, b);
        tcc_body_free(b);
    }
}

/* Each `count` parts become one. */
static tcc_status lower_sums(tcc_lowering *l, const depthwise *d, int from, int to, int64_t parts, int64_t count) {
    int64_t dims[] = {parts / count, d->taps * d->channels};
    tcc_iteration it;
    tcc_affine at[TCC_MAX_RANK];
    tcc_iteration_init(&it, 2, dims);
    tcc_body *b = tcc_lowering_body(l, l->group);
    if (!b) return tcc_enomem(l->diag);
    tcc_iteration_open(b, &it, at);
    const tcc_expr *value = sum_parts(b, d, from, tcc_affine_scale(b, at[0], count), count, dims[1], at[1]);
    if (value && !store_part(b, d, to, tcc_affine_linear(b, at, 2, dims), value)) b->status = tcc_enomem(l->diag);
    return tcc_schedule_points(l, b);
}

/* The least divisor of n that is not below `least`; n itself at most. */
static int64_t divisor_from(int64_t n, int64_t least) {
    int64_t d = least < 1 ? 1 : least;
    while (d < n && n % d) d++;
    return d < n ? d : n;
}

static tcc_status settle_divisor(tcc_lowering *l, tcc_param which, int64_t all, int64_t *value) {
    TCC_TRY(tcc_params_settle(&l->params, which, tcc_param_between(1, all), value));
    return all % *value ? tcc_params_refuse(&l->params, which, *value, "a divisor of %lld", (long long)all) : TCC_OK;
}

static tcc_status lower_weight_gradient(tcc_lowering *l, depthwise *d) {
    enum { SHARE = 8, MOST_PARTS = 64 }; /* parts take at most this share of y's memory, about */
    const tcc_conv *c = d->c;
    int64_t row = 1, size = d->taps * d->channels * tcc_dtype_bytes(d->dtype);
    for (int i = 1; i < c->n_spatial; i++) row *= c->y->type.dims[c->first + i];
    int64_t rows = divisor_from(c->y->type.dims[c->first], (SHARE * d->taps + row - 1) / row);
    TCC_TRY(settle_divisor(l, TCC_PARAM_PART_ROWS, c->y->type.dims[c->first], &rows));
    d->parts = c->y->type.dims[0] * (c->y->type.dims[c->first] / rows);
    int64_t count = 1;
    while (d->parts > MOST_PARTS && count * count < d->parts) count++;
    count = divisor_from(d->parts, count);
    TCC_TRY(settle_divisor(l, TCC_PARAM_PARTS_AT_ONCE, d->parts, &count));
    d->weights = tcc_lowering_temporary(l, d->parts * size);
    if (d->weights < 0) return TCC_ENOMEM;
    TCC_TRY(lower_parts(l, d, d->weights, rows));
    if (count > 1) {
        int fewer = tcc_lowering_temporary(l, d->parts / count * size);
        if (fewer < 0) return TCC_ENOMEM;
        TCC_TRY(lower_sums(l, d, d->weights, fewer, d->parts, count));
        d->parts /= count;
        d->weights = fewer;
    }
    return lower_outputs(l, d);
}

tcc_status tcc_lower_conv_depthwise(tcc_lowering *l, const tcc_conv *c) {
    const tcc_node *hero = l->group->hero;
    depthwise *d = TCC_ARENA_NEW(l->arena, depthwise);
    if (!d) return tcc_enomem(l->diag);
    *d = (depthwise){.hero = hero,
                     .c = c,
                     .taps = tcc_conv_taps(c),
                     .channels = c->groups,
                     .dtype = tcc_operand_sum_type(hero->type.dtype)};
    const bool last = c->attrs->channels_last, by_rows = !l->target->lane_groups && hero->op != TCC_OP_CONV_GRAD_WEIGHT;
    if (!last && !by_rows) return TCC_OK;
    for (int i = 0; i < l->group->n_outputs; i++)
        if (tcc_type_numel(&l->group->outputs[i]->type) != tcc_type_numel(&hero->type)) return TCC_OK;
    if (hero->op == TCC_OP_CONV_GRAD_WEIGHT) return lower_weight_gradient(l, d);
    int perm[TCC_MAX_RANK], rank = hero->type.rank;
    for (int i = 0; i < rank; i++) perm[i] = last ? (i + 1) % rank : i; /* taps, the one input channel, channels */
    d->weights = -1;
    if (last || tcc_group_has(l->group, c->w) || c->w->type.dtype != d->dtype)
        TCC_TRY(tcc_operand_copy(l, c->w, d->dtype, perm, NULL, NULL, &d->weights));
    return lower_outputs(l, d);
}
