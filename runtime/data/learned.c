/* SPDX-License-Identifier: MIT
 * What a data set learned: written, read, and compared. */
#include "runtime/data/learned.h"
#include "ir/support/alloc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- writing ---- */

bool tcc__learn_number(cJSON *to, const char *key, double value) {
    char text[32];
    snprintf(text, sizeof text, "%.17g", value); /* cJSON writes 15 digits where that is nearly the same */
    for (char *at = text; *at; at++)
        if (*at == ',') *at = '.'; /* of the program's locale */
    return cJSON_AddRawToObject(to, key, text) != NULL;
}

bool tcc__learn_text(cJSON *to, const char *key, const char *value) {
    return cJSON_AddStringToObject(to, key, value) != NULL;
}

bool tcc__learn_tokenizer(cJSON *to, const tcc_tokenizer *t) {
    cJSON *described = tcc__tokenizer_describe(t);
    if (described && cJSON_AddItemToObject(to, "tokenizer", described)) return true;
    cJSON_Delete(described);
    return false;
}

static bool add_classes(const tcc_dataset *data, cJSON *to) {
    cJSON *list = cJSON_AddArrayToObject(to, "classes");
    bool ok = list != NULL;
    for (int64_t i = 0; i < data->info.classes && ok; i++) {
        size_t length;
        cJSON *name = cJSON_CreateString(data->reader->label(data, i, &length));
        ok = name && cJSON_AddItemToArray(list, name);
    }
    return ok;
}

static bool add_channels(const tcc_dataset *data, cJSON *to) {
    cJSON *list = cJSON_AddArrayToObject(to, "channels");
    bool ok = list != NULL;
    for (int c = 0; c < data->info.n_channels && ok; c++) {
        cJSON *row = cJSON_CreateObject();
        ok = row && cJSON_AddItemToArray(list, row) && tcc__learn_number(row, "mean", data->info.mean[c]) &&
             tcc__learn_number(row, "std", data->info.std[c]);
    }
    return ok && tcc__learn_number(to, "height", (double)data->info.x.dims[1]) &&
           tcc__learn_number(to, "width", (double)data->info.x.dims[2]);
}

static bool add_counts(const tcc_dataset *data, cJSON *to) {
    cJSON *list = cJSON_AddArrayToObject(to, "counts");
    bool ok = list != NULL;
    for (int64_t i = 0; i < data->info.classes && ok; i++) {
        cJSON *count = cJSON_CreateNumber((double)data->counts[i]);
        ok = count && cJSON_AddItemToArray(list, count);
    }
    return ok;
}

static bool add_all(const tcc_dataset *data, cJSON *to) {
    const tcc_dataset_info *info = &data->info;
    return tcc__learn_text(to, "kind", info->kind) && tcc__learn_number(to, "n_classes", (double)info->classes) &&
           (!data->reader->names_classes || !info->classes || add_classes(data, to)) &&
           (!data->counts || add_counts(data, to)) && (!info->n_channels || add_channels(data, to)) &&
           (!data->reader->learn || data->reader->learn(data, to)) &&
           tcc__learn_number(to, "samples", (double)info->samples[TCC_SPLIT_TRAIN]) &&
           tcc__learn_text(to, "digest", data->digest.text);
}

tcc_status tcc_dataset_learned(tcc_context *cx, const tcc_dataset *data, char **text) {
    tcc_diag_begin(&cx->diag);
    *text = NULL;
    if (data->learned_text) {
        *text = tcc__strdup(data->learned_text);
    } else {
        cJSON *all = cJSON_CreateObject();
        char *printed = all && add_all(data, all) ? cJSON_PrintUnformatted(all) : NULL;
        if (printed) *text = tcc__strdup(printed);
        cJSON_free(printed);
        cJSON_Delete(all);
    }
    return *text ? TCC_OK : tcc_enomem(&cx->diag);
}

/* ---- reading ---- */

static tcc_status lacks(tcc_diag *d, const char *key, const char *what) {
    return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "what was learned from the training data has no %s '%s'", what, key);
}

tcc_status tcc__learned_number(tcc_diag *d, const cJSON *from, const char *key, double *out) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(from, key);
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble)) return lacks(d, key, "number");
    *out = item->valuedouble;
    return TCC_OK;
}

