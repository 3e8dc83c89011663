/* SPDX-License-Identifier: MIT
 * Attention and its gradients on a GPU against the interpreter: heads inside a packed projection, tails, widths, masks;
 * no spills, nothing of the size of all scores in memory, no two threads in one bank. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/gpu_program.h"
#include "harness/graphs.h"
#include <stdio.h>
#include <stdlib.h>

static const char *const archs[] = {"sm_75", "sm_80", "sm_90"};

static gpu_program *create(const char *text, const char *arch) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    gpu_program *p = gpu_program_create(g, &(compiled_options){0}, arch);
    tcc_graph_destroy(g);
    return p;
}

static int count_kernels(const gpu_program *p) {
    int n = 0;
    for (int k = 0; k < p->program->n_kernels; k++) n += !strcmp(p->program->kernels[k].schedule, "attention");
    return n;
}

static void assemble_for(const char *text, const char *arch, const gpu_spill *known) {
    gpu_program *p = create(text, arch);
    assert_true(count_kernels(p) > 0);
    assert_true(gpu_assemble_but(p->program, arch, known) <= 0);
    gpu_program_destroy(p);
}

static void assemble(const char *text) {
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) assemble_for(text, archs[i], &(gpu_spill){0});
}

static void check(attention_graph a) {
    char text[4096];
    attention_graph_text(text, sizeof text, &a);
    if (sim.reset_stats) sim.reset_stats();
    check_gpu_text(text, &(compiled_options){.tolerance = 1e-4});
    ptxsim_stats counted;
    if (!sim.get_stats) return;
    assert_int_equal(sim.get_stats(NULL, &counted), 0);
    assert_int_equal(counted.shared_conflicts, 0);
}

static void shapes(void **state) {
    (void)state;
    check((attention_graph){"2,", 16, 16, 8, 8, "scale=0.5, causal=true", .p = 0});
    check((attention_graph){"1,", 70, 70, 16, 16, "scale=0.25, causal=true", .p = 0});
    check((attention_graph){"1,", 5, 67, 32, 32, "scale=0.25", .p = 0});
    check((attention_graph){"1,", 33, 65, 20, 12, "scale=0.3, causal=true", .mask = "1,33,65"});
    check((attention_graph){"1,", 65, 33, 7, 5, "scale=0.3", .p = 0});
    check((attention_graph){"1,", 40, 40, 64, 64, "scale=0.125, causal=true", .p = 0});
    check((attention_graph){"1,", 35, 50, 128, 128, "scale=0.1", .p = 0});
    check((attention_graph){"1,", 130, 130, 48, 80, "scale=0.1, causal=true", .p = 0});
    check((attention_graph){"1,", 104, 37, 20, 12, "scale=0.3, causal=true", .p = 0.25}); /* the first see no key */
    check((attention_graph){"1,", 70, 1, 8, 8, "scale=0.3, causal=true", .mask = "1,70,1"});
    check((attention_graph){"2,3,", 33, 20, 16, 8, "scale=0.3, causal=true", .p = 0.25, .shared = "2,1,"});
}

