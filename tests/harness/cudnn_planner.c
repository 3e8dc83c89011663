/* SPDX-License-Identifier: MIT */
#include "harness/cudnn_planner.h"
#include "harness/check.h"
#include "runtime/cuda/device.h"

#include <dlfcn.h>
#include <stdio.h>

cudnn_planner cudnn_planners[CUDNN_PLANNERS];
int n_cudnn_planners;

static const struct {
    int version, processors, shared_optin, l2_bytes, clock_khz;
    const char *name, *arch;
} devices[CUDNN_PLANNERS] = {{800, 108, 166912, 41943040, 1410000, "NVIDIA A100-SXM4-80GB", "sm_80"},
                             {900, 132, 232448, 52428800, 1980000, "NVIDIA H100 80GB HBM3", "sm_90"}};

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

/* 900 for sm_90; 0: this machine has no device. */
static int own_version(void) {
    tcc_context cx;
    tcc_device *device;
    int sm = 0;
    if (tcc_context_init(&cx) != TCC_OK) return 0;
    if (tcc_device_cuda_create(&cx, -1, &device) == TCC_OK) {
        sscanf(((const tcc_device_cuda *)device)->arch, "sm_%d", &sm);
        tcc_device_destroy(device);
    }
    tcc_context_clear(&cx);
    return 10 * sm;
}

/* NULL, or why there is nothing to plan with. */
static const char *open_planners(void) {
    tcc_cudnn_library library;
    tcc_cudnn_find(&library);
    if (!library.usable) {
        static char text[sizeof library.text];
        memcpy(text, library.text, sizeof text);
        return text;
    }
    void *loaded = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD);
    const bool stand_in = loaded && dlsym(loaded, "cudnnsim_restart");
    if (loaded) dlclose(loaded);
    if (stand_in) return "the stand-in is in the way of the real library";
    const int own = own_version();
    for (int i = 0; i < CUDNN_PLANNERS; i++) {
        cudnn_planner *p = &cudnn_planners[n_cudnn_planners];
        if (own && devices[i].version != own) {
            print_message("nothing is planned for %s: this machine's device is sm_%d\n", devices[i].arch, own / 10);
            continue;
        }
        tcc_cudnn *cudnn = &p->cudnn;
        memset(p, 0, sizeof *p);
        p->name = devices[i].arch;
        cudnn->library = library;
        p->cudnn.properties = properties_of(&library.f, i);
        if (!p->cudnn.properties) return "this cuDNN does not plan without a device";
        n_cudnn_planners++;
    }
    if (!n_cudnn_planners) return "this machine's device is of an architecture that is not planned for";
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
    while (n_cudnn_planners) {
        const tcc_cudnn *c = &cudnn_planners[--n_cudnn_planners].cudnn;
        c->library.f.descriptor_destroy(c->properties);
    }
    return 0;
}
