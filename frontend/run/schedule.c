/* SPDX-License-Identifier: MIT
 * Schedules of the learning rate and the momentum, in closed form: a run can go on at any step. PyTorch computes some
 * of them from step to step, so the last places differ. */
#include "traincc/schedule.h"

#include "frontend/run/model.h"

#include "ir/support/fp_mode.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

void tcc_schedule_init_sized(tcc_schedule *s, size_t size, tcc_schedule_kind kind) {
    const bool cyclic = kind == TCC_SCHEDULE_CYCLIC, one_cycle = kind == TCC_SCHEDULE_ONE_CYCLE;
    const tcc_schedule defaults = {.size = size,
                                   .kind = kind,
                                   .lr = 1e-3,
                                   .steps = 1,
                                   .step_size = 30,
                                   .gamma = cyclic ? 1 : 0.1,
                                   .power = 1,
                                   .cycle_up = 2000,
                                   .cycle_down = 2000,
                                   .pct_start = 0.3,
                                   .div_factor = 25,
                                   .final_div_factor = 1e4,
                                   .cycle_momentum = cyclic || one_cycle,
                                   .base_momentum = cyclic ? 0.8 : 0.85,
                                   .max_momentum = cyclic ? 0.9 : 0.95,
                                   .warmup_every = 1};
    memcpy(s, &defaults, size < sizeof defaults ? size : sizeof defaults);
}

/* -- Checks -- */

/* Numbers that do not go together. */
static tcc_status check_pairs(tcc_diag *diag, const tcc_schedule *s) {
    const tcc_schedule_kind kind = s->kind;
    const bool cyclic = kind == TCC_SCHEDULE_CYCLIC || kind == TCC_SCHEDULE_ONE_CYCLE;
    if (s->warmup_steps && cyclic)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                         "schedule: warmup_steps %lld with a cyclic schedule, which rises by itself",
                         (long long)s->warmup_steps);
    if (kind == TCC_SCHEDULE_MULTI_STEP && !s->n_milestones)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "schedule: a multi-step schedule needs milestones");
    if (s->min_lr > s->lr && kind >= TCC_SCHEDULE_LINEAR && kind <= TCC_SCHEDULE_CYCLIC)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "schedule: min_lr %g must be at most lr, %g", s->min_lr, s->lr);
    if (cyclic && s->cycle_momentum && s->base_momentum > s->max_momentum)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "schedule: base_momentum %g must be at most max_momentum, %g",
                         s->base_momentum, s->max_momentum);
    return TCC_OK;
}

static tcc_status check_counts(tcc_diag *diag, const tcc_schedule *s) {
    const struct {
        const char *name;
        int64_t value, least;
    } counts[] = {{"warmup_steps", s->warmup_steps, 0}, {"steps", s->steps, 1},
                  {"warmup_every", s->warmup_every, 1}, {"step_size", s->step_size, 1},
                  {"cycle_up", s->cycle_up, 1},         {"cycle_down", s->cycle_down, 1},
                  {"n_milestones", s->n_milestones, 0}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i].value < counts[i].least)
            return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "schedule: %s %lld must be at least %lld", counts[i].name,
                             (long long)counts[i].value, (long long)counts[i].least);
    if (s->n_milestones && !s->milestones)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "schedule: the list of %d milestones is NULL", s->n_milestones);
    for (int i = 0; i < s->n_milestones; i++)
        if (s->milestones[i] < (i ? s->milestones[i - 1] : 0))
            return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                             "schedule: milestone %lld is less than the one before, or than 0",
                             (long long)s->milestones[i]);
    return check_pairs(diag, s);
}

tcc_status tcc_schedule_check(tcc_context *cx, const tcc_schedule *s) {
    tcc_diag *diag = &cx->diag;
    tcc_diag_begin(diag);
    if (!s) return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "schedule: it is NULL");
    if (s->size < sizeof *s)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "schedule: size %zu is less than %zu; call tcc_schedule_init",
                         s->size, sizeof *s);
    if ((unsigned)s->kind > TCC_SCHEDULE_ONE_CYCLE || (unsigned)s->cycle_mode > TCC_EXP_RANGE)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "schedule: kind %d or cycle_mode %d does not exist",
                         (int)s->kind, (int)s->cycle_mode);
    const struct {
        const char *name;
        double value, least, most;
    } numbers[] = {{"lr", s->lr, 0, 1e30},
                   {"min_lr", s->min_lr, 0, 1e30},
                   {"gamma", s->gamma, 0, 1e30},
                   {"power", s->power, 0, 1e6},
                   {"pct_start", s->pct_start, 0, 1},
                   {"div_factor", s->div_factor, 1e-30, 1e30},
                   {"final_div_factor", s->final_div_factor, 1e-30, 1e30},
                   {"base_momentum", s->base_momentum, 0, 0.9999999},
                   {"max_momentum", s->max_momentum, 0, 0.9999999}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (!(numbers[i].value >= numbers[i].least && numbers[i].value <= numbers[i].most))
            return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "schedule: %s %g must be from %.15g to %.15g",
                             numbers[i].name, numbers[i].value, numbers[i].least, numbers[i].most);
    return check_counts(diag, s);
}

