/* SPDX-License-Identifier: MIT
 * Tuning with a clock that says what the test wants: what is measured, what
 * wins, what is kept, and what is refused. */
#include "codegen/build.h"
#include "frontend/tune/tune.h"
#include "harness/check.h"
#include "harness/patience.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 128, WIDTH = 96, CLASSES = 10, STEPS = 4 };

static void net(tcc_trace *t, void *user) {
    const int layers = *(const int *)user;
    tcc_tensor h = tcc_input(t, "x");
    for (int i = 0; i < layers; i++) {
        char name[16];
        snprintf(name, sizeof name, "fc%d", i);
        h = tcc_relu(tcc_linear(h, name, WIDTH));
    }
    tcc_loss(t, tcc_cross_entropy(tcc_linear(h, "out", CLASSES), tcc_input(t, "y")));
}

static float x[ROWS * WIDTH];
static int32_t y[ROWS];
static const tcc_array batch[] = {{"x", TCC_F32, 2, {ROWS, WIDTH}, x}, {"y", TCC_I32, 1, {ROWS}, y}};
static int layers = 3;

typedef struct fixture {
    tcc_context *cx;
    tcc_model *m;
} fixture;

static int begin(void **state) {
    fixture *f = calloc(1, sizeof *f);
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)(i % 41 - 20) / 16;
    for (int i = 0; i < ROWS; i++) y[i] = i % CLASSES;
    *state = f;
    setenv("TCC_CACHE_DISABLE", "1", 1);
    return tcc_context_create(&f->cx) == TCC_OK ? 0 : -1;
}

static int end(void **state) {
    fixture *f = *state;
    tcc_model_destroy(f->m);
    tcc_context_destroy(f->cx);
    free(f);
    return 0;
}

static void must(fixture *f, tcc_status status) {
    if (status != TCC_OK) fail_msg("%s", tcc_context_error(f->cx));
}

/* A new model in place of the last one; `judge` NULL: the clock on the wall. */
static void create(fixture *f, tcc_model_options options,
                   int64_t (*judge)(void *user, const char *candidate, int64_t ns)) {
    tcc_model_destroy(f->m);
    f->m = NULL;
    options.size = sizeof options;
    options.seed = 1;
    if (!options.autotune_budget_s) options.autotune_budget_s = test_seconds(60); /* the judge's clock decides */
    must(f, tcc_model_create(f->cx, net, &layers, &options, &f->m));
    if (judge) f->m->compiler->tuning->judge = judge;
}

static double train(fixture *f) {
    for (int i = 0; i < STEPS; i++) must(f, tcc_model_train(f->m, batch, 2));
    return tcc_model_loss(f->m);
}

static char *report(fixture *f, const char *what) {
    char *text;
    must(f, tcc_model_report(f->m, what, &text));
    return text;
}

static tcc_program_info info_of(fixture *f) {
    tcc_program_info info;
    must(f, tcc_model_info(f->m, &info));
    return info;
}

static int64_t measured(fixture *f) { return info_of(f).measured; }

static const tcc_model_options tuned = {.mode = TCC_MODE_MAX_AUTOTUNE};

/* -- Clocks -- */

static int64_t all_alike(void *user, const char *candidate, int64_t ns) {
    (void)user, (void)candidate, (void)ns;
    return 1000000;
}

/* Contractions are fast by single tiles, and faster in single panels of them.
 */
static int64_t single_tiles(void *user, const char *candidate, int64_t ns) {
    (void)user, (void)ns;
    if (strncmp(candidate, "\"contract.tiles\"", 16) != 0) return 1000000;
    return 1000000 - (strstr(candidate, " tiles=1,") ? 300000 : 0) -
           (strstr(candidate, " tiles=1, panels=1,") ? 200000 : 0);
}

/* The same, and what is fastest does not compile. */
static int64_t broken(void *user, const char *candidate, int64_t ns) {
    const int64_t result = single_tiles(user, candidate, ns);
    return result == 500000 ? -1 : result;
}

/* A planted lie: what wins alone makes the step slower. */
static int64_t lies(void *user, const char *candidate, int64_t ns) {
    return !strcmp(candidate, "the step as tuned") ? 1500000 : single_tiles(user, candidate, ns);
}

