/* SPDX-License-Identifier: MIT
 * What a program's text says of a schedule's parameters is what is made: other parameters are other kernels with the
 * same result, and impossible ones are refused. */
#include "harness/check.h"
#include "harness/passes.h"

#include "codegen/emit/llvm.h"
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
    } changes[] = {{"rows=", 61, "no tiles of 61 x "},
                   {"vectors=", 1000, " x 1000 vectors"},
                   {"tiles=", 1000, " vectors, 1000 x "},
                   {"block_k=", 701, " with 701 of k"},
                   {"blocks_of_k=", 9, ", 9 blocks of k: select again"},
                   {"rows=", 0, "\"contract.tiles\" has no parameter rows above 0 for %2 = dot"}};
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
            assert_non_null(strstr(tcc_diag_text(&other.cx.diag), "does not multiply bf16 by 2 of k: select again"));
            close_machine(&other);
        }
        tcc__free(text);
        close_machine(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_parameters_are_followed),
        cmocka_unit_test(impossible_ones_are_refused),
        cmocka_unit_test(bf16_is_multiplied_as_the_cpu_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
