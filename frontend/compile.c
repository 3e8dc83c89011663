/* SPDX-License-Identifier: MIT
 * The composition root: from a model's function to a running program. Traces, runs the passes, generates code, loads
 * it, and keeps one program for each input signature. */
#include "compile.h"

#include "codegen/build.h"
#include "runtime/cpus.h"
#include "runtime/wanted.h"
#include "runtime/cpu/device.h"
#include "runtime/cpu/library.h"
#include "runtime/program.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* -- Life of a model -- */

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
    return TCC_OK;
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
    tcc_status status = TCC_OK;
    if (options.dump_dir && !(m->dump_dir = tcc__strdup(options.dump_dir))) status = tcc_enomem(&cx->diag);
    if (status == TCC_OK) status = tcc__model_open_device(m);
    if (status != TCC_OK) {
        tcc_model_destroy(m);
        return status;
    }
    *out = m;
    return TCC_OK;
}

static void bound_clear(tcc_model *m, tcc_bound *b) {
    if (b->host != b->device) tcc__free(b->host);
    if (b->device) m->device->ops->free(m->device, b->device, b->bytes);
}

static void compiled_destroy(tcc_model *m, tcc_compiled *c) {
    if (!c) return;
    tcc_exec_destroy(c->exec);
    for (int i = 0; c->bound && i < c->program->n_bindings; i++) bound_clear(m, &c->bound[i]);
    tcc__free(c->bound);
    tcc__free(c->hyper_values);
    tcc_program_destroy(c->program);
    tcc_graph_destroy(c->graph);
    tcc_vec_free(&c->passes.passes);
    tcc_arena_free(&c->arena);
    tcc__free(c);
}

void tcc_model_destroy(tcc_model *m) {
    if (!m) return;
    for (int i = 0; i < m->programs.count; i++) compiled_destroy(m, m->programs.data[i]);
    tcc_vec_free(&m->programs);
    tcc__store_release(m, &m->store);
    tcc__store_release(m, &m->moments);
    tcc_store_free(&m->store);
    tcc_store_free(&m->moments);
    tcc_selector_destroy(m->selector);
    tcc_device_destroy(m->device);
    tcc__free(m->dump_dir);
    tcc__free(m);
}

/* -- Signatures -- */

static bool same_array(const tcc_array *a, const tcc_array *b) {
    return a->dtype == b->dtype && a->rank == b->rank && !strcmp(a->name, b->name) &&
           !memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->rank);
}

static bool signature_matches(const tcc_compiled *c, bool train, const tcc_array *batch, int count) {
    if (c->train != train || c->n_inputs != count) return false;
    for (int i = 0; i < count; i++)
        if (!same_array(&c->inputs[i], &batch[i])) return false;
    return true;
}

static tcc_type array_type(const tcc_array *a) {
    tcc_type type = {.dtype = a->dtype, .rank = a->rank};
    for (int d = 0; d < a->rank; d++) type.dims[d] = a->dims[d];
    return type;
}

/* Says which program is compiled, and what differs from the nearest one that exists. */
static void log_miss(tcc_model *m, bool train, const tcc_array *batch, int count) {
    if (!tcc_log_on(m->cx, TCC_LOG_COMPILE)) return;
    const char *what = train ? "training" : "evaluation";
    for (int i = m->programs.count - 1; i >= 0; i--) {
        const tcc_compiled *c = m->programs.data[i];
        if (c->train != train) continue;
        for (int k = 0; k < count && k < c->n_inputs; k++) {
            if (same_array(&c->inputs[k], &batch[k])) continue;
            tcc_type had = array_type(&c->inputs[k]), got = array_type(&batch[k]);
            tcc_logf(m->cx, TCC_LOG_COMPILE, "new %s program: input \"%s\" is %s, the last program has \"%s\" %s", what,
                     batch[k].name, tcc_type_text(&got), c->inputs[k].name, tcc_type_text(&had));
            return;
        }
        tcc_logf(m->cx, TCC_LOG_COMPILE, "new %s program: %d inputs, the last program has %d", what, count,
                 c->n_inputs);
        return;
    }
    tcc_logf(m->cx, TCC_LOG_COMPILE, "first %s program", what);
}

