/* SPDX-License-Identifier: MIT
 * The composition root: from a model's function to a program. Traces, runs the passes, generates code. frontend/run
 * runs the programs. */
#include "frontend/compile/compile.h"
#include "frontend/cache/cache.h"
#include "frontend/tune/tune.h"
#include "codegen/build.h"
#include "ir/support/clock.h"
#include "ir/support/text_file.h"
#include "runtime/comm/comm.h"
#include "runtime/cpus.h"
#include "runtime/memory_limits.h"
#include "runtime/wanted.h"
#include "runtime/program.h"

#include <errno.h>
#include <sys/stat.h>

/* -- From function to program -- */

/* The names of the model's parameters, the first of them. */
static void list_parameters(const tcc_graph *g, tcc_strbuf *out) {
    enum { MOST = 12 };
    int count = 0;
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_attrs_input *input = &g->inputs.data[i]->attrs->input;
        if (input->role != TCC_ROLE_PARAM || count++ >= MOST) continue;
        tcc_strbuf_printf(out, "%s%s", count > 1 ? ", " : "", input->name);
    }
    if (count > MOST) tcc_strbuf_printf(out, " and %d more", count - MOST);
}

static tcc_status no_member(tcc_model *m, const tcc_graph *g, const char *match) {
    tcc_strbuf names = {0};
    list_parameters(g, &names);
    const tcc_status status =
        names.failed ? tcc_enomem(&m->cx->diag)
                     : tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                                 "optimizer: no parameter is left for the group \"%s\": none matches, or all that do "
                                 "belong to groups before it; the parameters are %s",
                                 match, names.text ? names.text : "none");
    tcc_strbuf_free(&names);
    return status;
}

/* Each group has a parameter, and something is left to train. */
static tcc_status check_groups(tcc_model *m, const tcc_graph *g) {
    const tcc_optimizer_options *o = &m->optimizer;
    int members[TCC_MOST_GROUPS] = {0}, parameters = 0, frozen = 0;
    for (int i = 0; i < g->inputs.count && o->n_groups; i++) {
        if (g->inputs.data[i]->attrs->input.role != TCC_ROLE_PARAM) continue;
        const tcc_param_group *group = tcc__group_find(m, g->inputs.data[i]->attrs->input.name);
        if (group) members[group - o->groups]++;
        parameters++;
        frozen += group && group->frozen;
    }
    for (int i = 0; i < o->n_groups; i++)
        if (!members[i]) return no_member(m, g, o->groups[i].match);
    if (parameters && frozen == parameters)
        return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "optimizer: every parameter is frozen: there is nothing to train");
    return TCC_OK;
}

/* Notes which entries of the store the model's function has asked for. */
static tcc_status use_stored(tcc_model *m, const tcc_graph *g) {
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_attrs_input *input = &g->inputs.data[i]->attrs->input;
        if ((input->role != TCC_ROLE_PARAM && input->role != TCC_ROLE_STATE) || tcc_input_is_copy(g->inputs.data[i]))
            continue;
        const int index = tcc_store_find(&m->shared->store, input->name);
        if (index >= 0) TCC_TRY(tcc__model_use(m, index));
    }
    return TCC_OK;
}

static bool keeps_statistics(void *user, const char *weight) {
    const tcc_param_group *group = tcc__group_find(user, weight);
    return group && group->keep_statistics;
}

static tcc_status trace_model(tcc_model *m, bool train, bool whole, const tcc_array *batch, int count,
                              tcc_graph **out) {
    tcc_trace trace;
    tcc_store *store = &m->shared->store;
    const int before = store->entries.count;
    *out = NULL;
    TCC_TRY(tcc_trace_begin(&trace, train ? "train" : "evaluate", store, train, batch, count, &m->cx->diag));
    trace.keeps_statistics = keeps_statistics;
    trace.keeps_user = m;
    trace.ranks = m->options.comm ? tcc_comm_size(m->options.comm) : 1;
    trace.whole = whole;
    trace.sync_norms = m->options.sync_batch_norm;
    m->compiler->fn(&trace, m->compiler->user);
    bool has_loss = false;
    for (int i = 0; i < trace.graph->outputs.count; i++) has_loss |= !strcmp(trace.graph->outputs.data[i].name, "loss");
    if (train && !has_loss)
        tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                  "the model names no loss (tcc_loss): there is nothing to train");
    if (!trace.graph->outputs.count)
        tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "the model names no output (tcc_output)");
    tcc_status status = tcc_trace_end(&trace, out);
    if (status == TCC_OK && train) status = check_groups(m, *out);
    if (status == TCC_OK) status = use_stored(m, *out);
    if (status == TCC_OK) return TCC_OK;
    tcc_store_truncate(store, before); /* what a trace has made that failed is not the model's */
    tcc_graph_destroy(*out);
    *out = NULL;
    return status;
}

