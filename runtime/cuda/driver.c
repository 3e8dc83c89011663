/* SPDX-License-Identifier: MIT
 * Finding CUDA's libraries, and the table of the driver's entry points. */
#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OLDEST_DRIVER = 11000 }; /* CUDA 11.0: PTX for all that we make code for */

/* --- searching --- */

static void *open_file(const char *path, char found[PATH_MAX]) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    struct link_map *map;
    if (handle)
        snprintf(found, PATH_MAX, "%s", dlinfo(handle, RTLD_DI_LINKMAP, &map) || !*map->l_name ? path : map->l_name);
    return handle;
}

/* The first of `files` that opens in a folder that matches the pattern. */
static void *open_in(const char *pattern, const char *const *files, char found[PATH_MAX]) {
    glob_t folders;
    void *handle = NULL;
    if (glob(pattern, GLOB_ONLYDIR | GLOB_BRACE, NULL, &folders)) return NULL;
    for (size_t i = 0; i < folders.gl_pathc && !handle; i++)
        for (int f = 0; files[f] && !handle; f++) {
            char path[PATH_MAX];
            if (snprintf(path, sizeof path, "%s/%s", folders.gl_pathv[i], files[f]) < PATH_MAX)
                handle = open_file(path, found);
        }
    globfree(&folders);
    return handle;
}

/* `pattern` below the folder that an environment variable names. */
static void *open_below(const char *variable, const char *pattern, const char *const *files, char found[PATH_MAX]) {
    const char *folder = getenv(variable);
    char path[PATH_MAX];
    if (!folder || !*folder || snprintf(path, sizeof path, "%s%s", folder, pattern) >= PATH_MAX) return NULL;
    return open_in(path, files, found);
}

/* TCC_CUDA_PATH, then the loader's own path. */
static void *open_first(const char *const *files, char found[PATH_MAX]) {
    void *handle = open_below("TCC_CUDA_PATH", "{,/lib64,/lib}", files, found);
    for (int f = 0; files[f] && !handle; f++) handle = open_file(files[f], found);
    return handle;
}

/* The folders of wheels below the first python3 on PATH. */
static void *open_python(const char *wheels, const char *const *files, char found[PATH_MAX]) {
    for (const char *p = getenv("PATH"); p && *p; p += *p == ':') {
        size_t length = strcspn(p, ":");
        char path[PATH_MAX];
        bool fits = length && snprintf(path, sizeof path, "%.*s/python3", (int)length, p) < PATH_MAX;
        if (fits && !access(path, X_OK))
            return snprintf(path, sizeof path, "%.*s/..%s", (int)length, p, wheels) < PATH_MAX
                       ? open_in(path, files, found)
                       : NULL;
        p += length;
    }
    return NULL;
}

void *tcc_cuda_library_open(const char *const *files, char found[PATH_MAX]) {
    static const char wheels[] = "/lib/python3*/site-packages/nvidia/*/lib";
    void *handle = open_first(files, found);
    if (!handle) handle = open_in("/usr/local/cuda{,-1[0-9].[0-9]*}/{lib64,lib}", files, found);
    if (!handle) handle = open_below("VIRTUAL_ENV", wheels, files, found);
    if (!handle) handle = open_below("CONDA_PREFIX", wheels, files, found);
    if (!handle) handle = open_python(wheels, files, found);
    if (!handle) handle = open_below("HOME", "/.local/lib/python3*/site-packages/nvidia/*/lib", files, found);
    if (!handle) handle = open_in("/usr{/local,}/lib/python3*/{dist,site}-packages/nvidia/*/lib", files, found);
    return handle;
}

/* --- the driver --- */

static tcc_status open_driver(tcc_diag *d, tcc_cuda_driver *cu) {
    static const char *const files[] = {"libcuda.so.1", NULL};
    const char *given = getenv("TCC_CUDA_PATH");
    const size_t length = given ? strlen(given) : 0;
    if (length > 3 && strstr(given, "libcuda.so")) cu->handle = open_file(given, cu->file);
    if (!cu->handle) cu->handle = open_first(files, cu->file);
    if (!cu->handle)
        cu->handle = open_in(
            "{/usr/local/nvidia/lib64,/usr/lib/wsl/lib,/usr/lib64/nvidia,/usr/lib/x86_64-linux-gnu/nvidia/current}",
            files, cu->file);
    if (cu->handle) return TCC_OK;
    return tcc_error(
        d, TCC_EUNSUPPORTED, TCC_NOWHERE,
        "no CUDA device: libcuda.so.1, the library of NVIDIA's driver, was not found; install the driver, or name its "
        "folder in TCC_CUDA_PATH");
}

