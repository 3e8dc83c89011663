/* SPDX-License-Identifier: MIT
 * The user's commands on the cache: stat, list, why, export, import, clear. */
#include "frontend/cache/cache.h"

#include "traincc/cache.h"

#include <string.h>

static tcc_status open_cache(tcc_context *cx, tcc_cache **out) {
    tcc_diag_begin(&cx->diag);
    return tcc_cache_open(&cx->diag, &(tcc_cache_options){0}, out);
}

static tcc_status take_text(tcc_context *cx, tcc_status status, tcc_strbuf *text, char **out) {
    if (status == TCC_OK && !(*out = tcc_strbuf_take(text))) status = tcc_enomem(&cx->diag);
    tcc_strbuf_free(text);
    return status;
}

tcc_status tcc_cache_report(tcc_context *cx, const char *what, const char *key, char **text) {
    tcc_cache *c;
    tcc_strbuf b = {0};
    *text = NULL;
    TCC_TRY(open_cache(cx, &c));
    tcc_status status = !strcmp(what, "stat")   ? tcc_cache_print_stat(c, &cx->diag, &b)
                        : !strcmp(what, "list") ? tcc_cache_print_list(c, &cx->diag, &b)
                        : !strcmp(what, "why")
                            ? tcc_cache_print_why(c, &cx->diag, key, &b)
                            : tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE,
                                        "no report \"%s\" on the cache; use stat, list or why", what);
    if (status == TCC_OK) tcc_strbuf_add(&b, "");
    tcc_cache_close(c);
    return take_text(cx, status, &b, text);
}

tcc_status tcc_cache_export(tcc_context *cx, const char *path) {
    tcc_cache *c;
    TCC_TRY(open_cache(cx, &c));
    const tcc_status status = tcc_cache_copy_out(c, &cx->diag, path);
    tcc_cache_close(c);
    return status;
}

static void no_model(tcc_trace *t, void *user) { (void)t, (void)user; }

/* What keys say of `device`: a model for it has it. A device that is not there says nothing. */
static tcc_status add_facts(tcc_context *cx, const char *device, tcc_arena *memory, tcc_cache_key *facts) {
    tcc_model *m;
    tcc_status status = tcc_model_create(cx, no_model, NULL, &(tcc_model_options){.device = device}, &m);
    if (status != TCC_OK) {
        tcc_diag_begin(&cx->diag);
        return status == TCC_ENOMEM ? status : TCC_OK;
    }
    status = tcc__model_selector(m);
    if (status == TCC_OK) status = tcc__cache_machine(m, memory, facts);
    tcc_model_destroy(m);
    return status;
}

tcc_status tcc_cache_import(tcc_context *cx, const char *path, char **text) {
    tcc_cache *c;
    tcc_strbuf b = {0};
    tcc_arena memory = {0};
    tcc_cache_key facts = {0};
    *text = NULL;
    TCC_TRY(open_cache(cx, &c));
    tcc_status status = add_facts(cx, "cpu", &memory, &facts);
    if (status == TCC_OK) status = add_facts(cx, "cuda", &memory, &facts);
    if (status == TCC_OK) status = tcc_cache_take_in(c, &cx->diag, path, &facts, &b);
    tcc_cache_close(c);
    tcc_arena_free(&memory);
    return take_text(cx, status, &b, text);
}

tcc_status tcc_cache_clear(tcc_context *cx) {
    tcc_diag_begin(&cx->diag);
    return tcc_cache_remove(&cx->diag, &(tcc_cache_options){0});
}
