/* SPDX-License-Identifier: MIT
 * The composition root: from a model's function to a program. Traces, runs the passes, generates code. The folder run
 * has what happens with programs then. */
#include "compile.h"
#include "compile_tune.h"
#include "codegen/build.h"
#include "ir/support/clock.h"
#include "runtime/cpus.h"
#include "runtime/memory_limits.h"
#include "runtime/wanted.h"
#include "runtime/program.h"

#include <errno.h>
#include <sys/stat.h>

/* -- From function to program -- */

tcc_status tcc__model_trace(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_graph **out) {
    tcc_trace trace;
    TCC_TRY(tcc_trace_begin(&trace, train ? "train" : "evaluate", &m->store, train, batch, count, &m->cx->diag));
    m->making->fn(&trace, m->making->user);
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
    if (m->making->selector) return TCC_OK;
    TCC_TRY(tcc_selector_create(m->cx, &options, tcc_libraries_prefer("cudnn.batch_norm"), &m->making->selector));
    /* Norms whole are for training: elsewhere they fold into what stands before them. */
    m->making->target[true] = m->making->target[false] = *tcc_selector_target(m->making->selector);
    m->making->target[false].takes_norm = NULL;
    m->making->target[false].sums_operands = NULL;
    if (m->options.mode == TCC_MODE_EAGER) m->making->target[true].takes_norm = NULL;
    for (int train = 0; m->making->tuning && train < 2; train++)
        m->making->target[train].choose = tcc__tune_choose, m->making->target[train].choose_user = m;
    return TCC_OK;
}

tcc_pass_options tcc__model_pass_options(tcc_model *m, bool train, const tcc_graph *g, int *groups) {
    const tcc_optimizer_options *o = &m->optimizer;
    int parameter = 0;
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        if (n->attrs->input.role != TCC_ROLE_PARAM) continue;
        groups[parameter++] = o->decay_all || n->type.rank >= 2 ? TCC_DECAYED : TCC_NOT_DECAYED;
    }
    static const tcc_optimizer kinds[] = {[TCC_SGD] = TCC_OPTIMIZER_SGD,
                                          [TCC_ADAM] = TCC_OPTIMIZER_ADAM,
                                          [TCC_ADAMW] = TCC_OPTIMIZER_ADAMW,
                                          [TCC_LION] = TCC_OPTIMIZER_LION};
    return (tcc_pass_options){
        .amp = m->options.mixed_precision ? &m->making->amp : NULL,
        .train = train,
        .chunk_rows = m->options.chunk_rows,
        .eager = m->options.mode == TCC_MODE_EAGER,
        .remat = tcc__model_remat(m, train),
        .target = m->making->selector ? &m->making->target[train] : NULL,
        .spec = {.optimizer = kinds[o->kind],
                 .momentum = o->momentum > 0,
                 .nesterov = o->nesterov,
                 .loss_scale = m->options.loss_scale,
                 .clip_norm = o->clip_grad_norm > 0,
                 .ema = o->ema_decay > 0,
                 .n_groups = TCC_DECAY_GROUPS,
                 .group_of = groups,
                 .keep_gradients = m->options.keep_gradients,
                 .loss_is_sum = m->options.loss_is_sum},
    };
}

/* A folder of its own for the dump of each program; NULL without dump_dir. */
static tcc_status dump_folder(tcc_model *m, tcc_compiled *c, const char **out) {
    *out = NULL;
    if (!m->making->dump_dir) return TCC_OK;
    *out = tcc_arena_printf(&c->arena, "%s/%02d-%s", m->making->dump_dir, m->programs.count,
                            c->part == TCC_STEP_UPDATE ? "update"
                            : c->train                 ? "train"
                                                       : "evaluate");
    if (!*out) return tcc_enomem(&m->cx->diag);
    if ((mkdir(m->making->dump_dir, 0777) && errno != EEXIST) || (mkdir(*out, 0777) && errno != EEXIST))
        return tcc_error(&m->cx->diag, TCC_EIO, TCC_NOWHERE, "cannot make the folder %s: %s", *out, strerror(errno));
    return TCC_OK;
}

