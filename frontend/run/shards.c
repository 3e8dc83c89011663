/* SPDX-License-Identifier: MIT
 * Optimizer states and averages that ranks share out (options.shard_optimizer). A rank's entry has its part of the
 * elements, as many on each rank, with room behind the last (passes/step_shard.c). The user sees whole states: what was
 * gathered on rank 0, or what is to be given to a model that has made no step yet. Both are whole copies beside the
 * part, which go with the next step. So are the averages that are in the parameters' place, on all ranks.
 *
 * A weight of which programs read a low-precision copy alone has its own part on each rank, too (passes/step_shard.c):
 * a derived state, as its copy is. A step updates part and copy, and leaves the parameter itself behind, which then
 * takes no memory. It is gathered where all ranks can: when states are, for averages, before a step that reads it. */
#include "frontend/run/model.h"

#include "ir/support/optimizer.h"

static const char *const states[][2] = {
#define TCC_OPTIMIZER(id, name, lr, beta1, beta2, eps, reads, first, second, step) [TCC_##id] = {first, second},
#include "ir/support/optimizer.def"
};

static int ranks_of(const tcc_model *m) { return tcc_comm_size(m->options.comm); }
static int64_t part_bytes(const tcc_stored *p) { return tcc_type_bytes(&p->type); }

/* Whether `name` is state `suffix` of the parameter. */
static bool is_state_of(const char *name, const char *parameter, const char *suffix) {
    const size_t length = strlen(parameter);
    return suffix && !strncmp(name, parameter, length) && name[length] == '.' && !strcmp(name + length + 1, suffix);
}

const tcc_stored *tcc__shard_parameter(const tcc_model *m, const char *state) {
    const tcc_store *parameters = &m->shared->store;
    const char *own = tcc_own_of(state);
    const int index = own ? tcc_store_find(parameters, own) : -1;
    if (index >= 0) return &parameters->entries.data[index];
    for (int i = 0; i < parameters->entries.count && m->optimizer.kind != TCC_ADAFACTOR; i++) {
        const tcc_stored *of = &parameters->entries.data[i];
        if (of->role != TCC_ROLE_PARAM) continue;
        if (is_state_of(state, of->name, "ema")) return of;
        for (int k = 0; k < 2; k++)
            if (is_state_of(state, of->name, states[m->optimizer.kind][k])) return of;
    }
    return NULL;
}

void tcc__shard_mark(tcc_model *m, tcc_stored *p) {
    if (!m->options.comm || !m->options.shard_optimizer || p->shared_out) return;
    const tcc_stored *of = tcc__shard_parameter(m, p->name);
    if (!of) return;
    p->shared_out = true;
    p->whole = of->type;
    p->whole.dtype = p->type.dtype;
}

static tcc_status reserve(tcc_model *m, tcc_stored *p) {
    const size_t bytes = (size_t)ranks_of(m) * (size_t)part_bytes(p);
    if (!p->gathered && !(p->gathered = tcc__aligned(64, bytes))) return tcc_enomem(&m->cx->diag);
    memset(p->gathered, 0, bytes); /* states begin as zeros */
    return TCC_OK;
}

bool tcc__shard_array(tcc_model *m, tcc_stored *p, tcc_array *out) {
    if (!p->gathered && p->begun) {
        tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                  "state \"%s\" is shared out among ranks: call tcc_model_gather_states on all of them, and ask rank 0",
                  p->name);
        return false;
    }
    if (!p->gathered && reserve(m, p) != TCC_OK) return false;
    p->given = true;
    *out = (tcc_array){
        .name = p->shown ? p->shown : p->name, .dtype = p->whole.dtype, .rank = p->whole.rank, .data = p->gathered};
    memcpy(out->dims, p->whole.dims, sizeof out->dims);
    return true;
}

/* The rank's part of what the user may have written. */
static void take_part(const tcc_model *m, tcc_stored *p) {
    const int64_t bytes = part_bytes(p);
    if (p->gathered && p->given) {
        memcpy(p->data, (const char *)p->gathered + tcc_comm_rank(m->options.comm) * bytes, (size_t)bytes);
        p->host_newer = p->device != NULL;
        p->device_newer = false;
    }
    p->given = false;
}

