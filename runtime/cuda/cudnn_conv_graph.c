/* SPDX-License-Identifier: MIT
 * A convolution as a graph of cuDNN's: one operation, and behind a forward one the bias and max(0, y) as operations on
 * values without memory. */
#include "runtime/cuda/cudnn_conv_graph.h"

enum { SPATIAL = 3, LEAST_SPATIAL = 2 /* that the library takes */ };

/* The dimensions that it is told: absent ones stand first and are left out as far as may be. */
static int spatial_of(const tcc_conv_params *c) {
    return c->x_size[0] == 1 && c->y_size[0] == 1 && c->kernel[0] == 1 && !c->pad_low[0] && !c->pad_high[0]
               ? LEAST_SPATIAL
               : SPATIAL;
}

typedef struct description {
    tcc_cudnn_graph *g;
    const tcc_cudnn_conv_params *p;
    int spatial;
    int64_t uid;
} description;

static tcc_status add_tensor(description *s, tcc_diag *d, int64_t outer, int64_t channels, const int64_t *sizes,
                             const int64_t *strides, bool is_virtual, void **out) {
    const int absent = SPATIAL - s->spatial;
    tcc_cudnn_tensor t = {.uid = ++s->uid,
                          .dtype = is_virtual ? TCC_F32 : (tcc_dtype)s->p->type,
                          .rank = 2 + s->spatial,
                          .dims = {outer, channels},
                          .strides = {strides[0], strides[1]},
                          .alignment = s->p->alignment,
                          .is_virtual = is_virtual};
    for (int i = 0; i < s->spatial; i++) {
        t.dims[2 + i] = sizes[absent + i];
        t.strides[2 + i] = strides[2 + absent + i];
    }
    return tcc_cudnn_graph_tensor(s->g, d, &t, out);
}

static tcc_status add_x(description *s, tcc_diag *d, void **out) {
    const tcc_conv_params *c = &s->p->conv;
    return add_tensor(s, d, c->batch, c->in, c->x_size, c->x_stride, false, out);
}

static tcc_status add_w(description *s, tcc_diag *d, void **out) {
    const tcc_conv_params *c = &s->p->conv;
    return add_tensor(s, d, c->out, c->in / c->groups, c->kernel, c->w_stride, false, out);
}

static tcc_status add_y(description *s, tcc_diag *d, bool is_virtual, void **out) {
    const tcc_conv_params *c = &s->p->conv;
    return add_tensor(s, d, c->batch, c->out, c->y_size, c->y_stride, is_virtual, out);
}

/* One number a channel. */
static tcc_status add_bias(description *s, tcc_diag *d, void **out) {
    const int64_t out_channels = s->p->conv.out, ones[SPATIAL] = {1, 1, 1};
    const int64_t strides[SPATIAL + 2] = {out_channels, 1, out_channels, out_channels, out_channels};
    return add_tensor(s, d, 1, out_channels, ones, strides, false, out);
}

