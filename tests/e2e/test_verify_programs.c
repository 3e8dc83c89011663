/* SPDX-License-Identifier: MIT
 * Verification raises no alarm on programs that look like users' code. TCC_TEST_COUNT says how many, TCC_TEST_SEED from
 * which seed on. */
#include "harness/check.h"
#include "harness/user_random.h"

#include <stdio.h>
#include <stdlib.h>

static int number(const char *name, int otherwise) { return getenv(name) ? atoi(getenv(name)) : otherwise; }

/* The error's text, from malloc; NULL: none. */
static char *verify(const user_program *p, tcc_mode mode) {
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[USER_INPUTS];
    const tcc_model_options o = {.size = sizeof o, .mode = mode, .seed = p->seed, .optimizer = &p->optimizer};
    char *text = NULL;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    assert_int_equal(tcc_model_create(cx, user_program_trace, (void *)(uintptr_t)p, &o, &m), TCC_OK);
    user_batch_make(p, 0, batch);
    if (tcc_model_verify(m, batch, p->n_inputs, 0, NULL) != TCC_OK) text = strdup(tcc_context_error(cx));
    user_batch_free(p, batch);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return text;
}

static void random_programs_are_right(void **state) {
    (void)state;
    static user_program p;
    const int first = number("TCC_TEST_SEED", 1), count = number("TCC_TEST_COUNT", 12);
    int alarms = 0;
    for (int i = 0; i < count; i++) {
        assert_null(user_program_random(&(user_random_options){0}, (uint64_t)(first + i), &p));
        char *text = verify(&p, i % 4 ? TCC_MODE_DEFAULT : TCC_MODE_EAGER);
        if (text) print_message("seed %d: %s\n", first + i, text);
        alarms += text != NULL;
        free(text);
    }
    if (alarms) fail_msg("%d alarms in %d programs", alarms, count);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs_are_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
