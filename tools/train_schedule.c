/* SPDX-License-Identifier: MIT
 * Learning-rate schedules. */
#include "train.h"

#include <math.h>
#include <string.h>

double train_lr(const recipe *r, int64_t step, int64_t total) {
    double lr = r->optimizer.lr, least = r->schedule.min_lr;
    int64_t warmup = r->schedule.warmup_steps, end = r->schedule.steps ? r->schedule.steps : total;
    if (step < warmup) return lr * (double)(step + 1) / (double)(warmup + 1);
    if (!strcmp(r->schedule.name, "constant")) return lr;
    if (step >= end) return least;
    double progress = (double)(step - warmup) / (double)(end - warmup);
    if (!strcmp(r->schedule.name, "linear")) return lr + (least - lr) * progress;
    return least + (lr - least) * 0.5 * (1 + cos(3.14159265358979323846 * progress));
}
