// SPDX-License-Identifier: MIT
// Contraction kernels on one core, GFLOP/s, against the measured peak of fused multiply-adds, on the shapes of the
// benchmark's models with their gradients. Each figure is the best of several rounds, because other work on the machine
// only ever slows one down. Run: bench_contract [-f16 | -bf16] [part of a name]
#include "codegen/contract/contract.h"
#include "harness/object.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Of this thread, so that what else runs on the machine does not count (its use of caches and memory does).
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Of this process: compile times do not count what else runs.
static double cpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static tcc_llvm_target target;
static tcc_dtype stored = TCC_F32; // of operands

// One thread's kernel, ready to run.
typedef struct compiled {
    tcc_contract_plan plan;
    tcc_emitter e;
    test_object *object;
    tcc_host_kernel main, combine;
    void *scratch, *workspace;
    double compile_ms;
} compiled;

static void compile(compiled *k, const tcc_contract *c) {
    tcc_diag diag = {0};
    double start = cpu_now();
    if (tcc_contract_make_plan(&target, c, NULL, &diag, &k->plan) != TCC_OK ||
        tcc_emitter_init(&k->e, &target, "bench", &diag) != TCC_OK) {
        fprintf(stderr, "%s\n", tcc_diag_text(&diag));
        exit(1);
    }
    tcc_contract_emit(&k->e, "main", &k->plan, NULL, NULL);
    if (k->plan.k_splits > 1) tcc_contract_emit_combine(&k->e, "combine", &k->plan, NULL);
    k->object = test_object_load(&k->e);
    k->compile_ms = 1e3 * (cpu_now() - start);
    if (getenv("BENCH_ASM")) {
        tcc_strbuf text = {0};
        if (getenv("BENCH_IR")) tcc_emitter_print_ir(&k->e, &text);
        else tcc_emitter_print_assembly(&k->e, &text);
        fprintf(stderr, "%s\n", text.text);
        tcc_strbuf_free(&text);
    }
    k->main = test_object_kernel(k->object, "main");
    if (getenv("BENCH_ASM")) fprintf(stderr, "main at %p\n", (void *)(uintptr_t)k->main);
    k->combine = k->plan.k_splits > 1 ? test_object_kernel(k->object, "combine") : NULL;
    k->scratch = aligned_alloc(4096, (size_t)(k->plan.scratch_bytes + 4095) / 4096 * 4096);
    k->workspace = k->plan.workspace_bytes ? aligned_alloc(4096, (size_t)(k->plan.workspace_bytes + 4095) / 4096 * 4096)
                                           : NULL;
}

static void run(compiled *k, float *a, float *b, float *c, int64_t a_offset, int64_t b_offset) {
    int64_t params[] = {a_offset, b_offset, 0};
    if (!k->combine) {
        void *buffers[] = {a, b, c};
        k->main(buffers, params, 0, k->plan.items, k->scratch);
    } else {
        void *buffers[] = {a, b, k->workspace, c};
        k->main(buffers, params, 0, k->plan.items, k->scratch);
        k->combine(buffers + 2, params + 2, 0, k->plan.combine_items, k->scratch);
    }
}

static void release(compiled *k) {
    test_object_free(k->object);
    tcc_emitter_clear(&k->e);
    free(k->scratch);
    free(k->workspace);
}

static float *floats(int64_t n) {
    float *x = aligned_alloc(4096, (size_t)(n * 4 + 4095) / 4096 * 4096 + 4096);
    uint16_t *halves = (uint16_t *)x;
    for (int64_t i = 0; i < n; i++) x[i] = (float)(i % 17 - 8) / 16;
    for (int64_t i = 0; i < n && stored != TCC_F32; i++) halves[i] = (uint16_t)(0x3c00 + i % 17 * 8); // around 1
    return x;
}

// Multiply-adds from registers, as the kernels' own instructions: GFLOP/s.
static double peak_gflops(void) {
    tcc_contract c = {.dtype = stored, .n_accesses = 1};
    c.m.d[c.m.n++] = (tcc_contract_dim){.extent = 12, .a = 0, .c = {64}};
    c.n.d[c.n.n++] = (tcc_contract_dim){.extent = 2 * target.lanes, .b = 1, .c = {1}};
    c.k.d[c.k.n++] = (tcc_contract_dim){.extent = 1 << 16, .a = 0, .b = 0};
    compiled k;
    compile(&k, &c);
    float *x = floats(1024), *y = floats(64 * 64);
    double best = 0;
    for (int i = 0; i < 30; i++) {
        double start = now();
        run(&k, x, x, y, 0, 0);
        best = fmax(best, k.plan.flop / (now() - start) * 1e-9);
    }
    release(&k);
    free(x), free(y);
    return best;
}

