/* SPDX-License-Identifier: MIT
 * The CUDA Driver API as this runtime uses it: one row an entry point, found in libcuda.so.1 at run time, so that no
 * header and no library of NVIDIA's is needed to build, and the same binary runs where there is no driver. Signatures
 * and values are those of the driver API's public reference; names carry the version that its header maps them to. */
#ifndef TCC_RUNTIME_CUDA_DRIVER_H
#define TCC_RUNTIME_CUDA_DRIVER_H

#include "ir/support/diag.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

typedef int tcc_cuda_result; /* 0: success */
typedef int tcc_cuda_ordinal;
typedef unsigned long long tcc_cuda_address;
typedef struct tcc_cuda_context_st *tcc_cuda_context;
typedef struct tcc_cuda_module_st *tcc_cuda_module;
typedef struct tcc_cuda_link_st *tcc_cuda_link;
typedef struct tcc_cuda_function_st *tcc_cuda_function;
typedef struct tcc_cuda_stream_st *tcc_cuda_stream;
typedef struct tcc_cuda_event_st *tcc_cuda_event;
typedef struct tcc_cuda_graph_st *tcc_cuda_graph;
typedef struct tcc_cuda_graph_exec_st *tcc_cuda_graph_exec;

/* Results that are told apart. */
enum {
    TCC_CUDA_INVALID_VALUE = 1,
    TCC_CUDA_OUT_OF_MEMORY = 2,
    TCC_CUDA_STUB_LIBRARY = 34,
    TCC_CUDA_DEVICE_UNAVAILABLE = 46,
    TCC_CUDA_NO_DEVICE = 100,
    TCC_CUDA_ECC_UNCORRECTABLE = 214,
    TCC_CUDA_UNSUPPORTED_PTX_VERSION = 222,
    TCC_CUDA_CONTAINED = 226,
    TCC_CUDA_NOT_FOUND = 500,
    TCC_CUDA_NOT_READY = 600,
    TCC_CUDA_ILLEGAL_ADDRESS = 700,
    TCC_CUDA_LAUNCH_TIMEOUT = 702,
    TCC_CUDA_ASSERT = 710,
    TCC_CUDA_HARDWARE_STACK_ERROR = 714,
    TCC_CUDA_ILLEGAL_INSTRUCTION = 715,
    TCC_CUDA_MISALIGNED_ADDRESS = 716,
    TCC_CUDA_INVALID_ADDRESS_SPACE = 717,
    TCC_CUDA_INVALID_PC = 718,
    TCC_CUDA_LAUNCH_FAILED = 719,
    TCC_CUDA_TENSOR_MEMORY_LEAK = 721,
    TCC_CUDA_SYSTEM_DRIVER_MISMATCH = 803
};

/* Of cuDeviceGetAttribute. */
enum {
    TCC_CUDA_THREADS_PER_BLOCK = 1,
    TCC_CUDA_SHARED_BYTES = 8, /* of a block */
    TCC_CUDA_CLOCK_KHZ = 13,
    TCC_CUDA_SM_COUNT = 16,
    TCC_CUDA_COMPUTE_MODE = 20,
    TCC_CUDA_MEMORY_CLOCK_KHZ = 36,
    TCC_CUDA_MEMORY_BUS_BITS = 37,
    TCC_CUDA_CACHE_BYTES = 38, /* L2 */
    TCC_CUDA_THREADS_PER_SM = 39,
    TCC_CUDA_CAPABILITY_MAJOR = 75,
    TCC_CUDA_CAPABILITY_MINOR = 76,
    TCC_CUDA_SHARED_BYTES_PER_SM = 81,
    TCC_CUDA_REGISTERS_PER_SM = 82,
    TCC_CUDA_SHARED_OPTIN_BYTES = 97, /* of a block that asks for it */
    TCC_CUDA_BLOCKS_PER_SM = 106,
    TCC_CUDA_SHARED_RESERVED_BYTES = 111 /* by the driver, of a block */
};
enum { TCC_CUDA_COMPUTE_MODE_PROHIBITED = 2 };
enum { TCC_CUDA_FUNCTION_LOCAL_BYTES = 3, TCC_CUDA_FUNCTION_MAX_DYNAMIC_SHARED_BYTES = 8 };
enum { TCC_CUDA_JIT_ERROR_LOG = 5, TCC_CUDA_JIT_ERROR_LOG_BYTES = 6 };
enum { TCC_CUDA_INPUT_PTX = 1 }; /* of cuLinkAddData */
enum { TCC_CUDA_STREAM_NON_BLOCKING = 1 };
enum { TCC_CUDA_EVENT_DEFAULT = 0, TCC_CUDA_EVENT_NO_TIMING = 2 };
/* Of cuPointerGetAttributes, and the types of memory that it knows. */
enum { TCC_CUDA_POINTER_TYPE = 2, TCC_CUDA_POINTER_MANAGED = 8, TCC_CUDA_POINTER_ORDINAL = 9 };
enum { TCC_CUDA_HOST_MEMORY = 1, TCC_CUDA_DEVICE_MEMORY = 2 };
/* A capture that calls of other threads do not disturb. */
enum { TCC_CUDA_CAPTURE_THREAD_LOCAL = 1 };
enum { TCC_CUDA_CAPTURE_ACTIVE = 1 }; /* of cuStreamIsCapturing */

