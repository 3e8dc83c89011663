/* SPDX-License-Identifier: MIT
 * cuBLASLt as this runtime uses it: one row an entry point, found in libcublasLt.so.12 or .13 at run time, so that
 * neither its header nor the library is needed to build. Signatures, names and values are those of its public
 * reference. */
#ifndef TCC_RUNTIME_CUDA_CUBLASLT_H
#define TCC_RUNTIME_CUDA_CUBLASLT_H

#include "runtime/cuda/context.h"
#include "runtime/cuda/vendor.h"

typedef int tcc_cublas_status; /* 0: CUBLAS_STATUS_SUCCESS */
enum {
    TCC_CUBLAS_ALLOC_FAILED = 3,   /* CUBLAS_STATUS_ALLOC_FAILED */
    TCC_CUBLAS_INVALID_VALUE = 7,  /* CUBLAS_STATUS_INVALID_VALUE */
    TCC_CUBLAS_ARCH_MISMATCH = 8,  /* CUBLAS_STATUS_ARCH_MISMATCH */
    TCC_CUBLAS_NOT_SUPPORTED = 15, /* CUBLAS_STATUS_NOT_SUPPORTED */
};

/* cudaDataType_t, cublasComputeType_t, cublasOperation_t, cublasLtEpilogue_t */
enum {
    TCC_CUDA_R_32F = 0,
    TCC_CUDA_R_64F = 1,
    TCC_CUDA_R_16F = 2,
    TCC_CUDA_R_16BF = 14,
    TCC_CUBLAS_COMPUTE_32F = 68,
    TCC_CUBLAS_COMPUTE_64F = 70,
    TCC_CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
    TCC_CUBLAS_OP_N = 0,
    TCC_CUBLAS_OP_T = 1,
    TCC_CUBLASLT_EPILOGUE_DEFAULT = 1,
    TCC_CUBLASLT_EPILOGUE_RELU = 2, /* this one and the following: their sums do several at once */
    TCC_CUBLASLT_EPILOGUE_BIAS = 4,
    TCC_CUBLASLT_EPILOGUE_DRELU = 136,  /* reads bits, of which leading dimension and stride are multiples of 128 */
    TCC_CUBLASLT_EPILOGUE_GELU = 32,    /* by tanh */
    TCC_CUBLASLT_EPILOGUE_AUX = 128,    /* of GELU_AUX: GELU's input is stored */
    TCC_CUBLASLT_EPILOGUE_DGELU = 192,  /* reads it */
    TCC_CUBLASLT_EPILOGUE_BGRADA = 256, /* the bias is where sums of the first operand go, one a row of the result */
    TCC_CUBLASLT_EPILOGUE_BGRADB = 512, /* of the second one, one a column */
};

/* cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t, cublasLtMatmulPreferenceAttributes_t, with the type
 * of each value */
enum {
    TCC_CUBLASLT_MATMUL_DESC_TRANSA = 3,                 /* int32_t */
    TCC_CUBLASLT_MATMUL_DESC_TRANSB = 4,                 /* int32_t */
    TCC_CUBLASLT_MATMUL_DESC_EPILOGUE = 7,               /* uint32_t */
    TCC_CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,           /* const void * */
    TCC_CUBLASLT_MATMUL_DESC_AUX_POINTER = 11,           /* void * */
    TCC_CUBLASLT_MATMUL_DESC_AUX_LD = 12,                /* int64_t, elements; a multiple of 8 */
    TCC_CUBLASLT_MATMUL_DESC_AUX_BATCH_STRIDE = 13,      /* int64_t, elements; a multiple of 8 */
    TCC_CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,        /* int32_t */
    TCC_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,          /* int32_t */
    TCC_CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6, /* int64_t, elements */
    TCC_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,    /* uint64_t */
    TCC_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,  /* uint32_t, cublasLtReductionScheme_t */
    TCC_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,  /* uint32_t; B, C and D follow */
};

