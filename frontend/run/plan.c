/* SPDX-License-Identifier: MIT
 * Plans: a model's programs to a file, and a model from it. */
#include "traincc/plan.h"

#include "frontend/run/compiled_file.h"
#include "runtime/files/file.h"

tcc_status tcc_model_save_plan(tcc_model *m, const char *about, const char *path) {
    tcc_diag *diag = &m->cx->diag;
    void *bytes;
    int64_t size_bytes;
    tcc_diag_begin(diag);
    if (!m->programs.count)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                         "no program is compiled yet for a plan: call tcc_model_compile");
    for (int i = 0; i < m->programs.count && m->options.comm; i++)
        if (m->programs.data[i]->train)
            return tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE,
                             "a plan trains on one rank, and the model has training programs for several");
    TCC_TRY(tcc__plan_encode(m, about, &bytes, &size_bytes));
    const tcc_status status = tcc__file_save(diag, path, bytes, (size_t)size_bytes);
    tcc__free(bytes);
    return status;
}

/* A model without programs; *about lies in `memory`. */
static tcc_status decode(tcc_context *cx, const char *path, tcc_arena *memory, const char **about, tcc_model **out) {
    tcc__bytes bytes;
    tcc_model *m = tcc__calloc(1, sizeof *m);
    *about = NULL;
    *out = m;
    if (!m) return tcc_enomem(&cx->diag);
    m->cx = cx;
    TCC_TRY(tcc__plan_load(&cx->diag, path, &bytes));
    const tcc_status status = tcc__plan_decode(m, path, bytes.data, (int64_t)bytes.size, memory, about);
    tcc__free(bytes.data);
    return status;
}

/* Everything is made ready now, so that a machine of another kind is an error of loading. */
static tcc_status get_ready(tcc_model *m, const char *device) {
    int sm;
    TCC_TRY(tcc__model_open_device(m, device ? device : *m->arch ? "cuda" : "cpu", &sm));
    for (int i = 0; i < m->programs.count; i++) TCC_TRY(tcc__compiled_load(m, m->programs.data[i]));
    return tcc__micro_link(m);
}

tcc_status tcc_model_load_plan(tcc_context *cx, const char *path, const char *device, tcc_model **out) {
    tcc_arena memory = {0};
    const char *about;
    tcc_model *m;
    tcc_diag_begin(&cx->diag);
    *out = NULL;
    tcc_status status = decode(cx, path, &memory, &about, &m);
    tcc_arena_free(&memory);
    if (status == TCC_OK) {
        tcc__model_begin_rates(m);
        m->shared->store.seed = m->options.seed;
        status = get_ready(m, device);
        if (status == TCC_EUNSUPPORTED || status == TCC_EFORMAT) tcc_note(&cx->diag, (tcc_loc){path, 0}, "the plan");
    }
    if (status == TCC_OK) *out = m;
    else tcc_model_destroy(m);
    return status;
}

tcc_status tcc_plan_about(tcc_context *cx, const char *path, char **about) {
    tcc_arena memory = {0};
    const char *text;
    tcc_model *m;
    tcc_diag_begin(&cx->diag);
    *about = NULL;
    tcc_status status = decode(cx, path, &memory, &text, &m);
    if (status == TCC_OK && !(*about = tcc__strdup(text ? text : ""))) status = tcc_enomem(&cx->diag);
    tcc_model_destroy(m);
    tcc_arena_free(&memory);
    return status;
}
