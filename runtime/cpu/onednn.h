/* SPDX-License-Identifier: MIT
 * oneDNN's C interface as we use it, declared here because its versions 2 and 3 differ and either may be what this
 * machine has: functions that both have under one signature are called directly, the rest go through the wrappers
 * below. */
#ifndef TCC_RUNTIME_CPU_ONEDNN_H
#define TCC_RUNTIME_CPU_ONEDNN_H

#include "ir/support/diag.h"

#include <stdbool.h>
#include <stdint.h>

struct tcc_libraries;

enum { DNN_MAX_NDIMS = 12, DNN_F32 = 3, DNN_CPU = 1 };
typedef enum dnn_prop { DNN_FORWARD_TRAINING = 64 } dnn_prop;
typedef enum dnn_arg {
    DNN_ARG_SRC = 1,
    DNN_ARG_DST = 17,
    DNN_ARG_WEIGHTS = 33,
    DNN_ARG_BIAS = 41,
    DNN_ARG_SCRATCHPAD = 80,
    DNN_ARG_DIFF_SRC = 129,
    DNN_ARG_DIFF_DST = 145,
    DNN_ARG_DIFF_WEIGHTS = 161,
} dnn_arg;
typedef enum dnn_query {
    DNN_QUERY_IMPLEMENTATION = 8,
    DNN_QUERY_WEIGHTS = 131,
    DNN_QUERY_DIFF_WEIGHTS = 132,
    DNN_QUERY_SCRATCHPAD = 136,
} dnn_query;

typedef int64_t dnn_dims[DNN_MAX_NDIMS];
typedef struct dnn_exec_arg {
    int arg;
    void *memory;
} dnn_exec_arg;

/* A memory descriptor: version 2 lets the caller hold a struct (of 696 bytes in 2.6), version 3 gives a pointer. */
typedef struct dnn_md {
    void *handle; /* NULL: empty */
    _Alignas(16) unsigned char storage[1024];
} dnn_md;

typedef enum dnn_conv_kind { DNN_CONV_FORWARD, DNN_CONV_DATA_GRADIENT, DNN_CONV_FILTER_GRADIENT } dnn_conv_kind;

/* Descriptors of a convolution's tensors, or their gradients; `bias` may be empty. */
typedef struct dnn_conv {
    dnn_md x, w, bias, y;
    dnn_dims stride, dilation, pad_low, pad_high; /* dilation 0: dense */
    bool relu;                                    /* forward: y = max(0, ...) */
} dnn_conv;

