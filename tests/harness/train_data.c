/* SPDX-License-Identifier: MIT
 * Small files of every data kind that a model can learn from. */
#include "train_data.h"
#include "check.h"
#include "files.h"
#include "pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* A linear congruential generator (Knuth's MMIX constants): the files are the same in every run. */
static unsigned draw(uint64_t *seed, unsigned below) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*seed >> 33) % below;
}

const char *write_text_data(void **state) {
    static const char *const words[] = {"the ", "cat ", "sat ", "on ", "a ", "mat.\n"};
    static char text[8192];
    uint64_t seed = 1;
    text[0] = '\0';
    for (size_t length = 0, word = 0; length < 6000; word = draw(&seed, 4) ? (word + 1) % 6 : draw(&seed, 6)) {
        strcpy(text + length, words[word]);
        length += strlen(words[word]);
    }
    return test_write_text(state, "text.txt", text);
}

const char *write_csv_data(void **state) {
    static char text[16384];
    uint64_t seed = 2;
    size_t length = (size_t)sprintf(text, "height,width,kind\n");
    for (int i = 0; i < 200; i++) {
        int a = (int)draw(&seed, 200) - 100, b = (int)draw(&seed, 200) - 100;
        length += (size_t)sprintf(text + length, "%d.%d,%d,%s\n", a, (int)draw(&seed, 10), b,
                                  a + b > 0 ? "large" : "small");
    }
    return test_write(state, "table.csv", text, length);
}

const char *write_text_classes_data(void **state) {
    static const char *const words[2][3] = {{"good", "fine", "great"}, {"bad", "dull", "poor"}};
    static char text[65536];
    size_t length = (size_t)sprintf(text, "label\ttext\n");
    test_write_text(state, "vocab.txt",
                    "[PAD]\n[UNK]\n[CLS]\n[SEP]\ngood\nfine\ngreat\nbad\ndull\npoor\na\nfilm\nthe\nwas\n.\n");
    for (int i = 0; i < 240; i++) {
        length += (size_t)sprintf(text + length, "%d\tthe film was %s", i % 2, words[i % 2][i / 2 % 3]);
        for (int j = 0; j < i / 2 * 7 % 40; j++)
            length += (size_t)sprintf(text + length, " %s", j % 3 ? "the film" : ".");
        text[length++] = '\n';
    }
    return test_write(state, "texts.tsv", text, length);
}

static void write_idx_pair(void **state, const char *prefix, int n) {
    enum { SIDE = 28, MOST = 100 };
    static uint8_t images[16 + MOST * SIDE * SIDE], labels[8 + MOST];
    const uint8_t image_header[16] = {0, 0, 8, 3, 0, 0, 0, (uint8_t)n, 0, 0, 0, SIDE, 0, 0, 0, SIDE};
    const uint8_t label_header[8] = {0, 0, 8, 1, 0, 0, 0, (uint8_t)n};
    uint64_t seed = (uint64_t)n;
    memcpy(images, image_header, sizeof image_header);
    memcpy(labels, label_header, sizeof label_header);
    for (int i = 0; i < n; i++) {
        uint8_t *image = images + 16 + i * SIDE * SIDE;
        labels[8 + i] = (uint8_t)draw(&seed, 10);
        for (int p = 0; p < SIDE * SIDE; p++)
            image[p] = (uint8_t)(draw(&seed, 40) + (p / SIDE / 2 == labels[8 + i] + 2 ? 200 : 0));
    }
    char name[64];
    snprintf(name, sizeof name, "idx/%s-images-idx3-ubyte", prefix);
    test_write(state, name, images, (size_t)(16 + n * SIDE * SIDE));
    snprintf(name, sizeof name, "idx/%s-labels-idx1-ubyte", prefix);
    test_write(state, name, labels, (size_t)(8 + n));
}

const char *write_idx_data(void **state) {
    mkdir(test_path(state, "idx"), 0777);
    write_idx_pair(state, "train", 96);
    write_idx_pair(state, "t10k", 40);
    return test_path(state, "idx");
}

static void write_cifar_file(void **state, const char *name, int n) {
    enum { PLANE = 1024, RECORD = 1 + 3 * PLANE, MOST = 32 };
    static uint8_t records[MOST * RECORD];
    uint64_t seed = (uint64_t)n;
    for (int i = 0; i < n; i++) {
        uint8_t *record = records + i * RECORD;
        record[0] = (uint8_t)(i % 8);
        for (int p = 0; p < 3 * PLANE; p++) record[1 + p] = (uint8_t)(draw(&seed, 60) + (i >> p / PLANE & 1 ? 180 : 0));
    }
    test_write(state, name, records, (size_t)n * RECORD);
}

const char *write_cifar_data(void **state) {
    mkdir(test_path(state, "cifar"), 0777);
    write_cifar_file(state, "cifar/data_batch_1.bin", 24);
    write_cifar_file(state, "cifar/test_batch.bin", 8);
    return test_path(state, "cifar");
}

