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

/* What a file in the folder holds, with a NUL behind it, to be freed; NULL with errno set. */
static char *read_bytes(const run_record *r, const char *name, size_t *length) {
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
    *length = used;
    return text;
}

static char *read_text(const run_record *r, const char *name) {
    size_t length;
    return read_bytes(r, name, &length);
}

/* -- Metrics -- */

/* Lines have the same keys in the same order: `next` is where the one behind the last was found. */
static record_metric *metric_of(run_record *r, const char *name, int *next) {
    const int n = r->n_metrics;
    for (int i = 0; i < n; i++) {
        record_metric *m = &r->metrics[(*next + i) % n];
        if (strcmp(m->name, name) != 0) continue;
        *next = (*next + i + 1) % n;
        return m;
    }
    record_metric *more = realloc(r->metrics, ((size_t)n + 1) * sizeof *more);
    if (!more) return NULL;
    r->metrics = more;
    more[n] = (record_metric){.name = strdup(name), .last = NAN, .least = NAN, .most = NAN, .stride = 1};
    return more[n].name ? &more[r->n_metrics++] : NULL;
}

/* Of each four points the least and the largest stay. */
static void thin_points(record_metric *m) {
    enum { GROUP = 4 };
    int64_t to = 0;
    for (int64_t from = 0; from < m->count; from += GROUP) {
        int64_t least = from, most = from;
        for (int64_t i = from; i < from + GROUP && i < m->count; i++) {
            if (m->value[i] < m->value[least] || isnan(m->value[least])) least = i;
            if (m->value[i] > m->value[most] || isnan(m->value[most])) most = i;
        }
        for (int k = 0; k < (least == most ? 1 : 2); k++, to++) {
            const int64_t i = (k == 0) == (least < most) ? least : most;
            m->step[to] = m->step[i];
            m->value[to] = m->value[i];
        }
    }
    m->count = to;
}

static bool add_point(record_metric *m, double step, double value) {
    if (m->count == RECORD_POINTS) thin_points(m);
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

static bool add_evenly(record_metric *m, double value) {
    if (!m->evenly && !(m->evenly = malloc(RECORD_EVENLY * sizeof *m->evenly))) return false;
    if (m->seen++ % m->stride) return true;
    if (m->n_evenly == RECORD_EVENLY) {
        for (int64_t i = 0; 2 * i < RECORD_EVENLY; i++) m->evenly[i] = m->evenly[2 * i];
        m->n_evenly = RECORD_EVENLY / 2;
        m->stride *= 2;
    }
    m->evenly[m->n_evenly++] = value;
    return true;
}

static bool add_value(record_metric *m, double step, double value) {
    m->last_step = step;
    m->last = value;
    if (isfinite(value) && !(value >= m->least)) m->least = value;
    if (isfinite(value) && !(value <= m->most)) m->most = value;
    return add_point(m, step, value) && (!isfinite(value) || add_evenly(m, value));
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double record_median(const run_record *r, const char *name) {
    const record_metric *m = record_find(r, name);
    if (!m || !m->n_evenly) return NAN;
    double sorted[RECORD_EVENLY];
    memcpy(sorted, m->evenly, (size_t)m->n_evenly * sizeof *sorted);
    qsort(sorted, (size_t)m->n_evenly, sizeof *sorted, ascending);
    return sorted[m->n_evenly / 2];
}

/* A number; what is not finite is written as null. */
static bool add_line(reader *in, const cJSON *line, int64_t number) {
    int next = 0;
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(line, "step"), *item;
    char problem[80];
    if (!cJSON_IsNumber(step)) {
        snprintf(problem, sizeof problem, "line %lld is no JSON object with a \"step\"", (long long)number);
        return fail(in, "metrics.jsonl", problem);
    }
    cJSON_ArrayForEach(item, line) {
        if (item == step || !(cJSON_IsNumber(item) || cJSON_IsNull(item))) continue;
        record_metric *m = metric_of(in->record, item->string, &next);
        if (!m || !add_value(m, step->valuedouble, cJSON_IsNull(item) ? NAN : item->valuedouble))
            return fail(in, "metrics.jsonl", "out of memory");
    }
    return true;
}

static bool read_metrics(reader *in) {
    char *path = NULL, *line = NULL;
    size_t room = 0;
    bool ok = true;
    ssize_t length;
    FILE *f = asprintf(&path, "%s/metrics.jsonl", in->record->folder) < 0 ? NULL : fopen(path, "r");
    free(path);
    if (!f) return fail(in, "metrics.jsonl", strerror(errno));
    for (int64_t number = 1; ok && (length = getline(&line, &room, f)) > 0; number++) {
        const bool whole = line[length - 1] == '\n';
        if (whole && length == 1) continue;
        cJSON *json = cJSON_Parse(line);
        ok = (!whole && !json) || add_line(in, json, number); /* the last line of a run that was killed may be cut */
        cJSON_Delete(json);
    }
    if (ok && ferror(f)) ok = fail(in, "metrics.jsonl", strerror(errno));
    fclose(f);
    free(line);
    return ok && (in->record->n_metrics || fail(in, "metrics.jsonl", "holds no metrics yet"));
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

/* Those that training has left, as far as they are there. */
static bool read_pictures(reader *in) {
    run_record *r = in->record;
    for (int i = 0; i < RECORD_PICTURES; i++) {
        char name[64];
        record_picture p;
        snprintf(name, sizeof name, "pictures/val_image_%d.png", i);
        p.bytes = read_bytes(r, name, &p.size);
        if (!p.bytes) return errno == ENOENT || fail(in, name, strerror(errno));
        r->pictures[r->n_pictures++] = p;
    }
    return true;
}

bool record_read(run_record *r, const char *folder, char *error, int error_size) {
    *r = (run_record){.folder = folder};
    reader in = {r, error, error_size};
    return read_metrics(&in) && read_optional(&in, "recipe.yaml", &r->recipe) &&
           read_optional(&in, "dataset.txt", &r->data) && read_optional(&in, "memory.svg", &r->memory_svg) &&
           read_pictures(&in) && read_profile(&in);
}

void record_free(run_record *r) {
    for (int i = 0; i < r->n_metrics; i++) {
        free(r->metrics[i].name);
        free(r->metrics[i].step);
        free(r->metrics[i].value);
        free(r->metrics[i].evenly);
    }
    for (int i = 0; i < r->n_kernels; i++) {
        free(r->kernels[i].ops);
        free(r->kernels[i].how);
        free(r->kernels[i].lines);
    }
    for (int i = 0; i < r->n_pictures; i++) free(r->pictures[i].bytes);
    free(r->metrics);
    free(r->kernels);
    free(r->recipe);
    free(r->data);
    free(r->memory_svg);
}
