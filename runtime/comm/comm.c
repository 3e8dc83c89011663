/* SPDX-License-Identifier: MIT
 * Collectives, from exchanges. Each begins with an exchange of what the ranks call, so that a difference is an error
 * before any data moves. A reduction over ranks gives each rank one part of the elements, of which it gets all ranks'
 * values and combines them in the order of ranks; then everybody gets all parts. */
#include "runtime/comm/comm.h"

#include "ir/support/alloc.h"
#include "ir/support/dtype.h"
#include "runtime/comm/combine.h"

#include <string.h>

enum { SLOT_ALIGNMENT = 64 };

typedef enum comm_kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, BARRIER, KINDS } comm_kind;
static const char *const kinds[KINDS] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier"};
static const char *const reductions[] = {"sum", "max", "min"};

/* A call as the ranks compare it. */
typedef struct comm_call {
    int64_t number; /* calls before it */
    int64_t kind, reduction, type, count, root;
} comm_call;

struct tcc_comm {
    tcc_context *cx;
    tcc_transport *transport;
    double timeout_s;
    int64_t calls;
    tcc_comm_part *parts; /* by rank; */
    comm_call *others;    /* what each rank calls */
    char *scratch;
    int64_t scratch_bytes;
    tcc_status failed; /* what each call gives; */
    char *why;         /* NULL where memory was short */
};

tcc_status tcc_comm_over(tcc_context *cx, tcc_transport *t, tcc_comm **out) {
    tcc_comm *c = tcc__calloc(1, sizeof *c);
    if (!c) return tcc_enomem(&cx->diag);
    c->parts = tcc__calloc((size_t)t->size, sizeof *c->parts);
    c->others = tcc__calloc((size_t)t->size, sizeof *c->others);
    c->cx = cx;
    c->timeout_s = 60;
    if (!c->parts || !c->others) {
        tcc_comm_destroy(c);
        return tcc_enomem(&cx->diag);
    }
    c->transport = t;
    *out = c;
    return TCC_OK;
}

void tcc_comm_destroy(tcc_comm *c) {
    if (!c) return;
    if (c->transport) c->transport->ops->destroy(c->transport);
    tcc__free(c->parts);
    tcc__free(c->others);
    tcc__free(c->scratch);
    tcc__free(c->why);
    tcc__free(c);
}

tcc_context *tcc_comm_context(const tcc_comm *c) { return c->cx; }
int tcc_comm_rank(const tcc_comm *c) { return c->transport->rank; }
int tcc_comm_size(const tcc_comm *c) { return c->transport->size; }
void tcc_comm_set_timeout(tcc_comm *c, double seconds) { c->timeout_s = seconds; }

static void keep_failure(tcc_comm *c, tcc_status status, const char *why) {
    if (c->failed) return;
    c->why = tcc__strdup(why);
    c->failed = status;
    c->transport->ops->abort(c->transport, why);
}

void tcc_comm_abort(tcc_comm *c, const char *why) { keep_failure(c, TCC_EIO, why); }

/* -- Calls -- */

static bool is_known(const comm_call *a) {
    return a->kind >= 0 && a->kind < KINDS && a->type >= 0 && a->type < TCC_DTYPE_COUNT && a->reduction >= 0 &&
           a->reduction <= TCC_COMM_MIN;
}

static void print_call(tcc_strbuf *out, const comm_call *a) {
    if (!is_known(a)) {
        tcc_strbuf_add(out, "something unknown");
        return;
    }
    tcc_strbuf_add(out, kinds[a->kind]);
    if (a->kind == ALL_REDUCE || a->kind == REDUCE_SCATTER)
        tcc_strbuf_printf(out, " (%s) of %lld %s", reductions[a->reduction], (long long)a->count,
                          tcc_dtype_text((tcc_dtype)a->type));
    else if (a->kind != BARRIER) tcc_strbuf_printf(out, " of %lld bytes", (long long)a->count);
    if (a->kind == BROADCAST) tcc_strbuf_printf(out, " from rank %lld", (long long)a->root);
}

static tcc_status different(tcc_comm *c, const comm_call *mine, int rank) {
    tcc_strbuf own = {0}, other = {0};
    print_call(&own, mine);
    print_call(&other, &c->others[rank]);
    tcc_error(&c->cx->diag, TCC_EINVAL, TCC_NOWHERE, "collective %lld: rank %d calls %s, but rank %d calls %s",
              (long long)mine->number, tcc_comm_rank(c), own.text ? own.text : "", rank, other.text ? other.text : "");
    tcc_strbuf_free(&own);
    tcc_strbuf_free(&other);
    return TCC_EINVAL;
}

