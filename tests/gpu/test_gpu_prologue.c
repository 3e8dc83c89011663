/* SPDX-License-Identifier: MIT
 * Work in front of dots and convolutions, which their kernels do while they read: against the interpreter; its traffic,
 * and its instructions. */
#include "bench/kernel_cache.h"
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/gpu_program.h"
#include "ir/build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum work {
    NOTHING,
    SCALE,
    SHIFT,
    RELU_GRADIENT,
    MASK,
    ROWS,
    COLUMNS,
    DROPOUT,
    GELU,
    CAST,
    COUNTED,
    WORKS
} work;

static const char *const names[] = {"nothing", "scale",   "shift", "relu_gradient", "mask",   "rows",
                                    "columns", "dropout", "gelu",  "cast",          "counted"};

static tcc_node *input(tcc_graph *g, const char *stem, int operand, tcc_role role, tcc_type type) {
    char name[32];
    snprintf(name, sizeof name, "%s%d", stem, operand);
    return tcc_ir_input(g, name, role, &type, TCC_NOWHERE);
}

static tcc_type with(tcc_type type, tcc_dtype dtype) {
    type.dtype = dtype;
    return type;
}

/* A factor for each element of dim `dim`. */
static tcc_node *along(tcc_graph *g, int operand, const tcc_type *type, int dim) {
    tcc_node *factors = input(g, "f", operand, TCC_ROLE_BATCH,
                              (tcc_type){.dtype = type->dtype, .rank = 1, .dims = {type->dims[dim]}});
    return tcc_ir_broadcast(g, factors, type->rank, type->dims, &dim);
}

/* An operand of that type, with work in front. Of `shift` and `counted` f(0) is not 0. */
static tcc_node *operand_with(tcc_graph *g, work w, int operand, tcc_type type) {
    tcc_dtype other = type.dtype == TCC_F32 ? TCC_F16 : TCC_F32;
    tcc_node *x = input(g, "x", operand, TCC_ROLE_BATCH, with(type, w == CAST ? other : type.dtype)),
             *zero = tcc_ir_splat(g, &type, 0);
    switch (w) {
    case SCALE: return tcc_ir_binary_c(g, TCC_OP_MUL, x, 1.5);
    case SHIFT: return tcc_ir_binary_c(g, TCC_OP_ADD, x, 0.5);
    case RELU_GRADIENT:
        return tcc_ir_select(g, tcc_ir_binary_c(g, TCC_OP_GT, input(g, "y", operand, TCC_ROLE_BATCH, type), 0), x,
                             zero);
    case MASK: return tcc_ir_select(g, input(g, "m", operand, TCC_ROLE_BATCH, with(type, TCC_BOOL)), x, zero);
    case ROWS: return tcc_ir_binary(g, TCC_OP_MUL, x, along(g, operand, &type, type.rank - 2));
    case COLUMNS: return tcc_ir_binary(g, TCC_OP_MUL, x, along(g, operand, &type, type.rank - 1));
    case DROPOUT: {
        tcc_node *in[] = {x,
                          input(g, "key", operand, TCC_ROLE_RNG, (tcc_type){.dtype = TCC_I64, .rank = 1, .dims = {2}})};
        return tcc_ir_build(g, TCC_OP_DROPOUT, in, 2, &(tcc_attrs){.dropout = {.id = 3, .p = 0.25}}, NULL, TCC_NOWHERE);
    }
    case GELU: return tcc_ir_unary(g, TCC_OP_GELU_TANH, x);
    case CAST: return tcc_ir_cast(g, x, type.dtype);
    case COUNTED: {
        tcc_type index = with(type, TCC_I32);
        tcc_node *odd = tcc_ir_binary_c(g, TCC_OP_REM, tcc_ir_iota(g, &index, type.rank - 1), 2);
        return tcc_ir_binary(g, TCC_OP_ADD, x, tcc_ir_cast(g, odd, type.dtype));
    }
    default: return x;
    }
}

