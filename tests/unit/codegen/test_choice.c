/* SPDX-License-Identifier: MIT
 * What a program's text says of a schedule's parameters is what is made: other parameters are other kernels with the
 * same result, and impossible ones are refused. */
#include "harness/check.h"
#include "harness/choice_cases.h"
#include "harness/passes.h"

#include "codegen/emit/emitter.h"
#include "ir/support/alloc.h"
#include "codegen/select.h"
#include "runtime/cpu/device.h"
#include "runtime/exec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 60, COLUMNS = 96, SUM = 700 };

static const char product[] = "graph @product {\n"
                              "  %0 = input {name=\"x\"} : f32[60,700]\n"
                              "  %1 = input {name=\"w\"} : f32[700,96]\n"
                              "  %2 = dot(%0, %1) {contract_a=[1], contract_b=[0]} : f32[60,96]\n"
                              "  output \"y\" %2\n"
                              "}\n";

typedef struct machine {
    tcc_context cx;
    tcc_llvm_target target;
} machine;

/* The text of the graph with what select chose. */
static char *select_text_of(machine *m, const char *text_of_graph) {
    const tcc_codegen_options codegen = {.target = &m->target};
    tcc_selector *selector;
    assert_ok(tcc_selector_create(&m->cx, &codegen, false, &selector), &m->cx.diag);
    tcc_graph *g;
    assert_ok(tcc_graph_parse(text_of_graph, strlen(text_of_graph), "product", &m->cx.diag, &g), &m->cx.diag);
    tcc_graph *chosen = run_passes(g, "fuse,select", &(tcc_pass_options){.target = tcc_selector_target(selector)});
    tcc_strbuf text = {0};
    tcc_graph_print(&text, chosen, (tcc_print_options){0});
    tcc_graph_destroy(g);
    tcc_graph_destroy(chosen);
    tcc_selector_destroy(selector);
    return tcc_strbuf_take(&text);
}

static char *select_text(machine *m) { return select_text_of(m, product); }

/* `text` with the value of parameter `name` replaced; the caller frees it. */
static char *with_param(const char *text, const char *name, int value) {
    const char *at = strstr(text, name);
    assert_non_null(at);
    at += strlen(name);
    char *changed = NULL;
    assert_true(asprintf(&changed, "%.*s%d%s", (int)(at - text), text, value, at + strspn(at, "0123456789")) > 0);
    return changed;
}

static tcc_status build(machine *m, const char *text, tcc_program **out) {
    const tcc_codegen_options codegen = {.target = &m->target, .threads = 1, .verify = true};
    tcc_graph *g;
    assert_ok(tcc_graph_parse(text, strlen(text), "changed", &m->cx.diag, &g), &m->cx.diag);
    tcc_graph *planned = run_passes(g, "plan-memory", NULL);
    tcc_status status = tcc_codegen_build(&m->cx, &m->cx.diag, planned, &codegen, out);
    tcc_graph_destroy(g);
    tcc_graph_destroy(planned);
    return status;
}

static void check_result(machine *m, const tcc_program *p) {
    static float x[ROWS * SUM], w[SUM * COLUMNS], y[ROWS * COLUMNS];
    void *memory[] = {x, w, y};
    const int64_t bytes[] = {sizeof x, sizeof w, sizeof y};
    tcc_device *device;
    tcc_exec *e;
    for (int i = 0; i < ROWS * SUM; i++) x[i] = (float)(i % 37 - 18) / 16;
    for (int i = 0; i < SUM * COLUMNS; i++) w[i] = (float)(i % 29 - 14) / 16;
    assert_ok(tcc_device_cpu_create(&m->cx, 1, &device), &m->cx.diag);
    assert_ok(tcc_exec_create(&m->cx, device, p, &e), &m->cx.diag);
    for (int i = 0; i < 3; i++) assert_ok(tcc_exec_bind(e, &m->cx.diag, i, memory[i], bytes[i]), &m->cx.diag);
    assert_ok(tcc_exec_run(e, &m->cx.diag), &m->cx.diag);
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++) {
            double sum = 0;
            for (int s = 0; s < SUM; s++) sum += (double)x[i * SUM + s] * (double)w[s * COLUMNS + k];
            if (fabs(sum - (double)y[i * COLUMNS + k]) > 1e-3)
                fail_msg("y[%d,%d] is %g, not %g", i, k, y[i * COLUMNS + k], sum);
        }
    tcc_exec_destroy(e);
    tcc_device_destroy(device);
}

static void open_machine(machine *m) {
    assert_ok(tcc_context_init(&m->cx), &m->cx.diag);
    assert_ok(tcc_llvm_target_host(NULL, &m->cx.diag, &m->target), &m->cx.diag);
}

