/* SPDX-License-Identifier: MIT
 * Allocation, pinned memory, copies and sets. */
#include "api.h"

#include <sys/mman.h>

/* Frees go on after a sticky error, so that what is alive at exit is what was forgotten. */
static CUresult enter_free(const char *name) {
    CUresult r = api_enter_as(name, true);
    return r && r == sim.sticky ? CUDA_SUCCESS : r;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    ENTER(true);
    if (free_bytes) *free_bytes = sim_memory_total() - sim_memory_used();
    if (total) *total = sim_memory_total();
    return api_leave(CUDA_SUCCESS);
}

static CUresult allocate(CUdeviceptr *address, size_t bytes) {
    if (!address || !bytes) return CUDA_ERROR_INVALID_VALUE;
    if (api_fault(PTXSIM_FAULT_ALLOC)) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_alloc *a = sim_memory_alloc(bytes, false);
    if (!a) return CUDA_ERROR_OUT_OF_MEMORY;
    a->device = api_context()->device;
    *address = a->base;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    ENTER(true);
    CUresult r = stream_forbid_capture();
    return api_leave(r ? r : allocate(address, bytes));
}

static sim_alloc *device_allocation(CUdeviceptr address) {
    sim_alloc *a = sim_memory_find(address);
    return a && !a->host && !a->hidden && a->base == address ? a : NULL;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    CUresult r = enter_free(__func__);
    if (r) return api_leave(r);
    if (!address) return api_leave(sim.sticky);
    r = stream_forbid_capture();
    if (r) return api_leave(r);
    stream_complete_all(); /* freeing waits for the device */
    sim_alloc *a = device_allocation(address);
    if (!a) {
        char where[160];
        sim_memory_describe(address, where, sizeof where);
        sim_report("free of 0x%llx, which is no allocation: %s", address, where);
        return api_leave(CUDA_ERROR_INVALID_VALUE);
    }
    sim_memory_free(a);
    return api_leave(sim.sticky);
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream) {
    ENTER(true);
    CUstream s = stream_find(stream);
    if (!s) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    if (s->capture) return api_leave(CUDA_ERROR_NOT_SUPPORTED);
    return api_leave(allocate(address, bytes));
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    CUresult r = enter_free(__func__);
    if (r) return api_leave(r);
    CUstream s = stream_find(stream);
    if (!s || !device_allocation(address)) return api_leave(CUDA_ERROR_INVALID_VALUE);
    if (s->capture) return api_leave(CUDA_ERROR_NOT_SUPPORTED);
    sim_work work = {.kind = WORK_FREE, .to = address};
    if (sim.sticky) sim_memory_free(device_allocation(address));
    else r = stream_enqueue(s, &work, NULL, 0, NULL);
    return api_leave(r ? r : sim.sticky);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address) {
    ENTER(true);
    sim_alloc *a = sim_memory_find(address);
    if (!a || a->host) return api_leave(CUDA_ERROR_NOT_FOUND);
    if (base) *base = a->base;
    if (size) *size = a->size;
    return api_leave(CUDA_SUCCESS);
}

/* --- pinned host memory */

