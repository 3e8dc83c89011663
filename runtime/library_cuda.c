/* SPDX-License-Identifier: MIT
 * NVIDIA's libraries beside the driver. Every operation has a kernel of ours, so none of them is needed. */
#include "library_cuda.h"
#include "cuda_driver.h"

#include <dlfcn.h>
#include <string.h>

typedef struct library_row {
    const char *name;
    const char *const files[4]; /* newest first */
    const char *version_call;   /* size_t (void) */
    size_t major, minor;        /* what a step of the major and the minor version is in that number */
} library_row;

static const library_row rows[] = {
    {"cublaslt", {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"}, "cublasLtGetVersion", 10000, 100},
    {"cudnn", {"libcudnn.so.9"}, "cudnnGetVersion", 10000, 100},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void describe(const library_row *row, tcc_strbuf *out) {
    char file[PATH_MAX];
    void *handle = tcc_cuda_library_open(row->files, file);
    if (!handle) { /* else it stays open: not every library of C++ survives dlclose */
        tcc_strbuf_printf(out, "%s: not found; our own kernels do its work\n", row->name);
        return;
    }
    void *address = dlsym(handle, row->version_call);
    size_t (*version_of)(void);
    memcpy(&version_of, &address, sizeof address);
    size_t version = address ? version_of() : 0;
    tcc_strbuf_printf(out, "%s: %zu.%zu.%zu (%s); not used by this version, whose own kernels do its work\n", row->name, version / row->major,
                      version % row->major / row->minor, version % row->minor, file);
}

void tcc_cuda_libraries_describe(tcc_strbuf *out) {
    for (int i = 0; i < ROWS; i++) describe(&rows[i], out);
}
