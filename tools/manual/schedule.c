/* SPDX-License-Identifier: MIT
 * Examples of schedule.h. */
#include "examples.h"

EXAMPLE(tcc_schedule_init) {
    tcc_schedule s;
    tcc_schedule_init(&s, TCC_SCHEDULE_COSINE);
    printf("from %g to %g\n", s.lr, s.min_lr); /* from 0.001 to 0 */
}

EXAMPLE(tcc_schedule_check) {
    tcc_schedule s;
    tcc_schedule_init(&s, TCC_SCHEDULE_COSINE);
    s.lr = -1;
    if (tcc_schedule_check(cx, &s))
        printf("%s\n", tcc_context_error(cx)); /* error: schedule: lr -1 must be from 0 to 1e+30 */
}

EXAMPLE(tcc_schedule_lr) {
    tcc_schedule s;
    tcc_schedule_init(&s, TCC_SCHEDULE_LINEAR);
    s.lr = 0.1, s.steps = 10;
    printf("%g, %g\n", tcc_schedule_lr(&s, 0), tcc_schedule_lr(&s, 5)); /* 0.1, 0.05 */
}

EXAMPLE(tcc_schedule_momentum) {
    tcc_schedule s;
    tcc_schedule_init(&s, TCC_SCHEDULE_ONE_CYCLE);
    s.steps = 10;
    printf("%g\n", tcc_schedule_momentum(&s, 0)); /* 0.95 */
}
