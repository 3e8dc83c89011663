/* SPDX-License-Identifier: MIT
 * What a CUDA device can do, measured: multiply-adds in registers, and a copy in its memory. */
#include "runtime/cuda/roofline.h"

enum {
    REPEATS = 5,
    THREADS = 256,
    BLOCKS_AN_SM = 8,
    CHAINS = 8,
    UNROLLED = 8,
    LARGEST_COPY = 256 << 20,
    MEMORY_SHARE = 256 /* the copy takes this part of the memory: past the caches of any device that has more */
};
static const double enough_seconds = 2e-3;

/* CHAINS chains of multiply-adds, UNROLLED long, `n` times. The sum of the chains is stored where it is a number that
 * it never is. */
#define CHAIN_STEP                                                                                       \
    "fma.rn.f32 %f1,%f1,%f9,%f9;\nfma.rn.f32 %f2,%f2,%f9,%f9;\nfma.rn.f32 %f3,%f3,%f9,%f9;\nfma.rn.f32 " \
    "%f4,%f4,%f9,%f9;\n"                                                                                 \
    "fma.rn.f32 %f5,%f5,%f9,%f9;\nfma.rn.f32 %f6,%f6,%f9,%f9;\nfma.rn.f32 %f7,%f7,%f9,%f9;\nfma.rn.f32 " \
    "%f8,%f8,%f9,%f9;\n"
static const char probe_ptx[] =
    ".version 6.3\n.target sm_75\n.address_size 64\n"
    ".visible .entry probe(.param .u64 out, .param .u64 n) {\n"
    ".reg .pred %p<3>;\n.reg .b32 %r<3>;\n.reg .f32 %f<11>;\n.reg .b64 %d<4>;\n"
    "ld.param.u64 %d1,[out];\nld.param.u64 %d2,[n];\ncvta.to.global.u64 %d1,%d1;\n"
    "mov.u32 %r1,%tid.x;\ncvt.rn.f32.u32 %f1,%r1;\nmov.f32 %f9,0f3F000000;\n"
    "mov.f32 %f2,%f1;\nmov.f32 %f3,%f1;\nmov.f32 %f4,%f1;\nmov.f32 %f5,%f1;\nmov.f32 %f6,%f1;\nmov.f32 "
    "%f7,%f1;\nmov.f32 %f8,%f1;\n"
    "LOOP:\n" CHAIN_STEP CHAIN_STEP CHAIN_STEP CHAIN_STEP CHAIN_STEP CHAIN_STEP CHAIN_STEP CHAIN_STEP
    "add.s64 %d2,%d2,-1;\nsetp.gt.s64 %p1,%d2,0;\n@%p1 bra LOOP;\n"
    "add.rn.f32 %f1,%f1,%f2;\nadd.rn.f32 %f3,%f3,%f4;\nadd.rn.f32 %f5,%f5,%f6;\nadd.rn.f32 %f7,%f7,%f8;\n"
    "add.rn.f32 %f1,%f1,%f3;\nadd.rn.f32 %f5,%f5,%f7;\nadd.rn.f32 %f1,%f1,%f5;\n"
    "setp.ne.f32 %p2,%f1,0fBF800000;\n@%p2 bra DONE;\nst.global.f32 [%d1],%f1;\nDONE:\nret;\n}\n";

typedef struct probe {
    tcc_cuda_module module;
    tcc_cuda_function function;
    tcc_cuda_address from, to;
    tcc_cuda_event begin, end;
} probe;

static tcc_status seconds_between(tcc_device_cuda *cuda, tcc_diag *d, const probe *p, double *best) {
    float milliseconds;
    TCC_CUDA_TRY(cuda, d, event_record, p->end, cuda->compute);
    TCC_CUDA_TRY(cuda, d, event_synchronize, p->end);
    TCC_CUDA_TRY(cuda, d, event_elapsed, &milliseconds, p->begin, p->end);
    double seconds = (double)milliseconds * 1e-3;
    if (seconds < 1e-7) seconds = 1e-7;
    if (!(*best > 0) || seconds < *best) *best = seconds;
    return TCC_OK;
}

static tcc_status measure_copy(tcc_device_cuda *cuda, tcc_diag *d, probe *p, tcc_roofline *out) {
    int64_t bytes = cuda->memory_bytes / MEMORY_SHARE;
    double best = 0;
    if (bytes > LARGEST_COPY) bytes = LARGEST_COPY;
    TCC_CUDA_TRY(cuda, d, alloc, &p->from, (size_t)bytes);
    TCC_CUDA_TRY(cuda, d, alloc, &p->to, (size_t)bytes);
    for (int i = 0; i < REPEATS; i++) {
        TCC_CUDA_TRY(cuda, d, event_record, p->begin, cuda->compute);
        TCC_CUDA_TRY(cuda, d, copy, p->to, p->from, (size_t)bytes, cuda->compute);
        TCC_TRY(seconds_between(cuda, d, p, &best));
    }
    out->bytes_per_s = 2 * (double)bytes / best;
    return TCC_OK;
}

/* Starts small and grows until a launch takes long enough to be timed. */
static tcc_status measure_flop(tcc_device_cuda *cuda, tcc_diag *d, probe *p, tcc_roofline *out) {
    TCC_CUDA_TRY(cuda, d, module_load, &p->module, probe_ptx, 0, NULL, NULL);
    TCC_CUDA_TRY(cuda, d, module_function, &p->function, p->module, "probe");
    int64_t n = 4;
    unsigned blocks = (unsigned)(BLOCKS_AN_SM * cuda->base.hw.processors);
    for (double best = 0; best < enough_seconds; n *= 4) {
        void *parameters[] = {&p->to, &n};
        best = 0;
        for (int i = 0; i < REPEATS && best < 10 * enough_seconds; i++) {
            TCC_CUDA_TRY(cuda, d, event_record, p->begin, cuda->compute);
            TCC_CUDA_TRY(cuda, d, launch, p->function, blocks, 1, 1, THREADS, 1, 1, 0, cuda->compute, parameters, NULL);
            TCC_TRY(seconds_between(cuda, d, p, &best));
        }
        out->flop_per_s = 2.0 * CHAINS * UNROLLED * THREADS * blocks * (double)n / best;
    }
    return TCC_OK;
}

static tcc_status measure(tcc_device_cuda *cuda, tcc_diag *d, probe *p, tcc_roofline *out) {
    TCC_CUDA_TRY(cuda, d, event_create, &p->begin, TCC_CUDA_EVENT_DEFAULT);
    TCC_CUDA_TRY(cuda, d, event_create, &p->end, TCC_CUDA_EVENT_DEFAULT);
    TCC_TRY(measure_copy(cuda, d, p, out));
    return measure_flop(cuda, d, p, out);
}

tcc_status tcc__device_cuda_measure(tcc_device *device, tcc_diag *d, tcc_roofline *out) {
    tcc_device_cuda *cuda = (tcc_device_cuda *)device;
    probe p = {0};
    TCC_TRY(tcc__cuda_enter(cuda, d));
    tcc_status s = measure(cuda, d, &p, out);
    if (p.begin) cuda->cu.event_destroy(p.begin);
    if (p.end) cuda->cu.event_destroy(p.end);
    if (p.from) cuda->cu.free(p.from);
    if (p.to) cuda->cu.free(p.to);
    if (p.module) cuda->cu.module_unload(p.module);
    tcc__cuda_leave(cuda);
    return s;
}
