/* SPDX-License-Identifier: MIT
 * What was read, in words: what all kinds have, around what a kind says of itself. */
#include "runtime/data/describe.h"
#include "runtime/data/learned.h"

#include <string.h>

enum { CLASSES_SHOWN = 20, FEW_SAMPLES = 10 };

static void add_name(const tcc_dataset *data, int64_t id, tcc_strbuf *out) {
    size_t length;
    const char *name = tcc_dataset_label(data, id, &length);
    if (name) tcc_strbuf_addn(out, name, length > 40 ? 40 : length);
    else tcc_strbuf_printf(out, "%lld", (long long)id);
}

static void describe_classes(const tcc_dataset *data, tcc_strbuf *out) {
    const int64_t classes = data->info.classes;
    int64_t few = 0, last = 0;
    tcc_strbuf_printf(out, "classes (%lld):", (long long)classes);
    for (int64_t i = 0; i < classes; i++) {
        const int64_t count = data->counts[i];
        if (count < FEW_SAMPLES) few++, last = i;
        if (i >= CLASSES_SHOWN) continue;
        tcc_strbuf_add(out, i ? ", " : " ");
        add_name(data, i, out);
        tcc_strbuf_printf(out, " %lld", (long long)count);
    }
    tcc_strbuf_add(out, classes > CLASSES_SHOWN ? ", ...\n" : "\n");
    if (few > 1) tcc__warn(out, "%lld classes have under %d samples to train on", (long long)few, FEW_SAMPLES);
    if (few != 1) return;
    tcc_strbuf_add(out, "warning: class '");
    add_name(data, last, out);
    tcc_strbuf_printf(out, "' has %lld samples to train on\n", (long long)data->counts[last]);
}

tcc_status tcc_dataset_describe(tcc_context *cx, const tcc_dataset *data, char **text) {
    tcc_diag_begin(&cx->diag);
    tcc_strbuf out = {0};
    const tcc_dataset_info *info = &data->info;
    tcc_strbuf_printf(&out, "data of kind %s: %lld samples to train on, %lld to validate on\n", info->kind,
                      (long long)info->samples[TCC_SPLIT_TRAIN], (long long)info->samples[TCC_SPLIT_VALIDATION]);
    if (data->counts && info->samples[TCC_SPLIT_TRAIN]) describe_classes(data, &out);
    if (info->tokens[TCC_SPLIT_TRAIN] && !data->reader->describe)
        tcc_strbuf_printf(&out, "symbols: %lld to train on, %lld to validate on; %lld different ones\n",
                          (long long)info->tokens[TCC_SPLIT_TRAIN], (long long)info->tokens[TCC_SPLIT_VALIDATION],
                          (long long)info->classes);
    const bool ok = !data->reader->describe || data->reader->describe(data, &out);
    *text = ok ? tcc_strbuf_take(&out) : NULL;
    tcc_strbuf_free(&out);
    return *text ? TCC_OK : tcc_enomem(&cx->diag);
}

int64_t tcc_dataset_count(const tcc_dataset *data, int64_t id) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(data->learned, "counts");
    if (data->learned && id >= 0 && id < data->info.classes) {
        const cJSON *count = cJSON_GetArrayItem(list, (int)id);
        return cJSON_IsNumber(count) ? (int64_t)count->valuedouble : -1;
    }
    return data->counts && id >= 0 && id < data->info.classes ? data->counts[id] : -1;
}

const char *tcc_dataset_skipped(const tcc_dataset *data, int64_t index) {
    return data->reader->skipped ? data->reader->skipped(data, index) : NULL;
}
