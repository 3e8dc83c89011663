/* SPDX-License-Identifier: MIT
 * One program for all ranks. Rank 0 compiles, measures and reads the cache; the others get what it has made, with the
 * parameters that it brings. So all make the same choices, and a start takes what that of one rank takes.
 *
 * Ranks may lack different programs, as their parts of a batch differ in size. In each round every rank asks for the
 * first that it lacks, until none does. What several ask for is made and sent once. Others wait for rank 0 as long as
 * it works (tcc_comm_begin_work). */
#include "frontend/run/compiled_file.h"

#include "ir/support/alloc.h"
#include "runtime/comm/comm.h"

/* -- What a rank lacks -- */

enum { NOTHING = -1 };

/* A program that a rank lacks. */
typedef struct ask {
    int64_t part; /* of a step; or NOTHING */
    int64_t rows; /* of a micro-batch; of an update: of the one whose sums it takes */
    int64_t all;  /* rows of that rank: of the first of those that ask, which has most */
} ask;

/* What is asked for, and what rank 0 has made for it. */
typedef struct service {
    tcc_model *m;
    const tcc_array *batch;
    int count;
    bool train;
    tcc_vec(tcc_compiled *) lent; /* rank 0's, for parts that are not its own; they are not loaded */
} service;

/* The arrays of so many rows, in m->slice. */
static const tcc_array *with_rows(const service *s, int64_t rows) {
    tcc_model *m = s->m;
    if (!s->train) return s->batch;
    for (int i = 0; i < s->count; i++) {
        m->slice.data[i] = s->batch[i];
        m->slice.data[i].dims[0] = rows;
    }
    return m->slice.data;
}

static tcc_compiled *find(const service *s, tcc_step_part part, int64_t rows) {
    return tcc__program_find(s->m, s->train, part, s->train ? s->m->ranks_whole : 0, with_rows(s, rows), s->count);
}

/* Of the step's programs for micro-batches of so many rows. */
static tcc_step_part first_lacking(const service *s, int64_t rows) {
    const tcc_step_part none = (tcc_step_part)NOTHING, first = s->train ? tcc__micro_part(s->m) : TCC_STEP_WHOLE;
    const tcc_compiled *c = find(s, first, rows);
    if (!c) return first;
    if (first != TCC_STEP_MICRO) return none;
    if (!tcc__update_find(s->m, c)) return TCC_STEP_UPDATE;
    return tcc__micro_levels(c->program) && !find(s, TCC_STEP_TOTALS, rows) ? TCC_STEP_TOTALS : none;
}

/* What this rank, of so many rows, asks for. */
static ask first_ask(const service *s, int64_t all) {
    const int64_t parts = tcc__micro_parts(s->m), whole = (all + parts - 1) / parts;
    const int64_t rows[] = {whole, whole ? all % whole : 0};
    for (int i = 0; i < 2; i++) {
        const int64_t part = i && !rows[i] ? NOTHING : (int64_t)(int)first_lacking(s, rows[i]);
        if (part != NOTHING) return (ask){part, rows[i], all};
    }
    return (ask){.part = NOTHING};
}

static bool is_same(const ask *a, const ask *b) { return a->part == b->part && a->rows == b->rows && a->all == b->all; }

/* -- Rank 0 -- */

static tcc_compiled *find_lent(const service *s, const ask *a) {
    for (int i = 0; i < s->lent.count; i++) {
        tcc_compiled *c = s->lent.data[i];
        if (c->part == (tcc_step_part)a->part && c->inputs[0].dims[0] == a->rows) return c;
    }
    return NULL;
}

/* The update of that micro-batch's sums. */
static tcc_compiled *find_update(const service *s, const tcc_compiled *micro) {
    for (int i = 0; i < s->lent.count; i++) {
        tcc_compiled *c = s->lent.data[i];
        if (c->part == TCC_STEP_UPDATE && tcc__micro_is_update_of(c->program, micro->program)) return c;
    }
    return tcc__update_find(s->m, micro);
}

static tcc_compiled *find_anywhere(const service *s, const ask *a) {
    tcc_compiled *c = find(s, (tcc_step_part)a->part, a->rows);
    return c || !s->train ? c : find_lent(s, a);
}

/* Makes a program that is not loaded. */
static tcc_status make_lent(service *s, const ask *a, tcc_compiled *micro, tcc_compiled **out) {
    tcc_model *m = s->m;
    const bool update = a->part == TCC_STEP_UPDATE;
    const tcc_array *arrays = with_rows(s, a->rows);
    tcc_compiled *c = NULL;
    tcc_status status = m->filling.store ? tcc__fill_end(m) : TCC_OK; /* what is made adds to the store */
    if (status == TCC_OK) status = tcc__compiled_create(m, s->train, arrays, update ? 0 : s->count, &c);
    if (status == TCC_OK) {
        c->part = (tcc_step_part)a->part;
        c->whole = update || !s->train ? 0 : m->ranks_whole;
        c->next = micro;
        const int64_t own = m->ranks_rows;
        m->ranks_rows = a->all; /* what a budget leaves depends on it */
        m->micro_whole = m->ranks_whole;
        status = m->ops->make(m, c, arrays);
        m->ranks_rows = own;
        c->next = NULL;
    }
    if (status == TCC_OK && !tcc_vec_push(&s->lent, c)) status = tcc_enomem(&m->cx->diag);
    if (status != TCC_OK) tcc__compiled_destroy(m, c);
    *out = c;
    return status;
}

