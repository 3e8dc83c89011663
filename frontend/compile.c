/* SPDX-License-Identifier: MIT
 * The composition root: from a model's function to a program that can run. Traces, runs the passes, generates code,
 * loads it, and keeps one program for each input signature. compile_model.c is the model around the programs,
 * compile_bind.c their memory, compile_run.c runs them. */
#include "compile.h"

#include "codegen/build.h"
#include "ir/support/clock.h"
#include "runtime/cpus.h"
#include "runtime/wanted.h"
#include "runtime/cpu/device.h"
#include "runtime/program.h"

#include <errno.h>
#include <sys/stat.h>

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

tcc_status tcc__model_check_batch(tcc_model *m, const tcc_array *batch, int count) {
    for (int i = 0; i < count; i++) {
        const tcc_array *a = &batch[i];
        if (!a->name || !a->data)
            return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "batch array %d has no %s", i,
                             a->name ? "data" : "name");
        if (a->rank < 0 || a->rank > TCC_MAX_RANK || (unsigned)a->dtype >= TCC_DTYPE_COUNT)
            return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                             "batch array \"%s\": rank %d or type %d is out of range", a->name, a->rank, (int)a->dtype);
        if (tcc_name_is_reserved(a->name))
            return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                             "batch array \"%s\": names that begin with '@' are the library's own", a->name);
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
        .amp = m->options.mixed_precision ? &m->amp : NULL,
        .train = train,
        .chunk_rows = m->options.chunk_rows,
        .eager = m->options.mode == TCC_MODE_EAGER,
        .remat = tcc__model_remat(m, train),
        .target = m->selector ? &m->target[train] : NULL,
        .spec = {.optimizer = kinds[o->kind],
                 .momentum = o->momentum > 0,
                 .nesterov = o->nesterov,
                 .loss_scale = m->options.loss_scale,
                 .clip_norm = o->clip_grad_norm > 0,
                 .n_groups = TCC_DECAY_GROUPS,
                 .group_of = groups,
                 .keep_gradients = m->options.keep_gradients},
    };
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
    tcc_remat_spec remat;
    if (options.remat) {
        remat = *options.remat;
        remat.report = &c->remat;
        options.remat = &remat;
    }
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
    double start = tcc_clock_seconds();
    TCC_TRY(tcc__model_trace(m, c->train, batch, count, &c->graph));
    double traced = tcc_clock_seconds();
    TCC_TRY(tcc__model_selector(m));
    TCC_TRY(run_passes(m, c, dump_dir));
    double passed = tcc_clock_seconds();
    TCC_TRY(tcc__model_codegen(m, c->graph, dump_dir, &c->program));
    if (dump_dir) TCC_TRY(dump_steps(&m->cx->diag, c->program, dump_dir));
    double generated = tcc_clock_seconds();
    if (m->device) TCC_TRY(tcc__model_fit(m, c->program));
    TCC_TRY(fill_store(m));
    double filled = tcc_clock_seconds();
    if (m->device) TCC_TRY(tcc_exec_create(m->cx, m->device, c->program, &c->exec));
    if (m->device) TCC_TRY(tcc__compiled_bind(m, c));
    double done = tcc_clock_seconds();
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

void tcc__compiled_destroy(tcc_model *m, tcc_compiled *c) {
    if (!c) return;
    tcc_exec_destroy(c->exec);
    tcc__compiled_unbind(m, c);
    tcc_program_destroy(c->program);
    tcc_graph_destroy(c->graph);
    tcc_vec_free(&c->passes.passes);
    tcc_remat_report_free(&c->remat);
    tcc_arena_free(&c->arena);
    tcc__free(c);
}

tcc_status tcc__model_compiled(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_compiled **out) {
    TCC_TRY(tcc__model_check_batch(m, batch, count));
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
        tcc__compiled_destroy(m, c);
        return status;
    }
    *out = c;
    return TCC_OK;
}

tcc_status tcc_model_compile(tcc_model *m, bool train, const tcc_array *batch, int count) {
    tcc_diag_begin(&m->cx->diag);
    return tcc__model_compiled(m, train, batch, count, &m->last);
}
