/* SPDX-License-Identifier: MIT
 * What a program is, in numbers and in text. */
#include "frontend/run/model.h"

#include "runtime/profile.h"

static tcc_status need_program(tcc_model *m, tcc_compiled **out) {
    *out = m->last;
    if (m->last) return TCC_OK;
    return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                     "nothing is compiled yet: call tcc_model_compile or run a batch");
}

static bool is_kept(const tcc_model *m, const tcc_binding *b) { return !b->idle || tcc__model_keeps_idle(m); }

static bool keeps(const tcc_model *m, const tcc_program *p, const char *name) {
    for (int i = 0; p && i < p->n_bindings; i++)
        if (is_kept(m, &p->bindings[i]) && !strcmp(p->bindings[i].name, name)) return true;
    return false;
}

/* Adds what `runs` runs of a program do, and what it keeps that `other`, which may be NULL, does not. */
static void add_work(const tcc_model *m, const tcc_compiled *c, int runs, const tcc_program *other,
                     tcc_program_info *out) {
    const tcc_program *p = c->program;
    out->kernels += p->n_kernels;
    out->steps += runs * p->n_steps;
    for (int i = 0; i < p->n_bindings; i++) {
        const tcc_binding *b = &p->bindings[i];
        if (!is_kept(m, b) || keeps(m, other, b->name)) continue;
        if (b->role == TCC_ROLE_PARAM) out->param_bytes += tcc_type_bytes(&b->type);
        else if (b->role == TCC_ROLE_STATE) out->state_bytes += tcc_type_bytes(&b->type);
    }
    for (int i = 0; i < p->n_steps; i++) {
        out->flop += runs * p->steps[i].flop;
        out->bytes += runs * p->steps[i].bytes;
    }
}

/* Of all programs of the models that share memory with this one. */
static int64_t peak_bytes(const tcc_model *m) {
    int64_t arena_bytes = 0, kept_bytes = m->shared->kept_bytes;
    for (const tcc_model *each = m->shared->models; each; each = each->sharing) {
        kept_bytes += each->kept_bytes;
        for (int i = 0; i < each->programs.count; i++) {
            const int64_t bytes = each->programs.data[i]->program->arena_bytes;
            if (bytes > arena_bytes) arena_bytes = bytes;
        }
    }
    return arena_bytes + kept_bytes;
}

tcc_status tcc_model_info(tcc_model *m, tcc_program_info *out) {
    tcc_diag_begin(&m->cx->diag);
    tcc_compiled *c;
    TCC_TRY(need_program(m, &c));
    const tcc_program *p = c->program;
    *out = (tcc_program_info){.programs = m->programs.count,
                              .compile_seconds = c->total_seconds,
                              .arena_bytes = p->arena_bytes,
                              .measured = m->measured,
                              .cached_kernels = m->cached_kernels};
    for (int i = 0; i < m->programs.count; i++) {
        out->cached_programs += m->programs.data[i]->from_cache;
        out->saved_seconds += m->programs.data[i]->saved_seconds;
    }
    if (m->ops) out->cache_trouble = m->ops->trouble(m);
    const int parts = c->part == TCC_STEP_MICRO ? (int)tcc__micro_parts(m) : 1;
    const tcc_compiled *const others[] = {c->totals, c->next};
    add_work(m, c, parts, NULL, out);
    for (int i = 0; i < 2; i++) {
        if (!others[i]) continue;
        out->compile_seconds += others[i]->total_seconds;
        if (others[i]->program->arena_bytes > out->arena_bytes) out->arena_bytes = others[i]->program->arena_bytes;
        add_work(m, others[i], i ? 1 : parts * tcc__micro_levels(others[i]->program), p, out);
    }
    out->peak_bytes = peak_bytes(m);
    tcc__compiled_replay_info(c, out);
    return TCC_OK;
}

/* -- Reports -- */

static tcc_status report_kernels(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    tcc_roofline roofline;
    bool measured = m->profile;
    TCC_TRY(tcc__model_need_device(m));
    if (measured) TCC_TRY(m->device->ops->measure(m->device, &m->cx->diag, &roofline));
    if (c->next)
        tcc_strbuf_printf(b, "a step runs %s'train' for each of %lld micro-batches, then 'update'\n",
                          c->totals ? "'totals' and then " : "", (long long)tcc__micro_parts(m));
    const tcc_compiled *const programs[] = {c->totals, c, c->next};
    for (int i = 0; i < 3; i++)
        if (programs[i]) TCC_TRY(tcc_profile_print(programs[i]->exec, &m->cx->diag, measured ? &roofline : NULL, b));
    return TCC_OK;
}