CUresult cuMemHostAlloc(void **host, size_t bytes, unsigned int flags) {
    ENTER(true);
    (void)flags;
    if (!host || !bytes) return api_leave(CUDA_ERROR_INVALID_VALUE);
    if (api_fault(PTXSIM_FAULT_HOST)) return api_leave(CUDA_ERROR_OUT_OF_MEMORY);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return api_leave(CUDA_ERROR_OUT_OF_MEMORY);
    if (!sim_memory_add_host(p, bytes, false)) {
        munmap(p, bytes);
        return api_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *host = p;
    return api_leave(CUDA_SUCCESS);
}
CUresult cuMemAllocHost_v2(void **host, size_t bytes) { return cuMemHostAlloc(host, bytes, 0); }

static sim_alloc *host_allocation(const void *p, bool registered) {
    sim_alloc *a = sim_memory_find((uint64_t)(uintptr_t)p);
    return a && a->host && a->registered == registered && a->data == p ? a : NULL;
}

CUresult cuMemFreeHost(void *host) {
    CUresult r = enter_free(__func__);
    if (r) return api_leave(r);
    sim_alloc *a = host_allocation(host, false);
    if (!a) return api_leave(CUDA_ERROR_INVALID_VALUE);
    stream_complete_all();
    uint64_t bytes = a->size;
    sim_memory_free(a);
    munmap(host, bytes);
    return api_leave(sim.sticky);
}

CUresult cuMemHostRegister_v2(void *host, size_t bytes, unsigned int flags) {
    ENTER(true);
    (void)flags;
    if (!host || !bytes) return api_leave(CUDA_ERROR_INVALID_VALUE);
    if (sim_memory_find((uint64_t)(uintptr_t)host)) return api_leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    return api_leave(sim_memory_add_host(host, bytes, true) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuMemHostUnregister(void *host) {
    CUresult r = enter_free(__func__);
    if (r) return api_leave(r);
    sim_alloc *a = host_allocation(host, true);
    if (!a) return api_leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    stream_complete_all();
    sim_memory_free(a);
    return api_leave(sim.sticky);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *host, unsigned int flags) {
    ENTER(true);
    (void)flags;
    sim_alloc *a = sim_memory_find((uint64_t)(uintptr_t)host);
    if (!a || !a->host) return api_leave(CUDA_ERROR_INVALID_VALUE);
    *address = (CUdeviceptr)(uintptr_t)host; /* one address space */
    return api_leave(CUDA_SUCCESS);
}

static CUresult get_attribute(const sim_alloc *a, void *value, int attribute, CUdeviceptr address) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)value = api_context(); break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = a->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)value = address; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!a->host) return CUDA_ERROR_INVALID_VALUE;
        *(void **)value = (void *)(uintptr_t)address;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(int *)value = 0; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)value = a->device; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)value = a->base; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)value = a->size; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address) {
    ENTER(true);
    sim_alloc *a = sim_memory_find(address);
    return api_leave(a ? get_attribute(a, value, attribute, address) : CUDA_ERROR_INVALID_VALUE);
}

/* Unlike the call for one attribute, it takes memory that the driver does not know: that has no type. */
CUresult cuPointerGetAttributes(unsigned int count, int *attributes, void **values, CUdeviceptr address) {
    enum { NO_DEVICE = -2 };
    ENTER(true);
    sim_alloc *a = sim_memory_find(address);
    CUresult r = CUDA_SUCCESS;
    for (unsigned k = 0; k < count && !r; k++) {
        const bool is_int = attributes[k] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
                            attributes[k] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
                            attributes[k] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        if (a) r = get_attribute(a, values[k], attributes[k], address);
        else if (is_int) *(int *)values[k] = attributes[k] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? NO_DEVICE : 0;
        else *(void **)values[k] = NULL;
    }
    return api_leave(r);
}

/* --- copies */

static uint64_t copied_bytes;

__attribute__((visibility("default"))) uint64_t ptxsim_get_copied(void) {
    pthread_mutex_lock(&sim.lock);
    const uint64_t bytes = copied_bytes;
    pthread_mutex_unlock(&sim.lock);
    return bytes;
}

static bool on_device(uint64_t address) { return address - DEVICE_BASE < (UINT64_C(1) << 44); }

/* `device`: whether only memory that the device sees will do. */
static CUresult check_range(uint64_t address, size_t bytes, const char *what, bool device) {
    sim_alloc *a = sim_memory_find(address);
    if (a && bytes <= a->size - (address - a->base)) return CUDA_SUCCESS;
    if (!on_device(address) && !a) {
        if (address && !device) return CUDA_SUCCESS;
        sim_report("%s of %zu bytes at 0x%llx, which is no memory of the device", what, bytes,
                   (unsigned long long)address);
        return CUDA_ERROR_INVALID_VALUE;
    }
    char where[160];
    sim_memory_describe(a ? a->base + a->size : address, where, sizeof where);
    sim_report("%s of %zu bytes at 0x%llx: %s", what, bytes, (unsigned long long)address, where);
    return CUDA_ERROR_INVALID_VALUE;
}

