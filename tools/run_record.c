/* SPDX-License-Identifier: MIT */
#include "run_record.h"

#include <cJSON.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    run_record *record;
    char *error;
    int error_size;
} reader;

static bool fail(reader *in, const char *file, const char *what) {
    snprintf(in->error, (size_t)in->error_size, "%s/%s: %s", in->record->folder, file, what);
    return false;
}

/* The text of a file in the folder, to be freed; NULL with errno set. */
static char *read_text(const run_record *r, const char *name) {
    char *path = NULL, *text = NULL;
    size_t size = 0, used = 0;
    FILE *f = asprintf(&path, "%s/%s", r->folder, name) < 0 ? NULL : fopen(path, "r");
    free(path);
    if (!f) return NULL;
    for (bool more = true; more;) {
        char *larger = used + 1 < size ? text : realloc(text, size = 2 * size + 65536);
        if (!larger) {
            free(text);
            text = NULL;
            break;
        }
        text = larger;
        const size_t got = fread(text + used, 1, size - used - 1, f);
        used += got;
        more = got > 0;
        text[used] = '\0';
    }
    if (ferror(f)) {
        free(text);
        text = NULL;
    }
    fclose(f);
    return text;
}

/* -- Metrics -- */

static record_metric *metric_of(run_record *r, const char *name) {
    for (int i = 0; i < r->n_metrics; i++)
        if (!strcmp(r->metrics[i].name, name)) return &r->metrics[i];
    record_metric *more = realloc(r->metrics, ((size_t)r->n_metrics + 1) * sizeof *more);
    if (!more) return NULL;
    r->metrics = more;
    more[r->n_metrics] = (record_metric){.name = strdup(name)};
    return more[r->n_metrics].name ? &more[r->n_metrics++] : NULL;
}

static bool add_value(run_record *r, const char *name, double step, double value) {
    record_metric *m = metric_of(r, name);
    if (!m) return false;
    if (m->count == m->room) {
        m->room = m->room ? 2 * m->room : 64;
        double *steps = realloc(m->step, (size_t)m->room * sizeof *steps);
        if (steps) m->step = steps;
        double *values = steps ? realloc(m->value, (size_t)m->room * sizeof *values) : NULL;
        if (!values) return false;
        m->value = values;
    }
    m->step[m->count] = step;
    m->value[m->count++] = value;
    return true;
}

/* A number; what is not finite is written as null. */
static bool add_line(reader *in, const cJSON *line, int64_t number) {
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(line, "step"), *item;
    char problem[80];
    if (!cJSON_IsNumber(step)) {
        snprintf(problem, sizeof problem, "line %lld is no JSON object with a \"step\"", (long long)number);
        return fail(in, "metrics.jsonl", problem);
    }
    cJSON_ArrayForEach(item, line) {
        if (item == step || !(cJSON_IsNumber(item) || cJSON_IsNull(item))) continue;
        if (!add_value(in->record, item->string, step->valuedouble, cJSON_IsNull(item) ? NAN : item->valuedouble))
            return fail(in, "metrics.jsonl", "out of memory");
    }
    return true;
}

static bool read_metrics(reader *in) {
    char *text = read_text(in->record, "metrics.jsonl");
    bool ok = true;
    int64_t number = 0;
    if (!text) return fail(in, "metrics.jsonl", strerror(errno));
    for (char *line = text, *next; ok && *line; line = next) {
        next = line + strcspn(line, "\n");
        const bool whole = *next == '\n';
        if (whole) *next++ = '\0';
        number++;
        if (!*line) continue;
        cJSON *json = cJSON_Parse(line);
        ok = (!whole && !json) || add_line(in, json, number); /* the last line of a run that was killed may be cut */
        cJSON_Delete(json);
    }
    free(text);
    if (ok && !in->record->n_metrics) return fail(in, "metrics.jsonl", "holds no metrics yet");
    return ok;
}

const record_metric *record_find(const run_record *r, const char *name) {
    for (int i = 0; i < r->n_metrics; i++)
        if (!strcmp(r->metrics[i].name, name)) return &r->metrics[i];
    return NULL;
}

/* -- Profile -- */

static const char *text_of(const cJSON *object, const char *key) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text ? text : "";
}

