/* SPDX-License-Identifier: MIT
 * Lowering convolutions and their gradients to the contraction schedule.
 *
 * An operand in memory is read in place. Others are evaluated while they are read, if kernels can do that (computed.h,
 * prologue.h), or else copied into a temporary first, channels last. Windows skip the border where there are many
 * images and wide channels; otherwise images are copied with zeros around them. The gradient of a strided convolution
 * by its input is one contraction for each class of positions modulo the stride. So no product with an inserted zero is
 * ever made. */
#include "codegen/contract/launch.h"
#include "codegen/contract/computed.h"
#include "codegen/contract/conv.h"
#include "codegen/schedule/operand.h"

#include "ir/support/integers.h"

#include <string.h>

enum { B = TCC_CONTRACT_B, M = TCC_CONTRACT_M, N = TCC_CONTRACT_N, K = TCC_CONTRACT_K };

bool tcc_conv_computes_image(const tcc_lowering *l, const tcc_conv *c, const tcc_node *n) {
    return n == c->x && l->group->hero == c->w && c->attrs->channels_last && c->groups == 1 &&
           tcc_computed_type(n->type.dtype) && c->ci % l->target->lanes == 0;
}

/* An operand's memory as it is: not evaluated inside the group. */
static bool in_memory(const tcc_lowering *l, const tcc_node *n) {
    return n->type.dtype == tcc_contract_type_in_place(l, n) && !tcc_group_has(l->group, n) && n->op != TCC_OP_CONSTANT;
}

/* From element to element along a dim: in memory, and of the forms of what is computed. */
typedef struct stride {
    int64_t memory, forms[TCC_CONTRACT_MAX_FORMS];
} stride;

static const stride still;

static stride times(stride s, int64_t factor) {
    s.memory *= factor;
    for (int f = 0; f < TCC_CONTRACT_MAX_FORMS; f++) s.forms[f] *= factor;
    return s;
}

static void add(tcc_contract_shape *s, int list, int64_t extent, stride a, stride b, tcc_contract_result where) {
    tcc_contract_dim *d = tcc_contract_add_strided(s, list, extent, a.memory, b.memory, where);
    memcpy(d->f[0], a.forms, sizeof a.forms);
    memcpy(d->f[1], b.forms, sizeof b.forms);
}

static tcc_contract_result at(int dim) { return (tcc_contract_result){dim, 1}; }

static const tcc_contract_result summed = {-1, 1};

/* Moves the first element. */
static void move(tcc_contract_operand *o, stride s, int64_t steps) {
    o->offset += s.memory * steps;
    for (int f = 0; f < TCC_CONTRACT_MAX_FORMS; f++) o->begin[f] += s.forms[f] * steps;
}

/* An image [N, spatial, C] or a kernel [O, spatial, C] in memory or computed, by either layout. */
typedef struct image {
    tcc_contract_operand at;
    stride outer, channel, spatial[3];
} image;

static void set_strides(const tcc_conv *c, const stride *strides, image *out) {
    out->outer = strides[0];
    out->channel = strides[c->channel];
    for (int i = 0; i < c->n_spatial; i++) out->spatial[i] = strides[c->first + i];
}

/* Work of the group, of a type that can be evaluated where it is read: on the host the image of a filter's gradient,
 * with channels in whole vectors. */
static bool is_work(const tcc_lowering *l, const tcc_conv *c, const tcc_node *n) {
    if (!tcc_group_has(l->group, n) || n->type.dtype != tcc_contract_type_in_place(l, n)) return false;
    return tcc_contract_stages_operands(l) || tcc_conv_computes_image(l, c, n);
}

/* The operand as it is evaluated where it is read; out->at.prologue NULL: it cannot be. */
static tcc_status computed_image(tcc_lowering *l, const tcc_conv *c, const tcc_node *n, image *out) {
    tcc_iteration it;
    tcc_affine coordinates[TCC_MAX_RANK];
    stride strides[TCC_MAX_RANK] = {0};
    if (tcc_contract_stages_operands(l)) {
        tcc_body *b = tcc_lowering_body(l, l->group);
        if (!b) return tcc_enomem(l->diag);
        tcc_iteration_init(&it, n->type.rank, n->type.dims);
        tcc_iteration_open(b, &it, coordinates);
        const tcc_expr *value = tcc_body_trace(b, n, coordinates);
        TCC_TRY(tcc_prologue_create(l, b, value, &out->at.prologue));
    } else {
        TCC_TRY(tcc_computed_create(l, n, &out->at.prologue));
    }
    const tcc_prologue *p = out->at.prologue;
    for (int i = 0, loop = 0; p && i < n->type.rank; i++) {
        if (n->type.dims[i] == 1) continue; /* no loop either */
        for (int f = 0; f < p->reads.n_forms; f++) strides[i].forms[f] = tcc_affine_coefficient(&p->forms[f], loop);
        strides[i].memory = strides[i].forms[0];
        loop++;
    }
    out->at.dtype = n->type.dtype;
    set_strides(c, strides, out);
    return TCC_OK;
}

