/* SPDX-License-Identifier: MIT
 * Life of a model: its options, its creation and its end, and the state between runs: the learning rate, the count of
 * steps, parameters and optimizer state. */
#include "compile.h"

#include "ir/support/element.h"

#include <math.h>
#include <stdlib.h>

static tcc_status check_options(tcc_context *cx, const tcc_model_options *o) {
    const tcc_optimizer_options *p = &o->optimizer;
    if (!(p->lr >= 0) || !(p->eps >= 0) || !(p->weight_decay >= 0) || !(p->clip_grad_norm >= 0))
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "optimizer: lr, eps, weight_decay and clip_grad_norm must be 0 or more");
    if (!(p->beta1 >= 0 && p->beta1 < 1 && p->beta2 >= 0 && p->beta2 < 1 && p->momentum >= 0))
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "optimizer: betas must be in [0, 1) and momentum 0 or more");
    if (p->nesterov && p->momentum == 0)
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE, "optimizer: nesterov needs a momentum above 0");
    if (o->chunk_rows < 0)
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE, "chunk_rows %lld must be at least 1, or 0 for what pays",
                         (long long)o->chunk_rows);
    return TCC_OK;
}

/* After it, options.loss_scale is 0 where the loss is not scaled. */
static tcc_status read_loss_scale(tcc_model *m) {
    tcc_model_options *o = &m->options;
    const bool given = o->loss_scale != 0 || o->loss_scale_growth != 0 || o->loss_scale_backoff != 0 ||
                       o->loss_scale_interval != 0;
    if (o->mixed_precision != TCC_MIXED_FP16) {
        if (!given) return TCC_OK;
        return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "loss_scale: the loss is scaled with mixed_precision TCC_MIXED_FP16 alone");
    }
    if (o->loss_scale == 0) o->loss_scale = 65536;
    if (o->loss_scale_growth == 0) o->loss_scale_growth = 2;
    if (o->loss_scale_backoff == 0) o->loss_scale_backoff = 0.5;
    if (o->loss_scale_interval == 0) o->loss_scale_interval = 2000;
    o->loss_scale = (float)o->loss_scale;
    if (o->loss_scale > 0 && isfinite(o->loss_scale) && o->loss_scale_growth >= 1 && isfinite(o->loss_scale_growth) &&
        o->loss_scale_backoff > 0 && o->loss_scale_backoff < 1 && o->loss_scale_interval > 0 &&
        o->loss_scale_interval <= 1 << 24)
        return TCC_OK;
    return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                     "loss_scale %g must be above 0, loss_scale_growth %g at least 1, loss_scale_backoff %g between 0 "
                     "and 1, and loss_scale_interval %lld in 1 .. 2^24",
                     o->loss_scale, o->loss_scale_growth, o->loss_scale_backoff, (long long)o->loss_scale_interval);
}

static tcc_status read_precision(tcc_model *m) {
    const tcc_model_options *o = &m->options;
    tcc_diag *diag = &m->cx->diag;
    if ((unsigned)o->mixed_precision > TCC_MIXED_FP16)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "mixed_precision: %d is none of TCC_MIXED_NONE, _BF16, _FP16",
                         (int)o->mixed_precision);
    if (o->mixed_precision_ops && !o->mixed_precision)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "mixed_precision_ops \"%s\" without mixed_precision",
                         o->mixed_precision_ops);
    TCC_TRY(read_loss_scale(m));
    m->amp = (tcc_amp_spec){o->mixed_precision == TCC_MIXED_FP16 ? TCC_F16 : TCC_BF16, m->amp_classes};
    tcc_amp_table(m->amp_classes);
    return o->mixed_precision_ops ? tcc_amp_parse(diag, o->mixed_precision_ops, m->amp_classes) : TCC_OK;
}

static void set_defaults(tcc_optimizer_options *o) {
    if (o->lr == 0) o->lr = o->kind == TCC_SGD ? 0.1 : 1e-3;
    if (o->beta1 == 0) o->beta1 = 0.9;
    if (o->beta2 == 0) o->beta2 = 0.999;
    if (o->eps == 0) o->eps = 1e-8;
}

tcc_status tcc_model_create(tcc_context *cx, tcc_model_fn fn, void *user, const tcc_model_options *given,
                            tcc_model **out) {
    tcc_diag_begin(&cx->diag);
    TCC_OPTIONS(tcc_model_options, options, given);
    *out = NULL;
    TCC_TRY(check_options(cx, &options));
    set_defaults(&options.optimizer);
    tcc_model *m = tcc__calloc(1, sizeof *m);
    if (!m) return tcc_enomem(&cx->diag);
    m->cx = cx;
    m->fn = fn;
    m->user = user;
    m->options = options;
    const char *verify = getenv("TCC_VERIFY_PASSES");
    if (verify && !strcmp(verify, "1")) m->options.verify_passes = true;
    m->lr = options.optimizer.lr;
    m->store.seed = options.seed;
    tcc_status status = read_precision(m);
    if (status == TCC_OK) status = tcc__model_read_budget(m);
    if (status == TCC_OK && options.dump_dir && !(m->dump_dir = tcc__strdup(options.dump_dir)))
        status = tcc_enomem(&cx->diag);
    if (status == TCC_OK) status = tcc__model_open_device(m);
    if (status != TCC_OK) {
        tcc_model_destroy(m);
        return status;
    }
    *out = m;
    return TCC_OK;
}

