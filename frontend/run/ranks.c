/* SPDX-License-Identifier: MIT
 * Steps whose batch lies on several ranks (options.comm). A rank takes its part of the batch in one or more
 * micro-batches. With one, the whole step is a program with collectives. With more, totals are added up over ranks
 * after each level, and the update is a program that reads sums over all ranks (passes/distribute.c). All sums are
 * taken in the order of ranks. So the step is that of the whole batch, and N ranks with a micro-batch each give the
 * bits of one rank with N micro-batches. All ranks then make the same update: parameters are never sent, and are
 * compared before the first step.
 */
#include "frontend/run/model.h"
#include "frontend/run/options.h"

#include "ir/support/alloc.h"
#include "ir/support/hash.h"
#include "ir/support/reduction.h"

#include <stdlib.h>

/* What a rank brings to a step. */
typedef struct part {
    int64_t step, rows;
    uint64_t arrays; /* hash of the batch's names, types and extents but the first */
} part;

/* Hashes of what has to be equal on all ranks before the first step. */
enum { OF_OPTIONS, OF_PARAMETERS, OF_STATES, COMPARED };
static const char *const compared[] = {"other options", "other parameters or buffers", "another optimizer state"};

static bool ends(const char *name, const char *suffix) {
    const size_t length = strlen(name), n = strlen(suffix);
    return length >= n && !strcmp(name + length - n, suffix);
}

/* Room for what each rank says, of `bytes` bytes. */
static tcc_status reserve(tcc_model *m, int64_t bytes) {
    if (bytes <= m->bucket_bytes) return TCC_OK;
    tcc__free(m->bucket);
    m->bucket_bytes = 0;
    if (!(m->bucket = tcc__aligned(64, (size_t)bytes))) return tcc_enomem(&m->cx->diag);
    m->bucket_bytes = bytes;
    return TCC_OK;
}

/* -- Before a step -- */

static uint64_t hash_arrays(const tcc_array *batch, int count) {
    uint64_t h = tcc_hash_add(0, (uint64_t)count);
    for (int i = 0; i < count; i++) {
        h = tcc_hash_string(h, batch[i].name);
        h = tcc_hash_add(h, (uint64_t)batch[i].dtype);
        h = tcc_hash_add(h, (uint64_t)batch[i].rank);
        for (int k = 1; k < batch[i].rank; k++) h = tcc_hash_add(h, (uint64_t)batch[i].dims[k]);
    }
    return h;
}

tcc_status tcc__ranks_begin(tcc_model *m, const tcc_array *batch, int count) {
    tcc_comm *comm = m->options.comm;
    tcc_diag *diag = &m->cx->diag;
    const int size = tcc_comm_size(comm), rank = tcc_comm_rank(comm);
    TCC_TRY(reserve(m, size * (int64_t)sizeof(part)));
    const part mine = {m->step, batch[0].dims[0], hash_arrays(batch, count)};
    part *all = m->bucket;
    TCC_TRY(tcc_comm_all_gather(comm, &mine, all, sizeof mine));
    m->ranks_rows = mine.rows;
    m->ranks_whole = 0;
    for (int r = 0; r < size; r++) {
        if (all[r].step != mine.step)
            return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "rank %d is at training step %lld, rank %d at %lld", r,
                             (long long)all[r].step, rank, (long long)mine.step);
        if (all[r].arrays != mine.arrays)
            return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                             "the batches of rank %d and rank %d differ: names, types and all extents but the first "
                             "must be equal",
                             r, rank);
        m->ranks_whole += all[r].rows;
    }
    return TCC_OK;
}

static uint64_t hash_store(const tcc_store *s) {
    uint64_t h = 0;
    for (int i = 0; i < s->entries.count; i++) {
        const tcc_stored *p = &s->entries.data[i];
        if (tcc__is_sum(p->name)) continue;
        h = tcc_hash_string(h, p->name);
        h = tcc_hash_string(h, tcc_type_text(&p->type));
        if (p->data) h = tcc_hash_bytes(h, p->data, (size_t)tcc_type_bytes(&p->type));
    }
    return h;
}

/* With the numbers that may have been set since the model was created. */
static uint64_t hash_options(const tcc_model *m) {
    tcc_strbuf b = {0};
    tcc__options_print_training(&b, TCC_OPTION_OF_MODEL, &m->options);
    tcc__options_print_training(&b, TCC_OPTION_OF_OPTIMIZER, &m->optimizer);
    for (int i = 0; i < m->optimizer.n_groups; i++)
        tcc__options_print_training(&b, TCC_OPTION_OF_GROUP, &m->optimizer.groups[i]);
    uint64_t h = tcc_hash_string(0, b.text ? b.text : "");
    tcc_strbuf_free(&b);
    h = tcc_hash_add(h, m->random_seed);
    return tcc_hash_f64(tcc_hash_f64(h, m->lr), m->momentum);
}

tcc_status tcc__ranks_compare(tcc_model *m) {
    tcc_comm *comm = m->options.comm;
    if (m->ranks_compared) return TCC_OK;
    const uint64_t mine[COMPARED] = {hash_options(m), hash_store(&m->shared->store), hash_store(&m->moments)};
    TCC_TRY(reserve(m, tcc_comm_size(comm) * (int64_t)sizeof mine));
    const uint64_t(*all)[COMPARED] = (const uint64_t(*)[COMPARED])m->bucket;
    TCC_TRY(tcc_comm_all_gather(comm, mine, m->bucket, sizeof mine));
    for (int r = 0; r < tcc_comm_size(comm); r++)
        for (int i = 0; i < COMPARED; i++)
            if (all[r][i] != mine[i])
                return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                                 "rank %d has %s than rank %d before step %lld: all ranks must begin alike", r,
                                 compared[i], tcc_comm_rank(comm), (long long)m->step);
    m->ranks_compared = true;
    return TCC_OK;
}

