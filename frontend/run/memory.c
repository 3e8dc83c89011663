/* SPDX-License-Identifier: MIT
 * A model's memory on its device. Parameters, buffers and optimizer state have a host side, which the user reads and
 * writes between runs, and a device side, which programs read and write; on the CPU the two are one. Each entry
 * remembers which side has what the other lacks, and is copied when that is asked for. */
#include "frontend/run/model.h"

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
    for (int i = 0; i < s->entries.count; i++) s->entries.data[i].device_newer |= s->entries.data[i].device != NULL;
}

void tcc__store_release(tcc_model *m, tcc_store *s) {
    for (int i = 0; i < s->entries.count; i++) {
        tcc_stored *p = &s->entries.data[i];
        if (p->device) m->device->ops->free(m->device, p->device, tcc_type_bytes(&p->type));
        p->device = NULL;
    }
}