/* field of tcc_cuda_driver, symbol, parameters */
#define TCC_CUDA_CALLS(X)                                                                                             \
    X(init, "cuInit", (unsigned flags))                                                                               \
    X(driver_version, "cuDriverGetVersion", (int *version))                                                           \
    X(error_name, "cuGetErrorName", (tcc_cuda_result result, const char **name))                                      \
    X(error_text, "cuGetErrorString", (tcc_cuda_result result, const char **text))                                    \
    X(device_count, "cuDeviceGetCount", (int *count))                                                                 \
    X(device_get, "cuDeviceGet", (tcc_cuda_ordinal * device, int ordinal))                                            \
    X(device_name, "cuDeviceGetName", (char *name, int size, tcc_cuda_ordinal device))                                \
    X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, tcc_cuda_ordinal device))                 \
    X(device_memory, "cuDeviceTotalMem_v2", (size_t *bytes, tcc_cuda_ordinal device))                                 \
    X(context_retain, "cuDevicePrimaryCtxRetain", (tcc_cuda_context * context, tcc_cuda_ordinal device))              \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (tcc_cuda_ordinal device))                                     \
    X(context_push, "cuCtxPushCurrent_v2", (tcc_cuda_context context))                                                \
    X(context_pop, "cuCtxPopCurrent_v2", (tcc_cuda_context * context))                                                \
    X(memory_info, "cuMemGetInfo_v2", (size_t *free_bytes, size_t *total))                                            \
    X(alloc, "cuMemAlloc_v2", (tcc_cuda_address * address, size_t bytes))                                             \
    X(free, "cuMemFree_v2", (tcc_cuda_address address))                                                               \
    X(host_alloc, "cuMemHostAlloc", (void **host, size_t bytes, unsigned flags))                                      \
    X(host_free, "cuMemFreeHost", (void *host))                                                                       \
    X(host_register, "cuMemHostRegister_v2", (void *host, size_t bytes, unsigned flags))                              \
    X(host_unregister, "cuMemHostUnregister", (void *host))                                                           \
    X(copy_to_device, "cuMemcpyHtoDAsync_v2",                                                                         \
      (tcc_cuda_address to, const void *from, size_t bytes, tcc_cuda_stream stream))                                  \
    X(copy_to_host, "cuMemcpyDtoHAsync_v2", (void *to, tcc_cuda_address from, size_t bytes, tcc_cuda_stream stream))  \
    X(copy, "cuMemcpyDtoDAsync_v2",                                                                                   \
      (tcc_cuda_address to, tcc_cuda_address from, size_t bytes, tcc_cuda_stream stream))                             \
    X(pointer_get, "cuPointerGetAttributes",                                                                          \
      (unsigned count, int *attributes, void **values, tcc_cuda_address address))                                     \
    X(module_load, "cuModuleLoadDataEx",                                                                              \
      (tcc_cuda_module * module, const void *image, unsigned count, int *options, void **values))                     \
    X(link_create, "cuLinkCreate_v2", (unsigned count, int *options, void **values, tcc_cuda_link *link))             \
    X(link_add, "cuLinkAddData_v2",                                                                                   \
      (tcc_cuda_link link, int kind, void *data, size_t bytes, const char *name, unsigned count, int *options,        \
       void **values))                                                                                                \
    X(link_complete, "cuLinkComplete", (tcc_cuda_link link, void **image, size_t *bytes))                             \
    X(link_destroy, "cuLinkDestroy", (tcc_cuda_link link))                                                            \
    X(module_unload, "cuModuleUnload", (tcc_cuda_module module))                                                      \
    X(module_function, "cuModuleGetFunction",                                                                         \
      (tcc_cuda_function * function, tcc_cuda_module module, const char *name))                                       \
    X(function_get, "cuFuncGetAttribute", (int *value, int attribute, tcc_cuda_function function))                    \
    X(function_set, "cuFuncSetAttribute", (tcc_cuda_function function, int attribute, int value))                     \
    X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                                                       \
      (int *blocks, tcc_cuda_function function, int threads, size_t shared))                                          \
    X(launch, "cuLaunchKernel",                                                                                       \
      (tcc_cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,               \
       unsigned block_y, unsigned block_z, unsigned shared, tcc_cuda_stream stream, void **parameters, void **extra)) \
    X(stream_create, "cuStreamCreate", (tcc_cuda_stream * stream, unsigned flags))                                    \
    X(stream_destroy, "cuStreamDestroy_v2", (tcc_cuda_stream stream))                                                 \
    X(stream_synchronize, "cuStreamSynchronize", (tcc_cuda_stream stream))                                            \
    X(stream_context, "cuStreamGetCtx", (tcc_cuda_stream stream, tcc_cuda_context * context))                         \
    X(stream_query, "cuStreamQuery", (tcc_cuda_stream stream))                                                        \
    X(stream_wait, "cuStreamWaitEvent", (tcc_cuda_stream stream, tcc_cuda_event event, unsigned flags))               \
    X(event_create, "cuEventCreate", (tcc_cuda_event * event, unsigned flags))                                        \
    X(event_destroy, "cuEventDestroy_v2", (tcc_cuda_event event))                                                     \
    X(event_record, "cuEventRecord", (tcc_cuda_event event, tcc_cuda_stream stream))                                  \
    X(event_synchronize, "cuEventSynchronize", (tcc_cuda_event event))                                                \
    X(event_query, "cuEventQuery", (tcc_cuda_event event))                                                            \
    X(event_elapsed, "cuEventElapsedTime", (float *milliseconds, tcc_cuda_event start, tcc_cuda_event end))