/* The kind of groups that gains most, as measured alone. */
static const tcc_tuned *liar_of(const tcc_model *m) {
    const tcc_tuned *liar = NULL;
    int64_t most = 0;
    for (int i = 0; i < m->compiler->tuning->entries.count; i++) {
        const tcc_tuned *e = &m->compiler->tuning->entries.data[i];
        const int64_t gain = (e->default_ns - e->best_ns) * e->groups;
        if (gain > most) most = gain, liar = e;
    }
    return liar;
}

/* With the choice of one kind the step is slower, with others it is faster. */
static int64_t one_lies(void *user, const char *candidate, int64_t ns) {
    if (strcmp(candidate, "the step as tuned") != 0) return single_tiles(user, candidate, ns);
    return liar_of(user)->refused ? 800000 : 1500000;
}

/* -- Faults of the candidates that would win: "contract.tiles" in single tiles
 * and panels -- */

static enum fault { NONE, WRONG, NO_CODE, NO_RUN } fault;
static int planted; /* compiled by several threads */
static const tcc_program *faulty[64];

static bool would_win(const tcc_graph *g) {
    tcc_strbuf text = {0};
    const bool alone = !strcmp(g->name, "group") && g->groups.count == 1;
    if (alone) tcc_implementation_print_name(&text, g->groups.data[0].implementation);
    const bool wins = alone && !strncmp(text.text, "\"contract.tiles\"", 16) &&
                      strstr(text.text, " tiles=1, panels=1,");
    tcc_strbuf_free(&text);
    return wins;
}

tcc_status __real_tcc_codegen_build(tcc_context *cx, tcc_diag *diag, const tcc_graph *g,
                                    const tcc_codegen_options *options, tcc_program **out);
tcc_status __wrap_tcc_codegen_build(tcc_context *cx, tcc_diag *diag, const tcc_graph *g,
                                    const tcc_codegen_options *options, tcc_program **out);
tcc_status __wrap_tcc_codegen_build(tcc_context *cx, tcc_diag *diag, const tcc_graph *g,
                                    const tcc_codegen_options *options, tcc_program **out) {
    const bool plants = fault != NONE && would_win(g);
    if (plants && fault == NO_CODE) {
        __atomic_fetch_add(&planted, 1, __ATOMIC_RELAXED);
        return tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "no code");
    }
    TCC_TRY(__real_tcc_codegen_build(cx, diag, g, options, out));
    /* A dropped candidate's address is free for a program without a fault. */
    for (int i = 0; i < 64; i++)
        if (__atomic_load_n(&faulty[i], __ATOMIC_RELAXED) == *out) __atomic_store_n(&faulty[i], NULL, __ATOMIC_RELAXED);
    if (!plants) return TCC_OK;
    const int at = __atomic_fetch_add(&planted, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&faulty[at % 64], *out, __ATOMIC_RELAXED);
    /* The last work item is lost. */
    tcc_instance *last = (tcc_instance *)(*out)->steps[(*out)->n_steps - 1].instances;
    if (fault == WRONG) last->items--;
    return TCC_OK;
}

tcc_status __real_tcc_exec_run(tcc_exec *exec, tcc_diag *d);
tcc_status __wrap_tcc_exec_run(tcc_exec *exec, tcc_diag *d);
tcc_status __wrap_tcc_exec_run(tcc_exec *exec, tcc_diag *d) {
    for (int i = 0; fault == NO_RUN && i < 64; i++)
        if (faulty[i] == tcc_exec_get_program(exec)) return tcc_error(d, TCC_EDEVICE, TCC_NOWHERE, "the launch failed");
    return __real_tcc_exec_run(exec, d);
}

/* -- Tests -- */

static void equal_times_leave_the_default(void **state) {
    fixture *f = *state;
    create(f, (tcc_model_options){0}, NULL);
    const double loss = train(f);
    char *before = report(f, "tir");
    create(f, tuned, all_alike);
    assert_true(train(f) == loss);
    assert_true(measured(f) > 20);
    char *after = report(f, "tir");
    assert_string_equal(before, after);
    tcc_string_free(before);
    tcc_string_free(after);
}