/* All parts are set but their sizes and places, which are nothing's. */
static tcc_comm_part *no_parts(tcc_comm *c) {
    memset(c->parts, 0, (size_t)tcc_comm_size(c) * sizeof *c->parts);
    return c->parts;
}

static tcc_status exchange(tcc_comm *c) {
    return c->transport->ops->exchange(c->transport, &c->cx->diag, c->parts, c->timeout_s);
}

static tcc_status agree(tcc_comm *c, const comm_call *mine) {
    tcc_comm_part *parts = no_parts(c);
    for (int r = 0; r < tcc_comm_size(c); r++)
        parts[r] = (tcc_comm_part){mine, &c->others[r], sizeof *mine, sizeof *mine};
    c->others[tcc_comm_rank(c)] = *mine;
    TCC_TRY(exchange(c));
    for (int r = 0; r < tcc_comm_size(c); r++)
        if (memcmp(mine, &c->others[r], sizeof *mine) != 0) return different(c, mine, r);
    return TCC_OK;
}

static tcc_status check_arguments(tcc_comm *c, const comm_call *a) {
    tcc_diag *d = &c->cx->diag;
    const char *name = kinds[a->kind];
    int64_t bytes;
    if (c->failed)
        return tcc_error(d, c->failed, TCC_NOWHERE, "the communicator failed before: %s", c->why ? c->why : "");
    if (!is_known(a))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "%s: no type %lld or no reduction %lld", name, (long long)a->type,
                         (long long)a->reduction);
    if (a->root < 0 || a->root >= tcc_comm_size(c))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "%s: no rank %lld of %d", name, (long long)a->root,
                         tcc_comm_size(c));
    if (a->count >= 0 && !__builtin_mul_overflow(a->count, 16 * (int64_t)tcc_comm_size(c), &bytes)) return TCC_OK;
    return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "%s: a count of %lld is out of range", name, (long long)a->count);
}

/* What is wrong with the arguments on one rank would leave the others waiting: they get that error, too. */
static tcc_status begin(tcc_comm *c, comm_call a) {
    tcc_diag_begin(&c->cx->diag);
    tcc_status status = check_arguments(c, &a);
    a.number = c->calls++;
    return status == TCC_OK ? agree(c, &a) : status;
}

static tcc_status reserve(tcc_comm *c, int64_t bytes) {
    if (bytes <= c->scratch_bytes) return TCC_OK;
    tcc__free(c->scratch);
    c->scratch_bytes = 0;
    c->scratch = tcc__aligned(SLOT_ALIGNMENT, (size_t)bytes);
    if (!c->scratch) return tcc_enomem(&c->cx->diag);
    c->scratch_bytes = bytes;
    return TCC_OK;
}

/* Ends a call: an error is the communicator's last word. */
static tcc_status end(tcc_comm *c, comm_kind kind, tcc_status status) {
    tcc_diag *d = &c->cx->diag;
    if (status == TCC_OK || c->failed) return status;
    char *why = tcc__strdup(tcc_diag_words(d));
    if (status == TCC_EIO) { /* the transport's, which knows no collective */
        tcc_diag_begin(d);
        tcc_error(d, status, TCC_NOWHERE, "%s, collective %lld, on rank %d of %d: %s", kinds[kind],
                  (long long)c->calls - 1, tcc_comm_rank(c), tcc_comm_size(c), why ? why : "");
    }
    keep_failure(c, status, tcc_diag_words(d));
    tcc__free(why);
    return status;
}

/* -- Reductions -- */

/* Where rank r's part of `count` elements begins. */
static int64_t part_begin(const tcc_comm *c, int64_t count, int r) {
    const int64_t size = tcc_comm_size(c);
    return count / size * r + (count % size < r ? count % size : r);
}

static int64_t slot_bytes(int64_t bytes) { return (bytes + SLOT_ALIGNMENT - 1) / SLOT_ALIGNMENT * SLOT_ALIGNMENT; }

/* Gets `count` elements of each rank, which at `from` begin at element begins(r), and combines them into `to`, which
 * may be this rank's own. */