/* -- Parameters -- */

void tcc__shard_leave(tcc_stored *whole) {
    if (!whole->behind) tcc__forget(whole->data, (size_t)tcc_type_bytes(&whole->type));
    whole->behind = true;
    whole->host_newer = whole->device_newer = false;
}

tcc_status tcc__shard_check(tcc_model *m, const tcc_stored *whole) {
    if (!whole->behind) return TCC_OK;
    return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                     "parameter \"%s\" is shared out among ranks: call tcc_model_gather_states on all of them before",
                     whole->name);
}

tcc_stored *tcc__copy_of(const tcc_model *m, const tcc_stored *whole, bool own) {
    const tcc_store *copies = &m->shared->copies;
    for (int i = copies->entries.count - 1; i >= 0; i--) {
        tcc_stored *p = &copies->entries.data[i];
        if (!tcc_own_of(p->name) == !own && !strcmp(p->copy_of, whole->name)) return p;
    }
    return NULL;
}

tcc_status tcc__shard_fetch(tcc_model *m, tcc_stored *whole) {
    if (!whole->behind) return TCC_OK;
    if (!m->options.comm) return tcc__shard_check(m, whole);
    tcc_stored *part = tcc__copy_of(m, whole, true);
    if (!part) return TCC_BUG(&m->cx->diag, "nobody has '%s'", whole->name);
    TCC_TRY(tcc__stored_host(m, part));
    char *all = tcc__aligned(64, (size_t)ranks_of(m) * (size_t)part_bytes(part));
    if (!all) return tcc_enomem(&m->cx->diag);
    const tcc_status status = tcc_comm_all_gather(m->options.comm, part->data, all, part_bytes(part));
    if (status == TCC_OK) {
        memcpy(whole->data, all, (size_t)tcc_type_bytes(&whole->type));
        whole->behind = whole->device_newer = false;
        whole->host_newer = whole->device != NULL;
    }
    tcc__free(all);
    return status;
}

/* -- Between steps -- */

tcc_status tcc__shards_begin(tcc_model *m, const tcc_compiled *c) {
    for (int i = 0; i < c->wholes.count; i++) {
        tcc_stored *whole = &m->shared->store.entries.data[c->wholes.data[i]];
        TCC_TRY(c->train ? tcc__shard_fetch(m, whole) : tcc__shard_check(m, whole));
    }
    for (int i = 0; i < m->moments.entries.count && c->train; i++) {
        tcc_stored *p = &m->moments.entries.data[i];
        if (!p->shared_out) continue;
        take_part(m, p);
        tcc__shard_release(p);
        p->begun = true;
    }
    return TCC_OK;
}

static tcc_status gather(tcc_model *m, tcc_stored *p) {
    take_part(m, p);
    TCC_TRY(reserve(m, p));
    TCC_TRY(tcc__stored_host(m, p));
    TCC_TRY(tcc_comm_all_gather(m->options.comm, p->data, p->gathered, part_bytes(p)));
    p->begun = true;
    return TCC_OK;
}

tcc_status tcc__shard_show(tcc_model *m, tcc_stored *p) {
    if (p->begun) return gather(m, p);
    return p->gathered ? TCC_OK : reserve(m, p); /* each rank has what a checkpoint says */
}

void tcc__shard_hide(const tcc_model *m, tcc_stored *p) {
    take_part(m, p);
    if (p->begun && tcc_comm_rank(m->options.comm)) tcc__shard_release(p);
}

tcc_status tcc_model_gather_states(tcc_model *m) {
    tcc_diag_begin(&m->cx->diag);
    for (int i = 0; i < m->shared->store.entries.count; i++)
        TCC_TRY(tcc__shard_fetch(m, &m->shared->store.entries.data[i]));
    for (int i = 0; i < m->moments.entries.count; i++) {
        tcc_stored *p = &m->moments.entries.data[i];
        if (!p->shared_out || p->shown_whole) continue;
        TCC_TRY(gather(m, p));
        tcc__shard_hide(m, p);
    }
    return TCC_OK;
}
