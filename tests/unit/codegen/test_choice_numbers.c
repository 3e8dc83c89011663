/* SPDX-License-Identifier: MIT
 * Any number in the place of each one of a choice: it is followed, or an error says that it cannot be. So a text, a
 * lock file or a cache that was changed by hand never ends the process, and no planner reads what it did not check. */
#include "harness/check.h"
#include "harness/choice_cases.h"
#include "harness/compiled.h"

#include "codegen/choice.h"
#include "codegen/emit/emitter.h"
#include "codegen/select.h"
#include "ir/support/alloc.h"
#include "passes/pass.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct machine {
    tcc_context cx;
    tcc_llvm_target target;
    tcc_codegen_options codegen;
    int tried, followed;
} machine;

static const int64_t numbers[] = {INT64_MIN,
                                  -((int64_t)1 << 32),
                                  INT32_MIN,
                                  -1,
                                  0,
                                  1,
                                  2,
                                  3,
                                  5,
                                  48,
                                  64,
                                  1024,
                                  4095,
                                  INT32_MAX,
                                  (int64_t)1 << 31,
                                  (int64_t)1 << 32,
                                  ((int64_t)1 << 32) + 1,
                                  (int64_t)1 << 62,
                                  INT64_MAX};

static bool has_param(const tcc_implementation *x, const char *name, int64_t *value) {
    for (int i = 0; i < x->n_params; i++)
        if (!strcmp(x->params[i].name, name)) {
            *value = x->params[i].value;
            return true;
        }
    return false;
}

/* An error of the choice has its name, as both errors that name a parameter do. */
static void check_error(machine *m, const tcc_implementation *x, const char *what, tcc_status status) {
    char name[80];
    snprintf(name, sizeof name, "\"%s\"", x->name);
    if (status != TCC_EINVAL || !strstr(tcc_diag_text(&m->cx.diag), name))
        fail_msg("%s: %s: %s", what, tcc_status_name(status), tcc_diag_text(&m->cx.diag));
    tcc_diag_begin(&m->cx.diag);
}

/* As select follows it, which completes it, and as a program is built of it, which has to be whole. */
static void try_choice(machine *m, const tcc_pass_target *target, const tcc_graph *g, const tcc_group *group,
                       const tcc_implementation *x, const tcc_choice_param *set) {
    char what[160];
    snprintf(what, sizeof what, "\"%s\" with %s=%lld", x->name, set->name, (long long)set->value);
    if (getenv("TCC_TEST_VERBOSE")) fprintf(stderr, "%s\n", what);
    tcc_arena arena = {0};
    tcc_group changed = *group;
    const tcc_implementation *made;
    int64_t value;
    changed.implementation = tcc_implementation_copy(&arena, x, NULL);
    assert_non_null(changed.implementation);
    tcc_status status = target->follow(target->user, g, &changed, &arena, &made);
    m->tried++;
    m->followed += status == TCC_OK;
    if (status != TCC_OK) check_error(m, x, what, status);
    else if (has_param(made, set->name, &value) && value != set->value)
        fail_msg("%s: made with %lld", what, (long long)value);
    tcc_lowering l = tcc_lowering_of(&arena, &m->cx.diag, g, &changed, changed.implementation, &m->codegen);
    l.cx = &m->cx;
    status = tcc_select_lower(&l);
    if (status != TCC_OK) check_error(m, x, what, status);
    tcc_lowering_clear(&l);
    tcc_arena_free(&arena);
}

static void try_param(machine *m, const tcc_pass_target *target, const tcc_graph *g, const tcc_group *group, int which,
                      int64_t value) {
    tcc_implementation x = *group->implementation;
    tcc_choice_param all[64], *set = &all[which];
    assert_true(x.n_params <= 64);
    memcpy(all, x.params, sizeof *all * (size_t)x.n_params);
    set->value = value;
    x.params = all;
    try_choice(m, target, g, group, &x, set);
    x.params = set; /* the others follow from it */
    x.n_params = 1;
    try_choice(m, target, g, group, &x, set);
}

