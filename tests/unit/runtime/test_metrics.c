/* SPDX-License-Identifier: MIT
 * metrics.jsonl and event files. */
#include "harness/check.h"
#include "harness/files.h"
#include "ir/support/alloc.h"
#include "ir/support/context.h"
#include "runtime/data/pictures/picture.h"
#include "runtime/files/file.h"
#include "runtime/files/tensorboard.h"

#include <dirent.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static tcc_context cx;

static tcc_metrics *open_metrics(void **state, int64_t first_step, bool tensorboard) {
    tcc_metrics_options options = {
        .size = sizeof options, .folder = *state, .first_step = first_step, .no_tensorboard = !tensorboard};
    tcc_metrics *m;
    assert_ok(tcc_metrics_open(&cx, &options, &m), &cx.diag);
    return m;
}

static void write_loss(tcc_metrics *m, int64_t step, double loss) {
    tcc_metric metric = {"loss", loss};
    assert_ok(tcc_metrics_write(m, step, &metric, 1), &cx.diag);
}

static void file_is(void **state, const char *expected) {
    char *text = test_read(test_path(state, "metrics.jsonl"), NULL);
    assert_string_equal(text, expected);
    free(text);
}

static void lines(void **state) {
    tcc_metrics *m = open_metrics(state, 0, false);
    const tcc_metric metrics[] = {
        {"loss", 4.17438745f}, {"lr", 0.001},      {"step_ms", 12.5},  {"peak_bytes", 12884901888.0},
        {"nan", NAN},          {"inf", -INFINITY}, {"third", 1.0 / 3}, {"tiny", 1e-300},
        {"a \"b\"", 0.1f}};
    assert_ok(tcc_metrics_write(m, 0, metrics, 9), &cx.diag);
    write_loss(m, 1000000, -2);
    file_is(state, "{\"step\":0,\"loss\":4.1743875,\"lr\":0.001,\"step_ms\":12.5,\"peak_bytes\":"
                   "12884901888,\"nan\":null,\"inf\":null,"
                   "\"third\":0.3333333333333333,\"tiny\":1e-300,\"a "
                   "\\\"b\\\"\":0.1}\n{\"step\":1000000,\"loss\":-2}\n");
    tcc_metrics_close(m);
}

static void resuming(void **state) {
    /* A stranger's line stays, wherever it is; a line that was cut off does not. */
    test_write_text(state, "metrics.jsonl",
                    "{\"step\":0,\"loss\":0.5}\n# "
                    "mine\n{\"step\":30,\"loss\":1}\n{\"step\":20,\"val_loss\":2}\n{\"step\":2");
    tcc_metrics *m = open_metrics(state, 30, false);
    write_loss(m, 30, 7);
    tcc_metrics_close(m);
    file_is(state, "{\"step\":0,\"loss\":0.5}\n# "
                   "mine\n{\"step\":20,\"val_loss\":2}\n{\"step\":30,\"loss\":7}\n");
    m = open_metrics(state, 0, false);
    tcc_metrics_close(m);
    file_is(state, "");
}

static void abandoned_lines(void **state) {
    test_write_text(state, "metrics.jsonl", "{\"step\":0,\"loss\":5}\n{\"step\":2,\"loss\":4}\n{\"step\":3,\"lo");
    const char *abandoned = test_path(state, "abandoned.jsonl");
    const tcc_metrics_options options = {
        .size = sizeof options, .folder = *state, .first_step = 1, .no_tensorboard = true, .abandoned = abandoned};
    tcc_metrics *m;
    assert_ok(tcc_metrics_open(&cx, &options, &m), &cx.diag);
    tcc_metrics_close(m);
    file_is(state, "{\"step\":0,\"loss\":5}\n");
    char *text = test_read(abandoned, NULL);
    assert_string_equal(text, "{\"step\":2,\"loss\":4}\n");
    free(text);
}

