/* SPDX-License-Identifier: MIT
 * Kernels from the cache: a program that is not there takes those of its kernels that another one had, computes what it
 * computes without them, and compiles the rest. Every part of a kernel's key counts, and what does not fit is compiled
 * again. What is kept is in memory here; programs are not. */
#include "harness/check.h"
#include "harness/optimizer.h"

#include "frontend/cache/cache.h"
#include "traincc/traincc.h"

#include <stdlib.h>

enum { PARTS = 5, ROWS = 16, WIDTH = 24, ENTRIES = 1024, STEPS = 3 };
static const char *const names[PARTS] = {"target", "llvm", "traincc", "hardware", NULL};

/* -- The store -- */

typedef struct entry {
    bool module;
    char *parts[PARTS];
    char *bytes;
    int64_t size_bytes;
} entry;
static entry entries[ENTRIES];
static int n_entries;

static bool is_it(const entry *e, const tcc_cache_key *key) {
    if (e->module != !strcmp(key->parts[PARTS - 1].name, "module")) return false;
    for (int i = 0; i < PARTS; i++)
        if (strcmp(e->parts[i], key->parts[i].text) != 0) return false;
    return true;
}

bool __wrap_tcc_cache_get(tcc_cache *c, tcc_cache_kind kind, const tcc_cache_key *key, void **value, int64_t *size);
bool __wrap_tcc_cache_get(tcc_cache *c, tcc_cache_kind kind, const tcc_cache_key *key, void **value, int64_t *size) {
    (void)c;
    for (int i = n_entries - 1; i >= 0 && kind == TCC_CACHE_CODE; i--) {
        if (!is_it(&entries[i], key)) continue;
        *value = memcpy(tcc__malloc((size_t)entries[i].size_bytes), entries[i].bytes, (size_t)entries[i].size_bytes);
        *size = entries[i].size_bytes;
        return true;
    }
    return false;
}

void __wrap_tcc_cache_put(tcc_cache *c, tcc_cache_kind kind, const tcc_cache_key *key, const void *value, int64_t size,
                          int64_t made_ns);
void __wrap_tcc_cache_put(tcc_cache *c, tcc_cache_kind kind, const tcc_cache_key *key, const void *value, int64_t size,
                          int64_t made_ns) {
    (void)c, (void)made_ns;
    if (kind != TCC_CACHE_CODE) return;
    assert_int_equal(key->count, PARTS);
    assert_true(n_entries < ENTRIES);
    entry *e = &entries[n_entries++];
    for (int i = 0; i < PARTS; i++) {
        if (names[i]) assert_string_equal(key->parts[i].name, names[i]);
        e->parts[i] = strdup(key->parts[i].text);
    }
    e->module = !strcmp(key->parts[PARTS - 1].name, "module");
    e->bytes = memcpy(malloc((size_t)size), value, (size_t)size);
    e->size_bytes = size;
}

/* Forgets all entries but the first `kept`. */
static void forget_from(int kept) {
    for (int i = kept; i < n_entries; i++) {
        for (int k = 0; k < PARTS; k++) free(entries[i].parts[k]);
        free(entries[i].bytes);
    }
    n_entries = kept;
}

static int empty(void **state) {
    (void)state;
    forget_from(0);
    return 0;
}

/* -- The model -- */

typedef struct net {
    int layers, width, classes;
    bool other_line;
} net;

static void build(tcc_trace *t, void *user) {
    static const char *const of_layer[] = {"a", "b", "c"}, *const of_norm[] = {"na", "nb", "nc"};
    const net *n = user;
    tcc_tensor h = tcc_input(t, "x");
    h = tcc_linear(h, "first", n->width);
    for (int i = 0; i < n->layers; i++) h = tcc_gelu(tcc_linear(tcc_layer_norm(h, of_norm[i]), of_layer[i], n->width));
    if (n->other_line) h = tcc_linear(h, "last", n->classes);
    else h = tcc_linear(h, "last", n->classes);
    tcc_loss(t, tcc_cross_entropy(h, tcc_input(t, "y")));
}

static const net two_layers = {.layers = 2, .width = 40, .classes = 4};
static const tcc_optimizer_options adamw = OPTIMIZER(TCC_ADAMW, 0.01, .momentum = 0);
static const tcc_model_options usual = {.size = sizeof usual, .seed = 3, .optimizer = &adamw};

typedef struct seen {
    double losses[STEPS];
    int kernels, cached;
} seen;

static seen train(const net *n, const tcc_model_options *options) {
    static float x[ROWS * WIDTH];
    static int32_t y[ROWS];
    const tcc_array batch[] = {{"x", TCC_F32, 2, {ROWS, WIDTH}, x}, {"y", TCC_I32, 1, {ROWS}, y}};
    tcc_context *cx;
    tcc_model *m;
    tcc_program_info info;
    net copy = *n;
    seen out = {0};
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)((i * 37) % 101) / 50 - 1;
    for (int i = 0; i < ROWS; i++) y[i] = i % 4;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    assert_ok(tcc_model_create(cx, build, &copy, options, &m), &cx->diag);
    if (options->arch) assert_ok(tcc_model_compile(m, true, batch, 2), &cx->diag);
    for (int i = 0; i < STEPS && !options->arch; i++) {
        assert_ok(tcc_model_train(m, batch, 2), &cx->diag);
        out.losses[i] = tcc_model_loss(m);
    }
    assert_ok(tcc_model_info(m, &info), &cx->diag);
    out.kernels = info.kernels, out.cached = info.cached_kernels;
    assert_int_equal(info.cached_programs, 0);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return out;
}

