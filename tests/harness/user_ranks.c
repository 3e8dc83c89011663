/* SPDX-License-Identifier: MIT
 * Each rank has a batch of its own, which is one sample of the step's batch: all arrays get a dim in front of those
 * that the program knows. So the program need not know what a batch is. */
#include "harness/user_ranks.h"

#include "harness/rank_threads.h"
#include "harness/user_check.h"
#include "ir/support/dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rank {
    const user_program *p;
    tcc_context *cx;
    tcc_comm *comm;   /* NULL: it is alone, */
    int first, parts; /* and takes the samples of so many ranks from that one on */
    tcc_status status;
    char text[1024];
    tcc_strbuf bytes; /* losses, parameters, and averages in their place; then states */
    size_t parameters;
} rank;

static void trace(tcc_trace *t, void *user) {
    const user_program *p = user;
    tcc_tensor *values = calloc((size_t)p->n_steps + 1, sizeof *values);
    for (int i = 0; i < p->n_steps; i++) {
        const user_step *s = &p->steps[i];
        if (s->op == USER_input) values[i] = tcc_reshape(tcc_slice(tcc_input(t, s->name), 0, 0, 1), s->rank, s->dims);
        else values[i] = s->op == USER_update ? values[s->args[0]] : user_step_apply(t, s, values);
    }
    free(values);
}

static int64_t count_of(const user_input *in) {
    int64_t count = 1;
    for (int d = 0; d < in->rank; d++) count *= in->dims[d];
    return count;
}

/* The samples of ranks first .. first + parts - 1, one behind the other. */
static void make_batch(const rank *r, int step, tcc_array *out) {
    for (int part = 0; part < r->parts; part++) {
        tcc_array one[USER_INPUTS];
        user_batch_make(r->p, step * USER_MOST_RANKS + r->first + part, one);
        for (int i = 0; i < r->p->n_inputs; i++) {
            const user_input *in = &r->p->inputs[i];
            const size_t bytes = (size_t)(count_of(in) * tcc_dtype_bytes(in->dtype));
            if (!part) {
                out[i] = (tcc_array){in->name, in->dtype, in->rank + 1, {r->parts}, malloc(bytes * (size_t)r->parts)};
                memcpy(out[i].dims + 1, in->dims, sizeof *in->dims * (size_t)in->rank);
            }
            memcpy((char *)out[i].data + bytes * (size_t)part, one[i].data, bytes);
        }
        user_batch_free(r->p, one);
    }
}

static void keep(rank *r, const tcc_array *a) {
    int64_t bytes = tcc_dtype_bytes(a->dtype);
    for (int d = 0; d < a->rank; d++) bytes *= a->dims[d];
    tcc_strbuf_addn(&r->bytes, a->data, (size_t)bytes);
}

/* Returns how many there are. */
static int keep_parameters(rank *r, tcc_model *m) {
    tcc_array a;
    int count = 0;
    for (int i = 0; tcc_model_param(m, i, &a); i++)
        if (tcc_model_param_is_trained(m, i)) keep(r, &a), count++;
    return count;
}

static tcc_status train(rank *r, tcc_model *m, bool averages) {
    tcc_array a;
    for (int step = 0; step < USER_TRAIN_STEPS; step++) {
        tcc_array batch[USER_INPUTS];
        double loss;
        make_batch(r, step, batch);
        tcc_status status = tcc_model_train(m, batch, r->p->n_inputs);
        if (status == TCC_OK) status = tcc_model_step_loss(m, step, &loss);
        for (int i = 0; i < r->p->n_inputs; i++) free(batch[i].data);
        if (status != TCC_OK) return status;
        tcc_strbuf_addn(&r->bytes, (const char *)&(float){(float)loss}, sizeof(float));
    }
    TCC_TRY(tcc_model_gather_states(m));
    averages = keep_parameters(r, m) && averages;
    tcc_status status = averages ? tcc_model_use_ema(m, true) : TCC_OK;
    if (averages && status == TCC_OK) {
        keep_parameters(r, m);
        status = tcc_model_use_ema(m, false);
    }
    if (status == TCC_OK) status = tcc_model_gather_states(m);
    r->parameters = r->bytes.length;
    for (int i = 0; status == TCC_OK && tcc_model_optimizer_state(m, i, &a); i++)
        if (a.dtype == TCC_F32) keep(r, &a);
    return status;
}

