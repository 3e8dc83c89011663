/* SPDX-License-Identifier: MIT
 * A run's export. */
#include "harness/exported.h"

#include <traincc/checkpoint.h>
#include <traincc/models.h>
#include <traincc/plan.h>

#include <stdio.h>
#include <sys/stat.h>

static void classify(tcc_trace *t, void *user) {
    const tcc_dataset_info *info = user;
    const int64_t hidden = 6;
    const tcc_mlp_options o = {.n_hidden = 1, .hidden = &hidden, .outputs = info->classes};
    const tcc_tensor logits = tcc_mlp(t, tcc_input(t, "x"), &o);
    tcc_output(t, "logits", logits);
    tcc_output(t, "probabilities", tcc_softmax(logits, -1));
}

static tcc_status write_files(tcc_context *cx, tcc_model *m, const char *learned, const char *folder) {
    enum { MOST = 8 };
    tcc_array params[MOST];
    char path[4200];
    int count = 0;
    const tcc_pair about[] = {{TCC_RUN_KIND, "csv"}, {TCC_RUN_LEARNED, learned}};
    while (count < MOST && tcc_model_param(m, count, &params[count])) count++;
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/" TCC_RUN_PLAN, folder);
    tcc_status status = tcc_model_save_plan(m, NULL, path);
    snprintf(path, sizeof path, "%s/" TCC_RUN_WEIGHTS, folder);
    return status ? status : tcc_safetensors_write(cx, path, params, count, about, 2);
}

tcc_status exported_make(tcc_context *cx, const char *table, const char *folder) {
    const tcc_data_options from = {.size = sizeof from, .kind = "csv", .path = table};
    const tcc_model_options how = {.size = sizeof how, .device = "cpu", .seed = 3};
    tcc_dataset *data;
    tcc_dataset_info info;
    tcc_model *m = NULL;
    char *learned = NULL;
    float none = 0;
    tcc_status status = tcc_dataset_open(cx, &from, &data);
    if (status) return status;
    tcc_dataset_get_info(data, &info);
    const tcc_array x = {.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {4, info.x.dims[0]}, .data = &none};
    status = tcc_dataset_learned(cx, data, &learned);
    if (!status) status = tcc_model_create(cx, classify, &info, &how, &m);
    if (!status) status = tcc_model_compile(m, false, &x, 1);
    if (!status) status = write_files(cx, m, learned, folder);
    tcc_model_destroy(m);
    tcc_string_free(learned);
    tcc_dataset_close(data);
    return status;
}
