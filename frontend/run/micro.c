/* SPDX-License-Identifier: MIT
 * Steps whose batch is taken in micro-batches (options.batch_accumulate, options.comm). One program, run for each of
 * them, adds gradients up in states of the model, and another, which reads no batch, makes the update. A loss that
 * needs something of the whole batch, as the count of its targets, has a third, run for each of them beforehand, that
 * adds it up. So a step is a run of programs one behind the other on the device: nothing waits for the host, each
 * replays as a graph of its own, and all run in the one arena of the model. A rest of the batch that is smaller has
 * programs of its own shape, and the same update. Ranks that take one micro-batch each have one program for the whole
 * step. */
#include "frontend/run/model.h"

#include <stdlib.h>

bool tcc__is_sum(const char *name) {
    return tcc_begins(name, TCC_SUM_PREFIX) || tcc_begins(name, TCC_NEXT_PREFIX) ||
           tcc_begins(name, TCC_TOTAL_PREFIX) || !strcmp(name, TCC_LOSS_SUM_STATE) ||
           !strcmp(name, TCC_WEIGHT_SUM_STATE) || !strcmp(name, TCC_COUNTS_STATE);
}

static bool is_for_update(const char *name) { return tcc__is_sum(name) && !tcc_begins(name, TCC_TOTAL_PREFIX); }

int tcc__micro_levels(const tcc_program *p) {
    int levels = 0;
    for (int i = 0; i < p->n_bindings; i++) {
        const char *name = p->bindings[i].name;
        const int level = tcc_begins(name, TCC_TOTAL_PREFIX) ? atoi(name + sizeof TCC_TOTAL_PREFIX - 1) : 0;
        if (level > levels && level <= TCC_TOTAL_LEVELS) levels = level; /* in a plan's file may stand anything */
    }
    return levels;
}

static const tcc_binding *find(const tcc_program *p, const char *name) {
    for (int i = 0; i < p->n_bindings; i++)
        if (!strcmp(p->bindings[i].name, name)) return &p->bindings[i];
    return NULL;
}

bool tcc__micro_is_update_of(const tcc_program *update, const tcc_program *micro) {
    for (int i = 0; i < micro->n_bindings; i++) {
        const tcc_binding *b = &micro->bindings[i], *other = find(update, b->name);
        if (is_for_update(b->name) && (!other || !tcc_type_equal(&other->type, &b->type))) return false;
        if (!b->copy_of || (other && other->written)) continue;
        const tcc_binding *weight = find(update, b->copy_of); /* that is not trained stays as its copy */
        if (weight && weight->written) return false;
    }
    for (int i = 0; i < update->n_bindings; i++) {
        const char *name = update->bindings[i].name, *whole = tcc_own_of(name);
        const tcc_binding *read = whole ? find(micro, whole) : NULL; /* but the update leaves only its copy */
        if ((is_for_update(name) && !find(micro, name)) || (read && !read->idle)) return false;
    }
    return true;
}

tcc_status tcc__micro_check(tcc_model *m, const tcc_array *batch, int count) {
    tcc_diag *diag = &m->cx->diag;
    if (!count)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "batch_accumulate: a batch without arrays cannot be cut");
    for (int i = 0; i < count; i++) {
        const tcc_type type = tcc__array_type(&batch[i]), first = tcc__array_type(&batch[0]);
        if (type.rank && type.dims[0] == 0)
            return tcc_error(diag, TCC_ESHAPE, TCC_NOWHERE, "batch array \"%s\" is %s: it has no sample", batch[i].name,
                             tcc_type_text(&type));
        if (type.rank && type.dims[0] > 0 && first.rank && type.dims[0] == first.dims[0]) continue;
        tcc_error(
            diag, TCC_ESHAPE, TCC_NOWHERE,
            "batch_accumulate cuts all arrays of a batch along their first extent, which must be the same: \"%s\" "
            "is %s, \"%s\" is %s",
            batch[0].name, tcc_type_text(&first), batch[i].name, tcc_type_text(&type));
        return TCC_ESHAPE;
    }
    for (int i = m->slice.count; i < count; i++) /* kept, as nothing is allocated once training runs */
        if (!tcc_vec_push(&m->slice, batch[i])) return tcc_enomem(diag);
    return TCC_OK;
}

int64_t tcc__micro_samples(const tcc_model *m, const tcc_array *batch) {
    return (batch[0].dims[0] + tcc__micro_parts(m) - 1) / tcc__micro_parts(m);
}

const tcc_array *tcc__micro_cut(tcc_model *m, const tcc_array *batch, int count, int64_t begin) {
    const int64_t samples = tcc__micro_samples(m, batch);
    for (int i = 0; i < count; i++) {
        tcc_array *slice = &m->slice.data[i];
        const tcc_type type = tcc__array_type(&batch[i]);
        const int64_t left = type.dims[0] - begin, bytes = tcc_type_bytes(&type) / type.dims[0];
        *slice = batch[i];
        slice->dims[0] = left < samples ? left : samples;
        slice->data = (char *)batch[i].data + begin * bytes;
    }
    m->micro = begin / samples;
    m->micro_whole = m->options.comm ? m->ranks_whole : batch[0].dims[0];
    return m->slice.data;
}

void tcc__micro_feed(const tcc_model *m, float *micro, int64_t *rng) {
    const int ranks = m->options.comm ? tcc_comm_size(m->options.comm) : 1;
    const int rank = m->options.comm ? tcc_comm_rank(m->options.comm) : 0;
    micro[TCC_MICRO_FIRST] = m->micro == 0;
    micro[TCC_MICRO_LEVEL] = (float)m->micro_level;
    micro[TCC_MICRO_LEADS] = m->micro == 0 && rank == 0;
    micro[TCC_MICRO_RANK] = (float)rank;
    rng[1] = (m->step * ranks + rank) * tcc__micro_parts(m) + m->micro;
}