/* cublasLtReductionScheme_t, of which a mask allows several; NONE, without parts of a sum, is 0 and always allowed. The
 * others add parts in the type of the result. */
enum { TCC_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2, TCC_CUBLASLT_REDUCTION_SCHEME_MASK = 7 };

/* cublasLtMatmulAlgoConfigAttributes_t, with the type of each value */
enum {
    TCC_CUBLASLT_ALGO_CONFIG_ID = 0,         /* int32_t */
    TCC_CUBLASLT_ALGO_CONFIG_TILE_ID = 1,    /* uint32_t, as all that say nothing else */
    TCC_CUBLASLT_ALGO_CONFIG_SPLITK_NUM = 2, /* int32_t */
    TCC_CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME = 3,
    TCC_CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING = 4,
    TCC_CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION = 5,
    TCC_CUBLASLT_ALGO_CONFIG_STAGES_ID = 6,
    TCC_CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID = 7,   /* uint16_t */
    TCC_CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID = 8, /* uint16_t */
};

typedef struct tcc_cublaslt_algorithm {
    uint64_t data[8];
} tcc_cublaslt_algorithm;

/* cublasLtMatmulHeuristicResult_t */
typedef struct tcc_cublaslt_result {
    tcc_cublaslt_algorithm algorithm;
    size_t workspace_bytes;
    tcc_cublas_status state;
    float waves;
    int reserved[4];
} tcc_cublaslt_result;

/* Handles and descriptors are opaque. */
#define TCC_CUBLASLT_CALLS(X)                                                                                        \
    X(create, tcc_cublas_status, "cublasLtCreate", (void **handle))                                                  \
    X(destroy, tcc_cublas_status, "cublasLtDestroy", (void *handle))                                                 \
    X(version, size_t, "cublasLtGetVersion", (void))                                                                 \
    X(status_name, const char *, "cublasLtGetStatusName", (tcc_cublas_status status))                                \
    X(matmul_create, tcc_cublas_status, "cublasLtMatmulDescCreate", (void **desc, int compute_type, int scale_type)) \
    X(matmul_destroy, tcc_cublas_status, "cublasLtMatmulDescDestroy", (void *desc))                                  \
    X(matmul_set, tcc_cublas_status, "cublasLtMatmulDescSetAttribute",                                               \
      (void *desc, int attribute, const void *value, size_t bytes))                                                  \
    X(layout_create, tcc_cublas_status, "cublasLtMatrixLayoutCreate",                                                \
      (void **layout, int type, uint64_t rows, uint64_t columns, int64_t ld))                                        \
    X(layout_destroy, tcc_cublas_status, "cublasLtMatrixLayoutDestroy", (void *layout))                              \
    X(layout_set, tcc_cublas_status, "cublasLtMatrixLayoutSetAttribute",                                             \
      (void *layout, int attribute, const void *value, size_t bytes))                                                \
    X(preference_create, tcc_cublas_status, "cublasLtMatmulPreferenceCreate", (void **preference))                   \
    X(preference_destroy, tcc_cublas_status, "cublasLtMatmulPreferenceDestroy", (void *preference))                  \
    X(preference_set, tcc_cublas_status, "cublasLtMatmulPreferenceSetAttribute",                                     \
      (void *preference, int attribute, const void *value, size_t bytes))                                            \
    X(heuristic, tcc_cublas_status, "cublasLtMatmulAlgoGetHeuristic",                                                \
      (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int asked,                    \
       tcc_cublaslt_result *results, int *found))                                                                    \
    X(algorithm_init, tcc_cublas_status, "cublasLtMatmulAlgoInit",                                                   \
      (void *handle, int compute_type, int scale_type, int a, int b, int c, int d, int id,                           \
       tcc_cublaslt_algorithm *algorithm))                                                                           \
    X(algorithm_get, tcc_cublas_status, "cublasLtMatmulAlgoConfigGetAttribute",                                      \
      (const tcc_cublaslt_algorithm *algorithm, int attribute, void *value, size_t bytes, size_t *written))          \
    X(algorithm_set, tcc_cublas_status, "cublasLtMatmulAlgoConfigSetAttribute",                                      \
      (tcc_cublaslt_algorithm * algorithm, int attribute, const void *value, size_t bytes))                          \
    X(algorithm_check, tcc_cublas_status, "cublasLtMatmulAlgoCheck",                                                 \
      (void *handle, void *desc, void *a, void *b, void *c, void *d, const tcc_cublaslt_algorithm *algorithm,        \
       tcc_cublaslt_result *result))                                                                                 \
    X(matmul, tcc_cublas_status, "cublasLtMatmul",                                                                   \
      (void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout,    \
       const void *beta, const void *c, void *c_layout, void *d, void *d_layout,                                     \
       const tcc_cublaslt_algorithm *algorithm, void *workspace, size_t workspace_bytes, tcc_cuda_stream stream))

