/* SPDX-License-Identifier: MIT
 * data.batch_size: auto. The largest batch of which a step fits the memory, found from plans: a batch is planned, as
 * compiling it would, but no code is made and nothing runs. Plans grow almost linearly with the batch, so two of them
 * say where a third must lie, and that one is checked. */
#include "train_run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FIRST = 8, SECOND = 32, MOST_PLANS = 10, COARSE = 16 };

typedef struct search {
    run *s;
    const tcc_batch *like; /* of one sample */
    tcc_array *arrays;
    int64_t limit, cap;   /* bytes; samples */
    int64_t fits, bytes;  /* the largest batch that does, 0: none yet, and its memory */
    int64_t over, excess; /* the smallest that does not, cap + 1: none yet, and its memory; 0: it cannot be planned */
    int plans;
} search;

/* A plan's memory for a batch; TCC_ENOMEM for one that cannot be. */
static tcc_status plan(search *q, bool train, int64_t samples, tcc_memory_plan *out) {
    for (int i = 0; i < q->like->n_arrays; i++) {
        q->arrays[i] = q->like->arrays[i];
        q->arrays[i].dims[0] *= samples;
    }
    return tcc_model_plan(q->s->model, train, q->arrays, q->like->n_arrays, out);
}

/* What training and evaluating on batches of so many samples takes. */
static tcc_status measure(search *q, int64_t batch, int64_t *bytes) {
    tcc_memory_plan step, evaluation = {0};
    tcc_status status = plan(q, true, batch * q->s->recipe->training.batch_accumulate, &step);
    if (status == TCC_OK && q->s->info.samples[TCC_SPLIT_VALIDATION]) status = plan(q, false, batch, &evaluation);
    if (status != TCC_OK) return status;
    const int64_t arena = step.arena_bytes > evaluation.arena_bytes ? step.arena_bytes : evaluation.arena_bytes;
    *bytes = arena + step.state_bytes + step.batch_bytes + evaluation.batch_bytes;
    return TCC_OK;
}

static tcc_status try_batch(search *q, int64_t batch) {
    int64_t bytes = 0;
    tcc_status status = measure(q, batch, &bytes);
    q->plans++;
    if (status != TCC_OK && status != TCC_ENOMEM) return status;
    if (status == TCC_OK && bytes <= q->limit) {
        q->fits = batch;
        q->bytes = bytes;
    } else {
        q->over = batch;
        q->excess = bytes;
        tcc_context_clear_error(q->s->cx);
    }
    return TCC_OK;
}

/* From COARSE samples on a batch is a multiple of half of that, so that rows fill vectors and tiles. */
static int64_t round_down(int64_t batch) { return batch < COARSE ? batch : batch / (COARSE / 2) * (COARSE / 2); }

/* The next batch to plan, between the largest that fits and the smallest that does not: where a line through them, or
 * through `other` and the first, meets the limit. 0: there is none. */
static int64_t next_batch(const search *q, int64_t other, int64_t other_bytes) {
    const int64_t step = q->fits >= COARSE ? COARSE / 2 : 1, most = q->over - 1;
    if (q->over - q->fits <= step || most < 1) return 0;
    if (!q->fits) return (q->over + 1) / 2;
    if (q->excess) other = q->over, other_bytes = q->excess;
    const double slope = other == q->fits ? 0 : (double)(other_bytes - q->bytes) / (double)(other - q->fits);
    const double more = slope > 0 ? (double)(q->limit - q->bytes) / slope : (double)most;
    int64_t batch = more < (double)(most - q->fits) ? q->fits + (int64_t)more : most;
    if (q->over <= q->cap && !q->excess) batch = (q->fits + q->over) / 2; /* what cannot be planned has no slope */
    batch = batch == q->cap ? batch : round_down(batch);
    if (batch <= q->fits) batch = q->fits + step;
    return batch <= most ? batch : 0;
}

static tcc_status find(search *q) {
    q->over = q->cap + 1;
    tcc_status status = try_batch(q, q->cap < FIRST ? q->cap : FIRST);
    const int64_t first = q->fits, first_bytes = q->bytes;
    if (status == TCC_OK && first && q->cap > first) status = try_batch(q, q->cap < SECOND ? q->cap : SECOND);
    int64_t other = first, other_bytes = first_bytes, before = q->fits, before_bytes = q->bytes;
    for (int64_t batch; status == TCC_OK && q->plans < MOST_PLANS && (batch = next_batch(q, other, other_bytes));) {
        status = try_batch(q, batch);
        if (q->fits != before) other = before, other_bytes = before_bytes, before = q->fits, before_bytes = q->bytes;
    }
    return status;
}

