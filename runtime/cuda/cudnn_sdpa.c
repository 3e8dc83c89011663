/* SPDX-License-Identifier: MIT
 * Attention by cuDNN, as a graph of products, pointwise operations and sums that its attention engines recognize;
 * versions from 9.0 on do. (The operations SDPA_FWD and SDPA_BWD of newer versions say less: before 9.21 they know no
 * causal rule.)
 *
 * The engines look for this very graph: the scores are scaled, then hidden by the causal rule, then go through max,
 * subtraction, exp, sum and division, with the logarithm for lse beside; going back, lse is subtracted before the rule
 * hides. dq is written by its product: the other form, which adds f32 parts of it up in memory, does so by atomics. */
#include "runtime/cuda/cudnn_sdpa.h"

#include "ir/support/alloc.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { RANK = 4, SCALAR_BYTES = 4, SUMS_ALIGNMENT = 64 };

static int64_t sums_bytes_of(const tcc_sdpa_params *p) {
    const int64_t bytes = p->batch * p->heads * p->queries * 4;
    return (bytes + SUMS_ALIGNMENT - 1) / SUMS_ALIGNMENT * SUMS_ALIGNMENT;
}

/* What the library takes and yet computes wrongly, by its release notes and the reports of its users. */
static tcc_status check_known(const tcc_cudnn *cudnn, tcc_diag *d, bool backward, const tcc_sdpa_params *p) {
    enum { TILE = 128, OLD_TILE = 64 };
    const size_t version = cudnn->library.f.version();
    if (version == 91000 || version == 91001)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "attention of cudnn 9.10.0 and 9.10.1 is wrong");
    if (backward && (p->queries % TILE || p->keys % TILE))
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE,
                         "gradients of attention by cudnn can be NaN unless %d divides the numbers of queries and keys",
                         TILE);
    if (p->causal && p->keys != p->queries && version < 90600 && (p->queries % OLD_TILE || p->keys % OLD_TILE))
        return tcc_error(
            d, TCC_EUNSUPPORTED, TCC_NOWHERE,
            "before cudnn 9.6, causal attention to earlier keys wants numbers of queries and keys that %d divides",
            OLD_TILE);
    return TCC_OK;
}

/* --- the graph --- */

/* What is described; after a failure, nothing more happens. */
typedef struct description {
    tcc_cudnn_graph *g;
    tcc_diag *d;
    const tcc_sdpa_params *p;
    int64_t uid;
    tcc_status status;
} description;

static void *tensor(description *s, tcc_cudnn_tensor t) {
    void *made = NULL;
    t.uid = ++s->uid;
    t.rank = RANK;
    if (!t.alignment) t.alignment = SCALAR_BYTES;
    if (s->status == TCC_OK) s->status = tcc_cudnn_graph_tensor(s->g, s->d, &t, &made);
    return made;
}

/* [batch, heads, rows, columns] in memory; transposed: [batch, heads, columns, rows] of the same. */
static void *matrix(description *s, int64_t heads, int64_t rows, int64_t columns, const int64_t stride[3],
                    bool transposed) {
    tcc_cudnn_tensor t = {.dtype = (tcc_dtype)s->p->type,
                          .dims = {s->p->batch, heads, rows, columns},
                          .strides = {stride[0], stride[1], stride[2], 1},
                          .alignment = s->p->alignment};
    if (transposed) t.dims[2] = columns, t.dims[3] = rows, t.strides[2] = 1, t.strides[3] = stride[2];
    return tensor(s, t);
}

/* As `matrix`, between two operations. */
static void *between(description *s, tcc_dtype dtype, int64_t heads, int64_t rows, int64_t columns,
                     const int64_t stride[3], bool transposed) {
    tcc_cudnn_tensor t = {.dtype = dtype,
                          .dims = {s->p->batch, heads, rows, columns},
                          .strides = {stride[0], stride[1], stride[2], 1},
                          .is_virtual = true};
    if (transposed) t.strides[2] = 1, t.strides[3] = stride[2];
    return tensor(s, t);
}

static void *scores(description *s, tcc_dtype dtype) {
    const tcc_sdpa_params *p = s->p;
    const int64_t one_head = p->queries * p->keys;
    return between(s, dtype, p->heads, p->queries, p->keys, (int64_t[]){p->heads * one_head, one_head, p->keys}, false);
}