/* Those of graphs, which drivers before CUDA 11.4 do not have all: then capture_begin is NULL, and nothing is replayed.
 */
#define TCC_CUDA_GRAPH_CALLS(X)                                                            \
    X(capture_begin, "cuStreamBeginCapture_v2", (tcc_cuda_stream stream, int mode))        \
    X(capture_end, "cuStreamEndCapture", (tcc_cuda_stream stream, tcc_cuda_graph * graph)) \
    X(capture_state, "cuStreamIsCapturing", (tcc_cuda_stream stream, int *state))          \
    X(graph_destroy, "cuGraphDestroy", (tcc_cuda_graph graph))                             \
    X(graph_make, "cuGraphInstantiateWithFlags",                                           \
      (tcc_cuda_graph_exec * exec, tcc_cuda_graph graph, unsigned long long flags))        \
    X(graph_launch, "cuGraphLaunch", (tcc_cuda_graph_exec exec, tcc_cuda_stream stream))   \
    X(graph_free, "cuGraphExecDestroy", (tcc_cuda_graph_exec exec))

typedef struct tcc_cuda_driver {
    void *handle; /* stays open: the driver keeps threads of its own */
    int version;  /* of CUDA that it speaks: 12080 is 12.8 */
    char file[PATH_MAX];
#define X(field, symbol, parameters) tcc_cuda_result(*field) parameters;
    TCC_CUDA_CALLS(X)
    TCC_CUDA_GRAPH_CALLS(X)
#undef X
} tcc_cuda_driver;

/* Find and start the driver: TCC_CUDA_PATH (the file, or a folder with it in itself, in lib64 or in lib), what the
 * loader finds, then the folders where drivers lie that the loader does not know (NVIDIA's containers, WSL). Errors:
 * TCC_EUNSUPPORTED (no driver, too old, no device), TCC_EDEVICE (it fails to start); each says what to do. */
tcc_status tcc_cuda_driver_open(tcc_diag *d, tcc_cuda_driver *out);

/* Record a failed call: "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (out of memory)". TCC_ENOMEM where memory is short,
 * else TCC_EDEVICE. */
tcc_status tcc_cuda_error(const tcc_cuda_driver *driver, tcc_diag *d, tcc_cuda_result result, const char *call);
/* The driver's name of a result, "CUDA_ERROR_LAUNCH_FAILED". */
const char *tcc_cuda_error_name(const tcc_cuda_driver *driver, tcc_cuda_result result);
/* No call succeeds in this process on this device after such a result. */
bool tcc_cuda_is_sticky(tcc_cuda_result result);

/* A library of CUDA's beside the driver: `files` are names, best first, NULL at the end. Searched: TCC_CUDA_PATH as
 * above, the loader's path, /usr/local/cuda and its versions, and the folders nvidia/NAME/lib in the site-packages of
 * Python: that of VIRTUAL_ENV, of CONDA_PREFIX, of the python3 on PATH, then the user's and the system's. The handle of
 * dlopen, and where it was found; NULL: nowhere. */
void *tcc_cuda_library_open(const char *const *files, char file[PATH_MAX]);

#endif
