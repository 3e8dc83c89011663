/* SPDX-License-Identifier: MIT
 * The text of modules: what the assembler says of it, and what must and must not be in it. */
#include "harness/check.h"
#include "harness/gpu_program.h"
#include "harness/graphs.h"
#include "harness/passes.h"

#include "codegen/emit/emitter.h"
#include "harness/generator.h"
#include "ir/support/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    bool all_models;
} archs[] = {{"sm_75", true},   {"sm_80", false},  {"sm_90", true},
             {"sm_90a", false}, {"sm_100", false}, {"sm_120", false}};

/* Instructions that approximate are those of codegen/emit/math_nvptx.c alone. */
static void check_approximations(const char *text) {
    static const char *const known[] = {"ex2.approx.ftz.f32", "ex2.approx.f32", "rcp.approx.ftz.f32",
                                        "rsqrt.approx.f32", "lg2.approx.f32"};
    static const char *const marks[] = {".approx", ".ftz"};
    for (int m = 0; m < 2; m++)
        for (const char *at = strstr(text, marks[m]); at; at = strstr(at + 1, marks[m])) {
            const char *start = at;
            while (start > text && start[-1] != '\t' && start[-1] != '\n') start--;
            bool is_known = false;
            for (size_t k = 0; k < sizeof known / sizeof *known; k++)
                is_known = is_known || !strncmp(start, known[k], strlen(known[k]));
            if (!is_known) fail_msg("'%.40s'", start);
        }
}

/* Sums and products keep their rounding, so that the assembler does not join them; nothing is called, nothing is in
 * local memory. */
static void check_text_of(const tcc_program *program) {
    static const char *const never[] = {"\tadd.f32", "\tsub.f32", "\tmul.f32", "\tadd.f64",   "\tsub.f64", "\tmul.f64",
                                        "div.full",  "\tcall",    ".local",    "ld.param.b8", "atom"};
    for (int i = 0; i < program->n_modules; i++) {
        const char *text = program->modules[i].code;
        assert_int_equal(strlen(text) + 1, program->modules[i].size_bytes);
        check_approximations(text);
        for (size_t k = 0; k < sizeof never / sizeof *never; k++) {
            const char *found = strstr(text, never[k]);
            if (found) fail_msg("module %d has '%.60s'", i, found);
        }
    }
}

/* The number that follows `directive` in the head of an entry; 0: it has none. */
static int bound_of(const char *text, const char *entry, const char *directive) {
    char line[128];
    snprintf(line, sizeof line, ".entry %s(", entry);
    const char *head = strstr(text, line), *body = head ? strstr(head, "\n{") : NULL;
    if (!body) fail_msg("no entry %s", entry);
    const char *found = strstr(head, directive);
    return found && found < body ? atoi(found + strlen(directive)) : 0;
}

/* The assembler is told how many threads a block has, and where it matters how many blocks a processor should hold. */
static void check_bounds_of(const tcc_program *program) {
    for (int i = 0; i < program->n_kernels; i++) {
        const tcc_kernel *k = &program->kernels[i];
        const char *text = program->modules[k->module].code;
        char table[128];
        snprintf(table, sizeof table, "%s_table", k->symbol);
        assert_int_equal(bound_of(text, k->symbol, ".maxntid "), k->threads);
        if (!strcmp(k->schedule, "contract") && k->scratch_bytes)
            assert_in_range(bound_of(text, k->symbol, ".minnctapersm "), 1, 16);
        if (!k->table) continue;
        assert_int_equal(bound_of(text, table, ".maxntid "), k->threads);
        assert_in_range(bound_of(text, table, ".minnctapersm "), 1, 16);
    }
}

static const gpu_spill known_spills[] = {
    {"attention", 4,
     "sdpa_grad_q of f32 in a shape that a random graph has: the sums of a tile take all registers of its bound", NULL},
    {"pointwise", 4,
     "the copy of a small table that a scatter of a random graph then adds to: the assembler keeps to 32 registers by "
     "itself",
     NULL},
    {0},
};

