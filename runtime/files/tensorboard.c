/* SPDX-License-Identifier: MIT
 * TensorBoard's event files. A file is a sequence of records (length, its checksum, data, its
 * checksum; TFRecord), each of which is a protobuf message Event. The few fields that are needed are encoded by hand:
 *
 *     Event           1: wall_time, double   2: step, int64   3: file_version, string   5: Summary   7: SessionLog
 *     SessionLog      1: status, enum (1: START)
 *     Summary         1: Value, repeated
 *     Value           1: tag, string   2: simple_value, float   4: Image   5: HistogramProto   8: TensorProto
 *                     9: SummaryMetadata
 *     Image           1: height   2: width   3: colorspace (channels)   4: encoded_image_string, a PNG file
 *     HistogramProto  1: min   2: max   3: num   4: sum   5: sum_squares   6: bucket_limit   7: bucket; doubles, the
 *                     last two repeated and packed
 *     TensorProto     1: dtype, enum (7: a string)   2: tensor_shape, empty for a scalar   8: string_val
 *     SummaryMetadata 1: PluginData   PluginData 1: plugin_name, string
 *
 * Sources: tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto, tensor.proto and types.proto,
 * tensorflow/core/lib/io/record_writer.h. */
#include "runtime/files/tensorboard.h"
#include "ir/support/alloc.h"
#include "runtime/files/file.h"
#include "runtime/files/png.h"
#include "runtime/files/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct tcc__events {
    char *path;
    int fd;
    int64_t size_bytes; /* of whole records */
    tcc_strbuf record, event, message;
    tcc_strbuf value; /* of an event that has one */
};

/* ---- records ---- */

uint32_t tcc__crc32c(const void *data, size_t size_bytes) {
    const uint8_t *at = data;
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size_bytes; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

/* Checksums of data that holds checksums are masked, so that they do not come out degenerate. */
static uint32_t masked(const void *data, size_t size_bytes) {
    uint32_t crc = tcc__crc32c(data, size_bytes);
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static void add_bytes(tcc_strbuf *b, const void *data, size_t size_bytes) {
    if (size_bytes) tcc_strbuf_addn(b, data, size_bytes); /* of nothing, data is NULL */
}

static tcc_status write_event(tcc_diag *d, tcc__events *e) {
    tcc_strbuf *r = &e->record;
    r->length = 0;
    uint64_t length = e->event.length;
    uint32_t crc = masked(&length, sizeof length);
    add_bytes(r, &length, sizeof length);
    add_bytes(r, &crc, sizeof crc);
    add_bytes(r, e->event.text, e->event.length);
    crc = masked(e->event.text, e->event.length);
    add_bytes(r, &crc, sizeof crc);
    if (r->failed || e->event.failed || e->message.failed || e->value.failed) return tcc_enomem(d);
    int error = tcc__write_all(e->fd, r->text, r->length);
    if (error) {
        if (ftruncate(e->fd, e->size_bytes)) {} /* the error is reported already */
        return tcc_error(d, TCC_EIO, (tcc_loc){e->path, 0}, "writing failed: %s", tcc__errno(error).text);
    }
    e->size_bytes += (int64_t)r->length;
    return TCC_OK;
}

/* ---- protobuf ---- */

enum { WIRE_VARINT = 0, WIRE_DOUBLE = 1, WIRE_BYTES = 2, WIRE_FLOAT = 5 };

static void add_varint(tcc_strbuf *b, uint64_t x) {
    do {
        char byte = (char)((x & 0x7F) | (x > 0x7F ? 0x80 : 0));
        add_bytes(b, &byte, 1);
    } while (x >>= 7);
}

static void add_key(tcc_strbuf *b, int field, int wire) { add_varint(b, (uint64_t)(field << 3 | wire)); }

static void add_field(tcc_strbuf *b, int field, const void *data, size_t size_bytes) {
    add_key(b, field, WIRE_BYTES);
    add_varint(b, size_bytes);
    add_bytes(b, data, size_bytes);
}

static void begin_event(tcc__events *e, int64_t step) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double wall_time = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    e->event.length = e->message.length = 0;
    add_key(&e->event, 1, WIRE_DOUBLE);
    add_bytes(&e->event, &wall_time, sizeof wall_time);
    add_key(&e->event, 2, WIRE_VARINT);
    add_varint(&e->event, (uint64_t)step);
}

tcc_status tcc__events_write(tcc_diag *d, tcc__events *e, int64_t step, const tcc_metric *metrics, int count) {
    begin_event(e, step);
    for (int i = 0; i < count; i++) {
        tcc_strbuf *value = &e->record; /* free until the event is framed */
        value->length = 0;
        add_field(value, 1, metrics[i].key, strlen(metrics[i].key));
        float x = (float)metrics[i].value;
        add_key(value, 2, WIRE_FLOAT);
        add_bytes(value, &x, sizeof x);
        add_field(&e->message, 1, value->text, value->length);
    }
    if (e->record.failed) return tcc_enomem(d);
    add_field(&e->event, 5, e->message.text, e->message.length);
    return write_event(d, e);
}

static void add_double(tcc_strbuf *b, int field, double x) {
    add_key(b, field, WIRE_DOUBLE);
    add_bytes(b, &x, sizeof x);
}

/* e->value gets its tag, and is written once e->record has been added to it as that field. */
static void begin_value(tcc__events *e, int64_t step, const char *tag) {
    begin_event(e, step);
    e->record.length = e->value.length = 0;
    add_field(&e->value, 1, tag, strlen(tag));
}

static tcc_status write_value(tcc_diag *d, tcc__events *e) {
    if (e->record.failed || e->message.failed) return tcc_enomem(d);
    add_field(&e->message, 1, e->value.text, e->value.length);
    add_field(&e->event, 5, e->message.text, e->message.length);
    return write_event(d, e);
}

enum { BUCKETS = 64 };

typedef struct histogram {
    double least, largest, count, sum, squares, buckets[BUCKETS];
} histogram;

static histogram count_values(const float *values, int64_t count) {
    histogram h = {.least = INFINITY, .largest = -INFINITY};
    for (int64_t i = 0; i < count; i++) {
        const double x = values[i];
        if (!isfinite(x)) continue;
        h.least = fmin(h.least, x);
        h.largest = fmax(h.largest, x);
        h.count++;
        h.sum += x;
        h.squares += x * x;
    }
    const double width = (h.largest - h.least) / BUCKETS;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) continue;
        const double at = width > 0 ? (values[i] - h.least) / width : 0;
        h.buckets[at < BUCKETS ? (int)at : BUCKETS - 1]++;
    }
    return h;
}

