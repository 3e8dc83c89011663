/* SPDX-License-Identifier: MIT
 * subpixel: makes the image of a strided convolution's gradient by all classes of positions at once, where it has few
 * channels.
 *
 * The gradient of a convolution by its image is also a transposed convolution: the image that a decoder makes. With
 * stride s, positions of each class modulo s meet other elements of the kernel. As one product a class, a register
 * holds the channels of one position, and images have three. So classes become channels: a convolution of stride 1
 * makes C s s of them, and a pixel shuffle puts them where they belong (Shi et al. 2016, "Is the deconvolution layer
 * the same as a convolutional layer?"). Classes have equally many taps then: the kernel is filled up with zeros. With
 * three channels, a kernel of 7 x 7 and stride 2, that is 16 vectors of products for 49. */
#include "ir/build.h"
#include "passes/pass.h"
#include "passes/select.h"

enum { LEAST_GAIN_PERCENT = 150, MOST_SPATIAL = 3 };

/* Along one spatial dim: position s i + c of the image meets tap s (i + shift - p) + c of the padded kernel at position
 * p of the result's gradient. */
typedef struct line {
    int64_t stride, taps, lo, hi;  /* of the kernel: zeros before it and behind it */
    int64_t count, pad_lo, pad_hi; /* positions of a class; padding of the gradient */
} line;

typedef struct shuffle {
    int spatial;
    int64_t images, outputs, channels, classes;
    line lines[MOST_SPATIAL];
} shuffle;

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static bool line_of(const tcc_attrs_conv *a, int i, int64_t kernel, int64_t extent, int64_t given, line *l) {
    l->stride = a->stride.v[i];
    const int64_t shift = divide_up(a->pad_lo.v[i], l->stride);
    l->lo = shift * l->stride - a->pad_lo.v[i];
    l->taps = divide_up(kernel + l->lo, l->stride);
    l->hi = l->taps * l->stride - kernel - l->lo;
    l->count = divide_up(extent, l->stride);
    l->pad_lo = l->taps - 1 - shift;
    l->pad_hi = l->count - given - l->pad_lo + l->taps - 1;
    return l->pad_lo >= 0 && l->pad_hi >= 0 && a->dilation.v[i] == 1;
}

/* False: `n` is no such gradient, or one that gains nothing. */
static bool describe(const tcc_node *n, int lanes, shuffle *s) {
    const tcc_attrs_conv *a = &n->attrs->conv;
    if (n->op != TCC_OP_CONV_GRAD_INPUT || a->groups != 1 || a->channels_last || n->type.rank - 2 > MOST_SPATIAL)
        return false;
    const int64_t *dy = n->operands[0]->type.dims, *w = n->operands[1]->type.dims;
    *s = (shuffle){n->type.rank - 2, n->type.dims[0], w[0], n->type.dims[1], 1, {{0}}};
    int64_t before = divide_up(s->channels, lanes), after = 1;
    for (int i = 0; i < s->spatial; i++) {
        if (!line_of(a, i, w[2 + i], n->type.dims[2 + i], dy[2 + i], &s->lines[i])) return false;
        s->classes *= s->lines[i].stride;
        before *= w[2 + i];
        after *= s->lines[i].taps;
    }
    after *= divide_up(s->channels * s->classes, lanes);
    return s->classes > 1 && before * 100 >= after * LEAST_GAIN_PERCENT;
}