static void assemble(const tcc_graph *g, const char *what, const char *arch) {
    tcc_context cx;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    tcc_llvm_target target;
    assert_ok(tcc_llvm_target_cuda(arch, NULL, &cx.diag, &target), &cx.diag);
    tcc_graph *graph;
    tcc_program *program;
    compiled_build(g, &(compiled_options){.simplify = true}, &target, &cx, &graph, &program);
    assert_int_equal(program->target, TCC_TARGET_CUDA);
    assert_string_equal(program->cpu, arch);
    check_text_of(program);
    check_bounds_of(program);
    long spilled = gpu_assemble_but(program, arch, known_spills);
    if (spilled > 0) fail_msg("%s for %s: %ld bytes of registers are spilled", what, arch, spilled);
    tcc_llvm_target_clear(&target);
    tcc_program_destroy(program);
    tcc_graph_destroy(graph);
    tcc_context_clear(&cx);
}

static void models(void **state) {
    (void)state;
    static const char *const names[] = {"mlp", "cnn", "gpt", "resnet"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tcc_diag diag = {0};
        tcc_graph *g = model_graph(names[i], 1, &diag);
        if (!g) fail_msg("%s", tcc_diag_text(&diag));
        tcc_graph *step =
            run_passes(g, "simplify,autodiff,train-step",
                       &(tcc_pass_options){.train = true, .spec = {.optimizer = TCC_ADAMW, .n_groups = 1}});
        for (size_t a = 0; a < sizeof archs / sizeof *archs; a++)
            if (archs[a].all_models || !strcmp(names[i], "gpt")) assemble(step, names[i], archs[a].name);
        tcc_graph_destroy(step);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

static void random_graphs(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 18; seed++) { /* three for each */
        tcc_diag diag = {0};
        tcc_graph *g = tcc_graph_random(
            &(tcc_random_options){.nodes = 24, .mixed = seed % 2 == 0, .max_elements = 2048}, seed, &diag);
        if (!g) fail_msg("%s", tcc_diag_text(&diag));
        char what[32];
        snprintf(what, sizeof what, "seed %d", (int)seed);
        assemble(g, what, archs[seed % (sizeof archs / sizeof *archs)].name);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

typedef struct wide_shape {
    int operands, rows, length;
    const char *type;
} wide_shape;

static int node(tcc_strbuf *text, int id, const char *op, int a, int b, const wide_shape *s) {
    tcc_strbuf_printf(text, "  %%%d = %s(%%%d, %%%d) : %s[%d,%d]\n", id, op, a, b, s->type, s->rows, s->length);
    return id;
}

/* m is the largest of a row's sums of squares; an output of each operand times m, and a sum over columns of them. */
static void write_wide(tcc_strbuf *text, const wide_shape *s) {
    int next = s->operands, sum = -1, difference = 0;
    tcc_strbuf_printf(text, "graph @wide {\n");
    for (int v = 0; v < s->operands; v++)
        tcc_strbuf_printf(text, "  %%%d = input {name=\"x%d\"} : %s[%d,%d]\n", v, v, s->type, s->rows, s->length);
    for (int v = 0; v < s->operands; v++) {
        const int square = node(text, next++, "mul", v, v, s);
        sum = sum < 0 ? square : node(text, next++, "add", sum, square, s);
    }
    tcc_strbuf_printf(text, "  %%%d = reduce_max(%%%d) {axes=[1]} : %s[%d]\n", next, sum, s->type, s->rows);
    tcc_strbuf_printf(text, "  %%%d = broadcast(%%%d) {dims=[0]} : %s[%d,%d]\n", next + 1, next, s->type, s->rows,
                      s->length);
    const int m = next + 1;
    next += 2;
    for (int v = 0; v < s->operands; v++) {
        const int y = node(text, next++, "mul", v, m, s);
        tcc_strbuf_printf(text, "  output \"y%d\" %%%d\n", v, y);
        difference = v ? node(text, next++, "sub", difference, y, s) : y;
    }
    tcc_strbuf_printf(text, "  %%%d = reduce_sum(%%%d) {axes=[0]} : %s[%d]\n  output \"c\" %%%d\n}\n", next, difference,
                      s->type, s->length, next);
}

/* Many values of one point that are alive at once: a block may then be no more threads, and a processor hold no more
 * blocks, than leave each thread registers for them. */
static void wide_bodies(void **state) {
    (void)state;
    static const wide_shape shapes[] = {
        {20, 512, 768, "f32"}, {30, 8192, 256, "f16"}, {30, 800, 2048, "f16"}, {14, 4096, 512, "f64"}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const wide_shape *s = &shapes[i];
        tcc_strbuf text = {0};
        tcc_diag diag = {0};
        char what[64];
        write_wide(&text, s);
        snprintf(what, sizeof what, "%d operands %s[%d,%d]", s->operands, s->type, s->rows, s->length);
        tcc_graph *g = parse_graph(text.text, &diag);
        assemble(g, what, "sm_90");
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
        tcc_strbuf_free(&text);
    }
}

/* Whether some module computes products or quotients of indices in 64 bits. */
static bool has_wide_indices(const char *text) {
    tcc_diag diag = {0};
    tcc_context cx;
    tcc_graph *g = parse_graph(text, &diag), *graph;
    tcc_llvm_target target;
    tcc_program *program;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    assert_ok(tcc_llvm_target_cuda("sm_90", NULL, &cx.diag, &target), &cx.diag);
    compiled_build(g, &(compiled_options){.simplify = true}, &target, &cx, &graph, &program);
    static const char *const wide[] = {"mul.lo.s64", "mad.lo.s64", "mul.hi.u64", "div.u64",
                                       "rem.u64",    "div.s64",    "rem.s64"};
    bool found = false;
    for (int i = 0; i < program->n_modules; i++)
        for (size_t k = 0; k < sizeof wide / sizeof *wide; k++)
            found = found || strstr(program->modules[i].code, wide[k]);
    tcc_llvm_target_clear(&target);
    tcc_program_destroy(program);
    tcc_graph_destroy(graph);
    tcc_graph_destroy(g);
    tcc_context_clear(&cx);
    tcc_diag_clear(&diag);
    return found;
}

/* Indices have 32 bits wherever those are enough. */
static void indices(void **state) {
    (void)state;
    assert_false(has_wide_indices(
        "graph @broadcast {\n  %0 = input {name=\"x\"} : f32[16,33,7,50]\n  %1 = input {name=\"b\"} : f32[33]\n"
        "  %2 = broadcast(%1) {dims=[1]} : f32[16,33,7,50]\n  %3 = input {name=\"c\"} : f32[16,50]\n"
        "  %4 = broadcast(%3) {dims=[0, 3]} : f32[16,33,7,50]\n  %5 = mul(%0, %2) : f32[16,33,7,50]\n"
        "  %6 = add(%5, %4) : f32[16,33,7,50]\n  output \"o\" %6\n}\n"));
    assert_false(has_wide_indices("graph @heads {\n  %0 = input {name=\"x\"} : f32[4,64,6,32]\n"
                                  "  %1 = transpose(%0) {perm=[0, 2, 1, 3]} : f32[4,6,64,32]\n  output \"o\" %1\n}\n"));
    assert_false(has_wide_indices(
        "graph @embedding {\n  %0 = input {name=\"w\"} : f32[500,192]\n  %1 = input {name=\"t\"} : i32[4,64]\n"
        "  %2 = take(%0, %1) : f32[4,64,192]\n  %3 = exp(%2) : f32[4,64,192]\n  output \"o\" %3\n}\n"));
    assert_false(has_wide_indices("graph @pool {\n  %0 = input {name=\"x\"} : f32[2,16,32,64]\n"
                                  "  %1 = max_pool(%0) {window=[3, 3], stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1], "
                                  "channels_last=true} : f32[2,8,16,64]\n"
                                  "  output \"o\" %1\n}\n"));
    /* more than 2^31 elements */
    assert_true(has_wide_indices(
        "graph @long {\n  %0 = input {name=\"x\"} : f16[70000,40000]\n  %1 = input {name=\"b\"} : f16[70000]\n"
        "  %2 = broadcast(%1) {dims=[0]} : f16[70000,40000]\n  %3 = mul(%0, %2) : f16[70000,40000]\n  output \"o\" "
        "%3\n}\n"));
}

static void unknown_architectures(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_llvm_target target;
    assert_int_equal(tcc_llvm_target_cuda("sm_60", NULL, &diag, &target), TCC_EUNSUPPORTED);
    assert_non_null(strstr(tcc_diag_text(&diag), "unknown GPU architecture 'sm_60'; known are sm_75, sm_80"));
    tcc_diag_clear(&diag);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(models), cmocka_unit_test(random_graphs),
                                       cmocka_unit_test(wide_bodies), cmocka_unit_test(indices),
                                       cmocka_unit_test(unknown_architectures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
