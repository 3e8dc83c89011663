/* SPDX-License-Identifier: MIT
 * Attention and its gradients on a GPU against the interpreter: heads inside a packed projection, tails, widths, masks; no spills,
 * nothing of the size of all scores in memory, no two threads in one bank. */
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

static void assemble(const char *text) {
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        gpu_program *p = create(text, archs[i]);
        bool found = false;
        for (int k = 0; k < p->program->n_kernels; k++) found = found || !strcmp(p->program->kernels[k].schedule, "attention");
        assert_true(found);
        assert_true(gpu_assemble(p->program, archs[i]) <= 0);
        gpu_program_destroy(p);
    }
}

typedef struct shape {
    int heads, T, S, D, E;
    const char *attrs; /* "scale=0.5, causal=true" */
    bool mask;
} shape;

/* All f32 but lse becomes `type`. */
static void narrow(char *text, const char *type) {
    size_t n = strlen(type);
    for (char *at = text; (at = strstr(at, "f32"));) {
        bool lse = false;
        for (const char *c = at; c > text && c[-1] != '\n'; c--) lse = lse || !strncmp(c, "sdpa_lse", 8);
        if (lse) {
            at += 3;
            continue;
        }
        memmove(at + n, at + 3, strlen(at + 3) + 1);
        memcpy(at, type, n);
        at += n;
    }
}

/* o, lse and all gradients. */
static void text_of(const shape *s, char *text, size_t size) {
    char q[64], k[64], v[64], o[64], l[64], m[64];
    snprintf(q, sizeof q, "f32[%d,%d,%d]", s->heads, s->T, s->D);
    snprintf(k, sizeof k, "f32[%d,%d,%d]", s->heads, s->S, s->D);
    snprintf(v, sizeof v, "f32[%d,%d,%d]", s->heads, s->S, s->E);
    snprintf(o, sizeof o, "f32[%d,%d,%d]", s->heads, s->T, s->E);
    snprintf(l, sizeof l, "f32[%d,%d]", s->heads, s->T);
    snprintf(m, sizeof m, "f32[%d,%d,%d]", s->heads, s->T, s->S);
    const char *mask = s->mask ? ", %4" : "";
    snprintf(text, size,
             "graph @a {\n  %%0 = input {name=\"q\"} : %s\n  %%1 = input {name=\"k\"} : %s\n  %%2 = input {name=\"v\"} : %s\n"
             "  %%3 = input {name=\"do\"} : %s\n  %%4 = input {name=\"m\"} : %s\n"
             "  %%5 = sdpa(%%0, %%1, %%2%s) {%s} : %s\n  %%6 = sdpa_lse(%%0, %%1%s) {%s} : %s\n"
             "  %%7 = sdpa_grad_q(%%0, %%1, %%2, %%5, %%6, %%3%s) {%s} : %s\n"
             "  %%8 = sdpa_grad_k(%%0, %%1, %%2, %%5, %%6, %%3%s) {%s} : %s\n"
             "  %%9 = sdpa_grad_v(%%0, %%1, %%2, %%5, %%6, %%3%s) {%s} : %s\n"
             "  output \"o\" %%5\n  output \"lse\" %%6\n  output \"dq\" %%7\n  output \"dk\" %%8\n  output \"dv\" %%9\n}\n",
             q, k, v, o, m, mask, s->attrs, o, mask, s->attrs, l, mask, s->attrs, q, mask, s->attrs, k, mask, s->attrs, v);
}

static void check(shape s) {
    char text[4096];
    text_of(&s, text, sizeof text);
    if (sim.reset_stats) sim.reset_stats();
    check_gpu_text(text, &(compiled_options){.tolerance = 1e-4});
    ptxsim_stats counted;
    if (!sim.get_stats) return;
    assert_int_equal(sim.get_stats(NULL, &counted), 0);
    assert_int_equal(counted.shared_conflicts, 0);
}

static void shapes(void **state) {
    (void)state;
    check((shape){2, 16, 16, 8, 8, "scale=0.5, causal=true", false});
    check((shape){1, 70, 70, 16, 16, "scale=0.25, causal=true", false});
    check((shape){1, 5, 67, 32, 32, "scale=0.25", false});
    check((shape){1, 33, 65, 20, 12, "scale=0.3, causal=true", true});
    check((shape){1, 65, 33, 7, 5, "scale=0.3", false});
    check((shape){1, 40, 40, 64, 64, "scale=0.125, causal=true", false});
    check((shape){1, 35, 50, 128, 128, "scale=0.1", false});
    check((shape){1, 130, 130, 48, 80, "scale=0.1, causal=true", false});
}

static void tensor_cores(void **state) {
    (void)state;
    static const shape all[] = {
        {2, 16, 16, 8, 8, "scale=0.5, causal=true", false},     {1, 70, 70, 16, 16, "scale=0.25, causal=true", false},
        {1, 5, 67, 32, 32, "scale=0.25", false},                {1, 33, 65, 24, 16, "scale=0.3, causal=true", true},
        {1, 40, 40, 64, 64, "scale=0.125, causal=true", false}, {1, 130, 140, 48, 80, "scale=0.1, causal=true", false},
        {1, 35, 50, 128, 128, "scale=0.1", false},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[4096];
        text_of(&all[i], text, sizeof text);
        narrow(text, i % 2 ? "bf16" : "f16");
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

static void registers(void **state) {
    (void)state;
    static const int widths[] = {16, 32, 64, 65, 80, 128};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        char text[4096];
        shape s = {8, 512, 512, widths[i], widths[i], "scale=0.125, causal=true", false};
        text_of(&s, text, sizeof text);
        assemble(text);
        if (widths[i] % 8) continue;
        narrow(text, "bf16");
        assemble(text);
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

/* Forward, not causal: q once, k and v once a block of queries; o and lse once. */
static void traffic(void **state) {
    (void)state;
    if (!sim.get_stats) skip();
    gpu_program *p = create("graph @t {\n  %0 = input {name=\"q\"} : f32[1,256,64]\n  %1 = input {name=\"k\"} : f32[1,256,64]\n"
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

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(heads_in_place),
        cmocka_unit_test(tensor_cores),
        cmocka_unit_test(registers),
        cmocka_unit_test(traffic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