static tcc_status run_passes(tcc_model *m, tcc_compiled *c, const char *dump_dir) {
    tcc_made *made = c->made;
    int *groups = TCC_ARENA_ARRAY(&c->arena, int, made->graph->inputs.count + 1);
    if (!groups) return tcc_enomem(&m->cx->diag);
    tcc_pass_options options = tcc__model_pass_options(m, c->train, made->graph, groups);
    const tcc_codegen_options codegen = codegen_options(m);
    tcc_remat_spec remat;
    options.spec.part = c->part;
    if (c->part == TCC_STEP_UPDATE) options.remat = NULL; /* it has no backward pass */
    TCC_TRY(tcc__model_tune(m, &options, &codegen, made->graph));
    if (options.remat) {
        remat = *options.remat;
        remat.report = &made->remat;
        if (c->part == TCC_STEP_MICRO) remat.beside_bytes = tcc_train_state_bytes(&options.spec, made->graph);
        options.remat = &remat;
    }
    tcc_pass_cx cx = {.cx = m->cx, .diag = &m->cx->diag, .options = &options};
    tcc_manager_options manager = {.dump_dir = dump_dir, .verify = m->options.verify_passes};
    TCC_TRY(tcc_pipeline_run(&cx, &manager, &made->graph, &made->passes));
    made->passed = true;
    return TCC_OK;
}

/* LLVM ends the process where it gets no memory, so it is not called where it may come to that. */
static tcc_status check_memory(tcc_model *m, int threads) {
    const int64_t needed = (int64_t)(32 + 32 * (threads < 16 ? threads : 16)) << 20,
                  left = tcc_memory_left("/proc", "/sys/fs/cgroup");
    if (!left || left >= needed) return TCC_OK;
    return tcc_error(&m->cx->diag, TCC_ENOMEM, TCC_NOWHERE,
                     "compiling with %d threads takes up to %lld MiB of memory, and this process may have no more than "
                     "%lld MiB (its limits, as ulimit -v and control groups, or what the system has)",
                     threads, (long long)(needed >> 20), (long long)(left >> 20));
}

tcc_status tcc__model_codegen(tcc_model *m, const tcc_graph *g, const char *dump_dir, tcc_program **out) {
    tcc_cpus cpus;
    TCC_TRY(tcc__model_selector(m));
    tcc_codegen_options options = codegen_options(m);
    options.dump_dir = dump_dir;
    options.target = tcc_selector_llvm(m->making->selector);
    options.verify = m->options.verify_passes;
    tcc_cpus_get(&cpus);
    TCC_TRY(tcc_cpus_threads(&m->cx->diag, &cpus, &options.threads));
    TCC_TRY(check_memory(m, options.threads));
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

tcc_status tcc__model_build(tcc_model *m, tcc_compiled *c) {
    const char *dump_dir;
    TCC_TRY(dump_folder(m, c, &dump_dir));
    const double start = tcc_clock_seconds();
    TCC_TRY(run_passes(m, c, dump_dir));
    const double passed = tcc_clock_seconds();
    TCC_TRY(tcc__model_codegen(m, c->made->graph, dump_dir, &c->program));
    if (dump_dir) TCC_TRY(dump_steps(&m->cx->diag, c->program, dump_dir));
    c->passes_seconds = passed - start;
    c->codegen_seconds = tcc_clock_seconds() - passed;
    return TCC_OK;
}

tcc_status tcc__made_graph(tcc_model *m, tcc_compiled *c, const tcc_graph **out) {
    if (!c->made->passed) TCC_TRY(run_passes(m, c, NULL));
    *out = c->made->graph;
    return TCC_OK;
}
