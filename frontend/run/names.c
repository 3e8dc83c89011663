/* SPDX-License-Identifier: MIT
 * What a model's programs mean by a name. The store may have entries of models that share it, which are none of this
 * one's: a state that a pass adds for one model may be called as a parameter of another. */
#include "frontend/run/model.h"

tcc_status tcc__model_use(tcc_model *m, int index) {
    while (m->uses.count <= index)
        if (!tcc_vec_push(&m->uses, false)) return tcc_enomem(&m->cx->diag);
    m->uses.data[index] = true;
    return TCC_OK;
}

bool tcc__model_uses(const tcc_model *m, int index) {
    return index >= 0 && index < m->uses.count && m->uses.data[index];
}

tcc_stored *tcc__model_stored(const tcc_model *m, const char *name) {
    tcc_shared *shared = m->shared;
    int index = tcc_store_find(&shared->store, name);
    if (tcc__model_uses(m, index)) return &shared->store.entries.data[index];
    index = tcc_store_find(&shared->copies, name);
    if (index >= 0) return &shared->copies.entries.data[index];
    index = tcc_store_find(&m->moments, name);
    return index >= 0 ? &m->moments.entries.data[index] : NULL;
}
