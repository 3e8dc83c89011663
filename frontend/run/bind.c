/* SPDX-License-Identifier: MIT
 * Binding: memory for each name that a program reads or writes. Parameters, buffers and moments belong to the model and
 * are shared by its programs. Outputs, hyper-parameters and the random key belong to one program, and so does the batch
 * on a device that does not share the host's memory. */
#include "frontend/run/model.h"

#include "ir/support/train_step.h"
#include "runtime/program.h"

#include <math.h>

/* "critic/fc1.weight.m": the states of models that share have different names for the user. */
static tcc_status name_state(tcc_model *m, tcc_stored *p) {
    if (m->name && !p->shown) p->shown = tcc_arena_printf(&m->moments.arena, "%s/%s", m->name, p->name);
    return m->name && !p->shown ? tcc_enomem(&m->cx->diag) : TCC_OK;
}

/* The states that passes added: optimizer moments and the like, of all programs of the model, and copies of weights, of
 * all models that share these. */
static tcc_status add_states(tcc_model *m, tcc_compiled *c) {
    tcc_diag *diag = &m->cx->diag;
    for (int i = 0; i < c->program->n_bindings; i++) {
        const tcc_binding *b = &c->program->bindings[i];
        int index = tcc_store_find(&m->shared->store, b->name);
        if (b->role != TCC_ROLE_PARAM && b->role != TCC_ROLE_STATE) continue;
        if (tcc__model_uses(m, index)) {
            if (!b->idle && !tcc_vec_push(&c->wholes, index)) return tcc_enomem(diag);
            continue;
        }
        const bool derived = tcc__source_of(b);
        TCC_TRY(tcc__state_add(derived ? &m->shared->copies : &m->moments, b, diag, &index));
        if (!derived) TCC_TRY(name_state(m, &m->moments.entries.data[index]));
        if (!derived) tcc__shard_mark(m, &m->moments.entries.data[index]);
        else if (!tcc_vec_push(&c->reads, index)) return tcc_enomem(diag);
        if (tcc_own_of(b->name) && m->options.comm)
            m->shared->copies.entries.data[index].from = tcc_comm_rank(m->options.comm) * tcc_type_numel(&b->type);
    }
    TCC_TRY(tcc_store_fill(&m->shared->copies, diag));
    return tcc_store_fill(&m->moments, diag);
}

/* Memory for a binding that is this program's own. */
static tcc_status own_memory(tcc_model *m, tcc_compiled *c, int i, void **out) {
    const tcc_binding *b = &c->program->bindings[i];
    tcc_bound *bound = &c->bound[i];
    int64_t bytes = tcc_type_bytes(&b->type);
    TCC_TRY(tcc__device_alloc(m, bytes, b->name, out));
    *bound = (tcc_bound){.device = *out, .bytes = bytes};
    if (m->device->ops->shares_host) bound->host = *out;
    return TCC_OK;
}

static bool is_micro(const tcc_binding *b) { return !strcmp(b->name, TCC_MICRO_INPUT); }

/* What a binding is given has its type: a program that was read from a file is not trusted to fit its model. A state
 * that the model does not have yet is made of the binding's type. */
static bool is_fitting(tcc_model *m, const tcc_compiled *c, const tcc_binding *b) {
    const tcc_type hyper = {TCC_F32, 1, {b->type.dims[0]}}, rng = {TCC_I64, 1, {2}}, loss = {TCC_F32, 0, {0}};
    const tcc_stored *stored;
    switch (b->role) {
    case TCC_ROLE_PARAM:
    case TCC_ROLE_STATE:
        stored = tcc__model_stored(m, b->name);
        return !stored || tcc_type_equal(&stored->type, &b->type);
    case TCC_ROLE_HYPER:
        return tcc_type_equal(&b->type, &hyper) &&
               b->type.dims[0] <= (is_micro(b) ? (int64_t)TCC_MICRO_COUNT : TCC_HYPER_MOST);
    case TCC_ROLE_RNG: return tcc_type_equal(&b->type, &rng);
    case TCC_ROLE_OUTPUT: return strcmp(b->name, "loss") || tcc_type_equal(&b->type, &loss);
    case TCC_ROLE_BATCH:
        for (int i = 0; i < c->n_inputs; i++)
            if (!strcmp(c->inputs[i].name, b->name)) {
                const tcc_type given = tcc__array_type(&c->inputs[i]);
                return tcc_type_equal(&given, &b->type);
            }
        return false;
    case TCC_ROLE_COUNT: break;
    }
    return false;
}