static void tell(const search *q, double seconds, bool asked) {
    const double mib = 1 << 20;
    const recipe *r = q->s->recipe;
    if (q->s->options->quiet || q->s->options->emit) return;
    printf("batch size %" PRId64 ", by %d plans in %.2f s: ", r->data.batch_size, q->plans, seconds);
    if (!q->fits) printf("even a step of one takes %.1f MiB", (double)q->excess / mib);
    else printf("a step takes %.1f MiB", (double)q->bytes / mib);
    printf(asked ? " of the %.1f MiB of training.memory_budget" : " of %.1f MiB, nine tenths of what is free",
           (double)q->limit / mib);
    if (q->fits == q->cap) printf("; it is all of the data");
    else if (q->fits && q->excess) printf("; %" PRId64 " would take %.1f MiB", q->over, (double)q->excess / mib);
    putchar('\n');
    fflush(stdout);
}

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What a step may take: the budget in bytes, or else most of what the device has free, as batches on their way and what
 * libraries take are in no plan. */
static tcc_status find_memory(search *q) {
    q->limit = tcc_memory_budget_bytes(q->s->recipe->training.memory_budget);
    if (q->limit) return TCC_OK;
    q->limit = tcc_model_free_memory(q->s->model) / 10 * 9;
    if (q->limit) return TCC_OK;
    snprintf(q->s->problem, sizeof q->s->problem,
             "data.batch_size=auto: nothing says how much memory there is; give training.memory_budget in bytes, as in "
             "80GiB");
    return TCC_EINVAL;
}

/* What did not fit although its plan does is no more the limit. */
static tcc_status find_limit(search *q) {
    run *s = q->s;
    const tcc_status status = find_memory(q);
    if (s->batch_limit && s->batch_limit < q->limit) q->limit = s->batch_limit;
    s->batch_limit = q->limit;
    return status;
}

static tcc_status choose(search *q) {
    run *s = q->s;
    const double start = now_seconds();
    tcc_status status = run_create_planner(s);
    if (status == TCC_OK) status = find_limit(q);
    if (status == TCC_OK) status = find(q);
    if (status != TCC_OK) return status;
    s->recipe->data.batch_size = q->fits ? q->fits : 1;
    tell(q, now_seconds() - start, tcc_memory_budget_bytes(s->recipe->training.memory_budget) > 0);
    return TCC_OK;
}

tcc_status run_choose_batch(run *s) {
    const tcc_loader_options one = {
        .size = sizeof one, .split = TCC_SPLIT_TRAIN, .batch_size = 1, .last_batch = TCC_LAST_KEEP};
    search q = {.s = s, .cap = s->info.samples[TCC_SPLIT_TRAIN] / s->recipe->training.batch_accumulate};
    tcc_loader *loader;
    if (q.cap < 1) q.cap = 1;
    if (q.cap > 1 << 20) q.cap = 1 << 20;
    tcc_status status = tcc_loader_create(s->cx, s->data, &one, &loader);
    if (status != TCC_OK) return status;
    status = tcc_loader_next(loader, &q.like);
    q.arrays = status == TCC_OK ? malloc(sizeof *q.arrays * (size_t)q.like->n_arrays) : NULL;
    if (status == TCC_OK) status = q.arrays ? choose(&q) : TCC_ENOMEM;
    free(q.arrays);
    tcc_model_destroy(s->model);
    s->model = NULL;
    tcc_loader_destroy(loader);
    return status;
}

tcc_status run_shrink_batch(run *s) {
    run_end_line(s);
    if (!s->options->quiet && !s->options->emit)
        printf("batch size %" PRId64 " does not fit beside what compiling has taken\n", s->recipe->data.batch_size);
    tcc_context_clear_error(s->cx);
    tcc_model_destroy(s->model);
    s->model = NULL;
    s->batch_limit = s->batch_limit / 10 * 8;
    return run_choose_batch(s);
}
