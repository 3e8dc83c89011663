/* SPDX-License-Identifier: MIT
 * Data. A data set is opened from files, all of which are checked. A loader hands out its batches in an order that
 * depends on the seed alone. Calls that take a context leave the error's text in it (tcc_context_error).
 *
 *     tcc_data_options from = {.size = sizeof from, .kind = "text", .path = "input.txt", .context = 64};
 *     tcc_dataset *data;
 *     if (tcc_dataset_open(cx, &from, &data)) ...;
 *     tcc_loader_options how = {.size = sizeof how, .batch_size = 12, .num_workers = 1, .shuffle = true, .seed = 1};
 *     tcc_loader *loader;
 *     if (tcc_loader_create(cx, data, &how, &loader)) ...;
 *     const tcc_batch *batch;
 *     while (!tcc_loader_next(loader, &batch) && ...) tcc_model_train(model, batch->arrays, batch->n_arrays);
 */
#ifndef TRAINCC_DATA_H
#define TRAINCC_DATA_H

#include "traincc/array.h"
#include "traincc/context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

TCC_API_BEGIN

/* ---- data sets ---- */

typedef enum tcc_split { TCC_SPLIT_TRAIN, TCC_SPLIT_VALIDATION, TCC_SPLIT_COUNT } tcc_split;

/* Whether the first line of a CSV file names the columns. */
typedef enum tcc_csv_header {
    TCC_CSV_HEADER_AUTO, /* csv: it does if it has a text where a column, other than the label, has numbers;
                            text_classes: if a column was given by its name, or no other line has its label */
    TCC_CSV_HEADER_YES,
    TCC_CSV_HEADER_NO,
} tcc_csv_header;

/* What becomes of cells of a csv file that are missing: empty, or ?, NA, nan, null and the like. */
typedef enum tcc_csv_missing {
    TCC_MISSING_ERROR,    /* they are errors; a category may be called NA */
    TCC_MISSING_MEAN,     /* a number becomes the training rows' mean, a category the most frequent one; a column where
                             one is missing in training has one more feature, which is 1 where it is */
    TCC_MISSING_CATEGORY, /* the same of numbers; of a category it is a category of its own */
} tcc_csv_missing;

/* What a column of a csv file is:
 *
 *   "number"    a feature, standardized
 *   "category"  features: one for each value, 1 where the cell has it; or, where there are many, one that is the
 *               value's number from 1, to embed. A value that was not seen in training gives 0
 *   "drop"      nothing
 *   "target"    what is to be predicted
 *   "weight"    how much a row counts: the last feature, scaled to a mean of 1
 *   "group"     rows of one group are all trained on, or all held out
 *   "time"      the latest rows are held out: by value where all are numbers, else by text, as 2024-05-31
 *   "split"     train, val or test: whether the row is trained on, held out, or neither
 *   "auto"      number if at least half of its cells are, else category; drop if it is texts that hardly recur */
#define TCC_COLUMN_KINDS "auto, number, category, drop, target, weight, group, time, split"
typedef struct tcc_column_option {
    const char *name; /* or its number from 0 */
    const char *kind; /* see above */
} tcc_column_option;

/* What a colour stands for in pictures of labels: a class, or, named "ignored", what does not count. */
typedef struct tcc_label_color {
    const char *name, *color; /* as "#804080" */
} tcc_label_color;

