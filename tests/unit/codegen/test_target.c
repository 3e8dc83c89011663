/* SPDX-License-Identifier: MIT
 * The description of devices: the table by architecture, what a device says of itself in its place, and that kernels
 * keep to it; and what work costs on them, which passes are told as codegen is. */
#include "codegen/emit/emitter.h"
#include "codegen/options.h"
#include "codegen/select.h"
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"
#include "ir/support/costs.h"
#include "passes/select.h"

#include <math.h>

enum { KIB = 1024 };

/* Of NVIDIA's table "Technical Specifications per Compute Capability". */
static void limits(void **state) {
    (void)state;
    static const struct {
        int sm, shared_kib, optin_kib, threads, blocks;
    } facts[] = {
        {75, 64, 64, 1024, 16},   {80, 164, 163, 2048, 32}, {86, 100, 99, 1536, 16},   {87, 164, 163, 1536, 16},
        {89, 100, 99, 1536, 24},  {90, 228, 227, 2048, 32}, {100, 228, 227, 2048, 32}, {103, 228, 227, 2048, 32},
        {120, 100, 99, 1536, 24}, {121, 100, 99, 1536, 24},
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        tcc_hardware hw;
        tcc_hardware_of_sm(facts[i].sm, &hw);
        assert_int_equal(hw.sm, facts[i].sm);
        assert_int_equal(hw.shared_bytes, 48 * KIB);
        assert_int_equal(hw.shared_bytes_per_processor, facts[i].shared_kib * KIB);
        assert_int_equal(hw.shared_optin_bytes, facts[i].optin_kib * KIB);
        assert_int_equal(hw.shared_optin_bytes + hw.shared_reserved_bytes, hw.shared_bytes_per_processor);
        assert_int_equal(hw.threads_per_processor, facts[i].threads);
        assert_int_equal(hw.warps_per_processor, facts[i].threads / 32);
        assert_int_equal(hw.blocks_per_processor, facts[i].blocks);
        assert_int_equal(hw.threads_per_block, 1024);
        assert_int_equal(hw.registers_per_processor, 65536);
        assert_true(hw.processors > 0 && hw.bytes_per_s > 1e11 && hw.clock_hz > 1e9 && hw.cache_bytes > 0);
        assert_true(hw.fma_f32 >= 64 && hw.fma_f64 > 0 && (hw.fma_tf32 > 0) == (hw.sm >= 80));
    }
}

/* What the device says counts; the rest is that of its architecture, or of the one before it. */
static void devices(void **state) {
    (void)state;
    tcc_hardware hw, usual;
    tcc_hardware_of_device(&(tcc_hardware){.sm = 90, .processors = 114, .bytes_per_s = 2e12}, &hw);
    assert_int_equal(hw.processors, 114);
    assert_true(hw.bytes_per_s == 2e12);
    tcc_hardware_of_sm(90, &usual);
    assert_int_equal(hw.shared_optin_bytes, 227 * KIB);
    tcc_hardware_of_device(&(tcc_hardware){.sm = 90, .bytes_per_s = 3.352e12, .clock_hz = 1.7e9}, &hw);
    assert_true(hw.bytes_per_s == usual.bytes_per_s && hw.clock_hz == 1.7e9); /* the data sheet's, rounded; another */
    tcc_hardware_of_device(&(tcc_hardware){.sm = 122}, &hw);
    assert_int_equal(hw.sm, 122);
    assert_int_equal(hw.shared_optin_bytes, 99 * KIB);
    tcc_hardware_of_sm(75, &hw);
    assert_int_equal(tcc_hardware_threads(&hw, 32), 1024);
    assert_int_equal(tcc_hardware_threads(&hw, 128), 512);
}

/* The most shared memory that a kernel of the graph has. */
static int64_t shared_of(const char *text, const char *arch, const tcc_hardware *hw) {
    tcc_diag diag = {0};
    tcc_context cx;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    tcc_graph *g = parse_graph(text, &diag), *graph;
    tcc_llvm_target target;
    assert_ok(tcc_llvm_target_cuda(arch, hw, &cx.diag, &target), &cx.diag);
    tcc_program *program;
    compiled_build(g, &(compiled_options){.simplify = true}, &target, &cx, &graph, &program);
    assert_string_equal(program->cpu, arch);
    int64_t most = 0;
    for (int i = 0; i < program->n_kernels; i++)
        if (program->kernels[i].scratch_bytes > most) most = program->kernels[i].scratch_bytes;
    tcc_llvm_target_clear(&target);
    tcc_program_destroy(program);
    tcc_graph_destroy(graph);
    tcc_graph_destroy(g);
    tcc_context_clear(&cx);
    tcc_diag_clear(&diag);
    return most;
}

