/* SPDX-License-Identifier: MIT
 * Convolutions: what is asked of their attributes, and what they compute. */
#include "sim.h"

#include <stdlib.h>

enum { SPATIAL = 3, CROSS_CORRELATION = 1 };

static int finalize_convolution(descriptor *d) {
    int64_t spatial = sim_int64(d, 106), n;
    if (sim_int(d, 100) != FLOAT32) return sim_wrong("a convolution that is computed in data type %d", sim_int(d, 100));
    if (sim_int(d, 101) != CROSS_CORRELATION) return sim_wrong("a convolution whose kernel is flipped");
    for (int name = 102; name <= 105; name++) {
        const int64_t *at = sim_get(d, name, &n);
        if (n != spatial)
            return sim_wrong("attribute %d of a convolution with %lld of %lld dimensions", name, (long long)n,
                             (long long)spatial);
        for (int i = 0; i < n; i++)
            if (at[i] < (name <= 103)) return sim_wrong("attribute %d of a convolution: %lld", name, (long long)at[i]);
    }
    return SUCCESS;
}

const kind sim_convolution = {
    .type = CONVOLUTION,
    .name = "convolution",
    .finalize = finalize_convolution,
    .rules = {ONE(100, DATA_TYPE), ONE(101, CONVOLUTION_MODE), SOME(102, INT64S, 2, 3), SOME(103, INT64S, 2, 3),
              SOME(104, INT64S, 2, 3), SOME(105, INT64S, 2, 3), ONE(106, INT64S)},
};

/* Sizes and steps by three spatial dimensions, of which the first may be absent. */
typedef struct shape {
    int64_t batch, in, out, groups, x[SPATIAL], w[SPATIAL], y[SPATIAL], dilation[SPATIAL], stride[SPATIAL],
        post[SPATIAL], pre[SPATIAL];
} shape;

static int read_shape(shape *s, const descriptor *conv, const value *x, const value *w, const value *y) {
    const int spatial = (int)sim_int64(conv, 106), absent = SPATIAL - spatial;
    if (x->rank != spatial + 2 || w->rank != spatial + 2 || y->rank != spatial + 2)
        return sim_wrong("tensors of %d, %d, %d dimensions", x->rank, w->rank, y->rank);
    *s = (shape){.batch = x->dims[0],
                 .in = x->dims[1],
                 .out = w->dims[0],
                 .x = {1},
                 .w = {1},
                 .y = {1},
                 .dilation = {1},
                 .stride = {1}};
    if (s->in % w->dims[1] || y->dims[0] != s->batch || y->dims[1] != s->out)
        return sim_wrong("images and channels of tensors differ");
    s->groups = s->in / w->dims[1];
    if (s->out % s->groups) return sim_wrong("%lld channels in %lld groups", (long long)s->out, (long long)s->groups);
    int64_t *const lists[] = {s->dilation, s->stride, s->post, s->pre};
    for (int i = 0; i < spatial; i++) {
        for (int k = 0; k < 4; k++) lists[k][absent + i] = ((const int64_t *)sim_get(conv, 102 + k, NULL))[i];
        s->x[absent + i] = x->dims[2 + i], s->w[absent + i] = w->dims[2 + i], s->y[absent + i] = y->dims[2 + i];
    }
    for (int i = 0; i < SPATIAL; i++) {
        int64_t room = s->x[i] + s->pre[i] + s->post[i] - (s->w[i] - 1) * s->dilation[i] - 1;
        if (room < 0 || s->y[i] != room / s->stride[i] + 1)
            return sim_wrong("a convolution of %lld by %lld to %lld", (long long)s->x[i], (long long)s->w[i],
                             (long long)s->y[i]);
    }
    return SUCCESS;
}

/* `first`: alpha; then beta, the convolution, and the three tensors with x, w and y at these places. */
static int finalize_operation(const descriptor *d, int first, int x, int w, int y) {
    value vx = sim_value_of(sim_reference(d, first + x)), vw = sim_value_of(sim_reference(d, first + w)),
          vy = sim_value_of(sim_reference(d, first + y));
    shape s;
    if (sim_float(d, first) != 1 || sim_float(d, first + 1) != 0)
        return sim_wrong("a convolution that is scaled or added to");
    const bool virtual_y = sim_flag(vy.tensor, 907);
    if (vx.type != vw.type || (virtual_y ? vy.type != FLOAT32 : vy.type != vx.type))
        return sim_wrong("a convolution of data types %d, %d, %d", vx.type, vw.type, vy.type);
    if (vx.type != FLOAT32 && vx.type != FLOAT16 && vx.type != BFLOAT16)
        return sim_wrong("a convolution of data type %d", vx.type);
    return read_shape(&s, sim_reference(d, first + 2), &vx, &vw, &vy);
}

static int finalize_forward(descriptor *d) { return finalize_operation(d, 700, 4, 3, 5); }
static int finalize_data(descriptor *d) { return finalize_operation(d, 706, 4, 3, 5); }
static int finalize_filter(descriptor *d) { return finalize_operation(d, 712, 4, 3, 5); }

