/* SPDX-License-Identifier: MIT
 * tcc-train predict: answers for the rows, texts or pictures of a file, or for the validation data, in one of a few
 * formats. */
#include "probability.h"
#include "train_run.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct table {
    run *run;
    enum { AS_TEXT, AS_CSV, AS_JSON } format;
    int64_t top; /* classes that are told, the likeliest first */
    bool all;    /* the probabilities of all classes, in their order */
    int64_t *order;
    char **names; /* of classes, as the format writes them */
    char *key;    /* what answers are told by: a name, as the format writes it */
    char *file;   /* where the rows are from, likewise; NULL: there is one file, or samples are told by their own */
    bool begun;
} table;

__attribute__((format(printf, 2, 3))) static tcc_status problem(run *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(s->problem, sizeof s->problem, format, args);
    va_end(args);
    return TCC_EINVAL;
}

/* -- Texts in a format -- */

static char *quote_csv(const char *text) {
    char *quoted = malloc(2 * strlen(text) + 3), *to = quoted;
    if (!quoted || !text[strcspn(text, ",\"\r\n")]) return quoted ? strcpy(quoted, text) : NULL;
    *to++ = '"';
    for (; *text; text++) {
        if (*text == '"') *to++ = '"';
        *to++ = *text;
    }
    strcpy(to, "\"");
    return quoted;
}

/* Bytes of the UTF-8 character at `s`; 0 where there is none. */
static int character_bytes(const unsigned char *s) {
    const int length = *s < 0x80                 ? 1
                       : *s >= 0xC2 && *s < 0xE0 ? 2
                       : *s >= 0xE0 && *s < 0xF0 ? 3
                       : *s >= 0xF0 && *s < 0xF5 ? 4
                                                 : 0;
    for (int i = 1; i < length; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    return length;
}

/* JSON is UTF-8, which names of files need not be: a byte that is not is written as Python does, as \udcXX, from which
 * os.fsencode makes the name again. Takes `text`. */
static char *escape_bytes(char *text) {
    char *escaped = text ? malloc(6 * strlen(text) + 1) : NULL, *to = escaped;
    for (const char *c = text; escaped && *c;) {
        const int length = character_bytes((const unsigned char *)c);
        if (length) memcpy(to, c, (size_t)length);
        else snprintf(to, 7, "\\udc%02x", (unsigned char)*c);
        to += length ? length : 6;
        c += length ? length : 1;
    }
    if (escaped) *to = '\0';
    free(text);
    return escaped;
}

static char *quote(const table *t, const char *text) {
    if (t->format == AS_TEXT) return strdup(text);
    if (t->format == AS_CSV) return quote_csv(text);
    cJSON *item = cJSON_CreateStringReference(text);
    char *printed = item ? cJSON_PrintUnformatted(item) : NULL;
    cJSON_Delete(item);
    return escape_bytes(printed);
}

static bool make_names(table *t, int64_t classes) {
    t->names = calloc((size_t)classes + 1, sizeof *t->names);
    t->order = calloc((size_t)classes + 1, sizeof *t->order);
    const char *id = t->run->options->predict.id;
    if (!id) id = tcc_dataset_sample_name(t->run->data, TCC_SPLIT_VALIDATION, 0) ? "file" : "row";
    t->key = quote(t, id);
    if (!t->names || !t->order || !t->key) return false;
    for (int64_t i = 0; i < classes; i++) {
        char number[24];
        size_t length;
        const char *name = tcc_dataset_label(t->run->data, i, &length);
        snprintf(number, sizeof number, "%" PRId64, i);
        if (!(t->names[i] = quote(t, name ? name : number))) return false;
    }
    return true;
}

static void put_number(const table *t, double value) {
    if (isfinite(value) || t->format != AS_JSON) printf("%.9g", value);
    else fputs("null", stdout);
}

static void put_probability(const table *t, float p) {
    char text[PROBABILITY_MAX];
    if (!isfinite(p) && t->format == AS_JSON) fputs("null", stdout);
    else fputs(probability_print(p, t->format == AS_TEXT, text), stdout);
}

static void put_name(const table *t, int64_t class) {
    fputs(class >= 0 ? t->names[class] : t->format == AS_JSON ? "null" : "nan", stdout);
}

/* -- An answer -- */

/* The likeliest classes in front. */
static void sort_top(const table *t, const tcc_answer *a) {
    for (int64_t i = 0; i < a->n_values; i++) t->order[i] = i;
    for (int64_t k = 0; k < t->top && k < a->n_values; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < a->n_values; i++)
            if (a->values[t->order[i]] > a->values[t->order[best]] ||
                (a->values[t->order[i]] == a->values[t->order[best]] && t->order[i] < t->order[best]))
                best = i;
        const int64_t moved = t->order[best];
        t->order[best] = t->order[k];
        t->order[k] = moved;
    }
}