static double peak;
static int n_all;
static double log_share;

static void report(const char *name, double flop, double ours, const compiled *k) {
    printf("%-34s %8.1f GFLOP/s %5.1f %%  %9.1f us  tile %2dx%d by %2d items %4lld  compile %5.1f "
           "ms  %s rows %lldx%lld panels %lldx%lld k %lldx%lld/%lld\n",
           name, flop / ours * 1e-9, 100 * flop / ours * 1e-9 / peak, ours * 1e6, k->plan.rows, k->plan.vectors,
           k->plan.multiply, (long long)k->plan.items, k->compile_ms,
           k->plan.pack_a ? (k->plan.a_columns ? "A columns" : "A rows") : "", (long long)k->plan.row_blocks,
           (long long)(k->plan.tiles_per_block * k->plan.rows), (long long)k->plan.panel_blocks,
           (long long)k->plan.panels_per_block, (long long)k->plan.k_blocks, (long long)k->plan.block_k,
           (long long)k->plan.k_splits);
    n_all++;
    log_share += log(flop / ours * 1e-9 / peak);
}

static int rounds_for(double flop) { return flop > 2e9 ? 5 : flop > 2e8 ? 15 : 60; }

// C[m,n] = sum of op(A)[m,k] op(B)[k,n], row-major.
static void product(const char *name, int m, int n, int k, bool a_t, bool b_t) {
    tcc_contract c = {.dtype = stored, .n_accesses = 1};
    c.m.d[c.m.n++] = (tcc_contract_dim){.extent = m, .a = a_t ? 1 : k, .c = {n}};
    c.n.d[c.n.n++] = (tcc_contract_dim){.extent = n, .b = b_t ? k : 1, .c = {1}};
    c.k.d[c.k.n++] = (tcc_contract_dim){.extent = k, .a = a_t ? m : 1, .b = b_t ? 1 : n};
    compiled kernel;
    compile(&kernel, &c);
    float *a = floats((int64_t)m * k), *b = floats((int64_t)n * k), *x = floats((int64_t)m * n);
    double best = INFINITY;
    for (int i = 0; i < rounds_for(kernel.plan.flop); i++) {
        double start = now();
        run(&kernel, a, b, x, 0, 0);
        best = fmin(best, now() - start);
    }
    report(name, kernel.plan.flop, best, &kernel);
    release(&kernel);
    free(a), free(b), free(x);
}

static const char *only;

// y[m,out] = x[m,in] w[out,in]^T and the gradients of both.
static void linear(const char *model, int m, int in, int out) {
    char name[128];
    snprintf(name, sizeof name, "%s %dx%dx%d y", model, m, in, out);
    if (!only || strstr(name, only)) product(name, m, out, in, false, true);
    snprintf(name, sizeof name, "%s %dx%dx%d dx", model, m, in, out);
    if (!only || strstr(name, only)) product(name, m, in, out, false, false);
    snprintf(name, sizeof name, "%s %dx%dx%d dw", model, m, in, out);
    if (!only || strstr(name, only)) product(name, out, in, m, true, false);
}

// -- Convolutions, channels last.

typedef struct conv {
    const char *name;
    int n, h, w, ci, co, kernel, stride, pad; // h, w: of the input
} conv;