/* Pixels of y and of x that meet at a tap of w. */
typedef struct meeting {
    int64_t y, x;
} meeting;

/* All of a tap; their number. */
static int64_t meet(const shape *s, int64_t tap, meeting *out) {
    const int64_t at_w[SPATIAL] = {tap / (s->w[1] * s->w[2]), tap / s->w[2] % s->w[1], tap % s->w[2]};
    const int64_t pixels_y = s->y[0] * s->y[1] * s->y[2];
    int64_t count = 0;
    for (int64_t p = 0; p < pixels_y; p++) {
        const int64_t at_y[SPATIAL] = {p / (s->y[1] * s->y[2]), p / s->y[2] % s->y[1], p % s->y[2]};
        int64_t pixel = 0;
        bool inside = true;
        for (int i = 0; i < SPATIAL; i++) {
            int64_t at = at_y[i] * s->stride[i] - s->pre[i] + at_w[i] * s->dilation[i];
            inside = inside && at >= 0 && at < s->x[i];
            pixel = pixel * s->x[i] + at;
        }
        if (inside) out[count++] = (meeting){p, pixel};
    }
    return count;
}

/* Every product of the convolution at a tap: one of x, w and y gets the sum of products of the others. */
static void convolve_tap(const shape *s, int64_t tap, const meeting *meetings, int64_t count, double *x, double *w,
                         double *y, int result) {
    const int64_t in = s->in / s->groups, out = s->out / s->groups, taps = s->w[0] * s->w[1] * s->w[2];
    const int64_t pixels_x = s->x[0] * s->x[1] * s->x[2], pixels_y = s->y[0] * s->y[1] * s->y[2];
    for (int64_t n = 0; n < s->batch; n++)
        for (int64_t k = 0; k < s->out; k++)
            for (int64_t c = 0; c < in; c++) {
                double *from_x = &x[(n * s->in + k / out * in + c) * pixels_x],
                       *from_y = &y[(n * s->out + k) * pixels_y], *at = &w[(k * in + c) * taps + tap], weight = *at;
                if (result == 'y') {
                    for (int64_t i = 0; i < count; i++) from_y[meetings[i].y] += from_x[meetings[i].x] * weight;
                } else if (result == 'x') {
                    for (int64_t i = 0; i < count; i++) from_x[meetings[i].x] += from_y[meetings[i].y] * weight;
                } else {
                    for (int64_t i = 0; i < count; i++) weight += from_x[meetings[i].x] * from_y[meetings[i].y];
                    *at = weight;
                }
            }
}

static int convolve(const shape *s, double *x, double *w, double *y, int result) {
    meeting *meetings = malloc(sizeof *meetings * (size_t)(s->y[0] * s->y[1] * s->y[2]));
    if (!meetings) return HOST_ALLOCATION_FAILED;
    for (int64_t tap = 0; tap < s->w[0] * s->w[1] * s->w[2]; tap++)
        convolve_tap(s, tap, meetings, meet(s, tap, meetings), x, w, y, result);
    free(meetings);
    return SUCCESS;
}

static int evaluate_forward(const descriptor *d, value *const *reads, value *const *writes) {
    shape s;
    int status = read_shape(&s, sim_reference(d, 702), reads[1], reads[0], writes[0]);
    return status ? status : convolve(&s, reads[1]->data, reads[0]->data, writes[0]->data, 'y');
}

static int evaluate_data(const descriptor *d, value *const *reads, value *const *writes) {
    shape s;
    int status = read_shape(&s, sim_reference(d, 708), writes[0], reads[0], reads[1]);
    return status ? status : convolve(&s, writes[0]->data, reads[0]->data, reads[1]->data, 'x');
}

static int evaluate_filter(const descriptor *d, value *const *reads, value *const *writes) {
    shape s;
    int status = read_shape(&s, sim_reference(d, 714), reads[0], writes[0], reads[1]);
    return status ? status : convolve(&s, reads[0]->data, writes[0]->data, reads[1]->data, 'w');
}

#define CONV_RULES(first)                                                                \
    ONE((first), FLOATS), ONE((first) + 1, FLOATS), REFERENCE((first) + 2, CONVOLUTION), \
        REFERENCE((first) + 3, TENSOR), REFERENCE((first) + 4, TENSOR), REFERENCE((first) + 5, TENSOR)
const kind sim_conv_forward = {.type = CONV_FORWARD,
                               .name = "convolution forward",
                               .finalize = finalize_forward,
                               .evaluate = evaluate_forward,
                               .rules = {CONV_RULES(700)},
                               .reads = {703, 704},
                               .writes = {705}};
const kind sim_conv_data = {.type = CONV_DATA,
                            .name = "convolution data gradient",
                            .finalize = finalize_data,
                            .evaluate = evaluate_data,
                            .rules = {CONV_RULES(706)},
                            .reads = {709, 711},
                            .writes = {710}};
const kind sim_conv_filter = {.type = CONV_FILTER,
                              .name = "convolution filter gradient",
                              .finalize = finalize_filter,
                              .evaluate = evaluate_filter,
                              .rules = {CONV_RULES(712)},
                              .reads = {716, 717},
                              .writes = {715}};
