/* SPDX-License-Identifier: MIT
 * A model's end, and its state between runs: the learning rate, the count of steps, parameters and optimizer state. */
#include "frontend/run/model.h"
#include "frontend/run/options.h"

#include "ir/support/element.h"
#include "ir/support/train_step.h"

void tcc__model_begin_rates(tcc_model *m) {
    const tcc_optimizer_options *o = &m->optimizer;
    m->lr = o->lr;
    m->momentum = tcc__optimizer_reads(o->kind, TCC_READS_MOMENTUM) ? o->momentum : o->beta1;
}

void tcc_model_destroy(tcc_model *m) {
    if (!m) return;
    tcc__ranks_leave(m);
    if (m->shared) tcc__ema_end(m);
    for (int i = 0; i < m->programs.count; i++) tcc__compiled_destroy(m, m->programs.data[i]);
    tcc_vec_free(&m->programs);
    tcc_vec_free(&m->slice);
    tcc__placed_free(m);
    tcc__free(m->bucket);
    tcc_vec_free(&m->ranks_served);
    tcc__timeline_free(&m->timeline);
    tcc__store_release(m, &m->moments);
    if (m->shared) tcc__model_unshare(m);
    tcc_store_free(&m->moments);
    tcc_vec_free(&m->uses);
    if (m->compiler) m->ops->destroy(m);
    tcc__free(m);
}

/* -- State between runs -- */

tcc_status tcc_model_set_lr(tcc_model *m, double lr) {
    tcc_diag_begin(&m->cx->diag);
    if (!(lr >= 0 && lr <= TCC_LARGEST_LR))
        return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "learning rate %g must be from 0 to %g", lr,
                         TCC_LARGEST_LR);
    m->lr = lr;
    return TCC_OK;
}

tcc_status tcc_model_set_momentum(tcc_model *m, double momentum) {
    const tcc_optimizer_options *o = &m->optimizer;
    tcc_diag_begin(&m->cx->diag);
    if (!(momentum >= 0 && momentum < 1))
        return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "momentum %g must be at least 0 and less than 1",
                         momentum);
    if (tcc__optimizer_reads(o->kind, TCC_READS_MOMENTUM) && o->momentum == 0 && momentum > 0)
        return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "momentum %g: the model was created with momentum 0, so the optimizer has no momentum state",
                         momentum);
    m->momentum = momentum;
    m->sets_momentum = true;
    return TCC_OK;
}
int64_t tcc_model_step(const tcc_model *m) { return m->step; }
void tcc_model_set_step(tcc_model *m, int64_t step) { m->step = step; }

tcc_status tcc_model_loss_scale(tcc_model *m, double *scale, int64_t *skipped) {
    tcc_diag_begin(&m->cx->diag);
    const int a = tcc_store_find(&m->moments, TCC_SCALE_STATE), b = tcc_store_find(&m->moments, TCC_SKIPPED_STATE);
    if (a < 0 || b < 0)
        return tcc_error(&m->cx->diag, TCC_ENOTFOUND, TCC_NOWHERE,
                         m->options.mixed_precision == TCC_MIXED_FP16
                             ? "the loss has no scale yet: train or compile first"
                             : "the loss is not scaled: scaling needs mixed_precision TCC_MIXED_FP16");
    TCC_TRY(tcc__stored_host(m, &m->moments.entries.data[a]));
    TCC_TRY(tcc__stored_host(m, &m->moments.entries.data[b]));
    *scale = *(const float *)m->moments.entries.data[a].data;
    *skipped = *(const int64_t *)m->moments.entries.data[b].data;
    return TCC_OK;
}

static bool stored_array(tcc_model *m, tcc_store *s, int index, tcc_array *out) {
    tcc_diag_begin(&m->cx->diag);
    if (index < 0 || index >= s->entries.count) return false;
    tcc_stored *p = &s->entries.data[index];
    if (p->shared_out) return tcc__shard_array(m, p, out);
    if (tcc__shard_check(m, p) != TCC_OK || tcc__stored_host(m, p) != TCC_OK) return false;
    p->host_newer = p->device != NULL; /* it may be written now */
    tcc__state_source_written(m, p);
    *out = (tcc_array){
        .name = p->shown ? p->shown : p->name, .dtype = p->type.dtype, .rank = p->type.rank, .data = p->data};
    memcpy(out->dims, p->type.dims, sizeof out->dims);
    return true;
}

bool tcc_model_param(tcc_model *m, int index, tcc_array *out) { return stored_array(m, &m->shared->store, index, out); }

/* Derived states are copies of others and not among them. Sums over micro-batches are not counted: no step is under
 * way. */
bool tcc_model_optimizer_state(tcc_model *m, int index, tcc_array *out) {
    for (int i = 0; i < m->moments.entries.count; i++) {
        const tcc_stored *p = &m->moments.entries.data[i];
        if (!tcc__is_sum(p->name) && !index--) return stored_array(m, &m->moments, i, out);
    }
    return false;
}