static void close_machine(machine *m) {
    tcc_llvm_target_clear(&m->target);
    tcc_context_clear(&m->cx);
}

static void other_parameters_are_followed(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int value;
    } changes[] = {{"rows=", 1}, {"rows=", 3}, {"vectors=", 1}, {"vectors=", 2}, {"tiles=", 1}, {"panels=", 1}};
    machine m;
    open_machine(&m);
    char *text = select_text(&m);
    for (int i = 0; i < (int)(sizeof changes / sizeof changes[0]); i++) {
        char *changed = with_param(text, changes[i].name, changes[i].value);
        tcc_program *p;
        if (strncmp(changes[i].name, "tiles", 5)) { /* fewer rows or vectors are more tiles: a block of one always is */
            char *one = with_param(changed, "tiles=", 1), *both = with_param(one, "panels=", 1);
            free(changed), free(one);
            changed = both;
        }
        assert_ok(build(&m, changed, &p), &m.cx.diag);
        check_result(&m, p);
        tcc_program_destroy(p);
        free(changed);
    }
    tcc__free(text);
    close_machine(&m);
}

static void impossible_ones_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int value;
        const char *error;
    } changes[] = {{"rows=", 61, "cannot have rows=61, "},
                   {"vectors=", 1000, "cannot have vectors=1000, vectors of the tile in registers: from 1 to "},
                   {"tiles=", 1000, "cannot have tiles=1000, tiles of a block: from 1 to "},
                   {"block_k=", 701, "cannot have block_k=701, elements of the sum in a block: from 1 to 700"},
                   {"blocks_of_k=", 9, "cannot have blocks_of_k=9, "},
                   {"rows=", 0, "\"contract.tiles\" of %2 = dot"}};
    machine m;
    open_machine(&m);
    char *text = select_text(&m);
    for (int i = 0; i < (int)(sizeof changes / sizeof changes[0]); i++) {
        char *changed = with_param(text, changes[i].name, changes[i].value);
        tcc_program *p;
        assert_int_equal(build(&m, changed, &p), TCC_EINVAL);
        if (!strstr(tcc_diag_text(&m.cx.diag), changes[i].error)) fail_msg("%s", tcc_diag_text(&m.cx.diag));
        tcc_diag_begin(&m.cx.diag);
        free(changed);
    }
    tcc__free(text);
    close_machine(&m);
}

/* How bf16 is multiplied is a parameter, by what the CPU has, and shortens the predicted time. */
static void bf16_is_multiplied_as_the_cpu_can(void **state) {
    (void)state;
    static const char narrow[] = "graph @product {\n"
                                 "  %0 = input {name=\"x\"} : bf16[512,768]\n"
                                 "  %1 = input {name=\"w\"} : bf16[768,1024]\n"
                                 "  %2 = dot(%0, %1) {contract_a=[1], contract_b=[0]} : bf16[512,1024]\n"
                                 "  output \"y\" %2\n"
                                 "}\n";
    static const struct {
        const char *cpu;
        int k_at_once;
    } cpus[] = {{"x86-64-v4", 1}, {"znver4", 2}, {"sapphirerapids", 32}};
    long long before = 0;
    for (int i = 0; i < 3; i++) {
        machine m;
        assert_ok(tcc_context_init(&m.cx), &m.cx.diag);
        assert_ok(tcc_llvm_target_host(cpus[i].cpu, &m.cx.diag, &m.target), &m.cx.diag);
        char *text = select_text_of(&m, narrow);
        const char *at = strstr(text, "k_at_once="), *ns = strstr(text, " ns ");
        assert_non_null(at);
        assert_non_null(ns);
        assert_int_equal(atoi(at + strlen("k_at_once=")), cpus[i].k_at_once);
        assert_true(i == 0 || atoll(ns + 4) < before);
        before = atoll(ns + 4);
        if (cpus[i].k_at_once == 2) { /* not there for the others */
            machine other;
            tcc_program *p;
            assert_ok(tcc_context_init(&other.cx), &other.cx.diag);
            assert_ok(tcc_llvm_target_host("x86-64-v4", &other.cx.diag, &other.target), &other.cx.diag);
            assert_int_equal(build(&other, text, &p), TCC_EINVAL);
            assert_non_null(strstr(tcc_diag_text(&other.cx.diag),
                                   "cannot have k_at_once=2, elements of the sum that an instruction adds up: 1"));
            close_machine(&other);
        }
        tcc__free(text);
        close_machine(&m);
    }
}

/* -- Of each schedule, by pass select -- */

