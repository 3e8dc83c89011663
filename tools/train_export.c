/* SPDX-License-Identifier: MIT
 * tcc-train export: a run as a folder that says all of itself: weights, configuration, recipe, labels, tokenizer, a
 * model card, and programs that run without a compiler. */
#include "recipe_rules.h"
#include "run_record.h"
#include "text_file.h"
#include "train_run.h"

#include <traincc/tokenizer.h>

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct exporter {
    run *run;
    const char *folder;
    run_record record; /* of the run's metrics */
} exporter;

static char *path_of(const exporter *e, const char *name) {
    char *path = NULL;
    return asprintf(&path, "%s/%s", e->folder, name) < 0 ? NULL : path;
}

static tcc_status end_file(const exporter *e, text_file *f, const char *name) {
    char *path = path_of(e, name);
    if (!path) fclose(f->out), free(f->text);
    const tcc_status status = path ? text_file_end(f, e->run->cx, path) : TCC_ENOMEM;
    free(path);
    return status;
}

/* -- Weights and programs -- */

static tcc_status write_weights(const exporter *e) {
    run *s = e->run;
    int count = 0;
    tcc_array a, *params;
    char step[24], *path = path_of(e, TCC_RUN_WEIGHTS);
    while (tcc_model_param(s->model, count, &a)) count++;
    params = calloc((size_t)count + 1, sizeof *params);
    for (int i = 0; params && i < count; i++) tcc_model_param(s->model, i, &params[i]);
    snprintf(step, sizeof step, "%" PRId64, s->first_step);
    const tcc_pair about[] = {
        {"traincc.step", step}, {TCC_RUN_KIND, s->recipe->data.kind}, {TCC_RUN_LEARNED, s->learned}};
    const tcc_status status = path && params ? tcc_safetensors_write(s->cx, path, params, count, about, 3) : TCC_ENOMEM;
    free(params);
    free(path);
    return status;
}

/* All that answering or writing runs. */
tcc_status run_compile_export(run *s) {
    static int32_t none;
    tcc_array shape[2];
    tcc_status status = TCC_OK;
    if (!s->language) return run_compile_predictor(s);
    for (int i = 0; status == TCC_OK && tcc_generate_shape(s->data, i, shape); i++) {
        shape[0].data = shape[1].data = &none; /* is not looked at */
        status = tcc_model_compile(s->model, false, shape, 2);
    }
    return status;
}

static tcc_status write_plan(tcc_model *m, const char *folder) {
    char *path = NULL;
    if (asprintf(&path, "%s/" TCC_RUN_PLAN, folder) < 0) return TCC_ENOMEM;
    const tcc_status status = tcc_model_save_plan(m, NULL, path);
    free(path);
    return status;
}

tcc_status run_make_predictor(run *s) {
    tcc_model *const mine = s->model;
    s->model = NULL;
    tcc_status status = run_create_planner(s);
    if (status == TCC_OK) status = run_compile_export(s);
    s->predictor = s->model;
    s->model = mine;
    return status;
}

tcc_status run_keep_predictor(run *s) {
    if (!s->predictor) return TCC_OK;
    const tcc_status status = write_plan(s->predictor, s->folder.path);
    tcc_model_destroy(s->predictor);
    s->predictor = NULL;
    return status;
}

/* -- What says how it is used -- */

static tcc_status write_json(const exporter *e, cJSON *all, const char *name) {
    text_file f;
    char *printed = all ? cJSON_Print(all) : NULL;
    cJSON_Delete(all);
    if (!printed || !text_file_begin(&f)) {
        free(printed);
        return TCC_ENOMEM;
    }
    fprintf(f.out, "%s\n", printed);
    free(printed);
    return end_file(e, &f, name);
}

static void add_number(cJSON *to, const char *key, int64_t value) { cJSON_AddNumberToObject(to, key, (double)value); }