tcc_status tcc__model_trace(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_graph **out) {
    return trace_model(m, train, false, batch, count, out);
}

tcc_status tcc__model_trace_whole(tcc_model *m, const tcc_array *batch, int count, tcc_graph **out) {
    return trace_model(m, true, true, batch, count, out);
}

static bool takes_call(void *user, const char *name, int64_t *params) {
    tcc_model *m = user;
    return m->device->ops->takes_call(m->device, m->cx, name, params);
}

/* What codegen is told of this model; threads and dump_dir are for the program alone. */
static tcc_codegen_options codegen_options(tcc_model *m) {
    tcc_codegen_options options = {.separate = m->options.mode == TCC_MODE_EAGER,
                                   .tf32 = m->options.allow_tf32,
                                   .fast_sums = m->options.reduce_fast};
    if (*m->arch) options.arch = m->arch;
    if (m->device) options.hardware = &m->device->hw, options.takes_call = takes_call, options.takes_call_user = m;
    return options;
}

tcc_status tcc__model_selector(tcc_model *m) {
    const tcc_codegen_options options = codegen_options(m);
    if (m->compiler->selector) return TCC_OK;
    TCC_TRY(tcc_selector_create(m->cx, &options, tcc_libraries_prefer("cudnn.batch_norm"), &m->compiler->selector));
    /* Norms whole are for training: elsewhere they fold into what stands before them. */
    m->compiler->target[true] = m->compiler->target[false] = *tcc_selector_target(m->compiler->selector);
    m->compiler->target[false].takes_norm = NULL;
    m->compiler->target[false].sums_operands = NULL;
    if (m->options.mode == TCC_MODE_EAGER) m->compiler->target[true].takes_norm = NULL;
    for (int train = 0; m->compiler->tuning && train < 2; train++)
        m->compiler->target[train].choose = tcc__tune_choose, m->compiler->target[train].choose_user = m;
    return TCC_OK;
}

tcc_status tcc__model_group(tcc_model *m, const tcc_graph *g, tcc_arena *memory, tcc_grouping *out) {
    const tcc_optimizer_options *o = &m->optimizer;
    int parameter = 0;
    *out = (tcc_grouping){.group_of = TCC_ARENA_ARRAY(memory, int, g->inputs.count + 1),
                          .frozen = TCC_ARENA_ARRAY(memory, bool, g->inputs.count + 1)};
    if (!out->group_of || !out->frozen) return tcc_enomem(&m->cx->diag);
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        if (n->attrs->input.role != TCC_ROLE_PARAM) continue;
        const tcc_param_group *group = tcc__group_find(m, n->attrs->input.name);
        out->group_of[parameter] = tcc__group_in_step(m, group, n->type.rank);
        out->frozen[parameter++] = group && group->frozen;
    }
    for (int i = 0; i <= o->n_groups; i++) {
        const tcc_param_group *group = i < o->n_groups ? &o->groups[i] : NULL;
        const int set = tcc__group_rates(m, group);
        for (int rank = 1; rank <= 2; rank++) out->rates_of[tcc__group_in_step(m, group, rank)] = set;
        if (set >= out->n_rates) out->n_rates = set + 1;
    }
    return TCC_OK;
}

tcc_status tcc__model_need_function(tcc_model *m) {
    if (m->compiler) return TCC_OK;
    return tcc_error(&m->cx->diag, TCC_EUNSUPPORTED, TCC_NOWHERE,
                     "the model comes from a plan: it has no function, graph or compiler for this call");
}