/* `text` with a user's line for each node. */
static char *with_lines(const char *text) {
    tcc_strbuf out = {0};
    int line = 0;
    for (const char *at = text; *at; at += strcspn(at, "\n") + 1) {
        line++;
        tcc_strbuf_printf(&out, "%.*s", (int)strcspn(at, "\n"), at);
        if (!strncmp(at, "  %", 3)) tcc_strbuf_printf(&out, " loc(\"model.c\":%d)", line);
        tcc_strbuf_add(&out, "\n");
    }
    return tcc_strbuf_take(&out);
}

static tcc_status run_select(machine *m, const char *text, const char *passes, tcc_graph **out) {
    const tcc_codegen_options codegen = {.target = &m->target};
    tcc_selector *selector;
    assert_ok(tcc_selector_create(&m->cx, &codegen, false, &selector), &m->cx.diag);
    const tcc_pass_options options = {.target = tcc_selector_target(selector)};
    tcc_pass_cx pass = {.cx = &m->cx, .diag = &m->cx.diag, .options = &options};
    assert_ok(tcc_graph_parse(text, strlen(text), "case", &m->cx.diag, out), &m->cx.diag);
    tcc_status status = tcc_pipeline_run_named(&pass, &(tcc_manager_options){.verify = true}, passes, out, NULL);
    if (status != TCC_OK) tcc_graph_destroy(*out);
    tcc_selector_destroy(selector);
    return status;
}

/* The text of a case as it was chosen, with edits. */
static char *edited(machine *m, const char *name, const char *edits) {
    int at = 0;
    while (at < n_choice_cases && strcmp(choice_cases[at].name, name)) at++;
    assert_true(at < n_choice_cases);
    char *lines = with_lines(choice_cases[at].text);
    tcc_graph *g;
    tcc_strbuf text = {0};
    assert_ok(run_select(m, lines, "decompose,simplify,fuse,select", &g), &m->cx.diag);
    tcc_graph_print(&text, g, (tcc_print_options){.locs = true});
    char *result = edit_choices(text.text, edits);
    tcc_strbuf_free(&text);
    tcc_graph_destroy(g);
    tcc__free(lines);
    return result;
}

typedef struct refusal {
    const char *name, *edits, *error;
} refusal;

static void check_refusals(machine *m, const refusal *all, int count) {
    for (int i = 0; i < count; i++) {
        char *text = edited(m, all[i].name, all[i].edits);
        tcc_graph *g;
        tcc_diag_begin(&m->cx.diag);
        assert_int_equal(run_select(m, text, "select", &g), TCC_EINVAL);
        const char *said = tcc_diag_text(&m->cx.diag);
        if (!strstr(said, all[i].error) || strncmp(said, "model.c:", 8)) fail_msg("%s: %s", all[i].edits, said);
        tcc_diag_begin(&m->cx.diag);
        free(text);
    }
    close_machine(m);
}

static void impossible_values_of_the_host(void **state) {
    (void)state;
    static const refusal all[] = {
        {"flat", "lanes=12", "cannot have lanes=12, elements that an instruction takes; "},
        {"flat", "lanes=4,points=33",
         "cannot have points=33, points of a work item: a multiple of 4 from 4 to 16777216"},
        {"turn", "lanes=2", ": a power of two from 4 to "},
        {"softmax", "kept=2", "that they could: from 0 to 1"},
        {"softmax", "lines=0", "cannot have lines=0, "},
        {"norm", "sweeps=3", ": from 1 to 2"},
        {"norm", "parts=2", "cannot have parts=2, parts that the reduced range is cut into: 1"},
        {"total", "parts=299999", "so that none is empty"},
        {"across", "slice=601", ": from 1 to 600"},
        {"scan_rows", "lanes=3", ": a power of two from 1 to "},
        {"scatter", "lanes_1=128", "cannot have lanes_1=128, "},
        {"attention", "rows=9", "cannot have rows=9, "},
        {"attention", "keys=40", ": 600 or a multiple of 16 from 16 to 600"},
        {"attention_back", "keys=48", ": one that leaves 0 or at least 8 of 100"},
        {"conv", "width=48", ": a divisor of 64"},
        {"conv", "tiles=73", "cannot have tiles=73, tiles of a block: a multiple of 6 from 6 to "},
        {"conv", "block_k=48", "cannot have block_k=48, "},
        {"depthwise", "part_rows=3", ": a divisor of 8"},
        {"product", "block_k=100", ": 104, whole inner loops of the sum"},
    };
    machine m;
    assert_ok(tcc_context_init(&m.cx), &m.cx.diag);
    assert_ok(tcc_llvm_target_host("x86-64-v4", &m.cx.diag, &m.target), &m.cx.diag);
    check_refusals(&m, all, sizeof all / sizeof all[0]);
}