static void the_fastest_wins(void **state) {
    fixture *f = *state;
    create(f, (tcc_model_options){0}, NULL);
    const double loss = train(f);
    create(f, tuned, single_tiles);
    assert_true(fabs(train(f) - loss) < 1e-4);
    char *text = report(f, "tir"), *explained = report(f, "tune");
    for (const char *at = text; (at = strstr(at, "by \"contract.tiles\"")); at++) {
        const char *tiles = strstr(at, " tiles=");
        if (strncmp(tiles, " tiles=1, panels=1,", 19) != 0) fail_msg("%s", at);
    }
    if (!strstr(explained, "* ") || !strstr(explained, "rank correlation")) fail_msg("%s", explained);
    /* The layers are alike: a kind stands there once. */
    const char *kind = strstr(explained, "f32[128,96], 2 in the step");
    if (!kind) fail_msg("%s", explained);
    tcc_string_free(text);
    tcc_string_free(explained);
}

static void what_does_not_compile_is_dropped(void **state) {
    fixture *f = *state;
    create(f, tuned, broken);
    train(f);
    char *explained = report(f, "tune"), *text = report(f, "tir");
    if (!strstr(explained, "does not compile")) fail_msg("%s", explained);
    assert_non_null(strstr(text, " tiles=1,"));
    assert_null(strstr(text, " tiles=1, panels=1,"));
    tcc_string_free(explained);
    tcc_string_free(text);
}

/* Candidates that would win, but compute something else, have no code or fail
 * to run, are dropped and told; training is as it would be, and uses none. */
static void what_is_faulty_does_not_win(void **state) {
    static const char *const words[] = {
        [WRONG] = "computes something else", [NO_CODE] = "does not compile", [NO_RUN] = "fails to run"};
    fixture *f = *state;
    create(f, (tcc_model_options){0}, NULL);
    const double loss = train(f);
    for (int k = WRONG; k <= NO_RUN; k++) {
        create(f, tuned, single_tiles);
        fault = (enum fault)k, planted = 0;
        memset(faulty, 0, sizeof faulty);
        const double got = train(f);
        fault = NONE;
        char *explained = report(f, "tune"), *text = report(f, "tir");
        assert_true(planted > 0 && planted <= 64);
        assert_true(fabs(got - loss) < 1e-4);
        if (!strstr(explained, words[k])) fail_msg("%s", explained);
        assert_non_null(strstr(text, " tiles=1,"));
        assert_null(strstr(text, " tiles=1, panels=1,"));
        tcc_string_free(explained);
        tcc_string_free(text);
    }
}

static void without_time_nothing_is_measured(void **state) {
    fixture *f = *state;
    create(f, (tcc_model_options){0}, NULL);
    train(f);
    char *before = report(f, "tir");
    create(f, (tcc_model_options){.mode = TCC_MODE_MAX_AUTOTUNE, .autotune_budget_s = 1e-9}, NULL);
    train(f);
    assert_int_equal(measured(f), 0);
    char *after = report(f, "tir");
    assert_string_equal(before, after);
    tcc_string_free(before);
    tcc_string_free(after);
}

static char *read_text(const char *path) {
    char *text = calloc(1, 1 << 16);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
    fclose(file);
    return text;
}

/* What a lock file says of a group is the text of a graph, too: each such line is put behind a group, and is read. */
static void lines_are_text_of_graphs(const char *path) {
    char *lock = read_text(path), *rest = NULL;
    int lines = 0;
    for (char *line = strtok_r(lock, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "  by ", 5) != 0) continue;
        tcc_strbuf text = {0}, name = {0};
        tcc_diag d = {0};
        tcc_graph *g = NULL;
        tcc_strbuf_printf(
            &text,
            "graph @g {\n %%0 = input {name=\"x\"} : f32[4]\n %%1 = neg(%%0) : f32[4]\n output \"o\" %%1\n"
            " group pointwise %%1 nodes(%%1) outputs(%%1)%s\n}\n",
            line + 1);
        assert_ok(tcc_graph_parse(text.text, text.length, "pasted.tir", &d, &g), &d);
        tcc_implementation_print_name(&name, g->groups.data[0].implementation);
        assert_string_equal(name.text, line + 5);
        tcc_graph_destroy(g);
        tcc_strbuf_free(&name);
        tcc_strbuf_free(&text);
        lines++;
    }
    assert_true(lines > 3);
    free(lock);
}

/* Runs with what was written, and measures nothing; a smaller memory changes no
 * bit. `budget_s`: of tuning. */
