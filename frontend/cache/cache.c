/* SPDX-License-Identifier: MIT
 * Loads a program from the cache, or compiles and stores it. An entry answers all questions about a program but those
 * about its graph; the first question about the graph runs the passes. An entry that cannot be read is not an error:
 * the program is compiled. */
#include "frontend/cache/cache.h"

#include "frontend/run/compiled_file.h"
#include "ir/support/clock.h"

#include <math.h>

enum { MADE_VERSION = 1, MOST_WAIT_MS = 120 * 1000 };
static const tcc_stream_kind made_kind = {"TCCMADE", MADE_VERSION, "compiled program"};

static tcc_status decode(tcc_model *m, tcc_compiled *c, const void *bytes, int64_t size_bytes) {
    tcc_stream s;
    tcc_diag *diag = &m->cx->diag;
    TCC_TRY(tcc_stream_read(&s, diag, &made_kind, "cache", bytes, size_bytes, &c->arena));
    tcc__io_compiled(&s, c, diag);
    if (diag->status != TCC_OK) return diag->status;
    TCC_TRY(tcc_stream_end(&s, diag, &made_kind, "cache"));
    for (int i = 0; i < TCC_TEXTS; i++)
        if (!c->text[i]) return TCC_EFORMAT;
    return TCC_OK;
}

/* False: the program is not there, and c as it was. */
static bool find(tcc_model *m, tcc_compiled *c, tcc_cache *cache, const tcc_cache_key *key) {
    void *bytes;
    int64_t size_bytes;
    if (!tcc_cache_get(cache, TCC_CACHE_PROGRAM, key, &bytes, &size_bytes)) return false;
    const tcc_status status = decode(m, c, bytes, size_bytes);
    tcc__free(bytes);
    if (status == TCC_OK) return true;
    tcc_diag_clear(&m->cx->diag);
    tcc_program_destroy(c->program);
    c->program = NULL;
    memset(c->text, 0, sizeof c->text);
    return false;
}

/* What cannot be kept is done without. */
static void keep(tcc_model *m, tcc_compiled *c, tcc_cache *cache, const tcc_cache_key *key) {
    tcc_diag *diag = &m->cx->diag;
    tcc_status status = TCC_OK;
    void *bytes = NULL;
    int64_t size_bytes;
    for (int which = 0; which < TCC_TEXTS && status == TCC_OK; which++)
        status = tcc__record_write(m, c, (tcc_text)which);
    if (status == TCC_OK) {
        tcc_stream s = tcc_stream_write();
        tcc__io_compiled(&s, c, diag);
        status = tcc_stream_seal(&s, diag, &made_kind, c->program->name, &bytes, &size_bytes);
    }
    if (status == TCC_OK) {
        const double seconds = c->passes_seconds + c->codegen_seconds;
        tcc_cache_put(cache, TCC_CACHE_PROGRAM, key, bytes, size_bytes, (int64_t)(1e9 * seconds));
        tcc_cache_flush(cache); /* other processes may wait for it */
    } else tcc_diag_clear(diag);
    tcc__free(bytes);
}

/* c has what it took to make the program, and that is saved, but for the time since `start`. */
static void was_found(tcc_compiled *c, double start) {
    const double seconds = tcc_clock_seconds() - start;
    c->saved_seconds = c->passes_seconds + c->codegen_seconds - seconds;
    c->passes_seconds = 0;
    c->codegen_seconds = seconds;
    c->from_cache = true;
}

static tcc_status build(tcc_model *m, tcc_compiled *c) {
    TCC_TRY(tcc__plan_beside(m, c));
    return tcc__model_build(m, c);
}