/* The operand in place, computed, or, padded or not in memory as it is, as a copy with channels last. Dim `longer` of
 * the copy has one element more, of zeros; -1: none has. */
static tcc_status image_operand(tcc_lowering *l, const tcc_conv *c, const tcc_node *n, const int64_t *lo,
                                const int64_t *hi, int longer, image *out) {
    int64_t strides[TCC_MAX_RANK], padding_lo[TCC_MAX_RANK] = {0}, padding_hi[TCC_MAX_RANK] = {0};
    bool padded = false;
    *out = (image){0};
    for (int i = 0; lo && i < c->n_spatial; i++) {
        padding_lo[c->first + i] = lo[i];
        padding_hi[c->first + i] = hi[i];
        padded = padded || lo[i] || hi[i];
    }
    if (longer >= 0) padding_hi[longer] = 1, padded = true;
    if (!padded && is_work(l, c, n)) TCC_TRY(computed_image(l, c, n, out));
    if (out->at.prologue) return TCC_OK;
    out->at.dtype = tcc_contract_type_of_copy(l, n);
    if (!padded && in_memory(l, n)) {
        tcc_operand_dense(&n->type, strides);
        out->at.buffer = (tcc_plan_buffer){.node = n, .temporary = -1};
        out->at.dtype = n->type.dtype;
    } else {
        int perm[TCC_MAX_RANK] = {0};
        tcc_type type = {.rank = n->type.rank};
        for (int i = 0; i < c->n_spatial; i++) perm[1 + i] = c->first + i;
        perm[n->type.rank - 1] = c->channel;
        for (int i = 0; i < type.rank; i++)
            type.dims[i] = n->type.dims[perm[i]] + padding_lo[perm[i]] + padding_hi[perm[i]];
        TCC_TRY(tcc_operand_copy(l, n, out->at.dtype, perm, padding_lo, padding_hi, &out->at.buffer.temporary));
        int64_t copied[TCC_MAX_RANK];
        tcc_operand_dense(&type, copied);
        for (int i = 0; i < type.rank; i++) strides[perm[i]] = copied[i];
    }
    stride of_dims[TCC_MAX_RANK] = {0};
    for (int i = 0; i < n->type.rank; i++) of_dims[i].memory = strides[i];
    set_strides(c, of_dims, out);
    return TCC_OK;
}

/* The result's dims in row-major order: [N or O, spatial, channels] by the layout; the first or the channels as (group,
 * within). */
typedef struct result_dims {
    int outer, group, channel, spatial[3];
} result_dims;

static result_dims add_result_dims(tcc_contract_shape *s, const tcc_conv *c, const tcc_type *type, bool groups_outside,
                                   int64_t in_group) {
    result_dims r = {0};
    if (groups_outside) r.group = tcc_contract_add_result(s, c->groups);
    r.outer = tcc_contract_add_result(s, groups_outside ? in_group : type->dims[0]);
    for (int i = 1; i < type->rank; i++) {
        if (i >= c->first && i < c->first + c->n_spatial) {
            r.spatial[i - c->first] = tcc_contract_add_result(s, type->dims[i]);
        } else {
            if (!groups_outside) r.group = tcc_contract_add_result(s, c->groups);
            r.channel = tcc_contract_add_result(s, groups_outside ? type->dims[i] : in_group);
        }
    }
    return r;
}

/* Whether the border of `n`, of which `channels` are read at a place, is better left out than padded. Rows of a tile
 * then lie in images of their own, and bf16 is packed for each element of the kernel. The `columns` of the product have
 * to repay that: two units that add with a latency of four cycles wait where there are fewer than eight sums. */
static bool by_windows(const tcc_lowering *l, const tcc_conv *c, const tcc_node *n, int64_t channels, int64_t columns) {
    enum { LEAST_IMAGES = 4, LEAST_CHANNELS = 16, MOST_ROWS = 6, LEAST_SUMS = 8 };
    if (tcc_contract_stages_operands(l))
        return in_memory(l, n) || is_work(l, c, n); /* zeros cost nothing on the way to shared memory */
    const int64_t images = n->type.dims[0], rows = images < MOST_ROWS ? images : MOST_ROWS;
    return c->attrs->channels_last && (in_memory(l, n) || is_work(l, c, n)) && images >= LEAST_IMAGES &&
           channels >= LEAST_CHANNELS && rows * tcc_ceil_div(columns, l->target->lanes) >= LEAST_SUMS;
}

