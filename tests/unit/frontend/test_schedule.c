/* SPDX-License-Identifier: MIT
 * Schedules have PyTorch's values at each step (numerics/golden/make_schedules.py), end as they say, and refuse numbers
 * without sense. */
#include "harness/check.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <traincc/schedule.h>

static const char *const kinds[] = {"constant", "step",       "multi_step", "linear",
                                    "cosine",   "polynomial", "cyclic",     "one_cycle"};
static const char *const modes[] = {"triangular", "triangular2", "exp_range"};

static int index_of(const char *const *names, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i], name)) return i;
    fail_msg("unknown \"%s\"", name);
    return -1;
}

static void set_field(tcc_schedule *s, const cJSON *f, int64_t *milestones) {
    static const struct {
        const char *name;
        size_t offset;
        char kind;
    } fields[] = {
#define FIELD(name, kind) {#name, offsetof(tcc_schedule, name), kind}
        FIELD(lr, 'd'),           FIELD(min_lr, 'd'),      FIELD(warmup_steps, 'i'),   FIELD(steps, 'i'),
        FIELD(step_size, 'i'),    FIELD(gamma, 'd'),       FIELD(power, 'd'),          FIELD(cycle_up, 'i'),
        FIELD(cycle_down, 'i'),   FIELD(pct_start, 'd'),   FIELD(div_factor, 'd'),     FIELD(final_div_factor, 'd'),
        FIELD(linear, 'b'),       FIELD(three_phase, 'b'), FIELD(cycle_momentum, 'b'), FIELD(base_momentum, 'd'),
        FIELD(max_momentum, 'd'),
#undef FIELD
    };
    if (!strcmp(f->string, "milestones")) {
        s->n_milestones = cJSON_GetArraySize(f);
        for (int i = 0; i < s->n_milestones; i++) milestones[i] = (int64_t)cJSON_GetArrayItem(f, i)->valuedouble;
        s->milestones = milestones;
        return;
    }
    if (!strcmp(f->string, "cycle_mode")) {
        s->cycle_mode = (tcc_cycle_mode)index_of(modes, 3, f->valuestring);
        return;
    }
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(fields[i].name, f->string)) continue;
        void *to = (char *)s + fields[i].offset;
        if (fields[i].kind == 'd') *(double *)to = f->valuedouble;
        else if (fields[i].kind == 'i') *(int64_t *)to = (int64_t)f->valuedouble;
        else *(bool *)to = cJSON_IsTrue(f);
        return;
    }
    fail_msg("unknown field \"%s\"", f->string);
}

static void check_case(tcc_context *cx, const cJSON *c) {
    int64_t milestones[8];
    tcc_schedule s;
    const char *kind = cJSON_GetObjectItem(c, "kind")->valuestring;
    const cJSON *field, *value, *lr = cJSON_GetObjectItem(c, "lr"), *momentum = cJSON_GetObjectItem(c, "momentum");
    tcc_schedule_init(&s, (tcc_schedule_kind)index_of(kinds, 8, kind));
    cJSON_ArrayForEach(field, cJSON_GetObjectItem(c, "fields")) set_field(&s, field, milestones);
    assert_int_equal(tcc_schedule_check(cx, &s), TCC_OK);
    int64_t step = 0;
    cJSON_ArrayForEach(value, lr) {
        const double got = tcc_schedule_lr(&s, step), want = value->valuedouble;
        if (!(fabs(got - want) <= 1e-12 * s.lr))
            fail_msg("%s, step %lld: lr %.17g, PyTorch has %.17g", kind, (long long)step, got, want);
        step++;
    }
    assert_true(step > 0);
    step = 0;
    cJSON_ArrayForEach(value, momentum) {
        const double got = tcc_schedule_momentum(&s, step), want = value->valuedouble;
        if (!(fabs(got - want) <= 1e-12))
            fail_msg("%s, step %lld: momentum %.17g, PyTorch has %.17g", kind, (long long)step, got, want);
        step++;
    }
    if (!step) assert_true(isnan(tcc_schedule_momentum(&s, 0)));
}

static void has_the_values_of_pytorch(void **state) {
    (void)state;
    tcc_context *cx;
    FILE *f = fopen(TCC_SOURCE_DIR "/tests/numerics/golden/schedules.json", "r");
    static char text[1 << 17];
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    cJSON *all = cJSON_Parse(text);
    const cJSON *c;
    assert_non_null(all);
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    int count = 0;
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(all, "cases")) check_case(cx, c), count++;
    assert_true(count >= 19);
    cJSON_Delete(all);
    tcc_context_destroy(cx);
}