static void check_lock(fixture *f, double budget_s) {
    char path[] = "/tmp/traincc-lock-XXXXXX";
    close(mkstemp(path));
    create(f, (tcc_model_options){.mode = TCC_MODE_MAX_AUTOTUNE, .lock = path, .autotune_budget_s = budget_s},
           single_tiles);
    const double loss = train(f);
    char *before = report(f, "tir");
    lines_are_text_of_graphs(path);
    create(f, (tcc_model_options){.mode = TCC_MODE_MAX_AUTOTUNE, .locked = path}, NULL);
    assert_true(train(f) == loss);
    assert_int_equal(measured(f), 0);
    char *after = report(f, "tir");
    assert_string_equal(before, after);
    tcc_string_free(before);
    tcc_string_free(after);
    create(f, (tcc_model_options){.mode = TCC_MODE_MAX_AUTOTUNE, .locked = path, .memory_budget = "min"}, NULL);
    assert_true(train(f) == loss);
    unlink(path);
}

static void a_lock_is_held(void **state) {
    check_lock(*state, 0);
    check_lock(*state, 1e-9); /* what was not measured stands there too */
}

static void check_refusal(fixture *f, const char *path, const char *text, tcc_status status, const char *error) {
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    create(f, (tcc_model_options){.mode = TCC_MODE_MAX_AUTOTUNE, .locked = path}, NULL);
    assert_int_equal(tcc_model_train(f->m, batch, 2), status);
    if (!strstr(tcc_context_error(f->cx), error)) fail_msg("%s", tcc_context_error(f->cx));
}

static void a_lock_that_does_not_fit_is_refused(void **state) {
    fixture *f = *state;
    char path[] = "/tmp/traincc-lock-XXXXXX";
    close(mkstemp(path));
    create(f, (tcc_model_options){.mode = TCC_MODE_MAX_AUTOTUNE, .lock = path}, all_alike);
    train(f);
    char *text = read_text(path), *changed = strdup(text);
    char *target = strstr(changed, "target cpu ");
    target[7] = 'k';
    check_refusal(f, path, changed, TCC_EINVAL, ":2: error: these choices are for kpu ");
    strcpy(changed, text);
    char *rows = strstr(changed, "{rows=");
    rows[6] = '0', rows[7] = rows[7] == ',' ? ',' : '0';
    check_refusal(f, path, changed, TCC_EINVAL, "cannot have rows=");
    strcpy(changed, text);
    *strstr(strstr(changed, "by \""), "\"") = '<';
    check_refusal(f, path, changed, TCC_EPARSE, ":4: error: unexpected character '<'");
    strcpy(changed, text);
    *strstr(strstr(changed, "{rows="), "}") = ' ';
    check_refusal(f, path, changed, TCC_EPARSE, ":4: error: expected '}'");
    strcpy(changed, text);
    *strstr(strstr(changed, "\ngroup "), "\n  by") = 0;
    check_refusal(f, path, changed, TCC_EFORMAT, "expected what runs the group");
    check_refusal(f, path, "traincc-lock 2\n", TCC_EFORMAT, "expected traincc-lock 1");
    layers = 2; /* each of its kinds is there, but for none */
    check_refusal(f, path, text, TCC_OK, "");
    layers = 3;
    *strstr(strstr(strcpy(changed, text), "\ngroup ") + 1, "\ngroup") = 0;
    check_refusal(f, path, changed, TCC_EINVAL, " has no choice for group ");
    unlink(path);
    free(text), free(changed);
}

static void use_cache(char *folder) {
    assert_non_null(mkdtemp(folder));
    unsetenv("TCC_VERIFY_PASSES"); /* where passes are verified no program is cached */
    setenv("TCC_CACHE_DIR", folder, 1);
    unsetenv("TCC_CACHE_DISABLE");
}

static void drop_cache(const char *folder) {
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    unsetenv("TCC_CACHE_DIR");
}

/* A second model finds its program and all choices in the cache, and neither
 * compiles nor measures; another type of its inputs is not found. */
