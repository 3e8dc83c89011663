/* SPDX-License-Identifier: MIT
 * Writes checkpoints beside the training: a thread writes a copy while the next steps run. Where there is no memory for
 * a copy, or no thread, the training waits for the writing. */
#include "train_saver.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct saver {
    tcc_context *cx; /* of the thread, as long as it runs */
    char *folder;
    int64_t keep_last;
    pthread_t thread;
    bool running;
    atomic_bool done;
    tcc_checkpoint_contents copy; /* owned */
    tcc_status status;
    int64_t saved; /* the step of the last checkpoint that is there; -1: none */
};

static int64_t array_bytes(const tcc_array *a) {
    static const int sizes[TCC_DTYPE_COUNT] = {
#define TCC_DTYPE(id, text, bytes, ...) [TCC_##id] = bytes,
#include <traincc/dtype.def>
#undef TCC_DTYPE
    };
    int64_t bytes = sizes[a->dtype];
    for (int i = 0; i < a->rank; i++) bytes *= a->dims[i];
    return bytes;
}

/* -- Copies -- */

static void free_arrays(tcc_array *list, int count) {
    for (int i = 0; i < count && list; i++) {
        free((char *)list[i].name);
        free(list[i].data);
    }
    free(list);
}

static bool copy_arrays(const tcc_array *from, int count, tcc_array *to) {
    for (int i = 0; i < count; i++) {
        to[i] = from[i];
        to[i].name = strdup(from[i].name);
        to[i].data = malloc((size_t)array_bytes(&from[i]) + 1);
        if (!to[i].name || !to[i].data) return false;
        memcpy(to[i].data, from[i].data, (size_t)array_bytes(&from[i]));
    }
    return true;
}

static void free_contents(tcc_checkpoint_contents *c) {
    free_arrays((tcc_array *)c->params, c->n_params);
    free_arrays((tcc_array *)c->state, c->n_state);
    for (int i = 0; i < c->n_values && c->values; i++) {
        free((char *)c->values[i].key);
        free((char *)c->values[i].value);
    }
    free((tcc_pair *)c->values);
    *c = (tcc_checkpoint_contents){0};
}

/* False when memory is short; then nothing is kept. */
static bool copy_contents(const tcc_checkpoint_contents *from, tcc_checkpoint_contents *to) {
    tcc_array *params = calloc((size_t)from->n_params + 1, sizeof *params),
              *state = calloc((size_t)from->n_state + 1, sizeof *state);
    tcc_pair *values = calloc((size_t)from->n_values + 1, sizeof *values);
    *to = *from;
    to->params = params;
    to->state = state;
    to->values = values;
    bool ok = params && state && values;
    for (int i = 0; i < from->n_values && ok; i++) {
        values[i] = (tcc_pair){strdup(from->values[i].key), strdup(from->values[i].value)};
        ok = values[i].key && values[i].value;
    }
    ok = ok && copy_arrays(from->params, from->n_params, params) && copy_arrays(from->state, from->n_state, state);
    if (!ok) free_contents(to);
    return ok;
}

/* -- Writing -- */

/* Removes all checkpoints but the newest few, and that of step 0, which has the initial weights. With each goes the
 * link to what was the best then (train_folder.c). */
static tcc_status prune(saver *v) {
    int64_t steps[256];
    int count;
    if (!v->keep_last) return TCC_OK;
    tcc_status status = tcc_checkpoint_list(v->cx, v->folder, steps, 256, &count);
    if (count > 256) count = 256; /* what is older goes with the next ones */
    for (int i = 0; i < count - v->keep_last && status == TCC_OK; i++) {
        char *best = NULL;
        if (!steps[i]) continue;
        status = tcc_checkpoint_remove(v->cx, v->folder, steps[i]);
        if (asprintf(&best, "%s/step-%06" PRId64 ".best.safetensors", v->folder, steps[i]) >= 0) unlink(best);
        free(best);
    }
    return status;
}

static tcc_status write_contents(saver *v, const tcc_checkpoint_contents *c) {
    tcc_status status = tcc_checkpoint_save(v->cx, v->folder, c);
    if (status == TCC_OK) v->saved = c->step;
    return status == TCC_OK ? prune(v) : status;
}

static void *run_thread(void *argument) {
    saver *v = argument;
    v->status = write_contents(v, &v->copy);
    atomic_store(&v->done, true);
    return NULL;
}

/* Signals are for the thread that trains. */
static bool start_thread(saver *v) {
    sigset_t all, before;
    sigfillset(&all);
    atomic_store(&v->done, false);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    v->running = !pthread_create(&v->thread, NULL, run_thread, v);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return v->running;
}

tcc_status saver_wait(saver *v) {
    if (!v->running) return TCC_OK;
    pthread_join(v->thread, NULL);
    v->running = false;
    free_contents(&v->copy);
    return v->status;
}

tcc_status saver_poll(saver *v) { return v->running && atomic_load(&v->done) ? saver_wait(v) : TCC_OK; }

tcc_status saver_save(saver *v, const tcc_checkpoint_contents *c) {
    tcc_status status = saver_wait(v);
    if (status != TCC_OK) return status;
    if (!copy_contents(c, &v->copy)) return write_contents(v, c);
    if (start_thread(v)) return TCC_OK;
    status = write_contents(v, &v->copy);
    free_contents(&v->copy);
    return status;
}

/* -- Life -- */

saver *saver_create(const char *folder, int64_t keep_last) {
    saver *v = calloc(1, sizeof *v);
    if (!v) return NULL;
    *v = (saver){.folder = strdup(folder), .keep_last = keep_last, .saved = -1};
    if (v->folder && tcc_context_create(&v->cx) == TCC_OK) return v;
    saver_destroy(v);
    return NULL;
}

void saver_destroy(saver *v) {
    if (!v) return;
    saver_wait(v);
    tcc_context_destroy(v->cx);
    free(v->folder);
    free(v);
}

int64_t saver_saved(const saver *v) { return v->saved; }
void saver_set_saved(saver *v, int64_t step) { v->saved = step; }
const char *saver_error(const saver *v) { return tcc_context_error(v->cx); }