tcc_status tcc__learned_integer(tcc_diag *d, const cJSON *from, const char *key, int64_t most, int64_t *out) {
    double value = 0;
    TCC_TRY(tcc__learned_number(d, from, key, &value));
    if (!(value >= 0 && value <= (double)most && value == (double)(int64_t)value))
        return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "what was learned from the training data has %s %g", key, value);
    *out = (int64_t)value;
    return TCC_OK;
}

tcc_status tcc__learned_text(tcc_diag *d, const cJSON *from, const char *key, const char **out) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(from, key);
    if (!cJSON_IsString(item)) return lacks(d, key, "text");
    *out = item->valuestring;
    return TCC_OK;
}

tcc_status tcc__learned_list(tcc_diag *d, const cJSON *from, const char *key, const cJSON **out) {
    *out = cJSON_GetObjectItemCaseSensitive(from, key);
    return cJSON_IsArray(*out) ? TCC_OK : lacks(d, key, "list");
}

tcc_status tcc__learned_classes(tcc_diag *d, const cJSON *from, tcc__file_list *out) {
    const cJSON *list, *name;
    TCC_TRY(tcc__learned_list(d, from, "classes", &list));
    cJSON_ArrayForEach(name, list) {
        if (!cJSON_IsString(name)) return lacks(d, "classes", "list of texts");
        char *copy = tcc__strdup(name->valuestring);
        if (copy && tcc_vec_push(out, copy)) continue;
        tcc__free(copy);
        return tcc_enomem(d);
    }
    return out->count ? TCC_OK : lacks(d, "classes", "filled list");
}

/* ---- comparing ---- */

enum { SHOWN = 64, PLACE_MAX = 256 };

/* A value in short: of lists and objects how much is in them. */
static void show(const cJSON *item, char *out) {
    char *text = cJSON_IsArray(item) || cJSON_IsObject(item) ? NULL : cJSON_PrintUnformatted(item);
    if (!item) snprintf(out, SHOWN, "nothing");
    else if (text) snprintf(out, SHOWN, "%s", text);
    else snprintf(out, SHOWN, "%d entries", cJSON_GetArraySize(item));
    cJSON_free(text);
}

/* The first place where two texts differ, as "columns[3].mean"; false: there is none. */
static bool find_difference(const cJSON *before, const cJSON *now, char place[PLACE_MAX], char was[SHOWN],
                            char is[SHOWN]) {
    const size_t length = strlen(place);
    int i = 0;
    if (before && now && (cJSON_IsArray(before) || cJSON_IsObject(before)) &&
        cJSON_GetArraySize(before) == cJSON_GetArraySize(now)) {
        for (const cJSON *a = before->child, *b = now->child; a && b; a = a->next, b = b->next, i++) {
            if (a->string) snprintf(place + length, PLACE_MAX - length, "%s%s", length ? "." : "", a->string);
            else snprintf(place + length, PLACE_MAX - length, "[%d]", i);
            if (find_difference(a, b, place, was, is)) return true;
        }
        place[length] = '\0';
        return false;
    }
    const bool numbers = cJSON_IsNumber(before) && cJSON_IsNumber(now);
    if (numbers ? before->valuedouble == now->valuedouble : before && now && cJSON_Compare(before, now, true))
        return false;
    show(before, was);
    show(now, is);
    return true;
}

tcc_status tcc_dataset_compare(tcc_context *cx, const tcc_dataset *data, const char *learned) {
    char *text, place[PLACE_MAX] = "", was[SHOWN], is[SHOWN];
    TCC_TRY(tcc_dataset_learned(cx, data, &text));
    cJSON *before = cJSON_Parse(learned), *now = cJSON_Parse(text);
    tcc_status status = TCC_OK;
    if (!before)
        status = tcc_error(&cx->diag, TCC_EFORMAT, TCC_NOWHERE, "what was learned from the training data is no JSON");
    else if (!now) status = tcc_enomem(&cx->diag);
    else if (find_difference(before, now, place, was, is))
        status = tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE, "the training data has changed: its %s was %s and is %s",
                           place, was, is);
    cJSON_Delete(before);
    cJSON_Delete(now);
    tcc__free(text);
    return status;
}
