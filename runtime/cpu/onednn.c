/* SPDX-License-Identifier: MIT
 * oneDNN 2 and 3: finding the functions, and the calls in which the two versions differ. */
#include "runtime/cpu/onednn.h"
#include "runtime/cpu/library_table.h"

#include <stdio.h>
#include <string.h>

enum { RUNTIME_SEQUENTIAL = 1, RUNTIME_OPENMP = 2 };
enum { ALGORITHM_DIRECT = 1, ELTWISE_RELU_V2 = 0x1f, ELTWISE_RELU_V3 = 0x20, TAG_ANY = 1, SCRATCHPAD_USER = 1 };

/* The head of the struct that dnnl_version returns, in both versions. */
typedef struct dnn_version {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime;
} dnn_version;

typedef struct function_row {
    int major; /* 0: both */
    const char *symbol;
    size_t offset;
} function_row;

#define ROW(major, symbol, field) {major, symbol, offsetof(tcc_onednn_functions, field)}
static const function_row function_rows[] = {
    ROW(0, "dnnl_engine_create", engine_create),
    ROW(0, "dnnl_engine_destroy", engine_destroy),
    ROW(0, "dnnl_stream_create", stream_create),
    ROW(0, "dnnl_stream_destroy", stream_destroy),
    ROW(0, "dnnl_memory_create", memory_create),
    ROW(0, "dnnl_memory_set_data_handle", memory_set_data_handle),
    ROW(0, "dnnl_memory_destroy", memory_destroy),
    ROW(0, "dnnl_memory_desc_get_size", md_get_size),
    ROW(0, "dnnl_memory_desc_equal", md_equal),
    ROW(0, "dnnl_primitive_create", primitive_create),
    ROW(0, "dnnl_primitive_execute", primitive_execute),
    ROW(0, "dnnl_primitive_destroy", primitive_destroy),
    ROW(0, "dnnl_primitive_desc_destroy", pd_destroy),
    ROW(0, "dnnl_primitive_desc_query_md", pd_query_md),
    ROW(0, "dnnl_primitive_desc_query", pd_query),
    ROW(0, "dnnl_primitive_attr_create", attr_create),
    ROW(0, "dnnl_primitive_attr_destroy", attr_destroy),
    ROW(0, "dnnl_primitive_attr_set_scratchpad_mode", attr_set_scratchpad_mode),
    ROW(0, "dnnl_primitive_attr_set_post_ops", attr_set_post_ops),
    ROW(0, "dnnl_post_ops_create", post_ops_create),
    ROW(0, "dnnl_post_ops_destroy", post_ops_destroy),
    ROW(0, "dnnl_reorder_primitive_desc_create", reorder_pd_create),
    ROW(2, "dnnl_memory_desc_init_by_strides", md2_init_by_strides),
    ROW(2, "dnnl_memory_desc_init_by_tag", md2_init_by_tag),
    ROW(2, "dnnl_memory_desc_init_submemory", md2_init_submemory),
    ROW(2, "dnnl_dilated_convolution_forward_desc_init", conv2_forward),
    ROW(2, "dnnl_dilated_convolution_backward_data_desc_init", conv2_data),
    ROW(2, "dnnl_dilated_convolution_backward_weights_desc_init", conv2_filter),
    ROW(2, "dnnl_primitive_desc_create", pd2_create),
    ROW(2, "dnnl_post_ops_append_eltwise", post_ops2_append_eltwise),
    ROW(3, "dnnl_memory_desc_create_with_strides", md3_create_with_strides),
    ROW(3, "dnnl_memory_desc_create_with_tag", md3_create_with_tag),
    ROW(3, "dnnl_memory_desc_create_submemory", md3_create_submemory),
    ROW(3, "dnnl_memory_desc_destroy", md3_destroy),
    ROW(3, "dnnl_convolution_forward_primitive_desc_create", conv3_forward),
    ROW(3, "dnnl_convolution_backward_data_primitive_desc_create", conv3_data),
    ROW(3, "dnnl_convolution_backward_weights_primitive_desc_create", conv3_filter),
    ROW(3, "dnnl_post_ops_append_eltwise", post_ops3_append_eltwise),
};
#undef ROW