typedef struct dot {
    tcc_dtype dtype;
    int batch, m, n, k;        /* batch 0: none */
    bool a_columns, b_columns; /* A is k x m; B is n x k */
    work a, b;
} dot;

static tcc_graph *dot_graph(const dot *d, tcc_diag *diag) {
    char name[96];
    snprintf(name, sizeof name, "%s_%s_%s_%d_%d_%d_%d_%d%d", tcc_dtype_text(d->dtype), names[d->a], names[d->b],
             d->batch, d->m, d->n, d->k, d->a_columns, d->b_columns);
    tcc_graph *g = tcc_graph_create(name, diag);
    int at = 0, batch = d->batch > 0;
    tcc_type a = {.dtype = d->dtype, .rank = 2 + batch}, b = a;
    if (batch) a.dims[at] = b.dims[at] = d->batch, at++;
    a.dims[at] = d->a_columns ? d->k : d->m, a.dims[at + 1] = d->a_columns ? d->m : d->k;
    b.dims[at] = d->b_columns ? d->n : d->k, b.dims[at + 1] = d->b_columns ? d->k : d->n;
    tcc_attrs_dot dims = {.contract_a = {1, {at + !d->a_columns}}, .contract_b = {1, {at + d->b_columns}}};
    if (batch) dims.batch_a = dims.batch_b = (tcc_dims){1, {0}};
    tcc_node *x = operand_with(g, d->a, 0, a), *y = operand_with(g, d->b, 1, b);
    assert_ok(tcc_ir_output(g, "c", tcc_ir_dot(g, x, y, &dims), -1), diag);
    return g;
}

/* Narrow types are compared at 2 units in the last place of 1; work in front is rounded to them, so that sums must stay
 * small. */
static compiled_options options_of(const dot *d, bool tf32) {
    double most = d->dtype == TCC_F32 || d->dtype == TCC_F64 ? 1 : 0.25,
           scale = d->a == COUNTED || d->b == COUNTED ? 3 : 1;
    return (compiled_options){
        .low = -most, .high = most, .tf32 = tf32, .tolerance = scale * (tf32 ? 8e-4 * sqrt(d->k) : 1e-4)};
}

/* Whether the program is the dot alone: nothing in front of it is stored. */
static bool is_fused(const tcc_program *p) {
    for (int i = 0; i < p->n_steps; i++) {
        const tcc_step *s = &p->steps[i];
        const char *schedule = s->kind == TCC_STEP_KERNEL ? p->kernels[s->kernel].schedule : "";
        if (strcmp(schedule, "contract") && strcmp(schedule, "combine")) return false;
    }
    return true;
}

