/* SPDX-License-Identifier: MIT
 * A model's memory on its device. Parameters, buffers and optimizer state have a host side, which the user reads and
 * writes between runs, and a device side, which programs read and write; on the CPU the two are one. Each entry
 * remembers which side has what the other lacks, and is copied when that is asked for. */
#include "frontend/run/model.h"

#include "runtime/cuda/collectives.h"
#include "runtime/program.h"

tcc_status tcc__device_alloc(tcc_model *m, int64_t size_bytes, const char *name, void **out) {
    tcc_status status = m->device->ops->alloc(m->device, &m->cx->diag, size_bytes, out);
    if (status != TCC_OK) tcc_note(&m->cx->diag, TCC_NOWHERE, "for '%s'", name);
    return status;
}

bool tcc__stored_has_memory(const tcc_model *m, const tcc_stored *p) {
    return (m->device->ops->shares_host ? (const void *)p->data : p->device) != NULL;
}

tcc_status tcc__stored_device(tcc_model *m, tcc_stored *p, void **out) {
    if (m->device->ops->shares_host) {
        *out = p->data;
        return TCC_OK;
    }
    if (!p->device) {
        TCC_TRY(tcc__device_alloc(m, tcc_type_bytes(&p->type), p->name, &p->device));
        p->host_newer = true;
    }
    *out = p->device;
    return TCC_OK;
}

tcc_status tcc__stored_host(tcc_model *m, tcc_stored *p) {
    if (p->device_newer)
        TCC_TRY(m->device->ops->download(m->device, &m->cx->diag, p->data, p->device, tcc_type_bytes(&p->type)));
    p->device_newer = false;
    return TCC_OK;
}

tcc_status tcc__store_upload(tcc_model *m, tcc_store *s) {
    for (int i = 0; i < s->entries.count; i++) {
        tcc_stored *p = &s->entries.data[i];
        if (!p->device || !p->host_newer) continue;
        TCC_TRY(m->device->ops->upload(m->device, &m->cx->diag, p->device, p->data, tcc_type_bytes(&p->type)));
        p->host_newer = false;
    }
    return TCC_OK;
}

tcc_status tcc__store_download(tcc_model *m, tcc_store *s) {
    for (int i = 0; i < s->entries.count; i++) TCC_TRY(tcc__stored_host(m, &s->entries.data[i]));
    return TCC_OK;
}

void tcc__store_written(tcc_store *s) {
    for (int i = 0; i < s->entries.count; i++) { /* but sums, which nobody reads on the host */
        tcc_stored *p = &s->entries.data[i];
        p->device_newer |= p->device != NULL && !tcc__is_sum(p->name);
    }
}

void tcc__shard_release(tcc_stored *p) {
    tcc__free(p->gathered);
    p->gathered = NULL;
}

void tcc__store_release(tcc_model *m, tcc_store *s) {
    for (int i = 0; i < s->entries.count; i++) {
        tcc_stored *p = &s->entries.data[i];
        if (p->device) m->device->ops->free(m->device, p->device, tcc_type_bytes(&p->type));
        p->device = NULL;
        tcc__shard_release(p);
    }
}

/* -- The arena -- */

static tcc_status set_arena(tcc_model *m, tcc_compiled *c) {
    return tcc_exec_set_arena(c->exec, &m->cx->diag, m->shared->arena, m->shared->arena_bytes);
}

/* For all programs of a model that run in it. */
static tcc_status set_arenas(tcc_model *m) {
    tcc_status status = TCC_OK;
    for (int i = 0; i < m->programs.count; i++) {
        if (!m->programs.data[i]->bound) continue; /* a plan's, whose turn to be loaded comes */
        const tcc_status set = set_arena(m, m->programs.data[i]);
        if (status == TCC_OK) status = set;
    }
    return status;
}

/* The old one goes first, so that there are never two. */
static tcc_status grow_arena(tcc_model *m, int64_t size_bytes) {
    const tcc_device_ops *ops = m->device->ops;
    tcc_shared *shared = m->shared;
    const int64_t before = shared->arena_bytes;
    ops->free(m->device, shared->arena, before);
    shared->arena = NULL;
    shared->arena_bytes = 0;
    tcc_status status = ops->alloc(m->device, &m->cx->diag, size_bytes, &shared->arena);
    if (status == TCC_OK) shared->arena_bytes = size_bytes;
    else if (before && ops->alloc(m->device, NULL, before, &shared->arena) == TCC_OK) shared->arena_bytes = before;
    for (tcc_model *each = shared->models; each; each = each->sharing) {
        const tcc_status set = set_arenas(each);
        if (status == TCC_OK) status = set;
    }
    return status;
}

tcc_status tcc__model_share_arena(tcc_model *m, tcc_compiled *c) {
    const int64_t needed = c->program->arena_bytes;
    const tcc_status status = needed > m->shared->arena_bytes ? grow_arena(m, needed) : TCC_OK;
    if (status == TCC_OK) return set_arena(m, c);
    tcc_note(&m->cx->diag, TCC_NOWHERE, "for the arena of program '%s'", c->program->name);
    tcc_program_note_largest(&m->cx->diag, c->program);
    return status;
}

static bool has_binding(const tcc_program *p, const char *name) {
    for (int i = 0; i < p->n_bindings; i++)
        if (!strcmp(p->bindings[i].name, name)) return true;
    return false;
}

/* The entry that is shared and that a binding means; NULL: it is the model's or the program's own. */
static tcc_stored *shared_entry(tcc_model *m, const tcc_binding *b) {
    tcc_shared *shared = m->shared;
    const int stored = tcc_store_find(&shared->store, b->name), copy = tcc_store_find(&shared->copies, b->name);
    if (b->role != TCC_ROLE_PARAM && b->role != TCC_ROLE_STATE) return NULL;
    if (tcc__model_uses(m, stored)) return &shared->store.entries.data[stored];
    return copy >= 0 && tcc__source_of(b) ? &shared->copies.entries.data[copy] : NULL;
}

void tcc__model_count_memory(tcc_model *m, tcc_compiled *c) {
    for (int i = 0; i < c->program->n_bindings; i++) {
        const tcc_binding *b = &c->program->bindings[i];
        if (b->idle && !tcc__model_keeps_idle(m)) continue;
        tcc_stored *shared = shared_entry(m, b);
        if (shared) {
            if (!shared->counted) m->shared->kept_bytes += tcc_type_bytes(&b->type);
            shared->counted = true;
            continue;
        }
        bool there = false; /* what belongs to the model is there once */
        for (int k = 0; k < m->programs.count && b->role == TCC_ROLE_STATE; k++)
            there |= m->programs.data[k]->counted && has_binding(m->programs.data[k]->program, b->name);
        if (!there) m->kept_bytes += tcc_type_bytes(&b->type);
    }
    m->kept_bytes += tcc__cuda_program_receives(c->program);
    c->counted = true;
}
