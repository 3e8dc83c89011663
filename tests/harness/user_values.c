/* SPDX-License-Identifier: MIT
 * Random users' programs: which values a layer takes, and where indices and masks come from. */
#include "harness/user_maker.h"

#include <string.h>

void user_push(user_maker *m, int v) {
    if (m->p->steps[v].dtype == TCC_F32 && user_rank(m, v) && m->n_pool < USER_POOL) m->pool[m->n_pool++] = v;
}

/* `v` with so many dims: the first ones become one, or one of extent 1 comes in front. */
static int with_rank(user_maker *m, int v, int rank) {
    int64_t dims[TCC_MAX_RANK];
    memcpy(dims, m->p->steps[v].dims, sizeof dims);
    int have = user_rank(m, v);
    while (have > rank) {
        dims[0] *= dims[1];
        memmove(dims + 1, dims + 2, sizeof *dims * (size_t)(have - 2));
        have--;
    }
    while (have < rank) {
        const int at = have == rank - 1 ? 0 : (int)user_below(m, have + 1);
        memmove(dims + at + 1, dims + at, sizeof *dims * (size_t)(have - at));
        dims[at] = 1;
        have++;
    }
    return user_op_ints(m, USER_reshape, v, rank, dims);
}

/* The same with an extent of 1 replaced: added to a parameter of the full shape. */
static int widened(user_maker *m, int v) {
    int64_t dims[TCC_MAX_RANK];
    const int rank = user_rank(m, v);
    memcpy(dims, m->p->steps[v].dims, sizeof dims);
    for (int d = 0; d < rank; d++)
        if (dims[d] == 1) dims[d] = user_extent(m);
    if (!user_fits(m, rank, dims)) return v;
    return user_op2(m, (user_op)USER_ONE_OF(m, USER_add, USER_mul), v, user_param(m, 1, rank, dims));
}

int user_pick(user_maker *m, int least_rank, int most_rank) {
    for (int i = 0; i < 12 && m->n_pool; i++) {
        const int64_t back = user_chance(m, 65) && m->n_pool > 3 ? 3 : m->n_pool;
        const int v = m->pool[m->n_pool - 1 - user_below(m, back)];
        if (user_rank(m, v) >= least_rank && user_rank(m, v) <= most_rank) return v;
    }
    if (m->n_pool && user_chance(m, 75)) {
        const int v = m->pool[m->n_pool - 1 - user_below(m, m->n_pool)];
        return widened(m, with_rank(m, v, user_rank(m, v) < least_rank ? least_rank : most_rank));
    }
    int64_t dims[TCC_MAX_RANK];
    const int rank = least_rank + (int)user_below(m, most_rank - least_rank + 1);
    for (int d = 0; d < rank; d++) dims[d] = user_extent(m);
    while (!user_fits(m, rank, dims)) dims[user_below(m, rank)] = 1 + user_below(m, 3);
    return user_chance(m, 50) ? user_param(m, 1, rank, dims)
                              : user_new_input(m, TCC_F32, USER_FILL_UNIFORM, 0, rank, dims);
}

int user_pick_like(user_maker *m, int v) {
    if (user_chance(m, 12)) return v;
    for (int i = 0; i < 10 && user_chance(m, 80); i++) {
        const int other = m->pool[user_below(m, m->n_pool ? m->n_pool : 1)];
        if (m->n_pool && user_same(m, other, v)) return other;
    }
    const user_step s = m->p->steps[v];
    if (s.rank >= 2 && s.dims[s.rank - 1] == s.dims[s.rank - 2] && user_chance(m, 25)) { /* a square's transpose */
        int64_t perm[TCC_MAX_RANK];
        for (int d = 0; d < s.rank; d++) perm[d] = d;
        perm[s.rank - 1] = s.rank - 2, perm[s.rank - 2] = s.rank - 1;
        return user_op_ints(m, USER_transpose, v, s.rank, perm);
    }
    return user_param(m, 1, s.rank, s.dims);
}

int user_pick_broadcastable(user_maker *m, int v) {
    const user_step s = m->p->steps[v];
    int64_t dims[TCC_MAX_RANK];
    int skip = s.rank ? (int)user_below(m, s.rank) : 0;
    if (user_chance(m, 40)) skip = 0;
    for (int d = skip; d < s.rank; d++) dims[d - skip] = user_chance(m, 35) ? 1 : s.dims[d];
    const int rank = s.rank - skip;
    for (int i = 0; i < m->n_pool && user_chance(m, 95); i++) {
        const user_step *o = &m->p->steps[m->pool[i]];
        if (o->rank == rank && !memcmp(o->dims, dims, sizeof *dims * (size_t)rank) && user_chance(m, 50))
            return m->pool[i];
    }
    return user_param(m, 1, rank, dims);
}

