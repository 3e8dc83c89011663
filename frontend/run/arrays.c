/* SPDX-License-Identifier: MIT
 * Arrays of a caller who computes on the model's device: batches that runs read where they lie, and outputs that runs
 * write where the caller wants them. Events order the caller's streams and the device's; nothing waits.
 *
 * A run that is launched may be bound to other addresses than the last. A graph has the addresses with which it was
 * captured. To change them in place would take a call of the driver for each launch that reads the array, and the
 * arguments of libraries' kernels, which we do not know. A copy within the device is cheaper: by its bandwidth, an H100
 * copies a megabyte in 0.6 microseconds. So an array at an address that the graph does not have is copied to memory of
 * the program, where arrays of the host come in too. Where the caller gives one address twice in a row, it is captured,
 * so that what stays in one place is never copied. */
#include "frontend/run/model.h"

enum { MOST_CAPTURES = 4 }; /* for one array; then it is copied for good */

static int64_t bytes_of(const tcc_array *a) {
    const tcc_type type = tcc__array_type(a);
    return tcc_type_bytes(&type);
}

static bool is_on_device(const tcc_array *a) { return a->memory == TCC_MEMORY_DEVICE; }

static bool any_on_device(const tcc_array *arrays, int count) {
    for (int i = 0; i < count; i++)
        if (is_on_device(&arrays[i])) return true;
    return false;
}

/* -- What is refused -- */

tcc_status tcc__array_check(tcc_model *m, const char *what, const tcc_array *a) {
    tcc_diag *diag = &m->cx->diag;
    if ((unsigned)a->memory > TCC_MEMORY_DEVICE)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "%s \"%s\": memory %d is no kind; begin a tcc_array with zeros",
                         what, a->name, (int)a->memory);
    if (!is_on_device(a) || !m->device) return TCC_OK; /* without a device nothing runs */
    if (!m->device->ops->check_memory)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                         "%s \"%s\" lies on a device, and the model computes on the %s: copy it to the host, or create "
                         "the model with device \"cuda\"",
                         what, a->name, m->device_name);
    return m->device->ops->check_memory(m->device, diag, what, a->name, a->data, a->stream);
}

static bool overlap(const tcc_array *a, const tcc_array *b) {
    const char *x = a->data, *y = b->data;
    return a->memory == b->memory && (uintptr_t)x < (uintptr_t)y + (uintptr_t)bytes_of(b) &&
           (uintptr_t)y < (uintptr_t)x + (uintptr_t)bytes_of(a);
}

static tcc_status check_overlap(tcc_model *m, const tcc_array *output, const char *what, const tcc_array *a) {
    if (!overlap(output, a)) return TCC_OK;
    return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "output \"%s\" is placed in the memory of %s \"%s\"",
                     output->name, what, a->name);
}

/* -- The order of streams -- */

typedef tcc_status order_fn(tcc_device *device, tcc_diag *d, void *stream);

static bool has_stream(const tcc_array *arrays, int count, const void *stream) {
    for (int i = 0; i < count; i++)
        if (is_on_device(&arrays[i]) && arrays[i].stream == stream) return true;
    return false;
}

/* Each stream once. */
static tcc_status order(tcc_model *m, order_fn *fn, const tcc_array *batch, int count) {
    const tcc_array *placed = m->placed.data;
    for (int i = 0; i < count; i++)
        if (is_on_device(&batch[i]) && !has_stream(batch, i, batch[i].stream))
            TCC_TRY(fn(m->device, &m->cx->diag, batch[i].stream));
    for (int i = 0; i < m->placed.count; i++)
        if (is_on_device(&placed[i]) && !has_stream(batch, count, placed[i].stream) &&
            !has_stream(placed, i, placed[i].stream))
            TCC_TRY(fn(m->device, &m->cx->diag, placed[i].stream));
    return TCC_OK;
}

tcc_status tcc__arrays_begin(tcc_model *m, const tcc_array *batch, int count) {
    for (int i = 0; i < m->placed.count; i++)
        for (int k = 0; k < count; k++) TCC_TRY(check_overlap(m, &m->placed.data[i], "batch array", &batch[k]));
    return order(m, m->device->ops->follow, batch, count);
}

tcc_status tcc__arrays_end(tcc_model *m, const tcc_array *batch, int count) {
    return order(m, m->device->ops->lead, batch, count);
}

/* -- Batches -- */

