/* SPDX-License-Identifier: MIT
 * scatter_add on a GPU, as gradients of embeddings have it: equal bits to the CPU's, whose order of additions is the
 * same. */
#include "harness/check.h"
#include "harness/evaluate.h"
#include "harness/gpu_program.h"
#include "harness/graphs.h"
#include "harness/scatter_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The same as on the host, to the last bit. */
static void check_equal_to_host(const char *text, const compiled_options *options) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    tcc_value *inputs = random_inputs(g, options);
    compiled *host = compiled_create(g, options);
    gpu_program *gpu = gpu_program_create(g, options, "sm_90");
    for (int i = 0; i < g->inputs.count; i++) {
        void *packed = malloc((size_t)tcc_type_bytes(&g->inputs.data[i]->type) + 1);
        value_store(&inputs[i], packed);
        memcpy(host->memory[i], packed, (size_t)tcc_type_bytes(&g->inputs.data[i]->type));
        gpu_program_upload(gpu, i, packed);
        free(packed);
    }
    compiled_run(host);
    gpu_program_run(gpu);
    for (int i = 0; i < g->outputs.count; i++) {
        size_t bytes = (size_t)tcc_type_bytes(&g->outputs.data[i].node->type);
        void *got = malloc(bytes + 1);
        gpu_program_download(gpu, compiled_output_binding(gpu->graph, i), got);
        assert_memory_equal(got, compiled_output(host, i), bytes);
        free(got);
    }
    free_values(inputs, g->inputs.count);
    compiled_destroy(host);
    gpu_program_destroy(gpu);
    tcc_graph_destroy(g);
}

static void embeddings(void **state) {
    (void)state;
    static const struct {
        int rows, positions, width;
    } shapes[] = {{1, 5, 4},       {7, 1, 3},        {9, 200, 8}, {65, 512, 384},
                  {300, 129, 130}, {5000, 300, 768}, {11, 70, 1}, {4200, 33, 1100}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char text[1024];
        int n = shapes[i].rows, p = shapes[i].positions, w = shapes[i].width;
        snprintf(text, sizeof text,
                 "graph @s {\n  %%0 = input {name=\"x\"} : f32[%d,%d]\n  %%1 = input {name=\"i\"} : i32[%d]\n  %%2 = "
                 "input {name=\"u\"} : f32[%d,%d]\n"
                 "  %%3 = scatter_add(%%0, %%1, %%2) {axis=0} : f32[%d,%d]\n  output \"o\" %%3\n}\n",
                 n, w, p, p, w, n, w);
        compiled_options options = {.limit = n < 70 ? n : 40, .seed = i};
        check_gpu_text(text, &options);
        check_equal_to_host(text, &options);
    }
}

/* Sums onto zeros begin in registers: one launch writes each row once, also those that nothing is added to. Onto -0
 * they do not. */
static void onto_zeros(void **state) {
    (void)state;
    static const struct {
        int rows, positions, width;
    } shapes[] = {{1, 5, 4}, {9, 200, 8}, {65, 101, 129}, {300, 33, 7}, {4200, 33, 260}, {11, 70, 1}};
    static const char *const types[] = {"f32", "bf16", "i32"}, *const ops[] = {"scatter_add", "scatter_max"};
    for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++)
        for (int form = 0; form < 3 * 2 * 2; form++) {
            const char *type = types[form % 3], *op = ops[form / 3 % 2];
            const int n = shapes[i].rows, p = shapes[i].positions, w = shapes[i].width;
            const bool negative = form >= 6 && strcmp(type, "i32") != 0;
            char text[1024];
            snprintf(text, sizeof text,
                     "graph @s {\n  %%0 = input {name=\"i\"} : i32[%d]\n  %%1 = input {name=\"u\"} : %s[%d,%d]\n"
                     "  %%2 = constant {values=[%s]} : %s[%d,%d]\n"
                     "  %%3 = %s(%%2, %%0, %%1) {axis=0} : %s[%d,%d]\n  output \"o\" %%3\n}\n",
                     p, type, p, w, negative ? "-0.0" : "0", type, n, w, op, type, n, w);
            const compiled_options options = {.limit = n + 3, .seed = i};
            assert_int_equal(gpu_steps_of_text(text, &options), negative ? 2 : 1);
            check_gpu_text(text, &options);
            check_equal_to_host(text, &options);
        }
}

/* Updates that are the same for all elements of a row, for all positions, or for both, as the gradient of a mean over
 * rows that were taken. The sums of a row are vectors all the same. */
