/* SPDX-License-Identifier: MIT
 * Numbers in memory, and device memory by the driver's functions. */
#include "sim.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* --- numbers --- */

int64_t sim_bytes(int type) {
    switch (type) {
    case FLOAT32:
    case INT32: return 4;
    case FLOAT16:
    case BFLOAT16: return 2;
    case INT64: return 8;
    case BOOLEAN8: return 1;
    default: return 0;
    }
}

double sim_element(const void *at, int type, int64_t i) {
    uint16_t bits;
    float f;
    switch (type) {
    case FLOAT32: return (double)((const float *)at)[i];
    case FLOAT16: return (double)((const _Float16 *)at)[i];
    case INT32: return ((const int32_t *)at)[i];
    case INT64: return (double)((const int64_t *)at)[i];
    case BOOLEAN8: return ((const uint8_t *)at)[i];
    default: break;
    }
    memcpy(&bits, (const uint16_t *)at + i, sizeof bits);
    uint32_t wide = (uint32_t)bits << 16;
    memcpy(&f, &wide, sizeof f);
    return (double)f;
}

void sim_put(void *at, int type, int64_t i, double x) {
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    switch (type) {
    case FLOAT32: ((float *)at)[i] = f; break;
    case FLOAT16: ((_Float16 *)at)[i] = (_Float16)f; break;
    case INT32: ((int32_t *)at)[i] = (int32_t)x; break;
    case INT64: ((int64_t *)at)[i] = (int64_t)x; break;
    case BOOLEAN8: ((uint8_t *)at)[i] = x != 0; break;
    default: ((uint16_t *)at)[i] = (uint16_t)(f != f ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16); break;
    }
}

double sim_round(double x, int type) {
    uint64_t place;
    sim_put(&place, type, 0, x);
    return sim_element(&place, type, 0);
}

value sim_value_of(const descriptor *tensor) {
    int64_t rank;
    value v = {.tensor = tensor, .type = sim_int(tensor, 901), .count = 1};
    const int64_t *dims = sim_get(tensor, 902, &rank), *strides = sim_get(tensor, 903, NULL);
    v.rank = (int)rank;
    for (int i = 0; i < v.rank; i++) v.dims[i] = dims[i], v.strides[i] = strides[i], v.count *= dims[i];
    return v;
}

/* --- the driver --- */

static struct driver {
    int (*current)(void **), (*synchronize)(void *), (*range)(address *, size_t *, address),
        (*to_host)(void *, address, size_t, void *), (*to_device)(address, const void *, size_t, void *);
} cu;

static bool find(void *driver, const char *name, void *function) {
    void *at = driver ? dlsym(driver, name) : NULL;
    memcpy(function, &at, sizeof at);
    return at != NULL;
}

bool sim_open_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return find(driver, "cuCtxGetCurrent", &cu.current) && find(driver, "cuStreamSynchronize", &cu.synchronize) &&
           find(driver, "cuMemGetAddressRange_v2", &cu.range) && find(driver, "cuMemcpyDtoHAsync_v2", &cu.to_host) &&
           find(driver, "cuMemcpyHtoDAsync_v2", &cu.to_device);
}

bool sim_has_context(void) {
    void *context = NULL;
    return cu.current && !cu.current(&context) && context;
}

bool sim_is_memory(address at, int64_t bytes) {
    address begin;
    size_t length;
    return at && !cu.range(&begin, &length, at) && at + (address)bytes <= begin + length;
}

int sim_fetch(address at, int64_t bytes, void *stream, const char *what, void **out) {
    if (!sim_is_memory(at, bytes))
        return sim_wrong("%s at %llx is no memory of %lld bytes", what, at, (long long)bytes);
    *out = malloc((size_t)bytes);
    if (!*out) return HOST_ALLOCATION_FAILED;
    return cu.to_host(*out, at, (size_t)bytes, stream) || cu.synchronize(stream) ? EXECUTION_FAILED : SUCCESS;
}

int sim_store(address at, const void *from, int64_t bytes, void *stream) {
    return cu.to_device(at, from, (size_t)bytes, stream) || cu.synchronize(stream) ? EXECUTION_FAILED : SUCCESS;
}
