/* SPDX-License-Identifier: MIT
 * A libcuda.so.1 of a machine without a device, as far as the real cuDNN wants one before it compiles kernels for a
 * device that it is only told about: code is taken and kernels in it are found; everything else says
 * CUDA_ERROR_NO_DEVICE. */

enum { NO_DEVICE = 100 };

static int found; /* what every handle points to */

int cuLibraryLoadData(void **library);
int cuLibraryGetKernel(void **kernel);

int cuLibraryLoadData(void **library) {
    *library = &found;
    return 0;
}

int cuLibraryGetKernel(void **kernel) {
    *kernel = &found;
    return 0;
}

#define REFUSED(name) \
    int name(void);   \
    int name(void) { return NO_DEVICE; }

REFUSED(cuCtxGetCurrent)
REFUSED(cuCtxGetDevice)
REFUSED(cuCtxGetLimit)
REFUSED(cuCtxPopCurrent)
REFUSED(cuCtxPushCurrent)
REFUSED(cuDeviceGet)
REFUSED(cuDeviceGetAttribute)
REFUSED(cuDeviceGetCount)
REFUSED(cuDevicePrimaryCtxRelease)
REFUSED(cuDevicePrimaryCtxReset)
REFUSED(cuDevicePrimaryCtxRetain)
REFUSED(cuDriverGetVersion)
REFUSED(cuFuncGetAttribute)
REFUSED(cuFuncSetAttribute)
REFUSED(cuGetErrorName)
REFUSED(cuGetErrorString)
REFUSED(cuInit)
REFUSED(cuKernelGetAttribute)
REFUSED(cuKernelSetAttribute)
REFUSED(cuLaunchCooperativeKernel)
REFUSED(cuLaunchKernel)
REFUSED(cuLaunchKernelEx)
REFUSED(cuLibraryLoadFromFile)
REFUSED(cuLibraryUnload)
REFUSED(cuLinkAddData)
REFUSED(cuLinkAddData_v2)
REFUSED(cuLinkAddFile_v2)
REFUSED(cuLinkComplete)
REFUSED(cuLinkCreate)
REFUSED(cuLinkCreate_v2)
REFUSED(cuLinkDestroy)
REFUSED(cuMemcpyDtoH_v2)
REFUSED(cuModuleGetFunction)
REFUSED(cuModuleGetGlobal_v2)
REFUSED(cuModuleLoadData)
REFUSED(cuModuleLoadDataEx)
REFUSED(cuModuleLoadFatBinary)
REFUSED(cuModuleUnload)
REFUSED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
REFUSED(cuOccupancyMaxPotentialClusterSize)
REFUSED(cuStreamGetCtx)
REFUSED(cuStreamSynchronize)
REFUSED(cuTensorMapEncodeTiled)
