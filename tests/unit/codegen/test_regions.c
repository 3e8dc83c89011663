/* SPDX-License-Identifier: MIT
 * Regions of memory, beside the bytes that they are: random ones in rows of rows, and written as the parts of a value
 * that they are, in any order. */
#include "codegen/body/access.h"
#include "codegen/verify/memory.h"
#include "harness/check.h"

#include <string.h>

enum { BYTES = 512, MOST_DIMS = 3 };

typedef struct bytes {
    bool has[BYTES];
} bytes;

static uint64_t state_of_random = 1;

static int64_t below(int64_t n) {
    state_of_random = state_of_random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (int64_t)((state_of_random >> 33) % (uint64_t)n);
}

static void fill(bytes *out, int64_t from, int64_t element, const tcc_region_dim *dims, int n) {
    if (n == 0) memset(&out->has[from], true, (size_t)element);
    for (int64_t i = 0; n > 0 && i < dims[n - 1].extent; i++)
        fill(out, from + i * dims[n - 1].stride, element, dims, n - 1);
}

/* A box in rows of rows: a tensor's part. *out: the bytes that it is. */
static tcc_region random_box(bytes *out) {
    tcc_region_dim dims[MOST_DIMS];
    const int64_t element = 1 + below(4);
    int64_t stride = element, from = 0;
    for (int i = 0; i < MOST_DIMS; i++) {
        const int64_t size = 1 + below(4), extent = 1 + below(size), first = below(size - extent + 1);
        dims[i] = (tcc_region_dim){extent, stride};
        from += first * stride;
        stride *= size;
    }
    from += below(8);
    *out = (bytes){{false}};
    fill(out, from, element, dims, MOST_DIMS);
    return tcc_region_of(from, element, dims, MOST_DIMS);
}

/* What is said of two regions is true of their bytes, and mostly it is said where it is true. */
static void as_their_bytes(void **state) {
    (void)state;
    int meet = 0, said_meet = 0, within = 0, said_within = 0;
    for (int round = 0; round < 20000; round++) {
        bytes a, b;
        const tcc_region x = random_box(&a), y = random_box(&b);
        bool share = false, inside = true;
        int64_t count = 0, last = 0;
        for (int i = 0; i < BYTES; i++) {
            share |= a.has[i] && b.has[i];
            inside &= a.has[i] || !b.has[i];
            count += a.has[i];
            if (a.has[i]) last = i;
        }
        assert_true(x.exact);
        assert_int_equal(tcc_region_bytes(&x), count);
        assert_int_equal(tcc_region_end(&x), last + 1);
        assert_true(!share || tcc_region_overlap(&x, 0, &y, 0));
        assert_true(inside || !tcc_region_contains(&x, &y));
        meet += share, said_meet += tcc_region_overlap(&x, 0, &y, 0);
        within += inside, said_within += tcc_region_contains(&x, &y);
    }
    assert_true(meet > 1000 && said_meet < meet + meet / 4);
    assert_true(within > 100 && said_within > within / 2);
}

/* --- Written in parts */

enum { MOST_PARTS = 16, VALUE = 3 };

typedef struct parts {
    tcc_region of[MOST_PARTS];
    int n;
    int64_t strides[MOST_DIMS];
} parts;

/* Cuts a box into parts, along random dims. */
static void cut(parts *to, const int64_t *first, const int64_t *extents) {
    const int dim = (int)below(MOST_DIMS);
    if (to->n + 8 < MOST_PARTS && extents[dim] > 1 && below(5)) {
        const int64_t here = 1 + below(extents[dim] - 1);
        int64_t begin[MOST_DIMS], left[MOST_DIMS];
        memcpy(begin, first, sizeof begin);
        memcpy(left, extents, sizeof left);
        left[dim] = here;
        cut(to, begin, left);
        begin[dim] += here;
        left[dim] = extents[dim] - here;
        cut(to, begin, left);
        return;
    }
    tcc_region_dim dims[MOST_DIMS];
    int64_t from = 0;
    for (int i = 0; i < MOST_DIMS; i++) {
        dims[i] = (tcc_region_dim){extents[i], to->strides[i]};
        from += first[i] * to->strides[i];
    }
    assert_true(to->n < MOST_PARTS);
    to->of[to->n++] = tcc_region_of(from, to->strides[0], dims, MOST_DIMS);
}

/* Writes all parts but `missing`, in a random order; the mark of the whole value, which is `there` or not. */
static uint64_t written(const parts *p, int64_t size, int missing, bool there) {
    tcc_marked_memory memory = {0};
    tcc_marked_parts marked = {0};
    int order[MOST_PARTS] = {0};
    for (int i = 0; i < p->n; i++) {
        const int k = (int)below(i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    for (int i = 0; i < p->n; i++)
        if (order[i] != missing)
            assert_true(tcc_marked_write(&memory, &marked, 64, VALUE, size, &p->of[order[i]], (uint64_t)order[i] + 1));
    const tcc_region whole = tcc_region_whole(size);
    const tcc_marked_read read = tcc_marked_find(&memory, &marked, 64, VALUE, &whole);
    assert_int_equal(!read.wrong, there);
    tcc_vec_free(&memory);
    tcc_marked_parts_free(&marked);
    return read.written;
}

/* A value is there when all of its parts are, however it was cut, with one mark in any order. */
static void parts_in_any_order(void **state) {
    (void)state;
    int several = 0;
    for (int round = 0; round < 3000; round++) {
        const int64_t extents[MOST_DIMS] = {1 + below(6), 1 + below(6), 1 + below(6)};
        parts p = {.strides = {4, 4 * extents[0], 4 * extents[0] * extents[1]}};
        const int64_t size = p.strides[2] * extents[2];
        cut(&p, (int64_t[MOST_DIMS]){0}, extents);
        const uint64_t one = written(&p, size, -1, true);
        assert_int_equal(written(&p, size, -1, true), one);
        written(&p, size, (int)below(p.n), false);
        several += p.n > 3;
    }
    assert_true(several > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_their_bytes), cmocka_unit_test(parts_in_any_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
