/* SPDX-License-Identifier: MIT
 * cuDNN 9 as this runtime uses it: its backend of descriptors with attributes, by which graphs of operations are
 * described and run. One row an entry point, found in libcudnn.so.9 at run time, so that neither its headers nor the
 * library is needed to build. Names, values and signatures are those of its public reference. What is made of them is
 * in cudnn_graph.h. */
#ifndef TCC_RUNTIME_CUDA_CUDNN_H
#define TCC_RUNTIME_CUDA_CUDNN_H

#include "runtime/cuda/library.h"
#include "runtime/cuda/vendor.h"

typedef int tcc_cudnn_status; /* 0: CUDNN_STATUS_SUCCESS; the thousands are the kind */
enum {
    TCC_CUDNN_BAD_PARAM = 2000,
    TCC_CUDNN_NOT_SUPPORTED = 3000,
    TCC_CUDNN_HOST_ALLOCATION_FAILED = 4003,
    TCC_CUDNN_DEVICE_ALLOCATION_FAILED = 4004,
};

/* cudnnDataType_t */
enum {
    TCC_CUDNN_DATA_FLOAT = 0,
    TCC_CUDNN_DATA_DOUBLE = 1,
    TCC_CUDNN_DATA_HALF = 2,
    TCC_CUDNN_DATA_INT32 = 4,
    TCC_CUDNN_DATA_UINT8 = 6,
    TCC_CUDNN_DATA_BFLOAT16 = 9,
    TCC_CUDNN_DATA_INT64 = 10,
    TCC_CUDNN_DATA_BOOLEAN = 11,
};

/* cudnnBackendAttributeType_t, with the C type of an element */
enum {
    TCC_CUDNN_TYPE_HANDLE = 0,    /* void * */
    TCC_CUDNN_TYPE_DATA_TYPE = 1, /* int, as all enumerations */
    TCC_CUDNN_TYPE_BOOLEAN = 2,   /* bool */
    TCC_CUDNN_TYPE_INT64 = 3,     /* int64_t */
    TCC_CUDNN_TYPE_FLOAT = 4,     /* float */
    TCC_CUDNN_TYPE_DOUBLE = 5,    /* double */
    TCC_CUDNN_TYPE_VOID_PTR = 6,  /* void * */
    TCC_CUDNN_TYPE_CONVOLUTION_MODE = 7,
    TCC_CUDNN_TYPE_HEUR_MODE = 8,
    TCC_CUDNN_TYPE_KNOB_TYPE = 9,
    TCC_CUDNN_TYPE_NUMERICAL_NOTE = 11,
    TCC_CUDNN_TYPE_POINTWISE_MODE = 14,
    TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR = 15, /* void * */
    TCC_CUDNN_TYPE_REDUCTION_OPERATOR_TYPE = 18,
    TCC_CUDNN_TYPE_CHAR = 24,
    TCC_CUDNN_TYPE_NORM_MODE = 27,
    TCC_CUDNN_TYPE_NORM_FWD_PHASE = 28,
};

/* cudnnBackendDescriptorType_t */
enum {
    TCC_CUDNN_POINTWISE = 0,
    TCC_CUDNN_CONVOLUTION = 1,
    TCC_CUDNN_ENGINE = 2,
    TCC_CUDNN_ENGINECFG = 3,
    TCC_CUDNN_ENGINEHEUR = 4,
    TCC_CUDNN_EXECUTION_PLAN = 5,
    TCC_CUDNN_KNOB_CHOICE = 7,
    TCC_CUDNN_OPERATION_CONVOLUTION_FORWARD = 10,
    TCC_CUDNN_OPERATION_CONVOLUTION_BACKWARD_FILTER = 11,
    TCC_CUDNN_OPERATION_CONVOLUTION_BACKWARD_DATA = 12,
    TCC_CUDNN_OPERATION_POINTWISE = 13,
    TCC_CUDNN_OPERATIONGRAPH = 15,
    TCC_CUDNN_VARIANT_PACK = 16,
    TCC_CUDNN_TENSOR = 17,
    TCC_CUDNN_MATMUL = 18,
    TCC_CUDNN_OPERATION_MATMUL = 19,
    TCC_CUDNN_REDUCTION = 21,
    TCC_CUDNN_OPERATION_REDUCTION = 22,
    TCC_CUDNN_OPERATION_NORM_FORWARD = 29,
    TCC_CUDNN_OPERATION_NORM_BACKWARD = 30,
    TCC_CUDNN_OPERATION_RESHAPE = 31,
    TCC_CUDNN_DEVICEPROP = 38,
};