static bool any(const int64_t *a, int n) {
    for (int i = 0; i < n; i++)
        if (a[i]) return true;
    return false;
}

/* What is summed at a place of an image that is copied for its border. Instructions that multiply pairs of bf16 take
 * rows as they lie where these have whole pairs: where channels are odd in number, there is one more, of zeros. */
static int64_t summed_channels(const tcc_lowering *l, const tcc_conv *c, const tcc_node *n, int64_t channels) {
    const bool pairs = n->type.dtype == TCC_BF16 && l->target->hw.fma_bf16_pairs > l->target->hw.fma_f32;
    const bool odd = channels > 1 && channels % 2;
    return odd && pairs && c->groups == 1 && !tcc_contract_stages_operands(l) ? channels + 1 : channels;
}

/* Positions along spatial dim `dim` of an operand: start + ..., with the coefficients set by the caller. */
static void add_window(tcc_contract_shape *s, const tcc_conv *c, int dim, int64_t start, const tcc_node *n) {
    s->c.windows[dim] = (tcc_contract_window){start, n->type.dims[c->first + dim]};
    s->c.n_windows = c->n_spatial;
}

/* Kernels of one element on dense pixels: rows of channels times a matrix. */
static bool is_matrices(const tcc_conv *c) {
    bool single = c->groups == 1 && c->attrs->channels_last;
    for (int i = 0; i < c->n_spatial; i++)
        single = single && c->w->type.dims[c->first + i] == 1 && c->attrs->stride.v[i] == 1 && !c->attrs->pad_lo.v[i] &&
                 !c->attrs->pad_hi.v[i];
    return single;
}

static bool is_padded(const tcc_conv *c) {
    return any(c->attrs->pad_lo.v, c->n_spatial) || any(c->attrs->pad_hi.v, c->n_spatial);
}

static tcc_status lower_conv_forward(tcc_lowering *l, const tcc_conv *c) {
    tcc_contract_shape s = {.matrices = is_matrices(c)};
    image x, w;
    bool windows = is_padded(c) && by_windows(l, c, c->x, c->ci, c->co);
    const int64_t ci = is_padded(c) && !windows ? summed_channels(l, c, c->x, c->ci) : c->ci;
    const int longer = ci > c->ci ? c->channel : -1;
    if (windows) TCC_TRY(image_operand(l, c, c->x, NULL, NULL, -1, &x));
    else TCC_TRY(image_operand(l, c, c->x, c->attrs->pad_lo.v, c->attrs->pad_hi.v, longer, &x));
    TCC_TRY(image_operand(l, c, c->w, NULL, NULL, longer, &w));
    result_dims r = add_result_dims(&s, c, &c->y->type, false, c->co);
    add(&s, B, c->groups, times(x.channel, c->ci), times(w.outer, c->co), at(r.group));
    add(&s, M, c->y->type.dims[0], x.outer, still, at(r.outer));
    for (int i = 0; i < c->n_spatial; i++) {
        add(&s, M, c->y->type.dims[c->first + i], times(x.spatial[i], c->attrs->stride.v[i]), still, at(r.spatial[i]));
        add(&s, K, c->w->type.dims[c->first + i], times(x.spatial[i], c->attrs->dilation.v[i]), w.spatial[i], summed);
        if (!windows) continue;
        add_window(&s, c, i, -c->attrs->pad_lo.v[i], c->x);
        s.c.m.d[s.c.m.n - 1].w[i] = c->attrs->stride.v[i];
        s.c.k.d[s.c.k.n - 1].w[i] = c->attrs->dilation.v[i];
        move(&x.at, x.spatial[i], -c->attrs->pad_lo.v[i]);
    }
    add(&s, N, c->co, still, w.outer, at(r.channel));
    add(&s, K, ci, x.channel, w.channel, summed);
    s.a = x.at, s.b = w.at;
    return tcc_contract_launch(l, &s);
}