/* A run may be longer than its schedule. */
static void stays_at_its_end(void **state) {
    (void)state;
    tcc_schedule s;
    for (int kind = TCC_SCHEDULE_LINEAR; kind <= TCC_SCHEDULE_POLYNOMIAL; kind++) {
        tcc_schedule_init(&s, (tcc_schedule_kind)kind);
        s.lr = 0.5, s.min_lr = 0.125, s.steps = 10;
        assert_true(tcc_schedule_lr(&s, 10) == 0.125 && tcc_schedule_lr(&s, 1000) == 0.125);
    }
    tcc_schedule_init(&s, TCC_SCHEDULE_ONE_CYCLE);
    s.steps = 10;
    assert_true(tcc_schedule_lr(&s, 9) == tcc_schedule_lr(&s, 1000));
    assert_true(tcc_schedule_momentum(&s, 1000) == s.max_momentum);
}

static void check_refused(tcc_context *cx, const tcc_schedule *s, const char *message) {
    assert_int_equal(tcc_schedule_check(cx, s), TCC_EINVAL);
    if (!strstr(tcc_context_error(cx), message)) fail_msg("\"%s\" does not say \"%s\"", tcc_context_error(cx), message);
}

static void refuses_numbers_without_sense(void **state) {
    (void)state;
    static const int64_t falling[] = {9, 8};
    tcc_context *cx;
    tcc_schedule s;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
#define REFUSED(kind, field, value, message) \
    tcc_schedule_init(&s, (kind));           \
    s.field = (value);                       \
    check_refused(cx, &s, (message))
    REFUSED(TCC_SCHEDULE_CONSTANT, lr, INFINITY, "schedule: lr inf must be from 0 to 1e+30");
    REFUSED(TCC_SCHEDULE_CONSTANT, lr, NAN, "schedule: lr nan must be from 0 to 1e+30");
    REFUSED(TCC_SCHEDULE_CONSTANT, lr, -1, "schedule: lr -1 must be");
    REFUSED(TCC_SCHEDULE_STEP, step_size, 0, "schedule: step_size 0 must be at least 1");
    REFUSED(TCC_SCHEDULE_STEP, warmup_every, 0, "schedule: warmup_every 0 must be at least 1");
    REFUSED(TCC_SCHEDULE_CYCLIC, cycle_down, 0, "schedule: cycle_down 0 must be at least 1");
    REFUSED(TCC_SCHEDULE_CYCLIC, warmup_steps, 3, "schedule: warmup_steps 3 with a cyclic schedule");
    REFUSED(TCC_SCHEDULE_ONE_CYCLE, pct_start, 1.5, "schedule: pct_start 1.5 must be from 0 to 1");
    REFUSED(TCC_SCHEDULE_ONE_CYCLE, max_momentum, 1, "schedule: max_momentum 1 must be");
    REFUSED(TCC_SCHEDULE_ONE_CYCLE, size, 8, "schedule: size 8 is less than");
    REFUSED(TCC_SCHEDULE_ONE_CYCLE, base_momentum, 0.97,
            "schedule: base_momentum 0.97 must be at most max_momentum, 0.95");
    REFUSED(TCC_SCHEDULE_COSINE, min_lr, 1, "schedule: min_lr 1 must be at most lr, 0.001");
    REFUSED(TCC_SCHEDULE_MULTI_STEP, n_milestones, 2, "schedule: the list of 2 milestones is NULL");
    REFUSED(TCC_SCHEDULE_MULTI_STEP, n_milestones, 0, "schedule: a multi-step schedule needs milestones");
    REFUSED((tcc_schedule_kind)99, lr, 1, "schedule: kind 99");
#undef REFUSED
    check_refused(cx, NULL, "schedule: it is NULL");
    tcc_schedule_init(&s, TCC_SCHEDULE_MULTI_STEP);
    s.milestones = falling, s.n_milestones = 2;
    check_refused(cx, &s, "schedule: milestone 8 is less than the one before");
    tcc_context_destroy(cx);
}

/* By epochs: at the start of epoch e of W the rate is (e + 1) / (W + 1) of its largest, and all of it behind them. */
static void warms_up_by_epochs(void **state) {
    (void)state;
    enum { EPOCH = 5, EPOCHS = 3 };
    tcc_schedule s;
    tcc_schedule_init(&s, TCC_SCHEDULE_POLYNOMIAL);
    s.lr = 0.8, s.steps = 40, s.power = 0.9, s.warmup_steps = EPOCH * EPOCHS, s.warmup_every = EPOCH;
    for (int step = 0; step < 40; step++) {
        const int after = step - EPOCH * EPOCHS;
        const double expected = after < 0 ? 0.8 * (step / EPOCH + 1) / (EPOCHS + 1) : 0.8 * pow(1 - after / 25.0, 0.9);
        assert_true(fabs(tcc_schedule_lr(&s, step) - expected) < 1e-12);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_values_of_pytorch),
        cmocka_unit_test(stays_at_its_end),
        cmocka_unit_test(warms_up_by_epochs),
        cmocka_unit_test(refuses_numbers_without_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
