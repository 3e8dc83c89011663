/* SPDX-License-Identifier: MIT
 * gpu-bandwidth [MIB [KERNEL]]: fused memory-bound kernels on a GPU beside a copy from device memory to device memory
 * in the same run. Prints one JSON line a kernel: bytes are the fewest that it must move (each input read once, each
 * output written once), and `of_copy` compares the rate with the copy's. MIB is the size of the main tensor, 256 by
 * default. */
#include "gpu_timing.h"

#include "codegen/build.h"
#include "codegen/emit/emitter.h"
#include "codegen/select.h"
#include "harness/check.h"
#include "harness/passes.h"
#include "ir/ir.h"
#include "ir/support/alloc.h"
#include "runtime/cuda/context.h"
#include "runtime/cuda/device.h"
#include "traincc/context.h"

#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 1024, TENSORS = 64 };
static const char before[] = "simplify,decompose,simplify,layout,simplify,fuse,select,order,plan-memory";

typedef struct kernel {
    const char *name;
    double aim;   /* of the copy's rate */
    double reads; /* of tensors as large as the main one, each of reads and writes */
    double writes;
    const char *text; /* R rows: $R */
    bool gradients;   /* of the output "loss", which itself is dropped */
    bool update;      /* a step of AdamW with clipping on them */
} kernel;

static const kernel kernels[] = {
    {"pointwise", 0.95, 2, 1,
     "graph @pointwise {\n  %0 = input {name=\"x\"} : f32[$R,1024]\n  %1 = input {name=\"y\"} : f32[$R,1024]\n  %2 = "
     "mul(%0, %1) : f32[$R,1024]\n"
     "  %3 = add(%2, %0) : f32[$R,1024]\n  output \"z\" %3\n}\n",
     false, false},
    {"softmax", 0.92, 1, 1,
     "graph @softmax {\n  %0 = input {name=\"x\"} : f32[$R,1024]\n  %1 = softmax(%0) {axis=1} : f32[$R,1024]\n  output "
     "\"y\" %1\n}\n",
     false, false},
    {"layer_norm", 0.92, 1, 1,
     "graph @layer_norm {\n  %0 = input {name=\"x\"} : f32[$R,1024]\n  %1 = input {name=\"w\"} : f32[1024]\n  %2 = "
     "input {name=\"b\"} : f32[1024]\n"
     "  %3 = layer_norm(%0, %1, %2) {eps=0x1p-17, axis=1} : f32[$R,1024]\n  output \"y\" %3\n}\n",
     false, false},
    {"cross_entropy", 0.92, 1, 0,
     "graph @cross_entropy {\n  %0 = input {name=\"x\"} : f32[$R,1024]\n  %1 = input {name=\"t\"} : i32[$R]\n"
     "  %2 = cross_entropy(%0, %1) {ignore_index=-100} : f32[]\n  output \"loss\" %2\n}\n",
     false, false},
    {"layer_norm_backward", 0.85, 2, 1,
     "graph @layer_norm_backward {\n  %0 = input {name=\"x\", role=param} : f32[$R,1024]\n  %1 = input {name=\"w\", "
     "role=param} : f32[1024]\n"
     "  %2 = input {name=\"b\", role=param} : f32[1024]\n  %3 = input {name=\"d\"} : f32[$R,1024]\n"
     "  %4 = layer_norm(%0, %1, %2) {eps=0x1p-17, axis=1} : f32[$R,1024]\n  %5 = mul(%4, %3) : f32[$R,1024]\n"
     "  %6 = reduce_sum(%5) {axes=[0, 1]} : f32[]\n  output \"loss\" %6\n}\n",
     true, false},
    {"adamw", 0.92, 5, 3, NULL, true, true}, /* clipping reads the gradients once more */
};

/* The text with $R replaced; the caller frees it. */
static char *with_rows(const char *text, int64_t rows) {
    tcc_strbuf out = {0};
    for (const char *dollar; (dollar = strstr(text, "$R")); text = dollar + 2) {
        tcc_strbuf_addn(&out, text, (size_t)(dollar - text));
        tcc_strbuf_printf(&out, "%lld", (long long)rows);
    }
    tcc_strbuf_add(&out, text);
    return tcc_strbuf_take(&out);
}

/* TENSORS parameters of rows / TENSORS rows each; the loss is such that each gradient is an input, and not computed. */
static char *many_tensors(int64_t rows) {
    tcc_strbuf out = {0};
    long long each = (long long)(rows / TENSORS), id = 0, sum = -1;
    tcc_strbuf_add(&out, "graph @adamw {\n");
    for (int i = 0; i < TENSORS; i++, id += 4) {
        tcc_strbuf_printf(&out, "  %%%lld = input {name=\"p%d\", role=param} : f32[%lld,%d]\n", id, i, each, WIDTH);
        tcc_strbuf_printf(&out, "  %%%lld = input {name=\"g%d\"} : f32[%lld,%d]\n", id + 1, i, each, WIDTH);
        tcc_strbuf_printf(&out, "  %%%lld = mul(%%%lld, %%%lld) : f32[%lld,%d]\n", id + 2, id, id + 1, each, WIDTH);
        tcc_strbuf_printf(&out, "  %%%lld = reduce_sum(%%%lld) {axes=[0, 1]} : f32[]\n", id + 3, id + 2);
        long long value = id + 3;
        if (sum >= 0) {
            tcc_strbuf_printf(&out, "  %%%lld = add(%%%lld, %%%lld) : f32[]\n", id + 4, sum, value);
            value = id++ + 4;
        }
        sum = value;
    }
    tcc_strbuf_printf(&out, "  output \"loss\" %%%lld\n}\n", sum);
    return tcc_strbuf_take(&out);
}