static tcc_status add_convolution(description *s, tcc_diag *d, int type, int first_attribute, void *const tensors[3]) {
    const tcc_conv_params *c = &s->p->conv;
    const int absent = SPATIAL - s->spatial, compute = TCC_CUDNN_DATA_FLOAT, mode = TCC_CUDNN_CROSS_CORRELATION;
    const int64_t spatial = s->spatial;
    const float one = 1, zero = 0;
    const tcc_cudnn_attribute of_conv[] = {
        {TCC_CUDNN_CONVOLUTION_COMP_TYPE, TCC_CUDNN_TYPE_DATA_TYPE, 1, &compute},
        {TCC_CUDNN_CONVOLUTION_CONV_MODE, TCC_CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode},
        {TCC_CUDNN_CONVOLUTION_SPATIAL_DIMS, TCC_CUDNN_TYPE_INT64, 1, &spatial},
        {TCC_CUDNN_CONVOLUTION_DILATIONS, TCC_CUDNN_TYPE_INT64, spatial, c->dilation + absent},
        {TCC_CUDNN_CONVOLUTION_FILTER_STRIDES, TCC_CUDNN_TYPE_INT64, spatial, c->stride + absent},
        {TCC_CUDNN_CONVOLUTION_PRE_PADDINGS, TCC_CUDNN_TYPE_INT64, spatial, c->pad_low + absent},
        {TCC_CUDNN_CONVOLUTION_POST_PADDINGS, TCC_CUDNN_TYPE_INT64, spatial, c->pad_high + absent},
    };
    void *conv;
    TCC_TRY(
        tcc_cudnn_graph_descriptor(s->g, d, TCC_CUDNN_CONVOLUTION, of_conv, sizeof of_conv / sizeof *of_conv, &conv));
    const tcc_cudnn_attribute of_operation[] = {
        {first_attribute, TCC_CUDNN_TYPE_FLOAT, 1, &one},
        {first_attribute + 1, TCC_CUDNN_TYPE_FLOAT, 1, &zero},
        {first_attribute + 2, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &conv},
        {first_attribute + 3, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensors[0]},
        {first_attribute + 4, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensors[1]},
        {first_attribute + 5, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensors[2]},
    };
    return tcc_cudnn_graph_operation(s->g, d, type, of_operation, sizeof of_operation / sizeof *of_operation);
}

/* y = x + b, or of x alone. */
static tcc_status add_point(description *s, tcc_diag *d, int mode, void *x, void *b, void *y) {
    const int compute = TCC_CUDNN_DATA_FLOAT;
    const tcc_cudnn_attribute of_point[] = {
        {TCC_CUDNN_POINTWISE_MODE, TCC_CUDNN_TYPE_POINTWISE_MODE, 1, &mode},
        {TCC_CUDNN_POINTWISE_MATH_PREC, TCC_CUDNN_TYPE_DATA_TYPE, 1, &compute},
    };
    void *point;
    TCC_TRY(tcc_cudnn_graph_descriptor(s->g, d, TCC_CUDNN_POINTWISE, of_point, 2, &point));
    const tcc_cudnn_attribute of_operation[] = {
        {TCC_CUDNN_OPERATION_POINTWISE_PW_DESCRIPTOR, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &point},
        {TCC_CUDNN_OPERATION_POINTWISE_XDESC, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x},
        {TCC_CUDNN_OPERATION_POINTWISE_YDESC, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y},
        {TCC_CUDNN_OPERATION_POINTWISE_BDESC, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &b},
    };
    return tcc_cudnn_graph_operation(s->g, d, TCC_CUDNN_OPERATION_POINTWISE, of_operation, b ? 4 : 3);
}

static tcc_status describe_forward(description *s, tcc_diag *d) {
    const tcc_conv_params *c = &s->p->conv;
    void *x, *w, *bias = NULL, *y, *product, *sum;
    TCC_TRY(add_x(s, d, &x));
    TCC_TRY(add_w(s, d, &w));
    if (c->bias) TCC_TRY(add_bias(s, d, &bias));
    TCC_TRY(add_y(s, d, false, &y));
    product = sum = y;
    if (c->bias || c->relu) TCC_TRY(add_y(s, d, true, &product));
    if (c->bias && c->relu) TCC_TRY(add_y(s, d, true, &sum));
    TCC_TRY(add_convolution(s, d, TCC_CUDNN_OPERATION_CONVOLUTION_FORWARD, TCC_CUDNN_CONVOLUTION_FORWARD_ALPHA,
                            (void *[]){w, x, product}));
    if (c->bias) TCC_TRY(add_point(s, d, TCC_CUDNN_POINTWISE_ADD, product, bias, sum));
    if (c->relu) TCC_TRY(add_point(s, d, TCC_CUDNN_POINTWISE_RELU_FWD, c->bias ? sum : product, NULL, y));
    return TCC_OK;
}

