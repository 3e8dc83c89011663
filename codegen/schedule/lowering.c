/* SPDX-License-Identifier: MIT
 * What every lowering records: launches, their buffers and keys, temporaries, and calls of libraries. */
#include "codegen/schedule/lowering.h"

#include "codegen/schedule/predict.h"

#include <stdarg.h>
#include <string.h>

tcc_lowering tcc_lowering_of(tcc_arena *arena, tcc_diag *diag, const tcc_graph *g, const tcc_group *group,
                             const tcc_implementation *choice, const tcc_codegen_options *options) {
    return (tcc_lowering){.arena = arena,
                          .diag = diag,
                          .graph = g,
                          .group = group,
                          .target = options->target,
                          .options = options,
                          .params = {.arena = arena, .diag = diag, .node = group->hero, .choice = choice}};
}

tcc_plan_launch *tcc_lowering_add(tcc_lowering *l) {
    const int before = l->launches.count ? l->launches.data[l->launches.count - 1].end_settled : 0;
    const tcc_plan_launch fresh = {.grain = 1, .first_settled = before, .end_settled = l->params.settled.count};
    if (!tcc_vec_push(&l->launches, fresh)) {
        tcc_enomem(l->diag);
        return NULL;
    }
    l->params.launch = l->launches.count; /* what is settled now is of the next one */
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
    tcc_vec_free(&l->algorithms);
    tcc_params_clear(&l->params);
}

tcc_body *tcc_lowering_body(const tcc_lowering *l, const tcc_group *group) {
    return tcc_body_create(l->arena, l->diag, group);
}

tcc_status tcc_lowering_keep(tcc_lowering *l, tcc_body *b) {
    tcc_status status = b->status;
    if (status == TCC_OK && !tcc_vec_push(&l->bodies, b)) status = tcc_enomem(l->diag);
    if (status == TCC_OK) tcc_body_seal(b);
    else tcc_body_free(b);
    return status;
}

bool tcc_lowering_mark_far(const tcc_lowering *l, tcc_body *b) {
    enum { LINE = 64 };
    bool any = false;
    for (int i = 0; l->far && i < b->stores.count; i++) {
        tcc_body_write *s = &b->stores.data[i];
        const tcc_body_buffer *to = &b->buffers.data[s->buffer];
        s->past_caches = to->node && l->far[to->node->id] && !s->guard && !s->kept && !s->sum && !s->part &&
                         to->offset * tcc_dtype_bytes(to->dtype) % LINE == 0;
        any |= s->past_caches;
    }
    return any;
}

void tcc_lowering_describe_settled(const tcc_lowering *l, const tcc_plan_launch *launch, tcc_strbuf *out) {
    for (int i = launch->first_settled; i < launch->end_settled; i++) {
        const tcc_choice_param *p = &l->params.settled.data[i];
        tcc_strbuf_printf(out, "%.*s=%lld ", (int)tcc_params_name_length(p->name), p->name, (long long)p->value);
    }
}

