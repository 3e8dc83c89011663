/* SPDX-License-Identifier: MIT
 * The cost column of ops.def against what a vector of an op really takes: instructions in the loop of its kernel, per
 * stored vector, beyond loads, stores and the loop itself. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"

#include "codegen/emit/emitter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct counts {
    int all, moves, stores; /* moves: of vectors from and to memory; stores: of those */
} counts;

/* One instruction of the assembly, as in "\tvmulps\t(%rdi), %zmm1, %zmm0": of vectors and masks alone. */
static void count_line(const char *line, size_t length, counts *c) {
    char text[256];
    if (length < 2 || line[0] != '\t' || (line[1] != 'v' && line[1] != 'k') || length >= sizeof text) return;
    memcpy(text, line, length);
    text[length] = 0;
    const bool slow = !strncmp(text, "\tvdiv", 5) || !strncmp(text, "\tvsqrt", 6); /* takes the time of many */
    c->all += slow ? 5 : 1;
    if (strncmp(text, "\tvmov", 5) || !strchr(text, '(')) return;
    c->moves++;
    c->stores += text[strlen(text) - 1] != '}' ? text[strlen(text) - 1] == ')' : strstr(text, "{z}") == NULL;
}

/* The block that ends in a jump back to its own label and has the most instructions. */
static counts loop_of(const char *assembly) {
    counts best = {0}, now = {0};
    char label[64] = "";
    for (const char *line = assembly; *line;) {
        const char *end = strchr(line, '\n');
        const size_t length = end ? (size_t)(end - line) : strlen(line);
        const char *colon = memchr(line, ':', length);
        if (line[0] == '.' && colon) {
            snprintf(label, sizeof label, "%.*s", (int)(colon - line), line);
            now = (counts){0};
        } else {
            count_line(line, length, &now);
            const char *jump = length > 2 && line[1] == 'j' ? strstr(line, label) : NULL;
            if (*label && jump && jump < line + length && jump + strlen(label) == line + length && now.stores &&
                now.all > best.all)
                best = now;
        }
        line = end ? end + 1 : line + length;
    }
    return best;
}

static char *read_text(const char *path) {
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    assert_non_null(f);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

/* Instructions that a vector of the op takes. */
static double measure(const tcc_llvm_target *target, const char *name, int operands) {
    const bool constant = !strcmp(name, "max") || !strcmp(name, "min"); /* as in ReLU */
    char text[1024];
    snprintf(text, sizeof text,
             "graph @g {\n  %%0 = input {name=\"x\"} : f32[65536]\n  %%1 = %s : f32[65536]\n"
             "  %%2 = %s(%%0%s) : f32[65536]\n  output \"o\" %%2\n}\n",
             constant ? "constant {values=[0]}" : "input {name=\"y\"}", name, operands == 2 ? ", %1" : "");
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag), *graph;
    tcc_context cx = {0};
    tcc_program *p;
    compiled_build(g, &(compiled_options){.dump_dir = "."}, target, &cx, &graph, &p);
    char *assembly = read_text("./g.module00.s");
    const counts c = loop_of(assembly);
    assert_true(c.stores > 0);
    const double each = (double)(c.all - c.moves) / c.stores;
    print_message("%-10s %6.1f (%d instructions, %d moves, %d stores)\n", name, each, c.all, c.moves, c.stores);
    free(assembly);
    tcc_program_destroy(p);
    tcc_graph_destroy(graph);
    tcc_graph_destroy(g);
    return each;
}

static void costs_are_counted(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it counts instructions of x86-64");
    static const struct {
        tcc_op op;
        int operands;
    } ops[] = {{TCC_OP_ABS, 1},     {TCC_OP_EXP, 1},  {TCC_OP_EXPM1, 1},     {TCC_OP_LOG, 1},
               {TCC_OP_LOG1P, 1},   {TCC_OP_SQRT, 1}, {TCC_OP_RSQRT, 1},     {TCC_OP_TANH, 1},
               {TCC_OP_SIGMOID, 1}, {TCC_OP_ERF, 1},  {TCC_OP_GELU_TANH, 1}, {TCC_OP_NORMAL_DENSITY, 1},
               {TCC_OP_FLOOR, 1},   {TCC_OP_ADD, 2},  {TCC_OP_MUL, 2},       {TCC_OP_DIV, 2},
               {TCC_OP_MAX, 2},     {TCC_OP_MIN, 2},  {TCC_OP_SIGN, 1},      {TCC_OP_GELU_TANH_GRAD, 2},
               {TCC_OP_POW, 2},     {TCC_OP_ATAN, 1}};
    tcc_llvm_target target;
    tcc_diag diag = {0};
    assert_int_equal(tcc_llvm_target_host("x86-64-v4", &diag, &target), TCC_OK);
    target.quick = false; /* what is measured is what LLVM makes of them */
    /* one instruction; the rest makes the mask of a row's tail */
    const double mask = measure(&target, "neg", 1) - 1;
    int wrong = 0;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const tcc_op_info *info = tcc_op_get_info(ops[i].op);
        const double each = measure(&target, info->text, ops[i].operands) - mask;
        if (each > 1.5 * info->cost + 1 || each < info->cost / 1.5 - 1) {
            print_error("%s: %.1f instructions, its cost is %g\n", info->text, each, info->cost);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
    tcc_llvm_target_clear(&target);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(costs_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
