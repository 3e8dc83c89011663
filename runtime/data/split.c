/* SPDX-License-Identifier: MIT
 * Which samples are held out for validation. */
#include "runtime/data/data.h"
#include "runtime/data/draw.h"

static const double default_val_split = 0.1;

int64_t tcc__val_count(int64_t count, double val_split) {
    if (val_split < 0) return 0;
    double part = val_split == 0 ? default_val_split : val_split;
    return count - (int64_t)((double)count * (1 - part));
}

tcc_status tcc__hold_out(tcc_diag *d, const char *path, tcc_dataset *data, int64_t count, double val_split) {
    int64_t held_out = tcc__val_count(count, val_split);
    if (count - held_out < 1)
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0},
                         "there are %lld samples, too few to hold out %lld for validation", (long long)count,
                         (long long)held_out);
    data->held_out_of = count;
    data->info.samples[TCC_SPLIT_TRAIN] = count - held_out;
    data->info.samples[TCC_SPLIT_VALIDATION] = held_out;
    return TCC_OK;
}

int64_t tcc__source_of(const tcc_dataset *data, tcc_split split, int64_t i) {
    if (!data->held_out_of || !data->info.samples[TCC_SPLIT_VALIDATION]) return i;
    tcc__permutation p = tcc__permutation_of(data->held_out_of, 0, TCC__DRAW_HOLD_OUT, 0);
    return tcc__permute(&p, split == TCC_SPLIT_TRAIN ? i : data->info.samples[TCC_SPLIT_TRAIN] + i);
}