/* [O, C, kernel] as [C classes, O, taps], back to front. */
static tcc_node *kernel_of(tcc_graph *g, const shuffle *s, tcc_node *w) {
    const int n = s->spatial;
    const int64_t none[TCC_MAX_RANK] = {0};
    int64_t lo[TCC_MAX_RANK] = {0}, hi[TCC_MAX_RANK] = {0}, split[TCC_MAX_RANK] = {s->outputs, s->channels},
            dims[TCC_MAX_RANK] = {s->channels * s->classes, s->outputs};
    int perm[TCC_MAX_RANK] = {1};
    tcc_attrs back = {.axes.axes.count = n};
    perm[1 + n] = 0;
    for (int i = 0; i < n; i++) {
        const line *l = &s->lines[i];
        const int tap = 2 + 2 * i, class = tap + 1;
        lo[2 + i] = l->lo, hi[2 + i] = l->hi;
        split[tap] = dims[2 + i] = l->taps;
        split[class] = l->stride;
        perm[1 + i] = class;
        perm[2 + n + i] = tap;
        back.axes.axes.v[i] = 2 + i;
    }
    w = tcc_ir_reshape(g, tcc_ir_pad(g, w, 0, lo, hi, none), 2 + 2 * n, split);
    w = tcc_ir_reshape(g, tcc_ir_transpose(g, w, perm), 2 + n, dims);
    return w ? tcc_ir_build(g, TCC_OP_FLIP, &w, 1, &back, NULL, TCC_NOWHERE) : NULL;
}

/* [N, C classes, positions] as [N, C, spatial]. */
static tcc_node *image_of(tcc_graph *g, const shuffle *s, const tcc_node *like, tcc_node *y) {
    const int n = s->spatial;
    int64_t split[TCC_MAX_RANK] = {s->images, s->channels}, dims[TCC_MAX_RANK] = {s->images, s->channels},
            start[TCC_MAX_RANK] = {0}, step[TCC_MAX_RANK] = {1, 1};
    int perm[TCC_MAX_RANK] = {0, 1};
    for (int i = 0; i < n; i++) {
        split[2 + i] = s->lines[i].stride;
        split[2 + n + i] = s->lines[i].count;
        perm[2 + 2 * i] = 2 + n + i;
        perm[3 + 2 * i] = 2 + i;
        dims[2 + i] = s->lines[i].stride * s->lines[i].count;
        step[2 + i] = 1;
    }
    y = tcc_ir_transpose(g, tcc_ir_reshape(g, y, 2 + 2 * n, split), perm);
    return tcc_ir_slice(g, tcc_ir_reshape(g, y, 2 + n, dims), start, like->type.dims, step);
}

static tcc_node *shuffled(tcc_graph *g, const shuffle *s, const tcc_node *old, tcc_node *dy, tcc_node *w) {
    tcc_attrs attrs = {.conv.groups = 1};
    tcc_dims *lists[] = {&attrs.conv.stride, &attrs.conv.pad_lo, &attrs.conv.pad_hi, &attrs.conv.dilation};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) lists[i]->count = s->spatial;
    for (int i = 0; i < s->spatial; i++) {
        attrs.conv.stride.v[i] = attrs.conv.dilation.v[i] = 1;
        attrs.conv.pad_lo.v[i] = s->lines[i].pad_lo;
        attrs.conv.pad_hi.v[i] = s->lines[i].pad_hi;
    }
    tcc_node *operands[] = {dy, kernel_of(g, s, w)};
    if (!operands[0] || !operands[1]) return NULL;
    return image_of(g, s, old, tcc_ir_build(g, TCC_OP_CONV, operands, 2, &attrs, NULL, old->loc));
}

tcc_status tcc_pass_subpixel(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    const tcc_pass_target *target = cx->options->target;
    tcc_rewrite rw;
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    for (int id = 0; id < in->nodes.count; id++) {
        const tcc_node *n = in->nodes.data[id];
        shuffle s;
        if (!rw.live[id]) continue;
        if (target && target->lanes && describe(n, target->lanes, &s)) {
            tcc_ir_set_origin(rw.to, n);
            rw.map[id] = shuffled(rw.to, &s, n, rw.map[n->operands[0]->id], rw.map[n->operands[1]->id]);
        } else tcc_rewrite_copy(&rw, n);
    }
    return tcc_rewrite_end(&rw, out);
}
