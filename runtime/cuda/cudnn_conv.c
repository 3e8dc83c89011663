/* SPDX-License-Identifier: MIT
 * Convolutions by cuDNN: one operation, and behind a forward one the bias and max(0, y) as operations on values without
 * memory. */
#include "runtime/cuda/cudnn_conv.h"
#include "runtime/cuda/cudnn_probe.h"

#include "ir/support/alloc.h"

#include <string.h>

enum { SPATIAL = 3, LEAST_SPATIAL = 2 /* that the library takes */ };

/* The dimensions that it is told: absent ones stand first and are left out as far as may be. */
static int spatial_of(const tcc_conv_params *c) {
    return c->x_size[0] == 1 && c->y_size[0] == 1 && c->kernel[0] == 1 && !c->pad_low[0] && !c->pad_high[0]
               ? LEAST_SPATIAL
               : SPATIAL;
}

/* --- params --- */

static bool is_known(int64_t dtype) { return dtype == TCC_F32 || dtype == TCC_F16 || dtype == TCC_BF16; }

static bool well_formed(const tcc_cudnn_conv_params *p) {
    const tcc_conv_params *c = &p->conv;
    if (c->batch < 1 || c->groups < 1 || c->in < 1 || c->out < 1 || c->in % c->groups || c->out % c->groups)
        return false;
    for (int i = 0; i < SPATIAL; i++) {
        if (c->x_size[i] < 1 || c->kernel[i] < 1 || c->stride[i] < 1 || c->dilation[i] < 1 || c->pad_low[i] < 0 ||
            c->pad_high[i] < 0)
            return false;
        const int64_t room = c->x_size[i] + c->pad_low[i] + c->pad_high[i] - (c->kernel[i] - 1) * c->dilation[i] - 1;
        if (room < 0 || c->y_size[i] != room / c->stride[i] + 1) return false;
    }
    for (int i = 0; i < SPATIAL + 2; i++)
        if (c->x_stride[i] < 1 || c->y_stride[i] < 1 || c->w_stride[i] < 1) return false;
    return is_known(p->type) && p->alignment >= tcc_dtype_bytes((tcc_dtype)p->type) &&
           !(p->alignment & (p->alignment - 1)) && p->workspace_bytes >= 0;
}

/* --- the graph --- */

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

/* --- the entries --- */

typedef struct conv_call {
    tcc_cudnn_graph *graph;
    bool forward, bias;
} conv_call;

static void conv_destroy(void *call) {
    conv_call *c = call;
    if (!c) return;
    tcc_cudnn_graph_destroy(c->graph);
    tcc__free(c);
}

static tcc_status make(const tcc_cudnn *cudnn, tcc_diag *d, tcc_cudnn_conv_kind kind, tcc_cudnn_conv_params *p,
                       conv_call *c) {
    const tcc_cudnn_limits limits = tcc_cudnn_conv_limits(p);
    TCC_TRY(tcc_cudnn_graph_create(cudnn, d, &c->graph));
    TCC_TRY(tcc_cudnn_conv_describe(c->graph, d, kind, p));
    return tcc_cudnn_graph_finish(c->graph, d, &limits, &p->workspace_bytes);
}

/* Does the engine's max(0, x) keep NaN? Its notes may promise it; else the first convolution of its kind that wants it
 * finds out. */
static tcc_status check_relu(tcc_device_cuda *cuda, tcc_diag *d, const tcc_cudnn_graph *g,
                             const tcc_cudnn_conv_params *p) {
    tcc_cudnn *cudnn = cuda->cudnn;
    const bool tf32 = p->allow_tf32 && p->type == TCC_F32;
    int64_t engine;
    bool keeps_nan;
    TCC_TRY(tcc_cudnn_graph_engine(g, d, &engine, &keeps_nan));
    if (keeps_nan) return TCC_OK;
    if (p->conv.groups > 1)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE,
                         "cudnn: nothing says that max(0, x) of a convolution in groups keeps NaN");
    int i = 0;
    while (i < cudnn->n_verdicts && (cudnn->verdicts[i].engine != engine || cudnn->verdicts[i].type != p->type ||
                                     cudnn->verdicts[i].allow_tf32 != tf32 || cudnn->verdicts[i].bias != p->conv.bias))
        i++;
    if (i == TCC_CUDNN_MOST_VERDICTS)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "cudnn: more than %d kinds of max(0, x)", i);
    if (i == cudnn->n_verdicts) {
        tcc_cudnn_verdict v = {engine, p->type, tf32, p->conv.bias, NULL};
        TCC_TRY(tcc__cudnn_probe_relu(cuda, cudnn, d, p, engine, &v.differs));
        cudnn->verdicts[cudnn->n_verdicts++] = v;
    }
    const char *differs = cudnn->verdicts[i].differs;
    return differs ? tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "cudnn: engine %lld: %s", (long long)engine, differs)
                   : TCC_OK;
}

