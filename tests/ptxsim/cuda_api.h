/* SPDX-License-Identifier: MIT
 * The part of the CUDA Driver API that the stand-in implements, declared after its public reference: names, values and
 * layouts are the driver's own, so that a program built against the real header links and runs. */
#ifndef PTXSIM_CUDA_API_H
#define PTXSIM_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUlinkState_st *CUlinkState;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;

/* name, value, text */
#define PTXSIM_ERRORS(X)                                                                                        \
    X(SUCCESS, 0, "no error")                                                                                   \
    X(ERROR_INVALID_VALUE, 1, "invalid argument")                                                               \
    X(ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                                  \
    X(ERROR_NOT_INITIALIZED, 3, "initialization error")                                                         \
    X(ERROR_DEINITIALIZED, 4, "driver shutting down")                                                           \
    X(ERROR_DEVICE_UNAVAILABLE, 46, "the device is unavailable")                                                \
    X(ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                                               \
    X(ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                                      \
    X(ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")                                               \
    X(ERROR_INVALID_CONTEXT, 201, "invalid device context")                                                     \
    X(ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image is available for execution on the device")                 \
    X(ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")                                                   \
    X(ERROR_UNSUPPORTED_PTX_VERSION, 222, "the provided PTX was compiled with an unsupported toolchain")        \
    X(ERROR_CONTAINED, 226, "Invalid access of peer GPU memory over nvlink or a hardware error")                \
    X(ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                                     \
    X(ERROR_NOT_FOUND, 500, "named symbol not found")                                                           \
    X(ERROR_NOT_READY, 600, "device not ready")                                                                 \
    X(ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")                                   \
    X(ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")                            \
    X(ERROR_LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated")                                     \
    X(ERROR_PRIMARY_CONTEXT_ACTIVE, 708, "cannot set while device is active in this process")                   \
    X(ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")                                                  \
    X(ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712, "part or all of the requested memory range is already mapped") \
    X(ERROR_HOST_MEMORY_NOT_REGISTERED, 713, "pointer does not correspond to a registered memory region")       \
    X(ERROR_ILLEGAL_INSTRUCTION, 715, "an illegal instruction was encountered")                                 \
    X(ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")                                                      \
    X(ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                                                   \
    X(ERROR_TENSOR_MEMORY_LEAK, 721, "tensor memory not completely freed")                                      \
    X(ERROR_NOT_PERMITTED, 800, "operation not permitted")                                                      \
    X(ERROR_NOT_SUPPORTED, 801, "operation not supported")                                                      \
    X(ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "operation not permitted when stream is capturing")                \
    X(ERROR_STREAM_CAPTURE_INVALIDATED, 901, "operation failed due to a previous error during capture")         \
    X(ERROR_STREAM_CAPTURE_MERGE, 902, "operation would result in a merge of separate capture sequences")       \
    X(ERROR_STREAM_CAPTURE_UNMATCHED, 903, "capture was not ended in the same stream as it began")              \
    X(ERROR_STREAM_CAPTURE_UNJOINED, 904, "capturing stream has unjoined work")                                 \
    X(ERROR_STREAM_CAPTURE_ISOLATION, 905, "dependency created on uncaptured work in another stream")           \
    X(ERROR_STREAM_CAPTURE_IMPLICIT, 906,                                                                       \
      "operation would make the legacy stream depend on a capturing blocking stream")                           \
    X(ERROR_CAPTURED_EVENT, 907, "operation not permitted on an event last recorded in a capturing stream")     \
    X(ERROR_STREAM_CAPTURE_WRONG_THREAD, 908,                                                                   \
      "attempt to terminate a thread-local capture sequence from another thread")                               \
    X(ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910,                                                                     \
      "the graph update was not performed because it included changes which violated constraints specific to "  \
      "instantiated graph update")                                                                              \
    X(ERROR_UNKNOWN, 999, "unknown error")
enum {
#define X(name, value, text) CUDA_##name = value,
    PTXSIM_ERRORS(X)
#undef X
};

enum {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
    CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY,
    CU_DEVICE_ATTRIBUTE_WARP_SIZE,
    CU_DEVICE_ATTRIBUTE_MAX_PITCH,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK,
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
    CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT,
    CU_DEVICE_ATTRIBUTE_GPU_OVERLAP,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
    CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT,
    CU_DEVICE_ATTRIBUTE_INTEGRATED,
    CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY,
    CU_DEVICE_ATTRIBUTE_COMPUTE_MODE,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS = 31,
    CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
    CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
    CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
    CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
    CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT,
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED = 78,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
    CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
    CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111,
    CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115
};
enum {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
    CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES,
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
    CU_FUNC_ATTRIBUTE_NUM_REGS,
    CU_FUNC_ATTRIBUTE_PTX_VERSION,
    CU_FUNC_ATTRIBUTE_BINARY_VERSION,
    CU_FUNC_ATTRIBUTE_CACHE_MODE_CA,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
};
enum {
    CU_JIT_MAX_REGISTERS,
    CU_JIT_THREADS_PER_BLOCK,
    CU_JIT_WALL_TIME,
    CU_JIT_INFO_LOG_BUFFER,
    CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
    CU_JIT_ERROR_LOG_BUFFER,
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    CU_JIT_OPTIMIZATION_LEVEL,
    CU_JIT_TARGET_FROM_CUCONTEXT,
    CU_JIT_TARGET
};
enum { CU_JIT_INPUT_CUBIN, CU_JIT_INPUT_PTX };
enum { CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING };
enum { CU_EVENT_DEFAULT, CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING };
enum { CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED };
enum { CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE, CU_STREAM_CAPTURE_STATUS_INVALIDATED };
enum {
    CU_GRAPH_NODE_TYPE_KERNEL,
    CU_GRAPH_NODE_TYPE_MEMCPY,
    CU_GRAPH_NODE_TYPE_MEMSET,
    CU_GRAPH_NODE_TYPE_HOST,
    CU_GRAPH_NODE_TYPE_GRAPH,
    CU_GRAPH_NODE_TYPE_EMPTY
};
enum {
    CU_POINTER_ATTRIBUTE_CONTEXT = 1,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
    CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
    CU_POINTER_ATTRIBUTE_HOST_POINTER,
    CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE
};
enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2 };
#define CU_STREAM_LEGACY ((CUstream)1)
#define CU_STREAM_PER_THREAD ((CUstream)2)
#define CU_LAUNCH_PARAM_END ((void *)0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)

typedef struct CUDA_KERNEL_NODE_PARAMS_v2 {
    CUfunction func;
    unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void **kernelParams, **extra;
    void *kern;
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;

typedef struct CUgraphExecUpdateResultInfo_v1 {
    int result;
    CUgraphNode errorNode, errorFromNode;
} CUgraphExecUpdateResultInfo;

#define CUAPI __attribute__((visibility("default"))) CUresult
CUAPI cuInit(unsigned int flags);
CUAPI cuDriverGetVersion(int *version);
CUAPI cuGetErrorName(CUresult error, const char **name);
CUAPI cuGetErrorString(CUresult error, const char **text);
CUAPI cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status);
CUAPI cuDeviceGet(CUdevice *device, int ordinal);
CUAPI cuDeviceGetCount(int *count);
CUAPI cuDeviceGetName(char *name, int size, CUdevice device);
CUAPI cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
CUAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUAPI cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUAPI cuDevicePrimaryCtxReset_v2(CUdevice device);
CUAPI cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active);
CUAPI cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUAPI cuCtxDestroy_v2(CUcontext context);
CUAPI cuCtxSetCurrent(CUcontext context);
CUAPI cuCtxGetCurrent(CUcontext *context);
CUAPI cuCtxPushCurrent_v2(CUcontext context);
CUAPI cuCtxPopCurrent_v2(CUcontext *context);
CUAPI cuCtxGetDevice(CUdevice *device);
CUAPI cuCtxSynchronize(void);
CUAPI cuCtxGetStreamPriorityRange(int *least, int *greatest);
CUAPI cuLinkCreate_v2(unsigned int count, int *options, void **values, CUlinkState *link);
CUAPI cuLinkAddData_v2(CUlinkState link, int type, void *data, size_t size, const char *name, unsigned int count,
                       int *options, void **values);
CUAPI cuLinkComplete(CUlinkState link, void **machine, size_t *size);
CUAPI cuLinkDestroy(CUlinkState link);
CUAPI cuModuleLoadData(CUmodule *module, const void *image);
CUAPI cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, int *options, void **values);
CUAPI cuModuleUnload(CUmodule module);
CUAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUAPI cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name);
CUAPI cuFuncGetAttribute(int *value, int attribute, CUfunction function);
CUAPI cuFuncSetAttribute(CUfunction function, int attribute, int value);
CUAPI cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                     unsigned shared, CUstream stream, void **params, void **extra);
CUAPI cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *user);
CUAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared);
CUAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads, size_t shared,
                                                           unsigned int flags);