static tcc_status binding_memory(tcc_model *m, tcc_compiled *c, int i, void **out) {
    const tcc_binding *b = &c->program->bindings[i];
    switch (b->role) {
    case TCC_ROLE_PARAM:
    case TCC_ROLE_STATE: return b->idle ? TCC_OK : tcc__stored_device(m, tcc__model_stored(m, b->name), out);
    case TCC_ROLE_OUTPUT:
        if (!strcmp(b->name, "loss")) c->loss = i;
        return own_memory(m, c, i, out);
    case TCC_ROLE_HYPER:
    case TCC_ROLE_RNG:
    case TCC_ROLE_BATCH: *out = c->bound[i].device; break;
    case TCC_ROLE_COUNT: break;
    }
    return TCC_OK;
}

/* What changes from run to run: the hyper-parameters, the random key, or a batch array, whose address each run brings.
 */
static void add_feed(tcc_model *m, tcc_compiled *c, int i) {
    const tcc_binding *b = &c->program->bindings[i];
    tcc_feed *feed = &c->feeds[c->n_feeds];
    int k = 0;
    c->input_of[i] = -1;
    switch (b->role) {
    case TCC_ROLE_BATCH:
        while (strcmp(c->inputs[k].name, b->name)) k++; /* the program was made of it, so it is there */
        c->input_of[i] = k;
        if (m->device->ops->shares_host) return;
        break;
    case TCC_ROLE_HYPER: feed->from = is_micro(b) ? c->micro_values : c->hyper_values; break;
    case TCC_ROLE_RNG: feed->from = c->rng_values; break;
    default: return;
    }
    c->bound[i].feed = feed;
    c->bound[i].bytes = feed->size_bytes = tcc_type_bytes(&b->type);
    c->fed_bytes += tcc_feed_room(feed->size_bytes);
    c->n_feeds++;
}

/* One piece of device memory for all of them, so that one copy brings them and no address changes from run to run. The
 * batch comes last: where its arrays lie on the device, one copy brings the rest. */
static tcc_status make_feeds(tcc_model *m, tcc_compiled *c) {
    const int n = c->program->n_bindings;
    tcc_diag *diag = &m->cx->diag;
    c->feeds = TCC_ARENA_ARRAY(&c->arena, tcc_feed, n + 1);
    c->input_of = TCC_ARENA_ARRAY(&c->arena, int, n + 1);
    if (!c->feeds || !c->input_of) return tcc_enomem(diag);
    for (int batch = 0; batch < 2; batch++)
        for (int i = 0; i < n; i++)
            if ((c->program->bindings[i].role == TCC_ROLE_BATCH) == batch) add_feed(m, c, i);
    if (c->n_feeds) TCC_TRY(tcc__device_alloc(m, c->fed_bytes, "the batch and what else changes in a run", &c->fed));
    for (int i = 0; i < n; i++) {
        char *at = c->fed;
        if (!c->bound[i].feed) continue;
        for (const tcc_feed *f = c->feeds; f < c->bound[i].feed; f++) at += tcc_feed_room(f->size_bytes);
        c->bound[i].device = c->bound[i].at = at;
    }
    return TCC_OK;
}