/* Where data lies and how it is read. Zero fields take the defaults given here. A field says which kinds it goes with;
 * with another it is an error (TCC_EINVAL). Every data set has two arrays, "x" and "y". B is the batch, T the window, F
 * the number of features:
 *
 *   kind      path                                       x                          y
 *   "text"    a text file, UTF-8                         i32 [B,T] characters       i32 [B,T], x moved on by one
 *   "tokens"  a file of little-endian uint16 or uint32   i32 [B,T]                  i32 [B,T], x moved on by one
 *   "idx"     a folder with MNIST's four file names      f32 [B,1,H,W] normalized   i32 [B] class
 *   "cifar"   a folder with data_batch_N.bin, test_batch f32 [B,3,32,32] normalized i32 [B] class
 *   "csv"     a text file of separated values            f32 [B,F] standardized     i32 [B] class, or f32 [B,K]
 *   "images"  a folder of folders, one for each class,   f32 [B,3,H,W] normalized   i32 [B] class
 *             with PNG, JPEG, WebP files
 *   "segmentation"  a folder with folders images (PNG,   f32 [B,3,H,W] normalized   i32 [B,H,W] class, -100 where
 *             JPEG, WebP) and labels (PNG, a class a                              none counts
 *             pixel)
 *   "text_classes"  a folder of folders, one for each    i32 [B,T] word pieces, -1  i32 [B] class
 *             class, with text files; or a file of rows  where a text has ended
 *             with a text and a label
 *
 * A file of tokens may be an array of NumPy (.npy) or a shard as llm.c writes them, which say what their tokens are;
 * else it is bare numbers. A folder, or a pattern as "train_*.bin", names several files, whose tokens follow one
 * another. Pictures are shown as EXIF says, whatever their colours and depth; masks of 0 and 255 alone have two
 * classes. Files of kinds text, idx, cifar, csv and text_classes may be compressed by gzip or Zstandard; those of idx
 * and cifar with or without ".gz" in the name. A file of kind csv may be larger than the memory: where its rows would
 * take a quarter of what is left, they lie in a temporary file without a name, in the folder TMPDIR, else /var/tmp.
 * Columns of a second csv file are found by their names where there is a header; others are left out. Labels of csv and
 * text_classes that are all numbers are told apart by value: 1 and 1.0 are one class. Where no comma separates cells of
 * csv, numbers of a column may have a decimal comma, as 1.234,5; it is found by the training file's cells. Parquet and
 * Arrow files are not read, for Debian 12 has no library that does: convert them to csv. Rows of text_classes are
 * comma-separated as in csv; or, in a file that is named .tsv, tab-separated, with \t, \n, \r and \\ for what a cell
 * cannot hold, and no quotes. A folder named unsup, of texts without a class, is left out. Texts are tokenized when the
 * data set is opened, and stay in memory. */