/* [batch, heads, keys, queries] of scores, as a product wants them. */
static void *turned_scores(description *s) {
    const tcc_sdpa_params *p = s->p;
    const int64_t one_head = p->queries * p->keys;
    return between(s, (tcc_dtype)p->type, p->heads, p->keys, p->queries,
                   (int64_t[]){p->heads * one_head, one_head, p->keys}, true);
}

/* One f32 a query. */
static void *rows(description *s, bool in_memory) {
    const tcc_sdpa_params *p = s->p;
    return tensor(s, (tcc_cudnn_tensor){.dtype = TCC_F32,
                                        .dims = {p->batch, p->heads, p->queries, 1},
                                        .strides = {p->heads * p->queries, p->queries, 1, 1},
                                        .alignment = in_memory ? p->alignment : 0,
                                        .is_virtual = !in_memory});
}

static void *number(description *s, tcc_dtype dtype, const void *value) {
    return tensor(s, (tcc_cudnn_tensor){.dtype = dtype, .dims = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}, .value = value});
}

static void *part(description *s, int type, const tcc_cudnn_attribute *attributes, int n) {
    void *made = NULL;
    if (s->status == TCC_OK) s->status = tcc_cudnn_graph_descriptor(s->g, s->d, type, attributes, n, &made);
    return made;
}

static void operation(description *s, int type, const tcc_cudnn_attribute *attributes, int n) {
    if (s->status == TCC_OK) s->status = tcc_cudnn_graph_operation(s->g, s->d, type, attributes, n);
}

/* y = mode(x, b), or of x alone; `chosen` where b has to be told from x. `compute`: a cudnnDataType_t; `axis`: -1:
 * none. */
static void point_along(description *s, int mode, int compute, int64_t axis, void *x, void *b, void *chosen, void *y) {
    const tcc_cudnn_attribute of_point[] = {{TCC_CUDNN_POINTWISE_MODE, TCC_CUDNN_TYPE_POINTWISE_MODE, 1, &mode},
                                            {TCC_CUDNN_POINTWISE_MATH_PREC, TCC_CUDNN_TYPE_DATA_TYPE, 1, &compute},
                                            {TCC_CUDNN_POINTWISE_AXIS, TCC_CUDNN_TYPE_INT64, 1, &axis}};
    void *point = part(s, TCC_CUDNN_POINTWISE, of_point, axis < 0 ? 2 : 3);
    const tcc_cudnn_attribute of_operation[] = {
        {TCC_CUDNN_OPERATION_POINTWISE_PW_DESCRIPTOR, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &point},
        {TCC_CUDNN_OPERATION_POINTWISE_XDESC, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x},
        {TCC_CUDNN_OPERATION_POINTWISE_YDESC, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y},
        {TCC_CUDNN_OPERATION_POINTWISE_BDESC, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &b},
        {TCC_CUDNN_OPERATION_POINTWISE_TDESC, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &chosen}};
    operation(s, TCC_CUDNN_OPERATION_POINTWISE, of_operation, chosen ? 5 : b ? 4 : 3);
}

static void *point(description *s, int mode, void *x, void *b, void *y) {
    point_along(s, mode, TCC_CUDNN_DATA_FLOAT, -1, x, b, NULL, y);
    return y;
}

static void *reduce(description *s, int operator, void * x, void *y) {
    const int compute = TCC_CUDNN_DATA_FLOAT;
    const tcc_cudnn_attribute of_reduction[] = {
        {TCC_CUDNN_REDUCTION_OPERATOR, TCC_CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &operator},
         {TCC_CUDNN_REDUCTION_COMP_TYPE, TCC_CUDNN_TYPE_DATA_TYPE, 1, &compute}};
    void *reduction = part(s, TCC_CUDNN_REDUCTION, of_reduction, 2);
    const tcc_cudnn_attribute of_operation[] = {
        {TCC_CUDNN_OPERATION_REDUCTION_XDESC, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x},
        {TCC_CUDNN_OPERATION_REDUCTION_YDESC, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y},
        {TCC_CUDNN_OPERATION_REDUCTION_DESC, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &reduction}};
    operation(s, TCC_CUDNN_OPERATION_REDUCTION, of_operation, 3);
    return y;
}