tcc_status tcc__compiled_check(tcc_model *m, const tcc_compiled *c) {
    const tcc_program *p = c->program;
    for (int i = 0; i < p->n_bindings; i++)
        if (!is_fitting(m, c, &p->bindings[i]))
            return tcc_error(&m->cx->diag, TCC_EFORMAT, TCC_NOWHERE,
                             "program '%s': the model has nothing that could be '%s', %s", p->name, p->bindings[i].name,
                             tcc_type_text(&p->bindings[i].type));
    return TCC_OK;
}

tcc_status tcc__compiled_bind(tcc_model *m, tcc_compiled *c) {
    const tcc_program *p = c->program;
    tcc_diag *diag = &m->cx->diag;
    c->bound = tcc__calloc((size_t)p->n_bindings + 1, sizeof *c->bound);
    if (!c->bound) return tcc_enomem(diag);
    const tcc_status added = add_states(m, c);
    if (added == TCC_ENOMEM) tcc_program_note_largest(diag, p);
    TCC_TRY(added);
    TCC_TRY(tcc__compiled_check(m, c)); /* again, with what it brought itself */
    const tcc_status fed = make_feeds(m, c);
    if (fed == TCC_ENOMEM) tcc_program_note_largest(diag, p);
    TCC_TRY(fed);
    for (int i = 0; i < p->n_bindings; i++) {
        void *memory = NULL;
        tcc_status status = binding_memory(m, c, i, &memory);
        if (status == TCC_ENOMEM) tcc_program_note_largest(diag, p);
        if (status == TCC_OK && memory)
            status = tcc_exec_bind(c->exec, diag, i, memory, tcc_type_bytes(&p->bindings[i].type));
        if (status != TCC_OK) return status;
    }
    return TCC_OK;
}

static void bound_clear(tcc_model *m, tcc_bound *b) {
    if (b->host != b->device) tcc__free(b->host);
    if (b->device && !b->feed) m->device->ops->free(m->device, b->device, b->bytes);
}

void tcc__compiled_unbind(tcc_model *m, tcc_compiled *c) {
    tcc_vec_free(&c->reads);
    tcc_vec_free(&c->outdates);
    tcc_vec_free(&c->wholes);
    tcc_vec_free(&c->leaves);
    for (int i = 0; c->bound && i < c->program->n_bindings; i++) bound_clear(m, &c->bound[i]);
    if (c->fed) m->device->ops->free(m->device, c->fed, c->fed_bytes);
    tcc__free(c->bound);
}

/* -- From run to run -- */

static double given(double value, double otherwise) { return isnan(value) ? otherwise : value; }

static void fill_rates(float *out, double momentum, double beta1, double beta2) {
    out[TCC_HYPER_MOMENTUM] = (float)momentum;
    out[TCC_HYPER_DAMPENING_SCALE] = 1; /* no dampening */
    out[TCC_HYPER_BETA1_COMPLEMENT] = (float)(1 - beta1);
    out[TCC_HYPER_BETA2_COMPLEMENT] = (float)(1 - beta2);
}