typedef struct tcc_data_options {
    size_t size;      /* sizeof(tcc_data_options) */
    const char *kind; /* see above */
    const char *path;
    const char
        *val_path; /* text, tokens, csv, text_classes: a file of its own for validation; idx, cifar: a folder with
                             the test files; images, segmentation, text_classes: a folder like that of `path`; then
                             val_split must be 0 */
    /* The share of the data to hold out for validation, below 1: of text and tokens the end, of the others rows drawn
     * once, always the same. 0: 0.1, but for idx and cifar their test files instead. Negative: no validation. */
    double val_split;

    int64_t context; /* text, tokens: T, the length of a window; text_classes: T, the most tokens of a text, with [CLS]
                           in front and [SEP] behind, what is longer is cut; required */
    bool bytes;      /* text: tokens are bytes rather than code points; the file need not be UTF-8 */
    int token_bytes; /* tokens: 2 (default) or 4, of files that do not say */
    int64_t vocab_size; /* tokens: every token is below it; default: found by reading the whole file */

    int classes;            /* idx, segmentation: labels are below it; default: 10; found by reading all labels */
    int n_channels;         /* idx, cifar, images, segmentation: how many of mean and std are given: 0 (computed from
                               the training images; of files, up to 256 of them), else 1 or 3 */
    double mean[3], std[3]; /* of pixels as 0 to 1, a channel; x is (pixel - mean) / std */
    bool augment;           /* cifar: training images are cropped at random after padding with 4 black pixels,
                               and half are mirrored. images, segmentation: of training images the window of H x W
                               pixels lies anywhere, and half are mirrored */

    /* csv, and files of text_classes. */
    tcc_csv_header csv_header;
    char csv_separator;    /* default: of csv that of , ; tab and | which the first lines agree on; else ',', but a tab
                              for text_classes in a file named .tsv */
    const char *csv_label; /* the label's column: its name, or its number from 0; default: the last; of text_classes the
                              first. csv: as a column of kind target */
    const char *csv_text;  /* text_classes: the text's column, likewise; default: the last */
    bool csv_regression;   /* the label is a number to predict, not a class; there may be several targets */

    /* images, segmentation: H and W; default: those of the first image. Images are scaled to just cover them, those of
     * segmentation keep their size; what is seen is the window in the middle (or see augment). */
    int64_t height, width;
    double scale[2];  /* training images are scaled by a factor from this range; 0, 0: not. Outside of a smaller image x
                         is 0, and y -100 */
    double jitter[3]; /* by how much of itself brightness, contrast and saturation change in training, at most */
    bool has_ignored_label; /* ignored_label counts as given even if it is 0 */
    int ignored_label;      /* segmentation: pixels of this label, 0 to 255, do not count; default: 255 */

    const char *tokenizer; /* text_classes: "wordpiece", which is the default */
    const char *vocab;     /* text_classes: its vocab.txt, which has [CLS] and [SEP]; required without `learned` */

    /* What another data set learned from the training files (tcc_dataset_learned): classes, columns, characters,
     * statistics. Data is then read by it, and `path` need not be given. With val_path the training files are not
     * opened, and there are no training samples. Without, the validation samples are held out of `path`, which must be
     * as it was. Without both there are no samples; names and texts are told as in training. NULL: it is learned from
     * the files. */
    const char *learned;
    bool unlabelled; /* csv, with `learned`: rows of val_path need not have a label, which is not looked at, nor the
                        file a header; y is -1, or NaN for regression. images: val_path is a picture, or a folder in
                        which pictures lie anywhere. text_classes: it is a file with a text a line */

    /* csv: what its columns are, where it is not to be guessed. */
    const tcc_column_option *csv_columns;
    int n_csv_columns;
    tcc_csv_missing csv_missing; /* with `learned` by default as in training */
    int csv_one_hot;             /* the most values of a category that are features of their own; default: 32 */

    bool skip_bad; /* images, segmentation: a picture that cannot be read is left out, and said (tcc_dataset_skipped);
                      where that is seen only when it is decoded, another one takes its place. Else it is an error */
    /* segmentation: labels are pictures in which these colours stand for the classes, in their order. */
    const tcc_label_color *label_colors;
    int n_label_colors;
    /* csv, with `learned`: the column that rows are told by (tcc_dataset_sample_name), any of the file: its name, or
     * its number from 0. */
    const char *csv_id;
    /* segmentation: a text that says what the numbers in labels stand for: lines "NUMBER NAME [#804080]"; those that
     * begin with # are remarks. Numbers of one name are one class, classes come in the order of the lines, and what is
     * named ignored does not count. */
    const char *label_table;
    /* images, segmentation: what is seen of validation images, default: H and W; the factor that they are scaled by,
     * for images once they just cover it, default: 1, or, with val_fit, that with which they just fit in. */
    int64_t val_height, val_width;
    double val_scale;
    bool val_fit;
    bool uniform_scale; /* images, segmentation: factors from `scale` are drawn uniformly, not their logarithms */
    int n_fill;         /* segmentation: how many of fill are given: 0 (x is 0 outside of a smaller image), 1 or 3 */
    double fill[3];     /* the colour outside of a smaller image, 0 to 255 a channel */
    /* images: of a training image a part is seen, scaled to H x W, that has a share of its area from crop_area, drawn
     * uniformly, and a width over its height from crop_ratio, whose logarithm is drawn uniformly; default: 3/4 to 4/3.
     * As torchvision's RandomResizedCrop. 0, 0: the whole. */
    double crop_area[2], crop_ratio[2];
} tcc_data_options;

typedef struct tcc_dataset tcc_dataset;

/* Opens the files and checks them; of pictures their beginnings. Later reads can fail only if a file changes,
 * or a picture is damaged further on. The caller closes the data set, after
 * its loaders. Errors: TCC_EINVAL (an option, in words), TCC_ENOTFOUND and TCC_EIO (files), TCC_EFORMAT (the file, the
 * byte or line, and what is wrong there), TCC_ENOMEM. */
