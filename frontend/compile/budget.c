/* SPDX-License-Identifier: MIT
 * A model's memory options: recomputation, and the budget of a step. */
#include "frontend/compile/compile.h"

#include "passes/remat/budget.h"

tcc_status tcc__model_read_budget(tcc_model *m) {
    tcc_diag *diag = &m->cx->diag;
    const char *text = m->options.memory_budget;
    const tcc_checkpointing checkpointing = m->options.checkpointing;
    m->compiler->remat = (tcc_remat_spec){.segments = checkpointing == TCC_CHECKPOINTING_SEGMENTS};
    if (text && !tcc_budget_parse(text, &m->compiler->remat, &m->compiler->budget_of_device))
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "memory_budget \"%s\": must be %s", text, tcc_budget_forms);
    if (checkpointing == TCC_CHECKPOINTING_NONE && m->compiler->budget_of_device)
        m->compiler->remat.budget = TCC_BUDGET_NONE; /* the device's memory is the limit in any case */
    if (checkpointing == TCC_CHECKPOINTING_NONE && m->compiler->remat.budget != TCC_BUDGET_NONE)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                         "memory_budget \"%s\" with TCC_CHECKPOINTING_NONE: then nothing may be computed again to meet "
                         "it; leave checkpointing at TCC_CHECKPOINTING_AUTO, or give no budget",
                         text);
    if (m->compiler->budget_of_device && m->options.arch)
        return tcc_error(
            diag, TCC_EINVAL, TCC_NOWHERE,
            "memory_budget \"%s\" asks for the free memory of the device, and with `arch` there is no device; give "
            "its memory, as in \"80GiB\"",
            text);
    return TCC_OK;
}

/* What the device has free and what the model's arena, parameters and states have taken of it already: all that a step
 * may take. 0: unknown. */
static int64_t device_bytes(const tcc_model *m) {
    int64_t bytes = m->device->ops->free_bytes(m->device);
    const tcc_store *const stores[] = {&m->shared->store, &m->shared->copies, &m->moments};
    if (bytes) bytes += m->shared->arena_bytes;
    for (int s = 0; s < 3 && bytes; s++)
        for (int i = 0; i < stores[s]->entries.count; i++) {
            const tcc_stored *p = &stores[s]->entries.data[i];
            if (tcc__stored_has_memory(m, p)) bytes += tcc_type_bytes(&p->type);
        }
    return bytes;
}

const tcc_remat_spec *tcc__model_remat(tcc_model *m, bool train) {
    const bool asked = m->compiler->remat.segments || m->compiler->remat.budget != TCC_BUDGET_NONE;
    const bool keeps = m->options.checkpointing == TCC_CHECKPOINTING_NONE || m->options.mode == TCC_MODE_EAGER;
    if (!train || (!asked && keeps)) return NULL;
    if (m->compiler->budget_of_device && !m->compiler->remat.bytes &&
        m->compiler->remat.budget ==
            TCC_BUDGET_BYTES) { /* once, so that all programs of the model have the same budget */
        m->compiler->remat.bytes = device_bytes(m);
        if (!m->compiler->remat.bytes) m->compiler->remat.budget = TCC_BUDGET_NONE;
    }
    return &m->compiler->remat;
}

bool tcc_is_memory_budget(const char *text) {
    tcc_remat_spec spec;
    bool of_device;
    return text && tcc_budget_parse(text, &spec, &of_device);
}
