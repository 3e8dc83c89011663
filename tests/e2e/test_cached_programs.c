/* SPDX-License-Identifier: MIT
 * Programs from the cache: what differs in anything that a program depends on is another program, what differs in
 * nothing is found, and then neither results nor reports tell the two apart. What is kept is in memory here, and every
 * key is looked at. */
#include "harness/check.h"
#include "harness/environment.h"
#include "harness/optimizer.h"

#include "frontend/cache/cache.h"
#include "frontend/run/options.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdlib.h>

enum { PARTS = 10, ROWS = 16, WIDTH = 24, ENTRIES = 64, STEPS = 3 };

/* -- The store -- */

typedef struct entry {
    char *parts[PARTS], *names[PARTS];
    void *bytes;
    int64_t size_bytes;
} entry;
static entry entries[ENTRIES];
static int n_entries, asked;

bool __wrap_tcc_cache_get(tcc_cache *c, tcc_cache_kind kind, const tcc_cache_key *key, void **value, int64_t *size);
bool __wrap_tcc_cache_get(tcc_cache *c, tcc_cache_kind kind, const tcc_cache_key *key, void **value, int64_t *size) {
    (void)c;
    if (kind != TCC_CACHE_PROGRAM) return false;
    assert_int_equal(key->count, PARTS);
    asked++;
    for (int i = n_entries - 1; i >= 0; i--) {
        int same = 0;
        while (same < PARTS && !strcmp(entries[i].parts[same], key->parts[same].text)) same++;
        if (same < PARTS) continue;
        *value = tcc__malloc((size_t)entries[i].size_bytes);
        memcpy(*value, entries[i].bytes, (size_t)entries[i].size_bytes);
        *size = entries[i].size_bytes;
        return true;
    }
    return false;
}

void __wrap_tcc_cache_put(tcc_cache *c, tcc_cache_kind kind, const tcc_cache_key *key, const void *value, int64_t size,
                          int64_t made_ns);
void __wrap_tcc_cache_put(tcc_cache *c, tcc_cache_kind kind, const tcc_cache_key *key, const void *value, int64_t size,
                          int64_t made_ns) {
    (void)c;
    if (kind != TCC_CACHE_PROGRAM) return;
    assert_true(n_entries < ENTRIES && made_ns > 0);
    entry *e = &entries[n_entries++];
    for (int i = 0; i < PARTS; i++) e->parts[i] = strdup(key->parts[i].text), e->names[i] = strdup(key->parts[i].name);
    e->bytes = malloc((size_t)size);
    memcpy(e->bytes, value, (size_t)size);
    e->size_bytes = size;
}

/* Forgets all entries but the first `kept`. */
static void forget_from(int kept) {
    for (int i = kept; i < n_entries; i++) {
        for (int k = 0; k < PARTS; k++) free(entries[i].parts[k]), free(entries[i].names[k]);
        free(entries[i].bytes);
    }
    n_entries = kept;
}

static int empty(void **state) {
    (void)state;
    forget_from(0);
    asked = 0;
    return 0;
}

/* -- The model -- */

static float x[ROWS][WIDTH];
static int32_t y[ROWS];

typedef struct net {
    double scale, dropout;
    int hidden, segment;
    bool other_line, tiny;
} net;

static void build(tcc_trace *t, void *user) {
    const net *n = user;
    tcc_tensor h = tcc_input(t, "x");
    if (n->tiny) {
        tcc_loss(t, tcc_mean(tcc_relu(tcc_linear(h, "fc1", 8)), TCC_ALL));
        return;
    }
    if (n->segment) tcc_checkpoint_segment(t);
    h = tcc_relu(tcc_linear(h, "fc1", n->hidden));
    if (n->segment) tcc_checkpoint_segment_end(t);
    if (n->dropout > 0) h = tcc_dropout(h, n->dropout);
    if (n->other_line) h = tcc_scale(h, n->scale);
    else h = tcc_scale(h, n->scale);
    h = tcc_linear(h, "fc2", 4);
    tcc_output(t, "logits", h);
    tcc_loss(t, tcc_cross_entropy(h, tcc_input(t, "y")));
}

static const net usual_net = {.scale = 2, .hidden = 32, .dropout = 0.25};
static const tcc_optimizer_options usual_optimizer = OPTIMIZER(TCC_ADAMW, 0.01, .momentum = 0);
static const tcc_model_options usual = {.size = sizeof usual, .seed = 3, .optimizer = &usual_optimizer};

