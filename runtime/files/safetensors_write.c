/* SPDX-License-Identifier: MIT
 * Writing safetensors files. */
#include "runtime/files/safetensors.h"
#include "ir/support/alloc.h"
#include "ir/support/context.h"
#include "ir/support/dtype.h"
#include "runtime/files/utf8.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static int64_t array_bytes(const tcc_array *a) {
    int64_t bytes = tcc_dtype_bytes(a->dtype);
    for (int i = 0; i < a->rank; i++) bytes *= a->dims[i];
    return bytes;
}

/* Widest elements first, so that every tensor is aligned to its element; then by name, so that
 * equal contents make equal files. */
static int compare_arrays(const void *a, const void *b) {
    const tcc_array *x = *(const tcc_array *const *)a, *y = *(const tcc_array *const *)b;
    int wider = tcc_dtype_bytes(y->dtype) - tcc_dtype_bytes(x->dtype);
    return wider ? wider : strcmp(x->name, y->name);
}

static tcc_status check_arrays(tcc_diag *d, const char *path, const tcc_array *const *sorted, int count) {
    tcc_loc place = {path, 0};
    for (int i = 0; i < count; i++) {
        const tcc_array *a = sorted[i];
        if (!a->name) return tcc_error(d, TCC_EINVAL, place, "tensor %d has no name", i);
        if (!a->name[0] || !strcmp(a->name, "__metadata__"))
            return tcc_error(d, TCC_EINVAL, place, "a tensor cannot be named '%s'", a->name);
        size_t length = strlen(a->name);
        if (tcc__utf8_check((const uint8_t *)a->name, length) != length)
            return tcc_error(d, TCC_EINVAL, place, "tensor name '%s' is not UTF-8", a->name);
        if (a->rank < 0 || a->rank > TCC_MAX_RANK)
            return tcc_error(d, TCC_EINVAL, place, "tensor '%s' has rank %d", a->name, a->rank);
        if ((unsigned)a->dtype >= TCC_DTYPE_COUNT)
            return tcc_error(d, TCC_EINVAL, place, "tensor '%s' has element type %d, which there is not", a->name,
                             (int)a->dtype);
        for (int k = 0; k < a->rank; k++)
            if (a->dims[k] < 0)
                return tcc_error(d, TCC_EINVAL, place, "tensor '%s': dim %d is %lld", a->name, k,
                                 (long long)a->dims[k]);
        TCC_TRY(tcc__array_on_host(d, place, "tensor", a));
        if (!a->data && array_bytes(a)) return tcc_error(d, TCC_EINVAL, place, "tensor '%s' has no data", a->name);
    }
    return TCC_OK;
}

static tcc_status check_counts(tcc_diag *d, const char *path, const tcc_array *arrays, int count,
                               const tcc_pair *metadata, int metadata_count) {
    if (count < 0 || metadata_count < 0 || (count && !arrays) || (metadata_count && !metadata))
        return tcc_error(d, TCC_EINVAL, (tcc_loc){path, 0}, "%d arrays%s and %d values%s cannot be written", count,
                         arrays || !count ? "" : " that are NULL", metadata_count,
                         metadata || !metadata_count ? "" : " that are NULL");
    for (int i = 0; i < metadata_count; i++)
        if (!metadata[i].key || !metadata[i].value)
            return tcc_error(d, TCC_EINVAL, (tcc_loc){path, 0}, "metadata %d has no %s", i,
                             metadata[i].key ? "value" : "key");
    return TCC_OK;
}

/* One JSON object holds all names, so that a doubled one is found here even if the two element
 * types differ. */
static tcc_status add_entry(tcc_diag *d, const char *path, cJSON *header, const tcc_array *a, int64_t begin) {
    if (cJSON_GetObjectItemCaseSensitive(header, a->name))
        return tcc_error(d, TCC_EINVAL, (tcc_loc){path, 0}, "two tensors are named '%s'", a->name);
    cJSON *entry = cJSON_AddObjectToObject(header, a->name);
    cJSON *shape = NULL, *offsets = NULL;
    bool added = entry && cJSON_AddStringToObject(entry, "dtype", tcc_dtype_safetensors(a->dtype)) &&
                 (shape = cJSON_AddArrayToObject(entry, "shape")) &&
                 (offsets = cJSON_AddArrayToObject(entry, "data_offsets"));
    for (int i = 0; added && i < a->rank; i++)
        added = cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)a->dims[i]));
    added = added && cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)begin)) &&
            cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)(begin + array_bytes(a))));
    return added ? TCC_OK : tcc_enomem(d);
}

