/* SPDX-License-Identifier: MIT
 * Arrays of a caller who computes on the same GPU. Events order the two streams, so that the host waits for neither. */
#include "runtime/cuda/caller.h"
#include "runtime/cuda/context.h"

/* The default streams of CUDA belong to whatever context is current. */
static bool is_default(tcc_cuda_stream stream) { return (uintptr_t)stream <= 2; }

static tcc_cuda_address address_of(const void *memory) { return (tcc_cuda_address)(uintptr_t)memory; }

/* -- What is refused -- */

static tcc_status check_address(tcc_device_cuda *cuda, tcc_diag *d, const char *what, const char *name,
                                const void *memory) {
    unsigned type = 0;
    int managed = 0, ordinal = -1;
    int attributes[] = {TCC_CUDA_POINTER_TYPE, TCC_CUDA_POINTER_MANAGED, TCC_CUDA_POINTER_ORDINAL};
    void *values[] = {&type, &managed, &ordinal};
    if (!memory)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "%s \"%s\" lies on the device, but its address is NULL", what,
                         name);
    if ((uintptr_t)memory % TCC_CUDA_ALIGNMENT)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "%s \"%s\" begins at %p, which is no multiple of %d bytes: kernels read so many at once; what "
                         "cudaMalloc gives begins at one",
                         what, name, memory, TCC_CUDA_ALIGNMENT);
    TCC_CUDA_TRY(cuda, d, pointer_get, 3, attributes, values, address_of(memory));
    if (type != TCC_CUDA_DEVICE_MEMORY && !(managed & 1))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "%s \"%s\" is said to lie on the device (TCC_MEMORY_DEVICE), but %p is memory of the host: "
                         "say so (TCC_MEMORY_HOST), or allocate it with cudaMalloc",
                         what, name, memory);
    if (ordinal != cuda->ordinal && !(managed & 1))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "%s \"%s\" lies on cuda:%d, and the model computes on cuda:%d: copy it there, or create the "
                         "model with device \"cuda:%d\"",
                         what, name, ordinal, cuda->ordinal, ordinal);
    return TCC_OK;
}

static tcc_status check_stream(tcc_device_cuda *cuda, tcc_diag *d, const char *what, const char *name,
                               tcc_cuda_stream stream) {
    tcc_cuda_context context = cuda->context;
    int state = 0;
    tcc_cuda_result r = is_default(stream) ? 0 : cuda->cu.stream_context(stream, &context);
    if (r && tcc_cuda_is_sticky(r)) return tcc__cuda_failed(cuda, d, r, tcc__cuda_symbol_stream_context);
    if (r || context != cuda->context)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "%s \"%s\": its stream %p is %s; make it where the primary context of cuda:%d is current, as "
                         "it is with the CUDA runtime after cudaSetDevice(%d)",
                         what, name, (void *)stream, r ? "none of CUDA's" : "one of another context", cuda->ordinal,
                         cuda->ordinal);
    if (cuda->cu.capture_state) TCC_CUDA_TRY(cuda, d, capture_state, stream, &state);
    if (state)
        return tcc_error(
            d, TCC_EINVAL, TCC_NOWHERE,
            "%s \"%s\": its stream %p is being captured, and a step cannot be part of another's graph: end "
            "the capture first",
            what, name, (void *)stream);
    return TCC_OK;
}

tcc_status tcc__cuda_check_memory(tcc_device *device, tcc_diag *d, const char *what, const char *name,
                                  const void *memory, void *stream) {
    tcc_device_cuda *cuda = (tcc_device_cuda *)device;
    TCC_TRY(tcc__cuda_enter(cuda, d));
    tcc_status s = check_address(cuda, d, what, name, memory);
    if (s == TCC_OK) s = check_stream(cuda, d, what, name, stream);
    tcc__cuda_leave(cuda);
    return s;
}

/* -- Order -- */

/* What `later` is given from now on comes after what `earlier` was given. */
static tcc_status order(tcc_device_cuda *cuda, tcc_diag *d, tcc_cuda_stream earlier, tcc_cuda_stream later) {
    TCC_CUDA_TRY(cuda, d, event_record, cuda->order, earlier);
    TCC_CUDA_TRY(cuda, d, stream_wait, later, cuda->order, 0);
    return TCC_OK;
}

tcc_status tcc__cuda_follow(tcc_device *device, tcc_diag *d, void *stream) {
    tcc_device_cuda *cuda = (tcc_device_cuda *)device;
    TCC_TRY(tcc__cuda_enter(cuda, d));
    const tcc_status s = order(cuda, d, stream, cuda->compute);
    tcc__cuda_leave(cuda);
    return s;
}

tcc_status tcc__cuda_lead(tcc_device *device, tcc_diag *d, void *stream) {
    tcc_device_cuda *cuda = (tcc_device_cuda *)device;
    TCC_TRY(tcc__cuda_enter(cuda, d));
    const tcc_status s = order(cuda, d, cuda->compute, stream);
    tcc__cuda_leave(cuda);
    return s;
}

tcc_status tcc__cuda_copy(tcc_device *device, tcc_diag *d, void *to, const void *from, int64_t size_bytes) {
    tcc_device_cuda *cuda = (tcc_device_cuda *)device;
    if (size_bytes <= 0) return TCC_OK;
    TCC_TRY(tcc__cuda_enter(cuda, d));
    const tcc_cuda_result r = cuda->cu.copy(address_of(to), address_of(from), (size_t)size_bytes, cuda->compute);
    const tcc_status s = r ? tcc__cuda_failed(cuda, d, r, tcc__cuda_symbol_copy) : TCC_OK;
    tcc__cuda_leave(cuda);
    return s;
}
