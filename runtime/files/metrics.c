/* SPDX-License-Identifier: MIT
 * metrics.jsonl. */
#include "traincc/checkpoint.h"
#include "traincc/metrics.h"
#include "ir/support/alloc.h"
#include "ir/support/context.h"
#include "runtime/files/png.h"
#include "runtime/files/file.h"
#include "runtime/files/tensorboard.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tcc_metrics {
    tcc_context *cx;
    char *path;
    int fd;
    int64_t size_bytes;  /* of whole lines */
    tcc__events *events; /* NULL: none wanted */
    locale_t locale;     /* C: a decimal point, whatever the program's locale */
};

/* ---- lines of an earlier run ---- */

/* Whether a line stays: it is of an earlier step, or none of ours. In a new run none does. */
static bool stays(const char *line, size_t length, int64_t first_step) {
    cJSON *json = cJSON_ParseWithLength(line, length);
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(json, "step");
    bool stay = first_step > 0 && (!cJSON_IsNumber(step) || step->valuedouble < (double)first_step);
    cJSON_Delete(json);
    return stay;
}

/* Put the lines that stay into `kept`, the others into `removed`; the last one is in neither if it is cut off. */
static tcc_status sort_lines(tcc_diag *d, const tcc__bytes *file, int64_t first_step, tcc_strbuf *kept,
                             tcc_strbuf *removed) {
    const char *at = (const char *)file->data, *end = at + file->size;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline) break;
        size_t length = (size_t)(newline - at) + 1;
        tcc_strbuf_addn(stays(at, length, first_step) ? kept : removed, at, length);
        at += length;
    }
    return kept->failed || removed->failed ? tcc_enomem(d) : TCC_OK;
}

static tcc_status rewind_file(tcc_diag *d, const char *path, int64_t first_step, const char *abandoned) {
    if (!tcc__file_exists(path)) return TCC_OK;
    tcc__bytes file = {0};
    tcc_strbuf kept = {0}, removed = {0};
    tcc_status status = tcc__file_load(d, path, &file);
    if (status == TCC_OK) status = sort_lines(d, &file, first_step, &kept, &removed);
    if (status == TCC_OK && abandoned) status = tcc__file_save(d, abandoned, removed.text, removed.length);
    if (status == TCC_OK && kept.length != file.size) status = tcc__file_save(d, path, kept.text, kept.length);
    tcc__free(file.data);
    tcc_strbuf_free(&kept);
    tcc_strbuf_free(&removed);
    return status;
}

/* ---- opening ---- */

static tcc_status open_files(tcc_diag *d, const tcc_metrics_options *options, tcc_metrics *m) {
    m->path = tcc__path_join(options->folder, "metrics.jsonl");
    m->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!m->path || !m->locale) return tcc_enomem(d);
    TCC_TRY(rewind_file(d, m->path, options->first_step, options->abandoned));
    m->fd = open(m->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    off_t size = m->fd >= 0 ? lseek(m->fd, 0, SEEK_END) : -1;
    if (size < 0)
        return tcc_error(d, TCC_EIO, (tcc_loc){m->path, 0}, "cannot open the file: %s", tcc__errno(errno).text);
    m->size_bytes = size;
    return options->no_tensorboard ? TCC_OK : tcc__events_open(d, options->folder, options->first_step, &m->events);
}

tcc_status tcc_metrics_open(tcc_context *cx, const tcc_metrics_options *options, tcc_metrics **out) {
    tcc_diag_begin(&cx->diag);
    tcc_diag *d = &cx->diag;
    *out = NULL;
    if (options->size != sizeof *options || !options->folder || options->first_step < 0)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "tcc_metrics_options: size is %zu (should be %zu), folder is '%s', first_step %lld",
                         options->size, sizeof *options, options->folder ? options->folder : "",
                         (long long)options->first_step);
    tcc_metrics *m = tcc__calloc(1, sizeof *m);
    if (!m) return tcc_enomem(d);
    m->cx = cx;
    m->fd = -1;
    tcc_status status = open_files(d, options, m);
    if (status == TCC_OK) *out = m;
    else tcc_metrics_close(m);
    return status;
}

void tcc_metrics_close(tcc_metrics *m) {
    if (!m) return;
    tcc__events_close(m->events);
    if (m->fd >= 0) close(m->fd);
    if (m->locale) freelocale(m->locale);
    tcc__free(m->path);
    tcc__free(m);
}

/* ---- writing ---- */

/* The shortest decimal text that reads back as the same double, or as the same float where the
 * value is one. */
