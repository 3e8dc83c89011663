/* SPDX-License-Identifier: MIT
 * One program for each input signature: found, or made when it is first asked for, and made ready to run. */
#include "frontend/run/model.h"

#include "ir/support/fp_mode.h"

/* -- Signatures -- */

/* Says which program is compiled, and what differs from the nearest one that exists. */
static void log_miss(tcc_model *m, bool train, const tcc_array *batch, int count) {
    if (!tcc_log_on(m->cx, TCC_LOG_COMPILE)) return;
    const char *what = train ? "training" : "evaluation";
    for (int i = m->programs.count - 1; i >= 0; i--) {
        const tcc_compiled *c = m->programs.data[i];
        if (c->train != train || c->part == TCC_STEP_UPDATE || c->part == TCC_STEP_TOTALS) continue;
        for (int k = 0; k < count && k < c->n_inputs; k++) {
            if (tcc__same_array(&c->inputs[k], &batch[k])) continue;
            tcc_type had = tcc__array_type(&c->inputs[k]), got = tcc__array_type(&batch[k]);
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
    if (count < 0 || (count && !batch))
        return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "a batch of %d arrays%s", count,
                         batch ? "" : " that are NULL");
    for (int i = 0; i < count; i++) {
        const tcc_array *a = &batch[i];
        if (!a->name || !a->data)
            return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "batch array %d%s%s%s has no %s", i,
                             a->name ? " \"" : "", a->name ? a->name : "", a->name ? "\"" : "",
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
        TCC_TRY(tcc__array_check(m, "batch array", a));
    }
    return TCC_OK;
}

/* What a plan has, for who asks for something else. */
static tcc_status not_in_plan(tcc_model *m, bool train, const tcc_array *batch, int count) {
    tcc_diag *diag = &m->cx->diag;
    tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE,
              "the plan has no %s program for these inputs, and without the model's function none can be compiled",
              train ? "training" : "evaluation");
    for (int i = -1; i < m->programs.count; i++) {
        const tcc_compiled *c = i < 0 ? NULL : m->programs.data[i];
        const tcc_array *arrays = c ? c->inputs : batch;
        tcc_strbuf text = {0};
        for (int k = 0; k < (c ? c->n_inputs : count); k++) {
            const tcc_type type = tcc__array_type(&arrays[k]);
            tcc_strbuf_printf(&text, "%s\"%s\" %s", k ? ", " : "", arrays[k].name, tcc_type_text(&type));
        }
        tcc_note(diag, TCC_NOWHERE, "%s: %s",
                 !c         ? "asked for"
                 : c->train ? "training"
                            : "evaluation",
                 text.text ? text.text : "nothing");
        tcc_strbuf_free(&text);
    }
    return TCC_EUNSUPPORTED;
}

/* Makes a program whose arena, signature and part are there; on failure it is gone. */
static tcc_status make(tcc_model *m, tcc_compiled *c, const tcc_array *batch) {
    tcc_status status = c->train && tcc__ranks_borrow(m)
                            ? TCC_BUG(&m->cx->diag, "rank 0 was not asked for a training program")
                            : m->ops->make(m, c, batch);
    if (status == TCC_OK) status = tcc__compiled_load(m, c);
    if (status == TCC_OK && !tcc_vec_push(&m->programs, c)) status = tcc_enomem(&m->cx->diag);
    tcc__fill_stop(m); /* after an error */
    if (status != TCC_OK) tcc__compiled_destroy(m, c);
    return status;
}

/* The program of that signature, found or made; `whole`: samples of the batch of which it is a part, or 0. */
static tcc_status program_for(tcc_model *m, bool train, tcc_step_part part, int64_t whole, const tcc_array *batch,
                              int count, tcc_compiled **out) {
    if ((*out = tcc__program_find(m, train, part, whole, batch, count))) return TCC_OK;
    if (!m->ops) return not_in_plan(m, train, batch, count);
    if (part != TCC_STEP_TOTALS) log_miss(m, train, batch, count);
    tcc_compiled *c = NULL;
    const tcc_status status = tcc__compiled_create(m, train, batch, count, &c);
    if (status != TCC_OK) {
        tcc__compiled_destroy(m, c);
        return status;
    }
    c->part = part;
    c->whole = whole;
    TCC_TRY(make(m, c, batch));
    *out = c;
    return TCC_OK;
}

