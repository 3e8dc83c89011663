/* SPDX-License-Identifier: MIT
 * Weights lie in one safetensors file, or in several that an index names, as Hugging Face's code writes them. */
#include "runtime/files/weights_files.h"
#include "ir/support/alloc.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PLACE(path) ((tcc_loc){(path), 0})

/* A file of PyTorch's own is a program for Python, which is not run. */
static tcc_status refuse_pickle(tcc_diag *d, const char *path) {
    return tcc_error(d, TCC_EUNSUPPORTED, PLACE(path),
                     "is PyTorch's own format, a pickle, which may run any code; convert it once where PyTorch and "
                     "safetensors are:\n"
                     "python3 -c \"import torch, safetensors.torch as s; w = torch.load('%s', map_location='cpu', "
                     "weights_only=True); w = next((w[k] for k in ('state_dict', 'model') if k in w and "
                     "isinstance(w[k], dict)), w); s.save_file({k: v.clone().contiguous() for k, v in w.items() if "
                     "torch.is_tensor(v)}, '%s.safetensors')\"",
                     path, path);
}

/* By how it begins: a zip archive, or a pickle of protocol 2 to 5. A safetensors file may begin with any length of its
 * header, which follows. */
static bool is_pickle(const char *path) {
    unsigned char first[9] = {0};
    FILE *f = fopen(path, "rb");
    const bool read = f && fread(first, 1, sizeof first, f) == sizeof first;
    if (f) fclose(f);
    return read && first[8] != '{' &&
           (!memcmp(first, "PK\3\4", 4) || (first[0] == 0x80 && first[1] >= 2 && first[1] <= 5));
}

static tcc_status open_one(tcc_diag *d, const char *path, tcc__weights_files *out) {
    struct stat info;
    tcc_safetensors *f;
    if (!stat(path, &info) && S_ISREG(info.st_mode) && is_pickle(path)) return refuse_pickle(d, path);
    TCC_TRY(tcc__safetensors_open(d, path, &f));
    if (!tcc_vec_push(out, f)) {
        tcc_safetensors_close(f);
        return tcc_enomem(d);
    }
    return tcc__safetensors_verify(d, f);
}

/* -- Several files -- */

typedef struct shards {
    tcc_diag *diag;
    const char *path; /* of the index */
    const char *folder;
    tcc__weights_files *out;
    tcc_vec(const char *) names; /* of the files, by their number in `out` */
} shards;

static tcc_status open_shard(shards *s, const char *name, int *found) {
    for (*found = 0; *found < s->names.count; ++*found)
        if (!strcmp(s->names.data[*found], name)) return TCC_OK;
    if (!*name || strchr(name, '/'))
        return tcc_error(s->diag, TCC_EFORMAT, PLACE(s->path), "names the file '%s', which is no name of one beside it",
                         name);
    char *path = tcc__path_join(s->folder, name);
    tcc_status status = path ? TCC_OK : tcc_enomem(s->diag);
    if (path && !tcc__file_exists(path))
        status = tcc_error(s->diag, TCC_ENOTFOUND, PLACE(s->path),
                           "names the file %s, which is not there; all files of a set have to lie beside their index",
                           path);
    if (status == TCC_OK) status = open_one(s->diag, path, s->out);
    if (status == TCC_OK && !tcc_vec_push(&s->names, name)) status = tcc_enomem(s->diag);
    tcc__free(path);
    return status;
}

static tcc_status open_shards(shards *s, const cJSON *json) {
    const cJSON *map = cJSON_GetObjectItemCaseSensitive(json, "weight_map"), *item;
    int n;
    if (!cJSON_IsObject(map) || !map->child)
        return tcc_error(s->diag, TCC_EFORMAT, PLACE(s->path),
                         "is no index of weights: it has no \"weight_map\" of tensors and files");
    cJSON_ArrayForEach(item, map) {
        if (!cJSON_IsString(item))
            return tcc_error(s->diag, TCC_EFORMAT, PLACE(s->path), "names no file for the tensor '%s'", item->string);
        TCC_TRY(open_shard(s, item->valuestring, &n));
        if (tcc_safetensors_find(s->out->data[n], item->string) < 0)
            return tcc_error(s->diag, TCC_EFORMAT, PLACE(s->path), "says that '%s' is in %s, which does not have it",
                             item->string, item->valuestring);
    }
    return TCC_OK;
}

static tcc_status open_index(tcc_diag *d, const char *path, tcc__weights_files *out) {
    tcc__bytes text;
    TCC_TRY(tcc__file_load(d, path, &text));
    cJSON *json = cJSON_ParseWithLength((const char *)text.data, text.size);
    char *folder = tcc__path_folder(path);
    shards s = {.diag = d, .path = path, .folder = folder, .out = out};
    const tcc_status status = !folder ? tcc_enomem(d)
                              : !json ? tcc_error(d, TCC_EFORMAT, PLACE(path), "is not JSON")
                                      : open_shards(&s, json);
    tcc_vec_free(&s.names);
    cJSON_Delete(json);
    tcc__free(folder);
    tcc__free(text.data);
    return status;
}

/* -- Any of these -- */

static bool is_index(const char *path) {
    const size_t length = strlen(path);
    return length > 5 && !strcmp(path + length - 5, ".json");
}

static tcc_status open_folder(tcc_diag *d, const char *folder, tcc__weights_files *out) {
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors", "pytorch_model.bin"};
    for (int i = 0; i < 3; i++) {
        char *path = tcc__path_join(folder, names[i]);
        if (!path) return tcc_enomem(d);
        const bool found = tcc__file_exists(path);
        const tcc_status status = !found ? TCC_OK : is_index(path) ? open_index(d, path, out) : open_one(d, path, out);
        tcc__free(path);
        if (found) return status;
    }
    return tcc_error(d, TCC_ENOTFOUND, PLACE(folder), "has neither %s nor %s", names[1], names[0]);
}

tcc_status tcc__weights_files_open(tcc_diag *d, const char *path, tcc__weights_files *out) {
    struct stat info;
    if (!stat(path, &info) && S_ISDIR(info.st_mode)) return open_folder(d, path, out);
    return is_index(path) ? open_index(d, path, out) : open_one(d, path, out);
}

void tcc__weights_files_close(tcc__weights_files *files) {
    for (int i = 0; i < files->count; i++) tcc_safetensors_close(files->data[i]);
    tcc_vec_free(files);
}