/* Whether the steps of the next run are replayed with the addresses that they were captured with. */
static bool keeps_addresses(const tcc_compiled *c) {
    tcc_replay r;
    tcc_exec_get_replay(c->exec, &r);
    return r.stage == TCC_REPLAY_MEASURED || r.stage == TCC_REPLAY_USED;
}

/* Where the next run reads an array that lies at `data` on the device. */
static void *place_of(const tcc_compiled *c, tcc_bound *b, void *data) {
    const bool again = data == b->given;
    b->given = data;
    if ((uintptr_t)data % TCC_CUDA_ALIGNMENT) return b->device;
    if (data == b->at || !keeps_addresses(c)) return data;
    if (!again || b->captures == MOST_CAPTURES) return b->device;
    b->captures++;
    return data;
}

static tcc_status bind_input(tcc_model *m, tcc_compiled *c, int i, const tcc_array *a) {
    tcc_bound *b = &c->bound[i];
    void *at = a->data;
    if (b->feed && is_on_device(a)) at = place_of(c, b, a->data);
    else if (b->feed) b->given = NULL, at = b->device;
    if (b->feed) b->feed->from = is_on_device(a) ? NULL : a->data;
    b->at = at;
    return tcc_exec_bind(c->exec, &m->cx->diag, i, at, tcc_type_bytes(&c->program->bindings[i].type));
}

static const tcc_array *find_placed(const tcc_model *m, const char *name) {
    for (int i = 0; i < m->placed.count; i++)
        if (!strcmp(m->placed.data[i].name, name)) return &m->placed.data[i];
    return NULL;
}

static tcc_status wrong_type(tcc_model *m, const tcc_array *to, const tcc_type *type) {
    const tcc_type given = tcc__array_type(to);
    return tcc_error(&m->cx->diag, given.dtype == type->dtype ? TCC_ESHAPE : TCC_EDTYPE, TCC_NOWHERE,
                     "output \"%s\" is %s, and is placed in an array of %s", to->name, tcc_type_text(type),
                     tcc_type_text(&given));
}

static tcc_status bind_output(tcc_model *m, tcc_compiled *c, int i) {
    tcc_bound *b = &c->bound[i];
    const tcc_type *type = &c->program->bindings[i].type;
    const tcc_array *to = find_placed(m, c->program->bindings[i].name);
    if (!to && !b->placed.data) return TCC_OK;
    const tcc_type given = to ? tcc__array_type(to) : *type;
    if (!tcc_type_equal(&given, type)) return wrong_type(m, to, type);
    b->placed = to ? *to : (tcc_array){0};
    b->placed.name = c->program->bindings[i].name;
    return tcc_exec_bind(c->exec, &m->cx->diag, i, to ? to->data : b->device, b->bytes);
}

tcc_status tcc__arrays_bind(tcc_model *m, tcc_compiled *c, const tcc_array *batch) {
    for (int i = 0; i < c->program->n_bindings; i++) {
        if (c->input_of[i] >= 0) TCC_TRY(bind_input(m, c, i, &batch[c->input_of[i]]));
        if (c->program->bindings[i].role == TCC_ROLE_OUTPUT) TCC_TRY(bind_output(m, c, i));
    }
    return TCC_OK;
}

tcc_status tcc__arrays_copy(tcc_model *m, tcc_compiled *c, const tcc_array *batch) {
    for (int i = 0; i < c->program->n_bindings; i++) {
        const tcc_bound *b = &c->bound[i];
        const int k = c->input_of[i];
        if (k < 0 || !b->feed || !is_on_device(&batch[k]) || b->at != b->device) continue;
        TCC_TRY(m->device->ops->copy(m->device, &m->cx->diag, b->device, batch[k].data, b->bytes));
    }
    return TCC_OK;
}

tcc_status tcc__arrays_to_host(tcc_model *m, const tcc_array *batch, int count, tcc_array **out) {
    tcc_array *host = *out = tcc__calloc((size_t)count + 1, sizeof *host);
    if (!host) return tcc_enomem(&m->cx->diag);
    if (count) memcpy(host, batch, sizeof *host * (size_t)count);
    if (!any_on_device(batch, count)) return TCC_OK;
    tcc_status status = tcc__model_need_device(m);
    if (status == TCC_OK) status = order(m, m->device->ops->follow, batch, count);
    for (int i = 0; i < count && status == TCC_OK; i++) {
        if (!is_on_device(&batch[i])) continue;
        const int64_t bytes = bytes_of(&batch[i]);
        host[i].memory = TCC_MEMORY_HOST;
        if (!(host[i].data = tcc__aligned(64, bytes ? (size_t)bytes : 1))) status = tcc_enomem(&m->cx->diag);
        else status = m->device->ops->download(m->device, &m->cx->diag, host[i].data, batch[i].data, bytes);
    }
    if (status == TCC_OK) return TCC_OK;
    tcc__arrays_free(host, batch, count);
    *out = NULL;
    return status;
}