/* c = a b, for each head. */
static void *multiply(description *s, void *a, void *b, void *c) {
    const int compute = TCC_CUDNN_DATA_FLOAT;
    const tcc_cudnn_attribute of_product[] = {{TCC_CUDNN_MATMUL_COMP_TYPE, TCC_CUDNN_TYPE_DATA_TYPE, 1, &compute}};
    void *product = part(s, TCC_CUDNN_MATMUL, of_product, 1);
    const tcc_cudnn_attribute of_operation[] = {
        {TCC_CUDNN_OPERATION_MATMUL_ADESC, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &a},
        {TCC_CUDNN_OPERATION_MATMUL_BDESC, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &b},
        {TCC_CUDNN_OPERATION_MATMUL_CDESC, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c},
        {TCC_CUDNN_OPERATION_MATMUL_DESC, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &product}};
    operation(s, TCC_CUDNN_OPERATION_MATMUL, of_operation, 4);
    return c;
}

/* c = a b, a row for each key: the sum of what the heads that share keys have. */
static void multiply_by_key(description *s, void *a, void *b, int64_t columns, void *c) {
    const tcc_sdpa_params *p = s->p;
    const int64_t one_head = p->keys * columns;
    if (p->kv_heads == p->heads) {
        multiply(s, a, b, c);
        return;
    }
    void *each = between(s, (tcc_dtype)p->type, p->heads, p->keys, columns,
                         (int64_t[]){p->heads * one_head, one_head, columns}, false);
    reduce(s, TCC_CUDNN_REDUCE_ADD, multiply(s, a, b, each), c);
}

static void *reshape(description *s, void *x, void *y) {
    const tcc_cudnn_attribute of_operation[] = {
        {TCC_CUDNN_OPERATION_RESHAPE_XDESC, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x},
        {TCC_CUDNN_OPERATION_RESHAPE_YDESC, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y}};
    operation(s, TCC_CUDNN_OPERATION_RESHAPE, of_operation, 2);
    return y;
}

/* x where query t may see key s, s <= t + keys - queries; else what exp makes 0. */
static void *hide(description *s, const tcc_cudnn *cudnn, void *x) {
    enum { QUERIES = 2, KEYS = 3 };
    const tcc_sdpa_params *p = s->p;
    const float hidden = cudnn->library.f.version() < 91000 ? -FLT_MAX
                                                            : -INFINITY; /* as versions of the library expect it */
    const int32_t n_queries = (int32_t)p->queries, n_keys = (int32_t)p->keys;
    void *t = scores(s, TCC_I32), *key = scores(s, TCC_I32), *seen = scores(s, TCC_BOOL), *y = scores(s, TCC_F32);
    point_along(s, TCC_CUDNN_POINTWISE_GEN_INDEX, TCC_CUDNN_DATA_INT32, QUERIES, x, NULL, NULL, t);
    point_along(s, TCC_CUDNN_POINTWISE_GEN_INDEX, TCC_CUDNN_DATA_INT32, KEYS, x, NULL, NULL, key);
    if (p->keys != p->queries) {
        void *later = scores(s, TCC_I32), *last = scores(s, TCC_I32);
        point_along(s, TCC_CUDNN_POINTWISE_ADD, TCC_CUDNN_DATA_INT32, KEYS, t, number(s, TCC_I32, &n_keys), NULL,
                    later);
        point_along(s, TCC_CUDNN_POINTWISE_SUB, TCC_CUDNN_DATA_INT32, KEYS, later, number(s, TCC_I32, &n_queries), NULL,
                    last);
        t = last;
    }
    point_along(s, TCC_CUDNN_POINTWISE_CMP_GE, TCC_CUDNN_DATA_BOOLEAN, -1, t, key, NULL, seen);
    point_along(s, TCC_CUDNN_POINTWISE_BINARY_SELECT, TCC_CUDNN_DATA_FLOAT, -1, x, number(s, TCC_F32, &hidden), seen,
                y);
    return y;
}

