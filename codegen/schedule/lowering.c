/* SPDX-License-Identifier: MIT
 * What every lowering writes down: launches, their buffers and keys, temporaries, and calls of libraries. */
#include "codegen/schedule/lowering.h"
#include "codegen/schedule/predict.h"

#include <stdarg.h>
#include <string.h>

tcc_plan_launch *tcc_lowering_add(tcc_lowering *l) {
    if (!tcc_vec_push(&l->launches, (tcc_plan_launch){.grain = 1})) {
        tcc_enomem(l->diag);
        return NULL;
    }
    return &l->launches.data[l->launches.count - 1];
}

int tcc_lowering_temporary(tcc_lowering *l, int64_t size_bytes) {
    if (!tcc_vec_push(&l->temporaries, size_bytes)) {
        tcc_enomem(l->diag);
        return -1;
    }
    return l->temporaries.count - 1;
}

void tcc_lowering_clear(tcc_lowering *l) {
    for (int i = 0; i < l->bodies.count; i++) tcc_body_free(l->bodies.data[i]);
    tcc_vec_free(&l->bodies);
    tcc_vec_free(&l->launches);
    tcc_vec_free(&l->temporaries);
    tcc_vec_free(&l->params);
}

tcc_status tcc_lowering_keep(tcc_lowering *l, tcc_body *b) {
    tcc_status status = b->status;
    if (status == TCC_OK && !tcc_vec_push(&l->bodies, b)) status = tcc_enomem(l->diag);
    if (status == TCC_OK) tcc_body_seal(b);
    else tcc_body_free(b);
    return status;
}

tcc_status tcc_lowering_key(tcc_lowering *l, tcc_plan_launch *launch, const tcc_body *b, int any_extent,
                            const char *format, ...) {
    tcc_strbuf text = {0};
    va_list args;
    va_start(args, format);
    char *extra = tcc_arena_vprintf(l->arena, format, args);
    va_end(args);
    tcc_strbuf_printf(&text, "%s %s ", launch->kernel.schedule, extra ? extra : "");
    if (l->target->aligned_vectors) { /* which accesses can be wide depends on where buffers begin */
        tcc_strbuf_printf(&text, "threads=%d/%d/%d align", launch->kernel.shape.group, launch->kernel.shape.split,
                          launch->kernel.shape.threads);
        for (int i = 0; i < launch->kernel.n_buffers; i++)
            tcc_strbuf_printf(&text, " %d", (int)(launch->buffers[i].offset_bytes % 16));
        tcc_strbuf_add(&text, " ");
    }
    tcc_body_describe(b, any_extent, &text);
    launch->kernel.key = extra && !text.failed ? tcc_arena_strdup(l->arena, text.text) : NULL;
    tcc_strbuf_free(&text);
    return launch->kernel.key ? TCC_OK : tcc_enomem(l->diag);
}

tcc_status tcc_lowering_use_body(tcc_lowering *l, tcc_plan_launch *launch, const tcc_body *b) {
    if (b->buffers.count > TCC_EMIT_MAX_BUFFERS * 4)
        return tcc_error(l->diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "a fused group touches %d buffers", b->buffers.count);
    launch->kernel.n_buffers = b->buffers.count;
    launch->body = b;
    launch->first_of_body = 0;
    launch->buffers = TCC_ARENA_ARRAY(l->arena, tcc_plan_buffer, b->buffers.count + 1);
    if (!launch->buffers) return tcc_enomem(l->diag);
    for (int i = 0; i < b->buffers.count; i++) {
        const tcc_body_buffer *from = &b->buffers.data[i];
        launch->buffers[i] = (tcc_plan_buffer){from->node,
                                               from->temporary,
                                               from->literal,
                                               from->literal_bytes,
                                               from->offset * tcc_dtype_bytes(from->dtype),
                                               from->written};
    }
    launch->flop = tcc_body_flop(b);
    launch->bytes = tcc_predict_body_bytes(b);
    return TCC_OK;
}

bool tcc_body_in_step(const tcc_kernel_plan *plan, const tcc_body *body, const tcc_expr *load, const tcc_store *store) {
    (void)plan;
    return tcc_body_same_element(body, load, store);
}

tcc_status tcc_lowering_param(tcc_lowering *l, const char *name, int64_t value) {
    return tcc_vec_push(&l->params, (tcc_choice_param){name, value}) ? TCC_OK : tcc_enomem(l->diag);
}

static int64_t chosen_param(const tcc_implementation *x, const char *name) {
    for (int i = 0; i < x->n_params; i++)
        if (!strcmp(x->params[i].name, name)) return x->params[i].value;
    return -1;
}

static const char *numbered(tcc_lowering *l, const char *name, int number) {
    return number ? tcc_arena_printf(l->arena, "%s_%d", name, number) : name;
}

tcc_status tcc_lowering_read_params(tcc_lowering *l, const char *const *names, int n, int number, int64_t *values) {
    for (int i = 0; i < n && l->choice; i++) {
        const char *name = numbered(l, names[i], number);
        if (!name) return tcc_enomem(l->diag);
        values[i] = chosen_param(l->choice, name);
        if (values[i] < 1)
            return tcc_error(l->diag, TCC_EINVAL, l->group->hero->loc, "\"%s\" has no parameter %s above 0 for %s",
                             l->choice->name, name, tcc_node_text(l->group->hero));
    }
    return TCC_OK;
}

tcc_status tcc_lowering_say_params(tcc_lowering *l, const char *const *names, int n, int number,
                                   const int64_t *values) {
    for (int i = 0; i < n; i++) {
        const char *name = numbered(l, names[i], number);
        if (!name) return tcc_enomem(l->diag);
        TCC_TRY(tcc_lowering_param(l, name, values[i]));
    }
    return TCC_OK;
}

/* The number of a call among those that were asked about, and its workspace, are in the choice. */
bool tcc_lowering_takes_call(tcc_lowering *l, const char *entry, int64_t *params, int64_t *workspace_bytes) {
    const int form = l->asked++;
    if (l->choice) {
        if (chosen_param(l->choice, "form") != form) return false;
        *workspace_bytes = chosen_param(l->choice, "workspace");
    } else if (!l->options->takes_call || !l->options->takes_call(l->options->takes_call_user, entry, params)) {
        return false;
    }
    return tcc_lowering_param(l, "form", form) == TCC_OK &&
           tcc_lowering_param(l, "workspace", *workspace_bytes) == TCC_OK;
}

tcc_status tcc_lowering_give_up(tcc_lowering *l) {
    l->launches.count = l->temporaries.count = l->params.count = 0;
    return TCC_OK;
}
