/* SPDX-License-Identifier: MIT
 * A graph of cuDNN's operations: described once, planned once, run often.
 *
 *     tcc_cudnn_graph_create(cudnn, d, &g);
 *     tcc_cudnn_graph_tensor(g, d, &(tcc_cudnn_tensor){...}, &x);                     each tensor
 *     tcc_cudnn_graph_descriptor(g, d, TCC_CUDNN_CONVOLUTION, attributes, n, &conv);  what else it is told
 *     tcc_cudnn_graph_operation(g, d, TCC_CUDNN_OPERATION_..., attributes, n);        each operation
 *     tcc_cudnn_graph_finish(g, d, &limits, &workspace_bytes);                        chooses an engine
 *     tcc_cudnn_graph_run(g, d, addresses, workspace);                                as often as wanted
 *     tcc_cudnn_graph_destroy(g);                                                     also after a failure
 *
 * The graph owns all descriptors. All of this with the device entered. */
#ifndef TCC_RUNTIME_CUDA_CUDNN_GRAPH_H
#define TCC_RUNTIME_CUDA_CUDNN_GRAPH_H

#include "runtime/cuda/cudnn.h"

#include "ir/support/dtype.h"

enum { TCC_CUDNN_MAX_RANK = 8 }; /* CUDNN_DIM_MAX */

typedef struct tcc_cudnn_graph tcc_cudnn_graph;

typedef struct tcc_cudnn_tensor {
    int64_t uid; /* unlike that of all others of the graph */
    tcc_dtype dtype;
    int rank;
    int64_t dims[TCC_CUDNN_MAX_RANK], strides[TCC_CUDNN_MAX_RANK]; /* elements */
    int64_t alignment; /* bytes, a power of two that its address is a multiple of */
    bool is_virtual;   /* between two operations of the graph: has no memory */
    const void *value; /* not NULL: one element on the host, which is copied; it has no address */
} tcc_cudnn_tensor;

/* `values`: `count` elements of the type, as cudnn.h says. */
typedef struct tcc_cudnn_attribute {
    int name, type;
    int64_t count;
    const void *values;
} tcc_cudnn_attribute;

/* What an engine may do and use. Engines whose results differ from run to run are never taken. */
typedef struct tcc_cudnn_limits {
    int64_t workspace_bytes;
    bool tensor_cores;     /* f32: only where products of tf32 are wanted; f16 and bf16: always */
    const int64_t *engine; /* not NULL: the one of this index or none, */
    const int64_t *knobs;  /* and, not NULL, with the knobs of this hash alone */
    int skip;              /* so many that may be taken are passed over */
    bool best_alone; /* the first engine that may be taken at all, or none: not one that is ranked behind it and needs
                        less workspace */
} tcc_cudnn_limits;

/* `cudnn`: borrowed, with a handle, or with properties alone; then the graph cannot be run. */
tcc_status tcc_cudnn_graph_create(const tcc_cudnn *cudnn, tcc_diag *d, tcc_cudnn_graph **out);
void tcc_cudnn_graph_destroy(tcc_cudnn_graph *g);
/* The descriptors are the graph's. Errors: TCC_EUNSUPPORTED, TCC_EDEVICE, TCC_ENOMEM. */
tcc_status tcc_cudnn_graph_tensor(tcc_cudnn_graph *g, tcc_diag *d, const tcc_cudnn_tensor *tensor, void **out);
tcc_status tcc_cudnn_graph_descriptor(tcc_cudnn_graph *g, tcc_diag *d, int type, const tcc_cudnn_attribute *attributes,
                                      int n, void **out);
tcc_status tcc_cudnn_graph_operation(tcc_cudnn_graph *g, tcc_diag *d, int type, const tcc_cudnn_attribute *attributes,
                                     int n);
/* Take the first engine that the library proposes and the limits allow. `workspace_bytes`: that a run wants, at any
 * address. Errors: TCC_EUNSUPPORTED with what was wrong with the engines, TCC_EDEVICE, TCC_ENOMEM. */
tcc_status tcc_cudnn_graph_finish(tcc_cudnn_graph *g, tcc_diag *d, const tcc_cudnn_limits *limits,
                                  int64_t *workspace_bytes);
/* Of the engine that was taken: its index, and whether its notes promise that NaN stays NaN. */
tcc_status tcc_cudnn_graph_engine(const tcc_cudnn_graph *g, tcc_diag *d, int64_t *index, bool *keeps_nan);
/* A hash, from 0 to 2^31 - 1, of the types and values of the knobs that it was taken with, in any order. */
tcc_status tcc_cudnn_graph_knobs(const tcc_cudnn_graph *g, tcc_diag *d, int64_t *hash);
/* Enqueue it. `addresses`: of the tensors that have one, in the order in which they were described; nothing is
 * allocated where these and the workspace are as in one of the last 64 runs that differed. */
tcc_status tcc_cudnn_graph_run(tcc_cudnn_graph *g, tcc_diag *d, const tcc_cuda_address *addresses,
                               tcc_cuda_address workspace);

#endif