/* Without the store. */
static seen train_alone(const net *n, const tcc_model_options *options) {
    setenv("TCC_CACHE_DISABLE", "1", 1);
    const seen out = train(n, options);
    setenv("TCC_CACHE_DISABLE", "0", 1);
    assert_int_equal(out.cached, 0);
    return out;
}

static void equal_kernels_are_found(void **state) {
    (void)state;
    net deeper = two_layers, elsewhere = two_layers, wider = two_layers;
    deeper.layers = 3, deeper.classes = 5, elsewhere.other_line = true, wider.width = 48;
    const seen first = train(&two_layers, &usual);
    const int kept = n_entries;
    assert_int_equal(first.cached, 0);
    assert_true(kept > first.kernels);

    const seen moved = train(&elsewhere, &usual);
    assert_int_equal(moved.cached, moved.kernels);
    assert_int_equal(n_entries, kept); /* nothing was compiled */
    assert_memory_equal(moved.losses, first.losses, sizeof first.losses);

    const seen three = train(&deeper, &usual), alone = train_alone(&deeper, &usual);
    assert_true(2 * three.cached > three.kernels && three.cached < three.kernels);
    assert_memory_equal(three.losses, alone.losses, sizeof alone.losses);
    const seen again = train(&deeper, &usual); /* of modules of both programs */
    assert_int_equal(again.cached, again.kernels);
    assert_memory_equal(again.losses, alone.losses, sizeof alone.losses);

    const seen wide = train(&wider, &usual), wide_alone = train_alone(&wider, &usual);
    assert_true(wide.cached < wide.kernels / 2);
    assert_memory_equal(wide.losses, wide_alone.losses, sizeof wide.losses);
}

/* A module for a GPU, or for another one, is another. */
static void targets_are_told_apart(void **state) {
    (void)state;
    tcc_model_options on_gpu = usual;
    assert_int_equal(train(&two_layers, &usual).cached, 0);
    on_gpu.arch = "sm_80";
    assert_int_equal(train(&two_layers, &on_gpu).cached, 0);
    on_gpu.arch = "sm_90";
    assert_int_equal(train(&two_layers, &on_gpu).cached, 0);
    const seen gpu = train(&two_layers, &on_gpu), host = train(&two_layers, &usual);
    assert_int_equal(gpu.cached, gpu.kernels);
    assert_int_equal(host.cached, host.kernels);
}

/* With another LLVM, hardware or version of ours, which no test can have, or another key of the kernel's own, an entry
 * is not found; of a module that is gone, neither are its kernels. */
static void every_part_counts(void **state) {
    (void)state;
    const seen first = train(&two_layers, &usual);
    const int kept = n_entries;
    for (int modules = 0; modules < 2; modules++)
        for (int part = 0; part < PARTS; part++) {
            for (int i = 0; i < kept; i++) {
                assert_true(*entries[i].parts[part]);
                if (entries[i].module == modules) *entries[i].parts[part] ^= 1; /* another text */
            }
            const seen changed = train(&two_layers, &usual);
            assert_int_equal(changed.cached, 0);
            assert_memory_equal(changed.losses, first.losses, sizeof first.losses);
            forget_from(kept);
            for (int i = 0; i < kept; i++)
                if (entries[i].module == modules) *entries[i].parts[part] ^= 1;
            assert_int_equal(train(&two_layers, &usual).cached, first.kernels);
        }
}

/* What does not read back, or is not the code that its name says, is compiled. */
static void damaged_entries_are_replaced(void **state) {
    (void)state;
    const seen first = train(&two_layers, &usual);
    const int kept = n_entries;
    for (int damage = 0; damage < 5; damage++) {
        for (int i = 0; i < kept; i++) {
            if (entries[i].module != (damage < 2)) continue;
            if (damage == 0) entries[i].bytes[entries[i].size_bytes / 2] ^= 1;
            if (damage == 1) entries[i].size_bytes--;
            if (damage == 2) entries[i].size_bytes = 33; /* no symbol */
            if (damage == 3) entries[i].bytes[32] = '_';
            if (damage == 4) entries[i].bytes[0] = 'z';
        }
        const seen damaged = train(&two_layers, &usual);
        assert_int_equal(damaged.cached, 0);
        assert_memory_equal(damaged.losses, first.losses, sizeof first.losses);
        assert_true(n_entries > kept);
        const seen after = train(&two_layers, &usual); /* those that replace them */
        assert_int_equal(after.cached, after.kernels);
        forget_from(0);
        train(&two_layers, &usual);
        assert_int_equal(n_entries, kept);
    }
}

int main(void) {
    setenv("TCC_CACHE_DISABLE", "0", 1);
    unsetenv("TCC_VERIFY_PASSES"); /* where passes are verified nothing is cached */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(equal_kernels_are_found, empty),
        cmocka_unit_test_teardown(targets_are_told_apart, empty),
        cmocka_unit_test_teardown(every_part_counts, empty),
        cmocka_unit_test_teardown(damaged_entries_are_replaced, empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