TCC_API tcc_status tcc_dataset_open(tcc_context *cx, const tcc_data_options *options, tcc_dataset **out);
TCC_API void tcc_dataset_close(tcc_dataset *data); /* NULL is allowed */

/* The kinds that tcc_dataset_open knows: "text, tokens, ...". Static. */
TCC_API const char *tcc_dataset_kinds(void);
/* Whether data of a kind takes an option: the name of a field of tcc_data_options that says which kinds it goes with,
 * or "padding" and "mixup" of tcc_loader_options. False for a kind, or an option, that there is not. */
TCC_API bool tcc_dataset_takes(const char *kind, const char *option);

typedef struct tcc_dataset_info {
    const char *kind;
    int64_t samples[TCC_SPLIT_COUNT]; /* an epoch's; text and tokens: whole windows that fit side by
                                         side. 0: no such split */
    int64_t tokens[TCC_SPLIT_COUNT];  /* text, tokens: length of each part; else 0 */
    int64_t classes;                  /* distinct values of y: size of the vocabulary, number of classes; 0 for
                                         regression */
    tcc_array x, y;                   /* one sample of training: name, type and shape without B; no data */
    int n_channels;                   /* images of any kind: channels of mean and std, as used; else 0 */
    double mean[3], std[3];
    int64_t vocab_size; /* text_classes: tokens are below it; else 0 */
} tcc_dataset_info;
TCC_API void tcc_dataset_get_info(const tcc_dataset *data, tcc_dataset_info *out);
/* The same of x and y of a split: validation images may have a size of their own. */
TCC_API void tcc_dataset_get_arrays(const tcc_dataset *data, tcc_split split, tcc_array arrays[2]);

/* What class or token `id` stands for: the UTF-8 bytes of a character ("\n"), a CSV label, CIFAR's class, a class
 * folder's name, or the number of an idx class. *length is in bytes; a character may be NUL, so it is needed. Of kind
 * tokens the bytes of the token, where its tokenizer is known: tcc-train tokenize writes it beside the tokens. NULL
 * where there is none, as of segmentation without colours or a table, and for ids out of range. The text lives as long
 * as the data set. */
TCC_API const char *tcc_dataset_label(const tcc_dataset *data, int64_t id, size_t *length);
/* The tokens of a text, for kinds text, tokens with a known tokenizer, and text_classes, cut as its samples are: writes
 * at most `capacity` of them, and the number of all to *count. One thread at a time. Errors: TCC_EINVAL, which names
 * the character that the vocabulary lacks and its position. */
TCC_API tcc_status tcc_dataset_encode(tcc_context *cx, const tcc_dataset *data, const char *text, size_t length,
                                      int32_t *tokens, int64_t capacity, int64_t *count);

/* The text of tokens, for kinds text and tokens; to be freed with tcc_string_free, NUL-terminated beyond its *length
 * bytes. Errors: TCC_EINVAL (a token that has no text), TCC_ENOMEM. */
TCC_API tcc_status tcc_dataset_decode(tcc_context *cx, const tcc_dataset *data, const int32_t *tokens, int64_t count,
                                      char **text, size_t *length);

/* The path of the picture that sample `index` of a split is, in the order of the split, or what csv_id's column has for
 * it; NULL where there is neither, and past the last. Lives as long as the data set. */
TCC_API const char *tcc_dataset_sample_name(const tcc_dataset *data, tcc_split split, int64_t index);

/* What the data set learned from its training files, as JSON: the number of samples, classes and their names, columns
 * with their statistics, characters, mean and deviation of pixels, and a digest of the files. A run keeps it, so that
 * later data is read in the same way (tcc_data_options.learned). Of a data set opened with such a text, that text.
 * To be freed with tcc_string_free. Errors: TCC_ENOMEM. */
TCC_API tcc_status tcc_dataset_learned(tcc_context *cx, const tcc_dataset *data, char **text);
/* Whether the data set learned just that. Errors: TCC_EINVAL, which names the first difference; TCC_EFORMAT,
 * TCC_ENOMEM. */