CUAPI cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, size_t (*shared_of)(int),
                                       size_t shared, int limit);
CUAPI cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
CUAPI cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUAPI cuMemFree_v2(CUdeviceptr address);
CUAPI cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream);
CUAPI cuMemFreeAsync(CUdeviceptr address, CUstream stream);
CUAPI cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address);
CUAPI cuMemAllocHost_v2(void **host, size_t bytes);
CUAPI cuMemHostAlloc(void **host, size_t bytes, unsigned int flags);
CUAPI cuMemFreeHost(void *host);
CUAPI cuMemHostRegister_v2(void *host, size_t bytes, unsigned int flags);
CUAPI cuMemHostUnregister(void *host);
CUAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *host, unsigned int flags);
CUAPI cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address);
CUAPI cuPointerGetAttributes(unsigned int count, int *attributes, void **values, CUdeviceptr address);
CUAPI cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUAPI cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUAPI cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUAPI cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUAPI cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
CUAPI cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
CUAPI cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUAPI cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
CUAPI cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count);
CUAPI cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count);
CUAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream);
CUAPI cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream);
CUAPI cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream);
CUAPI cuStreamCreate(CUstream *stream, unsigned int flags);
CUAPI cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority);
CUAPI cuStreamDestroy_v2(CUstream stream);
CUAPI cuStreamSynchronize(CUstream stream);
CUAPI cuStreamQuery(CUstream stream);
CUAPI cuStreamGetCtx(CUstream stream, CUcontext *context);
CUAPI cuStreamGetFlags(CUstream stream, unsigned int *flags);
CUAPI cuStreamGetPriority(CUstream stream, int *priority);
CUAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
CUAPI cuStreamBeginCapture_v2(CUstream stream, int mode);
CUAPI cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUAPI cuStreamIsCapturing(CUstream stream, int *status);
CUAPI cuEventCreate(CUevent *event, unsigned int flags);
CUAPI cuEventRecord(CUevent event, CUstream stream);
CUAPI cuEventQuery(CUevent event);
CUAPI cuEventSynchronize(CUevent event);
CUAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
CUAPI cuEventDestroy_v2(CUevent event);
CUAPI cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUAPI cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUAPI cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *result);
CUAPI cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params);
CUAPI cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params);
CUAPI cuGraphNodeGetType(CUgraphNode node, int *type);
CUAPI cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
CUAPI cuGraphExecDestroy(CUgraphExec exec);
CUAPI cuGraphDestroy(CUgraph graph);

#endif
