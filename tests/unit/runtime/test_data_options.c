/* SPDX-License-Identifier: MIT
 * Options of data sets that go with other kinds are errors, which say with which; nothing is opened for them. */
#include "harness/check.h"
#include "harness/datasets.h"
#include "ir/support/context.h"
#include "traincc/data.h"

#include <math.h>

static tcc_context cx;

#define GIVEN(kind_, part_, ...) {{.kind = kind_, .path = "no such path", __VA_ARGS__}, part_}
static const struct {
    tcc_data_options options;
    const char *part;
} rows[] = {
    GIVEN("csv", "context does not apply to data of kind csv; it goes with text, tokens, text_classes", .context = 8),
    GIVEN("tokens", "bytes does not apply to data of kind tokens; it goes with text", .context = 8, .bytes = true),
    GIVEN("text", "token_bytes does not apply", .context = 8, .token_bytes = 4),
    GIVEN("text_classes", "vocab_size does not apply", .context = 8, .vocab_size = 4),
    GIVEN("images", "classes does not apply to data of kind images; it goes with idx, segmentation", .classes = 3),
    GIVEN("csv", "n_channels does not apply", .n_channels = 1),
    GIVEN("text", "mean does not apply", .context = 8, .mean = {0.5}),
    GIVEN("text", "std does not apply", .context = 8, .std = {NAN}),
    GIVEN("text", "augment does not apply to data of kind text; it goes with cifar, images, segmentation", .context = 8,
          .augment = true),
    GIVEN("idx", "augment does not apply to data of kind idx", .augment = true),
    GIVEN("idx", "csv_header does not apply", .csv_header = TCC_CSV_HEADER_NO),
    GIVEN("text", "csv_separator does not apply", .context = 8, .csv_separator = ';'),
    GIVEN("text", "csv_label does not apply to data of kind text; it goes with csv, text_classes", .context = 8,
          .csv_label = "x"),
    GIVEN("csv", "csv_text does not apply", .csv_text = "x"),
    GIVEN("text_classes", "csv_regression does not apply", .context = 8, .csv_regression = true),
    GIVEN("cifar", "height does not apply to data of kind cifar; it goes with images, segmentation", .height = 8),
    GIVEN("cifar", "width does not apply", .width = 8),
    GIVEN("cifar", "scale does not apply", .scale = {0.5, 2}),
    GIVEN("cifar", "jitter does not apply", .jitter = {0, 0, NAN}),
    GIVEN("images", "ignored_label does not apply", .ignored_label = 7),
    GIVEN("images", "ignored_label does not apply", .has_ignored_label = true),
    GIVEN("csv", "tokenizer does not apply", .tokenizer = "wordpiece"),
    GIVEN("images", "vocab does not apply to data of kind images; it goes with text_classes", .vocab = "vocab.txt"),
    GIVEN("csv", "csv_header is 7", .csv_header = (tcc_csv_header)7),
    GIVEN("idx", "mean 0.5 and std 0.25 of channel 0 are given, but n_channels, of how many they are, is 0",
          .mean = {0.5}, .std = {0.25}),
    GIVEN("cifar", "mean 0 and std 1 of channel 2 are given, but n_channels", .n_channels = 1, .std = {1, 0, 1}),
    GIVEN("csv", "val_split is nan", .val_split = NAN),
    GIVEN("segmentation", "ignored_label is -1; labels are bytes", .has_ignored_label = true, .ignored_label = -1),
    GIVEN("tekst", "data kind 'tekst' is unknown", .context = 8),
};

static void each_is_an_error(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        dataset_refused(&cx, rows[i].options, TCC_EINVAL, rows[i].part);
}

static void kinds_take_options(void **state) {
    (void)state;
    assert_true(tcc_dataset_takes("segmentation", "height") && tcc_dataset_takes("text_classes", "padding"));
    assert_false(tcc_dataset_takes("segmentation", "csv_label") || tcc_dataset_takes("csv", "padding"));
    assert_false(tcc_dataset_takes("tekst", "context") || tcc_dataset_takes("tekst", "padding") ||
                 tcc_dataset_takes("text", "contexts"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_is_an_error), cmocka_unit_test(kinds_take_options)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
