/* SPDX-License-Identifier: MIT
 * Labels, source lines and costs of steps, and the program as a table. */
#include "codegen/report.h"

#include "codegen/calls.h"
#include "ir/support/alloc.h"

#include <stdlib.h>
#include <string.h>

static bool has_word(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *p = text; p && *p; p++) {
        if (!strncmp(p, word, length) && (p[length] == '+' || !p[length])) return true;
        p = strchr(p, '+');
        if (!p) break;
    }
    return false;
}

char *tcc_report_label(tcc_arena *arena, const tcc_group *group) {
    enum { LONGEST = 56 };
    tcc_strbuf text = {0};
    tcc_strbuf_add(&text, "");
    for (int i = 0; i < group->n_nodes; i++) {
        const tcc_op_info *info = tcc_op_get_info(group->nodes[i]->op);
        if (info->fusion == TCC_FUSION_VIEW && group->n_nodes > 1) continue;
        if (text.text && has_word(text.text, info->text)) continue;
        if (text.length + strlen(info->text) > LONGEST) {
            tcc_strbuf_add(&text, "+...");
            break;
        }
        tcc_strbuf_printf(&text, "%s%s", text.length ? "+" : "", info->text);
    }
    if (!text.length) tcc_strbuf_add(&text, tcc_op_get_info(group->hero->op)->text);
    char *label = text.failed ? NULL : tcc_arena_strdup(arena, text.text);
    tcc_strbuf_free(&text);
    return label;
}

static int by_place(const void *a, const void *b) {
    const tcc_loc *x = a, *y = b;
    int files = strcmp(x->file, y->file);
    return files ? files : (x->line > y->line) - (x->line < y->line);
}

/* Adds a place, "net.c:41" or "gpt.h.0.attn"; of one that shares all but its last part with the place before, that
 * part. */
static void add_place(tcc_strbuf *out, tcc_loc at, const tcc_loc *before) {
    const char *slash = strrchr(at.file, '/'), *dot = at.line ? NULL : strrchr(at.file, '.');
    const size_t shared = dot ? (size_t)(dot - at.file) + 1 : strlen(at.file);
    const bool follows = before && !before->line == !at.line && !strncmp(at.file, before->file, shared) &&
                         (dot ? !strchr(before->file + shared, '.') : !before->file[shared]);
    if (follows) tcc_strbuf_printf(out, ",%s", dot ? dot + 1 : "");
    else tcc_strbuf_printf(out, "%s%s%s", before ? ";" : "", slash ? slash + 1 : at.file, at.line ? ":" : "");
    if (at.line) tcc_strbuf_printf(out, "%d", at.line);
}

char *tcc_report_lines(tcc_arena *arena, const tcc_group *group) {
    tcc_loc *locs = tcc__malloc(sizeof *locs * ((size_t)group->n_nodes + 1));
    if (!locs) return NULL;
    int n = 0;
    for (int i = 0; i < group->n_nodes; i++)
        if (group->nodes[i]->loc.file) locs[n++] = group->nodes[i]->loc;
    qsort(locs, (size_t)n, sizeof *locs, by_place);
    tcc_strbuf text = {0};
    tcc_strbuf_add(&text, "");
    for (int i = 0; i < n; i++)
        if (!i || by_place(&locs[i], &locs[i - 1])) add_place(&text, locs[i], i ? &locs[i - 1] : NULL);
    tcc__free(locs);
    char *lines = text.failed ? NULL : tcc_arena_strdup(arena, text.text ? text.text : "");
    tcc_strbuf_free(&text);
    return lines;
}

void tcc_program_print_steps(tcc_strbuf *out, const tcc_program *p) {
    tcc_strbuf_printf(out, "program %s: %d steps, %d kernels in %d modules, arena %.1f KB, constants %.1f KB\n",
                      p->name, p->n_steps, p->n_kernels, p->n_modules, (double)p->arena_bytes / 1024,
                      (double)p->constants_bytes / 1024);
    for (int i = 0; i < p->n_steps; i++) {
        const tcc_step *s = &p->steps[i];
        int64_t items = 0;
        for (int k = 0; k < s->n_instances; k++) items += s->instances[k].items;
        const char *how = s->kind == TCC_STEP_KERNEL    ? p->kernels[s->kernel].symbol
                          : s->kind == TCC_STEP_LIBRARY ? s->call->name
                                                        : "copy";
        tcc_strbuf_printf(out, "%4d  %-24s %3d x %6lld items  %9.3f Mflop %9.1f KB  %s  (%s)\n", i, how, s->n_instances,
                          (long long)items, s->flop * 1e-6, s->bytes / 1024, s->label, s->lines);
        const tcc_call call = s->kind == TCC_STEP_LIBRARY ? tcc_call_find(s->call->name) : TCC_CALLS;
        if (call == TCC_CALLS) continue;
        tcc_strbuf_add(out, "      ");
        tcc_call_print_params(out, call, s->call->params);
        tcc_strbuf_add(out, "\n");
    }
}