static void impossible_values_of_a_gpu(void **state) {
    (void)state;
    static const refusal all[] = {
        {"flat", "lanes=8", ": a power of two from 1 to 4"},
        {"nest", "threads=100", "cannot have threads=100, threads of a block: a multiple of 32 from 32 to 1024"},
        {"turn", "side=48", ": a power of two from 32 to 64"},
        {"turn", "lanes=1,side=64", "cannot have side=64, points along either side of a tile: 32"},
        {"softmax", "steps=2", ": 0 or 3"},
        {"softmax", "steps=0", "cannot have group=32, threads that take a line together: at least 64, for scratch is "},
        {"columns", "split=64", "cannot have split=64, "},
        {"total", "group=3", ": a power of two from 1 to 1024"},
        {"across", "group=64,-steps", "cannot have split=32, "},
        {"scan_columns", "group=2048", ": a power of two from 1 to 1024"},
        {"scatter", "steps_1=3", "cannot have steps_1=3, "},
        {"attention_back", "columns_1=64", "cannot have columns_1=64, columns of scores in a block of threads: 32"},
        {"product", "tile_m=32,tile_n=128", "with tile_n=128 there is none; tiles are 128 x 128, 128 x 64, "},
        {"product", "split_k=100", "cannot have split_k=100, elements of the sum in a work item: a multiple of 16 "},
        {"product_narrow", "tile_m=32", "tiles are 128 x 128, 128 x 64, 64 x 128, 64 x 64"},
    };
    machine m;
    assert_ok(tcc_context_init(&m.cx), &m.cx.diag);
    assert_ok(tcc_llvm_target_cuda("sm_90", NULL, &m.cx.diag, &m.target), &m.cx.diag);
    check_refusals(&m, all, sizeof all / sizeof all[0]);
}

/* A program is made by a text that says all of it; select completes one that does not. */
static void a_choice_is_whole_before_it_is_built(void **state) {
    (void)state;
    machine m;
    tcc_graph *g;
    tcc_program *p;
    open_machine(&m);
    static const struct {
        const char *edits, *error;
    } all[] = {{"-lines", "lacks lines, lines or rows of a work item: from 1 to "},
               {"parts=7,-kept", "lacks lanes_1, "}};
    for (int i = 0; i < 2; i++) {
        char *text = edited(&m, "softmax", all[i].edits);
        assert_int_equal(build(&m, text, &p), TCC_EINVAL);
        if (!strstr(tcc_diag_text(&m.cx.diag), all[i].error)) fail_msg("%s", tcc_diag_text(&m.cx.diag));
        tcc_diag_begin(&m.cx.diag);
        assert_ok(run_select(&m, text, "select", &g), &m.cx.diag);
        tcc_graph_destroy(g);
        free(text);
    }
    char *text = edited(&m, "total", "parts=7");
    assert_int_equal(build(&m, text, &p), TCC_EINVAL); /* t0 is of other parts */
    if (!strstr(tcc_diag_text(&m.cx.diag), "pass select writes down what its parameters make"))
        fail_msg("%s", tcc_diag_text(&m.cx.diag));
    free(text);
    close_machine(&m);
}

/* Where pairs are multiplied, a copy of an image with three channels has four, and so have the weights. */
static void odd_channels_are_made_even(void **state) {
    (void)state;
    static const char image[] = "graph @stem {\n"
                                "  %0 = input {name=\"x\"} : bf16[4,64,64,3]\n"
                                "  %1 = input {name=\"w\"} : bf16[16,3,3,3]\n"
                                "  %2 = conv(%0, %1) {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1], "
                                "groups=1, channels_last=true} : bf16[4,64,64,16]\n"
                                "  output \"y\" %2\n"
                                "}\n";
    static const struct {
        const char *cpu, *copy;
    } cpus[] = {{"x86-64-v4", "temporary t0 bytes 104544 "}, {"znver4", "temporary t0 bytes 139392 "}};
    for (int i = 0; i < 2; i++) {
        machine m;
        assert_ok(tcc_context_init(&m.cx), &m.cx.diag);
        assert_ok(tcc_llvm_target_host(cpus[i].cpu, &m.cx.diag, &m.target), &m.cx.diag);
        char *text = select_text_of(&m, image);
        if (!strstr(text, cpus[i].copy)) fail_msg("%s: %s", cpus[i].cpu, text);
        assert_true(!strstr(text, "temporary t1 bytes 1152 ") == (i == 0));
        tcc__free(text);
        close_machine(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_parameters_are_followed),     cmocka_unit_test(impossible_ones_are_refused),
        cmocka_unit_test(bf16_is_multiplied_as_the_cpu_can), cmocka_unit_test(impossible_values_of_the_host),
        cmocka_unit_test(impossible_values_of_a_gpu),        cmocka_unit_test(a_choice_is_whole_before_it_is_built),
        cmocka_unit_test(odd_channels_are_made_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
