/* SPDX-License-Identifier: MIT
 * Models that share their parameters: each has its function, programs, optimizer and random numbers; the store, the
 * device and the arena are common to all. */
#include "frontend/run/model.h"

#include "ir/support/hash.h"

static void join(tcc_model *m, tcc_shared *shared) {
    m->shared = shared;
    m->sharing = shared->models;
    shared->models = m;
}

tcc_status tcc__model_share(tcc_model *m, tcc_model *with) {
    if (!with) {
        tcc_shared *shared = tcc__calloc(1, sizeof *shared);
        if (!shared) return tcc_enomem(&m->cx->diag);
        join(m, shared);
        return TCC_OK;
    }
    m->device = with->device;
    m->nvtx = with->nvtx;
    snprintf(m->device_name, sizeof m->device_name, "%s", with->device_name);
    snprintf(m->arch, sizeof m->arch, "%s", with->arch);
    join(m, with->shared);
    return TCC_OK;
}

tcc_status tcc__model_name(tcc_model *m, const char *name) {
    tcc_diag *diag = &m->cx->diag;
    if (name && (!*name || strchr(name, '/')))
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "name \"%s\": a model's must not be empty, nor have a '/'",
                         name);
    for (const tcc_model *other = m->shared->models; other; other = other->sharing) {
        const bool alike = name && other->name ? !strcmp(name, other->name) : !name && !other->name;
        if (other == m || !alike) continue;
        if (name)
            return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                             "name \"%s\": a model that shares with this one has it already", name);
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                         "share: options.name must tell this model from the one without a name");
    }
    if (name && !(m->name = tcc_arena_strdup(&m->moments.arena, name))) return tcc_enomem(diag);
    m->random_seed = name ? tcc_hash_string(m->options.seed, name) : m->options.seed;
    return TCC_OK;
}

/* Of the last model. */
static void destroy(tcc_model *m) {
    tcc_shared *shared = m->shared;
    if (shared->arena) m->device->ops->free(m->device, shared->arena, shared->arena_bytes);
    tcc__store_release(m, &shared->store);
    tcc__store_release(m, &shared->copies);
    tcc_store_free(&shared->store);
    tcc_store_free(&shared->copies);
    tcc__free(shared);
    tcc_device_destroy(m->device);
}

void tcc__model_unshare(tcc_model *m) {
    tcc_model **at = &m->shared->models;
    while (*at != m) at = &(*at)->sharing;
    *at = m->sharing;
    if (!m->shared->models) destroy(m);
}