static tcc_status check_batch(tcc_model *m, const tcc_array *batch, int count) {
    for (int i = 0; i < count; i++) {
        const tcc_array *a = &batch[i];
        if (!a->name || !a->data)
            return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "batch array %d has no %s", i,
                             a->name ? "data" : "name");
        if (a->rank < 0 || a->rank > TCC_MAX_RANK || (unsigned)a->dtype >= TCC_DTYPE_COUNT)
            return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                             "batch array \"%s\": rank %d or type %d is out of range", a->name, a->rank, (int)a->dtype);
        for (int k = 0; k < i; k++)
            if (!strcmp(batch[k].name, a->name))
                return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "two batch arrays are named \"%s\"", a->name);
    }
    return TCC_OK;
}

/* -- From function to program -- */

tcc_status tcc__model_trace(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_graph **out) {
    tcc_trace trace;
    TCC_TRY(tcc_trace_begin(&trace, train ? "train" : "evaluate", &m->store, train, batch, count, &m->cx->diag));
    m->fn(&trace, m->user);
    bool has_loss = false;
    for (int i = 0; i < trace.graph->outputs.count; i++) has_loss |= !strcmp(trace.graph->outputs.data[i].name, "loss");
    if (train && !has_loss)
        tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                  "the model names no loss (tcc_loss): there is nothing to train");
    if (!trace.graph->outputs.count)
        tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "the model names no output (tcc_output)");
    return tcc_trace_end(&trace, out);
}

static bool takes_call(void *user, const char *name, int64_t *params) {
    tcc_model *m = user;
    return m->device->ops->takes_call(m->device, m->cx, name, params);
}

/* What codegen is told of this model; threads and dump_dir are for the program alone. */
static tcc_codegen_options codegen_options(tcc_model *m) {
    tcc_codegen_options options = {.separate = m->options.mode == TCC_MODE_EAGER, .tf32 = m->options.allow_tf32};
    if (*m->arch) options.arch = m->arch;
    if (m->device) options.hardware = &m->device->hw, options.takes_call = takes_call, options.takes_call_user = m;
    return options;
}

tcc_status tcc__model_selector(tcc_model *m) {
    const tcc_codegen_options options = codegen_options(m);
    if (m->selector) return TCC_OK;
    TCC_TRY(tcc_selector_create(m->cx, &options, tcc_libraries_prefer("cudnn.batch_norm"), &m->selector));
    /* Norms whole are for training: elsewhere they fold into what stands before them. */
    m->target[true] = m->target[false] = *tcc_selector_target(m->selector);
    m->target[false].takes_norm = NULL;
    m->target[false].sums_operands = NULL;
    if (m->options.mode == TCC_MODE_EAGER) m->target[true].takes_norm = NULL;
    return TCC_OK;
}

tcc_pass_options tcc__model_pass_options(tcc_model *m, bool train, const tcc_graph *g, int *groups) {
    const tcc_optimizer_options *o = &m->options.optimizer;
    int parameter = 0;
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        if (n->attrs->input.role != TCC_ROLE_PARAM) continue;
        groups[parameter++] = o->decay_all || n->type.rank >= 2 ? TCC_DECAYED : TCC_NOT_DECAYED;
    }
    static const tcc_optimizer kinds[] = {
        [TCC_SGD] = TCC_OPTIMIZER_SGD, [TCC_ADAM] = TCC_OPTIMIZER_ADAM, [TCC_ADAMW] = TCC_OPTIMIZER_ADAMW};
    return (tcc_pass_options){
        .train = train,
        .eager = m->options.mode == TCC_MODE_EAGER,
        .target = m->selector ? &m->target[train] : NULL,
        .spec = {.optimizer = kinds[o->kind],
                 .momentum = o->momentum > 0,
                 .nesterov = o->nesterov,
                 .clip_norm = o->clip_grad_norm > 0,
                 .n_groups = TCC_DECAY_GROUPS,
                 .group_of = groups,
                 .keep_gradients = m->options.keep_gradients},
    };
}