static void describe_forward(description *s, const tcc_cudnn *cudnn) {
    const tcc_sdpa_params *p = s->p;
    const int32_t scale = (int32_t)p->scale_bits;
    void *q = matrix(s, p->heads, p->queries, p->width, p->q_stride, false),
         *k = matrix(s, p->kv_heads, p->keys, p->width, p->k_stride, true);
    void *v = matrix(s, p->kv_heads, p->keys, p->value_width, p->v_stride, false),
         *o = matrix(s, p->heads, p->queries, p->value_width, p->o_stride, false);
    void *lse = rows(s, p->lse);
    void *x = multiply(s, q, k, scores(s, TCC_F32));
    x = point(s, TCC_CUDNN_POINTWISE_MUL, x, number(s, TCC_F32, &scale), scores(s, TCC_F32));
    if (p->causal) x = hide(s, cudnn, x);
    void *most = reduce(s, TCC_CUDNN_REDUCE_MAX, x, rows(s, false));
    x = point(s, TCC_CUDNN_POINTWISE_SUB, x, most, scores(s, TCC_F32));
    x = point(s, TCC_CUDNN_POINTWISE_EXP, x, NULL, scores(s, TCC_F32));
    void *sum = reduce(s, TCC_CUDNN_REDUCE_ADD, x, rows(s, false));
    void *log = point(s, TCC_CUDNN_POINTWISE_LOG, sum, NULL, rows(s, false));
    point(s, TCC_CUDNN_POINTWISE_ADD, most, log, lse);
    x = point(s, TCC_CUDNN_POINTWISE_DIV, x, sum, scores(s, (tcc_dtype)p->type));
    multiply(s, x, v, o);
}

/* With p = exp(scores - lse): dv = p^T do; ds = scale p (do v^T - sum of do o over a row); dk = ds^T q; dq = ds k. What
 * heads that share keys have of dk and dv is added up. */
static void describe_backward(description *s, const tcc_cudnn *cudnn) {
    const tcc_sdpa_params *p = s->p;
    const int32_t scale_bits = (int32_t)p->scale_bits;
    const float one = 1;
    const int64_t dense[] = {p->heads * p->queries * p->value_width, p->queries * p->value_width, p->value_width};
    void *q = matrix(s, p->heads, p->queries, p->width, p->q_stride, false),
         *k = matrix(s, p->kv_heads, p->keys, p->width, p->k_stride, true);
    void *v = matrix(s, p->kv_heads, p->keys, p->value_width, p->v_stride, true),
         *o = matrix(s, p->heads, p->queries, p->value_width, p->o_stride, false);
    void *lse = rows(s, true), *d_o = matrix(s, p->heads, p->queries, p->value_width, p->do_stride, false);
    void *dq = matrix(s, p->heads, p->queries, p->width, p->dq_stride, false),
         *dk = matrix(s, p->kv_heads, p->keys, p->width, p->dk_stride, false);
    void *dv = matrix(s, p->kv_heads, p->keys, p->value_width, p->dv_stride, false), *sums = rows(s, true);
    void *scale = number(s, TCC_F32, &scale_bits);

    void *x = point(s, TCC_CUDNN_POINTWISE_MUL, d_o, o,
                    between(s, TCC_F32, p->heads, p->queries, p->value_width, dense, false));
    x = reduce(s, TCC_CUDNN_REDUCE_ADD, x, rows(s, false));
    point(s, TCC_CUDNN_POINTWISE_MUL, x, number(s, TCC_F32, &one), sums);

    x = multiply(s, q, k, scores(s, TCC_F32));
    x = point(s, TCC_CUDNN_POINTWISE_MUL, x, scale, scores(s, TCC_F32));
    x = point(s, TCC_CUDNN_POINTWISE_SUB, x, lse, scores(s, TCC_F32));
    if (p->causal) x = hide(s, cudnn, x);
    void *probabilities = point(s, TCC_CUDNN_POINTWISE_EXP, x, NULL, scores(s, TCC_F32));
    multiply_by_key(s, reshape(s, probabilities, turned_scores(s)), d_o, p->value_width, dv);

    x = multiply(s, d_o, v, scores(s, TCC_F32));
    x = point(s, TCC_CUDNN_POINTWISE_SUB, x, sums, scores(s, TCC_F32));
    x = point(s, TCC_CUDNN_POINTWISE_MUL, x, probabilities, scores(s, TCC_F32));
    void *ds = point(s, TCC_CUDNN_POINTWISE_MUL, x, scale, scores(s, TCC_F32));
    multiply_by_key(s, reshape(s, ds, turned_scores(s)), q, p->width, dk);
    multiply(s, ds, reshape(s, k, between(s, (tcc_dtype)p->type, p->kv_heads, p->keys, p->width, p->k_stride, false)),
             dq);
}

