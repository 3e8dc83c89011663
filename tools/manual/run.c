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