/* -- Totals -- */

/* Totals of a level that are combined alike travel together: they are laid one behind the other. */
typedef struct bucket {
    int level;
    tcc_comm_op how;
    tcc_dtype type;
} bucket;

static tcc_comm_op how_of(const char *name) {
    return ends(name, TCC_TOTAL_MAX) ? TCC_COMM_MAX : ends(name, TCC_TOTAL_MIN) ? TCC_COMM_MIN : TCC_COMM_SUM;
}

static bool is_in(const bucket *k, const tcc_binding *b) {
    if (b->role != TCC_ROLE_STATE || !tcc_begins(b->name, TCC_TOTAL_PREFIX)) return false;
    return atoi(b->name + sizeof TCC_TOTAL_PREFIX - 1) == k->level && b->type.dtype == k->type &&
           how_of(b->name) == k->how;
}

/* Copies the totals of a bucket to m->bucket, or back. Returns their bytes; without memory it only counts these. */
static int64_t copy(tcc_model *m, const tcc_program *p, const bucket *k, char *memory, bool back) {
    int64_t at = 0;
    for (int i = 0; i < p->n_bindings; i++) {
        const tcc_binding *b = &p->bindings[i];
        const int64_t bytes = is_in(k, b) ? tcc_type_bytes(&b->type) : 0;
        void *state = bytes && memory ? tcc__model_stored(m, b->name)->data : NULL;
        if (state) memcpy(back ? state : memory + at, back ? memory + at : state, (size_t)bytes);
        at += bytes;
    }
    return at;
}

tcc_status tcc__ranks_add_totals(tcc_model *m, const tcc_program *p, int level) {
    for (int how = TCC_COMM_SUM; how <= TCC_COMM_MIN; how++)
        for (int type = 0; type < TCC_DTYPE_COUNT; type++) {
            const bucket k = {level, (tcc_comm_op)how, (tcc_dtype)type};
            const int64_t bytes = copy(m, p, &k, NULL, false);
            if (!bytes) continue;
            TCC_TRY(reserve(m, bytes));
            copy(m, p, &k, m->bucket, false);
            TCC_TRY(tcc_comm_all_reduce(m->options.comm, k.how, k.type, m->bucket, bytes / tcc_dtype_bytes(k.type)));
            copy(m, p, &k, m->bucket, true);
        }
    return TCC_OK;
}

/* -- Collectives of programs -- */

_Static_assert((int)TCC_REDUCTION_SUM == (int)TCC_COMM_SUM && (int)TCC_REDUCTION_MAX == (int)TCC_COMM_MAX &&
                   (int)TCC_REDUCTION_MIN == (int)TCC_COMM_MIN,
               "reductions of programs and of communicators are the same");

static tcc_status all_reduce(tcc_comm *comm, const tcc_collective_params *p, const void *from, void *to,
                             int64_t *request) {
    const tcc_dtype type = (tcc_dtype)p->type;
    const int64_t bytes = p->count * tcc_dtype_bytes(type);
    if (from != to) memcpy(to, from, (size_t)bytes);
    if (p->reduction == TCC_REDUCTION_FIRST) return tcc_comm_broadcast(comm, 0, to, bytes);
    const tcc_comm_op how = (tcc_comm_op)p->reduction;
    return request ? tcc_comm_start_all_reduce(comm, how, type, to, p->count, request)
                   : tcc_comm_all_reduce(comm, how, type, to, p->count);
}

enum { DONE = -1 }; /* a request that nobody has to wait for */

/* Errors are kept by the communicator's context, which is the model's. */
static tcc_status start_collective(void *user, tcc_diag *d, tcc_call call, const tcc_collective_params *p,
                                   const void *from, void *to, int64_t *request) {
    tcc_comm *comm = user;
    const tcc_comm_op how = (tcc_comm_op)p->reduction;
    const tcc_dtype type = (tcc_dtype)p->type;
    const int64_t bytes = p->count * tcc_dtype_bytes(type);
    if (request) *request = DONE;
    if (p->ranks != tcc_comm_size(comm))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "the program was made for %lld ranks, and here are %d",
                         (long long)p->ranks, tcc_comm_size(comm));
    if (call == TCC_CALL_ALL_REDUCE) return all_reduce(comm, p, from, to, request);
    if (call == TCC_CALL_ALL_GATHER)
        return request ? tcc_comm_start_all_gather(comm, from, to, bytes, request)
                       : tcc_comm_all_gather(comm, from, to, bytes);
    return request ? tcc_comm_start_reduce_scatter(comm, how, type, from, to, p->count, request)
                   : tcc_comm_reduce_scatter(comm, how, type, from, to, p->count);
}

static tcc_status wait_for_collective(void *user, tcc_diag *d, int64_t request) {
    (void)d;
    return request == DONE ? TCC_OK : tcc_comm_wait(user, request);
}

void tcc__ranks_connect(tcc_model *m, tcc_exec *exec) {
    m->collectives = (tcc_collectives){m->options.comm, start_collective, wait_for_collective};
    tcc_exec_set_collectives(exec, &m->collectives);
}

void tcc__ranks_fail(tcc_model *m) {
    tcc_note(&m->cx->diag, TCC_NOWHERE, "in training step %lld", (long long)m->step);
    tcc_comm_abort(m->options.comm, tcc_diag_words(&m->cx->diag));
}