static bool shares_out(const user_program *p) { return p->seed % 4 < 2 && p->optimizer.kind != TCC_ADAFACTOR; }

static void run(void *user, int number, tcc_context *cx, tcc_comm *comm) {
    rank *r = (rank *)user + number;
    r->cx = cx;
    r->comm = comm;
    const uint64_t seed = r->p->seed;
    tcc_model *m = NULL;
    tcc_model_options o = user_program_options(r->p, USER_DEFAULT);
    tcc_optimizer_options optimizer = r->p->optimizer;
    if (seed % 3 == 0) optimizer.clip_grad_norm = 0.1;
    if (seed % 5 == 0) optimizer.ema_decay = 0.8;
    o.optimizer = &optimizer;
    o.keep_gradients = seed % 8 < 2 ? o.keep_gradients : false;
    /* A share is of what a whole step needs, and may be too little for the sums of micro-batches. */
    o.memory_budget = r->p->memory_budget ? "min" : NULL;
    o.loss_is_sum = true;
    o.comm = r->comm;
    o.shard_optimizer = r->comm && shares_out(r->p);
    o.batch_accumulate = r->parts;
    r->status = tcc_model_create(r->cx, trace, (void *)(uintptr_t)r->p, &o, &m);
    if (r->status == TCC_OK) r->status = train(r, m, optimizer.ema_decay > 0);
    if (r->status != TCC_OK) snprintf(r->text, sizeof r->text, "%s", tcc_context_error(r->cx));
    tcc_model_destroy(m);
}

static void run_all(const user_program *p, int parts, bool together, rank *out) {
    const int count = together ? parts : 1;
    for (int r = 0; r < count; r++)
        out[r] = (rank){.p = p, .first = r, .parts = together ? 1 : parts, .status = TCC_EIO, .text = "not made"};
    run_rank_threads(count, run, out);
}

static const char *difference(const rank *r, const rank *one) {
    static char text[1200];
    const size_t bytes = shares_out(r->p) && r->first ? one->parameters : one->bytes.length;
    if (r->status != TCC_OK) return snprintf(text, sizeof text, "rank %d: %s", r->first, r->text), text;
    if (r->parameters != one->parameters || r->bytes.length < bytes) return "there are other parameters or states";
    for (size_t at = 0; at < bytes; at += sizeof(float)) {
        float x, y;
        memcpy(&x, r->bytes.text + at, sizeof x);
        memcpy(&y, one->bytes.text + at, sizeof y);
        if (!memcmp(&x, &y, sizeof x) || (isnan(x) && isnan(y))) continue;
        return snprintf(text, sizeof text, "rank %d%s: number %zu (parameters end at %zu of %zu) is %.9g, not %.9g",
                        r->first, shares_out(r->p) ? ", states shared out" : "", at / sizeof x,
                        one->parameters / sizeof x, one->bytes.length / sizeof x, (double)x, (double)y),
               text;
    }
    return NULL;
}

const char *user_ranks_differ(const user_program *p, int ranks) {
    static rank one, all[USER_MOST_RANKS];
    static char text[1200];
    const char *what = NULL;
    if (!p->n_inputs) return NULL; /* there is no batch */
    run_all(p, ranks, false, &one);
    run_all(p, ranks, true, all);
    if (one.status != TCC_OK) snprintf(text, sizeof text, "in micro-batches: %s", one.text), what = text;
    for (int r = 0; r < ranks && !what; r++) what = difference(&all[r], &one);
    for (int r = 0; r < ranks; r++) tcc_strbuf_free(&all[r].bytes);
    tcc_strbuf_free(&one.bytes);
    return what;
}
