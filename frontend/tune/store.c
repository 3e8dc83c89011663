/* SPDX-License-Identifier: MIT
 * Tuned choices in the cache on disk, so that a second run measures nothing again. An entry's key is the group's
 * signature and all else that affects a time. Its value is the choice, in the format of a lock file, with the times of
 * the default and of the choice. If a value cannot be read or no longer fits, the kind is measured again. A step that
 * was tuned as a whole has an entry too. */
#include "frontend/tune/tune.h"
#include "frontend/cache/cache.h"

#include "ir/support/clock.h"

static void tell(void *user, const char *text) { tcc_logf(((tcc_model *)user)->cx, TCC_LOG_TUNE, "%s", text); }

/* NULL: there is none. */
static tcc_cache *cache_of(tcc_model *m) {
    struct tcc_tuning *tuning = m->compiler->tuning;
    if (tuning->cache_asked) return tuning->cache;
    tuning->cache_asked = true;
    const tcc_cache_options options = {.tell = tell, .user = m};
    if (tcc_cache_open(&m->cx->diag, &options, &tuning->cache) == TCC_OK) return tuning->cache;
    tcc_logf(m->cx, TCC_LOG_TUNE, "no choices are kept: %s", tcc_diag_words(&m->cx->diag));
    tcc_diag_begin(&m->cx->diag);
    return tuning->cache = NULL;
}

/* *key, whose texts lie in `memory`; false when that is short. */
static bool make_key(tcc_model *m, const tcc_tuned *entry, tcc_arena *memory, tcc_cache_key *key) {
    tcc_strbuf device = {0};
    key->count = 0;
    m->device->ops->describe(m->device, &device);
    const char *text = device.failed ? NULL : tcc_arena_strdup(memory, device.text ? device.text : "");
    tcc_strbuf_free(&device);
    if (!text || tcc__cache_machine(m, memory, key) != TCC_OK) {
        tcc_diag_begin(&m->cx->diag);
        return false;
    }
    key->parts[key->count++] = (tcc_cache_part){"device", text};
    key->parts[key->count++] = (tcc_cache_part){"tf32", m->options.allow_tf32 ? "1" : "0"};
    key->parts[key->count++] = (tcc_cache_part){"group", entry->signature};
    return true;
}

/* The line of the choice, then a line with both times. */
static bool read_value(tcc_model *m, char *text, tcc_tuned *entry) {
    long long before, after;
    char *end = strchr(text, '\n');
    if (!end || sscanf(end + 1, "%lld %lld", &before, &after) != 2) return false;
    *end = 0;
    if (!tcc__tune_parse(m, text, entry)) return false;
    entry->default_ns = before, entry->best_ns = after;
    entry->from = TCC_TUNED_STORED;
    return true;
}

/* The caller's to free; NULL: it is not there. */
static char *get_text(tcc_cache *cache, const tcc_cache_key *key) {
    void *value = NULL;
    int64_t bytes = 0;
    if (!tcc_cache_get(cache, TCC_CACHE_CHOICE, key, &value, &bytes)) return NULL;
    char *text = tcc__calloc((size_t)bytes + 1, 1);
    if (text) memcpy(text, value, (size_t)bytes);
    tcc__free(value);
    return text;
}

bool tcc__tune_find_stored(tcc_model *m, tcc_tuned *entry) {
    tcc_cache *cache = cache_of(m);
    tcc_arena memory = {0};
    tcc_cache_key key;
    char *text = cache && make_key(m, entry, &memory, &key) ? get_text(cache, &key) : NULL;
    const bool found = text && read_value(m, text, entry);
    tcc__free(text);
    tcc_arena_free(&memory);
    return found;
}

void tcc__tune_store(tcc_model *m, const tcc_tuned *entry, double seconds) {
    tcc_cache *cache = cache_of(m);
    tcc_arena memory = {0};
    tcc_cache_key key;
    tcc_strbuf value = {0};
    tcc__tune_print_choice(entry, &value);
    tcc_strbuf_printf(&value, "\n%lld %lld\n", (long long)entry->default_ns, (long long)entry->best_ns);
    if (cache && !value.failed && make_key(m, entry, &memory, &key)) {
        tcc_cache_put(cache, TCC_CACHE_CHOICE, &key, value.text, (int64_t)value.length, (int64_t)(1e9 * seconds));
        tcc_cache_flush(cache); /* what was found is kept, whatever ends the run */
    }
    tcc_strbuf_free(&value);
    tcc_arena_free(&memory);
}

/* -- Whole steps -- */

/* Once all kinds of a step are tuned and the step was on trial, a run that makes the same step again has nothing to
 * measure, nor to plan before it knows what is used. The value has a line of the trial's times, then for each kind a
 * line about it, what was found, and what the default takes. */

static bool make_step_key(tcc_model *m, const tcc_cache_key *step, tcc_arena *memory, tcc_cache_key *key) {
    tcc_strbuf device = {0};
    m->device->ops->describe(m->device, &device);
    const char *text = device.failed ? NULL : tcc_arena_strdup(memory, device.text ? device.text : "");
    tcc_strbuf_free(&device);
    *key = *step;
    key->parts[key->count++] = (tcc_cache_part){"device", text};
    return text;
}

