/* SPDX-License-Identifier: MIT
 * Convolutions by cuDNN: the entries of a forward one and of its two gradients. */
#include "runtime/cuda/cudnn_conv.h"
#include "runtime/cuda/cudnn_conv_graph.h"
#include "runtime/cuda/cudnn_probe.h"

#include "ir/support/alloc.h"

#include <string.h>

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
    static const tcc_call calls[] = {TCC_CALL_CONV_FORWARD, TCC_CALL_CONV_DATA_GRADIENT, TCC_CALL_CONV_FILTER_GRADIENT};
    *out = NULL;
    const tcc_cudnn *cudnn;
    tcc_cudnn_conv_params p;
    memcpy(&p, params, sizeof p);
    TCC_TRY(tcc__cudnn_open(cuda, d, &cudnn));
    conv_call *c = tcc__calloc(1, sizeof *c);
    if (!c) return tcc_enomem(d);
    c->forward = kind == TCC_CUDNN_CONV_FORWARD;
    c->bias = p.conv.bias;
    tcc_status s = tcc_cudnn_conv_plan(cudnn, d, kind, &p, &c->graph);
    if (s == TCC_OK) *tcc_call_algorithm(calls[kind], params) = p.by; /* also where it is declined */
    if (s == TCC_OK && c->forward && p.conv.relu) s = check_relu(cuda, d, c->graph, &p);
    if (s != TCC_OK) {
        const tcc_conv_params *v = &p.conv;
        tcc_note(d, TCC_NOWHERE,
                 "for %s of %lld images of %lld x %lld x %lld with %lld channels, kernels of %lld x %lld x %lld to "
                 "%lld channels in %lld groups",
                 tcc_call_get_info(calls[kind])->name, (long long)v->batch, (long long)v->x_size[0],
                 (long long)v->x_size[1], (long long)v->x_size[2], (long long)v->in, (long long)v->kernel[0],
                 (long long)v->kernel[1], (long long)v->kernel[2], (long long)v->out, (long long)v->groups);
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

const tcc_cuda_entry tcc__cudnn_conv_forward = {TCC_CALL_CONV_FORWARD, create_forward, conv_destroy, conv_run};
const tcc_cuda_entry tcc__cudnn_conv_data_gradient = {TCC_CALL_CONV_DATA_GRADIENT, create_data_gradient, conv_destroy,
                                                      conv_run};
const tcc_cuda_entry tcc__cudnn_conv_filter_gradient = {TCC_CALL_CONV_FILTER_GRADIENT, create_filter_gradient,
                                                        conv_destroy, conv_run};