static double number_of(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static bool add_launch(run_record *r, const cJSON *event) {
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(event, "args");
    const char *ops = text_of(event, "name"), *how = text_of(event, "cat");
    int i = 0;
    while (i < r->n_kernels && (strcmp(r->kernels[i].ops, ops) || strcmp(r->kernels[i].how, how))) i++;
    if (i == r->n_kernels) {
        record_kernel *more = realloc(r->kernels, ((size_t)i + 1) * sizeof *more);
        if (!more) return false;
        r->kernels = more;
        more[r->n_kernels++] =
            (record_kernel){.ops = strdup(ops), .how = strdup(how), .lines = strdup(text_of(args, "lines"))};
        if (!more[i].ops || !more[i].how || !more[i].lines) return false;
    }
    record_kernel *k = &r->kernels[i];
    k->launches++;
    k->us += number_of(event, "dur");
    k->flop += number_of(args, "flop");
    k->bytes += number_of(args, "bytes");
    return true;
}

static int by_time(const void *a, const void *b) {
    const record_kernel *x = a, *y = b;
    return x->us != y->us ? (x->us < y->us ? 1 : -1) : strcmp(x->ops, y->ops);
}

/* Of the launches, which are the events with a flop count, the last run that took a step's gradients; else the last. */
static double last_run(const cJSON *events) {
    double last = 0, training = -1;
    const cJSON *event;
    cJSON_ArrayForEach(event, events) {
        const cJSON *args = cJSON_GetObjectItemCaseSensitive(event, "args");
        if (!cJSON_GetObjectItemCaseSensitive(args, "flop")) continue;
        last = fmax(last, number_of(args, "run"));
        if (!strcmp(text_of(args, "program"), "train")) training = fmax(training, number_of(args, "run"));
    }
    return training < 0 ? last : training;
}

static bool read_profile(reader *in) {
    run_record *r = in->record;
    char *text = read_text(r, "profile.json");
    if (!text) return errno == ENOENT || fail(in, "profile.json", strerror(errno));
    cJSON *root = cJSON_Parse(text);
    const cJSON *events = cJSON_GetObjectItemCaseSensitive(root, "traceEvents"), *event;
    const cJSON *about = cJSON_GetObjectItemCaseSensitive(root, "otherData");
    bool ok = cJSON_IsArray(events) || fail(in, "profile.json", "is no trace that --profile has written");
    free(text);
    const double run = last_run(events);
    r->flop_per_s = number_of(about, "flop_per_s");
    r->bytes_per_s = number_of(about, "bytes_per_s");
    cJSON_ArrayForEach(event, events) {
        if (!ok) break;
        const cJSON *args = cJSON_GetObjectItemCaseSensitive(event, "args");
        if (!cJSON_GetObjectItemCaseSensitive(args, "flop") || number_of(args, "run") != run) continue;
        ok = add_launch(r, event) || fail(in, "profile.json", "out of memory");
    }
    cJSON_Delete(root);
    if (r->n_kernels) qsort(r->kernels, (size_t)r->n_kernels, sizeof *r->kernels, by_time);
    return ok;
}

/* -- The record -- */

/* A text that need not be there. */
static bool read_optional(reader *in, const char *name, char **out) {
    *out = read_text(in->record, name);
    return *out || errno == ENOENT || fail(in, name, strerror(errno));
}

bool record_read(run_record *r, const char *folder, char *error, int error_size) {
    *r = (run_record){.folder = folder};
    reader in = {r, error, error_size};
    return read_metrics(&in) && read_optional(&in, "recipe.yaml", &r->recipe) &&
           read_optional(&in, "memory.svg", &r->memory_svg) && read_profile(&in);
}

void record_free(run_record *r) {
    for (int i = 0; i < r->n_metrics; i++) {
        free(r->metrics[i].name);
        free(r->metrics[i].step);
        free(r->metrics[i].value);
    }
    for (int i = 0; i < r->n_kernels; i++) {
        free(r->kernels[i].ops);
        free(r->kernels[i].how);
        free(r->kernels[i].lines);
    }
    free(r->metrics);
    free(r->kernels);
    free(r->recipe);
    free(r->memory_svg);
}
