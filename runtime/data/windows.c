/* SPDX-License-Identifier: MIT
 * Windows of token sequences. */
#include "runtime/data/windows.h"
#include "runtime/data/draw.h"

tcc_status tcc__windows_init(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data,
                             const int64_t tokens[TCC_SPLIT_COUNT], int64_t vocab_size) {
    static const char *const part[TCC_SPLIT_COUNT] = {"training", "validation"};
    int64_t context = options->context;
    if (context < 1)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "data of kind %s needs a context of at least 1 token, not %lld",
                         options->kind, (long long)context);
    for (int split = 0; split < TCC_SPLIT_COUNT; split++) {
        if (tokens[split] == 0 && (split == TCC_SPLIT_VALIDATION || !options->path)) continue;
        if (tokens[split] <= context)
            return tcc_error(
                d, TCC_EFORMAT,
                (tcc_loc){split == TCC_SPLIT_VALIDATION && options->val_path ? options->val_path : options->path, 0},
                "the %s part has %lld tokens; a context of %lld needs at least %lld", part[split],
                (long long)tokens[split], (long long)context, (long long)context + 1);
        data->info.tokens[split] = tokens[split];
        data->info.samples[split] = (tokens[split] - 1) / context;
    }
    data->info.classes = vocab_size;
    data->info.x.dtype = data->info.y.dtype = TCC_I32;
    data->info.x.rank = data->info.y.rank = 1;
    data->info.x.dims[0] = data->info.y.dims[0] = context;
    return TCC_OK;
}

int64_t tcc__window_start(const tcc_dataset *data, const tcc__sample *sample) {
    int64_t context = data->info.x.dims[0];
    if (!sample->shuffle) return sample->position * context;
    tcc__draw draw = tcc__draw_at(sample->seed, TCC__DRAW_WINDOW, sample->epoch, sample->position);
    return tcc__draw_below(&draw, data->info.tokens[sample->split] - context);
}