/* cudnnBackendAttributeName_t: CUDNN_ATTR_... */
enum {
    TCC_CUDNN_POINTWISE_MODE = 0,
    TCC_CUDNN_POINTWISE_MATH_PREC = 1,
    TCC_CUDNN_POINTWISE_AXIS = 9,
    TCC_CUDNN_CONVOLUTION_COMP_TYPE = 100,
    TCC_CUDNN_CONVOLUTION_CONV_MODE = 101,
    TCC_CUDNN_CONVOLUTION_DILATIONS = 102,
    TCC_CUDNN_CONVOLUTION_FILTER_STRIDES = 103,
    TCC_CUDNN_CONVOLUTION_POST_PADDINGS = 104,
    TCC_CUDNN_CONVOLUTION_PRE_PADDINGS = 105,
    TCC_CUDNN_CONVOLUTION_SPATIAL_DIMS = 106,
    TCC_CUDNN_ENGINEHEUR_MODE = 200,
    TCC_CUDNN_ENGINEHEUR_OPERATION_GRAPH = 201,
    TCC_CUDNN_ENGINEHEUR_RESULTS = 202,
    TCC_CUDNN_ENGINEHEUR_DEVICEPROP = 204,
    TCC_CUDNN_ENGINECFG_ENGINE = 300,
    TCC_CUDNN_ENGINECFG_KNOB_CHOICES = 302,
    TCC_CUDNN_EXECUTION_PLAN_HANDLE = 400,
    TCC_CUDNN_EXECUTION_PLAN_ENGINE_CONFIG = 401,
    TCC_CUDNN_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
    TCC_CUDNN_EXECUTION_PLAN_DEVICEPROP = 407,
    TCC_CUDNN_KNOB_CHOICE_KNOB_TYPE = 600,
    TCC_CUDNN_KNOB_CHOICE_KNOB_VALUE = 601,
    TCC_CUDNN_CONVOLUTION_FORWARD_ALPHA = 700,    /* then BETA, CONV_DESC, W, X, Y */
    TCC_CUDNN_CONVOLUTION_BWD_DATA_ALPHA = 706,   /* then BETA, CONV_DESC, W, DX, DY */
    TCC_CUDNN_CONVOLUTION_BWD_FILTER_ALPHA = 712, /* then BETA, CONV_DESC, DW, X, DY */
    TCC_CUDNN_OPERATION_POINTWISE_PW_DESCRIPTOR = 750,
    TCC_CUDNN_OPERATION_POINTWISE_XDESC = 751,
    TCC_CUDNN_OPERATION_POINTWISE_BDESC = 752,
    TCC_CUDNN_OPERATION_POINTWISE_YDESC = 753,
    TCC_CUDNN_OPERATION_POINTWISE_TDESC = 758,
    TCC_CUDNN_OPERATIONGRAPH_HANDLE = 800,
    TCC_CUDNN_OPERATIONGRAPH_OPS = 801,
    TCC_CUDNN_TENSOR_BYTE_ALIGNMENT = 900,
    TCC_CUDNN_TENSOR_DATA_TYPE = 901,
    TCC_CUDNN_TENSOR_DIMENSIONS = 902,
    TCC_CUDNN_TENSOR_STRIDES = 903,
    TCC_CUDNN_TENSOR_UNIQUE_ID = 906,
    TCC_CUDNN_TENSOR_IS_VIRTUAL = 907,
    TCC_CUDNN_TENSOR_IS_BY_VALUE = 908,
    TCC_CUDNN_VARIANT_PACK_UNIQUE_IDS = 1000,
    TCC_CUDNN_VARIANT_PACK_DATA_POINTERS = 1001,
    TCC_CUDNN_VARIANT_PACK_WORKSPACE = 1003,
    TCC_CUDNN_ENGINE_GLOBAL_INDEX = 1301,
    TCC_CUDNN_ENGINE_NUMERICAL_NOTE = 1303,
    TCC_CUDNN_MATMUL_COMP_TYPE = 1500,
    TCC_CUDNN_OPERATION_MATMUL_ADESC = 1520,
    TCC_CUDNN_OPERATION_MATMUL_BDESC = 1521,
    TCC_CUDNN_OPERATION_MATMUL_CDESC = 1522,
    TCC_CUDNN_OPERATION_MATMUL_DESC = 1523,
    TCC_CUDNN_REDUCTION_OPERATOR = 1600,
    TCC_CUDNN_REDUCTION_COMP_TYPE = 1601,
    TCC_CUDNN_OPERATION_REDUCTION_XDESC = 1610,
    TCC_CUDNN_OPERATION_REDUCTION_YDESC = 1611,
    TCC_CUDNN_OPERATION_REDUCTION_DESC = 1612,
    TCC_CUDNN_OPERATION_NORM_FWD_MODE = 2000,
    TCC_CUDNN_OPERATION_NORM_FWD_PHASE = 2001,
    TCC_CUDNN_OPERATION_NORM_FWD_XDESC = 2002,
    TCC_CUDNN_OPERATION_NORM_FWD_MEAN_DESC = 2003,
    TCC_CUDNN_OPERATION_NORM_FWD_INV_VARIANCE_DESC = 2004,
    TCC_CUDNN_OPERATION_NORM_FWD_SCALE_DESC = 2005,
    TCC_CUDNN_OPERATION_NORM_FWD_BIAS_DESC = 2006,
    TCC_CUDNN_OPERATION_NORM_FWD_EPSILON_DESC = 2007,
    TCC_CUDNN_OPERATION_NORM_FWD_YDESC = 2013,
    TCC_CUDNN_OPERATION_NORM_BWD_MODE = 2100,
    TCC_CUDNN_OPERATION_NORM_BWD_XDESC = 2101,
    TCC_CUDNN_OPERATION_NORM_BWD_MEAN_DESC = 2102,
    TCC_CUDNN_OPERATION_NORM_BWD_INV_VARIANCE_DESC = 2103,
    TCC_CUDNN_OPERATION_NORM_BWD_DYDESC = 2104,
    TCC_CUDNN_OPERATION_NORM_BWD_SCALE_DESC = 2105,
    TCC_CUDNN_OPERATION_NORM_BWD_DSCALE_DESC = 2107,
    TCC_CUDNN_OPERATION_NORM_BWD_DBIAS_DESC = 2108,
    TCC_CUDNN_OPERATION_NORM_BWD_DXDESC = 2109,
    TCC_CUDNN_OPERATION_RESHAPE_XDESC = 2200,
    TCC_CUDNN_OPERATION_RESHAPE_YDESC = 2201,
    TCC_CUDNN_DEVICEPROP_JSON_REPRESENTATION = 2702,
};

