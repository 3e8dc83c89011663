/* SPDX-License-Identifier: MIT
 * Averages of the parameters in the parameters' place. Values are exchanged, not addresses: whatever is made of a
 * parameter - a copy in a low type, a captured graph - need not know of it. */
#include "frontend/run/model.h"

static tcc_stored *average_of(tcc_model *m, const tcc_stored *p) {
    char name[512];
    snprintf(name, sizeof name, "%s.ema", p->name);
    const int index = tcc_store_find(&m->moments, name);
    return index >= 0 ? &m->moments.entries.data[index] : NULL;
}

static void exchange(char *a, char *b, int64_t bytes) {
    char part[4096];
    for (int64_t at = 0; at < bytes; at += (int64_t)sizeof part) {
        const size_t count = bytes - at < (int64_t)sizeof part ? (size_t)(bytes - at) : sizeof part;
        memcpy(part, a + at, count);
        memcpy(a + at, b + at, count);
        memcpy(b + at, part, count);
    }
}

static const tcc_type *whole_type(const tcc_stored *p) { return p->shared_out ? &p->whole : &p->type; }

/* Brings both to the host, whole, so that nothing can fail when they are exchanged. Counts the averages. */
static tcc_status fetch_all(tcc_model *m, int *count) {
    for (int i = 0; i < m->shared->store.entries.count; i++) {
        tcc_stored *p = &m->shared->store.entries.data[i], *average = average_of(m, p);
        if (!average) continue;
        if (!tcc_type_equal(&p->type, whole_type(average)))
            return tcc_error(&m->cx->diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "\"%s\" is %s, which cannot hold its average",
                             p->name, tcc_type_text(&p->type));
        TCC_TRY(tcc__shard_fetch(m, p));
        TCC_TRY(tcc__stored_host(m, p));
        TCC_TRY(tcc__stored_host(m, average));
        if (average->shared_out && !average->shown_whole) TCC_TRY(tcc__shard_show(m, average));
        ++*count;
    }
    return TCC_OK;
}

/* Exchanges all of them, or, where no update was made yet, gives the averages the parameters' values. */
static void exchange_all(tcc_model *m, bool begun) {
    for (int i = 0; i < m->shared->store.entries.count; i++) {
        tcc_stored *p = &m->shared->store.entries.data[i], *average = average_of(m, p);
        if (!average) continue;
        const int64_t bytes = tcc_type_bytes(&p->type);
        void *values = average->shared_out ? average->gathered : average->data;
        if (begun) exchange(p->data, values, bytes);
        else memcpy(values, p->data, (size_t)bytes);
        average->given |= average->shared_out && !begun;
        p->host_newer = p->device != NULL;
        if (average->shared_out) {
            average->shown_whole = !average->shown_whole;
            if (!average->shown_whole) tcc__shard_hide(m, average);
        } else average->host_newer = average->device != NULL;
        tcc__state_source_written(m, p);
    }
}

void tcc__ema_end(tcc_model *m) {
    int count = 0;
    if (m->shared->averaged != m) return;
    if (m->shared->models->sharing && fetch_all(m, &count) == TCC_OK) exchange_all(m, true);
    m->shared->averaged = NULL;
}

tcc_status tcc_model_use_ema(tcc_model *m, bool on) {
    tcc_diag *diag = &m->cx->diag;
    int count = 0;
    tcc_diag_begin(diag);
    if (on == (m->shared->averaged == m)) return TCC_OK;
    if (on && m->shared->averaged)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                         "the averages of a model that shares the parameters are in their place: call "
                         "tcc_model_use_ema(that model, false) first");
    TCC_TRY(tcc__model_can_run(m));
    const int steps = tcc_store_find(&m->moments, TCC_STEP_STATE);
    TCC_TRY(fetch_all(m, &count));
    if (!count || steps < 0)
        return tcc_error(diag, TCC_ENOTFOUND, TCC_NOWHERE,
                         m->optimizer.ema_decay > 0
                             ? "there are no averages yet: train or compile first"
                             : "parameters are not averaged: averaging needs an ema_decay above 0");
    TCC_TRY(tcc__stored_host(m, &m->moments.entries.data[steps]));
    const bool begun = *(const int64_t *)m->moments.entries.data[steps].data > 0;
    exchange_all(m, begun);
    m->shared->averaged = on ? m : NULL;
    return TCC_OK;
}