static tcc_graph *graph_of(const kernel *k, int64_t rows, const tcc_pass_target *target, tcc_diag *d) {
    char *text = k->text ? with_rows(k->text, rows) : many_tensors(rows);
    tcc_graph *g = NULL;
    if (!text || tcc_graph_parse(text, strlen(text), k->name, d, &g) != TCC_OK) bench_give_up(k->name, d);
    tcc__free(text);
    static const int groups[TENSORS];
    const tcc_pass_options options = {
        .train = k->gradients,
        .target = target,
        .spec = {.optimizer = TCC_ADAMW, .clip_norm = true, .n_groups = 1, .group_of = groups}};
    if (k->gradients) {
        tcc_graph *joint = run_passes(g, k->update ? "simplify,autodiff,train-step" : "simplify,autodiff", &options);
        tcc_graph_destroy(g);
        int kept = 0;
        for (int i = 0; i < joint->outputs.count; i++)
            if (strcmp(joint->outputs.data[i].name, "loss")) joint->outputs.data[kept++] = joint->outputs.data[i];
        joint->outputs.count = kept;
        g = joint;
    }
    tcc_graph *ready = run_passes(g, before, &options);
    tcc_graph_destroy(g);
    return ready;
}

/* The rate of a copy, in bytes read and written a second. */
static double copy_rate(int64_t bytes, tcc_context *cx, tcc_device *device) {
    tcc_buffer from = {.space = TCC_SPACE_ARENA, .size_bytes = bytes},
               to = {.space = TCC_SPACE_ARENA, .offset_bytes = bytes, .size_bytes = bytes};
    tcc_step step = {.kind = TCC_STEP_COPY, .from = from, .to = to, .grain = 1, .label = "copy"};
    tcc_program p = {.name = "copy",
                     .target = TCC_TARGET_CUDA,
                     .cpu = ((const tcc_device_cuda *)device)->arch,
                     .arena_bytes = 2 * bytes,
                     .n_steps = 1,
                     .steps = &step};
    double seconds = bench_time_program(&p, cx, device);
    printf("{\"kernel\": \"copy\", \"mib\": %lld, \"ms\": %.4f, \"gb_per_s\": %.1f}\n", (long long)(bytes >> 20),
           1e3 * seconds, 2e-9 * (double)bytes / seconds);
    fflush(stdout);
    return 2 * (double)bytes / seconds;
}

static void measure(const kernel *k, int64_t bytes, double copy, const tcc_llvm_target *target, tcc_context *cx,
                    tcc_device *device) {
    const tcc_codegen_options options = {.target = target};
    tcc_selector *selector;
    tcc_program *p;
    if (tcc_selector_create(cx, &options, false, &selector) != TCC_OK) bench_give_up(k->name, &cx->diag);
    tcc_pass_target asked = *tcc_selector_target(selector);
    asked.computes_operand = NULL; /* as where a library multiplies */
    tcc_graph *g = graph_of(k, bytes / 4 / WIDTH, &asked, &cx->diag);
    tcc_selector_destroy(selector);
    if (tcc_codegen_build(cx, &cx->diag, g, &options, &p) != TCC_OK) bench_give_up(k->name, &cx->diag);
    double seconds = bench_time_program(p, cx, device), rate = (k->reads + k->writes) * (double)bytes / seconds;
    printf("{\"kernel\": \"%s\", \"mib\": %lld, \"steps\": %d, \"ms\": %.4f, \"gb_per_s\": %.1f, \"of_copy\": %.3f, "
           "\"aim\": %.2f}\n",
           k->name, (long long)(bytes >> 20), p->n_steps, 1e3 * seconds, 1e-9 * rate, rate / copy, k->aim);
    fflush(stdout);
    tcc_program_destroy(p);
    tcc_graph_destroy(g);
}

int main(int argc, char **argv) {
    int64_t mib = argc > 1 ? atoll(argv[1]) : 256;
    tcc_context *cx;
    tcc_device *device;
    tcc_llvm_target target;
    if (mib < 1) {
        fputs("usage: gpu-bandwidth [MIB [KERNEL]]\n", stderr);
        return 2;
    }
    if (tcc_context_create(&cx) != TCC_OK) return EXIT_FAILURE;
    if (tcc_device_cuda_create(cx, -1, &device) != TCC_OK) bench_give_up("device", &cx->diag);
    if (tcc_llvm_target_cuda(((const tcc_device_cuda *)device)->arch, &device->hw, &cx->diag, &target) != TCC_OK)
        bench_give_up("target", &cx->diag);
    double copy = copy_rate(mib << 20, cx, device);
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (argc < 3 || !strcmp(argv[2], kernels[i].name)) measure(&kernels[i], mib << 20, copy, &target, cx, device);
    tcc_llvm_target_clear(&target);
    tcc_device_destroy(device);
    tcc_context_destroy(cx);
    return EXIT_SUCCESS;
}