static void number_text(double x, char text[32]) {
    if (!isfinite(x)) {
        snprintf(text, 32, "null");
    } else if (x == floor(x) && fabs(x) < 0x1p53) {
        snprintf(text, 32, "%.0f", x);
    } else {
        bool is_float = x == (double)(float)x;
        for (int digits = is_float ? 6 : 15; digits <= 17; digits++) {
            snprintf(text, 32, "%.*g", digits, x);
            if (is_float ? strtof(text, NULL) == (float)x : strtod(text, NULL) == x) break;
        }
    }
}

static cJSON *build_line(int64_t step, const tcc_metric *metrics, int count) {
    cJSON *line = cJSON_CreateObject();
    bool added = line && cJSON_AddNumberToObject(line, "step", (double)step);
    for (int i = 0; i < count && added; i++) {
        char text[32];
        number_text(metrics[i].value, text);
        added = cJSON_AddRawToObject(line, metrics[i].key, text);
    }
    if (added) return line;
    cJSON_Delete(line);
    return NULL;
}

static tcc_status append(tcc_metrics *m, char *line) {
    size_t length = strlen(line);
    line[length] = '\n'; /* in place of the NUL, so that one write takes the whole line */
    int error = tcc__write_all(m->fd, line, length + 1);
    if (error) {
        if (ftruncate(m->fd, m->size_bytes)) {} /* the error is reported already */
        return tcc_error(&m->cx->diag, TCC_EIO, (tcc_loc){m->path, 0}, "writing failed: %s", tcc__errno(error).text);
    }
    m->size_bytes += (int64_t)length + 1;
    return TCC_OK;
}

tcc_status tcc_metrics_write(tcc_metrics *m, int64_t step, const tcc_metric *metrics, int count) {
    tcc_diag_begin(&m->cx->diag);
    locale_t before = uselocale(m->locale);
    cJSON *json = build_line(step, metrics, count);
    char *line = json ? cJSON_PrintUnformatted(json) : NULL;
    uselocale(before);
    tcc_status status = line ? append(m, line) : tcc_enomem(&m->cx->diag);
    cJSON_free(line);
    cJSON_Delete(json);
    if (status == TCC_OK && m->events) status = tcc__events_write(&m->cx->diag, m->events, step, metrics, count);
    return status;
}

tcc_status tcc_metrics_write_histogram(tcc_metrics *m, int64_t step, const char *key, const float *values,
                                       int64_t count) {
    tcc_diag_begin(&m->cx->diag);
    if (count < 0)
        return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE, "histogram \"%s\" of %lld values", key,
                         (long long)count);
    return m->events ? tcc__events_write_histogram(&m->cx->diag, m->events, step, key, values, count) : TCC_OK;
}

tcc_status tcc_metrics_write_text(tcc_metrics *m, int64_t step, const char *key, const char *text, size_t size) {
    tcc_diag_begin(&m->cx->diag);
    return m->events ? tcc__events_write_text(&m->cx->diag, m->events, step, key, text, size) : TCC_OK;
}

static tcc_status check_image(tcc_diag *d, const char *key, const tcc_metrics_image *image) {
    enum { MOST = 32768 };
    if (image->size == sizeof *image && (image->channels == 1 || image->channels == 3) && image->height >= 1 &&
        image->width >= 1 && image->height <= MOST && image->width <= MOST && image->pixels)
        return TCC_OK;
    return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                     "image \"%s\" of %lld x %lld pixels with %d channels: sides are from 1 to %d, channels 1 or 3, "
                     "and the struct's size is %zu",
                     key, (long long)image->height, (long long)image->width, image->channels, MOST, sizeof *image);
}

tcc_status tcc_metrics_write_image(tcc_metrics *m, int64_t step, const char *key, const tcc_metrics_image *image) {
    tcc_diag_begin(&m->cx->diag);
    TCC_TRY(check_image(&m->cx->diag, key, image));
    return m->events ? tcc__events_write_image(&m->cx->diag, m->events, step, key, image) : TCC_OK;
}

tcc_status tcc_image_write(tcc_context *cx, const char *path, const tcc_metrics_image *image) {
    tcc_strbuf png = {0};
    tcc_diag_begin(&cx->diag);
    TCC_TRY(check_image(&cx->diag, path, image));
    TCC_TRY(tcc__png_encode(&cx->diag, image->pixels, image->height, image->width, image->channels, &png));
    const tcc_status status = tcc_file_write(cx, path, png.text, png.length);
    tcc_strbuf_free(&png);
    return status;
}
