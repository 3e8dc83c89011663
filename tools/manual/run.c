/* SPDX-License-Identifier: MIT
 * Examples of run.h. */
#include "examples.h"

/* A language model over the vocabulary of input.txt, as tcc_generate runs it. */
static void writer(tcc_trace *t, void *user) {
    const tcc_dataset_info *info = user;
    const tcc_gpt_options gpt = {
        .layers = 1, .heads = 2, .width = 16, .context = info->x.dims[0], .vocab = info->classes};
    tcc_output(t, "logits", tcc_gpt_next(t, tcc_input(t, "x"), tcc_input(t, "at"), &gpt));
}

static bool print(void *user, const char *text, size_t length) {
    fwrite(text, 1, length, stdout);
    return user == NULL; /* go on */
}

EXAMPLE(tcc_generate) {
    tcc_dataset_info info;
    tcc_model *mine;
    int64_t count;
    tcc_dataset_get_info(data, &info);
    TCC_TRY(tcc_model_create(cx, writer, &info, NULL, &mine)); /* with weights of a checkpoint it would say more */
    tcc_generate_options how = {.size = sizeof how, .prompt = "to be", .length = 20, .temperature = 0.8, .top_k = 5};
    TCC_TRY(tcc_generate(cx, mine, data, &how, print, NULL, &count));
    printf("\n%d tokens\n", (int)count);
    tcc_model_destroy(mine);
}

EXAMPLE(tcc_generate_shape) {
    tcc_array shape[2];
    for (int i = 0; tcc_generate_shape(data, i, shape); i++)
        printf("%s [%d, %d]\n", shape[0].name, (int)shape[0].dims[0], (int)shape[0].dims[1]); /* x [1, 8] */
}

static bool print_answer(void *user, const tcc_answer *answer) {
    printf("row %d of %d classes\n", (int)answer->index, (int)answer->n_values);
    return user != NULL; /* one is enough */
}

EXAMPLE(tcc_model_predict) {
    tcc_run *run;
    TCC_TRY(tcc_run_open(cx, "exported", &run)); /* its model, but data of one's own */
    tcc_data_options from = {.size = sizeof from, .kind = "csv", .path = "table.csv"};
    tcc_predict_options how = {.size = sizeof how, .batch_size = 4};
    tcc_dataset *table;
    TCC_TRY(tcc_dataset_open(cx, &from, &table));
    TCC_TRY(tcc_model_predict(cx, tcc_run_model(run), table, &how, print_answer, NULL));
    tcc_dataset_close(table);
    tcc_run_close(run);
}

EXAMPLE(tcc_run_open) {
    tcc_run *run;
    TCC_TRY(tcc_run_open(cx, "exported", &run)); /* what tcc-train export wrote */
    TCC_TRY(tcc_run_predict(run, "table.csv", print_answer, NULL));
    tcc_run_close(run);
}

EXAMPLE(tcc_run_close) {
    tcc_run *run = NULL;
    if (tcc_run_open(cx, "exported", &run)) puts(tcc_context_error(cx));
    tcc_run_close(run); /* before its context */
}

EXAMPLE(tcc_run_data) {
    tcc_run *run;
    size_t length;
    TCC_TRY(tcc_run_open(cx, "exported", &run));
    printf("%s\n", tcc_dataset_label(tcc_run_data(run), 1, &length)); /* y */
    tcc_run_close(run);
}

EXAMPLE(tcc_run_model) {
    tcc_run *run;
    TCC_TRY(tcc_run_open(cx, "exported", &run));
    printf("%s\n", tcc_model_device(tcc_run_model(run))); /* cpu */
    tcc_run_close(run);
}

EXAMPLE(tcc_run_predict) {
    tcc_run *run;
    TCC_TRY(tcc_run_open(cx, "exported", &run));
    TCC_TRY(tcc_run_predict(run, "table.csv", print_answer, NULL));
    tcc_run_close(run);
}

EXAMPLE(tcc_run_predict_bytes) {
    tcc_run *run;
    TCC_TRY(tcc_run_open(cx, "exported", &run));
    static const char rows[] = "width,height\n2,1\n";
    TCC_TRY(tcc_run_predict_bytes(run, rows, sizeof rows - 1, print_answer, NULL));
    tcc_run_close(run);
}

EXAMPLE(tcc_run_generate) {
    tcc_run *run;
    TCC_TRY(tcc_run_open(cx, "exported", &run));
    tcc_generate_options how = {.size = sizeof how, .prompt = "to be"};
    if (tcc_run_generate(run, &how, print, NULL, NULL)) printf("%s\n", tcc_context_error(cx)); /* error: data of ... */
    tcc_run_close(run);
}