static void any_locale(void **state) {
    tcc_metrics *m = open_metrics(state, 0, false);
    const char *comma = setlocale(LC_NUMERIC, "de_DE.UTF-8"); /* where the system has it */
    write_loss(m, 1, 0.25);
    if (comma) setlocale(LC_NUMERIC, "C");
    file_is(state, "{\"step\":1,\"loss\":0.25}\n");
    tcc_metrics_close(m);
}

/* ---- event files ---- */

static char *events_of(void **state, size_t *size) {
    DIR *folder = opendir(*state);
    const struct dirent *entry;
    char *found = NULL;
    while ((entry = readdir(folder)))
        if (strstr(entry->d_name, ".tfevents.")) found = test_read(test_path(state, entry->d_name), size);
    closedir(folder);
    assert_non_null(found);
    return found;
}

/* The next record's data after checking both checksums; NULL at the end. */
static const uint8_t *next_record(const uint8_t **at, const uint8_t *end, uint64_t *length) {
    if (*at == end) return NULL;
    uint32_t crc;
    memcpy(length, *at, 8);
    memcpy(&crc, *at + 8, 4);
    uint32_t unmasked = crc - 0xA282EAD8u;
    assert_int_equal((uint32_t)(unmasked << 15 | unmasked >> 17), tcc__crc32c(*at, 8));
    const uint8_t *data = *at + 12;
    memcpy(&crc, data + *length, 4);
    unmasked = crc - 0xA282EAD8u;
    assert_int_equal((uint32_t)(unmasked << 15 | unmasked >> 17), tcc__crc32c(data, *length));
    *at = data + *length + 4;
    assert_true(*at <= end);
    return data;
}

/* Readers take the files in the order of their names, also where the clock has gone back. */
static void later_files_sort_later(void **state) {
    enum { FILES = 3 };
    static const char first[] = "events.out.tfevents.7000000000.host.1.0"; /* of the year 2191 */
    char names[FILES][64] = {"", "", ""};
    test_write_text(state, first, "");
    snprintf(names[0], sizeof names[0], "%s", first);
    for (int i = 1; i < FILES; i++) {
        tcc_metrics_close(open_metrics(state, i, true));
        DIR *folder = opendir(*state);
        for (const struct dirent *f; (f = readdir(folder));) {
            if (strncmp(f->d_name, "events.", 7) != 0 || !strcmp(f->d_name, names[0]) || !strcmp(f->d_name, names[1]))
                continue;
            snprintf(names[i], sizeof names[i], "%.63s", f->d_name);
        }
        closedir(folder);
        assert_true(strcmp(names[i], names[i - 1]) > 0);
    }
}

static void events(void **state) {
    assert_int_equal(tcc__crc32c("123456789", 9), 0xE3069283u); /* the published check value */
    tcc_metrics *m = open_metrics(state, 300, true);
    const tcc_metric metrics[] = {{"loss", 1.5}, {"lr", 0.25}};
    assert_ok(tcc_metrics_write(m, 300, metrics, 2), &cx.diag);
    tcc_metrics_close(m);
    size_t size;
    uint8_t *bytes = (uint8_t *)events_of(state, &size);
    const uint8_t *at = bytes, *end = bytes + size;
    uint64_t length;
    /* 1: wall_time (9 bytes), 2: step (varint), then what it tells */
    const uint8_t *record = next_record(&at, end, &length);
    assert_true(length == 9 + 2 + 15 && record[0] == 0x09);
    assert_memory_equal(record + 9,
                        "\x10\x00\x1a\x0d"
                        "brain.Event:2",
                        17);
    record = next_record(&at, end, &length);
    assert_true(length == 9 + 3 + 4);
    assert_memory_equal(record + 9, "\x10\xac\x02\x3a\x02\x08\x01", 7); /* session log START at step 300 */
    record = next_record(&at, end, &length);
    assert_true(length == 9 + 3 + 2 + 13 + 11);
    assert_memory_equal(record + 9,
                        "\x10\xac\x02\x2a\x18\x0a\x0b\x0a\x04loss\x15\0\0\xc0\x3f\x0a\x09\x0a\x02lr"
                        "\x15\0\0\x80\x3e",
                        29);
    assert_null(next_record(&at, end, &length));
    free(bytes);
}