// kind 0: forward, 1: data gradient, 2: filter gradient
static void set_dims(tcc_contract *c, conv s, int kind, int oh, int ow) {
    const int64_t high = s.h + 2 * s.pad, wide = s.w + 2 * s.pad, kk = (int64_t)s.kernel * s.ci;
    if (kind == 0) {
        c->m.d[c->m.n++] = (tcc_contract_dim){.extent = s.n, .a = high * wide * s.ci, .c = {(int64_t)oh * ow * s.co}};
        c->m.d[c->m.n++] = (tcc_contract_dim){.extent = oh, .a = s.stride * wide * s.ci, .c = {(int64_t)ow * s.co}};
        c->m.d[c->m.n++] = (tcc_contract_dim){.extent = ow, .a = (int64_t)s.stride * s.ci, .c = {s.co}};
        c->n.d[c->n.n++] = (tcc_contract_dim){.extent = s.co, .b = s.kernel * kk, .c = {1}};
        c->k.d[c->k.n++] = (tcc_contract_dim){.extent = s.kernel, .a = wide * s.ci, .b = kk};
        c->k.d[c->k.n++] = (tcc_contract_dim){.extent = s.kernel, .a = s.ci, .b = s.ci};
        c->k.d[c->k.n++] = (tcc_contract_dim){.extent = s.ci, .a = 1, .b = 1};
    } else if (kind == 1) { // stride 1 alone: dy padded by kernel - 1 - pad
        int64_t dw = ow + s.kernel - 1;
        c->m.d[c->m.n++] =
            (tcc_contract_dim){.extent = s.n, .a = (oh + s.kernel - 1) * dw * s.co, .c = {(int64_t)s.h * s.w * s.ci}};
        c->m.d[c->m.n++] = (tcc_contract_dim){.extent = s.h, .a = dw * s.co, .c = {(int64_t)s.w * s.ci}};
        c->m.d[c->m.n++] = (tcc_contract_dim){.extent = s.w, .a = s.co, .c = {s.ci}};
        c->n.d[c->n.n++] = (tcc_contract_dim){.extent = s.ci, .b = 1, .c = {1}};
        c->k.d[c->k.n++] = (tcc_contract_dim){.extent = s.kernel, .a = dw * s.co, .b = -kk};
        c->k.d[c->k.n++] = (tcc_contract_dim){.extent = s.kernel, .a = s.co, .b = -s.ci};
        c->k.d[c->k.n++] = (tcc_contract_dim){.extent = s.co, .a = 1, .b = s.kernel * kk};
    } else {
        c->m.d[c->m.n++] = (tcc_contract_dim){.extent = s.co, .a = 1, .c = {s.kernel * kk}};
        c->n.d[c->n.n++] = (tcc_contract_dim){.extent = s.kernel, .b = wide * s.ci, .c = {kk}};
        c->n.d[c->n.n++] = (tcc_contract_dim){.extent = s.kernel, .b = s.ci, .c = {s.ci}};
        c->n.d[c->n.n++] = (tcc_contract_dim){.extent = s.ci, .b = 1, .c = {1}};
        c->k.d[c->k.n++] = (tcc_contract_dim){.extent = s.n, .a = (int64_t)oh * ow * s.co, .b = high * wide * s.ci};
        c->k.d[c->k.n++] = (tcc_contract_dim){.extent = oh, .a = (int64_t)ow * s.co, .b = s.stride * wide * s.ci};
        c->k.d[c->k.n++] = (tcc_contract_dim){.extent = ow, .a = s.co, .b = (int64_t)s.stride * s.ci};
    }
}

// Leaves the border out, so that arrays have none; where the first element lies then.
static int64_t set_windows(tcc_contract *c, conv s, int kind, int oh, int ow) {
    if (s.n < 4 || !s.pad || s.ci < 16) return 0;
    int64_t in = kind == 1 ? s.co : s.ci, over = kind == 1 ? s.kernel - 1 - s.pad : s.pad;
    int64_t h = kind == 1 ? oh : s.h, w = kind == 1 ? ow : s.w, step = kind == 1 ? 1 : s.stride;
    c->n_windows = 2;
    c->window_b = kind == 2;
    c->windows[0] = (tcc_contract_window){-over, h}, c->windows[1] = (tcc_contract_window){-over, w};
    const int64_t border = -over * (w * in + in);
    if (kind < 2) {
        c->m.d[0].a = h * w * in, c->m.d[1].a = step * w * in;
        c->m.d[1].w[0] = c->m.d[2].w[1] = step;
        c->k.d[0].a = w * in;
        c->k.d[0].w[0] = c->k.d[1].w[1] = 1;
    } else {
        c->n.d[0].b = w * in;
        c->n.d[0].w[0] = c->n.d[1].w[1] = 1;
        c->k.d[0].b = h * w * in, c->k.d[1].b = step * w * in;
        c->k.d[1].w[0] = c->k.d[2].w[1] = step;
    }
    return border;
}