void tcc__model_hyper(const tcc_model *m, int64_t step, float *out) {
    const tcc_optimizer_options *o = &m->options.optimizer;
    out[TCC_HYPER_MOMENTUM] = (float)o->momentum;
    out[TCC_HYPER_DAMPENING_SCALE] = 1; /* no dampening */
    out[TCC_HYPER_BETA1_COMPLEMENT] = (float)(1 - o->beta1);
    out[TCC_HYPER_BETA2_COMPLEMENT] = (float)(1 - o->beta2);
    out[TCC_HYPER_EPS] = (float)o->eps;
    out[TCC_HYPER_BIAS1] = (float)(1 / (1 - pow(o->beta1, (double)step)));
    out[TCC_HYPER_BIAS2] = (float)(1 / (1 - pow(o->beta2, (double)step)));
    out[TCC_HYPER_CLIP_NORM] = (float)o->clip_grad_norm;
    for (int group = 0; group < TCC_DECAY_GROUPS; group++) {
        out[TCC_HYPER_LR(group)] = (float)m->lr;
        out[TCC_HYPER_WEIGHT_DECAY(group)] = group == TCC_DECAYED ? (float)o->weight_decay : 0;
    }
}

/* Memory for a state binding that the training step added: optimizer moments, shared by all programs of the model. */
static tcc_status moment_memory(tcc_model *m, const tcc_binding *b, void **out) {
    int index = tcc_store_find(&m->moments, b->name);
    if (index < 0)
        TCC_TRY(tcc_store_add(&m->moments, b->name, TCC_ROLE_STATE, &b->type, &(tcc_init){.kind = TCC_INIT_ZEROS},
                              &m->cx->diag, TCC_NOWHERE, &index));
    TCC_TRY(tcc_store_fill(&m->moments, &m->cx->diag));
    return tcc__stored_device(m, &m->moments.entries.data[index], out);
}

/* Memory for a binding that is this program's own. */
static tcc_status own_memory(tcc_model *m, tcc_compiled *c, int i, void **out) {
    const tcc_binding *b = &c->program->bindings[i];
    tcc_bound *bound = &c->bound[i];
    int64_t bytes = tcc_type_bytes(&b->type);
    TCC_TRY(tcc__device_alloc(m, bytes, b->name, out));
    *bound = (tcc_bound){.device = *out, .bytes = bytes};
    if (m->device->ops->shares_host) bound->host = *out;
    return TCC_OK;
}

static tcc_status binding_memory(tcc_model *m, tcc_compiled *c, int i, void **out) {
    const tcc_binding *b = &c->program->bindings[i];
    int stored;
    switch (b->role) {
    case TCC_ROLE_PARAM:
    case TCC_ROLE_STATE:
        stored = tcc_store_find(&m->store, b->name);
        return stored >= 0 ? tcc__stored_device(m, &m->store.entries.data[stored], out) : moment_memory(m, b, out);
    case TCC_ROLE_HYPER:
        c->hyper = i;
        c->hyper_values = tcc__aligned(64, (size_t)tcc_type_bytes(&b->type));
        if (!c->hyper_values) return tcc_enomem(&m->cx->diag);
        return own_memory(m, c, i, out);
    case TCC_ROLE_RNG: c->rng = i; return own_memory(m, c, i, out);
    case TCC_ROLE_OUTPUT:
        if (!strcmp(b->name, "loss")) c->loss = i;
        return own_memory(m, c, i, out);
    case TCC_ROLE_BATCH: return m->device->ops->shares_host ? TCC_OK : own_memory(m, c, i, out);
    case TCC_ROLE_COUNT: break;
    }
    return TCC_OK;
}

/* Binds everything that stays: parameters, buffers, moments, hyper-parameters, the random key, outputs; a batch that is
 * copied too. */
static tcc_status bind_persistent(tcc_model *m, tcc_compiled *c) {
    const tcc_program *p = c->program;
    tcc_diag *diag = &m->cx->diag;
    c->bound = tcc__calloc((size_t)p->n_bindings + 1, sizeof *c->bound);
    if (!c->bound) return tcc_enomem(diag);
    for (int i = 0; i < p->n_bindings; i++) {
        void *memory = NULL;
        tcc_status status = binding_memory(m, c, i, &memory);
        if (status == TCC_ENOMEM) tcc_program_note_largest(diag, p);
        if (status == TCC_OK && memory)
            status = tcc_exec_bind(c->exec, diag, i, memory, tcc_type_bytes(&p->bindings[i].type));
        if (status != TCC_OK) return status;
    }
    return TCC_OK;
}

