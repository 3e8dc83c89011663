/* SPDX-License-Identifier: MIT
 * The optimizer's options: what they are where nothing is said, and what they may be. */
#include "frontend/run/model.h"

#include <math.h>

/* What a caller's struct has at least: that of the first version. */
enum { LEAST_SIZE = offsetof(tcc_optimizer_options, clip_grad_norm) + sizeof(double) };

static double default_lr(tcc_optimizer_kind kind) {
    switch (kind) {
    case TCC_SGD: return 0.1;
    case TCC_LION: return 1e-4;
    case TCC_ADAFACTOR: return 1e-2;
    default: return 1e-3;
    }
}

void tcc_optimizer_init_sized(tcc_optimizer_options *o, size_t size, tcc_optimizer_kind kind) {
    const tcc_optimizer_options defaults = {.size = size,
                                            .kind = kind,
                                            .lr = default_lr(kind),
                                            .beta1 = 0.9,
                                            .beta2 = kind == TCC_LION ? 0.99 : 0.999,
                                            .eps = kind == TCC_ADAFACTOR ? 1e-3 : 1e-8};
    memcpy(o, &defaults, size < sizeof defaults ? size : sizeof defaults);
}

static tcc_status check(tcc_diag *diag, const tcc_optimizer_options *o) {
    const struct {
        const char *name;
        double value, most;
        bool below; /* most itself is too much */
    } numbers[] = {{"lr", o->lr, TCC_LARGEST_LR, false},
                   {"beta1", o->beta1, 1, true},
                   {"beta2", o->beta2, 1, true},
                   {"eps", o->eps, 1e30, false},
                   {"weight_decay", o->weight_decay, 1e30, false},
                   {"momentum", o->momentum, 1, true},
                   {"clip_grad_norm", o->clip_grad_norm, 1e30, false},
                   {"ema_decay", o->ema_decay, 1, true}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const double value = numbers[i].value, most = numbers[i].most;
        if (!(value >= 0 && (numbers[i].below ? value < most : value <= most)))
            return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "optimizer: %s %g must be at least 0 and %s %g",
                             numbers[i].name, value, numbers[i].below ? "less than" : "at most", most);
    }
    if (o->kind != TCC_SGD && (o->momentum != 0 || o->nesterov))
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                         "optimizer: momentum %g%s goes with TCC_SGD; of the others it is beta1", o->momentum,
                         o->nesterov ? " and nesterov" : "");
    if (o->ema_warmup && o->ema_decay == 0)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "optimizer: ema_warmup needs an ema_decay above 0");
    if (o->nesterov && o->momentum == 0)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "optimizer: nesterov needs a momentum above 0");
    return tcc__groups_check(diag, o);
}

tcc_status tcc__optimizer_read(tcc_diag *diag, const tcc_optimizer_options *given, tcc_optimizer_options *out) {
    const tcc_optimizer_kind kind = given && given->size >= LEAST_SIZE ? given->kind : TCC_SGD;
    tcc_optimizer_init(out, kind);
    if (!given) return TCC_OK;
    if (given->size < LEAST_SIZE)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "optimizer: size %zu must be at least %d: tcc_optimizer_init",
                         given->size, (int)LEAST_SIZE);
    if ((unsigned)kind > TCC_ADAFACTOR)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "optimizer: kind %d must be from 0 to %d", (int)kind,
                         (int)TCC_ADAFACTOR);
    memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
    out->size = sizeof *out;
    return check(diag, out);
}