typedef struct tcc_onednn_functions {
    int major;
    void *engine;
    int (*omp_get_max_threads)(void); /* NULL: built without OpenMP */
    void (*omp_set_num_threads)(int);
    /* the same in 2 and 3 */
    int (*engine_create)(void **engine, int kind, size_t index);
    int (*engine_destroy)(void *engine);
    int (*stream_create)(void **stream, void *engine, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*memory_create)(void **memory, const void *md, void *engine, void *data);
    int (*memory_set_data_handle)(void *memory, void *data);
    int (*memory_destroy)(void *memory);
    size_t (*md_get_size)(const void *md);
    int (*md_equal)(const void *a, const void *b);
    int (*primitive_create)(void **primitive, const void *pd);
    int (*primitive_execute)(const void *primitive, void *stream, int n, const dnn_exec_arg *args);
    int (*primitive_destroy)(void *primitive);
    int (*pd_destroy)(void *pd);
    const void *(*pd_query_md)(const void *pd, int what, int index);
    int (*pd_query)(const void *pd, int what, int index, void *result);
    int (*attr_create)(void **attr);
    int (*attr_destroy)(void *attr);
    int (*attr_set_scratchpad_mode)(void *attr, int mode);
    int (*attr_set_post_ops)(void *attr, const void *post_ops);
    int (*post_ops_create)(void **post_ops);
    int (*post_ops_destroy)(void *post_ops);
    int (*reorder_pd_create)(void **pd, const void *from, void *from_engine, const void *to, void *to_engine,
                             const void *attr);
    /* version 2 */
    int (*md2_init_by_strides)(void *md, int ndims, const int64_t *dims, int type, const int64_t *strides);
    int (*md2_init_by_tag)(void *md, int ndims, const int64_t *dims, int type, int tag);
    int (*md2_init_submemory)(void *md, const void *parent, const int64_t *dims, const int64_t *offsets);
    int (*conv2_forward)(void *desc, int prop, int algorithm, const void *x, const void *w, const void *bias,
                         const void *y, const int64_t *stride, const int64_t *dilation, const int64_t *low,
                         const int64_t *high);
    int (*conv2_data)(void *desc, int algorithm, const void *dx, const void *w, const void *dy, const int64_t *stride,
                      const int64_t *dilation, const int64_t *low, const int64_t *high);
    int (*conv2_filter)(void *desc, int algorithm, const void *x, const void *dw, const void *db, const void *dy,
                        const int64_t *stride, const int64_t *dilation, const int64_t *low, const int64_t *high);
    int (*pd2_create)(void **pd, const void *desc, const void *attr, void *engine, const void *hint);
    int (*post_ops2_append_eltwise)(void *post_ops, float scale, int algorithm, float alpha, float beta);
    /* version 3 */
    int (*md3_create_with_strides)(void **md, int ndims, const int64_t *dims, int type, const int64_t *strides);
    int (*md3_create_with_tag)(void **md, int ndims, const int64_t *dims, int type, int tag);
    int (*md3_create_submemory)(void **md, const void *parent, const int64_t *dims, const int64_t *offsets);
    int (*md3_destroy)(void *md);
    int (*conv3_forward)(void **pd, void *engine, int prop, int algorithm, const void *x, const void *w,
                         const void *bias, const void *y, const int64_t *stride, const int64_t *dilation,
                         const int64_t *low, const int64_t *high, const void *attr);
    int (*conv3_data)(void **pd, void *engine, int algorithm, const void *dx, const void *w, const void *dy,
                      const int64_t *stride, const int64_t *dilation, const int64_t *low, const int64_t *high,
                      const void *hint, const void *attr);
    int (*conv3_filter)(void **pd, void *engine, int algorithm, const void *x, const void *dw, const void *db,
                        const void *dy, const int64_t *stride, const int64_t *dilation, const int64_t *low,
                        const int64_t *high, const void *hint, const void *attr);
    int (*post_ops3_append_eltwise)(void *post_ops, int algorithm, float alpha, float beta);
} tcc_onednn_functions;

const char *tcc__onednn_attach(struct tcc_libraries *libraries, char *version, size_t version_bytes);
void tcc__onednn_detach(struct tcc_libraries *libraries);

/* Wrappers over both versions; they return oneDNN's status, 0 for success. `strides` NULL: a layout of oneDNN's choice.
 */
int tcc__dnn_md_create(const tcc_onednn_functions *f, dnn_md *md, int ndims, const int64_t *dims,
                       const int64_t *strides);
/* A part of `parent`: memory objects of it begin where the parent's do. */
int tcc__dnn_md_create_part(const tcc_onednn_functions *f, dnn_md *md, const void *parent, const int64_t *dims,
                            const int64_t *offsets);
void tcc__dnn_md_destroy(const tcc_onednn_functions *f, dnn_md *md);
/* A primitive descriptor whose primitive takes its scratchpad from the caller. */
int tcc__dnn_conv_pd_create(const tcc_onednn_functions *f, dnn_conv_kind kind, const dnn_conv *conv, void **pd);
/* "invalid arguments (2)" */
const char *tcc__dnn_status_text(int status);

/* oneDNN decides how many threads a primitive uses when it is made, by OpenMP's setting for the calling thread; ours
 * shall use one. enter returns what leave puts back. */
int tcc__dnn_enter(const tcc_onednn_functions *f);
void tcc__dnn_leave(const tcc_onednn_functions *f, int threads_before);

#endif
