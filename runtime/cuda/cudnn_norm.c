/* SPDX-License-Identifier: MIT
 * Batch norm by cuDNN: one operation. Rows are told as images of one pixel, channels last; running statistics are not
 * the library's. */
#include "runtime/cuda/cudnn_norm.h"

#include "ir/support/alloc.h"

#include <string.h>

enum {
    RANK = 4,
    ALIGNMENT = 16 /* of what codegen passes */,
    MOST_ATTRIBUTES = 10,
    MOST_ELEMENTS = INT32_MAX /* counted in 32 bits by the library */
};

/* --- the graph --- */

/* What is described; after a failure, nothing more happens. */
typedef struct description {
    tcc_cudnn_graph *g;
    const tcc_norm_params *p;
    int64_t uid;
    int n;
    tcc_cudnn_attribute attributes[MOST_ATTRIBUTES];
    void *tensors[MOST_ATTRIBUTES]; /* that attributes point to */
} description;

static tcc_status add(description *s, tcc_diag *d, int name, tcc_cudnn_tensor t) {
    t.uid = ++s->uid;
    t.rank = RANK;
    t.alignment = t.value ? tcc_dtype_bytes(t.dtype) : ALIGNMENT;
    void **at = &s->tensors[s->n];
    TCC_TRY(tcc_cudnn_graph_tensor(s->g, d, &t, at));
    s->attributes[s->n++] = (tcc_cudnn_attribute){name, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, at};
    return TCC_OK;
}

static tcc_status add_rows(description *s, tcc_diag *d, int name) {
    const int64_t rows = s->p->rows, c = s->p->channels;
    return add(s, d, name,
               (tcc_cudnn_tensor){.dtype = (tcc_dtype)s->p->type, .dims = {rows, c, 1, 1}, .strides = {c, 1, c, c}});
}

static tcc_status add_channels(description *s, tcc_diag *d, int name) {
    const int64_t c = s->p->channels;
    return add(s, d, name, (tcc_cudnn_tensor){.dtype = TCC_F32, .dims = {1, c, 1, 1}, .strides = {c, 1, c, c}});
}

static void set_mode(description *s, int name, int type, const int *value) {
    s->attributes[s->n++] = (tcc_cudnn_attribute){name, type, 1, value};
}

static tcc_status describe_forward(description *s, tcc_diag *d) {
    static const int mode = TCC_CUDNN_BATCH_NORM, phase = TCC_CUDNN_NORM_FWD_TRAINING;
    const int32_t eps = (int32_t)s->p->eps_bits;
    set_mode(s, TCC_CUDNN_OPERATION_NORM_FWD_MODE, TCC_CUDNN_TYPE_NORM_MODE, &mode);
    set_mode(s, TCC_CUDNN_OPERATION_NORM_FWD_PHASE, TCC_CUDNN_TYPE_NORM_FWD_PHASE, &phase);
    TCC_TRY(add_rows(s, d, TCC_CUDNN_OPERATION_NORM_FWD_XDESC));
    TCC_TRY(add_channels(s, d, TCC_CUDNN_OPERATION_NORM_FWD_SCALE_DESC));
    TCC_TRY(add_channels(s, d, TCC_CUDNN_OPERATION_NORM_FWD_BIAS_DESC));
    TCC_TRY(add_rows(s, d, TCC_CUDNN_OPERATION_NORM_FWD_YDESC));
    TCC_TRY(add_channels(s, d, TCC_CUDNN_OPERATION_NORM_FWD_MEAN_DESC));
    TCC_TRY(add_channels(s, d, TCC_CUDNN_OPERATION_NORM_FWD_INV_VARIANCE_DESC)); /* of the standard deviation */
    TCC_TRY(add(s, d, TCC_CUDNN_OPERATION_NORM_FWD_EPSILON_DESC,
                (tcc_cudnn_tensor){.dtype = TCC_F32, .dims = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}, .value = &eps}));
    return tcc_cudnn_graph_operation(s->g, d, TCC_CUDNN_OPERATION_NORM_FORWARD, s->attributes, s->n);
}