static void tensor_cores(void **state) {
    (void)state;
    static const attention_graph all[] = {
        {"2,", 16, 16, 8, 8, "scale=0.5, causal=true", .p = 0},
        {"1,", 70, 70, 16, 16, "scale=0.25, causal=true", .p = 0},
        {"1,", 5, 67, 32, 32, "scale=0.25", .p = 0},
        {"1,", 33, 65, 24, 16, "scale=0.3, causal=true", .mask = "1,33,65"},
        {"1,", 40, 40, 64, 64, "scale=0.125, causal=true", .p = 0},
        {"1,", 130, 140, 48, 80, "scale=0.1, causal=true", .p = 0},
        {"1,", 35, 50, 128, 128, "scale=0.1", .p = 0},
        {"1,", 104, 37, 24, 16, "scale=0.3, causal=true", .p = 0.25},
        {"1,", 70, 1, 16, 16, "scale=0.3, causal=true", .mask = "1,70,1"},
        {"2,2,", 16, 20, 8, 8, "scale=0.3", .shared = "1,2,"},
        {"1,2,3,", 33, 40, 64, 64, "scale=0.125, causal=true", .shared = "1,2,1,"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[4096];
        attention_graph a = all[i];
        a.type = i % 2 ? "bf16" : "f16";
        attention_graph_text(text, sizeof text, &a);
        if (sim.reset_stats) sim.reset_stats();
        check_gpu_text(text, &(compiled_options){.tolerance = i % 2 ? 3e-2 : 4e-3});
        if (!sim.get_stats) continue;
        ptxsim_stats s;
        assert_int_equal(sim.get_stats(NULL, &s), 0);
        assert_true(s.matrix_instructions > 0);
        /* Copies of rows that are no multiple of 128 bytes may meet; fragments never do. */
        if (all[i].D % 64 == 0 && all[i].E % 64 == 0) assert_int_equal(s.shared_conflicts, 0);
    }
}

/* Draws of a thread's four keys, and of a warp's fragments, whose threads share them; rows that begin inside four of
 * them. */
static void dropout(void **state) {
    (void)state;
    static const attention_graph all[] = {
        {"2,3,", 16, 16, 8, 8, "scale=0.5, causal=true", .p = 0.25},
        {"2,", 70, 70, 16, 16, "scale=0.25, causal=true", .mask = "1,70,70", .p = 0.5},
        {"1,", 5, 67, 32, 32, "scale=0.25", .p = 0.2},
        {"2,2,", 33, 68, 24, 16, "scale=0.3, causal=true", .mask = "1,2,33,68", .p = 0.1},
        {"3,", 65, 33, 8, 24, "scale=0.3", .mask = "3,1,33", .p = 0.75},
        {"1,", 130, 140, 48, 80, "scale=0.1, causal=true", .p = 0.2},
        {"1,", 35, 52, 128, 128, "scale=0.1", .p = 0.2},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        check(all[i]);
        attention_graph a = all[i];
        char text[4096];
        a.type = i % 2 ? "bf16" : "f16";
        attention_graph_text(text, sizeof text, &a);
        check_gpu_text(text, &(compiled_options){.tolerance = i % 2 ? 3e-2 : 4e-3});
    }
}

static void registers(void **state) {
    (void)state;
    static const int widths[] = {16, 32, 64, 65, 80, 128};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        char text[4096];
        attention_graph a = {"8,", 512, 512, widths[i], widths[i], "scale=0.125, causal=true", .p = 0};
        attention_graph_text(text, sizeof text, &a);
        assemble(text);
        if (widths[i] % 8) continue;
        a.type = "bf16";
        attention_graph_text(text, sizeof text, &a);
        assemble(text);
    }
}

static void registers_of_dropout(void **state) {
    (void)state;
    static const gpu_spill known[] = {
        {"attention", 36,
         "gradients with dropout: what is drawn comes beside sums that nearly fill the registers; most where S is no "
         "multiple of 4",
         NULL},
        {0},
    };
    static const struct {
        int keys, width;
        const char *type;
        bool forward;
    } all[] = {{512, 64, "f32", true}, {511, 128, "bf16", true}, {512, 64, "bf16", false}, {511, 128, "bf16", false}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[4096];
        attention_graph a = {"8,",         256,
                             all[i].keys,  all[i].width,
                             all[i].width, "scale=0.125, causal=true",
                             .p = 0.2,     .type = all[i].type};
        a.forward = all[i].forward;
        attention_graph_text(text, sizeof text, &a);
        assemble_for(text, "sm_90", all[i].forward ? &(gpu_spill){0} : known);
    }
}