/* A folder of its own for the dump of each program; NULL without dump_dir. */
static tcc_status dump_folder(tcc_model *m, tcc_compiled *c, const char **out) {
    *out = NULL;
    if (!m->dump_dir) return TCC_OK;
    *out = tcc_arena_printf(&c->arena, "%s/%02d-%s", m->dump_dir, m->programs.count, c->train ? "train" : "evaluate");
    if (!*out) return tcc_enomem(&m->cx->diag);
    if ((mkdir(m->dump_dir, 0777) && errno != EEXIST) || (mkdir(*out, 0777) && errno != EEXIST))
        return tcc_error(&m->cx->diag, TCC_EIO, TCC_NOWHERE, "cannot make the folder %s: %s", *out, strerror(errno));
    return TCC_OK;
}

static tcc_status keep_signature(tcc_compiled *c, const tcc_array *batch, int count, tcc_diag *diag) {
    c->n_inputs = count;
    c->inputs = tcc_arena_copy(&c->arena, batch, sizeof *batch * (size_t)count);
    if (!c->inputs) return tcc_enomem(diag);
    for (int i = 0; i < count; i++) {
        c->inputs[i].data = NULL;
        if (!(c->inputs[i].name = tcc_arena_strdup(&c->arena, batch[i].name))) return tcc_enomem(diag);
    }
    return TCC_OK;
}

static tcc_status run_passes(tcc_model *m, tcc_compiled *c, const char *dump_dir) {
    int *groups = TCC_ARENA_ARRAY(&c->arena, int, c->graph->inputs.count + 1);
    if (!groups) return tcc_enomem(&m->cx->diag);
    tcc_pass_options options = tcc__model_pass_options(m, c->train, c->graph, groups);
    tcc_pass_cx cx = {.cx = m->cx, .diag = &m->cx->diag, .options = &options};
    tcc_manager_options manager = {.dump_dir = dump_dir, .verify = m->options.verify_passes};
    return tcc_pipeline_run(&cx, &manager, &c->graph, &c->passes);
}

tcc_status tcc__model_codegen(tcc_model *m, const tcc_graph *g, const char *dump_dir, tcc_program **out) {
    tcc_cpus cpus;
    TCC_TRY(tcc__model_selector(m));
    tcc_codegen_options options = codegen_options(m);
    options.dump_dir = dump_dir;
    options.target = tcc_selector_llvm(m->selector);
    options.verify = m->options.verify_passes;
    tcc_cpus_get(&cpus);
    TCC_TRY(tcc_cpus_threads(&m->cx->diag, &cpus, &options.threads));
    return tcc_codegen_build(m->cx, &m->cx->diag, g, &options, out);
}

static tcc_status dump_steps(tcc_diag *diag, const tcc_program *p, const char *folder) {
    tcc_strbuf path = {0}, text = {0};
    tcc_strbuf_printf(&path, "%s/steps.txt", folder);
    tcc_program_print_steps(&text, p);
    FILE *f = path.failed || text.failed ? NULL : fopen(path.text, "w");
    bool written = f && fputs(text.text, f) >= 0;
    if (f && fclose(f)) written = false;
    tcc_status status = written ? TCC_OK : tcc_error(diag, TCC_EIO, TCC_NOWHERE, "cannot write %s/steps.txt", folder);
    tcc_strbuf_free(&path);
    tcc_strbuf_free(&text);
    return status;
}

static void initialize(void *user, int worker, int64_t begin, int64_t end) {
    (void)worker;
    tcc_store_initialize(user, begin, end);
}

/* Initial values, drawn on all CPUs: a large model's take longer than compiling it. */
static tcc_status fill_store(tcc_model *m) {
    int64_t parts;
    tcc_pool *pool = NULL;
    TCC_TRY(tcc_store_reserve(&m->store, &m->cx->diag, &parts));
    if (parts) {
        TCC_TRY(tcc_pool_create(&m->cx->diag, 0, &pool));
        tcc_pool_lock(pool);
        tcc_pool_run(pool, initialize, &m->store, parts, 1);
        tcc_pool_unlock(pool);
        tcc_pool_destroy(pool);
    }
    tcc_store_filled(&m->store);
    return TCC_OK;
}