static tcc_status find_or_make(tcc_model *m, tcc_compiled *c, tcc_cache *cache, const tcc_cache_key *key) {
    const double start = tcc_clock_seconds();
    if (find(m, c, cache, key)) {
        was_found(c, start);
        return TCC_OK;
    }
    tcc_status status = TCC_OK;
    tcc_cache_claim claim = tcc_cache_wait(cache, TCC_CACHE_PROGRAM, key, MOST_WAIT_MS);
    if (find(m, c, cache, key)) was_found(c, start); /* made by another process meanwhile */
    else if ((status = build(m, c)) == TCC_OK) keep(m, c, cache, key);
    tcc_cache_release(&claim);
    return status;
}

/* What is measured is part of the key, where it is known already: then the key decides the program. */
static tcc_status add_choices(tcc_model *m, tcc_arena *memory, tcc_cache_key *key, bool *known) {
    tcc_strbuf used = {0};
    tcc_status status = tcc__model_tune_recall(m, key, &used, known);
    const char *text = used.failed ? NULL : tcc_arena_strdup(memory, used.text ? used.text : "");
    tcc_strbuf_free(&used);
    if (status == TCC_OK && !text) status = tcc_enomem(&m->cx->diag);
    if (status == TCC_OK && *known) key->parts[key->count++] = (tcc_cache_part){"choices", text};
    return status;
}

/* Tunes once over all processes. What another one tunes meanwhile is waited for. */
static tcc_status tune_or_find(tcc_model *m, tcc_compiled *c, tcc_cache *cache, tcc_arena *memory, tcc_cache_key *key) {
    bool known;
    TCC_TRY(add_choices(m, memory, key, &known));
    if (known) return find_or_make(m, c, cache, key);
    const int wait_ms = MOST_WAIT_MS + (int)fmin(1e6, 1e3 * m->options.autotune_budget_s);
    tcc_cache_claim claim = tcc_cache_wait(cache, TCC_CACHE_CHOICE, key, wait_ms);
    tcc_status status = add_choices(m, memory, key, &known);
    if (status == TCC_OK && known) status = find_or_make(m, c, cache, key);
    else if (status == TCC_OK) {
        status = build(m, c);
        /* Where the budget was spent, the rest is tuned by another run, and the program is not the last. */
        if (status == TCC_OK) status = add_choices(m, memory, key, &known);
        if (status == TCC_OK && known) keep(m, c, cache, key);
    }
    tcc_cache_release(&claim);
    return status;
}

static tcc_status find_or_build(tcc_model *m, tcc_compiled *c, tcc_cache *cache) {
    tcc_arena memory = {0};
    tcc_cache_key key;
    tcc_status status = tcc__cache_key(m, c->train, c->part, c->record->graph, &memory, &key);
    if (status == TCC_OK && m->compiler->tuning) status = tune_or_find(m, c, cache, &memory, &key);
    else if (status == TCC_OK) status = find_or_make(m, c, cache, &key);
    tcc_arena_free(&memory);
    return status;
}

tcc_status tcc__model_make(tcc_model *m, tcc_compiled *c, const tcc_array *batch) {
    if (!(c->record = tcc__calloc(1, sizeof *c->record))) return tcc_enomem(&m->cx->diag);
    const double start = tcc_clock_seconds();
    TCC_TRY(tcc__traced_graph(m, c, batch, &c->record->graph));
    const double traced = tcc_clock_seconds();
    TCC_TRY(tcc__model_selector(m));
    if (!m->compiler->tuning) TCC_TRY(tcc__fill_begin(m)); /* it would disturb measurements */
    tcc_cache *cache = tcc__cache_of(m);
    TCC_TRY(cache ? find_or_build(m, c, cache) : build(m, c));
    c->trace_seconds = traced - start;
    return TCC_OK;
}

tcc_status tcc__cache_describe(tcc_model *m, tcc_strbuf *machine, tcc_strbuf *version) {
    TCC_TRY(tcc__model_selector(m));
    tcc__cache_print_compiler(m, machine, version);
    return machine->failed || version->failed ? tcc_enomem(&m->cx->diag) : TCC_OK;
}