/* What Hugging Face's code calls the numbers of a family. */
static void add_transformer(const recipe *r, cJSON *to) {
    static const struct family {
        const char *model, *layers, *heads, *width, *context, *hidden, *activation;
    } families[] = {
        {"gpt", "n_layer", "n_head", "n_embd", "n_positions", NULL, "activation_function"},
        {"bert", "num_hidden_layers", "num_attention_heads", "hidden_size", "max_position_embeddings",
         "intermediate_size", "hidden_act"},
        {"distilbert", "n_layers", "n_heads", "dim", "max_position_embeddings", "hidden_dim", "activation"}};
    const struct family *f = families;
    while (strcmp(f->model, r->model.name) != 0) f++;
    add_number(to, f->layers, r->model.layers);
    add_number(to, f->heads, r->model.heads);
    add_number(to, f->width, r->model.width);
    add_number(to, f->context, r->model.context);
    if (f->hidden) add_number(to, f->hidden, 4 * r->model.width);
    cJSON_AddStringToObject(to, f->activation, strcmp(r->model.gelu, "tanh") ? "gelu" : "gelu_new");
    if (!f->hidden) cJSON_AddBoolToObject(to, "bias", r->model.bias);
}

static void add_labels(const run *s, cJSON *to) {
    cJSON *names = cJSON_AddObjectToObject(to, "id2label");
    for (int64_t i = 0; i < s->info.classes; i++) {
        char id[24];
        size_t length;
        const char *name = tcc_dataset_label(s->data, i, &length);
        snprintf(id, sizeof id, "%" PRId64, i);
        cJSON_AddStringToObject(names, id, name ? name : id);
    }
    add_number(to, "num_labels", s->info.classes);
}

static tcc_status write_config(const exporter *e) {
    const run *s = e->run;
    const recipe *r = s->recipe;
    cJSON *all = cJSON_CreateObject();
    cJSON_AddStringToObject(all, "model_type", r->model.name);
    cJSON_AddStringToObject(all, "library_name", "traincc");
    cJSON_AddStringToObject(all, "traincc_version", TCC_VERSION);
    if (recipe_has(r, "model.layers")) add_transformer(r, all);
    if (s->language || s->info.vocab_size)
        add_number(all, "vocab_size", s->language ? s->info.classes : s->info.vocab_size);
    if (!s->language && s->info.classes) add_labels(s, all);
    if (recipe_has(r, "model.hidden")) {
        cJSON *hidden = cJSON_AddArrayToObject(all, "hidden_sizes");
        for (int i = 0; i < r->model.hidden.count; i++)
            cJSON_AddItemToArray(hidden, cJSON_CreateNumber(r->model.hidden.v[i]));
    }
    cJSON *shape = cJSON_AddArrayToObject(all, "input_shape");
    for (int i = 0; i < s->info.x.rank; i++) cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)s->info.x.dims[i]));
    return write_json(e, all, "config.json");
}

/* What was learned from the data: names, statistics, the tokenizer. */
static tcc_status write_learned(const exporter *e) {
    cJSON *learned = cJSON_Parse(e->run->learned);
    cJSON *tokenizer = cJSON_DetachItemFromObjectCaseSensitive(learned, "tokenizer");
    const tcc_status status = tokenizer ? write_json(e, tokenizer, "tokenizer.json") : TCC_OK;
    if (status == TCC_OK) return write_json(e, learned, "learned.json");
    cJSON_Delete(learned);
    return status;
}

static tcc_status write_recipe(const exporter *e) {
    text_file f;
    if (!text_file_begin(&f)) return TCC_ENOMEM;
    recipe_print(e->run->recipe, f.out);
    return end_file(e, &f, "recipe.yaml");
}

/* -- The model card -- */