void tcc__arrays_free(tcc_array *host, const tcc_array *batch, int count) {
    for (int i = 0; i < count && host; i++)
        if (host[i].memory != batch[i].memory) tcc__free(host[i].data);
    tcc__free(host);
}

/* -- Outputs -- */

void tcc__placed_free(tcc_model *m) {
    for (int i = 0; i < m->placed.count; i++) tcc__free((char *)m->placed.data[i].name);
    tcc_vec_free(&m->placed);
}

/* That a program has the output in this type. */
static tcc_status check_output(tcc_model *m, const tcc_array *to) {
    const tcc_type given = tcc__array_type(to), *other = NULL;
    tcc_strbuf known = {0};
    for (int i = 0; i < m->programs.count; i++) {
        const tcc_program *p = m->programs.data[i]->program;
        for (int k = 0; k < p->n_bindings; k++) {
            const tcc_binding *b = &p->bindings[k];
            if (b->role != TCC_ROLE_OUTPUT || tcc_name_is_reserved(b->name)) continue;
            const bool same = !strcmp(b->name, to->name);
            if (same && tcc_type_equal(&b->type, &given)) {
                tcc_strbuf_free(&known);
                return TCC_OK;
            }
            if (same) other = &b->type;
            tcc_strbuf_printf(&known, known.length ? ", %s" : "%s", b->name);
        }
    }
    const tcc_status status =
        other ? wrong_type(m, to, other)
              : tcc_error(&m->cx->diag, TCC_ENOTFOUND, TCC_NOWHERE, "no program has an output \"%s\"%s%s", to->name,
                          m->programs.count ? "; there are: " : ": outputs are there after the first run or compile",
                          known.length ? known.text : "");
    tcc_strbuf_free(&known);
    return status;
}

static tcc_status check_placed(tcc_model *m, const tcc_array *to) {
    tcc_diag *diag = &m->cx->diag;
    if (!to->name || to->rank < 0 || to->rank > TCC_MAX_RANK || (unsigned)to->dtype >= TCC_DTYPE_COUNT)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "place_output: an array without a name, or of no type");
    if (!strcmp(to->name, "loss") || tcc_name_is_reserved(to->name))
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                         "output \"%s\" cannot be placed: tcc_model_step_loss gives the loss without a wait", to->name);
    if (!to->data) return TCC_OK;
    TCC_TRY(tcc__array_check(m, "output", to));
    if (!is_on_device(to) && !m->device->ops->shares_host)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                         "output \"%s\": the model computes on %s and writes no memory of the host; place the output "
                         "on the device, or read it with tcc_model_output",
                         to->name, m->device_name);
    if (!is_on_device(to) && (uintptr_t)to->data % TCC_HOST_ALIGNMENT)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "output \"%s\" begins at %p, which is no multiple of %d bytes",
                         to->name, to->data, TCC_HOST_ALIGNMENT);
    for (int i = 0; i < m->placed.count; i++)
        if (strcmp(m->placed.data[i].name, to->name) != 0) TCC_TRY(check_overlap(m, to, "output", &m->placed.data[i]));
    return check_output(m, to);
}

tcc_status tcc_model_place_output(tcc_model *m, const tcc_array *to) {
    tcc_diag_begin(&m->cx->diag);
    TCC_TRY(tcc__model_can_run(m));
    TCC_TRY(check_placed(m, to));
    int i = 0;
    while (i < m->placed.count && strcmp(m->placed.data[i].name, to->name) != 0) i++;
    if (to->data && i == m->placed.count) {
        tcc_array added = *to;
        if (!(added.name = tcc__strdup(to->name))) return tcc_enomem(&m->cx->diag);
        if (tcc_vec_push(&m->placed, added)) return TCC_OK;
        tcc__free((char *)added.name);
        return tcc_enomem(&m->cx->diag);
    }
    if (i == m->placed.count) return TCC_OK;
    tcc_array *placed = &m->placed.data[i];
    const char *name = placed->name;
    if (to->data) {
        *placed = *to;
        placed->name = name;
        return TCC_OK;
    }
    tcc__free((char *)name);
    *placed = m->placed.data[--m->placed.count];
    return TCC_OK;
}
