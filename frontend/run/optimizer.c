/* SPDX-License-Identifier: MIT
 * The optimizer's options: what they are where nothing is said, and what they may be. */
#include "frontend/run/model.h"
#include "frontend/run/options.h"

#include <math.h>

/* What a caller's struct has at least: that of the first version. */
enum { LEAST_SIZE = offsetof(tcc_optimizer_options, clip_grad_norm) + sizeof(double) };

static const struct {
    double lr, beta1, beta2, eps;
} kinds[] = {
#define TCC_OPTIMIZER(id, name, lr, beta1, beta2, eps, ...) [TCC_##id] = {lr, beta1, beta2, eps},
#include "ir/support/optimizer.def"
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

void tcc_optimizer_init_sized(tcc_optimizer_options *o, size_t size, tcc_optimizer_kind kind) {
    const int known = (unsigned)kind < KIND_COUNT ? kind : TCC_SGD; /* what is none is told by those who get it */
    const tcc_optimizer_options defaults = {.size = size,
                                            .kind = kind,
                                            .lr = kinds[known].lr,
                                            .beta1 = kinds[known].beta1,
                                            .beta2 = kinds[known].beta2,
                                            .eps = kinds[known].eps};
    memcpy(o, &defaults, size < sizeof defaults ? size : sizeof defaults);
}

static tcc_status check(tcc_diag *diag, const tcc_optimizer_options *o) {
    TCC_TRY(tcc__options_check(diag, TCC_OPTION_OF_OPTIMIZER, "optimizer: ", o));
    if (!tcc__optimizer_reads(o->kind, TCC_READS_MOMENTUM) && (o->momentum != 0 || o->nesterov)) {
        char names[TCC_OPTIMIZERS_TEXT];
        tcc__optimizers_reading(TCC_READS_MOMENTUM, names);
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                         "optimizer: momentum %g%s goes with %s; of the others it is beta1", o->momentum,
                         o->nesterov ? " and nesterov" : "", names);
    }
    if (o->ema_buffers && o->ema_decay == 0)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "optimizer: ema_buffers needs an ema_decay above 0");
    if (o->ema_ramp > 0 && (o->ema_decay == 0 || o->ema_warmup))
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "optimizer: ema_ramp %g needs %s", o->ema_ramp,
                         o->ema_warmup ? "ema_warmup to be false" : "an ema_decay above 0");
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
    memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
    out->size = sizeof *out;
    return check(diag, out);
}
