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

#endif