tcc_status tcc__events_write_histogram(tcc_diag *d, tcc__events *e, int64_t step, const char *key, const float *values,
                                       int64_t count) {
    histogram h = count_values(values, count);
    if (!h.count) h.least = h.largest = 0;
    const int buckets = h.largest > h.least ? BUCKETS : 1;
    double limits[BUCKETS];
    for (int i = 0; i < buckets; i++) limits[i] = h.least + (h.largest - h.least) * (i + 1) / buckets;
    begin_value(e, step, key);
    const double numbers[] = {h.least, h.largest, h.count, h.sum, h.squares};
    for (int i = 0; i < 5; i++) add_double(&e->record, i + 1, numbers[i]);
    add_field(&e->record, 6, limits, (size_t)buckets * sizeof *limits);
    add_field(&e->record, 7, h.buckets, (size_t)buckets * sizeof *h.buckets);
    add_field(&e->value, 5, e->record.text, e->record.length);
    return write_value(d, e);
}

/* TensorBoard reads Markdown in UTF-8: lines that begin with four spaces are shown as they are. */
static void add_markdown(tcc_strbuf *b, const char *text, size_t size_bytes) {
    const uint8_t *at = (const uint8_t *)text;
    tcc_strbuf_add(b, "    ");
    for (size_t i = 0; i < size_bytes;) {
        uint32_t code;
        const int length = tcc__utf8_decode(at + i, size_bytes - i, &code);
        if (!length || !code) tcc_strbuf_add(b, "\xEF\xBF\xBD"); /* U+FFFD */
        else tcc_strbuf_addn(b, text + i, (size_t)length);
        if (length && code == '\n') tcc_strbuf_add(b, "    ");
        i += length ? (size_t)length : 1;
    }
}