tcc_status tcc_lowering_key(tcc_lowering *l, tcc_plan_launch *launch, const tcc_body *b, int any_extent,
                            const char *format, ...) {
    tcc_strbuf text = {0};
    va_list args;
    va_start(args, format);
    char *extra = tcc_arena_vprintf(l->arena, format, args);
    va_end(args);
    tcc_strbuf_printf(&text, "%s %s ", launch->kernel.schedule, extra ? extra : "");
    tcc_lowering_describe_settled(l, launch, &text);
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

bool tcc_lowering_may_call(const tcc_lowering *l) { return l->params.choice || l->options->takes_call; }

/* -- Calls of libraries -- */

/* The fields of tcc_algorithm_params as parameters of a choice, in their order. */
static const tcc_param algorithm_params[] = {TCC_PARAM_ALGORITHM, TCC_PARAM_BY_TILE,      TCC_PARAM_BY_STAGES,
                                             TCC_PARAM_BY_PARTS,  TCC_PARAM_BY_REDUCTION, TCC_PARAM_BY_SWIZZLE,
                                             TCC_PARAM_BY_OPTION, TCC_PARAM_BY_INNER,     TCC_PARAM_BY_CLUSTER};
enum { ALGORITHM_PARAMS = sizeof algorithm_params / sizeof *algorithm_params, MOST_LISTED = 8 };
_Static_assert(ALGORITHM_PARAMS + 1 == sizeof(tcc_algorithm_params) / sizeof(int64_t), "a parameter for each but rank");
_Static_assert(ALGORITHM_PARAMS + 1 == TCC_LISTED_PARAMS, "and the workspace");

void tcc_lowering_listed_params(const tcc_listed_algorithm *x, tcc_choice_param out[TCC_LISTED_PARAMS]) {
    const int64_t *values = &x->by.algorithm;
    for (int i = 0; i < ALGORITHM_PARAMS; i++)
        out[i] = (tcc_choice_param){tcc_param_name(algorithm_params[i]), values[i]};
    out[ALGORITHM_PARAMS] = (tcc_choice_param){tcc_param_name(TCC_PARAM_WORKSPACE), x->workspace_bytes};
}

static tcc_param_range range_of_algorithm_param(int i) { return tcc_param_between(i ? 0 : 1, INT32_MAX); }

/* What the choice says of it; the rest of an algorithm is 0. */
static void read_algorithm(const tcc_lowering *l, tcc_algorithm_params *by) {
    for (int i = 0; i < ALGORITHM_PARAMS && tcc_params_has(&l->params, TCC_PARAM_ALGORITHM); i++) {
        const int64_t *chosen = tcc_params_chosen(&l->params, algorithm_params[i], range_of_algorithm_param(i));
        (&by->algorithm)[i] = chosen ? *chosen : 0;
    }
}

/* The algorithm of the choice; without one nothing is written down. */
static tcc_status settle_algorithm(tcc_lowering *l, tcc_algorithm_params *by) {
    if (!by || !tcc_params_has(&l->params, TCC_PARAM_ALGORITHM)) return TCC_OK;
    for (int i = 0; i < ALGORITHM_PARAMS; i++)
        TCC_TRY(tcc_params_settle(&l->params, algorithm_params[i], range_of_algorithm_param(i), &by->algorithm + i));
    return TCC_OK;
}

static bool ask_library(const tcc_lowering *l, const char *entry, int64_t *params) {
    return l->options->takes_call && l->options->takes_call(l->options->takes_call_user, entry, params);
}

/* The algorithm that a text prescribes is one that the library has. */
static tcc_status check_algorithm(tcc_lowering *l, const char *entry, const int64_t *params, int n) {
    int64_t *asked = tcc_arena_copy(l->arena, params, sizeof *params * (size_t)n);
    if (!asked) return tcc_enomem(l->diag);
    if (!l->options->takes_call || ask_library(l, entry, asked)) return TCC_OK;
    tcc_strbuf what = {0};
    tcc_call_print_params(&what, tcc_call_find(entry), params);
    const tcc_status status = what.failed
                                  ? tcc_enomem(l->diag)
                                  : tcc_error(l->diag, TCC_EINVAL, l->group->hero->loc,
                                              "the library does not offer the algorithm of \"%s\" that was chosen for "
                                              "%s: %s; choose again, or leave it to the library (TCC_LOG=library says "
                                              "why)",
                                              l->params.choice->name, tcc_node_text(l->group->hero), what.text);
    tcc_strbuf_free(&what);
    return status;
}

static bool ask_quietly(const tcc_lowering *l, const char *entry, int64_t *params) {
    const unsigned topics = l->cx->topics;
    l->cx->topics = 0;
    const bool takes = ask_library(l, entry, params);
    l->cx->topics = topics;
    return takes;
}

/* What the library would take next for the call, one answer after another: one that is declined has a name, and the
 * next may do. That there is no more is not worth a word. */
static tcc_status list_algorithms(tcc_lowering *l, const char *entry, const int64_t *params, int n,
                                  ptrdiff_t workspace) {
    const tcc_call call = tcc_call_find(entry);
    for (int rank = 1; rank <= MOST_LISTED; rank++) {
        int64_t *asked = tcc_arena_copy(l->arena, params, sizeof *params * (size_t)n);
        if (!asked) return tcc_enomem(l->diag);
        tcc_algorithm_params *by = tcc_call_algorithm(call, asked);
        *by = (tcc_algorithm_params){.rank = rank};
        const bool takes = ask_quietly(l, entry, asked);
        const tcc_listed_algorithm x = {*by, asked[workspace]};
        if (!takes && !x.by.algorithm) return TCC_OK;
        if (takes && x.by.algorithm && !tcc_vec_push(&l->algorithms, x)) return tcc_enomem(l->diag);
    }
    return TCC_OK;
}

/* The number of a call among those that were asked about, its workspace, and its algorithm where it has one, are in the
 * choice. */
tcc_status tcc_lowering_takes_call(tcc_lowering *l, const char *entry, int64_t *params, int64_t *workspace_bytes,
                                   bool *takes) {
    const tcc_call call = tcc_call_find(entry);
    const int n = call < TCC_CALLS ? tcc_call_get_info(call)->n_params : 0;
    tcc_algorithm_params *by = n ? tcc_call_algorithm(call, params) : NULL;
    const int64_t *asked = tcc_arena_copy(l->arena, params, sizeof *params * (size_t)n);
    const int64_t *chosen = tcc_params_chosen(&l->params, TCC_PARAM_FORM, tcc_param_between(0, INT32_MAX));
    int64_t form = l->asked++;
    if (!asked) return tcc_enomem(l->diag);
    if (by) read_algorithm(l, by);
    if (tcc_params_has(&l->params, TCC_PARAM_FORM) || !tcc_params_decides(&l->params))
        *takes = !chosen || *chosen == form;
    else *takes = ask_library(l, entry, params);
    if (!*takes) return TCC_OK;
    if (l->lists && by) TCC_TRY(list_algorithms(l, entry, asked, n, workspace_bytes - params));
    TCC_TRY(tcc_params_settle(&l->params, TCC_PARAM_FORM, tcc_param_between(0, form), &form));
    TCC_TRY(settle_algorithm(l, by));
    if (by && by->algorithm && l->params.completes) TCC_TRY(check_algorithm(l, entry, params, n));
    return tcc_params_settle(&l->params, TCC_PARAM_WORKSPACE, tcc_param_between(0, TCC_MAX_TEMPORARY_BYTES),
                             workspace_bytes);
}

tcc_status tcc_lowering_give_up(tcc_lowering *l) {
    const int64_t *form = tcc_params_chosen(&l->params, TCC_PARAM_FORM, tcc_param_between(l->asked, INT64_MAX));
    if (form && l->asked) /* nobody asked about that one */
        return tcc_params_refuse(&l->params, TCC_PARAM_FORM, *form, "from 0 to %d", l->asked - 1);
    l->launches.count = l->temporaries.count = l->params.settled.count = l->params.ranges.count = l->params.launch = 0;
    return TCC_OK;
}
