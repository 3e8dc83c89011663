/* SPDX-License-Identifier: MIT
 * What was found, in the cache on disk: a second run measures nothing again. An entry's key is the group's signature
 * and all else that a time depends on. Its value is what runs the group, as a lock file has it, and the times of the
 * default and of that. A value that cannot be read, or no longer fits, is none: the kind is measured again. */
#include "compile_tune.h"
#include "compile_cache.h"

#include "ir/support/clock.h"

static void tell(void *user, const char *text) { tcc_logf(((tcc_model *)user)->cx, TCC_LOG_TUNE, "%s", text); }

/* NULL: there is none. */
static tcc_cache *cache_of(tcc_model *m) {
    struct tcc_tuning *tuning = m->making->tuning;
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

bool tcc__tune_find_stored(tcc_model *m, tcc_tuned *entry) {
    tcc_cache *cache = cache_of(m);
    tcc_arena memory = {0};
    tcc_cache_key key;
    void *value = NULL;
    int64_t bytes = 0;
    bool found = false;
    if (cache && make_key(m, entry, &memory, &key) && tcc_cache_get(cache, TCC_CACHE_CHOICE, &key, &value, &bytes)) {
        char *text = tcc__calloc((size_t)bytes + 1, 1);
        if (text) memcpy(text, value, (size_t)bytes);
        found = text && read_value(m, text, entry);
        tcc__free(text);
        tcc__free(value);
    }
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

void tcc__tune_close(tcc_model *m) { tcc_cache_close(m->making->tuning->cache); }