TCC_API tcc_status tcc_dataset_compare(tcc_context *cx, const tcc_dataset *data, const char *learned);

/* A column of kind csv. */
typedef struct tcc_column {
    const char *name, *kind; /* "" without a header; they live as long as the data set */
    bool guessed;            /* its kind */
    int64_t first, features; /* of x: where they begin, how many there are. Of a column with cells that were missing in
                                training the last one says where */
    int64_t categories;      /* of kind category: values seen in training; else 0 */
    bool embedded;           /* its first feature is the value's number from 1; 0 where it was not seen */
    double mean, std;        /* of kinds number and weight: the feature is (cell - mean) / std */
} tcc_column;
/* Column `index` of kind csv, in the order of the training file. False past the last, and for other kinds. */
TCC_API bool tcc_dataset_column(const tcc_dataset *data, int64_t index, tcc_column *out);

/* How many training samples are of class id; -1 where that is not counted. Of kind segmentation: how many pixels in the
 * label files of `path`, those that val_split holds out among them; where the number of classes was given, in up to 256
 * of these files. */
TCC_API int64_t tcc_dataset_count(const tcc_dataset *data, int64_t id);
/* What was read, in lines for people: samples, classes with their counts, columns with kind, range and missing cells;
 * and warnings, in lines that begin with "warning: ". To be freed with tcc_string_free. Errors: TCC_ENOMEM. */
TCC_API tcc_status tcc_dataset_describe(tcc_context *cx, const tcc_dataset *data, char **text);

/* The colour to show class `id` in: that of label_colors or label_table, else one of a fixed list. Of an id that is no
 * class black. */
TCC_API void tcc_dataset_color(const tcc_dataset *data, int64_t id, uint8_t rgb[3]);

/* Sample `index` that was left out so far (skip_bad): the file and what is wrong with it. NULL: there are fewer. It
 * lives as long as the data set. */
TCC_API const char *tcc_dataset_skipped(const tcc_dataset *data, int64_t index);

/* Feature `index` of kind csv: its column's name ("" without a header) and the statistics that standardized it: x is
 * (cell - mean) / std; of a category 0 and 1. Any of the last three may be NULL. The name lives as long as the data
 * set. False past the last feature, and for other kinds. */
TCC_API bool tcc_dataset_feature(const tcc_dataset *data, int64_t index, const char **name, double *mean, double *std);

/* ---- loaders ---- */

/* What happens to the samples that do not fill the last batch of an epoch. */
typedef enum tcc_last_batch {
    TCC_LAST_DROP, /* left out */
    TCC_LAST_PAD,  /* the batch is filled up with repeats of its own samples; only the first `count` count */
    TCC_LAST_KEEP, /* the batch is smaller: another input signature */
} tcc_last_batch;

/* How long the rows of x are, where samples have lengths of their own (text_classes). */
typedef enum tcc_padding {
    TCC_PADDING_FIXED,   /* as long as the data set says */
    TCC_PADDING_DYNAMIC, /* as the batch's longest sample, rounded up to one of a few lengths, with which the first
                            epoch has the least padding; each is another input signature */
    TCC_PADDING_UNIFORM, /* the same, and samples of like lengths come together: those of 50 batches are sorted by
                            length, and the batches that this gives come in random order */
} tcc_padding;