static tcc_status create(tcc_device_cuda *cuda, tcc_diag *d, tcc_cudnn_conv_kind kind, int64_t *params, void **out) {
    static const char *const names[] = {"cudnn.conv_forward", "cudnn.conv_data_gradient", "cudnn.conv_filter_gradient"};
    *out = NULL;
    const tcc_cudnn *cudnn;
    tcc_cudnn_conv_params p;
    memcpy(&p, params, sizeof p);
    if (!well_formed(&p)) return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "%s: malformed params", names[kind]);
    TCC_TRY(tcc__cudnn_open(cuda, d, &cudnn));
    conv_call *c = tcc__calloc(1, sizeof *c);
    if (!c) return tcc_enomem(d);
    c->forward = kind == TCC_CUDNN_CONV_FORWARD;
    c->bias = p.conv.bias;
    tcc_status s = make(cudnn, d, kind, &p, c);
    if (s == TCC_OK && c->forward && p.conv.relu) s = check_relu(cuda, d, c->graph, &p);
    if (s != TCC_OK) {
        const tcc_conv_params *v = &p.conv;
        tcc_note(d, TCC_NOWHERE,
                 "for %s of %lld images of %lld x %lld x %lld with %lld channels, kernels of %lld x %lld x %lld to "
                 "%lld channels in %lld groups",
                 names[kind], (long long)v->batch, (long long)v->x_size[0], (long long)v->x_size[1],
                 (long long)v->x_size[2], (long long)v->in, (long long)v->kernel[0], (long long)v->kernel[1],
                 (long long)v->kernel[2], (long long)v->out, (long long)v->groups);
        conv_destroy(c);
        return s;
    }
    memcpy(params, &p, sizeof p);
    *out = c;
    return TCC_OK;
}

static tcc_status create_forward(tcc_device_cuda *cuda, tcc_diag *d, int64_t *params, void **out) {
    return create(cuda, d, TCC_CUDNN_CONV_FORWARD, params, out);
}
static tcc_status create_data_gradient(tcc_device_cuda *cuda, tcc_diag *d, int64_t *params, void **out) {
    return create(cuda, d, TCC_CUDNN_CONV_DATA_GRADIENT, params, out);
}
static tcc_status create_filter_gradient(tcc_device_cuda *cuda, tcc_diag *d, int64_t *params, void **out) {
    return create(cuda, d, TCC_CUDNN_CONV_FILTER_GRADIENT, params, out);
}

static tcc_status conv_run(void *call, tcc_diag *d, const tcc_cuda_address *buffers) {
    enum { X, W, BIAS, Y, WORKSPACE };
    const conv_call *c = call;
    if (!c->forward) return tcc_cudnn_graph_run(c->graph, d, buffers, buffers[3]);
    const tcc_cuda_address with[] = {buffers[X], buffers[W], buffers[BIAS], buffers[Y]},
                           without[] = {buffers[X], buffers[W], buffers[Y]};
    return tcc_cudnn_graph_run(c->graph, d, c->bias ? with : without, buffers[WORKSPACE]);
}

const tcc_cuda_entry tcc__cudnn_conv_forward = {"cudnn.conv_forward", TCC_CUDNN_CONV_PARAMS, 5,
                                                create_forward,       conv_destroy,          conv_run};
const tcc_cuda_entry tcc__cudnn_conv_data_gradient = {"cudnn.conv_data_gradient", TCC_CUDNN_CONV_PARAMS, 4,
                                                      create_data_gradient,       conv_destroy,          conv_run};
const tcc_cuda_entry tcc__cudnn_conv_filter_gradient = {"cudnn.conv_filter_gradient", TCC_CUDNN_CONV_PARAMS, 4,
                                                        create_filter_gradient,       conv_destroy,          conv_run};