static void put_metrics(const exporter *e, FILE *out) {
    bool any = false;
    for (int i = 0; i < e->record.n_metrics; i++) {
        const record_metric *m = &e->record.metrics[i];
        if (strncmp(m->name, "val_", 4) != 0 || !m->count) continue;
        int64_t at = m->count - 1; /* the last one that is not of a later step */
        while (at > 0 && m->step[at] > (double)e->run->first_step) at--;
        if (!any) fputs("| metric | step | value |\n| --- | --- | --- |\n", out);
        any = true;
        fprintf(out, "| %s | %.0f | %.6g |\n", m->name, m->step[at], m->value[at]);
    }
    if (!any) fputs("It was not evaluated.\n", out);
}

static void put_data(const exporter *e, FILE *out) {
    const recipe *r = e->run->recipe;
    const cJSON *learned = cJSON_Parse(e->run->learned);
    const cJSON *samples = cJSON_GetObjectItemCaseSensitive(learned, "samples");
    fprintf(out, "Kind %s, from `%s`", r->data.kind, r->data.path);
    if (cJSON_IsNumber(samples)) fprintf(out, ", %.0f training samples", samples->valuedouble);
    if (!e->run->language && e->run->info.classes) fprintf(out, ", %" PRId64 " classes", e->run->info.classes);
    fputs(".\n", out);
    cJSON_Delete((cJSON *)learned);
}

static tcc_status write_card(const exporter *e) {
    const run *s = e->run;
    int64_t parameters = 0;
    tcc_array a;
    text_file f;
    if (!text_file_begin(&f)) return TCC_ENOMEM;
    for (int i = 0; tcc_model_param(s->model, i, &a); i++) {
        int64_t numel = 1;
        for (int d = 0; d < a.rank; d++) numel *= a.dims[d];
        if (tcc_model_param_is_trained(s->model, i)) parameters += numel;
    }
    fprintf(f.out,
            "---\nlibrary_name: traincc\n---\n\n# %s\n\nA model `%s` of %" PRId64 " parameters, trained for %" PRId64
            " steps with TrainCC " TCC_VERSION ". Weights: %s.\n\n## Data\n\n",
            s->recipe->model.name, s->recipe->model.name, parameters, s->first_step, s->weights);
    put_data(e, f.out);
    fputs("\n## Metrics\n\n", f.out);
    put_metrics(e, f.out);
    fputs("\n## Use\n\nTrained by `tcc-train recipe.yaml`. ", f.out);
    fputs(s->language ? "`tcc-train generate THIS_FOLDER --prompt TEXT` writes text.\n"
                      : "`tcc-train predict THIS_FOLDER FILE` answers.\n",
          f.out);
    fputs(
        "In C: `tcc_run_open(cx, \"THIS_FOLDER\", &run)`, with libtraincc_rt. As a start of another training:\n"
        "`init_from: THIS_FOLDER`.\n\n"
        "| file | holds |\n| --- | --- |\n| model.safetensors | weights |\n| config.json | shapes, names of classes |\n"
        "| learned.json | what was learned from the training data |\n| recipe.yaml | the recipe, with all keys |\n"
        "| predict.plan | compiled programs, for machines like the one it was exported on |\n",
        f.out);
    return end_file(e, &f, "README.md");
}

tcc_status run_export(run *s) {
    exporter e = {.run = s, .folder = s->options->export_to};
    run_folder folder = {.path = (char *)s->options->export_to, .lock = -1};
    char error[512];
    if (run_folder_make(&folder)) {
        snprintf(s->problem, sizeof s->problem, "export: cannot make the folder %s", e.folder);
        return TCC_EIO;
    }
    record_read(&e.record, s->folder.path, error, sizeof error); /* without metrics the card says so */
    tcc_status status = write_weights(&e);
    if (status == TCC_OK) status = write_plan(s->model, e.folder);
    if (status == TCC_OK) status = write_config(&e);
    if (status == TCC_OK) status = write_learned(&e);
    if (status == TCC_OK) status = write_recipe(&e);
    if (status == TCC_OK) status = write_card(&e);
    record_free(&e.record);
    return status;
}
