/* SPDX-License-Identifier: MIT
 * Checkpoints of a run. The order of a save makes it atomic: both files are written and synced
 * under temporary names, then the state is renamed, then the parameters. Until that last rename the
 * checkpoint does not exist; a state file without its parameters is what an interrupted save may
 * leave, and is ignored. The state repeats the parameters' checksum, so that files of two different
 * saves are never taken for one checkpoint. */
#include "ir/support/alloc.h"
#include "ir/support/context.h"
#include "ir/support/vec.h"
#include "runtime/files/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct tcc_checkpoint {
    int64_t step;
    char *path;
    tcc_safetensors *params, *state;
};

typedef tcc_vec(int64_t) step_list;

static const char *const step_key = "traincc.step";
static const char *const params_key = "traincc.params_crc32";
/* What the state says of its version: from "2" on both headers have a checksum, so that one that is damaged beyond
 * recognition is missed. */
static const char *const format_key = "traincc.format", *const format = "2";

/* ---- names ---- */

static char *file_path(const char *folder, int64_t step, const char *ending) {
    char name[64];
    snprintf(name, sizeof name, "step-%06lld%s", (long long)step, ending);
    return tcc__path_join(folder, name);
}

static char *params_path(const char *folder, int64_t step) { return file_path(folder, step, ".safetensors"); }
static char *state_path(const char *folder, int64_t step) { return file_path(folder, step, ".state.safetensors"); }

/* The step in "step-NNNNNN.safetensors", which must be written exactly as we would; -1 for any
 * other name. */
static int64_t step_of(const char *name) {
    if (strncmp(name, "step-", 5) || name[5] < '0' || name[5] > '9') return -1;
    int64_t step = strtoll(name + 5, NULL, 10);
    char expected[64];
    snprintf(expected, sizeof expected, "step-%06lld.safetensors", (long long)step);
    return strcmp(name, expected) ? -1 : step;
}

/* ---- listing ---- */

static int compare_steps(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static tcc_status find_steps(tcc_diag *d, const char *folder, step_list *out) {
    DIR *entries = opendir(folder);
    if (!entries && errno == ENOENT) return TCC_OK;
    if (!entries)
        return tcc_error(d, TCC_EIO, (tcc_loc){folder, 0}, "cannot read the folder: %s", tcc__errno(errno).text);
    tcc_status status = TCC_OK;
    const struct dirent *entry;
    while (status == TCC_OK && (entry = readdir(entries))) {
        int64_t step = step_of(entry->d_name);
        if (step < 0) continue;
        char *state = state_path(folder, step);
        if (!state) status = tcc_enomem(d);
        else if (tcc__file_exists(state) && !tcc_vec_push(out, step)) status = tcc_enomem(d);
        tcc__free(state);
    }
    closedir(entries);
    if (out->count) qsort(out->data, (size_t)out->count, sizeof *out->data, compare_steps);
    return status;
}

tcc_status tcc_checkpoint_list(tcc_context *cx, const char *folder, int64_t *steps, int capacity, int *count) {
    tcc_diag_begin(&cx->diag);
    *count = 0;
    step_list found = {0};
    tcc_status status = find_steps(&cx->diag, folder, &found);
    if (status == TCC_OK) {
        *count = found.count;
        int given = found.count < capacity ? found.count : capacity;
        if (given > 0) memcpy(steps, found.data + found.count - given, sizeof *steps * (size_t)given);
    }
    tcc_vec_free(&found);
    return status;
}

/* ---- saving ---- */

static tcc_status stage_state(tcc_diag *d, tcc__out *o, const char *path, const tcc_checkpoint_contents *c,
                              uint32_t params_crc) {
    tcc_pair *values = tcc__calloc((size_t)c->n_values + 3, sizeof *values);
    if (!values) return tcc_enomem(d);
    char step[24], crc[16];
    snprintf(step, sizeof step, "%lld", (long long)c->step);
    snprintf(crc, sizeof crc, "%08x", (unsigned)params_crc);
    values[0] = (tcc_pair){step_key, step};
    values[1] = (tcc_pair){params_key, crc};
    values[2] = (tcc_pair){format_key, format};
    for (int i = 0; i < c->n_values && c->values; i++) values[3 + i] = c->values[i];
    uint32_t state_crc;
    tcc_status status = tcc__safetensors_stage(d, o, path, c->state, c->n_state, values, c->n_values + 3, &state_crc);
    tcc__free(values);
    return status;
}

static tcc_status stage_params(tcc_diag *d, tcc__out *o, const char *path, const tcc_checkpoint_contents *c,
                               uint32_t *crc) {
    char step[24];
    snprintf(step, sizeof step, "%lld", (long long)c->step);
    tcc_pair value = {step_key, step};
    return tcc__safetensors_stage(d, o, path, c->params, c->n_params, &value, 1, crc);
}

tcc_status tcc_checkpoint_save(tcc_context *cx, const char *folder, const tcc_checkpoint_contents *c) {
    tcc_diag_begin(&cx->diag);
    tcc_diag *d = &cx->diag;
    if (!c) return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "tcc_checkpoint_save: the contents are NULL");
    if (c->size != sizeof *c || c->step < 0)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "tcc_checkpoint_save: size is %zu (should be %zu), step is %lld",
                         c->size, sizeof *c, (long long)c->step);
    if (c->n_params < 0 || c->n_state < 0 || c->n_values < 0)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "tcc_checkpoint_save: %d parameters, %d states and %d values must each be at least 0",
                         c->n_params, c->n_state, c->n_values);
    TCC_TRY(tcc__folder_create(d, folder));
    char *params = params_path(folder, c->step), *state = state_path(folder, c->step);
    tcc__out params_out = {.fd = -1}, state_out = {.fd = -1};
    uint32_t crc = 0;
    tcc_status status = params && state ? TCC_OK : tcc_enomem(d);
    if (status == TCC_OK) status = stage_params(d, &params_out, params, c, &crc);
    if (status == TCC_OK) status = stage_state(d, &state_out, state, c, crc);
    if (status == TCC_OK) status = tcc__out_rename(d, &state_out);
    if (status == TCC_OK) status = tcc__out_rename(d, &params_out);
    tcc__out_abandon(&params_out);
    tcc__out_abandon(&state_out);
    tcc__free(params);
    tcc__free(state);
    return status;
}