static tcc_status build_header(tcc_diag *d, const char *path, cJSON *header, const tcc_array *const *sorted, int count,
                               const tcc_pair *metadata, int metadata_count, uint32_t crc) {
    char crc_text[9];
    snprintf(crc_text, sizeof crc_text, "%08x", (unsigned)crc);
    cJSON *values = cJSON_AddObjectToObject(header, "__metadata__");
    if (!values || !cJSON_AddStringToObject(values, "format", "pt") ||
        !cJSON_AddStringToObject(values, "traincc.crc32", crc_text) ||
        !cJSON_AddStringToObject(values, TCC__HEADER_CRC_KEY, "00000000"))
        return tcc_enomem(d);
    for (int i = 0; i < metadata_count; i++) {
        const char *value = metadata[i].value;
        size_t key_length = strlen(metadata[i].key), length = strlen(value);
        if (tcc__utf8_check((const uint8_t *)metadata[i].key, key_length) != key_length ||
            tcc__utf8_check((const uint8_t *)value, length) != length)
            return tcc_error(d, TCC_EINVAL, (tcc_loc){path, 0}, "metadata '%s' is not UTF-8", metadata[i].key);
        if (cJSON_GetObjectItemCaseSensitive(values, metadata[i].key))
            return tcc_error(d, TCC_EINVAL, (tcc_loc){path, 0}, "metadata '%s' is given twice or reserved",
                             metadata[i].key);
        if (!cJSON_AddStringToObject(values, metadata[i].key, value)) return tcc_enomem(d);
    }
    int64_t at = 0;
    for (int i = 0; i < count; i++) {
        TCC_TRY(add_entry(d, path, header, sorted[i], at));
        at += array_bytes(sorted[i]);
    }
    return TCC_OK;
}

/* Puts the header's checksum into its text, whose length does not change. */
static void sign_header(char *text) {
    static const char mark[] = "\"" TCC__HEADER_CRC_KEY "\":\""; /* quotes inside of values are escaped */
    char *at = strstr(text, mark) + sizeof mark - 1, crc[9];
    snprintf(crc, sizeof crc, "%08x", (unsigned)tcc__safetensors_header_crc(text, strlen(text), (size_t)(at - text)));
    memcpy(at, crc, 8);
}

static tcc_status write_file(tcc_diag *d, tcc__out *o, const char *path, const char *header,
                             const tcc_array *const *sorted, int count) {
    static const char spaces[8] = "        ";
    uint64_t length = strlen(header), padded = (length + 7) / 8 * 8;
    TCC_TRY(tcc__out_open(d, o, path));
    TCC_TRY(tcc__out_write(d, o, &padded, sizeof padded));
    TCC_TRY(tcc__out_write(d, o, header, length));
    TCC_TRY(tcc__out_write(d, o, spaces, padded - length));
    for (int i = 0; i < count; i++) TCC_TRY(tcc__out_write(d, o, sorted[i]->data, (size_t)array_bytes(sorted[i])));
    return tcc__out_sync(d, o);
}

tcc_status tcc__safetensors_stage(tcc_diag *d, tcc__out *o, const char *path, const tcc_array *arrays, int count,
                                  const tcc_pair *metadata, int metadata_count, uint32_t *crc) {
    *o = (tcc__out){.fd = -1};
    TCC_TRY(check_counts(d, path, arrays, count, metadata, metadata_count));
    const tcc_array **sorted = tcc__calloc((size_t)count, sizeof *sorted);
    cJSON *header = cJSON_CreateObject();
    char *text = NULL;
    tcc_status status = TCC_OK;
    if (!sorted || !header) {
        status = tcc_enomem(d);
        goto done;
    }
    for (int i = 0; i < count; i++) sorted[i] = &arrays[i];
    if ((status = check_arrays(d, path, sorted, count)) != TCC_OK) goto done;
    qsort(sorted, (size_t)count, sizeof *sorted, compare_arrays);
    unsigned long sum = crc32_z(0, NULL, 0);
    for (int i = 0; i < count; i++)
        if (array_bytes(sorted[i])) sum = crc32_z(sum, sorted[i]->data, (size_t)array_bytes(sorted[i]));
    *crc = (uint32_t)sum;
    if ((status = build_header(d, path, header, sorted, count, metadata, metadata_count, *crc)) != TCC_OK) goto done;
    text = cJSON_PrintUnformatted(header);
    if (text) sign_header(text);
    status = text ? write_file(d, o, path, text, sorted, count) : tcc_enomem(d);
done:
    cJSON_free(text);
    cJSON_Delete(header);
    tcc__free(sorted);
    return status;
}

tcc_status tcc_safetensors_write(tcc_context *cx, const char *path, const tcc_array *arrays, int count,
                                 const tcc_pair *metadata, int metadata_count) {
    tcc_diag_begin(&cx->diag);
    tcc__out out;
    uint32_t crc;
    TCC_TRY(tcc__safetensors_stage(&cx->diag, &out, path, arrays, count, metadata, metadata_count, &crc));
    return tcc__out_rename(&cx->diag, &out);
}
