/* SPDX-License-Identifier: MIT
 * What a kernel costs on the CPU beside its work: runs of a program of thousands of kernels that each do next to
 * nothing, by one thread and by all of TCC_NUM_THREADS, and the same work called in a plain loop. Prints one JSON line;
 * times are the median of the runs, per kernel. Usage: dispatch [RUNS] */
#include "harness/check.h"
#include "harness/ir_object.h"

#include "ir/support/alloc.h"
#include "ir/support/clock.h"
#include "runtime/cpu/device.h"
#include "runtime/exec.h"
#include "runtime/program.h"

#include <stdio.h>
#include <stdlib.h>

enum { KERNELS = 4096, WORDS = 64, DEFAULT_RUNS = 51 };

/* Adds one to each item's word. */
static const char kernel_ir[] = "define void @touch(ptr %buffers, ptr %params, i64 %begin, i64 %end, ptr %scratch) {\n"
                                "entry:\n  %to = load ptr, ptr %buffers\n  %any = icmp slt i64 %begin, %end\n"
                                "  br i1 %any, label %loop, label %exit\n"
                                "loop:\n  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]\n"
                                "  %p = getelementptr i64, ptr %to, i64 %i\n  %x = load i64, ptr %p\n"
                                "  %y = add i64 %x, 1\n  store i64 %y, ptr %p\n  %next = add i64 %i, 1\n"
                                "  %more = icmp slt i64 %next, %end\n  br i1 %more, label %loop, label %exit\n"
                                "exit:\n  ret void\n}\n";

/* `items` a kernel, of which a thread takes one at least: with two or more, all threads take part. */
static tcc_program *make_program(int64_t items) {
    int64_t object_bytes;
    void *object = test_ir_object(kernel_ir, NULL, &object_bytes);
    tcc_program *p = tcc__calloc(1, sizeof *p);
    if (!p) abort();
    tcc_arena *m = &p->memory;
    p->name = tcc_arena_strdup(m, "dispatch");
    p->target = TCC_TARGET_HOST;
    p->n_bindings = 1;
    p->bindings = TCC_ARENA_NEW(m, tcc_binding);
    p->bindings[0] =
        (tcc_binding){.name = "x", .role = TCC_ROLE_OUTPUT, .type = {.dtype = TCC_I64, .rank = 1, .dims = {WORDS}}};
    p->n_modules = 1;
    p->modules = TCC_ARENA_NEW(m, tcc_module);
    p->modules[0] = (tcc_module){tcc_arena_copy(m, object, (size_t)object_bytes), object_bytes};
    p->n_kernels = 1;
    p->kernels = TCC_ARENA_NEW(m, tcc_kernel);
    p->kernels[0] = (tcc_kernel){.symbol = "touch", .n_buffers = 1, .schedule = "pointwise"};
    p->n_steps = KERNELS;
    p->steps = TCC_ARENA_ARRAY(m, tcc_step, KERNELS);
    const tcc_buffer x = {.space = TCC_SPACE_BINDING, .size_bytes = WORDS * 8};
    const tcc_instance one = {tcc_arena_copy(m, &x, sizeof x), NULL, items};
    for (int i = 0; i < KERNELS; i++)
        p->steps[i] = (tcc_step){
            .n_instances = 1, .instances = tcc_arena_copy(m, &one, sizeof one), .grain = 1, .label = "", .lines = ""};
    free(object);
    return p;
}

static int ascending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Nanoseconds a kernel, in the middle of the runs. */
static double measure(tcc_program *p, int runs) {
    tcc_context cx;
    tcc_device *device;
    tcc_exec *e;
    static _Alignas(64) int64_t x[WORDS];
    int64_t *ns = malloc((size_t)runs * sizeof *ns);
    if (!ns) abort();
    assert_ok(tcc_context_init(&cx), &cx.diag);
    assert_ok(tcc_device_cpu_create(&cx, 0, &device), &cx.diag);
    assert_ok(tcc_exec_create(&cx, device, p, &e), &cx.diag);
    assert_ok(tcc_exec_bind(e, &cx.diag, 0, x, sizeof x), &cx.diag);
    for (int i = 0; i < runs; i++) {
        const int64_t start = tcc_clock_ns();
        assert_ok(tcc_exec_run(e, &cx.diag), &cx.diag);
        ns[i] = tcc_clock_ns() - start;
    }
    qsort(ns, (size_t)runs, sizeof *ns, ascending);
    const double middle = (double)ns[runs / 2] / KERNELS;
    tcc_exec_destroy(e);
    tcc_device_destroy(device);
    tcc_context_clear(&cx);
    free(ns);
    return middle;
}

int main(int argc, char **argv) {
    const int runs = argc > 1 ? atoi(argv[1]) : DEFAULT_RUNS;
    const char *threads = getenv("TCC_NUM_THREADS");
    if (runs < 1) return 2;
    tcc_program *serial = make_program(1), *parallel = make_program(WORDS);
    printf("{\"kernels\": %d, \"threads\": %s, \"one_item_ns\": %.1f, \"all_threads_ns\": %.1f}\n", KERNELS,
           threads ? threads : "null", measure(serial, runs), measure(parallel, runs));
    tcc_program_destroy(serial);
    tcc_program_destroy(parallel);
    return 0;
}
