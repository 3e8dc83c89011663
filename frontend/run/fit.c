/* SPDX-License-Identifier: MIT
 * Whether a program fits the device's memory: asked before anything large is allocated. */
#include "frontend/run/model.h"
#include "runtime/cuda/collectives.h"
#include "runtime/program.h"

/* Whether the program needs no memory for an entry that it names. */
static bool is_idle(const tcc_program *p, const char *name) {
    for (int i = 0; i < p->n_bindings; i++)
        if (p->bindings[i].idle && !strcmp(p->bindings[i].name, name)) return true;
    return false;
}

/* What has no memory yet: the program's arena, the store's entries, and state that no earlier program has brought. */
static double missing_bytes(const tcc_model *m, const tcc_program *p) {
    const tcc_store *store = &m->shared->store;
    const int64_t before = m->shared->arena_bytes;
    double bytes = p->arena_bytes > before ? (double)(p->arena_bytes - before) : 0; /* it grows */
    bytes += (double)tcc__cuda_program_receives(p);
    for (int i = 0; i < store->entries.count; i++) {
        const tcc_stored *stored = &store->entries.data[i];
        if (!tcc__stored_has_memory(m, stored) && !is_idle(p, stored->name))
            bytes += (double)tcc_type_bytes(&stored->type);
    }
    for (int i = 0; i < p->n_bindings; i++) {
        const tcc_binding *b = &p->bindings[i];
        if (!tcc__model_stored(m, b->name)) bytes += (double)tcc_type_bytes(&b->type);
    }
    return bytes;
}

tcc_status tcc__model_fit(tcc_model *m, const tcc_program *p) {
    tcc_diag *diag = &m->cx->diag;
    int64_t free_bytes = m->device->ops->free_bytes(m->device);
    double needed = missing_bytes(m, p);
    if (!free_bytes || needed <= (double)free_bytes) return TCC_OK;
    tcc_strbuf text = {0};
    tcc_strbuf_bytes(&text, needed);
    tcc_strbuf_add(&text, " more are needed, as the values of one step take ");
    tcc_strbuf_bytes(&text, (double)p->arena_bytes);
    tcc_strbuf_add(&text, "; ");
    tcc_strbuf_bytes(&text, (double)free_bytes);
    tcc_strbuf_printf(&text, " are free on %s", m->device_name);
    tcc_status status = text.text ? tcc_error(diag, TCC_ENOMEM, TCC_NOWHERE, "the program does not fit: %s", text.text)
                                  : tcc_enomem(diag);
    tcc_program_note_largest(diag, p);
    tcc_strbuf_free(&text);
    return status;
}