static void try_graph(machine *m, const tcc_pass_target *target, const tcc_graph *g) {
    const int n_numbers = sizeof numbers / sizeof *numbers;
    for (int i = 0; i < g->groups.count; i++) {
        const tcc_group *group = &g->groups.data[i];
        const tcc_implementation *x = group->implementation;
        for (int k = 0; k < x->n_params; k++) {
            const int64_t was = x->params[k].value, near[] = {was - 1, was + 1, was / 2, 2 * was};
            for (int v = 0; v < n_numbers; v++) try_param(m, target, g, group, k, numbers[v]);
            for (int v = 0; v < 4; v++) try_param(m, target, g, group, k, near[v]);
        }
    }
}

/* A text that is no graph, or of another target, is nobody's here. */
static bool try_text(machine *m, const char *text, size_t length, const char *passes) {
    tcc_selector *selector;
    tcc_graph *g;
    assert_ok(tcc_selector_create(&m->cx, &m->codegen, false, &selector), &m->cx.diag);
    const tcc_pass_options options = {.target = tcc_selector_target(selector)};
    tcc_pass_cx pass = {.cx = &m->cx, .diag = &m->cx.diag, .options = &options};
    tcc_status status = tcc_graph_parse(text, length, "text", &m->cx.diag, &g);
    if (status == TCC_OK) {
        status = tcc_pipeline_run_named(&pass, &(tcc_manager_options){.verify = true}, passes, &g, NULL);
        if (status == TCC_OK) try_graph(m, tcc_selector_target(selector), g);
        tcc_graph_destroy(g);
    }
    tcc_selector_destroy(selector);
    tcc_diag_begin(&m->cx.diag);
    return status == TCC_OK;
}

/* Each graph of a file of tests. */
static int try_file(machine *m, const char *path) {
    static const char separator[] = "// -----";
    FILE *f = fopen(path, "r");
    static char text[1 << 16];
    const size_t length = f ? fread(text, 1, sizeof text - 1, f) : 0;
    assert_true(length && length < sizeof text - 1);
    fclose(f);
    text[length] = 0;
    int tried = 0;
    for (char *at = text, *end; at; at = end ? end + strlen(separator) : NULL) {
        end = strstr(at, separator);
        tried += try_text(m, at, end ? (size_t)(end - at) : strlen(at), "fuse,select");
    }
    return tried;
}

static bool take_all(void *user, const char *name, int64_t *params) {
    (void)user, (void)name, (void)params;
    return true;
}

static void try_all(const char *arch, bool libraries, int least_texts) {
    machine m = {0};
    glob_t files = {0};
    int texts = 0;
    assert_ok(tcc_context_init(&m.cx), &m.cx.diag);
    assert_ok(arch ? tcc_llvm_target_cuda(arch, NULL, &m.cx.diag, &m.target)
                   : tcc_llvm_target_host(NULL, &m.cx.diag, &m.target),
              &m.cx.diag);
    m.codegen = (tcc_codegen_options){.target = &m.target, .takes_call = libraries ? take_all : NULL};
    for (int i = 0; i < n_choice_cases; i++) {
        const char *text = choice_cases[i].text;
        assert_true(try_text(&m, text, strlen(text), "decompose,simplify,fuse,select"));
    }
    assert_int_equal(glob(TCC_SOURCE_DIR "/tests/ir/select/*.tir", 0, NULL, &files), 0);
    assert_int_equal(glob(TCC_SOURCE_DIR "/tests/ir/fuse/*.tir", GLOB_APPEND, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) texts += try_file(&m, files.gl_pathv[i]);
    globfree(&files);
    if (getenv("TCC_TEST_VERBOSE"))
        fprintf(stderr, "%s: %d texts, %d choices, %d followed\n", arch ? arch : "host", texts, m.tried, m.followed);
    assert_true(texts >= least_texts && m.followed > m.tried / 20 && m.followed < m.tried);
    tcc_llvm_target_clear(&m.target);
    tcc_context_clear(&m.cx);
}

static void of_the_host(void **state) {
    (void)state;
    try_all(NULL, false, 60);
}

static void of_a_gpu(void **state) {
    (void)state;
    try_all("sm_90", false, 60);
}

static void of_a_gpu_with_libraries(void **state) {
    (void)state;
    try_all("sm_90", true, 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_the_host),
        cmocka_unit_test(of_a_gpu),
        cmocka_unit_test(of_a_gpu_with_libraries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