static void check_dot(const dot *d, bool tf32) {
    tcc_diag diag = {0};
    tcc_graph *g = dot_graph(d, &diag);
    compiled_options options = options_of(d, tf32);
    if (sim.reset_stats) sim.reset_stats();
    check_gpu(g, &options);
    ptxsim_stats s;
    if (sim.get_stats) {
        assert_int_equal(sim.get_stats(NULL, &s), 0);
        if (s.shared_conflicts) fail_msg("%s: %d accesses meet in banks", g->name, (int)s.shared_conflicts);
        bool whole = d->m % 8 == 0 && d->n % 8 == 0 && d->k % 8 == 0, matrix = s.matrix_instructions > 0;
        if (matrix != (whole && (tf32 || (d->dtype != TCC_F32 && d->dtype != TCC_F64))))
            fail_msg("%s: tensor cores are %sused", g->name, matrix ? "" : "not ");
    }
    gpu_program *p = gpu_program_create(g, &options, "sm_90");
    if (!is_fused(p->program)) fail_msg("%s: work in front is not fused", g->name);
    gpu_program_destroy(p);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

/* Each kind of work in front of each operand, in each layout, where nothing is a multiple of anything and where all is.
 */
static void exact(void **state) {
    (void)state;
    static const int sizes[][3] = {{33, 37, 29}, {64, 72, 40}};
    for (int w = SCALE; w < WORKS; w++)
        for (int i = 0; i < 2; i++) {
            const int *size = sizes[i], layout = (w + i) % 4;
            check_dot(&(dot){TCC_F32, 0, size[0], size[1], size[2], layout & 1, layout & 2, (work)w, NOTHING}, false);
            check_dot(&(dot){TCC_F32, 0, size[0], size[1], size[2], layout & 2, layout & 1, NOTHING, (work)w}, false);
        }
    for (int layout = 0; layout < 4; layout++)
        check_dot(&(dot){TCC_F32, 0, 36, 40, 20, layout & 1, layout & 2, RELU_GRADIENT, SHIFT}, false);
    for (int layout = 0; layout < 4; layout++)
        check_dot(&(dot){TCC_F32, 3, 17, 20, 13, layout & 1, layout & 2, DROPOUT, COLUMNS}, false);
    check_dot(&(dot){TCC_F32, 0, 20, 24, 1100, true, false, SHIFT, RELU_GRADIENT}, false); /* split */
    for (int w = SCALE; w < WORKS; w++)
        check_dot(&(dot){TCC_F64, 0, 24, 36, w % 2 ? 13 : 16, w & 1, w & 2, (work)w, w % 3 ? NOTHING : MASK}, false);
}

static void tensor_cores(void **state) {
    (void)state;
    static const tcc_dtype types[] = {TCC_F16, TCC_BF16, TCC_F32};
    for (int t = 0; t < 3; t++) {
        for (int w = SCALE; w < WORKS; w++) {
            int layout = (w + t) % 4;
            check_dot(&(dot){types[t], 0, 72, 40, 48, layout & 1, layout & 2, (work)w, NOTHING}, true);
            check_dot(&(dot){types[t], 0, 72, 40, 48, layout & 2, layout & 1, NOTHING, (work)w}, true);
        }
        for (int layout = 0; layout < 4; layout++)
            check_dot(&(dot){types[t], 0, 64, 72, 40, layout & 1, layout & 2, COUNTED, CAST}, true);
        check_dot(&(dot){types[t], 2, 40, 24, 72, false, true, SHIFT, DROPOUT}, true);
        check_dot(&(dot){types[t], 0, 33, 17, 25, false, true, SHIFT, RELU_GRADIENT}, true); /* not whole pieces */
    }
}

/* A convolution or a gradient of one, channels last, with padding: what is outside is 0 whatever the work in front
 * makes of 0. */
/* A view that no loop resolves: its index is divided for each element, so the operand is copied first. */
static void views_across_rows(void **state) {
    (void)state;
    check_gpu_text("graph @across {\n"
                   "  %0 = input {name=\"x\"} : f32[6,20]\n"
                   "  %1 = input {name=\"w\"} : f32[15,16]\n"
                   "  %2 = reshape(%0) : f32[8,15]\n"
                   "  %3 = tanh(%2) : f32[8,15]\n"
                   "  %4 = transpose(%0) {perm=[1, 0]} : f32[20,6]\n"
                   "  %5 = reshape(%4) : f32[8,15]\n"
                   "  %6 = neg(%5) : f32[8,15]\n"
                   "  %7 = dot(%3, %1) {contract_a=[1], contract_b=[0]} : f32[8,16]\n"
                   "  %8 = dot(%6, %1) {contract_a=[1], contract_b=[0]} : f32[8,16]\n"
                   "  output \"y\" %7\n"
                   "  output \"z\" %8\n"
                   "}\n",
                   &(compiled_options){.tolerance = 1e-4});
}

static void check_conv(tcc_op op, tcc_dtype dtype, int channels, int stride, work one, work two) {
    enum { IMAGES = 2, SIZE = 9, KERNEL = 3 };
    char name[64];
    snprintf(name, sizeof name, "%s_%s_%s_%s_%d", tcc_op_get_info(op)->text, tcc_dtype_text(dtype), names[one],
             names[two], channels);
    tcc_diag diag = {0};
    tcc_graph *g = tcc_graph_create(name, &diag);
    const int out = (SIZE - 1) / stride + 1;
    tcc_type x = {.dtype = dtype, .rank = 4, .dims = {IMAGES, SIZE, SIZE, channels}},
             w = {.dtype = dtype, .rank = 4, .dims = {24, KERNEL, KERNEL, channels}};
    tcc_type y = {.dtype = dtype, .rank = 4, .dims = {IMAGES, out, out, 24}};
    tcc_attrs attrs = {.conv = {.stride = {2, {stride, stride}},
                                .pad_lo = {2, {1, 1}},
                                .pad_hi = {2, {1, 1}},
                                .dilation = {2, {1, 1}},
                                .groups = 1,
                                .channels_last = true}};
    tcc_node *in[] = {operand_with(g, one, 0, op == TCC_OP_CONV_GRAD_INPUT ? y : x),
                      operand_with(g, two, 1, op == TCC_OP_CONV_GRAD_WEIGHT ? y : w)};
    const tcc_type *type = op == TCC_OP_CONV ? NULL : op == TCC_OP_CONV_GRAD_INPUT ? &x : &w;
    assert_ok(tcc_ir_output(g, "c", tcc_ir_build(g, op, in, 2, &attrs, type, TCC_NOWHERE), -1), &diag);
    compiled_options options = options_of(&(dot){.dtype = dtype, .k = KERNEL * KERNEL * channels, .a = one, .b = two},
                                          false);
    check_gpu(g, &options);
    gpu_program *p = gpu_program_create(g, &options, "sm_90");
    if (!is_fused(p->program)) fail_msg("%s: work in front is not fused", g->name);
    gpu_program_destroy(p);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

static void convolutions(void **state) {
    (void)state;
    static const tcc_op ops[] = {TCC_OP_CONV, TCC_OP_CONV_GRAD_INPUT, TCC_OP_CONV_GRAD_WEIGHT};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (int stride = 1; stride < 3; stride++) {
            check_conv(ops[i], TCC_F32, 16, stride, SHIFT, NOTHING);
            check_conv(ops[i], TCC_F32, 5, stride, NOTHING, COUNTED);
            check_conv(ops[i], TCC_F32, 7, stride, MASK, SCALE);
            check_conv(ops[i], TCC_F16, 16, stride, SHIFT, MASK);
        }
}

/* The largest tiles have the most to keep in registers. */
static void nothing_spills(void **state) {
    (void)state;
    static const work heavy[] = {RELU_GRADIENT, ROWS, DROPOUT, GELU, CAST};
    static const struct {
        tcc_dtype dtype;
        bool tf32;
        const char *arch;
    } ways[] = {
        {TCC_F32, false, "sm_75"}, {TCC_F32, false, "sm_90"}, {TCC_BF16, false, "sm_80"}, {TCC_F32, true, "sm_90"}};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (size_t i = 0; i < sizeof heavy / sizeof *heavy; i++) {
            const bool columns = (w + i) % 2;
            const dot d = {ways[w].dtype, 0, 264 * 128, 128, 64, columns, !columns, heavy[i], NOTHING};
            tcc_diag diag = {0};
            tcc_graph *g = dot_graph(&d, &diag);
            kernel_cache_off = true; /* a module is assembled with all that it has */
            gpu_program *p = gpu_program_create(g, &(compiled_options){.tf32 = ways[w].tf32}, ways[w].arch);
            kernel_cache_off = false;
            if (!is_fused(p->program)) fail_msg("%s: work in front is not fused", g->name);
            if (p->program->kernels[0].threads != 128) fail_msg("%s: a smaller tile", g->name);
            long spilled = gpu_assemble(p->program, ways[w].arch);
            if (spilled > 0) fail_msg("%s, %s: %ld bytes of registers are spilled", g->name, ways[w].arch, spilled);
            gpu_program_destroy(p);
            tcc_graph_destroy(g);
            tcc_diag_clear(&diag);
        }
}

/* What a run of the dot does, on zeros. */
static ptxsim_stats stats_of(const dot *d, bool tf32) {
    tcc_diag diag = {0};
    tcc_graph *g = dot_graph(d, &diag);
    gpu_program *p = gpu_program_create(g, &(compiled_options){.tf32 = tf32}, "sm_90");
    if (!is_fused(p->program)) fail_msg("%s: work in front is not fused", g->name);
    for (int i = 0; i < g->inputs.count; i++) {
        void *zeros = calloc((size_t)tcc_type_bytes(&g->inputs.data[i]->type), 1);
        gpu_program_upload(p, i, zeros);
        free(zeros);
    }
    ptxsim_stats s;
    sim.reset_stats();
    gpu_program_run(p);
    assert_int_equal(sim.get_stats(NULL, &s), 0);
    gpu_program_destroy(p);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
    return s;
}

/* Where a tile is all of the result, what is read is each operand's tensors once, in whole sectors; nothing else is
 * written than the result. */
static void traffic(void **state) {
    (void)state;
    skip_without(sim.get_stats, STAND_IN_COUNTS);
    enum { K = 96 };
    static const struct {
        work w;
        int f32, f16; /* bytes of an element of A and what goes with it */
    } cases[] = {{SCALE, 4, 2}, {RELU_GRADIENT, 8, 4}, {MASK, 5, 3}, {DROPOUT, 4, 2}, {CAST, 2, 4}};
    for (int narrow = 0; narrow < 2; narrow++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            for (int columns = 0; columns < 2; columns++) {
                const int M = narrow ? 64 : 32, N = M, bytes = narrow ? 2 : 4,
                          element = narrow ? cases[i].f16 : cases[i].f32;
                ptxsim_stats s = stats_of(
                    &(dot){narrow ? TCC_F16 : TCC_F32, 0, M, N, K, columns, columns, cases[i].w, NOTHING}, false);
                double least = M * K * element + N * K * bytes + M * N * bytes, moved = 32.0 * (double)s.global_sectors;
                assert_int_equal(s.global_write_bytes, M * N * bytes);
                assert_int_equal(s.global_read_unique_bytes,
                                 M * K * element + N * K * bytes + (cases[i].w == DROPOUT ? 16 : 0));
                bool whole = cases[i].w != MASK &&
                             cases[i].w !=
                                 CAST; /* else an access has parts of sectors, which the cache holds for the next */
                if (whole && moved > 1.05 * least)
                    fail_msg("%s: %.0f bytes are moved, %.0f are enough", names[cases[i].w], moved, least);
                assert_int_equal(s.shared_conflicts, 0);
            }
}

/* Two dots that read a gradient through ReLU: each masks it for itself, and nothing is between. */
static void both_gradients(void **state) {
    (void)state;
    enum { ROWS_OF_X = 96, IN = 64, OUT = 80 };
    tcc_diag diag = {0};
    tcc_graph *g = tcc_graph_create("both_gradients", &diag);
    tcc_type of_dz = {.dtype = TCC_F32, .rank = 2, .dims = {ROWS_OF_X, OUT}};
    tcc_node *dz = operand_with(g, RELU_GRADIENT, 0, of_dz);
    tcc_node *x = input(g, "in", 0, TCC_ROLE_BATCH, (tcc_type){.dtype = TCC_F32, .rank = 2, .dims = {ROWS_OF_X, IN}});
    tcc_node *w = input(g, "w", 0, TCC_ROLE_PARAM, (tcc_type){.dtype = TCC_F32, .rank = 2, .dims = {IN, OUT}});
    assert_ok(tcc_ir_output(g, "dw",
                            tcc_ir_dot(g, x, dz, &(tcc_attrs_dot){.contract_a = {1, {0}}, .contract_b = {1, {0}}}), -1),
              &diag);
    assert_ok(tcc_ir_output(g, "dx",
                            tcc_ir_dot(g, dz, w, &(tcc_attrs_dot){.contract_a = {1, {1}}, .contract_b = {1, {1}}}), -1),
              &diag);
    check_gpu(g, &(compiled_options){.tolerance = 1e-4});
    gpu_program *p = gpu_program_create(g, &(compiled_options){0}, "sm_90");
    assert_true(is_fused(p->program));
    gpu_program_destroy(p);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

/* Work that tiles repeat often is done once, in front. */
static void what_pays(void **state) {
    (void)state;
    static const struct {
        work w;
        int n; /* columns of the result, of which a tile has 128 */
        bool fused;
    } cases[] = {{SCALE, 1024, true},  {SCALE, 4096, false},  {RELU_GRADIENT, 256, true}, {RELU_GRADIENT, 1024, false},
                 {DROPOUT, 128, true}, {DROPOUT, 512, false}, {GELU, 128, true},          {GELU, 512, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcc_diag diag = {0};
        tcc_graph *g = dot_graph(&(dot){TCC_F32, 0, 4096, cases[i].n, 128, false, false, cases[i].w, NOTHING}, &diag);
        gpu_program *p = gpu_program_create(g, &(compiled_options){0}, "sm_90");
        if (is_fused(p->program) != cases[i].fused) fail_msg("%s is %sfused", g->name, cases[i].fused ? "not " : "");
        gpu_program_destroy(p);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

/* Warp instructions in the loop over k, for each multiply-add or matrix product of a warp: by how much a longer k
 * takes. */
static double per_product(work w, tcc_dtype dtype, bool tf32, bool columns) {
    enum { M = 128, N = 128, SHORT = 64, LONG = 192 };
    ptxsim_stats a = stats_of(&(dot){dtype, 0, M, N, SHORT, columns, !columns, w, NOTHING}, tf32);
    ptxsim_stats b = stats_of(&(dot){dtype, 0, M, N, LONG, columns, !columns, w, NOTHING}, tf32);
    double products = b.matrix_instructions ? (double)(b.matrix_instructions - a.matrix_instructions)
                                            : M * N * (LONG - SHORT) / 32.0;
    return (double)(b.warp_instructions - a.warp_instructions) / products;
}

static void instructions(void **state) {
    (void)state;
    skip_without(sim.get_stats, STAND_IN_COUNTS);
    static const struct {
        const char *name;
        tcc_dtype dtype;
        bool tf32;
    } ways[] = {{"multiply-add", TCC_F32, false}, {"bf16 product", TCC_BF16, false}, {"tf32 product", TCC_F32, true}};
    static const work front[] = {SCALE, RELU_GRADIENT, DROPOUT};
    static const double most[][3] = {
        {0.1, 0.2, 1.1}, {12, 22, 50}, {3, 5, 18}}; /* tiles of 32 or 64 columns: as much again for each */
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const bool columns = i % 2;
        double plain = per_product(NOTHING, ways[i].dtype, ways[i].tf32, columns);
        printf("%s, %s: %.3f instructions", ways[i].name, columns ? "along rows" : "along k", plain);
        for (size_t w = 0; w < sizeof front / sizeof *front; w++) {
            double fused = per_product(front[w], ways[i].dtype, ways[i].tf32, columns);
            printf(", %s %.3f", names[front[w]], fused);
            if (fused > plain + most[i][w]) fail_msg("%s takes %.3f instructions more", names[front[w]], fused - plain);
        }
        printf("\n");
    }
}

int main(void) {
    setenv("PTXSIM_MEMORY_MIB", "256", 0);
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact),        cmocka_unit_test(tensor_cores),   cmocka_unit_test(nothing_spills),
        cmocka_unit_test(traffic),      cmocka_unit_test(both_gradients), cmocka_unit_test(what_pays),
        cmocka_unit_test(instructions), cmocka_unit_test(convolutions),   cmocka_unit_test(views_across_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
