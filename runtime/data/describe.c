/* SPDX-License-Identifier: MIT
 * What was read, in words: what all kinds have, around what a kind says of itself. */
#include "runtime/data/describe.h"
#include "ir/support/alloc.h"
#include "runtime/data/learned.h"

#include <stdlib.h>
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

/* ---- samples in both splits ---- */

static uint64_t hash_of(const tcc_dataset *data, tcc_split split, int64_t i, bool rough) {
    return data->reader->hash(data, split, data->held_out_of ? tcc__source_of(data, split, i) : i, rough);
}

static int compare_hashes(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool has(const uint64_t *hashes, int64_t count, uint64_t hash) {
    return count && bsearch(&hash, hashes, (size_t)count, sizeof *hashes, compare_hashes);
}

/* Sorted hashes of a split's samples, of those whose rough hash is among `like`; *count of them. NULL when memory is
 * short. */
static uint64_t *sorted_hashes(const tcc_dataset *data, tcc_split split, bool rough, const uint64_t *like,
                               int64_t n_like, int64_t *count) {
    const int64_t n = data->info.samples[split];
    uint64_t *hashes = tcc__malloc((size_t)(n + 1) * sizeof *hashes);
    *count = 0;
    for (int64_t i = 0; i < n && hashes; i++)
        if (!like || has(like, n_like, hash_of(data, split, i, true)))
            hashes[(*count)++] = hash_of(data, split, i, rough);
    if (hashes) qsort(hashes, (size_t)*count, sizeof *hashes, compare_hashes);
    return hashes;
}

/* Files are read only where they are as large as one of the other split. */
static bool warn_duplicates(const tcc_dataset *data, tcc_strbuf *out) {
    const int64_t held = data->info.samples[TCC_SPLIT_VALIDATION];
    int64_t n_like = 0, n_train = 0, n_held = 0, both = 0;
    if (!held || !data->info.samples[TCC_SPLIT_TRAIN]) return true;
    uint64_t *like = sorted_hashes(data, TCC_SPLIT_VALIDATION, true, NULL, 0, &n_like);
    uint64_t *train = like ? sorted_hashes(data, TCC_SPLIT_TRAIN, false, like, n_like, &n_train) : NULL;
    tcc__free(like);
    like = train ? sorted_hashes(data, TCC_SPLIT_TRAIN, true, NULL, 0, &n_like) : NULL;
    uint64_t *validation = like ? sorted_hashes(data, TCC_SPLIT_VALIDATION, false, like, n_like, &n_held) : NULL;
    for (int64_t i = 0; i < n_held && validation; i++) both += has(train, n_train, validation[i]);
    if (both)
        tcc__warn(out, "%lld of %lld samples to validate on are also among those to train on", (long long)both,
                  (long long)held);
    const bool ok = validation != NULL;
    tcc__free(like);
    tcc__free(train);
    tcc__free(validation);
    return ok;
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
    const bool ok = (!data->reader->describe || data->reader->describe(data, &out)) &&
                    (!data->reader->hash || data->in_file || warn_duplicates(data, &out));
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
