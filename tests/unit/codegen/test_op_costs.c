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

static const char *const infer_rules[] = {
#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, noise, emit, doc) #infer,
#include "ir/ops.def"
#undef TCC_OP
};

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

/* Whether it gives or takes bits of a mask: what they cost beside arithmetic is the matter, not as bytes of memory. */
static bool is_of_masks(tcc_op op) { return op == TCC_OP_SELECT || tcc_op_get_info(op)->flags & TCC_FLAG_COMPARE; }

/* The op on an element type that it takes: of x and y, or a draw; of masks select(op(x, y), x, y). Of so few elements
 * that a vector of a long function is alone in the loop, and nothing is spilled. */
static void print_graph_of(char text[1024], tcc_op op) {
    const tcc_op_info *info = tcc_op_get_info(op);
    const char *infer = infer_rules[op], *type = "f32";
    const bool integers = strstr(infer, "_bits") || strstr(infer, "_ints"), draws = tcc_op_draws(op);
    const bool constant = op == TCC_OP_MAX || op == TCC_OP_MIN; /* as in ReLU */
    if (integers || op == TCC_OP_CAST) type = "i32";
    int used = snprintf(text, 1024,
                        "graph @g {\n  %%0 = input {name=\"x\"} : %s[16384]\n  %%1 = %s : %s[16384]\n"
                        "  %%2 = input {name=\"key\", role=rng} : i64[2]\n",
                        type, constant ? "constant {values=[0]}" : "input {name=\"y\"}", type);
    if (is_of_masks(op))
        used += snprintf(text + used, 1024 - (size_t)used,
                         "  %%3 = %s(%%0%s) : bool[16384]\n  %%4 = select(%%3, %%0, %%1) : f32[16384]\n",
                         op == TCC_OP_SELECT ? "lt" : info->text, info->least == 1 ? "" : ", %1");
    else
        used += snprintf(text + used, 1024 - (size_t)used, "  %%4 = %s(%s)%s : %s[16384]\n", info->text,
                         draws              ? "%2"
                         : info->least == 2 ? "%0, %1"
                                            : "%0",
                         draws ? " {id=1}" : "", integers || op == TCC_OP_RNG_BITS ? "i32" : "f32");
    snprintf(text + used, 1024 - (size_t)used, "  output \"o\" %%4\n}\n");
}

/* Instructions that a vector of it takes. */
static double measure(const tcc_llvm_target *target, tcc_op op) {
    char text[1024];
    print_graph_of(text, op);
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag), *graph;
    tcc_context cx = {0};
    tcc_program *p;
    compiled_build(g, &(compiled_options){.dump_dir = "."}, target, &cx, &graph, &p);
    char *assembly = read_text("./g.module00.s");
    const counts c = loop_of(assembly);
    if (!c.stores) fail_msg("%s: there is no loop without branches", tcc_op_get_info(op)->text);
    const double each = (double)(c.all - c.moves) / c.stores;
    print_message("%-15s %6.1f (%d instructions, %d moves, %d stores)\n", tcc_op_get_info(op)->text, each, c.all,
                  c.moves, c.stores);
    free(assembly);
    tcc_program_destroy(p);
    tcc_graph_destroy(graph);
    tcc_graph_destroy(g);
    return each;
}

/* Sine, cosine and remainder branch, for large operands; an index along an axis is there without work where it is used
 * as one. */
static bool is_left_out(tcc_op op) {
    return op == TCC_OP_SIN || op == TCC_OP_COS || op == TCC_OP_REM || op == TCC_OP_IOTA;
}

static void costs_are_counted(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it counts instructions of x86-64");
    tcc_llvm_target target;
    tcc_diag diag = {0};
    assert_int_equal(tcc_llvm_target_host("x86-64-v4", &diag, &target), TCC_OK);
    target.quick = false; /* what is measured is what LLVM makes of them */
    /* one instruction; the rest makes the mask of a row's tail */
    const double mask = measure(&target, TCC_OP_NEG) - 1;
    int wrong = 0;
    for (int op = 0; op < TCC_OP_COUNT; op++) {
        const tcc_op_info *info = tcc_op_get_info((tcc_op)op);
        if (info->fusion != TCC_FUSION_POINT || is_left_out((tcc_op)op)) continue;
        double each = measure(&target, (tcc_op)op) - mask, cost = info->cost;
        if (op == TCC_OP_SELECT) cost += tcc_op_get_info(TCC_OP_LT)->cost;
        else if (is_of_masks((tcc_op)op)) cost += tcc_op_get_info(TCC_OP_SELECT)->cost;
        if (each > 1.5 * cost + 1 || each < cost / 1.5 - 1) {
            print_error("%s: %.1f instructions, its cost is %g\n", info->text, each, cost);
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