static tcc_status report_ptx(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    const tcc_program *p = c->program;
    if (p->target != TCC_TARGET_CUDA)
        return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "the program is for %s: only one for a GPU has PTX",
                         m->device_name);
    for (int i = 0; i < p->n_modules; i++) tcc_strbuf_add(b, p->modules[i].code);
    return TCC_OK;
}

/* A text of how the program was made. */
static tcc_status report_text(tcc_model *m, tcc_compiled *c, tcc_text which, tcc_strbuf *b) {
    static const char *const names[] = {"totals", "update"};
    tcc_compiled *const others[] = {c->totals, c->next};
    if (!c->text[which]) TCC_TRY(m->ops->write(m, c, which));
    tcc_strbuf_add(b, c->text[which]);
    for (int i = 0; i < 2; i++) {
        if (!others[i]) continue;
        if (which != TCC_TEXT_REMAT) tcc_strbuf_printf(b, "\nthe %s\n", names[i]);
        TCC_TRY(report_text(m, others[i], which, b));
    }
    return TCC_OK;
}

static tcc_status report(tcc_model *m, const char *what, tcc_strbuf *b) {
    static const char *const texts[TCC_TEXTS] = {
        [TCC_TEXT_PASSES] = "passes", [TCC_TEXT_MEMORY] = "memory", [TCC_TEXT_REMAT] = "remat"};
    tcc_compiled *c = m->last;
    const bool ptx = !strcmp(what, "ptx") || (!strcmp(what, "asm") && c && c->program->target == TCC_TARGET_CUDA);
    if (strcmp(what, "verify") && strcmp(what, "tune")) TCC_TRY(need_program(m, &c));
    if (ptx) return report_ptx(m, c, b);
    if (!strcmp(what, "kernels")) return report_kernels(m, c, b);
    if (!strcmp(what, "graphs")) return tcc__report_replay(m, c, b);
    if (!strcmp(what, "ranks")) return tcc__report_ranks(m, c, peak_bytes(m), b);
    if (!strcmp(what, "groups")) {
        tcc__groups_print(m, b);
        return TCC_OK;
    }
    for (int i = 0; i < TCC_TEXTS; i++)
        if (!strcmp(texts[i], what)) return report_text(m, c, (tcc_text)i, b);
    const tcc_status status = m->ops ? m->ops->report(m, c, what, b) : TCC_ENOTFOUND;
    if (status != TCC_ENOTFOUND) return status;
    return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "no report \"%s\"; there are %s", what,
                     m->ops ? "tir, passes, memory, remat, kernels, llvm, asm, ptx, verify, graphs, groups, ranks, tune"
                            : "passes, memory, remat, kernels, ptx, graphs, groups, ranks of a plan's program");
}

tcc_status tcc_model_report(tcc_model *m, const char *what, char **out) {
    tcc_diag_begin(&m->cx->diag);
    *out = NULL;
    if (!what) return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "report: its name is NULL");
    tcc_strbuf text = {0};
    tcc_status status = report(m, what, &text);
    if (status == TCC_OK && !(*out = tcc_strbuf_take(&text))) status = tcc_enomem(&m->cx->diag);
    if (status != TCC_OK) tcc_strbuf_free(&text);
    return status;
}

void tcc_string_free(char *s) { tcc__free(s); }

/* -- Profiling -- */

void tcc_model_profile(tcc_model *m, bool on) { m->profile = on; }

tcc_status tcc_model_write_profile(tcc_model *m, const char *path) {
    tcc_diag_begin(&m->cx->diag);
    tcc_roofline roofline;
    if (!path) return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "write_profile: the path is NULL");
    TCC_TRY(tcc__model_need_device(m));
    TCC_TRY(m->device->ops->measure(m->device, &m->cx->diag, &roofline));
    return tcc__timeline_write(&m->timeline, &m->cx->diag, &roofline, path);
}