/* cudnnConvolutionMode_t, cudnnBackendHeurMode_t, cudnnPointwiseMode_t, cudnnReduceTensorOp_t, cudnnBackendNormMode_t,
 * cudnnBackendNormFwdPhase_t, cudnnBackendNumericalNote_t */
enum {
    TCC_CUDNN_CROSS_CORRELATION = 1,
    TCC_CUDNN_HEUR_MODE_FALLBACK = 2,
    TCC_CUDNN_HEUR_MODE_A = 3,
    TCC_CUDNN_POINTWISE_ADD = 0,
    TCC_CUDNN_POINTWISE_MUL = 1,
    TCC_CUDNN_POINTWISE_DIV = 6,
    TCC_CUDNN_POINTWISE_SUB = 9,
    TCC_CUDNN_POINTWISE_EXP = 13,
    TCC_CUDNN_POINTWISE_LOG = 15,
    TCC_CUDNN_POINTWISE_RELU_FWD = 100,
    TCC_CUDNN_POINTWISE_CMP_GE = 303,
    TCC_CUDNN_POINTWISE_GEN_INDEX = 501,
    TCC_CUDNN_POINTWISE_BINARY_SELECT = 601,
    TCC_CUDNN_REDUCE_ADD = 0,
    TCC_CUDNN_REDUCE_MAX = 3,
    TCC_CUDNN_BATCH_NORM = 2,
    TCC_CUDNN_NORM_FWD_TRAINING = 1,
    TCC_CUDNN_NOTE_TENSOR_CORE = 0,
    TCC_CUDNN_NOTE_DOWN_CONVERT_INPUTS = 1,
    TCC_CUDNN_NOTE_REDUCED_PRECISION_REDUCTION = 2,
    TCC_CUDNN_NOTE_FFT = 3,
    TCC_CUDNN_NOTE_NONDETERMINISTIC = 4,
    TCC_CUDNN_NOTE_WINOGRAD_TILE_13X13 = 8,
    TCC_CUDNN_NOTE_STRICT_NAN_PROP = 9,
};

