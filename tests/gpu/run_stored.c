/* SPDX-License-Identifier: MIT
 * Runs a stored program on a CUDA device with libtraincc_rt alone, which has no compiler: `run_stored FILE`. Every
 * binding holds 64-bit integers; the inputs are 0, 1, 2, ..., and the sum of the last binding is printed. */
#include "ir/support/alloc.h"
#include "runtime/cuda/device.h"
#include "runtime/exec.h"
#include "runtime/files/file.h"
#include "runtime/program_file.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct rig {
    tcc_context cx;
    tcc_program *program;
    tcc_device *device;
    tcc_exec *exec;
    void **memory; /* by binding */
} rig;

static int64_t size_of(const rig *r, int binding) { return tcc_type_bytes(&r->program->bindings[binding].type); }

static tcc_status run(rig *r, const char *path, int64_t *sum) {
    tcc_diag *d = &r->cx.diag;
    TCC_TRY(tcc_context_init(&r->cx));
    tcc__bytes bytes;
    TCC_TRY(tcc__file_load(d, path, &bytes));
    tcc_status s = tcc_program_decode(d, path, bytes.data, (int64_t)bytes.size, &r->program);
    tcc__free(bytes.data);
    TCC_TRY(s);
    TCC_TRY(tcc_device_cuda_create(&r->cx, -1, &r->device));
    TCC_TRY(tcc_exec_create(&r->cx, r->device, r->program, &r->exec));
    int n = r->program->n_bindings, last = n - 1;
    int64_t *host = tcc__malloc((size_t)size_of(r, last));
    r->memory = tcc__calloc((size_t)n, sizeof *r->memory);
    s = host && r->memory ? TCC_OK : tcc_enomem(d);
    for (int64_t i = 0; s == TCC_OK && i < size_of(r, last) / 8; i++) host[i] = i;
    for (int i = 0; i < n && s == TCC_OK; i++) {
        s = r->device->ops->alloc(r->device, d, size_of(r, i), &r->memory[i]);
        if (s == TCC_OK) s = r->device->ops->upload(r->device, d, r->memory[i], host, size_of(r, i));
        if (s == TCC_OK) s = tcc_exec_bind(r->exec, d, i, r->memory[i], size_of(r, i));
    }
    if (s == TCC_OK) s = tcc_exec_run(r->exec, d);
    if (s == TCC_OK) s = r->device->ops->download(r->device, d, host, r->memory[last], size_of(r, last));
    *sum = 0;
    for (int64_t i = 0; s == TCC_OK && i < size_of(r, last) / 8; i++) *sum += host[i];
    tcc__free(host);
    return s;
}

int main(int argc, char **argv) {
    rig r = {0};
    int64_t sum;
    tcc_status s = argc == 2 ? run(&r, argv[1], &sum) : TCC_EINVAL;
    if (s == TCC_OK) printf("%" PRId64 "\n", sum);
    else fprintf(stderr, "%s\n", tcc_diag_text(&r.cx.diag));
    for (int i = 0; r.memory && i < r.program->n_bindings; i++)
        r.device->ops->free(r.device, r.memory[i], size_of(&r, i));
    tcc__free(r.memory);
    tcc_exec_destroy(r.exec);
    tcc_device_destroy(r.device);
    tcc_program_destroy(r.program);
    tcc_context_clear(&r.cx);
    return s != TCC_OK;
}