static void what_was_found_is_kept(void **state) {
    fixture *f = *state;
    char folder[] = "/tmp/traincc-cache-XXXXXX";
    use_cache(folder);
    create(f, tuned, single_tiles);
    const double loss = train(f);
    assert_true(measured(f) > 20);
    char *before = report(f, "tir");
    create(f, tuned, NULL);
    assert_true(train(f) == loss);
    assert_int_equal(measured(f), 0);
    assert_int_equal(info_of(f).cached_programs, 1);
    char *after = report(f, "tir"), *explained = report(f, "tune");
    assert_string_equal(before, after);
    assert_int_equal(measured(f), 0);
    if (!strstr(explained, "2 in the step, from the cache: 1000.0 us as by "
                           "default, 500.0 us now"))
        fail_msg("%s", explained);
    tcc_string_free(before), tcc_string_free(after), tcc_string_free(explained);
    create(f, (tcc_model_options){.mode = TCC_MODE_MAX_AUTOTUNE, .mixed_precision = TCC_MIXED_BF16}, all_alike);
    train(f);
    assert_true(measured(f) > 20);
    drop_cache(folder);
}

/* What makes the whole step slower is not used, is not written as a choice, and
 * a second run knows. */
static void a_step_that_is_slower_is_refused(void **state) {
    fixture *f = *state;
    char folder[] = "/tmp/traincc-cache-XXXXXX", path[] = "/tmp/traincc-lock-XXXXXX";
    create(f, (tcc_model_options){0}, NULL);
    const double loss = train(f);
    char *before = report(f, "tir");
    use_cache(folder);
    close(mkstemp(path));
    for (int run = 0; run < 2; run++) {
        create(f, (tcc_model_options){.mode = TCC_MODE_MAX_AUTOTUNE, .lock = path}, lies);
        assert_true(train(f) == loss);
        assert_true(run ? measured(f) == 0 : measured(f) > 20);
        assert_int_equal(info_of(f).cached_programs, run);
        char *after = report(f, "tir"), *explained = report(f, "tune"), *lock = read_text(path);
        assert_string_equal(before, after);
        if (!strstr(explained, run ? "the whole step \"train\", from the cache: "
                                     "1000.0 us as by default, 1500.0 us with "
                                     "the choices: they are not used"
                                   : "the whole step \"train\", measured: 1000.0 "
                                     "us as by default, 1500.0 us with the "
                                     "choices: they are not used"))
            fail_msg("%s", explained);
        assert_null(strstr(lock, " tiles=1, panels=1,"));
        tcc_string_free(after), tcc_string_free(explained), free(lock);
    }
    tcc_string_free(before);
    drop_cache(folder);
    unlink(path);
}

static int count_used(const tcc_model *m, int *refused) {
    int used = 0;
    *refused = 0;
    for (int i = 0; i < m->compiler->tuning->entries.count; i++) {
        used += tcc__tune_differs(&m->compiler->tuning->entries.data[i]);
        *refused += m->compiler->tuning->entries.data[i].refused;
    }
    return used;
}

/* Half of the choices is used where the other half makes the step slower; a second run and a lock file have the same.
 */
static void one_bad_choice_does_not_spoil_all(void **state) {
    fixture *f = *state;
    char folder[] = "/tmp/traincc-cache-XXXXXX", path[] = "/tmp/traincc-lock-XXXXXX";
    use_cache(folder);
    close(mkstemp(path));
    create(f, (tcc_model_options){.mode = TCC_MODE_MAX_AUTOTUNE, .lock = path}, one_lies);
    f->m->compiler->tuning->judge_user = f->m;
    const double loss = train(f);
    int refused, again;
    const int used = count_used(f->m, &refused);
    assert_true(liar_of(f->m)->refused);
    assert_true(used > 0 && refused > 0 && abs(used - refused) <= 1);
    char *before = report(f, "tir"), *explained = report(f, "tune"), *lock = read_text(path);
    if (!strstr(explained, "1000.0 us as by default, 800.0 us with the choices: they are used, but for those that are "
                           "marked"))
        fail_msg("%s", explained);
    assert_non_null(strstr(lock, " tiles=1, panels=1,"));
    tcc_string_free(explained), free(lock);
    create(f, tuned, NULL);
    assert_true(train(f) == loss);
    assert_int_equal(measured(f), 0);
    assert_int_equal(info_of(f).cached_programs, 1);
    assert_int_equal(count_used(f->m, &again), used);
    assert_int_equal(again, refused);
    create(f, (tcc_model_options){.mode = TCC_MODE_MAX_AUTOTUNE, .locked = path}, NULL);
    assert_true(train(f) == loss);
    char *after = report(f, "tir");
    assert_string_equal(before, after);
    tcc_string_free(before), tcc_string_free(after);
    drop_cache(folder);
    unlink(path);
}