void tcc__model_hyper(const tcc_model *m, float *out) {
    const tcc_optimizer_options *o = &m->optimizer;
    const int groups = TCC_STEP_GROUPS(o->n_groups);
    fill_rates(out, m->momentum, m->momentum, o->beta2);
    out[TCC_HYPER_EPS] = (float)o->eps;
    out[TCC_HYPER_CLIP_NORM] = (float)o->clip_grad_norm;
    for (int i = 0; i <= o->n_groups; i++) {
        const tcc_param_group *g = i < o->n_groups ? &o->groups[i] : NULL;
        const int set = tcc__group_rates(m, g);
        for (int part = 0; part < TCC_DECAY_GROUPS; part++) {
            const int group = tcc__group_in_step(m, g, 2) + part;
            const double usual = part == TCC_DECAYED ? o->weight_decay : 0;
            out[TCC_HYPER_LR(group)] = (float)(g ? g->lr_scale * m->lr : m->lr);
            out[TCC_HYPER_WEIGHT_DECAY(group)] = (float)(g ? given(g->weight_decay, usual) : usual);
        }
        if (!set) continue;
        const double momentum = m->sets_momentum ? m->momentum : given(g->momentum, m->momentum);
        const double beta1 = m->sets_momentum ? m->momentum : given(g->beta1, m->momentum);
        fill_rates(out + TCC_HYPER_RATE(groups, set, 0), momentum, beta1, given(g->beta2, o->beta2));
    }
    const double ramp = o->ema_ramp > 0 ? exp(-o->ema_ramp * (double)(m->step + 1)) : 0;
    out[TCC_HYPER_EMA(groups, TCC_EMA_COMPLEMENT)] = (float)(1 - o->ema_decay * (1 - ramp));
    out[TCC_HYPER_EMA(groups, TCC_EMA_WARMUP)] = o->ema_warmup ? 9 : 0;
    out[TCC_HYPER_SCALE(groups, TCC_SCALE_GROWTH)] = (float)m->options.loss_scale_growth;
    out[TCC_HYPER_SCALE(groups, TCC_SCALE_INTERVAL)] = (float)m->options.loss_scale_interval;
    out[TCC_HYPER_SCALE(groups, TCC_SCALE_BACKOFF)] = (float)m->options.loss_scale_backoff;
}

/* What comes from the host: parts that lie one behind the other in one copy. */
static tcc_status feed_parts(tcc_model *m, const tcc_compiled *c) {
    const tcc_device_ops *ops = m->device->ops;
    char *at = c->fed;
    bool fed = false;
    for (int i = 0, end; i < c->n_feeds; i = end + 1) {
        char *begin = at;
        for (end = i; end < c->n_feeds && c->feeds[end].from; end++) at += tcc_feed_room(c->feeds[end].size_bytes);
        if (end > i) TCC_TRY(ops->feed(m->device, &m->cx->diag, begin, c->feeds + i, end - i));
        if (end < c->n_feeds) at += tcc_feed_room(c->feeds[end].size_bytes);
        fed |= end > i;
    }
    /* Pinned memory is free again after so many feeds. */
    return fed || !c->n_feeds ? TCC_OK : ops->feed(m->device, &m->cx->diag, c->fed, NULL, 0);
}

tcc_status tcc__compiled_feed(tcc_model *m, tcc_compiled *c, const tcc_array *batch) {
    /* The random key counts batches, not updates: an update that is skipped still used its draws. So it belongs to the
     * batch, and is written with it into a buffer whose address never changes, as the learning rate is: a captured
     * graph replays as it is, evaluation reads the count and does not move it, and a resumed run needs only the count
     * of steps. A counter on the device would be a kernel more in place of 16 bytes of this copy. */
    c->rng_values[0] = (int64_t)m->random_seed;
    c->rng_values[1] = m->step;
    if (c->whole || c->part == TCC_STEP_UPDATE) tcc__micro_feed(m, c->micro_values, c->rng_values);
    tcc__model_hyper(m, c->hyper_values);
    TCC_TRY(tcc__arrays_bind(m, c, batch));
    TCC_TRY(feed_parts(m, c));
    TCC_TRY(tcc__arrays_copy(m, c, batch));
    TCC_TRY(tcc__shards_begin(m, c));
    TCC_TRY(tcc__states_derive(m, c));
    TCC_TRY(tcc__store_upload(m, &m->shared->store));
    TCC_TRY(tcc__store_upload(m, &m->shared->copies));
    return tcc__store_upload(m, &m->moments);
}

tcc_status tcc__bound_host(tcc_model *m, tcc_bound *b, void **out) {
    if (!b->host && !(b->host = tcc__aligned(64, (size_t)b->bytes))) return tcc_enomem(&m->cx->diag);
    if (b->old && b->host != b->device)
        TCC_TRY(m->device->ops->download(m->device, &m->cx->diag, b->host, b->device, b->bytes));
    b->old = false;
    *out = b->host;
    return TCC_OK;
}