/* ---- removing ---- */

static tcc_status remove_file(tcc_diag *d, const char *path) {
    if (!unlink(path) || errno == ENOENT) return TCC_OK;
    return tcc_error(d, TCC_EIO, (tcc_loc){path, 0}, "cannot remove the file: %s", tcc__errno(errno).text);
}

/* The parameters first: with them the checkpoint has ceased to exist. */
tcc_status tcc_checkpoint_remove(tcc_context *cx, const char *folder, int64_t step) {
    tcc_diag_begin(&cx->diag);
    char *params = params_path(folder, step), *state = state_path(folder, step);
    tcc_status status = params && state ? TCC_OK : tcc_enomem(&cx->diag);
    if (status == TCC_OK) status = remove_file(&cx->diag, params);
    if (status == TCC_OK) status = remove_file(&cx->diag, state);
    tcc__free(params);
    tcc__free(state);
    return status;
}

/* ---- opening ---- */

static tcc_status check_pair(tcc_diag *d, const tcc_checkpoint *c) {
    TCC_TRY(tcc__safetensors_verify(d, c->params));
    TCC_TRY(tcc__safetensors_verify(d, c->state));
    for (int i = 0; i < 2 && tcc_safetensors_metadata(c->state, format_key); i++)
        if (!tcc_safetensors_metadata(i ? c->params : c->state, TCC__HEADER_CRC_KEY))
            return tcc_error(d, TCC_EFORMAT, (tcc_loc){c->path, 0}, "%s is damaged: its header has lost its checksum",
                             i ? "the file" : "the state beside it");
    const char *step = tcc_safetensors_metadata(c->state, step_key),
               *expected = tcc_safetensors_metadata(c->state, params_key);
    const char *crc = tcc_safetensors_metadata(c->params, "traincc.crc32");
    if (!step || strtoll(step, NULL, 10) != c->step)
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){c->path, 0}, "the state beside it is of step %s",
                         step ? step : "unknown");
    if (!crc || !expected || strcmp(crc, expected))
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){c->path, 0},
                         "the state beside it belongs to other parameters (checksum %s, not %s)",
                         expected ? expected : "unknown", crc ? crc : "unknown");
    return TCC_OK;
}

static tcc_status open_step(tcc_diag *d, const char *folder, int64_t step, tcc_checkpoint **out) {
    tcc_checkpoint *c = tcc__calloc(1, sizeof *c);
    if (!c) return tcc_enomem(d);
    c->step = step;
    c->path = params_path(folder, step);
    char *state = state_path(folder, step);
    tcc_status status = c->path && state ? TCC_OK : tcc_enomem(d);
    if (status == TCC_OK) status = tcc__safetensors_open(d, c->path, &c->params);
    if (status == TCC_OK) status = tcc__safetensors_open(d, state, &c->state);
    if (status == TCC_OK) status = check_pair(d, c);
    tcc__free(state);
    if (status == TCC_OK) *out = c;
    else tcc_checkpoint_close(c);
    return status;
}