void tcc__tune_store_step(tcc_model *m, const tcc_cache_key *step, double seconds) {
    const struct tcc_tuning *tuning = m->compiler->tuning;
    const tcc_tuned_step *trial = &tuning->steps.data[tuning->steps.count - 1];
    tcc_cache *cache = cache_of(m);
    tcc_arena memory = {0};
    tcc_cache_key key;
    tcc_strbuf b = {0};
    tcc_strbuf_printf(&b, "%s %lld %lld %d\n", trial->name, (long long)trial->default_ns, (long long)trial->tuned_ns,
                      trial->refused);
    for (int i = 0; i < tuning->entries.count; i++) {
        const tcc_tuned *e = &tuning->entries.data[i];
        if (!e->groups) continue;
        tcc_strbuf_printf(&b, "%llx %d %lld %lld %d %d %s\n", (unsigned long long)e->key, e->groups,
                          (long long)e->default_ns, (long long)e->best_ns, e->refused, e->from != TCC_TUNED_NOT,
                          e->what);
        tcc__tune_print_choice(e, &b);
        tcc_strbuf_add(&b, "\n");
        tcc__tune_print_choice(&(tcc_tuned){.plain = e->plain}, &b);
        tcc_strbuf_add(&b, "\n");
    }
    if (cache && !b.failed && make_step_key(m, step, &memory, &key)) {
        tcc_cache_put(cache, TCC_CACHE_CHOICE, &key, b.text, (int64_t)b.length, (int64_t)(1e9 * seconds));
        tcc_cache_flush(cache); /* other processes may wait for it */
    }
    tcc_strbuf_free(&b);
    tcc_arena_free(&memory);
}

/* The line at *at, which then is behind it; NULL at the end. */
static char *next_line(char **at) {
    char *line = *at, *end = strchr(line, '\n');
    if (!end) return NULL;
    *end = 0;
    *at = end + 1;
    return line;
}

static bool read_kind(tcc_model *m, char *line, char **at, tcc_tuned *out) {
    unsigned long long key;
    long long before, after;
    int groups, refused, found, length = 0;
    tcc_tuned plain = {0};
    if (sscanf(line, "%llx %d %lld %lld %d %d %n", &key, &groups, &before, &after, &refused, &found, &length) != 6 ||
        !length || groups < 1)
        return false;
    char *choice = next_line(at), *by_default = next_line(at);
    if (!choice || !by_default || !tcc__tune_parse(m, by_default, &plain) || !plain.choice) return false;
    if (found && !tcc__tune_parse(m, choice, out)) return false;
    out->key = key, out->groups = groups, out->default_ns = before, out->best_ns = after, out->refused = refused;
    out->from = found ? TCC_TUNED_STORED : TCC_TUNED_NOT;
    out->plain = plain.choice;
    out->what = tcc_arena_strdup(&m->compiler->tuning->arena, line + length);
    return out->what;
}

/* What is known already stays, but for what the step says about itself. */
static bool take_kind(tcc_model *m, const tcc_tuned *kind) {
    tcc_tuned *known = tcc__tune_find(m, kind->key);
    if (!known) return tcc_vec_push(&m->compiler->tuning->entries, *kind);
    known->groups = kind->groups;
    known->refused |= kind->refused;
    return true;
}

static bool read_step(tcc_model *m, char *text) {
    struct tcc_tuning *tuning = m->compiler->tuning;
    tcc_vec(tcc_tuned) kinds = {0};
    char *at = text, *line = next_line(&at), name[32];
    long long before, after;
    int refused = 0;
    bool good = line && sscanf(line, "%31s %lld %lld %d", name, &before, &after, &refused) == 4;
    while (good && (line = next_line(&at))) {
        tcc_tuned kind = {0};
        good = read_kind(m, line, &at, &kind) && tcc_vec_push(&kinds, kind);
    }
    for (int i = 0; good && i < tuning->entries.count; i++) tuning->entries.data[i].groups = 0;
    for (int i = 0; good && i < kinds.count; i++) good = take_kind(m, &kinds.data[i]);
    tcc_vec_free(&kinds);
    if (!good) return false;
    const tcc_tuned_step step = {tcc_arena_strdup(&tuning->arena, name), before, after, refused, TCC_TUNED_STORED};
    for (int i = 0; i < tuning->steps.count; i++)
        if (tuning->steps.data[i].default_ns == before && !strcmp(tuning->steps.data[i].name, name)) return true;
    return step.name && tcc_vec_push(&tuning->steps, step);
}

bool tcc__tune_find_step(tcc_model *m, const tcc_cache_key *step) {
    tcc_cache *cache = cache_of(m);
    tcc_arena memory = {0};
    tcc_cache_key key;
    char *text = cache && make_step_key(m, step, &memory, &key) ? get_text(cache, &key) : NULL;
    const bool found = text && read_step(m, text);
    tcc__free(text);
    tcc_arena_free(&memory);
    return found;
}

void tcc__tune_close(tcc_model *m) { tcc_cache_close(m->compiler->tuning->cache); }
