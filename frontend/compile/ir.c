/* SPDX-License-Identifier: MIT
 * The public face of graphs and passes. A tcc_ir is a tcc_graph. */
#include "traincc/ir.h"

#include "codegen/select.h"
#include "ir/ir.h"
#include "ir/support/alloc.h"
#include "ir/support/context.h"
#include "passes/pipeline/dump.h"
#include "passes/pass.h"
#include "passes/memory/plan.h"
#include "passes/remat/budget.h"

#include <string.h>

tcc_status tcc_ir_parse(tcc_context *cx, const char *text, size_t length, const char *file, tcc_ir **out) {
    tcc_diag_begin(&cx->diag);
    tcc_graph *g;
    TCC_TRY(tcc_graph_parse(text, length, file, &cx->diag, &g));
    tcc_status status = tcc_graph_verify(g, &cx->diag);
    if (status != TCC_OK) tcc_graph_destroy(g);
    else *out = (tcc_ir *)g;
    return status;
}

void tcc_ir_destroy(tcc_ir *ir) { tcc_graph_destroy((tcc_graph *)ir); }

static tcc_status print_plan(tcc_strbuf *b, const tcc_graph *g, tcc_ir_form form, tcc_diag *diag) {
    tcc_plan plan;
    TCC_TRY(tcc_plan_read(g, &plan, diag));
    if (form == TCC_IR_MEMORY) tcc_plan_print(b, g, &plan);
    else tcc_plan_svg(b, g, &plan);
    tcc_plan_free(&plan);
    return TCC_OK;
}

tcc_status tcc_ir_text(tcc_context *cx, const tcc_ir *ir, tcc_ir_form form, char **out) {
    tcc_diag_begin(&cx->diag);
    const tcc_graph *g = (const tcc_graph *)ir;
    tcc_strbuf b = {0};
    tcc_status status = TCC_OK;
    switch (form) {
    case TCC_IR_TIR:
    case TCC_IR_TIR_LOCS: tcc_graph_print(&b, g, (tcc_print_options){.locs = form == TCC_IR_TIR_LOCS}); break;
    case TCC_IR_DOT: tcc_dump_dot(&b, g); break;
    case TCC_IR_MEMORY:
    case TCC_IR_MEMORY_SVG: status = print_plan(&b, g, form, &cx->diag); break;
    }
    if (status != TCC_OK) {
        tcc_strbuf_free(&b);
        return status;
    }
    *out = tcc_strbuf_take(&b);
    return *out ? TCC_OK : tcc_enomem(&cx->diag);
}

void tcc_ir_free_text(char *text) { tcc__free(text); }

static tcc_status find_optimizer(tcc_diag *diag, const char *name, tcc_train_spec *spec) {
    static const char *const names[] = {
#define TCC_OPTIMIZER(id, name, ...) [TCC_##id] = name,
#include "ir/support/optimizer.def"
    };
    enum { COUNT = sizeof names / sizeof names[0] };
    int found = 0;
    spec->no_update = !name || !strcmp(name, "none");
    if (spec->no_update) return TCC_OK;
    while (found < COUNT && strcmp(names[found], name)) found++;
    spec->optimizer = (tcc_optimizer_kind)found;
    if (found < COUNT) return TCC_OK;
    tcc_strbuf all = {0};
    for (int i = 0; i < COUNT; i++) tcc_strbuf_printf(&all, i ? ", %s" : "%s", names[i]);
    const tcc_status status = tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "there is no optimizer '%s': %s", name,
                                        all.text ? all.text : "");
    tcc_strbuf_free(&all);
    return status;
}

static bool take_all(void *user, const char *name, int64_t *params) {
    (void)user;
    (void)name;
    (void)params;
    return true;
}

/* What answers for options->target; *out NULL where that is. */
static tcc_status open_target(tcc_context *cx, const tcc_ir_options *options, tcc_selector **out) {
    *out = NULL;
    if (!options->target) return TCC_OK;
    const bool named = tcc_codegen_names_host(options->target), host = named || !strcmp(options->target, "host");
    if (!host) TCC_TRY(tcc_codegen_check_arch(&cx->diag, options->target));
    const tcc_codegen_options codegen = {.arch = host ? NULL : options->target,
                                         .cpu = named ? options->target : NULL,
                                         .takes_call = options->libraries ? take_all : NULL,
                                         .separate = options->eager};
    return tcc_selector_create(cx, &codegen, false, out);
}