typedef struct tcc_cublaslt_functions {
#define X(field, result, symbol, parameters) result(*field) parameters;
    TCC_CUBLASLT_CALLS(X)
#undef X
} tcc_cublaslt_functions;

/* The library, found or not. */
typedef struct tcc_cublaslt_library {
    bool usable;
    tcc_cublaslt_functions f;
    char text[TCC_VENDOR_TEXT]; /* "13.1.0 (/usr/local/...)", or why not */
} tcc_cublaslt_library;

/* What became of asking for an activation with products of these types. */
typedef struct tcc_cublaslt_verdict {
    int64_t activation, type, type_c, allow_tf32;
    const char *differs; /* how the library's does; NULL: it does not */
} tcc_cublaslt_verdict;
enum { TCC_CUBLASLT_MOST_VERDICTS = 2 * 16 }; /* types and tf32 make fewer, for either activation */

/* The library on a device. */
typedef struct tcc_cublaslt {
    tcc_cublaslt_library library;
    void *handle;              /* made when a call first wants it */
    tcc_cublas_status refused; /* by cublasLtCreate; not asked again */
    tcc_cublaslt_verdict verdicts[TCC_CUBLASLT_MOST_VERDICTS];
    int n_verdicts;
} tcc_cublaslt;

/* Look for the library and its functions; needs no device. A driver of CUDA 12 gets cuBLASLt 12 alone. */
void tcc_cublaslt_find(const tcc_cuda_driver *driver, tcc_cublaslt_library *out);
const tcc_vendor_library *tcc__cublaslt_library(const tcc_cuda_driver *driver);
/* Open it for the device, as cuda->cublaslt with a handle; entered. Errors: TCC_EUNSUPPORTED (not found, of no use),
 * TCC_ENOMEM, TCC_EDEVICE. */
tcc_status tcc__cublaslt_open(tcc_device_cuda *cuda, tcc_diag *d);
void tcc__cublaslt_close(tcc_device_cuda *cuda);

/* Report a failed call. TCC_EUNSUPPORTED where the library cannot do what it was asked, TCC_ENOMEM where memory is
 * short, else TCC_EDEVICE. */
tcc_status tcc__cublaslt_failed(const tcc_cublaslt_functions *f, tcc_diag *d, tcc_cublas_status r, const char *call);
#define TCC_CUBLASLT_TRY(f_, d_, field, ...)                                                         \
    do {                                                                                             \
        tcc_cublas_status result_ = (f_)->field(__VA_ARGS__);                                        \
        if (result_) return tcc__cublaslt_failed((f_), (d_), result_, tcc__cublaslt_symbol_##field); \
    } while (0)
#define X(field, result, symbol, parameters) \
    static const char tcc__cublaslt_symbol_##field[] __attribute__((unused)) = symbol;
TCC_CUBLASLT_CALLS(X)
#undef X

#endif
