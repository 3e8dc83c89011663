/* SPDX-License-Identifier: MIT
 * Reports on how a program was made; frontend/run/report.c reports what the program is. */
#include "frontend/compile/compile.h"

#include "passes/memory/plan.h"
#include "passes/remat/print.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* -- Texts that are kept with the program -- */

static tcc_status write_passes(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    (void)m;
    tcc_strbuf_printf(b, "%-14s %10s %8s %8s\n", "pass", "ms", "before", "after");
    for (int i = 0; i < c->record->passes.passes.count; i++) {
        const tcc_pass_report *r = &c->record->passes.passes.data[i];
        tcc_strbuf_printf(b, "%-14s %10.2f %8d %8d%s\n", r->pass, r->milliseconds, r->nodes_before, r->nodes_after,
                          r->changed ? "" : "  (unchanged)");
    }
    tcc_strbuf_printf(b, "trace %.1f ms, passes %.1f ms, codegen %.1f ms\n", 1e3 * c->trace_seconds,
                      1e3 * c->passes_seconds, 1e3 * c->codegen_seconds);
    return TCC_OK;
}

static tcc_status write_remat(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    if (c->record->remat.frontier.count) tcc_remat_print(b, &m->compiler->remat, &c->record->remat);
    return TCC_OK;
}

static tcc_status write_memory(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    tcc_plan plan;
    TCC_TRY(write_remat(m, c, b));
    if (c->record->remat.frontier.count) tcc_strbuf_add(b, "\n");
    TCC_TRY(tcc_plan_read(c->record->graph, &plan, &m->cx->diag));
    tcc_plan_print(b, c->record->graph, &plan);
    tcc_plan_free(&plan);
    return TCC_OK;
}

tcc_status tcc__record_write(tcc_model *m, tcc_compiled *c, tcc_text which) {
    static tcc_status (*const writers[TCC_TEXTS])(tcc_model *, tcc_compiled *, tcc_strbuf *) = {
        [TCC_TEXT_PASSES] = write_passes, [TCC_TEXT_MEMORY] = write_memory, [TCC_TEXT_REMAT] = write_remat};
    if (c->text[which]) return TCC_OK;
    tcc_strbuf text = {0};
    tcc_status status = writers[which](m, c, &text);
    if (status == TCC_OK &&
        (text.failed || !(c->text[which] = tcc_arena_strdup(&c->arena, text.text ? text.text : ""))))
        status = tcc_enomem(&m->cx->diag);
    tcc_strbuf_free(&text);
    return status;
}

/* -- Reports of the graph and its kernels -- */

static tcc_status report_tir(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    const tcc_graph *g;
    TCC_TRY(tcc__plan_beside(m, c));
    TCC_TRY(tcc__record_graph(m, c, &g));
    tcc_graph_print(b, g, (tcc_print_options){.locs = true});
    return TCC_OK;
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

static tcc_status report_code(tcc_model *m, tcc_compiled *c, const char *ending, tcc_strbuf *b) {
    tcc_diag *diag = &m->cx->diag;
    const char *parent = getenv("TMPDIR");
    char folder[PATH_MAX];
    int length = snprintf(folder, sizeof folder, "%s/traincc-XXXXXX", parent && *parent ? parent : "/tmp");
    if (length >= PATH_MAX || !mkdtemp(folder))
        return tcc_error(diag, TCC_EIO, TCC_NOWHERE, "cannot make the folder %s: %s", folder, strerror(errno));
    tcc_program *program = NULL;
    const tcc_graph *g;
    tcc_status status = tcc__plan_beside(m, c);
    if (status == TCC_OK) status = tcc__record_graph(m, c, &g);
    if (status == TCC_OK) status = tcc__model_codegen(m, g, folder, &program);
    tcc_status taken = take_folder(folder, c->program->name, ending, b, diag);
    tcc_program_destroy(program);
    return status == TCC_OK ? taken : status;
}

static tcc_status report_llvm(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) { return report_code(m, c, "ll", b); }
static tcc_status report_asm(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) { return report_code(m, c, "s", b); }

static tcc_status report_verify(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    (void)c;
    if (!m->compiler->verified)
        return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "nothing was verified yet: call tcc_model_verify");
    tcc_strbuf_add(b, m->compiler->verified);
    return TCC_OK;
}

static tcc_status report_tune(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    (void)c;
    if (m->compiler->tuning) tcc__tune_print(m, b);
    return TCC_OK;
}

tcc_status tcc__record_report(tcc_model *m, tcc_compiled *c, const char *what, tcc_strbuf *out) {
    static const struct {
        const char *name;
        tcc_status (*print)(tcc_model *m, tcc_compiled *c, tcc_strbuf *b);
        bool of_graph;
    } reports[] = {{"tir", report_tir, true},
                   {"llvm", report_llvm, true},
                   {"asm", report_asm, true},
                   {"verify", report_verify, false},
                   {"tune", report_tune, false}};
    for (size_t i = 0; i < sizeof reports / sizeof reports[0]; i++) {
        if (strcmp(reports[i].name, what) != 0) continue;
        if (reports[i].of_graph && !c->record)
            return tcc_error(&m->cx->diag, TCC_EUNSUPPORTED, TCC_NOWHERE,
                             "report \"%s\": rank 0 made the program; ask there", what);
        return reports[i].print(m, c, out);
    }
    return TCC_ENOTFOUND;
}