static void alike_onto_zeros(void **state) {
    (void)state;
    static const struct {
        int rows, positions, width;
    } shapes[] = {{2, 256, 4}, {9, 33, 6}, {3, 70, 1}, {1, 5, 4}, {30, 40, 129}, {4200, 33, 260}};
    static const struct {
        const char *dims, *kept; /* of what is broadcast */
        bool positions;
    } kinds[] = {{"", "", false}, {"%d", "0", true}, {"%d", "1", false}};
    for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++)
        for (int form = 0; form < 3 * 2 * 2; form++) {
            const int kind = form % 3, n = shapes[i].rows, p = shapes[i].positions, w = shapes[i].width;
            const char *type = form / 3 % 2 ? "bf16" : "f32", *op = form / 6 ? "scatter_max" : "scatter_add";
            char dims[16], text[1024];
            snprintf(dims, sizeof dims, kinds[kind].dims, kinds[kind].positions ? p : w);
            snprintf(text, sizeof text,
                     "graph @s {\n  %%0 = input {name=\"i\"} : i32[%d]\n  %%1 = input {name=\"u\"} : %s[%s]\n"
                     "  %%2 = broadcast(%%1) {dims=[%s]} : %s[%d,%d]\n  %%3 = constant {values=[0]} : %s[%d,%d]\n"
                     "  %%4 = %s(%%3, %%0, %%2) {axis=0} : %s[%d,%d]\n  output \"o\" %%4\n}\n",
                     p, type, dims, kinds[kind].kept, type, p, w, type, n, w, op, type, n, w);
            const compiled_options options = {.limit = n + 3, .seed = i};
            check_gpu_text(text, &options);
            check_equal_to_host(text, &options);
        }
}

/* The gradient of take_along: lines of their own, with few and with many positions that name one element, along either
 * dim. */
static void along(void **state) {
    (void)state;
    static const struct {
        int rows, width, positions, limit, axis;
    } shapes[] = {{3, 9, 5, 9, 1}, {20, 40, 64, 40, 1},  {5, 300, 77, 300, 1}, {4, 20, 100, 2, 1},
                  {9, 7, 8, 7, 1}, {2, 2000, 33, 40, 1}, {40, 12, 70, 40, 0},  {1, 50, 200, 50, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int wide = 0; wide < 2; wide++) {
            char text[1024];
            int r = shapes[i].rows, w = shapes[i].width, axis = shapes[i].axis, ir = axis ? r : shapes[i].positions,
                iw = axis ? shapes[i].positions : w;
            snprintf(text, sizeof text,
                     "graph @s {\n  %%0 = input {name=\"x\"} : f32[%d,%d]\n  %%1 = input {name=\"i\"} : %s[%d,%d]\n  "
                     "%%2 = input {name=\"u\"} : f32[%d,%d]\n"
                     "  %%3 = mul(%%2, %%2) : f32[%d,%d]\n  %%4 = scatter_add_along(%%0, %%1, %%3) {axis=%d} : "
                     "f32[%d,%d]\n  output \"o\" %%4\n}\n",
                     r, w, wide ? "i64" : "i32", ir, iw, ir, iw, ir, iw, axis, r, w);
            compiled_options options = {.limit = shapes[i].limit, .seed = i};
            check_gpu_text(text, &options);
            check_equal_to_host(text, &options);
        }
    check_gpu_text("graph @s {\n  %0 = input {name=\"x\"} : bf16[3,4,30]\n  %1 = input {name=\"i\"} : i32[3,4,50]\n  "
                   "%2 = input {name=\"u\"} : bf16[3,4,50]\n"
                   "  %3 = scatter_add_along(%0, %1, %2) {axis=2} : bf16[3,4,30]\n  output \"o\" %3\n}\n",
                   &(compiled_options){.limit = 30});
}

/* Onto zeros, onto what is computed and onto what is read: lines that gather in shared memory, up to the longest, those
 * that do so in parts, and those that are too long or have too few updates for that. Some indices name no element. */
static void lines(void **state) {
    (void)state;
    static const struct {
        int rows, line, positions, limit;
    } shapes[] = {{3, 9, 8, 9},        {5, 300, 77, 310}, {7, 33, 129, 3},     {2, 4096, 70, 4096},
                  {1, 4097, 70, 4097}, {9, 2, 40, 2},     {3, 8001, 77, 8010}, {1, 5120, 300, 40}};
    static const char *const types[] = {"f32", "bf16", "i32", "f16"}, *const ops[] = {"scatter_add_along",
                                                                                      "scatter_along"};
    static const char *const bases[] = {"constant {values=[0]}", "mul(%0, %0)", "neg(%0)"}; /* the last is not used */
    for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++)
        for (int form = 0; form < 4 * 2 * 3; form++) {
            const char *type = types[form % 4], *op = ops[form / 4 % 2], *base = bases[form / 8];
            const int r = shapes[i].rows, n = shapes[i].line, p = shapes[i].positions, from = form < 16 ? 3 : 0;
            char text[1024];
            snprintf(text, sizeof text,
                     "graph @s {\n  %%0 = input {name=\"x\", role=state} : %s[2,%d,%d]\n  %%1 = input {name=\"i\"} : "
                     "i32[2,%d,%d]\n"
                     "  %%2 = input {name=\"u\"} : %s[2,%d,%d]\n  %%3 = %s : %s[2,%d,%d]\n"
                     "  %%4 = %s(%%%d, %%1, %%2) {axis=2} : %s[2,%d,%d]\n  output \"o\" %%4\n}\n",
                     type, r, n, r, p, type, r, p, base, type, r, n, op, from, type, r, n);
            const compiled_options options = {.limit = shapes[i].limit, .seed = i};
            check_gpu_text(text, &options);
            check_equal_to_host(text, &options);
        }
}