typedef struct tcc_loader_options {
    size_t size; /* sizeof(tcc_loader_options) */
    tcc_split split;
    int64_t batch_size;
    int num_workers; /* threads that read ahead; 0: batches are made when asked for */
    int prefetch;    /* batches that may wait ready; default: 2 for each worker */
    /* A new order every epoch. For text and tokens: windows that start anywhere, drawn independently. Without it
     * samples come in their order, and the windows of text and tokens lie side by side. */
    bool shuffle;
    tcc_last_batch last_batch;
    uint64_t seed;
    tcc_padding padding;
    int lengths; /* the most lengths that rows may have, at most 32; default: 6 */
    int held;    /* batches before the last one given that stay as they are, too: TCC_PINNED_RUNS for pinned memory */
    /* Above 1: each batch is cut in so many parts of equal size, and one that is smaller where that does not divide.
     * The loader makes part number `part`, from 0: the part of a rank. All that is said of a batch is of the whole, but
     * for its arrays and `count`. A batch that leaves a part without samples is TCC_EINVAL from the start; so is
     * TCC_LAST_PAD. */
    int64_t parts, part;
    /* idx, cifar, images: above 0, two samples of a batch each that are beside one another are mixed, by a share from
     * Beta(a, a) of such an a: `mixup` their values; with `cutmix` a rectangle of each is the other's. With both, each
     * pair has one of them, with even odds. y is then f32 [B,C], the shares of the classes. Evaluate without. Parts
     * must have an even number of samples then. */
    double mixup, cutmix;
    /* Above 1: the batches after each one are left out, up to that many further on. So ranks can take whole batches in
     * turn, each from another one on (tcc_loader_set_state). */
    int64_t stride;
} tcc_loader_options;

typedef struct tcc_loader tcc_loader;

/* A batch. All of it is borrowed until the next call with the loader, or, with options.held, so many later. */
typedef struct tcc_batch {
    tcc_array arrays[2]; /* "x", "y": the first dimension is the batch; 64-byte aligned */
    int n_arrays;
    int64_t count;        /* samples that count; smaller than the first dimension only under TCC_LAST_PAD */
    int64_t epoch, index; /* from 0; `index` within the epoch */
    bool ends_epoch;
} tcc_batch;

/* The position of a loader: its next batch. Saved with a checkpoint, it makes a resumed run see the same batches. */
typedef struct tcc_loader_state {
    uint64_t seed;
    int64_t epoch, index;
} tcc_loader_state;

/* Starts the workers. What batch `index` of `epoch` holds depends on the data, the options and the seed, never on
 * workers or time. The data set must outlive the loader, which the caller destroys. Errors: TCC_EINVAL (also a split
 * without samples, or with too few for one batch), TCC_ENOMEM. */
TCC_API tcc_status tcc_loader_create(tcc_context *cx, const tcc_dataset *data, const tcc_loader_options *options,
                                     tcc_loader **out);
/* Stops and joins the workers. NULL is allowed. */
TCC_API void tcc_loader_destroy(tcc_loader *loader);

/* The next batch; epochs follow one another without end. After an error (a file that changed meanwhile) every later
 * call returns it too. One thread at a time. */
TCC_API tcc_status tcc_loader_next(tcc_loader *loader, const tcc_batch **out);
/* The memory that batches are made in, piece by piece from index 0, to be given to tcc_model_pin. False at the end. */
TCC_API bool tcc_loader_memory(const tcc_loader *loader, int index, void **memory, size_t *size_bytes);
TCC_API int64_t tcc_loader_batches(const tcc_loader *loader); /* in an epoch */
/* Shape `index`, from 0, of the arrays "x" and "y" of batches, without data, so that programs for all can be compiled
 * ahead; false past the last. Smaller batches come first, and whole ones of the longest rows last. */
TCC_API bool tcc_loader_shape(const tcc_loader *loader, int index, tcc_array shape[2]);
/* Of the first epoch's batches; later ones differ little. */
typedef struct tcc_padding_info {
    int64_t tokens; /* elements of x that are no padding */
    int64_t padded; /* all elements of x */
    int64_t fixed;  /* all elements of x with TCC_PADDING_FIXED */
} tcc_padding_info;
/* False where samples have no lengths of their own. */
TCC_API bool tcc_loader_padding(const tcc_loader *loader, tcc_padding_info *out);
/* Seconds that tcc_loader_next has waited for batches so far, or, without workers, has made them. */
TCC_API double tcc_loader_waited(const tcc_loader *loader);

TCC_API tcc_loader_state tcc_loader_get_state(const tcc_loader *loader);
/* Goes on from there. Errors: TCC_EINVAL if `index` is not within an epoch. */
TCC_API tcc_status tcc_loader_set_state(tcc_loader *loader, tcc_loader_state state);

TCC_API_END

#endif