/* What options.def says that passes get of an option's value. */
#define PASSES_CODE(value) (value)
#define PASSES_PART(value) (value)
#define PASSES_STEP(value) (value)
#define PASSES_STEP_IF(value) ((value) > 0)
#define PASSES_NOT(value) ((void)(value)) /* what passes read is in the key: nothing takes it but NONE */
#define TO(field) out.field =
#define NONE (void)

tcc_pass_options tcc__model_pass_options(tcc_model *m, bool train, const tcc_grouping *grouping) {
    const tcc_model_options *MODEL = &m->options;
    const tcc_optimizer_options *OPTIMIZER = &m->optimizer;
    const tcc_param_group *GROUP = &(tcc_param_group){0}; /* passes get all of them, as `grouping` */
    tcc_pass_options out = {
        .amp = m->options.mixed_precision ? &m->compiler->amp : NULL,
        .train = train,
        .eager = m->options.mode == TCC_MODE_EAGER,
        .remat = tcc__model_remat(m, train),
        .target = m->compiler->selector ? &m->compiler->target[train] : NULL,
        .spec = {.n_groups = TCC_STEP_GROUPS(m->optimizer.n_groups),
                 .n_rates = grouping->n_rates,
                 .rates_of = grouping->rates_of,
                 .group_of = grouping->group_of,
                 .frozen = grouping->frozen,
                 .ranks = m->options.comm ? tcc_comm_size(m->options.comm) : 1,
                 .network = m->options.comm ? tcc_comm_network(m->options.comm) : NULL},
    };
#define TCC_OPTION(of, field, type, range, key, plan, pass) pass PASSES_##key(of->field);
#include "frontend/run/options.def"
    return out;
}

/* A folder of its own for the dump of each program; NULL without dump_dir. */
static tcc_status dump_folder(tcc_model *m, tcc_compiled *c, const char **out) {
    *out = NULL;
    if (!m->compiler->dump_dir) return TCC_OK;
    *out = tcc_arena_printf(&c->arena, "%s/%02d-%s", m->compiler->dump_dir, m->programs.count, c->record->graph->name);
    if (!*out) return tcc_enomem(&m->cx->diag);
    if ((mkdir(m->compiler->dump_dir, 0777) && errno != EEXIST) || (mkdir(*out, 0777) && errno != EEXIST))
        return tcc_error(&m->cx->diag, TCC_EIO, TCC_NOWHERE, "cannot make the folder %s: %s", *out, strerror(errno));
    return TCC_OK;
}

static tcc_status run_passes(tcc_model *m, tcc_compiled *c, const char *dump_dir) {
    tcc_compile_record *record = c->record;
    tcc_grouping grouping;
    TCC_TRY(tcc__model_group(m, record->graph, &c->arena, &grouping));
    const bool train = c->train && c->part != TCC_STEP_TOTALS;
    tcc_pass_options options = tcc__model_pass_options(m, train, &grouping);
    const tcc_codegen_options codegen = codegen_options(m);
    tcc_remat_spec remat;
    options.spec.part = c->part;
    if (c->part == TCC_STEP_UPDATE) options.remat = NULL; /* it has no backward pass */
    TCC_TRY(tcc__model_tune(m, &options, &codegen, record->graph));
    if (options.remat) {
        remat = *options.remat;
        remat.report = &record->remat;
        remat.beside_bytes = record->beside_bytes;
        remat.keeps_idle = tcc__model_keeps_idle(m);
        if (c->part == TCC_STEP_MICRO && !remat.beside_bytes) { /* no budget depends on it */
            remat.beside_bytes = tcc_train_state_bytes(&options.spec, record->graph);
            remat.keeps_idle |= !options.spec.shard; /* the update has them */
        }
        options.remat = &remat;
    }
    tcc_pass_cx cx = {.cx = m->cx, .diag = &m->cx->diag, .options = &options};
    tcc_manager_options manager = {.dump_dir = dump_dir, .verify = m->options.verify_passes};
    TCC_TRY(tcc_pipeline_run(&cx, &manager, &record->graph, &record->passes));
    record->passed = true;
    return TCC_OK;
}