/* -- The fields of a message -- */

typedef struct field {
    uint64_t number, value; /* value: of a varint, or the length of bytes */
    const uint8_t *bytes;
} field;

static uint64_t varint(const uint8_t **at) {
    uint64_t x = 0;
    for (int shift = 0;; shift += 7) {
        x |= (uint64_t)(**at & 0x7F) << shift;
        if (!(*(*at)++ & 0x80)) return x;
    }
}

static field next_field(const uint8_t **at) {
    const uint64_t key = varint(at);
    field f = {.number = key >> 3, .bytes = *at};
    switch (key & 7) {
    case 0: f.value = varint(at); break;
    case 1: *at += 8; break;
    case 2:
        f.value = varint(at);
        f.bytes = *at;
        *at += f.value;
        break;
    default: assert_int_equal(key & 7, 5); *at += 4;
    }
    return f;
}

/* The field of that number in a message. */
static field find_field(const uint8_t *message, uint64_t length, uint64_t number) {
    for (const uint8_t *at = message; at < message + length;) {
        const field f = next_field(&at);
        assert_true(at <= message + length);
        if (f.number == number) return f;
    }
    fail_msg("no field %d", (int)number);
    return (field){0};
}

static double find_double(const field *in, uint64_t number) {
    double x;
    memcpy(&x, find_field(in->bytes, in->value, number).bytes, sizeof x);
    return x;
}

/* Field `number` of the only value of the only event at a step, which has that tag. */
static field written(void **state, uint8_t **file, int64_t step, const char *tag, uint64_t number) {
    size_t size;
    *file = (uint8_t *)events_of(state, &size);
    const uint8_t *at = *file;
    uint64_t length;
    next_record(&at, *file + size, &length);
    next_record(&at, *file + size, &length);
    const uint8_t *record = next_record(&at, *file + size, &length);
    assert_non_null(record);
    assert_null(next_record(&at, *file + size, &(uint64_t){0}));
    assert_int_equal(find_field(record, length, 2).value, step);
    const field summary = find_field(record, length, 5), value = find_field(summary.bytes, summary.value, 1);
    const field name = find_field(value.bytes, value.value, 1);
    assert_int_equal(name.value, strlen(tag));
    assert_memory_equal(name.bytes, tag, strlen(tag));
    if (number == 8) { /* a tensor: the plugin says what it is */
        const field metadata = find_field(value.bytes, value.value, 9),
                    plugin = find_field(metadata.bytes, metadata.value, 1);
        assert_memory_equal(find_field(plugin.bytes, plugin.value, 1).bytes, "text", 4);
    }
    return find_field(value.bytes, value.value, number);
}

static void remove_events(void **state) {
    DIR *folder = opendir(*state);
    for (const struct dirent *e; (e = readdir(folder));)
        if (strstr(e->d_name, ".tfevents.")) remove(test_path(state, e->d_name));
    closedir(folder);
}

static void check_histogram(void **state, const float *values, int count, const double *numbers, int buckets,
                            const double *some) {
    tcc_metrics *m = open_metrics(state, 0, true);
    uint8_t *file;
    assert_ok(tcc_metrics_write_histogram(m, 7, "weights/w", values, count), &cx.diag);
    tcc_metrics_close(m);
    const field h = written(state, &file, 7, "weights/w", 5);
    for (int i = 0; i < 5; i++) assert_true(find_double(&h, (uint64_t)i + 1) == numbers[i]);
    const field limits = find_field(h.bytes, h.value, 6), in = find_field(h.bytes, h.value, 7);
    assert_int_equal(limits.value, buckets * 8);
    assert_int_equal(in.value, buckets * 8);
    double limit, sum = 0;
    for (int i = 0; i < buckets; i++) {
        double x;
        memcpy(&x, in.bytes + i * 8, sizeof x);
        memcpy(&limit, limits.bytes + i * 8, sizeof limit);
        if (i == 0) assert_true(x == some[0]);
        if (i == buckets - 1) assert_true(x == some[1]);
        sum += x;
    }
    assert_true(sum == numbers[2] && limit == numbers[1]);
    free(file);
    remove_events(state);
}