static tcc_status lower_conv_grad_weight(tcc_lowering *l, const tcc_conv *c) {
    tcc_contract_shape s = {.matrices = is_matrices(c)};
    image x, dy;
    bool windows = is_padded(c) && by_windows(l, c, c->x, c->ci, c->ci * tcc_conv_taps(c)) &&
                   (tcc_contract_stages_operands(l) || c->ci % l->target->lanes == 0);
    s.c.window_b = windows;
    if (windows) TCC_TRY(image_operand(l, c, c->x, NULL, NULL, -1, &x));
    else TCC_TRY(image_operand(l, c, c->x, c->attrs->pad_lo.v, c->attrs->pad_hi.v, -1, &x));
    TCC_TRY(image_operand(l, c, c->y, NULL, NULL, -1, &dy));
    result_dims r = add_result_dims(&s, c, &c->w->type, true, c->co);
    add(&s, B, c->groups, times(dy.channel, c->co), times(x.channel, c->ci), at(r.group));
    add(&s, M, c->co, dy.channel, still, at(r.outer));
    add(&s, K, c->y->type.dims[0], dy.outer, x.outer, summed);
    for (int i = 0; i < c->n_spatial; i++) {
        add(&s, N, c->w->type.dims[c->first + i], still, times(x.spatial[i], c->attrs->dilation.v[i]),
            at(r.spatial[i]));
        add(&s, K, c->y->type.dims[c->first + i], dy.spatial[i], times(x.spatial[i], c->attrs->stride.v[i]), summed);
        if (!windows) continue;
        add_window(&s, c, i, -c->attrs->pad_lo.v[i], c->x);
        s.c.n.d[s.c.n.n - 1].w[i] = c->attrs->dilation.v[i];
        s.c.k.d[s.c.k.n - 1].w[i] = c->attrs->stride.v[i];
        move(&x.at, x.spatial[i], -c->attrs->pad_lo.v[i]);
    }
    add(&s, N, c->ci, still, x.channel, at(r.channel));
    s.a = dy.at, s.b = x.at;
    return tcc_contract_launch(l, &s);
}

/* Along one spatial dim, positions y = stride * i + class of dx. They meet kernel elements k = stride * j + first_tap,
 * at dy position i + origin - j (with stride 1: i + origin - dilation * j). */
typedef struct residue {
    int64_t count, first_tap, taps, origin;
} residue;

static residue residue_of(const tcc_conv *c, int dim, int64_t class) {
    int64_t stride = c->attrs->stride.v[dim], extent = c->x->type.dims[c->first + dim],
            kernel = c->w->type.dims[c->first + dim];
    int64_t shifted = class + c->attrs->pad_lo.v[dim];
    residue r = {.count = extent > class ? (extent - class + stride - 1) / stride : 0, .first_tap = shifted % stride};
    r.taps = kernel > r.first_tap ? (kernel - r.first_tap + stride - 1) / stride : 0;
    r.origin = (shifted - r.first_tap) / stride;
    return r;
}

static int64_t tap_step(const tcc_conv *c, int dim) {
    return c->attrs->stride.v[dim] == 1 ? c->attrs->dilation.v[dim] : 1;
}

static tcc_status lower_conv_grad_input(tcc_lowering *l, const tcc_conv *c) {
    int64_t lo[3] = {0}, hi[3] = {0}, classes = 1;
    for (int i = 0; i < c->n_spatial; i++) {
        if (c->attrs->stride.v[i] > 1 && c->attrs->dilation.v[i] > 1) return TCC_OK;
        classes *= c->attrs->stride.v[i];
        for (int64_t class = 0; class < c->attrs->stride.v[i]; class ++) {
            residue r = residue_of(c, i, class);
            if (!r.taps || !r.count) continue;
            int64_t least = r.origin - (r.taps - 1) * tap_step(c, i), most = r.count - 1 + r.origin;
            int64_t beyond = most - (c->y->type.dims[c->first + i] - 1);
            if (-least > lo[i]) lo[i] = -least;
            if (beyond > hi[i]) hi[i] = beyond;
        }
    }
    image dy, w;
    const bool padded = any(lo, c->n_spatial) || any(hi, c->n_spatial);
    const bool windows = padded && by_windows(l, c, c->y, c->co, c->ci);
    const int64_t co = padded && !windows ? summed_channels(l, c, c->y, c->co) : c->co;
    for (int i = 0; i < c->n_spatial && windows; i++) lo[i] = hi[i] = 0;
    TCC_TRY(image_operand(l, c, c->y, lo, hi, co > c->co ? c->channel : -1, &dy));
    TCC_TRY(image_operand(l, c, c->w, NULL, NULL, co > c->co ? 0 : -1, &w));
    for (int64_t class = 0; class < classes; class ++) {
        tcc_contract_shape s = {.a = dy.at, .b = w.at, .matrices = is_matrices(c)};
        result_dims r = add_result_dims(&s, c, &c->x->type, false, c->ci);
        add(&s, B, c->groups, times(dy.channel, c->co), times(w.outer, c->co), at(r.group));
        add(&s, M, c->x->type.dims[0], dy.outer, still, at(r.outer));
        bool empty = false;
        int64_t rest = class;
        for (int i = c->n_spatial - 1; i >= 0; i--) {
            int64_t stride = c->attrs->stride.v[i];
            residue of = residue_of(c, i, rest % stride);
            s.start[r.spatial[i]] = rest % stride;
            rest /= stride;
            empty = empty || !of.count;
            add(&s, M, of.count, dy.spatial[i], still, (tcc_contract_result){r.spatial[i], stride});
            add(&s, K, of.taps, times(dy.spatial[i], -tap_step(c, i)), times(w.spatial[i], stride), summed);
            if (windows) {
                add_window(&s, c, i, of.origin, c->y);
                s.c.m.d[s.c.m.n - 1].w[i] = 1;
                s.c.k.d[s.c.k.n - 1].w[i] = -tap_step(c, i);
            }
            move(&s.a, dy.spatial[i], of.origin + lo[i]);
            move(&s.b, w.spatial[i], of.first_tap);
        }
        add(&s, N, c->ci, still, w.channel, at(r.channel));
        add(&s, K, co, dy.channel, w.outer, summed);
        if (!empty) TCC_TRY(tcc_contract_launch(l, &s));
        if (!l->launches.count) return TCC_OK;
    }
    return TCC_OK;
}

