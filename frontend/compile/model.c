/* SPDX-License-Identifier: MIT
 * A model of a function: its options and its creation. */
#include "frontend/cache/cache.h"

#include "frontend/run/options.h"
#include "runtime/comm/comm.h"

#include <math.h>
#include <stdlib.h>

static tcc_status check_comm(tcc_context *cx, const tcc_model_options *o) {
    if (tcc_comm_context(o->comm) != cx)
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE, "comm: it is of another context");
    if (o->shard_optimizer && o->optimizer && o->optimizer->kind == TCC_ADAFACTOR)
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "shard_optimizer: adafactor takes means over rows and columns of whole parameters, of which a "
                         "rank would have a part; use it without, or another optimizer");
    return TCC_OK;
}

static tcc_status check_options(tcc_context *cx, const tcc_model_options *o) {
    const int least = offsetof(tcc_model_options, keep_gradients); /* of the first version */
    if (o->size && o->size < (size_t)least)
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "options: size %zu must be sizeof the struct, at least %d, or 0 for that of this version",
                         o->size, least);
    TCC_TRY(tcc__options_check(&cx->diag, TCC_OPTION_OF_MODEL, "", o));
    if ((o->lock || o->locked) && o->mode != TCC_MODE_MAX_AUTOTUNE)
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "lock and locked need the mode TCC_MODE_MAX_AUTOTUNE: no other mode makes choices");
    if (o->keep_input_gradients && (o->batch_accumulate > 1 || o->comm))
        return tcc_error(
            &cx->diag, TCC_EINVAL, TCC_NOWHERE,
            "keep_input_gradients: with batch_accumulate or comm no program has the whole batch, whose gradients "
            "they would be; give tcc_model_train smaller batches, or name tcc_gradients as outputs");
    return o->comm ? check_comm(cx, o) : TCC_OK;
}

/* After it, options.loss_scale is 0 where the loss is not scaled. */
static tcc_status read_loss_scale(tcc_model *m) {
    tcc_model_options *o = &m->options;
    const bool given = o->loss_scale != 0 || o->loss_scale_growth != 0 || o->loss_scale_backoff != 0 ||
                       o->loss_scale_interval != 0;
    if (o->mixed_precision != TCC_MIXED_FP16) {
        if (!given) return TCC_OK;
        return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "loss_scale: the loss is scaled only with mixed_precision TCC_MIXED_FP16");
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
    if (o->mixed_precision_ops && !o->mixed_precision)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "mixed_precision_ops \"%s\" without mixed_precision",
                         o->mixed_precision_ops);
    TCC_TRY(read_loss_scale(m));
    m->compiler->amp = (tcc_amp_spec){o->mixed_precision == TCC_MIXED_FP16 ? TCC_F16 : TCC_BF16,
                                      m->compiler->amp_classes};
    tcc_amp_table(m->compiler->amp_classes);
    return o->mixed_precision_ops ? tcc_amp_parse(diag, o->mixed_precision_ops, m->compiler->amp_classes) : TCC_OK;
}

static void forget(tcc_compiled *c) {
    tcc_graph_destroy(c->record->graph);
    tcc_vec_free(&c->record->passes.passes);
    tcc_remat_report_free(&c->record->remat);
    tcc__free(c->record);
}

static void destroy(tcc_model *m) {
    tcc_selector_destroy(m->compiler->selector);
    tcc__model_tune_end(m);
    tcc_cache_close(m->compiler->cache);
    tcc__free(m->compiler->cache_trouble);
    tcc__free(m->compiler->dump_dir);
    tcc__free(m->compiler->verified);
    tcc__free(m->compiler);
}

static const char *trouble(const tcc_model *m) { return m->compiler->cache_trouble; }

static const tcc_compiler_ops ops = {.make = tcc__model_make,
                                     .write = tcc__record_write,
                                     .report = tcc__record_report,
                                     .trouble = trouble,
                                     .code_store = tcc__cache_code_store,
                                     .describe = tcc__cache_describe,
                                     .find_overflow = tcc_model_find_overflow,
                                     .forget = forget,
                                     .destroy = destroy};

static tcc_status set_arch(tcc_model *m, const char *arch) {
    TCC_TRY(tcc_codegen_check_arch(&m->cx->diag, arch));
    snprintf(m->arch, sizeof m->arch, "%s", arch);
    return TCC_OK;
}

