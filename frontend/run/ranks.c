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
#include "ir/support/cpu.h"
#include "ir/support/hash.h"
#include "runtime/comm/comm.h"

#include <stdlib.h>

/* What a rank brings to a step, or to the making of programs. */
typedef struct part {
    int64_t train, step, rows;
    uint64_t arrays; /* hash of the batch's names, types and extents, of a training step but the first */
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

/* -- Before the first program -- */

static uint64_t hash_store(const tcc_store *s) {
    uint64_t h = 0;
    for (int i = 0; i < s->entries.count; i++) {
        const tcc_stored *p = &s->entries.data[i];
        if (tcc__is_sum(p->name) || p->shared_out) continue; /* parts differ */
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

static tcc_status differ(const tcc_model *m, int rank, const char *what) {
    return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                     "rank %d has %s than rank %d before step %lld: all ranks must begin alike", rank, what,
                     tcc_comm_rank(m->options.comm), (long long)m->step);
}

/* What has to be equal then. `said`: for people. */
typedef struct machine {
    uint64_t processor, version, options;
    char said[96], said_version[96];
} machine;

static tcc_status find_machine(tcc_model *m, machine *out) {
    tcc_strbuf processor = {0}, version = {0};
    const tcc_status status = m->ops->describe(m, &processor, &version);
    memset(out, 0, sizeof *out);
    if (status == TCC_OK) {
        const char *level = tcc_cpu_level();
        out->processor = tcc_hash_string(0, processor.text);
        out->version = tcc_hash_string(0, version.text);
        out->options = hash_options(m);
        snprintf(out->said, sizeof out->said, "%s, %.*s", level ? level : "no level of x86-64",
                 (int)strcspn(processor.text, "\n"), processor.text);
        snprintf(out->said_version, sizeof out->said_version, "%s", version.text);
    }
    tcc_strbuf_free(&processor);
    tcc_strbuf_free(&version);
    return status;
}

static tcc_status check_machine(const tcc_model *m, const machine *mine, int r, const machine *other) {
    tcc_diag *d = &m->cx->diag;
    const int rank = tcc_comm_rank(m->options.comm);
    if (other->version != mine->version)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "rank %d has another version of TrainCC than rank %d: %s, and %s (version and sources)", r,
                         rank, other->said_version, mine->said_version);
    if (other->options != mine->options) return differ(m, r, "other options");
    if (other->processor != mine->processor)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "rank %d has another processor than rank %d: %s, and %s; all ranks run one program: set "
                         "TCC_CPU to the lower level for all of them, as in TCC_CPU=x86-64-v3",
                         r, rank, other->said, mine->said);
    return TCC_OK;
}

static tcc_status compare_machines(tcc_model *m) {
    tcc_comm *comm = m->options.comm;
    machine mine, *all = tcc__calloc((size_t)tcc_comm_size(comm), sizeof *all);
    tcc_status status = all ? find_machine(m, &mine) : tcc_enomem(&m->cx->diag);
    if (status == TCC_OK) status = tcc_comm_all_gather(comm, &mine, all, sizeof mine);
    for (int r = 0; r < tcc_comm_size(comm) && status == TCC_OK; r++) status = check_machine(m, &mine, r, &all[r]);
    tcc__free(all);
    return status;
}

/* -- Before a step -- */

static uint64_t hash_arrays(const tcc_array *batch, int count, int first_extent) {
    uint64_t h = tcc_hash_add(0, (uint64_t)count);
    for (int i = 0; i < count; i++) {
        h = tcc_hash_string(h, batch[i].name);
        h = tcc_hash_add(h, (uint64_t)batch[i].dtype);
        h = tcc_hash_add(h, (uint64_t)batch[i].rank);
        for (int k = first_extent; k < batch[i].rank; k++) h = tcc_hash_add(h, (uint64_t)batch[i].dims[k]);
    }
    return h;
}

/* That the parts of all ranks go together with this rank's. */
static tcc_status check_parts(const tcc_model *m, const part *all, const part *mine) {
    tcc_diag *diag = &m->cx->diag;
    const int size = tcc_comm_size(m->options.comm), rank = tcc_comm_rank(m->options.comm);
    for (int r = 0; r < size; r++) {
        if (all[r].train != mine->train)
            return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "rank %d is about to %s, rank %d to %s", r,
                             all[r].train ? "train" : "compile an evaluation", rank,
                             mine->train ? "train" : "compile an evaluation");
        if (all[r].step != mine->step)
            return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "rank %d is at training step %lld, rank %d at %lld", r,
                             (long long)all[r].step, rank, (long long)mine->step);
        if (all[r].arrays != mine->arrays)
            return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                             "the batches of rank %d and rank %d differ: names, types and all extents%s must be equal",
                             r, rank, mine->train ? " but the first" : "");
    }
    return TCC_OK;
}