static bool is_depthwise(const tcc_conv *c) { return c->groups > 1 && c->ci == 1 && c->co == 1; }

/* By the contraction schedule, or by a library's product of matrices. */
static tcc_status lower_conv(tcc_lowering *l) {
    const tcc_node *hero = l->group->hero;
    const tcc_conv c = tcc_conv_read(hero);
    if (is_depthwise(&c) || (l->library && !is_matrices(&c)))
        return TCC_OK; /* plain loops run vectors along channels */
    if (hero->op == TCC_OP_CONV) return lower_conv_forward(l, &c);
    return hero->op == TCC_OP_CONV_GRAD_INPUT ? lower_conv_grad_input(l, &c) : lower_conv_grad_weight(l, &c);
}

/* A type that the schedule multiplies. */
static bool is_multiplied(const tcc_lowering *l) {
    const tcc_dtype dtype = l->group->hero->type.dtype;
    return dtype == TCC_F32 || dtype == TCC_F16 || dtype == TCC_BF16 ||
           (dtype == TCC_F64 && tcc_contract_stages_operands(l));
}

tcc_conv tcc_conv_read(const tcc_node *hero) {
    const tcc_node *one = hero->operands[0], *two = hero->operands[1];
    tcc_conv c = {.attrs = &hero->attrs->conv, .n_spatial = hero->type.rank - 2};
    switch (hero->op) {
    case TCC_OP_CONV: c.x = one, c.w = two, c.y = hero; break;
    case TCC_OP_CONV_GRAD_INPUT: c.x = hero, c.w = two, c.y = one; break;
    default: c.x = one, c.w = hero, c.y = two; break;
    }
    c.first = c.attrs->channels_last ? 1 : 2;
    c.channel = c.attrs->channels_last ? hero->type.rank - 1 : 1;
    c.groups = c.attrs->groups;
    c.ci = c.x->type.dims[c.channel] / c.groups;
    c.co = c.y->type.dims[c.channel] / c.groups;
    return c;
}

tcc_status tcc_lower_contract(tcc_lowering *l) {
    if (!is_multiplied(l)) return TCC_OK;
    return l->group->hero->op == TCC_OP_DOT ? tcc_lower_dot(l) : lower_conv(l);
}

tcc_status tcc_lower_matmul_call(tcc_lowering *l) {
    l->library = true;
    return tcc_lower_contract(l);
}

tcc_status tcc_lower_conv_call(tcc_lowering *l) {
    if (!is_multiplied(l) || l->group->hero->op == TCC_OP_DOT) return TCC_OK;
    const tcc_conv c = tcc_conv_read(l->group->hero);
    return is_matrices(&c) ? TCC_OK : tcc_lower_conv_library(l, &c);
}

tcc_status tcc_lower_depthwise(tcc_lowering *l) {
    if (!is_multiplied(l) || l->group->hero->op == TCC_OP_DOT) return TCC_OK;
    const tcc_conv c = tcc_conv_read(l->group->hero);
    return is_depthwise(&c) ? tcc_lower_conv_depthwise(l, &c) : TCC_OK;
}