/* TCC_EINVAL where the model cannot be as its options say and share with that one. */
static tcc_status check_share(tcc_model *m, const tcc_model *with) {
    const tcc_model_options *o = &m->options;
    tcc_diag *diag = &m->cx->diag;
    if (with->cx != m->cx) return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "share: that model is of another context");
    if (o->seed && o->seed != with->options.seed)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                         "share: seed %llu must be that of the model whose parameters are shared, %llu, or 0",
                         (unsigned long long)o->seed, (unsigned long long)with->options.seed);
    if (o->arch && (with->device || strcmp(o->arch, with->arch) != 0))
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                         "share: arch \"%s\" must be that of the model whose parameters are shared, %s%s", o->arch,
                         with->device ? "which is on the device " : with->arch, with->device ? with->device_name : "");
    return TCC_OK;
}

/* What options.share, options.device and options.arch say. */
static tcc_status open_device(tcc_model *m, tcc_model *with) {
    int sm;
    if (with) return tcc__model_check_device(m, m->options.device);
    snprintf(m->device_name, sizeof m->device_name, "none");
    if (m->options.arch) return set_arch(m, m->options.arch);
    TCC_TRY(tcc__model_open_device(m, m->options.device, &sm));
    return sm ? set_arch(m, tcc_codegen_cuda_arch(sm)) : TCC_OK; /* a device is only found if there is one */
}

tcc_status tcc_model_create(tcc_context *cx, tcc_model_fn fn, void *user, const tcc_model_options *given,
                            tcc_model **out) {
    tcc_diag_begin(&cx->diag);
    TCC_OPTIONS(tcc_model_options, options, given);
    *out = NULL;
    if (!fn) return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE, "the model's function is NULL");
    tcc_optimizer_options optimizer;
    TCC_TRY(tcc__optimizer_read(&cx->diag, options.optimizer, &optimizer));
    TCC_TRY(check_options(cx, &options));
    if (options.comm && tcc_comm_size(options.comm) == 1) options.comm = NULL;
    tcc_model *m = tcc__calloc(1, sizeof *m);
    tcc_compiler *compiler = tcc__calloc(1, sizeof *compiler);
    if (!m || !compiler) {
        tcc__free(m);
        tcc__free(compiler);
        return tcc_enomem(&cx->diag);
    }
    m->cx = cx;
    m->ops = &ops;
    m->compiler = compiler;
    m->compiler->fn = fn;
    m->compiler->user = user;
    m->options = options;
    m->options.optimizer = NULL;
    m->options.share = NULL;
    m->optimizer = optimizer;
    const char *verify = getenv("TCC_VERIFY_PASSES");
    if (verify && !strcmp(verify, "1")) m->options.verify_passes = true;
    tcc__model_begin_rates(m);
    tcc_status status = options.share ? check_share(m, options.share) : TCC_OK;
    if (status == TCC_OK) status = tcc__model_share(m, options.share);
    if (status == TCC_OK && options.share) m->options.seed = options.share->options.seed;
    if (status == TCC_OK) m->shared->store.seed = m->options.seed;
    if (status == TCC_OK) status = tcc__model_name(m, options.name);
    m->options.name = m->name;
    if (status == TCC_OK) status = tcc__groups_keep(m);
    if (status == TCC_OK) status = read_precision(m);
    if (status == TCC_OK) status = tcc__model_read_budget(m);
    if (status == TCC_OK && options.dump_dir && !(m->compiler->dump_dir = tcc__strdup(options.dump_dir)))
        status = tcc_enomem(&cx->diag);
    if (status == TCC_OK) status = tcc__model_tune_begin(m);
    if (status == TCC_OK) status = open_device(m, options.share);
    if (status == TCC_OK) status = tcc__model_check_replay(m);
    if (status == TCC_OK && options.comm && tcc_comm_is_planned(options.comm) && !options.compile_only)
        status = tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE, "comm: its ranks are only planned: set compile_only");
    if (status == TCC_OK && options.comm && !options.compile_only && !m->device)
        status = tcc_error(&cx->diag, TCC_EUNSUPPORTED, TCC_NOWHERE,
                           "comm: with arch %s there is no device that could train: set compile_only", m->arch);
    if (status == TCC_OK && options.comm && tcc_comm_wants_cuda(options.comm) && m->device &&
        m->device->ops->shares_host)
        status = tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE,
                           "comm: a communicator \"nccl\" is for CUDA devices, and this model is on the %s",
                           m->device_name);
    if (status != TCC_OK) {
        tcc_model_destroy(m);
        return status;
    }
    *out = m;
    return TCC_OK;
}