static tcc_status describe_backward(description *s, tcc_diag *d) {
    static const int mode = TCC_CUDNN_BATCH_NORM;
    set_mode(s, TCC_CUDNN_OPERATION_NORM_BWD_MODE, TCC_CUDNN_TYPE_NORM_MODE, &mode);
    TCC_TRY(add_rows(s, d, TCC_CUDNN_OPERATION_NORM_BWD_DYDESC));
    TCC_TRY(add_rows(s, d, TCC_CUDNN_OPERATION_NORM_BWD_XDESC));
    TCC_TRY(add_channels(s, d, TCC_CUDNN_OPERATION_NORM_BWD_MEAN_DESC));
    TCC_TRY(add_channels(s, d, TCC_CUDNN_OPERATION_NORM_BWD_INV_VARIANCE_DESC));
    TCC_TRY(add_channels(s, d, TCC_CUDNN_OPERATION_NORM_BWD_SCALE_DESC));
    TCC_TRY(add_rows(s, d, TCC_CUDNN_OPERATION_NORM_BWD_DXDESC));
    TCC_TRY(add_channels(s, d, TCC_CUDNN_OPERATION_NORM_BWD_DSCALE_DESC));
    TCC_TRY(add_channels(s, d, TCC_CUDNN_OPERATION_NORM_BWD_DBIAS_DESC));
    return tcc_cudnn_graph_operation(s->g, d, TCC_CUDNN_OPERATION_NORM_BACKWARD, s->attributes, s->n);
}

tcc_status tcc_cudnn_norm_describe(tcc_cudnn_graph *g, tcc_diag *d, bool backward, const tcc_norm_params *p) {
    description s = {.g = g, .p = p};
    if (p->rows * p->channels > MOST_ELEMENTS)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "%lld elements are more than cudnn counts",
                         (long long)(p->rows * p->channels));
    return backward ? describe_backward(&s, d) : describe_forward(&s, d);
}

/* --- the entries --- */

static void norm_destroy(void *call) { tcc_cudnn_graph_destroy(call); }

static tcc_status make(const tcc_cudnn *cudnn, tcc_diag *d, bool backward, tcc_norm_params *p, tcc_cudnn_graph **g) {
    const tcc_cudnn_limits limits = {.workspace_bytes = p->workspace_bytes};
    TCC_TRY(tcc_cudnn_graph_create(cudnn, d, g));
    TCC_TRY(tcc_cudnn_norm_describe(*g, d, backward, p));
    return tcc_cudnn_graph_finish(*g, d, &limits, &p->workspace_bytes);
}

static tcc_status create(tcc_device_cuda *cuda, tcc_diag *d, bool backward, int64_t *params, void **out) {
    const char *name = tcc_call_get_info(backward ? TCC_CALL_NORM_BACKWARD : TCC_CALL_NORM_FORWARD)->name;
    *out = NULL;
    const tcc_cudnn *cudnn;
    tcc_norm_params p;
    tcc_cudnn_graph *g = NULL;
    memcpy(&p, params, sizeof p);
    TCC_TRY(tcc__cudnn_open(cuda, d, &cudnn));
    tcc_status s = make(cudnn, d, backward, &p, &g);
    if (s != TCC_OK) {
        tcc_note(d, TCC_NOWHERE, "for %s of %lld rows of %lld channels", name, (long long)p.rows,
                 (long long)p.channels);
        tcc_cudnn_graph_destroy(g);
        return s;
    }
    memcpy(params, &p, sizeof p);
    *out = g;
    return TCC_OK;
}

static tcc_status create_forward(tcc_device_cuda *cuda, tcc_diag *d, int64_t *params, void **out) {
    return create(cuda, d, false, params, out);
}
static tcc_status create_backward(tcc_device_cuda *cuda, tcc_diag *d, int64_t *params, void **out) {
    return create(cuda, d, true, params, out);
}

enum { FORWARD_TENSORS = 6, BACKWARD_TENSORS = 8 }; /* then the workspace */

static tcc_status run_forward(void *call, tcc_diag *d, const tcc_cuda_address *buffers) {
    return tcc_cudnn_graph_run(call, d, buffers, buffers[FORWARD_TENSORS]);
}
static tcc_status run_backward(void *call, tcc_diag *d, const tcc_cuda_address *buffers) {
    return tcc_cudnn_graph_run(call, d, buffers, buffers[BACKWARD_TENSORS]);
}

const tcc_cuda_entry tcc__cudnn_norm_forward = {TCC_CALL_NORM_FORWARD, create_forward, norm_destroy, run_forward};
const tcc_cuda_entry tcc__cudnn_norm_backward = {TCC_CALL_NORM_BACKWARD, create_backward, norm_destroy, run_backward};
