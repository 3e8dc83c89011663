/* SPDX-License-Identifier: MIT
 * Requests that wait: one thread answers all of them at once. */
#include "serve.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t waiting = PTHREAD_COND_INITIALIZER, answered = PTHREAD_COND_INITIALIZER;
static job *first, **last = &first;
static bool stopping;

/* ---- answering ---- */

/* The jobs whose rows are being answered, and the one whose turn it is. */
typedef struct turn {
    job *at;
    int row;
} turn;

static bool take_answer(void *user, const tcc_answer *a) {
    turn *t = user;
    size_t length;
    cJSON *row = cJSON_CreateObject();
    const char *name = a->label < 0 ? NULL : tcc_dataset_label(tcc_run_data(s.run), a->label, &length);
    if (name) {
        cJSON_AddStringToObject(row, "label", name);
        cJSON_AddNumberToObject(row, "probability", a->values[a->label]);
    } else {
        cJSON *values = cJSON_AddArrayToObject(row, "values");
        for (int64_t i = 0; i < a->n_values; i++) cJSON_AddItemToArray(values, cJSON_CreateNumber(a->values[i]));
    }
    cJSON_AddItemToArray(t->at->answers, row);
    if (++t->row == t->at->rows) *t = (turn){t->at->next, 0};
    return true;
}

static bool answer_rows(job *list, turn *t) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return false;
    if (s.takes == TABLE) fprintf(out, "%s\n", s.header);
    for (const job *j = list; j; j = j->next) fputs(j->lines, out);
    const bool ok = !fclose(out) && tcc_run_predict_bytes(s.run, text, size, take_answer, t) == TCC_OK;
    free(text);
    return ok;
}

/* Pictures are files of a folder, in the order of their names. What they are is seen by their bytes. */
static void picture_path(int i, char path[64]) { snprintf(path, 64, "%s/%06d.png", s.folder, i); }

static bool answer_pictures(job *list, turn *t) {
    char path[64];
    int count = 0;
    bool ok = true;
    for (const job *j = list; j && ok; j = j->next) {
        picture_path(count++, path);
        FILE *out = fopen(path, "wbx");
        ok = out && fwrite(j->picture, 1, j->picture_bytes, out) == j->picture_bytes;
        if (out) ok = !fclose(out) && ok;
    }
    ok = ok && tcc_run_predict(s.run, s.folder, take_answer, t) == TCC_OK;
    for (int i = 0; i < count; i++) {
        picture_path(i, path);
        unlink(path);
    }
    return ok;
}

/* Answers all jobs of a list as one; false: some of them cannot be. */
static bool answer(job *list) {
    turn t = {list, 0};
    for (job *j = list; j; j = j->next) j->answers = cJSON_CreateArray();
    const bool ok = (s.takes == PICTURES ? answer_pictures(list, &t) : answer_rows(list, &t)) && !t.at;
    for (job *j = list; j && !ok; j = j->next) {
        cJSON_Delete(j->answers);
        j->answers = NULL;
    }
    return ok;
}

/* One at a time where they cannot be answered together, to find out which is to blame. */
static void answer_each(job *list) {
    for (job *next; list; list = next) {
        next = list->next;
        list->next = NULL;
        if (answer(list)) continue;
        const char *why = tcc_context_error(s.cx), *colon = strstr(why, "error: "); /* without our file's name */
        snprintf(list->problem, sizeof list->problem, "%s", colon ? colon + 7 : why);
    }
}

/* Takes from the queue what is answered together. The mutex is held. */
static job *take_jobs(job *all[MOST_ROWS], int *count) {
    job *list = first, **end = &first;
    int rows = 0;
    for (*count = 0; *end && *count < MOST_ROWS && (!rows || rows + (*end)->rows <= MOST_ROWS); end = &(*end)->next) {
        rows += (*end)->rows;
        all[(*count)++] = *end;
    }
    first = *end;
    *end = NULL;
    if (!first) last = &first;
    return list;
}

static void *work(void *unused) {
    static job *jobs[MOST_ROWS];
    int count;
    pthread_mutex_lock(&mutex);
    for (;;) {
        while (!first && !stopping) pthread_cond_wait(&waiting, &mutex);
        if (!first) break;
        job *list = take_jobs(jobs, &count);
        pthread_mutex_unlock(&mutex);
        if (!answer(list)) answer_each(list);
        pthread_mutex_lock(&mutex);
        for (int i = 0; i < count; i++) jobs[i]->done = true;
        pthread_cond_broadcast(&answered);
    }
    pthread_mutex_unlock(&mutex);
    return unused;
}

void queue_answer(job *j) {
    pthread_mutex_lock(&mutex);
    *last = j;
    last = &j->next;
    pthread_cond_signal(&waiting);
    while (!j->done) pthread_cond_wait(&answered, &mutex);
    pthread_mutex_unlock(&mutex);
}

/* ---- beginning and end ---- */

static pthread_t worker;

bool queue_start(void) { return !pthread_create(&worker, NULL, work, NULL); }

void queue_stop(void) {
    pthread_mutex_lock(&mutex);
    stopping = true;
    pthread_cond_signal(&waiting);
    pthread_mutex_unlock(&mutex);
    pthread_join(worker, NULL);
}