/* Handles and descriptors are opaque. */
#define TCC_CUDNN_CALLS(X)                                                                                \
    X(create, tcc_cudnn_status, "cudnnCreate", (void **handle))                                           \
    X(destroy, tcc_cudnn_status, "cudnnDestroy", (void *handle))                                          \
    X(set_stream, tcc_cudnn_status, "cudnnSetStream", (void *handle, tcc_cuda_stream stream))             \
    X(version, size_t, "cudnnGetVersion", (void))                                                         \
    X(error_string, const char *, "cudnnGetErrorString", (tcc_cudnn_status status))                       \
    X(descriptor_create, tcc_cudnn_status, "cudnnBackendCreateDescriptor", (int type, void **descriptor)) \
    X(descriptor_destroy, tcc_cudnn_status, "cudnnBackendDestroyDescriptor", (void *descriptor))          \
    X(finalize, tcc_cudnn_status, "cudnnBackendFinalize", (void *descriptor))                             \
    X(set_attribute, tcc_cudnn_status, "cudnnBackendSetAttribute",                                        \
      (void *descriptor, int attribute, int type, int64_t count, const void *elements))                   \
    X(get_attribute, tcc_cudnn_status, "cudnnBackendGetAttribute",                                        \
      (void *descriptor, int attribute, int type, int64_t asked, int64_t *count, void *elements))         \
    X(execute, tcc_cudnn_status, "cudnnBackendExecute", (void *handle, void *plan, void *variant_pack))

typedef struct tcc_cudnn_functions {
#define X(field, result, symbol, parameters) result(*field) parameters;
    TCC_CUDNN_CALLS(X)
#undef X
    void (*last_error)(char *message, size_t bytes); /* cudnnGetLastErrorString; NULL: the library lacks it */
} tcc_cudnn_functions;

/* The library, found or not. */
typedef struct tcc_cudnn_library {
    bool usable;
    tcc_cudnn_functions f;
    char text[TCC_VENDOR_TEXT]; /* "9.19.0 (/usr/local/...)", or why not */
} tcc_cudnn_library;

/* The library on a device. */
/* What became of asking an engine for max(0, x) behind convolutions of that kind. */
typedef struct tcc_cudnn_verdict {
    int64_t engine, type, allow_tf32, bias;
    const char *differs; /* how the engine's is another; NULL: it is not */
} tcc_cudnn_verdict;
enum { TCC_CUDNN_MOST_VERDICTS = 32 };

typedef struct tcc_cudnn {
    tcc_cudnn_library library;
    void *handle;             /* made when a call first wants it */
    tcc_cudnn_status refused; /* by cudnnCreate or cudnnSetStream; not asked again */
    char refused_words[256];
    tcc_cuda_stream stream;
    void
        *properties; /* without a handle: a finalized DEVICEPROP descriptor, by which plans are made that are not run */
    tcc_cudnn_verdict verdicts[TCC_CUDNN_MOST_VERDICTS];
    int n_verdicts;
} tcc_cudnn;

/* Look for the library and its functions; needs no device. */
void tcc_cudnn_find(tcc_cudnn_library *out);
extern const tcc_vendor_library tcc__cudnn_library;
/* The device's library with a handle on its compute stream; entered. Borrowed. Errors: TCC_EUNSUPPORTED (not found, too
 * old), TCC_EDEVICE, TCC_ENOMEM. */
tcc_status tcc__cudnn_open(tcc_device_cuda *cuda, tcc_diag *d, const tcc_cudnn **out);
void tcc__cudnn_close(tcc_device_cuda *cuda);

/* Report a failed call: "cudnnBackendFinalize: CUDNN_STATUS_NOT_SUPPORTED (its own words)". TCC_EUNSUPPORTED where the
 * library does not do what it was asked, TCC_ENOMEM where memory is short, else TCC_EDEVICE. */
tcc_status tcc__cudnn_failed(const tcc_cudnn_functions *f, tcc_diag *d, tcc_cudnn_status result, const char *call);
#define TCC_CUDNN_TRY(f_, d_, field, ...)                                                      \
    do {                                                                                       \
        tcc_cudnn_status result_ = (f_)->field(__VA_ARGS__);                                   \
        if (result_) return tcc__cudnn_failed((f_), (d_), result_, tcc__cudnn_symbol_##field); \
    } while (0)
#define X(field, result, symbol, parameters) \
    static const char tcc__cudnn_symbol_##field[] __attribute__((unused)) = symbol;
TCC_CUDNN_CALLS(X)
#undef X

#endif
