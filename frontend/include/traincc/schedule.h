/* SPDX-License-Identifier: MIT
 * Schedules: the learning rate, and the momentum, of each training step. They are numbers that the host computes and
 * hands over with the batch, so none of them recompiles anything. The values are those of torch.optim.lr_scheduler.
 *
 *     tcc_schedule s;
 *     tcc_schedule_init(&s, TCC_SCHEDULE_ONE_CYCLE);
 *     s.lr = 0.1, s.steps = 1000;
 *     if (tcc_schedule_check(cx, &s)) ...;
 *     for (int64_t i = 0; i < s.steps; i++) {
 *         tcc_model_set_lr(m, tcc_schedule_lr(&s, i));
 *         tcc_model_set_momentum(m, tcc_schedule_momentum(&s, i));
 *         tcc_model_train(m, batch, count);
 *     }
 */
#ifndef TRAINCC_SCHEDULE_H
#define TRAINCC_SCHEDULE_H

#include "traincc/context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

TCC_API_BEGIN

typedef enum tcc_schedule_kind {
    TCC_SCHEDULE_CONSTANT,
    TCC_SCHEDULE_STEP,       /* times gamma every step_size steps */
    TCC_SCHEDULE_MULTI_STEP, /* times gamma at each milestone */
    TCC_SCHEDULE_LINEAR,     /* from lr to min_lr at step `steps`, and there from then on */
    TCC_SCHEDULE_COSINE,     /* the same along half a cosine (Loshchilov and Hutter 2016, without restarts) */
    TCC_SCHEDULE_POLYNOMIAL, /* the same along (1 - progress)^power */
    TCC_SCHEDULE_CYCLIC,     /* from min_lr to lr in cycle_up steps, back in cycle_down, again and again (Smith 2015) */
    TCC_SCHEDULE_ONE_CYCLE,  /* up to lr and down to next to nothing in `steps` steps (Smith and Topin 2017) */
} tcc_schedule_kind;

typedef enum tcc_cycle_mode {
    TCC_TRIANGULAR,
    TCC_TRIANGULAR2, /* each cycle half as high as the one before */
    TCC_EXP_RANGE,   /* the height is multiplied by gamma at each step */
} tcc_cycle_mode;

/* Every number means itself: tcc_schedule_init sets them as said here, and the caller changes what is to differ. */
typedef struct tcc_schedule {
    size_t size; /* set by tcc_schedule_init */
    tcc_schedule_kind kind;
    double lr;            /* the largest: 1e-3 */
    double min_lr;        /* at most lr; 0 */
    int64_t warmup_steps; /* all but the cyclic ones: the schedule begins after so many steps, in which the rate rises
                             to lr by equal amounts; 0 */
    int64_t steps;        /* when it ends, the warm-up included; with one cycle, its length; 1 */
    /* Step, multi-step, cyclic */
    int64_t step_size; /* 30 */
    const int64_t *milestones;
    int n_milestones; /* steps in ascending order; multi-step needs one; none */
    double gamma;     /* 0.1; cyclic: 1 */
    double power;     /* polynomial; 1 */
    tcc_cycle_mode cycle_mode;
    int64_t cycle_up, cycle_down; /* 2000 each */
    /* One cycle: the rate begins at lr / div_factor and ends at that divided by final_div_factor. It rises in the share
     * pct_start of the steps. With three_phase it falls as it rose, and then goes on to its end. */
    double pct_start;                    /* 0.3 */
    double div_factor, final_div_factor; /* 25 and 1e4 */
    bool linear;                         /* the phases are lines rather than halves of a cosine; false */
    bool three_phase;                    /* false */
    /* The momentum, or Adam's beta1, goes against the rate: from max_momentum down to base_momentum, which is no
     * larger, and back. */
    bool cycle_momentum;                /* true for the cyclic ones */
    double base_momentum, max_momentum; /* cyclic: 0.8 and 0.9; one cycle: 0.85 and 0.95 */
    int64_t warmup_every;               /* in the warm-up the rate rises every so many steps, as at each epoch; 1 */
} tcc_schedule;

/* The defaults of this kind. */
#define tcc_schedule_init(s, kind) tcc_schedule_init_sized((s), sizeof *(s), (kind))
TCC_API void tcc_schedule_init_sized(tcc_schedule *s, size_t size, tcc_schedule_kind kind);

/* TCC_EINVAL for a number that is out of its range, or that does not go with another, which the error says. */
TCC_API tcc_status tcc_schedule_check(tcc_context *cx, const tcc_schedule *s);

/* The learning rate of training step `step`, counted from 0, of a schedule that was checked. */
TCC_API double tcc_schedule_lr(const tcc_schedule *s, int64_t step);
/* The momentum of that step; NaN where the schedule leaves it alone. */
TCC_API double tcc_schedule_momentum(const tcc_schedule *s, int64_t step);

TCC_API_END
#endif