static void batch_of(tcc_array out[2]) {
    out[0] = (tcc_array){.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {ROWS, WIDTH}, .data = x};
    out[1] = (tcc_array){.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {ROWS}, .data = y};
    for (int i = 0; i < ROWS * WIDTH; i++) ((float *)x)[i] = (float)((i * 37) % 101) / 50 - 1;
    for (int i = 0; i < ROWS; i++) y[i] = i % 4;
}

/* Compiles the training step; whether it came from the cache. */
static bool compile(const net *n, const tcc_model_options *options) {
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2];
    tcc_program_info info;
    net copy = *n;
    batch_of(batch);
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    assert_ok(tcc_model_create(cx, build, &copy, options, &m), &cx->diag);
    assert_ok(tcc_model_compile(m, true, batch, 2), &cx->diag);
    assert_ok(tcc_model_info(m, &info), &cx->diag);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    assert_true(info.cached_programs ? info.saved_seconds > 0 : info.saved_seconds == 0);
    return info.cached_programs;
}

#define MISSES(change)                                                      \
    do {                                                                    \
        net n = usual_net;                                                  \
        tcc_model_options o = usual;                                        \
        tcc_optimizer_options p = usual_optimizer;                          \
        o.optimizer = &p;                                                   \
        change;                                                             \
        if (compile(&n, &o)) fail_msg("found in spite of %s", #change);     \
        if (!compile(&n, &o)) fail_msg("not found again with %s", #change); \
    } while (0)
#define HITS(change)                                                        \
    do {                                                                    \
        net n = usual_net;                                                  \
        tcc_model_options o = usual;                                        \
        tcc_optimizer_options p = usual_optimizer;                          \
        o.optimizer = &p;                                                   \
        change;                                                             \
        if (!compile(&n, &o)) fail_msg("not found because of %s", #change); \
    } while (0)

/* -- Every row of options.def -- */

/* What another value of it needs to be allowed, and to matter; false: nothing. */
static bool allow(const tcc_option *row, tcc_model_options *o, tcc_param_group *group, tcc_optimizer_options *p) {
    const char *name = row->name;
    if (row->of == TCC_OPTION_OF_GROUP) {
        tcc_param_group_init(group, "fc1.bias");
        p->groups = group;
        p->n_groups = 1;
        if (!strcmp(name, "momentum")) p->momentum = 0.9;
    }
    if (!strncmp(name, "loss_scale", 10)) o->mixed_precision = TCC_MIXED_FP16;
    if (!strcmp(name, "mixed_precision_ops")) o->mixed_precision = TCC_MIXED_BF16;
    if (!strcmp(name, "loss_is_sum")) o->batch_accumulate = 2;
    if (!strncmp(name, "ema_", 4) && strcmp(name, "ema_decay") != 0) p->ema_decay = 0.9;
    if (!strcmp(name, "momentum") || !strcmp(name, "nesterov")) p->kind = TCC_SGD;
    if (!strcmp(name, "nesterov")) p->momentum = 0.9;
    return o->mixed_precision || o->batch_accumulate || p->ema_decay > 0 || p->kind == TCC_SGD || p->n_groups;
}

/* False: another value is another affair: a device or a folder that is not there, choices by measurement, or a program
 * that is made in any case. */
static bool set_pointer(const char *name, tcc_model_options *o, tcc_param_group *group, tcc_optimizer_options *p) {
    if (!strcmp(name, "arch")) return (o->arch = "sm_80", true);
    if (!strcmp(name, "name")) return (o->name = "other", true);
    if (!strcmp(name, "memory_budget")) return (o->memory_budget = "100%", true);
    if (!strcmp(name, "mixed_precision_ops")) return (o->mixed_precision_ops = "relu=fp32", true);
    if (!strcmp(name, "progress_user")) return (o->progress_user = o, true);
    if (strcmp(name, "groups")) return false;
    tcc_param_group_init(group, "fc1.bias");
    group->frozen = true;
    p->n_groups = 1;
    p->groups = group;
    return true;
}

static bool flip(const tcc_option *row, tcc_model_options *o, tcc_param_group *group, tcc_optimizer_options *p) {
    static const char *const elsewhere[] = {"require_graphs", "n_groups", "keep_statistics"};
    void *const structs[] = {o, p, group}; /* by tcc_option_of */
    void *at = (char *)structs[row->of] + row->offset;
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
        if (!strcmp(row->name, elsewhere[i])) return false;
    switch (row->type) {
    case TCC_OPTION_BOOL: *(bool *)at ^= true; return true;
    case TCC_OPTION_ENUM:
    case TCC_OPTION_INT: *(int *)at += 1; return true;
    case TCC_OPTION_I64: *(int64_t *)at += 4; return true;
    case TCC_OPTION_U64: *(uint64_t *)at += 1; return true;
    case TCC_OPTION_TEXT: *(const char **)at = "fc1.*"; return true;
    case TCC_OPTION_REAL:
        if (isnan(*(double *)at)) return (*(double *)at = 0.5, true); /* not as of the rest */
        *(double *)at = *(double *)at / 2 + (strcmp(row->name, "loss_scale_growth") ? 0.25 : 4);
        return true;
    case TCC_OPTION_POINTER: return set_pointer(row->name, o, group, p);
    }
    return false;
}

/* Another value is another program where the row says that the key has it, and the same one where it is data. */
static void every_row_counts_as_it_says(void **state) {
    (void)state;
    const tcc_option *row;
    const net n = {.tiny = true};
    enum { LEFT = 11 }; /* rows that flip leaves alone; another one has to be thought of */
    int left = 0;
    assert_false(compile(&n, &usual));
    for (int i = 0; (row = tcc__option(i)); i++) {
        tcc_model_options o = usual;
        tcc_optimizer_options p = usual_optimizer;
        tcc_param_group group;
        o.optimizer = &p;
        forget_from(1);
        if (allow(row, &o, &group, &p)) compile(&n, &o);
        if (!flip(row, &o, &group, &p)) {
            left++;
            continue;
        }
        const bool data = row->key == TCC_OPTION_KEY_NOT, found = compile(&n, &o);
        if (found && !data) fail_msg("found in spite of another %s", row->name);
        if (!found && data) fail_msg("not found because of another %s", row->name);
    }
    assert_int_equal(left, LEFT);
}

static void other_things_count(void **state) {
    (void)state;
    assert_false(compile(&usual_net, &usual));
    HITS((void)0);
    MISSES(n.scale = 3);
    MISSES(n.hidden = 40);
    MISSES(n.dropout = 0.5);
    MISSES(n.segment = 1);
    MISSES(n.other_line = true); /* another line of the user's: reports say it */
    MISSES(p.kind = TCC_SGD);
    MISSES(p.kind = TCC_ADAGRAD);
    MISSES(o.mixed_precision = TCC_MIXED_FP16);
    MISSES(o.checkpointing = TCC_CHECKPOINTING_SEGMENTS);
    MISSES(o.memory_budget = "1GiB");
    MISSES(o.arch = "sm_90");
    MISSES((o.arch = "sm_90", o.allow_tf32 = true));
    MISSES(setenv("TCC_SKIP", "fuse", 1));
    unsetenv("TCC_SKIP");
    MISSES(setenv("TCC_CHECK_ACCESS", "1", 1));
    unsetenv("TCC_CHECK_ACCESS");
#if defined __x86_64__
    MISSES(test_environment_set("TCC_CPU", "x86-64-v2"));
    test_environment_restore();
    HITS((void)0);
#endif
    /* What the program is fed with, or how it is run, is not part of it. */
    HITS(o.mode = TCC_MODE_REDUCE_OVERHEAD);
    HITS(setenv("TCC_NUM_THREADS", "1", 1));
    unsetenv("TCC_NUM_THREADS");
}

/* Every part of the key counts: with another LLVM, hardware, library or version of ours, which no test can have, an
 * entry is not found. */
static void every_part_counts(void **state) {
    (void)state;
    static const char *const names[PARTS] = {"options", "precision", "memory",    "target",      "llvm",
                                             "traincc", "hardware",  "libraries", "environment", "graph"};
    assert_false(compile(&usual_net, &usual));
    for (int i = 0; i < PARTS; i++) {
        assert_string_equal(entries[0].names[i], names[i]);
        char *value = entries[0].parts[i], other[] = "another";
        assert_true(*value);
        entries[0].parts[i] = other;
        forget_from(1);
        assert_false(compile(&usual_net, &usual));
        entries[0].parts[i] = value;
        forget_from(1);
        assert_true(compile(&usual_net, &usual));
    }
    assert_non_null(strstr(entries[0].parts[5], TCC_VERSION " "));
    assert_true(strlen(entries[0].parts[5]) > 64); /* with the sources' hash */
}

/* -- The same to whoever uses it -- */

typedef struct seen {
    double losses[STEPS];
    float logits[ROWS * 4];
    char *reports[6];
    tcc_program_info info;
} seen;

static const char *const reports[6] = {"passes", "memory", "remat", "tir", "asm", "llvm"};

static void look(const tcc_model_options *options, seen *out) {
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2], logits;
    net n = usual_net;
    batch_of(batch);
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    assert_ok(tcc_model_create(cx, build, &n, options, &m), &cx->diag);
    for (int i = 0; i < STEPS && !options->arch; i++) {
        assert_ok(tcc_model_train(m, batch, 2), &cx->diag);
        out->losses[i] = tcc_model_loss(m);
    }
    if (options->arch) assert_ok(tcc_model_compile(m, true, batch, 2), &cx->diag);
    for (int i = 0; i < 6; i++) assert_ok(tcc_model_report(m, reports[i], &out->reports[i]), &cx->diag);
    assert_ok(tcc_model_info(m, &out->info), &cx->diag);
    if (!options->arch) {
        assert_ok(tcc_model_evaluate(m, batch, 2), &cx->diag);
        assert_ok(tcc_model_output(m, "logits", &logits), &cx->diag);
        memcpy(out->logits, logits.data, sizeof out->logits);
        assert_ok(tcc_model_verify(m, batch, 2, 0, NULL), &cx->diag);
    }
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void check_same(const tcc_model_options *options) {
    seen first = {0}, second = {0};
    look(options, &first);
    const int kept = n_entries;
    look(options, &second);
    assert_int_equal(n_entries, kept); /* nothing was compiled */
    assert_memory_equal(first.losses, second.losses, sizeof first.losses);
    assert_memory_equal(first.logits, second.logits, sizeof first.logits);
    for (int i = 0; i < 6; i++) {
        if (strcmp(first.reports[i], second.reports[i])) fail_msg("the reports \"%s\" differ", reports[i]);
        tcc_string_free(first.reports[i]);
        tcc_string_free(second.reports[i]);
    }
    assert_int_equal(first.info.cached_programs, 0);
    assert_int_equal(second.info.cached_programs, 1);
    first.info.compile_seconds = second.info.compile_seconds = 0;
    first.info.cached_programs = second.info.cached_programs = 0;
    first.info.saved_seconds = second.info.saved_seconds = 0;
    assert_memory_equal(&first.info, &second.info, sizeof first.info);
}

static void nothing_else_differs(void **state) {
    (void)state;
    tcc_model_options options = usual;
    check_same(&options);
    options.mixed_precision = TCC_MIXED_BF16; /* derived states: a program without its graph keeps them up */
    options.memory_budget = "100%";
    check_same(&options);
    options.arch = "sm_90";
    check_same(&options);
}

/* Who wants to see a program made sees it made. */
static void watched_programs_are_made(void **state) {
    (void)state;
    assert_false(compile(&usual_net, &usual));
    asked = 0;
    tcc_model_options options = usual;
    options.dump_dir = "dump";
    assert_false(compile(&usual_net, &options));
    setenv("TCC_LOG", "fusion", 1);
    assert_false(compile(&usual_net, &usual));
    setenv("TCC_LOG", "compile", 1);
    assert_int_equal(asked, 0);
    assert_true(compile(&usual_net, &usual));
    unsetenv("TCC_LOG");
}

/* An entry that does not read back is compiled again, without a word. */
static void damaged_entries_are_replaced(void **state) {
    (void)state;
    assert_false(compile(&usual_net, &usual));
    const int64_t size = entries[0].size_bytes;
    unsigned char *bytes = entries[0].bytes;
    for (int i = 0; i < 20; i++) {
        forget_from(1);
        bytes[size * i / 20] ^= 1;
        assert_false(compile(&usual_net, &usual));
        assert_int_equal(n_entries, 2); /* and kept again */
        bytes[size * i / 20] ^= 1;
    }
    forget_from(1);
    entries[0].size_bytes /= 2;
    assert_false(compile(&usual_net, &usual));
}

int main(void) {
    setenv("TCC_CACHE_DISABLE", "0", 1);
    unsetenv("TCC_VERIFY_PASSES"); /* as most programs are; the option's row is a case */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_row_counts_as_it_says, empty),
        cmocka_unit_test_teardown(other_things_count, empty),
        cmocka_unit_test_teardown(every_part_counts, empty),
        cmocka_unit_test_teardown(nothing_else_differs, empty),
        cmocka_unit_test_teardown(watched_programs_are_made, empty),
        cmocka_unit_test_teardown(damaged_entries_are_replaced, empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
