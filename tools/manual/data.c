/* SPDX-License-Identifier: MIT
 * Examples of data.h. */
#include "examples.h"

EXAMPLE(tcc_dataset_open) {
    tcc_data_options from = {.size = sizeof from, .kind = "text", .path = "input.txt", .context = 8};
    tcc_dataset *text;
    TCC_TRY(tcc_dataset_open(cx, &from, &text));
    tcc_dataset_close(text);
}

EXAMPLE(tcc_dataset_close) {
    tcc_data_options from = {.size = sizeof from, .kind = "csv", .path = "table.csv"};
    tcc_dataset *table = NULL;
    if (tcc_dataset_open(cx, &from, &table)) puts(tcc_context_error(cx));
    tcc_dataset_close(table); /* after its loaders */
}

EXAMPLE(tcc_dataset_kinds) { printf("%s\n", tcc_dataset_kinds()); /* text, tokens, ... */ }

EXAMPLE(tcc_dataset_takes) {
    if (tcc_dataset_takes("csv", "csv_label")) puts("csv has a column of labels");
}

EXAMPLE(tcc_dataset_get_info) {
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    printf("%s: %d characters\n", info.kind, (int)info.classes); /* text: 19 characters */
}

EXAMPLE(tcc_dataset_label) {
    size_t length;
    const char *character = tcc_dataset_label(data, 2, &length);
    printf("%.*s\n", (int)length, character); /* a */
}

EXAMPLE(tcc_dataset_encode) {
    int32_t tokens[8];
    int64_t count;
    TCC_TRY(tcc_dataset_encode(cx, data, "to be", 5, tokens, 8, &count));
    printf("%d tokens, the first is %d\n", (int)count, (int)tokens[0]); /* 5 tokens, the first is 16 */
}

EXAMPLE(tcc_dataset_decode) {
    char *text;
    size_t length;
    TCC_TRY(tcc_dataset_decode(cx, data, ((int32_t[]){1, 2, 2}), 3, &text, &length));
    printf("%s\n", text); /*  aa */
    tcc_string_free(text);
}

EXAMPLE(tcc_dataset_get_arrays) {
    tcc_array arrays[2];
    tcc_dataset_get_arrays(data, TCC_SPLIT_VALIDATION, arrays);
    printf("%d\n", arrays[0].rank); /* 1 */
}

EXAMPLE(tcc_dataset_sample_name) {
    const char *path = tcc_dataset_sample_name(data, TCC_SPLIT_VALIDATION, 0);
    printf("%s\n", path ? path : "no file"); /* no file */
}

EXAMPLE(tcc_dataset_learned) {
    char *learned;
    TCC_TRY(tcc_dataset_learned(cx, data, &learned));
    tcc_data_options later = {.size = sizeof later, .kind = "text", .context = 8, .learned = learned};
    tcc_dataset *without_files;
    TCC_TRY(tcc_dataset_open(cx, &later, &without_files));
    size_t length;
    printf("%.*s\n", 1, tcc_dataset_label(without_files, 2, &length)); /* a */
    tcc_dataset_close(without_files);
    tcc_string_free(learned);
}

EXAMPLE(tcc_dataset_compare) {
    char *learned;
    TCC_TRY(tcc_dataset_learned(cx, data, &learned));
    if (tcc_dataset_compare(cx, data, learned) == TCC_OK) puts("the data is the same"); /* the data is the same */
    tcc_string_free(learned);
}

EXAMPLE(tcc_dataset_feature) {
    tcc_data_options from = {.size = sizeof from, .kind = "csv", .path = "table.csv"};
    tcc_dataset *table;
    const char *name;
    double mean;
    TCC_TRY(tcc_dataset_open(cx, &from, &table));
    if (tcc_dataset_feature(table, 0, &name, &mean, NULL))
        printf("%s: mean %g\n", name, mean); /* height: mean 4.55556 */
    tcc_dataset_close(table);
}