static tcc_status compile(tcc_model *m, tcc_compiled *c, const tcc_array *batch, int count) {
    const char *dump_dir;
    TCC_TRY(dump_folder(m, c, &dump_dir));
    TCC_TRY(keep_signature(c, batch, count, &m->cx->diag));
    double start = now_seconds();
    TCC_TRY(tcc__model_trace(m, c->train, batch, count, &c->graph));
    double traced = now_seconds();
    TCC_TRY(tcc__model_selector(m));
    TCC_TRY(run_passes(m, c, dump_dir));
    double passed = now_seconds();
    TCC_TRY(tcc__model_codegen(m, c->graph, dump_dir, &c->program));
    if (dump_dir) TCC_TRY(dump_steps(&m->cx->diag, c->program, dump_dir));
    double generated = now_seconds();
    if (m->device) TCC_TRY(tcc__model_fit(m, c->program));
    TCC_TRY(fill_store(m));
    double filled = now_seconds();
    if (m->device) TCC_TRY(tcc_exec_create(m->cx, m->device, c->program, &c->exec));
    if (m->device) TCC_TRY(bind_persistent(m, c));
    double done = now_seconds();
    c->trace_seconds = traced - start;
    c->passes_seconds = passed - traced;
    c->codegen_seconds = generated - passed;
    c->total_seconds = done - start;
    tcc_logf(m->cx, TCC_LOG_COMPILE,
             "%s: %d steps of %d kernels, arena %lld bytes, %.0f ms (trace %.0f, passes %.0f, codegen %.0f, initial "
             "values %.0f, loading %.0f)",
             c->train ? "train" : "evaluate", c->program->n_steps, c->program->n_kernels,
             (long long)c->program->arena_bytes, 1e3 * c->total_seconds, 1e3 * c->trace_seconds,
             1e3 * c->passes_seconds, 1e3 * c->codegen_seconds, 1e3 * (filled - generated), 1e3 * (done - filled));
    return TCC_OK;
}

tcc_status tcc__model_compiled(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_compiled **out) {
    for (int i = 0; i < m->programs.count; i++)
        if (signature_matches(m->programs.data[i], train, batch, count)) {
            *out = m->programs.data[i];
            return TCC_OK;
        }
    log_miss(m, train, batch, count);
    tcc_compiled *c = tcc__calloc(1, sizeof *c);
    if (!c) return tcc_enomem(&m->cx->diag);
    c->train = train;
    c->hyper = c->rng = c->loss = -1;
    tcc_status status = compile(m, c, batch, count);
    if (status == TCC_OK && m->profile && c->exec) status = tcc_exec_set_profiling(c->exec, &m->cx->diag, true);
    if (status == TCC_OK && !tcc_vec_push(&m->programs, c)) status = tcc_enomem(&m->cx->diag);
    if (status != TCC_OK) {
        compiled_destroy(m, c);
        return status;
    }
    *out = c;
    return TCC_OK;
}

/* -- Running -- */

tcc_status tcc__model_need_device(tcc_model *m) {
    if (m->device) return TCC_OK;
    return tcc_error(&m->cx->diag, TCC_EUNSUPPORTED, TCC_NOWHERE,
                     "the model was made for the architecture %s, not for a device: it cannot run", m->arch);
}