/* A line of several parts is one launch, also of bf16, unless there are more updates than a part has elements. */
static void lines_in_parts(void **state) {
    (void)state;
    for (int few = 0; few < 2; few++) {
        char text[512];
        snprintf(text, sizeof text,
                 "graph @s {\n  %%0 = input {name=\"i\"} : i32[3,%d]\n  %%1 = input {name=\"u\"} : bf16[3,%d]\n"
                 "  %%2 = constant {values=[0]} : bf16[3,9000]\n"
                 "  %%3 = scatter_add_along(%%2, %%0, %%1) {axis=1} : bf16[3,9000]\n  output \"o\" %%3\n}\n",
                 few ? 50 : 4000, few ? 50 : 4000);
        const compiled_options options = {.limit = 9000};
        assert_int_equal(gpu_steps_of_text(text, &options), few ? 1 : 3);
        check_gpu_text(text, &options);
    }
}

/* A value that base and updates have in common is loaded in front of the loops of both. */
static void common_values(void **state) {
    (void)state;
    static const char *const ops[] = {"scatter_add_along", "scatter_along"};
    for (int i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "graph @s {\n  %%0 = input {name=\"x\"} : f32[]\n  %%1 = input {name=\"i\"} : i32[5,18]\n  %%2 = "
                 "input {name=\"y\"} : f32[5,9]\n  %%3 = broadcast(%%0) : f32[5,9]\n  %%4 = mul(%%3, %%2) : f32[5,9]\n"
                 "  %%5 = broadcast(%%0) : f32[5,18]\n  %%6 = %s(%%4, %%1, %%5) {axis=1} : f32[5,9]\n"
                 "  %%7 = mul(%%6, %%3) : f32[5,9]\n  output \"o\" %%7\n}\n",
                 ops[i]);
        check_gpu_text(text, &(compiled_options){.limit = 9});
    }
}

static void forms(void **state) {
    (void)state;
    check_gpu_text("graph @s {\n  %0 = input {name=\"x\"} : f32[50]\n  %1 = input {name=\"i\"} : i64[3,40]\n  %2 = "
                   "input {name=\"u\"} : f32[3,40]\n"
                   "  %3 = scatter_add(%0, %1, %2) {axis=0} : f32[50]\n  output \"o\" %3\n}\n",
                   &(compiled_options){.limit = 50});
    check_gpu_text("graph @s {\n  %0 = input {name=\"x\"} : bf16[6,10,16]\n  %1 = input {name=\"i\"} : i32[40]\n  %2 = "
                   "input {name=\"u\"} : bf16[6,40,16]\n"
                   "  %3 = scatter_add(%0, %1, %2) {axis=1} : bf16[6,10,16]\n  output \"o\" %3\n}\n",
                   &(compiled_options){.limit = 10});
    check_gpu_text("graph @s {\n  %0 = input {name=\"i\"} : i32[4,40]\n  %1 = input {name=\"u\"} : f32[4,40,20]\n  %2 "
                   "= constant {values=[0]} : f32[30,20]\n"
                   "  %3 = mul(%1, %1) : f32[4,40,20]\n  %4 = scatter_add(%2, %0, %3) {axis=0} : f32[30,20]\n  output "
                   "\"o\" %4\n}\n",
                   &(compiled_options){.limit = 30});
}

static void repeated_indices(void **state) {
    (void)state;
    scatter_at_repeated_indices(check_gpu);
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeddings),    cmocka_unit_test(onto_zeros), cmocka_unit_test(alike_onto_zeros),
        cmocka_unit_test(along),         cmocka_unit_test(lines),      cmocka_unit_test(lines_in_parts),
        cmocka_unit_test(common_values), cmocka_unit_test(forms),      cmocka_unit_test(repeated_indices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