/* What all ranks have brought was brought before, so they have their programs. */
static bool is_served(const tcc_model *m, uint64_t hash) {
    for (int i = 0; i < m->ranks_served.count; i++)
        if (m->ranks_served.data[i] == hash) return true;
    return false;
}

tcc_status tcc__ranks_begin(tcc_model *m, bool train, const tcc_array *batch, int count) {
    tcc_comm *comm = m->options.comm;
    const int size = tcc_comm_size(comm);
    TCC_TRY(reserve(m, size * (int64_t)(sizeof(part) + sizeof(int64_t))));
    const part mine = {train, m->step, train ? batch[0].dims[0] : 0, hash_arrays(batch, count, train)};
    part *all = m->bucket;
    int64_t *rows = (int64_t *)(all + size), whole = 0;
    TCC_TRY(tcc_comm_all_gather(comm, &mine, all, sizeof mine));
    TCC_TRY(check_parts(m, all, &mine));
    uint64_t hash = tcc_hash_add(mine.arrays, train);
    for (int r = 0; r < size; r++) {
        rows[r] = all[r].rows;
        whole += rows[r];
        hash = tcc_hash_add(hash, (uint64_t)rows[r]);
    }
    if (train) m->ranks_rows = mine.rows, m->ranks_whole = whole;
    if (is_served(m, hash)) return TCC_OK;
    if (!m->ranks_served.count) {
        TCC_TRY(compare_machines(m));
        TCC_TRY(tcc_comm_find_network(comm)); /* before rank 0 makes programs for it */
        TCC_TRY(tcc__ranks_join(m));
    }
    TCC_TRY(tcc__ranks_serve(m, train, batch, count, rows));
    return tcc_vec_push(&m->ranks_served, hash) ? TCC_OK : tcc_enomem(&m->cx->diag);
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
            if (all[r][i] != mine[i]) return differ(m, r, compared[i]);
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

static int64_t bytes_in(const tcc_program *p, const bucket *k) {
    int64_t bytes = 0;
    for (int i = 0; i < p->n_bindings; i++)
        bytes += is_in(k, &p->bindings[i]) ? tcc_type_bytes(&p->bindings[i].type) : 0;
    return bytes;
}

/* Copies the totals of a bucket to m->bucket, or back. They are few numbers, so a device of its own memory waits. */
static tcc_status copy(tcc_model *m, const tcc_program *p, const bucket *k, bool back) {
    const tcc_device_ops *ops = m->device->ops;
    char *at = m->bucket;
    for (int i = 0; i < p->n_bindings; i++) {
        const tcc_binding *b = &p->bindings[i];
        const int64_t bytes = is_in(k, b) ? tcc_type_bytes(&b->type) : 0;
        void *state = NULL;
        if (!bytes) continue;
        TCC_TRY(tcc__stored_device(m, tcc__model_stored(m, b->name), &state));
        TCC_TRY(back ? ops->upload(m->device, &m->cx->diag, state, at, bytes)
                     : ops->download(m->device, &m->cx->diag, at, state, bytes));
        at += bytes;
    }
    return TCC_OK;
}

tcc_status tcc__ranks_add_totals(tcc_model *m, const tcc_program *p, int level) {
    for (int how = TCC_COMM_SUM; how <= TCC_COMM_MIN; how++)
        for (int type = 0; type < TCC_DTYPE_COUNT; type++) {
            const bucket k = {level, (tcc_comm_op)how, (tcc_dtype)type};
            const int64_t bytes = bytes_in(p, &k);
            if (!bytes) continue;
            TCC_TRY(reserve(m, bytes));
            TCC_TRY(copy(m, p, &k, false));
            TCC_TRY(tcc_comm_all_reduce(m->options.comm, k.how, k.type, m->bucket, bytes / tcc_dtype_bytes(k.type)));
            TCC_TRY(copy(m, p, &k, true));
        }
    return TCC_OK;
}

/* -- Errors -- */

tcc_status tcc__ranks_check(tcc_model *m, tcc_status status) {
    const bool failed = status != TCC_OK && status != TCC_ENOTFOUND;
    if (failed && m->options.comm && !tcc_comm_has_failed(m->options.comm)) tcc__ranks_fail(m);
    return status;
}

void tcc__ranks_fail(tcc_model *m) {
    tcc_note(&m->cx->diag, TCC_NOWHERE, "in training step %lld", (long long)m->step);
    tcc_comm_abort(m->options.comm, tcc_diag_words(&m->cx->diag));
}
