/* SPDX-License-Identifier: MIT
 * Programs of a model: their signatures, and what makes them ready to run. */
#include "frontend/run/model.h"

#include "ir/support/clock.h"

/* -- Signatures -- */

bool tcc__same_array(const tcc_array *a, const tcc_array *b) {
    return a->dtype == b->dtype && a->rank == b->rank && !strcmp(a->name, b->name) &&
           !memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->rank);
}

static bool signature_matches(const tcc_compiled *c, bool train, tcc_step_part part, int64_t whole,
                              const tcc_array *batch, int count) {
    if (c->train != train || c->part != part || c->whole != whole || c->n_inputs != count) return false;
    for (int i = 0; i < count; i++)
        if (!tcc__same_array(&c->inputs[i], &batch[i])) return false;
    return true;
}

static tcc_status keep_signature(tcc_compiled *c, const tcc_array *batch, int count, tcc_diag *diag) {
    c->n_inputs = count;
    c->inputs = tcc_arena_copy(&c->arena, batch, sizeof *batch * (size_t)count);
    if (!c->inputs) return tcc_enomem(diag);
    for (int i = 0; i < count; i++) {
        c->inputs[i].data = c->inputs[i].stream = NULL;
        c->inputs[i].memory = TCC_MEMORY_HOST;
        if (!(c->inputs[i].name = tcc_arena_strdup(&c->arena, batch[i].name))) return tcc_enomem(diag);
    }
    return TCC_OK;
}

tcc_status tcc__compiled_create(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_compiled **out) {
    tcc_compiled *c = tcc__calloc(1, sizeof *c);
    if (!c) return tcc_enomem(&m->cx->diag);
    c->train = train;
    c->loss = -1;
    *out = c;
    return keep_signature(c, batch, count, &m->cx->diag);
}

tcc_compiled *tcc__program_find(const tcc_model *m, bool train, tcc_step_part part, int64_t whole,
                                const tcc_array *batch, int count) {
    for (int i = 0; i < m->programs.count; i++)
        if (signature_matches(m->programs.data[i], train, part, whole, batch, count)) return m->programs.data[i];
    return NULL;
}

tcc_compiled *tcc__update_find(const tcc_model *m, const tcc_compiled *micro) {
    for (int i = 0; i < m->programs.count; i++) {
        tcc_compiled *c = m->programs.data[i];
        if (c->part == TCC_STEP_UPDATE && tcc__micro_is_update_of(c->program, micro->program)) return c;
    }
    return NULL;
}

/* -- Life -- */

void tcc__compiled_destroy(tcc_model *m, tcc_compiled *c) {
    if (!c) return;
    tcc__timeline_forget(&m->timeline, c->exec);
    tcc_exec_destroy(c->exec);
    tcc__compiled_unbind(m, c);
    tcc_program_destroy(c->program);
    if (c->record) m->ops->forget(c);
    tcc_arena_free(&c->arena);
    tcc__free(c);
}

tcc_status tcc__compiled_load(tcc_model *m, tcc_compiled *c) {
    const bool runs = !m->options.compile_only;
    const double start = tcc_clock_seconds();
    if (m->filling.store) TCC_TRY(tcc__fill_end(m)); /* before it is asked what memory is free */
    const double waited = tcc_clock_seconds();
    TCC_TRY(tcc__compiled_check(m, c)); /* before memory is taken by types that do not fit each other */
    if (m->device) TCC_TRY(tcc__model_fit(m, c->program));
    const double before = tcc_clock_seconds();
    if (runs) TCC_TRY(tcc__fill_end(m));
    const double filled = tcc_clock_seconds(), filling = filled - before + waited - start;
    const tcc_code_store *store = m->ops ? m->ops->code_store(m) : NULL;
    if (m->device) TCC_TRY(tcc_exec_create_without_arena(m->cx, m->device, c->program, store, &c->exec));
    if (m->device && m->options.comm) tcc__ranks_connect(m, c->exec);
    if (m->device && runs) {
        TCC_TRY(tcc__model_share_arena(m, c));
        TCC_TRY(tcc__compiled_set_replay(m, c));
        TCC_TRY(tcc__compiled_bind(m, c));
    }
    tcc__model_count_memory(m, c);
    const double done = tcc_clock_seconds();
    c->total_seconds = c->trace_seconds + c->passes_seconds + c->codegen_seconds + (done - start) - filling;
    tcc_logf(m->cx, TCC_LOG_COMPILE,
             "%s: %d steps of %d kernels, arena %lld bytes, %.0f ms (trace %.0f, passes %.0f, codegen %.0f, initial "
             "values %.0f, loading %.0f)",
             c->program->name, c->program->n_steps, c->program->n_kernels, (long long)c->program->arena_bytes,
             1e3 * c->total_seconds, 1e3 * c->trace_seconds, 1e3 * c->passes_seconds, 1e3 * c->codegen_seconds,
             1e3 * filling, 1e3 * (done - filled));
    return TCC_OK;
}