/* Where no time is left for the whole step, nothing of what is known about its
 * groups is used; once there is, it is. */
static void what_was_not_on_trial_is_not_used(void **state) {
    fixture *f = *state;
    char folder[] = "/tmp/traincc-cache-XXXXXX";
    use_cache(folder);
    create(f, tuned, single_tiles);
    train(f);
    layers = 4; /* another step of the same kinds of groups */
    create(f, (tcc_model_options){0}, NULL);
    const double loss = train(f);
    create(f, (tcc_model_options){.mode = TCC_MODE_MAX_AUTOTUNE, .autotune_budget_s = 1e-9}, single_tiles);
    assert_true(train(f) == loss);
    char *explained = report(f, "tune");
    if (!strstr(explained, "the whole step \"train\": not compared, so as by default")) fail_msg("%s", explained);
    tcc_string_free(explained);
    for (int run = 0; run < 2; run++) {
        create(f, tuned, single_tiles);
        train(f);
        assert_int_equal(info_of(f).cached_programs, run);
        explained = report(f, "tune");
        if (!strstr(explained, "1000.0 us with the choices: they are used")) fail_msg("%s", explained);
        tcc_string_free(explained);
    }
    layers = 3;
    drop_cache(folder);
}

/* -- Two processes -- */

typedef struct outcome {
    double loss;
    int64_t measured;
    int cached;
} outcome;

static void train_apart(tcc_mode mode, outcome *out) {
    fixture f = {0};
    if (tcc_context_create(&f.cx) != TCC_OK) _exit(1);
    create(&f, (tcc_model_options){.mode = mode}, mode == TCC_MODE_MAX_AUTOTUNE ? single_tiles : NULL);
    out->loss = train(&f);
    out->measured = measured(&f);
    out->cached = info_of(&f).cached_programs;
    _exit(0);
}

/* Two begin at once with nothing: one of them compiles and measures, the other
 * waits for that. */
static void two_processes_work_once(void **state) {
    static const tcc_mode modes[] = {TCC_MODE_DEFAULT, TCC_MODE_MAX_AUTOTUNE};
    (void)state;
    for (int k = 0; k < 2; k++) {
        char folder[] = "/tmp/traincc-cache-XXXXXX";
        outcome *out = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(out != MAP_FAILED);
        use_cache(folder);
        pid_t children[2];
        for (int i = 0; i < 2; i++)
            if (!(children[i] = fork())) train_apart(modes[k], &out[i]);
        for (int i = 0; i < 2; i++) {
            int status;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_int_equal(status, 0);
        }
        assert_true(out[0].loss == out[1].loss);
        assert_int_equal(out[0].cached + out[1].cached, 1);
        const outcome *second = out[0].cached ? &out[0] : &out[1], *first = out[0].cached ? &out[1] : &out[0];
        assert_int_equal(second->measured, 0);
        assert_true(modes[k] == TCC_MODE_DEFAULT || first->measured > 20);
        munmap(out, 4096);
        drop_cache(folder);
    }
}

static void options_are_checked(void **state) {
    fixture *f = *state;
    tcc_model_options options = {.size = sizeof options, .lock = "lock"};
    assert_int_equal(tcc_model_create(f->cx, net, &layers, &options, &f->m), TCC_EINVAL);
    options = (tcc_model_options){.size = sizeof options, .mode = TCC_MODE_MAX_AUTOTUNE, .autotune_budget_s = -1};
    assert_int_equal(tcc_model_create(f->cx, net, &layers, &options, &f->m), TCC_EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(equal_times_leave_the_default),
        TEST(the_fastest_wins),
        TEST(what_does_not_compile_is_dropped),
        TEST(what_is_faulty_does_not_win),
        TEST(what_was_not_on_trial_is_not_used),
        TEST(two_processes_work_once),
        TEST(without_time_nothing_is_measured),
        TEST(a_lock_is_held),
        TEST(a_lock_that_does_not_fit_is_refused),
        TEST(what_was_found_is_kept),
        TEST(a_step_that_is_slower_is_refused),
        TEST(one_bad_choice_does_not_spoil_all),
        TEST(options_are_checked),
    };
    const char *only = getenv("TCC_TEST_ONLY"); /* a pattern of names */
    if (only) cmocka_set_test_filter(only);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
