/* SPDX-License-Identifier: MIT
 * Small files of every data kind that a model can learn from, and recipes for them. */
#ifndef TCC_TESTS_HARNESS_TRAIN_DATA_H
#define TCC_TESTS_HARNESS_TRAIN_DATA_H

/* Each writes into the test's folder and returns the path to give as data.path. */
const char *write_text_data(void **state);  /* sentences of few words */
const char *write_csv_data(void **state);   /* two features, a class that they decide */
const char *write_idx_data(void **state);   /* 28 x 28 images, a bar whose row is the class */
const char *write_cifar_data(void **state); /* the colour is the class */

/* 240 short texts, good or bad as their words are; beside them vocab.txt. */
const char *write_text_classes_data(void **state);

/* A small recipe NAME.yaml in the test's folder, with dropout and shuffling: "gpt" on text, "cnn" on idx, "mlp" on csv.
 * Returns its path. */
const char *write_recipe(void **state, const char *model);

/* The kinds of data that a run may have, and what goes with each. */
typedef struct train_kind {
    const char *name, *model, *kind;
    const char *(*write)(void **state); /* its data */
    const char *extra;                  /* further keys of data */
    const char *beside;                 /* the tokenizer's file in the same folder; NULL: none */
} train_kind;
enum { TRAIN_KINDS = 9 };
extern const train_kind train_kinds[TRAIN_KINDS];

const char *write_token_data(void **state); /* 16-bit tokens below 20 */
const char *write_image_data(void **state); /* folders of two classes of PNG and JPEG files */
const char *write_pixel_data(void **state); /* images/ and labels/: a bright square, whose upper edge does not count */

/* A recipe NAME.yaml of the kind, whose data is written to *data: 12 steps, with shuffling. */
const char *write_kind_recipe(void **state, const train_kind *kind, const char **data);

#endif