/* Long rows lie in shared memory where that is large enough. */
static void long_rows(void **state) {
    (void)state;
    static const char softmax[] = "graph @softmax {\n  %0 = input {name=\"x\"} : f32[512,20000]\n"
                                  "  %1 = softmax(%0) {axis=1} : f32[512,20000]\n  output \"o\" %1\n}\n";
    enum { ROW = 2 * 20000 * 4 }; /* x and its exponential */
    assert_int_equal(shared_of(softmax, "sm_90", NULL), ROW);
    assert_int_equal(shared_of(softmax, "sm_100", NULL), ROW);
    assert_true(shared_of(softmax, "sm_120", NULL) < 99 * KIB);
    assert_true(shared_of(softmax, "sm_121", NULL) < 99 * KIB);
    const tcc_hardware small = {.sm = 90, .shared_optin_bytes = 99 * KIB};
    assert_true(shared_of(softmax, "sm_90", &small) < 99 * KIB);
}

#define AVX2 "+avx2,+f16c,+fma"
#define AVX512 AVX2 ",+avx512f,+avx512bw,+avx512dq,+avx512vl"

/* A host is what its features say. LLVM may know its CPU by no name or by that of a relative, and a virtual machine may
 * have less than the CPU that is named. */
static void features_of_hosts(void **state) {
    (void)state;
    static const struct {
        const char *features;
        int lanes, registers;
        bool fma, f16;
        double pairs, tiles; /* multiply-adds in a cycle, of f32's */
    } hosts[] = {
        {"+sse4.1", 4, 16, false, false, 0, 0},
        {"+avx,+f16c,-avx2,-fma", 4, 16, false, true, 0, 0},
        {AVX2, 8, 16, true, true, 0, 0},
        {AVX2 ",+avx512f,-avx512bw,+avx512dq,+avx512vl,+avx512bf16", 8, 16, true, true, 0, 0},
        {AVX512 ",-avx512bf16,-sse4a,-amx-bf16", 16, 32, true, true, 0, 0},
        {AVX512 ",+sse4a", 16, 32, true, true, 0, 0},
        {AVX512 ",+avx512bf16,-sse4a,-amx-bf16", 16, 32, true, true, 0.5, 0},
        {AVX512 ",+avx512bf16,+sse4a,-amx-bf16", 16, 32, true, true, 2, 0},
        {AVX512 ",+avx512bf16,-sse4a,+amx-bf16", 16, 32, true, true, 0.5, 16},
    };
    static const char *const names[] = {"generic", "x86-64-v2", "znver4", "znver5", "sapphirerapids", "imaginary"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            tcc_llvm_target t = {.triple = (char[]){"x86_64-pc-linux-gnu"},
                                 .cpu = (char *)names[k],
                                 .features = (char *)hosts[i].features};
            tcc_llvm_target_of_features(&t);
            assert_int_equal(t.lanes, hosts[i].lanes);
            assert_int_equal(t.registers, hosts[i].registers);
            assert_int_equal(t.fma, hosts[i].fma);
            assert_int_equal(t.f16, hosts[i].f16);
            assert_true(t.hw.fma_f32 == 2 * t.lanes);
            assert_true(t.hw.fma_bf16_pairs == hosts[i].pairs * t.hw.fma_f32);
            assert_true(t.hw.fma_bf16_tiles == hosts[i].tiles * t.hw.fma_f32);
        }
    tcc_llvm_target arm = {
        .triple = (char[]){"aarch64-linux-gnu"}, .cpu = (char[]){"generic"}, .features = (char[]){"+neon"}};
    tcc_llvm_target_of_features(&arm);
    assert_true(arm.lanes == 4 && arm.registers == 32 && arm.fma && arm.f16);
}

/* -- Costs -- */

