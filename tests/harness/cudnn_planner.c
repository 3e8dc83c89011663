/* SPDX-License-Identifier: MIT */
#include "harness/cudnn_planner.h"
#include "harness/check.h"

#include <dlfcn.h>
#include <stdio.h>

cudnn_planner cudnn_planners[CUDNN_PLANNERS] = {{.name = "sm_80"}, {.name = "sm_90"}};

static const struct {
    int version, processors, shared_optin, l2_bytes, clock_khz;
    const char *name;
} devices[CUDNN_PLANNERS] = {{800, 108, 166912, 41943040, 1410000, "NVIDIA A100-SXM4-80GB"},
                             {900, 132, 232448, 52428800, 1980000, "NVIDIA H100 80GB HBM3"}};

/* CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION: what cuDNN would ask the device. */
static void *properties_of(const tcc_cudnn_functions *f, int i) {
    char text[2048];
    int length = snprintf(text, sizeof text,
                          "{\"cudaDeviceId\":0,\"deviceVer\":%d,\"driverVer\":13000,\"maxGridSize\":[2147483647,65535,"
                          "65535],\"maxBlockSize\":[1024,1024,64],"
                          "\"regsPerBlock\":65536,\"multiProcessorCount\":%d,\"warpSize\":32,"
                          "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,"
                          "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"
                          "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,"
                          "\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":%d,"
                          "\"memClockRateKHz\":2619000,\"l2CacheSize\":%d,"
                          "\"totalGlobalMem\":85017493504,\"deviceName\":\"%s\"}",
                          devices[i].version, devices[i].processors, devices[i].shared_optin, devices[i].clock_khz,
                          devices[i].l2_bytes, devices[i].name);
    void *made = NULL;
    if (f->descriptor_create(TCC_CUDNN_DEVICEPROP, &made)) return NULL;
    if (!f->set_attribute(made, TCC_CUDNN_DEVICEPROP_JSON_REPRESENTATION, TCC_CUDNN_TYPE_CHAR, length, text) &&
        !f->finalize(made))
        return made;
    f->descriptor_destroy(made);
    return NULL;
}

static const char *why_not;

/* NULL, or why there is nothing to plan with. */
static const char *open_planners(void) {
    tcc_cudnn *const one = &cudnn_planners[0].cudnn;
    tcc_cudnn_library *first = &one->library;
    tcc_cudnn_find(first);
    if (!first->usable) return first->text;
    void *loaded = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD);
    const bool stand_in = loaded && dlsym(loaded, "cudnnsim_restart");
    if (loaded) dlclose(loaded);
    if (stand_in) return "the stand-in is in the way of the real library";
    for (int i = 0; i < CUDNN_PLANNERS; i++) {
        tcc_cudnn *c = &cudnn_planners[i].cudnn;
        c->library = *first;
        c->properties = properties_of(&first->f, i);
        if (!c->properties) return "this cuDNN does not plan without a device";
    }
    return NULL;
}

int cudnn_planners_open(void **state) {
    (void)state;
    why_not = open_planners();
    return 0;
}

bool cudnn_planners_available(void) {
    if (why_not) print_message("skipped: %s\n", why_not);
    return !why_not;
}

int cudnn_planners_close(void **state) {
    (void)state;
    for (int i = 0; i < CUDNN_PLANNERS; i++) {
        const tcc_cudnn *c = &cudnn_planners[i].cudnn;
        if (c->properties) c->library.f.descriptor_destroy(c->properties);
    }
    return 0;
}