static void heads_in_place(void **state) {
    (void)state;
    static const char text[] =
        "graph @heads {\n"
        "  %0 = input {name=\"qkv\"} : f32[2,16,96]\n"
        "  %1 = slice(%0) {start=[0, 0, 0], limit=[2, 16, 32], stride=[1, 1, 1]} : f32[2,16,32]\n"
        "  %2 = reshape(%1) : f32[2,16,4,8]\n"
        "  %3 = transpose(%2) {perm=[0, 2, 1, 3]} : f32[2,4,16,8]\n"
        "  %4 = slice(%0) {start=[0, 0, 32], limit=[2, 16, 64], stride=[1, 1, 1]} : f32[2,16,32]\n"
        "  %5 = reshape(%4) : f32[2,16,4,8]\n"
        "  %6 = transpose(%5) {perm=[0, 2, 1, 3]} : f32[2,4,16,8]\n"
        "  %7 = slice(%0) {start=[0, 0, 64], limit=[2, 16, 96], stride=[1, 1, 1]} : f32[2,16,32]\n"
        "  %8 = reshape(%7) : f32[2,16,4,8]\n"
        "  %9 = transpose(%8) {perm=[0, 2, 1, 3]} : f32[2,4,16,8]\n"
        "  %10 = sdpa(%3, %6, %9) {scale=0.5, causal=true} : f32[2,4,16,8]\n"
        "  %11 = transpose(%10) {perm=[0, 2, 1, 3]} : f32[2,16,4,8]\n"
        "  %12 = reshape(%11) : f32[2,16,32]\n"
        "  %13 = sdpa_lse(%3, %6) {scale=0.5, causal=true} : f32[2,4,16]\n"
        "  output \"y\" %12\n"
        "  output \"lse\" %13\n"
        "}\n";
    check_gpu_text(text, &(compiled_options){.tolerance = 1e-4});
    assemble(text);
}

/* Gradients side by side in one tensor: of a width that tensor cores multiply, written there; of another one made in
 * f32, and rounded together. Results whose queries and widths reshapes split. */
static void views_of_results(void **state) {
    (void)state;
    for (int width = 12; width <= 16; width += 4) {
        char text[4096], narrow[32];
        snprintf(narrow, sizeof narrow, "f16[2,20,%d]", width);
        snprintf(text, sizeof text,
                 "graph @packed {\n"
                 "  %%0 = input {name=\"q\"} : %s\n"
                 "  %%1 = input {name=\"k\"} : %s\n"
                 "  %%2 = input {name=\"v\"} : %s\n"
                 "  %%3 = input {name=\"d\"} : %s\n"
                 "  %%4 = sdpa(%%0, %%1, %%2) {scale=0.5, causal=true} : %s\n"
                 "  %%5 = sdpa_lse(%%0, %%1) {scale=0.5, causal=true} : f32[2,20]\n"
                 "  %%6 = sdpa_grad_q(%%0, %%1, %%2, %%4, %%5, %%3) {scale=0.5, causal=true} : %s\n"
                 "  %%7 = sdpa_grad_k(%%0, %%1, %%2, %%4, %%5, %%3) {scale=0.5, causal=true} : %s\n"
                 "  %%8 = sdpa_grad_v(%%0, %%1, %%2, %%4, %%5, %%3) {scale=0.5, causal=true} : %s\n"
                 "  %%9 = concat(%%6, %%7, %%8) {axis=2} : f16[2,20,%d]\n"
                 "  %%10 = reshape(%%4) : f16[2,5,4,2,%d]\n"
                 "  %%11 = transpose(%%4) {perm=[0, 2, 1]} : f16[2,%d,20]\n"
                 "  output \"y\" %%10\n"
                 "  output \"z\" %%11\n"
                 "  output \"d\" %%9\n"
                 "}\n",
                 narrow, narrow, narrow, narrow, narrow, narrow, narrow, narrow, 3 * width, width / 2, width);
        check_gpu_text(text, &(compiled_options){.tolerance = 4e-3});
        gpu_program *p = create(text, "sm_80");
        assert_int_equal(count_kernels(p), 3); /* forward; backward by queries and by keys */
        gpu_program_destroy(p);
    }
}