enum { BOTH_WAYS, TO_DEVICE, TO_HOST, IN_DEVICE };

static CUresult copy(uint64_t to, uint64_t from, size_t bytes, CUstream stream, bool wait, int direction) {
    ENTER(true);
    CUstream s = stream_find(stream);
    if (!s) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!bytes) return api_leave(CUDA_SUCCESS);
    CUresult r = check_range(to, bytes, "copy to", direction == TO_DEVICE || direction == IN_DEVICE);
    if (!r) r = check_range(from, bytes, "copy from", direction == TO_HOST || direction == IN_DEVICE);
    if (!r && wait) r = stream_forbid_capture();
    if (r) return api_leave(r);
    copied_bytes += bytes;
    sim_work work = {.kind = WORK_COPY, .to = to, .from = from, .bytes = bytes};
    sim_alloc *host = sim_memory_find(to);
    bool pageable_from = !on_device(from) && !sim_memory_find(from), pageable_to = !on_device(to) && !host;
    if (s->capture && (pageable_from || pageable_to) && direction != IN_DEVICE) {
        if (pageable_to) {
            s->capture->invalid = true;
            return api_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
    } else if (pageable_from && !wait) { /* the driver takes its copy of pageable memory before it returns */
        work.staged = malloc(bytes);
        if (!work.staged) return api_leave(CUDA_ERROR_OUT_OF_MEMORY);
        memcpy(work.staged, (const void *)(uintptr_t)from, bytes);
    }
    /* Pinned memory that is about to be overwritten holds no promise until then: let an early look fail. */
    bool poison = !wait && !s->capture && host && host->host && on_device(from) && !stream_pending_read(to, bytes);
    r = stream_enqueue(s, &work, NULL, 0, NULL);
    if (r) return api_leave(r);
    if (poison) memset((void *)(uintptr_t)to, 0xff, bytes);
    if (!s->capture && (wait || pageable_to)) {
        stream_wait_for(s, s->enqueued);
        stream_host_knows(s);
        r = sim.sticky;
    }
    return api_leave(r);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return copy(to, from, bytes, NULL, true, BOTH_WAYS);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy(to, from, bytes, stream, false, BOTH_WAYS);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    return copy(to, (uint64_t)(uintptr_t)from, bytes, NULL, true, TO_DEVICE);
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    return copy((uint64_t)(uintptr_t)to, from, bytes, NULL, true, TO_HOST);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return copy(to, from, bytes, NULL, false, IN_DEVICE);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    return copy(to, (uint64_t)(uintptr_t)from, bytes, stream, false, TO_DEVICE);
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy((uint64_t)(uintptr_t)to, from, bytes, stream, false, TO_HOST);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy(to, from, bytes, stream, false, IN_DEVICE);
}

static CUresult set(CUdeviceptr to, uint32_t value, uint32_t width, size_t count, CUstream stream) {
    ENTER(true);
    CUstream s = stream_find(stream);
    if (!s) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!count) return api_leave(CUDA_SUCCESS);
    if (to % width) {
        sim_report("misaligned memset of %zu bytes at 0x%llx", count * width, (unsigned long long)to);
        return api_leave(CUDA_ERROR_INVALID_VALUE);
    }
    CUresult r = check_range(to, count * width, "memset", true);
    if (r) return api_leave(r);
    sim_work work = {.kind = WORK_SET, .to = to, .bytes = count * width, .value = value, .width = width};
    return api_leave(stream_enqueue(s, &work, NULL, 0, NULL));
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) { return set(to, value, 1, count, NULL); }
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) { return set(to, value, 2, count, NULL); }
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) { return set(to, value, 4, count, NULL); }
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
    return set(to, value, 1, count, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
    return set(to, value, 2, count, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
    return set(to, value, 4, count, stream);
}