static void histograms(void **state) {
    const float values[] = {-1, 3, 3, 2.5f, 0, NAN, INFINITY, -0.999f};
    check_histogram(state, values, 7, (const double[]){-1, 3, 5, 7.5, 25.25}, 64, (const double[]){1, 2});
    check_histogram(state, (const float[]){2, 2, 2}, 3, (const double[]){2, 2, 3, 6, 12}, 1, (const double[]){3, 3});
    check_histogram(state, (const float[]){NAN}, 1, (const double[]){0, 0, 0, 0, 0}, 1, (const double[]){0, 0});
    check_histogram(state, values, 0, (const double[]){0, 0, 0, 0, 0}, 1, (const double[]){0, 0});
    tcc_metrics *m = open_metrics(state, 0, false);
    assert_ok(tcc_metrics_write_histogram(m, 7, "w", values, 3), &cx.diag);
    assert_error(tcc_metrics_write_histogram(m, 7, "w", values, -1), TCC_EINVAL, &cx.diag, "\"w\" of -1 values");
    tcc_diag_clear(&cx.diag);
    tcc_metrics_close(m);
}

static void texts(void **state) {
    static const char text[] = "one\n# t\xC3\xA4wo\xFF\0",
                      shown[] = "    one\n    # t\xC3\xA4wo\xEF\xBF\xBD\xEF\xBF\xBD";
    tcc_metrics *m = open_metrics(state, 0, true);
    uint8_t *file;
    assert_ok(tcc_metrics_write_text(m, 1000, "sample", text, sizeof text - 1), &cx.diag);
    tcc_metrics_close(m);
    const field tensor = written(state, &file, 1000, "sample", 8);
    assert_int_equal(find_field(tensor.bytes, tensor.value, 1).value, 7); /* DT_STRING */
    assert_int_equal(find_field(tensor.bytes, tensor.value, 2).value, 0); /* a scalar */
    const field string = find_field(tensor.bytes, tensor.value, 8);
    assert_int_equal(string.value, sizeof shown - 1);
    assert_memory_equal(string.bytes, shown, sizeof shown - 1);
    free(file);
}

/* What the reader of PNG files sees is what was written. */
static void check_image(void **state, int channels, tcc__picture_form form) {
    enum { HEIGHT = 5, WIDTH = 7 };
    uint8_t pixels[HEIGHT * WIDTH * 3], *file;
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 37);
    const tcc_metrics_image image = {sizeof image, HEIGHT, WIDTH, channels, pixels};
    tcc_metrics *m = open_metrics(state, 0, true);
    assert_ok(tcc_metrics_write_image(m, 3, "pair", &image), &cx.diag);
    tcc_metrics_close(m);
    const field f = written(state, &file, 3, "pair", 4);
    assert_int_equal(find_field(f.bytes, f.value, 1).value, HEIGHT);
    assert_int_equal(find_field(f.bytes, f.value, 2).value, WIDTH);
    assert_int_equal(find_field(f.bytes, f.value, 3).value, channels);
    const field png = find_field(f.bytes, f.value, 4);
    const tcc__bytes bytes = {.data = (uint8_t *)png.bytes, .size = png.value};
    tcc__picture seen = {0};
    assert_ok(tcc__picture_png(&cx.diag, "picture", &bytes, form, &seen), &cx.diag);
    assert_true(seen.height == HEIGHT && seen.width == WIDTH && seen.channels == channels);
    assert_memory_equal(seen.pixels, pixels, (size_t)(HEIGHT * WIDTH * channels));
    tcc__free(seen.pixels);
    free(file);
    remove_events(state);
}