/* -- The cyclic ones -- */

/* How far above the lowest, from 0 to 1, and *damping, by which the amplitude has shrunk. */
static double cycle_height(const tcc_schedule *s, int64_t step, double *damping) {
    const int64_t length = s->cycle_up + s->cycle_down, cycle = step / length, at = step % length;
    *damping = s->cycle_mode == TCC_TRIANGULAR    ? 1
               : s->cycle_mode == TCC_TRIANGULAR2 ? pow(0.5, (double)cycle)
                                                  : pow(s->gamma, (double)step);
    return at <= s->cycle_up ? (double)at / (double)s->cycle_up : (double)(length - at) / (double)s->cycle_down;
}

static double anneal(const tcc_schedule *s, double from, double to, double share) {
    if (s->linear) return from + (to - from) * share;
    return to + (from - to) / 2 * (1 + cos(PI * share));
}

/* A curve of one cycle's two or three phases, through four values. */
static double one_cycle(const tcc_schedule *s, int64_t step, double start, double top, double middle, double end) {
    const double last = (double)s->steps - 1, first_end = s->pct_start * (double)s->steps - 1;
    const double at = (double)step < last ? (double)step : last;
    const double ends[] = {first_end, 2 * first_end, last}, values[] = {start, top, middle, end};
    double from = 0;
    for (int phase = 0; phase < 3; phase++) {
        if (phase == 1 && !s->three_phase) continue;
        if (at <= ends[phase] || phase == 2) {
            const double length = ends[phase] - from;
            const double share = length > 0 ? (at - from) / length : 1;
            return anneal(s, values[phase == 2 && !s->three_phase ? 1 : phase], values[phase + 1], share);
        }
        from = ends[phase];
    }
    return end;
}

/* -- Values -- */

static double times_gamma(const tcc_schedule *s, int64_t count) { return s->lr * pow(s->gamma, (double)count); }

static double lr_at(const tcc_schedule *s, int64_t step) {
    double damping, start = s->lr / s->div_factor;
    const int64_t every = s->warmup_every;
    if (step < s->warmup_steps)
        return s->lr * (double)(step / every + 1) / (double)((s->warmup_steps + every - 1) / every + 1);
    const int64_t after = step - s->warmup_steps, length = s->steps - s->warmup_steps;
    const double left = after < length ? 1 - (double)after / (double)length : 0;
    int passed = 0;
    switch (s->kind) {
    case TCC_SCHEDULE_CONSTANT: break;
    case TCC_SCHEDULE_STEP: return times_gamma(s, after / s->step_size);
    case TCC_SCHEDULE_MULTI_STEP:
        while (passed < s->n_milestones && s->milestones[passed] <= step) passed++;
        return times_gamma(s, passed);
    case TCC_SCHEDULE_LINEAR: return s->min_lr + (s->lr - s->min_lr) * left;
    case TCC_SCHEDULE_COSINE: return s->min_lr + (s->lr - s->min_lr) * 0.5 * (1 - cos(PI * left));
    case TCC_SCHEDULE_POLYNOMIAL: return left > 0 ? s->min_lr + (s->lr - s->min_lr) * pow(left, s->power) : s->min_lr;
    case TCC_SCHEDULE_CYCLIC: {
        const double height = cycle_height(s, step, &damping);
        return s->min_lr + (s->lr - s->min_lr) * height * damping;
    }
    case TCC_SCHEDULE_ONE_CYCLE: return one_cycle(s, step, start, s->lr, start, start / s->final_div_factor);
    }
    return s->lr;
}

double tcc_schedule_lr(const tcc_schedule *s, int64_t step) {
    const tcc_fp_mode mode = tcc_fp_begin();
    const double lr = lr_at(s, step);
    tcc_fp_end(mode);
    return lr;
}

static double momentum_at(const tcc_schedule *s, int64_t step) {
    const double least = s->base_momentum, most = s->max_momentum;
    double damping;
    if (!s->cycle_momentum) return NAN;
    if (s->kind == TCC_SCHEDULE_ONE_CYCLE) return one_cycle(s, step, most, least, most, most);
    if (s->kind != TCC_SCHEDULE_CYCLIC) return NAN;
    const double height = cycle_height(s, step, &damping);
    return most - (most - least) * height * damping;
}

double tcc_schedule_momentum(const tcc_schedule *s, int64_t step) {
    const tcc_fp_mode mode = tcc_fp_begin();
    const double momentum = momentum_at(s, step);
    tcc_fp_end(mode);
    return momentum;
}
