/* SPDX-License-Identifier: MIT
 * What a compiled program is, in numbers and in text. */
#include "compile.h"

#include "passes/plan.h"
#include "passes/remat_print.h"
#include "runtime/profile.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static tcc_status need_program(tcc_model *m, tcc_compiled **out) {
    *out = m->last;
    if (m->last) return TCC_OK;
    return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                     "nothing is compiled yet: call tcc_model_compile or run a batch");
}

tcc_status tcc_model_info(tcc_model *m, tcc_program_info *out) {
    tcc_diag_begin(&m->cx->diag);
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
    tcc_strbuf_printf(b, "trace %.1f ms, passes %.1f ms, codegen %.1f ms\n", 1e3 * c->trace_seconds,
                      1e3 * c->passes_seconds, 1e3 * c->codegen_seconds);
    return TCC_OK;
}

static tcc_status report_remat(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    if (c->remat.frontier.count) tcc_remat_print(b, &m->remat, &c->remat);
    return TCC_OK;
}

static tcc_status report_memory(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    tcc_plan plan;
    TCC_TRY(report_remat(m, c, b));
    if (c->remat.frontier.count) tcc_strbuf_add(b, "\n");
    TCC_TRY(tcc_plan_read(c->graph, &plan, &m->cx->diag));
    tcc_plan_print(b, c->graph, &plan);
    tcc_plan_free(&plan);
    return TCC_OK;
}

static tcc_status report_kernels(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    tcc_roofline roofline;
    bool measured = m->profile;
    TCC_TRY(tcc__model_need_device(m));
    if (measured) TCC_TRY(m->device->ops->measure(m->device, &m->cx->diag, &roofline));
    return tcc_profile_print(c->exec, &m->cx->diag, measured ? &roofline : NULL, b);
}

/* -- The kernels as text: generated once more, into a folder that lives as long as the call -- */

static void append_file(tcc_strbuf *b, const char *path) {
    char piece[4096];
    FILE *f = fopen(path, "r");
    for (size_t n; f && (n = fread(piece, 1, sizeof piece, f));) tcc_strbuf_addn(b, piece, n);
    if (f) fclose(f);
}

/* Appends the modules' files, which are numbered from 0, and removes the folder with all that is in it. */
static tcc_status take_folder(const char *folder, const char *program, const char *ending, tcc_strbuf *b,
                              tcc_diag *diag) {
    tcc_strbuf path = {0};
    for (int i = 0;; i++) {
        path.length = 0;
        tcc_strbuf_printf(&path, "%s/%s.module%02d.%s", folder, program, i, ending);
        if (path.failed || access(path.text, R_OK)) break;
        append_file(b, path.text);
    }
    DIR *entries = opendir(folder);
    for (const struct dirent *e; entries && (e = readdir(entries));) {
        path.length = 0;
        tcc_strbuf_printf(&path, "%s/%s", folder, e->d_name);
        if (!path.failed) unlink(path.text); /* not "." and "..": those it refuses */
    }
    if (entries) closedir(entries);
    tcc_strbuf_free(&path);
    if (!rmdir(folder) && b->length) return TCC_OK;
    return tcc_error(diag, TCC_EIO, TCC_NOWHERE, "cannot read the kernels back from %s", folder);
}

static tcc_status report_code(tcc_model *m, const tcc_compiled *c, const char *ending, tcc_strbuf *b) {
    tcc_diag *diag = &m->cx->diag;
    const char *parent = getenv("TMPDIR");
    char folder[PATH_MAX];
    int length = snprintf(folder, sizeof folder, "%s/traincc-XXXXXX", parent && *parent ? parent : "/tmp");
    if (length >= PATH_MAX || !mkdtemp(folder))
        return tcc_error(diag, TCC_EIO, TCC_NOWHERE, "cannot make the folder %s: %s", folder, strerror(errno));
    tcc_program *program = NULL;
    tcc_status status = tcc__model_codegen(m, c->graph, folder, &program);
    tcc_status taken = take_folder(folder, c->program->name, ending, b, diag);
    tcc_program_destroy(program);
    return status == TCC_OK ? taken : status;
}

static tcc_status report_llvm(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) { return report_code(m, c, "ll", b); }

static tcc_status report_ptx(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    const tcc_program *p = c->program;
    if (p->target != TCC_TARGET_CUDA)
        return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "the program is for %s: only one for a GPU has PTX",
                         m->device_name);
    for (int i = 0; i < p->n_modules; i++) tcc_strbuf_add(b, p->modules[i].code);
    return TCC_OK;
}

static tcc_status report_asm(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    return c->program->target == TCC_TARGET_CUDA ? report_ptx(m, c, b) : report_code(m, c, "s", b);
}

static tcc_status report_verify(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    (void)c;
    if (!m->verified)
        return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "nothing was verified yet: call tcc_model_verify");
    tcc_strbuf_add(b, m->verified);
    return TCC_OK;
}

static const struct {
    const char *name;
    bool needs_program;
    tcc_status (*print)(tcc_model *m, tcc_compiled *c, tcc_strbuf *b);
} reports[] = {{"tir", true, report_tir},     {"passes", true, report_passes},   {"memory", true, report_memory},
               {"remat", true, report_remat}, {"kernels", true, report_kernels}, {"llvm", true, report_llvm},
               {"asm", true, report_asm},     {"ptx", true, report_ptx},         {"verify", false, report_verify}};
enum { REPORT_COUNT = sizeof reports / sizeof reports[0] };

tcc_status tcc_model_report(tcc_model *m, const char *what, char **out) {
    tcc_diag_begin(&m->cx->diag);
    tcc_compiled *c = NULL;
    *out = NULL;
    for (int i = 0; i < REPORT_COUNT; i++) {
        if (strcmp(reports[i].name, what)) continue;
        if (reports[i].needs_program) TCC_TRY(need_program(m, &c));
        tcc_strbuf text = {0};
        tcc_status status = reports[i].print(m, c, &text);
        if (status == TCC_OK && !(*out = tcc_strbuf_take(&text))) status = tcc_enomem(&m->cx->diag);
        if (status != TCC_OK) tcc_strbuf_free(&text);
        return status;
    }
    return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                     "no report \"%s\"; there are tir, passes, memory, remat, kernels, llvm, asm, ptx, verify", what);
}

void tcc_string_free(char *s) { tcc__free(s); }

/* -- Profiling -- */

void tcc_model_profile(tcc_model *m, bool on) { m->profile = on; }

tcc_status tcc_model_write_profile(tcc_model *m, const char *path) {
    tcc_diag_begin(&m->cx->diag);
    tcc_compiled *c;
    TCC_TRY(need_program(m, &c));
    TCC_TRY(tcc__model_need_device(m));
    return tcc_profile_write_trace(c->exec, &m->cx->diag, path);
}