/* Hands over what changes from run to run. On the CPU a batch is used where it lies. */
static tcc_status feed_inputs(tcc_model *m, tcc_compiled *c, const tcc_array *batch) {
    const tcc_device_ops *ops = m->device->ops;
    tcc_diag *diag = &m->cx->diag;
    const int64_t rng_values[2] = {(int64_t)m->options.seed, m->step};
    for (int i = 0; i < c->program->n_bindings; i++) {
        const tcc_binding *b = &c->program->bindings[i];
        int64_t bytes = tcc_type_bytes(&b->type);
        if (b->role != TCC_ROLE_BATCH) continue;
        int k = 0;
        while (strcmp(batch[k].name, b->name)) k++; /* the signature matched, so it is there */
        if (ops->shares_host) TCC_TRY(tcc_exec_bind(c->exec, diag, i, batch[k].data, bytes));
        else TCC_TRY(ops->feed(m->device, diag, c->bound[i].device, batch[k].data, bytes));
    }
    if (c->hyper >= 0) {
        tcc__model_hyper(m, m->step + 1, c->hyper_values);
        TCC_TRY(ops->feed(m->device, diag, c->bound[c->hyper].device, c->hyper_values, c->bound[c->hyper].bytes));
    }
    if (c->rng >= 0) TCC_TRY(ops->feed(m->device, diag, c->bound[c->rng].device, rng_values, c->bound[c->rng].bytes));
    TCC_TRY(tcc__store_upload(m, &m->store));
    return tcc__store_upload(m, &m->moments);
}

/* The loss of training step m->step is on its way. */
static tcc_status fetch_loss(tcc_model *m, tcc_compiled *c) {
    if (c->loss < 0) return TCC_OK;
    TCC_TRY(m->device->ops->fetch(m->device, &m->cx->diag, c->bound[c->loss].device, c->bound[c->loss].bytes,
                                  &m->loss_tickets[m->step % TCC_FETCHES]));
    if (m->end_kept != m->step) m->first_kept = m->step; /* the count of steps was set */
    m->end_kept = m->step + 1;
    if (m->end_kept - m->first_kept > TCC_FETCHES) m->first_kept = m->end_kept - TCC_FETCHES;
    return TCC_OK;
}

static tcc_status run(tcc_model *m, bool train, const tcc_array *batch, int count) {
    tcc_diag_begin(&m->cx->diag);
    tcc_compiled *c;
    TCC_TRY(tcc__model_need_device(m));
    TCC_TRY(check_batch(m, batch, count));
    TCC_TRY(tcc__model_compiled(m, train, batch, count, &c));
    m->last = c;
    TCC_TRY(feed_inputs(m, c, batch));
    TCC_TRY(tcc_exec_run(c->exec, &m->cx->diag));
    for (int i = 0; i < c->program->n_bindings; i++) c->bound[i].old = true;
    c->ran = true;
    if (!train) return TCC_OK;
    tcc__store_written(&m->store);
    tcc__store_written(&m->moments);
    TCC_TRY(fetch_loss(m, c));
    m->step++;
    return TCC_OK;
}

tcc_status tcc_model_train(tcc_model *m, const tcc_array *batch, int count) { return run(m, true, batch, count); }
tcc_status tcc_model_evaluate(tcc_model *m, const tcc_array *batch, int count) { return run(m, false, batch, count); }

tcc_status tcc_model_compile(tcc_model *m, bool train, const tcc_array *batch, int count) {
    tcc_diag_begin(&m->cx->diag);
    TCC_TRY(check_batch(m, batch, count));
    return tcc__model_compiled(m, train, batch, count, &m->last);
}

/* -- Results and state -- */

/* The host's copy of an output, made when it is asked for. */
static tcc_status output_memory(tcc_model *m, tcc_bound *b, void **out) {
    if (!b->host && !(b->host = tcc__aligned(64, (size_t)b->bytes))) return tcc_enomem(&m->cx->diag);
    if (b->old && b->host != b->device)
        TCC_TRY(m->device->ops->download(m->device, &m->cx->diag, b->host, b->device, b->bytes));
    b->old = false;
    *out = b->host;
    return TCC_OK;
}

tcc_status tcc_model_output(tcc_model *m, const char *name, tcc_array *out) {
    tcc_diag_begin(&m->cx->diag);
    TCC_TRY(tcc__model_need_device(m));
    if (!m->last) return tcc_error(&m->cx->diag, TCC_ENOTFOUND, TCC_NOWHERE, "output \"%s\": nothing ran yet", name);
    const tcc_program *p = m->last->program;
    tcc_strbuf known = {0};
    for (int i = 0; i < p->n_bindings; i++) {
        const tcc_binding *b = &p->bindings[i];
        if (b->role != TCC_ROLE_OUTPUT) continue;
        if (!strcmp(b->name, name)) {
            *out = (tcc_array){.name = b->name, .dtype = b->type.dtype, .rank = b->type.rank};
            memcpy(out->dims, b->type.dims, sizeof out->dims);
            tcc_strbuf_free(&known);
            return output_memory(m, &m->last->bound[i], &out->data);
        }
        tcc_strbuf_printf(&known, known.length ? ", %s" : "%s", b->name);
    }
    tcc_status status = tcc_error(&m->cx->diag, TCC_ENOTFOUND, TCC_NOWHERE,
                                  "no output \"%s\" in the %s program; it has: %s", name,
                                  m->last->train ? "training" : "evaluation", known.length ? known.text : "none");
    tcc_strbuf_free(&known);
    return status;
}

