/* SPDX-License-Identifier: MIT
 * States that passes add to a training step: how they begin, and derived ones, which are copies of other entries in
 * another type (the bf16 copy of a weight). A program that updates a weight updates its copies; what else changes the
 * weight - a checkpoint, the user, a program that knows nothing of the copy - makes them stale, and they are made again
 * before the next run. A program that updates a rank's own part of a weight, and not the weight, leaves the weight
 * behind (shards.c). */
#include "frontend/run/model.h"

#include "ir/support/element.h"

tcc_status tcc__state_add(tcc_store *s, const tcc_binding *b, tcc_diag *diag, int *index) {
    const tcc_init init = {.kind = b->begin == 0 ? TCC_INIT_ZEROS : TCC_INIT_CONSTANT, .a = b->begin};
    *index = tcc_store_find(s, b->name);
    if (*index < 0) {
        const char *source = tcc__source_of(b), *copy_of = source ? tcc_arena_strdup(&s->arena, source) : NULL;
        if (source && !copy_of) return tcc_enomem(diag);
        TCC_TRY(tcc_store_add(s, b->name, TCC_ROLE_STATE, &b->type, &init, diag, TCC_NOWHERE, index));
        s->entries.data[*index].copy_of = copy_of;
        s->entries.data[*index].stale = copy_of != NULL;
    }
    return TCC_OK;
}

void tcc__state_source_written(tcc_model *m, const tcc_stored *source) {
    for (int i = 0; i < m->shared->copies.entries.count; i++) {
        tcc_stored *p = &m->shared->copies.entries.data[i];
        if (!strcmp(p->copy_of, source->name)) p->stale = true;
    }
}

void tcc__state_derive(tcc_stored *p, const tcc_stored *source) {
    const int64_t room = tcc_type_numel(&p->type), left = tcc_type_numel(&source->type) - p->from;
    const int64_t count = left < 0 ? 0 : left < room ? left : room, bytes = tcc_dtype_bytes(p->type.dtype);
    const char *from = (const char *)source->data + (count ? p->from * tcc_dtype_bytes(source->type.dtype) : 0);
    tcc_elements_cast(p->type.dtype, p->data, source->type.dtype, from, count);
    memset((char *)p->data + count * bytes, 0, (size_t)((room - count) * bytes));
    p->host_newer = p->device != NULL;
    p->device_newer = p->stale = false;
}

tcc_status tcc__states_derive(tcc_model *m, const tcc_compiled *c) {
    tcc_shared *shared = m->shared;
    for (int i = 0; i < (c ? c->reads.count : shared->copies.entries.count); i++) {
        tcc_stored *p = &shared->copies.entries.data[c ? c->reads.data[i] : i];
        if (!p->stale) continue;
        const int source = tcc_store_find(&shared->store, p->copy_of);
        if (source < 0) return TCC_BUG(&m->cx->diag, "there is no '%s' to copy", p->copy_of);
        TCC_TRY(tcc__shard_check(m, &shared->store.entries.data[source]));
        TCC_TRY(tcc__stored_host(m, &shared->store.entries.data[source]));
        tcc__state_derive(p, &shared->store.entries.data[source]);
    }
    return TCC_OK;
}

/* Whether a run of the program gives binding `name` a next value. */
static bool writes(const tcc_program *p, const char *name) {
    for (int i = 0; i < p->n_bindings; i++)
        if (p->bindings[i].written && !strcmp(p->bindings[i].name, name)) return true;
    return false;
}

tcc_status tcc__states_ran(tcc_model *m, tcc_compiled *c) {
    tcc_store *copies = &m->shared->copies;
    for (; c->outdates_of < copies->entries.count; c->outdates_of++) { /* looked at once: names are compared */
        const tcc_stored *p = &copies->entries.data[c->outdates_of];
        const bool source = writes(c->program, p->copy_of), copy = writes(c->program, p->name);
        const int of = copy && !source && tcc_own_of(p->name) ? tcc_store_find(&m->shared->store, p->copy_of) : -1;
        if ((source && !copy && !tcc_vec_push(&c->outdates, c->outdates_of)) ||
            (of >= 0 && !tcc_vec_push(&c->leaves, of)))
            return tcc_enomem(&m->cx->diag);
    }
    for (int i = 0; i < c->outdates.count; i++) copies->entries.data[c->outdates.data[i]].stale = true;
    for (int i = 0; i < c->leaves.count; i++) tcc__shard_leave(&m->shared->store.entries.data[c->leaves.data[i]]);
    return TCC_OK;
}