/* Cells with a separator in front, but for the first of a line. */
static void put_cells(const table *t, const tcc_answer *a, const char *between, bool first) {
    const bool classes = t->run->info.classes > 0;
    for (int64_t k = 0; classes && k < t->top && k < a->n_values; k++, first = false) {
        fputs(first ? "" : between, stdout);
        put_name(t, a->label < 0 ? -1 : t->order[k]);
        fputs(between, stdout);
        put_probability(t, a->values[t->order[k]]);
    }
    for (int64_t i = 0; (t->all || !classes) && i < a->n_values; i++, first = false) {
        fputs(first ? "" : between, stdout);
        if (classes) put_probability(t, a->values[i]);
        else put_number(t, a->values[i]);
    }
    if (t->run->options->inputs) return;
    if (classes) fputs(between, stdout), put_name(t, a->target_label);
    for (int64_t i = 0; a->target && i < a->n_values; i++) printf("%s%.9g", between, (double)a->target[i]);
}

/* What an answer is told by; NULL: its number. A picture on standard input has no path. */
static const char *id_of(const table *t, const tcc_answer *a) {
    const train_options *o = t->run->options;
    return a->id && !o->predict.id && o->inputs && !strcmp(o->inputs[t->run->input], "-") ? "-" : a->id;
}

static void put_text(const table *t, const tcc_answer *a) {
    const train_options *o = t->run->options;
    const char *id = o->inputs || o->predict.id ? id_of(t, a) : NULL;
    if (t->file) fputs(t->file, stdout);
    if (id) printf("%s%s", t->file ? "\t" : "", id);
    put_cells(t, a, "\t", !id && !t->file);
    putchar('\n');
}

static void put_csv_head(const table *t, const tcc_answer *a) {
    const bool classes = t->run->info.classes > 0;
    if (t->file) fputs("file,", stdout);
    fputs(t->key, stdout);
    for (int64_t k = 1; classes && k <= t->top && k <= a->n_values; k++) {
        if (k == 1) fputs(",prediction,probability", stdout);
        else printf(",prediction_%" PRId64 ",probability_%" PRId64, k, k);
    }
    for (int64_t i = 0; t->all && classes && i < a->n_values; i++) printf(",p_%s", t->names[i]);
    for (int64_t i = 0; !classes && i < a->n_values; i++)
        if (a->n_values == 1) fputs(",prediction", stdout);
        else printf(",prediction_%" PRId64, i + 1);
    for (int64_t i = 0; !t->run->options->inputs && (classes ? i < 1 : i < a->n_values); i++)
        if (i || a->n_values == 1 || classes) printf(i ? ",target_%" PRId64 : ",target", i + 1);
        else fputs(",target_1", stdout);
    putchar('\n');
}

static void put_id(const table *t, const tcc_answer *a) {
    char *id = a->id ? quote(t, id_of(t, a)) : NULL;
    if (id) fputs(id, stdout);
    else printf("%" PRId64, a->index);
    free(id);
}

static void put_csv(table *t, const tcc_answer *a) {
    if (!t->begun) put_csv_head(t, a);
    t->begun = true;
    if (t->file) printf("%s,", t->file);
    put_id(t, a);
    put_cells(t, a, ",", false);
    putchar('\n');
}

static void put_numbers(const table *t, const char *key, const float *values, int64_t count) {
    printf(",\"%s\":", key);
    if (count > 1) putchar('[');
    for (int64_t i = 0; i < count; i++) {
        if (i) putchar(',');
        put_number(t, values[i]);
    }
    if (count > 1) putchar(']');
}