/* The update of a micro-batch's sums. */
static tcc_status update_of(tcc_model *m, tcc_compiled *micro, tcc_compiled **out) {
    if ((*out = tcc__update_find(m, micro))) return TCC_OK;
    if (!m->ops)
        return tcc_error(&m->cx->diag, TCC_EFORMAT, TCC_NOWHERE, "the plan lacks the update for its micro-batches");
    tcc_compiled *c = NULL;
    const tcc_status status = tcc__compiled_create(m, true, NULL, 0, &c);
    if (status != TCC_OK) {
        tcc__compiled_destroy(m, c);
        return status;
    }
    c->part = TCC_STEP_UPDATE;
    c->next = micro;
    TCC_TRY(make(m, c, NULL));
    c->next = NULL;
    *out = c;
    return TCC_OK;
}

/* The programs that run before a micro-batch's, and after all of them. */
static tcc_status complete(tcc_model *m, tcc_compiled *micro, const tcc_array *slice) {
    if (!micro->next) TCC_TRY(update_of(m, micro, &micro->next));
    if (micro->totals || !tcc__micro_levels(micro->program)) return TCC_OK;
    return program_for(m, true, TCC_STEP_TOTALS, micro->whole, slice, micro->n_inputs, &micro->totals);
}

tcc_status tcc__micro_program(tcc_model *m, const tcc_array *slice, int count, tcc_compiled **out) {
    TCC_TRY(program_for(m, true, tcc__micro_part(m), m->micro_whole, slice, count, out));
    return (*out)->part == TCC_STEP_MICRO ? complete(m, *out, slice) : TCC_OK;
}

tcc_status tcc__micro_link(tcc_model *m) {
    for (int i = 0; i < m->programs.count; i++) {
        tcc_compiled *c = m->programs.data[i];
        if ((c->train && tcc__model_accumulates(m)) != (c->part != TCC_STEP_WHOLE))
            return tcc_error(&m->cx->diag, TCC_EFORMAT, TCC_NOWHERE, "program %d of the plan is no part of its steps",
                             i);
        if (c->part == TCC_STEP_MICRO) TCC_TRY(complete(m, c, c->inputs));
    }
    return TCC_OK;
}

/* Of a step in micro-batches: that of a smaller rest too, and the update. */
static tcc_status micro_programs(tcc_model *m, const tcc_array *batch, int count, tcc_compiled **out) {
    TCC_TRY(tcc__micro_check(m, batch, count));
    if (m->options.comm) TCC_TRY(tcc__ranks_begin(m, true, batch, count));
    const int64_t rest = batch[0].dims[0] % tcc__micro_samples(m, batch);
    if (rest) TCC_TRY(tcc__micro_program(m, tcc__micro_cut(m, batch, count, batch[0].dims[0] - rest), count, out));
    TCC_TRY(tcc__micro_program(m, tcc__micro_cut(m, batch, count, 0), count, out));
    return m->options.comm ? tcc__ranks_compare(m) : TCC_OK;
}

tcc_status tcc__model_compiled(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_compiled **out) {
    TCC_TRY(tcc__model_check_batch(m, batch, count));
    if (train && tcc__model_accumulates(m)) return micro_programs(m, batch, count, out);
    return program_for(m, train, TCC_STEP_WHOLE, 0, batch, count, out);
}

tcc_status tcc_model_compile(tcc_model *m, bool train, const tcc_array *batch, int count) {
    tcc_diag_begin(&m->cx->diag);
    const tcc_fp_mode mode = tcc_fp_begin();
    tcc_status status = TCC_OK;
    if (m->options.comm && !train) status = tcc__model_check_batch(m, batch, count);
    if (m->options.comm && !train && status == TCC_OK) status = tcc__ranks_begin(m, false, batch, count);
    if (status == TCC_OK) status = tcc__model_compiled(m, train, batch, count, &m->last);
    if (status != TCC_OK && m->options.comm) tcc__ranks_fail(m);
    tcc_fp_end(mode);
    return status;
}