/* After a failure: name the newest checkpoint before `step` that can be opened. */
static void note_earlier(tcc_diag *d, const char *folder, int64_t step) {
    step_list steps = {0};
    tcc_checkpoint *earlier = NULL;
    if (find_steps(NULL, folder, &steps) == TCC_OK) {
        for (int i = steps.count - 1; i >= 0 && !earlier; i--)
            if (steps.data[i] < step && open_step(NULL, folder, steps.data[i], &earlier) != TCC_OK) earlier = NULL;
    }
    if (earlier) tcc_note(d, TCC_NOWHERE, "the newest earlier checkpoint that is sound is %s", earlier->path);
    else tcc_note(d, TCC_NOWHERE, "there is no earlier checkpoint that is sound in %s", folder);
    tcc_checkpoint_close(earlier);
    tcc_vec_free(&steps);
}

static tcc_status newest_step(tcc_diag *d, const char *folder, int64_t *step) {
    step_list steps = {0};
    tcc_status status = find_steps(d, folder, &steps);
    if (status == TCC_OK && !steps.count)
        status = tcc_error(d, TCC_ENOTFOUND, (tcc_loc){folder, 0},
                           "there is no checkpoint (step-NNNNNN.safetensors and its state)");
    if (status == TCC_OK) *step = steps.data[steps.count - 1];
    tcc_vec_free(&steps);
    return status;
}

tcc_status tcc_checkpoint_open(tcc_context *cx, const char *path, tcc_checkpoint **out) {
    tcc_diag_begin(&cx->diag);
    tcc_diag *d = &cx->diag;
    *out = NULL;
    struct stat info;
    if (stat(path, &info)) {
        int error = errno;
        return tcc_error(d, error == ENOENT ? TCC_ENOTFOUND : TCC_EIO, (tcc_loc){path, 0},
                         "cannot open the checkpoint: %s", tcc__errno(error).text);
    }
    bool is_folder = S_ISDIR(info.st_mode);
    char *folder = is_folder ? tcc__strdup(path) : tcc__path_folder(path);
    if (!folder) return tcc_enomem(d);
    int64_t step = 0;
    tcc_status status = TCC_OK;
    if (is_folder) status = newest_step(d, folder, &step);
    else if ((step = step_of(tcc__path_name(path))) < 0)
        status = tcc_error(d, TCC_EINVAL, (tcc_loc){path, 0},
                           "a checkpoint is named by its parameters' file, step-NNNNNN.safetensors");
    if (status == TCC_OK) {
        status = open_step(d, folder, step, out);
        if (status == TCC_EFORMAT || status == TCC_ENOTFOUND || status == TCC_EIO) note_earlier(d, folder, step);
    }
    tcc__free(folder);
    return status;
}

void tcc_checkpoint_close(tcc_checkpoint *c) {
    if (!c) return;
    tcc_safetensors_close(c->params);
    tcc_safetensors_close(c->state);
    tcc__free(c->path);
    tcc__free(c);
}

int64_t tcc_checkpoint_step(const tcc_checkpoint *c) { return c->step; }
const char *tcc_checkpoint_path(const tcc_checkpoint *c) { return c->path; }
const char *tcc_checkpoint_value(const tcc_checkpoint *c, const char *key) {
    return tcc_safetensors_metadata(c->state, key);
}
const tcc_safetensors *tcc_checkpoint_params(const tcc_checkpoint *c) { return c->params; }
const tcc_safetensors *tcc_checkpoint_state(const tcc_checkpoint *c) { return c->state; }

/* The arrays of `to` that have an average, under its name, which is malloc's: at most `count` of them. */
static int find_averages(const tcc_checkpoint *c, const tcc_array *to, int count, tcc_array *found, bool *failed) {
    int n = 0;
    for (int i = 0; i < count && !*failed; i++) {
        tcc_strbuf name = {0};
        tcc_strbuf_add(&name, to[i].name);
        tcc_strbuf_add(&name, ".ema");
        *failed = name.failed;
        found[n] = to[i];
        found[n].name = name.text;
        if (!name.failed && tcc_safetensors_find(c->state, name.text) >= 0) n++;
        else tcc_strbuf_free(&name);
    }
    return n;
}

tcc_status tcc_checkpoint_load_averages(tcc_context *cx, const tcc_checkpoint *c, const tcc_array *to, int count,
                                        bool *found) {
    bool failed = false;
    tcc_diag_begin(&cx->diag);
    tcc_array *averages = tcc__calloc((size_t)count + 1, sizeof *averages);
    if (!averages) return tcc_enomem(&cx->diag);
    const int n = find_averages(c, to, count, averages, &failed);
    tcc_status status = failed ? tcc_enomem(&cx->diag) : TCC_OK;
    if (status == TCC_OK && n) status = tcc_safetensors_load(cx, c->state, averages, n, TCC_LOAD_ALLOW_UNEXPECTED);
    *found = status == TCC_OK && n > 0;
    for (int i = 0; i < n; i++) tcc__free((char *)averages[i].name);
    tcc__free(averages);
    return status;
}