const char *tcc__onednn_attach(tcc_libraries *l, char *version, size_t version_bytes) {
    tcc_library_info *info = &l->onednn.info;
    tcc_onednn_functions *f = &l->onednn.f;
    const dnn_version *(*get_version)(void);
    if (!tcc__library_function(info, "dnnl_version", &get_version)) return "it lacks dnnl_version";
    const dnn_version *v = get_version();
    snprintf(version, version_bytes, "%d.%d.%d", v->major, v->minor, v->patch);
    if (v->major != 2 && v->major != 3) return "only versions 2 and 3 are known";
    f->major = v->major;
    if (v->cpu_runtime == RUNTIME_OPENMP) {
        if (!tcc__library_function(info, "omp_get_max_threads", &f->omp_get_max_threads) ||
            !tcc__library_function(info, "omp_set_num_threads", &f->omp_set_num_threads))
            return "its OpenMP runtime was not found";
    } else if (v->cpu_runtime != RUNTIME_SEQUENTIAL) {
        return "it was built for a threading runtime other than OpenMP";
    }
    for (size_t i = 0; i < sizeof function_rows / sizeof *function_rows; i++) {
        const function_row *r = &function_rows[i];
        if (r->major && r->major != f->major) continue;
        if (!tcc__library_function(info, r->symbol, (char *)f + r->offset))
            return "it lacks a function that its version should have";
    }
    if (f->engine_create(&f->engine, DNN_CPU, 0)) return "it has no CPU engine";
    return NULL;
}

void tcc__onednn_detach(tcc_libraries *l) {
    if (l->onednn.f.engine) l->onednn.f.engine_destroy(l->onednn.f.engine);
}

int tcc__dnn_md_create(const tcc_onednn_functions *f, dnn_md *md, int ndims, const int64_t *dims,
                       const int64_t *strides) {
    int status;
    if (f->major == 3)
        return strides ? f->md3_create_with_strides(&md->handle, ndims, dims, DNN_F32, strides)
                       : f->md3_create_with_tag(&md->handle, ndims, dims, DNN_F32, TAG_ANY);
    status = strides ? f->md2_init_by_strides(md->storage, ndims, dims, DNN_F32, strides)
                     : f->md2_init_by_tag(md->storage, ndims, dims, DNN_F32, TAG_ANY);
    md->handle = status ? NULL : md->storage;
    return status;
}

int tcc__dnn_md_create_part(const tcc_onednn_functions *f, dnn_md *md, const void *parent, const int64_t *dims,
                            const int64_t *offsets) {
    if (f->major == 3) return f->md3_create_submemory(&md->handle, parent, dims, offsets);
    int status = f->md2_init_submemory(md->storage, parent, dims, offsets);
    md->handle = status ? NULL : md->storage;
    return status;
}

void tcc__dnn_md_destroy(const tcc_onednn_functions *f, dnn_md *md) {
    if (f->major == 3 && md->handle) f->md3_destroy(md->handle);
    md->handle = NULL;
}

static int make_attr(const tcc_onednn_functions *f, bool relu, void **attr) {
    int status = f->attr_create(attr);
    if (!status) status = f->attr_set_scratchpad_mode(*attr, SCRATCHPAD_USER);
    if (status || !relu) return status;
    void *post_ops = NULL;
    status = f->post_ops_create(&post_ops);
    if (!status)
        status = f->major == 3 ? f->post_ops3_append_eltwise(post_ops, ELTWISE_RELU_V3, 0, 0)
                               : f->post_ops2_append_eltwise(post_ops, 1, ELTWISE_RELU_V2, 0, 0);
    if (!status) status = f->attr_set_post_ops(*attr, post_ops);
    if (post_ops) f->post_ops_destroy(post_ops);
    return status;
}