/* The program, found or made. */
static tcc_status program_for(service *s, const ask *a, tcc_compiled **out) {
    tcc_compiled *micro = NULL;
    if (a->part == TCC_STEP_UPDATE) {
        const ask of = {TCC_STEP_MICRO, a->rows, a->all};
        micro = find_anywhere(s, &of);
        if (!micro) return TCC_BUG(&s->m->cx->diag, "an update is asked for before its micro-batch");
        *out = find_update(s, micro);
    } else *out = find_anywhere(s, a);
    return *out ? TCC_OK : make_lent(s, a, micro, out);
}

/* What this rank needs itself is ready to run. */
static tcc_status keep(service *s, tcc_compiled *c) {
    tcc_model *m = s->m;
    for (int i = 0; i < s->lent.count; i++)
        if (s->lent.data[i] == c) s->lent.data[i] = s->lent.data[--s->lent.count];
    tcc_status status = tcc__compiled_load(m, c);
    if (status == TCC_OK && !tcc_vec_push(&m->programs, c)) status = tcc_enomem(&m->cx->diag);
    if (status != TCC_OK) tcc__compiled_destroy(m, c);
    return status;
}

static tcc_status make_and_send(service *s, const ask *a, bool own) {
    tcc_comm *comm = s->m->options.comm;
    tcc_compiled *c = NULL;
    void *bytes;
    int64_t size_bytes;
    if (tcc_comm_tells_of_work(comm)) TCC_TRY(tcc_comm_begin_work(comm));
    TCC_TRY(program_for(s, a, &c));
    TCC_TRY(tcc__lent_encode(s->m, c, &bytes, &size_bytes));
    tcc_status status = tcc_comm_broadcast(comm, 0, &size_bytes, sizeof size_bytes);
    if (status == TCC_OK) status = tcc_comm_broadcast(comm, 0, bytes, size_bytes);
    tcc__free(bytes);
    return status == TCC_OK && own ? keep(s, c) : status;
}

/* -- The others -- */

static tcc_status borrow(service *s, const ask *a, const void *bytes, int64_t size_bytes) {
    tcc_model *m = s->m;
    const bool update = a->part == TCC_STEP_UPDATE;
    tcc_compiled *c = NULL;
    tcc_status status = tcc__compiled_create(m, s->train, with_rows(s, a->rows), update ? 0 : s->count, &c);
    if (status == TCC_OK) {
        c->part = (tcc_step_part)a->part;
        c->whole = update || !s->train ? 0 : m->ranks_whole;
        status = tcc__lent_decode(m, c, bytes, size_bytes);
    }
    c->trace_seconds = c->passes_seconds = c->codegen_seconds = 0; /* they were rank 0's */
    if (status == TCC_OK) return keep(s, c);
    tcc__compiled_destroy(m, c);
    return status;
}

static tcc_status receive(service *s, const ask *a, bool own) {
    enum { NO_LIMIT_SECONDS = 1000000000 };
    tcc_comm *comm = s->m->options.comm;
    const double limit = tcc_comm_get_timeout(comm);
    int64_t size_bytes = 0;
    if (!tcc_comm_tells_of_work(comm)) tcc_comm_set_timeout(comm, NO_LIMIT_SECONDS);
    tcc_status status = tcc_comm_broadcast(comm, 0, &size_bytes, sizeof size_bytes);
    tcc_comm_set_timeout(comm, limit);
    TCC_TRY(status);
    void *bytes = size_bytes > 0 ? tcc__malloc((size_t)size_bytes) : NULL;
    if (!bytes) return tcc_enomem(&s->m->cx->diag);
    status = tcc_comm_broadcast(comm, 0, bytes, size_bytes);
    if (status == TCC_OK && own) status = borrow(s, a, bytes, size_bytes);
    tcc__free(bytes);
    return status;
}

/* -- Rounds -- */

/* Serves what all ranks ask for in one round. */
static tcc_status serve_all(service *s, const ask *all) {
    const int size = tcc_comm_size(s->m->options.comm), rank = tcc_comm_rank(s->m->options.comm);
    for (int r = 0; r < size; r++) {
        bool again = all[r].part == NOTHING;
        for (int i = 0; i < r && !again; i++) again = is_same(&all[i], &all[r]);
        if (again) continue;
        const bool own = is_same(&all[r], &all[rank]);
        TCC_TRY(rank ? receive(s, &all[r], own) : make_and_send(s, &all[r], own));
    }
    return TCC_OK;
}

static tcc_status serve(service *s, ask *all, const int64_t *rows) {
    tcc_comm *comm = s->m->options.comm;
    for (bool any = true; any;) {
        const ask mine = first_ask(s, rows[tcc_comm_rank(comm)]);
        TCC_TRY(tcc_comm_all_gather(comm, &mine, all, sizeof mine));
        any = false;
        for (int r = 0; r < tcc_comm_size(comm); r++) any |= all[r].part != NOTHING;
        TCC_TRY(serve_all(s, all));
    }
    return TCC_OK;
}

tcc_status tcc__ranks_serve(tcc_model *m, bool train, const tcc_array *batch, int count, const int64_t *rows) {
    service s = {.m = m, .batch = batch, .count = count, .train = train};
    ask *all = tcc__calloc((size_t)tcc_comm_size(m->options.comm), sizeof *all);
    tcc_status status = all ? TCC_OK : tcc_enomem(&m->cx->diag);
    if (status == TCC_OK) status = serve(&s, all, rows);
    if (status == TCC_OK && m->filling.store) status = tcc__fill_end(m);
    tcc__fill_stop(m); /* after an error */
    for (int i = 0; i < s.lent.count; i++) tcc__compiled_destroy(m, s.lent.data[i]);
    tcc_vec_free(&s.lent);
    tcc__free(all);
    return status;
}

bool tcc__ranks_borrow(const tcc_model *m) { return m->options.comm && tcc_comm_rank(m->options.comm) > 0; }