static void convolution(conv s, int kind) {
    static const char *const kinds[] = {"y", "dx", "dw"};
    char name[128];
    snprintf(name, sizeof name, "%s %s", s.name, kinds[kind]);
    if (only && !strstr(name, only)) return;
    int oh = (s.h + 2 * s.pad - s.kernel) / s.stride + 1, ow = (s.w + 2 * s.pad - s.kernel) / s.stride + 1;
    int64_t high = s.h + 2 * s.pad, wide = s.w + 2 * s.pad;
    tcc_contract c = {.dtype = stored, .n_accesses = 1};
    int64_t kk = (int64_t)s.kernel * s.ci;
    set_dims(&c, s, kind, oh, ow);
    const int64_t border = set_windows(&c, s, kind, oh, ow);
    compiled kernel;
    compile(&kernel, &c);
    int64_t most = (int64_t)s.n * (high + s.kernel) * (wide + s.kernel) * (s.ci > s.co ? s.ci : s.co);
    float *a = floats(most), *b = floats(kind == 2 ? most : s.co * s.kernel * kk),
          *x = floats(most + s.co * s.kernel * kk);
    double best = INFINITY;
    for (int i = 0; i < rounds_for(kernel.plan.flop); i++) {
        double start = now();
        run(&kernel, a, b, x, kind < 2 ? border : 0,
            kind == 2   ? border
            : kind == 1 ? (s.kernel - 1) * kk + (s.kernel - 1) * s.ci
                        : 0);
        best = fmin(best, now() - start);
    }
    report(name, kernel.plan.flop, best, &kernel);
    release(&kernel);
    free(a), free(b), free(x);
}

int main(int argc, char **argv) {
    tcc_llvm_target_host(NULL, NULL, &target);
    peak = peak_gflops();
    printf("multiply-adds from registers: %.1f GFLOP/s\n", peak);
    const bool f16 = argc > 1 && !strcmp(argv[1], "-f16"), bf16 = argc > 1 && !strcmp(argv[1], "-bf16");
    if (f16 || bf16) stored = f16 ? TCC_F16 : TCC_BF16, argv++, argc--;
    only = argc > 1 ? argv[1] : NULL;

    linear("square", 512, 512, 512), linear("square", 1024, 1024, 1024), linear("square", 2048, 2048, 2048);
    linear("chargpt", 768, 128, 384), linear("chargpt", 768, 128, 128), linear("chargpt", 768, 128, 512);
    linear("chargpt", 768, 512, 128), linear("chargpt", 768, 128, 65);
    linear("gpt10m", 2048, 384, 1152), linear("gpt10m", 2048, 384, 384), linear("gpt10m", 2048, 384, 1536);
    linear("gpt10m", 2048, 1536, 384);
    linear("gpt2", 256, 768, 2304), linear("gpt2", 256, 768, 3072), linear("gpt2", 256, 3072, 768);
    linear("gpt2", 256, 768, 50257);
    linear("mlp", 128, 784, 1024), linear("mlp", 128, 1024, 1024), linear("mlp", 128, 1024, 10);

    static const conv convs[] = {
        {"resnet stem 3-64 32x32", 32, 32, 32, 3, 64, 3, 1, 1}, {"resnet 64 32x32", 32, 32, 32, 64, 64, 3, 1, 1},
        {"resnet 128 16x16", 32, 16, 16, 128, 128, 3, 1, 1},    {"resnet 256 8x8", 32, 8, 8, 256, 256, 3, 1, 1},
        {"resnet 512 4x4", 32, 4, 4, 512, 512, 3, 1, 1},        {"resnet 64-128 s2", 32, 32, 32, 64, 128, 3, 2, 1},
        {"resnet 256-512 s2", 32, 8, 8, 256, 512, 3, 2, 1},     {"resnet 64-128 1x1 s2", 32, 32, 32, 64, 128, 1, 2, 0},
        {"mnist 1-32 28x28", 64, 28, 28, 1, 32, 3, 1, 1},       {"mnist 32-64 14x14", 64, 14, 14, 32, 64, 3, 1, 1},
    };
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
        for (int kind = 0; kind < 3; kind++)
            if (kind != 1 || (convs[i].stride == 1 && convs[i].ci > 3)) convolution(convs[i], kind);
    if (n_all) printf("geometric mean of the shares of the peak: %.2f\n", exp(log_share / n_all));
    tcc_llvm_target_clear(&target);
    return 0;
}