static tcc_status describe_data_gradient(description *s, tcc_diag *d) {
    void *dy, *w, *dx;
    TCC_TRY(add_y(s, d, false, &dy));
    TCC_TRY(add_w(s, d, &w));
    TCC_TRY(add_x(s, d, &dx));
    return add_convolution(s, d, TCC_CUDNN_OPERATION_CONVOLUTION_BACKWARD_DATA, TCC_CUDNN_CONVOLUTION_BWD_DATA_ALPHA,
                           (void *[]){w, dx, dy});
}

static tcc_status describe_filter_gradient(description *s, tcc_diag *d) {
    void *x, *dy, *dw;
    TCC_TRY(add_x(s, d, &x));
    TCC_TRY(add_y(s, d, false, &dy));
    TCC_TRY(add_w(s, d, &dw));
    return add_convolution(s, d, TCC_CUDNN_OPERATION_CONVOLUTION_BACKWARD_FILTER,
                           TCC_CUDNN_CONVOLUTION_BWD_FILTER_ALPHA, (void *[]){dw, x, dy});
}

tcc_status tcc_cudnn_conv_describe(tcc_cudnn_graph *g, tcc_diag *d, tcc_cudnn_conv_kind kind,
                                   const tcc_cudnn_conv_params *p) {
    description s = {.g = g, .p = p, .spatial = spatial_of(&p->conv)};
    switch (kind) {
    case TCC_CUDNN_CONV_FORWARD: return describe_forward(&s, d);
    case TCC_CUDNN_CONV_DATA_GRADIENT: return describe_data_gradient(&s, d);
    default: return describe_filter_gradient(&s, d);
    }
}

/* Without tensor cores the good engines work channels first, and copy images that are channels last into the workspace.
 * Where that is not worth it (codegen gives less workspace then), what is left to the library is slower than a kernel
 * of ours. */
tcc_cudnn_limits tcc_cudnn_conv_limits(const tcc_cudnn_conv_params *p) {
    const bool tensor_cores = p->type != TCC_F32 || p->allow_tf32;
    return (tcc_cudnn_limits){
        .workspace_bytes = p->workspace_bytes, .tensor_cores = tensor_cores, .best_alone = !tensor_cores};
}

/* Writes down which engine it is. */
static tcc_status name_engine(const tcc_cudnn_graph *g, tcc_diag *d, tcc_algorithm_params *by) {
    int64_t engine, knobs;
    bool keeps_nan;
    TCC_TRY(tcc_cudnn_graph_engine(g, d, &engine, &keeps_nan));
    TCC_TRY(tcc_cudnn_graph_knobs(g, d, &knobs));
    *by = (tcc_algorithm_params){.algorithm = engine + 1, .option = knobs};
    return TCC_OK;
}

tcc_status tcc_cudnn_conv_plan(const tcc_cudnn *cudnn, tcc_diag *d, tcc_cudnn_conv_kind kind, tcc_cudnn_conv_params *p,
                               tcc_cudnn_graph **out) {
    const int64_t engine = p->by.algorithm - 1, knobs = p->by.option;
    const bool prescribed = p->by.algorithm, named = !prescribed && p->by.rank;
    tcc_cudnn_limits limits = tcc_cudnn_conv_limits(p);
    if (prescribed) limits.engine = &engine, limits.knobs = &knobs;
    if (named) limits.skip = (int)p->by.rank - 1;
    if (prescribed || named) limits.best_alone = false; /* it is measured whether that is worth it */
    TCC_TRY(tcc_cudnn_graph_create(cudnn, d, out));
    TCC_TRY(tcc_cudnn_conv_describe(*out, d, kind, p));
    TCC_TRY(tcc_cudnn_graph_finish(*out, d, &limits, &p->workspace_bytes));
    return named ? name_engine(*out, d, &p->by) : TCC_OK;
}