static tcc_costs told(const char *arch) {
    tcc_context cx;
    tcc_selector *s;
    assert_int_equal(tcc_context_init(&cx), TCC_OK);
    assert_int_equal(tcc_selector_create(&cx, &(tcc_codegen_options){.arch = arch}, false, &s), TCC_OK);
    const tcc_costs costs = tcc_costs_of(tcc_selector_target(s));
    assert_memory_equal(&costs, &tcc_selector_llvm(s)->costs, sizeof costs);
    tcc_selector_destroy(s);
    tcc_context_clear(&cx);
    return costs;
}

/* A price that a target forgot would be 0: free, or a division by it. */
static void costs(void **state) {
    (void)state;
    static const char *const archs[] = {NULL, "sm_75", "sm_90", "sm_121"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        const tcc_costs c = told(archs[i]);
        const double both[] = {c.launch_ns,      c.bytes_a_ns,        c.reached_elsewhere, c.byte_ns,
                               c.cached_byte_ns, c.exposed,           c.beside_ns,         c.instruction_ns,
                               c.operand_part,   c.operand_part_bf16, c.avoided_launch_ns},
                     gpu[] = {c.operand_instructions, c.block_cycles, c.combine_cycles,
                              c.combine_reached,      c.idle_rate,    c.least_call_fma,
                              c.planned_call_bytes,   c.padding_flop, c.least_aligned_flop},
                     host[] = {c.packed_element_cycles, c.far_element_cycles, c.item_cycles, c.item_flop,
                               c.missing_item,          c.scattered_steps,    c.gathered};
        const double *own = archs[i] ? gpu : host;
        const size_t n = archs[i] ? sizeof gpu / sizeof *gpu : sizeof host / sizeof *host;
        for (size_t k = 0; k < sizeof both / sizeof *both; k++) assert_true(both[k] > 0);
        for (size_t k = 0; k < n; k++) assert_true(own[k] > 0);
        assert_true(c.cached_byte_ns < c.byte_ns && c.exposed <= 1 && c.operand_part <= 1);
        /* a host's products of bf16 hide less of the work for an operand, a GPU's kernels none of it */
        assert_true(tcc_costs_operand_part(&c, TCC_F32) == c.operand_part && c.operand_part_bf16 <= 1);
        assert_int_equal(tcc_costs_operand_part(&c, TCC_BF16) > tcc_costs_operand_part(&c, TCC_F32), !archs[i]);
        assert_true(tcc_costs_reached(&c, "contract.tiles")->matrices > 0);
        assert_true(tcc_costs_reached(&c, "attention")->plain > 0);
        assert_true(!tcc_costs_reached(&c, "pointwise"));
        assert_true(!tcc_costs_reached(&c, "cudnn.conv") == !archs[i]);
        const tcc_product_cycles *const products[] = {&c.f32, &c.bf16};
        for (int k = 0; k < 2 && !archs[i]; k++)
            assert_true(products[k]->b_in_place > 0 && products[k]->b_rows > 0 && products[k]->b_columns > 0 &&
                        products[k]->a_rows > 0 && products[k]->a_columns > 0 && products[k]->kept > 0 &&
                        products[k]->parts > 0);
    }
}

/* An H100 moves 3.35 TB/s and begins 128 instructions a cycle on each of 132 processors. Figures of the device at hand
 * count, and without a target it is a usual CPU. */
static void costs_of_figures(void **state) {
    (void)state;
    const tcc_costs h100 = told("sm_90"), none = tcc_costs_of(NULL);
    assert_true(fabs(h100.bytes_a_ns - 3350) < 1e-9 && fabs(h100.byte_ns * 3350 - 1) < 1e-12);
    assert_true(fabs(h100.instruction_ns * 128 * 132 * 1.98 - 1) < 1e-12);
    tcc_hardware half;
    tcc_costs costs;
    tcc_hardware_of_sm(90, &half);
    half.bytes_per_s /= 2;
    tcc_costs_of_gpu(&half, &costs);
    assert_true(fabs(costs.byte_ns / h100.byte_ns - 2) < 1e-12 && costs.instruction_ns == h100.instruction_ns);
    assert_true(none.byte_ns == told(NULL).byte_ns && none.operand_part == told(NULL).operand_part);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(limits),    cmocka_unit_test(devices),
                                       cmocka_unit_test(long_rows), cmocka_unit_test(features_of_hosts),
                                       cmocka_unit_test(costs),     cmocka_unit_test(costs_of_figures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