static void put_json(const table *t, const tcc_answer *a) {
    const bool classes = t->run->info.classes > 0;
    if (t->file) printf("{\"file\":%s,%s:", t->file, t->key);
    else printf("{%s:", t->key);
    put_id(t, a);
    if (classes) {
        fputs(",\"prediction\":", stdout);
        put_name(t, a->label);
        fputs(",\"probability\":", stdout);
        put_probability(t, a->label < 0 ? NAN : a->values[a->label]);
    } else {
        put_numbers(t, "prediction", a->values, a->n_values);
    }
    for (int64_t k = 0; classes && t->top > 1 && k < t->top && k < a->n_values; k++) {
        fputs(k ? "," : ",\"top\":[", stdout);
        fputs("[", stdout);
        put_name(t, t->order[k]);
        putchar(',');
        put_probability(t, a->values[t->order[k]]);
        fputs(k + 1 == t->top || k + 1 == a->n_values ? "]]" : "]", stdout);
    }
    for (int64_t i = 0; classes && t->all && i < a->n_values; i++) {
        printf(i ? ",%s:" : ",\"probabilities\":{%s:", t->names[i]);
        put_probability(t, a->values[i]);
        if (i + 1 == a->n_values) putchar('}');
    }
    if (a->target_label >= 0) fputs(",\"target\":", stdout), put_name(t, a->target_label);
    if (a->target) put_numbers(t, "target", a->target, a->n_values);
    fputs("}\n", stdout);
}

static bool put_answer(void *user, const tcc_answer *a) {
    table *t = user;
    if (t->run->info.classes) sort_top(t, a);
    if (t->format == AS_TEXT) put_text(t, a);
    else if (t->format == AS_CSV) put_csv(t, a);
    else put_json(t, a);
    return !*t->run->interrupted && !ferror(stdout);
}

/* -- The task -- */

tcc_status run_check_predictor(run *s) {
    const char *kind = s->recipe->data.kind;
    if (s->language)
        return problem(s, "predict: a language model is not a classifier; tcc-train generate has it write");
    if (s->options->inputs && !tcc_dataset_takes(kind, "unlabelled"))
        return problem(s, "predict: data of kind %s is not read from such a file; give data.val_path=PATH", kind);
    if (s->options->predict.id && !tcc_dataset_takes(kind, "csv_id"))
        return problem(s, "predict: --id names a column of a table, and data of kind %s is none", kind);
    return TCC_OK;
}

tcc_status run_compile_predictor(run *s) {
    tcc_array arrays[2];
    tcc_dataset_get_arrays(s->data, TCC_SPLIT_VALIDATION, arrays);
    tcc_array x = arrays[0]; /* a batch of them */
    float none = 0;
    memmove(x.dims + 1, x.dims, sizeof x.dims - sizeof x.dims[0]);
    x.dims[0] = s->recipe->data.batch_size;
    x.rank++;
    x.data = &none; /* is not looked at */
    return tcc_model_compile(s->model, false, &x, 1);
}

/* Rows are told by their file, too, where there are several; pictures have their paths. */
static bool name_file(table *t) {
    const run *s = t->run;
    const bool named = tcc_dataset_takes(s->recipe->data.kind, "skip_bad");
    free(t->file);
    t->file = NULL;
    if (s->options->n_inputs < 2 || named) return true;
    return (t->file = quote(t, s->options->inputs[s->input])) != NULL;
}

static tcc_status predict_input(table *t) {
    run *s = t->run;
    const tcc_predict_options how = {
        .size = sizeof how, .batch_size = s->recipe->data.batch_size, .num_workers = (int)s->recipe->data.num_workers};
    if (s->pixels) return run_predict_pixels(s);
    if (!name_file(t) || (!t->names && !make_names(t, s->info.classes))) return TCC_ENOMEM;
    return tcc_model_predict(s->cx, s->model, s->data, &how, put_answer, t);
}

tcc_status run_predict(run *s) {
    const train_options *o = s->options;
    const char *format = o->predict.format ? o->predict.format : "text";
    table t = {.run = s,
               .format = !strcmp(format, "csv")    ? AS_CSV
                         : !strcmp(format, "json") ? AS_JSON
                                                   : AS_TEXT,
               .top = o->predict.top > 0 ? (int64_t)o->predict.top : 1,
               .all = o->predict.probabilities};
    tcc_status status = predict_input(&t);
    while (status == TCC_OK && s->input + 1 < o->n_inputs && !*s->interrupted && !ferror(stdout)) {
        s->input++;
        tcc_dataset_close(s->data);
        s->data = NULL;
        status = run_open_data(s);
        if (status == TCC_OK) status = predict_input(&t);
    }
    fflush(stdout);
    run_forget_predicted(s);
    for (int64_t i = 0; t.names && i < s->info.classes; i++) free(t.names[i]);
    free(t.names);
    free(t.key);
    free(t.file);
    free(t.order);
    return status;
}