/* -- Indices -- */

static int index_input(user_maker *m, int64_t limit, int rank, const int64_t *dims) {
    const user_fill fill = (user_fill)USER_ONE_OF(m, USER_FILL_INDEX, USER_FILL_INDEX, USER_FILL_FEW, USER_FILL_SORTED);
    return user_new_input(m, TCC_I32, fill, limit, rank, dims);
}

/* The index is one number, or varies along one dim alone. */
static int broadcast_index(user_maker *m, int64_t limit, int rank, const int64_t *dims) {
    int64_t small[TCC_MAX_RANK];
    const int keep = user_chance(m, 30) ? -1 : (int)user_below(m, rank);
    for (int d = 0; d < rank; d++) small[d] = d == keep ? dims[d] : 1;
    int i = user_chance(m, 50) ? index_input(m, limit, rank, small)
                               : user_literal_of(m, TCC_I32, (int)user_below(m, 4), limit, 1, rank, small);
    return user_op_ints(m, USER_broadcast, i, rank, dims);
}

/* Numbers that an integer table gives for other numbers. */
static int table_index(user_maker *m, int64_t limit, int rank, const int64_t *dims) {
    const int64_t rows = 2 + user_below(m, 9);
    int table = user_literal_of(m, TCC_I32, (int)user_below(m, 4), limit, 1, 1, &rows);
    user_step s = {.op = USER_take, .n_args = 2, .args = {table, index_input(m, rows, rank, dims)}, .n_ints = 1};
    return user_emit(m, &s);
}

/* iota along some dim, below the limit by a remainder where it must be. */
static int counted_index(user_maker *m, int64_t limit, int rank, const int64_t *dims) {
    const int axis = (int)user_below(m, rank);
    int i = user_iota(m, TCC_I32, axis, rank, dims);
    if (dims[axis] > limit || user_chance(m, 20))
        i = user_op2(m, USER_rem, i, user_constant(m, (double)limit, TCC_I32, 0, NULL));
    if (limit > 1 && user_chance(m, 20))
        i = user_op2(m, USER_min, i, user_constant(m, (double)(1 + user_below(m, limit - 1)), TCC_I32, 0, NULL));
    return i;
}

int user_indices(user_maker *m, int64_t limit, int rank, const int64_t *dims) {
    int64_t copy[TCC_MAX_RANK] = {0};
    memcpy(copy, dims, sizeof *dims * (size_t)rank);
    const int kind = (int)user_below(m, 10);
    if (!rank || kind < 3) return index_input(m, limit, rank, copy);
    if (kind < 4) return user_constant(m, (double)user_below(m, limit), TCC_I32, rank, copy);
    if (kind < 5) return user_literal_of(m, TCC_I32, (int)user_below(m, 4), limit, 1, rank, copy);
    if (kind < 7) return broadcast_index(m, limit, rank, copy);
    if (kind < 8) return table_index(m, limit, rank, copy);
    return counted_index(m, limit, rank, copy);
}

int user_mask(user_maker *m, int rank, const int64_t *dims) {
    int64_t copy[TCC_MAX_RANK] = {0};
    memcpy(copy, dims, sizeof *dims * (size_t)rank);
    if (rank < 2 || user_chance(m, 40)) return user_new_input(m, TCC_BOOL, USER_FILL_MASK, 0, rank, copy);
    if (user_chance(m, 50)) { /* a triangle */
        const int a = (int)user_below(m, rank), b = (a + 1) % rank;
        const int i = user_iota(m, TCC_I32, a, rank, copy), j = user_iota(m, TCC_I32, b, rank, copy);
        return user_op2(m, (user_op)USER_ONE_OF(m, USER_le, USER_lt, USER_ne), i, j);
    }
    for (int d = 0; d < rank - 1; d++) copy[d] = user_chance(m, 50) ? 1 : copy[d];
    int small = user_new_input(m, TCC_BOOL, USER_FILL_MASK, 0, rank, copy);
    return user_op_ints(m, USER_broadcast, small, rank, dims);
}