tcc_status tcc_cudnn_sdpa_describe(const tcc_cudnn *cudnn, tcc_cudnn_graph *g, tcc_diag *d, bool backward,
                                   const tcc_sdpa_params *p) {
    TCC_TRY(check_known(cudnn, d, backward, p));
    description s = {.g = g, .d = d, .p = p};
    if (backward) describe_backward(&s, cudnn);
    else describe_forward(&s, cudnn);
    return s.status;
}

/* --- the entries --- */

typedef struct sdpa_call {
    tcc_cudnn_graph *graph;
    int64_t sums_bytes; /* at the beginning of the workspace; backward */
} sdpa_call;

static void sdpa_destroy(void *call) {
    sdpa_call *c = call;
    if (!c) return;
    tcc_cudnn_graph_destroy(c->graph);
    tcc__free(c);
}

static tcc_status make(const tcc_cudnn *cudnn, tcc_diag *d, bool backward, tcc_sdpa_params *p, sdpa_call *c) {
    const tcc_cudnn_limits limits = {.workspace_bytes = p->workspace_bytes - c->sums_bytes, .tensor_cores = true};
    if (limits.workspace_bytes < 0)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "sums take %lld bytes of workspace, of %lld",
                         (long long)c->sums_bytes, (long long)p->workspace_bytes);
    TCC_TRY(tcc_cudnn_graph_create(cudnn, d, &c->graph));
    TCC_TRY(tcc_cudnn_sdpa_describe(cudnn, c->graph, d, backward, p));
    int64_t bytes;
    TCC_TRY(tcc_cudnn_graph_finish(c->graph, d, &limits, &bytes));
    p->workspace_bytes = c->sums_bytes + bytes;
    return TCC_OK;
}

static tcc_status create(tcc_device_cuda *cuda, tcc_diag *d, bool backward, int64_t *params, void **out) {
    const char *name = tcc_call_get_info(backward ? TCC_CALL_SDPA_BACKWARD : TCC_CALL_SDPA_FORWARD)->name;
    *out = NULL;
    const tcc_cudnn *cudnn;
    tcc_sdpa_params p;
    memcpy(&p, params, sizeof p);
    TCC_TRY(tcc__cudnn_open(cuda, d, &cudnn));
    sdpa_call *c = tcc__calloc(1, sizeof *c);
    if (!c) return tcc_enomem(d);
    c->sums_bytes = backward ? sums_bytes_of(&p) : 0;
    tcc_status s = make(cudnn, d, backward, &p, c);
    if (s != TCC_OK) {
        tcc_note(d, TCC_NOWHERE,
                 "for %s of %lld x %lld heads, %lld queries and %lld keys of width %lld, values of width %lld", name,
                 (long long)p.batch, (long long)p.heads, (long long)p.queries, (long long)p.keys, (long long)p.width,
                 (long long)p.value_width);
        sdpa_destroy(c);
        return s;
    }
    memcpy(params, &p, sizeof p);
    *out = c;
    return TCC_OK;
}

static tcc_status create_forward(tcc_device_cuda *cuda, tcc_diag *d, int64_t *params, void **out) {
    return create(cuda, d, false, params, out);
}
static tcc_status create_backward(tcc_device_cuda *cuda, tcc_diag *d, int64_t *params, void **out) {
    return create(cuda, d, true, params, out);
}

static tcc_status run_forward(void *call, tcc_diag *d, const tcc_cuda_address *buffers) {
    enum { WORKSPACE = 5 }; /* the graph has no lse where that is not written, and it is the last before */
    return tcc_cudnn_graph_run(((const sdpa_call *)call)->graph, d, buffers, buffers[WORKSPACE]);
}

static tcc_status run_backward(void *call, tcc_diag *d, const tcc_cuda_address *buffers) {
    enum { TENSORS = 9, WORKSPACE = 9 };
    const sdpa_call *c = call;
    tcc_cuda_address addresses[TENSORS + 1];
    memcpy(addresses, buffers, sizeof *addresses * TENSORS);
    addresses[TENSORS] = buffers[WORKSPACE]; /* the sums */
    return tcc_cudnn_graph_run(c->graph, d, addresses, buffers[WORKSPACE] + (tcc_cuda_address)c->sums_bytes);
}

const tcc_cuda_entry tcc__cudnn_sdpa_forward = {TCC_CALL_SDPA_FORWARD, create_forward, sdpa_destroy, run_forward};
const tcc_cuda_entry tcc__cudnn_sdpa_backward = {TCC_CALL_SDPA_BACKWARD, create_backward, sdpa_destroy, run_backward};
