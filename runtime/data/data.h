/* SPDX-License-Identifier: MIT
 * Inside of data sets: what a reader of one kind provides. A new kind is a row in the table of
 * data.c and the three functions.
 *
 * Samples and splits. A reader opens its files and tells how many samples each split has. A reader
 * of single samples (images, rows) that shall be held out at random leaves that to tcc__hold_out;
 * it then sees source samples' numbers only. A reader of windows
 * (`windows`) gets the position in the epoch and finds the window itself. */
#ifndef TCC_RUNTIME_DATA_DATA_H
#define TCC_RUNTIME_DATA_DATA_H

#include "ir/support/context.h"
#include "ir/support/dtype.h"
#include "ir/support/strbuf.h"
#include "runtime/files/file.h"
#include "traincc/data.h"

struct cJSON;

/* One sample to be read. Everything random about it is a function of these. */
typedef struct tcc__sample {
    tcc_split split;
    int64_t number;   /* which sample, in the reader's own count: the split's, or after tcc__hold_out
                         the source's */
    int64_t position; /* in the epoch's order */
    int64_t epoch;
    uint64_t seed;
    bool shuffle;
    int64_t length; /* of x as it is wanted; 0: as in info */
} tcc__sample;

typedef struct tcc__reader {
    const char *kind;
    bool windows;
    /* Read and check the files; set everything in `data` that is marked so. On an error the caller
     * closes what was opened. */
    tcc_status (*open)(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data);
    /* Write one sample to x and y. Called from several threads at once. */
    tcc_status (*read)(tcc_diag *d, const tcc_dataset *data, const tcc__sample *sample, void *x, void *y);
    void (*close)(tcc_dataset *data);
    /* How much of the first dim of a sample's x is no padding; `number` as in tcc__sample. NULL: all of it. */
    int64_t (*length)(const tcc_dataset *data, tcc_split split, int64_t number);
    /* The file that a sample is, or the id of a row; NULL: there is none. */
    const char *(*sample_name)(const tcc_dataset *data, tcc_split split, int64_t number);
    /* What id stands for; NULL: nothing. */
    bool names_classes; /* `label` tells names that the training data has */
    const char *(*label)(const tcc_dataset *data, int64_t id, size_t *length);
    bool (*color)(const tcc_dataset *data, int64_t id, uint8_t rgb[3]); /* the same of colours; false: none is given */
    /* The class of a sample, `number` as in tcc__sample; NULL: it has none, or open has filled in `counts`. */
    int32_t (*class_of)(const tcc_dataset *data, tcc_split split, int64_t number);
    bool counts; /* classes: by class_of, or in open */
    bool mixes;  /* x is an image and y its class, so that samples can be mixed */
    /* Two samples that are the same have the same hash, and others but rarely. Where `rough`, a quick one, which others
     * may have, too. NULL: samples are not compared. */
    uint64_t (*hash)(const tcc_dataset *data, tcc_split split, int64_t number, bool rough);
    /* Add lines that say what was read; false when memory is short. NULL: there is nothing to say. */
    bool (*describe)(const tcc_dataset *data, tcc_strbuf *out);
    /* The i-th sample that was left out so far, in words; NULL: there are fewer. */
    const char *(*skipped)(const tcc_dataset *data, int64_t i);
    /* As tcc_dataset_encode; NULL: the kind has no text. */
    tcc_status (*encode)(tcc_diag *d, const tcc_dataset *data, const char *text, size_t length, int32_t *tokens,
                         int64_t capacity, int64_t *count);
    /* Append the text of tokens; NULL: that of their labels. */
    tcc_status (*decode)(tcc_diag *d, const tcc_dataset *data, const int32_t *tokens, int64_t count, tcc_strbuf *out);
    /* Add what else is learned from the training files (learned.h); false when memory is short. NULL: nothing is. */
    bool (*learn)(const tcc_dataset *data, struct cJSON *to);
} tcc__reader;

/* What tells one state of a file or a folder from another: sizes, names, and bytes of a file at up to 64 places. ""
 * for what is neither, as a pipe. */
typedef struct tcc__digest {
    char text[17];
} tcc__digest;

struct tcc_dataset {
    const tcc__reader *reader;
    struct cJSON *learned; /* that the options had, and its text; NULL: it is learned now */
    char *learned_text;
    tcc__digest digest;     /* of the training files; "" where they are not opened */
    tcc_dataset_info info;  /* set by open; x.name, y.name and kind by the caller */
    tcc_array val_x, val_y; /* those of validation; without a name as in info */
    int64_t *counts;        /* training samples, or pixels of them, of each class; NULL: they are not counted */
    int64_t held_out_of;    /* source samples from which tcc__hold_out draws both splits; 0: it was not
                              used */
    bool in_file;           /* samples lie in a temporary file, so they are not compared with each other */
    void *own;              /* the reader's */
};

/* Array x (0) or y (1) of a sample. */
static inline const tcc_array *tcc__sample_array(const tcc_dataset *data, tcc_split split, int i) {
    if (split == TCC_SPLIT_VALIDATION && data->val_x.name) return i ? &data->val_y : &data->val_x;
    return i ? &data->info.y : &data->info.x;
}

/* One row a kind. */
extern const tcc__reader tcc__text_reader, tcc__tokens_reader, tcc__idx_reader, tcc__cifar_reader, tcc__csv_reader,
    tcc__images_reader, tcc__segmentation_reader, tcc__text_classes_reader;

/* Split `count` source samples: the last of a fixed permutation are for validation. `val_split` is
 * the user's, in which 0 stands for the default. Sets info.samples. */
tcc_status tcc__hold_out(tcc_diag *d, const char *path, tcc_dataset *data, int64_t count, double val_split);
/* The source sample of number `i` of a split, after tcc__hold_out. */
int64_t tcc__source_of(const tcc_dataset *data, tcc_split split, int64_t i);
/* How many of `count` the user's val_split holds out; 0 stands for the default. */
int64_t tcc__val_count(int64_t count, double val_split);

#endif