static int make_pd2(const tcc_onednn_functions *f, dnn_conv_kind kind, const dnn_conv *c, const void *attr,
                    const void *hint, void **pd) {
    _Alignas(16) unsigned char desc[16384]; /* 5976 bytes in 2.6 */
    int status;
    switch (kind) {
    case DNN_CONV_FORWARD:
        status = f->conv2_forward(desc, DNN_FORWARD_TRAINING, ALGORITHM_DIRECT, c->x.handle, c->w.handle,
                                  c->bias.handle, c->y.handle, c->stride, c->dilation, c->pad_low, c->pad_high);
        break;
    case DNN_CONV_DATA_GRADIENT:
        status = f->conv2_data(desc, ALGORITHM_DIRECT, c->x.handle, c->w.handle, c->y.handle, c->stride, c->dilation,
                               c->pad_low, c->pad_high);
        break;
    default:
        status = f->conv2_filter(desc, ALGORITHM_DIRECT, c->x.handle, c->w.handle, NULL, c->y.handle, c->stride,
                                 c->dilation, c->pad_low, c->pad_high);
    }
    return status ? status : f->pd2_create(pd, desc, attr, f->engine, hint);
}

static int make_pd3(const tcc_onednn_functions *f, dnn_conv_kind kind, const dnn_conv *c, const void *attr,
                    const void *hint, void **pd) {
    switch (kind) {
    case DNN_CONV_FORWARD:
        return f->conv3_forward(pd, f->engine, DNN_FORWARD_TRAINING, ALGORITHM_DIRECT, c->x.handle, c->w.handle,
                                c->bias.handle, c->y.handle, c->stride, c->dilation, c->pad_low, c->pad_high, attr);
    case DNN_CONV_DATA_GRADIENT:
        return f->conv3_data(pd, f->engine, ALGORITHM_DIRECT, c->x.handle, c->w.handle, c->y.handle, c->stride,
                             c->dilation, c->pad_low, c->pad_high, hint, attr);
    default:
        return f->conv3_filter(pd, f->engine, ALGORITHM_DIRECT, c->x.handle, c->w.handle, NULL, c->y.handle, c->stride,
                               c->dilation, c->pad_low, c->pad_high, hint, attr);
    }
}

int tcc__dnn_conv_pd_create(const tcc_onednn_functions *f, dnn_conv_kind kind, const dnn_conv *conv, void **pd) {
    int (*make)(const tcc_onednn_functions *, dnn_conv_kind, const dnn_conv *, const void *, const void *,
                void **) = f->major == 3 ? make_pd3 : make_pd2;
    void *attr = NULL, *hint = NULL;
    *pd = NULL;
    int status = make_attr(f, conv->relu && kind == DNN_CONV_FORWARD, &attr);
    /* A gradient's descriptor wants the forward one as a hint. */
    if (!status && kind != DNN_CONV_FORWARD) status = make(f, DNN_CONV_FORWARD, conv, attr, NULL, &hint);
    if (!status) status = make(f, kind, conv, attr, hint, pd);
    if (hint) f->pd_destroy(hint);
    if (attr) f->attr_destroy(attr);
    return status;
}

const char *tcc__dnn_status_text(int status) {
    static const char *const texts[] = {"success (0)",       "out of memory (1)",           "invalid arguments (2)",
                                        "unimplemented (3)", "no more implementations (4)", "runtime error (5)",
                                        "not required (6)"};
    return status >= 0 && status < (int)(sizeof texts / sizeof *texts) ? texts[status] : "unknown status";
}

int tcc__dnn_enter(const tcc_onednn_functions *f) {
    if (!f->omp_set_num_threads) return 0;
    int before = f->omp_get_max_threads();
    if (before != 1) f->omp_set_num_threads(1);
    return before;
}

void tcc__dnn_leave(const tcc_onednn_functions *f, int threads_before) {
    if (threads_before > 1) f->omp_set_num_threads(threads_before);
}