tcc_status tcc__events_write_text(tcc_diag *d, tcc__events *e, int64_t step, const char *key, const char *text,
                                  size_t size_bytes) {
    static const char plugin[] = "\x0a\x06\x0a\x04text";
    enum { DT_STRING = 7 };
    begin_value(e, step, key);
    add_markdown(&e->message, text, size_bytes);
    add_key(&e->record, 1, WIRE_VARINT);
    add_varint(&e->record, DT_STRING);
    add_field(&e->record, 2, NULL, 0);
    add_field(&e->record, 8, e->message.text, e->message.length);
    e->message.length = 0;
    add_field(&e->value, 8, e->record.text, e->record.length);
    add_field(&e->value, 9, plugin, sizeof plugin - 1);
    return write_value(d, e);
}

static void add_int(tcc_strbuf *b, int field, int64_t x) {
    add_key(b, field, WIRE_VARINT);
    add_varint(b, (uint64_t)x);
}

tcc_status tcc__events_write_image(tcc_diag *d, tcc__events *e, int64_t step, const char *key,
                                   const tcc_metrics_image *image) {
    tcc_strbuf png = {0};
    TCC_TRY(tcc__png_encode(d, image->pixels, image->height, image->width, image->channels, &png));
    begin_value(e, step, key);
    add_int(&e->record, 1, image->height);
    add_int(&e->record, 2, image->width);
    add_int(&e->record, 3, image->channels);
    add_field(&e->record, 4, png.text, png.length);
    add_field(&e->value, 4, e->record.text, e->record.length);
    tcc_strbuf_free(&png);
    return write_value(d, e);
}

/* ---- files ---- */

static tcc_status write_head(tcc_diag *d, tcc__events *e, int64_t first_step) {
    static const char version[] = "brain.Event:2";
    begin_event(e, 0);
    add_field(&e->event, 3, version, sizeof version - 1);
    TCC_TRY(write_event(d, e));
    begin_event(e, first_step);
    add_key(&e->message, 1, WIRE_VARINT);
    add_varint(&e->message, 1); /* START: the steps from here on are told anew */
    add_field(&e->event, 7, e->message.text, e->message.length);
    return write_event(d, e);
}

static const char file_prefix[] = "events.out.tfevents.";

/* The time in the name of a new file. TensorBoard reads the files of a folder in the order of their names, so it is
 * later than those of all that are there, whatever the clock says. */
static long long time_for_name(const char *folder) {
    const size_t length = sizeof file_prefix - 1;
    long long newest = (long long)time(NULL);
    DIR *entries = opendir(folder);
    for (const struct dirent *f; entries && (f = readdir(entries));) {
        if (strncmp(f->d_name, file_prefix, length) != 0) continue;
        const long long there = strtoll(f->d_name + length, NULL, 10);
        if (there >= newest && there < 9999999999) newest = there + 1; /* ten digits */
    }
    if (entries) closedir(entries);
    return newest;
}

static tcc_status create_file(tcc_diag *d, tcc__events *e, const char *folder) {
    const long long at = time_for_name(folder);
    char host[256] = "localhost";
    gethostname(host, sizeof host - 1);
    tcc_strbuf path = {0};
    int error = EEXIST;
    for (int attempt = 0; error == EEXIST && attempt < 1000; attempt++) {
        path.length = 0;
        tcc_strbuf_printf(&path, "%s/%s%010lld.%s.%ld.%d", folder, file_prefix, at, host, (long)getpid(), attempt);
        if (path.failed) break;
        e->fd = open(path.text, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
        error = e->fd >= 0 ? 0 : errno;
    }
    e->path = tcc_strbuf_take(&path);
    if (!e->path) return tcc_enomem(d);
    if (!error) return TCC_OK;
    return tcc_error(d, TCC_EIO, (tcc_loc){e->path, 0}, "cannot create the file: %s", tcc__errno(error).text);
}

tcc_status tcc__events_open(tcc_diag *d, const char *folder, int64_t first_step, tcc__events **out) {
    *out = NULL;
    tcc__events *e = tcc__calloc(1, sizeof *e);
    if (!e) return tcc_enomem(d);
    e->fd = -1;
    tcc_status status = create_file(d, e, folder);
    if (status == TCC_OK) status = write_head(d, e, first_step);
    if (status == TCC_OK) *out = e;
    else tcc__events_close(e);
    return status;
}

void tcc__events_close(tcc__events *e) {
    if (!e) return;
    if (e->fd >= 0) close(e->fd);
    tcc_strbuf_free(&e->record);
    tcc_strbuf_free(&e->event);
    tcc_strbuf_free(&e->message);
    tcc_strbuf_free(&e->value);
    tcc__free(e->path);
    tcc__free(e);
}
