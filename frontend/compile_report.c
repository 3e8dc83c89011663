/* SPDX-License-Identifier: MIT
 * What a compiled program is, in numbers and in text. */
#include "compile.h"

#include "passes/plan.h"
#include "runtime/device_cpu.h"
#include "runtime/profile.h"

#include <stdio.h>

static tcc_status need_program(tcc_model *m, tcc_compiled **out) {
    *out = m->last;
    if (m->last) return TCC_OK;
    return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "nothing is compiled yet: call tcc_model_compile or run a batch");
}

tcc_status tcc_model_info(tcc_model *m, tcc_program_info *out) {
    tcc_compiled *c;
    TCC_TRY(need_program(m, &c));
    const tcc_program *p = c->program;
    *out = (tcc_program_info){.programs = m->programs.count,
                              .compile_seconds = c->total_seconds,
                              .arena_bytes = p->arena_bytes,
                              .kernels = p->n_kernels,
                              .steps = p->n_steps};
    int64_t others = 0;
    for (int i = 0; i < p->n_bindings; i++) {
        int64_t bytes = tcc_type_bytes(&p->bindings[i].type);
        if (p->bindings[i].role == TCC_ROLE_PARAM) out->param_bytes += bytes;
        else if (p->bindings[i].role == TCC_ROLE_STATE) out->state_bytes += bytes;
        else others += bytes;
    }
    out->peak_bytes = out->arena_bytes + out->param_bytes + out->state_bytes + others;
    for (int i = 0; i < p->n_steps; i++) {
        out->flop += p->steps[i].flop;
        out->bytes += p->steps[i].bytes;
    }
    return TCC_OK;
}

/* -- Reports: one function a kind of report, in one table -- */

static tcc_status report_tir(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    (void)m;
    tcc_graph_print(b, c->graph, (tcc_print_options){.locs = true});
    return TCC_OK;
}

static tcc_status report_passes(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    (void)m;
    tcc_strbuf_printf(b, "%-14s %10s %8s %8s\n", "pass", "ms", "before", "after");
    for (int i = 0; i < c->passes.passes.count; i++) {
        const tcc_pass_report *r = &c->passes.passes.data[i];
        tcc_strbuf_printf(b, "%-14s %10.2f %8d %8d%s\n", r->pass, r->milliseconds, r->nodes_before, r->nodes_after,
                          r->changed ? "" : "  (unchanged)");
    }
    tcc_strbuf_printf(b, "trace %.1f ms, passes %.1f ms, codegen %.1f ms\n", 1e3 * c->trace_seconds, 1e3 * c->passes_seconds,
                      1e3 * c->codegen_seconds);
    return TCC_OK;
}

static tcc_status report_memory(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    tcc_plan plan;
    TCC_TRY(tcc_plan_read(c->graph, &plan, &m->cx->diag));
    tcc_plan_print(b, c->graph, &plan);
    tcc_plan_free(&plan);
    return TCC_OK;
}

static tcc_status report_kernels(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    tcc_roofline roofline;
    bool measured = m->profile;
    if (measured) TCC_TRY(m->device->ops->measure(m->device, &m->cx->diag, &roofline));
    return tcc_profile_print(c->exec, &m->cx->diag, measured ? &roofline : NULL, b);
}

static const struct {
    const char *name;
    tcc_status (*print)(tcc_model *m, tcc_compiled *c, tcc_strbuf *b);
} reports[] = {{"tir", report_tir}, {"passes", report_passes}, {"memory", report_memory}, {"kernels", report_kernels}};
enum { REPORT_COUNT = sizeof reports / sizeof reports[0] };

tcc_status tcc_model_report(tcc_model *m, const char *what, char **out) {
    tcc_compiled *c;
    *out = NULL;
    TCC_TRY(need_program(m, &c));
    for (int i = 0; i < REPORT_COUNT; i++) {
        if (strcmp(reports[i].name, what)) continue;
        tcc_strbuf text = {0};
        tcc_status status = reports[i].print(m, c, &text);
        if (status == TCC_OK && !(*out = tcc_strbuf_take(&text))) status = tcc_enomem(&m->cx->diag);
        if (status != TCC_OK) tcc_strbuf_free(&text);
        return status;
    }
    return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "no report \"%s\"; there are tir, passes, memory, kernels", what);
}

void tcc_string_free(char *s) { tcc__free(s); }

/* -- Profiling -- */

void tcc_model_profile(tcc_model *m, bool on) { m->profile = on; }

tcc_status tcc_model_write_profile(tcc_model *m, const char *path) {
    tcc_compiled *c;
    TCC_TRY(need_program(m, &c));
    return tcc_profile_write_trace(c->exec, &m->cx->diag, path);
}

/* -- Devices -- */

tcc_status tcc_describe_devices(tcc_context *cx, char **out) {
    tcc_device *device;
    *out = NULL;
    TCC_TRY(tcc_device_cpu_create(cx, 0, &device));
    tcc_strbuf text = {0};
    device->ops->describe(device, &text);
    tcc_device_destroy(device);
    *out = tcc_strbuf_take(&text);
    return *out ? TCC_OK : tcc_enomem(&cx->diag);
}