const char *write_recipe(void **state, const char *model) {
    static const struct {
        const char *model, *head, *data, *rest;
    } kinds[] = {
        {"gpt", "layers: 2, heads: 2, width: 16, context: 16, dropout: 0.1", "text", "batch_size: 4"},
        {"cnn", "dropout: 0.25", "idx", "batch_size: 8"},
        {"mlp", "hidden: [16, 16], dropout: 0.1", "csv", "batch_size: 8, val_split: 0.2"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].model, model)) continue;
        const char *data = i == 0 ? write_text_data(state) : i == 1 ? write_idx_data(state) : write_csv_data(state);
        char text[8192], name[64];
        snprintf(text, sizeof text,
                 "model: {name: %s, %s}\ndata: {kind: %s, path: %s, %s}\noptimizer: {lr: 3e-3}\n"
                 "training: {max_steps: 20, log_every: 1, eval_every: 10, eval_batches: 2, save_every: 10}\nsample: "
                 "{length: 0}\n",
                 model, kinds[i].head, kinds[i].data, data, kinds[i].rest);
        snprintf(name, sizeof name, "%s.yaml", model);
        return test_write_text(state, name, text);
    }
    fail_msg("no recipe for %s", model);
    return NULL;
}

/* -- By kind -- */

const char *write_token_data(void **state) {
    uint16_t tokens[2000];
    uint64_t seed = 3;
    for (int i = 0; i < 2000; i++) tokens[i] = (uint16_t)(i % 5 + draw(&seed, 4) * 5);
    return test_write(state, "tokens.bin", tokens, sizeof tokens);
}

const char *write_image_data(void **state) {
    enum { SIDE = 8, PIXELS = SIDE * SIDE };
    uint8_t pixels[3 * PIXELS];
    char name[64];
    for (int i = 0; i < 24; i++) {
        for (int j = 0; j < 3 * PIXELS; j++)
            pixels[j] = (uint8_t)((j / (3 * SIDE) < SIDE / 2) == i % 2 ? 200 + i : 20 + j % 7);
        snprintf(name, sizeof name, "pictures/%s/%d.%s", i % 2 ? "above" : "below", i, i < 12 ? "png" : "jpg");
        if (i < 12) write_png(state, name, SIDE, SIDE, 3, pixels);
        else write_jpeg(state, name, SIDE, SIDE, pixels);
    }
    return test_path(state, "pictures");
}

const char *write_pixel_data(void **state) {
    enum { SIDE = 32, SQUARE = 16, PIXELS = SIDE * SIDE, PICTURES = 8, IGNORED = 255 };
    uint8_t pixels[3 * PIXELS], labels[PIXELS];
    char name[64];
    for (int i = 0; i < PICTURES; i++) {
        for (int j = 0; j < PIXELS; j++) {
            const int row = j / SIDE - 4 - i, column = j % SIDE - 12 + i;
            const bool within = row >= 0 && row < SQUARE && column >= 0 && column < SQUARE;
            labels[j] = within && !row ? IGNORED : within;
            for (int c = 0; c < 3; c++) pixels[3 * j + c] = (uint8_t)(within ? 220 - 20 * c : 40 + (7 * j + i) % 30);
        }
        snprintf(name, sizeof name, "pairs/images/%d.png", i);
        write_png(state, name, SIDE, SIDE, 3, pixels);
        snprintf(name, sizeof name, "pairs/labels/%d.png", i);
        write_png(state, name, SIDE, SIDE, 1, labels);
    }
    return test_path(state, "pairs");
}

#define GPT "name: gpt, layers: 1, heads: 2, width: 8, context: 8, dropout: 0.1"
#define MLP "name: mlp, hidden: [8], dropout: 0.1"

const train_kind train_kinds[TRAIN_KINDS] = {
    {"text", GPT, "text", write_text_data, "", NULL},
    {"tokens", GPT, "tokens", write_token_data, "", NULL},
    {"idx", MLP, "idx", write_idx_data, "", NULL},
    {"cifar", MLP, "cifar", write_cifar_data, ", augment: true", NULL},
    {"table", MLP, "csv", write_csv_data, ", val_split: 0.2", NULL},
    {"regression", MLP, "csv", write_csv_data, ", val_split: 0.2, label: width, regression: true", NULL},
    {"images", MLP, "images", write_image_data, ", val_split: 0.25, augment: true", NULL},
    {"texts", "name: distilbert, layers: 1, heads: 2, width: 8, context: 16, dropout: 0.1", "text_classes",
     write_text_classes_data, ", padding: dynamic", "vocab.txt"},
    {"pixels", "name: segformer-b0, dropout: 0.1", "segmentation", write_pixel_data, ", val_split: 0.25, augment: true",
     NULL},
};

const char *write_kind_recipe(void **state, const train_kind *kind, const char **data) {
    char text[8192], extra[4200], name[64];
    *data = kind->write(state);
    snprintf(extra, sizeof extra, kind->beside ? ", vocab_file: %2$s/%3$s%1$s" : "%1$s", kind->extra, (char *)*state,
             kind->beside);
    snprintf(text, sizeof text,
             "model: {%s}\ndata: {kind: %s, path: %s, batch_size: 4%s}\noptimizer: {lr: 3e-3}\n"
             "training: {max_steps: 12, log_every: 1, eval_every: 6, eval_batches: 2, save_every: 3}\n"
             "sample: {length: 0}\n",
             kind->model, kind->kind, *data, extra);
    snprintf(name, sizeof name, "%s.yaml", kind->name);
    return test_write_text(state, name, text);
}