static tcc_status find_calls(tcc_diag *d, tcc_cuda_driver *cu) {
    void *address;
#define X(field, symbol, parameters)                                                                            \
    if (!(address = dlsym(cu->handle, symbol)))                                                                 \
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "the CUDA driver %s has no %s: install a newer one", \
                         cu->file, symbol);                                                                     \
    memcpy(&cu->field, &address, sizeof address); /* ISO C has no cast from object to function pointer */
    TCC_CUDA_CALLS(X)
#undef X
    return TCC_OK;
}

static void find_graph_calls(tcc_cuda_driver *cu) {
    bool all = true;
    void *address;
#define X(field, symbol, parameters)     \
    address = dlsym(cu->handle, symbol); \
    all &= address != NULL;              \
    memcpy(&cu->field, &address, sizeof address);
    TCC_CUDA_GRAPH_CALLS(X)
#undef X
    if (!all) cu->capture_begin = NULL;
}

static const char *advice(tcc_cuda_result r) {
    switch (r) {
    case TCC_CUDA_NO_DEVICE: return "; is a GPU of NVIDIA's in this machine, and visible (CUDA_VISIBLE_DEVICES)?";
    case TCC_CUDA_STUB_LIBRARY: return "; this file is for linking only: put the driver's own libcuda.so.1 before it";
    case TCC_CUDA_SYSTEM_DRIVER_MISMATCH:
        return "; the driver was updated while its kernel module runs: restart the machine";
    default: return "; nvidia-smi may say more";
    }
}

tcc_status tcc_cuda_driver_open(tcc_diag *d, tcc_cuda_driver *cu) {
    *cu = (tcc_cuda_driver){0};
    TCC_TRY(open_driver(d, cu));
    TCC_TRY(find_calls(d, cu));
    find_graph_calls(cu);
    tcc_cuda_result r = cu->init(0);
    if (r) {
        const char *text = NULL;
        cu->error_text(r, &text);
        return tcc_error(d, r == TCC_CUDA_NO_DEVICE || r == TCC_CUDA_STUB_LIBRARY ? TCC_EUNSUPPORTED : TCC_EDEVICE,
                         TCC_NOWHERE, "no CUDA device: the driver %s says %s (%s)%s", cu->file,
                         tcc_cuda_error_name(cu, r), text ? text : "", advice(r));
    }
    r = cu->driver_version(&cu->version);
    if (r) return tcc_cuda_error(cu, d, r, "cuDriverGetVersion");
    if (cu->version < OLDEST_DRIVER)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE,
                         "the CUDA driver %s is of version %d.%d; %d.0 or newer is needed", cu->file,
                         cu->version / 1000, cu->version % 1000 / 10, OLDEST_DRIVER / 1000);
    return TCC_OK;
}

const char *tcc_cuda_error_name(const tcc_cuda_driver *cu, tcc_cuda_result r) {
    const char *name = NULL;
    cu->error_name(r, &name);
    return name ? name : "unknown error";
}

tcc_status tcc_cuda_error(const tcc_cuda_driver *cu, tcc_diag *d, tcc_cuda_result r, const char *call) {
    const char *text = NULL;
    cu->error_text(r, &text);
    return tcc_error(d, r == TCC_CUDA_OUT_OF_MEMORY ? TCC_ENOMEM : TCC_EDEVICE, TCC_NOWHERE, "%s: %s (%s)", call,
                     tcc_cuda_error_name(cu, r), text ? text : "no text");
}

bool tcc_cuda_is_sticky(tcc_cuda_result r) {
    switch (r) {
    case TCC_CUDA_DEVICE_UNAVAILABLE:
    case TCC_CUDA_ECC_UNCORRECTABLE:
    case TCC_CUDA_CONTAINED:
    case TCC_CUDA_ILLEGAL_ADDRESS:
    case TCC_CUDA_LAUNCH_TIMEOUT:
    case TCC_CUDA_ASSERT:
    case TCC_CUDA_HARDWARE_STACK_ERROR:
    case TCC_CUDA_ILLEGAL_INSTRUCTION:
    case TCC_CUDA_MISALIGNED_ADDRESS:
    case TCC_CUDA_INVALID_ADDRESS_SPACE:
    case TCC_CUDA_INVALID_PC:
    case TCC_CUDA_LAUNCH_FAILED:
    case TCC_CUDA_TENSOR_MEMORY_LEAK: return true;
    default: return false;
    }
}
