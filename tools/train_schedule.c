/* SPDX-License-Identifier: MIT
 * The schedule that a recipe asks for. */
#include "recipe_rules.h"
#include "train.h"

#include <math.h>
#include <string.h>

static tcc_schedule_kind kind_of(const char *name) {
    static const char *const names[] = {"constant", "step",       "multi_step", "linear",
                                        "cosine",   "polynomial", "cyclic",     "one_cycle"};
    int kind = 0;
    while (strcmp(names[kind], name) != 0) kind++;
    return (tcc_schedule_kind)kind;
}

tcc_schedule train_schedule(const recipe *r, int64_t total, int64_t epoch, int64_t milestones[RECIPE_LIST_MAX]) {
    tcc_schedule s;
    tcc_schedule_init(&s, kind_of(r->schedule.name));
    for (int i = 0; i < r->schedule.milestones.count; i++) milestones[i] = (int64_t)r->schedule.milestones.v[i];
    s.lr = r->optimizer.lr;
    s.min_lr = r->schedule.min_lr;
    s.warmup_steps = r->schedule.warmup_steps;
    if (r->schedule.warmup_epochs) {
        s.warmup_steps = r->schedule.warmup_epochs * epoch;
        s.warmup_every = epoch;
    }
    s.steps = r->schedule.steps ? r->schedule.steps : total;
    s.step_size = r->schedule.step_size;
    s.milestones = milestones;
    s.n_milestones = r->schedule.milestones.count;
    if (!isnan(r->schedule.gamma) && recipe_has(r, "schedule.gamma")) s.gamma = r->schedule.gamma;
    s.power = r->schedule.power;
    s.cycle_mode = !strcmp(r->schedule.cycle_mode, "triangular")    ? TCC_TRIANGULAR
                   : !strcmp(r->schedule.cycle_mode, "triangular2") ? TCC_TRIANGULAR2
                                                                    : TCC_EXP_RANGE;
    s.cycle_up = r->schedule.cycle_up;
    s.cycle_down = r->schedule.cycle_down ? r->schedule.cycle_down : s.cycle_up;
    s.pct_start = r->schedule.pct_start;
    s.div_factor = r->schedule.div_factor;
    s.final_div_factor = r->schedule.final_div_factor;
    s.linear = !strcmp(r->schedule.anneal, "linear");
    s.three_phase = r->schedule.three_phase;
    s.cycle_momentum = s.cycle_momentum && r->schedule.cycle_momentum;
    if (!isnan(r->schedule.base_momentum)) s.base_momentum = r->schedule.base_momentum;
    if (!isnan(r->schedule.max_momentum)) s.max_momentum = r->schedule.max_momentum;
    return s;
}