static int64_t compiling_bytes(int threads) { return (int64_t)(32 + 32 * (threads < 16 ? threads : 16)) << 20; }

/* LLVM ends the process where it gets no memory, so it is not called where it may come to that; with fewer threads it
 * takes less. */
static tcc_status check_memory(tcc_model *m, int *threads) {
    const int64_t left = tcc_memory_left("/proc", "/sys/fs/cgroup");
    while (left && *threads > 1 && left < compiling_bytes(*threads)) --*threads;
    if (!left || left >= compiling_bytes(*threads)) return TCC_OK;
    return tcc_error(&m->cx->diag, TCC_ENOMEM, TCC_NOWHERE,
                     "compiling takes up to %lld MiB of memory, and this process may have no more than %lld MiB (its "
                     "limits, as ulimit -v and control groups, or what the system has)",
                     (long long)(compiling_bytes(*threads) >> 20), (long long)(left >> 20));
}

tcc_status tcc__model_codegen(tcc_model *m, const tcc_graph *g, const char *dump_dir, tcc_program **out) {
    tcc_cpus cpus;
    TCC_TRY(tcc__model_selector(m));
    tcc_codegen_options options = codegen_options(m);
    options.dump_dir = dump_dir;
    options.target = tcc_selector_llvm(m->compiler->selector);
    options.verify = m->options.verify_passes;
    tcc_cpus_get(&cpus);
    TCC_TRY(tcc_cpus_threads(&m->cx->diag, &cpus, &options.threads));
    TCC_TRY(check_memory(m, &options.threads));
    tcc_kept_kernels kept;
    const tcc_kernel_store *store = tcc__cache_kernels(m, &kept);
    if (!dump_dir) options.store = store; /* a dump has all that is compiled */
    const tcc_status status = tcc_codegen_build(m->cx, &m->cx->diag, g, &options, out);
    tcc_arena_free(&kept.memory);
    return status;
}

static tcc_status dump_steps(tcc_diag *diag, const tcc_program *p, const char *folder) {
    tcc_strbuf path = {0}, text = {0};
    tcc_strbuf_printf(&path, "%s/steps.txt", folder);
    tcc_program_print_steps(&text, p);
    return tcc_text_file_write(diag, &path, &text);
}

tcc_status tcc__model_build(tcc_model *m, tcc_compiled *c) {
    const char *dump_dir;
    TCC_TRY(dump_folder(m, c, &dump_dir));
    const double start = tcc_clock_seconds();
    TCC_TRY(run_passes(m, c, dump_dir));
    const double passed = tcc_clock_seconds();
    TCC_TRY(tcc__model_codegen(m, c->record->graph, dump_dir, &c->program));
    if (dump_dir) TCC_TRY(dump_steps(&m->cx->diag, c->program, dump_dir));
    c->passes_seconds = passed - start;
    c->codegen_seconds = tcc_clock_seconds() - passed;
    return TCC_OK;
}

tcc_status tcc__record_front(tcc_model *m, tcc_compiled *c, const tcc_graph **out) {
    tcc_grouping grouping;
    TCC_TRY(tcc__model_group(m, c->record->graph, &c->arena, &grouping));
    tcc_pass_options options = tcc__model_pass_options(m, c->train, &grouping);
    options.spec.part = c->part;
    tcc_pass_cx cx = {.cx = m->cx, .diag = &m->cx->diag, .options = &options};
    const char *passes = options.amp ? "amp,simplify,autodiff,train-step,low-copies" : "simplify,autodiff,train-step";
    TCC_TRY(tcc_pipeline_run_named(&cx, &(tcc_manager_options){0}, passes, &c->record->graph, NULL));
    *out = c->record->graph;
    return TCC_OK;
}

tcc_status tcc__record_graph(tcc_model *m, tcc_compiled *c, const tcc_graph **out) {
    if (!c->record->passed) TCC_TRY(run_passes(m, c, NULL));
    *out = c->record->graph;
    return TCC_OK;
}