/* Forward, not causal: q once, k and v once a block of queries; o and lse once. */
static void traffic(void **state) {
    (void)state;
    skip_without(sim.get_stats, STAND_IN_COUNTS);
    gpu_program *p =
        create("graph @t {\n  %0 = input {name=\"q\"} : f32[1,256,64]\n  %1 = input {name=\"k\"} : f32[1,256,64]\n"
               "  %2 = input {name=\"v\"} : f32[1,256,64]\n  %3 = sdpa(%0, %1, %2) {scale=0.125} : f32[1,256,64]\n"
               "  output \"o\" %3\n}\n",
               "sm_90");
    float *zeros = calloc(256 * 64, sizeof *zeros);
    for (int i = 0; i < 3; i++) gpu_program_upload(p, i, zeros);
    free(zeros);
    sim.reset_stats();
    gpu_program_run(p);
    ptxsim_stats s;
    assert_int_equal(sim.get_stats(NULL, &s), 0);
    enum { OPERAND = 256 * 64 * 4, BLOCKS = 256 / 64 };
    assert_int_equal(s.global_read_bytes, OPERAND + 2 * BLOCKS * OPERAND);
    assert_int_equal(s.global_write_bytes, OPERAND);
    assert_int_equal(s.global_sectors * 32, s.global_read_bytes + s.global_write_bytes);
    assert_int_equal(s.shared_conflicts, 0);
    gpu_program_destroy(p);
}

/* Bytes that the kernels of such a graph read and write. */
static ptxsim_stats count(const attention_graph *a) {
    char text[4096];
    ptxsim_stats s;
    attention_graph_text(text, sizeof text, a);
    gpu_program *p = create(text, "sm_90");
    char *zeros = calloc(1 << 20, 1);
    for (int i = 0; i < 6; i++) gpu_program_upload(p, i, zeros);
    free(zeros);
    sim.reset_stats();
    gpu_program_run(p);
    assert_int_equal(sim.get_stats(NULL, &s), 0);
    gpu_program_destroy(p);
    return s;
}

/* Dropout adds the key's 16 bytes a thread, and a mask what is read of it where it lies: nothing of the scores' size is
 * stored. */
static void traffic_of_masks_and_dropout(void **state) {
    (void)state;
    skip_without(sim.get_stats, STAND_IN_COUNTS);
    enum { T = 128, HEADS = 2, SCORES = HEADS * T * T, KERNELS = 3, THREADS = HEADS * T / 64 * 128 };
    for (int k = 0; k < 2; k++) {
        attention_graph a = {"2,", T, T, 32, 32, "scale=0.125", .type = k ? "bf16" : "f32"};
        const ptxsim_stats plain = count(&a);
        a.p = 0.2;
        const ptxsim_stats dropped = count(&a);
        assert_int_equal(dropped.global_write_bytes, plain.global_write_bytes);
        assert_in_range(dropped.global_read_bytes, plain.global_read_bytes,
                        plain.global_read_bytes + KERNELS * THREADS * 16);
        assert_int_equal(dropped.shared_conflicts, plain.shared_conflicts);
        a.mask = "1,1,128";
        const ptxsim_stats masked = count(&a);
        assert_int_equal(masked.global_write_bytes, plain.global_write_bytes);
        assert_int_equal(masked.global_read_bytes, dropped.global_read_bytes + KERNELS * SCORES * (k ? 2 : 4));
        assert_in_range(masked.global_read_unique_bytes, dropped.global_read_unique_bytes + 1,
                        dropped.global_read_unique_bytes + KERNELS * T * 4);
        printf("%s, instructions with dropout: %.2f of those without\n", a.type,
               (double)dropped.warp_instructions / (double)plain.warp_instructions);
    }
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),           cmocka_unit_test(heads_in_place),
        cmocka_unit_test(tensor_cores),     cmocka_unit_test(dropout),
        cmocka_unit_test(registers),        cmocka_unit_test(registers_of_dropout),
        cmocka_unit_test(traffic),          cmocka_unit_test(traffic_of_masks_and_dropout),
        cmocka_unit_test(views_of_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