static void images(void **state) {
    check_image(state, 3, TCC__PICTURE_RGB);
    check_image(state, 1, TCC__PICTURE_LABELS);
    tcc_metrics *m = open_metrics(state, 0, false);
    tcc_metrics_image image = {sizeof image, 1, 1, 1, (const uint8_t[]){0}};
    assert_ok(tcc_metrics_write_image(m, 3, "x", &image), &cx.diag);
    image.channels = 2;
    assert_error(tcc_metrics_write_image(m, 3, "x", &image), TCC_EINVAL, &cx.diag, "1 x 1 pixels with 2 channels");
    tcc_diag_clear(&cx.diag);
    image.channels = 1, image.height = 32769;
    assert_error(tcc_metrics_write_image(m, 3, "x", &image), TCC_EINVAL, &cx.diag, "\"x\" of 32769 x 1 pixels");
    tcc_diag_clear(&cx.diag);
    tcc_metrics_close(m);
}

static void bad_folders(void **state) {
    tcc_metrics *m;
    tcc_metrics_options options = {.size = sizeof options, .folder = test_path(state, "absent")};
    assert_error(tcc_metrics_open(&cx, &options, &m), TCC_EIO, &cx.diag, "absent/metrics.jsonl: error: cannot open");
    options.folder = NULL;
    assert_error(tcc_metrics_open(&cx, &options, &m), TCC_EINVAL, &cx.diag, "folder is ''");
    tcc_diag_clear(&cx.diag);
}

static void a_full_disk_leaves_whole_lines(void **state) {
    tcc_metrics *m = open_metrics(state, 0, true);
    write_loss(m, 1, 1);
    size_t before, after;
    free(events_of(state, &before));
    tcc_metric metric = {"loss", 2};
    for (int64_t limit = 0;; limit++) {
        tcc_diag_clear(&cx.diag);
        tcc__io_fail_after(limit);
        tcc_status status = tcc_metrics_write(m, 2, &metric, 1);
        tcc__io_fail_after(-1);
        if (status == TCC_OK) break;
        assert_int_equal(status, TCC_EIO);
        assert_non_null(strstr(tcc_diag_text(&cx.diag), "writing failed: No space left on device"));
        if (limit >= 20) break; /* the line is written, the event is not */
        file_is(state, "{\"step\":1,\"loss\":1}\n");
    }
    free(events_of(state, &after));
    assert_int_equal(before, after);
    tcc_diag_clear(&cx.diag);
    tcc_metrics_close(m);
}

static void out_of_memory(void **state) {
    for (int64_t n = 0;; n++) {
        tcc_diag_clear(&cx.diag);
        tcc_metrics_options options = {.size = sizeof options, .folder = *state, .first_step = 1};
        tcc_metrics *m;
        tcc_metric metric = {"loss", 2};
        tcc__alloc_fail_at(n);
        tcc_status status = tcc_metrics_open(&cx, &options, &m);
        if (status == TCC_OK) status = tcc_metrics_write(m, 2, &metric, 1);
        if (status == TCC_OK) status = tcc_metrics_write_histogram(m, 2, "w", &(float){1}, 1);
        if (status == TCC_OK) status = tcc_metrics_write_text(m, 2, "t", "text", 4);
        const tcc_metrics_image image = {sizeof image, 1, 1, 1, (const uint8_t[]){0}};
        if (status == TCC_OK) status = tcc_metrics_write_image(m, 2, "i", &image);
        tcc__alloc_fail_at(-1);
        tcc_metrics_close(m);
        if (status == TCC_OK) break;
        if (status != TCC_EIO) assert_int_equal(status, TCC_ENOMEM); /* EIO: the folder could not be synced */
        assert_true(n < 100);
    }
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(lines),           FOLDER_TEST(resuming),
        FOLDER_TEST(abandoned_lines), FOLDER_TEST(later_files_sort_later),
        FOLDER_TEST(any_locale),      FOLDER_TEST(events),
        FOLDER_TEST(bad_folders),     FOLDER_TEST(a_full_disk_leaves_whole_lines),
        FOLDER_TEST(out_of_memory),   FOLDER_TEST(histograms),
        FOLDER_TEST(texts),           FOLDER_TEST(images),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