void tcc_model_destroy(tcc_model *m) {
    if (!m) return;
    for (int i = 0; i < m->programs.count; i++) tcc__compiled_destroy(m, m->programs.data[i]);
    tcc_vec_free(&m->programs);
    tcc__store_release(m, &m->store);
    tcc__store_release(m, &m->moments);
    tcc_store_free(&m->store);
    tcc_store_free(&m->moments);
    tcc_selector_destroy(m->selector);
    tcc_device_destroy(m->device);
    tcc__free(m->dump_dir);
    tcc__free(m->verified);
    tcc__free(m);
}

/* -- State between runs -- */

void tcc_model_set_lr(tcc_model *m, double lr) { m->lr = lr; }
int64_t tcc_model_step(const tcc_model *m) { return m->step; }
void tcc_model_set_step(tcc_model *m, int64_t step) { m->step = step; }

tcc_status tcc_model_loss_scale(tcc_model *m, double *scale, int64_t *skipped) {
    tcc_diag_begin(&m->cx->diag);
    const int a = tcc_store_find(&m->moments, TCC_SCALE_STATE), b = tcc_store_find(&m->moments, TCC_SKIPPED_STATE);
    if (a < 0 || b < 0)
        return tcc_error(&m->cx->diag, TCC_ENOTFOUND, TCC_NOWHERE,
                         m->options.mixed_precision == TCC_MIXED_FP16
                             ? "the loss has no scale yet: train or compile first"
                             : "the loss is not scaled: that is done with mixed_precision TCC_MIXED_FP16");
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
    if (tcc__stored_host(m, p) != TCC_OK) return false;
    p->host_newer = p->device != NULL; /* it may be written now */
    tcc__state_source_written(m, p);
    *out = (tcc_array){.name = p->name, .dtype = p->type.dtype, .rank = p->type.rank, .data = p->data};
    memcpy(out->dims, p->type.dims, sizeof out->dims);
    return true;
}

bool tcc_model_param(tcc_model *m, int index, tcc_array *out) { return stored_array(m, &m->store, index, out); }

/* Derived states are not counted: they are copies of others. */
bool tcc_model_optimizer_state(tcc_model *m, int index, tcc_array *out) {
    for (int i = 0; i < m->moments.entries.count; i++)
        if (!m->moments.entries.data[i].copy_of && !index--) return stored_array(m, &m->moments, i, out);
    return false;
}

bool tcc_model_find_param(tcc_model *m, const char *name, tcc_array *out) {
    return stored_array(m, &m->store, tcc_store_find(&m->store, name), out);
}

/* The entry that a caller's array means, its host's side up to date, where the two can be converted. */
static tcc_status stored_like(tcc_model *m, const tcc_array *a, tcc_stored **out) {
    tcc_diag *diag = &m->cx->diag;
    tcc_diag_begin(diag);
    if (!a->name || !a->data || a->rank < 0 || a->rank > TCC_MAX_RANK || (unsigned)a->dtype >= TCC_DTYPE_COUNT)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "an array without name or data, or of no type");
    const int index = tcc_store_find(&m->store, a->name);
    if (index < 0)
        return tcc_error(diag, TCC_ENOTFOUND, TCC_NOWHERE,
                         m->store.filled ? "there is no parameter or buffer \"%s\""
                                         : "\"%s\": parameters are there after the first run or compile",
                         a->name);
    tcc_stored *p = &m->store.entries.data[index];
    tcc_type given = {.dtype = a->dtype, .rank = a->rank};
    memcpy(given.dims, a->dims, sizeof given.dims[0] * (size_t)a->rank);
    tcc_type same = given;
    same.dtype = p->type.dtype;
    if (!tcc_type_equal(&p->type, &same))
        return tcc_error(diag, TCC_ESHAPE, TCC_NOWHERE, "\"%s\" is %s, the array %s", p->name, tcc_type_text(&p->type),
                         tcc_type_text(&given));
    if (p->type.dtype != given.dtype && !(tcc_dtype_is_float(p->type.dtype) && tcc_dtype_is_float(given.dtype)))
        return tcc_error(diag, TCC_EDTYPE, TCC_NOWHERE,
                         "\"%s\" is %s, the array %s: only floats are converted; use an array of %s", p->name,
                         tcc_type_text(&p->type), tcc_type_text(&given), tcc_dtype_text(p->type.dtype));
    *out = p;
    return tcc__stored_host(m, p);
}

tcc_status tcc_model_get_param(tcc_model *m, const tcc_array *to) {
    tcc_stored *p = NULL;
    TCC_TRY(stored_like(m, to, &p));
    tcc_elements_cast(to->dtype, to->data, p->type.dtype, p->data, tcc_type_numel(&p->type));
    return TCC_OK;
}

tcc_status tcc_model_set_param(tcc_model *m, const tcc_array *from) {
    tcc_stored *p = NULL;
    TCC_TRY(stored_like(m, from, &p));
    tcc_elements_cast(p->type.dtype, p->data, from->dtype, from->data, tcc_type_numel(&p->type));
    p->host_newer = p->device != NULL;
    tcc__state_source_written(m, p);
    return TCC_OK;
}

bool tcc_model_param_is_trained(const tcc_model *m, int index) {
    return index >= 0 && index < m->store.entries.count && m->store.entries.data[index].role == TCC_ROLE_PARAM;
}