tcc_status tcc_model_step_loss(tcc_model *m, int64_t step, double *loss) {
    tcc_diag_begin(&m->cx->diag);
    float value;
    *loss = NAN;
    if (step < m->first_kept || step >= m->end_kept)
        return tcc_error(&m->cx->diag, TCC_ENOTFOUND, TCC_NOWHERE,
                         "the loss of step %lld is not among those kept, %lld to %lld", (long long)step,
                         (long long)m->first_kept, (long long)m->end_kept - 1);
    TCC_TRY(
        m->device->ops->collect(m->device, &m->cx->diag, m->loss_tickets[step % TCC_FETCHES], &value, sizeof value));
    *loss = value;
    return TCC_OK;
}

double tcc_model_loss(tcc_model *m) {
    tcc_diag_begin(&m->cx->diag);
    double loss = NAN;
    void *memory = NULL;
    if (!m->last || !m->last->ran || m->last->loss < 0) return NAN;
    if (m->last->train && m->end_kept == m->step)
        return tcc_model_step_loss(m, m->step - 1, &loss) == TCC_OK ? loss : NAN;
    return output_memory(m, &m->last->bound[m->last->loss], &memory) == TCC_OK ? *(const float *)memory : NAN;
}

tcc_status tcc_model_synchronize(tcc_model *m) {
    tcc_diag_begin(&m->cx->diag);
    if (!m->device) return TCC_OK;
    TCC_TRY(m->device->ops->synchronize(m->device, &m->cx->diag));
    TCC_TRY(tcc__store_download(m, &m->store));
    return tcc__store_download(m, &m->moments);
}

tcc_status tcc_model_gradient(tcc_model *m, const char *name, tcc_array *out) {
    tcc_diag_begin(&m->cx->diag);
    if (!m->options.keep_gradients)
        return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "gradient of \"%s\": create the model with keep_gradients", name);
    char output[512];
    snprintf(output, sizeof output, "grad.%s", name);
    return tcc_model_output(m, output, out);
}

void tcc_model_set_lr(tcc_model *m, double lr) { m->lr = lr; }
int64_t tcc_model_step(const tcc_model *m) { return m->step; }
void tcc_model_set_step(tcc_model *m, int64_t step) { m->step = step; }

static bool stored_array(tcc_model *m, tcc_store *s, int index, tcc_array *out) {
    tcc_diag_begin(&m->cx->diag);
    if (index < 0 || index >= s->entries.count) return false;
    tcc_stored *p = &s->entries.data[index];
    if (tcc__stored_host(m, p) != TCC_OK) return false;
    p->host_newer = p->device != NULL; /* it may be written now */
    *out = (tcc_array){.name = p->name, .dtype = p->type.dtype, .rank = p->type.rank, .data = p->data};
    memcpy(out->dims, p->type.dims, sizeof out->dims);
    return true;
}

bool tcc_model_param(tcc_model *m, int index, tcc_array *out) { return stored_array(m, &m->store, index, out); }
bool tcc_model_optimizer_state(tcc_model *m, int index, tcc_array *out) {
    return stored_array(m, &m->moments, index, out);
}

bool tcc_model_find_param(tcc_model *m, const char *name, tcc_array *out) {
    return stored_array(m, &m->store, tcc_store_find(&m->store, name), out);
}

bool tcc_model_param_is_trained(const tcc_model *m, int index) {
    return index >= 0 && index < m->store.entries.count && m->store.entries.data[index].role == TCC_ROLE_PARAM;
}