static tcc_status reduce_part(tcc_comm *c, const comm_call *a, const char *from,
                              int64_t (*begins)(const tcc_comm *c, int64_t count, int r), void *to) {
    const int size = tcc_comm_size(c), rank = tcc_comm_rank(c);
    const int64_t element = tcc_dtype_bytes((tcc_dtype)a->type);
    const int64_t count = begins(c, a->count, rank + 1) - begins(c, a->count, rank);
    const int64_t slot = slot_bytes(count * element);
    tcc_comm_part *parts = no_parts(c);
    TCC_TRY(reserve(c, slot * size));
    for (int r = 0; r < size; r++) {
        const int64_t begin = begins(c, a->count, r), end = begins(c, a->count, r + 1);
        parts[r] = (tcc_comm_part){from + begin * element, slot ? c->scratch + r * slot : NULL, (end - begin) * element,
                                   count * element};
    }
    TCC_TRY(exchange(c));
    if (!count) return TCC_OK; /* there are fewer elements than ranks */
    const void *own = parts[rank].to;
    if (rank == 0) memcpy(c->scratch, own, (size_t)(count * element));
    for (int r = 1; r < size; r++)
        tcc_combine((tcc_comm_op)a->reduction, (tcc_dtype)a->type, c->scratch, r == rank ? own : c->scratch + r * slot,
                    count);
    memcpy(to, c->scratch, (size_t)(count * element));
    return TCC_OK;
}

static tcc_status gather_parts(tcc_comm *c, const comm_call *a, char *data) {
    const int size = tcc_comm_size(c), rank = tcc_comm_rank(c);
    const int64_t element = tcc_dtype_bytes((tcc_dtype)a->type);
    const int64_t begin = part_begin(c, a->count, rank), end = part_begin(c, a->count, rank + 1);
    tcc_comm_part *parts = no_parts(c);
    for (int r = 0; r < size; r++) {
        const int64_t first = part_begin(c, a->count, r);
        parts[r] = (tcc_comm_part){data + begin * element, data + first * element, (end - begin) * element,
                                   (part_begin(c, a->count, r + 1) - first) * element};
    }
    return exchange(c);
}

tcc_status tcc_comm_all_reduce(tcc_comm *c, tcc_comm_op reduction, tcc_dtype type, void *data, int64_t count) {
    const comm_call a = {.kind = ALL_REDUCE, .reduction = reduction, .type = type, .count = count};
    tcc_status status = begin(c, a);
    if (status == TCC_OK && tcc_comm_size(c) > 1 && count) {
        char *own = (char *)data + part_begin(c, count, tcc_comm_rank(c)) * tcc_dtype_bytes(type);
        status = reduce_part(c, &a, data, part_begin, own);
        if (status == TCC_OK) status = gather_parts(c, &a, data);
    }
    return end(c, ALL_REDUCE, status);
}

static int64_t block_begin(const tcc_comm *c, int64_t count, int r) {
    (void)c;
    return count * r;
}

tcc_status tcc_comm_reduce_scatter(tcc_comm *c, tcc_comm_op reduction, tcc_dtype type, const void *from, void *to,
                                   int64_t count) {
    const comm_call a = {.kind = REDUCE_SCATTER, .reduction = reduction, .type = type, .count = count};
    tcc_status status = begin(c, a);
    if (status == TCC_OK && count) status = reduce_part(c, &a, from, block_begin, to);
    return end(c, REDUCE_SCATTER, status);
}

/* -- Copies -- */

tcc_status tcc_comm_all_gather(tcc_comm *c, const void *from, void *to, int64_t size_bytes) {
    const comm_call a = {.kind = ALL_GATHER, .count = size_bytes};
    tcc_status status = begin(c, a);
    if (status == TCC_OK && size_bytes) {
        tcc_comm_part *parts = no_parts(c);
        for (int r = 0; r < tcc_comm_size(c); r++)
            parts[r] = (tcc_comm_part){from, (char *)to + r * size_bytes, size_bytes, size_bytes};
        memcpy(parts[tcc_comm_rank(c)].from, from, (size_t)size_bytes);
        status = exchange(c);
    }
    return end(c, ALL_GATHER, status);
}

tcc_status tcc_comm_broadcast(tcc_comm *c, int root, void *data, int64_t size_bytes) {
    const comm_call a = {.kind = BROADCAST, .count = size_bytes, .root = root};
    tcc_status status = begin(c, a);
    if (status == TCC_OK) {
        tcc_comm_part *parts = no_parts(c);
        for (int r = 0; r < tcc_comm_size(c) && root == tcc_comm_rank(c); r++)
            parts[r] = (tcc_comm_part){.to = data, .to_bytes = size_bytes};
        if (root != tcc_comm_rank(c)) parts[root] = (tcc_comm_part){.from = data, .from_bytes = size_bytes};
        status = exchange(c);
    }
    return end(c, BROADCAST, status);
}

tcc_status tcc_comm_barrier(tcc_comm *c) { return end(c, BARRIER, begin(c, (comm_call){.kind = BARRIER})); }