bool tcc_model_find_param(tcc_model *m, const char *name, tcc_array *out) {
    return name && stored_array(m, &m->shared->store, tcc_store_find(&m->shared->store, name), out);
}

/* The entry that a caller's array means, where the two can be converted. */
static tcc_status stored_like(tcc_model *m, const tcc_array *a, tcc_stored **out) {
    tcc_diag *diag = &m->cx->diag;
    tcc_diag_begin(diag);
    if (!a->name || !a->data || a->rank < 0 || a->rank > TCC_MAX_RANK || (unsigned)a->dtype >= TCC_DTYPE_COUNT)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "an array without name or data, or of no type");
    const int index = tcc_store_find(&m->shared->store, a->name);
    if (index < 0)
        return tcc_error(diag, TCC_ENOTFOUND, TCC_NOWHERE,
                         m->shared->store.filled ? "there is no parameter or buffer \"%s\""
                                                 : "\"%s\": parameters are there after the first run or compile",
                         a->name);
    tcc_stored *p = &m->shared->store.entries.data[index];
    if (!p->data) return tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "\"%s\" has no value: compile_only", p->name);
    tcc_type given = {.dtype = a->dtype, .rank = a->rank};
    memcpy(given.dims, a->dims, sizeof given.dims[0] * (size_t)a->rank);
    tcc_type same = given;
    same.dtype = p->type.dtype;
    if (!tcc_type_equal(&p->type, &same))
        return tcc_error(diag, TCC_ESHAPE, TCC_NOWHERE, "\"%s\" is %s, the array %s", p->name, tcc_type_text(&p->type),
                         tcc_type_text(&given));
    if (p->type.dtype != given.dtype && a->memory == TCC_MEMORY_DEVICE)
        return tcc_error(diag, TCC_EDTYPE, TCC_NOWHERE,
                         "\"%s\" is %s, the array %s: nothing is converted on the device; use an array of %s, or one "
                         "on the host",
                         p->name, tcc_type_text(&p->type), tcc_type_text(&given), tcc_dtype_text(p->type.dtype));
    if (p->type.dtype != given.dtype && !(tcc_dtype_is_float(p->type.dtype) && tcc_dtype_is_float(given.dtype)))
        return tcc_error(diag, TCC_EDTYPE, TCC_NOWHERE,
                         "\"%s\" is %s, the array %s: only floats are converted; use an array of %s", p->name,
                         tcc_type_text(&p->type), tcc_type_text(&given), tcc_dtype_text(p->type.dtype));
    *out = p;
    return tcc__array_check(m, "array", a);
}

/* Between the parameter's memory on the device and an array there, in order with the array's stream. */
static tcc_status copy_on_device(tcc_model *m, tcc_stored *p, const tcc_array *a, bool to_param) {
    tcc_diag *diag = &m->cx->diag;
    const int64_t bytes = tcc_type_bytes(&p->type);
    void *memory;
    TCC_TRY(tcc__model_need_device(m));
    TCC_TRY(tcc__stored_device(m, p, &memory));
    const tcc_device_ops *ops = m->device->ops;
    if (p->host_newer && !to_param) {
        TCC_TRY(ops->upload(m->device, diag, memory, p->data, bytes));
        p->host_newer = false;
    }
    TCC_TRY(ops->follow(m->device, diag, a->stream));
    TCC_TRY(ops->copy(m->device, diag, to_param ? memory : a->data, to_param ? a->data : memory, bytes));
    if (to_param) p->host_newer = false, p->device_newer = true;
    return ops->lead(m->device, diag, a->stream);
}

tcc_status tcc_model_get_param(tcc_model *m, const tcc_array *to) {
    tcc_stored *p = NULL;
    TCC_TRY(stored_like(m, to, &p));
    TCC_TRY(tcc__shard_check(m, p));
    if (to->memory == TCC_MEMORY_DEVICE) return copy_on_device(m, p, to, false);
    TCC_TRY(tcc__stored_host(m, p));
    tcc_elements_cast(to->dtype, to->data, p->type.dtype, p->data, tcc_type_numel(&p->type));
    return TCC_OK;
}

tcc_status tcc_model_set_param(tcc_model *m, const tcc_array *from) {
    tcc_stored *p = NULL;
    TCC_TRY(stored_like(m, from, &p));
    tcc__state_source_written(m, p);
    if (from->memory == TCC_MEMORY_DEVICE) TCC_TRY(copy_on_device(m, p, from, true));
    else {
        TCC_TRY(tcc__stored_host(m, p));
        tcc_elements_cast(p->type.dtype, p->data, from->dtype, from->data, tcc_type_numel(&p->type));
        p->host_newer = p->device != NULL;
    }
    p->behind = false; /* all of it was written */
    return TCC_OK;
}

bool tcc_model_param_is_trained(const tcc_model *m, int index) {
    return index >= 0 && index < m->shared->store.entries.count &&
           m->shared->store.entries.data[index].role == TCC_ROLE_PARAM;
}