/* What options->amp and amp_ops say; spec->low F32: nothing. */
static tcc_status read_amp(tcc_diag *diag, const tcc_ir_options *options, tcc_amp_spec *spec, tcc_amp_class *classes) {
    spec->low = TCC_F32;
    if (!options->amp) return TCC_OK;
    if (!tcc_dtype_parse(options->amp, strlen(options->amp), &spec->low) || !tcc_dtype_is_narrow(spec->low))
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "mixed precision in '%s': f16 or bf16", options->amp);
    tcc_amp_table(classes);
    spec->classes = classes;
    return options->amp_ops ? tcc_amp_parse(diag, options->amp_ops, classes) : TCC_OK;
}

/* What options->checkpointing and memory_budget say. */
static tcc_status read_budget(tcc_diag *diag, const tcc_ir_options *options, tcc_remat_spec *spec) {
    static const char *const modes[] = {"auto", "none", "segments"};
    const char *mode = options->checkpointing ? options->checkpointing : modes[0], *budget = options->memory_budget;
    bool of_device = false;
    int i = 0;
    while (i < 3 && strcmp(modes[i], mode) != 0) i++;
    if (i == 3) return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "checkpointing '%s': auto, none or segments", mode);
    spec->segments = i == 2;
    if (budget && !tcc_budget_parse(budget, spec, &of_device))
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "memory budget '%s': must be %s", budget, tcc_budget_forms);
    if (of_device)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                         "memory budget '%s': there is no device to ask; give its memory, as in \"80GiB\"", budget);
    if (i == 1 && spec->budget != TCC_BUDGET_NONE)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                         "memory budget '%s' with checkpointing none: then nothing may be computed again to meet it",
                         budget);
    return TCC_OK;
}

tcc_status tcc_ir_run(tcc_context *cx, tcc_ir **ir, const char *passes, const tcc_ir_options *given) {
    tcc_diag_begin(&cx->diag);
    tcc_ir_options options = {0};
    if (given) memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
    if (options.chunk_rows < 0)
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "chunks of %lld rows: must be at least 1, or 0 to choose automatically",
                         (long long)options.chunk_rows);
    tcc_pass_options pass_options = {.train = options.train, .eager = options.eager, .chunk_rows = options.chunk_rows};
    tcc_train_spec *spec = &pass_options.spec;
    TCC_TRY(find_optimizer(&cx->diag, options.optimizer, spec));
    spec->momentum = options.momentum || options.nesterov;
    spec->nesterov = options.nesterov;
    spec->clip_norm = options.clip_norm;
    spec->keep_gradients = options.keep_gradients;
    spec->n_groups = 1;
    tcc_amp_spec amp = {0};
    tcc_amp_class amp_classes[TCC_OP_COUNT];
    TCC_TRY(read_amp(&cx->diag, &options, &amp, amp_classes));
    if (amp.low != TCC_F32) pass_options.amp = &amp;
    tcc_remat_spec remat = {0};
    TCC_TRY(read_budget(&cx->diag, &options, &remat));
    tcc_remat_report remat_report = {0};
    remat.report = &remat_report; /* for the dump */
    if (remat.segments || remat.budget != TCC_BUDGET_NONE) pass_options.remat = &remat;
    tcc_pass_cx pass_cx = {.cx = cx, .diag = &cx->diag, .options = &pass_options};
    tcc_manager_options manager = {.dump_dir = options.dump_dir, .verify = !options.no_verify};
    tcc_selector *selector;
    TCC_TRY(open_target(cx, &options, &selector));
    if (selector) pass_options.target = tcc_selector_target(selector);
    unsigned topics = cx->topics;
    if (options.time) cx->topics |= 1u << TCC_LOG_PASSES;
    tcc_graph *g = (tcc_graph *)*ir;
    tcc_status status = passes ? tcc_pipeline_run_named(&pass_cx, &manager, passes, &g, NULL)
                               : tcc_pipeline_run(&pass_cx, &manager, &g, NULL);
    cx->topics = topics;
    tcc_remat_report_free(&remat_report);
    tcc_selector_destroy(selector);
    *ir = (tcc_ir *)g;
    return status;
}

bool tcc_ir_pass_info(int index, const char **name, const char **doc) {
    const tcc_pass_info *info = index < 0 ? NULL : tcc_pass_get_info((tcc_pass_id)index);
    if (!info) return false;
    *name = info->name;
    *doc = info->doc;
    return true;
}

bool tcc_ir_op_info(int index, const char **name, const char **doc) {
    if (index < 0 || index >= TCC_OP_COUNT) return false;
    *name = tcc_op_get_info((tcc_op)index)->text;
    *doc = tcc_op_get_info((tcc_op)index)->doc;
    return true;
}