EXAMPLE(tcc_dataset_column) {
    tcc_data_options from = {.size = sizeof from, .kind = "csv", .path = "table.csv"};
    tcc_dataset *table;
    tcc_column c;
    TCC_TRY(tcc_dataset_open(cx, &from, &table));
    for (int i = 0; tcc_dataset_column(table, i, &c); i++)
        printf("%s is a %s of %d features\n", c.name, c.kind, (int)c.features); /* height is a number of 1 features */
    tcc_dataset_close(table);
}

EXAMPLE(tcc_dataset_describe) {
    char *text;
    TCC_TRY(tcc_dataset_describe(cx, data, &text));
    fputs(text, stdout); /* data of kind text: ... */
    tcc_string_free(text);
}

EXAMPLE(tcc_dataset_color) {
    uint8_t rgb[3];
    tcc_dataset_color(data, 0, rgb);
    printf("#%02x%02x%02x\n", rgb[0], rgb[1], rgb[2]);
}

EXAMPLE(tcc_dataset_count) {
    tcc_data_options from = {.size = sizeof from, .kind = "csv", .path = "table.csv"};
    tcc_dataset *table;
    TCC_TRY(tcc_dataset_open(cx, &from, &table));
    printf("%d samples of the first class\n", (int)tcc_dataset_count(table, 0));
    tcc_dataset_close(table);
}

EXAMPLE(tcc_dataset_skipped) {
    const char *what; /* of a text nothing is left out, so this prints no line */
    for (int i = 0; (what = tcc_dataset_skipped(data, i)); i++) puts(what);
}

EXAMPLE(tcc_loader_create) {
    tcc_loader_options how = {.size = sizeof how, .batch_size = 2, .shuffle = true, .seed = 1};
    tcc_loader *shuffled;
    TCC_TRY(tcc_loader_create(cx, data, &how, &shuffled));
    tcc_loader_destroy(shuffled);
}

EXAMPLE(tcc_loader_destroy) {
    tcc_loader_options how = {.size = sizeof how, .batch_size = 2, .num_workers = 1};
    tcc_loader *mine = NULL;
    if (tcc_loader_create(cx, data, &how, &mine)) puts(tcc_context_error(cx));
    tcc_loader_destroy(mine);
}

EXAMPLE(tcc_loader_next) {
    const tcc_batch *next;
    TCC_TRY(tcc_loader_next(loader, &next));
    printf("%s: [%d, %d]\n", next->arrays[0].name, (int)next->arrays[0].dims[0],
           (int)next->arrays[0].dims[1]); /* x: [2, 8] */
}

EXAMPLE(tcc_loader_memory) {
    void *memory;
    size_t bytes;
    for (int i = 0; tcc_loader_memory(loader, i, &memory, &bytes); i++) TCC_TRY(tcc_model_pin(model, memory, bytes));
}

EXAMPLE(tcc_loader_batches) {
    printf("%d batches an epoch\n", (int)tcc_loader_batches(loader)); /* 4 batches an epoch */
}

EXAMPLE(tcc_loader_shape) {
    tcc_array shape[2];
    for (int i = 0; tcc_loader_shape(loader, i, shape); i++) printf("%s of %d\n", shape[0].name, (int)shape[0].dims[0]);
}

EXAMPLE(tcc_loader_padding) {
    tcc_padding_info padding;
    if (!tcc_loader_padding(loader, &padding))
        printf("all samples have one length\n"); /* all samples have one length */
}

EXAMPLE(tcc_loader_waited) { printf("waited %.3f s for data\n", tcc_loader_waited(loader)); /* waited 0... */ }

EXAMPLE(tcc_loader_get_state) {
    tcc_loader_state next = tcc_loader_get_state(loader);
    printf("epoch %d\n", (int)next.epoch); /* epoch 0 */
}

EXAMPLE(tcc_loader_set_state) {
    tcc_loader_state next = tcc_loader_get_state(loader); /* as a checkpoint keeps it */
    TCC_TRY(tcc_loader_set_state(loader, next));
}
