/* SPDX-License-Identifier: MIT
 * Memory that the interpreter uses again: for values of about the same size, zeroed, and never more than was in use at
 * once. */
#include "harness/check.h"
#include "ir/eval.h"
#include "ir/support/alloc.h"

#include <string.h>

enum { LARGE = 1 << 20 };

static void blocks_serve_again(void **state) {
    (void)state;
    tcc_value_pool *p = tcc_value_pool_create();
    tcc__alloc_fail_at(INT64_MAX);
    char *a = tcc_value_pool_take(p, LARGE, false), *b = tcc_value_pool_take(p, LARGE + 1, false);
    assert_true(a && b);
    memset(a, 1, LARGE), memset(b, 1, LARGE + 1);
    tcc_value_pool_give(p, a, LARGE);
    tcc_value_pool_give(p, b, LARGE + 1);
    assert_int_equal(tcc__alloc_fail_at(INT64_MAX), 2);
    char *other = tcc_value_pool_take(p, LARGE + 1000, true); /* the same, once both are rounded up */
    assert_ptr_equal(other, b);
    for (int i = 0; i < LARGE + 1000; i++) assert_int_equal(other[i], 0);
    assert_ptr_equal(tcc_value_pool_take(p, LARGE, false), a);
    assert_int_equal(tcc__alloc_fail_at(-1), 0);
    tcc_value_pool_give(p, a, LARGE);
    tcc_value_pool_give(p, other, LARGE + 1000);
    tcc_value_pool_destroy(p);
}

/* Frees do not show in the count of allocations: what was freed has to be allocated again. */
static void no_more_is_kept_than_was_in_use(void **state) {
    (void)state;
    tcc_value_pool *p = tcc_value_pool_create();
    tcc__alloc_fail_at(INT64_MAX);
    for (int i = 0; i < 3; i++) tcc_value_pool_give(p, tcc_value_pool_take(p, LARGE, false), LARGE);
    assert_int_equal(tcc__alloc_fail_at(INT64_MAX), 1);
    void *twice = tcc_value_pool_take(p, 2 * LARGE, false); /* the first block is freed */
    tcc_value_pool_give(p, twice, 2 * LARGE);
    void *one = tcc_value_pool_take(p, LARGE, false);
    assert_int_equal(tcc__alloc_fail_at(INT64_MAX), 2); /* this one, too: both were never in use */
    tcc_value_pool_give(p, one, LARGE);
    twice = tcc_value_pool_take(p, 2 * LARGE, false);
    assert_int_equal(tcc__alloc_fail_at(-1), 1);
    tcc_value_pool_give(p, twice, 2 * LARGE);
    tcc_value_pool_destroy(p);
}

static void small_blocks_and_no_pool(void **state) {
    (void)state;
    tcc_value_pool *p = tcc_value_pool_create();
    for (int i = 0; i < 2; i++) {
        tcc_value_pool *pool = i ? NULL : p;
        const size_t bytes = i ? LARGE : 1000;
        tcc__alloc_fail_at(INT64_MAX);
        tcc_value_pool_give(pool, tcc_value_pool_take(pool, bytes, true), bytes);
        tcc_value_pool_give(pool, tcc_value_pool_take(pool, bytes, true), bytes);
        assert_int_equal(tcc__alloc_fail_at(-1), 2);
        tcc_value_pool_give(pool, NULL, bytes);
    }
    tcc_value_pool_destroy(p);
}

/* After a failure nothing counts as in use that is not. */
static void memory_is_short(void **state) {
    (void)state;
    tcc_value_pool *p = tcc_value_pool_create();
    tcc_value_pool_give(p, tcc_value_pool_take(p, LARGE, false), LARGE);
    tcc__alloc_fail_at(0);
    assert_null(tcc_value_pool_create());
    void *kept = tcc_value_pool_take(p, LARGE, false);
    assert_non_null(kept);
    assert_null(tcc_value_pool_take(p, LARGE, false));
    tcc__alloc_fail_at(-1);
    tcc_value_pool_give(p, kept, LARGE);
    tcc_value v;
    const tcc_type type = {TCC_F32, 1, {LARGE / 8}};
    assert_ok(tcc_value_create_in(p, &type, &v, NULL), NULL);
    assert_ptr_equal(v.f, kept);
    tcc_value_free(&v);
    tcc_value_pool_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_serve_again),
                                       cmocka_unit_test(no_more_is_kept_than_was_in_use),
                                       cmocka_unit_test(small_blocks_and_no_pool), cmocka_unit_test(memory_is_short)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
